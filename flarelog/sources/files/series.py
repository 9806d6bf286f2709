"""What tells the files that are parts of one log from other files: a table that the options hand to the finder."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from flarelog.sources.files.part import ALONE, Part
from flarelog.values import frozen

if TYPE_CHECKING:  # a command that only checks its options must start fast
    from flarelog.sources.files.tail import Tail


@frozen
class Series:
    """By default each file is a text of its own."""

    # (root, path below it) -> the log that the file is a part of, for patterns; the path if it has the log's name
    log_of: Callable[[str, str], str] = lambda _root, path: path
    part: Callable[[str, int], Part] = lambda _path, _inode: ALONE  # what the file with that path and inode is
    # (directory, names in it) -> whether the directory is sent in a way of its own, and not as a part of a run
    apart: Callable[[str, Collection[str]], bool] = lambda _directory, _names: False
    tail: type[Tail] | None = None  # of a log; None: the usual one
