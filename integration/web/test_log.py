"""The page of a log in Chromium: any place, rows as in ``flarelog view``, marking and copying."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from flarelog.model import Gap, StreamId
from flarelog.stores import choose
from integration.harness.places import LOG, RUN, SITE, Place, append
from integration.web.browsing import Tab, Web, comes_true, filled, held, numbered, tab_of, texts
from integration.web.conftest import LOGS, TRACEBACK

BERLIN = "/run/run-1/berlin/train.log"
FIRST_OF_TRACEBACK = LOGS["berlin/train.log"].index(b"Traceback")


def at(place: float) -> str:
    """The line of berlin's log at *place*, an offset or a share."""
    data = LOGS["berlin/train.log"]
    offset = place if isinstance(place, int) else int(place * len(data))
    return data[data.rindex(b"\n", 0, offset) + 1 :].split(b"\n")[0].decode()


def row(page: Page, text: str) -> Locator:
    return page.locator("log-list .row", has_text=text)


def test_a_log_that_has_ended_shows_its_end_and_every_wheel_turn_shows_what_is_before(tab: Tab) -> None:
    page = tab.show(BERLIN)
    expect(row(page, "003199 step")).to_be_visible()
    for _ in range(60):
        page.mouse.move(400, 400)
        page.mouse.wheel(0, -3000)
        page.wait_for_timeout(20)
        if "000000 step" in held(page):
            break
    comes_true(page, 'document.querySelector("log-list").lines.rows[0][1] === 0')
    rows = [text for text in held(page) if text.endswith("step")]
    assert rows == [f"{n:06d} step" for n in range(int(rows[0][:6]), int(rows[-1][:6]) + 1)]
    assert page.locator("log-list .row").count() < 100


def test_two_keys_go_to_both_ends(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("g")
    expect(row(page, "000000 step")).to_be_in_viewport()
    page.keyboard.press("G")
    expect(row(page, "003199 step")).to_be_in_viewport()


def test_a_place_is_gone_to_by_what_is_typed(tab: Tab) -> None:
    page = tab.show(BERLIN)
    for place, text in {"50%": at(0.5), "@24000": at(24000), "0%": "000000 step", "100%": "003199 step"}.items():
        page.keyboard.press(":")
        page.keyboard.type(place)
        page.keyboard.press("Enter")
        expect(row(page, text)).to_be_in_viewport()


def test_the_line_of_a_place_that_was_typed_is_marked_and_the_address_names_its_bytes(tab: Tab) -> None:
    page = tab.show(BERLIN)
    for place, text in {"1200": "001191 step", "@24005": at(24000), "5": "000004 step"}.items():
        page.keyboard.press(":")
        page.keyboard.type(place)
        page.keyboard.press("Enter")
        marked = page.locator(".row.marked")
        expect(marked).to_have_count(1)
        expect(marked).to_contain_text(text)
        expect(marked).to_be_in_viewport()
        expect(page.locator('[aria-current="true"]')).to_contain_text(text)
        expect(page).to_have_url(re.compile("#bytes="))
    page.keyboard.press(":")
    page.keyboard.type("50%")
    page.keyboard.press("Enter")
    expect(page.locator(".row.marked")).to_have_count(0)


def test_the_map_leads_to_any_share_of_the_log(tab: Tab) -> None:
    page = tab.show(BERLIN)
    box = page.locator("mini-map").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 8, box["y"] + box["height"] - 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 8, box["y"] + box["height"] / 2, steps=8)
    page.mouse.up()
    expect(page.locator(".status .where")).to_have_text(re.compile("(49|50|51) %"))


def test_the_level_is_the_same_at_a_reload_and_back(tab: Tab) -> None:
    page = tab.show(BERLIN)
    level, error = page.get_by_label("Level"), row(page, "cannot write the checkpoint")
    level.select_option("error")
    expect(error).to_be_in_viewport()
    expect(row(page, "003199 step")).to_have_count(0)
    page.reload()
    expect(error).to_be_in_viewport()
    expect(level).to_have_value("error")
    page.get_by_role("link", name="run-1", exact=True).click()
    expect(page.get_by_role("heading", name="run-1")).to_be_visible()
    page.go_back()
    expect(error).to_be_in_viewport()
    expect(level).to_have_value("error")
    expect(row(page, "003199 step")).to_have_count(0)
    level.select_option("")
    page.reload()
    expect(row(page, "step").first).to_be_attached()
    expect(level).to_have_value("")


