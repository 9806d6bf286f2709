"""Valid names of a run, a site, a reader and a log, and addresses of a receiver.

Names are validated once, at the edge, and map one to one to paths: no valid name leads out of its directory.

A file or a directory may have any name. In the name of its log or run each byte that is no letter, digit, ``.``, ``_``
or ``-`` is ``%XX``; ``%`` itself is ``%25``. A part that is then too long is cut to ``BEGINNING%-HASH-END``, and a path
that is then too long or too deep to ``FIRST/%-HASH-/LAST``: the hash is that of the whole part or path. Each path has
one name, and no two paths have the same. Where the store cannot hold that name beside others, as of ``a`` and ``a/b``,
the log is stored as ``%-HASH-LAST``. ``DIRECTORY/%2E`` is about a directory that cannot be listed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from flarelog.errors import InvalidName, InvalidOption
from flarelog.late import late
from flarelog.text import legible, quoted

DOCTORS_RUN = "flarelog-doctor"  # the run of the test records of flarelog doctor
DOCTORS_LOG = "flarelog-doctor.log"  # the log of each test record
MAX_NAME = 128
MAX_PART = 200  # leaves room in a 255-byte file name for the journal's prefix and suffixes
MAX_LOG = 1024
ASKED = 4  # generations of a log in whose records its path is looked for: a log may have very many
UID_SHOWN = 8  # characters of a pod's UID in the names of its logs
DIRECTORY = "."  # the last part of the path of a log about the directory before it, which cannot be listed
MAX_PARTS = 16  # of a log's name: each but the last is a directory, which costs the receiver an fsync

_HOST = late(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?\]")
_IN_NET = late(r"127(?:\.[0-9]{1,3}){1,3}")
_SCHEME = late(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*).*")
_PORT = late(r"[0-9]+")
_PART = late(r"[A-Za-z0-9._-]+")
_ODD = late(rb"[^A-Za-z0-9._-]")  # a byte that a log's name cannot have
_ESCAPED = late(r"%([0-9A-F]{2})")
_CUT = late(r"(.*)%-[0-9a-f]{32}-(.*)")
_BESIDE = late(r"%-[0-9a-f]{32}-(.*)")
_MIDDLE = late(r"%-[0-9a-f]{32}-")
_IMPOSSIBLE = late(rb"[/\0]")  # in a file's name
_LONGEST_SIGN = 12  # characters of one that takes four bytes in UTF-8
# The case of letters is ignored: some file systems do not tell it apart.
_DIRECTORY = "%2E"  # stands for DIRECTORY
_STORES_OWN = late(r"\..+\.(journal(\.new)?|quarantine\.\d+(\.old-journal)?)", re.IGNORECASE)


def _part(what: str, part: str, limit: int, *, whole: bool = True, more: str = "") -> str:
    if not part:
        raise InvalidName(f"{what} is empty" if whole else f"{what} has an empty part; name each part")
    if part in (".", ".."):
        raise InvalidName(f"{what} has the part {part!r}; use a relative path without '.' and '..'")
    if len(part) > limit:
        of = "" if whole else "a part of "
        raise InvalidName(f"{what} has {of}{len(part)} characters; at most {limit} are allowed")
    if not _PART.fullmatch(part):
        raise InvalidName(f"{what} is {quoted(part)}; use only letters a-z and A-Z, digits, '.', '_' and '-'{more}")
    return part


class _Kind(NamedTuple):
    """How the parts of one kind of name are encoded."""

    what: str
    most: int  # characters of a part
    beginning: int  # characters, at most, of a cut part before its hash
    end: int  # and after it
    own: re.Pattern[str]  # names that the store uses for its own files

    def encoded(self, raw: bytes) -> str:
        """The part that a file or a directory with the name *raw* becomes."""
        found = self.apart(_encoded(raw))
        if len(found) <= self.most:
            return found
        text = os.fsdecode(raw)
        beginning, end = (
            _fitting(text[: self.beginning], self.beginning),
            _fitting(text[: -self.end - 1 : -1], self.end),
        )
        return self.apart(f"{''.join(beginning)}%-{_hash(raw)}-{''.join(reversed(end))}")

    def apart(self, part: str) -> str:
        """*part*, or another name in place of one that the store uses for its own files."""
        return f"%2E{part[1:]}" if part.startswith(".") and self.own.fullmatch(part) else part

    def check(self, part: str) -> None:
        """Raises InvalidName if *part*, which has a ``%``, is not what ``encoded`` returns for some name."""
        if len(part) > self.most:
            raise InvalidName(f"{self.what} has a part of {len(part)} characters; at most {self.most} are allowed")
        if not (self._is_whole(part) or self._is_cut(part)):
            raise InvalidName(
                f"{self.what} has the part {quoted(part)}, which is not encoded correctly: %XX, in upper case, stands"
                " for a byte that is no letter, digit, '.', '_' or '-'"
            )

    def _is_whole(self, part: str) -> bool:
        raw = _decoded(part)
        return self.apart(_encoded(raw)) == part and not _IMPOSSIBLE.search(raw) and raw not in (b".", b"..")

    def _is_cut(self, part: str) -> bool:
        found = _CUT.fullmatch(part)
        if found is None:
            return False
        beginning = found[1]
        if beginning.startswith("%2E") and self.apart(f".{part[3:]}") == part:
            beginning = f".{beginning[3:]}"
        return all(
            most - _LONGEST_SIGN < len(piece) <= most
            and _encoded(raw := _decoded(piece)) == piece
            and not _IMPOSSIBLE.search(raw)
            for piece, most in ((beginning, self.beginning), (found[2], self.end))
        )


_RUN = _Kind("the run's name", MAX_NAME, 60, 30, late(r"\..*", re.DOTALL))
_LOG = _Kind("the log's name", MAX_PART, 120, 40, _STORES_OWN)


@lru_cache(maxsize=1024)
def run_name(name: str) -> str:
    """*name*, if it can name a run; raises InvalidName."""
    if "%" in name:
        _RUN.check(name)
        return name
    return site_name(name, "run")


@lru_cache(maxsize=4096)
def run_of(directory: str) -> str:
    """The name of the run whose directory has the name *directory*. Raises InvalidName."""
    if directory in ("", ".", "..") or "/" in directory:
        return run_name(directory)
    return _RUN.encoded(_raw(directory, _RUN))


def log_of_pod(namespace: str, pod: str, uid: str, container: str) -> str:
    """The path of the log of a *container*, as an agent names it from the directories on a node."""
    return f"{namespace}/{pod}.{uid[:UID_SHOWN]}/{container}.log"


def given_run(text: str) -> str:
    """The name of the run that a user calls *text*: its name in the store, or else its directory's. Raises
    InvalidName.
    """
    try:
        return run_name(text)
    except InvalidName:
        return run_of(text)


@lru_cache(maxsize=1024)  # thousands of logs share few names: saves a tenth of the time
def site_name(name: str, what: str = "site") -> str:
    """*name*, if it can name a site, or a person whose role is *what*; raises InvalidName."""
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
    for number, part in enumerate(parts):
        if "%" not in part:
            _part("the log's name", part, MAX_PART, whole=not name, more=", and %XX for any other byte")
        elif part == _DIRECTORY and 0 < number == len(parts) - 1:
            pass
        elif not (len(parts) == 3 and number == 1 and _MIDDLE.fullmatch(part)) and not _is_beside(name):
            _LOG.check(part)
        if part.startswith(".") and _STORES_OWN.fullmatch(part):
            raise InvalidName(f"the log's name has the part {part!r}, which the store uses for its own files")
    return name


@lru_cache(maxsize=4096)
def log_of(path: str) -> str:
    """The name of the log that the file at *path* is, relative to the producer's root. Raises InvalidName."""
    if path and _PART.fullmatch(path) and len(path) <= MAX_PART and not path.startswith("."):
        return path
    raw = _raw(path, _LOG)
    parts = [_LOG.encoded(part) for part in raw.split(b"/")]
    if len(parts) > 1 and parts[-1] == DIRECTORY:
        parts[-1] = _DIRECTORY
    if (len(parts) > MAX_PARTS or sum(map(len, parts)) + len(parts) - 1 > MAX_LOG) and not {"", ".", ".."} & {*parts}:
        parts = [parts[0], f"%-{_hash(raw)}-", parts[-1]]
    return log_name("/".join(parts))


