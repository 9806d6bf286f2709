"""The client of the API against answers that a real API server gave."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from flarelog.errors import CannotConnect, FlarelogError, InvalidOption, NotAllowed
from flarelog.kubernetes.client import BOOKMARK, COMPLETE, LISTED, Answered, Api, Change
from flarelog.kubernetes.options import KubernetesOptions
from tests.certificates import Authority

RECORDED = Path(__file__).parent.parent / "data" / "kubernetes" / "answers"
Served = Callable[[httpx2.Request], httpx2.Response]


def body(name: str) -> tuple[int, bytes]:
    """(status, body) of a recorded answer; chunks are joined."""
    head, _, rest = (RECORDED / f"{name}.http").read_bytes().partition(b"\r\n\r\n")
    if b"Transfer-Encoding: chunked" in head:
        whole = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            whole += rest[: int(size, 16)]
            rest = rest[int(size, 16) + 2 :]
        rest = whole
    return int(head.split()[1]), rest


class Pieces(httpx2.AsyncByteStream):
    """A body in pieces of a few bytes, as a connection may bring it."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size = data, size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._data), self._size):
            yield self._data[at : at + self._size]


def answer(name: str, size: int = 1000) -> httpx2.Response:
    status, data = body(name)
    return httpx2.Response(status, stream=Pieces(data, size))


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> KubernetesOptions:
    directory = tmp_path_factory.mktemp("api")
    Authority.new(directory)
    (directory / "token").write_text("secret\n")
    return KubernetesOptions(
        api="https://10.0.0.1:6443", api_ca=str(directory / "ca.crt"), api_token=str(directory / "token")
    )


def changes(where: KubernetesOptions, serve: Served, most: int) -> list[Change]:
    """The first *most* changes of all pods."""

    async def read() -> list[Change]:
        api, found = Api(where, httpx2.MockTransport(serve)), list[Change]()
        async for change in api.objects("/api/v1/pods", "spec.nodeName=node-1"):
            found.append(change)
            if len(found) == most:
                break
        await api.close()
        return found

    return asyncio.run(read())


def serving(*names: str) -> tuple[Served, list[httpx2.Request]]:
    """What gives the answers *names* in turn, and the requests that came."""
    asked: list[httpx2.Request] = []
    left: Iterator[str] = iter(names)

    def serve(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return answer(next(left))

    return serve, asked


def test_a_list_and_then_its_changes_come_with_the_right_questions(where: KubernetesOptions) -> None:
    serve, asked = serving("list-pods", "watch-life")
    listed = json.loads(body("list-pods")[1])
    events = [json.loads(line) for line in body("watch-life")[1].splitlines()]
    found = changes(where, serve, 2 + len(listed["items"]) + len(events))
    assert found[0] is LISTED
    assert found[1 + len(listed["items"])] is COMPLETE
    assert [change.kind for change in found[2 + len(listed["items"]) :]] == [event["type"] for event in events]
    assert asked[0].headers["Authorization"] == "Bearer secret"
    assert asked[0].url.params["fieldSelector"] == "spec.nodeName=node-1"
    assert asked[1].url.params["resourceVersion"] == listed["metadata"]["resourceVersion"]
    assert asked[1].url.params["allowWatchBookmarks"] == "1" or asked[1].url.params["allowWatchBookmarks"] == "true"


def test_a_version_that_the_server_has_forgotten_lists_again(where: KubernetesOptions) -> None:
    serve, asked = serving("list-pods", "watch-life", "watch-410", "list-pods", "watch-life")
    count, events = len(json.loads(body("list-pods")[1])["items"]), len(body("watch-life")[1].splitlines())
    found = changes(where, serve, 2 * (2 + count) + events + 1)
    assert [change for change in found if change is LISTED] == [LISTED, LISTED]
    assert len(asked) == 5


@pytest.mark.parametrize(
    ("name", "sentence"), [("api-401", "does not know the token"), ("api-403", "does not allow to read /api/v1/pods")]
)
def test_a_refusal_is_one_sentence(where: KubernetesOptions, name: str, sentence: str) -> None:
    serve, _ = serving(name)
    with pytest.raises(NotAllowed, match=sentence):
        changes(where, serve, 2)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000], ids=["none", "torn", "list", "bytes", "deep"]
)
def test_an_answer_that_is_no_object_is_an_error(where: KubernetesOptions, data: bytes) -> None:
    with pytest.raises(FlarelogError, match="an answer of the Kubernetes API is no"):
        changes(where, lambda _: httpx2.Response(200, stream=Pieces(data, 100)), 2)


