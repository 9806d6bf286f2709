"""``flarelog run``: a command, and what it says at the receiver."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

import click
from click.core import ParameterSource

from flarelog.cli.options import Access, asks, complete_file, is_flag, option, tls_options
from flarelog.cli.running import checked, sentence, stdout_is_closed
from flarelog.errors import USAGE, FlarelogError
from flarelog.names import receiver_address
from flarelog.sources.process import environment, names
from flarelog.sources.process.command import end_as
from flarelog.sources.process.guard import Guard, Plan, python, say
from flarelog.sources.process.options import RunOptions
from flarelog.sources.process.sending import Sending

_SERVICES = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")  # to systemd the command speaks, if it does
_SAID = (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)  # what the sidecar does not find by itself
_CHECKED = 10  # seconds in which a sidecar's table is checked
_OWN = ("receivers", "run_id", "site", "command", *(RunOptions.__dataclass_fields__))


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@option(
    "--receiver", "receivers", multiple=True, help="HOST:PORT of flarelog serve, which may start later. Repeatable."
)
@option("--run", "run_id", help="The run's id.  [default: of the Slurm job, or the command's name and the time]")
@option("--site", help="The site's name.  [default: the host's]")
@asks(how=RunOptions)
@option(
    "--redact",
    multiple=True,
    metavar="NAME",
    help="Mask these kinds of secrets: tokens, passwords, keys, email or all.",
)
@option(
    "--site-policy",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="TOML file that limits what leaves the site. Repeatable.",
)
@tls_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_file)
def command(
    receivers: tuple[str, ...],
    run_id: str | None,
    site: str | None,
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

    \b
    Examples:
      flarelog run --receiver 127.0.0.1:4721 --run job-1 -- python train.py
      srun flarelog run --log rank-{SLURM_PROCID} -- python train.py
    """
    options = checked(how)
    env = dict(os.environ)
    if not command[0]:
        raise click.UsageError("the command is empty: name a program")
    run = names.filled(names.default_run(command[0], env, time.time()) if run_id is None else run_id, env)
    where = names.filled(names.default_site(env) if site is None else site, env)
    log = names.filled(options.log, env).strip("/")
    checked(lambda: names.checked(run, where, log, alone=options.merge or options.pty))
    for address in receivers:
        checked(partial(receiver_address, address))
    context = click.get_current_context()
    outer = environment.outer(env)
    if outer and not _goes_its_own_way(env, run):
        receivers = ()
        if not_taken := _not_taken(context):
            say(
                f"{', '.join(not_taken)}: not taken, because the flarelog run around this one sends the output"
                " as its own options say; name --receiver, or another --run, to send it apart"
            )
    if outer and not receivers and not is_flag("spool"):
        options = replace(options, spool=None)  # the variable is the outer command's
    if receivers or not outer:
        _demand(redact, site_policy, access, env.get("FLARELOG_ZONE", ""))
    if receivers:
        _demand_table(_asked(context, receivers, run, where, "."), context.meta.get("flarelog.config"))
    place = _place(options, outer, run, where, log, own=bool(receivers))
    sending = None
    if place is not None and receivers:
        sending = _sending(context, env, receivers, run, where, options, place)
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
        )
    )
    if stdout_is_closed():  # what the command says is no error of its own
        os.dup2(os.open(os.devnull, os.O_RDWR), sys.stdout.fileno())
    status = guard.run()
    if place is not None and not guard.kept:
        if receivers or not wanted:  # the directory is this command's own
            names.discard(place)
    elif place is not None and not wanted:
        say(f"the command's output is in {place.root}: neither --receiver nor --spool was given")
    sys.exit(end_as(status))


def _demand(redact: tuple[str, ...], site_policy: tuple[str, ...], access: Access, zone: str) -> None:
    """End with USAGE where the sidecar could make nothing of what is said to it. A certificate that has expired, or is
    not valid yet, is no such thing: the command is not to fail for it.
    """
    if not (redact or site_policy or zone or any(access.named.keywords.values())):
        return
    from flarelog.sources.consent import in_force
    from flarelog.sources.files.patterns import SourceOptions

    try:
        SourceOptions(".", redact=redact, sites=in_force(*site_policy))
        if (tls := access.tls()) is not None:
            tls.demand()
        SourceOptions(".", zone=zone)  # the last one: no option of this command bears its name
    except FlarelogError as error:
        what = sentence(error)
        say(f"FLARELOG_ZONE: {what}" if what.startswith("zone ") else what)
        sys.exit(USAGE)


