"""The findings of all logs of a run together: which of them are causes, and in which order."""

from __future__ import annotations

from bisect import bisect, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from operator import itemgetter
from typing import TypeVar

from flarelog.detect import collective, general, network
from flarelog.detect.base import CAUSE, RELAYS, WENT_ON, Finding, Role
from flarelog.detect.desync import desync
from flarelog.detect.found import CAUSES
from flarelog.detect.meant import DISPENSABLE
from flarelog.detect.tracebacks import only_reports
from flarelog.exit_marks import CERTAIN, LIKELY, Exit, end_of
from flarelog.lines.levels import Level
from flarelog.lines.times import SECOND
from flarelog.model import MAX_OFFSET, StreamId, StreamInfo
from flarelog.names import natural
from flarelog.text import legible

SLACK = 2 * SECOND  # clocks of compared sites may still differ by this
BEHIND = 64 << 10  # bytes: a failure with more of its log behind it did not end the program
ENDS = ("exit.code", "exit.signal", "crash.signal")  # signatures that tell that a program ended, not why
LATE = (*ENDS, "process.exit", "process.signal")  # signatures of ends, also in the words of the program's parent
ENDED = (*LATE, "torchrun.failed", "torchrun.signal", "mpi.signal", "slurm.task")  # ends, also in a launcher's words
OUTCOMES = frozenset(
    ("job.failed", "launcher.ends", *LATE, *(each.id for each in collective.SIGNATURES))
)  # signatures that tell that something failed, and give no cause
LINKS = frozenset(("python.traceback", *(each.id for each in (*collective.SIGNATURES, *network.SIGNATURES))))
NAMING = ("log.error", "program.failed")  # any program's own words for a failure
HEADING = "step.failed"  # a heading above or below a program's words for a failure
SLURM = ("slurm.error", "slurm.refused")
RAN_OUT = frozenset(
    ("cuda.oom", "host.oom", "disk.full", "disk.quota", "loss.nan", "slurm.limit", "job.limit", "gpu.ecc", "gpu.lost")
)  # signatures of trouble that no command which the shell did not find can cause
# Signatures and exceptions of what such a command would have set up: packages, another Python, a driver.
SET_UP = DISPENSABLE - {"checkpoint.mismatch", "checkpoint.corrupt"}
UNSET = ("ImportError", "ModuleNotFoundError", "SyntaxError")
MINUTE = 60 * SECOND
MOMENT = 4 << 10  # bytes of a log within which lines belong together
_JOB = next(each for each in general.SIGNATURES if each.id == "job.failed")

Ahead = Callable[[StreamId], int]
InRun = TypeVar("InRun", Finding, StreamInfo)
Placed = tuple[int | None, Finding]  # a finding, and the time by which its line was written
Words = Mapping[tuple[StreamId, int], bool]  # by place: whether the finding there names the failure


def judged(
    findings: Iterable[Finding], infos: Sequence[StreamInfo] = (), ahead: Ahead = lambda stream: 0
) -> list[Finding]:
    """*findings* in the order of time, with those of exit records and of ranks that differ; each a root, a symptom or
    advice. *ahead*: ns by which a stream's clock is ahead.

    A finding without a time was written before the next timed finding of its log, before its command ended, and before
    it arrived (before the log's last byte did, if its arrival is unknown). A finding whose time stays unknown sorts
    last. The end of a command sorts behind all findings of its logs. Each run is judged for itself.
    """
    every = list(findings)
    runs = {each.stream.run for each in every} | {info.stream.run for info in infos}
    if len(runs) > 1:
        timed = [
            one
            for run in sorted(runs, key=natural)
            for one in _timed(judged(_in_run(run, every), _in_run(run, infos), ahead), ahead)
        ]
        return [each for _, each in sorted(timed, key=itemgetter(0))]
    well = {info.stream: info.exits for info in infos if info.exits}
    found = [_ended_well(each, well.get(each.stream, ())) for each in (*every, *exits(infos))]
    placed = _placed(found, infos, ahead)
    words = _words(found, infos)
    placed = _without_relays(_without_shells(_only_ended(placed, words)))
    if any(each.role == "root" for _, each in placed):
        earliest = next((time for time, each in placed if each.role == "root"), None)
        roots: dict[StreamId, list[tuple[int, int]]] = defaultdict(list)
        for time, each in placed:
            if each.role == "root" and time is not None:
                insort(roots[each.stream], (each.offset, time))
        out, ended = list[Finding](), set[tuple[str, str]]()
        for time, each in placed:
            behind = _is_of(each, time, roots.get(each.stream, ())) or _lost(each, ended)
            out.append(_behind(each, time, None if behind else earliest))
            if out[-1].is_root and each.signature in ENDED:
                ended.add((each.stream.run, each.stream.site))
    else:
        out = _named_better(_without_a_root([each for _, each in placed], words))
    for each in desync(out):
        own = next(n for n, other in enumerate(out) if (other.stream, other.offset) == (each.stream, each.offset))
        out.insert(own, each)
    return out


