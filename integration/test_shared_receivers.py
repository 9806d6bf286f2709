"""Two receivers of one store on a real server give the same answers, whichever of them is asked."""

from __future__ import annotations

from collections.abc import Iterator

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
        until(lambda: bool(place.streams("--receiver", there)), "the log is stored")
        refused = place.call("rm", RUN, "--yes", "--receiver", there)
        ends(refused, 5)
        assert "a log of run run-1 is open: end the run first" in refused.said
        ends(place.call("rm", RUN, "--yes", "--force", "--receiver", there))
    ends(sidecar, 5)
    assert "was removed at the receiver" in sidecar.said
    for address in two:
        assert place.call("runs", "--json", "--receiver", address).records() == []
