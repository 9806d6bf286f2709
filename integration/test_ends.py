"""Interchangeable receivers of one store, as one list, one name, or behind a balancer: each may die or freeze."""

from __future__ import annotations

import shutil
import signal
import time
from datetime import UTC, datetime

import pytest

from flarelog.integrations.producer import Producer
from flarelog.lifecycle import Event
from flarelog.security import authority
from flarelog.security.authority import Role
from flarelog.v1 import log_pb2 as pb
from integration.harness.pages import STREAM, Page, closing, tailing
from integration.harness.places import (
    LOG,
    RUN,
    SITE,
    Place,
    Plain,
    Program,
    Proxy,
    Receiver,
    Writer,
    append,
    content,
    difference,
    free_address,
    lines,
    until,
)
from integration.harness.proxies import ConnectProxy
from integration.test_addresses import with_hosts
from integration.test_doctor import rows, tls
from integration.test_hostile_receiver import HostileReceiver, always, reply

FROZEN = 35.0  # seconds within which bytes reach the other end after one froze
LOST = 3.0  # seconds for the same after the loss of a connection was seen; a restart of the receiver comes on top


def follower(place: Place, receiver: str, *args: str, plain: Plain = False) -> Program:
    """A follower that writes the exact bytes of the log."""
    return place.start("follow", RUN, "--receiver", receiver, "--site", SITE, "-o", "raw", *args, plain=plain)


def follows(program: Program, wanted: bytes) -> None:
    until(lambda: program.out == wanted, lambda: f"{difference(wanted, program.out)}; {program.talk()}")


def stores(receiver: Receiver, sidecar: Program, data: bytes) -> None:
    assert sidecar.stop() == 0, sidecar.talk()
    assert receiver.stored() == data, difference(data, receiver.stored())
    assert "ERROR" not in sidecar.said


def test_a_site_and_a_reader_go_on_at_the_other_end_when_one_is_killed(place: Place) -> None:
    here, there = place.serve(), free_address()
    both = f"{here.address},{there}"
    with Writer(place.log) as writer:
        sidecar = place.sidecar(both)
        reader = follower(place, both)
        here.grows(200_000)
        for _ in range(3):
            here.program.kill()
            here, there = place.serve(listen=there, store=here.store), here.address
            begun = time.monotonic()
            here.grows(100_000)
            assert time.monotonic() - begun < LOST + 2
    here.gets(bytes(writer.written))
    follows(reader, bytes(writer.written))
    stores(here, sidecar, bytes(writer.written))
    assert "retrying at " in sidecar.said
    assert f"no connection to {here.address}" in sidecar.said or f"no connection to {there}" in sidecar.said


def test_an_agent_a_command_and_a_producer_go_on_at_the_other_end(place: Place) -> None:
    here, there = place.serve(), free_address()
    both, root = f"{here.address},{there}", place.directory / "jobs"
    for job in ("job-1", "job-2"):
        (root / job).mkdir(parents=True)
    files = [root / "job-1" / LOG, root / "job-2" / LOG, place.log]
    agent = place.start("agent", "--receiver", both, "--site", SITE, "--root", str(root), "--run-from", "path:{run}/**")
    go_on, script = place.directory / "go-on", "echo one; while [ ! -e $0 ]; do sleep 0.1; done; echo two"
    command = place.start("run", "--receiver", both, "--run", "job-3", "--site", SITE, "--merge", "--",
                          "sh", "-c", script, str(go_on))  # fmt: skip
    with Producer(both, SITE, str(place.root)) as producer:
        producer.bus.publish(Event.START_RUN, RUN)
        for file, run in zip(files, ("job-1", "job-2", RUN), strict=True):
            here.gets(append(file, lines(100)), run=run)
        until(lambda: content(here.file("output.log", run="job-3")) == b"one\n", "the command's output comes")
        here.program.kill()
        here = place.serve(listen=there, store=here.store)
        for file, run in zip(files, ("job-1", "job-2", RUN), strict=True):
            append(file, lines(100, 100))
            here.gets(lines(200), run=run)
        producer.bus.publish(Event.END_RUN, RUN)
    assert [outcome.exit_code for outcome in producer.outcomes[RUN]] == [0]
    go_on.touch()
    assert command.ends() == 0
    assert here.stored("output.log", run="job-3") == b"one\ntwo\n"
    assert agent.stop() == 0, agent.talk()


