"""Compare NVFlare's own log streaming with flarelog in one project: ``python -m integration.nvflare.compare``.

Throughput, latency and CPU are measured in turns, a job for each, because the machine has two cores. Losses are
compared in the same jobs, on the same files. The table is written into the README.md beside this file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from integration.harness.places import until
from integration.nvflare.conftest import FILES, JOB, SITES, Components, Project, environment, kill

MIB = 1 << 20
SIZE, LINES = 48 * MIB, 200
BOTH, THEIRS, OURS = "both.log", "theirs.log", "ours.log"
README = Path(__file__).with_name("README.md")
MARK = "<!-- table -->"
PAGE = os.sysconf("SC_CLK_TCK")


@dataclass
class Measured:
    throughput: float = 0.0  # MB/s
    latencies: list[float] = field(default_factory=list)  # seconds
    cpu: float = 0.0  # ms a MB

    @property
    def p50(self) -> float:
        return 1000 * quantiles(self.latencies, n=100)[49]

    @property
    def p99(self) -> float:
        return 1000 * quantiles(self.latencies, n=100)[98]


@contextmanager
def running() -> Iterator[Project]:
    directory = Path(tempfile.mkdtemp(prefix="flarelog-nvflare-"))
    project = Project(directory, environment())
    here = "flarelog.integrations.nvflare"
    try:
        project.declare("server", {"id": "flarelog", "path": f"{here}.FlarelogServer", "args": {}})
        for name in SITES:
            files = [*FILES, BOTH, OURS]
            project.declare(name, {"id": "flarelog", "path": f"{here}.FlarelogSite", "args": {"files": files}})
        project.start()
        yield project
    finally:
        project.stop()
        shutil.rmtree(directory, ignore_errors=True)


def theirs(project: Project, log: str) -> tuple[Components, Components]:
    """NVFlare's components, (client, server)."""
    own = "nvflare.app_common.logging.job_log"
    receiver = {"path": f"{own}_receiver.JobLogReceiver", "args": {"dest_dir": str(project.directory / "theirs")}}
    streamer = {"path": f"{own}_streamer.JobLogStreamer", "args": {"log_file_name": log}}
    return [{"id": "streamer", **streamer}], [{"id": "receiver", **receiver}]


def arrived(project: Project, job: str, log: str) -> Path:
    """The file of NVFlare's receiver for site-1's *log*."""
    return project.directory / "theirs" / job / "site-1" / log


# --- throughput, latency, CPU


def measure(project: Project, log: str) -> Measured:
    client, server = theirs(project, log) if log == THEIRS else ([], [])
    path = project.job(client=client, server=server)
    config = path / "app" / "config" / "config_fed_client.json"
    said: dict[str, Any] = json.loads(config.read_text())
    args = {"file": log, "size": SIZE, "lines": LINES}
    said["executors"][0]["executor"] = {"path": "talking.Measured", "args": args}
    config.write_text(json.dumps(said))
    job = project.submit(path)
    source = project.kit("site-1") / job / log
    target = arrived(project, job, log) if log == THEIRS else project.kit("server") / job / "site-1" / log
    until((tmp := source.with_name(f"{log}.tmp")).exists, "it is about to begin", JOB)
    until(lambda: tmp.stat().st_size == SIZE, "it is written", JOB)
    time.sleep(1.0)
    before = cpu(project)
    until(lambda: size(target) >= SIZE, lambda: f"48 MiB are there, not {size(target)}", JOB)
    seen = time.time()
    used = cpu(project) - before
    began = float(source.with_name(f"{log}.began").read_text())
    source.with_name(f"{log}.seen").touch()
    found = Measured(SIZE / 1e6 / (seen - began), cpu=1000 * used / (SIZE / 1e6))
    with open(target, "rb") as file:
        file.seek(SIZE)
        rest, last = b"", time.monotonic()
        while len(found.latencies) < LINES and time.monotonic() - last < 10.0:
            if more := file.read():
                now, last = time.time(), time.monotonic()
                *whole, rest = (rest + more).split(b"\n")
                found.latencies += [now - float(line) for line in whole]
            time.sleep(0.0005)
    assert len(found.latencies) == LINES, f"{len(found.latencies)} lines came"
    project.wait(job)
    return found


def size(path: Path) -> int:
    time.sleep(0.001)
    return path.stat().st_size if path.exists() else 0


