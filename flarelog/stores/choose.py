"""Where stores come from: the one place that chooses one. A new store is a file of its own, and a line here."""

from __future__ import annotations

import os
from collections.abc import Callable

from flarelog.errors import NotAllowed, NotFound
from flarelog.stores.base import Durability, Reader, Store
from flarelog.stores.local.reader import LocalReader
from flarelog.stores.local.traces import is_store

Place = str | os.PathLike[str]
"""What people give as --store: a directory."""


def there(place: Place) -> Place:
    """*place*, if a store is there. Raises NotFound, and NotAllowed where that cannot be seen."""
    name = os.fspath(place)
    if not os.path.isdir(place):
        raise NotFound(f"there is no store at {name}")
    try:
        if is_store(place):
            return place
    except PermissionError as error:
        raise NotAllowed(
            f"the store {name} cannot be read: {error.strerror}; run this as the receiver's user"
        ) from error
    raise NotFound(
        f"{name} is no store: no receiver has stored anything there; name the directory that serve --store named"
    )


def reader(place: Place) -> Reader:
    """The store at *place*, to read, beside the receiver that writes it. Raises NotFound."""
    return LocalReader(there(place))


def store(
    place: Place,
    durability: Durability = "disk",
    *,
    lock: int = -1,
    mine: Callable[[str, str], bool] | None = None,
) -> Store:
    """The store at *place*, to write. *lock*: the descriptor of a lock that another process of this receiver has taken;
    *mine*: whether a site of a run is this process's to write and to list, if not all are.
    """
    from flarelog.stores.local.store import LocalStore  # whoever only reads starts without it

    return LocalStore(place, durability, lock=lock, mine=mine)
