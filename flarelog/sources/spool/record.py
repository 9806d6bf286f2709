"""The record beside the files of a spool, which tells a reader which bytes of an output each file holds.

A spool is a row of files, its segments: ``NAME`` is the newest, ``NAME.00000007`` are older. ``.NAME.spool`` has a line
of JSON for each segment, written before the segment exists: the command's *token*, the inode, and *base*, the offset in
the command's output at which the segment begins. A reader of the segment before can tell how many bytes are missing.
One more line names the command's process, and a last one tells how the command ended, once all its output is spooled. A
further line tells the length of an earlier command's output, once the spool has dropped its last segment.

A generation's notes carry the same as ``spool:TOKEN:BASE``: the receiver's record tells it to the next sidecar.

``.NAME.lead`` has the last bytes of the dropped segments: the masking of the next segment depends on them.

A segment of the mode 0400 is stored at every receiver. The sidecar of ``flarelog run`` marks it so, because a full disk
cannot prevent that, and the spooler removes it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from dataclasses import asdict, fields
from typing import Any

from flarelog.exit_marks import Exit
from flarelog.extents import Spooled, spooled
from flarelog.values import frozen

LEAD = 160 << 10  # bytes before a segment that are kept
_MOST = 1 << 20  # bytes at the end of a record that are read for its segments
_MOST_LINES = 64 << 20  # bytes read for the lines written once a command: very many segments may follow them
_LINE = 1 << 10  # bytes
_SEGMENT = re.compile(r"(.+)\.\d{8}")


@frozen
class Segment:
    """One file of a spool."""

    token: str  # of the command that wrote the output
    number: int
    base: int  # bytes of the output before the segment
    inode: int

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @property
    def note(self) -> str:
        return f"spool:{self.token}:{self.base}"


def beside(path: str) -> str:
    """The path of the record for the segment at *path*."""
    directory, name = os.path.split(path)
    older = _SEGMENT.fullmatch(name)
    return os.path.join(directory, f".{older[1] if older else name}.spool")


def log_of(root: str, path: str) -> str:
    """The log that the file at *path*, below *root*, is a segment of; *path* where it is none, or the newest."""
    older = _SEGMENT.fullmatch(path) if path[-9:-8] == "." else None  # cheap, because every file is asked
    return older[1] if older and os.path.lexists(beside(os.path.join(root, path))) else path


def segments(path: str, most: int = _MOST) -> list[Segment]:
    """The segments in the last *most* bytes of the record at *path*, the oldest first; empty if it cannot be read."""
    found = []
    for said in _lines(path, most=most):
        with contextlib.suppress(ValueError, TypeError, KeyError):  # a torn line, or another kind of line
            one = Segment(str(said["token"]), int(said["number"]), int(said["base"]), int(said["inode"]))
            if one.base >= 0 and spooled(one.note) == Spooled(one.token, one.base):
                found.append(one)
    return found


@frozen
class Command:
    """A command whose output is, or was, in a spool."""

    token: str
    length: int = -1  # bytes of the output, where the last segment was dropped; -1: that segment is still there


def dropped_line(last: Segment, length: int) -> bytes:
    """The line that ``commands`` reads: *last*, the last segment of a command's *length* bytes, was dropped."""
    return json.dumps({"dropped": last.token, "last": last.number, "length": length}).encode() + b"\n"


def commands(path: str) -> list[Command]:
    """The commands in the record at *path*, the earliest first."""
    numbers, lengths = {one.token: one.number for one in segments(path)}, dict[str, int]()
    for said in _lines(path, b'"dropped"'):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            token, number, length = str(said["dropped"]), int(said["last"]), int(said["length"])
            numbers[token], lengths[token] = number, length
    return [Command(token, lengths.get(token, -1)) for token in sorted(numbers, key=numbers.__getitem__)]


def log_path(record: str) -> str:
    """The path of the log that *record* describes."""
    directory, name = os.path.split(record)
    return os.path.join(directory, name[1:].removesuffix(".spool"))


