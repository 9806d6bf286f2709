"""One run on one machine: a receiver process, and a writer and a sidecar process for each site, with faults on the way.

WORK/store/                      the receiver's store
WORK/receiver.log                what it said
WORK/sites/SITE/logs/            what the site's writer writes
WORK/sites/SITE/truth.json       what it wrote, by its own account
WORK/sites/SITE/sidecar.log      what its sidecar said
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from flarelog.client import Client
from flarelog.errors import InvalidOption, NotFound, TimedOut
from flarelog.poc.faults import DEFAULT, FAULTS, PROOF, Proxy

RUN = "poc"
LATE = 0.8  # seconds that a late receiver needs to start
PROVOKE = 5.0  # seconds that it does not know the run, at most; until each site has asked for it
END_TIMEOUT = 60.0  # seconds from the last byte written to the last receipt


@dataclass(frozen=True, slots=True)
class PocOptions:
    """What is simulated. Raises InvalidOption, NotFound."""

    sites: int = 3
    bytes: int = 4 << 20  # that each site writes
    logs: str | None = None  # a directory whose files are replayed instead
    faults: tuple[str, ...] = DEFAULT
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.sites <= 200:
            raise InvalidOption(f"sites must be from 1 to 200, not {self.sites}")
        if self.bytes < 1:
            raise InvalidOption(f"bytes must be positive, not {self.bytes}")
        if self.logs is not None and not any(path.is_file() for path in Path(self.logs).rglob("*")):
            raise NotFound(f"there is no file to replay under {self.logs}")
        for name in self.faults:
            if name not in FAULTS and name != PROOF:
                raise InvalidOption(f"there is no fault {name!r}; there are: {', '.join(FAULTS)}, all, {PROOF}")

    @property
    def seconds(self) -> float:
        """How long the writers write: two seconds for each fault that needs a moment of its own."""
        moments = [name for name in self.faults if name not in (*DEFAULT, PROOF)]
        return 5.0 + 2.0 * len(moments)

    @property
    def names(self) -> list[str]:
        return [f"site-{number}" for number in range(1, self.sites + 1)]


@dataclass(slots=True)
class Site:
    """What happened to one site's sidecars."""

    kills: int = 0
    exit_code: int = 0
    streams: list[dict[str, object]] = field(default_factory=list)


@dataclass(slots=True)
class Evidence:
    """What a simulation leaves behind for its judge."""

    work: Path
    options: PocOptions
    sites: dict[str, Site]


Progress = Callable[[str], None]


