"""The client's end of List, Timeline and Findings. A List is fetched page by page, each page with its own deadline.

Laws: a list of any number of streams can be fetched; an older receiver without pages answers everything at once, and
no stream is listed twice; the collected answers are bounded, whatever a receiver sends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from flarelog.model import MAX_OFFSET, Mark, StreamId, StreamInfo
from flarelog.values import changed
from flarelog.wire import calls
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.lists import Listing, decode_infos

if TYPE_CHECKING:
    from flarelog.stores.moments import Moment
    from flarelog.wire.codec.findings import Asked, FoundIn
    from flarelog.wire.codec.timeline import Times

PAGE = 2_000
"""Streams of a page: half a second of a receiver's work, or a few seconds of a busy one's."""
FIRST = 300
"""Streams of the first page where a user waits for it: more than a screen shows."""
MAX_LISTED = 64 << 20
"""Bytes of answers to one List: the marks in a site's journals can be as many."""
MAX_LISTED_MARKS = 200_000
_OVERHEAD = 200  # bytes of the decoded objects of an answer, about


async def streams(
    channel: grpc.aio.Channel,
    run: str,
    site: str,
    timeout: float | None = None,
    silence: float | None = None,
    one_a_site: bool = False,
    times: Sequence[int] = (),
    within: float = 0.0,
    unstored: bool = False,
    missing: Callable[[Any], object] | None = None,
    heard: Callable[[], object] = lambda: None,
    so_far: Callable[[Sequence[StreamInfo]], Awaitable[object]] | None = None,
) -> list[StreamInfo]:
    """Call List and join the parts of each stream; streams that were not asked for are dropped.

    *times*: milliseconds since 1970 for which each stream's length is asked. *within*: only open streams that grew in
    the last so many seconds, without their marks; older receivers ignore it.
    *unstored*: include the logs that are no streams, if the receiver reports them.
    *one_a_site*: only the first stream of each site, without its marks; older receivers ignore it. *timeout*,
    *silence*: seconds that a page, and a message, may take. *missing*: called with the trailing metadata, which names
    the workers and receivers that did not answer (``calls.missing_in``); None: wait for the workers' answers. *heard*:
    called for each message. *so_far*: called after each page but the last with the streams so far; it may delay the
    next page.

    Raises grpc.RpcError, TimeoutError; Malformed for an invalid answer, or answers larger than MAX_LISTED.
    """
    listed, since = _Listed(run, site, heard), min(round(within * 1000), 0xFFFF_FFFF)
    size = PAGE if so_far is None else FIRST
    while True:
        asked = Listing(run, site, one_a_site, listed.last, size, tuple(times), since, several=True, unstored=unstored)
        how: dict[str, Any] = {"metadata": calls.TAKES_SOME} if missing is not None else {}
        call = calls.list_streams(channel)(asked, timeout=timeout, **how)
        more = await listed.page(call, size, silence)
        if missing is not None:
            missing(await call.trailing_metadata())
        if not more:
            return listed.found
        if so_far is not None:
            await so_far(listed.found)
        size = PAGE


async def timeline(channel: grpc.aio.Channel, asked: Times, silence: float) -> list[Moment]:
    """Call Timeline. Returns the moments in the order of time. *silence*: seconds that each message may take.

    Raises grpc.RpcError, TimeoutError; Malformed for an invalid answer, or answers larger than MAX_LISTED.
    """
    from flarelog.wire.codec.timeline import decode_moments  # a List never imports it

    found: list[Moment] = []
    async with contextlib.aclosing(_messages(calls.timeline(channel)(asked), silence, "moments")) as messages:
        async for raw in messages:
            found += (one for one in decode_moments(raw) if asked.site in ("", one.site) or not one.site)
    return sorted(found, key=lambda moment: moment.at)


async def findings(channel: grpc.aio.Channel, asked: Asked, silence: float) -> list[FoundIn]:
    """Call Findings and join the parts of each log. *silence*: seconds that each message may take.

    Raises grpc.RpcError, TimeoutError; Malformed for an invalid answer, or answers larger than MAX_LISTED.
    """
    from flarelog.wire.codec.findings import decode_found

    found: dict[StreamId, FoundIn] = {}
    async with contextlib.aclosing(_messages(calls.findings(channel)(asked), silence, "findings")) as messages:
        async for raw in messages:
            part = decode_found(raw)
            if part.stream.run != asked.run or asked.site not in ("", part.stream.site):
                continue
            before = found.get(part.stream)
            found[part.stream] = part if before is None else part._replace(findings=[*before.findings, *part.findings])
    return list(found.values())


async def _messages(call: Any, silence: float, what: str) -> AsyncGenerator[bytes, None]:
    """The answers of *call*, *what* of a run. Raises Malformed for more than MAX_LISTED bytes."""
    size = 0
    try:
        while True:
            async with asyncio.timeout(silence):
                raw = await call.read()
            if raw is grpc.aio.EOF:
                return
            size += len(raw) + _OVERHEAD
            if size > MAX_LISTED:
                raise Malformed(
                    f"the receiver tells of more than {MAX_LISTED >> 20} MiB of {what}, the most that a reader"
                    " accepts: ask for one site"
                )
            yield raw
    finally:
        call.cancel()


class _Listed:
    """The streams of *run* and *site* listed so far."""

    def __init__(self, run: str, site: str, heard: Callable[[], object]) -> None:
        self.found: list[StreamInfo] = []
        self.last = "", "", ""  # the last stream's names: run, site, log
        self._run, self._site, self._heard = run, site, heard
        self._size = 0
        self._marks: list[Mark] = []  # of the last stream

    async def page(self, call: Any, size: int, silence: float | None) -> bool:
        """Collect *call*'s page of *size* streams. Returns whether there may be another page."""
        behind, before = self.last, len(self.found)
        heard, latest = 0, behind
        try:
            while True:
                async with asyncio.timeout(silence):
                    raw = await call.read()
                if raw is grpc.aio.EOF:
                    # A receiver with pages sends at most *size* streams, and none twice; a full page may not be last.
                    return heard == len(self.found) - before == size
                self._heard()
                self._size += len(raw)
                for part, first_mark in decode_infos(raw):
                    self._size += _OVERHEAD
                    if self._size > MAX_LISTED:
                        raise Malformed(
                            f"the receiver lists more than {MAX_LISTED >> 20} MiB, the most that a reader accepts"
                        )
                    stream = part.stream
                    names = stream.run, stream.site, stream.log
                    heard += names != latest
                    latest = names
                    if max(part.committed, *(mark.offset for mark in part.marks), 0) > MAX_OFFSET:
                        raise Malformed(
                            f"the receiver lists {stream} with {part.committed} bytes, more than a stream can have"
                        )
                    if self._run in ("", stream.run) and self._site in ("", stream.site) and names > behind:
                        self._take(part, first_mark)
                        self.last = max(self.last, names)
        finally:
            call.cancel()
            self._put_together()

    def _take(self, part: StreamInfo, first_mark: int) -> None:
        if first_mark and self.found and self.found[-1].stream == part.stream:
            del self._marks[first_mark:]
            self._marks += part.marks
            self.found[-1] = changed(part, marks=())
        else:
            self._put_together()
            self.found.append(part)
            self._marks = list(part.marks)
        if len(self._marks) > MAX_LISTED_MARKS:
            raise Malformed(f"the receiver lists more than {MAX_LISTED_MARKS} marks of {part.stream}")

    def _put_together(self) -> None:
        if self.found and len(self._marks) != len(self.found[-1].marks):  # the stream came in several parts
            self.found[-1] = changed(self.found[-1], marks=tuple(self._marks))
