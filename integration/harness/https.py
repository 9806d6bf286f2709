"""An HTTPS server of a test's own, with a certificate, and a token for its clients; tests tell what it answers."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from tests.certificates import Authority


class Answers(BaseHTTPRequestHandler):
    """What a server answers: ``get`` answers a request, by ``answer``."""

    def get(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.get()

    def answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for header in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Served(NamedTuple):
    url: str
    token: str  # the path of a file
    ca: str  # likewise


@contextmanager
def served(directory: Path, handler: type[Answers]) -> Iterator[Served]:
    """A running server whose requests *handler* answers. Whatever holds answers back must end before it is closed."""
    directory.mkdir(exist_ok=True)
    tls = Authority.new(directory).issue("server", hosts=("127.0.0.1",))
    token = directory / "token"
    token.write_text("secret")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(tls.cert), str(tls.key))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield Served(f"https://127.0.0.1:{server.server_address[1]}", str(token), str(tls.ca))
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
