"""The files of spools among the files below a root: the record beside them says which they are."""

from __future__ import annotations

from functools import partial

from flarelog.sources.files.part import ALONE, Part
from flarelog.sources.files.series import Series
from flarelog.sources.process.names import is_spool
from flarelog.sources.spool.part import SpooledPart
from flarelog.sources.spool.record import Stored, beside, log_of, segment_at
from flarelog.sources.spool.tail import SpooledTail


def of_spools(receivers: int = 0) -> Series:
    """The parts of spools. A part that all *receivers* have stored is marked; 0: it is kept."""
    marks = Stored(receivers) if receivers else None
    return Series(log_of, partial(_part, marks), is_spool, SpooledTail)  # an agent sends a spool under its own names


def _part(marks: Stored | None, path: str, inode: int) -> Part:
    found = segment_at(path, inode)
    return ALONE if found is None else SpooledPart(beside(path), found, marks)