def test_an_order_that_does_not_exist_is_said(tab: Tab) -> None:
    page = tab.show("/run/run-1?merged=size")
    expect(page.locator(".status .told")).to_have_text("There is no such order: the logs are merged by time.")


def test_a_link_that_names_no_bytes_says_so(tab: Tab) -> None:
    page = tab.show(f"{BERLIN}#bytes=5-1")
    told = "The link names no bytes: it should end like #bytes=100-200."
    expect(page.locator(".status .told")).to_have_text(told)
    expect(page.locator(".row.marked")).to_have_count(0)


def test_a_traceback_is_folded_and_opens(tab: Tab) -> None:
    page = tab.open(f"{BERLIN}#bytes={FIRST_OF_TRACEBACK - 30}-{FIRST_OF_TRACEBACK - 29}")
    head = row(page, "Traceback (most recent call last)")
    expect(head).to_contain_text("5 lines")
    expect(head).to_contain_text("No space left on device")
    expect(row(page, "torch.save")).to_have_count(0)
    head.click()
    expect(row(page, "torch.save(state, path)")).to_be_visible()


def test_the_row_under_the_pointer_stays_there_when_rows_arrive_above_it(tab: Tab) -> None:
    page = tab.open(f"{BERLIN}#bytes={12 * 150}-{12 * 153}")
    expect(row(page, "000155 step")).to_be_visible()
    page.wait_for_timeout(500)  # the rows around it have come
    hit = page.evaluate(
        """() => {
            const list = document.querySelector("log-list");
            const aimed = [...list.querySelectorAll(".row")].find((row) => row.textContent.includes("000155 step"));
            const box = aimed.getBoundingClientRect();
            const earlier = (n) => [0, n - 30, n - 29, `earlier ${n}`, 0, null, null];
            list.keep(() => list.lines.prepend(Array.from({ length: 30 }, (_, n) => earlier(n)), { from: -30 }));
            const hit = document.elementFromPoint(box.x + 100, box.y + box.height / 2);
            return hit?.closest(".row")?.textContent ?? "no row";
        }"""
    )
    assert "000155 step" in hit


def test_a_permalink_marks_its_bytes_and_is_what_the_address_says(tab: Tab) -> None:
    page = tab.open(f"{BERLIN}#bytes={12 * 150}-{12 * 153}")
    expect(page.locator(".row.marked")).to_have_count(3)
    assert [text for text in texts(page) if text in {f"{n:06d} step" for n in (150, 151, 152)}] == [
        "000150 step",
        "000151 step",
        "000152 step",
    ]
    wanted = tab.web.url(f"{BERLIN}#bytes={12 * 155}-{12 * 159}")
    row(page, "000155 step").click()
    row(page, "000158 step").click(modifiers=["Shift"])
    expect(page).to_have_url(wanted)
    expect(page.locator(".row.marked")).to_have_count(4)


def test_the_link_s_command_shows_the_same_lines(tab: Tab) -> None:
    page = tab.open(f"{BERLIN}#bytes={12 * 150}-{12 * 153}")
    expect(page.locator(".row.marked")).to_have_count(3)
    page.keyboard.press("c")
    command = page.locator("dialog code", has_text="flarelog logs").inner_text()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shown = subprocess.run(command, shell=True, capture_output=True, env={**os.environ, "PATH": path}, check=False)
    assert shown.stdout == b"000150 step\n000151 step\n000152 step\n", shown.stderr


