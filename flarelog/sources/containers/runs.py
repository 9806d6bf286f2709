"""The runs of the containers on a node, by their names or by what the API says of their pods."""

from __future__ import annotations

import math
import os
from typing import NamedTuple

from flarelog.errors import InvalidName
from flarelog.kubernetes.pods import Pod
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
        self._placed = set[str]()  # directories of containers whose run was known in any look
        self._unknown: list[str] = []  # logs that are in no run, because nothing is known of their pods
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
        placed, self._unknown = set[str](), []
        blind, copies = set[str](), self._wanted.copies
        troubles: list[str] = []
        for container, names in self._finder.present():
            try:
                run = self._wanted.run_of(container)
            except InvalidName as error:
                troubles.append(f"{container.log} is not sent: {error}")
                continue
            if run or container.directory in self._placed:
                placed.add(container.directory)
            elif names and self._wanted.asks_labels and self._pod(container) is None:
                self._unknown.append(container.log)
            if run:
                files, size, newest = sums.get(run, _Sum())
                for found in names.values():
                    files, size, newest = files + 1, size + found.size, max(newest, found.modified)
                sums[run], facts[run] = _Sum(files, size, newest), facts.get(run, 0) ^ self._facts(container)
                if copies is not None and copies.blind(container.directory):
                    blind.add(run)
        self._placed = placed
        all_seen = {run: Contents(*seen, facts[run], run in blind) for run, seen in sums.items()}
        return {run: (changed(self._wanted, run=run), seen) for run, seen in all_seen.items()}, troubles

    def _facts(self, container: Container) -> int:
        """A number for what the API says of *container* that its log is to have."""
        pod, copies = self._pod(container), self._wanted.copies
        if pod is None:
            return 0
        seen = math.inf if copies is None else copies.seen(container.directory)
        ended = [n for (name, n), end in pod.ends.items() if name == container.name and end.known <= seen]
        return hash((container.directory, pod.reason, *sorted(ended)))

    def _pod(self, container: Container) -> Pod | None:
        return self._wanted.pods.of(container.uid) if self._wanted.pods is not None else None

    def unknown(self) -> str:
        """Which logs were in no run in the latest look, because nothing is known of their pods, as a sentence; empty:
        none were.
        """
        if not self._unknown:
            return ""
        one, first = len(self._unknown) == 1, min(self._unknown)
        which = f"1 log was not sent, {first}" if one else f"{len(self._unknown)} logs were not sent, such as {first}"
        named = f"the Kubernetes API, which {self._asked} asks, has not named {'its pod' if one else 'their pods'}"
        return f"{which}: {self._silence or named}"

    @property
    def _asked(self) -> str:
        return f"--run-from '{self._wanted.run_from}'"

    @property
    def _silence(self) -> str:
        """A sentence if the API is to tell the runs, and has not answered."""
        pods = self._wanted.pods
        unheard = self._wanted.asks_labels and pods is not None and not pods.listed
        return f"the Kubernetes API, which {self._asked} asks, has not answered" if unheard else ""

    def unmatched(self) -> str:
        """Why no run has a log, as a sentence; empty where there is none. May block."""
        name = next((container.log for container, names in self._finder.present() if names), "")
        if name:
            return self._silence or f"{self._asked} gives no run for any log, such as {name}"
        return self._finder.unmatched(empty=True)
