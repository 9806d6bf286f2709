"""The kill sweep: a story is played again and again, and its victim dies at one I/O call after the other.

    python -m integration.harness.sweep [STORY ...] [--apart N] [--every N] [--lanes N] [--seed N]

A play without kills counts the victim's calls. Then, for each N from 1 on, a play kills the victim at its N-th call,
and each successor after ``--apart`` more calls, until each counted call has been a process's last one; the moments
(before, within and after a call) take turns. A call site that misses a kill at one of its moments then gets plays of
its own. The lanes run in parallel; each is a process that forks the sidecars and receivers of its plays.
"""

from __future__ import annotations

import argparse
import gc
import json
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from integration.harness.failpoints import Kill, Moment, divisible
from integration.harness.killing import (
    Play,
    at_random,
    from_the_end,
    in_memory,
    of_the_receiver,
    of_the_sidecar,
    while_names_move,
    with_a_checkpoint,
)

_TREE = Path(__file__).parents[2]
LANES = 4
APART = 100  # calls; the first that a process makes to find out where it is are fewer
SPARE = 4  # spare kills: each new process adds calls of its own to those of the quiet play
CHAIN = 8  # kills aimed at call sites, in one play


@dataclass(frozen=True)
class Story:
    """A story, its victim, and whether the other end dies in the same moment."""

    tell: Callable[[Play], None]
    victim: str
    both: bool = False


STORIES = {
    "sidecar": Story(of_the_sidecar, "sidecar"),
    "sidecar-state": Story(with_a_checkpoint, "sidecar"),
    "sidecar-names-move": Story(while_names_move, "sidecar"),
    "sidecar-at-end": Story(from_the_end, "sidecar"),
    "receiver": Story(of_the_receiver, "receiver"),
    "receiver-memory": Story(in_memory, "receiver"),
    "both-by-sidecar": Story(of_the_sidecar, "sidecar", both=True),
    "both-by-receiver": Story(of_the_receiver, "receiver", both=True),
}
RANDOM = "random"
MOMENTS: tuple[Moment, ...] = ("before", "within", "after")

Kills = list[Kill]


@dataclass
class Played:
    """The result of one play."""

    calls: list[str]  # the sites of all of the victim's calls
    killed: list[str]  # MOMENT SITE


@dataclass
class Swept:
    """The result of a sweep: how often each call site was killed in each way."""

    story: str
    calls: int
    killed: Counter[str] = field(default_factory=Counter)
    owed: set[str] = field(default_factory=set)  # MOMENT SITE that every play reaches

    @property
    def kills(self) -> int:
        return self.killed.total()

    @property
    def missed(self) -> list[str]:
        return sorted(self.owed - self.killed.keys())

    def __str__(self) -> str:
        sites = sorted({which.split(" ", 1)[1] for which in self.killed})
        rows = [f"{self.story}: {self.calls} calls in a quiet play, {self.kills} kills at {len(sites)} call sites"]
        rows.append(f"{'before':>8}{'within':>8}{'after':>8}")
        for site in sites:
            counts = (self.killed[f"{moment} {site}"] for moment in MOMENTS)
            rows.append("".join(f"{count or '-':>8}" for count in counts) + f"  {site}")
        return "\n".join(rows)


def ways(site: str, moments: Iterable[Moment]) -> list[str]:
    return [f"{moment} {site}" for moment in moments if moment != "within" or divisible(site)]


# --- a lane


def lane() -> None:
    """Play the requests on stdin, a JSON object a line, and answer on stdout."""
    directory = Path(tempfile.mkdtemp(prefix="flarelog-"))
    gc.freeze()  # later collections then do not write to, and so copy, the shared pages of the forks
    try:
        for number, line in enumerate(sys.stdin):
            asked = json.loads(line)
            try:
                answer = _play(directory / str(number), **asked)
            except Exception:  # one failed play must not stop the next, perhaps of another test
                answer = {"trouble": f"{line}{traceback.format_exc()}"}
            print(json.dumps(answer), flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _play(directory: Path, story: str, kills: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    wanted = [Kill(**kill) for kill in kills]
    if story == RANDOM:
        play = Play(directory, {"sidecar": iter(wanted[::2]), "receiver": iter(wanted[1::2])})
        victims = [play.sidecar, play.receiver]
    else:
        told = STORIES[story]
        other = "receiver" if told.victim == "sidecar" else "sidecar"
        if told.both:
            wanted = [replace(kill, other=str(directory / f"{other}.pid")) for kill in wanted]
        play = Play(directory, {told.victim: iter(wanted)})
        victims = [getattr(play, told.victim)]
    try:
        if story == RANDOM:
            at_random(play, seed)
        else:
            told.tell(play)
    finally:
        play.close()
    shutil.rmtree(directory)
    return {
        "calls": [call for victim in victims for call in victim.calls],
        "killed": [death for victim in victims for death in victim.killed],
    }


class Lanes:
    """Processes that play in parallel. Use as a context manager."""

    def __init__(self, count: int = LANES) -> None:
        command = [sys.executable, "-m", "integration.harness.sweep", "--lane"]
        self._lanes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_TREE)
            for _ in range(count)
        ]
        self._free: queue.SimpleQueue[subprocess.Popen[str]] = queue.SimpleQueue()
        for process in self._lanes:
            self._free.put(process)
        self._threads = ThreadPoolExecutor(count)

    def __enter__(self) -> Lanes:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        for process in self._lanes:
            if kind is not None:
                process.kill()  # its children die with it
            assert process.stdin is not None
            process.stdin.close()
        self._threads.shutdown(cancel_futures=True)
        for process in self._lanes:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def play(self, story: str, all_kills: Iterable[Kills], seed: int = 0) -> list[Played]:
        """Run a play for each of *all_kills*. Raises AssertionError with the trouble of one play."""
        return list(self._threads.map(lambda kills: self._ask(story, kills, seed), all_kills))

    def _ask(self, story: str, kills: Kills, seed: int) -> Played:
        process = self._free.get()
        assert process.stdin is not None
        assert process.stdout is not None
        ask = {"story": story, "kills": [vars(kill) for kill in kills], "seed": seed}
        process.stdin.write(json.dumps(ask) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline() or '{"trouble": "the lane ended"}')
        self._free.put(process)
        if "trouble" in answer:
            raise AssertionError(answer["trouble"])
        return Played(**answer)


