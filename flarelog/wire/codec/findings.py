"""Encode and decode Findings: the request, and the findings of each stream in messages of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from flarelog.model import MAX_OFFSET, StreamId
from flarelog.v1 import log_pb2 as pb
from flarelog.wire.codec.base import parse, set_stream, stream_of, text_of

if TYPE_CHECKING:
    from flarelog.detect.base import Finding

_FINDINGS_A_MESSAGE = 200


class Asked(NamedTuple):
    """The request of a Findings."""

    run: str
    site: str = ""
    all: bool = False  # include logs without findings


class FoundIn(NamedTuple):
    """The findings in *stream*, or a part of them."""

    stream: StreamId
    seen: int  # bytes examined
    more: int  # findings not listed, because they were too many
    zone: str  # the receiver's
    findings: Sequence[Finding]


def encode_asked(asked: Asked) -> bytes:
    return pb.FindingsRequest(run=asked.run, site=asked.site, all=asked.all).SerializeToString()


def decode_asked(raw: bytes) -> Asked:
    message = parse(pb.FindingsRequest, raw)
    return Asked(text_of(message.run), text_of(message.site), message.all)


def found_in_messages(found: FoundIn) -> Iterator[FoundIn]:
    """Split *found* into messages of a bounded size."""
    for at in range(0, max(1, len(found.findings)), _FINDINGS_A_MESSAGE):
        yield found._replace(findings=found.findings[at : at + _FINDINGS_A_MESSAGE])


def encode_found(found: FoundIn) -> bytes:
    import json  # most answers have no finding and never import it

    from flarelog.detect.records import kept_record

    said = [json.dumps(kept_record(each)) for each in found.findings]
    message = pb.Found(seen=found.seen, more=found.more, zone=found.zone, findings=said)
    set_stream(message.stream, found.stream)
    return message.SerializeToString()


def decode_found(raw: bytes) -> FoundIn:
    """Decode *raw*. Invalid findings, as of a later version, count as not listed. Raises Malformed, InvalidName."""
    message = parse(pb.Found, raw)
    stream = stream_of(message.stream)
    found = [one for each in message.findings[:_FINDINGS_A_MESSAGE] if (one := _finding(stream, each)) is not None]
    more = message.more + len(message.findings) - len(found)
    return FoundIn(stream, min(message.seen, MAX_OFFSET), min(more, MAX_OFFSET), text_of(message.zone), found)


def _finding(stream: StreamId, said: str) -> Finding | None:
    import json  # most answers have no finding and never import it

    from flarelog.detect.records import finding_of

    try:
        return finding_of(stream, json.loads(said))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