def test_logs_by_arrival_have_the_times_of_the_arrival(tab: Tab) -> None:
    page = tab.show("/run/run-1?merged=arrival")
    status = page.locator("footer .where")
    expect(status).to_contain_text(re.compile(r"3 logs|4 logs"))
    expect(status).to_contain_text(re.compile(r"arrived \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"))
    page.keyboard.press("t")
    expect(page.locator(".told")).to_have_text("These are the times of the arrival.")
    times = page.locator("log-list .row:not(.note) .time").all_inner_texts()
    assert len(times) > 10
    assert all(re.search(r"\d\d:\d\d:\d\d\.\d{3}$", one) for one in times), times  # the lines themselves bear none
    page.keyboard.press(":")
    expect(page.get_by_text("A time of arrival in UTC")).to_be_visible()
    page.get_by_role("textbox", name="Place").fill("00:00:00")
    page.keyboard.press("Enter")
    expect(page.locator(".told")).to_contain_text("The first line that arrived at ")


def test_the_link_of_merged_logs_without_a_mark_is_that_of_the_first_line_on_the_screen(tab: Tab) -> None:
    page = tab.show("/run/run-1?merged=arrival")
    expect(row(page, "000099 step").last).to_be_in_viewport()
    first = page.evaluate(
        """() => {
            const top = document.querySelector("log-list").getBoundingClientRect().top;
            const rows = [...document.querySelectorAll("log-list .row:not(.note)")];
            const below = (row) => row.getBoundingClientRect().bottom - top;
            const seen = rows.filter((row) => below(row) > 0).sort((a, b) => below(a) - below(b));
            return seen[0].text.textContent;
        }"""
    )
    page.keyboard.press("c")
    link = page.locator("dialog code").first.inner_text()
    found = re.search(r"/run/run-1/lyon/long.log#bytes=(\d+)-(\d+)$", link)
    assert found, link
    assert LOGS["lyon/long.log"][int(found[1]) : int(found[2])].decode() == f"{first}\n"


def test_a_long_line_is_opened_and_wraps_alone(tab: Tab) -> None:
    page = tab.open("/run/run-1/lyon/long.log#bytes=0-6")
    expect(page.locator(".row.marked")).to_have_count(1)  # the log's beginning is shown, and no request is pending
    long = page.locator("log-list .row").nth(1)
    before = long.bounding_box()
    long.click()
    expect(long).to_have_class("row open marked")
    expect(long).to_contain_text("END")
    after, below = long.bounding_box(), row(page, "000000 step").bounding_box()
    assert before
    assert after
    assert below
    assert after["height"] > 3 * before["height"]
    assert below["y"] >= after["y"] + after["height"] - 1


IN_SIGHT = """() => {
    const text = document.querySelector(".row.open .text").firstChild, range = document.createRange();
    const list = document.querySelector("log-list").getBoundingClientRect();
    const row = document.querySelector(".row.open").getBoundingClientRect();
    const words = [...text.data.matchAll(/\\S+/g)].filter(word => {
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const {top, bottom} = range.getBoundingClientRect();
        return top >= list.top - 1 && bottom <= Math.min(list.bottom, row.bottom) + 1;
    });
    return words.map(([word]) => word);
}"""


AT_THE_TOP = """Math.abs(document.querySelector(".row.open").getBoundingClientRect().top
    - document.querySelector("log-list").getBoundingClientRect().top) < 2"""


def a_screen_down(page: Page) -> None:
    """Press the space bar, and wait until the list has scrolled and stands still."""
    top = 'document.querySelector("log-list").scrollTop'
    before = last = page.evaluate(top)
    page.keyboard.press("Space")
    comes_true(page, f"{top} > {before}")
    while (now := page.evaluate(top)) != last:
        last = now
        page.wait_for_timeout(100)


def test_every_row_of_a_line_that_wraps_to_many_screens_is_scrolled_to(browser: Browser, place: Place) -> None:
    words = [f"w{n:05d}" for n in range(3000)]
    receiver = filled(place, {"site-1/app.log": numbered(200) + " ".join(words).encode() + b"\n" + numbered(200)})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/site-1/app.log")
        page.keyboard.press(":")
        page.keyboard.type("201")
        page.keyboard.press("Enter")
        expect(page.locator(".row.open")).to_be_visible()
        comes_true(page, AT_THE_TOP)
        seen = set(page.evaluate(IN_SIGHT))
        while words[-1] not in seen:
            a_screen_down(page)
            seen |= set(page.evaluate(IN_SIGHT))
        assert sorted(seen) == words
        tab.is_clean()


