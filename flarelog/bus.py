"""The run's lifecycle and findings: subscribe and publish. It never carries log bytes.

A handler's failure never reaches the run: it is logged once, and the other handlers are called all the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from flarelog.lifecycle import Event
from flarelog.model import StreamId

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Notice:
    """One event: of which run, of which stream if it is about one, and a sentence for people."""

    event: Event
    run: str = ""
    stream: StreamId | None = None
    text: str = ""
    ok: bool = True  # False: something was lost, refused or cut short


Handler = Callable[[Notice], object]


class Bus:
    """Delivers notices in the order of publication, in the thread of the publisher."""

    def __init__(self) -> None:
        self._handlers: list[tuple[frozenset[Event], Handler]] = []
        self._lock = threading.Lock()

    def subscribe(self, handler: Handler, *events: Event) -> Callable[[], None]:
        """Call *handler* with each notice of *events* (none: all). Returns a function that ends it; calling that
        twice is harmless.
        """
        entry = (frozenset(events or Event), handler)
        with self._lock:
            self._handlers.append(entry)

        def unsubscribe() -> None:
            with self._lock:
                # By identity: the same handler may have subscribed to the same events twice.
                self._handlers = [other for other in self._handlers if other is not entry]

        return unsubscribe

    def publish(
        self, event: Event, run: str = "", *, stream: StreamId | None = None, text: str = "", ok: bool = True
    ) -> None:
        """Tell every subscriber of *event*; the arguments are the fields of Notice. Never raises on behalf of a
        handler.
        """
        self.publish_notice(Notice(event, run, stream, text, ok))

    def publish_notice(self, notice: Notice) -> None:
        """Tell every subscriber of *notice*'s event."""
        with self._lock:
            handlers = [handler for events, handler in self._handlers if notice.event in events]
        for handler in handlers:
            try:
                handler(notice)
            except Exception:
                log.exception("a subscriber failed on %s of run %r; the run goes on", notice.event.name, notice.run)
