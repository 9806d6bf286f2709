"""``python -m bench.profile``: the counted cost of a MiB of bulk and of a single line; for docs/performance.md.

Rounds of one stream, durability memory, each with one instrument on both processes:

- ``strace -c``: system calls. It is attached after a first line was stored, so that no start is counted.
- ``cProfile``: calls of Python functions, and the functions with the most time of their own. It slows the process. It
  counts from the start, without imports.
- ``perf``: CPU time by library and by symbol; bulk only.

A missing strace or perf is skipped. With --write the text goes between the page's marks.
"""

from __future__ import annotations

import contextlib
import os
import pstats
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench import bulk, content, page, processes

BYTES = 512 << 20
LINES = 2000  # single lines, each sent once the line before is stored
_MOST = 12  # rows of a table


@contextlib.contextmanager
def _round(work: Path, profiles: bool = False) -> Iterator[tuple[dict[str, processes.Process], Path]]:
    """Start both processes of a round; yield them by name, and the root."""
    root, ready, store = work / "root", work / "ready", work / "store"
    root.mkdir()
    (root / "first.txt").write_bytes(content.line(1))

    def command(name: str, *arguments: str | Path) -> tuple[str | Path, ...]:
        return ("bench.profiled", work / f"{name}.prof", *arguments) if profiles else ("flarelog", *arguments)

    serve = ("serve", "--store", store, "--listen", "127.0.0.1:0", "--ready-file", ready, "--durability", "memory")
    with processes.python(*command("receiver", *serve), talk=work / "serve.err") as receiver:
        to = ("--receiver", processes.address(receiver, ready), "--run", "bench", "--site", "site", "--root", root)
        with processes.python(*command("sender", "sidecar", *to), talk=work / "sidecar.err") as sender:
            first = store / "bench" / "site" / "first.txt"
            processes.wait_for(lambda: processes.size(first) > 0, 30, "the first line", receiver, sender)
            time.sleep(0.3)
            yield {"sender": sender, "receiver": receiver}, root


def _bulk(work: Path, root: Path, both: dict[str, processes.Process]) -> None:
    """Send the file beside *work*."""
    os.link(work.parent / "source", root / bulk.LOG)
    journal = work / "store" / "bench" / "site" / f".{bulk.LOG}.journal"
    stored = journal.with_name(bulk.LOG)
    processes.wait_for(lambda: processes.size(stored) > 0, 60, "the first byte", *both.values())
    both["sender"].terminate()
    processes.wait_for(lambda: bulk.sealed(journal), 300, "the seal", *both.values())


def _has(path: Path, length: int) -> bool:
    return processes.size(path) == length


def _lines(work: Path, root: Path, both: dict[str, processes.Process]) -> None:
    """Send LINES lines one by one."""
    stored, written = work / "store" / "bench" / "site" / "first.txt", processes.size(root / "first.txt")
    with open(root / "first.txt", "ab", buffering=0) as file:
        for _ in range(LINES):
            written += file.write(content.line(1))
            there = partial(_has, stored, written)
            processes.wait_for(there, 30, "a line", *both.values(), every=0.0005)
    both["sender"].terminate()
    processes.wait_for(lambda: both["sender"].poll() is not None, 30, "the end")


Send = Callable[[Path, Path, dict[str, processes.Process]], None]
_ROUNDS: tuple[tuple[str, int, Send], ...] = (("MiB of bulk", BYTES >> 20, _bulk), ("line by itself", LINES, _lines))


def _watched(send: Send, parent: Path, *instrument: str) -> dict[str, Path]:
    """Run *instrument* on each process, with its pid and an output file. Returns the output files by process."""
    with processes.scratch(parent) as work, _round(work) as (both, root):
        said = {name: parent / f"{instrument[0]}-{name}" for name in both}
        watching = []
        for name, process in both.items():
            words = [word.format(pid=process.pid, said=said[name]) for word in instrument]
            watching.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(1.0)
        try:
            send(work, root, both)
        finally:
            for one in watching:
                if one.poll() is None:
                    one.send_signal(signal.SIGINT)
            for one in watching:
                one.wait(30)
    return said


