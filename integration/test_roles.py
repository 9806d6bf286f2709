"""The permissions of every role for every call of the service, at both ports, with certificates and with tokens."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest

from flarelog.model import Code, Open, Reply, StreamId
from flarelog.policy import Role
from flarelog.security.tls import Tls
from flarelog.security.tokens import UNKNOWN, Tokens, tokens_path
from flarelog.v1 import log_pb2
from flarelog.wire import calls, listing
from flarelog.wire.codec.base import SERVICE
from flarelog.wire.codec.findings import Asked
from flarelog.wire.codec.timeline import Times
from integration.harness.places import LOG, RUN, SITE, Place, Receiver, append, lines, new_place, until
from tests.certificates import Authority
from tests.messages import decode_reply, encode_request

files = Tls.arguments
DATA = lines(100)
POLICY = """
defaults = true

[[grant]]
identity = "boss"
role = "operator"

[[grant]]
cn = "guest-*"
role = "reader"
runs = ["public-*"]
"""


async def push(channel: grpc.aio.Channel, site: str = SITE) -> bool:
    call: Any = channel.stream_stream(f"/{SERVICE}/Push", response_deserializer=decode_reply)()
    await call.write(encode_request(Open(StreamId(RUN, site, "another.log"), b"x" * 16), 1))
    reply = await call.read()
    call.cancel()
    assert isinstance(reply, Reply)
    return reply.code is Code.OK


async def read(channel: grpc.aio.Channel) -> bool:
    pieces = [data async for _, data in calls.read(channel)((StreamId(RUN, SITE, LOG), 0, False))]
    assert b"".join(pieces) == DATA
    return True


async def list_streams(channel: grpc.aio.Channel) -> bool:
    return bool(await listing.streams(channel, RUN, SITE))


def run_call(method: str, run: str = RUN) -> Callable[[grpc.aio.Channel], Awaitable[bool]]:
    async def call(channel: grpc.aio.Channel) -> bool:
        return bool(await calls.run_call(channel, method)(run, timeout=10))

    return call


async def list_runs(channel: grpc.aio.Channel) -> bool:
    """Whether SITE's run is in the list of all runs."""
    return RUN in [info.run async for info in calls.list_runs(channel, "", 10)]


async def remove_run(channel: grpc.aio.Channel) -> bool:
    """Remove a missing run: only a caller with the right to remove it gets NOT_FOUND."""
    try:
        await calls.remove_run(channel, "no-such-run", "", True, 10)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
    return True


async def timeline(channel: grpc.aio.Channel) -> bool:
    return bool(await listing.timeline(channel, Times(RUN, SITE), 10))


async def findings(channel: grpc.aio.Channel) -> bool:
    """Whether SITE's findings are in the list of all findings."""
    return any(found.stream.site == SITE for found in await listing.findings(channel, Asked(RUN, all=True), 10))


