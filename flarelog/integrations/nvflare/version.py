"""Which releases of NVFlare flarelog's components live in. Importing this refuses all older ones, in one sentence."""

from __future__ import annotations

import re

import nvflare

OLDEST, NEWEST = "2.7.2", "2.9.0"  # of those that the tests try


def number(version: str) -> tuple[int, ...]:
    """The release that *version* is of; none where it was built from a checkout without tags, as 0+unknown."""
    if version.startswith("0+"):
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def refusal(version: str) -> str:
    """Why flarelog does not live in NVFlare *version*; empty where it does."""
    if not number(version) or number(version) >= number(OLDEST):
        return ""
    return (
        f"flarelog needs NVFlare {OLDEST} or later, but this is {version}: install a"
        " later version, or leave flarelog out"
    )


def untried(version: str) -> str:
    """What is to be said of NVFlare *version*, if it is later than those that were tried."""
    if number(version)[:2] <= number(NEWEST)[:2] and number(version):
        return ""
    return f"; flarelog was tested with NVFlare {OLDEST} to {NEWEST}, and this is {version}"


VERSION = str(nvflare.__version__)
if refused := refusal(VERSION):
    raise ImportError(refused)
