"""A server that answers as the Kubernetes API does, for a single pod; ``make kubernetes`` runs the real one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from integration.harness.https import Answers, served


@contextmanager
def api_of(
    directory: Path,
    pod: Mapping[str, Any],
    *,
    late: float = 0.0,
    answers: Mapping[str, tuple[int, bytes]] | None = None,
) -> Iterator[tuple[str, ...]]:
    """The options for an API that lists *pod* after *late* seconds. *answers*: status and body of others, by path."""

    class Pods(Answers):
        def get(self) -> None:
            path, _, query = self.path.partition("?")
            status, body = (answers or {}).get(path, (200, b""))
            if path == "/api/v1/pods" and status == 200:
                if "watch=" in query:
                    over.wait(60)
                else:
                    over.wait(late)
                    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [pod]}).encode()
            self.answer(status, body)

    over = threading.Event()
    with served(directory, Pods) as server:
        try:
            yield "--api", server.url, "--api-token", server.token, "--api-ca", server.ca
        finally:
            over.set()
