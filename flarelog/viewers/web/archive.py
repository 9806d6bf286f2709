"""The route of archives: a run, some of its sites or some of its logs as one ZIP file, whose download can be resumed.

An archive has each log as far as the store had it when its list was made, also if the log grows meanwhile: the list
fixes all bytes, and its ETag names it. The server keeps the lists of recent archives, so that ``Range`` means the same
bytes later. A range of another list is never sent; then the answer is the whole archive as it is now.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.completeness import completeness, is_loss, loss_sentence
from flarelog.errors import CannotConnect, NotFound
from flarelog.model import Buffer, StreamId, StreamInfo
from flarelog.names import run_name, shown, site_name
from flarelog.records import moment, unknown_ends, unstored_sentences
from flarelog.text import several
from flarelog.viewers.health import unread
from flarelog.viewers.origin import Origin, gathered
from flarelog.viewers.web.answers import Lists
from flarelog.viewers.web.asking import Refused, as_file, offset, stream
from flarelog.viewers.web.flows import Flowing
from flarelog.viewers.web.logins import Logins, User
from flarelog.viewers.web.merged import of_rank
from flarelog.viewers.web.ranges import headers as headers_of
from flarelog.viewers.web.ranges import part as part_of
from flarelog.viewers.web.zipped import Layout, Member, Piece

ABOUT = "READ ME.txt"  # no site and no run can have a name with a blank
LACKING = f"INCOMPLETE - {ABOUT}"
MARKS = 20  # losses of one log that are described
NAMED = 2000  # sites and logs that a request names
KEPT, KEPT_FOR = 50_000, 3600.0  # logs in the lists that are kept, and seconds since the last use of one
ADDRESSES = 1000  # of archives, for each login
ALIKE = 8  # lists of one selection, as of different times
AHEAD, SMALL = 16, 64 << 10  # parts of an archive that are read ahead, every other one a log; bytes of such a log
ZIP = "application/zip"


class Wanted(NamedTuple):
    """The logs of *run* at *sites*, and *logs*; those of *rank*; all of the run where nothing is given."""

    run: str
    sites: frozenset[str] = frozenset()
    logs: frozenset[StreamId] = frozenset()
    rank: int | None = None

    def of(self, infos: Sequence[StreamInfo]) -> list[StreamInfo]:
        """Those of *infos* that are wanted. Raises NotFound for a wanted one that is not among them."""
        if self.rank is not None:
            return of_rank(infos, self.run, self.rank)
        found = [info for info in infos if self._has(info)]
        sites, logs = {info.stream.site for info in found}, {info.stream for info in found}
        missing = [*sorted(self.sites - sites), *map(str, sorted(self.logs - logs))]
        if missing or not found:
            raise NotFound(f"run {shown(self.run)} has no {missing[0] if missing else 'log'}: nothing of it is stored")
        return found

    def of_unstored(self, infos: Sequence[StreamInfo]) -> list[StreamInfo]:
        return [info for info in infos if info.stream.site in self.sites or self._is_all]

    def _has(self, info: StreamInfo) -> bool:
        return info.stream.site in self.sites or info.stream in self.logs or self._is_all

    @property
    def _is_all(self) -> bool:
        return not self.sites and not self.logs and self.rank is None

    @property
    def sentence(self) -> str:
        parts = [f"all stored logs of {some}" for some in sorted(self.sites)]
        parts += [several(len(self.logs), "chosen log")] if self.logs else []
        parts += [f"the logs of rank {self.rank}"] if self.rank is not None else []
        return f"{', '.join(parts) or 'all stored logs'} of run {shown(self.run)}"


class Archive:
    """The archive of *infos*. A text in it says what it has, and what is missing from that."""

    def __init__(self, wanted: Wanted, infos: Sequence[StreamInfo], unstored: Sequence[StreamInfo]) -> None:
        lacks = missing(infos, unstored)
        latest = max((info.grown for info in infos), default=0)
        self.about = "\n".join(_about(wanted, infos, lacks)).encode("utf-8", "replace")
        self.logs = [(info.stream, info.begun, info.committed) for info in infos]
        name = f"{wanted.run}/{LACKING if lacks else ABOUT}"
        members = [Member(name, len(self.about), extend(EMPTY_DIGEST, self.about), latest // 1000)]
        members += [Member(_path(info), info.committed, info.digest, info.grown // 1000) for info in infos]
        self.layout = Layout(members)
        self.name = "-".join((wanted.run, *sorted(wanted.sites)[:1]))

    def is_held(self, infos: Sequence[StreamInfo]) -> bool:
        """Whether all bytes of the archive are among those of *infos*."""
        held = {(info.stream, info.begun): info.committed for info in infos}
        return all(held.get((log, begun), -1) >= length for log, begun, length in self.logs)

    async def read(self, origin: Origin, begin: int, end: int) -> AsyncGenerator[bytes, None]:
        """The archive's bytes from *begin* to *end*. Raises as ``Origin.find``, and CannotConnect where a log has fewer
        bytes than its list says: what follows would stand at a wrong place.
        """
        pieces, ahead = self.layout.pieces(begin, end), deque[tuple[bytes | Piece, asyncio.Task[bytes] | None]]()
        try:
            while True:
                ahead += [(each, self._begun(origin, each)) for each in islice(pieces, AHEAD - len(ahead))]
                if not ahead:
                    return
                piece, task = ahead.popleft()
                if isinstance(piece, bytes):
                    yield piece
                    continue
                position = piece.begin
                async with contextlib.aclosing(self._data(origin, piece, task)) as found:
                    async for data in found:
                        position += len(data)
                        yield data
                if position < piece.end:
                    log = self.logs[piece.number - 1][0]
                    raise CannotConnect(f"{log} has lost bytes: it was removed, or {origin.name} has ended")
        finally:
            tasks = [task for _, task in ahead if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begun(self, origin: Origin, piece: bytes | Piece) -> asyncio.Task[bytes] | None:
        """The read of a small log: each is a round trip to a receiver that may be far away."""
        if isinstance(piece, bytes) or not piece.number or piece.end - piece.begin > SMALL:
            return None
        return asyncio.create_task(gathered(origin, self.logs[piece.number - 1][0], piece.begin, piece.end))

    async def _data(
        self, origin: Origin, piece: Piece, task: asyncio.Task[bytes] | None
    ) -> AsyncGenerator[bytes, None]:
        if not piece.number:
            yield self.about[piece.begin : piece.end]
        elif task is not None:
            yield await task
        else:
            log, position = self.logs[piece.number - 1][0], piece.begin
            find = origin.find(log, position, sys.maxsize, follow=False, stop=piece.end)
            async with contextlib.aclosing(find) as found:
                async for at, what in found:
                    if isinstance(what, Buffer) and at <= position < piece.end:
                        data = bytes(what[position - at : piece.end - at])
                        position += len(data)
                        yield data


def _path(info: StreamInfo) -> str:
    """The name of a log in an archive: that in the store, which is relative and has no ``..``, see ``names``."""
    return info.stream.key


def missing(infos: Sequence[StreamInfo], unstored: Sequence[StreamInfo]) -> list[str]:
    """A sentence for all that a copy of the logs *infos* lacks, in which *unstored* are not."""
    found = []
    for info in infos:
        if sentence := completeness(info).sentence:
            found.append(f"{info.stream}: {sentence}")
            losses = [mark for mark in info.marks if is_loss(mark)]
            found += [f"    {loss_sentence(mark, info.marks)}" for mark in losses[:MARKS]]
            found += [f"    and {several(len(losses) - MARKS, 'more loss', 'more losses')}"] if losses[MARKS:] else []
    every = [*infos, *unstored]
    return [*found, *unstored_sentences(every), *unread(every), *unknown_ends(infos)]


def _about(wanted: Wanted, infos: Sequence[StreamInfo], lacks: Sequence[str]) -> list[str]:
    latest = moment(max((info.grown for info in infos), default=0))
    size = sum(info.committed for info in infos)
    lines = [
        f"flarelog: {wanted.sentence}",
        f"{several(len(infos), 'log')}, {several(size, 'byte')}{f', until {latest}' if latest else ''}",
        "",
        "Each file has the bytes of its log, unchanged. A name is that in the receiver's store: %XX stands for a byte",
        "that such a name cannot have.",
        "",
    ]
    if not lacks:
        return [*lines, "All of these logs are complete.", ""]
    return [*lines, "THIS IS NOT EVERYTHING. Missing, or perhaps missing:", "", *lacks, ""]


@dataclass(slots=True)
class _Selection:
    """The archives of one selection, by ETag."""

    archives: dict[str, Archive] = field(default_factory=dict)
    used: float = 0.0

    @property
    def logs(self) -> int:
        return sum(len(one.logs) for one in self.archives.values())


Key = tuple[bytes, Wanted]
"""The rights of a visitor, and a selection."""


class Recent:
    """The archives whose download may go on. If there are too many, those who have the most lose the oldest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept: dict[Key, _Selection] = {}  # the one that was used last is the last
        self._clock = clock

    def of(self, key: Key, etag: str) -> Archive | None:
        """The archive of a selection with *etag*."""
        self._forget()
        return self._kept.get(key, _Selection()).archives.get(etag)

    def keep(self, key: Key, archive: Archive) -> None:
        found = self._kept.pop(key, None) or _Selection()
        found.archives.pop(archive.layout.etag, None)
        found.archives[archive.layout.etag] = archive
        if len(found.archives) > ALIKE:
            del found.archives[next(iter(found.archives))]
        found.used = self._clock()
        self._kept[key] = found
        self._forget()

    def drop(self, key: Key) -> None:
        self._kept.pop(key, None)

    def _forget(self) -> None:
        for key in [key for key, one in self._kept.items() if one.used < self._clock() - KEPT_FOR]:
            del self._kept[key]
        held = Counter[bytes]()
        for (rights, _), one in self._kept.items():
            held[rights] += one.logs
        while held.total() > KEPT and len(self._kept) > 1:
            most = max(held, key=held.__getitem__)
            oldest = next(key for key in self._kept if key[0] == most)
            held[most] -= self._kept.pop(oldest).logs


