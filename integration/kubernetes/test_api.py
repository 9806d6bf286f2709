"""``flarelog agent --source api`` on a real node: no line twice, known losses as gaps, and the rest unverified."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from integration.harness.places import SITE, Place, Program, Receiver, until
from integration.kubernetes.cluster import Cluster, Manifest
from integration.kubernetes.inside.write import line
from integration.kubernetes.pods import pod, shell, writer
from integration.kubernetes.processes import START
from integration.kubernetes.test_cri import log_of

RIGHTS = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
)
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z ")


def agent(cluster: Cluster, place: Place, receiver: Receiver, token: str, *args: str) -> Program:
    file = Path(place.directory, "token")
    file.write_text(token)
    way = ("--api", f"https://{cluster.api.address}", "--api-ca", str(cluster.api.ca), "--api-token", str(file))
    where = ("--receiver", receiver.address, "--site", SITE, "--source", "api", "--state", f"{place.directory}/state")
    return place.start("agent", *where, *way, "--namespace", "default", *args)


def content(receiver: Receiver, made: Manifest) -> list[bytes]:
    """The stored lines, without their times."""
    found = receiver.stored(log_of(made), run="default")
    lines = found.split(b"\n")
    assert all(_STAMP.match(one) for one in lines[:-1]), [one for one in lines[:-1] if not _STAMP.match(one)][:3]
    return [_STAMP.sub(b"", one, count=1) + b"\n" for one in lines[:-1]]


def record_of(receiver: Receiver, made: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = receiver.streams("default")[f"{SITE}/{log_of(made)}"]
    return found


def expected(count: int) -> list[bytes]:
    return [line(number) for number in range(count)]


def settles(receiver: Receiver, made: Manifest, *reasons: str) -> dict[str, Any]:
    """The record, once the last generation of the log has ended."""

    def has_ended() -> bool:
        generations = record_of(receiver, made)["generations"] if content(receiver, made) else []
        return bool(generations and generations[-1]["ended"])

    until(has_ended, "its last generation ends", 90)
    record = record_of(receiver, made)
    if reasons:
        assert record["generations"][-1]["ended"] in reasons, record
    return record


def remove(cluster: Cluster, *pods: Manifest) -> None:
    """Remove *pods*, so that no later test sees them go."""
    for made in pods:
        cluster.delete(made, grace=0)
    for made in pods:
        cluster.gone(made)


def test_once_ends_where_the_api_refuses(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    for token, code, sentence in (
        (cluster.account("reads-nothing"), 5, "does not allow to read /api/v1/namespaces/default/pods (403)"),
        ("nonsense", 78, "does not know the token (401)"),
    ):
        program = agent(cluster, place, receiver, token, "--once")
        assert program.ends() == code, program.talk()
        assert sentence in program.talk()


def test_a_log_that_was_not_rotated_is_complete(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver, cluster.account("api-reader", *RIGHTS))
    made = cluster.apply(pod("short", writer(1_000, rate=500)))
    cluster.reaches(made, "Succeeded")
    record = settles(receiver, made, "rotated")
    assert content(receiver, made) == expected(1_000)
    assert (record["incomplete"] or "").startswith("incomplete: it has no receipt"), record
    remove(cluster, made)
    assert program.stop() == 0, program.talk()
    assert record_of(receiver, made)["incomplete"] is None
    assert record_of(receiver, made)["sealed"]


def test_what_rotations_took_is_a_gap_or_unverified_and_nothing_comes_twice(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver, cluster.account("api-reader", *RIGHTS))
    made = cluster.apply(pod("fast", writer(400_000, rate=20_000)))
    cluster.reaches(made, "Running")
    time.sleep(6)
    program.kill()
    program = agent(cluster, place, receiver, cluster.account("api-reader", *RIGHTS))
    cluster.reaches(made, "Succeeded")
    record = settles(receiver, made, "unverified")
    found = content(receiver, made)
    numbers = [int(one[:9]) for one in found]
    assert numbers == sorted(set(numbers)), [n for n, count in Counter(numbers).items() if count > 1][:10]
    print("lost", 400_000 - len(numbers), "gaps", len(record["gaps"]))
    assert "unverified" in record["incomplete"], record["incomplete"]
    assert program.stop() == 6, program.talk()
    remove(cluster, made)


@pytest.mark.parametrize("rate", [1000, 25], ids=["that-ends-at-once", "that-runs-for-seconds"])
def test_a_crash_loop_is_one_log_with_the_end_of_each_attempt(cluster: Cluster, place: Place, rate: int) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver, cluster.account("api-reader", *RIGHTS))
    made = cluster.apply(pod("crashes", writer(100, rate=rate, exit=3), restart="Always"))
    cluster.restarts(made, 4)
    until(lambda: len(content(receiver, made)) >= 400, "four attempts are stored", 60)
    remove(cluster, made)
    settles(receiver, made)
    assert program.stop() in (0, 6), program.talk()
    found, record = content(receiver, made), record_of(receiver, made)
    attempts = max(4, len(found) // 100)  # the last one may be removed while it writes
    assert found[: attempts * 100] == expected(100) * attempts, record
    assert record["gaps"] == [], record
    assert {end["code"] for end in record["exits"]} <= {3}
    # Each attempt is one generation; the log of one that ends at once is removed before it can be compared.
    ends = [(one["length"], one["ended"]) for one in record["generations"][:3]]
    assert {length for length, _ in ends} == {record["generations"][0]["length"]}, ends
    assert rate > 25 or [how for _, how in ends] == ["rotated"] * 3, ends


def test_a_pod_that_is_deleted_while_it_writes(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver, cluster.account("api-reader", *RIGHTS))
    made = cluster.apply(pod("deleted", writer(1_000_000, rate=50)))
    cluster.reaches(made, "Running")
    until(lambda: content(receiver, made), "its first lines are stored", 60)
    time.sleep(3)
    cluster.delete(made)
    cluster.gone(made)
    ended = settles(receiver, made)["generations"][-1]["ended"]
    found = content(receiver, made)
    assert found[:-1] == expected(len(found) - 1)
    assert ended in ("rotated", "unverified", "unseen")
    assert found[-1].startswith(b"ended after") or ended == "unseen", (found[-1], ended)
    pods = Path(place.directory, "state", "flarelog-api", "pods")
    until(lambda: not [*pods.iterdir()], "what is stored is removed", 90)
    assert program.stop() == (0 if ended == "rotated" else 6), program.talk()


def test_an_api_that_is_away_for_a_minute(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    program = agent(cluster, place, receiver, cluster.account("api-reader", *RIGHTS))
    slow = cluster.apply(pod("slow", writer(1_500, rate=15)))
    busy = cluster.apply(pod("busy", writer(60_000, rate=600)))
    for made in (slow, busy):
        cluster.reaches(made, "Running")
    until(lambda: content(receiver, slow) and content(receiver, busy), "both logs are there", 60)
    time.sleep(5)
    cluster.api_server.stop()
    time.sleep(60)
    cluster.api_server.start()
    until(cluster.api_is_ready, cluster.talk, START)
    for made in (slow, busy):
        cluster.reaches(made, "Succeeded")
    settles(receiver, slow, "rotated")
    record = settles(receiver, busy, "unverified")
    assert content(receiver, slow) == expected(1_500)
    numbers = [int(one[:9]) for one in content(receiver, busy)]
    assert numbers == sorted(set(numbers))
    assert len(numbers) < 60_000
    assert record["gaps"], record
    assert program.stop() == 6, program.talk()
    assert "no answer from the Kubernetes API" in program.talk()
    remove(cluster, slow, busy)


def test_what_refuses_is_said_and_tried_again(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    token = cluster.account("api-half", RIGHTS[0])
    program = agent(cluster, place, receiver, "nonsense")
    program.says("does not know the token (401)")
    Path(place.directory, "token").write_text(token)
    made = cluster.apply(pod("refused", writer(100, rate=100)))
    cluster.reaches(made, "Succeeded")  # a kubelet takes up to a minute to notice that an API server is back
    program.says("does not allow to read /api/v1/namespaces/default/pods/refused/log (403)")
    Path(place.directory, "token").write_text(cluster.account("api-reader", *RIGHTS))
    settles(receiver, made, "rotated", "unverified")
    assert content(receiver, made) == expected(100)
    assert program.stop() in (0, 6), program.talk()
    remove(cluster, made)


def test_an_agent_that_comes_late_says_what_it_cannot_read(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    made = cluster.apply(pod("late-api", shell("echo attempt; exit 1"), restart="Always"))
    cluster.restarts(made, 4)
    program = agent(cluster, place, receiver, cluster.account("api-reader", *RIGHTS))
    until(lambda: len(content(receiver, made)) >= 3, "its attempts come", 60)
    record = record_of(receiver, made)
    remove(cluster, made)
    assert record["gaps"][0]["offset"] == 0, record
    assert "before the log of attempts 0 to" in record["gaps"][0]["reason"]
    assert program.stop() == 6, program.talk()


def test_once_reads_what_is_there_and_ends(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    made = cluster.apply(pod("once", writer(100, rate=1000)))
    cluster.reaches(made, "Succeeded")
    program = agent(cluster, place, receiver, cluster.account("api-reader", *RIGHTS), "--once")
    assert program.ends(60) in (0, 6), program.talk()
    assert content(receiver, made) == expected(100)
    assert record_of(receiver, made)["sealed"]
    remove(cluster, made)
