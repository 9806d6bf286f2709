"""The sentences at a sidecar's end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import grpc
import pytest
from pytest_mock import MockerFixture

from flarelog.completeness import Completeness
from flarelog.delivery.producer import DeliveryOptions
from flarelog.errors import (
    CANNOT_CONNECT,
    FAILED,
    GAPS,
    NOT_ALLOWED,
    NOT_FOUND,
    OK,
    TIMEOUT,
    CannotConnect,
    FlarelogError,
    NotAllowed,
    NotFound,
    StreamRefused,
    StreamRejected,
    TimedOut,
)
from flarelog.model import Receipt, State, StreamId, StreamInfo
from flarelog.sender.ending import Sending
from flarelog.sender.log import Log
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome, StreamOutcome
from flarelog.sender.progress import Progress
from flarelog.sender.sidecar import Sidecar
from flarelog.sources.files.patterns import SourceOptions
from tests.rows import together


def stream(gaps: int = 0, error: FlarelogError | None = None, log: str = "log.txt") -> StreamOutcome:
    return StreamOutcome(StreamId("run-1", "site-1", log), 0, None, 0, 0, 1, Completeness(gaps=gaps * (1,)), error)


def sealed() -> StreamOutcome:
    return replace(stream(), receipt=Receipt(0, 0, 1))


REJECTED, REFUSED = StreamRejected("no", offset=0), StreamRefused("removed", offset=0)


@together(
    ("outcome", "code"),
    [
        pytest.param(Outcome((), ()), OK, id="nothing-to-send"),
        pytest.param(Outcome((stream(), stream()), ()), OK, id="everything-is-stored"),
        pytest.param(Outcome((stream(), stream(gaps=1)), ()), GAPS, id="a-known-loss"),
        pytest.param(Outcome((stream(),), ("a name",)), FAILED, id="a-file-that-could-not-be-sent"),
        pytest.param(Outcome((stream(gaps=1), stream(error=REJECTED)), ()), FAILED, id="an-error-is-worse-than-a-gap"),
        pytest.param(Outcome((stream(gaps=1),), ("a name",)), FAILED, id="and-so-is-a-file-that-could-not-be-sent"),
        pytest.param(
            Outcome((stream(error=REJECTED), stream(error=REFUSED)), ()), NOT_ALLOWED, id="not-to-be-restarted"
        ),
        pytest.param(Outcome((), (), NotFound("no root")), NOT_FOUND, id="the-whole-ended-early"),
        pytest.param(Outcome((stream(),), (), TimedOut("late")), TIMEOUT, id="the-drain-took-too-long"),
    ],
)
def test_a_sidecars_exit_code(outcome: Outcome, code: int) -> None:
    assert outcome.exit_code == code


def answered(status: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(answered(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"), id="too-late"),
        pytest.param(answered(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls"), id="too-many"),
        pytest.param(answered(grpc.StatusCode.UNAVAILABLE, "gone"), id="gone"),
        pytest.param(asyncio.InvalidStateError("the call has ended"), id="ended"),
        pytest.param(TimeoutError(), id="silence"),
    ],
)
def test_the_receivers_record_is_asked_for_until_there_is_an_answer(
    trouble: Exception, tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch("flarelog.sender.link.why", return_value="")
    asked = mocker.patch("flarelog.wire.listing.streams", side_effect=[trouble, []])

    async def go() -> list[StreamInfo]:
        sending = DeliveryOptions(first_delay=0.001, max_delay=0.001)
        sidecar = Sidecar(SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(tmp_path)), sending))
        try:
            return await sidecar.link.record()
        finally:
            sidecar.finder.close()
            await sidecar.link.close()

    assert asyncio.run(go()) == []
    assert asked.call_count == 2


def test_a_later_look_at_the_same_logs_has_the_last_word_on_those_that_it_opened() -> None:
    first = Outcome((stream(), stream(log="other.txt", gaps=1)), ())
    later = Outcome((stream(error=REJECTED),), ())
    assert first.exit_code == GAPS
    assert first.then(later).exit_code == FAILED
    assert [(one.stream.log, one.gaps) for one in first.then(later).streams] == [("log.txt", 0), ("other.txt", 1)]
    assert later.then(first).exit_code == GAPS


def test_a_log_that_stays_open_for_writing_ends_the_sidecar_after_the_drains_timeout(
    tmp_path: Path, mocker: MockerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    mocker.patch("flarelog.sender.sidecar.Sidecar.run", return_value=Outcome((), ()))
    mocker.patch("flarelog.sources.files.finder.Files.written", return_value=True)

    async def go() -> None:
        sending = Sending(
            SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(tmp_path)), drain_timeout=0.01)
        )
        sending.sidecar.early = sending.sidecar.finder.state()
        await sending.run()
        await sending.sidecar.link.close()

    asyncio.run(go())
    why = "but a process has a log of it open for writing after 0.01 s; later bytes are not sent"
    assert caplog.messages == [f"run run-1 is ending, {why}"]


@pytest.mark.parametrize(
    ("outcome", "final"),
    [
        pytest.param(Outcome((stream(error=REFUSED),), ()), True, id="refused"),
        pytest.param(Outcome((stream(error=REFUSED), sealed()), ()), True, id="the-rest-is-stored"),
        pytest.param(Outcome((stream(error=REFUSED), stream()), (), TimedOut("late")), False, id="another-was-late"),
        pytest.param(Outcome((stream(error=REFUSED), stream(error=REJECTED)), ()), False, id="another-broke"),
        pytest.param(Outcome((), (), NotAllowed("revoked")), True, id="the-caller-is-refused"),
        pytest.param(Outcome((), (), CannotConnect("no receiver")), False, id="nobody-has-decided"),
        pytest.param(Outcome((), ()), False, id="nothing"),
    ],
)
def test_an_outcome_is_final_only_if_all_that_is_missing_was_refused(outcome: Outcome, final: bool) -> None:
    assert outcome.final is final


def test_each_message_of_the_receivers_record_is_progress_of_a_drain(tmp_path: Path, mocker: MockerFixture) -> None:
    made = mocker.spy(Progress, "made")
    counts = []

    async def streams(*_: object, heard: Callable[[], object] = lambda: None, **__: object) -> list[StreamInfo]:
        for _page in range(3):
            counts.append(made.call_count)
            heard()
        return []

    mocker.patch("flarelog.wire.listing.streams", streams)
    options = SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(tmp_path)), once=True)

    async def go() -> None:
        await Sidecar(options).run()

    asyncio.run(go())
    assert counts == [counts[0], counts[0] + 1, counts[0] + 2]


def test_what_no_receiver_has_answered_for_is_told_as_unsent(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch("flarelog.sender.link.why", return_value="")
    mocker.patch("flarelog.wire.listing.streams", side_effect=answered(grpc.StatusCode.UNAVAILABLE, "gone"))
    (tmp_path / "a.log").write_bytes(b"one\n")
    (tmp_path / "b.log").write_bytes(b"")
    options = SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(tmp_path)), once=True)

    async def go() -> Outcome:
        return await Sidecar(replace(options, drain_timeout=0.05)).run()

    outcome = asyncio.run(go())
    assert outcome.exit_code == CANNOT_CONNECT
    assert [(one.stream.log, one.committed, one.unsent) for one in outcome.streams] == [
        ("a.log", None, 4),
        ("b.log", None, 0),
    ]


@pytest.mark.parametrize(
    ("linked", "order"),
    [
        pytest.param(True, ["b.log", "a.log", "c.log"], id="another-sidecar-sends-it"),
        pytest.param(False, ["a.log", "b.log", "c.log"], id="no-sidecar-sends-it"),
    ],
)
def test_what_another_sidecar_sends_is_opened_before_other_logs(
    tmp_path: Path, mocker: MockerFixture, linked: bool, order: list[str]
) -> None:
    """The other sidecar may have begun a file meanwhile that has another log's name by now."""
    for name in order:
        (tmp_path / name).write_bytes(b"one\n")
    held = StreamInfo(StreamId("run-1", "site-1", "b.log"), 0, 0, 0, False, state=State(linked=linked))
    mocker.patch("flarelog.wire.listing.streams", return_value=[held])
    opened: list[str] = []

    async def run(log: Log) -> None:
        opened.append(log.stream.log)
        log.ended = True

    mocker.patch("flarelog.sender.log.Log.run", run)
    options = SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(tmp_path)), once=True)

    async def go() -> None:
        await Sidecar(options).run()

    asyncio.run(go())
    assert opened == order


