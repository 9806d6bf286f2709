"""The states of a stream's producer: live, quiet, silent, lost, paused and ended, and when each holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flarelog.model import IN_STORE, Activity, Health, News, State, StreamId, StreamInfo
from flarelog.receiver import states
from flarelog.receiver.phases import Phase, Standing, lag, spoken, standing
from flarelog.receiver.states import States
from flarelog.viewers.standings import summary
from tests.rows import together

STREAM, OTHER = StreamId("run-1", "site-1", "a.log"), StreamId("run-1", "site-1", "b.log")
PRODUCER, NEWER = b"p" * 16, b"q" * 16
TIMEOUT = 60.0


class Receiver:
    """A receiver's states, with clocks that the test sets."""

    def __init__(self) -> None:
        self.now, self.wall = 1000.0, 1_800_000_000.0
        self.states = States(TIMEOUT, lambda: self.now, lambda: self.wall)

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds

    def info(self, stream: StreamId = STREAM, *, sealed: bool = False, committed: int = 0) -> StreamInfo:
        return StreamInfo(stream, 0, committed, 0, sealed, state=self.states.of(stream))

    def called(self, stream: StreamId = STREAM, came: int = 0) -> Standing:
        """*came*: the time of the latest stored byte, in milliseconds since 1970."""
        found = standing(replace(self.info(stream), state=self.states.of(stream, came)))
        return replace(found, age=None if found.age is None else round(found.age, 6))


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


def test_bytes_are_live_then_quiet_while_heartbeats_come_then_silent(receiver: Receiver) -> None:
    receiver.states.opened(STREAM, PRODUCER)
    assert receiver.called() == Standing(Phase.LIVE)
    receiver.states.took(STREAM, 5)
    receiver.later(9)
    assert receiver.called() == Standing(Phase.LIVE)
    receiver.later(33)
    receiver.states.heard(STREAM, PRODUCER)
    assert receiver.called() == Standing(Phase.QUIET, 42)
    receiver.later(30)
    assert receiver.called() == Standing(Phase.QUIET, 72)
    receiver.later(1)
    assert receiver.called() == Standing(Phase.SILENT, 31)
    receiver.states.took(STREAM, 5)
    receiver.states.heard(STREAM, PRODUCER)
    assert receiver.called() == Standing(Phase.LIVE)


def test_the_open_streams_that_have_grown_lately(receiver: Receiver) -> None:
    states, other_site = receiver.states, StreamId("run-1", "site-2", "a.log")
    for stream in (STREAM, OTHER, other_site, StreamId("run-2", "site-1", "a.log")):
        states.opened(stream, PRODUCER)
    states.took(STREAM, 5)
    states.took(other_site, 5)
    receiver.later(2)
    states.took(OTHER, 5)
    assert states.grown("run-1", "", 1.0) == [OTHER]
    assert states.grown("run-1", "", 3.0) == [STREAM, OTHER, other_site]
    assert states.grown("", "site-2", 3.0) == [other_site]
    assert states.grown("run-2", "", 3.0) == []
    states.left(STREAM)
    assert states.grown("run-1", "site-1", 3.0) == [OTHER]


def test_what_comes_from_a_producer_is_heard_of_all_its_streams_and_of_no_other_s(receiver: Receiver) -> None:
    for stream, producer in ((STREAM, PRODUCER), (OTHER, PRODUCER), (StreamId("run-1", "site-2", "a.log"), NEWER)):
        receiver.states.opened(stream, producer)
    receiver.later(40)
    receiver.states.heard(OTHER, PRODUCER)
    assert receiver.called() == Standing(Phase.QUIET, 40)
    assert receiver.called(StreamId("run-1", "site-2", "a.log")).phase is Phase.SILENT
    receiver.states.heard(STREAM, NEWER)  # the old call of a stream that another producer has taken still sends
    assert receiver.states.of(STREAM).heard == 0