def test_a_hit_far_inside_a_line_that_wraps_is_on_the_screen(browser: Browser, place: Place) -> None:
    words = b" ".join(b"w%05d" % n for n in range(3000))
    receiver = filled(place, {"site-1/app.log": numbered(200) + words + b"\n" + numbered(200)})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/site-1/app.log")
        page.keyboard.press("g")
        page.keyboard.press("/")
        page.get_by_label("Search", exact=True).fill("w02000")
        page.keyboard.press("Enter")
        expect(page.locator(".row.open")).to_be_visible()
        comes_true(page, f"({IN_SIGHT})().includes('w02000')")
        tab.is_clean()


def test_a_line_that_a_key_goes_to_is_on_the_screen_as_far_as_it_fits(browser: Browser, place: Place) -> None:
    long = b"BEGIN " + b"word " * 300 + b"END\n"
    receiver = filled(place, {"site-1/app.log": (b"one\n" + long) * 300})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/site-1/app.log")
        page.keyboard.press("g")
        expect(page.locator("log-list .row").first).to_be_visible()
        for _ in range(82):
            page.keyboard.press("j")
        expect(page.locator(".told")).to_have_text(re.compile("^Line 82: BEGIN"))
        comes_true(page, f"(words => words.includes('BEGIN') && words.includes('END'))(({IN_SIGHT})())")
        tab.is_clean()


def test_keys_that_are_faster_than_the_rows_are_not_lost(browser: Browser, place: Place) -> None:
    receiver = filled(place, {"site-1/app.log": b"".join(b"%d\n" % n for n in range(1, 5001))})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/site-1/app.log")
        waiting = list[Route]()

        def hold(route: Route) -> None:
            """The first request for the rows behind the first ones: not one for the end, nor for a line's number."""
            spec = route.request.post_data_json or {}
            behind = 0 < spec.get("at", 0) < 2000 and spec.get("rows", 0) > 1 and not waiting
            return waiting.append(route) if behind else route.continue_()

        page.route("**/api/window", hold)
        page.keyboard.press("g")
        expect(page.locator("log-list .row").first).to_have_text(re.compile("1$"))
        count = page.evaluate("document.querySelector('log-list').lines.view().length")
        for _ in range(count + 2):
            page.keyboard.press("j")
        expect(page.locator(".told")).to_have_text(f"Line {count}: {count}")
        waiting.pop().continue_()
        expect(page.locator(".told")).to_have_text(f"Line {count + 2}: {count + 2}")
        tab.is_clean()


def test_colours_are_classes_and_what_is_wide_or_runs_from_the_right_keeps_its_row(tab: Tab) -> None:
    page = tab.show("/run/run-1/kyoto/colours.log")
    expect(page.locator(".row .in.sgr-b")).to_have_text("red and bold")
    expect(page.locator(".row .sgr-r")).to_have_text("turned")
    expect(page.locator(".row .in").nth(2)).to_have_text("orange")
    expect(row(page, "مرحبا بالعالم")).to_have_count(1)
    assert [text for text in held(page) if "epoch" in text] == ["epoch 1: 100%|██████████|"]
    assert {box["height"] for box in (one.bounding_box() for one in page.locator(".row").all()) if box} == {20}


def test_a_selection_over_more_than_the_screen_is_copied_whole(tab: Tab) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tab.show(BERLIN)
    page.keyboard.press("g")
    expect(row(page, "000000 step")).to_be_in_viewport()
    page.evaluate(
        """() => {
            const text = [...document.querySelectorAll(".row")].find((row) => row.row[1] === 12 * 3).text.firstChild;
            getSelection().setBaseAndExtent(text, 4, text, 6);
        }"""
    )
    comes_true(page, 'document.querySelector("log-list").selection')
    comes_true(
        page,
        """(() => {
            const list = document.querySelector("log-list");
            const there = [...document.querySelectorAll(".row")].some((row) => row.row[1] === 12 * 140);
            if (!there) list.scrollTop += 200;
            return there;
        })()""",
    )
    page.evaluate(
        """() => {
            const from = [...document.querySelectorAll(".row")].find((row) => row.row[1] === 12 * 3).text.firstChild;
            const to = [...document.querySelectorAll(".row")].find((row) => row.row[1] === 12 * 140).text.firstChild;
            getSelection().setBaseAndExtent(from, 4, to, 6);
        }"""
    )
    comes_true(page, 'document.querySelector("log-list").selection')
    page.keyboard.press("Control+c")
    copied = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert copied == ["03 step", *[f"{n:06d} step" for n in range(4, 140)], "000140"]


