"""Whatever a name is made of, it can be sent, kept and shown."""

from __future__ import annotations

import pytest

from flarelog.errors import NotFound
from flarelog.text import encodable, legible


@pytest.mark.parametrize(
    ("text", "sent", "shown"),
    [
        pytest.param("app.log", "app.log", "app.log", id="ascii"),
        pytest.param("größe", "größe", "größe", id="text"),
        pytest.param("a\udce9", "a\\xe9", "a\ufffd", id="a-byte-that-is-no-utf-8"),
        pytest.param("a\ud800", "a\\ud800", "a\ufffd", id="half-of-a-pair"),
        pytest.param("a\udc00", "a\\udc00", "a\ufffd", id="the-other-half"),
        pytest.param("a\U0001f600", "a\U0001f600", "a\U0001f600", id="a-whole-pair"),
        pytest.param("a\x1b]0;b\x07\n", "a\x1b]0;b\x07\n", "a\ufffd]0;b\ufffd\ufffd", id="what-drives-a-terminal"),
    ],
)
def test_text(text: str, sent: str, shown: str) -> None:
    assert (encodable(text), legible(text)) == (sent, shown)
    assert encodable(text).encode().decode() == sent
    assert str(NotFound(text)) == sent
