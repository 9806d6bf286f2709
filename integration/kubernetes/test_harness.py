"""What the tests' node leaves on the machine: nothing, however the tests end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from integration.harness.places import until
from integration.kubernetes import cri
from integration.kubernetes.cluster import NODE, Cluster, Manifest
from integration.kubernetes.node import SETTINGS
from integration.kubernetes.pods import pod, shell
from integration.kubernetes.processes import PREFIX, START, cgroups, sweep_leftovers


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


def test_an_account_has_the_rights_that_it_was_given(cluster: Cluster) -> None:
    token = cluster.account("logs-of-nodes", {"apiGroups": [""], "resources": ["nodes/log"], "verbs": ["get"]})
    kubelet, api = cluster.kubelet_server.as_user(token), cluster.api.as_user(token)
    until(lambda: kubelet.get("/logs/pods/").status == 200, "the right has come to the API server")
    assert kubelet.get("/pods").status == 403
    assert api.get("/api/v1/pods").status == 403
    assert api.get(f"/api/v1/nodes/{NODE}/proxy/logs/pods/").status == 403
    assert cluster.api.get(f"/api/v1/nodes/{NODE}/proxy/logs/pods/").status == 200
    assert cluster.kubelet_server.as_user("").get("/logs/pods/").status == 401


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


def test_controllers_make_the_pods_of_a_job_and_of_a_daemon_set(cluster: Cluster) -> None:
    cluster.controllers.start()
    cluster.add_namespace("controlled")
    metadata = {"name": "made", "namespace": "controlled"}
    template = {"metadata": {"labels": {"app": "made"}}, "spec": pod("", shell("sleep 1000"), restart="Always")["spec"]}
    del template["spec"]["nodeName"]
    agents: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {"selector": {"matchLabels": {"app": "made"}}, "template": template},
    }
    worker = pod("", shell("echo $JOB_COMPLETION_INDEX"))["spec"]
    del worker["nodeName"]
    job: Manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": {"spec": worker}},
    }
    for made in (agents, job):
        cluster.apply(made)
    cluster.pods("app=made", "Running", count=1)
    workers = cluster.pods("job-name=made", "Succeeded", count=3)
    ranks = {one["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]: one for one in workers}
    assert {rank: cri.written((cluster.log_directory(one) / "0.log").read_bytes()) for rank, one in ranks.items()} == {
        "0": b"0\n", "1": b"1\n", "2": b"2\n",
    }  # fmt: skip
    for made in (agents, job):
        cluster.delete(made, grace=0)
    pods = "/api/v1/namespaces/controlled/pods"
    until(lambda: not cluster.api.get(pods).json()["items"], "the controllers delete their pods", START)
    cluster.controllers.stop()
