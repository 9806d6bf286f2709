"""Make the pictures in README and docs/web.md: ``make picture`` writes ``docs/follow.svg`` and pictures of the page.

Pages at all widths and in both themes are for those who change the page: they are in ``build/pictures``, outside git.

The events are real: a receiver and five sidecars run, this program writes into their logs, renames one, truncates
another while the receiver is down, and ``flarelog follow`` runs in a pseudo-terminal. The final screen of a terminal
emulator is drawn, character by character, in its colours.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyte
from playwright.sync_api import Browser, Page, sync_playwright

from bench import processes
from integration.web.browsing import chromium

RUN = "job-7"
COLUMNS, ROWS = 108, 28
LOGS = (
    "server/log.txt",
    "berlin/train.log",
    "boston/train.log",
    "kyoto/rank-0.log",
    "kyoto/rank-1.log",
    "lyon/train.log",
)
PICTURE = Path(__file__).with_name("follow.svg")
PICTURES = Path(__file__).with_name("pictures")
LOOKS = PICTURES.parent.parent / "build" / "pictures"
WIDTHS = {1400: 900, 900: 900, 390: 780}  # in pixels, with the heights
WIDE, PHONE = {"width": 1280, "height": 720}, {"width": 390, "height": 720}

COLOURS = {
    "default": "#d3d7cf", "black": "#555753", "red": "#f0606a", "green": "#7fd162", "brown": "#e5c453",
    "blue": "#74a7e8", "magenta": "#c79be0", "cyan": "#5fd0d0", "white": "#ffffff", "brightblack": "#888a85",
    "brightred": "#ff8080", "brightgreen": "#a8ee90", "brightbrown": "#fff09a", "brightblue": "#a0c8ff",
    "brightmagenta": "#e6bcff", "brightcyan": "#96f0f0", "brightwhite": "#ffffff",
}  # fmt: skip
GROUND, BAR, TITLE = "#1c1f24", "#2b2f36", "#a5abb5"
WIDTH, HEIGHT, MARGIN, TOP = 8.0, 18, 14, 34  # in pixels: a character, the margin, the window's title


class Scene:
    """The sites' logs below *root*."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for log in LOGS:
            (root / log).parent.mkdir(parents=True, exist_ok=True)
            (root / log).touch()

    def say(self, log: str, text: str, level: str = "INFO") -> None:
        colour = {"INFO": "32", "WARNING": "33", "ERROR": "31"}[level]
        clock = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        self.raw(log, f"{clock} \x1b[{colour}m{level:<7}\x1b[0m {text}\n")
        time.sleep(0.12)

    def raw(self, log: str, text: str) -> None:
        with open(self.root / log, "ab", buffering=0) as file:
            file.write(text.encode())

    def bar(self, log: str, epoch: int, percent: int, rate: float) -> None:
        done = percent * 30 // 100
        steps = percent * 4
        self.raw(log, f"\repoch {epoch}: {percent:3d}%|{'█' * done}{' ' * (30 - done)}| {steps}/400 [{rate:.1f} it/s]")


