"""``flarelog logs``: the logs of a run's sites as far as they are stored."""

from __future__ import annotations

import click

from flarelog.cli.asked import Asked, reads
from flarelog.cli.options import Switches
from flarelog.cli.reading import read
from flarelog.options import typed
from flarelog.values import frozen

EXAMPLES = """\b
Examples:
  # every log, one after the other, in your pager
  flarelog logs job-1 --receiver logs:4721
  # merged by the lines' own times
  flarelog logs job-1 --store logs --order time
  # the last lines of one site
  flarelog logs job-1 --site site-1 --tail 100
  # matching lines, with three lines around each
  flarelog logs job-1 -i 'CUDA|Error' -C 3
  # the first error of all sites
  flarelog logs job-1 --first-error
  # the exact bytes
  flarelog logs job-1 --site site-1 --log log.txt -o raw
  # the last ten minutes, one JSON object a line
  flarelog logs job-1 -o json --since 10m
  # what a Kubernetes pod wrote, and all pods with a label
  flarelog logs pod/web-0
  flarelog logs -l app=train
"""


@frozen
class LogsOptions:
    tail: int | None = typed(
        None, "Show the last N lines of each log; -1: all lines.", short="-n", metavar="N", least=-1
    )
    follow: bool = typed(False, "Show new lines until the run has ended, as flarelog follow does.", short="-f")
    first_error: bool = typed(
        False,
        "Show the earliest cause or error with 5 lines around it. -i REGEX defines an error.",
    )
    count: bool = typed(False, "Show only how many lines of each log match.", short="-c")
    require_match: bool = typed(False, "End with 1 if no line matches.")
    pager: bool = typed(True, "Use a pager on a terminal.", flags={"no-pager": "off"})


@click.command(
    cls=Switches,
    help=f"""{EXAMPLES}

Show the logs of RUN as far as they are stored, one after the other, or merged by time. A terminal gets a pager:
FLARELOG_PAGER, PAGER or less. Notes between the lines show where bytes are missing, where a new file begins and where
a log ends; --notes off leaves them out. -o raw writes the exact bytes, one log after the other in the order of their
names.

In the place of RUN, KIND/NAME shows what a pod, job, jobset, deployment, statefulset or daemonset wrote, in all runs,
merged by time: no run's name has a /. -l chooses pods by labels.

With -i the receiver leaves out text that cannot match, and of a log without a match nothing is shown. Data goes to
stdout, messages to stderr.
Exit code 0; 1 if a log cannot be read, or no line matches and --require-match is given, 3 if there is no such log or
rank, or --first-error finds nothing, 4 if the receiver cannot be reached, 5 if the logs may not be read.
""",
)
@reads(LogsOptions)
@click.pass_context
def command(context: click.Context, /, asked: Asked) -> None:
    read(context, asked)
