"""The styles of a report: light and dark as the system says, on paper, on a phone. The sheets are beside this file."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


@cache
def sheet(*names: str) -> str:
    """The style sheets *names*, joined, without comments and blanks."""
    text = "".join(Path(__file__).with_name(f"{name}.css").read_text(encoding="utf-8") for name in names)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?([{};,]|(?<=[a-z-]):(?= )) ?", r"\1", text).replace(";}", "}").strip()
