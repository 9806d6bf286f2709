"""Which logs of containers are sent."""

from __future__ import annotations

from flarelog.errors import InvalidOption
from flarelog.globs import any_of, check
from flarelog.lines.zones import zone_of
from flarelog.sources.consent import Consent
from flarelog.sources.containers.layouts import LAYOUTS, Layout
from flarelog.sources.files.runs import RunPattern
from flarelog.sources.redaction.mask import Rules
from flarelog.values import frozen


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
    pattern: RunPattern | None = None  # tells the runs of logs; None: all belong to one run
    run: str = ""  # the run, by *pattern*, whose logs are sent

    def __post_init__(self) -> None:
        check((*self.include, *self.exclude))
        Rules(self.redact)
        if self.layout not in LAYOUTS:
            raise InvalidOption(f"layout must be one of {', '.join(LAYOUTS)}, not {self.layout!r}")
        if self.zone and zone_of(self.zone) is None:
            raise InvalidOption(f"zone {self.zone!r} is unknown on this machine: give one as Europe/Berlin or +02:00")

    @property
    def directory(self) -> str:
        return self.root

    @property
    def part(self) -> tuple[str, ...]:
        return self.include

    @property
    def names(self) -> Layout:
        return LAYOUTS[self.layout]

    def run_of(self, log: str) -> str:
        """The run of *log* by the pattern; empty if it has none."""
        return self.pattern.run_of(log) if self.pattern is not None else ""

    def matches(self, log: str) -> bool:
        """Whether *log* is to be sent."""
        asked = (not self.include or any_of(self.include, log)) and not any_of(self.exclude, log)
        return asked and (not self.run or self.run_of(log) == self.run) and self.permits(log)

    def permits(self, log: str) -> bool:
        """Whether the site's policies permit *log*."""
        return all(site.permits(log) for site in self.sites)

    def rules(self) -> Rules:
        """The rules of masking: the union of all requests."""
        rules = Rules(self.redact)
        for site in self.sites:
            rules |= site.rules
        return rules
