"""A job that ends while the disk of flarelog's store is full: its logs wait, those of the server as those of a site."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flarelog.poc.disk import BALLAST, mount
from integration.harness.places import until
from integration.nvflare.conftest import SITES, Project

HERE = "flarelog.integrations.nvflare"
LOGS = ("log.txt", "log.json", "error_log.txt")
WITHIN = 90.0  # seconds after there is room again: an attempt every 5, 10, 20 and 40 s


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk for the store."""
    place = tmp_path / "disk"
    if trouble := mount(place, 8 << 20):
        pytest.skip(trouble)
    try:
        yield place
    finally:
        subprocess.run(("umount", "--lazy", str(place)), check=True)


def fill(disk: Path) -> None:
    with open(disk / BALLAST, "ab", buffering=0) as file:
        for size in (1 << 20, 4096):
            try:
                while file.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue


def listed(project: Project, job: str, store: Path) -> dict[str, dict[str, Any]]:
    """The record of each of the job's streams, by SITE/LOG."""
    said = subprocess.run(
        [project.venv / "bin" / "flarelog", "streams", job, "--store", store, "--json"],
        env=project.env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    records = [json.loads(line) for line in said.stdout.splitlines()]
    return {f"{one['site']}/{one['log']}": one for one in records}


def errors(project: Project, name: str) -> str:
    return (project.kit(name) / "error_log.txt").read_text() if (project.kit(name) / "error_log.txt").exists() else ""


@pytest.mark.parametrize("restarted", [False, True], ids=["the server runs on", "the server is killed meanwhile"])
def test_the_logs_of_a_job_that_ends_on_a_full_disk_wait_for_room(
    project: Project, disk: Path, restarted: bool
) -> None:
    store = disk / "store"
    server = {"id": "flarelog", "path": f"{HERE}.FlarelogServer", "args": {"store": str(store)}}
    project.declare("server", server)
    for name in SITES:
        project.declare(name, {"id": "flarelog", "path": f"{HERE}.FlarelogSite", "args": {}})
    project.start()
    job = project.submit(project.job(talker={"lines": 300, "rate": 30}))
    begun = [store / job / name / "log.txt" for name in ("server", *SITES)]
    project.sees(job, lambda: all(path.exists() and path.stat().st_size for path in begun), "all logs have begun")
    fill(disk)
    project.wait(job)
    until(lambda: not (project.kit("server") / job).exists(), "NVFlare has removed the job's directory")
    if restarted:
        project.stop_one("server")
        project.start("server")
    os.unlink(disk / BALLAST)

    def whole() -> bool:
        streams = listed(project, job, store)
        return all(
            streams.get(f"{name}/{log}", {}).get("sealed") and streams[f"{name}/{log}"].get("exits")
            for name in ("server", *SITES)
            for log in LOGS
        )

    until(whole, lambda: f"all are whole: {json.dumps(listed(project, job, store), indent=1)}", WITHIN)
    with zipfile.ZipFile(project.storage(job) / "workspace") as archive:
        own = {log: archive.read(log) for log in LOGS}
    for log in LOGS:
        assert (store / job / "server" / log).read_bytes() == own[log], log
        for name in SITES:
            assert (store / job / name / log).read_bytes() == project.written(job, name, log), (name, log)
    assert [name for name in ("server", *SITES) if "ERROR" in errors(project, name)] == []
    until(lambda: not os.listdir(project.kit("server") / "flarelog-held"), "nothing is held any longer", WITHIN)
