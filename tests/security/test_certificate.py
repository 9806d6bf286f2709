"""The identity that a peer's certificate gives, and whether it is trusted: with real certificates, good and hostile."""

from __future__ import annotations

import contextlib
import itertools
import math
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from flarelog.errors import InvalidOption, NotAllowed
from flarelog.model import Action
from flarelog.policy import NOBODY, Identity, Policy, site_of
from flarelog.security import certificate
from flarelog.security.certificate import Outdated, Presented, Trust
from flarelog.security.guard import identity_of
from flarelog.security.revocation import Revoked, demand_current, revocations
from flarelog.security.tls import Tls
from tests.certificates import Authority, Named, kit, nvflare_kits, pem_of
from tests.contexts import Bare

NOW = time.time()
DAY = 86400.0
X = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "X")])


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
    with pytest.raises(NotAllowed, match="reads the jobs that its admin sees in NVFlare, at NVFlare's own server"):
        Policy().allows(admin, Action.READ, run="job-1", site="site-1")


class Shows(Bare):
    def __init__(self, properties: dict[str, list[bytes]]) -> None:
        self._properties = properties

    def auth_context(self) -> dict[str, list[bytes]]:
        return self._properties


def test_without_a_certificate_it_is_nobody() -> None:
    assert identity_of(Shows({})) is NOBODY
    assert identity_of(Shows({"transport_security_type": [b"ssl"], "x509_subject": [b"CN=site-1"]})) is NOBODY


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


# --- the cost of a chain


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[tuple[x509.Certificate, x509.Certificate]]:
    """The signatures that were verified."""
    found: list[tuple[x509.Certificate, x509.Certificate]] = []
    real = certificate.is_signed

    def signed(one: x509.Certificate, ca: x509.Certificate) -> bool:
        found.append((one, ca))
        return real(one, ca)

    monkeypatch.setattr(certificate, "is_signed", signed)
    return found


def junk(
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
    subject: x509.Name = X,
    issuer: x509.Name = X,
    public: CertificatePublicKeyTypes | None = None,
    days: float = 5000,
    by: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
) -> x509.Certificate:
    """A CA certificate that a peer makes itself: of *public*, or else *key*, signed with *by*, or else *key*."""
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, public or key.public_key(), x509.random_serial_number())
    dated = builder.not_valid_before(now - timedelta(days=2)).not_valid_after(now + timedelta(days=days))
    return dated.add_extension(x509.BasicConstraints(True, None), True).sign(by or key, hashes.SHA256())


def shows(tls: Tls, *chain: x509.Certificate) -> Presented:
    return Presented(
        Path(tls.cert).read_bytes(), b"".join(one.public_bytes(serialization.Encoding.PEM) for one in chain)
    )


def test_certificates_that_all_sign_each_other_cost_one_signature_where_the_ca_signed_the_peers(
    ca: Authority, verified: list[object]
) -> None:
    key, tls = ec.generate_private_key(ec.SECP521R1()), ca.issue("site-1")
    known = junk(key, ca.certificate.subject, X, ca.certificate.public_key())
    Trust(tls.ca).check(shows(tls, known, *[junk(key) for _ in range(7)]), NOW)
    assert len(verified) == 1


@pytest.mark.parametrize("days", [5000.0, 50.0], ids=["longer than the peer's", "shorter than the peer's"])
def test_certificates_that_all_sign_each_other_cost_a_bounded_number_of_signatures(
    ca: Authority, days: float, verified: list[object]
) -> None:
    """The peer's certificate outlives the CA, so that a better way is sought."""
    key, tls = ec.generate_private_key(ec.SECP256R1()), ca.issue("site-1", days=(-1, 5000))
    known = junk(key, ca.certificate.subject, X, ca.certificate.public_key(), days)
    chain = [junk(key, days=days + n) for n in range(7)]
    trust, shown = Trust(tls.ca), shows(tls, known, *chain)
    with contextlib.suppress(NotAllowed):
        trust.check(shown, NOW)
    assert len(verified) <= certificate.MAX_SIGNATURES
    before = len(verified)
    with contextlib.suppress(NotAllowed):
        trust.check(shown, NOW)
    assert len(verified) == before


def test_a_chain_that_needs_too_many_signatures_is_refused_with_a_sentence(
    ca: Authority, verified: list[object]
) -> None:
    """All have one name, and each is signed with the key of the next."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(9)]
    chain = [junk(key, by=by) for key, by in itertools.pairwise(keys)]
    tls = replace(ca, key=keys[0], certificate=chain[0]).issue("site-1")
    with pytest.raises(NotAllowed, match="more than 32 verified signatures: present only the") as refused:
        Trust(tls.ca).check(shows(tls, *chain), NOW)
    assert str(refused.value).isprintable()
    assert len(verified) == certificate.MAX_SIGNATURES


def _costly_key() -> rsa.RSAPrivateKey:
    """An RSA key with an exponent as large as the key, whose signatures take as long to verify as to make."""
    numbers = rsa.generate_private_key(65537, 2048).private_numbers()
    p, q = numbers.p, numbers.q
    phi, e = (p - 1) * (q - 1), (1 << 2040) + 1
    while math.gcd(phi, e) != 1:
        e += 2
    d = pow(e, -1, phi)
    public = rsa.RSAPublicNumbers(e, p * q)
    return rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), numbers.iqmp, public).private_key(
        unsafe_skip_rsa_key_validation=True
    )


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_costly_key, id="rsa, a large exponent"),
        pytest.param(lambda: ec.generate_private_key(ec.BrainpoolP512R1()), id="an unusual curve"),
    ],
)
def test_a_certificate_with_a_costly_key_is_no_part_of_a_chain(
    ca: Authority, make: Callable[[], Any], verified: list[object]
) -> None:
    key = make()
    middle = junk(key, X, ca.certificate.subject, by=ca.key)
    tls = replace(ca, key=key, certificate=middle).issue("site-1")
    with pytest.raises(Outdated, match="signed by no CA"):
        Trust(tls.ca).check(shows(tls, middle), NOW)
    assert verified == []


def test_of_several_chains_the_longest_lived_counts(ca: Authority) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    chain = [junk(key, X, ca.certificate.subject, by=ca.key, days=days) for days in (2, 50, 10)]
    tls = replace(ca, key=key, certificate=chain[0]).issue("site-1")
    trust = Trust(tls.ca)
    trust.check(shows(tls, *chain), NOW + 49 * DAY)
    with pytest.raises(Outdated, match="has expired"):
        trust.check(shows(tls, *chain), NOW + 51 * DAY)


@pytest.mark.parametrize("order", [1, -1])
def test_a_chain_of_eight_is_believed_in_any_order(ca: Authority, order: int, verified: list[object]) -> None:
    chain = [ca]
    for n in range(8):
        chain.append(chain[-1].between(f"between-{n}"))
    tls = chain[-1].issue("site-1")
    Trust(tls.ca).check(presented(tls, *chain[1:][::order]), NOW)
    assert len(verified) == 9


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
