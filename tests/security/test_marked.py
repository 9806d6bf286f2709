"""Some editors begin a file with a byte order mark, which is no part of its content."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from flarelog.security import access
from flarelog.security.tokens import read_token
from flarelog.sources import consent


@pytest.mark.parametrize(
    ("read", "text"),
    [
        pytest.param(access.load, b"[[grant]]\ncn = 'a'\nrole = 'reader'\n", id="policy"),
        pytest.param(consent.load, b"include = ['*.log']\n", id="site-policy"),
        pytest.param(read_token, b"flarelog_abc\n", id="token"),
    ],
)
def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path, read: Callable[[str], object], text: bytes) -> None:
    path = tmp_path / "file"
    path.touch(0o600)
    path.write_bytes(text)
    plain = read(str(path))
    path.write_bytes(codecs.BOM_UTF8 + text)
    assert read(str(path)) == plain
