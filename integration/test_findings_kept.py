"""A receiver's findings of arriving logs: kept, soon equal to a search's, after any kill, and for old stores."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from flarelog.client import Client
from flarelog.errors import OK
from integration.harness.places import RUN, SITE, Place, Receiver, append, until
from tests.detect.cases import Case, cases

FULL = b"2026-11-20 08:00:09 cp: error writing ckpt.pt: No space left on device\n"
STEP = b"2026-11-20 08:00:00 INFO step 1 loss 0.25\n"
TRACEBACK = b'Traceback (most recent call last):\n  File "/src/train.py", line 3, in <module>\nKeyError: 5\n'


def sent(place: Place, receiver: Receiver, site: str, logs: dict[str, bytes], run: str = RUN) -> None:
    """Send *logs* of *site* completely to *receiver*."""
    root = place.directory / f"root-{run}-{site}"
    for name, data in logs.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    program = place.call(
        *("sidecar", "--root", str(root), "--run", run, "--site", site, "--receiver", receiver.address, "--once")
    )
    assert program.process.returncode == OK, program.talk()


def asked(place: Place, *args: str) -> list[dict[str, Any]]:
    program = place.call("findings", RUN, *args, "-o", "json")
    return [json.loads(line) for line in program.printed.splitlines()]


def known(receiver: Receiver, run: str = RUN) -> dict[str, Any] | None:
    """The receiver's findings for each log, and its position in it; None: it does not search."""

    async def ask() -> Any:
        async with Client(receiver.address) as client:
            found = await client.findings(run, every=True)
            return None if found is None else {f"{one.stream.site}/{one.stream.log}": one for one in found}

    return asyncio.run(ask())  # type: ignore[no-any-return]


def counts(receiver: Receiver, log: str) -> list[tuple[str, int]]:
    found = (known(receiver) or {}).get(log)
    return [(one.signature, one.count) for one in found.findings] if found is not None else []


@pytest.mark.parametrize("all_of", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["some", "all"])
def test_what_was_found_is_what_a_search_finds(place: Place, all_of: bool) -> None:
    def some(kind: str) -> list[Case]:
        return list(cases(kind)) if all_of else list({case.signature: case for case in cases(kind)}.values())[::4]

    receiver = place.serve()
    logs = {f"rank-{n}/{case.signature}.log": STEP * 30 + case.data for n, case in enumerate(some("case"))}
    misses = {f"misses/{n}.log": STEP + case.data for n, case in enumerate(some("miss"))}
    sent(place, receiver, "site-1", logs)
    sent(place, receiver, "site-2", misses | {"mixed.log": b"".join(case.data for case in cases("case"))})
    found = asked(place, "--receiver", receiver.address)
    assert len(found) > len(logs)
    assert found == asked(place, "--receiver", receiver.address, "--rescan")
    assert found == asked(place, "--store", str(receiver.store))
    one = asked(place, "--receiver", receiver.address, "--site", "site-2", "--log", "mixed.log")
    assert one == asked(place, "--receiver", receiver.address, "--site", "site-2", "--log", "mixed.log", "--rescan")


def test_what_the_receiver_found_is_what_is_shown_and_survives_it(place: Place) -> None:
    """The findings come from the file beside the logs: a word changed there, which no log has, is shown."""
    receiver = place.serve()
    sent(place, receiver, SITE, {"log.txt": STEP * 20 + FULL})
    assert [each["event_name"] for each in asked(place, "--receiver", receiver.address)] == ["disk.full"]
    receiver.stop()
    kept = receiver.store / RUN / f".{SITE}.findings"
    kept.write_bytes(kept.read_bytes().replace(b"error writing", b"has written"))
    receiver = receiver.again()
    assert "has written" in asked(place, "--receiver", receiver.address)[0]["body"]
    assert "error writing" in asked(place, "--receiver", receiver.address, "--rescan")[0]["body"]
    assert "error writing" in asked(place, "--store", str(receiver.store))[0]["body"]
    receiver.stop()
    kept.write_bytes(b"nothing of ours\n")
    receiver = receiver.again()
    assert "error writing" in asked(place, "--receiver", receiver.address)[0]["body"]


