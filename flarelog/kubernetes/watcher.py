"""The pods of a node, as the API tells them, kept up to date for as long as an agent runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, TypeVar
from urllib.parse import quote

from flarelog.backoff import delay
from flarelog.errors import CannotConnect, FlarelogError
from flarelog.kubernetes.client import BOOKMARK, COMPLETE, LISTED, Api, is_final
from flarelog.kubernetes.options import KubernetesOptions
from flarelog.kubernetes.pods import Pod, pod_of
from flarelog.values import changed

log = logging.getLogger(__name__)
T = TypeVar("T")

FIRST, LONGEST = 1.0, 60.0  # seconds before another attempt
REPEAT = 300.0  # seconds between two warnings of one trouble
ENDS = 64  # ends of attempts that are remembered of a pod
WITHOUT = "logs are sent without what it knows about pods"
LATE = 600.0  # seconds for which a deleted pod is remembered: its last bytes may come later


class Pods:
    """The pods on *node*, or of all nodes if it is empty, of the namespace that *where* names, or of all. ``run`` keeps
    them until ``drain``. *longest*: seconds between two attempts, at most; *without*: what it means if none succeeds.
    """

    def __init__(
        self,
        where: KubernetesOptions,
        node: str = "",
        transport: Any = None,
        *,
        longest: float = LONGEST,
        without: str = WITHOUT,
    ) -> None:
        self._api, self._node, self._longest, self._without = Api(where, transport), node, longest, without
        self._path = f"/api/v1/namespaces/{quote(where.namespace)}/pods" if where.namespace else "/api/v1/pods"
        self._by_uid: dict[str, Pod] = {}
        self._gone: dict[str, float] = {}  # by UID: when the pod was deleted
        self._draining, self._answered = asyncio.Event(), asyncio.Event()
        self._failure: FlarelogError | None = None  # of the last attempt, until all pods are known
        self.listed = False  # whether all pods are known
        self.version = 0  # changes with each fact

    def of(self, uid: str) -> Pod | None:
        """The pod with *uid*; None: not known yet."""
        return self._by_uid.get(uid)

    def present(self) -> list[Pod]:
        """The pods that are there."""
        return [pod for uid, pod in self._by_uid.items() if uid not in self._gone]

    async def learn(self, within: float) -> None:
        """Wait until all pods are known. Raises the error if the API refuses, or gives no list *within* seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._answered.wait(), within)
        if not self.listed:
            raise self._failure or CannotConnect(f"the Kubernetes API did not list the pods within {within:g} s")

    def drain(self) -> None:
        self._draining.set()

    def reread(self) -> bool:
        """Files are read again whenever they change."""
        return False

    async def run(self) -> int:
        """Keep the pods up to date until drained; returns the exit code 0: logs do not depend on it."""
        watching = asyncio.create_task(self._keep())
        try:
            await self._draining.wait()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self._api.close()
        return 0

    async def _keep(self) -> None:
        failures, said, told = 0, "", 0.0
        came = failed = LISTED  # how far the answers have come, and had when they failed: LISTED, COMPLETE or BOOKMARK
        while True:
            try:
                listed: set[str] = set()
                fields = f"spec.nodeName={self._node}" if self._node else ""
                async for change in self._api.objects(self._path, fields):
                    if change is LISTED:
                        listed, came = set(self._by_uid), change
                        continue
                    came = change if change is COMPLETE else BOOKMARK if came is not LISTED else came
                    if failures and (failed is not COMPLETE or came is BOOKMARK):  # a list does not help a watch
                        log.info("the Kubernetes API answers again")
                        failures = 0
                    if change is BOOKMARK:
                        continue
                    if change is COMPLETE:
                        self.listed, self._failure = True, None
                        self._answered.set()
                        self._gone |= dict.fromkeys(listed - self._gone.keys(), time.monotonic())
                        self.version += 1
                        continue
                    self._note(change.kind, pod_of(change.object), listed)
            except FlarelogError as error:
                failures, failed = failures + 1, came
                if not self.listed:
                    self._failure = error
                    if is_final(error):
                        self._answered.set()
                sentence, now = str(error), time.monotonic()
                if sentence != said or now - told >= REPEAT:
                    log.warning("%s; %s; retrying", sentence, self._without)
                    said, told = sentence, now
            except Exception:
                failures, failed = failures + 1, came
                log.exception("the facts about pods could not be read; retrying")
            await asyncio.sleep(delay(failures, FIRST, self._longest))

    def _note(self, kind: str, pod: Pod | None, listed: set[str]) -> None:
        if pod is None:
            return
        now = time.monotonic()
        if kind == "DELETED":
            self._gone[pod.uid] = now
            self.version += 1
        else:
            self._gone.pop(pod.uid, None)
        listed.discard(pod.uid)
        before = self._by_uid.get(pod.uid)
        told, ids = ({}, {}) if before is None else (dict(before.ends), dict(before.ids))
        # The API forgets all ends but the last two, and its last word on a deleted pod does not say why one ended.
        ends = told | {
            key: changed(end, known=now)
            for key, end in pod.ends.items()
            if key not in told or not (end == told[key] or told[key].cause or end.is_lost)
        }
        pod = changed(pod, ends=_latest(ends), ids=_latest(ids | dict(pod.ids)))
        if before != pod:
            self._by_uid[pod.uid] = pod
            self.version += 1
        for uid in [uid for uid, since in self._gone.items() if now - since > LATE]:
            del self._gone[uid]
            self._by_uid.pop(uid, None)


def _latest(facts: Mapping[tuple[str, int], T]) -> dict[tuple[str, int], T]:
    """Those of *facts*, by container and attempt, of the latest attempts."""
    return {key: facts[key] for key in sorted(facts, key=itemgetter(1))[-ENDS:]}
