"""Logs and names with active content: a page that treated them as more than text would run them; nothing runs or
complains.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from integration.harness.places import Place, new_place
from integration.web.browsing import Tab, Web, filled, held, tab_of

HTML = """<img src=x onerror="document.title='owned'"><script>document.title='owned'</script><svg onload=alert(1)>
<a href="javascript:document.title='owned'">click</a> javascript:alert(1) {{7*7}} ${alert(1)}
<iframe srcdoc="<script>alert(1)</script>">
--></title></style><style>*{display:none}</style> &lt;b&gt; &#60;
"""
TERMINAL = (
    b"\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07 after\n"
    b"\x1b]52;c;b3duZWQ=\x07copied?\n"
    b"\x1b]0;owned\x07title?\n"
    b"\x1b[38;5;99999999m\x1b[999;999H\x1bP+q\x1b\\ placed\n"
)
BIDI = "if access != '\u202e \u2066// admin only\u2069 \u2066user': pass \u200f\ufeff end\n".encode()
BROKEN = b"\xed\xa0\x80 lone \xed\xbf\xbf surrogates \xff\xfe \xf0\x9f\x92\n\x00\x01\x07\x7f controls\n"
LOGS = {
    "site-1/html.log": HTML.encode() * 20,
    "site-1/terminal.log": TERMINAL,
    "site-1/bidi.log": BIDI + BROKEN,
    "site-1/marks.log": b"before\nZ" + "\u0301".encode() * 1_000_000 + b" END\nafter\n",
}


@pytest.fixture(scope="module")
def hostile() -> Iterator[Web]:
    with new_place() as place:
        long = {"site-1/line.log": b"before\n" + b"x" * (64 << 20) + b" END\nafter\n"}
        receiver = filled(place, LOGS | long)
        yield Web(place, "--receiver", receiver.address)


@pytest.fixture
def tab(browser: Browser, hostile: Web) -> Iterator[Tab]:
    with tab_of(browser, hostile) as tab:
        yield tab
        assert "owned" not in tab.page.title()
        tab.is_clean()


def test_html_is_text(tab: Tab) -> None:
    page = tab.show("/run/run-1/site-1/html.log")
    assert HTML.splitlines()[0] in held(page)
    assert page.locator("log-list :is(img, script, iframe, a, svg, style)").count() == 0
    page.keyboard.press("/")
    page.keyboard.type("<img src=x")
    page.keyboard.press("Enter")
    expect(page.locator(".found")).to_contain_text("Hit")
    page.get_by_role("button", name="List the hits").click()
    assert page.locator(".hits :is(img, script, iframe, svg, style)").count() == 0


def test_what_a_terminal_would_obey_is_no_link_no_clipboard_and_no_title(tab: Tab) -> None:
    page = tab.show("/run/run-1/site-1/terminal.log")
    assert "link after" in held(page)
    assert page.locator("log-list a").count() == 0


def test_nothing_turns_text_around_and_half_characters_are_signs(tab: Tab) -> None:
    page = tab.show("/run/run-1/site-1/bidi.log")
    shown = page.locator("log-list").inner_text()
    assert not {"\u202e", "\u2066", "\u2069", "\u200f", "\ufeff"} & set(shown)
    assert "\ufffd" in shown
    assert all(char >= " " or char in "\t\n" for text in held(page) for char in text)


@pytest.mark.soak
@pytest.mark.parametrize("log", ["marks.log", "line.log"])
def test_a_line_without_an_end_costs_no_more_than_others(tab: Tab, log: str) -> None:
    page = tab.show(f"/run/run-1/site-1/{log}")
    page.keyboard.press("g")
    expect(page.locator(".row", has_text="before")).to_be_in_viewport()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator('[aria-current="true"]')).to_contain_text("Z" if log == "marks.log" else "xxx")
    page.keyboard.press("G")
    expect(page.locator(".row", has_text="after")).to_be_in_viewport()
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    assert max(len(text) for text in held(page)) <= 70_000


def test_names_are_names(browser: Browser, place: Place) -> None:
    odd = "..%2e-'\"`&=+,;@~!()[]{}#a".translate({ord(char): "_" for char in "%'\"`&=+,;@~!()[]{}#"}).lstrip(".")
    receiver = filled(place, {f"{odd}/{odd}.log": b"hello\n", "site-2/a/b/c.log": b"hello\n"}, run="run-1")
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.open("/run/run-1")
        page.get_by_role("link", name=odd).press("Enter")  # where the timeline appears, the link moves
        expect(page.locator(".row", has_text="hello")).to_be_visible()
        tab.show("/run/run-1/site-2/a/b/c.log")
        tab.open("/run/%3Cimg%20src=x%20onerror=alert(1)%3E/%22/%3Cscript%3E")
        expect(page.locator(".trouble").first).to_be_visible()
        assert page.locator("main :is(img, script)").count() == 0
        assert tab.violations() == []
