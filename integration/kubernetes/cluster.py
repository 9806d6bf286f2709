"""A Kubernetes cluster of one node: etcd, API server, containerd and kubelet; no scheduler, controllers or CNI.

``Cluster`` starts them in namespaces of their own (``node``), below one directory. Pods use the node's network, which
is a loopback interface, and are bound to the node by their manifests (``pods``). ``logs`` is the node's
``/var/log/pods``. Outside, API server and kubelet have loopback ports; ``node.inside`` runs a program in its network.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from integration.harness.places import PATIENCE, until
from integration.kubernetes import images, parts
from tests.certificates import Authority

NODE = "node-1"
# The node's addresses, in its own network alone. The second is the API server's for pods, as the first of the services;
# at other ports than 443 it would need a proxy.
ADDRESS, SERVICE = "198.18.0.1", "10.0.0.1"
PORTS = {"api": 443, "kubelet": 10250}
PREFIX = "flarelog-kubernetes-"
INSIDE = Path(__file__).parent / "inside"  # programs that run in pods: the node has them in /run/inside
START = 120.0  # seconds, on a loaded machine: the API server takes 2 s on an idle one
CLUSTER_WIDE = ("Namespace", "Node", "ClusterRole", "ClusterRoleBinding", "PriorityClass")

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Endpoint:
    """An HTTPS server of the cluster, asked by one user."""

    address: str  # HOST:PORT
    ca: Path
    token: str = field(repr=False, default="")

    def connect(self, seconds: float = 60.0) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self.address, timeout=seconds, context=ssl.create_default_context(cafile=str(self.ca))
        )

    def open(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None,
        seconds: float = 60.0,
    ) -> http.client.HTTPResponse:  # fmt: skip
        """The answer, its body unread. *seconds* bounds each wait for bytes."""
        connection = self.connect(seconds)
        authorization = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection.request(method, path, body, {"Connection": "close", **authorization, **(headers or {})})
        return connection.getresponse()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        with self.open(method, path, body, headers) as answer:
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def get(self, path: str, **query: str | int | bool) -> Answer:
        asked = urlencode({name: str(value).lower() if value is True else value for name, value in query.items()})
        return self.ask("GET", f"{path}?{asked}" if asked else path)

    def as_user(self, token: str) -> Endpoint:
        return Endpoint(self.address, self.ca, token)


@dataclass(frozen=True)
class Part:
    """A program of the node. ``kubelet.restart()``: it is stopped, and started with what its files say now."""

    name: str
    node: Node
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        self.node.call("start", self.name, list(self.command), dict(self.env))

    def send(self, number: int) -> None:
        self.node.call("signal", self.name, number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.send(number)
        until(lambda: self.ended is not None, lambda: f"{self.name} ends", START)

    def restart(self, number: int = signal.SIGTERM) -> None:
        self.stop(number)
        self.start()

    @property
    def ended(self) -> int | None:
        """The exit code, or minus the signal's number; None while it runs."""
        result = self.node.call("ended", self.name)
        assert result is None or isinstance(result, int)
        return result

    @property
    def said(self) -> str:
        return (self.node.directory / f"{self.name}.out").read_text(errors="replace")


class Node:
    """The namespaces of a node below *directory*, and the process that holds them (``node.py``)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._groups = cgroups(directory.name)
        for group in self._groups:
            group.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, which no process can then join
                if (group / name).exists():
                    (group / name).write_bytes((group.parent / name).read_bytes())
        listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in PORTS}
        self.addresses = {name: "{}:{}".format(*listener.getsockname()) for name, listener in listeners.items()}
        relayed = [f"{listener.fileno()}:{PORTS[name]}" for name, listener in listeners.items()]
        self._process = subprocess.Popen(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--cgroup", "--mount-proc",
             sys.executable, str(Path(__file__).with_name("node.py")), str(directory), ADDRESS, SERVICE, *relayed],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=self._join,
            env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
            pass_fds=[listener.fileno() for listener in listeners.values()],
        )  # fmt: skip
        for listener in listeners.values():
            listener.close()
        self._answer()
        first = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()[0]
        self.inside = ("nsenter", "--target", first, "--net", "--")
        """The words before a command that make it use the node's network."""

    def _join(self) -> None:
        for group in self._groups:
            (group / "cgroup.procs").write_text("0")

    def call(self, name: str, *args: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": name, "with": args}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the node's first process ended with {self._process.wait()}"
        said = json.loads(line)
        assert "error" not in said, said
        return said["result"]

    def close(self) -> None:
        """End all processes of the node, at once."""
        with self._process:  # closes its pipes, and waits
            pass


def cgroups(name: str) -> list[Path]:
    """The directories of the cgroup *name* below this process's own, one of each hierarchy that is mounted."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, hierarchy, path = line.split(":", 2)
        mounted = Path("/sys/fs/cgroup") / (hierarchy.removeprefix("name=") or "unified")
        if (mounted / "cgroup.procs").exists():
            found.append(mounted / path.lstrip("/") / name)
    return found


def sweep(directory: Path) -> None:
    """Remove *directory* and the cgroups of a node that has ended."""
    for group in cgroups(directory.name):
        for path, _, _ in os.walk(group, topdown=False):
            # The kernel removes a process from its cgroup some time after it ended.
            until(lambda path=path: removed(Path(path)), f"{path} is empty")  # type: ignore[misc]
    shutil.rmtree(directory)


def removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def sweep_leftovers() -> None:
    """Remove what tests left that were killed; each living cluster has a lock."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), open(directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            sweep(directory)


class Cluster:
    """The node's parts, and what people do with a cluster: apply, delete, wait for a pod, read its log.

    *kubelet* adds to its configuration, and its feature gates are the API server's, too. A rotation comes every 3 s
    (the least that a kubelet takes) if the log has grown by 300 KiB.
    """

    def __init__(self, directory: Path, kubelet: Manifest | None = None) -> None:
        bin = parts.built()
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
        self._run("import", "ctr", "--namespace", "k8s.io", "images", "import", str(archive))
        self.kubelet.start()
        until(self.kubelet_is_ready, self.talk, START)

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

    def _run(self, name: str, *command: str) -> None:
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
        answer = self.api.ask("DELETE", path_of(manifest) + ("" if grace is None else f"?gracePeriodSeconds={grace}"))
        assert answer.status in (200, 202), answer.body.decode()

    def get(self, manifest: Manifest) -> Manifest | None:
        """The object as it is now; None if there is none."""
        answer = self.api.get(path_of(manifest))
        assert answer.status in (200, 404), answer.body.decode()
        return None if answer.status == 404 else answer.json()

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


def ready(endpoint: Endpoint, path: str) -> bool:
    try:
        return endpoint.get(path).status == 200
    except OSError:
        return False


def path_of(manifest: Manifest) -> str:
    """The path of the object in the API; a kind's plural is regular for what is used here."""
    version, kind, named = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    namespace = "" if kind in CLUSTER_WIDE else f"/namespaces/{named.get('namespace', 'default')}"
    plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
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
"""


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
        "featureGates": {},
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
