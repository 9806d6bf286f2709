"""The commits of a fleet, simulated event by event: sites, receivers, the shards of a store on NATS JetStream, servers.

- A site writes and pauses with the other sites of its run. Its next message is due a pace after the last one, and not
  before the last one was committed. A message has all bytes that came since.
- A receiver is one core, which takes messages in the order in which they come. So does each shard: what waits while it
  works and syncs is its next batch. A batch is committed once its leader and half of the other replicas have it.
- Server 0 dies, and loses nothing that was committed. A shard that it led takes nothing until the stall is over.

Times are in seconds, sizes in bytes. The same seed gives the same result, and the first sites of a larger fleet are the
sites of a smaller one.
"""

from __future__ import annotations

import bisect
import heapq
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from flarelog.delivery.pace import LATE, Breath
from flarelog.delivery.sending import GATHERED

Figures = Mapping[str, float]
MESSAGE = 512 << 10  # most bytes of a log in one message
BATCH = 256  # most messages of a batch
_DUE, _AT_SHARD, _NEXT_BATCH, _AT_REPLICAS, _LOOK, _DEATH = range(6)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Numbers of machines and shards, with those that may be down."""

    servers: int
    shards: int
    receivers: int


@dataclass(frozen=True, slots=True)
class Frames:
    """The length of a zstd frame, between measured *points*: (length of the log's bytes, times smaller)."""

    points: Sequence[tuple[float, float]]

    def length(self, raw: float) -> float:
        """Bytes of the frame of *raw* bytes; a frame is never longer than they are."""
        at = bisect.bisect_right(self.points, (raw, math.inf))
        if at in (0, len(self.points)):
            return raw / max(1.0, self.points[max(0, at - 1)][1])
        (low, less), (high, more) = self.points[at - 1], self.points[at]
        return raw / (less + (more - less) * math.log(raw / low) / math.log(high / low))


@dataclass(slots=True)
class Outcome:
    """What was seen in *seconds*; shares are of the busiest machine, and 1 is all of its cores."""

    seconds: float
    commits: int = 0
    latencies: list[float] = field(default_factory=list)
    waits: dict[str, float] = field(default_factory=lambda: {"receivers": 0.0, "shards": 0.0, "servers": 0.0})
    receiver_cores: float = 0.0  # of all receivers together
    server_cores: float = 0.0  # of all servers together
    receiver_share: float = 0.0
    server_share: float = 0.0
    shard_share: float = 0.0
    raw: float = 0.0  # bytes of logs that were committed
    stored: float = 0.0  # of one replica
    receiver_rate: float = 0.0  # bytes/s into the busiest receiver, and as many out of it
    server_rate: float = 0.0  # bytes/s into or out of the busiest server, whichever is more
    disk_rate: float = 0.0  # bytes/s of messages that the busiest server stores
    late_until: float = 0.0  # seconds after the death until commits are on time again

    def latency(self, share: float) -> float:
        """The percentile *share* of a commit, from the moment at which it was due."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class _Run:
    """When the sites of one run write and pause: flips[0] to flips[1] they write, to flips[2] they pause, and so on."""

    def __init__(self, rng: random.Random, figures: Figures) -> None:
        self._rng, self._burst = rng, figures["burst"]
        self._means = figures["writes_s"], figures["writes_s"] * (self._burst - 1)
        writes = rng.random() * self._burst < 1
        self.flips = [0.0] if writes else [-1.0, 0.0]
        if self._burst == 1:
            self.flips.append(math.inf)

    def until(self, at: int) -> float:
        """The time of flip *at*."""
        while len(self.flips) <= at:
            self.flips.append(self.flips[-1] + self._rng.expovariate(1 / self._means[len(self.flips) % 2 == 0]))
        return self.flips[at]


class _Site:
    __slots__ = ("at", "bytes", "due", "last", "rate", "receiver", "run", "shard")

    def __init__(self, run: _Run, rate: float) -> None:
        self.run, self.rate = run, rate  # bytes/s while it writes
        self.at = 1 if run.flips[0] == 0 else 2  # the next flip; odd: it writes until then
        self.last = self.bytes = self.due = 0.0
        self.receiver = self.shard = 0

    def gather(self, now: float) -> None:
        """Write until *now*."""
        last = self.last
        while (flip := self.run.until(self.at)) <= now:
            if self.at % 2:
                self.bytes += self.rate * (flip - last)
            last, self.at = flip, self.at + 1
        if self.at % 2:
            self.bytes += self.rate * (now - last)
        self.last = now

    def has(self, length: float) -> float:
        """When it has *length* bytes, if it does not pause before."""
        return (self.last if self.at % 2 else self.run.until(self.at)) + (length - self.bytes) / self.rate


def sites_of(number: int, figures: Figures, seed: int) -> list[_Site]:
    """The first *number* sites."""
    found: list[_Site] = []
    mean, spread = figures["lines"] * figures["line"] * figures["burst"], figures["spread"]
    size = max(1, int(figures["run_sites"]))
    for index in range(-(-number // size)):
        rng = random.Random(f"{seed}-{index}")
        run = _Run(random.Random(f"{seed}-{index}-run"), figures)
        rates = [mean * rng.lognormvariate(-spread * spread / 2, spread) for _ in range(size)]
        found += [_Site(run, max(rate, 1e-3)) for rate in rates]
    return found[:number]


@dataclass(slots=True)
class _Shard:
    leader: int
    others: list[int]
    waiting: list[tuple[int, float, float, float]] = field(default_factory=list)  # (site, due, came, frame)
    busy: bool = False
    opens: float = 0.0
    free: float = 0.0  # the end of its last batch
    worked: float = 0.0


class Simulation:
    """One fleet, with its sites. *pace* None: receivers ask for the pace that flarelog's receivers ask for."""

    def __init__(
        self, fleet: Fleet, sites: int, figures: Figures, frames: Frames, *, pace: float | None, seed: int = 1
    ) -> None:
        self._figures, self._frames, self._rng = figures, frames, random.Random(seed)
        self._fleet, self._pace = fleet, pace
        self._sites = sites_of(sites, figures, seed)
        self._breaths = [Breath() for _ in range(fleet.receivers)]
        self._heard = [0] * fleet.receivers
        self._free = [0.0] * fleet.receivers
        self._cores = [[0.0] * int(figures["server_cores"]) for _ in range(fleet.servers)]
        self._shards = [self._placed(number) for number in range(fleet.shards)]
        self._events: list[tuple[float, int, int, Any]] = []
        self._number = count()
        self._receiver_cpu, self._receiver_bytes = [0.0] * fleet.receivers, [0.0] * fleet.receivers
        self._server_cpu = [0.0] * fleet.servers
        self._in, self._out = [0.0] * fleet.servers, [0.0] * fleet.servers
        self._bound, self._dies, self._stall = figures["bound_ms"] / 1e3, math.inf, 0.0

    def _placed(self, number: int) -> _Shard:
        """A shard's replicas: each server leads equally many, and its followers differ from shard to shard."""
        servers, turn = self._fleet.servers, number // self._fleet.servers
        others = [1 + (turn + one) % (servers - 1) for one in range(int(self._figures["replicas"]) - 1)]
        return _Shard(number % servers, [(number + one) % servers for one in others])

    def run(
        self, seconds: float, warm: float, *, dies: float = math.inf, stall: float = 0.0, spare: bool = False
    ) -> Outcome:
        """Simulate *warm* seconds and then *seconds* more, which are observed. Server 0 dies at *dies*; if that is not
        at the start, the simulation ends once commits are on time again. *spare*: a receiver is down from the start.
        """
        receivers = max(1, self._fleet.receivers - spare)
        rng, self._dies, self._stall = self._rng, dies, stall
        for number, site in enumerate(self._sites):
            site.receiver, site.shard = number % receivers, rng.randrange(self._fleet.shards)
            self._push(rng.random() * (self._pace or 0.1), _DUE, number)
        if dies <= 0:
            self._death(0.0, None)
        elif dies < math.inf:
            self._push(dies, _DEATH, None)
        if self._pace is None:
            for number in range(receivers):
                self._push(1.0, _LOOK, number)
        self._seen = Outcome(seconds)
        self._warm = warm
        steps: Sequence[Callable[[float, Any], None]] = (
            *(self._due, self._at_shard, self._next_batch, self._at_replicas, self._look, self._death),
        )
        on_time = 2 * (self._pace or 1.0)  # so long after the last late commit, no more is learnt of a death
        while self._events and self._events[0][0] < warm + seconds:
            now, _, kind, what = heapq.heappop(self._events)
            steps[kind](now, what)
            if now - dies > stall + self._seen.late_until + on_time and dies > 0:
                self._seen.seconds = now - warm
                break
        return self._summed(receivers)

    def _push(self, when: float, kind: int, what: Any) -> None:
        heapq.heappush(self._events, (when, next(self._number), kind, what))

    def _due(self, now: float, number: int) -> None:
        """A site sends what it has gathered, and its receiver publishes it."""
        site, figures = self._sites[number], self._figures
        site.gather(now)
        if site.bytes < figures["line"] - 1e-6:
            self._push(max(site.has(figures["line"]), now + 1e-6), _DUE, number)
            return
        raw = min(site.bytes, MESSAGE)
        site.bytes -= raw
        site.due = now
        frame = self._frames.length(raw)
        receiver = site.receiver
        cost = figures["receiver_us"] * 1e-6 + frame * figures["receiver_s_gb"] * 1e-9
        start = max(now, self._free[receiver])
        self._free[receiver] = start + cost
        self._heard[receiver] += 1
        if now >= self._warm:
            self._receiver_cpu[receiver] += cost
            self._receiver_bytes[receiver] += frame
            self._seen.raw += raw
            if start - now > self._bound / 2:
                self._seen.waits["receivers"] += start - now
        came = start + cost + figures["hop_ms"] * 1e-3
        self._push(came, _AT_SHARD, (number, now, came, frame))

    def _at_shard(self, now: float, commit: tuple[int, float, float, float]) -> None:
        shard = self._shards[self._sites[commit[0]].shard]
        shard.waiting.append(commit)
        if not shard.busy and now >= shard.opens:
            self._next_batch(now, shard)

    def _next_batch(self, now: float, shard: _Shard) -> None:
        """The leader works on what waits, and sends it to the other replicas."""
        shard.busy = bool(shard.waiting) and now >= shard.opens
        if not shard.busy:
            return
        batch, shard.waiting = shard.waiting[:BATCH], shard.waiting[BATCH:]
        figures, leader = self._figures, shard.leader
        size = sum(one[3] for one in batch) + len(batch) * figures["header"]
        cpu = len(batch) * figures["server_us"] * 1e-6 + size * figures["server_s_gb"] * 1e-9
        start, end = self._worked(leader, now, cpu * figures["leads"])
        done = max(end, start + len(batch) * figures["shard_us"] * 1e-6) + self._sync()
        shard.free = done
        self._push(done, _NEXT_BATCH, shard)
        self._push(end + figures["hop_ms"] * 1e-3, _AT_REPLICAS, (batch, shard, done, cpu, size))
        if now >= self._warm:
            seen = self._seen
            shard.worked += len(batch) * figures["shard_us"] * 1e-6
            seen.waits["servers"] += (start - now) * (start - now > self._bound / 4)
            seen.waits["shards"] += sum(now - one[2] for one in batch if now - one[2] > self._bound / 4)
            seen.stored += size
            self._in[leader] += size
            self._out[leader] += size * len(shard.others)

    def _at_replicas(
        self, now: float, sent: tuple[list[tuple[int, float, float, float]], _Shard, float, float, float]
    ) -> None:
        """The other replicas work; the batch is committed once a majority has it."""
        batch, shard, done, cpu, size = sent
        figures, hop, replicas = self._figures, self._figures["hop_ms"] * 1e-3, int(self._figures["replicas"])
        others = []
        for server in shard.others:
            each = cpu * (1 - figures["leads"]) / (replicas - 1)
            others.append(self._worked(server, now, each)[1] + self._sync() + hop)
            if now >= self._warm:
                self._in[server] += size
        if replicas > 1:
            done = max(done, sorted(others)[replicas // 2 - 1])
        done += hop + figures["floor_ms"] * 1e-3
        seen = self._seen
        for number, due, _, _ in batch:
            site = self._sites[number]
            if due >= self._warm:
                seen.commits += 1
                seen.latencies.append(done - due)
                if done - due > self._bound and done > self._dies:
                    seen.late_until = max(seen.late_until, done - self._dies)
            pace = self._breaths[site.receiver].pace if self._pace is None else self._pace
            self._push(max(done, min(due + pace, site.has(GATHERED))), _DUE, number)

    def _worked(self, server: int, now: float, cpu: float) -> tuple[float, float]:
        """Start and end of *cpu* seconds on the core of *server* that is free first."""
        cores = self._cores[server]
        start = max(now, cores[0])
        heapq.heapreplace(cores, start + cpu)
        if now >= self._warm:
            self._server_cpu[server] += cpu
        return start, start + cpu

    def _sync(self) -> float:
        mean = self._figures["sync_ms"] * 1e-3
        return mean / 2 + self._rng.expovariate(2 / mean) if mean else 0.0

    def _look(self, now: float, receiver: int) -> None:
        """A receiver adjusts its pace, once a second."""
        self._breaths[receiver].heard(self._heard[receiver], late=self._free[receiver] - now > LATE)
        self._heard[receiver] = 0
        self._push(now + 1.0, _LOOK, receiver)

    def _death(self, now: float, _: None) -> None:
        for number, shard in enumerate(self._shards):
            if shard.leader == 0 and shard.others:
                shard.leader = shard.others.pop(number // self._fleet.servers % len(shard.others))
                shard.opens = max(now + self._stall, shard.free)
                self._push(shard.opens, _NEXT_BATCH, shard)
            elif 0 in shard.others:
                shard.others.remove(0)

    def _summed(self, receivers: int) -> Outcome:
        seen, seconds = self._seen, self._seen.seconds
        seen.receiver_cores, seen.server_cores = sum(self._receiver_cpu) / seconds, sum(self._server_cpu) / seconds
        seen.receiver_share = max(self._receiver_cpu[:receivers]) / seconds
        seen.server_share = max(self._server_cpu) / seconds / self._figures["server_cores"]
        seen.shard_share = max(shard.worked for shard in self._shards) / seconds
        seen.receiver_rate = max(self._receiver_bytes) / seconds
        seen.disk_rate = max(self._in) / seconds
        seen.server_rate = max(*self._in, *self._out) / seconds
        return seen
