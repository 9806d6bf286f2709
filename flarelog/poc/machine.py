"""The processes of a simulation, receivers and for each site a writer and a sidecar, and the effects of faults.

WORK/store/                      the receiver's store; on a disk of its own while that is to fill up
WORK/receiver.log                the receiver's messages; of a second one: receiver-2.log
WORK/nats/                       the nats-servers: data, configuration and messages of each
WORK/sites/SITE/logs/            the logs of the site's writer
WORK/sites/SITE/truth.json       the writer's own account of them
WORK/sites/SITE/sidecar.log      the messages of the site's sidecar
WORK/intruders/NAME/             logs and messages of an intruder; certificates.py has its own files
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flarelog.client import Client
from flarelog.errors import NOT_ALLOWED, TimedOut
from flarelog.model import Code
from flarelog.poc.answers import ANSWERS, RUN, answers
from flarelog.poc.network import Network, NoNetwork
from flarelog.poc.options import PocOptions
from flarelog.poc.ports import free_ports
from flarelog.poc.proxy import Proxy
from flarelog.poc.servers import Servers, found
from flarelog.poc.stalls import Stalls
from flarelog.stores import choose

if TYPE_CHECKING:
    from flarelog.poc.certificates import Certificates
    from flarelog.poc.intruders import Intruder
    from flarelog.security.tls import Tls

END_TIMEOUT = 60.0  # seconds from the last byte written to the last receipt
RECEIVERS, SERVERS = 2, 3  # of a shared store
LOOK = 0.2  # seconds between two looks at the stored bytes
SHARD = "flarelog-logs-0"  # JetStream's name of the store's one shard: each site meets its leader's death
PATIENCE = 30.0  # seconds allowed for a step that takes a fraction of one on an idle machine


class Machine:
    """All processes, in the directory *work*; *say* gets a line for each event.

    Raises NotInstalled, when TLS is asked for.
    """

    def __init__(self, options: PocOptions, work: Path, say: Callable[[str], None]) -> None:
        self.options, self.work, self.say = options, work, say
        self.receivers: dict[int, asyncio.subprocess.Process] = {}
        self.sidecars: dict[str, asyncio.subprocess.Process] = {}
        self.writers: dict[str, asyncio.subprocess.Process] = {}
        self.proxies: dict[str, Proxy] = {}
        self.certificates: Certificates | None = None
        self.intruders: list[Intruder] = []
        self.ports = free_ports(RECEIVERS if options.shared else 1)  # of the receivers
        self.stalls = Stalls()
        self.network: Network | None = None
        self.nats: Servers | None = None
        self.url = ""  # of the shared store
        self._client: Client | None = None
        self._processes: list[asyncio.subprocess.Process] = []
        if options.tls:
            from flarelog.poc.certificates import Certificates
            from flarelog.poc.intruders import intruders

            self.certificates = Certificates(work, options.names)
            self.intruders = intruders(options.names)

    @property
    def store(self) -> Path:
        return self.work / "store"

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    async def start_servers(self, network: bool) -> str:
        """Start the nats-servers of the shared store; returns why they have no *network* where they can be cut off
        from each other, otherwise "". Raises NotInstalled.
        """
        choose.demand_nats()
        program, origin = await asyncio.to_thread(found)
        self.say(f"{SERVERS} nats-servers: {program}, {origin}")
        why = ""
        try:
            self.network = Network(SERVERS) if network else None
        except NoNetwork as error:
            why = str(error)
        self.nats = Servers(self.work / "nats", SERVERS, program=program, network=self.network)
        await asyncio.to_thread(self.nats.__enter__)
        self.url = self.nats.url()
        room = (1 << 30) + 4 * self.options.sites * self.options.size
        init = f"flarelog store init {self.url} --replicas {SERVERS} --shards 1 --max-bytes {room}"
        if await (await self.spawn(self.work / "init.log", *init.split())).wait():
            raise TimedOut(f"the store could not be made; look at {self.work / 'init.log'}")
        return why

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Wait for *condition*. Raises TimedOut when it does not come true."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimedOut(f"not within {seconds:g} s: {what}; look at {self.work}")
            await asyncio.sleep(0.05)

    async def order(self, name: str, what: str) -> tuple[str, int]:
        """Order the writer of site *name* to do *what*; returns (its log, how many bytes of it are to be stored)."""
        writer = self.writers[name]
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(f"{what}\n".encode())
        line = await writer.stdout.readline()
        if not line:
            raise TimedOut(f"the writer of {name} failed; look at {self.work}")
        answer = json.loads(line)
        return answer["log"], answer["kept"]

    async def rotate(self, name: str, *, once: bool) -> None:
        """Allow the logs of site *name* at most one more rotation, with *once*, or any number."""
        if self.options.logs is None:
            await self.order(name, "rotate-once" if once else "rotate")

    async def look(self) -> None:
        """Look at the written and the stored bytes of each site. Raises CannotConnect, where a receiver must say."""
        asked = asyncio.create_task(self._stored())
        try:
            while not (await asyncio.wait({asked}, timeout=LOOK))[0]:
                self.stalls.saw(self._written(), self.stalls.stored, time.monotonic())  # nothing new can be read
            self.stalls.saw(self._written(), await asked, time.monotonic())
        finally:
            asked.cancel()

    def _written(self) -> dict[str, int]:
        return {name: _size(self.work / "sites" / name / "logs") for name in self.options.names}

    async def _stored(self) -> dict[str, int]:
        names = self.options.names
        if not self.url:
            return {name: _size(self.store / RUN / name) for name in names}
        self._client = self._client or self.client()
        stored = dict.fromkeys(names, 0)
        for info in await self._client.streams(RUN):
            stored[info.stream.site] += info.committed
        return stored

    async def goes_on(self) -> None:
        """Wait until each site has written more, and all bytes that are then written are stored. Raises TimedOut."""
        if self.options.logs is None:
            for name in self.writers:
                await self.order(name, "hold")
                await self.rotate(name, once=False)
        written = self._written()
        await self.until(
            lambda: all(self.stalls.stored.get(name, 0) >= size for name, size in written.items()),
            "the bytes of all sites are stored during a fault",
            2 * PATIENCE,
        )

    async def holds(self, name: str, log: str, size: int) -> None:
        """Wait until *size* bytes of *log* are stored. Raises TimedOut."""
        path = self.store / RUN / name / log
        await self.until(lambda: path.exists() and path.stat().st_size >= size, f"{path} has {size} bytes")

    async def fenced(self, name: str, process: asyncio.subprocess.Process) -> None:
        """Wait until a newer sidecar has fenced the older one of site *name*, which ends. Raises TimedOut."""
        await self.until(lambda: process.returncode is not None, f"the older sidecar of {name} learns of it")
        told = {site for site, _ in answers(self.work, Code.FENCED)}
        if process.returncode != NOT_ALLOWED or name not in told:
            raise TimedOut(f"the older sidecar of {name} ended with {process.returncode}; look at {self.work}")

    async def spawn(self, log: Path, *arguments: object, pipes: bool = False) -> asyncio.subprocess.Process:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as talk:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *map(str, arguments)),
                stdin=asyncio.subprocess.PIPE if pipes else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if pipes else talk,
                stderr=talk,
                # A variable meant for another command of this machine must not change the simulation.
                env={key: value for key, value in os.environ.items() if not key.startswith("FLARELOG_")},
            )
        self._processes.append(process)
        return process

    async def start_receivers(self) -> None:
        await asyncio.gather(*(self.start_receiver(number) for number in range(len(self.ports))))

    async def start_receiver(self, number: int = 0) -> None:
        ready = self.work / f"ready-{number}"
        ready.unlink(missing_ok=True)
        talk = self.work / ("receiver.log" if not number else f"receiver-{number + 1}.log")
        policy = () if self.certificates is None else ("--policy", self.certificates.policy)
        receiver = self.receivers[number] = await self.spawn(
            talk,
            "flarelog.poc.answers",
            self.work / ANSWERS,
            *f"--log-level debug serve --announced-runs-only --listen 127.0.0.1:{self.ports[number]} --store".split(),
            self.url or self.store,
            "--ready-file",
            ready,
            *self._tls_arguments("receiver"),
            *policy,
        )
        while not ready.exists():
            if receiver.returncode is not None:
                raise TimedOut(f"the receiver did not start; look at {talk}")
            await asyncio.sleep(0.02)

    def client(self) -> Client:
        """The operator's connection to the receiver."""
        return Client(self.address, tls=self._tls("operator"))

    def _tls(self, name: str) -> Tls | None:
        return None if self.certificates is None else self.certificates.of(name)

    def _tls_arguments(self, name: str) -> tuple[str, ...]:
        tls = self._tls(name)
        return () if tls is None else tls.arguments()

    async def start_sidecar(self, name: str) -> None:
        site = self.work / "sites" / name
        (site / "logs").mkdir(parents=True, exist_ok=True)
        options = ("--state", site / "state", "--drain-timeout", END_TIMEOUT)
        self.sidecars[name] = await self.run_sidecar(site, name, name, *options)

    async def run_sidecar(self, place: Path, site: str, holder: str, *options: object) -> asyncio.subprocess.Process:
        """Start a sidecar for PLACE/logs that claims to be *site* with the certificate of *holder*, and logs there."""
        address = f"127.0.0.1:{self.proxies[holder].port}" if holder in self.proxies else self.address
        return await self.spawn(
            place / "sidecar.log",
            *f"flarelog sidecar --receiver {address} --run {RUN} --site {site} --root".split(),
            place / "logs",
            *self._tls_arguments(holder),
            *options,
        )

    def talk_of(self, name: str) -> str:
        """The messages of the sidecars of site *name* so far."""
        return (self.work / "sites" / name / "sidecar.log").read_text(errors="replace")

    async def start_writer(self, number: int, name: str) -> None:
        site, options = self.work / "sites" / name, self.options
        replay = ("--replay", options.logs) if options.logs is not None else ()
        shape = f"--bytes {options.size} --seconds {options.length} --rotations {options.rotations}".split()
        self.writers[name] = await self.spawn(
            site / "writer.log",
            "flarelog.poc.writer",
            site / "logs",
            site / "truth.json",
            "--seed",
            options.seed * 1000 + number,
            *shape,
            *replay,
            pipes=True,
        )

    async def stop(self) -> None:
        """End all processes except the nats-servers."""
        if self._client is not None:
            await self._client.__aexit__()
        for process in self._processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate() if process in self.receivers.values() else process.kill()
        for process in self._processes:
            await process.wait()
        for proxy in self.proxies.values():
            await proxy.stop()

    def close(self) -> None:
        """End the nats-servers."""
        if self.nats is not None:
            self.nats.close()
        if self.network is not None:
            self.network.close()


def is_log(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _size(root: Path) -> int:
    """The bytes of all logs below *root*."""
    total = 0
    for path in root.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if is_log(path) else 0
    return total
