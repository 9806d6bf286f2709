"""Findings across all logs of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flarelog.detect.across import MOMENT, first_root, judged
from flarelog.detect.base import Finding
from flarelog.exit_marks import LIKELY, Exit
from flarelog.lines.times import SECOND
from flarelog.model import StreamId, StreamInfo
from tests.detect.cases import searched
from tests.rows import together

OOM = b"RuntimeError: CUDA out of memory\n"
TIMEOUT = (
    "[rank{0}]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum={1}, OpType={2}, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
)
STATE = (
    "[rank{0}]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Exception (either"
    " an error or timeout) detected by watchdog at work: 808, last enqueued NCCL work: {1}, last completed NCCL work:"
    " 807.\n"
)


def at(seconds: float | None, data: bytes, site: str = "site-1") -> Finding:
    """The one finding of *data*, *seconds* after the beginning."""
    found = searched(data)[0]
    time = None if seconds is None else int(seconds * SECOND)
    return replace(found, stream=StreamId("run-1", site, "train.log"), time=time)


def info(*marks: Exit, site: str = "site-1") -> StreamInfo:
    return StreamInfo(StreamId("run-1", site, "train.log"), 0, 1000, 0, True, marks)


def timeout(seconds: float | None, site: str = "site-2") -> Finding:
    return at(seconds, TIMEOUT.format(1, 808, "ALLREDUCE").encode(), site)


def roles(*findings: Finding) -> list[tuple[str, str]]:
    return [(each.signature, each.role) for each in judged(findings)]


def test_a_cascade_behind_a_root_is_a_symptom() -> None:
    assert roles(timeout(700), at(100, OOM)) == [("cuda.oom", "root"), ("nccl.timeout", "symptom")]


def test_each_run_is_judged_for_itself_and_all_are_in_the_order_of_time() -> None:
    other = replace(timeout(700), stream=StreamId("run-2", "site-2", "train.log"))
    found = judged([other, at(100, OOM), timeout(800)])
    assert [(each.stream.run, each.role) for each in found] == [
        *(("run-1", "root"), ("run-2", "root"), ("run-1", "symptom"))
    ]


def test_a_cascade_before_every_root_is_one() -> None:
    assert roles(timeout(100), at(700, OOM)) == [("nccl.timeout", "root"), ("cuda.oom", "root")]


@pytest.mark.parametrize(
    ("seconds", "offset", "role"),
    [
        pytest.param(104, 100, "symptom", id="right-behind-it"),
        pytest.param(700, 100, "root", id="minutes-later"),
        pytest.param(104, MOMENT + 1, "root", id="far-behind-it"),
    ],
)
def test_a_cascade_and_the_root_right_behind_it_in_its_log_are_of_one_trouble(
    seconds: float, offset: int, role: str
) -> None:
    root = replace(at(seconds, OOM), offset=offset)
    assert roles(timeout(100, "site-1"), root) == [("nccl.timeout", role), ("cuda.oom", "root")]


def test_a_cascade_alone_is_a_root() -> None:
    assert roles(timeout(None)) == [("nccl.timeout", "root")]


def test_what_tells_no_time_stands_behind_all_that_does() -> None:
    assert roles(at(None, OOM), timeout(5))[0][0] == "nccl.timeout"


def test_what_tells_no_time_was_said_before_what_stands_behind_it() -> None:
    end = Exit(900, 0, "p", status=1, ended=5000)
    found = judged([at(None, OOM), at(4.9, OOM, "site-2")], [info(end)])
    assert [(each.signature, each.stream.site) for each in found] == [
        ("cuda.oom", "site-2"),
        ("cuda.oom", "site-1"),
        ("exit.code", "site-1"),
    ]


def test_what_tells_no_time_was_said_before_the_last_byte_came() -> None:
    grown = replace(info(), grown=5000)
    found = judged([at(None, OOM), at(5.1, OOM, "site-2")], [grown])
    assert [each.stream.site for each in found] == ["site-1", "site-2"]


def test_what_tells_no_time_has_been_said_before_it_came() -> None:
    """The time of a log's last growth says nothing of such a finding. Logs of one moment are in the order of their
    names.
    """

    def order(*grown: int) -> list[str]:
        infos = [replace(info(site=site), grown=one) for site, one in zip(came, grown, strict=True)]
        found = judged([replace(at(None, OOM, site), came=one) for site, one in came.items()], infos)
        return [each.stream.site for each in found]

    came = {"site-10": 1000, "site-2": 1000, "site-1": 2000}
    assert order(5000, 5100, 5200) == order(5300, 5100, 4900) == ["site-2", "site-10", "site-1"]


def test_the_time_of_an_exit_is_that_of_the_end_and_not_of_its_record() -> None:
    """A spool that is sent late brings the record late. The lines of the command's other logs were written before."""
    late = Exit(900, 0, "p", status=1, ended=5000, clock=605_000)
    assert [each.time for each in judged([], [info(late)])] == [5 * SECOND]
    assert [each.time for each in judged([], [info(replace(late, ended=0))])] == [605 * SECOND]
    found = judged([], [info(late), info(Exit(900, 0, "q", status=2, ended=100_000, clock=100_100), site="site-2")])
    assert [(each.stream.site, each.role) for each in found] == [("site-1", "root"), ("site-2", "root")]
    second = replace(info(late), stream=StreamId("run-1", "site-1", "a.log"), grown=605_000)
    words = replace(at(None, OOM), stream=second.stream)
    found = judged([words, at(60, OOM, "site-2")], [second, info(late)])
    assert [each.stream.site for each in found if each.signature == "cuda.oom"] == ["site-1", "site-2"]


