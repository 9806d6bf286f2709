"""Warnings of an end's own certificates at its start."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from flarelog.errors import InvalidOption
from flarelog.receiver.options import ServerOptions
from flarelog.security import tls
from flarelog.security.tls import Tls, readable
from flarelog.sender.options import SidecarOptions
from flarelog.sources.files.patterns import SourceOptions
from flarelog.wire import calls
from tests.certificates import Authority

SERVER, CLIENT = (ExtendedKeyUsageOID.SERVER_AUTH,), (ExtendedKeyUsageOID.CLIENT_AUTH,)


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority.new(tmp_path)


@pytest.mark.parametrize("end", ["server", "client"])
def test_certificates_that_fit_together_are_used(ca: Authority, end: Literal["server", "client"]) -> None:
    ca.issue("me").check(end)


def text(path: str) -> str:
    Path(path).write_text("no PEM at all\n")
    return path


@pytest.mark.parametrize(
    ("make", "end", "sentence"),
    [
        pytest.param(lambda ca: ca.issue("me", days=(-9, -1)), "server", "has expired", id="expired"),
        pytest.param(lambda ca: ca.issue("me", days=(-9, -1)), "client", "has expired", id="expired-at-a-site"),
        pytest.param(lambda ca: ca.issue("me", days=(1, 9)), "client", "not valid yet: check", id="not-yet-valid"),
        pytest.param(
            lambda ca: replace(ca.issue("me"), ca=Authority.new(ca.directory, "other").issue("x").ca),
            "client",
            "did not sign it",
            id="of-another-ca",
        ),
        pytest.param(lambda ca: ca.issue("me", purposes=CLIENT), "server", "made for the other end", id="no-server"),
        pytest.param(lambda ca: ca.issue("me", purposes=SERVER), "client", "made for the other end", id="no-client"),
        pytest.param(
            lambda ca: replace(ca.issue("me"), key=ca.issue("you").key),
            "client",
            "does not belong to",
            id="another-key",
        ),
        pytest.param(lambda ca: replace(ca.issue("me"), key="/nowhere"), "client", "/nowhere cannot be", id="no-key"),
        pytest.param(lambda ca: replace(ca.issue("me"), ca="/nowhere"), "client", "/nowhere cannot be", id="no-ca"),
        pytest.param(
            lambda ca: replace(ca.issue("me"), ca=text(f"{ca.directory}/x")), "client", "holds no CA cert", id="ca"
        ),
        pytest.param(
            lambda ca: replace(ca.issue("me"), cert=text(f"{ca.directory}/x")),
            "server",
            "not a certificate and its unencrypted key",
            id="no-pem",
        ),
    ],
)
def test_a_certificate_that_cannot_be_used_is_refused_with_a_sentence(
    ca: Authority, make: Callable[[Authority], Tls], end: Literal["server", "client"], sentence: str
) -> None:
    with pytest.raises(InvalidOption, match=sentence) as refused:
        make(ca).check(end)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["ca", "cert", "key"])
def test_a_file_may_begin_with_a_byte_order_mark(ca: Authority, name: str) -> None:
    """OpenSSL reads a file with such a mark, but gRPC does not."""
    files = ca.issue("me")
    path = Path(getattr(files, name))
    pem = path.read_bytes()
    path.write_bytes(codecs.BOM_UTF8 + pem)
    for end in ("server", "client"):
        files.check(end)
    assert readable(str(path)) == pem


@pytest.mark.parametrize("name", ["ca", "cert"])
@pytest.mark.parametrize("end", ["server", "client"])
def test_a_certificate_that_openssl_alone_reads_is_refused(
    ca: Authority, name: str, end: Literal["server", "client"]
) -> None:
    files = ca.issue("me")
    path = Path(getattr(files, name))
    path.write_bytes(path.read_bytes().replace(b" CERTIFICATE-", b" TRUSTED CERTIFICATE-"))
    with pytest.raises(InvalidOption, match=f"^{path} holds a TRUSTED CERTIFICATE, .* openssl x509 -in {path}"):
        files.check(end)


def test_a_receiver_and_a_sidecar_need_all_three_files() -> None:
    with pytest.raises(InvalidOption, match="missing: --tls-key"):
        Tls("ca.crt", "me.crt")
    with pytest.raises(InvalidOption, match="missing: --tls-ca"):
        Tls("", "me.crt", "me.key")
    for end in (
        lambda: ServerOptions(tls=Tls("ca.crt")),
        lambda: SidecarOptions("localhost:1", "run-1", "site-1", SourceOptions("/"), tls=Tls("ca.crt")),
        lambda: Tls("ca.crt").check("server"),
    ):
        with pytest.raises(InvalidOption, match="missing: --tls-cert, --tls-key"):
            end()


def test_who_shows_a_token_needs_the_ca_alone(ca: Authority) -> None:
    Tls(ca.issue("me").ca).check("client")
    with pytest.raises(InvalidOption, match="/nowhere cannot be read"):
        Tls("/nowhere").check("client")


def test_a_token_never_goes_unencrypted() -> None:
    with pytest.raises(InvalidOption, match="a token needs TLS: give --tls-ca") as refused:
        calls.channel("127.0.0.1:4721", None, "flarelog_secret")
    assert "secret" not in str(refused.value)


def test_new_certificates_are_taken_when_they_make_sense_and_the_old_ones_kept_when_not(
    ca: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    files = ca.issue("me")
    followed = files.watched(files.configuration)
    first = followed.look()
    assert followed.look() is first
    ca.issue("me")
    second = followed.look()
    assert second is not first
    assert followed.look() is second
    Path(files.key).write_text("half of a k")
    assert followed.look() is second
    assert followed.look() is second
    assert [record.levelname for record in caplog.records if record.levelname != "INFO"] == ["ERROR"]
    assert followed.look(anyway=True) is second
    assert [record.levelname for record in caplog.records if record.levelname != "INFO"] == ["ERROR"] * 2
    ca.issue("me")
    assert followed.look() is not second


@pytest.mark.parametrize("listen", ["0.0.0.0:4721", "[::]:4721", "receiver.example:4721", "10.0.0.1:4721"])
def test_a_receiver_is_not_open_to_other_machines_without_tls_unless_that_is_said(listen: str) -> None:
    with pytest.raises(InvalidOption, match="--insecure"):
        ServerOptions(listen)
    ServerOptions(listen, insecure=True)
    ServerOptions(listen, tls=Tls("ca.crt", "me.crt", "me.key"))


@pytest.mark.parametrize("listen", ["127.0.0.1:4721", "127.0.0.53:0", "localhost:4721", "[::1]:4721"])
def test_on_loopback_there_is_no_ceremony(listen: str) -> None:
    ServerOptions(listen)


@pytest.mark.parametrize("reason", ["", "TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_CERTIFICATE_UNKNOWN"])
@pytest.mark.parametrize(
    ("days", "told"),
    [
        pytest.param((-9, -1), "it refuses {}: it has expired: request a new one", id="expired"),
        pytest.param((1, 9), "it refuses {}: it is not valid yet: check this machine's clock, or wait", id="too-early"),
    ],
)
def test_a_refused_certificate_that_is_out_of_date_is_called_so(
    ca: Authority, reason: str, days: tuple[int, int], told: str
) -> None:
    files = ca.issue("me", days=days)
    assert tls._refused(reason, files) == told.format(files.cert)


def test_a_refused_certificate_within_its_dates_is_of_an_unknown_ca(ca: Authority) -> None:
    files = ca.issue("me")
    assert tls._refused("", files) == tls._refused("TLSV1_ALERT_UNKNOWN_CA", files)
    assert tls._refused("", files) == f"it does not know the CA that signed {files.cert}"
    assert tls._refused("", Tls(files.ca)).startswith("it requires a certificate: ")
