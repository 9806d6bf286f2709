"""What the names of a node's log files say."""

from __future__ import annotations

import pytest

from flarelog.sources.containers.layouts import LAYOUTS
from tests.rows import together

UID = "6b2f7c1e-0d43-4c8e-9a6f-1e2d3c4b5a69"
ID = "0123456789abcdef" * 4


@together(
    "layout, directory, log",
    [
        pytest.param("cri", f"ns_web_{UID}/main", "ns/web.6b2f7c1e/main.log", id="a-pod"),
        pytest.param("cri", f"ns_web.v1.2_{UID}/main", "ns/web.v1.2.6b2f7c1e/main.log", id="dots"),
        pytest.param("cri", f"kube-system_etcd-a_{'f' * 32}/etcd", "kube-system/etcd-a.ffffffff/etcd.log", id="static"),
        pytest.param("cri", f"ns_{'p' * 253}_{UID}/main", f"ns/{'p' * 253}.6b2f7c1e/main.log", id="long"),
        pytest.param("cri", "ns_web/main", None, id="no-uid"),
        pytest.param("cri", "lost+found/main", None, id="another-directory"),
        pytest.param("docker", ID, "0123456789ab/container.log", id="docker"),
        pytest.param("docker", ID[1:], None, id="short-id"),
    ],
)
def test_a_containers_log_has_a_stable_name(layout: str, directory: str, log: str | None) -> None:
    found = LAYOUTS[layout].container(directory)
    assert (found and found.log) == log


@together(
    "layout, names",
    [
        pytest.param(
            "cri",
            ["0.log.20261128-100000.gz", "0.log.20261128-100010", "0.log", "9.log", "10.log.20260101-000000", "10.log"],
            id="attempts-then-stamps",
        ),
        pytest.param(
            "docker",
            [f"{ID}-json.log{ending}" for ending in (".10.gz", ".2.gz", ".1", "")],
            id="docker-counts-backwards",
        ),
    ],
)
def test_the_names_give_the_order(layout: str, names: list[str]) -> None:
    places = [LAYOUTS[layout].place(name) for name in names]
    turns = [place.turn for place in places if place is not None]
    assert turns == sorted(set(turns))
    assert len(turns) == len(names)


@together("name", ["0.log.gz", "0.log.20261128-100000.tmp", "main.log", "-1.log", ".0.log", "0.log.1", "0.log.old"])
def test_what_is_no_log_of_a_container_has_no_place(name: str) -> None:
    assert LAYOUTS["cri"].place(name) is None
