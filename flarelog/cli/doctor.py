"""``flarelog doctor``: checks of this machine and of the way to the receiver; each failure comes with a fix.

Doctor changes nothing, except that it sends a test record like any log.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import click

from flarelog.checks import certificates, site, store
from flarelog.checks.row import Row, fail, warn
from flarelog.checks.way import way
from flarelog.cli.options import RECEIVER, Access, asks, client_options, output_option, timeout_option
from flarelog.cli.running import aligned, run, told_at
from flarelog.errors import FAILED, OK, FlarelogError
from flarelog.names import DOCTORS_RUN
from flarelog.options import option
from flarelog.security.tls import Tls
from flarelog.stores.choose import is_url, with_files
from flarelog.text import legible
from flarelog.viewers.console import colours
from flarelog.wire.packing import AVAILABLE

EXAMPLES = """\b
Examples:
  # at a site, before a run
  flarelog doctor --receiver logs:4721 --root /var/log/job --site site-1
  # at the receiver
  flarelog doctor --store /var/lib/flarelog
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """The arguments of a call: what to check, and with which options."""

    receiver: str | None = option(None, f"{RECEIVER} Each is checked.")
    root: str | None = option(None, "Directory of the site's logs.", path="any")
    include: tuple[str, ...] = option((), "Check only files that match. Repeatable.", metavar="GLOB")
    exclude: tuple[str, ...] = option((), "Do not check files that match. Repeatable.", metavar="GLOB")
    site_policy: tuple[str, ...] = option(
        (), "TOML file that limits which files leave the site. Repeatable.", path="file"
    )
    site: str | None = option(None, "Name of the site that the test record is sent as.")
    run: str = option(DOCTORS_RUN, "Name of the run that the test record is sent in.")
    store: str | None = option(
        None, "Check this store: a directory on this machine, or nats://HOST:4222,.../NAME.", path="any"
    )
    nats_creds: str | None = option(None, "Credentials file for a store at nats://.", path="file")
    nats_ca: str | None = option(None, "PEM file with the CA of the servers of a store at tls://.", path="file")
    tls_crl: str | None = option(None, "PEM file with the CA's revocation lists.", path="file")
    access: Access = field(default_factory=lambda: Access(partial(Tls)))


@click.command(
    help=f"{EXAMPLES}\n\nCheck what flarelog needs. At a site, doctor checks the receiver's address, TLS, clock and "
    "protocol, the logs under --root, and inotify, and sends a test record. At the receiver, it checks the space, "
    "inodes and speed of the store. Each check prints a row: ok, warn or fail, and what to do. Exit code 0, or 1 if a "
    "check fails."
)
@asks(visit=Visit)
@client_options
@timeout_option
@output_option("Form of the output. json: one object a row.")
def command(visit: partial[Visit], access: Access, as_json: bool) -> None:
    asked = visit(access=access)
    if not (asked.receiver or asked.root or asked.store):
        raise click.UsageError(
            "doctor needs something to check: give --receiver HOST:PORT, --root DIR, --store DIR, or several of them"
        )
    coloured = not as_json and colours("auto", os.environ.get, sys.stdout.isatty())

    async def work() -> int:
        code = OK
        async for row in examine(asked):
            if row.result == "fail":
                row, code = replace(row, found=told_at(row.found)), FAILED
            click.echo(json.dumps(asdict(row)) if as_json else _text(row, coloured=coloured))
        return code

    sys.exit(run(work()))


def _text(row: Row, *, coloured: bool) -> str:
    (line,) = aligned([(f"{row.result:<4}", f"{row.check:<12}", legible(row.found))], ())
    if coloured:
        paint = {"ok": 32, "warn": 33, "fail": 31}
        line = f"\x1b[{paint[row.result]}m{line[:4]}\x1b[0m{line[4:]}"
    return f"{line}\n{'':6}{'':12}  fix: {legible(row.fix)}" if row.fix else line


async def examine(visit: Visit) -> AsyncIterator[Row]:
    """The rows of all checks, each as soon as it is known."""
    try:
        tls = visit.access.tls()
    except FlarelogError as error:
        yield fail("tls", str(error), "give --tls-ca, --tls-cert and --tls-key, or --tls-ca and --token-file")
        return
    if tls is not None and tls.cert:
        for row in certificates.own(tls, "server" if visit.store and not visit.receiver else "client"):
            yield row
    if visit.tls_crl:
        yield certificates.revoked(tls, visit.tls_crl) if tls is not None else fail("revocations", *certificates.NO_TLS)
    if not AVAILABLE and (visit.receiver or visit.store):
        found = "Zstandard is missing: logs travel uncompressed, which takes several times the bandwidth"
        yield warn("compression", found, "pip install backports.zstd")
    # A site's policy covers a test record too, wherever the site's logs are.
    forbidden = site.forbidden(visit.site_policy) if visit.root or visit.site else None
    if forbidden is not None:
        yield forbidden
    elif visit.root:
        source = site.source_of(visit.root, visit.include, visit.exclude, visit.site_policy)
        for row in [source] if isinstance(source, Row) else site.under(source):
            yield row
    ends = [end.strip() for end in visit.receiver.split(",")] if visit.receiver else []
    for end in ends:
        connect, may_send = partial(visit.access.client, end), forbidden is None
        async for row in way(end, tls, visit.access.proxy, connect, visit.run, visit.site, may_send=may_send):
            named = len(ends) == 1 or end in row.found
            yield row if named else replace(row, found=f"{end}: {row.found}")
    if visit.store and is_url(visit.store):
        async for row in store.shared(with_files(visit.store, visit.nats_creds, visit.nats_ca)):
            yield row
    elif visit.store:
        for row in store.store(Path(visit.store)):
            yield row
