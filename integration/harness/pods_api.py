"""A server that lists and watches pods as the Kubernetes API does, while a test changes them or makes it refuse."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.harness.https import Answers, served
from tests.sources.containers.node import Pod

WATCH = 20.0  # seconds of a watch


@dataclass
class PodsApi:
    """*status*: of all answers; with another one than 200 there are no pods in them."""

    options: tuple[str, ...] = ()
    status: int = 200
    over: bool = False
    _events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def says(self, pod: Pod, *, labels: dict[str, str] | None = None, **status: Any) -> None:
        """Give *pod* this status, and these labels."""
        metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": labels or {}}
        spec = {"nodeName": "site-1", "containers": [{"name": pod.container}]}
        with self._changed:
            version = len(self._events) + 1
            made = {"metadata": {**metadata, "resourceVersion": str(version)}, "spec": spec, "status": status}
            self._events.append((version, made))
            self._changed.notify_all()

    def ends(self, pod: Pod, code: int, *, labels: dict[str, str] | None = None, reason: str = "Error") -> None:
        """Let the latest attempt of *pod* end with the exit code *code*."""
        times = {"startedAt": "2026-11-28T10:00:00Z", "finishedAt": "2026-11-28T10:00:05Z"}
        identity = f"containerd://{pod.attempt:x}{pod.uid.replace('-', ''):0<63}"
        ended = {"exitCode": code, "reason": reason, "containerID": identity, **times}
        status = {"name": pod.container, "restartCount": pod.attempt, "state": {"terminated": ended}}
        self.says(pod, labels=labels, phase="Failed", containerStatuses=[status])

    def refuse(self, status: int) -> None:
        """Answer everything with *status* from now on, also what is being watched."""
        with self._changed:
            self.status = status
            self._changed.notify_all()

    def latest(self) -> dict[str, Any]:
        with self._changed:
            pods = {pod["metadata"]["uid"]: pod for _, pod in self._events}
            return {"metadata": {"resourceVersion": str(len(self._events))}, "items": [*pods.values()]}

    def news(self, after: int) -> list[dict[str, Any]]:
        """What changed since the version *after*, once something has."""
        with self._changed:
            self._changed.wait_for(lambda: self.over or self.status != 200 or len(self._events) > after, WATCH)
            return [] if self.status != 200 else [pod for version, pod in self._events if version > after]


@contextmanager
def pods_api(directory: Path) -> Iterator[PodsApi]:
    """A running server, and the options for it."""
    api = PodsApi()

    class Pods(Answers):
        def get(self) -> None:
            _, _, query = self.path.partition("resourceVersion=")
            if api.status != 200:
                body = json.dumps({"kind": "Status", "code": api.status, "message": "not now"}).encode()
            elif "watch=" in self.path:
                events = [{"type": "MODIFIED", "object": pod} for pod in api.news(int(query.partition("&")[0]))]
                body = b"".join(json.dumps(event).encode() + b"\n" for event in events)
            else:
                body = json.dumps(api.latest()).encode()
            self.answer(api.status, body)

    with served(directory, Pods) as server:
        api.options = ("--api", server.url, "--api-token", server.token, "--api-ca", server.ca)
        try:
            yield api
        finally:
            api.over = True
            api.refuse(503)
