"""Setup of pytest for the tests with real processes."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator

import pytest

pytest.register_assert_rewrite("integration.harness.places")
from integration.harness.places import Place, new_place, nursery  # noqa: E402  # rewritten when it is imported


def pytest_configure() -> None:
    """Reset ignored signals. Under nohup or a shell's & signals are ignored, and children inherit that,
    but no handler.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the slowest tests first. The sweep runs in several processes by itself."""
    items.sort(key=lambda item: item.path.name != "test_kill_sweep.py")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the output of a failed test's processes."""
    report = yield
    if report.failed and report.when != "teardown":
        places = [place for place in getattr(item, "funcargs", {}).values() if isinstance(place, Place)]
        report.sections += [(str(program), program.talk()) for place in places for program in place.programs]
    return report


def pytest_unconfigure() -> None:
    if nursery.cache_info().currsize:
        nursery().close()


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as place:
        yield place
