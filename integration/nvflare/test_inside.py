"""What needs NVFlare's classes runs in NVFlare's environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from integration.nvflare.conftest import TREE


@pytest.mark.essential
def test_the_components_by_themselves(venv: Path) -> None:
    done = subprocess.run(
        [
            *(venv / "bin" / "python", "-m", "pytest", "-p", "no:cacheprovider", "-o", "filterwarnings="),
            "integration/nvflare/inside",
        ],
        cwd=TREE, env=os.environ | {"PYTHONPATH": str(TREE)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
