"""Several logs in one list, in Chromium: rows that a level hides, rows that come back, and marked rows."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from integration.harness.places import Place, append, new_place
from integration.web.browsing import Tab, Web, comes_true, filled, held, tab_of

BY_TIME = "/run/run-1?merged=time"
BEGIN = datetime(2026, 11, 20, 8, tzinfo=UTC)
LINES = {"a": (40_000, 0.1, 4000), "b": (2000, 2.0, 100)}  # how many, seconds between them, and between errors
ERRORS = 30


def lines(name: str, count: int, step: float, every: int) -> bytes:
    """Every *every*-th line is an error."""
    return b"".join(
        b"%s %s %s %d\n"
        % (
            f"{BEGIN + timedelta(seconds=number * step):%Y-%m-%d %H:%M:%S.%f}".encode(),
            b"INFO" if (number + 1) % every else b"ERROR",
            name.encode(),
            number,
        )
        for number in range(count)
    )


def number(text: str) -> str:
    return text.split(" ", 3)[-1]


@pytest.fixture(scope="module")
def two(browser: Browser) -> Iterator[Web]:
    """Two ended logs of LINES, larger than a page."""
    with new_place() as place:
        receiver = filled(place, {f"site-{name}/app.log": lines(name, *what) for name, what in LINES.items()})
        yield Web(place, "--receiver", receiver.address)


def row(page: Page, text: str) -> Locator:
    return page.locator("log-list .row", has_text=text)


class Held:
    """Requests of *page* that wait until they are released, except the first ones."""

    def __init__(self, page: Page, path: str, passed: int = 0) -> None:
        self._passed, self._held = passed, list[Route]()
        page.route(f"**{path}", lambda route: self._asked(route))

    def _asked(self, route: Route) -> None:
        if self._passed > 0:
            self._passed -= 1
            route.continue_()
        else:
            self._held.append(route)

    def let_go(self) -> None:
        self._passed = sys.maxsize
        for route in self._held:
            route.continue_()


def all_errors(page: Page) -> list[str]:
    """The texts of the list's rows, without notes, once there are as many as the logs have errors."""
    shown = 'document.querySelector("log-list").lines.view().map(({ row }) => row).filter((row) => !(row[4] & 2))'
    comes_true(page, f"{shown}.length === {ERRORS}")
    found: list[str] = page.evaluate(f"{shown}.map((row) => row[3])")
    return found


def test_the_errors_of_several_logs_are_all_there_and_the_last_on_the_screen(browser: Browser, two: Web) -> None:
    with tab_of(browser, two) as tab:
        page = tab.show(BY_TIME)
        page.get_by_label("Level").select_option("error")
        found = all_errors(page)
        assert found == sorted(found)
        assert all(" ERROR " in text for text in found)
        expect(row(page, "ERROR b 1999")).to_be_in_viewport()
        expect(row(page, "ERROR a 39999")).to_be_in_viewport()
        page.keyboard.press("g")
        expect(row(page, "ERROR b 99").last).to_be_in_viewport()
        assert all_errors(page) == found
        tab.is_clean()


def test_the_next_error_is_one_of_the_merged_logs(browser: Browser, two: Web) -> None:
    with tab_of(browser, two) as tab:
        page = tab.show(f"{BY_TIME}&log=site-b/app.log&log=site-a/app.log")
        page.keyboard.press("g")
        for text in ("ERROR b 99", "ERROR b 199", "ERROR a 3999"):  # the last one is not among the first rows
            page.keyboard.press("e")
            expect(page.locator("log-list .row.open")).to_contain_text(text)
            expect(page.locator("log-list .row.open")).to_be_in_viewport()
        expect(row(page, "INFO a 3998")).to_be_in_viewport()  # what is above it
        expect(page).to_have_url(re.compile(r"merged=time"))
        tab.is_clean()