def test_a_site_goes_on_at_the_other_end_when_one_is_stopped_cleanly(place: Place) -> None:
    here, there = place.serve(), free_address()
    with Writer(place.log) as writer:
        sidecar = place.sidecar(f"{here.address},{there}")
        for _ in range(3):
            here.grows(100_000)
            assert here.stop() == 0
            here, there = place.serve(listen=there, store=here.store), here.address
        here.grows(100_000)
    stores(here, sidecar, bytes(writer.written))


@pytest.mark.parametrize("way", ["list", pytest.param("name", marks=pytest.mark.soak)])
def test_a_site_and_a_reader_leave_an_end_that_froze(place: Place, way: str) -> None:
    """The other end has a copy of the store, as a shared store would have its bytes."""
    first, there = place.serve(), free_address()
    plain: Plain = False
    both = f"{first.address},{there}"
    if way == "name":
        port = first.address.rpartition(":")[2]
        there, both, plain = f"127.0.0.9:{port}", f"refuses-first:{port}", with_hosts(place.directory)
    data = append(place.log, lines(100))
    sidecar = place.sidecar(both, plain=plain)
    reader = follower(place, both, plain=plain)
    follows(reader, data)
    shutil.copytree(first.store, place.directory / "other")
    second = place.serve(listen=there, store=place.directory / "other")
    first.program.tell(signal.SIGSTOP)
    begun = time.monotonic()
    data += append(place.log, lines(100, 100))
    second.gets(data)
    assert time.monotonic() - begun < FROZEN
    follows(reader, data)
    assert time.monotonic() - begun < FROZEN + 5
    stores(second, sidecar, data)
    shown = place.call("logs", RUN, "--receiver", both, "-o", "raw", plain=plain)  # a frozen end, perhaps first
    assert shown.out == data, difference(data, shown.out)


@pytest.mark.soak  # the end that froze shows the same
def test_a_path_to_an_end_that_swallows_everything_is_left(place: Place) -> None:
    receiver = place.serve()
    with Proxy(receiver.address) as one, Proxy(receiver.address) as other:
        data = append(place.log, lines(100))
        sidecar = place.sidecar(f"{one.address},{other.address}")
        receiver.gets(data)
        used, free = (one, other) if one.connections else (other, one)
        used.hold()
        data += append(place.log, lines(100, 100))
        begun = time.monotonic()
        receiver.gets(data)
        assert time.monotonic() - begun < FROZEN
        assert free.connections
        stores(receiver, sidecar, data)


def test_an_end_that_sends_everyone_away_is_left(place: Place) -> None:
    data, there = append(place.log, lines(100)), free_address()
    with HostileReceiver(always(reply(pb.GOING_AWAY, reason="another receiver has it"))) as leaving:
        sidecar = place.sidecar(f"{leaving.address},{there}")
        until(lambda: leaving.calls > 2, "it is asked again, after the other end")
        begun, before = time.monotonic(), leaving.calls
        sidecar.says(f"retrying at {there}")
        receiver = place.serve(listen=there)
        receiver.gets(data)
        assert leaving.calls - before < 2 + 5 * (time.monotonic() - begun)
        stores(receiver, sidecar, data)


@pytest.mark.parametrize("encrypted", [False, True])
def test_each_address_of_a_name_is_an_end(place: Place, encrypted: bool) -> None:
    """With TLS, the certificate has the name alone."""
    hosts = with_hosts(place.directory)
    files: dict[str, tuple[str, ...]] = {"server": (), SITE: (), "anna": ()}
    if encrypted:
        ca, now = place.directory / "certs", datetime.now(UTC)
        authority.init(ca, now=now)
        authority.issue_server(ca, ["refuses-first"], days=365, now=now)
        authority.issue(ca, Role.SITE, SITE, days=90, now=now)
        authority.issue(ca, Role.READER, "anna", days=90, now=now)
        files = {name: tls(ca, name) for name in files}
    here = place.serve(*files["server"])
    port = here.address.rpartition(":")[2]
    there, name = f"127.0.0.9:{port}", f"refuses-first:{port}"
    with Writer(place.log) as writer:
        sidecar = place.sidecar(name, *files[SITE], plain=hosts)
        reader = follower(place, name, *files["anna"], plain=hosts)
        here.grows(100_000)
        for _ in range(2):
            here.program.kill()
            here, there = place.serve(*files["server"], listen=there, store=here.store), here.address
            here.grows(100_000)
    here.gets(bytes(writer.written))
    follows(reader, bytes(writer.written))
    stores(here, sidecar, bytes(writer.written))


