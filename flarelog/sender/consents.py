"""The consent of a site to send its logs: its policy files are checked before each message, and once a second."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from flarelog.errors import FlarelogError
from flarelog.sources.consent import Consent

CONSENT_EVERY = 1.0  # seconds between two checks of the site's policy while nothing is sent


class Consents:
    """The consents of *sites*, as they were when the sidecar started."""

    def __init__(self, sites: Iterable[Consent]) -> None:
        self._sites = list(sites)
        self._refused = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._sites)

    def demand(self) -> None:
        """Check the consents. Raises NoConsent, InvalidOption, ConsentChanged."""
        self._sites = [site.demand_still() for site in self._sites]

    def given(self) -> bool:
        """Whether the consents are unchanged; if not, ``mind`` ends the sidecar."""
        try:
            self.demand()
        except FlarelogError:
            self._refused.set()
            return False
        return True

    async def mind(self) -> None:
        """Wait until a site withdraws its consent, and raise as ``demand`` does."""
        while self._sites:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONSENT_EVERY):
                    await self._refused.wait()
            self.demand()
