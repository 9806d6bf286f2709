"""The rights with which the page reads: those of its own process, or those of a token that a person gave.

Sessions with the same rights share an origin, which is closed when the last of them has ended.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from flarelog.errors import NotAllowed
from flarelog.values import frozen
from flarelog.viewers.origin import Origin


@frozen
class Sources:
    """Makes the page's origins. *own*: with its process's rights. *of_token*: with a token's; None: no token can be
    checked. *how*: the options by which a command reads there. *some*: its own rights may be for some runs alone.
    """

    name: str
    own: Callable[[], Origin]
    of_token: Callable[[str], Origin] | None = None
    how: tuple[str, ...] = ()
    some: bool = False


@dataclass(slots=True, eq=False)
class Rights:
    """An origin, and the number of its sessions. *key*: identifies the rights."""

    key: bytes
    origin: Origin
    stack: contextlib.AsyncExitStack
    sessions: int = 0


class Origins:
    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._open: dict[bytes, Rights] = {}

    async def own(self) -> Rights:
        """An origin with the rights of this process."""
        return await self._entered(b"", self.sources.own)

    async def checked(self, token: str) -> Rights:
        """An origin with the rights of *token*, which the receiver knows. Raises FlarelogError."""
        make = self.sources.of_token
        if make is None:
            raise NotAllowed("this page takes no token: open the address that flarelog web login prints")
        rights = await self._entered(hashlib.sha256(token.encode("utf-8", "replace")).digest(), lambda: make(token))
        try:
            await rights.origin.infos()
        except BaseException:
            await self.leave(rights)
            raise
        return rights

    async def _entered(self, key: bytes, make: Callable[[], Origin]) -> Rights:
        found = self._open.get(key)
        if found is None:
            stack = contextlib.AsyncExitStack()
            origin = make()
            await stack.enter_async_context(origin)
            if key in self._open:  # a concurrent login was as fast
                await stack.aclose()
                found = self._open[key]
            else:
                found = self._open[key] = Rights(key, origin, stack)
        found.sessions += 1
        return found

    async def leave(self, rights: Rights) -> None:
        """Release *rights* for a session that has ended."""
        rights.sessions -= 1
        if not rights.sessions:
            self._open.pop(rights.key, None)
            await rights.stack.aclose()

    async def close(self) -> None:
        for rights in list(self._open.values()):
            await rights.stack.aclose()
        self._open.clear()
