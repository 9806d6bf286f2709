"""Which logs of containers are sent."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from flarelog.errors import InvalidOption
from flarelog.globs import any_of, check
from flarelog.kubernetes.pods import Pod
from flarelog.lines.zones import check_zone
from flarelog.names import run_of
from flarelog.sources.consent import Consent, rules_of
from flarelog.sources.containers.copies import Copies
from flarelog.sources.containers.gangs import Gangs
from flarelog.sources.containers.layouts import LAYOUTS, Container, Layout
from flarelog.sources.files.runs import RunPattern
from flarelog.sources.redaction.mask import Rules
from flarelog.values import frozen

_pattern = lru_cache(RunPattern)


class Pods(Protocol):
    """What the API says of pods, so far."""

    version: int  # changes with each fact

    @property
    def listed(self) -> bool:
        """Whether all pods are known."""

    def of(self, uid: str) -> Pod | None:
        """The pod with *uid*, another object after each change; None: it is not known."""


@frozen
class ContainerOptions:
    """Which containers' logs are sent, of those below *root* in a *layout*. Raises InvalidOption.

    The patterns are globs, compared with the names of logs; see ``flarelog.globs``.
    """

    root: str
    layout: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    redact: tuple[str, ...] = ()  # names of rules
    zone: str = ""  # of times without one in the logs; empty: this machine's
    sites: tuple[Consent, ...] = ()  # the policies of the site's administrators, each of which must permit a log
    pods: Pods | None = None  # what the API says of pods; None: it is not asked
    labels: tuple[str, ...] = ()  # globs: the keys of labels that readers get
    gangs: Gangs | None = None  # the ranks of the containers' processes; None: they are not looked for
    run_from: str = ""  # what tells the run of a log: path:PATTERN, label:KEY, job or jobset; empty: all are of one run
    copies: Copies | None = None  # what is known of the files, where they are copies
    since: int = 0  # when the agent began, in ns since the epoch: younger containers came while it ran; 0: now
    run: str = ""  # the run whose logs are sent; empty: all

    def __post_init__(self) -> None:
        check((*self.include, *self.exclude))
        Rules(self.redact)
        if self.layout not in LAYOUTS:
            raise InvalidOption(f"layout must be one of {', '.join(LAYOUTS)}, not {self.layout!r}")
        check_zone(self.zone)
        if self.run_from and not self.asks_labels:
            RunPattern(self.run_from)
        if self.asks_labels and self.pods is None:
            raise InvalidOption(f"--run-from {self.run_from} needs the Kubernetes API: give --api, or run in a pod")

    @property
    def directory(self) -> str:
        return self.root

    @property
    def part(self) -> tuple[str, ...]:
        return self.include

    @property
    def names(self) -> Layout:
        return LAYOUTS[self.layout]

    @property
    def asks_labels(self) -> bool:
        """Whether the API tells the run of a log."""
        return self.run_from in ("job", "jobset") or self.run_from.startswith("label:")

    def run_of(self, container: Container) -> str:
        """The run of the log of *container*; empty if it has none, or none is known yet. Raises InvalidName."""
        if not self.asks_labels:
            return _pattern(self.run_from).run_of(container.log)
        pod = self.pods.of(container.uid) if self.pods is not None else None
        run = pod.run(self.run_from) if pod is not None else ""
        return run_of(run) if run else ""

    def matches(self, container: Container) -> bool:
        """Whether the log of *container* is to be sent."""
        log = container.log
        asked = (not self.include or any_of(self.include, log)) and not any_of(self.exclude, log)
        return asked and self.permits(log) and (not self.run or self.run_of(container) == self.run)

    def words(self, container: Container, attempt: int) -> str:
        """The attributes of the writer in an *attempt* of *container*: from the names of directories, from the API as
        far as it has told, and its ranks.
        """
        pod = self.pods.of(container.uid) if self.pods is not None else None
        identity = container.identity if pod is None else pod.identity(container.name, attempt)
        rank = self.gangs.words(identity) if self.gangs is not None and identity else None
        if pod is None:
            return ",".join(filter(None, (rank, container.attributes)))
        if self.gangs is not None and not identity and attempt >= pod.attempts.get(container.name, 0):
            rank = ""  # the API is yet to tell the id
        return pod.words(container.name, self.labels, attempt, rank)

    @property
    def version(self) -> int:
        """Changes with each fact that ``words`` depends on."""
        return sum(one.version for one in (self.pods, self.gangs) if one is not None)

    def permits(self, log: str) -> bool:
        """Whether the site's policies permit *log*."""
        return all(site.permits(log) for site in self.sites)

    def rules(self) -> Rules:
        """The rules of masking: the union of all requests."""
        return rules_of(self.redact, self.sites)
