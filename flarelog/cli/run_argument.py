"""The argument RUN of the commands: a run's name in the store, or the name of the directory whose run it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flarelog.cli.completion import complete_run
from flarelog.errors import InvalidName
from flarelog.names import given_run

F = TypeVar("F", bound=Callable[..., object])


def run_argument(*, required: bool = False) -> Callable[[F], F]:
    """Give a command *run_id*, as the store names the run; empty if it was left out. A text that no run can be called
    stays as it is: the command reports it.
    """
    given: dict[str, Any] = {} if required else {"default": ""}
    metavar = "RUN" if required else "[RUN]"
    return click.argument("run_id", metavar=metavar, callback=_stored, shell_complete=complete_run, **given)


def _stored(_: click.Context, __: click.Parameter, text: str) -> str:
    try:
        return given_run(text) if text else ""
    except InvalidName:
        return text
