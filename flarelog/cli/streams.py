"""``flarelog streams``: list the stored logs."""

from __future__ import annotations

import json

import click

from flarelog.cli.options import Place, output_option, place_options
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import aligned, narrowed, redaction_text, run, terminal_columns
from flarelog.cli.there import look
from flarelog.completeness import incomplete_lines
from flarelog.model import ATTEMPT, BORN, REDACTED, SPOOL, StreamInfo
from flarelog.names import shown
from flarelog.records import exit_lines, stream_record, unstored_sentences
from flarelog.text import legible
from flarelog.viewers.health import unread


@click.command
@run_argument()
@place_options()
@output_option()
def command(run_id: str, place: Place, as_json: bool) -> None:
    """Show the stored logs, of all runs or of one.

    The table has a row for each log. GENERATIONS counts the files that the log came from: each rotation begins another
    one. GAPS counts the places where bytes are known to be lost. STATE is open, or sealed if the log has a receipt.
    -o json lists each generation and each gap. Lines on stderr that begin with "incomplete" name the logs that have
    lost bytes, or a generation whose end was not seen; lines that begin with "missing" name logs that were never
    stored.

    Some file systems lack information that flarelog uses, such as a file's birth time. Notes on stderr name the logs
    that came from such a file system, and the effect.

    \b
    Example: flarelog streams job-1 --store logs
    """
    every = run(_streams(run_id, place))
    found = [info for info in every if not info.unstored]
    for line in map(json.dumps, map(stream_record, found)) if as_json else _table(found):
        click.echo(line)
    missing = [f"missing: {sentence}" for sentence in (*unstored_sentences(every), *unread(every))]
    notes = missing if as_json else [*incomplete_lines(every), *missing, *exit_lines(found), *_notes(found)]
    for note in notes:
        click.echo(note, err=True)


async def _streams(run_id: str, place: Place) -> list[StreamInfo]:
    if place.store is not None:
        return await look(run_id, place.store, None, unstored=True)
    async with place.client() as connected:
        return await look(run_id, None, connected, unstored=True)


def _table(found: list[StreamInfo]) -> list[str]:
    rows = [("RUN", "SITE", "LOG", "BYTES", "GENERATIONS", "GAPS", "STATE")]
    for info in found:
        state = "sealed" if info.sealed else "open"
        names = (shown(info.stream.run), info.stream.site, info.stream.name)
        rows.append((*names, f"{info.committed:,}", str(info.generations), str(len(info.gaps)), state))
    fitting = narrowed(rows, ("GENERATIONS", "BYTES"), terminal_columns())
    return aligned(fitting, [at for at, name in enumerate(fitting[0]) if name in ("BYTES", "GENERATIONS", "GAPS")])


_SENTENCES = {
    "no-handle": "the file system has no file handles: only the birth time tells a reused inode number",
    "no-birth": "the file system has no birth times: only the bytes tell a deleted file from its successor",
    "no-inotify": "the file system reports no changes: files are polled every 0.25 s",
    "remote": "the file system is remote: changes by other machines are seen with a delay",
    "api": "read from the Kubernetes API, which may leave out lines without a sign",
    "gzip": "rotated files had been compressed: their content is stored",
    "redacted": "the site masked secrets: they are stored as asterisks",
    "hole": "the file has a hole, stored as NULs: -o json shows where",
}


def _notes(found: list[StreamInfo]) -> list[str]:
    """A sentence for each note about logs, with their names."""
    logs: dict[str, list[str]] = {}
    for info in found:
        for word in dict.fromkeys(word.partition(":")[0] for word in info.notes):
            if word in (ATTEMPT, BORN, SPOOL):
                continue
            redacted = info.redacted if word == REDACTED else None
            logs.setdefault(word, []).append(f"{info.stream}{f': {redaction_text(redacted)}' if redacted else ''}")
    return [
        f"note: {_SENTENCES.get(word, legible(word))} ({', '.join(names[:3])}{' and others' if len(names) > 3 else ''})"
        for word, names in sorted(logs.items())
    ]
