"""The reader of one container against a model of the API: no line twice, each known loss a gap, the rest unverified."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flarelog.errors import FlarelogError
from flarelog.kubernetes.podlogs import Gone
from flarelog.sources.api import reader as reading
from flarelog.sources.api.kept import Kept
from flarelog.sources.api.reader import IDLE, Pace, Reader
from tests.sources.api.kubelet import OF, SECOND, Kubelet

AT_ONCE = Pace(certain=0.0, again=0.0, tick=0.0)


class Site:
    """A container, its reader, and what the reader has written."""

    def __init__(self, tmp_path: Path, between: Callable[[], None] = lambda: None, piece: int = 1000) -> None:
        self.kubelet = Kubelet(between, piece)
        self.path = tmp_path / "pods" / "default_pod_uid" / "main"
        self.scratch = tmp_path
        self.said: list[str] = []
        self.start()

    def start(self) -> None:
        """As a new process does."""
        self.kept = Kept(self.path, self.scratch)
        self.reader = Reader(self.kubelet, OF, self.kept, lambda: True, self.said.append, AT_ONCE)

    def step(self) -> float:
        try:
            return asyncio.run(self.reader.step())
        except Gone:
            self.reader.leave()
            return IDLE
        except FlarelogError as error:
            self.said.append(str(error))
            return 1.0

    def settle(self, most: int = 40) -> None:
        """Step until nothing is left to do."""
        for _ in range(most):
            if self.step() == IDLE:
                return
        raise AssertionError("the reader does not come to an end")

    @property
    def files(self) -> list[Path]:
        """In the order in which a finder takes them."""

        def turn(path: Path) -> tuple[int, str]:
            attempt, _, rest = path.name.partition(".log")
            return int(attempt), rest or "~"

        return sorted(self.path.glob("[0-9]*"), key=turn)

    @property
    def stored(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.files)

    @property
    def gaps(self) -> list[str]:
        return [gap for path in self.files if (gap := self.kept.gap(path.name))]

    def endings(self) -> dict[int, str]:
        """How each attempt's last file ended; one that goes on is absent."""
        found = {}
        for path in self.files:
            if not path.name.endswith(".log"):
                found[int(path.name.partition(".")[0])] = self.kept.ending(path.name)
        return found


def stretches(site: Site, files: list[Path]) -> list[bytes]:
    """The bytes of *files*, in pieces between gaps."""
    found = [b""]
    for path in files:
        if site.kept.gap(path.name) or site.kept.note(path.name):
            found.append(b"")
        found[-1] += path.read_bytes()
    return found


def script(*events: Callable[[], None]) -> Callable[[], None]:
    """Calls the *events* in turn, one a call."""
    left: Iterator[Callable[[], None]] = iter(events)
    return lambda: next(left, lambda: None)()


def test_a_log_that_is_not_rotated_is_proved_to_be_complete(tmp_path: Path) -> None:
    site = Site(tmp_path, piece=13)
    for _ in range(50):
        site.kubelet.write()
    site.step()
    site.kubelet.write(b"late")
    site.kubelet.end()
    site.settle()
    assert site.stored == b"".join(site.kubelet.now.written)
    assert (site.endings(), site.gaps) == ({0: ""}, [])


