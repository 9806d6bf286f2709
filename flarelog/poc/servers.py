"""Real nats-servers with JetStream: one, or a cluster of three, in a directory of their own.

nats-server is built once for each version from its Go module, into ``~/.cache/flarelog/nats-server-VERSION``
(FLARELOG_NATS_CACHE names another directory for all versions). Debian's nats-server 2.9.10 is no substitute: the
compare-and-set of its clusters is broken.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from flarelog.errors import NotInstalled, TimedOut
from flarelog.poc.network import Network
from flarelog.poc.ports import free_ports
from flarelog.security.tls import Tls

T = TypeVar("T")

VERSION = os.environ.get("FLARELOG_NATS_VERSION") or "v2.15.2"
MODULE = "github.com/nats-io/nats-server/v2"
OLDEST = (2, 14)  # of what the PATH has
START_WITHIN = 30.0  # seconds until a server answers, and until a cluster has a leader
BUILD_WITHIN = 900.0  # seconds


def cache(version: str = VERSION) -> Path:
    root = os.environ.get("FLARELOG_NATS_CACHE") or Path.home() / ".cache" / "flarelog"
    return Path(root) / f"nats-server-{version.removeprefix('v')}"


def missing() -> str:
    """The reason why no server can run here; empty if one can."""
    if (cache() / "nats-server").exists() or shutil.which("go"):
        return ""
    return (
        f"nats-server {'.'.join(map(str, OLDEST))} or later is neither on the PATH nor in {cache().parent}, and Go,"
        " which would build it, is missing: install one of them"
    )


def found() -> tuple[Path, str]:
    """The program nats-server, and where it is from: the PATH, the cache, or a build. Raises NotInstalled."""
    if (own := shutil.which("nats-server")) is not None:
        said = subprocess.run((own, "--version"), capture_output=True, text=True, check=False).stdout
        version = re.search(r"v(\d+)\.(\d+)", said)
        if version is not None and tuple(map(int, version.groups())) >= OLDEST:
            return Path(own), "of the PATH"
    if (cache() / "nats-server").exists():
        return cache() / "nats-server", "built before"
    return built(), f"built with Go from {MODULE}@{VERSION}"


def built(version: str = VERSION) -> Path:
    """The program nats-server of the cache, built if it is missing. Raises NotInstalled."""
    directory = cache(version)
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "nats-server"
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be building it
        if program.exists():
            return program
        if why := missing():
            raise NotInstalled(why)
        unfinished = directory / "unfinished"  # a build that was killed leaves no half program
        env = {**os.environ, "GOBIN": str(unfinished), "CGO_ENABLED": "0"}
        command = ("nice", "go", "install", f"{MODULE}@{version}")
        try:
            subprocess.run(
                command, cwd=directory, env=env, check=True, capture_output=True, text=True, timeout=BUILD_WITHIN
            )
        except subprocess.CalledProcessError as error:
            why = error.stderr.strip().rpartition("\n")[2] or f"it ended with {error.returncode}"
            raise NotInstalled(f"nats-server {version} could not be built: go install: {why}") from None
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"nats-server {version} could not be built within {BUILD_WITHIN:g} s") from None
        (unfinished / "nats-server").replace(program)
    return program


class Servers:
    """*count* servers, 1 or 3, that store below *directory*.

    *network*: a place for each, where it can be cut off from the others; *program*: default: that of the cache;
    *more*: further lines of their configuration.
    """

    def __init__(
        self,
        directory: Path,
        count: int = 1,
        *,
        program: Path | None = None,
        network: Network | None = None,
        tls: Tls | None = None,
        more: str = "",
    ) -> None:
        self.directory, self.count, self.network, self.tls, self.more = directory, count, network, tls, more
        self.hosts = ["127.0.0.1"] * count if network is None else network.hosts
        ports = free_ports(3 * count)
        self.ports, self._routes, self._monitors = ports[:count], ports[count : 2 * count], ports[2 * count :]
        self.servers: list[subprocess.Popen[bytes] | None] = [None] * count
        self._program = program

    def url(self, name: str = "logs", user: str = "") -> str:
        """The URL of the store *name* on all servers."""
        scheme = "nats" if self.tls is None else "tls"
        ends = (f"{host}:{port}" for host, port in zip(self.hosts, self.ports, strict=True))
        return f"{scheme}://{user}{','.join(ends)}/{name}"

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
        inside = () if self.network is None else self.network.inside(number)
        command = (*inside, str(self._program or built()), "-c", str(config))
        with open(directory / "log", "ab") as log:
            self.servers[number] = subprocess.Popen(command, stdout=log, stderr=log)

    def _config(self, number: int, directory: Path) -> str:
        said = (
            f'server_name: "server-{number}"\nlisten: "{self.hosts[number]}:{self.ports[number]}"\n'
            f'http: "{self.hosts[number]}:{self._monitors[number]}"\nmax_payload: 1048576\n'
            f'jetstream {{ store_dir: "{directory}/data", max_file_store: 1099511627776 }}\n'
        )
        if self.tls is not None:
            said += f'tls {{ cert_file: "{self.tls.cert}", key_file: "{self.tls.key}", ca_file: "{self.tls.ca}" }}\n'
        if self.count > 1:
            host = "127.0.0.1" if self.network is None else "0.0.0.0"  # noqa: S104  of its own namespace
            others = (other for other in range(self.count) if other != number)
            routes = ", ".join(f'"nats://{self._peer(number, other)}:{self._routes[other]}"' for other in others)
            said += (
                f'cluster {{ name: "flarelog", listen: "{host}:{self._routes[number]}", routes: [{routes}],'
                " no_advertise: true }\n"
            )
        return said + self.more

    def _peer(self, number: int, other: int) -> str:
        return self.hosts[other] if self.network is None else self.network.peer(number, other)

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
            url = f"http://{self.hosts[number]}:{self._monitors[number]}/{path}"
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=2.0) as answer:
                return dict(json.load(answer))
        except OSError:
            return {}


def _until(condition: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + START_WITHIN
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimedOut(f"not within {START_WITHIN:g} s: {what}")
        time.sleep(0.05)
    return found
