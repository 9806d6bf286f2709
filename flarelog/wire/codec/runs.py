"""Encode and decode the calls about whole runs: StartRun, EndRun, GetRun, ListRuns and RemoveRun."""

from __future__ import annotations

from flarelog.model import LONGEST_JOB, MAX_OFFSET, ReceiverInfo, Removed, RunInfo
from flarelog.names import run_name
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb
from flarelog.wire.codec.base import parse, text_of


def encode_run(run: str) -> bytes:
    return pb.RunRequest(run=run).SerializeToString()


def decode_run(raw: bytes) -> str:
    return text_of(parse(pb.RunRequest, raw).run)


def encode_list_runs(run: str) -> bytes:
    return pb.ListRunsRequest(run=run).SerializeToString()


def decode_list_runs(raw: bytes) -> str:
    return text_of(parse(pb.ListRunsRequest, raw).run)


_TOTALS = (
    "sites",
    "streams",
    "open",
    "sealed",
    "gaps",
    "failed",
    "unstored",
    "unended",
    "unseen",
    "lost",
    "unverified",
)


def encode_run_info(info: RunInfo) -> bytes:
    totals = {name: min(getattr(info, name), MAX_OFFSET) for name in _TOTALS}  # a peer tells how long its gaps are
    times = {"begun_ms": info.begun, "grown_ms": info.grown}
    return pb.RunInfo(
        run=info.run, state=info.state, bytes=info.size, job=info.job, **totals, **times
    ).SerializeToString()


def decode_run_info(raw: bytes) -> RunInfo:
    """Decode an answer of ListRuns. Raises Malformed, InvalidName."""
    found = parse(pb.RunInfo, raw)
    totals = {name: min(getattr(found, name), MAX_OFFSET) for name in _TOTALS}
    begun, grown = min(found.begun_ms, MAX_OFFSET), min(found.grown_ms, MAX_OFFSET)
    size = min(found.bytes, MAX_OFFSET)
    state, job = legible(found.state, 20), legible(found.job, LONGEST_JOB)
    return RunInfo(run_name(found.run), state, size=size, begun=begun, grown=grown, job=job, **totals)


def decode_remove(raw: bytes) -> tuple[str, str, bool]:
    message = parse(pb.RemoveRunRequest, raw)
    return text_of(message.run), text_of(message.site), message.force


def encode_remove(run: str, site: str, force: bool) -> bytes:
    return pb.RemoveRunRequest(run=run, site=site, force=force).SerializeToString()


def encode_removed(removed: Removed) -> bytes:
    return pb.RemoveRunResponse(streams=removed.streams, bytes=removed.size).SerializeToString()


def decode_removed(raw: bytes) -> Removed:
    found = parse(pb.RemoveRunResponse, raw)
    return Removed(min(found.streams, MAX_OFFSET), min(found.bytes, MAX_OFFSET))


def encode_receiver(about: ReceiverInfo) -> bytes:
    return pb.RunResponse(
        state=about.state,
        version=pb.Version(major=about.major, minor=about.minor),
        clock_ms=about.clock,
        agent=about.agent,
    ).SerializeToString()


def decode_receiver(raw: bytes) -> ReceiverInfo:
    found = parse(pb.RunResponse, raw)
    return ReceiverInfo(
        legible(found.state, 20),
        found.version.major,
        found.version.minor,
        min(found.clock_ms, MAX_OFFSET),
        text_of(found.agent),
    )
