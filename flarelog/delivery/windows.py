"""How much may be on its way to a receiver: one budget, which those who send share by need.

A call has one window for all its streams, so that a thousand logs of a site have as much as one. Where its producer
knows nothing of that, each of its streams has one. Who sends much shares the budget with those alone who do as well; of
the others, each may begin as if all that are open sent.
"""

from __future__ import annotations

from collections import Counter

BUSY = 256 << 10  # bytes taken since the last look, which make a window one of those that much is sent in
ANSWERED_BY = 8  # part of a window that may be taken and not answered


class Window:
    """Of a call, or of one stream of it."""

    __slots__ = ("busy", "taken", "told", "unanswered")

    def __init__(self) -> None:
        self.busy = True  # as far as is known
        self.taken = 0  # bytes, since the last look
        self.unanswered = 0  # bytes that were taken, and that no answer has told of
        self.told = 0  # bytes: what it was said to be by the latest answer

    @property
    def fills(self) -> bool:
        """Whether an answer must not wait."""
        return self.unanswered >= self.told // ANSWERED_BY


class Windows:
    """All of a receiver."""

    def __init__(self) -> None:
        self._streams: Counter[Window] = Counter()  # that are open, in each
        self._busy = 0  # windows

    def __len__(self) -> int:
        return len(self._streams)

    def enters(self, window: Window) -> None:
        """A stream of *window* is open from now on."""
        if window not in self._streams:
            self._busy += window.busy
        self._streams[window] += 1

    def leaves(self, window: Window) -> None:
        """One of its streams no longer is."""
        self._streams[window] -= 1
        if not self._streams[window]:
            del self._streams[window]
            self._busy -= window.busy

    def took(self, window: Window, size: int) -> None:
        """*size* bytes more came in *window*, of which a stream is open."""
        window.taken += size
        window.unanswered += size
        if window.taken >= BUSY and not window.busy:
            window.busy = True
            self._busy += 1

    def look(self) -> None:
        """See in which of them much was sent since the last look."""
        for window in self._streams:
            window.busy = window.taken >= BUSY
            window.taken = 0
        self._busy = sum(window.busy for window in self._streams)

    def sharing(self, window: Window) -> int:
        """With how many, itself included, *window* shares what there is."""
        return self._busy if window.busy else len(self._streams)
