"""What any bytes may do to each parser and each state machine: give a value, or one of flarelog's own errors.

A target is a function of bytes that raises for nothing but a broken law. It holds no state from one call to the next,
waits for nothing, and opens no file but the one that its parser reads. ``SEEDS`` are what real ends write.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import posixpath
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import zip_longest
from typing import Any
from unittest import mock

from flarelog import globs as matching
from flarelog import policy as policies
from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.delivery.producer import DeliveryOptions, Producer, State
from flarelog.delivery.receiver import KNOWN, Epochs, Holder, Receiver, Refused
from flarelog.errors import (
    Fenced,
    InvalidName,
    InvalidOption,
    NotAllowed,
    ReceiverNotReady,
    StreamFenced,
    StreamRejected,
)
from flarelog.lines.choose import moment
from flarelog.lines.line import Line, Note
from flarelog.lines.merge import Blocks
from flarelog.lines.sgr import highlighted, plain
from flarelog.lines.times import rfc3339, shown, stamp
from flarelog.model import (
    MAX_OFFSET,
    Action,
    Chunk,
    Code,
    Codec,
    Gap,
    Mark,
    News,
    Open,
    Packed,
    Receipt,
    Redaction,
    Reply,
    StreamId,
    StreamInfo,
)
from flarelog.names import is_cut, log_name, log_of, parse_address, path_of, run_name, site_name
from flarelog.policy import Identity, Policy, Role
from flarelog.receiver import phases
from flarelog.records import stream_record
from flarelog.render import allowance, screen
from flarelog.render.container import FORMS, Renderer, parse
from flarelog.render.counting import Counted
from flarelog.render.rows import Overlong
from flarelog.render.screen import Screen
from flarelog.render.sieve import Sieve
from flarelog.render.sieving import _MOVES, Sieving
from flarelog.security import tokens as secrets
from flarelog.security.guard import bearer
from flarelog.security.refusals import address_of
from flarelog.sources import consent
from flarelog.sources.files import patterns, record
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.sources.redaction import mask
from flarelog.sources.redaction import patterns as own
from flarelog.sources.redaction.mask import NAMES, Rules
from flarelog.sources.redaction.secret import find
from flarelog.stores.local import journal as journals
from flarelog.stores.local.store import LocalStore
from flarelog.stores.marks import mark_line
from flarelog.stores.moments import Happening, Moment, arrivals
from flarelog.stores.runs import run_line
from flarelog.v1 import log_pb2 as pb
from flarelog.viewers import standings
from flarelog.viewers.lanes import lanes_of, lanes_record
from flarelog.wire import packing as compression
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.lists import Listing, decode_info, decode_list, encode_info, encode_list, parts_of
from flarelog.wire.codec.push import Request
from flarelog.wire.codec.reads import decode_piece, decode_read, encode_piece, encode_read, read_request
from flarelog.wire.codec.replies import encode_reply
from flarelog.wire.codec.runs import decode_receiver, decode_run, encode_receiver, encode_run
from flarelog.wire.codec.timeline import Times, decode_moments, decode_timeline, encode_moments, encode_timeline
from fuzz import certificates, sessions
from fuzz.steps import MARKS, STREAM, Steps, hold
from tests.messages import decode_reply, decode_request, encode_request

MARKED = bytes(range(256)) * 4
BUCKETS_DRAWN, LONGEST_LANES = 60, 200_000  # of a lane; characters of what a page is told
NOW_MS = 1_795_363_719_123
UNPACKED = 1 << 14  # bytes that a frame may have here: a megabyte a try is slow

# --- the wire


def request(raw: bytes) -> None:
    """A PushRequest: read by hand or not it means the same, and it survives being written again."""
    try:
        found = decode_request(raw)
    except (Malformed, InvalidName):
        return
    message = pb.PushRequest.FromString(raw)
    if isinstance(found, Chunk):
        chunk = message.chunk
        hold(found == Chunk(chunk.offset, chunk.data, chunk.digest) and not chunk.codec, found)
    elif isinstance(found, Packed):
        hold((found.data, found.raw_length) == (message.chunk.data, message.chunk.raw_length), found)
    elif isinstance(found, Open):
        hold((found.stream.log, found.producer) == (message.open.stream.log, message.open.producer), found)
    again = decode_request(encode_request(found))
    hold(again == found, (found, again))


def unpacking(raw: bytes) -> None:
    """Two bytes of length and any frame, as it is and with the length that it says itself: that many bytes, or why not;
    and never more at a time.
    """
    length, data = int.from_bytes(raw[:2], "big"), raw[2:]
    says = _content_size(data)
    for size in (length, says):
        try:
            found = compression.decompress(data, size, UNPACKED)
        except Refused as refused:
            hold(refused.code in (Code.CORRUPT, Code.REJECTED) and "\n" not in str(refused), str(refused))
        else:
            hold(len(found) == size == says <= UNPACKED, (len(found), size, says))


def _content_size(data: bytes) -> int:
    try:
        return _zstd.get_frame_info(data).decompressed_size or 0
    except _zstd.ZstdError:
        return 0


_zstd: Any = vars(compression)["zstd"]


def reply(raw: bytes) -> None:
    try:
        found = decode_reply(raw)
    except Malformed:
        return
    hold(decode_reply(encode_reply(found)) == found, found)
    hold(0 <= found.committed <= MAX_OFFSET and found.idle_timeout >= 0, found)


def reading(raw: bytes) -> None:
    """Read, List and the calls of a run, as both ends of them hear it."""
    ways: list[tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = [
        (lambda raw: read_request(decode_read(raw)), encode_read),
        (decode_piece, encode_piece),
        (decode_list, encode_list),
        (decode_run, encode_run),
        (decode_receiver, encode_receiver),
    ]
    for decode, encode in ways:
        try:
            found = decode(raw)
        except (Malformed, InvalidName):
            continue
        hold(decode(encode(found)) == found, found)


def info(raw: bytes) -> None:
    """What a receiver says of a stream: a sidecar draws its conclusions from it, and ``flarelog streams`` shows it."""
    try:
        found, first = decode_info(raw)
    except (Malformed, InvalidName):
        return
    hold(decode_info(encode_info((found, first))) == (found, first), found)
    conclude(found)


def timeline(raw: bytes) -> None:
    """What a receiver tells of a run over time: the page and a report draw lanes of it, and merge logs by it."""
    with contextlib.suppress(Malformed):
        asked = decode_timeline(raw)
        hold(decode_timeline(encode_timeline(asked)) == asked, asked)
    try:
        found = decode_moments(raw)
    except (Malformed, InvalidName):
        return
    if found:
        hold(decode_moments(encode_moments(found)) == found, found)
    found.sort(key=lambda one: one.at)
    drawn = lanes_of(found, buckets=BUCKETS_DRAWN, now=NOW_MS)
    hold(len(drawn.lanes) <= 1 and all(len(lane.density) == BUCKETS_DRAWN for lane in drawn.lanes), found)
    told = json.dumps(lanes_record(drawn, [(NOW_MS, "Round 1")]))
    hold(len(told) <= LONGEST_LANES, len(told))
    for stretch in (each for lane in drawn.lanes for each in lane.stretches):
        hold(drawn.begin <= stretch.begin <= stretch.end <= drawn.end, stretch)
    for points in arrivals(found).values():
        hold(all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(points)), points)


def conclude(found: StreamInfo) -> None:
    """Everything that reads a record."""
    json.dumps(stream_record(found))
    standings.of_site([found])
    standings.summary([found])
    phases.lag(found)
    record.shipped(found)
    record.wholes(found)
    record.may_have_grown(found)


# --- what lies in files


def journal(raw: bytes) -> None:
    """Any journal: the first byte says how many marks a stream may have; then as it is, and with checksums that fit."""
    most, raw = (raw[0], raw[1:]) if raw else (0, raw)
    bounds = vars(journals)
    usual, bounds["MAX_MARKS"] = bounds["MAX_MARKS"], most
    try:
        for text in (raw, b"".join(signed(line) for line in raw.split(b"\n"))):
            _journal(text, most)
    finally:
        bounds["MAX_MARKS"] = usual


def signed(body: bytes) -> bytes:
    """*body* as a line of a journal; a line that has a checksum gets one that fits."""
    body = body[9:] if re.match(rb"[0-9a-f]{8} ", body) else body
    return b"%08x %s\n" % (extend(0, body), body)


def _journal(raw: bytes, most: int) -> None:
    found = journals.replay(raw)
    hold(len(found.marks) <= most, len(found.marks))
    hold(len(found.holder.producers) <= KNOWN, found.holder)
    lengths = [length for length, _ in found.lengths]
    hold(lengths == sorted(set(lengths)) and found.committed >= 0, lengths)
    hold(len(journals.holder_of(raw).producers) <= KNOWN, "holder_of")
    compacted = found.compacted()
    again = journals.replay(compacted)
    hold(said(again) == said(found), (found, again))
    hold(again.damaged == 0, compacted)
    hold(journals.holder_of(compacted) == found.holder, found.holder)
    hold(replace_lines(again.compacted()) == replace_lines(compacted), compacted)
    if found.stream is not None:
        whole = StreamInfo(found.stream, 0, found.committed, found.digest, found.sealed, tuple(found.marks))
        for part in parts_of(whole):
            encode_info(part)
        conclude(whole)


def said(found: journals.Journal) -> tuple[object, ...]:
    return found.stream, found.committed, found.digest, found.marks, found.holder, found.sealed


def replace_lines(raw: bytes) -> list[bytes]:
    """The lines but those of lengths, of which fewer may say the same."""
    return [line for line in raw.split(b"\n") if b'"t":"length"' not in line]


_state = tempfile.TemporaryDirectory(prefix="flarelog-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


def checkpoint(raw: bytes) -> None:
    """Any state of a sidecar, as it is and with a checksum that fits: nothing, or logs and offsets."""
    cache = Checkpoint(_state.name, "run-1", "site-1", "receiver:1")
    for text in (raw, b"%08x %b" % (extend(0, raw), raw)):
        fd = os.open(cache.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(fd, text)
        os.close(fd)
        for name, start in cache.load().values():
            hold(log_name(name) == name and 0 <= start <= MAX_OFFSET, (name, start))


# --- names


def names(raw: bytes) -> None:
    """RUN LF SITE LF LOG LF RUN LF SITE LF LOG: two streams have different files, and these are below the root."""
    text = raw.decode(errors="surrogateescape").split("\n")
    streams = []
    for run, site, log in zip(text[0::3], text[1::3], text[2::3], strict=False):
        try:
            streams.append(StreamId(run, site, log))
            hold(is_cut(log) or log_of(path_of(log)) == log, log)
        except InvalidName:
            with contextlib.suppress(InvalidName):
                streams.append(file := StreamId.of_file("run", "site", log))
                hold(file.path == log and file.name.isprintable(), log)
            for parse, name in ((run_name, run), (site_name, site), (log_name, log)):
                try:
                    hold(parse(name) == name, name)
                except InvalidName as refused:
                    hold("\n" not in str(refused) and len(str(refused)) < 400, str(refused))
    store = LocalStore("/root-of-the-store")
    taken = {path: None for one in streams for path in (f"/root-of-the-store/{one.run}/.run.journal",)}
    owners: dict[str, StreamId | None] = {"/root-of-the-store/.lock": None, **taken}
    for stream in streams:
        for path in paths(store, stream):
            hold(posixpath.normpath(path) == path, path)
            hold(path.startswith(f"/root-of-the-store/{stream.run}/{stream.site}/"), path)
            hold(all(len(os.fsencode(part)) <= 255 for part in path.split("/")), path)
            hold(owners.setdefault(path, stream) == stream, (path, stream))


def paths(store: LocalStore, stream: StreamId) -> Iterable[str]:
    path, own = store.path(stream), store.layout.files(stream)[0]
    yield from (str(path), str(own), f"{own}.new")
    for number in (1, 10):
        aside = path.with_name(f".{path.name}.quarantine.{number}")
        yield from (str(aside), f"{aside}.old-journal")


def address(raw: bytes) -> None:
    try:
        host, port = parse_address(raw.decode(errors="surrogateescape"))
    except InvalidOption as refused:
        hold("\n" not in str(refused), str(refused))
        return
    hold(0 <= port <= 65535 and parse_address(f"{host}:{port}") == (host, port), (host, port))


def globs(raw: bytes) -> None:
    """PATTERN LF PATH: matched in time that is bounded, and by both ways of matching alike."""
    pattern, _, path = raw.decode(errors="surrogateescape").partition("\n")
    pattern, path = pattern[:100], path[:500]
    matching._patterns.clear()
    try:
        options = patterns.SourceOptions("root", (pattern,))
    except InvalidOption:
        return
    sent = options.matches(path)
    tokens = [token for token, _ in matching._tokens(pattern)]
    name = path if "/" in pattern else path.rsplit("/", 1)[-1]
    hold(sent == matching._walk(tokens)(name), (pattern, path))
    if sum(token in matching._STARS for token in tokens) <= 3 and len(name) < 60:
        expression = re.compile("".join(map(matching._text, tokens)) + r"\Z", re.DOTALL)
        hold(sent == (expression.match(name) is not None), (pattern, path))


# --- what a site does not let go

_RULES = (Rules(("all",)), Rules(("tokens",)), Rules(("keys",), (r"ID-\d+", "[a-c]+x")))
_SMALL: dict[str, Any] = {"WINDOW": 64, "OVERLAP": 16, "KEY_BLOCK": 90, "_LOOK": 8}
_OWN_SMALL: dict[str, Any] = {"WINDOW": 24, "OVERLAP": 8}


def redaction(raw: bytes) -> None:
    """HOW, AT, ROOM, then a file: it keeps its length and its line ends, and shows the same whatever is read at once,
    wherever it is cut, when it was shorter, and when it is masked again.
    """
    rules, at, room, data = _RULES[(raw[:1] or b"\0")[0] % 3], (raw[1:2] or b"\0")[0], 1 + len(raw[2:3]), raw[3:]
    with mock.patch.multiple(mask, **_SMALL), mock.patch.multiple(own, **_OWN_SMALL):
        whole, matches, masked = rules.show(lambda begin, end: data[begin:end], 0, len(data), len(data))
        hold(len(whole) == len(data), "another length")
        hold(all(a == b or (a == 42 and b not in b"\r\n") for a, b in zip(whole, data, strict=True)), "not a mask")
        hold(masked >= sum(a != b for a, b in zip(whole, data, strict=True)), masked)
        hold(matches <= masked, (matches, masked))
        part = rules.show(lambda begin, end: data[begin:end], at, room * 40, len(data))[0]
        hold(part == whole[at : at + room * 40], "it depends on what is read at once")
        before = data[: len(data) * at // 256]
        end = rules.decided(lambda begin, end: before[begin:end], 0, len(before))
        hold(end <= len(before), end)
        shown = rules.show(lambda begin, end: before[begin:end], 0, end, len(before))[0]
        hold(shown == whole[:end], "what was decided changed")
        rest = rules.show(lambda begin, end: data[begin:end], at, len(data), len(data))[0]
        first = rules.show(lambda begin, end: data[begin:end], 0, min(at, len(data)), len(data))[0]
        hold(first + rest == whole, "it depends on where it is cut")
    lines = data + b"\n"
    once = rules.show(lambda begin, end: lines[begin:end], 0, len(lines), len(lines))[0]
    again = rules.show(lambda begin, end: once[begin:end], 0, len(once), len(once))[0]
    # Where one secret's end is a part of another one, it is masked and ends nothing any more: more is masked then. So
    # it is with Digest, whose parameters say where it ends, and with addresses, whose parts are bounded.
    shaped = any(word in lines.lower() for word in (b"vate key", b"digest", b"@"))
    alone = len(set(find(lines, rules.names))) <= 1 and not rules.own and not shaped
    hold(again == once or not alone, "masked twice it is something else")


def finder(raw: bytes) -> None:
    """AT, then lines: where their secrets are, in a bounded time, each line by itself, wherever the text is cut."""
    at, text = len(raw) * (raw[:1] or b"\0")[0] // 256, raw[1:] + b"\n"
    began = time.thread_time()
    spans = sorted(set(find(text, NAMES)))
    hold(time.thread_time() - began < 1, "it takes too long")
    for begin, end in spans:
        hold(0 <= begin < end <= len(text), (begin, end))
        hold(not re.search(rb"[\r\n]", text[begin:end]), "over the end of a line")
    cut = text.find(b"\n", at) + 1 or len(text)
    if cut < len(text):
        parts = [*find(text[:cut], NAMES), *((begin + cut, end + cut) for begin, end in find(text[cut:], NAMES))]
        hold(sorted(set(parts)) == spans, "a line depends on another one")


def site_policy(raw: bytes) -> None:
    """Any file of a site: what it lets go, or a sentence on one line."""
    text = raw.decode(errors="surrogateescape")
    try:
        found = consent.parse(text, "consent.toml")
    except InvalidOption as refused:
        hold("\n" not in str(refused) and len(str(refused)) < 2500, str(refused))
        return
    hold(isinstance(found.permits("logs/a.log"), bool), found)
    if found.rules:
        data = b"password=hunter2 me@example.org token=12345678 aaaa\n"
        hold(len(found.rules.show(lambda begin, end: data[begin:end], 0, 60, len(data))[0]) == len(data), found)


# --- who may do what


def one_sentence(refused: Exception) -> None:
    hold("\n" not in str(refused) and len(str(refused)) < 1200, str(refused))  # two names, escaped


def policy(raw: bytes) -> None:
    """Any policy, a file's bytes: grants that can be asked for anything, or one sentence."""
    try:
        found = policies.parse(raw.decode())
    except UnicodeDecodeError:
        return  # whoever reads the file says so
    except InvalidOption as refused:
        one_sentence(refused)
        return
    names = {pattern for grant in found.grants for pattern in (*grant.identity, *grant.cn, *grant.san, *grant.runs)}
    for name in ("run-1", "x" * 128, *sorted(names)[:4]):
        decide(found, name)