def system_calls(parent: Path) -> str:
    if shutil.which("strace") is None:
        return "strace is not here."
    table = ["| of | process | system calls | of them |", "|---|---|---|---|"]
    for what, count, send in _ROUNDS:
        for name, path in _watched(send, parent, "strace", "-c", "-f", "-p", "{pid}", "-o", "{said}").items():
            counts = {}
            for line in path.read_text().splitlines():
                words = line.split()
                if len(words) >= 5 and re.fullmatch(r"[\d.]+", words[0]) and words[-1] != "total":
                    counts[words[-1]] = int(words[3])
            most = sorted(counts.items(), key=lambda item: -item[1])[:6]
            parts = ", ".join(f"{call} {times / count:.2g}" for call, times in most)
            table.append(f"| a {what} | {name} | {sum(counts.values()) / count:.1f} | {parts} |")
    return "\n".join(table)


def python_calls(parent: Path) -> str:
    table = ["| of | process | calls of Python functions | most time of their own, and calls |", "|---|---|---|---|"]
    for what, count, send in _ROUNDS:
        with processes.scratch(parent) as work:
            with _round(work, profiles=True) as (both, root):
                send(work, root, both)
                processes.finish(both["sender"])
                both["receiver"].terminate()
                processes.finish(both["receiver"])
            for name in both:
                entries = pstats.Stats(str(work / f"{name}.prof")).stats  # type: ignore[attr-defined]
                busy = {key: entry for key, entry in entries.items() if "select.epoll" not in key[2]}
                calls, spent = (sum(entry[which] for entry in busy.values()) for which in (1, 2))
                most = sorted(busy.items(), key=lambda item: -item[1][2])[:6]
                parts = ", ".join(
                    f"`{_function(key)}` {entry[2] / spent:.0%} in {entry[1] / count:.2g}" for key, entry in most
                )
                table.append(f"| a {what} | {name} | {calls / count:.0f} | {parts} |")
    return "\n".join(table)


def _function(key: tuple[str, int, str]) -> str:
    path, _, name = key
    return name.strip("<>") if path == "~" else f"{os.path.basename(path).removesuffix('.py')}.{name}"


def processor(parent: Path) -> str:
    if shutil.which("perf") is None:
        return "perf is not here."
    table = ["| of | process | CPU by library | by symbol |", "|---|---|---|---|"]
    record = ("perf", "record", "-q", "-F", "499", "-p", "{pid}", "-o", "{said}")
    for name, path in _watched(_bulk, parent, *record).items():
        shares = [_report(path, sort) for sort in ("dso", "symbol")]
        table.append(f"| bulk | {name} | {', '.join(shares[0][:5])} | {', '.join(shares[1][:_MOST])} |")
    return "\n".join(table)


def _report(path: Path, sort: str) -> list[str]:
    command = ("perf", "report", "-i", str(path), "--no-children", "--sort", sort, "--stdio", "-q")
    said = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    rows = (re.match(r"\s*([\d.]+)%\s+(?:\[[.k]\] )?(.*\S)", line) for line in said.splitlines())
    return [f"{_library(row[2])} {float(row[1]):.0f} %" for row in rows if row and float(row[1]) >= 1.5]


def _library(name: str) -> str:
    short = re.sub(r"\.cpython-[^.]*", "", name).replace("[kernel.kallsyms]", "kernel").replace("|", "/")
    return f"`{short.split()[0]}`"


def main() -> int:
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit(__doc__)
    with processes.places(4 * BYTES, None) as places, processes.scratch(places.memory) as parent:
        content.write(parent / "source", BYTES)
        text = "\n\n".join(instrument(parent) for instrument in (system_calls, python_calls, processor))
    print(text)
    if sys.argv[1:]:
        page.PAGE.write_text(page.between(page.PAGE.read_text(), "profile", text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
