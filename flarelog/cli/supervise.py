"""``flarelog serve --workers N``: the process that was started looks after N others, each of which is a receiver.

It takes the store's lock, which the workers keep until the last of them has ended, and holds the port, so that no other
receiver gets it. What ends one of them ends all: a receiver is there as a whole, or not at all. A worker ends when its
stdin does, and so with the process that started it, however that ended. A worker that hangs is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator

import click

from flarelog.cli.running import on_hangup, on_stop
from flarelog.errors import CannotListen, FlarelogError
from flarelog.names import parse_address
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.unbound import unbound
from flarelog.receiver.workers.place import HOME, Place
from flarelog.receiver.workers.pulse import EVERY, HUNG, SILENT, Pulses
from flarelog.stores.base import Store

log = logging.getLogger(__name__)

_STDIN = 0
_READY, _BEAT = b"ready\n", b"\n"
END_WITHIN = 30.0  # seconds, after which a worker that was told to end is killed

_Process = asyncio.subprocess.Process


class WorkerEnded(FlarelogError):
    """A worker ended that nobody had told to."""


# --- a worker


def place_of() -> Place:
    """What the process that started this one says on stdin."""
    said = b""
    while not said.endswith(b"\n"):
        more = os.read(_STDIN, 4096)
        if not more:
            sys.exit(0)  # it has ended
        said += more
    try:
        return Place.of(said.decode())
    except (ValueError, TypeError) as error:
        raise click.UsageError("--as-worker is internal: flarelog serve --workers starts processes with it") from error


def until_told(stop: Callable[[], object]) -> None:
    """Call *stop* at the end of stdin, and at SIGTERM and SIGINT: a service's processes are often told all at once."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)

    def heard() -> None:
        if not os.read(_STDIN, 4096):
            loop.remove_reader(_STDIN)
            stop()

    loop.add_reader(_STDIN, heard)


def say_ready() -> None:
    """Tell the process that started this one that connections are accepted."""
    os.write(1, _READY)


async def beat() -> None:
    """Tell that process again and again that the event loop runs, for ever."""
    os.set_blocking(1, False)
    while True:
        await asyncio.sleep(EVERY)
        with contextlib.suppress(OSError):  # it does not read, or has ended: stdin tells
            os.write(1, _BEAT)


def forget(place: Place) -> None:
    """Leave nothing behind, where the process that started this one cannot see to it any more."""
    if place.number == HOME:
        shutil.rmtree(place.directory, ignore_errors=True)


# --- the process that looks after them


async def supervise(store: Store, options: ServerOptions, count: int, announce: Callable[[str, str], object]) -> None:
    """Serve with *count* workers until told to stop; *announce*: gets both addresses when all are ready.

    Raises CannotListen, StoreLocked, NotAllowed; WorkerEnded. Exits as a worker did that could not begin.
    """
    stopped = asyncio.Event()
    workers: list[_Process] = []
    on_stop(stopped.set, lambda: _end(workers, signal.SIGKILL))
    begun = asyncio.Event()

    def ready() -> None:
        announce(address, reader)
        begun.set()

    on_hangup(lambda: _end(workers if begun.is_set() else [], signal.SIGHUP))  # one that begins would end by it
    async with store:
        with contextlib.ExitStack() as stack:
            address = stack.enter_context(_held(options.listen))
            reader = stack.enter_context(_held(options.reader_listen)) if options.reader_listen else ""
            directory = tempfile.mkdtemp(prefix="flarelog-workers-")  # nobody else may look into it
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            more = ["--as-worker", "--listen", address, *(["--reader-listen", reader] if reader else [])]
            whole_runs = options.max_run_bytes is not None or options.max_run_rate is not None
            incarnation = os.urandom(8).hex()
            try:
                for number in range(count):
                    place = Place(number, count, directory, incarnation, store.lock, whole_runs)
                    workers.append(await _started(place, more))
                await _until_one_ends(workers, stopped, ready)
            finally:
                await _ended(workers)


