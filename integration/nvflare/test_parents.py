"""flarelog in the parent processes of a real NVFlare project: every job's logs, live, whole, and in NVFlare's own
places.

All of these tests share one project; a test that changes a site's configuration restores it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.harness.places import Proxy, free_address, until
from integration.nvflare.conftest import ADMIN, FILES, JOB, SITES, Project, kill

HERE = "flarelog.integrations.nvflare"
SERVER: dict[str, Any] = {"id": "flarelog", "path": f"{HERE}.FlarelogServer", "args": {}}
TRAIN = "train.log"


def site(**args: Any) -> dict[str, Any]:
    return {"id": "flarelog", "path": f"{HERE}.FlarelogSite", "args": {"files": [*FILES, TRAIN], **args}}


@pytest.fixture(scope="module")
def running(venv: Path) -> Iterator[Project]:
    directory = Path(tempfile.mkdtemp(prefix="flarelog-nvflare-"))
    project = Project(directory, venv)
    try:
        project.declare("server", SERVER)
        for name in SITES:
            project.declare(name, site())
        project.start()
        yield project
    finally:
        project.stop()
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def other(project: Project, name: str, component: dict[str, Any], *, allowed: bool = True) -> Iterator[None]:
    """Run site *name* with *component* inside the block."""
    project.stop_one(name)
    project.declare(name, component)
    project.allow(name, allowed)
    project.start(name)
    try:
        yield
    finally:
        project.stop_one(name)
        project.declare(name, site())
        project.allow(name, True)
        project.start(name)


def holds(project: Project, job: str, *sites: str, logs: tuple[str, ...] = FILES) -> None:
    """Assert that *job*'s filed workspace and the store have all bytes that *sites* wrote."""
    for name in sites or SITES:
        for log in logs:
            written = project.written(job, name, log)
            assert project.stored(job, name, log) == written, f"{name}/{log} in the store"
            assert project.filed(job, name, log) == written, f"{name}/{log} in the job's workspace"


def troubles(project: Project, job: str, *names: str) -> list[str]:
    """The errors in the sites' logs, of the parents and of the job."""
    found = []
    for name in names or SITES:
        for path in (project.kit(name), project.kit(name) / job):
            for log in ("log.txt", "error_log.txt"):
                if (path / log).exists():
                    lines = (path / log).read_text(errors="replace").splitlines()
                    found += [line for line in lines if re.search("ERROR|Traceback|Exception", line)]
    return found


def numbers(data: bytes) -> list[int]:
    """The line numbers of talking.py's lines in *data*."""
    return [int(number) for number in re.findall(rb"^line (\d{7}) .*\|$", data, re.MULTILINE)]


@pytest.mark.essential
def test_a_jobs_logs_are_there_while_it_runs_and_whole_in_its_workspace_afterwards(running: Project) -> None:
    job = running.submit(running.job(talker={"lines": 500, "rate": 50}))
    running.sees(job, lambda: b"line 0000050" in running.live(job, "site-1"), "its lines are live")
    assert b"line 0000499" not in running.live(job, "site-1")
    assert re.search(r"talking - INFO - line \d{7}", running.logs(job, "site-1"))
    assert "COMPLETED" in running.wait(job)
    for name in SITES:
        assert b"MPM: Good Bye!" in running.filed(job, name)  # long after END_RUN
        assert "MPM: Good Bye!" in running.logs(job, name)
    holds(running, job)
    assert troubles(running, job) == []
    assert not [name for name in os.listdir(running.storage(job)) if "LOG" in name]  # nothing is filed twice
    assert job in (running.kit("server") / "flarelog-audit.log").read_text()
    assert '"action": ' not in (running.kit("server") / "log.txt").read_text()
    with zipfile.ZipFile(running.storage(job) / "workspace") as archive:  # the server's process is a site, too
        own = archive.read("log.txt")
    until(lambda: running.stored(job, "server") == own, "the server's own log is there")
    assert own.count(b"\n") > 10
    assert sorted(os.listdir(running.kit("server") / "flarelog" / job / "server")) == sorted(
        name for log in ("log.txt", "log.json", "error_log.txt") for name in (log, f".{log}.journal")
    )


