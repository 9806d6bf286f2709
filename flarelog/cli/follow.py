"""``flarelog follow``: what the sites of a run say, live."""

from __future__ import annotations

import sys
from functools import partial

import click

from flarelog.cli.completion import complete_run
from flarelog.cli.lines import LineOptions
from flarelog.cli.options import Place, Switches, asks, place_options
from flarelog.cli.reading import Asked, LogOptions, ShownOptions, read

EXAMPLES = """\b
Examples:
  # every site, live, until the run ends
  flarelog follow job-1 --receiver logs:4721
  # from a store directory, two sites
  flarelog follow job-1 --store logs --site 'site-[12]'
  # what matches, with two lines around it
  flarelog follow job-1 -i 'loss|ERROR' -C 2
  # what went wrong first, wherever it was
  flarelog follow job-1 --first-error
  # in the order of the lines' own times
  flarelog follow job-1 --order time -t --tz local
  # an object a line
  flarelog follow job-1 -o json | jq .text
  # one log, from this byte on
  flarelog follow job-1 --from site-1/log.txt:4096
"""


@click.command(
    cls=Switches,
    help=f"""{EXAMPLES}

Show the logs of RUN live, until the run has ended: lines in the order in which they arrive, each with the name of its
log. New logs appear by themselves. After a lost connection follow goes on where it was. Where bytes are missing, where
a new file begins and where a log ends, a line says so (--notes off leaves it out). A pipe gets every line. A terminal
that is too slow skips lines, and a line says how many. -o raw writes the bytes of one log: choose it with --site and
--log.

Data goes to stdout, messages to stderr. Exit code 0; 3 if --first-error finds nothing, 4 if the receiver cannot be
reached, 5 if the logs may not be read, 130 after Ctrl-C. On a terminal, Ctrl-C prints the command that continues from
there.
""",
)
@click.argument("run_id", metavar="RUN", shell_complete=complete_run)
@place_options()
@asks(logs=LogOptions)
@click.option("--tail", type=click.IntRange(-1), metavar="N",
              help="Begin with the last N lines of each log; -1: with all.  [default: 100 on a terminal "
              "without --from and --since, else all]")  # fmt: skip
@click.option("--first-error", is_flag=True,
              help="Show the earliest error of the run, by time, with its traceback and 5 lines around it (-A -B -C), "
              "and end. -i: what counts as one.")  # fmt: skip
@asks(lines=LineOptions)
@asks(shown=ShownOptions)
@click.pass_context
def command(
    context: click.Context,
    /,
    run_id: str,
    place: Place,
    logs: partial[LogOptions],
    tail: int | None,
    first_error: bool,
    lines: partial[LineOptions],
    shown: partial[ShownOptions],
) -> None:
    asked = Asked(run_id, place, logs(), shown(), lines(), tail, follow=True, first_error=first_error)
    sys.exit(read(context, asked))
