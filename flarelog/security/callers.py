"""What tells callers apart, in quotas and in the audit: the name that the policy goes by, and the certificate itself.

Laws that hold here: whoever is somebody else to the policy is somebody else here; nothing of a name is cut off, so that
no two become one; two certificates with one name are told apart by their fingerprints.
"""

from __future__ import annotations

from flarelog.errors import NotAllowed
from flarelog.policy import Identity, site_of


def name_of(identity: Identity) -> str:
    """Whom the policy takes *identity* for: the site that its certificate is, else all that it is called there."""
    if identity.how != "certificate":
        return str(identity)
    try:
        return f"certificate {site_of(identity)!r}"
    except NotAllowed:
        names = dict.fromkeys(filter(None, (identity.common_name, *identity.sans)))
        return f"certificate {', '.join(map(repr, names))}"


def key_of(identity: Identity) -> str:
    """What is different of any two callers, as it may stand in a sentence."""
    return f"{name_of(identity)} (SHA-256 {identity.fingerprint})" if identity.fingerprint else name_of(identity)


def told_of(identity: Identity) -> dict[str, str]:
    """What an audit line says of *identity*."""
    said = {"identity": name_of(identity)}
    return {**said, "fingerprint": identity.fingerprint} if identity.fingerprint else said
