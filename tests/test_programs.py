"""The programs in the tests' strings, which run in processes of their own, import names that exist.

Neither linter nor type checker reads them, so without this test only slow tests would notice a moved module.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).parent.parent
IMPORT = re.compile(r"\bfrom (flarelog[\w.]*) import ([\w, ]+)|\bimport (flarelog\b[\w.]*\w)")
FOREIGN = "integration/nvflare/", "flarelog/integrations/nvflare/"  # these need an environment with NVFlare


def imports(text: str) -> Iterator[tuple[str, str]]:
    for module, names, alone in IMPORT.findall(text.replace(r"\n", "\n")):
        yield from ((module, name.split()[0]) for name in names.split(",") if name.strip())
        if alone:
            yield alone, ""


def is_there(module: str, name: str) -> bool:
    try:
        found = importlib.import_module(module)
    except ImportError:
        return False
    if not name or hasattr(found, name):
        return True
    try:
        importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("room", ["integration", "tests", "bench", "docs"])
def test_what_a_program_imports_is_there(room: str) -> None:
    files = [path for end in ("py", "md") for path in (TREE / room).rglob(f"*.{end}")]
    asked = {(one, str(path.relative_to(TREE))) for path in files for one in imports(path.read_text())}
    missing = sorted(
        f"{path}: {module} {name}"
        for (module, name), path in asked
        if not path.startswith(FOREIGN) and "nvflare" not in module and not is_there(module, name)
    )
    assert missing == []
