"""Record what a real node writes and answers, for tests that have no node: ``python -m integration.kubernetes.record``.

It replaces ``tests/data/kubernetes``; README.md there explains the files. Answers are as they were on the wire. The
programs' versions, all names and times are those of the run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integration.harness.places import until
from integration.kubernetes import parts
from integration.kubernetes.cluster import NODE, Cluster, Manifest, new_cluster
from integration.kubernetes.endpoints import Endpoint
from integration.kubernetes.pods import PYTHON, container, pod, shell, writer
from integration.kubernetes.processes import START

TARGET = Path(__file__).parent.parent.parent / "tests" / "data" / "kubernetes"
MIB = 1 << 20

# Every second line comes in two halves, so that a rotation may fall between them: the first is then a record P.
TALK = r"""
import os, time
odd = (b"", b"\xff\xfe no text", b"10%\r20%\r100%", "\u2028 \U0001f600 caf\u00e9".encode(), b"{\"json\": 1}",
       b"two  spaces ", b"\x1b[31mred\x1b[0m", b" P stdout F looks like a record")
os.write(1, b"y" * 40000 + b"\n")
for n in range(100000):
    os.write(1, b"%06d " % n); time.sleep(0.03)
    os.write(1, odd[n % len(odd)] + b"\n")
    os.write(2, b"%06d to stderr\n" % n); time.sleep(0.03)
"""
# A child that the kernel kills, and a parent that ends well: what the kubelet reports is then not true.
CHILD = f"{PYTHON} -c 'bytearray(200 << 20)'; echo child ended with $?; exit 0"


class Recording:
    """Files below *target*, and a list of the answers with their requests."""

    def __init__(self, target: Path, cluster: Cluster) -> None:
        self.target, self.cluster = target, cluster
        self._answers: list[dict[str, Any]] = []

    def keep(self, name: str, data: bytes) -> None:
        path = self.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def status(self, name: str, pod: Manifest) -> None:
        self.keep(f"pods/{name}.json", json.dumps(pod).encode() + b"\n")

    def answer(
        self, name: str, of: str, path: str, *, method: str = "GET", token: str | None = None, seconds: float = 0.0,
        **headers: str,
    ) -> None:  # fmt: skip
        """Ask *of* (kubelet or api) for *path*, and keep the answer's bytes; *seconds*: those of that time."""
        endpoint = self.cluster.kubelet_server if of == "kubelet" else self.cluster.api
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.keep(f"answers/{name}.http", exchange(endpoint, method, path, named, token, seconds))
        self._answers.append({"file": f"{name}.http", "of": of, "method": method, "path": path, "headers": named})

    def close(self) -> None:
        self.keep("answers/index.json", json.dumps(self._answers, indent=1).encode() + b"\n")


