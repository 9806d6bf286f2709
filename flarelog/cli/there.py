"""The contents of a store or a receiver, the choice of a run, and the error for a missing run or site, alike for every
command.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from flarelog.cli.options import Place
from flarelog.errors import FlarelogError, NotFound
from flarelog.model import RunInfo, StreamInfo
from flarelog.names import DOCTORS_RUN, natural, run_name
from flarelog.records import ordered
from flarelog.text import some
from flarelog.viewers.selection import Selection

if TYPE_CHECKING:  # reading a store needs no gRPC, and a listing reads no bytes
    from flarelog.client import Client
    from flarelog.viewers.origin import Origin

NAMED = 5  # runs that the error lists for a choice


async def known(run_id: str, place: Place) -> list[RunInfo]:
    """The runs at *place*, or *run_id* alone. Raises NotFound, CannotConnect, NotAllowed, InvalidName."""
    if run_id:
        run_name(run_id)
    held = origin(place)
    async with held:
        found = await held.infos(run_id)
        if run_id and not found:
            from flarelog.viewers.missing import said, without  # needed after a mistake only

            raise said(*await without(held, run_id))
    return sorted(found, key=lambda info: natural(info.run))


def which(run: str, place: Place, *, latest: bool) -> str:
    """*run*; if empty, the *latest* run at *place*, or the only one. Raises UsageError, NotFound and its like."""
    if run and latest:
        raise click.UsageError("--latest chooses the run: leave out its name")
    if run:
        return run
    import asyncio  # a help needs none

    return chosen(asyncio.run(known("", place)), str(place), latest=latest)


def chosen(found: list[RunInfo], where: str, *, latest: bool) -> str:
    """The name of the only run of *found*, or of the *latest*. Raises UsageError, NotFound."""
    if not found:
        raise NotFound(f"{where} has no runs")
    found = [info for info in found if info.run != DOCTORS_RUN] or found
    newest = sorted(found, key=lambda info: (info.begun or info.grown, info.grown, natural(info.run)), reverse=True)
    if len(newest) > 1 and not latest:
        names = some([info.run for info in newest], NAMED)
        raise click.UsageError(f"{where} has {len(newest)} runs, {names}: name one, or give --latest")
    return newest[0].run


async def look(
    run_id: str,
    store: str | None,
    connected: Client | None,
    sites: Sequence[str] = (),
    *,
    unstored: bool = False,
) -> list[StreamInfo]:
    """The streams in the directory *store* or at the *connected* receiver, of all runs or of *run_id*, of all sites or
    of *sites*; with *unstored* also the logs that are no streams.

    Raises NotFound, CannotConnect, NotAllowed, InvalidName.
    """
    if run_id:
        run_name(run_id)
    found: list[StreamInfo] = []
    if connected is not None:
        for site in sites or ("",):
            found += await connected.streams(run_id, site, unstored=unstored, some=True)
    elif store is not None:
        wanted = (lambda run, site: site in sites) if sites else (lambda run, site: True)
        from flarelog.stores import choose  # asking a receiver needs no store
        from flarelog.stores.unopened import with_unopened

        kept, prefix = choose.reader(store), f"{run_id}/" if run_id else ""
        held = with_unopened(kept, run_id, wanted) if unstored else kept.list(prefix, wanted=wanted)
        found = [info async for info in held]
    if run_id and not found and not sites:
        from flarelog.viewers.missing import said, without  # needed after a mistake only

        raise said(*await without(there(store, connected), run_id))
    return ordered(found)


async def unmatched_sites(
    run: str, patterns: Sequence[str], found: Sequence[StreamInfo], store: str | None, connected: Client | None
) -> list[str]:
    """A sentence for each of *patterns* that matches no site in *found*, which is of *run*, or of all runs if that is
    empty. Raises CannotConnect, NotAllowed, and NotFound where nothing was found.
    """
    wanted = Selection(run, tuple(dict.fromkeys(patterns)))
    absent = wanted.absent(found)
    if not absent:
        return []
    from flarelog.viewers.missing import missing, no_site, said, unmatched  # needed after a mistake only

    if not run:
        known_sites = {info.stream.site for info in await look("", store, connected)}
        if not found:
            raise NotFound(no_site(absent, known_sites))
        return [no_site([each], known_sites) for each in absent]
    if not found:
        raise said(*await missing(there(store, connected), wanted))
    return await unmatched(there(store, connected), wanted, found)


def origin(place: Place) -> Origin:
    """The origin at *place*. Raises InvalidOption, NotFound, NotAllowed."""
    from flarelog.viewers.origin import ReceiverOrigin, StoreOrigin

    return StoreOrigin(place.store) if place.store is not None else ReceiverOrigin(place.receiver, place.client)


def there(store: str | None, connected: Client | None) -> Origin:
    """The origin for *connected*, an open client, or for the directory *store*. Raises NotFound, NotAllowed."""
    from flarelog.viewers.origin import ReceiverOrigin, StoreOrigin

    return StoreOrigin(store or "") if connected is None else ReceiverOrigin.over(connected)


async def not_there(error: NotFound, held: Origin, run: str, site: str = "") -> NotFound:
    """The error for a call that named *run*, or *site* of it, with readers' hints; *error* itself without any."""
    from flarelog.viewers.missing import missing, said, without  # needed after a mistake only

    what, meant = "", ""
    with contextlib.suppress(FlarelogError):  # a caller who may end or remove a run may not be allowed to read it
        what, meant = await (missing(held, Selection(run, (site,))) if site else without(held, run))
    return said(what, meant, str(error))