def test_a_link_is_lost_until_it_is_back_and_after_the_timeout_that_is_the_end(receiver: Receiver) -> None:
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.took(STREAM, 5)
    receiver.states.left(STREAM)
    receiver.later(59)
    assert receiver.called() == Standing(Phase.LOST, 59)
    receiver.states.opened(STREAM, PRODUCER)
    assert receiver.called() == Standing(Phase.QUIET, 59)
    receiver.states.left(STREAM)
    receiver.later(60)
    assert receiver.called() == Standing(Phase.ENDED, 60, "timeout")


def test_a_receiver_that_was_restarted_knows_since_when_nobody_came(receiver: Receiver) -> None:
    receiver.later(7)
    assert receiver.called() == Standing(Phase.LOST, 7)
    assert receiver.states.of(STREAM).heard is None


def test_a_receiver_that_was_restarted_counts_from_the_latest_byte_as_before(receiver: Receiver) -> None:
    came = round(1000 * receiver.wall)
    receiver.later(2400)
    receiver.states = States(TIMEOUT, lambda: receiver.now, lambda: receiver.wall)
    receiver.later(7)
    assert receiver.called(came=came) == Standing(Phase.LOST, 2407)
    receiver.states.opened(STREAM, PRODUCER)
    assert receiver.called(came=came) == Standing(Phase.QUIET, 2407)
    receiver.states.news(STREAM, PRODUCER, News(0, 5, Activity(1, 0.0, 3600.0)))
    assert receiver.called(came=came).phase is Phase.HUNG
    receiver.later(5)
    receiver.states.left(STREAM)
    receiver.later(3)
    assert receiver.called(came=came) == Standing(Phase.LOST, 3)
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.took(STREAM, 5)
    assert receiver.called(came=came) == Standing(Phase.LIVE)
    receiver.later(20)
    receiver.states.heard(STREAM, PRODUCER)
    assert receiver.called(came=came) == Standing(Phase.QUIET, 20), "a byte that the store does not hold yet"
    receiver.later(40)
    assert receiver.called(came=came).phase is Phase.SILENT
    receiver.wall -= 100_000
    assert receiver.states.of(OTHER, came).grown == 0.0, "a clock that was set back"


def test_a_receipt_is_the_end_whatever_else_is_known(receiver: Receiver) -> None:
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.left(STREAM)
    receiver.later(1000)
    assert standing(receiver.info(sealed=True)) == Standing(Phase.ENDED, why="receipt")


def test_what_is_held_is_paused_through_all_its_attempts(receiver: Receiver) -> None:
    receiver.states.held(STREAM, PRODUCER, "too many streams")  # before the stream was ever open
    assert receiver.called() == Standing(Phase.PAUSED, why="too many streams")
    for _ in range(20):
        receiver.states.opened(STREAM, PRODUCER)
        assert receiver.called().phase is Phase.PAUSED
        receiver.states.held(STREAM, PRODUCER, "the disk is full")
        receiver.states.left(STREAM)
        receiver.later(6)
        assert receiver.called() == Standing(Phase.PAUSED, why="the disk is full")
        assert receiver.states.sends(STREAM)
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.took(STREAM, 1)
    assert receiver.called() == Standing(Phase.LIVE)


def test_one_that_was_held_and_is_open_without_a_byte_goes_on_by_itself(receiver: Receiver) -> None:
    receiver.states.held(STREAM, PRODUCER, "too many streams")
    receiver.states.opened(STREAM, PRODUCER)
    receiver.later(states.HELD_FOR)
    assert receiver.called() == Standing(Phase.LIVE)


def test_a_stream_is_sent_while_its_producer_has_it_open_or_asks_again_and_again(receiver: Receiver) -> None:
    def sent() -> bool:
        found = receiver.states.sends(STREAM)
        assert found is receiver.states.of(STREAM).sends
        return found

    assert not sent()
    receiver.states.held(STREAM, PRODUCER, "too many streams")
    assert sent()
    receiver.states.opened(STREAM, PRODUCER)
    receiver.later(states.HELD_FOR)
    assert sent()
    receiver.states.took(STREAM, 1)
    receiver.states.left(STREAM)
    assert not sent()
    receiver.states.held(STREAM, PRODUCER, "the disk is full")
    receiver.later(states.ASKS_WITHIN)
    assert not sent()


