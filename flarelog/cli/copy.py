"""``flarelog copy``: copy runs from one store to another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import click

from flarelog.cli.options import StorePlace, output_option, timeout_option
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import MAY_BE_SHORT, on_stop, run, say
from flarelog.errors import FAILED, OK, Fenced, NotAllowed, NotFound, StoreLocked, Unavailable
from flarelog.names import run_name, shown
from flarelog.stores import choose
from flarelog.text import several

if TYPE_CHECKING:
    from flarelog.copying import Copied, Copy
    from flarelog.stores.base import Reader, Store

_PACE = 2.0  # seconds between two rounds of --follow, which also rests five times as long as a round took
_SHOWN = 0.5  # seconds between two lines of progress on a terminal


@click.command
@click.argument("source", metavar="FROM", type=StorePlace())
@click.argument("target", metavar="TO", type=StorePlace())
@run_argument()
@click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C or SIGTERM.")
@click.option("--remove", is_flag=True, help="Remove each ended run at FROM after its copy was read back.")
@timeout_option
@output_option()
def command(source: str, target: str, run_id: str, follow: bool, remove: bool, as_json: bool) -> None:
    """Copy RUN, or all runs, from the store FROM to the store TO: bytes, marks, receipts, notes and states.

    FROM and TO are directories, stores that receivers share, nats://HOST:4222,.../NAME, or archives in an object store,
    s3://BUCKET/PREFIX. An archive needs pip install flarelog[archive], a bucket with conditional writes (AWS S3 and
    most others), and credentials in the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and
    AWS_ENDPOINT_URL for other providers than AWS.

    A copy that was interrupted continues where TO ends, after comparing what TO has with FROM. At the end TO's records
    must agree with FROM's: length, checksum, marks and receipt of each log. A receiver may use FROM, but not a
    directory TO. --remove needs FROM alone as well; it keeps runs that have not ended.

    Data goes to stdout: a line for each run. Exit code 0; 1 if a log cannot be copied or differs, 3 if there is no
    such store, bucket or run, 4 if the object store does not answer, 5 without credentials, or if TO is in use.

    \b
    Examples:
      flarelog copy logs s3://bucket/logs
      flarelog copy s3://bucket/logs restored job-1
      flarelog copy logs s3://bucket/logs --follow
    """
    if run_id:
        run_name(run_id)
    if remove:  # the whole name, as for flarelog rm
        click.get_current_context().meta.pop(MAY_BE_SHORT, None)
    if _same(source, target):
        raise click.UsageError(f"FROM and TO are both {source}: name two stores")
    sys.exit(run(_copy(source, target, run_id, follow=follow, remove=remove, as_json=as_json)))


def _same(source: str, target: str) -> bool:
    def place(name: str) -> str:
        return name.rstrip("/") if "://" in name else os.path.realpath(name)

    return place(source) == place(target)


async def _copy(source: str, target: str, run_id: str, *, follow: bool, remove: bool, as_json: bool) -> int:
    from flarelog.copying import Copy

    stopped = asyncio.Event()
    if follow:
        on_stop(stopped.set)
    async with AsyncExitStack() as stack:
        held: Reader
        removes: Store | None = None
        if remove:
            choose.there(source)
            held = removes = await stack.enter_async_context(_opened(source, "--remove needs FROM alone"))
        else:
            held = choose.reader(source)
        runs = await _runs(held, source, run_id, follow=follow)
        kept = await stack.enter_async_context(_opened(target, "copy needs TO alone"))
        copy = Copy(held, kept, removes)
        shown = _Shown(copy, as_json=as_json)
        async with shown:
            code = await _round(copy, runs, shown)
            while follow and not stopped.is_set():
                await _wait(stopped, max(_PACE, 5 * shown.took))
                if stopped.is_set():
                    break
                code = max(code, await _again(copy, held, run_id, shown))
        return code


async def _runs(held: Reader, source: str, run_id: str, *, follow: bool) -> Sequence[str]:
    """The runs to copy. Raises NotFound."""
    runs = sorted(await held.names())
    if run_id:
        if run_id not in runs and not follow:
            from flarelog.viewers.missing import said, without  # needed after a mistake only
            from flarelog.viewers.origin import StoreOrigin

            raise said(*await without(StoreOrigin(source), run_id))
        return [run_id] if run_id in runs else []
    if not runs and not follow:
        raise NotFound(f"{source} has no run")
    return runs


@asynccontextmanager
async def _opened(place: str, why: str) -> AsyncGenerator[Store, None]:
    try:
        async with choose.store(place) as store:
            yield store
    except StoreLocked as error:
        raise NotAllowed(
            f"the receiver (process {error.holder or 'unknown'}) uses the store {place}, and {why}: stop it first"
        ) from error


async def _round(copy: Copy, runs: Sequence[str], shown: _Shown) -> int:
    """Copy *runs*, and show each; returns the exit code. Raises FlarelogError."""
    begin, code = time.monotonic(), OK
    try:
        await copy.learn()
        for name in runs:
            found = await copy.run(name)
            shown.show(found)
            code = code if found.verified else FAILED
    except Fenced as error:
        raise NotAllowed(f"another flarelog copy has taken over a log of this run: {error}") from error
    finally:
        shown.took = time.monotonic() - begin
    return code


async def _again(copy: Copy, held: Reader, run_id: str, shown: _Shown) -> int:
    """Another round with what has come; while a server does not answer, it says so once."""
    try:
        runs = [name for name in sorted(await held.names()) if run_id in ("", name)]
        code = await _round(copy, runs, shown)
    except Unavailable as error:
        shown.say(f"flarelog: {error}; trying again")
        return OK
    shown.trouble = ""
    return code


async def _wait(stopped: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopped.wait()


class _Shown:
    """The lines of runs, each when it has changed, and progress on a terminal."""

    def __init__(self, copy: Copy, *, as_json: bool) -> None:
        self._copy, self._as_json = copy, as_json
        self._live = sys.stderr.isatty()
        self._said: dict[str, str] = {}
        self.took = 0.0  # seconds of the latest round
        self.trouble = ""
        self._showing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        if self._live:
            self._showing = asyncio.create_task(self._progress())

    async def __aexit__(self, *_: object) -> None:
        if self._showing is not None:
            self._showing.cancel()
            self._clear()

    def say(self, trouble: str) -> None:
        """Say *trouble* on stderr, once."""
        if trouble != self.trouble:
            self._clear()
            say(trouble)
        self.trouble = trouble

    def show(self, found: Copied) -> None:
        line = json.dumps(_record(found)) if self._as_json else _line(found)
        key = json.dumps({**_record(found), "copied": 0})
        if self._said.get(found.run) == key:
            return
        self._said[found.run] = key
        self._clear()
        click.echo(line)
        for sentence in (*found.troubles, *((found.kept,) if found.kept else ())):
            say(f"flarelog: {sentence}")

    def _clear(self) -> None:
        if self._live:
            click.echo("\r\033[K", err=True, nl=False)

    async def _progress(self) -> None:
        while True:
            await asyncio.sleep(_SHOWN)
            text = f"{several(self._copy.logs, 'log')}, {self._copy.copied / 1e6:,.1f} MB copied"
            click.echo(f"\r\033[K{text}", err=True, nl=False)


def _line(found: Copied) -> str:
    what = "verified" if found.verified else "not verified"
    about = f"{several(found.logs, 'log')}, {several(found.size, 'byte')}, {found.new:,} copied, {what}"
    open_ = f", {several(found.unsealed, 'log')} without a receipt" if found.unsealed else ""
    return f"{shown(found.run)}: {about}{open_}{', removed at FROM' if found.removed else ''}"


def _record(found: Copied) -> dict[str, object]:
    return {
        "run": found.run,
        "logs": found.logs,
        "bytes": found.size,
        "copied": found.new,
        "without_receipt": found.unsealed,
        "verified": found.verified,
        "removed": found.removed,
        "troubles": list(found.troubles),
        "kept": found.kept or None,
    }
