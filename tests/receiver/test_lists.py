"""What a receiver lists: over a store, without a socket."""

from __future__ import annotations

from pathlib import Path

from flarelog.model import Open, StreamId
from flarelog.receiver.server import Server
from flarelog.wire.codec.lists import Listing, decode_infos
from tests.receiver.test_removals import play, pushed
from tests.receiver.test_server import CHUNK, Call


def test_a_list_may_tell_of_several_streams_in_a_message(tmp_path: Path) -> None:
    async def act(server: Server) -> None:
        for n in range(250):
            await pushed(server, Open(StreamId("run-1", "site-1", f"{n:03}.txt"), b"a-producer"), CHUNK)
        told = [raw async for raw in server.lists.streams(Listing("run-1", several=True), Call([]))]
        alone = [part async for part in server.lists.streams(Listing("run-1"), Call([]))]
        assert len(alone) == 250
        assert len(told) <= 50
        several = [info.stream for raw in told if isinstance(raw, bytes) for info, _ in decode_infos(raw)]
        assert several == [part[0].stream for part in alone if not isinstance(part, bytes)]

    play(tmp_path, act)
