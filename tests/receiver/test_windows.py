"""What a receiver logs about a peer is bounded, however many different reasons the peer finds."""

from __future__ import annotations

import asyncio

import pytest

from flarelog.receiver.windows import SENTENCES_EACH, Lately


def test_a_peer_with_ever_new_refusals_is_logged_a_bounded_number_of_times(caplog: pytest.LogCaptureFixture) -> None:
    async def go() -> None:
        lately = Lately()
        new = [number for number in range(1000) if not lately.said(f"no {number}", "evil")]
        assert new == [*range(SENTENCES_EACH)]
        assert [record.getMessage() for record in caplog.records] == ["evil: further refusals are not logged for 30 s"]
        assert not lately.said("no 0", "honest")
        assert lately.said("no 0", "honest")

    asyncio.run(go())
