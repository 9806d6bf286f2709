"""The argument RUN of the commands: a run's name in the store, or the name of the directory whose run it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flarelog.cli.completion import complete_run
from flarelog.cli.running import INSTEAD, MAY_BE_SHORT
from flarelog.errors import InvalidName
from flarelog.names import given_run
from flarelog.text import quoted

F = TypeVar("F", bound=Callable[..., object])


def run_argument(*, required: bool = False, objects: bool = False) -> Callable[[F], F]:
    """Give a command *run_id*, as the store names the run; empty if it was left out. A text that no run can be called
    stays as it is: the command reports it. A command that does not require a run changes nothing: it also takes the
    beginning of a run's name. *objects*: the command also takes ``KIND/NAME``.
    """

    def stored(context: click.Context, _: click.Parameter, text: str) -> str:
        if not required:
            context.meta[MAY_BE_SHORT] = True
        if not required and INSTEAD.get():
            return INSTEAD.get()
        if "/" in text and not objects:
            raise click.UsageError(
                f"{quoted(text)} is no run, whose name has no /: only logs, follow and findings take KIND/NAME;"
                " flarelog runs lists the runs"
            )
        try:
            return given_run(text) if text else ""
        except InvalidName:
            return text

    given: dict[str, Any] = {"metavar": "RUN"} if required else {"metavar": "[RUN]", "default": ""}
    return click.argument("run_id", shell_complete=complete_run, callback=stored, **given)
