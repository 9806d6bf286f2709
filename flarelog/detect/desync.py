"""NCCL's desync: ranks of a process group that reached different collectives, by their own reports."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from flarelog.detect.base import Finding
from flarelog.lines.levels import Level
from flarelog.text import several

LISTED = 8  # ranks that a sentence names


def desync(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each process group whose ranks report that they reached different collectives.

    It needs at least two ranks that told their last enqueued collective.
    """
    groups: dict[tuple[object, ...], dict[int, Finding]] = defaultdict(dict)
    ops: dict[tuple[str, int], str] = {}
    worlds: dict[str, int] = {}
    for each in findings:
        if each.rank is None:
            continue
        worlds[each.stream.run] = max(worlds.get(each.stream.run, 0), each.rank + 1)
        if each.signature == "nccl.state" and isinstance(each.facts.get("enqueued"), int):
            key = each.stream.run, each.facts.get("pg", ""), each.facts.get("group", "")
            groups[key].setdefault(each.rank, each)
        elif each.signature == "nccl.timeout" and "op" in each.facts:
            seq = f" {each.facts['seq']}" if "seq" in each.facts else ""
            ops.setdefault((each.stream.run, each.rank), f"{each.facts['op']}{seq}")
    return [found for key, ranks in groups.items() if (found := _differ(ranks, ops, worlds[str(key[0])])) is not None]


def _differ(ranks: Mapping[int, Finding], ops: Mapping[tuple[str, int], str], world: int) -> Finding | None:
    enqueued = {rank: int(each.facts["enqueued"]) for rank, each in ranks.items()}
    if len(enqueued) < 2 or len(set(enqueued.values())) < 2:
        return _waits(ranks, ops) if len(enqueued) > 1 else None
    counts = Counter(enqueued.values())
    most = max(counts, key=lambda value: (counts[value], value))
    odd = {rank: value for rank, value in sorted(enqueued.items()) if value != most}
    said = ", ".join(_said(rank, value, ranks, ops) for rank, value in list(odd.items())[:LISTED])
    more = f" and {several(len(odd) - LISTED, 'more rank')}" if len(odd) > LISTED else ""
    text = f"{said}{more}; the others enqueued {most}"
    silent = world - len(ranks)
    if silent > 0:
        text += f"; {silent} of {world} ranks said nothing"
    first = ranks[min(odd, key=lambda rank: (odd[rank], rank))]
    return _desync(first, text, {"differs": _list(odd), "enqueued": most})


def _said(rank: int, value: int, ranks: Mapping[int, Finding], ops: Mapping[tuple[str, int], str]) -> str:
    op = ops.get((ranks[rank].stream.run, rank))
    return f"rank {rank} enqueued {value}" + (f" and waited in {op}" if op else "")


def _waits(ranks: Mapping[int, Finding], ops: Mapping[tuple[str, int], str]) -> Finding | None:
    """The desync of ranks that enqueued equally many collectives and waited in different ones; None: no desync."""
    waits = {rank: op for rank, each in sorted(ranks.items()) if (op := ops.get((each.stream.run, rank))) is not None}
    counts = Counter(waits.values())
    if len(counts) < 2:
        return None
    most = max(counts, key=lambda op: (counts[op], op))
    odd = {rank: op for rank, op in waits.items() if op != most}
    said = ", ".join(f"rank {rank} waited in {op}" for rank, op in list(odd.items())[:LISTED])
    return _desync(ranks[next(iter(odd))], f"{said}; the others in {most}", {"differs": _list(odd), "op": most})


def _list(ranks: Mapping[int, object]) -> str:
    return ",".join(map(str, list(ranks)[:LISTED]))


def _desync(first: Finding, text: str, facts: Mapping[str, str | int]) -> Finding:
    return replace(
        first,
        signature="nccl.desync",
        role="root",
        severity=Level.FATAL,
        text=text,
        meaning="The ranks of a process group did not enqueue the same collectives.",
        action="Look at the named rank at this time: it hangs, has ended, or took another branch than the others.",
        facts=facts,
        count=1,
    )
