"""What drawing a stream may cost: units of work and bytes of output, both earned by the stream's own bytes.

Costs are counted, not timed: the same bytes cost the same on every machine, however they are cut into pieces. A unit is
about 0.4 microseconds of one core, and a byte earns ``EARNS``: so a MiB takes less than two seconds, whatever it
holds. Bars of 16 workers, between which the cursor goes up and down at each redraw, need more than three.
``BURST`` is what a stream may use in advance, and the most that it can have saved.
"""

from __future__ import annotations

BURST = 1 << 17  # units
EARNS = 4  # units, for each byte
DRAWN_AGAIN = 1 << 15  # units that there are after a while in which nothing was drawn: showing it did cost something
SHOWN = 56  # bytes of output for each byte; what is shown of plain text besides is less than 8
MOST_SHOWN = 4 << 20  # bytes of output that can have been saved

# Units. Whole lines of text cost nothing: they are taken many at a time.
TOKEN = 14  # of a control sequence, and of the text behind it
ROUGH = 8  # of a colour
COLOUR = 5  # of one in a line that has nothing but text besides
NEW = 14  # of a style that is not among the last ones
LINE = 22  # of a line that has either, or that begins in a colour
MOVE = 2  # of the cursor to another row
PAGE = 10  # of a new page
TABBED = 6  # of a tab over what is there
_CELLS = 12  # that are touched for one unit
_BYTES = 24  # of output for one unit


class Allowance:
    """One stream's. ``work``, in units, is below 0 when it was too much; of output no more is spent than there is."""

    __slots__ = ("_lost", "_said", "begun", "earned", "work")

    def __init__(self) -> None:
        self.work = BURST
        self.earned = 0  # bytes that were taken
        self.begun = 0  # before the line that is being taken
        self._lost = 0  # units that could not be saved
        self._said = 0  # bytes of output

    @property
    def room(self) -> int:
        """Bytes of output that are left."""
        return SHOWN * self.earned - self._said

    @property
    def spent(self) -> int:
        """Units that were spent."""
        return BURST + EARNS * self.earned - self._lost - self.work

    def earn(self, size: int) -> None:
        """So many bytes of the stream were taken."""
        self.work += EARNS * size
        self.earned += size

    def line(self, cost: int = 0) -> None:
        """A line has ended: what is more than can be saved is lost."""
        self.work -= cost
        if self.work > BURST:
            self.have(BURST)
        self.begun = self.earned
        self._said = max(self._said, SHOWN * self.earned - MOST_SHOWN)

    def have(self, units: int) -> None:
        """So many units are left, whatever there were."""
        self._lost += self.work - units
        self.work = units

    def touch(self, cells: int) -> None:
        """So many cells are read or written besides those of text that came."""
        self.work -= 1 + cells // _CELLS

    def show(self, size: int) -> bool:
        """Spend *size* bytes of output; False when there are not so many left, and none are spent then."""
        if size > self.room:
            return False
        self._said += size
        self.work -= size // _BYTES
        return True


def size_of(text: str) -> int:
    """The bytes that *text* was, and at least; what is a U+FFFD now may have been one."""
    return len(text) if text.isascii() else len(text.encode()) - 2 * text.count("\ufffd")
