"""Somebody's machine, from which the tests' cluster is used: kubectl, Helm and flarelog, and this tree's ``deploy``.

Manifests are applied as they are. The node has no network for pods, so the cluster gives its own to each pod (with a
MutatingAdmissionPolicy), where the name of the receiver's Service is the node's address. Controllers run, new pods are
bound to the node, and a volume waits for the receiver's claim.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from integration.harness.places import FLARELOG, environment
from integration.kubernetes import containerfile, helm, parts
from integration.kubernetes.cluster import NODE, Cluster, Manifest
from integration.kubernetes.processes import ADDRESS

RECEIVER = "flarelog-receiver.flarelog.svc"
SITE = "kubernetes"  # of the manifests
USER = 65532  # the image's
KEPT = "flarelog.test/kept"  # a finalizer: what has it stays to be looked at after its end


class Workstation:
    """*directory*: where commands run; it has a link to ``deploy``."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self.directory = cluster, directory
        self.store = cluster.directory / "volume" / "store"
        (directory / "deploy").symlink_to(helm.TREE / "deploy")
        programs = (parts.built(parts.KUBECTL), helm.built().parent, Path(FLARELOG[0]).parent)
        self.env = {
            **environment(),
            "KUBECONFIG": str(cluster.directory / "kubeconfig.json"),
            "HOME": str(directory),
            "PATH": ":".join([*map(str, programs), os.environ["PATH"]]),
        }

    def call(self, *command: str, check: bool = True, text: str = "", tree: bool = False) -> str:
        """The output of *command*, which gets *text*. *tree*: it runs in this tree, and imports its modules."""
        done = subprocess.run(
            command,
            cwd=helm.TREE if tree else self.directory,
            env=self.env,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def kubectl(self, *args: str, check: bool = True, text: str = "") -> str:
        return self.call("kubectl", *args, check=check, text=text)

    def apply(self, *manifests: Manifest) -> list[Manifest]:
        """Create or change the objects; return them as they are then."""
        described = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        found = json.loads(self.kubectl("apply", "--output", "json", "--filename", "-", text=described))
        items: list[Manifest] = found["items"] if found["kind"] == "List" else [found]
        return items

    def objects(self, *args: str) -> list[Manifest]:
        """The objects that ``kubectl get`` finds."""
        found = json.loads(self.kubectl("get", *args, "--output", "json"))
        items: list[Manifest] = found["items"] if found["kind"] == "List" else [found]
        return items

    def pod(self, selector: str, namespace: str = "flarelog") -> Manifest:
        """The one pod with the labels of *selector* that nobody has deleted."""
        found = self.objects("pods", "--namespace", namespace, "--selector", selector)
        (one,) = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return one

    def delete_and_keep(self, pod: Manifest) -> None:
        """Delete *pod* within its own grace, and wait until its containers have ended; ``let_go`` removes the rest."""
        where = ("pod", pod["metadata"]["name"], "--namespace", pod["metadata"]["namespace"])
        self.kubectl("patch", *where, "--patch", json.dumps({"metadata": {"finalizers": [KEPT]}}))
        self.kubectl("delete", *where, "--wait=false")

    def let_go(self, pod: Manifest) -> None:
        where = ("pod", pod["metadata"]["name"], "--namespace", pod["metadata"]["namespace"])
        self.kubectl("patch", *where, "--patch", json.dumps({"metadata": {"finalizers": None}}))

    def streams(self, run: str) -> dict[str, dict[str, Any]]:
        """The logs of *run* in the receiver's volume: SITE/LOG, and its record."""
        said = self.call("flarelog", "streams", run, "--store", str(self.store), "--output", "json", check=False)
        records = [json.loads(line) for line in said.splitlines()]
        return {f"{record['site']}/{record['log']}": record for record in records}

    def load_image(self) -> None:
        """Let pods use the image that ``deploy/Containerfile`` makes of this tree."""
        self.cluster.load(containerfile.archive())

    def clear(self) -> None:
        """Remove what was applied, so that other tests find the cluster as it was."""
        for kinds, *names in (
            ("daemonset,deployment", "--all", "--namespace", "flarelog", "--cascade=foreground"),  # they still drain
            ("namespace", "flarelog"),
            ("clusterrole,clusterrolebinding", "flarelog-agent"),
            ("persistentvolume", "store"),
            ("mutatingadmissionpolicy,mutatingadmissionpolicybinding", "network-of-the-node"),
            ("secret", "--all"),
        ):
            self.kubectl("delete", kinds, *names, *([] if "--all" in names else ["--ignore-not-found"]))

    def secrets(self) -> None:
        """The certificates of docs/kubernetes.md, each in its secret."""
        for command in (("init",), ("server", RECEIVER, "localhost"), ("site", SITE)):
            self.call("flarelog", "certs", *command)
        pairs = (("receiver", "server", "flarelog"), ("agent", SITE, "flarelog"), ("sidecar", SITE, "default"))
        for name, pair, namespace in pairs:
            files = {"ca.crt": "ca.crt", "tls.crt": f"{pair}.crt", "tls.key": f"{pair}.key"}
            given = [f"--from-file={key}=certs/{file}" for key, file in files.items()]
            self.kubectl("create", "secret", "generic", f"flarelog-{name}-tls", "--namespace", namespace, *given)


@contextlib.contextmanager
def workstation(cluster: Cluster, directory: Path) -> Iterator[Workstation]:
    """One whose cluster can run what ``deploy`` describes, once ``load_image`` gave it flarelog's image."""
    cluster.controllers.start()
    with open(cluster.directory / "hosts", "a") as hosts:
        hosts.write(f"\n{ADDRESS} {RECEIVER}\n")
    volume = cluster.directory / "volume"
    volume.mkdir(mode=0o700, exist_ok=True)
    os.chown(
        volume, USER, USER
    )  # a volume of a real cluster gets the pod's fsGroup; one that is a node's directory does not
    station = Workstation(cluster, directory)
    station.apply(*network_of_the_node(), persistent_volume(volume))
    over = threading.Event()

    def schedule() -> None:
        while not over.wait(0.3):
            with contextlib.suppress(OSError):  # the API server is being restarted
                cluster.schedule()

    scheduler = threading.Thread(target=schedule, daemon=True)
    scheduler.start()
    try:
        yield station
    finally:
        station.clear()
        shutil.rmtree(volume)
        over.set()
        scheduler.join()
        cluster.controllers.stop()


def network_of_the_node() -> list[Manifest]:
    """What gives the node's network to each new pod without it."""
    version, named = "admissionregistration.k8s.io/v1beta1", {"name": "network-of-the-node"}
    change = "Object{spec: Object.spec{hostNetwork: true}}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "asks-for-none", "expression": "!object.spec.?hostNetwork.orValue(false)"}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}],
    }
    binding = {"policyName": named["name"]}
    return [
        {"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": named, "spec": policy},
        {"apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": named, "spec": binding},
    ]


def persistent_volume(directory: Path) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "store"},
        "spec": {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(directory)},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}
                    ]
                }
            },
        },
    }
