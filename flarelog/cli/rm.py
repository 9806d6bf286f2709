"""``flarelog rm``: remove a run, or a site of one."""

from __future__ import annotations

import click

from flarelog.cli.completion import complete_site
from flarelog.cli.options import RECEIVER, Place, place_options
from flarelog.cli.run_argument import run_argument
from flarelog.cli.running import run, stdin_is_terminal
from flarelog.cli.there import known, not_there
from flarelog.errors import InvalidName, NotFound, StoreLocked
from flarelog.model import Removed, RunInfo
from flarelog.names import run_name, site_name
from flarelog.records import moment
from flarelog.stores import choose
from flarelog.text import several
from flarelog.viewers.origin import ReceiverOrigin, StoreOrigin


@click.command
@run_argument(required=True)
@click.option("--site", default="", help="Remove only this site of the run.", shell_complete=complete_site)
@place_options(
    "Remove from this store directory on this machine, which no receiver may use.",
    f"{RECEIVER} You need the role operator there.",
)
@click.option(
    "--force", is_flag=True, help="Remove the run even while sidecars send logs of it. They end with exit code 5."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation. Needed where stdin is no terminal.")
def command(run_id: str, site: str, place: Place, force: bool, yes: bool) -> None:
    """Remove RUN, or one site of it, with all its logs.

    Its readers and sidecars get the message that it was removed. The bytes cannot be restored; the name can be used
    again. The receiver frees the disk afterwards; what it has not freed when it is stopped goes at its next start. A
    run is removed only with --force while sidecars send it or wait with it.

    \b
    Example: flarelog rm job-1 --receiver 127.0.0.1:4721
    """
    try:
        run_name(run_id)
        if site:
            site_name(site)
    except InvalidName as error:
        raise click.UsageError(str(error)) from error
    if not yes and not stdin_is_terminal():
        raise click.UsageError("flarelog rm cannot ask for confirmation without a terminal: give --yes")
    if not yes:
        (found,) = run(known(run_id, place))
        if not click.confirm(_question(found, site, place), err=True):
            raise click.Abort
    removed = run(_remove(run_id, site, place, force=force))
    what = f"site {site} of run {run_id}" if site else f"run {run_id}"
    click.echo(f"removed {what}: {several(removed.streams, 'log')}, {several(removed.size, 'byte')}")


def _question(info: RunInfo, site: str, place: Place) -> str:
    state = f", {info.standing(live=place.store is None)}"
    last = moment(info.grown)
    since = f", the last of them at {last[:19]}Z" if last is not None else ""
    sites, logs = several(info.sites, "site"), several(info.streams, "log")
    about = f"run {info.run} ({sites}, {logs}, {several(info.size, 'byte')}{since}{state})"
    return f"Remove {f'site {site} of ' if site else ''}{about} at {place}?"


async def _remove(run_id: str, site: str, place: Place, *, force: bool) -> Removed:
    if place.store is None:
        async with place.client() as connected:
            try:
                return await connected.remove(run_id, site, force=force)
            except NotFound as error:
                raise await not_there(error, ReceiverOrigin.over(connected), run_id, site) from error
    try:
        async with choose.store(choose.there(place.store)) as local:
            try:
                found = await local.remove(run_id, site)
            except NotFound as error:
                raise await not_there(error, StoreOrigin(place.store), run_id, site) from error
            if local.space is not None:
                await local.space.clear()
            return found
    except StoreLocked as error:
        raise StoreLocked(
            f"the receiver (process {error.holder or 'unknown'}) uses the store"
            f" {place.store}: remove the run through it with --receiver HOST:PORT",
            holder=error.holder,
        ) from error
