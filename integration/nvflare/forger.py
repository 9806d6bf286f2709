"""A component of a hostile site's parent process, which sends cell messages with another site's origin."""

from __future__ import annotations

import threading
import time
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.utils import new_cell_message

CHANNEL = "flarelog"
CONNECTIONS = 200


class Forger(FLComponent):  # type: ignore[misc]  # NVFlare is not here where types are checked
    """As *victim*, report a trouble, send a piece that is too large, and the first pieces of many connections.

    It begins *after* so many seconds, and sends an honest message with its own origin as well.
    """

    def __init__(self, victim: str, after: float = 5.0) -> None:
        super().__init__()
        self.victim, self.after = victim, after
        self._started = False

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.SYSTEM_START and not self._started:
            self._started = True
            threading.Thread(target=self._forge, args=(fl_ctx.get_engine(),), daemon=True).start()

    def _forge(self, engine: Any) -> None:
        time.sleep(self.after)
        cell = engine.get_cell().core_cell
        self._say(cell, "trouble", {"job": "a-job", "sentences": ["said as myself"]})
        time.sleep(1.0)

        def forged(message: Any) -> None:
            if message.get_header(MessageHeaderKey.CHANNEL) == CHANNEL:
                message.set_header(MessageHeaderKey.ORIGIN, self.victim)

        # This filter runs after the headers are set, and after NVFlare's own filter, which adds this site's token.
        cell.add_outgoing_request_filter(channel="*", topic="*", cb=forged)
        self._say(cell, "trouble", {"job": "a-job", "sentences": [f"said as {self.victim}"]})
        self._say(cell, "tunnel", {"connection": "large", "number": 0, "data": b"x" * (1 << 20)})
        for number in range(CONNECTIONS):
            self._say(cell, "tunnel", {"connection": f"forged-{number}", "number": 0, "data": b"x"})
        with open(f"{engine.args.workspace}/forged", "w") as done:
            done.write("done")

    @staticmethod
    def _say(cell: Any, topic: str, said: dict[str, Any]) -> None:
        cell.fire_and_forget(CHANNEL, topic, "server", new_cell_message({}, said), optional=True)