def beside(path: str) -> str:
    """The name of the log that the file at *path* is, where the store cannot hold that of ``log_of``."""
    raw = _raw(path, _LOG)
    last = _LOG.encoded(raw.rpartition(b"/")[2])
    name = f"%-{_hash(raw)}-{last}"
    return name if len(name) <= MAX_PART and _is_beside(name) else f"%-{_hash(raw)}-"


def _is_beside(name: str) -> bool:
    """Whether ``beside`` returns *name* for some path."""
    found = _BESIDE.fullmatch(name)
    if found is None or len(name) > MAX_PART:
        return False
    last = found[1]
    return not last or (
        _LOG._is_whole(last) if "%" in last else bool(_PART.fullmatch(last)) and last not in (".", "..")
    )


@lru_cache(maxsize=4096)
def path_of(log: str) -> str:
    """The path whose log, or the directory whose run, has the valid name *log*; of a cut one the path with its hash."""
    return os.fsdecode(_decoded(log)) if "%" in log else log


def shown(name: str) -> str:
    """The valid *name* of a run or a log as people see it: the name of its directory or file."""
    return legible(path_of(name))


def told_of(path: str) -> str:
    """*path* as text for the record of a log whose name is cut: readers find the path in it."""
    return path if path.isprintable() else "/".join(map(_encoded, os.fsencode(path).split(b"/")))


def found_in(told: Iterable[str], log: str) -> str:
    """The path whose log has the name *log*, which is cut, if one of the first of *told* is that path; else empty."""
    for text in islice(told, ASKED):
        with suppress(ValueError):
            for path in (text, path_of(text)):
                if log in (log_of(path), beside(path)):
                    return path
    return ""


