"""The contract of sources: each kind of source runs ``CONTRACT``.

A world is a log of that kind, its writer, and the process that gives it. No fact depends on the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from flarelog.model import Ended, Gap, Generation, Mark, StreamInfo
from flarelog.sources.base import Source
from tests.sources.files.tailing import Stored

LINES = b"line one\r\nline two\n\xf0\x9f\x94\xa5\0 no end"


class World(Protocol):
    """One log, still empty."""

    now: float

    def write(self, data: bytes) -> None:
        """Let the writer append *data* to the log."""

    def begin_anew(self) -> None:
        """Begin another incarnation; nobody writes to the present one any more."""

    def lose(self) -> None:
        """Lose the written bytes at their origin."""

    def source(self) -> Source:
        """The log as it is found now."""

    def resume(self, record: StreamInfo) -> None:
        """Give the receiver's *record* of the log to the source."""

    def restart(self, record: StreamInfo) -> None:
        """Kill the process and start another; the receiver holds *record*."""


Fact = Callable[[World], None]
CONTRACT: list[Fact] = []


def fact(check: Fact) -> Fact:
    CONTRACT.append(check)
    return check


class Receiver:
    """The store of a source's items."""

    def __init__(self, world: World, room: int = 1 << 20) -> None:
        self.world, self.room = world, room
        self.stored = Stored()

    def take(self, count: int = 1_000_000, *, store: bool = True) -> list[Mark | bytes]:
        """Take the next *count* items, or all that come; store them, or with *store* false leave them in flight."""
        found: list[Mark | bytes] = []
        for _ in range(4):
            source = self.world.source()
            while len(found) < count:
                item = source.next(self.stored.position, self.stored.marks_sent, self.room, self.world.now)
                if item is None:
                    break
                assert not isinstance(item, bytes) or 0 < len(item) <= self.room
                assert isinstance(item, bytes) or item.offset == self.stored.position
                self.stored.sent.append(item)
                found.append(item)
            if store:
                self.stored.arrive(len(found))
                source.acknowledged(len(self.stored.data))
            self.world.now += 10.0
        return found

    def lose(self) -> None:
        """Lose the items in flight."""
        self.stored.sent.clear()

    @property
    def record(self) -> StreamInfo:
        return self.stored.info(self.world.source().log)

    @property
    def data(self) -> bytes:
        return bytes(self.stored.data)

    def kinds(self) -> list[type]:
        return [type(mark) for mark in self.stored.marks]

    def identities(self) -> list[str]:
        return [mark.identity for mark in self.stored.marks if isinstance(mark, Generation)]


def taken(world: World, room: int = 1 << 20) -> Receiver:
    """A receiver that has taken all of LINES."""
    world.write(LINES)
    receiver = Receiver(world, room)
    receiver.take()
    return receiver


# --- bytes and marks


@fact
def a_generation_comes_first_and_then_its_bytes_from_the_first_on(world: World) -> None:
    world.write(LINES)
    receiver = Receiver(world)
    first, *rest = receiver.take()
    assert isinstance(first, Generation)
    assert (first.offset, first.source_offset, bool(first.identity)) == (0, 0, True)
    assert b"".join(item for item in rest if isinstance(item, bytes)) == LINES
    assert world.source().end == len(LINES)


@fact
def no_more_is_given_at_once_than_there_is_room_for(world: World) -> None:
    receiver = taken(world, room=7)
    assert receiver.data == LINES


@fact
def without_room_marks_come_and_no_bytes(world: World) -> None:
    world.write(LINES)
    source = world.source()
    assert isinstance(source.next(0, 0, 0, world.now), Generation)
    assert source.next(0, 1, 0, world.now) is None


@fact
def what_is_added_follows_in_the_same_generation_as_soon_as_it_is_there(world: World) -> None:
    receiver = Receiver(world)
    for end in range(6, len(LINES) + 6, 6):
        world.write(LINES[end - 6 : end])
        receiver.take()
        assert receiver.data == LINES[:end]
        assert world.source().unread() == 0
    assert receiver.kinds() == [Generation]


@fact
def another_incarnation_begins_where_the_one_before_it_ends(world: World) -> None:
    receiver = Receiver(world)
    world.write(b"one\n")
    receiver.take()
    world.begin_anew()
    world.write(b"two\n")
    receiver.take()
    assert receiver.data == b"one\ntwo\n"
    assert [type(mark) for mark in receiver.stored.marks if mark.offset == 4] == [Ended, Generation]
    assert len(set(receiver.identities())) == 2


@fact
def what_nobody_has_read_of_an_incarnation_goes_before_the_next_one(world: World) -> None:
    receiver = Receiver(world)
    world.write(b"one\n")
    receiver.take()
    world.write(b"more of one\n")
    world.begin_anew()
    world.write(b"two\n")
    receiver.take()
    assert receiver.data == b"one\nmore of one\ntwo\n"


