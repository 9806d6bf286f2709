"""Real processes for the integration tests.

A test's ``place`` starts its processes, sends their output into files, and kills them at the test's end, however it
ends. Nothing waits for a fixed time: ``until`` waits for a condition, and fails when it stays false.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from flarelog import proxies
from flarelog.names import log_of
from flarelog.stores.directory import LOCK
from flarelog.text import legible
from integration.harness.loops import LoopThread
from integration.harness.nursery import Forked, Nursery

T = TypeVar("T")

PATIENCE = 60.0  # seconds allowed for steps that take a fraction of one on an idle machine
RUN, SITE, LOG = "run-1", "site-1", "app.log"

FLARELOG = (sys.executable, "-m", "flarelog")
SERVE = os.environ.get("TESTED_SERVE", "").split()
"""Options of every receiver, to run all tests with: TESTED_SERVE="--workers 2"."""

Streams = dict[str, dict[str, Any]]
"""The output of ``flarelog streams --json``: SITE/LOG (of one run), and its object."""


def until(condition: Callable[[], T], what: str | Callable[[], str], seconds: float = PATIENCE) -> T:
    """The first true result of *condition*; an AssertionError with *what* if it stays false.

    A missing file counts as false. The pauses between looks grow, because a look may cost a process.
    """
    begun = time.monotonic()
    deadline = begun + seconds
    while True:
        missing = ""
        try:
            if result := condition():
                return result
        except FileNotFoundError as error:
            missing = f"; {error}"
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}{missing}")
        time.sleep(min(max(0.02, (time.monotonic() - begun) / 20), 0.2))


def lines(count: int, first: int = 0) -> bytes:
    """A training's output: lines, progress bars, and bytes that are no text."""
    return b"".join(
        b"%06d step\r%s\xff loss %d\n" % (n, "█".encode() * (n % 9), n * 7919) for n in range(first, first + count)
    )


