"""Which connections are kept, without sockets: a transport and a loop that note what is asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from flarelog.viewers.web.serving import CONNECTIONS, HEADER, STRANGERS, Connection

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n"


class Clock:
    """A loop whose time the test moves; requests begin, and are never answered."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, list[tuple[float, Any]]()

    def time(self) -> float:
        self.now += 0.0001
        return self.now

    def call_later(self, delay: float, act: Callable[[], object], *args: Any) -> asyncio.TimerHandle:
        loop: Any = self
        timer = asyncio.TimerHandle(self.now + delay, act, args, loop)
        self.timers.append((self.now + delay, timer))
        return timer

    def create_task(self, work: Any) -> Any:
        work.close()
        return asyncio.Future(loop=self._inner)

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        for at, timer in [*self.timers]:
            if at <= self.now and not timer.cancelled():
                timer._run()
                timer.cancel()

    def _timer_handle_cancelled(self, handle: object) -> None:
        pass

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise context["exception"]

    _inner = asyncio.new_event_loop()


class Transport:
    """The transport of a connection, which reports its end later, as that of asyncio does."""

    def __init__(self) -> None:
        self.ended = False

    def abort(self) -> None:
        self.ended = True

    close = abort

    def is_closing(self) -> bool:
        return self.ended

    def get_extra_info(self, name: str) -> None:
        return None

    def resume_reading(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass


class Room:
    """The connections of a server."""

    def __init__(self) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            pass

        self.clock, self.state, self.made = Clock(), ServerState(), list[Connection]()
        self._config = uvicorn.Config(app, http=Connection, ws="none", log_config=None)

    def connect(self, data: bytes = b"", session: object = None) -> Connection:
        loop: Any = self.clock
        one, transport = Connection(self._config, self.state, {}, loop), Transport()
        one.connection_made(transport)  # type: ignore[arg-type]
        self.made.append(one)
        if data:
            one.data_received(data)
        if session is not None:
            one.cycle.scope["state"]["session"] = session
        return one

    def kept(self, those: list[Connection]) -> int:
        return sum(not one.transport.is_closing() for one in those)


@pytest.mark.parametrize(
    "data", [b"", REQUEST, REQUEST + b"\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\nHost: x\r\n\r\n"]
)
def test_whoever_comes_at_once_without_a_login_takes_no_place_of_those_with_one(data: bytes) -> None:
    room, session = Room(), object()
    visitors = [room.connect(REQUEST + b"\r\n", session) for _ in range(100)]
    strangers = [room.connect(data) for _ in range(2000)]
    assert (room.kept(visitors), room.kept(strangers), len(room.state.connections)) == (100, STRANGERS, 100 + STRANGERS)
    assert room.kept(strangers[-STRANGERS:]) == STRANGERS  # the oldest have gone
    assert not room.connect().transport.is_closing()


def test_of_those_with_a_login_the_one_with_the_most_connections_loses_its_idle_ones_first() -> None:
    room, many, few = Room(), object(), object()
    others = [room.connect(REQUEST + b"\r\n", few) for _ in range(6)]
    taken = [room.connect(REQUEST + b"\r\n", many) for _ in range(CONNECTIONS)]
    taken[300].cycle.response_complete = True
    kept = [one for one in taken if not one.transport.is_closing()]
    assert (room.kept(others), len(kept), taken[5].transport.is_closing()) == (6, CONNECTIONS - 6, True)
    room.connect(REQUEST + b"\r\n", many)
    assert taken[300].transport.is_closing()
    assert not room.connect().transport.is_closing()  # somebody who is to log in


@pytest.mark.parametrize("data", [b"", b"GET / HT", REQUEST])
def test_a_header_that_does_not_come_ends_its_connection(data: bytes) -> None:
    room = Room()
    one = room.connect(data)
    room.clock.pass_by(HEADER - 1)
    one.data_received(b"G" if not data else b"x")  # drop by drop is too late as well
    assert not one.transport.is_closing()
    room.clock.pass_by(1)
    assert one.transport.is_closing()


def test_a_later_request_on_a_connection_has_a_deadline_of_its_own() -> None:
    room = Room()
    one = room.connect(REQUEST + b"\r\n")
    room.clock.pass_by(100)  # a long answer
    assert not one.transport.is_closing()
    one.cycle.response_complete = True
    one.data_received(b"GET")
    room.clock.pass_by(HEADER)
    assert one.transport.is_closing()
