"""Encode and decode Timeline: the request, and the moments of a run in messages of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flarelog.model import LONGEST_REASON, MAX_OFFSET
from flarelog.names import log_name, site_name
from flarelog.stores.moments import HAPPENINGS, HEALTH, Happening, Moment
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb
from flarelog.wire.codec.base import Malformed, parse, text_of
from flarelog.wire.codec.marks import mark_message, mark_of
from flarelog.wire.codec.news import health_of, set_health

MOST_POINTS = 4096  # in the growth of one log
_MOMENTS_A_MESSAGE, _POINTS_A_MESSAGE = 300, 20_000
_NAMES_A_HAPPENING = 64


class Times(NamedTuple):
    """The request of a Timeline."""

    run: str
    site: str = ""  # empty: all
    points: int = 0  # in the growth of each log, at most; 0: a few hundred


def encode_timeline(asked: Times) -> bytes:
    return pb.TimelineRequest(run=asked.run, site=asked.site, points=asked.points).SerializeToString()


def decode_timeline(raw: bytes) -> Times:
    message = parse(pb.TimelineRequest, raw)
    return Times(text_of(message.run), text_of(message.site), min(message.points, MOST_POINTS))


def moments_in_messages(moments: Sequence[Moment]) -> Iterator[Sequence[Moment]]:
    """Split *moments* of one site into messages of a bounded size, each about one log, or about none."""
    begin = size = 0
    for number, one in enumerate(moments):
        new = 1 if one.what == "grown" else _POINTS_A_MESSAGE // _MOMENTS_A_MESSAGE
        if number > begin and (size + new > _POINTS_A_MESSAGE or one.log != moments[begin].log):
            yield moments[begin:number]
            begin, size = number, 0
        size += new
    if moments:
        yield moments[begin:]


def encode_moments(moments: Sequence[Moment]) -> bytes:
    """Encode one message of ``moments_in_messages``."""
    message = pb.Moments(site=moments[0].site, log=moments[0].log)
    for one in moments:
        if one.what == "grown":
            message.grown_ms.append(one.at)
            message.lengths.append(one.length)
            continue
        found = message.moments.add(at_ms=one.at, what=one.what, why=one.text)
        if one.mark is not None:
            found.mark.CopyFrom(mark_message(one.mark))
        elif one.happening is not None:
            found.why, found.count, found.since_ms = one.happening.why, one.happening.count, one.happening.since
            found.logs.extend(one.happening.logs)
        elif one.health is not None:
            set_health(found, one.health)
        else:
            found.length = one.length
    return message.SerializeToString()


def decode_moments(raw: bytes) -> list[Moment]:
    """Decode a message's moments; unknown kinds are dropped. Raises Malformed, InvalidName."""
    message = parse(pb.Moments, raw)
    site = site_name(message.site) if message.site else ""
    log = log_name(message.log) if message.log else ""
    if len(message.grown_ms) != len(message.lengths):
        raise Malformed("the times at which a log grew are not as many as its lengths")
    grown = zip(message.grown_ms, message.lengths, strict=True)
    found = [Moment(min(at, MAX_OFFSET), "grown", site, log, min(length, MAX_OFFSET)) for at, length in grown]
    return found + [one for each in message.moments if (one := _moment(site, log, each)) is not None]


_PLAIN = ("begun", "sealed")


def _moment(site: str, log: str, message: pb.Moment) -> Moment | None:
    at, what = min(message.at_ms, MAX_OFFSET), message.what
    if not site:
        return Moment(at, what, text=legible(message.why, 20)) if what == "run" else None
    if message.HasField("mark"):
        try:
            mark = mark_of(message.mark)
        except Malformed:
            return None  # a kind of a later version
        return Moment(at, type(mark).__name__.lower(), site, log, mark.offset, mark)
    if what in _PLAIN:
        return Moment(at, what, site, log, min(message.length, MAX_OFFSET))
    if what == HEALTH and (health := health_of(message)) is not None:
        return Moment(at, what, site, health=health)
    if what not in HAPPENINGS:
        return None
    logs = tuple(log_name(one) for one in message.logs[:_NAMES_A_HAPPENING])
    why, since = legible(message.why, LONGEST_REASON), min(message.since_ms, MAX_OFFSET)
    happening = Happening(at, what, why, min(message.count, MAX_OFFSET), logs, since)
    return Moment(at, what, site, log, happening=happening)
