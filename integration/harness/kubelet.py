"""A file server over HTTPS that answers as a kubelet's does; ``make kubernetes`` runs the real one."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.harness.https import Answers, served

SILENT = 0
"""A fault: no answer, until the server is closed or the fault is over."""


class Faults(dict[str, int]):
    """By a pattern of paths: the status that they are answered with, or SILENT."""

    def of(self, path: str) -> int | None:
        return next((status for pattern, status in self.items() if re.search(pattern, path)), None)


@contextmanager
def kubelet_of(directory: Path, root: Path, faults: Faults) -> Iterator[tuple[str, ...]]:
    """The options for a kubelet whose /var/log/pods is *root*. What is in *faults*, at any time, is not answered."""

    class Logs(Answers):
        protocol_version = "HTTP/1.1"

        def get(self) -> None:
            while (status := faults.of(self.path)) == SILENT and not over.wait(0.1):
                pass
            if status:
                self.answer(status, b"that is a fault\n")
                return
            path = root / self.path.removeprefix("/logs/pods").strip("/")
            try:
                if path.is_dir():
                    names = [f"{each.name}/" if each.is_dir() else each.name for each in sorted(path.iterdir())]
                    links = "".join(f'<a href="{name}">{name}</a>\n' for name in names)
                    self.answer(200, f"<pre>\n{links}</pre>\n".encode())
                else:
                    self._send_part(path.read_bytes())
            except FileNotFoundError:
                self.answer(404, b"404 page not found\n")

        def _send_part(self, data: bytes) -> None:
            begin, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            if begin < len(data):
                part = data[begin : last + 1]
                self.answer(206, part, ("Content-Range", f"bytes {begin}-{begin + len(part) - 1}/{len(data)}"))
            elif data:
                self.answer(416, b"", ("Content-Range", f"bytes */{len(data)}"))
            else:
                self.answer(200, b"", ("Accept-Ranges", "bytes"))

    over = threading.Event()
    with served(directory, Logs) as server:
        try:
            yield "--kubelet", server.url, "--kubelet-ca", server.ca, "--api-token", server.token
        finally:
            over.set()
