"""What happens to a node, seen by both of its agents: one with its files (``cri``), one with its kubelet alone."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from integration.harness.places import FLARELOG, SITE, Place, Program, difference, until
from integration.kubernetes import cri, test_cri, test_kubelet
from integration.kubernetes.cluster import NODE, Cluster, Manifest
from integration.kubernetes.pods import pod, shell, writer
from integration.kubernetes.processes import START
from integration.kubernetes.test_cri import READER, api, arrives, exits, lines, log_of, stored
from integration.kubernetes.test_kubelet import LOG_READER

REMOTE = "site-2"  # of the agent that asks the kubelet
SITES = (SITE, REMOTE)


def at_both(condition: Callable[[str], object], what: str) -> None:
    for site in SITES:
        until(partial(condition, site), f"{what}, by {site}", START)


class Agents:
    """Both agents, which ask the API, too."""

    def __init__(self, cluster: Cluster, place: Place, *args: str) -> None:
        self.receiver = place.serve()
        options = (*api(cluster, place, cluster.account("both", READER, LOG_READER)), *args)
        token = Path(place.directory, "api-token").read_text()
        kubelet = tuple(word for word in options if word not in ("--node", NODE))
        self.by_site: dict[str, Program] = {
            SITE: test_cri.agent(cluster, place, self.receiver, *options),
            REMOTE: test_kubelet.agent(cluster, place, self.receiver, token, *kubelet, site=REMOTE),
        }

    def stop(self, *codes: int) -> None:
        for program in self.by_site.values():
            assert program.stop() in (codes or (0,)), program.talk()

    def have_begun(self, made: Manifest) -> None:
        at_both(lambda site: stored(self.receiver, made, site=site), "the first lines are stored")

    def report_end(self, made: Manifest) -> None:
        self.have_begun(made)
        at_both(lambda site: exits(self.receiver, made, site), "its end is reported")

    def record(self, made: Manifest, site: str) -> dict[str, Any]:
        return self.receiver.streams("default")[f"{site}/{log_of(made)}"]


@pytest.fixture
def agents(cluster: Cluster, place: Place) -> Agents:
    return Agents(cluster, place)


def attempts(record: dict[str, Any], data: bytes) -> dict[int, tuple[int, bytes]]:
    """By attempt: the offset after its last byte, and what it wrote."""
    found = {}
    for attempt, pieces in groupby(record["generations"], key=lambda one: int(Path(one["path"]).name.split(".")[0])):
        all_of_it = list(pieces)
        begin, end = all_of_it[0]["offset"], all_of_it[-1]["offset"] + all_of_it[-1]["length"]
        found[attempt] = end, cri.written(data[begin:end])
    return found


def test_each_attempt_of_a_crash_loop_is_whole_and_has_its_end(cluster: Cluster, agents: Agents) -> None:
    made = cluster.apply(pod("loops", writer(100, rate=1000, exit=3), restart="Always"))
    cluster.restarts(made, 6)
    cluster.delete(made, grace=0)
    at_both(lambda site: len(exits(agents.receiver, made, site)) >= 6, "six ends are reported")
    for site in SITES:
        record = agents.record(made, site)
        found = attempts(record, agents.receiver.stored(log_of(made), site, "default"))
        assert list(found) == list(range(len(found)))
        assert {data for _, data in list(found.values())[:6]} == {lines(100)}
        assert [(end["code"], end["offset"]) for end in record["exits"][:6]] == [(3, found[n][0]) for n in range(6)]
    agents.stop(0, 6)


def test_deleted_pods_are_stored_to_their_last_lines(cluster: Cluster, agents: Agents) -> None:
    """With grace, and by force: then the API forgets the pod before its containers end."""
    graceful, forced = (cluster.apply(pod(name, writer(10_000_000, rate=500))) for name in ("graceful", "forced"))
    for made in (graceful, forced):
        cluster.reaches(made, "Running")
        agents.have_begun(made)
    cluster.delete(graceful)
    cluster.delete(forced, grace=0)
    for made in (graceful, forced):
        cluster.gone(made)
    directories = [cluster.log_directory(made) for made in (graceful, forced)]
    until(lambda: not any(each.exists() for each in directories), "the kubelet removes their files", START)
    time.sleep(3)
    agents.stop(0, 6)
    for made in (graceful, forced):
        for site in SITES:
            found = cri.written(stored(agents.receiver, made, site=site))
            count = found.count(b"\n") - found.count(b"ended after")
            record = agents.record(made, site)
            assert found.startswith(lines(count)), difference(lines(count), found)
            assert (
                record["incomplete"] if len(found) == count * 100 else found.endswith(b"ended after %d lines\n" % count)
            )
    for site in SITES:
        (end,) = exits(agents.receiver, graceful, site)
        assert (end["code"], end["cause"]) == (0, "Deleted")
        assert not exits(agents.receiver, forced, site), "the API had forgotten it"


@pytest.mark.parametrize(("seconds", "rate"), [(8, 200), pytest.param(60, 60, marks=pytest.mark.soak)])
def test_an_api_server_that_is_away_costs_no_byte(cluster: Cluster, agents: Agents, seconds: int, rate: int) -> None:
    """The kubelet asks it who may read logs, so that the agent without files waits; the node keeps the files."""
    count = rate * (seconds + 5)
    made = cluster.apply(pod(f"without-api-{seconds}", writer(count, rate=rate)))
    cluster.reaches(made, "Running")
    agents.have_begun(made)
    cluster.api_server.stop(signal.SIGKILL)
    time.sleep(seconds)
    cluster.api_server.start()
    until(cluster.api_is_ready, cluster.talk, START)
    for site in SITES:
        arrives(agents.receiver, made, lines(count), site=site)
    agents.report_end(made)
    agents.stop()
    cluster.delete(made)


@pytest.mark.soak
def test_another_certificate_of_the_kubelet_by_another_authority_is_trusted_once_the_agent_has_it(
    cluster: Cluster, place: Place
) -> None:
    receiver = place.serve()
    ca = Path(place.directory, "kubelet-ca.crt")
    ca.write_bytes(cluster.api.ca.read_bytes())
    program = test_kubelet.agent(cluster, place, receiver, cluster.account("log-reader", LOG_READER), ca=ca)
    made = cluster.apply(pod("certified", writer(2_500, rate=100)))
    cluster.reaches(made, "Running")
    until(lambda: stored(receiver, made), "its first lines are stored")
    with cluster.another_authority() as other:
        cluster.kubelet.restart()
        program.says("certificate verify failed")
        ca.write_bytes(other.read_bytes())
        until(lambda: len(stored(receiver, made)) > 0, "")
        before = len(stored(receiver, made))
        until(lambda: len(stored(receiver, made)) > before, "it goes on with the new authority")
    cluster.kubelet.restart()
    ca.write_bytes(cluster.api.ca.read_bytes())
    arrives(receiver, made, lines(2_500))
    assert program.stop() == 0, program.talk()
    cluster.delete(made)


def test_the_node_proxy_is_a_way_that_is_said_loudly(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    rights = {"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]}
    options = api(cluster, place, cluster.account("by-proxy", READER, rights))
    where = ("--receiver", receiver.address, "--site", SITE, "--source", "kubelet")
    program = place.start("agent", *where, *options)
    made = cluster.apply(pod("proxied", writer(20_000, rate=4_000)))
    arrives(receiver, made, lines(20_000))
    program.says("the API server is asked instead, as a proxy: its right nodes/proxy allows more")
    assert program.stop() == 0, program.talk()
    cluster.delete(made)


def test_two_agents_of_one_node_send_each_byte_once(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    first = test_cri.agent(cluster, place, receiver)
    made = cluster.apply(pod("twice", writer(60_000, rate=6_000)))
    cluster.reaches(made, "Running")
    until(lambda: stored(receiver, made), "its first lines are stored")
    second = test_cri.agent(cluster, place, receiver)
    arrives(receiver, made, lines(60_000))
    assert second.stop() == 0, second.talk()
    assert first.stop() == 5, first.talk()
    assert "a newer sidecar" in first.said or "taken over" in first.said, first.talk()
    cluster.delete(made)


def evicted(cluster: Cluster, made: Manifest) -> None:
    """Evict a pod as ``kubectl drain`` does."""
    named = made["metadata"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": named["name"]}}
    path = f"/api/v1/namespaces/{named['namespace']}/pods/{named['name']}/eviction"
    answer = cluster.api.ask("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    assert answer.status == 201, answer.body


def test_ends_say_why_whoever_ended_the_pod(cluster: Cluster, agents: Agents) -> None:
    cached: Manifest = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    cache = {"name": "cache", "emptyDir": {"sizeLimit": "1Mi"}}
    limited: Manifest = {"resources": {"limits": {"memory": "48Mi"}}}
    child = "/usr/bin/python3 -c 'bytearray(200 << 20)'; echo the child ended with $?; exit 0"
    drained = cluster.apply(pod("drained", shell("echo here; sleep 1000")))
    filling = shell("echo here; head -c 3000000 /dev/zero >/cache/file; sleep 1000", **cached)
    full = cluster.apply(pod("over-its-limit", filling, volumes=[cache]))
    lied = cluster.apply(pod("lied", shell(child, **limited)))
    cluster.reaches(drained, "Running")
    evicted(cluster, drained)
    wanted = {"drained": "EvictionByEvictionAPI", "over-its-limit": "Evicted", "lied": None}
    for made in (drained, full, lied):
        agents.report_end(made)
        for site in SITES:
            (end,) = exits(agents.receiver, made, site)
            assert end["cause"] == wanted[made["metadata"]["name"]], end
            assert end["code"] == (0 if made is lied else 137), end
            assert end["oom"] == ("others" if made is lied else None), end
    agents.stop(0, 6)  # another test's pod may have been removed


def test_odd_names_and_directories_are_one_sentence_each_or_logs_as_all(cluster: Cluster, agents: Agents) -> None:
    """A static pod, names with dots, one as long as its directory's name allows, and what else may lie there."""
    names = ["dots.in.name", ".".join(["long-name" * 6] * 4)[:210]]
    made = [cluster.apply(pod(name, shell("echo here"), labels={"app": "A.b_c-9"})) for name in names]
    static = cluster.directory / "static" / "pod.json"
    static.write_text(json.dumps(pod("static.pod", shell("echo static; exit 4"))))
    nowhere = cluster.logs / "default_nowhere_6b2f7c1e-0d43-4c8e-9a6f-1e2d3c4b5a69" / "main"
    nowhere.mkdir(parents=True)
    (nowhere / "0.log").symlink_to("/var/log/nothing")
    (cluster.logs / "no-pod").mkdir()
    (cluster.logs / "a file").write_text("no directory\n")
    for one in made:
        for site in SITES:
            arrives(agents.receiver, one, b"here\n", site=site)
    (directory,) = until(lambda: [*cluster.logs.glob("default_static.pod*/main/0.log")], "the static pod runs", START)
    uid = directory.parent.parent.name.rpartition("_")[2]
    log = f"default/static.pod-{NODE}.{uid[:8]}/main.log"
    at_both(lambda site: b"F static\n" in agents.receiver.stored(log, site, "default"), "it is stored")
    at_both(lambda site: agents.receiver.streams("default")[f"{site}/{log}"]["exits"], "its end is reported")
    for site in SITES:
        record = agents.receiver.streams("default")[f"{site}/{log}"]
        assert [end["code"] for end in record["exits"]] == [4]
        assert record["attributes"][-1]["k8s.pod.name"] == f"static.pod-{NODE}"
    agents.by_site[SITE].says("cannot be read: it is a link")
    static.unlink()
    shutil.rmtree(nowhere.parent)
    agents.stop(0, 1, 6)


