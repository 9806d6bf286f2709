"""Any fault in a job's four processes: every site's log is whole in the store, and every receipt is true.

Three sites with NVFlare's logs, which are four a job (three before 2.8), over mutual TLS. A row is a fault in the
middle of a job. When all of the job's processes have gone, each log is compared with its stored bytes by length and
SHA-256. ``make nvflare`` tries every row on every supported version; CI tries a part.
"""

from __future__ import annotations

import hashlib
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from flarelog.stores.local import journal
from integration.harness.places import until
from integration.nvflare.conftest import FILES, JOB, TESTED, VERSIONS, Project, environment, kill

HERE = "flarelog.integrations.nvflare"
SITES = ("site-1", "site-2", "site-3")
TALK = {"lines": 800, "rate": 50}
STOPPED = 40.0  # seconds
WHOLE = 150.0  # seconds in which all bytes that can come must have come

SERVER_PARENT, SERVER_JOB, SITE_PARENT, SITE_JOB = "server's parent", "server's job", "site's parent", "site's job"


@contextmanager
def running(version: str) -> Iterator[Project]:
    directory = Path(tempfile.mkdtemp(prefix="flarelog-nvflare-"))
    project = Project(directory, environment(version), SITES)
    try:
        project.declare("server", {"id": "flarelog", "path": f"{HERE}.FlarelogServer", "args": {}})
        for name in SITES:
            project.declare(name, {"id": "flarelog", "path": f"{HERE}.FlarelogSite", "args": {}})
        project.start()
        yield project
    finally:
        project.stop()
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True)
class Log:
    """One site's log of a job: its bytes at the site and in the store."""

    name: str
    written: bytes
    stored: bytes
    sealed: bool

    @property
    def whole(self) -> bool:
        digests = [hashlib.sha256(data).hexdigest() for data in (self.written, self.stored)]
        return self.sealed and digests[0] == digests[1]

    def __str__(self) -> str:
        receipt = "a receipt" if self.sealed else "no receipt"
        return f"{self.name}: {len(self.stored)} of {len(self.written)} bytes, {receipt}"


def logs(project: Project, job: str, *sites: str) -> list[Log]:
    found = []
    for site in sites or SITES:
        for log in (*FILES, "log_error.txt"):
            if not (project.kit(site) / job / log).exists():
                continue  # each release has four of them
            path = project.kit("server") / "flarelog" / job / site / f".{log}.journal"
            sealed = path.exists() and journal.replay(path.read_bytes()).sealed
            stored = project.stored(job, site, log)  # read before the site's file, which may grow
            found.append(Log(f"{site}/{log}", project.written(job, site, log), stored, sealed))
    return found


def broken(project: Project, job: str) -> list[str]:
    return [str(log) for log in logs(project, job) if not log.whole]


def whole(project: Project, *jobs: str) -> None:
    """Assert that all logs of *jobs* are whole within WHOLE seconds after their last process."""
    for job in jobs:
        until(partial(over, project, job), f"the processes of {job} have gone", WHOLE)
    for job in jobs:
        until(partial(all_whole, project, job), partial(_report, project, job), WHOLE)


def over(project: Project, job: str) -> bool:
    return not any(project.job_processes(name, job) for name in ("server", *SITES))


def all_whole(project: Project, job: str) -> bool:
    return not broken(project, job)


def talks(project: Project, job: str, site: str) -> bool:
    return b"line 0000050" in project.written(job, site)


def own_whole(project: Project, job: str) -> bool:
    """Whether the log of the server's own process of *job*, whose parent was killed, is whole in the store."""
    written = (project.kit("server") / job / "log.txt").read_bytes()
    return b"INFO" in written and project.stored(job, "server") == written


def finished(project: Project, job: str) -> bool:
    return "FINISHED" in project.ask("status", job)


def _report(project: Project, job: str) -> str:
    return f"all logs are whole; not: {broken(project, job)}\n{project.talk()}"


def honest(project: Project, job: str) -> None:
    """Assert that a log with a receipt is whole, and that the stored bytes of others are a prefix."""
    for log in logs(project, job):
        assert log.written.startswith(log.stored), str(log)
        assert log.whole or not log.sealed, str(log)


