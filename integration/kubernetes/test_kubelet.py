"""``flarelog agent --source kubelet`` on a real node: exact bytes without access to the node's files."""

from __future__ import annotations

import time
from pathlib import Path

from integration.harness.places import SITE, Place, Program, Receiver, until
from integration.kubernetes.cluster import NODE, Cluster
from integration.kubernetes.pods import pod, writer
from integration.kubernetes.processes import START
from integration.kubernetes.test_cri import arrives, lines, stored

LOG_READER = {"apiGroups": [""], "resources": ["nodes/log"], "verbs": ["get"]}


def agent(
    cluster: Cluster, place: Place, receiver: Receiver, token: str, *args: str, site: str = SITE, ca: Path | None = None
) -> Program:
    file = Path(place.directory, "token")
    file.write_text(token)
    way = ("--kubelet", f"https://{cluster.kubelet_server.address}", "--kubelet-ca", str(ca or cluster.api.ca))
    where = ("--receiver", receiver.address, "--site", site, "--source", "kubelet", "--node", NODE)
    return place.start("agent", *where, *way, "--api-token", str(file), *args)


def test_no_byte_is_lost_over_rotations_with_the_right_to_logs_alone(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver, cluster.account("log-reader", LOG_READER))
    made = cluster.apply(pod("remote", writer(400_000, rate=20_000)))
    cluster.reaches(made, "Running")
    time.sleep(6)
    program.kill()
    program = agent(cluster, place, receiver, cluster.account("log-reader", LOG_READER))
    cluster.reaches(made, "Succeeded")
    arrives(receiver, made, lines(400_000))
    assert program.stop() == 0, program.talk()
    cluster.delete(made)
    cluster.gone(made)


def test_a_kubelet_that_is_away_for_a_while_costs_no_byte(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver, cluster.account("log-reader", LOG_READER))
    made = cluster.apply(pod("patient", writer(3_000, rate=300)))
    cluster.reaches(made, "Running")
    until(lambda: stored(receiver, made), "its first lines are stored")
    cluster.kubelet.stop()
    time.sleep(3)
    cluster.kubelet.start()
    until(cluster.kubelet_is_ready, cluster.talk, START)
    arrives(receiver, made, lines(3_000))
    assert program.stop() == 0, program.talk()
    assert "no answer from the kubelet" in program.talk()
    cluster.delete(made)


def test_what_refuses_is_one_sentence_and_nothing_is_sent(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver, cluster.account("log-nobody"), "--run-from", "path:{run}/**")
    program.says("does not allow to read /logs/pods/ (403)")
    assert program.stop() == 5, program.talk()
