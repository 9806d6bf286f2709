"""What a receiver answers on one call: over a store, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from pytest_mock import MockerFixture

from flarelog import wire
from flarelog.access import PolicyFile
from flarelog.errors import Fenced, FlarelogError, Full, Hole, NotAllowed, Unavailable
from flarelog.model import Chunk, Code, Open, Receipt, Reply, StreamId, extend
from flarelog.server import Server, ServerOptions
from flarelog.session import code_of
from flarelog.stores.local import LocalStore

STREAM = StreamId("run-1", "site-1", "log.txt")
DATA = b"one\ntwo\n"
OPEN = Open(STREAM, b"a-producer")


class Call:
    """A Push whose producer says *requests* one by one, each when the one before is answered, and then goes."""

    def __init__(self, requests: list[wire.Request]) -> None:
        self.replies: list[Reply] = []
        self._requests = list(requests)
        self._answered = asyncio.Event()
        self._answered.set()

    async def read(self) -> Any:
        await self._answered.wait()
        self._answered.clear()
        return wire.encode_request(self._requests.pop(0)) if self._requests else grpc.aio.EOF

    async def write(self, reply: Reply) -> None:
        self.replies.append(reply)
        self._answered.set()

    def peer(self) -> str:
        return "a test"


def pushed(root: Path, *requests: wire.Request, announced_runs_only: bool = False) -> list[Reply]:
    """What a receiver with a store at *root* answers to *requests*."""

    async def go() -> list[Reply]:
        async with LocalStore(root, "memory") as store:
            call = Call(list(requests))
            await Server(store, ServerOptions(announced_runs_only=announced_runs_only))._push(None, call)
            return call.replies

    return asyncio.run(go())


CHUNK = Chunk(0, DATA, extend(0, DATA))


def test_what_is_pushed_is_acknowledged_and_sealed(tmp_path: Path) -> None:
    replies = pushed(tmp_path, OPEN, CHUNK, Receipt(len(DATA), extend(0, DATA), 0))
    assert [(reply.code, reply.committed) for reply in replies] == [
        (Code.OK, 0),
        (Code.OK, len(DATA)),
        (Code.SEALED, len(DATA)),
    ]
    assert (tmp_path / "run-1/site-1/log.txt").read_bytes() == DATA


@pytest.mark.parametrize(
    ("receipt", "code"),
    [
        pytest.param(Receipt(len(DATA) + 1, 7, 0), Code.HOLE, id="for-more-than-came"),
        pytest.param(Receipt(len(DATA), 7, 0), Code.REJECTED, id="for-other-bytes"),
        pytest.param(Receipt(4, extend(0, DATA[:4]), 0), Code.REJECTED, id="for-less-than-came"),
    ],
)
def test_a_receipt_that_the_receiver_cannot_agree_with_seals_nothing(
    tmp_path: Path, receipt: Receipt, code: Code
) -> None:
    replies = pushed(tmp_path, OPEN, CHUNK, receipt)
    assert [reply.code for reply in replies] == [Code.OK, Code.OK, code]
    assert replies[-1].committed == len(DATA)


def test_a_run_that_must_be_announced_and_is_not_is_a_miss(tmp_path: Path) -> None:
    (reply,) = pushed(tmp_path, OPEN, announced_runs_only=True)
    assert reply.code is Code.EXECUTION_EXCEPTION
    assert not (tmp_path / "run-1").exists()


class Staying(Call):
    """A Push of site-1 that says nothing more once it is open."""

    async def read(self) -> Any:
        return await (super().read() if self._requests else asyncio.Event().wait())

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_subject": [b"CN=site-1"]}


def test_a_policy_that_changes_ends_the_streams_that_it_no_longer_allows(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.server.GUARD_EVERY", 0)
    path = tmp_path / "policy.toml"
    path.write_text("defaults = true\n")

    async def go() -> list[Reply]:
        async with asyncio.timeout(10), LocalStore(tmp_path / "store", "memory") as store:
            server, call = Server(store, ServerOptions(policy=PolicyFile(path))), Staying([OPEN])
            asking = asyncio.create_task(server._ask_again())
            pushing = asyncio.create_task(server._push(None, call))
            while not call.replies:
                await asyncio.sleep(0)
            path.write_text("defaults = false\n")
            await pushing
            asking.cancel()
            return call.replies

    first, last = asyncio.run(go())
    assert (first.code, last.code) == (Code.OK, Code.REJECTED)
    assert "may not push into run 'run-1'" in last.reason


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Hole, Code.HOLE),
        (Fenced, Code.FENCED),
        (Full, Code.PAUSE),
        (Unavailable, Code.PAUSE),
        (NotAllowed, Code.REJECTED),
    ],
)
def test_what_a_producer_is_told_of_the_stores_trouble(error: Callable[[str], FlarelogError], code: Code) -> None:
    assert code_of(error("trouble")) is code
