"""Parses and checks requests: the one place that reads a browser's words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from flarelog.errors import InvalidName, NotFound
from flarelog.lines.levels import NAMES, Level
from flarelog.model import MAX_OFFSET, StreamId, StreamInfo

LONGEST = 1000  # characters of a text


class Refused(Exception):
    """A request that is refused with *status* and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Anew(NotFound):
    """The log was removed, and another one of its name has begun: this one does not come back."""


class NoRun(NotFound):
    """The run does not exist, or not any more: neither do its logs."""


def as_json(what: Any) -> bytes:
    return json.dumps(what, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def sentence(status: int, text: str, **more: Any) -> Response:
    """The answer that a request is refused, or failed."""
    return Response(as_json({"error": text} | more), status, media_type="application/json")


def as_file(name: str) -> str:
    """The header Content-Disposition of an answer that is saved as *name*, a name in a store. curl knows only the first
    form; browsers take the second one, and would read a % in the first.
    """
    return f"attachment; filename=\"{name}\"; filename*=UTF-8''{quote(name, safe='')}"


def answer(what: Any, headers: dict[str, str] | None = None) -> Response:
    return Response(as_json(what), media_type="application/json", headers=headers)


async def said(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request. Raises Refused."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise Refused(400, "the request is no JSON") from error
    if not isinstance(found, dict):
        raise Refused(400, "the request is no JSON object")
    return found


def stream(of: Any, run: str | None = None) -> StreamId:
    """The stream that *of* names; *run* replaces the run in *of*. Raises InvalidName, Refused."""
    try:
        names = [of["run"] if run is None else run, of["site"], of["log"]]
    except (KeyError, TypeError, IndexError) as error:
        raise Refused(400, "a stream is named by run, site and log") from error
    if not all(isinstance(name, str) for name in names):
        raise InvalidName("the names of a stream are strings")
    return StreamId.given(*names)


def named(of: StreamId) -> dict[str, str]:
    """The names of a log: *log* in the store, and *name* for people where that differs."""
    names = {"run": of.run, "site": of.site, "log": of.log}
    return names if of.name == of.log else names | {"name": of.name}


def told(of: StreamInfo) -> dict[str, Any]:
    """The names of the log of *of*, and when it began: requests for more of it repeat both, see ``same``."""
    return {**named(of.stream), "begun": of.begun}


def same(info: StreamInfo, begun: int | None) -> StreamInfo:
    """*info*, if its log began at *begun*. Raises Anew for a later log of the same name: the bytes of the two must
    not be joined.
    """
    if begun and info.begun and begun != info.begun:
        raise Anew(f"{info.stream} was removed and begun anew: its earlier bytes are gone")
    return info


def whole(of: Mapping[str, Any], name: str) -> int | None:
    """The whole number *name* in a body, not below 0; None where it is absent. Raises Refused."""
    found = of.get(name)
    if found is not None and (type(found) is not int or not 0 <= found <= MAX_OFFSET):
        raise Refused(400, f"{name} is a whole number from 0 to {MAX_OFFSET}")
    return found


def share(of: Mapping[str, Any], name: str) -> float | None:
    """The number *name* from 0 to 1; None where it is absent. Raises Refused."""
    found = of.get(name)
    if found is not None and (type(found) not in (int, float) or not 0 <= found <= 1):
        raise Refused(400, f"{name} is a number from 0 to 1")
    return found


def text(of: Mapping[str, Any], name: str) -> str:
    """The string *name*, empty where it is absent. Raises Refused."""
    found = "" if of.get(name) is None else of[name]
    if not isinstance(found, str) or len(found) > LONGEST:
        raise Refused(400, f"{name} is a text of at most {LONGEST} characters")
    return found


def level_of(asked: Mapping[str, Any]) -> Level | None:
    """The lowest level of the wanted rows; None: all rows. Raises Refused."""
    level = text(asked, "level")
    if level and level not in NAMES:
        raise Refused(400, f"level is one of {', '.join(NAMES)}")
    return Level[level.upper()] if level else None


def offset(of: Mapping[str, str], name: str) -> int | None:
    """The whole number *name* in a query; None where it is absent. Raises Refused."""
    found = of.get(name)
    if found is not None and (not found.isascii() or not found.isdecimal() or len(found) > 19):
        raise Refused(400, f"{name} is a whole number, not below 0")
    return None if found is None else whole({name: int(found)}, name)
