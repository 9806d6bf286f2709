"""The pages of all runs and of one run in Chromium: states, bars, the first trouble, and the link to it."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from flarelog.lifecycle import RunState
from flarelog.model import State, StreamId, StreamInfo, Unread
from flarelog.viewers.web.overview import run_record
from integration.harness.places import SITE, Place, Receiver, append, until
from integration.web.browsing import Tab, Web, comes_true, filled, held, numbered, tab_of
from tests.certificates import Authority

TOGETHER = 150  # ms that the page's sites wait for errors
_MOVES = f"""
    window.moves = [];
    new PerformanceObserver((list) => {{
        const moved = list.getEntries().map((one) => one.sources.map(({{ node }}) => node?.className ?? ""));
        window.moves.push(...moved);
    }}).observe({{ type: "layout-shift", buffered: true }});
    const real = window.setTimeout;  // a machine under load takes longer for the answer, too
    window.setTimeout = (what, ms, ...rest) => real(what, ms === {TOGETHER} ? 20_000 : ms, ...rest);
"""


def test_runs_lead_to_sites_and_sites_to_logs(tab: Tab) -> None:
    page = tab.open("/")
    page.get_by_role("link", name="run-1").click()
    expect(page).to_have_title("run-1 – flarelog")
    kyoto = page.get_by_role("row").filter(has=page.get_by_role("link", name="kyoto"))
    expect(kyoto).to_contain_text("ended: receipt")
    kyoto.get_by_role("button", name="2 logs").click()
    page.get_by_role("link", name="colours.log").click()
    expect(page).to_have_url(tab.web.url("/run/run-1/kyoto/colours.log"))
    expect(page.locator("log-list .row", has_text="the end")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="run-1")).to_be_visible()


def test_what_somebody_else_was_shown_is_gone_once_another_one_has_logged_in(browser: Browser, place: Place) -> None:
    receiver, ca = with_tokens(place)
    names = {
        name: place.token(name, "--runs", runs).read_text().strip() for name, runs in (("a", "*"), ("b", "other-*"))
    }
    web = Web(place, "--receiver", receiver.reader_address, "--tls-ca", ca)
    tab = Tab(browser, web)
    page = tab.open("/run/run-1/site-1/app.log")
    shown = page.locator("log-list .row", has_text="begin")
    for token in ("a", "a", "b"):  # a new login continues at the same place
        page.get_by_label("Token").fill(names[token])
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("dialog.login")).to_have_count(0)
        if token == "a":
            expect(shown).to_be_visible()
            page.evaluate("document.body.dataset.seen = true")
            tab.context.clear_cookies()
            page.keyboard.press("g")
            expect(page.locator("dialog.login")).to_be_visible()
            assert page.evaluate("document.body.dataset.seen") == "true"
    expect(page.locator(".trouble")).to_contain_text("may not")
    expect(shown).to_have_count(0)
    tab.close()


def with_tokens(place: Place) -> tuple[Receiver, str]:
    """A receiver with tokens and a log of one line; and the file of its CA."""
    ca = Authority.new(place.directory / "certs")
    own, site = (ca.issue(name, hosts=("127.0.0.1",)) for name in ("receiver", SITE))
    tls = [("--tls-ca", one.ca, "--tls-cert", one.cert, "--tls-key", one.key) for one in (own, site)]
    receiver = place.serve(*tls[0], "--reader-listen", "127.0.0.1:0")
    append(place.log, b"begin\n")
    place.sidecar(receiver, *tls[1])
    receiver.gets(b"begin\n")
    return receiver, str(own.ca)


@pytest.mark.soak
def test_a_login_that_covers_no_stored_run_is_not_told_that_none_is_stored(browser: Browser, place: Place) -> None:
    receiver, ca = with_tokens(place)
    other = place.token("other", "--runs", "other-*")
    nothing = "There is no run that this login may read: none is stored yet, or the login is for other runs."
    web = Web(place, "--receiver", receiver.reader_address, "--tls-ca", ca, "--token-file", str(other))
    for token in (other.read_text().strip(), ""):
        tab = Tab(browser, web)
        page = tab.open("/") if token else tab.page
        if token:
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Log in").click()
        else:
            page.goto(web.login())
        expect(page.locator(".empty")).to_have_text(nothing)
        tab.close()


@pytest.mark.soak
def test_a_store_without_runs_says_how_one_comes(browser: Browser, place: Place) -> None:
    with tab_of(browser, Web(place, "--receiver", place.serve().address)) as tab:
        expect(tab.page.locator(".empty")).to_have_text(
            "No run is stored here yet. flarelog run -- COMMAND sends the first one."
        )


def test_the_first_error_of_all_sites_is_shown_and_one_key_goes_there(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    first = page.get_by_role("region", name="First error")
    expect(first).to_contain_text("No space left on device")
    expect(first).to_contain_text(re.compile(r"berlin/train\.log at 2026-11-20 \d\d:\d\d:\d\d UTC"))
    first.get_by_role("link", name="Show it").click()
    expect(page.locator(".row.marked").first).to_be_in_viewport()
    tab.show("/run/run-1/kyoto/rank-1.log")
    page.keyboard.press("E")
    expect(page).to_have_url(re.compile("/berlin/train.log#bytes="))
    expect(page.locator(".row.marked").first).to_be_in_viewport()


@pytest.mark.soak
def test_the_newest_wish_for_an_error_wins(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    expect(page.get_by_role("region", name="First error")).to_contain_text("berlin/train.log")
    tab.show("/run/run-1/lyon/long.log")
    waiting: list[Route] = []
    page.route("**/api/window", lambda route: waiting.append(route) if asks_for_errors(route) else route.continue_())
    page.keyboard.press("e")
    comes(page, waiting)  # otherwise the first request may be cancelled before it is sent
    page.keyboard.press("E")
    expect(page).to_have_url(re.compile("/berlin/train.log#bytes="))
    address = page.url
    (route,) = waiting
    line = json.dumps({"rows": [[0, 0, 6, "short", 4]], "from": 0, "to": 6, "committed": 6})
    route.fulfill(body=line, content_type="application/json")
    page.evaluate("fetch('/api/me').then((answer) => answer.text())")  # answered after the other request
    expect(page).to_have_url(address)


@pytest.mark.soak
def test_a_wish_for_the_next_error_that_waits_for_its_place_gives_way_to_the_first_error(tab: Tab) -> None:
    page = tab.show("/run/run-1/lyon/long.log")
    places: list[Route] = []
    firsts: list[Route] = []
    page.route("**/api/window", lambda route: places.append(route) if not asks_for_errors(route) else route.continue_())
    page.route("**/api/first-error?*", lambda route: firsts.append(route))
    page.keyboard.press("g")
    comes(page, places)
    page.keyboard.press("e")
    page.keyboard.press("E")
    comes(page, firsts)
    with page.expect_response("**/api/window"):
        places[0].continue_()
    page.evaluate("fetch('/api/me').then((answer) => new Promise(requestAnimationFrame))")  # the place is drawn by then
    firsts[0].continue_()
    expect(page).to_have_url(re.compile("/berlin/train.log#bytes="))


@pytest.mark.soak
def test_a_browser_stays_logged_in_at_two_pages_of_one_host(browser: Browser, place: Place) -> None:
    receiver = filled(place, {"kyoto/app.log": numbered(5)})
    first, second = (Web(place, "--receiver", receiver.address) for _ in range(2))
    with tab_of(browser, first) as tab:
        tab.page.goto(second.login())
        expect(tab.page.get_by_role("link", name="run-1")).to_be_visible()  # otherwise the next page ends the login
        for web in (second, first):
            tab.page.goto(web.url("/"))
            expect(tab.page.get_by_role("link", name="run-1")).to_be_visible()
            expect(tab.page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.soak
def test_a_login_address_is_taken_in_a_tab_that_asks_for_a_login(browser: Browser, place: Place) -> None:
    web = Web(place, "--receiver", filled(place, {"kyoto/app.log": numbered(10)}).address)
    context = browser.new_context()
    page = context.new_page()
    page.goto(web.url("/run/run-1"))
    dialog = page.locator("dialog.login")
    expect(dialog).to_be_visible()
    page.goto(web.url("/run/run-1#login=1.x.y"))
    expect(dialog).to_contain_text("this login has expired or was used")
    page.goto(web.url(f"/run/run-1#{web.login().partition('#')[2]}"))
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("link", name="kyoto")).to_be_visible()
    assert page.evaluate("location.hash") == ""
    context.close()


def comes(page: Page, waiting: list[Route]) -> None:
    """Wait until *waiting* holds a request of the page."""

    def came() -> bool:
        page.wait_for_timeout(20)
        return bool(waiting)

    until(came, "the page asks")


def asks_for_errors(route: Route) -> bool:
    return '"level":"error"' in (route.request.post_data or "")


def test_how_the_sites_machines_fare_is_behind_a_summary(browser: Browser, place: Place) -> None:
    with tab_of(browser, Web(place, "--receiver", filled(place, {"kyoto/app.log": numbered(5)}).address)) as tab:
        page = tab.open("/run/run-1")
        machines = page.get_by_role("region", name="Machines")
        expect(machines).to_be_visible()
        expect(machines.locator("table").first).to_be_hidden()
        machines.get_by_text("Machines").click()
        worst = machines.get_by_role("table", name="At their worst")
        expect(worst.get_by_role("columnheader").nth(1)).to_have_text("Memory")
        expect(worst.get_by_role("row").nth(1)).to_contain_text("GiB")
        tab.is_clean()


@pytest.mark.soak
def test_logs_that_the_receiver_refused_are_told_of_a_run_and_in_the_list_of_runs(
    browser: Browser, place: Place
) -> None:
    receiver, root = place.serve("--max-site-logs", "1"), place.directory / "logs"
    root.mkdir()
    for name in ("a.log", "b.log"):
        append(root / name, numbered(5))
    place.sidecar(receiver, root=root)
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.open("/run/run-1")
        told = page.get_by_role("list", name="What is not stored")
        expect(told.get_by_role("listitem")).to_have_count(1)
        expect(told).to_contain_text("nothing is stored of 1 log: ")
        expect(told).to_contain_text("--max-site-logs")
        page = tab.open("/")
        expect(page.get_by_role("row").nth(1).get_by_role("cell").nth(2)).to_have_text("1 log")
        tab.is_clean()


@pytest.mark.soak
def test_findings_that_are_alike_are_told_once_with_all_their_places(browser: Browser, place: Place) -> None:
    oom = b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    begun = b"2026-11-20 08:00:0%d INFO begins\n"  # the lines give the order
    logs = {f"kyoto/rank-{rank}/stderr.log": begun % rank + oom for rank in range(3)}
    logs["kyoto/rank-0/stderr.log"] += begun % 9 + oom
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        page = tab.open("/run/run-1")
        others = page.get_by_role("region", name="Findings")
        expect(others.get_by_role("heading")).to_have_text("2 more findings")
        expect(page.get_by_role("region", name="First error")).to_contain_text("byte 32 (2 times)")
        expect(others.get_by_role("listitem")).to_have_count(1)
        expect(others.get_by_role("link")).to_have_text(["kyoto/rank-1/stderr.log", "kyoto/rank-2/stderr.log"])
        expect(page.get_by_text("The GPU has no memory left")).to_have_count(1)
        tab.is_clean()


def test_the_filter_shows_the_logs_that_it_finds_and_a_key_leads_to_the_first_error(
    browser: Browser, place: Place
) -> None:
    logs = {f"kyoto/worker-{n}.log": b"2026-11-20 08:00:00 INFO begins\n" for n in range(30)}
    logs["oslo/log.txt"] = b"2026-11-20 09:00:00 ERROR it failed\n"
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        page = tab.open("/run/run-1")
        expect(page.get_by_role("link", name="Show it (e)")).to_be_visible()
        rows = page.locator(".sites .body .line")
        expect(rows).to_have_count(2)
        page.get_by_label("Show sites and logs that contain").fill("worker-17")
        expect(rows).to_have_count(2)  # the site, and its log
        expect(rows.nth(1)).to_contain_text("worker-17.log")
        page.get_by_role("heading", name="run-1").click()
        page.keyboard.press("E")
        expect(page).to_have_url(re.compile("/run/run-1/oslo/log.txt#bytes=0-"))
        tab.is_clean()


def test_a_log_out_in_one_tab_takes_from_the_others_what_they_show(browser: Browser, place: Place) -> None:
    web = Web(place, "--receiver", filled(place, {"kyoto/log.txt": numbered(5)}).address)
    with tab_of(browser, web) as tab:
        page = tab.show("/run/run-1/kyoto/log.txt")
        other = tab.context.new_page()
        other.goto(web.url("/"))
        other.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in to flarelog")).to_be_visible()
        expect(page.locator("log-list .row")).to_have_count(0)
        command = f"flarelog web login --listen {web.url('').removeprefix('http://').rstrip('/')}"
        expect(page.locator("dialog.login code")).to_have_text(command)
        tab.complaints.clear()  # of the answers 401


@pytest.mark.soak
def test_many_findings_are_one_line_until_they_are_unfolded_and_leave_the_sites_on_the_screen(
    browser: Browser, place: Place
) -> None:
    oom = b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    logs = {"kyoto/log.txt": b"2026-11-20 08:00:00 INFO begins\n" + oom}
    for hour, what in enumerate(("disk failed", "lost the server", "shard is empty"), 9):
        logs[f"site-{hour}/log.txt"] = b"2026-11-20 %02d:00:00 ERROR %s\n" % (hour, what.encode())
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        page = tab.open("/run/run-1")
        found = page.get_by_role("region", name="Findings")
        expect(found.get_by_role("heading")).to_have_text("3 more findings")
        expect(found).to_contain_text("log.error (3 times)")
        expect(found.get_by_role("listitem").first).to_be_hidden()
        expect(page.get_by_role("table").get_by_role("row").nth(1)).to_be_in_viewport()
        found.get_by_role("heading").click()
        expect(found.get_by_role("listitem")).to_have_count(3)
        expect(found.get_by_role("listitem").first).to_contain_text("disk failed")
        tab.is_clean()


def test_the_errors_of_a_small_run_are_there_before_its_sites_so_that_no_link_moves(
    browser: Browser, place: Place
) -> None:
    logs = {f"site-{n}/log.txt": b"2026-11-20 08:00:0%d ERROR it failed\n" % n for n in range(3)}
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        tab.open("/run/run-1")
        expect(tab.page.get_by_role("region", name="First error")).to_be_visible()  # the receiver has looked
        tab.page.add_init_script(_MOVES)
        page = tab.open("/run/run-1")
        expect(page.get_by_role("row").nth(3)).to_be_visible()
        expect(page.get_by_role("region", name="First error")).to_be_visible()
        page.wait_for_timeout(500)  # the timeline and the machines have come
        assert page.evaluate("() => window.moves") == []
        tab.is_clean()


@pytest.mark.soak
def test_a_long_name_before_a_row_keeps_both_its_ends(browser: Browser, place: Place) -> None:
    site = "a-very-long-name-of-a-site-in-the-north"
    logs = {f"{site}/rank-{rank}/stderr.log": b"2026-11-20 08:00:00 INFO begins\n" for rank in range(2)}
    with tab_of(browser, Web(place, "--receiver", filled(place, logs).address)) as tab:
        tags = tab.show("/run/run-1?merged=time").locator("log-list .row:not(.note) .tag")
        expect(tags).to_have_text(["a-very-lon…-the-north/rank-0", "a-very-lon…-the-north/rank-1"])
        expect(tags.first).to_have_attribute("title", f"{site}/rank-0/stderr.log")
        tab.page.set_viewport_size({"width": 390, "height": 780})
        tags = tab.show("/run/run-1?merged=time").locator("log-list .row:not(.note) .tag")
        expect(tags).to_have_text(["a-…th/rank-0", "a-…th/rank-1"])
        assert tags.first.evaluate("(tag) => tag.scrollWidth <= tag.clientWidth")
        tab.is_clean()


def test_a_page_without_sites_says_why(tab: Tab) -> None:
    page = tab.open("/run/none")
    expect(page.get_by_role("alert")).to_contain_text("has no run none")
    expect(page.get_by_role("table")).to_be_hidden()
    tab.complaints.clear()  # of the answer 404
    tab.open("/run/run-1").get_by_role("searchbox", name="Show sites and logs that contain").fill("nowhere")
    expect(page.get_by_text("No site matches.")).to_be_visible()


def test_what_a_site_is_doing_is_told_in_words_a_shape_and_bars(browser: Browser, place: Place) -> None:
    receiver = place.serve()
    append(place.log, b"round 1\n")
    append(place.root / "rank-0.log", b"starting\n")
    sidecar = place.sidecar(receiver)
    receiver.gets(b"round 1\n")
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.open("/run/run-1")
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="site-1"))
        expect(row).to_contain_text("live")
        expect(page.locator(".sum")).to_have_text("running: 1 site: 1 live")
        append(place.root / "rank-0.log", b"\repoch 1:  10%|#         |\repoch 1:  40%|####      |")
        bar = page.get_by_role("progressbar")
        expect(bar).to_have_attribute("aria-valuenow", "40")
        append(place.root / "rank-0.log", b"\repoch 1:  70%|#######   |")
        expect(bar).to_have_attribute("aria-valuenow", "70")
        sidecar.kill()
        expect(row).to_contain_text("lost link")
        expect(row.locator(".state svg.bad")).to_be_visible()
        expect(row).to_contain_text("rank 0: lost link")
        tab.is_clean()


def test_a_clock_that_differs_is_told_in_the_unit_that_it_has(tab: Tab) -> None:
    clocks = {"a": 0.012, "b": -45.0, "c": 90.0, "d": 3600.0, "e": 86_400.0, "f": None}
    infos = [
        StreamInfo(StreamId("run-1", site, "a.log"), 0, 9, 0, False, state=State(linked=True, skew=skew))
        for site, skew in clocks.items()
    ]
    record = run_record("run-1", RunState.RUNNING, infos, {}, live=True)
    tab.page.route("**/api/run?*", lambda route: route.fulfill(json=record))
    page = tab.open("/run/run-1")
    told = page.locator(".body .line .skew")
    expect(told).to_have_text(["+12 ms", "\u221245.0 s", "+90.0 s", "+60 min", "+24 h 00", "\u2013"])


def test_what_is_not_stored_has_a_row_and_is_counted_as_status_counts_it(tab: Tab) -> None:
    why = "cannot be read: Permission denied"
    infos = [
        StreamInfo(StreamId("run-1", site, "a.log"), 0, 9, 0, True, (Unread(9, 0, why),) * (site == "kyoto"))
        for site in ("kyoto", "oslo")
    ]
    lacks = [
        StreamInfo(StreamId("run-1", "lyon", "n.log"), 0, 0, 0, False, unstored=why),
    ]
    record = run_record("run-1", RunState.ENDED, infos, {}, live=True, unstored=lacks)
    tab.page.route("**/api/run?*", lambda route: route.fulfill(json=record))
    page = tab.open("/run/run-1")
    expect(page.locator(".sum")).to_have_text("ended: 3 sites: 2 not stored, 1 complete")
    kyoto = page.get_by_role("row").filter(has=page.get_by_role("link", name="kyoto"))
    expect(kyoto).to_contain_text(f"not stored: more of a.log {why}")
    expect(kyoto.locator("svg.bad")).to_be_visible()
    lyon = page.get_by_role("row").filter(has_text="n.log").filter(has_text="lyon")
    expect(lyon).to_contain_text(f"not stored: {why}")
    expect(lyon.get_by_role("link")).to_have_count(0)
    tab.is_clean()


def test_lanes_show_each_site_over_time_and_a_stretch_leads_to_its_lines(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    lanes = page.get_by_role("img", name="Timeline from")
    expect(lanes).to_be_visible()
    expect(lanes).to_have_attribute("aria-label", re.compile("of 3 sites"))
    box = lanes.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + 40)
    expect(page.locator("run-lanes .said")).to_contain_text("UTC")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 40)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"merged=arrival&from=\d+&to=\d+"))
    expect(page.locator("log-list .row").first).to_be_visible()


@pytest.mark.parametrize("lanes", ["some", "none", "of-an-older-receiver"])
def test_the_links_to_the_sites_stay_where_they_are_when_the_timeline_comes(tab: Tab, lanes: str) -> None:
    waiting: list[Route] = []
    nothing: dict[str, object] = {"found": None, "findings": [], "looking": False}
    tab.page.route(re.compile("/api/(first-error|findings)"), lambda route: route.fulfill(json=nothing))
    tab.page.route("**/api/lanes?*", lambda route: waiting.append(route))
    page = tab.open("/run/run-1")
    link = page.get_by_role("link", name="kyoto")
    expect(link).to_be_visible()
    comes(page, waiting)
    before = link.bounding_box()
    said = page.locator("run-lanes .said")
    if lanes == "some":
        waiting[0].continue_()
        expect(page.get_by_role("img", name="Timeline from")).to_be_visible()
    else:
        empty = {"from": 0, "to": 0, "lanes": [], "rounds": []}
        waiting[0].fulfill(json=empty if lanes == "none" else {"error": "no"}, status=200 if lanes == "none" else 403)
        expect(said).to_have_text("No times are known.")
    assert link.bounding_box() == before
    if lanes == "of-an-older-receiver":
        tab.complaints.clear()  # the answer 403


def test_merged_logs_bear_the_names_of_their_sites(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    page.get_by_role("link", name="All logs by time").click()
    expect(page.locator("log-list .row .tag").first).not_to_be_empty()
    assert {"berlin", "lyon", "kyoto/colours.log", "kyoto/rank-1.log"} == set(
        page.evaluate('document.querySelector("log-list").names')
    )
    page.keyboard.press("g")
    expect(page.locator("log-list .row", has_text="000000 step").first).to_be_in_viewport()


@pytest.mark.soak
def test_one_rank_of_each_site_is_read_as_one_log(browser: Browser, place: Place) -> None:
    names = {f"{site}/rank-{rank}.log": rank for site in ("kyoto", "oslo") for rank in (0, 1)}
    logs = {name: numbered(20, 0, f"of {name}") for name in names} | {"kyoto/other.log": b"of no rank\n"}
    receiver = filled(place, logs)
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.open("/run/run-1")
        page.get_by_role("link", name="Rank 0 of each site").click()
        expect(page.locator("log-list .row").first).to_be_visible()
        assert Counter(text[7:] for text in held(page) if " of " in text) == {
            f"of {name}": 20 for name, rank in names.items() if rank == 0
        }
        assert page.evaluate('document.querySelector("log-list").names') == ["kyoto", "oslo"]
        tab.is_clean()


def test_many_sites_are_found_by_name(browser: Browser, place: Place) -> None:
    receiver = filled(place, {f"site-{n:03d}/log.txt": b"hello\n" for n in range(4)})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.open("/run/run-1")
        expect(page.locator(".body .line")).to_have_count(4)
        page.get_by_role("searchbox").fill("site-002")
        expect(page.locator(".body .line")).to_have_count(1)
        tab.is_clean()


@pytest.mark.soak
def test_a_page_that_is_left_asks_nothing_any_more(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    expect(page.locator(".body .line").first).to_be_visible()
    page.locator(".home").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for _ in range(2):
        with page.expect_request(re.compile("/api/runs")):
            pass
    assert [url for url in asked if "/api/run?" in url] == []


def test_the_page_asks_nobody_else(tab: Tab) -> None:
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.show("/run/run-1/berlin/train.log")
    assert [url for url in asked if not url.startswith(tab.web.url("/"))] == []
    loaded = {url.rpartition("/")[2] for url in asked if "/static/" in url}
    assert {"page.js", "page.css"} <= loaded <= {"page.js", "page.css", "icon.svg", "matcher.js"}


def test_a_page_that_was_seen_before_asks_for_no_file_of_its_own(tab: Tab) -> None:
    tab.show("/run/run-1/berlin/train.log")
    tab.show("/run/run-1/kyoto/rank-1.log")
    entries = 'performance.getEntriesByType("resource").filter((one) => one.name.includes("/static/"))'
    asked = tab.page.evaluate(f"{entries}.map((one) => [one.name.split('/').pop(), one.transferSize])")
    assert sorted(asked) == [["icon.svg", 0], ["page.css", 0], ["page.js", 0]]


def test_a_time_and_a_stretch_are_chosen_by_keys(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    expect(page.get_by_role("img", name="Timeline from")).to_be_visible()
    lanes, said = page.get_by_role("application", name="Timeline"), page.locator("run-lanes .said")
    lanes.focus()
    page.keyboard.press("ArrowRight")
    expect(said).to_have_text(re.compile(r"^berlin at \d\d:\d\d:\d\d UTC"))
    page.keyboard.press("ArrowDown")
    expect(said).to_have_text(re.compile(r"^kyoto at \d\d:\d\d:\d\d UTC"))
    page.keyboard.press("Shift+End")
    expect(said).to_have_text(re.compile(r"^kyoto from \d\d:\d\d:\d\d to \d\d:\d\d:\d\d UTC"))
    page.keyboard.press("Escape")
    expect(said).to_have_text("")
    box = lanes.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 40)
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(page).to_have_url(tab.web.url("/run/run-1"))
    page.keyboard.press("Shift+Home")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"merged=arrival&from=\d+&to=\d+"))
    expect(page.locator("log-list .row").first).to_be_visible()


def test_the_labels_of_a_short_run_differ(tab: Tab) -> None:
    tab.context.add_init_script(
        "const text = CanvasRenderingContext2D.prototype.fillText; window.drawn = [];"
        "CanvasRenderingContext2D.prototype.fillText = function (...what) {"
        " window.drawn.push(what[0]); return text.apply(this, what); };"
    )
    lane = {"site": "kyoto", "density": [1], "states": [], "marks": [], "health": None}
    record = {"from": 1_790_000_000_000, "to": 1_790_000_000_400, "lanes": [lane], "rounds": []}
    tab.page.route("**/api/lanes?*", lambda route: route.fulfill(json=record))
    page = tab.open("/run/run-1")
    expect(page.get_by_role("img", name="Timeline from")).to_be_visible()
    comes_true(page, "window.drawn.some((text) => text.includes(':'))")
    labels = [text for text in page.evaluate("window.drawn") if ":" in text]
    first = labels[: labels.index(labels[0], 1)] if labels.count(labels[0]) > 1 else labels
    assert len(set(first)) == len(first) > 3, labels


@pytest.mark.soak
def test_a_rank_is_offered_where_a_log_has_it_and_another_one_is_a_sentence(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    expect(page.get_by_role("link", name="All logs by time")).to_be_visible()
    expect(page.get_by_role("link", name="Rank 0 of each site")).to_have_count(0)
    for rank, says in (("7", "no log of run run-1 is of rank 7."), ("abc", "rank is a whole number")):
        page = tab.open(f"/run/run-1?merged=time&rank={rank}")
        expect(page.get_by_role("alert")).to_contain_text(says)
        expect(page.locator("log-page .where")).to_be_empty()
        expect(page).to_have_title(re.compile(f"^rank {rank} of each site"))
    tab.complaints.clear()  # the answers 400 and 404


@pytest.mark.parametrize(
    ("path", "says", "leads"),
    [
        ("/run/nowhere", "has no run nowhere. ", "/"),
        ("/run/nowhere/kyoto/a.log", "has no run nowhere. ", "/"),
        ("/run/nowhere?merged=time", "has no run nowhere. ", "/"),
        ("/run/%zz", "the run's name has the part '%zz'", "/"),
        ("/run/run-1/kyoto/a.log", "there is no log run-1/kyoto/a.log. ", "/run/run-1"),
        ("/run/run-1/%E0%A4%A/a.log", "the site's name is ", "/run/run-1"),
        ("/run/run-1//a.log", "the site's name is empty. ", "/run/run-1"),
        ("/?only=all", "only is one of going, bad, over. ", "/"),
        ("/?page=-1", "page is a whole number", "/"),
    ],
)
def test_an_address_that_somebody_typed_says_what_is_wrong_and_leads_on(
    tab: Tab, path: str, says: str, leads: str
) -> None:
    page = tab.open(path)
    expect(page.get_by_role("alert")).to_contain_text(says)
    expect(page.get_by_role("alert").get_by_role("link")).to_have_attribute("href", leads)
    tab.complaints.clear()  # the answers 400 and 404


def test_an_address_of_no_page_is_told_to_a_person_on_a_page(tab: Tab) -> None:
    page = tab.open("/nowhere")
    expect(page.get_by_text("There is no such address on this page")).to_be_visible()
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    assert page.request.get(tab.web.url("/nowhere")).json()["error"].endswith("flarelog web login prints a login")
    tab.complaints.clear()  # the answer 404


@pytest.mark.soak
def test_a_run_that_was_removed_is_not_counted_any_more(browser: Browser, place: Place) -> None:
    receiver = filled(place, {"kyoto/app.log": numbered(5)})
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page = tab.open("/run/run-1")
        expect(page.locator(".sum")).to_have_text(re.compile("1 site"))
        assert place.call("rm", "run-1", "--receiver", receiver.address, "--yes").ends() == 0
        expect(page.get_by_role("alert")).to_contain_text("has no run run-1")
        expect(page.locator(".sum")).to_be_empty()
        expect(page.get_by_role("table", name="Sites of")).to_be_hidden()
        page.get_by_role("alert").get_by_role("link", name="All runs").click()
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        page = tab.open("/run/run-1/kyoto/app.log")
        expect(page.get_by_role("alert").get_by_role("link")).to_have_attribute("href", "/")
        tab.complaints.clear()  # the answers 404
