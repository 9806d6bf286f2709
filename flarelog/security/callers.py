"""Keys for callers in quotas and audit lines: the name that the policy uses, and the certificate's fingerprint.

Callers with different policy names have different keys. Names are never truncated, so that no two become equal.
Fingerprints tell two certificates with one name apart.
"""

from __future__ import annotations

from flarelog.errors import NotAllowed
from flarelog.policy import Identity, site_of


def name_of(identity: Identity) -> str:
    """The policy's name for *identity*: the site of its certificate, or else all names in it."""
    if identity.how != "certificate":
        return str(identity)
    try:
        return f"certificate {site_of(identity)!r}"
    except NotAllowed:
        names = dict.fromkeys(filter(None, (identity.common_name, *identity.sans)))
        return f"certificate {', '.join(map(repr, names))}"


def key_of(identity: Identity) -> str:
    """A key that differs for any two callers, and fits into a sentence."""
    return f"{name_of(identity)} (SHA-256 {identity.fingerprint})" if identity.fingerprint else name_of(identity)


def told_of(identity: Identity) -> dict[str, str]:
    """The fields of an audit line for *identity*."""
    said = {"identity": name_of(identity)}
    return {**said, "fingerprint": identity.fingerprint} if identity.fingerprint else said
