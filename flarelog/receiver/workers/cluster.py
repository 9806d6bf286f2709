"""The calls between the workers of one receiver. Worker 0 is the home of the runs: it decides their states, admits
their sites, and tells the other workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc

from flarelog.delivery.receiver import Refused
from flarelog.errors import CannotConnect, InvalidOption
from flarelog.model import Action, Code, StreamId
from flarelog.receiver.workers.place import HOME, MAX_WORKERS, Place
from flarelog.receiver.workers.relay import CALLER, Passed, Relay, understood
from flarelog.security.context import Context
from flarelog.wire import calls, service
from flarelog.wire.uplink import ENDED

CONNECT_WITHIN = 120.0  # seconds within which all workers must have started
JOIN_GRACE = 5.0  # seconds beyond the timeout of a join at another worker
_SERVICE = "flarelog.workers"


class Workers:
    """The other workers, for the one at *place*. For one event loop."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.incarnation = bytes.fromhex(place.incarnation)
        self.home = place.number == HOME
        self._channels: dict[int, grpc.aio.Channel] = {}
        self.relay = Relay(place, self._channels)
        self._server: grpc.aio.Server | None = None
        self._admitted: set[tuple[str, str]] = set()
        self._told: set[asyncio.Queue[tuple[str, str] | None]] = set()

    def _socket(self, number: int) -> str:
        return f"{self.place.directory}/{number}"

    async def start(
        self,
        handlers: Sequence[Any],
        answers: Mapping[str, Callable[..., Awaitable[Any]]],
        runs: Callable[[], Mapping[str, str]],
    ) -> None:
        """Serve the other workers, and return when all of them do. *handlers*: of relayed calls; *answers*: the methods
        that answer ``admit``, ``join``, ``hold``, ``waits`` and ``let_go`` of the other workers; *runs*: the states of
        the known runs.

        Raises InvalidOption if the sockets cannot be created, CannotConnect if the other workers do not start.
        """

        async def told(raw: bytes, context: Context) -> AsyncIterator[bytes]:
            queue: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()
            self._told.add(queue)
            try:
                for known in runs().items():
                    yield json.dumps(known).encode()
                while (one := await queue.get()) is not None:
                    yield json.dumps(one).encode()
            finally:
                self._told.discard(queue)

        def asked(work: Callable[..., Awaitable[Any]]) -> Any:
            async def answer(raw: bytes, context: Context) -> bytes:
                return json.dumps(await work(*json.loads(raw))).encode()

            return grpc.unary_unary_rpc_method_handler(answer)

        own: dict[str, Any] = {method: asked(work) for method, work in answers.items()}
        own["Runs"] = grpc.unary_stream_rpc_method_handler(told)
        self._server = service.server(4 * MAX_WORKERS, local=True)
        self._server.add_generic_rpc_handlers((*handlers, grpc.method_handlers_generic_handler(_SERVICE, own)))
        try:
            bound = self._server.add_insecure_port(f"unix:{self._socket(self.place.number)}")
        except RuntimeError:
            bound = 0
        if not bound:
            raise InvalidOption(
                f"the workers' sockets cannot be created in {self.place.directory}: its path"
                " may be too long; set TMPDIR to a short one"
            )
        await self._server.start()
        others = (number for number in range(self.place.count) if number != self.place.number)
        self._channels.update({number: calls.local_channel(self._socket(number)) for number in others})
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                await asyncio.gather(*(channel.channel_ready() for channel in self._channels.values()))
        except TimeoutError:
            raise CannotConnect(
                f"the other workers did not start within {CONNECT_WITHIN:g} s: start the receiver again"
            ) from None

    async def stop(self, grace: float) -> None:
        """Accept no more calls from other workers, and give running calls *grace* seconds to end."""
        for queue in self._told:
            queue.put_nowait(None)
        if self._server is not None:
            await self._server.stop(grace)

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    async def admit(self, stream: StreamId) -> None:
        """Ask home to admit *stream*, once for each site. Raises Refused."""
        site = stream.run, stream.site
        if site in self._admitted:
            return
        said = await self._ask(HOME, "Admit", [stream.run, stream.site, stream.log])
        if said:
            raise Refused(Code[said[0]], said[1])
        self._admitted.add(site)

    def is_admitted(self, stream: StreamId) -> bool:
        """Whether home has admitted the site of *stream*, and its run was not removed since."""
        return (stream.run, stream.site) in self._admitted

    async def join(self, run: str, timeout: float) -> bool:
        """Wait until no stream of *run* is open at the other workers; returns False after *timeout* seconds."""
        asked = (self._ask(number, "Join", [run, timeout], timeout + JOIN_GRACE) for number in self._channels)
        return all(said is True for said in await asyncio.gather(*asked, return_exceptions=True))

    async def hold(self, run: str, site: str, force: bool, timeout: float) -> int:
        """Make the other workers refuse to open streams of *run*, or of *site* in it; *force*: and end the open ones
        within *timeout* seconds. Returns the number of open streams at them. Raises Refused.
        """
        asked = (self._ask(number, "Hold", [run, site, force], timeout) for number in self._channels)
        return sum(await asyncio.gather(*asked))

    async def waits(self, run: str, site: str) -> bool:
        """Whether another worker remembers logs of *run*, or of *site* in it, that the store does not have."""
        asked = (self._ask(number, "Waits", [run, site]) for number in self._channels)
        return any(said is True for said in await asyncio.gather(*asked, return_exceptions=True))

    async def let_go(self, run: str, site: str, removed: bool, barred: bool) -> None:
        """Undo ``hold`` at the other workers; *removed*: the run is gone; *barred*: refuse its producers."""
        asked = (self._ask(number, "LetGo", [run, site, removed, barred]) for number in self._channels)
        await asyncio.gather(*asked, return_exceptions=True)

    def forget(self, run: str, site: str = "") -> None:
        """Forget the admission of *run*, or of *site* in it: its next stream asks home again."""
        self._admitted -= {one for one in self._admitted if one[0] == run and site in ("", one[1])}

    def tell(self, run: str, state: str) -> None:
        """Tell the other workers that *run* is in *state*."""
        for queue in self._told:
            queue.put_nowait((run, state))

    async def told(self) -> AsyncGenerator[tuple[str, str], None]:
        """The states of runs from home: those of all known runs, then each change."""
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

    async def meet(self, context: Context, action: Action | None) -> Context:
        """The context of a call that another worker relays."""
        said = dict(context.invocation_metadata() or ())[CALLER]
        return Passed(context, *understood(said if isinstance(said, bytes) else said.encode()))