async def _started(place: Place, more: list[str]) -> _Process:
    """A worker, started as this process was, with options *more*."""
    # The interpreter's own arguments, so that it finds the same program.
    command = [sys.executable, *sys.orig_argv[1:], *more]
    pipe = asyncio.subprocess.PIPE
    worker = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, pass_fds=[place.lock])
    if worker.stdin is not None:
        worker.stdin.write(f"{place}\n".encode())
    return worker


async def _until_one_ends(workers: list[_Process], stopped: asyncio.Event, announce: Callable[[], object]) -> None:
    async def begun() -> bool:
        said = await asyncio.gather(*(worker.stdout.readline() for worker in workers if worker.stdout is not None))
        return all(line == _READY for line in said)

    waits = [asyncio.create_task(worker.wait()) for worker in workers]
    beginning, stopping = asyncio.create_task(begun()), asyncio.create_task(stopped.wait())
    watching: list[asyncio.Task[None]] = []
    try:
        await asyncio.wait((beginning, stopping, *waits), return_when=asyncio.FIRST_COMPLETED)
        have_begun = beginning.done() and beginning.result()
        if have_begun:
            announce()
            watching = _watching(workers)
        await asyncio.wait((stopping, *waits), return_when=asyncio.FIRST_COMPLETED)
        ended = [(number, wait.result()) for number, wait in enumerate(waits) if wait.done()]
        if not have_begun:
            _end(workers, signal.SIGKILL)  # one of them may wait for another that could not begin
        if stopped.is_set():
            return
        number, code = ended[0]
        if not have_begun and code > 0:
            sys.exit(code)  # it has said why
        raise WorkerEnded(
            f"worker {number} (process {workers[number].pid}) ended with {code}, and the"
            " receiver ends too; start it again: no acknowledged byte is lost"
        )
    finally:
        for task in (beginning, stopping, *waits, *watching):
            task.cancel()


def _watching(workers: list[_Process]) -> list[asyncio.Task[None]]:
    """What ends a worker that hangs."""
    clock = asyncio.get_running_loop().time
    pulses = Pulses(range(len(workers)), clock())

    async def hear(number: int, worker: _Process) -> None:
        while worker.stdout is not None and await worker.stdout.readline():
            pulses.beat(number)

    async def look() -> None:
        while True:
            await asyncio.sleep(EVERY)
            silent, hung = pulses.look(clock())
            for number in silent:
                log.error(
                    "worker %d (process %d) has not answered for %g s: its sites wait; it is killed after %g s",
                    *(number, workers[number].pid, SILENT, HUNG),
                )
            for number in hung:
                log.error("worker %d (process %d) hangs, and is killed", number, workers[number].pid)
                _end([workers[number]], signal.SIGKILL)

    return [asyncio.create_task(look()), *(asyncio.create_task(hear(*each)) for each in enumerate(workers))]


async def _ended(workers: list[_Process]) -> None:
    """End all *workers*, with what they have taken committed."""
    for worker in workers:
        if worker.stdin is not None:
            worker.stdin.close()
    try:
        async with asyncio.timeout(END_WITHIN):
            await asyncio.gather(*(worker.wait() for worker in workers))
    except TimeoutError:
        _end(workers, signal.SIGKILL)


def _end(workers: list[_Process], number: signal.Signals) -> None:
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            worker.send_signal(number)


@contextlib.contextmanager
def _held(address: str) -> Iterator[str]:
    """Keep the port of *address* for this process's children, and give ``HOST:PORT``. Raises CannotListen."""
    host, port = parse_address(address)
    with contextlib.ExitStack() as stack:
        try:
            found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for number, (family, kind, protocol, _, where) in enumerate(found):
                try:
                    holder = stack.enter_context(socket.socket(family, kind, protocol))
                    if family is socket.AF_INET6:
                        holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    # Taken as any other receiver takes it, so that only one gets it; from then on shared, with the
                    # workers, and with no other receiver, which asks for it without sharing.
                    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    holder.bind((where[0], port, *where[2:]))
                except OSError as error:
                    if number == 0 or error.errno == errno.EADDRINUSE:
                        raise
                    continue  # a name of this machine that has an address of a kind which this machine does not have
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                port = holder.getsockname()[1]
        except OSError as error:
            raise CannotListen(f"the receiver cannot listen on {address}: {unbound(error)}") from error
        yield f"{host}:{port}"
