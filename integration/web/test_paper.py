"""A report on paper and on a narrow screen, in Chromium: none of its columns is cut off."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from flarelog.model import StreamId
from flarelog.viewers.report.facts import SiteFacts
from flarelog.viewers.report.page import page
from flarelog.viewers.standings import Stands

REASON = (
    "3 logs of site the-site-with-a-long-name in run the-run-with-a-long-name are stored, and 3 is the limit: remove"
    " old logs, or start the receiver with a higher --max-site-logs"
)
A4 = 676  # CSS pixels between Chromium's margins


@pytest.mark.soak
def test_no_column_is_cut_off(browser: Browser, tmp_path: Path) -> None:
    from tests.viewers.test_report import BEGIN, finding, report  # with hypothesis, which no other test here needs

    sites = [
        SiteFacts(
            f"the-site-with-a-long-name-{n}", 3, 3, 10**9, 10**6, 3, stands=Stands.PAUSED, since=BEGIN, why=REASON
        )
        for n in range(3)
    ]
    where = [StreamId("run-1", "the-site-with-a-long-name-0", f"rank-{n}/stderr.log") for n in range(3)]
    found = tuple(finding("CUDA out of memory: " + "x" * 300, stream=stream, time=BEGIN * 10**6) for stream in where)
    (tmp_path / "report.html").write_text(page(report(*sites, over=False, findings=found)))
    context = browser.new_context(viewport={"width": A4, "height": 900})
    shown = context.new_page()
    shown.goto((tmp_path / "report.html").as_uri())
    shown.emulate_media(media="print")
    ends = "[...document.querySelectorAll('td, th, pre')].map((one) => one.getBoundingClientRect().right)"
    assert max(shown.evaluate(ends)) <= A4
    shown.emulate_media(media="screen")
    shown.set_viewport_size({"width": 1200, "height": 900})
    assert max(shown.evaluate(ends)) <= 1200
    context.close()


@pytest.mark.soak
def test_lanes_are_split_between_pages_at_axes_that_the_screen_does_not_repeat(
    browser: Browser, tmp_path: Path
) -> None:
    from tests.viewers.test_report import report

    sites = [SiteFacts(f"site-{n}", 1, 1, stands=Stands.COMPLETE) for n in range(60)]
    (tmp_path / "report.html").write_text(page(report(*sites)))
    context = browser.new_context(viewport={"width": A4, "height": 900})
    shown = context.new_page()
    shown.goto((tmp_path / "report.html").as_uri())
    axes = "[...document.querySelectorAll('.lanes > div:last-child')].map((one) => one.offsetHeight > 0)"
    assert shown.evaluate(axes) == [False, False, False, True]
    shown.emulate_media(media="print")
    assert shown.evaluate(axes) == [True] * 4
    blocks = (
        "[...document.querySelectorAll('.lanes')].map((one) => [getComputedStyle(one).breakInside, one.offsetHeight])"
    )
    for inside, height in shown.evaluate(blocks):
        assert (inside, height < 600) == ("avoid", True), height
    context.close()