def play(scene: Scene, stop_receiver: Callable[[], None], start_receiver: Callable[[], object]) -> None:
    say = scene.say
    say("lyon/train.log", "round 0: waiting for data on the shared disk")
    for number in range(1, 4):
        say("server/log.txt", f"round {number}: model sent to 4 sites")
        for rank in (0, 1):
            say(f"kyoto/rank-{rank}.log", f"round {number}: loss {0.91 / number + rank / 50:.3f}, 412 samples/s")
        say("berlin/train.log", f"round {number}: loss {0.88 / number:.3f}, 655 samples/s")
        say("boston/train.log", f"round {number}: loss {0.97 / number:.3f}, 590 samples/s")
        if number == 2:
            os.rename(scene.root / "kyoto/rank-0.log", scene.root / "kyoto/rank-0.log.1")
            scene.raw("kyoto/rank-0.log", "")
            time.sleep(1)
    time.sleep(1)
    stop_receiver()
    time.sleep(1)
    for number in range(20):
        scene.raw("boston/train.log", f"step {number}: what nobody has sent yet\n")
    time.sleep(2)
    os.truncate(scene.root / "boston/train.log", 0)  # as a clean-up job does
    say("boston/train.log", "the disk was full: somebody emptied this log", "WARNING")
    start_receiver()
    time.sleep(6)
    say("server/log.txt", "round 4: model sent to 4 sites")
    for rank in (0, 1):
        say(f"kyoto/rank-{rank}.log", f"round 4: loss {0.241 + rank / 50:.3f}, 409 samples/s")
    say("kyoto/rank-1.log", "cannot write the checkpoint", "ERROR")
    scene.raw(
        "kyoto/rank-1.log",
        'Traceback (most recent call last):\n  File "train.py", line 88, in save\n    torch.save(state, path)\n'
        "OSError: [Errno 28] No space left on device: '/data/ckpt/round-4.pt'\n",
    )
    for percent in range(0, 70, 4):
        scene.bar("berlin/train.log", 4, percent, 16.4)
        scene.bar("boston/train.log", 4, percent // 2, 8.7)
        if percent == 40:
            say("server/log.txt", "round 4: 1 of 4 updates is here")
        time.sleep(0.1)


class Terminal:
    """*command* in a pseudo-terminal, with its screen."""

    def __init__(self, command: list[str], **variables: str) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        stream = pyte.ByteStream(self.screen)
        self._lock = threading.Lock()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("FLARELOG_", "NO_COLOR"))
        }
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env={**environment, "TERM": "xterm-256color", **variables}
        )
        os.close(slave)

        def read() -> None:
            with contextlib.suppress(OSError):  # EIO: the other end is closed
                while data := os.read(self._master, 1 << 16):
                    with self._lock:
                        stream.feed(data)

        threading.Thread(target=read, daemon=True).start()

    def rows(self) -> list[list[pyte.screens.Char]]:
        with self._lock:
            return [[self.screen.buffer[row][column] for column in range(COLUMNS)] for row in range(ROWS)]

    def text(self) -> str:
        return "\n".join("".join(cell.data for cell in row) for row in self.rows())

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(10)
        os.close(self._master)


def drawn(rows: list[list[pyte.screens.Char]], title: str) -> str:
    """Draw a window with *rows* as SVG."""
    width, height = COLUMNS * WIDTH + 2 * MARGIN, ROWS * HEIGHT + TOP + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, &quot;DejaVu Sans Mono&quot;, monospace" '
        'font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
        f'<path d="M0 {TOP - 8}V8a8 8 0 0 1 8-8h{width - 16:g}a8 8 0 0 1 8 8v{TOP - 16}z" fill="{BAR}"/>',
        f'<text x="{width / 2:g}" y="{TOP - 16}" text-anchor="middle" fill="{TITLE}">$ {escape(title)}</text>',
    ]
    for number, row in enumerate(rows):
        y, x = TOP + 14 + number * HEIGHT, 0
        for (fg, bold), cells in groupby(row, key=lambda cell: (cell.fg, cell.bold)):
            text = "".join(cell.data for cell in cells)
            lead = len(text) - len(text.lstrip(" "))
            shown = text.strip(" ")
            if shown:
                style = f'fill="{COLOURS.get(fg, f"#{fg}")}"' + (' font-weight="bold"' if bold else "")
                parts.append(
                    f'<text x="{MARGIN + (x + lead) * WIDTH:g}" y="{y}" textLength="{len(shown) * WIDTH:g}" '
                    f'lengthAdjust="spacingAndGlyphs" {style} '
                    f'xml:space="preserve">{escape(shown)}</text>'
                )
            x += len(text)
    return "\n".join([*parts, "</svg>", ""])


