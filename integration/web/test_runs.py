"""The list of many runs in Chromium: what is shown first, and what a visitor chooses and passes on by the address."""

from __future__ import annotations

import shutil

from playwright.sync_api import Browser, expect

from integration.harness.places import Place, append, until
from integration.web.browsing import Web, filled, numbered, tab_of

OOM = b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
MOVED = (
    "window.moved = 0; new PerformanceObserver((list) => { window.moved += list.getEntries().length; })"
    ".observe({ type: 'layout-shift', buffered: true });"
)
COPIES = 120


def test_of_many_runs_those_in_trouble_come_first_and_the_address_has_what_was_chosen(
    browser: Browser, place: Place
) -> None:
    receiver = filled(place, {"kyoto/app.log": numbered(5) + OOM}, run="oom")
    (place.directory / "other").mkdir()
    append(place.directory / "other" / "app.log", numbered(5))
    assert place.sidecar(receiver, "--once", root=place.directory / "other", run="run-0").ends() == 0
    root = receiver.store
    until(lambda: b"cuda.oom" in (root / "oom" / ".kyoto.findings").read_bytes(), "the receiver keeps the finding")
    receiver.stop()
    for n in range(1, COPIES + 1):
        shutil.copytree(root / "run-0", root / f"run-{n}")
    with tab_of(browser, Web(place, "--store", str(root))) as tab:
        page = tab.open("/")
        rows, pages = page.get_by_role("row"), page.get_by_role("navigation", name="Pages").first
        expect(page.get_by_role("status")).to_have_text("122 runs: 0 running, 1 in trouble.")
        expect(rows.nth(1).get_by_role("rowheader")).to_have_text("oom")
        expect(pages).to_contain_text("1\u2013100 of 122")
        pages.get_by_role("button", name="Next").click()
        expect(pages).to_contain_text("101\u2013122 of 122")
        expect(page).to_have_url(tab.web.url("/?page=2"))
        expect(rows).to_have_count(23)
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.get_by_role("columnheader", name="Run")).to_have_attribute("aria-sort", "ascending")
        expect(page).to_have_url(tab.web.url("/?sort=run"))
        expect(rows).to_have_count(101)
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_role("searchbox").fill("run-11")
        wanted = [f"run-{n}" for n in (*range(119, 109, -1), 11)]
        expect(page.get_by_role("rowheader")).to_have_text(wanted)
        expect(pages).to_be_hidden()
        other = tab.context.new_page()  # a colleague's
        other.goto(page.url)
        expect(other.get_by_role("rowheader")).to_have_text(wanted)
        expect(other.get_by_role("searchbox")).to_have_value("run-11")
        other.close()
        shutil.rmtree(root / "run-11")
        expect(page.get_by_role("status")).to_contain_text("run-11 was removed.")
        expect(page.get_by_role("rowheader")).to_have_text(wanted[:-1])
        page.get_by_role("searchbox").fill("nothing of that name")
        expect(page.locator(".empty")).to_contain_text("No run matches.")
        page.get_by_role("button", name="Show all runs").click()
        expect(rows).to_have_count(101)
        page.get_by_role("combobox", name="Standing").select_option("In trouble")
        expect(page.get_by_role("rowheader")).to_have_text(["oom"])
        page.get_by_role("link", name="CUDA out of memory").click()
        expect(page.locator(".row.marked")).to_contain_text("CUDA out of memory")
        page.go_back()
        expect(page.get_by_role("combobox", name="Standing")).to_have_value("bad")
        expect(page.get_by_role("rowheader")).to_have_text(["oom"])
        tab.is_clean()
        tab.context.add_init_script(MOVED)
        page = tab.open("/?sort=size")
        expect(page.get_by_role("alert")).to_contain_text("sort is a column: ")
        assert page.evaluate("window.moved") == 0
        page.get_by_role("alert").get_by_role("link", name="All runs").click()
        expect(rows).to_have_count(101)
        tab.complaints.clear()  # the answers 400


def test_a_run_takes_two_lines_on_a_phone_and_the_list_does_not_jump(browser: Browser, place: Place) -> None:
    web = Web(place, "--receiver", filled(place, {"kyoto/app.log": numbered(5) + OOM}).address)
    with tab_of(browser, web, viewport={"width": 390, "height": 780}) as tab:
        tab.context.add_init_script(MOVED)
        page = tab.open("/")
        expect(page.get_by_role("link", name="CUDA out of memory")).to_be_visible()
        row = page.locator(".runs .body .line").bounding_box()
        name = page.locator(".runs .name").bounding_box()
        assert row is not None
        assert name is not None
        assert row["height"] < 3 * name["height"]
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate("window.moved") == 0
        tab.is_clean()
