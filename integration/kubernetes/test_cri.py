"""``flarelog agent --source cri`` on a real node: rotations, crash loops, a late start, a killed agent, and the API."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

from integration.harness.places import SITE, Place, Program, Receiver, difference, until
from integration.kubernetes import cri
from integration.kubernetes.cluster import NODE, Cluster, Manifest
from integration.kubernetes.inside.write import line
from integration.kubernetes.pods import pod, writer
from integration.kubernetes.processes import START

READER = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}


def agent(cluster: Cluster, place: Place, receiver: Receiver, *args: str, site: str = SITE) -> Program:
    where = ("--receiver", receiver.address, "--site", site, "--source", "cri", "--root", str(cluster.logs))
    return place.start("agent", *where, *args)


def api(cluster: Cluster, place: Place, token: str) -> list[str]:
    """The options that make an agent ask the API with *token*."""
    file = Path(place.directory, "api-token")
    file.write_text(token)
    where = ("--api", f"https://{cluster.api.address}", "--api-ca", str(cluster.api.ca), "--api-token", str(file))
    return [*where, "--node", NODE]


def log_of(made: Manifest) -> str:
    named = made["metadata"]
    return f"{named['namespace']}/{named['name']}.{named['uid'][:8]}/main.log"


def stored(receiver: Receiver, made: Manifest, run: str = "default", site: str = SITE) -> bytes:
    """The whole records that are stored."""
    found = receiver.stored(log_of(made), site, run)
    return found[: found.rfind(b"\n") + 1]


def arrives(receiver: Receiver, made: Manifest, wanted: bytes, run: str = "default", site: str = SITE) -> None:
    def all_of_it() -> bool:
        return len(cri.written(stored(receiver, made, run, site))) >= len(wanted)

    until(all_of_it, lambda: f"all lines are stored; {len(stored(receiver, made, run, site))} bytes are", 60)
    found = cri.written(stored(receiver, made, run, site))
    assert found == wanted, difference(wanted, found)


def lines(count: int) -> bytes:
    return b"".join(line(number) for number in range(count))


def test_no_byte_is_lost_at_20000_lines_a_second_though_the_agent_is_killed(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver)
    fast = cluster.apply(pod("fast-cri", writer(400_000, rate=20_000)))
    cluster.reaches(fast, "Running")
    time.sleep(6)
    program.kill()
    program = agent(cluster, place, receiver)
    cluster.reaches(fast, "Succeeded")
    arrives(receiver, fast, lines(400_000))
    removed(cluster, fast)
    assert program.stop() == 0, program.talk()
    assert receiver.streams("default")[f"{SITE}/{log_of(fast)}"]["sealed"]


def test_an_agent_that_comes_late_takes_what_was_rotated_and_compressed(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    made = cluster.apply(pod("late", writer(8_000, rate=600)))
    cluster.reaches(made, "Succeeded")
    directory = cluster.log_directory(made)
    until(lambda: len([*directory.glob("0.log*")]) > 2, lambda: f"it is rotated: {[*directory.iterdir()]}", 60)
    program = agent(cluster, place, receiver)
    arrives(receiver, made, lines(8_000))
    assert program.stop() == 0, program.talk()
    removed(cluster, made)  # or the next test's agent finds a pod that the API no longer has


def test_attempts_are_one_log_of_the_run_that_a_label_names_and_say_whose_they_are(
    cluster: Cluster, place: Place
) -> None:
    receiver = place.serve()
    options = api(cluster, place, cluster.account("reader", READER))
    program = agent(cluster, place, receiver, "--run-from", "label:job-name", *options)
    labels = {"job-name": "train-7", "batch.kubernetes.io/job-completion-index": "1"}
    made = cluster.apply(pod("train", writer(100, rate=1000, exit=3), restart="Always", labels=labels))
    other = cluster.apply(pod("other", writer(10, rate=1000)))
    cluster.restarts(made, 3)
    until(lambda: len(cri.written(stored(receiver, made, "train-7"))) >= 3 * len(lines(100)), "three attempts", 60)
    assert cri.written(stored(receiver, made, "train-7")).startswith(lines(100) * 3)
    record = receiver.streams("train-7")[f"{SITE}/{log_of(made)}"]
    cluster.delete(made, grace=0)
    cluster.delete(other, grace=0)
    said = [one for one in record["attributes"] if "k8s.pod.label.job-name" in one]
    assert said, record["attributes"]
    assert (said[-1]["k8s.pod.label.job-name"], said[-1]["k8s.node.name"]) == ("train-7", NODE)
    assert {end["code"] for end in record["exits"]} <= {3}, record["exits"]
    assert program.stop() == 0, program.talk()


def test_how_a_pod_ended_is_reported_after_its_last_byte(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver, *api(cluster, place, cluster.account("watcher", READER)))
    made = cluster.apply(pod("ends", writer(10, rate=100, exit=3)))
    cluster.reaches(made, "Failed")
    arrives(receiver, made, lines(10))
    until(lambda: exits(receiver, made), "its end is reported", 60)
    (end,) = exits(receiver, made)
    assert (end["code"], end["offset"]) == (3, len(receiver.stored(log_of(made), run="default")))
    cluster.delete(made)
    assert program.stop() == 0, program.talk()


def removed(cluster: Cluster, made: Manifest) -> None:
    """Delete a pod, and wait until the kubelet has removed its files."""
    directory = cluster.log_directory(made)
    cluster.delete(made)
    until(lambda: not directory.exists(), "the kubelet removes its files", START)


def exits(receiver: Receiver, made: Manifest, site: str = SITE) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = receiver.streams("default")[f"{site}/{log_of(made)}"]["exits"]
    return found


def test_bytes_do_not_wait_for_an_api_that_is_away_or_refuses(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    options = api(cluster, place, cluster.account("nobody"))
    program = agent(cluster, place, receiver, *options)
    made = cluster.apply(pod("alone", writer(3_000, rate=300)))
    cluster.reaches(made, "Running")
    program.says("does not allow to read /api/v1/pods (403)")
    cluster.api_server.stop(signal.SIGKILL)  # SIGTERM takes a minute
    arrives(receiver, made, lines(3_000))
    cluster.api_server.start()
    until(cluster.api_is_ready, cluster.talk, 120)
    cluster.delete(made)
    assert program.stop() == 0, program.talk()
