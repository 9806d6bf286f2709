"""Taking logs and the report away, in Chromium: what the links give, and that the report may do nothing."""

from __future__ import annotations

import zipfile
from urllib.parse import unquote

from playwright.sync_api import Locator, Page, expect

from integration.web.browsing import Tab
from integration.web.conftest import LOGS


def taken(page: Page, link: Locator) -> tuple[str, dict[str, bytes]]:
    """The name of the file that a click on *link* saves, and the logs in it."""
    with page.expect_download() as saved:
        link.click()
    with zipfile.ZipFile(saved.value.path()) as found:
        assert found.testzip() is None
        logs = {name.partition("/")[2]: found.read(name) for name in found.namelist()}
    assert logs.pop("READ ME.txt").endswith(b"All of these logs are complete.\n")
    return saved.value.suggested_filename, logs


def test_a_run_a_site_and_merged_logs_are_saved(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    assert taken(page, page.get_by_role("link", name="Download", exact=True)) == ("run-1.zip", LOGS)
    kyoto = {name: data for name, data in LOGS.items() if name.startswith("kyoto/")}
    row = page.locator(".sites .body .line", has_text="kyoto")
    assert taken(page, row.locator(".bytes a")) == ("run-1-kyoto.zip", kyoto)
    for address, wanted in {
        "?merged=time&site=kyoto": kyoto,
        "?merged=time&rank=1": {"kyoto/rank-1.log": LOGS["kyoto/rank-1.log"]},
        "?merged=time&log=lyon/long.log&log=kyoto/rank-1.log": {
            name: LOGS[name] for name in ("kyoto/rank-1.log", "lyon/long.log")
        },
    }.items():
        page = tab.show(f"/run/run-1{address}")
        assert taken(page, page.get_by_role("link", name="Download", exact=True))[1] == wanted, unquote(address)


def test_the_report_opens_beside_the_page_and_is_saved(tab: Tab) -> None:
    page = tab.open("/run/run-1")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Report", exact=True).click()
    shown = opened.value
    complaints: list[str] = []
    shown.on("console", lambda message: complaints.append(message.text))
    expect(shown.get_by_role("heading", name="run-1")).to_be_visible()
    shown.reload()
    expect(shown.locator(".verdict")).to_contain_text("sites complete")
    assert shown.evaluate("getComputedStyle(document.querySelector('.verdict')).borderLeftWidth") == "5px"
    assert complaints == []
    html = shown.content()
    shown.close()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Save the report").click()
    assert saved.value.suggested_filename == "run-1.html"
    assert saved.value.path().read_text().count("<") == html.count("<")
    tab.is_clean()
