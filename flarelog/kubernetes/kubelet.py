"""The file server of a kubelet: listings and ranges of the files below /var/log.

It needs the right to get ``nodes/log`` alone. Where the kubelet cannot be asked directly, the API server asks it, for
those with the right ``nodes/proxy``, which allows much more.
(kubelet: pkg/kubelet/kubelet.go, the logServer; kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz)
"""

from __future__ import annotations

import logging
import re
import time
from html import unescape
from typing import Any
from urllib.parse import quote, unquote

from flarelog.errors import CannotConnect, FlarelogError, NotAllowed
from flarelog.kubernetes.client import Answered, Api
from flarelog.kubernetes.options import KubernetesOptions
from flarelog.values import changed

log = logging.getLogger(__name__)

AGAIN = 300.0  # seconds until a kubelet that refused is asked again
_LINK = re.compile(r'<a href="([^"]+)">')


class Kubelet:
    """The kubelet of *node*. *where*: its address, and the API's, which is asked as a proxy if the kubelet refuses from
    the start. One that has answered is asked until it does again: it restarts, and changes its certificate.
    *transport*: httpx2's way to both.
    """

    def __init__(self, where: KubernetesOptions, node: str, transport: Any = None) -> None:
        self._direct: Api | None = None
        self._proxy: Api | None = None
        if where.kubelet_url:
            direct = changed(where, api=where.kubelet_url, api_ca=where.kubelet_ca or where.ca)
            self._direct = Api(direct, transport, "the kubelet")
        if where.url:
            self._proxy = Api(where, transport)
        self._proxied = f"/api/v1/nodes/{quote(node)}/proxy/logs/"
        self._answered = self._said = False
        self._again = 0.0  # when the kubelet is asked again, by the monotonic clock

    async def names(self, directory: str) -> list[str]:
        """As ``Server.names``."""
        page: str | None = await self._asked("text", f"{quote(directory)}/")
        if page is not None and ("<pre>" not in page or "</pre>" not in page):  # an empty directory has both
            raise Answered(f"the answer to {directory}/ is no listing of a kubelet", 200)
        return _names(page or "")

    async def piece(self, path: str, begin: int, length: int) -> tuple[bytes, int] | None:
        """As ``Server.piece``."""
        found: tuple[bytes, int] | None = await self._asked("piece", quote(path), begin, length)
        return found

    async def _asked(self, call: str, path: str, *args: int) -> Any:
        refused: FlarelogError | None = None
        if self._direct is not None and (self._proxy is None or self._answered or time.monotonic() >= self._again):
            try:
                found = await getattr(self._direct, call)(f"/logs/{path}", *args)
            except (NotAllowed, CannotConnect) as error:
                if self._proxy is None or self._answered:
                    raise
                refused = error
            else:
                self._answered = True
                return found
        try:
            found = await getattr(self._proxy, call)(self._proxied + path, *args)
        except (NotAllowed, CannotConnect) as error:
            if refused is None:
                raise
            kind = NotAllowed if isinstance(refused, NotAllowed) and isinstance(error, NotAllowed) else CannotConnect
            raise kind(f"{refused}; {error}") from error
        if refused is not None:
            self._again = time.monotonic() + AGAIN
        if not self._said:
            self._said = True
            log.warning(
                "%s; the API server is asked instead, as a proxy: its right nodes/proxy allows more than reading logs,"
                " so rather give the right nodes/log, and the kubelet's address and CA (--kubelet, --kubelet-ca)",
                refused or "the kubelet's address is not known",
            )
        return found

    async def close(self) -> None:
        for api in filter(None, (self._direct, self._proxy)):
            await api.close()


def _names(page: str) -> list[str]:
    """The names in a listing of the file server."""
    return [unquote(unescape(link)) for link in _LINK.findall(page)]
