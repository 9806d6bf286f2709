"""The first process of a node: it has a network, mounts, processes and cgroups of its own; the node ends with it.

Started by ``cluster``, which asks it over its standard input, a line of JSON each, to start, signal and await programs.
When that pipe closes, however the tests ended, this process ends, and the kernel kills all others of its namespace.
Listening sockets that it was given belong to the network outside: a thread relays their connections to ports inside.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

OWN = {"run": "/run", "log": "/var/log", "lib": "/var/lib"}
"""Directories of the node, and the paths at which it sees them, so that it writes to none of the host's."""
SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""What a kubelet sets in /proc/sys: it gets files in their places."""


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def furnish(directory: Path, addresses: list[str]) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in addresses:
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    for name, path in OWN.items():
        (directory / name).mkdir(exist_ok=True)
        mount("--bind", str(directory / name), path)
    hosts = directory / "hosts"  # pods with the node's network have it, too; the tests add names
    hosts.write_bytes(Path("/etc/hosts").read_bytes())
    mount("--bind", str(hosts), "/etc/hosts")
    for setting in SETTINGS:
        real = Path("/proc/sys") / setting
        if real.exists():
            copy = directory / "settings" / setting
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(real.read_bytes())
            mount("--bind", str(copy), str(real))
    # In its cgroup namespace this process is in the root of each hierarchy; only new mounts show it so.
    hierarchies = [line.split(":")[1] for line in Path("/proc/self/cgroup").read_text().splitlines()]
    mount("-t", "tmpfs", "cgroups", "/sys/fs/cgroup")
    for hierarchy in hierarchies:
        place = Path("/sys/fs/cgroup") / (hierarchy.removeprefix("name=") or "unified")
        place.mkdir()
        mount("-t", *(("cgroup", "-o", hierarchy) if hierarchy else ("cgroup2",)), "cgroup", str(place))


class Children:
    """Programs by name, and the end of each; this process is the parent of every orphan, too."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pids: dict[str, int] = {}
        self._ended: dict[int, int] = {}

    def start(self, name: str, command: list[str], env: dict[str, str]) -> int:
        said = os.open(self._directory / f"{name}.out", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            moved = [(os.POSIX_SPAWN_DUP2, fd, to) for fd, to in ((nothing, 0), (said, 1), (said, 2))]
            self._pids[name] = os.posix_spawnp(
                command[0],
                command,
                {**os.environ, **env},
                file_actions=moved,
                setsigdef=[signal.SIGINT, signal.SIGPIPE],
            )
        finally:
            os.close(said)
            os.close(nothing)
        return self._pids[name]

    def signal(self, name: str, number: int) -> None:
        self._reap()
        if self._pids[name] not in self._ended:
            os.kill(self._pids[name], number)

    def ended(self, name: str) -> int | None:
        """The exit code of *name*, or minus the signal's number; None if it runs."""
        self._reap()
        return self._ended.get(self._pids[name])

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._ended[pid] = os.waitstatus_to_exitcode(status)


async def relay(listeners: dict[socket.socket, int]) -> None:
    """Pass each connection of a listener to its port of the node."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            writer.transport.abort()

    async def connected(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # nobody listens
            writer.transport.abort()
            return
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
        for each in (writer, inner_writer):
            each.close()

    servers = [await asyncio.start_server(partial(connected, port), sock=each) for each, port in listeners.items()]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main(directory: Path, *words: str) -> None:
    furnish(directory, [word for word in words if ":" not in word])
    pairs = [word.split(":") for word in words if ":" in word]
    listeners = {socket.socket(fileno=int(descriptor)): int(port) for descriptor, port in pairs}
    for listener in listeners:
        listener.set_inheritable(False)
    threading.Thread(target=lambda: asyncio.run(relay(listeners)), daemon=True).start()
    children = Children(directory)
    answer(True)
    for line in sys.stdin:
        call = json.loads(line)
        try:
            answer(getattr(children, call["call"])(*call["with"]))
        except (OSError, KeyError) as error:
            print(json.dumps({"error": repr(error)}), flush=True)


def answer(result: Any) -> None:
    print(json.dumps({"result": result}), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the tests, which end the node
    main(Path(sys.argv[1]), *sys.argv[2:])
