"""Open the page in Chromium, for all its measurements."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import content, processes

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

# In the page: when *count* elements that *what* selects are drawn, in ms since the request of the page.
_DRAWN = """([what, count]) => new Promise((done) => {
    const look = () => document.querySelectorAll(what).length >= count
        ? requestAnimationFrame(() => setTimeout(() => done(performance.now())))
        : requestAnimationFrame(look);
    look();
})"""


@dataclass(frozen=True, slots=True)
class Shown:
    """A running page: its address, its process, and a function that gives a login address."""

    url: str
    web: processes.Process
    login: Callable[[], str]


def drawn(page: Page, url: str, what: str, count: int) -> float:
    page.goto(url, wait_until="commit")
    found: float = page.evaluate(_DRAWN, [what, count])
    return found


def visitor(stack: contextlib.ExitStack, browser: Browser, shown: Shown, path: str) -> Page:
    """Another user's tab, logged in, that shows rows at *path*."""
    page = stack.enter_context(browser.new_context()).new_page()
    page.goto(shown.login())
    page.wait_for_selector("runs-page")
    drawn(page, f"{shown.url}{path}", "log-list .row", 30)
    return page


def plain(count: int) -> bytes:
    lines = map(content.line, range(1, 2 * count))
    return b"".join([line for line in lines if b"\r" not in line and line.count(b"\n") == 1][:count])


def append(path: Path, data: bytes) -> None:
    with open(path, "ab", buffering=0) as file:
        file.write(data)


def stored(work: Path, receiver: str, root: Path, site: str) -> None:
    named = ("--receiver", receiver, "--run", "bench", "--site", site, "--root", root, "--once")
    with processes.python("flarelog", "sidecar", *named, talk=work / "sidecar.err") as sender:
        processes.finish(sender, 120)


@contextlib.contextmanager
def page_of(work: Path, *where: str | Path, name: str = "web") -> Iterator[Shown]:
    """Run the page. *where*: its source, as an option."""
    with processes.web(work, *where, name=name) as (web, address):
        yield Shown(f"http://{address}", web, partial(processes.login, address))


@contextlib.contextmanager
def session(browser: Browser, shown: Shown) -> Iterator[tuple[BrowserContext, Any]]:
    """Yield a browser context that has logged in, and its cookies."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(shown.login())
        page.wait_for_selector("runs-page")
        state = context.storage_state()
        page.close()
        yield context, state
