"""The relay of calls to the worker that has their site, message by message, without decoding. A worker trusts the
caller's identity in a relayed call only on the workers' own sockets, which only this user can reach.
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
from flarelog.stores.base import names_of
from flarelog.wire import calls
from flarelog.wire.codec.findings import Asked
from flarelog.wire.codec.lists import Listing, listed
from flarelog.wire.codec.runs import decode_run_info
from flarelog.wire.codec.timeline import Times
from flarelog.wire.uplink import ENDED

CALLER = "flarelog-caller-bin"  # metadata
ANSWERS_WITHIN = 3.0  # seconds within which another worker must answer a list that may omit it
LEFT_OUT = 10.0  # seconds for which a worker that did not answer is skipped


class Passed(TokenCall):
    """The context of a relayed call: gRPC's context, with the identity and the address of the original caller."""

    def __init__(self, context: Context, identity: Identity, peer: str, connection: Connection | None = None) -> None:
        super().__init__(context, identity)
        self._peer = peer
        self.connection = connection  # between the caller and the other worker

    def peer(self) -> str:
        return self._peer


def said_of(identity: Identity, peer: str, connection: Connection | None = None) -> bytes:
    """The caller encoded for another worker; *connection*: the caller's, if it has shown a certificate."""
    said: dict[str, Any] = {"identity": asdict(identity), "peer": peer}
    if connection is not None:
        shown = connection.presented
        said["shown"] = [shown.pem.decode("latin-1"), shown.chain.decode("latin-1"), connection.since]
    return json.dumps(said, default=lambda role: role.value).encode()


def understood(said: bytes) -> tuple[Identity, str, Connection | None]:
    """The arguments of ``said_of``, decoded from its result."""
    found = json.loads(said)
    about: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in found["identity"].items()
    }
    about["role"] = Role(about["role"]) if about["role"] else None
    peer, connection = found["peer"], None
    if "shown" in found:
        from flarelog.security.certificate import Presented

        pem, chain, since = found["shown"]
        connection = Connection(peer, Presented(pem.encode("latin-1"), chain.encode("latin-1")), since)
    return Identity(**about), peer, connection


class Relay:
    """The calls that the worker at *place* relays over *channels*, one to each other worker."""

    def __init__(self, place: Place, channels: Mapping[int, grpc.aio.Channel]) -> None:
        self._place, self._channels = place, channels
        self._silent: dict[int, float] = {}  # workers that did not answer, and until when they are skipped

    async def push(self, number: int, first: bytes, context: Context, who: bytes, patience: float) -> None:
        """Relay a Push to worker *number*, to its end; *first*: the message that was read already. *patience*: seconds
        that a reply to the producer may take.
        """
        call = calls.raw_push(self._channels[number])(metadata=((CALLER, who),))

        async def up() -> None:
            raw: Any = first
            with contextlib.suppress(grpc.RpcError, *ENDED):  # the read loop reports the error
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
            return  # a producer that accepts no reply must not hold its streams for ever
        except grpc.RpcError as error:
            await _abort(context, error)
        except ENDED:
            return  # the producer has gone
        finally:
            going_up.cancel()
            call.cancel()
            await asyncio.gather(going_up, return_exceptions=True)

    def read(self, number: int, request: Any, context: Context, who: bytes) -> AsyncGenerator[bytes, None]:
        """The answer of worker *number* to a Read."""
        return _pieces(calls.raw_read(self._channels[number])(request, metadata=((CALLER, who),)), context)

    async def list(
        self, asked: Listing, own: AsyncGenerator[tuple[Any, int], None], context: Context, who: bytes
    ) -> AsyncGenerator[Any, None]:
        """The answers of all workers to a List, sorted by the streams' names; *own*: the answer of this one. If the
        caller accepts a partial list, workers that do not answer are omitted, and named in the trailing metadata.
        """
        missing = set[int]()
        left_out = missing if calls.takes_some(context.invocation_metadata()) else None
        others = sorted(self._channels)
        if asked.run and (asked.site or self._place.whole_runs):
            others = [number for number in others if number == self._place.owner(asked.run, asked.site)]

        each = asked._replace(several=False)  # one a message, to be merged here

        told = (self._of(number, calls.list_streams, each, context, who, left_out) for number in others)
        here = keyed(own, lambda part: names_of(part[0]))
        streams, latest = 0, ("", "", "")
        async with contextlib.aclosing(merged(here, *(keyed(answers, listed) for answers in told))) as found:
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
        """The totals of each run over all workers, sorted by the runs' names; *own*: those of this worker."""

        def of(number: int) -> AsyncGenerator[tuple[str, RunInfo], None]:
            told = self._of(number, calls.raw_list_runs, run, context, who, None)
            return keyed(told, lambda info: info.run, decode_run_info)

        now: RunInfo | None = None
        here = keyed(own, lambda info: info.run)
        async with contextlib.aclosing(merged(here, *map(of, sorted(self._channels)))) as found:
            async for _, info in found:
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
        """The answers of all workers to the call that *ask* makes, one after the other; *own*: the answer of this one.
        *some*: omit workers that do not answer.
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
        """The answer of worker *number* to the call that *ask* makes. With *left_out*, a worker that does not answer in
        time is added to it; None: wait for the answer.
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


async def keyed(
    parts: AsyncGenerator[Any, None], key: Callable[[Any], Any], decode: Callable[[Any], Any] = lambda part: part
) -> AsyncGenerator[tuple[Any, Any], None]:
    """(key, value) of each of *parts*, decoded."""
    async with contextlib.aclosing(parts):
        async for part in parts:
            value = decode(part)
            yield key(value), value


async def merged(*lists: AsyncGenerator[tuple[Any, Any], None]) -> AsyncGenerator[tuple[Any, Any], None]:
    """Merge *lists* of (key, value), each sorted by key."""
    async with contextlib.AsyncExitStack() as stack:
        for each in lists:
            stack.push_async_callback(each.aclose)
        heads = [(await anext(each, None), each) for each in lists]
        while left := [(head, each) for head, each in heads if head is not None]:
            first = min(left, key=lambda one: one[0][0])
            yield first[0]
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
    """End the call of *context* with *error*, the status of the relayed call."""
    known = isinstance(error, grpc.aio.AioRpcError)
    code, details = (error.code(), error.details()) if known else (grpc.StatusCode.UNAVAILABLE, "")
    await context.abort(code, details or "another worker of this receiver does not answer")
    raise AssertionError  # abort raises
