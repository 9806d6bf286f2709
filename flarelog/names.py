"""Valid names of a run, a site, a reader and a log, and addresses of a receiver.

Names are validated once, at the edge, and map one to one to paths: no valid name leads out of its directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache

from flarelog.errors import InvalidName, InvalidOption
from flarelog.late import late
from flarelog.text import quoted

DOCTORS_RUN = "flarelog-doctor"  # the run of the test records of flarelog doctor
DOCTORS_LOG = "flarelog-doctor.log"  # the log of each test record
MAX_NAME = 128
MAX_PART = 200  # leaves room in a 255-byte file name for the journal's prefix and suffixes
MAX_LOG = 1024
STAND_IN = 40  # characters of a file's name that its stand-in keeps: a sentence has room for few
MAX_PARTS = 16  # of a log's name: each but the last is a directory, which costs the receiver an fsync

_HOST = late(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]")
_PORT = late(r"[0-9]+")
_PART = late(r"[A-Za-z0-9._-]+")
# The case of letters is ignored: some file systems do not tell it apart.
_STORES_OWN = late(r"\..+\.(journal(\.new)?|quarantine\.\d+(\.old-journal)?)", re.IGNORECASE)


def _part(what: str, part: str, limit: int, *, whole: bool = True) -> str:
    if not part:
        raise InvalidName(f"{what} is empty" if whole else f"{what} has an empty part; name each part")
    if part in (".", ".."):
        raise InvalidName(f"{what} has the part {part!r}; use a relative path without '.' and '..'")
    if len(part) > limit:
        of = "" if whole else "a part of "
        raise InvalidName(f"{what} has {of}{len(part)} characters; at most {limit} are allowed")
    if not _PART.fullmatch(part):
        raise InvalidName(f"{what} is {quoted(part)}; use only letters a-z and A-Z, digits, '.', '_' and '-'")
    return part


def run_name(name: str) -> str:
    """*name*, if it can name a run; raises InvalidName."""
    return _dotless("run", name)


def site_name(name: str) -> str:
    """*name*, if it can name a site; raises InvalidName."""
    return _dotless("site", name)


def reader_name(name: str) -> str:
    """*name*, if it can name a reader, by the rules of a site's; raises InvalidName."""
    return _dotless("reader", name)


@lru_cache(maxsize=1024)  # thousands of logs share few names: saves a tenth of the time
def _dotless(what: str, name: str) -> str:
    _part(f"the {what}'s name", name, MAX_NAME)
    if name.startswith("."):  # the store keeps its own files under such names
        raise InvalidName(f"the {what}'s name is {name!r}; it must not begin with a dot")
    return name


@lru_cache(maxsize=1024)
def log_name(name: str) -> str:
    """*name*, if it can name a log: parts separated by ``/``, relative; raises InvalidName."""
    if name.startswith("/"):
        raise InvalidName(f"the log's name {quoted(name)} is absolute; give it relative to the producer's root")
    if len(name) > MAX_LOG:
        raise InvalidName(f"the log's name has {len(name)} characters; at most {MAX_LOG} are allowed")
    parts = name.split("/")
    if len(parts) > MAX_PARTS:
        raise InvalidName(f"the log's name has {len(parts)} parts; at most {MAX_PARTS} are allowed")
    for part in parts:
        _part("the log's name", part, MAX_PART, whole=not name)
        if part.startswith(".") and _STORES_OWN.fullmatch(part):
            raise InvalidName(f"the log's name has the part {part!r}, which the store uses for its own files")
    return name


def stand_in(path: str) -> str:
    """*path*, if it can name a log; otherwise a similar name that no other path gets."""
    try:
        return log_name(path)
    except InvalidName:
        import hashlib  # rarely needed

        digest = hashlib.blake2b(os.fsencode(path), digest_size=4).hexdigest()
        return f"{re.sub('[^A-Za-z0-9._-]+', '_', path)[-STAND_IN:]}-{digest}"


def parse_address(address: str) -> tuple[str, int]:
    """(host, port) of ``HOST:PORT``; an IPv6 address stands in brackets. Raises InvalidOption."""
    return _parsed(address, "from 1 to 65535, or 0 for any free port")


def receiver_address(address: str) -> tuple[str, int]:
    """As ``parse_address``, for a receiver to connect to: port 0 is invalid too."""
    host, port = _parsed(address, "from 1 to 65535")
    if port == 0:
        raise InvalidOption(f"{address!r} has no usable port: give the port that the receiver printed")
    return host, port


def _parsed(address: str, ports: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not _HOST.fullmatch(host) or not _PORT.fullmatch(port):
        raise InvalidOption(f"{address!r} is not an address: write HOST:PORT, as in 127.0.0.1:4721")
    if len(port) > 5 or int(port) > 65535:
        raise InvalidOption(f"the port of {address!r} is out of range: give one {ports}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether the address part *host* is this machine on any network."""
    return host in ("localhost", "[::1]") or host.startswith("127.")


# --- sorting and matching names


@lru_cache(maxsize=4096)  # the sites and logs of a run repeat the same names thousands of times
def natural(name: str) -> tuple[tuple[str | int, ...], str]:
    """A key that sorts ``rank-2`` before ``rank-10``."""
    parts = re.split(r"([0-9]+)", name)
    return tuple(int(part) if number % 2 else part for number, part in enumerate(parts)), name


def nearest(name: str, known: Iterable[str], like: float = 0.6) -> str:
    """The name of *known* closest to *name*; empty if none is at least *like* it (1: equal)."""
    import difflib  # needed after a typo only

    alike = {each.casefold(): each for each in sorted(known, key=natural, reverse=True)}
    found = difflib.get_close_matches(name.casefold(), reversed(alike), 1, like)
    return alike[found[0]] if found else ""


def meant(name: str, known: Iterable[str], like: float = 0.6) -> str:
    """``: did you mean ...?`` with the closest of *known*; empty if none is at least *like* it."""
    found = nearest(name, known, like)
    return f": did you mean {found}?" if found else ""
