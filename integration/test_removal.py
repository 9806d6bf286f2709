"""Listing, removal and retention of runs, with real processes and users' commands."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from flarelog.errors import FAILED, NOT_ALLOWED, NOT_FOUND, OK, USAGE
from flarelog.stores.local.store import LocalStore
from flarelog.stores.moments import in_order
from flarelog.stores.runs import timeline
from integration.harness.places import LOG, RUN, SITE, Place, Receiver, append, content, lines, until

OTHER = "run-of-others"
DAY = 86_400
SITES = ("site-1", "site-2")  # one for each of two workers


def runs(place: Place, receiver: Receiver) -> dict[str, dict[str, Any]]:
    """The receiver's runs. Waits until its store shows the same, apart from values that only a receiver knows."""
    told: list[dict[str, dict[str, Any]]] = []

    def agree() -> bool:
        told.clear()
        for where in (("--receiver", receiver.address), ("--store", str(receiver.store))):
            program = place.call("runs", *where, "--json")
            assert program.process.returncode == OK, program.talk()
            told.append({record["run"]: record for record in program.records()})
        both = [{run: {**one, "open": 0, "state": 0} for run, one in each.items()} for each in told]
        return both[0] == both[1]

    until(agree, lambda: f"both say the same: {told}")
    return told[0]


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.soak), "2"])
def test_a_run_goes_for_readers_and_writers_at_once_and_its_name_is_new(place: Place, workers: str) -> None:
    data = append(place.log, lines(100))
    receiver = place.serve("--workers", workers, "--max-runs", "2")
    where = ("--receiver", receiver.address)
    assert place.once(receiver, "--run", OTHER).process.returncode == OK
    sidecar = place.sidecar(receiver)
    receiver.gets(data)
    until(lambda: runs(place, receiver)[RUN]["open"] == 1, "the log is open")
    record = runs(place, receiver)[RUN]
    assert (record["state"], record["sites"], record["streams"], record["bytes"]) == ("running", 1, 1, len(data))
    assert record["first"] <= record["last"]

    refused = place.call("rm", RUN, *where, "--yes")
    assert refused.process.returncode == NOT_ALLOWED
    assert f"a log of run {RUN} is open: end the run first (flarelog run-end), or give --force" in refused.sentence()
    reader = place.start("follow", RUN, *where)
    until(lambda: "loss" in reader.printed, "the reader has begun")

    removed = place.call("rm", RUN, *where, "--yes", "--force")
    assert removed.printed == f"removed run {RUN}: 1 log, {len(data):,} bytes\n"
    assert not (receiver.store / RUN).exists()
    assert list(runs(place, receiver)) == [OTHER]
    assert sidecar.ends() == NOT_ALLOWED  # the unit for systemd treats the code as final
    again = "to send it again, start the sidecar by hand, or restart the agent"
    assert f"run {RUN} was removed at the receiver; {again}" in sidecar.sentence()
    assert reader.ends() == NOT_FOUND
    assert f"{RUN}/{SITE}/{LOG} was removed" in reader.sentence()
    assert place.call("rm", RUN, *where, "--yes").process.returncode == NOT_FOUND

    assert place.once(receiver).process.returncode == OK  # there is room for the run again, and it begins anew
    receiver.holds(data)
    assert runs(place, receiver)[RUN]["state"] == "sealed"
    assert place.call("status", RUN, *where).printed.startswith(f"{RUN} sealed: 1 site: 1 complete")
    assert place.call("rm", RUN, *where, "--yes", "--site", SITE).process.returncode == OK
    record = runs(place, receiver)[RUN]
    assert (record["sites"], record["state"]) == (0, "empty")
    assert not [name for name in os.listdir(receiver.store) if name.startswith(".removed")]


def test_what_a_store_is_asked_to_remove(place: Place) -> None:
    append(place.log, lines(10))
    receiver = place.serve()
    place.once(receiver)
    where = ("--store", str(receiver.store))
    locked = place.call("rm", RUN, *where, "--yes")
    assert locked.process.returncode == FAILED
    assert f"uses the store {receiver.store}: remove the run through it with --receiver" in locked.sentence()
    receiver.stop()
    for code, args in (
        (USAGE, (RUN, *where)),  # there is no terminal to confirm on
        (USAGE, ("../x", *where, "--yes")),
        (USAGE, (RUN, *where, "--yes", "--site", "a/b")),
        (NOT_FOUND, ("no-such-run", *where, "--yes")),
        (NOT_FOUND, (RUN, *where, "--yes", "--site", "no-such-site")),
        (NOT_FOUND, (RUN, "--store", "nowhere", "--yes")),
    ):
        program = place.call("rm", *args)
        assert program.process.returncode == code, program.talk()
        assert "Traceback" not in program.said
    assert receiver.stored() == lines(10)
    assert place.call("rm", RUN, *where, "--yes").process.returncode == OK
    assert os.listdir(receiver.store) == [".lock"]


