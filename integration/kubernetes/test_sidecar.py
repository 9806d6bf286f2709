"""The ordinary sidecar on a node's ``/var/log/pods``, which a real kubelet and containerd write, rotate and remove."""

from __future__ import annotations

import threading
import time

import pytest

from integration.harness.places import Place, Receiver, difference, until
from integration.kubernetes import cri
from integration.kubernetes.cluster import Cluster, Manifest
from integration.kubernetes.inside.write import line
from integration.kubernetes.pods import pod, writer

RATE, LINES, PAUSE = 20_000, 400_000, 12.0


class ApiFollow(threading.Thread):
    """``kubectl logs --follow``: the API's own way to read a container's log.

    It takes no bytes for *pause* seconds once, as a terminal with Ctrl-S, or a program that writes to a slow place.
    """

    def __init__(self, cluster: Cluster, pod: Manifest, pause: float = 0.0) -> None:
        super().__init__(daemon=True)
        named = pod["metadata"]
        self._path = f"/api/v1/namespaces/{named['namespace']}/pods/{named['name']}/log?follow=true"
        self._cluster, self._pause = cluster, pause
        self.got = b""
        self.status = 0
        self.start()

    def run(self) -> None:
        with self._cluster.api.open("GET", self._path) as answer:
            self.status = answer.status
            pieces = []
            time.sleep(self._pause)
            while piece := answer.read1(1 << 20):
                pieces.append(piece)
            self.got = b"".join(pieces)

    def row(self, lines: int) -> str:
        """Called when it has ended."""
        lost = lines - len(set(self.got.splitlines()))
        paused = f", its reader paused once for {self._pause:g} s" if self._pause else ""
        return f"  {lost:>9,} lost by the API's follow=true{paused}; it ended with status {self.status} and no error"


def stored(receiver: Receiver, cluster: Cluster, pod: Manifest, attempt: int = 0) -> bytes:
    """The whole records that are stored."""
    directory = cluster.log_directory(pod).relative_to(cluster.logs)
    found = receiver.stored(f"{directory}/{attempt}.log")
    return found[: found.rfind(b"\n") + 1]


def test_no_line_is_lost_at_20000_lines_a_second_over_rotations(
    cluster: Cluster, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver, root=cluster.logs)
    fast = cluster.apply(pod("fast", writer(LINES, rate=RATE)))
    cluster.reaches(fast, "Running")
    follows = [ApiFollow(cluster, fast), ApiFollow(cluster, fast, PAUSE)]
    cluster.reaches(fast, "Succeeded")
    for follow in follows:
        follow.join(60)
    wanted = b"".join(line(number) for number in range(LINES))

    def all_lines() -> bool:
        return len(cri.written(stored(receiver, cluster, fast))) >= len(wanted)

    until(all_lines, lambda: f"all lines are stored; {len(stored(receiver, cluster, fast))} bytes")
    found = cri.written(stored(receiver, cluster, fast))
    (record,) = (record for name, record in receiver.streams().items() if "_fast_" in name)
    rotations = len(record["generations"]) - 1
    cluster.delete(fast)
    cluster.gone(fast)
    with capsys.disabled():
        print(f"\n{LINES:,} lines of 100 bytes, {RATE:,} a second, {rotations} rotations:")
        print(f"  {LINES - len(set(found.splitlines())):>9,} lost by the sidecar")
        print("\n".join(follow.row(LINES) for follow in follows))
    assert found == wanted, difference(wanted, found)
    assert rotations >= 4, "the kubelet looks every 3 s"
    assert sidecar.stop() == 0, sidecar.talk()


def test_every_attempt_of_a_crash_loop_is_kept(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver, root=cluster.logs)
    crashing = cluster.apply(pod("crashing", writer(100, rate=1000, exit=3), restart="Always"))
    cluster.restarts(crashing, 4)
    wanted = b"".join(line(number) for number in range(100))

    def attempts() -> list[bytes]:
        return [cri.written(stored(receiver, cluster, crashing, attempt)) for attempt in range(4)]

    until(lambda: attempts() == [wanted] * 4, lambda: f"four attempts are stored: {attempts()}")
    files = sorted(path.name for path in cluster.log_directory(crashing).iterdir())
    cluster.delete(crashing, grace=0)
    cluster.gone(crashing)
    sidecar.stop()
    assert "0.log" not in files, "the kubelet removes the files of earlier attempts"


def test_a_deleted_pod_is_stored_to_its_last_line(cluster: Cluster, place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver, root=cluster.logs)
    deleted = cluster.apply(pod("deleted", writer(10_000_000, rate=2000)))
    cluster.reaches(deleted, "Running")
    until(lambda: stored(receiver, cluster, deleted), "its first lines are stored")
    cluster.delete(deleted)
    cluster.gone(deleted)
    until(lambda: not cluster.log_directory(deleted).exists(), "the kubelet removes its files")
    until(lambda: b" F ended after " in stored(receiver, cluster, deleted), "its last line is stored")
    found = cri.written(stored(receiver, cluster, deleted))
    count = found.count(b"\n") - 1
    wanted = b"".join(line(number) for number in range(count)) + b"ended after %d lines\n" % count
    assert found == wanted, difference(wanted, found)
    assert sidecar.stop() in (0, 6), sidecar.talk()