def test_marked_lines_are_copied_though_the_page_does_not_hold_them(tab: Tab) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tab.open(f"{BERLIN}#bytes=0-{12 * 200}")
    expect(row(page, "000001 step")).to_be_visible()
    page.evaluate("document.querySelector('log-page').go({end: true})")
    expect(row(page, "003199 step")).to_be_in_viewport()
    page.keyboard.press("Control+c")
    expect(page.locator(".told")).to_have_text("200 lines copied.")
    assert page.evaluate("navigator.clipboard.readText()").split("\n") == [f"{n:06d} step" for n in range(200)]


def test_marked_lines_are_copied_with_the_gap_between_them(browser: Browser, place: Place) -> None:
    store, data = place.directory / "gapped", numbered(1000)

    async def fill() -> None:
        async with choose.store(store, "memory") as held:
            appender = await held.appender(StreamId("run-1", "site-1", "app.log"), b"producer")
            for at in (0, 12 * 500):
                await appender.append(at, data[at : at + 12 * 500])
                await appender.mark(Gap(appender.committed, appender.digest, 3456, "rotated away"))
            await appender.sync()
            await appender.close()

    with ThreadPoolExecutor(1) as other:  # the browser's loop occupies this thread
        other.submit(asyncio.run, fill()).result()
    gap = "── gap: 3,456 bytes are lost: rotated away ──"
    with tab_of(browser, Web(place, "--store", str(store))) as tab:
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for first, last in ((498, 502), (10, 990)):  # rows that the page holds, and more
            page = tab.show(f"/run/run-1/site-1/app.log#bytes={12 * first}-{12 * last}")
            page.keyboard.press("Control+c")
            expect(page.locator(".told")).to_have_text(f"{last - first} lines copied.")
            lines = [f"{n:06d} step" for n in range(first, last)]
            lines.insert(500 - first, gap)
            assert page.evaluate("navigator.clipboard.readText()").split("\n") == lines
            page.goto("about:blank")
        tab.is_clean()


def test_lines_that_come_late_are_waited_for_with_a_word(tab: Tab) -> None:
    late: list[Route] = []
    tab.page.route("**/api/window", lambda route: late.append(route))
    page = tab.open(BERLIN)
    expect(page.locator(".status .told")).to_have_text("Waiting for the lines \u2026")
    page.unroute("**/api/window")  # the requests go on
    expect(row(page, "003199 step")).to_be_in_viewport()
    expect(page.locator(".status .told")).to_be_empty()


def test_a_gap_before_the_first_line_is_at_the_beginning(browser: Browser, place: Place) -> None:
    store, data = place.directory / "gapped", numbered(1000)

    async def fill() -> None:
        async with choose.store(store, "memory") as held:
            appender = await held.appender(StreamId("run-1", "site-1", "app.log"), b"producer")
            await appender.mark(Gap(0, appender.digest, 789, "rotated away"))
            await appender.append(0, data)
            await appender.sync()
            await appender.close()

    with ThreadPoolExecutor(1) as other:  # the browser's loop occupies this thread
        other.submit(asyncio.run, fill()).result()
    with tab_of(browser, Web(place, "--store", str(store))) as tab:
        page = tab.show("/run/run-1/site-1/app.log")
        expect(row(page, "000999 step")).to_be_in_viewport()
        page.keyboard.press("g")
        expect(row(page, "000000 step")).to_be_in_viewport()
        expect(row(page, "gap: 789 bytes are lost")).to_be_in_viewport()
        for name in ("1 gap, 789", "gap at byte 0: 789 bytes are lost"):
            page = tab.open("/run/run-1")
            page.get_by_role("link", name=name).first.click()
            expect(row(page, "gap: 789 bytes are lost")).to_be_in_viewport()
        tab.is_clean()