def test_one_that_was_held_and_asks_no_more_has_lost_its_link(receiver: Receiver) -> None:
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.held(STREAM, PRODUCER, "the disk is full")
    receiver.states.left(STREAM)
    receiver.later(states.ASKS_WITHIN - 1)
    assert (receiver.called().phase, receiver.states.asks(STREAM)) == (Phase.PAUSED, True)
    receiver.later(1)
    assert (receiver.called(), receiver.states.asks(STREAM)) == (Standing(Phase.LOST, states.ASKS_WITHIN), False)
    receiver.later(TIMEOUT)
    assert receiver.called() == Standing(Phase.ENDED, TIMEOUT + states.ASKS_WITHIN, "timeout")


def test_an_empty_log_that_was_held_waits_no_more_after_its_receipt(receiver: Receiver) -> None:
    receiver.states.held(STREAM, PRODUCER, "too many streams")
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.left(STREAM, sealed=True)
    info = receiver.info(sealed=True)
    assert info.state is not None
    assert (info.state.held, info.state.sends) == ("", False)
    assert not receiver.states.asks(STREAM)


def test_what_a_held_producer_has_more_is_known_until_bytes_come(receiver: Receiver) -> None:
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.news(STREAM, PRODUCER, News(0, 100))
    assert not receiver.states.keeps(STREAM, 60)
    receiver.states.held(STREAM, PRODUCER, "the disk is full")
    receiver.states.left(STREAM)
    receiver.later(10 * TIMEOUT)
    assert (receiver.states.keeps(STREAM, 60), receiver.states.keeps(STREAM, 100)) == (True, False)
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.took(STREAM, 40)
    assert not receiver.states.keeps(STREAM, 60)


def test_lag_is_what_the_source_has_more_than_is_stored(receiver: Receiver) -> None:
    assert lag(receiver.info()) is None
    receiver.states.news(STREAM, PRODUCER, News(0, 1000))
    assert lag(receiver.info(committed=400)) == 600
    assert lag(receiver.info(committed=1200)) == 0  # the log has grown since its size was told
    assert lag(receiver.info(committed=400, sealed=True)) is None
    assert lag(replace(receiver.info(), unstored=f"{IN_STORE}Permission denied")) is None  # its length is unknown


def test_the_message_that_was_fastest_tells_the_clock_and_a_clock_that_was_set_shows(receiver: Receiver) -> None:
    def told(ahead: float, late: float) -> None:
        receiver.states.news(STREAM, PRODUCER, News(round(1000 * (receiver.wall + ahead - late)), 0))

    assert receiver.states.of(STREAM).skew is None
    told(2.0, 0.9)
    told(2.0, 0.1)
    told(2.0, 0.5)
    assert receiver.states.of(STREAM).skew == pytest.approx(1.9, abs=0.002)
    receiver.states.news(STREAM, PRODUCER, News(0, 5))  # these news have no clock
    for _ in range(8):
        told(-3.0, 0.0)
    assert receiver.states.of(STREAM).skew == pytest.approx(-3.0, abs=0.002)