def aged(directory: Path, days: float) -> None:
    then = time.time() - days * DAY
    for place, _, files in os.walk(directory, topdown=False):
        for name in (*files, "."):
            os.utime(os.path.join(place, name), (then, then))


def test_old_runs_leave_by_themselves_and_what_a_kill_left_of_one_goes_at_the_next_start(place: Place) -> None:
    append(place.log, lines(10))
    receiver = place.serve()
    for run in ("old", "young", "large"):
        place.once(receiver, "--run", run)
    place.call("run-end", "large", "--receiver", receiver.address)
    until(lambda: runs(place, receiver)["large"]["state"] == "ended", "the run has ended")
    receiver.stop()
    aged(receiver.store / "old", 8)
    (receiver.store / "large" / "filler").write_bytes(bytes(1 << 20))
    aged(receiver.store / "large", 1)
    (receiver.store / ".removed.0123456789abcdef" / SITE).mkdir(parents=True)
    again = receiver.again("--keep-days", "7")
    again.program.says("run old: removed, because it received nothing for 7 days (--keep-days)")
    until(lambda: not [one for one in os.listdir(receiver.store) if one.startswith(".removed")], "all of it is gone")
    assert set(runs(place, again)) == {"young", "large"}
    again.stop()
    last = receiver.again("--keep-bytes", "100000")
    last.program.says("run large: removed, because the store's runs take")
    assert set(runs(place, last)) == {"young"}
    for option, value in (("--keep-days", "0"), ("--keep-bytes", "0")):
        program = place.call("serve", "--store", "other", option, value)
        assert f"{option} must be a positive number" in program.sentence()


def test_a_store_tells_what_happened_and_when_after_both_ends_were_killed(place: Place) -> None:
    began = time.time()
    data = append(place.log, lines(10))
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    receiver.gets(data)
    events = receiver.store / RUN / f".{SITE}.events"
    until(lambda: b"opened" in content(events), "it is written down that the log is open")
    sidecar.kill()
    until(lambda: b"disconnected without a word" in events.read_bytes(), "and that nobody has it any more")
    receiver.program.kill()
    with events.open("ab") as file:
        file.write(b'0123abcd {"t":"event","at":17')  # a line that a kill cut off
    again = receiver.again()
    assert place.once(again).process.returncode == OK
    again.stop()
    found = asyncio.run(in_order(timeline(LocalStore(receiver.store), RUN)))
    told = [moment.what for moment in found if moment.what not in ("run", "call ended", "health")]
    assert sorted(told) == ["attributes", "begun", "generation", "grown", "left", "opened", "opened", "sealed"]
    assert all(began - 1 <= moment.at / 1000 <= time.time() + 1 for moment in found)
    marks = [moment.mark for moment in found if moment.mark is not None]
    assert len(marks) == 2  # the zone of the site's clock, and the generation
    assert all(began - 1 <= mark.clock / 1000 <= time.time() + 1 for mark in marks)
    record = place.streams("--store", str(receiver.store))[f"{SITE}/{LOG}"]
    assert record["begun"] <= record["last_byte"] <= record["ended"]
    assert record["generations"][0]["time"] is not None
    assert record["generations"][0]["site_time"] is not None


@pytest.mark.soak  # waits until runs are old
@pytest.mark.parametrize("site", SITES)
def test_with_workers_a_run_goes_when_it_is_old_at_all_of_them_and_stays_while_one_has_a_log_of_it_open(
    place: Place, site: str
) -> None:
    often = place.directory / "often"
    often.mkdir()
    often_enough = (
        "import flarelog.receiver.retention as retention\nretention.EVERY = 0.5\nretention.LEAST_DAYS = 0.0\n"
    )
    (often / "sitecustomize.py").write_text(often_enough)
    days = str(4 / DAY)
    receiver = place.serve("--workers", "2", "--keep-days", days, PYTHONPATH=str(often))
    data = append(place.log, lines(100))
    for run in ("old", OTHER):
        for each in SITES:
            assert place.once(receiver, "--run", run, "--site", each).process.returncode == OK
    sidecar = place.sidecar(receiver, site=site)
    receiver.gets(data, site=site)
    quiet = time.monotonic()
    for run in ("old", OTHER):
        receiver.program.says(f"run {run}: removed, because it received nothing for")
    until(lambda: set(runs(place, receiver)) == {RUN}, "the others are gone at all workers")
    until(lambda: time.monotonic() - quiet > 8, "it is older than those that went")
    assert runs(place, receiver)[RUN]["open"] == 1
    data += append(place.log, lines(3, 100))
    receiver.gets(data, site=site)
    assert sidecar.stop() == OK
    receiver.program.says(f"run {RUN}: removed, because it received nothing for")
    until(lambda: runs(place, receiver) == {}, "it is gone when nobody sends it")
    for each in SITES:
        (sent,) = place.once(receiver, "--run", "old", "--site", each, "--json").records()
        assert sent["committed"] == len(data), "it begins anew"
    assert "Traceback" not in receiver.program.said
