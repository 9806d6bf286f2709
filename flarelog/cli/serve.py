"""``flarelog serve``: the receiving process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from dataclasses import replace
from functools import partial
from typing import Any, cast

import click

from flarelog.cli import (
    checked,
    give_memory_back,
    more_descriptors,
    on_hangup,
    on_stop,
    option,
    run,
    say,
    tls_of,
    tls_options,
    tune_memory,
)
from flarelog.cli.workers import forget, place_of, say_ready, supervise, until_told
from flarelog.delivery.quota import (
    MAX_CONNECTIONS,
    MAX_IN_FLIGHT,
    MAX_PEER_CALLS,
    MAX_PEER_CONNECTIONS,
    MAX_PEER_OPENS,
    MAX_PEER_READS,
    MAX_RUNS,
    MAX_SITE_DIRECTORIES,
    MAX_SITE_JOURNAL_BYTES,
    MAX_SITE_JOURNAL_DISK,
    MAX_SITE_LOGS,
    MAX_SITE_STREAMS,
    MAX_SITES,
    MAX_STREAMS,
    READ_TIMEOUT,
)
from flarelog.errors import InvalidOption, NotAllowed
from flarelog.receiver.options import LISTEN, ServerOptions
from flarelog.receiver.retention import Keep, Retention
from flarelog.receiver.server import Server
from flarelog.receiver.workers.cluster import Workers
from flarelog.receiver.workers.place import check, divided
from flarelog.security.access import PolicyFile
from flarelog.security.connections import AGE
from flarelog.security.tls import Tls
from flarelog.security.tokens import Tokens, tokens_path
from flarelog.stores.local.store import Durability, LocalStore
from flarelog.wire.uplink import IDLE_TIMEOUT

COLLECT_EVERY = 60.0  # seconds


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
    help="When bytes are acknowledged. disk: when the disk has them; memory: when they are written, which survives a"
    " kill of the receiver, and not a power cut.",
)
@option(
    "--idle-timeout",
    type=float,
    default=IDLE_TIMEOUT,
    show_default=True,
    help="Seconds after which a sidecar that says nothing is taken for gone; its logs can be continued.",
)
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
@option("--max-run-rate", type=int, help="Bytes a second of one run; no limit by default.")
@option("--max-site-rate", type=int, help="Bytes a second of one site in one run; no limit by default.")
@option(
    "--max-site-journal-bytes",
    type=int,
    default=MAX_SITE_JOURNAL_BYTES,
    show_default=True,
    help="Bytes that the marks (rotations, gaps) of one site's open logs may take in memory and on disk.",
)
@option(
    "--max-site-journal-disk",
    type=int,
    default=MAX_SITE_JOURNAL_DISK,
    show_default=True,
    help="Bytes that the journals of one site's logs in one run may take on disk, open or not.",
)
@option(
    "--max-site-logs",
    type=int,
    default=MAX_SITE_LOGS,
    show_default=True,
    help="Logs of one site in one run, open or not.",
)
@option(
    "--max-site-directories",
    type=int,
    default=MAX_SITE_DIRECTORIES,
    show_default=True,
    help="Directories that the logs of one site in one run may lie in.",
)
@option(
    "--max-runs",
    type=int,
    default=MAX_RUNS,
    show_default=True,
    help="Runs that were announced and have not ended; without TLS all that have not ended.",
)
@option(
    "--max-site-runs",
    type=int,
    help="Runs that one site began, that nobody announced and that have not ended; with TLS 1000 by default.",
)
@option(
    "--keep-days",
    type=float,
    metavar="DAYS",
    help="Remove a run in which nothing has changed for so many days, ended or not.  [default: keep all]",
)
@option(
    "--keep-bytes",
    type=int,
    metavar="BYTES",
    help="Remove the oldest runs that have ended, or were silent for a day, while all take more; no limit by default.",
)
@option("--max-sites", type=int, default=MAX_SITES, show_default=True, help="Sites of one run.")
@option("--max-connections", type=int, default=MAX_CONNECTIONS, show_default=True, help="Connections, of all peers.")
@option(
    "--max-peer-connections",
    type=int,
    default=MAX_PEER_CONNECTIONS,
    show_default=True,
    help="Connections of one peer that have calls. A peer is whom its certificate names; without TLS an address.",
)
@option(
    "--max-peer-calls",
    type=int,
    default=MAX_PEER_CALLS,
    show_default=True,
    help="Calls of one peer that are open at once; a log that is sent is one.",
)
@option(
    "--max-peer-reads",
    type=int,
    default=MAX_PEER_READS,
    show_default=True,
    help="Calls of one peer, open at once, that read or list.",
)
@option(
    "--max-peer-opens",
    type=int,
    default=MAX_PEER_OPENS,
    show_default=True,
    help="Calls a second that one peer may begin; more are made to wait, once ten seconds' worth is used up.",
)
@option(
    "--read-timeout",
    type=float,
    default=READ_TIMEOUT,
    show_default=True,
    help="Seconds after which a reader that takes nothing is dropped.",
)
@option(
    "--workers",
    type=int,
    default=1,
    show_default=True,
    help="Processes that share the work, each site in one of them; for more than one core has to do.",
)
@click.option("--as-worker", is_flag=True, hidden=True)
@option("--no-compression", is_flag=True, help="Take nothing that is compressed on its way: sites send it as it is.")
@tls_options
@option(
    "--tls-crl",
    type=click.Path(dir_okay=False),
    help="Revocation lists (CRL) of the CA, PEM: whom they name is not let in, and goes when they change.",
)
@option(
    "--max-connection-age",
    type=float,
    default=AGE,
    show_default=True,
    help="Seconds after which a peer with a certificate connects anew; what it sends goes on there.",
)
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
def command(
    store: str,
    durability: str,
    ready_file: str | None,
    policy_file: str | None,
    no_compression: bool,
    workers: int,
    as_worker: bool,
    keep_days: float | None,
    keep_bytes: int | None,
    **options: Any,
) -> None:
    """Receive the logs of all sites and store them as DIR/RUN/SITE/LOG.

    At SIGTERM the receiver writes what it has taken, and ends. A log that is over a limit, or that finds the disk full,
    waits at its site, and goes on by itself when there is room. Certificates, policy and tokens are read again when
    they change, and at SIGHUP.

    \b
    Example: flarelog serve --store logs
    """
    tune_memory()
    _tune_pauses()
    more_descriptors()
    tls = checked(lambda: _heeding(tls_of(options), options.pop("tls_crl")))
    policy = checked(lambda: _policy(policy_file, tls)) if policy_file is not None else None
    tokens = Tokens(tokens_path(store))
    settings = checked(
        lambda: ServerOptions(tls=tls, policy=policy, tokens=tokens, compression=not no_compression, **options)
    )
    checked(lambda: check(workers))
    keep = checked(lambda: Keep(keep_days, keep_bytes))
    kind = cast(Durability, durability)
    if as_worker:
        place = place_of()
        settings = divided(settings, place.count)
        mine = LocalStore(store, kind, lock=place.lock, mine=place.mine)
        run(_serve(mine, settings, None, keep, Workers(place)))
        forget(place)
    elif workers > 1:
        run(supervise(LocalStore(store, kind), settings, workers, partial(_announce, store, ready_file)))
    else:
        run(_serve(LocalStore(store, kind), settings, ready_file, keep))


def _heeding(tls: Tls | None, crl: str | None) -> Tls | None:
    if crl is None:
        return tls
    if tls is None:
        raise InvalidOption(
            f"the revocation list {crl} is of no use without TLS: give --tls-ca, --tls-cert and --tls-key"
        )
    return replace(tls, crl=crl)


def _policy(path: str, tls: Tls | None) -> PolicyFile:
    if tls is None:
        raise InvalidOption(f"the policy {path} is of no use without TLS: nobody could say who he is")
    return PolicyFile(path)


def _tune_pauses() -> None:
    """Let nothing hold the loop up for long that can be put off: it is the only one that takes what the sites send.

    A full collection looks at every object, a hundred milliseconds with ten thousand calls, and comes whenever many
    calls begin: COLLECT_EVERY is often enough. A thread that computes gives way after a millisecond, not after five.
    """
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000)
    sys.setswitchinterval(0.001)


async def _collect() -> None:
    while True:
        await asyncio.sleep(COLLECT_EVERY)
        gc.collect()


async def _serve(
    store: LocalStore, options: ServerOptions, ready_file: str | None, keep: Keep, workers: Workers | None = None
) -> None:
    stopped = asyncio.Event()
    if workers is None:
        on_stop(stopped.set)
    else:
        until_told(stopped.set)
    collecting = asyncio.create_task(_collect())
    give_memory_back()
    async with store:
        server = Server(store, options, workers=workers)
        on_hangup(server.listening.reread)
        await server.start()
        if keep and server.is_home:
            server.spawn(Retention(store.root, keep, server.expire).run())
        try:
            if workers is None:
                _announce(str(store.root), ready_file, server.address, server.reader_address)
            else:
                say_ready()
            await stopped.wait()
        finally:
            collecting.cancel()
            await server.stop()
            # gRPC's own tasks may still wait for a peer's goodbye, and complain on stderr when they are cancelled.
            if left := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(left, timeout=1.0)


def _announce(store: str, ready_file: str | None, address: str, reader_address: str) -> None:
    """Say where connections are accepted."""
    if ready_file is not None:
        if reader_address:  # first: who sees the other file may look for this one
            _write(f"{ready_file}.reader", reader_address)
        _write(ready_file, address)
    say(f"receiving at {address} into {store}")
    if reader_address:
        say(f"readers with a token at {reader_address}")


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
