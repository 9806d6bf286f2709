"""File identity with real processes: reused inode numbers, links, files that leave the patterns, copies, holes,
editors, and a file system without file handles.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flarelog.sources.files.identity import witness
from flarelog.sources.files.record import GRAIN
from integration.harness.places import LOG, Place, Program, Receiver, append, lines, until
from tests.often import table

ONE, TWO, THREE, FOUR = (lines(40, 40 * n) for n in range(4))


def let_go(sidecar: Program, path: Path) -> None:
    """Wait until *sidecar* has closed *path*, under all its names."""
    names = (path, Path(f"{path} (deleted)"))
    until(lambda: not any(sidecar.has_open(name) for name in names), f"{path} is let go")


def recreate(path: Path, data: bytes, kept: Path) -> None:
    """Delete *kept* and create a file at *path* with its inode number.

    ext4 reuses a number at once, in the same directory first; tmpfs never does.
    """
    number, spares = kept.stat().st_ino, []
    kept.unlink()
    for n in range(2000):
        spares.append(spare := path.with_name(f".spare-{n}"))
        spare.write_bytes(data)
        if spare.stat().st_ino == number:
            os.rename(spares.pop(), path)
            break
    for spare in spares:
        spare.unlink()
    if not path.exists():
        pytest.skip("this file system uses no inode number again; let TMPDIR be a directory on ext4")


class Site:
    """A sidecar that can be stopped and restarted, for the tests' tables."""

    def __init__(self, place: Place, *options: str) -> None:
        self.place, self.options = place, (*options, "--state", str(place.directory / "state"))
        self.receiver: Receiver = place.serve()
        self.start()

    def start(self) -> None:
        self.sidecar = self.place.sidecar(self.receiver, *self.options)
        self.sidecar.heeds_signals()

    def stop(self, code: int = 0) -> None:
        assert self.sidecar.stop() == code, self.sidecar.talk()

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop the sidecar inside the block, so that it sees several system calls as one change."""
        state = Path(f"/proc/{self.sidecar.process.pid}/stat")
        self.sidecar.tell(signal.SIGSTOP)
        until(lambda: not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "TZ", "it stands still")
        try:
            yield
        finally:
            self.sidecar.tell(signal.SIGCONT)

    def logs(self) -> list[str]:
        stored = self.receiver.file("").rglob("*")
        return sorted(path.name for path in stored if path.is_file() and not path.name.startswith("."))


@pytest.fixture
def site(place: Place) -> Callable[..., Site]:
    return lambda *options: Site(place, *options)


# --- a reused inode number


@pytest.mark.parametrize(
    ("down", "data"),
    table(
        [pytest.param(False, id="while-it-runs"), pytest.param(True, id="while-it-is-down")],
        [pytest.param(TWO, id="other-bytes"), pytest.param(ONE, id="the-same-bytes")],
    ),
)
def test_an_inode_number_that_is_used_again_is_another_file(
    place: Place, site: Callable[..., Site], data: bytes, down: bool
) -> None:
    append(place.log, ONE)
    kept = place.root / ".kept"  # holds the inode until recreate wants its number: others create files as well
    os.link(place.log, kept)
    it = site("--include", LOG)
    it.receiver.gets(ONE)
    if down:
        it.stop()
    place.log.unlink()
    if not down:
        let_go(it.sidecar, place.log)
    recreate(place.log, data, kept)
    if down:
        it.start()
    it.receiver.gets(ONE + data)
    it.stop(6 if down else 0)  # nobody saw the end of the deleted file
    record = it.receiver.holds(ONE + data)
    assert [(part["length"], part["path"]) for part in record["generations"]] == [(len(ONE), LOG), (len(data), LOG)]
    assert record["gaps"] == []


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system without file handles."""
    for name in ("lower", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    where = ",".join(f"{name}dir={tmp_path / name}" for name in ("lower", "upper", "work"))
    merged = tmp_path / "merged"
    mounted = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", where, str(merged)], check=False)
    if mounted.returncode:
        pytest.skip("needs an overlay file system: run it as root, with a TMPDIR that is on none")
    try:
        yield merged
    finally:
        subprocess.run(["umount", "-l", str(merged)], check=True)


@pytest.mark.parametrize(
    "down", [pytest.param(False, id="while-it-runs", marks=pytest.mark.soak), pytest.param(True, id="while-it-is-down")]
)
def test_without_file_handles_the_birth_time_tells_and_streams_says_so(place: Place, overlay: Path, down: bool) -> None:
    log, receiver = overlay / LOG, place.serve()
    append(log, ONE)
    kept = overlay / ".kept"
    os.link(log, kept)
    sidecar = place.sidecar(receiver, "--include", LOG, root=overlay)
    receiver.gets(ONE)
    if down:
        assert sidecar.stop() == 0
    log.unlink()
    if not down:
        let_go(sidecar, log)
    recreate(log, ONE, kept)
    if down:
        sidecar = place.sidecar(receiver, "--include", LOG, root=overlay)
    receiver.gets(ONE + ONE)
    assert sidecar.stop() == (6 if down else 0)
    record = receiver.holds(ONE + ONE)
    if not all(witness(part["identity"]).startswith("born-") for part in record["generations"]):
        pytest.skip("this overlay has file handles; mount it without nfs_export")
    assert [note for note in record["notes"] if not note.startswith("born:")] == ["no-handle"]
    assert [part["notes"][0] for part in record["generations"]] == ["no-handle"] * 2
    shown = place.call("streams", "--store", str(receiver.store))
    assert "no file handles" in shown.said
    assert "NOTE" not in shown.printed


# --- links


def test_two_names_of_one_file_are_one_log(place: Place, site: Callable[..., Site]) -> None:
    append(place.log, ONE)
    os.link(place.log, place.root / "other.log")
    it = site()
    it.receiver.gets(ONE)
    append(place.root / "other.log", TWO)
    it.receiver.gets(ONE + TWO)
    place.log.unlink()
    append(place.root / "other.log", THREE)
    it.receiver.gets(ONE + TWO + THREE)
    it.stop()
    assert it.logs() == [LOG]


@pytest.mark.parametrize(
    ("targets", "logs", "kept"),
    table(
        [
            pytest.param("site", {"run-1.log": ONE + THREE, "run-2.log": TWO + FOUR}, id="each-under-its-own-name"),
            pytest.param("elsewhere", {"current.log": None}, id="both-under-the-links-where-the-files-are-not-sent"),
        ],
        [pytest.param(True, id="file-kept-open"), pytest.param(False, id="opened-each-time")],
    ),
)
def test_a_link_is_repointed_and_both_targets_go_on_growing(
    place: Place, site: Callable[..., Site], targets: str, logs: dict[str, bytes | None], kept: bool
) -> None:
    where = place.directory / targets
    where.mkdir(exist_ok=True)
    first, second, link = where / "run-1.log", where / "run-2.log", place.root / "current.log"
    append(first, ONE)
    link.symlink_to(first)
    it = site("--include", "*.log")
    held = "current.log" if None in logs.values() else "run-1.log"
    it.receiver.gets(ONE, held)
    with open(first, "ab", buffering=0) as writer:
        if not kept:
            writer.close()
        append(second, TWO)
        (place.root / "next").symlink_to(second)
        os.replace(place.root / "next", link)
        until(lambda: TWO in b"".join(it.receiver.stored(log) for log in ("current.log", "run-2.log")), "TWO comes")
        if kept:
            writer.write(THREE)
        else:
            if targets == "elsewhere":
                let_go(it.sidecar, first)
            append(first, THREE)
        append(second, FOUR)
        until(lambda: bytes_of(it, logs) == len(ONE + TWO + THREE + FOUR), "all of both comes")
    it.stop()
    assert it.logs() == sorted(logs)
    for log, data in logs.items():
        stored = it.receiver.stored(log)
        if data is not None:
            assert stored == data
        else:  # each once, in the order of the writes as far as the sidecar saw it
            assert stored.startswith(ONE + TWO)
            assert stored[len(ONE + TWO) :] in (THREE + FOUR, FOUR + THREE)


def test_a_link_that_ln_leads_elsewhere_again_and_again_is_one_log(place: Place, site: Callable[..., Site]) -> None:
    """``ln -sf`` creates the link under another name and renames it: the sidecar may see either."""
    it, data = site(), b""
    (place.directory / "out").mkdir()
    for number in range(12):
        target = place.directory / "out" / f"{number}.log"
        data += append(target, lines(1, number))
        subprocess.run(("ln", "-sfn", f"../out/{number}.log", place.root / "latest.log"), check=True)
        it.receiver.gets(data, "latest.log")
        data += append(target, lines(1, 100 + number))
        it.receiver.gets(data, "latest.log")
    it.stop()
    assert it.logs() == ["latest.log"]


def bytes_of(it: Site, logs: dict[str, Any]) -> int:
    return sum(len(it.receiver.stored(log)) for log in logs)


# --- equal, tiny and empty files


def test_equal_tiny_and_empty_files_are_files_of_their_own(place: Place, site: Callable[..., Site]) -> None:
    it = site()
    wanted = {"a.log": ONE, "b.log": ONE, "tiny-1": b"x", "tiny-2": b"x", "empty-1": b"", "empty-2": b""}
    for name, data in wanted.items():
        (place.root / name).write_bytes(data)
    until(lambda: bytes_of(it, wanted) == 2 * len(ONE) + 2, "all are stored")
    append(place.root / "b.log", TWO)
    it.receiver.gets(ONE + TWO, "b.log")
    it.stop()
    assert it.logs() == sorted(wanted)
    assert {name: it.receiver.stored(name) for name in wanted} == wanted | {"b.log": ONE + TWO}


# --- rotated out of the patterns


def rotate(log: Path, count: int) -> None:
    """Rename app.log to app.log.1, app.log.1 to app.log.2, and so on."""
    for number in range(count, -1, -1):
        old = log.with_name(f"{log.name}.{number}") if number else log
        if old.exists():
            os.rename(old, log.with_name(f"{log.name}.{number + 1}"))


def test_files_that_are_rotated_out_of_the_patterns_faster_than_anyone_looks(
    place: Place, site: Callable[..., Site]
) -> None:
    it = site("--include", LOG)
    append(place.log, ONE)
    it.receiver.gets(ONE)
    for number, data in enumerate((TWO, THREE, FOUR)):
        rotate(place.log, number)
        append(place.log, data)
    it.receiver.gets(ONE + TWO + THREE + FOUR)
    it.stop()
    assert it.logs() == [LOG]


def test_late_bytes_of_a_file_that_was_rotated_out_of_the_patterns(place: Place, site: Callable[..., Site]) -> None:
    append(place.log, ONE)
    it = site("--include", LOG)
    it.receiver.gets(ONE)
    rotate(place.log, 0)
    append(place.log, THREE)
    it.receiver.gets(ONE + THREE)
    let_go(it.sidecar, place.root / f"{LOG}.1")
    append(place.root / f"{LOG}.1", TWO)
    it.receiver.gets(ONE + THREE + TWO)
    it.stop()
    parts = it.receiver.holds(ONE + THREE + TWO)["generations"]
    assert parts[0]["identity"] == parts[2]["identity"] != parts[1]["identity"]
    assert parts[2]["source_offset"] == len(ONE)


@pytest.mark.parametrize(
    ("include", "rotations"),
    [
        pytest.param(LOG, 2, id="two-out-of-the-patterns", marks=pytest.mark.soak),
        pytest.param(LOG, 4, id="four-out-of-the-patterns"),
        pytest.param(f"{LOG}*", 2, id="two-within-the-patterns"),
    ],
)
def test_rotations_while_it_was_down(place: Place, site: Callable[..., Site], include: str, rotations: int) -> None:
    if include == LOG:
        append(place.root / f"{LOG}.77", b"older than anything that was sent\n")
        time.sleep(2 * GRAIN / 1e9)  # a file that is younger was perhaps rotated while the sidecar started
    append(place.log, ONE)
    it = site("--include", include)
    it.receiver.gets(ONE)
    it.stop()
    wanted = ONE + append(place.log, b"its unread tail\n")
    for number in range(rotations):
        rotate(place.log, number)
        wanted += append(place.log, lines(40, 1000 * number))
    it.start()
    it.receiver.gets(wanted)
    it.stop()
    record = it.receiver.holds(wanted)
    assert len(record["generations"]) >= rotations + 1
    assert {part["path"] for part in record["generations"]} == {LOG}
    assert it.logs() == [LOG]


# --- compressed copies


@pytest.mark.parametrize(
    ("down", "kept"),
    [
        pytest.param(False, True, id="while-it-runs"),
        pytest.param(True, True, id="while-it-is-down", marks=pytest.mark.soak),
        pytest.param(True, False, id="while-it-is-down-and-the-source-deleted"),
    ],
)
def test_a_compressed_copy_is_not_sent_and_what_is_none_is(
    place: Place, site: Callable[..., Site], down: bool, kept: bool
) -> None:
    append(place.log, ONE)
    it = site("--include", f"{LOG}*")
    it.receiver.gets(ONE)
    if down:
        it.stop()
    rotate(place.log, 0)
    append(place.log, TWO)
    old = place.root / f"{LOG}.1"
    (place.root / f"{LOG}.1.gz").write_bytes(gzip.compress(old.read_bytes()))
    if not kept:
        old.unlink()
    foreign = {
        f"{LOG}.foreign.gz": gzip.compress(THREE),
        f"{LOG}.both.gz": gzip.compress(THREE) + gzip.compress(ONE),  # it ends as a copy does
    }
    for name, data in foreign.items():
        (place.root / name).write_bytes(data)
    if down:
        it.start()
    it.receiver.gets(ONE + TWO)
    for name, data in foreign.items():
        it.receiver.gets(data, name)
    it.stop()
    assert it.logs() == sorted([LOG, *foreign])


@pytest.mark.parametrize(
    ("killed", "copytruncate"), table({"killed": True, "stopped": False}, {"copytruncate": True, "rename": False})
)
def test_what_only_a_compressed_copy_has_of_a_generation_is_a_gap(
    place: Place, site: Callable[..., Site], killed: bool, copytruncate: bool
) -> None:
    append(place.log, ONE)
    it = site("--include", f"{LOG}*")
    it.receiver.gets(ONE)
    it.sidecar.kill() if killed else it.stop()
    append(place.log, TWO)
    old = place.root / f"{LOG}.1"
    if copytruncate:
        shutil.copy2(place.log, old)
        os.truncate(place.log, 0)
    else:
        os.rename(place.log, old)
    subprocess.run(["gzip", str(old)], check=True)
    append(place.log, THREE)
    for _ in range(2):
        it.start()
        it.receiver.gets(ONE + THREE)
        it.stop(code=6)
        (gap,) = it.receiver.holds(ONE + THREE)["gaps"]
        assert (gap["offset"], gap["length"], f"{LOG}.1.gz" in gap["reason"]) == (len(ONE), len(TWO), True)
        assert it.logs() == [LOG]


# --- copied and truncated


@pytest.mark.parametrize(
    ("anew", "copy_sent", "down"),
    [
        pytest.param(TWO[:100], True, False, id="seen-by-its-size-while-it-runs", marks=pytest.mark.soak),
        pytest.param(TWO + THREE, False, False, id="seen-by-its-bytes-while-it-runs-and-the-copy-not-sent"),
        pytest.param(TWO[:100], False, True, id="seen-by-its-size-while-it-is-down-and-the-copy-not-sent"),
        pytest.param(TWO + THREE, True, True, id="seen-by-its-bytes-while-it-is-down", marks=pytest.mark.soak),
    ],
)
def test_a_file_that_is_copied_and_truncated(
    place: Place, site: Callable[..., Site], anew: bytes, copy_sent: bool, down: bool
) -> None:
    append(place.log, ONE)
    it = site("--include", f"{LOG}*" if copy_sent else LOG)
    it.receiver.gets(ONE)
    if down:
        it.stop()
    shutil.copyfile(place.log, place.root / f"{LOG}.1")
    with open(place.log, "r+b", buffering=0) as file:
        file.truncate(0)
        file.write(anew)
    if down:
        it.start()
    it.receiver.gets(ONE + anew)
    if copy_sent:
        it.receiver.gets(ONE, f"{LOG}.1")
    it.stop()
    record = it.receiver.holds(ONE + anew)
    assert {part["ended"] for part in record["generations"][:-1]} == {"truncated"}
    assert it.logs() == ([LOG, f"{LOG}.1"] if copy_sent else [LOG])


@pytest.mark.parametrize(
    "size", [pytest.param(36, id="within-a-page", marks=pytest.mark.soak), pytest.param(1_000_000, id="many-pages")]
)
def test_a_truncation_under_a_writer_that_goes_on_at_its_offset_leaves_nuls_and_a_note(
    place: Place, site: Callable[..., Site], size: int
) -> None:
    before = (ONE * (size // len(ONE) + 1))[:size]
    it = site("--include", LOG)
    with open(place.log, "wb", buffering=0) as writer:
        writer.write(before)
        it.receiver.gets(before)
        os.truncate(place.log, 0)
        writer.write(TWO)
        it.receiver.gets(before + bytes(size) + TWO)
    it.stop()
    record = it.receiver.holds(before + bytes(size) + TWO)
    notes = [note for part in record["generations"] for note in part["notes"] if note.startswith("hole:")]
    assert notes == [f"hole:{size}"]
    assert record["gaps"] == []
    assert "the file has a hole" in place.call("streams", "--store", str(it.receiver.store)).said


def test_a_hole_of_a_terabyte_is_a_gap_and_not_a_terabyte_of_nuls(place: Place, site: Callable[..., Site]) -> None:
    append(place.log, ONE)
    it = site("--include", LOG)
    it.receiver.gets(ONE)
    os.truncate(place.log, 1 << 40)
    append(place.log, TWO)
    it.receiver.gets(ONE + TWO)
    it.stop(code=6)
    it.start()
    append(place.log, THREE)
    it.receiver.gets(ONE + TWO + THREE)
    it.stop(code=6)
    record = it.receiver.holds(ONE + TWO + THREE)
    (gap,) = record["gaps"]
    assert (gap["offset"], "hole" in gap["reason"]) == (len(ONE), True)
    assert gap["length"] <= (1 << 40) - len(ONE)
    assert record["generations"][-1]["source_offset"] <= 1 << 40


# --- editors


@pytest.mark.parametrize(
    ("down", "in_place"),
    table(
        [pytest.param(False, id="while-it-runs"), pytest.param(True, id="while-it-is-down")],
        [pytest.param(True, id="rewritten-in-place"), pytest.param(False, id="written-anew-and-renamed")],
    ),
)
def test_a_line_that_an_editor_removes_leaves_the_old_bytes_stored_and_sends_the_new(
    place: Place, site: Callable[..., Site], in_place: bool, down: bool
) -> None:
    rows = ONE.splitlines(keepends=True)
    edited = b"".join(rows[:5] + rows[6:])
    append(place.log, ONE)
    it = site("--include", LOG)
    it.receiver.gets(ONE)
    if down:
        it.stop()
    if in_place:
        with it.standing_still(), open(place.log, "r+b") as file:
            file.write(edited)
            file.truncate()
    else:
        (place.root / ".app.log.new").write_bytes(edited)
        os.replace(place.root / ".app.log.new", place.log)
    if down:
        it.start()
    it.receiver.gets(ONE + edited)
    append(place.log, TWO)
    it.receiver.gets(ONE + edited + TWO)
    it.stop(6 if down and not in_place else 0)  # nobody saw the end of the file that was replaced
    assert it.receiver.holds(ONE + edited + TWO)["gaps"] == []
