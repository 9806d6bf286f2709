"""The copier: a process that copies one stream's spool to flarelog's own stdout or stderr.

The copier reads files, so a blocked copy blocks nothing else. It keeps the segment that it reads open. Bytes that a
full spool cannot take come through memory (``unspooled``). Bytes that were dropped while the copy was blocked are
missing in it, and a sentence there says so.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time

from flarelog.sources.process import unspooled
from flarelog.sources.process.spooler import Stream
from flarelog.sources.spool import Segment, beside, segments

PIECE = 1 << 16  # bytes at once
RECENT = 1 << 12  # bytes at the end of a spool's record that a copier reads first
FULL = 0.1  # seconds between two tries to write to a disk that is full


class Reading:
    def __init__(self, stream: Stream) -> None:
        self.stream, self.shared = stream, stream.shared
        self.path, self.token = stream.segments.path, stream.segments.token
        self.fd = -1
        self.here: Segment | None = None
        self.skipped = 0

    def piece(self) -> bytes:
        """The next bytes to copy; empty while there are none."""
        while True:
            shared = self.shared
            # Both before the file is read: it no longer grows once there is a newer one, or later bytes are in memory.
            in_memory, newest = shared.unspooled, shared.segment
            if self.here is not None:
                data = os.pread(self.fd, PIECE, shared.copied - self.here.base)
                if data:
                    return data
            data = unspooled.get(shared, shared.copied, PIECE)
            if data:
                return data
            if (self.here is not None and self.here.number == newest) or not self._following():
                if in_memory <= shared.copied:
                    return b""
                self.skipped += in_memory - shared.copied
                shared.copied = in_memory

    def _following(self) -> bool:
        after = -1 if self.here is None else self.here.number
        known = segments(beside(self.path), RECENT)
        if all(one.number > after for one in known):
            known = segments(beside(self.path))
        for one in known:
            if one.token == self.token and one.number > after and (fd := self._open(one)) >= 0:
                if os.fstat(fd).st_size + one.base <= self.shared.copied and one.number < self.shared.segment:
                    os.close(fd)
                    continue
                if self.fd >= 0:
                    os.close(self.fd)
                self.fd, self.here = fd, one
                self.skipped += max(0, one.base - self.shared.copied)
                self.shared.copied = max(one.base, self.shared.copied)
                return True
        return False

    def _open(self, one: Segment) -> int:
        for path in (self.path, f"{self.path}.{one.number:08d}", self.path):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue
            if os.fstat(fd).st_ino == one.inode:
                return fd
            os.close(fd)
        return -1


def copy(stream: Stream) -> None:
    """Copy the spool to the stream's descriptor, until the stream has ended or its reader is gone."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    reading, shared = Reading(stream), stream.shared
    within = False  # whether the copy ends within a line
    while not shared.gone:
        done = shared.done  # before the last look
        data = reading.piece()
        if reading.skipped:
            told = f"{chr(10) if within else ''}[flarelog: {reading.skipped} bytes are missing in this copy]\n".encode()
            reading.skipped = 0
            within = _write(stream, told) > 0
        if data:
            unwritten = _write(stream, data)
            shared.copied += len(data)
            reading.skipped += unwritten
            if unwritten < len(data):
                within = data[len(data) - unwritten - 1] != ord("\n")
        elif done:
            return
        else:
            os.eventfd_read(stream.bell)


def _write(stream: Stream, data: bytes) -> int:
    """Write *data*; returns how many bytes could not be written, because the disk is full or the reader is gone."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(stream.out, view) :]
        except BlockingIOError:  # another process has made the descriptor non-blocking
            waiting = select.poll()
            waiting.register(stream.out, select.POLLOUT)
            waiting.poll(1000)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                time.sleep(FULL)
            else:
                stream.shared.gone = 1
            return len(view)
    return 0
