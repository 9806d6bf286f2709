"""Encode and decode marks.

An invalid hint, as a time, is clamped, because it must not end a stream; an invalid offset raises Malformed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from flarelog.exit_marks import OOMS, Exit
from flarelog.model import (
    CANNOT_BE_READ,
    LONGEST_REASON,
    MAX_OFFSET,
    Attributes,
    Ended,
    Gap,
    Generation,
    Mark,
    Unread,
    is_unread,
)
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb
from flarelog.wire.codec.base import MAX_TEXT, Malformed, text_of


def mark_message(mark: Mark) -> pb.Mark:
    message = pb.Mark(offset=mark.offset, digest=mark.digest, clock_ms=mark.clock, at_ms=mark.at)
    match mark:
        case Generation():
            message.generation.path = text_of(mark.path)  # a path has up to 4096 arbitrary bytes
            message.generation.source_offset = mark.source_offset
            message.generation.identity = text_of(mark.identity)
            message.generation.head_length = mark.head_length
            message.generation.head_digest = mark.head_digest
            message.generation.notes = text_of(mark.notes)
        case Ended():
            message.ended.reason = text_of(mark.reason)
        case Gap():
            message.gap.length = mark.length
            message.gap.reason = text_of(mark.reason)
        case Unread():
            message.attributes.SetInParent()  # as for Exit
            message.unread.SetInParent()
            message.unread.reason = text_of(mark.reason)
        case Attributes():
            message.attributes.words = text_of(mark.words)
        case Exit():
            message.attributes.SetInParent()  # for older versions, which ignore exit
            _set_exit(message.exit, mark)
    return message


def _set_exit(message: pb.Exit, mark: Exit) -> None:
    message.process, message.status, message.signal, message.core = mark.process, mark.status, mark.signal, mark.core
    message.started_ms, message.ended_ms, message.boot_id = mark.started, mark.ended, text_of(mark.boot_id)
    message.maxrss, message.user_cpu_ms, message.sys_cpu_ms = mark.maxrss, mark.user_cpu, mark.sys_cpu
    if mark.oom_before >= 0:
        message.oom_before = mark.oom_before
    if mark.oom_after >= 0:
        message.oom_after = mark.oom_after
    message.oom_within_ms, message.cgroup, message.oom = mark.oom_within, text_of(mark.cgroup), mark.oom
    message.cause = text_of(mark.cause)
    if mark.until >= 0:
        message.until = mark.until


def _exit(at: int, digest: int, message: pb.Exit, there: int, here: int) -> Exit:
    """Decode an Exit. Invalid numbers are clamped, and an unknown *oom* is dropped: bad hints must not end a stream."""
    texts = message.process, message.boot_id, message.cgroup, message.oom, message.cause
    process, boot_id, cgroup, oom, cause = map(_text, texts)
    within = partial(min, MAX_OFFSET)
    return Exit(
        at,
        digest,
        process,
        status=message.status,
        signal=message.signal,
        core=message.core,
        started=within(message.started_ms),
        ended=within(message.ended_ms),
        boot_id=boot_id,
        maxrss=within(message.maxrss),
        user_cpu=within(message.user_cpu_ms),
        sys_cpu=within(message.sys_cpu_ms),
        oom_before=within(message.oom_before) if message.HasField("oom_before") else -1,
        oom_after=within(message.oom_after) if message.HasField("oom_after") else -1,
        oom_within=within(message.oom_within_ms),
        cgroup=cgroup,
        oom=oom if oom in OOMS else "",
        until=within(message.until) if message.HasField("until") else -1,
        cause=cause,
        clock=there,
        at=here,
    )


def mark_of(message: pb.Mark) -> Mark:
    at, digest = _offset(message.offset), message.digest
    # Clamp invalid times: a bad hint must not end a stream.
    there, here = min(message.clock_ms, MAX_OFFSET), min(message.at_ms, MAX_OFFSET)
    if message.HasField("exit"):
        return _exit(at, digest, message.exit, there, here)
    if message.HasField("unread"):
        return Unread(at, digest, _reason(message.unread.reason), clock=there, at=here)
    match message.WhichOneof("kind"):
        case "generation":
            found = message.generation
            return Generation(
                *(at, digest, _text(found.path), _offset(found.source_offset), _text(found.identity)),
                *(found.head_length, found.head_digest, _text(found.notes)),
                clock=there,
                at=here,
            )
        case "ended":
            return Ended(at, digest, _text(message.ended.reason), clock=there, at=here)
        case "gap":
            return Gap(at, digest, _offset(message.gap.length), _text(message.gap.reason), clock=there, at=here)
        case "attributes":
            return Attributes(at, digest, _text(message.attributes.words), clock=there, at=here)
    raise Malformed("a mark has a kind that this version does not know")


def _reason(text: str) -> str:
    """The reason why a site cannot read a log, which must not read as one of the receiver's own."""
    reason = _text(text)
    said = reason if not reason or is_unread(reason) else f"{CANNOT_BE_READ.lstrip()}{reason}"
    return legible(said, LONGEST_REASON)  # readers show it as the state of the log


def _text(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise Malformed(f"a mark has a text of more than {MAX_TEXT} characters")
    return text_of(text)


def _offset(number: int) -> int:
    if number > MAX_OFFSET:
        raise Malformed(f"a mark has an offset behind {MAX_OFFSET}, longer than any file")
    return number


def marks_of(messages: Iterable[pb.Mark]) -> tuple[Mark, ...]:
    return tuple(mark_of(message) for message in messages)
