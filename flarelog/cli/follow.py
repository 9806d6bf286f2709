"""``flarelog follow``: what the sites of a run say, live."""

from __future__ import annotations

import sys
from typing import Any

import click

from flarelog.cli.completion import complete_run
from flarelog.cli.reading import read, shown_options, source_options

EXAMPLES = """\b
Examples:
  flarelog follow job-1 --receiver logs:4721                 every site, live, until the run ends
  flarelog follow job-1 --store logs --site 'site-[12]'      from a store directory, two sites
  flarelog follow job-1 -i 'loss|ERROR' -C 2                 what matches, with two lines around it
  flarelog follow job-1 --first-error                        what went wrong first, wherever it was
  flarelog follow job-1 --order time -t --tz local           in the order of the lines' own times
  flarelog follow job-1 -o json | jq .text                   an object a line
  flarelog follow job-1 --from site-1/log.txt:4096           one log, from this byte on
"""


@click.command(
    help=f"{EXAMPLES}\n\nShow the logs of RUN as they come, until the run has ended, in the order in which they arrive "
    "and each line with the name of its log. New logs appear by themselves, and a lost connection is taken up again "
    "where it was. What is known of gaps, files and ends stands between the lines. A pipe gets every line; a terminal "
    "that is too slow skips some, and says which. -o raw needs the choice of one log.\n\nData goes to stdout, talk to "
    "stderr; exit code 0, 3 if --first-error finds nothing, 4 without a connection, 5 if it may not be read, 130 after "
    "Ctrl-C, which tells a terminal with which command to go on."
)
@click.argument("run_id", metavar="RUN", shell_complete=complete_run)
@source_options
@click.option("--tail", type=click.IntRange(-1), metavar="N",
              help="Begin with the last N lines of each log; -1: with all. 100 on a terminal where neither "
              "--from nor --since says more, else all.")  # fmt: skip
@click.option("--first-error", is_flag=True,
              help="Show the earliest error of the run, by time, with its traceback and 5 lines around it (-A -B -C), "
              "and end. -i: what counts as one.")  # fmt: skip
@shown_options
@click.pass_context
def command(context: click.Context, /, run_id: str, **given: Any) -> None:
    sys.exit(read(context, run_id, given, follow=True))