def pids(project: Project, which: str, job: str) -> list[int]:
    name = "server" if which in (SERVER_PARENT, SERVER_JOB) else "site-1"
    if which in (SERVER_PARENT, SITE_PARENT):
        return [project.processes[name].pid]
    return until(lambda: project.job_processes(name, job), f"{which} is there", JOB)


def begun(project: Project) -> str:
    """Submit a job; return its id in the middle of its lines."""
    job = project.ask("submit", str(project.job(talker=TALK)))
    for site in SITES:
        project.sees(job, partial(talks, project, job, site), f"{site} writes")
    return job


# --- the rows


def nothing(project: Project) -> list[str]:
    job = project.ask("submit", str(project.job(talker={"lines": 20, "rate": 100})))
    until(partial(finished, project, job), "it ends", JOB)
    return [job]


def twenty_in_a_row(project: Project) -> list[str]:
    return [job for _ in range(20) for job in nothing(project)]


def four_at_once(project: Project) -> list[str]:
    jobs = [project.ask("submit", str(project.job(talker={"lines": 200, "rate": 50}))) for _ in range(4)]
    for job in jobs:
        until(partial(finished, project, job), "it ends", 4 * JOB)
    return jobs


def abort(project: Project) -> list[str]:
    job = begun(project)
    project.ask("abort", job)
    return [job]


def abort_by_command(project: Project) -> list[str]:
    job = begun(project)
    project.call("job", "abort", job, "--force")
    return [job]


def killed(which: str, *, again: bool) -> Callable[[Project], list[str]]:
    """kill -9 of one process; *again*: its parent process is restarted while the others go on."""

    def row(project: Project) -> list[str]:
        job = begun(project)
        name = "server" if which == SERVER_PARENT else "site-1"
        for pid in pids(project, which, job):
            kill(pid, signal.SIGKILL)
        if which in (SERVER_PARENT, SITE_PARENT):
            project.processes.pop(name).wait()
            if not again:
                until(lambda: not project.job_processes(name, job), "its job's process ends as well", WHOLE)
                time.sleep(5.0)
                honest(project, job)  # no process is left that could send more
            project.start(name)
        if which == SERVER_PARENT:
            until(lambda: over(project, job) and own_whole(project, job), "the server's own log is whole", WHOLE)
        return [job]

    return row


def stopped(which: str) -> Callable[[Project], list[str]]:
    def row(project: Project) -> list[str]:
        job = begun(project)
        found = pids(project, which, job)
        for pid in found:
            kill(pid, signal.SIGSTOP)
        time.sleep(STOPPED)
        for pid in found:
            kill(pid, signal.SIGCONT)
        return [job]

    return row


ROWS: dict[str, Callable[[Project], list[str]]] = {
    "twenty-short-jobs": twenty_in_a_row,
    "four-at-once": four_at_once,
    "abort": abort,
    "abort-force": abort_by_command,
    "kill-server-parent": killed(SERVER_PARENT, again=False),
    "kill-server-parent-restart": killed(SERVER_PARENT, again=True),
    "kill-server-job": killed(SERVER_JOB, again=False),
    "kill-site-parent": killed(SITE_PARENT, again=False),
    "kill-site-parent-restart": killed(SITE_PARENT, again=True),
    "kill-site-job": killed(SITE_JOB, again=False),
    "stop-server-parent": stopped(SERVER_PARENT),
    "stop-server-job": stopped(SERVER_JOB),
    "stop-site-parent": stopped(SITE_PARENT),
    "stop-site-job": stopped(SITE_JOB),
}
ESSENTIAL = ("abort-force", "kill-server-job", "kill-site-parent-restart")
NO_COMMAND = ("2.7.2",)  # the command line of this version has no job abort


@pytest.mark.parametrize(
    ("version", "row"),
    [
        pytest.param(
            version, row, id=f"{version}-{row}",
            marks=[pytest.mark.essential] if version == TESTED and row in ESSENTIAL else [],
        )
        for version in VERSIONS
        for row in ROWS
        if not (row == "abort-force" and version in NO_COMMAND)
    ],
)  # fmt: skip
def test_every_log_is_whole(version: str, row: str) -> None:
    with running(version) as project:
        whole(project, *ROWS[row](project))
