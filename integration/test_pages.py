"""Each page's blocks work when pasted in order into one shell, and print the output that the page shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flarelog.receiver.options import LISTEN
from integration.harness.places import PATIENCE, free_address
from tests.often import each

TREE = Path(__file__).parent.parent
PAGES = (
    "README.md",
    *(f"docs/{name}.md" for name in ("reading", "following", "findings", "run", "agent", "operating", "sites", "tls")),
)
ALL = ("README.md", "SECURITY.md", "CONTRIBUTING.md", *(str(page.relative_to(TREE)) for page in TREE.glob("docs/*.md")))
READERS = "127.0.0.1:4722"  # the port for readers in docs/tls.md
MARK = "=== the next block"
ELSEWHERE = ("pip install .", "make poc")  # .ci/run does these itself


def blocks(page: str) -> list[tuple[str, str | None]]:
    """Each script of *page* with the output shown below it, or None."""
    found: list[tuple[str, str | None]] = []
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```", (TREE / page).read_text(), re.DOTALL | re.MULTILINE):
        if language == "sh":
            found.append((text, None))
        elif not language and found:
            found[-1] = (found[-1][0], text)
    return [(script, shown) for script, shown in found if not any(word in script for word in ELSEWHERE)]


def run(script: str, place: Path) -> subprocess.CompletedProcess[str]:
    # A sleep waits for starting processes, which takes longer beside other tests.
    script = f'sleep() {{ command sleep "$(($1 * 4))"; }}\n{script}'
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=place,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            said, talk = shell.communicate(timeout=6 * PATIENCE)
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)  # with its children
    return subprocess.CompletedProcess(script, shell.returncode, said, talk)


@pytest.mark.parametrize("page", each(PAGES, "README.md", "docs/reading.md", "docs/run.md", "docs/operating.md"))
def test_a_pages_blocks_print_what_it_shows(page: str, tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(TREE / "tests")
    scripts = blocks(page)
    # Only the ports differ from the page: another receiver may run here.
    address = free_address()
    script = f"\necho '{MARK}'\n".join(script for script, _ in scripts)
    script = script.replace(LISTEN, address).replace(READERS, free_address())
    done = run(f"export FLARELOG_LISTEN={address}\n{script}", tmp_path)
    printed = done.stdout.split(f"{MARK}\n")
    assert len(printed) == len(scripts), done.stderr
    for (text, shown), said in zip(scripts, printed, strict=True):
        assert shown is None or said == shown, f"{text}\n{done.stderr}"
    assert "ERROR" not in done.stderr
    assert "Traceback" not in done.stderr
    if page == "README.md":  # its first run ends with a receipt
        assert "sealed at offset" in done.stderr


@pytest.mark.parametrize("page", ALL)
def test_every_file_that_a_page_names_is_there(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (TREE / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    named = [
        TREE / name for name in re.findall(r"`((?:tests|integration|docs|protos)/[\w/.]+)`", text) if "ROOM" not in name
    ]
    linked = [(TREE / page).parent / name for name in re.findall(r"\]\(([^):]+)\)", text)]
    missing = [str(path) for path in named if not path.exists()]
    for path in linked:
        file, _, place = str(path).partition("#")
        target = Path(file) if Path(file).is_file() or place == "" else TREE / page
        if not target.exists() or (place and place not in headings(target)):
            missing.append(str(path))
    assert missing == []


def headings(page: Path) -> set[str]:
    """The anchors of *page*'s headings as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_readme_fits_a_short_visit() -> None:
    assert len((TREE / "README.md").read_text().splitlines()) <= 160


def test_the_table_is_the_pocs() -> None:
    """Each figure is README's but MISSES, which varies; 0 would mean that nobody asked before the announcement."""
    shown = (TREE / "README.md").read_text().split("`make poc` prints a table")[1].split("```")[1].splitlines()[1:]
    poc = [sys.executable, "-m", "flarelog", "poc"]
    done = subprocess.run(poc, capture_output=True, text=True, timeout=6 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    head, *sites = (line.split() for line in shown)
    column = head.index("MISSES")
    printed = [line.split() for line in done.stdout.splitlines()]
    assert all(int(site.pop(column)) > 0 for site in printed[1:]), done.stdout
    assert all(int(site.pop(column)) > 0 for site in sites), shown
    assert printed == [head, *sites]
