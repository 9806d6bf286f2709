"""The client of a receiver: list runs and streams, read bytes from an offset, start and end runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from flarelog.backoff import FIRST_PAUSE, LONGEST_PAUSE, delay
from flarelog.ends import Ends
from flarelog.errors import CannotConnect, FlarelogError, NoAnswer, NotAllowed, NotAReceiver, TimedOut
from flarelog.lifecycle import RunState
from flarelog.model import ReceiverInfo, Removed, RunInfo, StreamId, StreamInfo
from flarelog.proxies import route
from flarelog.security.tls import Tls, why
from flarelog.wire import calls, listing, statuses

if TYPE_CHECKING:  # each command uses few of these types
    from flarelog.render.counting import Counted
    from flarelog.render.sieve import Sieve
    from flarelog.stores.moments import Moment
    from flarelog.wire.codec.findings import FoundIn
    from flarelog.wire.codec.reads import Found

T = TypeVar("T")

log = logging.getLogger(__name__)

AHEAD = 512 << 10  # bytes buffered per stream until the caller takes them: streams are read in parallel
SAY_AFTER = 1.0  # seconds without a first answer after which a log line names the receiver
TIMEOUT = 10.0  # timeout in seconds of a call that the receiver answers at once
RUN_TIMEOUT = 300.0  # seconds per run of a list: all its logs are looked at; a lost connection fails earlier
REMOVE_TIMEOUT = 60.0  # seconds: a removal waits for streams to be closed and for other removals


class _Untrusted(NotAllowed):
    """The certificates prevent the connection. Another end of the receiver may have better ones."""


class Client:
    """A connection to the receiver at *address*: ``HOST:PORT``, or several with commas, ends of one store, of which a
    random one is asked first, and the next one after it fails. Use as an asynchronous context manager.

    *tls*: this end's files. *token*: a secret that identifies the caller at the receiver's port for readers, where the
    CA alone is enough. *proxy*: the URL of the HTTP proxy before the receiver, ``off``, or empty: the environment
    decides. Raises InvalidOption for an invalid address or proxy, for unusable certificates, and for a token that would
    go unencrypted.
    """

    def __init__(self, address: str, *, tls: Tls | None = None, token: str = "", proxy: str = "") -> None:
        self._ends = Ends(address)
        if tls is not None:
            tls.check("client")
        self.address = address
        self.store: dict[str, object] = {}  # how the store stands that the receiver shares; empty: it shares none
        self.patience = TIMEOUT  # seconds of retries without an answer before CannotConnect is raised
        self._tls, self._proxy, self._token = tls, proxy, token
        self._channel = self._connect()
        self._calls = Counter[grpc.aio.Channel]()  # running calls: a replaced channel is closed after its last one
        self._answered = False  # the receiver answered once: another program at its port is then a reason to retry
        self._waited = False  # an answer came, or the wait for it was logged

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in {*self._calls, self._channel}:
            await channel.close()

    def _connect(self) -> grpc.aio.Channel:
        return calls.channel(self._ends.current, self._tls, self._token, ahead=AHEAD, proxy=self._proxy)

    @contextlib.asynccontextmanager
    async def _calling(self) -> AsyncIterator[str]:
        """The address of the end to call. After CannotConnect, TimedOut, and _Untrusted the next end is used."""
        channel, end = self._channel, self._ends.current
        self._calls[channel] += 1
        try:
            yield end
        except (CannotConnect, TimedOut, _Untrusted) as error:
            lost = not isinstance(error, NoAnswer | TimedOut)
            if channel is self._channel and self._ends.turn(lost=lost):  # otherwise another call has turned
                self._channel = self._connect()
            raise
        finally:
            self._calls[channel] -= 1
            if not self._calls[channel]:
                del self._calls[channel]
                if channel is not self._channel:
                    await channel.close()

    async def _answer(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The result of *ask*, retried while none of the receiver's ends answers."""

        async def attempt() -> T:
            for _ in range(len(self._ends) - 1):
                with contextlib.suppress(CannotConnect, TimedOut, _Untrusted):
                    return await once()
            return await once()

        async def once() -> T:
            async with self._calling() as end:
                try:
                    found = await ask()
                except grpc.RpcError as error:
                    raised = await self._trouble(error, end)
                    if raised.retry_safe:
                        say(str(raised))
                    raise raised from error
                except TimeoutError as error:
                    raise statuses.late_answer(end, self._proxy) from error
            self._waited = self._answered = True
            return found

        def say(trouble: str) -> None:
            if not self._waited:
                self._waited = True
                log.info("%s; retrying", trouble)

        loop, end = asyncio.get_running_loop(), self._ends.current
        saying = loop.call_later(SAY_AFTER, say, f"{route(end, self._proxy).to(end)} does not answer yet")
        try:
            return await self._again(attempt, loop.time() + self.patience)
        finally:
            saying.cancel()

    async def _again(self, attempt: Callable[[], Awaitable[T]], end: float) -> T:
        """The result of *attempt*, retried until *end* (the loop's clock) while the receiver does not answer."""
        loop = asyncio.get_running_loop()
        try:
            return await attempt()
        except CannotConnect as error:
            if loop.time() >= end or not error.retry_safe:
                raise
        # An answer to the first attempt, and so a first line, comes without the cost of these imports.
        import random

        from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay

        await asyncio.sleep(FIRST_PAUSE)
        return await AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, CannotConnect) and error.retry_safe),
            wait=lambda state: delay(state.attempt_number - 1, 2 * FIRST_PAUSE, LONGEST_PAUSE) + random.uniform(0, 0.1),  # noqa: S311  jitter, not a secret
            stop=stop_after_delay(end - loop.time()),
            reraise=True,
        )(attempt)

    async def _trouble(self, error: grpc.RpcError, end: str) -> FlarelogError:
        """The exception for *error* at *end*; _Untrusted where certificates are the cause, which no retry would fix."""
        trouble = statuses.error_of(error, end, self._proxy)
        if isinstance(trouble, CannotConnect) and not isinstance(trouble, NoAnswer):  # a handshake would wait as well
            reason = await asyncio.to_thread(why, end, self._tls, self._proxy)
            if reason:
                return _Untrusted(f"no connection to {route(end, self._proxy).to(end)}: {reason}")
            if statuses.NO_GRPC in str(trouble) and not self._answered:
                return NotAReceiver(str(trouble))
        return trouble

    async def streams(
        self,
        run: str = "",
        site: str = "",
        *,
        one_a_site: bool = False,
        times: Sequence[int] = (),
        within: float = 0.0,
        unstored: bool = False,
        some: bool = False,
        so_far: Callable[[Sequence[StreamInfo]], Awaitable[object]] | None = None,
    ) -> list[StreamInfo]:
        """The receiver's streams, of all runs or of *run*, of all its sites or of *site*; with *one_a_site* only the
        first stream of each site, without its marks. *times*: milliseconds since 1970; each stream then comes with its
        length at each of them. *within*: seconds; only open streams that grew within them, without their marks (an
        older receiver lists all). *unstored*: include logs of which nothing was ever stored. *some*: omit the sites of
        workers that hang, and log that. *so_far*: awaited again and again with the streams listed so far; the next
        page waits for it. Raises CannotConnect, NotAllowed.
        """
        left_out: dict[str, None] = {}  # sentences

        def heard() -> None:
            self._waited = self._answered = True

        def told(metadata: Any) -> None:
            left_out.update(dict.fromkeys(calls.missing_in(metadata, self._ends.current)))
            self.store = calls.store_in(metadata) or self.store

        found = await self._answer(
            lambda: listing.streams(
                *(self._channel, run, site, TIMEOUT),
                one_a_site=one_a_site,
                times=times,
                within=within,
                unstored=unstored,
                heard=heard,
                missing=told if some else None,
                so_far=so_far,
            )
        )
        for sentence in left_out:
            log.warning("%s", sentence)
        return found

    def find(
        self,
        stream: StreamId,
        start: int = 0,
        first_mark: int = 0,
        *,
        follow: bool = False,
        sieve: Sieve | None = None,
        stop: int = 0,
    ) -> AsyncGenerator[Found, None]:
        """Read a stream's bytes and its marks from number *first_mark* on, each mark before the bytes behind it. With
        *follow* until the stream is sealed; one call, which is never retried. *stop*: only bytes before that offset.
        With *sieve* lines may be left out: a piece may then begin after the end of the one before, and be empty. Raises
        NotFound, NotAllowed, CannotConnect, Unavailable.
        """
        return self._read((stream, start, follow, first_mark, sieve, stop))

    def counted(
        self, stream: StreamId, start: int, digest: int, stop: int
    ) -> AsyncGenerator[tuple[int, Counted], None]:
        """Counts of a stream's lines and colours from *start* (where its digest is *digest*) to *stop*, each with its
        offset. Raises as ``find``.
        """
        return self._read((stream, start, False, None, None, stop, digest))

    async def _read(self, request: tuple[Any, ...]) -> AsyncGenerator[Any, None]:
        async with self._calling() as end:
            call = calls.read(self._channel)(request)
            try:
                async with contextlib.aclosing(call):
                    async for found in call:
                        yield found
            except grpc.RpcError as error:
                raised = await self._trouble(error, end)
                if isinstance(raised, _Untrusted) and len(self._ends) > 1:
                    raised = CannotConnect(str(raised))  # a caller that repeats the call reaches the next end
                raise raised from error

    async def state(self, run: str) -> RunState:
        """The receiver's state of *run*. Raises CannotConnect, InvalidName, NotAllowed."""
        state = (await self.about(run)).state
        try:
            return RunState(state)
        except ValueError:  # a state of a later version
            return RunState.RUNNING

    async def about(self, run: str) -> ReceiverInfo:
        """The receiver's version, and the state of *run*. Raises CannotConnect, InvalidName, NotAllowed."""
        return await self._run_call("GetRun", run)

    async def start_run(self, run: str) -> str:
        """Announce *run*; returns its state. Raises CannotConnect, InvalidName, NotAllowed."""
        return (await self._run_call("StartRun", run)).state

    async def end_run(self, run: str) -> str:
        """Ask the producers of *run* to drain and finish; returns its state. Raises NotFound as well."""
        return (await self._run_call("EndRun", run)).state

    async def runs(self, run: str = "") -> list[RunInfo]:
        """The runs that the receiver knows, or *run* alone; empty if unknown. Raises CannotConnect, NotAllowed."""

        async def ask() -> list[RunInfo]:
            found: list[RunInfo] = []
            async with contextlib.aclosing(calls.list_runs(self._channel, run)) as infos:
                while True:
                    async with asyncio.timeout(RUN_TIMEOUT):
                        info = await anext(infos, None)
                    if info is None:
                        return found
                    found.append(info)

        return await self._answer(ask)

    async def timeline(self, run: str, site: str = "", points: int = 0) -> list[Moment]:
        """The events of *run* in the order of time, or with *site* those of that site and of the run as a whole.
        *points*: at most so many of each log's growth; 0: a few hundred. Raises CannotConnect, InvalidName,
        NotAllowed.
        """

        from flarelog.wire.codec.timeline import Times

        asked = Times(run, site, points)
        return await self._answer(lambda: listing.timeline(self._channel, asked, RUN_TIMEOUT))

    async def findings(self, run: str, site: str = "", *, every: bool = False) -> list[FoundIn] | None:
        """The receiver's findings in the logs of *run*, or of *site* in it, as far as the caller may read them.

        *every*: include logs without findings. None if the receiver runs no detectors. Raises CannotConnect,
        InvalidName, NotAllowed.
        """

        from flarelog.wire.codec.findings import Asked

        async def ask() -> list[FoundIn] | None:
            try:
                return await listing.findings(self._channel, Asked(run, site, every), RUN_TIMEOUT)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    return None
                raise

        return await self._answer(ask)

    async def remove(self, run: str, site: str = "", *, force: bool = False) -> Removed:
        """Remove *run*, or *site* in it; with *force* even if streams of it are open.

        Raises NotFound, InUse, InvalidName, NotAllowed, CannotConnect.
        """
        return await self._answer(lambda: calls.remove_run(self._channel, run, site, force, REMOVE_TIMEOUT))

    async def _run_call(self, method: str, run: str) -> ReceiverInfo:
        return await self._answer(lambda: calls.run_call(self._channel, method)(run, timeout=TIMEOUT))
