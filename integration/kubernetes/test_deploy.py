"""What ``deploy`` describes, on a real node: the image, the DaemonSet, the receiver, the sidecar, and their rights."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.harness.places import difference, until
from integration.kubernetes import containerfile, cri, helm
from integration.kubernetes.cluster import Cluster, Manifest
from integration.kubernetes.inside.write import line
from integration.kubernetes.pods import pod, writer
from integration.kubernetes.processes import START
from integration.kubernetes.workstation import RECEIVER as SERVICE
from integration.kubernetes.workstation import SITE, Workstation, workstation
from integration.nvflare.conftest import environment_of

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flarelog"}}
AGENT, RECEIVER = "app.kubernetes.io/component=agent", "app.kubernetes.io/component=receiver"


@pytest.fixture(scope="module")
def bare(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workstation]:
    if reason := helm.missing():
        pytest.skip(reason)
    with workstation(cluster, tmp_path_factory.mktemp("workstation")) as station:
        yield station


@pytest.fixture(scope="module")
def station(bare: Workstation) -> Workstation:
    """One whose cluster has what ``deploy/kustomize/base`` describes, ready. The image for it takes a minute to
    build: tests with it have the mark soak, which ``make kubernetes`` runs, and CI does not.
    """
    if reason := containerfile.missing():
        pytest.skip(reason)
    bare.load_image()
    bare.apply(NAMESPACE)
    bare.secrets()
    bare.kubectl("apply", "--kustomize", "deploy/kustomize/base")
    for name in ("statefulset/flarelog-receiver", "daemonset/flarelog-agent"):
        bare.kubectl("rollout", "status", name, "--namespace", "flarelog", "--timeout", f"{START:.0f}s")
    return bare


def ended(station: Workstation, one: Manifest) -> dict[str, Manifest]:
    """How the containers of *one* ended, by name, once all have."""
    name, namespace = one["metadata"]["name"], one["metadata"]["namespace"]

    def states() -> dict[str, Manifest]:
        (found,) = station.objects("pod", name, "--namespace", namespace)
        status = found["status"]
        all_of_it = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        ends = {each["name"]: each["state"].get("terminated") for each in all_of_it}
        return ends if all(ends.values()) else {}

    return until(states, lambda: f"{name} ends: {station.objects('pod', name, '--namespace', namespace)}", START)


def arrives(
    station: Workstation, log: str, wanted: bytes, written: Callable[[bytes], bytes] = cri.written
) -> dict[str, Any]:
    """Wait until *wanted* is stored, and nothing else; return the log's record. *written*: reads what is stored."""

    def lines() -> bytes:
        return written(whole(stored(station, log)))

    until(lambda: len(lines()) >= len(wanted), lambda: f"all lines are stored; {len(lines())} bytes are", START)
    assert lines() == wanted, difference(wanted, lines())
    record = station.streams("default")[f"{SITE}/{log}"]
    assert record["gaps"] == []
    return record


def of_the_api(found: bytes) -> bytes:
    """The lines without the times that the API gives them."""
    return b"".join(each.partition(b" ")[2] for each in found.splitlines(keepends=True))


def whole(records: bytes) -> bytes:
    """Without the record that is not stored to its end."""
    return records[: records.rfind(b"\n") + 1]


def stored(station: Workstation, log: str, run: str = "default") -> bytes:
    path = station.store / run / SITE / log
    return path.read_bytes() if path.exists() else b""


def log_of(one: Manifest, container: str = "main") -> str:
    named = one["metadata"]
    return f"{named['namespace']}/{named['name']}.{named['uid'][:8]}/{container}.log"


# --- the manifests


def test_the_chart_and_the_directories_of_kustomize_are_the_same() -> None:
    if reason := helm.missing():
        pytest.skip(reason)
    for name in helm.RENDERED:
        made = helm.KUSTOMIZE / name / "flarelog.yaml"
        assert made.read_text() == helm.kustomized(name), f"{made} is not what the chart makes: make deploy"


