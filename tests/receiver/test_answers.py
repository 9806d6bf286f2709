"""A call's answers and their order, over a call in memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from pytest_mock import MockerFixture

from flarelog.delivery.pace import Load
from flarelog.delivery.windows import Window
from flarelog.model import Code, Reply
from flarelog.receiver.answers import LITTLE, Answers
from flarelog.wire import several
from tests.rows import together

HELD, OPENED = 1, 2
WRITES = 20


@dataclass(eq=False)
class Held:
    """An open session whose producer waits for the first answer."""

    number: int = OPENED
    behind: bool = False
    open: bool = True
    due: bool = True
    unanswered: int = 0
    window: Window = field(default_factory=Window)
    commits: int = 0

    @property
    def pressing(self) -> bool:
        return self.due

    async def sync(self) -> None:
        self.commits, self.behind = self.commits + 1, False

    def reply(self, code: Code) -> Reply:
        self.due = False
        return Reply(code, number=self.number)


class Context:
    """Records the writes; before each ends, another held log asks again."""

    def __init__(self) -> None:
        self.answers: Answers | None = None
        self.writes: list[Any] = []

    async def write(self, said: Any) -> None:
        self.writes.append(said)
        await asyncio.sleep(0)
        if self.answers is not None and len(self.writes) < WRITES:
            self.answers.last_word(Reply(Code.PAUSE, number=HELD))


def test_an_opened_log_is_answered_however_often_held_ones_ask_again() -> None:
    async def play() -> list[int]:
        context: Any = Context()
        pressure: Any = SimpleNamespace(pace_of=lambda load: 0.0)
        context.answers = answers = Answers(context, pressure, Load(), 60.0, lambda: None)
        answers.last_word(Reply(Code.PAUSE, number=HELD))
        session: Any = Held()
        answers.acknowledge(session)
        while len(context.writes) < WRITES:
            await asyncio.sleep(0)
        return [each for each, said in enumerate(context.writes) if OPENED in numbers(said)]

    def numbers(said: Any) -> set[int]:
        return {reply.number for reply in several.decode_replies(said)}

    (when,) = asyncio.run(play())
    assert when <= 1


@together(
    ("unanswered", "every", "replies"),
    [
        pytest.param(40, 60.0, 1, id="a-line-soon-after-a-reply-waits-for-others"),
        pytest.param(LITTLE, 60.0, 2, id="much-data-does-not"),
        pytest.param(40, 0.0, 2, id="nor-does-a-line-that-comes-later"),
    ],
)
def test_small_messages_share_a_reply(mocker: MockerFixture, unanswered: int, every: float, replies: int) -> None:
    mocker.patch("flarelog.receiver.answers.EVERY", every)

    async def play() -> int:
        context: Any = Context()
        pressure: Any = SimpleNamespace(pace_of=lambda load: 0.0, crowd=SimpleNamespace(answer_within=60.0))
        answers = Answers(context, pressure, Load(), 60.0, lambda: None)
        session: Any = Held(window=Window())
        session.window.told = 1 << 20
        for _ in range(2):
            answers.acknowledge(session)
            session.unanswered = unanswered
            for _ in range(20):
                await asyncio.sleep(0)
        answers.close()
        return len(context.writes)

    assert asyncio.run(play()) == replies


@together(
    ("messages", "unanswered", "room", "commits"),
    [
        pytest.param(40, 40, 1 << 20, 0, id="lines-at-a-steady-rate-are-committed-together"),
        pytest.param(8, 40, 1 << 20, 1, id="a-few-lines-at-once"),
        pytest.param(40, LITTLE, 1 << 20, 1, id="and-much-data"),
        pytest.param(40, 40, 0, 1, id="and-a-window-that-fills"),
    ],
)
def test_small_messages_at_a_steady_rate_share_a_commit(
    mocker: MockerFixture, messages: int, unanswered: int, room: int, commits: int
) -> None:
    mocker.patch("flarelog.receiver.answers.COMMIT_EVERY", 60.0)

    async def play() -> int:
        context: Any = Context()
        pressure: Any = SimpleNamespace(pace_of=lambda load: 0.0, crowd=SimpleNamespace(answer_within=60.0))
        answers = Answers(context, pressure, Load(), 60.0, lambda: None)
        session: Any = Held(behind=True, unanswered=unanswered, window=Window())
        session.window.told = room
        for _ in range(messages):
            answers.heard()
        answers.acknowledge(session)
        for _ in range(20):
            await asyncio.sleep(0)
        answers.close()
        return int(session.commits)

    assert asyncio.run(play()) == commits


@together(
    "ended",
    [
        pytest.param(grpc.aio.UsageError, id="the-call-has-ended"),
        pytest.param(grpc.aio.BaseError, id="the-server-has-stopped"),
        pytest.param(asyncio.InvalidStateError, id="the-call-is-being-ended"),
    ],
)
def test_a_reply_that_comes_too_late_to_be_sent_is_no_error(ended: type[Exception]) -> None:
    class Late(Context):
        async def write(self, said: Any) -> None:
            raise ended("the call has ended")

    async def play() -> tuple[list[dict[str, Any]], bool]:
        unexpected: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, found: unexpected.append(found))
        context: Any = Late()
        pressure: Any = SimpleNamespace(pace_of=lambda load: 0.0)
        answers = Answers(context, pressure, Load(), 60.0, lambda: None)
        answers.last_word(Reply(Code.GOING_AWAY, number=OPENED))
        for _ in range(5):
            await asyncio.sleep(0)
        return unexpected, answers.deaf

    assert asyncio.run(play()) == ([], True)
