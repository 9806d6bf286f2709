"""Each block of a page is run, and prints what the page shows.

Pasted in order into one shell are the blocks ``sh`` and ``python``. A block without a language is the output of the
script before it. A script that would only distract a reader stands in a comment: ``<!-- sh``. Each other block is
in one of the tables here, which say who reads it or why it cannot be run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from bench import compare
from bench import page as measured
from flarelog.receiver.options import LISTEN
from flarelog.security import access
from flarelog.sources import consent
from integration.harness import nats
from integration.harness.places import PATIENCE, free_address

TREE = Path(__file__).parent.parent
ALL = [
    str(path.relative_to(TREE))
    for where in ("*.md", "docs/**/*.md", "deploy/**/*.md", "integration/**/*.md")
    for path in sorted(TREE.glob(where))
]

ADDRESSES = (
    *(LISTEN, "127.0.0.1:4722", "127.0.0.1:4780"),
    *(f"127.0.0.1:{port}{n}" for port in (423, 623) for n in (1, 2, 3)),  # nats-servers
)
"""The pages' addresses; a test replaces them by free ones, because another receiver may run here."""

INSTEAD = {"make poc": "flarelog poc 2> /dev/null"}
"""Scripts with such a word, and what is run in their place."""

VARIES = {
    "README.md": [r"(?<=4,194,304  4,194,304) +[1-9]\d*"],  # MISSES: 0 would mean that no site asked too early
    "docs/following.md": [
        *(r"[+-]\d+ ms", r"(?<=lost link )\d+ s"),
        r"(?<=paused) +[1-9][\d,]+ +[1-9][\d,]+ +[1-9][\d,]+",  # how much is stored depends on how it was cut
        r"(?<=paused: )[3-9],\d{3},\d{3}(?= bytes)",
        r"(?<= 14) +\d+(?= +0)",  # bytes a second
    ],
    "docs/kubernetes.md": [r"(?<=train-[01]-)\w{5}"],
    "docs/scale.md": [  # another libm rounds differently, and one commit then waits for another
        *(r"(?<= p50 of a commit, ms) [ \d.]+", r"(?<= p99 of a commit, ms) [ \d.]+", r"(?<=are on time) [ \d.]+"),
    ],
    "docs/web.md": [r"(?<=#login=)\d{10}\.[\w-]{22}\.[0-9a-f]+"],
}
"""What differs from run to run, by page; every other figure is compared."""

NOT_RUN = {
    "README.md: python3 -m venv venv": "installs flarelog; .ci/run does it",
    "docs/embedding.md: found = producer": "a fragment; test_embedding covers placeholder",
    "docs/embedding.md: from flarelog.integrations.watching": "a fragment; test_embedding covers exited",
    "docs/following.md: flarelog status job-1 --log-url": "the address is the reader's own; tests/test_placeholders.py",
    "docs/internals.md: ROOT/RUN/SITE/LOG": "a list of files, not an output",
    "docs/kubernetes.md: buildah": "integration/kubernetes/containerfile.py builds the image; it has no registry",
    "docs/network.md: frontend https": "HAProxy's configuration; test_proxies covers the protocol",
    "docs/network.md: flarelog sidecar": "the host is behind the load balancer above",
    "docs/nvflare.md: format_version: 2": "integration/nvflare/inside/test_pod_template.py gives it to NVFlare",
    "docs/nvflare.md: pip install": "installs flarelog; .ci/run does it",
    'docs/nvflare.md: {"format_version': "integration/nvflare/test_page.py follows these steps",
    "docs/nvflare.md: nvflare job logs": "needs a running NVFlare; integration/nvflare covers it",
    "docs/nvflare.md: export FLARELOG_RECEIVER=SERVER": "needs a running NVFlare; integration/nvflare covers it",
    "docs/nvflare.md: from flarelog.integrations.nvflare": "needs an NVFlare job; integration/nvflare/test_jobs.py",
    "docs/performance.md: make bench": "takes half an hour",
    "docs/reading.md: flarelog follow job/train": "needs an agent's pods; integration/test_containers.py chooses such",
    "docs/run.md: flarelog run --receiver HOST:PORT": "needs torchrun, Slurm and MPI; test_torchrun covers the first",
    "docs/scale.md: pip install 'flarelog[archive]'": "needs a bucket; test_archive",
    "docs/scale.md: job-1: 3 logs, 7,166,670 bytes, 7,166,670 copied, verified\njob-2": "needs a bucket; test_archive",
    "docs/scale.md: flarelog copy s3://": "needs a bucket; test_archive",
    "docs/scale.md: job-1: 3 logs, 7,166,670 bytes, 7,166,670 copied, verified\njob-1": "needs a bucket; test_archive",
    "integration/nvflare/README.md: FLARELOG_NVFLARE_MAIN": "fetches NVFlare's main branch",
}
"""The beginnings of blocks that a machine with Python alone cannot run, or that show no output, and the reason."""

ELSEWHERE = {"docs/kubernetes.md": "integration/kubernetes/test_page.py, on a real node"}
"""Pages whose blocks another test runs, in the same way."""

FILES: dict[str, Callable[[str], object]] = {"docs/sites.md": consent.load, "docs/tls.md": access.load}
"""Who reads the ``toml`` blocks of a page."""

