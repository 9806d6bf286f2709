"""Search in Chromium: hits of a log and of a run, one after the other, and patterns that never end."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from integration.web.browsing import Tab, comes_true

BERLIN = "/run/run-1/berlin/train.log"


def test_hits_are_gone_through_and_marked(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("/")
    page.keyboard.type("0012")
    page.keyboard.press("Enter")
    expect(page.locator(".found")).to_contain_text("Hit")
    expect(page.locator('[aria-current="true"]')).to_contain_text("0012")
    page.locator("log-list").focus()
    texts = []
    for _ in range(3):
        before = page.locator('[aria-current="true"]').get_attribute("data-offset")
        page.keyboard.press("n")
        expect(page.locator('[aria-current="true"]')).not_to_have_attribute("data-offset", before or "")
        texts.append(page.locator('[aria-current="true"] .text').inner_text())
    assert all("0012" in text for text in texts)
    assert len(set(texts)) == 3
    page.keyboard.press("N")
    expect(page.locator('[aria-current="true"] .text')).to_have_text(texts[-2])
    comes_true(page, 'CSS.highlights.get("hit")?.size > 0')
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(page.locator("search-bar")).to_be_hidden()


def test_a_pattern_is_looked_for_in_the_whole_run_and_a_hit_is_shown_in_context(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("/")
    page.get_by_label("regex").check()
    page.get_by_label("Where to search").select_option("run")
    page.get_by_label("Search", exact=True).fill(r"00000\d of rank \d")
    page.keyboard.press("Enter")
    hits = page.get_by_role("list", name="Lines found").get_by_role("link")
    expect(hits).to_have_count(10)
    hits.nth(3).click()
    expect(page).to_have_url(re.compile("/kyoto/rank-1.log#bytes="))
    expect(page.locator(".row.marked")).to_contain_text("000003 of rank 1")
    expect(page.locator(".row", has_text="000004 of rank 1")).to_be_visible()
    page.keyboard.press("n")
    expect(page.locator('[aria-current="true"]')).to_contain_text("000004 of rank 1")


def test_a_pattern_without_an_end_is_ended_and_hurts_nobody_else(tab: Tab) -> None:
    page = tab.show("/run/run-1/lyon/long.log")
    page.keyboard.press("/")
    page.get_by_label("regex").check()
    page.get_by_label("Search", exact=True).fill(r"(?=long)((long )+)+\d")
    page.keyboard.press("Enter")
    expect(page.locator(".found")).to_contain_text("took more than 2 s")
    page.locator("log-list").focus()
    page.keyboard.press("g")
    expect(page.locator(".row", has_text="short")).to_be_in_viewport()


def test_what_is_no_pattern_is_said(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("/")
    page.get_by_label("regex").check()
    page.get_by_label("Search", exact=True).fill("(")
    page.keyboard.press("Enter")
    expect(page.locator(".found")).to_contain_text("Invalid regular expression")
