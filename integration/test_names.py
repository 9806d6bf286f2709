"""Files of any name: sent, stored under a name of their own, and shown to readers under theirs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flarelog.names import log_of
from flarelog.text import legible
from integration.harness.places import LOG, RUN, SITE, Place, Receiver, append, lines

TUNE = "train_fn_a1b2c_00000_0_lr=0.0100,momentum=0.9000_2026-11-20_08-00-00/error.txt"
AIRFLOW = "dag_id=etl/run_id=scheduled__2026-11-20T00:00:00+00:00/task_id=load/attempt=1.log"
HYDRA = "outputs/2026-11-28/12-00-00/lr=0.1,bs=32/train.log"
CONTAINER = f"{'p' * 120}_{'n' * 40}_main-{'a' * 64}.log"
CHINESE = "\u8bad\u7ec3 1.log"
HOSTILE = "\x1b[2J\n\u202egol.\udcff"
NAMES = {
    "ray-tune": TUNE,
    "airflow": AIRFLOW,
    "hydra": HYDRA,
    "container": CONTAINER,
    "chinese": CHINESE,
    "hostile": HOSTILE,
    "long": 80 * "\u8bad" + ".log",
    "long-and-no-utf-8": f"{chr(0xDCFF) * 250}.log",
    "deep": f"{'d=1/' * 20}a.log",
}


def begun(place: Place, name: str, data: bytes) -> Path:
    path = place.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, data)
    return path


def shown(place: Place, receiver: Receiver, *asked: str) -> list[str]:
    """The lines of ``flarelog logs`` at the receiver, which must equal those from the store."""
    found = [
        place.call("logs", RUN, *where, *asked).printed.splitlines()
        for where in (("--receiver", receiver.address), ("--store", str(receiver.store)))
    ]
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_log_of_any_name_is_rotated_while_a_sidecar_runs_and_while_none_does(place: Place, name: str) -> None:
    data = lines(100)
    path = begun(place, name, data)
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    receiver.gets(data, name)
    if len(os.fsencode(path.name)) < 250:
        path.rename(f"{path}.1")
        data += append(path, lines(50, 100))
        receiver.gets(data, name)
    data += append(path, lines(50, 150))
    assert sidecar.stop() == 0
    data += append(path, lines(50, 200))
    if len(os.fsencode(path.name)) < 250:
        Path(f"{path}.1").rename(f"{path}.2")
        path.rename(f"{path}.1")
        data += append(path, lines(50, 250))
    assert place.once(receiver).ends() == 0
    receiver.holds(data, name)
    assert list(receiver.streams()) == [f"{SITE}/{legible(name)}"]
    assert place.once(receiver).ends() == 0
    receiver.holds(data, name)
    assert place.call("verify", RUN, "--store", str(receiver.store), "--source", str(place.root)).ends() == 0


def test_names_that_would_collide_are_those_of_two_logs(place: Place) -> None:
    names = ["a b.log", "a%20b.log", "a%2520b.log", "a_b.log", "A b.log", "\u00e9.log", "e\u0301.log", "\udce9.log"]
    for name in names:
        begun(place, name, f"{name!r}\n".encode())
    for end in ("x", "y"):
        begun(place, f"{'n' * 150}{end}{'n' * 100}.log", f"{end}\n".encode())
    receiver = place.serve()
    assert place.once(receiver).ends() == 0
    for name in names:
        receiver.holds(f"{name!r}\n".encode(), name)
    for end in ("x", "y"):
        receiver.holds(f"{end}\n".encode(), f"{'n' * 150}{end}{'n' * 100}.log")
    assert len(receiver.streams()) == len(names) + 2


def test_readers_show_the_names_of_the_files_and_take_them(place: Place) -> None:
    receiver = place.serve()
    for name in NAMES.values():
        begun(place, name, b"ERROR: CUDA out of memory\n" if name == TUNE else f"{name!r}\n".encode())
    assert place.once(receiver).ends() == 0
    at = ("--receiver", receiver.address)
    for command in (("status", RUN, *at), ("streams", RUN, *at), ("logs", RUN, *at)):
        printed = place.call(*command).printed
        assert all(legible(name) in printed for name in NAMES.values())
        assert "\x1b" not in printed
        assert "\u202e" not in printed
    for wanted in (TUNE, log_of(TUNE), "*lr=0.01*/error.txt", "error.txt"):
        assert shown(place, receiver, "--log", wanted)[0] == "ERROR: CUDA out of memory"
    assert shown(place, receiver, "--log", CHINESE)[0] == repr(CHINESE)
    assert shown(place, receiver, "--log", "\u8bad\u7ec3*")[0] == repr(CHINESE)
    assert shown(place, receiver, "--log", log_of(CONTAINER))[0] == repr(CONTAINER)
    assert shown(place, receiver, "--log", "*_main-*.log")[0] == repr(CONTAINER)
    assert shown(place, receiver, "--from", f"{SITE}/{CONTAINER}:0")[0] == repr(CONTAINER)
    assert shown(place, receiver, "--from", f"{SITE}/{log_of(CHINESE)}:1")[0] == repr(CHINESE)[1:]
    assert place.call("logs", RUN, *at, "--log", "no such.log").ends() == 3
    line = json.loads(shown(place, receiver, "--log", CHINESE, "-o", "json")[0])
    assert (line["log"], line["stored_as"]) == (CHINESE, log_of(CHINESE))
    found = place.call("findings", RUN, *at)
    assert f"{SITE}/{TUNE}" in found.printed
    for form in ("md", "html"):
        report = place.directory / f"run.{form}"
        place.call("report", RUN, *at, "-o", str(report)).ends()
        assert TUNE.rpartition("/")[2] in report.read_text()
        assert "lr=0.0100,momentum=0.9000" in report.read_text().replace("\\", "")


def test_patterns_of_a_sidecar_and_of_its_site_match_the_names_of_the_files(place: Place) -> None:
    begun(place, "lr=0.1/train.log", b"wanted\n")
    begun(place, "lr=0.2/train.log", b"excluded\n")
    begun(place, "\u79c1/train.log", b"private\n")
    policy = place.directory / "site.toml"
    policy.write_text('exclude = ["\u79c1/**"]\n')
    receiver = place.serve()
    options = ("--include", "*=*/train.log", "--include", "\u79c1/**", "--exclude", "lr=0.2/*")
    assert place.sidecar(receiver, "--once", *options, "--site-policy", str(policy)).ends() == 0
    assert list(receiver.streams()) == [f"{SITE}/lr=0.1/train.log"]


def test_a_file_with_a_name_of_the_stores_own_files_is_a_log_like_others(place: Place) -> None:
    names = [LOG, f".{LOG}.journal", f".{LOG}.quarantine.1"]
    for name in names:
        begun(place, name, f"{name}\n".encode())
    receiver = place.serve()
    assert place.once(receiver, *(word for name in names for word in ("--include", name))).ends() == 0
    for name in names:
        receiver.holds(f"{name}\n".encode(), name)
    assert place.call("verify", RUN, "--store", str(receiver.store), "--source", str(place.root)).ends() == 0


def test_the_log_of_a_command_may_have_any_name(place: Place) -> None:
    receiver = place.serve()
    name = "lr=0.1,bs=32/\u8bad\u7ec3 1.log"
    for command in ("a+b", "a/b", name):
        asked = ("--log", command, "--merge", "--run", RUN, "--site", SITE, "--receiver", receiver.address)
        assert place.call("run", *asked, "--", "echo", command).ends() == 0
        receiver.holds(f"{command}\n".encode(), command)


def test_the_run_of_an_agent_may_have_any_name(place: Place) -> None:
    receiver = place.serve()
    run = "run_id=manual__2026-01-01T00:00:00+00:00"
    begun(place, f"dag_id=etl/{run}/task_id=load/attempt=1.log", b"loaded\n")
    options = (
        "--root",
        str(place.root),
        "--site",
        SITE,
        "--receiver",
        receiver.address,
        "--run-from",
        "path:*/{run}/**",
    )
    assert place.call("agent", *options, "--once").ends() == 0
    at = ("--receiver", receiver.address)
    assert run in place.call("runs", *at).printed
    for asked in (run, log_of(run)):
        assert place.call("logs", asked, *at, "-o", "raw").printed == "loaded\n"
        assert place.call("verify", asked, "--store", str(receiver.store)).ends() == 0
    assert place.call("rm", run, *at, "--yes").ends() == 0
    assert place.call("runs", run, *at).ends() == 3
