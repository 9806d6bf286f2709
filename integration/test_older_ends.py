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

from integration.harness.places import SITE, Place, Receiver, append, noise

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