CALLS: dict[str, Callable[[grpc.aio.Channel], Awaitable[bool]]] = {
    "Push": push,
    "Read": read,
    "List": list_streams,
    "StartRun": run_call("StartRun", "another-run"),
    "EndRun": run_call("EndRun", "another-run"),
    "GetRun": run_call("GetRun"),
    "ListRuns": list_runs,
    "RemoveRun": remove_run,
    "Timeline": timeline,
    "Findings": findings,
}
SHAPES = {
    "Push": "stream_stream",
    "Read": "unary_stream",
    "List": "unary_stream",
    "StartRun": "unary_unary",
    "EndRun": "unary_unary",
    "GetRun": "unary_unary",
    "ListRuns": "unary_stream",
    "RemoveRun": "unary_unary",
    "Timeline": "unary_stream",
    "Findings": "unary_stream",
}
#                  its own site, another site, a reader, an operator, a guest of other runs
MAY = {
    "Push": (True, False, False, False, False),
    "Read": (False, False, True, False, False),
    "List": (True, False, True, False, False),
    "StartRun": (False, False, False, True, False),
    "EndRun": (False, False, False, True, False),
    "GetRun": (True, True, True, True, True),
    "ListRuns": (True, False, True, True, False),
    "RemoveRun": (False, False, False, True, False),
    "Timeline": (True, False, True, False, False),
    "Findings": (False, False, True, False, False),
}
ROLES = (SITE, "site-2", "reader", "boss", "guest-7")
#                  a reader, an operator, a reader of other runs, an operator of others
TOKENS_MAY = {
    "Push": (False, False, False, False),
    "Read": (True, False, False, False),
    "List": (True, False, False, False),
    "StartRun": (False, True, False, False),
    "EndRun": (False, True, False, False),
    "GetRun": (True, True, False, False),
    "ListRuns": (True, True, False, False),
    "RemoveRun": (False, True, False, False),
    "Timeline": (True, False, False, False),
    "Findings": (True, False, False, False),
}
TOKENS = ("reader", "operator", "reader of public-*", "operator of public-*")
STRANGERS = ("no token", "an unknown token", "a revoked token", "an expired token", "another scheme", "two tokens")


class Federation:
    """A receiver with a stream of SITE, and certificates for all roles."""

    def __init__(self, place: Place) -> None:
        self.place = place
        ca = Authority.new(place.directory / "certs")
        units = {"reader": ("reader",)}
        self.certificates = {name: ca.issue(name, units=units.get(name, ())) for name in ROLES}
        policy = place.directory / "policy.toml"
        policy.write_text(POLICY)
        server = ca.issue("receiver", hosts=("127.0.0.1",))
        self.receiver: Receiver = place.serve(*files(server), "--policy", str(policy), "--reader-listen", "127.0.0.1:0")
        self.ca = Tls(self.certificates[SITE].ca)
        self.tokens = {name: self._made(name) for name in TOKENS}
        append(place.log, DATA)
        program = place.once(self.receiver, *files(self.certificates[SITE]))
        assert program.process.returncode == 0, program.talk()
        until(lambda: self.call("reader", findings) is True, "the receiver has looked through it")

    def _made(self, name: str, ago: float = 0) -> str:
        """The secret of a token that was made *ago* seconds ago, valid for an hour."""
        role, _, runs = name.partition(" of ")
        tokens = Tokens(tokens_path(self.receiver.store))
        return tokens.create("t", Role(role), (runs or "*",), lifetime=3600, now=time.time() - ago)[1]

    def metadata_of(self, stranger: str) -> tuple[tuple[str, str], ...]:
        """The metadata of a caller without a valid token."""
        if stranger == "no token":
            return ()
        if stranger == "another scheme":
            return (("authorization", f"Basic {self.tokens['reader']}"),)
        secret = {"an unknown token": "flarelog_" + "a" * 43, "an expired token": self._made("reader", 3601)}.get(
            stranger
        )
        if secret is None:
            secret = self._made("reader")
            if stranger == "two tokens":
                return tuple(("authorization", f"Bearer {one}") for one in (secret, self.tokens["reader"]))
            tokens = Tokens(tokens_path(self.receiver.store))
            identity = tokens.identify(secret, time.time())
            assert identity is not None
            tokens.revoke(identity.token)
        return (("authorization", f"Bearer {secret}"),)

    def call(self, role: str, work: Callable[[grpc.aio.Channel], Awaitable[Any]]) -> Any:
        """The result of *work* over a channel of *role*, or the error's text if the receiver refuses."""

        async def go() -> Any:
            return await answer(calls.channel(self.receiver.address, self.certificates[role]), work)

        return asyncio.run(go())

    def call_with(self, token: str, work: Callable[[grpc.aio.Channel], Awaitable[Any]], at: str = "") -> Any:
        """The result of *work* over a channel with *token*, at the port for readers or *at* another address."""

        async def go() -> Any:
            return await answer(calls.channel(at or self.receiver.reader_address, self.ca, token), work)

        return asyncio.run(go())


