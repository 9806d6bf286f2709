"""The URL of a store: nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/NAME[?creds=FILE&ca=FILE], or tls://.

The files of ``--nats-creds`` and ``--nats-ca`` become a part of the URL: a store's place is one text everywhere.
"""

from __future__ import annotations

import os
import re
from typing import Self
from urllib.parse import parse_qsl, urlencode

from flarelog.errors import InvalidOption
from flarelog.text import quoted
from flarelog.values import frozen

SCHEMES = ("nats://", "tls://")
PORT = 4222
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
EXAMPLE = "nats://HOST:4222,HOST:4222,HOST:4222/NAME"


def is_url(place: object) -> bool:
    return isinstance(place, str) and place.startswith(SCHEMES)


def with_files(url: str, creds: str | None, ca: str | None) -> str:
    """*url* with these files of an account and of a CA. Raises InvalidOption."""
    said = {name: os.path.abspath(file) for name, file in (("creds", creds), ("ca", ca)) if file}
    if said and not is_url(url):
        raise InvalidOption(f"--nats-creds and --nats-ca are for a store at {EXAMPLE}, and {url} is a directory")
    return f"{url}{'&' if '?' in url else '?'}{urlencode(said)}" if said else url


@frozen
class Url:
    hosts: tuple[str, ...]  # HOST:PORT each
    name: str
    tls: bool
    user: str  # NAME:PASSWORD, or empty
    creds: str = ""  # a file of the account's
    ca: str = ""  # a file with the CA of the servers

    @classmethod
    def of(cls, url: str) -> Self:
        """The parts of *url*. Raises InvalidOption."""
        scheme, _, rest = url.partition("?")[0].partition("://")
        files = dict(parse_qsl(url.partition("?")[2]))
        place, _, name = rest.rpartition("/")
        user, _, hosts = place.rpartition("@")
        each = hosts.split(",")
        if not _NAME.fullmatch(name) or not all(map(_HOST.fullmatch, each)) or not files.keys() <= {"creds", "ca"}:
            shown = f"{scheme}://{rest.rpartition('@')[2]}"
            raise InvalidOption(
                f"{quoted(shown)} does not name a store: write {EXAMPLE}, with letters, digits, - and _ in NAME"
            )
        found = tuple(host if re.search(r":[0-9]+$", host) else f"{host}:{PORT}" for host in each)
        return cls(found, name, scheme == "tls", user, **files)

    @property
    def shown(self) -> str:
        """The URL for people: without the password."""
        return f"{'tls' if self.tls else 'nats'}://{','.join(self.hosts)}/{self.name}"
