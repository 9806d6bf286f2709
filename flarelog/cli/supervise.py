"""``flarelog serve --workers N``: the supervising process of N workers, each of which is a receiver.

The supervisor takes the store's lock, which the workers keep until the last of them has ended, and holds the port, so
that no other receiver gets it. If one process ends, all end: a receiver runs as a whole or not at all. A worker ends
with its stdin, and so with the supervisor, however that ended. A worker that hangs is killed.
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
from typing import Protocol

import click

from flarelog.cli.running import on_end_of_stdin, on_hangup, on_stop
from flarelog.errors import CannotListen, FlarelogError
from flarelog.exit_marks import signal_name
from flarelog.names import parse_address
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.unbound import unbound
from flarelog.receiver.workers.place import HOME, Place
from flarelog.receiver.workers.pulse import EVERY, HUNG, SILENT, Pulses
from flarelog.stores.base import Store

log = logging.getLogger(__name__)

_READY, _BEAT = b"ready\n", b"\n"
END_WITHIN = 30.0  # seconds before a worker that was told to end is killed

_Process = asyncio.subprocess.Process


class WorkerEnded(FlarelogError):
    """A worker ended unexpectedly."""


# --- a worker


def place_of() -> Place:
    """This worker's Place, which the supervisor writes to its stdin."""
    try:
        said = sys.stdin.readline()
        if not said.endswith("\n"):
            sys.exit(0)  # the supervisor has ended
        return Place.of(said)
    except (ValueError, TypeError) as error:
        raise click.UsageError("--as-worker is internal: flarelog serve --workers starts processes with it") from error


def until_told(stop: Callable[[], object]) -> None:
    """Call *stop* at the end of stdin, and at SIGTERM and SIGINT: systemd often signals all processes of a service."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    on_end_of_stdin(stop)


def say_ready() -> None:
    """Tell the supervisor that connections are accepted."""
    os.write(1, _READY)


async def beat() -> None:
    """Send the supervisor heartbeats of the event loop, for ever."""
    os.set_blocking(1, False)
    while True:
        await asyncio.sleep(EVERY)
        with contextlib.suppress(OSError):  # the supervisor does not read, or has ended, which stdin tells
            os.write(1, _BEAT)


def forget(place: Place) -> None:
    """Remove the workers' directory, in case the supervisor was killed before it could."""
    if place.number == HOME:
        shutil.rmtree(place.directory, ignore_errors=True)


# --- the supervisor


class Shared(Store, Protocol):
    """A store that several processes write."""

    lock: int  # the lock's descriptor, which they share


async def supervise(store: Shared, options: ServerOptions, count: int, announce: Callable[[str, str], object]) -> None:
    """Serve with *count* workers until told to stop; *announce* gets both addresses when all are ready.

    Raises CannotListen, StoreLocked, NotAllowed; WorkerEnded. Exits with the code of a worker that failed to start.
    """
    stopped = asyncio.Event()
    workers: list[_Process] = []
    on_stop(stopped.set, lambda: _end(workers, signal.SIGKILL))
    begun = asyncio.Event()

    def ready() -> None:
        announce(address, reader)
        begun.set()

    on_hangup(lambda: _end(workers if begun.is_set() else [], signal.SIGHUP))  # it would end one that is starting
    async with store:
        with contextlib.ExitStack() as stack:
            address = stack.enter_context(_held(options.listen))
            reader = stack.enter_context(_held(options.reader_listen)) if options.reader_listen else ""
            directory = tempfile.mkdtemp(prefix="flarelog-workers-")  # private to this user
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
    """Start a worker as this process was started, with the options *more*."""
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
            _end(workers, signal.SIGKILL)  # one of them may wait for a worker that could not start
        if stopped.is_set():
            return
        number, code = ended[0]
        if not have_begun and code > 0:
            sys.exit(code)  # the worker has printed the reason
        raise WorkerEnded(
            f"worker {number} (process {workers[number].pid}) {_how(code)}, and the"
            " receiver ends too; start it again: no acknowledged byte is lost"
        )
    finally:
        for task in (beginning, stopping, *waits, *watching):
            task.cancel()


def _how(code: int) -> str:
    """How a process with the return code *code* of asyncio ended."""
    return f"ended with exit code {code}" if code >= 0 else f"was killed by {signal_name(-code)}"


def _watching(workers: list[_Process]) -> list[asyncio.Task[None]]:
    """Start the tasks that kill a worker which hangs."""
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
    """End all *workers*; each commits first what it has received."""
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
    """Hold the port of *address* for this process's children; yields ``HOST:PORT``. Raises CannotListen."""
    host, port = parse_address(address)
    with contextlib.ExitStack() as stack:
        try:
            found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for number, (family, kind, protocol, _, where) in enumerate(found):
                try:
                    holder = stack.enter_context(socket.socket(family, kind, protocol))
                    if family is socket.AF_INET6:
                        holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    # Bind like any other receiver, so that only one gets the port; then share it with the workers. A
                    # later receiver binds without sharing, and so never gets it.
                    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    holder.bind((where[0], port, *where[2:]))
                except OSError as error:
                    if number == 0 or error.errno == errno.EADDRINUSE:
                        raise
                    continue  # the name also has an address of a family that this machine lacks
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                port = holder.getsockname()[1]
        except OSError as error:
            raise CannotListen(f"the receiver cannot listen on {address}: {unbound(error)}") from error
        yield f"{host}:{port}"
