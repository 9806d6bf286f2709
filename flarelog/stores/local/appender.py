"""The one writer of one stream in a local store: it appends, commits, and recovers after a crash.

The journal says how many bytes are committed; later bytes of the file do not count. One commit runs at a time, and
appends that come meanwhile go into the next one. After a failed commit the durable length is unknown: the appender
ends, and the next appender recovers.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import NoReturn, Protocol

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.delivery.receiver import Epochs, Holder, size_of
from flarelog.delivery.shares import Footprint
from flarelog.errors import TAKEN_OVER, Fenced, Hole, NameTaken, StoreError, Unavailable
from flarelog.model import MAX_CHUNK, Buffer, Mark, Receipt, Started, StreamId, StreamInfo
from flarelog.stores.directory import Directory, read_all
from flarelog.stores.full import meaning
from flarelog.stores.lines import now
from flarelog.stores.local import journal as journals
from flarelog.stores.local.journal import Journal
from flarelog.stores.local.layout import Layout
from flarelog.stores.marks import mark_line
from flarelog.values import changed

log = logging.getLogger(__name__)

_MARKS_A_COMMIT = 256  # encoding their lines blocks the event loop
_MARK_BYTES_A_COMMIT = 256 << 10
COMPACT_AFTER = 8192  # records; a length record takes about 50 bytes


class Home(Protocol):
    """The part of a store that an appender uses."""

    layout: Layout

    async def commit(self, stream: StreamId, write: Callable[[], None], sync: Callable[[], None]) -> None:
        """Run both in a thread, batched with other commits, in the turn of the stream's site: all *write*, then all
        *sync*. Raises their errors.
        """

    def changed(self, stream: StreamId) -> None:
        """Report that *stream* has more committed bytes or marks, or is sealed."""

    def closed(self, appender: LocalAppender) -> None:
        """Report that *appender* is closed."""


class LocalAppender:
    """The one writer of one stream in a LocalStore. ``journal`` says how much of the stream is committed."""

    max_chunk = MAX_CHUNK

    def __init__(self, home: Home, stream: StreamId, footprint: Footprint, epochs: Epochs) -> None:
        """*footprint*, *epochs*: those of the stream's site."""
        self.stream, self.footprint, self._epochs = stream, footprint, epochs
        self.journal = Journal()
        self._home = home
        self._disk = home.layout.durable
        self._name = stream.log.rpartition("/")[2]
        self._journal_name = f".{self._name}.journal"
        self._data_fd = self._journal_fd = -1
        self._fresh = False  # the files are new, and their directory may not be synced yet
        self._dirty = True  # the file may have bytes that are not durable
        self._journal_size = 0
        self._journal_kept = 0  # bytes of the journal whose commit succeeded
        self._compact_at = COMPACT_AFTER
        self._written = 0
        self._written_digest = EMPTY_DIGEST
        self._new_marks: list[Mark] = []
        self._committing: asyncio.Task[None] | None = None  # one at a time; it owns the descriptors until it ends
        self._gone: StoreError | None = None  # why the appender accepts nothing more
        self._dates: tuple[StreamInfo, Sequence[tuple[int, int]]] | None = None  # of the log that is copied here

    # --- the state

    @property
    def committed(self) -> int:
        return self.journal.committed

    @property
    def digest(self) -> int:
        return self.journal.digest

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(self.journal.marks)

    @property
    def mark_count(self) -> int:
        return len(self.journal.marks)

    @property
    def holder(self) -> Holder:
        return self.journal.holder

    @property
    def sealed(self) -> bool:
        return self.journal.sealed and not self.behind

    @property
    def info(self) -> StreamInfo:
        return self.journal.told(self.stream)

    def at_hand(self, size: int, offset: int) -> bytes:
        size = min(size, self.journal.committed - offset)
        return os.pread(self._data_fd, size, offset) if size > 0 and self._data_fd >= 0 else b""

    @property
    def behind(self) -> bool:
        return self._written > self.journal.committed or bool(self._new_marks)

    # --- opening

    def open(self) -> None:
        """Open or create both files, and recover after a crash."""
        try:
            with self._home.layout.directory(self.stream, self.footprint) as directory:
                self._open_in(directory)
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST):
                raise NameTaken("a part of its name is a log, or a log's directory") from error
            store = self._home.layout.root
            if isinstance(error, FileNotFoundError) and not os.path.isdir(store):
                again = "put it back, or start the receiver again, which makes a new one"
                raise Unavailable(f"the store {store} is gone: {again}") from error
            raise meaning(error, f"{self.stream} could not be opened") from error
        self._written, self._written_digest = self.journal.committed, self.journal.digest

    def _open_in(self, directory: Directory) -> None:
        name, journal, flags = self._name, self._journal_name, os.O_RDWR | os.O_CREAT
        there, fresh = directory.has(name), not directory.has(journal)
        if there and directory.is_directory(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if there and fresh and directory.size(name):
            path = directory.path / name
            raise Unavailable(f"{path} exists without a journal, so flarelog did not write it: move it away")
        # Both names are durable before a byte is written, so a crash never leaves bytes without a journal.
        self._journal_fd = directory.open(journal, flags)
        at = now()
        if fresh:
            self.footprint.add(logs=1)
            self._write_journal(journals.stream_line(self.stream, at))
        self._data_fd = directory.open(name, flags)
        if fresh and not there:
            self.journal = Journal(self.stream, begun=at, records=1)  # as replay would return it
            self._journal_kept = self._journal_size
        else:
            self._recover(directory)
        self._fresh = fresh or self.journal.records <= 1  # an earlier open may have crashed before its sync

    @property
    def path(self) -> str:
        return self._home.layout.files(self.stream)[1]

    def settle(self) -> None:
        """Sync the directory if ``open`` created files in it, before any byte is written. Raises as ``open`` does."""
        if self._fresh and self._disk:
            try:
                with self._home.layout.directory(self.stream) as directory:
                    directory.sync()
            except OSError as error:
                raise meaning(error, f"{self.stream} could not be opened") from error
        self._dirty, self._fresh = self.journal.records > 1, False

    def _recover(self, directory: Directory) -> None:
        raw = read_all(self._journal_fd)
        self.journal = journals.replay(raw)
        self._journal_size = self._journal_kept = len(raw)
        if self.journal.stream != self.stream:
            held = self.journal.stream
            if held is not None and held.key.casefold() == self.stream.key.casefold():
                raise NameTaken(f"this file system takes its name for {self.journal.stream}")
            self._set_aside(directory, raw)
        journal, size = self.journal, os.fstat(self._data_fd).st_size
        promised = journal.committed
        journal.believe(self._data_fd)
        if journal.committed < promised:
            log.warning(
                "%s: the journal lists %d bytes, but only %d are intact; the stream continues from there",
                self.stream, promised, journal.committed,
            )  # fmt: skip
        if size > journal.committed:
            os.ftruncate(self._data_fd, journal.committed)  # written, but never committed
        if journal.damaged or journal.committed < promised or journal.records > COMPACT_AFTER:
            self._compact(directory)

    def _set_aside(self, directory: Directory, raw: bytes) -> None:
        """Keep the unusable journal and the bytes under other names for people, and start the stream again from 0."""
        number, size = 1, os.fstat(self._data_fd).st_size
        while directory.has(aside := f".{self._name}.quarantine.{number}"):
            number += 1
        if size or raw.strip(b"\0"):
            # The bytes are renamed first: a crash in between leaves the unusable journal, which is set aside next time.
            os.close(self._data_fd)
            self._data_fd = -1
            directory.rename(self._name, aside)
            self._data_fd = directory.open_new(self._name)
            directory.rename(self._journal_name, f"{aside}.old-journal")
            path = directory.path / aside
            log.warning("%s: its journal is unusable; its %d bytes are kept as %s", self.stream, size, path)
        self.journal = Journal(stream=self.stream, damaged=1)

    def claimed_by(self, producer: bytes, epoch: int, started: Started | None) -> Holder:
        """The holder once *producer* has the stream. Raises Fenced."""
        try:
            journal = self.journal
            return self._epochs.claim(journal.holder, producer, epoch, started, sealed=journal.sealed)
        except Fenced as error:
            raise Fenced(str(error), committed=self.committed) from error

    async def claim(self, producer: bytes, epoch: int, started: Started | None = None) -> None:
        holder = self.claimed_by(producer, epoch, started)
        known, empty = holder == self.journal.holder, self.journal.records <= 1
        line = b"" if known else journals.holder_line(holder.epoch, producer, now())
        if empty:  # an empty stream needs no sync: its first commit makes this line durable as well
            self.journal.records += 1
            self._commit_now(line, _nothing)
        else:
            # Commit even without a line: the bytes that recovery found may be in the page cache alone.
            await self._record(line)
        self.journal.holder = holder

    # --- appending

    async def append(self, offset: int, data: Buffer, digest: int | None = None) -> int:
        """Write the new part of *data* to the log's file, at *offset*; the next commit makes it durable."""
        self._check()
        if offset > self._written:
            raise Hole(f"{self.stream} ends at offset {self._written}, not {offset}", committed=self.committed)
        view = new = memoryview(data)[self._written - offset :]
        at = self._written
        try:
            while view:
                done = os.pwrite(self._data_fd, view, at)
                at += done
                view = view[done:]
        except OSError as error:
            raise meaning(error, f"{self.stream} could not be written", self.committed) from error
        if new:
            self._written_digest = extend(self._written_digest, new) if digest is None else digest
        self._written, self._dirty = at, True
        if not self._disk:
            self._commit_all()
        return self.committed

    async def mark(self, mark: Mark) -> None:
        self._check()
        if mark.offset != self._written:
            raise Hole(f"{self.stream} ends at offset {self._written}, not {mark.offset}", committed=self.committed)
        self._new_marks.append(mark if self._dates is not None and mark.at else changed(mark, at=now()))

    def date(self, info: StreamInfo, history: Sequence[tuple[int, int]]) -> None:
        self._dates = info, history
        if info.begun and not (self.behind or self.committed or self.journal.marks):
            self.journal.records, self.journal.begun = self.journal.records + 1, info.begun
            self._commit_now(journals.stream_line(self.stream, info.begun), _nothing)  # the later line counts

    def _time(self, length: int, *, seals: bool = False) -> int:
        """The time for the record of *length*, or of a seal: that of the log that is copied, or now."""
        info, history = self._dates or (None, ())
        if info is None or length > info.committed:
            return now()
        at = next((at for at, grown in history if grown >= length), info.grown)
        return (info.ended if seals else at) or now()

    async def sync(self) -> int:
        self._check()
        if not self._disk:
            self._commit_all()
            return self.committed
        length, marks = self._written, len(self.journal.marks) + len(self._new_marks)
        while self.committed < length or len(self.journal.marks) < marks:
            if self._committing is None:  # later appends go into the next commit
                await self._commit(*self._batch()[:2])
            else:
                await asyncio.shield(self._committing)
        return self.committed

    def _commit_all(self) -> None:
        """Commit all appends and marks to the page cache."""
        while self.behind:
            self._commit_now(*self._batch()[:2])

    async def seal(self, receipt: Receipt) -> None:
        while True:
            while self._committing is not None:
                await asyncio.shield(self._committing)
            self._check()  # a newer producer may have come meanwhile
            lines, done, whole = self._batch() if self.behind else (b"", _nothing, True)
            if whole:
                break
            await self._commit(lines, done)
        self._demand_files()
        at = self._time(self._written, seals=True)
        lines += journals.seal_line(receipt.length, receipt.digest, receipt.redacted, at)
        await self._commit(lines, partial(self._sealed, done, receipt, at), seals=True)
        self._home.changed(self.stream)

    def _demand_files(self) -> None:
        """Raises Unavailable if another program has removed or truncated a file of the stream: the next appender
        recovers the rest.
        """
        files = (self._data_fd, self._name, self._written), (self._journal_fd, self._journal_name, self._journal_size)
        for fd, name, size in files:
            status = os.fstat(fd)
            if status.st_nlink and status.st_size >= size:
                continue
            path = os.path.join(os.path.dirname(self.path), name)
            what = f"ends at offset {status.st_size}, but had {size:,} bytes" if status.st_nlink else "is gone"
            raise Unavailable(
                f"{path} {what}: another program changed it, and the stream is not sealed", committed=self.committed
            )

    def _sealed(self, done: Callable[[], None], receipt: Receipt, at: int) -> None:
        done()
        self.journal.records += 1
        self.journal.sealed, self.journal.redacted, self.journal.ended = True, receipt.redacted, at

    async def close(self) -> None:
        try:
            if self._gone is None:
                await self.sync()
        finally:
            self._gone = self._gone or Fenced(TAKEN_OVER)
            while self._committing is not None:
                with contextlib.suppress(StoreError):
                    await asyncio.shield(self._committing)
            self._let_go()

    def _let_go(self) -> None:
        for fd in (self._data_fd, self._journal_fd):
            if fd >= 0:
                os.close(fd)
        self._data_fd = self._journal_fd = -1
        self._home.closed(self)

    def _check(self) -> None:
        if self._gone is not None:
            raise type(self._gone)(str(self._gone), committed=self.committed)

    # --- committing

    def _batch(self) -> tuple[bytes, Callable[[], None], bool]:
        """The journal's next lines, a function to call once they are durable, and whether no marks are left."""
        written, digest, marks = self._written, self._written_digest, list[Mark]()
        if self._new_marks:
            sizes = accumulate(size_of(mark) for mark in self._new_marks[:_MARKS_A_COMMIT])
            marks = self._new_marks[: max(1, sum(size <= _MARK_BYTES_A_COMMIT for size in sizes))]
        if len(self._new_marks) > len(marks):  # bytes are committed after the marks in front of them
            left = self._new_marks[len(marks)]
            written, digest = left.offset, left.digest
        first, at = len(self.journal.marks), self._time(written)
        lines = b"".join([mark_line(first + n, mark) for n, mark in enumerate(marks)])
        if written > self.journal.committed:
            lines += journals.length_line(written, digest, first + len(marks), at)
        whole = len(marks) == len(self._new_marks)
        return lines, partial(self._committed, marks, written, digest, at), whole

    def _committed(self, marks: list[Mark], written: int, digest: int, at: int) -> None:
        journal = self.journal
        if marks:
            journal.records += len(marks)
            journal.marks += marks
            del self._new_marks[: len(marks)]
            journal.sealed = False
        if written > journal.committed:
            journal.records += 1
            journal.add_length(written, digest, at)
        self._home.changed(self.stream)

    async def _record(self, line: bytes) -> None:
        """Make one journal line durable, after the running commit."""
        while self._committing is not None:
            await asyncio.shield(self._committing)
        self.journal.records += 1
        await self._commit(line, _nothing)

    async def _commit(self, lines: bytes, done: Callable[[], None], *, seals: bool = False) -> None:
        self._check()
        if not self._disk:
            self._commit_now(lines, done)
            return
        self._committing = asyncio.create_task(self._write(lines, done, seals))
        # If the waiting caller is cancelled, nobody awaits the task; the next call raises the task's error (_gone).
        self._committing.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._committing)

    async def _write(self, lines: bytes, done: Callable[[], None], seals: bool) -> None:
        """Make *lines* and the bytes that they cover durable, then call *done*."""
        try:
            data, self._dirty = self._dirty, False  # appends from now on go into the next commit
            if seals:
                write = partial(self._write_behind, lines, data)
                await self._home.commit(self.stream, write, partial(self._sync, False))
            else:
                await self._home.commit(self.stream, partial(self._write_journal, lines), partial(self._sync, data))
        except (OSError, Unavailable) as error:
            self._broken(error)
        finally:
            self._committing = None
        self._journal_kept = self._journal_size
        done()

    def _commit_now(self, lines: bytes, done: Callable[[], None]) -> None:
        """Write *lines* in the event loop, then call *done*: a write to the page cache is not worth a thread."""
        try:
            self._write_journal(lines)
        except (OSError, Unavailable) as error:
            self._broken(error)
        self._journal_kept = self._journal_size
        done()

    def _broken(self, error: OSError | Unavailable) -> NoReturn:
        """End this appender after a failed commit, since the durable length is unknown; the next appender recovers."""
        with contextlib.suppress(OSError):
            # The next appender must not trust the lines of the failed commit: they may be in the page cache alone.
            os.ftruncate(self._journal_fd, self._journal_kept)
            self.footprint.add(journal_bytes=self._journal_kept - self._journal_size)
        what = f"{self.stream} could not be committed"
        if isinstance(error, Unavailable):
            self._gone = Unavailable(f"{what}: {error}", committed=self.committed)
        else:
            self._gone = meaning(error, what, self.committed)
        self._let_go()
        raise self._gone from error

    def _write_journal(self, lines: bytes) -> None:
        if self.journal.records > self._compact_at:
            with self._home.layout.directory(self.stream) as directory:
                self._compact(directory)
        done = 0
        while done < len(lines):
            done += os.pwrite(self._journal_fd, lines[done:], self._journal_size + done)
        self._journal_size += done
        self.footprint.add(journal_bytes=done)

    def _write_behind(self, lines: bytes, data: bool) -> None:
        """Write a seal's *lines* after syncing the bytes, since a listing trusts a sealed stream without a check."""
        if data:
            os.fdatasync(self._data_fd)
        self._write_journal(lines)

    def _sync(self, data: bool) -> None:
        # The order of the two syncs does not matter: recovery compares the range with its digest.
        if data:
            os.fdatasync(self._data_fd)
        os.fdatasync(self._journal_fd)

    def _compact(self, directory: Directory) -> None:
        """Replace the journal by an equivalent one with fewer lines."""
        raw = self.journal.compacted(os.pread(self._journal_fd, self._journal_kept, 0))
        name = f"{self._journal_name}.new"
        fd = directory.open_new(name)
        try:
            done = 0
            while done < len(raw):
                done += os.write(fd, raw[done:])
            if self._disk:
                os.fdatasync(fd)
            directory.rename(name, self._journal_name)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                directory.remove(name)
            raise
        os.close(self._journal_fd)
        self.footprint.add(journal_bytes=len(raw) - self._journal_size)
        self._journal_fd, self._journal_size, self._journal_kept = fd, len(raw), len(raw)
        self._compact_at = COMPACT_AFTER + 2 * self.journal.records  # a journal that stays long is compacted less often
        if self._disk:
            directory.sync()


def _nothing() -> None:
    """Do nothing once the lines are durable."""
