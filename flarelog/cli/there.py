"""The contents of a store or a receiver, and the error for a missing run or site, alike for every command."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flarelog.cli.options import Place
from flarelog.errors import FlarelogError, NotFound
from flarelog.globs import any_of
from flarelog.model import StreamInfo, with_rests
from flarelog.names import run_name
from flarelog.records import ordered

if TYPE_CHECKING:  # reading a store needs no gRPC, and a listing reads no bytes
    from flarelog.client import Client
    from flarelog.viewers.origin import Origin


async def look(
    run_id: str,
    store: str | None,
    connected: Client | None,
    sites: Sequence[str] = (),
    *,
    unstored: bool = False,
) -> list[StreamInfo]:
    """The streams in the directory *store* or at the *connected* receiver, of all runs or of *run_id*, of all sites or
    of *sites*; with *unstored* also the logs of which nothing was ever stored.

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

        kept = choose.reader(store)
        found = [info async for info in kept.list(f"{run_id}/" if run_id else "", wanted=wanted, unreadable=unstored)]
        found += await kept.unstored(run_id, wanted) if unstored else ()
    if run_id and not found and not sites:
        from flarelog.viewers.missing import said, without  # needed after a mistake only

        raise said(*await without(there(store, connected), run_id))
    return with_rests(ordered(found))


async def unmatched_sites(
    run: str, patterns: Sequence[str], found: Sequence[StreamInfo], store: str | None, connected: Client | None
) -> list[str]:
    """A sentence for each of *patterns* that matches no site in *found*, which is of *run*, or of all runs if that is
    empty. Raises CannotConnect, NotAllowed, and NotFound where nothing was found.
    """
    sites = {info.stream.site for info in found}
    absent = [each for each in dict.fromkeys(patterns) if not any(any_of((each,), site) for site in sites)]
    if not absent:
        return []
    from flarelog.viewers.missing import missing, no_site, said  # needed after a mistake only
    from flarelog.viewers.selection import Selection

    parts = [(each,) for each in absent] if found else [tuple(absent)]
    if run:
        told = [said(*await missing(there(store, connected), Selection(run, each))) for each in parts]
    else:
        known = {info.stream.site for info in await look("", store, connected)}
        told = [NotFound(no_site(each, known)) for each in parts]
    if not found:
        raise told[0]
    return [text for text in map(str, told) if text]


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
    from flarelog.viewers.selection import Selection

    what, meant = "", ""
    with contextlib.suppress(FlarelogError):  # a caller who may end or remove a run may not be allowed to read it
        what, meant = await (missing(held, Selection(run, (site,))) if site else without(held, run))
    return said(what, meant, str(error))
