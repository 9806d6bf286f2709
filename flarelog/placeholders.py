"""What stands where a log cannot be had: why, and how to look, by a command of flarelog's or at an operator's URL.

Laws that hold here: a name is percent-encoded whole, slashes too, so that no name leads elsewhere than the template
says; no field stands in the part of a URL that says who is asked; what is no name at all gets no URL.
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

MARGIN = 5 * 60_000  # milliseconds before and after a log's life in which another system is searched for it
UNKNOWN = 24 * 3600_000  # milliseconds before now, where nobody knows when a log began
LONGEST = 2000  # characters of a template
FIELDS = ("run", "site", "log", "offset", "since", "until")

_FIELD = late(r"\{([^{}]*)\}")
_ONE_LINE = late(r"[\x21-\x7e]*")


@frozen
class LogUrls:
    """Where an operator's own system shows a log. Raises InvalidOption."""

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
        """The address for *stream* at *offset*; empty without a template. *begun*, *ended*: of the log, 0 where that is
        not known, and *now*: milliseconds since 1970.
        """
        from urllib.parse import quote  # few have a template, and addresses of all kinds come with it

        since = begun - MARGIN if begun else now - UNKNOWN
        values = {
            "run": stream.run,
            "site": stream.site,
            "log": stream.log,
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
    from urllib.parse import urlsplit  # as above

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
    """One log, and how to look at it. The names are as whoever asked wrote them; the rest is legible."""

    run: str
    site: str
    log: str
    why: str  # it cannot be had, as the end of a sentence; empty: it can
    command: str  # shows what is stored of it
    url: str = ""  # of the operator's template

    def __str__(self) -> str:
        name = legible(f"{self.run}/{self.site}/{self.log}")
        return ": ".join(filter(None, (name, self.why, self.url or self.command)))


def look(run: str, site: str = "", log: str = "", place: Sequence[str] = ()) -> str:
    """The command that shows the log; without *log* those of *site*, without that those of *run*. *place*: the options
    that say where they are.
    """
    return command("logs", run, *(("--site", site) if site else ()), *(("--log", log) if log else ()), *place)


def look_at(places: Mapping[StreamId, int], place: Sequence[str] = ()) -> str:
    """The command that shows logs of one run, each from its offset in *places* on. *place*: as of ``look``."""
    starts = [word for stream, at in places.items() for word in ("--from", f"{stream.site}/{stream.log}:{at}")]
    return command("logs", next(iter(places)).run, *starts, *place)


def command(name: str, run: str, *options: str) -> str:
    """The command of flarelog with that *name*, as a person may type it."""
    import shlex  # few are told of one

    words = ["flarelog", name, run, *options]
    if run.startswith("-"):  # no option
        words = [*words[:2], *words[3:], "--", run]
    return legible(shlex.join(words))


def placeholder(
    run: str, site: str, log: str, why: str, *, place: Sequence[str], urls: LogUrls, offset: int = 0, now: int,
    begun: int = 0, ended: int = 0,
) -> Placeholder:  # fmt: skip
    """Of any names; what cannot be a log's name has its own reason. The rest as of ``LogUrls.url`` and ``look``."""
    url = ""
    try:
        url = urls.url(StreamId(run, site, log), offset, begun=begun, ended=ended, now=now)
    except InvalidName as error:
        why = str(error)
    return Placeholder(run, site, log, legible(why), look(run, site, log, place), url)