def held(
    committed: int = 4, end: int = 0, *, linked: bool = False, sealed: bool = False, log: str = "a.log"
) -> list[StreamInfo]:
    state = State(linked=linked, end=end)
    return [StreamInfo(StreamId("run-1", "site-1", log), 0, committed, 0, sealed, state=state)]


AWAY = answered(grpc.StatusCode.UNAVAILABLE, "gone")
BEHIND, LEVEL = held(4, 9, linked=True), held(9, 9, linked=True)


def looks_before_it_opens(tmp_path: Path, mocker: MockerFixture, answers: Iterable[object]) -> int:
    """How often a new sidecar reads the receiver's record before it opens its log."""
    mocker.patch("flarelog.sender.link.why", return_value="")
    mocker.patch("flarelog.sender.link.OLDER_LOOK", 0.001)
    asked = mocker.patch("flarelog.wire.listing.streams", side_effect=answers)
    (tmp_path / "a.log").write_bytes(b"one\n")
    opened: list[int] = []

    async def run(log: Log) -> None:
        opened.append(asked.call_count)
        log.ended = True

    mocker.patch("flarelog.sender.log.Log.run", run)
    sending = DeliveryOptions(first_delay=0.001, max_delay=0.001)
    options = SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions(str(tmp_path)), sending, once=True)

    async def go() -> None:
        await Sidecar(options).run()

    asyncio.run(go())
    (looks,) = opened
    return looks


