"""Messages over NVFlare's own connection between a site and the server, through their cells: a tunnel, and reports of
logs that could not be sent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.cellnet.utils import make_reply, new_cell_message
from nvflare.private.defs import CellMessageHeaderKeys

from flarelog.integrations import background as _background
from flarelog.integrations.tunnel import TAKE_TIMEOUT, Piece, Tunnel
from flarelog.text import legible

log = logging.getLogger(__name__)

_CHANNEL, _TOPIC, _TROUBLE = "flarelog", "tunnel", "trouble"
MOST_TROUBLES, LONGEST_TROUBLE = 10, 300  # reported sentences of a job, and characters of each
_TIMEOUT = 5.0  # seconds
_MARGIN = 5.0  # seconds of grace for a message beyond TAKE_TIMEOUT


def tell_server(cell: Any, job: str, sentences: Sequence[str]) -> None:
    """At a site: report to the server which logs of *job* could not be sent."""
    if sentences:
        said = {"job": job, "sentences": list(sentences[:MOST_TROUBLES])}
        message = new_cell_message({}, said)
        cell.core_cell.fire_and_forget(_CHANNEL, _TROUBLE, FQCN.ROOT_SERVER, message, optional=True)


class Passage:
    """One end of the tunnel, in a parent process. *target*: the receiver's address, at the server.

    Raises NotAllowed in a forked process.
    """

    def __init__(self, cell: Any, target: str | None = None) -> None:
        self._cell = cell.core_cell
        self._at_server = target is not None
        self._background = _background.shared()

        async def make() -> Tunnel:
            return Tunnel(self._send, target)

        self._tunnel = self._background.call(make(), _TIMEOUT)
        self._cell.register_request_cb(_CHANNEL, _TOPIC, self._take)
        if target is not None:
            self._cell.register_request_cb(_CHANNEL, _TROUBLE, _told)

    def listen(self) -> str:
        """At a site: the loopback address that leads to the server's receiver."""
        return self._background.call(self._tunnel.listen(FQCN.ROOT_SERVER), _TIMEOUT)

    def close(self) -> None:
        try:
            self._background.call(self._tunnel.close(), TAKE_TIMEOUT)
        finally:
            _background.release(self._background)

    def _send(self, peer: str, piece: Piece) -> bool:
        said = {"connection": piece.connection, "number": piece.number, "data": piece.data}
        reply = self._cell.send_request(
            *(_CHANNEL, _TOPIC, peer, new_cell_message({}, said)), timeout=TAKE_TIMEOUT + _MARGIN, optional=True
        )
        return (
            reply is not None
            and reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK
            and reply.payload is True
        )

    def _take(self, message: Any) -> Any:
        said = message.payload if isinstance(message.payload, dict) else {}
        connection, number, data = (said.get(key) for key in ("connection", "number", "data"))
        origin, taken = message.get_header(MessageHeaderKey.ORIGIN), False
        if isinstance(connection, str) and isinstance(number, int) and isinstance(data, bytes) and origin:
            owner = _sender(message) if self._at_server else ""
            taken = self._tunnel.take(str(origin), Piece(connection, number, data), owner)
        return make_reply(ReturnCode.OK, body=taken)


def _sender(message: Any) -> str:
    """At the server: the client that sent *message*, as far as NVFlare has verified it.

    A sender may write any origin into a message: NVFlare 2.7 does not check it, later releases compare it with the one
    that the sender itself registered. The client's name is signed together with its token from NVFlare's server.
    """
    return str(
        message.get_header(CellMessageHeaderKeys.CLIENT_NAME) or message.get_header(MessageHeaderKey.ORIGIN) or "?"
    )


def _told(message: Any) -> Any:
    """At the server: log what a site could not send, escaped."""
    said = message.payload if isinstance(message.payload, dict) else {}
    sentences = said.get("sentences")
    for sentence in sentences[:MOST_TROUBLES] if isinstance(sentences, list) else ():
        texts = (_sender(message), said.get("job"), sentence)
        log.warning("site %s, job %s: %s", *(legible(str(text), LONGEST_TROUBLE) for text in texts))
    return make_reply(ReturnCode.OK)
