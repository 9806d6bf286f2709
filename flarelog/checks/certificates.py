"""Checks of this end's certificate and of revocation lists: whether they fit together, and when they expire."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Literal, cast

from flarelog.checks.row import Row, fail, ok, warn
from flarelog.errors import FlarelogError
from flarelog.security.tls import EXPIRED, TOO_EARLY, Tls
from flarelog.text import several

SOON = 30 * 86400  # seconds before a certificate's end from which on a row warns
CLOCK = "set this machine's clock if it is wrong (date; NTP keeps it right), else wait"
RENEW = "request a new certificate from the CA (flarelog certs), and name its file"
NO_TLS = "a revocation list needs TLS", "give --tls-ca, --tls-cert and --tls-key as well"


def own(tls: Tls, end: Literal["server", "client"]) -> Iterator[Row]:
    try:
        certificate = tls.check(end)
    except FlarelogError as error:
        fix = RENEW if EXPIRED in str(error) else "make the certificate again, or name files that belong together"
        yield fail("certificate", str(error), CLOCK if TOO_EARLY in str(error) else fix)
    else:
        subject = cast(tuple[tuple[tuple[str, str], ...], ...], certificate.get("subject", ()))
        names = [value for part in subject for key, value in part if key == "commonName"]
        yield dated("certificate", f"{tls.cert} names {', '.join(names) or 'nobody'}", certificate, "flarelog certs")


def revoked(tls: Tls, crl: str) -> Row:
    fix = "make a new list with the CA (flarelog certs revoke), and name its file"
    try:
        from flarelog.security.revocation import revocations

        count, end = revocations(tls.ca, crl)
    except FlarelogError as error:
        return fail("revocations", str(error), fix)
    what = f"{crl} revokes {several(count, 'certificate')}"
    if math.isinf(end):
        return ok("revocations", f"{what}, and never expires")
    return _until("revocations", what, end, fix, ": no receiver starts with it")


def dated(check: str, what: str, certificate: Mapping[str, object], where: str) -> Row:
    import ssl

    end = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    return _until(check, what, end, f"make a new certificate: {where}")


def _until(check: str, what: str, end: float, fix: str, effect: str = "") -> Row:
    """The row of *what* expires at *end*, in seconds since 1970; *effect*: that of an end in the past."""
    left, until = end - time.time(), time.strftime("%Y-%m-%d", time.gmtime(end))
    if left <= 0:
        return fail(check, f"{what}, and expired on {until}{effect}", fix)
    said = f"{what}, and expires on {until}"
    return warn(check, f"{said}, in {several(round(left / 86400), 'day')}", fix) if left < SOON else ok(check, said)
