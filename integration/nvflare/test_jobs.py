"""flarelog as components of one job, for users who cannot change the sites: in the simulator, and in a project."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from integration.nvflare.conftest import FILES, SITES, Project

HERE = "flarelog.integrations.nvflare"
TRAIN = "train.log"
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


PLAIN: dict[str, dict[str, Any]] = {
    "server": {
        "workflows": [
            {
                "id": "sag",
                "path": "nvflare.app_common.workflows.scatter_and_gather.ScatterAndGather",
                "args": {
                    "min_clients": 2,
                    "num_rounds": 1,
                    "aggregator_id": "aggregator",
                    "persistor_id": "persistor",
                    "shareable_generator_id": "shareable_generator",
                },
            }
        ],
        "components": [
            {"id": "persistor", "path": "nvflare.app_common.np.np_model_persistor.NPModelPersistor", "args": {}},
            {
                "id": "shareable_generator",
                "path": "nvflare.app_common.shareablegenerators.full_model_shareable_generator"
                ".FullModelShareableGenerator",
                "args": {},
            },
            {
                "id": "aggregator",
                "path": "nvflare.app_common.aggregators.intime_accumulate_model_aggregator"
                ".InTimeAccumulateWeightedAggregator",
                "args": {"expected_data_kind": "WEIGHTS"},
            },
        ],
    },
    "client": {
        "executors": [
            {
                "tasks": ["train"],
                "executor": {"path": "nvflare.app_common.np.np_trainer.NPTrainer", "args": {"sleep_time": 1}},
            }
        ],
        "components": [],
    },
}
"""A job with only NVFlare's own classes."""


def plain(project: Project, producer: dict[str, Any]) -> Path:
    job = Path(tempfile.mkdtemp(dir=project.directory, prefix="plain-")) / "plain"
    (job / "app" / "config").mkdir(parents=True)
    for role, said in PLAIN.items():
        components = [producer] if role == "client" else said["components"]
        config = {"format_version": 2, **said, "components": components}
        (job / "app" / "config" / f"config_fed_{role}.json").write_text(json.dumps(config))
    meta = {"name": "plain", "resource_spec": {}, "min_clients": 2, "deploy_map": {"app": ["@ALL"]}}
    (job / "meta.json").write_text(json.dumps(meta))
    return job


def simulated(project: Project, job: Path) -> Path:
    """Run *job* in the simulator; return its workspace."""
    simulation = project.directory / "simulation"
    project.call("simulator", str(job), "-w", str(simulation), "-n", str(len(SITES)), "-t", str(len(SITES)))
    return simulation


def hello(project: Project) -> Path:
    """A job from NVFlare's own recipe, whose client script trains and prints."""
    script = str(Path(__file__).parent / "hello" / "export.py")
    python, to = str(project.venv / "bin" / "python"), str(project.directory / "exported")
    subprocess.run([python, script, to], cwd=project.directory, env=project.env, check=True, timeout=60)
    return Path(to) / "hello"


def trained(data: bytes) -> list[bytes]:
    return [line.split()[-1] for line in data.splitlines() if b"trains in round" in line]


def whole(written: bytes, came: bytes, last: bytes) -> None:
    """Assert that the stored bytes are exactly those written before END_RUN."""
    assert written.startswith(came)
    assert last in came
    assert b"ABOUT_TO_END_RUN fired" in came


@pytest.mark.essential
def test_in_the_simulator_a_jobs_logs_are_in_its_directory(project: Project) -> None:
    simulation = simulated(
        project, project.job(talker={"lines": 200, "rate": 100}, client=[PRODUCER], server=[RECEIVER])
    )
    for name in SITES:
        came = simulation / "server" / "simulate_job" / name
        whole((simulation / name / "log.txt").read_bytes(), (came / "log.txt").read_bytes(), b"line 0000199")
        written = (simulation / name / "log.json").read_bytes()
        assert written.startswith((came / "log.json").read_bytes())
        assert "ERROR" not in (simulation / name / "log.txt").read_text()


def test_in_the_simulator_training_that_logs_ten_thousand_lines_a_second_arrives_whole(project: Project) -> None:
    """The log is rotated, and has progress bars."""
    talker = {"lines": 60000, "rate": 10000, "file": TRAIN, "rotate": 2_000_000}
    producer = {**PRODUCER, "args": {"files": [*FILES, TRAIN]}}
    simulation = simulated(project, project.job(talker=talker, client=[producer], server=[RECEIVER]))
    for name in SITES:
        files = sorted((simulation / name).glob(f"{TRAIN}.*"), key=lambda path: -int(path.suffix[1:]))
        assert len(files) >= 2
        written = b"".join(path.read_bytes() for path in (*files, simulation / name / TRAIN))
        assert (simulation / "server" / "simulate_job" / name / TRAIN).read_bytes() == written
        assert written.count(b"\n") == 60000


def test_in_the_simulator_a_recipes_job_is_whole(project: Project) -> None:
    simulation = simulated(project, hello(project))
    for name in SITES:
        came = (simulation / "server" / "simulate_job" / name / "log.txt").read_bytes()
        whole((simulation / name / "log.txt").read_bytes(), came, f"site {name} begins".encode())
        assert trained(came) == [b"0", b"1", b"2"]


@pytest.mark.essential
def test_in_a_project_a_recipes_job_is_whole(project: Project) -> None:
    project.start()
    job = project.submit(hello(project))
    assert "COMPLETED" in project.wait(job)
    for name in SITES:
        whole(project.written(job, name), project.filed(job, name), f"site {name} begins".encode())
        assert trained(project.filed(job, name)) == [b"0", b"1", b"2"]


def test_a_jobs_producers_send_to_the_servers_component_where_the_sites_list_allows_them(project: Project) -> None:
    """In a job without custom code NVFlare builds only classes on the site's list."""
    project.declare("server", {"id": "flarelog", "path": f"{HERE}.FlarelogServer", "args": {}})
    producer = {**PRODUCER, "args": {"receiver": "localhost:4721"}}
    project.configure("site-1", lambda said: said["class_allow_list"].append("flarelog."))
    project.start()
    job = project.submit(plain(project, producer))
    project.wait(job)
    assert b"is not in allow_list" in project.written(job, "site-2")
    assert project.stored(job, "site-2") == b""
    came = project.stored(job, "site-1")
    assert came
    assert project.written(job, "site-1").startswith(came)


def test_in_a_project_a_jobs_logs_are_live_and_filed_without_anything_at_the_sites(project: Project) -> None:
    project.start()
    slow = {"id": "slow", "path": "talking.Slow", "args": {"seconds": 8.0}}
    job = project.submit(
        project.job(talker={"lines": 200, "rate": 50}, client=[PRODUCER], server=[slow, RECEIVER]),
    )
    project.sees(job, lambda: b"line 0000050" in project.live(job, "site-1"), "its lines are live")
    assert "talking - INFO - line" in project.logs(job, "site-1")
    assert "COMPLETED" in project.wait(job)
    for name in SITES:
        whole(project.written(job, name), project.filed(job, name), b"line 0000199")
        for log in FILES:
            assert project.written(job, name, log).startswith(project.filed(job, name, log))
        assert b"ERROR" not in project.written(job, name)
        assert project.written(job, name, "error_log.txt") == b""


@pytest.mark.essential
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
