"""An answer that is sent in pieces ends cleanly, also when its origin is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from flarelog.errors import CannotConnect
from flarelog.viewers.web.flows import Flowing


def test_an_answer_whose_receiver_dies_is_cut_short_with_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[object] = []
    closed: list[bool] = []

    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"the first piece"
        raise CannotConnect("the receiver does not answer")

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> dict[str, str]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def answer() -> None:
        stack = contextlib.AsyncExitStack()
        stack.callback(closed.append, True)
        await Flowing(pieces(), stack)({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)

    asyncio.run(answer())
    assert [record.getMessage() for record in caplog.records] == [
        "an answer of the page was cut short: the receiver does not answer"
    ]
    assert not any(record.exc_info for record in caplog.records)
    assert closed
    assert len(sent) == 2, "nothing says that the answer is whole"
