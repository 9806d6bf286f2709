"""The file server of a kubelet: listings and ranges of the files below /var/log.

It needs the right to get ``nodes/log`` alone. Where the kubelet cannot be asked directly, the API server asks it, for
those with the right ``nodes/proxy``, which allows much more.
(kubelet: pkg/kubelet/kubelet.go, the logServer; kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz)
"""

from __future__ import annotations

import logging
import re
from html import unescape
from typing import Any
from urllib.parse import quote, unquote

from flarelog.errors import CannotConnect, NotAllowed
from flarelog.kubernetes.client import Api
from flarelog.kubernetes.options import KubernetesOptions
from flarelog.values import changed

log = logging.getLogger(__name__)

_LINK = re.compile(r'<a href="([^"]+)">')


class Kubelet:
    """The kubelet of *node*. *where*: its address, and the API's, which is asked where the kubelet refuses."""

    def __init__(self, where: KubernetesOptions, node: str) -> None:
        self._ways = []
        if where.kubelet_url:
            direct = changed(where, api=where.kubelet_url, api_ca=where.kubelet_ca or where.ca)
            self._ways.append((Api(direct, name="the kubelet"), "/logs/"))
        if where.url:
            self._ways.append((Api(where), f"/api/v1/nodes/{quote(node)}/proxy/logs/"))

    async def names(self, directory: str) -> list[str]:
        """As ``Server.names``."""
        return _names(await self._asked("text", f"{quote(directory)}/") or "")

    async def piece(self, path: str, begin: int, length: int) -> tuple[bytes, int] | None:
        """As ``Server.piece``."""
        found: tuple[bytes, int] | None = await self._asked("piece", quote(path), begin, length)
        return found

    async def _asked(self, call: str, path: str, *args: int) -> Any:
        api, base = self._ways[0]
        try:
            return await getattr(api, call)(base + path, *args)
        except (NotAllowed, CannotConnect) as error:
            if len(self._ways) == 1:
                raise
            del self._ways[0]
            log.warning(
                "%s; from now on the API server is asked, as a proxy: its right nodes/proxy allows more than reading"
                " logs, so rather give the right nodes/log, and the kubelet's CA (--kubelet-ca)",
                error,
            )
            await api.close()
            return await self._asked(call, path, *args)

    async def close(self) -> None:
        for api, _ in self._ways:
            await api.close()


def _names(page: str) -> list[str]:
    """The names in a listing of the file server."""
    return [unquote(unescape(link)) for link in _LINK.findall(page)]
