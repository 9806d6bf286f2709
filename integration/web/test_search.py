"""Search in Chromium: hits of a log and of a run in turn, and patterns that never end."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from integration.harness.places import LOG, RUN, SITE, Place, append
from integration.web.browsing import Tab, Web, comes_true, filled, numbered, tab_of
from integration.web.conftest import LOGS

BERLIN = "/run/run-1/berlin/train.log"


def test_hits_are_gone_through_and_marked(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("/")
    page.keyboard.type("0012")
    page.keyboard.press("Enter")
    expect(page.locator(".found")).to_contain_text("Hit")
    expect(page.locator('[aria-current="true"]')).to_contain_text("0012")
    texts = []
    for key in ("Enter", "n", "Enter"):
        before = page.locator('[aria-current="true"]').get_attribute("data-offset")
        page.keyboard.press(key)
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


@pytest.mark.soak
@pytest.mark.parametrize("regex", ["", r"needle(?=\d)"], ids=["text", "pattern that the browser judges"])
def test_what_stands_far_behind_the_begin_of_a_line_is_found(browser: Browser, place: Place, regex: str) -> None:
    log = numbered(50) + b"x" * 20_000 + b" needle7 in the hay\n" + numbered(50, 50)
    with tab_of(browser, Web(place, "--receiver", filled(place, {"kyoto/app.log": log}).address)) as tab:
        page = tab.show("/run/run-1/kyoto/app.log")
        page.keyboard.press("g")
        page.keyboard.press("/")
        page.get_by_label("regex").set_checked(bool(regex))
        page.get_by_label("Search", exact=True).fill(regex or "needle")
        page.keyboard.press("Enter")
        expect(page.locator(".found")).to_have_text("Hit 1 of 1")
        tab.is_clean()


def test_lines_that_are_too_long_to_be_searched_to_their_ends_are_told(browser: Browser, place: Place) -> None:
    log = b"BEGIN " + b"x" * 200_000 + b" END\n" + numbered(50)
    with tab_of(browser, Web(place, "--receiver", filled(place, {"kyoto/app.log": log}).address)) as tab:
        page = tab.show("/run/run-1/kyoto/app.log")
        page.keyboard.press("/")
        for text, found in [(" END", "0 lines"), ("BEGIN", "Hit 1 of 1"), ("x END", "0 lines")]:
            page.get_by_label("Search", exact=True).fill(text)
            page.keyboard.press("Enter")
            part = "; 1 line is longer than 65,536 characters: only that part was searched" if "END" in text else ""
            expect(page.locator(".found")).to_have_text(found + part)
        tab.is_clean()


@pytest.mark.soak
def test_a_pattern_is_looked_for_until_there_is_a_line_that_matches(browser: Browser, place: Place) -> None:
    log = numbered(5000, text="line of many")
    with tab_of(browser, Web(place, "--receiver", filled(place, {"kyoto/app.log": log}).address)) as tab:
        page = tab.show("/run/run-1/kyoto/app.log")
        page.keyboard.press("g")
        expect(page.locator(".row", has_text="000000 line")).to_be_in_viewport()
        page.keyboard.press("/")
        page.get_by_label("regex").check()
        page.get_by_label("Search", exact=True).fill(r"00(3100|4200) (?=line of)")  # each line contains the text
        page.keyboard.press("Enter")
        marked = page.locator('[aria-current="true"] .text')
        expect(marked).to_have_text("003100 line of many")
        page.keyboard.press("n")
        expect(marked).to_have_text("004200 line of many")
        expect(page.locator(".found")).to_have_text("Hit 2 of 2")
        tab.is_clean()


def test_hits_far_above_are_found_and_their_absence_is_certain(browser: Browser, place: Place) -> None:
    log = numbered(5000, text="line of many")
    with tab_of(browser, Web(place, "--receiver", filled(place, {"kyoto/app.log": log}).address)) as tab:
        page = tab.show("/run/run-1/kyoto/app.log")
        found, marked = page.locator(".found"), page.locator('[aria-current="true"] .text')
        expect(page.locator(".row", has_text="004999 line")).to_be_in_viewport()
        page.keyboard.press("/")
        page.get_by_label("regex").check()
        field = page.get_by_label("Search", exact=True)
        field.fill(r"[a-z]\d+ line of(?= m)")  # each line contains the text
        page.keyboard.press("Enter")
        expect(found).to_have_text("0 lines")
        field.fill(r"(?<!\d)(?!\d*[1-9]\d)\d+[12] line of(?= m)")
        page.keyboard.press("Enter")
        expect(marked).to_have_text("000001 line of many")
        for key, line in (("N", "000002"), ("N", "000001"), ("n", "000002"), ("n", "000001")):
            page.keyboard.press(key)
            expect(marked).to_have_text(f"{line} line of many")
            expect(found).to_have_text(re.compile("^(Hit|One) .*of "))
        tab.is_clean()


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


def search(page: Page, text: str) -> None:
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_a_search_begins_where_one_reads_and_goes_on_both_ways_past_1000_hits(tab: Tab) -> None:
    page = tab.show(BERLIN)
    found, marked = page.locator(".found"), page.locator('[aria-current="true"] .text')
    page.keyboard.press("g")
    expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()
    search(page, "step")
    expect(marked).to_have_text("000000 step")
    expect(found).to_have_text("Hit 1 of 3,200")
    page.keyboard.press("n")
    expect(marked).to_have_text("000001 step")
    page.keyboard.press("N")
    expect(marked).to_have_text("000000 step")
    page.keyboard.press("N")
    expect(marked).to_have_text("003199 step")
    expect(found).to_have_text("Hit 3,200 of 3,200")
    page.keyboard.press("n")
    expect(marked).to_have_text("000000 step")
    page.keyboard.press("Escape")
    page.keyboard.press(":")
    page.keyboard.type(f"@{12 * 1000 + len(LOGS['berlin/train.log']) - 12 * 3200}")
    page.keyboard.press("Enter")
    expect(page.locator(".row", has_text="001000 step")).to_be_in_viewport()
    search(page, "step")
    expect(marked).to_have_text("001000 step")
    page.keyboard.press("N")
    expect(marked).to_have_text("000999 step")
    page.keyboard.press("G")
    expect(page.locator(".row", has_text="003199 step")).to_be_in_viewport()
    page.keyboard.press("N")
    expect(found).to_contain_text("of 3,200")
    expect(marked).to_contain_text(re.compile("00319[89] step|0031[56]"))


@pytest.mark.soak
def test_enter_leaves_the_field_and_a_slash_leads_back_to_it(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("g")
    expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()
    search(page, "00121")
    field, marked = page.get_by_label("Search", exact=True), page.locator('[aria-current="true"] .text')
    for key, line in (("", "000121"), ("n", "001210"), ("n", "001211"), ("N", "001210")):
        if key:
            page.keyboard.press(key)
        expect(marked).to_have_text(f"{line} step")
    expect(page.locator(".found")).to_have_text("Hit 2 of 11")
    expect(field).to_have_value("00121")
    page.keyboard.press("/")
    page.keyboard.type("00200")
    expect(field).to_have_value("00200")
    page.keyboard.press("Enter")
    expect(marked).to_have_text("002000 step")


def pressed(page: Page, keys: str) -> None:
    """Press all keys at once, faster than the page can show hits."""
    page.evaluate(
        "(keys) => [...keys].forEach((key) => document.dispatchEvent(new KeyboardEvent('keydown', { key })))", keys
    )


@pytest.mark.soak
def test_each_press_counts_however_fast_they_come(tab: Tab) -> None:
    page = tab.show(BERLIN)
    marked = page.locator('[aria-current="true"] .text')
    page.keyboard.press("g")
    expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()
    search(page, "step")
    expect(marked).to_have_text("000000 step")
    pressed(page, "n" * 1010)
    expect(marked).to_have_text("001010 step")
    pressed(page, "N" * 30 + "nn")
    expect(marked).to_have_text("000982 step")
    for _ in range(40):
        page.keyboard.press("n")
    expect(marked).to_have_text("001022 step")


def test_more_hits_than_a_page_holds_are_reached_both_ways(browser: Browser, place: Place) -> None:
    log = numbered(25_000)
    with tab_of(browser, Web(place, "--receiver", filled(place, {"kyoto/app.log": log}).address)) as tab:
        page = tab.show("/run/run-1/kyoto/app.log")
        found, marked = page.locator(".found"), page.locator('[aria-current="true"] .text')
        page.keyboard.press("g")
        expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()
        search(page, "step")
        expect(found).to_have_text("Hit 1 of 25,000")
        pressed(page, "n" * 10_005)
        expect(marked).to_have_text("010005 step")
        expect(found).to_have_text("Hit 10,006 of 25,000")
        pressed(page, "N" * 10_006)
        expect(marked).to_have_text("024999 step")
        expect(found).to_have_text("One of 25,000 hits")
        pressed(page, "N" * 1500 + "n" * 1501)
        expect(marked).to_have_text("000000 step")
        tab.is_clean()


def timed(site: str, seconds: range) -> bytes:
    lines = (
        f"2026-11-20 08:{n // 60:02}:{n % 60:02} INFO {site} {'needle' if n % 5 == 0 else 'other'} {n}\n"
        for n in seconds
    )
    return "".join(lines).encode()


def test_a_search_from_the_page_of_a_run_lists_its_hits_by_time(browser: Browser, place: Place) -> None:
    logs = {f"{site}/app.log": timed(site, range(n, 300, 2 + n)) for n, site in enumerate("abc")}
    times = sorted((n, site) for k, site in enumerate("abc") for n in range(k, 300, 2 + k) if n % 5 == 0)
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        page = tab.open("/run/run-1")
        expect(page.locator("main select").first).to_be_visible()  # the filter of the sites, and not the search's
        found, marked = page.locator(".found"), page.locator('[aria-current="true"] .text')
        expect(page.locator(".body .line").first).to_be_visible()
        search(page, "needle")
        expect(found).to_have_text(f"{len(times)} lines")
        expect(page.locator(".hits .what")).to_contain_text([f"{site} needle {n}" for n, site in times])
        for n, site in times[:6]:
            page.keyboard.press("n")
            expect(page).to_have_url(re.compile(f"/{site}/app.log#bytes=.*&find=needle&in=time$"))
            expect(marked).to_contain_text(f"{site} needle {n}")
            expect(found).to_have_text(f"Hit {times.index((n, site)) + 1} of {len(times)}")
        page.keyboard.press("N")
        expect(marked).to_contain_text("{1} needle {0}".format(*times[4]))
        page.get_by_label("only hits").check()
        expect(page.locator("log-list")).to_be_hidden()
        page.locator(".found").click()
        page.keyboard.press("n")
        expect(page.locator(".hits .here")).to_contain_text("{1} needle {0}".format(*times[5]))
        address = page.url
        page.goto("about:blank")
        page.goto(address)
        expect(page.locator("log-list")).to_be_hidden()
        expect(page.locator(".hits .what")).to_have_count(len(times))
        page.locator(".hits a").nth(2).click()
        expect(marked).to_contain_text("{1} needle {0}".format(*times[2]))
        expect(page.locator(".row", has_text="other").first).to_be_visible()
        tab.is_clean()


def test_on_a_phone_the_hits_of_a_run_come_into_view(browser: Browser, place: Place) -> None:
    errors = b"".join(b"2026-11-20 08:00:%02d ERROR lost the server\n" % n for n in range(10))
    logs = {f"site-{n}/app.log": numbered(20) + errors for n in range(12)}
    size = {"width": 390, "height": 780}
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address), viewport=size) as tab:
        page = tab.open("/run/run-1")
        expect(page.locator(".sites .body .line").first).to_be_visible()
        search(page, "000003")
        expect(page.locator(".hits a").first).to_be_in_viewport()
        expect(page.get_by_role("searchbox", name="Search")).to_be_in_viewport()
        tab.is_clean()


def test_a_search_of_the_run_walks_the_log_on_the_page_and_then_the_others(browser: Browser, place: Place) -> None:
    logs = {f"s{n}/app.log": timed(f"s{n}", range(1500)) * 8 for n in range(3)}
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        page = tab.show("/run/run-1/s1/app.log")
        found, marked = page.locator(".found"), page.locator('[aria-current="true"] .text')
        page.keyboard.press("g")
        expect(page.locator(".row", has_text="needle 0").first).to_be_in_viewport()
        page.keyboard.press("/")
        page.get_by_label("Where to search").select_option("run")
        page.get_by_label("Search", exact=True).fill("needle")
        page.keyboard.press("Enter")
        expect(found).to_have_text("Hit 1 of 2,400 in this log, 7,200 in the run")
        pressed(page, "n" * 2399)
        expect(found).to_have_text("Hit 2,400 of 2,400 in this log, 7,200 in the run")
        page.keyboard.press("n")
        expect(page).to_have_url(re.compile("/s2/app.log"))
        expect(marked).to_contain_text("s2 needle 0")
        tab.is_clean()


@pytest.mark.soak
def test_hits_that_came_after_the_search_are_found(browser: Browser, place: Place) -> None:
    receiver = place.serve()
    append(place.log, numbered(50))
    place.sidecar(receiver)
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show(f"/run/{RUN}/{SITE}/{LOG}")
        found, marked = page.locator(".found"), page.locator('[aria-current="true"] .text')
        page.keyboard.press("g")
        expect(page.locator(".row", has_text="000000 step")).to_be_in_viewport()
        search(page, "0000")
        expect(found).to_have_text("Hit 1 of 50")
        pressed(page, "n" * 49)
        expect(marked).to_have_text("000049 step")
        append(place.log, b"000049 again\n" + numbered(50, 50))
        expect(page.locator(".row", has_text="again")).to_be_attached()
        page.wait_for_timeout(2000)
        page.keyboard.press("n")
        expect(marked).to_have_text("000049 again")
        expect(found).to_have_text("Hit 51 of 101")
        page.get_by_label("only hits").check()
        append(place.log, b"000099 later\n")
        expect(page.locator(".hits .what").last).to_have_text("000099 later")
        expect(found).to_have_text("Hit 51 of 102")
        tab.is_clean()


def test_nothing_but_hits_follows_the_end_of_the_log(browser: Browser, place: Place) -> None:
    receiver = place.serve()
    append(place.log, numbered(450))
    place.sidecar(receiver)
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.open(f"/run/{RUN}/{SITE}/{LOG}#find=step&only=1")
        hits, follow = page.locator(".hits .what"), page.get_by_title("Keep the end on the screen (f)")
        expect(page.locator(".found")).to_have_text("Hit 1 of 450")
        expect(hits.first).to_have_text("000000 step")
        expect(follow).to_have_text("Follow")
        page.keyboard.press("f")
        expect(follow).to_have_text("Following")
        expect(hits.last).to_have_text("000449 step")
        expect(hits.last).to_be_in_viewport()
        append(place.log, numbered(60, 450))
        expect(hits.last).to_have_text("000509 step")
        expect(hits.last).to_be_in_viewport()
        expect(page.locator("footer .where")).to_be_empty()
        page.get_by_role("button", name="List 200 earlier").click()
        expect(hits.first).to_have_text("000110 step")
        page.keyboard.press("g")
        expect(hits.first).to_have_text("000000 step")
        expect(hits.first).to_be_in_viewport()
        expect(follow).to_have_text("Follow")
        page.keyboard.press("G")
        expect(hits.last).to_have_text("000509 step")
        expect(hits.last).to_be_in_viewport()
        page.keyboard.press("n")
        expect(page.locator(".hits .here")).to_have_text(re.compile("000001 step"))
        tab.is_clean()


def levelled(site: str) -> bytes:
    lines = (f"2026-11-20 08:00:{n:02} {'ERROR' if n % 10 == 5 else 'INFO'} {site} needle {n:02}\n" for n in range(40))
    return "".join(lines).encode() + numbered(400)


@pytest.mark.soak
def test_the_hits_are_those_that_the_level_shows(browser: Browser, place: Place) -> None:
    web = Web(place, "--receiver", filled(place, {"a/log.txt": levelled("a")}).address)
    with tab_of(browser, web) as tab:
        page = tab.show("/run/run-1/a/log.txt")
        level, marked = page.get_by_label("Level"), page.locator('[aria-current="true"] .text')
        level.select_option("error")
        expect(page.locator("log-list .row:not(.note)")).to_have_count(4)
        page.keyboard.press("g")
        search(page, "needle")
        for n, at in enumerate((5, 15, 25, 35, 5)):
            if n:
                page.keyboard.press("n")
            expect(marked).to_have_text(re.compile(f"needle {at:02}$"))
        expect(page.locator(".found")).to_have_text("Hit 1 of 4")
        page.keyboard.press("N")
        expect(marked).to_have_text(re.compile("needle 35$"))
        page.get_by_label("Level").select_option("")
        expect(page.locator(".found")).to_have_text(re.compile("of 40$|^40 lines"))
        expect(marked).to_have_text(re.compile("needle 35$"))
        page.keyboard.press("n")
        expect(marked).to_have_text(re.compile("needle 36$"))
        page.get_by_label("Level").select_option("error")
        expect(page.locator(".found")).to_have_text(re.compile("of 4$|^4 lines"))
        expect(marked).to_have_text(re.compile("needle 35$"))  # the hit above the shown one
        page.keyboard.press("n")
        expect(marked).to_have_text(re.compile("needle 05$"))
        tab.is_clean()


@pytest.mark.soak
def test_the_hits_of_a_search_over_several_logs_lead_from_log_to_log(browser: Browser, place: Place) -> None:
    logs = {f"{site}/log.txt": b"needle 1\nother\nneedle 2\n" for site in "abc"} | {"d/log.txt": b"nothing\n"}
    web = Web(place, "--receiver", filled(place, logs).address)
    with tab_of(browser, web) as tab:
        for path in ("/run/run-1?merged=time", "/run/run-1/a/log.txt"):
            page = tab.show(path)
            page.keyboard.press("/")
            page.get_by_label("Where to search").select_option("run")
            page.get_by_label("Search", exact=True).fill("needle")
            page.keyboard.press("Enter")
            expect(page.locator(".found")).to_have_text(re.compile("6 lines|in the run"))
            marked = page.locator('[aria-current="true"] .text')
            wanted = [(site, n) for site in "abca" for n in (1, 2)]
            if "merged" not in path:
                expect(marked).to_have_text("needle 1")
                page.keyboard.press("N")
                expect(page).to_have_url(re.compile("/c/log.txt"))
            for site, n in wanted:
                page.keyboard.press("n")
                expect(page).to_have_url(re.compile(f"/{site}/log.txt"))
                expect(marked).to_have_text(f"needle {n}")
                expect(page.locator(".found")).to_have_text(f"Hit {n} of 2 in this log, 6 in the run")
            page.keyboard.press("N")
            expect(marked).to_have_text("needle 1")
        tab.is_clean()
