"""The command line: one file a command; the only reader of argv and of the environment.

Exit codes: 0 ok, 1 failed, 2 usage (a bad option), 3 not found, 4 cannot connect, 5 not allowed, 6 ended with gaps, 7
timeout, 78 configuration (a bad file that an option names, a bad glob). Data goes to stdout, log messages to stderr.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from flarelog.cli.running import INSTEAD, Meant, ended_by, stand_in, stdout_is_closed, terminal_size, told_at
from flarelog.cli.tuning import tune_grpc
from flarelog.text import legible
from flarelog.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "serve": "Receive the logs of all sites and store them.",
    "run": "Run a command; keep its output and exit code, and send them to a receiver.",
    "sidecar": "Send the logs under a directory to a receiver.",
    "agent": "Send each run under a directory; seal its logs at its end.",
    "status": "Show the state of each log: live, quiet, silent, paused, ended.",
    "follow": "Show the logs of a run, live.",
    "logs": "Show the logs of a run as far as they are stored.",
    "web": "Show the runs of a receiver or a store in a browser.",
    "findings": "Show what went wrong in a run, the earliest cause first.",
    "report": "Write a report of a run: a page, Markdown or a picture.",
    "streams": "List the stored logs, their files and gaps.",
    "runs": "List the stored runs: state, sites, bytes, gaps, times.",
    "view": "Show log files as a terminal would: plain, of a container, or compressed.",
    "verify": "Compare stored logs with their journals and source files.",
    "doctor": "Check this machine, a store, or the way to a receiver.",
    "config": "Check a configuration file: unknown keys, wrong values, exposed secrets.",
    "completion": "Print a completion script for bash, zsh or fish.",
    "run-start": "Announce a run to a receiver.",
    "run-end": "End a run; its sidecars drain and finish.",
    "rm": "Remove a run, or a site of one, with all its logs.",
    "copy": "Copy runs between stores: to an archive, back, or to another machine.",
    "certs": "Make a private CA, and certificates for a receiver, sites, readers and operators.",
    "store": "Make a store on NATS JetStream, which receivers share.",
    "token": "Make tokens for readers and operators who have no certificate.",
    "poc": "Simulate a run with faults on this machine, and compare the result.",
}

_ELSEWHERE = {
    "runs lists the runs": "list ls jobs",
    "status RUN shows the state of each log": "ps top stat state info describe show get watch",
    "follow RUN shows a run live, and logs RUN -n 20 its last lines": "tail head",
    "logs RUN -g REGEX shows the lines that match": "grep search find",
    "logs RUN shows the lines of a run, and view FILE those of a file": "log cat less more print read",
    "findings RUN shows what went wrong": "errors error why diagnose explain",
    "serve starts a receiver": "server start receive receiver up listen",
    "run-end RUN ends a run": "stop end kill down finish cancel",
    "rm RUN removes a run": "remove delete del prune purge",
    "sidecar --root DIR sends the logs of a site, and run COMMAND the output of a command": "send push client",
    "run COMMAND runs a command and sends its output": "exec",
    "web shows the runs in a browser": "ui dashboard open login",
    "doctor checks this machine and the way to a receiver": "check test ping",
    "logs RUN -o raw writes the exact bytes of a run's logs": "export download dump",
    "copy FROM TO copies runs between stores": "cp mv archive restore backup migrate sync",
}
"""What to call instead of the commands of other programs."""

_SPEAKERS = {"serve": "receiver", "sidecar": "sidecar", "agent": "agent", "web": "web"}  # shown in their messages
_LEVELS = ["debug", "info", "warning", "error"]
LEAST_COLUMNS = 20  # minimum width of help
_NO_FILE = ("config", "completion")  # commands without --config

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

tune_grpc()


@contextlib.contextmanager
def _piped() -> Iterator[None]:
    """End a command whose reader has closed stdout like any other program in a pipe: click alone would exit with 1."""
    try:
        yield
    except BrokenPipeError as error:
        sys.exit(ended_by(error))


@contextlib.contextmanager
def _without_openssl() -> Iterator[None]:
    """Import asyncio as a Python without OpenSSL does: gRPC brings its own TLS, and flarelog uses none of asyncio's.

    OpenSSL takes 4 MiB of memory, and a twentieth of a reader's start. A module that needs it imports it later.
    """
    modules: dict[str, object] = sys.modules  # type: ignore[assignment]  # None in it means "cannot be imported"
    hidden = modules.setdefault("ssl", None) is None
    try:
        yield
    finally:
        if hidden:
            del modules["ssl"]


class _Help(click.HelpFormatter):
    """Help for narrow terminals: click's is at least 50 columns wide, and option names take 30 of them."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, width, max_width)
        self.width = min(self.width, max(LEAST_COLUMNS, terminal_size().columns - 1))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, min(col_max, self.width // 2), col_spacing)


class _Context(click.Context):
    formatter_class = _Help


class _Lazy(click.Group):
    """Imports a command when it runs or shows its own help: the list of all commands imports none."""

    context_class = _Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with _without_openssl():
            module = import_module(f"flarelog.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        if cmd_name not in _NO_FILE:
            from flarelog.cli.config_file import configured

            configured(command, lambda level: _talk(level, _SPEAKERS.get(cmd_name, "")))
        _levelled(command, _SPEAKERS.get(cmd_name, ""))
        command.short_help = COMMANDS[cmd_name]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in COMMANDS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if name == "help":
            if args[1:]:
                return self.resolve_command(ctx, [*args[1:], "--help"])
            click.echo(ctx.get_help())
            ctx.exit()
        if name == "version":
            click.echo(f"flarelog, version {__version__}")
            ctx.exit()
        from flarelog.names import meant  # needed after a typo only

        for instead, names in _ELSEWHERE.items():
            if name in names.split():
                raise click.UsageError(f"there is no command {name}: flarelog {instead}")
        hint = meant(name, COMMANDS) or ": flarelog --help lists the commands"
        raise click.UsageError(legible(f"there is no command {name}{hint}"))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete without importing all commands for their help."""
        from click.shell_completion import CompletionItem  # only a shell's completion needs it

        names = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        with _piped():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        with _piped():
            try:
                return super().invoke(ctx)
            except click.UsageError as error:
                if type(error) is not click.UsageError or error.ctx is None:  # click itself names a value's variable
                    raise
                with error.ctx.scope(cleanup=False):
                    told = told_at(error.message)
                raise click.UsageError(told, error.ctx) from error

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the command; if stdout can take no more, end with a sentence that says so."""
        stand_in()
        gc.disable()  # as in __main__, for programs that call main themselves
        try:
            return super().main(*args, **settings)
        except Meant as meant:
            before = INSTEAD.set(meant.instead)
            try:
                return super().main(*args, **settings)
            finally:
                INSTEAD.reset(before)
        except OSError as error:
            closed = error.errno == errno.EBADF and stdout_is_closed()
            if error.filename is not None or not (closed or error.errno in _UNWRITABLE):
                raise
            sys.exit(ended_by(error))
        finally:
            gc.enable()


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="flarelog")
@click.option(
    "--log-level",
    envvar="FLARELOG_LOG_LEVEL",
    show_envvar=True,
    type=click.Choice(_LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    help="Show messages of this level and above on stderr.",
)
@click.pass_context
def main(context: click.Context, /, log_level: str) -> None:
    """Every site's log of a federated run in one place, live, complete and byte for byte.

    A SIZE may have a unit, as in 10GB or 64MiB, and so may a DURATION, as in 90s, 45m or 2w.
    """
    gc.freeze()  # exclude all imported objects from the first garbage collection, which would take 5 ms
    gc.enable()
    _talk(log_level, _SPEAKERS.get(context.invoked_subcommand or "", ""))


def _levelled(command: click.Command, speaker: str) -> None:
    """Let *command*, or the commands of a group, take ``--log-level`` too, so that its position does not matter, and
    ``--no-color``, which has no effect on most.
    """
    command.context_class = _Context
    if isinstance(command, click.Group):
        for each in command.commands.values():
            _levelled(each, speaker)
        return
    hidden: dict[str, dict[str, Any]] = {
        "--no-color": {
            "is_flag": True,
            "callback": lambda _, __, given: os.environ.update({"NO_COLOR": "1"} if given else {}),
        },
        "--log-level": {
            "type": click.Choice(_LEVELS, case_sensitive=False),
            "callback": lambda _, __, level: _talk(level, speaker) if level is not None else None,
        },
    }
    for name, how in hidden.items():
        if not any(name in param.opts for param in command.params):
            command.params.append(click.Option((name,), hidden=True, expose_value=False, **how))


def _talk(level: str, speaker: str = "") -> None:
    import logging  # importing these two takes half of the time of --help

    from flarelog.talk import Talk, worth_saying

    handler = Talk(speaker, all_of_them=level.lower() == "debug")
    handler.addFilter(worth_saying)
    for name in ("flarelog", "asyncio", "grpc", "uvicorn"):  # libraries' messages may quote a peer as well
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    logging.getLogger("flarelog").setLevel(level.upper())