def test_the_end_of_a_command_is_compared_by_the_receivers_clock() -> None:
    ends = [Exit(900, 0, "p", status=1, ended=65_000), Exit(900, 0, "q", status=2, ended=10_000)]
    infos = [info(end, site=f"site-{number}") for number, end in enumerate(ends, 1)]
    found = judged([], infos, lambda stream: 60 * SECOND if stream.site == "site-1" else 0)
    assert [each.stream.site for each in found] == ["site-1", "site-2"]


def test_clocks_that_are_ahead_are_taken_back() -> None:
    found = judged(
        [at(100, OOM), at(105, OOM, "site-2")],
        ahead=lambda stream: 60 * SECOND if stream.site == "site-2" else 0,
    )
    assert [each.stream.site for each in found] == ["site-2", "site-1"]


def test_the_command_that_ended_well_had_no_root() -> None:
    well = Exit(1000, 0, "p", ended=1)
    assert [each.role for each in judged([at(5, OOM)], [info(well)])] == ["symptom"]
    assert "root" in [each.role for each in judged([at(5, OOM)], [info(replace(well, status=1))])]


@pytest.mark.parametrize(
    ("end", "name", "role"),
    [
        pytest.param(Exit(9, 0, "p", signal=9, oom=LIKELY, oom_before=1, oom_after=2), "host.oom", "root", id="oom"),
        pytest.param(Exit(9, 0, "p", signal=11), "exit.signal", "root", id="segfault"),
        pytest.param(Exit(9, 0, "p", signal=9), "exit.code", "root", id="sigkill-is-no-evidence-of-memory"),
        pytest.param(Exit(9, 0, "p", status=3), "exit.code", "root", id="code"),
    ],
)
def test_an_exit_record_is_evidence(end: Exit, name: str, role: str) -> None:
    """Each command gives one finding, even if several logs record its end."""
    found = judged([], [info(end), info(end, site="site-2")])
    assert [(each.signature, each.role) for each in found] == [(name, role)]


def test_a_test_whose_setup_failed_is_a_heading_of_its_exception() -> None:
    said = "a.py::test_a ERROR   [ 25%]\n" + "    a line of its code\n" * 300 + "E       ValueError: no artifact\n"
    found = judged(searched(f"{said}\na/b.py:30: ValueError\n".encode()))
    assert [(each.signature, each.role, each.count) for each in found] == [
        ("step.failed", "symptom", 1),
        ("program.exception", "root", 2),
    ]


@pytest.mark.parametrize(
    ("end", "root"),
    [
        ("mpirun noticed that process rank 7 with PID 0 on node n exited on signal 9 (Killed).\n", "mpi.signal"),
        ("mpirun detected that one or more processes exited with non-zero status, thus causing\n", "process.exit"),
        ("", "launcher.ends"),
    ],
)
def test_mpi_announces_the_end_of_a_process_before_it_names_it(end: str, root: str) -> None:
    said = "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job"
    found = judged(searched(f"{said} has been aborted.\n{end}".encode()))
    assert [each.signature for each in found if each.is_root] == [root]


