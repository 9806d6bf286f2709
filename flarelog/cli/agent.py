"""``flarelog agent``: one sending process for all runs of a site."""

from __future__ import annotations

import sys
from functools import partial

import click

from flarelog.cli.containers import KINDS, senders
from flarelog.cli.options import DIRECTORY, Access, asks, option, tls_options
from flarelog.cli.running import checked, run
from flarelog.cli.sending import Sender, receivers_option, site_option, site_policy_option, until_stopped
from flarelog.cli.spools import LeftSpools
from flarelog.cli.tuning import more_descriptors, tune_memory
from flarelog.kubernetes.options import KubernetesOptions
from flarelog.sender.agent import Agent, AgentOptions
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import worst
from flarelog.sender.starts import of_process
from flarelog.sources.base import Wanted
from flarelog.sources.consent import in_force
from flarelog.sources.files.checkpoint import state_directory
from flarelog.sources.files.patterns import HIDDEN, PART, SourceOptions
from flarelog.sources.spool.series import of_spools
from flarelog.values import changed


@click.command
@receivers_option
@site_option
@option(
    "--root",
    type=DIRECTORY,
    help="Directory of the runs, which may appear later. cri: /var/log/pods by default.",
)
@option(
    "--source",
    "kind",
    type=click.Choice(["files", *KINDS]),
    default="files",
    show_default=True,
    help="Files; or logs of containers: a node's files (cri), Docker's, over a node's kubelet, or the API's.",
)
@asks(agent=AgentOptions, kubernetes=KubernetesOptions, source=SourceOptions)
@site_policy_option
@asks(sidecar=SidecarOptions)
@tls_options
def command(
    receivers: tuple[str, ...],
    site: str,
    root: str | None,
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

    With --source api it reads the logs of pods from the Kubernetes API alone, for those who have nothing else. Each
    line that the API delivers is stored once, and a loss that can be known is a gap. But the API leaves out lines
    without a sign when the kubelet rotates a log: a log that was not proved to be complete is called unverified. Give
    --state, which must outlive the agent: without it, a restarted agent may send lines twice.

    A spool that a `flarelog run --spool ROOT` of this site left when it was killed is sent as well, and removed.

    A run whose logs are sealed has not ended: other sites may send more of it. `flarelog run-end RUN` ends it for all
    sites. Until then `follow` goes on and the run counts against the receiver's --max-runs.

    \b
    Exit codes:
      0   everything is stored
      1   something was not sent
      2   an option is wrong
      3   --root did not appear, or --once found no run there, or the Kubernetes
          API, which --run-from asks, has not named the pods of some logs
      4   no receiver answered
      5   the receiver or the site does not allow a run, or a newer sidecar has
          taken it over; with --once: the Kubernetes API refuses
      6   everything is stored except for bytes that gaps record, or the log of
          a container is unverified
      7   the receiver acknowledged nothing for too long
      78  a file that an option names cannot be used, such as a token that the
          API does not know, or a glob cannot be read

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
        return source.func(directory, include=("**",), exclude=HIDDEN, sites=consents, series=of_spools(), **given)

    def targets(run_id: str, of_spool: Wanted) -> list[SidecarOptions]:
        return [changed(wanted(address, run_id, of_spool), once=True, state=None) for address in receivers]

    once, state = bool(sidecar.keywords.get("once")), sidecar.keywords.get("state")
    if state:
        checked(lambda: state_directory(state))

    def agents(logs: Wanted, *, others: bool = False) -> list[Sender[int]]:
        return [Agent(logs, options, partial(wanted, address), others=others) for address in receivers]

    if kind != "files":
        where, ranks = checked(kubernetes), bool(sidecar.keywords.get("ranks", True))
        count = len(receivers)
        given = (kind, root, site, source, consents, options, where, state, agents)
        make = senders(*given, once=once, ranks=ranks, receivers=count)
    else:
        if root is None:
            raise click.MissingParameter(param_hint="'--root'", param_type="option")
        logs = checked(lambda: source(root, sites=consents, series=of_spools()))

        def make() -> list[Sender[int]]:
            spools = LeftSpools(root, site, spool, targets, once=once)
            return [*agents(logs, others=spools.any), spools]

    sys.exit(worst(run(until_stopped("agent", make))))
