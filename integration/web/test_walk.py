"""A random walk through a log in Chromium: all drawn rows are the log's."""

from __future__ import annotations

import random
import time
from operator import methodcaller

import pytest
from playwright.sync_api import Browser

from integration.harness.places import Place, append
from integration.web.browsing import Lines, Web, comes_true, tab_of

PATH = "/run/run-1/site-1/app.log"
LEVELS = {"": ("",), "warning": ("W", "E"), "error": ("E",)}  # the first letters of the lines that the level shows


def lines(chance: random.Random, first: int, count: int) -> bytes:
    kinds = chance.choices(("step", "WARNING", "ERROR"), (0.99, 0.008, 0.002), k=count)
    return b"".join(b"%s %d\n" % (kind.encode(), number) for number, kind in enumerate(kinds, first))


@pytest.mark.parametrize("seed", [4])
@pytest.mark.parametrize("seconds", [5.0, pytest.param(12.0, marks=pytest.mark.soak)])
def test_what_is_drawn_is_what_the_log_has_whatever_is_done(
    browser: Browser, place: Place, seconds: float, seed: int
) -> None:
    chance = random.Random(seed)
    log = Lines(lines(chance, 0, 60_000))
    receiver = place.serve()
    append(place.log, log.data)
    place.sidecar(receiver)
    receiver.gets(log.data)
    with tab_of(browser, Web(place, "--receiver", receiver.address)) as tab:
        page, level, done = tab.show(PATH), "", []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            act = chance.choice(("line", "offset", "share", "search", "hit", "wheel", "wheel", "key", "level", "grow"))
            what = ""
            if act in ("line", "offset", "share"):
                number = chance.randrange(len(log.texts))
                share = chance.randrange(101)
                what = {"line": f"{number + 1}", "offset": f"@{number * 10}", "share": f"{share}%"}[act]
                page.keyboard.press(":")
                page.keyboard.type(what)
                page.keyboard.press("Enter")
            elif act == "search":
                what = chance.choice(("step", "ERROR", "WARNING 1", f"{chance.randrange(999)}"))
                page.keyboard.press("/")
                page.keyboard.type(what)
                page.keyboard.press("Enter")
            elif act == "hit":
                what = chance.choice("nnnN")
                page.keyboard.press(what)
            elif act == "wheel":
                page.mouse.move(400, 400)
                page.mouse.wheel(0, int(what := str(chance.choice((-9000, -700, 700, 9000)))))
            elif act == "key":
                what = chance.choice(("g", "G", "f", "j", "k", "PageDown", "PageUp", "Escape"))
                page.keyboard.press(what)
            elif act == "level":
                level = what = chance.choice(list(LEVELS))
                page.get_by_label("Level").select_option(level)
            else:
                append(place.log, more := lines(chance, len(log.texts), chance.randrange(1, 400)))
                log = Lines(log.data + more)
            done.append(f"{act} {what}")
            page.wait_for_timeout(chance.choice((0, 0, 20, 100, 300)))
            if chance.random() < 0.5:
                continue
            comes_true(page, "document.querySelector('log-page').stay.settled")
            page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
            try:
                log.drawn(page, methodcaller("startswith", LEVELS[level]))
            except (AssertionError, KeyError) as error:
                raise AssertionError(f"seed {seed}: {done[-12:]}") from error
        assert done
        tab.is_clean()