@pytest.mark.parametrize(
    ("answers", "looks"),
    [
        pytest.param([AWAY, held(), BEHIND, BEHIND, LEVEL], 5, id="the-older-one-comes-back-later"),
        pytest.param([AWAY, LEVEL, LEVEL], 3, id="the-older-one-was-faster"),
        pytest.param([AWAY, held(), held(sealed=True)], 3, id="the-older-one-seals-it"),
        pytest.param([AWAY, held(sealed=True)], 2, id="the-log-was-sealed-before"),
        pytest.param([AWAY, []], 2, id="there-is-no-older-one"),
        pytest.param([BEHIND], 1, id="the-receiver-was-there"),
    ],
)
def test_after_an_outage_an_older_sidecar_first_sends_what_only_it_has_open(
    tmp_path: Path, mocker: MockerFixture, answers: list[object], looks: int
) -> None:
    assert looks_before_it_opens(tmp_path, mocker, answers) == looks


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(held(), id="does-not-come-back"),
        pytest.param(held(linked=True, log="b.log"), id="has-other-logs"),
        pytest.param(BEHIND, id="sends-no-more"),
    ],
)
def test_after_an_outage_an_older_sidecar_is_awaited_for_a_short_time(
    tmp_path: Path, mocker: MockerFixture, answer: list[StreamInfo]
) -> None:
    mocker.patch("flarelog.sender.link.OLDER_WITHIN", 0.05)
    assert looks_before_it_opens(tmp_path, mocker, chain([AWAY], repeat(answer))) > 3


@pytest.mark.parametrize(
    ("there", "answers", "looks"),
    [
        pytest.param([True], [AWAY, [], [], BEHIND, LEVEL], 5, id="it-opens-the-first-log"),
        pytest.param([True], [AWAY, held(sealed=True), LEVEL, LEVEL], 4, id="it-opens-a-sealed-log"),
        pytest.param([True, True, True, False], [AWAY, [], []], 3, id="it-ends"),
        pytest.param([True], [[]], 1, id="the-receiver-was-there"),
    ],
)
def test_after_an_outage_an_older_sidecar_of_which_the_receiver_knows_nothing_is_awaited(
    tmp_path: Path, mocker: MockerFixture, there: list[bool], answers: list[object], looks: int
) -> None:
    mocker.patch("flarelog.sender.link.Older.is_there", side_effect=chain(there, repeat(there[-1])))
    assert looks_before_it_opens(tmp_path, mocker, answers) == looks


def test_an_older_sidecar_of_this_machine_is_awaited_for_longer_because_it_may_wait_for_a_still_older_one(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch("flarelog.sender.link.OLDER_WITHIN", 0.25)
    mocker.patch("flarelog.sender.link.Older.is_there", return_value=True)
    began = time.monotonic()
    looks_before_it_opens(tmp_path, mocker, chain([AWAY], repeat(held())))
    assert time.monotonic() - began >= 0.5