@pytest.mark.parametrize("late", [False, True])
def test_a_level_keeps_the_place_in_merged_logs(browser: Browser, two: Web, late: bool) -> None:
    def asked(route: Route) -> None:
        """The first answer has no row of the level yet, as from a server that is slow to read."""
        assert route.request.post_data_json
        places = route.request.post_data_json["after"]
        route.fulfill(json=route.fetch().json() | {"rows": [], "over": False, "before": places, "after": places})

    with tab_of(browser, two) as tab:
        page = tab.show(f"{BY_TIME}&time={int(BEGIN.timestamp() * 1000) + 1_200_000}")
        expect(row(page, "INFO a 12000")).to_be_in_viewport()
        if late:
            comes_true(page, 'document.querySelector("log-page").stay.loading === false')
            page.route("**/api/merged", asked, times=1)
        page.get_by_label("Level").select_option("error")
        assert len(all_errors(page)) == ERRORS  # all of them, from the beginning on, are on the screen
        page.get_by_label("Level").select_option("")
        expect(row(page, "INFO a 12000")).to_be_in_viewport()
        tab.is_clean()


def test_a_line_of_merged_logs_leads_to_its_log(browser: Browser, two: Web) -> None:
    with tab_of(browser, two) as tab:
        page = tab.show(f"{BY_TIME}&time={int(BEGIN.timestamp() * 1000)}")
        row(page, "INFO a 7").first.locator(".tag").click()
        expect(page).to_have_url(re.compile(r"/run/run-1/site-a/app\.log#bytes="))
        expect(page.locator("log-list .row.open")).to_contain_text("INFO a 7")
        page.go_back()
        row(page, "INFO b 0").first.locator(".text").click()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(r"/run/run-1/site-b/app\.log#bytes=0-"))
        expect(page.locator("log-list .row.open")).to_contain_text("INFO b 0")
        tab.is_clean()


def test_logs_that_repeat_another_one_are_marked_and_merged_only_if_named(browser: Browser, place: Place) -> None:
    names = ("error_log.txt", "log.json", "log.txt", "log_fl.txt")
    logs = {f"kyoto/{name}": f"the one line, in {name}\n".encode() for name in names}
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        page = tab.show(BY_TIME)
        expect(row(page, "the one line")).to_have_text(re.compile("in log.txt$"))
        expect(page.locator(".status .told")).to_have_text(
            "log.json, error_log.txt and log_fl.txt repeat lines of log.txt and are left out;"
            " each opens from the page of its run"
        )
        page = tab.show(f"{BY_TIME}&log=kyoto/log.json&log=kyoto/log.txt")
        expect(row(page, "the one line")).to_have_count(2)
        page = tab.open("/run/run-1")
        page.get_by_role("button", name=re.compile("4 logs")).click()
        expect(page.get_by_text("repeats log.txt")).to_have_count(3)
        tab.is_clean()


@pytest.mark.soak
def test_it_is_said_how_far_a_level_is_looked_for(browser: Browser, two: Web) -> None:
    with tab_of(browser, two) as tab:
        page = tab.show(BY_TIME)
        questions = Held(page, "/api/merged", passed=1)
        page.get_by_label("Level").select_option("error")
        expect(page.locator(".status .where")).to_contain_text("Looking for errors")
        questions.let_go()
        expect(page.locator(".status")).not_to_contain_text("Looking for")
        tab.is_clean()


@pytest.mark.soak
def test_rows_that_were_given_up_while_one_read_on_come_back(browser: Browser, two: Web) -> None:
    with tab_of(browser, two) as tab:
        page = tab.show(BY_TIME)
        expect(row(page, "INFO a 39998")).to_be_in_viewport()
        scroll = "document.querySelector('log-list').scrollTop = {}"
        for to, over in (("0", "!source.last"), ("1e9", "!source.first && source.last"), ("0", "source.first")):
            expression = f"({scroll.format(to)}, (({{ source, list }}) => {over})(document.querySelector('log-page')))"
            comes_true(page, expression)
            times = [text[:26] for text in held(page) if text.startswith("2026")]
            assert times == sorted(times)
            for name in LINES:
                its = [int(text.rpartition(" ")[2]) for text in held(page) if f" {name} " in text]
                assert its == list(range(its[0], its[-1] + 1)), (to, name)
        tab.is_clean()


