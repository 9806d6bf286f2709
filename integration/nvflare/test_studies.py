"""Whose jobs an admin sees: two studies in one project, each with an admin of its own, and the default study."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from flarelog.security.tls import Tls
from integration.harness.pages import Page, closing
from integration.harness.places import new_place, until
from integration.nvflare.conftest import SITES, TESTED, Project

HERE = "flarelog.integrations.nvflare"
ADMINS = {"red": "ann@nvidia.com", "blue": "bob@nvidia.com"}  # by study
ADDRESS = "localhost:4721"
REFUSED = 5  # exit code


def registry(*, red: str, blue: str) -> dict[str, Any]:
    studies = {
        study: {"site_orgs": {"nvidia": list(SITES)}, "admins": [admin]}
        for study, admin in {"red": red, "blue": blue}.items()
    }
    return {"format_version": "1.0", "studies": studies}


def flarelog(project: Project, admin: str, *args: str) -> subprocess.CompletedProcess[str]:
    """A command of *admin*, with his kit."""
    return subprocess.run(
        [project.venv / "bin" / "flarelog", *args, *way(project, admin)],
        env=project.env, cwd=project.directory, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def way(project: Project, admin: str) -> tuple[str, ...]:
    startup = project.kit(admin) / "startup"
    kit = Tls(*(str(startup / file) for file in ("rootCA.pem", "client.crt", "client.key")))
    return "--receiver", ADDRESS, *kit.arguments()


def runs_of(project: Project, admin: str) -> set[str]:
    said = flarelog(project, admin, "runs", "--json")
    assert said.returncode == 0, said.stderr
    return {json.loads(line)["run"] for line in said.stdout.splitlines()}


REPORT = ("report", "-o", "-", "--format", "md")
READING = (("streams", "--json"), ("status",), ("findings",), ("logs",), ("runs", "--json"), REPORT)


def reads(project: Project, admin: str, run: str, command: str, *args: str) -> bool:
    """Whether *admin* learns anything about *run* by *command*."""
    said = flarelog(project, admin, command, run, *args)
    none = command == "findings" and "no known trouble was found in" in said.stderr  # it has looked at the logs
    assert none or said.returncode in (0, 1, 6, REFUSED), f"{command}: {said.stdout}{said.stderr}"
    if said.returncode == REFUSED:
        assert re.search("reads the jobs that its admin sees in NVFlare", said.stderr), said.stderr
        assert "site-1" not in said.stdout
    return said.returncode != REFUSED


@pytest.mark.essential
@pytest.mark.skipif(TESTED.startswith("2.7"), reason="NVFlare 2.7 has no studies")
def test_an_admin_sees_the_jobs_of_his_studies_in_every_list_and_no_other(project: Project) -> None:
    for admin in ADMINS.values():
        project.call("poc", "add-user", "lead", admin)
    project.kits = max(project.kits.parent.glob("prod_*"))
    (project.kit("server") / "local" / "study_registry.json").write_text(
        json.dumps(registry(red=ADMINS["red"], blue=ADMINS["blue"]))
    )
    project.declare("server", {"id": "flarelog", "path": f"{HERE}.FlarelogServer", "args": {}})
    for name in SITES:
        project.declare(name, {"id": "flarelog", "path": f"{HERE}.FlarelogSite", "args": {}})
    project.start()
    jobs = {
        study: project.submit(
            project.job(talker={"lines": 20, "rate": 100}),
            *("--study", study, "--startup-kit", str(project.kit(ADMINS.get(study, ADMINS["red"])))),
        )
        for study in (*ADMINS, "default")
    }
    for job in jobs.values():
        assert "COMPLETED" in project.wait(job)
        until(lambda: b"line 0000019" in project.stored(job, "site-1"), "it is stored")  # noqa: B023
    for study, admin in ADMINS.items():
        (other,) = set(ADMINS) - {study}
        assert runs_of(project, admin) == {jobs[study], jobs["default"]}
        for command in READING:
            assert reads(project, admin, jobs[study], *command), command
            assert not reads(project, admin, jobs[other], *command), command
        assert "epoch  19% |" in flarelog(project, admin, "logs", jobs[study]).stdout  # the bar is drawn over the line
        assert not reads(project, admin, "00000000-0000-0000-0000-000000000000", "streams")

    for study, admin in ADMINS.items():
        with new_place() as place, closing(place):
            browser = Page(place, *way(project, admin)).browser()
            for run in (*jobs.values(), None):
                for answer in ("runs", *(("run", "findings", "machines", "first-error") if run else ())):
                    said = browser.get(f"/api/{answer}", params={"run": run} if run else None)
                    seen = {job for job in jobs.values() if job in said.text and job != run}
                    assert seen <= {jobs[study], jobs["default"]}, said.text
                    shown = said.status_code == 200 and "site-1" in said.text
                    assert answer == "runs" or not shown or run in (jobs[study], jobs["default"]), said.text
            assert "site-1" in browser.get("/api/run", params={"run": jobs[study]}).text

    # NVFlare's own command changes who is in a study, and flarelog asks at each read.
    kit = str(project.kit("admin@nvidia.com"))
    project.call("study", "remove-user", "red", ADMINS["red"], "--startup-kit", kit)
    project.call("study", "add-user", "red", ADMINS["blue"], "--startup-kit", kit)
    assert runs_of(project, ADMINS["red"]) == {jobs["default"]}
    assert runs_of(project, ADMINS["blue"]) == set(jobs.values())
