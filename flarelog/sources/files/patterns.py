"""The patterns of the names of logs."""

from __future__ import annotations

import math
import os
import re
from typing import Literal, Protocol

from flarelog.errors import InvalidOption
from flarelog.globs import any_of, check, expect
from flarelog.lines.zones import check_zone
from flarelog.options import option
from flarelog.sources.consent import Consent, rules_of
from flarelog.sources.files.lineage import names_of
from flarelog.sources.files.series import Series
from flarelog.sources.redaction.mask import Rules
from flarelog.values import changed, frozen

PART = ("include", "exclude", "start_at", "ignore_older")  # the options that send a part of a directory
HIDDEN = (".*", ".*/**", "**/.*/**")  # hidden files, and files in hidden directories: no user expects them to be sent
NOT_LOGS = (
    *("*.gz", "*.bz2", "*.xz", "*.zst", "*.zip", "*.tar", "*.tgz"),
    *("*.pt", "*.pth", "*.ckpt", "*.safetensors", "*.onnx", "*.h5", "*.bin", "*.pkl", "*.pickle"),
    *("*.npy", "*.npz", "*.parquet", "*.arrow", "events.out.tfevents.*", "*.py", "*.pyc", "*.so"),
    *("*.swp", "*~", "*.tmp", *HIDDEN, "*.crt", "*.key", "*.pem"),
)
"""Patterns excluded when no include pattern is given: names of files that are no logs."""
expect(NOT_LOGS)


def below(root: str, directory: str | None) -> str:
    """The path of *directory* relative to *root*; empty where it is not below."""
    path = os.path.relpath(os.path.realpath(directory), os.path.realpath(root)) if directory else "."
    return "" if path.split("/")[0] in (".", "..") else path


class Within(Protocol):
    """Tells which run a log belongs to, where the logs of several runs are below one root."""

    def run_of(self, path: str) -> str:
        """The run of the log at *path* below the root; empty where it has none."""


@frozen
class SourceOptions:
    """Which files are sent. Raises InvalidOption.

    The patterns are globs, compared with a file's path under *root*; see ``flarelog.globs``. Without *include* all
    files are sent except NOT_LOGS. A part of a log, by *series*, follows its log: a pattern that includes the log
    includes the part, and a pattern that excludes either one excludes the part.
    """

    root: str
    include: tuple[str, ...] = option(
        (),
        "Send only files that match. Repeatable. Without '/' the pattern matches the last part of a path.",
        metavar="GLOB",
    )
    exclude: tuple[str, ...] = option((), "Do not send files that match. Repeatable.", metavar="GLOB")
    start_at: Literal["beginning", "end"] = option(
        "beginning",
        "Where to begin files that exist at the start and that the receiver does not know.",
        choices=("beginning", "end"),
    )
    ignore_older: float | None = option(
        None,
        "Send files that are older than this many seconds, and unknown to the receiver, from their end.",
        unit="seconds",
    )
    redact: tuple[str, ...] = option(
        (),
        "Mask these secrets: tokens, passwords, keys, email or all. Repeatable. Adds to the site's policy.",
        metavar="NAME",
        commas=True,
    )
    zone: str = option(
        "",
        "Time zone for times in these logs without one, such as Europe/Berlin.  [default: this machine's]",
        metavar="ZONE",
    )
    job: str = ""  # the name of the run's job, which readers see; empty: unknown
    sites: tuple[Consent, ...] = ()  # the policies of the site's administrators, each of which must permit a file
    within: tuple[Within, str] | None = None  # what tells the run of a log, and the run whose logs are sent
    goes: bool = False  # the root is one of many that come and go: its absence is not reported
    series: Series = Series()  # tells the files that are parts of logs

    @property
    def directory(self) -> str:
        return self.root

    @property
    def part(self) -> tuple[str, ...]:
        return self.include

    def __post_init__(self) -> None:
        check((*self.include, *self.exclude))
        Rules(self.redact)
        check_zone(self.zone)
        if self.start_at not in ("beginning", "end"):
            raise InvalidOption(f"start_at must be 'beginning' or 'end', not {self.start_at!r}")
        if self.ignore_older is not None and not 0 < self.ignore_older < math.inf:
            raise InvalidOption(f"ignore_older must be a positive number of seconds, not {self.ignore_older:g}")

    def matches(self, path: str) -> bool:
        log = self.series.log_of(self.root, path)
        asked = any_of(self.include, log) if self.include else not any_of(NOT_LOGS, log)
        asked = asked and not any_of(self.exclude, log) and (log == path or not any_of(self.exclude, path))
        return asked and self.permits(path)

    def permits(self, path: str) -> bool:
        """Whether the file at *path* is the run's, and the site's policies permit it."""
        if self.within is not None and self.within[0].run_of(path) != self.within[1]:
            return False
        if not self.sites:
            return True
        log = self.series.log_of(self.root, path)
        return all(site.permits(log) and (log == path or not any_of(site.exclude, path)) for site in self.sites)

    def excludes(self, path: str) -> bool:
        """Whether the file at *path* is never sent, whatever its earlier names."""
        patterns = (*self.exclude, *(pattern for site in self.sites for pattern in site.exclude))
        return any_of(patterns, path) or any_of(patterns, self.series.log_of(self.root, path))

    def without(self, directory: str | None) -> SourceOptions:
        """These options without the files below *directory*, flarelog's own, if it is below the root."""
        own = below(self.root, directory)
        if not own:
            return self
        literal = re.sub(r"[*?\[\]]", "?", own)
        return changed(self, exclude=(*self.exclude, f"{literal}/**"))

    def rules(self) -> Rules:
        """The rules of masking: the union of all requests."""
        return rules_of(self.redact, self.sites)

    def continues(self, path: str, log: str, met: bool, was: str = "") -> bool:
        """Whether the file at *path* may be sent as *log*, which the receiver says it was. The receiver may say so of
        any file: outside the patterns it must be one that this sidecar has *met*, or one whose name is a rotation of
        *log*. Under a name that the site does not permit, this sidecar must have met it as that log: *was* is the
        file's log in this process or its checkpoint.
        """
        if self.excludes(path) or not self.matches(log) or not (self.permits(path) or was == log):
            return False
        return self.matches(path) or met or names_of(log, path)

    def follows(self, path: str, origin: str) -> bool:
        """Whether a file created as the log *origin* is sent as such after an unseen rename to *path*: yes if the
        rename took it out of the include patterns, no if the new name is excluded.
        """
        limited = self.include or any(site.include for site in self.sites)
        return bool(limited) and self.matches(origin) and not self.excludes(path)
