"""Setup that several test modules share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from flarelog import proxies
from tests.often import often
from tests.sources.files.tailing import Site

for name in (*proxies.VARIABLES, *proxies.EXCEPTIONS):
    os.environ.pop(name, None)  # where the tests run, a proxy may be set

# No deadline: an example's duration depends on the machine's other load.
settings.register_profile(
    "flarelog", deadline=None, max_examples=often(20, 100), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("flarelog")


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(**options: object) -> Site:
        made.append(Site(tmp_path, **options))
        return made[-1]

    yield make
    for site in made:
        site.close()
