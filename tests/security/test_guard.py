"""Access at each port, the reports of refusals, and the end of calls whose permission has gone."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest
from pytest_mock import MockerFixture

from flarelog.errors import InvalidOption, NotAllowed, NotAuthenticated
from flarelog.model import Action, StreamId
from flarelog.policy import OPEN, Identity, Policy, Role
from flarelog.receiver.options import ServerOptions
from flarelog.security import guard as guards
from flarelog.security.access import PolicyFile
from flarelog.security.certificate import Presented
from flarelog.security.guard import Guard, bearer
from flarelog.security.refusals import SAID_A_MINUTE
from flarelog.security.tls import Tls
from flarelog.security.tokens import UNKNOWN, Tokens
from tests.certificates import auth_context
from tests.contexts import Bare
from tests.rows import together

STREAM = StreamId("run-1", "site-1", "app.log")
TLS = Tls("ca.crt", "me.crt", "me.key")


class Call(Bare):
    """A gRPC call's context."""

    def __init__(self, *metadata: tuple[str, Any], name: str = "", port: int = 1) -> None:
        self.metadata, self.name, self.port = metadata, name, port

    def peer(self) -> str:
        return f"ipv4:192.0.2.1:{self.port}"

    def invocation_metadata(self) -> Any:
        return self.metadata

    def auth_context(self) -> dict[str, list[bytes]]:
        return auth_context(self.name) if self.name else {}


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / ".tokens.json")


@pytest.fixture(autouse=True)
def at_once(mocker: MockerFixture) -> Any:
    """Answers without delays; the mock's calls have the seconds."""
    return mocker.patch.object(guards, "asyncio", wraps=asyncio, sleep=mocker.AsyncMock())


def made(tokens: Tokens, *, role: Role = Role.READER, runs: tuple[str, ...] = ("*",), lifetime: int = 3600) -> str:
    return tokens.create("wall", role, runs, lifetime=lifetime, now=time.time())[1]


def shows(secret: str) -> tuple[str, str]:
    return "authorization", f"Bearer {secret}"


def met(guard: Guard, call: Call, action: Action | None = Action.READ) -> Any:
    return asyncio.run(guard.meet_token(call, action))


@together(
    ("metadata", "secret"),
    [
        pytest.param([("authorization", "Bearer abc")], "abc", id="as-it-should-be"),
        pytest.param([("user-agent", "x"), ("Authorization", "bearer  abc")], "abc", id="in-other-letters"),
        pytest.param([], "", id="nothing"),
        pytest.param(None, "", id="no-metadata"),
        pytest.param([("authorization", "Basic abc")], "", id="another-scheme"),
        pytest.param([("authorization", "abc")], "", id="no-scheme"),
        pytest.param([("authorization", "Bearer a"), ("authorization", "Bearer b")], "", id="two-of-them"),
        pytest.param([("authorization", b"Bearer abc")], "", id="bytes"),
    ],
)
def test_the_secret_that_a_call_shows(metadata: Any, secret: str) -> None:
    assert bearer(metadata) == secret


def test_at_the_readers_port_a_token_says_who_calls_and_what_he_may(tokens: Tokens) -> None:
    guard = Guard(Policy(), tokens)
    context = met(guard, Call(shows(made(tokens, runs=("run-*",)))))
    assert guard.asks(context, Action.READ, "run-1", "site-1").token_name == "wall"
    assert context.peer() == "ipv4:192.0.2.1:1"
    for action, run in ((Action.READ, "job-1"), (Action.PUSH, "run-1"), (Action.END_RUN, "run-1")):
        with pytest.raises(NotAllowed):
            guard.asks(context, action, run, "site-1")


def test_nobody_gets_in_without_a_valid_token_and_only_the_owner_of_an_expired_one_hears_more(tokens: Tokens) -> None:
    guard = Guard(Policy(), tokens)
    past, revoked = time.time() - 60, made(tokens)
    expired = tokens.create("wall", lifetime=30, now=past)[1]
    tokens.revoke(tokens.all()[-1].id)
    assert tokens.identify(expired, past)
    for metadata in ((), (shows("flarelog_unknown"),), (shows(revoked),)):
        with pytest.raises(NotAuthenticated) as refused:
            met(guard, Call(*metadata, name="boss"))  # the caller's certificate does not count at this port
        assert str(refused.value) == UNKNOWN
    with pytest.raises(NotAuthenticated, match=r"^token \w+ \(wall\) expired on \d{4}-.*Z: ask "):
        met(guard, Call(shows(expired)))


