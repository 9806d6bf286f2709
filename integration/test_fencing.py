"""One producer a stream: two sidecars of one site, and any fate of the older one.

The older one ends with one sentence and exit code 5, which tells a supervisor not to restart it; the newer one is
unaffected; and each byte is stored once.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest

from integration.harness.places import (
    LOG,
    SITE,
    Place,
    Program,
    Proxy,
    Receiver,
    append,
    free_address,
    lines,
    new_place,
    noise,
    until,
)

HEAD, TAIL, NEXT = lines(2000), lines(30, 2000), lines(50, 9000)
FENCED = 5
SEED = random.randrange(1 << 32)


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[tuple[Receiver, Program, float]]:
    """A receiver that is stopped while the other tests run, its sidecar, and the time of the stop."""
    with new_place() as place:
        receiver = place.serve()
        sidecar = place.sidecar(receiver)
        append(place.log, HEAD)
        receiver.gets(HEAD)
        receiver.program.tell(signal.SIGSTOP)
        append(place.log, TAIL)
        yield receiver, sidecar, time.monotonic()


@pytest.fixture(scope="module", autouse=True)
def black_hole() -> Iterator[tuple[Receiver, Program, Proxy, float]]:
    """A network that silently drops everything in both directions, since before the first test; and since when."""
    with new_place() as place:
        receiver = place.serve()
        with Proxy(receiver.address) as network:
            sidecar = place.sidecar(network.address)
            append(place.log, HEAD)
            receiver.gets(HEAD)
            network.hold()
            append(place.log, TAIL)
            yield receiver, sidecar, network, time.time()


@pytest.fixture(scope="module", autouse=True)
def slow_network() -> Iterator[tuple[Receiver, Program, Proxy]]:
    """A network as slow as a full satellite link."""
    with new_place() as place:
        receiver = place.serve()
        append(place.log, HEAD)
        with Proxy(receiver.address, delay=2.5) as network:
            yield receiver, place.sidecar(network.address), network


def fenced(program: Program) -> None:
    """Assert that the sidecar ends with the sentence and the exit code for a taken-over stream."""
    assert program.ends() == FENCED, program.talk()
    sentence = program.sentence()
    assert "a newer sidecar has this log" in sentence
    assert "do not start it again" in sentence


def goes_on(receiver: Receiver, program: Program, before: bytes, log: str = LOG) -> bytes:
    """Assert that the sidecar still sends; return the bytes that the stream then holds."""
    data = before + append(receiver.place.root / log, NEXT)
    receiver.gets(data, log)
    assert program.process.poll() is None, program.talk()
    return data


# --- two at once


@pytest.mark.parametrize("logs", [pytest.param(1, marks=pytest.mark.soak), 50])
def test_of_two_sidecars_that_start_together_one_stays_and_one_ends(place: Place, logs: int) -> None:
    receiver = place.serve("--durability", "memory")
    names = [f"{n}.log" for n in range(logs)]
    for name in names:
        append(place.root / name, HEAD)
    both = [place.sidecar(receiver) for _ in range(2)]
    until(lambda: any(one.process.poll() is not None for one in both), "one of them ends")
    (stays,) = (one for one in both if one.process.poll() is None)
    (ends,) = (one for one in both if one is not stays)
    fenced(ends)
    for name in names:
        receiver.gets(HEAD, name)
    held = {name: goes_on(receiver, stays, HEAD, name) for name in names}
    assert stays.stop() == 0, stays.talk()
    assert stays.complaints() == []
    streams = receiver.streams()
    assert all(streams[f"{SITE}/{name}"]["sealed"] for name in names)
    assert all(receiver.stored(name) == data for name, data in held.items())


def test_a_sidecar_whose_imports_are_done_late_is_still_the_older_one(place: Place) -> None:
    receiver, go = place.serve(), place.directory / "go"
    append(place.log, HEAD)
    wait = (
        f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nimport flarelog.cli as f; f.main()"
    )
    older = place.sidecar(receiver, plain=(sys.executable, "-c", wait))
    newer = place.sidecar(receiver)
    receiver.gets(HEAD)
    go.touch()
    fenced(older)
    goes_on(receiver, newer, HEAD)


def test_sidecars_that_a_supervisor_restarts_do_not_fence_each_other_for_ever(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    append(place.log, HEAD)
    wanted = [place.sidecar(receiver), place.sidecar(receiver)]
    starts = len(wanted)
    for _ in range(2):  # the supervisor's two services; the one that is killed starts a third time
        until(lambda: any(one.process.poll() is not None for one in wanted), "one of them ends")
        ended = next(one for one in wanted if one.process.poll() is not None)
        wanted.remove(ended)
        if ended.process.returncode != FENCED:  # Restart=always, RestartPreventExitStatus
            wanted.append(place.sidecar(receiver))
            starts += 1
        if len(wanted) == 1 and starts == 2:
            goes_on(receiver, wanted[0], HEAD)
            wanted[0].kill()
    assert starts == 3
    goes_on(receiver, wanted[0], HEAD + NEXT)


def test_sidecars_of_other_sites_and_runs_go_on_beside_each_other(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    places = [("run-1", "site-1"), ("run-1", "site-2"), ("run-2", "site-1")]
    append(place.log, HEAD)
    sidecars = [place.sidecar(receiver, run=run, site=site) for run, site in places]
    for run, site in places:
        receiver.gets(HEAD, run=run, site=site)
    append(place.log, TAIL)
    for run, site in places:
        receiver.gets(HEAD + TAIL, run=run, site=site)
    assert [sidecar.stop() for sidecar in sidecars] == [0, 0, 0]
    assert [sidecar.complaints() for sidecar in sidecars] == [[], [], []]


def test_two_sidecars_of_one_site_with_different_logs_go_on_beside_each_other(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    for name in ("a.log", "b.log"):
        append(place.root / name, HEAD)
    sidecars = [place.sidecar(receiver, "--include", name) for name in ("a.log", "b.log")]
    for sidecar, name in zip(sidecars, ("a.log", "b.log"), strict=True):
        receiver.gets(HEAD, name)
        goes_on(receiver, sidecar, HEAD, name)
    assert [sidecar.stop() for sidecar in sidecars] == [0, 0]


# --- the older one was stopped

MOMENTS: dict[str, Callable[[Receiver, Program], object]] = {
    "opening": lambda receiver, older: until(
        lambda: receiver.file().exists() or older.process.poll() is not None, "it opens", 15
    ),
    "sending": lambda receiver, older: until(lambda: len(receiver.stored()) > 100_000, "it sends"),
    "idle": lambda receiver, older: receiver.gets(HEAD),
    "draining": lambda receiver, older: older.tell(signal.SIGTERM),
}


@pytest.mark.parametrize(
    ("moment", "wakes"),
    [
        pytest.param("opening", "successor-goes-on", marks=pytest.mark.soak),
        ("opening", "receiver-restarted"),
        ("sending", "sealed"),
        pytest.param("sending", "receiver-restarted", marks=pytest.mark.soak),
        ("idle", "successor-goes-on"),
        pytest.param("idle", "successor-killed", marks=pytest.mark.soak),
        pytest.param("draining", "sealed", marks=pytest.mark.soak),
        ("draining", "successor-killed"),
    ],
)
def test_a_sidecar_that_wakes_up_after_its_successor_has_gone_on_ends(place: Place, moment: str, wakes: str) -> None:
    rng = random.Random(f"{SEED} {moment} {wakes}")
    receiver = place.serve(listen=free_address())
    data = append(place.log, noise(12 << 20) if moment in ("sending", "draining") else HEAD)
    older = place.sidecar(receiver)
    if moment == "draining":
        until(lambda: receiver.stored(), "it sends")
    MOMENTS[moment](receiver, older)
    time.sleep(rng.uniform(0, 0.02))  # a random moment within the named one
    older.tell(signal.SIGSTOP)

    newer = place.sidecar(receiver)
    newer.says("sending from offset")
    data += append(place.log, TAIL)
    receiver.gets(data)
    match wakes:
        case "sealed":
            assert newer.stop() == 0, newer.talk()
        case "receiver-restarted":
            receiver.program.kill()
            receiver = receiver.again()
        case "successor-killed":
            newer.kill()
    older.tell(signal.SIGCONT)

    if moment == "draining" and older.ends() in (0, 7):
        pass  # it had drained already, or its time was up
    else:
        fenced(older)
    if wakes in ("sealed", "successor-killed"):
        newer = place.sidecar(receiver)
    data = goes_on(receiver, newer, data)
    assert newer.stop() == 0, newer.talk()
    assert newer.complaints() == []
    receiver.holds(data)


def test_a_sidecar_that_wakes_up_does_not_take_a_log_that_its_successor_began(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    append(place.log, HEAD)
    older = place.sidecar(receiver)
    receiver.gets(HEAD)
    older.tell(signal.SIGSTOP)
    newer = place.sidecar(receiver, "--include", "new*.log")
    for n in range(20):
        append(place.root / f"new-{n}.log", TAIL)
    for n in range(20):
        receiver.gets(TAIL, f"new-{n}.log")
    older.tell(signal.SIGCONT)
    fenced(older)
    for n in range(20):
        goes_on(receiver, newer, TAIL, f"new-{n}.log")
    assert newer.stop() == 0, newer.talk()


def test_after_an_outage_of_the_receiver_an_older_sidecar_sends_what_only_it_has_open(place: Place) -> None:
    receiver = place.serve(listen=free_address())
    append(place.log, HEAD)
    older = place.sidecar(receiver)
    receiver.gets(HEAD)
    receiver.program.kill()
    append(place.log, TAIL)
    older.says("retrying")
    place.log.unlink()
    append(place.log, NEXT)
    newer = place.sidecar(receiver)
    newer.says("retrying")
    older.tell(signal.SIGSTOP)
    receiver = receiver.again()
    time.sleep(2.0)  # the newer one is connected first
    older.tell(signal.SIGCONT)
    receiver.gets(HEAD + TAIL + NEXT)
    fenced(older)
    assert newer.stop() == 0, newer.talk()
    receiver.holds(HEAD + TAIL + NEXT)


def test_an_older_sidecar_sends_what_only_it_has_open_also_to_a_receiver_that_knows_nothing_of_the_site(
    place: Place,
) -> None:
    address = free_address()
    append(place.log, HEAD)
    older = place.sidecar(address)
    older.says("retrying")
    place.log.unlink()
    append(place.log, NEXT)
    newer = place.sidecar(address)
    newer.says("retrying")
    older.tell(signal.SIGSTOP)
    receiver = place.serve(listen=address)
    time.sleep(2.0)  # the newer one is connected first
    older.tell(signal.SIGCONT)
    receiver.gets(HEAD + NEXT)
    fenced(older)
    assert newer.stop() == 0, newer.talk()
    receiver.holds(HEAD + NEXT)


def test_of_two_sidecars_that_start_while_the_receiver_is_away_the_one_that_started_later_stays(place: Place) -> None:
    address, names = free_address(), [f"{n}.log" for n in range(3)]
    for name in names:
        append(place.root / name, HEAD)
    older = place.sidecar(address)
    older.says("retrying")
    older.tell(signal.SIGSTOP)
    newer = place.sidecar(address)
    newer.says("retrying")
    receiver = place.serve(listen=address)
    for name in names:
        receiver.gets(HEAD, name)
    older.tell(signal.SIGCONT)  # it comes last, and is the older one nevertheless
    fenced(older)
    for name in names:
        goes_on(receiver, newer, HEAD, name)
    assert newer.stop() == 0, newer.talk()


@pytest.mark.soak
def test_fifty_logs_that_are_fenced_are_one_sentence(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    names = [f"{n}.log" for n in range(50)]
    for name in names:
        append(place.root / name, TAIL)
    older = place.sidecar(receiver)
    for name in names:
        receiver.gets(TAIL, name)
    older.tell(signal.SIGSTOP)
    newer = place.sidecar(receiver, FLARELOG_LOG_LEVEL="debug")  # at this level it logs each stream
    newer.says("sending from offset", times=50)
    older.tell(signal.SIGCONT)
    fenced(older)
    for name in names:
        goes_on(receiver, newer, TAIL, name)


# --- the network between


@pytest.mark.parametrize(
    "ways",
    [pytest.param(("up",), marks=pytest.mark.soak), pytest.param(("down",), marks=pytest.mark.soak), ("up", "down")],
    ids=" ".join,
)
def test_a_connection_that_hangs_does_not_keep_the_stream_from_a_newer_sidecar(
    place: Place, ways: tuple[str, ...]
) -> None:
    receiver = place.serve()
    with Proxy(receiver.address) as network:
        older = place.sidecar(network.address)
        data = append(place.log, HEAD)
        receiver.gets(data)
        network.hold(*ways)
        data += append(place.log, TAIL)
        newer = place.sidecar(receiver)
        until(lambda: receiver.stored() == data, "the newer one has the stream at once", 20.0)
        data = goes_on(receiver, newer, data)
        network.release()
        fenced(older)
        data = goes_on(receiver, newer, data)
    assert newer.stop() == 0, newer.talk()
    receiver.holds(data)


def test_a_network_with_a_round_trip_of_five_seconds_is_slow_and_no_more(
    slow_network: tuple[Receiver, Program, Proxy],
) -> None:
    receiver, sidecar, network = slow_network
    receiver.gets(HEAD)
    assert network.connections == 1, sidecar.talk()
    assert sidecar.complaints() == []


def test_a_receiver_that_stands_still_for_a_while_is_waited_for(frozen: tuple[Receiver, Program, float]) -> None:
    receiver, sidecar, since = frozen
    until(lambda: time.monotonic() - since > 10.0, "ten seconds are over")
    receiver.program.tell(signal.SIGCONT)
    receiver.gets(HEAD + TAIL)
    assert sidecar.stop() == 0, sidecar.talk()
    assert sidecar.complaints() == []
    receiver.holds(HEAD + TAIL)


@pytest.mark.soak
def test_a_network_that_swallows_everything_for_longer_than_the_timeouts_costs_nothing(
    black_hole: tuple[Receiver, Program, Proxy, float],
) -> None:
    receiver, sidecar, network, since = black_hole
    until(lambda: "retrying" in sidecar.said, "it has noticed", 60.0)
    line = next(line for line in sidecar.said.splitlines() if "retrying" in line)
    assert datetime.fromisoformat(line.split()[0]).timestamp() - since < 36.0, "it says so after 30 s"
    data = HEAD + TAIL + append(receiver.place.log, NEXT)
    assert receiver.stored() == HEAD
    network.release()
    receiver.gets(data)
    assert sidecar.stop() == 0, sidecar.talk()
    assert sidecar.complaints() == []
    receiver.holds(data)
