"""A receiver's name with several addresses, some of which do not answer: the others are tried, as curl does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.client import SAY_AFTER, Client
from flarelog.errors import CannotConnect
from integration.harness.places import FLARELOG, RUN, SITE, Place, append, free_address
from integration.test_doctor import rows

HOSTS = """\
127.0.0.1 localhost
127.0.0.9 refuses-first
127.0.0.1 refuses-first
::1 six-first
127.0.0.1 six-first
127.0.0.8 drops-first
127.0.0.9 drops-first
127.0.0.1 drops-first
127.0.0.7 refuses
127.0.0.9 refuses
"""
_BOUND = 'mount --make-rprivate / && mount --bind hosts /etc/hosts && exec "$@"'


def with_hosts(directory: Path) -> tuple[str, ...]:
    """The command to run in place of flarelog, whose /etc/hosts is HOSTS. Skips the test without root's rights."""
    (directory / "hosts").write_text(HOSTS)
    command = ("unshare", "-m", "sh", "-c", _BOUND, "sh")
    if os.geteuid() or subprocess.run([*command, "true"], cwd=directory, capture_output=True).returncode:
        pytest.skip("run this as root, with the right to mount: it replaces /etc/hosts")
    return (*command, *FLARELOG)


@contextlib.contextmanager
def dropping(address: str, port: int) -> Iterator[None]:
    """A port that drops further attempts to connect: the queue of one that never accepts is full."""
    with contextlib.ExitStack() as held:
        held.enter_context(listening := socket.socket())
        listening.bind((address, port))
        listening.listen(0)
        for _ in range(4):
            held.enter_context(waiting := socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((address, port))
        yield


@pytest.mark.parametrize("name", ["refuses-first", "six-first", "drops-first"])
def test_one_address_that_answers_is_enough(place: Place, name: str) -> None:
    hosts = with_hosts(place.directory)
    receiver = place.serve()
    port = int(receiver.address.rpartition(":")[2])
    data = append(place.log, b"hello\n")
    with dropping("127.0.0.8", port):
        sidecar = place.sidecar(f"{name}:{port}", "--once", plain=hosts)
        assert sidecar.ends() == 0, sidecar.talk()
        reader = place.call("logs", RUN, "--receiver", f"{name}:{port}", "-o", "raw", plain=hosts)
        found = rows(place.call("doctor", "--receiver", f"{name}:{port}", "--site", SITE, "-o", "json", plain=hosts), 0)
    assert reader.printed.encode() == data, reader.talk()
    assert found["connection"][1].startswith("the connection to 127.0.0.1 took ")
    dead = {"refuses-first": "127.0.0.9: Connection refused", "six-first": "::1: Connection refused"}
    assert dead.get(name, "127.0.0.8: no answer") in found["connection"][1]
    assert found["round trip"][0] == "ok"


def test_a_name_whose_addresses_all_refuse_starts_when_a_receiver_does(place: Place) -> None:
    hosts = with_hosts(place.directory)
    receiver = place.serve()
    port = receiver.address.rpartition(":")[2]
    receiver.stop()
    data = append(place.log, b"hello\n")
    sidecar = place.sidecar(f"refuses-first:{port}", "--once", plain=hosts)
    sidecar.says(f"no connection to refuses-first:{port}: Connection refused: no program listens there; retrying")
    found = rows(place.call("doctor", "--receiver", f"refuses-first:{port}", "-o", "json", plain=hosts), 1)
    assert found["connection"][1] == f"refuses-first:{port} refused the connection: no program listens there"
    again = receiver.again()
    assert sidecar.ends() == 0, sidecar.talk()
    assert again.stored() == data


def test_a_reader_says_at_once_that_nothing_listens(caplog: pytest.LogCaptureFixture) -> None:
    async def ask(address: str) -> None:
        async with Client(address) as client:
            client.patience = SAY_AFTER / 5
            await client.runs()

    address = free_address()
    with caplog.at_level("INFO"), pytest.raises(CannotConnect):
        asyncio.run(ask(address))
    said = f"no connection to {address}: Connection refused: no program listens there"
    assert [record.getMessage() for record in caplog.records] == [f"{said}; retrying"]
