"""Which attempt of a container is the present one, by statuses as a real API server has them; and reads of logs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from flarelog.errors import CannotConnect, FlarelogError, NotAllowed
from flarelog.kubernetes import connection
from flarelog.kubernetes.attempts import Attempt, attempt_of
from flarelog.kubernetes.client import Answered, Api, UnknownToken
from flarelog.kubernetes.podlogs import Gone, Log, PodLogs, Unreadable
from tests.kubernetes.test_client import RECORDED, Pieces, body, where
from tests.rows import together

__all__ = ["where"]

PODS = Path(__file__).parent.parent / "data" / "kubernetes" / "pods"
AT, BEFORE = "2026-11-28T10:00:00Z", "2026-11-28T09:00:00Z"


OF = Log("default", "talker.0", "uid-1", "main")


def status(count: int, *, before: str = "", **state: Any) -> dict[str, Any]:
    last = {"terminated": {"containerID": before, "startedAt": BEFORE}} if before else {}
    return {"name": "main", "restartCount": count, "containerID": "c://now", "state": state, "lastState": last}


@pytest.mark.parametrize(
    ("found", "attempt"),
    [
        pytest.param(status(0, running={"startedAt": AT}), Attempt(0, "c://now", False, AT), id="runs"),
        pytest.param(
            status(2, running={"startedAt": AT}, before="c://1"),
            Attempt(2, "c://now", False, AT, BEFORE),
            id="restarted",
        ),
        pytest.param(
            status(0, terminated={"containerID": "c://0", "startedAt": AT}), Attempt(0, "c://0", True, AT), id="ended"
        ),
        pytest.param(
            status(1, waiting={"reason": "CrashLoopBackOff"}, before="c://1"),
            Attempt(1, "c://1", True, BEFORE),
            id="waits-to-be-restarted",
        ),
        pytest.param(status(0, waiting={"reason": "ContainerCreating"}), None, id="not-begun"),
        pytest.param({}, None, id="nothing-is-known"),
    ],
)
def test_the_present_attempt(found: dict[str, Any], attempt: Attempt | None) -> None:
    assert attempt_of(found) == attempt


@pytest.mark.parametrize("path", sorted(PODS.glob("*.json")), ids=lambda path: path.stem)
def test_pods_at_their_ends(path: Path) -> None:
    for one in json.loads(path.read_text())["status"].get("containerStatuses", []):
        found = attempt_of(one)
        assert found is None or (found.ended, found.number) == ("running" not in one["state"], one["restartCount"])


async def whole(logs: PodLogs, **options: Any) -> bytes:
    return b"".join([piece async for piece in logs.read(OF, **options)])


class Server:
    """Takes the place of a connection to a server, which sends *said* in pieces of *size* bytes, and then ends."""

    def __init__(self, said: bytes, size: int) -> None:
        self.said, self.size, self.asked = said, size, b""

    async def connect(self, host: str, port: int, context: object) -> Server:
        return self

    async def write(self, data: bytes) -> None:
        self.asked += data

    async def read(self) -> bytes:
        data, self.said = self.said[: self.size], self.said[self.size :]
        return data

    def close(self) -> None: ...


def asked(
    where: Any, monkeypatch: pytest.MonkeyPatch, said: bytes, size: int = 1000, **options: Any
) -> tuple[bytes, bytes]:
    """(the log that comes when the server sends *said*, what it was asked)"""
    server = Server(said, size)
    monkeypatch.setattr(connection, "connect", server.connect)
    return asyncio.run(whole(PodLogs(Api(where)), **options)), server.asked


@pytest.mark.parametrize("size", [1, 7, 1000, 100_000])
@pytest.mark.parametrize("name", ["log-stamps", "log-since", "log-attempts"])
def test_a_log_comes_as_the_server_sends_it(where: Any, monkeypatch: pytest.MonkeyPatch, name: str, size: int) -> None:
    said = (RECORDED / f"{name}.http").read_bytes()
    found, request = asked(where, monkeypatch, said, size, follow=True, since=AT)
    assert found == body(name)[1]
    first = b"container=main&timestamps=true&follow=true&sinceTime=2026-11-28T10%3A00%3A00Z HTTP/1.1\r\n"
    assert request.startswith(b"GET /api/v1/namespaces/default/pods/talker.0/log?" + first), request
    assert b"\r\nHost: 10.0.0.1:6443\r\nAuthorization: Bearer secret\r\n" in request


@pytest.mark.parametrize("cut", [0, 10, 300, -8])
def test_a_lost_connection_is_no_end(where: Any, monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    said = (RECORDED / "log-since.http").read_bytes()
    with pytest.raises(CannotConnect):
        asked(where, monkeypatch, said[:cut] if cut else b"")


def test_an_answer_of_a_known_length_and_one_that_is_no_http(where: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
    assert asked(where, monkeypatch, head + b"12345 and more", 3)[0] == b"12345"
    assert asked(where, monkeypatch, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")[0] == b""
    for said in (b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", head + b"123"):
        with pytest.raises(CannotConnect):
            asked(where, monkeypatch, said)


@pytest.mark.parametrize(
    ("status", "raises"),
    [(400, Unreadable), (404, Unreadable), (401, NotAllowed), (403, NotAllowed), (429, Answered), (500, Answered)],
)
@pytest.mark.parametrize("proxy", [False, True], ids=["the API", "a proxy"])
def test_what_refuses_is_told_apart(
    where: Any, monkeypatch: pytest.MonkeyPatch, status: int, raises: type[FlarelogError], proxy: bool
) -> None:
    body = b'{"message": "never"}' if proxy else b'{"kind": "Status", "message": "never"}'
    said = b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
    with pytest.raises(FlarelogError, match="never") as error:
        asked(where, monkeypatch, said)
    assert error.type is (Answered if proxy and raises is Unreadable else UnknownToken if status == 401 else raises)


def test_another_pod_of_that_name_is_not_the_one(where: Any) -> None:
    pod = json.dumps({"metadata": {"uid": "uid-2", "name": "talker.0"}, "status": {}}).encode()
    for status, said in ((200, pod), body("log-no-pod")):
        answer = httpx2.Response(status, stream=Pieces(said, 9))
        with pytest.raises(Gone):
            asyncio.run(PodLogs(Api(where, httpx2.MockTransport(lambda _, answer=answer: answer))).attempt(OF))


@together(
    "status, said, error",
    [
        (200, b"[]", "no object"),
        (200, b"<html>", "no JSON"),
        (200, b'{"message": "hello"}', "is no pod"),
        (404, b"<html>", "with 404"),
        (404, b"404 page not found", "with 404"),
        (404, b'{"message": "no route"}', "with 404: no route"),
        (404, b'{"kind": "Status", "message": "no such resource", "details": {}}', "with 404: no such resource"),
    ],
)
def test_what_is_no_answer_about_a_pod_does_not_say_that_it_is_gone(
    where: Any, status: int, said: bytes, error: str
) -> None:
    answer = httpx2.MockTransport(lambda _: httpx2.Response(status, stream=Pieces(said, 9)))
    with pytest.raises(Answered, match=error):
        asyncio.run(PodLogs(Api(where, answer)).attempt(OF))
