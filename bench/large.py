"""A log of a gigabyte in the page, beside the usual alternatives, less and lnav.

Each candidate shows the same file; the page reads it from a receiver, and once from the store. less and lnav run in a
terminal of 50 lines of 200 columns whose output is only read. A missing program gets no row; a time over PATIENCE
counts as PATIENCE. Scrolling is also measured in a log of one progress bar, where a screen is megabytes.
"""

from __future__ import annotations

import fcntl
import os
import pty
import random
import select
import shutil
import signal
import statistics
import struct
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import content, processes, tab
from bench.results import Row

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LOG, BARS = "log.txt", "bars.txt"
LAST = "the last line of all"
JUMPS = 20  # a round
HIT = 31  # MiB of the log before the line of the timed search
REDRAWN = 64 << 20  # bytes of the log of bars
PATIENCE = 120.0  # seconds
_JUMP = """(share) => new Promise(async (done) => {
    const page = document.querySelector("log-page");
    const begun = performance.now();
    await page.go({ share });
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
})"""
_NUMBERED = """() => new Promise((done) => {
    const look = () => {
        const { lines } = document.querySelector("log-list");
        return lines.number !== null && !lines.about ? done(performance.now()) : setTimeout(look, 10);
    };
    look();
})"""
_SEARCH = """async (texts) => {
    const begun = performance.now();
    const body = JSON.stringify({ run: "bench", literals: texts, streams: [{ site: "site", log: "log.txt" }] });
    const headers = { "Content-Type": "application/json" };
    const answer = await (await fetch("/api/search", { method: "POST", headers, body })).text();
    return [performance.now() - begun, answer.split("\\n").filter((line) => line.includes('"hits"')).length];
}"""
# In the page: ms from a search to its first hit, for *first*; and from aborting a search of the whole log to the end of
# the next one, both for *last*.
_GIVEN_UP = """async ([first, last]) => {
    const headers = { "Content-Type": "application/json" };
    const ask = async (text, signal, over) => {
        const body = JSON.stringify({ run: "bench", literals: [text], streams: [{ site: "site", log: "log.txt" }] });
        const reader = (await fetch("/api/search", { method: "POST", headers, body, signal })).body.getReader();
        const decoder = new TextDecoder();
        let said = "";
        while (!said.includes(over)) said += decoder.decode((await reader.read()).value, { stream: true });
        return reader;
    };
    const begun = performance.now();
    const reader = await ask(first, undefined, '"hits"');
    const taken = performance.now() - begun;
    await reader.cancel();
    const given_up = new AbortController();
    await ask(last, given_up.signal, '"progress"');
    await new Promise((done) => setTimeout(done, 100));
    given_up.abort();
    const ended = performance.now();
    await (await ask(last, undefined, '"streams"')).cancel();
    return [taken, performance.now() - ended];
}"""


def measure(browser: Browser, places: processes.Places, length: int, rounds: int) -> list[Row]:
    taken: dict[tuple[str, str, str], list[float]] = {}
    size = processes.mib(length)

    def add(what: str, of: str, unit: str, value: float | None) -> None:
        if value is not None:
            taken.setdefault((what, of, unit), []).append(value)

    with processes.scratch(places.memory) as work, processes.serve(work, "memory") as (_, receiver):
        root = work / "root"
        root.mkdir()
        content.write(root / LOG, length)
        with open(root / LOG, "ab") as file:
            file.write(f"2025-06-02 00:00:00,000 - trainer - INFO - {LAST}\n".encode())
        content.bars(root / BARS, REDRAWN)
        tab.stored(work, receiver, root, "site")
        path, rare = root / LOG, f"=== MiB {(length >> 20) - 2} ==="
        for number in range(rounds):
            stored = ("--store", work / "store")
            for of, where in (("page", ("--receiver", receiver)), ("page, --store", stored)):
                with (
                    tab.page_of(work, *where, name=f"web-{number}{where[0]}") as shown,
                    tab.session(browser, shown) as (tabs, _),
                ):
                    page = tabs.new_page()
                    address = f"{shown.url}/run/bench/site/{LOG}"
                    add(f"last screen of {size}", of, "ms", tab.drawn(page, address, "log-list .row", 30))
                    add(f"line numbers of {size}", of, "ms", page.evaluate(_NUMBERED))
                    rng = random.Random(number)
                    jumps = sorted(page.evaluate(_JUMP, rng.random()) for _ in range(JUMPS))
                    suffix = of.removeprefix("page")
                    add("page, a jump", f"p95{suffix}", "ms", jumps[int(JUMPS * 0.95) - 1])
                    found: tuple[float, int] = page.evaluate(_SEARCH, [rare])
                    if found[1] != 1:
                        raise processes.BenchError(f"the page found {found[1]} lines")
                    add(f"a search of {size}", of, "ms", found[0])
                    first, given_up = page.evaluate(_GIVEN_UP, [f"=== MiB {HIT} ===", rare])
                    add("page, a search", f"first hit, behind {HIT} MiB{suffix}", "ms", first)
                    add("page, a search", f"given up, until the next one answers{suffix}", "ms", given_up)
                    tab.drawn(page, f"{shown.url}/run/bench/site/{BARS}", "log-list .row", 1)
                    jumps = sorted(page.evaluate(_JUMP, rng.random()) for _ in range(JUMPS))
                    add("page, a jump", f"pure bars, p95{suffix}", "ms", jumps[int(JUMPS * 0.95) - 1])
            less = ["less", "-n", "-R"]
            add(f"last screen of {size}", "less", "ms", _seen([*less, "+G", path], LAST))
            add(f"line numbers of {size}", "less", "ms", _seen(["less", "-N", "-R", "+G", path], LAST))
            add(f"a search of {size}", "less", "ms", _seen([*less, f"+/{rare}", path], rare))
            add(f"last screen of {size}", "lnav", "ms", _seen(["lnav", "-N", path], LAST))
    firsts = {what: statistics.median(samples) for (what, of, _), samples in taken.items() if of == "page"}
    return [
        Row(
            what, of, unit, samples,
            ratios={"this / page": statistics.median(samples) / firsts[what]} if of in ("less", "lnav") else {},
        )
        for (what, of, unit), samples in sorted(taken.items(), key=lambda each: each[0][0])
    ]  # fmt: skip


def _seen(command: list[str | Path], text: str) -> float | None:
    """Milliseconds from the start of *command* to *text* on its terminal, at most PATIENCE; None: not installed."""
    if shutil.which(str(command[0])) is None:
        return None
    began = time.perf_counter()
    pid, terminal = pty.fork()
    if not pid:
        os.execvpe(str(command[0]), list(map(str, command)), {**os.environ, "TERM": "xterm", "LESS": ""})
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        said = b""
        while text.encode() not in said:
            if not select.select([terminal], [], [], max(0.0, began + PATIENCE - time.perf_counter()))[0]:
                return PATIENCE * 1e3
            said = said[-4096:] + os.read(terminal, 1 << 16)
        return (time.perf_counter() - began) * 1e3
    except OSError as error:
        raise processes.BenchError(f"{command[0]} ended: {error}") from error
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
