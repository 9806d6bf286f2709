"""The identity that a peer's certificate gives, and whether it is trusted: with real certificates, good and hostile."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import example, given
from hypothesis import strategies as st

from flarelog.errors import InvalidOption, NotAllowed
from flarelog.model import Action
from flarelog.policy import NOBODY, Identity, Policy, site_of
from flarelog.security.certificate import Outdated, Presented, Trust, identity
from flarelog.security.revocation import Revoked, demand_current, revocations
from flarelog.security.tls import Tls
from tests.certificates import Authority, Named, kit, nvflare_kits, pem_of

NOW = time.time()
DAY = 86400.0


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("ca"))


def presented(tls: Tls, *between: Authority) -> Presented:
    """The gRPC view of a peer with the certificate of *tls* and the chain *between*."""
    chain = b"".join(one.certificate.public_bytes(serialization.Encoding.PEM) for one in between)
    return Presented(Path(tls.cert).read_bytes(), chain)


def named(ca: Authority, common: str, *sans: Named, units: Sequence[str] = ()) -> Identity:
    return presented(ca.issue("who", common=common, named=sans, units=units)).identity()


# --- the identity


def test_a_certificate_says_its_names_each_as_the_kind_that_it_is(ca: Authority) -> None:
    sans = (("dns", b"site-1"), ("email", b"me@example.org"), ("uri", b"spiffe://a/b"), ("ip", bytes(4)))
    found = named(ca, "site-1", *sans, units=("site", "größer"))
    assert (found.how, found.common_name) == ("certificate", "site-1")
    assert found.dns_names == ("site-1",)
    assert found.sans == ("site-1", "me@example.org", "spiffe://a/b")
    assert found.organizational_units == ("site", "größer")
    assert len(found.fingerprint) == 64
    assert found.fingerprint != named(ca, "site-1").fingerprint


def test_an_nvflare_kit_names_its_site_and_its_admins_role(tmp_path: Path) -> None:
    kits = nvflare_kits(tmp_path, "server", ["localhost"], ["site-1"], "admin@nvidia.com")
    assert site_of(presented(kit(kits, "site-1")).identity()) == "site-1"
    admin = presented(kit(kits, "admin@nvidia.com")).identity()
    assert (admin.common_name, admin.nvflare_role) == ("admin@nvidia.com", "project_admin")
    assert Policy().permits(admin, Action.READ, run="job-1", site="site-1")


def test_without_a_certificate_it_is_nobody() -> None:
    assert identity({}) is NOBODY
    assert identity({"transport_security_type": [b"ssl"], "x509_subject": [b"CN=site-1"]}) is NOBODY


# The common name and the SANs of certificates, and the site of each; None: the certificate pushes as no site.
SITES = [
    pytest.param("site-1", (), "site-1", id="the-common-name-of-one-without-san"),
    pytest.param("other", [("dns", b"site-1")], "site-1", id="the-dns-name-before-the-common-name"),
    pytest.param("site-1", [("dns", b"a.org"), ("dns", b"site-1")], "site-1", id="of-several-the-common-name"),
    pytest.param("evil", [("dns", b"site-1\0evil")], None, id="a-dns-name-with-a-nul"),
    pytest.param("evil", [("dns", b"site-1\0")], None, id="one-that-ends-in-a-nul"),
    pytest.param("evil", [("email", b"site-1")], "evil", id="an-address-that-is-none"),
    pytest.param("evil", [("email", b"site-1\0@evil.org")], None, id="an-address-with-a-nul"),
    pytest.param("evil", [("uri", b"site-1")], "evil", id="a-uri-that-is-none"),
    pytest.param("evil", [("uri", b"site-1\0:x")], None, id="a-uri-with-a-nul"),
    pytest.param("", [("email", b"site-1")], None, id="an-address-alone"),
    pytest.param("", [("uri", b"site-1")], None, id="a-uri-alone"),
    pytest.param("evil", [("dns", b"evil"), ("email", b"site-1"), ("uri", b"site-1")], "evil", id="all-kinds"),
    pytest.param("site-1\0.evil", (), None, id="a-common-name-with-a-nul"),
    pytest.param("site-1\0.evil", [("dns", b"site-1")], None, id="though-another-name-is-right"),
    pytest.param("site-1", [("dns", b"a@b")], None, id="a-dns-name-that-is-none-is-not-passed-over"),
    pytest.param("site-1", [("dns", b"site-2")], "site-2", id="a-common-name-beside-another-dns-name"),
    pytest.param("evil", [("dns", b"a"), ("dns", b"site-1")], None, id="two-of-which-none-is-the-common-name"),
    pytest.param("evil", [("dns", b"site-\xe9")], None, id="what-is-no-ascii"),
    pytest.param("evil", [("dns", b"")], None, id="an-empty-dns-name"),
]


@pytest.mark.parametrize(("common", "sans", "site"), SITES)
def test_the_site_that_a_certificate_is(ca: Authority, common: str, sans: Sequence[Named], site: str | None) -> None:
    tls = ca.issue("who", common=common, named=sans)
    assert {one for one in ("site-1", "site-2", "evil") if pushes(tls, one)} == ({site} if site else set())


def pushes(tls: Tls, site: str) -> bool:
    try:
        return Policy().permits(presented(tls).identity(), Action.PUSH, run="run-1", site=site)
    except NotAllowed:
        return False


def test_no_grant_is_for_a_name_of_another_kind(ca: Authority) -> None:
    for kind in ("email", "uri"):
        assert "boss" not in named(ca, "evil", (kind, b"boss")).sans


def test_a_nul_anywhere_is_refused(ca: Authority) -> None:
    with pytest.raises(NotAllowed, match="has a NUL in a name"):
        named(ca, "site-1", units=("re\0ader",))


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(Presented(b"no PEM"), id="no-pem"),
        pytest.param(Presented(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), id="no-der"),
        pytest.param(Presented(b"x" * (1 << 20)), id="too-much"),
    ],
)
def test_what_is_no_certificate_is_refused_with_a_sentence(shown: Presented) -> None:
    with pytest.raises(NotAllowed, match="certificate") as refused:
        shown.identity()
    assert str(refused.value).isprintable()


TEXTS = st.text(st.sampled_from("site-12\0@:/.*\né"), max_size=12)
NAMES = st.lists(st.tuples(st.sampled_from(["dns", "email", "uri"]), TEXTS.map(str.encode)), max_size=3)


@given(TEXTS, NAMES)
def test_nobody_is_a_site_that_his_certificate_does_not_name(common: str, sans: list[Named]) -> None:
    dns = [raw for kind, raw in sans if kind == "dns"]
    try:
        site = site_of(Presented(pem_of(common, sans)).identity())
    except NotAllowed:
        return
    assert site.encode() in (dns or [common.encode()])
    assert not any(b"\0" in raw for raw in (common.encode(), *(raw for _, raw in sans)))


DER = ssl.PEM_cert_to_DER_cert(pem_of("site-1", [("dns", b"site-1"), ("email", b"a@b")], ["site"]).decode())


@example([(12, b"8")])  # the byte of the version
@given(st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=3)), max_size=4))
def test_a_certificate_with_any_bytes_changed_is_an_identity_or_a_refusal(changes: list[tuple[int, bytes]]) -> None:
    der = DER
    for at, data in changes:
        der = der[:at] + data + der[at + len(data) :]
    try:
        said = str(Presented(ssl.DER_cert_to_PEM_cert(der).encode()).identity())
    except NotAllowed as error:
        said = str(error)
    assert said.isprintable()


# --- the trust


def test_who_the_ca_signed_is_believed_until_it_expires(ca: Authority) -> None:
    tls = ca.issue("site-1", days=(-1, 2))
    trust = Trust(tls.ca)
    trust.check(presented(tls), NOW)
    trust.check(presented(tls), NOW + 1.9 * DAY)
    with pytest.raises(Outdated, match="certificate 'site-1' has expired"):
        trust.check(presented(tls), NOW + 2.1 * DAY)


def test_an_expired_ca_vouches_for_nobody(ca: Authority) -> None:
    tls = ca.issue("site-1", days=(-1, 5000))
    Trust(tls.ca).check(presented(tls), NOW)
    with pytest.raises(Outdated, match="has expired"):
        Trust(tls.ca).check(presented(tls), NOW + 1001 * DAY)


def test_who_another_ca_signed_is_not_believed_though_it_has_the_same_name(ca: Authority, tmp_path: Path) -> None:
    other = Authority.new(tmp_path)
    with pytest.raises(Outdated, match="signed by no CA of this receiver"):
        Trust(ca.issue("me").ca).check(presented(other.issue("site-1")), NOW)


def test_of_several_cas_in_a_file_each_is_believed(ca: Authority, tmp_path: Path) -> None:
    other = Authority.new(tmp_path)
    both = tmp_path / "both.crt"
    both.write_bytes(Path(ca.issue("me").ca).read_bytes() + Path(other.issue("me").ca).read_bytes())
    for one in (ca, other):
        Trust(str(both)).check(presented(one.issue("site-1")), NOW)


def test_a_ca_between_is_believed_if_it_is_shown_and_is_one(ca: Authority) -> None:
    middle = ca.between()
    tls = middle.issue("site-1")
    trust = Trust(ca.issue("me").ca)
    trust.check(presented(tls, middle), NOW)
    with pytest.raises(Outdated):
        trust.check(presented(tls), NOW)
    leaf = ca.issue("leaf")
    key = serialization.load_pem_private_key(Path(leaf.key).read_bytes(), None)
    forger = Authority(ca.directory, ca.name, key, x509.load_pem_x509_certificate(Path(leaf.cert).read_bytes()))  # type: ignore[arg-type]
    with pytest.raises(Outdated):
        trust.check(presented(forger.issue("site-1"), forger), NOW)


def test_who_is_revoked_is_not_believed_whatever_way_he_comes(ca: Authority) -> None:
    middle = ca.between()
    good, bad = ca.issue("good"), ca.issue("bad")
    by_middle = presented(middle.issue("site-1"), middle)
    crl = ca.revokes(bad.cert)
    trust = Trust(good.ca, crl)
    trust.check(presented(good), NOW)
    trust.check(by_middle, NOW)
    with pytest.raises(Revoked, match=r"certificate 'bad' was revoked by its CA \(serial [0-9A-F]+\)"):
        trust.check(presented(bad), NOW)
    path = ca.directory / "middle.crt"
    path.write_bytes(middle.certificate.public_bytes(serialization.Encoding.PEM))
    with pytest.raises(Outdated):
        Trust(good.ca, ca.revokes(str(path))).check(by_middle, NOW)


def test_lists_of_several_cas_stand_in_one_file(ca: Authority, tmp_path: Path) -> None:
    other = Authority.new(tmp_path, "other")
    ours, theirs = ca.issue("ours"), other.issue("theirs")
    both = tmp_path / "both.crt"
    both.write_bytes(Path(ours.ca).read_bytes() + Path(theirs.ca).read_bytes())
    crl = tmp_path / "both.crl"
    crl.write_bytes(Path(ca.revokes(ours.cert)).read_bytes() + Path(other.revokes(theirs.cert)).read_bytes())
    for one in (ours, theirs):
        with pytest.raises(Revoked):
            Trust(str(both), str(crl)).check(presented(one), NOW)
    assert revocations(str(both), str(crl))[0] == 2


def written(text: str) -> Callable[[Authority], str]:
    def made(ca: Authority) -> str:
        (ca.directory / "bad.crl").write_text(text)
        return str(ca.directory / "bad.crl")

    return made


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        pytest.param(written("nothing"), "holds no revocation list", id="no-list"),
        pytest.param(lambda ca: "/nowhere", "/nowhere cannot be read", id="no-file"),
        pytest.param(written("-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"), "an unreadable", id="broken"),
        pytest.param(
            lambda ca: Authority.new(ca.directory / "x").revokes(ca.issue("a").cert),
            "no CA of --tls-ca signed",
            id="of-another-ca",
        ),
        pytest.param(lambda ca: ca.revokes(critical=True), "of an unknown kind", id="a-delta"),
        pytest.param(lambda ca: ca.revokes(days=-1), "expired on", id="expired"),
    ],
)
def test_a_list_that_is_no_good_is_refused_with_a_sentence(
    ca: Authority, make: Callable[[Authority], str], sentence: str
) -> None:
    with pytest.raises(InvalidOption, match=sentence) as refused:
        demand_current(ca.issue("me").ca, make(ca), NOW)
    assert str(refused.value).isprintable()


def test_a_list_that_expires_while_it_is_in_force_stays_so_and_is_told_of(ca: Authority) -> None:
    bad = ca.issue("bad")
    trust = Trust(bad.ca, ca.revokes(bad.cert, days=1))
    assert trust.due(NOW) == ""
    assert "expired on" in trust.due(NOW + 2 * DAY)
    with pytest.raises(Revoked):
        trust.check(presented(bad), NOW + 2 * DAY)


def test_a_ca_that_is_none_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("nothing")
    for ca in (str(tmp_path / "ca.crt"), "/nowhere"):
        with pytest.raises(InvalidOption, match=r"holds no CA certificate|cannot be read"):
            Trust(ca)


def test_what_was_found_is_remembered_and_bounded(ca: Authority) -> None:
    tls = ca.issue("site-1")
    trust = Trust(tls.ca)
    for n in range(3):
        trust.check(replace(presented(tls), chain=b"\n" * n), NOW)
    assert len(trust._found) == 3
