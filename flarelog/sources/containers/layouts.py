"""The layouts of container logs on a node: what the names of directories and files say.

``cri``: ``NAMESPACE_POD_UID/CONTAINER/N.log``, below /var/log/pods. N counts the container's restarts. The kubelet
rotates ``N.log`` to ``N.log.YYYYMMDD-HHMMSS`` and compresses it later to the same name with ``.gz``.
(kubelet: pkg/kubelet/kuberuntime/helpers.go, pkg/kubelet/logs/container_log_manager.go)

``docker``: ``ID/ID-json.log``, below /var/lib/docker/containers. Rotated files are ``ID-json.log.1``, the newest, and
so on; Docker compresses them with ``.gz`` if asked to. (moby: daemon/logger/loggerutils/logfile.go)

The log of a container has a stable name, from its path alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from flarelog.late import late
from flarelog.names import log_of_pod
from flarelog.values import frozen

_ID_SHOWN = 12  # characters of an id in a log's name
_POD = late(r"([^_]+)_([^_]+)_([^_]+)")
_CRI_FILE = late(r"(\d{1,9})\.log(?:\.(\d{8}-\d{6}))?(\.gz)?")
_DOCKER_ID = late(r"[0-9a-f]{64}")
_DOCKER_FILE = late(r"([0-9a-f]{64})-json\.log(?:\.(\d{1,9}))?(\.gz)?")
NEWEST = "~"  # after all digits

Turn = tuple[int, str]
"""(attempt, place among its files): of two files of a container, a later one compares greater."""


class Place(NamedTuple):
    """What a file's name says."""

    turn: Turn
    current: bool  # the runtime writes to it, or did until the container ended
    packed: bool  # compressed


@frozen
class Container:
    """A container whose logs are in one directory."""

    directory: str  # relative to the root
    log: str  # the name of its log
    attributes: str  # as in ``Attributes.words``
    uid: str = ""  # of its pod
    name: str = ""  # in its pod
    identity: str = ""  # the runtime's id of it, if the path tells it


@frozen
class Layout:
    """One layout. *depth*: the number of directories above a file; *stamped*: a rotated file keeps its turn."""

    name: str
    depth: int
    stamped: bool
    container: Callable[[str], Container | None]
    place: Callable[[str], Place | None]


def _of_pod(directory: str) -> Container | None:
    pod, _, name = directory.partition("/")
    found = _POD.fullmatch(pod)
    if found is None or not name:
        return None
    namespace, pod, uid = found.groups()
    words = {"namespace.name": namespace, "pod.name": pod, "pod.uid": uid, "container.name": name}
    attributes = ",".join(f"k8s.{key}:{value}" for key, value in words.items() if not re.search("[,:]", value))
    return Container(directory, log_of_pod(namespace, pod, uid, name), attributes, uid, name)


def _of_attempt(name: str) -> Place | None:
    found = _CRI_FILE.fullmatch(name)
    if found is None or (found[3] and not found[2]):
        return None
    return Place((int(found[1]), found[2] or NEWEST), not found[2], bool(found[3]))


def _of_id(directory: str) -> Container | None:
    if not _DOCKER_ID.fullmatch(directory):
        return None
    log, attributes = f"{directory[:_ID_SHOWN]}/container.log", f"container.id:{directory}"
    return Container(directory, log, attributes, identity=directory)


def _of_json_file(name: str) -> Place | None:
    found = _DOCKER_FILE.fullmatch(name)
    if found is None or (found[3] and not found[2]):
        return None
    rotated = f"{10**9 - int(found[2]):09d}" if found[2] else NEWEST  # its number counts backwards
    return Place((0, rotated), not found[2], bool(found[3]))


LAYOUTS = {
    layout.name: layout
    for layout in (Layout("cri", 2, True, _of_pod, _of_attempt), Layout("docker", 1, False, _of_id, _of_json_file))
}