def test_a_silent_log_is_told_apart_by_what_its_writers_do(receiver: Receiver) -> None:
    def told(activity: Activity | None) -> None:
        receiver.states.news(STREAM, PRODUCER, News(0, 5, activity))

    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.took(STREAM, 5)
    receiver.later(30)
    told(Activity(3, 2.5))
    assert receiver.called() == Standing(Phase.BUSY, 30, "its 3 processes use 2.5 cores")
    told(Activity(1, 0.42))
    assert receiver.called() == Standing(Phase.BUSY, 30, "its 1 process uses 42% of a core")
    told(Activity(1, 0.001, gpu=97.4))
    assert receiver.called() == Standing(
        Phase.BUSY, 30, "its 1 process uses 0% of a core and a GPU for 97 % of the time"
    )
    told(Activity(1, 0.0, 20.0, 0.0))
    none = "its 1 process used less than 1 % of a core, and no GPU, for 20 s"
    assert receiver.called() == Standing(Phase.QUIET, 30, none)
    told(Activity(1, 0.0, 20.0))
    idle = "its 1 process used less than 1 % of a core for"
    assert receiver.called() == Standing(Phase.QUIET, 30, f"{idle} 20 s"), "not for long enough"
    receiver.later(25)
    told(Activity(1, 0.0, 45.0))
    receiver.later(15)
    receiver.states.heard(STREAM, PRODUCER)
    assert receiver.called() == Standing(Phase.HUNG, 70, f"{idle} 60 s"), "an age goes on by itself"
    for shown, phase, why in (
        (Activity(1, 0.0, 60.0, writes="b.log", listens="[::]:80"), Phase.IDLE, "its 1 process writes b.log instead"),
        (Activity(1, 0.0, 60.0, listens="[::]:80"), Phase.IDLE, "its 1 process listens on [::]:80, and"),
        (
            Activity(2, 0.0, 60.0, waits="10.0.0.5:80"),
            Phase.WAITING,
            "its 2 processes are connected to 10.0.0.5:80, and",
        ),
    ):
        told(shown)
        assert (
            receiver.called().phase,
            receiver.called().why.removesuffix(" used less than 1 % of a core for 60 s"),
        ) == ((phase, why))
    told(Activity(1, 0.0, 20.0, waits="10.0.0.5:80"))
    assert receiver.called().phase is Phase.QUIET, "not for long enough"
    told(Activity(0))
    assert receiver.called() == Standing(Phase.GONE, 70, "the processes that wrote it have ended")
    told(None)
    assert receiver.called() == Standing(Phase.QUIET, 70)


def test_what_was_told_of_its_writers_is_forgotten_when_bytes_come(receiver: Receiver) -> None:
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.news(STREAM, PRODUCER, News(0, 5, Activity(0)))
    receiver.states.took(STREAM, 5)
    assert receiver.called() == Standing(Phase.LIVE)
    receiver.later(20)
    receiver.states.heard(STREAM, PRODUCER)
    assert receiver.called() == Standing(Phase.QUIET, 20)


def test_what_was_told_before_the_latest_byte_makes_no_log_hung(receiver: Receiver) -> None:
    receiver.states.opened(STREAM, PRODUCER)
    receiver.states.took(STREAM, 5)
    receiver.states.news(STREAM, PRODUCER, News(0, 5, Activity(1, 0.0, 3600.0)))  # sent before the byte arrived
    receiver.later(20)
    receiver.states.heard(STREAM, PRODUCER)
    assert receiver.called().phase is Phase.QUIET


def test_how_a_machine_fares_is_told_with_the_log_that_brought_it(receiver: Receiver) -> None:
    for stream in (STREAM, OTHER):
        receiver.states.opened(stream, PRODUCER)
    receiver.states.news(STREAM, PRODUCER, News(0, 5, health=Health(memory=1)))
    receiver.states.news(STREAM, PRODUCER, News(0, 9))
    assert receiver.states.of(STREAM).health == Health(memory=1), "it holds until another comes"
    receiver.states.news(OTHER, PRODUCER, News(0, 5, health=Health(memory=2)))
    assert (receiver.states.of(STREAM).health, receiver.states.of(OTHER).health) == (None, Health(memory=2))


def test_a_rate_is_of_the_last_seconds(receiver: Receiver) -> None:
    receiver.states.opened(STREAM, PRODUCER)
    for _ in range(600):
        receiver.later(0.1)
        receiver.states.took(STREAM, 100)
    assert receiver.states.of(STREAM).rate == pytest.approx(1000, rel=0.02)
    receiver.later(100)
    assert receiver.states.of(STREAM).rate == 0


