"""The local store: one plain file a stream, with its journal beside it (layout.py says where).

Opening a stream replays its journal and trusts no length that the journal does not vouch for: it compares the last
range with its digest, and truncates the file behind it. Bytes are committed when the journal says so: with durability
``disk`` after fdatasync of both files, many appends at a time; with ``memory`` after the write, which survives a kill
but not a power cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Self
from weakref import WeakValueDictionary

from flarelog.delivery.receiver import Epochs
from flarelog.delivery.shares import Footprint
from flarelog.errors import Full, InUse, Unavailable
from flarelog.model import Removed, Started, StreamId
from flarelog.names import run_name, site_name
from flarelog.stores.aside import aside
from flarelog.stores.base import Durability, Extent, Shared, absent, in_use
from flarelog.stores.full import meaning
from flarelog.stores.local import footprint, lock, notes
from flarelog.stores.local import journal as journals
from flarelog.stores.local.appender import LocalAppender
from flarelog.stores.local.footprint import Counted, Wholes
from flarelog.stores.local.listing import LONG
from flarelog.stores.local.reader import LocalReader
from flarelog.stores.local.removal import clear, extent, leftovers, move_away
from flarelog.stores.local.rounds import Rounds
from flarelog.stores.notes import Kind

log = logging.getLogger(__name__)

_LITTLE = 256 << 10  # bytes of a log whose last range is checked without a thread
_ASIDE_THREADS = 4  # for disk I/O that is neither a commit nor an open: listings, states of runs
_OPENING_THREADS = 8
_SYNC_THREADS = 4  # concurrent fdatasync calls share the file system's own commits
_AT_ONCE = 8  # opens without a thread in one turn of the event loop
_TAKEN = 3  # descriptors of a stream: its two files, and their directory during the open
COUNT_RESTS = 5  # times as long as the count of a run took, the next count waits
_SPARE = 64  # descriptors that streams must leave free for connections, readers, lists and compaction


class LocalStore(LocalReader):
    """A directory of streams for reading and writing."""

    shared: Shared | None = None

    def __init__(
        self,
        root: str | os.PathLike[str],
        durability: Durability = "disk",
        *,
        lock: int = -1,
        mine: Callable[[str, str], bool] | None = None,
    ) -> None:
        """As ``choose.store``."""
        super().__init__(root, durability=durability, mine=mine)
        self._listing.warns = True
        self._lent, self.lock = lock, -1
        self._opening: WeakValueDictionary[StreamId, asyncio.Lock] = WeakValueDictionary()
        self._epochs: dict[tuple[str, str], Epochs] = {}  # by run and site
        self._footprints: dict[tuple[str, str], Counted] = {}
        self._wholes = Wholes()
        self._commits: Rounds | None = None
        self._opens: Rounds | None = None
        self._opening_threads: ThreadPoolExecutor | None = None
        self._quick = 0  # opens without a thread in this turn of the event loop
        self._changed_runs: set[str] = set()  # since ``remove`` computed their extent
        self._clearing = asyncio.Lock()
        self._run_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._learning: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def __aenter__(self) -> Self:
        self.lock = self._lent if self._lent >= 0 else await lock.taken(self.root)
        self._commits = Rounds(_SYNC_THREADS, "flarelog-sync")
        self._opens = Rounds(_OPENING_THREADS, "flarelog-opens")
        self._listing.threads = self._aside_threads = ThreadPoolExecutor(_ASIDE_THREADS, "flarelog-aside")
        self._opening_threads = ThreadPoolExecutor(_OPENING_THREADS, "flarelog-opening")
        return self

    async def __aexit__(self, *_: object) -> None:
        for appender in list(self._open.values()):
            try:
                await appender.close()
            except (Full, Unavailable) as error:
                log.error("%s: some bytes could not be committed: %s", appender.stream, error)
            except Exception:  # continue: close the other streams and release the lock
                log.exception("%s: it could not be closed", appender.stream)
        for threads in (self._commits, self._opens, self._aside_threads, self._opening_threads):
            if threads is not None:
                threads.shutdown()
        if self._lent < 0:
            lock.let_go(self.lock)
            self.lock = -1
        self.forget()

    def forget(self) -> None:
        """In a forked child: release the inherited descriptors, so that the lock ends with the parent."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1

    # --- opening

    async def appender(
        self, stream: StreamId, producer: bytes, epoch: int = 0, started: Started | None = None
    ) -> LocalAppender:
        opening = self._opening.setdefault(stream, asyncio.Lock())  # lives while the stream is being opened
        async with opening:
            await self._learn(stream)
            before = self._open.get(stream)
            if before is not None:
                before.claimed_by(producer, epoch, started)  # a fenced producer must not close the active appender
                await before.close()
            site = stream.run, stream.site
            appender = LocalAppender(self, stream, self._footprints[site], self._epochs[site])
            try:
                self._spare_descriptors()
                if self._is_quick(stream) or self._opens is None:
                    await self._may_open()
                    appender.open()
                    appender.settle()
                else:
                    # The path is the key: streams that are opened together share one sync of their directory.
                    settle = os.path.dirname(appender.path), appender.settle
                    await self._opens.do(appender.open, settle, of=stream.site)
                await appender.claim(producer, epoch, started)
            except BaseException:
                await appender.close()
                raise
            self._open[stream] = appender
        return appender

    def _is_quick(self, stream: StreamId) -> bool:
        """Whether opening *stream* reads little and syncs nothing, so that a thread job would take longer."""
        journal, data = self.layout.files(stream)
        try:
            size = os.lstat(journal).st_size
        except FileNotFoundError:
            return not self.layout.durable  # a new log
        except OSError:
            return False
        try:
            return 0 < size <= LONG and os.lstat(data).st_size <= _LITTLE
        except OSError:
            return False

    async def _may_open(self) -> None:
        """Wait for a turn of the event loop with few opens: each of them holds up what else the loop has to do."""
        while self._quick >= _AT_ONCE:
            await asyncio.sleep(0)
        if not self._quick:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._quick += 1

    def _next_turn(self) -> None:
        self._quick = 0

    # --- its files (see base.Space)

    @property
    def space(self) -> Self:
        return self

    async def footprint(self, stream: StreamId) -> tuple[Footprint, Footprint]:
        await self._learn(stream)
        new = footprint.missing(stream, self.layout.files(stream)[0])  # faster than a thread job
        return self._footprints[stream.run, stream.site], new

    async def _learn(self, stream: StreamId) -> None:
        """Scan the footprint of the stream's site and the epochs of its producers, once, before its first stream is
        opened.
        """
        site = stream.run, stream.site
        if site in self._epochs:
            return
        async with self._learning.setdefault(site, asyncio.Lock()):
            if site not in self._epochs:
                self._spare_descriptors()  # the scan takes descriptors; without spare ones the stream cannot be opened
                found = await aside(partial(self._learned, *site), self._opening_threads)
                self._footprints[site], self._epochs[site] = found
                self._wholes.enters(*site, self._footprints[site])

    def _learned(self, run: str, site: str) -> tuple[Counted, Epochs]:
        epochs = Epochs()
        try:
            found = footprint.found(self.root / run / site)
            for stream in self.layout.streams(run, site):
                epochs.learn(journals.holder_of(self.layout.journal(stream)))
        except OSError as error:
            raise meaning(error, f"the logs of {run}/{site} could not be read") from error
        return found, epochs

    def held(self, run: str, site: str) -> Footprint:
        return self._footprints.get((run, site)) or Counted()

    def inodes(self, site: str) -> int:
        return self._wholes.of(site)

    async def count_inodes(self) -> None:
        for run in await self.aside(self.layout.names):
            began = time.monotonic()
            sites = await self.aside(partial(self.layout.names, run))
            new = [site for site in sites if self._listing.mine(run, site) and not self._wholes.knows(run, site)]
            counted = await self.aside(partial(footprint.of_sites, self.root / run, new))
            for site, found in counted.items():
                if not self._wholes.knows(run, site) and (self.root / run).exists():
                    self._wholes.enters(run, site, found)
            await asyncio.sleep(COUNT_RESTS * (time.monotonic() - began))

    def _spare_descriptors(self) -> None:
        """Raises Full if one more stream could leave no descriptor for a connection."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        with contextlib.suppress(OSError):
            lowest = os.dup(self.lock)  # free descriptor; all below it are in use
            os.close(lowest)
            if lowest + _TAKEN <= limit - min(_SPARE, limit // 4):
                return
        raise Full(
            f"the receiver has reached its limit of {limit} open files (ulimit -n): raise"
            " the limit, or wait until a log ends"
        )

    # --- the interface for appenders (see appender.Home)

    async def commit(self, stream: StreamId, write: Callable[[], None], sync: Callable[[], None]) -> None:
        if self._commits is None:
            raise Unavailable(f"{self.root} is closed")
        await self._commits.do(write, sync, of=stream.site)

    def changed(self, stream: StreamId) -> None:
        self._followers.wake(stream)

    def closed(self, appender: LocalAppender) -> None:
        self._changed_runs.add(appender.stream.run)
        if self._open.get(appender.stream) is appender:
            del self._open[appender.stream]
        self.changed(appender.stream)

    # --- notes

    async def add_note(self, kind: Kind, said: bytes, run: str, site: str = "") -> bool:
        add = partial(notes.add, self.layout, kind, said, run_name(run), site and site_name(site))
        one = self._run_locks.setdefault(run, asyncio.Lock()) if kind.durable else None
        if one is None:
            return await self._noted(kind, add, run)
        async with one:  # states are written in the order of the calls
            # Otherwise the run was removed, and a file would bring it back.
            return self._run_locks.get(run) is one and await self._noted(kind, add, run)

    async def set_note(self, kind: Kind, said: bytes, run: str = "", site: str = "") -> None:
        names = run and run_name(run), site and site_name(site)
        await self._noted(kind, partial(notes.replace, self.layout, kind, said, *names), run)

    async def _noted(self, kind: Kind, write: Callable[[], None], run: str) -> bool:
        if kind.durable:
            self._changed_runs.add(run)
        try:
            await self.aside(write)
        except FileNotFoundError:  # the run is missing, or was removed meanwhile
            return False
        except OSError as error:
            raise meaning(error, f"a note of {run or self.root} could not be written") from error
        return True

    # --- removal (see removal.py)

    def _open_streams(self, run: str, site: str) -> Sequence[StreamId]:
        """The streams of *run*, or of *site* in it, that this process has open or is opening."""
        opening = [one for one, lock in self._opening.items() if lock.locked()]  # an unlocked one was refused
        return [one for one in {*self._open, *opening} if one.run == run and site in ("", one.site)]

    async def remove(self, run: str, site: str = "", *, was: Extent | None = None) -> Removed:
        run_name(run)
        place = self.root / run / site if site and site_name(site) else self.root / run
        async with self._run_locks.setdefault(run, asyncio.Lock()):  # no task writes the run's state meanwhile
            self._changed_runs.discard(run)
            found = await self.aside(partial(extent, place))
            if opened := self._open_streams(run, site):
                raise InUse(in_use(run, site, len(opened)))
            if was is not None and (found != was or run in self._changed_runs):
                raise InUse(f"run {run} has changed, so it was not removed")
            try:
                move_away(self.root, run, site)  # without await: no open has started since the check
            except (FileNotFoundError, NotADirectoryError):
                raise absent(run, site) from None
            except OSError as error:
                raise meaning(error, f"{place} could not be removed") from error
            if not site:
                del self._run_locks[run]  # waiting calls would write the state of a removed run
        self.forget_run(run, site)
        return Removed(found.files, found.log_bytes)

    def forget_run(self, run: str, site: str = "") -> None:
        if not site:
            self._changed_runs.discard(run)
        self._listing.forget(run, site)
        for of_sites in (self._epochs, self._footprints):
            for known in [known for known in of_sites if known[0] == run and site in ("", known[1])]:
                del of_sites[known]
        self._wholes.forget(run, site)
        self._followers.end(run, site)

    async def clear(self) -> None:
        async with self._clearing:
            for path in await self.aside(partial(leftovers, self.root)):  # a shutdown waits for one path at most
                await self.aside(partial(clear, path))
