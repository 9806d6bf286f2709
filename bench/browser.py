"""Measure the page in Chromium.

A time is what a user sees: from the request, or from the write of a line, to the frame that shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import shutil
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from bench import large, latency, processes, tab
from bench.results import Row
from flarelog.model import StreamId
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.web import files

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

LOG = "log.txt"
SITES = 50
LAST = "the last line of all"

LOADS, JUMPS, WRITES = 5, 20, 20  # a round
MANY = 1000, 10  # sites of a run with very many logs, and logs a site
CROWD, RATE, LOOK, TIMED = 50, 10, 5, 100  # sites, lines a second and site, viewers of all sites, timed lines
VIEWERS = 20
PATIENCE = 120.0  # seconds
SERVED = (files.INDEX, files.PAGE, files.STYLE, "icon.svg", "matcher.js")  # the files that a browser loads
# In the page: record when rows that begin with "line " are drawn; return when the row *text* was, in ms since 1970.
_NOTED = """() => {
    const list = document.querySelector("log-list");
    const append = list.lines.append.bind(list.lines);
    window.shown = new Map();
    let come = [];
    list.lines.append = (rows) => {
        come.push(...rows.map((row) => row[3]).filter((text) => text.startsWith("line ")));
        return append(rows);
    };
    list.addEventListener("drawn", () => {
        const drawn = come.splice(0);
        setTimeout(() => drawn.forEach((text) => window.shown.set(text, Date.now())));
    });
}"""
_SHOWN = """(text) => new Promise((done) => {
    const look = () => window.shown.has(text) ? done(window.shown.get(text)) : setTimeout(look, 5);
    look();
})"""
# In the page: when all *sites* of a run are listed, in ms since the request of the page.
_WHOLE = """(sites) => new Promise((done) => {
    const look = () => {
        const { sites: listed, listing } = document.querySelector("run-page").record;
        return listed.length >= sites && !listing ? done(performance.now()) : setTimeout(look, 10);
    };
    look();
})"""
_COUNT = """() => {
    const { lines } = document.querySelector("log-list");
    const append = lines.append.bind(lines);
    window.counted = window.frames = 0;
    window.ends = [];
    const frame = () => (window.frames += 1, requestAnimationFrame(frame));
    requestAnimationFrame(frame);
    lines.append = (rows) => {
        const fresh = append(rows);
        window.counted += fresh;
        window.ends.push(performance.now());
        return fresh;
    };
}"""
# In the page: when the row that ends with *text* is drawn, in ms since 1970.
_PAINTED = """(text) => new Promise((done) => {
    const look = () => [...document.querySelectorAll("log-list .row")].some((row) => row.row[3].endsWith(text))
        ? setTimeout(() => done(Date.now())) : requestAnimationFrame(look);
    look();
})"""


def measure(places: processes.Places, length: int, lines: int, rounds: int) -> list[Row]:
    """Rows of all measurements. *length*: bytes of the large log; *lines*: live lines for a tab. Raises BenchError."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise processes.BenchError("no Chromium is installed: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            rows = [_size(), *_paints(browser, places, rounds), *large.measure(browser, places, length, rounds)]
            rows += [*_live(browser, places, lines, rounds), *_crowded(browser, places, rounds)]
            return [*rows, *_many(browser, places, rounds)]
        finally:
            browser.close()


def _size() -> Row:
    size = sum(len(gzip.compress(files.files()[name].data, 9)) for name in SERVED)
    return Row("page, all of it", "gzipped", "kB", [size / 1000])


# --- first paint


def _paints(browser: Browser, places: processes.Places, rounds: int) -> list[Row]:
    wanted = {
        f"{SITES} sites": ("/run/bench", ".sites .body .line", SITES),
        "the last rows of a log": (f"/run/bench/site-7/{LOG}", "log-list .row", 30),
    }
    taken: dict[str, list[float]] = {}
    lines = tab.plain(2000)
    with processes.scratch(places.memory) as work, processes.serve(work, "memory") as (_, receiver):
        for number in range(SITES):
            root = work / f"root-{number}"
            root.mkdir()
            (root / LOG).write_bytes(lines)
            tab.stored(work, receiver, root, f"site-{number}")
        with tab.page_of(work, "--receiver", receiver) as shown, tab.session(browser, shown) as (_, state):
            for _ in range(rounds):
                for name, (path, what, count) in wanted.items():
                    with browser.new_context(storage_state=state) as fresh:  # its cache is empty
                        page = fresh.new_page()
                        times = [tab.drawn(page, f"{shown.url}{path}", what, count) for _ in range(1 + LOADS)]
                    taken.setdefault(f"{name}, for the first time", []).append(times[0])
                    taken.setdefault(name, []).append(max(times[1:]))
    return [Row("page, first paint", name, "ms", samples) for name, samples in taken.items()]


# --- a log that grows


def _live(browser: Browser, places: processes.Places, count: int, rounds: int) -> list[Row]:
    taken: dict[tuple[str, str, str], list[float]] = {}
    for _ in range(rounds):
        with _growing(places) as (shown, _, log), tab.session(browser, shown) as (context, _):
            for key, value in _watched(browser, context, shown, log, count).items():
                taken.setdefault(key, []).append(value)
    return [Row(*key, samples) for key, samples in taken.items()]


