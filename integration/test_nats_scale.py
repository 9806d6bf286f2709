"""What takes long, over three real nats-servers: bytes are compared each time. ``make scale`` runs it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import time
from pathlib import Path

import pytest

from flarelog.model import StreamId
from flarelog.poc.network import Network, NoNetwork
from integration.harness.mounts import tmpfs
from integration.harness.nats import Nats, missing
from integration.harness.places import RUN, SITE, Place, Writer, until
from integration.test_nats_faults import aside, go, lines, writing
from integration.test_nats_receivers import assert_whole, grew, served
from integration.test_nats_receivers import three as three
from integration.test_nats_receivers import url as url
from integration.test_nats_store import A, read, stores

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing()), pytest.mark.soak]

LOGS = 50_000
AT_ONCE = 500  # logs that are written at the same time


def test_each_server_is_cut_off_from_its_peers_with_its_clients_attached(tmp_path: Path) -> None:
    async def work() -> None:
        async with writing(servers, stall=30, limit=300) as (_, writers):
            for number in range(3):
                network.cut(number)
                await asyncio.sleep(2)  # what was under way is there
                await _grew(writers, [one.appended for one in writers])
                network.heal(number)
                await aside(servers.settle)
                await _grew(writers, [one.appended for one in writers])

    try:
        network = Network(3)
    except NoNetwork as error:
        pytest.skip(str(error))
    with network, Nats(tmp_path, 3, network=network) as servers:
        go(work())


async def _grew(writers: list, before: list[int]) -> None:  # type: ignore[type-arg]
    async with asyncio.timeout(60):
        while not all(one.appended > was for one, was in zip(writers, before, strict=True)):
            await asyncio.sleep(0.1)


def test_receivers_are_restarted_one_after_the_other(place: Place, url: str) -> None:
    receivers = [served(place, url) for _ in range(2)]
    addresses = [address for _, address in receivers]
    sidecar = place.sidecar(",".join(addresses))
    with Writer(place.log, pause=0.002) as writer:
        for number in (0, 1) * 3:
            writer.wrote(200_000)
            program, address = receivers[number]
            assert program.stop() == 0, program.talk()
            grew(place, addresses[1 - number])
            receivers[number] = served(place, url, listen=address)
    assert sidecar.stop() == 0, sidecar.talk()
    assert_whole(place, addresses[0])


def test_a_follower_of_logs_is_stopped_and_a_receiver_dies_meanwhile(place: Place, url: str) -> None:
    receivers = [served(place, url) for _ in range(2)]
    ends = ",".join(address for _, address in receivers)
    sidecar = place.sidecar(ends)
    with Writer(place.log, pause=0.002) as writer:
        writer.wrote(200_000)
        grew(place, ends)
        follower = place.start("follow", RUN, "--site", SITE, "-o", "raw", "--receiver", ends)
        shown = place.directory / f"{len(place.programs) - 1}.out"
        until(lambda: shown.stat().st_size > 0, "the follower shows bytes")
        follower.tell(signal.SIGSTOP)
        writer.wrote(2_000_000)
        receivers[0][0].kill()
        writer.wrote(2_000_000)
        follower.tell(signal.SIGCONT)
        writer.wrote(200_000)
    assert place.call("run-end", RUN, "--receiver", receivers[1][1]).ends() == 0
    assert sidecar.ends() == 0, sidecar.talk()
    assert follower.ends() in (0, 6, 7), follower.talk()
    found, data = shown.read_bytes(), place.log.read_bytes()
    assert hashlib.sha256(found).digest() == hashlib.sha256(data).digest(), (len(found), len(data))


@pytest.mark.parametrize("full", [1, 3], ids=["one", "all"])
def test_disks_of_servers_fill_up_and_get_room(place: Place, tmp_path: Path, full: int) -> None:
    with contextlib.ExitStack() as stack:
        (tmp_path / "nats").mkdir()
        disks = [stack.enter_context(tmpfs(tmp_path / "nats" / f"server-{n}", "size=96M")) for n in range(3)]
        servers = stack.enter_context(Nats(tmp_path / "nats", 3))
        url = servers.url()
        made = place.call("store", "init", url, "--max-bytes", "2GB", "--shards", "1")
        assert made.ends() == 0, made.talk()
        (first, one), (second, two) = (served(place, url) for _ in range(2))
        sidecar = place.sidecar(f"{one},{two}")
        with Writer(place.log, pause=0.002) as writer:
            writer.wrote(200_000)
            leader = servers.leader("flarelog-logs-0")
            struck = [(leader + n) % 3 for n in range(full)]
            for number in struck:
                _fill(disks[number] / "ballast")
            if full == 1:
                grew(place, one)
            if full == 3:
                until(lambda: "paused at offset" in first.said + second.said, "a receiver says that nothing is stored")
            else:
                time.sleep(25)
            for number in struck:
                (disks[number] / "ballast").unlink()
                servers.kill(number)  # it takes nothing before it is restarted
                servers.start(number)
                if full == 1:
                    servers.settle()
            servers.settle()
            grew(place, two)
        assert sidecar.stop() == 0, sidecar.talk()
        assert_whole(place, two)
        place.close()


def _fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 20))


def test_fifty_thousand_logs(three: Nats) -> None:
    async def work() -> None:
        async with asyncio.timeout(1800), stores(three, 2, shards=4) as (first, second):
            streams = [StreamId("many", f"site-{n % 500}", f"log-{n}.txt") for n in range(LOGS)]
            begun = time.monotonic()
            for at in range(0, LOGS, AT_ONCE):
                async with asyncio.TaskGroup() as group:
                    for stream in streams[at : at + AT_ONCE]:
                        group.create_task(write(first, stream))
            print(f"{LOGS / (time.monotonic() - begun):.0f} logs/s")
            for what in ("cold", "warm"):
                begun = time.monotonic()
                found = {info.stream: info.committed async for info in second.list("many/")}
                print(f"{what} list: {time.monotonic() - begun:.1f} s")
                assert found == dict.fromkeys(streams, 128)
            for stream in streams[:: LOGS // 100]:
                assert await read(second, stream=stream) == lines(int(stream.log[4:-4]) * 128, 128)

    async def write(store, stream: StreamId) -> None:  # type: ignore[no-untyped-def]
        appender = await store.appender(stream, A)
        await appender.append(0, lines(int(stream.log[4:-4]) * 128, 128))
        await appender.close()

    go(work())
