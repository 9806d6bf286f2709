"""What processes wait for in the network: read from a directory with the layout of /proc, and from the real one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from flarelog.sources.files.sockets import Waits, waits

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0500000A:C000 0600000A:01BB 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0500000A:C001 0500000A:C002 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0
   3: 0500000A:C002 0500000A:C001 01 00000000:00000000 00:00000000 00000000     0        0 4 1 0 100 0 0 10 0
   4: 0500000A:C003 0600000A:01BC 06 00000000:00000000 00:00000000 00000000     0        0 5 1 0 100 0 0 10 0
   5: torn
"""
TCP6 = """  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 6 1 0 100 0 0 10 0
   1: 0000000000000000FFFF00000500000A:C004 0000000000000000FFFF00000700000A:01BB 01 0:0 00:0 0 0 0 7 1 0 100 0 0 10 0
"""


def process(root: Path, sockets: list[int], wchan: str = "ep_poll", state: str = "S", thread: int = 10) -> None:
    """The process 10, whose thread *thread* is where *wchan* says."""
    home = root / "10"
    for part in ("fd", "net", "task/10", "task/11"):
        (home / part).mkdir(parents=True)
    for each in (10, 11):
        (home / f"task/{each}/stat").write_text(f"{each} (py) {state} 1 1")
        (home / f"task/{each}/wchan").write_text(wchan if each == thread else "futex_wait_queue")
    for number, inode in enumerate(sockets):
        (home / f"fd/{number}").symlink_to(f"socket:[{inode}]")
    (home / "net/tcp").write_text(TCP)
    (home / "net/tcp6").write_text(TCP6)


@pytest.mark.parametrize(
    ("sockets", "found"),
    [
        ([], Waits()),
        ([1], Waits(listens="0.0.0.0:8080")),
        ([2], Waits(on="10.0.0.6:443")),
        ([1, 2], Waits("0.0.0.0:8080", "10.0.0.6:443")),
        ([3, 4], Waits()),  # it is connected to itself
        ([3], Waits(on="10.0.0.5:49154")),
        ([5, 99], Waits()),  # that one is closing
        ([6], Waits(listens="[::]:80")),
        ([7], Waits(on="10.0.0.7:443")),
    ],
)
def test_what_a_blocked_process_waits_for(tmp_path: Path, sockets: list[int], found: Waits) -> None:
    process(tmp_path, sockets)
    assert waits([10], str(tmp_path)) == found


def test_a_connection_that_a_thread_beside_the_main_one_waits_for_does_not_explain_a_quiet_log(tmp_path: Path) -> None:
    process(tmp_path, [1, 2], thread=11)
    assert waits([10], str(tmp_path)) == Waits(listens="0.0.0.0:8080")


@pytest.mark.parametrize(
    ("wchan", "state"),
    [("futex_wait_queue", "S"), ("hrtimer_nanosleep", "S"), ("0", "R"), ("", "S"), ("ep_poll", "T"), ("ep_poll", "t")],
)
def test_a_process_that_sleeps_or_is_stopped_waits_for_nothing(tmp_path: Path, wchan: str, state: str) -> None:
    process(tmp_path, [1, 2], wchan, state)
    assert waits([10], str(tmp_path)) == Waits()
    assert waits([11], str(tmp_path)) == Waits(), "it has ended"


@pytest.mark.skipif(not os.access("/proc/self/wchan", os.R_OK), reason="only Linux shows it")
def test_a_real_process_that_waits_for_its_peer() -> None:
    code = "import socket, sys\ns = socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
    code += "\nprint(flush=True); s.recv(1)"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with subprocess.Popen([sys.executable, "-c", code, str(port)], stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            program.stdout.readline()
            found = Waits()
            for _ in range(10_000):  # the line comes before the call
                found = found if found.on else waits([program.pid])
            program.kill()
        assert found == Waits(on=f"127.0.0.1:{port}")
