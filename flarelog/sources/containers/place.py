"""Which files of a container are begun, and in which order: pure decisions over a listing and the receiver's record.

The law: a container's log is read in the order that the names tell, each file once. A compressed file is another form
of the file that had its turn before. When the record of the receiver has a file, all older ones were begun before it.
The oldest files of an attempt are removed first: where an older one may have gone unread, that is a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from flarelog.model import Ended, Generation, Mark
from flarelog.sources.containers.layouts import NEWEST, Place, Turn
from flarelog.sources.files.record import WHOLE, Piece

Key = tuple[int, int, int | None]
"""(device, inode, birth in ns since the epoch): a file, as a listing tells it."""


class Entry(NamedTuple):
    """A file in a listing."""

    name: str
    place: Place
    key: Key


class Steps(NamedTuple):
    """What a listing calls for."""

    names: Mapping[Key, Entry]  # the present names of known files
    gone: Collection[Key]  # known files without a name
    new: Sequence[Entry]  # files to begin after all known ones, the oldest first


def steps(listing: Iterable[Entry], known: Mapping[Key, Turn], taken: Collection[Turn]) -> Steps:
    """Compare a *listing* with the *known* files. *taken*: the turns of rotated files that are known or were."""
    raw: dict[Turn, Entry] = {}
    packed: dict[Turn, Entry] = {}
    for entry in listing:
        (packed if entry.place.packed else raw)[entry.place.turn] = entry
    entries = {entry.key: entry for entry in (*packed.values(), *raw.values())}
    names = {key: entries[key] for key in known if key in entries}
    taken = {*taken, *(entry.place.turn for entry in names.values())}
    new = [raw.get(turn) or packed[turn] for turn in sorted(raw.keys() | packed.keys())]
    new = [entry for entry in new if entry.key not in known and entry.place.turn not in taken]
    return Steps(names, known.keys() - names.keys(), new)


def may_lack(before: Turn | None, first: Turn) -> bool:
    """Whether files may have come and gone between the latest known file, which has the turn *before* in a listing or
    is not there (None), and *first*, the next one in that listing.
    """
    if before is None:
        return True
    # An attempt that ended has a file without a stamp, and so has one that was never rotated.
    return before[0] != first[0] and (before[1] != NEWEST or first[1] != NEWEST)


def wholly(piece: Piece, length: int) -> bool:
    """Whether the receiver has a file of *length* bytes to its end, in *piece*."""
    return piece.closed in WHOLE and piece.source_end == length


def end_of(marks: Sequence[Mark], end: int, attempt: int, place: Callable[[str], Place | None]) -> int | None:
    """The offset after the last byte of *attempt* in a log of *marks* that ends at *end*; None: it has no file there.
    *place* reads the names of files.
    """
    for mark in reversed(marks):
        if isinstance(mark, Generation):
            found = place(mark.path.rpartition("/")[2])
            if found is not None and found.turn[0] == attempt:
                return end
        if isinstance(mark, Generation | Ended):
            end = mark.offset
    return None


class Copy(NamedTuple):
    """A compressed file, by the end of its gzip member."""

    length: int  # bytes, unpacked
    digest: int  # CRC-32 of them
