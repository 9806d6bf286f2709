"""Each command on terminals of 40, 80 and 200 columns, in tmux; the screens are compared with the kept ones.

``SCREENS=keep python -m pytest integration/test_screens.py`` keeps the present screens. A person reviews each change.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from integration.harness.places import FLARELOG, new_place
from tests.often import table

KEPT = Path(__file__).parent.parent / "tests" / "data" / "screens"
COMMANDS = {
    "status": "status run-1 --store store",
    "streams": "streams --store store",
    "runs": "runs --store store",
    "logs": "logs run-1 --store store --no-pager --tz utc",
    "view": "view bar.log --no-pager",
    "first-error": "logs run-1 --store store --no-pager --first-error",
    "verify": "verify run-1 --store store",
    "help": "--help",
    "unknown-run": "logs run-2 --store store --no-pager",
}
BAR = b"begin\n" + b"".join(b"\rtrain: %3d%%|%s|" % (n, b"#" * (n // 2)) for n in range(0, 101, 5)) + b"\nend\n"
MASKED = re.compile(
    r"\d{4}-\d\d-\d\d[T ][\d:.]+|[\d,.]+ GiB|[\d,]+ of [\d,]+ are free|[\d.]+ ms\b|[\d,]+ (?=file desc|descr)|/tmp/\S+"
)
"""The parts that vary between runs: their digits are shown as 0, so that the layout stays."""

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here: apt-get install tmux")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a store of two sites, whose run has ended, and a log with a bar."""
    directory = tmp_path_factory.mktemp("screens")
    (directory / "bar.log").write_bytes(BAR)
    with new_place() as place:
        receiver = place.serve()
        for site in ("site-1", "site-2"):
            root = place.directory / site
            root.mkdir()
            (root / "log.txt").write_text(
                f"2026-11-20 08:00:01 {site} begins\n2026-11-20 08:00:02 WARNING: the learning rate of this round is"
                " higher than that of the round before, and so is the loss\n2026-11-20 08:00:03 end\n"
            )
            assert place.sidecar(receiver, "--once", root=root, site=site).ends() == 0
        receiver.program.stop()
        shutil.copytree(place.directory / "store", directory / "store")
    return directory


def screen(directory: Path, command: str, columns: int) -> str:
    """The screen of a terminal with so many *columns* when *command* has ended."""
    tmux = ["tmux", "-L", f"flarelog-{os.getpid()}-{time.monotonic_ns()}", "-f", "/dev/null"]
    done = directory / "done"
    done.unlink(missing_ok=True)
    words = " ".join(map(shlex.quote, FLARELOG))
    shell = f"cd {shlex.quote(str(directory))}; {words} {command}; echo $? > done; sleep 60"
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FLARELOG_", "TMUX", "COLUMNS", "LINES"))
    }
    start = [*tmux, "new-session", "-d", "-x", str(columns), "-y", "150", shell]
    subprocess.run(start, env={**environment, "LC_ALL": "C.UTF-8"}, check=True, timeout=20)
    try:
        deadline = time.monotonic() + 30
        while not done.exists():
            assert time.monotonic() < deadline, command
            time.sleep(0.05)
        time.sleep(0.1)  # tmux reads the last output
        shown = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, check=True, timeout=20).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, timeout=20)
    text = "\n".join(line.rstrip() for line in shown.decode().rstrip().split("\n"))
    text = MASKED.sub(lambda found: re.sub(r"\d", "0", found[0]), text)
    return f"{text}\n[{done.read_text().strip()}]\n"


@pytest.mark.parametrize(("name", "columns"), table(list(COMMANDS), [40, 80, 200]))
def test_a_screen_is_as_it_was_kept(name: str, columns: int, stored: Path) -> None:
    kept = KEPT / f"{name}-{columns}.txt"
    found = screen(stored, COMMANDS[name], columns)
    if os.environ.get("SCREENS") == "keep":
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(found)
    assert found == kept.read_text(), "look at it, and keep it with SCREENS=keep"
