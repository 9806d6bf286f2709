"""The bus: which subscribers get an event, and that a subscriber's failure affects no other."""

from __future__ import annotations

import threading

import pytest

from flarelog.bus import Bus, Notice
from flarelog.lifecycle import Event
from flarelog.model import StreamId


def test_a_subscriber_is_told_of_its_events_in_order() -> None:
    bus, told = Bus(), list[Notice]()
    bus.subscribe(told.append, Event.START_RUN, Event.STREAM_ENDED)
    stream = StreamId("run-1", "site-1", "log.txt")
    bus.publish(Event.START_RUN, "run-1")
    bus.publish(Event.END_RUN, "run-1")
    bus.publish(Event.STREAM_ENDED, "run-1", stream=stream, text="cut short", ok=False)
    assert told == [
        Notice(Event.START_RUN, "run-1"),
        Notice(Event.STREAM_ENDED, "run-1", stream, "cut short", ok=False),
    ]


def test_who_names_no_event_is_told_of_all() -> None:
    bus, told = Bus(), list[Notice]()
    bus.subscribe(told.append)
    for event in Event:
        bus.publish(event)
    assert [notice.event for notice in told] == list(Event)


def test_a_failure_reaches_neither_the_run_nor_the_others(caplog: pytest.LogCaptureFixture) -> None:
    bus, told = Bus(), list[Notice]()

    def broken(_: Notice) -> None:
        raise RuntimeError("the subscriber is broken")

    bus.subscribe(broken)
    bus.subscribe(told.append)
    bus.publish(Event.START_RUN, "run-1")
    bus.publish(Event.START_RUN, "run-2")
    assert len(told) == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"a subscriber failed on START_RUN of run {run!r} (RuntimeError: the subscriber is broken); the run continues"
        for run in ("run-1", "run-2")
    ]
    assert [bool(record.exc_info) for record in caplog.records] == [True, False], "one traceback is enough"


@pytest.mark.parametrize("order", [KeyboardInterrupt, SystemExit])
def test_an_order_to_exit_goes_on_to_the_publisher(order: type[BaseException]) -> None:
    bus = Bus()

    def leave(_: Notice) -> None:
        raise order

    bus.subscribe(leave)
    with pytest.raises(order):
        bus.publish(Event.START_RUN)


def test_unsubscribing_ends_one_subscription_however_often_it_is_said() -> None:
    bus, told = Bus(), list[Notice]()
    first, second = bus.subscribe(told.append), bus.subscribe(told.append)
    bus.publish(Event.START_RUN)
    assert len(told) == 2
    first()
    first()
    bus.publish(Event.START_RUN)
    assert len(told) == 3
    second()
    bus.publish(Event.START_RUN)
    assert len(told) == 3


def test_a_subscriber_may_subscribe_unsubscribe_and_publish_while_it_is_told() -> None:
    bus, told = Bus(), list[Event]()

    def once(notice: Notice) -> None:
        end()
        told.append(notice.event)
        bus.subscribe(lambda later: told.append(later.event))
        bus.publish(Event.FINDING)

    end = bus.subscribe(once)
    bus.publish(Event.START_RUN)
    assert told == [Event.START_RUN, Event.FINDING]


def test_any_thread_may_publish() -> None:
    bus, told = Bus(), list[Notice]()
    bus.subscribe(told.append)
    threads = [threading.Thread(target=bus.publish, args=(Event.FINDING, f"run-{n}")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(notice.run for notice in told) == [f"run-{n}" for n in range(8)]
