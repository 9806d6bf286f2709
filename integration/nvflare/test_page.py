"""The steps of docs/nvflare.md for a site's admin: a fresh project, NVFlare's own start and stop, twice."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from integration.harness.places import until
from integration.nvflare.conftest import FILES, SITES, START, TREE, Project, kill, started_in

STOPPED = 60.0  # seconds; NVFlare's own watchdogs check every few seconds for a stop
OWN = re.compile(r"_driver - ERROR - Error sending frame for connection")
"""The errors that NVFlare's own connections may log at a stop."""


def dropped_files() -> tuple[str, str]:
    """The files that the page adds beside those of the server and of a site."""
    page = (TREE / "docs" / "nvflare.md").read_text()
    server, site = re.findall(r"```json\n(.*?)```", page, re.DOTALL)[:2]
    return server, site


@pytest.mark.essential
def test_the_page_is_all_that_it_takes_and_a_restart_changes_nothing(project: Project) -> None:
    server, site = dropped_files()
    for name, text in (("server", server), *((name, site) for name in SITES)):
        assert json.loads(text)["format_version"] == 2
        (project.kit(name) / "local" / "flarelog__p_resources.json").write_text(text)
    try:
        for _ in range(2):
            project.call("poc", "start", "--timeout", f"{START:.0f}")
            job = project.submit(project.job(talker={"lines": 300, "rate": 50}))
            project.sees(job, lambda: b"line 0000050" in project.live(job, "site-1"), "its lines are live")  # noqa: B023
            assert "COMPLETED" in project.wait(job)
            for name in SITES:
                for log in FILES:
                    assert project.filed(job, name, log) == project.written(job, name, log)
                lines = (project.kit(name) / "log.txt").read_text().splitlines()
                assert [line for line in lines if "ERROR" in line and not OWN.search(line)] == []
            project.call("poc", "stop")
            until(lambda: not running(project.directory), "all processes have ended", STOPPED)
    finally:
        for pid in running(project.directory):
            kill(pid, signal.SIGKILL)


def running(directory: Path) -> list[int]:
    return started_in(directory / "poc")
