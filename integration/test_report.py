"""``flarelog report`` of runs from real processes: a gap, an exit record, silence, rounds, very many logs."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from flarelog.model import Generation, Receipt, StreamId
from flarelog.stores.local.store import LocalStore
from integration.harness.places import RUN, SITE, Place, append, content, until

ROUNDS = "2026-11-22 12:00:{:02d},000 - ScatterAndGather - INFO - [identity=server, run=r, wf=w]: Round {} started.\n"


class Text(HTMLParser):
    def __init__(self, made: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(made)

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def shown(made: bytes) -> str:
    return re.sub(r"\s+", " ", " ".join(Text(made.decode()).found))


def test_a_run_with_a_gap_an_exit_record_and_a_silent_site(place: Place, tmp_path: Path) -> None:
    receiver = place.serve("--idle-timeout", "3")
    rounds = "".join(ROUNDS.format(10 * number, number) for number in range(3))
    (place.root / "server").mkdir()
    append(place.root / "server" / "log.txt", rounds.encode())
    server = place.sidecar(receiver, "--once", root=place.root / "server", site="server")
    assert server.ends() == 0, server.talk()
    code = place.call(
        "run", "--receiver", receiver.address, "--run", RUN, "--site", "oslo",
        "--spool", str(place.directory / "spool"), "--", "sh", "-c",
        "echo 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB'; exit 3",
    )  # fmt: skip
    assert code.ends() == 3
    (place.root / "lyon").mkdir()
    append(place.root / "lyon" / "log.txt", b"one\n")
    lyon = place.sidecar(receiver, root=place.root / "lyon", site="lyon")
    until(lambda: receiver.stored("log.txt", "lyon") == b"one\n", "lyon's line is stored")
    lyon.tell(signal.SIGSTOP)
    (place.root / "kyoto").mkdir()
    log = place.root / "kyoto" / "log.txt"
    append(log, b"first\n")
    kyoto = place.sidecar(receiver, root=place.root / "kyoto", site="kyoto")
    until(lambda: receiver.stored("log.txt", "kyoto") == b"first\n", "kyoto's line is stored")
    kyoto.tell(signal.SIGSTOP)
    append(log, b"lost and never seen again\n")
    os.truncate(log, 0)
    append(log, b"last\n")
    kyoto.tell(signal.SIGCONT)
    until(lambda: receiver.stored("log.txt", "kyoto").endswith(b"last\n"), "kyoto goes on")
    assert kyoto.stop() in (0, 6)
    events = receiver.store / RUN / ".lyon.events"
    until(lambda: b'"silent"' in content(events), "lyon's silence is noticed, and written down")
    out = tmp_path / "run.html"
    made = place.call("report", RUN, "--receiver", receiver.address, "-o", str(out))
    assert made.ends() == 0, made.talk()
    text = shown(out.read_bytes())
    # Three seconds later lyon counts as ended without a receipt, and its lane shows the silence.
    assert re.search("lyon( lyon: no receipt, 4 bytes)? silent from", text) or "lyon lost link from" in text, text
    assert "oslo" in text
    assert "exit code 3" in text
    assert "cuda.oom" in text
    assert "3 rounds" in text
    assert "This report is as of" in text
    lyon.tell(signal.SIGCONT)
    lyon.stop()
    receiver.stop()
    for suffix in ("html", "md", "svg"):
        files = [tmp_path / f"{number}.{suffix}" for number in range(2)]
        for file in files:
            assert place.call("report", RUN, "--store", str(receiver.store), "-o", str(file)).ends() == 0
        assert files[0].read_bytes() == files[1].read_bytes()
        assert len(files[0].read_bytes()) < 100_000


def test_a_site_that_was_killed_with_its_receiver_while_it_waited_stands_as_status_says(place: Place) -> None:
    receiver = place.serve("--max-site-bytes", "1000")
    append(place.root / "log.txt", b"a line of a log\n" * 10_000)
    sidecar = place.sidecar(receiver)
    receiver.program.says("--max-site-bytes")
    until(lambda: b'"paused"' in content(receiver.store / RUN / f".{SITE}.events"), "the pause is written down")

    def stands() -> str:
        made = place.call("report", RUN, "--receiver", receiver.address, "-o", "-", "--format", "md")
        assert made.ends() == 0, made.talk()
        return " ".join(re.findall("paused|lost link", made.printed.split("##")[0]))

    def status() -> str:
        return place.call("status", RUN, "--receiver", receiver.address).printed

    assert stands() == "paused"
    assert "1 site: 1 paused" in status()
    sidecar.kill()
    receiver.program.kill()
    receiver = receiver.again("--max-site-bytes", "1000")
    assert "1 site: 1 lost link" in status()
    assert stands() == "lost link"


@pytest.mark.soak
def test_bad_input_is_a_sentence_and_an_exit_code(place: Place, tmp_path: Path) -> None:
    receiver = place.serve()
    append(place.root / "log.txt", b"one\n")
    assert place.sidecar(receiver, "--once").ends() == 0
    store = ("--store", str(receiver.store))
    rows = [
        (("report", RUN, *store), 2, "name the file to write: -o run.html"),
        (("report", RUN, *store, "-o", "run.pdf"), 2, "run.pdf names no form of a report"),
        (("report", RUN, *store, "-o", "-"), 2, "-o - needs a form"),
        (("report", "run-x", *store, "-o", str(tmp_path / "a.md")), 3, f"did you mean {RUN}?"),
        (("report", RUN, *store, "-o", str(tmp_path / "no" / "a.md")), 1, "cannot be written: No such file"),
        (("report", RUN, "--store", str(tmp_path), "-o", "a.md"), 3, "is no store"),
        (("report", RUN, "--receiver", "127.0.0.1:1", "-o", "a.md"), 4, "127.0.0.1:1"),
    ]
    for args, code, sentence in rows:
        ended = place.call(*args)
        assert ended.ends() == code, (args, ended.talk())
        assert sentence in ended.said, (args, ended.said)
        assert "Traceback" not in ended.said
    assert list(tmp_path.rglob("a.md*")) == []
    ended = place.call("report", RUN, *store, "-o", "-", "--format", "md")
    assert ended.ends() == 0
    assert ended.printed.startswith(f"# {RUN}".replace("-", "\\-"))
    assert SITE.replace("-", "\\-") in ended.printed


def test_a_pipe_or_a_device_gets_the_report_and_a_link_goes_on_to_its_file(place: Place, tmp_path: Path) -> None:
    receiver, pipe, link = place.serve(), tmp_path / "pipe", tmp_path / "link.md"
    append(place.root / "log.txt", b"one\n")
    assert place.sidecar(receiver, "--once").ends() == 0
    assert receiver.stop() == 0  # the health of machines is recorded some time later, or at the stop
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "file.md")
    command = ("report", RUN, "--store", str(receiver.store), "--format", "md", "-o")
    told = place.start(*command, str(pipe))
    made = pipe.read_bytes()
    assert told.ends() == 0, told.talk()
    assert made.startswith(b"# ")
    assert pipe.is_fifo()
    assert place.call(*command, str(link)).ends() == 0
    assert (tmp_path / "file.md").read_bytes() == made
    (tmp_path / "file.md").chmod(0o600)
    assert place.call(*command, str(link)).ends() == 0
    assert (tmp_path / "file.md").stat().st_mode & 0o777 == 0o600
    full = place.call(*command, "/dev/full")
    assert full.ends() == 1
    assert "/dev/full cannot be written: No space left on device" in full.said
    assert Path("/dev/full").is_char_device()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("sites", "logs", "most"), [(50, 4, 300_000), pytest.param(1000, 10, 1 << 20, marks=pytest.mark.soak)]
)
def test_very_many_logs_make_no_large_report(place: Place, tmp_path: Path, sites: int, logs: int, most: int) -> None:
    async def fill() -> None:
        async with LocalStore(tmp_path / "store", "memory") as store:

            async def one(site: int, log: int) -> None:
                stream = StreamId("big", f"site-{site:04}", f"rank-{log}/log.txt")
                appender = await store.appender(stream, b"producer-%d" % site)
                await appender.mark(Generation(0, 0, "log.txt", 0, f"fh:{site}-{log}"))
                for _ in range(3):
                    await appender.append(appender.committed, b"2026-11-22 12:00:00,000 - INFO - a line\n" * 20)
                    await appender.sync()
                if site % 100 != 3:
                    await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
                await appender.close()

            for first in range(0, sites, 50):
                await asyncio.gather(*(one(site, log) for site in range(first, first + 50) for log in range(logs)))

    asyncio.run(fill())
    out = tmp_path / "big.html"
    began = time.monotonic()
    made = place.start("report", "big", "--store", str(tmp_path / "store"), "-o", str(out))
    assert made.ends(300) == 0, made.talk()
    print(f"{sites} sites with {logs} logs: {time.monotonic() - began:.1f} s, {out.stat().st_size:,} bytes")
    assert out.stat().st_size <= most
    assert f"{sites - sites // 100 - (sites < 100)} of {sites:,} sites complete" in shown(out.read_bytes())
