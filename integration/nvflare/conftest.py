"""NVFlare as it is provisioned and run: a proof-of-concept project with two sites, or the simulator.

NVFlare has an environment of its own, which is created if missing. Its own commands start its processes, which are
tracked, and stopped at the tests' end, however they end.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from integration.harness.places import until

TREE = Path(__file__).parent.parent.parent
MAIN = "main"  # NVFlare's branch, which has no packages: FLARELOG_NVFLARE_MAIN gives its source
VERSIONS = ("2.9.0", "2.8.1", "2.7.2", MAIN)
TESTED = os.environ.get("FLARELOG_NVFLARE_VERSION") or VERSIONS[0]  # the version for all tests
SITES = ("site-1", "site-2")
FILES = ("log.txt", "log.json", "error_log.txt", "log_fl.txt")
ADMIN = "admin@nvidia.com"
START_MARK = "--- started"
# Seconds, on a loaded machine: each of NVFlare's processes takes 3 s of CPU to start, and a job starts four. If a site
# does not answer the server in time, NVFlare schedules the job again after 10, 20, 40 and 80 s more.
START, JOB = 180.0, 240.0

Components = list[dict[str, Any]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "essential: is run in CI; all of them take minutes")
    # A SIGTERM to the tests must also end NVFlare's processes, which are in sessions of their own.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


if importlib.util.find_spec("nvflare") is None:
    collect_ignore = ["inside"]


def environment(version: str = TESTED) -> Path:
    """The environment of NVFlare *version* with flarelog's requirements; flarelog itself is this tree's, by PYTHONPATH.

    It is created once, below FLARELOG_NVFLARE_VENVS (default ``~/.cache/flarelog``), and again when flarelog's
    requirements change. FLARELOG_NVFLARE_VENV names an existing environment with the tested version. Skips the test
    where *version* is MAIN and its source is unset.
    """
    given = os.environ.get("FLARELOG_NVFLARE_VENV")
    if given and version == TESTED and (Path(given) / "bin" / "pytest").exists():
        return Path(given)
    name, nvflare = source_of_main() if version == MAIN else (version, f"nvflare=={version}")
    venv = Path(given) if given and version == TESTED else environment_of(name)
    if not (venv / "bin" / "pytest").exists():
        venv.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", nvflare], check=True)
        before = set(subprocess.check_output([*pip, "freeze"], text=True).splitlines())
        # The branch's package is called nvflare-nightly: the extra would install a release over it.
        extra = "" if version == MAIN else "[nvflare]"
        subprocess.run([*pip, "install", "--quiet", "--editable", f"{TREE}{extra}"], check=True)
        after = set(subprocess.check_output([*pip, "freeze"], text=True).splitlines())
        assert before <= after, f"flarelog changed what NVFlare had installed: {before - after}"
        subprocess.run([*pip, "install", "--quiet", "pytest"], check=True)
    return venv


def environment_of(name: str = TESTED) -> Path:
    """Where ``environment`` makes that of the version *name*."""
    cache = Path(os.environ.get("FLARELOG_NVFLARE_VENVS") or Path.home() / ".cache" / "flarelog")
    wanted = hashlib.sha256((TREE / "setup.cfg").read_bytes() + sys.version.encode()).hexdigest()[:8]
    return cache / f"nvflare-{name}-{wanted}"


def source_of_main() -> tuple[str, str]:
    """A name for NVFlare's branch main with its present commit, and pip's source for it. Skips the test where
    FLARELOG_NVFLARE_MAIN is unset.
    """
    where = os.environ.get("FLARELOG_NVFLARE_MAIN", "")
    if not where:
        pytest.skip(
            "NVFlare's main has no packages: set FLARELOG_NVFLARE_MAIN to a checkout of it, or to"
            " git+https://github.com/NVIDIA/NVFlare"
        )
    local = Path(where).expanduser()
    asked = str(local) if local.is_dir() else where.removeprefix("git+")
    found = subprocess.run(["git", "ls-remote", asked, "HEAD"], capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout, f"FLARELOG_NVFLARE_MAIN={where} is no repository: {found.stderr}"
    commit = found.stdout.split()[0]
    return f"{MAIN}-{commit[:12]}", str(local.resolve()) if local.is_dir() else f"git+{asked}@{commit}"


class Project:
    """A provisioned project in *directory*, and its processes."""

    def __init__(self, directory: Path, venv: Path, sites: tuple[str, ...] = SITES) -> None:
        self.directory, self.venv, self.sites = directory, venv, sites
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        (directory / "home").mkdir()
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("FLARELOG_")} | {
            "HOME": str(directory / "home"),
            "NVFLARE_POC_WORKSPACE": str(directory / "poc"),
            "PATH": f"{venv / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(TREE),
        }
        self.call("poc", "prepare", "-n", str(len(sites)))
        self.kits = directory / "poc" / "example_project" / "prod_00"

    def call(self, *args: str, check: bool = True) -> str:
        """The output of ``nvflare`` with *args*."""
        done = subprocess.run(
            [str(self.venv / "bin" / "nvflare"), *args],
            env=self.env, cwd=self.directory, capture_output=True, text=True, timeout=JOB, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"nvflare {' '.join(args)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def ask(self, what: str, which: str) -> str:
        """The output of admin.py, which uses NVFlare's own API."""
        done = subprocess.run(
            [self.venv / "bin" / "python", Path(__file__).parent / "admin.py", self.kit(ADMIN), what, which],
            env=self.env, cwd=self.directory, capture_output=True, text=True, timeout=JOB, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{what} {which}: {done.stdout}\n{done.stderr}"
        return done.stdout.strip().rpartition("\n")[2]  # NVFlare's API prints as well

    def kit(self, name: str) -> Path:
        return self.kits / name

    def declare(self, name: str, *components: dict[str, Any], file: str = "flarelog__p_resources.json") -> None:
        """Drop *file* with *components* into the ``local`` directory of server or site *name*."""
        (self.kit(name) / "local" / file).write_text(json.dumps({"format_version": 2, "components": components}))

    def configure(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Give server or site *name* its own ``resources.json``: NVFlare's default with *change*."""
        local = self.kit(name) / "local"
        said = json.loads((local / "resources.json.default").read_text())
        change(said)
        (local / "resources.json").write_text(json.dumps(said))

    def allow(self, name: str, allowed: bool) -> None:
        """Set *name*'s own allow_log_streaming."""
        self.configure(name, lambda said: said.update(allow_log_streaming=allowed))

    # --- processes

    def start(self, *names: str) -> None:
        for name in names or ("server", *self.sites):
            self._start(name)
        for name in [name for name in names or self.sites if name != "server"]:
            until(partial(self._joined, name), lambda: f"all are connected:\n{self.talk()}", START)

    def _start(self, name: str) -> None:
        role = "server" if name == "server" else "client"
        who = () if role == "server" else (f"uid={name}",)
        command = [
            str(self.venv / "bin" / "python"), "-u", "-m", f"nvflare.private.fed.app.{role}.{role}_train",
            "-m", str(self.kit(name)), "-s", f"fed_{role}.json",
            "--set", "secure_train=true", *who, "org=nvidia", "config_folder=config",
        ]  # fmt: skip
        with open(self.directory / f"{name}.out", "ab") as out:
            out.write(f"{START_MARK}\n".encode())
            out.flush()
            self.processes[name] = subprocess.Popen(
                command, env=self.env, cwd=self.kit(name), stdout=out, stderr=out, start_new_session=True
            )

    def _joined(self, name: str) -> bool:
        """Whether *name*'s present process has its token."""
        said = (self.directory / f"{name}.out").read_text(errors="replace").rpartition(START_MARK)[2]
        if "Login failed" in said and self.processes[name].poll() is not None:
            # NVFlare's server accepts connections before it has its configuration: a site that is too early ends.
            self._start(name)
        return "Successfully registered client" in said

    def talk(self) -> str:
        logs = [*self.directory.glob("*.out")] or [self.kit(name) / "log.txt" for name in ("server", *self.sites)]
        return "\n".join(
            f"--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in sorted(logs) if path.exists()
        )

    def stop(self) -> None:
        """End all processes, those of jobs included."""
        for name in (*self.sites, "server"):
            self.stop_one(name)

    def stop_one(self, name: str) -> None:
        """Kill the parent process of *name*, and those of its jobs."""
        if name in self.processes:
            process = self.processes.pop(name)
            for pid in (*self.job_processes(name), process.pid):
                kill(pid, signal.SIGKILL)
            process.wait()

    def job_processes(self, name: str, job: str = "") -> list[int]:
        """The job processes of server or site *name*."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            ours = str(self.kit(name)).encode() in words and any(b"_process" in word for word in words)
            if ours and (not job or job.encode() in words):
                found.append(int(path.parent.name))
        return found

    # --- jobs

    def job(self, name: str = "talk", *, talker: dict[str, Any] | None = None, server: Components | None = None,
            client: Components | None = None) -> Path:  # fmt: skip
        """A job's directory: the sites log with the arguments *talker*; *server* and *client*: more components."""
        job = Path(tempfile.mkdtemp(dir=self.directory, prefix="job-")) / name
        shutil.copytree(Path(__file__).parent / "job", job, ignore=shutil.ignore_patterns("__pycache__"))
        for role, components in (("server", server), ("client", client)):
            path = job / "app" / "config" / f"config_fed_{role}.json"
            said = json.loads(path.read_text())
            said["components"] += components or []
            if role == "client":
                said["executors"][0]["executor"]["args"] = talker or {}
            path.write_text(json.dumps(said))
        return job

    def submit(self, job: Path, *options: str) -> str:
        """Submit *job*; return its id."""
        printed = self.call("job", "submit", "-j", str(job), *options)
        found = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", printed)
        assert found, printed
        return found[0]

    def sees(self, job: str, condition: Callable[[], object], what: str) -> None:
        """Wait for *condition*, which must come true before *job* ends; fail at once if the job ends without it."""

        def seen() -> bool:
            status = self.status(job)  # read before the condition, which may come true with the job's last line
            if condition():
                return True
            assert not status.startswith("FINISHED"), f"{what}, before {job} is {status}:\n{self.talk()}"
            return False

        until(seen, lambda: f"{what}, and {job} is {self.status(job)}:\n{self.talk()}", JOB)

    def status(self, job: str) -> str:
        """NVFlare's record of *job*'s state and of its attempts to schedule it."""
        try:
            said = json.loads((self.storage(job) / "meta").read_text())
        except (OSError, ValueError):  # the file is being written
            return ""
        return f"{said.get('status')}, {said.get('schedule_history')}, {said.get('job_deploy_detail')}"

    def wait(self, job: str) -> str:
        """Wait until *job* has ended and its workspace is filed; return its status."""
        until(lambda: self.status(job).startswith("FINISHED"), lambda: f"{job} ends, {self.status(job)}", JOB)
        return self.status(job)

    def logs(self, job: str, site: str, *args: str) -> str:
        return self.call("job", "logs", job, "--site", site, *args, check=False)

    # --- logs

    def written(self, job: str, site: str, log: str = "log.txt") -> bytes:
        """The site's own file, after its rotated predecessors."""
        path = self.kit(site) / job / log
        older = sorted(path.parent.glob(f"{log}.[0-9]*"), key=lambda path: -int(path.suffix[1:]))
        return b"".join(file.read_bytes() for file in (*older, path) if file.exists())

    def live(self, job: str, site: str, log: str = "log.txt") -> bytes:
        """The log in the server's workspace while the job runs."""
        path = self.kit("server") / job / site / log
        return path.read_bytes() if path.exists() else b""

    def stored(self, job: str, site: str, log: str = "log.txt") -> bytes:
        path = self.kit("server") / "flarelog" / job / site / log
        return path.read_bytes() if path.exists() else b""

    def filed(self, job: str, site: str, log: str = "log.txt") -> bytes:
        """The log in the job's filed workspace."""
        with zipfile.ZipFile(self.storage(job) / "workspace") as archive:
            try:
                return archive.read(f"{site}/{log}")
            except KeyError:
                return b""

    def storage(self, job: str) -> Path:
        return self.directory / "poc" / "jobs-storage" / job


def kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def started_in(directory: Path) -> list[int]:
    """The processes that NVFlare's own commands started for the project in *directory*."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(directory).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="session")
def venv() -> Path:
    return environment()


@pytest.fixture
def project(venv: Path) -> Iterator[Project]:
    directory = Path(tempfile.mkdtemp(prefix="flarelog-nvflare-"))
    project = Project(directory, venv)
    try:
        yield project
    finally:
        project.stop()
        shutil.rmtree(directory, ignore_errors=True)
