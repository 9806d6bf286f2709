"""Calls that were let in and would now be refused: the certificates and lists of a receiver change."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flarelog.errors import FlarelogError, NotAllowed
from flarelog.lifecycle import Event, RunState
from flarelog.model import Action, Code, Open, Reply, StreamId
from flarelog.policy import Policy
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.security.certificate import Outdated, Presented
from flarelog.security.guard import Guard
from flarelog.security.tls import ServerCertificates, Tls
from flarelog.stores.runs import set_run
from tests.certificates import Authority, auth_context
from tests.receiver.test_server import Staying, standing_of
from tests.stored import TemporaryStore

OPENED = Open(StreamId("run-1", "site-1", "app.log"), b"p" * 16)


class Shown(Staying):
    """A call over a connection with the certificate of *tls*."""

    def __init__(self, requests: list[Any], tls: Tls) -> None:
        super().__init__(requests)
        self.properties = {"x509_pem_cert": [Path(tls.cert).read_bytes()]}

    def auth_context(self) -> dict[str, list[bytes]]:
        return self.properties

    def peer(self) -> str:
        return "ipv4:192.0.2.1:1"


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority.new(tmp_path / "certs")


async def replies_when(
    tmp_path: Path, ca: Authority, tls: Tls, happens: Callable[[], object], later: float = 0.0
) -> list[Reply]:
    """The replies to a push with the certificate of *tls*, after *happens* and *later* seconds."""
    own = ca.issue("receiver", hosts=("localhost",))
    own = Tls(own.ca, own.cert, own.key, crl=ca.revokes())
    async with asyncio.timeout(20), TemporaryStore() as store:
        server = Server(store, ServerOptions(tls=own))
        server.guard.certificates = ServerCertificates(own)
        standing, call = standing_of(server), Shown([OPENED], tls)
        await server.guard.meet(call, Action.PUSH)
        pushing = asyncio.create_task(server.push(None, call))
        while not call.replies:
            await asyncio.sleep(0)
        standing.look(time.monotonic(), time.time())
        assert len(server.sessions) == 1, "nothing has happened yet"
        happens()
        standing.look(time.monotonic() + later, time.time() + later)
        await pushing
        for task in server._tasks:
            task.cancel()
        return call.replies


def nothing() -> None: ...


def test_a_revoked_one_is_refused_for_good(tmp_path: Path, ca: Authority) -> None:
    site = ca.issue("site-1")
    replies = asyncio.run(replies_when(tmp_path, ca, site, lambda: ca.revokes(site.cert)))
    assert [reply.code for reply in replies] == [Code.OK, Code.REJECTED]
    assert "was revoked by its CA" in replies[-1].reason


def test_an_expired_one_is_to_come_again(tmp_path: Path, ca: Authority) -> None:
    site = ca.issue("site-1", days=(-1, 0.01))
    replies = asyncio.run(replies_when(tmp_path, ca, site, nothing, 0.02 * 86400))
    assert [reply.code for reply in replies] == [Code.OK, Code.GOING_AWAY]
    assert "has expired" in replies[-1].reason


def test_a_connection_that_is_old_is_left_for_a_new_one(tmp_path: Path, ca: Authority) -> None:
    replies = asyncio.run(replies_when(tmp_path, ca, ca.issue("site-1"), nothing, 3600 * 1.2))
    assert [reply.code for reply in replies] == [Code.OK, Code.GOING_AWAY]
    assert "maximum age" in replies[-1].reason


def test_who_is_not_believed_now_does_not_come_in(ca: Authority, tmp_path: Path) -> None:
    own = ca.issue("receiver")
    guard = Guard(Policy())
    guard.certificates = ServerCertificates(own)
    stranger = Shown([], Authority.new(tmp_path / "other").issue("site-1"))
    with pytest.raises(Outdated, match="signed by no CA"):
        asyncio.run(guard.meet(stranger, None))
    assert guard.unwelcome == {"ipv4:192.0.2.1:1"}
    assert guard.connection_of(stranger) is None
    stranger.properties = {"x509_pem_cert": [b"nothing"]}
    with pytest.raises(NotAllowed, match="cannot be read"):
        asyncio.run(guard.meet(stranger, Action.PUSH))
    known = Shown([], ca.issue("site-1"))
    asyncio.run(guard.meet(known, Action.PUSH))
    connection = guard.connection_of(known)
    assert connection is not None
    assert connection.presented == Presented.of(known.properties)


def test_a_site_is_told_of_the_runs_that_it_is_in(tmp_path: Path) -> None:
    class Asking(Staying):
        def __init__(self, name: str) -> None:
            super().__init__([OPENED])
            self.name = name

        def auth_context(self) -> dict[str, list[bytes]]:
            return auth_context(self.name)

    async def go() -> list[str]:
        async with TemporaryStore() as store:
            await set_run(store, "run-1", RunState.RUNNING)
            server = Server(store, ServerOptions(policy=Policy()))
            await server.runs.register("run-1", Event.ABOUT_TO_START_RUN)
            await server.runs.register("run-1", Event.START_RUN)
            before = await server.control.get_run("run-1", Asking("site-1"))
            pushing = asyncio.create_task(server.push(None, call := Asking("site-1")))
            while not call.replies:
                await asyncio.sleep(0)
            found = [await server.control.get_run("run-1", Asking(name)) for name in ("site-1", "site-2")]
            pushing.cancel()
            await asyncio.wait((pushing,))
            return [before, *found]

    assert asyncio.run(go()) == ["unknown", "running", "unknown"]


def test_a_certificate_that_is_not_let_in_is_audited_by_the_policys_name_and_its_fingerprint(
    ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    revoked = ca.issue("revoked", common="evil", named=[("dns", b"good")])
    expired = ca.issue("expired", common="evil", named=[("dns", b"good")], days=(-2, -1))
    hidden = ca.issue("hidden", common="evil", named=[("dns", b"good\0evil")])
    own = ca.issue("receiver")
    guard = Guard(Policy())
    guard.certificates = ServerCertificates(Tls(own.ca, own.cert, own.key, crl=ca.revokes(revoked.cert)))
    for files, name in ((revoked, "'good'"), (expired, "'good'"), (hidden, "a certificate without a name")):
        stranger = Shown([], files)
        with pytest.raises(FlarelogError) as refused:
            asyncio.run(guard.meet(stranger, Action.PUSH))
        presented = Presented.of(stranger.properties)
        assert presented is not None
        guard.ended(presented, stranger.peer(), refused.value)
        der = ssl.PEM_cert_to_DER_cert(Path(files.cert).read_text())
        for record in caplog.records[-2:]:
            said = json.loads(record.getMessage().split(" ", 1)[1])
            assert name in said["identity"]
            assert said["fingerprint"] == hashlib.sha256(der).hexdigest()
            assert "evil" not in record.getMessage()


def test_what_cannot_be_read_has_a_fingerprint() -> None:
    assert len({Presented(pem).fingerprint() for pem in (b"nothing", b"-", b"\xff")}) == 3
