"""Tests that need NVFlare's classes run in NVFlare's environment, for each version."""

from __future__ import annotations

import os
import subprocess

import pytest

from integration.nvflare.conftest import TESTED, TREE, VERSIONS, environment


@pytest.mark.parametrize(
    "version",
    [pytest.param(version, marks=[pytest.mark.essential] if version == TESTED else []) for version in VERSIONS],
)
def test_the_components_by_themselves(version: str) -> None:
    python = environment(version) / "bin" / "python"
    done = subprocess.run(
        [
            *(python, "-m", "pytest", "-p", "no:cacheprovider", "-o", "filterwarnings="),
            "integration/nvflare/inside",
        ],
        cwd=TREE, env=os.environ | {"PYTHONPATH": str(TREE)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
