"""What is at a place, and what is told of a run or a site that is not there: the same by every command."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from flarelog.cli.options import Place
from flarelog.errors import FlarelogError, NotFound
from flarelog.viewers.origin import Origin, ReceiverOrigin, RunsOrigin, StoreOrigin

if TYPE_CHECKING:  # who reads a store needs no gRPC
    from flarelog.client import Client


def origin(place: Place) -> RunsOrigin:
    """What is at *place*. Raises InvalidOption, NotFound, NotAllowed."""
    return StoreOrigin(place.store) if place.store is not None else ReceiverOrigin(place.receiver, place.client)


def there(store: str | None, connected: Client | None) -> RunsOrigin:
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