def test_an_answer_that_ends_is_asked_again_and_no_line_comes_twice(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for number in range(200):
        site.kubelet.write(b"%d" % number, later=SECOND // 50 if number % 3 else 0)
        if number % 7 == 0:
            site.step()
    site.step()
    assert site.stored == b"".join(site.kubelet.now.written)
    assert any(one.startswith("20") for one in site.kubelet.asked), "it asks by time"


def test_lines_alike_within_one_moment_are_told_apart_by_their_number(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kubelet.write(b"first")
    for _ in range(3):
        site.kubelet.write(b"same", later=0)
    site.step()
    for _ in range(2):
        site.kubelet.write(b"same", later=0)
    site.step()
    assert site.stored.count(b"same") == 5


@pytest.mark.parametrize("killed", [False, True], ids=["same-process", "after-kill-9"])
def test_a_rotation_while_nobody_read_is_a_gap(tmp_path: Path, killed: bool) -> None:
    site = Site(tmp_path)
    site.kubelet.write(b"seen", later=4 * SECOND)
    site.step()
    site.kubelet.write(b"lost")
    site.kubelet.rotate()
    site.kubelet.write(b"after")
    if killed:
        site.start()
    site.kubelet.end()
    site.settle()
    first, _, last = site.kubelet.now.written
    assert site.stored == first + last
    assert (site.endings(), len(site.gaps)) == ({0: "unverified"}, 1)


def test_a_process_that_was_killed_within_a_line_goes_on_within_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for _ in range(5):
        site.kubelet.write()
    site.step()
    file = site.files[-1]
    file.write_bytes(file.read_bytes()[:-9])
    site.start()
    site.kubelet.write()
    site.kubelet.end()
    site.settle()
    assert site.stored == b"".join(site.kubelet.now.written)
    assert site.endings() == {0: ""}


def test_a_follow_that_jumps_over_the_end_of_a_rotated_file_is_not_verified(tmp_path: Path) -> None:
    site = Site(tmp_path)
    kubelet = site.kubelet
    kubelet.write(b"seen", later=4 * SECOND)

    def jump() -> None:
        kubelet.write(b"jumped over")
        kubelet.rotate()
        kubelet.write(b"after")

    kubelet.between = script(lambda: None, lambda: None, lambda: None, jump)
    kubelet.rounds = 2
    site.step()
    kubelet.end()
    site.settle()
    assert b"after" in site.stored
    assert b"jumped" not in site.stored
    assert site.endings() == {0: "unverified"}


@pytest.mark.parametrize("ended", [True, False])
def test_lines_that_a_follow_left_out_come_late_and_no_other_comes_twice(tmp_path: Path, ended: bool) -> None:
    site = Site(tmp_path)
    for _ in range(50):
        site.kubelet.write()
    written = site.kubelet.now.written
    site.kept.begin(0)
    site.kept.append(b"".join(written[:10] + written[15:40]))  # as of a file that was rotated meanwhile
    site.kubelet.now.ended = ended
    now = asyncio.run(site.kubelet.attempt(OF))
    assert now is not None
    asyncio.run(site.reader._compare(now, 0))
    for _ in range(5):
        site.kubelet.write()
        site.step()
    site.kubelet.end()
    site.settle()
    assert sorted(site.stored.splitlines(keepends=True)) == written
    assert (site.endings()[0], site.gaps) == ("unverified", [])


def test_each_attempt_of_a_crash_loop_has_its_end(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for number in range(4):
        site.kubelet.write(b"attempt %d" % number)
        if number % 2:
            site.step()
        site.kubelet.restart()
        site.step()
        site.step()
    site.kubelet.write(b"last")
    site.kubelet.end()
    site.settle()
    assert site.stored == b"".join(line for one in site.kubelet.attempts for line in one.written)
    assert site.endings() == dict.fromkeys(range(5), "")


@pytest.mark.parametrize("read", [True, False], ids=["read", "unread"])
@pytest.mark.parametrize("unheard", [1, 2])
def test_what_the_kubelet_gives_of_an_attempt_that_the_api_has_not_heard_of_is_not_that_of_an_earlier_one(
    tmp_path: Path, unheard: int, read: bool
) -> None:
    site = Site(tmp_path)
    kubelet = site.kubelet
    site.reader.present = asyncio.run(kubelet.attempt(OF))
    if read:
        kubelet.write()
        site.step()
    kubelet.write()
    for _ in range(unheard):
        kubelet.end()
        kubelet.clock += 2 * SECOND
        kubelet.restart()
        kubelet.write()
    kubelet.end()
    kubelet.forgets = True
    for kubelet.unheard in range(unheard, -1, -1):
        site.step()
    site.settle()
    stored = dict[int, bytes]()
    for path in site.files:
        number = int(path.name.partition(".")[0])
        stored[number] = stored.get(number, b"") + path.read_bytes()
    written = dict(enumerate(b"".join(one.written) for one in kubelet.attempts))
    begun = stored.pop(0, b"")
    assert stored == {number: data for number, data in written.items() if number}
    assert written[0].startswith(begun)
    assert unheard > 1 or (begun, site.gaps) == (written[0], [])


def test_attempts_that_nobody_can_read_any_more_are_a_gap(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for number in range(5):
        site.kubelet.write(b"attempt %d" % number)
        if number < 4:
            site.kubelet.restart()
    site.kubelet.end()
    site.settle()
    assert [one for one in (b"attempt 3", b"attempt 4", b"attempt 0") if one in site.stored] == [
        b"attempt 3",
        b"attempt 4",
    ]
    assert site.gaps == ["the container was restarted before the log of attempts 0 to 2 could be read"]


def test_a_pod_that_is_gone_with_unread_bytes_has_an_unseen_end(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kubelet.write()
    site.step()
    site.kubelet.write()
    site.kubelet.gone = True
    site.settle()
    assert site.endings() == {0: "unseen"}


def test_an_api_that_is_away_costs_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kubelet.write()
    site.step()
    site.kubelet.away = True
    for _ in range(3):
        site.kubelet.write()
        site.step()
    assert site.said == ["no answer"] * 3
    site.kubelet.away = False
    site.kubelet.end()
    site.settle()
    assert site.stored == b"".join(site.kubelet.now.written)
    assert site.endings() == {0: ""}


def test_what_the_kubelet_says_instead_of_a_log_is_no_line_of_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kubelet.write(b"seen")
    site.step()
    site.kubelet.now.removed = True
    site.kubelet.end()
    site.settle()
    assert site.stored == site.kubelet.now.written[0]
    assert site.endings() == {0: "unseen"}
    assert any("unable to retrieve" in one for one in site.said)


def test_an_answer_with_nothing_is_no_end(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kubelet.write(b"seen", later=4 * SECOND)
    site.step()
    site.kubelet.rotate()
    assert site.step() < IDLE
    site.kubelet.write(b"after")
    site.kubelet.end()
    site.settle()
    assert site.stored == b"".join(site.kubelet.now.written)
    assert (site.endings(), len(site.gaps)) == ({0: "unverified"}, 1)


def test_lines_after_a_clock_went_back_are_read(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for _ in range(3):
        site.kubelet.write()
    site.step()
    site.kubelet.clock -= 3600 * SECOND
    for _ in range(3):
        site.kubelet.write()
    site.step()
    site.kubelet.write()
    site.step()
    site.kubelet.end()
    site.settle()
    assert site.stored == b"".join(site.kubelet.now.written)
    assert site.gaps == []


def test_a_restart_during_the_first_read_puts_no_line_into_another_attempt(tmp_path: Path) -> None:
    site = Site(tmp_path)
    kubelet = site.kubelet
    kubelet.write(b"of 0")

    def restart() -> None:
        kubelet.restart()
        kubelet.write(b"of 1")

    kubelet.between = script(lambda: None, restart)
    for _ in range(6):
        site.step()
    kubelet.end()
    site.settle()
    assert [path.read_bytes() for path in site.files] == [b"".join(one.written) for one in kubelet.attempts]


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_no_line_comes_twice_and_a_complete_attempt_is_complete(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flarelog.sources.api.kept.SEGMENT", 700)
    chance = random.Random(seed)
    site = Site(tmp_path, piece=chance.choice([7, 40, 1000]))
    kubelet = site.kubelet
    calm = False

    def something() -> None:
        if calm:
            return
        for _ in range(chance.choice([0, 0, 1, 1, 4])):
            kubelet.write(
                chance.choice([b"", b"same", b"x" * 200]), later=chance.choice([0, 0, 1, SECOND // 3, SECOND])
            )
        what = chance.random()
        if what < 0.04:
            kubelet.rotate()
        elif what < 0.06:
            kubelet.restart()
        elif what < 0.08:
            kubelet.away = not kubelet.away
        elif what < 0.09:
            kubelet.end()

    kubelet.between, kubelet.rounds = something, 3
    for _ in range(30):
        site.step()
        if chance.random() < 0.2:
            site.kept.close()
            site.start()
    calm, kubelet.away = True, False
    kubelet.end()
    site.settle()
    written = {one.number: one.written for one in kubelet.attempts}
    for number, lines in written.items():
        files = [path for path in site.files if path.name.startswith(f"{number}.")]
        kept = b"".join(path.read_bytes() for path in files)
        ending = site.endings().get(number)
        if ending == "":
            assert kept == b"".join(lines)
        found = [line + b"\n" for stretch in stretches(site, files) for line in stretch.split(b"\n") if line]
        left = list(lines)
        for line in found:
            if line in left:
                left.remove(line)
            else:  # a connection was lost within a line, and there is a gap after its part
                assert any(re.match(re.escape(line[:-1]), one) for one in lines), (line, site.gaps)
                assert site.gaps or ending == "unseen"
        if left and kept and ending is not None:
            assert ending in ("unverified", "unseen")


def test_the_times_of_the_first_line_tell_whether_it_is_the_first(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kubelet.clock += 20 * SECOND
    site.kubelet.write()
    site.kubelet.end()
    site.settle()
    assert site.endings() == {0: "unverified"}, "an earlier file may have been rotated away"


def test_a_log_that_begins_with_a_burst_may_have_lost_its_beginning(tmp_path: Path) -> None:
    site = Site(tmp_path, piece=1 << 20)
    for _ in range(300):
        site.kubelet.write(b"x" * 1000, later=SECOND // 1000)
    site.kubelet.end()
    site.settle()
    assert site.endings() == {0: "unverified"}


def test_a_full_directory_stops_reading_before_lines_are_lost_without_a_sign(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kubelet.write()
    site.step()
    site.reader._room = lambda: False
    with pytest.raises(reading.Full):
        asyncio.run(site.reader.step())
