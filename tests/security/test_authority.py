"""The private CA: peers accept its certificates, it refuses bad requests, and a kill leaves no half of a pair."""

from __future__ import annotations

import errno
import ipaddress
import os
import shutil
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from flarelog.cli import main
from flarelog.cli.certs import command
from flarelog.errors import FlarelogError, InvalidName, InvalidOption, NotAllowed, NotFound
from flarelog.security import authority, certificate, revocation
from flarelog.security.authority import Issued, Role

NOW = datetime.now(UTC).replace(microsecond=0)  # OpenSSL reads the machine's clock
HOST = "logs.example.org"


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    """A CA with a certificate for each role."""
    directory = tmp_path / "certs"
    authority.init(directory, now=NOW)
    authority.issue_server(directory, [HOST, "192.0.2.7", "[2001:db8::7]"], now=NOW)
    authority.issue(directory, Role.SITE, "site-1", now=NOW)
    authority.issue(directory, Role.READER, "anna", now=NOW)
    return directory


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace fsync by nothing: no test cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


# --- which certificates are accepted, and by whom


def handshake(ca: Path, server: Path, client: Path, *, host: str = HOST) -> str:
    """The client name that the server saw in an in-memory handshake: mutual TLS as in gRPC. Raises ssl.SSLError."""
    near, far = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    far.verify_mode = ssl.CERT_REQUIRED
    for side, pair in ((near, client), (far, server)):
        side.verify_flags |= ssl.VERIFY_X509_STRICT  # the default since Python 3.13
        side.load_cert_chain(pair, pair.with_suffix(".key"))
        side.load_verify_locations(ca / "ca.crt")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [near.wrap_bio(down, up, server_hostname=host), far.wrap_bio(up, down, server_side=True)]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    seen = ends[1].getpeercert()
    assert seen is not None
    subject: Any = seen["subject"]
    return ", ".join(f"{key}={value}" for ((key, value),) in subject)


@pytest.mark.parametrize("host", [HOST, "192.0.2.7", "2001:db8::7"])
def test_a_receiver_is_accepted_under_each_name_that_it_was_given(ca: Path, host: str) -> None:
    seen = handshake(ca, ca / "server.crt", ca / "site-1.crt", host=host)
    assert seen == "organizationalUnitName=site, commonName=site-1"


def test_a_policy_can_tell_a_reader_from_a_site(ca: Path) -> None:
    seen = handshake(ca, ca / "server.crt", ca / "anna.crt")
    assert seen == "organizationalUnitName=reader, commonName=anna"


def test_a_receiver_is_refused_under_another_name(ca: Path) -> None:
    with pytest.raises(ssl.SSLError, match=r"[Hh]ostname mismatch"):
        handshake(ca, ca / "server.crt", ca / "site-1.crt", host="other.example.org")


