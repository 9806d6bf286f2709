"""The URL of an archive: s3://BUCKET or s3://BUCKET/PREFIX; the environment has the rest, as for other S3 tools."""

from __future__ import annotations

import re

from flarelog.errors import InvalidOption
from flarelog.text import quoted

SCHEME = "s3://"
EXAMPLE = "s3://BUCKET/PREFIX"
_URL = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<prefix>(?:/[A-Za-z0-9._-]+)*)/?")


def is_archive(place: object) -> bool:
    return isinstance(place, str) and place.startswith(SCHEME)


def parts(url: str) -> tuple[str, str]:
    """The bucket and the prefix of *url*, which may be empty. Raises InvalidOption."""
    found = _URL.fullmatch(url)
    if found is None or {".", ".."} & set(found["prefix"].split("/")):
        raise InvalidOption(f"{quoted(url)} does not name an archive: write {EXAMPLE}, as in s3://logs/2026")
    return found["bucket"], found["prefix"].strip("/")
