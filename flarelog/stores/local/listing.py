"""The state of a local store's streams: from the appender of an open stream, otherwise from its journal.

A replayed journal is cached until a file of the stream changes. The journal of a followed stream, which another process
writes, is read incrementally. Listings omit bytes behind the committed length, and journal records whose bytes are not
in the file.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager, suppress
from functools import partial
from weakref import WeakValueDictionary

from flarelog.errors import InvalidName, NotFound, Unavailable, Unreadable
from flarelog.model import IN_STORE, WHOLE, StreamId, StreamInfo
from flarelog.stores.aside import aside
from flarelog.stores.base import UNNAMED, Evidence, Wanted, entry_of, everything, names_of
from flarelog.stores.directory import Directory, read_all
from flarelog.stores.full import meaning, reason, unless_gone
from flarelog.stores.local import journal as journals
from flarelog.stores.local.appender import LocalAppender
from flarelog.stores.local.journal import Growing, Journal
from flarelog.stores.local.layout import STATES, Layout
from flarelog.text import are, legible, several
from flarelog.values import changed

log = logging.getLogger(__name__)

LONG = 32 << 10  # bytes of a journal; a longer one is replayed in a thread, because it would block the event loop
_WARNINGS = 10  # things that cannot be read, of which each has a warning of its own
NO_SITE = "-"  # stands for the sites of a run whose directory cannot be read
_BREATH = 0.002  # seconds of listing between two yields to the event loop
_TOGETHER = 20  # sites a thread job: starting a job costs more than listing a site of few logs
_GROWING_MARKS = 1000  # marks of a followed stream; a journal with more is read from its start after each change
_LISTED = 10_000  # streams in the cache
_LISTED_MARKS = 100_000  # marks in the cache
_SETTLED = 100_000_000  # nanoseconds since the last write after which a file's times and size show every change


class Listing:
    """The listing of one event loop. *opened*: the streams that this process has open; ``threads`` do slow work."""

    def __init__(
        self, layout: Layout, opened: Mapping[StreamId, LocalAppender], mine: Callable[[str, str], bool] | None = None
    ) -> None:
        self._layout, self._opened, self.mine = layout, opened, mine or (lambda run, site: True)
        self.threads: Executor | None = None
        self.warns = False  # whether to log what cannot be read; readers show it
        self._warned = set[StreamId]()
        self.growing: dict[StreamId, Growing] = {}  # of followed streams
        self._infos: OrderedDict[StreamId, tuple[object, StreamInfo]] = OrderedDict()  # with the state of the files
        self._infos_marks = 0
        self._looking: WeakValueDictionary[StreamId, asyncio.Lock] = WeakValueDictionary()

    async def list(
        self,
        prefix: str = "",
        *,
        one_a_site: bool = False,
        after: tuple[str, str, str] = ("", "", ""),
        wanted: Wanted = everything,
        unreadable: bool = False,
    ) -> AsyncGenerator[StreamInfo, None]:
        """As ``Reader.list``."""
        due = time.monotonic() + _BREATH
        layout = self._layout
        one_run, one_site = [*prefix.split("/")[:-1][:2], None, None][:2]  # if *prefix* has their whole names
        for run in await aside(partial(layout.names, only=one_run), self.threads):
            if not f"{run}/".startswith(prefix[: len(run) + 1]) or run < after[0]:
                continue
            troubles = list[OSError]()
            names = partial(layout.names, run, only=one_site, trouble=troubles.append, links=True)
            sites = await aside(names, self.threads)
            for entry in self._entries(run, one_site or NO_SITE, troubles, unreadable):
                site = entry.stream.site
                if unreadable and names_of(entry) > after and self.mine(run, site) and wanted(run, site):
                    yield entry
            for at in range(0, len(sites), _TOGETHER):
                asked = [
                    site
                    for site in sites[at : at + _TOGETHER]
                    if f"{run}/{site}/".startswith(prefix[: len(run) + len(site) + 2])
                    and (run, site) >= after[:2]
                    and not (one_a_site and (run, site) == after[:2])
                    and self.mine(run, site)
                    and wanted(run, site)
                ]
                told, streams = "", partial(self._streams, run, asked, after, unreadable)
                for one in await aside(streams, self.threads) if asked else []:
                    info, stream = (one, one.stream) if isinstance(one, StreamInfo) else (None, one)
                    if one_a_site and stream.site == told:
                        continue
                    if info is None and stream.key.startswith(prefix):
                        info = await self._listed(stream, unreadable)
                    if info is not None and (unreadable or not info.is_unreadable):
                        yield info
                        told = stream.site
                    if time.monotonic() > due:
                        await asyncio.sleep(0)  # a store may have many streams
                        due = time.monotonic() + _BREATH

    def _streams(
        self, run: str, sites: Iterable[str], after: tuple[str, str, str], unreadable: bool
    ) -> Sequence[StreamId | StreamInfo]:
        """The streams of *sites*, and the entries for directories that cannot be listed."""
        found: list[StreamId | StreamInfo] = []
        for site in sites:
            behind = after[2] if (run, site) == after[:2] else ""
            troubles = list[OSError]()
            streams = self._layout.streams(run, site, behind, troubles.append)
            entries = self._entries(run, site, troubles, unreadable)
            entries = [one for one in entries if one.stream.log > behind]
            found += sorted([*streams, *entries], key=_log_of) if entries else streams
        return found

    async def _listed(self, stream: StreamId, unreadable: bool) -> StreamInfo | None:
        """As ``held``, but of a stream whose files cannot be read, the entry that a list with *unreadable* has."""
        try:
            return await self.held(stream)
        except Unreadable as error:
            if not unreadable and not isinstance(error.__cause__, PermissionError | Unavailable):
                raise
            entry = entry_of(stream, str(error).partition(IN_STORE)[2])
            self._warn(entry)
            return entry

    def _entries(self, run: str, site: str, troubles: Iterable[OSError], unreadable: bool) -> Sequence[StreamInfo]:
        """An entry, with a warning, for each directory of *site* in *run*, and for the run's states, if *troubles* say
        that it cannot be read. Raises Full; without *unreadable*, also Unavailable unless only permission is missing.

        A directory whose name no stream can have is not flarelog's: lost+found is one.
        """
        found = []
        for error in troubles:
            if not unreadable:
                unless_gone(error)
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                continue
            below = os.path.relpath(error.filename, self._layout.root / run / site)
            name, about = below, f"{below}/"
            if below == f"../{STATES}":
                name, about = STATES.lstrip("."), STATES
            elif below == "." or below.startswith(".."):
                name, about = UNNAMED, WHOLE
            with suppress(InvalidName):
                found.append(entry_of(StreamId(run, site, name), f"{reason(error)} ({error.filename})", about))
                self._warn(found[-1])
        return found

    def _warn(self, entry: StreamInfo) -> None:
        """Log once, for the first few entries, what cannot be read."""
        if not self.warns or entry.stream in self._warned or len(self._warned) > _WARNINGS:
            return
        self._warned.add(entry.stream)
        if len(self._warned) > _WARNINGS:
            log.warning("more of the store %s cannot be read: flarelog verify names it", self._layout.root)
            return
        where = f"{entry.stream.run}/{entry.stream.site}: {entry.name}"
        log.warning("%s %s; the run does not count as complete", where, entry.unstored)

    async def held(self, stream: StreamId) -> StreamInfo | None:
        """The state of *stream*, cached until its files change; None if there is no such stream. Raises Unreadable."""
        if stream in self._opened:
            return self._info(stream)
        if (known := self._known(stream, self._state_of(stream)[0])) is not None:
            return known
        async with self._looking.setdefault(stream, asyncio.Lock()):  # concurrent callers share one look
            state, size = self._state_of(stream)
            if (known := self._known(stream, state)) is not None:
                return known
            self._forget(stream)
            begun = stream in self.growing and self.growing[stream].begun
            look = partial(self._info, stream)
            info = await aside(look, self.threads) if size > LONG and not begun else look()
            if info is not None and state is not None:  # if the files have changed since, the next state differs
                self._infos[stream] = state, info
                self._infos_marks += len(info.marks)
                while len(self._infos) > _LISTED or self._infos_marks > _LISTED_MARKS:
                    self._forget(next(iter(self._infos)))
            return info

    def _known(self, stream: StreamId, state: object) -> StreamInfo | None:
        """The cached state of *stream* if its files are still in *state*, otherwise None."""
        known = self._infos.get(stream)
        if known is None or known[0] != state:
            return None
        self._infos.move_to_end(stream)
        return known[1]

    def forget(self, run: str, site: str = "") -> None:
        """Drop the cache of *run*, or of *site* in it, which was removed."""
        for stream in [one for one in self._infos if one.run == run and site in ("", one.site)]:
            self._forget(stream)

    def _forget(self, stream: StreamId) -> None:
        known = self._infos.pop(stream, None)
        if known is not None:
            self._infos_marks -= len(known[1].marks)

    def _state_of(self, stream: StreamId) -> tuple[tuple[int, ...] | None, int]:
        """A value that changes with the stream's files, None if they are missing or fresh; and the journal's size."""
        try:
            journal, data = map(os.lstat, self._layout.files(stream))
        except OSError:
            return None, 0
        state: list[int] = []
        for status in (journal, data):
            if status.st_nlink != 1 or time.time_ns() - status.st_mtime_ns < _SETTLED:
                return None, journal.st_size
            state += (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_dev)
        return tuple(state), journal.st_size

    def _info(self, stream: StreamId) -> StreamInfo | None:
        appender = self._opened.get(stream)
        return self._recorded(stream) if appender is None else appender.info

    def _recorded(self, stream: StreamId) -> StreamInfo | None:
        """The state that the journal of *stream* records; None if there is no journal. Without a receipt, records whose
        bytes are missing do not count. Raises Unreadable.
        """
        growing = self.growing.get(stream)

        def recorded(directory: Directory) -> StreamInfo:
            log = stream.log.rpartition("/")[2]
            fd = directory.open(f".{log}.journal", os.O_RDONLY)
            try:
                journal = growing.read(fd) if growing is not None else journals.replay(read_all(fd))
            finally:
                os.close(fd)
            if len(journal.marks) > _GROWING_MARKS and growing is not None:
                self.growing[stream] = Growing()
            committed, missing = journal.committed, journal.committed - directory.size(log)
            if not journal.sealed:
                _believe(directory, log, journal)
            info = journal.told(stream)
            if missing <= 0:
                return info
            lost = f"{missing:,} of {several(committed, 'byte')} {are(missing)} missing in the store"
            return changed(info, damage=f"{lost} ({self._layout.path(stream)})")

        try:
            with self._layout.directory(stream) as directory:
                return recorded(directory)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Unavailable as error:
            raise Unreadable(f"{stream} {IN_STORE}{error}") from error
        except OSError as error:
            log = self._layout.path(stream)
            at = log.parent / error.filename if isinstance(error.filename, str) else log
            raise Unreadable(f"{stream} {IN_STORE}{reason(error)} ({at})") from error

    @asynccontextmanager
    async def evidence(self, stream: StreamId, in_use: Callable[[], bool]) -> AsyncGenerator[Evidence, None]:
        """As ``Reader.evidence``."""
        log, journal = stream.log.rpartition("/")[2], Journal()
        try:
            with self._layout.directory(stream) as directory:
                raw = directory.read(f".{log}.journal")
                journal = journals.replay(raw)
                fd = directory.open(log, os.O_RDONLY)
        except FileNotFoundError:
            path, lost = legible(str(self._layout.path(stream))), journal.committed
            gone = f"{path} is not there, and its journal tells of {several(lost, 'byte')}: put the file back"
            raise NotFound(gone if lost else f"the store has no stream {stream}") from None
        except OSError as error:
            raise meaning(error, f"{stream} could not be read") from error
        try:
            yield Evidence(
                journal.told(stream),
                journal.lengths,
                os.fstat(fd).st_size,
                partial(os.pread, fd),
                journals.damage(raw),
                journal.stream,
                in_use,
            )
        finally:
            os.close(fd)


def _log_of(one: StreamId | StreamInfo) -> str:
    return one.log if isinstance(one, StreamId) else one.stream.log


def _believe(directory: Directory, name: str, journal: Journal) -> None:
    """Drop records of *journal* whose bytes are missing: after a power cut, no appender may have recovered them yet."""
    try:
        fd = directory.open(name, os.O_RDONLY)
    except FileNotFoundError:
        journal.roll_back(0)
        return
    try:
        journal.believe(fd)
    finally:
        os.close(fd)
