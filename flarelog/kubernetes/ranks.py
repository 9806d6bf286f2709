"""The rank that an object of the API gives a pod: the number of its machine in a job, before its processes have met.

What an operator has written into a container's environment outweighs labels, because it knows its own numbering. Where
labels leave several numberings possible there is no rank: a JobSet with several Jobs of several pods numbers them as
its template likes. Where a launcher's rendezvous decides, the environments of the processes tell the truth later.

https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode, https://jobset.sigs.k8s.io/docs/reference/
and, of Kubeflow, training-operator pkg/controller.v1/pytorch/envvar.go and trainer pkg/constants/constants.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

INDEX = "batch.kubernetes.io/job-completion-index"
TYPE, NUMBER = "training.kubeflow.org/replica-type", "training.kubeflow.org/replica-index"
ROLE = "training.kubeflow.org/job-role"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_REPLICAS, _ALL = "jobset.sigs.k8s.io/replicatedjob-replicas", "jobset.sigs.k8s.io/global-replicas"
_VARIABLES = ("PET_NODE_RANK", "NODE_RANK", "RANK")  # of a container's environment, the best first
_RENDEZVOUS = ("PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND")  # the launcher is elastic: labels do not tell its ranks
_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")

Notes = Mapping[str, str]


def ranks(labels: Notes, annotations: Notes, containers: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The words for the rank of each of *containers*, given as in a pod's spec: ``rank:3,rank-from:KEY``, and the
    number of ranks, if it is known. A container without a rank is absent.
    """
    given = {name: dict(_environment(one, labels, annotations)) for name, one in containers.items()}
    own = {name: key for name, env in given.items() if (key := next(filter(env.__contains__, _VARIABLES), ""))}
    if own:
        return {name: _words(int(given[name][key]), key, given[name]) for name, key in own.items()}
    found = _labelled(labels, annotations, elastic=any(set(_RENDEZVOUS) & env.keys() for env in given.values()))
    return {} if found is None else {name: _words(*found, env) for name, env in given.items()}


def _environment(container: Mapping[str, Any], labels: Notes, annotations: Notes) -> Iterator[tuple[str, str]]:
    """The variables that the manifest gives the container; those of ranks only where they are numbers."""
    for one in container.get("env") or []:
        if not isinstance(one, dict):
            continue
        name, value = str(one.get("name")), one.get("value")
        source = one.get("valueFrom")
        field = source.get("fieldRef") if isinstance(source, dict) else None
        if isinstance(field, dict) and (found := _FIELD.fullmatch(str(field.get("fieldPath")))):
            value = (labels if found[1] == "labels" else annotations).get(found[2])
        if value is not None and (name not in _VARIABLES or _number(str(value)) is not None):
            yield name, str(value)


def _labelled(labels: Notes, annotations: Notes, *, elastic: bool) -> tuple[int, str] | None:
    """The rank by labels, and the key that tells it."""
    if TYPE in labels:
        index, kind = _number(labels.get(NUMBER, "")), labels[TYPE].lower()
        if index is None or elastic:
            return None
        if kind == "master" or labels.get(ROLE) == "master":
            return index, NUMBER
        return (index + 1, NUMBER) if kind == "worker" else None
    index = _number(annotations.get(INDEX, labels.get(INDEX, "")))
    if index is None or labels.get(STEP, "trainer") != "trainer":
        return None
    if JOBSET_LABEL in labels:
        replicas = labels.get(_REPLICAS, "1")
        if replicas != "1" or (STEP not in labels and labels.get(_ALL, replicas) != replicas):
            return None
    return index, INDEX


def _words(rank: int, key: str, environment: Notes) -> str:
    size = _number(environment.get("PET_NNODES", environment.get("NNODES", "")))
    everyone, each = (_number(environment.get(name, default)) for name, default in _SIZES)
    if size is None and everyone and each:
        size = everyone // each
    sized = f",world-size:{size}" if size and size > rank else ""
    return f"rank:{rank},rank-from:{key}{sized}"


_SIZES = (("WORLD_SIZE", ""), ("PET_NPROC_PER_NODE", "1"))


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,7}", text) else None
