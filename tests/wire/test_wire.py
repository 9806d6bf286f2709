"""The wire contract: every message round-trips, encoded by hand as by the generated code, and malformed ones are
refused.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import cast

import grpc
import pytest

from flarelog.errors import (
    CannotConnect,
    ConnectionAged,
    FlarelogError,
    InUse,
    InvalidName,
    NoAnswer,
    NotAllowed,
    NotAReceiver,
    NotFound,
    StreamRejected,
    TimedOut,
    Unavailable,
    Unreadable,
)
from flarelog.exit_marks import Exit
from flarelog.model import (
    Attributes,
    Chunk,
    Code,
    Codec,
    Ended,
    Gap,
    Generation,
    Mark,
    News,
    Open,
    Packed,
    Receipt,
    Redaction,
    Reply,
    RunInfo,
    State,
    StreamId,
    StreamInfo,
    Unread,
)
from flarelog.render.counting import BLOCK, Counted
from flarelog.render.sieve import Sieve
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb
from flarelog.wire import several, statuses
from flarelog.wire.codec.base import MAX_MESSAGE, MAX_TEXT, Malformed
from flarelog.wire.codec.lists import Listing, decode_info, decode_list, encode_info, encode_list, parts_of
from flarelog.wire.codec.push import Request
from flarelog.wire.codec.reads import Wanted, decode_piece, decode_read, encode_piece, encode_read, read_request
from flarelog.wire.codec.replies import encode_reply
from flarelog.wire.codec.runs import (
    decode_list_runs,
    decode_remove,
    decode_run,
    decode_run_info,
    encode_list_runs,
    encode_run_info,
)
from flarelog.wire.codec.timeline import decode_moments, decode_timeline
from tests.messages import decode_reply, decode_request, encode_request
from tests.often import often
from tests.rows import together

STREAM = StreamId("run-1", "site-1", "rank-0/stderr.log")
BIG = 2**63 - 1
MARKS: list[Mark] = [
    Attributes(7, 0xFFFFFFFF, "ranks:0=8+1=9,world-size:16"),
    Generation(7, 0xFFFFFFFF, "log.txt", 12, "fh:0102", 1024, 0x89ABCDEF),
    Generation(0, 0, "", 0, ""),
    Ended(BIG, 1, "rotated"),
    Ended(0, 0, ""),
    Gap(9, 2, 4096, "truncated before they were read"),
    Gap(0, 0, 0, ""),
    Unread(5, 7, "cannot be read: Permission denied"),
    Unread(5, 7, ""),
    Exit(3, 7, "aa", 137),
    Exit(BIG, 7, "aa", 0, 9, True, 1, 2, "b-o-o-t", BIG, 3, 4, 0, 1, 400, "/a/b", "likely", 5, "Evicted"),
    Exit(9, 7, "aa", until=0),
]
CHUNKS = [
    Chunk(at, data, digest)
    for at in (0, 1, 127, 128, 2**32, BIG)
    for data in (b"", b"x", b"\x12\x00" * 100, bytes(range(256)) * 300)
    for digest in (0, 1, 0xFFFFFFFF)
]
REQUESTS: list[Request] = [
    Open(STREAM, b"p" * 16, 3, "flarelog/0.1"),
    Open(STREAM, b"p" * 16, 3, "flarelog/0.1", News(7, 2**63 - 1)),
    Open(STREAM, b"p" * 16, moves=3),
    News(1_795_205_718_941, 300),
    Open(STREAM, b""),
    Receipt(BIG, 0xFFFFFFFF, 9),
    Receipt(0, 0, 0),
    Receipt(0, 0, 0, Redaction(0, 0)),
    Receipt(BIG, 0xFFFFFFFF, 9, Redaction(7, BIG)),
    *((index, mark) for index, mark in enumerate(MARKS)),
    Packed(BIG, b"payload", 0xFFFFFFFF, Codec.ZSTD, 2**32 - 1),
    Packed(0, b"", 0, Codec.ZSTD, 0),
]


@together("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_what_a_producer_says_there_and_back(request_: Request) -> None:
    assert decode_request(encode_request(request_)) == request_


@together(
    "reply",
    [
        *(Reply(code, 5, 6, 7, b"A", 8, "because", ending=True) for code in Code),
        Reply(Code.OK),
        Reply(Code.OK, BIG, 0xFFFFFFFF, BIG, bytes(range(16)), BIG),
        Reply(Code.OK, window=1 << 20),
        Reply(Code.GOING_AWAY, elsewhere=True),
        Reply(Code.OK, codecs=(Codec.ZSTD,)),
    ],
    ids=lambda reply: reply.code.name,
)
def test_what_a_receiver_says_there_and_back(reply: Reply) -> None:
    assert decode_reply(encode_reply(reply)) == reply


def test_reading_and_listing_there_and_back() -> None:
    for wanted in (
        Wanted(STREAM, BIG, True),
        Wanted(STREAM),
        Wanted(STREAM, 0, False, 0),
        Wanted(STREAM, 7, True, BIG, Sieve((b"error", b"\xc3\xa9\xff"), True, 2, 3), BIG),
        Wanted(STREAM, 7, stop=BIG, counts=0),
        Wanted(STREAM, 7, stop=BIG, counts=2**32 - 1),
    ):
        assert read_request(decode_read(encode_read(wanted))) == wanted
    assert read_request(decode_read(encode_read((STREAM, 5, True)))) == Wanted(STREAM, 5, True)
    assert decode_piece(encode_piece((3, Gap(BIG, 1, 7, "truncated")))) == (3, Gap(BIG, 1, 7, "truncated"))
    assert decode_piece(encode_piece((BIG, memoryview(b"abc")))) == (BIG, b"abc")
    counted = Counted(3 * BLOCK - 1, 7, (BLOCK, 0, 5), (b"\x1b[31m", b"", b"\xff"))
    assert decode_piece(encode_piece((9, counted))) == (9, counted)
    for listing in (Listing("run-1", "", True), Listing("r", "s", False, ("r", "s", "l"), 7, (1, 2), 750)):
        assert decode_list(encode_list(listing)) == listing
    for info in (
        StreamInfo(STREAM, 1, BIG, 7, True, tuple(MARKS)),
        StreamInfo(STREAM, 0, 0, 0, False, (), Redaction(1, 2)),
        StreamInfo(STREAM, 0, 9, 0, False, state=State(linked=False)),
        StreamInfo(STREAM, 0, 0, 0, False, unstored="2 logs are stored, and 2 is the limit"),
        StreamInfo(STREAM, 0, 0, 0, False, unstored="cannot be read: a", about="a b.log"),
        StreamInfo(STREAM, 0, 9, 0, False, state=State(True, 1.5, 0.25, 0.0, 60.0, "full", 7, BIG, -3.125)),
    ):
        assert [decode_info(encode_info(part)) for part in parts_of(info)] == [(info, 0)]
    timed = StreamInfo(STREAM, 0, 0, 0, True, (Ended(0, 0, "rotated", clock=5, at=BIG),), begun=1, grown=BIG, ended=3)
    ((again, _),) = [decode_info(encode_info(part)) for part in parts_of(timed)]
    assert (again.begun, again.grown, again.ended, again.marks[0].clock, again.marks[0].at) == (1, BIG, 3, 5, BIG)
    run = RunInfo("run-1", "ending", 1, 2, 3, 4, BIG, 6, 7, BIG, job="mnist, 50%", lost=9)
    assert decode_run_info(encode_run_info(run)) == run
    endless = decode_run_info(encode_run_info(RunInfo("run-1", lost=3 << 63)))
    assert endless.lost == BIG  # the sum of what peers tell
    assert decode_list_runs(encode_list_runs("run-1")) == "run-1"
    many = StreamInfo(STREAM, 0, 0, 0, False, tuple(MARKS) * 1000)
    parts = list(parts_of(many))
    assert all(len(encode_info(part)) < MAX_MESSAGE for part in parts)
    assert tuple(mark for part, _ in parts for mark in part.marks) == many.marks
    fat = StreamInfo(STREAM, 0, 0, 0, False, (Gap(0, 0, 1, "𝄞" * MAX_TEXT),) * 1000)
    parts = list(parts_of(fat))
    assert all(len(encode_info(part)) < 400_000 for part in parts)  # several lists of them must fit into memory
    assert [first for _, first in parts] == [sum(len(part.marks) for part, _ in parts[:n]) for n in range(len(parts))]


# --- chunks, which are encoded by hand


def generated(chunk: Chunk) -> bytes:
    message = pb.PushRequest(chunk=pb.Chunk(offset=chunk.offset, digest=chunk.digest, data=bytes(chunk.data)))
    message.chunk.SetInParent()
    return message.SerializeToString()


def test_the_generated_code_reads_chunks_that_were_written_by_hand() -> None:
    for chunk in CHUNKS:
        message = pb.PushRequest.FromString(encode_request(chunk))
        assert message.WhichOneof("message") == "chunk"
        assert Chunk(message.chunk.offset, message.chunk.data, message.chunk.digest) == chunk


def test_chunks_written_by_the_generated_code_are_read_by_hand() -> None:
    for chunk in CHUNKS:
        assert decode_request(generated(chunk)) == chunk
        assert decode_request(encode_request(chunk)) == chunk


def test_a_chunk_without_default_values_is_the_same_bytes_either_way() -> None:
    full = [chunk for chunk in CHUNKS if chunk.offset and chunk.digest and chunk.data]
    assert full
    for chunk in full:
        assert encode_request(chunk) == generated(chunk)


def test_a_payload_is_taken_from_the_message_without_a_copy() -> None:
    raw = encode_request(Chunk(5, b"payload", 6))
    chunk = decode_request(raw)
    assert isinstance(chunk, Chunk)
    assert isinstance(chunk.data, memoryview)
    assert chunk.data.obj is raw


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_a_payload_may_be_any_buffer(view: type[bytes]) -> None:
    assert decode_request(encode_request(Chunk(5, view(b"payload"), 6))) == Chunk(5, b"payload", 6)


# --- versions

UNKNOWN_FIELD = b"\x9a\x3f\x03new"  # field number 1011, three bytes


@together("request_", [*REQUESTS, Chunk(5, b"abc", 6)], ids=lambda request: type(request).__name__)
def test_unknown_fields_of_a_request_are_ignored(request_: Request) -> None:
    assert decode_request(encode_request(request_) + UNKNOWN_FIELD) == request_
    assert decode_request(UNKNOWN_FIELD + encode_request(request_)) == request_


@pytest.mark.parametrize("mark", [MARKS[-1], Unread(5, 7, "cannot be read: Permission denied")])
def test_an_older_version_takes_a_newer_mark_for_one_that_says_nothing(mark: Mark) -> None:
    message = pb.PushRequest.FromString(encode_request((3, mark)))
    assert message.mark.mark.WhichOneof("kind") == "attributes"
    assert message.mark.mark.attributes.words == ""


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("cannot be read: \x1b[2J", "cannot be read: \\x1b[2J"),
        ("cannot be read in the store: x", "cannot be read: cannot be read in the store: x"),
        (f"cannot be listed: {'x' * 400}", f"cannot be listed: {'x' * 279}..."),
    ],
    ids=["hostile", "as-the-receiver's-own", "long"],
)
def test_the_reason_why_a_log_cannot_be_read_is_fit_to_be_shown(said: str, kept: str) -> None:
    assert decode_request(encode_request((3, Unread(5, 7, said)))) == (3, Unread(5, 7, kept))


def test_what_a_later_version_may_say_of_memory_is_not_taken_over() -> None:
    message = pb.PushRequest.FromString(encode_request((3, MARKS[-1])))
    message.mark.mark.exit.oom = "perhaps"
    _, mark = cast("tuple[int, Mark]", decode_request(message.SerializeToString()))
    assert isinstance(mark, Exit)
    assert mark.oom == ""


def test_unknown_fields_within_a_chunk_are_ignored() -> None:
    inner = pb.Chunk(offset=5, digest=6, data=b"abc").SerializeToString() + UNKNOWN_FIELD
    assert decode_request(b"\x12%c%b" % (len(inner), inner)) == Chunk(5, b"abc", 6)
    inner = UNKNOWN_FIELD + pb.Chunk(offset=5, digest=6, data=b"abc").SerializeToString()
    assert decode_request(b"\x12%c%b" % (len(inner), inner)) == Chunk(5, b"abc", 6)


def test_a_chunk_that_is_compressed_has_its_payload_last_and_one_that_is_not_says_nothing_of_it() -> None:
    raw = encode_request(Packed(5, b"payload", 7, Codec.ZSTD, 300))
    assert raw.endswith(b"\x18\x01\x20\xac\x02\x7a\x07payload")
    chunk = pb.PushRequest.FromString(encode_request(Chunk(5, b"payload", 7))).chunk
    assert (chunk.codec, chunk.raw_length) == (0, 0)


def test_a_codec_that_is_not_known_is_refused_in_a_chunk_and_passed_over_in_a_reply() -> None:
    message = pb.PushRequest()
    message.chunk.offset, message.chunk.codec = 5, 7  # type: ignore[assignment]
    with pytest.raises(Malformed, match="chunk at offset 5 is compressed by codec 7, which this version does not know"):
        decode_request(message.SerializeToString())
    reply = pb.Reply(code=pb.OK, codecs=[9, 1, 0, 1, 77])  # type: ignore[list-item]
    assert decode_reply(reply.SerializeToString()).codecs == (Codec.ZSTD,)


def test_an_older_peer_that_knows_no_codecs_is_understood() -> None:
    assert decode_reply(pb.Reply(code=pb.OK, committed=5).SerializeToString()).codecs == ()


def test_unknown_fields_of_a_reply_are_ignored() -> None:
    assert decode_reply(encode_reply(Reply(Code.OK, 5)) + UNKNOWN_FIELD) == Reply(Code.OK, 5)


@pytest.mark.parametrize("major", [0, 2, 99])
def test_another_major_version_is_refused_in_a_sentence_whatever_its_streams_are_called(major: int) -> None:
    message = pb.PushRequest(open=pb.Open(version=pb.Version(major=major), stream=pb.StreamId(run="../..")))
    with pytest.raises(Malformed) as raised:
        decode_request(message.SerializeToString())
    assert str(raised.value) == (
        f"the producer speaks version {major} of the protocol, this receiver version 1;"
        " install matching versions of flarelog"
    )


@pytest.mark.parametrize("code", [0, 10, 99])
def test_a_code_that_is_not_known_counts_as_rejected(code: int) -> None:
    raw = pb.Reply(code=code, committed=5, reason="newer").SerializeToString()  # type: ignore[arg-type]  # an int
    reply = decode_reply(raw)
    assert (reply.code, reply.committed) == (Code.REJECTED, 5)
    assert reply.reason == f"code {code} is unknown; newer"


# --- malformed messages


@together(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(UNKNOWN_FIELD, id="only-what-a-later-version-knows"),
        pytest.param(b"\x12", id="a-tag-alone"),
        pytest.param(b"\x12\x05\x08\x01", id="a-chunk-cut-short"),
        pytest.param(b"\x12" + b"\xff" * 12, id="a-length-without-end"),
        pytest.param(b"\x12\x02\x08\xff", id="an-offset-without-end"),
        pytest.param(b"\x12\x09\x08\x01\x15\0\0\0\0\x7a\x05", id="a-payload-shorter-than-it-says"),
        pytest.param(b"\x1a\x04\x08\x00\x12\x00", id="a-mark-of-no-kind"),
        pytest.param(b"\xff" * 64, id="all-ones"),
        pytest.param(bytes(64), id="all-zeros"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another-protocol"),
    ],
)
def test_what_is_no_request(raw: bytes) -> None:
    with pytest.raises(Malformed):
        decode_request(raw)


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(lambda text: Generation(0, 0, "", 0, text), id="identity"),
        pytest.param(lambda text: Generation(0, 0, text, 0, ""), id="path"),
        pytest.param(lambda text: Ended(0, 0, text), id="end"),
        pytest.param(lambda text: Gap(0, 0, 0, text), id="gap"),
    ],
)
def test_a_text_in_a_mark_is_bounded(mark: Callable[[str], Mark]) -> None:
    longest = mark("x" * MAX_TEXT)
    assert decode_request(encode_request((0, longest))) == (0, longest)
    for text in ("x" * (MAX_TEXT + 1), "\x1b" * MAX_TEXT):  # a journal may hold longer texts from an older version
        _, sent = cast("tuple[int, Mark]", decode_request(encode_request((0, mark(text)))))
        assert any(value == legible(text, MAX_TEXT) for value in asdict(sent).values())


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param(lambda text: pb.Mark(generation=pb.Generation(path=text)), id="path"),
        pytest.param(lambda text: pb.Mark(generation=pb.Generation(identity=text)), id="identity"),
        pytest.param(lambda text: pb.Mark(ended=pb.Ended(reason=text)), id="end"),
        pytest.param(lambda text: pb.Mark(gap=pb.Gap(reason=text)), id="gap"),
    ],
)
def test_a_text_in_a_mark_that_is_longer_is_refused_whoever_sends_it(mark: Callable[[str], pb.Mark]) -> None:
    message = pb.PushRequest(mark=pb.MarkAt(mark=mark("x" * (MAX_TEXT + 1))))
    with pytest.raises(Malformed, match=f"more than {MAX_TEXT} characters"):
        decode_request(message.SerializeToString())


@together(
    ("name", "path"),
    [
        pytest.param(b"app.log.1", "app.log.1", id="ascii"),
        pytest.param("größe.log".encode(), "größe.log", id="utf-8"),
        pytest.param(b"app.log.\xe9", "app.log.\\xe9", id="latin-1"),
        pytest.param(b"\xff\xfe/\xed\xa0\x80", "\\xff\\xfe/\\xed\\xa0\\x80", id="no-text-at-all"),
        pytest.param(b"d" * 4000, "d" * 1021 + "...", id="longer-than-a-mark-may-say"),
        pytest.param(b"\xff" * 4000, ("\\xff" * 256)[:1021] + "...", id="longer-once-it-is-written-out"),
    ],
)
def test_a_mark_tells_of_a_file_whatever_its_name_is(name: bytes, path: str) -> None:
    mark = Generation(7, 1, os.fsdecode(name), 12, "fh:0102")
    assert decode_request(encode_request((3, mark))) == (3, replace(mark, path=path))


def test_a_refusal_that_names_a_file_can_be_sent() -> None:
    error = Unavailable(os.fsdecode(b"/logs/\xe9 could not be opened"))
    assert str(error) == r"/logs/\xe9 could not be opened"
    assert decode_reply(encode_reply(Reply(Code.PAUSE, reason=str(error)))).reason == str(error)


@pytest.mark.parametrize(
    "stream",
    [("..", "site-1", "log.txt"), ("run-1", "", "log.txt"), ("run-1", "site-1", "/etc/passwd")],
)
def test_an_open_of_a_stream_that_cannot_be_named_so_says_which_name(stream: tuple[str, str, str]) -> None:
    message = pb.PushRequest(open=pb.Open(version=pb.Version(major=1), stream=pb.StreamId()))
    message.open.stream.run, message.open.stream.site, message.open.stream.log = stream
    with pytest.raises(InvalidName, match="name"):
        decode_request(message.SerializeToString())


def request_or_refusal(raw: bytes) -> Request | None:
    try:
        return decode_request(raw)
    except (Malformed, InvalidName):
        return None


def test_any_bytes_are_a_request_or_malformed_and_nothing_else() -> None:
    rng = random.Random(2)
    samples = [encode_request(request) for request in [*REQUESTS, *CHUNKS[:12]]]
    for _ in range(often(8_000, 20_000)):
        raw = (
            bytearray(rng.choice(samples)[:200]) if rng.random() < 0.7 else bytearray(rng.randbytes(rng.randint(0, 40)))
        )
        for _ in range(rng.randint(0, 4)):
            if raw:
                raw[rng.randrange(len(raw))] = rng.randrange(256)
        found = request_or_refusal(bytes(raw))
        if isinstance(found, Chunk):  # the handwritten decoder agrees with the generated code
            chunk = pb.PushRequest.FromString(bytes(raw)).chunk
            assert found == Chunk(chunk.offset, chunk.data, chunk.digest), raw


def test_a_message_cut_short_is_never_taken_for_another() -> None:
    for request in [*REQUESTS, *(chunk for chunk in CHUNKS if len(chunk.data) < 300)]:
        raw = encode_request(request)
        for end in range(len(raw)):
            assert request_or_refusal(raw[:end]) is None


def test_any_bytes_are_a_reply_or_malformed_and_nothing_else() -> None:
    rng = random.Random(3)
    for _ in range(5_000):
        try:
            decode_reply(rng.randbytes(rng.randint(0, 40)))
        except Malformed:
            continue
    with pytest.raises(Malformed, match="is not a Reply"):
        decode_reply(b"\xff" * 8)


def test_an_offset_that_the_generated_code_cuts_to_64_bits_means_the_same_by_hand() -> None:
    huge = b"\xff" * 9 + b"\x7f"  # 70 bits
    inner = b"\x08" + huge + b"\x15" + bytes(4) + b"\x7a\x01x"
    raw = b"\x12%c%b" % (len(inner), inner)
    found = decode_request(raw)
    assert isinstance(found, Chunk)
    assert found.offset == pb.PushRequest.FromString(raw).chunk.offset == 2**64 - 1


@together(
    ("begin", "counted"),
    [
        pytest.param(0, Counted(2 * BLOCK, 0, (1,), (b"",)), id="too-few-stretches"),
        pytest.param(0, Counted(BLOCK, 0, (1, 1), (b"", b"")), id="too-many-stretches"),
        pytest.param(BLOCK - 1, Counted(BLOCK + 1, 0, (1,), (b"",)), id="of-two-blocks"),
        pytest.param(0, Counted(BLOCK, 0, (1,), ()), id="colours-are-missing"),
        pytest.param(0, Counted(BLOCK, 0, (BLOCK + 1,), (b"",)), id="more-lines-than-bytes"),
        pytest.param(5, Counted(5, 0, (), ()), id="of-nothing"),
        pytest.param(BLOCK, Counted(5, 0, (), ()), id="backwards"),
        pytest.param(0, Counted(2**63, 0, (1,), (b"",)), id="behind-all-offsets"),
    ],
)
def test_counts_that_are_not_of_the_bytes_that_were_asked_for_are_malformed(begin: int, counted: Counted) -> None:
    with pytest.raises(Malformed):
        decode_piece(encode_piece((begin, counted)))


@together(
    "said",
    [
        pytest.param(lambda: decode_reply(pb.Reply(committed=2**63).SerializeToString()), id="a-reply"),
        pytest.param(lambda: decode_reply(pb.Reply(marks=2**63).SerializeToString()), id="its-marks"),
        pytest.param(lambda: decode_request(encode_request((0, Ended(2**63, 0, "")))), id="a-mark"),
        pytest.param(
            lambda: decode_request(encode_request((0, Generation(0, 0, "", 2**63, "")))),
            id="a-source-offset",
        ),
        pytest.param(lambda: decode_request(encode_request((0, Gap(0, 0, 2**63, "")))), id="a-gap"),
        pytest.param(lambda: read_request(pb.ReadRequest(start=2**63)), id="where-to-read"),
        pytest.param(lambda: read_request(pb.ReadRequest(first_mark=2**63)), id="which-mark-to-read"),
        pytest.param(lambda: decode_piece(pb.ReadResponse(offset=2**63).SerializeToString()), id="a-piece"),
        pytest.param(lambda: decode_info(pb.StreamInfo(committed=2**63).SerializeToString()), id="a-record"),
        pytest.param(lambda: decode_request(encode_request(Receipt(0, 0, 0, Redaction(2**63, 0)))), id="masks"),
    ],
)
def test_an_offset_that_no_file_can_have_is_malformed(said: Callable[[], object]) -> None:
    with pytest.raises(Malformed):
        said()


@together(
    "decode",
    [
        *(decode_read, decode_piece, decode_list, decode_info, decode_run),
        *(decode_list_runs, decode_run_info, decode_remove),
        *(decode_timeline, decode_moments),
    ],
)
def test_what_is_no_message_of_another_call_is_malformed_too(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(Malformed, match="a message of 8 bytes is no"):
        decode(b"\xff" * 8)


def test_an_answer_that_is_no_reply_is_a_value_because_grpc_would_log_an_exception() -> None:
    assert isinstance(several.replies_or_malformed(b"\xff" * 8), Malformed)
    assert several.replies_or_malformed(encode_reply(Reply(Code.OK, 5))) == [Reply(Code.OK, 5)]


# --- statuses


@together(
    ("error", "status"),
    [
        (InvalidName("bad"), grpc.StatusCode.INVALID_ARGUMENT),
        (Malformed("bad"), grpc.StatusCode.INVALID_ARGUMENT),
        (NotFound("gone"), grpc.StatusCode.NOT_FOUND),
        (InUse("open"), grpc.StatusCode.FAILED_PRECONDITION),
        (Unavailable("hangs"), grpc.StatusCode.UNAVAILABLE),
        (Unreadable("its file is gone"), grpc.StatusCode.DATA_LOSS),
        (NotAllowed("no"), grpc.StatusCode.PERMISSION_DENIED),
        (StreamRejected("no", offset=3), grpc.StatusCode.INTERNAL),
    ],
)
def test_an_error_travels_as_a_status(error: FlarelogError, status: grpc.StatusCode) -> None:
    assert statuses.status_of(error) is status


def failed(status: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(status, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


HERE = "127.0.0.1:4721"
MANY = "9 calls of ipv4:10.0.0.7 are open, at most 9 are taken: wait until one has ended, or start the receiver anew"
RESOLVING = "errors resolving r.example:1: [field:hostname lookup error:"
C_ARES, NATIVE = "address lookup failed for r.example:1: ", "Address lookup failed for r.example:1 os_error: "


@together(
    ("details", "cause"),
    [
        pytest.param(MANY, MANY, id="a-sentence-of-flarelogs"),
        pytest.param(
            f"failed to connect to all addresses; last error: UNKNOWN: ipv4:{HERE}: Failed to connect to remote host:"
            " connect: Connection refused (111)",
            "Connection refused: no program listens there",
            id="what-grpc-wraps-often",
        ),
        pytest.param(
            "failed to connect to all addresses; last error: UNKNOWN: ipv6:%5B::1%5D:1: Failed to connect to remote"
            " host: getsockopt(SO_ERROR): Connection reset by peer",
            "Connection reset by peer",
            id="an-address-with-colons",
        ),
        pytest.param(
            f"connect failed: addr: ipv4:{HERE} error: Network is unreachable",
            "Network is unreachable",
            id="an-address-that-has-no-route",
        ),
        pytest.param(
            f"failed to connect to all addresses; last error: UNAVAILABLE: ipv4:{HERE}: Socket closed",
            "the connection was closed",
            id="what-grpc-wraps",
        ),
        pytest.param("Stream removed (Socket closed)", "the connection was closed", id="a-connection-that-breaks"),
        pytest.param(
            "Stream removed (Delayed close due to in-progress write (Socket closed))",
            "the connection was closed",
            id="a-connection-that-breaks-while-it-writes",
        ),
        pytest.param(
            "Stream removed (recvmsg:Connection reset by peer)", "Connection reset by peer", id="a-connection-reset"
        ),
        *(
            pytest.param(text, "Connection reset by peer", id=f"without-its-number-{number}")
            for number, text in enumerate(
                (
                    "Connection reset by peer (104)",
                    "recvmsg:Connection reset by peer (104)",
                    f"failed to connect to all addresses; last error: UNKNOWN: ipv4:{HERE}: recvmsg:Connection reset by"
                    " peer (104)",
                )
            )
        ),
        pytest.param("Socket is odd (104)", "Socket is odd (104)", id="another-number"),
        pytest.param(
            "Stream removed (sendmsg: Broken pipe (32))", "Broken pipe", id="a-write-to-a-connection-that-broke"
        ),
        *(
            pytest.param(text, "the connection was closed", id=f"closed-{number}")
            for number, text in enumerate(
                (
                    "Cancelling all calls",
                    "Stream removed (Socket closed (GOAWAY received; Error code: 2; Debug Text: Cancelling all calls))",
                    "Stream removed (GOAWAY received; Error code: 0; Debug Text: )",
                    "GOAWAY received",
                    "Stream removed (RST_STREAM (Received RST_STREAM with error code 7))",
                    "Received RST_STREAM with error code 2",
                    "Last stream closed after sending GOAWAY",
                    "FD Shutdown",
                    "Transport closed",
                    "Endpoint closing",
                    f"failed to connect to all addresses; last error: UNKNOWN: ipv4:{HERE}: Handshake read failed"
                    " (Socket closed)",
                )
            )
        ),
        pytest.param(
            "Stream removed (GOAWAY received; Error code: 0; Debug Text: session_timed_out)",
            "the connection was closed; gRPC reports 'session_timed_out'",
            id="what-a-proxy-says",
        ),
        pytest.param("Stream removed (ping timeout)", "it no longer answers", id="a-peer-that-was-stopped"),
        pytest.param("keepalive watchdog timeout", "it no longer answers", id="the-same-of-an-older-grpc"),
        pytest.param(
            "Received http2 header with status: 502",
            "the answer is HTTP status 502: check the port, and proxies before it",
            id="a-proxy-without-a-receiver",
        ),
        pytest.param(
            "failed to connect to all addresses; last error: UNKNOWN: unix:/run/r.sock: No such file or directory",
            "No such file or directory",
            id="a-socket",
        ),
        *(
            pytest.param(f"{RESOLVING}{words}]", f"the name r.example was not found{more}", id=f"no-such-host-{number}")
            for number, (words, more) in enumerate(
                (
                    (f"{C_ARES}Domain name not found", ""),
                    (f"{NATIVE}Name or service not known syscall: getaddrinfo", ""),
                    (f"{C_ARES}Could not contact DNS servers", ": no DNS server answered"),
                    (f"{NATIVE}Temporary failure in name resolution syscall: getaddrinfo", ": no DNS server answered"),
                    (f"{NATIVE}System error syscall: getaddrinfo", ": System error"),
                )
            )
        ),
        pytest.param(
            f"failed to connect to all addresses; last error: UNKNOWN: ipv4:{HERE}: tcp handshaker shutdown",
            "no answer: check the address, and allow this machine to connect to that port in the firewall",
            id="an-address-that-drops-packets",
        ),
        pytest.param(
            f"failed to connect to all addresses; last error: UNKNOWN: ipv4:{HERE}: Frobnicator stalled",
            "the connection failed; gRPC reports 'Frobnicator stalled'",
            id="words-of-grpc-that-nobody-knows",
        ),
        pytest.param(
            f"failed to connect to all addresses; last error: INTERNAL: ipv4:{HERE}: Failed parsing HTTP/2 (Expected"
            " SETTINGS frame as the first frame, got frame type 79)",
            "the program at this port does not speak gRPC: check the port",
            id="a-web-server",
        ),
        pytest.param("connection: reset", "connection: reset", id="what-nobody-knows"),
        pytest.param("a\x1b]0;b\x07\nc", r"a\x1b]0;b\x07\nc", id="what-drives-a-terminal"),
        pytest.param("", "UNAVAILABLE", id="nothing"),
    ],
)
def test_the_cause_of_a_failed_call_is_told_whole(details: str, cause: str) -> None:
    error = statuses.error_of(failed(grpc.StatusCode.UNAVAILABLE, details), HERE)
    silent = cause == "it no longer answers"
    assert (type(error), str(error)) == (NoAnswer if silent else CannotConnect, f"no connection to {HERE}: {cause}")


FAR, ITS_PROXY = "r.example:4721", "https_proxy=http://p.example:3128"


@together(
    ("details", "cause"),
    [
        (
            "UNKNOWN: ipv4:10.0.0.1:3128: HTTP proxy returned response code 403",
            "it refuses the connection (status 403)",
        ),
        ("UNKNOWN: ipv4:10.0.0.1:3128: HTTP proxy returned response code 502", "it cannot reach the receiver"),
        (
            "UNKNOWN: ipv4:10.0.0.1:3128: Failed to connect to remote host: Connection refused",
            "the proxy cannot be reached: Connection refused: no program listens there",
        ),
        ("UNAVAILABLE: ipv4:10.0.0.1:3128: Endpoint closing", "the proxy accepts connections, but does not answer"),
        ("UNKNOWN: ipv4:10.0.0.1:3128: Expected 'H'", "the program at the proxy's port is no HTTP proxy"),
        ("UNAVAILABLE: ipv4:10.0.0.1:3128: Socket closed", "the connection was closed"),
    ],
)
def test_a_failure_on_the_way_through_a_proxy_names_the_proxy_its_variable_and_no_proxy(
    details: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://user:secret@p.example:3128")
    wrapped = f"failed to connect to all addresses; last error: {details}"
    for proxy, source, instead in (
        ("", ITS_PROXY, "no_proxy=r.example"),
        ("p2.example:80", "--proxy=http://p2.example:80", "--proxy off"),
    ):
        error = statuses.error_of(failed(grpc.StatusCode.UNAVAILABLE, wrapped), FAR, proxy)
        assert error.retry_safe
        assert str(error).startswith(f"no connection to {FAR} through the proxy {source}: {cause}"), str(error)
        assert str(error).endswith(f"; to connect without the proxy, set {instead}"), str(error)
        assert "secret" not in str(error)
    assert ITS_PROXY in str(statuses.late_answer(FAR))
    lost = str(statuses.error_of(failed(grpc.StatusCode.UNAVAILABLE, MANY), FAR))
    assert lost == f"no connection to {FAR}: {MANY}"  # the receiver's own answer: the proxy let it through


@pytest.mark.parametrize(
    "details",
    [
        pytest.param("connection attempt timed out before receiving SETTINGS frame", id="plain"),
        pytest.param("Handshake read failed (Endpoint closing)", id="tls"),
    ],
)
def test_a_port_that_accepts_and_never_answers_is_told_without_the_words_of_grpc(details: str) -> None:
    wrapped = f"failed to connect to all addresses; last error: UNKNOWN: ipv4:{HERE}: {details}"
    error = statuses.error_of(failed(grpc.StatusCode.UNAVAILABLE, wrapped), HERE)
    check = "check the port, and that the receiver there is neither stopped nor overloaded"
    assert (type(error), str(error)) == (CannotConnect, f"{HERE} accepts connections, but does not answer: {check}")
    late = statuses.error_of(failed(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"), HERE)
    assert str(late) == f"{HERE} did not answer in time: {check}"


@together(
    ("status", "details", "kind", "again"),
    [
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", TimedOut, True),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls", CannotConnect, True),
        (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "CLIENT: Received message larger than max (5 vs. 4)",
            StreamRejected,
            False,
        ),
        (grpc.StatusCode.UNKNOWN, "", CannotConnect, True),
        (grpc.StatusCode.UNAVAILABLE, "max connection age", ConnectionAged, True),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", CannotConnect, True),
        (grpc.StatusCode.PERMISSION_DENIED, "no", NotAllowed, False),
        (grpc.StatusCode.PERMISSION_DENIED, "Received http2 header with status: 403", CannotConnect, True),
        (grpc.StatusCode.UNIMPLEMENTED, "Received http2 header with status: 404", CannotConnect, True),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found!", NotAReceiver, False),
        (grpc.StatusCode.NOT_FOUND, "gone", NotFound, False),
        (grpc.StatusCode.DATA_LOSS, "its file is gone", Unreadable, False),
    ],
)
def test_which_failed_calls_are_made_again(
    status: grpc.StatusCode, details: str, kind: type[FlarelogError], again: bool
) -> None:
    error = statuses.error_of(failed(status, details), HERE)
    assert (type(error), error.retry_safe) == (kind, again)