def test_an_exit_code_behind_a_root_is_a_symptom() -> None:
    found = judged([at(1, OOM)], [info(Exit(900, 0, "p", status=1, ended=5000))])
    assert [(each.signature, each.role) for each in found] == [("cuda.oom", "root"), ("exit.code", "symptom")]


WORD = b"ERROR cannot open the shard 7\n"
LAUNCHER = (
    b"E1120 09:12:44.3 880 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 1"
    b" (pid: 912) of binary: /usr/bin/python3\n"
)
LOST = b"RuntimeError: [/src/gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.4]:53214\n"
EXIT = Exit(900, 0, "p", status=1, ended=5000)


@together(
    ("found", "ends", "expected"),
    [
        pytest.param([at(None, WORD)], [EXIT], ["log.error", "-exit.code"], id="an-exit-code"),
        pytest.param([at(90, WORD)], [EXIT], ["log.error", "-exit.code"], id="an-exit-code-of-another-zone"),
        pytest.param([at(4, WORD), at(30, LOST, "b")], [], ["log.error", "-gloo.connection"], id="a-lost-peer"),
        pytest.param([at(4, WORD), at(30, b"FATAL a left\n", "b")], [], ["log.error", "-log.fatal"], id="another-site"),
        pytest.param([at(30, WORD), at(4, LOST, "b")], [], ["gloo.connection", "-log.error"], id="an-earlier-cascade"),
        pytest.param([at(4, WORD), at(30, OOM, "b")], [], ["-log.error", "cuda.oom"], id="a-root-by-itself"),
        pytest.param([at(4, b"fatal: no such thing\n")], [EXIT], ["log.fatal", "-exit.code"], id="a-cascade"),
        pytest.param(
            [at(4, b"a.swift:9: Fatal error: Unexpectedly found nil\n"), at(4, b"Illegal instruction (core dumped)\n")],
            [],
            ["log.fatal", "-crash.signal"],
            id="a-cascade-and-a-signal",
        ),
        pytest.param([at(4, b"Job x failed\n")], [EXIT], ["program.failed", "-exit.code"], id="a-failed-job"),
        pytest.param(
            [at(4, b"Job x failed\n"), at(5, b"task 3: exit code 2\n", "b")],
            [],
            ["-program.failed", "process.exit"],
            id="a-failed-job-names-nothing",
        ),
        pytest.param(
            [at(30, WORD, "b")], [EXIT], ["exit.code", "-log.error"], id="another-site-had-ended-before-without-a-word"
        ),
        pytest.param(
            [at(4, WORD)], [Exit(900, 0, "p", signal=6, ended=5000)], ["log.error", "-exit.signal"], id="abort"
        ),
        pytest.param(
            [at(4, WORD, "b")],
            [Exit(900, 0, "p", signal=6, ended=5000)],
            ["-log.error", "exit.signal"],
            id="of-another",
        ),
        pytest.param(
            [at(4, WORD), at(4, b"Aborted (core dumped)\n")],
            [],
            ["log.error", "-crash.signal"],
            id="a-signal-of-a-shell",
        ),
        pytest.param(
            [at(4, b"Fatal Python error: Segmentation fault\n")],
            [Exit(900, 0, "p", signal=11, ended=5000)],
            ["crash.segfault", "-exit.signal"],
            id="a-root-and-a-signal",
        ),
        pytest.param(
            [at(4, b"d: d.c:2: main: Assertion `1==2' failed.\n"), at(4, b"bash: line 1: 18834 Aborted   d\n")],
            [],
            ["check.failed", "-process.signal"],
            id="a-check-and-a-signal-of-a-shell",
        ),
        pytest.param(
            [at(4, b"fatal error: all goroutines are asleep - deadlock!\n"), at(4, b"exit status 2\n")],
            [EXIT],
            ["log.fatal", "-process.exit", "-exit.code"],
            id="a-cascade-and-an-exit-code",
        ),
        pytest.param(
            [at(4, b"--- FAIL: TestA (0.00s)\n"), at(4, b"exit status 1\n")],
            [EXIT],
            ["step.failed", "-process.exit", "-exit.code"],
            id="a-test",
        ),
        pytest.param(
            [at(4, b"--- FAIL: TestA (0.00s)\n"), at(4, b"fatal: cannot write\n")],
            [],
            ["-step.failed", "log.fatal"],
            id="a-test-and-a-cascade",
        ),
        pytest.param([at(4, b"exit status 2\n")], [EXIT], ["process.exit", "-exit.code"], id="exit-codes-alone"),
        pytest.param(
            [at(4, b"exit status 2\n"), at(5, b"FATAL the data is gone\n")],
            [],
            ["process.exit", "log.fatal"],
            id="an-exit-code-before-a-cascade",
        ),
        pytest.param([at(30, LOST, "b")], [EXIT], ["exit.code", "-gloo.connection"], id="a-peer-that-had-ended"),
        pytest.param([at(3, LOST, "b")], [EXIT], ["gloo.connection", "exit.code"], id="a-peer-that-ended-later"),
        pytest.param([at(30, LOST)], [EXIT], ["gloo.connection", "-exit.code"], id="a-link-of-its-own-site"),
        pytest.param([at(30, b"FATAL the data is gone\n", "b")], [EXIT], ["exit.code", "log.fatal"], id="no-lost-link"),
        pytest.param(
            [at(4, LAUNCHER), at(5, LOST, "b")],
            [],
            ["torchrun.failed", "-gloo.connection"],
            id="a-launcher-saw-the-end",
        ),
        pytest.param(
            [at(4, LOST, "b"), at(5, LAUNCHER)], [], ["gloo.connection", "torchrun.failed"], id="the-end-came-later"
        ),
        pytest.param(
            [at(4, b"bash: line 4: 2211 Aborted   fit\n"), at(5, LOST, "b")],
            [],
            ["process.signal", "-gloo.connection"],
            id="a-signal-that-its-parent-saw",
        ),
        pytest.param(
            [at(4, LAUNCHER), at(5, LOST, "b"), at(60, OOM, "c")],
            [],
            ["torchrun.failed", "-gloo.connection", "cuda.oom"],
            id="before-a-root-of-its-own",
        ),
        pytest.param(
            [at(4, LOST, "b"), at(60, OOM, "c")], [], ["gloo.connection", "cuda.oom"], id="a-link-before-every-root"
        ),
    ],
)
def test_what_a_program_said_of_its_failure_is_the_root_of_what_only_tells_its_end(
    found: list[Finding], ends: list[Exit], expected: list[str]
) -> None:
    found = [replace(each, offset=100 * number) for number, each in enumerate(found)]
    told = judged(found, [info(*ends), info(site="b")])
    assert [each.signature if each.is_root else f"-{each.signature}" for each in told] == expected


