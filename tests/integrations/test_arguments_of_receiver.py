"""The receiver's arguments for programs; errors use the names of the API."""

from __future__ import annotations

from typing import Any

import pytest

from flarelog.errors import InvalidOption
from flarelog.integrations.receiver import Receiver
from tests.rows import together


@together(
    ("given", "sentence"),
    [
        ({"store": ""}, "store must be the path of a directory, not ''"),
        ({"store": None}, "store must be the path of a directory, not None"),
        ({"durability": "x"}, "durability must be 'disk' or 'memory', not 'x'"),
        ({"join_timeout": -1}, "join_timeout must be a number of seconds from 0.001 to 4294967, not -1"),
        ({"join_timeout": "60"}, "join_timeout must be a number of seconds from 0.001 to 4294967, not '60'"),
        ({"listen": "0.0.0.0:4721"}, "0.0.0.0:4721 is open to other machines: give tls, or insecure=True"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        Receiver(**{"store": "logs", **given})
    assert str(refused.value) == sentence
