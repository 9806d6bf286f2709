"""flarelog as components of one job, for people who cannot touch the sites: in the simulator, and in a project."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from integration.conftest import until
from integration.nvflare.conftest import FILES, JOB, SITES, Project

HERE = "flarelog.integrations.nvflare"
PRODUCER: dict[str, Any] = {"id": "producer", "path": f"{HERE}.FlarelogProducer", "args": {}}
RECEIVER: dict[str, Any] = {"id": "receiver", "path": f"{HERE}.FlarelogReceiver", "args": {}}

EXPORT = f"""
from nvflare.job_config.api import FedJob
from {HERE} import FlarelogProducer, FlarelogReceiver

job = FedJob(name="job", min_clients=2)
job.set_app_packages(["flarelog"])
job.to_server(FlarelogReceiver(listen="0.0.0.0:5000"), id="receiver")
job.to_clients(FlarelogProducer(receiver="logs:5000", files=["*.log"]), id="producer")
job.export_job("exported")
"""


def whole(written: bytes, came: bytes, last: bytes) -> None:
    """All that was written until END_RUN came, and nothing else."""
    assert written.startswith(came)
    assert last in came
    assert b"ABOUT_TO_END_RUN fired" in came


def test_in_the_simulator_a_jobs_logs_are_in_its_directory(project: Project) -> None:
    job = project.job(talker={"lines": 200, "rate": 100}, client=[PRODUCER], server=[RECEIVER])
    simulation = project.directory / "simulation"
    project.call("simulator", str(job), "-w", str(simulation), "-n", str(len(SITES)), "-t", str(len(SITES)))
    for name in SITES:
        came = simulation / "server" / "simulate_job" / name
        whole((simulation / name / "log.txt").read_bytes(), (came / "log.txt").read_bytes(), b"line 0000199")
        written = (simulation / name / "log.json").read_bytes()
        assert written.startswith((came / "log.json").read_bytes())
        assert "ERROR" not in (simulation / name / "log.txt").read_text()


def test_in_a_project_a_jobs_logs_are_live_and_filed_without_anything_at_the_sites(project: Project) -> None:
    project.start()
    slow = {"id": "slow", "path": "talking.Slow", "args": {"seconds": 8.0}}
    job = project.submit(
        project.job(talker={"lines": 200, "rate": 50}, client=[PRODUCER], server=[slow, RECEIVER]),
    )
    until(lambda: b"line 0000050" in project.live(job, "site-1"), "its lines are live", JOB)
    assert "talking - INFO - line" in project.logs(job, "site-1")
    assert "COMPLETED" in project.wait(job)
    for name in SITES:
        whole(project.written(job, name), project.filed(job, name), b"line 0000199")
        for log in FILES:
            assert project.written(job, name, log).startswith(project.filed(job, name, log))
        assert b"ERROR" not in project.written(job, name)
        assert project.written(job, name, "error_log.txt") == b""


def test_the_job_api_keeps_the_arguments_and_copies_nothing_of_flarelog(project: Project) -> None:
    subprocess.run(
        [project.venv / "bin" / "python", "-c", EXPORT], cwd=project.directory, env=project.env, check=True, timeout=60
    )
    app = project.directory / "exported" / "job" / "app"
    components = {
        role: json.loads((app / "config" / f"config_fed_{role}.json").read_text())["components"]
        for role in ("server", "client")
    }
    assert {"id": "receiver", "path": f"{HERE}.FlarelogReceiver", "args": {"listen": "0.0.0.0:5000"}} in components[
        "server"
    ]
    args = {"receiver": "logs:5000", "files": ["*.log"]}
    assert {"id": "producer", "path": f"{HERE}.FlarelogProducer", "args": args} in components["client"]
    assert not list(app.rglob("flarelog*"))
