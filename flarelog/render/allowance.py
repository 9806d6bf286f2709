"""The budget for drawing a stream: units of work and bytes of output, both earned by the stream's own bytes.

Costs are counted, not timed: the same bytes cost the same on every machine, however they are cut into pieces. A unit is
about 0.4 microseconds of one core, and a byte earns ``EARNS`` units: a MiB takes less than two seconds, whatever it
holds. The bars of 16 workers, between which the cursor moves at each redraw, need more than three units a byte.
``BURST`` is the advance of a stream, and the most that it can save.
"""

from __future__ import annotations

BURST = 1 << 17  # units
EARNS = 4  # units a byte earns
DRAWN_AGAIN = 1 << 15  # units when drawing resumes; less than BURST, because the undrawn stretch had a cost too
SHOWN = 56  # bytes of output a byte earns; whole plain lines are not charged and add less than 8
MOST_SHOWN = 4 << 20  # bytes of output a stream can save

# Costs in units. Whole lines of plain text are free, because they are drawn in bulk.
TOKEN = 14  # a control sequence, with the text behind it
ROUGH = 8  # a colour in a line that has other control sequences
COLOUR = 5  # a colour in a line of text and colours alone
NEW = 14  # a style that is not cached
LINE = 22  # a line that has control sequences or colours, or begins in a colour
MOVE = 2  # a cursor move to another row
PAGE = 10  # a new page
TABBED = 6  # a tab over existing cells
_CELLS = 12  # cells touched for one unit
_BYTES = 24  # bytes of output for one unit


class Allowance:
    """The budget of one stream. ``work``, in units, is negative once it is overspent; output is never overspent."""

    __slots__ = ("_lost", "_said", "begun", "earned", "work")

    def __init__(self) -> None:
        self.work = BURST
        self.earned = 0  # bytes of input
        self.begun = 0  # ``earned`` at the start of the current line
        self._lost = 0  # units above the most that can be saved
        self._said = 0  # bytes of output that are spent or can no longer be saved

    @property
    def room(self) -> int:
        """Bytes of output left."""
        return SHOWN * self.earned - self._said

    @property
    def spent(self) -> int:
        """Units spent so far."""
        return BURST + EARNS * self.earned - self._lost - self.work

    def earn(self, size: int) -> None:
        """Credit *size* bytes of input."""
        self.work += EARNS * size
        self.earned += size

    def line(self, cost: int = 0) -> None:
        """Charge *cost* units for a line that ended, and drop whatever exceeds the most that can be saved."""
        self.work -= cost
        if self.work > BURST:
            self.have(BURST)
        self.begun = self.earned
        self._said = max(self._said, SHOWN * self.earned - MOST_SHOWN)

    def have(self, units: int) -> None:
        """Set the units left to *units*."""
        self._lost += self.work - units
        self.work = units

    def touch(self, cells: int) -> None:
        """Charge *cells* cells that are read or written besides those of new text."""
        self.work -= 1 + cells // _CELLS

    def show(self, size: int) -> bool:
        """Spend *size* bytes of output. False, with nothing spent, when fewer are left."""
        if size > self.room:
            return False
        self._said += size
        self.work -= size // _BYTES
        return True


def size_of(text: str) -> int:
    """The least number of bytes that *text* was decoded from: a U+FFFD counts as one invalid byte."""
    return len(text) if text.isascii() else len(text.encode()) - 2 * text.count("\ufffd")
