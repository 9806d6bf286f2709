"""The messages of a receiver and of a sidecar to systemd, at a socket like systemd's."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Iterator

import pytest

from integration.harness.places import PATIENCE, SITE, Place, append, until


@contextlib.contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        server.settimeout(PATIENCE)
        yield server


def told(server: socket.socket, word: str) -> list[str]:
    """The messages up to the first that begins with *word*."""
    found: list[str] = []
    while not found or not found[-1].startswith(word):
        found.append(server.recv(4096).decode())
    return found


def silent(server: socket.socket) -> bool:
    """Whether no message comes for a second."""
    return not select.select([server], [], [], 1.0)[0]


@pytest.mark.parametrize(
    ("workers", "abstract"),
    [
        pytest.param("1", False, id="1-file", marks=pytest.mark.soak),
        pytest.param("2", True, id="2-abstract"),
        pytest.param("1", True, id="1-abstract", marks=pytest.mark.soak),
        pytest.param("2", False, id="2-file", marks=pytest.mark.soak),
    ],
)
def test_a_receiver_says_that_it_is_ready_lives_and_ends(place: Place, abstract: bool, workers: str) -> None:
    address = f"@{place.directory.name}-notify" if abstract else str(place.directory / "notify")
    with listening(address) as server:
        receiver = place.serve("--workers", workers, NOTIFY_SOCKET=address, WATCHDOG_USEC="400000")
        ready = told(server, "READY=1")[-1].splitlines()
        assert ready == ["READY=1", f"STATUS=receiving at {receiver.address}"]
        for _ in range(3):
            assert told(server, "WATCHDOG=1")[-1] == "WATCHDOG=1"
        receiver.program.tell(signal.SIGSTOP)
        heard = [told(server, "") for _ in iter(lambda: silent(server), True)]
        assert len(heard) < 10  # a receiver that is stopped sends no more, so systemd would restart it
        receiver.program.tell(signal.SIGCONT)
        receiver.program.tell(signal.SIGTERM)
        told(server, "STOPPING=1")
        assert receiver.program.ends() == 0


def test_a_sidecar_says_so_too_and_lives_while_it_drains(place: Place) -> None:
    address = str(place.directory / "notify")
    with listening(address) as server:
        receiver = place.serve()
        append(place.log, b"one\n")
        sidecar = place.sidecar(receiver, NOTIFY_SOCKET=address, WATCHDOG_USEC="400000")
        told(server, "READY=1")
        told(server, "WATCHDOG=1")
        receiver.gets(b"one\n")
        sidecar.tell(signal.SIGTERM)
        told(server, "STOPPING=1")
        assert sidecar.ends() == 0


def test_a_watchdog_of_another_process_and_a_socket_that_is_gone_are_none(place: Place) -> None:
    address = str(place.directory / "notify")
    with listening(address) as server:
        receiver = place.serve(NOTIFY_SOCKET=address, WATCHDOG_USEC="1000", WATCHDOG_PID="1")
        assert told(server, "READY=1")[0].startswith("READY=1")
        assert silent(server)
        os.unlink(address)
        append(place.log, b"one\n")
        assert place.once(receiver).ends() == 0
        assert receiver.stop() == 0


def test_of_many_logs_few_lines_are_said(place: Place) -> None:
    receiver = place.serve()
    for n in range(40):
        append(place.root / f"{n}.log", b"one\n")
    sidecar = place.once(receiver)
    assert sidecar.ends() == 0
    assert sidecar.said.count("sealed at offset") == 10
    assert " INFO sidecar: 30 more logs are sealed\n" in sidecar.said
    assert receiver.stop() == 0
    until(lambda: "30 more logs are sealed" in receiver.program.said, lambda: receiver.program.talk())
    assert receiver.program.said.startswith(f"receiver: receiving at {receiver.address} ")
    assert f" INFO receiver: run-1/{SITE}/" in receiver.program.said
