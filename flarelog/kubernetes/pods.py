"""What an object of the API says about a pod: whose it is, what it runs, and how its containers ended.

Facts belong to a pod's UID: another pod of the same name is another one. Names of labels and their meanings:
https://kubernetes.io/docs/reference/labels-annotations-taints/, https://jobset.sigs.k8s.io/docs/reference/ and
https://www.kubeflow.org/docs/components/trainer/legacy-v1/ (training.kubeflow.org/...).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flarelog.globs import any_of
from flarelog.values import frozen

JOB_LABELS = ("training.kubeflow.org/job-name", "batch.kubernetes.io/job-name", "job-name", "ray.io/cluster")
JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
INDEX_LABELS = (
    "training.kubeflow.org/replica-index",
    "jobset.sigs.k8s.io/job-global-index",
    "batch.kubernetes.io/job-completion-index",
)
_KEPT = 200  # characters of a value
_LONGEST = 1000  # characters of all attributes: a peer takes 1024


@frozen
class Pod:
    """The facts of one pod."""

    uid: str
    namespace: str
    name: str
    node: str
    labels: Mapping[str, str]
    owner: str  # the name of its controller; empty: none
    containers: Mapping[str, tuple[str, str]]  # by name: (id, image)

    def words(self, container: str, labels: Iterable[str]) -> str:
        """The attributes of *container*, as in ``Attributes.words``, with those labels that the globs *labels* take."""
        identity, image = self.containers.get(container, ("", ""))
        values = {
            "k8s.namespace.name": self.namespace,
            "k8s.pod.name": self.name,
            "k8s.pod.uid": self.uid,
            "k8s.container.name": container,
            "k8s.node.name": self.node,
            "container.id": identity.rpartition("//")[2],
            "container.image.name": image,
        }
        wanted = tuple(labels)
        for key, value in sorted(self.labels.items()):
            if wanted and any_of(wanted, key):
                values[f"k8s.pod.label.{key}"] = value
        words = [f"{key}:{escaped(value)}" for key, value in values.items() if value]
        while sum(map(len, words)) + len(words) > _LONGEST:  # labels are last
            words.pop()
        return ",".join(words)

    def run(self, kind: str) -> str:
        """The run that the pod belongs to: by ``label:KEY``, ``job`` or ``jobset``; empty if it has none."""
        if kind.startswith("label:"):
            return self.labels.get(kind.removeprefix("label:"), "")
        if kind == "jobset":
            return self.labels.get(JOBSET_LABEL, "")
        return next(filter(None, (self.labels.get(key, "") for key in JOB_LABELS)), "")

    @property
    def index(self) -> int | None:
        """The pod's place among those of its job; None where no label tells. It is no rank: only the processes of a
        job know theirs, after they have met.
        """
        said = next(filter(None, (self.labels.get(key, "") for key in INDEX_LABELS)), "")
        return int(said) if said.isdigit() and len(said) < 8 else None


def escaped(value: str) -> str:
    """*value* for an attribute: the two signs that structure attributes are escaped."""
    return value[:_KEPT].replace("%", "%25").replace(",", "%2C")


def pod_of(found: Mapping[str, Any]) -> Pod | None:
    """The facts in the object *found*; None if it is no pod."""
    metadata, spec, status = (_map(found.get(key)) for key in ("metadata", "spec", "status"))
    uid = str(metadata.get("uid") or "")
    if not uid:
        return None
    owners = [_map(one) for one in metadata.get("ownerReferences") or []]
    statuses = [
        _map(one)
        for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for one in status.get(key) or []
    ]
    return Pod(
        # A static pod's directory has the hash of its manifest, and not the UID of the API's mirror of it.
        str(_map(metadata.get("annotations")).get("kubernetes.io/config.hash") or uid),
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
        str(spec.get("nodeName") or ""),
        {str(key): str(value) for key, value in _map(metadata.get("labels")).items()},
        next((str(one.get("name") or "") for one in owners if one.get("controller")), ""),
        {str(one.get("name")): (str(one.get("containerID") or ""), str(one.get("image") or "")) for one in statuses},
    )


def _map(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}
