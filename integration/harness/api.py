"""A server that answers as the Kubernetes API does, for a single pod; ``make kubernetes`` runs the real one."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.certificates import Authority


@contextmanager
def api_of(
    directory: Path,
    pod: Mapping[str, Any],
    *,
    late: float = 0.0,
    answers: Mapping[str, tuple[int, bytes]] | None = None,
) -> Iterator[tuple[str, ...]]:
    """The options for an API that lists *pod* after *late* seconds. *answers*: status and body of others, by path."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            status, body = (answers or {}).get(path, (200, b""))
            if path == "/api/v1/pods" and status == 200:
                if "watch=" in query:
                    over.wait(60)
                else:
                    over.wait(late)
                    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [pod]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    over = threading.Event()
    tls = Authority.new(directory).issue("api", hosts=("127.0.0.1",))
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
        yield "--api", url, "--api-token", str(token), "--api-ca", str(tls.ca)
    finally:
        over.set()
        server.shutdown()
        serving.join()
        server.server_close()
