"""Receivers that share a store on three real servers: any of them, and any server, may die while a site sends."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Iterator

import pytest

from integration.harness.nats import Nats, missing
from integration.harness.places import LOG, RUN, SITE, Place, Program, Writer, free_address, until
from tests.certificates import Authority

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with Nats(tmp_path_factory.mktemp("nats"), 3) as servers:
        yield servers


NAMES = iter(f"s{number}" for number in range(1000))


@pytest.fixture
def url(three: Nats, place: Place) -> str:
    """The URL of a new store."""
    url = three.url(next(NAMES))
    made = place.call("store", "init", url, "--max-bytes", "5GB", "--shards", "2")
    assert made.ends() == 0, made.talk()
    return url


def served(place: Place, url: str, *args: str, listen: str = "127.0.0.1:0") -> tuple[Program, str]:
    """A receiver of the store at *url*, and its address."""
    ready = place.directory / f"{len(place.programs)}.ready"
    program = place.start("serve", "--store", url, "--listen", listen, "--ready-file", str(ready), *args)
    until(lambda: ready.exists() or program.process.poll() is not None, lambda: f"{program} is ready: {program.said}")
    assert ready.exists(), program.talk()
    return program, ready.read_text().strip()


def raw(place: Place, *where: str) -> bytes:
    """The bytes of the log, as ``flarelog logs`` writes them."""
    shown = place.call("logs", RUN, "--site", SITE, "-o", "raw", *where)
    assert shown.ends() in (0, 6, 7), shown.talk()
    return (place.directory / f"{len(place.programs) - 1}.out").read_bytes()


def test_two_receivers_give_the_same_answers(place: Place, url: str) -> None:
    place.log.write_bytes(b"one\ntwo\n" * 5000)
    first, address = served(place, url)
    second, other = served(place, url)
    assert place.once(address).ends() == 0
    answers = [place.streams("--receiver", address), place.streams("--receiver", other), place.streams("--store", url)]
    assert answers[0] == answers[1] == answers[2]
    (record,) = answers[0].values()
    assert (record["committed"], record["sealed"]) == (40_000, True)
    assert raw(place, "--receiver", other) == raw(place, "--store", url) == place.log.read_bytes()
    verified = place.call("verify", RUN, "--store", url, "--source", str(place.root))
    assert verified.ends() == 0, verified.talk()
    for command in (["runs"], ["status", RUN], ["report", RUN, "-o", "run.html"], ["findings", RUN]):
        told = place.call(*command, "--store", url)
        assert told.ends() == (3 if command[0] == "findings" else 0), told.talk()  # it found no trouble
    assert place.call("rm", RUN, "--yes", "--store", url).ends() == 0
    assert place.call("logs", RUN, "--receiver", address).ends() == 3
    for program in (first, second):
        assert program.stop() == 0, program.talk()
        assert not program.complaints()


def test_a_receiver_is_killed_and_another_goes_on_at_its_address(place: Place, url: str) -> None:
    listen = free_address()
    receiver, _ = served(place, url, listen=listen)
    _, other = served(place, url)
    sidecar = place.sidecar(listen)
    with Writer(place.log, pause=0.002) as writer:
        for _ in range(3):
            writer.wrote(200_000)
            receiver.kill()
            begun = time.monotonic()
            receiver, _ = served(place, url, listen=listen)
            grew(place, other)
            print(f"bytes come again {time.monotonic() - begun:.1f} s after a receiver was killed")
    assert sidecar.stop() == 0, sidecar.talk()
    assert_whole(place, other)


@pytest.mark.parametrize("what", ["killed", "stopped and woken"])
def test_a_sidecar_goes_on_at_the_other_receiver(place: Place, url: str, what: str) -> None:
    receivers = [served(place, url) for _ in range(2)]
    sidecar = place.sidecar(",".join(address for _, address in receivers))
    with Writer(place.log, pause=0.002) as writer:
        writer.wrote(200_000)
        until(lambda: any("opened at" in one.said for one, _ in receivers), "a receiver has the log")
        here, there = sorted(receivers, key=lambda one: "opened at" not in one[0].said)
        begun = time.monotonic()
        here[0].kill() if what == "killed" else here[0].tell(signal.SIGSTOP)
        there[0].says("opened at offset")
        print(f"the other one has the log {time.monotonic() - begun:.1f} s after the first was {what}")
        assert time.monotonic() - begun < (5 if what == "killed" else 45)
        grew(place, there[1])
        if what != "killed":
            here[0].tell(signal.SIGCONT)
        writer.wrote(200_000)
    assert sidecar.stop() == 0, sidecar.talk()
    assert_whole(place, there[1])
    assert "a newer sidecar" not in sidecar.said


def test_the_leader_is_killed_under_a_receiver(place: Place, url: str, three: Nats) -> None:
    receiver, address = served(place, url)
    sidecar = place.sidecar(address)
    with Writer(place.log, pause=0.002) as writer:
        writer.wrote(200_000)
        for shard in range(2):
            leader = three.leader(f"flarelog-{url.rpartition('/')[2]}-{shard}")
            three.kill(leader)
            writer.wrote(200_000)
            grew(place, address)
            three.start(leader)
            three.settle()
        writer.wrote(200_000)
    assert sidecar.stop() == 0, sidecar.talk()
    assert_whole(place, address)
    assert not receiver.complaints()


def grew(place: Place, address: str) -> None:
    """Wait until more bytes are stored than are now."""
    key = f"{SITE}/{LOG}"

    def stored() -> int:
        found = place.call("streams", RUN, "--json", "--receiver", address)
        return int(found.records()[0]["committed"]) if found.ends() == 0 else 0

    before = stored()
    until(lambda: stored() > before + 10_000, f"{key} grows")


def assert_whole(place: Place, address: str) -> None:
    data, found = place.log.read_bytes(), raw(place, "--receiver", address)
    assert hashlib.sha256(found).hexdigest() == hashlib.sha256(data).hexdigest(), (len(found), len(data))


def test_a_token_made_and_revoked_in_the_store_counts_at_every_receiver(place: Place, url: str) -> None:
    place.log.write_bytes(b"one\n")
    ready = place.directory / "second.ready"
    tls = Authority.new(place.directory / "certs").issue("receiver", hosts=["127.0.0.1"])
    first, address = served(place, url)
    second = place.start(
        *("serve", "--store", url, "--listen", "127.0.0.1:0", "--reader-listen", "127.0.0.1:0"),
        *("--ready-file", str(ready), "--tls-ca", tls.ca, "--tls-cert", tls.cert, "--tls-key", tls.key),
    )
    assert place.once(address).ends() == 0
    made = place.call("token", "create", "wall", "--store", url)
    assert made.ends() == 0, made.talk()
    secret = place.directory / "wall.token"
    secret.touch(0o600)
    secret.write_text(made.printed)
    until(lambda: (place.directory / "second.ready.reader").exists(), lambda: second.talk())
    where = ("--receiver", (place.directory / "second.ready.reader").read_text().strip(), "--token-file", str(secret),
             "--tls-ca", tls.ca)  # fmt: skip
    until(lambda: place.call("streams", RUN, *where).ends() == 0, "the token counts")
    (record,) = place.call("token", "list", "--json", "--store", url).records()
    assert place.call("token", "revoke", record["id"], "--store", url).ends() == 0
    until(lambda: place.call("streams", RUN, *where).ends() == 5, "the token is refused", 5)
    for program in (first, second):
        assert program.stop() == 0, program.talk()


def test_a_run_ends_at_a_receiver_without_its_streams(place: Place, url: str) -> None:
    place.log.write_bytes(b"one\n")
    first, address = served(place, url)
    second, other = served(place, url)
    sidecar = place.sidecar(address)
    first.says("opened at offset 0")
    until(lambda: "running" in place.call("runs", "--receiver", other, "--json").printed, "the other one knows it")
    with place.log.open("ab") as log:
        log.write(b"two\n" * 1000)
    assert place.call("run-end", RUN, "--receiver", other).ends() == 0
    assert sidecar.ends() == 0, sidecar.talk()
    for receiver in (address, other):
        until(lambda: "ended" in place.call("runs", "--receiver", receiver, "--json").printed, "the run ends")  # noqa: B023
    assert_whole(place, other)
    for program in (first, second):
        assert program.stop() == 0, program.talk()


def test_doctor_says_what_can_be_seen_of_a_store(place: Place, url: str) -> None:
    found = place.call("doctor", "--store", url, "--json")
    assert found.ends() == 0, found.talk()
    rows = {(row["check"], row["result"]): row["found"] for row in found.records()}
    assert "2 shards; its server is nats-server 2." in rows["store", "ok"]
    assert "each byte is on 3 servers" in rows["replicas", "ok"]
    assert "a second one after the same message is refused" in rows["writing", "ok"]
    assert "cannot be seen from here" in rows["power", "warn"]
    nowhere = place.call("doctor", "--store", f"{url}x", "--json")
    assert nowhere.ends() == 1
    assert "there is no store at nats://" in nowhere.printed


def test_what_does_not_go_with_a_url_is_refused(place: Place, url: str) -> None:
    for more, said in (
        (("--durability", "disk"), "--durability is for a directory"),
        (("--workers", "2"), "--workers is for a directory"),
    ):
        refused = place.call("serve", "--store", url, "--listen", "127.0.0.1:0", *more)
        assert refused.ends() == 2
        assert said in refused.said
    nowhere = place.call("serve", "--store", f"{url}-nowhere", "--listen", "127.0.0.1:0")
    assert nowhere.ends() == 78
    assert "there is no store at nats://" in nowhere.said
    creds = place.call("streams", "--store", str(place.directory), "--nats-ca", "x.pem")
    assert creds.ends() == 2
    assert "is a directory" in creds.said
