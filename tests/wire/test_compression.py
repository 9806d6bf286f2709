"""Compressed chunks: the round trip, frames that no honest producer makes, and the negotiation."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flarelog.checksum import extend
from flarelog.delivery.receiver import Refused
from flarelog.errors import InvalidOption
from flarelog.model import MAX_CHUNK, Chunk, Code, Codec, Packed, Receipt, Reply
from flarelog.receiver.options import ServerOptions
from flarelog.receiver.server import Server
from flarelog.sender.options import SidecarOptions
from flarelog.sources.files.patterns import SourceOptions
from flarelog.stores.local.store import LocalStore
from flarelog.wire import packing as compression
from flarelog.wire.packing import LARGE, REST, Compressing, Compression, Crew, Packing, compress, decompress
from tests.receiver.test_server import OPEN, Call
from tests.rows import together

LINE = b"2026-11-21 08:00:00,123 - trainer - INFO - step=%d loss=%d\n"
TEXT = b"".join(LINE % (step, step * 7919 % 1000) for step in range(4000))
TAKES = Reply(Code.OK, codecs=(Codec.ZSTD,))
FAR = "receiver.example:4721"
often = settings(max_examples=100, deadline=None, derandomize=True, database=None)


# --- frames


@often
@given(st.binary(min_size=1, max_size=300), st.integers(1, 2000))
def test_any_bytes_come_back_as_they_were(piece: bytes, times: int) -> None:
    data = piece * times
    packed = compress(data)
    if len(packed) < len(data):
        assert decompress(packed, len(data)) == data


@together("data", [TEXT, bytes(MAX_CHUNK), TEXT * 8], ids=["lines", "zeros", "more-than-a-window"])
@together("view", [bytes, bytearray, memoryview])
def test_a_chunk_of_any_kind_comes_back_as_it_was(data: bytes, view: type[bytes]) -> None:
    assert decompress(compress(view(data)), len(data)) == data


def frame(blocks: bytes, *, size: int | None = None, window: int | None = None, dictionary: int | None = None) -> bytes:
    """A handmade frame of *blocks* after RFC 8878, with any values in its header."""
    descriptor = (0xC0 if size is not None else 0) | (0x20 if window is None else 0) | (dictionary is not None)
    head = b"\x28\xb5\x2f\xfd" + bytes([descriptor])
    head += b"" if window is None else bytes([(window - 10) << 3])
    head += b"" if dictionary is None else bytes([dictionary])
    return head + (b"" if size is None else size.to_bytes(8, "little")) + blocks


def block(kind: int, size: int, data: bytes, *, last: bool = True) -> bytes:
    """*kind*: 0 raw, 1 one byte *size* times."""
    return ((size << 3) | (kind << 1) | last).to_bytes(3, "little") + data


def zeros(size: int) -> bytes:
    """Blocks of *size* zeros, each at most 128 KiB."""
    lengths = [min(1 << 17, size - at) for at in range(0, size, 1 << 17)]
    return b"".join(block(1, one, b"\0", last=n == len(lengths) - 1) for n, one in enumerate(lengths))


ZEROS = zeros(1 << 20)
SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00none"


@together(
    ("data", "length", "code", "sentence"),
    [
        pytest.param(compress(TEXT), 0, Code.REJECTED, "to 0 bytes; from 1 to 2097152 are taken", id="no-length"),
        pytest.param(
            frame(zeros(3 << 20), size=3 << 20),
            3 << 20,
            Code.REJECTED,
            "to 3145728 bytes; from 1 to",
            id="over-the-cap",
        ),
        pytest.param(
            frame(ZEROS, size=1 << 20), 2**32 - 1, Code.REJECTED, "4294967295 bytes; from", id="four-gigabytes"
        ),
        pytest.param(
            frame(ZEROS, size=1 << 20), 1000, Code.REJECTED, "to 1000 bytes, but its frame says 1048576", id="a-bomb"
        ),
        pytest.param(frame(ZEROS, size=1000), 1000, Code.CORRUPT, "is damaged", id="a-bomb-that-lies-about-itself"),
        pytest.param(
            frame(zeros(1000), size=1 << 20), 1 << 20, Code.CORRUPT, "is damaged|ends before", id="less-than-it-says"
        ),
        pytest.param(
            frame(ZEROS, window=20), 1 << 20, Code.REJECTED, "not state the length of its content", id="of-no-length"
        ),
        pytest.param(
            frame(ZEROS, size=1 << 20, dictionary=7), 1 << 20, Code.REJECTED, "needs a dictionary", id="a-dictionary"
        ),
        pytest.param(
            frame(ZEROS, size=1 << 20, window=22),
            1 << 20,
            Code.REJECTED,
            "a window of more than 2097152",
            id="a-window",
        ),
        pytest.param(
            frame(ZEROS, size=1 << 20, window=41),
            1 << 20,
            Code.CORRUPT,
            "does not begin with",
            id="a-window-of-terabytes",
        ),
        pytest.param(
            frame(ZEROS, size=1 << 20) + compress(b"more"),
            1 << 20,
            Code.REJECTED,
            "behind its frame",
            id="a-second-frame",
        ),
        pytest.param(frame(ZEROS, size=1 << 20) + b"x", 1 << 20, Code.REJECTED, "behind its frame", id="a-byte-behind"),
        pytest.param(
            frame(ZEROS, size=1 << 20) + SKIPPED, 1 << 20, Code.REJECTED, "behind its frame", id="a-skippable-behind"
        ),
        pytest.param(
            SKIPPED + frame(ZEROS, size=1 << 20), 1 << 20, Code.REJECTED, "its frame says 0", id="a-skippable-before"
        ),
        pytest.param(compress(TEXT)[:-5], len(TEXT), Code.CORRUPT, "ends before its|damaged", id="cut-short"),
        pytest.param(compress(TEXT)[:3], len(TEXT), Code.CORRUPT, "does not begin with a frame", id="hardly-begun"),
        pytest.param(b"plain text", 1000, Code.CORRUPT, "does not begin with a frame", id="no-frame"),
        pytest.param(b"", 1000, Code.CORRUPT, "does not begin with a frame", id="nothing"),
        pytest.param(compress(b"abc"), 3, Code.REJECTED, "send it uncompressed", id="longer-than-what-it-holds"),
    ],
)
def test_a_frame_that_no_honest_producer_makes(data: bytes, length: int, code: Code, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence) as raised:
        decompress(data, length)
    assert raised.value.code is code


def test_the_frames_made_by_hand_are_frames() -> None:
    assert decompress(frame(ZEROS, size=1 << 20), 1 << 20) == bytes(1 << 20)
    assert decompress(frame(ZEROS, size=1 << 20, window=21), 1 << 20) == bytes(1 << 20)


def test_a_bomb_takes_no_more_memory_than_a_chunk() -> None:
    bomb = frame(zeros(1 << 30), size=1 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(Refused):
            decompress(bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 3 * MAX_CHUNK
    finally:
        tracemalloc.stop()


@often
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=8), st.integers(-2, 2))
def test_a_frame_that_is_spoilt_is_refused_or_is_what_it_was(at: int, spoilt: bytes, more: int) -> None:
    whole = compress(TEXT)
    at %= len(whole)
    data = whole[:at] + spoilt + whole[at + len(spoilt) :]
    try:
        found = decompress(data, len(TEXT) + more)
    except Refused:
        pass
    else:
        assert len(found) == len(TEXT) + more  # the chunk's digest detects wrong content


# --- the sending end


def chunks(*pieces: bytes) -> list[Chunk]:
    made, offset, digest = [], 0, 0
    for piece in pieces:
        digest = extend(digest, piece)
        made.append(Chunk(offset, piece, digest))
        offset += len(piece)
    return made


async def as_sent(packing: Packing, chunk: Chunk) -> Chunk | Packed:
    return packing.at_once(chunk) or await packing.packed(chunk)


def sent(mode: Compression, receiver: str, reply: Reply | None, *said: Chunk, name: str = "") -> list[Chunk | Packed]:
    went: list[Chunk | Packed] = []  # no result of the task: asyncio prints that, however large, and throws it away

    async def go() -> None:
        compressing = Compressing(mode, receiver, name)
        packing = Packing(compressing)
        if reply is not None:
            packing.heard(reply)
        try:
            went.extend([await as_sent(packing, chunk) for chunk in said])
        finally:
            compressing.close()

    asyncio.run(go())
    return went


@together(
    ("mode", "receiver", "name", "reply", "packs"),
    [
        pytest.param("auto", FAR, "", TAKES, True, id="over-a-network"),
        pytest.param("auto", "10.0.0.1:4721", "", TAKES, True, id="to-an-address"),
        pytest.param("auto", "127.0.0.1:4721", "", TAKES, False, id="not-on-loopback"),
        pytest.param("auto", "localhost:4721", "", TAKES, False, id="not-on-localhost"),
        pytest.param("auto", "[::1]:4721", "", TAKES, False, id="not-on-loopback-6"),
        pytest.param("auto", "127.0.0.1:4721", "receiver.example", TAKES, True, id="through-a-tunnel"),
        pytest.param("on", "127.0.0.1:4721", "", TAKES, True, id="on-loopback-when-it-is-wanted"),
        pytest.param("off", FAR, "", TAKES, False, id="not-when-it-is-not"),
        pytest.param("on", FAR, "", Reply(Code.OK), False, id="not-to-one-that-does-not-say-that-it-takes-it"),
        pytest.param("on", FAR, "", None, False, id="not-before-it-has-said-so"),
    ],
)
@together("times", [1, 8], ids=["small", "large"])
def test_who_is_sent_compressed_chunks(
    mode: Compression, receiver: str, name: str, reply: Reply | None, packs: bool, times: int
) -> None:
    (chunk,) = chunks(TEXT[: LARGE // 2] * times)
    (said,) = sent(mode, receiver, reply, chunk, name=name)
    if not packs:
        assert said is chunk
        return
    assert isinstance(said, Packed)
    assert (said.offset, said.digest, said.codec) == (chunk.offset, chunk.digest, Codec.ZSTD)
    assert len(said.data) * 5 < len(chunk.data)
    assert decompress(said.data, said.raw_length) == chunk.data


def test_a_receiver_may_change_its_mind() -> None:
    packing = Packing(Compressing("on", FAR))
    (chunk,) = chunks(TEXT[:5000])
    packing.heard(TAKES)
    assert isinstance(asyncio.run(as_sent(packing, chunk)), Packed)
    packing.heard(Reply(Code.OK))
    assert asyncio.run(as_sent(packing, chunk)) is chunk


def test_while_a_large_chunk_is_compressed_nothing_that_stands_behind_it_may_be_sent() -> None:
    async def go() -> list[bool]:
        compressing = Compressing("on", FAR)
        packing = Packing(compressing)
        packing.heard(TAKES)
        (chunk,) = chunks(TEXT * 8)
        seen = [packing.busy]
        packing.at_once(chunk)
        seen.append(packing.busy)
        await packing.packed(chunk)
        compressing.close()
        return [*seen, packing.busy]

    assert asyncio.run(go()) == [False, True, False]


def test_random_bytes_are_sent_as_they_are() -> None:
    said = chunks(*(os.urandom(MAX_CHUNK) for _ in range(8)))
    assert sent("on", FAR, TAKES, *said) == said


def test_what_does_not_become_shorter_is_tried_again_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def counted(data: bytes) -> bytes:
        tried.append(len(data))
        return compress(data)

    monkeypatch.setattr(compression, "compress", counted)
    rest = REST // MAX_CHUNK
    said = chunks(*(os.urandom(MAX_CHUNK) for _ in range(rest + 2)), TEXT, *[b"x" * MAX_CHUNK] * (rest + 1))
    went = sent("on", FAR, TAKES, *said)
    assert went[: rest + 3] == said[: rest + 3], "text beside random bytes waits for the next try"
    assert tried[:2] == [MAX_CHUNK] * 2, "the first, and the first behind the rest"
    assert len(tried) == 2 + len([one for one in went if isinstance(one, Packed)])
    assert isinstance(went[-1], Packed)


def test_a_heartbeat_and_a_line_are_sent_as_they_are() -> None:
    said = chunks(b"", LINE)
    assert sent("on", FAR, TAKES, *said) == said


@pytest.mark.parametrize(
    ("mode", "available", "sentence"),
    [
        ("always", True, "compression is 'always'; write auto, on or off"),
        ("on", False, "not installed: pip install backports.zstd"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(
    mode: Compression, available: bool, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "AVAILABLE", available)
    with pytest.raises(InvalidOption, match=sentence):
        SidecarOptions(FAR, "run-1", "site-1", SourceOptions("/"), compression=mode)


def test_an_installation_without_zstandard_sends_and_takes_nothing_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "AVAILABLE", False)
    SidecarOptions(FAR, "run-1", "site-1", SourceOptions("/"))
    said = chunks(TEXT)
    assert sent("auto", FAR, TAKES, *said) == said
    assert pushed(tmp_path, OPEN)[0].codecs == ()


# --- the thread


def test_what_is_large_is_done_in_a_thread_and_what_is_small_at_once() -> None:
    async def go() -> tuple[str, str]:
        import threading

        crew = Crew("crew")
        try:
            return (
                await crew.do(LARGE - 1, lambda: threading.current_thread().name),
                await crew.do(LARGE, lambda: threading.current_thread().name),
            )
        finally:
            crew.close()

    small, large = asyncio.run(go())
    assert small == "MainThread"
    assert large.startswith("crew")


def test_a_program_that_is_ending_gives_no_thread_and_it_is_done_all_the_same() -> None:
    async def go() -> int:
        crew = Crew("crew")
        await crew.do(LARGE, lambda: 1)
        crew.close()
        return await crew.do(LARGE, lambda: 2)

    assert asyncio.run(go()) == 2


# --- the receiving end


def pushed(root: Path, *requests: object, options: ServerOptions | None = None) -> list[Reply]:
    async def go() -> list[Reply]:
        async with LocalStore(root, "memory") as store:
            call, server = Call(list(requests)), Server(store, options)  # type: ignore[arg-type]
            await server.push(None, call)
            server.intake.unpacking.close()
            return call.replies

    return asyncio.run(go())


def packed(chunk: Chunk, length: int | None = None) -> Packed:
    size = len(chunk.data) if length is None else length
    return Packed(chunk.offset, compress(chunk.data), chunk.digest, Codec.ZSTD, size)


def stored(root: Path) -> bytes:
    path = root / "run-1/site-1/log.txt"
    return path.read_bytes() if path.exists() else b""


LARGE_TEXT = TEXT * 4


@pytest.mark.parametrize("plain", [(), (0,), (1,), (0, 2)], ids=str)
def test_what_came_compressed_is_stored_as_it_was(tmp_path: Path, plain: Sequence[int]) -> None:
    made = chunks(TEXT, TEXT[:700], LARGE_TEXT)
    said = [chunk if number in plain else packed(chunk) for number, chunk in enumerate(made)]
    replies = pushed(tmp_path, OPEN, *said, Receipt(made[-1].end, made[-1].digest, 0))
    assert [reply.code for reply in replies] == [Code.OK] * 4 + [Code.SEALED]
    assert replies[0].codecs == (Codec.ZSTD,)
    assert stored(tmp_path) == b"".join(chunk.data for chunk in made)


def test_a_repetition_and_an_overlap_are_taken_as_of_any_chunk(tmp_path: Path) -> None:
    first, second = chunks(TEXT, LARGE_TEXT)
    whole = Chunk(0, TEXT + LARGE_TEXT, second.digest)
    replies = pushed(tmp_path, OPEN, packed(first), packed(first), packed(whole), packed(second))
    assert list(dict.fromkeys((reply.code, reply.committed) for reply in replies)) == [
        (Code.OK, committed) for committed in (0, first.end, second.end)
    ]
    assert stored(tmp_path) == whole.data


LIE = Chunk(0, TEXT, 7)


@pytest.mark.parametrize(
    ("said", "code", "sentence"),
    [
        pytest.param(packed(LIE), Code.CORRUPT, "have digest", id="other-bytes-than-the-digest-is-of"),
        pytest.param(packed(LIE, len(TEXT) - 1), Code.REJECTED, "but its frame says", id="more-than-it-says"),
        pytest.param(packed(LIE, 3 << 20), Code.REJECTED, "at most 2097152 are allowed", id="more-than-a-chunk"),
        pytest.param(
            Packed(5, b"no frame is looked at", 7, Codec.ZSTD, 100),
            Code.HOLE,
            "but the stream continues at 0",
            id="behind-a-hole",
        ),
        pytest.param(Packed(0, b"x" * 50, 7, Codec.ZSTD, 100), Code.CORRUPT, "not begin with a frame", id="no-frame"),
    ],
)
def test_what_is_not_as_it_says_ends_the_call_and_is_not_stored(
    tmp_path: Path, said: Packed, code: Code, sentence: str
) -> None:
    reply = pushed(tmp_path, OPEN, said)[-1]
    assert reply.code is code
    assert sentence in reply.reason
    assert stored(tmp_path) == b""


def test_limits_hold_before_anything_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = chunks(TEXT, TEXT)
    seen = []

    def unpacked(data: bytes, length: int, cap: int) -> bytes:
        seen.append(length)
        return decompress(data, length, cap)

    monkeypatch.setattr(compression, "decompress", unpacked)
    options = ServerOptions(max_site_bytes=len(TEXT) - 1)
    replies = pushed(tmp_path, OPEN, packed(first), packed(second), options=options)
    assert [reply.code for reply in replies] == [Code.OK, Code.OK, Code.PAUSE]
    assert len(seen) == 1
    assert stored(tmp_path) == TEXT


def test_a_receiver_that_takes_none_says_so_and_refuses_them(tmp_path: Path) -> None:
    first, second = pushed(tmp_path, OPEN, packed(chunks(TEXT)[0]), options=ServerOptions(compression="off"))
    assert first.codecs == ()
    assert second.code is Code.REJECTED
    assert "this receiver takes only uncompressed" in second.reason


def test_of_many_calls_no_more_than_a_few_have_something_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stores are slow, and chunks stay compressed until their turn."""
    (chunk,) = chunks(LARGE_TEXT)
    in_memory, most = 0, 0

    async def go() -> None:
        nonlocal in_memory, most
        async with LocalStore(tmp_path, "memory") as store:
            server = Server(store)
            plain = server.intake.unpacking.unpacked

            async def unpacked(one: Packed, cap: int) -> Chunk:
                nonlocal in_memory, most
                in_memory += 1
                most = max(most, in_memory)
                return await plain(one, cap)

            monkeypatch.setattr(server.intake.unpacking, "unpacked", unpacked)
            take = store.appender

            async def appender(*what: object) -> object:
                made = await take(*what)  # type: ignore[arg-type]
                append = made.append

                async def slow(*bytes_and_place: Any) -> int:
                    nonlocal in_memory
                    for _ in range(5):
                        await asyncio.sleep(0)
                    in_memory -= 1
                    return await append(*bytes_and_place)

                monkeypatch.setattr(made, "append", slow)
                return made

            monkeypatch.setattr(store, "appender", appender)
            opens = [type(OPEN)(type(OPEN.stream)("run-1", f"site-{n}", "log.txt"), OPEN.producer) for n in range(20)]
            calls = [Call([one, packed(chunk)]) for one in opens]
            await asyncio.gather(*(server.push(None, call) for call in calls))
            assert all(call.replies[-1].committed == chunk.end for call in calls)
            server.intake.unpacking.close()

    asyncio.run(go())
    assert 1 <= most <= 2
