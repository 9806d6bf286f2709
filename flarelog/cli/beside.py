"""``flarelog serve --web``: the page as a process beside the receiver.

It ends with the receiver, and is started again if it ends by itself. It reads from the receiver as any page does, and
has no part in what is received. Where readers show tokens, it has one of its own that ends with it, and gets the secret
over its stdin: whoever may start the page may read the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from types import TracebackType

from flarelog.backoff import delay
from flarelog.errors import FlarelogError, InvalidOption
from flarelog.names import parse_address
from flarelog.security.tls import Tls
from flarelog.security.tokens import MAX_LIFETIME, PAGES, Tokens

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before a page that has ended is started again
LASTS = 30.0  # seconds after which a page that ends is no failed start
END_WITHIN = 10.0  # seconds, after which a page that was told to end is killed
_ANY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}  # noqa: S104  where a receiver listens everywhere


class Beside:
    """The page at *listen*, of a receiver with *tls*. Use as an asynchronous context manager.

    *tokens*: those that people show at a port of the receiver, if it has one. Raises InvalidOption.
    """

    def __init__(self, listen: str, tls: Tls | None, tokens: Tokens | None) -> None:
        parse_address(listen)
        if tls is not None and tokens is None:
            raise InvalidOption("web with TLS needs a port where people show tokens: give reader_listen as well")
        self._listen, self._tls, self._tokens = listen, tls, tokens
        self._secret = ""
        self._task: asyncio.Task[None] | None = None

    def begin(self, address: str, readers: str) -> None:
        """The receiver accepts connections at *address*, and readers' at *readers*, if it has such a port."""
        host, port = parse_address(readers or address)
        words = ["--receiver", f"{_ANY.get(host, host)}:{port}", "--listen", self._listen]
        if self._tls is not None:
            words += ["--tls-ca", self._tls.ca]
            words += ["--tls-server-name", self._tls.server_name] if self._tls.server_name else []
        if self._tokens is not None:
            self._secret = self._let_in(self._tokens)
        self._task = asyncio.create_task(self._run(words))

    async def __aenter__(self) -> Beside:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._tokens is not None:
            with contextlib.suppress(FlarelogError):
                _shut_out(self._tokens)

    def _let_in(self, tokens: Tokens) -> str:
        """The secret of a new token; empty where there can be none."""
        try:
            _shut_out(tokens)  # a receiver that was killed has left its own
            return tokens.create(PAGES, lifetime=MAX_LIFETIME, now=time.time())[1]
        except FlarelogError as error:
            log.error("the page has no token, and its own logins read nothing: %s", error)
            return ""

    async def _run(self, words: list[str]) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            began = loop.time()
            code = await self._once(words)
            failures = 0 if loop.time() - began > LASTS else failures + 1
            pause = delay(max(0, failures - 1), FIRST_PAUSE, LONGEST_PAUSE)
            log.error("the page ended with exit code %d; it is started again in %.0f s", code, pause)
            await asyncio.sleep(pause)

    async def _once(self, words: list[str]) -> int:
        command = (sys.executable, "-m", "flarelog", "web", *words, "--until-stdin-ends")
        page = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        try:
            if page.stdin is not None:
                page.stdin.write(f"{self._secret}\n".encode())
            return await page.wait()
        finally:
            if page.stdin is not None:
                page.stdin.close()
            try:
                async with asyncio.timeout(END_WITHIN):
                    await page.wait()
            except TimeoutError:
                page.kill()


def _shut_out(tokens: Tokens) -> None:
    for token in tokens.all():
        if token.name == PAGES:
            tokens.revoke(token.id)
