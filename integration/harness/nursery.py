"""``flarelog`` processes without the half second that an interpreter takes to import it.

The nursery imports all commands and starts nothing: no loop, no channel, no thread. Each program is a fork of it, which
then runs as ``python -m flarelog`` does, and ends as that does but for the interpreter's last step (``end``).
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

import flarelog.cli
from flarelog.checksum import EMPTY_DIGEST, extend

_TREE = Path(__file__).parents[2]
_LATE = (
    "flarelog.stores.local.store",
    "flarelog.viewers.report.page",
    "flarelog.viewers.web.serving",
    "uvicorn.lifespan.off",
    "uvicorn.loops.asyncio",
    "uvicorn.protocols.http.h11_impl",
    "zoneinfo",
)
"""What commands import after they have begun."""
_MESSAGE = 1 << 17
_PR_SET_PDEATHSIG = 1


class Forked:
    """A program with the part of ``subprocess.Popen`` that the tests use."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid, self.returncode = pid, None
        self._nursery = nursery

    returncode: int | None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the program's end; return its exit code. Raises subprocess.TimeoutExpired."""
        if self.poll() is None:  # an ended process keeps its pid until it is polled
            ended = os.pidfd_open(self.pid)
            try:
                select.select([ended], [], [], timeout)
            finally:
                os.close(ended)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("flarelog", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """A process with the environment *env* that forks programs."""

    def __init__(self, env: dict[str, str]) -> None:
        self._socket, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with inner:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "integration.harness.nursery"], stdin=inner.fileno(), cwd=_TREE, env=env
            )
        self._lock = threading.Lock()

    def start(self, args: tuple[str, ...], directory: Path, out: Path, err: Path) -> Forked:
        """Start ``flarelog`` with *args* in *directory*, with its output in *out* and *err*."""
        return Forked(self, self.ask(start=args, directory=str(directory), out=str(out), err=str(err)))

    def ask(self, **what: Any) -> Any:
        with self._lock:
            self._socket.send(json.dumps(what).encode())
            return json.loads(self._socket.recv(_MESSAGE))

    def close(self) -> None:
        """End the nursery and its remaining programs."""
        self._socket.close()
        self._process.wait()


def wanted() -> dict[str, Any] | None:
    """Answer requests; in a fork return the program's request. None: no more requests."""
    asked = socket.socket(fileno=os.dup(0))
    while message := asked.recv(_MESSAGE):
        what: dict[str, Any] = json.loads(message)
        answer = None
        if "poll" in what:
            pid, status = os.waitpid(what["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif (answer := os.fork()) == 0:
            asked.close()
            return what
        asked.send(json.dumps(answer).encode())
    return None


def become(directory: str | Path, out: str | Path, err: str | Path) -> None:
    """Make a fork a program of its own in *directory*, with its output in *out* and *err*. It dies with its parent,
    which dies with the tests, however they end.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(directory)
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        opened = os.open(path, flags | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)


def end(code: int) -> NoReturn:
    """End a fork: wait for its threads, call what is registered for the end, let garbage complain, write all output.

    The interpreter would then free every module, and so copy all pages that the fork shares with the nursery: more than
    half of a short command's time. Programs with an interpreter of their own show that this step goes well.
    """
    # The interpreter's own way to end pools of threads and to wait for threads, which has no public name or type.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    for name in (*(f"flarelog.cli.{command.replace('-', '_')}" for command in flarelog.cli.COMMANDS), *_LATE):
        importlib.import_module(name)
    extend(EMPTY_DIGEST, b"")  # imports its library
    gc.collect()
    gc.freeze()  # later collections then do not write to, and so copy, the shared pages of the forks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the tests
    what = wanted()
    if what is None:
        return
    gc.unfreeze()
    become(what["directory"], what["out"], what["err"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["flarelog", *what["start"]]
    sys.orig_argv = [sys.executable, "-m", *sys.argv]  # the command from which a receiver starts its workers
    try:
        flarelog.cli.main(prog_name="flarelog")
    except SystemExit as ended:
        if isinstance(ended.code, int):
            end(ended.code)
        raise


if __name__ == "__main__":
    main()