def opened(record: str, segment: Segment) -> int:
    """The descriptor of the file of *segment*, for the caller to close. Raises OSError, also where the file is gone."""
    newest = log_path(record)
    # The newest first, because it may be renamed meanwhile: to its number, or for the last segment of a command to the
    # next one.
    for path in (newest, f"{newest}.{segment.number:08d}", f"{newest}.{segment.number + 1:08d}"):
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            if os.fstat(fd).st_ino == segment.inode:
                return fd
            os.close(fd)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), newest)


class Stored:
    """Marks the segments that each of *receivers* receivers has stored, so that the spooler removes them."""

    def __init__(self, receivers: int) -> None:
        self._receivers = receivers
        self._by_segment: dict[tuple[int, int], set[int]] = {}  # by device and inode: the readers that are done with it

    def mark(self, reader: int, fd: int) -> None:
        """The receiver that *reader* reads for has stored the segment open as *fd*."""
        status = os.fstat(fd)
        key = status.st_dev, status.st_ino
        done = self._by_segment.setdefault(key, set())
        done.add(reader)
        if len(done) < self._receivers:
            return
        del self._by_segment[key]
        with contextlib.suppress(OSError):  # another user's spool, or a file system without modes: it is kept
            os.fchmod(fd, 0o400)


def lead_path(record: str) -> str:
    return f"{record.removesuffix('.spool')}.lead"


def lead_line(token: str, end: int) -> bytes:
    """The first line of a lead file: its bytes are those before *end* of the command's output."""
    return json.dumps({"lead": token, "end": end}).encode() + b"\n"


def kept(record: str, token: str) -> tuple[int, bytes]:
    """The kept bytes of the dropped segments of the command *token*: (their offset in its output, bytes)."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        fd = os.open(lead_path(record), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            said = json.loads(file.readline(_LINE))
            if said["lead"] == token:
                data = file.read(LEAD)
                return int(said["end"]) - len(data), data
    return 0, b""


def command_line(token: str, pid: int, started: int) -> bytes:
    """The line that ``command`` reads; *started*: clock ticks from the machine's boot to the command's start."""
    return json.dumps({"command": token, "pid": pid, "started": started}).encode() + b"\n"


def command(path: str, token: str) -> tuple[int, int] | None:
    """(pid, start time) of the command *token*; None where the record at *path* does not tell."""
    for said in reversed(_lines(path, b'"command"')):
        if said.get("command") == token:
            pid, started = said.get("pid"), said.get("started")
            return (pid, started) if isinstance(pid, int) and isinstance(started, int) else None
    return None


def ending(path: str, token: str = "") -> Exit | None:
    """How the command *token* ended, or whichever command the record at *path* is about; None while it does not say."""
    for said in _lines(path, b'"exit"'):
        with contextlib.suppress(TypeError, KeyError):
            if token in ("", said["exit"]):
                return Exit(**{**said["how"], "offset": 0, "digest": 0, "process": str(said["exit"])})
    return None


def ending_line(how: Exit) -> bytes:
    """The line that ``ending`` reads."""
    said = {each.name: getattr(how, each.name) for each in fields(how) if each.name not in ("at", "clock")}
    return json.dumps({"exit": how.process, "how": said}).encode() + b"\n"


def _lines(path: str, word: bytes = b"", most: int = _MOST) -> list[dict[str, Any]]:
    """The parsed lines with *word* of the record at *path*; without a word, of its last *most* bytes."""
    text, most, found = b"", _MOST_LINES if word else most, []
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            text = os.pread(fd, most, max(0, os.fstat(fd).st_size - most))
        finally:
            os.close(fd)
    for line in text.split(b"\n") if word in text else ():
        if word not in line:
            continue
        with contextlib.suppress(ValueError, RecursionError):  # a torn line, or something else
            found.append(json.loads(line))
    return [said for said in found if isinstance(said, dict)]


def segment_at(path: str, inode: int) -> Segment | None:
    """The segment that is the file at *path*, with that *inode*; None where it is none."""
    return next((one for one in reversed(segments(beside(path))) if one.inode == inode), None)