async def answer(channel: grpc.aio.Channel, work: Callable[[grpc.aio.Channel], Awaitable[Any]]) -> Any:
    try:
        return await work(channel)
    except grpc.aio.AioRpcError as error:
        return error.details() if error.code() is grpc.StatusCode.PERMISSION_DENIED else error.code()
    finally:
        await channel.close()


@pytest.fixture(scope="module")
def federation() -> Iterator[Federation]:
    with new_place() as place:
        yield Federation(place)


def test_every_call_of_the_service_has_a_row() -> None:
    service = log_pb2.DESCRIPTOR.services_by_name["LogService"]
    assert {method.name for method in service.methods} == CALLS.keys() == MAY.keys() == TOKENS_MAY.keys()


@pytest.mark.parametrize("method", MAY)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_make_its_calls_and_no_other(federation: Federation, role: str, method: str) -> None:
    if method == "EndRun":
        federation.call("boss", CALLS["StartRun"])  # so that there is a run to end
    assert (federation.call(role, CALLS[method]) is True) is MAY[method][ROLES.index(role)]


@pytest.mark.parametrize("method", TOKENS_MAY)
@pytest.mark.parametrize("token", TOKENS)
def test_a_token_may_make_its_calls_at_the_port_for_readers_and_no_other(
    federation: Federation, token: str, method: str
) -> None:
    if method == "EndRun":
        federation.call("boss", CALLS["StartRun"])
    told = federation.call_with(federation.tokens[token], CALLS[method])
    assert (told is True) is TOKENS_MAY[method][TOKENS.index(token)], told


def test_whose_token_does_not_hold_may_make_no_call_and_learns_nothing(federation: Federation) -> None:
    """All calls run at once, because refusals are delayed, some for seconds."""
    shown = {stranger: federation.metadata_of(stranger) for stranger in STRANGERS}

    async def call(channel: grpc.aio.Channel, method: str, metadata: Any) -> tuple[grpc.StatusCode, str] | None:
        made = getattr(channel, SHAPES[method])(f"/{SERVICE}/{method}")
        try:
            if SHAPES[method] == "unary_unary":
                await made(b"", metadata=metadata, timeout=20)
            elif SHAPES[method] == "unary_stream":
                await made(b"", metadata=metadata, timeout=20).read()
            else:
                await made(metadata=metadata, timeout=20).read()
        except grpc.aio.AioRpcError as error:
            return error.code(), str(error.details())
        return None

    async def go() -> dict[tuple[str, str], Any]:
        cases = [(stranger, method) for stranger in STRANGERS for method in CALLS]
        async with calls.channel(federation.receiver.reader_address, federation.ca) as channel:
            answers = await asyncio.gather(*(call(channel, method, shown[stranger]) for stranger, method in cases))
        return dict(zip(cases, answers, strict=True))

    refused = (grpc.StatusCode.UNAUTHENTICATED, UNKNOWN)
    # Only the owner of an expired token knows its secret, and is told when it expired.
    expired = (grpc.StatusCode.UNAUTHENTICATED, r"token \w+ \(\w+\) expired on ")
    found = {case: answer for case, answer in asyncio.run(go()).items() if answer != refused}
    assert {case: answer for case, answer in found.items() if case[0] != "an expired token"} == {}
    assert all(answer and answer[0] is expired[0] and re.match(expired[1], answer[1]) for answer in found.values())


@pytest.mark.parametrize("method", CALLS)
def test_a_token_is_not_looked_at_at_the_main_port(federation: Federation, method: str) -> None:
    async def go() -> Any:
        tls = federation.certificates["guest-7"]
        channel = calls.channel(federation.receiver.address, tls, federation.tokens["operator"])
        return await answer(channel, CALLS[method])

    assert (asyncio.run(go()) is True) is MAY[method][ROLES.index("guest-7")]
    told = federation.call_with(federation.tokens["operator"], CALLS[method], at=federation.receiver.address)
    assert told is grpc.StatusCode.UNAVAILABLE, "without a certificate nobody comes to a call"


