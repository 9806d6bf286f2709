"""Which run is meant where a command names none, and what is told of one that is not there."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import click

from flarelog.cli.options import Place
from flarelog.errors import FlarelogError, NotFound
from flarelog.model import RunInfo
from flarelog.names import natural
from flarelog.viewers.origin import Origin, ReceiverOrigin, RunsOrigin, StoreOrigin

if TYPE_CHECKING:  # who reads a store needs no gRPC
    from flarelog.client import Client

NAMED = 5  # runs that are named where one is to be chosen


def origin(place: Place) -> RunsOrigin:
    """What is at *place*. Raises InvalidOption, NotFound, NotAllowed."""
    return StoreOrigin(place.store) if place.store is not None else ReceiverOrigin(place.receiver, place.client)


def there(store: str | None, connected: Client | None) -> Origin:
    """What *connected*, an open client, or the directory *store* holds. Raises NotFound, NotAllowed."""
    return StoreOrigin(store or "") if connected is None else ReceiverOrigin.over(connected)


async def not_there(error: NotFound, held: Origin, run: str, site: str = "") -> NotFound:
    """*error* of a call that named *run*, or *site* of it, as readers tell it; itself where they would find it."""
    from flarelog.viewers.missing import missing, said, without  # for a mistake alone
    from flarelog.viewers.reading import Selection

    what, meant = "", ""
    with contextlib.suppress(FlarelogError):  # who may remove or end a run need not be let read it
        what, meant = await (missing(held, Selection(run, (site,))) if site else without(held, run))
    return said(what, meant, str(error))


def which(run: str, place: Place, *, latest: bool) -> str:
    """*run*; without a name the *latest* run at *place*, or the only one. Raises UsageError, NotFound and its like."""
    if run:
        if latest:
            raise click.UsageError("--latest chooses the run: leave out its name")
        return run
    from flarelog.cli.runs import known  # most readers name their run

    return chosen(asyncio.run(known("", place)), str(place), latest=latest)


def chosen(found: list[RunInfo], where: str, *, latest: bool) -> str:
    """The name of the one of *found* that is meant. Raises UsageError, NotFound."""
    if not found:
        raise NotFound(f"{where} has no runs")
    newest = sorted(found, key=lambda info: (info.begun or info.grown, info.grown, natural(info.run)), reverse=True)
    if len(newest) > 1 and not latest:
        names = ", ".join(info.run for info in newest[:NAMED])
        more = f" and {len(newest) - NAMED} more" if len(newest) > NAMED else ""
        raise click.UsageError(f"{where} has {len(newest)} runs, {names}{more}: name one, or give --latest")
    return newest[0].run