def _in_run(run: str, those: Iterable[InRun]) -> list[InRun]:
    return [each for each in those if each.stream.run == run]


def _timed(findings: Iterable[Finding], ahead: Ahead) -> Iterator[tuple[int, Finding]]:
    """*findings* with the times by which they are sorted; one without a time stays next to the one before it."""
    latest = 0
    for each in findings:
        latest = max(latest, each.time - ahead(each.stream)) if each.time is not None else latest
        yield latest, each


def _behind(each: Finding, time: int | None, earliest: int | None) -> Finding:
    """*each*, written at *time*, with its role in a run that has a root. *earliest*: the time of the first root; None:
    *each* is no root.
    """
    if each.role not in ("cascade", "fallback"):
        return each
    first = each.role == "cascade" and earliest is not None and time is not None and time + SLACK < earliest
    return replace(each, role="root" if first else "symptom")


def _lost(each: Finding, ended: Set[tuple[str, str]]) -> bool:
    """Whether *each* is a lost connection, and the program of another site *ended* before it."""
    return each.signature in LINKS and bool(ended - {(each.stream.run, each.stream.site)})


def _words(found: Iterable[Finding], infos: Iterable[StreamInfo]) -> Words:
    """The fallbacks that may be roots: of each log, the first one with little behind it, or the finding below that
    heading. True: the fallback names the failure, says more than that a job failed, and no exception right behind it
    names it better.
    """
    ends, first = {info.stream: info.committed for info in infos}, dict[StreamId, Finding]()
    raised: dict[StreamId, list[int]] = defaultdict(list)
    for each in found:
        if each.role == "fallback" and ends.get(each.stream, 0) - each.last <= BEHIND:
            first[each.stream] = _better(*sorted((each, first.get(each.stream, each)), key=lambda one: one.offset))
        elif (each.role != "cascade" and not _is_caused(each)) or only_reports(each.text):
            continue
        elif each.signature == "check.failed" or "exception" in each.facts:
            raised[each.stream].append(each.offset)
    return {
        (stream, each.offset): (_slurm(each) > 0 or (_names(each) and _JOB.facts(each.text) is None))
        and not any(0 < offset - each.offset <= MOMENT for offset in raised[stream])
        for stream, each in first.items()
    }


def _is_caused(each: Finding) -> bool:
    """Whether *each* is an exception that a later line of its trace explains."""
    return each.role == "symptom" and CAUSE in each.facts and "at" not in each.facts


def _better(first: Finding, next_: Finding) -> Finding:
    """The one of two fallbacks of a log that tells more: the first, unless it is a heading of the next."""
    if first.signature in NAMING and "exception" in next_.facts and first.offset + first.length == next_.offset:
        return next_  # *first* is the heading of a traceback
    if _slurm(first) >= 0 and next_.offset - first.offset <= MOMENT:
        return next_ if _slurm(next_) > _slurm(first) else first
    heads = first.signature == HEADING and next_.offset - first.offset <= MOMENT
    return next_ if heads and next_.signature in NAMING and ": " in next_.text else first


def _is_of(each: Finding, time: int | None, roots: Sequence[tuple[int, int]]) -> bool:
    """Whether the cascade *each*, written at *time*, belongs to the same failure as the next of its log's *roots*,
    which are offsets and times.
    """
    if each.role != "cascade" or time is None:
        return False
    number = bisect(roots, (each.offset, MAX_OFFSET))
    if number == len(roots):
        return False
    offset, when = roots[number]
    return offset - each.offset <= MOMENT and when - time <= MINUTE


def _names(each: Finding) -> bool:
    """Whether *each* names the failure in a program's own words."""
    return each.signature in NAMING or "exception" in each.facts


def _slurm(each: Finding) -> int:
    """How much a line of Slurm tells; -1 for other lines. Slurm writes several in a burst: a system error tells most,
    and a refused start more than a plain error.
    """
    if each.signature not in SLURM:
        return -1
    return 2 if "why" in each.facts else SLURM.index(each.signature)


def _only_ended(placed: Iterable[Placed], words: Words) -> list[Placed]:
    """*placed*, where the end of a program becomes a cascade if its site told the failure before: by one of *words*
    that names it, a cascade or a root.
    """
    out, sites = list[Placed](), set[tuple[str, str]]()
    for time, each in placed:
        site = each.stream.run, each.stream.site
        told = each.role in ("root", "cascade") or (each.role == "fallback" and words.get((each.stream, each.offset)))
        if told and each.signature not in LATE:
            sites.add(site)
        elif each.signature in ENDS and each.role == "root" and site in sites:
            each = replace(each, role="cascade")
        out.append((time, each))
    return out


