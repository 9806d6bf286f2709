"""Protobuf's own bytes, by hand: numbers, and where the fields of a message lie before it is parsed."""

from __future__ import annotations

from typing import NamedTuple

from flarelog.wire.codec.base import Malformed

SHORT = 4 << 10  # bytes of a message that is parsed whatever it holds
FEW = 64  # fields that any message has at most, but for one that says something of several streams
_FIXED = {1: 8, 5: 4}  # bytes of a field, by its wire type


_SHORTEST = [bytes((value,)) for value in range(0x80)]  # most are: made in a third of the time


def varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _SHORTEST[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(raw: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at *at*, and where it ends. Raises IndexError: for one of more than 63 bits, too, which the generated
    code may cut to 64.
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
    """One of a message: where it begins, where what it says does, and where it ends."""

    tag: int
    begin: int
    body: int
    end: int


def fields_of(raw: bytes | memoryview, most: int, kind: str) -> list[Field]:
    """The fields of the *kind* of message that *raw* is. Raises Malformed: it is none, or has more than *most*."""
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
    """A message that says one thing a million times would be ten times as large once it is parsed. Raises Malformed."""
    if len(raw) > SHORT:
        fields_of(raw, FEW, kind)
