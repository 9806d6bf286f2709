"""The copier: a process that copies one stream's spool to flarelog's own stdout or stderr.

The copier reads files, so a blocked copy blocks nothing else. It keeps the segment that it reads open. Bytes that a
full spool cannot take come through memory (``Shared.ring``). What an output on a full disk does not take is read again
later. Bytes that were dropped before the copier could write them are missing in the copy, and a sentence there says so.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time

from flarelog.sources.process.spooler import Stream
from flarelog.sources.spool.record import Segment, beside, opened, segments

PIECE = 1 << 16  # bytes at once
RECENT = 1 << 12  # bytes at the end of a spool's record that a copier reads first
FULL = (errno.ENOSPC, errno.EDQUOT)
AGAIN = 0.1  # seconds between two tries to write to a disk that is full


class Reading:
    def __init__(self, stream: Stream) -> None:
        self.stream, self.shared = stream, stream.shared
        self.path, self.token = stream.segments.path, stream.segments.token
        self.fd = -1
        self.here: Segment | None = None

    def piece(self) -> bytes:
        """The next bytes to copy; empty while there are none."""
        while True:
            shared = self.shared
            # Both before the file is read: it no longer grows once there is a newer one, or later bytes are in memory.
            in_memory, newest = shared.unspooled, shared.segment
            if self.here is not None and shared.copied >= self.here.base:
                data = os.pread(self.fd, PIECE, shared.copied - self.here.base)
                if data:
                    return data
            data = shared.get(shared.copied, PIECE)
            if data:
                return data
            if self.here is not None and shared.copied < self.here.base:
                self._skip_before(self.here)
            elif (self.here is not None and self.here.number == newest) or not self._following():
                if in_memory <= shared.copied:
                    return b""
                self.skip_to(in_memory)

    def _skip_before(self, one: Segment) -> None:
        """Continue with the first byte before *one* that is still in memory, else with *one*."""
        in_memory = self.shared.unspooled
        self.skip_to(in_memory if self.shared.copied < in_memory < one.base else one.base)

    def skip_to(self, offset: int) -> None:
        """Continue at *offset* of the output if it is ahead; the bytes before it are missing in the copy."""
        shared = self.shared
        if offset > shared.copied:
            shared.missing += offset - shared.copied
            shared.reason = shared.refused
            shared.copied = offset

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
                self._skip_before(one)
                return True
        return False

    def _open(self, one: Segment) -> int:
        with contextlib.suppress(OSError):
            return opened(beside(self.path), one)
        return -1


class Output:
    """The descriptor of the copy. While its disk is full, each write is tried again; once the command's output has
    ended, for at most *patience* seconds without a written byte.
    """

    def __init__(self, stream: Stream, patience: float) -> None:
        self._stream, self._patience = stream, patience
        self._until = 0.0  # when the wait for room ends; 0.0 while it has no end

    def write(self, data: bytes) -> int:
        """Write *data*; returns how many bytes were written: fewer if the disk is full or the reader is gone."""
        shared, written = self._stream.shared, 0
        while written < len(data):
            try:
                written += os.write(self._stream.out, memoryview(data)[written:])
                self._until, shared.refused = 0.0, 0
            except BlockingIOError:  # another process has made the descriptor non-blocking
                waiting = select.poll()
                waiting.register(self._stream.out, select.POLLOUT)
                waiting.poll(1000)
            except OSError as error:
                shared.refused = error.errno or errno.EIO
                if error.errno not in FULL or self._is_over():
                    shared.gone = 1
                else:
                    time.sleep(AGAIN)
                break
        return written

    def _is_over(self) -> bool:
        now = time.monotonic()
        if self._stream.shared.done and not self._until:
            self._until = now + self._patience
        return 0.0 < self._until <= now


def copy(stream: Stream, patience: float) -> None:
    """Copy the spool to the stream's descriptor, until the stream has ended or its reader is gone. *patience*: seconds
    after that end during which a full disk may get room.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    reading, output, shared = Reading(stream), Output(stream, patience), stream.shared
    within = False  # whether the copy ends within a line
    mark, marked = b"", 0  # the rest of a sentence about missing bytes, and how many are marked with it
    while not shared.gone:
        done = shared.done  # before the last look
        data = reading.piece()
        if done and not data:
            reading.skip_to(shared.taken)
        if not mark and (count := shared.missing - shared.marked):
            mark = f"{chr(10) if within else ''}[flarelog: {count} bytes are missing in this copy]\n".encode()
            marked = shared.missing
        if mark:
            if written := output.write(mark):
                shared.marked, mark, within = marked, mark[written:], False
            elif shared.marked != marked:
                mark = b""  # more bytes may be missing at the next try
        elif data:
            written = output.write(data)
            shared.copied += written
            within = data[written - 1] != ord("\n") if written else within
        elif done:
            return
        else:
            os.eventfd_read(stream.bell)
