"""The health of machines as people read it: figures with their limits, and a warning before a resource runs out."""

from __future__ import annotations

import pytest

from flarelog.model import Health, State, StreamId, StreamInfo, Unread
from flarelog.viewers.health import few_missing, figures, table, unread, warnings

GIB = 1 << 30


def of(health: Health | None, site: str = "kyoto", *, sealed: bool = False) -> StreamInfo:
    return StreamInfo(StreamId("run-1", site, "a.log"), 0, 0, 0, sealed, state=State(linked=True, health=health))


FULL = Health(
    memory=3 * GIB, memory_max=8 * GIB, memory_peak=5 * GIB, oom_kills=1, cores=1.5, load=7.25,
    cpu_pressure=87.4, memory_pressure=0.2, disk_free=73 * GIB, disk_size=252 * GIB, uptime=4000,
)  # fmt: skip


def test_figures_stand_beside_their_limits() -> None:
    rows = table([of(FULL), of(None, "lyon"), of(Health(memory=512 << 20), "oslo")])
    assert rows == [
        ("RUN", "SITE", "MEMORY", "PEAK", "OOM KILLS", "CORES", "LOAD", "WAITING", "DISK FREE", "UP"),
        ("run-1", "kyoto", "3.0 of 8.0 GiB", "5.0 GiB", "1", "1.5", "7.2", "cpu 87%", "73.0 of 252.0 GiB", "1 h 6 min"),
        ("run-1", "oslo", "512.0 MiB", "-", "-", "-", "-", "-", "-", "-"),
    ]


def test_what_no_site_told_has_no_column() -> None:
    assert table([of(Health(memory=GIB, memory_max=2 * GIB))]) == [
        ("RUN", "SITE", "MEMORY"),
        ("run-1", "kyoto", "1.0 of 2.0 GiB"),
    ]
    assert table([of(None), of(FULL, sealed=True)]) == []


def test_programs_get_what_is_visible() -> None:
    assert figures(Health(memory=5, load=0.0)) == {"memory": 5, "load": 0.0}
    assert figures(None) is None


def test_a_sentence_says_what_runs_out() -> None:
    short = Health(
        memory=97 * GIB, memory_max=100 * GIB, memory_pressure=31.0,
        disk_free=GIB, disk_size=100 * GIB, inodes_free=10, inodes=1000,
    )  # fmt: skip
    assert warnings([of(short), of(short)]) == [
        "health: run-1/kyoto: 97% of the memory is used (97.0 of 100.0 GiB)",
        "health: run-1/kyoto: processes waited for memory in 31 % of the last 10 s",
        "health: run-1/kyoto: the disk of the logs is nearly full (1.0 of 100.0 GiB free)",
        "health: run-1/kyoto: the disk of the logs has few inodes left (10 of 1,000)",
    ]
    assert warnings([of(FULL), of(Health())]) == []


WHY = "cannot be read: Permission denied"


def missing(log: str, why: str = WHY) -> StreamInfo:
    return StreamInfo(StreamId("run-1", "kyoto", log), 0, 0, 0, False, unstored=why)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        pytest.param(2, ["000.log", "001.log"], id="a-few"),
        pytest.param(
            100,
            ["000.log", "001.log", "002.log", "97 more files cannot be read: flarelog status names them"],
            id="many",
        ),
    ],
)
def test_a_few_of_the_files_that_cannot_be_read_are_said_and_how_many_more_there_are(
    count: int, said: list[str]
) -> None:
    infos = [missing(f"{n:03}.log") for n in range(count)]
    assert few_missing(infos) == [f"run-1/kyoto: {one} {WHY}" if one.endswith(".log") else one for one in said]
    assert unread(infos)[-1] == f"run-1/kyoto: {count - 1:03}.log {WHY}"


def test_the_rest_of_a_log_that_cannot_be_read_is_said_as_such() -> None:
    info = StreamInfo(StreamId("run-1", "kyoto", "a.log"), 0, 9, 0, True, (Unread(9, 0, WHY),))
    assert unread([info]) == [f"run-1/kyoto: more of a.log {WHY}"]
