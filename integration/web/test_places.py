"""Places of a log in Chromium: reading goes on both ways from each, and all drawn rows are the log's."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from integration.harness.places import PATIENCE, Place, Receiver, append, new_place
from integration.web.browsing import Lines, Web, filled, numbered, tab_of
from tests.often import each

LOG = Lines(numbered(20_000))
PATH = "/run/run-1/site-1/app.log"
SLOW = """
const asked = window.fetch;
window.fetch = async (...question) => {
    const answer = await asked(...question);
    if (String(question[0]).startsWith("/api/window")) await new Promise((done) => setTimeout(done, 120));
    return answer;
};
"""


@pytest.fixture(scope="module")
def web(request: pytest.FixtureRequest) -> Iterator[Web]:
    """A page over LOG: of a receiver, growing or ended; or of a store."""
    with new_place() as place:
        if request.param == "ended":
            yield Web(place, "--receiver", filled(place, {"site-1/app.log": LOG.data}).address)
            return
        receiver = place.serve()
        append(place.log, LOG.data)
        place.sidecar(receiver)
        receiver.gets(LOG.data)
        where = ("--store", str(receiver.store)) if request.param == "store" else ("--receiver", receiver.address)
        yield Web(place, *where)


def to(page: Page, place: str) -> None:
    page.keyboard.press(":")
    page.keyboard.type(place)
    page.keyboard.press("Enter")


def wheel(page: Page, down: int) -> None:
    page.mouse.move(400, 400)
    page.mouse.wheel(0, down * 700)


def keys(page: Page, down: int) -> None:
    page.keyboard.press("PageDown" if down > 0 else "PageUp")


def bar(page: Page, down: int) -> None:
    page.evaluate("(down) => { document.querySelector('log-list').scrollTop = down > 0 ? 1e9 : 0; }", down)


def reads_on(page: Page, log: Lines, scroll: Callable[[Page, int], None], down: int, until: int) -> None:
    """Scroll until the line *until* is on the screen, and check all rows drawn on the way."""
    deadline = time.monotonic() + PATIENCE
    while True:
        seen = log.drawn(page)
        if seen and (seen[-1] >= until if down > 0 else seen[0] <= until):
            return
        assert time.monotonic() < deadline, seen
        scroll(page, down)
        page.wait_for_timeout(20)


@pytest.mark.parametrize(
    ("web", "place", "scroll"),
    [
        pytest.param(web, place, scroll, marks=() if web == only else pytest.mark.soak)
        for place, scroll, only in (
            ("9001", wheel, ""),
            (f"@{12 * 9000}", keys, ""),
            ("45%", bar, "store"),
            ("link", wheel, ""),
        )
        for web in ("growing", "ended", "store")
    ],
    indirect=["web"],
)
def test_one_reads_on_both_ways_from_any_place(
    browser: Browser, web: Web, place: str, scroll: Callable[[Page, int], None]
) -> None:
    with tab_of(browser, web) as tab:
        if place == "link":
            page = tab.show(f"{PATH}#bytes={12 * 9000}-{12 * 9001}")
        else:
            page = tab.show(PATH)
            to(page, place)
        expect(page.locator("log-list .row", has_text="009000 step")).to_be_in_viewport()
        reads_on(page, LOG, scroll, 1, 10_000)
        reads_on(page, LOG, scroll, -1, 8000)
        tab.is_clean()


@pytest.mark.soak  # test_walk scrolls in any order
@pytest.mark.parametrize(
    "web", ["growing", *(pytest.param(web, marks=pytest.mark.soak) for web in ("ended", "store"))], indirect=True
)
def test_rows_of_one_place_never_come_among_those_of_another(browser: Browser, web: Web) -> None:
    with tab_of(browser, web) as tab:
        tab.context.add_init_script(SLOW)
        page = tab.show(PATH)
        for place in ("4000", "15000", "50%", "@36000", "12000", "0%", "700"):
            to(page, place)
            page.wait_for_timeout(500)  # the rows above are there, those below are requested
            page.evaluate("document.querySelector('log-list').scrollTop += 6000")
            LOG.drawn(page)
        reads_on(page, LOG, wheel, 1, 2500)
        reads_on(page, LOG, wheel, -1, 100)
        tab.is_clean()


@pytest.fixture(scope="module")
def grave() -> Iterator[tuple[Place, Receiver, Web]]:
    """A growing log with three errors, far from its end and from each other."""
    lines = LOG.data.splitlines(keepends=True) * 12
    for number in (10, 90_000, 150_000):
        lines[number] = b"ERROR %d\n" % number
    with new_place() as place:
        receiver = place.serve()
        append(place.log, b"".join(lines))
        place.sidecar(receiver)
        receiver.gets(b"".join(lines))
        yield place, receiver, Web(place, "--receiver", receiver.address)


@pytest.mark.soak  # test_merged covers those of several logs
def test_the_last_errors_are_shown_however_far_they_are_with_their_numbers_and_so_are_new_ones(
    browser: Browser, grave: tuple[Place, Receiver, Web]
) -> None:
    place, _, web = grave
    with tab_of(browser, web) as tab:
        page = tab.show(PATH)
        page.get_by_label("Level").select_option("error")
        rows = page.locator("log-list .row", has_text="ERROR")
        expect(rows.locator(".text")).to_have_text(["ERROR 10", "ERROR 90000", "ERROR 150000"])
        append(place.log, b"one more\nERROR 240001\nand more\n" + b"more\n" * 10 + b"ERROR 240013\n")
        expect(rows.locator(".text")).to_have_text(
            ["ERROR 10", "ERROR 90000", "ERROR 150000", "ERROR 240001", "ERROR 240013"]
        )
        expect(rows.locator(".number")).to_have_text(["11", "90,001", "150,001", "240,002", "240,014"])
        page.get_by_label("Level").select_option("warning")
        expect(rows.locator(".number")).to_have_text(["11", "90,001", "150,001", "240,002", "240,014"])
        page.get_by_label("Level").select_option("")
        to(page, "120000")
        expect(page.locator("log-list .row .number", has_text="120,000")).to_be_in_viewport()
        page.get_by_label("Level").select_option("error")
        expect(rows.locator(".number")).to_have_text(["11", "90,001", "150,001", "240,002", "240,014"])
        tab.is_clean()


@pytest.mark.parametrize("web", ["growing"], indirect=True)
def test_the_button_shows_how_many_bytes_are_below_the_screen(browser: Browser, web: Web) -> None:
    with tab_of(browser, web) as tab:
        page = tab.show(PATH)
        page.keyboard.press("g")
        expect(page.locator("log-list .row", has_text="000000 step").first).to_be_in_viewport()
        page.wait_for_timeout(500)  # rows below the screen arrive
        where = page.locator(".status .where").inner_text()
        at, of = (int(number.replace(",", "")) for number in re.findall(r"byte ([\d,]+) of ([\d,]+)", where)[0])
        expect(page.locator(".news")).to_have_text(f"{(of - at) / 1e3:.0f} kB more \u2193")
        tab.is_clean()


@pytest.mark.parametrize("web", ["ended"], indirect=True)
@pytest.mark.parametrize("between", each([0, 30, 200], 30))
def test_keys_right_behind_a_place_act_there(browser: Browser, web: Web, between: int) -> None:
    """This holds even if the page has to ask for the line's place, several times at 120 ms."""
    with tab_of(browser, web) as tab:
        tab.context.add_init_script(SLOW)
        page = tab.show(PATH)
        current = page.locator('[aria-current="true"]')
        to(page, "7000")
        page.keyboard.type("jjj", delay=between)
        expect(current).to_contain_text("007002 step")
        to(page, "@12000")  # 12 bytes a line
        page.keyboard.type("kk", delay=between)
        expect(current).to_contain_text("000998 step")
        to(page, "9000")
        page.keyboard.type("jj", delay=between)
        to(page, "3000")  # the earlier keys are not for this place
        page.keyboard.type("k")
        expect(current).to_contain_text("002998 step")
        page.wait_for_timeout(500)
        expect(current).to_contain_text("002998 step")
        LOG.drawn(page)
        tab.is_clean()


@pytest.mark.soak
@pytest.mark.parametrize("web", ["ended"], indirect=True)
def test_shares_of_a_log_up_to_its_end_and_beyond(browser: Browser, web: Web) -> None:
    with tab_of(browser, web) as tab:
        page = tab.show(PATH)
        where, told = page.locator(".status .where"), page.locator(".status .told")
        for place, shown, said in (
            ("50%", "50 %", ""),
            ("100%", "100 %", ""),
            ("150%", "100 %", "The log ends before 150 %."),
            ("@999999", "100 %", "The log ends before byte 999,999."),
        ):
            to(page, "1")
            expect(page.locator("log-list .row", has_text="000000 step")).to_be_in_viewport()
            to(page, place)
            expect(where).to_contain_text(f" {shown}")
            expect(told).to_have_text(said)
        tab.is_clean()
