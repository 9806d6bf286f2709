"""Real nats-servers with JetStream: one, or a cluster of three, in a directory of their own.

nats-server is built once for each version from its Go module, into ``~/.cache/flarelog/nats-server-VERSION``
(FLARELOG_NATS_CACHE names another directory for all versions). ``python -m integration.harness.nats`` builds it
before any test: it takes two minutes of CPU. Debian's nats-server 2.9.10 is no substitute: the compare-and-set of its
clusters is broken.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from flarelog.security.tls import Tls

T = TypeVar("T")

VERSION = os.environ.get("FLARELOG_NATS_VERSION") or "v2.15.2"
MODULE = "github.com/nats-io/nats-server/v2"
START_WITHIN = 30.0  # seconds until a server answers, and until a cluster has a leader
USERS = 'accounts { LOGS { jetstream: enabled, users: [{ user: "flarelog", password: "secret" }] } }\n'
"""An account with one user, for the tests of permissions."""


def cache(version: str = VERSION) -> Path:
    root = os.environ.get("FLARELOG_NATS_CACHE") or Path.home() / ".cache" / "flarelog"
    return Path(root) / f"nats-server-{version.removeprefix('v')}"


def missing() -> str:
    """The reason why no server can run here; empty if one can."""
    if (cache() / "nats-server").exists() or shutil.which("go"):
        return ""
    return f"nats-server {VERSION} is not built yet, and Go is missing: install Go 1.25 or later"


def built(version: str = VERSION) -> Path:
    """The program nats-server, built if it is missing."""
    directory = cache(version)
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "nats-server"
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other tests may be building it
        if not program.exists():
            unfinished = directory / "unfinished"  # a build that was killed leaves no half program
            env = {**os.environ, "GOBIN": str(unfinished), "CGO_ENABLED": "0"}
            subprocess.run(["nice", "go", "install", f"{MODULE}@{version}"], cwd=directory, env=env, check=True)
            (unfinished / "nats-server").replace(program)
    return program


class Nats:
    """*count* servers, 1 or 3, that store below *directory*; *more*: further lines of their configuration."""

    def __init__(self, directory: Path, count: int = 1, *, tls: Tls | None = None, more: str = "") -> None:
        self.directory, self.count, self.tls, self.more = directory, count, tls, more
        ports = free_ports(3 * count)
        self.ports, self._routes, self._monitors = ports[:count], ports[count : 2 * count], ports[2 * count :]
        self.servers: list[subprocess.Popen[bytes] | None] = [None] * count

    def url(self, name: str = "logs", user: str = "") -> str:
        """The URL of the store *name* on all servers."""
        scheme = "nats" if self.tls is None else "tls"
        return f"{scheme}://{user}{','.join(f'127.0.0.1:{port}' for port in self.ports)}/{name}"

    def __enter__(self) -> Self:
        try:
            for number in range(self.count):
                self.start(number)
            self.settle()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for number in range(self.count):
            self.kill(number)

    def start(self, number: int) -> None:
        """Start server *number*, again on its own directory and ports."""
        directory = self.directory / f"server-{number}"
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "nats.conf"
        config.write_text(self._config(number, directory))
        with open(directory / "log", "ab") as log:
            self.servers[number] = subprocess.Popen([built(), "-c", config], stdout=log, stderr=log)

    def _config(self, number: int, directory: Path) -> str:
        said = (
            f'server_name: "server-{number}"\nlisten: "127.0.0.1:{self.ports[number]}"\n'
            f'http: "127.0.0.1:{self._monitors[number]}"\nmax_payload: 1048576\n'
            f'jetstream {{ store_dir: "{directory}/data", max_file_store: 1099511627776 }}\n'
        )
        if self.tls is not None:
            said += f'tls {{ cert_file: "{self.tls.cert}", key_file: "{self.tls.key}", ca_file: "{self.tls.ca}" }}\n'
        if self.count > 1:
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
            listen = f"127.0.0.1:{self._routes[number]}"
            said += f'cluster {{ name: "tests", listen: "{listen}", routes: [{routes}] }}\n'
        return said + self.more

    def settle(self) -> None:
        """Wait until all running servers are healthy: they have a leader, and their streams are up to date."""
        running = [number for number, server in enumerate(self.servers) if server is not None]
        _until(lambda: all(self._ask(number, "healthz").get("status") == "ok" for number in running), "healthy servers")
        if self.count > 1:
            _until(lambda: any(self._ask(number, "jsz").get("meta_cluster", {}).get("leader") for number in running),
                   "a leader of the cluster")  # fmt: skip

    def kill(self, number: int) -> None:
        """Kill server *number*, also a stopped one, and wait for its end."""
        self._send(number, signal.SIGKILL)
        if (server := self.servers[number]) is not None:
            server.wait()
            self.servers[number] = None

    def end(self, number: int) -> None:
        """End server *number* by SIGTERM, as a rolling restart does."""
        self._send(number, signal.SIGTERM)
        if (server := self.servers[number]) is not None:
            server.wait(START_WITHIN)
            self.servers[number] = None

    def stop(self, number: int) -> None:
        """Stop server *number*, which keeps its connections, until ``go_on``."""
        self._send(number, signal.SIGSTOP)

    def go_on(self, number: int) -> None:
        self._send(number, signal.SIGCONT)

    def _send(self, number: int, what: signal.Signals) -> None:
        if (server := self.servers[number]) is not None:
            server.send_signal(what)

    def leader(self, stream: str) -> int:
        """The number of the server that leads *stream*, a stream of JetStream."""
        if self.count == 1:
            return 0

        def found() -> list[int]:
            for number, server in enumerate(self.servers):
                if server is None:
                    continue
                for account in self._ask(number, "jsz?streams=1&accounts=1").get("account_details", ()):
                    for one in account.get("stream_detail", ()):
                        if one["name"] == stream and one.get("cluster", {}).get("leader"):
                            return [int(one["cluster"]["leader"].removeprefix("server-"))]
            return []

        return _until(found, f"a leader of {stream}")[0]

    def _ask(self, number: int, path: str) -> dict[str, Any]:
        try:
            url = f"http://127.0.0.1:{self._monitors[number]}/{path}"
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2.0) as answer:
                return dict(json.load(answer))
        except OSError:
            return {}


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now; a server that starts again needs its own."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _until(condition: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + START_WITHIN
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {START_WITHIN:g} s: {what}")
        time.sleep(0.05)
    return found


if __name__ == "__main__":
    print(built())
