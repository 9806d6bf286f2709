"""What a visitor chooses, in Chromium: the zone and the theme, the logs of one page, and a range of time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, expect

from integration.harness.places import new_place
from integration.web.browsing import Web, filled, tab_of

BEGIN = datetime(2026, 11, 20, 8, tzinfo=UTC)


def timed(name: str, count: int, step: float) -> bytes:
    """Lines of *name*, *step* seconds apart; each hundredth is an error."""
    return b"".join(
        b"%s %s %s %d\n"
        % (
            f"{BEGIN + timedelta(seconds=number * step):%Y-%m-%d %H:%M:%S.%f}".encode(),
            b"INFO" if (number + 1) % 100 else b"ERROR",
            name.encode(),
            number,
        )
        for number in range(count)
    )


@pytest.fixture(scope="module")
def timed_logs(browser: Browser) -> Iterator[Web]:
    """The logs of an hour, with a line each second, each two seconds and each four."""
    logs = {
        "berlin/rank-0.log": timed("r0", 3600, 1),
        "berlin/rank-1.log": timed("r1", 1800, 2),
        "kyoto/app.log": timed("k", 900, 4),
    }
    with new_place() as place:
        yield Web(place, "--receiver", filled(place, logs).address)


def test_zone_theme_and_level_are_in_the_address_and_all_times_follow_the_zone(
    browser: Browser, timed_logs: Web
) -> None:
    with tab_of(browser, timed_logs, color_scheme="light", timezone_id="Asia/Kolkata") as tab:
        page = tab.show("/run/run-1/kyoto/app.log")
        page.keyboard.press("t")
        page.get_by_label("Level").select_option("error")
        last = page.locator(".row", has_text="ERROR k 899")
        expect(last.locator(".time")).to_have_text("08:59:56.000")
        page.get_by_role("button", name="Times: UTC").click()
        expect(last.locator(".time")).to_have_text("14:29:56.000")
        page.get_by_role("button", name="Colours: as the system").click()
        page.get_by_role("button", name="Colours: light").click()
        expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"
        shared = page.url
        tab.is_clean()
    assert set(shared.partition("#")[2].split("&")) == {"level=error", "theme=dark", "times=on", "zone=local"}
    with tab_of(browser, timed_logs, timezone_id="Asia/Kolkata") as tab:
        page = tab.show(shared.removeprefix(timed_logs.url("")))
        expect(page.locator(".row", has_text="ERROR k 899").locator(".time")).to_have_text("14:29:56.000")
        expect(page.locator(".row", has_text=re.compile("INFO"))).to_have_count(0)
        page.keyboard.press(":")
        expect(page.get_by_text("or a time in UTC+5:30.")).to_be_visible()
        page.get_by_role("textbox", name="Place").fill("14:00:00")
        page.keyboard.press("Enter")
        expect(page.locator('.row[aria-current="true"]')).to_contain_text("08:33:16")  # the next error
        tab.is_clean()
