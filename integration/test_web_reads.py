"""The page's server over HTTP: its answers about runs and logs, live and at any place."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.client import Client
from flarelog.model import StreamId
from flarelog.render.counting import BLOCK
from integration.harness.pages import STREAM, Page, closing, tailing
from integration.harness.places import FLARELOG, LOG, RUN, SITE, Place, Receiver, append, lines, until

SAMPLES = Path(__file__).parent.parent.parent / "shared" / "samples" / "train"


def numbered(first: int, last: int) -> bytes:
    return b"".join(b"2026-11-23 08:00:00,%03d - INFO - line %d\n" % (n % 1000, n) for n in range(first, last))


@pytest.fixture(autouse=True)
def closed(place: Place) -> Iterator[None]:
    with closing(place):
        yield


@pytest.fixture
def receiver(place: Place) -> Receiver:
    return place.serve("--idle-timeout", "60")


def texts(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [row[3] for row in answer.json()["rows"]]


def windowed(client: httpx.Client, **asked: Any) -> dict[str, Any]:
    answer = client.post("/api/window", json={"stream": STREAM, **asked})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("way", ["receiver", pytest.param("store", marks=pytest.mark.soak)])
def test_what_is_there_is_shown_as_logs_shows_it(place: Place, receiver: Receiver, way: str) -> None:
    data = b"".join(path.read_bytes() for path in sorted(SAMPLES.glob("*.log"))) if SAMPLES.exists() else b""
    data += lines(1000) + b"\x1b[31mred\x1b[0m\nTraceback (most recent call last):\n  File x\nValueError: no\n"
    append(place.log, data)
    assert place.once(receiver).process.returncode == 0
    where = ("--receiver", receiver.address) if way == "receiver" else ("--store", str(receiver.store))
    client = Page(place, *where).browser()
    shown = place.call("logs", RUN, *where, "--bars", "off", "--color", "never", "--prefix", "off").printed.split("\n")[
        :-1
    ]

    rows, at = [], 0
    while True:  # down, page by page
        found = windowed(client, at=at, rows=170)
        rows += [row[3] for row in found["rows"]]
        if found["to"] in (at, len(data)):
            break
        at = found["to"]
    assert rows == shown

    up: list[str] = []
    at = len(data)
    found = windowed(client, end=True, before=90)
    while found["rows"]:  # and up again
        up = [row[3] for row in found["rows"] if row[1] < at or at == len(data)] + up
        at = found["from"]
        if not at:
            break
        found = windowed(client, at=at, rows=0, before=90)
    assert up == shown

    (listed,) = client.get("/api/runs").json()["runs"]
    assert (listed["run"], listed["bytes"], listed["sites"]) == (RUN, len(data), 1)
    (site,) = client.get("/api/run", params={"run": RUN}).json()["sites"]
    assert (site["site"], site["standing"], site["words"]) == (SITE, "complete", "ended: receipt")
    assert site["streams"][0]["last"] == "ValueError: no"
    raw = client.get("/api/raw", params={**STREAM, "from": 10, "to": 5000})
    assert (raw.content, raw.headers["content-type"]) == (data[10:5000], "application/octet-stream")
    first = until(lambda: client.get("/api/first-error", params={"run": RUN}).json()["found"], "a first error is found")
    assert data[first["offset"] : first["end"]].endswith(b"\n")
    command = client.get("/api/command", params={**STREAM, "from": first["offset"]}).json()["command"]
    done = subprocess.run(
        [*FLARELOG, *command.split()[1:], "-o", "raw"], capture_output=True, check=True, cwd=place.directory
    )
    assert done.stdout == data[first["offset"] :]


def test_lines_have_numbers_as_soon_as_they_are_counted(place: Place, receiver: Receiver) -> None:
    append(place.log, numbered(1, 5001))
    place.once(receiver)
    client = Page(place, "--receiver", receiver.address, "--cache", str(place.directory / "cache")).browser()
    until(lambda: windowed(client, end=True, before=2)["line"] == 5000, "the last line has its number")
    for number in (1, 2, 1234, 5000):
        found = windowed(client, line=number, rows=1)
        assert (found["line"], found["about"], found["rows"][0][3][-9:].split()[-1]) == (number, False, str(number))


def test_a_receiver_counts_lines_and_sends_none_of_them(place: Place, receiver: Receiver) -> None:
    data = b"\x1b[31m" + numbered(1, 20_001)
    append(place.log, data)
    place.once(receiver)
    middle, end = len(data) // 2, len(data) - 5

    async def counted(start: int, digest: int) -> list[tuple[int, Any]]:
        async with Client(receiver.address) as client:
            return [found async for found in client.counted(StreamId(RUN, SITE, LOG), start, digest, end)]

    ((begin, said),) = asyncio.run(counted(0, EMPTY_DIGEST))
    assert (begin, said.end, said.digest) == (0, end, extend(EMPTY_DIGEST, data[:end]))
    assert said.lines == tuple(data.count(b"\n", at, min(end, at + BLOCK)) for at in range(0, end, BLOCK))
    assert said.colours == (b"\x1b[31m", *[b""] * (len(said.lines) - 1))
    ((begin, rest),) = asyncio.run(counted(middle, extend(EMPTY_DIGEST, data[:middle])))
    assert (begin, rest.end, rest.digest, sum(rest.lines)) == (middle, end, said.digest, data.count(b"\n", middle, end))
    ((_, behind),) = asyncio.run(counted(3, extend(EMPTY_DIGEST, data[:3])))  # inside the colour's sequence
    assert (behind.lines, behind.colours) == (said.lines, said.colours)


def test_a_tail_goes_on_where_a_window_ended_and_gives_each_row_once(place: Place, receiver: Receiver) -> None:
    append(place.log, numbered(0, 500))
    place.sidecar(receiver)
    receiver.gets(numbered(0, 500))
    client = Page(place, "--receiver", receiver.address).browser()
    window = windowed(client, end=True, before=100)
    with tailing(client, {**STREAM, "from": window["to"]}) as tail:
        for n in range(500, 1500, 100):
            append(place.log, numbered(n, n + 100))
        append(place.log, b"step 10%\rstep 20%")
        until(lambda: len(tail.texts()) == 1000, lambda: f"all rows come, not {len(tail.texts())}")
        until(lambda: any(bars and bars[-1][3] == "step 20%" for bars in tail.says("bars")), "the bar is drawn")
        assert tail.given == 1000
        append(place.log, b"\rstep 30%\nend\n")
        until(lambda: tail.texts()[-2:] == ["step 30%", "end"], "the bar becomes a row")
        until(lambda: tail.says("bars")[-1] == [], "no bar is drawn any more")
    shown = [row[3] for row in window["rows"]] + tail.texts()
    assert shown == [line.decode() for line in (numbered(400, 1500) + b"step 30%\nend\n").split(b"\n")[:-1]]
    assert tail.at[0] == len(receiver.stored())


@pytest.mark.parametrize("dies", ["receiver", pytest.param("page", marks=pytest.mark.soak)])
def test_what_dies_and_returns_costs_no_row_and_doubles_none(place: Place, receiver: Receiver, dies: str) -> None:
    append(place.log, numbered(0, 100))
    place.sidecar(receiver)
    receiver.gets(numbered(0, 100))
    page = Page(place, "--receiver", receiver.address)
    client = page.browser()
    with tailing(client, {**STREAM, "from": 0}) as tail:
        until(lambda: len(tail.texts()) == 100, "the first rows come")
        (receiver.program if dies == "receiver" else page.program).kill()
        began = time.monotonic()
        append(place.log, numbered(100, 200))
        if dies == "receiver":
            until(lambda: tail.says("lost"), "the loss is said")
            assert time.monotonic() - began < 10
            receiver = receiver.again("--idle-timeout", "60")
            until(lambda: tail.says("back"), "that it is back is said")
        else:
            until(lambda: tail.ended, "the tail ends with the page")
            page = Page(place, "--receiver", receiver.address, listen=page.address)
            client = page.browser()
        goes_on = tailing(client, {**STREAM, "from": tail.at[0]}, before=tail)
        with contextlib.nullcontext(tail) if dies == "receiver" else goes_on as tail:
            until(lambda: len(tail.texts()) == 200, lambda: f"all rows come, not {len(tail.texts())}")
            append(place.log, numbered(200, 300))
            until(lambda: len(tail.texts()) == 300, lambda: f"all rows come, not {len(tail.texts())}")
            assert tail.texts() == [line.decode() for line in numbered(0, 300).split(b"\n")[:-1]]
            assert tail.given == 300


def test_a_sealed_log_ends_its_tail(place: Place, receiver: Receiver) -> None:
    append(place.log, numbered(0, 300))
    place.once(receiver)
    client = Page(place, "--receiver", receiver.address).browser()
    with tailing(client, {**STREAM, "from": 0}) as tail:
        until(lambda: tail.ended, "the tail ends")
    assert (len(tail.texts()), tail.says("done")) == (300, [[0]])
    notes = [row for said in tail.said for row in said.get("rows", ()) if row[4] & 2]
    assert len(notes) == 1
    assert "its receipt is complete" in notes[0][3]


def test_a_search_finds_what_grep_finds(place: Place, receiver: Receiver) -> None:
    data = numbered(0, 3000) + lines(2000)
    append(place.log, data)
    place.once(receiver)
    client = Page(place, "--receiver", receiver.address).browser()

    def hits(**asked: Any) -> list[list[Any]]:
        answer = client.post("/api/search", json={"run": RUN, "limit": 5000, **asked})
        assert answer.status_code == 200, answer.text
        said = [json.loads(line) for line in answer.text.splitlines()]
        assert said[-1] == {"done": True, "capped": False, "cut": 0}
        return [hit for one in said for hit in one.get("hits", ())]

    found = hits(literals=["line 29"])
    assert [data[hit[1] : hit[2]] for hit in found] == [line for line in data.splitlines(True) if b"line 29" in line]
    assert len(hits(regex=r"line 2\d{3}$")) == 1000
    assert len(hits(literals=["LINE 29"], ignore=True)) == len(found)
    assert hits(literals=["no such text"]) == []
    began = time.monotonic()
    client.post("/api/search", json={"run": RUN, "regex": "(a+)+$"})
    assert time.monotonic() - began < 30  # a backtracking engine would take hours


def test_a_search_gives_the_first_hits_of_a_part_of_a_log_or_the_last_and_tells_whether_there_are_more(
    place: Place, receiver: Receiver
) -> None:
    data = numbered(0, 1000)
    append(place.log, data)
    place.once(receiver)
    client = Page(place, "--receiver", receiver.address).browser()
    begins = [n for n, byte in enumerate(b"\n" + data[:-1]) if byte == ord("\n")]

    def hits(**asked: Any) -> tuple[list[int], bool]:
        wanted = {"run": RUN, "streams": [{"site": SITE, "log": LOG}], "literals": ["line"], **asked}
        answer = client.post("/api/search", json=wanted)
        assert answer.status_code == 200, answer.text
        said = [json.loads(line) for line in answer.text.splitlines()]
        return [begins.index(hit[1]) for one in said for hit in one.get("hits", ())], said[-1]["capped"]

    part = {"from": begins[200], "to": begins[300]}
    assert hits(**part, limit=100) == (list(range(200, 300)), False)
    assert hits(**part, limit=99) == (list(range(200, 299)), True)
    assert hits(**part, limit=100, last=True) == (list(range(200, 300)), False)
    assert hits(**part, limit=99, last=True) == (list(range(201, 300)), True)
    assert hits(**{**part, "to": 0}) == ([], False)


def test_logs_are_merged_by_their_lines_times(place: Place, receiver: Receiver) -> None:
    for site in ("site-1", "site-2"):
        root = place.directory / site
        root.mkdir()
        odd = site == "site-2"
        text = "".join(f"2026-11-23 08:{n // 60:02}:{n % 60:02} - INFO - {site} {n}\n" for n in range(odd, 400, 2))
        (root / LOG).write_text(text)
        place.sidecar(receiver, "--once", root=root, site=site).ends()
    client = Page(place, "--receiver", receiver.address).browser()
    asked = {"run": RUN, "streams": [{"site": "site-1", "log": LOG}, {"site": "site-2", "log": LOG}], "rows": 37}

    def page(**more: Any) -> dict[str, Any]:
        answer = client.post("/api/merged", json={**asked, **more})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    numbers: list[int] = []
    found = page(end=True)
    while found["rows"]:
        numbers = [int(row[3].split()[-1]) for row in found["rows"] if not row[4] & 2] + numbers
        found = page(before=found["before"])
    assert numbers == list(range(400))
    numbers, found = [], page(after=[0, 0])
    while found["rows"]:
        numbers += [int(row[3].split()[-1]) for row in found["rows"] if not row[4] & 2]
        found = page(after=found["after"])
    assert numbers == list(range(400))


def test_the_note_at_the_end_of_a_log_stays_with_its_last_line(place: Place, receiver: Receiver) -> None:
    for site, last in (("site-1", 10), ("site-2", 400)):
        root = place.directory / site
        root.mkdir()
        (root / LOG).write_text("".join(f"2026-11-23 08:{n // 60:02}:{n % 60:02} {site} {n}\n" for n in range(last)))
        place.sidecar(receiver, "--once", root=root, site=site).ends()
    client = Page(place, "--receiver", receiver.address).browser()
    asked = {"run": RUN, "streams": [{"site": site, "log": LOG} for site in ("site-1", "site-2")]}
    at = int(datetime(2026, 11, 23, 8, 1, 40, tzinfo=UTC).timestamp()) * 1000
    answer = client.post("/api/merged", json={**asked, "time": at, "rows": 10}).json()
    assert [row[3].split()[-1] for row in answer["rows"]] == [str(n) for n in range(100, 110)]
    before = client.post("/api/merged", json={**asked, "before": answer["before"], "rows": 1000}).json()["rows"]
    assert [row[0] for row in before if row[4] & 2] == [0]
    ends = [number for number, row in enumerate(before) if row[0] == 0]
    assert before[ends[-1]][4] & 2
    assert ends[-1] <= 20


def test_logs_are_merged_by_arrival_and_shown_over_time(place: Place, receiver: Receiver) -> None:
    append(place.log, b"from one\n")
    place.sidecar(receiver)
    receiver.gets(b"from one\n")
    other = place.directory / "other"
    other.mkdir()
    (other / LOG).write_bytes(b"from two\n")
    place.sidecar(receiver, root=other, site="site-2")
    receiver.gets(b"from two\n", site="site-2")
    until(lambda: receiver.streams()[f"site-2/{LOG}"]["committed"], "it has arrived: its time is that of its commit")
    append(place.log, b"one again\n")
    receiver.gets(b"from one\none again\n")
    client = Page(place, "--receiver", receiver.address).browser()
    named = [{"site": "site-2", "log": LOG}, {"site": "site-1", "log": LOG}]
    asked = {"run": RUN, "streams": named, "order": "arrival", "after": [0, 0], "rows": 10}
    assert texts(client.post("/api/merged", json=asked)) == ["from one", "from two", "one again"]
    lanes = client.get("/api/lanes", params={"run": RUN, "buckets": 50}).json()
    assert [lane["site"] for lane in lanes["lanes"]] == ["site-1", "site-2"]
    assert [sum(lane["density"]) for lane in lanes["lanes"]] == [19, 9]


@pytest.mark.soak
def test_a_tab_that_takes_nothing_holds_nobody_up(place: Place, receiver: Receiver) -> None:
    append(place.log, b"begin\n")
    place.sidecar(receiver)
    receiver.gets(b"begin\n")
    page = Page(place, "--receiver", receiver.address)
    stalled, reads = page.browser(), page.browser()
    data = numbered(0, 100_000)
    with stalled.stream("POST", "/api/tail", json={"streams": [{**STREAM, "from": 0}]}) as answer:
        pieces = answer.iter_raw()
        got = next(pieces)
        with tailing(reads, {**STREAM, "from": 0}) as tail:
            append(place.log, data)
            until(lambda: len(tail.texts()) == 100_001, lambda: f"all rows come, not {len(tail.texts())}")
        memory = Path(f"/proc/{page.program.process.pid}/status").read_text()
        assert int(memory.split("VmHWM:")[1].split()[0]) < 150 << 10, "kB, of which most is Python"
        while b"line 99999" not in got[-(1 << 16) :] or not got.endswith(b"\n"):  # the slow reader gets all
            got += next(pieces)
    rows = [row for line in got.split(b"\n") if line.startswith(b'{"rows"') for row in json.loads(line)["rows"]]
    assert [row[3] for row in rows] == ["begin", *(line.decode() for line in data.split(b"\n")[:-1])]


def test_the_page_ends_when_it_is_told_to_though_a_tail_is_open(place: Place, receiver: Receiver) -> None:
    append(place.log, numbered(0, 10))
    place.sidecar(receiver)
    receiver.gets(numbered(0, 10))
    page = Page(place, "--receiver", receiver.address)
    with tailing(page.browser(), {**STREAM, "from": 0}) as tail:
        until(lambda: len(tail.texts()) == 10, "rows come")
        page.program.tell(signal.SIGTERM)
        assert page.program.ends() == 0, page.program.talk()
    assert page.program.complaints() == []