def test_times_leave_the_line_numbers_free_though_the_last_row_has_none(browser: Browser, place: Place) -> None:
    receiver = place.serve()
    append(place.log, b"".join(b"2026-11-20 08:00:%02d INFO step %d\n" % (n % 60, n) for n in range(5600)))
    append(place.log, b"epoch 1:  10%|#   | 1/10\repoch 1:  20%|##  | 2/10")
    place.sidecar(receiver)
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show(f"/run/{RUN}/{SITE}/{LOG}")
        expect(row(page, "2/10")).to_be_in_viewport()
        page.keyboard.press("t")
        expect(page.locator(".row .number").first).not_to_be_empty()
        for _ in range(2):
            append(place.log, b"\repoch 1:  30%|### | 3/10")
            expect(row(page, "3/10")).to_be_in_viewport()
            room, needed = page.evaluate(
                """() => [...document.querySelectorAll(".row")].filter(({ number }) => number.textContent)
                    .map(({ number }) => [number.clientWidth, number.scrollWidth]).at(-1)"""
            )
            assert needed <= room
        tab.is_clean()


def test_the_lines_on_the_screen_are_selected_together_and_nothing_else(tab: Tab) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tab.show(BERLIN)
    page.keyboard.press("g")
    expect(row(page, "000000 step")).to_be_in_viewport()
    page.locator("log-list").focus()
    page.keyboard.press("Control+a")
    comes_true(page, 'document.querySelector("log-list").selection')
    page.keyboard.press("Control+c")
    copied = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert len(copied) > 20
    assert copied == [f"{n:06d} step" for n in range(len(copied))]


SHORT = b"""before
Traceback (most recent call last):
  File "short.py", line 1, in <module>
ValueError: short
"""


@pytest.mark.soak
def test_a_traceback_is_folded_again_by_a_click_on_its_sign_though_text_is_selected(
    browser: Browser, place: Place
) -> None:
    receiver = filled(place, {"site-1/app.log": SHORT + TRACEBACK})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/site-1/app.log")
        sign, inside = page.locator(".row .fold"), row(page, "train.py")
        expect(row(page, "short.py")).to_be_visible()
        expect(sign).to_have_text("\u25b8 ")  # the traceback of three lines has no sign, and is shown unchanged
        for _ in range(2):
            sign.click()
            expect(inside).to_be_visible()
            expect(sign).to_have_text("\u25be ")
            inside.locator(".text").dblclick(position={"x": 60, "y": 10})
            comes_true(page, "!getSelection().isCollapsed")
            sign.click()
            expect(inside).to_have_count(0)
            expect(sign).to_have_text("\u25b8 ")
        tab.is_clean()


@pytest.mark.soak
def test_a_traceback_of_a_containers_stderr_is_folded_where_its_stdout_speaks_in_the_middle(
    browser: Browser, place: Place
) -> None:
    raised = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "    main()",
        '  File "b.py", line 2, in main',
        "ValueError: bad batch",
    ]
    said = [("stderr", text) for text in raised]
    said[2:2], said[5:5] = [("stdout", "step 2")], [("stdout", "loss: 0.5")]
    said = [("stdout", "step 1"), *said, ("stderr", "done"), ("stderr", "KeyError: 2")]
    data = "".join(f"2026-11-25T11:00:01.{n}Z {of} F {text}\n" for n, (of, text) in enumerate(said)).encode()
    receiver = filled(place, {"site-1/0.log": data})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/site-1/0.log")
        expect(row(page, "Traceback")).to_contain_text("ValueError: bad batch")
        assert [text.partition(" \u2026")[0].strip("\u25b8 ") for text in texts(page)][:6] == [
            "step 1",
            raised[0],
            "step 2",
            "loss: 0.5",
            "done",
            "KeyError: 2",
        ]
        page.locator(".row .fold").click()
        expect(row(page, "b.py")).to_be_visible()
        row(page, "loss: 0.5").click()
        page.keyboard.press("e")  # neither the rest of the traceback nor its middle
        expect(page.locator('[aria-current="true"]')).to_contain_text("KeyError: 2")
        tab.is_clean()


