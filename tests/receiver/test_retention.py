"""A receiver's retention: old runs go, fresh ones stay, whatever the clock says. No test waits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from flarelog.errors import InUse, InvalidOption
from flarelog.lifecycle import RunState
from flarelog.model import StreamId
from flarelog.receiver.retention import DAY, Ages, Keep, Retention, Stamp, stamped
from flarelog.stores.base import Extent
from flarelog.stores.directory import Directory
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import set_run
from tests.rows import together

NOW = 1_800_000_000.0  # seconds since 1970
HOUR = 3600.0


@together(
    ("before", "wall", "elapsed", "held"),
    [
        pytest.param(None, NOW, 0.0, 0.0, id="nobody-looked-before"),
        pytest.param(Stamp(NOW - HOUR), NOW, HOUR, 0.0, id="an-hour-later"),
        pytest.param(Stamp(NOW - 30 * DAY), NOW, 30 * DAY, 0.0, id="a-month-later-in-the-same-process"),
        pytest.param(Stamp(NOW - 0.9 * DAY), NOW, 0.0, 0.0, id="started-again-after-a-night"),
        pytest.param(Stamp(NOW - 2 * DAY), NOW, 0.0, DAY, id="started-again-after-two-days-or-with-a-wrong-date"),
        pytest.param(Stamp(0.0), NOW, 60.0, DAY, id="a-machine-without-a-clock-has-learned-the-date"),
        pytest.param(Stamp(NOW + 300 * DAY), NOW, HOUR, 0.0, id="the-date-was-far-ahead-and-is-right-again"),
        pytest.param(Stamp(NOW - HOUR, DAY), NOW, HOUR, DAY - HOUR, id="an-hour-of-the-day-has-passed"),
        pytest.param(Stamp(NOW - HOUR, DAY), NOW, 0.0, DAY - HOUR, id="in-two-processes"),
        pytest.param(Stamp(NOW - HOUR, 60.0), NOW, HOUR, 0.0, id="the-day-has-passed"),
        pytest.param(Stamp(NOW + HOUR, 60.0), NOW, HOUR, 60.0, id="back-in-time-is-no-time"),
    ],
)
def test_when_the_date_is_believed(before: Stamp | None, wall: float, elapsed: float, held: float) -> None:
    assert stamped(before, wall, elapsed) == Stamp(wall, held)


def written(changed: float, size: int = 1) -> Extent:
    return Extent(1, size, size, changed)


def test_a_run_that_changed_in_the_life_of_this_process_is_no_older_than_that() -> None:
    ages = Ages()
    ages.look({"old": written(NOW - 9 * DAY), "live": written(NOW - 9 * DAY)}, 100.0)
    assert ages.age("old", NOW, 100.0) == 9 * DAY
    found = {"old": written(NOW - 9 * DAY), "live": written(NOW), "new": written(0.0)}
    ages.look(found, 200.0)  # the new run was written while the clock was not set
    assert (ages.age("old", NOW, 200.0), ages.age("live", NOW, 200.0), ages.age("new", NOW, 200.0)) == (9 * DAY, 0, 0)
    ages.look(found, 200.0 + DAY)
    assert ages.age("new", NOW + 400 * DAY, 200.0 + DAY) == DAY
    assert ages.age("live", NOW - DAY, 200.0 + DAY) == -DAY
    assert ages.oldest_first(found) == ["old", "new", "live"]
    ages.look(found, 300.0 + DAY, anew=True)
    assert ages.age("old", NOW, 300.0 + DAY) == 0


@pytest.mark.parametrize("wrong", [{"days": 0.0}, {"days": -1.0}, {"days": float("nan")}, {"size": 0}])
def test_what_cannot_be_kept(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidOption, match="leave it out"):
        Keep(**wrong)  # type: ignore[arg-type]
    assert not Keep()


class Playing:
    """A store with runs, and the runs that a retention has removed."""

    def __init__(self, store: LocalStore, keep: Keep) -> None:
        self.store, self.gone = store, list[str]()
        self.keep = keep
        self.again()

    def again(self) -> None:
        """Start another process."""
        self.retention = Retention(self.store, self.keep, self._remove)

    async def _remove(self, run: str, was: Extent, why: str) -> None:
        await self.store.remove(run, was=was)
        self.gone.append(run)

    async def holds(self, run: str, *, days: float, size: int = 10, state: RunState = RunState.RUNNING) -> StreamId:
        """Store *run* with a stream of so many bytes, last written so many days ago."""
        stream = StreamId(run, "site-1", "log.txt")
        appender = await self.store.appender(stream, b"producer")
        await appender.append(0, bytes(size))
        await appender.close()
        await set_run(self.store, run, state)
        for directory, _, files in os.walk(self.store.root / run, topdown=False):
            for name in (*files, "."):
                os.utime(os.path.join(directory, name), (NOW - days * DAY,) * 2)
        return stream


def play(root: Path, keep: Keep, act: Callable[[Playing], Awaitable[None]]) -> None:
    async def run() -> None:
        async with LocalStore(root, "memory") as store:
            await act(Playing(store, keep))

    asyncio.run(run())


def test_runs_go_after_so_many_days_ended_or_not(tmp_path: Path) -> None:
    async def act(playing: Playing) -> None:
        for run, days, state in (
            *(("ended", 8, RunState.ENDED), ("silent", 9, RunState.RUNNING), ("young", 6, RunState.ENDED)),
            ("open", 8, RunState.RUNNING),
        ):
            stream = await playing.holds(run, days=days, state=state)
        appender = await playing.store.appender(stream, b"producer")
        os.utime(playing.store.path(stream), (NOW - 8 * DAY,) * 2)
        os.utime(playing.store.layout.files(stream)[0], (NOW - 8 * DAY,) * 2)
        await playing.retention.look(NOW, 0.0)
        assert playing.gone == ["silent", "ended"]
        await playing.retention.look(NOW + HOUR, HOUR)
        await appender.close()
        assert playing.gone == ["silent", "ended"]

    play(tmp_path, Keep(days=7), act)


def test_the_oldest_ended_runs_go_until_the_rest_is_small_enough(tmp_path: Path) -> None:
    async def act(playing: Playing) -> None:
        for run, days, state in (
            *(("live", 0.5, RunState.RUNNING), ("ended-1", 0.1, RunState.ENDED), ("ended-2", 0.2, RunState.ENDED)),
            *(("silent", 2, RunState.RUNNING), ("ended-3", 3, RunState.ENDED)),
        ):
            await playing.holds(run, days=days, state=state, size=100_000)
        await playing.retention.look(NOW, 0.0)
        assert playing.gone == ["ended-3", "silent"]

    play(tmp_path, Keep(size=350_000), act)


def test_what_has_not_ended_stays_however_much_it_is_and_a_sentence_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(playing: Playing) -> None:
        await playing.holds("live", days=0.5, size=100_000)
        await playing.holds("ended", days=0.1, state=RunState.ENDED)
        for second in range(3):
            await playing.retention.look(NOW + second, float(second))
        assert playing.gone == ["ended"]

    play(tmp_path, Keep(size=1000), act)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "but none has ended" in said


def test_a_date_that_jumps_ahead_removes_nothing_of_what_was_written_today(tmp_path: Path) -> None:
    async def act(playing: Playing) -> None:
        await playing.retention.look(NOW, 0.0)
        await playing.holds("fresh", days=0)
        await playing.retention.look(NOW + 60, 60.0)
        for hours in range(1, 48):  # the clock is ten years ahead, and stays so
            await playing.retention.look(NOW + 3650 * DAY + hours * HOUR, hours * HOUR)
        assert playing.gone == []
        await playing.retention.look(NOW + 3650 * DAY + 8 * DAY, 8 * DAY)
        assert playing.gone == ["fresh"]  # the run is old by the monotonic clock, too

    play(tmp_path, Keep(days=7), act)


def test_a_receiver_that_starts_with_a_wrong_date_removes_nothing_for_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(playing: Playing) -> None:
        await playing.holds("fresh", days=0)
        await playing.retention.look(NOW, 0.0)
        playing.again()
        for hours in range(23):
            await playing.retention.look(NOW + 3650 * DAY + hours * HOUR, hours * HOUR)
        playing.again()
        await playing.retention.look(NOW + 3650 * DAY + 23 * HOUR, 0.0)
        assert playing.gone == []
        playing.again()
        await playing.retention.look(NOW + HOUR, 0.0)  # the clock was corrected
        assert playing.gone == []

    play(tmp_path, Keep(days=7), act)
    assert "no run is removed for 1 d, so that a wrong date can be corrected" in caplog.text


def test_a_run_that_somebody_has_open_or_that_has_changed_since_it_was_looked_at_stays(tmp_path: Path) -> None:
    async def act(playing: Playing) -> None:
        stream = await playing.holds("run", days=8)
        remove = playing.store.remove

        async def late(run: str, was: Extent, why: str) -> None:
            appender = await playing.store.appender(stream, b"producer")
            await appender.append(appender.committed, b"just now")
            await appender.close()
            with pytest.raises(InUse, match="has changed"):
                await remove(run, was=was)
            raise InUse("as it is")

        playing._remove = late  # type: ignore[method-assign]
        playing.again()
        await playing.retention.look(NOW, 0.0)
        assert playing.store.path(stream).exists()

    play(tmp_path, Keep(days=7), act)


def test_neither_a_full_disk_nor_a_damaged_stamp_keeps_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(playing: Playing) -> None:
        (tmp_path / ".retention").write_bytes(b"\xff nonsense")
        await playing.holds("run", days=8)
        monkeypatch.setattr(Directory, "open_new", _full)
        await playing.retention.look(NOW, 0.0)
        assert playing.gone == ["run"]

    play(tmp_path, Keep(days=7), act)


def _full(directory: Directory, name: str) -> int:
    raise OSError(28, "No space left on device")
