"""The page's modules that need no browser: their tests run in Node, and their types are checked by TypeScript."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "page"
TYPESCRIPT = "5.9.3"


def node() -> str:
    """Node's path. Skips the test without one of version 20 or later."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("no Node is installed: apt-get install nodejs")
    version = subprocess.run((found, "--version"), capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").partition(".")[0]) < 20:
        pytest.skip(f"the tests of the page need Node 20 or later, and {found} is {version}")
    return found


def tsc() -> Path:
    """TypeScript's compiler, in the cache that CI fills. Skips the test without it."""
    cache = Path(
        os.environ.get("FLARELOG_TYPESCRIPT") or Path.home() / ".cache" / "flarelog" / f"typescript-{TYPESCRIPT}"
    )
    found = cache / "node_modules" / "typescript" / "bin" / "tsc"
    if not found.exists():
        pytest.skip(f"no TypeScript is there: npm install --prefix {cache} typescript@{TYPESCRIPT}")
    return found


def ended_well(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=HERE)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr


def test_the_modules_of_the_page_do_what_their_tests_say() -> None:
    ended_well(node(), "--test", "--test-reporter=spec", *sorted(HERE.glob("*.test.mjs")))


def test_the_types_of_the_page_are_right() -> None:
    ended_well(node(), tsc(), "--project", HERE)
