"""The curves of metrics on the page of a run, in Chromium."""

from __future__ import annotations

import math
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Route, expect

from integration.harness.places import new_place
from integration.web.browsing import Web, filled, tab_of


def lines(rank: int, form: str, nan: int = 1000) -> bytes:
    values = [math.nan if n >= nan else 2 / (n + 1) + rank for n in range(100)]
    return "".join(form.format(n, one) for n, one in enumerate(values)).encode()


LOGS = {
    "berlin/train.log": lines(0, "step {0} loss={1:.3f} accuracy=0.{0:02d}\n"),
    "kyoto/rank-0.log": lines(0, '{{"step": {0}, "loss": {1:.3f}}}\n'),
    "kyoto/rank-1.log": lines(1, '{{"step": {0}, "loss": {1:.3f}}}\n', 50),
    "oslo/log.txt": b"hello\n" * 10,
}


@pytest.mark.parametrize(("width", "theme"), [(1400, "light"), (390, "dark")])
def test_each_site_shows_the_curve_that_the_visitor_chose_and_nothing_moves(
    browser: Browser, width: int, theme: Literal["light", "dark"]
) -> None:
    with new_place() as place:
        web = Web(place, "--receiver", filled(place, LOGS).address)
        with tab_of(browser, web, viewport={"width": width, "height": 900}, color_scheme=theme) as tab:
            held: list[Route] = []
            tab.page.route("**/api/curves**", lambda route: held.append(route))
            page = tab.open("/run/run-1")
            row = page.locator(".sites .body .line")
            expect(row).to_have_count(3)
            expect(row.filter(has_text="berlin").locator(".tail")).to_contain_text("loss")
            expect(page.get_by_label("Curve")).to_be_disabled()
            parts = "[...document.querySelectorAll('.sites .line, .tools > *')]"
            tops = f"{parts}.map((one) => one.getBoundingClientRect().top)"
            page.wait_for_timeout(300)  # last lines and findings
            before = page.evaluate(tops)
            assert held
            held[0].continue_()
            page.unroute("**/api/curves**")
            curve = page.get_by_role("img", name="loss last 0.02, least 0.02, greatest 2", exact=True)
            expect(curve).to_be_visible()
            assert page.evaluate(tops) == before
            kyoto = row.filter(has_text="kyoto").locator(".curve")
            expect(kyoto).to_have_attribute(
                "aria-label", "rank-0.log: loss last 0.02, least 0.02, greatest 2\n"
                "rank-1.log: loss last nan, least 1.04, greatest 3, 50 of 100 values are not a number",
            )  # fmt: skip
            assert kyoto.locator(".odd").last.get_attribute("d").endswith("M64 0v6")  # type: ignore[union-attr]
            expect(row.filter(has_text="oslo").locator(".curve")).to_have_count(0)
            assert [one["id"] for one in Axe().run(page).response["violations"]] == []
            page.get_by_label("Curve").select_option("accuracy")
            expect(page.get_by_role("img", name="accuracy last 0.99")).to_be_visible()
            expect(page.locator(".curve")).to_have_count(1)
            page.goto(page.url)
            page.reload()
            expect(page.get_by_role("img", name="accuracy last 0.99")).to_be_visible()
            page.get_by_label("Curve").select_option("none")
            expect(page.locator(".curve")).to_have_count(0)
            tab.is_clean()
