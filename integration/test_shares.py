"""One site cannot use up shared resources: real receivers, with a site that invents runs, logs and names."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import shutil
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from flarelog.model import Code, Leave, Open, Reply, StreamId
from flarelog.names import MAX_PARTS
from flarelog.security.tls import Tls
from flarelog.stores.local import journal
from flarelog.wire import calls
from flarelog.wire.codec.base import SERVICE
from flarelog.wire.several import decode_replies
from integration.harness.places import LOG, PATIENCE, RUN, Place, Receiver, append, lines
from tests.certificates import Authority
from tests.messages import decode_reply, encode_request

files = Tls.arguments
DEEP = 80  # logs
MOST_RUNS = 120  # runs of one site; the default is 1,000, which tests/delivery/test_shares.py covers
LOGS = 6_000  # of one site: a list of three pages


class Federation:
    """A receiver with TLS, and its sites' certificates."""

    def __init__(self, place: Place, *args: str, durability: str = "memory") -> None:
        self.place = place
        self.authority = Authority.new(place.directory / "certs")
        tls = self.authority.issue("receiver", hosts=("127.0.0.1",))
        self.receiver = place.serve("--durability", durability, *args, *files(tls))

    def site(self, name: str) -> Tls:
        return self.authority.issue(name)

    def audit(self, what: str) -> list[dict[str, Any]]:
        talk = self.receiver.program.said.splitlines()
        return [json.loads(line.split(f" {what} ", 1)[1]) for line in talk if f" {what} {{" in line]


@asynccontextmanager
async def connected(receiver: Receiver, tls: Tls | None = None) -> AsyncIterator[grpc.aio.Channel]:
    async with calls.channel(receiver.address, tls) as channel:
        yield channel


async def opened(channel: grpc.aio.Channel, streams: Sequence[StreamId], producer: bytes = b"x" * 16) -> list[Reply]:
    """The first reply to each of *streams*, all opened in one call at once; accepted ones are left again."""
    call: Any = channel.stream_stream(f"/{SERVICE}/Push", response_deserializer=decode_replies)()
    replies = dict[int, Reply]()
    reading = asyncio.ensure_future(call.read())  # before the first write: gRPC drops replies that no read waits for
    # A receiver at its limit of calls answers and ends this one before it reads.
    with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
        for number, stream in enumerate(streams, 1):
            await call.write(encode_request(Open(stream, producer), number))
    async with asyncio.timeout(PATIENCE):
        while len(replies) < len(streams):
            for reply in await reading:
                if reply.number not in replies:
                    replies[reply.number] = reply
                    if reply.code is Code.OK:
                        await call.write(encode_request(Leave(), reply.number))
            if len(replies) < len(streams):
                reading = asyncio.ensure_future(call.read())
    call.cancel()
    return [replies[number] for number in sorted(replies)]


# --- runs


def test_a_site_that_invents_runs_stops_no_other_sites(place: Place) -> None:
    limits = ("--max-runs", "5", "--max-site-runs", str(MOST_RUNS))
    federation = Federation(place, *limits)

    async def invent() -> list[Reply]:
        async with connected(federation.receiver, federation.site("evil")) as channel:
            names = [StreamId(f"invented-{n}", "evil", LOG) for n in range(MOST_RUNS + 3)]
            return list(
                itertools.chain(*[await opened(channel, names[at : at + 100]) for at in range(0, len(names), 100)])
            )

    replies = asyncio.run(invent())
    assert [reply.code for reply in replies].count(Code.OK) == MOST_RUNS
    held = [reply for reply in replies if reply.code is not Code.OK]
    assert {reply.code for reply in held} == {Code.PAUSE}
    assert held[0].reason == (
        f"site evil has {MOST_RUNS} open runs without an announcement, and {MOST_RUNS} is the limit: end or"
        " remove old runs, or start the receiver with a higher --max-site-runs"
    )
    data = append(place.log, lines(100))
    honest = place.sidecar(federation.receiver, "--once", *files(federation.site("site-1")), site="site-1")
    assert honest.ends() == 0, honest.talk()
    assert federation.receiver.stored(site="site-1") == data
    federation.receiver.stop()
    tls = federation.authority.issue("receiver", hosts=("127.0.0.1",))
    again = federation.receiver.again(*limits, *files(tls))

    async def one_more(site: str) -> Code:
        async with connected(again, federation.site(site)) as channel:
            return (await opened(channel, [StreamId(f"another-{site}", site, LOG)]))[0].code

    assert asyncio.run(one_more("evil")) is Code.PAUSE
    assert asyncio.run(one_more("site-2")) is Code.OK