# --- sweeping


def sweep(
    lanes: Lanes, story: str, *, apart: int = APART, every: int = 1, aimed: tuple[Moment, ...] = MOMENTS
) -> Swept:
    """Kill the victim of *story* at every call, or, with *every*, at one in so many. *apart* 0: one kill a play.

    *aimed*: the ways in which each call site must be killed: the missed ones get plays of their own.
    """
    quiet = lanes.play(story, [[], [], []] if aimed else [[]])
    calls = max(len(play.calls) for play in quiet)
    sites = set.intersection(*(set(play.calls) for play in quiet))
    swept = Swept(story, calls, owed={way for site in sites for way in ways(site, aimed)})
    many = calls // apart + SPARE if apart else 1
    firsts = range(1, (apart or calls) + 1, every)
    _count(swept, lanes.play(story, [_kills(first, apart, many) for first in firsts]))
    # The missed ways, a few a play, in the order of their call sites.
    last = {site: number for number, site in enumerate(quiet[0].calls)}
    for chain in (CHAIN, 1, 1, 1, 1) if aimed else ():
        ways_left = sorted(swept.missed, key=lambda way: last[way.split(" ", 1)[1]])
        chains = -(-len(ways_left) // chain)
        plays = lanes.play(story, [[_aimed(way) for way in ways_left[n::chains]] for n in range(chains)])
        _count(swept, plays)
    if aimed:
        # A play aimed at this site alone did not reach it, so not every play makes this call.
        swept.owed -= {
            way for way, play in zip(ways_left, plays, strict=True) if way.split(" ", 1)[1] not in play.calls
        } & set(swept.missed)
    return swept


def _kills(first: int, apart: int, many: int) -> Kills:
    ats = [first] + [apart] * (many - 1)
    return [Kill(at, MOMENTS[(first + number) % 3]) for number, at in enumerate(ats)]


def _aimed(way: str) -> Kill:
    moment, site = way.split(" ", 1)
    return Kill(1, moment, site)  # type: ignore[arg-type]


def _count(swept: Swept, plays: list[Played]) -> None:
    for play in plays:
        swept.killed.update(play.killed)


def by_turns(lanes: Lanes, seed: int, *, plays: int, kills: int = 20) -> int:
    """Run *plays* in which both ends die at random calls, at most *kills* times together; return the
    number of kills.
    """
    chance = random.Random(seed)
    moments: tuple[Moment, ...] = ("before", "after", "within")
    every = [
        [Kill(int(10 ** chance.uniform(0, 2.5)), chance.choice(moments)) for _ in range(kills)] for _ in range(plays)
    ]
    return sum(len(play.killed) for number in range(1) for play in lanes.play(RANDOM, every, seed + number))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m integration.harness.sweep", description=__doc__)
    parser.add_argument("stories", nargs="*", metavar="STORY", help=" ".join([*STORIES, RANDOM]))
    parser.add_argument("--apart", type=int, default=APART, help="calls from one kill to the next; 0: one kill a play")
    parser.add_argument("--every", type=int, default=1, help="one call in so many")
    parser.add_argument("--lanes", type=int, default=LANES)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--plays", type=int, default=20, help="of the random story")
    parser.add_argument("--lane", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.lane:
        lane()
        return
    total = 0
    with Lanes(options.lanes) as lanes:
        for story in options.stories or [*STORIES, RANDOM]:
            if story == RANDOM:
                print(f"random: seed {options.seed}", flush=True)
                kills = by_turns(lanes, options.seed, plays=options.plays)
                print(f"random: {kills} kills")
            else:
                swept = sweep(lanes, story, apart=options.apart, every=options.every)
                kills = swept.kills
                print(swept, flush=True)
                assert not swept.missed, swept.missed
            total += kills
    print(f"{total} kills: no byte lost, repeated or out of order")


if __name__ == "__main__":
    main()