def _without_shells(placed: Sequence[Placed]) -> list[Placed]:
    """*placed*, where a command that the shell did not find is a symptom if its script went on to a program that ran
    out of something, or failed by an exception of its own.
    """
    last: dict[StreamId, int] = {}
    for _, each in placed:
        if each.role == "root" and (each.signature in RAN_OUT or _raised_by_itself(each)):
            last[each.stream] = max(each.offset, last.get(each.stream, 0))
    return [
        (time, replace(each, role="symptom"))
        if each.signature == "shell.command" and each.role == "root" and each.offset < last.get(each.stream, 0)
        else (time, each)
        for time, each in placed
    ]


def _raised_by_itself(each: Finding) -> bool:
    """Whether *each* is a traceback that no command can cause which the shell did not find."""
    place, path = each.facts.get("at"), str(each.facts.get("path", "/"))
    return (
        place is not None
        and each.signature not in SET_UP
        and each.facts.get("exception") not in UNSET
        and "/" in path  # else it may be a program
        and "/os.py:" not in str(place)  # a variable of the environment
    )


def _without_relays(placed: Sequence[Placed]) -> list[Placed]:
    """*placed*, where a thread that lost the process at the other end of its queue is a symptom if its site tells of
    another cause: that ended the process.
    """
    told = {
        (each.stream.run, each.stream.site)
        for _, each in placed
        if each.role not in ("symptom", "advice") and RELAYS not in each.facts and each.signature not in ENDED
    }
    return [
        (time, replace(each, role="symptom"))
        if RELAYS in each.facts and (each.stream.run, each.stream.site) in told
        else (time, each)
        for time, each in placed
    ]


def _without_a_root(found: Sequence[Finding], words: Words) -> list[Finding]:
    """*found*, in the order of time, none of them a root by itself, with the roots chosen. The first of *words* that
    names the failure is a root if no cascade stands before it. Otherwise all cascades are roots, except those right
    behind a root of their log. Without cascades, *words* that name nothing are roots.
    The end of a program is a root if its site has none before. A lost connection is no root after the end of another
    site's program.
    """
    cascades = {each.signature for each in found if each.role == "cascade"}
    better = {HEADING: cascades.difference(LATE)}  # cascades that tell more than words that name nothing
    out, named, before = list(found), False, False
    rooted, ended = set[tuple[str, str]](), set[tuple[str, str]]()
    told: dict[StreamId, int] = {}  # by log: the offset of its last cascade that is a root
    for number, each in enumerate(out):
        site, place = (each.stream.run, each.stream.site), (each.stream, each.offset)
        if each.role == "fallback":
            root = (
                place in words
                and not before
                and not ended - {site}
                and (words[place] or not better.get(each.signature, cascades.difference(ENDS)))
            )
            named = named or root
        elif each.role == "cascade" and each.signature in LATE:
            root = not named and site not in rooted
            before = before or each.signature not in ENDS
        elif each.role == "cascade":
            near = 0 < each.offset - told.get(each.stream, each.offset) < MOMENT
            root, before = not named and not _lost(each, ended) and not near, True
            told |= {each.stream: each.offset} if root else {}
        else:
            continue
        rooted |= {site} if root and each.signature not in ENDS else set()
        ended |= {site} if root and each.signature in ENDED else set()
        out[number] = replace(each, role="root" if root else "symptom")
    return out


def _named_better(found: Sequence[Finding]) -> list[Finding]:
    """*found*, where a first root that is only an outcome becomes a symptom of the last finding shortly before it,
    though the program had gone on after that one.
    """
    root = first_root(found)
    if root is None or root.signature not in OUTCOMES:
        return [*found]
    near = [
        each
        for each in found
        if WENT_ON in each.facts
        and each.stream == root.stream
        and 0 < root.offset - each.offset <= MOMENT
        and each.signature not in OUTCOMES
    ]
    if not near:
        return [*found]
    cause = max(near, key=lambda each: each.offset)
    return [
        replace(each, role="root") if each is cause else replace(each, role="symptom") if each is root else each
        for each in found
    ]


def _is_end(each: Finding) -> bool:
    """Whether *each* is the end of a command, from its exit record."""
    return each.signature.startswith("exit.")


