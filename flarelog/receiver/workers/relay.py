"""Calls that land at a worker which does not have their site: passed on to the one that has it, bytes in and bytes out,
one message at a time. Who called is believed of the workers' own sockets alone, which nobody but this user reaches.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict
from typing import Any, NoReturn

import grpc

from flarelog.model import Removed, RunInfo
from flarelog.policy import Identity, Role
from flarelog.receiver.workers.place import HOME, Place
from flarelog.security.connections import Connection
from flarelog.security.context import Context
from flarelog.security.guard import TokenCall
from flarelog.wire import calls
from flarelog.wire.codec.findings import Asked
from flarelog.wire.codec.lists import Listing, listed
from flarelog.wire.codec.runs import decode_run_info
from flarelog.wire.codec.timeline import Times
from flarelog.wire.uplink import ENDED

CALLER = "flarelog-caller-bin"  # metadata
ANSWERS_WITHIN = 3.0  # seconds in which another worker lists something, where it may be left out
LEFT_OUT = 10.0  # seconds for which one that did not is not asked again


class Passed(TokenCall):
    """The context of a call that another worker passed on: gRPC's own, but for who called from where."""

    def __init__(self, context: Context, identity: Identity, peer: str, connection: Connection | None = None) -> None:
        super().__init__(context, identity)
        self._peer = peer
        self.connection = connection  # of the caller to the other worker

    def peer(self) -> str:
        return self._peer


def said_of(identity: Identity, peer: str, connection: Connection | None = None) -> bytes:
    """Who calls, for another worker, and over what *connection*, where certificates are shown."""
    said: dict[str, Any] = {"identity": asdict(identity), "peer": peer}
    if connection is not None:
        shown = connection.presented
        said["shown"] = [shown.pem.decode("latin-1"), shown.chain.decode("latin-1"), connection.since]
    return json.dumps(said, default=lambda role: role.value).encode()


def understood(said: bytes) -> tuple[Identity, str, Connection | None]:
    """What ``said_of`` was given."""
    found = json.loads(said)
    about: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in found["identity"].items()
    }
    about["role"] = Role(about["role"]) if about["role"] else None
    return Identity(**about), found["peer"], _connection(found["peer"], found.get("shown"))


def _connection(peer: str, shown: Any) -> Connection | None:
    if shown is None:
        return None
    from flarelog.security.certificate import Presented

    pem, chain, since = shown
    return Connection(peer, Presented(pem.encode("latin-1"), chain.encode("latin-1")), since)