def exchange(
    endpoint: Endpoint, method: str, path: str, headers: dict[str, str], token: str | None, seconds: float
) -> bytes:
    """The bytes of an answer, up to the connection's end or for *seconds*."""
    host, _, port = endpoint.address.rpartition(":")
    bearer = endpoint.token if token is None else token
    all_headers = {"Host": "node", "Connection": "close", **headers}
    if bearer:
        all_headers["Authorization"] = f"Bearer {bearer}"
    head = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    context = ssl.create_default_context(cafile=str(endpoint.ca))
    pieces = []
    with (
        socket.create_connection((host, int(port)), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode())
        deadline = time.monotonic() + (seconds or 60)
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            try:
                piece = connection.recv(65536)
            except TimeoutError:
                break
            if not piece:
                break
            pieces.append(piece)
    return b"".join(pieces)


def record(cluster: Cluster, target: Path) -> None:
    recording = Recording(target, cluster)
    version = cluster.api.get("/version").json()["gitVersion"]
    (target / "VERSION").write_text(f"{version}\n")
    record_talker(cluster, recording)
    since = cluster.api.get("/api/v1/pods").json()["metadata"]["resourceVersion"]
    of_one = "watch=true&fieldSelector=metadata.name%3Dattempts&allowWatchBookmarks=true&timeoutSeconds=75"
    life = threading.Thread(  # long enough for a bookmark, which comes each minute
        target=recording.answer,
        args=("watch-life", "api", f"/api/v1/pods?{of_one}&resourceVersion={since}"),
        kwargs={"seconds": 90},
    )
    life.start()
    record_attempts(cluster, recording)
    record_ends(cluster, recording)
    record_owned(cluster, recording)
    life.join()
    record_watches(cluster, recording)
    recording.close()


def record_talker(cluster: Cluster, recording: Recording) -> None:
    """Files with rotated and compressed siblings, and the kubelet's and the API's answers about them."""
    talker = cluster.apply(pod("talker.0", container([PYTHON, "-c", TALK]), labels={"job-name": "talk"}))
    directory = cluster.log_directory(talker)

    def whole() -> bool:
        names = [path.name for path in directory.iterdir()]
        older = [path for path in directory.glob("0.log.*") if path.suffix != ".gz"]
        cut = older and b" P " in older[0].read_bytes()[-120:]
        return bool(cut and any(name.endswith(".gz") for name in names) and not any(".tmp" in name for name in names))

    until(whole, "a rotation cuts a line", 240)
    cluster.kubelet.send(19)  # SIGSTOP: no rotation while the files are read
    shutil.copytree(directory, recording.target / "files" / directory.relative_to(cluster.logs))
    cluster.kubelet.send(18)
    node_log = cluster.account("reads-node-logs", {"apiGroups": [""], "resources": ["nodes/log"], "verbs": ["get"]})
    nobody = cluster.account("reads-nothing")
    reader = cluster.kubelet_server.as_user(node_log)
    until(lambda: reader.get("/logs/").status == 200, "the account has its right")
    logs = f"/logs/pods/{directory.relative_to(cluster.logs)}"
    rotated = next(path.name for path in sorted(directory.glob("0.log.*")) if path.suffix == ".gz")
    ask: Callable[..., None] = recording.answer
    ask("kubelet-root", "kubelet", "/logs/", token=node_log)
    ask("kubelet-pods", "kubelet", "/logs/pods/", token=node_log)
    ask("kubelet-listing", "kubelet", f"{logs}/", token=node_log)
    ask("kubelet-no-slash", "kubelet", logs, token=node_log)
    ask("kubelet-range", "kubelet", f"{logs}/0.log", token=node_log, Range="bytes=0-255")
    ask("kubelet-range-from", "kubelet", f"{logs}/0.log", token=node_log, Range="bytes=100-")
    ask("kubelet-range-past-end", "kubelet", f"{logs}/0.log", token=node_log, Range="bytes=1000000-")
    ask("kubelet-range-gzip", "kubelet", f"{logs}/{rotated}", token=node_log, Range="bytes=0-99")
    ask("kubelet-accepts-gzip", "kubelet", f"{logs}/0.log", token=node_log, Accept_Encoding="gzip", Range="bytes=0-99")
    ask("kubelet-head", "kubelet", f"{logs}/0.log", token=node_log, method="HEAD")
    ask("kubelet-head-of-admin", "kubelet", f"{logs}/0.log", method="HEAD")
    ask("kubelet-missing", "kubelet", f"{logs}/9.log", token=node_log)
    ask("kubelet-401", "kubelet", f"{logs}/0.log", token="wrong")
    ask("kubelet-403", "kubelet", f"{logs}/0.log", token=nobody)
    proxied = f"/api/v1/nodes/{NODE}/proxy{logs}"
    ask("proxy-listing", "api", f"{proxied}/")
    ask("proxy-range", "api", f"{proxied}/0.log", Range="bytes=0-255")
    ask("proxy-403", "api", f"{proxied}/0.log", token=node_log)
    ask("api-401", "api", "/api/v1/pods", token="wrong")
    ask("api-403", "api", "/api/v1/pods", token=nobody)
    log = f"/api/v1/namespaces/default/pods/{talker['metadata']['name']}/log"
    ask("log-stamps", "api", f"{log}?timestamps=true&tailLines=20")
    ask("log-limited", "api", f"{log}?timestamps=true&limitBytes=1000")
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 2))
    ask("log-since", "api", f"{log}?timestamps=true&sinceTime={since}")
    ask("log-follow", "api", f"{log}?timestamps=true&follow=true&tailLines=2", seconds=2)
    ask("log-stderr", "api", f"{log}?timestamps=true&stream=Stderr")
    ask("log-no-container", "api", f"{log}?container=none")
    ask("log-no-pod", "api", "/api/v1/namespaces/default/pods/none/log")
    ask("log-no-previous", "api", f"{log}?previous=true")
    cluster.delete(talker, grace=0)
    cluster.gone(talker)


def record_attempts(cluster: Cluster, recording: Recording) -> None:
    """A crash loop: the files of its attempts, the API's answers, and its states."""
    attempts = cluster.apply(pod("attempts", writer(10, rate=20, exit=3), restart="Always"))
    cluster.restarts(attempts, 3)
    recording.status("attempts", cluster.get(attempts) or {})
    directory = cluster.log_directory(attempts)
    shutil.copytree(directory, recording.target / "files" / directory.relative_to(cluster.logs))
    log = "/api/v1/namespaces/default/pods/attempts/log?timestamps=true"
    recording.answer("list-pods", "api", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}")
    recording.answer("log-attempts", "api", log)
    recording.answer("log-attempts-previous", "api", f"{log}&previous=true")
    cluster.delete(attempts)
    cluster.gone(attempts)


