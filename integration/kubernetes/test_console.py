"""The console of a job of many pods: rank 0 and the true last rank, which only the pods' rendezvous decides."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

from integration.harness.places import FLARELOG, SITE, Place, Receiver, until
from integration.kubernetes.cluster import NODE, Cluster, Manifest
from integration.kubernetes.pods import PYTHON, container, pod, writer
from integration.kubernetes.test_cri import READER, agent, api, log_of

PODS, WORKERS = 16, 2
INDEX = "batch.kubernetes.io/job-completion-index"
LAST = PODS * WORKERS - 1
SECONDS = 180.0


def job() -> Manifest:
    command = [PYTHON, "/inside/gang.py", "--pods", str(PODS), "--workers", str(WORKERS)]
    template = pod("any", container(command), restart="OnFailure")["spec"]
    del template["nodeName"]
    counts = {"completions": PODS, "parallelism": PODS, "completionMode": "Indexed", "backoffLimit": 1000}
    labels = {"app": "gang"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {**counts, "template": {"metadata": {"labels": labels}, "spec": template}},
    }


def pods(cluster: Cluster) -> list[Manifest]:
    found: list[Manifest] = cluster.api.get("/api/v1/pods", labelSelector="job-name=gang").json()["items"]
    return found


def bind(cluster: Cluster, made: Manifest) -> None:
    named = made["metadata"]
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": named["name"]}, "target": {
        "apiVersion": "v1", "kind": "Node", "name": NODE}}  # fmt: skip
    path = f"/api/v1/namespaces/{named['namespace']}/pods/{named['name']}/binding"
    answer = cluster.api.ask("POST", path, json.dumps(binding).encode(), {"Content-Type": "application/json"})
    assert answer.status in (200, 201), answer.body


def records(receiver: Receiver) -> list[dict[str, Any]]:
    return [*receiver.place.streams("--store", str(receiver.store), run="gang").values()]


def ranks(receiver: Receiver) -> dict[str, list[str]]:
    """By pod: the ranks that its log was told to have, one after another."""
    found = {}
    for record in records(receiver):
        told = [one for one in record["attributes"] if "ranks" in one and "rank-from" not in one]
        name = next((one["k8s.pod.name"] for one in record["attributes"] if "k8s.pod.name" in one), "")
        found[name] = list(dict.fromkeys(one["ranks"] for one in told))
    return found


def said(printed: str) -> list[tuple[int, int]]:
    """Rank and step of each worker's line."""
    return [(int(rank), int(step)) for rank, step in re.findall(r"rank (\d+) of \d+ step (\d+)", printed)]


def test_the_console_of_16_pods_shows_rank_0_and_the_true_last_one_also_after_a_restart(
    cluster: Cluster, place: Place
) -> None:
    receiver = place.serve()
    options = api(cluster, place, cluster.account("console", READER))
    program = agent(cluster, place, receiver, "--run-from", "job", *options)
    console = place.start(
        *("follow", "job/gang", "--receiver", receiver.address, "--ranks", "first,last", "--notes", "off", "-t")
    )
    cluster.controllers.start()
    made = cluster.apply(job())
    until(lambda: len(pods(cluster)) == PODS, "the job has its pods", SECONDS)
    *first, late = pods(cluster)
    for one in first:
        bind(cluster, one)
    stored = receiver.store / "gang"
    until(lambda: len([*stored.glob("*/default/*/main.log")]) == PODS - 1, "all pods but one have a log", SECONDS)
    assert not said(console.printed)
    bind(cluster, late)
    until(lambda: {rank for rank, _ in said(console.printed)} == {0, LAST}, lambda: console.talk(), SECONDS)
    until(lambda: all(map(len, ranks(receiver).values())), lambda: str(ranks(receiver)), SECONDS)
    before = ranks(receiver)
    assert {rank for told in before.values() for rank in told} == {
        f"0={2 * group}+1={2 * group + 1}" for group in range(PODS)
    }
    indexes = {one["metadata"]["name"]: one["metadata"]["labels"][INDEX] for one in pods(cluster)}
    assert all(not told[0].startswith(f"0={2 * int(indexes[name])}+") for name, told in before.items())

    shown = len(said(console.printed))
    kill(receiver, next(name for name, told in before.items() if told[0].startswith("0=0+")))
    until(lambda: begins(said(console.printed)[shown:]) >= {0, LAST}, lambda: console.talk(), SECONDS)
    assert {rank for rank, _ in said(console.printed)} == {0, LAST}
    steps = [step for rank, step in said(console.printed) if rank == 0]
    assert steps == [*range(steps.index(0, 1)), *range(len(steps) - steps.index(0, 1))]

    assert at_most_late(console.printed) < 3.0
    every = place.call("logs", "gang", "--receiver", receiver.address, "--notes", "off")
    assert {rank for rank, _ in said(every.printed)} == set(range(LAST + 1))
    some = place.call("logs", "-l", "app=gang", "--receiver", receiver.address, "--rank", str(LAST), "--notes", "off")
    assert {rank for rank, _ in said(some.printed)} == {LAST}
    console.tell(signal.SIGINT)
    cluster.delete(made, grace=0)
    cluster.controllers.stop()
    assert program.stop() in (0, 3), program.talk()