# --- items that are asked for again


@fact
def what_is_not_acknowledged_is_given_again(world: World) -> None:
    world.write(LINES)
    receiver = Receiver(world, room=5)
    before = receiver.take(store=False)
    source = world.source()
    assert source.covers(0, 0)
    receiver.lose()
    assert receiver.take() == before
    assert receiver.data == LINES


@fact
def what_is_acknowledged_need_not_be_asked_for_with_a_record(world: World) -> None:
    taken(world)
    source = world.source()
    assert source.covers(source.end, len(source.marks))
    assert not source.covers(source.end + 1, len(source.marks))


@fact
def what_cannot_be_given_again_is_a_gap(world: World) -> None:
    world.write(LINES)
    receiver = Receiver(world)
    receiver.take(store=False)
    world.lose()
    receiver.lose()
    receiver.take()
    assert receiver.data == b""
    assert sum(mark.length for mark in receiver.stored.marks if isinstance(mark, Gap)) == len(LINES)


# --- the receiver's record


@fact
def a_receiver_that_knows_all_gets_nothing_twice_from_the_next_process(world: World) -> None:
    receiver = taken(world)
    world.restart(receiver.record)
    receiver.take()
    assert receiver.data == LINES
    world.write(b"more\n")
    receiver.take()
    assert receiver.data == LINES + b"more\n"
    assert len(set(receiver.identities())) == 1, "the identity is the same in another process"


@fact
def a_receiver_that_knows_less_gets_the_rest_from_the_next_process(world: World) -> None:
    world.write(LINES)
    receiver = Receiver(world, room=5)
    receiver.take(3)
    held = receiver.data
    assert LINES.startswith(held)
    assert 0 < len(held) < len(LINES)
    world.restart(receiver.record)
    receiver.take()
    assert receiver.data == LINES


@fact
def a_receiver_that_knows_nothing_gets_all_again(world: World) -> None:
    receiver = taken(world)
    again = Receiver(world)
    world.resume(again.record)
    again.take()
    assert again.data == LINES
    assert again.identities() == receiver.identities()


@fact
def a_receiver_that_has_lost_a_part_gets_it_again(world: World) -> None:
    receiver = taken(world, room=5)
    again = Receiver(world)
    again.stored.sent = [*receiver.stored.marks, LINES[:9]]
    again.stored.arrive(2)
    world.resume(again.record)
    again.take()
    assert again.data == LINES


@fact
def a_receiver_that_knows_more_than_this_process_gave_is_believed(world: World) -> None:
    """Another process gave the receiver those bytes, and was killed before it recorded that."""
    receiver = taken(world)
    world.restart(replace(receiver.record, committed=0, digest=0, marks=()))
    world.resume(receiver.record)
    world.write(b"more\n")
    receiver.take()
    assert receiver.data == LINES + b"more\n"


@fact
def what_was_written_while_no_process_was_there_follows(world: World) -> None:
    world.write(b"one\n")
    receiver = Receiver(world)
    receiver.take()
    record = receiver.record
    world.write(b"two\n")
    world.begin_anew()
    world.write(b"three\n")
    world.restart(record)
    receiver.take()
    assert receiver.data == b"one\ntwo\nthree\n"
    assert len(set(receiver.identities())) == 2


# --- the end


@fact
def a_drain_gives_what_is_there_and_then_no_more(world: World) -> None:
    world.write(LINES)
    receiver = Receiver(world)
    source = world.source()
    assert not source.drained(world.now)
    source.drain(world.now)
    assert source.draining
    assert not source.drained(world.now)
    receiver.take()
    assert receiver.data == LINES
    assert source.drained(world.now)


@fact
def what_is_added_while_a_drain_reads_comes_too(world: World) -> None:
    world.write(b"one\n")
    receiver = Receiver(world)
    source = world.source()
    source.drain(world.now)
    receiver.take(2)
    world.write(b"late\n")
    receiver.take()
    assert receiver.data == b"one\nlate\n"
    assert source.drained(world.now)


@fact
def a_log_without_a_byte_is_a_generation_and_drained(world: World) -> None:
    world.write(b"")
    receiver = Receiver(world)
    source = world.source()
    source.drain(world.now)
    receiver.take()
    assert receiver.kinds() == [Generation]
    assert source.drained(world.now)


@fact
def what_is_written_after_the_end_is_the_next_process_s(world: World) -> None:
    world.write(b"one\n")
    receiver = Receiver(world)
    source = world.source()
    source.drain(world.now)
    receiver.take()
    record = receiver.record
    source.lay_down()
    world.write(b"late\n")
    world.restart(record)
    receiver.take()
    assert receiver.data == b"one\nlate\n"
