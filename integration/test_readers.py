"""Readers with a token at a port of their own; files that are read again; and refused strangers."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flarelog.client import Client
from flarelog.errors import NotAllowed
from flarelog.model import Buffer, StreamId
from flarelog.security import guard
from flarelog.security.refusals import SAID_A_MINUTE
from flarelog.security.tls import Tls
from integration.harness.places import LOG, RUN, SITE, Place, Program, Receiver, append, lines, until
from tests.certificates import Authority

DATA = lines(500)
HOSTS = ("127.0.0.1", "localhost")


def files(tls: Tls) -> tuple[str, ...]:
    return ("--tls-ca", tls.ca, "--tls-cert", tls.cert, "--tls-key", tls.key)


@pytest.fixture
def ca(place: Place) -> Authority:
    return Authority.new(place.directory / "certs")


@pytest.fixture
def receiver(place: Place, ca: Authority) -> Receiver:
    """A receiver with a log of SITE."""
    receiver = place.serve(*files(ca.issue("receiver", hosts=HOSTS)), "--reader-listen", "127.0.0.1:0")
    append(place.log, DATA)
    program = place.once(receiver, *files(ca.issue(SITE)))
    assert program.process.returncode == 0, program.talk()
    return receiver


def streams(place: Place, address: str, *args: str, **env: Any) -> Program:
    return place.call("streams", RUN, "--receiver", address, "--json", *args, **env)


def trusting(place: Place) -> tuple[str, str]:
    return ("--tls-ca", str(place.directory / "certs" / "ca.crt"))


def test_a_person_at_a_terminal_reads_with_a_token_and_the_ca_alone(place: Place, receiver: Receiver) -> None:
    token = place.token("wall", "--runs", "run-*")
    by_option = streams(place, receiver.reader_address, *trusting(place), "--token-file", str(token))
    by_variable = streams(
        place, receiver.reader_address, FLARELOG_TLS_CA=trusting(place)[1], FLARELOG_TOKEN_FILE=str(token)
    )
    for program in (by_option, by_variable):
        assert [record["committed"] for record in program.records()] == [len(DATA)], program.talk()
    receiver.program.says('"identity": "token ')
    secret = token.read_text().strip()
    assert secret not in receiver.program.said + by_option.talk() + by_variable.talk()


def test_logs_and_follow_with_a_token_of_that_run(place: Place, receiver: Receiver) -> None:
    at = ("--receiver", receiver.reader_address, *trusting(place))
    token = ("--token-file", str(place.token("wall", "--runs", RUN)))
    for command in ("logs", "follow"):
        other = place.call(command, "run-2", *at, *token)
        assert (other.process.returncode, "may not" in other.sentence()) == (5, True)
        nobody = place.call(command, RUN, *at)
        assert (nobody.process.returncode, "give --token-file" in nobody.sentence()) == (5, True)
    assert place.call("logs", RUN, *at, *token, "-o", "raw").printed.count("loss") == 500
    follow = place.start("follow", RUN, *at, *token, "-o", "json", "--no-notes")
    until(lambda: follow.printed.count("loss") == 500, follow.talk)
    (id,) = [record["id"] for record in place.call("token", "list", "--store", "store", "--json").records()]
    assert place.call("token", "revoke", id, "--store", "store").process.returncode == 0
    assert (follow.ends(), "refuses: " in follow.sentence()) == (5, True)


def test_an_operator_begins_and_ends_runs_with_a_token(place: Place, receiver: Receiver) -> None:
    ops = str(place.token("ops", "--role", "operator"))
    at = ("--receiver", receiver.reader_address, *trusting(place), "--token-file", ops)
    assert place.call("run-start", "run-2", *at).printed == "run-2 running\n"
    assert place.call("run-end", "run-2", *at).printed.startswith("run-2 end")
    refused = streams(place, receiver.reader_address, *trusting(place), "--token-file", ops)
    assert (refused.process.returncode, "the role reader is required" in refused.sentence()) == (5, True)


def test_both_addresses_are_told_and_who_reads_the_ready_file_reads_one_line(place: Place, receiver: Receiver) -> None:
    assert receiver.program.said.splitlines()[:2] == [
        f"receiver: receiving at {receiver.address} into {receiver.store}",
        f"receiver: token readers connect to {receiver.reader_address}",
    ]
    (ready,) = place.directory.glob("*.ready")
    assert ready.read_text() == receiver.address + "\n"


@pytest.mark.parametrize(
    ("where", "args", "code", "sentence"),
    [
        pytest.param("reader", ["CA"], 5, "the token is missing, unknown or revoked: give --token-file", id="no-token"),
        pytest.param(
            "reader", ["TOKEN"], 2, "a token needs TLS: give --tls-ca", id="a-token-without-tls", marks=pytest.mark.soak
        ),
        pytest.param("main", ["CA", "TOKEN"], 5, "it requires a certificate: give --tls-cert", id="at-the-sites-port"),
        pytest.param(
            "main", ["CA"], 5, "or connect to its port for readers with a token", id="neither", marks=pytest.mark.soak
        ),
        pytest.param("reader", [], 5, "it requires TLS: give --tls-ca", id="no-tls"),
        pytest.param("reader", ["OTHER-CA", "TOKEN"], 5, "its certificate is not trusted", id="another-ca"),
        pytest.param("localhost", ["CA", "TOKEN"], 0, "", id="by-its-name", marks=pytest.mark.soak),
        pytest.param(
            "reader",
            ["CA", "--token-file", "nowhere"],
            78,
            "nowhere cannot be read",
            id="no-file",
            marks=pytest.mark.soak,
        ),
        pytest.param("reader", ["CA", "--token-file", "open"], 5, "run chmod 600", id="a-file-for-all"),
    ],
)
def test_what_is_said_to_a_client_that_is_not_let_in(
    place: Place, receiver: Receiver, where: str, args: list[str], code: int, sentence: str
) -> None:
    token = place.token("wall")
    Authority.new(place.directory / "certs", "other")
    (place.directory / "open").write_text("flarelog_x\n")
    (place.directory / "open").chmod(0o644)
    known = {
        "CA": trusting(place),
        "OTHER-CA": ("--tls-ca", str(place.directory / "certs" / "other.crt")),
        "TOKEN": ("--token-file", str(token)),
    }
    address = receiver.address if where == "main" else receiver.reader_address
    address = address.replace("127.0.0.1", where) if where == "localhost" else address
    program = streams(place, address, *(part for arg in args for part in known.get(arg, (arg,))))
    assert program.process.returncode == code, program.talk()
    assert not sentence or sentence in program.sentence()
    assert token.read_text().strip() not in program.talk() + receiver.program.said


def test_a_sidecar_that_connects_to_the_port_for_readers_is_told_where_to_go(
    place: Place, ca: Authority, receiver: Receiver
) -> None:
    program = place.once(receiver.reader_address, *files(ca.issue(SITE)))
    assert program.process.returncode == 5
    assert "the receiver's other port takes certificates" in program.sentence()


def test_a_port_for_readers_without_tls_is_refused_with_a_sentence(place: Place) -> None:
    program = place.call("serve", "--store", "store", "--listen", "127.0.0.1:0", "--reader-listen", "127.0.0.1:0")
    assert program.process.returncode == 2
    assert "needs TLS" in program.sentence()


def test_a_port_for_readers_that_is_taken_ends_the_start_with_a_sentence(place: Place, ca: Authority) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "{}:{}".format(*taken.getsockname())
        tls = files(ca.issue("receiver", hosts=HOSTS))
        program = place.call("serve", "--store", "store", "--listen", "127.0.0.1:0", "--reader-listen", address, *tls)
    assert program.process.returncode == 1
    assert f"cannot listen on {address}: another process uses the port; give" in program.sentence()


# --- changes at run time


def audited(receiver: Receiver, word: str) -> list[dict[str, Any]]:
    said = receiver.program.said.splitlines()
    return [json.loads(line.partition(f" {word} ")[2]) for line in said if f" {word} {{" in line]


class Follower:
    """Follows SITE's log in a thread until the receiver ends the call."""

    def __init__(self, address: str, tls: Tls, token: str = "") -> None:
        self.got = bytearray()
        self.error: Exception | None = None
        self._of = address, tls, token
        self._thread = threading.Thread(target=lambda: asyncio.run(self._go()), daemon=True)
        self._thread.start()

    async def _go(self) -> None:
        address, tls, token = self._of
        try:
            async with Client(address, tls=tls, token=token) as client:
                async for _, found in client.find(StreamId(RUN, SITE, LOG), follow=True):
                    self.got += found if isinstance(found, Buffer) else b""
        except Exception as error:
            self.error = error

    def ended(self) -> Exception | None:
        self._thread.join(guard.ASK_AGAIN * 4)
        assert not self._thread.is_alive()
        return self.error


