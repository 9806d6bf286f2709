"""Read and write protobuf's encoding by hand: varints, and the fields of a message before it is parsed."""

from __future__ import annotations

from typing import NamedTuple

from flarelog.wire.codec.base import Malformed

SHORT = 4 << 10  # bytes up to which a message is parsed without a check of its fields
FEW = 64  # fields, at most, of a message without batched parts
_FIXED = {1: 8, 5: 4}  # bytes of a field, by its wire type


_SHORTEST = [bytes((value,)) for value in range(0x80)]  # most varints have one byte; a third of the time


def varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _SHORTEST[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(raw: bytes | memoryview, at: int) -> tuple[int, int]:
    """(number, end) of the varint at *at*. Raises IndexError, also for more than 63 bits, which the generated code may
    cut to 64.
    """
    value = shift = 0
    while shift < 63:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise IndexError


class Field(NamedTuple):
    """A field of a message: the offsets of its tag, its payload and its end."""

    tag: int
    begin: int
    body: int
    end: int


def fields_of(raw: bytes | memoryview, most: int, kind: str) -> list[Field]:
    """The fields of *raw*, a message of the type *kind*. Raises Malformed if it is invalid, or has more than *most*."""
    found, at = list[Field](), 0
    try:
        while at < len(raw):
            begin = at
            tag, at = read_varint(raw, at)
            size = 0
            if tag & 7 == 0:
                at = read_varint(raw, at)[1]
            elif tag & 7 == 2:
                size, at = read_varint(raw, at)
            else:
                size = _FIXED[tag & 7]
            found.append(Field(tag, begin, at, at + size))
            at += size
            if len(found) > most:
                raise Malformed(f"a {kind} of {len(raw)} bytes has more than {most} fields")
        if at > len(raw):
            raise IndexError
    except LookupError:
        raise Malformed(f"a message of {len(raw)} bytes is no {kind}") from None
    return found


def few_fields(raw: bytes | memoryview, kind: str) -> None:
    """Raises Malformed for too many fields: parsed, a million repeated fields take ten times the memory."""
    if len(raw) > SHORT:
        fields_of(raw, FEW, kind)
