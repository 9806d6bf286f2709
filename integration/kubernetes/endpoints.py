"""HTTPS requests to the cluster's servers, as one user sends them."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Endpoint:
    """An HTTPS server of the cluster, asked by one user."""

    address: str  # HOST:PORT
    ca: Path
    token: str = field(repr=False, default="")

    def connect(self, seconds: float = 60.0) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self.address, timeout=seconds, context=ssl.create_default_context(cafile=str(self.ca))
        )

    def open(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None,
        seconds: float = 60.0,
    ) -> http.client.HTTPResponse:  # fmt: skip
        """The answer, its body unread. *seconds* bounds each wait for bytes."""
        connection = self.connect(seconds)
        authorization = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection.request(method, path, body, {"Connection": "close", **authorization, **(headers or {})})
        return connection.getresponse()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        with self.open(method, path, body, headers) as answer:
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def get(self, path: str, **query: str | int | bool) -> Answer:
        asked = urlencode({name: str(value).lower() if value is True else value for name, value in query.items()})
        return self.ask("GET", f"{path}?{asked}" if asked else path)

    def as_user(self, token: str) -> Endpoint:
        return Endpoint(self.address, self.ca, token)


def ready(endpoint: Endpoint, path: str) -> bool:
    try:
        return endpoint.get(path).status == 200
    except OSError:
        return False
