"""What the receiver's own log says last of a paused log: over a store, without a socket."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from flarelog.checksum import extend
from flarelog.errors import Full
from flarelog.model import Chunk, Code, Open, Receipt, StreamId
from flarelog.receiver.server import Server
from flarelog.stores.local.appender import LocalAppender
from flarelog.wire.codec.push import Request
from tests.receiver.test_removals import play, pushed
from tests.receiver.test_server import CHUNK, DATA, OPEN, STREAM

MORE = Chunk(len(DATA), DATA, extend(CHUNK.digest, DATA))


@pytest.fixture
def full(mocker: MockerFixture) -> set[int]:
    """The offsets at which a write finds the disk full."""
    offsets, append = set[int](), LocalAppender.append

    def limited(self: LocalAppender, offset: int, *rest: Any) -> Any:
        if offset in offsets:
            raise Full("No space left on device")
        return append(self, offset, *rest)

    mocker.patch.object(LocalAppender, "append", limited)
    return offsets


def said(caplog: pytest.LogCaptureFixture, stream: StreamId = STREAM) -> list[str]:
    """What the receiver's log says of *stream*, without its name."""
    found = [one.getMessage() for one in caplog.records if one.levelno >= logging.INFO]
    return [sentence.removeprefix(f"{stream}: ") for sentence in found if sentence.startswith(f"{stream}: ")]


PAUSED = "paused at offset {}: No space left on device"


def test_a_full_disk_that_takes_a_chunk_leaves_the_log_paused(
    tmp_path: Path, full: set[int], caplog: pytest.LogCaptureFixture
) -> None:
    async def act(server: Server) -> None:
        full.add(0)
        for _ in range(3):
            assert await pushed(server, OPEN, CHUNK) == [Code.OK, Code.PAUSE]
        full.remove(0)
        full.add(len(DATA))
        assert await pushed(server, OPEN, CHUNK, MORE) == [Code.OK, Code.OK, Code.PAUSE]
        assert said(caplog) == ["opened at offset 0", PAUSED.format(0)]
        full.clear()
        assert set(await pushed(server, OPEN, MORE)) == {Code.OK}
        assert said(caplog)[2:] == [f"goes on at offset {MORE.end}"]
        end = Chunk(2 * len(DATA), DATA, extend(MORE.digest, DATA))
        full.add(2 * len(DATA))
        assert await pushed(server, OPEN, end) == [Code.OK, Code.PAUSE]
        assert said(caplog)[-1] == PAUSED.format(2 * len(DATA)), "the same sentence is news after the log went on"

    caplog.set_level(logging.INFO)
    play(tmp_path, act)


def test_each_paused_log_is_named(tmp_path: Path, full: set[int], caplog: pytest.LogCaptureFixture) -> None:
    others = [StreamId("run-1", "site-1", f"{n}.log") for n in range(3)]
    requests: list[list[Request]] = [[Open(stream, b"a-producer"), CHUNK] for stream in others]

    async def act(server: Server) -> None:
        full.add(0)
        for each in requests:
            assert await pushed(server, *each) == [Code.OK, Code.PAUSE]
        assert [said(caplog, stream)[-1] for stream in others] == [PAUSED.format(0)] * 3
        full.clear()
        end = Receipt(len(DATA), CHUNK.digest, 0)
        assert await pushed(server, *requests[0], end) == [Code.OK, Code.OK, Code.SEALED]
        assert said(caplog, others[0])[-1] == f"sealed at offset {len(DATA)}"

    caplog.set_level(logging.INFO)
    play(tmp_path, act)