def record_ends(cluster: Cluster, recording: Recording) -> None:
    """The status of pods that ended in each way."""
    limited: Manifest = {"resources": {"limits": {"memory": "48Mi"}}}
    cached: Manifest = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    cache = {"name": "cache", "emptyDir": {"sizeLimit": "1Mi"}}
    segfault = "import ctypes; ctypes.string_at(0)"
    ends = {
        "succeeded": pod("succeeded", shell("echo done")),
        "failed": pod("failed", shell("echo failed; exit 3")),
        "segfault": pod("segfault", container([PYTHON, "-c", segfault])),
        "oom": pod("oom", container([PYTHON, "-c", "bytearray(200 << 20)"], **limited)),
        "oom-of-a-child": pod("oom-of-a-child", shell(CHILD, **limited)),
        "no-command": pod("no-command", container(["/bin/none"])),
        "evicted": pod(
            "evicted", shell("echo here; head -c 3000000 /dev/zero >/cache/file; sleep 1000", **cached), volumes=[cache]
        ),
        "deadline": pod("deadline", shell("sleep 1000"), activeDeadlineSeconds=3),
    }
    for name, manifest in ends.items():
        made = cluster.apply(manifest)
        recording.status(name, cluster.reaches(made, "Succeeded", "Failed"))
        cluster.delete(made, grace=0)
    busy: Manifest = {"resources": {"requests": {"cpu": "1500m"}}}
    preempted = cluster.apply(pod("preempted", shell("echo here; sleep 1000", **busy)))
    cluster.reaches(preempted, "Running")
    critical = pod("critical", shell("sleep 1000", **busy), priorityClassName="system-node-critical")
    cluster.apply(critical)
    recording.status("preempted", cluster.reaches(preempted, "Failed"))
    recording.status("no-room", cluster.reaches(cluster.apply(pod("no-room", shell("true", **busy))), "Failed"))
    for name in ("preempted", "critical", "no-room"):
        cluster.delete(pod(name), grace=0)
    waiting = cluster.apply(pod("no-image", {**shell("true"), "image": "flarelog.test/none:1"}))
    until(lambda: waits(cluster.get(waiting)), "its image is missing")
    recording.status("no-image", cluster.get(waiting) or {})
    cluster.delete(waiting, grace=0)


def record_owned(cluster: Cluster, recording: Recording) -> None:
    """Pods that somebody else made: a worker of an indexed Job, and a static pod, whose files have another UID."""
    cluster.controllers.start()
    worker = pod("", shell("echo worker $JOB_COMPLETION_INDEX"))["spec"]
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": {"spec": worker}}
    metadata = {"name": "train", "namespace": "default"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    cluster.apply(job)
    workers = cluster.pods("batch.kubernetes.io/job-completion-index=1", "Succeeded", count=1)
    recording.status("job-worker", workers[0])
    cluster.delete(job)
    cluster.controllers.stop()
    made = pod("static.pod", shell("echo static; sleep 1000"))
    (cluster.directory / "static" / "pod.json").write_text(json.dumps(made))
    mirror = pod(f"static.pod-{NODE}")
    until(
        lambda: (found := cluster.get(mirror)) and found["status"].get("phase") == "Running",
        "the static pod runs",
        START,
    )
    found = cluster.get(mirror) or {}
    recording.status("static", found)
    for directory in cluster.logs.glob("default_static.pod*"):
        shutil.copytree(directory, recording.target / "files" / directory.name)


def waits(pod: Manifest | None) -> bool:
    states = (pod or {})["status"].get("containerStatuses", [])
    return bool(states) and states[0]["state"].get("waiting", {}).get("reason", "").startswith("ErrImage")


def record_watches(cluster: Cluster, recording: Recording) -> None:
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    recording.answer("watch-list-refused", "api", f"/api/v1/pods?watch=true&{initial}&timeoutSeconds=2")
    # A new API server has no events from before its start.
    cluster.api_server.restart()
    until(cluster.api_is_ready, cluster.talk, START)
    recording.answer("watch-410", "api", "/api/v1/pods?watch=true&resourceVersion=1&timeoutSeconds=5")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--into", type=Path, default=TARGET)
    options = parser.parse_args()
    if reason := parts.missing():
        raise SystemExit(reason)
    changes = {
        "containerLogMaxSize": "2Ki",
        "containerLogMaxFiles": 4,  # two of the rotated ones are compressed
        "featureGates": {"PodLogsQuerySplitStreams": True},  # stream=Stderr, which is off in v1.35
    }
    with new_cluster(changes) as cluster:
        kept = options.into / "README.md"
        explained = kept.read_bytes() if kept.exists() else b""
        shutil.rmtree(options.into, ignore_errors=True)
        options.into.mkdir(parents=True)
        if explained:
            kept.write_bytes(explained)
        record(cluster, options.into)
    size = sum(path.stat().st_size for path in options.into.rglob("*") if path.is_file())
    print(f"{options.into}: {size:,} bytes")


if __name__ == "__main__":
    main()