class Relay:
    """Calls that the worker at *place* passes on over *channels*, which lead to each of the others."""

    def __init__(self, place: Place, channels: Mapping[int, grpc.aio.Channel]) -> None:
        self._place, self._channels = place, channels
        self._silent: dict[int, float] = {}  # workers that did not answer, and until when they are left out

    async def push(self, number: int, first: bytes, context: Context, who: bytes, patience: float) -> None:
        """Pass a Push, of which *first* is what was read of it, on to worker *number*, to its end. *patience*: seconds
        that a producer may take for a reply.
        """
        call = calls.raw_push(self._channels[number])(metadata=((CALLER, who),))

        async def up() -> None:
            raw: Any = first
            with contextlib.suppress(grpc.RpcError, *ENDED):  # the way down says what ended it
                while raw is not grpc.aio.EOF:
                    await call.write(raw)
                    raw = await context.read()
                await call.done_writing()

        going_up = asyncio.create_task(up())
        try:
            while (raw := await call.read()) is not grpc.aio.EOF:
                async with asyncio.timeout(patience):
                    await context.write(raw)
        except TimeoutError:
            return  # a producer that lets no reply leave must not have its streams for as long as it likes
        except grpc.RpcError as error:
            await _abort(context, error)
        except ENDED:
            return  # the producer has gone
        finally:
            going_up.cancel()
            call.cancel()
            await asyncio.gather(going_up, return_exceptions=True)

    async def read(self, number: int, request: Any, context: Context, who: bytes) -> AsyncGenerator[bytes, None]:
        """What worker *number* answers to a Read."""
        call = calls.raw_read(self._channels[number])(request, metadata=((CALLER, who),))
        async with contextlib.aclosing(_pieces(call, context)) as pieces:
            async for piece in pieces:
                yield piece

    async def list(
        self, asked: Listing, own: AsyncGenerator[tuple[Any, int], None], context: Context, who: bytes
    ) -> AsyncGenerator[Any, None]:
        """What all workers answer to a List, in the order of the streams' names; *own* is what this one does. Where the
        caller takes what there is, those that do not answer are left out, and named in its last metadata.
        """
        missing = set[int]()
        left_out = missing if calls.takes_some(context.invocation_metadata()) else None
        others = sorted(self._channels)
        if asked.run and (asked.site or self._place.whole_runs):
            others = [number for number in others if number == self._place.owner(asked.run, asked.site)]

        each = asked._replace(several=False)  # they are put in order here

        async def of(number: int) -> AsyncGenerator[tuple[tuple[str, str, str], Any], None]:
            told = self._of(number, calls.raw_list, each, context, who, left_out)
            async with contextlib.aclosing(told) as answers:
                async for raw in answers:
                    names = listed(raw)
                    yield names, (names, raw)

        async def here() -> AsyncGenerator[tuple[tuple[str, str, str], Any], None]:
            async with contextlib.aclosing(own) as parts:
                async for part in parts:
                    stream = part[0].stream
                    names = stream.run, stream.site, stream.log
                    yield names, (names, part)

        streams, latest = 0, ("", "", "")
        async with contextlib.aclosing(merged(here(), *map(of, others))) as found:
            async for names, part in found:
                streams += names != latest
                latest = names
                if asked.limit and streams > asked.limit:
                    break
                yield part
        if missing:
            context.set_trailing_metadata(calls.missing_some(sorted(missing)))

    async def list_runs(
        self, run: str, own: AsyncGenerator[RunInfo, None], context: Context, who: bytes
    ) -> AsyncGenerator[RunInfo, None]:
        """What all workers hold of each run together, in the order of the runs' names; *own* is what this one does."""

        async def of(number: int) -> AsyncGenerator[tuple[str, RunInfo], None]:
            call = calls.raw_list_runs(self._channels[number])(run, metadata=((CALLER, who),))
            async with contextlib.aclosing(_pieces(call, context)) as pieces:
                async for raw in pieces:
                    info = decode_run_info(raw)
                    yield info.run, info

        async def here() -> AsyncGenerator[tuple[str, RunInfo], None]:
            async with contextlib.aclosing(own) as infos:
                async for info in infos:
                    yield info.run, info

        now: RunInfo | None = None
        async with contextlib.aclosing(merged(here(), *map(of, sorted(self._channels)))) as found:
            async for info in found:
                if now is not None and now.run != info.run:
                    yield now
                    now = None
                now = info if now is None else now.with_more(info)
        if now is not None:
            yield now

    async def each(
        self,
        ask: Callable[[grpc.aio.Channel], Any],
        asked: Times | Asked,
        own: AsyncGenerator[Any, None],
        context: Context,
        who: bytes,
        *,
        some: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """What all workers answer to the call that *ask* makes, one after the other; *own* is what this one does. Where
        *some* answer is better than none, those that do not answer are left out.
        """
        others = sorted(self._channels)
        if asked.site or self._place.whole_runs:
            others = [number for number in others if number == self._place.owner(asked.run, asked.site)]
        async with contextlib.aclosing(own) as found:
            async for message in found:
                yield message
        for number in others:
            told = self._of(number, ask, asked, context, who, set() if some else None)
            async with contextlib.aclosing(told) as answers:
                async for raw in answers:
                    yield raw

    async def _of(
        self,
        number: int,
        ask: Callable[[grpc.aio.Channel], Any],
        asked: object,
        context: Context,
        who: bytes,
        left_out: set[int] | None,
    ) -> AsyncGenerator[bytes, None]:
        """What worker *number* answers to the call that *ask* makes. One that does not answer is waited for, or joins
        those that are *left_out*.
        """
        clock = asyncio.get_running_loop().time
        if left_out is not None and clock() < self._silent.get(number, 0.0):
            left_out.add(number)
            return
        call = ask(self._channels[number])(asked, metadata=((CALLER, who),))
        async with contextlib.aclosing(_pieces(call, context)) as pieces:
            while True:
                try:
                    async with asyncio.timeout(ANSWERS_WITHIN if left_out is not None else None):
                        raw = await anext(pieces, None)
                except TimeoutError:
                    self._silent[number] = clock() + LEFT_OUT
                    if left_out is not None:
                        left_out.add(number)
                    return
                if raw is None:
                    return
                yield raw

    async def ask_home_to_remove(self, request: tuple[str, str, bool], context: Context, who: bytes) -> Removed:
        try:
            return await calls.remove_run(self._channels[HOME], *request, metadata=((CALLER, who),))
        except grpc.RpcError as error:
            await _abort(context, error)

    async def ask_home(self, method: str, run: str, context: Context, who: bytes) -> str:
        """The state that home answers with."""
        try:
            call = calls.run_call(self._channels[HOME], method, metadata=((CALLER, who),))
            return str((await call(run)).state)
        except grpc.RpcError as error:
            await _abort(context, error)


async def merged(*lists: AsyncGenerator[tuple[Any, Any], None]) -> AsyncGenerator[Any, None]:
    """The second halves of what *lists* give, in the order of the first ones, in which each list is already."""
    async with contextlib.AsyncExitStack() as stack:
        for each in lists:
            stack.push_async_callback(each.aclose)
        heads = [(await anext(each, None), each) for each in lists]
        while left := [(head, each) for head, each in heads if head is not None]:
            first = min(left, key=lambda one: one[0][0])
            yield first[0][1]
            heads = [(await anext(each, None) if each is first[1] else head, each) for head, each in left]


async def _pieces(call: Any, context: Context) -> AsyncGenerator[bytes, None]:
    try:
        async for raw in call:
            yield raw
    except grpc.RpcError as error:
        await _abort(context, error)
    finally:
        call.cancel()


async def _abort(context: Context, error: grpc.RpcError) -> NoReturn:
    """End the call of *context* as the one that it was passed on to ended."""
    known = isinstance(error, grpc.aio.AioRpcError)
    code, details = (error.code(), error.details()) if known else (grpc.StatusCode.UNAVAILABLE, "")
    await context.abort(code, details or "another worker of this receiver does not answer")
    raise AssertionError  # abort raises
