"""The files of the API's logs over the life of pods and agents: which are there, which go, and what is said of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flarelog.errors import InvalidOption, NotAllowed
from flarelog.kubernetes.attempts import Attempt
from flarelog.kubernetes.pods import Pod
from flarelog.model import Gap
from flarelog.sources.api import kept as keeping
from flarelog.sources.api.kept import Kept
from flarelog.sources.api.mirror import Mirror
from flarelog.sources.api.reader import Pace
from flarelog.sources.containers.finder import Containers
from flarelog.sources.containers.options import ContainerOptions
from flarelog.values import changed
from tests.sources.api.kubelet import Kubelet
from tests.sources.containers.node import Receiver
from tests.sources.files.tailing import NoWatch

HERE, THERE = "receiver-1", "receiver-2"
DIRECTORY = "default_pod_uid/main"


class Pods:
    version = 0
    listed = True

    def __init__(self) -> None:
        self.pods = [
            Pod("uid", "default", "pod", "node-1", {}, "", {}, states={"main": Attempt(0, "c://0", False, "")})
        ]

    def present(self) -> list[Pod]:
        return self.pods

    async def learn(self, within: float) -> None:
        if not self.listed:
            raise NotAllowed("no")


class Site:
    def __init__(self, tmp_path: Path) -> None:
        self.kubelet, self.pods, self.state = Kubelet(), Pods(), str(tmp_path)
        self.start()

    def start(self) -> None:
        """As a new process does."""
        self.mirror = Mirror(self.kubelet, self.pods, lambda directory: True, self.state, 2)
        self.mirror._look(keep=False)

    def stop(self) -> None:
        self.mirror.close()

    def step(self) -> None:
        asyncio.run(self.mirror._readers[DIRECTORY].step())

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in Path(self.mirror.root, DIRECTORY).glob("[0-9]*"))

    def store(self, *receivers: str) -> None:
        for name in self.files:
            for receiver in receivers:
                if not name.endswith(".log"):
                    self.mirror.stored(receiver, f"{DIRECTORY}/{name}")


def test_a_file_goes_once_all_receivers_have_it_but_for_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "SEGMENT", 100)
    site = Site(tmp_path)
    for _ in range(5):
        site.kubelet.write(b"x" * 100)
        site.step()
    before = site.files
    assert len(before) == 6
    site.store(HERE)
    assert site.files == before
    site.store(HERE, THERE)
    assert site.files == ["0.log", "0.log.00000000-000005"]


def test_what_was_stored_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "SEGMENT", 100)
    monkeypatch.setattr("flarelog.sources.api.mirror.ROOM", 300)
    site = Site(tmp_path)
    for number in range(5):
        site.mirror._measured = -10.0
        assert site.mirror._room() is (number < 3)
        site.kubelet.write(b"x" * 100)
        if number < 3:
            site.step()
    site.store(HERE, THERE)
    site.mirror._measured = -10.0
    assert site.mirror._room()


def test_a_pod_that_went_while_no_agent_ran_has_an_unseen_end_and_is_removed_once_it_is_stored(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.kubelet.write()
    site.step()
    site.stop()
    site.pods.pods = []
    site.start()
    assert site.files == ["0.log.00000000-000001"]
    assert site.mirror.ending(f"{DIRECTORY}/0.log.00000000-000001") == "unseen"
    assert site.mirror.notes(f"{DIRECTORY}/0.log.00000000-000001") == ("api",)
    site.store(HERE, THERE)
    site.mirror._look(keep=False)
    assert not [*Path(site.mirror.root).iterdir()]


@pytest.mark.parametrize("over", [False, True], ids=["it-could-restart", "it-had-ended"])
def test_attempts_that_came_and_went_while_no_agent_ran_leave_an_unseen_end(tmp_path: Path, over: bool) -> None:
    site = Site(tmp_path)
    site.kubelet.write()
    site.step()
    site.kubelet.end()
    site.mirror._readers[DIRECTORY]._pace = Pace(again=0.0)
    while site.mirror._readers[DIRECTORY].kept.attempt is not None:
        site.step()
    if over:
        site.pods.pods = [changed(site.pods.pods[0], states={"main": Attempt(0, "c://0", True, "")}, over=True)]
        site.mirror._look(keep=False)
    site.stop()
    site.pods.pods = []
    site.start()
    assert site.files == ["0.log.00000000-000001"] + ["1.log.00000000-000002"] * (not over)
    assert {site.mirror.ending(f"{DIRECTORY}/{name}") for name in site.files[1:]} <= {"unseen"}
    site.store(HERE, THERE)
    site.mirror._look(keep=False)
    assert not [*Path(site.mirror.root).iterdir()]


def test_two_agents_may_not_have_one_state(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with pytest.raises(InvalidOption, match="give each its own --state"):
        site.start()
    site.stop()
    site.start()


@pytest.mark.parametrize("killed", ["before the file has its last name", "before the next file is there"])
def test_a_process_that_is_killed_between_two_names_leaves_no_doubt(tmp_path: Path, killed: str) -> None:
    kept = Kept(tmp_path / "main", tmp_path)
    kept.begin(0)
    kept.append(b"line\n")
    if killed == "before the file has its last name":
        kept.end("unverified")
        (tmp_path / "main" / "0.log.00000000-000001").rename(tmp_path / "main" / "0.log")
        again = Kept(tmp_path / "main", tmp_path)
        assert (again.attempt, again.ended, again.ending("0.log.00000000-000001")) == (None, 0, "unverified")
        assert [path.name for path in (tmp_path / "main").glob("0*")] == ["0.log.00000000-000001"]
    else:
        kept.cut("lost")
        (tmp_path / "main" / "0.log").unlink()
        again = Kept(tmp_path / "main", tmp_path)
        assert (again.attempt, again.gap("0.log"), again.tail()) == (0, "lost", b"line\n")


@pytest.mark.parametrize("restarted", [False, True])
def test_an_attempt_that_was_read_whole_leaves_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    monkeypatch.setattr(keeping, "SEGMENT", 200)
    site, receiver = Site(tmp_path), Receiver()

    def found() -> Containers:
        wanted = ContainerOptions(site.mirror.root, "cri", copies=site.mirror)
        finder = Containers(wanted, watch=NoWatch())
        finder.learn(receiver.record(), 0.0)
        return finder

    finder = found()
    for number in range(4):
        for _ in range(10):
            site.kubelet.write()
            site.step()
        site.kubelet.restart()
        while site.mirror._readers[DIRECTORY].kept.ended < number:
            site.step()
        if number == 2:
            continue  # two attempts appear at once
        if restarted:
            finder.close()
            finder = found()
        receiver.take(finder, 100.0 * number)
    finder.close()
    (stored,) = receiver.logs.values()
    assert bytes(stored.data) == b"".join(b"".join(one.written) for one in site.kubelet.attempts)
    assert [mark for mark in stored.marks if isinstance(mark, Gap)] == []


def test_a_gap_says_all_that_is_missing_before_the_next_attempt_in_bounded_length(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "main", tmp_path)
    kept.miss("attempts 0 to 2")
    kept.miss("attempt 3")
    assert kept.gap("4.log") == "attempts 0 to 2; attempt 3"
    for number in range(4, 1000):
        kept.miss(f"attempt {number}")
    assert len(kept.gap("1000.log")) < 400
    assert kept.gap("1000.log").endswith("; and more")


class Sent:
    """A sender of all that there is."""

    async def run(self) -> int:
        return 0

    def drain(self) -> None:
        pass


@pytest.mark.parametrize(
    ("fault", "files", "codes"),
    [
        pytest.param("away", ["0.log"], [0, 4], id="no-answer"),
        pytest.param("gone", ["0.log.00000000-000001"], [0], id="pod-gone"),
        pytest.param("removed", ["0.log.00000000-000001"], [0], id="log-gone"),
    ],
)
def test_a_log_that_could_not_be_read_at_all_is_not_left_out(
    tmp_path: Path, fault: str, files: list[str], codes: list[int]
) -> None:
    site = Site(tmp_path)
    if fault == "removed":
        site.kubelet.end()
        site.kubelet.now.removed = True
    else:
        setattr(site.kubelet, fault, True)
    site.mirror._readers[DIRECTORY]._pace = Pace(again=0.0)
    assert asyncio.run(site.mirror.run([Sent()], once=True)) == codes
    assert site.files == files
    assert site.mirror.ending(f"{DIRECTORY}/{files[0]}") == ("" if fault == "away" else "unseen")


def test_an_agent_that_never_saw_the_list_of_pods_does_not_end_well(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.pods.listed = False
    with pytest.raises(NotAllowed):
        asyncio.run(site.mirror.run([Sent()], once=True))
    site.start()
    site.mirror.drain()
    assert asyncio.run(site.mirror.run([Sent()], once=False)) == [1]
