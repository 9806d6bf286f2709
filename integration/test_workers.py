"""``flarelog serve --workers 2``: one receiver, whichever of its processes a connection reaches.

The system picks the process by the connection's port. So independence of it is tested over several connections, and
each process owns some of the sites.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from flarelog.checksum import extend
from flarelog.client import Client
from flarelog.errors import InUse
from flarelog.model import Chunk, Code, Open, Reply, StreamId, StreamInfo
from flarelog.names import DOCTORS_RUN
from flarelog.policy import Identity
from flarelog.receiver.workers.place import owner
from flarelog.receiver.workers.relay import said_of
from flarelog.security.tls import Tls
from flarelog.wire import calls, listing
from flarelog.wire.codec.base import SERVICE
from integration.harness.places import (
    LOG,
    RUN,
    Place,
    Program,
    Receiver,
    Writer,
    append,
    free_address,
    lines,
    noise,
    until,
)
from tests.certificates import Authority
from tests.messages import decode_reply, encode_request

WORKERS = ("--workers", "2")
SITES = [f"site-{n}" for n in range(4)]
OF = [next(site for site in SITES if owner(RUN, site, 2) == worker) for worker in (0, 1)]  # a site of each worker
DATA = lines(3000)
CONNECTIONS = 16  # all of them reach one process once in thirty thousand runs


def processes(receiver: Receiver) -> list[int]:
    """The workers' process ids."""
    pid = receiver.program.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def roots(place: Place, data: bytes = DATA) -> dict[str, Path]:
    found = {site: place.directory / "roots" / site for site in SITES}
    for root in found.values():
        root.mkdir(parents=True)
        append(root / LOG, data)
    return found


def has_open(pid: int, path: Path) -> bool:
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed in between
            if os.readlink(f"/proc/{pid}/fd/{name}") == str(path):
                return True
    return False


async def connections(address: str, count: int = CONNECTIONS, tls: Tls | None = None) -> list[grpc.aio.Channel]:
    made = [calls.channel(address, tls) for _ in range(count)]
    await asyncio.gather(*(channel.channel_ready() for channel in made))
    return made


@pytest.fixture
def receiver(place: Place) -> Receiver:
    return place.serve("--durability", "memory", *WORKERS)


# --- all sites, through any worker


@pytest.mark.soak  # the same as with one process
def test_of_all_sites_logs_those_that_grow_are_told(place: Place, receiver: Receiver) -> None:
    where = roots(place)
    sidecars = [place.sidecar(receiver, root=root, site=site) for site, root in where.items()]
    for site in SITES:
        receiver.gets(DATA, site=site)

    def grown(within: float, site: str = "") -> list[StreamInfo]:
        async def ask() -> list[StreamInfo]:
            async with Client(receiver.address) as client:
                return await client.streams(RUN, site, within=within)

        return asyncio.run(ask())

    assert {info.stream.site: info.marks for info in grown(3600)} == dict.fromkeys(SITES, ())
    until(lambda: not grown(2.0), "they are silent")
    append(where[SITES[1]] / LOG, b"more\n")
    (found,) = until(lambda: grown(2.0), "one of them has grown")
    assert found.stream == StreamId(RUN, SITES[1], LOG)
    assert grown(3600, SITES[0])[0].committed == len(DATA)
    assert [sidecar.stop() for sidecar in sidecars] == [0] * len(SITES)


def test_what_many_sites_send_is_there_and_seen_over_any_connection(place: Place, receiver: Receiver) -> None:
    where = roots(place)
    sidecars = [place.sidecar(receiver, root=root, site=site) for site, root in where.items()]
    for site in SITES:
        receiver.gets(DATA, site=site)
    pids = processes(receiver)
    assert len(pids) == 2
    for site in SITES:
        writers = [has_open(pid, receiver.file(site=site)) for pid in pids]
        assert writers.count(True) == 1, "each stream has one writer"
    assert all(any(has_open(pid, receiver.file(site=site)) for site in SITES) for pid in pids), "both have some"
    follower = place.start("follow", RUN, "--receiver", receiver.address)
    more = lines(5, 3000)
    for root in where.values():
        append(root / LOG, more)
    until(lambda: follower.printed.count("loss ") >= len(SITES) * 3005, "follow shows all lines of all sites")
    for _ in range(2):
        seen = receiver.streams()  # compares the receiver's streams with its store
        assert list(seen) == [f"{site}/{LOG}" for site in SITES]
        status = place.call("status", RUN, "--receiver", receiver.address, "-o", "json")
        states = {record["site"]: record["state"] for record in status.records()}
        assert list(states) == SITES
        assert set(states.values()) <= {"live", "quiet"}
    assert place.call("logs", RUN, "--receiver", receiver.address).printed.count("loss ") == len(SITES) * 3005
    assert place.call("run-end", RUN, "--receiver", receiver.address).ends() == 0
    assert [sidecar.ends() for sidecar in sidecars] == [0] * len(SITES)
    assert [sidecar.complaints() for sidecar in sidecars] == [[]] * len(SITES)
    for site in SITES:
        receiver.holds(DATA + more, site=site)
    for _ in range(2):  # whichever worker answers
        until(
            lambda: "ended" in place.call("run-end", RUN, "--receiver", receiver.address).printed, "the run has ended"
        )
    assert follower.ends() == 0
    assert receiver.stop() == 0
    assert receiver.program.complaints() == []
    assert place.call("verify", RUN, "--store", str(receiver.store)).ends() == 0