class Balancer(Proxy):
    """A TCP balancer: each connection goes to the next of its *targets*."""

    def __init__(self, *targets: str) -> None:
        self._targets = [(host, int(port)) for host, _, port in (target.rpartition(":") for target in targets)]
        super().__init__(targets[0])

    @property
    def _target(self) -> tuple[str, int]:
        self._targets.append(self._targets.pop(0))
        return self._targets[-1]

    @_target.setter
    def _target(self, _: object) -> None: ...


def test_a_balancer_may_stand_before_the_ends(place: Place) -> None:
    here, there = place.serve(), free_address()
    with Balancer(here.address, there) as balancer:
        with Writer(place.log) as writer:
            sidecar = place.sidecar(balancer.address)
            reader = follower(place, balancer.address)
            here.grows(100_000)
            for _ in range(2):
                here.program.kill()
                here, there = place.serve(listen=there, store=here.store), here.address
                here.grows(100_000)
        here.gets(bytes(writer.written))
        follows(reader, bytes(writer.written))
        stores(here, sidecar, bytes(writer.written))


def test_the_ends_may_be_behind_a_proxy(place: Place) -> None:
    receiver = place.serve()
    port = receiver.address.rpartition(":")[2]
    ends = [f"{name}.hospital.example:{port}" for name in ("north", "south")]
    with ConnectProxy(receiver.address) as proxy:
        data = append(place.log, lines(100))
        sidecar = place.sidecar(",".join(ends), "--proxy", proxy.url)
        receiver.gets(data)
        assert receiver.stop() == 0
        receiver = receiver.again()
        data += append(place.log, lines(100, 100))
        receiver.gets(data)
        stores(receiver, sidecar, data)
        assert set(proxy.requests) == set(ends)


def test_every_command_asks_the_end_that_is_there(place: Place) -> None:
    receiver = place.serve()
    several = f"{free_address()},{free_address()},{receiver.address}"
    data = append(place.log, b"hello\n")
    commands: list[tuple[str, ...]] = [
        ("run-start", RUN), ("streams",), ("status", RUN), ("runs",), ("findings", RUN), ("logs", RUN, "-o", "raw"),
        ("report", RUN, "-o", str(place.directory / "report.html")), ("run-end", RUN), ("rm", RUN, "--yes"),
    ]  # fmt: skip
    place.call(*commands[0], "--receiver", several)
    assert place.once(several).ends() == 0
    place.call("run", "--receiver", several, "--run", "run-2", "--site", SITE, "--", "echo", "hello")
    for command in commands:
        done = place.call(*command, "--receiver", several)
        assert done.ends() == (3 if command[0] == "findings" else 0), done.talk()  # 3: none was found
        assert "Traceback" not in done.said
        if command[0] == "logs":
            assert done.out == data
    assert (receiver.store / "run-2" / SITE).is_dir()
    assert not (receiver.store / RUN).exists()
    found = place.call("doctor", "--receiver", receiver.address, "--site", SITE, "-o", "json")
    assert rows(found, 0)["round trip"][0] == "ok"
    dead = several.partition(",")[0]
    found = place.call("doctor", "--receiver", f"{receiver.address},{dead}", "-o", "json")
    assert f"{dead} refused the connection: no program listens there" in found.printed
    assert found.ends() == 1


def test_the_page_goes_on_at_the_other_end(place: Place) -> None:
    here, there = place.serve(), free_address()
    both = f"{here.address},{there}"
    append(place.log, b"".join(b"line %d\n" % number for number in range(100)))
    sidecar = place.sidecar(both)
    with closing(place):
        client = Page(place, "--receiver", both).browser()
        here.gets(place.log.read_bytes())
        with tailing(client, {**STREAM, "from": 0}) as tail:
            until(lambda: "line 99" in tail.texts(), "the page shows the lines")
            for number in (100, 101):
                here.program.kill()
                here, there = place.serve(listen=there, store=here.store), here.address
                append(place.log, b"line %d\n" % number)
                until(lambda wanted=f"line {number}": wanted in tail.texts(), "the page goes on")  # type: ignore[misc]
            shown = tail.texts()
    assert len(shown) == tail.given == 102
    assert sidecar.stop() == 0


def test_an_end_in_two_receivers_is_refused(place: Place) -> None:
    program = place.start("sidecar", "--receiver", "a:1,b:1", "--receiver", "b:1", "--run", RUN, "--site", SITE,
                          "--root", str(place.root))  # fmt: skip
    assert program.ends() == 2
    assert program.sentence().endswith("'b:1' is in two receivers: name it once")