@pytest.mark.essential
def test_a_server_that_is_slow_to_start_a_job_costs_nothing(running: Project) -> None:
    slow = {"id": "slow", "path": "talking.Slow", "args": {"seconds": 8.0}}
    job = running.submit(running.job(server=[slow]))
    assert "COMPLETED" in running.wait(job)
    holds(running, job)
    assert troubles(running, job) == []


@pytest.mark.essential
def test_no_line_is_lost_to_rotation(running: Project) -> None:
    job = running.submit(running.job(talker={"lines": 12000, "rate": 1900, "file": TRAIN, "rotate": 200_000}))
    assert "COMPLETED" in running.wait(job)
    for name in SITES:
        assert len(list((running.kit(name) / job).glob(f"{TRAIN}.*"))) > 5
        assert numbers(running.filed(job, name, TRAIN)) == list(range(12000))
    holds(running, job, logs=(*FILES, TRAIN))


def test_training_that_logs_ten_thousand_lines_a_second_arrives_whole(running: Project) -> None:
    job = running.submit(running.job(talker={"lines": 60000, "rate": 10000, "file": TRAIN, "rotate": 2_000_000}))
    assert "COMPLETED" in running.wait(job)
    holds(running, job, logs=(*FILES, TRAIN))
    assert numbers(running.filed(job, "site-1", TRAIN)) == list(range(60000))


@pytest.mark.parametrize("which", ["job", "parent"])
def test_a_server_that_stands_still_for_seven_seconds_costs_nothing(running: Project, which: str) -> None:
    job = running.submit(running.job(talker={"lines": 600, "rate": 50}))
    running.sees(job, lambda: b"line 0000050" in running.live(job, "site-1"), "it runs")
    pids = running.job_processes("server", job) if which == "job" else [running.processes["server"].pid]
    assert pids
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids:
            kill(pid, number)
        time.sleep(7.0 if number is signal.SIGSTOP else 0.0)
    assert "COMPLETED" in running.wait(job)
    holds(running, job)


@pytest.mark.essential
def test_a_job_process_that_is_killed_loses_no_byte_that_it_wrote(running: Project) -> None:
    job = running.submit(running.job(talker={"lines": 400, "rate": 200, "die": "site-1"}))
    running.wait(job)
    assert b"line 0000399" in running.written(job, "site-1")
    until(lambda: running.stored(job, "site-1") == running.written(job, "site-1"), "all of it is there")
    assert running.filed(job, "site-1") == running.written(job, "site-1")


def test_how_a_job_process_ended_is_told_behind_its_logs(running: Project) -> None:
    job = running.submit(running.job(talker={"lines": 20, "rate": 100, "die": "site-1"}))
    running.wait(job)
    store = str(running.kit("server") / "flarelog")
    shown: list[str] = []

    def told() -> bool:
        command = [sys.executable, "-m", "flarelog", "status", job, "--store", store]
        shown.append(subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout)
        return shown[-1].count("exit: ") == 3  # of both sites, and of the server's own process

    until(told, lambda: f"each process has an end: {shown[-1]}")
    (killed,) = re.findall(rf"^exit: {job}/site-1: (.*)$", shown[-1], re.MULTILINE)
    assert re.match(r"killed by SIGKILL after [\d.]+ s.*\(error_log.txt, log.json, log.txt and others\)", killed)
    assert "OOM" not in killed
    for name in ("site-2", "server"):
        assert re.search(rf"^exit: {job}/{name}: exit code \d+ after ", shown[-1], re.MULTILINE), shown[-1]


def test_ten_short_jobs_are_ten_complete_jobs(running: Project) -> None:
    jobs = [running.submit(running.job(talker={"lines": 20, "rate": 100})) for _ in range(10)]
    for job in jobs:
        assert "COMPLETED" in running.wait(job)
        holds(running, job)
        assert troubles(running, job) == []


@pytest.mark.essential
def test_a_job_that_dies_before_it_starts_tells_why(running: Project) -> None:
    broken = {"id": "broken", "path": "talking.Missing", "args": {}}
    job = running.submit(running.job(client=[broken]))
    running.wait(job)
    for name in SITES:
        assert b"Missing" in running.written(job, name, "error_log.txt")
    holds(running, job)


