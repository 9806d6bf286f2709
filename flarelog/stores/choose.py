"""The one place that chooses a store. A new store is a file of its own, and a line here."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from flarelog.errors import InvalidOption, NotAllowed, NotFound, NotInstalled
from flarelog.stores.archive.url import is_archive
from flarelog.stores.base import Durability, Reader, Store
from flarelog.stores.local.layout import is_store
from flarelog.stores.local.reader import LocalReader
from flarelog.stores.nats.url import Url
from flarelog.stores.nats.url import is_url as is_url
from flarelog.stores.nats.url import with_files as with_files

if TYPE_CHECKING:
    from flarelog.stores.local.store import LocalStore
    from flarelog.stores.nats.inspection import Seen
    from flarelog.stores.nats.store import NatsStore

Place = str | os.PathLike[str]
"""The value of --store: a directory, or the URL of a store on NATS JetStream or of an archive."""


def shown(place: Place) -> str:
    """*place* for people: a URL without its password and files."""
    return Url.of(os.fspath(place)).shown if is_url(place) else os.fspath(place)


def demand_nats() -> None:
    """Raises NotInstalled where the package of the extra ``nats`` is missing."""
    if find_spec("nats") is None:
        raise NotInstalled("a store on NATS JetStream needs nats-py: pip install 'flarelog[nats]'")


def there(place: Place) -> Place:
    """*place*, if it has a store. Raises NotFound, and NotAllowed where the directory is unreadable."""
    name = os.fspath(place)
    if is_url(place) or is_archive(place):
        return place
    if not os.path.isdir(place):
        raise NotFound(f"there is no store at {name}: give the directory of flarelog serve --store, which makes it")
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


def demand_live(place: Place) -> None:
    """Raises InvalidOption if *place* is an archive, which no receiver uses."""
    if is_archive(place):
        raise InvalidOption(
            f"{place} is an archive, which takes no live logs: store them in a directory, and fill the archive with"
            " flarelog copy --follow"
        )


def reader(place: Place) -> Reader:
    """The store at *place* for reading, also while a receiver writes it. Raises NotFound, NotInstalled."""
    if is_url(place):
        demand_nats()
        from flarelog.stores.nats.reader import NatsReader

        return NatsReader(os.fspath(place))
    if is_archive(place):
        _demand_obstore()
        from flarelog.stores.archive.bucket import READING, bucket
        from flarelog.stores.archive.reader import ArchiveReader

        return ArchiveReader(bucket(os.fspath(place), READING))
    return LocalReader(there(place))


async def strangers(store: Reader, run: str) -> Sequence[str]:
    """A sentence for each file in *run* that looks like a log and has no record. Raises InvalidName."""
    return await store.strangers(run) if isinstance(store, LocalReader) else ()


async def standing(store: Reader) -> Mapping[str, object]:
    """How *store* stands, as ``Shared.standing``; empty for one that receivers do not share."""
    if isinstance(store, LocalReader):
        return {}
    from flarelog.stores.nats.reader import NatsReader

    return await store.standing() if isinstance(store, NatsReader) else {}


async def inspected(url: str) -> AsyncGenerator[Seen, None]:
    """What can be seen of the store at *url*. Raises NotInstalled, InvalidOption."""
    demand_nats()
    from flarelog.stores.nats.inspection import inspected

    async for each in inspected(url):
        yield each


def shared(url: Place) -> NatsStore:
    """The store at *url*, which several receivers share, for writing. Raises NotInstalled, InvalidOption."""
    demand_nats()
    from flarelog.stores.nats.store import NatsStore

    return NatsStore(os.fspath(url))


def store(place: Place, durability: Durability = "disk") -> Store:
    """The store at *place* for writing; *durability*: of a directory. Raises NotInstalled."""
    if is_url(place):
        return shared(place)
    if is_archive(place):
        _demand_obstore()
        from flarelog.stores.archive.bucket import WRITING, bucket
        from flarelog.stores.archive.store import ArchiveStore

        return ArchiveStore(bucket(os.fspath(place), WRITING))
    return local(place, durability)


def _demand_obstore() -> None:
    """Raises NotInstalled where the package of the extra ``archive`` is missing."""
    if find_spec("obstore") is None:
        raise NotInstalled("an archive at s3:// needs obstore: pip install 'flarelog[archive]'")


def local(
    place: Place,
    durability: Durability = "disk",
    *,
    lock: int = -1,
    mine: Callable[[str, str], bool] | None = None,
) -> LocalStore:
    """The directory *place* for writing. *lock*: the descriptor of a lock that another process of this receiver holds;
    *mine*: whether this process writes and lists a site of a run; default: all sites.
    """
    from flarelog.stores.local.store import LocalStore  # readers never import it

    return LocalStore(place, durability, lock=lock, mine=mine)
