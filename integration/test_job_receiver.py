"""A receiver for frameworks with a directory for each job, with real producers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from flarelog import Bus, Event, Producer
from flarelog.delivery.quota import Limits
from flarelog.errors import CannotListen
from flarelog.integrations.jobs import JobReceiver
from flarelog.model import StreamInfo
from flarelog.receiver.retention import DAY
from flarelog.v1.log_pb2 import GOING_AWAY, Reply
from integration.harness.hostile import Peer
from integration.harness.places import Place, append, content, until

RUN, SITE, LOG = "job-1", "site-1", "log.txt"


class Desk:
    """The ended runs that the receiver reported: when, and in which state."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, list[tuple[str, bool, bytes]]]] = []

    def keep(self, run: str, streams: Sequence[tuple[StreamInfo, Path]]) -> None:
        found = [(str(info.stream), info.sealed, path.read_bytes()[: info.committed]) for info, path in streams]
        self.kept.append((run, found))

    def gets(self, *wanted: tuple[str, list[tuple[str, bool, bytes]]]) -> None:
        until(lambda: self.kept == list(wanted), lambda: f"{self.kept} is {wanted}")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def receiver(tmp_path: Path, desk: Desk) -> Iterator[JobReceiver]:
    (tmp_path / "jobs" / RUN).mkdir(parents=True)
    (tmp_path / "site").mkdir()
    with JobReceiver(
        str(tmp_path / "store"), tmp_path / "jobs", listen="127.0.0.1:0", tls=None, keep=desk.keep, join_timeout=2.0
    ) as receiver:
        receiver.bus.publish(Event.ABOUT_TO_START_RUN, RUN)
        yield receiver


@contextmanager
def sending(receiver: JobReceiver, root: Path) -> Iterator[Callable[[], None]]:
    """Run a producer inside the block; the yielded function ends its run."""
    bus = Bus()
    with Producer(receiver.address, SITE, str(root), bus=bus):
        bus.publish(Event.START_RUN, RUN)
        yield lambda: bus.publish(Event.END_RUN, RUN)


def test_what_a_site_writes_is_in_the_jobs_directory_at_once_and_kept_in_the_end(
    tmp_path: Path, receiver: JobReceiver, desk: Desk
) -> None:
    copy = tmp_path / "jobs" / RUN / SITE / LOG
    with sending(receiver, tmp_path / "site") as end:
        append(tmp_path / "site" / LOG, b"one\n")
        until(lambda: content(copy) == b"one\n", "it is there")
        assert receiver.sending(RUN)
        append(tmp_path / "site" / LOG, b"two\n")
        end()
    assert not receiver.sending(RUN)
    finished = receiver.finish(RUN)
    assert finished is not None
    finished.result(10.0)
    assert copy.read_bytes() == b"one\ntwo\n"
    desk.gets((RUN, [(f"{RUN}/{SITE}/{LOG}", True, b"one\ntwo\n")]))
    again = receiver.finish(RUN)  # NVFlare raises two events at the end of an aborted job
    assert again is not None
    again.result(10.0)
    desk.gets((RUN, [(f"{RUN}/{SITE}/{LOG}", True, b"one\ntwo\n")]))


def test_a_log_that_comes_after_the_end_is_kept_when_it_comes(
    tmp_path: Path, receiver: JobReceiver, desk: Desk
) -> None:
    finished = receiver.finish(RUN)
    assert finished is not None
    finished.result(10.0)
    desk.gets((RUN, []))
    append(tmp_path / "site" / LOG, b"late\n")
    with sending(receiver, tmp_path / "site") as end:
        end()
    desk.gets((RUN, []), (RUN, [(f"{RUN}/{SITE}/{LOG}", True, b"late\n")]))


def test_a_producer_that_goes_on_does_not_hold_the_end(tmp_path: Path, receiver: JobReceiver, desk: Desk) -> None:
    """The producer learns that the run is ending, and drains."""
    with sending(receiver, tmp_path / "site"):
        append(tmp_path / "site" / LOG, b"one\n")
        until(lambda: receiver.sending(RUN), "it sends")
        finished = receiver.finish(RUN)
        assert finished is not None
        finished.result(10.0)
        desk.gets((RUN, [(f"{RUN}/{SITE}/{LOG}", True, b"one\n")]))


def test_each_streams_end_is_told_once_however_it_comes(tmp_path: Path, receiver: JobReceiver, desk: Desk) -> None:
    ended: list[str] = []
    receiver.bus.subscribe(lambda notice: ended.append(f"{notice.stream} {notice.ok}"), Event.STREAM_ENDED)
    for name in (LOG, "other.txt"):
        append(tmp_path / "site" / name, b"one\n")
    with sending(receiver, tmp_path / "site") as end:
        until(lambda: len(list((tmp_path / "jobs" / RUN / SITE).glob("*.txt"))) == 2, "both are sent")
        finished = [receiver.finish(RUN) for _ in range(2)]  # the run's end and its producer's, at once
        end()
    for future in finished:
        assert future is not None
        future.result(10.0)
    receiver.stop()
    assert sorted(ended) == [f"{RUN}/{SITE}/{LOG} True", f"{RUN}/{SITE}/other.txt True"]
    assert len(desk.kept) == 1


