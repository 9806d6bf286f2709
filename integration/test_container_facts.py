"""What the Kubernetes API says of pods, whenever it says it, and what becomes of pods that it does not know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.harness.places import SITE, Place, Program, Receiver, until
from integration.harness.pods_api import PodsApi, pods_api
from tests.sources.containers.node import Pod

LINE = b"2026-11-28T10:00:00.1Z stdout F step 1\n"


def agent(place: Place, receiver: Receiver, api: PodsApi, *args: str) -> Program:
    where = ("--receiver", receiver.address, "--site", SITE, "--root", str(place.root))
    return place.start("agent", "--source", "cri", *where, *api.options, *args)


def a_pod(root: Path, number: int) -> Pod:
    root.mkdir(exist_ok=True)
    pod = Pod(root, name=f"j-{number}", uid=f"{number:08x}-0d43-4c8e-9a6f-1e2d3c4b5a69")
    pod.write(LINE)
    return pod


def exits(place: Place, receiver: Receiver) -> dict[str, list[int]]:
    """The exit codes in each log, by its pod."""
    listed = place.call("streams", "-o", "json", "--receiver", receiver.address)
    listed.ends()
    found = [json.loads(line) for line in listed.printed.splitlines()]
    return {one["log"].split("/")[1].split(".")[0]: [each["code"] for each in one["exits"]] for one in found}


def test_an_end_is_recorded_though_the_log_was_sealed_long_before(place: Place) -> None:
    receiver = place.serve()
    pods = [a_pod(place.root, number) for number in range(2)]
    with pods_api(place.directory / "api") as api:
        for pod in pods:
            api.says(pod)
        program = agent(place, receiver, api, "--idle", "1")
        until(lambda: program.said.count("sealed at offset") == 2, program.talk)
        api.ends(pods[0], 137, reason="OOMKilled")
        until(lambda: exits(place, receiver) == {"j-0": [137], "j-1": []}, program.talk)
        assert program.stop() == 0, program.talk()
        api.ends(pods[1], 3)  # while no agent runs
        program = agent(place, receiver, api, "--idle", "1")
        until(lambda: exits(place, receiver) == {"j-0": [137], "j-1": [3]}, program.talk)
        assert program.stop() == 0, program.talk()
    assert all(one["sealed"] for one in receiver.streams("ns").values())
    shown = place.call("status", "ns", "--receiver", receiver.address)
    shown.ends()
    assert "1 failed" in shown.printed, shown.talk()
    assert place.call("verify", "ns", "--store", str(receiver.store), "--source", str(place.root)).ends() == 0


@pytest.mark.parametrize("by", [(), ("--run-from", "job")], ids=["by-name", "by-job"])
def test_once_waits_for_what_the_api_says_of_pods_and_of_their_ends(place: Place, by: tuple[str, ...]) -> None:
    receiver = place.serve()
    pods = [a_pod(place.root, number) for number in range(5)]
    with pods_api(place.directory / "api") as api:
        for pod in pods:
            api.ends(pod, 7, labels={"job-name": "j"})
        program = agent(place, receiver, api, "--once", *by)
        assert program.ends() == 0, program.talk()
    assert exits(place, receiver) == {pod.name: [7] for pod in pods}
    shown = place.call("logs", "job/j", "--notes", "off", "--receiver", receiver.address)
    assert (shown.ends(), len(shown.printed.splitlines())) == (0, 5), shown.talk()


def test_logs_of_pods_that_the_api_has_not_named_wait_and_are_counted(place: Place) -> None:
    receiver = place.serve()
    named, unnamed = (a_pod(place.root, number) for number in range(2))
    sentence = f"1 log was not sent, {unnamed.log}: the Kubernetes API, which --run-from 'job' asks, has not named its"
    with pods_api(place.directory / "api") as api:
        api.says(named, labels={"job-name": "j"})
        program = agent(place, receiver, api, "--once", "--run-from", "job")
        assert program.ends() == 3, program.talk()
        assert sentence in program.said
        receiver.holds(bytes(named.written), named.log, run="j")
        api.refuse(403)
        program = agent(place, receiver, api, "--run-from", "job")
        program.says("403")
        assert "logs wait until it names their pods" in program.said
        assert program.stop() == 3, program.talk()
        assert f"2 logs were not sent, such as {named.log}" in program.said


@pytest.mark.parametrize("source", ["files", "cri", "kubelet", "api"])
def test_a_state_directory_is_made_or_one_sentence_says_why_not(place: Place, source: str) -> None:
    receiver = place.serve()
    pod = a_pod(place.root, 0)
    where = ("--receiver", receiver.address, "--site", SITE, "--source", source)
    with pods_api(place.directory / "api") as api:
        given = {"files": (), "cri": api.options}.get(source, (*api.options, "--node", "site-1"))
        rooted = ("--root", str(place.root)) if source in ("files", "cri") else ()
        bad = place.start("agent", *where, *given, *rooted, "--state", "/proc/flarelog/state")
        assert bad.ends() == 5, bad.talk()
        said = "flarelog: the state directory /proc/flarelog/state cannot be created: No such file or directory"
        assert bad.said.strip() == said
        state = place.directory / "missing" / "state"
        api.says(pod)
        good = place.start("agent", *where, *given, *rooted, "--state", str(state))
        until(state.is_dir, good.talk)
        good.heeds_signals()
        good.stop()
        assert "Traceback" not in good.talk()
        unusable = place.start("agent", *where, *given, *rooted, "--state", "/proc", "--once")
        copies = source in ("kubelet", "api")
        assert unusable.ends() == 5 * copies, unusable.talk()
        assert ("flarelog: copies of logs cannot be kept in /proc" in unusable.said) is copies


def test_an_evicted_pod_whose_container_the_kubelet_lost_is_shown_with_the_others(place: Place) -> None:
    receiver = place.serve()
    pod = a_pod(place.root, 0)
    ended = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    status = {"name": pod.container, "restartCount": 0, "state": {"terminated": ended}}
    with pods_api(place.directory / "api") as api:
        api.says(pod, phase="Failed", reason="Evicted", containerStatuses=[status])
        for _ in range(2):
            assert agent(place, receiver, api, "--once").ends() == 0
    assert exits(place, receiver) == {"j-0": [137]}
    for command in ("status", "logs"):
        shown = place.call(command, "ns", "--receiver", receiver.address)
        shown.ends()
        assert "Kubernetes ended the pod: Evicted, ContainerStatusUnknown" in shown.talk()
        assert command == "logs" or "1 failed" in shown.printed