class Archives:
    def __init__(self, logins: Logins, lists: Lists, recent: Recent | None = None) -> None:
        self._logins, self._lists, self._recent = logins, lists, recent or Recent()

    async def archive(self, request: Request) -> Response:
        """An archive, or a range of it. Raises Refused, NotFound, NotAllowed, CannotConnect."""
        session = request.state.session
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._logins.place(session, "raw"))
            archive, part = await self._asked(request, session)
            size = archive.layout.length
            begin, end = part or (0, size)
            status, headers = headers_of(part, size)
            headers |= {
                "accept-ranges": "bytes",
                "content-disposition": as_file(f"{archive.name}.zip"),
                "etag": archive.layout.etag,
            }
            if status == 416:
                return Response(status_code=416, headers=headers)
            if request.method == "HEAD":
                return Response(None, status, headers, ZIP)

            async def data() -> AsyncGenerator[bytes, None]:
                async with contextlib.aclosing(archive.read(session.of.origin, begin, end)) as found:
                    async for piece in found:
                        if self._logins.over(session):
                            return
                        yield piece

            return Flowing(data(), stack.pop_all(), status_code=status, headers=headers, media_type=ZIP)

    async def _asked(self, request: Request, session: User) -> tuple[Archive, tuple[int, int] | None]:
        """The archive that a request asks for, and the range of it; None: all of it. A range without If-Range is
        of the archive that the login got at this address, if it got one alone: otherwise its client may hold the
        beginning of another one.
        """
        rights, wanted = session.of, _wanted(request)
        query = hashlib.sha256(request.scope["query_string"]).digest()
        etag = request.headers.get("if-range", session.archives.get(query, ""))
        listed = await self._lists.of(rights, wanted.run, wanted.sites | {log.site for log in wanted.logs})
        infos, key, archive = wanted.of(listed.infos), (rights.key, wanted), None
        asked = request.headers.get("range", "")
        if asked:
            archive = self._recent.of(key, etag)
            if archive is not None and not archive.is_held(infos):
                self._recent.drop(key)
                archive = None
        if archive is None:
            archive = await asyncio.to_thread(Archive, wanted, infos, wanted.of_unstored(listed.unstored))
            asked = asked if archive.layout.etag == etag else ""
        self._recent.keep(key, archive)
        if query in session.archives or len(session.archives) < ADDRESSES:
            known = session.archives.setdefault(query, archive.layout.etag)
            session.archives[query] = known if known == archive.layout.etag else ""
        return archive, part_of(asked, archive.layout.length)


def _wanted(request: Request) -> Wanted:
    """The logs that a request names. Raises InvalidName, Refused."""
    query = request.query_params
    run, sites, logs = run_name(query.get("run", "")), query.getlist("site"), query.getlist("log")
    if len(sites) + len(logs) > NAMED:
        raise Refused(400, f"at most {NAMED:,} sites and logs are named at once: take the whole run")
    named = (log.partition("/") for log in logs)
    streams = frozenset(stream({"run": run, "site": site, "log": log}) for site, _, log in named)
    rank = offset(query, "rank")
    if rank is not None and (sites or logs):
        raise Refused(400, "rank stands alone: it is of all sites")
    return Wanted(run, frozenset(map(site_name, sites)), streams, rank)
