"""The files of one log's spool, from the side of the writer.

The writer appends to ``NAME``. A full segment is closed and renamed to ``NAME.00000007``. A segment that the sidecar
has marked as stored is removed once it is copied, and the oldest segments are dropped when all of them exceed the
granted bytes. The last bytes of a dropped segment are kept, because the masking of the next one depends on them. The
kernel moves the bytes out of the pipe (splice): a killed spooler leaves unwritten bytes in the pipe.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time

from flarelog.exit_marks import Exit
from flarelog.replace import make_directory, replace_file
from flarelog.sources.process.shared import Patience, Shared
from flarelog.sources.spool.record import (
    LEAD,
    Segment,
    beside,
    command_line,
    dropped_line,
    ending_line,
    kept,
    lead_line,
    lead_path,
    segments,
)

SHARE = 8  # a segment is this fraction of the granted bytes, or of those that the disk has for the spool
LARGEST = 64 << 20  # bytes of a segment
SMALLEST = 4096
MOVED = 1 << 20  # bytes at once
COPIED = 1 << 16  # bytes at once, without splice
FREE = 1 << 20  # free bytes of a file system before a spool that was full is written again; less for small segments

_UNSPLICED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class Awaited(Exception):
    """Bytes would be missing in the copy if they were taken now, and the copier is about to read them."""


class Segments:
    """One log's spool; *path*: the newest segment; *most*: bytes of all segments."""

    def __init__(self, path: str, most: int, token: str, shared: Shared) -> None:
        self.path, self.most, self.token, self.shared = path, most, token, shared
        self.fd = -1
        self._size = 0
        self._room = max(SMALLEST, min(LARGEST, most // SHARE))
        self._copier = Patience(shared)
        self._null = -1
        self._splices = True
        self._known: dict[int, Segment] = {}  # by number
        self._lead = ("", -1, b"")  # the command, where the kept bytes end in its output, and those bytes

    def begin(self) -> None:
        """Begin the first segment of a command's output, after an earlier command's segments. Raises OSError."""
        make_directory(os.path.dirname(self.path), 0o700)
        self._known = {one.number: one for one in segments(beside(self.path))}
        self._measure()
        known = [*(number for number, _, _ in self._older()), *self._known]
        self._next(max(known, default=-1) + 2)  # the number in between goes to the existing newest segment
        self._trim()

    def adopt(self) -> None:
        """Continue where a spooler was killed. Raises OSError."""
        self._known = {one.number: one for one in segments(beside(self.path))}
        self._measure()
        mine = [one for one in self._known.values() if one.token == self.token]
        last = mine[-1] if mine else None
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            if last is not None and os.fstat(fd).st_ino == last.inode:
                self.fd, self._size = fd, os.lseek(fd, 0, os.SEEK_END)
                self.shared.segment = last.number
                # The spooler may have been killed between a splice and its count.
                self.shared.taken = max(self.shared.taken, last.base + self._size)
                return
            os.close(fd)
        self._next((last.number if last is not None else self.shared.segment) + 1)

    def take(self, pipe: int) -> int:
        """Move the bytes of *pipe* into the spool; returns how many, 0 at its end.

        Bytes that cannot be spooled go to the copy alone. Raises BlockingIOError when the pipe is empty, and Awaited.
        """
        if self.shared.trouble or (self._size >= self._room and not self._turn()):
            return self._pass_over(pipe)
        if self._splices:
            try:
                count = os.splice(pipe, self.fd, min(self._room - self._size, MOVED))
            except BlockingIOError:
                raise
            except OSError as error:
                self._splices = error.errno not in _UNSPLICED
                if self._splices:
                    self._fail(error)
                    if self._free():
                        self.retry()
                return self.take(pipe)
            self._size += count
            self.shared.taken += count
            return count
        self._await_copy(COPIED)  # for bytes that cannot be written once they are read
        data = memoryview(_read(pipe, min(self._room - self._size, COPIED)))
        written = self._write(data)
        if written < len(data):
            self._skip(data[written:])
        return len(data)

    def _write(self, data: memoryview) -> int:
        """Write *data* where splice does not work, as for a terminal's output; returns how much of it was written."""
        written = 0
        while written < len(data):
            try:
                count = os.write(self.fd, data[written:])
            except OSError as error:
                self._fail(error)
                if not self._free():
                    break
                self.retry()
                if self.shared.trouble:
                    break
                continue
            written += count
            self._size += count
            self.shared.taken += count
        return written

    def _pass_over(self, pipe: int) -> int:
        if not self.shared.gone:
            self._await_copy(COPIED)
            data = _read(pipe, COPIED)
            self._skip(memoryview(data))
            return len(data)
        if self._null < 0:
            self._null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            count = os.splice(pipe, self._null, MOVED)
        except OSError as error:
            if error.errno not in _UNSPLICED:
                raise
            count = len(_read(pipe, MOVED))
        self.shared.taken += count
        self.shared.lost += count
        return count

    def _await_copy(self, count: int) -> None:
        """Raise Awaited while the copier is about to make room for *count* bytes that are not spooled."""
        full = not self.shared.gone and self.shared.room() < count
        if full and self._copier.waits(self.shared.taken, time.monotonic()):
            raise Awaited

    def _skip(self, data: memoryview) -> None:
        """Count *data* as read and not spooled, and give it to the copier."""
        self.shared.put(data)
        self.shared.lost += len(data)
        self.shared.taken += len(data)

    def runs(self, pid: int, started: int) -> None:
        """Record which process the command is. Raises OSError."""
        self._write_down(command_line(self.token, pid, started))

    def end(self, how: Exit) -> None:
        """Record how the command ended. Raises OSError."""
        self._write_down(ending_line(how))

    def discard(self) -> None:
        """Remove the empty spool that was begun, unless it follows an earlier command's output."""
        with contextlib.suppress(OSError):
            if not self._older() and not (os.path.lexists(self.path) and os.stat(self.path).st_size):
                for path in (self.path, beside(self.path), lead_path(beside(self.path))):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(path)

    def finish(self) -> None:
        """End the spool. An empty segment after skipped bytes tells how many they were."""
        if self.shared.trouble:
            for make_room in (self._free, self._drop_lead, self._drop_oldest):
                with contextlib.suppress(OSError):
                    make_room()
                    self._next(self.shared.segment + 1)
                    break
        self.close()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    # --- from one segment to the next

    def _fail(self, error: OSError) -> None:
        self.shared.trouble = error.errno or errno.EIO
        self.close()

    def retry(self) -> None:
        """Try to spool again, in a new segment, whose base tells how many bytes were skipped before it."""
        with contextlib.suppress(OSError, Awaited):
            self._make_room()
            if self._available() >= min(FREE, self._room):
                self._next(self.shared.segment + 1)
                self.shared.trouble = 0
                self._trim()

    def _turn(self) -> bool:
        """Begin the next segment, and drop the oldest; False on failure. Raises Awaited before it drops what the copier
        has not read.
        """
        try:
            self._make_room()
            self._next(self.shared.segment + 1)
            self._trim()
        except OSError as error:
            self._fail(error)
            return False
        return True

    def _make_room(self) -> None:
        """Remove what is stored. Raises OSError, and Awaited if the copier is about to read what must be dropped."""
        self._free()
        self._measure()
        end = max((self._end_of(each) for each in self._too_many(self._size)), default=0)
        if self._copier.waits(end, time.monotonic()):
            raise Awaited

    def _measure(self) -> None:
        """Set the size of a segment. Raises OSError."""
        disk = self._available() + self._size + sum(size for _, _, size in self._older())
        self._room = max(SMALLEST, min(LARGEST, self.most // SHARE, disk // SHARE))

    def _available(self) -> int:
        """Free bytes of the spool's file system. Raises OSError."""
        found = os.statvfs(os.path.dirname(self.path))
        return found.f_bavail * found.f_frsize

    def _next(self, number: int) -> None:
        self.close()
        directory, name = os.path.split(self.path)
        new = os.path.join(directory, f".{name}.next")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            segment = Segment(self.token, number, self.shared.taken, os.fstat(fd).st_ino)
            self._write_down(segment.line())
            with contextlib.suppress(FileNotFoundError):
                os.rename(self.path, f"{self.path}.{number - 1:08d}")
            os.rename(new, self.path)
        except OSError:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise
        self.fd, self._size, self.shared.segment, self._known[number] = fd, 0, number, segment

    def _write_down(self, said: bytes) -> None:
        fd = os.open(beside(self.path), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            line = b"\n" + said  # a torn line ends here
            if os.write(fd, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)

    def _older(self) -> list[tuple[int, str, int]]:
        """The numbers, paths and sizes of the renamed segments, the oldest first. Raises OSError."""
        directory, name = os.path.split(self.path)
        pattern = re.compile(re.escape(name) + r"\.(\d{8})")
        with os.scandir(directory) as entries:
            found = [(int(match[1]), one.path) for one in entries if (match := pattern.fullmatch(one.name))]
        return [(number, path, os.stat(path).st_size) for number, path in sorted(found)]

    def _free(self) -> bool:
        """Remove the oldest segments that are stored and copied; returns whether there were any. Raises OSError."""
        freed = False
        for each in self._older():
            if os.stat(each[1]).st_mode & 0o200 or not (self.shared.gone or self._end_of(each) <= self.shared.copied):
                break
            self._drop(*each)
            freed = True
        return freed

    def _trim(self) -> None:
        """Drop the oldest segments that exceed the granted bytes. Raises OSError."""
        for each in self._too_many():
            self._drop(*each)

    def _too_many(self, more: int = 0) -> list[tuple[int, str, int]]:
        """The oldest renamed segments that exceed the granted bytes, once there are *more* bytes."""
        older = self._older()
        kept = sum(size for _, _, size in older) + self._room + more
        found = []
        for each in older:
            if kept <= self.most:
                break
            found.append(each)
            kept -= each[2]
        return found

    def _end_of(self, older: tuple[int, str, int]) -> int:
        """The offset in this command's output of the end of a renamed segment; 0 for another command's."""
        one = self._segment(older[0], older[1])
        return one.base + older[2] if one is not None and one.token == self.token else 0

    def _drop(self, number: int, path: str, size: int) -> None:
        gone = self._segment(number, path)
        told = gone is None or (self._tell_gone(gone, size) & self._keep_lead(gone, path, size))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        if gone is not None:
            if not told:  # the disk was full
                self._tell_gone(gone, size)
                self._write_lead()
            del self._known[gone.number]

    def _segment(self, number: int, path: str) -> Segment | None:
        """The segment at *path*, which was renamed to *number*."""
        with contextlib.suppress(FileNotFoundError):
            inode = os.stat(path).st_ino
            for known in (number, number - 1):  # the last segment of a command got the next number
                if (one := self._known.get(known)) is not None and one.inode == inode:
                    return one
        return None

    def _drop_lead(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(lead_path(beside(self.path)))

    def _drop_oldest(self) -> None:
        for each in self._older()[:1]:
            self._drop(*each)

    def _tell_gone(self, gone: Segment, size: int) -> bool:
        """Record the drop of *gone*, of *size* bytes, unless a later segment of its command tells of it; False on
        failure.
        """
        following = self._known.get(gone.number + 1)
        if following is not None and following.token == gone.token:
            return True
        with contextlib.suppress(OSError):
            self._write_down(dropped_line(gone, gone.base + size))
            return True
        return False

    def _keep_lead(self, gone: Segment, path: str, size: int) -> bool:
        """Keep the last bytes up to the end of the segment *gone*; False on failure, after which more is masked."""
        token, end, before = self._lead
        if (token, end) != (gone.token, gone.base):
            begin, before = kept(beside(self.path), gone.token)
            before = before if begin + len(before) == gone.base else b""
        with contextlib.suppress(OSError):
            with open(path, "rb") as file:
                file.seek(max(0, size - LEAD))
                data = (before + file.read(LEAD))[-LEAD:]
            self._lead = gone.token, gone.base + size, data
            return self._write_lead()
        return False

    def _write_lead(self) -> bool:
        token, end, data = self._lead
        with contextlib.suppress(OSError):
            # Without a sync, because the command's output waits meanwhile.
            replace_file(lead_path(beside(self.path)), lead_line(token, end) + data, sync=False)
            return True
        return False


def _read(pipe: int, most: int) -> bytes:
    try:
        return os.read(pipe, most)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""  # no process has the terminal open any more