def test_what_a_command_said_in_another_log_comes_before_its_end() -> None:
    """The order holds even if that log has no times and its last bytes were stored after the command's end."""
    word = replace(at(None, WORD), stream=StreamId("run-1", "site-1", "stderr.log"))
    other = replace(info(replace(EXIT, offset=500)), stream=word.stream)
    for stored in (0, 5, 9000):
        told = judged([word], [info(EXIT), replace(other, grown=stored)])
        assert [(each.signature, each.role) for each in told] == [("log.error", "root"), ("exit.code", "symptom")]


@together(
    ("behind", "root"),
    [
        pytest.param("make: *** [Makefile:3: x] Error 1", "log.error", id="make"),
        pytest.param("srun: error: node1: task 0: Exited with exit code 1", "log.error", id="srun"),
        pytest.param("Error: Process completed with exit code 1.", "log.error", id="a-workflow"),
        pytest.param("FATAL giving up", "log.error", id="giving-up"),
        pytest.param("lost connection", "log.error", id="scp"),
        pytest.param("java.lang.IllegalStateException: shard 7 has no index", "program.exception", id="an-exception"),
        pytest.param("F0721 08:12:13.1 1 a.cc:1] Check failed: n > 0", "check.failed", id="a-check"),
        pytest.param("x" * MOMENT + "\njava.lang.IllegalStateException: no index", "log.error", id="far-behind-it"),
    ],
)
def test_the_first_word_of_a_log_is_the_root_unless_an_exception_names_it_better(behind: str, root: str) -> None:
    told = judged(searched(WORD + behind.encode() + b"\n"))
    assert [each.signature for each in told if each.is_root] == [root]


