"""The run's lifecycle and findings: subscribe and publish. It never carries log bytes.

A handler's failure never reaches the run: it is logged, with its traceback the first time, and the other handlers are
called all the same. An order to exit (SystemExit, KeyboardInterrupt) is no failure, and goes on to whoever publishes.
There is no lock: a process may be forked at any time, and its child would wait for one that nobody gives back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from flarelog.lifecycle import Event
from flarelog.model import StreamId
from flarelog.values import frozen

log = logging.getLogger(__name__)


@frozen
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
        self._subscriptions: dict[object, _Subscription] = {}  # adding, removing and copying are atomic

    def subscribe(self, handler: Handler, *events: Event) -> Callable[[], None]:
        """Call *handler* with each notice of *events* (none: all). Returns a function that ends it; calling that
        twice is harmless.
        """
        key = object()  # the same handler may subscribe to the same events twice
        self._subscriptions[key] = _Subscription(handler, frozenset(events or Event))

        def unsubscribe() -> None:
            self._subscriptions.pop(key, None)

        return unsubscribe

    def publish(
        self, event: Event, run: str = "", *, stream: StreamId | None = None, text: str = "", ok: bool = True
    ) -> None:
        """Tell every subscriber of *event*; the arguments are the fields of Notice. Raises nothing of a handler but
        an order to exit (SystemExit, KeyboardInterrupt); the handlers behind that one are not called.
        """
        self.publish_notice(Notice(event, run, stream, text, ok))

    def publish_notice(self, notice: Notice) -> None:
        """Tell every subscriber of *notice*'s event."""
        for subscription in self._subscriptions.copy().values():
            if notice.event in subscription.events:
                subscription.tell(notice)


@dataclass(eq=False, slots=True)
class _Subscription:
    handler: Handler
    events: frozenset[Event]
    failed: bool = False

    def tell(self, notice: Notice) -> None:
        try:
            self.handler(notice)
        except Exception as error:
            log.error(
                "a subscriber failed on %s of run %r (%s: %s); the run continues",
                *(notice.event.name, notice.run, type(error).__name__, error),
                exc_info=not self.failed,
            )
            self.failed = True