@contextlib.contextmanager
def receiver(work: Path, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """Run a receiver; yield it and its address."""
    ready = work / "ready"
    ready.unlink(missing_ok=True)
    command = ("flarelog", "serve", "--store", work / "store", "--listen", listen, "--ready-file", ready)
    with processes.python(*command, talk=work / "serve.err") as process:
        yield processes.address(process, ready)


def take_page(receiver: str, work: Path) -> None:
    """Write the pictures of the page for docs/web.md, with RUN from *receiver*."""
    ready = work / "page"
    command = ("flarelog", "web", "--receiver", receiver, "--listen", "127.0.0.1:0", "--ready-file", ready)
    with processes.python(*command, talk=work / "web.err") as process:
        address = processes.address(process, ready)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            for name, place, wait, look in (
                (
                    "page-run",
                    f"/run/{RUN}",
                    "run-page .first .what",
                    {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
                ),
                ("page-log", f"/run/{RUN}?merged=arrival", ".row", {"viewport": WIDE, "color_scheme": "dark"}),
                ("page-phone", f"/run/{RUN}", "run-page .first .what", {"viewport": PHONE, "color_scheme": "dark"}),
            ):
                page = logged_in(browser, address, look)
                page.goto(f"http://{address}{place}")
                page.locator(wait).first.wait_for()
                page.wait_for_timeout(1500)  # until bars and lanes have some seconds
                page.screenshot(path=PICTURES / f"{name}.png")
            take_looks(browser, address)
            browser.close()


def take_looks(browser: Browser, address: str) -> None:
    """Write a picture of each page at each width and in each theme into LOOKS."""
    LOOKS.mkdir(parents=True, exist_ok=True)
    page = logged_in(browser, address, {"reduced_motion": "reduce"})
    for name, place, wait in (
        ("runs", "/", ".body .line"),
        ("run", f"/run/{RUN}", "run-page .first .what"),
        ("log", f"/run/{RUN}/kyoto/rank-1.log", ".row"),
        ("merged", f"/run/{RUN}?merged=time", ".row"),
        ("search", f"/run/{RUN}#find=round&in=time", ".hits a"),
    ):
        for width, height in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": height})
            page.goto(f"http://{address}{place}")
            page.locator(wait).first.wait_for()
            page.wait_for_timeout(1500)
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)
                page.wait_for_timeout(100)  # until the lanes have the theme's colours
                page.screenshot(path=LOOKS / f"{name}-{width}-{theme}.png")


def logged_in(browser: Browser, address: str, look: dict[str, Any]) -> Page:
    """A page that is logged in."""
    page: Page = browser.new_context(**look).new_page()
    login = (sys.executable, "-m", "flarelog", "web", "login", "--listen", address)
    page.goto(subprocess.run(login, capture_output=True, text=True, check=True).stdout.strip())
    page.locator("runs-page").wait_for()
    return page


def main() -> None:
    with (
        processes.scratch(Path(tempfile.gettempdir())) as work,
        contextlib.ExitStack() as stack,
        contextlib.ExitStack() as serving,
    ):
        address = serving.enter_context(receiver(work))
        scene = Scene(work / "sites")
        for site in sorted({log.split("/")[0] for log in LOGS}):
            named = ("--receiver", address, "--run", RUN, "--site", site, "--root", scene.root / site)
            stack.enter_context(processes.python("flarelog", "sidecar", *named, talk=work / f"{site}.err"))
        shown = f"flarelog follow {RUN}"
        terminal = Terminal([sys.executable, "-m", *shown.split()], FLARELOG_RECEIVER=address)
        stack.callback(terminal.close)
        time.sleep(3)
        play(scene, serving.close, lambda: serving.enter_context(receiver(work, address)))
        deadline = time.monotonic() + 30
        while "quiet" not in terminal.text() and time.monotonic() < deadline:
            time.sleep(0.1)
        PICTURE.write_text(drawn(terminal.rows(), shown))
        take_page(address, work)
        sys.stdout.write(terminal.text() + "\n")


if __name__ == "__main__":
    main()
