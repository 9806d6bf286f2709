"""Each block of docs/kubernetes.md, applied to a real node, prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.harness.places import free_address
from integration.kubernetes import containerfile, helm
from integration.kubernetes.cluster import Cluster
from integration.kubernetes.workstation import workstation
from integration.test_pages import MARK, WRONG, blocks, masked, run, scripts

PAGE = "docs/kubernetes.md"
REGISTRY = "registry.example.org/flarelog:0.1.0"


@pytest.mark.soak
def test_the_blocks_of_the_page_print_what_it_shows(cluster: Cluster, tmp_path: Path) -> None:
    if reason := containerfile.missing() or helm.missing():
        pytest.skip(reason)
    pairs, _ = scripts(blocks(PAGE))
    port = free_address().rpartition(":")[2]
    script = f"\necho '{MARK}'\n".join(each for each, _ in pairs)
    script = script.replace("flarelog-receiver 4721 ", f"flarelog-receiver {port}:4721 ")
    script = script.replace("localhost:4721", f"localhost:{port}")
    with workstation(cluster, tmp_path) as station:
        station.load_image()
        cluster.tag(containerfile.IMAGE, REGISTRY)
        done = run(script, tmp_path, **station.env)
        printed = done.stdout.split(f"{MARK}\n")
        assert len(printed) == len(pairs), done.stderr
        for (text, shown), said in zip(pairs, printed, strict=True):
            assert shown is None or masked(PAGE, said) == masked(PAGE, shown), f"{text}\n{done.stderr}"
        assert WRONG not in done.stderr, done.stderr
        assert "rror" not in done.stderr, done.stderr
        assert station.kubectl("get", "namespaces", "flarelog", "demo", "--ignore-not-found") == ""