def test_nvflares_own_streaming_beside_it_takes_nothing_away(running: Project) -> None:
    own = "nvflare.app_common.logging.job_log"
    streamer = {"id": "streamer", "path": f"{own}_streamer.JobLogStreamer", "args": {"log_file_name": "log.txt"}}
    receiver = {"id": "receiver", "path": f"{own}_receiver.JobLogReceiver", "args": {}}
    job = running.submit(running.job(client=[streamer], server=[receiver], talker={"lines": 100, "rate": 50}))
    assert "COMPLETED" in running.wait(job)
    holds(running, job)


def test_a_receiver_that_never_comes_costs_the_job_no_more_than_the_bounded_drain(running: Project) -> None:
    with other(running, "site-2", site(receiver=free_address().replace("127.0.0.1", "localhost"), drain_timeout=3.0)):
        job = running.submit(running.job())
        assert "COMPLETED" in running.wait(job)
        said = (running.kit("site-2") / "log.txt").read_text()
        assert "no receiver answered" in said
        assert troubles(running, job, "site-2") == []
        ended = [stamp(line) for line in said.splitlines() if job in line and "child worker process finished" in line]
        over = [stamp(line) for line in running.written(job, "site-2").decode().splitlines() if "Good Bye" in line]
        assert 0 <= ended[0] - over[0] < 3.0 + 3.0
    holds(running, job, "site-1")


def stamp(line: str) -> float:
    """The time at a line's beginning, in seconds."""
    return time.mktime(time.strptime(line[:19], "%Y-%m-%d %H:%M:%S")) + int(line[20:23]) / 1000


def test_a_network_that_stands_still_at_a_jobs_end_costs_its_workspace_nothing(running: Project) -> None:
    with (
        Proxy("localhost:4721") as proxy,
        other(running, "site-2", site(receiver=proxy.address.replace("127.0.0.1", "localhost"), drain_timeout=30.0)),
    ):
        job = running.submit(running.job(talker={"lines": 200, "rate": 50}))
        running.sees(job, lambda: b"line 0000100" in running.live(job, "site-2"), "it runs")
        proxy.hold()
        until(lambda: b"Good Bye" in running.written(job, "site-2"), "its process ends", JOB)
        time.sleep(5.0)  # the server looks every second for ended jobs
        assert b"line 0000199" not in running.live(job, "site-2")
        proxy.release()
        assert "COMPLETED" in running.wait(job)
        holds(running, job)


@pytest.mark.essential
def test_a_site_that_may_open_no_second_port_sends_through_nvflares_own_connection(running: Project) -> None:
    nobody = free_address().replace("127.0.0.1", "localhost")
    with other(running, "site-2", site(receiver=nobody, tunnel=True)):
        job = running.submit(running.job(talker={"lines": 12000, "rate": 1900, "file": TRAIN, "rotate": 200_000}))
        running.sees(job, lambda: len(running.live(job, "site-2", TRAIN)) > 5000, "its lines are live")
        assert "COMPLETED" in running.wait(job)
        holds(running, job, logs=(*FILES, TRAIN))
        assert troubles(running, job) == []


