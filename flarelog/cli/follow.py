"""``flarelog follow``: the logs of a run's sites, live."""

from __future__ import annotations

import click

from flarelog.cli.asked import Asked, reads
from flarelog.cli.options import Switches
from flarelog.cli.reading import read
from flarelog.options import typed
from flarelog.values import changed, frozen

EXAMPLES = """\b
Examples:
  # every site, live, until the run ends
  flarelog follow job-1 --receiver logs:4721
  # from a store directory, two sites
  flarelog follow job-1 --store logs --site 'site-[12]'
  # matching lines, with two lines around each
  flarelog follow job-1 -i 'loss|ERROR' -C 2
  # the first error of all sites
  flarelog follow job-1 --first-error
  # in the order of the lines' own times
  flarelog follow job-1 --order time -t --tz local
  # one JSON object a line
  flarelog follow job-1 -o json | jq .body
  # one log, from this byte on
  flarelog follow job-1 --from site-1/log.txt:4096
  # the first and the last rank of a Kubernetes job, and errors of the others
  flarelog follow job/train --ranks first,last
"""


@frozen
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
        "Explain known trouble below the line that shows it. auto: only on a terminal.",
        choices=("auto", "on", "off"),
    )
    first_error: bool = typed(
        False,
        "Show the earliest cause or error with 5 lines around it, and end. -i REGEX defines an error.",
    )


@click.command(
    cls=Switches,
    help=f"""{EXAMPLES}

Show the logs of RUN live, until the run has ended. Lines appear in the order in which they arrive, each with the name
of its log. New logs appear by themselves. A lost connection is resumed at the byte where it broke. Notes between the
lines show where bytes are missing, where a new file begins and where a log ends; --notes off leaves them out. A pipe
gets every line. When a terminal is too slow, follow skips lines and reports how many bytes. -o raw writes the bytes of
one log, which --site and --log choose.

follow waits for sites and logs that have sent nothing yet, until RUN has ended.

In the place of RUN, KIND/NAME follows what a pod, job, jobset, deployment, statefulset or daemonset writes, in all
runs, in the order of time: no run's name has a /. -l chooses pods by labels. New and restarted pods appear by
themselves.

Data goes to stdout, messages to stderr. Exit code 0; 1 if a log cannot be read, 3 if --first-error finds nothing,
no log has come or none has the rank, 4 if the receiver cannot be reached, 5 if the logs may not be read, 130 after
Ctrl-C. On a terminal, Ctrl-C prints the command that continues from the same place.
""",
)
@reads(FollowOptions)
@click.pass_context
def command(context: click.Context, /, asked: Asked) -> None:
    read(context, changed(asked, follow=True))
