"""``flarelog follow``: what the sites of a run say, live."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import click

from flarelog.cli.asked import Asked, reads
from flarelog.cli.options import Switches
from flarelog.cli.reading import read
from flarelog.options import typed

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
  flarelog follow job-1 -o json | jq .body
  # one log, from this byte on
  flarelog follow job-1 --from site-1/log.txt:4096
"""


@dataclass(frozen=True, slots=True)
class FollowOptions:
    tail: int | None = typed(
        None,
        "Begin with the last N lines of each log; -1: all lines.  [default: 100 on a terminal, else all]",
        short="-n",
        metavar="N",
        least=-1,
    )
    findings: str = typed(
        "auto",
        "Say what goes wrong below the line that tells it. auto: on a terminal.",
        choices=("auto", "on", "off"),
    )
    first_error: bool = typed(
        False,
        "Show the earliest cause, or else error, with 5 lines around it, and end. -i says what an error is.",
    )


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
@reads(FollowOptions)
@click.pass_context
def command(context: click.Context, /, asked: Asked) -> None:
    sys.exit(read(context, replace(asked, follow=True)))
