"""The page shows the names of the files, whatever they are."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from integration.harness.places import Place
from integration.web.browsing import Web, filled, tab_of

TUNE = "lr=0.01,bs=32/\u8bad\u7ec3 1.log"
CONTAINER = f"{'p' * 120}_{'n' * 40}_main-{'a' * 64}.log"
HOSTILE = "<b>%41\x1b\u202e'&\".log"


def test_the_page_shows_the_names_of_files_and_opens_their_logs(browser: Browser, place: Place) -> None:
    logs = {f"kyoto/{name}": f"a line of {number}\n".encode() for number, name in enumerate((TUNE, CONTAINER, HOSTILE))}
    receiver = filled(place, logs)
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        for number, name in enumerate((TUNE, CONTAINER, r"""<b>%41\x1b\u202e'&".log""")):
            page = tab.open("/run/run-1")
            page.get_by_role("button", name="3 logs").click()
            page.get_by_role("link", name=name, exact=True).click()
            expect(page.locator("log-list .row", has_text=f"a line of {number}")).to_be_visible()
            assert page.title().startswith(f"kyoto/{name} ")
        page = tab.open("/run/run-1")
        page.get_by_label("Show sites and logs that contain").fill("bs=32")
        expect(page.get_by_role("link", name=TUNE, exact=True)).to_be_visible()
        expect(page.get_by_role("link", name=CONTAINER, exact=True)).to_have_count(0)
        tab.is_clean()
