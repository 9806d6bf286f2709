"""An API of Kubernetes that refuses, does not answer, or is no API: how an agent ends, and what it makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.harness.api import api_of
from integration.harness.places import SITE, Place, Program, Receiver

UID = "6b2f7c1e-3d2a-4c8e-9a6f-1e2d3c4b5a69"
POD: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "red", "uid": UID},
    "spec": {"nodeName": "node-1", "containers": [{"name": "main"}]},
    "status": {
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 0,
                "containerID": "containerd://1",
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "containerID": "containerd://1",
                        "startedAt": "2026-11-28T10:00:00Z",
                        "finishedAt": "2026-11-28T10:00:09Z",
                    }
                },
            }
        ]
    },
}
LIST, ONE, LOG = "/api/v1/pods", "/api/v1/namespaces/red/pods/web", "/api/v1/namespaces/red/pods/web/log"
LINES = b"2026-11-28T10:00:01.0Z step 1\n2026-11-28T10:00:02.0Z step 2\n"
PAGE = b"<html><body>the gateway has no such page</body></html>"
PROXIED = f"/api/v1/nodes/{SITE}/proxy/logs/pods/"


def refused(code: int, message: str = "that is not allowed") -> tuple[int, bytes]:
    details = {"kind": "pods", "name": "web"}
    return code, json.dumps({"kind": "Status", "code": code, "message": message, "details": details}).encode()


def agent(place: Place, receiver: Receiver, *args: str) -> Program:
    return place.start("agent", "--once", "--receiver", receiver.address, "--site", SITE, *args)


@pytest.mark.parametrize(
    ("args", "answers", "code", "sentence"),
    [
        (("api",), {LIST: refused(403)}, 5, f"does not allow to read {LIST} (403): that is not allowed"),
        (("api",), {LIST: refused(401)}, 78, "does not know the token (401): that is not allowed"),
        (("api",), {ONE: (200, json.dumps(POD).encode()), LOG: refused(403)}, 5, f"does not allow to read {LOG} (403)"),
        (("kubelet",), {PROXIED: refused(403)}, 5, "does not allow to read"),
        (("cri", "--run-from", "job"), {LIST: refused(403)}, 5, f"does not allow to read {LIST} (403)"),
    ],
    ids=["list", "token", "log", "node", "runs"],
)
def test_once_ends_where_the_api_refuses(
    place: Place, args: tuple[str, ...], answers: dict[str, tuple[int, bytes]], code: int, sentence: str
) -> None:
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    root = ("--root", str(place.root)) if args[0] == "cri" else ()
    with api_of(place.directory / "api", POD, answers=answers) as options:
        program = agent(place, receiver, "--source", *args, *root, *options)
        assert program.ends() == code, program.talk()
    assert sentence in program.talk()


@pytest.mark.parametrize("long", [False, True], ids=["once", "always"])
@pytest.mark.parametrize(
    ("flag", "contents", "sentence"),
    [
        ("--api-token", None, "cannot be read: No such file or directory"),
        ("--api-token", b"\n", "is empty"),
        ("--api-ca", None, "cannot be read: No such file or directory"),
        ("--api-ca", b"nonsense", "is no certificate"),
    ],
    ids=["no-token", "empty-token", "no-ca", "wrong-ca"],
)
def test_a_file_that_cannot_be_used_is_wrong_configuration(
    place: Place, flag: str, contents: bytes | None, sentence: str, long: bool
) -> None:
    receiver, file = place.serve(), Path(place.directory, "given")
    if contents is not None:
        file.write_bytes(contents)
    with api_of(place.directory / "api", POD) as options:
        where = ("--receiver", receiver.address, "--site", SITE, "--source", "api", *options, flag, str(file))
        program = place.start("agent", *(() if long else ("--once",)), *where)
        assert program.ends() == 78, program.talk()
    assert sentence in program.talk()
    assert str(file) in program.talk()


@pytest.mark.parametrize("path", [ONE, LOG], ids=["pod", "log"])
@pytest.mark.parametrize(
    "answer",
    [(404, PAGE), (404, b""), (404, b'{"message": "no route"}')],
    ids=["page", "nothing", "gateway"],
)
def test_a_404_that_is_no_object_of_the_api_says_nothing_of_a_pod(
    place: Place, path: str, answer: tuple[int, bytes]
) -> None:
    receiver = place.serve()
    answers = {ONE: (200, json.dumps(POD).encode()), LOG: (200, LINES), path: answer}
    with api_of(place.directory / "api", POD, answers=answers) as options:
        program = agent(place, receiver, "--source", "api", *options)
        assert program.ends() == 1, program.talk()
    assert f"answered {path} with 404" in program.talk()
    assert "was not seen" not in program.talk()  # the end of the log: it may yet come


def test_a_pod_that_the_api_does_not_know_is_gone(place: Place) -> None:
    receiver, state = place.serve(), place.directory / "state"
    state.mkdir()
    answer = refused(404, 'pods "web" not found')
    with api_of(place.directory / "api", POD, answers={ONE: answer}) as options:
        program = agent(place, receiver, "--source", "api", "--state", str(state), *options)
        assert program.ends() == 6, program.talk()
    (record,) = receiver.streams("red").values()
    assert record["sealed"], record


def test_what_the_api_gives_is_stored(place: Place) -> None:
    receiver = place.serve()
    answers = {ONE: (200, json.dumps(POD).encode()), LOG: (200, LINES)}
    with api_of(place.directory / "api", POD, answers=answers) as options:
        program = agent(place, receiver, "--source", "api", *options)
        assert program.ends() in (0, 6), program.talk()
    receiver.holds(LINES, f"red/web.{UID[:8]}/main.log", run="red")
