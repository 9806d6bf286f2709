"""Hostile logs: the CPU seconds of each reading command for a MiB of each of them, without its start.

``python -m bench.hostile [--log GLOB] [--read GLOB] [--most 0.5]`` prints the pairs over that limit, and exits with 1
if there are any. ``--a-line`` allows each line a cost besides: a MiB of nothing but LFs is a million lines, and a
command may have to write a JSON object for each of them. Each pair runs in its own process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from flarelog.cli import follow, logs, view
from flarelog.lifecycle import RunState
from flarelog.model import StreamId
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import set_run

SIZE = 1 << 20
LONG = 64 << 10  # bytes of a long line
MOST = 0.5  # CPU seconds a MiB
LONGEST = 60  # CPU seconds after which a command is killed
RUN, SITE = "run-1", "site-1"

STAMP = "2026-11-20T08:00:00Z"
TRACEBACK = "Traceback (most recent call last):"

TOKENS = {  # repeated in endless, long, 100-byte and shortest lines
    "x": "x",
    "blank": " ",
    "tab": "\t",
    "dots": "x.",
    "underscores": "_",
    "digits": "1",
    "percent": "50% ",
    "stamps": f"{STAMP} ",
    "clocks": "08:00:00 ",
    "epochs": "1732089600 ",
    "dates": "Nov 20 08:00:00 ",
    "halves": f"{STAMP[:-1]} AM ",
    "bracket": "[",
    "brackets": "[a] ",
    "angles": "<1>",
    "parens": "(a) ",
    "names": "a | ",
    "capitals": "A ",
    "quotes": '"',
    "escapes": "\\",
    "escaped": '\\"',
    "level": "ERROR ",
    "level=": "level=",
    "level:": '"level": ',
    "warning": "xWarning",
    "error": "Error:",
    "errors": "xError",
    "said": "1: error",
    "traceback": TRACEBACK,
    "trace": "Traceback (most recent call last)",
    "group": "  | ",
    "group+": "  + ",
    "exception": "Exception Group ",
    "file": '  File "a", line 1, in b',
    "rank": "[rank0]:",
    "default": "[default0]:",
    "json": "{",
    "json-log": '{"log":"',
    "json-ts": '{"ts":',
    "object": '{"a":1},',
    "ts": '{"ts":1732089600',
    "path": "/a/b",
    "url": "http://a@b/",
    "equals": "a=b ",
    "combining": "x\u0301",
    "marks": "\u0301",
    "wide": "漢",
    "rtl": "\u05d0",
    "arabic": "\u0627\u0644 ",
    "override": "\u202ex",
    "joined": "\U0001f468\u200d",
    "zero": "\u200b",
    "bom": "\ufeff",
    "tag": "\U000e0041",
    "cr": "\r",
    "cr-x": "x\r",
    "cr-percent": "\r50%",
    "cr-tab": "\r\t",
    "backspace": "x\b",
    "nul": "\0",
    "bell": "\a",
    "colour": "\x1b[31m",
    "coloured": "\x1b[31mx\x1b[0m",
    "colours": "\x1b[38;5;1;48;5;2mx",
    "up": "\x1b[A",
    "up-down": "\x1b[A\x1b[B",
    "home": "\x1b[Hx",
    "clear": "\x1b[2Jx",
    "erase": "x\x1b[2K",
    "far": "\x1b[64;1024Hx",
    "half": "\x1b[",
    "osc": "\x1b]0;a",
    "c1": "\x9b1A",
    "form": "\x0b\x0c",
    "separator": "\u2028",
    "next": "\x85",
    "cri": f"{STAMP} stdout F x",
    "cri-begin": f"{STAMP} stdout ",
}
NO_UTF_8 = {"no-utf-8": b"\xff", "half-utf-8": b"\xe2\x80"}


COMMANDS = {"view": view.command, "logs": logs.command, "follow": follow.command}


def hostile() -> dict[str, bytes]:
    """The hostile logs, by name."""
    found: dict[str, bytes] = {}
    for name, token in {**{name: text.encode() for name, text in TOKENS.items()}, **NO_UTF_8}.items():
        for size, what in ((SIZE, "endless"), (LONG, "long"), (100, "lines"), (1, "short")):
            line = token * max(1, (size - 1) // len(token)) + b"\n"
            found[f"{name}-{what}"] = (line * (SIZE // len(line) + 1))[:SIZE]
    return {**found, **{name: (data * (SIZE // len(data) + 1))[:SIZE] for name, data in MIXED.items()}}


def _long(text: str) -> bytes:
    return (text * ((LONG - 100) // len(text.encode()))).encode()  # shorter than the limit at which a line is cut


MIXED = {  # texts that are repeated
    "empty": b"\n",
    "crlf": b"\r\n",
    "prefix": b" " * (LONG - 100) + f"{TRACEBACK}\n".encode() + b"x\n" * (SIZE - LONG - 100 >> 1),
    "prefix-short": b" " * 1000 + f"{TRACEBACK}\n".encode() + b"x\n" * 999,
    "group-traceback": _long("  | ") + f"x{TRACEBACK}\n".encode(),
    "groups-tracebacks": _long("  | ")[:1000] + f"x{TRACEBACK}\n".encode(),
    "spaces-traceback": _long(" ") + f"x{TRACEBACK}\n".encode(),
    "tracebacks": f'{TRACEBACK}\n  File "a", line 1, in b\n    c\nValueError: d\n'.encode(),
    "blocks": f"{TRACEBACK}\n".encode() + b"  x\n" * 1001,
    "cri-two": b"".join(f"{STAMP} {name} P x\r".encode() + b"\n" for name in ("stdout", "stderr")),
    "cri-moves": b"".join(f"{STAMP} {name} F \x1b[A\x1b[2Kx".encode() + b"\n" for name in ("stdout", "stderr")),
    "cri-partial": f"{STAMP} stdout P x\n".encode(),
    "cri-none": f"{STAMP} stdout F x\n".encode() + b"{" * 300 + b'"log"\n' + b"x\r" * 100 + b"\n",
    "docker": b'{"log":"x\\n","stream":"stdout","time":"2026-11-20T08:00:00Z"}\n',
    "docker-deep": b'{"log":"x\\n","stream":"stdout","time":"2026-11-20T08:00:00Z","y":' + b"[" * 900 + b"\n",
    "docker-not": b'{"log" "stream" "time"' + b"{}," * 100 + b"\n",
    "docker-escapes": b'{"log":"' + b"\\u0041" * 40 + b'\\n","stream":"stdout","time":"2026-11-20T08:00:00Z"}\n',
    "records-plain": b'x\n{"log"\n',
    "bars-moves": b"1%\r99%\n" * 60 + b"\x1b[60A",
    "bars-steps": b"".join(b"\r%d%%" % number for number in range(0, 100, 10)),
    "bars-states": b"".join(b"\rerror %3d%%|####      | %d/1000 [00:10<00:12]" % (n % 10 * 10, n) for n in range(1000)),
    "bars-rows": b"".join(b"%d%%\x1b[B" % number for number in range(60)) + b"\x1b[60A",
    "text-rows": b"a\x1b[A\rb\n\x1b[B",
    "coloured-lines": b"\x1b[31mERROR\x1b[0m x\n",
    "wide-rows": b"\x1b[1024C1%\r" * 9 + b"\n",
    "reversed": b"".join(b"2026-11-20T08:%02d:%02dZ x\n" % (59 - at // 60, 59 - at % 60) for at in range(3600)),
    "alternating": f"{STAMP} x\n1999-01-01T00:00:00Z y\n".encode(),
}

READS: dict[str, tuple[str, ...]] = {  # by name: a command and its options
    "view": ("view",),
    "view-i": ("view", "-i", "yx|x1", "-C", "3"),
    "view-e": ("view", "-e", "x"),
    "view-level": ("view", "--level", "warning"),
    "view-since": ("view", "--since", "2026-11-20T07:59:00Z"),
    "view-t": ("view", "-t", "--tz", "Europe/Berlin"),
    "view-time": ("view", "--order", "time"),
    "view-live": ("view", "--bars", "live"),
    "view-steps": ("view", "--bars", "steps"),
    "view-off": ("view", "--bars", "off"),
    "view-json": ("view", "-o", "json"),
    "view-raw": ("view", "-o", "raw"),
    "view-colour": ("view", "--color", "always", "-H", "x|0", "-H", "1"),
    "view-split": ("view", "--long-lines", "split", "--max-line", "80"),
    "view-drop": ("view", "--long-lines", "drop", "--max-line", "80"),
    "view-cut": ("view", "--max-line", "3"),
    "view-tail": ("view", "--tail", "10"),
    "view-cri": ("view", "--form", "cri"),
    "view-docker": ("view", "--form", "docker"),
    "view-notags": ("view", "--form", "cri-notags"),
    "view-latin": ("view", "--encoding", "latin-1"),
    "view-utf-16": ("view", "--encoding", "utf-16-le"),
    "logs": ("logs",),
    "logs-first-error": ("logs", "--first-error"),
    "logs-i": ("logs", "-i", "(?i)yx|x1", "-C", "100"),
    "logs-level": ("logs", "--level", "error"),
    "logs-since": ("logs", "--since", "2026-11-20T07:59:00Z", "--until", "2026-11-20T09:59:00Z"),
    "logs-time": ("logs", "--order", "time"),
    "logs-json": ("logs", "-o", "json"),
    "logs-raw": ("logs", "-o", "raw"),
    "logs-t": ("logs", "-t", "--zone", "Europe/Berlin"),
    "logs-format": ("logs", "--format", "{time:%H:%M} {site} {rank} {offset} {stream} {text:>20}"),
    "logs-ranks": ("logs", "--ranks", "first,last"),
    "logs-rank": ("logs", "--rank", "0"),
    "logs-tail": ("logs", "--tail", "10"),
    "logs-colour": ("logs", "--color", "always"),
    "logs-from": ("logs", "--from", f"{SITE}/log.txt:70001"),
    "follow": ("follow",),
    "follow-time": ("follow", "--order", "time"),
    "follow-blocks": ("follow", "--log", "*.txt", "--prefix", "on"),
    "follow-first-error": ("follow", "--first-error"),
    "follow-i": ("follow", "-i", "(?i)yx|x1", "-C", "100"),
    "follow-tail": ("follow", "--tail", "10"),
    "follow-json": ("follow", "-o", "json"),
}


def place(root: Path, data: bytes) -> None:
    """Write *data* as a file, and as the only log of a run in a store."""
    (root / "log.txt").write_bytes(data)

    async def stored() -> None:
        async with LocalStore(root / "store", "memory") as store:
            appender = await store.appender(StreamId(RUN, SITE, "log.txt"), b"a" * 16)
            for at in range(0, len(data), 1 << 18):
                await appender.append(at, data[at : at + (1 << 18)])
            await appender.sync()
            await set_run(store, RUN, RunState.ENDED)

    asyncio.run(stored())


def seconds(root: Path, read: tuple[str, ...]) -> float:
    """The CPU seconds of *read*, in a process of its own."""
    command, *options = read
    where = [str(root / "log.txt")] if command == "view" else [RUN, "--store", str(root / "store")]
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
        for number, path in ((0, os.devnull), (1, os.devnull), (2, os.devnull)):
            os.dup2(os.open(path, os.O_RDWR), number)
        try:
            COMMANDS[command]([*where, *options], prog_name=f"flarelog {command}")
        except SystemExit:
            pass
        finally:
            os._exit(0)
    _, _, usage = os.wait4(child, 0)
    return usage.ru_utime + usage.ru_stime


def measured(reads: Mapping[str, tuple[str, ...]], chosen: Mapping[str, bytes]) -> Iterator[tuple[str, str, float]]:
    """Yield (log, read, CPU seconds) for each pair."""
    with tempfile.TemporaryDirectory(prefix="flarelog-hostile-", dir="/dev/shm") as scratch:
        root = Path(scratch, "empty")
        root.mkdir()
        place(root, b"x\n")
        for read in reads.values():
            seconds(root, read)  # compiles its modules and fills the page cache
        start = {name: seconds(root, read) for name, read in reads.items()}
        for log, data in chosen.items():
            root = Path(scratch, log.replace("/", "_"))
            root.mkdir()
            place(root, data)
            for name, read in reads.items():
                yield log, name, seconds(root, read) - start[name]
            for path in sorted(root.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("--log", default="*")
    parser.add_argument("--read", default="*")
    parser.add_argument("--size", type=int, default=SIZE, help="bytes of each log")
    parser.add_argument("--most", type=float, default=MOST)
    parser.add_argument("--a-line", type=float, default=0.0, help="microseconds that each line may take besides")
    options = parser.parse_args()
    chosen = {name: data[: options.size] for name, data in hostile().items() if fnmatch(name, options.log)}
    reads = {name: read for name, read in READS.items() if fnmatch(name, options.read)}
    over = count = 0
    for log, read, took in measured(reads, chosen):
        count += 1
        lines = chosen[log].count(b"\n")
        if took - lines * options.a_line / 1e6 > options.most * len(chosen[log]) / SIZE:
            over += 1
            print(f"{took:8.2f} s  {log:24} {read:20} {lines:>9,} lines", flush=True)
    print(f"{count:,} pairs, {over:,} take more than {options.most} CPU s/MiB", file=sys.stderr)
    return over > 0


if __name__ == "__main__":
    sys.exit(main())
