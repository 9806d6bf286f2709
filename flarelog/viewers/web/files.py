"""The files of the page: modules and styles of the package, and the one page that they make.

Which there are is known beforehand, so that no path of a request is ever a path of the file system.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

INDEX = "index.html"
KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}


class File(NamedTuple):
    data: bytes
    kind: str
    etag: str


@functools.cache
def files() -> dict[str, File]:
    """All of them, by their names below ``static``."""
    found: dict[str, File] = {}

    def look(directory: Traversable, before: str) -> None:
        for entry in directory.iterdir():
            if entry.is_dir():
                look(entry, f"{before}{entry.name}/")
            elif (kind := KINDS.get(entry.name[entry.name.rfind(".") :])) is not None:
                data = entry.read_bytes()
                found[f"{before}{entry.name}"] = File(data, kind, f'"{hashlib.sha256(data).hexdigest()[:20]}"')

    look(resources.files(__package__).joinpath("static"), "")
    return found


async def file(request: Request) -> Response:
    return _answer(request, request.path_params["name"])


async def index(request: Request) -> Response:
    return _answer(request, INDEX)


def _answer(request: Request, name: str) -> Response:
    found = files().get(name)
    if found is None:
        return Response('{"error": "the page has no such file"}', 404, media_type="application/json")
    headers = {"etag": found.etag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.data, headers={**headers, "content-type": found.kind})