def test_a_certificate_is_not_looked_at_at_the_port_for_readers(federation: Federation) -> None:
    async def go() -> Any:
        return await answer(
            calls.channel(federation.receiver.reader_address, federation.certificates["reader"]), CALLS["Read"]
        )

    assert asyncio.run(go()) is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("log", [LOG, "no-such.log"])
def test_a_refusal_does_not_tell_whether_there_is_such_a_stream(federation: Federation, log: str) -> None:
    async def read_it(channel: grpc.aio.Channel) -> None:
        async for _ in calls.read(channel)((StreamId(RUN, SITE, log), 0, False)):
            raise AssertionError("a byte of another site's log")

    assert federation.call("site-2", read_it) == (
        f"certificate 'site-2' may not read run '{RUN}': the role reader is required; at the receiver, flarelog token"
        " create NAME --role reader makes a token that has it, flarelog certs reader NAME a certificate, and serve"
        " --policy grants it"
    )


def test_a_list_of_everything_shows_a_site_its_own_streams_alone(federation: Federation) -> None:
    async def everything(channel: grpc.aio.Channel) -> set[str]:
        return {info.stream.site for info in await listing.streams(channel, "", "")}

    assert federation.call(SITE, everything) == {SITE}
    assert federation.call("site-2", everything) == set()
    assert federation.call("reader", everything) == {SITE}


@pytest.mark.parametrize("site", ["", "site-2"])
def test_a_timeline_does_not_tell_a_site_of_a_run_that_it_is_not_in(federation: Federation, site: str) -> None:
    async def moments(channel: grpc.aio.Channel) -> int:
        return len(await listing.timeline(channel, Times(RUN, site), 10))

    assert federation.call("site-2", moments) == 0
    assert federation.call("reader", moments) > 0
    if not site:
        assert federation.call(SITE, moments) > 0


def test_a_sidecar_that_claims_another_site_ends_with_a_sentence_and_stores_nothing(federation: Federation) -> None:
    place = federation.place
    before = federation.receiver.holding
    program = place.sidecar(federation.receiver, "--once", *files(federation.certificates["site-2"]), site="site-3")
    assert program.ends() == 5, program.talk()
    assert "certificate 'site-2' is of site site-2, but" in program.sentence()
    assert federation.receiver.holding == before


def test_what_is_allowed_and_what_is_refused_is_an_audit_line(federation: Federation) -> None:
    federation.call("site-2", CALLS["Read"])
    federation.receiver.program.says(" refused {")
    talk = federation.receiver.program.said.splitlines()
    said = [json.loads(text.split(" refused ", 1)[1]) for text in talk if " refused {" in text]
    who = "certificate 'site-2'"
    line = next(one for one in said if (one["identity"], one["action"], one["site"]) == (who, "READ", SITE))
    assert line["run"] == RUN
    assert line["peer"].startswith("ipv4:127.0.0.1:")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(
            "[[grant]]\nidentity = 'x'\nrole = 'king'\n",
            "role must be site, reader, operator, not",
            id="a-role",
            marks=pytest.mark.soak,
        ),
        pytest.param("[grant\n", "is not valid TOML", id="no-toml"),
        pytest.param(None, "cannot be read: No such file", id="no-file"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_a_sentence(place: Place, text: str | None, sentence: str) -> None:
    path = place.directory / "policy.toml"
    if text is not None:
        path.write_text(text)
    tls = Authority.new(place.directory / "certs").issue("receiver", hosts=("127.0.0.1",))
    program = place.call("serve", "--store", str(place.directory / "store"), "--policy", str(path), *files(tls))
    assert program.process.returncode == 78
    assert sentence in program.sentence()
