"""What a site's administrator lets go: a small TOML file, which whoever starts a sidecar can only make less of.

Several such files may be in force, each of which must let a file go; what any of them wants to be masked is. A file
that makes no sense lets nothing go.
"""

from __future__ import annotations

import os
import stat
from dataclasses import field, replace

from flarelog.errors import ConsentChanged, InvalidFile, InvalidOption, NoConsent
from flarelog.globs import any_of, check
from flarelog.policy import strings, table
from flarelog.sources.redaction.mask import UNREDACTED, Rules
from flarelog.values import frozen
from flarelog.watched import Stamp, stamp

VARIABLE = "FLARELOG_SITE_POLICY"
"""Names files, with colons between them, that hold whatever else is said: who sets a process's environment has a say
in what it sends.
"""

MAX_FILE = 1 << 20  # bytes
_KEYS = ("allow_log_streaming", "include", "exclude", "redact", "redact_patterns")


@frozen
class Consent:
    """What one file says."""

    allow_log_streaming: bool = True
    include: tuple[str, ...] = ()  # only these; without any: all
    exclude: tuple[str, ...] = ()  # never these
    rules: Rules = UNREDACTED  # what is masked
    where: str = field(default="the site's policy", compare=False)
    stamp: Stamp | None = field(default=None, compare=False)  # of the file that was read; None if it was none

    def permits(self, path: str) -> bool:
        """Whether the file at *path*, relative to the root, may be sent."""
        return (not self.include or any_of(self.include, path)) and not any_of(self.exclude, path)

    def demand(self) -> None:
        """Raises NoConsent when no log may leave the site."""
        if not self.allow_log_streaming:
            raise NoConsent(
                f"{self.where} says allow_log_streaming = false: no log leaves this site, and no file was read"
            )

    def demand_still(self) -> Consent:
        """The same, if the file still says so; for a sidecar that is at work. Raises NoConsent, InvalidFile, and
        ConsentChanged when it says something else that lets logs go.
        """
        if self.stamp is None or self.stamp == stamp(self.where):
            return self
        try:
            now = load(self.where)
        except InvalidOption as error:
            raise InvalidFile(f"{error}; sending stops") from error
        if not now.allow_log_streaming:
            raise NoConsent(f"{self.where} now says allow_log_streaming = false: sending stops")
        if now != self:
            raise ConsentChanged(
                f"{self.where} was changed: sending stops; start the sidecar again to apply the change"
            )
        return now


def in_force(*files: str) -> tuple[Consent, ...]:
    """What *files* say, and those that the environment names. Raises InvalidFile."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    return tuple(map(load, dict.fromkeys(os.path.abspath(path) for path in (*files, *named) if path)))


def load(path: str) -> Consent:
    """Raises InvalidFile."""
    path = os.path.abspath(path)  # it is looked at again, and an embedding program may go elsewhere
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise InvalidFile(f"the site's policy {path} is not a file: nothing is sent until it can be read")
            seen = stamp(fd)
            raw = file.read(MAX_FILE + 1)
            if len(raw) > MAX_FILE:
                raise InvalidFile(f"the site's policy {path} has more than {MAX_FILE} bytes: nothing is sent")
            text = raw.decode("utf-8-sig")  # some editors begin a file with a mark
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidOption):
            raise
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidFile(f"the site's policy {path} cannot be read ({why}): nothing is sent until it can") from error
    try:
        return replace(parse(text, path), stamp=seen)
    except InvalidOption as error:
        raise InvalidFile(str(error)) from error


def parse(text: str, where: str = "the site's policy") -> Consent:
    """The consent that *text*, TOML, says; *where* it is from begins each sentence.

        allow_log_streaming = true      # false: nothing leaves this site
        include = ["*.log", "logs/**"]  # only these
        exclude = ["**/private/**"]     # never these
        redact = ["tokens", "passwords", "keys", "email"]  # or "all"
        redact_patterns = ['patient[ _-]?id[:=]\\s*\\w+']    # regular expressions; what they match is masked

    Raises InvalidOption.
    """
    said = table(text, where, "makes no sense", _KEYS)
    allow = said.get("allow_log_streaming", True)
    if not isinstance(allow, bool):
        raise InvalidOption(f"{where}: allow_log_streaming must be true or false")
    include, exclude, redact, own = (strings(where, key, said[key]) if key in said else () for key in _KEYS[1:])
    try:
        check((*include, *exclude))
        return Consent(allow, include, exclude, Rules(redact, own), where)
    except InvalidOption as error:
        raise InvalidOption(f"{where}: {error}") from error
