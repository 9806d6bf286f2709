"""What is written down beside the files of a spool, for those who read them: which bytes of an output they are.

A spool is a row of files, its segments: ``NAME`` is the newest, ``NAME.00000007`` are older. ``.NAME.spool`` has a line
of JSON for each, which is there before the segment is: the command's *token*, the inode, and *base*, the place in the
command's output at which the segment begins. So whoever read the segment before knows how many bytes are missing. One
more line says which process the command is, and a last one how it ended, once all that it said is spooled. Where the
spool let the last segment of an earlier command go, a line says how long that one's output was.

A generation's notes carry the same as ``spool:TOKEN:BASE``: the receiver's record tells it to the next sidecar.

``.NAME.lead`` has the last bytes of the segments that the spool let go: what is masked in the next one depends on them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

from flarelog.exit_marks import Exit
from flarelog.extents import Spooled, spooled
from flarelog.values import frozen

LEAD = 160 << 10  # bytes before a segment that are kept
_MOST = 1 << 20  # bytes of such a file that are read for its segments
_MOST_LINES = 64 << 20  # the same for what it says once a command: there may be very many segments behind it
_LINE = 1 << 10  # bytes
_SEGMENT = re.compile(r"(.+)\.\d{8}")


@frozen
class Segment:
    """One file of a spool."""

    token: str  # of the command whose output it is
    number: int
    base: int  # bytes of the output before it
    inode: int

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @property
    def note(self) -> str:
        return f"spool:{self.token}:{self.base}"


def beside(path: str) -> str:
    """Where it is written down for the segment at *path*."""
    directory, name = os.path.split(path)
    older = _SEGMENT.fullmatch(name)
    return os.path.join(directory, f".{older[1] if older else name}.spool")


def is_newest(path: str) -> bool:
    """Whether the segment at *path* is the newest, which has the name of the log."""
    return _SEGMENT.fullmatch(os.path.basename(path)) is None


def log_of(root: str, path: str) -> str:
    """The log that the file at *path*, below *root*, is a segment of; *path* where it is none, or the newest."""
    older = _SEGMENT.fullmatch(path) if path[-9:-8] == "." else None  # this is asked of every file
    return older[1] if older and os.path.lexists(beside(os.path.join(root, path))) else path


def segments(path: str) -> list[Segment]:
    """What the file at *path* says of segments, the oldest first; nothing where it cannot be read."""
    found = []
    for said in _lines(path):
        try:
            one = Segment(str(said["token"]), int(said["number"]), int(said["base"]), int(said["inode"]))
        except (ValueError, TypeError, KeyError):
            continue  # half of a line, or of something else
        if one.base >= 0 and spooled(one.note) == Spooled(one.token, one.base):
            found.append(one)
    return found


@frozen
class Command:
    """A command whose output is, or was, in a spool."""

    token: str
    length: int = -1  # bytes that it had said, where the last segment of them is gone; -1: it is there


def dropped_line(last: Segment, length: int) -> bytes:
    """What is written for ``commands`` to read: *last*, with which the command's *length* bytes ended, was let go."""
    return json.dumps({"dropped": last.token, "last": last.number, "length": length}).encode() + b"\n"


def commands(path: str) -> list[Command]:
    """The commands that the file at *path* tells of, the earliest first."""
    numbers, lengths = {one.token: one.number for one in segments(path)}, dict[str, int]()
    for said in _lines(path, b'"dropped"'):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            token, number, length = str(said["dropped"]), int(said["last"]), int(said["length"])
            numbers[token], lengths[token] = number, length
    return [Command(token, lengths.get(token, -1)) for token in sorted(numbers, key=numbers.__getitem__)]


def log_path(record: str) -> str:
    """The path of the log of which *record* tells."""
    directory, name = os.path.split(record)
    return os.path.join(directory, name[1:].removesuffix(".spool"))


@contextlib.contextmanager
def opened(record: str, segment: Segment) -> Iterator[int]:
    """A descriptor of the file of *segment*. Raises OSError, also where it is gone."""
    newest = log_path(record)
    # The last one of a command gets the next number when another command begins.
    for path in (f"{newest}.{segment.number:08d}", f"{newest}.{segment.number + 1:08d}", newest):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            continue
        try:
            if os.fstat(fd).st_ino == segment.inode:
                yield fd
                return
        finally:
            os.close(fd)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), newest)


def lead_path(record: str) -> str:
    return f"{record.removesuffix('.spool')}.lead"


def lead_line(token: str, end: int) -> bytes:
    """What stands before the bytes in such a file: they are those before *end* of the command's output."""
    return json.dumps({"lead": token, "end": end}).encode() + b"\n"


def lead(record: str, token: str, end: int) -> bytes:
    """The last bytes before *end* of the output of the command *token*, as they are kept; none where they are not."""
    begin, data = kept(record, token)
    return data if begin + len(data) == end else b""


def kept(record: str, token: str) -> tuple[int, bytes]:
    """What is kept of the parts of the command *token* that were let go: (where in its output that begins, bytes)."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        fd = os.open(lead_path(record), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            said = json.loads(file.readline(_LINE))
            if said["lead"] == token:
                data = file.read(LEAD)
                return int(said["end"]) - len(data), data
    return 0, b""


def command_line(token: str, pid: int, started: int) -> bytes:
    """What is written for ``command`` to read: *started* is when, in clock ticks since the machine was booted."""
    return json.dumps({"command": token, "pid": pid, "started": started}).encode() + b"\n"


def command(path: str, note: str) -> tuple[int, int] | None:
    """(pid, when it was started) of the command whose output is the generation with *note*, as the file at *path* says;
    None where it does not.
    """
    of = spooled(note)
    for said in reversed(_lines(path, b'"command"')):
        if of is not None and isinstance(said, dict) and said.get("command") == of.token:
            pid, started = said.get("pid"), said.get("started")
            return (pid, started) if isinstance(pid, int) and isinstance(started, int) else None
    return None


def ending(path: str, token: str) -> Exit | None:
    """How the command *token* ended, as the file at *path* says; None while it does not."""
    for said in _lines(path, b'"exit"'):
        if isinstance(said, dict) and said.get("exit") == token:
            try:
                return Exit(**{**said["how"], "offset": 0, "digest": 0, "process": token})
            except (TypeError, KeyError):
                continue
    return None


def ending_line(how: Exit) -> bytes:
    """What is written for ``ending`` to read."""
    said = {each.name: getattr(how, each.name) for each in fields(how) if each.name not in ("at", "clock")}
    return json.dumps({"exit": how.process, "how": said}).encode() + b"\n"


def _lines(path: str, word: bytes = b"") -> list[Any]:
    """What the lines of the file at *path* say in which *word* stands; the last ones, where none is given."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        size = os.fstat(fd).st_size
        most = _MOST_LINES if word else _MOST
        text = os.pread(fd, most, max(0, size - most))
    except OSError:
        return []
    finally:
        os.close(fd)
    found = []
    for line in text.split(b"\n") if word in text else ():
        if word not in line:
            continue
        with contextlib.suppress(ValueError, RecursionError):  # half of a line, or of something else
            found.append(json.loads(line))
    return found


def note(path: str, inode: int) -> str:
    """The word for a generation's notes, of the file at *path*; empty where it is no segment."""
    return next((one.note for one in reversed(segments(beside(path))) if one.inode == inode), "")
