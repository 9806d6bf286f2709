"""The rank that a pod's labels, or the environment in its manifest, tell: known or absent, never guessed."""

from __future__ import annotations

from typing import Any

from flarelog.kubernetes.pods import pod_of
from flarelog.kubernetes.ranks import ranks
from tests.kubernetes.test_pods import recorded
from tests.rows import together

INDEX = "batch.kubernetes.io/job-completion-index"
KUBEFLOW, JOBSET, STEP = "training.kubeflow.org", "jobset.sigs.k8s.io", "trainer.kubeflow.org/trainjob-ancestor-step"


def env(**given: str) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in given.items()]


def from_field(name: str, path: str) -> list[dict[str, Any]]:
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}]


@together(
    "labels, variables, words",
    [
        ({INDEX: "3"}, [], f"rank:3,rank-from:{INDEX}"),
        ({INDEX: "3"}, env(PET_NNODES="16"), f"rank:3,rank-from:{INDEX},world-size:16"),
        ({INDEX: "3"}, env(NNODES="1:16"), f"rank:3,rank-from:{INDEX}"),  # an elastic job has no number
        ({INDEX: "x"}, [], ""),
        ({INDEX: "-1"}, [], ""),
        ({}, [], ""),
        ({INDEX: "3", f"{JOBSET}/jobset-name": "t"}, [], f"rank:3,rank-from:{INDEX}"),
        (
            {INDEX: "3", f"{JOBSET}/jobset-name": "t", f"{JOBSET}/replicatedjob-replicas": "1"},
            [],
            f"rank:3,rank-from:{INDEX}",
        ),
        ({INDEX: "3", f"{JOBSET}/jobset-name": "t", f"{JOBSET}/replicatedjob-replicas": "2"}, [], ""),
        (  # a driver and workers: each has an index 0
            {
                INDEX: "0",
                f"{JOBSET}/jobset-name": "t",
                f"{JOBSET}/replicatedjob-replicas": "1",
                f"{JOBSET}/global-replicas": "2",
            },
            [],
            "",
        ),
        (
            {
                INDEX: "5",
                f"{JOBSET}/jobset-name": "t",
                f"{JOBSET}/replicatedjob-replicas": "1",
                f"{JOBSET}/global-replicas": "3",
                STEP: "trainer",
            },
            from_field("PET_NODE_RANK", f"metadata.annotations['{INDEX}']") + env(PET_NNODES="8"),
            "rank:5,rank-from:PET_NODE_RANK,world-size:8",
        ),
        ({INDEX: "0", STEP: "dataset-initializer"}, [], ""),
        ({f"{KUBEFLOW}/replica-type": "master", f"{KUBEFLOW}/replica-index": "0"}, [],
         f"rank:0,rank-from:{KUBEFLOW}/replica-index"),
        ({f"{KUBEFLOW}/replica-type": "worker", f"{KUBEFLOW}/replica-index": "2"}, [],
         f"rank:3,rank-from:{KUBEFLOW}/replica-index"),
        ({f"{KUBEFLOW}/replica-type": "worker", f"{KUBEFLOW}/replica-index": "0", f"{KUBEFLOW}/job-role": "master"}, [],
         f"rank:0,rank-from:{KUBEFLOW}/replica-index"),  # a job without a master
        ({f"{KUBEFLOW}/replica-type": "launcher", f"{KUBEFLOW}/replica-index": "0"}, [], ""),
        ({f"{KUBEFLOW}/replica-type": "worker", f"{KUBEFLOW}/replica-index": "1"}, env(PET_RDZV_ENDPOINT="x:1"), ""),
        ({f"{KUBEFLOW}/replica-type": "worker", f"{KUBEFLOW}/replica-index": "1"},
         env(RANK="2", WORLD_SIZE="16", PET_NPROC_PER_NODE="4"), "rank:2,rank-from:RANK,world-size:4"),
        ({}, env(RANK="2", WORLD_SIZE="2"), "rank:2,rank-from:RANK"),  # a number that cannot be right
        ({}, env(RANK="auto"), ""),
        ({}, from_field("RANK", "metadata.name"), ""),
        ({}, from_field("RANK", "metadata.labels['absent']"), ""),
    ],
)  # fmt: skip
def test_a_rank_is_told_where_there_is_one_numbering(
    labels: dict[str, str], variables: list[dict[str, Any]], words: str
) -> None:
    assert ranks(labels, labels, {"main": {"env": variables}}).get("main", "") == words


def test_only_the_container_with_a_rank_of_its_own_has_one() -> None:
    found = ranks({INDEX: "3"}, {}, {"train": {"env": env(RANK="1")}, "proxy": {}})
    assert found == {"train": "rank:1,rank-from:RANK"}


def test_a_pods_rank_comes_before_labels_that_may_be_cut_and_its_owner_is_named() -> None:
    labels = {f"app.kubernetes.io/{number}": "v" * 63 for number in range(100)}
    found = pod_of(
        {
            "metadata": {
                "uid": "u",
                "name": "train-3-x",
                "labels": labels,
                "annotations": {INDEX: "3"},
                "ownerReferences": [{"kind": "Job", "name": "train", "controller": True}],
            },
            "spec": {"containers": [{"name": "main"}], "initContainers": [{"name": "init"}]},
        }
    )
    assert found is not None
    words = found.words("main", ("*",))
    assert words.startswith(f"rank:3,rank-from:{INDEX},")
    assert "k8s.job.name:train" in words.split(",")
    assert len(words) <= 1024
    assert "rank:" not in found.words("init", ())
    assert found.words("main", (), rank="rank:9").startswith("rank:9,k8s.")


def test_the_worker_of_a_real_job_has_the_rank_of_its_index() -> None:
    found = pod_of(recorded("job-worker"))
    assert found is not None
    index = recorded("job-worker")["metadata"]["labels"][INDEX]
    assert [*found.ranks.values()] == [f"rank:{index},rank-from:{INDEX}"]
    assert found.owner[0] == "Job"
    (name,) = found.ranks
    assert f"k8s.job.name:{found.owner[1]}" in found.words(name, ()).split(",")
    assert found.identity(name, 0).isalnum()


@together(
    "labels, owner, word",
    [
        (
            {"pod-template-hash": "5f"},
            {"kind": "ReplicaSet", "name": "web-5f", "controller": True},
            "k8s.deployment.name:web",
        ),
        ({}, {"kind": "ReplicaSet", "name": "web-5f", "controller": True}, "k8s.replicaset.name:web-5f"),
        ({}, {"kind": "StatefulSet", "name": "db", "controller": True}, "k8s.statefulset.name:db"),
        ({}, {"kind": "Node", "name": "n"}, ""),
        ({}, {"kind": "a:b,c", "name": "n", "controller": True}, ""),
    ],
)
def test_what_made_a_pod_is_an_attribute(labels: dict[str, str], owner: dict[str, Any], word: str) -> None:
    found = pod_of({"metadata": {"uid": "u", "labels": labels, "ownerReferences": [owner]}})
    assert found is not None
    words = [one for one in found.words("main", ()).split(",") if not one.startswith(("k8s.pod", "k8s.container"))]
    assert words == ([word] if word else [])


@together(
    "strange", [{"env": 7}, {"env": [1]}, {"env": [{"name": "RANK"}]}, {"env": [{"name": "RANK", "valueFrom": 1}]}]
)
def test_a_strange_manifest_tells_nothing(strange: dict[str, Any]) -> None:
    made = pod_of({"metadata": {"uid": "u"}, "spec": {"containers": [strange, 3]}})
    assert made is not None
    assert not made.ranks