def noise(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def content(path: Path) -> bytes:
    """The bytes of *path*; empty if it is missing."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def append(path: Path, data: bytes) -> bytes:
    with open(path, "ab") as file:
        file.write(data)
    return data


def difference(wanted: bytes, found: bytes) -> str:
    """The place at which two streams of bytes differ."""
    at = next((n for n, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b), min(len(wanted), len(found)))
    return (
        f"{len(found)} bytes instead of {len(wanted)}, the first difference at {at}:"
        f" {found[at : at + 40]!r} instead of {wanted[at : at + 40]!r}"
    )


@functools.cache
def _first_dynamic_port() -> int:
    with contextlib.suppress(OSError):
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return 32768


def free_address() -> str:
    """An address without a listener, for receivers that come late or come back.

    Its port is outside the range of ephemeral ports. Otherwise a connection could take it, and a producer that retries
    could connect to itself.
    """
    for _ in range(1000):
        port = random.randint(15000, min(30000, _first_dynamic_port() - 1))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return f"127.0.0.1:{port}"
    raise AssertionError("no port is free")


def unprivileged(wanted: bool) -> list[str]:
    """The words before a command that remove root's capabilities; empty if not *wanted* or not root."""
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"] if wanted and os.geteuid() == 0 else []


Plain = bool | tuple[str, ...]
"""Whether a process runs without capabilities; or the command to run in place of flarelog."""


def environment() -> dict[str, str]:
    """The tests' environment without proxies and flarelog's variables, as of a gRPC that it tuned."""
    left_out = (*proxies.VARIABLES, *proxies.EXCEPTIONS, "GRPC_VERBOSITY", "GRPC_DNS_RESOLVER")
    return {
        name: value for name, value in os.environ.items() if not name.startswith("FLARELOG_") and name not in left_out
    }


@functools.cache
def nursery() -> Nursery:
    return Nursery(environment())


class Program:
    """One ``flarelog`` process; it has an interpreter of its own if its environment, command or rights differ."""

    def __init__(self, directory: Path, number: int, args: tuple[str, ...], plain: Plain, env: dict[str, Any]):
        self.args = args
        self._out, self._err = directory / f"{number}.out", directory / f"{number}.err"
        self.process: subprocess.Popen[bytes] | Forked
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            if not plain and not env:
                self.process = nursery().start(args, directory, self._out, self._err)
                return
            self.process = subprocess.Popen(
                [*(plain if isinstance(plain, tuple) else (*unprivileged(plain), *FLARELOG)), *args],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=directory,
                env=environment() | env,
            )

    def __str__(self) -> str:
        return f"flarelog {' '.join(self.args)}"

    @property
    def printed(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def out(self) -> bytes:
        """The exact bytes that the program has printed."""
        return self._out.read_bytes()

    @property
    def said(self) -> str:
        return self._err.read_text(errors="replace")

    def talk(self) -> str:
        code = self.process.poll()
        state = "still there" if code is None else f"ended with {code}"
        return f"[{state}]\n--- stdout\n{self.printed[-4000:]}\n--- stderr\n{self.said[-8000:]}"

    def tell(self, number: int) -> None:
        self.process.send_signal(number)

    def ends(self, seconds: float = PATIENCE) -> int:
        """Wait for the program's own end; return its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} did not end within {seconds:g} s; it said:\n{self.said}") from None

    def stop(self, seconds: float = PATIENCE) -> int:
        """Send SIGTERM; return the exit code."""
        self.tell(signal.SIGTERM)
        return self.ends(seconds)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()  # kills a stopped process, too
        self.process.wait()

    def says(self, text: str, times: int = 1) -> None:
        """Wait until the program has printed *text*."""
        until(lambda: self.said.count(text) >= times, lambda: f"{self} says {text!r}; it said:\n{self.said}")

    def took_signals(self) -> None:
        """Wait until no signal is pending: two of one kind would count as one."""
        until(lambda: self._status("ShdPnd") == 0 and self._status("SigPnd") == 0, "signals are delivered")

    def heeds_signals(self) -> None:
        """Wait until SIGTERM would end the program cleanly."""
        until(
            lambda: self.process.poll() is not None or self._status("SigCgt") >> (signal.SIGTERM - 1) & 1,
            "SIGTERM is caught",
        )

    def _status(self, field: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith(f"{field}:")), 16)

    def bytes_read(self) -> int:
        """How many bytes the program has read so far, from any source."""
        return int(Path(f"/proc/{self.process.pid}/io").read_text().split()[1])

    def has_open(self, path: Path) -> bool:
        descriptors = f"/proc/{self.process.pid}/fd"
        for name in os.listdir(descriptors):
            with contextlib.suppress(OSError):  # closed in between
                if os.readlink(f"{descriptors}/{name}") == str(path):
                    return True
        return False

    def complaints(self) -> list[str]:
        """The program's output apart from information, warnings and usage."""
        return [
            line
            for line in self.said.splitlines()
            if line.strip()
            and not line.startswith(
                (
                    "Usage: ",
                    "Try ",
                    "receiver: receiving at ",
                    "receiver: token readers connect to ",
                    "web: ",
                    "http://",
                )
            )
            and " INFO " not in line[:40]
            and " WARNING " not in line[:40]
        ]

    def sentence(self) -> str:
        """The program's only error message."""
        complaints = self.complaints()
        assert "Traceback" not in self.said
        assert len(complaints) == 1, f"one sentence was wanted from {self}, but it said:\n{self.said}"
        return complaints[0]

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.printed.splitlines()]


def records_of(program: Program) -> Streams:
    """The output of ``flarelog streams --json``, which must have succeeded."""
    assert program.ends() == 0, program.talk()
    return {f"{record['site']}/{record['log']}": record for record in program.records()}


class Receiver:
    """A ``flarelog serve`` that is ready, and its store."""

    def __init__(self, place: Place, program: Program, store: Path, address: str, reader_address: str = "") -> None:
        self.place, self.program, self.store, self.address = place, program, store, address
        self.reader_address = reader_address  # the address of its port for readers, if it has one

    def file(self, log: str = LOG, site: str = SITE, run: str = RUN) -> Path:
        """The file of *log* in the store; without one, the directory of all logs of *site*."""
        return self.store / run / site / (log_of(log) if log else "")

    def stored(self, log: str = LOG, site: str = SITE, run: str = RUN) -> bytes:
        return content(self.file(log, site, run))

    @property
    def holding(self) -> list[Path]:
        """All files of its runs, except records about sites, which are written at times of their own."""
        return sorted(
            path for path in self.store.rglob("*") if not re.match(r"\..*\.(events|findings|healths?)", path.name)
        )

    def gets(self, data: bytes, log: str = LOG, site: str = SITE, run: str = RUN) -> None:
        """Wait until the stored file is exactly *data*."""
        until(
            lambda: self.stored(log, site, run) == data,
            lambda: f"{run}/{site}/{log} holds {difference(data, self.stored(log, site, run))}",
        )

    def grows(self, more: int = 1) -> None:
        """Wait until the stored file has *more* bytes than now."""
        before = len(self.stored())
        until(lambda: len(self.stored()) >= before + more, lambda: f"{more} bytes come to {before}")

    def streams(self, run: str = RUN) -> Streams:
        """The receiver's streams, which must equal its store's.

        The two queries are not atomic and may differ while bytes come in, so they are repeated until equal.
        """

        def asked() -> tuple[Streams, Streams]:
            programs = [
                self.place.start("streams", run, *where, "--json")
                for where in (("--receiver", self.address), ("--store", str(self.store)))
            ]
            by_receiver, by_store = (records_of(program) for program in programs)
            return by_receiver, by_store

        deadline = time.monotonic() + PATIENCE
        by_receiver, by_store = asked()
        while by_receiver != by_store and time.monotonic() < deadline:
            by_receiver, by_store = asked()
        assert by_receiver == by_store
        return by_receiver

    def holds(
        self, data: bytes, log: str = LOG, site: str = SITE, run: str = RUN, *, sealed: bool | None = True
    ) -> dict[str, Any]:
        """Assert that the stream is *data*, byte for byte, and that all records agree; return its record."""
        stored = self.stored(log, site, run)
        assert hashlib.sha256(stored).hexdigest() == hashlib.sha256(data).hexdigest(), difference(data, stored)
        record = self.streams(run)[f"{site}/{legible(log)}"]
        assert record["committed"] == len(data)
        assert record["digest"] == f"crc32:{zlib.crc32(data):08x}"
        if record["generations"]:  # a foreign producer may send no marks
            assert sum(generation["length"] for generation in record["generations"]) == len(data)
        if sealed is not None:
            assert record["sealed"] is sealed
        return record

    def stop(self) -> int:
        return self.program.stop()

    def again(self, *args: str) -> Receiver:
        """The next receiver with the same address and store."""
        return self.place.serve(*args, listen=self.address, store=self.store)


class Place:
    """A directory with a site's root, a store, and processes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = directory / "site"
        self.root.mkdir(mode=0o755)
        self.log = self.root / LOG
        self.programs: list[Program] = []

    def start(self, *args: str, plain: Plain = False, **env: Any) -> Program:
        program = Program(self.directory, len(self.programs), args, plain, env)
        self.programs.append(program)
        return program

    def call(self, *args: str, plain: Plain = False, **env: Any) -> Program:
        """Run a command that ends by itself."""
        program = self.start(*args, plain=plain, **env)
        program.ends()
        return program

    def serve(self, *args: str, listen: str = "127.0.0.1:0", store: Path | None = None, **env: Any) -> Receiver:
        store = store or self.directory / "store"
        ready = self.directory / f"{len(self.programs)}.ready"
        program = self.start(
            "serve", "--store", str(store), "--listen", listen, "--ready-file", str(ready), *SERVE, *args, **env
        )
        until(
            lambda: ready.exists() or program.process.poll() is not None,
            lambda: f"{program} is ready; it said:\n{program.said}",
        )
        assert ready.exists(), program.talk()
        other = Path(f"{ready}.reader")
        return Receiver(
            self, program, store, ready.read_text().strip(), other.read_text().strip() if other.exists() else ""
        )

    def token(self, *args: str, store: str = "store") -> Path:
        """A file with the secret of a new token."""
        self.made(store)
        program = self.call("token", "create", *args, "--store", store)
        assert program.ends() == 0, program.talk()
        file = self.directory / f"{len(self.programs)}.token"
        file.touch(0o600)
        file.write_text(program.printed)
        return file

    def made(self, store: str = "store") -> None:
        """Make *store* as a receiver does at its start, so that tokens can come before it."""
        (self.directory / store).mkdir(exist_ok=True)
        (self.directory / store / LOCK).touch()

    def sidecar(
        self,
        receiver: Receiver | str,
        *args: str,
        root: Path | None = None,
        site: str = SITE,
        run: str = RUN,
        plain: Plain = False,
        **env: Any,
    ) -> Program:
        address = receiver if isinstance(receiver, str) else receiver.address
        named = ("--receiver", address, "--run", run, "--site", site, "--root", str(root or self.root))
        return self.start("sidecar", *named, *args, plain=plain, **env)

    def once(self, receiver: Receiver | str, *args: str) -> Program:
        """Run a sidecar with --once."""
        program = self.sidecar(receiver, "--once", *args)
        program.ends()
        return program

    def streams(self, *where: str, run: str = RUN) -> Streams:
        return records_of(self.start("streams", run, *where, "--json"))

    def close(self) -> None:
        for program in self.programs:
            program.kill()


@contextlib.contextmanager
def new_place() -> Iterator[Place]:
    """A place below the system's temporary directory."""
    directory = Path(tempfile.mkdtemp(prefix="flarelog-"))
    place = Place(directory.resolve())
    try:
        yield place
    finally:
        place.close()
        shutil.rmtree(directory, ignore_errors=True)


class Writer:
    """Appends pieces to a file until it is told to stop. Use as a context manager."""

    def __init__(self, path: Path, size: int = 4000, pause: float = 0.01) -> None:
        self.path, self.size, self.pause = path, size, pause
        self.written = bytearray()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def _write(self) -> None:
        with open(self.path, "ab", buffering=0) as file:
            while not self._stop.is_set():
                data = noise(self.size, len(self.written))
                file.write(data)
                self.written += data
                self._stop.wait(self.pause)

    def wrote(self, more: int) -> None:
        """Wait until the writer has written *more* bytes than now."""
        before = len(self.written)
        until(lambda: len(self.written) >= before + more, "the writer writes")

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


class Proxy:
    """A network that can be cut and held. *cuts*: the number of bytes from the producer after which each of the first
    connections is cut; later ones live. *delay*: seconds that every piece takes. Use as a context manager.
    """

    def __init__(self, target: str, cuts: tuple[int, ...] = (), delay: float = 0.0) -> None:
        host, _, port = target.rpartition(":")
        self._target, self._cuts, self._delay = (host, int(port)), list(cuts), delay
        self._passes = {"up": asyncio.Event(), "down": asyncio.Event()}
        for way in self._passes.values():
            way.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.carried = 0  # bytes in both directions
        self.address = ""

    def __enter__(self) -> Proxy:
        self._loop = LoopThread()
        self._server = self._loop.call(asyncio.start_server(self._forward, "127.0.0.1", 0))
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call(self._close())
        self._loop.close()

    def cut(self) -> None:
        """Cut every connection, and lose the bytes in flight in both directions."""
        self._loop.call(self._cut())

    def hold(self, *ways: str) -> None:
        """Silently stop carrying bytes "up" to the receiver, "down" from it, or both, until ``release``."""
        for way in ways or self._passes:
            self._loop.soon(self._passes[way].clear)

    def release(self) -> None:
        for way in self._passes.values():
            self._loop.soon(way.set)

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _close(self) -> None:
        self._server.close()
        for way in self._passes.values():
            way.set()
        await self._cut()

    async def _forward(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        self.connections += 1
        limit = self._cuts.pop(0) if self._cuts else None
        self._writers.add(near_out)
        try:
            far_in, far_out = await asyncio.open_connection(*self._target)
        except (OSError, asyncio.CancelledError):
            near_out.transport.abort()
            self._writers.discard(near_out)
            return
        self._writers.add(far_out)
        pumps = [
            asyncio.create_task(self._pump(near_in, far_out, limit, self._passes["up"])),
            asyncio.create_task(self._pump(far_in, near_out, None, self._passes["down"])),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for writer in (near_out, far_out):
                writer.transport.abort()
                self._writers.discard(writer)
            for pump in pumps:
                pump.cancel()

    async def _pump(
        self, source: asyncio.StreamReader, drain: asyncio.StreamWriter, limit: int | None, passes: asyncio.Event
    ) -> None:
        """Carry bytes until one end closes, or until *limit* bytes were carried."""
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                await passes.wait()
                data = data if limit is None else data[:limit]
                self.carried += len(data)
                asyncio.get_running_loop().call_later(self._delay, drain.write, data) if self._delay else drain.write(
                    data
                )
                await drain.drain()
                if limit is not None and (limit := limit - len(data)) <= 0:
                    return