def test_a_line_is_found_within_a_second(place: Place) -> None:
    receiver = place.serve()
    place.sidecar(receiver)
    log = place.root / "log.txt"
    append(log, STEP * 20)
    until(lambda: counts(receiver, f"{SITE}/log.txt") == [] and (known(receiver) or {}), "the log is looked at")
    took = []
    for n in range(1, 6):
        append(log, FULL)
        began = time.monotonic()
        until(lambda n=n: counts(receiver, f"{SITE}/log.txt") == [("disk.full", n)], "the line is found")  # type: ignore[misc]
        took.append(time.monotonic() - began)
    assert min(took) < 1.0, took
    status = place.call("status", RUN, "--receiver", receiver.address, "-o", "json")
    assert json.loads(status.printed)["findings"] == {
        "count": 1,
        "roots": 1,
        "earliest": {"event_name": "disk.full", "body": FULL.decode().strip()},
    }
    append(log, TRACEBACK)  # no line follows it
    until(lambda: ("python.traceback", 1) in counts(receiver, f"{SITE}/log.txt"), "the traceback is found")


def test_a_receiver_that_is_killed_counts_nothing_twice(place: Place) -> None:
    receiver = place.serve()
    place.sidecar(receiver)
    log, lines = place.root / "log.txt", 0
    append(log, STEP * 20)
    for wait in (0.0, 0.2, 0.5, 0.9, 1.3):
        append(log, (STEP * 40 + FULL + TRACEBACK) * 5)
        lines += 5
        time.sleep(wait)
        receiver.program.kill()
        receiver = receiver.again()
    want = [("disk.full", lines), ("python.traceback", lines)]
    until(lambda: counts(receiver, f"{SITE}/log.txt") == want, lambda: str(counts(receiver, f"{SITE}/log.txt")))
    found = asked(place, "--receiver", receiver.address)
    assert found == asked(place, "--receiver", receiver.address, "--rescan")


@pytest.mark.soak
def test_an_old_store_is_caught_up_with_and_stays_as_old_as_it_is(place: Place) -> None:
    receiver = place.serve("--findings", "off")
    sent(place, receiver, SITE, {"log.txt": STEP * 50_000 + FULL})
    assert known(receiver) is None
    assert [each["event_name"] for each in asked(place, "--receiver", receiver.address)] == ["disk.full"]
    text = place.call("status", RUN, "--receiver", receiver.address).printed
    assert "FINDINGS" not in text
    receiver.stop()
    assert not list(receiver.store.glob("*/.*.findings"))
    receiver = receiver.again()
    until(lambda: counts(receiver, f"{SITE}/log.txt") == [("disk.full", 1)], "the old log is looked at")
    text = place.call("status", RUN, "--receiver", receiver.address).printed
    assert "disk.full" in text.splitlines()[2]
    again = f"flarelog findings {RUN} --receiver {receiver.address}"
    assert f"findings: 1 finding may be a cause: it is disk.full in {SITE}/log.txt ({again})" in text
    until(lambda: list(receiver.store.glob("*/.*.findings")), "it is kept")
    assert "disk.full" in place.call("status", RUN, "--store", str(receiver.store)).printed
    place.call("rm", RUN, "--receiver", receiver.address, "--yes")
    assert not list(receiver.store.glob("*/.*.findings"))
    sent(place, receiver, SITE, {"log.txt": STEP * 50_000 + STEP * 2})
    until(lambda: known(receiver) or {}, "the new log is looked at")
    assert counts(receiver, f"{SITE}/log.txt") == []


@pytest.mark.soak
def test_each_worker_tells_of_its_sites(place: Place) -> None:
    receiver = place.serve("--workers", "2")
    for n in range(4):
        sent(place, receiver, f"site-{n}", {"log.txt": STEP * 20 + FULL})
    found = asked(place, "--receiver", receiver.address)
    assert sorted(each["site"] for each in found) == [f"site-{n}" for n in range(4)]
    assert found == asked(place, "--receiver", receiver.address, "--rescan")
    until(lambda: len(known(receiver) or {}) == 4, "all workers tell")


