"""The argument RUN of the commands: a run's name in the store, or the name of the directory whose run it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from flarelog.cli.completion import complete_run
from flarelog.cli.running import INSTEAD, MAY_BE_SHORT
from flarelog.errors import InvalidName
from flarelog.names import given_run

F = TypeVar("F", bound=Callable[..., object])


def run_argument(*, required: bool = False) -> Callable[[F], F]:
    """Give a command *run_id*, as the store names the run; empty if it was left out. A text that no run can be called
    stays as it is: the command reports it.
    """
    given: dict[str, Any] = {"callback": _stored} if required else {"default": "", "callback": _meant}
    metavar = "RUN" if required else "[RUN]"
    return click.argument("run_id", metavar=metavar, shell_complete=complete_run, **given)


def _stored(_: click.Context, __: click.Parameter, text: str) -> str:
    try:
        return given_run(text) if text else ""
    except InvalidName:
        return text


def _meant(context: click.Context, param: click.Parameter, text: str) -> str:
    """As ``_stored``, for a command that changes nothing: it also takes the beginning of a run's name."""
    context.meta[MAY_BE_SHORT] = True
    return INSTEAD.get() or _stored(context, param, text)
