"""``flarelog serve``: the receiving process."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any, cast

import click

from flarelog.access import PolicyFile
from flarelog.cli import checked, more_descriptors, on_hangup, on_stop, option, run, tls_of, tls_options, tune_memory
from flarelog.delivery.liveness import IDLE_TIMEOUT
from flarelog.delivery.quota import MAX_IN_FLIGHT, MAX_SITE_STREAMS, MAX_STREAMS
from flarelog.errors import InvalidOption, NotAllowed
from flarelog.server import LISTEN, Server, ServerOptions
from flarelog.stores.local import Durability, LocalStore
from flarelog.tls import Tls
from flarelog.tokens import Tokens, tokens_path


@click.command
@option(
    "--store", required=True, type=click.Path(file_okay=False), help="Directory of the logs; one receiver at a time."
)
@option("--listen", default=LISTEN, show_default=True, help="HOST:PORT; port 0 takes a free one.")
@option(
    "--durability",
    type=click.Choice(["disk", "memory"]),
    default="disk",
    show_default=True,
    help="Acknowledge what is on the disk, or what is written (survives a kill, not a power cut).",
)
@option("--idle-timeout", type=float, default=IDLE_TIMEOUT, show_default=True, help="Seconds of silence.")
@option("--announced-runs-only", is_flag=True, help="Take only runs that run-start announced.")
@option("--max-run-bytes", type=int, help="Bytes that the logs of one run may take in the store; no limit by default.")
@option("--max-site-bytes", type=int, help="Bytes, of the logs of one site in one run; no limit by default.")
@option("--max-streams", type=int, default=MAX_STREAMS, show_default=True, help="Logs that are open at once.")
@option(
    "--max-site-streams",
    type=int,
    default=MAX_SITE_STREAMS,
    show_default=True,
    help="Logs of one site in one run that are open at once.",
)
@option(
    "--max-in-flight",
    type=int,
    default=MAX_IN_FLIGHT,
    show_default=True,
    help="Bytes that all logs together may have on their way: what a receiver may have to keep in memory.",
)
@tls_options
@option(
    "--policy",
    "policy_file",
    type=click.Path(dir_okay=False),
    help="TOML: who may do what. Without it a certificate pushes as the site of its name, and OU=reader reads.",
)
@option(
    "--reader-listen",
    default="",
    help="HOST:PORT of a second port, for readers and operators who show a token (flarelog token) and no certificate.",
)
@option("--insecure", is_flag=True, help="Let other machines in without TLS; on loopback it is not needed.")
@option(
    "--ready-file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Gets HOST:PORT once connections are accepted; with --reader-listen, FILE.reader gets the other one.",
)
def command(store: str, durability: str, ready_file: str | None, policy_file: str | None, **options: Any) -> None:
    """Receive the logs of all sites and store them as DIR/RUN/SITE/LOG.

    SIGTERM stops accepting, finishes what is being written, and ends. What is over a limit, or finds the
    disk full, is held at its site and goes on by itself when there is room. Certificates, policy and tokens are
    read again when they change, and at SIGHUP.

    \b
    Example: flarelog serve --store logs
    """
    tune_memory()
    more_descriptors()
    tls = tls_of(options)
    policy = checked(lambda: _policy(policy_file, tls)) if policy_file is not None else None
    tokens = Tokens(tokens_path(store))
    settings = checked(lambda: ServerOptions(tls=tls, policy=policy, tokens=tokens, **options))
    run(_serve(LocalStore(store, cast(Durability, durability)), settings, ready_file))


def _policy(path: str, tls: Tls | None) -> PolicyFile:
    if tls is None:
        raise InvalidOption(f"the policy {path} is of no use without TLS: nobody could say who he is")
    return PolicyFile(path)


async def _serve(store: LocalStore, options: ServerOptions, ready_file: str | None) -> None:
    stopped = asyncio.Event()
    on_stop(stopped.set)
    async with store:
        server = Server(store, options)
        on_hangup(server.reread)
        address = await server.start()
        try:
            if ready_file is not None:
                if server.reader_address:  # first: who sees the other file may look for this one
                    _write(f"{ready_file}.reader", server.reader_address)
                _write(ready_file, address)
            click.echo(f"receiving at {address} into {store.root}", err=True)
            if server.reader_address:
                click.echo(f"readers with a token at {server.reader_address}", err=True)
            await stopped.wait()
        finally:
            await server.stop()
            # gRPC's own tasks may still wait for a peer's goodbye, and complain on stderr when they are cancelled.
            if left := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(left, timeout=1.0)


def _write(path: str, address: str) -> None:
    """Whoever sees the file sees the whole address."""
    temporary = f"{path}.{os.getpid()}.new"
    try:
        with contextlib.suppress(FileNotFoundError):  # of one that was killed just there, and had the same number
            os.unlink(temporary)
        with open(temporary, "x", opener=lambda path, flags: os.open(path, flags | os.O_CLOEXEC, 0o644)) as file:
            file.write(address + "\n")
        os.replace(temporary, path)
    except OSError as error:
        raise NotAllowed(f"the ready file {path} cannot be written: {error.strerror}") from error