def decide(found: Policy, name: str) -> None:
    """Every answer of a policy to somebody called *name*, of whatever kind: yes, or NotAllowed with one sentence."""
    site = Identity("certificate", name)
    both = Identity("certificate", name, (name, "a@b"), (name,), name)
    token = Identity("token", token="00112233", token_name="t", role=Role.READER, runs=(name,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a pattern that means something else than it says
        for who in (Identity(), site, both, token):
            hold(found.permits(who, Action.LIST) or who is not token, who)
            for action in Action:
                try:
                    found.allows(who, action, run=name, site=name)
                except NotAllowed as refused:
                    one_sentence(refused)
                else:
                    hold(who.how != "none" and (action is not Action.PUSH or who is not token), (who, action))


def runs(raw: bytes) -> None:
    """PATTERN LF PATTERN...: such as can be the name of a run, matched in time that is bounded, or one sentence."""
    said = raw.decode(errors="surrogateescape").split("\n")
    try:
        found = policies.run_patterns(said, "a grant")
    except InvalidOption as refused:
        one_sentence(refused)
        return
    hold(found == tuple(said) and all(0 < len(pattern) <= policies.MAX_PATTERN for pattern in found), found)
    for run in ("run-1", "a" * 128, found[0].translate({ord(wild): None for wild in "*?[]!"}) or "x"):
        decide(Policy((policies.Grant(Role.READER, found, identity=("*",)),), defaults=False), run)


def tokens(raw: bytes) -> None:
    """Any file of tokens: tokens that can be shown and asked, or one sentence that quotes no digest."""
    try:
        found, by = secrets.parse(raw, "the tokens")
    except InvalidOption as refused:
        one_sentence(refused)
        return
    hold(len(by) <= 80 and len({token.id for token in found}) == len(found), found)
    for token in found:
        shown = json.dumps(token.record(0))
        hold(token.sha256 not in shown and token.identity().role is not Role.SITE, shown)
        hold((token.state(token.expires), token.state(token.expires - 1)) == ("expired", "valid"), token)
        decide(Policy(), token.runs[0])


def header(raw: bytes) -> None:
    """What stands in the metadata of a call, and where gRPC says that it came from."""
    text = raw.decode("latin-1")
    for value in (text, f"Bearer {text}", raw):
        secret = bearer([("authorization", value)])
        hold(isinstance(value, str) or not secret, secret)
        hold(secret == secret.strip(" "), secret)
    for peer in (text, f"ipv4:{text}:1", f"ipv6:%5B{text}%5D:1"):
        hold(len(address_of(peer)) <= 80, peer)


# --- the state machines


def receiver(raw: bytes) -> None:
    """What a producer may say, in any order: what was accepted stays, and its digest is that of its bytes."""
    steps = Steps(raw)
    held, taken = bytearray(), list[Mark]()
    end, epochs, holder = Receiver(max_chunk=12), Epochs(), Holder()
    while steps:
        kind = steps.one(8)
        if kind == 0:  # another connection: what is held is all that is left
            end = Receiver(len(held), extend(EMPTY_DIGEST, bytes(held)), taken, max_chunk=12)
            producer, epoch = bytes([steps.one(4)]) * 8, steps.number(holder.epoch)
            try:
                after = epochs.claim(holder, producer, epoch)
            except Fenced:
                hold(holder.producers[-1][1] != producer, "the holder was fenced")
                continue
            hold(after.epoch >= holder.epoch and after.producers[-1][1] == producer, after)
            holder = after
            continue
        accepted, digest, marks = end.accepted, end.digest, list(end.marks)
        try:
            if kind == 1:
                mark = replace(MARKS[steps.one(3)], offset=steps.number(accepted), digest=digest ^ steps.one(2))
                if end.mark(steps.number(len(marks)), mark):
                    taken.append(mark)
            elif kind == 2:
                receipt = Receipt(steps.number(accepted), digest ^ steps.one(2), steps.number(len(marks)))
                end.finish(receipt)
                hold(receipt == Receipt(len(held), extend(0, bytes(held)), len(taken)), "sealed with another receipt")
            else:
                offset, data = steps.number(accepted), steps.data()
                truth = bytes(held)[: min(offset, accepted)]
                if kind < 7 and offset <= accepted:  # mostly such as an honest producer sends
                    data = bytes(held)[offset : offset + len(data)] + data[max(0, accepted - offset) :]
                chunk = Chunk(offset, data, extend(0, truth + data) ^ (kind == 6))
                held += end.chunk(chunk)
        except Refused as refused:
            hold((end.accepted, end.digest, end.marks) == (accepted, digest, marks), "a refusal changed something")
            hold(refused.code in (Code.HOLE, Code.CORRUPT, Code.REJECTED), refused.code)
        hold(accepted <= end.accepted == len(held), (accepted, end.accepted, len(held)))
        hold(end.digest == extend(0, bytes(held)), "the digest is not that of what was accepted")
        hold(end.marks == taken, end.marks)


def producer(raw: bytes) -> None:
    """What a receiver may answer, in any order: the position moves by acks alone, and what is sent can be sent."""
    steps = Steps(raw)
    options = DeliveryOptions(max_misses=3, window=12, max_chunk=4, max_refusals=2)
    end = Producer(options)
    source = bytes(range(64))
    opening = honest = True
    ends: set[int] = set()  # of the chunks that this connection carries
    end.opened()
    while steps:
        acked, position = end.acked, end.position
        kind = steps.one(8)
        if kind == 0:
            end.opened()
            ends, opening = set(), True
        elif kind <= 3:
            answer = answered(steps, end, source)
            awaited = opening
            opening = opening and answer.code is not Code.OK
            try:
                at = end.receive(answer)
            except (StreamRejected, StreamFenced) as ended:
                hold(ended.offset == end.acked == acked, ended)
                return
            except ReceiverNotReady:
                hold(end.misses > options.max_misses, end.misses)
                return
            hold(at == end.position, at)
            hold(end.acked >= acked or awaited, "an ack went backwards within a connection")
            hold(end.misses <= options.max_misses, end.misses)
            true = end.digest == extend(0, source[: end.acked]) and end.acked <= len(source)
            # What a chunk's digest cannot tell, in the middle of one, the next acknowledgement will.
            hold(true or awaited or not honest or end.acked not in ends | {acked}, "other bytes were acknowledged")
            honest = true
            if answer.code not in (Code.OK, Code.SEALED):
                end.opened()  # as the shell does
                ends, opening = set(), True
        elif end.room() > 0:
            if kind <= 5:
                data = source[position : position + end.room()] or bytes(end.room())
                sendable(end.chunk(data))
                ends.add(end.position)
                hold(end.position == position + len(data), end.position)
            elif kind == 6:
                mark: Mark = replace(MARKS[0], offset=position, digest=end.position_digest)
                sendable((end.mark(), mark))
            else:
                sendable(end.heartbeat() if steps.one(2) else end.finish())
            hold(end.acked == acked, "sending moved what is acknowledged")
        hold(end.acked <= end.position, (end.acked, end.position))
        hold(0 <= end.room() <= options.max_chunk, end.room())
        hold(end.position - end.acked <= options.window, "more is in flight than the window holds")
        hold(not end.room() or not opening, "something may be sent before the answer to the open")
        if end.state is State.BOOTSTRAP:
            hold(end.position == end.acked or end.position - end.acked <= options.max_chunk, "two chunks before an OK")


def answered(steps: Steps, end: Producer, source: bytes) -> Reply:
    """A reply such as wire gives one: its numbers are in their ranges."""
    code = Code(1 + steps.one(9)) if steps.one(4) == 0 else Code.OK
    committed = min(steps.number(end.position), MAX_OFFSET)
    marks = min(steps.number(end.marks_sent), MAX_OFFSET)
    digest = extend(0, source[:committed]) ^ (steps.one(8) == 7)
    window = (0, 1, 8, 2**32 - 1)[steps.one(4)]
    who = b"" if steps.one(4) else bytes([steps.one(3)])
    return Reply(code, committed, digest, marks, who, steps.one(3), "because", window=window)


def sendable(what: Request) -> None:
    try:
        again = decode_request(encode_request(what))
    except Malformed:
        return  # a position behind the last one that a file can have, at the word of the receiver
    hold(again == what, what)


# --- the view

_NOT_SHOWN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
_LENGTHS: list[tuple[int, Overlong]] = [(65536, "cut"), (20, "cut"), (9, "split"), (9, "drop")]


def view(raw: bytes) -> None:
    """A log of any form: the pieces make no difference, and nothing but text and colours comes out.

    The first byte says how it is shown, the second how it is cut.
    """
    how, size, data = raw[:1] or b"\0", 1 + (raw[1] if len(raw) > 1 else 0), raw[2:]
    limit, overlong = _LENGTHS[how[0] >> 4 & 3]

    def run(size: int) -> tuple[list[Line], int]:
        renderer = Renderer(FORMS[how[0] % len(FORMS)], steps=how[0] >= 128, limit=limit, overlong=overlong)
        found = [line for at in range(0, len(data), size) for line in renderer.feed(data[at : at + size])]
        renderer.open()
        return found + renderer.close(), renderer.replaced

    whole = run(len(data) or 1)
    hold(run(max(size, len(data) // 50)) == whole, whole)
    for line in whole[0]:
        bare = plain(line.text)
        hold(not _NOT_SHOWN.search(bare) and (len(bare) <= limit or isinstance(line, Note)), line)
        hold(0 <= line.offset <= line.end <= len(data), line)
        hold(plain(highlighted(line.text, [re.compile("[a-f]+"), re.compile(r"(.)\1")])) == bare, line)
    for block in Blocks().feed(whole[0]):
        hold(bool(block), block)


def hostile(raw: bytes) -> None:
    """A log that repeats itself some thousand times: output and work have limits, and the pieces make no difference.

    The first byte says how it is shown, the second how often each half comes, the third how it is cut.
    """
    how, often, size, data = raw[:1] or b"\0", raw[1:2] or b"\0", 64 + 40 * (raw[2] if len(raw) > 2 else 0), raw[3:67]
    half = len(data) // 2
    log = data[:half] * (1 << (often[0] & 15)) + data[half:] * (1 << (often[0] >> 4))
    log = (log * 64)[:20_000] if how[0] & 64 else log[:20_000]

    def run(size: int) -> tuple[list[Line], int]:
        renderer = Renderer(FORMS[how[0] % len(FORMS)], steps=how[0] >= 128)
        found = [line for at in range(0, len(log), size) for line in renderer.feed(log[at : at + size])]
        return found + renderer.close(), renderer.spent

    small = mock.patch.multiple(screen, DRAWN_AGAIN=1 << 10, UNDRAWN=1 << 10)
    with mock.patch.object(allowance, "BURST", 1 << 12), small:
        (lines, spent), again = run(len(log) or 1), run(size)
    differ = [pair for pair in zip_longest(lines, again[0]) if pair[0] != pair[1]]
    hold(not differ, repr(differ[:2])[:500])
    shown = sum(len(line.text.encode()) + 1 for line in lines if not isinstance(line, Note))
    hold(shown <= 64 * len(log) + 64, (shown, len(log)))
    hold(spent <= len(log) + (1 << 18), (spent, len(log)))
    for line in lines:
        hold(not _NOT_SHOWN.search(plain(line.text)), line)


def sifting(raw: bytes) -> None:
    """Through a sieve the same lines match as without it, however many are looked at."""
    size, data = 1 + (raw[0] if raw else 0), raw[1:]
    data = b"\x1b[A\n" + data if _MOVES.search(data) else data
    sieving, pieces = Sieving(Sieve((b"ab", b"er"), bool(size & 1), size % 4, size % 3)), []
    for at in range(0, len(data), size):
        pieces += sieving.feed(at, data[at : at + size])
    pieces += sieving.close()
    end = 0
    for offset, piece in pieces:
        hold(offset >= end and data[offset : offset + len(piece)] == piece, (offset, piece))
        end = offset + len(piece)
    hold(end <= len(data), end)
    pattern = re.compile("ab|er", re.IGNORECASE if size & 1 else 0)
    whole = Screen()
    wanted = [line.offset for line in whole.feed(data) + whole.close() if pattern.search(plain(line.text))]
    hold(all(any(at <= one < at + len(piece) for at, piece in pieces) for one in wanted), (wanted, pieces))


def record_line(raw: bytes) -> None:
    """A line that may be a container's record."""
    for form in FORMS:
        found = parse(raw, form)
        law = found is None or form not in ("cri", "cri-notags") or raw.removesuffix(b"\n").endswith(found.log)
        hold(law, found)  # CRI's text is the end of its line, byte for byte


def times(raw: bytes) -> None:
    """A line that may begin with a time; what is shown of it is the same time."""
    text = raw.decode(errors="replace")
    found = stamp(text, now=1_795_176_000 * 10**9)
    hold(found is None or rfc3339(shown(found)) == found, found)
    try:
        moment(text, 0)
    except InvalidOption:
        return


# --- all of them

TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        *(
            request,
            unpacking,
            reply,
            reading,
            info,
            timeline,
            journal,
            checkpoint,
            names,
            address,
            globs,
            receiver,
            producer,
        ),
        *(sessions.session, sessions.sidecar, redaction, finder, site_policy),
        *(policy, runs, tokens, header, certificates.certificate),
        *(view, hostile, sifting, record_line, times),
    )
}

_LINES = [
    journals.stream_line(STREAM),
    journals.holder_line(1, b"A" * 16),
    *(mark_line(index, mark) for index, mark in enumerate(MARKS)),
    journals.length_line(1 << 20, 5, 1),
    journals.length_line(3 << 20, 7, 3),
    journals.seal_line(3 << 20, 7),
    journals.seal_line(3 << 20, 7, Redaction(2, 30)),
    run_line("run-1", "ending"),
    mark_line(0, replace(MARKS[0], at=1_795_363_719_123, clock=1_795_363_719_100)),
    journals.length_line(4 << 20, 9, 3, 1_795_363_719_123),
]
_STATE = {"version": 1, "owner": "run-1/site-1", "files": {"1:2:fh": ["a/log.txt", 7]}}

_SAID: list[Request] = [
    Open(STREAM, b"p" * 16, 3, "flarelog/0.1"),
    Open(STREAM, b"p" * 16, 3, "flarelog/0.1", News(7, 2**63 - 1)),
    News(1_795_205_718_941, 300),
    *(Chunk(at, data, 0xFFFFFFFF) for at in (1, 300, 2**63 - 1) for data in (b"", b"payload", bytes(200))),
    *(Packed(at, compression.compress(bytes(200)), 7, Codec.ZSTD, 200) for at in (0, 300)),
    *enumerate(MARKS),
    Receipt(2**63 - 1, 0xFFFFFFFF, 9),
    Receipt(2**63 - 1, 0xFFFFFFFF, 9, Redaction(2, 2**63 - 1)),
]

_CHOICES = (range(64), bytes(64), [1, 0, 1, 5, 0, 0, 0, 0, *([3, 0, 4, 7, 7, 7, 7, 0] * 12)], range(255, 55, -1))


_GRANT = b'[[grant]]\nidentity = ["admin@*", "[!a]?x"]\nrole = "operator"\nruns = ["job-*"]\n'
_TOKEN = {"id": "00112233", "name": "t", "role": "reader", "runs": ["a*"], "created": 0, "expires": 9}
_TOKENS = [_TOKEN | {"id": id, "sha256": "0" * 64} for id in ("00112233", "ffffffff")]

_HAPPENED = [
    Happening(2000, "opened", "", 1, ("log.txt",)),
    Happening(3000, "paused", "no space", 2, ("log.txt", "b.txt"), 2500),
    Happening(9000, "left", "the connection was lost", 1, ("log.txt",)),
]
_MOMENTS = [
    [Moment(1000, "run", text="running"), Moment(9000, "run", text="ended")],
    [Moment(at, "grown", "kyoto", "log.txt", at * 100) for at in range(1000, 9000, 1000)],
    [Moment(1000, "begun", "kyoto", "log.txt"), Moment(9000, "sealed", "kyoto", "log.txt", 800_000)],
    [Moment(5000, type(mark).__name__.lower(), "kyoto", "log.txt", mark.offset, mark) for mark in MARKS],
    [Moment(one.at, one.what, "kyoto", happening=one) for one in _HAPPENED],
]

SEEDS: dict[str, list[bytes]] = {
    "timeline": [
        encode_timeline(Times("run-1", "kyoto", 256)),
        *(encode_moments(moments) for moments in _MOMENTS),
    ],
    "certificate": certificates.SEEDS,
    "policy": [
        b"defaults = true\n" + _GRANT,
        _GRANT + b'[[grant]]\ncn = "a"\nsan = "b"\nou = ["c"]\nnvflare_role = "lead"\nrole = "site"\n',
    ],
    "runs": [b"*", b"job-*\n[a-z]?[!0-9]", b"a*a*a*a*a*a*a*a*b", b"[[]\n[]]\n[--]\n[z-a]"],
    "tokens": [json.dumps({"version": 1, "changed_by": "uid 0", "tokens": _TOKENS}).encode()],
    "header": [b"Bearer flarelog_abc", b"192.0.2.1", b"2001:db8::1%25eth0", b"ipv6:%5B::ffff:192.0.2.1%5D:4721"],
    "unpacking": [
        length.to_bytes(2, "big") + frame
        for length, frame in (
            *((len(data), compression.compress(data)) for data in (bytes(5000), b"loss 0.5\n" * 99, MARKED)),
            # By hand: one byte 8 KiB times, in one segment, and with a window and a checksum.
            (8192, b"\x28\xb5\x2f\xfd\x60\x00\x1f\x03\x00\x01a"),
            (8192, b"\x28\xb5\x2f\xfd\x44\x40\x00\x1f\x03\x00\x01a\x00\x00\x00\x00"),
        )
    ],
    "request": [encode_request(one) for one in _SAID],
    "reply": [
        encode_reply(Reply(code, 5, 6, 7, b"A" * 16, 8, "because", code is Code.OK, 30.0, 1 << 20, codecs=tuple(Codec)))
        for code in Code
    ],
    "reading": [
        encode_read((STREAM, 5, True)),
        encode_read((STREAM, 5, True, 7, Sieve((b"error", b"loss"), True, 2, 3))),
        encode_read((STREAM, 5, False, None, None, 900, 7)),
        encode_piece((300, b"payload")),
        encode_piece((300, Counted(900, 7, (3,), (b"\x1b[31m",)))),
        encode_piece((7, Gap(300, 1, 5, "truncated"))),
        encode_list(Listing("run-1", "site-1", False, ("run-1", "site-1", "log.txt"), 2000)),
        encode_list(Listing("run-1", within=750)),
        encode_run("run-1"),
    ],
    "info": [encode_info((StreamInfo(STREAM, 0, 9, 2, True, tuple(MARKS)), first)) for first in (0, 500)],
    "journal": [b"\x08" + b"".join(_LINES), *(b"\x08" + line for line in _LINES)],
    "checkpoint": [json.dumps(_STATE).encode(), b"%08x %b" % (extend(0, b"{}"), b"{}")],
    "names": [
        b"run-1\nsite-1\na/log.txt\nrun-1\nsite-1\na/.log.txt.journal",
        b"r\ns\n..journal\nr\ns\n.journal\nr\ns\n.a.quarantine.1",
        b"../..\n/etc\n./passwd",
    ],
    "address": [b"127.0.0.1:4721", b"[::1]:0", b"receiver.example:65535"],
    "redaction": [
        bytes((how, 100, 1)) + data
        for how in range(3)
        for data in (
            b"password=hunter2\r\napi_key: 'a b c d e f'\n" + b"x" * 90 + b" token=abc123def456 me@example.org\n",
            b"-----BEGIN PRIVATE KEY-----\nMIIEabc\nMIIEdef\n-----END PRIVATE KEY-----\n://u:p@h ID-17 abcx\npassw",
            b"eyJhbGciOiJI.eyJzdWIi.Sflx Bearer a1b2c3d4e5 AKIAIOSFODNN7EXAMPLE sk-abcdefghij0123456789 " + b"z" * 70,
            b"\x1b[36mpassword\x1b[0m=correct horse\nhttps://u:p@q/r@h -u a:b --token 1a2b3c4d\n",
            rb'{\"token\": \"a1\\\"b2c3d4\"} https:\/\/u:p@h "\u001b[1mpwd\u001b[0m=a\ b\n"' + b"\n",
            b"auth=('u', 'p w') Cookie: a=b; c=d\r('Authorization', b'Digest x=\"y\"')\nsecret: [a, b] &quot;a\n",
            b"datadog = 'ab12cd34ef56ab78' hooks.slack.com/services/T1/B2/abcdefghijkl1234\n",
            b"SG.abcdefgh12345678.abcdefgh12345678 $2b$12$abcdefghijklmn pass='x' DB_PASS: SecretStr('x')\n",
            b"password: str = \"y\" identified by 'z' key=value wandb login " + b"0123456789abcdef" * 3 + b"\n",
        )
    ],
    "finder": [
        bytes((at,)) + line
        for at, line in enumerate(
            (
                b"password='it''s here' token:\tabc123def4 | api_key | a1b2c3d4 |\npasswd   h7nter2\r\n",
                rb"{'msg': 'password=\u001b[36m\u0027a b\u0027\n', 'x': '\\\u201ctoken\\\u201d: \"abc123def\"'}",
                b"<a password=&quot;a&#39;b&quot; b='1'/> \x1b[1mtoken\x1b[0m = \x1b[3mabc\x1b[0m123def4",
                b"+ bash -c 'export PGPASSWORD='\"'\"'a b'\"'\"' x='\\''y'\\'' '\n**api_key**: `a1b2c3d4`",
                "password\uff1a \u201ca b\u201d \u2018c\u2019 it\u2019s\u200b secret \u2192 x1".encode(),
                "\u2502 token \u2502 a1b2c3d4e \u2502".encode(),
                "jan\xe9.doe@ex\xe4mple.org o'neil@example.org me@xn--e1afmkfd.xn--p1ai".encode(),
                b"https://u:p@q/r@h ://:/@e.or -u a:b ghp_0123456789abcdefghij0123456789abcdef AKIAIOSFODNN7EXAMPLE",
                b"Cookie:a'@e.or=\nCookie: a=b; c=d Authorization: Basic dXNlcjpwYXNz",
                b"bearer abc123def456 secret ....: x1y2",
                b"step=1 tokens_per_second=12 num_tokens: 4096 {'lr': 1e-3} 8a0a7f2e-64f1-4a35-9fb5-3c1b6d1f3a52",
            )
        )
    ],
    "site_policy": [
        b"allow_log_streaming = false",
        b"include = ['*.log', 'logs/**']\nexclude = 'private/**'\nredact = ['tokens', 'all']\n",
        b"redact_patterns = ['patient[ _-]?id[:=]\\\\s*\\\\w+', '(?i)a{3,}']".replace(b"\\\\", b"\\"),
    ],
    "globs": [
        pattern + b"\n" + path
        for pattern in (b"*.log", b"logs/**/*.log*", b"rank-[!0-3]?.l*g", b"**/.*/**", b"a*a*a*a*a*a*b", b"**/**/a**/b")
        for path in (b"logs/x/y/a.log.1", b"rank-45.log", b"a" * 60, b"/" * 60)
    ],
    "receiver": [
        b"\x00\x01\x03\x08\x05hello\x03\x08\x05world\x01\x00\x08\x00\x08\x02\x08\x00\x09",
        b"\x03\x08\x03abc\x03\x06\x06abcdef\x06\x08\x02xx\x00\x02\x08",
    ],
    "producer": [
        b"\x01\x01\x08\x08\x00\x00\x00\x04\x05\x04\x01\x01\x08\x08\x00\x00\x00\x07",
        b"\x02\x00\x02\x08\x08\x00\x00\x00\x01\x02\x01\x01\x08\x08\x00\x01\x00\x01\x01\x06\x07\x00\x03",
    ],
    "session": [bytes(choices) for choices in _CHOICES],
    "sidecar": [bytes(choices) for choices in _CHOICES],
    "view": [
        how + b"\x03" + data
        for how in (b"\x00", b"\x80", b"\x92", b"\x21", b"\x31")
        for data in (
            b"start\n\r 10%|\xe2\x96\x88| \x1b[A\r 20%\x1b[2K\n\x1b[31mred\x1b[0m\ttab\r\n"
            b"\x1b]0;t\x07\b\b\x1b[2J\x1b[3Cx\n",
            b"2026-11-20T08:00:00.1Z stdout P par\n2026-11-20T08:00:01+05:30 stderr F \r50%\r60%\n"
            b"2026-11-20T08:00:02Z stdout F t\n",
            b'{"log":"a\\n","stream":"stdout","time":"2026-11-20T08:00:00Z"}\n'
            b'{"log":"\\ud800 b","stream":"stderr","time":"2"}\n',
            b"Traceback (most recent call last):\n  File\nValueError: \xe6\xbc\xa2e\xcc\x81\n\xc2\x9b1m\xe2\x80\xae\n",
        )
    ],
    "hostile": [
        how + often + b"\x03" + data
        for how in (b"\x01", b"\x81", b"\xc1", b"\x40")
        for often in (b"\xbb", b"\x0f", b"\x5c")
        for data in (
            *(
                b"\x1b[2Jx",
                b"x\x1b[2K",
                b"\x1b[64;1024Hx\x1b[1;1Hy",
                b"\r1%\r99%\t",
                b"\0\nx\by",
                b"\x1b[1;38:5:1;9mx\ny\n",
            ),
            "漢\u0301\x9b1A\u202e\u2028\U000e0041\u061c\n".encode(),
        )
    ],
    "sifting": [
        size + data
        for size in (b"\x02", b"\x07", b"\xff")
        for data in (
            b"error\nfable\n\n" * 4,
            b"e\x00r\nx\ry\rer\n" * 9,
            "e\u200er\na\u061cb\n\u212a".encode() * 9,
            b"\a\n" * 900,
        )
    ],
    "record_line": [
        b"2026-11-20T08:00:00.1Z stdout P:x part",
        b'{"log":"a\\n","stream":"stdout","attrs":{"a":1},"time":"2026-11-20T08:00:00Z"}',
        b"/var/log/pods/default_pod_uid/container/0.log.20250219-233547",
    ],
    "times": [
        b"2026-11-20 08:12:03,123 - x",
        b"2026-11-20T13:42:03.123456789+05:30",
        b"[rank0]:[W1120 08:12:03.500000 9 a.py:1]",
        b"<34>Nov 20 08:12:03 host",
        b"[20/Nov/2026:00:12:03 -0800]",
        b'{"level":1, "ts": 1795162323.25}',
        b"[11/20/26 08:12:03]",
        b"2h30m",
    ],
}
