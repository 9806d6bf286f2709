"""Two receivers of one store on a real server give the same answers, whichever of them is asked."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from integration.harness.nats import Nats, missing
from integration.harness.places import RUN, Place, Program, Writer, until
from integration.test_nats_receivers import raw, served

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
NAMES = iter(f"shared{number}" for number in range(1000))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with Nats(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def url(one: Nats, place: Place) -> str:
    """The URL of a new store."""
    url = one.url(next(NAMES))
    made = place.call("store", "init", url, "--replicas", "1", "--max-bytes", "5GB", "--shards", "1")
    assert made.ends() == 0, made.talk()
    return url


@pytest.fixture
def two(place: Place, url: str) -> tuple[str, str]:
    """The addresses of two receivers of the store."""
    return served(place, url)[1], served(place, url)[1]


def state_of(place: Place, address: str) -> str:
    (record,) = place.call("runs", "--json", "--receiver", address).records()
    return str(record["state"])


def stored(place: Place, address: str) -> None:
    until(lambda: place.call("streams", RUN, "--receiver", address).ends() == 0, "the log is stored", 10)


def ended(place: Place, address: str) -> None:
    until(lambda: state_of(place, address) == "ended", "the run has ended", 5)


def ends(program: Program, code: int = 0) -> None:
    assert program.ends() == code, program.talk()


def test_a_run_is_announced_and_ended_at_a_receiver_without_its_streams(place: Place, url: str) -> None:
    _, here = served(place, url, "--announced-runs-only")
    _, there = served(place, url, "--announced-runs-only")
    sidecar = place.sidecar(here)
    with Writer(place.log, pause=0.01) as writer:
        ends(place.call("run-start", RUN, "--receiver", there))
        writer.wrote(20_000)
    ends(place.call("run-end", RUN, "--receiver", there))
    ends(sidecar)
    for address in (here, there):
        ended(place, address)
        assert raw(place, "--receiver", address) == place.log.read_bytes()


def test_a_run_with_a_log_open_at_the_other_receiver_is_removed_by_force_alone(
    place: Place, two: tuple[str, str]
) -> None:
    here, there = two
    sidecar = place.sidecar(here)
    with Writer(place.log, pause=0.01) as writer:
        writer.wrote(20_000)
        stored(place, there)
        refused = place.call("rm", RUN, "--yes", "--receiver", there)
        ends(refused, 5)
        assert "a log of run run-1 is open: end the run first" in refused.said
        ends(place.call("rm", RUN, "--yes", "--force", "--receiver", there))
    ends(sidecar, 5)
    assert "was removed at the receiver" in sidecar.said
    for address in two:
        assert place.call("runs", "--json", "--receiver", address).records() == []


def status(place: Place, address: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The record of the one log, that of the store, and what is said on stderr."""
    told = place.call("status", RUN, "--json", "--receiver", address)
    told.ends()
    log, store = told.records()
    return log, store["store"], told.said


def test_each_receiver_tells_which_one_has_a_log_and_how_the_store_stands(place: Place, two: tuple[str, str]) -> None:
    here, there = two
    place.sidecar(here)
    with Writer(place.log, pause=0.01) as writer:
        writer.wrote(20_000)
        stored(place, there)
        for address in two:
            log, store, said = status(place, address)
            assert log["state"] == "live"
            assert str(log["receiver"]).endswith(here.partition(":")[2])
            assert store["leaders"] == ["its only server"] or len(store["leaders"]) == 1
            assert 0 < store["bytes"] < store["max_bytes"]  # the frames of the log, which take less than it does
            assert "no answer" not in said
        table = place.call("status", RUN, "--receiver", there)
        ends(table)
        assert "RECEIVER" in table.printed
        assert "store nats://" in table.printed


def test_the_logs_of_a_killed_receiver_lose_their_link_until_their_sidecar_comes_to_another(
    place: Place, url: str
) -> None:
    receivers = {address: program for program, address in (served(place, url), served(place, url))}
    sidecar = place.sidecar(",".join(receivers))
    with Writer(place.log, pause=0.01) as writer:
        writer.wrote(20_000)
        here, there = receivers
        stored(place, here)
        if str(status(place, here)[0]["receiver"]).endswith(there.partition(":")[2]):
            here, there = there, here
        receivers[here].kill()
        log, _, said = status(place, there)
        if log["state"] != "live":  # the sidecar is quick
            assert log["state"] == "lost link"
            assert "no answer from the receiver at" in said
            assert log["seconds"] < 10
        until(lambda: status(place, there)[0]["state"] == "live", "the log goes on at the other receiver", 20)
        assert str(status(place, there)[0]["receiver"]).endswith(there.partition(":")[2])
    ends(place.call("run-end", RUN, "--receiver", there))
    ends(sidecar)
    ended(place, there)
    assert raw(place, "--receiver", there) == place.log.read_bytes()


def test_of_two_sidecars_of_a_site_at_different_receivers_the_older_ends(place: Place, two: tuple[str, str]) -> None:
    here, there = two
    older = place.sidecar(here)
    with Writer(place.log, pause=0.01) as writer:
        writer.wrote(20_000)
        stored(place, there)
        newer = place.sidecar(there)
        ends(older, 5)
        assert "a newer sidecar has this log" in older.said
        writer.wrote(20_000)
        until(lambda: str(status(place, here)[0]["receiver"]).endswith(there.partition(":")[2]), "the newer one has it")
    assert newer.stop() == 0, newer.talk()
    assert raw(place, "--receiver", here) == place.log.read_bytes()


def test_a_run_ends_though_the_receiver_that_was_asked_to_end_it_is_killed(place: Place, url: str) -> None:
    (asked, here), (_, there) = served(place, url), served(place, url)
    sidecar = place.sidecar(there)
    with Writer(place.log, pause=0.01) as writer:
        writer.wrote(20_000)
        stored(place, there)
        sidecar.process.send_signal(signal.SIGSTOP)  # its log stays open meanwhile
        ends(place.call("run-end", RUN, "--receiver", here))
        asked.kill()
    sidecar.process.send_signal(signal.SIGCONT)
    ends(sidecar)
    until(lambda: state_of(place, there) == "ended", "the run has ended", 60)
    assert raw(place, "--receiver", there) == place.log.read_bytes()


def test_a_stopped_receiver_is_named_and_a_run_is_then_removed_by_force_alone(place: Place, url: str) -> None:
    place.log.write_bytes(b"one\n")
    (stopped, here), (_, there) = served(place, url), served(place, url)
    ends(place.once(there))
    stopped.process.send_signal(signal.SIGSTOP)
    try:
        _, _, said = status(place, there)
        assert f"no answer from the receiver at {name_of(here)}" in said
        refused = place.call("rm", RUN, "--yes", "--receiver", there)
        assert refused.ends() != 0
        assert f"the receiver at {name_of(here)} does not answer, and may have logs of run run-1 open" in refused.said
        ends(place.call("rm", RUN, "--yes", "--force", "--receiver", there))
    finally:
        stopped.process.send_signal(signal.SIGCONT)
    until(lambda: place.call("runs", "--json", "--receiver", here).records() == [], "the other one forgets it", 60)


def name_of(address: str) -> str:
    """The name of the receiver at *address* for the others: that of a loopback address would be ambiguous."""
    return f"{socket.gethostname()}:{address.rpartition(':')[2]}"