def _demand_table(asked: list[str], path: str | None) -> None:
    """End with USAGE where the sidecar, which is *asked* this, could make nothing of its table of the file at *path*,
    or of its own file. It finds out itself, in a process of its own: this one does without what a sidecar needs.
    """
    from flarelog.cli.config_file import chosen, read

    if (path := chosen(path, "sidecar")) is None:
        return
    try:
        code = 0
        if "sidecar" in read(path).tables:
            import subprocess

            argv = [*python(), "--log-level", "warning", *asked, "--only-check"]
            argv += ["--drain-timeout", "1"]  # which is not its own
            # S603: it is this program itself, without a shell.
            nothing = subprocess.DEVNULL
            with suppress(subprocess.TimeoutExpired):  # no command waits for a check that hangs
                code = subprocess.run(argv, stdin=nothing, stdout=nothing, timeout=_CHECKED, check=False).returncode  # noqa: S603
    except FlarelogError as error:
        say(sentence(error))
        code = USAGE
    except OSError:  # the sidecar will not start either, which is told then, and is no fault of the file
        return
    if code > 1:
        sys.exit(USAGE)


def _not_taken(context: click.Context) -> list[str]:
    """The options that were given to a command whose output another one sends, and that only who sends could follow."""
    taken = {"receivers", "run_id", "command", *RunOptions.__dataclass_fields__}
    return [param.opts[0] for param in context.command.params if param.name not in taken and is_flag(str(param.name))]


def _goes_its_own_way(env: Mapping[str, str], run: str) -> bool:
    """Whether a command below another one sends for itself: it names a receiver, or another run than the outer one."""
    return is_flag("receivers") or (is_flag("run_id") and env.get("FLARELOG_RUN", run) != run)


def _place(options: RunOptions, outer: str | None, run: str, site: str, log: str, *, own: bool) -> names.Place | None:
    """Where the logs are: with another command's if this one runs below it, in *spool* for a sidecar beside it, else
    in a directory of the run's own. None: nowhere, and it was said why.
    """

    def logs(named: str) -> Collection[str]:
        return _logs(options, named).values()

    try:
        if not own and (outer or options.spool):
            return names.hold(options.spool or outer or "", log, apart=False, logs=logs)
        base = options.spool or names.own_directory(os.environ)
        return names.hold(os.path.join(os.path.abspath(base), run, site), log, apart=True, logs=logs)
    except OSError as error:
        where = error.filename or options.spool
        say(f"the spool cannot be made: {where}: {error.strerror}; the command's output is not kept")
        return None


def _logs(options: RunOptions, log: str) -> dict[str, str]:
    if options.merge or options.pty:
        # A number that came without a name is that of a directory: the log's own name is what the page says.
        return {"both": log if options.log else f"{log}/output.log".strip("/")}
    outputs = ("stdout", "stderr") if options.capture == "both" else (options.capture,)
    return {output: f"{log}/{output}.log" if log else f"{output}.log" for output in outputs}


def _sending(
    context: click.Context,
    env: dict[str, str],
    receivers: tuple[str, ...],
    run: str,
    site: str,
    options: RunOptions,
    place: names.Place,
) -> Sending:
    """The sidecar of *place*."""
    import shlex

    asked = _asked(context, receivers, run, site, place.root)
    later = shlex.join(["flarelog", *asked, "--once"])
    argv = [*python(), "--log-level", "warning", *asked, "--until-stdin-ends"]
    argv += ["--drain-timeout", str(max(options.linger, 0.1))]
    meant_for_it = {name: value for name, value in env.items() if name not in _SERVICES}
    return Sending(argv, meant_for_it, place, later, say)


def _asked(context: click.Context, receivers: tuple[str, ...], run: str, site: str, root: str) -> list[str]:
    """What the sidecar of *root* gets: what was said here and is meant for it; the rest it finds in the environment."""
    asked = ["sidecar", "--run", run, "--site", site, "--root", root, "--all-files"]
    for address in receivers:
        asked += ["--receiver", address]
    for param in context.command.params:
        if param.name in _OWN or context.get_parameter_source(str(param.name)) not in _SAID:
            continue
        said = context.params.get(str(param.name), ())
        for value in said if isinstance(said, tuple) else (said,):  # somebody may send the rest from elsewhere
            asked += [param.opts[0], os.path.abspath(value) if isinstance(param.type, click.Path) else str(value)]
    if path := context.meta.get("flarelog.config"):
        asked += ["--config", os.path.abspath(path)]
    return asked
