"""Manifests of pods for the tests' node, which has no scheduler and no network of its own for pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from integration.kubernetes import images
from integration.kubernetes.cluster import NODE, Manifest

PYTHON = "/usr/bin/python3"  # Debian's, which the mounted /usr has


def container(command: Sequence[str], name: str = "main", **more: Any) -> Manifest:
    """A container of busybox, with the host's programs and the scripts of ``inside`` at ``/inside``."""
    mounts = [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in ("usr", "inside")]
    return {
        "name": name,
        "image": images.BUSYBOX,
        "imagePullPolicy": "Never",
        "command": list(command),
        "volumeMounts": mounts,
        "terminationMessagePolicy": "File",
        **more,
    }


def shell(script: str, name: str = "main", **more: Any) -> Manifest:
    return container(["/bin/sh", "-c", script], name, **more)


def writer(lines: int, name: str = "main", *, more: Manifest | None = None, **options: float) -> Manifest:
    """A container that runs ``inside/write.py``; *options* are its flags."""
    flags = [word for option, value in options.items() for word in (f"--{option}", str(value))]
    return container([PYTHON, "/inside/write.py", "--lines", str(lines), *flags], name, **(more or {}))


def pod(
    name: str, *containers: Manifest, namespace: str = "default", restart: str = "Never",
    labels: dict[str, str] | None = None, **spec: Any,
) -> Manifest:  # fmt: skip
    """*spec*: more fields of the pod's spec."""
    volumes = [
        {"name": "usr", "hostPath": {"path": "/usr"}},
        {"name": "inside", "hostPath": {"path": "/run/inside"}},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": {
            "nodeName": NODE,
            "hostNetwork": True,
            "restartPolicy": restart,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 5,
            "containers": list(containers),
            "volumes": volumes,
            **spec,
        },
    }
