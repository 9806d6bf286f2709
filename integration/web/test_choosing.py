"""What a visitor chooses, in Chromium: the zone and the theme, the logs of one page, and a range of time."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from integration.harness.places import PATIENCE, Place, append, new_place
from integration.web.browsing import Web, comes_true, filled, held, tab_of

BEGIN = datetime(2026, 11, 20, 8, tzinfo=UTC)


def timed(name: str, count: int, step: float) -> bytes:
    """Lines of *name*, *step* seconds apart; each hundredth is an error."""
    return b"".join(
        b"%s %s %s %d\n"
        % (
            f"{BEGIN + timedelta(seconds=number * step):%Y-%m-%d %H:%M:%S.%f}".encode(),
            b"INFO" if (number + 1) % 100 else b"ERROR",
            name.encode(),
            number,
        )
        for number in range(count)
    )


@pytest.fixture(scope="module")
def timed_logs(browser: Browser) -> Iterator[Web]:
    """The logs of an hour, with a line each second, each two seconds and each four."""
    logs = {
        "berlin/rank-0.log": timed("r0", 3600, 1),
        "berlin/rank-1.log": timed("r1", 1800, 2),
        "kyoto/app.log": timed("k", 900, 4),
        "lima/short.log": timed("s", 600, 1),
    }
    with new_place() as place:
        yield Web(place, "--receiver", filled(place, logs).address)


def test_zone_theme_and_level_are_in_the_address_and_all_times_follow_the_zone(
    browser: Browser, timed_logs: Web
) -> None:
    with tab_of(browser, timed_logs, color_scheme="light", timezone_id="Asia/Kolkata") as tab:
        page = tab.show("/run/run-1/kyoto/app.log")
        page.keyboard.press("t")
        page.get_by_label("Level").select_option("error")
        last = page.locator(".row", has_text="ERROR k 899")
        expect(last.locator(".time")).to_have_text("08:59:56.000")
        page.get_by_role("button", name="Times: UTC").click()
        expect(last.locator(".time")).to_have_text("14:29:56.000")
        page.get_by_role("button", name="Colours: as the system").click()
        page.get_by_role("button", name="Colours: light").click()
        expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 26)"
        shared = page.url
        tab.is_clean()
    assert set(shared.partition("#")[2].split("&")) == {"level=error", "theme=dark", "times=on", "zone=local"}
    with tab_of(browser, timed_logs, timezone_id="Asia/Kolkata") as tab:
        page = tab.show(shared.removeprefix(timed_logs.url("")))
        expect(page.locator(".row", has_text="ERROR k 899").locator(".time")).to_have_text("14:29:56.000")
        expect(page.locator(".row", has_text=re.compile("INFO"))).to_have_count(0)
        page.keyboard.press(":")
        expect(page.get_by_text("or a time in UTC+5:30")).to_be_visible()
        page.get_by_role("textbox", name="Place").fill("14:00:00")
        page.keyboard.press("Enter")
        expect(page.locator('.row[aria-current="true"]')).to_contain_text("08:33:16")  # the next error
        tab.is_clean()


TOP = """(index) => {
    const list = document.querySelectorAll("log-page")[index].list;
    return list.seen()?.first.row[5];
}"""


SETTLED = """[...document.querySelectorAll("log-page")].every(({stay}) => stay.settled && !stay.loading)"""

LEVEL = """() => [...document.querySelectorAll("log-list .row.marked")].map((row) => row.getBoundingClientRect().top)"""


def top(page: Page, index: int) -> float:
    """Seconds from BEGIN to the first line on the screen of one of several lists."""
    found: float | None = page.evaluate(TOP, index)
    return -1.0 if found is None else found / 1000 - BEGIN.timestamp()


def test_two_ranks_are_chosen_on_the_page_of_a_run_and_stand_side_by_side_at_one_time(
    browser: Browser, timed_logs: Web
) -> None:
    with tab_of(browser, timed_logs) as tab:
        page = tab.open("/run/run-1")
        timeline = page.get_by_role("img", name="Timeline from")
        for told in ("berlin: 54 errors", "kyoto: 9 errors"):
            expect(timeline).to_have_attribute("aria-label", re.compile(told))
        page.get_by_role("button", name="2 logs").click()
        chosen = page.get_by_role("region", name="Chosen logs")
        expect(chosen).to_be_hidden()
        page.get_by_role("checkbox", name="Choose berlin/rank-0.log").check()
        expect(chosen).to_contain_text("1 log chosen: choose another one to compare")
        page.get_by_role("checkbox", name="Choose berlin/rank-1.log").check()
        expect(page.get_by_role("checkbox", name="Choose berlin", exact=True)).to_be_checked()
        shown = page.get_by_label("Show sites and logs that contain")
        shown.fill("berlin")
        page.get_by_label("Standing").select_option("Not ended")
        page.get_by_label("Standing").select_option("In trouble")
        page.reload()  # a colleague's address
        expect(page.get_by_label("Standing")).to_have_value("bad")
        expect(shown).to_have_value("berlin")
        expect(chosen).to_contain_text("2 logs chosen")
        page.get_by_label("Standing").select_option("All sites")
        expect(page.get_by_role("checkbox", name="Choose berlin", exact=True)).to_be_checked()
        chosen.get_by_role("link", name="Side by side").click()
        expect(page).not_to_have_url(re.compile("chosen|sites="))
        lists = page.locator("log-list")
        expect(lists).to_have_count(2)
        expect(lists.nth(0).locator(".row", has_text="r0 3599")).to_be_in_viewport()

        page.keyboard.press(":")
        page.get_by_role("textbox", name="Place").fill("08:20:00")
        page.keyboard.press("Enter")
        expect(lists.nth(0).locator('[aria-current="true"]')).to_contain_text("r0 1200")
        expect(lists.nth(1).locator(".row", has_text=re.compile(r"r1 60\d$")).first).to_be_in_viewport()
        comes_true(page, "/time=\\d+/.test(location.search)")
        lists.nth(1).hover()
        page.mouse.wheel(0, 1000)  # 50 lines of two seconds
        deadline = time.monotonic() + PATIENCE
        while abs(top(page, 0) - top(page, 1)) > 1 or top(page, 1) < 1200:
            assert time.monotonic() < deadline, (top(page, 0), top(page, 1))
            page.wait_for_timeout(20)
        before = top(page, 1)
        comes_true(page, f"location.search.includes('time={int(1000 * (BEGIN.timestamp() + before))}')")
        page.reload()
        expect(lists).to_have_count(2)
        deadline = time.monotonic() + PATIENCE
        while {top(page, 0) // 2, top(page, 1) // 2} != {before // 2}:
            assert time.monotonic() < deadline, (before, top(page, 0), top(page, 1))
            page.wait_for_timeout(20)
        tab.is_clean()


def test_logs_side_by_side_stand_at_one_time_though_the_lines_of_one_came_late(
    browser: Browser, timed_logs: Web
) -> None:
    late: list[Route] | None = None

    def asked(route: Route) -> None:
        post = route.request.post_data_json
        if late is not None and post and post["stream"]["log"] == "rank-0.log":
            late.append(route)
        else:
            route.continue_()

    with tab_of(browser, timed_logs) as tab:
        page = tab.page
        page.route("**/api/window", asked)
        tab.open(
            f"/run/run-1?side=berlin/rank-0.log&side=berlin/rank-1.log&time={int(BEGIN.timestamp() + 1200) * 1000}"
        )
        lists = page.locator("log-list")
        expect(lists.nth(1).locator(".row", has_text=re.compile(r"r1 60\d$")).first).to_be_in_viewport()
        comes_true(page, SETTLED)
        late = []
        lists.nth(1).hover()
        for step in (*[500] * 8, 600):  # to where less than a screen of the other log has come
            page.mouse.wheel(0, step)
            page.wait_for_timeout(100)
        released, late = late, None
        for route in released:
            route.continue_()
        comes_true(
            page, f"({TOP})(1) > {1000 * (BEGIN.timestamp() + 1650)} && Math.abs(({TOP})(0) - ({TOP})(1)) <= 1000"
        )
        tab.is_clean()


def test_logs_that_an_address_names_and_the_run_does_not_have_are_not_chosen(browser: Browser, timed_logs: Web) -> None:
    with tab_of(browser, timed_logs) as tab:
        chosen = tab.page.get_by_role("region", name="Chosen logs")
        for named, expected in {"berlin/rank-0.log gone/log.txt": "1 log chosen", "gone/log.txt": None}.items():
            tab.open("/")
            page = tab.open(f"/run/run-1#chosen={quote(named)}")
            expect(page.locator(".sites .body .line")).to_have_count(3)
            expect(chosen).to_contain_text(expected) if expected else expect(chosen).to_be_hidden()
        tab.is_clean()


def test_after_go_to_all_logs_mark_the_time_at_one_height_and_say_nothing_of_another_time(
    browser: Browser, timed_logs: Web
) -> None:
    with tab_of(browser, timed_logs) as tab:
        page = tab.show("/run/run-1?side=berlin/rank-0.log&side=lima/short.log")
        marked = page.locator("log-list .row.marked")
        told = page.locator("log-page .told")
        expect(page.locator("log-list").nth(0).locator(".row", has_text="r0 3599")).to_be_in_viewport()
        expect(told.nth(1)).to_contain_text("No line is of ")
        for place, lines in (("08:05:00", ("r0 300", "s 300")), ("08:03:20", ("r0 200", "s 200"))):
            page.keyboard.press(":")
            page.get_by_role("textbox", name="Place").fill(place)
            page.keyboard.press("Enter")
            expect(marked).to_have_text([re.compile(f"{line}$") for line in lines])
            comes_true(page, f"({LEVEL})().every((one, at, all) => Math.abs(one - all[0]) < 2)")
            expect(told.nth(1)).to_have_text("")
        page.keyboard.press("j")
        expect(marked).to_have_text([re.compile("r0 201$"), re.compile("s 201$")])
        tab.is_clean()


def test_lists_side_by_side_share_the_search_and_keys_act_on_the_one_with_the_focus(
    browser: Browser, timed_logs: Web
) -> None:
    with tab_of(browser, timed_logs) as tab:
        page = tab.show("/run/run-1?side=berlin/rank-0.log&side=kyoto/app.log")
        lists = page.locator("log-list")
        expect(lists.nth(1).locator(".row").first).to_be_visible()
        page.keyboard.press("g")
        expect(lists.nth(1).locator(".row", has_text="k 0").first).to_be_in_viewport()
        page.keyboard.press("/")
        page.keyboard.type("ERROR")
        page.keyboard.press("Enter")
        expect(page.get_by_role("search")).to_contain_text("45 lines")
        page.keyboard.press("n")
        expect(lists.nth(0).locator('[aria-current="true"]')).to_contain_text("ERROR r0 99")
        for _ in range(3):
            page.keyboard.press("n")
        expect(lists.nth(1).locator('[aria-current="true"]')).to_contain_text("ERROR k 99")
        expect(page.locator("log-page.leads")).to_contain_text("kyoto/app.log")
        comes_true(page, "CSS.highlights.get('hit').size > 1")
        page.keyboard.press("j")
        expect(lists.nth(1).locator('[aria-current="true"]')).to_contain_text("INFO k 100")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("g")
        expect(lists.nth(0).locator(".row", has_text="r0 0").first).to_be_in_viewport()
        expect(lists.nth(1).locator(".row", has_text="k 0").first).to_be_in_viewport()
        tab.is_clean()


def test_logs_that_grow_side_by_side_share_one_stream(browser: Browser, place: Place) -> None:
    receiver = place.serve()
    logs = [place.directory / name / "app.log" for name in ("a", "b")]
    for log in logs:
        log.parent.mkdir()
        log.write_bytes(timed(log.parent.name, 10, 1))
    sidecars = [place.sidecar(receiver, root=log.parent, site=log.parent.name) for log in logs]
    web = Web(place, "--receiver", receiver.address)
    with tab_of(browser, web) as tab:
        tails: list[str] = []
        tab.page.on("request", lambda request: tails.append(request.url) if request.url.endswith("/api/tail") else None)
        for name in "ab":
            receiver.gets(timed(name, 10, 1), "app.log", name)
        page = tab.show("/run/run-1?side=a/app.log&side=b/app.log")
        for name, log in zip("ab", logs, strict=True):
            expect(page.locator(".row", has_text=f" {name} 9")).to_be_in_viewport()
            append(log, f"more of {name}\n".encode())
        for name in "ab":
            expect(page.locator(".row", has_text=f"more of {name}")).to_be_in_viewport()
        assert len(tails) <= 2
        sidecars[0].tell(signal.SIGTERM)  # its log ends
        expect(page.get_by_role("button", name="Following")).to_have_count(1)
        append(logs[1], b"the last of b\n")
        expect(page.locator(".row", has_text="the last of b")).to_be_in_viewport()
        tab.is_clean()


def numbers(page: Page, name: str) -> list[int]:
    """The numbers in the lines of *name* that the page holds."""
    return [int(text.rpartition(" ")[2]) for text in held(page) if f" {name} " in text]


RANGE = f"from={int(1000 * BEGIN.timestamp()) + 600_000}&to={int(1000 * BEGIN.timestamp()) + 720_000}"  # 08:10 to 08:12


def test_a_range_shows_the_lines_of_its_time_alone_and_is_searched_alone(browser: Browser, timed_logs: Web) -> None:
    with tab_of(browser, timed_logs) as tab:
        page = tab.show(f"/run/run-1?merged=time&{RANGE}")
        chip = page.get_by_role("link", name="08:10:00 to 08:12:00: show all times")
        expect(chip).to_be_visible()
        for key, text in (("G", "r0 719"), ("g", "r0 600")):
            page.keyboard.press(key)
            expect(page.locator(".row", has_text=text)).to_be_in_viewport()
            comes_true(page, "(({ source }) => source.first && source.last)(document.querySelector('log-page'))")
            assert numbers(page, "r0") == list(range(600, 720))
            assert numbers(page, "r1") == list(range(300, 360))
            assert numbers(page, "k") == list(range(150, 180))
        page.keyboard.press("/")
        page.keyboard.type("INFO")
        page.keyboard.press("Enter")
        expect(page.get_by_role("search")).to_contain_text("209 lines")  # one of 210 is an error
        chip.click()
        expect(chip).to_be_hidden()
        expect(page.locator(".row", has_text="r0 600")).to_be_in_viewport()

        page = tab.show(f"/run/run-1/berlin/rank-0.log?{RANGE}")
        expect(page.locator(".row .number").first).to_have_text("601")
        page.keyboard.press("G")
        expect(page.locator(".row", has_text="r0 719")).to_be_in_viewport()
        page.get_by_label("Level").select_option("error")
        expect(page.locator(".row", has_text="INFO")).to_have_count(0)
        expect(page.locator(".row", has_text="r0 699").locator(".number")).to_have_text("700")
        assert numbers(page, "r0") == [699]
        page.keyboard.press("g")
        page.keyboard.press(":")
        page.get_by_role("textbox", name="Place").fill("08:20 to 08:21")
        page.keyboard.press("Enter")
        expect(page.get_by_role("link", name="08:20:00 to 08:21:00: show all times")).to_be_visible()
        expect(page.locator(".row", has_text="ERROR r0 1199")).to_have_count(0)
        tab.is_clean()
