"""A client for the API of Kubernetes: objects, and lists that are watched.

The token and the CA are read again when their files have changed, because a cluster renews both. A watch that ends, as
each does after some minutes, goes on from the latest version seen; if the server no longer has that (410), the list is
read again. No wait for the server is without a bound: a watch in which not even a bookmark comes is begun anew. (https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes)
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flarelog.errors import CONFIGURATION, CannotConnect, FlarelogError, InvalidFile, NotAllowed, NotInstalled
from flarelog.kubernetes import connection
from flarelog.kubernetes.options import KubernetesOptions, trusted
from flarelog.watched import stamp

WATCH = 240  # seconds of one watch; servers end longer ones themselves
SILENCE = 30.0  # seconds without an answer, or without more of one that has an end
QUIET = 90.0  # seconds without an event of a watch: the API server sends a bookmark about once a minute
FOLLOWED = 270.0  # seconds without a line of a log that is followed
PAGE = 500  # objects of one answer
MOST = 64 << 20  # bytes of one object or page
GONE = 410
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18})", re.ASCII)  # of a body, or of none
MISSING = b"404 page not found"  # what a file server in Go answers (net/http: NotFound)
REFUSAL = 4096  # bytes of an answer that refuses


class Change(NamedTuple):
    """A change in a watched list; *kind* is ADDED, MODIFIED or DELETED. LISTED comes before a whole list, COMPLETE
    after it, and BOOKMARK where the server shows that its watch goes on.
    """

    kind: str
    object: Mapping[str, Any]


LISTED, COMPLETE, BOOKMARK = Change("LISTED", {}), Change("COMPLETE", {}), Change("BOOKMARK", {})


class Answered(FlarelogError):
    """The API answered with an error; *status* is its HTTP status, *said* its object of the kind Status: what is
    between an agent and the API has none.
    """

    def __init__(self, sentence: str, status: int, said: Mapping[str, Any] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.said = status, said or {}


def is_final(error: FlarelogError) -> bool:
    """Whether *error* is a decision of the API, or of the configuration: the same call would fail again."""
    return isinstance(error, NotAllowed | InvalidFile)


class UnknownToken(NotAllowed):
    """The API does not know the token."""

    exit_code = CONFIGURATION


class Api:
    """The API at *where*, called *name* in messages. *transport*: httpx2's way to it. Raises NotInstalled."""

    def __init__(self, where: KubernetesOptions, transport: Any = None, name: str = "the Kubernetes API") -> None:
        try:
            import httpx2  # late: commands that never ask the API start without it
        except ImportError:
            raise NotInstalled("the Kubernetes API needs httpx2: pip install 'flarelog[kubernetes]'") from None
        self._httpx, self._where = httpx2, where
        self._client: Any = None
        self._transport, self._name = transport, name
        self._trusted: Any = None  # the TLS context of the present CA
        self._seen: object = None  # the state of the CA's file that the client was made with
        self._old: set[Any] = set()

    async def objects(self, path: str, fields: str = "") -> AsyncIterator[Change]:
        """The objects of the list at *path* that *fields* select, and their changes, without an end.

        Between LISTED and COMPLETE come all present objects as ADDED. Raises NotAllowed, CannotConnect, Answered, and
        InvalidFile for token and CA: call it again.
        """
        while True:
            yield LISTED
            version, token = "", ""
            while True:
                page = await self._page(path, fields, token)
                for each in page.get("items") or []:
                    yield Change("ADDED", each)
                version, token = _of(page, "resourceVersion"), _of(page, "continue")
                if not token:
                    break
            yield COMPLETE
            watched = False
            async for change in self._changes(path, fields, version):
                watched = True
                yield change
            if not watched:  # another list would be followed by another such watch
                who = f"{self._name} at {self._where.url}"
                raise Answered(f"{who} does not know the version of its own list of {path} ({GONE})", GONE)

    async def piece(self, path: str, begin: int, length: int) -> tuple[bytes, int] | None:
        """(at most *length* bytes of the file at *path* from *begin* on, the file's size); None if there is no such
        file. Raises as ``objects``.
        """
        headers = {"Range": f"bytes={begin}-{begin + length - 1}"}
        async with self._answer(path, {}, headers, bad=(404, 416)) as answer:
            if await self._is_missing(path, answer):
                return None
            data, status = await _body(answer, f"an answer to {path}"), answer.status_code
            if status == 200 and (data or "Accept-Ranges" in answer.headers):  # empty, or a server that knows no ranges
                return data[begin : begin + length], len(data)
            found = _RANGE.fullmatch(str(answer.headers.get("Content-Range", "")))
            if status == 416 and found is not None and found[1] is None:
                return b"", int(found[3])
            if status == 206 and found is not None and found[1] is not None:
                first, last, size = map(int, found.groups())
                if first == begin and len(data) == last + 1 - first and 0 < len(data) <= min(length, size - begin):
                    return data, size
            what = f"{len(data):,} bytes" if data else "nothing"
            raise Answered(f"{self._name} at {self._where.url} answered {path} with {status} and {what}", status)

    async def object(self, path: str) -> Mapping[str, Any]:
        """The object at *path*. Raises as ``objects``."""
        async with self._answer(path, {}) as answer:
            return parsed(await _body(answer, "an answer of the Kubernetes API"))

    async def text(self, path: str) -> str | None:
        """The text at *path* of a file server; None if it has none. Raises as ``objects``."""
        async with self._answer(path, {}, {}, bad=(404,)) as answer:
            if await self._is_missing(path, answer):
                return None
            return (await _body(answer, f"an answer to {path}")).decode("utf-8", "surrogateescape")

    async def _is_missing(self, path: str, answer: Any) -> bool:
        """Whether a file server says that it has no such file. Raises Answered where the API itself, or a proxy on the
        way, misses something: each says so in another way.
        """
        if answer.status_code != 404:
            return False
        body = await _body(answer, f"an answer to {path}")
        if body.strip() != MISSING:
            raise _refusal(path, f"{self._name} at {self._where.url}", 404, body[:REFUSAL])
        return True

    async def raw(self, path: str, params: Mapping[str, str], *, endless: bool = False) -> AsyncGenerator[bytes]:
        """The bytes at *path*, as they come, which may be for as long as the server likes. An *endless* answer ends in
        which nothing came for long. Raises as ``objects``.
        """
        url, given = self._where.url, {name: value for name, value in params.items() if value}
        headers, whole = self._headers(), f"{path}?{urlencode(given)}"
        self._made()
        status, refused = 0, b""
        try:
            silence = FOLLOWED if endless else SILENCE
            answer = connection.get(url, whole, headers, self._trusted, within=SILENCE, silence=silence)
            async with aclosing(answer) as pieces:
                async for piece in pieces:
                    if isinstance(piece, int):
                        status = piece
                    elif status < 300:
                        yield piece
                    elif len(refused) < REFUSAL:
                        refused += piece
        except (connection.Broken, OSError) as error:
            if not (endless and 0 < status < 300 and isinstance(error, TimeoutError)):
                raise self._no_answer(error) from error
        if status >= 300:
            raise _refusal(path, f"{self._name} at {url}", status, refused[:REFUSAL])

    async def _page(self, path: str, fields: str, token: str) -> Mapping[str, Any]:
        params = {"limit": str(PAGE), "fieldSelector": fields, "continue": token}
        async with self._answer(path, params) as answer:
            return parsed(await _body(answer, "an answer of the Kubernetes API"))

    async def _changes(self, path: str, fields: str, version: str) -> AsyncIterator[Change]:
        """The changes after *version*; ends when the list must be read again."""
        while True:
            params = {
                "watch": "1",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "fieldSelector": fields,
                "timeoutSeconds": str(WATCH),
            }
            events = 0
            try:
                async with self._answer(path, params, silence=QUIET) as answer:
                    with suppress(self._httpx.ReadTimeout):
                        async for line in _lines(answer.aiter_raw()):
                            event = parsed(line)
                            kind, found = str(event.get("type")), event.get("object") or {}
                            if kind == "ERROR":
                                if found.get("code") == GONE:
                                    return
                                raise _ended(found)
                            events += 1
                            version = _of(found, "resourceVersion") or version
                            yield BOOKMARK if kind == BOOKMARK.kind else Change(kind, found)
            except Answered as error:
                if error.status == GONE:
                    return
                raise
            if not events:  # a server that answers nothing must not be asked in a loop
                await asyncio.sleep(1.0)

    @asynccontextmanager
    async def _answer(
        self,
        path: str,
        params: Mapping[str, str],
        more: Mapping[str, str] | None = None,
        bad: Collection[int] = (),
        silence: float = SILENCE,
    ) -> AsyncIterator[Any]:
        """The answer to GET, with *more* headers; a status of *bad* is one too. *silence*: seconds between two pieces
        of it. Raises as ``objects``.
        """
        httpx, url = self._httpx, self._where.url
        try:
            given = {name: value for name, value in params.items() if value}
            headers, timeout = self._headers() | dict(more or {}), httpx.Timeout(SILENCE, read=silence)
            asked = self._made().stream("GET", path, params=given, headers=headers, timeout=timeout)
            async with asyncio.timeout(SILENCE) as beginning, asked as answer:
                beginning.reschedule(None)
                if answer.status_code >= 300 and answer.status_code not in bad:
                    raise _refusal(
                        path, f"{self._name} at {url}", answer.status_code, bytes(await answer.aread())[:REFUSAL]
                    )
                yield answer
        except (httpx.HTTPError, OSError) as error:
            raise self._no_answer(error) from error

    def _no_answer(self, error: Exception) -> CannotConnect:
        silent = isinstance(error, TimeoutError | self._httpx.TimeoutException)
        why = f"nothing came for {SILENCE:g} s" if silent else str(error) or type(error).__name__
        return CannotConnect(f"no answer from {self._name} at {self._where.url}: {why}")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._where.authorization()}", "Accept-Encoding": "identity"}

    def _made(self) -> Any:
        """The client; a new one if the CA has changed."""
        seen = stamp(self._where.ca)
        if self._client is None or seen != self._seen:
            self._trusted = trusted(self._where.ca)
            old, self._seen = self._client, seen
            # No proxy of the environment: the API is in the cluster.
            self._client = self._httpx.AsyncClient(
                base_url=self._where.url,
                verify=self._trusted,
                trust_env=False,
                transport=self._transport,
            )
            if old is not None:
                closing = asyncio.ensure_future(old.aclose())
                self._old.add(closing)
                closing.add_done_callback(self._old.discard)
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


