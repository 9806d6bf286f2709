"""The files of the page: modules and styles of the package, and the HTML page.

The set of files is fixed, so that the path of a request never becomes a path of the file system. All modules form one
file, and all styles another one, in the short forms that ``make page`` makes of them. The page names them below
``static/VERSION/``, which a browser may cache for ever: a page that is opened again asks for itself alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from importlib import resources
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from flarelog.viewers import shapes
from flarelog.viewers.web.asking import sentence
from flarelog.viewers.web.bundle import bundled

INDEX = "index.html"
PAGE, STYLE = "page.js", "page.css"  # all modules, and all styles
STYLES = ("style.css", "rows.css")
FOR_EVER = "public, max-age=31536000, immutable"
KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
}
_SHAPES = ("SHAPES", "KINDS", "SIGNS", "LEGEND")  # of the module shapes.js, which the report's Python shares
_VERSION = re.compile(r"[0-9a-f]{20}")


class File(NamedTuple):
    data: bytes
    kind: str
    etag: str


@functools.cache
def files() -> dict[str, File]:
    """All files, by their names below ``static``."""
    found = {name: _made(name, data) for name, data in _static().items()}
    for name, text in written().items():
        found[name] = _made(name, _short(name, text) or text.encode())
    version = _etag("".join(sorted(file.etag for file in found.values())).encode()).strip('"')
    return found | {INDEX: _made(INDEX, found[INDEX].data.replace(b"/static/", f"/static/{version}/".encode()))}


def written() -> dict[str, str]:
    """All modules, and all styles, as they are written."""
    texts = {name: data.decode() for name, data in _static().items()}
    modules = {name.removesuffix(".js"): text for name, text in texts.items() if name.endswith(".js")}
    modules["shapes"] = "".join(f"export const {name} = {json.dumps(getattr(shapes, name))};\n" for name in _SHAPES)
    return {PAGE: bundled(modules, "app"), STYLE: "".join(texts[name] for name in STYLES)}


def heading(text: str) -> bytes:
    """The first line of the short form of *text*, which names the text."""
    return b"/* %s */\n" % hashlib.sha256(text.encode()).hexdigest().encode()


def _short(name: str, text: str) -> bytes | None:
    """The short form that was made of *text*; None: it is of another text."""
    found = resources.files(__package__).joinpath("short", name)
    data = found.read_bytes() if found.is_file() else b""
    return data if data.startswith(heading(text)) else None


def _static() -> dict[str, bytes]:
    entries = resources.files(__package__).joinpath("static").iterdir()
    return {entry.name: entry.read_bytes() for entry in entries if _suffix(entry.name) in KINDS}


def _made(name: str, data: bytes) -> File:
    return File(data, KINDS[_suffix(name)], _etag(data))


def _suffix(name: str) -> str:
    return name[name.rfind(".") :]


def _etag(data: bytes) -> str:
    return f'"{hashlib.sha256(data).hexdigest()[:20]}"'


async def file(request: Request) -> Response:
    """A file, by its name alone, or below a version; the version of an older page gets the present file."""
    name = request.path_params["name"]
    version, _, rest = name.partition("/")
    if not _VERSION.fullmatch(version):
        return _answer(request, name)
    begin = f"/static/{version}/".encode()
    return _answer(request, rest, FOR_EVER if begin in files()[INDEX].data else "no-cache")


async def index(request: Request) -> Response:
    return _answer(request, INDEX)


def _answer(request: Request, name: str, kept: str = "no-cache") -> Response:
    found = files().get(name)
    if found is None:
        return sentence(404, "the page has no such file")
    headers = {"etag": found.etag, "cache-control": kept}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.data, headers={**headers, "content-type": found.kind})
