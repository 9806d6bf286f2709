"""The choice of the run when a command names none."""

from __future__ import annotations

import asyncio

import click

from flarelog.cli.options import Place
from flarelog.errors import NotFound
from flarelog.model import RunInfo
from flarelog.names import DOCTORS_RUN, natural
from flarelog.text import some

NAMED = 5  # runs that the error lists for a choice


def which(run: str, place: Place, *, latest: bool) -> str:
    """*run*; if empty, the *latest* run at *place*, or the only one. Raises UsageError, NotFound and its like."""
    if run:
        if latest:
            raise click.UsageError("--latest chooses the run: leave out its name")
        return run
    from flarelog.cli.runs import known  # most calls name their run

    return chosen(asyncio.run(known("", place)), str(place), latest=latest)


def chosen(found: list[RunInfo], where: str, *, latest: bool) -> str:
    """The name of the only run of *found*, or of the *latest*. Raises UsageError, NotFound."""
    if not found:
        raise NotFound(f"{where} has no runs")
    found = [info for info in found if info.run != DOCTORS_RUN] or found
    newest = sorted(found, key=lambda info: (info.begun or info.grown, info.grown, natural(info.run)), reverse=True)
    if len(newest) > 1 and not latest:
        names = some([info.run for info in newest], NAMED)
        raise click.UsageError(f"{where} has {len(newest)} runs, {names}: name one, or give --latest")
    return newest[0].run