@pytest.mark.soak
def test_a_site_of_more_logs_than_are_merged_shows_the_first_ones_and_says_so(browser: Browser, place: Place) -> None:
    logs = {f"kyoto/rank-{n}.log": b"a line of %d\n" % n for n in range(70)} | {"oslo/app.log": b"of another site\n"}
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        page = tab.open("/run/run-1")
        page.get_by_role("link", name="kyoto", exact=True).click()
        expect(page).to_have_url(tab.web.url("/run/run-1?merged=time&site=kyoto"))
        expect(page).to_have_title("all logs of kyoto, by time – run-1 – flarelog")
        expect(page.locator(".told")).to_have_text(
            "The first 64 by name are merged, without 6 more logs: choose fewer."
        )
        shown = [text for text in held(page) if "line" in text]
        assert sorted(shown) == sorted(f"a line of {n}" for n in range(64))
        tab.is_clean()


def test_lines_that_come_while_the_page_opens_its_stream_are_shown(browser: Browser, place: Place) -> None:
    receiver = place.serve()
    append(place.log, begun := lines("a", 500, 1, 10_000))
    place.sidecar(receiver)
    receiver.gets(begun)
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.page
        questions = Held(page, "/api/tail")
        tab.show(BY_TIME)
        comes_true(page, "document.querySelector('log-page').live")
        expect(row(page, "INFO a 499")).to_be_in_viewport()
        append(place.log, lines("a", 510, 1, 10_000)[len(begun) :])
        receiver.gets(lines("a", 510, 1, 10_000))
        questions.let_go()
        expect(row(page, "INFO a 509")).to_be_in_viewport()
        assert [number(text) for text in held(page)][-10:] == [f"a {n}" for n in range(500, 510)]


def test_the_note_of_a_log_that_ended_long_ago_stands_behind_its_last_line(browser: Browser, place: Place) -> None:
    receiver = filled(place, {"site-0/old.log": lines("a", 20, 1, 10_000)})
    append(place.log, begun := lines("b", 1000, 1, 10_000)[len(lines("b", 100, 1, 10_000)) :])
    place.sidecar(receiver)
    receiver.gets(begun)
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show(BY_TIME)
        expect(row(page, "INFO b 999")).to_be_in_viewport()
        comes_true(page, "document.querySelector('log-page').live")
        append(place.log, more := lines("b", 1005, 1, 10_000)[len(lines("b", 1000, 1, 10_000)) :])
        receiver.gets(begun + more)
        expect(row(page, "INFO b 1004")).to_be_in_viewport()
        assert [number(text) for text in held(page)][-20:] == [f"b {n}" for n in range(985, 1005)]
        page.keyboard.press("g")
        expect(row(page, "INFO a 0").first).to_be_in_viewport()
        comes_true(page, 'document.querySelector("log-list").lines.rows.length > 100')
        *above, note, below = held(page)[:22]
        assert [number(text) for text in (*above, below)] == [*(f"a {n}" for n in range(20)), "b 100"]
        assert "ended at" in note, note
        tab.is_clean()


class TwoSites:
    """Two logs that a sidecar each sends, with lines in turn, and rests of one that come late."""

    def __init__(self, place: Place) -> None:
        self.receiver = place.serve()
        self.roots = {name: place.directory / f"site-{name}" for name in "ab"}
        self.count = 0
        for root in self.roots.values():
            root.mkdir()
        self.write(300)
        self.sidecars = {
            name: place.sidecar(self.receiver, root=root, site=f"site-{name}") for name, root in self.roots.items()
        }
        self.arrived("ab")

    def file(self, name: str) -> Path:
        return self.roots[name] / "app.log"

    def write(self, count: int) -> None:
        """Append *count* steps to both logs; each has a line without a time behind it."""
        for n in range(self.count, self.count + count):
            for at, name in enumerate("ab"):
                time = BEGIN + timedelta(milliseconds=100 * n + 40 * at)
                append(self.file(name), f"{time:%Y-%m-%d %H:%M:%S.%f} INFO {name} {n}\n  of {name} {n}\n".encode())
        self.count += count

    def arrived(self, names: str) -> None:
        for name in names:
            self.receiver.gets(self.file(name).read_bytes(), site=f"site-{name}")


