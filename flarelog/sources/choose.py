"""Where finders come from: the one place that chooses one. A new kind of source is a file or a room of its own, with
options of its own, and a line here.
"""

from __future__ import annotations

from dataclasses import replace

from flarelog.errors import InvalidOption
from flarelog.sources.base import Finder, Runs, Wanted
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.sources.files.finder import Files
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.runs import Directories, RunPattern
from flarelog.sources.zone import system_zone


def finder(
    wanted: Wanted, *, run: str, site: str, receiver: str, state: str | None = None, ranks: bool = False
) -> Finder:
    """What finds the logs that are *wanted*, to be sent to one *receiver*. *state*: the directory that remembers what
    was met; *ranks*: whether to look for the ranks of those who write.

    Raises NotAllowed when the directory cannot be made, and InvalidOption for a kind that is not known.
    """
    if isinstance(wanted, SourceOptions):
        checkpoint = Checkpoint(state, run, site, receiver) if state else None
        wanted = replace(wanted, zone=wanted.zone or system_zone()).without(state)
        return Files(wanted, checkpoint, ranks=ranks)
    raise InvalidOption(f"{type(wanted).__name__} is not a kind of source")


def runs(wanted: Wanted, run_from: str, *, state: str | None = None) -> Runs:
    """What finds the runs of which the logs are *wanted*; *run_from* says how a run is told, and nothing in the
    directory *state* is a log. Raises InvalidOption.
    """
    if isinstance(wanted, SourceOptions):
        return Directories(run_pattern(run_from), wanted, state)
    raise InvalidOption(f"{type(wanted).__name__} is not a kind of source")


def run_pattern(run_from: str) -> RunPattern:
    """How a run is told by *run_from*. Raises InvalidOption."""
    return RunPattern(run_from)