def test_silence_ends_one_stream_and_no_other(tmp_path: Path, place: Place) -> None:
    """One site is killed; the other sends only heartbeats."""
    (tmp_path / "jobs" / RUN).mkdir(parents=True)
    ended: list[tuple[str, bool, str]] = []
    with JobReceiver(
        str(tmp_path / "store"), tmp_path / "jobs", listen="127.0.0.1:0", tls=None, idle_timeout=1.0
    ) as receiver:
        receiver.bus.publish(Event.START_RUN, RUN)
        receiver.bus.subscribe(
            lambda notice: ended.append((str(notice.stream), notice.ok, notice.text)), Event.STREAM_ENDED
        )
        append(place.log, b"one\n")
        killed, quiet = (place.sidecar(receiver.address, run=RUN, site=site) for site in ("killed", "quiet"))
        copies = [tmp_path / "jobs" / RUN / site / place.log.name for site in ("killed", "quiet")]
        until(lambda: all(content(copy) == b"one\n" for copy in copies), "both are there")
        killed.process.kill()
        until(lambda: ended, "its silence is noticed")
        append(place.log, b"two\n")
        until(lambda: copies[1].read_bytes() == b"one\ntwo\n", "the other goes on")
        assert [(stream.split("/")[1], ok) for stream, ok, _ in ended] == [("killed", False)]
        assert "closed without a receipt" in ended[0][2]
        assert copies[0].read_bytes() == b"one\n"
        assert quiet.stop() == 0


def test_what_could_not_be_kept_is_said_and_stays_in_the_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "jobs" / RUN).mkdir(parents=True)

    def keep(run: str, streams: Sequence[tuple[StreamInfo, Path]]) -> None:
        raise ValueError("there is no room")

    (tmp_path / "site").mkdir()
    append(tmp_path / "site" / LOG, b"one\n")
    with JobReceiver(str(tmp_path / "store"), tmp_path / "jobs", listen="127.0.0.1:0", tls=None, keep=keep) as receiver:
        receiver.bus.publish(Event.START_RUN, RUN)
        with sending(receiver, tmp_path / "site") as end:
            end()
        finished = receiver.finish(RUN)
        assert finished is not None
        finished.result(10.0)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == [
        f"some logs of run {RUN} were not delivered (ValueError: there is no room); they remain in the store"
    ]
    assert (tmp_path / "store" / RUN / SITE / LOG).read_bytes() == b"one\n"


def stored_long_ago(tmp_path: Path) -> Path:
    """A run in a store that has not changed for two days."""
    (tmp_path / "jobs" / RUN).mkdir(parents=True)
    (tmp_path / "site").mkdir()
    append(tmp_path / "site" / LOG, b"one\n")
    with JobReceiver(str(tmp_path / "store"), tmp_path / "jobs", listen="127.0.0.1:0", tls=None) as receiver:
        receiver.bus.publish(Event.START_RUN, RUN)
        with sending(receiver, tmp_path / "site") as end:
            end()
    then = time.time() - 2 * DAY
    for directory, _, files in os.walk(tmp_path / "store", topdown=False):
        for name in (*files, "."):
            os.utime(os.path.join(directory, name), (then, then))
    assert (tmp_path / "store" / RUN / SITE / LOG).read_bytes() == b"one\n"
    return tmp_path / "store" / RUN


def test_a_run_that_nobody_needs_leaves_the_store_and_its_copies_stay(tmp_path: Path) -> None:
    run = stored_long_ago(tmp_path)
    with JobReceiver(
        str(tmp_path / "store"), tmp_path / "jobs", listen="127.0.0.1:0", tls=None, keep_days=3.0
    ) as receiver:
        until((tmp_path / "store" / ".retention").exists, "it has been looked for")
        assert receiver.address
        assert run.exists()
    with JobReceiver(str(tmp_path / "store"), tmp_path / "jobs", listen="127.0.0.1:0", tls=None, keep_days=1.0):
        until(lambda: not run.exists(), "it has gone")
    assert (tmp_path / "jobs" / RUN / SITE / LOG).read_bytes() == b"one\n"


def test_a_receiver_that_got_no_port_removes_nothing(tmp_path: Path) -> None:
    """The store may belong to another receiver."""
    run = stored_long_ago(tmp_path)
    with JobReceiver(str(tmp_path / "other"), tmp_path / "jobs", listen="127.0.0.1:0", tls=None) as other:
        for _ in range(2):
            with pytest.raises(CannotListen):
                JobReceiver(
                    str(tmp_path / "store"), tmp_path / "jobs", listen=other.address, tls=None, keep_days=1.0
                ).start()
        answer = other.submit(
            lambda server: asyncio.sleep(0.5)
        )  # lets the loop turn, which all receivers of a process share
        assert answer is not None
        answer.result(10.0)
        assert run.exists()


def test_a_run_that_cannot_be_ended_is_a_sentence_and_can_be_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The receiver took none of it, because it knows too many runs."""
    with JobReceiver(
        str(tmp_path / "store"), tmp_path / "jobs", listen="127.0.0.1:0", tls=None, limits=Limits(max_runs=1)
    ) as receiver:
        receiver.bus.publish(Event.ABOUT_TO_START_RUN, RUN)
        for _ in range(2):
            finished = receiver.finish("job-2")
            assert finished is not None
            finished.result(10.0)
    said = [record.getMessage() for record in caplog.records if "job-2" in record.getMessage()]
    assert len(said) == 2
    assert all(one.startswith("run job-2 could not be ended: 1 run has not ended, and 1 is the limit") for one in said)


def test_a_sender_that_dies_before_it_says_which_stream_leaves_nothing_behind(
    tmp_path: Path, receiver: JobReceiver, desk: Desk
) -> None:
    async def silent() -> list[Reply]:
        async with Peer(receiver.address, 1.0) as peer:
            return await peer.push(await peer.channel(), [])

    replies = asyncio.run(silent())
    assert [(reply.code, reply.reason) for reply in replies] == [(GOING_AWAY, "the call ended before its Open")]
    assert not receiver.sending(RUN)
    finished = receiver.finish(RUN)
    assert finished is not None
    finished.result(10.0)
    desk.gets((RUN, []))
    assert os.listdir(tmp_path / "store" / RUN) == [".run.journal"]
