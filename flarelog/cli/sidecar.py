"""``flarelog sidecar``: send the logs under a directory."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TypeVar

import click

from flarelog.cli.config_file import demand
from flarelog.cli.options import DIRECTORY, Access, asks, is_flag, job_name_option, option, tls_options, words
from flarelog.cli.running import checked, run, say
from flarelog.cli.sending import Sender, receivers_option, site_option, site_policy_option, until_stopped
from flarelog.cli.spools import removed
from flarelog.cli.tuning import more_descriptors, tune_memory
from flarelog.errors import FAILED, GAPS, NOT_FOUND, OK, USAGE
from flarelog.locks import give_the_word, has_the_word
from flarelog.sender import unmatched
from flarelog.sender.ending import Sending
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome, StreamOutcome, worst
from flarelog.sender.starts import of_process
from flarelog.sources.consent import in_force
from flarelog.sources.files.patterns import HIDDEN, PART, SourceOptions
from flarelog.sources.files.unmatched import left_out
from flarelog.sources.process import names as spools
from flarelog.sources.spool.series import of_spools

T = TypeVar("T")
STDOUT = 1
_ELSEWHERE = (*PART, "once", "state", "drain_limit")
# Options of the call, not of the sending.
_NOT_HOW = ("root", "accept_gaps", "remove_spool", "as_json", "output", "until_stdin_ends", "only_check")


@click.command
@receivers_option
@option("--run", "run_id", required=True, help="Name of the run.")
@site_option
@option(
    "--root",
    required=True,
    type=DIRECTORY,
    help="Directory of the logs. The sidecar waits until the directory exists.",
)
@asks(source=SourceOptions)
@option(
    "--all-files",
    is_flag=True,
    help="Send all files but hidden ones. Patterns, --start-at and the like count only as flags.",
)
@option(
    "--accept-gaps",
    is_flag=True,
    help="End with 0 instead of 6 where bytes are, or may be, lost for good.",
)
@click.option(
    "--remove-spool",
    is_flag=True,
    help="Remove --root, a spool of flarelog run, at the end if all of it is stored.",
)
@site_policy_option
@job_name_option
@asks(sidecar=SidecarOptions)
@tls_options
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="Drain when stdin ends, as flarelog run wants it.")
@click.option("--only-check", is_flag=True, hidden=True, help="Print what it was told, as flarelog run wants it.")
@option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a JSON object for each log at the end: what was sent, what was not, and why.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), hidden=True)
def command(
    receivers: tuple[str, ...],
    run_id: str,
    site: str,
    root: str,
    source: partial[SourceOptions],
    all_files: bool,
    accept_gaps: bool,
    remove_spool: bool,
    site_policy: tuple[str, ...],
    job_name: str,
    sidecar: partial[SidecarOptions],
    access: Access,
    until_stdin_ends: bool,
    only_check: bool,
    as_json: bool,
    output: str | None,
) -> None:
    """Send every log under a directory to a receiver, live, until SIGTERM; then drain and end.

    A second SIGTERM ends the sidecar at once. SIGHUP makes it read its certificates again.

    \b
    Exit codes:
      0   everything is stored
      1   something was not sent
      2   an option is wrong
      3   --root did not appear, or --once found no log there
      4   no receiver answered
      5   do not restart the sidecar automatically: a newer one has taken over,
          the receiver or the site does not allow it, or the run was removed
      6   everything is stored that is left, but bytes are lost (gaps), or
          the end of a generation was not seen
      7   the receiver acknowledged nothing for too long
      78  a file that an option names cannot be used, or a glob cannot be read

    \b
    Example:
      flarelog sidecar --receiver 127.0.0.1:4721 --run job-1 --site site-1 \\
          --root /var/log/job
    """
    as_json = as_json if output is None else output == "json"
    if all_files:
        source, sidecar = _flags_alone(source), _flags_alone(sidecar)
        given = source.keywords
        exclude = (*given.get("exclude", ()), *HIDDEN)
        source = partial(source, include=given.get("include") or ("**",), exclude=exclude)
        as_json = as_json and (is_flag("as_json") or output is not None)
    source = partial(source, job=job_name)
    consents = checked(lambda: in_force(*site_policy))
    for consent in () if only_check else consents:  # a site without consent must not fail the command of flarelog run
        checked(consent.demand)
    logs = checked(lambda: source(root, sites=consents, series=of_spools(len(receivers) if until_stdin_ends else 0)))
    tls = checked(access.tls)
    targets = checked(
        lambda: [
            sidecar(address, run_id, site, logs, tls=tls, others=len(receivers) > 1, started=of_process())
            for address in receivers
        ]
    )
    if only_check:
        if tls is not None:
            checked(tls.demand)
        context = click.get_current_context()
        checked(lambda: demand(context))
        click.echo(json.dumps(words(context, (*_NOT_HOW, *_ELSEWHERE))))
        return
    if remove_spool and (not all_files or any(map(is_flag, PART))):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in PART)
        raise click.UsageError(f"--remove-spool needs --all-files, and none of {options}: a spool is sent whole")
    locks = _held(root) if remove_spool else []
    tune_memory()
    more_descriptors()
    made: list[Sending] = []

    def make() -> list[Sender[Outcome]]:
        made.extend(map(Sending, targets))
        return [*made]

    if until_stdin_ends:
        speak_to(os.getppid(), made)
        if not consents:
            _tell(logs)
    outcomes = run(until_stopped("sidecar", make, until_stdin_ends=until_stdin_ends))
    if until_stdin_ends:
        _tell(logs)
    if as_json:
        for target, outcome in zip(targets, outcomes, strict=True):
            for line in _records(outcome):
                click.echo(json.dumps({"receiver": target.receiver, **line}))
            for sentence in outcome.troubles:
                whose = {"receiver": target.receiver, "run": run_id, "site": site}
                click.echo(json.dumps({**whose, "log": None, "error": sentence}))
    code = worst(outcome.exit_code for outcome in outcomes)
    if locks and code in (OK, GAPS) and (why := removed(root, logs)):
        say(f"flarelog: {why}")
        sys.exit(FAILED)
    sys.exit(OK if accept_gaps and code == GAPS else code)


def _held(root: str) -> list[int]:
    """Lock the spool *root*; end the command where that fails."""
    try:
        found = checked(lambda: spools.lock_all(root))
    except FileNotFoundError:
        say(f"flarelog: --remove-spool: {root} does not exist: it was sent and removed already, or the path is wrong")
        sys.exit(NOT_FOUND)
    except OSError as error:
        say(f"flarelog: --remove-spool: {root} cannot be locked: {error.strerror}")
        sys.exit(FAILED)
    if not found:
        say(f"flarelog: --remove-spool: {root} is no spool of flarelog run: it has no lock file")
        sys.exit(USAGE)
    return found


def speak_to(guard: int, sending: list[Sending]) -> None:
    """Fall silent once the process *guard*, flarelog run, writes its last message or has ended: none may follow it.
    flarelog run itself reports the files that the policy leaves out, with their place.
    """
    # Wrap these handlers' own emit: a filter would release the lock before the line is written.
    for handler in logging.getLogger("flarelog").handlers:
        handler.emit = partial(_spoken, handler.emit, guard)  # type: ignore[method-assign]
    at_the_end = logging.getLogger(unmatched.__name__)
    at_the_end.addFilter(lambda _: not any(one.sidecar.draining for one in sending))


def _spoken(emit: Callable[[logging.LogRecord], None], guard: int, record: logging.LogRecord) -> None:
    if has_the_word(STDOUT):  # the guard takes this lock for its last message, and keeps it
        try:
            if os.getppid() == guard:
                emit(record)
        finally:
            give_the_word(STDOUT)


def _tell(logs: SourceOptions) -> None:
    """Tell flarelog run which files the site's policy leaves out, because it keeps those."""
    click.echo(json.dumps(left_out(logs) if logs.sites else []))


def _flags_alone(options: partial[T]) -> partial[T]:
    """*options* without values that variables and configuration files set for sidecars of other directories."""
    said = {name: value for name, value in options.keywords.items() if name not in _ELSEWHERE or is_flag(name)}
    return partial(options.func, **said)


def _why(stream: StreamOutcome, outcome: Outcome) -> str | None:
    """The reason why *stream* has no receipt; None if it has one."""
    if stream.error is None and stream.receipt is not None:
        return None
    return str(stream.error or stream.trouble or outcome.error or "") or None


def _records(outcome: Outcome) -> list[dict[str, object]]:
    return [
        {
            **stream.stream.fields,
            "committed": stream.committed,
            "receipt": None if stream.receipt is None else f"crc32:{stream.receipt.digest:08x}",
            "redacted": asdict(stream.receipt.redacted) if stream.receipt and stream.receipt.redacted else None,
            "misses": stream.misses,
            "reconnects": stream.reconnects,
            "generations": stream.generations,
            "gaps": stream.gaps,
            "incomplete": stream.lacks.sentence or None,
            "unsent": stream.unsent,
            "error": _why(stream, outcome),
        }
        for stream in outcome.streams
    ]