def test_what_is_remembered_of_streams_that_nobody_has_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "REMEMBERED", 3)
    receiver = Receiver()
    for n in range(10):
        stream = StreamId("run-1", f"site-{n}", "a.log")
        receiver.states.opened(stream, PRODUCER)
        receiver.states.left(stream)
        receiver.states.held(StreamId("run-1", f"site-{n}", "b.log"), bytes([n]) * 16, "full")
        receiver.states.opened(STREAM, bytes([n]) * 16)
    memory = receiver.states
    assert (len(memory._open), len(memory._left), len(memory._producers)) == (1, 3, 4)


def test_a_run_that_left_the_store_begins_anew(receiver: Receiver) -> None:
    other = StreamId("run-2", STREAM.site, STREAM.log)
    for stream in (STREAM, other):
        receiver.states.opened(stream, PRODUCER)
        receiver.states.took(stream, 5)
        receiver.states.left(stream)
    receiver.later(3600)
    receiver.states.forget(STREAM.run)
    receiver.states.opened(STREAM, PRODUCER)
    assert receiver.states.of(STREAM).grown is None
    assert receiver.states.of(other).grown == 3600


@together(
    ("states_of", "line"),
    [
        ([], "0 sites"),
        ([[State(linked=True, grown=1.0)]], "1 site: 1 live"),
        (
            [*[[State(linked=True, grown=1.0)]] * 5, [State(linked=True, grown=42.9)], [None]],
            "7 sites: 5 live, 1 quiet 42 s, 1 complete",
        ),
        ([[State(linked=True, grown=99.0), State(linked=True, grown=1.0)]], "1 site: 1 live"),
        ([[State(linked=True, grown=99.0), State(linked=True, grown=20.0)]], "1 site: 1 quiet 20 s"),
        ([[State(linked=True, grown=0.0), State(linked=True, held="full")]], "1 site: 1 paused"),
        ([[State(linked=False, changed=5.0, idle_timeout=60.0), None]], "1 site: 1 lost link 5 s"),
        ([[State(linked=True, heard=31.0, idle_timeout=60.0)]] * 2, "2 sites: 2 silent"),
        ([[None, State(linked=True, grown=99.0)]], "1 site: 1 quiet 99 s"),
        ([[State(grown=3.0)]], "1 site: 1 open 3 s"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_line_for_all_sites(states_of: list[list[State | None]], line: str) -> None:
    """None: a sealed log."""
    infos = [
        StreamInfo(StreamId("run-1", f"site-{site}", f"{log}.log"), 0, 0, 0, state is None, state=state)
        for site, logs in enumerate(states_of)
        for log, state in enumerate(logs)
    ]
    assert summary(infos) == line


@together(
    ("seconds", "words"),
    [(0.4, "0 s"), (119.9, "119 s"), (120, "2 min"), (3599, "59 min"), (3600, "1 h"), (7500, "2 h 5 min"),
     (86400, "1 d"), (273_600, "3 d 4 h")],
)  # fmt: skip
def test_times_as_people_say_them(seconds: float, words: str) -> None:
    assert spoken(seconds) == words


def test_a_site_of_several_runs_is_one_site() -> None:
    infos = [StreamInfo(StreamId(f"run-{n}", site, "log.txt"), 0, 0, 0, True) for n in range(30) for site in "ab"]
    assert summary(infos) == "2 sites in 30 runs: 2 complete"
    infos[0] = replace(infos[0], sealed=False, state=State(linked=True, grown=1.0))
    assert summary(infos) == "2 sites in 30 runs: 1 live, 1 complete"


def test_a_log_of_which_nothing_is_stored_keeps_its_site_from_being_complete() -> None:
    lost = StreamInfo(OTHER, 0, 0, 0, False, unstored="too many")
    sealed = StreamInfo(STREAM, 0, 0, 0, True)
    live = replace(sealed, sealed=False, state=State(linked=True, changed=1.0, heard=1.0))
    assert standing(lost) == Standing(Phase.UNSTORED, why="too many")
    assert standing(replace(lost, state=State(held="too many"))) == Standing(Phase.PAUSED, why="too many")
    assert summary([sealed, lost]) == "1 site: 1 not stored"
    assert summary([live, lost]) == "1 site: 1 not stored"
