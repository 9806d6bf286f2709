"""Several processes that are one receiver: whose a site is, and how a call gets to the worker that has it.

Each site of each run belongs to one worker, who alone opens its streams; so neither delivery nor the store knows of the
others. A call that lands elsewhere is passed on, bytes in and bytes out, one message at a time. Who called is believed
of the workers' own sockets alone, which nobody but this user reaches. Worker 0 is the home of the runs: it knows their
states and their sites, and tells the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn, TypeVar

import grpc

from flarelog.delivery.quota import Limits
from flarelog.delivery.receiver import Refused
from flarelog.errors import CannotConnect, InvalidOption
from flarelog.model import Action, Code, Removed, RunInfo, StreamId
from flarelog.policy import Identity, Role
from flarelog.security.connections import Connection
from flarelog.security.guard import TokenCall
from flarelog.wire import calls, codec, service
from flarelog.wire.uplink import ENDED

HOME = 0
MAX_WORKERS = 64
MOVES = 4  # times as many as there are workers: how often a producer looks for its own before its call is passed on
CONNECT_WITHIN = 120.0  # seconds in which all workers must be there
JOIN_GRACE = 5.0  # seconds, beyond the time that another worker is given to wait
_SERVICE = "flarelog.workers"
_CALLER = "flarelog-caller-bin"  # metadata
_DIGITS = "0123456789"
_DIVIDED = ("max_connections", "max_streams", "max_in_flight")

L = TypeVar("L", bound=Limits)


@dataclass(frozen=True, slots=True)
class Place:
    """What a worker is told when it is started. Raises InvalidOption."""

    number: int  # from 0 on
    count: int
    directory: str  # of the sockets
    incarnation: str  # hexadecimal: together they are one receiver
    lock: int  # descriptor of the store's
    whole_runs: bool  # all sites of a run are one worker's

    def __post_init__(self) -> None:
        check(self.count)

    @classmethod
    def of(cls, text: str) -> Place:
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def owner(self, run: str, site: str) -> int:
        """The number of the worker that *site* of *run* belongs to, the same in each process."""
        return owner(run, "" if self.whole_runs else site, self.count)

    def lets_move(self, moves: int) -> bool:
        """Whether a producer that came for the *moves*-th time, 0 if it does not come again, is to try once more."""
        return 0 < moves <= MOVES * self.count

    def mine(self, run: str, site: str) -> bool:
        return self.owner(run, site) == self.number


def check(count: int) -> None:
    if not 1 <= count <= MAX_WORKERS:
        raise InvalidOption(f"--workers must be a number from 1 to {MAX_WORKERS}, about as many as there are cores")


def owner(run: str, site: str, count: int) -> int:
    """The number of the worker, of *count*, that has *site* of *run*."""
    # Sites are few, and chance would give half of them too many to one worker; but most are numbered.
    name = site.rstrip(_DIGITS)
    digest = hashlib.blake2b(f"{run}/{name}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") + int(site[len(name) :] or 0)) % count


def divided(limits: L, count: int) -> L:
    """What one of *count* workers takes, of the limits that are of all peers together."""
    shares = {name: -(-getattr(limits, name) // count) for name in _DIVIDED}
    return replace(limits, **shares)


class Passed(TokenCall):
    """The context of a call that another worker passed on: gRPC's own, but for who called from where."""

    def __init__(self, context: Any, identity: Identity, peer: str, connection: Connection | None = None) -> None:
        super().__init__(context, identity)
        self._peer = peer
        self.connection = connection  # of the caller to the other worker
        if hasattr(context, "read"):
            self.read, self.write = context.read, context.write  # asked for with each message

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


