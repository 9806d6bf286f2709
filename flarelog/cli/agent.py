"""``flarelog agent``: one sending process for all runs of a site."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial

import click

from flarelog.cli.notify import Service
from flarelog.cli.options import Access, asks, option, tls_options
from flarelog.cli.running import checked, on_hangup, on_stop, run
from flarelog.cli.tuning import give_memory_back, more_descriptors, tune_memory
from flarelog.errors import NOT_ALLOWED
from flarelog.sender.agent import Agent, AgentOptions
from flarelog.sender.options import SidecarOptions
from flarelog.sources.base import Wanted
from flarelog.sources.consent import in_force
from flarelog.sources.files.patterns import SourceOptions

log = logging.getLogger(__name__)


@click.command
@option(
    "--receiver",
    "receivers",
    required=True,
    multiple=True,
    help="HOST:PORT of flarelog serve. Repeat the option to send every log to several receivers.",
)
@option("--site", required=True, help="Name of the site.")
@option(
    "--root",
    required=True,
    type=click.Path(file_okay=False, readable=False),
    help="Directory of the runs. The agent waits until the directory exists.",
)
@asks(agent=AgentOptions, source=SourceOptions)
@option(
    "--site-policy",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="TOML file: which files may leave the site. Repeatable. Adds to the variable's files (':' between).",
)
@asks(sidecar=SidecarOptions)
@tls_options
def command(
    receivers: tuple[str, ...],
    site: str,
    root: str,
    agent: partial[AgentOptions],
    source: partial[SourceOptions],
    site_policy: tuple[str, ...],
    sidecar: partial[SidecarOptions],
    access: Access,
) -> None:
    """Send every run under a directory to a receiver, live, until SIGTERM; then drain and end.

    A run is a directory whose path --run-from describes. The run begins with its first log. It is over when nothing in
    it has changed for --idle seconds, or when its directory has gone: then its logs are sealed. A later byte resumes
    the run. --include and --exclude compare paths under the run's directory.

    \b
    Exit codes:
      0   everything is stored
      1   something was not sent
      2   an option makes no sense
      3   --root did not appear, or --once found no run there
      4   no receiver answered
      5   the receiver or the site does not allow a run, or a newer sidecar has
          taken it over
      6   everything is stored but what gaps tell of
      7   the receiver acknowledged nothing for too long
      78  a file that an option names cannot be used, or a glob cannot be read

    \b
    Example:
      flarelog agent --receiver 127.0.0.1:4721 --site site-1 --root /srv/jobs \\
          --run-from 'path:{run}/logs/**'
    """
    consents = checked(lambda: in_force(*site_policy))
    for consent in consents:
        checked(consent.demand)
    tune_memory()
    more_descriptors()
    options = checked(agent)
    tls = checked(access.tls)

    def wanted(address: str, run_id: str, of_run: Wanted) -> SidecarOptions:
        return sidecar(address, run_id, site, of_run, tls=tls)

    logs = checked(lambda: source(root, sites=consents))
    agents = checked(lambda: [Agent(logs, options, partial(wanted, address)) for address in receivers])
    codes = [code for code in run(_send(agents)) if code]
    sys.exit(NOT_ALLOWED if NOT_ALLOWED in codes else codes[0] if codes else 0)


async def _send(agents: list[Agent]) -> list[int]:
    service = Service()

    def stop() -> None:
        service.tell("STOPPING=1")
        for agent in agents:
            agent.drain()

    def reread() -> None:
        if not [agent for agent in agents if agent.reread()]:
            log.info("SIGHUP has nothing to read again: this agent has no certificates")

    on_stop(stop)
    on_hangup(reread)
    give_memory_back()
    service.ready()
    async with service.alive():
        return list(await asyncio.gather(*(agent.run() for agent in agents)))
