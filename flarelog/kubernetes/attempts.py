"""Which attempt of a container is the present one, by its status in the API.

An attempt is one start of a container; its number counts the restarts before it. The kubelet gives the log of the
present attempt and of the one before it (kubernetes: pkg/kubelet/kubelet_pods.go, validateContainerLogStatus).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flarelog.values import frozen


@frozen
class Attempt:
    """The present attempt of a container, or the latest while the container waits to be restarted."""

    number: int
    identity: str  # of its container
    ended: bool
    started: str  # as the API gives it, in whole seconds; empty: unknown
    before: str = ""  # when the attempt before it started
    finished: str = ""  # when it ended
    before_finished: str = ""  # when the attempt before it ended

    def is_same(self, other: Attempt | None) -> bool:
        """Whether *other* is the same attempt, whether or not it has ended since."""
        return other is not None and (other.number, other.identity) == (self.number, self.identity)


def attempt_of(status: Mapping[str, Any]) -> Attempt | None:
    """The attempt in a container's *status*; None before the first one."""
    number = status.get("restartCount")
    now, before = mapping(status.get("state")), mapping(status.get("lastState"))
    if not isinstance(number, int) or number < 0:
        return None
    running, ended, last = (
        mapping(each) for each in (now.get("running"), now.get("terminated"), before.get("terminated"))
    )
    if running:
        identity = str(status.get("containerID") or "")
        return Attempt(number, identity, False, _started(running), _started(last), "", _finished(last))
    if ended.get("containerID"):
        times = _started(ended), _started(last), _finished(ended), _finished(last)
        return Attempt(number, str(ended["containerID"]), True, *times)
    if last.get("containerID"):  # it waits to be restarted
        return Attempt(number, str(last["containerID"]), True, _started(last), finished=_finished(last))
    return None


def _started(state: Mapping[str, Any]) -> str:
    return str(state.get("startedAt") or "")


def _finished(state: Mapping[str, Any]) -> str:
    return str(state.get("finishedAt") or "")


def mapping(found: object) -> Mapping[str, Any]:
    """*found*, a part of an object of the API, which is empty if it is not what it should be."""
    return found if isinstance(found, dict) else {}
