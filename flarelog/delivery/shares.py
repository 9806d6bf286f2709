"""What one site may take of what is everybody's: runs that nobody announced, logs, directories, journals.

Laws that hold here: what one site has used up holds that site alone (``Full``, which says the limit, its value and what
to do); a run that has ended, or is no longer in the store, counts against nobody; a log counts whether or not it is
open. Bytes and open logs are counted in ``quota``.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flarelog.delivery.quota import MAX_SITE_RUNS, Limits, Site
from flarelog.errors import Full
from flarelog.model import StreamId
from flarelog.text import are, several


@dataclass(slots=True)
class Footprint:
    """What the logs of one site in one run take of a store beside their bytes, as it is by now."""

    logs: int = 0  # open or not
    directories: int = 0  # below the site's own
    journal_bytes: int = 0

    def add(self, logs: int = 0, directories: int = 0, journal_bytes: int = 0) -> None:
        """So much more, or less."""
        self.logs += logs
        self.directories += directories
        self.journal_bytes += journal_bytes


class Holdings:
    """What each site's logs take of a store, against *limits*."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._making: dict[Site, Footprint] = {}  # by opens that are under way

    @contextlib.contextmanager
    def making(self, stream: StreamId, held: Footprint, new: Footprint) -> Iterator[None]:
        """Count what opening *stream* makes *new* as long as that lasts; *held* is what its site has. Raises Full."""
        site = stream.run, stream.site
        if new.logs or new.directories:
            others, limits = self._making.get(site) or Footprint(), self._limits
            logs, directories = held.logs + others.logs, held.directories + others.directories
            self._room(stream, new.logs, logs, limits.max_site_logs, ("log", "logs"), "max_site_logs")
            most = limits.max_site_directories
            words = "directory", "directories"
            self._room(stream, new.directories, directories, most, words, "max_site_directories")
        self.journals(stream, held)
        making = self._making.setdefault(site, Footprint())
        making.add(new.logs, new.directories)
        try:
            yield
        finally:
            making.add(-new.logs, -new.directories)
            if making == Footprint():
                self._making.pop(site, None)

    def journals(self, stream: StreamId, held: Footprint) -> None:
        """Let *stream* write to its journal. Raises Full if its site's take what they may, which is exceeded by what
        is on its way.
        """
        if held.journal_bytes >= self._limits.max_site_journal_disk:
            words = "byte of journals", "bytes of journals"
            self._room(stream, 1, held.journal_bytes, 0, words, "max_site_journal_disk")

    def _room(self, stream: StreamId, more: int, used: int, most: int, words: tuple[str, str], name: str) -> None:
        if not more or used + more <= most:
            return
        raise Full(
            f"{several(used, *words)} of site {stream.site} in run {stream.run} {are(used)} stored, and"
            f" {getattr(self._limits, name):,} is the limit: remove old logs, or start the"
            f" receiver with a higher --{name.replace('_', '-')}"
        )


class RunShares:
    """Which runs count, and against whom: against the site that made one, or, if somebody announced it, against all.

    *certified*: a site is whom its certificate names. Where it is only said, whoever invents runs invents sites too:
    all runs count together then, and against a site as well only if that has a limit.
    """

    def __init__(self, limits: Limits, *, certified: bool) -> None:
        self._limits, self._certified = limits, certified
        self._each = limits.max_site_runs or (MAX_SITE_RUNS if certified else None)
        self._makers: dict[str, str] = {}  # of the runs that count; empty: announced
        self._made: Counter[str] = Counter()  # runs, by who made them

    def known(self, runs: Mapping[str, str]) -> None:
        """Take *runs*, with who made each, as being there, however many they are."""
        for run, maker in runs.items():
            self._count(run, maker)

    def maker(self, run: str) -> str:
        """The site that made *run*; empty if it was announced, or does not count."""
        return self._makers.get(run, "")

    def begins(self, run: str, maker: str) -> None:
        """Count *run*, which was announced, or made by the site *maker*. Raises Full."""
        if run in self._makers:
            return
        made = self._made[maker] if maker else 0
        if maker and self._each is not None and made >= self._each:
            raise Full(
                f"site {maker} has {several(made, 'open run')} without an announcement, and {self._each:,}"
                " is the limit: end or remove old runs, or start the receiver with a higher"
                " --max-site-runs"
            )
        total = self._made[""] if self._certified else len(self._makers)
        if not (maker and self._certified) and total >= self._limits.max_runs:
            raise Full(
                f"{several(total, 'run has', 'runs have')} not ended, and {self._limits.max_runs:,} is the limit: end"
                " or remove old runs, or start the receiver with a higher --max-runs"
            )
        self._count(run, maker)

    def announced(self, run: str) -> bool:
        """Somebody who may announce runs has announced *run*: it is no longer its site's; whether it was."""
        was = bool(self.maker(run))
        if was:
            self.over(run)
            self._count(run, "")
        return was

    def over(self, run: str) -> None:
        """*run* has ended, or is no longer there; harmless when repeated."""
        maker = self._makers.pop(run, None)
        if maker is None:
            return
        self._made[maker] -= 1
        if not self._made[maker]:
            del self._made[maker]

    def _count(self, run: str, maker: str) -> None:
        self._makers[run] = maker
        self._made[maker] += 1
