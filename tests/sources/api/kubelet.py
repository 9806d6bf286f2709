"""A model of what the API gives of one container, with the faults of a real kubelet (cri-client: pkg/logs/logs.go).

A read sees the file that has the name, from its beginning. A follow goes on with the next file at once when the log is
rotated, and leaves out what it has not read of the one before; it ends at the first end of a file after the container
ended. sinceTime is cut to whole seconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from flarelog.errors import CannotConnect
from flarelog.kubernetes.attempts import Attempt
from flarelog.kubernetes.podlogs import Gone, Log, Unreadable
from flarelog.sources.api.join import moment

OF = Log("default", "pod", "uid", "main")
BEGIN = 1_795_000_000_000_000_000  # ns since 1970
SECOND = 1_000_000_000


def stamp(ns: int) -> bytes:
    when = datetime.fromtimestamp(ns // SECOND, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{ns % SECOND:09d}Z ".encode()


@dataclass
class Running:
    """One attempt: its files' bytes, the oldest first, and all that was ever written."""

    number: int
    started: int
    files: list[bytes] = field(default_factory=lambda: [b""])
    written: list[bytes] = field(default_factory=list)
    ended: bool = False
    finished: int = 0
    removed: bool = False  # by the runtime

    @property
    def attempt(self) -> str:
        return f"containerd://{self.number}"


class Kubelet:
    """*between* is called before each answer, and before each piece of one."""

    def __init__(self, between: Callable[[], None] = lambda: None, piece: int = 1000) -> None:
        self.between, self.piece = between, piece
        self.clock = BEGIN
        self.attempts = [Running(0, BEGIN)]
        self.away = self.gone = False
        self.forgets = False  # the API tells of the latest attempt alone, as while that waits to be restarted
        self.unheard = 0  # attempts that the API server has not heard of yet, though the kubelet gives their logs
        self.rounds = 0  # of a follow that found nothing before its connection is lost
        self.asked: list[str] = []

    @property
    def now(self) -> Running:
        return self.attempts[-1]

    # --- what happens

    def write(self, text: bytes = b"", *, later: int = SECOND // 100) -> None:
        """Write a line, *later* ns after the one before."""
        self.clock += later
        line = stamp(self.clock) + (text or b"line %d" % sum(len(one.written) for one in self.attempts)) + b"\n"
        self.now.files[-1] += line
        self.now.written.append(line)

    def rotate(self) -> None:
        """A kubelet that checks every few seconds does not rotate a file that has just begun."""
        if not self.now.ended and self.clock - self.now.started > 3 * SECOND:
            self.now.files.append(b"")

    def end(self) -> None:
        self.now.ended, self.now.finished = True, self.now.finished or self.clock

    def restart(self) -> None:
        self.end()
        self.clock += SECOND // 10
        self.attempts.append(Running(self.now.number + 1, self.clock))

    # --- what the API answers

    async def attempt(self, of: Log) -> Attempt | None:
        self.between()
        self._check()
        if self.gone:
            raise Gone("the pod is gone")
        heard = self.attempts[: len(self.attempts) - self.unheard]
        one, before = heard[-1], [] if self.forgets else heard[-2:-1]
        times = [self._at(one.started), *(self._at(each.started) for each in before)]
        ends = [self._at(each.finished) if each.finished else "" for each in (one, *before)]
        (started, earlier), (finished, last) = ([*each, ""][:2] for each in (times, ends))
        return Attempt(one.number, one.attempt, one.ended, started, earlier, finished, last)

    async def read(
        self, of: Log, *, follow: bool = False, previous: bool = False, since: str = "", tail: int = 0
    ) -> AsyncIterator[bytes]:
        self.asked.append(since)
        self.between()
        self._check()
        if self.gone or (previous and len(self.attempts) < 2):
            raise Unreadable("not found")
        one = self.attempts[-2] if previous else self.now
        if one.removed:
            yield b"unable to retrieve container logs for containerd://1"
            return
        if tail:
            lines = one.files[-1].splitlines(keepends=True)
            yield b"".join(lines[-tail:])
            return
        after = int(datetime.fromisoformat(since).timestamp()) * SECOND if since else 0
        number, at, silent = len(one.files) - 1, 0, 0
        while True:
            data = one.files[number][at : at + self.piece]
            if data:
                at, silent = at + len(data), 0
                if kept := self._after(one.files[number], at - len(data), data, after):
                    yield kept
            elif not follow or one.ended:
                return
            else:
                silent += 1
                if silent > self.rounds:
                    return
            self.between()
            self._check()
            if follow and number < len(one.files) - 1 and one.files[number][at - 1 : at] in (b"", b"\n"):
                number, at = len(one.files) - 1, 0

    def _after(self, file: bytes, begin: int, data: bytes, after: int) -> bytes:
        """The bytes of *data*, which begins at *begin* of *file*, that belong to lines not older than *after*."""
        found = b""
        at = begin
        while at < begin + len(data):
            start, end = file.rfind(b"\n", 0, at) + 1, file.find(b"\n", at) + 1 or len(file)
            until = min(end, begin + len(data))
            if (moment(file[start:end]) or 0) >= after:
                found += file[at:until]
            at = until
        return found

    def _check(self) -> None:
        if self.away:
            raise CannotConnect("no answer")

    def _at(self, ns: int) -> str:
        return datetime.fromtimestamp(ns // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