# --- logs and directories


def test_deep_logs_of_one_site_keep_no_other_waiting(place: Place) -> None:
    federation = Federation(place, durability="disk")
    took: list[float] = []

    async def go() -> list[Reply]:
        async with (
            connected(federation.receiver, federation.site("evil")) as mine,
            connected(federation.receiver, federation.site("site-1")) as theirs,
        ):
            await opened(theirs, [StreamId(RUN, "site-1", "first.log")])
            parts = [f"d{n}" for n in range(MAX_PARTS - 2)]
            deep = [StreamId(RUN, "evil", "/".join([f"deep-{n}", *parts, LOG])) for n in range(DEEP)]
            attacking = asyncio.create_task(opened(mine, deep))
            number = 0
            while not attacking.done():
                begin = time.perf_counter()
                (reply,) = await opened(theirs, [StreamId(RUN, "site-1", f"{number}.log")])
                took.append(time.perf_counter() - begin)
                assert reply.code is Code.OK
                number += 1
                await asyncio.sleep(0.01)
            return await attacking

    begun = time.perf_counter()
    replies = asyncio.run(go())
    whole = time.perf_counter() - begun
    assert {reply.code for reply in replies} == {Code.OK}
    made = [path for path in (federation.receiver.store / RUN / "evil").rglob("*") if path.is_dir()]
    assert len(made) == DEEP * (MAX_PARTS - 1)
    print(f"{len(took)} opens beside {DEEP} deep logs: median {statistics.median(took):.3f} s, max {max(took):.3f} s")
    # They once waited for all of them; now each waits only for the disk, which may be slow for one.
    assert min(took) < whole / 4
    assert statistics.median(took) < 5.0


def test_what_a_site_makes_is_limited_with_a_sentence_each(place: Place) -> None:
    federation = Federation(place, "--max-site-logs", "3", "--max-site-directories", "4")

    async def go() -> list[Reply]:
        async with connected(federation.receiver, federation.site("evil")) as channel:
            found = []
            for log in ("a.log", "1/2/b.log", "1/2/3/4/5/c.log", "1/2/3/c.log", "d.log", "a.log", "/".join("x" * 17)):
                raw: Any = encode_request(Open(StreamId(RUN, "evil", "NAME"), b"x" * 16), 1)
                call: Any = channel.stream_stream(f"/{SERVICE}/Push", response_deserializer=decode_reply)()
                await call.write(_renamed(raw, log))
                found.append(await call.read())
                call.cancel()
            return found

    replies = asyncio.run(go())
    assert [reply.code for reply in replies] == [
        *(Code.OK, Code.OK, Code.PAUSE, Code.OK, Code.PAUSE, Code.OK, Code.REJECTED)
    ]
    assert "2 directories of site evil" in replies[2].reason
    assert "--max-site-directories" in replies[2].reason
    assert "3 logs of site evil" in replies[4].reason
    assert "--max-site-logs" in replies[4].reason
    assert "the log's name has 17 parts; at most 16 are allowed" in replies[6].reason
    assert not (federation.receiver.store / RUN / "evil" / "x").exists()


def _renamed(raw: bytes, log: str) -> bytes:
    """The Open *raw*, changed to a log that no StreamId allows."""
    from flarelog.v1 import log_pb2 as pb

    message = pb.PushRequest.FromString(raw)
    message.open.stream.log = log
    return message.SerializeToString()


# --- lists


def plant(store: Path, stream: StreamId, data: bytes = b"") -> None:
    path = store / stream.run / stream.site / stream.log
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.with_name(f".{path.name}.journal").write_bytes(journal.stream_line(stream, 1))


