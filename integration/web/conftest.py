"""One browser for all tests of the page that a process runs, and one receiver with logs that no test changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from integration.harness.places import Place, new_place
from integration.web.browsing import Tab, Web, chromium, filled, numbered, tab_of

TRACEBACK = b"""2026-11-20 08:00:06 ERROR cannot write the checkpoint
Traceback (most recent call last):
  File "train.py", line 88, in save
    torch.save(state, path)
  File "serialization.py", line 440, in save
    write(state)
OSError: [Errno 28] No space left on device: '/ckpt'
2026-11-20 08:00:07 INFO the run goes on
"""
COLOURS = (
    "\x1b[32mINFO\x1b[0m green \x1b[1;31mred and bold\x1b[0m \x1b[38;5;208morange\x1b[0m \x1b[7mturned\x1b[0m\n"
    "wide: 数据 ワイド 🚀 | مرحبا بالعالم | שלום\n"
    "\x1b[33mWARNING\x1b[0m memory is nearly used up\n"
    + "\r".join(f"epoch 1: {n:3d}%|{'█' * (n // 10):10}|" for n in range(0, 101, 5))
    + "\nthe end\n"
)
LOGS = {
    "berlin/train.log": numbered(200) + TRACEBACK + numbered(3000, 200),
    "kyoto/colours.log": COLOURS.encode(),
    "kyoto/rank-1.log": numbered(50, 0, "of rank 1"),
    "lyon/long.log": b"short\n" + b"long " * 4000 + b"END\n" + numbered(100),
}


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser for this directory alone: while it lives, no other test of this process can run a loop."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def stored() -> Iterator[tuple[Place, Web]]:
    """A page over a receiver that holds LOGS as run-1."""
    with new_place() as place:
        receiver = filled(place, LOGS)
        yield place, Web(place, "--receiver", receiver.address)


@pytest.fixture
def tab(browser: Browser, stored: tuple[Place, Web]) -> Iterator[Tab]:
    """A tab of ``stored``, which must be without complaints at the end."""
    with tab_of(browser, stored[1]) as tab:
        yield tab
        tab.is_clean()
