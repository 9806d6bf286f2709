"""The objects under one prefix of a bucket: conditional writes, ranges, and errors as sentences.

Requests that fail on their way are repeated by the library, with backoff, for some seconds. A conditional write that
was repeated may therefore report a change that it made itself: ``Changed`` means "look".
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotModifiedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import ObjectStore, S3Store

from flarelog.errors import CANNOT_CONNECT, FlarelogError, NotAllowed, NotFound, Unavailable
from flarelog.stores.archive.url import SCHEME, parts

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta, PutMode

T = TypeVar("T")

READING, WRITING = 5, 20  # seconds for which a request that fails on its way is repeated
_RETRIES, _PAUSE = 1000, 2  # at most; seconds
_ANSWER = 30  # seconds that one answer may take
AT_ONCE = 32  # requests
_METADATA = "169.254."  # begins the address at which a cloud's machine gets its credentials
_REFUSED = re.compile(r"status code: 40[13]\b")  # of a list
_CREDENTIALS = (
    "give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment; AWS_ENDPOINT_URL names the server of another"
    " provider than AWS, AWS_REGION the region"
)


class Changed(Exception):  # an answer, no failure
    """The object is not as the caller knew it; perhaps the caller's own earlier attempt changed it."""


class Away(Unavailable):
    """The object store does not answer."""

    exit_code = CANNOT_CONNECT


class Found(NamedTuple):
    data: bytes
    tag: str  # changes with the content


class Entry(NamedTuple):
    """An object in a list."""

    key: str
    size: int
    tag: str
    changed: datetime


class Bucket:
    """*objects* as the rest of the archive sees them. Methods raise NotAllowed, NotFound for a missing bucket, and
    Unavailable, which is Away without an answer.
    """

    def __init__(self, objects: ObjectStore, name: str) -> None:
        self.name, self._objects = name, objects
        self._threads = ThreadPoolExecutor(AT_ONCE, "flarelog-archive")

    async def get(self, key: str, known: str = "") -> Found | None:
        """The object *key*; None if there is none. Raises Changed if its tag is still *known*."""
        options: GetOptions = {"if_none_match": known} if known else {}

        def get() -> Found:
            got = obstore.get(self._objects, key, options=options)
            return Found(bytes(got.bytes()), got.meta["e_tag"] or "")

        try:
            return await self._done(get)
        except NotModifiedError as error:
            raise Changed from error
        except FileNotFoundError:
            return None

    async def part(self, key: str, begin: int, end: int) -> bytes:
        """Bytes of the object *key*. Raises FileNotFoundError."""
        return await self._done(partial(self._part, key, begin, end))

    def part_now(self, key: str, begin: int, end: int) -> bytes:
        """As ``part``, and blocks."""
        return self._finished(partial(self._part, key, begin, end))

    def _part(self, key: str, begin: int, end: int) -> bytes:
        return bytes(obstore.get_range(self._objects, key, start=begin, end=end))

    async def put(self, key: str, data: bytes) -> None:
        await self._done(lambda: obstore.put(self._objects, key, data))

    async def replace(self, key: str, data: bytes, tag: str) -> str:
        """Replace the object *key* while its tag is *tag*; empty: create it if it is absent. Returns the new tag.
        Raises Changed.
        """
        mode: PutMode = {"e_tag": tag} if tag else "create"  # "version": None would be an error
        try:
            return (await self._done(lambda: obstore.put(self._objects, key, data, mode=mode)))["e_tag"] or ""
        except (AlreadyExistsError, PreconditionError, FileNotFoundError) as error:
            raise Changed from error

    async def entries(self, prefix: str = "") -> list[Entry]:
        """All objects whose keys begin with the parts *prefix*, sorted by key."""
        found = await self._done(lambda: obstore.list(self._objects, prefix or None, chunk_size=1000).collect())
        return sorted(map(_entry, found))

    async def has(self, prefix: str) -> bool:
        """Whether there is an object whose key begins with the parts *prefix*."""
        return await self._done(lambda: any(obstore.list(self._objects, prefix, chunk_size=1)))

    async def children(self, prefix: str = "") -> tuple[list[str], list[Entry]]:
        """The names below the parts *prefix*: those with objects below them, and the objects."""
        found = await self._done(lambda: obstore.list_with_delimiter(self._objects, prefix or None))
        names = sorted(each.rstrip("/").rpartition("/")[2] for each in found["common_prefixes"])
        return names, sorted(map(_entry, found["objects"]))

    async def delete(self, keys: Sequence[str]) -> None:
        for at in range(0, len(keys), 1000):
            await self._done(partial(obstore.delete, self._objects, list(keys[at : at + 1000])))

    async def _done(self, request: Callable[[], T]) -> T:
        """The result of *request* in a thread. The library's own coroutines are called back from its threads, which
        abort a process whose interpreter is ending.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._finished, request)

    def _finished(self, request: Callable[[], T]) -> T:
        try:
            return request()
        except (AlreadyExistsError, NotModifiedError, PreconditionError, FileNotFoundError) as error:
            self._demand_bucket(error)
            raise
        except BaseError as error:
            self._demand_bucket(error)
            raise self._meaning(error) from error

    def _demand_bucket(self, error: Exception) -> None:
        """Raises NotFound if the whole bucket is missing."""
        if "NoSuchBucket" in str(error):
            raise NotFound(f"there is no bucket {self._bucket}: create it, or correct {self.name}") from None

    @property
    def _bucket(self) -> str:
        return self.name.removeprefix(SCHEME).partition("/")[0]

    def _meaning(self, error: Exception) -> FlarelogError:
        text = str(error)
        why = text.partition("\n")[0]
        if _METADATA in text:
            return NotAllowed(f"there are no credentials for {self.name}: {_CREDENTIALS}")
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _REFUSED.search(text):
            code = text.partition("<Code>")[2].partition("<")[0] or why
            return NotAllowed(f"{self.name} refuses these credentials ({code}): {_CREDENTIALS}")
        if "kind: Connect" in text or "error sending request" in text:
            where = os.environ.get("AWS_ENDPOINT_URL", "AWS")
            return Away(f"the server of {self.name} ({where}) does not answer")
        return Unavailable(f"{self.name}: {why}")


def _entry(found: ObjectMeta) -> Entry:
    return Entry(found["path"], found["size"], found["e_tag"] or "", found["last_modified"])


def bucket(url: str, patience: float) -> Bucket:
    """The objects at *url*. *patience*: seconds for which a request is repeated. Raises InvalidOption."""
    name, prefix = parts(url)
    objects = S3Store(
        name,
        prefix=prefix or None,
        client_options={
            "allow_http": os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"),
            "timeout": timedelta(seconds=_ANSWER),
        },
        retry_config={
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=patience),
            "backoff": {"max_backoff": timedelta(seconds=_PAUSE)},
        },
    )
    return Bucket(objects, url.rstrip("/"))
