"""A Kubernetes cluster of one node: etcd, API server, containerd and kubelet; no scheduler, and no network for pods.

``Cluster`` starts them in namespaces of their own (``node``), below one directory. Pods use the node's network, which
is a loopback interface, and are bound to the node by their manifests (``pods``). ``logs`` is the node's
``/var/log/pods``. Outside, API server and kubelet have loopback ports; ``node.inside`` runs a program in its network.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from integration.harness.places import PATIENCE, until
from integration.kubernetes import images, parts
from integration.kubernetes.endpoints import Endpoint, ready
from integration.kubernetes.processes import ADDRESS, PORTS, PREFIX, SERVICE, START, Node, Part, sweep, sweep_leftovers
from tests.certificates import Authority

NODE = "node-1"
INSIDE = Path(__file__).parent / "inside"  # programs that run in pods: the node has them in /run/inside
CLUSTER_WIDE = (
    "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace", "Node", "PriorityClass"
)  # fmt: skip

Manifest = dict[str, Any]


class Cluster:
    """The node's parts, and what people do with a cluster: apply, delete, wait for a pod, read its log.

    *kubelet* adds to its configuration, and its feature gates are the API server's, too. A rotation comes every 3 s
    (the least that a kubelet takes) if the log has grown by 300 KiB.
    """

    def __init__(self, directory: Path, kubelet: Manifest | None = None) -> None:
        bin = parts.built(*parts.BUILT)
        self.directory = directory
        self.logs = directory / "log" / "pods"
        self.authority = Authority.new(directory / "certs")
        self._admin = os.urandom(16).hex()
        (directory / "tokens.csv").write_text(f'{self._admin},admin,admin,"system:masters"\n')
        ca = directory / "certs" / "ca.crt"
        self.node = Node(directory)
        self.api = Endpoint(self.node.addresses["api"], ca, self._admin)
        self.kubelet_server = Endpoint(self.node.addresses["kubelet"], ca, self._admin)
        self.configuration = configuration(directory) | (kubelet or {})
        self._write_files()
        self.etcd = self._part(
            "etcd", "etcd", "--data-dir", str(directory / "etcd"), "--logger", "zap", "--log-level", "warn"
        )  # fmt: skip
        self.api_server = self._part("kube-apiserver", str(bin / "kube-apiserver"), *self._api_flags())
        self.containerd = self._part("containerd", "containerd", "--config", str(directory / "containerd.toml"))
        self.kubelet = self._part(
            "kubelet", str(bin / "kubelet"), "--config", str(directory / "kubelet.json"), "--hostname-override", NODE,
            "--node-ip", ADDRESS, "--kubeconfig", str(directory / "kubelet-access.json"),
        )  # fmt: skip

    @functools.cached_property
    def controllers(self) -> Part:
        """Those of Jobs, DaemonSets, StatefulSets and the like, which a test starts that needs them."""
        certs = self.directory / "certs"
        return self._part(
            parts.CONTROLLERS, str(parts.built(parts.CONTROLLERS) / parts.CONTROLLERS), "--leader-elect=false",
            "--kubeconfig", str(self.directory / "kubelet-access.json"), "--root-ca-file", str(self.api.ca),
            "--service-account-private-key-file", str(certs / "accounts.key"), "--bind-address", "127.0.0.1",
        )  # fmt: skip

    def _part(self, name: str, *command: str) -> Part:
        return Part(name, self.node, command)

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.etcd, self.api_server, self.containerd, self.kubelet

    # --- files

    def _write_files(self) -> None:
        self.renew_certificates()
        self.authority.issue("accounts")
        (self.directory / "static").mkdir()
        shutil.copytree(INSIDE, self.directory / "run" / "inside")
        (self.directory / "containerd.toml").write_text(CONTAINERD)
        (self.directory / "run" / "cni").mkdir()
        (self.directory / "run" / "cni" / "none.conflist").write_text(json.dumps(CNI))
        self.configure()
        for name, server in (("kubelet-access", f"{ADDRESS}:{PORTS['api']}"), ("kubeconfig", self.api.address)):
            cluster = {"server": f"https://{server}", "certificate-authority": str(self.api.ca)}
            described = {
                "apiVersion": "v1", "kind": "Config", "current-context": "test",
                "users": [{"name": "admin", "user": {"token": self._admin}}],
                "clusters": [{"name": "test", "cluster": cluster}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            }  # fmt: skip
            (self.directory / f"{name}.json").write_text(json.dumps(described))

    def configure(self, **changes: Any) -> None:
        """Write the kubelet's configuration with *changes*, which its next start reads."""
        self.configuration |= changes
        (self.directory / "kubelet.json").write_text(json.dumps(self.configuration))

    def renew_certificates(self) -> None:
        """New certificates for kubelet and API server, by the same CA, which they read at their next start."""
        for name in ("kubelet", "kube-apiserver"):
            self.authority.issue(name, hosts=("127.0.0.1", ADDRESS, SERVICE, NODE, "kubernetes.default.svc"))

    @contextlib.contextmanager
    def another_authority(self) -> Iterator[Path]:
        """Meanwhile the kubelet's certificate, which its next start reads, is by another CA, with this file."""
        other = Authority.new(Path(tempfile.mkdtemp(dir=self.directory)))
        made = other.issue("kubelet", hosts=("127.0.0.1", ADDRESS, NODE))
        try:
            for path in (made.cert, made.key):
                shutil.copy(path, self.directory / "certs")
            yield Path(made.ca)
        finally:
            self.renew_certificates()

    def _api_flags(self) -> list[str]:
        certs = self.directory / "certs"
        flags = {
            "etcd-servers": "http://127.0.0.1:2379",
            "advertise-address": ADDRESS,
            "secure-port": PORTS["api"],
            "cert-dir": certs,
            "tls-cert-file": certs / "kube-apiserver.crt",
            "tls-private-key-file": certs / "kube-apiserver.key",
            "token-auth-file": self.directory / "tokens.csv",
            "authorization-mode": "RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": certs / "accounts.crt",
            "service-account-signing-key-file": certs / "accounts.key",
            "service-cluster-ip-range": "10.0.0.0/24",
            "endpoint-reconciler-type": "none",
            "runtime-config": "admissionregistration.k8s.io/v1beta1=true",  # of MutatingAdmissionPolicy
            "kubelet-preferred-address-types": "InternalIP",
            "kubelet-certificate-authority": certs / "ca.crt",
            "kubelet-client-certificate": certs / "kube-apiserver.crt",
            "kubelet-client-key": certs / "kube-apiserver.key",
            "feature-gates": ",".join(f"{gate}={on}" for gate, on in self.configuration["featureGates"].items()),
        }
        return [f"--{name}={value}" for name, value in flags.items()]

    # --- start and end

    def start(self) -> None:
        archive = images.archive(self.directory / "images.tar")
        for part in (self.etcd, self.api_server, self.containerd):
            part.start()
        until(self.api_is_ready, self.talk, START)
        self._apply_basics()
        self.load(archive)
        self.kubelet.start()
        until(self.kubelet_is_ready, self.talk, START)

    def load(self, archive: Path) -> None:
        """Import the images in the tar file *archive*, so that pods can use them."""
        self.run(f"import-{archive.stem}", "ctr", "--namespace", "k8s.io", "images", "import", str(archive))

    def tag(self, image: str, name: str) -> None:
        """Let pods use *image* under another *name* as well."""
        self.run("tag", "ctr", "--namespace", "k8s.io", "images", "tag", "--force", image, name)

    def api_is_ready(self) -> bool:
        self._alive()
        return ready(self.api, "/readyz")

    def kubelet_is_ready(self) -> bool:
        self._alive()
        return self.api.get(f"/api/v1/nodes/{NODE}").status == 200 and ready(self.kubelet_server, "/healthz")

    def _alive(self) -> None:
        for part in self.parts:
            with contextlib.suppress(AssertionError):  # not started yet
                assert part.ended is None, f"{part.name} ended:\n{part.said[-5000:]}"

    def run(self, name: str, *command: str) -> None:
        """Run a command that ends by itself; containerd may not be ready for the first try."""

        def succeeds() -> bool:
            part = self._part(name, *command)
            part.start()
            return until(lambda: part.ended is not None, lambda: f"{name} ends", START) and part.ended == 0

        until(succeeds, lambda: (self.directory / f"{name}.out").read_text(), START)

    def _apply_basics(self) -> None:
        """What controllers would make: the account of pods in ``default``; and the API server's right to ask the
        kubelet.
        """
        self.add_namespace("default")
        self.bind("kube-apiserver", "system:kubelet-api-admin", {"kind": "User", "name": "kube-apiserver"})

    def talk(self) -> str:
        outputs = sorted(self.directory.glob("*.out"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}" for path in outputs)

    # --- objects

    def apply(self, manifest: Manifest) -> Manifest:
        """Create the object, or change it to what *manifest* says."""
        path = f"{path_of(manifest)}?fieldManager=tests&force=true"
        answer = self.api.ask("PATCH", path, json.dumps(manifest).encode(), {"Content-Type": APPLY})
        assert answer.status in (200, 201), answer.body.decode()
        result: Manifest = answer.json()
        return result

    def delete(self, manifest: Manifest, grace: int | None = None) -> None:
        """As ``kubectl delete --wait=false``. *grace*: seconds until the containers are killed; None: the pod's own."""
        query = "propagationPolicy=Background" + ("" if grace is None else f"&gracePeriodSeconds={grace}")
        answer = self.api.ask("DELETE", f"{path_of(manifest)}?{query}")
        assert answer.status in (200, 202), answer.body.decode()

    def get(self, manifest: Manifest) -> Manifest | None:
        """The object as it is now; None if there is none."""
        answer = self.api.get(path_of(manifest))
        assert answer.status in (200, 404), answer.body.decode()
        return None if answer.status == 404 else answer.json()

    def schedule(self) -> None:
        """Bind all pods without a node to this one."""
        for pod in self.api.get("/api/v1/pods", fieldSelector="spec.nodeName=").json()["items"]:
            named = pod["metadata"]
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": named["name"]},
                "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
            }
            path = f"/api/v1/namespaces/{named['namespace']}/pods/{named['name']}/binding"
            self.api.ask("POST", path, json.dumps(binding).encode(), {"Content-Type": "application/json"})

    def pods(self, selector: str, *phases: str, count: int) -> list[Manifest]:
        """Wait until *count* pods with the labels of *selector* are in one of *phases*; return them."""

        def found() -> list[Manifest]:
            self.schedule()
            listed = self.api.get("/api/v1/pods", labelSelector=selector).json()["items"]
            ready = [pod for pod in listed if pod["status"].get("phase") in phases]
            return ready if len(ready) == count else []

        return until(found, lambda: f"{count} pods {selector}: {self.talk()}", START)

    def gone(self, manifest: Manifest) -> None:
        until(lambda: self.get(manifest) is None, lambda: f"{path_of(manifest)} is gone:\n{self.talk()}", START)

    def reaches(self, pod: Manifest, *phases: str, seconds: float = START) -> Manifest:
        """Wait until *pod* is in one of *phases*; return it."""

        def reached() -> Manifest:
            found = self.get(pod) or {}
            return found if found.get("status", {}).get("phase") in phases else {}

        return until(reached, lambda: f"{phases}: {json.dumps(self.get(pod), indent=1)}", seconds)

    def restarts(self, pod: Manifest, count: int) -> Manifest:
        """Wait until the first container of *pod* was restarted *count* times; return the pod."""

        def restarted() -> Manifest:
            found = self.get(pod) or {}
            states = found.get("status", {}).get("containerStatuses", [])
            return found if states and states[0]["restartCount"] >= count else {}

        return until(restarted, lambda: f"{count} restarts: {json.dumps(self.get(pod), indent=1)}", START)

    # --- rights

    def add_namespace(self, name: str) -> None:
        """With what its controllers would add: the account ``default``, and the CA's certificate for pods."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}})
        self.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "kube-root-ca.crt", "namespace": name},
                "data": {"ca.crt": self.api.ca.read_text()},
            }
        )

    def account(self, name: str, *rules: Manifest, namespace: str = "default") -> str:
        """A token of a service account with these RBAC rules, in all namespaces."""
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
        self.apply({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)})
        self.bind(name, name, subject)
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.api.ask("POST", path, json.dumps(asked).encode(), {"Content-Type": "application/json"})
        assert answer.status == 201, answer.body.decode()
        return str(answer.json()["status"]["token"])

    def bind(self, name: str, role: str, subject: Manifest) -> None:
        self.apply(
            {
                "apiVersion": RBAC,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [subject],
            }
        )

    # --- logs

    def log_directory(self, pod: Manifest, container: str = "main") -> Path:
        """The directory of a container's files. *pod* is as the API gave it, with its UID."""
        named = pod["metadata"]
        return self.logs / f"{named['namespace']}_{named['name']}_{named['uid']}" / container


