"""``flarelog web``: the runs of a receiver or a store in a browser; ``flarelog web login`` prints a login."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import click

from flarelog.cli.options import (
    RECEIVER,
    STORE,
    Access,
    Place,
    asks,
    client_options,
    one_source,
    option,
    store_option,
)
from flarelog.cli.ready import ready_file
from flarelog.cli.running import checked, on_end_of_stdin, on_stop, run, say
from flarelog.cli.tuning import give_memory_back
from flarelog.errors import NotAllowed, NotFound, NotInstalled
from flarelog.locks import take
from flarelog.names import receiver_ends
from flarelog.replace import make_directory, replace_file
from flarelog.viewers.origin import Origin, ReceiverOrigin, StoreOrigin
from flarelog.viewers.web.options import WebOptions
from flarelog.viewers.web.sessions import KEY_SIZE, new_key, signed

YOUNG = 60.0  # seconds
KEY_EVERY = 5  # seconds between two looks whether the key is still there

EXAMPLES = """\b
Examples:
  # the runs of a receiver; the command prints the address to open
  flarelog web --receiver logs:4721
  # of a store on this machine
  flarelog web --store logs
  # another login for the page that runs already
  flarelog web login
"""


@click.command(
    help=f"""{EXAMPLES}

Show the runs of a receiver, or of a store on this machine, in a browser: the state of the sites, and their logs, live
and at any place. The command prints an address that logs one browser in, once and within 60 s. While the page runs,
the same user of this machine gets another address from flarelog web login. A token of the receiver logs in as well,
and its holder sees what the token may read.
""",
)
@click.argument("action", type=click.Choice(["serve", "login"]), default="serve", metavar="[login]")
@store_option(STORE)
@option("--receiver", help=RECEIVER)
@client_options
@asks(page=WebOptions)
@click.option("--ready-file", "ready_path", type=click.Path(dir_okay=False, readable=False), metavar="FILE",
              help="Write the address of the page to this file when it is ready.")  # fmt: skip
@click.option(
    "--until-stdin-ends",
    is_flag=True,
    hidden=True,
    help="End when stdin does, whose first line is a token, as serve --web wants it.",
)
def command(
    action: str,
    store: str | None,
    receiver: str | None,
    access: Access,
    page: partial[WebOptions],
    ready_path: str | None,
    until_stdin_ends: bool,
) -> None:
    options = checked(page)
    if action == "login":
        key = checked(lambda: _key(options))
        click.echo(address(options, key))
        return
    store, receiver = one_source(click.get_current_context(), store, receiver)
    if receiver is not None:
        checked(partial(receiver_ends, receiver))
        checked(access.demand)
    checked(installed)
    tell = checked(lambda: click.get_current_context().with_resource(ready_file(ready_path)))
    run(_serve(options, store, receiver or "", access, tell, until_stdin_ends=until_stdin_ends))


def installed() -> None:
    """Check the page's dependencies. Raises NotInstalled."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise NotInstalled("the page needs starlette and uvicorn: pip install 'flarelog[web]'")


async def _serve(
    options: WebOptions,
    store: str | None,
    receiver: str,
    access: Access,
    tell: Callable[[str, str], None],
    *,
    until_stdin_ends: bool,
) -> None:
    from flarelog.viewers.web.application import app
    from flarelog.viewers.web.origins import Sources
    from flarelog.viewers.web.serving import bound, serve

    give_memory_back()
    stopped = asyncio.Event()
    on_stop(stopped.set)
    token = None
    if until_stdin_ends:
        token = (sys.stdin.readline().strip() if sys.stdin is not None else "") or None
        on_end_of_stdin(stopped.set)

    def own() -> Origin:
        return StoreOrigin(store) if store is not None else of_token(token)

    def of_token(token: str | None) -> Origin:
        return ReceiverOrigin(receiver, lambda: access.client(receiver, token))

    own()  # check the options before listening
    with contextlib.closing(bound(options.listen)) as listening:
        port = listening.getsockname()[1]
        options = replace(options, listen=f"{options.host}:{port}")
        key = new_key()
        place = Place(os.path.abspath(store) if store is not None else None, receiver, access)
        some = store is None and bool(access.token_file or access.named.keywords.get("cert"))
        sources = Sources(str(place), own, None if store is not None else of_token, place.words, some)
        with _kept(options, key) as again:

            async def keep() -> None:
                while True:
                    await asyncio.sleep(KEY_EVERY)
                    again()

            def ready() -> None:
                tell(options.listen, "")
                if until_stdin_ends:  # serve --web's log is kept longer than a login may live
                    say(f"web: the page is at {options.origin}/ and {options.login} prints a login")
                    return
                say(f"web: the page is at {options.origin}/ and this address logs one browser in, within 60 s:")
                say(address(options, key))

            keeping = asyncio.create_task(keep())
            await serve(app(sources, options, key), listening, stopped, ready)
            keeping.cancel()


