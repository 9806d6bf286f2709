"""Processes of ``flarelog`` without the half second that an interpreter takes to import it.

A process imports all commands and starts nothing: no loop, no channel, no thread. Each program that is wanted is a fork
of it, which does from then on what ``python -m flarelog`` does, its end included.
"""

from __future__ import annotations

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
from typing import Any

import flarelog.cli

_TREE = Path(__file__).parents[2]
_MESSAGE = 1 << 17
_PR_SET_PDEATHSIG = 1


class Forked:
    """A program, with what the tests use of ``subprocess.Popen``."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self.pid, self.returncode = pid, None
        self._nursery = nursery

    returncode: int | None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended. Raises subprocess.TimeoutExpired."""
        if self.poll() is None:  # what has ended keeps its number until it is asked
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
    """Where programs are forked, with the environment *env*."""

    def __init__(self, env: dict[str, str]) -> None:
        self._socket, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with inner:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "integration.harness.nursery"], stdin=inner.fileno(), cwd=_TREE, env=env
            )
        self._lock = threading.Lock()

    def start(self, args: tuple[str, ...], directory: Path, out: Path, err: Path) -> Forked:
        """``flarelog`` with *args* in *directory*, talking into *out* and *err*."""
        return Forked(self, self.ask(start=args, directory=str(directory), out=str(out), err=str(err)))

    def ask(self, **what: Any) -> Any:
        with self._lock:
            self._socket.send(json.dumps(what).encode())
            return json.loads(self._socket.recv(_MESSAGE))

    def close(self) -> None:
        """End it, and what is left of what it started."""
        self._socket.close()
        self._process.wait()


def wanted() -> dict[str, Any] | None:
    """In a fork what it is wanted for; None when nothing more is wanted."""
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
    """Make a fork a program of its own in *directory*, talking into *out* and *err*; it ends with its parent, and that
    when the tests do, however they end.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(directory)
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, os.O_WRONLY), (2, err, os.O_WRONLY)):
        opened = os.open(path, flags | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)


def main() -> None:
    for name in flarelog.cli.COMMANDS:
        importlib.import_module(f"flarelog.cli.{name.replace('-', '_')}")
    gc.collect()
    gc.freeze()  # what is imported is not to be copied because it is looked at
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who interrupts the tests means them
    what = wanted()
    if what is None:
        return
    gc.unfreeze()
    become(what["directory"], what["out"], what["err"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["flarelog", *what["start"]]
    sys.orig_argv = [sys.executable, "-m", *sys.argv]  # what a receiver starts its workers with
    flarelog.cli.main(prog_name="flarelog")


if __name__ == "__main__":
    main()
