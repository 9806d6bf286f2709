"""NVFlare's own log streaming: the results of the last ``python -m integration.nvflare.compare``.

That run needs an NVFlare project and is not repeated here; the numbers come from the table in that directory's README.
"""

from __future__ import annotations

import re

from bench.processes import PROJECT
from bench.results import Row

README = PROJECT / "integration" / "nvflare" / "README.md"
_MARK = "<!-- table -->"


def rows() -> list[Row]:
    """The rows of its throughput and latencies; empty without the table."""
    try:
        return rows_of(README.read_text())
    except FileNotFoundError:
        return []


def rows_of(page: str) -> list[Row]:
    lines = (page.split(_MARK)[1] if page.count(_MARK) == 2 else "").strip().splitlines()
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    name = cells[0][1] if cells and len(cells[0]) > 1 else ""
    found = []
    for what, theirs, ours, ratio in (row for row in cells if len(row) == 4):
        value = re.fullmatch(r"([\d.,]+) (\S.*)", theirs)
        if value and re.fullmatch(r"[\d.,]+ " + re.escape(value[2]), ours) and ratio:
            number = float(value[1].replace(",", ""))
            note = f"flarelog beside it: {ours}; kept from integration/nvflare, not of this run"
            found.append(Row("NVFlare's streaming", f"{name}, {what}", value[2], [number], note=note))
    return found
