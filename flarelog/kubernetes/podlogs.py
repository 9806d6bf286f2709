"""The logs of pods in the API, and the attempts of their containers: rights ``pods`` get and ``pods/log`` get."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from urllib.parse import quote

from flarelog.errors import FlarelogError
from flarelog.kubernetes.attempts import Attempt, mapping
from flarelog.kubernetes.client import Answered, Api
from flarelog.kubernetes.pods import pod_of
from flarelog.values import frozen

_BAD_REQUEST, _NOT_FOUND = 400, 404


class Gone(FlarelogError):
    """The pod is not there any more."""


class Unreadable(FlarelogError):
    """The API has no log to give: the runtime has removed it, or has not begun it."""


@frozen
class Log:
    """A container's log."""

    namespace: str
    pod: str
    uid: str
    container: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}/{self.container}"


class PodLogs:
    """The logs that *api* gives."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def attempt(self, of: Log) -> Attempt | None:
        """The present attempt of the container, None before the first one. Raises Gone, and as ``Api.objects``."""
        try:
            found = await self._api.object(_path(of))
        except Answered as error:
            if error.status == _NOT_FOUND and mapping(error.said.get("details")).get("kind") == "pods":
                raise _gone(of) from error
            raise
        pod = pod_of(found)
        if pod is None:
            raise Answered(f"the answer to {_path(of)} is no pod", 200)
        if pod.uid != of.uid:
            raise _gone(of)
        return pod.states.get(of.container)

    async def read(
        self, of: Log, *, follow: bool = False, previous: bool = False, since: str = "", tail: int = 0
    ) -> AsyncIterator[bytes]:
        """The log of the container's present attempt, or of the *previous* one, with the runtime's times; the values
        are the API's. Raises Unreadable, and as ``Api.objects``.
        """
        given = {
            "container": of.container,
            "timestamps": "true",
            "follow": "true" if follow else "",
            "previous": "true" if previous else "",
            "sinceTime": since,
            "tailLines": str(tail or ""),
        }
        try:
            async with aclosing(self._api.raw(f"{_path(of)}/log", given, endless=follow)) as pieces:
                async for piece in pieces:
                    yield piece
        except Answered as error:
            if error.status in (_BAD_REQUEST, _NOT_FOUND) and error.said:
                raise Unreadable(str(error)) from error
            raise

    async def close(self) -> None:
        await self._api.close()


def _gone(of: Log) -> Gone:
    return Gone(f"the pod {of.namespace}/{of.pod} is gone")


def _path(of: Log) -> str:
    return f"/api/v1/namespaces/{quote(of.namespace)}/pods/{quote(of.pod)}"