def test_lines_of_a_site_that_come_late_stand_where_a_reload_shows_them(browser: Browser, place: Place) -> None:
    sites = TwoSites(place)
    with tab_of(browser, Web(place, "--receiver", sites.receiver.address)) as tab:
        page = tab.show(BY_TIME)
        comes_true(page, "document.querySelector('log-page').live")
        expect(row(page, "INFO b 299")).to_be_in_viewport()
        sites.sidecars["b"].tell(signal.SIGSTOP)
        sites.write(100)
        sites.arrived("a")
        expect(row(page, "INFO a 399")).to_be_in_viewport()
        page.keyboard.press("f")
        page.mouse.move(400, 400)
        page.mouse.wheel(0, -600)
        expect(page.get_by_role("button", name="Follow", exact=True)).to_be_visible()
        comes_true(page, "!document.querySelector('log-list').drawing")
        page.wait_for_timeout(300)
        first = """() => {
            const list = document.querySelector("log-list");
            return [list.seen().first.row[3], Math.round(list.scrollTop % list.height)].join();
        }"""
        before = page.evaluate(first)
        sites.sidecars["b"].tell(signal.SIGCONT)
        sites.arrived("b")
        comes_true(page, "document.querySelector('log-list').lines.rows.some((row) => row[3] === '  of b 399')")
        assert page.evaluate(first) == before
        page.keyboard.press("G")
        expect(row(page, "of b 399")).to_be_in_viewport()
        comes_true(page, "history.state?.place === null")
        late = held(page)[-400:]
        page.reload()
        expect(row(page, "of b 399")).to_be_in_viewport()
        assert late == held(page)[-400:]
        tab.is_clean()


def test_lines_that_come_so_late_that_the_page_is_behind_them_are_there_when_it_scrolls_up(
    browser: Browser, place: Place
) -> None:
    sites = TwoSites(place)
    with tab_of(browser, Web(place, "--receiver", sites.receiver.address)) as tab:
        page = tab.show(BY_TIME)
        comes_true(page, "document.querySelector('log-page').live")
        sites.sidecars["b"].tell(signal.SIGSTOP)
        sites.write(3000)
        sites.arrived("a")
        expect(row(page, "of a 3299")).to_be_in_viewport()
        sites.sidecars["b"].tell(signal.SIGCONT)
        sites.arrived("b")
        expect(row(page, "of b 3299")).to_be_in_viewport()
        page.mouse.move(400, 400)
        for _ in range(4):
            page.mouse.wheel(0, -100_000)
            comes_true(page, "(({ source, stay }) => !stay.loading)(document.querySelector('log-page'))")
            page.wait_for_timeout(200)
        times = [text[:26] for text in held(page) if text.startswith("2026")]
        assert times == sorted(times)
        for name in "ab":
            its = [int(text.rpartition(" ")[2]) for text in held(page) if f"INFO {name} " in text]
            assert its == list(range(its[0], 3300)), name
        tab.is_clean()


@pytest.mark.soak
def test_a_time_to_the_millisecond_is_gone_to(browser: Browser, two: Web) -> None:
    with tab_of(browser, two) as tab:
        page = tab.show("/run/run-1/site-a/app.log")
        page.keyboard.press(":")
        page.keyboard.type(f"{BEGIN + timedelta(seconds=1234.5):%H:%M:%S}.500")
        page.keyboard.press("Enter")
        expect(page.locator('[aria-current="true"] .text')).to_have_text(re.compile(" a 12345$"))
        tab.is_clean()


