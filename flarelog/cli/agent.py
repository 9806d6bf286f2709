"""``flarelog agent``: one sending process for all runs of a site."""

from __future__ import annotations

import os
import sys
from functools import partial

import click

from flarelog.cli.options import DIRECTORY, Access, asks, is_flag, option, tls_options
from flarelog.cli.running import checked, run
from flarelog.cli.sending import Sender, receivers_option, site_option, site_policy_option, until_stopped
from flarelog.cli.spools import LeftSpools
from flarelog.cli.tuning import more_descriptors, tune_memory
from flarelog.errors import InvalidOption
from flarelog.kubernetes.options import KubernetesOptions
from flarelog.kubernetes.watcher import Pods
from flarelog.sender.agent import Agent, AgentOptions
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import worst
from flarelog.sender.starts import of_process
from flarelog.sources.base import Wanted
from flarelog.sources.consent import Consent, in_force
from flarelog.sources.containers.layouts import LAYOUTS
from flarelog.sources.containers.options import ContainerOptions
from flarelog.sources.files.patterns import HIDDEN, PART, SourceOptions
from flarelog.sources.files.runs import KIND as PATH
from flarelog.values import changed


@click.command
@receivers_option
@site_option
@option(
    "--root",
    required=True,
    type=DIRECTORY,
    help="Directory of the runs. The agent waits until the directory exists.",
)
@option(
    "--source",
    "kind",
    type=click.Choice(["files", *LAYOUTS]),
    default="files",
    show_default=True,
    help="What --root holds: files, or containers' logs as kubelet (cri) or Docker (docker) write them.",
)
@asks(agent=AgentOptions, kubernetes=KubernetesOptions, source=SourceOptions)
@site_policy_option
@asks(sidecar=SidecarOptions)
@tls_options
def command(
    receivers: tuple[str, ...],
    site: str,
    root: str,
    kind: str,
    agent: partial[AgentOptions],
    kubernetes: partial[KubernetesOptions],
    source: partial[SourceOptions],
    site_policy: tuple[str, ...],
    sidecar: partial[SidecarOptions],
    access: Access,
) -> None:
    """Send every run under a directory to a receiver, live, until SIGTERM; then drain and end.

    A run is a directory whose path --run-from describes. The run begins with its first log. It is over when nothing in
    it has changed for --idle seconds, or when its directory has gone: then its logs are sealed. A later byte resumes
    the run. --include and --exclude compare paths under the run's directory.

    With --source cri and --root /var/log/pods it sends the logs of a node's pods, rotated and compressed files too.
    Each is NAMESPACE/POD.ID/CONTAINER.log; patterns, also --run-from, compare that name, so that by default the
    namespace is the run. With --source docker and --root /var/lib/docker/containers each is ID/container.log.

    A spool that a `flarelog run --spool ROOT` of this site left when it was killed is sent as well, and removed.

    A run whose logs are sealed has not ended: other sites may send more of it. `flarelog run-end RUN` ends it for all
    sites. Until then `follow` goes on and the run counts against the receiver's --max-runs.

    \b
    Exit codes:
      0   everything is stored
      1   something was not sent
      2   an option is wrong
      3   --root did not appear, or --once found no run there
      4   no receiver answered
      5   the receiver or the site does not allow a run, or a newer sidecar has
          taken it over
      6   everything is stored except for bytes that gaps record
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
    checked(access.demand)
    tls = access.tls()

    started = of_process()

    def wanted(address: str, run_id: str, of_run: Wanted) -> SidecarOptions:
        return sidecar(address, run_id, site, of_run, tls=tls, others=len(receivers) > 1, started=started)

    def spool(directory: str) -> SourceOptions:
        given = {name: value for name, value in source.keywords.items() if name not in PART}
        return partial(source.func, **given)(directory, include=("**",), exclude=HIDDEN, sites=consents)

    def targets(run_id: str, of_spool: Wanted) -> list[SidecarOptions]:
        return [changed(wanted(address, run_id, of_spool), once=True, state=None) for address in receivers]

    logs: Wanted
    pods: Pods | None = None
    if kind == "files":
        logs = checked(lambda: source(root, sites=consents))
    else:
        where = checked(kubernetes)
        if kind == "cri" and (where.is_there or not options.run_from.startswith(PATH)):
            if not where.url:
                raise click.UsageError(f"--run-from {options.run_from} needs the Kubernetes API: give --api")
            pods = checked(lambda: Pods(where, where.node or os.environ.get("NODE_NAME", "") or site))
        logs = checked(lambda: _of_containers(root, kind, source, consents, pods, where.labels, options.run_from))
    once = bool(sidecar.keywords.get("once"))

    def make() -> list[Sender[int]]:
        if kind != "files":
            made = [Agent(logs, options, partial(wanted, address)) for address in receivers]
            return [*made, pods] if pods is not None else [*made]
        spools = LeftSpools(root, site, spool, targets, once=once)
        made = [Agent(logs, options, partial(wanted, address), others=spools.any) for address in receivers]
        return [*made, spools]

    sys.exit(worst(run(until_stopped("agent", make))))


def _of_containers(
    root: str,
    layout: str,
    source: partial[SourceOptions],
    consents: tuple[Consent, ...],
    pods: Pods | None,
    labels: tuple[str, ...],
    run_from: str,
) -> ContainerOptions:
    """The options for the logs of containers, from those for files. Raises InvalidOption."""
    given = dict(source.keywords)
    for name in ("start_at", "ignore_older"):
        if is_flag(name):
            raise InvalidOption(f"--{name.replace('_', '-')} is for files: the logs of containers are sent whole")
        given.pop(name, None)
    return ContainerOptions(root, layout, sites=consents, pods=pods, labels=labels, run_from=run_from, **given)
