"""The ``pod_template`` of docs/nvflare.md, as NVFlare's own parser and launcher take it."""

from __future__ import annotations

import pytest

pytest.importorskip("nvflare.app_opt.job_launcher.study_runtime", reason="NVFlare before 2.9 has no pod_template")


def test_the_sidecar_of_the_page_is_in_the_pod_that_nvflare_makes_and_all_else_is_nvflares() -> None:
    from integration.nvflare.inside.pod_manifest import manifest, recipe

    plain = manifest(
        "job-1", "format_version: 2\nstudies: {default: {pod_template: {spec: {containers: [{name: nvflare_job}]}}}}"
    )
    made = manifest("job-1", recipe())
    (sidecar,) = made["spec"].pop("initContainers")
    assert made["spec"].pop("terminationGracePeriodSeconds") == 60
    assert made == plain, "the job's own container, its volumes and its name"
    assert (sidecar["name"], sidecar["restartPolicy"], sidecar["args"][0]) == ("flarelog", "Always", "agent")
    assert {mount["name"] for mount in sidecar["volumeMounts"]} == {
        volume["name"] for volume in made["spec"]["volumes"]
    }
