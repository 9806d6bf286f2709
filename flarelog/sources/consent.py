"""The policy of a site's administrator: a small TOML file. The user of a sidecar can only narrow it further.

Several such files may be in force. Each of them must permit a file; whatever any of them wants masked is masked. An
invalid policy permits nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import field

from flarelog.contents import text_of
from flarelog.errors import ConsentChanged, InvalidFile, InvalidOption, NoConsent
from flarelog.globs import any_of, check
from flarelog.policy import strings, table
from flarelog.sources.redaction.mask import UNREDACTED, Rules
from flarelog.values import changed, frozen
from flarelog.watched import Stamp, stamp

VARIABLE = "FLARELOG_SITE_POLICY"
"""An environment variable with paths of policies, separated by colons, which apply whatever the options say: the owner
of a process's environment has a say in its sending.
"""

MAX_FILE = 1 << 20  # bytes
_KEYS = ("allow_log_streaming", "include", "exclude", "redact", "redact_patterns")


def rules_of(names: Iterable[str], sites: Iterable[Consent]) -> Rules:
    """The rules of masking that *names* ask for, and those of the policies of *sites*: the union of all requests."""
    rules = Rules(tuple(names))
    for site in sites:
        rules |= site.rules
    return rules


@frozen
class Consent:
    """The content of one policy file."""

    allow_log_streaming: bool = True
    include: tuple[str, ...] = ()  # the only paths permitted; empty: all
    exclude: tuple[str, ...] = ()  # paths never permitted
    rules: Rules = UNREDACTED  # the rules of masking
    where: str = field(default="the site's policy", compare=False)
    stamp: Stamp | None = field(default=None, compare=False)  # of the file that was read; None without a file

    def permits(self, path: str) -> bool:
        """Whether the file at *path*, relative to the root, may be sent."""
        return (not self.include or any_of(self.include, path)) and not any_of(self.exclude, path)

    def demand(self) -> None:
        """Raise NoConsent when no log may leave the site."""
        if not self.allow_log_streaming:
            raise NoConsent(
                f"{self.where} says allow_log_streaming = false: no log leaves this site, and no file was read"
            )

    def demand_still(self) -> Consent:
        """The same policy, if its file is unchanged; for a running sidecar. Raises NoConsent, InvalidFile, and
        ConsentChanged when the changed file still permits logs.
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
    """The policies in *files* and in the files that the environment names. Raises InvalidFile."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    return tuple(map(load, dict.fromkeys(os.path.abspath(path) for path in (*files, *named) if path)))


def load(path: str) -> Consent:
    """The policy in the file at *path*. Raises InvalidFile."""
    path = os.path.abspath(path)  # the file is read again later, and an embedding program may change its directory
    seen = stamp(path)
    _, said = text_of(path, MAX_FILE, f"nothing is sent: the site's policy {path}", regular=True)
    try:
        return changed(parse(said, path), stamp=seen)
    except InvalidOption as error:
        raise InvalidFile(str(error)) from error


def parse(text: str, where: str = "the site's policy") -> Consent:
    """Parse the TOML *text* of a policy; *where* begins each message.

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