def at_most_late(printed: str) -> float:
    """The most seconds by which a line's time is before that of an earlier line."""
    times = [datetime.fromisoformat(found).timestamp() for found in re.findall(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", printed)]
    return max(latest - time for latest, time in zip(itertools.accumulate(times, max), times, strict=True))


def begins(lines: list[tuple[int, int]]) -> set[int]:
    """The ranks that began anew."""
    return {rank for rank, step in lines if step == 0}


def kill(receiver: Receiver, pod: str) -> None:
    """Kill the launcher of *pod*: its container is restarted, and so are all others of the job."""
    told = [one for record in records(receiver) for one in record["attributes"] if one.get("k8s.pod.name") == pod]
    identity = next(one["container.id"] for one in reversed(told) if "container.id" in one)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mine = identity in (process / "cgroup").read_text()
            launches = mine and b"gang.py" in (process / "cmdline").read_bytes()
        except OSError:
            continue
        if launches:
            os.kill(int(process.name), signal.SIGKILL)
            return
    raise AssertionError(f"{pod} has no launcher")


def test_pods_are_chosen_by_names_and_labels_though_the_agent_sees_no_process(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    file = Path(place.directory, "token")
    file.write_text(cluster.account("chooser", READER))
    where = ["--api", f"https://{cluster.api.address}", "--api-ca", str(cluster.api.ca), "--api-token", str(file)]
    program = place.start(
        *("agent", "--receiver", receiver.address, "--site", SITE, "--source", "cri", "--root", str(cluster.logs)),
        *(*where, "--node", NODE, "--pod-label", "*"),
        plain=("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *FLARELOG),
    )
    console = place.start("follow", "pod/chosen", "--receiver", receiver.address, "--notes", "off", "--ranks", "first")
    cluster.add_namespace("chooser")
    labels = {f"{'a' * 63}.example.org/A_b.c-9": "V.a_l-" + "9" * 57, "empty": "", INDEX: "0"}
    writes = [writer(3, rate=10)]
    one = cluster.apply(pod("chosen", *writes, labels=labels))
    other = cluster.apply(pod("chosen", *writes, namespace="chooser", labels={INDEX: "1"}))
    for made in (one, other):
        cluster.reaches(made, "Succeeded")
    until(lambda: console.printed.count("\n") >= 3, console.talk, SECONDS)
    cluster.delete(one, grace=0)
    cluster.gone(one)
    again = cluster.apply(pod("chosen", *writes, labels=labels))
    cluster.reaches(again, "Succeeded")
    until(lambda: console.printed.count("\n") >= 6, console.talk, SECONDS)
    assert logs_of(console.printed) == {log_of(one), log_of(again)}

    def shown(*words: str) -> set[str]:
        return logs_of(
            place.call("logs", *words, "--receiver", receiver.address, "--notes", "off", "--prefix=on").printed
        )

    until(lambda: len(shown("pod/chosen")) == 3, lambda: str(shown("pod/chosen")), SECONDS)
    key, value = next(iter(labels.items()))
    assert (
        shown("-l", f"{key}={value}") == shown("-l", f"{key} in ({value}, x),{INDEX}=0") == {log_of(one), log_of(again)}
    )
    assert shown("--attr", "k8s.namespace.name=chooser") == shown("pod/chosen", "--rank", "1") == {log_of(other)}
    assert shown("chooser", "--attr", f"rank-from={INDEX}") == {log_of(other)}
    nobody = place.call("logs", "pod/choosen", "--receiver", receiver.address)
    assert nobody.ends() == 3
    assert nobody.said.strip().endswith("did you mean chosen?")
    console.tell(signal.SIGINT)
    for made in (again, other):
        cluster.delete(made, grace=0)
    program.kill()


def logs_of(printed: str) -> set[str]:
    return {line.split(" ", 1)[0].partition("/")[2] for line in printed.splitlines()}
