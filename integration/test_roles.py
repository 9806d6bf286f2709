"""Who may make which call: every call of the service by every role, over certificates that a receiver checks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest

from flarelog import wire
from flarelog.model import Code, Open, Reply, StreamId
from flarelog.tls import Tls
from flarelog.v1 import log_pb2
from integration.conftest import LOG, RUN, SITE, Place, Receiver, append, lines, new_place
from tests.certificates import Authority

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
    call = wire.push(channel)()
    await call.write(Open(StreamId(RUN, site, "another.log"), b"x" * 16, 0, wire.MAJOR, "test"))
    reply = await call.read()
    call.cancel()
    assert isinstance(reply, Reply)
    return reply.code is Code.OK


async def read(channel: grpc.aio.Channel) -> bool:
    pieces = [data async for _, data in wire.read(channel)((StreamId(RUN, SITE, LOG), 0, False))]
    assert b"".join(pieces) == DATA
    return True


async def list_streams(channel: grpc.aio.Channel) -> bool:
    return bool(await wire.streams(channel, RUN, SITE))


def run_call(method: str, run: str = RUN) -> Callable[[grpc.aio.Channel], Awaitable[bool]]:
    async def call(channel: grpc.aio.Channel) -> bool:
        return bool(await wire.run_call(channel, method)(run, timeout=10))

    return call


CALLS: dict[str, Callable[[grpc.aio.Channel], Awaitable[bool]]] = {
    "Push": push,
    "Read": read,
    "List": list_streams,
    "StartRun": run_call("StartRun", "another-run"),
    "EndRun": run_call("EndRun", "another-run"),
    "GetRun": run_call("GetRun"),
}
#                  its own site, another site, a reader, an operator, a guest of other runs
MAY = {
    "Push": (True, False, False, False, False),
    "Read": (False, False, True, False, False),
    "List": (True, False, True, False, False),
    "StartRun": (False, False, False, True, False),
    "EndRun": (False, False, False, True, False),
    "GetRun": (True, True, True, True, True),
}
ROLES = (SITE, "site-2", "reader", "boss", "guest-7")


class Federation:
    """A receiver with a stream of SITE, and everybody's certificates."""

    def __init__(self, place: Place) -> None:
        self.place = place
        ca = Authority.new(place.directory / "certs")
        units = {"reader": ("reader",)}
        self.certificates = {name: ca.issue(name, units=units.get(name, ())) for name in ROLES}
        policy = place.directory / "policy.toml"
        policy.write_text(POLICY)
        server = ca.issue("receiver", hosts=("127.0.0.1",))
        self.receiver: Receiver = place.serve(*files(server), "--policy", str(policy))
        append(place.log, DATA)
        program = place.once(self.receiver, *files(self.certificates[SITE]))
        assert program.process.returncode == 0, program.talk()

    def call(self, role: str, work: Callable[[grpc.aio.Channel], Awaitable[Any]]) -> Any:
        """What *work* returns over a channel of *role*; the error's words if the receiver does not permit it."""

        async def go() -> Any:
            channel = wire.channel(self.receiver.address, self.certificates[role])
            try:
                return await work(channel)
            except grpc.aio.AioRpcError as error:
                return error.details() if error.code() is grpc.StatusCode.PERMISSION_DENIED else error.code()
            finally:
                await channel.close()

        return asyncio.run(go())


@pytest.fixture(scope="module")
def federation() -> Iterator[Federation]:
    with new_place() as place:
        yield Federation(place)


def test_every_call_of_the_service_has_a_row() -> None:
    service = log_pb2.DESCRIPTOR.services_by_name["LogService"]
    assert {method.name for method in service.methods} == CALLS.keys() == MAY.keys()


@pytest.mark.parametrize("method", MAY)
@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_make_its_calls_and_no_other(federation: Federation, role: str, method: str) -> None:
    if method == "EndRun":
        federation.call("boss", CALLS["StartRun"])  # there is something to end
    assert (federation.call(role, CALLS[method]) is True) is MAY[method][ROLES.index(role)]


@pytest.mark.parametrize("log", [LOG, "no-such.log"])
def test_a_refusal_does_not_tell_whether_there_is_such_a_stream(federation: Federation, log: str) -> None:
    async def read_it(channel: grpc.aio.Channel) -> None:
        async for _ in wire.read(channel)((StreamId(RUN, SITE, log), 0, False)):
            raise AssertionError("a byte of another site's log")

    assert federation.call("site-2", read_it) == (
        f"certificate 'site-2' may not read run '{RUN}': the role reader is needed, which the receiver's administrator"
        " can give"
    )


def test_a_list_of_everything_shows_a_site_its_own_streams_alone(federation: Federation) -> None:
    async def everything(channel: grpc.aio.Channel) -> set[str]:
        return {info.stream.site for info in await wire.streams(channel, "", "")}

    assert federation.call(SITE, everything) == {SITE}
    assert federation.call("site-2", everything) == set()
    assert federation.call("reader", everything) == {SITE}


def test_a_sidecar_that_claims_another_site_ends_with_a_sentence_and_stores_nothing(federation: Federation) -> None:
    place = federation.place
    before = sorted(str(path) for path in federation.receiver.store.rglob("*"))
    program = place.sidecar(federation.receiver, "--once", *files(federation.certificates["site-2"]), site="site-3")
    assert program.ends() == 5, program.talk()
    assert "certificate 'site-2' may not" in program.sentence()
    assert sorted(str(path) for path in federation.receiver.store.rglob("*")) == before


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
        pytest.param("[[grant]]\nidentity = 'x'\nrole = 'king'\n", "role is site, reader, operator, not", id="a-role"),
        pytest.param("[grant\n", "is no TOML", id="no-toml"),
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
