"""What targets are made of: laws, choices that bytes make, and a stream's marks."""

from __future__ import annotations

from flarelog.model import MAX_OFFSET, Ended, Gap, Generation, Mark, StreamId

STREAM = StreamId("run-1", "site-1", "rank-0/stderr.log")
MARKS: list[Mark] = [
    Generation(0, 0, "log.txt", 12, "fh:0102", 1024, 0x89ABCDEF, "no-lease,hole:7"),
    Gap(9, 2, 4096, "truncated before they were read"),
    Ended(9, 2, "rotated"),
]


class Broken(AssertionError):
    """A law does not hold."""


def hold(law: bool, what: object) -> None:
    if not law:
        raise Broken(what)


class Steps:
    """Bytes as a sequence of choices; when they are used up, every choice is 0."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    def __bool__(self) -> bool:
        return self._at < len(self._raw)

    def one(self, choices: int = 256) -> int:
        self._at += 1
        return self._raw[self._at - 1] % choices if self._at <= len(self._raw) else 0

    def number(self, near: int) -> int:
        """One that is near, or one that is far off."""
        how = self.one()
        if how < 240:
            return max(0, near + how % 16 - 8)
        return (0, 1, 2**31, 2**32, 2**62, MAX_OFFSET, 2**63, 2**64 - 1)[how % 8]

    def small(self) -> int:
        """Mostly 0."""
        return self.one(4) if self.one(4) == 3 else 0

    def data(self) -> bytes:
        size = self.one(16)
        return bytes(self.one() for _ in range(size))
