"""``flarelog serve --web``: the web page as a process beside the receiver.

The page ends with the receiver, and is restarted if it ends by itself. It reads from the receiver like any client, and
cannot affect what is received. If readers need tokens, the page has one of its own that is revoked when it ends, and
gets the secret over stdin: a user who may start the page may read the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time

from flarelog.backoff import delay
from flarelog.errors import CannotListen, FlarelogError, InvalidOption
from flarelog.names import is_loopback, parse_address
from flarelog.security.tls import Tls
from flarelog.security.tokens import MAX_LIFETIME, PAGES, Tokens

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # seconds before an ended page is restarted
LASTS = 30.0  # seconds of life after which an end counts as no failed start
END_WITHIN = 10.0  # seconds before a page that was told to end is killed
_ANY = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "": "127.0.0.1"}  # noqa: S104  where to connect if it listens on all


def check(listen: str) -> None:
    """Raises InvalidOption if no page beside a receiver can be at *listen*."""
    host, port = parse_address(listen)
    if not is_loopback(host):
        raise InvalidOption(
            f"web {listen} is not on loopback, where plain HTTP can be overheard: give 127.0.0.1:{port}; for other"
            " machines run flarelog web --trust-proxy by itself, with a proxy before it that ends TLS"
        )


def demand_free(listen: str) -> None:
    """Raises InvalidOption if the page cannot listen at *listen*."""
    from flarelog.viewers.web.serving import bound

    try:
        bound(listen).close()
    except CannotListen as error:
        raise InvalidOption(f"web {str(error).removeprefix('cannot listen at ')}") from error


class Beside:
    """The page at *listen*, for a receiver with *tls*. Use as an asynchronous context manager.

    *tokens*: those of the receiver's port for readers, if it has one. Raises InvalidOption.
    """

    def __init__(self, listen: str, tls: Tls | None, tokens: Tokens | None) -> None:
        check(listen)
        if tls is not None and tokens is None:
            raise InvalidOption("web with TLS needs a port where people show tokens: give reader_listen as well")
        self._listen, self._tls, self._tokens = listen, tls, tokens
        self._secret = ""
        self._task: asyncio.Task[None] | None = None

    def begin(self, address: str, readers: str) -> None:
        """Start the page for the receiver at *address*; *readers*: the address of its port for readers, or empty."""
        host, port = parse_address(readers or address)
        words = ["--receiver", f"{_ANY.get(host, host)}:{port}", "--listen", self._listen]
        if self._tls is not None:
            words += ["--tls-ca", self._tls.ca]
        if self._tokens is not None:
            self._secret = self._let_in(self._tokens)
        self._task = asyncio.create_task(self._run(words))

    async def __aenter__(self) -> Beside:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._tokens is not None:
            with contextlib.suppress(FlarelogError):
                _shut_out(self._tokens)

    def _let_in(self, tokens: Tokens) -> str:
        """The secret of a new token; empty if none can be made."""
        try:
            _shut_out(tokens)  # revoke the token of a receiver that was killed
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
