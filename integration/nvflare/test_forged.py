"""A site sends messages in another's name through NVFlare's own connection: which of them NVFlare passes, and how
flarelog handles them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from integration.harness.places import until
from integration.nvflare.conftest import JOB, VERSIONS, Project, environment
from integration.nvflare.test_parents import SERVER, holds, site

FORGER = {"id": "forger", "path": "integration.nvflare.forger.Forger", "args": {"victim": "site-2"}}
BOUND = {"2.7.2": False, "2.8.1": True, "2.9.0": True}
"""Whether the release compares a message's origin with the name that its client registered."""


@pytest.mark.parametrize("version", VERSIONS)
def test_who_sends_as_another_site_speaks_and_counts_as_himself(version: str) -> None:
    directory = Path(tempfile.mkdtemp(prefix="flarelog-nvflare-"))
    project = Project(directory, environment(version))
    try:
        project.declare("server", SERVER)
        project.declare("site-1", FORGER)
        project.declare("site-2", site(receiver="localhost:1", tunnel=True))
        project.start()
        until((project.kit("site-1") / "forged").exists, project.talk, JOB)
        said = project.kit("server") / "log.txt"
        until(lambda: "site site-1, job a-job: said as myself" in said.read_text(), "what is honest is heard")
        if BOUND[version]:
            until(lambda: "not message origin site-2" in said.read_text(), project.talk)
        else:
            until(lambda: "site site-1, job a-job: said as site-2" in said.read_text(), project.talk)
            until(lambda: "through the tunnel site-1 has 64 connections" in said.read_text(), project.talk)
            assert "through the tunnel site-1 sent pieces of 1,048,576 bytes" in said.read_text()
        assert "site site-2, job a-job" not in said.read_text()
        assert "through the tunnel site-2" not in said.read_text()
        if version == VERSIONS[0]:  # the impersonated site keeps its own connections
            job = project.submit(project.job())
            assert "COMPLETED" in project.wait(job)
            holds(project, job, "site-2")
    finally:
        project.stop()
        shutil.rmtree(directory, ignore_errors=True)
