"""One run on one machine: a receiver process, and a writer and a sidecar process for each site, with faults on the way.

WORK/store/                      the receiver's store; on a disk of its own while that is to fill up
WORK/receiver.log                what it said
WORK/sites/SITE/logs/            what the site's writer writes
WORK/sites/SITE/truth.json       what it wrote, by its own account
WORK/sites/SITE/sidecar.log      what its sidecar said
WORK/intruders/NAME/             logs and talk of who tries to send what it may not; certificates.py has its own
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flarelog.client import Client
from flarelog.errors import NOT_ALLOWED, CannotListen, InvalidOption, NotFound, TimedOut
from flarelog.options import option
from flarelog.poc.faults import DEFAULT, FAULTS, OF_TLS, PROOF, PROXIED
from flarelog.poc.moments import BALLAST, MOMENTS, ORDERED
from flarelog.poc.proxy import Proxy
from flarelog.poc.talk import MISSED, RUN, told

if TYPE_CHECKING:
    from flarelog.poc.certificates import Certificates
    from flarelog.poc.intruders import Intruder
    from flarelog.security.tls import Tls

LATE = 0.8  # seconds that a late receiver needs to start
PROVOKE = 15.0  # seconds that it does not know the run, at most; each site asks for it at least every five
END_TIMEOUT = 60.0  # seconds from the last byte written to the last receipt
MOMENT = 2.0  # seconds that are added for each fault that needs a moment of its own
PATIENCE = 30.0  # seconds that a thing may take which takes a fraction of one on a machine that is not loaded
LAST = 3.0  # seconds before the end in which no fault begins
SIZE, RATE = 4 << 20, 128 << 10  # bytes a site writes: by default in all, and a second when the length is given
MAX_DISK = 1 << 30  # bytes of memory that the disk which fills up may take


@dataclass(frozen=True, slots=True)
class PocOptions:
    """What is simulated. Raises InvalidOption, NotFound."""

    sites: int = option(3, "How many sites.")
    logs: str | None = option(None, "Replay the files of this directory.", path="existing")
    bytes: int | None = option(
        None, f"That each site writes.  [default: {SIZE}; with --seconds {RATE} for each of them]"
    )
    seconds: float | None = option(
        None,
        "How long the sites write; the faults come again and again meanwhile, in random order. Without: each once.",
    )
    tls: bool = option(
        False,
        "With certificates, which change on the way, and intruders; needs the extra: pip install 'flarelog[tls]'.",
    )
    faults: tuple[str, ...] = DEFAULT
    seed: int = option(1, "Of what is written, in which bursts, and of the order of faults.")

    def __post_init__(self) -> None:
        if not 1 <= self.sites <= 200:
            raise InvalidOption(f"sites must be from 1 to 200, not {self.sites}")
        if self.bytes is not None and self.bytes < 1:
            raise InvalidOption(f"bytes must be positive, not {self.bytes}")
        if self.seconds is not None and not 1 <= self.seconds <= 86400:
            raise InvalidOption(f"seconds must be from 1 to 86400, not {self.seconds:g}")
        if self.logs is not None and not any(path.is_file() for path in Path(self.logs).rglob("*")):
            raise NotFound(f"there is no file to replay under {self.logs}")
        for name in self.faults:
            if name not in FAULTS and name != PROOF:
                raise InvalidOption(f"there is no fault {name!r}; there are: {', '.join(FAULTS)}, all, {PROOF}")
            if name in OF_TLS and not self.tls:
                raise InvalidOption(f"the fault {name!r} is about certificates; say --tls as well")

    @property
    def moments(self) -> list[str]:
        """The faults that need a moment of their own."""
        return [name for name in MOMENTS if name in self.faults]

    @property
    def length(self) -> float:
        """How many seconds the writers write."""
        return 5.0 + MOMENT * len(self.moments) if self.seconds is None else self.seconds

    @property
    def size(self) -> int:
        """How many bytes each site writes, but for those that a fault adds at the end."""
        if self.bytes is not None:
            return self.bytes
        return SIZE if self.seconds is None else int(self.seconds * RATE)

    @property
    def rotations(self) -> int:
        if "rotate" not in self.faults:
            return 0
        return 4 if self.seconds is None else max(1, min(20, int(self.seconds / 5)))

    @property
    def names(self) -> list[str]:
        return [f"site-{number}" for number in range(1, self.sites + 1)]


@dataclass(slots=True)
class Evidence:
    """What a simulation leaves behind for its judge."""

    work: Path
    options: PocOptions
    exit_codes: dict[str, int]  # of each site's last sidecar
    intruders: Sequence[Intruder] = ()


Progress = Callable[[str], None]


class Simulation:
    """``run`` once. *say* gets a line for each thing that happens. Raises NotInstalled, when TLS is asked for."""

    def __init__(self, options: PocOptions, work: Path, say: Progress) -> None:
        self.options = options
        self.work = work
        self.written = 0
        self.stored = 0
        self.say = say
        self.receiver: asyncio.subprocess.Process | None = None
        self.sidecars: dict[str, asyncio.subprocess.Process] = {}
        self.proxies: dict[str, Proxy] = {}
        self.certificates: Certificates | None = None
        self.intruders: list[Intruder] = []
        self._writers: dict[str, asyncio.subprocess.Process] = {}
        self._port = _free_port()
        self._processes: list[asyncio.subprocess.Process] = []
        self._exit_codes: dict[str, int] = {}
        self._moments = options.moments
        self._mounted = False
        if options.tls:
            from flarelog.poc.certificates import Certificates
            from flarelog.poc.intruders import intruders

            self.certificates = Certificates(work, options.names)
            self.intruders = intruders(options.names)

    @property
    def store(self) -> Path:
        return self.work / "store"

    async def run(self) -> Evidence:
        """Simulate the whole run. Raises TimedOut when it does not come to its end; no process is left behind."""
        options = self.options
        limit = options.length + LATE + PROVOKE + END_TIMEOUT + PATIENCE * len(options.moments)
        try:
            async with asyncio.timeout(limit), asyncio.TaskGroup() as group:
                await self._prepare()
                counting = group.create_task(self._count())
                await self._begin()
                counting.cancel()
        except TimeoutError:
            raise TimedOut(f"the run did not come to its end; look at {self.work}") from None
        except BaseExceptionGroup as group_error:
            raise group_error.exceptions[0] from None
        finally:
            await self._stop()
        if PROOF in self.options.faults:
            self._corrupt()
        return Evidence(self.work, self.options, self._exit_codes, [one for one in self.intruders if one.attempts])

    async def _prepare(self) -> None:
        if PROXIED & set(self._moments):
            for name in self.options.names:
                self.proxies[name] = Proxy(self._port)
                await self.proxies[name].start()
        if self.options.logs is not None:
            self._leave_out(ORDERED, "the files that are replayed are whole")
        if "full-disk" in self._moments and (why := self._mount()):
            self._leave_out({"full-disk"}, why)

    def _leave_out(self, faults: set[str], why: str) -> None:
        for name in sorted(faults & set(self._moments)):
            self._moments.remove(name)
            self.say(f"{name} is left out: {why}")

    async def _begin(self) -> None:
        late = "late-receiver" in self.options.faults
        if not late:
            await self.start_receiver()
            await self._announce()
        for name in self.options.names:
            await self.start_sidecar(name)
        for number, name in enumerate(self.options.names):
            # A file that is rotated before anybody looks would be a log of its own.
            state = self.work / "sites" / name / "state"
            await self.until(partial(_has_checkpoint, state), f"the sidecar of {name} looks at its logs")
            self._writers[name] = await self._start_writer(number, name)
        begun = time.monotonic()
        self.say(f"{len(self._writers)} sites write for about {self.options.length:g} s")
        if late:
            await asyncio.sleep(LATE)
            await self.start_receiver()
            self.say("the receiver is here, but does not know the run yet")
            await self._everyone_missed()
            await self._announce()
            self.say("the run is announced")
        await self._break_things(begun)
        for writer in self._writers.values():
            assert writer.stdin is not None
            writer.stdin.close()  # nothing more is ordered
        for writer in self._writers.values():
            if await writer.wait() != 0:
                raise TimedOut(f"a writer failed; look at {self.work}")
        self.say("everything is written; the run ends")
        await self._end()

    async def _everyone_missed(self) -> None:
        """The race is provoked, not hoped for: wait until each site has met a receiver that does not know the run."""
        everyone = set(self.options.names)
        with contextlib.suppress(TimedOut):
            await self.until(lambda: {site for site, _ in told(self.work, MISSED)} == everyone, "all asked", PROVOKE)

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
        self.say(f"{fault}: {FAULTS[fault]}")
        try:
            await MOMENTS[fault](self, names)
        except ProcessLookupError:
            raise TimedOut(f"a process that {fault} was meant for had ended by itself; look at {self.work}") from None

    async def _end(self) -> None:
        async with self._client() as client:
            await client.end_run(RUN)
        for name, process in self.sidecars.items():
            self._exit_codes[name] = await process.wait()

    # --- what a fault needs

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Wait for *condition*. Raises TimedOut when it does not come true."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimedOut(f"not within {seconds:g} s: {what}; look at {self.work}")
            await asyncio.sleep(0.05)

    async def order(self, name: str, what: str) -> tuple[str, int]:
        """Have the writer of site *name* do *what*; returns (its log, how many bytes of it are to be stored)."""
        writer = self._writers[name]
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(f"{what}\n".encode())
        line = await writer.stdout.readline()
        if not line:
            raise TimedOut(f"the writer of {name} failed; look at {self.work}")
        answer = json.loads(line)
        return answer["log"], answer["kept"]

    async def rotate(self, name: str, *, once: bool) -> None:
        """Let the logs of site *name* be rotated at most *once* from now on, or as they would be."""
        if self.options.logs is None:
            await self.order(name, "rotate-once" if once else "rotate")

    async def holds(self, name: str, log: str, size: int) -> None:
        """Wait until *size* bytes of *log* are stored. Raises TimedOut."""
        path = self.store / RUN / name / log
        await self.until(lambda: path.exists() and path.stat().st_size >= size, f"{path} has {size} bytes")

    async def fenced(self, name: str, process: asyncio.subprocess.Process) -> None:
        """Wait until the older sidecar of site *name* has ended because a newer one has its logs. Raises TimedOut."""
        await self.until(lambda: process.returncode is not None, f"the older sidecar of {name} is told so")
        if process.returncode != NOT_ALLOWED or "a newer producer has this stream" not in self.talk_of(name):
            raise TimedOut(f"the older sidecar of {name} ended with {process.returncode}; look at {self.work}")

    # --- processes

    async def _spawn(self, log: Path, *arguments: object, pipes: bool = False) -> asyncio.subprocess.Process:
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
        self.receiver = await self._spawn(
            self.work / "receiver.log",
            *(
                "flarelog",
                "--log-level",
                "debug",
                "serve",
                "--store",
                self.store,
                "--listen",
                f"127.0.0.1:{self._port}",
            ),
            *("--announced-runs-only", "--ready-file", ready, *self._tls_arguments("receiver")),
            *(("--policy", self.certificates.policy) if self.certificates is not None else ()),
        )
        while not ready.exists():
            if self.receiver.returncode is not None:
                raise TimedOut(f"the receiver did not start; look at {self.work / 'receiver.log'}")
            await asyncio.sleep(0.02)

    async def _announce(self) -> None:
        async with self._client() as client:
            await client.start_run(RUN)

    def _client(self) -> Client:
        return Client(f"127.0.0.1:{self._port}", tls=self._tls("operator"))

    def _tls(self, name: str) -> Tls | None:
        return None if self.certificates is None else self.certificates.of(name)

    def _tls_arguments(self, name: str) -> tuple[str, ...]:
        """The options by which a process becomes *name*."""
        tls = self._tls(name)
        return () if tls is None else tls.arguments()

    async def start_sidecar(self, name: str) -> None:
        site = self.work / "sites" / name
        (site / "logs").mkdir(parents=True, exist_ok=True)
        options = ("--state", site / "state", "--drain-timeout", END_TIMEOUT)
        self.sidecars[name] = await self.run_sidecar(site, name, name, *options)

    async def run_sidecar(self, place: Path, site: str, holder: str, *options: object) -> asyncio.subprocess.Process:
        """A sidecar for PLACE/logs that says it is *site*, with the certificate of *holder*; it talks into PLACE."""
        port = self.proxies[holder].port if holder in self.proxies else self._port
        return await self._spawn(
            place / "sidecar.log",
            *("flarelog", "sidecar", "--receiver", f"127.0.0.1:{port}", "--run", RUN, "--site", site),
            *("--root", place / "logs", *self._tls_arguments(holder), *options),
        )

    def talk_of(self, name: str) -> str:
        """What the sidecars of site *name* have said so far."""
        return (self.work / "sites" / name / "sidecar.log").read_text(errors="replace")

    async def _start_writer(self, number: int, name: str) -> asyncio.subprocess.Process:
        site, options = self.work / "sites" / name, self.options
        replay = ("--replay", options.logs) if options.logs is not None else ()
        return await self._spawn(
            site / "writer.log",
            *("flarelog.poc.writer", site / "logs", site / "truth.json", "--seed", options.seed * 1000 + number),
            *("--bytes", options.size, "--seconds", options.length, "--rotations", options.rotations, *replay),
            pipes=True,
        )

    async def _stop(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate() if process is self.receiver else process.kill()
        for process in self._processes:
            await process.wait()
        for proxy in self.proxies.values():
            await proxy.stop()
        if self._mounted:
            self._unmount()

    def _mount(self) -> str:
        """Give the store a small disk of its own; the reason why not, if it cannot be had."""
        size = self.options.sites * self.options.size * 5 // 4 + (32 << 20)
        if size > MAX_DISK:
            return f"a disk for all that is written would take {size >> 20} MiB of memory"
        self.store.mkdir()
        try:
            mount = ("mount", "-t", "tmpfs", "-o", f"size={size}", "flarelog-poc", str(self.store))
            done = subprocess.run(mount, capture_output=True, text=True, check=False)
        except OSError as error:
            return f"mount cannot be run: {error.strerror}"
        self._mounted = done.returncode == 0
        return "" if self._mounted else "a disk that can fill up needs root, and the right to mount"

    def _unmount(self) -> None:
        """Let the store stay where it is, without its disk."""
        kept = self.store.with_name("store.kept")
        shutil.copytree(self.store, kept, ignore=shutil.ignore_patterns(BALLAST))
        subprocess.run(("umount", str(self.store)), check=True)
        self.store.rmdir()
        kept.rename(self.store)

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            self.stored = _sizes(self.store, "")
            # What was truncated or removed is no longer there.
            self.written = max(self.stored, _sizes(self.work / "sites", "logs"))

    def _corrupt(self) -> None:
        path = next(path for path in sorted((self.store / RUN).rglob("*")) if _is_log(path))
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        self.say(f"{PROOF}: one bit of {path} is changed")


def _is_log(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _has_checkpoint(state: Path) -> bool:
    return any(path.suffix == ".json" for path in state.glob("*"))


def _sizes(root: Path, below: str) -> int:
    total = 0
    for path in root.rglob("*"):
        if below in path.parts[len(root.parts) :] or not below:
            with contextlib.suppress(OSError):
                total += path.stat().st_size if _is_log(path) else 0
    return total


def _free_port() -> int:
    """A port that stays the receiver's while it is away.

    It is none of those that the system gives to connections: one of them could get it meanwhile, and who tries to
    reach the receiver again and again would in the end be connected to itself.
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
            raise InvalidOption(f"{keep} is not empty; name a directory that is, or none")
    except OSError as error:
        raise InvalidOption(f"{keep} cannot be used: {error.strerror}") from error
    yield path