VALUES: list[dict[str, str]] = [
    {},
    {"tls.enabled": "false", "receiver.service.type": "LoadBalancer", "receiver.storage.className": "fast"},
    {"agent.source": "kubelet", "agent.site": "", "imagePullSecrets[0].name": "registry"},
    {"agent.source": "api", "agent.namespace": "default", "receiver.args": "{--keep-days=30}"},
    {"agent.metadata": "false", "receiver.enabled": "false", "receiver.address": "logs.example.org:443"},
]


def test_the_api_server_takes_every_manifest_and_knows_each_of_its_fields(bare: Workstation) -> None:
    bare.apply(NAMESPACE)
    strict = ("apply", "--dry-run=server", "--validate=strict")
    for values in VALUES:
        assert "created" in bare.kubectl(*strict, "--filename", "-", text=helm.rendered(**values))
    for name in ("base", "example", *helm.RENDERED):
        assert bare.kubectl(*strict, "--kustomize", f"deploy/kustomize/{name}")


def test_a_value_that_makes_no_sense_is_refused() -> None:
    if reason := helm.missing():
        pytest.skip(reason)
    with pytest.raises(AssertionError, match="give the name in the agent's certificate"):
        helm.rendered(**{"agent.source": "api", "agent.site": ""})
    for name, value in (("agent.sorce", "cri"), ("agent.source", "docker"), ("receiver.disruptions", "2"),
                        ("receiver.args", "{keep-days}"), ("receiver.enabled", "false"), ("agent.namespace", "default"),
                        ("receiver.address", ":4721"), ("agent.runFrom", "nonsense")):  # fmt: skip
        with pytest.raises(AssertionError, match=name.rpartition(".")[2].replace("enabled", "receiver.address")):
            helm.rendered(**{name: value})
    with pytest.raises(AssertionError, match="needs what the API knows"):
        helm.rendered(**{"agent.metadata": "false", "agent.runFrom": "job"})


def test_a_value_is_passed_on_whatever_its_characters_are() -> None:
    if reason := helm.missing():
        pytest.skip(reason)
    made = helm.rendered(**{"agent.runFrom": "path:a: b #/{run}", "agent.stateDirectory": "/var/lib/a: b"})
    assert '- "--run-from=path:a: b #/{run}"' in made
    assert 'hostPath: {path: "/var/lib/a: b", ' in made


# --- what runs


