"""The finding of a Python traceback: the first exception of its chain that a signature knows, else its last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from flarelog.detect.base import CAUSE, FACT, LOOKED, PART, PROGRAM, RELAYS, STOPPED, Fact, Role, Signature, root
from flarelog.detect.going_on import is_of_a_part
from flarelog.detect.speaking import goes_on
from flarelog.detect.table import SIGNATURES, Table
from flarelog.detect.tracebacks import Traceback, only_reports
from flarelog.late import late
from flarelog.lines.levels import Level, level_of
from flarelog.lines.tracebacks import TRACEBACK
from flarelog.text import legible

TRACEBACK_ROOT = root(
    "python.traceback",
    TRACEBACK,
    "",
    "A Python program ended with an exception, or reported one.",
    "The last line of the traceback is the exception, the frame above it the place.",
    severity=Level.ERROR,
)
_DIED = next(each for each in SIGNATURES if each.id == "process.died")
_BETWEEN = "multiprocessing/"  # a frame in these files: the connection is between processes of one machine
_TOP = ("<module>", "_run_module_as_main")  # the functions of a program's first frame
_WARNS = "warnings.warn("  # Python shows the line that warned, behind the warning
_CLOSED = late(  # what a thread still used
    r"(?:\w{1,60}\.){0,6}\w{1,60}: (?:(?i:[\w <>.]{0,120}?\b(?:handle|pipe|queue|file|socket|stream|channel|connection"
    r"|loop|pool|session|executor|transport|writer|reader)(?: object at 0x[0-9a-f]{1,16}>)?"
    r"(?: is| was| has been)?(?: already)? (?:closed|shut ?down)\b)"
    r"|I/O operation on (?:\w{1,20} )?closed |cannot schedule new futures after |Pool not running\b"
    r"|.{0,60}\bat interpreter shutdown\b)"
)
_IGNORED = (
    *("Exception ignored in", "Error in atexit", "--- Logging error ---"),  # Python's own words
    "Record was: {",  # loguru's, of a handler that failed
)
_BAR_ENDS = late(r"/(?:s|it)\b[^\]]{0,200}\]")  # a program that ends leaves its last bar, without a level
_PACKAGE = late(r"[/\\](?:site|dist)-packages[/\\]")
# Exceptions of a thread that lost the process at the other end of its queue.
_LOST = ("ConnectionResetError", "ConnectionRefusedError", "BrokenPipeError", "EOFError", "FileNotFoundError")
_ROLES: Mapping[str, tuple[Role, str]] = {
    "KeyboardInterrupt": ("symptom", "Ctrl-C or SIGINT interrupted the program."),
    "SystemExit": ("symptom", "The program ended itself."),
    "ChildFailedError": ("symptom", "A launcher reports that a worker failed."),
    "ConnectionResetError": ("cascade", "The other end of a connection ended it."),
    "ConnectionRefusedError": ("cascade", "No process listened at the other end of a connection."),
    "ConnectionError": ("cascade", "A connection failed."),
    "BrokenPipeError": ("cascade", "The process that reads from this one has ended."),
    "EOFError": ("cascade", "Another process or a file ended before its time."),
    "DistBackendError": ("cascade", "A collective failed, mostly because another rank did."),
    "DistNetworkError": ("cascade", "The network between ranks failed."),
    "DistStoreError": ("cascade", "The ranks' common store does not answer."),
    "TimeoutError": ("cascade", "Something did not answer in time."),
    "ActorDiedError": ("cascade", "A worker of Ray ended."),
    "CancelledError": ("symptom", "A task was cancelled."),
}
"""Exceptions that mostly follow from another failure: their roles and meanings."""


class Told(NamedTuple):
    signature: Signature
    facts: Mapping[str, Fact]
    text: str
    key: tuple[str, ...]  # facts that tell findings apart, if not the signature's key
    reported: bool  # the program went on, or said so: the exception is no cause


def told(found: Traceback, table: Table) -> Told:
    """The finding by *table* of the whole block *found*, in which something was raised."""
    last, first, after = found.raised[-1], found.raised[0], found.after
    facts: dict[str, Fact] = {"exception": legible(last.type, FACT)}
    if len(found.raised) > 1 and first.type != last.type:
        facts[CAUSE] = legible(first.type, FACT)
    if found.frame is not None:
        facts["at"] = legible(f"{found.frame[0]}:{found.frame[1]}", 200)
    if whose := _stopped(found):
        facts[STOPPED] = whose
    handled, went_on = _handled(found), _went_on(found.before, after, table)
    if found.relays and last.type in _LOST:
        facts[RELAYS] = "what processes send"
        return Told(_DIED, facts, last.text, (RELAYS,), went_on)
    for one in found.raised:
        if (known := table.of(one.text, general=False)) is not None:
            each, more = known
            if each.id == "net.unreachable" and found.frame is not None and _BETWEEN in found.frame[0]:
                each, more = _DIED, {}
            if handled == "advice" or went_on:
                each = replace(each, role="advice" if handled == "advice" else "symptom")
            elif each.role in ("root", "cascade") and _is_told(found):
                each = replace(each, role="fallback")
            return Told(each, {**facts, **more}, one.text, (), bool(handled) or went_on)
    each = TRACEBACK_ROOT
    role = _ROLES.get(last.type.rpartition(".")[2])
    if role and (len(found.raised) == 1 or first.type.rpartition(".")[2] in _ROLES):
        each = replace(each, role=role[0], meaning=role[1])
    elif _CLOSED.match(last.text) is not None:
        each = replace(each, role="cascade", meaning="Something was closed that this thread still used.")
    elif only_reports(last.text):
        each = replace(each, role="cascade", meaning="Another process failed; this exception does not say why.")
    if handled == "advice" or went_on:
        gone_on: Role = "advice" if handled else "symptom"
        each = replace(each, role=gone_on, meaning="A program reported an exception, and went on.")
    elif handled and each.role != "symptom":
        each = replace(each, role=handled)
    return Told(each, facts, last.text, ("exception", "at"), bool(handled) or went_on)


def _stopped(found: Traceback) -> str:
    """What may have ended by the exception: the program, or a client, worker or rank; empty: something caught it."""
    if is_of_a_part(found.prefix) or is_of_a_part(found.before):
        return PART
    caught = found.top[1] not in ("", *_TOP) or (level_of(found.before) or Level.INFO) >= Level.WARNING
    return "" if caught or _is_import(found) else PROGRAM


def _is_import(found: Traceback) -> bool:
    """Whether a package caught the exception as it was imported: else the frames of its program stood first."""
    return found.top[1] == _TOP[0] and _PACKAGE.search(found.top[0]) is not None


def _handled(found: Traceback) -> Role | None:
    """The role of an exception that was only reported, by Python itself, by a package, in a message of the program or
    behind a warning; None: it was raised. Behind a warning it is a fallback: the warning may be a line of its own,
    before the program's end.
    """
    said = found.before[:LOOKED]
    if any(text in said for text in _IGNORED):
        return "advice"
    return "fallback" if level_of(said) is Level.WARNING or _is_import(found) or _is_told(found) else None


def _is_told(found: Traceback) -> bool:
    """Whether a message of a low level has the traceback, so that the program caught the exception."""
    bars = [*_BAR_ENDS.finditer(found.heading[:LOOKED])]
    level = level_of(found.heading[bars[-1].end() if bars else 0 :])
    return level is not None and level <= Level.WARNING


def _went_on(before: str, after: str, table: Table) -> bool:
    """Whether the lines *before* and *after* a traceback say that the program went on after it."""
    level, then = level_of(before), level_of(after)
    warned = level is Level.WARNING and then is not None and then <= Level.WARNING
    announced = level is not None and level <= Level.WARNING and goes_on(before)
    return (
        goes_on(after, after=True)
        or (warned and then is Level.WARNING)
        or (bool(after) and (announced or warned) and not table.has(after))
        or after.lstrip().startswith(_WARNS)
    )