LONG = "1,234 \u2192 " * 93_757  # 750,056 characters in 1.05 MB


@pytest.mark.soak
def test_a_long_line_that_is_copied_says_that_it_was_cut_and_where_all_of_it_is(browser: Browser, place: Place) -> None:
    data = f"before\n{LONG}\nafter\n".encode()
    receiver = filled(place, {"site-1/app.log": data})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = tab.show("/run/run-1/site-1/app.log")
        row(page, "1,234").click()
        page.keyboard.press("Control+c")
        expect(page.locator(".told")).to_have_text(
            "1 line copied, which was cut at its end: press c to download all of it."
        )
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == LONG[: len(copied) - 11] + "..TRUNCATED"
        page.keyboard.press("c")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download these").click()
        assert download.value.path().read_bytes() == f"{LONG}\n".encode()
        page.keyboard.press("Escape")
        row(page, "after").click(modifiers=["Shift"])
        page.keyboard.press("Control+c")
        expect(page.locator(".told")).to_have_text(
            "2 lines copied, 1 of them cut at its end: press c to download all of them."
        )
        page.keyboard.press("Escape")
        page.evaluate(
            """() => {
                const rows = [...document.querySelectorAll(".row:not(.note)")].sort((a, b) => a.row[1] - b.row[1]);
                getSelection().setBaseAndExtent(rows[0].text.firstChild, 1, rows[2].text.firstChild, 3);
            }"""
        )
        comes_true(page, 'document.querySelector("log-list").selection')
        page.keyboard.press("Control+c")
        expect(page.locator(".told")).to_have_text(
            "3 lines copied, 1 of them cut at its end: mark them and press c to download all of them."
        )
        tab.is_clean()


def test_a_line_of_many_megabytes_is_shown_marked_and_downloaded_from_its_beginning(
    browser: Browser, place: Place
) -> None:
    line = b"BEGIN " + b"0123456789abcdef" * (4 << 16) + b" END\n"
    receiver = filled(place, {"site-1/app.log": b"before\n" + line + b"after\n"})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/site-1/app.log")
        expect(row(page, "before")).to_be_visible()
        assert [text[:10] for text in texts(page)] == ["before", "BEGIN 0123", "after", "\u2500\u2500 ended a"]
        row(page, "BEGIN").click()
        expect(page).to_have_url(re.compile(f"#bytes=7-{7 + len(line)}$"))
        page.keyboard.press("c")
        with page.expect_download() as download:
            page.get_by_role("link", name="Download these").click()
        assert download.value.path().read_bytes() == line
        tab.is_clean()


def test_the_level_leaves_out_what_is_less_grave(tab: Tab) -> None:
    page = tab.show(BERLIN)
    page.keyboard.press("g")
    page.locator('select[aria-label="Level"]').select_option("error")
    expect(row(page, "cannot write the checkpoint")).to_be_visible()
    expect(row(page, "step")).to_have_count(0)


def test_the_bytes_are_downloaded_as_they_are(tab: Tab) -> None:
    page = tab.show("/run/run-1/kyoto/colours.log")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.path().read_bytes() == LOGS["kyoto/colours.log"]


def test_the_marked_lines_alone_are_downloaded_too(tab: Tab) -> None:
    page = tab.show(f"{BERLIN}#bytes=120-240")
    page.keyboard.press("c")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download these 120 B").click()
    assert download.value.path().read_bytes() == LOGS["berlin/train.log"][120:240]


def test_nothing_moves_in_the_card_of_the_marked_lines_when_the_command_comes(tab: Tab) -> None:
    held: list[Route] = []
    tab.page.route("**/api/command?*", lambda route: held.append(route))
    page = tab.show(f"{BERLIN}#bytes=120-240")
    page.keyboard.press("c")
    expect(page.get_by_text("Waiting for the command")).to_be_visible()
    download = page.get_by_role("link", name="Download these 120 B")
    before = download.bounding_box()
    held[0].continue_()
    expect(page.get_by_text("flarelog logs")).to_be_visible()
    assert download.bounding_box() == before


