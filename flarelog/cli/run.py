"""``flarelog run``: run a command and send its output to the receiver."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import click

from flarelog.cli.options import (
    READ,
    RECEIVER,
    Access,
    asks,
    complete_file,
    is_flag,
    job_name_option,
    option,
    proxy_option,
    split_at_commas,
    tls_options,
    words,
)
from flarelog.cli.running import checked, sentence, stdout_is_closed
from flarelog.cli.tuning import users_environment
from flarelog.errors import FlarelogError
from flarelog.names import independent, receiver_ends
from flarelog.proxies import route
from flarelog.sources.process import environment, names
from flarelog.sources.process.command import end_as
from flarelog.sources.process.guard import Guard, Plan, python, say
from flarelog.sources.process.options import RunOptions
from flarelog.sources.process.sending import Sending

_SERVICES = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")  # for the command alone, not its sidecar
_RESOLVED = 10  # seconds for a sidecar to print its options
_OWN = ("receivers", "run_id", "site", "command", *(RunOptions.__dataclass_fields__))


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@option("--receiver", "receivers", multiple=True, help=f"{RECEIVER} It may start later. Repeatable.")
@option("--run", "run_id", help="The run's id.  [default: of the Slurm job, or the command's name and the time]")
@option("--site", help="The site's name.  [default: the host's]")
@job_name_option
@asks(how=RunOptions)
@option(
    "--redact",
    multiple=True,
    metavar="NAME",
    callback=split_at_commas,
    help="Mask these kinds of secrets: tokens, passwords, keys, email or all.",
)
@option(
    "--site-policy",
    multiple=True,
    type=READ,
    help="TOML file that limits what leaves the site. Repeatable.",
)
@tls_options
@proxy_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_file)
def command(
    receivers: tuple[str, ...],
    run_id: str | None,
    site: str | None,
    job_name: str,
    how: partial[RunOptions],
    redact: tuple[str, ...],
    site_policy: tuple[str, ...],
    access: Access,
    command: tuple[str, ...],
) -> None:
    """Run a command; keep its output and exit code, and send them to a receiver.

    The output also goes to flarelog's stdout and stderr, and flarelog ends with the command's exit status. flarelog
    never slows, blocks or fails the command. A variable in braces in a name, such as {RANK}, is replaced by its value.

    \b
    Exit codes:
      the exit code of the command; if a signal killed the command, flarelog
          kills itself with it, or as PID 1 ends with 128 + its number
      126 the command cannot be started
      127 the command does not exist
      2   an option is wrong; nothing was started
      5   every user can write the configuration file; nothing was started
      78  the configuration, or a file that an option names, cannot be used;
          nothing was started

    \b
    Examples:
      flarelog run --receiver 127.0.0.1:4721 --run job-1 -- python train.py
      srun flarelog run --log rank-{SLURM_PROCID} -- python train.py
    """
    options = checked(how)
    env = users_environment()
    if not command[0]:
        raise click.UsageError("the command is empty: name a program")
    run = names.filled(names.default_run(command[0], env, time.time()) if run_id is None else run_id, env)
    where = names.filled(names.default_site(env) if site is None else site, env)
    log = names.filled(options.log, env).strip("/")
    checked(lambda: names.checked(run, where, log, alone=options.merge or options.pty))
    for receiver in checked(partial(independent, receivers)):
        for end in checked(partial(receiver_ends, receiver)):
            checked(partial(route, end, access.proxy))
    context = click.get_current_context()
    outer = environment.outer(env)
    # Nested, a command sends for itself if it names a receiver, or another run than the outer one.
    if outer and not (is_flag("receivers") or (is_flag("run_id") and env.get("FLARELOG_RUN", run) != run)):
        receivers = ()
        if not_taken := _not_taken(context):
            say(
                f"{', '.join(not_taken)}: not taken, because the flarelog run around this one sends the output"
                " as its own options say; name --receiver, or another --run, to send it apart"
            )
    if outer and not receivers and not is_flag("spool"):
        options = replace(options, spool=None)  # the variable is the outer command's
    if receivers or not outer:
        _demand(redact, site_policy, access)
    asked = _asked(context, receivers, run, where)
    if receivers and _finds_more(context, env):
        asked = _resolved(asked)
    elif receivers and (tls := access.tls()) is not None:
        checked(tls.whole)
    place = _place(options, outer, run, where, log, own=bool(receivers))
    sending, earlier = None, partial(iter, ())
    if place is not None and receivers:
        of_sidecar = env | ({"FLARELOG_PROXY": access.proxy} if access.proxy else {})
        sending = _sending(asked, of_sidecar, options, place)
        earlier = partial(_earlier, asked, of_sidecar, options, place, log)
    root = place.root if place is not None else None
    wanted = bool(receivers or outer or options.spool)
    guard = Guard(
        Plan(
            command,
            environment.of_command(
                env,
                root,
                place.log if place else "",
                diagnostics=options.diagnostics,
                told={"FLARELOG_RECEIVER": " ".join(receivers), "FLARELOG_RUN": run} if receivers else None,
            ),
            options,
            root,
            _logs(options, place.log) if place is not None else {},
            os.urandom(8).hex(),
            sending,
            wanted,
            earlier,
        )
    )
    if stdout_is_closed():  # a message on a closed stdout is no error of the command
        os.dup2(os.open(os.devnull, os.O_RDWR), sys.stdout.fileno())
    status = guard.run()
    if place is not None and not guard.kept:
        if receivers or not wanted:  # no other command uses the directory
            names.discard(place)
    elif place is not None and not wanted:
        say(f"the command's output is in {place.root}: neither --receiver nor --spool was given")
    sys.exit(end_as(status))


def _demand(redact: tuple[str, ...], site_policy: tuple[str, ...], access: Access) -> None:
    """Exit if the sidecar would refuse these options, as the sidecar would. An expired or not yet valid certificate
    does not count: the command must not fail for it.
    """
    if not (redact or site_policy or any(access.named.keywords.values())):
        return
    from flarelog.sources.consent import in_force
    from flarelog.sources.files.patterns import SourceOptions

    try:
        SourceOptions(".", redact=redact, sites=in_force(*site_policy))
        if (tls := access.tls()) is not None:
            tls.demand()
    except FlarelogError as error:
        say(sentence(error))
        sys.exit(error.exit_code)


def _finds_more(context: click.Context, env: Mapping[str, str]) -> bool:
    """Whether the sidecar may have options that this command lacks: in a variable, or in a file's table."""
    known = {param.envvar for param in context.command.params} | {"FLARELOG_LOG_LEVEL", environment.OUTER}
    if any(name.startswith("FLARELOG_") and name not in known for name in env):
        return True
    from flarelog.cli.config_file import chosen, read

    path = chosen(context.meta.get("flarelog.passed"), "sidecar")
    try:
        return path is not None and "sidecar" in read(path).tables
    except FlarelogError as error:
        say(sentence(error))
        sys.exit(error.exit_code)


