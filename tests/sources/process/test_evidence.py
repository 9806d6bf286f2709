"""Statements about memory that the evidence of a command's end allows."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from flarelog.exit_marks import CERTAIN, LIKELY, NONE, OTHERS
from flarelog.sources.process.evidence import Counter, judged, names
from tests.rows import together

KILL, TERM = signal.SIGKILL, signal.SIGTERM


@together(
    ("died_of", "before", "after", "rose_now", "named", "oom"),
    [
        pytest.param(KILL, 2, 3, True, False, LIKELY, id="it-rose-shortly-before-sigkill"),
        pytest.param(KILL, 2, 3, False, False, OTHERS, id="it-rose-long-before"),
        pytest.param(KILL, 2, 2, False, False, NONE, id="sigkill-alone-is-none"),
        pytest.param(TERM, 2, 3, True, False, OTHERS, id="the-kernel-kills-with-sigkill"),
        pytest.param(0, 2, 3, True, False, OTHERS, id="a-worker-was-killed"),
        pytest.param(0, 2, 2, False, False, NONE, id="nothing"),
        pytest.param(KILL, -1, -1, False, False, "", id="nobody-could-look"),
        pytest.param(KILL, 2, -1, False, False, "", id="nobody-can-look-any-more"),
        pytest.param(KILL, -1, -1, False, True, CERTAIN, id="the-kernel-names-it"),
    ],
)
def test_judged(died_of: int, before: int, after: int, rose_now: bool, named: bool, oom: str) -> None:
    assert judged(died_of, before, after, rose_now=rose_now, named=named) == oom


OOM = b"Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:1kB, UID:0 pgtables:1kB\n"


@together(
    ("record", "is_"),
    [
        pytest.param(b"3,1200,50000000,-;" + OOM, True, id="the-kernels-own"),
        pytest.param(b"11,1200,50000000,-;" + OOM, False, id="a-programs"),
        pytest.param(b"3,1200,39000000,-;" + OOM, False, id="older-than-the-command"),
        pytest.param(b"3,1200,50000000,-;" + OOM.replace(b"4711", b"4712"), False, id="another-process"),
        pytest.param(b"3,1200,50000000,-;" + OOM.replace(b"4711", b"47110"), False, id="a-longer-number"),
        pytest.param(
            b"3,1200,50000000,-;Out of memory: Killed process 4711 (a) total-vm:1kB\n", True, id="of-the-host"
        ),
        pytest.param(b"3,1200,50000000,-;process 4711 (python) was fine\n", False, id="something-else"),
        pytest.param(b"", False, id="nothing"),
        pytest.param(b"x,y,z;" + OOM, False, id="no-head"),
    ],
)
def test_the_kernels_word(record: bytes, is_: bool) -> None:
    assert names(record, 4711, 40.0) is is_


@pytest.mark.parametrize(
    ("lines", "file", "text", "count", "cgroup"),
    [
        pytest.param("0::/a/b\n", "sys/fs/cgroup/a/b/memory.events.local", "oom 4\noom_kill 3\n", 3, "/a/b", id="v2"),
        pytest.param(
            "0::/a\n", "sys/fs/cgroup/a/memory.events", "low 0\noom_kill 2\noom_group_kill 0\n", 2, "/a", id="v2-old"
        ),
        pytest.param("0::/\n", "sys/fs/cgroup/memory.events.local", "oom_kill 1\n", 1, "/", id="v2-in-a-container"),
        pytest.param(
            "5:cpu,memory:/x\n0::/\n",
            "sys/fs/cgroup/memory/x/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n",
            7,
            "/x",
            id="v1",
        ),
        pytest.param(
            "5:memory:/host/x\n",
            "sys/fs/cgroup/memory/memory.oom_control",
            "oom_kill 7\n",
            7,
            "/host/x",
            id="v1-in-a-container",
        ),
        pytest.param(
            "5:memory:/x\n", "sys/fs/cgroup/memory/x/memory.oom_control", "oom_kill x\n", -1, "", id="no-number"
        ),
        pytest.param("5:cpu:/x\n", "other", "", -1, "", id="no-memory-cgroup"),
    ],
)
def test_counter(tmp_path: Path, lines: str, file: str, text: str, count: int, cgroup: str) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text(lines)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    found = Counter.of("7", str(tmp_path))
    assert (found.read(), found.cgroup) == (count, cgroup)