def test_another_ca_is_refused_by_both_ends(ca: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    authority.init(other, now=NOW)
    authority.issue(other, Role.SITE, "site-1", now=NOW)
    authority.issue_server(other, [HOST], now=NOW)
    for server, client in ((ca / "server.crt", other / "site-1.crt"), (other / "server.crt", ca / "site-1.crt")):
        with pytest.raises(ssl.SSLError, match="unable to get local issuer"):
            handshake(ca, server, client)


@pytest.mark.parametrize(
    ("when", "says"),
    [
        pytest.param(timedelta(days=-31), "has expired", id="expired"),
        pytest.param(timedelta(minutes=6), "not yet valid", id="not-yet-valid"),
    ],
)
def test_a_certificate_is_refused_outside_its_time(tmp_path: Path, when: timedelta, says: str) -> None:
    now = datetime.now(UTC)  # not the time of this module's import, which may be minutes ago
    authority.init(tmp_path / "ca", now=now - timedelta(days=31))
    authority.issue_server(tmp_path / "ca", [HOST], now=now)
    late = authority.issue(tmp_path / "ca", Role.SITE, "site-1", days=30, now=now + when)
    with pytest.raises(ssl.SSLError, match=says):
        handshake(tmp_path / "ca", tmp_path / "ca" / "server.crt", late.certificate)


def test_a_peer_whose_clock_is_minutes_behind_accepts_a_new_certificate(tmp_path: Path) -> None:
    authority.init(tmp_path / "ca", now=NOW + timedelta(minutes=4))
    authority.issue_server(tmp_path / "ca", [HOST], now=NOW + timedelta(minutes=4))
    authority.issue(tmp_path / "ca", Role.SITE, "site-1", now=NOW + timedelta(minutes=4))
    assert handshake(tmp_path / "ca", tmp_path / "ca" / "server.crt", tmp_path / "ca" / "site-1.crt")


@pytest.mark.parametrize("impostor", ["site-1", "anna"])
def test_a_site_cannot_pose_as_the_receiver(ca: Path, impostor: str) -> None:
    authority.issue(ca, Role.SITE, HOST, now=NOW)  # even a site with the receiver's host name
    for name in (impostor, HOST):
        with pytest.raises(ssl.SSLError, match=r"(unsuitable|unsupported) certificate purpose"):
            handshake(ca, ca / f"{name}.crt", ca / "site-1.crt")


def test_the_receivers_certificate_is_no_sites(ca: Path) -> None:
    with pytest.raises(ssl.SSLError, match=r"(unsuitable|unsupported) certificate purpose"):
        handshake(ca, ca / "server.crt", ca / "server.crt")


def test_a_sites_key_signs_nobody(ca: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged"
    forged.mkdir(mode=0o700)
    for kind in ("crt", "key"):
        shutil.copy(ca / f"site-1.{kind}", forged / f"ca.{kind}")
    authority.issue(forged, Role.SITE, "site-2", now=NOW)
    chain = tmp_path / "chain.crt"
    chain.write_bytes((forged / "site-2.crt").read_bytes() + (ca / "site-1.crt").read_bytes())
    shutil.copy(forged / "site-2.key", tmp_path / "chain.key")
    with pytest.raises(ssl.SSLError, match=r"invalid CA certificate|[Pp]ath length|unsuitable"):
        handshake(ca, ca / "server.crt", chain)


def test_a_strict_verifier_accepts_the_chain(ca: Path) -> None:
    loaded = {name: x509.load_pem_x509_certificate((ca / f"{name}.crt").read_bytes()) for name in ("ca", "server")}
    policy = PolicyBuilder().store(Store([loaded["ca"]])).time(NOW)
    for subject in (x509.DNSName(HOST), x509.IPAddress(ipaddress.ip_address("2001:db8::7"))):
        assert len(policy.build_server_verifier(subject).verify(loaded["server"], [])) == 2
    with pytest.raises(VerificationError):
        policy.build_server_verifier(x509.DNSName("example.org")).verify(loaded["server"], [])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="install openssl to have it verify the certificates")
def test_openssl_accepts_each_for_its_purpose_alone(ca: Path) -> None:
    authority.issue(ca, Role.SITE, "no_dns.name_", now=NOW)
    for name, purpose, good in [
        ("server", "sslserver", True),
        ("server", "sslclient", False),
        *((name, "sslclient", True) for name in ("site-1", "anna", "no_dns.name_")),
        *((name, "sslserver", False) for name in ("site-1", "anna", "no_dns.name_")),
    ]:
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", "ca.crt", f"{name}.crt"]
        done = subprocess.run(command, cwd=ca, capture_output=True, text=True)
        assert (done.returncode == 0) is good, f"{name} as {purpose}: {done.stdout}{done.stderr}"


# --- contents of certificates


@pytest.mark.parametrize(
    ("name", "dns"),
    [
        pytest.param("site-2", True, id="plain"),
        pytest.param("Hospital.Example.org", True, id="as-written"),
        pytest.param("site_1", False, id="underscore"),
        pytest.param("site-", False, id="dash-at-the-end"),
        pytest.param("a..b", False, id="empty-label"),
        pytest.param("192.0.2.7", False, id="an-address"),
        pytest.param("x" * 64, False, id="a-label-too-long"),
    ],
)
def test_a_site_is_named_by_cn_and_by_san_where_it_can_be(ca: Path, name: str, dns: bool) -> None:
    one = authority.issue(ca, Role.SITE, name, now=NOW)
    assert (one.name, one.role, one.certificate.name, one.key.name) == (name, Role.SITE, f"{name}.crt", f"{name}.key")
    certificate = x509.load_pem_x509_certificate(one.certificate.read_bytes())
    try:
        san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert san.get_values_for_type(x509.DNSName) == [name]
    except x509.ExtensionNotFound:
        assert not dns
    else:
        assert dns


def test_how_long_they_last(ca: Path) -> None:
    lasting = {one.role: one.not_after - NOW for one in authority.issued(ca)[0]}
    assert lasting.pop(Role.CA) == timedelta(days=3650)
    assert set(lasting.values()) == {timedelta(days=365)}
    assert authority.issue(ca, Role.SITE, "short", days=7, now=NOW).not_after == NOW + timedelta(days=7)


def test_none_outlives_its_ca(ca: Path) -> None:
    later = NOW + timedelta(days=3600)
    assert authority.issue(ca, Role.SITE, "late", now=later).not_after == NOW + timedelta(days=3650)


def test_a_host_that_is_given_twice_stands_there_once(tmp_path: Path) -> None:
    authority.init(tmp_path / "ca", now=NOW)
    long = ".".join(["x" * 60] * 4)
    one = authority.issue_server(tmp_path / "ca", [long, "::1", "[::1]", long], now=NOW)
    certificate = x509.load_pem_x509_certificate(one.certificate.read_bytes())
    san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(san) == [x509.DNSName(long), x509.IPAddress(ipaddress.ip_address("::1"))]
    assert one.name == "server"  # a CN has at most 64 characters


# --- refusals

BAD_NAMES = ["", ".", "..", ".hidden", "a/b", "../up", "a b", "a\n", "größe", "*", "x" * 65, "ca", "Server"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("role", [Role.SITE, Role.READER])
def test_a_name_that_cannot_be_a_sites_is_refused(ca: Path, role: Role, name: str) -> None:
    before = names(ca)
    with pytest.raises(InvalidName, match=f"the {role.value}'s name"):
        authority.issue(ca, role, name, now=NOW)
    assert names(ca) == before


@pytest.mark.parametrize(
    "host",
    [
        "",
        "a b",
        "host:4721",
        "*.example.org",
        "a_b",
        "10.0.0.256",
        "größe",
        "x" * 64,
        "a.",
        "0.0.0.0",
        "::",
        "fe80::1%1",
    ],
)
def test_a_host_that_nobody_can_be_reached_by_is_refused(tmp_path: Path, host: str) -> None:
    authority.init(tmp_path / "ca", now=NOW)
    with pytest.raises(InvalidOption, match="give"):
        authority.issue_server(tmp_path / "ca", [HOST, host], now=NOW)
    assert names(tmp_path / "ca") == ["ca.crl", "ca.crt", "ca.key"]


@pytest.mark.parametrize("days", [0, -1, 3651])
def test_days_are_bounded(ca: Path, days: int) -> None:
    with pytest.raises(InvalidOption, match="from 1 to 3650"):
        authority.issue(ca, Role.SITE, "site-2", days=days, now=NOW)


@pytest.mark.parametrize("lost", ["crt", "key", None])
def test_nothing_is_overwritten(ca: Path, lost: str | None) -> None:
    """This holds even if one half of a pair is gone."""
    makers: dict[str, Callable[[], Issued]] = {
        "ca": lambda: authority.init(ca, now=NOW),
        "server": lambda: authority.issue_server(ca, [HOST], now=NOW),
        "site-1": lambda: authority.issue(ca, Role.READER, "site-1", now=NOW),
    }
    for name, make in makers.items():
        if lost:
            (ca / f"{name}.{lost}").rename(ca / f"{name}.{lost}.taken")
        before = {path.name: path.read_bytes() for path in ca.iterdir()}
        with pytest.raises(NotAllowed, match=rf"{name}\.(crt|key) exists.*(move|use) it"):
            make()
        assert {path.name: path.read_bytes() for path in ca.iterdir()} == before
        if lost:
            (ca / f"{name}.{lost}.taken").rename(ca / f"{name}.{lost}")


def test_a_file_that_appears_meanwhile_is_not_overwritten(ca: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def late(source: Path, target: Path) -> None:
        if target.name == "site-2.crt":
            target.write_text("somebody's own")
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    before = names(ca)
    with pytest.raises(NotAllowed, match=r"site-2\.crt exists"):
        authority.issue(ca, Role.SITE, "site-2", now=NOW)
    assert (ca / "site-2.crt").read_text() == "somebody's own"
    assert names(ca) == sorted([*before, "site-2.crt"])


def swap(first: Path, second: Path) -> None:
    data = second.read_bytes()
    second.write_bytes(first.read_bytes())
    first.write_bytes(data)


def encrypt(path: Path) -> None:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    how = serialization.BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how))


@pytest.mark.parametrize(
    ("spoil", "error", "says"),
    [
        pytest.param(lambda ca: shutil.rmtree(ca), NotFound, "flarelog certs init", id="no-directory"),
        pytest.param(lambda ca: (ca / "ca.crt").unlink(), NotFound, "flarelog certs init", id="no-ca"),
        pytest.param(lambda ca: (ca / "ca.key").unlink(), NotFound, "ca.key is missing", id="no-key"),
        pytest.param(lambda ca: (ca / "ca.key").chmod(0o640), NotAllowed, "chmod 600", id="key-open-to-others"),
        pytest.param(lambda ca: ca.chmod(0o770), NotAllowed, "chmod 700", id="directory-open-to-others"),
        pytest.param(
            lambda ca: (ca / "ca.key").write_text("x"), NotAllowed, "not hold an unencrypted private key", id="key-torn"
        ),
        pytest.param(
            lambda ca: encrypt(ca / "ca.key"), NotAllowed, "not hold an unencrypted private key", id="key-encrypted"
        ),
        pytest.param(lambda ca: (ca / "ca.crt").write_text("x"), NotAllowed, "no certificate", id="certificate-torn"),
        pytest.param(lambda ca: swap(ca / "ca.key", ca / "anna.key"), NotAllowed, "not the key of", id="another-key"),
    ],
)
def test_a_ca_that_cannot_be_used_says_why(
    ca: Path, spoil: Callable[[Path], Any], error: type[FlarelogError], says: str
) -> None:
    spoil(ca)
    with pytest.raises(error, match=says):
        authority.issue(ca, Role.SITE, "site-2", now=NOW)
    assert not (ca / "site-2.key").exists()


@pytest.mark.parametrize(("days", "says"), [(3651, "expired on"), (-1, "not valid before")])
def test_a_ca_signs_in_its_own_time_alone(ca: Path, days: int, says: str) -> None:
    with pytest.raises(NotAllowed, match=says):
        authority.issue(ca, Role.SITE, "site-2", now=NOW + timedelta(days=days))


# --- files


@pytest.fixture(params=[0o000, 0o022, 0o277])
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_keys_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    directory = tmp_path / "ca"
    authority.init(directory, now=NOW)
    authority.issue(directory, Role.SITE, "site-1", now=NOW)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}


