"""A receiver behind a framework's messages: deliveries see a connection that is lost now and then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from flarelog.integrations.tunnel import MAX_ALL, MAX_CONNECTIONS, PIECE, Piece, Tunnel
from integration.harness.loops import LoopThread
from integration.harness.places import LOG, PATIENCE, Place, append, noise, until


class Messages:
    """The network between the ends. *lost*: one piece in so many is lost; *twice*: one in so many comes twice."""

    def __init__(self, target: str) -> None:
        self._loop = LoopThread()
        self.pieces = 0
        self.lost = self.twice = 0
        self.site, self.receiver = self._loop.call(self._make(target))
        self.address = self._loop.call(self.site.listen("receiver"))

    async def _make(self, target: str) -> tuple[Tunnel, Tunnel]:
        return Tunnel(self._to_receiver), Tunnel(self._to_site, target)

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
            self._loop.call(end.close())
        self._loop.close()


@pytest.fixture
def messages(place: Place) -> Iterator[Messages]:
    messages = Messages(place.serve().address)
    yield messages
    messages.close()


@pytest.mark.parametrize(
    ("lost", "twice"),
    [pytest.param(0, 0, marks=pytest.mark.soak), (40, 0), (0, 30)],
    ids=["all-come", "some-are-lost", "some-twice"],
)
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
    assert not messages.site.take("receiver", Piece("unknown", 0, b"x"))  # a site accepts no new connection
    assert not messages.receiver.take("site-1", Piece("unknown", 1, b"x"))  # a piece in the middle begins no connection
    assert messages.receiver.take("site-1", Piece("unknown", 1, b""))  # the connection has ended already


# --- hostile peers


class Sink:
    """The server behind the tunnel: it counts connections and reads nothing until it is told to."""

    def __init__(self) -> None:
        self._loop = LoopThread()
        self.call = self._loop.call
        self.open = self.most = self.bytes = 0
        self.reads = asyncio.Event()
        self.tunnel = self.call(self._make())

    async def _make(self) -> Tunnel:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.open += 1
            self.most = max(self.most, self.open)
            try:
                await self.reads.wait()
                while data := await reader.read(1 << 20):
                    self.bytes += len(data)
            except ConnectionResetError:
                pass  # the tunnel aborts connections that it drops
            finally:
                self.open -= 1
                writer.transport.abort()

        self._server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 16)
        host, port = self._server.sockets[0].getsockname()
        return Tunnel(lambda peer, piece: True, f"{host}:{port}")

    def read(self) -> None:
        self._loop.soon(self.reads.set)

    async def _end(self) -> None:
        self._server.close()
        await self.tunnel.close()
        for _ in range(5):  # a connection that was just accepted is served some turns of the loop later
            await asyncio.sleep(0)
            if serving := asyncio.all_tasks() - {asyncio.current_task()}:  # each closes its connection
                await asyncio.wait(serving, timeout=10)

    def close(self) -> None:
        self.read()
        self.call(self._end())
        self._loop.close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    sink = Sink()
    yield sink
    sink.close()


def test_a_peer_gets_so_many_connections_though_it_asks_for_all_at_the_same_time(
    sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    async def at_once() -> list[bool]:
        # On the loop itself, so that all requests come before the first connection.
        return await asyncio.gather(
            *(sink.tunnel.taken("site-1", Piece(f"{n}", 0, b"x"), "site-1") for n in range(500))
        )

    assert sum(sink.call(at_once())) == MAX_CONNECTIONS
    until(lambda: sink.most == MAX_CONNECTIONS, lambda: f"{sink.most} connections are there")
    assert not sink.tunnel.take("site-1", Piece("more", 0, b"x"))
    assert sink.tunnel.take("site-2", Piece("other", 0, b"x"))  # another peer has a limit of its own
    assert caplog.messages.count("through the tunnel site-1 has 64 connections, the limit: a new one is refused") == 1


def test_whoever_a_peer_says_that_it_is_its_connections_are_counted_as_its_own(sink: Sink) -> None:
    with ThreadPoolExecutor(16) as pool:
        taken = pool.map(
            lambda n: sink.tunnel.take(f"site-{n}", Piece(f"{n}", 0, b"x"), "mallory"), range(2 * MAX_CONNECTIONS)
        )
        assert sum(taken) == MAX_CONNECTIONS
    assert sink.tunnel.take("site-2", Piece("other", 0, b"x"), "site-2")


def test_all_peers_together_get_no_more_than_the_receiver_can_bear(sink: Sink) -> None:
    async def many() -> int:
        asked = [(f"site-{n // 10}", Piece(f"{n}", 0, b"x")) for n in range(MAX_ALL + 100)]
        return sum(await asyncio.gather(*(sink.tunnel.taken(peer, piece, peer) for peer, piece in asked)))

    assert sink.call(many()) == MAX_ALL


def test_no_connection_outlives_the_tunnel_that_opens_it(sink: Sink) -> None:
    async def opened_while_it_ends() -> None:
        opening = [asyncio.create_task(sink.tunnel.taken("site-1", Piece(f"{n}", 0, b"x"), "site-1")) for n in range(9)]
        await asyncio.sleep(0)
        await sink.tunnel.close()
        await asyncio.gather(*opening, return_exceptions=True)

    sink.read()
    sink.call(opened_while_it_ends())
    until(lambda: sink.open == 0, lambda: f"{sink.open} connections are there")
    assert not sink.tunnel.take("site-1", Piece("late", 0, b"x"))


def test_a_connection_is_opened_once_however_often_its_first_piece_comes(sink: Sink) -> None:
    async def twice() -> list[bool]:
        return await asyncio.gather(*(sink.tunnel.taken("site-1", Piece("one", 0, b"x"), "site-1") for _ in range(9)))

    sink.call(twice())
    assert sink.most <= 1


def test_a_piece_that_is_too_large_is_not_taken_and_its_connection_ends(
    sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.read()
    assert sink.tunnel.take("site-1", Piece("one", 0, b"x" * PIECE))
    assert not sink.tunnel.take("site-1", Piece("one", 1, b"x" * (PIECE + 1)))
    assert not sink.tunnel.take("site-1", Piece("two", 0, b"x" * (16 * PIECE)))
    assert not sink.tunnel.take("site-1", Piece("x" * 1000, 0, b"x"))  # nor one with an invalid name
    until(lambda: sink.open == 0, "it has ended")
    assert sink.bytes == PIECE
    assert not sink.tunnel.take("site-1", Piece("one", 1, b"x"))
    assert caplog.messages == ["through the tunnel site-1 sent pieces of 524,289 bytes; a piece has at most 524,288"]


def test_who_does_not_wait_for_answers_fills_no_memory(sink: Sink) -> None:
    """The server reads nothing: of a connection only one piece waits in memory, not all that were sent."""

    async def flood() -> list[bool | BaseException]:
        assert await sink.tunnel.taken("site-1", Piece("one", 0, b"x"), "site-1")
        sent = [sink.tunnel.taken("site-1", Piece("one", 1 + n, b"x" * PIECE), "site-1") for n in range(200)]
        return await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), PATIENCE)

    taken = [one is True for one in sink.call(flood())]
    assert sum(taken) < 40  # the pieces that fit into the system's buffers


def test_nobody_speaks_for_a_connection_of_another(sink: Sink) -> None:
    sink.read()
    assert sink.tunnel.take("site-1", Piece("one", 0, b"x"), "site-1")
    assert not sink.tunnel.take("site-1", Piece("one", 1, b"forged"), "mallory")
    assert not sink.tunnel.take("site-1", Piece("one", 1, b""), "mallory")
    assert sink.tunnel.take("site-1", Piece("one", 1, b"y"), "site-1")
    until(lambda: sink.bytes == 2, lambda: f"{sink.bytes} bytes came")