@pytest.mark.soak
def test_a_full_disk_of_a_node_loses_what_its_runtime_loses_and_nothing_else(cluster: Cluster, place: Place) -> None:
    receiver, count = place.serve(), 20_000
    cluster.run("mount", "mount", "-t", "tmpfs", "-o", "size=1m", "small", "/var/log/pods")
    try:
        own = ("unshare", "--mount", "sh", "-c", 'mount -t proc proc /proc; exec "$@"', "sh")
        inside = ("nsenter", "--target", str(cluster.node.first), "--mount", "--", *own, *FLARELOG)
        where = ("--receiver", receiver.address, "--site", SITE, "--source", "cri", "--root", "/var/log/pods")
        program = place.start("agent", *where, plain=inside)
        made = cluster.apply(pod("crowded", writer(count, rate=1_500)))
        cluster.reaches(made, "Succeeded")
        directory = Path(f"/proc/{cluster.node.first}/root/var/log/pods", *cluster.log_directory(made).parts[-2:])
        left = {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix not in (".gz", ".tmp")}

        def stored_all() -> bool:
            found = receiver.stored(log_of(made), run="default")
            return all(data in found for data in left.values())

        until(stored_all, "what the node has left is stored")
        numbers = re.findall(rb" stdout [PF] (\d{9}) x", receiver.stored(log_of(made), run="default"))
        assert numbers == sorted(set(numbers)), "no line is repeated"
        assert 0 < len(numbers) < count, "the runtime has lost lines"
        assert b"no space left" in cluster.containerd.said.encode()
        assert program.stop() in (0, 6), program.talk()
        cluster.delete(made, grace=0)
        cluster.gone(made)
    finally:
        cluster.run("umount", "umount", "--lazy", "/var/log/pods")


@pytest.mark.soak
def test_an_agent_without_room_for_its_copies_goes_on_when_there_is_some(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    state = place.directory / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "small", str(state)], check=True)
    try:
        token = cluster.account("log-reader", LOG_READER)
        program = test_kubelet.agent(cluster, place, receiver, token, "--state", str(state))
        made = cluster.apply(pod("copied", writer(5_000, rate=700)))
        program.says("No space left on device")
        cluster.reaches(made, "Succeeded")
        time.sleep(2)
        subprocess.run(["mount", "-o", "remount,size=64m", str(state)], check=True)
        arrives(receiver, made, lines(5_000))
        assert program.stop() == 0, program.talk()
    finally:
        subprocess.run(["umount", "--lazy", str(state)], check=True)
    cluster.delete(made, grace=0)
