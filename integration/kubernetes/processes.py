"""The namespaces in which a node's programs run, and these programs; and what removes the rest of a node that ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.harness.places import until

PREFIX = "flarelog-kubernetes-"
START = 120.0  # seconds, on a loaded machine: the API server takes 2 s on an idle one
# The node's addresses, in its own network alone. The second is the API server's for pods, as the first of the services;
# at other ports than 443 it would need a proxy.
ADDRESS, SERVICE = "198.18.0.1", "10.0.0.1"
PORTS = {"api": 443, "kubelet": 10250}


@dataclass(frozen=True)
class Part:
    """A program of the node. ``kubelet.restart()``: it is stopped, and started with what its files say now."""

    name: str
    node: Node
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        self.node.call("start", self.name, list(self.command), dict(self.env))

    def send(self, number: int) -> None:
        self.node.call("signal", self.name, number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.send(number)
        until(lambda: self.ended is not None, lambda: f"{self.name} ends", START)

    def restart(self, number: int = signal.SIGTERM) -> None:
        self.stop(number)
        self.start()

    @property
    def ended(self) -> int | None:
        """The exit code, or minus the signal's number; None while it runs."""
        result = self.node.call("ended", self.name)
        assert result is None or isinstance(result, int)
        return result

    @property
    def said(self) -> str:
        return (self.node.directory / f"{self.name}.out").read_text(errors="replace")


class Node:
    """The namespaces of a node below *directory*, and the process that holds them (``node.py``)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._asking = threading.Lock()
        self._groups = cgroups(directory.name)
        for group in self._groups:
            group.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, which no process can then join
                if (group / name).exists():
                    (group / name).write_bytes((group.parent / name).read_bytes())
        listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in PORTS}
        self.addresses = {name: "{}:{}".format(*listener.getsockname()) for name, listener in listeners.items()}
        relayed = [f"{listener.fileno()}:{PORTS[name]}" for name, listener in listeners.items()]
        self._process = subprocess.Popen(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--cgroup", "--mount-proc",
             sys.executable, str(Path(__file__).with_name("node.py")), str(directory), ADDRESS, SERVICE, *relayed],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=self._join,
            env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
            pass_fds=[listener.fileno() for listener in listeners.values()],
        )  # fmt: skip
        for listener in listeners.values():
            listener.close()
        self._answer()
        self.first = int(Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()[0])
        self.inside = ("nsenter", "--target", str(self.first), "--net", "--")
        """The words before a command that make it use the node's network."""

    def _join(self) -> None:
        for group in self._groups:
            (group / "cgroup.procs").write_text("0")

    def call(self, name: str, *args: Any) -> Any:
        assert self._process.stdin is not None
        with self._asking:
            self._process.stdin.write(json.dumps({"call": name, "with": args}) + "\n")
            self._process.stdin.flush()
            return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the node's first process ended with {self._process.wait()}"
        said = json.loads(line)
        assert "error" not in said, said
        return said["result"]

    def close(self) -> None:
        """End all processes of the node, at once."""
        with self._process:  # closes its pipes, and waits
            pass


def cgroups(name: str) -> list[Path]:
    """The directories of the cgroup *name* below this process's own, one of each hierarchy that is mounted."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, hierarchy, path = line.split(":", 2)
        mounted = Path("/sys/fs/cgroup") / (hierarchy.removeprefix("name=") or "unified")
        if (mounted / "cgroup.procs").exists():
            found.append(mounted / path.lstrip("/") / name)
    return found


def sweep(directory: Path) -> None:
    """Remove *directory* and the cgroups of a node that has ended."""
    for group in cgroups(directory.name):
        for path, _, _ in os.walk(group, topdown=False):
            # The kernel removes a process from its cgroup some time after it ended.
            until(lambda path=path: removed(Path(path)), f"{path} is empty")  # type: ignore[misc]
    shutil.rmtree(directory)


def removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def sweep_leftovers() -> None:
    """Remove what tests left that were killed; each living cluster has a lock."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), open(directory / "lock", "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sweep(directory)
