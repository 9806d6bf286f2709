"""The command line: one file a command; the only reader of argv and of the environment.

Exit codes: 0 ok, 1 failed, 2 usage (a bad option), 3 not found, 4 cannot connect, 5 not allowed, 6 ended with gaps, 7
timeout, 78 configuration (a bad file that an option names). Data goes to stdout, talk to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import logging
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Container, Coroutine, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from flarelog.errors import FAILED, FlarelogError, InvalidOption
from flarelog.talk import OneLine, worth_saying
from flarelog.text import LONGEST, legible
from flarelog.version import __version__

_COMMANDS = {
    "serve": "Receive the logs of all sites and store them.",
    "sidecar": "Send the logs under a directory to a receiver.",
    "status": "Show how each stream fares: live, quiet, silent, paused, ended.",
    "follow": "Show what the sites of a run say, live.",
    "logs": "Show what the sites of a run have said so far.",
    "streams": "Show which logs are held, and what is known of them.",
    "runs": "Show which runs are held: state, sites, bytes, gaps, times.",
    "view": "Show a log as a terminal would: plain, of a container, or compressed.",
    "verify": "Read what is stored again, and compare it with journal and source.",
    "doctor": "Check what flarelog needs here, and on the way to a receiver.",
    "completion": "Print what makes bash, zsh or fish complete commands, runs and sites.",
    "run-start": "Announce a run at a receiver.",
    "run-end": "End a run at a receiver: its sidecars drain and finish.",
    "rm": "Remove a run, or a site of one, with all its logs.",
    "certs": "Make a private CA, and certificates for a receiver, sites and readers.",
    "token": "Let readers and operators in that have no certificate.",
    "poc": "Prove it on this machine: sites, a receiver, faults, and a table.",
}

TRIM_EVERY = 10.0  # seconds
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# gRPC's core has a log of its own, in a format of its own; what matters of it comes back as an error with a sentence.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

if TYPE_CHECKING:
    from flarelog.client import Client
    from flarelog.model import Redaction
    from flarelog.security.tls import Tls

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """A click option whose value may also come from ``FLARELOG_`` and its name in capitals."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "FLARELOG_" + long[2:].replace("-", "_").upper()
    return click.option(*names, envvar=variable, show_envvar=True, **settings)


def with_options(command: F, options: Sequence[Callable[[F], F]]) -> F:
    """*command* with *options*, which its help shows in their order."""
    for each in reversed(options):
        command = each(command)
    return command


def tls_options(command: F) -> F:
    """The options ``--tls-ca``, ``--tls-cert`` and ``--tls-key``: pass the values to ``tls_of``."""
    for name, text in (
        ("--tls-key", "Key of the certificate, PEM, without a passphrase."),
        ("--tls-cert", "Certificate of this end, PEM."),
        (
            "--tls-ca",
            "Certificate of the CA that signed the other end's certificate, PEM; with it the connection is TLS.",
        ),
    ):
        command = option(name, type=click.Path(dir_okay=False), help=text)(command)
    return command


def client_options(command: F) -> F:
    """``tls_options`` and ``--token-file``, of a command that asks a receiver: pass the values to ``client``."""
    text = (
        "File with a token, which stands for a certificate at the receiver's port for readers (serve --reader-listen)."
    )
    return tls_options(option("--token-file", type=click.Path(dir_okay=False), help=text)(command))


def client(receiver: str, options: dict[str, Any]) -> Client:
    """A client of *receiver* with what ``client_options`` gave. Raises InvalidOption, NotAllowed."""
    from flarelog.client import Client

    path = options.pop("token_file")
    return Client(receiver, tls=tls_of(options), token=_token(path) if path else "")


def _token(path: str) -> str:
    from flarelog.security.tokens import read_token

    return read_token(path)


def one_source(context: click.Context, store: str | None, receiver: str | None) -> tuple[str | None, str | None]:
    """The store or the receiver that is to be asked, the other one None. Raises UsageError."""
    if store is not None and receiver is not None:  # what is said here outweighs a variable
        said = [context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ("store", "receiver")]
        store, receiver = (store if said != [False, True] else None), (receiver if said != [True, False] else None)
    if (store is None) == (receiver is None):
        raise click.UsageError("say where to look: either --store DIR or --receiver HOST:PORT")
    return store, receiver


def tls_of(options: dict[str, Any]) -> Tls | None:
    """What ``tls_options`` gave, taken out of *options*; None when nothing was given."""
    from flarelog.security.tls import Tls

    ca, cert, key = (options.pop(f"tls_{name}") for name in ("ca", "cert", "key"))
    return checked(lambda: Tls(ca or "", cert or "", key or "")) if ca or cert or key else None