def _resolved(asked: list[str]) -> list[str]:
    """The options of a sidecar that gets *asked*, with those from variables and its table in a file, as words. A check
    run of the sidecar prints them, in another process, so that this one imports none of its modules. Exits as the
    sidecar if it refuses them.
    """
    import json
    import subprocess

    argv = [*python(), "--log-level", "warning", "sidecar", *asked, "--root", ".", "--only-check"]
    try:
        # S603: it is this program itself, without a shell.
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_RESOLVED, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):  # a slow or failed check must not hold up the command
        return asked
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]  # click's usage stands above it
    if done.returncode > 1:
        say(said.removeprefix("flarelog: ").removeprefix("Error: "))
        sys.exit(done.returncode)
    with suppress(ValueError):
        return [str(word) for word in json.loads(done.stdout)]
    return asked


def _not_taken(context: click.Context) -> list[str]:
    """The options given that have no effect, because the outer ``flarelog run`` sends this command's output."""
    taken = {"receivers", "run_id", "command", *RunOptions.__dataclass_fields__}
    return [param.opts[0] for param in context.command.params if param.name not in taken and is_flag(str(param.name))]


def _place(options: RunOptions, outer: str | None, run: str, site: str, log: str, *, own: bool) -> names.Place | None:
    """The directory of the logs: the outer command's if this one is nested, else *spool* for a sidecar beside it, else
    a directory of this run. None: it could not be made, and a message said why.
    """

    def logs(named: str) -> Collection[str]:
        return _logs(options, named).values()

    try:
        if not own and (outer or options.spool):
            return names.hold(options.spool or outer or "", log, apart=False, logs=logs)
        base = options.spool or names.own_directory(os.environ, say)
        return names.hold(os.path.join(os.path.abspath(base), run, site), log, apart=True, logs=logs)
    except OSError as error:
        where = error.filename or options.spool
        say(f"the spool cannot be made: {where}: {error.strerror}; the command's output is not kept")
        return None


def _logs(options: RunOptions, log: str) -> dict[str, str]:
    if options.merge or options.pty:
        # Without --log, *log* is empty or the number of a directory; the log in it has the documented name.
        return {"both": log if options.log else f"{log}/output.log".strip("/")}
    outputs = ("stdout", "stderr") if options.capture == "both" else (options.capture,)
    return {output: f"{log}/{output}.log" if log else f"{output}.log" for output in outputs}


def _earlier(
    asked: list[str], env: dict[str, str], options: RunOptions, place: names.Place, log: str
) -> Iterator[Sending]:
    """The sidecars of the spools that commands of the same name left while another one had the place *place*."""
    for left in names.left_beside(place, log):
        yield _sending(asked, env, options, left, "an earlier command's output")


def _sending(
    asked: list[str], env: dict[str, str], options: RunOptions, place: names.Place, what: str = "it"
) -> Sending:
    """The sidecar of *place*. Its command for later carries all options, and needs nothing of this environment."""
    import shlex

    asked = ["sidecar", "--root", os.path.abspath(place.root), *_zone(asked), *asked]
    later = shlex.join(["flarelog", *asked, "--once"])
    argv = [*python(), "--log-level", "warning", *asked, "--until-stdin-ends"]
    argv += ["--drain-timeout", str(max(options.linger, 0.1))]
    meant_for_it = {name: value for name, value in env.items() if name not in _SERVICES}
    return Sending(argv, meant_for_it, place, later, say, options.linger, what)


def _zone(asked: list[str]) -> list[str]:
    """The option for the zone of the site's clock if *asked* has none: another shell may have another one in TZ or in
    FLARELOG_ZONE.
    """
    if "--zone" in asked:
        return []
    from flarelog.sources.zone import system_zone  # imported late, to keep a command's start fast

    return ["--zone", system_zone()]


def _asked(context: click.Context, receivers: tuple[str, ...], run: str, site: str) -> list[str]:
    """The sidecar's options: those of this command that it shares, from any source."""
    asked = ["--run", run, "--site", site, "--all-files"]
    for address in receivers:
        asked += ["--receiver", address]
    # Slurm's name of the job, if the run is that job.
    given = context.params["run_id"] or context.params["job_name"]
    slurms = "" if given else os.environ.get("SLURM_JOB_NAME", "")
    return asked + (["--job-name", slurms] if slurms else []) + words(context, _OWN)
