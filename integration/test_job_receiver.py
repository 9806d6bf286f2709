"""A receiver for frameworks that keep a directory for each job, with real producers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from flarelog import Bus, Event, Producer
from flarelog.integrations._jobs import JobReceiver
from flarelog.model import StreamInfo
from integration.conftest import append, until

RUN, SITE, LOG = "job-1", "site-1", "log.txt"


class Desk:
    """What is kept of runs that have ended, when, and in which state."""

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
    """A producer; what is yielded ends its run."""
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
        until(lambda: copy.exists() and copy.read_bytes() == b"one\n", "it is there")
        assert receiver.sending(RUN)
        append(tmp_path / "site" / LOG, b"two\n")
        end()
    assert not receiver.sending(RUN)
    finished = receiver.finish(RUN)
    assert finished is not None
    finished.result(10.0)
    assert copy.read_bytes() == b"one\ntwo\n"
    desk.gets((RUN, [(f"{RUN}/{SITE}/{LOG}", True, b"one\ntwo\n")]))
    again = receiver.finish(RUN)  # NVFlare raises two events at the end of a job that was aborted
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
    """It is told that the run is ending, and drains."""
    with sending(receiver, tmp_path / "site"):
        append(tmp_path / "site" / LOG, b"one\n")
        until(lambda: receiver.sending(RUN), "it sends")
        finished = receiver.finish(RUN)
        assert finished is not None
        finished.result(10.0)
        desk.gets((RUN, [(f"{RUN}/{SITE}/{LOG}", True, b"one\n")]))
