"""The NVFlare releases that flarelog supports. Importing this module refuses older ones, in one sentence."""

from __future__ import annotations

import re

import nvflare

OLDEST, NEWEST = "2.7.2", "2.9.0"  # the range that the tests cover


def number(version: str) -> tuple[int, ...]:
    """The release number in *version*; empty for a build from a checkout without tags, such as 0+unknown."""
    if version.startswith("0+"):
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def refusal(version: str) -> str:
    """Why flarelog does not support NVFlare *version*; empty if it does."""
    if not number(version) or number(version) >= number(OLDEST):
        return ""
    return (
        f"flarelog needs NVFlare {OLDEST} or later, but this is {version}: install a"
        " later version, or leave flarelog out"
    )


def untried(version: str) -> str:
    """A note for an NVFlare *version* newer than the tested ones; empty otherwise."""
    if number(version)[:2] <= number(NEWEST)[:2] and number(version):
        return ""
    return f"; flarelog was tested with NVFlare {OLDEST} to {NEWEST}, and this is {version}"


VERSION = str(nvflare.__version__)
if refused := refusal(VERSION):
    raise ImportError(refused)
