"""The run's lifecycle and findings: subscribe and publish. It never carries log bytes.

A handler's failure never reaches the run: the bus logs it, with its traceback the first time, and calls the other
handlers all the same. SystemExit and KeyboardInterrupt are no failures and propagate to the publisher. The bus has no
lock: a process may fork at any time, and the child would wait for a lock that nobody releases.
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
    """One event: its run, its stream if it is about one, and a sentence for people."""

    event: Event
    run: str = ""
    stream: StreamId | None = None
    text: str = ""
    ok: bool = True  # False: something was lost, refused or cut short


Handler = Callable[[Notice], object]


class Bus:
    """Delivers notices in the order of publication, in the thread of the publisher."""

    def __init__(self) -> None:
        self._subscriptions: dict[object, _Subscription] = {}  # insert, pop and copy are atomic

    def subscribe(self, handler: Handler, *events: Event) -> Callable[[], None]:
        """Call *handler* with each notice of *events* (none: all). Returns a function that unsubscribes; calling it
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
        """Notify every subscriber of *event*; the arguments are the fields of Notice. Raises only a handler's
        SystemExit or KeyboardInterrupt, and then skips the remaining handlers.
        """
        self.publish_notice(Notice(event, run, stream, text, ok))

    def publish_notice(self, notice: Notice) -> None:
        """Notify every subscriber of *notice*'s event."""
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