@contextlib.contextmanager
def _growing(places: processes.Places) -> Iterator[tuple[tab.Shown, str, Path]]:
    """Yield a page, its receiver's address, and a log of a few lines that a sidecar sends."""
    with processes.scratch(places.memory) as work, processes.serve(work, "memory") as (receiver, address):
        log, stored = work / "root" / LOG, work / "store" / "bench" / "site" / LOG
        log.parent.mkdir()
        log.write_bytes(begin := tab.plain(500))
        with processes.sidecar(work, address, log.parent), tab.page_of(work, "--receiver", address) as shown:
            processes.wait_for(lambda: processes.size(stored) == len(begin), 30, "the first lines", receiver)
            yield shown, address, log


def _watched(
    browser: Browser, context: BrowserContext, shown: tab.Shown, log: Path, count: int
) -> dict[tuple[str, str, str], float]:
    """Measure a tab with lines timed one by one and with *count* lines at once; then the memory of VIEWERS tabs."""
    page, path = context.new_page(), f"/run/bench/site/{LOG}"
    tab.drawn(page, f"{shown.url}{path}", "log-list .row", 30)
    delays = []
    for number in range(WRITES):
        text = f"line {number} of those whose way is timed"
        written = time.time()
        tab.append(log, f"{text}\n".encode())
        delays.append(page.evaluate(_PAINTED, text) - written * 1e3)
    page.evaluate(_COUNT)
    tab.append(log, tab.plain(count))
    processes.wait_for(lambda: page.evaluate("counted") >= count, PATIENCE, "all rows", shown.web, every=0.1)
    ends, frames = page.evaluate("ends"), page.evaluate("frames")
    session = context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    elements = page.evaluate('document.querySelectorAll("*").length')
    with contextlib.ExitStack() as stack:
        for _ in range(VIEWERS - 1):
            tab.visitor(stack, browser, shown, path)
        memory = processes.memory_mib(shown.web)
    seconds = (ends[-1] - ends[0]) / 1e3
    return {
        ("page, live", "one tab", "rows/s"): count / seconds,
        ("page, live", "frames meanwhile", "frames/s"): frames / seconds,
        ("page, live", "a line, written to painted, p50", "ms"): statistics.median(delays),
        ("page, live", "a line, written to painted, longest", "ms"): max(delays),
        ("page, memory", "heap of the tab after all rows", "MB"): metrics["JSHeapUsedSize"] / 1e6,
        ("page, memory", "elements in the document", "elements"): elements,
        ("page, memory", f"web process, {VIEWERS} viewers", "MiB"): memory,
    }


# --- all sites in one list


def _crowded(browser: Browser, places: processes.Places, rounds: int) -> list[Row]:
    """Time lines of one site, from their write to the frame in which one of LOOK tabs shows them. Each tab shows the
    lines of all sites by arrival.
    """
    taken: dict[str, list[float]] = {"p50": [], "p99": []}
    for _ in range(rounds):
        with (
            _growing(places) as (shown, address, log),
            contextlib.ExitStack() as stack,
        ):
            work = log.parent.parent
            ready, port = work / "crowd.ready", address.rpartition(":")[2]
            command = ("bench.crowd", ready, port, 0, CROWD, RATE)
            crowd = stack.enter_context(processes.python(*map(str, command), talk=work / "crowd.err"))
            processes.wait_for(ready.exists, 60, "all sites", crowd, shown.web, every=0.05)
            pages = [tab.visitor(stack, browser, shown, "/run/bench?merged=arrival") for _ in range(LOOK)]
            for page in pages:
                page.evaluate(_NOTED)
            delays = []
            for number in range(TIMED):
                text = f"line {number} among those of all sites"
                written = time.time()
                tab.append(log, f"{text}\n".encode())
                delays.append(pages[number % LOOK].evaluate(_SHOWN, text) - written * 1e3)
            taken["p50"].append(latency.percentile(delays, 0.5))
            taken["p99"].append(latency.percentile(delays, 0.99))
    what = f"page, {CROWD} sites x {RATE} lines/s, {LOOK} viewers"
    return [Row(what, f"a line, written to painted, {share}", "ms", samples) for share, samples in taken.items()]


def _many(browser: Browser, places: processes.Places, rounds: int) -> list[Row]:
    """Time the page of a run with very many logs, opened for the first time since its server started."""
    sites, logs = MANY
    taken: dict[str, list[float]] = {"the first sites": [], "all sites": []}
    with processes.scratch(places.memory) as work:
        with ThreadPoolExecutor(1) as thread:  # playwright runs an event loop in this thread
            thread.submit(asyncio.run, _filled(work / "store", sites, logs)).result()
        with processes.serve(work, "memory") as (_, receiver):
            for number in range(rounds):
                shown = tab.page_of(work, "--receiver", receiver, name=f"web-{number}")
                with shown as web, tab.session(browser, web) as (context, _):
                    page = context.new_page()
                    first = tab.drawn(page, f"{web.url}/run/bench", ".sites .body .line", 10)
                    taken["the first sites"].append(first)
                    taken["all sites"].append(page.evaluate(_WHOLE, sites))
    return [Row(f"page, a run with {sites * logs:,} logs", of, "ms", samples) for of, samples in taken.items()]


async def _filled(root: Path, sites: int, logs: int) -> None:
    data = tab.plain(100)
    async with LocalStore(root, "memory") as store:
        for number in range(sites * logs):
            stream = StreamId("bench", f"site-{number // logs}", f"rank-{number % logs}.log")
            appender = await store.appender(stream, b"bench")
            await appender.append(0, data)
            await appender.close()
