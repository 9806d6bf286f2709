"""The page in a real Chromium: find the browser, start the page's server, and collect a tab's complaints.

A test waits for a change on the screen, never for a fixed time.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from integration.harness.places import PATIENCE, Place, Program, Receiver, until

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Chromium is installed: apt-get install chromium fonts-dejavu-core"
WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
    window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""

expect.set_options(timeout=PATIENCE * 1000)


def chromium() -> str:
    """The path of Chromium. Installs it if this process may; otherwise skips the test."""
    for attempt in range(2):
        for name in NAMES:
            if found := shutil.which(name):
                return found
        if attempt or os.geteuid() or not shutil.which("apt-get"):
            break
        for step in (("update", "-q"), ("install", "-qy", "--no-install-recommends", "chromium", "fonts-dejavu-core")):
            subprocess.run(("apt-get", *step), check=False, capture_output=True, timeout=300)
    pytest.skip(MISSING)


class Web:
    """A ``flarelog web`` that is ready."""

    def __init__(
        self, place: Place, *where: str, listen: str = "127.0.0.1:0", env: dict[str, str] | None = None
    ) -> None:
        self.place, self.where = place, where
        ready = place.directory / f"{len(place.programs)}.page"
        self.program: Program = place.start("web", *where, "--listen", listen, "--ready-file", str(ready))
        until(
            lambda: ready.exists() or self.program.process.poll() is not None,
            lambda: f"{self.program} is ready; it said:\n{self.program.said}",
        )
        assert ready.exists(), self.program.talk()
        self.address = ready.read_text().strip()
        self.session: Any = None  # the cookie of a browser that has logged in

    def login(self) -> str:
        """An address that logs one browser in."""
        told = self.place.call("web", "login", "--listen", self.address)
        assert told.ends() == 0, told.talk()
        return told.printed.strip()

    def url(self, path: str) -> str:
        return f"http://{self.address}{path}"

    def again(self) -> Web:
        return Web(self.place, *self.where, listen=self.address)


class Tab:
    """A tab that is logged in, and the complaints of its console and of its content policy."""

    def __init__(self, browser: Browser, web: Web, **context: Any) -> None:
        self.web = web
        sizes = {"viewport": {"width": 1280, "height": 800}}
        self.context = browser.new_context(**{**sizes, "storage_state": web.session, **context})
        self.context.set_default_timeout(PATIENCE * 1000)
        self.context.add_init_script(WATCH)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def login(self) -> None:
        if self.web.session is None:
            self.page.goto(self.web.login())
            expect(self.page.locator("runs-page")).to_be_visible()
            self.web.session = self.context.storage_state()

    def open(self, path: str) -> Page:
        self.page.goto(self.web.url(path))
        return self.page

    def show(self, path: str) -> Page:
        """Open the page of a log, and wait until it shows rows."""
        page = self.open(path)
        expect(page.locator("log-list .row").first).to_be_visible()
        return page

    def violations(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.violations")
        return found

    def is_clean(self) -> None:
        assert self.violations() == []
        assert self.complaints == [], self.complaints

    def close(self) -> None:
        self.context.close()


@contextmanager
def tab_of(browser: Browser, web: Web, **context: Any) -> Iterator[Tab]:
    tab = Tab(browser, web, **context)
    try:
        tab.login()
        yield tab
    finally:
        tab.close()


def comes_true(page: Page, expression: str) -> None:
    """Wait until *expression* is true in *page*; the page's policy forbids Playwright's own way."""
    deadline = time.monotonic() + PATIENCE
    while not page.evaluate(f"Boolean({expression})"):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def texts(page: Page) -> list[str]:
    """The texts of the rows in the document, from top to bottom."""
    found: list[str] = page.evaluate(
        '[...document.querySelectorAll("log-list .row")].map((row) => row.text.textContent)'
    )
    return found


def held(page: Page) -> list[str]:
    """The texts of all rows that the page holds."""
    found: list[str] = page.evaluate('document.querySelector("log-list").lines.rows.map((row) => row[3])')
    return found


def offsets(page: Page) -> list[int]:
    """The offsets of all rows that the page holds, without notes."""
    found: list[int] = page.evaluate(
        'document.querySelector("log-list").lines.rows.filter((row) => !(row[4] & 2)).map((row) => row[1])'
    )
    return found


DRAWN = """() => {
    const list = document.querySelector("log-list"), box = list.getBoundingClientRect();
    return [...list.querySelectorAll(".row:not(.note)")]
        .map((row) => ({ row, y: row.getBoundingClientRect().top }))
        .filter(({ y }) => y > box.top - 10 && y < box.bottom - 10)
        .sort((a, b) => a.y - b.y)
        .map(({ row }) => [Number(row.dataset.offset), row.number.textContent, row.text.textContent]);
}"""


class Lines:
    """A log of short, plain lines, to compare with the page's drawing."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.texts = data.decode().splitlines()
        at = itertools.accumulate((len(line) for line in data.splitlines(keepends=True)), initial=0)
        self.number = {offset: number for number, offset in enumerate(at)}

    def drawn(self, page: Page, keep: Callable[[str], bool] = lambda text: True) -> list[int]:
        """The numbers, from 0 on, of the lines on the screen. Asserts that each is the log's line, has its number or an
        estimate, and is the next one that matches *keep*.
        """
        found: list[int] = []
        for offset, number, text in page.evaluate(DRAWN):
            its = self.number[offset]
            assert text == self.texts[its], (offset, text)
            assert number in ("", f"{its + 1:,}") or number.startswith("\u2248"), (its + 1, number, text)
            left_out = [one for one in self.texts[found[-1] + 1 : its] if keep(one)] if found else []
            assert keep(text), text
            assert not left_out, (self.texts[found[-1]], text)
            found.append(its)
        return found


def numbered(count: int, first: int = 0, text: str = "step") -> bytes:
    return b"".join(b"%06d %s\n" % (n, text.encode()) for n in range(first, first + count))


def filled(place: Place, logs: dict[str, bytes], run: str = "run-1") -> Receiver:
    """A receiver with *logs*, by SITE/LOG, all ended."""
    receiver = place.serve()
    sites = {name.partition("/")[0] for name in logs}
    for site in sorted(sites):
        root = place.directory / f"site-of-{site}"
        for name, data in logs.items():
            if name.partition("/")[0] == site:
                path: Path = root / name.partition("/")[2]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        program = place.sidecar(receiver, "--once", root=root, site=site, run=run)
        assert program.ends() == 0, program.talk()
    return receiver
