"""How streams and verify describe a receipt's count of masked secrets."""

from __future__ import annotations

import pytest

from flarelog.cli.running import redaction_text
from flarelog.model import Redaction


@pytest.mark.parametrize(
    ("redacted", "text"),
    [
        pytest.param(
            Redaction(2_000, 30_000), "at least 2,000 matches, at least 30,000 bytes masked", id="both-are-bounds"
        ),
        pytest.param(Redaction(0, 0), "how much was masked is not known", id="none-is-no-statement"),
    ],
)
def test_a_count_of_what_was_masked_is_a_lower_bound(redacted: Redaction, text: str) -> None:
    assert redaction_text(redacted) == text
