"""Placeholders for unavailable logs: the reason, and a flarelog command or an operator's URL to look further.

A name is percent-encoded whole, slashes too, so that no name leads elsewhere than the template says. No field stands in
the host part of a URL. An invalid name gets no URL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from flarelog.errors import InvalidName, InvalidOption
from flarelog.late import late
from flarelog.model import StreamId
from flarelog.options import option
from flarelog.records import moment
from flarelog.text import legible
from flarelog.values import frozen

MARGIN = 5 * 60_000  # milliseconds before and after a log's life in which the other system is searched
UNKNOWN = 24 * 3600_000  # milliseconds before now to search, if the log's beginning is unknown
LONGEST = 2000  # characters of a template
FIELDS = ("run", "site", "log", "offset", "since", "until")

_FIELD = late(r"\{([^{}]*)\}")
_ONE_LINE = late(r"[\x21-\x7e]*")


@frozen
class LogUrls:
    """The URL template of an operator's own log system. Raises InvalidOption."""

    log_url_template: str = option(
        "",
        "URL of a missing log, in which {run}, {site}, {log}, {offset}, {since} and {until} are filled in.",
        metavar="URL",
    )

    def __post_init__(self) -> None:
        text = self.log_url_template
        if text and (wrong := _wrong_with(text)):
            raise InvalidOption(
                f"log_url_template {wrong}: write an address such as https://logs.example.org/search?q={{run}}+{{site}}"
            )

    def __bool__(self) -> bool:
        return bool(self.log_url_template)

    def url(self, stream: StreamId, offset: int = 0, *, begun: int = 0, ended: int = 0, now: int) -> str:
        """The URL for *stream* at *offset*; empty without a template. *begun*, *ended*: of the log, 0 if unknown, and
        *now*: milliseconds since 1970.
        """
        from urllib.parse import quote  # few have a template, and the import is large

        since = begun - MARGIN if begun else now - UNKNOWN
        values = {
            "run": stream.run,
            "site": stream.site,
            "log": stream.name,
            "offset": str(offset),
            "since": moment(max(1, since)) or "",
            "until": moment((ended or now) + MARGIN) or "",
        }
        return _FIELD.sub(lambda field: quote(values[field[1]], safe=""), self.log_url_template)


def _wrong_with(template: str) -> str:
    if len(template) > LONGEST:
        return f"has {len(template):,} characters, and {LONGEST:,} are allowed"
    if not _ONE_LINE.fullmatch(template):
        return "has a space, a control character or a letter beyond ASCII; percent-encode it"
    for name in _FIELD.findall(template):
        if name not in FIELDS:
            return f"has the unknown field {{{name}}}; known are {', '.join(FIELDS)}"
    if re.search("[{}]", _FIELD.sub("", template)):
        return "has a brace without its other one; %7B and %7D are braces of the address itself"
    from urllib.parse import urlsplit  # a late import for the same reason as in LogUrls.url

    try:
        parts = urlsplit(template)
    except ValueError as error:
        return f"is no address ({error})"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "is no address of http or https"
    if "{" in parts.netloc:
        return "has a field in the name of the machine"
    return ""


@frozen
class Placeholder:
    """One log, and how to look at it. The names are as the caller wrote them; the rest is legible."""

    run: str
    site: str
    log: str
    why: str  # why the log is not available, as the end of a sentence; empty: it is
    command: str  # shows the stored bytes
    url: str = ""  # from the operator's template

    def __str__(self) -> str:
        name = legible(f"{self.run}/{self.site}/{self.log}")
        return ": ".join(filter(None, (name, self.why, self.url or self.command)))


def look(run: str, site: str = "", log: str = "", place: Sequence[str] = ()) -> str:
    """The command that shows the log; without *log* the logs of *site*, without *site* those of *run*. *place*: the
    options that name the store or the receiver.
    """
    return command("logs", run, *(("--site", site) if site else ()), *(("--log", log) if log else ()), *place)


def look_at(places: Mapping[StreamId, int], place: Sequence[str] = ()) -> str:
    """The command that shows logs of one run, each from its offset in *places* on. *place*: as in ``look``."""
    starts = [word for stream, at in places.items() for word in ("--from", f"{stream.site}/{stream.log}:{at}")]
    return command("logs", next(iter(places)).run, *starts, *place)


def command(name: str, run: str, *options: str) -> str:
    """The flarelog command *name*, quoted for a shell."""
    import shlex  # rarely needed

    words = ["flarelog", name, run, *options]
    if run.startswith("-"):  # the run must not be parsed as an option
        words = [*words[:2], *words[3:], "--", run]
    return legible(shlex.join(words))


def placeholder(
    run: str, site: str, log: str, why: str, *, place: Sequence[str], urls: LogUrls, offset: int = 0, now: int,
    begun: int = 0, ended: int = 0,
) -> Placeholder:  # fmt: skip
    """A placeholder for any names: an invalid name is itself the reason. Other arguments: ``LogUrls.url``, ``look``."""
    url, stored = "", log
    try:
        stream = StreamId.given(run, site, log)
        stored = stream.log
        url = urls.url(stream, offset, begun=begun, ended=ended, now=now)
    except InvalidName as error:
        why = str(error)
    return Placeholder(run, site, log, legible(why), look(run, site, stored, place), url)
