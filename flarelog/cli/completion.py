"""``flarelog completion``: shell completion, with names from the receiver or the store.

Completion fails silently and quickly: a shell that hangs, or prints an error into the line being typed, is worse than
one that completes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

import click

from flarelog.late import late

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

LIMIT = 0.5  # seconds for the receiver's answer
SHELLS = ("bash", "zsh", "fish")
_NAME = late(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")

# bash also splits words at = and :, so an address, or an option with its value, is whole in the line alone.
_CLICKS = 'COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD'
_WHOLE = 'COMP_WORDS="$line" COMP_CWORD=$count'
_WORDS = """\
    local line="${COMP_LINE:0:COMP_POINT}" words
    IFS=$' \\t\\n' read -ra words <<< "$line"
    local count=$((${#words[@]} - 1))
    [[ $line == *[[:space:]] ]] && count=$((count + 1))
"""

EXAMPLES = """\b
Examples:
  # in ~/.bashrc
  eval "$(flarelog completion bash)"
  # in ~/.zshrc, after compinit
  eval "$(flarelog completion zsh)"
  flarelog completion fish > ~/.config/fish/completions/flarelog.fish
"""


@click.command(
    help=f"{EXAMPLES}\n\nPrint a script that lets TAB complete commands, options, runs and sites. The names of runs "
    "and sites come from the receiver or the store that the command line names, or else from FLARELOG_RECEIVER or "
    "FLARELOG_STORE."
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"this version of click has no completion for {shell}: install a newer one")
    script = found(context.find_root().command, {}, "flarelog", "_FLARELOG_COMPLETE").source()
    if _CLICKS in script:
        script = script.replace("    local response\n", f"    local response\n{_WORDS}", 1).replace(_CLICKS, _WHOLE)
    # click's own script splits a description at each comma, and shows the first part.
    click.echo(script.replace('(string split "," ', '(string split -m 1 "," '))


def _items(
    what: Literal["run", "site"], context: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The names that begin with *incomplete*, for ``shell_complete`` of an argument or option."""
    names: Iterable[str] = ()
    # A command ends with a sentence about invalid options; completion stays silent.
    with contextlib.suppress(Exception, SystemExit), contextlib.redirect_stderr(io.StringIO()):
        names = _names(what, context)
    from click.shell_completion import CompletionItem  # a command that completes nothing skips this import

    from flarelog.names import natural

    return [CompletionItem(name) for name in sorted(set(names), key=natural) if name.startswith(incomplete)]


complete_run = partial(_items, "run")
complete_site = partial(_items, "site")  # of the line's run, or of all runs


def _names(what: Literal["run", "site"], context: click.Context) -> Iterable[str]:
    from flarelog.cli.options import one_source

    given = context.params
    run = given.get("run_id") or ""
    store, receiver = one_source(context, given.get("store"), given.get("receiver"))
    if receiver is not None:
        return asyncio.run(_asked(what, receiver, run if what == "site" else "", given))
    if what == "run":
        return _directories(store or "")
    inside = [run] if run else _directories(store or "")
    return [site for one in inside for site in _directories(os.path.join(store or "", one))]


def _directories(path: str) -> list[str]:
    """The subdirectories that can be a run or a site: a completed name ends up in a shell's line."""
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir() and _NAME.fullmatch(entry.name)]


async def _asked(what: Literal["run", "site"], receiver: str, run: str, given: Mapping[str, str | None]) -> list[str]:
    from flarelog.cli.options import Access
    from flarelog.errors import NotAllowed
    from flarelog.security.tls import Tls

    named = {name: given.get(f"tls_{name}") or "" for name in ("ca", "cert", "key")}
    async with Access(partial(Tls, **named), given.get("token_file"), given.get("proxy") or "").client(
        receiver
    ) as connected:
        connected.patience = LIMIT
        async with asyncio.timeout(LIMIT):
            try:
                return [getattr(info.stream, what) for info in await connected.streams(run, one_a_site=True)]
            except NotAllowed:
                if what != "run":
                    raise
                return [info.run for info in await connected.runs()]  # an operator may list runs, but no streams
