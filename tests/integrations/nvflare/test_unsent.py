"""Jobs whose logs may be incomplete at the server are sent until they are whole, whatever goes wrong in between."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from flarelog.errors import TimedOut
from flarelog.exit_marks import Exit
from flarelog.integrations.nvflare.held import Held
from flarelog.integrations.nvflare.unsent import FIRST, KEPT, LONGEST, STILL, Sizes, Unsent

JOB = "job-1"
KILLED = Exit(0, 0, "f0", signal=9, oom="none")


class Site:
    """A job's files, and a server that accepts them or not."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.size: int | None = 10  # bytes of its log; None: the job's directory is gone
        self.answers: list[bool | Exception] = []  # of the server, one an attempt; True when the list is empty
        self.trouble: Exception | None = None  # raised by the look at the job
        self.sent: list[int | None] = []
        self.exits: list[Exit | None] = []  # how the job's process ended, one an attempt
        self.unsent = Unsent(str(directory), self.look, self.send)

    def look(self, job: str) -> Sizes | None:
        if self.trouble is not None:
            raise self.trouble
        return None if self.size is None else {"log.txt": (1, 2, self.size)}

    def send(self, job: str, how: Exit | None) -> bool:
        self.exits.append(how)
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, Exception):
            raise answer
        if answer:
            self.sent.append(self.size)
        return answer

    def left(self) -> list[str]:
        return os.listdir(self.directory)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site with a job that an earlier process recorded."""
    site = Site(tmp_path / "unsent")
    Unsent(str(site.directory), site.look, site.send).begins(JOB)
    return site


def test_what_an_earlier_process_left_is_sent_until_it_is_still(site: Site) -> None:
    site.unsent.attend(100.0)
    site.size = 20  # the job's process outlives its parent
    for now in (102.0, 100.0 + FIRST, 110.0, 104.0 + STILL):
        site.unsent.attend(now)
    assert site.sent == [10, 20]
    assert site.left() == [JOB]
    site.unsent.attend(100.0 + FIRST + STILL + FIRST)
    assert site.left() == []


def test_a_server_that_does_not_take_it_is_asked_again_after_ever_longer_pauses(site: Site) -> None:
    site.answers = [False, TimedOut("it did not end"), False]
    asked = []
    for now in range(60):
        before = len(site.answers)
        site.unsent.attend(100.0 + now)
        if len(site.answers) < before or site.sent:
            asked.append(now)
        if site.sent:
            break
    assert asked == [0, 5, 15, 35]
    assert site.left() == [JOB]


@pytest.mark.parametrize(
    "trouble", [PermissionError(13, "Permission denied"), RuntimeError("of NVFlare's own")], ids=str
)
def test_trouble_with_one_job_holds_no_other_and_is_tried_again(
    site: Site, trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    site.trouble = trouble
    site.unsent.attend(100.0)
    assert [record.getMessage() for record in caplog.records] == [
        f"job {JOB}: the rest of its logs was not sent: {trouble}"
    ]
    site.trouble = None
    site.unsent.attend(100.0 + LONGEST)
    assert site.sent == [10]


def test_a_job_that_runs_is_left_to_its_own_producer_and_one_that_ended_whole_is_forgotten(site: Site) -> None:
    site.unsent.begins(JOB)
    site.unsent.attend(100.0)
    assert site.sent == []
    site.unsent.ends(JOB, whole=False)
    site.unsent.attend(101.0)
    assert site.sent == [10]
    site.unsent.begins("job-2")
    site.unsent.ends("job-2", whole=True)
    assert site.left() == [JOB]


def test_a_job_whose_directory_is_gone_and_one_that_nobody_takes_for_days_are_given_up(site: Site) -> None:
    site.unsent.begins("job-2")
    site.unsent.ends("job-2", whole=False)
    old = os.stat(site.directory / "job-2").st_mtime - KEPT - 60.0
    os.utime(site.directory / "job-2", (old, old))
    site.answers = [True, False]
    site.unsent.attend(100.0)
    assert site.left() == [JOB]
    site.size = None
    site.unsent.attend(100.0 + FIRST)
    assert site.left() == []


@pytest.mark.parametrize("restarted", [False, True])
def test_how_the_process_ended_is_sent_with_what_is_left(site: Site, restarted: bool) -> None:
    site.unsent.exited(JOB, KILLED)
    site.unsent.ends(JOB, whole=False)
    unsent = Unsent(str(site.directory), site.look, site.send) if restarted else site.unsent
    unsent.attend(100.0)
    assert site.exits == [KILLED]


def test_how_the_process_ended_is_written_down_once_the_disk_has_room(site: Site) -> None:
    record = site.directory / JOB
    record.unlink()
    record.mkdir()  # no file can be written here, for root neither
    site.unsent.exited(JOB, KILLED)
    record.rmdir()
    record.touch()
    site.answers = [False]
    site.unsent.attend(100.0)
    Unsent(str(site.directory), site.look, site.send).attend(100.0)
    assert site.exits == [KILLED, KILLED]


def test_a_job_that_could_not_be_recorded_is_sent_by_the_same_process(tmp_path: Path) -> None:
    """As on a full disk: here a file is in the directory's place."""
    (tmp_path / "unsent").touch()
    site = Site(tmp_path / "unsent")
    site.unsent.begins(JOB)
    site.unsent.exited(JOB, KILLED)
    site.unsent.ends(JOB, whole=False)
    for now in (100.0, 100.0 + FIRST, 100.0 + STILL + FIRST):
        site.unsent.attend(now)
    assert (site.sent, site.exits) == ([10], [KILLED])
    assert site.unsent._known() == []


# --- held files


def test_files_of_a_removed_directory_are_held_until_they_are_sent(tmp_path: Path) -> None:
    root, held = tmp_path / "job", Held(str(tmp_path / "held"))
    root.mkdir()
    for name in ("log.txt", "log.txt.1", "model.pt"):
        (root / name).write_text(name)
    held.begin(JOB)
    assert held.place(JOB) == ""
    held.hold(JOB, str(root), ("log.txt", "log.json"))
    held.hold(JOB, str(root), ("log.txt", "log.json"))
    shutil.rmtree(root)
    assert {path.name: path.read_text() for path in Path(held.place(JOB)).iterdir()} == {
        name: name for name in ("log.txt", "log.txt.1")
    }
    held.release(JOB)
    assert held.place(JOB) == ""
    assert os.listdir(tmp_path / "held") == []


def test_the_files_of_an_earlier_attempt_at_the_job_are_held_as_rotated_ones(tmp_path: Path) -> None:
    root, held = tmp_path / "job", Held(str(tmp_path / "held"))
    for attempt in ("first", "second"):
        root.mkdir()
        (root / "log.txt").write_text(attempt)
        held.hold(JOB, str(root), ("log.txt",))
        shutil.rmtree(root)
    assert {path.name: path.read_text() for path in Path(held.place(JOB)).iterdir()} == {
        "log.txt": "second",
        "log.txt.1": "first",
    }