def test_a_lost_connection_names_the_address(where: KubernetesOptions) -> None:
    def lost(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("Connection refused")

    with pytest.raises(CannotConnect, match=r"https://10.0.0.1:6443: Connection refused"):
        changes(where, lost, 2)


def test_a_token_is_read_for_each_request(where: KubernetesOptions) -> None:
    tokens: list[str] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        tokens.append(request.headers["Authorization"])
        Path(where.token).write_text("renewed")
        return answer("list-pods" if len(tokens) == 1 else "watch-life")

    changes(where, serve, 3 + len(json.loads(body("list-pods")[1])["items"]))
    assert tokens == ["Bearer secret", "Bearer renewed"]
    Path(where.token).write_text("secret")


def test_an_address_must_be_encrypted() -> None:
    with pytest.raises(InvalidOption, match="https://HOST:PORT"):
        KubernetesOptions(api="http://10.0.0.1")


VERSION = b'{"metadata": {"resourceVersion": "7"}, "items": []}'
FORGOTTEN = b'{"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}}\n'
MARK = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}\n'


class Silent(httpx2.AsyncByteStream):
    """A body whose rest after *data* does not come."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data
        raise httpx2.ReadTimeout("")


def answering(*bodies: httpx2.AsyncByteStream) -> tuple[Served, list[httpx2.Request]]:
    asked: list[httpx2.Request] = []
    left = iter(bodies)

    def serve(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, stream=next(left))

    return serve, asked


def test_a_list_without_a_byte_and_a_watch_without_a_bookmark_are_waited_for_within_bounds(
    where: KubernetesOptions,
) -> None:
    serve, asked = answering(Pieces(VERSION, 100), Silent(MARK), Silent(MARK))
    assert changes(where, serve, 4) == [LISTED, COMPLETE, BOOKMARK, BOOKMARK]
    assert [request.extensions["timeout"]["read"] for request in asked] == [30.0, 90.0, 90.0]
    assert [request.url.params.get("resourceVersion") for request in asked] == [None, "7", "9"]


def test_a_list_that_does_not_come_is_one_sentence(where: KubernetesOptions) -> None:
    serve, _ = answering(Silent(b"{"))
    with pytest.raises(CannotConnect, match=r"no answer from the Kubernetes API at \S+: nothing came for 30 s"):
        changes(where, serve, 2)


def test_a_version_that_is_forgotten_at_once_is_a_failure_and_later_a_reason_to_list_again(
    where: KubernetesOptions,
) -> None:
    listed, forgotten = Pieces(VERSION, 100), Pieces(FORGOTTEN, 100)
    serve, asked = answering(listed, Pieces(MARK + FORGOTTEN, 100), listed, forgotten)
    with pytest.raises(Answered, match="does not know the version of its own list of /api/v1/pods"):
        changes(where, serve, 100)
    assert ["watch" in request.url.params for request in asked] == [False, True, False, True]


@pytest.mark.parametrize("endless", [True, False], ids=["followed", "whole"])
def test_only_a_log_that_is_followed_may_be_silent(
    where: KubernetesOptions, monkeypatch: pytest.MonkeyPatch, endless: bool
) -> None:
    async def get(*_: object, silence: float, **__: object) -> AsyncIterator[int | bytes]:
        bounds.append(silence)
        yield 200
        yield b"line\n"
        raise TimeoutError

    async def read() -> None:
        async for piece in Api(where).raw("/log", {}, endless=endless):
            found.append(piece)

    found, bounds = list[bytes](), list[float]()
    monkeypatch.setattr("flarelog.kubernetes.connection.get", get)
    with contextlib.nullcontext() if endless else pytest.raises(CannotConnect, match="nothing came for 30 s"):
        asyncio.run(read())
    assert (found, bounds) == ([b"line\n"], [270.0 if endless else 30.0])
