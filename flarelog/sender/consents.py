"""Whether a site still lets its logs go: its files are looked at again before anything is sent, and once a second."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from flarelog.errors import FlarelogError
from flarelog.sources.consent import Consent

CONSENT_EVERY = 1.0  # seconds between two looks at the site's policy while nothing is sent


class Consents:
    """Of *sites*, as they were when the sidecar began."""

    def __init__(self, sites: Iterable[Consent]) -> None:
        self._sites = list(sites)
        self._refused = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._sites)

    def demand(self) -> None:
        """Raises NoConsent, InvalidOption, ConsentChanged."""
        self._sites = [site.demand_still() for site in self._sites]

    def given(self) -> bool:
        """Whether the site's files say what they said; if not, the sidecar is about to be ended."""
        try:
            self.demand()
        except FlarelogError:
            self._refused.set()
            return False
        return True

    async def mind(self) -> None:
        """Raise, as ``demand`` does, when the site takes its consent back."""
        while self._sites:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONSENT_EVERY):
                    await self._refused.wait()
            self.demand()
