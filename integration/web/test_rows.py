"""What a row shows in Chromium: wrapped lines, messages of JSON lines, bars at the end, notes, dates and signs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from integration.harness.places import Place, new_place
from integration.web.browsing import Tab, Web, comes_true, filled, tab_of

LONG = b"".join(
    b"%04d begins %s ends\n" % (n, b"".join(b"word%d " % k for k in range(n * 37 % 90))) for n in range(2000)
)
BEGIN = datetime(2026, 11, 20, 23, 59, 30, tzinfo=UTC)
MESSAGES = [
    json.dumps(
        {
            "ts": f"{BEGIN + timedelta(seconds=n):%Y-%m-%dT%H:%M:%SZ}",
            "level": "ERROR" if n == 57 else "INFO",
            "logger": "fl.client",
            "message": f'step {n}: "fine" \u2014 on',
            "rank": n % 4,
            "gpu": {"mem": n, "rank": 1},
        }
    )
    for n in range(60)
]
SIGNS = b"2026-11-20 08:00:00 INFO a bell\x07\n2026-11-20 08:00:01 INFO \x1b[32mgreen\x1b[0m\n"
LOGS = {"berlin/long.log": LONG, "kyoto/app.jsonl": "\n".join((*MESSAGES, "")).encode(), "lyon/signs.log": SIGNS}
TIGHT = """() => {
    const boxes = [...document.querySelectorAll("log-list .row")].map((row) => row.getBoundingClientRect());
    boxes.sort((one, other) => one.top - other.top);
    return boxes.length > 5 && boxes.every((box, at) => !at || Math.abs(box.top - boxes[at - 1].bottom) < 1);
}"""
TOP = """() => {
    const list = document.querySelector("log-list");
    return [list.seen().first.row[1], Math.round(list.top(list.seen().before) - list.scrollTop)];
}"""


@pytest.fixture(scope="module")
def logs(browser: Browser) -> Iterator[Web]:
    with new_place() as place:
        yield Web(place, "--receiver", filled(place, LOGS).address)


@pytest.fixture
def tab(browser: Browser, logs: Web) -> Iterator[Tab]:
    with tab_of(browser, logs) as tab:
        yield tab
        tab.is_clean()


def row(page: Page, text: str) -> Locator:
    return page.locator("log-list .row", has_text=text)


def is_tight(page: Page) -> None:
    """Wait until the drawn rows stand one below the other, without a hole and without an overlap."""
    comes_true(page, f"({TIGHT})()")


def test_wrapped_lines_stand_one_below_the_other_wherever_the_list_is(tab: Tab) -> None:
    page = tab.show("/run/run-1/berlin/long.log#bytes=300000-300001&wrap=on")
    expect(page.get_by_role("button", name="Wrap")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".row.marked")).to_be_in_viewport()
    is_tight(page)
    for down in (700, 5000, -3000, -700):
        page.evaluate("(down) => { document.querySelector('log-list').scrollTop += down; }", down)
        is_tight(page)
    page.keyboard.press("G")
    expect(row(page, "ended at")).to_be_in_viewport()
    expect(row(page, "1999 begins")).to_be_in_viewport()
    is_tight(page)
    page.keyboard.press("g")
    expect(row(page, "0000 begins")).to_be_in_viewport()
    is_tight(page)


def test_the_first_row_of_the_screen_stays_when_lines_wrap_and_when_the_window_is_narrower(tab: Tab) -> None:
    page = tab.show("/run/run-1/berlin/long.log#bytes=300000-300001")
    expect(page.locator(".row.marked")).to_be_in_viewport()
    page.wait_for_timeout(500)  # the rows around it have come
    page.evaluate(
        "(() => { const { list } = document.querySelector('log-page'); list.current = null; list.draw(); })()"
    )
    before = page.evaluate(TOP)
    page.keyboard.press("w")
    expect(page.locator("log-list.wraps")).to_be_visible()
    expect(page).to_have_url(re.compile("wrap=on"))
    is_tight(page)
    assert page.evaluate(TOP) == before
    page.set_viewport_size({"width": 700, "height": 800})
    comes_true(page, "document.querySelector('log-list').columns < 90")
    is_tight(page)
    assert page.evaluate(TOP)[0] == before[0]
    page.keyboard.press("w")
    expect(page.locator("log-list.wraps")).to_have_count(0)
    is_tight(page)


@pytest.mark.parametrize(
    "place", ["", f"#bytes={len(LONG) - 2500}-{len(LONG) - 2499}"], ids=["the-end", "a-line-near-it"]
)
def test_the_end_of_a_log_stays_on_a_phone_when_lines_stop_to_wrap(browser: Browser, logs: Web, place: str) -> None:
    with tab_of(browser, logs, viewport={"width": 390, "height": 800}) as tab:
        page = tab.show(f"/run/run-1/berlin/long.log{place}")
        comes_true(page, "document.querySelector('log-list').wraps")
        last = row(page, "1999 begins") if not place else page.locator(".row.marked")
        expect(last).to_be_in_viewport()
        for wraps in ("false", "true", "false"):
            page.keyboard.press("w")
            expect(page.get_by_role("button", name="Wrap")).to_have_attribute("aria-pressed", wraps)
            is_tight(page)
            expect(last).to_be_in_viewport()
        tab.is_clean()


def test_lines_wrap_on_a_phone_and_a_long_one_shows_its_beginning(browser: Browser, logs: Web) -> None:
    with tab_of(browser, logs, viewport={"width": 390, "height": 800}) as tab:
        page = tab.show("/run/run-1/berlin/long.log")
        expect(page.locator("log-list.wraps")).to_be_visible()
        is_tight(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        tab.is_clean()


def test_a_line_of_json_shows_its_message_and_where_it_is_opened_its_fields(tab: Tab) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tab.show("/run/run-1/kyoto/app.jsonl")
    text = row(page, "step 57:").locator(".text")
    expect(text).to_have_text('ERROR   step 57: "fine" \u2014 on {\u2026}')
    expect(text.locator(".brief")).to_have_attribute("data-time", "00:00:27.000")
    text.click()
    expect(page.locator(".row.open .field")).to_have_text(
        [
            '"ts": "2026-11-21T00:00:27Z"',
            '"level": "ERROR"',
            '"logger": "fl.client"',
            '"rank": 1',
            '"gpu": {"mem": 57, "rank": 1}',
        ]
    )
    is_tight(page)
    page.keyboard.press("Control+c")
    expect(page.locator(".told")).to_have_text("1 line copied.")
    assert page.evaluate("navigator.clipboard.readText()") == MESSAGES[57]
    page.keyboard.press("r")
    expect(page.locator(".row.open .text")).to_have_text(MESSAGES[57])
    page.keyboard.press("r")
    page.get_by_role("button", name='"rank"').click()
    expect(page.locator(".hits a")).to_have_count(15)
    expect(page.get_by_role("searchbox")).to_have_value('"rank": 1')
    expect(page).to_have_url(re.compile("only=1&field=1"))
    page.reload()
    expect(page.locator(".hits a")).to_have_count(15)


def test_what_json_can_write_does_not_get_into_the_page(browser: Browser, place: Place) -> None:
    text = "<img src=x onerror=alert(1)> \u202egnirts \x07\n\ud800 " + "a\u0301" + "\u0301" * 20 + "x" * 5000
    line = json.dumps({"level": "INFO", "msg": text, '<b>"key"</b>\u202e': text, "deep": [[{}]] * 900}).encode() + b"\n"
    receiver = filled(place, {"kyoto/a.jsonl": line + b'{"msg":"' + b'\\"' * 20_000 + b'"}\n'})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/kyoto/a.jsonl")
        closed = row(page, "<img").locator(".text")
        expect(closed).to_contain_text("<img src=x onerror=alert(1)> \ufffdgnirts \ufffd\u23ce\ufffd ")
        assert len(closed.inner_text()) < 1300
        closed.click()
        expect(page.locator(".row.open .field button")).to_have_text(['"level"', '"<b>\\"key\\"</b>\\u202e"', '"deep"'])
        shown = page.locator(".row.open").inner_text()
        assert not set(shown) & set("\u202e\x07")
        tab.is_clean()


def test_a_date_stands_where_it_changes(tab: Tab) -> None:
    page = tab.show("/run/run-1/kyoto/app.jsonl#times=on")
    page.keyboard.press("g")
    expect(row(page, "step 0:").locator(".time")).to_have_text("11-20 23:59:30.000")
    expect(row(page, "step 1:").locator(".time")).to_have_text(" 23:59:31.000")
    expect(row(page, "step 30:").locator(".time")).to_have_text("11-21 00:00:00.000")


def test_what_a_line_lost_and_that_nothing_is_missing_is_said_quietly(tab: Tab) -> None:
    page = tab.show("/run/run-1/lyon/signs.log")
    expect(row(page, "a bell").locator("abbr")).to_have_text("ctrl")
    expect(row(page, "green").locator("abbr")).to_have_count(0)
    expect(row(page, "its receipt is complete")).not_to_have_class(re.compile("warning"))


BARS = """(still) => {
    const { lines } = document.querySelector("log-list");
    const bar = (k, done) => [k, 9e6, 9e6, `epoch ${done}%|`, 1, null, null, done];
    lines.reopen(0, Array.from({ length: 20 }, (_, n) => bar(0, n + 10)), still);
    lines.reopen(1, [bar(1, 100)]);
    document.querySelector("log-list").draw();
    return lines.view().slice(-3).map(({ row }) => row[3]);
}"""


def test_bars_take_a_quarter_of_the_screen_and_those_that_stand_still_are_at_their_log(tab: Tab) -> None:
    page = tab.show("/run/run-1?merged=time")
    last = page.evaluate(BARS, False)[-1]
    assert last == "20 bars, the slowest: epoch 10%|"
    bars = "document.querySelector('log-list').lines.view().filter(({ row }) => row[3].startsWith('epoch')).length"
    assert page.evaluate(bars) == 1  # the one that is done, below the last line of its log
    row(page, "20 bars").locator(".fold").click()
    assert page.evaluate(bars) == 21
    assert "bars" not in " ".join(page.evaluate(BARS, True))
    assert page.evaluate(bars) == 21


def test_a_site_has_one_colour_on_all_pages(tab: Tab) -> None:
    hue = "(node) => getComputedStyle(node).getPropertyValue('--hue')"
    page = tab.open("/run/run-1")
    name = page.locator(".line .name", has_text="lyon")
    expect(name).to_be_visible()
    hues = page.locator(".sites .line .name").evaluate_all(f"(nodes) => nodes.map({hue}).filter(Boolean)")
    assert len(set(hues)) == 3
    mine = name.evaluate(hue)
    page = tab.show("/run/run-1?merged=time&log=kyoto/app.jsonl&log=lyon/signs.log")
    page.keyboard.press("g")
    assert row(page, "a bell").locator(".tag").evaluate(hue) == mine