@pytest.mark.soak
def test_the_image_has_no_tools_and_its_programs_no_rights(station: Workstation) -> None:
    for selector, uid in ((AGENT, 0), (RECEIVER, 65532)):
        name = station.pod(selector)["metadata"]["name"]
        inside = ("exec", "--namespace", "flarelog", name, "--")
        assert station.kubectl(*inside, "flarelog", "--version").startswith("flarelog")
        assert station.kubectl(*inside, "sh", "-c", "command -v gcc cc make pip", check=False) == ""
        assert station.kubectl(*inside, "sh", "-c", "touch /here || touch /opt/flarelog/here", check=False) == ""
        status = station.kubectl(*inside, "cat", "/proc/1/status")
        said = dict(each.split(":\t", 1) for each in status.splitlines() if ":\t" in each)
        assert said["Uid"].split() == [str(uid)] * 4
        assert {said[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")} == {"0" * 16}
        assert (said["NoNewPrivs"], said["Seccomp"]) == ("1", "2")


@pytest.mark.soak
def test_the_probes_see_a_receiver_that_stands_still(station: Workstation) -> None:
    def ready() -> bool:
        (state,) = station.pod(RECEIVER)["status"]["containerStatuses"]
        assert state["restartCount"] == 0
        return bool(state["ready"])

    assert ready()
    (pid,) = processes("serve", str(65532))
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: not ready(), "it is not ready", START)
    finally:
        os.kill(pid, signal.SIGCONT)
    until(ready, "it is ready again", START)


def processes(command: str, uid: str) -> list[int]:
    """The processes of *uid* that are ``flarelog`` with *command*."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            owner = str(path.stat().st_uid)
        except OSError:
            continue
        if command.encode() in words and b"/opt/flarelog/bin/flarelog" in words and owner == uid:
            found.append(int(path.name))
    return found


@pytest.mark.soak
def test_a_deleted_agent_drains_and_the_next_one_loses_and_repeats_nothing(station: Workstation) -> None:
    cluster = station.cluster
    fast = cluster.apply(pod("fast-deploy", writer(300_000, rate=20_000)))
    cluster.reaches(fast, "Running")
    time.sleep(5)
    agent = station.pod(AGENT)
    station.delete_and_keep(agent)
    (end,) = ended(station, agent).values()
    station.let_go(agent)
    cluster.reaches(fast, "Succeeded")
    wanted = b"".join(line(number) for number in range(300_000))
    record = arrives(station, log_of(fast), wanted)
    assert len(record["generations"]) >= 4, "the kubelet rotates every 3 s"
    assert end["exitCode"] == 0, end
    assert station.pod(AGENT)["metadata"]["uid"] != agent["metadata"]["uid"]
    cluster.delete(fast, grace=0)


@pytest.mark.soak
def test_a_deleted_receiver_comes_back_with_its_volume_and_gets_the_lines_of_the_meantime(station: Workstation) -> None:
    cluster = station.cluster
    made = cluster.apply(pod("meantime", writer(40_000, rate=2_000)))
    cluster.reaches(made, "Running")
    until(lambda: len(stored(station, log_of(made))) > 100_000, "its first lines are stored", START)
    receiver = station.pod(RECEIVER)
    station.delete_and_keep(receiver)
    (end,) = ended(station, receiver).values()
    station.let_go(receiver)
    cluster.reaches(made, "Succeeded")
    arrives(station, log_of(made), b"".join(line(number) for number in range(40_000)))
    assert end["exitCode"] == 0, end
    assert station.pod(RECEIVER)["metadata"]["uid"] != receiver["metadata"]["uid"]
    cluster.delete(made, grace=0)


@pytest.mark.soak
def test_a_deleted_pod_with_a_sidecar_has_sent_everything_when_it_ends(station: Workstation) -> None:
    container = {
        "name": "train",
        "image": "flarelog:0.1.0",
        "command": ["flarelog", "run", "--spool=/var/log/train", "--", "python3", "/inside/write.py"],
        "args": ["--lines", "10000000", "--rate", "20000"],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [
            {"name": "flarelog-logs", "mountPath": "/var/log/train", "subPathExpr": "$(POD_NAME)"},
            {"name": "inside", "mountPath": "/inside", "readOnly": True},
        ],
    }
    volumes = [{"name": "flarelog-logs", "emptyDir": {}}, {"name": "inside", "hostPath": {"path": "/run/inside"}}]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "loaded", "labels": {"flarelog": "sidecar"}},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
                    "containers": [container],
                    "volumes": volumes,
                }
            },
        },
    }
    overlay = station.directory / "loaded"
    overlay.mkdir()
    (overlay / "job.yaml").write_text(json.dumps(job))
    (overlay / "kustomization.yaml").write_text(
        json.dumps({"resources": ["job.yaml"], "components": ["../deploy/kustomize/sidecar"]})
    )
    station.kubectl("apply", "--kustomize", "loaded")
    (one,) = station.cluster.pods("job-name=loaded", "Running", count=1)
    name = one["metadata"]["name"]
    log = f"{name}/stdout.log"
    until(lambda: len(stored(station, log, "loaded")) > 5_000_000, "its lines are stored live", START)
    station.delete_and_keep(one)
    ends = ended(station, one)
    found = stored(station, log, "loaded")
    count = found.count(b"\n") - 1
    wanted = b"".join(line(number) for number in range(count)) + b"ended after %d lines\n" % count
    assert found == wanted, difference(wanted, found)
    arrives(station, log_of(one, "train"), wanted)  # its stdout, which the node's agent sends
    station.let_go(one)
    assert {name: end["exitCode"] for name, end in ends.items()} == {"train": 0, "flarelog": 0}, ends
    assert ends["train"]["finishedAt"] <= ends["flarelog"]["finishedAt"]
    record: dict[str, Any] = station.streams("loaded")[f"{SITE}/{log}"]
    assert record["sealed"]
    assert [end["code"] for end in record["exits"]] == [0]
    station.kubectl("delete", "--kustomize", "loaded")


@pytest.mark.soak
def test_the_pod_that_nvflare_makes_with_the_pages_template_has_a_sidecar_that_sends_the_jobs_log(
    station: Workstation,
) -> None:
    """The job's container is not NVFlare, but writes as NVFlare does, below the workspace that NVFlare mounts."""
    python = environment_of() / "bin" / "python"
    if not python.exists():
        pytest.skip("NVFlare's environment is missing: make nvflare makes it")
    for name, file in (("rootCA.pem", "ca.crt"), ("client.crt", f"{SITE}.crt"), ("client.key", f"{SITE}.key")):
        (station.directory / name).write_bytes((station.directory / "certs" / file).read_bytes())
    files = [f"--from-file={name}" for name in ("rootCA.pem", "client.crt", "client.key")]
    station.kubectl("create", "secret", "generic", "kit", *files)
    asked = {
        "job": "job-1",
        "instead": {
            "REGISTRY/flarelog": "flarelog", "SERVER:4721": f"{SERVICE}:4721", "site-1": SITE,
        },
        "image": "flarelog:0.1.0",
        "command": "nvflare_job",
        "env": {"PYTHONPATH": "/inside"},
        "volume_list": [{"name": "inside", "hostPath": {"path": "/run/inside"}}],
        "volume_mount_list": [{"name": "inside", "mountPath": "/inside", "readOnly": True}],
    }  # fmt: skip
    made = station.call(str(python), "-m", "integration.nvflare.inside.pod_manifest", json.dumps(asked), tree=True)
    described = json.loads(made)
    (container,) = described["spec"]["containers"]
    container["imagePullPolicy"] = "IfNotPresent"  # NVFlare's Always would ask a registry
    (one,) = station.apply(described)
    station.cluster.reaches(one, "Succeeded", seconds=START)
    shown = station.kubectl("logs", one["metadata"]["name"], "--container", container["name"])
    assert stored(station, "log.txt", "job-1").decode() == shown
    assert shown.count("\n") == 2000
    record = station.streams("job-1")[f"{SITE}/log.txt"]
    assert record["sealed"]
    assert list(station.streams("job-1")) == [f"{SITE}/log.txt"], "nothing else of the workspace is sent"
    station.cluster.delete(one, grace=0)


# --- each source, with its rights


RIGHTS = {
    "agent-kubelet": {"list pods", "get nodes/log"},
    "agent-api": {"list pods", "get pods/log"},
    "agent-cri": {"list pods"},
}
ASKED = (
    "list pods", "get nodes/log", "get pods/log", "get nodes/proxy", "list secrets", "create pods", "delete pods",
    "create pods/exec", "list nodes", "update pods",
)  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("name", RIGHTS)
def test_an_agent_of_each_source_sends_a_pods_lines_with_the_rights_that_it_needs_and_no_others(
    station: Workstation, name: str
) -> None:
    agent = ("daemonset,deployment", "flarelog-agent", "--namespace", "flarelog", "--ignore-not-found")
    station.kubectl("delete", *agent)
    station.kubectl("apply", "--kustomize", f"deploy/kustomize/{name}")
    try:
        account = ("--as", "system:serviceaccount:flarelog:flarelog-agent")

        def may(asked: str) -> bool:
            verb, _, resource = asked.partition(" ")
            resource, _, subresource = resource.partition("/")
            words = ("auth", "can-i", verb, resource, "--subresource", subresource, "--all-namespaces", *account)
            return station.kubectl(*words, check=False).strip() == "yes"

        def rights() -> set[str]:
            return {asked for asked in ASKED if may(asked)}

        until(lambda: rights() == RIGHTS[name], lambda: f"its rights: {rights()}", START)
        made = station.cluster.apply(pod(f"by-{name}", writer(500, rate=500)))
        station.cluster.reaches(made, "Succeeded")
        wanted = b"".join(line(number) for number in range(500))
        written = of_the_api if name == "agent-api" else cri.written
        said = arrives(station, log_of(made), wanted, written)["attributes"]
        assert said
        assert said[-1]["k8s.pod.name"] == f"by-{name}"
        station.cluster.delete(made, grace=0)
    finally:
        station.kubectl("delete", *agent)
        station.kubectl("apply", "--kustomize", "deploy/kustomize/agent-cri")
