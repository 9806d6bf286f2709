"""``flarelog verify``: reread the stored logs and compare them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from flarelog.cli.completion import complete_site
from flarelog.cli.options import STORE, option, output_option, split_at_commas, store_option, timeout_option
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import redaction_text, run
from flarelog.cli.there import unmatched_sites
from flarelog.completeness import completeness, exit_code
from flarelog.errors import FAILED, NOT_FOUND, OK, NotAllowed, NotFound
from flarelog.globs import any_of, check
from flarelog.model import StreamInfo
from flarelog.names import run_name
from flarelog.records import unstored_sentences
from flarelog.stores import choose
from flarelog.stores.unopened import with_unopened
from flarelog.text import legible, several
from flarelog.verify import Files, Verdict, verify
from flarelog.viewers.health import unread
from flarelog.viewers.origin import StoreOrigin


@click.command
@run_argument()
@click.option("--site", "sites", multiple=True, metavar="GLOB", help="Verify only sites that match. Repeatable.",
              callback=split_at_commas, shell_complete=complete_site)  # fmt: skip
@store_option(STORE, required=True)
@timeout_option
@option(
    "--source",
    type=click.Path(exists=True, file_okay=False, readable=False),
    help="Compare with the site's files as well: the directory that was the sidecar's --root.",
)
@output_option()
def command(run_id: str, sites: tuple[str, ...], store: str, source: str | None, as_json: bool) -> None:
    """Read the logs of RUN, or of all runs, again, and compare them with their journals and with their source files.

    The output shows the first offset that differs, without --source the range in which it lies, and what a log lacks.
    Exit code 1 means that a log differs, that its journal is damaged or another log's, or
    that something in the store cannot be read, or, such as a link or a file without a journal, is not a log and was
    left out.
    Otherwise exit code 3 means that no log could be compared with --source, or that a part of it cannot be read, 6
    that bytes of a log are lost or the end of a generation was not seen, and 7 that a log has no receipt, or that
    nothing of it was stored.

    A log is compared with the same files that it was sent from, whatever their names are now: a copy of such a file
    does not count.

    \b
    Examples:
      flarelog verify --store logs
      flarelog verify job-1 --site site-1 --store logs
    """
    files = _files_of(source) if source else None
    verdicts, unvouched, left_out, unstored, unmatched = run(_verify(run_id, sites, store, files))
    closed = files.unread if files is not None else {}
    for verdict in verdicts:
        if as_json:
            click.echo(json.dumps(_record(verdict)))
            continue
        compared = f", {verdict.compared:,} compared with their source" if source else ""
        redacted = f", {redaction_text(verdict.redacted)}" if verdict.redacted is not None else ""
        lacks = f", but {verdict.lacks.sentence}" if verdict.lacks.lacks else ""
        click.echo(f"{verdict.stream}: {several(verdict.length, 'byte')}{compared}{redacted}: {verdict.text}{lacks}")
        if source and verdict.alone and not closed:
            click.echo(f"{verdict.stream}: no file that it was read from is left under {legible(source)}", err=True)
    for sentence in (*unvouched, *unstored_sentences(unstored), *unread(unstored)):
        click.echo(sentence, err=as_json)
    for path, why in sorted(closed.items()):
        click.echo(f"flarelog: {legible(path)} cannot be read, so it was not compared: {why}", err=True)
    for sentence in unmatched:
        click.echo(f"flarelog: {sentence}", err=True)
    unreadable = any(info.is_unreadable for info in unstored)
    if unvouched or left_out or unreadable or any(verdict.first is not None or verdict.damaged for verdict in verdicts):
        sys.exit(FAILED)
    full = [verdict for verdict in verdicts if verdict.length]
    if source and full and all(verdict.alone for verdict in full):
        if not closed:
            click.echo(f"nothing was compared with {legible(source)}: a copy of a file is another file", err=True)
        sys.exit(NOT_FOUND)
    if closed:
        sys.exit(NOT_FOUND)
    code = exit_code([*(verdict.lacks for verdict in verdicts), *map(completeness, unstored)])
    sys.exit(code or (NOT_FOUND if unmatched else OK))


def _record(verdict: Verdict) -> dict[str, object]:
    return {
        **verdict.stream.fields,
        "committed": verdict.length,
        "compared": verdict.compared,
        "first_difference": verdict.first,
        "result": verdict.text,
        "incomplete": verdict.lacks.sentence or None,
    }


def _files_of(source: str) -> Files:
    """Raises NotAllowed."""
    if not os.access(source, os.R_OK | os.X_OK):
        raise NotAllowed(f"--source {source} cannot be read: run this as a user who may read the site's files")
    return Files(Path(source))


async def _verify(
    run_id: str, sites: tuple[str, ...], root: str, files: Files | None
) -> tuple[list[Verdict], Sequence[str], set[str], list[StreamInfo], list[str]]:
    if run_id:
        run_name(run_id)
    check(sites)
    store, origin = choose.reader(root), StoreOrigin(root)

    def wanted(_: str, site: str) -> bool:
        return not sites or any_of(sites, site)

    held = [info async for info in with_unopened(store, run_id, wanted)]
    streams = [info.stream for info in held if not info.unstored]
    unstored = [info for info in held if info.unstored or info.unread_rest]
    runs = [run_id] if run_id else await origin.runs()
    strangers = [each for one in runs if not sites for each in await choose.strangers(store, one)]
    unvouched = [each for each in strangers if each not in store.left_out]
    if not (streams or unvouched or unstored):
        from flarelog.viewers.missing import missing, said, without  # needed after a mistake only
        from flarelog.viewers.selection import Selection

        if not run_id:
            raise NotFound(f"{legible(root)} has no log of {'such a site' if sites else 'any run'}")
        raise said(*await (missing(origin, Selection(run_id, sites)) if sites else without(origin, run_id)))
    unmatched = await unmatched_sites(run_id, sites, held, root, None)
    return await verify(store, streams, files), unvouched, store.left_out, unstored, unmatched
