"""A drain may take as long as it makes progress."""

from __future__ import annotations

import time

import pytest

from integration.harness.places import LOG, RUN, SITE, Place, Proxy, append, free_address, noise

# Bytes a second, of which a burst may be four seconds' worth; the idle timeout makes a heartbeat a second.
SLOW = ("--max-site-rate", "1000000", "--idle-timeout", "3")
PATIENCE = 4.0  # seconds


def filled(place: Place, logs: int, size: int) -> dict[str, bytes]:
    return {f"{n}.log": append(place.root / f"{n}.log", noise(size, n + 1)) for n in range(logs)}


def test_what_is_sent_slowly_is_sent_to_its_end(place: Place) -> None:
    """Three sites drain slowly: with --once, at SIGTERM, and with a second receiver that is gone."""
    written, receiver = filled(place, 14, 1 << 20), place.serve(*SLOW)
    drain, began = ("--drain-timeout", str(PATIENCE)), time.monotonic()
    once = place.sidecar(receiver, "--once", *drain)
    stopped = place.sidecar(receiver, *drain, site="site-2")
    beside = place.sidecar(receiver, "--receiver", free_address(), "--once", *drain, site="site-3")
    stopped.says("sending from")
    assert stopped.stop(120) == 0, stopped.talk()
    assert once.ends(120) == 0, once.talk()
    assert time.monotonic() - began > 2 * PATIENCE  # otherwise the test shows nothing
    assert beside.ends(120) == 4, beside.talk()
    assert beside.said.index("no receiver answered") < beside.said.rindex("sealed at offset")
    for site in (SITE, "site-2", "site-3"):
        assert all(receiver.stored(log, site) == data for log, data in written.items())
    assert [each["sealed"] for each in receiver.streams().values()] == [True] * 3 * len(written)


@pytest.mark.soak
def test_a_limit_is_one_whatever_moves(place: Place) -> None:
    filled(place, 14, 1 << 20)
    receiver = place.serve(*SLOW)
    began = time.monotonic()
    sidecar = place.sidecar(receiver, "--once", "--drain-limit", "3")
    assert sidecar.ends() == 7
    assert 3 <= time.monotonic() - began < 20
    assert "the limit is 3 s;" in sidecar.said
    assert place.once(receiver).ends() == 0  # the next sidecar resumes there


def test_a_receiver_that_answers_and_takes_nothing_is_not_waited_for(place: Place) -> None:
    append(place.log, noise(5 << 20))
    receiver = place.serve("--max-run-bytes", "1000000")  # and one chunk more
    sidecar = place.sidecar(receiver, "--once", "--drain-timeout", "2", "--json")
    assert sidecar.ends() == 7
    (held,) = sidecar.records()
    why = f"{RUN}/{SITE}/{LOG}: the receiver tells it to wait at offset {held['committed']}: "
    assert held["error"].startswith(why)
    assert "--max-run-bytes" in held["error"]
    assert f"1 of 1 log was not sent completely: nothing was acknowledged for 2 s; {held['error']}; " in sidecar.said
    for said in (sidecar.said, receiver.program.said):
        lines = [line for line in said.splitlines() if f"{SITE}/{LOG}: " in line]
        assert [" INFO " in line for line in lines] == [True, *[False] * (len(lines) - 1)], (
            "it is not sent when it asks"
        )


def test_a_complete_log_that_grows_and_is_held_is_no_longer_complete(place: Place) -> None:
    append(place.log, noise(1000))
    receiver = place.serve("--max-run-bytes", "1000", "--idle-timeout", "3")
    for _ in range(2):
        assert place.once(receiver).ends() == 0
        assert [each["sealed"] for each in place.streams("--receiver", receiver.address).values()] == [True]
    append(place.log, noise(1000))
    sidecar = place.sidecar(receiver)
    sidecar.says("tells it to wait")
    for wait in (0, 4):  # longer than the idle timeout: its sidecar has gone
        time.sleep(wait)
        (held,) = place.streams("--receiver", receiver.address).values()
        assert (held["sealed"], held["committed"]) == (False, 1000)
        sidecar.kill()


def test_a_log_that_was_held_is_said_to_be_sent_when_it_is_taken_again(place: Place) -> None:
    receiver = place.serve("--max-run-bytes", "100000", listen=free_address())
    data = append(place.log, noise(5 << 20))
    sidecar = place.sidecar(receiver)
    sidecar.says("tells it to wait")
    assert receiver.stop() == 0
    receiver = receiver.again()
    receiver.gets(data)
    sidecar.says("sending from offset", times=2)
    assert sidecar.stop() == 0, sidecar.talk()
    assert sidecar.said.count("sending from offset") == 2, sidecar.said


def test_what_is_said_of_a_log_names_the_receiver_where_there_are_several(place: Place) -> None:
    append(place.log, noise(1000))
    one, other = place.serve(), place.serve(store=place.directory / "other")
    assert one.program.said.count("opened") == 0
    args = ("--receiver", other.address, "--receiver", one.address, "--once")
    sidecar = place.sidecar(one, *args)
    assert sidecar.ends() == 0, sidecar.talk()
    for receiver in (one, other):
        for what in ("sending from offset 0", "sealed at offset 1000"):
            assert sidecar.said.count(f" INFO sidecar: {receiver.address}: {RUN}/{SITE}/{LOG}: {what}\n") == 1


def test_a_receiver_that_is_given_twice_is_one(place: Place) -> None:
    append(place.log, noise(1000))
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--receiver", receiver.address, "--once")
    assert sidecar.ends() == 0, sidecar.talk()
    assert sidecar.said.count(f" INFO sidecar: {RUN}/{SITE}/{LOG}: sealed at offset 1000\n") == 1


def test_a_connection_that_stalls_ends_it(place: Place) -> None:
    filled(place, 4, 1 << 20)
    receiver = place.serve(*SLOW)
    with Proxy(receiver.address) as network:
        sidecar = place.sidecar(network.address, "--once", "--drain-timeout", "2")
        sidecar.says("sending from")
        network.hold()
        began = time.monotonic()
        assert sidecar.ends() == 7
        assert time.monotonic() - began < 20


@pytest.mark.parametrize(("logs", "most"), [(600, 100), pytest.param(10_000, 5_000, marks=pytest.mark.soak)])
def test_more_logs_than_a_site_may_have_open_are_sent(place: Place, logs: int, most: int) -> None:
    """Some logs are held until others have ended, and only a few of them are reported."""
    written = filled(place, logs, 2_000)
    receiver = place.serve("--max-site-streams", str(most), "--durability", "memory")
    sidecar = place.sidecar(receiver, "--once", "--drain-timeout", "20")
    assert sidecar.ends(120) == 0, sidecar.talk()
    assert all(receiver.stored(log) == data for log, data in written.items())
    assert sidecar.said.count("tells it to wait") <= 10 * 3  # ten a minute
