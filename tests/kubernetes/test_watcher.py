"""What stays known about the pods of a node while the API goes on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from flarelog.kubernetes.options import KubernetesOptions
from flarelog.kubernetes.pods import Pod
from flarelog.kubernetes.watcher import ENDS, Pods
from tests.certificates import Authority
from tests.kubernetes.test_pods import recorded


def known(directory: Path, *events: tuple[str, Mapping[str, Any]]) -> Pod | None:
    """What is known of the pod of *events* after them."""
    Authority.new(directory)
    (directory / "token").write_text("secret\n")
    where = KubernetesOptions(
        api="https://10.0.0.1", api_ca=str(directory / "ca.crt"), api_token=str(directory / "token")
    )
    lines = [json.dumps({"type": kind, "object": found}).encode() + b"\n" for kind, found in events]

    def serve(request: httpx2.Request) -> httpx2.Response:
        if "watch" not in request.url.params:
            return httpx2.Response(200, stream=httpx2.ByteStream(b'{"metadata": {"resourceVersion": "1"}}'))
        if lines:
            data = b"".join(lines)
            lines.clear()
            return httpx2.Response(200, stream=httpx2.ByteStream(data))
        pods.drain()
        return httpx2.Response(200, stream=httpx2.ByteStream(b""))

    pods = Pods(where, "node-1", httpx2.MockTransport(serve))
    asyncio.run(pods.run())
    return pods.of(events[0][1]["metadata"]["uid"])


def attempt(number: int) -> Mapping[str, Any]:
    found = recorded("attempts")
    (status,) = found["status"]["containerStatuses"]
    ended = status["state"].get("terminated") or status["lastState"]["terminated"]
    status |= {"restartCount": number, "state": {"terminated": ended | {"exitCode": number % 256}}, "lastState": {}}
    return found


def test_the_ends_of_all_attempts_stay_known_up_to_a_limit(tmp_path: Path) -> None:
    pod = known(tmp_path, *(("MODIFIED", attempt(number)) for number in range(100)))
    assert pod is not None
    assert [attempt for _, attempt in pod.ends] == list(range(100 - ENDS, 100))


def test_an_end_that_was_seen_stays_though_the_kubelet_loses_the_container(tmp_path: Path) -> None:
    seen, lost = attempt(1), attempt(1)
    unknown = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    lost["status"]["containerStatuses"][0]["state"] = {"terminated": unknown}
    pod = known(tmp_path, ("ADDED", seen), ("MODIFIED", lost))
    assert pod is not None
    assert [end.status for end in pod.ends.values()] == [1]


def test_since_when_an_end_is_known_stays_the_same_while_the_api_repeats_it(tmp_path: Path) -> None:
    began = time.monotonic()
    once = known(tmp_path, ("ADDED", attempt(1)))
    again = known(tmp_path / "again", *[("MODIFIED", attempt(1))] * 3)
    assert once is not None
    assert again is not None
    assert [began < end.known < time.monotonic() for pod in (once, again) for end in pod.ends.values()] == [True] * 2
    assert once.ends == again.ends


def test_the_last_word_on_a_deleted_pod_leaves_why_its_container_ended(tmp_path: Path) -> None:
    ended = recorded("failed")
    finished = ended["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    ended["metadata"] |= {"deletionTimestamp": finished, "deletionGracePeriodSeconds": 30}
    last = json.loads(json.dumps(ended))
    last["metadata"]["deletionGracePeriodSeconds"] = 0
    pod = known(tmp_path, ("MODIFIED", ended), ("DELETED", last))
    assert pod is not None
    assert [(end.status, end.cause) for end in pod.ends.values()] == [(3, "Deleted")]


@pytest.mark.parametrize("status", [410, 403])
def test_a_watch_that_is_refused_after_each_list_is_said_once_and_no_list_ends_the_trouble(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    Authority.new(tmp_path)
    (tmp_path / "token").write_text("secret\n")
    where = KubernetesOptions(
        api="https://10.0.0.1", api_ca=str(tmp_path / "ca.crt"), api_token=str(tmp_path / "token")
    )
    mark = b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "2"}}}\n'
    watches = iter([*[(status, b"{}")] * 5, (200, mark)])
    said: list[str] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        if "watch" not in request.url.params:
            return httpx2.Response(200, stream=httpx2.ByteStream(b'{"metadata": {"resourceVersion": "1"}}'))
        if (found := next(watches, None)) is None:
            said.extend(record.getMessage() for record in caplog.records if record.name.startswith("flarelog"))
            pods.drain()
            found = 200, b""
        return httpx2.Response(found[0], stream=httpx2.ByteStream(found[1]))

    pods = Pods(where, "node-1", httpx2.MockTransport(serve), longest=0.0)
    with caplog.at_level("INFO"):
        asyncio.run(pods.run())
    assert len(said) == 2, said
    assert f"({status})" in said[0]
    assert said[1] == "the Kubernetes API answers again"