def test_at_the_main_port_a_token_is_not_looked_at(tokens: Tokens) -> None:
    guard = Guard(Policy(), tokens)
    call = Call(shows(made(tokens)))
    context = asyncio.run(guard.meet(call, Action.READ))
    with pytest.raises(NotAllowed, match="cannot identify the caller"):
        guard.asks(context, Action.READ, "run-1", "site-1")
    with_certificate = asyncio.run(guard.meet(Call(shows(made(tokens)), name="site-1"), Action.READ))
    assert guard.asks(with_certificate, Action.PUSH, "run-1", "site-1").how == "certificate"


class Searching:
    """A trust that counts its searches."""

    def __init__(self, *known: str) -> None:
        self.known, self.running, self.most = set(known), Counter[str](), Counter[str]()
        self.threads: set[int] = set()
        self.trust = self  # as in a receiver's certificates

    def knows(self, presented: Presented) -> bool:
        return presented.fingerprint() in self.known

    def search(self, presented: Presented) -> None:
        who = presented.fingerprint()
        self.running[who] += 1
        self.most[who] = max(self.most[who], self.running[who])
        self.threads.add(threading.get_ident())
        time.sleep(0)  # another thread may run
        self.running[who] -= 1

    def check(self, presented: Presented, now: float) -> None: ...


def test_a_chain_is_searched_for_beside_the_loop_and_one_at_a_time_for_a_certificate() -> None:
    guard, trust = Guard(Policy()), Searching()
    guard.certificates = cast(Any, trust)

    async def go() -> None:
        calls = [Call(name=name, port=port) for port in range(20) for name in ("site-1", "site-2")]
        await asyncio.gather(*(guard.meet(call, Action.READ) for call in calls))

    asyncio.run(go())
    assert threading.get_ident() not in trust.threads
    assert list(trust.most.values()) == [1, 1]


def test_a_certificate_whose_chain_is_known_waits_for_no_thread() -> None:
    presented = Presented.of(auth_context("site-1"))
    assert presented is not None
    guard, trust = Guard(Policy()), Searching(presented.fingerprint())
    guard.certificates = cast(Any, trust)
    asyncio.run(guard.meet(Call(name="site-1"), Action.READ))
    assert not trust.threads


def test_the_health_is_nobodys_secret(tokens: Tokens) -> None:
    call = Call()
    assert met(Guard(Policy(), tokens), call, None) is call


def test_answers_to_strangers_wait_longer_each_time_and_those_to_others_never(tokens: Tokens, at_once: Any) -> None:
    guard, secret = Guard(Policy(), tokens), made(tokens)
    for _ in range(3):
        with pytest.raises(NotAuthenticated):
            met(guard, Call(shows("wrong")))
        met(guard, Call(shows(secret)))
    assert [call.args[0] for call in at_once.sleep.call_args_list] == [0.1, 0.2, 0.4]


def test_where_too_many_wait_the_next_hears_it_at_once(tokens: Tokens, at_once: Any, mocker: MockerFixture) -> None:
    mocker.patch.object(guards, "MAX_WAITING", 0)
    with pytest.raises(NotAuthenticated):
        met(Guard(Policy(), tokens), Call())
    at_once.sleep.assert_not_called()


