"""The limits of one site on shared resources: unannounced runs, logs, directories, journals.

Laws that hold here: a site that has used up its share pauses alone (``Full``, which names the limit, its value and a
way out); a run that has ended, or is no longer in the store, does not count; a log counts whether or not it is open.
The files of an ended run count until it is removed.
``quota`` counts bytes and open logs.
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
    """The overhead of the logs of one site in one run, beside their bytes; kept up to date."""

    logs: int = 0  # open or not
    directories: int = 0  # below the site's own
    journal_bytes: int = 0

    def add(self, logs: int = 0, directories: int = 0, journal_bytes: int = 0) -> None:
        """Add to the counts; negative numbers subtract."""
        self.logs += logs
        self.directories += directories
        self.journal_bytes += journal_bytes

    @property
    def inodes(self) -> int:
        """The files and directories: a log has two files."""
        return 2 * self.logs + self.directories


class Holdings:
    """The footprints of sites, against *limits*."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._making: dict[Site, Footprint] = {}  # what running opens will add

    @contextlib.contextmanager
    def making(self, stream: StreamId, held: Footprint, new: Footprint, inodes: int = 0) -> Iterator[None]:
        """Count *new*, which opening *stream* will add, inside the block; *held*: its site's footprint; *inodes*: those
        of its site in all runs. Raises Full.
        """
        site = stream.run, stream.site
        if new.logs or new.directories:
            others, limits = self._making.get(site) or Footprint(), self._limits
            logs, directories = held.logs + others.logs, held.directories + others.directories
            self._room(stream, new.logs, logs, limits.max_site_logs, ("log", "logs"), "max_site_logs")
            most = limits.max_site_directories
            words = "directory", "directories"
            self._room(stream, new.directories, directories, most, words, "max_site_directories")
            if inodes + new.inodes > limits.max_site_inodes:
                what = several(inodes, "file or directory", "files and directories")
                raise Full(
                    f"{what} of site {stream.site} {are(inodes)} stored in all runs, and {limits.max_site_inodes:,} is"
                    " the limit: remove old runs, or start the receiver with a higher --max-site-inodes"
                )
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
        """Allow *stream* to write to its journal. Raises Full if the journals of its site have reached the limit, which
        writes that are under way may exceed.
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
    """The counts of open runs: a run counts against the site that made it, or, if it was announced, against all.

    *certified*: certificates name the sites. Without them a peer that invents runs can invent sites too, so all runs
    count together, and also against their site if sites have a limit.
    """

    def __init__(self, limits: Limits, *, certified: bool) -> None:
        self._limits, self._certified = limits, certified
        self._each = limits.max_site_runs or (MAX_SITE_RUNS if certified else None)
        self._makers: dict[str, str] = {}  # the maker of each run that counts; empty: announced
        self._made: Counter[str] = Counter()  # runs by maker

    def known(self, runs: Mapping[str, str]) -> None:
        """Count *runs* that exist already, with the maker of each, even beyond the limits."""
        for run, maker in runs.items():
            if run not in self._makers:
                self._count(run, maker)

    def maker(self, run: str) -> str:
        """The site that made *run*; empty if it was announced, or does not count."""
        return self._makers.get(run, "")

    def begins(self, run: str, maker: str) -> None:
        """Count *run*, which the site *maker* made; empty: it was announced. Raises Full."""
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
        """Count *run* as announced, no longer against its site; returns whether it counted against a site before."""
        was = bool(self.maker(run))
        if was:
            self.over(run)
            self._count(run, "")
        return was

    def over(self, run: str) -> None:
        """Stop counting *run*, which has ended or was removed; idempotent."""
        maker = self._makers.pop(run, None)
        if maker is None:
            return
        self._made[maker] -= 1
        if not self._made[maker]:
            del self._made[maker]

    def _count(self, run: str, maker: str) -> None:
        self._makers[run] = maker
        self._made[maker] += 1
