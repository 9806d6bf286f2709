"""The timeline of a run explains itself: its zone, its forms, and times that differ from those of the arrival."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from integration.harness.places import Place
from integration.web.browsing import Tab, Web, comes_true, filled, tab_of

NOW = 1_795_420_800_000
DRAWN = """
    const text = CanvasRenderingContext2D.prototype.fillText;
    window.drawn = [];
    CanvasRenderingContext2D.prototype.fillText = function (...what) {
        window.drawn.push(what[0]);
        window.places = { ...window.places, [what[0]]: [what[1], what[1] + this.measureText(what[0]).width] };
        return text.apply(this, what);
    };
"""


def test_the_axis_names_its_zone_and_a_lane_the_times_of_late_lines(tab: Tab) -> None:
    tab.context.add_init_script(DRAWN)
    lane = {"density": [1], "states": [], "marks": [[NOW, "begun", "began", "a.log", 0]], "health": None}
    lanes = [
        {"site": "berlin", **lane, "late": [[NOW - 3_600_000, NOW - 1_800_000, 0, "sent 1 h late", 0]]},
        {
            "site": "kyoto",
            **lane,
            "late": [
                [NOW - 3_600_000, 0, 0, "sent 1 h late", 0],
                [NOW - 600_000, NOW + 20_000, NOW + 30_000, "sent 10 min late", 0],
            ],
        },
        {"site": "lyon", **lane},
    ]
    record = {"from": NOW, "to": NOW + 60_000, "lanes": lanes, "rounds": []}
    tab.page.route("**/api/lanes?*", lambda route: route.fulfill(json=record))
    page = tab.open("/run/run-1")
    image = page.get_by_role("img", name="Timeline from")
    expect(image).to_have_attribute(
        "aria-label",
        re.compile(
            r"berlin: lines of 07:00:00 to 07:30:00, sent 1 h late;"
            r" kyoto: lines of 07:00:00 on, sent 1 h late, lines of 07:50:00 to 08:00:20, sent 10 min late$"
        ),
    )
    comes_true(page, "window.drawn.includes('lines of 07:00:00 to 07:30:00, sent 1 h late')")
    assert "arrival, UTC" in page.evaluate("window.drawn")
    tab.is_clean()


def test_the_times_of_late_lines_hide_no_mark_of_their_lane(tab: Tab) -> None:
    tab.context.add_init_script(DRAWN)
    marks = [[NOW, "begun", "began", "a.log", 0], [NOW + 9_000, "gap", "5 bytes lost: gone", "a.log", 0]]
    lane: dict[str, object] = {"site": "berlin", "density": [0] * 60, "states": [], "marks": marks, "health": None}
    lane["late"] = [[NOW - 3_600_000, NOW - 1_800_000, 0, "sent 1 h late, 50 min later than other sites", 3_000_000]]
    lanes = [lane, {"site": "kyoto", "density": [9] * 60, "states": [], "marks": [], "health": None}]
    record = {"from": NOW, "to": NOW + 60_000, "lanes": lanes, "rounds": []}
    tab.page.route("**/api/lanes?*", lambda route: route.fulfill(json=record))
    page = tab.open("/run/run-1")
    comes_true(page, "window.drawn.some((text) => text.startsWith('lines of 07:00:00 to 07:30:00, sent 1 h late'))")
    low, high = page.evaluate("Object.entries(window.places).find(([text]) => text.startsWith('lines of'))[1]")
    gap = page.evaluate(f"document.querySelector('run-lanes').x({NOW + 9_000})")
    assert not low - 6 < gap < high + 6
    box = page.locator("run-lanes .scroll canvas").bounding_box()
    assert box is not None
    edge = page.evaluate(f"document.querySelector('run-lanes').x({NOW})")
    page.mouse.click(box["x"] + edge - 3, box["y"] + 40)  # the left half of the first mark
    page.wait_for_url("**merged=arrival**")
    tab.is_clean()


def test_the_legend_shows_a_form_beside_its_words_and_is_folded_at_first(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    first = page.locator(".legend li").first
    expect(first).to_be_hidden()
    page.get_by_text("Legend").click()
    expect(first).to_contain_text("bytes came")
    # A copy is read: Chromium warns of canvases that are read again and again.
    painted = """[...document.querySelectorAll(".legend canvas")].every((one) => {
        const copy = new OffscreenCanvas(one.width, one.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(one, 0, 0);
        return new Uint32Array(copy.getImageData(0, 0, one.width, one.height).data.buffer).some(Boolean);
    })"""
    comes_true(page, painted)
    tab.is_clean()


def test_the_timeline_opens_the_lines_that_arrived_at_that_place(browser: Browser, place: Place) -> None:
    logs = {f"{site}/app.log": b"2026-11-20 08:00:00 INFO of %s\n" % site.encode() * 20 for site in ("kyoto", "oslo")}
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        for keys, at, lines in ((("Home", "ArrowDown"), "time", 20), (("Home", "Shift+End"), "from", 40)):
            page = tab.open("/run/run-1")
            expect(page.get_by_role("img", name="Timeline from")).to_be_visible()
            page.get_by_role("application").focus()
            for key in (*keys, "Enter"):
                page.keyboard.press(key)
            expect(page).to_have_url(re.compile(f"merged=arrival&{at}="))
            expect(page.locator(".crumbs")).to_contain_text("by arrival")
            comes_true(
                page, f"document.querySelector('log-list').lines.rows.filter((row) => !(row[4] & 2)).length === {lines}"
            )
            expect(page.locator("log-list .row", has_text="of oslo").first).to_be_in_viewport()
            expect(page.locator(".status .told")).to_have_text("")
        tab.is_clean()