def test_a_search_in_merged_logs_goes_on_from_the_screen_by_time(browser: Browser, two: Web) -> None:
    with tab_of(browser, two) as tab:
        page = tab.show("/run/run-1?merged=time")
        page.keyboard.press(":")
        page.keyboard.type(f"{BEGIN + timedelta(seconds=1234.5):%H:%M:%S}.500")
        page.keyboard.press("Enter")
        expect(row(page, " a 12345")).to_be_in_viewport()
        first = page.evaluate('document.querySelector("log-list").seen().first.row[3]')
        name, at = first.split()[-2:]
        page.keyboard.press("/")
        page.get_by_label("Search", exact=True).fill("ERROR")
        page.keyboard.press("Enter")
        expect(page.locator(".found")).to_have_text(re.compile("^30 lines"))
        page.keyboard.press("n")
        seconds = int(at) * LINES[name][1]
        errors = [
            (n * step, one, n) for one, (_, step, every) in LINES.items() for n in range(every - 1, 40_000, every)
        ]
        _, name, wanted = min(error for error in errors if error[0] > seconds)
        expect(page.locator('[aria-current="true"] .text')).to_have_text(re.compile(f" ERROR {name} {wanted}$"))
        tab.is_clean()


def test_a_mark_goes_on_over_the_lines_of_other_logs(browser: Browser, two: Web) -> None:
    with tab_of(browser, two) as tab:
        page = tab.show(BY_TIME)
        row(page, "INFO a 39977").click()
        for _ in range(6):
            page.keyboard.press("Shift+J")
        marked = page.locator(".row.marked")
        expect(marked).to_have_text([re.compile(f"INFO a {n}$") for n in range(39977, 39984)])
        row(page, "ERROR b 1999").click(modifiers=["Shift"])
        expect(page.locator(".told")).to_have_text("A mark stays within one log.")
        expect(marked).to_have_count(7)
        for _ in range(2):
            page.keyboard.press("Shift+K")
        expect(page.locator('[aria-current="true"]')).to_contain_text("INFO a 39981")
        tab.is_clean()


def test_a_page_that_is_gone_back_to_or_loaded_anew_shows_its_place(tab: Tab) -> None:
    first = """() => {
        const list = document.querySelector("log-list");
        return list.seen()?.first.row.slice(0, 3).join();
    }"""
    for path in ("/run/run-1?merged=time", "/run/run-1/berlin/train.log"):
        page = tab.show(path)
        page.keyboard.press("g")
        comes_true(page, 'document.querySelector("log-list").seen()?.before === 0')
        for _ in range(3):
            page.keyboard.press("Space")
        comes_true(page, 'document.querySelector("log-list").seen()?.before > 40 && history.state?.place')
        place = page.evaluate(first)
        page.get_by_role("link", name="run-1", exact=True).click()
        expect(page.get_by_role("heading", name="run-1")).to_be_visible()
        page.go_back()
        comes_true(page, f"({first})() === {place!r}")
        page.reload()
        comes_true(page, f'document.querySelector("log-list") && ({first})() === {place!r}')


def test_a_clock_that_differs_is_told_beside_logs_merged_by_time(tab: Tab) -> None:
    sentence = "the clock of kyoto is 3600.0 s ahead of the receiver's: its lines are ordered by the receiver's clock"

    def asked(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"clocks": [sentence]})

    tab.page.route("**/api/merged", asked)
    page = tab.show("/run/run-1?merged=time")
    expect(page.get_by_role("status").filter(has_text=f"{sentence}.")).to_be_visible()


