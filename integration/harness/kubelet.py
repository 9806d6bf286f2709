"""A file server over HTTPS that answers as a kubelet's does; ``make kubernetes`` runs the real one."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.certificates import Authority

SILENT = 0
"""A fault: no answer, until the server is closed or the fault is over."""


class Faults(dict[str, int]):
    """By a pattern of paths: the status that they are answered with, or SILENT."""

    def of(self, path: str) -> int | None:
        return next((status for pattern, status in self.items() if re.search(pattern, path)), None)


@contextmanager
def kubelet_of(directory: Path, root: Path, faults: Faults) -> Iterator[tuple[str, ...]]:
    """The options for a kubelet whose /var/log/pods is *root*. What is in *faults*, at any time, is not answered."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            while (status := faults.of(self.path)) == SILENT and not over.wait(0.1):
                pass
            if status:
                self._send(status, b"that is a fault\n")
                return
            path = root / self.path.removeprefix("/logs/pods").strip("/")
            try:
                if path.is_dir():
                    names = [f"{each.name}/" if each.is_dir() else each.name for each in sorted(path.iterdir())]
                    links = "".join(f'<a href="{name}">{name}</a>\n' for name in names)
                    self._send(200, f"<pre>\n{links}</pre>\n".encode())
                else:
                    self._send_part(path.read_bytes())
            except FileNotFoundError:
                self._send(404, b"404 page not found\n")

        def _send_part(self, data: bytes) -> None:
            begin, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            if begin < len(data):
                part = data[begin : last + 1]
                self._send(206, part, ("Content-Range", f"bytes {begin}-{begin + len(part) - 1}/{len(data)}"))
            elif data:
                self._send(416, b"", ("Content-Range", f"bytes */{len(data)}"))
            else:
                self._send(200, b"", ("Accept-Ranges", "bytes"))

        def _send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for header in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(*header)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    over = threading.Event()
    directory.mkdir(exist_ok=True)
    tls = Authority.new(directory).issue("kubelet", hosts=("127.0.0.1",))
    token = directory / "token"
    token.write_text("secret")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(tls.cert), str(tls.key))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        url = f"https://127.0.0.1:{server.server_address[1]}"
        yield "--kubelet", url, "--kubelet-ca", str(tls.ca), "--api-token", str(token)
    finally:
        over.set()
        server.shutdown()
        serving.join()
        server.server_close()