def address(options: WebOptions, key: bytes) -> str:
    """The page's address, which logs one browser in: the part after # is in no request and in no log."""
    return f"{options.origin}/#login={signed(key, time.time())}"


# --- the key, which flarelog web login reads


def _place(options: WebOptions) -> Path:
    """The file of the key. Raises NotFound where the user has no directory for it."""
    base = os.environ.get("XDG_RUNTIME_DIR") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if base.startswith("~"):  # as in a container that runs as a user without an entry in /etc/passwd
        raise NotFound("this user has no home directory: set XDG_RUNTIME_DIR to a directory that this user may write")
    return Path(base) / "flarelog" / f"web-{options.port}.key"


@contextlib.contextmanager
def _kept(options: WebOptions, key: bytes) -> Iterator[Callable[[], None]]:
    """Keep the file of *key*, readable for this user alone, inside the block. Its lock shows that the page runs: keys
    without one, of pages that were killed, are removed. The result writes the file again where somebody has removed it.
    """
    path: Path | None = None
    with contextlib.ExitStack() as held:

        def write(path: Path) -> None:
            held.close()
            make_directory(path.parent)
            replace_file(path, key.hex().encode(), 0o600)
            take(held.enter_context(open(path, "r+b")).fileno())

        def again() -> None:
            with contextlib.suppress(OSError):
                if path is not None and not path.exists():
                    write(path)

        try:
            path = _place(options)
            write(path)
            _remove_dead(path)
        except (OSError, NotFound) as error:
            why = f"{path} cannot be written: {error.strerror}" if isinstance(error, OSError) else error
            say(f"flarelog: flarelog web login will not work: {why}")
        try:
            yield again
        finally:
            with contextlib.suppress(OSError):
                if path is not None and path.read_bytes() == key.hex().encode():
                    path.unlink()


def _remove_dead(own: Path) -> None:
    """Remove the keys beside *own* whose pages have ended; a page takes the lock of its key within YOUNG seconds. Pages
    of older versions take none, but listen.
    """
    for path in own.parent.glob("web-*.key"):
        with contextlib.suppress(OSError):
            old = path != own and time.time() - path.stat().st_mtime > YOUNG
            if old and not _listens(f"localhost:{path.stem.removeprefix('web-')}"):
                with open(path, "r+b") as file:
                    if take(file.fileno()) and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                        path.unlink()


def _listens(address: str) -> bool:
    """Whether anybody listens at *address*."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 1):
            return True
    except (OSError, ValueError, OverflowError):
        return False


def _key(options: WebOptions) -> bytes:
    """The key of the running page. Raises NotFound, NotAllowed."""
    path = _place(options)
    try:
        key = bytes.fromhex(path.read_text())
    except FileNotFoundError as error:
        if _listens(options.listen):
            raise NotFound(
                f"{options.listen} answers, but the key of its page, {path}, is missing: try again in {KEY_EVERY} s, or"
                " run this as the user who started flarelog web"
            ) from error
        raise NotFound(
            f"no page of this user runs at {options.listen}: start flarelog web, or give its --listen"
        ) from error
    except (OSError, ValueError) as error:
        raise NotAllowed(f"{path} cannot be read: run this as the user who started flarelog web") from error
    if len(key) != KEY_SIZE:
        raise NotAllowed(f"{path} is no key: start flarelog web again")
    return key
