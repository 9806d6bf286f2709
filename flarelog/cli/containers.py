"""The senders of an agent that sends containers' logs: from files on a node, its kubelet, or the API."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

import click

from flarelog.cli.options import is_flag
from flarelog.cli.running import checked
from flarelog.cli.sending import Sender
from flarelog.errors import FlarelogError
from flarelog.kubernetes.client import Api
from flarelog.kubernetes.kubelet import Kubelet
from flarelog.kubernetes.options import KubernetesOptions
from flarelog.kubernetes.podlogs import PodLogs
from flarelog.kubernetes.watcher import WITHOUT, Pods
from flarelog.sender.agent import AgentOptions
from flarelog.sender.outcome import worst
from flarelog.sources.api.mirror import Mirror as ApiMirror
from flarelog.sources.base import Wanted
from flarelog.sources.consent import Consent
from flarelog.sources.containers.copies import ANSWERS_WITHIN, unless
from flarelog.sources.containers.gangs import Gangs
from flarelog.sources.containers.layouts import LAYOUTS
from flarelog.sources.containers.options import ContainerOptions
from flarelog.sources.files.openers import PROC
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.runs import KIND
from flarelog.sources.kubelet.mirror import Mirror

log = logging.getLogger(__name__)

KINDS = (*LAYOUTS, "kubelet", "api")
ROOTS = {"cri": "/var/log/pods", "docker": "/var/lib/docker/containers"}
AWAY = 10.0  # seconds between two attempts to watch pods, at most: logs depend on that
UNTOLD = "logs are sent without their labels, and without how their containers ended"
_OF_FILES = ("start_at", "ignore_older")


def senders(
    kind: str,
    root: str | None,
    site: str,
    source: partial[SourceOptions],
    consents: tuple[Consent, ...],
    options: AgentOptions,
    where: KubernetesOptions,
    state: str | None,
    agents: Callable[[Wanted], Sequence[Sender[int]]],
    *,
    once: bool,
    ranks: bool,
    receivers: int,
) -> Callable[[], list[Sender[int]]]:
    """What makes the senders of containers' logs of the *kind*. *agents* makes an agent for each of *receivers*.
    *ranks*: look for them in the processes' environments.
    """
    if where.api or kind in ("api", "kubelet"):  # otherwise logs are sent also without the API of the pod's own cluster
        checked(where.demand)
    node, pods = where.node or os.environ.get("NODE_NAME", "") or site, None
    mirror: Mirror | ApiMirror | None = None
    if kind == "api":
        if root is not None or not where.url:
            raise click.UsageError("--source api reads no files: give --api, and no --root")
        pods = checked(lambda: Pods(where, where.node, longest=AWAY, without="new logs are not read"))
        server, watch = PodLogs(checked(lambda: Api(where))), pods
        mirror = checked(lambda: ApiMirror(server, watch, lambda directory: wanted(directory), state, receivers))
        root = mirror.root
    elif kind != "docker" and (where.is_there or not options.run_from.startswith(KIND)):
        if not where.url:
            raise click.UsageError(f"--run-from {options.run_from} needs the Kubernetes API: give --api")
        waits = f"logs wait until it names their pods, because --run-from {options.run_from} asks it"
        pods = checked(lambda: Pods(where, node, without=WITHOUT if options.run_from.startswith(KIND) else waits))
    if kind == "kubelet":
        if root is not None:
            raise click.UsageError("--root is for files: --source kubelet reads them from the node's kubelet")
        if not (where.kubelet_url or where.url):
            raise click.UsageError("--source kubelet needs an address: give --kubelet or --api")
        kubelet = checked(lambda: Kubelet(where, node))
        mirror = checked(lambda: Mirror(kubelet, lambda directory: wanted(directory), state, pods))
        root = mirror.root
    given = {name: value for name, value in source.keywords.items() if name not in _OF_FILES}
    for name in filter(is_flag, _OF_FILES):
        raise click.UsageError(f"--{name.replace('_', '-')} is for files: the logs of containers are sent whole")
    layout = "cri" if mirror is not None else kind
    gangs = Gangs() if ranks and kind != "api" and os.path.isdir(f"{PROC}/self/fdinfo") else None
    logs = checked(
        lambda: ContainerOptions(
            root or ROOTS[kind],
            layout,
            sites=consents,
            pods=pods,
            labels=where.labels,
            gangs=gangs,
            run_from=options.run_from,
            copies=mirror,
            since=time.time_ns(),
            **given,
        )
    )

    def wanted(directory: str) -> bool:
        container = logs.names.container(directory)
        return container is not None and logs.matches(container)

    def make() -> list[Sender[int]]:
        made = [*agents(logs)]
        sent: list[Sender[int]] = [Mirrored(mirror, made, once=once)] if mirror is not None else made
        facts = [one for one in (pods, gangs) if one is not None]
        return [Informed(sent, facts, pods if once and kind != "api" else None, demands=logs.asks_labels)]

    return make


class Together:
    """*senders*, as one."""

    def __init__(self, senders: Sequence[Sender[int]]) -> None:
        self._senders = senders

    def drain(self) -> None:
        for sender in self._senders:
            sender.drain()

    def reread(self) -> bool:
        read = [sender.reread() for sender in self._senders]  # a list: any() alone would stop at the first
        return any(read)


class Informed(Together):
    """*senders*, and the *facts* that they pass on, kept up to date until these have ended. *needed*: pods that are
    awaited for a while before the senders look, once; *demands*: they tell the runs of the logs.
    """

    def __init__(
        self,
        senders: Sequence[Sender[int]],
        facts: Sequence[Sender[int]],
        needed: Pods | None = None,
        *,
        demands: bool = False,
    ) -> None:
        super().__init__(senders)
        self._facts, self._needed, self._demands = facts, needed, demands
        self._draining = asyncio.Event()

    async def run(self) -> int:
        """Send until drained, and return the exit code."""
        kept = [asyncio.create_task(one.run()) for one in self._facts]
        try:
            if self._needed is not None:
                await unless(self._draining, self._learn(self._needed))
            return worst(await asyncio.gather(*(sender.run() for sender in self._senders)))
        finally:
            for one in self._facts:
                one.drain()
            await asyncio.gather(*kept, return_exceptions=True)

    async def _learn(self, pods: Pods) -> None:
        """Wait until *pods* are known, for a while. Raises FlarelogError if the senders cannot do without."""
        try:
            await pods.learn(ANSWERS_WITHIN)
        except FlarelogError:
            if self._demands:
                raise
            log.warning("the Kubernetes API did not list the pods: %s", UNTOLD)

    def drain(self) -> None:
        self._draining.set()
        super().drain()


class Mirrored(Together):
    """*senders* of what *mirror* copies: it drains them, after a last look."""

    def __init__(self, mirror: Mirror | ApiMirror, senders: Sequence[Sender[int]], *, once: bool) -> None:
        super().__init__(senders)
        self._mirror, self._once = mirror, once

    async def run(self) -> int:
        """Send until drained, and return the exit code."""
        return worst(await self._mirror.run(self._senders, once=self._once))

    def drain(self) -> None:
        self._mirror.drain()
