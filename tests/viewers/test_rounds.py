"""Rounds in a server's log, as NVFlare and Flower write them."""

from __future__ import annotations

from flarelog.lines.line import Line
from flarelog.lines.times import stamp
from flarelog.model import StreamId
from flarelog.render.sieving import Sieving
from flarelog.viewers.rounds import SIEVE, Round, Rounds, RoundSearch, tellers
from tests.rows import together

SERVER = StreamId("run-1", "server", "log.txt")
NVFLARE = """\
2026-11-22 12:00:00,000 - SAG - INFO - [identity=server, run=r, wf=sag]: Round 0 started.
2026-11-22 12:00:04,000 - ServerRunner - INFO - [peer=site-2]: got result from client site-2 for task: name=train, id=1
2026-11-22 12:00:09,000 - ServerRunner - INFO - [peer=site-1]: got result from client site-1 for task: name=train, id=2
2026-11-22 12:00:10,000 - SAG - INFO - [identity=server, run=r, wf=sag]: Round 0 finished.
2026-11-22 12:00:12,000 - FedAvg - INFO - ---------- Round 1 started. ----------
2026-11-22 12:00:30,000 - ServerRunner - INFO - [peer=site-2]: got result from client site-2 for task: name=train, id=3
2026-11-22 12:00:40,000 - FedAvg - INFO - Round 2 started.
"""
FLOWER = """\
INFO :      Starting Flower ServerApp, config: num_rounds=2, no round_timeout
INFO :      [ROUND 1/2]
INFO :      configure_fit: strategy sampled 2 clients (out of 2)
\x1b[92mINFO \x1b[0m:      [ROUND 2]
"""
NOON = stamp("2026-11-22 12:00:00", zone=0)


def told(text: str, end: int = 0, *, stamped: bool = True) -> list[Round]:
    assert NOON is not None
    noon = NOON
    rounds, offset, lines = Rounds(SERVER, lambda line: stamp(line.text) if stamped else noon + line.offset), 0, []
    for line in text.splitlines(keepends=True):
        lines.append(Line(offset, offset + len(line), line.rstrip("\n"), ""))
        offset += len(line)
    rounds.feed(lines)
    return rounds.rounds(end and noon // 1_000_000 + end)


def test_rounds_of_nvflare_have_a_begin_an_end_and_the_site_that_came_last() -> None:
    assert NOON is not None
    noon = NOON // 1_000_000
    found = told(NVFLARE, 60_000)
    assert [(one.name, one.begin - noon, one.end - noon, one.slowest, one.waited) for one in found] == [
        ("Round 0", 0, 10_000, "site-1", 9_000),
        ("Round 1", 12_000, 40_000, "site-2", 18_000),
        ("Round 2", 40_000, 60_000, "", 0),
    ]
    assert told(NVFLARE)[-1].end == 0


def test_rounds_of_flower_have_the_times_at_which_their_lines_came() -> None:
    assert [(one.name, one.slowest) for one in told(FLOWER, 1, stamped=False)] == [("Round 1", ""), ("Round 2", "")]


@together(
    "line",
    [
        "2026-11-22 12:00:00 - Round 1 started",
        "2026-11-22 12:00:00 - Roundabout 1 started.",
        "2026-11-22 12:00:00 - [ROUND x/3]",
        "2026-11-22 12:00:00 - [ROUND 1/3",
        "2026-11-22 12:00:00 - Round 12345678901 started.",
        "no time: Round 1 started.",
        "2026-11-22 12:00:00 " + "x" * 2000 + " Round 1 started.",
    ],
)
def test_what_is_no_begin_of_a_round(line: str) -> None:
    assert told(line) == []


def test_no_line_that_tells_of_a_round_is_left_out_early() -> None:
    sieving = Sieving(SIEVE, 0)
    raw = (NVFLARE + FLOWER).encode()
    kept = b"".join(bytes(piece) for _, piece in [*sieving.feed(0, raw), *sieving.close()])
    assert [one.name for one in told(kept.decode())] == [one.name for one in told(NVFLARE + FLOWER)]
    assert len(kept) < len(raw)


def test_a_server_tells_of_rounds_and_where_none_is_called_so_each_log_may() -> None:
    site = StreamId("run-1", "site-1", "log.txt")
    assert tellers([site, SERVER]) == [SERVER]
    assert tellers([site]) == [site]


def test_the_log_that_tells_of_most_rounds_is_believed() -> None:
    search, other = RoundSearch(lambda stream, line: 10**18), StreamId("run-1", "server-2", "log.txt")
    search.known([SERVER, other])
    assert search.rounds() == []
    search.show([(other, [Line(0, 1, "Round 1 started.", "")])])
    assert [one.name for one in search.rounds()] == ["Round 1"]
