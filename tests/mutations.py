"""Whether the suite notices broken laws: each mutant breaks one law in one place, and the tests that it names must
fail.

``python -m tests.mutations`` prints each broken law, the time, and the test that saw it; it exits with 1 if a mutant
survives. A place that is not found exactly once ends the whole with a sentence. ``python -m tests.mutations WORD...``
tries those whose law or sentence has one of the words.

A test that takes much longer than without a mutation hangs, and counts as failed.
"""

from __future__ import annotations

import compileall
import gc
import importlib
import json
import os
import py_compile
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import Phase, settings

from tests.mutants import PACKAGE, TREE, Code, Mutant, Rotten, table

COPIED = ("flarelog", "fuzz", "tests", "bench", "setup.cfg", "pyproject.toml", "SECURITY.md")
# The tests' imports from outside the tree, done once for all mutants. A missing module costs time alone.
WARM = ("grpc.aio", "click.testing", "cryptography.x509.verification", "hypothesis.stateful", "pyte", "unittest.mock")
WORKERS = os.cpu_count() or 2
PATIENCE = 120.0  # seconds for a test of unknown duration, or for the import of all tests
HANGING, SLOWER = 5.0, 10.0  # a test hangs when it takes this many seconds more than its known duration times SLOWER
SAID = "said"  # pytest's output, in a copy of the tree


