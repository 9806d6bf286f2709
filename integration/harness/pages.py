"""A ``flarelog web`` that is ready, and its clients, which speak only HTTP."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import httpx

from integration.harness.places import LOG, RUN, SITE, Place, Program, until

STREAM = {"run": RUN, "site": SITE, "log": LOG}
Row = list[Any]


class Page:
    """The page's process, and its address."""

    def __init__(self, place: Place, *args: str, listen: str = "127.0.0.1:0", **env: Any) -> None:
        self.place = place
        self.clients: list[httpx.Client] = []
        pages(place).append(self)
        self._env = {"XDG_RUNTIME_DIR": str(place.directory / "runtime"), **env}
        ready = place.directory / f"{len(place.programs)}.web"
        self.program: Program = place.start("web", *args, "--listen", listen, "--ready-file", str(ready), **self._env)
        until(
            lambda: ready.exists() or self.program.process.poll() is not None,
            lambda: f"the page is ready; it said:\n{self.program.said}",
        )
        assert ready.exists(), self.program.talk()
        self.address = ready.read_text().strip()

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def secret(self) -> str:
        """The secret of a new login."""
        program = self.place.start("web", "login", "--listen", self.address, **self._env)
        assert program.ends() == 0, program.talk()
        return program.printed.strip().partition("#login=")[2]

    def stranger(self) -> httpx.Client:
        """A client without a login."""
        client = httpx.Client(base_url=self.url, timeout=30)
        self.clients.append(client)
        return client

    def browser(self, token: str = "") -> httpx.Client:
        """A client that has logged in, with *token* or with the page's own rights."""
        client = self.stranger()
        said = {"token": token} if token else {"secret": self.secret()}
        answer = client.post("/api/login", json=said)
        assert answer.status_code == 200, answer.text
        return client


_PAGES: WeakKeyDictionary[Place, list[Page]] = WeakKeyDictionary()


def pages(place: Place) -> list[Page]:
    """The pages of *place*."""
    return _PAGES.setdefault(place, [])


@contextlib.contextmanager
def closing(place: Place) -> Iterator[None]:
    """Close all browsers of *place* at the end."""
    try:
        yield
    finally:
        for page in pages(place):
            for client in page.clients:
                client.close()


class Tailing:
    """A tail that a thread reads until it ends or is closed."""

    def __init__(self, client: httpx.Client, streams: list[dict[str, Any]], before: Tailing | None = None) -> None:
        self.said: list[dict[str, Any]] = []
        self.rows: dict[int, dict[int, Row]] = {} if before is None else before.rows
        self.given: int = 0 if before is None else before.given  # rows, repeated ones included
        self.at: dict[int, int] = {}
        self.ended = False
        self._stop, self._taking = threading.Event(), threading.Lock()
        self._client, self._streams = client, streams
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        asked = self._client.stream("POST", "/api/tail", json={"streams": self._streams})
        with contextlib.suppress(httpx.HTTPError), asked as answer:
            for line in answer.iter_lines():
                if self._stop.is_set():
                    return
                if line:
                    self._took(json.loads(line))
        self.ended = True

    def _took(self, what: dict[str, Any]) -> None:
        self.said.append(what)
        with self._taking:
            for row in what.get("rows", ()):
                self.given += 1
                if not row[4] & 2:
                    self.rows.setdefault(row[0], {})[row[1]] = row
        for k, place, _, _ in what.get("at", ()):
            self.at[k] = place

    def texts(self, k: int = 0) -> list[str]:
        with self._taking:
            return [row[3] for _, row in sorted(self.rows.get(k, {}).items())]

    def says(self, key: str) -> list[Any]:
        return [one[key] for one in list(self.said) if key in one]

    def close(self) -> None:
        self._stop.set()


@contextlib.contextmanager
def tailing(client: httpx.Client, *streams: dict[str, Any], before: Tailing | None = None) -> Iterator[Tailing]:
    tail = Tailing(client, list(streams), before)
    try:
        yield tail
    finally:
        tail.close()