RAISED = b'Exception in thread "main" java.lang.RuntimeException: wrap\n%bjava.lang.IllegalStateException: x\n'


@pytest.mark.parametrize(
    ("between", "roots"),
    [
        pytest.param(b"", 1, id="near"),
        pytest.param(b"x" * MOMENT + b"\n", 2, id="far"),
    ],
)
def test_what_comes_right_behind_a_cascade_in_its_log_is_a_symptom(between: bytes, roots: int) -> None:
    told = judged(searched(RAISED % between))
    assert [each.is_root for each in told] == [True, roots == 2]


@together(
    ("inner", "outer", "roles"),
    [
        pytest.param({"status": 3}, {"status": 3}, ["root", "symptom"], id="as-it-ended"),
        pytest.param({"signal": 9}, {"status": 137}, ["root", "symptom"], id="as-a-shell-tells-it"),
        pytest.param({"status": 3}, {"status": 2}, ["root", "root"], id="otherwise"),
        pytest.param({"status": 3, "started": 10}, {"status": 3}, ["root", "root"], id="that-began-at-the-same-time"),
        pytest.param({"status": 3, "ended": 99}, {"status": 3}, ["root", "root"], id="that-ended-later"),
        pytest.param({"status": 3, "boot_id": "other"}, {"status": 3}, ["root", "root"], id="of-another-machine"),
    ],
)
def test_a_command_that_passes_on_how_another_within_it_ended_is_a_symptom(
    inner: dict[str, Any], outer: dict[str, Any], roles: list[str]
) -> None:
    ends = [
        Exit(9, 0, "inner", **{"started": 20, "ended": 30, **inner}),
        Exit(9, 0, "outer", **{"started": 10, "ended": 40, **outer}),
    ]
    for each in (ends, ends[::-1]):
        other = StreamId("run-1", "site-1", "other.log")
        found = judged([], [info(each[0]), replace(info(each[1]), stream=other)])
        assert [one.role for one in sorted(found, key=lambda one: one.time or 0)] == roles


def states(*enqueued: int, world: int = 0) -> list[Finding]:
    found = [at(9 + n, STATE.format(n, value).encode(), f"site-{n}") for n, value in enumerate(enqueued)]
    return [*found, at(50, STATE.format(world - 1, enqueued[0]).encode(), "site-9")] if world else found


def desyncs(findings: list[Finding]) -> list[str]:
    return [each.text for each in judged(findings) if each.signature == "nccl.desync"]


def test_the_rank_that_differs_is_named() -> None:
    assert desyncs(states(811, 811, 808)) == ["rank 2 enqueued 808; the others enqueued 811"]


def test_ranks_that_said_nothing_are_counted() -> None:
    assert desyncs(states(811, 808, world=16)) == [
        "rank 1 enqueued 808; the others enqueued 811; 13 of 16 ranks said nothing"
    ]


def test_ranks_that_agree_are_no_desync() -> None:
    assert desyncs(states(811, 811)) == []


def test_one_rank_alone_tells_nothing() -> None:
    assert desyncs(states(811)) == []


def test_ranks_that_wait_in_different_collectives_are_named() -> None:
    ops = ["ALLREDUCE", "ALLREDUCE", "BROADCAST"]
    waits = [at(8, TIMEOUT.format(n, 808, op).encode(), f"site-{n}") for n, op in enumerate(ops)]
    assert desyncs([*states(811, 811, 811), *waits]) == ["rank 2 waited in BROADCAST 808; the others in ALLREDUCE 808"]


def test_a_desync_is_a_root_that_stands_where_the_rank_said_it() -> None:
    found = judged(states(811, 811, 808))
    root = first_root(found)
    assert root is not None
    assert (root.signature, root.rank, root.stream.site) == ("nccl.desync", 2, "site-2")


def test_no_root_is_none() -> None:
    assert first_root([]) is None