def path_of(manifest: Manifest) -> str:
    """The path of the object in the API; a kind's plural is regular for what is used here."""
    version, kind, named = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    namespace = "" if kind in CLUSTER_WIDE else f"/namespaces/{named.get('namespace', 'default')}"
    plural = f"{kind.lower().removesuffix('y')}ies" if kind.endswith("y") else f"{kind.lower()}s"
    return f"{root}{namespace}/{plural}/{quote(named['name'])}"


APPLY = "application/apply-patch+yaml"  # takes JSON, too
RBAC = "rbac.authorization.k8s.io/v1"

CONTAINERD = f"""\
version = 2
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true  # root without CAP_SYS_RESOURCE cannot lower it, as a pause container asks
[plugins."io.containerd.grpc.v1.cri".cni]
  conf_dir = "/run/cni"
"""
# Without a network for pods the node would not be Ready, and controllers would remove its pods; none of them uses it.
CNI = {"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "loopback"}]}


def configuration(directory: Path) -> Manifest:
    """The kubelet's configuration; it leaves the host's settings, cgroups and packet filter alone."""
    certs = directory / "certs"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "healthzPort": 0,
        "tlsCertFile": str(certs / "kubelet.crt"),
        "tlsPrivateKeyFile": str(certs / "kubelet.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True, "cacheTTL": "1s"},
            "x509": {"clientCAFile": str(certs / "ca.crt")},
        },
        "authorization": {"mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "1s", "cacheUnauthorizedTTL": "1s"}},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "containerLogMaxSize": "300Ki",
        "containerLogMaxFiles": 3,
        "containerLogMonitorInterval": "3s",
        "featureGates": {"MutatingAdmissionPolicy": True},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        "staticPodPath": str(directory / "static"),
        "volumePluginDir": str(directory / "plugins"),
        "failCgroupV1": False,
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "cgroupDriver": "cgroupfs",
        "makeIPTablesUtilChains": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "1Mi"},
        "syncFrequency": "5s",
    }


@contextlib.contextmanager
def new_cluster(kubelet: Manifest | None = None) -> Iterator[Cluster]:
    """A cluster that is ready, and removed at the end."""
    sweep_leftovers()
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    directory.chmod(0o755)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = Cluster(directory, kubelet)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.node.close()
            sweep(directory)


if __name__ == "__main__":
    with new_cluster() as cluster:
        print(f"{cluster.directory}: KUBECONFIG={cluster.directory}/kubeconfig.json; Ctrl-C ends it")
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(PATIENCE)
