"""Logs that arrived long after they were written: the page goes to a time by the lines' own times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from integration.harness.places import new_place
from integration.web.browsing import Tab, Web, filled, tab_of

BEGIN = datetime(2026, 11, 20, 8, tzinfo=UTC)
LINES = 5000  # a second apart


def log(site: str) -> bytes:
    seconds = (f"{BEGIN + timedelta(seconds=n):%Y-%m-%d %H:%M:%S},000 INFO {site} is at {n}\n" for n in range(LINES))
    return "".join(seconds).encode()


@pytest.fixture(scope="module")
def late() -> Iterator[Web]:
    """A page over a receiver that got two sites' whole logs at once."""
    with new_place() as place:
        receiver = filled(place, {f"{site}/train.log": log(site) for site in ("berlin", "kyoto")})
        yield Web(place, "--receiver", receiver.address)


@pytest.fixture
def tab(browser: Browser, late: Web) -> Iterator[Tab]:
    with tab_of(browser, late) as tab:
        yield tab
        tab.is_clean()


def go_to(page: Page, place: str) -> None:
    page.keyboard.press(":")
    page.keyboard.type(place)
    page.keyboard.press("Enter")


@pytest.mark.parametrize(
    "said", ["08:40:00", pytest.param("2026-11-20 08:40", marks=pytest.mark.soak), "2026-11-20T09:40:00+01:00"]
)
def test_a_time_of_a_log_is_gone_to(tab: Tab, said: str) -> None:
    page = tab.show("/run/run-1/berlin/train.log")
    go_to(page, said)
    expect(page.locator(".row", has_text="berlin is at 2400")).to_be_in_viewport()


@pytest.mark.parametrize("order", ["time", pytest.param("arrival", marks=pytest.mark.soak)])
def test_a_time_behind_all_lines_is_the_end(tab: Tab, order: str) -> None:
    page = tab.show(f"/run/run-1?merged={order}")
    go_to(page, "2031-01-01 00:00")
    expect(page.locator(".row", has_text=f"kyoto is at {LINES - 1}")).to_be_in_viewport()
    expect(page.locator(".told")).to_have_text("No line is of 2031-01-01 00:00:00 UTC or later.")


def test_a_time_of_merged_logs_is_gone_to(tab: Tab) -> None:
    page = tab.show("/run/run-1?merged=time")
    go_to(page, "08:40:00")
    for site in ("berlin", "kyoto"):
        expect(page.locator(".row", has_text=f"{site} is at 2400")).to_be_in_viewport()


def test_an_address_that_names_a_time_shows_it(tab: Tab) -> None:
    when = BEGIN + timedelta(seconds=1234)
    page = tab.show(f"/run/run-1?merged=time&time={round(when.timestamp() * 1000)}")
    expect(page.locator(".row", has_text="berlin is at 1234")).to_be_in_viewport()