MARK = "=== the next block"
WRONG = "=== wrong usage"
PRELUDE = f"""\
sleep() {{ command sleep "$(($1 * 4))"; }}  # for starting processes, which take longer beside other tests
trap 'case $? in 2 | 78 | 127) echo "{WRONG}: $BASH_COMMAND" >&2 ;; esac' ERR
"""


class Block(NamedTuple):
    page: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"

    @property
    def why_not(self) -> str | None:
        """The key in NOT_RUN."""
        return next((begin for begin in NOT_RUN if str(self).startswith(begin)), None)


class Shown(NamedTuple):
    """A script, and the output that a page shows for it; None: the page shows none."""

    script: str
    output: str | None


def blocks(page: str, text: str | None = None) -> list[Block]:
    """All blocks of *page*, in order."""
    text = (TREE / page).read_text() if text is None else text
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```$|^<!-- (sh)\n(.*?)^-->$", text, re.DOTALL | re.MULTILINE)
    return [Block(page, shown or hidden, body or script) for shown, body, hidden, script in found]


def scripts(of: list[Block]) -> tuple[list[Shown], list[str]]:
    """The scripts among *of* with their outputs, and the blocks that nothing runs, reads or names."""
    found: list[Shown] = []
    unknown: list[str] = []
    before = None
    for block in of:
        if block.why_not is not None:
            before = None
            continue
        if block.language == "sh":
            script = next((other for word, other in INSTEAD.items() if word in block.text), block.text)
            found.append(Shown(script, None))
        elif block.language == "python":
            found.append(Shown(f"python -W error - <<'END'\n{block.text}END\n", None))
        elif block.language == "" and before in ("sh", "python"):
            found[-1] = found[-1]._replace(output=block.text)
        elif block.language != "toml" or block.page not in FILES:
            unknown.append(f"{block.page}: ```{block.language}\n{block.text}")
        before = block.language
    return found, unknown


def masked(page: str, text: str) -> str:
    """*text* without what varies; the columns of a table are as wide as their figures, so blanks then count as one."""
    found = text
    for pattern in VARIES.get(page, ()):
        found = re.sub(pattern, " (varies)", found)
    return text if found == text else re.sub(" +", " ", found)


def run(script: str, place: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{nats.cache()}:{os.environ['PATH']}"
    with subprocess.Popen(
        ["bash", "-c", PRELUDE + script],
        cwd=place,
        env={**os.environ, "PATH": path, **env},
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


@pytest.mark.parametrize("page", [page for page in ALL if scripts(blocks(page))[0] and page not in ELSEWHERE])
def test_a_pages_blocks_print_what_it_shows(page: str, tmp_path: Path) -> None:
    for name in ("tests", "bench"):
        (tmp_path / name).symlink_to(TREE / name)
    pairs, _ = scripts(blocks(page))
    script = f"\necho '{MARK}'\n".join(script for script, _ in pairs)
    if "nats-server -c" in script and nats.missing():
        pytest.skip(nats.missing())
    free = {address: free_address() for address in ADDRESSES}
    for address in ADDRESSES:
        script = script.replace(address, free[address])
    done = run(f"export FLARELOG_LISTEN={free[LISTEN]}\n{script}", tmp_path)
    output = done.stdout
    for address in ADDRESSES:
        output = output.replace(free[address], address)
    printed = output.split(f"{MARK}\n")
    assert len(printed) == len(pairs), done.stderr
    for (text, shown), said in zip(pairs, printed, strict=True):
        assert shown is None or masked(page, said) == masked(page, shown), f"{text}\n{done.stderr}"
    assert WRONG not in done.stderr, done.stderr
    assert "ERROR" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    if page == "README.md":  # its first run ends with a receipt
        assert "sealed at offset" in done.stderr


def test_each_block_is_run_or_in_a_table() -> None:
    every = [block for page in ALL for block in blocks(page)]
    unknown = [one for page in ALL for one in scripts(blocks(page))[1]]
    assert unknown == [], "run it as sh, python or the output of the script before it, or say in NOT_RUN why not"
    assert set(NOT_RUN) == {block.why_not for block in every} - {None}
    assert set(FILES) == {block.page for block in every if block.language == "toml"}
    for page, patterns in VARIES.items():
        outputs = [output for _, output in scripts(blocks(page))[0] if output]
        assert all(any(re.search(pattern, output) for output in outputs) for pattern in patterns), page


@pytest.mark.parametrize(
    "text",
    ["```\nan output of nothing\n```\n", "```sh\ntrue\n```\n```text\n1\n```\n", "```toml\n[serve]\n```\n"],
    ids=["output", "text", "file"],
)
def test_a_new_block_without_a_run_is_seen(text: str) -> None:
    page = "docs/agent.md"
    _, unknown = scripts(blocks(page, f"{(TREE / page).read_text()}\n{text}"))
    assert len(unknown) == 1  # the first text is a second output of the page's script


@pytest.mark.parametrize("page", FILES)
def test_a_file_that_a_page_shows_can_be_read(page: str, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.language == "toml":
            (tmp_path / "shown.toml").write_text(block.text)
            FILES[page](str(tmp_path / "shown.toml"))


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


def test_the_page_of_measurements_is_what_the_kept_results_make() -> None:
    whole = measured.completed([one for one in compare.kept() if not one["quick"] and one.get("seconds")])
    text = measured.PAGE.read_text()
    assert text == measured.written(text, whole), "make bench-page"
