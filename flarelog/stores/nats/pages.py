"""The marks of a stream, in pages: messages of a subject of their own, which count once a log's message names them.

A page names the page before it and the number of its first mark, and it grows: new marks are published with those that
the page had, until it is long. A lister so finds nearly all marks of a log in one message. A page that is missing
becomes gaps of unknown length, so that readers see the loss.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from flarelog.delivery.receiver import MAX_MARKS
from flarelog.errors import Unreadable
from flarelog.model import Gap, Mark
from flarelog.stores.lines import records
from flarelog.stores.marks import mark_line, mark_of
from flarelog.stores.nats.head import Head

LONG = 16 << 10  # bytes of a page that does not grow any more
LOST = "the store lost a mark here"


class Pages:
    """The open page of one stream. *sequence*: of the last page that counts; 0: there is none."""

    def __init__(self, sequence: int = 0, said: str = "", data: bytes = b"") -> None:
        self._before, self._first = placed(said) if said else (0, 0)
        self._sequence, self._lines = sequence, data

    def page(self, count: int, marks: Sequence[Mark]) -> tuple[str, bytes]:
        """The header and the bytes of the page with the new *marks* after the first *count*."""
        if len(self._lines) > LONG or not self._sequence:
            self._before, self._first, self._lines = self._sequence, count, b""
        lines = b"".join(mark_line(count + number, mark) for number, mark in enumerate(marks))
        return f"{self._before} {self._first}", self._lines + lines

    def stored(self, sequence: int, data: bytes) -> None:
        """Go on after the page *data*, which now counts."""
        self._sequence, self._lines = sequence, data


def placed(said: str) -> tuple[int, int]:
    """The sequence of the page before, and the number of the first mark, by a page's header. Raises Unreadable."""
    try:
        before, first = map(int, said.split(" "))
    except ValueError:
        raise Unreadable(f"a page of marks has the header {said!r:.40}") from None
    return before, first


async def marks_of(head: Head, read: Callable[[int], Awaitable[tuple[str, bytes] | None]]) -> tuple[list[Mark], Pages]:
    """The marks that count by *head*, and their open page. *read*: the header and the bytes of the page with a
    sequence; None: it is lost.
    """
    found: dict[int, Mark] = {}
    page, newest, first = head.page, Pages(), head.marks
    while page and first > 0:
        got = await read(page)
        if got is None:
            break
        if page == head.page:
            newest = Pages(page, *got)
        for number, mark in _numbered(got[1]):
            found.setdefault(number, mark)
        before, first = placed(got[0])
        page = before if before < page else 0
    known = min(head.marks, MAX_MARKS)
    lost = [number for number in range(known) if number not in found]
    for number in reversed(lost):  # at the place of the mark after it
        after = found.get(number + 1)
        offset, digest = (after.offset, after.digest) if after is not None else (head.end, head.digest)
        found[number] = Gap(offset, digest, 0, LOST)
    return [found[number] for number in range(known)], newest


def _numbered(data: bytes) -> Sequence[tuple[int, Mark]]:
    found = []
    for record in records(data):
        if record is None:
            continue
        try:
            found.append((int(record["i"]), mark_of(record)))
        except (KeyError, TypeError, ValueError):
            continue
    return found