@contextmanager
def tree_copy() -> Iterator[Path]:
    """A copy of the tree for mutations."""
    with tempfile.TemporaryDirectory(prefix="flarelog-mutant-") as temporary:
        for name in COPIED:
            if (TREE / name).is_dir():
                shutil.copytree(TREE / name, Path(temporary, name), ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(TREE / name, Path(temporary, name))
        # A mutated file may have its original's size and second. So compiled modules are validated by their sources'
        # hashes, which Python keeps on when it compiles such a module again.
        # source's hash alone, and Python keeps to that when it compiles one again.
        compiled = Path(temporary, "flarelog")
        compileall.compile_dir(compiled, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
        yield Path(temporary)


# --- a run of tests: a fork of this process, which has imported their dependencies, but nothing of the tree


Change = tuple[Path, str]  # a file of the tree, and its mutated text


class _Telling:
    """A pytest plugin that reports events to the parent, a JSON array a line. Quick tests run first."""

    def __init__(self, pipe: int, took: dict[str, float]) -> None:
        self._pipe, self._took = pipe, took

    def tell(self, what: str, test: str = "", number: float = 0.0) -> None:
        os.write(self._pipe, f"{json.dumps([what, test, number])}\n".encode())

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """One failing example is enough, so hypothesis does not shrink it."""
        phases = [Phase.explicit, Phase.reuse, Phase.generate]
        settings.register_profile("mutants", settings.default, phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._took.get(item.nodeid, 0.0))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tell("begins", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tell("failed" if report.failed else "took", report.nodeid, report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.tell("failed", report.nodeid)


def run_tests(tree: Path, files: Iterable[str], pipe: int, took: dict[str, float]) -> NoReturn:
    """Run *files* of *tree* up to the first failure, with flarelog from *tree*, and end this process."""
    telling = _Telling(pipe, took)
    try:
        os.setsid()
        said = os.open(tree / SAID, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(said, number)
        os.chdir(tree)
        os.environ.update(PYTHONPATH=str(tree), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
        sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", str(TREE)))]
        for name in [name for name in sys.modules if name.partition(".")[0] in COPIED]:
            del sys.modules[name]
        options = ["-x", "--tb=short", "-p", "no:cacheprovider", "-p", "pytest_mock"]
        code = int(pytest.main([*options, *files], plugins=[telling]))
        where = sys.modules["flarelog"].__file__ if "flarelog" in sys.modules else None
        if where and not where.startswith(str(tree)):
            print(f"flarelog was imported from {where}, not from the copy in {tree}")
            code = 70
        telling.tell("ended", "", code)
    except BaseException:
        traceback.print_exc()
        telling.tell("ended", "", 70)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class Run:
    """A run of *files* that has begun in *tree*, with *mutant* if there is one: *change* is its file and that file's
    text. *took*: the known seconds of each test.
    """

    def __init__(
        self, tree: Path, files: Iterable[str], mutant: Mutant | None, change: Change | None, took: dict[str, float]
    ) -> None:
        self.tree, self.mutant, self.began = tree, mutant, time.monotonic()
        self.failed = ""  # the first test that failed
        self.took: dict[str, float] = {}  # seconds of each test that has ended
        self._code: float | None = None  # pytest's exit code
        self._known, self._rest = took, b""
        self._test, self._until = "what comes before the first test", self.began + PATIENCE
        self._path: Path | None = None  # the file that the mutant changes
        if change is not None:
            path, changed = change
            self._path, self._before = tree / path.relative_to(TREE), path.read_text()
            self._path.write_text(changed)
        self.pipe, inner = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.pipe)
            run_tests(tree, files, inner, took)
        os.close(inner)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def is_over(self, readable: bool) -> bool:
        """Read the run's reports, if its pipe is *readable*; return whether the run has ended or hangs."""
        if readable:
            told = os.read(self.pipe, 1 << 16)
            *lines, self._rest = (self._rest + told).split(b"\n")
            for line in lines:
                self._heard(*json.loads(line))
            if not told or self._code is not None:
                self.failed = self.failed or ("" if told else f"{self._test} ended the process")
                return True
        if time.monotonic() < self._until:
            return False
        self.failed = self.failed or f"{self._test} hung"
        return True

    def _heard(self, what: str, test: str, number: float) -> None:
        match what:
            case "begins":
                known = self._known.get(test)
                self._test = test
                self._until = time.monotonic() + (PATIENCE if known is None else HANGING + SLOWER * known)
            case "took":
                self.took[test] = self.took.get(test, 0.0) + number
            case "failed":
                self.failed = self.failed or test
            case "ended":
                self._code = number

    def close(self) -> None:
        """Kill the rest of the run, and undo the mutation. Raises Rotten if pytest failed without a failed test."""
        for kill in (os.killpg, os.kill):  # the tests' own processes are in the group
            with suppress(ProcessLookupError):
                kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self.pipe)
        if self._path is not None:
            self._path.write_text(self._before)
        if self._code not in (None, 0) and not self.failed:
            raise Rotten(f"the tests did not run: {self.said()}")

    def said(self) -> str:
        return (self.tree / SAID).read_text(errors="replace")[-3000:]


def runs(
    trees: Iterable[Path], wanted: Iterable[tuple[Iterable[str], Mutant | None, Change | None]], took: dict[str, float]
) -> Iterator[Run]:
    """Run all (files, mutant, change) of *wanted*, as many at a time as there are *trees*; yield each when over."""
    waiting, free = deque(wanted), list(trees)
    going: list[Run] = []
    try:
        while waiting or going:
            while waiting and free:
                going.append(Run(free.pop(), *waiting.popleft(), took))
            readable = select.select([run.pipe for run in going], [], [], 1.0)[0]
            for run in [run for run in going if run.is_over(run.pipe in readable)]:
                going.remove(run)
                run.close()
                yield run
                free.append(run.tree)
    finally:
        for run in going:
            with suppress(Rotten):
                run.close()


def warm_up() -> None:
    for name in WARM:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # later collections then do not write to, and so copy, the shared pages of the forks


def baseline(trees: list[Path], files: list[str]) -> dict[str, float]:
    """The seconds that each test of *files* takes. Raises Rotten if a test fails without a mutation."""
    took: dict[str, float] = {}
    shares = [files[number :: len(trees)] for number in range(len(trees))]
    for run in runs(trees, [(share, None, None) for share in shares if share], {}):
        if run.failed:
            raise Rotten(f"without any mutation {run.failed} fails: {run.said()}")
        took |= run.took
    return took


def main(words: list[str]) -> int:
    begin = time.monotonic()
    chosen = [mutant for mutant in table() if not words or any(word in str(mutant) for word in words)]
    code = Code(PACKAGE)
    wanted = [(mutant.files(TREE), mutant, code.mutated(mutant)) for mutant in chosen]
    survivors = 0
    with ExitStack() as stack:
        trees = [stack.enter_context(tree_copy()) for _ in range(WORKERS)]
        warm_up()
        took = baseline(trees, sorted({file for files, _, _ in wanted for file in files}))
        print(f"{len(took)} tests are green without any mutation, in {time.monotonic() - begin:.0f} s")
        width = max((len(str(mutant)) for mutant in chosen), default=0)
        print(f"{'BROKEN':{width}}  SECONDS  SEEN BY")
        for run in runs(trees, wanted, took):
            survivors += not run.failed
            seen = run.failed or f"NOTHING of {run.mutant.tests if run.mutant else ''}"
            print(f"{run.mutant!s:{width}}  {run.seconds:7.1f}  {seen}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants were killed in {time.monotonic() - begin:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Rotten as rotten:
        sys.exit(f"mutations: {rotten}")
