"""A receiver that is reached inside somebody else's messages: deliveries see a connection that is lost now and then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from flarelog.integrations._tunnel import Piece, Tunnel
from integration.conftest import LOG, PATIENCE, Place, append, noise, until

T = TypeVar("T")


class Messages:
    """What stands between the ends. *lost*: every so many pieces one is; *twice*: or comes twice."""

    def __init__(self, target: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.pieces = 0
        self.lost = self.twice = 0
        self.site, self.receiver = self._call(self._make(target))
        self.address = self._call(self.site.listen("receiver"))

    async def _make(self, target: str) -> tuple[Tunnel, Tunnel]:
        return Tunnel(self._to_receiver), Tunnel(self._to_site, target)

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def _to_receiver(self, peer: str, piece: Piece) -> bool:
        assert peer == "receiver"
        return self._carry(self.receiver, "site-1", piece)

    def _to_site(self, peer: str, piece: Piece) -> bool:
        assert peer == "site-1"
        return self._carry(self.site, "receiver", piece)

    def _carry(self, end: Tunnel, sender: str, piece: Piece) -> bool:
        self.pieces += 1
        if self.lost and self.pieces % self.lost == 0:
            return False
        if self.twice and self.pieces % self.twice == 0:
            end.take(sender, piece)
        return end.take(sender, piece)

    def close(self) -> None:
        for end in (self.site, self.receiver):
            self._call(end.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def messages(place: Place) -> Iterator[Messages]:
    messages = Messages(place.serve().address)
    yield messages
    messages.close()


@pytest.mark.parametrize(("lost", "twice"), [(0, 0), (40, 0), (0, 30)], ids=["all-come", "some-are-lost", "some-twice"])
def test_a_log_arrives_whole_whatever_happens_to_the_messages(
    place: Place, messages: Messages, lost: int, twice: int
) -> None:
    messages.lost, messages.twice = lost, twice
    stored = place.directory / "store" / "run-1" / "site-1" / LOG
    data = append(place.log, noise(3_000_000))
    sidecar = place.sidecar(messages.address)
    until(lambda: stored.exists() and stored.stat().st_size == len(data), "the bulk is there")
    for number in range(20):
        data += append(place.log, noise(1000, number))
    sidecar.heeds_signals()
    assert sidecar.stop() == 0
    assert stored.read_bytes() == data
    assert messages.pieces > 10


def test_what_comes_for_a_connection_that_is_not_there_is_not_taken(messages: Messages) -> None:
    assert not messages.site.take("receiver", Piece("unknown", 0, b"x"))  # a site opens none
    assert not messages.receiver.take("site-1", Piece("unknown", 1, b"x"))  # nor does anybody in the middle
    assert messages.receiver.take("site-1", Piece("unknown", 1, b""))  # it has ended already
