"""A present end with the oldest one that it supports, in both directions, and after an upgrade of the receiver.

The older end is this repository's at BEFORE, the first with version 1.1 of the protocol; a clone without that commit
skips the tests.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from zlib import crc32

import pytest

from integration.harness.places import FLARELOG, RUN, SITE, Place, Receiver, append, noise, unprivileged

PROJECT = Path(__file__).resolve().parent.parent
BEFORE = "29c5fa6baf95226570df579fc32e929c0a254845"
LOGS = 60


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The command of the older flarelog."""
    command = ("git", "-C", str(PROJECT), "archive", BEFORE, "flarelog")
    packed = subprocess.run(command, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"this clone does not have {BEFORE}: git fetch --unshallow")
    tree = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tree)!r}); import flarelog.cli as c; c.main()"


def holds(receiver: Receiver, written: dict[str, bytes]) -> None:
    """Assert that all of *written* is stored, byte for byte, and sealed."""
    record = receiver.streams()
    for log, data in written.items():
        assert receiver.stored(log) == data, log
        said = record[f"{SITE}/{log}"]
        assert (said["committed"], said["digest"], said["sealed"]) == (len(data), f"crc32:{crc32(data):08x}", True)


def filled(place: Place) -> dict[str, bytes]:
    """Logs of one line, and of more than one chunk."""
    sizes = [(200_000 if n % 10 == 0 else 3_000_000 if n % 25 == 1 else 100) for n in range(LOGS)]
    return {f"{n}.log": append(place.root / f"{n}.log", noise(size, n + 1)) for n, size in enumerate(sizes)}


def test_an_older_sidecar_sends_to_a_receiver_of_today(place: Place, older: tuple[str, ...]) -> None:
    written, receiver = filled(place), place.serve()
    sidecar = place.sidecar(receiver, "--once", plain=older)
    assert sidecar.ends(120) == 0, sidecar.talk()
    holds(receiver, written)


@pytest.mark.parametrize("durability", ["disk", pytest.param("memory", marks=pytest.mark.soak)])
def test_a_sidecar_of_today_sends_to_an_older_receiver(place: Place, older: tuple[str, ...], durability: str) -> None:
    written, receiver = filled(place), place.serve("--durability", durability, plain=older)
    sidecar = place.sidecar(receiver, "--once")
    assert sidecar.ends(120) == 0, sidecar.talk()
    holds(receiver, written)


def unreadable(place: Place) -> tuple[str, ...]:
    """A log that the site cannot read, beside one that it can, and a command's beginning that makes root obey modes."""
    append(place.root / "closed.log", b"closed\n")
    (place.root / "closed.log").chmod(0)
    append(place.root / "open.log", b"open\n")
    return tuple(unprivileged(True))


def test_an_older_sidecar_that_cannot_read_a_log_sends_the_others(place: Place, older: tuple[str, ...]) -> None:
    plain, receiver = unreadable(place), place.serve()
    assert place.sidecar(receiver, "--once", plain=(*plain, *older)).ends(60) == 1
    assert [*receiver.streams()] == [f"{SITE}/open.log"]


def test_the_news_of_an_older_sidecar_without_a_log_make_no_log(place: Place, older: tuple[str, ...]) -> None:
    append(place.root / "a b.log", b"a name that an older version does not send\n")
    receiver = place.serve()
    assert place.sidecar(receiver, "--once", plain=older).ends(60) == 1
    assert place.call("streams", RUN, "--receiver", receiver.address).ends() == 3  # no such run


def test_an_older_receiver_and_its_readers_take_the_mark_of_a_log_that_cannot_be_read(
    place: Place, older: tuple[str, ...]
) -> None:
    plain, receiver = unreadable(place), place.serve(plain=older)
    sidecar = place.sidecar(receiver, plain=(*plain, *FLARELOG))
    receiver.gets(b"open\n", "open.log")
    (place.root / "open.log").rename(place.root / "open.log.1")
    (place.root / "open.log").touch(mode=0)
    append(place.root / "open.log", b"more\n")
    sidecar.says(f"{place.root / 'open.log'} cannot be read")
    (place.root / "open.log").chmod(0o644)
    receiver.gets(b"open\nmore\n", "open.log")
    assert sidecar.stop(60) == 1, sidecar.talk()
    assert (receiver.stored("closed.log"), receiver.stored("open.log")) == (b"", b"open\nmore\n")
    receiver.stop()
    (place.root / "closed.log").chmod(0o644)
    assert place.sidecar(receiver.again(), "--once").ends(60) == 0
    assert receiver.stored("closed.log") == b"closed\n"


def test_an_older_reader_lists_a_log_that_cannot_be_read(place: Place, older: tuple[str, ...]) -> None:
    plain, receiver = unreadable(place), place.serve()
    assert place.sidecar(receiver, "--once", plain=(*plain, *FLARELOG)).ends(60) == 1
    shown = place.call("streams", RUN, "--receiver", receiver.address, "--json", plain=older)
    assert shown.ends() in (0, 6, 7), shown.talk()
    assert [(one["log"], one["committed"]) for one in shown.records()] == [("closed.log", 0), ("open.log", 5)]


@pytest.mark.soak
def test_a_receiver_may_be_older_and_newer_again_while_a_sidecar_sends(place: Place, older: tuple[str, ...]) -> None:
    written, receiver = filled(place), place.serve()
    sidecar = place.sidecar(receiver)
    for plain in (older, (), older, ()):
        for log, data in written.items():
            receiver.gets(data, log)
        receiver.stop()
        address = receiver.address
        receiver = place.serve(listen=address, store=receiver.store, plain=plain) if plain else receiver.again()
        for number, log in enumerate(written):
            written[log] += append(place.root / log, noise(1000, number + 7))
    assert sidecar.stop(120) == 0, sidecar.talk()
    holds(receiver, written)


def test_an_older_receiver_refuses_a_log_with_an_encoded_name_and_takes_the_others(
    place: Place, older: tuple[str, ...]
) -> None:
    receiver = place.serve(plain=older)
    named = place.root / "a b.log"
    data = append(named, b"a log\n")
    other = append(place.root / "other.log", b"another log\n")
    sidecar = place.sidecar(receiver, "--once")
    assert sidecar.ends() == 5
    assert "a b.log" in sidecar.sentence()
    holds(receiver, {"other.log": other})
    named.rename(place.root / "a.log")
    assert place.sidecar(receiver, "--once").ends() == 0
    holds(receiver, {"a.log": data, "other.log": other})