async def _pushed(channel: grpc.aio.Channel, site: str, log: str, moves: int = 0) -> Reply:
    call: Any = channel.stream_stream(f"/{SERVICE}/Push", response_deserializer=decode_reply)()
    await call.write(encode_request(Open(StreamId(RUN, site, log), os.urandom(16), moves=moves), 1))
    reply = await call.read()
    assert isinstance(reply, Reply)
    if reply.code is Code.OK:
        await call.write(encode_request(Chunk(0, DATA, extend(0, DATA)), 1))
        while reply.code is Code.OK and reply.committed < len(DATA):
            reply = await call.read()
            assert isinstance(reply, Reply)
    call.cancel()
    return reply


def test_a_producer_that_stays_is_passed_on_and_one_that_moves_is_told_to(receiver: Receiver) -> None:
    async def all_of_them() -> None:
        channels = await connections(receiver.address)
        for at, channel in enumerate(channels):
            for site in OF:
                reply = await _pushed(channel, site, f"{at}.log")
                assert (reply.code, reply.committed, reply.elsewhere) == (Code.OK, len(DATA), False)
        moved = [[await _pushed(channel, site, "moves.log", moves=1) for channel in channels] for site in OF]
        for of_site in moved:
            assert {(reply.code, reply.elsewhere) for reply in of_site} == {
                (Code.OK, False),
                (Code.GOING_AWAY, True),
            }
        for one, other in zip(*moved, strict=True):
            assert one.elsewhere is not other.elsewhere, "a connection is one worker's"
        often = [await _pushed(channel, OF[0], "often.log", moves=99) for channel in channels]
        assert {reply.code for reply in often} == {Code.OK}
        for channel in channels:
            await channel.close()

    asyncio.run(all_of_them())
    for site in OF:
        for at in range(CONNECTIONS):
            assert receiver.stored(f"{at}.log", site) == DATA


def _sockets(pid: int) -> set[str]:
    links = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed in between
            links.add(os.readlink(f"/proc/{pid}/fd/{name}").removeprefix("socket:[").rstrip("]"))
    return links


