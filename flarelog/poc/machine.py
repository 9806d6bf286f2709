"""The processes of a simulation, a receiver and for each site a writer and a sidecar, and the effects of faults.

WORK/store/                      the receiver's store; on a disk of its own while that is to fill up
WORK/receiver.log                the receiver's messages
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
import random
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flarelog.client import Client
from flarelog.errors import NOT_ALLOWED, CannotListen, TimedOut
from flarelog.model import Code
from flarelog.poc.answers import ANSWERS, RUN, answers
from flarelog.poc.options import PocOptions
from flarelog.poc.proxy import Proxy

if TYPE_CHECKING:
    from flarelog.poc.certificates import Certificates
    from flarelog.poc.intruders import Intruder
    from flarelog.security.tls import Tls

END_TIMEOUT = 60.0  # seconds from the last byte written to the last receipt
PATIENCE = 30.0  # seconds allowed for a step that takes a fraction of one on an idle machine


class Machine:
    """All processes, in the directory *work*; *say* gets a line for each event.

    Raises NotInstalled, when TLS is asked for.
    """

    def __init__(self, options: PocOptions, work: Path, say: Callable[[str], None]) -> None:
        self.options, self.work, self.say = options, work, say
        self.receiver: asyncio.subprocess.Process | None = None
        self.sidecars: dict[str, asyncio.subprocess.Process] = {}
        self.writers: dict[str, asyncio.subprocess.Process] = {}
        self.proxies: dict[str, Proxy] = {}
        self.certificates: Certificates | None = None
        self.intruders: list[Intruder] = []
        self.port = _free_port()
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
        return f"127.0.0.1:{self.port}"

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

    async def start_receiver(self) -> None:
        ready = self.work / "ready"
        ready.unlink(missing_ok=True)
        policy = () if self.certificates is None else ("--policy", self.certificates.policy)
        self.receiver = await self.spawn(
            self.work / "receiver.log",
            "flarelog.poc.answers",
            self.work / ANSWERS,
            *f"--log-level debug serve --announced-runs-only --listen {self.address} --store".split(),
            self.store,
            "--ready-file",
            ready,
            *self._tls_arguments("receiver"),
            *policy,
        )
        while not ready.exists():
            if self.receiver.returncode is not None:
                raise TimedOut(f"the receiver did not start; look at {self.work / 'receiver.log'}")
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
        port = self.proxies[holder].port if holder in self.proxies else self.port
        return await self.spawn(
            place / "sidecar.log",
            *f"flarelog sidecar --receiver 127.0.0.1:{port} --run {RUN} --site {site} --root".split(),
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
        for process in self._processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate() if process is self.receiver else process.kill()
        for process in self._processes:
            await process.wait()
        for proxy in self.proxies.values():
            await proxy.stop()


def _free_port() -> int:
    """A port that stays free for the receiver while it is down.

    The port is outside the range that the system gives to connections: a connection could take it meanwhile, and a
    client that keeps trying to reach the receiver would in the end connect to itself.
    """
    dynamic = 32768
    with contextlib.suppress(OSError):
        dynamic = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates = range(15000, min(30000, dynamic)) or range(61000, 65000)
    for port in random.sample(candidates, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise CannotListen("no port is free for the receiver; stop what listens on this machine's ports")
