"""Sources that rotate, are truncated, repointed and removed faster than the sidecar looks, with real processes."""

from __future__ import annotations

import functools
import os
import random
import string
import time
from pathlib import Path

import pytest

from integration.harness.places import SITE, Place, Receiver, until


def held(receiver: Receiver) -> bytes:
    """All stored bytes, log by log."""
    logs = [path for path in receiver.store.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return b"".join(path.read_bytes() for path in sorted(logs))


def random_line(rng: random.Random, number: int) -> bytes:
    text = "".join(rng.choices(string.ascii_letters, k=46))
    return f"{text} {number:3d}\n".encode()


class Rotated:
    """A file that is rotated after so many lines, by rename or by copy and truncate."""

    def __init__(self, path: Path, limit: int, backups: int, *, copytruncate: bool, sequential: bool) -> None:
        self.path, self.limit, self.backups = path, limit, backups
        self.copytruncate, self.sequential = copytruncate, sequential
        self.count = self.rotations = 0
        self.file = open(path, "ab", buffering=0)  # noqa: SIM115  open until it is rotated

    def write(self, line: bytes) -> None:
        if self.count == self.limit:
            self.rotate()
        self.file.write(line)
        self.count += 1

    def rotate(self) -> None:
        self.count, self.rotations = 0, self.rotations + 1
        if self.sequential:
            for number in range(self.backups, 1, -1):
                older = self.path.with_name(f"{self.path.name}.{number - 1}")
                if older.exists():
                    os.replace(older, self.path.with_name(f"{self.path.name}.{number}"))
            target = self.path.with_name(f"{self.path.name}.1")
        else:
            target = self.path.with_name(f"{self.path.name}.2026-11-20T10-00-{self.rotations:02d}")
        if self.copytruncate:
            target.write_bytes(self.path.read_bytes())
            self.file.truncate(0)
        else:
            self.file.close()
            os.replace(self.path, target)
            self.file = open(self.path, "ab", buffering=0)  # noqa: SIM115  the same again
        backups = sorted(self.path.parent.glob(f"{self.path.name}.*"))
        for old in backups[: -self.backups] if not self.sequential else []:
            old.unlink()


@pytest.mark.parametrize(
    ("total", "limit", "sequential"),
    [
        pytest.param(20, 10, False, id="C172-time-stamped-names"),
        pytest.param(30, 10, False, id="C173-with-deletion", marks=pytest.mark.soak),
        pytest.param(300, 100, False, id="C174-larger-files", marks=pytest.mark.soak),
        pytest.param(20, 10, True, id="C176-numbered-names"),
        pytest.param(3000, 10, True, id="three-hundred-rotations", marks=pytest.mark.soak),
    ],
)
def test_rotation_by_renaming_loses_and_repeats_no_line(place: Place, total: int, limit: int, sequential: bool) -> None:
    receiver, rng = place.serve(), random.Random(total)
    sidecar = place.sidecar(receiver, "--include", "rotated.log*")
    sidecar.took_signals()
    # A file that is overwritten before a busy machine looks is lost for any reader, so some backups are kept.
    backups = 30 if total > 1000 else 1
    log = Rotated(place.directory / "site" / "rotated.log", limit, backups, copytruncate=False, sequential=sequential)
    log.write(first := random_line(rng, 0))
    until(lambda: held(receiver) == first, "it is sent live")
    lines = [first]
    for number in range(1, total):
        lines.append(random_line(rng, number))
        log.write(lines[-1])
        time.sleep(0.001)
        if backups > 1 and number % 100 == 0:  # a busy machine could not keep up with more renames
            until(lambda: len(held(receiver).splitlines()) > len(lines) - 150, "it is less than fifteen files behind")
    log.file.close()
    assert sidecar.stop() == 0, sidecar.talk()
    assert held(receiver).splitlines() == [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("total", "limit"),
    [pytest.param(30, 10, id="C181-with-rotation"), pytest.param(10, 10, id="C183-without", marks=pytest.mark.soak)],
)
def test_rotation_by_copying_repeats_nothing_and_says_what_it_loses(place: Place, total: int, limit: int) -> None:
    receiver, rng = place.serve(), random.Random(total)
    sidecar = place.sidecar(receiver, "--include", "rotated.log")
    log = Rotated(place.directory / "site" / "rotated.log", limit, 1, copytruncate=True, sequential=False)
    lines = [random_line(rng, number) for number in range(total)]
    log.write(lines[0])
    until(lambda: held(receiver) == lines[0], "it is sent live")
    for line in lines[1:]:
        log.write(line)
        time.sleep(0.001)
    log.file.close()
    code = sidecar.stop()
    got, written = held(receiver).splitlines(), [line.rstrip() for line in lines]
    assert len(set(got)) == len(got)
    assert [line for line in written if line in got] == got
    # Bytes that were written and truncated between two looks are unknown, but the truncation is reported.
    ended = [g["ended"] for g in receiver.streams()[f"{SITE}/rotated.log"]["generations"]]
    assert ended[:-1] == ["truncated"] * (len(ended) - 1)
    assert code in ((0,) if got == written else (0, 6)), sidecar.talk()
    assert got == written or len(ended) > 1


def test_c187_several_files_that_rotate_at_the_same_time(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--include", "*.log*")
    logs = [Rotated(place.directory / "site" / f"{n}.log", 3, 5, copytruncate=False, sequential=True) for n in range(3)]
    expected: dict[str, list[bytes]] = {}
    for log in logs:
        log.write(b"begin\n")
    until(lambda: held(receiver) == b"begin\n" * 3, "all are sent live")
    for rotation in range(3):
        for number, log in enumerate(logs):
            for message in range(3):
                line = b"file %d-%d, message %d\n" % (number, rotation, message)
                expected.setdefault(f"{number}.log", [b"begin\n"]).append(line)
                log.write(line)
    for log in logs:
        log.file.close()
    assert sidecar.stop() == 0, sidecar.talk()
    stored = {path.name: path.read_bytes() for path in receiver.store.rglob("*.log") if path.is_file()}
    assert stored == {name: b"".join(lines) for name, lines in expected.items()}


def test_c188_a_link_that_is_repointed_all_the_time(place: Place) -> None:
    receiver = place.serve()
    root, targets = place.directory / "site", place.directory / "targets"
    root.mkdir(exist_ok=True)
    targets.mkdir()
    sidecar = place.sidecar(receiver, "--include", "link.log")
    lines = []
    for target in range(30):
        path = targets / f"{target}.txt"
        with open(path, "wb") as file:
            for number in range(100):
                lines.append(b"target %d line %d\n" % (target, number))
                file.write(lines[-1])
        os.symlink(path, root / "new")
        os.replace(root / "new", root / "link.log")
        if target == 0:
            until(lambda: held(receiver) == b"".join(lines), "it is sent live")
        until(functools.partial(sidecar.has_open, path), "the target is seen, and not yet read perhaps")
    assert sidecar.stop() == 0, sidecar.talk()
    assert held(receiver) == b"".join(lines)


def test_c226_fifty_one_truncations(place: Place) -> None:
    receiver = place.serve()
    log = place.directory / "site" / "log.txt"
    log.parent.mkdir(exist_ok=True)
    sidecar = place.sidecar(receiver)
    number, everything = 0, bytearray()

    def is_stored() -> bool:
        return held(receiver) == bytes(everything)

    for count in [1000, *(50 * n for n in range(51))]:
        lines = b"".join(b"msgnum:%08d:\n" % (number + n) for n in range(count))
        number += count
        with open(log, "r+b" if log.exists() else "wb") as file:  # keeps the inode
            file.truncate(0)
            file.write(lines)
        everything += lines
        until(is_stored, "the round is stored")
    assert number == 64_750
    assert sidecar.stop() == 0, sidecar.talk()


def test_c228_a_small_file_that_grows_with_a_restart_at_each_step(place: Place) -> None:
    receiver = place.serve()
    log = place.directory / "site" / "log.txt"
    log.parent.mkdir(exist_ok=True)
    state, number = place.directory / "state", 0
    for count in (1, 1, 998, 1000):
        with open(log, "ab") as file:
            file.write(b"".join(b"msgnum:%08d:\n" % (number + n) for n in range(count)))
        number += count
        assert place.sidecar(receiver, "--once", "--state", str(state)).ends() == 0
    assert held(receiver) == b"".join(b"msgnum:%08d:\n" % n for n in range(2000))
    assert len(list(state.iterdir())) == 1


def test_c229_the_descriptor_of_a_deleted_file_is_let_go(place: Place) -> None:
    receiver = place.serve()
    log = place.directory / "site" / "log.txt"
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(lines := b"".join(b"line %d\n" % n for n in range(100)))
    sidecar = place.sidecar(receiver)
    until(lambda: held(receiver) == lines, "it is stored")
    log.unlink()
    deleted = Path(f"{log} (deleted)")
    until(lambda: not sidecar.has_open(log) and not sidecar.has_open(deleted), "it is let go", 20.0)
    assert sidecar.stop() == 0
