"""The health of machines as people read it: figures with their limits, and a warning before a resource runs out."""

from __future__ import annotations

import pytest

from flarelog.model import OTHERS, Health, State, StreamId, StreamInfo, unnamed
from flarelog.viewers.health import few_missing, figures, table, unread, warnings
from tests.rows import together

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


def missing(log: str, why: str = WHY, about: str = "") -> StreamInfo:
    return StreamInfo(StreamId("run-1", "kyoto", log), 0, 0, 0, False, unstored=why, about=about)


REST = missing("_-07e6d1b2", unnamed(1200), OTHERS)


@pytest.mark.parametrize(
    ("infos", "said"),
    [
        pytest.param([REST, missing("a.log")], ["a.log"], id="a-few-are-all-said-and-the-rest-last"),
        pytest.param(
            [REST, *(missing(f"{n:03}.log") for n in range(100))],
            ["000.log", "001.log", "002.log", "1,297 more files cannot be read: flarelog status names 97 of them"],
            id="of-many-that-status-does-not-name-either",
        ),
        pytest.param(
            [missing(f"{n:03}.log") for n in range(100)],
            ["000.log", "001.log", "002.log", "97 more files cannot be read: flarelog status names them"],
            id="of-many-that-status-names",
        ),
    ],
)
def test_a_few_of_the_files_that_cannot_be_read_are_said_and_how_many_more_there_are(
    infos: list[StreamInfo], said: list[str]
) -> None:
    sentences = [f"run-1/kyoto: {one} {WHY}" if one.endswith(".log") else one for one in said]
    if len(infos) == 2:
        sentences.append(f"run-1/kyoto: more files {unnamed(1200)}")
    assert few_missing(infos) == sentences
    assert unread(infos)[-1] == (
        f"run-1/kyoto: more files {unnamed(1200)}" if REST in infos else sentences[0][:13] + f"099.log {WHY}"
    )


@together(
    ("why", "about", "count"),
    [
        pytest.param(unnamed(1200), OTHERS, 1200, id="as-many-as-the-site-said"),
        pytest.param(unnamed(1), OTHERS, 1, id="one"),
        pytest.param(unnamed(30), "a b.log", 1, id="a-file-with-a-name"),
        pytest.param(WHY, OTHERS, 1, id="nobody-said-how-many"),
        pytest.param(f"cannot be read: {'9' * 30}, which", OTHERS, 1, id="more-than-anybody-has"),
        pytest.param("cannot be read: ٣, which", OTHERS, 1, id="digits-that-nobody-writes"),
    ],
)
def test_what_stands_for_files_without_a_name_counts_as_many_as_they_are(why: str, about: str, count: int) -> None:
    assert missing("x", why, about).count == count
