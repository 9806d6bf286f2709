"""The logs that repeat the lines of another log: NVFlare writes each line of log.txt to up to three more files.

Readers leave such copies out unless somebody asks for them by name. The names decide, as in NVFlare's layout: a log is
a copy only beside a log.txt of the same directory, and not if that one is empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from flarelog.model import StreamId, StreamInfo

ORIGINAL = "log.txt"
COPIES = ("log.json", "error_log.txt", "log_fl.txt", "log_error.txt")  # the last one: before NVFlare 2.8


def is_copy_name(stream: StreamId) -> bool:
    """Whether *stream* is a copy if there is a log.txt beside it."""
    return _parts(stream)[1] in COPIES


def copies(infos: Iterable[StreamInfo]) -> set[StreamId]:
    """The streams of *infos*, which are of one run, that repeat lines of another one."""
    named = [(info, *_parts(info.stream)) for info in infos if not info.unstored]
    sizes = {(info.stream.site, directory): info.committed for info, directory, name in named if name == ORIGINAL}
    return {
        info.stream
        for info, directory, name in named
        if name in COPIES and (size := sizes.get((info.stream.site, directory))) is not None
        if size or not info.committed
    }


def without_copies(infos: Iterable[StreamInfo]) -> list[StreamInfo]:
    """*infos*, which are of one run, without those that repeat lines of another one."""
    every = list(infos)
    repeated = copies(every)
    return [info for info in every if info.stream not in repeated]


def left_out(found: Iterable[StreamId]) -> str:
    """The sentence that *found*, which are copies, are left out; empty where there are none."""
    there = {_parts(one)[1] for one in found}
    names = [name for name in COPIES if name in there]
    if len(names) < 2:
        return f"{names[0]} repeats lines of {ORIGINAL} and is left out" if names else ""
    return f"{', '.join(names[:-1])} and {names[-1]} repeat lines of {ORIGINAL} and are left out"


def _parts(stream: StreamId) -> tuple[str, str]:
    """The directory and the name of the log's file."""
    directory, _, name = stream.log.rpartition("/")
    return directory, name