def test_a_read_that_goes_on_ends_with_a_sentence_when_its_token_is_revoked(
    place: Place, ca: Authority, receiver: Receiver
) -> None:
    token, other = place.token("wall"), place.token("hall")
    secrets = [file.read_text().strip() for file in (token, other)]
    append(place.log, DATA)
    sidecar = place.sidecar(receiver, *files(ca.issue(SITE)))
    only = Tls(trusting(place)[1])
    reads = ("--token-file", str(token), *trusting(place))
    until(lambda: not streams(place, receiver.reader_address, *reads).records()[0]["sealed"], "the log goes on")
    wall, hall = (Follower(receiver.reader_address, only, secret) for secret in secrets)
    until(lambda: bytes(wall.got) == bytes(hall.got) == DATA * 2, "both have read everything")
    listed = place.call("token", "list", "--store", "store", "--json").records()
    (id,) = [record["id"] for record in listed if record["name"] == "wall"]
    receiver.program.says("token made", 2)  # a look misses shorter-lived tokens
    assert place.call("token", "revoke", id, "--store", "store").process.returncode == 0
    ended = wall.ended()
    assert isinstance(ended, NotAllowed)
    assert f"token {id} (wall) was revoked or changed, or has expired" in str(ended)
    append(place.log, DATA)
    until(lambda: bytes(hall.got) == DATA * 3, "the other one reads on")
    receiver.program.says("ended {")
    receiver.program.says("token revoked")  # the receiver looks once a second
    assert [line["name"] for line in audited(receiver, "token made")] == ["wall", "hall"]
    assert [line["token"] for line in audited(receiver, "token revoked")] == [id]
    assert sidecar.stop() == 0