def _placed(found: Iterable[Finding], infos: Iterable[StreamInfo], ahead: Ahead) -> list[Placed]:
    """*found* in the order of time, each with the time by which its line was written. The end of a command sorts behind
    all findings of its logs, whatever their times.
    """
    by_stream: dict[StreamId, list[Finding]] = defaultdict(list)
    for each in found:
        by_stream[each.stream].append(each)
    grown = {info.stream: info.grown * 1_000_000 for info in infos if info.grown}
    ends = {info.stream: info.exits for info in infos if info.exits}
    last: dict[str, int] = {}  # by command: the latest time of the findings in its logs
    placed: list[tuple[int | None, str, Finding]] = []
    for stream, those in by_stream.items():
        latest = grown.get(stream)
        for each in sorted(those, key=lambda each: each.offset, reverse=True):
            end = end_of(ends.get(stream, ()), each.offset + each.length)
            process, ended = (end.process, _ended_at(end)) if end is not None else ("", None)
            if each.time is not None:
                latest = each.time - ahead(stream)
            else:
                latest = _earlier(_earlier(latest, ended and ended - ahead(stream)), each.came * 1_000_000)
            if latest is not None:
                last[process] = max(latest, last.get(process, latest))
            placed.append((latest, process, each))
    times: list[Placed] = [(last.get(process) if _is_end(each) else time, each) for time, process, each in placed]
    names = {stream: tuple(map(natural, (stream.run, stream.site, stream.log))) for stream in by_stream}
    return sorted(
        times, key=lambda one: (one[0] is None, one[0] or 0, _is_end(one[1]), names[one[1].stream], one[1].offset)
    )


def _earlier(one: int | None, other: int | None) -> int | None:
    """The earlier of two times; None and 0: unknown."""
    return min(one, other) if one and other else one or other or None


def first_root(findings: Iterable[Finding]) -> Finding | None:
    """The earliest root of *findings*, which are in the order of time."""
    return next((each for each in findings if each.is_root), None)


def _ended_well(each: Finding, ends: Sequence[Exit]) -> Finding:
    """*each*, as a symptom if its command ended with code 0: then it caused no failure."""
    end = end_of(ends, each.offset + each.length)
    if end is None or not end.well or each.role not in CAUSES or _is_end(each):
        return each
    return replace(each, role="symptom", facts={**each.facts, "exit": "the command ended with code 0"})


def exits(infos: Iterable[StreamInfo]) -> list[Finding]:
    """One finding for each command that did not end well. An outer command that ended like one within it (one
    ``flarelog run`` below another) is a symptom; the inner one may be a cause.
    """
    found: dict[str, tuple[StreamId, Exit]] = {}
    for info in infos:
        for end in info.exits:
            known = found.get(end.process)
            if not end.well and (known is None or (end.offset and not known[1].offset)):  # a log with output shows more
                found[end.process] = info.stream, end
    by_site: dict[tuple[str, str], list[Exit]] = defaultdict(list)
    for stream, end in sorted(found.values(), key=lambda one: one[1].started):
        by_site[stream.run, stream.site].append(end)
    out = []
    for stream, end in found.values():
        each, ends = _of_exit(stream, end), by_site[stream.run, stream.site]
        first, last = (bisect(ends, when, key=lambda one: one.started) for when in (end.started, end.ended))
        passed_on = any(_passed_on(inner, end) for inner in ends[first:last])
        out.append(replace(each, role="symptom") if passed_on else each)
    return out


def _passed_on(inner: Exit, outer: Exit) -> bool:
    """Whether *outer* ran all the time that *inner* did and ended alike, or with a shell's code for that signal."""
    within = outer.started < inner.started <= inner.ended <= outer.ended and inner.boot_id == outer.boot_id
    alike = (inner.status, inner.signal) == (outer.status, outer.signal)
    return within and (alike or (inner.signal > 0 and outer.status == 128 + inner.signal))


def _ended_at(end: Exit) -> int | None:
    """The time of *end* by the site's clock, in ns since 1970; None: unknown."""
    return end.when * 1_000_000 or None


def _of_exit(stream: StreamId, end: Exit) -> Finding:
    role: Role
    if end.oom in (CERTAIN, LIKELY):
        name, role, meaning = "host.oom", "root", "The kernel killed the command because memory ran out."
        action = "Give the job more memory, or use less: fewer DataLoader workers, smaller prefetch."
    elif end.signal and end.signal not in (1, 2, 9, 15):
        name, role, meaning = "exit.signal", "root", "The command died of a signal that its own code raised."
        action = "Look at the last lines of its logs."
    else:
        name, role, meaning = "exit.code", "cascade", "The command did not end well."
        action = "Look at the last lines of its logs; after a signal ask who sent it."
    facts: dict[str, str | int] = {"signal": end.signal} if end.signal else {"exitcode": end.status}
    if end.oom:
        facts["oom"] = end.oom
    return Finding(
        name, role, Level.FATAL, stream, end.offset, 0, legible(end.sentence), meaning, action,
        _ended_at(end), None, facts, 1, end.offset,
    )  # fmt: skip
