"""``flarelog serve``: the receiver."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from click.core import ParameterSource

from flarelog.cli.beside import Beside, demand_free
from flarelog.cli.notify import Service
from flarelog.cli.options import READ, Access, Whole, asks, option, store_option, tls_options
from flarelog.cli.ready import ready_file
from flarelog.cli.running import checked, on_hangup, on_stop, run, say
from flarelog.cli.supervise import beat, forget, place_of, say_ready, supervise, until_told
from flarelog.cli.tuning import collect, give_memory_back, more_descriptors, tune_memory, tune_pauses
from flarelog.errors import InvalidOption, StoreError
from flarelog.names import parse_address
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.retention import Keep, Retention
from flarelog.receiver.server import Server
from flarelog.receiver.workers.cluster import Workers
from flarelog.receiver.workers.place import check, divided
from flarelog.replace import replace_file
from flarelog.security.access import PolicyFile
from flarelog.security.tls import Tls
from flarelog.security.tokens import Tokens, tokens_path
from flarelog.stores import choose
from flarelog.stores.base import Durability, Store
from flarelog.stores.notes import TOKENS

COPY = 1.0  # seconds between two looks at the tokens that receivers share


@click.command
@store_option(
    "Directory for the logs, of this receiver alone; or nats://HOST:4222,.../NAME, which receivers share.",
    required=True,
)
@option(
    "--durability",
    type=click.Choice(["disk", "memory"]),
    default="disk",
    show_default=True,
    help="Acknowledge bytes that survive a power cut (disk), or only a kill of the receiver (memory).",
)
@asks(server=ServerOptions, keep=Keep)
@option(
    "--workers",
    type=Whole(),
    default=1,
    show_default=True,
    help="Worker processes behind one port, to use several cores. Each site belongs to one worker.",
)
@click.option("--as-worker", is_flag=True, hidden=True)
@tls_options
@option(
    "--tls-crl",
    type=READ,
    help="PEM file with the CA's revocation lists. Revoked peers are disconnected within 5 s.",
)
@option(
    "--policy",
    "policy_file",
    type=READ,
    help="TOML file that grants roles. By default a certificate pushes as its site; OU=reader reads.",
)
@option(
    "--web",
    metavar="HOST:PORT",
    help="Also serve the page of flarelog web at this address. It ends with the receiver.",
)
@option(
    "--ready-file",
    "ready_path",
    type=click.Path(dir_okay=False, readable=False),
    metavar="FILE",
    help="Write HOST:PORT to this file while the receiver is ready (FILE.reader: --reader-listen).",
)
def command(
    store: str,
    durability: Durability,
    server: partial[ServerOptions],
    keep: partial[Keep],
    workers: int,
    as_worker: bool,
    access: Access,
    tls_crl: str | None,
    policy_file: str | None,
    web: str | None,
    ready_path: str | None,
) -> None:
    """Receive the logs of all sites and store them as DIR/RUN/SITE/LOG.

    At SIGTERM the receiver writes the received bytes and ends. A log that is over a limit, or that finds the disk full,
    waits at its site, and continues by itself when there is room. Certificates, policy and tokens are read again when
    they change, and at SIGHUP.

    \b
    Example: flarelog serve --store logs
    """
    tune_memory()
    tune_pauses()
    more_descriptors()
    checked(lambda: choose.demand_live(store))
    ready = checked(lambda: click.get_current_context().with_resource(ready_file(None if as_worker else ready_path)))
    tls = checked(lambda: _heeding(access.tls(), tls_crl))
    policy = checked(lambda: _policy(policy_file, tls)) if policy_file is not None else None
    tokens = tokens_path(_copies() if choose.is_url(store) else store)
    settings = checked(lambda: server(tls=tls, policy=policy, tokens=Tokens(tokens)))
    checked(lambda: check(workers))
    if choose.is_url(store):
        checked(lambda: _shared(workers))
    kept = checked(keep)
    service = Service()
    page = None if web is None or as_worker else checked(lambda: _page(web, tls, settings))
    announce = partial(_announce, service, checked(lambda: choose.shown(store)), ready, page)
    if as_worker:
        place = place_of()
        settings = divided(settings, place.count)
        mine = choose.local(store, durability, lock=place.lock, mine=place.mine)
        run(_serve(mine, settings, kept, workers=Workers(place)))
        forget(place)
    elif workers > 1:
        run(_watched(service, page, supervise(choose.local(store, durability), settings, workers, announce)))
    else:
        copied = tokens if choose.is_url(store) else None
        run(_watched(service, page, _serve(choose.store(store, durability), settings, kept, announce, copied=copied)))


def _shared(workers: int) -> None:
    """Check the options beside the URL of a store. Raises InvalidOption, NotInstalled."""
    choose.demand_nats()
    if click.get_current_context().get_parameter_source("durability") is not ParameterSource.DEFAULT:
        raise InvalidOption(
            "--durability is for a directory: what a store at nats:// has acknowledged is on a majority of its servers,"
            " and their sync_interval decides when it is on their disks"
        )
    if workers > 1:
        raise InvalidOption("--workers is for a directory: start several receivers, which share the store")


def _copies() -> str:
    """A directory for the copy of the tokens that receivers share, which goes with this process."""
    return click.get_current_context().with_resource(TemporaryDirectory(prefix="flarelog-serve-"))


async def _copy(store: Store, path: Path, *, once: bool = False) -> None:
    """Keep the file *path* like the tokens in *store*: a revoked one is refused within COPY seconds, and by calls that
    are open within a second more.
    """
    known = b""
    while True:
        with contextlib.suppress(StoreError):  # what was known counts on; the receiver reports an engine that is away
            found = await store.note(TOKENS)
            if found != known:
                replace_file(path, found)
                known = found
        if once:
            return
        await asyncio.sleep(COPY)


def _heeding(tls: Tls | None, crl: str | None) -> Tls | None:
    if crl is None:
        return tls
    if tls is None:
        raise InvalidOption(f"the revocation list {crl} needs TLS: give --tls-ca, --tls-cert and --tls-key")
    return replace(tls, crl=crl)


def _policy(path: str, tls: Tls | None) -> PolicyFile:
    if tls is None:
        raise InvalidOption(
            f"the policy {path} needs TLS, which identifies callers: give --tls-ca,"
            " --tls-cert and --tls-key, or leave out --policy"
        )
    return PolicyFile(path)


def _page(listen: str, tls: Tls | None, options: ServerOptions) -> Beside:
    """The web page beside the receiver. Raises InvalidOption, NotInstalled."""
    from flarelog.cli.web import installed  # other receivers skip this import

    installed()
    page = Beside(listen, tls, options.tokens if options.reader_listen else None)
    port = parse_address(listen)[1]
    if port and port in (parse_address(each)[1] for each in (options.listen, options.reader_listen) if each):
        raise InvalidOption(f"web {listen} has the receiver's own port: give the page another one")
    demand_free(listen)
    return page


async def _watched(service: Service, page: Beside | None, work: Coroutine[object, None, None]) -> None:
    async with service.alive(), page or contextlib.nullcontext():
        await work


async def _serve(
    store: Store,
    options: ServerOptions,
    keep: Keep,
    announce: Callable[[str, str], object] = lambda address, readers: None,
    *,
    workers: Workers | None = None,
    copied: Path | None = None,
) -> None:
    """Serve until told to stop; *announce* gets both addresses, unless a supervising process announces them. *copied*:
    the file for the tokens of a store that receivers share.
    """
    stopped = asyncio.Event()
    if workers is None:
        on_stop(stopped.set)
    else:
        until_told(stopped.set)
    collecting = asyncio.create_task(collect())
    give_memory_back()
    async with store:
        server = Server(store, options, workers=workers)
        on_hangup(server.listening.reread)
        if copied is not None:
            await _copy(store, copied, once=True)
            server.spawn(_copy(store, copied))
        await server.start()
        if keep and server.is_home:
            server.spawn(Retention(store, keep, server.expire, lambda: server.others.is_first).run())
        try:
            if workers is None:
                announce(server.address, server.reader_address)
            else:
                say_ready()
                server.spawn(beat())
            await stopped.wait()
        finally:
            collecting.cancel()
            await server.stop()
            # gRPC's own tasks may still wait for a peer's goodbye, and complain on stderr if they are cancelled.
            if left := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(left, timeout=1.0)


def _announce(
    service: Service,
    store: str,
    ready: Callable[[str, str], None],
    page: Beside | None,
    address: str,
    reader_address: str,
) -> None:
    """Announce the addresses: in the ready file, on stderr, to systemd and to the page."""
    ready(address, reader_address)
    say(f"receiver: receiving at {address} into {store}")
    service.ready(f"STATUS=receiving at {address}")
    if reader_address:
        say(f"receiver: token readers connect to {reader_address}")
    if page is not None:
        page.begin(address, reader_address)
