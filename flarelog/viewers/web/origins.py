"""With whose rights is read: those of the page's own process, or those of the token that somebody gave.

An origin is entered once for all sessions that read with the same rights, and let go when the last of them has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from flarelog.errors import NotAllowed
from flarelog.values import frozen
from flarelog.viewers.origin import RunsOrigin


@frozen
class Sources:
    """Where the page's process reads. *own*: with its own rights. *of_token*: with those of a token; None: no token can
    be judged. *how*: the options by which a command reads there. *some*: its own rights may be for some runs alone.
    """

    name: str
    own: Callable[[], RunsOrigin]
    of_token: Callable[[str], RunsOrigin] | None = None
    how: tuple[str, ...] = ()
    some: bool = False


@dataclass(slots=True, eq=False)
class Rights:
    """An origin, and how many sessions read with it. *key*: of those that share it."""

    key: bytes
    origin: RunsOrigin
    stack: contextlib.AsyncExitStack
    sessions: int = 0


class Origins:
    """Those that are entered."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._open: dict[bytes, Rights] = {}

    async def own(self) -> Rights:
        """With the rights of this process."""
        return await self._entered(b"", self.sources.own)

    async def of_token(self, token: str) -> Rights:
        """With those of *token*. Raises NotAllowed, CannotConnect."""
        make = self.sources.of_token
        if make is None:
            raise NotAllowed("this page takes no token: open the address that flarelog web login prints")
        return await self._entered(hashlib.sha256(token.encode("utf-8", "replace")).digest(), lambda: make(token))

    async def _entered(self, key: bytes, make: Callable[[], RunsOrigin]) -> Rights:
        found = self._open.get(key)
        if found is None:
            stack = contextlib.AsyncExitStack()
            origin = make()
            await stack.enter_async_context(origin)
            if key in self._open:  # another session was as fast
                await stack.aclose()
                found = self._open[key]
            else:
                found = self._open[key] = Rights(key, origin, stack)
        found.sessions += 1
        return found

    async def leave(self, rights: Rights) -> None:
        """A session of *rights* has ended."""
        rights.sessions -= 1
        if not rights.sessions:
            self._open.pop(rights.key, None)
            await rights.stack.aclose()

    async def close(self) -> None:
        for rights in list(self._open.values()):
            await rights.stack.aclose()
        self._open.clear()
