"""Mutual TLS between real processes: accepted and refused peers, the refusals' sentences, and changed certificates."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import flarelog
from flarelog.client import Client
from flarelog.errors import CannotConnect
from flarelog.lifecycle import Event
from flarelog.security.tls import Tls
from flarelog.wire.codec.base import SERVICE
from integration.harness.places import LOG, RUN, SITE, Place, Receiver, append, free_address, lines, until
from tests.certificates import Authority

HEAD, TAIL = lines(1000), lines(200, 1000)
HOSTS = ("localhost", "127.0.0.1")
SHORT = 6 / 86400  # days
files = Tls.arguments


@pytest.fixture
def ca(place: Place) -> Authority:
    return Authority.new(place.directory / "certs")


@pytest.fixture
def receiver(place: Place, ca: Authority) -> Receiver:
    return place.serve(*files(ca.issue("receiver", hosts=HOSTS)))


def test_bytes_arrive_over_tls_through_rotations_and_restarts(place: Place, ca: Authority, receiver: Receiver) -> None:
    site = files(ca.issue(SITE))
    append(place.log, HEAD)
    sidecar = place.sidecar(receiver, *site)
    receiver.gets(HEAD)
    place.log.rename(place.root / f"{LOG}.1")
    append(place.log, TAIL)
    receiver.gets(HEAD + TAIL)
    receiver.program.kill()
    append(place.log, HEAD)
    again = receiver.again(*receiver.program.args[receiver.program.args.index("--tls-ca") :])
    again.gets(HEAD + TAIL + HEAD)
    assert sidecar.stop() == 0, sidecar.talk()
    assert sidecar.complaints() == []
    (stream,) = place.streams("--receiver", again.address, *site).values()
    assert stream["sealed"]


@pytest.mark.parametrize("more", [(), ("--workers", "2")], ids=["one", "workers"])
def test_a_probe_without_a_certificate_learns_that_the_receiver_serves_and_nothing_else(
    place: Place, ca: Authority, more: tuple[str, ...]
) -> None:
    health = free_address()
    receiver = place.serve(*files(ca.issue("receiver", hosts=HOSTS)), "--health-listen", health, *more)
    with grpc.insecure_channel(health) as channel:
        assert asked(channel, "grpc.health.v1.Health/Check") == b"\x08\x01"
        for method in ("grpc.health.v1.Health/Watch", f"{SERVICE}/ListRuns", f"{SERVICE}/Push"):
            with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
                asked(channel, method)
    assert receiver.stop() == 0, receiver.program.talk()


def asked(channel: grpc.Channel, method: str) -> bytes:
    call: Any = channel.unary_unary(f"/{method}")
    answer: bytes = call(b"", timeout=60.0)
    return answer


def test_the_operator_s_commands_speak_tls(place: Place, ca: Authority) -> None:
    policy = place.directory / "policy.toml"
    policy.write_text('[[grant]]\nidentity = "boss"\nrole = "operator"\n')
    receiver = place.serve(*files(ca.issue("receiver", hosts=HOSTS)), "--policy", str(policy))
    me = files(ca.issue("boss"))
    assert place.call("run-start", RUN, "--receiver", receiver.address, *me).printed == f"{RUN} running\n"
    assert place.call("run-end", RUN, "--receiver", receiver.address, *me).printed.startswith(f"{RUN} end")


def refused(place: Place, address: str, *me: str) -> str:
    """The sentence of ``flarelog streams``, which must come soon: no retry helps against certificates."""
    program = place.call("streams", RUN, "--receiver", address, *me)
    assert program.process.returncode == 5, program.talk()
    return program.sentence()


def test_who_has_no_certificate_of_the_ca_does_not_get_in_and_is_told_why(
    place: Place, ca: Authority, receiver: Receiver
) -> None:
    other = Authority.new(place.directory / "certs", "other")
    both = place.directory / "both.crt"
    both.write_bytes(b"".join((place.directory / "certs" / f"{name}.crt").read_bytes() for name in ("ca", "other")))
    stranger = other.issue("stranger")
    assert "it requires TLS: give --tls-ca" in refused(place, receiver.address)
    believes_both = ("--tls-ca", str(both), "--tls-cert", stranger.cert, "--tls-key", stranger.key)
    assert "does not know the CA that signed" in refused(place, receiver.address, *believes_both)
    assert "its certificate is not trusted: the CA in" in refused(place, receiver.address, *files(stranger))
    sidecar = place.sidecar(receiver, *believes_both)
    sidecar.says("does not know the CA that signed")
    assert receiver.program.complaints() == []


def test_a_receiver_whose_name_is_another_is_not_believed(place: Place, ca: Authority) -> None:
    receiver = place.serve(*files(ca.issue("receiver", hosts=("receiver.example", "10.1.2.3"))))
    sentence = refused(place, receiver.address, *files(ca.issue("me")))
    assert "its certificate is only for receiver.example, 10.1.2.3, and not for 127.0.0.1: connect to" in sentence


def test_a_receiver_without_tls_is_not_spoken_to(place: Place, ca: Authority) -> None:
    receiver = place.serve()
    assert "it does not speak TLS" in refused(place, receiver.address, *files(ca.issue("me")))


@pytest.mark.parametrize("reset", [pytest.param(False, marks=pytest.mark.soak), True])
def test_a_connection_that_is_cut_before_tls_is_agreed_on_is_no_answer(
    place: Place, ca: Authority, reset: bool
) -> None:
    """A forwarder to a receiver that is away cuts connections so."""
    with closing_listener(reset) as address:
        program = place.once(address, "--drain-timeout", "2", *files(ca.issue(SITE)))
        with pytest.raises(CannotConnect) as caught:
            asyncio.run(streams(address, ca.issue("me")))
    assert program.ends() == 4, program.talk()
    assert not re.search("TLS|CA that", f"{program.said}{caught.value}"), program.said


async def streams(address: str, tls: Tls) -> None:
    async with Client(address, tls=tls) as client:
        client.patience = 0.5
        await client.streams(RUN)


@contextlib.contextmanager
def closing_listener(reset: bool) -> Iterator[str]:
    """Accept connections, wait for a first byte, and close them; with *reset* by RST, otherwise by FIN."""
    stopped = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)

        def close() -> None:
            while not stopped.is_set():
                with contextlib.suppress(OSError), listening.accept()[0] as one:
                    one.settimeout(1.0)
                    one.recv(1 if reset else 1 << 16)  # unread bytes make the close a reset

        thread = threading.Thread(target=close)
        thread.start()
        yield "{}:{}".format(*listening.getsockname())
        stopped.set()
        thread.join()


@pytest.mark.parametrize("end", ["serve", "sidecar"])
def test_an_end_with_certificates_that_cannot_be_used_does_not_start(place: Place, ca: Authority, end: str) -> None:
    expired = files(ca.issue("me", days=(-9, -1)))
    if end == "serve":
        program = place.call("serve", "--store", str(place.directory / "store"), *expired)
    else:
        program = place.once(free_address(), *expired)
    assert program.process.returncode == 78
    assert "has expired: request a new" in program.sentence()


def test_certificates_may_begin_with_a_byte_order_mark(place: Place, ca: Authority) -> None:
    ends = [files(ca.issue("receiver", hosts=HOSTS)), files(ca.issue(SITE))]
    for path in {path for end in ends for path in end[1::2]}:
        Path(path).write_bytes(codecs.BOM_UTF8 + Path(path).read_bytes())
    receiver = place.serve(*ends[0])
    append(place.log, HEAD)
    assert place.once(receiver.address, *ends[1]).process.returncode == 0
    assert receiver.stored() == HEAD


@pytest.mark.soak
def test_a_receiver_whose_certificate_has_expired_meanwhile_is_not_believed_until_it_has_a_new_one(
    place: Place, ca: Authority
) -> None:
    receiver = place.serve(*files(ca.issue("receiver", hosts=HOSTS, days=(-1, SHORT))))
    me = files(ca.issue(SITE))
    until(lambda: "has expired" in _tried(place, receiver.address, me), "the certificate expires")
    append(place.log, HEAD)
    sidecar = place.sidecar(receiver, *me)
    sidecar.says("its certificate is not trusted: it has expired")
    ca.issue("receiver", hosts=HOSTS)
    receiver.gets(HEAD)
    receiver.program.says("the certificates have changed")


def _tried(place: Place, address: str, me: tuple[str, ...]) -> str:
    return place.call("streams", RUN, "--receiver", address, *me).said


def test_certificates_are_renewed_without_a_restart_and_running_streams_go_on(
    place: Place, ca: Authority, receiver: Receiver
) -> None:
    site = ca.issue(SITE)
    append(place.log, HEAD)
    sidecar = place.sidecar(receiver, *files(site))
    receiver.gets(HEAD)
    ca.issue("receiver", hosts=HOSTS)
    ca.issue(SITE)
    append(place.log, TAIL)
    receiver.gets(HEAD + TAIL)
    assert sidecar.said.count("sending from offset") == 1
    append(place.root / "late.log", TAIL)  # a new call, with the new certificates
    receiver.gets(TAIL, "late.log")
    sidecar.says("the certificates have changed: new connections use")
    receiver.program.says("the certificates have changed: new connections use")
    Path(site.key).write_text("half of a k")
    append(place.root / "later.log", TAIL)
    receiver.gets(TAIL, "later.log")
    sidecar.says("the old certificates stay in use")
    ca.issue(SITE)
    assert sidecar.stop() == 0


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1")
def test_nothing_older_than_tls_1_2_is_spoken(ca: Authority, receiver: Receiver) -> None:
    me = ca.issue("me")
    host, _, port = receiver.address.rpartition(":")

    def version(most: ssl.TLSVersion) -> str | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.load_cert_chain(me.cert, me.key)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, most
        context.set_alpn_protocols(["h2"])
        with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain) as shaken:
            return shaken.version()

    assert version(ssl.TLSVersion.MAXIMUM_SUPPORTED) == "TLSv1.3"
    assert version(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        version(ssl.TLSVersion.TLSv1_1)


def test_a_program_that_embeds_both_ends_speaks_tls(place: Place, ca: Authority) -> None:
    bus = flarelog.Bus()
    store = place.directory / "store"
    with (
        flarelog.Receiver(str(store), bus=bus, tls=ca.issue("receiver", hosts=HOSTS)) as receiver,
        flarelog.Producer(receiver.address, SITE, str(place.root), bus=bus, tls=ca.issue(SITE)) as producer,
    ):
        bus.publish(Event.ABOUT_TO_START_RUN, RUN)
        bus.publish(Event.START_RUN, RUN)
        append(place.log, HEAD)
        bus.publish(Event.END_RUN, RUN)
        assert [outcome.exit_code for outcome in producer.outcomes[RUN]] == [0]
    assert (store / RUN / SITE / LOG).read_bytes() == HEAD


def test_a_handshake_that_never_comes_holds_nobody(place: Place, ca: Authority, receiver: Receiver) -> None:
    host, _, port = receiver.address.rpartition(":")

    async def hold() -> None:
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(50)]
        append(place.log, HEAD)
        sidecar = place.sidecar(receiver, *files(ca.issue(SITE)))
        await asyncio.to_thread(receiver.gets, HEAD)
        sidecar.kill()
        for _, writer in silent:
            writer.close()

    asyncio.run(hold())
