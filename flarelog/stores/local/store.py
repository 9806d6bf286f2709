"""The local store: one plain file a stream, with its journal beside it.

    ROOT/RUN/SITE/LOG               the bytes of the stream and nothing else
    ROOT/RUN/SITE/.LOG.journal      what of them is durable, and the marks (see journal.py)
    ROOT/RUN/.run.journal           the run's state
    ROOT/RUN/.SITE.events           what became of the site's streams, and when (see chronicle.py)
    ROOT/.lock                      held by the receiver that writes here

Opening a stream replays its journal and trusts no length that the journal does not vouch for: the last range is read
again and compared with its digest, and what lies behind it is cut off. Bytes are committed when the journal says so:
with durability ``disk`` after fdatasync of both files, many appends at a time; with ``memory`` after the write, which
survives a kill but not a power cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import resource
import stat
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar
from weakref import WeakValueDictionary

from flarelog.delivery.receiver import Epochs
from flarelog.delivery.shares import Footprint
from flarelog.errors import Full, InUse, InvalidName, NotAllowed, NotFound, StoreLocked, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Mark, Removed, StreamId, StreamInfo
from flarelog.names import MAX_PARTS, run_name, site_name
from flarelog.stores.local import chronicle, footprint
from flarelog.stores.local import journal as journals
from flarelog.stores.local.appender import LocalAppender, meaning
from flarelog.stores.local.chronicle import Happening
from flarelog.stores.local.directory import DIRECTORY_MODE, Directory, link
from flarelog.stores.local.footprint import Counted
from flarelog.stores.local.removal import Extent, absent, clear, extent, in_use, leftovers, move_away

log = logging.getLogger(__name__)

T = TypeVar("T")
Durability = Literal["disk", "memory"]

_RUN_JOURNAL = ".run.journal"
_READ = 128 << 10  # bytes a read hands out at most: so much of each reader that takes nothing stays in memory
_ENDING = 10.0  # seconds that the workers of a receiver which was killed may take to end
_BREATH = 0.002  # seconds of listing after which others have a turn
_POLL = 0.2  # seconds between two looks at a journal that another process writes
_LONG = 32 << 10  # bytes of a journal whose replay takes longer than others should wait for it
_LITTLE = 256 << 10  # bytes of a log of which the last range is read again without a thread
_GROWING_MARKS = 1000  # of a stream that is followed: the journal of one with more is read anew whenever it has changed
_LISTED = 10_000  # streams of which it is remembered what their journals say
_LISTED_MARKS = 100_000  # of all of them
_ASIDE_THREADS = 4  # for what may wait for the disk and is neither a commit nor an open: listing, runs' states
_SETTLED = 100_000_000  # nanoseconds after which a file's times and size tell every change of it
OPENING = 8
"""Streams that are opened side by side: each has a thread, which may wait until its directories are durable."""
_SYNC_THREADS = 4  # concurrent fdatasync calls share the file system's own commits
_TAKEN = 3  # descriptors that a stream takes: of its two files, and of their directory while it opens them
_SPARE = 64  # descriptors that streams leave free: for connections, readers, lists and compaction


class LocalStore:
    """A directory of streams. Use as an asynchronous context manager to write; reading needs no lock.

    Raises, on entering: NotAllowed when the directory cannot be written, StoreLocked when another receiver has it.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        durability: Durability = "disk",
        *,
        lock: int = -1,
        mine: Callable[[str, str], bool] | None = None,
    ) -> None:
        """*lock*: the descriptor of a lock that another process of this receiver has taken; *mine*: whether a site of a
        run is this process's to write and to list, if not all are.
        """
        self.root = Path(root)
        self.durability = durability
        self._lent, self._mine = lock, mine
        self._open: dict[StreamId, LocalAppender] = {}
        self._opening: WeakValueDictionary[StreamId, asyncio.Lock] = WeakValueDictionary()
        self._followers: dict[StreamId, set[asyncio.Event]] = {}
        self._growing: dict[StreamId, journals.Growing] = {}  # of those that are followed, and written by others
        self._epochs: dict[tuple[str, str], Epochs] = {}  # by run and site
        self.footprints: dict[tuple[str, str], Counted] = {}  # likewise
        self.left_out: set[str] = set()  # a sentence for each link and the like that lists leave out
        self._lock_fd = -1
        self._threads: ThreadPoolExecutor | None = None
        self._aside_threads: ThreadPoolExecutor | None = None
        self._opening_threads: ThreadPoolExecutor | None = None
        self._infos: OrderedDict[StreamId, tuple[object, StreamInfo]] = OrderedDict()  # with the state of the files
        self._infos_marks = 0
        self._changed_runs: set[str] = set()  # since somebody began to remove them
        self._leaving: set[tuple[str, str]] = set()  # runs, with no site, and sites of runs
        self._ended: set[asyncio.Event] = set()  # of those who follow what is no longer there
        self._clearing = asyncio.Lock()
        self._run_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._looking: WeakValueDictionary[StreamId, asyncio.Lock] = WeakValueDictionary()
        self._learning: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def __aenter__(self) -> LocalStore:
        self._lock_fd = self._lent if self._lent >= 0 else await self._have_lock()
        self._threads = ThreadPoolExecutor(_SYNC_THREADS, "flarelog-sync")
        self._aside_threads = ThreadPoolExecutor(_ASIDE_THREADS, "flarelog-aside")
        self._opening_threads = ThreadPoolExecutor(OPENING, "flarelog-opening")
        return self

    @property
    def lock(self) -> int:
        """The lock's descriptor, to be lent to the other processes of this receiver."""
        return self._lock_fd

    async def _have_lock(self) -> int:
        """The lock; a little later where the receiver that had it is gone, and its workers, who have it, are ending."""
        end = time.monotonic() + _ENDING
        while True:
            try:
                return self._lock()
            except StoreLocked as locked:
                if time.monotonic() > end or not locked.holder or os.path.exists(f"/proc/{locked.holder}"):
                    raise
            await asyncio.sleep(_POLL)

    def _lock(self) -> int:
        try:
            _make(self.root)
            with Directory(self.root) as directory:
                lock = directory.open(".lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise NotAllowed(
                f"the store {self.root} cannot be written: {error.strerror}; name a directory that can"
            ) from error
        except Unavailable as error:
            raise NotAllowed(str(error)) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise StoreLocked(
                f"another receiver (process {holder}) has the store {self.root}; stop it, or name another directory",
                holder=int(holder) if holder.isascii() and holder.isdecimal() else 0,
            ) from error
        with contextlib.suppress(OSError):  # a full disk is no reason not to serve what is held
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return lock

    async def __aexit__(self, *_: object) -> None:
        for appender in list(self._open.values()):
            try:
                await appender.close()
            except (Full, Unavailable) as error:
                log.error("%s: not everything could be committed: %s", appender.stream, error)
            except Exception:  # the others are closed all the same, and the lock is given back
                log.exception("%s: it could not be closed", appender.stream)
        for threads in (self._threads, self._aside_threads, self._opening_threads):
            if threads is not None:
                threads.shutdown()
        if self._lent < 0:
            # Closing alone would not let go of it where a forked child has a copy of the descriptor.
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)
        os.close(self._lock_fd)
        self._lock_fd = -1

    def forget(self) -> None:
        """In a forked child: give up its copy of the parent's lock, so that it ends with the parent."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # --- the contract

    async def appender(self, stream: StreamId, producer: bytes, epoch: int = 0) -> LocalAppender:
        lock = self._opening.setdefault(stream, asyncio.Lock())  # lives as long as somebody opens the stream
        async with lock:
            if not self._leaving.isdisjoint(((stream.run, ""), (stream.run, stream.site))):
                raise Unavailable(f"{stream} cannot be opened just now: its run is being removed")
            before = self._open.get(stream)
            if before is not None:
                before.claimed_by(producer, epoch)  # a fenced one must not disturb the one that is at work
                await before.close()
            await self._learn_footprint(stream)
            appender = LocalAppender(self, stream)
            try:
                self._spare_descriptors()
                if self._is_quick(stream):
                    appender.open()
                else:
                    await self._in(self._opening_threads, appender.open)
                await self._learn_epochs(stream)
                await appender.claim(producer, epoch)
            except BaseException:
                await appender.close()
                raise
            self._open[stream] = appender
        return appender

    def _is_quick(self, stream: StreamId) -> bool:
        """Whether opening *stream* makes nothing and reads little: a thread would take longer than that."""
        try:
            journal, data = (os.lstat(path).st_size for path in self._files(stream))
        except OSError:
            return False
        return 0 < journal <= _LONG and data <= _LITTLE

    async def _learn_epochs(self, stream: StreamId) -> None:
        """Read for ``epochs``, at the first stream of a site, what may be thousands of journals."""
        site = stream.run, stream.site
        async with self._learning.setdefault(site, asyncio.Lock()):
            if site not in self._epochs:
                await self._in(self._opening_threads, partial(self.epochs, stream))

    async def footprint(self, stream: StreamId) -> tuple[Footprint, Footprint]:
        held, journal = await self._learn_footprint(stream), self.journal_path(stream)
        if os.path.lexists(journal):
            return held, Footprint()
        return held, footprint.missing(self.root, stream, journal)  # a thread would take longer than that

    async def _learn_footprint(self, stream: StreamId) -> Footprint:
        """Look it up for ``footprint``, before the first stream of a site is opened."""
        site = stream.run, stream.site
        async with self._learning.setdefault(site, asyncio.Lock()):
            if site not in self.footprints:
                look = partial(footprint.found, self.root / stream.run / stream.site)
                try:
                    self.footprints[site] = await self._in(self._opening_threads, look)
                except OSError as error:
                    raise meaning(error, f"the logs of {stream.run}/{stream.site} could not be counted") from error
            return self.footprints[site]

    def epochs(self, stream: StreamId) -> Epochs:
        """The producers of the stream's site, as the journals of all its streams remember them."""
        found = self._epochs.get((stream.run, stream.site))
        if found is None:
            found = Epochs()
            try:
                for other in self._streams_of(stream.run, stream.site):
                    try:
                        with self.directory(other) as directory:
                            found.learn(journals.holder_of(directory.read(self.journal_path(other).name)))
                    except Unavailable as error:
                        self._leave_out(error)
            except OSError as error:
                raise meaning(error, f"the producers of {stream.run}/{stream.site} could not be read") from error
            self._epochs[stream.run, stream.site] = found
        return found

    def _spare_descriptors(self) -> None:
        """Raises Full when so many are open that one more stream could keep a connection out."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        taken: list[int] = []
        with contextlib.suppress(OSError):
            taken.extend(os.dup(self._lock_fd) for _ in range(_TAKEN))
        for fd in taken:
            os.close(fd)
        if len(taken) == _TAKEN and max(taken) < limit - min(_SPARE, limit // 4):
            return
        raise Full(
            f"no more logs can be open at once: this receiver may have {limit} files open (ulimit -n); raise that, or"
            " wait until one has ended"
        )

    async def last_offset(self, stream: StreamId) -> int | None:
        info = await self._held(stream)
        return None if info is None else info.committed

    async def read(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        async with contextlib.aclosing(self.growth(stream, start, follow)) as growth:
            async for fd, info in growth:
                for offset, data in pieces(stream, fd, start, info.committed):
                    yield offset, data
                    start = offset + len(data)

    async def growth(
        self, stream: StreamId, start: int = 0, follow: bool = False
    ) -> AsyncGenerator[tuple[int, StreamInfo], None]:
        """A descriptor of the stream's file, to read, and what is known of the stream, whenever it has grown behind
        *start* or ends; the descriptor serves until the last one. Ends, and raises, as ``read`` does.
        """
        wake = asyncio.Event()
        self._followers.setdefault(stream, set()).add(wake)
        fd = -1
        try:
            while True:
                wake.clear()
                info = await self._held(stream)
                if wake in self._ended:
                    raise NotFound(f"{stream} was removed")
                if info is None:
                    raise NotFound(f"the store holds no stream {stream}")
                if fd >= 0 and stream not in self._open and not self._is_file_of(stream, fd):
                    raise NotFound(f"{stream} is no longer what was read so far: it was removed, and begun anew")
                if fd < 0 and info.committed:
                    try:
                        with self.directory(stream) as directory:
                            fd = directory.open(self.path(stream).name, os.O_RDONLY)
                    except OSError as error:
                        raise meaning(error, f"{stream} could not be read") from error
                over = info.sealed or not follow
                if over or info.committed > start:
                    yield fd, info
                    start = max(start, info.committed)
                if over:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if stream in self._open else _POLL):
                        await wake.wait()
        finally:
            self._ended.discard(wake)
            self._followers[stream].discard(wake)
            if not self._followers[stream]:
                del self._followers[stream]
                self._growing.pop(stream, None)
            if fd >= 0:
                os.close(fd)

    def _is_file_of(self, stream: StreamId, fd: int) -> bool:
        """Whether *fd* is the file of *stream* as it is now: another process may have removed what it was opened as."""
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(self.path(stream)))
        except OSError:
            return False

    async def marks(self, stream: StreamId, first: int = 0) -> Sequence[Mark]:
        appender = self._open.get(stream)
        if appender is not None:
            return appender.journal.marks[first:]
        info = await self._held(stream)
        return () if info is None else info.marks[first:]

    async def list(
        self,
        prefix: str = "",
        *,
        one_a_site: bool = False,
        after: tuple[str, str, str] = ("", "", ""),
        wanted: Callable[[str, str], bool] = lambda run, site: True,
    ) -> AsyncGenerator[StreamInfo, None]:
        due = time.monotonic() + _BREATH
        one_run, one_site = [*prefix.split("/")[:-1][:2], None, None][:2]  # whose names are whole
        for run in await self.aside(partial(self._directories, only=one_run)):
            if not f"{run}/".startswith(prefix[: len(run) + 1]) or run < after[0]:
                continue
            for site in await self.aside(partial(self._directories, run, only=one_site)):
                if not f"{run}/{site}/".startswith(prefix[: len(run) + len(site) + 2]):
                    continue
                if (self._mine is not None and not self._mine(run, site)) or not wanted(run, site):
                    continue
                if (run, site) < after[:2] or (one_a_site and (run, site) == after[:2]):
                    continue
                behind = after[2] if (run, site) == after[:2] else ""
                for stream in await self.aside(partial(self._streams_of, run, site, behind)):
                    info = await self._held(stream) if str(stream).startswith(prefix) else None
                    if info is not None:
                        yield info
                        if one_a_site:
                            break
                    if time.monotonic() > due:
                        await asyncio.sleep(0)  # a store may hold many
                        due = time.monotonic() + _BREATH

    async def sites(self, run: str) -> Collection[str]:
        return self._directories(run_name(run))

    async def set_run(self, run: str, state: RunState, maker: str = "") -> None:
        async with self._run_locks.setdefault(run_name(run), asyncio.Lock()):  # the last one said is the last written
            self._changed_runs.add(run)
            await self.aside(lambda: self._write_run(run, state, maker))

    def _write_run(self, run: str, state: RunState, maker: str) -> None:
        # Behind an empty line: a torn one before it must not swallow it.
        line = b"\n" + journals.run_line(run, state.value, journals.now(), maker)
        durable = self.durability == "disk"
        try:
            with Directory(self.root, (run,), make=True, durable=durable) as directory:
                fd = directory.open(_RUN_JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                try:
                    if os.write(fd, line) < len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    if durable:
                        os.fdatasync(fd)
                        directory.sync()
                finally:
                    os.close(fd)
        except OSError as error:
            raise meaning(error, f"the state of run {run} could not be written") from error

    async def runs(self) -> dict[str, RunState]:
        found = {name: await self.run_state(name) for name in self._directories()}
        return {name: state for name, state in found.items() if state is not RunState.UNKNOWN}

    async def run_state(self, run: str) -> RunState:
        """UNKNOWN where nothing was recorded."""
        found = RunState.UNKNOWN
        for record in journals.records(self.raw_of((run,), _RUN_JOURNAL)):
            with contextlib.suppress(ValueError):  # of a state that this version does not know
                if record is not None and record.get("t") == "run":
                    found = RunState(record.get("state"))
        return found

    async def makers(self) -> dict[str, str]:
        found = {}
        for run in self._directories():
            for record in journals.records(self.raw_of((run,), _RUN_JOURNAL)):
                if record is not None and isinstance(maker := record.get("by"), str):
                    found[run] = maker
        return {run: maker for run, maker in found.items() if maker}

    def run_names(self) -> Sequence[str]:
        return self._directories()

    # --- what happened (see chronicle.py and timeline.py)

    async def record(self, run: str, site: str, found: Sequence[Happening]) -> None:
        try:
            await self.aside(partial(chronicle.write, self.root, run, site, found))
        except FileNotFoundError:
            return  # it was removed
        except OSError as error:
            raise meaning(error, f"what happened in {run}/{site} could not be written down") from error

    def raw_of(self, parts: Sequence[str], name: str) -> bytes:
        """What the file *name* in the directory *parts* of the store holds; nothing where it cannot be read."""
        return self._look(partial(Directory, self.root, parts), lambda directory: directory.read(name)) or b""

    def run_record(self, run: str) -> bytes:
        return self.raw_of((run_name(run),), _RUN_JOURNAL)

    def journal_of(self, stream: StreamId) -> bytes:
        path = self.journal_path(stream)
        return self.raw_of(path.parent.relative_to(self.root).parts, path.name)

    def streams_of(self, run: str, site: str) -> Sequence[StreamId]:
        return self._streams_of(run, site)

    # --- what leaves (see removal.py)

    def hold(self, run: str, site: str = "") -> None:
        self._leaving.add((run, site))

    def release(self, run: str, site: str = "") -> None:
        self._leaving.discard((run, site))

    def open_streams(self, run: str, site: str = "") -> Sequence[StreamId]:
        return [one for one in {*self._open, *self._opening} if one.run == run and site in ("", one.site)]

    async def remove(self, run: str, site: str = "", *, was: Extent | None = None) -> Removed:
        run_name(run)
        place = self.root / run / site if site and site_name(site) else self.root / run
        self.hold(run, site)
        try:
            async with self._run_locks.setdefault(run, asyncio.Lock()):  # nobody writes its state meanwhile
                self._changed_runs.discard(run)
                found = await self.aside(partial(extent, place))
                if opened := self.open_streams(run, site):
                    raise InUse(in_use(run, site, len(opened)))
                if was is not None and (found != was or run in self._changed_runs):
                    raise InUse(f"run {run} has changed, and was not removed")
                try:
                    move_away(self.root, run, site)  # in the loop: nobody has begun to open one since
                except (FileNotFoundError, NotADirectoryError):
                    raise absent(run, site) from None
                except OSError as error:
                    raise meaning(error, f"{place} could not be removed") from error
            self.forget_run(run, site)
        finally:
            self.release(run, site)
        return Removed(found.files, found.log_bytes)

    def forget_run(self, run: str, site: str = "") -> None:
        if not site:
            self._changed_runs.discard(run)
        for stream in [one for one in self._infos if one.run == run and site in ("", one.site)]:
            self._forget(stream)
        for of_sites in (self._epochs, self.footprints):
            for known in [known for known in of_sites if known[0] == run and site in ("", known[1])]:
                del of_sites[known]
        for stream in [one for one in self._followers if one.run == run and site in ("", one.site)]:
            self._growing.pop(stream, None)
            self._ended |= self._followers[stream]
            self.changed(stream)

    async def clear(self) -> None:
        async with self._clearing:
            for path in await self.aside(partial(leftovers, self.root)):  # whoever ends does not wait for all of it
                await self.aside(partial(clear, path))

    # --- paths: names were validated when the StreamId was made

    def directory(self, stream: StreamId, *, make: bool = False) -> Directory:
        """The directory of the stream's files. Raises OSError, and Unavailable where a link leads to it."""
        parts = (stream.run, stream.site, *stream.log.split("/")[:-1])
        counted = self.footprints.get((stream.run, stream.site)) or Footprint()
        made = lambda number: counted.add(directories=int(number >= len(("run", "site"))))  # noqa: E731
        return Directory(self.root, parts, make=make, durable=self.durability == "disk", made=made)

    def path(self, stream: StreamId) -> Path:
        return self.root / stream.run / stream.site / stream.log

    def journal_path(self, stream: StreamId) -> Path:
        path = self.path(stream)
        return path.with_name(f".{path.name}.journal")

    def _files(self, stream: StreamId) -> tuple[str, str]:
        """The paths of the journal and of the bytes, made faster: of each of thousands."""
        below, slash, name = stream.log.rpartition("/")
        directory = f"{self.root}/{stream.run}/{stream.site}/{below}{slash}"
        return f"{directory}.{name}.journal", f"{directory}{name}"

    def _streams_of(self, run: str, site: str, behind: str = "") -> Sequence[StreamId]:
        base = f"{self.root}/{run}/{site}"
        names, found = [], []
        for directory, below, files in os.walk(base, onerror=_unless_gone):
            for name in below:
                if os.path.islink(path := os.path.join(directory, name)):
                    self._leave_out(link(Path(path)))
            before = f"{os.path.relpath(directory, base)}/" if directory != base else ""
            names += [
                f"{before}{file[1 : -len('.journal')]}"
                for file in files
                if file.startswith(".") and file.endswith(".journal")
            ]
        for name in sorted(name for name in names if name > behind):
            try:
                found.append(StreamId(run, site, name))
            except InvalidName as error:
                if name.count("/") >= MAX_PARTS:  # an earlier version took it
                    self._leave_out(Unavailable(f"{run}/{site}/{name} is not shown: {error}; move it up"))
        return found

    def _directories(self, *parts: str, only: str | None = None) -> Sequence[str]:
        """The directories below *parts*; with *only*, that one, if it is there."""
        parent = self.root.joinpath(*parts)
        try:
            if only is not None:
                mode = os.lstat(parent / only).st_mode
                found = [(only, stat.S_ISLNK(mode), stat.S_ISDIR(mode))]
            else:
                with os.scandir(parent) as entries:
                    found = [(it.name, it.is_symlink(), it.is_dir(follow_symlinks=False)) for it in entries]
        except OSError as error:
            _unless_gone(error)
            return []
        found = sorted(one for one in found if one[0] and not one[0].startswith("."))
        for name, is_link, _ in found:
            if is_link:
                self._leave_out(link(parent / name))
        return [name for name, _, is_directory in found if is_directory]

    async def _held(self, stream: StreamId) -> StreamInfo | None:
        """What is known of *stream*; of one that is not open what its files said when they were last as they are."""
        if stream in self._open:
            return self._info(stream)
        async with self._looking.setdefault(stream, asyncio.Lock()):  # whoever comes meanwhile is told the same
            state = self._state_of(stream)
            known = self._infos.get(stream)
            if known is not None and known[0] == state:
                self._infos.move_to_end(stream)
                return known[1]
            self._forget(stream)
            begun = stream in self._growing and self._growing[stream].begun
            long = not begun and (state is None or state[1] > _LONG)
            info = await self.aside(lambda: self._info(stream)) if long else self._info(stream)
            if info is not None and state is not None and state == self._state_of(stream) and stream not in self._open:
                self._infos[stream] = state, info
                self._infos_marks += len(info.marks)
                while len(self._infos) > _LISTED or self._infos_marks > _LISTED_MARKS:
                    self._forget(next(iter(self._infos)))
            return info

    def _forget(self, stream: StreamId) -> None:
        known = self._infos.pop(stream, None)
        if known is not None:
            self._infos_marks -= len(known[1].marks)

    def _state_of(self, stream: StreamId) -> tuple[int, ...] | None:
        """What changes whenever the stream's files do, the size of the journal second; None when it cannot be told."""
        found: list[int] = []
        try:
            for path in self._files(stream):
                status = os.lstat(path)
                if status.st_nlink != 1 or time.time_ns() - status.st_mtime_ns < _SETTLED:
                    return None
                found += (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_dev)
        except OSError:
            return None
        return tuple(found)

    async def aside(self, work: Callable[[], T]) -> T:
        """Do *work*, which may wait for the disk or take long, in a thread, to its end even if nobody waits for it."""
        return await self._in(self._aside_threads, work)

    async def _in(self, threads: ThreadPoolExecutor | None, work: Callable[[], T]) -> T:
        try:
            done = asyncio.get_running_loop().run_in_executor(threads, work)
        except RuntimeError:  # the interpreter is ending, and gives no thread any more
            return work()
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            while not done.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((done,))
            if not done.cancelled():
                done.exception()
            raise

    def _info(self, stream: StreamId) -> StreamInfo | None:
        appender = self._open.get(stream)
        if appender is not None:
            journal = appender.journal
        else:
            found = self._recorded(stream)
            if found is None:
                return None
            journal = found
        redacted = journal.redacted if journal.sealed else None
        return StreamInfo(
            *(stream, 0, journal.committed, journal.digest, journal.sealed, tuple(journal.marks), redacted),
            begun=journal.begun,
            grown=journal.grown,
            ended=journal.ended,
        )

    def _recorded(self, stream: StreamId) -> journals.Journal | None:
        """What the journal says, as far as the bytes are there; None when there is none."""
        growing = self._growing.setdefault(stream, journals.Growing()) if stream in self._followers else None

        def recorded(directory: Directory) -> journals.Journal:
            log = stream.log.rpartition("/")[2]
            name = f".{log}.journal"
            if growing is None:
                journal = journals.replay(directory.read(name))
            else:
                fd = directory.open(name, os.O_RDONLY)
                try:
                    journal = growing.read(fd)
                finally:
                    os.close(fd)
                if len(journal.marks) > _GROWING_MARKS:
                    self._growing.pop(stream, None)
            if not journal.sealed:
                _believe(directory, log, journal)
            if journal.committed and not journal.grown:  # its lines are of a version that wrote no times
                journal.grown = directory.changed(log)
            return journal

        return self._look(lambda: self.directory(stream), recorded)

    def _look(self, where: Callable[[], Directory], read: Callable[[Directory], T]) -> T | None:
        """What *read* finds there; None when nothing is there, or something that flarelog did not put there."""
        try:
            with where() as directory:
                return read(directory)
        except Unavailable as error:
            self._leave_out(error)
        except OSError as error:
            _unless_gone(error)
        return None

    def _leave_out(self, error: Unavailable) -> None:
        """Say once why something is not shown: one link in a store must not hide all the rest of it."""
        if str(error) not in self.left_out:
            self.left_out.add(str(error))
            log.warning("%s; until then it is left out", error)

    def changed(self, stream: StreamId) -> None:
        for wake in self._followers.get(stream, ()):
            wake.set()

    def closed(self, appender: LocalAppender) -> None:
        self._changed_runs.add(appender.stream.run)
        if self._open.get(appender.stream) is appender:
            del self._open[appender.stream]
        self.changed(appender.stream)

    async def in_thread(self, work: Callable[[], None]) -> None:
        try:
            done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except RuntimeError:  # the interpreter is ending, and gives no thread any more
            work()
        else:
            await done


def pieces(stream: StreamId, fd: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """What *fd*, the file of *stream*, holds from *start* to *end*, as its journal says. Raises Unavailable."""
    while start < end:
        data = os.pread(fd, min(_READ, end - start), start)
        if not data:
            raise Unavailable(f"{stream} ends at offset {start}, but its journal says {end}")
        yield start, data
        start += len(data)


def _unless_gone(error: OSError) -> None:
    """Raises Full or Unavailable, unless nothing is there, or something that is none of flarelog's.

    A store that cannot be read for want of descriptors must not pass for an empty one: a producer would begin from 0.
    """
    if not isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
        raise meaning(error, f"{error.filename} could not be read") from error


def _believe(directory: Directory, name: str, journal: journals.Journal) -> None:
    """After a power cut nobody may have opened the stream yet: what is not there is not to be shown."""
    try:
        fd = directory.open(name, os.O_RDONLY)
    except FileNotFoundError:
        journal.roll_back(0)
        return
    try:
        journal.believe(fd)
    finally:
        os.close(fd)


def _make(directory: Path) -> None:
    """With its parents, which pathlib would make as open as the umask allows."""
    if not directory.is_dir():
        _make(directory.parent)
        directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