def test_what_the_server_holds_can_be_shown_verified_and_downloaded(running: Project) -> None:
    job = running.submit(running.job())
    assert "COMPLETED" in running.wait(job)
    flarelog = str(running.venv / "bin" / "flarelog")
    for command in ("streams", "verify"):
        said = subprocess.run(
            [flarelog, command, job, "--store", running.kit("server") / "flarelog"],
            env=running.env, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert said.stdout.count("site-2") == len(FILES), said.stdout
    running.call("job", "download", job, "-o", str(running.directory / "downloaded"))
    (found,) = (running.directory / "downloaded").rglob("site-2/log.txt")
    assert found.read_bytes() == running.written(job, "site-2")


def test_a_site_that_does_not_allow_it_streams_nothing_and_says_so_once(running: Project) -> None:
    before = (running.kit("site-2") / "log.txt").read_text().count("flarelog sends no logs")  # logged at the start
    with other(running, "site-2", site(), allowed=False):
        for _ in range(2):
            job = running.submit(running.job())
            assert "COMPLETED" in running.wait(job)
            holds(running, job, "site-1")
            assert not (running.kit("server") / "flarelog" / job / "site-2").exists()
        assert (running.kit("site-2") / "log.txt").read_text().count("flarelog sends no logs") == before + 1

        # A push in its name all the same is refused, and its bytes are dropped.
        sent = push_as(running, "site-2", "site-2", job)
        assert sent.returncode != 0
        assert "does not allow log streaming (allow_log_streaming)" in sent.stderr
        assert "does not allow log streaming" in (running.kit("server") / "log.txt").read_text()
        assert not (running.kit("server") / "flarelog" / job / "site-2").exists()


def push_as(project: Project, kit: str, name: str, job: str) -> subprocess.CompletedProcess[str]:
    """Run a separate sidecar with the certificate in *kit*."""
    logs = Path(tempfile.mkdtemp(dir=project.directory))
    (logs / "forged.txt").write_text("forged\n")
    startup = project.kit(kit) / "startup"
    tls = ("--tls-ca", "rootCA.pem"), ("--tls-cert", "client.crt"), ("--tls-key", "client.key")
    return subprocess.run(
        [
            *(project.venv / "bin" / "flarelog", "sidecar", "--receiver", "localhost:4721"),
            *("--run", job, "--site", name, "--root", logs, "--once", "--drain-timeout", "5"),
            *(word for option, file in tls for word in (option, startup / file)),
        ],
        env=project.env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("kit", "why"), [(ADMIN, "is not a site"), ("site-1", "asks for site 'site-2'")])
def test_nobody_else_sends_as_a_site(running: Project, kit: str, why: str) -> None:
    jobs = os.listdir(running.kit("server") / "flarelog")
    job = next(name for name in jobs if re.fullmatch("[0-9a-f-]{36}", name))
    sent = push_as(running, kit, "site-2", job)
    assert sent.returncode != 0
    assert why in sent.stderr
    assert not list((running.kit("server") / "flarelog" / job).rglob("forged.txt"))


def test_a_log_that_comes_too_late_for_the_workspace_is_filed_when_it_comes(running: Project) -> None:
    with other(running, "site-2", site(receiver=free_address().replace("127.0.0.1", "localhost"), drain_timeout=1.0)):
        job = running.submit(running.job())
        assert "COMPLETED" in running.wait(job)
    assert running.filed(job, "site-2") == b""
    written = running.written(job, "site-2")
    startup = running.kit("site-2") / "startup"
    subprocess.run(
        [
            *(running.venv / "bin" / "flarelog", "sidecar", "--receiver", "localhost:4721"),
            *("--run", job, "--site", "site-2", "--root", running.kit("site-2") / job, "--once"),
            *("--include", "log.txt", "--tls-ca", startup / "rootCA.pem"),
            *("--tls-cert", startup / "client.crt", "--tls-key", startup / "client.key"),
        ],
        env=running.env, timeout=60, check=True,
    )  # fmt: skip
    filed = running.storage(job) / "LOG_log.txt_site-2"
    until(filed.exists, "it is filed")
    assert filed.read_bytes() == written
    assert "Good Bye" in running.logs(job, "site-2")
    assert not [name for name in os.listdir(running.storage(job)) if "partial" in name]


def test_a_log_that_never_ends_is_filed_as_partial(running: Project) -> None:
    """The site was killed with the job, so no receipt comes."""
    job = running.submit(running.job(talker={"lines": 3000, "rate": 50}))
    running.sees(job, lambda: b"line 0000100" in running.live(job, "site-2"), "it runs")
    running.stop_one("site-2")
    try:
        running.call("job", "abort", job, "--force", check=False)
        running.wait(job)
        mark = running.storage(job) / "LOG_log.txt.partial_site-2"
        until(mark.exists, lambda: f"it is filed: {os.listdir(running.storage(job))}", 90.0)
        record = json.loads(mark.read_text())
        assert record["partial"] is True
        assert not record["sealed"]
        assert b"line 0000100" in (running.storage(job) / "LOG_log.txt_site-2").read_bytes()
    finally:
        running.start("site-2")