class Simulation:
    """``run`` once. *say* gets a line for each thing that happens."""

    def __init__(self, options: PocOptions, work: Path, say: Progress) -> None:
        self.options = options
        self.work = work
        self.written = 0
        self.stored = 0
        self._say = say
        self._port = _free_port()
        self._proxy = Proxy(self._port)
        self._receiver: asyncio.subprocess.Process | None = None
        self._processes: list[asyncio.subprocess.Process] = []
        self._sidecars: dict[str, asyncio.subprocess.Process] = {}
        self._sites = {name: Site() for name in options.names}

    async def run(self) -> Evidence:
        """Simulate the whole run. Raises TimedOut when it does not come to its end; no process is left behind."""
        try:
            async with (
                asyncio.timeout(self.options.seconds + LATE + PROVOKE + END_TIMEOUT),
                asyncio.TaskGroup() as group,
            ):
                await self._proxy.start()
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
        return Evidence(self.work, self.options, self._sites)

    async def _begin(self) -> None:
        late = "late-receiver" in self.options.faults
        if not late:
            await self._start_receiver()
            await self._announce()
        for name in self.options.names:
            await self._start_sidecar(name)
        writers = [await self._start_writer(number, name) for number, name in enumerate(self.options.names)]
        self._say(f"{len(writers)} sites write for about {self.options.seconds:g} s")
        if late:
            await asyncio.sleep(LATE)
            await self._start_receiver()
            self._say("the receiver is here, but does not know the run yet")
            await self._everyone_missed()
            await self._announce()
            self._say("the run is announced")
        await self._break_things()
        for writer in writers:
            if await writer.wait() != 0:
                raise TimedOut(f"a writer failed; look at {self.work}")
        self._say("everything is written; the run ends")
        await self._end()

    async def _everyone_missed(self) -> None:
        """The race is provoked, not hoped for: wait until each site has met a receiver that does not know the run."""
        log = self.work / "receiver.log"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROVOKE):
                while not all(f" {RUN}/{name}/" in log.read_text() for name in self._sites):
                    await asyncio.sleep(0.05)

    async def _break_things(self) -> None:
        for fault in FAULTS:
            if fault not in self.options.faults or fault in DEFAULT:
                continue
            await asyncio.sleep(1.2)
            self._say(f"{fault}: {FAULTS[fault]}")
            match fault:
                case "restart-receiver" | "kill-receiver":
                    assert self._receiver is not None
                    self._receiver.send_signal(signal.SIGTERM if fault == "restart-receiver" else signal.SIGKILL)
                    await self._receiver.wait()
                    await self._start_receiver()
                case "kill-sidecar":
                    for name in self.options.names[::2]:
                        self._sidecars[name].kill()
                        await self._sidecars[name].wait()
                        self._sites[name].kills += 1
                        await self._start_sidecar(name)
                case "cut-connection":
                    self._proxy.cut()

    async def _end(self) -> None:
        async with Client(f"127.0.0.1:{self._port}") as client:
            await client.end_run(RUN)
        for name, process in self._sidecars.items():
            output, _ = await process.communicate()
            self._sites[name].exit_code = process.returncode or 0
            self._sites[name].streams = [json.loads(line) for line in output.splitlines()]

    # --- processes

    async def _spawn(self, log: Path, *arguments: object, pipe: bool = False) -> asyncio.subprocess.Process:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as talk:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", *map(str, arguments)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE if pipe else talk,
                stderr=talk,
                # A variable meant for another command of this machine must not change the simulation.
                env={key: value for key, value in os.environ.items() if not key.startswith("FLARELOG_")},
            )
        self._processes.append(process)
        return process

    async def _start_receiver(self) -> None:
        ready = self.work / "ready"
        ready.unlink(missing_ok=True)
        self._receiver = await self._spawn(
            self.work / "receiver.log",
            *(
                "flarelog",
                "--log-level",
                "debug",
                "serve",
                "--store",
                self.work / "store",
                "--listen",
                f"127.0.0.1:{self._port}",
            ),
            *("--announced-runs-only", "--ready-file", ready),
        )
        while not ready.exists():
            if self._receiver.returncode is not None:
                raise TimedOut(f"the receiver did not start; look at {self.work / 'receiver.log'}")
            await asyncio.sleep(0.02)

    async def _announce(self) -> None:
        async with Client(f"127.0.0.1:{self._port}") as client:
            await client.start_run(RUN)

    async def _start_sidecar(self, name: str) -> None:
        site = self.work / "sites" / name
        port = self._proxy.port if "cut-connection" in self.options.faults else self._port
        self._sidecars[name] = await self._spawn(
            site / "sidecar.log",
            *("flarelog", "sidecar", "--receiver", f"127.0.0.1:{port}", "--run", RUN, "--site", name),
            *("--root", site / "logs", "--state", site / "state", "--drain-timeout", END_TIMEOUT, "--json"),
            pipe=True,
        )

    async def _start_writer(self, number: int, name: str) -> asyncio.subprocess.Process:
        site, options = self.work / "sites" / name, self.options
        replay = ("--replay", options.logs) if options.logs is not None else ()
        return await self._spawn(
            site / "writer.log",
            *("flarelog.poc.writer", site / "logs", site / "truth.json", "--seed", options.seed * 1000 + number),
            *("--bytes", options.bytes, "--seconds", options.seconds, *replay),
            *("--rotations", 4 if "rotate" in options.faults else 0),
        )

    async def _stop(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate() if process is self._receiver else process.kill()
        for process in self._processes:
            await process.wait()
        await self._proxy.stop()

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            self.written = _sizes(self.work / "sites", "logs")
            self.stored = _sizes(self.work / "store", "")

    def _corrupt(self) -> None:
        path = next(path for path in sorted((self.work / "store" / RUN).rglob("*")) if _is_log(path))
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        self._say(f"{PROOF}: one bit of {path} is changed")


def _is_log(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _sizes(root: Path, below: str) -> int:
    total = 0
    for path in root.rglob("*"):
        if below in path.parts[len(root.parts) :] or not below:
            with contextlib.suppress(OSError):
                total += path.stat().st_size if _is_log(path) else 0
    return total


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