@pytest.mark.soak
def test_a_page_that_is_loaded_anew_behind_another_run_of_its_name_shows_that_run(
    browser: Browser, place: Place
) -> None:
    old = {f"site-1/{name}": lines(name[0], 300, 1.0, 100) for name in ("app.log", "two.log")}
    receiver = filled(place, old)
    root = place.directory / "site-of-site-1"
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.show("/run/run-1?merged=time")
        page.keyboard.press("g")
        comes_true(page, 'document.querySelector("log-list").seen()?.before === 0 && history.state?.place')
        assert place.call("rm", "run-1", "--receiver", receiver.address, "--yes").ends() == 0
        (root / "two.log").unlink()
        for name in ("app.log", "three.log"):
            (root / name).write_bytes(b"2026-11-20 08:00:00 INFO of another run\n" * 3)
        assert place.sidecar(receiver, "--once", root=root).ends() == 0
        page.reload()
        expect(page.locator("log-list .row", has_text="of another run")).to_have_count(6)
        expect(page.get_by_role("alert")).to_be_hidden()
        tab.complaints.clear()  # the answer 404


@pytest.mark.soak
def test_a_log_that_is_not_there_is_shown_once_it_is(browser: Browser, place: Place) -> None:
    receiver = place.serve()
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.open("/run/run-1/site-1/app.log")
        expect(page.get_by_role("alert")).to_contain_text("there is no log")
        append(place.log, b"begin\n")
        place.sidecar(receiver)
        expect(row(page, "begin")).to_be_visible()
        expect(page.get_by_role("alert")).to_be_hidden()
        tab.complaints.clear()  # the answers 404


def found(page: Page) -> Locator:
    return page.locator("search-bar output.found")


def searched(tab: Tab, order: str) -> Page:
    """The beginning of the logs merged by *order*, whose errors were searched for."""
    page = tab.show(f"/run/run-1?merged={order}#find=+ERROR+")
    expect(found(page)).to_have_text("30 lines")
    page.locator("log-list").focus()
    page.keyboard.press("g")
    expect(row(page, "a 0")).not_to_have_count(0)
    return page


@pytest.mark.parametrize("order", ["time", "arrival"])
def test_a_search_in_merged_logs_stays_in_them_and_its_address_finds_the_same(
    browser: Browser, two: Web, order: str
) -> None:
    with tab_of(browser, two) as tab:
        page = searched(tab, order)
        wanted = {"time": ["ERROR b 99", "ERROR b 199", "ERROR a 3999"], "arrival": ["ERROR"] * 3}[order]
        for text in wanted:
            page.keyboard.press("n")
            expect(page.locator("log-list .row.open")).to_contain_text(text)
            expect(page.locator("log-list .row.open")).to_be_in_viewport()
        expect(page).to_have_url(re.compile(rf"merged={order}#find="))
        if order == "time":
            expect(found(page)).to_have_text("Hit 3 of 30")
        page.locator("ol.hits a").nth(5).click()
        expect(page).to_have_url(re.compile(r"/app\.log#bytes="))
        page.go_back()
        expect(found(page)).to_have_text(re.compile("30"))
        page.goto("about:blank")
        page = tab.open(f"/run/run-1?merged={order}#find=+ERROR+&only=1")
        expect(page.locator("ol.hits li")).to_have_count(30)
        tab.is_clean()


def test_a_step_to_the_next_hit_is_not_undone_by_lines_that_the_step_before_waited_for(
    browser: Browser, two: Web
) -> None:
    with tab_of(browser, two) as tab:
        page = searched(tab, "time")
        page.keyboard.press("n")
        opened = page.locator("log-list .row.open")
        expect(opened).to_contain_text("ERROR b 99")
        earlier = Held(page, "/api/merged", passed=1)
        page.keyboard.press("n")
        expect(opened).to_contain_text("ERROR b 199")
        page.keyboard.press("n")
        expect(opened).to_contain_text("ERROR a 3999")
        earlier.let_go()
        comes_true(page, 'document.querySelector("log-page").stay.loading === false')
        expect(opened).to_contain_text("ERROR a 3999")
        expect(found(page)).to_have_text("Hit 3 of 30")
