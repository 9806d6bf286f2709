"""What objects of the API say about pods: objects that a real API server gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flarelog.exit_marks import LIKELY, OTHERS
from flarelog.kubernetes.pods import Pod, escaped, pod_of
from flarelog.model import Attributes
from tests.rows import together

RECORDED = Path(__file__).parent.parent / "data" / "kubernetes" / "pods"


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


def pod(name: str, **labels: str) -> Pod:
    found = recorded(name)
    found["metadata"]["labels"] = labels
    made = pod_of(found)
    assert made is not None
    return made


@together(
    "name, ends",
    [
        pytest.param("succeeded", {0: (0, "", "")}, id="well"),
        pytest.param("failed", {0: (3, "", "")}, id="a-code"),
        pytest.param("segfault", {0: (139, "", "")}, id="a-signal"),
        pytest.param("attempts", {2: (3, "", ""), 3: (3, "", "")}, id="the-last-two-attempts"),
        pytest.param("oom", {0: (137, LIKELY, "")}, id="killed-at-the-memory-limit"),
        pytest.param("oom-of-a-child", {0: (0, OTHERS, "")}, id="another-process-was-killed"),
        pytest.param("evicted", {0: (137, "", "Evicted")}, id="evicted"),
        pytest.param("preempted", {0: (137, "", "Preempting")}, id="preempted"),
        pytest.param("deadline", {0: (137, "", "DeadlineExceeded")}, id="past-its-deadline"),
        pytest.param("no-image", {}, id="never-started"),
    ],
)
def test_each_attempt_ends_as_the_api_says(name: str, ends: dict[int, tuple[int, str, str]]) -> None:
    marks = {attempt: end.mark(7) for (_, attempt), end in pod(name).ends.items()}
    assert {attempt: (mark.status, mark.oom, mark.cause) for attempt, mark in marks.items()} == ends
    assert all(mark.offset == 7 and mark.process for mark in marks.values())


def test_the_end_of_another_process_is_not_said_to_be_this_ones() -> None:
    (mark,) = (end.mark(0) for end in pod("oom-of-a-child").ends.values())
    assert mark.sentence.endswith("OOMKilled: the kernel killed another process of the container")


@together(
    "status, metadata, cause",
    [
        pytest.param({}, {}, "", id="of-itself"),
        pytest.param(
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]},
            {},
            "EvictionByEvictionAPI",
            id="evicted-by-the-api",
        ),
        pytest.param(
            {"conditions": [{"type": "DisruptionTarget", "status": "False", "reason": "x"}]}, {}, "", id="not"
        ),
        pytest.param(
            {
                "reason": "Preempting",
                "conditions": [
                    {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-11-28T23:45:03Z"}
                ],
            },
            {},
            "",
            id="it-had-ended-before",
        ),
        pytest.param(
            {}, {"deletionTimestamp": "2026-11-28T23:45:30Z", "deletionGracePeriodSeconds": 30}, "Deleted", id="deleted"
        ),
        pytest.param(
            {},
            {"deletionTimestamp": "2026-11-28T23:45:30Z", "deletionGracePeriodSeconds": 5},
            "",
            id="it-had-ended-before-it-was-deleted",
        ),
        pytest.param(
            {}, {"deletionTimestamp": "2026-11-28T23:45:30Z", "deletionGracePeriodSeconds": 0}, "Deleted", id="at-last"
        ),
        pytest.param({"conditions": 7, "reason": None}, {"deletionTimestamp": []}, "", id="strange"),
    ],
)
def test_an_end_says_who_ended_the_pod(status: dict[str, Any], metadata: dict[str, Any], cause: str) -> None:
    found = recorded("preempted")  # its container ended at 23:45:02
    del found["status"]["reason"]
    found["status"] |= {"conditions": []} | status
    found["metadata"] |= metadata
    made = pod_of(found)
    assert made is not None
    (end,) = made.ends.values()
    assert end.cause == cause
    assert (f"the pod: {cause}" in end.mark(0).sentence) == bool(cause)


def test_an_earlier_attempt_has_not_ended_for_what_ended_the_pod() -> None:
    found = recorded("attempts")
    found["status"]["reason"] = "Evicted"
    found["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] = 137
    made = pod_of(found)
    assert made is not None
    assert {attempt: end.cause for (_, attempt), end in made.ends.items()}[2] == ""


@pytest.mark.parametrize("reason", ["Evicted", ""])
def test_an_end_that_the_kubelet_did_not_see_is_reported_as_such(reason: str) -> None:
    lost = recorded("evicted")
    (status,) = lost["status"]["containerStatuses"]
    unknown = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    status |= {"state": {"terminated": unknown}, "lastState": {}}
    lost["status"] |= {"reason": reason, "conditions": []}
    first, again = pod_of(lost), pod_of(lost)
    assert first is not None
    assert first == again
    ((key, end),) = first.ends.items()
    mark = end.mark(7)
    assert (mark.status, mark.cause) == (
        137,
        f"{reason}, ContainerStatusUnknown" if reason else "ContainerStatusUnknown",
    )
    assert first.identity(*key) == "", "the mark's id is no container's"
    another = pod_of({**lost, "metadata": {**lost["metadata"], "uid": "2"}})
    assert another is not None
    assert {end.process for end in another.ends.values()}.isdisjoint({mark.process})


def test_a_container_that_waits_to_be_restarted_has_ended_in_its_latest_attempt() -> None:
    found = recorded("attempts")
    (status,) = found["status"]["containerStatuses"]
    status["lastState"] = status.pop("state")
    status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    made = pod_of(found)
    assert made is not None
    assert list(made.ends) == [("main", 3)]


def test_why_a_pod_was_ended_and_its_labels_are_attributes() -> None:
    words = pod("evicted", **{"job-name": "train-7", "secret": "x"}).words("main", ("job-*",))
    values = dict(word.split(":", 1) for word in words.split(","))
    assert values["k8s.pod.status.reason"] == "Evicted"
    assert values["k8s.pod.label.job-name"] == "train-7"
    assert "k8s.pod.label.secret" not in values
    assert values["container.id"].isalnum()


def test_any_value_is_one_attribute_and_all_together_are_bounded() -> None:
    assert escaped("a,b%") == "a%2Cb%25"
    labels = {f"app.kubernetes.io/{n}": "v" * 63 for n in range(100)}
    assert len(pod("failed", **labels).words("main", ("*",))) <= 1024


def test_a_label_without_a_value_is_an_attribute() -> None:
    assert "k8s.pod.label.worker:" in pod("failed", worker="").words("main", ("*",)).split(",")


def test_labels_of_any_bytes_are_attributes_of_their_own() -> None:
    labels = {"a\0": "\ud800", "a,b:c": "1,2:3%", "a\n": "\x1b[31m\n", "a\u202e": "caf\u00e9"}
    words = pod("failed", **labels).words("main", ("*",))
    assert words.isprintable()
    values = Attributes(0, 0, words).values
    assert {key: value for key, value in values.items() if "label" in key} == {
        "k8s.pod.label.a\\x00": "\\ud800",
        "k8s.pod.label.a%2Cb%3Ac": "1%2C2:3%25",
        "k8s.pod.label.a\\n": "\\x1b[31m\\n",
        "k8s.pod.label.a\\u202e": "caf\u00e9",
    }


@together(
    "kind, labels, run",
    [
        pytest.param("label:team", {"team": "vision"}, "vision", id="a-label"),
        pytest.param("label:team", {}, "", id="no-label"),
        pytest.param("job", {"training.kubeflow.org/job-name": "pt", "job-name": "x"}, "pt", id="kubeflow"),
        pytest.param("job", {"batch.kubernetes.io/job-name": "j"}, "j", id="a-job"),
        pytest.param("jobset", {"jobset.sigs.k8s.io/jobset-name": "s"}, "s", id="a-jobset"),
    ],
)
def test_labels_tell_the_run(kind: str, labels: dict[str, str], run: str) -> None:
    assert pod("failed", **labels).run(kind) == run


def test_a_static_pod_has_the_uid_of_its_directory() -> None:
    found = recorded("failed")
    found["metadata"]["annotations"] = {"kubernetes.io/config.hash": "f" * 32}
    made = pod_of(found)
    assert made is not None
    assert made.uid == "f" * 32


@together(
    "found", [{}, {"metadata": None}, {"metadata": {"uid": "u"}, "spec": [], "status": {"containerStatuses": [1]}}]
)
def test_a_strange_object_raises_nothing(found: dict[str, Any]) -> None:
    made = pod_of(found)
    assert made is None or made.uid == "u"
