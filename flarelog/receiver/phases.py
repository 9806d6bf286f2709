"""The phase of a stream: live, quiet, silent, paused, ended and so on."""

from __future__ import annotations

import enum
from dataclasses import field

from flarelog.completeness import completeness
from flarelog.model import Activity, State, StreamInfo
from flarelog.text import several
from flarelog.values import changed, frozen

QUIET_AFTER = 10.0  # seconds without a byte after which a stream is quiet
HUNG_AFTER = 60.0  # seconds without a byte, and without CPU time of its writers, after which a stream is hung


class Phase(enum.StrEnum):
    LIVE = "live"
    QUIET = "quiet"  # the producer is connected, and sends no byte
    BUSY = "busy"  # quiet, and the processes that write it use the CPU
    HUNG = "hung"  # quiet, and the processes that write it have been idle for a while
    GONE = "gone"  # quiet, and the processes that wrote it have ended
    SILENT = "silent"  # open, without even a heartbeat
    LOST = "lost link"  # no producer has it open, and it has not ended
    WAITING = "waiting"  # quiet, and its idle processes wait for others
    IDLE = "idle"  # quiet, and its idle processes have nothing to do, or write another log
    PAUSED = "paused"  # the receiver has told the producer to wait
    UNSTORED = "not stored"  # no byte was ever stored
    UNREAD = "unreadable"  # the store cannot read it
    OPEN = "open"  # not ended; without a receiver, no more is known
    ENDED = "ended"


@frozen
class Standing:
    """The phase of a stream. *age*: seconds since the phase began, where that is useful."""

    phase: Phase
    age: float | None = None
    why: str = ""  # if paused: the receiver's sentence; if ended: receipt or timeout
    # What an ended log lacks, and what one that goes on has lost, as a sentence.
    incomplete: str = field(default="", compare=False)


def standing(info: StreamInfo, quiet_after: float = QUIET_AFTER) -> Standing:
    """The phase of the stream of *info*, and what the log lacks. *quiet_after*: seconds."""
    one, found = present(info, quiet_after), completeness(info)
    sentence = found.sentence if one.phase is Phase.ENDED else found.loss
    return changed(one, incomplete=sentence) if sentence else one


def present(info: StreamInfo, quiet_after: float = QUIET_AFTER) -> Standing:
    """The phase alone, for which no mark is read."""
    state = info.state or State()
    if info.is_unreadable:
        return Standing(Phase.UNREAD, why=info.unstored)
    if info.unstored:
        return Standing(Phase.PAUSED, why=state.held) if state.held else Standing(Phase.UNSTORED, why=info.unstored)
    if info.sealed:
        return Standing(Phase.ENDED, why="receipt")
    if state.linked is None:
        return Standing(Phase.OPEN, state.grown)
    if state.held:
        return Standing(Phase.PAUSED, why=state.held)
    if not state.linked:
        away = state.changed or 0.0
        if 0 < state.idle_timeout <= away:
            return Standing(Phase.ENDED, away, "timeout")
        # Since the receiver's start no sidecar has opened it: the store knows only when the latest byte came.
        return Standing(Phase.LOST, away if state.heard is not None else max(away, state.grown or 0.0))
    # The producer sends three heartbeats within one idle timeout.
    if state.heard is not None and 0 < state.idle_timeout < 2 * state.heard:
        return Standing(Phase.SILENT, state.heard)
    still = state.grown if state.grown is not None else state.changed or 0.0
    return _quiet(still, state.activity) if still > quiet_after else Standing(Phase.LIVE)


def _quiet(still: float, activity: Activity | None) -> Standing:
    """The phase of a stream without a byte for *still* seconds, whose writers have that *activity*."""
    if activity is None:
        return Standing(Phase.QUIET, still)
    if not activity.processes:
        return Standing(Phase.GONE, still, "the processes that wrote it have ended")
    those = several(activity.processes, "process", "processes")
    if not activity.idle:
        cores = f"{activity.cpu:.0%} of a core" if activity.cpu < 1 else f"{activity.cpu:.1f} cores"
        gpu = f" and a GPU for {activity.gpu:.0f} % of the time" if activity.gpu else ""
        return Standing(Phase.BUSY, still, f"its {those} use{'s' * (activity.processes == 1)} {cores}{gpu}")
    nor = ", and no GPU," if activity.gpu is not None else ""
    why = f"used less than 1 % of a core{nor} for {spoken(activity.idle)}"
    if min(still, activity.idle) < HUNG_AFTER:
        return Standing(Phase.QUIET, still, f"its {those} {why}")
    one = activity.processes == 1
    if activity.writes:
        return Standing(Phase.IDLE, still, f"its {those} write{'s' * one} {activity.writes} instead")
    if activity.listens:
        return Standing(Phase.IDLE, still, f"its {those} listen{'s' * one} on {activity.listens}, and {why}")
    if activity.waits:
        what = f"{'is' if one else 'are'} connected to {activity.waits}, and {why}"
        return Standing(Phase.WAITING, still, f"its {those} {what}")
    return Standing(Phase.HUNG, still, f"its {those} {why}")


_MISSING = {
    Phase.LOST: "no sidecar sends it, and it has not ended",
    Phase.SILENT: "its sidecar is connected, and no heartbeat comes",
}


def missing(one: Standing) -> str:
    """Why the log is not complete, or its rest cannot be had now; empty: it is, or it can, as far as is known."""
    why = one.why if one.phase in (Phase.PAUSED, Phase.UNSTORED, Phase.UNREAD) else _MISSING.get(one.phase, "")
    return "; ".join(filter(None, (why, one.incomplete)))


def lag(info: StreamInfo) -> int | None:
    """Bytes of the source that the receiver does not have yet, by the producer's news; None without news, and for a log
    that the store cannot read.
    """
    if info.sealed or info.is_unreadable or info.state is None or not info.state.end:
        return None
    return max(0, info.state.end - info.committed)


def spoken(seconds: float) -> str:
    """A duration for people: ``42 s``, ``3 min``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    large, small, units = (3600, 60, "h min") if whole < 86400 else (86400, 3600, "d h")
    first, second = whole // large, whole % large // small
    name, other = units.split()
    return f"{first} {name} {second} {other}" if second else f"{first} {name}"
