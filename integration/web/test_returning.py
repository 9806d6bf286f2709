"""The page of a run leads to each log, and is as it was left when a visitor returns to it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from integration.web.browsing import Tab


def test_the_page_of_a_run_is_as_it_was_left(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    expect(page.get_by_text("First error of all sites")).to_be_visible()
    page.get_by_role("button", name="2 logs").click()
    logs = page.locator(".line.log")
    expect(logs).to_have_count(2)
    names = page.locator(".sites .body .line > .name")
    before = names.all_inner_texts()
    page.keyboard.press("/")
    page.keyboard.type("step")
    page.keyboard.press("Enter")
    expect(page.locator("search-bar")).to_be_visible()
    page.locator(".sites a", has_text="colours.log").click()
    expect(page.locator("log-list .row").first).to_be_visible()
    page.go_back()
    expect(page.locator("search-bar")).to_be_visible()  # its address has the search
    expect(logs).to_have_count(2)
    expect(page.locator(".first details[open]")).to_be_visible()
    assert names.all_inner_texts() == before
    page.locator(".sites a", has_text="colours.log").click()
    expect(page.locator("log-list .row").first).to_be_visible()
    page.get_by_role("link", name="run-1").click()
    expect(logs).to_have_count(2)
    expect(page.locator("search-bar")).to_be_hidden()
    tab.is_clean()


def test_last_lines_lead_to_their_logs_and_a_small_e_to_the_first_error(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    lyon = page.locator(".sites .body .line", has=page.get_by_role("link", name="lyon", exact=True))
    last = lyon.locator(".lines a")
    expect(last).to_contain_text("000099 step")
    last.click()
    expect(page).to_have_url(re.compile("/run/run-1/lyon/long.log"))
    page.go_back()
    page.get_by_role("button", name="Keys").click()
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Show it (e)")).to_be_visible()
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("/run/run-1/berlin/train.log#bytes="))
    tab.is_clean()


def test_the_last_line_of_the_first_error_is_on_a_low_screen(tab: Tab) -> None:
    page = tab.page
    page.set_viewport_size({"width": 300, "height": 420})
    tab.show("/run/run-1/berlin/train.log")
    page.keyboard.press("Shift+E")
    expect(page.locator(".row.marked", has_text="OSError: [Errno 28]")).to_be_in_viewport(ratio=1)
    tab.is_clean()