def is_cut(log: str) -> bool:
    """Whether the path of the file of the log with the valid name *log* cannot be told from it: the name was too long,
    or was taken.
    """
    return "%-" in log


def _raw(path: str, kind: _Kind) -> bytes:
    try:
        raw = os.fsencode(path)
    except UnicodeError:
        raise InvalidName(f"{kind.what} is {quoted(path)}, which no file can have") from None
    if b"\0" in raw:
        raise InvalidName(f"{kind.what} is {quoted(path)}, and no file's name has a zero byte")
    return raw


def _encoded(raw: bytes) -> str:
    return _ODD.sub(lambda found: b"%%%02X" % ord(found[0]), raw).decode()


def _decoded(text: str) -> bytes:
    return b"".join(
        bytes.fromhex(piece) if number % 2 else os.fsencode(piece) for number, piece in enumerate(_ESCAPED.split(text))
    )


@lru_cache(maxsize=1024)
def _encoded_sign(sign: str) -> str:
    return _encoded(os.fsencode(sign))


def _fitting(signs: str, most: int) -> list[str]:
    """The first of *signs*, encoded, together at most *most* characters."""
    size, found = 0, list[str]()
    for sign in map(_encoded_sign, signs):
        size += len(sign)
        if size > most:
            break
        found.append(sign)
    return found


def _hash(raw: bytes) -> str:
    import hashlib  # rarely needed

    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def parse_address(address: str) -> tuple[str, int]:
    """(host, port) of ``HOST:PORT``; an IPv6 address stands in brackets. Raises InvalidOption."""
    return _parsed(address, "from 1 to 65535, or 0 for any free port")


def receiver_address(address: str) -> tuple[str, int]:
    """As ``parse_address``, for a receiver to connect to: port 0 is invalid too."""
    host, port = _parsed(address, "from 1 to 65535")
    if port == 0:
        raise InvalidOption(f"{address!r} has no usable port: give the port that the receiver printed")
    return host, port


def receiver_ends(receiver: str) -> tuple[str, ...]:
    """The addresses in *receiver*: ``HOST:PORT``, or several with commas, interchangeable ends of one store. Raises
    InvalidOption.
    """
    ends = tuple(dict.fromkeys(end.strip() for end in receiver.split(",")))
    for end in ends:
        receiver_address(end)
    return ends


def independent(receivers: Iterable[str]) -> tuple[str, ...]:
    """*receivers*, each once. Raises InvalidOption if two of them share an end: its store would get each log twice, and
    one producer would fence the other.
    """
    found, owners = tuple(dict.fromkeys(receivers)), dict[str, str]()
    for receiver in found:
        for end in dict.fromkeys(part.strip() for part in receiver.split(",")):
            if owners.setdefault(end, receiver) != receiver:
                raise InvalidOption(f"{quoted(end)} is in two receivers: name it once")
    return found


def _parsed(address: str, ports: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not _HOST.fullmatch(host) or not _PORT.fullmatch(port):
        raise InvalidOption(f"{quoted(address)} is not an address: {_advice(address)}")
    if len(port) > 5 or int(port) > 65535:
        raise InvalidOption(f"the port of {quoted(address)} is out of range: give one {ports}")
    return host, int(port)


def _advice(address: str) -> str:
    """How to write *address* as ``HOST:PORT``."""
    if scheme := _SCHEME.fullmatch(address):
        ports = ("", ":443" if scheme[1].lower() == "https" else ":4721")
        rest = next((f", as in {scheme[2]}{port}" for port in ports if _valid(f"{scheme[2]}{port}")), "")
        return f"leave out {scheme[1]}://{rest}"
    host, _, port = address.rpartition(":")
    for ip, its_port in ((host, port), (address.strip("[]"), "4721")):
        if ":" in ip and _packed(ip) is not None and _valid(f"[{ip}]:{its_port}"):
            return f"an IPv6 address needs brackets and a port, as in [{ip}]:{its_port}"
    if _PORT.fullmatch(address):
        return f"it is a port alone: write HOST:PORT, as in 127.0.0.1:{address}"
    return (
        f"write HOST:PORT, as in {address}:4721"
        if _valid(f"{address}:4721")
        else "write HOST:PORT, as in 127.0.0.1:4721"
    )


def _valid(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return bool(_HOST.fullmatch(host) and _PORT.fullmatch(port))


def _packed(ip: str) -> bytes | None:
    """The 16 bytes of the IPv6 address *ip*, which may have a zone; None if it is none."""
    import socket  # rarely needed

    try:
        return socket.inet_pton(socket.AF_INET6, ip.partition("%")[0])
    except (OSError, UnicodeError):  # a surrogate in an argument stands for a byte that is no UTF-8
        return None


def is_loopback(host: str) -> bool:
    """Whether the address part *host* is this machine on any network."""
    if host.startswith("["):
        packed = _packed(host.strip("[]")) or b""
        return packed == b"\0" * 15 + b"\1" or packed.startswith(b"\0" * 10 + b"\xff\xff\x7f")
    return host == "localhost" or _IN_NET.fullmatch(host) is not None


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
