"""Sessions: a login by a secret, which is valid once and for a minute, or by a token; then a cookie.

Told the time, in seconds since 1970. Secrets and cookies are compared as hashes or in constant time; sessions live in
memory alone, and end with the process.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

SECRET_FOR = 60.0  # seconds
KEY_SIZE = 32  # bytes
MOST, MOST_OF_ONE = 1000, 20  # sessions at once: of all users, of one user (one token, or the page's own rights)
AHEAD = 5.0  # seconds by which the clock of a process on the same machine may seem ahead

T = TypeVar("T")


def new_key() -> bytes:
    return secrets.token_bytes(KEY_SIZE)


def signed(key: bytes, now: float) -> str:
    """A secret that opens one session, within SECRET_FOR seconds from *now*."""
    said = f"{int(now)}.{secrets.token_urlsafe(16)}"
    return f"{said}.{_mac(key, said)}"


def _mac(key: bytes, said: str) -> str:
    return hmac.new(key, said.encode(), hashlib.sha256).hexdigest()


class Secrets:
    """Checks secrets that *key* has signed, each of which is valid once. An empty key has signed none."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._used: dict[str, float] = {}

    def takes(self, secret: str, now: float) -> bool:
        """Whether *secret* is valid; it is used up by that."""
        said, _, mac = secret.rpartition(".")
        if not self._key or not secret.isascii() or not hmac.compare_digest(_mac(self._key, said), mac):
            return False
        made = float(said.partition(".")[0])
        self._used = {one: at for one, at in self._used.items() if now - at <= SECRET_FOR + AHEAD}
        if not -AHEAD <= now - made <= SECRET_FOR or said in self._used:
            return False
        self._used[said] = made
        return True


@dataclass(slots=True, eq=False)
class Session(Generic[T]):
    """A login. *of*: the rights with which it reads, which identify its user."""

    who: str
    of: T
    until: float
    over: bool = False  # it was ended early
    under_way: int = 0  # requests
    archives: dict[bytes, str] = field(default_factory=dict)  # ETags, by the digest of a query; empty: of several ones
    places: dict[str, asyncio.Semaphore] = field(default_factory=dict)  # of requests under way, by kind


class Sessions(Generic[T]):
    """The open sessions, by the hash of their cookies."""

    def __init__(self, lasting: float) -> None:
        self._lasting = lasting
        self._open: dict[bytes, Session[T]] = {}

    def __iter__(self) -> Iterator[Session[T]]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def open(self, who: str, of: T, now: float) -> tuple[str, Session[T]]:
        """Open a session; return its cookie and the session. The caller first ends the ``surplus``."""
        cookie = secrets.token_urlsafe(KEY_SIZE)
        session = self._open[_digest(cookie)] = Session(who, of, now + self._lasting)
        return cookie, session

    def of(self, cookie: str, now: float) -> Session[T] | None:
        """The session of *cookie*, if there is one and it has not ended."""
        session = self._open.get(_digest(cookie)) if cookie else None
        return session if session is not None and now < session.until else None

    def end(self, session: Session[T]) -> None:
        session.over = True
        self._open = {digest: one for digest, one in self._open.items() if one is not session}

    def surplus(self, of: T, now: float) -> list[Session[T]]:
        """The sessions to end before *of* gets another one: the expired ones, and one if there is no room. A user's
        login never ends a session of a user who has fewer.
        """
        found = [one for one in self if one.until <= now]
        counts = Counter(one.of for one in self if now < one.until)
        full = of if counts[of] >= MOST_OF_ONE else max(counts, key=counts.__getitem__, default=of)
        if counts[of] >= MOST_OF_ONE or counts.total() >= MOST:
            found.append(min((one for one in self if one.of == full), key=lambda one: one.until))
        return found


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).digest()
