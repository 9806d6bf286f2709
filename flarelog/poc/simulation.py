"""One run on one machine, from its announcement to its last receipt, with faults on the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from flarelog.errors import FlarelogError, InvalidOption, TimedOut
from flarelog.model import Code
from flarelog.poc import disk
from flarelog.poc.answers import RUN, answers
from flarelog.poc.intruders import Intruder
from flarelog.poc.machine import END_TIMEOUT, LOOK, PATIENCE, Machine, is_log
from flarelog.poc.moments import MOMENTS, ORDERED
from flarelog.poc.options import FAULTS, PROOF, PROXIED, PocOptions
from flarelog.poc.proxy import Proxy

LATE = 0.8  # seconds before a late receiver starts
PROVOKE = 25.0  # seconds in which each site must have asked for the run; it asks at least every five seconds
LAST = 3.0  # seconds before the end in which no fault begins


@dataclass(slots=True)
class Evidence:
    work: Path
    options: PocOptions
    exit_codes: dict[str, int]  # of each site's last sidecar
    intruders: Sequence[Intruder] = ()
    stalls: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # seconds of each fault and site
    url: str = ""  # of a store that is no directory

    @property
    def store(self) -> str:
        return self.url or str(self.work / "store")


class Simulation:
    """One simulation, for one ``run``. *say* gets a line for each event. Raises NotInstalled, when TLS is asked for."""

    def __init__(self, options: PocOptions, work: Path, say: Callable[[str], None]) -> None:
        self.options, self.work, self.say = options, work, say
        self.machine = Machine(options, work, say)
        self._exit_codes: dict[str, int] = {}
        self._moments = options.moments
        self._mounted = False
        self._struck = ""  # the last fault
        self._costs: dict[str, dict[str, float]] = {}

    def close(self) -> None:
        """End the servers that hold the store."""
        self.machine.close()

    async def run(self) -> Evidence:
        """Simulate the whole run; the servers of its store stay until ``close``. Raises TimedOut when it does not end;
        NotInstalled, when there is no nats-server.
        """
        options = self.options
        limit = 2 * options.length + LATE + PROVOKE + END_TIMEOUT + PATIENCE * len(options.moments)
        try:
            await self._prepare()
            watching = asyncio.create_task(self._watch())
            try:
                async with asyncio.timeout(limit):
                    await self._begin()
            finally:
                watching.cancel()
        except TimeoutError:
            raise TimedOut(f"the run did not end; look at {self.work}") from None
        finally:
            await self.machine.stop()
            if self._mounted:
                disk.unmount(self.machine.store)
        if PROOF in self.options.faults:
            self._corrupt()
        tried = [one for one in self.machine.intruders if one.attempts]
        return Evidence(self.work, self.options, self._exit_codes, tried, self._costs, self.machine.url)

    async def _watch(self) -> None:
        """Keep the stored bytes of each site up to date."""
        while True:
            with contextlib.suppress(FlarelogError):  # no receiver is there at the moment
                await self.machine.look()
            await asyncio.sleep(LOOK)

    async def _prepare(self) -> None:
        if self.options.shared and (why := await self.machine.start_servers("partition" in self._moments)):
            self._leave_out({"partition"}, why)
        if PROXIED & set(self._moments):
            for name in self.options.names:
                self.machine.proxies[name] = Proxy(self.machine.ports[0])
                await self.machine.proxies[name].start()
        if self.options.logs is not None:
            self._leave_out(ORDERED, "the replayed files are complete")
        if "full-disk" in self._moments:
            size = self.options.sites * self.options.size * 5 // 4 + (32 << 20)
            why = disk.mount(self.machine.store, size)
            self._mounted = not why
            if why:
                self._leave_out({"full-disk"}, why)

    def _leave_out(self, faults: set[str], why: str) -> None:
        for name in sorted(faults & set(self._moments)):
            self._moments.remove(name)
            self.say(f"{name} is left out: {why}")

    async def _begin(self) -> None:
        late = "late-receiver" in self.options.faults
        if not late:
            await self.machine.start_receivers()
            await self._announce()
        for name in self.options.names:
            await self.machine.start_sidecar(name)
        for number, name in enumerate(self.options.names):
            # A file that is rotated before the sidecar's first look would be a log of its own.
            state = self.work / "sites" / name / "state"
            await self.machine.until(partial(_has_checkpoint, state), f"the sidecar of {name} looks at its logs")
            await self.machine.start_writer(number, name)
        begun = time.monotonic()
        self.say(f"{len(self.machine.writers)} sites write for about {self.options.length:g} s")
        if late:
            await asyncio.sleep(LATE)
            await self.machine.start_receivers()
            self.say("the receiver has started, but does not know the run yet")
            await self._everyone_missed()
            await self._announce()
            self.say("the run is announced")
        await self._break_things(begun)
        if self._struck:
            await self.machine.goes_on()
        self._account()
        for writer in self.machine.writers.values():
            assert writer.stdin is not None
            writer.stdin.close()  # no more orders
        for writer in self.machine.writers.values():
            if await writer.wait() != 0:
                raise TimedOut(f"a writer failed; look at {self.work}")
        self.say("all bytes are written; the run ends")
        await self._end()

    async def _everyone_missed(self) -> None:
        """Wait until each site has met a receiver that does not know the run, so that the race surely happens."""
        everyone = set(self.options.names)

        def missed() -> set[str]:
            return {site for site, _ in answers(self.work, Code.EXECUTION_EXCEPTION)}

        await self.machine.until(lambda: missed() == everyone, "the receiver has refused each site once", PROVOKE)

    async def _break_things(self, begun: float) -> None:
        names, moments = self.options.names, self._moments
        if self.options.seconds is None:
            for fault in moments:
                await asyncio.sleep(1.2)
                await self._strike(fault, names[::2])
            return
        rng = random.Random(self.options.seed)
        struck = Counter[str]()
        while moments:
            for fault in rng.sample(moments, len(moments)):
                await asyncio.sleep(rng.uniform(0.3, 1.2))
                if time.monotonic() > begun + self.options.seconds - LAST:
                    self.say("faults: " + ", ".join(f"{name} {struck[name]}" for name in moments))
                    return
                await self._strike(fault, rng.sample(names, (len(names) + 1) // 2))
                struck[fault] += 1

    async def _strike(self, fault: str, names: list[str]) -> None:
        self._account()
        self.say(f"{fault}: {FAULTS[fault]}")
        self._struck = fault
        try:
            await MOMENTS[fault](self.machine, names)
        except ProcessLookupError:
            raise TimedOut(f"a process had ended before the fault {fault} reached it; look at {self.work}") from None

    def _account(self) -> None:
        """Note what the last fault cost, until now."""
        longest, fault = self.machine.stalls.longest(), self._struck
        self.machine.stalls.begin()
        if not fault:
            return
        costs = self._costs.setdefault(fault, dict.fromkeys(self.options.names, 0.0))
        costs.update({name: max(seconds, costs[name]) for name, seconds in longest.items()})
        self.say(f"{fault}: stored bytes stood still for at most {max(costs.values()):.1f} s")

    async def _announce(self) -> None:
        async with self.machine.client() as client:
            await client.start_run(RUN)

    async def _end(self) -> None:
        async with self.machine.client() as client:
            await client.end_run(RUN)
        for name, process in self.machine.sidecars.items():
            self._exit_codes[name] = await process.wait()

    def progress(self) -> tuple[int, int]:
        """How many bytes are written, and stored, so far."""
        written, stored = self.machine.stalls.total()
        return max(stored, written), stored  # truncated or removed bytes are no longer there

    def _corrupt(self) -> None:
        path = next(path for path in sorted((self.machine.store / RUN).rglob("*")) if is_log(path))
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        self.say(f"{PROOF}: one bit of {path} is changed")


def _has_checkpoint(state: Path) -> bool:
    return any(path.suffix == ".json" for path in state.glob("*"))


@contextlib.asynccontextmanager
async def workplace(keep: str | None) -> AsyncIterator[Path]:
    """A directory for one simulation: a temporary one, or *keep*, which must be empty or absent. Raises
    InvalidOption.
    """
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="flarelog-poc-") as temporary:
            yield Path(temporary)
        return
    path = Path(keep)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise InvalidOption(f"{keep} is not empty: name an empty directory, or none")
    except OSError as error:
        raise InvalidOption(f"{keep} cannot be used: {error.strerror}") from error
    yield path