@pytest.mark.parametrize(
    "more", [("--rules",), ("--zone", "UTC"), pytest.param(("--rank-map", "site-1/log.txt=7"), marks=pytest.mark.soak)]
)
def test_a_question_of_ones_own_is_answered_by_a_search(place: Place, tmp_path: Path, more: tuple[str, ...]) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nid = "step"\nliteral = "INFO step"\n')
    receiver = place.serve()
    sent(place, receiver, SITE, {"log.txt": STEP * 20 + FULL})
    found = asked(place, "--receiver", receiver.address, *more, *([str(rules)] if more == ("--rules",) else []))
    assert [each["event_name"] for each in found] == (["step", "disk.full"] if more == ("--rules",) else ["disk.full"])
    assert [each.get("rank") for each in found][-1] == (7 if more[0] == "--rank-map" else None)


@pytest.mark.soak
def test_what_the_receiver_found_is_what_the_report_and_the_first_error_show(place: Place, tmp_path: Path) -> None:
    receiver = place.serve()
    sent(place, receiver, SITE, {"log.txt": STEP * 20 + FULL, "other.txt": STEP * 20 + TRACEBACK})

    def shown(*where: str) -> tuple[str, str]:
        report = place.call("report", RUN, *where, "-o", str(tmp_path / "run.md"))
        assert report.process.returncode == OK, report.talk()
        first = place.call("logs", RUN, *where, "--first-error")
        parts = re.split("(?m)^(?=## )", (tmp_path / "run.md").read_text())
        # A machine's health is recorded later.
        text = "".join(each for each in parts if not each.startswith("## Machines"))
        return text, (first.printed + first.said).replace(" ".join(where), "WHERE")

    at = ("--receiver", receiver.address)
    until(lambda: counts(receiver, f"{SITE}/log.txt") != [], "the receiver finds")
    assert shown(*at) == shown("--store", str(receiver.store))
    receiver.stop()
    kept = receiver.store / RUN / f".{SITE}.findings"
    raw = kept.read_bytes().replace(b"disk.full", b"disk.fool").replace(b"python.traceback", b"python.fool")
    kept.write_bytes(raw)
    receiver = receiver.again()
    report, first = shown("--receiver", receiver.address)
    assert "disk.fool" in report
    assert "python.fool" in first


def test_an_error_in_the_four_logs_of_an_nvflare_job_is_one_line_and_one_finding(place: Place) -> None:
    receiver = place.serve()
    line = "2026-11-28 04:20:28,207 - Trainer - ERROR - CUDA out of memory. Tried to allocate 2.00 GiB"
    time, name, level, message = line.split(" - ")
    record = json.dumps({"asctime": time, "name": name, "levelname": level, "message": message})
    texts = dict.fromkeys(("log.txt", "error_log.txt", "log_fl.txt"), f"{line}\n".encode())
    sent(place, receiver, SITE, {**texts, "log.json": f"{record}\n".encode()})
    for where in (("--receiver", receiver.address), ("--store", str(receiver.store))):
        assert [(each["log"], each["event_name"]) for each in asked(place, *where)] == [("log.txt", "cuda.oom")]
        assert [each["log"] for each in asked(place, *where, "--log", "log.json")] == ["log.json"]
        assert len(asked(place, *where, "--log", "*")) == 4
        shown = place.call("logs", RUN, "--notes", "off", *where)
        assert shown.printed.splitlines() == [line]
        assert "log.json, error_log.txt and log_fl.txt repeat lines of log.txt" in shown.talk()
        every = place.call("logs", RUN, "--notes", "off", "--log", "*", *where)
        assert every.printed.count("CUDA out of memory") == 4
    status = place.call("status", RUN, "--receiver", receiver.address).printed
    assert "findings: 1 finding may be a cause: it is cuda.oom in site-1/log.txt" in status
