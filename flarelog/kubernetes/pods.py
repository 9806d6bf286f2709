"""What an object of the API says about a pod: whose it is, what it runs, and how its containers ended.

Facts belong to a pod's UID: another pod of the same name is another one. Names of labels and their meanings:
https://kubernetes.io/docs/reference/labels-annotations-taints/, https://jobset.sigs.k8s.io/docs/reference/ and
https://www.kubeflow.org/docs/components/trainer/legacy-v1/ (training.kubeflow.org/...).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from flarelog.checksum import EMPTY_DIGEST
from flarelog.exit_marks import LIKELY, OTHERS, Exit
from flarelog.globs import any_of
from flarelog.kubernetes.attempts import Attempt, attempt_of, mapping
from flarelog.kubernetes.ranks import JOBSET_LABEL, ranks
from flarelog.model import RESTARTS
from flarelog.text import legible
from flarelog.values import frozen

JOB_LABELS = ("training.kubeflow.org/job-name", "batch.kubernetes.io/job-name", "job-name", "ray.io/cluster")
NODE, REASON = "k8s.node.name", "k8s.pod.status.reason"  # attributes
LOST = "lost://"  # the identity of a container whose end nobody saw
_KEPT = 320  # characters of a value, and of a label's key
_KILLED, _TERMINATED = 137, 143  # the exit codes of a container whose main process died of SIGKILL and SIGTERM
_ID_SHOWN = 32  # characters of a container's id
_LONGEST = 1000  # characters of all attributes: a peer takes 1024


@frozen
class Ended:
    """How an attempt of a container ended. Times are milliseconds since 1970, 0: unknown."""

    identity: str  # of the container
    status: int
    reason: str
    started: int
    ended: int
    cause: str = ""  # why the pod was ended, if this attempt ended so
    known: float = field(default=0.0, compare=False)  # since when it is known, by the monotonic clock; 0: unknown

    @property
    def is_lost(self) -> bool:
        """Whether nobody saw the end: the kubelet had lost the container."""
        return self.identity.startswith(LOST)

    @property
    def process(self) -> str:
        """As in its mark."""
        return self.identity.rpartition("//")[2][:_ID_SHOWN]

    def mark(self, offset: int, until: int = -1) -> Exit:
        """The mark for it at *offset*; *until* as there. The kubelet says OOMKilled of a container in which any process
        was killed so: a main process that was not killed ended of something else (kubernetes#104454).
        """
        oom = "" if self.reason != "OOMKilled" else LIKELY if self.status == _KILLED else OTHERS
        return Exit(
            offset,
            EMPTY_DIGEST,
            self.process,
            self.status,
            started=self.started,
            ended=self.ended,
            oom=oom,
            until=until,
            cause=self.cause,
        )


@frozen
class Pod:
    """The facts of one pod."""

    uid: str
    namespace: str
    name: str
    node: str
    labels: Mapping[str, str]
    reason: str  # why the pod as a whole was ended, such as Evicted; empty: it was not
    containers: Mapping[str, tuple[str, str]]  # by name: (id, image)
    ends: Mapping[tuple[str, int], Ended] = field(default_factory=dict)  # by name and attempt, as far as is known
    ids: Mapping[tuple[str, int], str] = field(default_factory=dict)  # of containers, by name and attempt, likewise
    attempts: Mapping[str, int] = field(default_factory=dict)  # by container: its present attempt
    ranks: Mapping[str, str] = field(default_factory=dict)  # by container: the words for the rank that the API tells
    owner: tuple[str, str] = ("", "")  # kind and name of what made the pod
    states: Mapping[str, Attempt] = field(default_factory=dict)  # by container: its present attempt, and its state
    over: bool = False  # none of its containers will run again

    def identity(self, container: str, attempt: int) -> str:
        """The runtime's id of an *attempt* of *container*; empty: not known."""
        return self.ids.get((container, attempt), "").rpartition("//")[2]

    def words(self, container: str, labels: Iterable[str], attempt: int | None = None, rank: str | None = None) -> str:
        """The attributes of an *attempt* of *container*, the present one by default, as in ``Attributes.words``, with
        those labels that the globs *labels* take. *rank*: the words for its rank; None: as the API tells it.
        """
        attempt = self.attempts.get(container, 0) if attempt is None else attempt
        image = self.containers.get(container, ("", ""))[1]
        kind, name = self.owner
        values = {
            "k8s.namespace.name": self.namespace,
            "k8s.pod.name": self.name,
            "k8s.pod.uid": self.uid,
            "k8s.container.name": container,
            RESTARTS: str(attempt),
            "k8s.job.name": self.run("job"),
            "k8s.jobset.name": self.run("jobset"),
            **({f"k8s.{kind.lower()}.name": name} if kind else {}),
            NODE: self.node,
            REASON: self.reason,
            "container.id": self.identity(container, attempt),
            "container.image.name": image,
        }
        values = {key: value for key, value in values.items() if value}
        wanted = tuple(labels)
        for key, value in sorted(self.labels.items()):
            if wanted and any_of(wanted, key):
                values[f"k8s.pod.label.{escaped(key).replace(':', '%3A')}"] = value  # which may be empty
        words = [word for word in (self.ranks.get(container, "") if rank is None else rank).split(",") if word]
        words += [f"{key}:{escaped(value)}" for key, value in values.items()]
        while sum(map(len, words)) + len(words) > _LONGEST:  # labels are last
            words.pop()
        return ",".join(words)

    def is_told(self, words: str) -> bool:
        """Whether the attributes *words* come from the API, and say why the pod was ended, if it was."""
        keys = {word.partition(":")[0] for word in words.split(",")}
        return NODE in keys and (REASON in keys or not self.reason)

    def run(self, kind: str) -> str:
        """The run that the pod belongs to: by ``label:KEY``, ``job`` or ``jobset``; empty if it has none."""
        if kind.startswith("label:"):
            return self.labels.get(kind.removeprefix("label:"), "")
        if kind == "jobset":
            return self.labels.get(JOBSET_LABEL, "")
        return next(filter(None, (self.labels.get(key, "") for key in JOB_LABELS)), "")


def escaped(value: str) -> str:
    """*value* for an attribute: the two signs that structure attributes are escaped, and all that is no text."""
    return legible(value[:_KEPT]).replace("%", "%25").replace(",", "%2C")


def pod_of(found: Mapping[str, Any]) -> Pod | None:
    """The facts in the object *found*; None if it is no pod."""
    metadata, spec, status = (mapping(found.get(key)) for key in ("metadata", "spec", "status"))
    uid = str(metadata.get("uid") or "")
    if not uid:
        return None
    labels, annotations = (_texts(metadata.get(key)) for key in ("labels", "annotations"))
    containers = {str(one.get("name")): one for one in map(mapping, _list(spec.get("containers")))}
    statuses = [
        mapping(one)
        for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for one in _list(status.get(key))
    ]
    attempts = {str(one.get("name")): count for one in statuses if isinstance(count := one.get("restartCount"), int)}
    ended = dict(end for one in statuses for end in _ends(uid, one, _cause(metadata, status)))
    running = ((str(one.get("name")), one) for one in statuses if mapping(one.get("state")).get("running") is not None)
    ids = {(name, attempts.get(name, 0)): str(one.get("containerID") or "") for name, one in running}
    return Pod(
        # A static pod's directory has the hash of its manifest, and not the UID of the API's mirror of it.
        annotations.get("kubernetes.io/config.hash") or uid,
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
        str(spec.get("nodeName") or ""),
        labels,
        _reason(status),
        {str(one.get("name")): (str(one.get("containerID") or ""), str(one.get("image") or "")) for one in statuses},
        ended,
        ids | {attempt: end.identity for attempt, end in ended.items() if not end.is_lost},
        attempts,
        ranks(labels, annotations, containers),
        _owner(metadata, labels),
        {str(one.get("name")): state for one in statuses if (state := attempt_of(one)) is not None},
        status.get("phase") in ("Succeeded", "Failed"),
    )


class _Cause(NamedTuple):
    """Why a pod was ended, and since when: milliseconds since 1970, 0: unknown."""

    reason: str = ""
    since: int = 0

    def of(self, code: int, ended: int) -> str:
        """The reason, if a container ended for it: later, or, if the time is not known, as one that was killed."""
        return self.reason if (ended >= self.since > 0) or (not self.since and code in (_KILLED, _TERMINATED)) else ""


def _disruption(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition that names who ends the pod. Its reasons:
    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """
    found = map(mapping, _list(status.get("conditions")))
    return next((one for one in found if (one.get("type"), one.get("status")) == ("DisruptionTarget", "True")), {})


def _reason(status: Mapping[str, Any]) -> str:
    return str(status.get("reason") or _disruption(status).get("reason") or "")


def _cause(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> _Cause:
    if reason := _reason(status):
        return _Cause(reason, _moment(_disruption(status).get("lastTransitionTime")))
    at, grace = _moment(metadata.get("deletionTimestamp")), metadata.get("deletionGracePeriodSeconds")
    # At the end the API shortens the grace period to 0, and moves the time.
    return _Cause("Deleted", at - 1000 * grace if isinstance(grace, int) and grace else 0) if at else _Cause()


def _owner(metadata: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[str, str]:
    """Kind and name of what made the pod: of a Deployment's, the Deployment and not its ReplicaSet."""
    for one in map(mapping, _list(metadata.get("ownerReferences"))):
        kind, name = str(one.get("kind") or ""), str(one.get("name") or "")
        if one.get("controller") and kind.isalnum() and name:
            made = labels.get("pod-template-hash", "")
            if kind == "ReplicaSet" and made and name.endswith(f"-{made}"):
                return "Deployment", name.removesuffix(f"-{made}")
            return kind, name
    return "", ""


def _ends(uid: str, status: Mapping[str, Any], cause: _Cause) -> Iterator[tuple[tuple[str, int], Ended]]:
    """The ends of attempts in the status of a container of the pod *uid*: of the present one, and of the one before.
    Only the present one can have ended for the *cause* for which the pod was ended.
    """
    name, attempt = str(status.get("name")), status.get("restartCount")
    if not isinstance(attempt, int):
        return
    now, before = mapping(status.get("state")), mapping(mapping(status.get("lastState")).get("terminated"))
    # A container that waits to be restarted has not begun its next attempt.
    for number, said in ((attempt, mapping(now.get("terminated"))), (attempt - ("waiting" not in now), before)):
        identity, code, reason = said.get("containerID"), said.get("exitCode"), str(said.get("reason") or "")
        if not identity and said is not before and isinstance(code, int):
            # The kubelet lost the container, and made the exit code up.
            identity = f"{LOST}{blake2b(f'{uid}/{name}/{attempt}'.encode(), digest_size=16).hexdigest()}"
        if identity and isinstance(code, int) and 0 <= code < 256 and number >= 0:
            times = _moment(said.get("startedAt")), _moment(said.get("finishedAt"))
            why = "" if said is before else cause.of(code, times[1])
            if str(identity).startswith(LOST):
                why = ", ".join(filter(None, (cause.reason, reason)))
            yield (name, number), Ended(str(identity), code, reason, *times, why)


def _moment(text: object) -> int:
    """A time of the API, in whole seconds, as milliseconds since 1970; 0: none."""
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def _list(found: object) -> list[Any]:
    return found if isinstance(found, list) else []


def _texts(found: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping(found).items()}