@pytest.mark.soak
def test_thousands_of_logs_of_one_site_leave_lists_to_others(place: Place) -> None:
    store = place.directory / "store"
    for number in range(LOGS):
        plant(store, StreamId(RUN, "evil", f"{number:05}.log"))
    receiver = place.serve("--durability", "memory", store=store)
    data = append(place.log, b"one\ntwo\n")
    assert place.once(receiver).ends() == 0
    begin = time.perf_counter()
    shown = place.call("logs", RUN, "--site", "site-1", "-o", "raw", "--receiver", receiver.address)
    assert (shown.ends(), shown.printed.encode()) == (0, data)
    took = time.perf_counter() - begin
    fares = place.call("status", RUN, "--site", "site-1", "-o", "json", "--receiver", receiver.address)
    assert [record["site"] for record in fares.records()] == ["site-1"]
    begin = time.perf_counter()
    held = place.call("streams", RUN, "--json", "--receiver", receiver.address)
    assert held.ends(3 * PATIENCE) == 0, held.talk()
    names = [(record["site"], record["log"]) for record in held.records()]
    assert names == [*(("evil", f"{number:05}.log") for number in range(LOGS)), ("site-1", LOG)]
    print(f"of {LOGS} logs: another site's {took:.2f} s, all of them {time.perf_counter() - begin:.2f} s")


# --- the caller's identity


def test_a_name_in_a_certificate_that_the_policy_does_not_use_counts_for_nothing(place: Place) -> None:
    federation = Federation(place, "--max-peer-calls", "3")
    honest = federation.site("site-1")
    elsewhere = place.directory / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(honest.ca, elsewhere / Path(honest.ca).name)
    evil = replace(federation.authority, directory=elsewhere).issue("site-1", hosts=("evil",))

    async def go() -> None:
        async with connected(federation.receiver, evil) as mine, connected(federation.receiver, honest) as theirs:
            begun = []
            for number in range(3):
                call: Any = mine.stream_stream(f"/{SERVICE}/Push", response_deserializer=decode_reply)()
                stream = StreamId(RUN, "evil", f"{number}.log")
                await call.write(encode_request(Open(stream, b"x" * 16), 1))
                assert (await call.read()).code is Code.OK
                begun.append(call)
            (refused,) = await opened(mine, [StreamId(RUN, "evil", "one-more.log")])
            assert refused.code is Code.PAUSE
            assert f"3 calls of certificate 'evil' (SHA-256 {fingerprint(evil)}) are open" in refused.reason
            (let_in,) = await opened(theirs, [StreamId(RUN, "site-1", LOG)])
            assert let_in.code is Code.OK
            (pretending,) = await opened(theirs, [StreamId(RUN, "evil", LOG)])
            assert pretending.code is Code.REJECTED
            for call in begun:
                call.cancel()

    asyncio.run(go())
    federation.receiver.program.says(" refused {")
    told = {(line["identity"], line["fingerprint"], line["site"]) for line in federation.audit("allowed")}
    assert ("certificate 'evil'", fingerprint(evil), "evil") in told
    assert ("certificate 'site-1'", fingerprint(honest), "site-1") in told
    assert len(told) == 2
    (refused,) = federation.audit("refused")
    assert (refused["identity"], refused["fingerprint"]) == ("certificate 'site-1'", fingerprint(honest))


def fingerprint(tls: Tls) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(Path(tls.cert).read_text())).hexdigest()


@pytest.mark.soak
@pytest.mark.parametrize("workers", ["2"])
def test_workers_page_together_and_tell_who_called(place: Place, workers: str) -> None:
    store = place.directory / "store"
    for number in range(2_500):
        plant(store, StreamId(RUN, f"site-{number % 4}", f"{number:05}.log"))
    receiver = place.serve("--durability", "memory", "--workers", workers, store=store)
    held = place.call("streams", RUN, "--json", "--receiver", receiver.address)
    assert held.ends(3 * PATIENCE) == 0, held.talk()
    names = [(record["site"], record["log"]) for record in held.records()]
    assert names == sorted((f"site-{number % 4}", f"{number:05}.log") for number in range(2_500))