class _Lazy(click.Group):
    """Imports a command when it is asked for: ``--help`` and a typing error need no gRPC."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"flarelog.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        command.short_help = _COMMANDS[cmd_name]
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As it is, but without importing all commands for their help."""
        names = [CompletionItem(name, help=text) for name, text in _COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *args: Any, **settings: Any) -> Any:
        """As it is; where stdout takes no more, whatever the command, a sentence says so."""
        try:
            return super().main(*args, **settings)
        except OSError as error:
            if error.filename is not None or error.errno not in _UNWRITABLE:
                raise
            sys.exit(ended_by(error))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="flarelog")
@option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="How much to say on stderr.",
)
def main(log_level: str) -> None:
    """Every site's log of a federated run in one place, live, complete and byte for byte."""
    _talk(log_level)


def _talk(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine())
    handler.addFilter(worth_saying)
    for name in ("flarelog", "asyncio", "grpc"):  # what the libraries say of a call may quote a peer as well
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
    logging.getLogger("flarelog").setLevel(level.upper())


def say(sentence: str) -> None:
    """Say *sentence* on stderr. A terminal that is gone, or a log on a full disk, is no reason to end."""
    with contextlib.suppress(OSError):
        click.echo(legible(sentence, 2 * LONGEST), err=True)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end; an error of flarelog's becomes its sentence on stderr and its exit code."""
    try:
        return asyncio.run(work)
    except FlarelogError as error:
        say(f"flarelog: {_sentence(error)}")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def checked(make: Callable[[], T]) -> T:
    """What *make* returns; an option or a name that it refuses ends the command with its sentence."""
    try:
        return make()
    except FlarelogError as error:
        say(f"flarelog: {_sentence(error)}")
        sys.exit(error.exit_code)


def _sentence(error: FlarelogError) -> str:
    """What *error* says; options bear the names that they have on the command line, and not those of their fields."""
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(error, InvalidOption):
        return str(error)
    flags = {flag[2:].replace("-", "_"): flag for param in context.command.params for flag in param.opts if flag[2:]}

    def flag(found: re.Match[str]) -> str:
        plain = found.start() > 0 and "_" not in found[0]  # a word, as it is anywhere but where a sentence begins
        return found[0] if plain else flags.get(found[0], found[0])

    return re.sub(r"(?<![\w'\"/.-])[a-z]+(?:_[a-z]+)*(?![\w'\"/-])", flag, str(error))


def ended_by(error: OSError) -> int:
    """The exit code of a command that could not write, for *error*; it is said if whoever reads did not just leave."""
    terminal = stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError) or (terminal and error.errno == errno.EIO):
        return 141  # whoever read it has seen enough, or is gone with his terminal
    say(f"flarelog: cannot write: {error.strerror}")
    return FAILED


def aligned(rows: Sequence[Sequence[str]], to_the_right: Container[int]) -> list[str]:
    """*rows* as lines of a table; the columns *to_the_right* hold numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in to_the_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def redaction_text(redacted: Redaction) -> str:
    """What a receipt says of what was masked."""
    return f"at least {redacted.matches:,} matches, {redacted.bytes:,} bytes masked"


def on_stop(first: Callable[[], object], at_once: Callable[[], object] = lambda: None) -> None:
    """SIGTERM and SIGINT call *first*; the second of them calls *at_once* and ends the process."""
    loop = asyncio.get_running_loop()
    asked = 0

    def stop(number: int) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            at_once()
            os._exit(128 + number)
        first()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)


def on_hangup(again: Callable[[], object]) -> None:
    """SIGHUP calls *again*, to read files again; it never ends the process."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, again)


def tune_memory() -> None:
    """Let glibc keep the memory of messages instead of giving it back and faulting it in again for each of them.

    With messages of a megabyte and more it is worth half as much throughput again, and a quarter where pieces of
    128 KiB are searched. A process of its own may decide it; an embedding runtime is left alone.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        for parameter, value in ((-3, 8 << 20), (-1, 32 << 20), (-8, 2)):
            libc.mallopt(parameter, value)  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_ARENA_MAX


def give_memory_back() -> None:
    """Let the running loop give to the system, now and then, what glibc keeps of a burst that is over.

    A sidecar that has opened 5,000 logs has 12 MiB of it. It takes a millisecond.
    """
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError, AttributeError):
        trim = ctypes.CDLL("libc.so.6").malloc_trim

        def again() -> None:
            trim(0)
            loop.call_later(TRIM_EVERY, again)

        loop.call_later(TRIM_EVERY, again)


def many_lines() -> None:
    """Look for garbage seldom: lines come by the million and make none, and looking at them costs a sixth of a view."""
    gc.set_threshold(100_000)


def more_descriptors() -> None:
    """Raise the soft limit of open files to the hard one: a log costs a receiver two, a sidecar one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
