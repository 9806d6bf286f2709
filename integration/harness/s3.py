"""A real S3 server, versitygw, with its buckets in a directory.

It is built once for each version from its Go module, into ``~/.cache/flarelog/versitygw-VERSION``
(FLARELOG_S3_CACHE names another directory for all versions). ``python -m integration.harness.s3`` builds it before any
test: it takes four minutes of CPU.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

VERSION = "v1.8.0"
MODULE = "github.com/versity/versitygw/cmd/versitygw"
BUCKET = "logs"
START_WITHIN = 30.0  # seconds until the server takes connections
_REQUEST = re.compile(r"\| (\d{3}) \|.*\| (GET|HEAD|PUT|POST|DELETE) +\| (\S+)")


def cache(version: str = VERSION) -> Path:
    root = os.environ.get("FLARELOG_S3_CACHE") or Path.home() / ".cache" / "flarelog"
    return Path(root) / f"versitygw-{version.removeprefix('v')}"


def missing() -> str:
    """The reason why no server can run here; empty if one can. A test builds none: it would take minutes."""
    there = (cache() / "versitygw").exists()
    return (
        "" if there else f"versitygw {VERSION} is not built: python -m integration.harness.s3 (needs Go 1.25 or later)"
    )


def built(version: str = VERSION) -> Path:
    """The program versitygw, built if it is missing."""
    directory = cache(version)
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "versitygw"
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other tests may be building it
        if not program.exists():
            unfinished = directory / "unfinished"  # a build that was killed leaves no half program
            env = {**os.environ, "GOBIN": str(unfinished), "CGO_ENABLED": "0"}
            subprocess.run(["nice", "go", "install", f"{MODULE}@{version}"], cwd=directory, env=env, check=True)
            (unfinished / "versitygw").replace(program)
    return program


class S3:
    """A server that stores below *directory*, with the bucket BUCKET."""

    def __init__(self, directory: Path) -> None:
        self._data, self._log = directory / "buckets", directory / "requests"
        (self._data / BUCKET).mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._server: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, Any] = {
            "AWS_ACCESS_KEY_ID": "flarelog",
            "AWS_SECRET_ACCESS_KEY": "secretsecret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
        }

    def url(self, prefix: str = "archive") -> str:
        return f"s3://{BUCKET}/{prefix}"

    def start(self) -> None:
        env = {**os.environ, "ROOT_ACCESS_KEY": "flarelog", "ROOT_SECRET_KEY": "secretsecret"}
        with open(self._log, "ab") as log:
            command = [str(built()), "--port", f"127.0.0.1:{self.port}", "--keep-alive", "posix", str(self._data)]
            self._server = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        deadline = time.monotonic() + START_WITHIN
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < deadline, self._log.read_text()[-2000:]
                assert self._server.poll() is None, self._log.read_text()[-2000:]
                time.sleep(0.02)

    def kill(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()

    def requests(self) -> list[tuple[int, str, str]]:
        """The answers so far: a status, a method and a path each."""
        found = _REQUEST.findall(self._log.read_text())
        return [(int(status), method, path) for status, method, path in found]

    def objects(self, part: str = "") -> list[str]:
        """The keys of the bucket that contain *part*."""
        root = self._data / BUCKET
        keys = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
        return sorted(key for key in keys if part in key)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


if __name__ == "__main__":
    print(built())
