"""The runs of the containers on a node, by their names or by what the API says of their pods."""

from __future__ import annotations

import math
import os
from typing import NamedTuple

from flarelog.errors import InvalidName
from flarelog.sources.base import Contents
from flarelog.sources.containers.finder import Containers
from flarelog.sources.containers.layouts import Container
from flarelog.sources.containers.options import ContainerOptions
from flarelog.sources.files.watch import PollWatch
from flarelog.values import changed


class _Sum(NamedTuple):
    files: int = 0
    size: int = 0
    newest: int = 0


class ContainerRuns:
    """The runs of the logs that are *wanted*, by their ``run_from``."""

    def __init__(self, wanted: ContainerOptions) -> None:
        self._wanted = wanted
        self._finder = Containers(wanted, watch=PollWatch())  # one for all looks: it reports each trouble once

    @property
    def root(self) -> str:
        return self._wanted.root

    def look(self) -> tuple[dict[str, tuple[ContainerOptions, Contents]], list[str]] | None:
        """(each run's options and its snapshot, a sentence for each log that can be in no run); None while the root
        does not exist.
        """
        if not os.path.isdir(self.root):
            return None
        sums: dict[str, _Sum] = {}
        facts: dict[str, int] = {}
        troubles: list[str] = []
        for container, names in self._finder.present():
            try:
                run = self._wanted.run_of(container)
            except InvalidName as error:
                troubles.append(f"{container.log} is not sent: {error}")
                continue
            if run:
                files, size, newest = sums.get(run, _Sum())
                for found in names.values():
                    files, size, newest = files + 1, size + found.size, max(newest, found.modified)
                sums[run], facts[run] = _Sum(files, size, newest), facts.get(run, 0) ^ self._facts(container)
        found = {run: Contents(*seen, facts[run]) for run, seen in sums.items()}
        return {run: (changed(self._wanted, run=run), seen) for run, seen in found.items()}, troubles

    def _facts(self, container: Container) -> int:
        """A number for what the API says of *container* that its log is to have."""
        wanted = self._wanted
        pod = wanted.pods.of(container.uid) if wanted.pods is not None else None
        if pod is None:
            return 0
        seen = math.inf if wanted.copies is None else wanted.copies.seen(container.directory)
        ended = [n for (name, n), end in pod.ends.items() if name == container.name and end.known <= seen]
        return hash((container.directory, pod.reason, *sorted(ended)))

    def unmatched(self) -> str:
        """Why no run has a log, as a sentence; empty where there is none. May block."""
        name = next((container.log for container, names in self._finder.present() if names), "")
        wanted = self._wanted
        if name and wanted.asks_labels and wanted.pods is not None and not wanted.pods.listed:
            return f"the Kubernetes API, which --run-from '{wanted.run_from}' asks, has not answered"
        if name:
            return f"--run-from '{wanted.run_from}' gives no run for any log, such as {name}"
        return self._finder.unmatched(empty=True)
