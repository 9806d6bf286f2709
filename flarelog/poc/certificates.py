"""The certificates of a simulation: a CA of its own, and another one that the receiver does not know.

WORK/certs/, WORK/other-certs/   the two CAs
WORK/tls/NAME/                   the certificate, key and CAs of NAME; a link, so that all are replaced at once
WORK/policy.toml                 lets the simulation itself begin and end the run
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from flarelog.poc.intruders import STRANGER
from flarelog.security import authority
from flarelog.security.authority import Issued, Role
from flarelog.security.tls import Tls

RECEIVER, OPERATOR = "receiver", "operator"
HOSTS = ("127.0.0.1", "localhost")
_POLICY = f"""defaults = true

[[grant]]
cn = "{OPERATOR}"
ou = "{Role.READER.value}"
role = "operator"
"""


class Certificates:
    """The certificates of the receiver, of *sites*, of an operator, and of a stranger with the first site's name.

    Raises NotInstalled, when this module is imported without the cryptography package; NotAllowed.
    """

    def __init__(self, work: Path, sites: Sequence[str]) -> None:
        self._tls, self._ca, self._other = work / "tls", work / "certs", work / "other-certs"
        self._sites = tuple(sites)
        self._issued = 0  # how often
        self.policy = work / "policy.toml"
        self.policy.write_text(_POLICY)
        self._tls.mkdir()
        now = datetime.now(UTC)
        for directory in (self._ca, self._other):
            authority.init(directory, now=now)
        self._hand_out(OPERATOR, authority.issue(self._ca, Role.READER, OPERATOR, now=now))
        # The stranger trusts the receiver too, because the simulation shows that the receiver refuses it.
        self._hand_out(STRANGER, authority.issue(self._other, Role.SITE, self._sites[0], now=now), self._other)
        self.renew()

    def renew(self) -> None:
        """Give the receiver and all sites new certificates of the same CA."""
        now = datetime.now(UTC)
        self._hand_out(RECEIVER, authority.issue_server(self._ca, HOSTS, now=now))
        for name in self._sites:
            self._hand_out(name, authority.issue(self._ca, Role.SITE, name, now=now))

    def of(self, name: str) -> Tls:
        place = self._tls / name
        return Tls(*(str(place / file) for file in ("ca.crt", "own.crt", "own.key")))

    def _hand_out(self, name: str, one: Issued, *also: Path) -> None:
        """Move the pair out of the CA's directory, which frees its name there; *also*: CAs to trust."""
        self._issued += 1
        place = self._tls / f"{name}.{self._issued}"
        place.mkdir()
        shutil.move(one.certificate, place / "own.crt")
        shutil.move(one.key, place / "own.key")
        (place / "ca.crt").write_bytes(b"".join((ca / "ca.crt").read_bytes() for ca in (self._ca, *also)))
        link = self._tls / f"{name}.new"
        link.symlink_to(place.name)
        os.replace(link, self._tls / name)
