"""The receive windows: one budget of bytes in flight, shared among the senders by need.

A call has one window for all its streams, so that a thousand logs of a site get as much as one. Busy windows divide the
budget among themselves; an idle window gets the share that it would have if all open windows were busy.
"""

from __future__ import annotations

from collections import Counter

BUSY = 256 << 10  # bytes received since the last look that make a window busy
ANSWERED_BY = 8  # one part in so many of a window may be received and unanswered


class Window:
    """The receive window of a call."""

    __slots__ = ("busy", "taken", "told", "unanswered")

    def __init__(self) -> None:
        self.busy = True  # until a look shows otherwise
        self.taken = 0  # bytes received since the last look
        self.unanswered = 0  # received bytes that no reply covers yet
        self.told = 0  # its size in bytes, as the latest reply told it

    @property
    def fills(self) -> bool:
        """Whether the window fills, so that a reply must not wait."""
        return self.unanswered >= self.told // ANSWERED_BY


class Windows:
    """All windows of a receiver."""

    def __init__(self) -> None:
        self._streams: Counter[Window] = Counter()  # open streams in each window
        self._busy = 0  # busy windows

    def __len__(self) -> int:
        return len(self._streams)

    def enters(self, window: Window) -> None:
        """Count one more open stream in *window*."""
        if window not in self._streams:
            self._busy += window.busy
        self._streams[window] += 1

    def leaves(self, window: Window) -> None:
        """Count one open stream less in *window*."""
        self._streams[window] -= 1
        if not self._streams[window]:
            del self._streams[window]
            self._busy -= window.busy

    def took(self, window: Window, size: int) -> None:
        """Count *size* more bytes in *window*, which has an open stream."""
        window.taken += size
        window.unanswered += size
        if window.taken >= BUSY and not window.busy:
            window.busy = True
            self._busy += 1

    def look(self) -> None:
        """Decide which windows are busy, by the bytes since the last look."""
        for window in self._streams:
            window.busy = window.taken >= BUSY
            window.taken = 0
        self._busy = sum(window.busy for window in self._streams)

    def sharing(self, window: Window) -> int:
        """The number of windows, itself included, with which *window* shares the budget."""
        return self._busy if window.busy else len(self._streams)