class Workers:
    """The other workers, as the one at *place* sees them. For one event loop."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.incarnation = bytes.fromhex(place.incarnation)
        self.home = place.number == HOME
        self._channels: dict[int, grpc.aio.Channel] = {}
        self._server: grpc.aio.Server | None = None
        self._admitted: set[tuple[str, str]] = set()
        self._told: set[asyncio.Queue[tuple[str, str] | None]] = set()

    @property
    def others(self) -> list[int]:
        return [number for number in range(self.place.count) if number != self.place.number]

    def socket(self, number: int) -> str:
        return f"{self.place.directory}/{number}"

    # --- among themselves

    async def start(
        self,
        handlers: Sequence[Any],
        admit: Callable[[StreamId], Awaitable[None]],
        join: Callable[[str, float], Awaitable[bool]],
        hold: Callable[[str, str, bool], Awaitable[int]],
        let_go: Callable[[str, str, bool, bool], Awaitable[None]],
        runs: Callable[[], Mapping[str, str]],
    ) -> None:
        """Serve the other workers, and return when all of them do. *handlers*: of the calls that are passed on;
        *admit*: lets a stream pass or raises Refused; *join*: waits until no stream of a run is open; *hold* and
        *let_go*: before and after a run is removed; *runs*: the states that are known.

        Raises InvalidOption where the sockets cannot be made, CannotConnect where the others do not come.
        """

        async def admitted(raw: bytes, context: Any) -> bytes:
            try:
                await admit(StreamId(*json.loads(raw)))
            except Refused as refused:
                return json.dumps([refused.code.name, str(refused)]).encode()
            return b"[]"

        async def joined(raw: bytes, context: Any) -> bytes:
            return json.dumps(await join(*json.loads(raw))).encode()

        async def held(raw: bytes, context: Any) -> bytes:
            return json.dumps(await hold(*json.loads(raw))).encode()

        async def gone(raw: bytes, context: Any) -> bytes:
            await let_go(*json.loads(raw))
            return b"null"

        async def told(raw: bytes, context: Any) -> AsyncIterator[bytes]:
            queue: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()
            self._told.add(queue)
            try:
                for known in list(runs().items()):
                    yield json.dumps(known).encode()
                while (one := await queue.get()) is not None:
                    yield json.dumps(one).encode()
            finally:
                self._told.discard(queue)

        own: dict[str, Any] = {
            "Admit": grpc.unary_unary_rpc_method_handler(admitted),
            "Join": grpc.unary_unary_rpc_method_handler(joined),
            "Hold": grpc.unary_unary_rpc_method_handler(held),
            "LetGo": grpc.unary_unary_rpc_method_handler(gone),
            "Runs": grpc.unary_stream_rpc_method_handler(told),
        }
        self._server = service.server(4 * MAX_WORKERS, local=True)
        self._server.add_generic_rpc_handlers((*handlers, grpc.method_handlers_generic_handler(_SERVICE, own)))
        try:
            bound = self._server.add_insecure_port(f"unix:{self.socket(self.place.number)}")
        except RuntimeError:
            bound = 0
        if not bound:
            raise InvalidOption(
                f"the workers' sockets cannot be made in {self.place.directory}: its path may be too long; set TMPDIR"
                " to a short one"
            )
        await self._server.start()
        self._channels = {number: calls.local_channel(self.socket(number)) for number in self.others}
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                await asyncio.gather(*(channel.channel_ready() for channel in self._channels.values()))
        except TimeoutError:
            raise CannotConnect(
                f"the other workers were not there within {CONNECT_WITHIN:g} s; start it again"
            ) from None

    async def stop(self, grace: float) -> None:
        """Take no calls from other workers any more, and let those that are under way end within *grace* seconds."""
        for queue in self._told:
            queue.put_nowait(None)
        if self._server is not None:
            await self._server.stop(grace)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    async def admit(self, stream: StreamId) -> None:
        """Ask home to let *stream* pass, at the first one of its site. Raises Refused."""
        site = stream.run, stream.site
        if site in self._admitted:
            return
        said = await self._ask(HOME, "Admit", [stream.run, stream.site, stream.log])
        if said:
            raise Refused(Code[said[0]], said[1])
        self._admitted.add(site)

    def is_admitted(self, stream: StreamId) -> bool:
        """Whether home has let the site of *stream* pass, and its run was not removed since."""
        return (stream.run, stream.site) in self._admitted

    async def join(self, run: str, timeout: float) -> bool:
        """Whether no stream of *run* is open at the others, by *timeout* seconds."""
        asked = (self._ask(number, "Join", [run, timeout], timeout + JOIN_GRACE) for number in self.others)
        return all(said is True for said in await asyncio.gather(*asked, return_exceptions=True))

    async def hold(self, run: str, site: str, force: bool, timeout: float) -> int:
        """Let the others open no stream of *run*, or of *site* in it, and with *force* end those that are open within
        *timeout* seconds: how many are open at them. Raises Refused.
        """
        asked = (self._ask(number, "Hold", [run, site, force], timeout) for number in self.others)
        return sum(await asyncio.gather(*asked))

    async def let_go(self, run: str, site: str, removed: bool, barred: bool) -> None:
        """What was held is to be held no longer, *removed* or not. *barred*: its producers do not come again."""
        asked = (self._ask(number, "LetGo", [run, site, removed, barred]) for number in self.others)
        await asyncio.gather(*asked, return_exceptions=True)

    def forget(self, run: str, site: str = "") -> None:
        """*run*, or *site* in it, is to be let pass again, or not, when it comes again."""
        self._admitted -= {one for one in self._admitted if one[0] == run and site in ("", one[1])}

    def tell(self, run: str, state: str) -> None:
        """Let the others know that *run* is in *state*."""
        for queue in self._told:
            queue.put_nowait((run, state))

    async def told(self) -> AsyncGenerator[tuple[str, str], None]:
        """The states of runs, as home tells them: those that are known, and each change."""
        with contextlib.suppress(grpc.RpcError):
            runs: Any = self._channels[HOME].unary_stream(f"/{_SERVICE}/Runs")
            async for raw in runs(b""):
                run, state = json.loads(raw)
                yield run, state

    async def _ask(self, number: int, method: str, what: object, timeout: float | None = None) -> Any:
        try:
            call: Any = self._channels[number].unary_unary(f"/{_SERVICE}/{method}")
            return json.loads(await call(json.dumps(what).encode(), timeout=timeout))
        except (grpc.RpcError, *ENDED) as error:
            raise Refused(Code.GOING_AWAY, f"worker {number} of this receiver does not answer") from error

    # --- calls that are passed on

    async def meet(self, context: Any, action: Action | None) -> Any:
        """A call that another worker passes on."""
        said = dict(context.invocation_metadata())[_CALLER]
        return Passed(context, *understood(said))

    async def push(self, number: int, first: bytes, context: Any, who: bytes, patience: float) -> None:
        """Pass a Push, of which *first* is what was read of it, on to worker *number*, to its end. *patience*: seconds
        that a producer may take for a reply.
        """
        call = calls.raw_push(self._channels[number])(metadata=((_CALLER, who),))

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

    async def read(self, number: int, request: Any, context: Any, who: bytes) -> AsyncGenerator[bytes, None]:
        """What worker *number* answers to a Read."""
        call = calls.raw_read(self._channels[number])(request, metadata=((_CALLER, who),))
        async with contextlib.aclosing(_pieces(call, context)) as pieces:
            async for piece in pieces:
                yield piece

    async def list(
        self, asked: codec.Listing, own: AsyncGenerator[tuple[Any, int], None], context: Any, who: bytes
    ) -> AsyncGenerator[Any, None]:
        """What all workers answer to a List, in the order of the streams' names; *own* is what this one does."""
        others = self.others
        if asked.run and (asked.site or self.place.whole_runs):
            others = [number for number in others if number == self.place.owner(asked.run, asked.site)]

        async def of(number: int) -> AsyncGenerator[tuple[tuple[str, str, str], Any], None]:
            call = calls.raw_list(self._channels[number])(asked, metadata=((_CALLER, who),))
            async with contextlib.aclosing(_pieces(call, context)) as pieces:
                async for raw in pieces:
                    names = codec.listed(raw)
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
                    return
                yield part

    async def list_runs(
        self, run: str, own: AsyncGenerator[RunInfo, None], context: Any, who: bytes
    ) -> AsyncGenerator[RunInfo, None]:
        """What all workers hold of each run together, in the order of the runs' names; *own* is what this one does."""

        async def of(number: int) -> AsyncGenerator[tuple[str, RunInfo], None]:
            call = calls.raw_list_runs(self._channels[number])(run, metadata=((_CALLER, who),))
            async with contextlib.aclosing(_pieces(call, context)) as pieces:
                async for raw in pieces:
                    info = codec.decode_run_info(raw)
                    yield info.run, info

        async def here() -> AsyncGenerator[tuple[str, RunInfo], None]:
            async with contextlib.aclosing(own) as infos:
                async for info in infos:
                    yield info.run, info

        now: RunInfo | None = None
        async with contextlib.aclosing(merged(here(), *map(of, self.others))) as found:
            async for info in found:
                if now is not None and now.run != info.run:
                    yield now
                    now = None
                now = info if now is None else now.with_more(info)
        if now is not None:
            yield now

    async def ask_home_to_remove(self, request: tuple[str, str, bool], context: Any, who: bytes) -> Removed:
        try:
            return await calls.remove_run(self._channels[HOME], *request, metadata=((_CALLER, who),))
        except grpc.RpcError as error:
            await _abort(context, error)

    async def ask_home(self, method: str, run: str, context: Any, who: bytes) -> str:
        """The state that home answers with."""
        try:
            call = calls.run_call(self._channels[HOME], method, metadata=((_CALLER, who),))
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


async def _pieces(call: Any, context: Any) -> AsyncGenerator[bytes, None]:
    try:
        async for raw in call:
            yield raw
    except grpc.RpcError as error:
        await _abort(context, error)
    finally:
        call.cancel()


async def _abort(context: Any, error: grpc.RpcError) -> NoReturn:
    """End the call of *context* as the one that it was passed on to ended."""
    known = isinstance(error, grpc.aio.AioRpcError)
    code, details = (error.code(), error.details()) if known else (grpc.StatusCode.UNAVAILABLE, "")
    await context.abort(code, details or "another worker of this receiver does not answer")
    raise AssertionError  # abort raises