def test_a_policy_that_changes_ends_the_reads_and_the_streams_that_it_no_longer_allows(
    place: Place, ca: Authority
) -> None:
    policy = place.directory / "policy.toml"
    policy.write_text("defaults = true\n")
    tls = files(ca.issue("receiver", hosts=HOSTS))
    receiver = place.serve(*tls, "--policy", str(policy))
    append(place.log, DATA)
    sidecar = place.sidecar(receiver, *files(ca.issue(SITE)))
    receiver.gets(DATA)
    reader = Follower(receiver.address, ca.issue("reader", units=("reader",)))
    until(lambda: bytes(reader.got) == DATA, "it has been read")
    policy.write_text("half of a pol")
    receiver.program.says("the old one stays in force")
    append(place.log, DATA)
    until(lambda: bytes(reader.got) == DATA * 2, "it is read on")
    policy.write_text('[[grant]]\nidentity = "nobody-else"\nrole = "site"\n')
    assert "may not read run" in str(reader.ended())
    assert sidecar.ends() == 5, sidecar.talk()
    assert "certificate 'site-1' may not push into run" in sidecar.said


def test_a_hangup_has_both_ends_read_their_files_again_and_ends_neither(place: Place, ca: Authority) -> None:
    policy = place.directory / "policy.toml"
    policy.write_text("defaults = true\n")
    tls = ca.issue("receiver", hosts=HOSTS)
    receiver = place.serve(*files(tls), "--policy", str(policy), "--reader-listen", "127.0.0.1:0")
    append(place.log, DATA)
    sidecar = place.sidecar(receiver, *files(ca.issue(SITE)))
    receiver.gets(DATA)
    for program in (receiver.program, sidecar):
        program.tell(signal.SIGHUP)
        program.says("the certificates were read again: new connections use")
    receiver.program.says(f"the policy {policy} was read again: 0 grants")
    receiver.program.says(f"the tokens {receiver.store / '.tokens.json'} were read again: 0")
    Path(tls.key).write_text("half of a k")
    policy.write_text("half of a pol")
    receiver.program.tell(signal.SIGHUP)
    receiver.program.says("the old certificates stay in use")
    receiver.program.says("the old one stays in force")
    append(place.log, DATA)
    receiver.gets(DATA * 2)
    for _ in range(3):
        sidecar.tell(signal.SIGHUP)
        sidecar.took_signals()
    append(place.root / "late.log", DATA)
    receiver.gets(DATA, "late.log")
    assert sidecar.said.count("app.log: sending from offset") == 1
    peers = {line["peer"] for line in audited(receiver, "allowed")}
    assert len(peers) == 1, "certificates that are the same need no new connection"
    assert sidecar.stop() == 0


