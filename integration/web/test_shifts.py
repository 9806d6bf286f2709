"""Nothing on a run's page moves by itself on a first visit: the browser's own records of layout shifts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from integration.harness.places import Place, new_place
from integration.web.browsing import Web, filled, numbered, tab_of

LEAST = 0.01  # the sum of a first visit that no eye notices
_SHIFTS = """
    window.shifts = [];
    const told = ({ node, previousRect: { y: before }, currentRect: { y: after } }) =>
        `${node?.className || node?.nodeName}: ${before} > ${after}`;
    new PerformanceObserver((list) => {
        window.shifts.push(...list.getEntries().map((one) => [one.value, one.sources.map(told)]));
    }).observe({ type: "layout-shift", buffered: true });
    const real = window.setTimeout;  // a machine under load takes longer for the answer, too
    window.setTimeout = (what, ms, ...rest) => real(what, ms === 150 ? AGAIN : ms, ...rest);
"""
_OOM = b"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
_BEGUN = b"2026-11-20 08:00:0%d INFO begins\n"
LOGS = {
    "berlin/train.log": b"".join(b"step %d loss %.2f\n" % (n, 1 / (n + 1)) for n in range(40)),
    "kyoto/rank-0.log": _BEGUN % 1 + numbered(3),
    "kyoto/rank-1.log": _BEGUN % 2 + b"2026-11-20 08:00:03 ERROR lost the server\n",
    "oslo/train.log": _BEGUN % 0 + _OOM,
    "turin/train.log": _BEGUN % 4 + _OOM + b"2026-11-20 08:00:03 ERROR the shard is empty\n",
}


@pytest.fixture(scope="module")
def web() -> Iterator[tuple[Place, Web]]:
    with new_place() as place:
        yield place, Web(place, "--receiver", filled(place, LOGS).address)


def shifts(page: Page) -> list[object]:
    found: list[object] = page.evaluate("window.shifts")
    return found


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("late", ["", "errors", "timeline", "machines", "curves"])
def test_nothing_moves_on_a_first_visit(browser: Browser, web: tuple[Place, Web], width: int, late: str) -> None:
    held: list[Route] = []
    with tab_of(browser, web[1], viewport={"width": width, "height": 844}) as tab:
        page = tab.page
        page.add_init_script(_SHIFTS.replace("AGAIN", "100" if late == "errors" else "20_000"))
        what = {"errors": "first-error|findings", "timeline": "lanes", "machines": "machines", "curves": "curves"}.get(
            late
        )
        if what:
            page.route(re.compile(f"/api/({what})"), lambda route: held.append(route))
        tab.open("/run/run-1")
        rows = page.locator(".sites .body .line")
        expect(rows).to_have_count(4)
        first = page.get_by_role("region", name="First error")
        if late == "errors":
            expect(first).to_contain_text("Looking for errors")
        if late != "timeline":
            expect(page.get_by_role("img", name="Timeline from")).to_be_visible()
        for route in held:
            route.continue_()
        page.unroute_all(behavior="wait")
        expect(first).to_contain_text("CUDA out of memory")
        expect(page.get_by_role("region", name="Findings")).to_contain_text("3 more findings")
        expect(page.get_by_role("link", name="first cause: cuda.oom")).to_be_visible()
        expect(page.get_by_role("img", name="Timeline from")).to_be_visible()
        expect(page.get_by_role("region", name="Machines")).to_be_visible()
        expect(page.locator(".sites .curve").first).to_be_visible()
        page.wait_for_timeout(300)
        assert sum(value for value, _ in shifts(page)) < LEAST, shifts(page)  # type: ignore[misc, has-type]
        sites = rows.locator(".name a")
        expect(sites.first).to_have_text(
            "berlin" if late == "errors" else "oslo"
        )  # the order does not change by itself
        page.get_by_label("Show sites and logs that contain").fill("r")  # of all names of logs
        expect(sites).to_have_text(["oslo", "turin", "kyoto", "berlin"])
        tab.is_clean()
