"""The page by keys alone, for low vision, and on narrow screens; judged by axe in both themes."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from integration.harness.places import Place
from integration.web.browsing import Tab, Web, filled, held, numbered, tab_of
from integration.web.conftest import LOGS

BERLIN = "/run/run-1/berlin/train.log"
SIDE = "/run/run-1?side=berlin/train.log&side=kyoto/rank-1.log"
PAGES = ("/", "/run/run-1", BERLIN, "/run/run-1/kyoto/colours.log", "/run/run-1?merged=time", SIDE)


def test_lines_are_gone_through_and_marked_and_a_screen_reader_is_told(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("g")
    expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()
    for key in ("j", "j", "j", "k"):
        page.keyboard.press(key)
    current = page.locator('[aria-current="true"]')
    expect(current).to_contain_text("000001 step")
    expect(page.get_by_role("status").filter(has_text="000001 step")).to_be_visible()
    page.keyboard.press("Shift+J")
    page.keyboard.press("Shift+ArrowDown")
    expect(page.locator(".row.marked")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.locator(".row.marked")).to_have_count(0)
    expect(page).to_have_url(tab.web.url(BERLIN))


def test_screens_are_gone_through(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("g")
    expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()
    page.keyboard.press("Space")
    expect(page.locator(".row", has_text="000000 step")).not_to_be_in_viewport()
    page.keyboard.press("PageUp")
    expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()


def test_the_card_of_keys_opens_and_closes(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("?")
    card = page.get_by_role("dialog", name="Keys")
    expect(card).to_contain_text("first error of all sites")
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)


def test_a_key_right_behind_the_one_that_closes_a_card_is_heard(tab: Tab) -> None:
    """The focus stays in the card's field until the browser redraws: a moment, and longer on a loaded machine."""
    page = tab.show(BERLIN)
    page.keyboard.press(":")
    expect(page.locator("dialog input")).to_be_focused()
    page.evaluate("""() => {
        document.querySelector("dialog").close();
        const key = new KeyboardEvent("keydown", { key: "?", bubbles: true, cancelable: true });
        document.activeElement.dispatchEvent(key);
    }""")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    expect(page.locator("dialog")).to_have_count(1)


def test_the_next_error_is_gone_to_and_none_below_it_is_said(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("g")
    expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()
    page.keyboard.press("e")
    expect(page.locator('[aria-current="true"]')).to_contain_text("cannot write the checkpoint")
    page.keyboard.press("G")
    expect(page.locator(".row", has_text="003199 step")).to_be_in_viewport()
    page.keyboard.press("e")
    expect(page.get_by_role("status").filter(has_text="no error below this place")).to_be_visible()


@pytest.mark.soak
@pytest.mark.parametrize("opened", [False, True])
def test_the_next_error_is_not_in_the_traceback_where_one_is(browser: Browser, place: Place, opened: bool) -> None:
    deep = b"".join(b'  File "train.py", line %d, in step\n    step()\n' % n for n in range(30))
    traceback = b"Traceback (most recent call last):\n" + deep + b"ValueError: loss is nan\n"
    data = numbered(50) + traceback + numbered(3000, 50) + traceback + numbered(50, 3050)
    receiver = filled(place, {"site-1/app.log": data})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/site-1/app.log")
        page.keyboard.press("g")
        expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()
        begins = [data.index(traceback), data.rindex(traceback)]
        for begin in begins:
            page.keyboard.press("e")
            expect(page).to_have_url(re.compile(f"#bytes={begin}-"))
            expect(page.locator(f'[aria-current="true"][data-offset="{begin}"]')).to_contain_text("Traceback")
            if opened and begin == begins[0]:
                page.locator(".row", has_text="line 3, in step").click()
        page.keyboard.press("e")
        expect(page.get_by_role("status").filter(has_text="no error below this place")).to_be_visible()
        tab.is_clean()


def test_times_are_shown_and_hidden(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("t")
    expect(page.locator("log-page")).to_have_class("times")
    page.keyboard.press("t")
    expect(page.locator("log-page")).to_have_class("")


def test_everything_is_reached_by_tab(tab: Tab) -> None:
    page = tab.show(BERLIN)
    reached = []
    for _ in range(20):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.getAttribute('aria-label') || document.activeElement.textContent")
        )
    assert {"To the content", "run-1", "Log out", "Search", "Level", "Go to", "Link", "Download", "Keys"} <= set(
        reached
    )
    assert "Lines of berlin/train.log" in reached


def test_axe_finds_nothing(browser: Browser, stored: tuple[Place, Web]) -> None:
    axe = Axe()

    def judged(page: Page, what: str) -> None:
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            found = axe.run(page).response["violations"]
            assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found] == [], (what, theme)

    with tab_of(browser, stored[1]) as tab:
        for path in PAGES:
            page = tab.open(path)
            expect(page.locator("log-list .row, .body .line").first).to_be_visible()
            if path == BERLIN:
                page.keyboard.press("/")
                page.keyboard.press("Shift+Tab")
                page.keyboard.press("j")
            if path == "/run/run-1":
                page.locator("run-machines").get_by_text("Machines").click()
                expect(page.locator("run-machines table").first).to_be_visible()
                page.get_by_text("Legend").click()
                for site in ("berlin", "kyoto"):
                    page.get_by_label(f"Choose {site}", exact=True).check()
                expect(page.get_by_role("link", name="Side by side")).to_be_visible()
            if path == SIDE:
                expect(page.locator("log-list .row", has_text="of rank 1").first).to_be_visible()
                page.keyboard.press("/")
                page.keyboard.type("00")
                page.keyboard.press("Enter")
                expect(page.locator(".hits a").first).to_be_visible()
            judged(page, path)
        page = tab.show(BERLIN)
        for key in ("?", ":", "c"):
            page.keyboard.press(key)
            expect(page.get_by_role("dialog")).to_be_visible()
            judged(page, key)
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
        page.goto(tab.web.url(f"{BERLIN}#find=0012&only=1"))
        expect(page.locator(".hits a").first).to_be_visible()
        judged(page, "only hits")
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(stored[1].url("/"))
        expect(page.get_by_role("button", name="Log in")).to_be_visible()
        judged(page, "the login")