async def _body(answer: Any, what: str) -> bytes:
    """The bytes of *answer*, which a message calls *what*. Raises Answered for more than MOST."""
    data = bytearray()
    async for piece in answer.aiter_raw():
        data += piece
        if len(data) > MOST:
            raise Answered(f"{what} is larger than {MOST >> 20} MiB", 200)
    return bytes(data)


def _refusal(path: str, who: str, status: int, body: bytes) -> FlarelogError:
    message, said = "", None
    try:
        said = json.loads(body)
        message = str(said.get("message") or "") if isinstance(said, dict) else ""
    except (ValueError, RecursionError):
        message = body[:200].decode(errors="replace")
    if status == 401:
        return UnknownToken(f"{who} does not know the token (401): {message}")
    if status == 403:
        return NotAllowed(f"{who} does not allow to read {path} (403): {message}")
    known = said if isinstance(said, dict) and said.get("kind") == "Status" else None
    return Answered(f"{who} answered {path} with {status}: {message}", status, known)


def _ended(found: Mapping[str, Any]) -> Answered:
    return Answered(f"the Kubernetes API ended a watch: {found.get('message')}", found.get("code") or 0)


def parsed(data: bytes | str) -> Mapping[str, Any]:
    """The object *data*. Raises Answered."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Answered("an answer of the Kubernetes API is no JSON", 200) from error
    if not isinstance(found, dict):
        raise Answered("an answer of the Kubernetes API is no object", 200)
    return found


def _of(found: Mapping[str, Any], name: str) -> str:
    metadata = found.get("metadata")
    return str(metadata.get(name) or "") if isinstance(metadata, dict) else ""


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of *pieces*; only LF ends a line."""
    rest = b""
    async for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        if len(rest) > MOST:
            raise Answered(f"an event of the Kubernetes API is larger than {MOST >> 20} MiB", 200)
        for line in whole:
            if line.strip():
                yield line