def test_a_refusal_is_said_a_few_times_with_all_that_is_known_but_the_secret_and_then_counted(
    tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    guard = Guard(Policy(), tokens)
    for port in range(50):
        with pytest.raises(NotAuthenticated):
            met(guard, Call(shows("flarelog_of_somebody_else"), port=port))
    with pytest.raises(NotAllowed):
        guard.asks(Call(name="site-2"), Action.READ, "run-1", "site-1")
    guard.look(0, at_once=True)
    said = [json.loads(record.getMessage().removeprefix("refused ")) for record in caplog.records]
    strangers, (other,), (rest,) = said[:SAID_A_MINUTE], said[SAID_A_MINUTE:-1], said[-1:]
    assert [line["failures"] for line in strangers] == list(range(1, SAID_A_MINUTE + 1))
    assert {(line["identity"], line["action"], line["why"]) for line in strangers} == {("nobody", "READ", UNKNOWN)}
    assert (other["identity"], other["run"]) == ("certificate 'site-2'", "run-1")
    assert (rest["identity"], rest["address"], rest["more"]) == ("nobody", "192.0.2.1", 50 - SAID_A_MINUTE)
    assert "somebody" not in caplog.text


def test_tokens_that_are_made_and_revoked_while_the_receiver_runs_are_said(
    tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    made(tokens)
    beside = Tokens(tokens.path)
    guard = Guard(Policy(), tokens)
    guard.begins()
    guard.look(0)
    assert [record.getMessage().partition(" {")[0] for record in caplog.records] == ["tokens"]
    secret = made(beside, role=Role.OPERATOR, runs=("job-*",))
    guard.look(0)
    guard.look(0)
    (first,) = [record.getMessage() for record in caplog.records[1:]]
    line = json.loads(first.removeprefix("token made "))
    assert (line["role"], line["runs"], line["by"][:4]) == ("operator", ["job-*"], "uid ")
    tokens.path.chmod(0o666)  # the broken file lets no caller in, but drops no token
    guard.look(0)
    tokens.path.chmod(0o600)
    beside.revoke(line["token"])
    guard.look(0)
    audited = [record.getMessage() for record in caplog.records if record.name == "flarelog.audit"]
    assert [text.partition(" {")[0] for text in audited] == ["tokens", "token made", "token revoked"]
    assert secret not in caplog.text


# --- calls in progress


def shown(tokens: Tokens) -> Identity:
    return tokens.identify(made(tokens), time.time())


def reading(guard: Guard, identity: Identity, change: Any) -> list[bytes]:
    """Read an endless stream; return its pieces. *change* happens after the second piece."""

    async def pieces(start: int) -> AsyncGenerator[tuple[int, bytes], None]:
        for at in range(start, start + 2):
            yield at, b"%d" % at
        change()
        await asyncio.Event().wait()

    got: list[bytes] = []

    async def go() -> None:
        async with asyncio.timeout(10):
            async for _, data in guard.reads(identity, "ipv4:192.0.2.1:1", STREAM, 0, pieces):
                got.append(data)
                if len(got) > 6:
                    return

    with pytest.raises(NotAllowed) as ended:
        asyncio.run(go())
    got.append(str(ended.value).encode())
    return got


def test_a_long_read_ends_when_its_token_is_revoked(tokens: Tokens, mocker: MockerFixture) -> None:
    mocker.patch.object(guards, "ASK_AGAIN", 0.0)
    guard, identity = Guard(Policy(), tokens), shown(tokens)

    def revoke() -> None:
        if tokens.all():
            Tokens(tokens.path).revoke(identity.token)

    *data, why = reading(guard, identity, revoke)
    assert data == [b"0", b"1"]
    assert why == f"{identity} was revoked or changed, or has expired".encode()


def test_a_long_read_ends_when_the_policy_takes_its_reader_out(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch.object(guards, "ASK_AGAIN", 0.0)
    path = tmp_path / "policy.toml"
    path.write_text('[[grant]]\nidentity = "guest"\nrole = "reader"\n')
    guard = Guard(PolicyFile(path))
    *data, why = reading(guard, Identity("certificate", "guest"), lambda: path.write_text("defaults = false\n"))
    assert data == [b"0", b"1"]
    assert b"may not read run 'run-1'" in why


def test_a_long_read_goes_on_byte_for_byte_while_it_may(tokens: Tokens, mocker: MockerFixture) -> None:
    mocker.patch.object(guards, "ASK_AGAIN", 0.0)
    guard, identity = Guard(Policy(), tokens), shown(tokens)

    async def pieces(start: int) -> AsyncGenerator[tuple[int, bytes], None]:
        """Two pieces a read, followed by silence."""
        for at in range(start, min(start + 2, 6)):
            yield at, b"%d" % at
        if start < 6:
            await asyncio.Event().wait()

    async def go() -> list[tuple[int, bytes]]:
        async with asyncio.timeout(10):
            return [piece async for piece in guard.reads(identity, "a", STREAM, 0, pieces)]

    assert asyncio.run(go()) == [(at, b"%d" % at) for at in range(6)]


def test_where_nobody_is_asked_nothing_ends() -> None:
    Guard(OPEN).still(Identity(), Action.READ, "a", "run-1", "site-1")


# --- the options


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        pytest.param({"reader_listen": "127.0.0.1:1"}, "needs TLS", id="no-tls"),
        pytest.param({"reader_listen": "0.0.0.0:1", "insecure": True}, "needs TLS", id="insecure"),
        pytest.param({"reader_listen": "127.0.0.1:4721", "tls": TLS}, "name two ports", id="one-port"),
        pytest.param({"reader_listen": "nonsense", "tls": TLS}, "nonsense", id="no-address"),
        pytest.param({"health_listen": "127.0.0.1:0"}, "needs a port", id="no-port-for-probes"),
        pytest.param({"health_listen": "0.0.0.0:4721"}, "the port of another option", id="port-of-probes"),
    ],
)
def test_a_further_port_that_makes_no_sense_is_refused(tokens: Tokens, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption, match=sentence):
        ServerOptions(tokens=tokens, **options)


def test_a_port_for_readers(tokens: Tokens) -> None:
    ServerOptions("127.0.0.1:0", reader_listen="127.0.0.1:0", tokens=tokens, tls=TLS)
