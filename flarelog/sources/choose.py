"""The one place that chooses a finder. A new kind of source is a file or a room of its own, with options of its own,
and a line here.
"""

from __future__ import annotations

from flarelog.errors import InvalidOption
from flarelog.sources.base import Finder, Wanted
from flarelog.sources.containers.finder import Containers
from flarelog.sources.containers.options import ContainerOptions
from flarelog.sources.containers.runs import ContainerRuns
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.sources.files.finder import Files
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.runs import Directories, RunPattern
from flarelog.sources.zone import system_zone
from flarelog.values import changed


def finder(
    wanted: Wanted, *, run: str, site: str, receiver: str, state: str | None = None, ranks: bool = False
) -> Finder:
    """The finder of the *wanted* logs, for one *receiver*. *state*: the directory that remembers files already seen;
    *ranks*: whether to detect the ranks of the writers.

    Raises NotAllowed when the directory cannot be made, and InvalidOption for an unknown kind.
    """
    if isinstance(wanted, SourceOptions):
        checkpoint = Checkpoint(state, run, site, receiver) if state else None
        wanted = changed(wanted, zone=wanted.zone or system_zone()).without(state)
        return Files(wanted, checkpoint, ranks=ranks)
    if isinstance(wanted, ContainerOptions):
        return Containers(changed(wanted, zone=wanted.zone or system_zone()), state=state, receiver=receiver)
    raise InvalidOption(f"{type(wanted).__name__} is not a kind of source")


def runs(wanted: Wanted, run_from: str, *, state: str | None = None) -> Directories | ContainerRuns:
    """The finder of the runs whose logs are *wanted*. *run_from* is the pattern that tells a run; the directory *state*
    holds no logs. Raises InvalidOption.
    """
    if isinstance(wanted, SourceOptions):
        return Directories(RunPattern(run_from), wanted, state)
    if isinstance(wanted, ContainerOptions):
        return ContainerRuns(changed(wanted, run_from=run_from))
    raise InvalidOption(f"{type(wanted).__name__} is not a kind of source")