def test_a_hangup_ends_nothing_where_there_is_nothing_to_read_again(place: Place) -> None:
    receiver = place.serve()
    append(place.log, DATA)
    sidecar = place.sidecar(receiver)
    receiver.gets(DATA)
    for program in (receiver.program, sidecar):
        program.tell(signal.SIGHUP)
        program.says("SIGHUP has nothing to read again")
    assert sidecar.stop() == 0
    assert receiver.stop() == 0


# --- strangers


@pytest.mark.soak
def test_strangers_wait_and_fill_no_log_while_everybody_else_is_served(place: Place, receiver: Receiver) -> None:
    wrong = place.directory / "wrong.token"
    wrong.touch(0o600)
    wrong.write_text("flarelog_" + "w" * 43 + "\n")
    token = place.token("wall").read_text().strip()
    only = Tls(trusting(place)[1])

    async def go() -> tuple[float, float]:
        begin = time.monotonic()

        async def stranger() -> None:
            async with Client(receiver.reader_address, tls=only, token=wrong.read_text().strip()) as client:
                with pytest.raises(NotAllowed, match="the token is missing, unknown or revoked"):
                    await client.streams(RUN)

        strangers = [asyncio.create_task(stranger()) for _ in range(3 * SAID_A_MINUTE)]
        await asyncio.to_thread(receiver.program.says, " refused {", SAID_A_MINUTE)
        served = []
        for _ in range(3):  # three tries: a busy machine may delay one
            before = time.monotonic()
            async with Client(receiver.reader_address, tls=only, token=token) as client:
                assert len(await client.streams(RUN)) == 1
            served.append(time.monotonic() - before)
        await asyncio.gather(*strangers)
        return min(served), time.monotonic() - begin

    served, last = asyncio.run(go())
    assert last > 4.9, "the last of them waited"
    assert served < 4, "who has a token, at the same address, does not"
    assert receiver.program.said.count(" refused {") == SAID_A_MINUTE
    assert receiver.stop() == 0
    *refused, rest = audited(receiver, "refused")
    assert (rest["address"], rest["more"]) == ("127.0.0.1", 2 * SAID_A_MINUTE)
    assert [line["failures"] for line in refused] == list(range(1, SAID_A_MINUTE + 1))
    assert "w" * 43 not in receiver.program.said


@pytest.mark.soak
def test_connections_that_come_to_no_call_are_counted(place: Place, ca: Authority, receiver: Receiver) -> None:
    host, _, port = receiver.address.rpartition(":")
    for _ in range(7):
        with socket.create_connection((host, int(port))) as plain:
            plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
    receiver.program.says(" connections closed without a call: ")
    assert receiver.program.said.count("closed without a call") == 1