def connected_to(program: Program, receiver: Receiver) -> set[int]:
    """The workers to which *program* is connected."""
    port = int(receiver.address.rpartition(":")[2])
    rows = [row.split() for table in ("tcp", "tcp6") for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    ends = {(row[1][-4:], row[2][-4:]): row[9] for row in rows if row[3] == "01"}  # (own port, other port): socket
    mine = _sockets(program.process.pid)
    there = [near for (near, far), socket in ends.items() if socket in mine and int(far, 16) == port]
    theirs = {ends.get((f"{port:04X}", near), "") for near in there}
    return {pid for pid in processes(receiver) if _sockets(pid) & theirs}


def _only_to(pid: int, program: Program, receiver: Receiver) -> bool:
    return connected_to(program, receiver) == {pid}


@pytest.mark.parametrize("logs", [pytest.param(1, marks=pytest.mark.soak), 20])
def test_a_sidecar_goes_to_the_worker_that_has_its_site(place: Place, receiver: Receiver, logs: int) -> None:
    where = roots(place)
    for root in where.values():
        for number in range(1, logs):
            append(root / f"{number}.log", b"begun\n")
    sidecars = [place.sidecar(receiver, root=root, site=site) for site, root in where.items()]
    for site in SITES:
        receiver.gets(DATA, site=site)
        for number in range(1, logs):
            receiver.gets(b"begun\n", f"{number}.log", site)
    for sidecar, site in zip(sidecars, SITES, strict=True):
        (mine,) = [pid for pid in processes(receiver) if has_open(pid, receiver.file(site=site))]
        until(partial(_only_to, mine, sidecar, receiver), f"{site} is connected to its worker alone")
        assert sidecar.stop() == 0
        assert [line for line in sidecar.said.splitlines() if " INFO " not in line[:40]] == []
        receiver.holds(DATA, site=site)


# --- laws


def test_of_two_producers_the_newer_one_fences_the_older_wherever_they_are(place: Place, receiver: Receiver) -> None:
    append(place.log, DATA)
    stays: Program | None = None
    for _ in range(4):
        before, stays = stays, place.sidecar(receiver)
        if before is not None:
            assert before.ends() == 5
            assert "a newer sidecar has this log" in before.sentence()
        receiver.gets(DATA)
        stays.says("sending from")
    more = append(place.log, lines(50, 3000))
    receiver.gets(DATA + more)


def test_a_site_s_limit_and_a_run_s_hold_as_with_one_process(place: Place) -> None:
    receiver = place.serve("--durability", "memory", "--max-run-bytes", "1000000", *WORKERS)
    where = roots(place, noise(400_000))
    for site, root in where.items():
        place.sidecar(receiver, root=root, site=site)
    until(lambda: sum(len(receiver.stored(site=site)) for site in SITES) >= 1_000_000, "the run is full")
    receiver.program.says("--max-run-bytes")
    time.sleep(1)
    assert sum(len(receiver.stored(site=site)) for site in SITES) < 1_000_000 + len(SITES) * (2 << 20)
    held = sum(len(receiver.stored(site=site)) for site in SITES)
    assert held <= 1_000_000 + 400_000
    assert receiver.stop() == 0


def test_sites_of_a_run_are_counted_once_for_all(place: Place) -> None:
    receiver = place.serve("--durability", "memory", "--max-sites", "3", *WORKERS)

    async def opened() -> list[Reply]:
        (channel,) = await connections(receiver.address, 1)
        replies = [await _pushed(channel, site, LOG) for site in SITES]
        await channel.close()
        return replies

    replies = asyncio.run(opened())
    assert [reply.code for reply in replies] == [Code.OK] * 3 + [Code.PAUSE]
    assert "--max-sites" in replies[-1].reason


def test_a_run_that_waits_for_room_is_told_and_removed_wherever_it_waits(place: Place) -> None:
    receiver = place.serve("--durability", "memory", "--max-runs", "1", *WORKERS)

    async def listed() -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        async with Client(receiver.address) as client:
            await client.start_run("room")
            (channel,) = await connections(receiver.address, 1)
            replies = [await _pushed(channel, site, LOG) for site in OF]
            await channel.close()
            assert [reply.code for reply in replies] == [Code.PAUSE] * 2
            before = [(info.run, info.unstored) for info in await client.runs()]
            with pytest.raises(InUse, match="a sidecar waits to send run"):
                await client.remove(RUN)
            await client.remove(RUN, force=True)
            return before, [(info.run, info.unstored) for info in await client.runs()]

    assert asyncio.run(listed()) == ([("room", 0), (RUN, 2)], [("room", 0)])
    for site in OF:
        assert not receiver.stored(site=site)


def test_a_run_that_nobody_announced_is_known_to_no_worker(place: Place) -> None:
    receiver = place.serve("--announced-runs-only", *WORKERS)

    async def opened() -> set[tuple[Code, str]]:
        channels = await connections(receiver.address)
        replies = [await _pushed(channel, site, LOG) for channel in channels for site in OF]
        for channel in channels:
            await channel.close()
        return {(reply.code, reply.reason) for reply in replies}

    how = f"which takes announced runs only: flarelog run-start {RUN} announces it"
    why = f"run {RUN} is not registered at this receiver, {how}"
    assert asyncio.run(opened()) == {(Code.EXECUTION_EXCEPTION, why)}
    assert place.call("run-start", RUN, "--receiver", receiver.address).ends() == 0
    assert {code for code, _ in asyncio.run(opened())} == {Code.OK}


def test_who_calls_is_whom_its_certificate_names_and_not_who_it_says(place: Place) -> None:
    ca = Authority.new(place.directory / "certs")
    server, reader = ca.issue("receiver", hosts=("127.0.0.1",)), ca.issue("reader", units=("reader",))
    sites = {site: ca.issue(site) for site in OF}
    receiver = place.serve(*Tls.arguments(server), *WORKERS)
    forged = ("flarelog-caller-bin", said_of(Identity("certificate", OF[1]), "ipv4:127.0.0.1:1"))

    async def all_of_them() -> None:
        channels = await connections(receiver.address, tls=sites[OF[0]])
        for at, channel in enumerate(channels):
            reply = await _pushed(channel, OF[0], f"{at}.log")
            assert reply.code is Code.OK
            reply = await _pushed(channel, OF[1], f"{at}.log")
            assert reply.code is Code.REJECTED
            assert f"certificate '{OF[0]}'" in reply.reason
            call: Any = channel.stream_stream(
                f"/{SERVICE}/Push",
                request_serializer=lambda said: encode_request(said.request, said.number),
                response_deserializer=decode_reply,
            )(metadata=(forged,))
            await call.write(encode_request(Open(StreamId(RUN, OF[1], "forged.log"), b"x" * 16), 1))
            assert (await call.read()).code is Code.REJECTED
            call.cancel()
            await channel.close()
        for channel in await connections(receiver.address, tls=reader):
            assert {info.stream.site for info in await listing.streams(channel, RUN, "")} == {OF[0]}
            pieces = calls.read(channel)((StreamId(RUN, OF[0], "0.log"), 0, False))
            assert b"".join([data async for _, data in pieces]) == DATA
            with pytest.raises(grpc.RpcError) as refused:
                await calls.run_call(channel, "EndRun")(RUN)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert (await calls.run_call(channel, "GetRun")(RUN)).state == "running"
            await channel.close()

    asyncio.run(all_of_them())
    assert receiver.stop() == 0
    said = [line for line in receiver.program.said.splitlines() if '"action": "PUSH"' in line]
    assert all(f"certificate '{OF[0]}'" in line and "127.0.0.1" in line for line in said)
    allowed = [json.loads(line[line.index("{") :]) for line in said if "allowed" in line]
    assert sum(line.get("more", 1) for line in allowed) == CONNECTIONS


@pytest.mark.soak  # the same as with one process
def test_a_call_of_a_token_is_its_token_s_at_every_worker(place: Place) -> None:
    ca = Authority.new(place.directory / "certs")
    site = ca.issue(OF[1])
    token = place.token("wall", "--role", "reader", "--runs", RUN)
    server = ca.issue("receiver", hosts=("127.0.0.1",))
    receiver = place.serve(*Tls.arguments(server), "--reader-listen", "127.0.0.1:0", *WORKERS)
    append(place.log, DATA)
    assert place.sidecar(receiver, "--once", *Tls.arguments(site), site=OF[1]).ends() == 0
    asks = ("--receiver", receiver.reader_address, "--tls-ca", site.ca, "--token-file", str(token))
    for _ in range(4):
        assert place.call("logs", RUN, *asks, "--no-prefix").printed.count("loss ") == 3000
        assert place.call("logs", "another", *asks).ends() != 0


@pytest.mark.soak  # the same as with one process
def test_a_hangup_has_every_worker_read_its_files_again(place: Place) -> None:
    ca = Authority.new(place.directory / "certs")
    policy = place.directory / "policy.toml"
    policy.write_text("defaults = true\n")
    server = ca.issue("receiver", hosts=("127.0.0.1",))
    receiver = place.serve(*Tls.arguments(server), "--policy", str(policy), *WORKERS)
    receiver.program.tell(signal.SIGHUP)
    receiver.program.says("the certificates were read again: new connections use", times=2)
    receiver.program.says(f"the policy {policy} was read again: 0 grants", times=2)
    for site in OF:
        append(place.log, DATA)
        assert place.sidecar(receiver, "--once", *Tls.arguments(ca.issue(site)), site=site).ends() == 0
    assert receiver.stop() == 0


@pytest.mark.parametrize("site", [next(site for site in SITES if owner(DOCTORS_RUN, site, 2) == n) for n in (0, 1)])
def test_a_doctor_s_record_makes_its_round_trip_whichever_worker_has_the_site(
    place: Place, receiver: Receiver, site: str
) -> None:
    append(place.log, DATA)
    asked = ("--receiver", receiver.address, "--root", str(place.root), "--site", site, "--store", str(receiver.store))
    for _ in range(4):
        found = {row["check"]: row["result"] for row in place.call("doctor", *asked, "-o", "json").records()}
        assert "round trip" in found
        assert set(found.values()) == {"ok"}


# --- the end


def grows(receiver: Receiver, site: str, more: int) -> None:
    """Wait until the stored file of *site* has *more* bytes than now."""
    before = len(receiver.stored(site=site))
    until(lambda: len(receiver.stored(site=site)) > before + more, f"{site} grows")


@pytest.mark.parametrize(
    "whom", ["a worker", pytest.param("the process that looks after them", marks=pytest.mark.soak)]
)
def test_a_process_that_is_killed_ends_all_and_costs_no_byte(place: Place, whom: str) -> None:
    address = free_address()
    receiver = place.serve(*WORKERS, listen=address)
    where = {site: place.directory / "roots" / site for site in OF}
    for root in where.values():
        root.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        writers = {site: stack.enter_context(Writer(root / LOG)) for site, root in where.items()}
        sidecars = [place.sidecar(address, root=root, site=site) for site, root in where.items()]
        for _ in range(3):
            for site in OF:
                grows(receiver, site, 50_000)
            pids = processes(receiver)
            if whom == "a worker":
                os.kill(pids[1], signal.SIGKILL)
                assert receiver.program.ends() == 1
                assert f"worker 1 (process {pids[1]}) was killed by SIGKILL" in receiver.program.said
            else:
                receiver.program.kill()
            receiver = receiver.again(*WORKERS)
    for sidecar in sidecars:
        assert sidecar.stop() == 0, sidecar.talk()
    for site in OF:
        receiver.holds(bytes(writers[site].written), site=site)
    assert receiver.stop() == 0


@pytest.mark.soak  # tests/stores covers it without processes
def test_the_store_goes_on_with_another_number_of_workers(place: Place) -> None:
    data = b""
    receiver = place.serve("--durability", "memory")
    for count in ("2", "1", "3"):
        data += append(place.log, lines(100, len(data)))
        assert place.once(receiver).ends() == 0
        receiver.holds(data)
        assert receiver.stop() == 0
        receiver = place.serve("--durability", "memory", "--workers", count)
    receiver.holds(data)


def test_no_other_receiver_gets_the_port_or_the_store(place: Place) -> None:
    receiver = place.serve(*WORKERS)
    other = str(place.directory / "other")
    for workers in ((), WORKERS):
        program = place.start("serve", "--store", other, "--listen", receiver.address, *workers)
        assert program.ends() == 1
        assert f"cannot listen on {receiver.address}: another process uses the port; give" in program.sentence()
        program = place.start("serve", "--store", other, "--listen", "192.0.2.1:4721", "--insecure", *workers)
        assert program.ends() == 1
        assert "cannot listen on 192.0.2.1:4721: the address is not this machine's; give" in program.sentence()
        program = place.start("serve", "--store", str(receiver.store), "--listen", "127.0.0.1:0", *workers)
        assert program.ends() == 1
        assert f"another receiver (process {receiver.program.process.pid}) uses the store" in program.sentence()
    alone = place.serve(store=place.directory / "alone")
    program = place.start("serve", "--store", other, "--listen", alone.address, *WORKERS)
    assert program.ends() == 1
    assert "cannot listen on" in program.sentence()


@pytest.mark.parametrize("count", ["0", pytest.param("1000", marks=pytest.mark.soak)])
def test_a_number_of_workers_that_makes_no_sense(place: Place, count: str) -> None:
    program = place.start("serve", "--store", str(place.directory / "store"), "--workers", count)
    assert program.ends() == 2
    assert "--workers must be a number from 1 to 64" in program.sentence()


@pytest.mark.soak  # waits until a worker without an answer for seconds counts as hung
def test_a_worker_that_hangs_is_said_left_out_and_ended(place: Place, receiver: Receiver) -> None:
    where = roots(place)
    for site, root in where.items():
        place.sidecar(receiver, root=root, site=site)
    for site in SITES:
        receiver.gets(DATA, site=site)
    hung = next(pid for pid in processes(receiver) if has_open(pid, receiver.file(site=OF[1])))
    began = time.monotonic()
    os.kill(hung, signal.SIGSTOP)

    def answered() -> bool:
        # Each may reach the hung worker, and then waits for it.
        asked = [place.start("status", RUN, "--receiver", receiver.address) for _ in range(4)]
        for status in asked:
            status.ends()
        return any("does not answer: its sites are missing" in each.said and OF[0] in each.printed for each in asked)

    until(answered, "the other worker's sites are shown")
    assert receiver.program.ends() == 1
    assert time.monotonic() - began < 60
    said = [line for line in receiver.program.complaints() if f"(process {hung})" in line]
    assert ["has not answered for 10 s" in said[0], "hangs, and is killed" in said[1]] == [True, True]
    assert "start it again: no acknowledged byte is lost" in said[-1]
