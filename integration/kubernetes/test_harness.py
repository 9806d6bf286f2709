"""What the tests' node leaves on the machine: nothing, however the tests end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from integration.harness.places import until
from integration.kubernetes.cluster import PREFIX, START, Cluster, cgroups, sweep_leftovers
from integration.kubernetes.node import SETTINGS
from integration.kubernetes.pods import pod, shell


def settings() -> dict[str, str]:
    return {name: Path("/proc/sys", name).read_text() for name in SETTINGS}


def processes(directory: Path) -> list[str]:
    """The command lines that name *directory*."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in words:
            found.append(words)
    return found


def test_a_killed_run_leaves_nothing_but_files_which_the_next_removes(cluster: Cluster) -> None:
    """The fixture's own cluster, which is another one, stays."""
    before = settings()
    run = subprocess.Popen([sys.executable, "-m", "integration.kubernetes.cluster"], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    directory = Path(run.stdout.readline().partition(":")[0])
    assert directory.name.startswith(PREFIX)
    assert processes(directory)
    run.kill()
    run.wait()
    run.stdout.close()
    until(lambda: not processes(directory), lambda: f"all processes end: {processes(directory)}", START)
    sweep_leftovers()
    assert not [group for group in cgroups(directory.name) if group.exists()]
    assert not directory.exists()
    assert cluster.directory.exists()
    assert settings() == before


def test_each_part_can_be_stopped_and_started(cluster: Cluster) -> None:
    """A pod lives on without kubelet, API server and containerd, and is seen again when they are back."""
    long = cluster.apply(pod("long", shell("echo here; sleep 1000")))
    cluster.reaches(long, "Running")
    for part in cluster.parts:
        part.restart(signal.SIGKILL)
    until(cluster.api_is_ready, cluster.talk, START)
    until(cluster.kubelet_is_ready, cluster.talk, START)
    again = cluster.reaches(long, "Running")
    assert again["status"]["containerStatuses"][0]["restartCount"] == 0
    cluster.delete(again, grace=0)
    cluster.gone(again)
