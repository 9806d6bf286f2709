"""A peer's identity, and whether it is still valid, with real handshakes: hostile certificates, and changes at run
time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest

from flarelog.security.connections import among, shut
from integration.harness.places import LOG, SITE, Place, Receiver, Writer, append, lines, until
from tests.certificates import Authority, Named

HEAD, TAIL = lines(300), lines(200, 300)
HOSTS = ("localhost", "127.0.0.1")
WITHIN = 15.0  # seconds: the promise is five, on a machine without load
WORKERS = [
    pytest.param((), id="one-process", marks=pytest.mark.soak),
    pytest.param(("--workers", "2"), id="two-workers"),
]


@pytest.fixture
def ca(place: Place) -> Authority:
    return Authority.new(place.directory / "certs")


def serve(place: Place, ca: Authority, *args: str) -> Receiver:
    return place.serve(*ca.issue("receiver", hosts=HOSTS).arguments(), *args)


@pytest.mark.parametrize(
    ("common", "named"),
    [
        pytest.param("evil", [("dns", b"site-1\0evil")], id="a-dns-name-with-a-nul"),
        pytest.param("evil", [("email", b"site-1")], id="an-address-that-is-none"),
        pytest.param("evil", [("email", b"site-1\0@evil.org")], id="an-address-with-a-nul", marks=pytest.mark.soak),
        pytest.param("evil", [("uri", b"site-1")], id="a-uri"),
        pytest.param("", [("uri", b"site-1")], id="a-uri-alone", marks=pytest.mark.soak),
        pytest.param("", [("email", b"site-1")], id="an-address-alone", marks=pytest.mark.soak),
        pytest.param("site-1\0.evil", [], id="a-common-name-with-a-nul"),
        pytest.param("site-1\0.evil", [("dns", b"site-1")], id="a-nul-beside-the-right-name", marks=pytest.mark.soak),
        pytest.param(
            "site-1", [("dns", b"site-2")], id="a-common-name-beside-another-dns-name", marks=pytest.mark.soak
        ),
    ],
)
def test_a_name_of_another_kind_or_with_a_nul_pushes_nothing(
    place: Place, ca: Authority, receiver: Receiver, common: str, named: Sequence[Named]
) -> None:
    hostile = ca.issue("hostile", common=common, named=named)
    append(place.log, HEAD)
    program = place.once(receiver, "--drain-timeout", "5", *hostile.arguments())
    assert program.process.returncode != 0, program.talk()
    assert "Traceback" not in program.said + receiver.program.said
    assert not receiver.store.joinpath("run-1").exists() or not receiver.stored()
    honest = place.once(receiver, *ca.issue(SITE).arguments())
    assert honest.process.returncode == 0, honest.talk()
    assert receiver.stored() == HEAD


@pytest.fixture
def receiver(place: Place, ca: Authority) -> Receiver:
    return serve(place, ca)


def connections(receiver: Receiver) -> int:
    """The established connections at the port of *receiver*."""
    port = f":{int(receiver.address.rpartition(':')[2]):04X}"
    rows = [
        line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return sum(row[1].endswith(port) and row[3] == "01" for row in rows)


@pytest.mark.parametrize("workers", WORKERS)
def test_a_revoked_certificate_ends_what_runs_and_its_connection(
    place: Place, ca: Authority, workers: tuple[str, ...]
) -> None:
    site, other = ca.issue(SITE), ca.issue("site-2")
    crl = ca.revokes()
    receiver = serve(place, ca, "--tls-crl", crl, *workers)
    second = place.directory / "second"
    second.mkdir()
    append(place.log, HEAD)
    append(second / LOG, HEAD)
    sidecar = place.sidecar(receiver, *site.arguments())
    stays = place.sidecar(receiver, *other.arguments(), site="site-2", root=second)
    receiver.gets(HEAD)
    receiver.gets(HEAD, site="site-2")
    began = time.monotonic()
    ca.revokes(site.cert)
    assert sidecar.ends(WITHIN) != 0, sidecar.talk()
    assert "was revoked by its CA" in sidecar.said
    print(f"revoked: its sidecar ended after {time.monotonic() - began:.1f} s")
    append(place.log, TAIL)
    again = place.once(receiver, *site.arguments())
    assert again.process.returncode == 5, again.talk()
    assert "was revoked by its CA" in again.sentence()
    append(second / LOG, TAIL)
    receiver.gets(HEAD + TAIL, site="site-2")
    assert receiver.stored() == HEAD
    if not workers:  # with workers, a connection between two of them counts as well
        until(lambda: connections(receiver) == 1, "its connections end")
    assert stays.stop() == 0, stays.talk()
    Path(crl).write_text("half of a l")
    receiver.program.says("the old certificates stay in use")
    assert place.once(receiver, *site.arguments()).process.returncode == 5


def test_who_is_revoked_cannot_stay_by_saying_nothing(place: Place, ca: Authority) -> None:
    """A call waits over a connection that its peer does not close; another connection has no call."""
    site, stays = ca.issue(SITE), ca.issue("site-2")
    receiver = serve(place, ca, "--tls-crl", ca.revokes())
    host, _, port = receiver.address.rpartition(":")

    async def go() -> float:
        async with (
            grpc.aio.secure_channel(receiver.address, site.channel_credentials()) as bad,
            grpc.aio.secure_channel(receiver.address, stays.channel_credentials()) as good,
        ):
            watches: list[Any] = [one.unary_stream("/grpc.health.v1.Health/Watch") for one in (bad, good)]
            calls = [watch(b"") for watch in watches]
            for call in calls:
                assert await call.read() == b"\x08\x01"
            silent = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            silent.check_hostname, silent.verify_mode = False, ssl.CERT_NONE
            silent.set_alpn_protocols(["h2"])
            site.present(silent)
            reader, writer = await asyncio.open_connection(host, int(port), ssl=silent)
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))  # and SETTINGS
            began = time.monotonic()
            ca.revokes(site.cert)
            async with asyncio.timeout(WITHIN):
                with pytest.raises(grpc.RpcError):
                    await calls[0].read()
                with contextlib.suppress(ConnectionError):
                    while await reader.read(1000):
                        pass
            took = time.monotonic() - began
            writer.close()
            again: Any = bad.unary_unary("/grpc.health.v1.Health/Check")
            async with asyncio.timeout(WITHIN):
                while True:
                    with pytest.raises(grpc.RpcError) as refused:
                        await again(b"")
                    # The channel may not know yet that its connection was closed.
                    if refused.value.code() is not grpc.StatusCode.UNAVAILABLE:
                        break
            assert "was revoked by its CA" in str(refused.value)
            assert not calls[1].done()
            return took

    print(f"who says nothing was out after {asyncio.run(go()):.1f} s")


@pytest.mark.parametrize("workers", WORKERS)
def test_a_new_ca_shuts_out_who_is_connected_until_it_has_a_certificate_of_the_new_one(
    place: Place, ca: Authority, workers: tuple[str, ...]
) -> None:
    old = ca.issue(SITE)
    both = Path(ca.issue("receiver", hosts=HOSTS).ca)
    receiver = serve(place, ca, *workers)
    append(place.log, HEAD)
    sidecar = place.sidecar(receiver, *old.arguments())
    receiver.gets(HEAD)
    new = Authority.new(place.directory / "new")
    certificate = new.issue("receiver", hosts=HOSTS)
    own = ca.issue("receiver", hosts=HOSTS)
    for source, target in ((certificate.key, own.key), (certificate.cert, own.cert), (certificate.ca, str(both))):
        os.replace(source, target)
    began = time.monotonic()
    sidecar.says("no connection to")
    print(f"a new CA: its sidecar was out after {time.monotonic() - began:.1f} s")
    append(place.log, TAIL)
    until(lambda: connections(receiver) == 0, "its connection ends")
    assert receiver.stored() == HEAD
    renewed = new.issue(SITE)
    os.replace(both, renewed.ca)  # the sidecar and the receiver share this file: it gets the new CA again
    both.write_bytes(Path(renewed.ca).read_bytes())
    os.replace(renewed.key, old.key)
    os.replace(renewed.cert, old.cert)
    receiver.gets(HEAD + TAIL)
    assert sidecar.stop() == 0, sidecar.talk()


@pytest.mark.soak  # waits until a certificate has expired
@pytest.mark.parametrize("workers", WORKERS)
def test_a_certificate_that_expires_ends_its_calls_and_a_new_one_goes_on(
    place: Place, ca: Authority, workers: tuple[str, ...]
) -> None:
    short = ca.issue(SITE, days=(-1, 12 / 86400))
    ends = time.monotonic() + 12
    receiver = serve(place, ca, *workers)
    append(place.log, HEAD)
    sidecar = place.sidecar(receiver, *short.arguments())
    receiver.gets(HEAD)
    sidecar.says("no connection to")
    print(f"expired: its sidecar was out after {time.monotonic() - ends:.1f} s")
    append(place.log, TAIL)
    time.sleep(1)
    assert receiver.stored() == HEAD
    ca.issue(SITE)
    receiver.gets(HEAD + TAIL)
    assert sidecar.stop() == 0, sidecar.talk()


@pytest.mark.soak
@pytest.mark.parametrize("workers", WORKERS)
def test_an_old_connection_is_followed_by_a_new_one_without_a_word(
    place: Place, ca: Authority, workers: tuple[str, ...]
) -> None:
    receiver = serve(place, ca, "--max-connection-age", "3", *workers)
    with Writer(place.log, 200, 0.05) as writer:
        sidecar = place.sidecar(receiver, *ca.issue(SITE).arguments())
        until(lambda: sidecar.said.count("sending from offset") >= 3, "it moved twice")
    data = bytes(writer.written)
    receiver.gets(data)
    assert sidecar.stop() == 0, sidecar.talk()
    assert receiver.stored() == data
    assert " WARNING " not in sidecar.said, sidecar.talk()
    assert sidecar.complaints() == []


def test_a_list_that_is_no_good_keeps_a_receiver_from_starting(place: Place, ca: Authority) -> None:
    crl = ca.revokes(days=-1)
    program = place.call("serve", "--store", "store", *ca.issue("receiver", hosts=HOSTS).arguments(), "--tls-crl", crl)
    assert program.process.returncode == 78
    assert "expired on" in program.sentence()
    program = place.call("serve", "--store", "store", "--tls-crl", crl)
    assert program.process.returncode == 2
    assert "needs TLS" in program.sentence()


def test_a_connection_is_shut_and_the_others_stay() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as one, socket.create_connection(("127.0.0.1", port)) as two:
            accepted = [listening.accept()[0] for _ in range(2)]
            mine = f"ipv4:127.0.0.1:{one.getsockname()[1]}"
            assert shut(port, among([mine])) == 1
            one.settimeout(5)
            assert one.recv(1) == b""
            two.settimeout(0)
            with pytest.raises(BlockingIOError):
                two.recv(1)
            for each in accepted:
                each.close()