class Killed(BaseException):
    """The process is dead: from here on not even its cleanup runs."""


CALLS = ("open", "fsync", "link", "unlink", "fchmod", "lstat")


def kill_at(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Let the process die at its *call*-th call that touches the file system: that call and all later ones raise
    Killed.
    """
    made = 0

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def make(*args: Any, **options: Any) -> Any:
            nonlocal made
            made += 1
            if made >= call:
                raise Killed
            return real(*args, **options)

        return make

    for name in CALLS:
        monkeypatch.setattr(os, name, dying(getattr(os, name)))


@pytest.mark.parametrize("what", ["ca", "site-1"])
def test_wherever_it_is_killed_a_pair_is_whole_or_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def make(directory: Path) -> Issued:
        if what == "ca":
            return authority.init(directory, now=NOW)
        return authority.issue(directory, Role.SITE, what, now=NOW)

    ends, call, killed = set(), 0, True
    while killed:
        call += 1
        directory = tmp_path / str(call)
        if what != "ca":
            authority.init(directory, now=NOW)
        with monkeypatch.context() as patch:
            kill_at(patch, call)
            try:
                make(directory)
                killed = False
            except Killed:
                pass
        left = (directory / f"{what}.crt").exists()  # a pair whose certificate is visible may be in use
        if left:
            ends.add("kept")
        else:
            ends.add("made anew")
            make(directory)
        with pytest.raises(NotAllowed, match="exists"):
            make(directory)
        # A CA that is killed before its first list has none until its first revocation.
        assert {*names(directory), "ca.crl"} - {"ca.crl.new"} == {
            "ca.crl",
            "ca.crt",
            "ca.key",
            f"{what}.crt",
            f"{what}.key",
        }
        assert authority.issue(directory, Role.SITE, "next", now=NOW)
        pair = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair.load_cert_chain(directory / f"{what}.crt", directory / f"{what}.key")  # refuses halves of two pairs
    assert call > 15
    assert ends == {"made anew", "kept"}


@pytest.mark.parametrize("call", ["fsync", "link"])
def test_what_the_file_system_refuses_is_said_and_leaves_nothing(
    ca: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = names(ca)
    real = getattr(os, call)
    refused: list[object] = []

    def refuse(*args: Any) -> Any:
        if not refused:
            refused.append(args)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(NotAllowed, match="cannot be written: No space left"):
        authority.issue(ca, Role.SITE, "site-2", now=NOW)
    assert names(ca) == before


# --- the revocation list


def test_the_list_tells_what_each_is_and_how_long_it_lasts(ca: Path, tmp_path: Path) -> None:
    authority.init(tmp_path / "other", now=NOW)
    authority.issue(tmp_path / "other", Role.SITE, "stranger", now=NOW)
    shutil.copy(tmp_path / "other" / "stranger.crt", ca)
    authority.issue(ca, Role.SITE, "soon", days=30, now=NOW)
    authority.issue(ca, Role.SITE, "gone", days=1, now=NOW - timedelta(minutes=4))
    authority.issue(ca, Role.SITE, "later", days=90, now=NOW + timedelta(days=2))
    (ca / "torn.crt").write_text("-----BEGIN CERTIFICATE-----\n")
    found, broken = authority.issued(ca)
    assert broken == [ca / "torn.crt"]
    now = NOW + timedelta(days=1)
    assert found[0].role is Role.CA
    assert {one.name: (one.role, one.days_left(now), one.state(now)) for one in found[1:]} == {
        "anna": (Role.READER, 364, "valid"),
        "gone": (Role.SITE, -1, "EXPIRED"),
        "later": (Role.SITE, 91, "not yet valid"),
        "logs.example.org": (Role.SERVER, 364, "valid"),
        "site-1": (Role.SITE, 364, "valid"),
        "soon": (Role.SITE, 29, "expires soon"),
        "stranger": (Role.SITE, 364, "other CA"),
    }
    assert len({one.serial for one in found}) == len(found)


def test_the_list_needs_no_key(ca: Path) -> None:
    for path in ca.glob("*.key"):
        path.unlink()
    assert len(authority.issued(ca)[0]) == 4


# --- the command line


def test_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "flarelog.security.authority")
    monkeypatch.delattr("flarelog.security.authority")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    done = CliRunner().invoke(main, ["certs", "init", "--dir", str(tmp_path / "ca")])
    assert done.exit_code == 78
    assert done.stderr == ("flarelog: certificates need the cryptography package: pip install 'flarelog[tls]'\n")
    assert CliRunner().invoke(main, ["certs", "site", "--help"]).exit_code == 0


def test_the_commands_default_is_the_modules() -> None:
    for name in ("server", "site", "reader", "operator"):
        (days,) = [option for option in command.commands[name].params if option.name == "days"]
        assert days.default == authority.LEAF_DAYS


def test_a_new_ca_has_a_list_that_names_nobody(ca: Path) -> None:
    files = str(ca / "ca.crt"), str(ca / "ca.crl")
    assert revocation.revocations(*files)[0] == 0
    revocation.demand_current(*files, NOW.timestamp())
    one = next(one for one in authority.issued(ca)[0] if one.name == "site-1")
    certificate.Trust(*files).check(certificate.Presented(one.certificate.read_bytes()), NOW.timestamp())


def test_each_certificate_is_revoked_by_the_name_that_the_list_shows(tmp_path: Path) -> None:
    authority.init(tmp_path, now=NOW)
    authority.issue_server(tmp_path, ["127.0.0.1", "localhost"], now=NOW)
    authority.issue(tmp_path, Role.SITE, "site-1", now=NOW)
    names = [one.name for one in authority.issued(tmp_path)[0] if one.role is not Role.CA]
    assert sorted(names) == ["127.0.0.1", "site-1"]
    for name in names:
        assert authority.revoke(tmp_path, name, now=NOW)[0].name == name
    assert [one.state(NOW) for one in authority.issued(tmp_path)[0]] == ["valid", "revoked", "revoked"]
    for copy in ("old", "older"):
        (tmp_path / f"{copy}.crt").write_bytes((tmp_path / "server.crt").read_bytes())
    with pytest.raises(NotAllowed, match=r"3 certificates have the name 127\.0\.0\.1: .*: old, older, server"):
        authority.revoke(tmp_path, "127.0.0.1", now=NOW)
    with pytest.raises(NotFound, match="there is no certificate"):
        authority.revoke(tmp_path, "flarelog CA", now=NOW)


def test_a_certificate_that_was_moved_is_revoked_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, other = tmp_path / "certs", tmp_path / "other"
    for directory in (here, other):
        authority.init(directory, now=NOW)
        authority.issue(directory, Role.SITE, "site-1", now=NOW)
    old = authority.issued(here)[0][1]
    (tmp_path / "old").mkdir()
    for path in (old.certificate, old.key):
        path.rename(tmp_path / "old" / path.name)
    new = authority.issue(here, Role.SITE, "site-1", now=NOW)
    monkeypatch.chdir(tmp_path)
    for name in (tmp_path / "old" / "site-1.crt", "old/site-1.crt"):
        assert authority.revoke(here, str(name), now=NOW)[0].serial == old.serial
    crl = x509.load_pem_x509_crl((here / "ca.crl").read_bytes())
    assert [one.serial_number for one in crl] == [old.serial]
    assert [one.state(NOW) for one in authority.issued(here)[0]] == ["valid", "valid"]
    (tmp_path / "no.crt").write_text("none")
    for name, why in (
        ("other/site-1.crt", "was not signed by this CA"),
        ("certs/ca.crt", "cannot revoke itself"),
        ("ca.crt", "cannot revoke itself"),
        ("no.crt", "no.crt holds no certificate in PEM: give the file of a certificate"),
    ):
        with pytest.raises(NotAllowed, match=why):
            authority.revoke(here, name, now=NOW)
    with pytest.raises(NotFound, match=r"there is no certificate .* give the path of a certificate"):
        authority.revoke(here, "old/site-2.crt", now=NOW)
    assert authority.revoke(here, "site-1.crt", now=NOW)[0].serial == new.serial, "as the list shows its file"


def test_what_is_revoked_is_on_the_list_and_receivers_believe_it(ca: Path) -> None:
    directory = ca
    pair = {name: authority.issue(directory, Role.SITE, name, now=NOW) for name in ("site-2", "site-3")}
    pair["site-1"] = next(one for one in authority.issued(directory)[0] if one.name == "site-1")
    shown = {n: certificate.Presented(one.certificate.read_bytes()) for n, one in pair.items()}
    for name in ("site-1", "site-2", "site-1"):
        one, path = authority.revoke(directory, name, now=NOW)
        assert (one.name, path) == (name, directory / "ca.crl")
    trust, now = certificate.Trust(str(directory / "ca.crt"), str(directory / "ca.crl")), NOW.timestamp()
    assert revocation.revocations(str(directory / "ca.crt"), str(directory / "ca.crl"))[0] == 2
    trust.check(shown["site-3"], now)
    for name in ("site-1", "site-2"):
        with pytest.raises(revocation.Revoked):
            trust.check(shown[name], now)
    states = {one.name: one.state(NOW) for one in authority.issued(directory)[0]}
    assert [states[name] for name in ("site-1", "site-2", "site-3")] == ["revoked", "revoked", "valid"]
    with pytest.raises(NotAllowed, match="cannot revoke itself: name a certificate that it signed"):
        authority.revoke(directory, "ca", now=NOW)
    for name in ("site-9", "../site-1"):
        with pytest.raises(NotFound, match="there is no certificate"):
            authority.revoke(directory, name, now=NOW)
    (directory / "ca.crl").write_text("half of a l")
    with pytest.raises(NotAllowed, match="not a revocation list of this CA"):
        authority.revoke(directory, "site-3", now=NOW)


def test_who_wants_a_new_pair_is_told_to_revoke_the_old_one_first(ca: Path) -> None:
    with pytest.raises(NotAllowed, match=r"site-1\.(crt|key) exists: use it; .* after flarelog certs revoke site-1 if"):
        authority.issue(ca, Role.SITE, "site-1", now=NOW)