@pytest.mark.soak
def test_a_place_behind_the_end_leads_to_the_end_and_is_said(tab: Tab) -> None:
    page = tab.show(BERLIN)
    for place, said in {
        "99999": "The log ends before line 99,999.",
        "3208": "Line 3,208: 003199 step",
        "3209": "The log ends before line 3,209.",
        "101%": "The log ends before 101 %.",
        "@99999": "The log ends before byte 99,999.",
    }.items():
        page.keyboard.press("g")
        expect(row(page, "000000 step")).to_be_in_viewport()
        page.keyboard.press(":")
        page.keyboard.type(place)
        page.keyboard.press("Enter")
        expect(row(page, "003199 step")).to_be_in_viewport()
        expect(page.locator(".told")).to_have_text(said)


def test_a_link_to_bytes_behind_the_end_says_where_the_log_ends(tab: Tab) -> None:
    end = len(LOGS["berlin/train.log"])
    page = tab.show(f"{BERLIN}#bytes={end}-{end + 9}")
    expect(row(page, "003199 step")).to_be_in_viewport()
    expect(page.locator(".told")).to_have_text(f"The log ends before byte {end:,}.")


def test_the_way_to_the_end_of_a_command_leads_to_its_exit_code(browser: Browser, place: Place) -> None:
    receiver = place.serve()
    command = ("--", "sh", "-c", "echo the last words; exit 3")
    program = place.start(
        "run", "--receiver", receiver.address, "--run", "run-1", "--site", "site-1", "--merge", *command
    )
    assert program.ends() == 3, program.talk()
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.open("/run/run-1")
        page.get_by_text("Show it (e)").click()
        expect(page.locator(".row", has_text="exit code 3")).to_be_in_viewport()
        expect(row(page, "the last words")).to_be_in_viewport()
        expect(page.locator(".told")).to_be_empty()
        tab.is_clean()


@pytest.mark.soak
def test_a_line_that_was_guessed_is_gone_to_when_rows_around_it_tell_that_lines_are_counted(tab: Tab) -> None:
    asked: list[str] = []

    def counted_with_the_rows_before(route: Route) -> None:
        """Mark the first answer of each kind as an estimate, as if the lines were counted only afterwards."""
        wanted = dict(route.request.post_data_json or {})
        kind = "line" if "line" in wanted else "count" if wanted["rows"] == 1 and not wanted.get("before") else "rows"
        asked.append(kind)
        answer = route.fetch()
        said = answer.json()
        if kind != "rows" and asked.count(kind) == 1:
            said["about"] = True
        route.fulfill(response=answer, json=said)

    page = tab.show(BERLIN)
    page.keyboard.press("g")
    expect(row(page, "000000 step")).to_be_in_viewport()
    page.route("**/api/window", counted_with_the_rows_before)
    page.keyboard.press(":")
    page.keyboard.type("99999")
    page.keyboard.press("Enter")
    expect(page.locator(".told")).to_have_text("The log ends before line 99,999.")
    assert asked.count("line") == 2
    page.unroute_all(behavior="wait")  # a pending answer would fail the next test


def test_what_is_no_place_is_said(tab: Tab) -> None:
    page = tab.show(BERLIN)
    for place in ("line", "-5"):
        page.keyboard.press(":")
        expect(page.locator("dialog output")).to_be_empty()
        page.keyboard.type(place)
        page.keyboard.press("Enter")
        expect(page.locator("dialog output")).to_have_text("This is no line, offset, share or time.")
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_have_count(0)  # until then a key belongs to the dialog


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b"all of 16 bytes.", "line 1 · byte 16 of 16 · 100 %", marks=pytest.mark.soak),
        (numbered(100), "line 100 · byte 1,200 of 1,200 · 100 %"),
    ],
)
def test_the_last_screen_is_at_the_last_line_and_byte(browser: Browser, place: Place, data: bytes, said: str) -> None:
    receiver = filled(place, {"site-1/app.log": data})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1/site-1/app.log")
        expect(page.locator(".status .where")).to_have_text(said)