def cpu(project: Project) -> float:
    """CPU seconds of all of the project's processes so far."""
    total = 0
    pids = [process.pid for process in project.processes.values()]
    for pid in (*pids, *(pid for name in ("server", *SITES) for pid in project.job_processes(name))):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / PAGE


# --- losses


def lost(
    project: Project, talker: dict[str, Any], server: Components, stopped: float = 0.0, log: str = BOTH
) -> tuple[int, int, int]:
    """(bytes of site-1's *log* that were written, lost by NVFlare's receiver, lost by flarelog's)."""
    client, receivers = theirs(project, log)
    talker = {"file": BOTH, "rotate": 20_000_000, **talker}
    job = project.submit(project.job(talker=talker, client=client, server=[*server, *receivers]))
    if stopped:
        until(lambda: len(project.live(job, "site-1", log)) > 5000, "it runs", JOB)
        pids = project.job_processes("server", job)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                kill(pid, number)
            time.sleep(stopped if number is signal.SIGSTOP else 0.0)
    project.wait(job)
    written = project.written(job, "site-1", log)
    came = arrived(project, job, log)
    filed = project.filed(job, "site-1", log)
    assert filed == written or len(filed) < len(written)
    return len(written), len(written) - (came.stat().st_size if came.exists() else 0), len(written) - len(filed)


LOSSES: dict[str, dict[str, Any]] = {
    "a server component that takes 8 s to start": {
        "log": "log.txt",  # the log exists from the beginning
        "talker": {"lines": 200, "rate": 100, "file": ""},
        "server": [{"id": "slow", "path": "talking.Slow", "args": {"seconds": 8.0}}],
    },
    "rotation: 200 KB files, 1,900 lines a second": {
        "talker": {"lines": 12000, "rate": 1900, "rotate": 200_000},
        "server": [],
    },
    "the server's job process stopped for 7 s": {
        "talker": {"lines": 600, "rate": 50},
        "server": [],
        "stopped": 7.0,
    },
}


def shorts(project: Project) -> tuple[int, int]:
    """Of ten short jobs, how many of site-1's log.txt are whole at NVFlare's receiver, and how many at flarelog's."""
    client, receivers = theirs(project, "log.txt")
    talker = {"lines": 20, "rate": 100}
    jobs = [project.submit(project.job(talker=talker, client=client, server=receivers)) for _ in range(10)]
    whole = [0, 0]
    for job in jobs:
        project.wait(job)
        written, came = project.written(job, "site-1"), arrived(project, job, "log.txt")
        whole[0] += came.exists() and came.read_bytes() == written
        whole[1] += project.filed(job, "site-1") == written
    return whole[0], whole[1]


def table(rows: list[tuple[str, str, str, str]]) -> str:
    head = [("measurement", "NVFlare 2.9.0", "flarelog", "ratio"), ("---",) * 4]
    return "\n".join(f"| {' | '.join(row)} |" for row in [*head, *rows])


def main() -> None:
    rows: list[tuple[str, str, str, str]] = []
    loads: list[float] = []
    with running() as project:
        loads.append(os.getloadavg()[0])
        their, our = measure(project, THEIRS), measure(project, OURS)
        loads.append(os.getloadavg()[0])
        for name, unit, one, other in (
            ("48 MiB at once", "MB/s", their.throughput, our.throughput),
            ("latency of a line, p50", "ms", their.p50, our.p50),
            ("latency of a line, p99", "ms", their.p99, our.p99),
            ("CPU of all processes", "ms/MB", their.cpu, our.cpu),
        ):
            rows.append((name, f"{one:.3g} {unit}", f"{other:.3g} {unit}", f"{max(one, other) / min(one, other):.3g}"))
            print(rows[-1], flush=True)
        for name, settings in LOSSES.items():
            written, by_them, by_us = lost(project, **settings)
            rows.append((f"lost: {name}", f"{by_them:,} of {written:,} bytes", f"{by_us:,} of {written:,} bytes", ""))
            print(rows[-1], flush=True)
        by_them, by_us = shorts(project)
        rows.append(("ten short jobs, whole to the last byte", f"{by_them} of 10", f"{by_us} of 10", ""))
        print(rows[-1], flush=True)
    rows.append(("load average before and after the first four rows", f"{loads[0]:.1f}, {loads[1]:.1f}", "", ""))
    before, _, rest = README.read_text().partition(f"{MARK}\n")
    after = rest.partition(f"{MARK}\n")[2]
    README.write_text(f"{before}{MARK}\n{table(rows)}\n{MARK}\n{after}")


if __name__ == "__main__":
    main()