@pytest.mark.soak
def test_at_two_hundred_percent_and_on_a_phone_nothing_is_wider_than_the_screen(
    browser: Browser, stored: tuple[Place, Web]
) -> None:
    sizes = ({"width": 640, "height": 400}, {"width": 390, "height": 780}, {"width": 320, "height": 640})
    for size in sizes:
        with tab_of(browser, stored[1], viewport=size, device_scale_factor=2) as tab:
            for path in PAGES:
                page = tab.open(path)
                expect(page.locator("log-list .row, .body .line").first).to_be_visible()
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (size, path)
                tools = page.locator(".tools > *").all()
                ends = [box["x"] + box["width"] for tool in tools if (box := tool.bounding_box()) is not None]
                assert max(ends, default=0) <= size["width"], (size, path)  # a tool that is scrolled away is not found
            tab.is_clean()


def test_without_motion_nothing_moves_by_itself(browser: Browser, stored: tuple[Place, Web]) -> None:
    with tab_of(browser, stored[1], reduced_motion="reduce") as tab:
        for path in PAGES:
            page = tab.open(path)
            expect(page.locator("log-list .row, .body .line").first).to_be_visible()
            assert page.evaluate("document.getAnimations().length") == 0


def test_a_phone_s_finger_scrolls_and_the_end_is_one_touch_away(browser: Browser, stored: tuple[Place, Web]) -> None:
    phone = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
    with tab_of(browser, stored[1], **phone) as tab:
        page = tab.show(f"{BERLIN}#bytes=0-12")
        box = page.locator("mini-map").bounding_box()
        assert box is not None
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] - 2)
        expect(page.locator(".row", has_text="003199 step")).to_be_in_viewport()
        tab.is_clean()


def test_rows_are_the_log_s(tab: Tab) -> None:
    page = tab.show("/run/run-1/kyoto/rank-1.log")
    wanted = LOGS["kyoto/rank-1.log"].decode().splitlines()
    assert [text for text in held(page) if "of rank" in text] == wanted


@pytest.mark.parametrize("late", [False, True], ids=["", "whose-rows-come-later"])
def test_at_four_hundred_percent_rows_and_hits_are_on_the_screen(
    browser: Browser, stored: tuple[Place, Web], late: bool
) -> None:
    size = {"width": 320, "height": 256}
    with tab_of(browser, stored[1], viewport=size, device_scale_factor=4) as tab:
        page = tab.show(BERLIN)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        asked: list[Route] = []
        if late:
            page.route("**/api/window", lambda route: route.continue_() if asked else asked.append(route))
        page.keyboard.press("g")
        page.keyboard.press("/")
        page.keyboard.type("000012")
        page.keyboard.press("Enter")
        row = page.locator('[aria-current="true"]')
        expect(row).to_contain_text("000012")
        expect(row).to_be_in_viewport(ratio=1)
        assert page.locator("log-list").evaluate("(list) => list.clientHeight") >= 160
        tab.is_clean()


def test_enter_opens_a_traceback_and_presses_a_button(tab: Tab) -> None:
    page = tab.show(f"{BERLIN}#bytes=2400-2450")
    expect(page.locator(".row.marked")).to_have_count(1)
    page.keyboard.press("k")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator('[aria-current="true"]')).to_contain_text("Traceback")
    inner = page.locator(".row", has_text="line 88, in save")
    expect(inner).to_have_count(0)
    page.keyboard.press("Enter")
    expect(inner).to_be_visible()
    page.keyboard.press("Enter")
    expect(inner).to_have_count(0)
    page.get_by_role("button", name="Keys").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("In the timeline")
