"""Which directories are runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from flarelog.errors import InvalidOption
from flarelog.sources.base import Contents
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.runs import Directories, RunPattern, contents
from flarelog.sources.spool.series import of_spools
from tests.rows import together
from tests.unprivileged import unprivileged


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("path:{run}/**", {"job-1": "job-1", "job-2": "job-2", "x": "x"}),
        ("path:{run}", {"job-1": "job-1", "job-2": "job-2", "x": "x"}),
        ("path:job-{run}/**", {"1": "job-1", "2": "job-2"}),
        ("path:{run}/logs/**", {"job-1": "job-1/logs"}),
        ("path:*/{run}/**", {"logs": "job-1/logs", "deep": "x/deep"}),
        ("path:x/{run}/**", {"deep": "x/deep"}),
    ],
)
def test_a_pattern_finds_the_directories_of_runs(tmp_path: Path, pattern: str, found: dict[str, str]) -> None:
    for directory in ("job-1/logs", "job-2", "x/deep"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "x" / "file").touch()
    assert RunPattern(pattern).find(str(tmp_path)) == ({run: tmp_path / path for run, path in found.items()}, [])


def test_a_run_may_have_many_directories_whose_logs_do_not_collide(tmp_path: Path) -> None:
    for worker in ("fl_a_0", "fl_a_1", "fl_b_0", "other"):
        (tmp_path / worker / "main").mkdir(parents=True)
        (tmp_path / worker / "main" / "0.log").write_bytes(b"one\n")
    runs, troubles = Directories(RunPattern("path:fl_{run}_*/**"), SourceOptions(str(tmp_path))).look() or ({}, [])
    assert (sorted(runs), troubles) == (["a", "b"], [])
    of_a, seen = runs["a"]
    assert (seen.files, seen.size) == (2, 8)
    names = [f"{worker}/main/0.log" for worker in ("fl_a_0", "fl_a_1", "fl_b_0", "other")]
    assert [of_a.matches(name) for name in names] == [True, True, False, False]
    assert RunPattern("path:*/{run}/**").many is False  # one directory a run


@pytest.mark.parametrize(
    ("pattern", "options", "sentence"),
    [
        pytest.param("path:job-{run}/**", {}, "--run-from 'path:job-{run}/**' leaves out 2 directories", id="pattern"),
        pytest.param(
            "path:{run}/**",
            {"include": ("*.txt",)},
            "no file under ROOT matches --include '*.txt', which leaves out 2 files",
            id="include",
        ),
        pytest.param(
            "path:{run}/**",
            {"exclude": ("**",)},
            "no file under ROOT is sent: --exclude '**' leaves out 2 files",
            id="exclude",
        ),
        pytest.param("path:{run}/**", {}, "", id="something-is-a-log"),
    ],
)
def test_what_is_left_out_where_no_run_has_a_log_is_said(
    tmp_path: Path, pattern: str, options: dict[str, Any], sentence: str
) -> None:
    for path in ("a/deep/x.log", "b/y.log", ".hidden/z.txt", "z.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    runs = Directories(RunPattern(pattern), SourceOptions(str(tmp_path), **options))
    assert runs.unmatched() == sentence.replace("ROOT", str(tmp_path))


def test_of_an_empty_root_nothing_is_left_out(tmp_path: Path) -> None:
    assert Directories(RunPattern("path:{run}/**"), SourceOptions(str(tmp_path))).unmatched() == ""


@pytest.mark.parametrize(
    ("pattern", "own", "files"),
    [
        pytest.param("path:{run}/**", "state", {"job": 1}, id="it-would-be-a-run"),
        pytest.param("path:*/{run}/**", "state", {"deep": 1}, id="a-run-would-be-in-it"),
        pytest.param("path:{run}/**", "job/x[y]", {"job": 1}, id="it-is-in-a-run"),
        pytest.param("path:{run}/**", "../state", {"job": 1}, id="it-is-elsewhere"),
        pytest.param("path:{run}/**", ".", {"job": 1, "deep": 1}, id="it-is-the-root"),
    ],
)
def test_the_agents_own_directory_is_no_run_and_no_log(
    tmp_path: Path, pattern: str, own: str, files: dict[str, int]
) -> None:
    root = tmp_path / "jobs"
    for path in (root / "job/deep/x.log", root / own / "deep/job.site.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = Directories(RunPattern(pattern), SourceOptions(str(root)), str(root / own)).look()
    assert found is not None
    assert {run: seen.files for run, (_, seen) in found[0].items()} == files
    assert found[1] == []


@pytest.mark.parametrize(
    ("own", "sent"), [("root/a", ["b/x.log"]), ("root", ["a/x.log", "b/x.log"]), ("c", ["a/x.log", "b/x.log"])]
)
def test_no_log_of_a_sidecar_lies_in_its_own_directory(tmp_path: Path, own: str, sent: list[str]) -> None:
    wanted = SourceOptions(str(tmp_path / "root")).without(str(tmp_path / own))
    assert [path for path in ("a/x.log", "b/x.log") if wanted.matches(path)] == sent


def test_a_link_to_a_directory_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    assert set(RunPattern("path:{run}").find(str(tmp_path))[0]) == {"run"}


def test_a_directory_of_any_name_is_a_run_and_the_second_of_a_name_is_reported(tmp_path: Path) -> None:
    for directory in ("a/1", "b/1", "a/any name"):
        (tmp_path / directory).mkdir(parents=True)
    found, (trouble,) = RunPattern("path:*/{run}/**").find(str(tmp_path))
    assert found == {"1": tmp_path / "a" / "1", "any%20name": tmp_path / "a" / "any name"}
    assert trouble.startswith(f"directory {tmp_path}/b/1 is not sent: ")
    assert trouble.endswith("a/1 is run 1 already")


def looked(runs: Directories) -> tuple[dict[str, Path], list[str]]:
    found = runs.look()
    assert found is not None
    return {run: Path(wanted.directory) for run, (wanted, _) in found[0].items()}, found[1]


@pytest.mark.parametrize(("first", "other"), [("anna", "bob"), ("bob", "anna")])
def test_a_runs_name_stays_with_the_directory_that_had_it_first(tmp_path: Path, first: str, other: str) -> None:
    had, has = tmp_path / first / "1", tmp_path / other / "1"
    had.mkdir(parents=True)
    runs = Directories(RunPattern("path:*/{run}/**"), SourceOptions(str(tmp_path)))
    assert looked(runs) == ({"1": had}, [])
    has.mkdir(parents=True)
    assert looked(runs) == ({"1": had}, [f"directory {has} is not sent: {had} is run 1 already"])
    shutil.rmtree(had)
    found, (said,) = looked(runs)
    assert found == {}
    assert said.startswith(f"directory {has} is not sent: run 1 was {had}, which is gone")
    had.mkdir()
    assert looked(runs)[0] == {"1": had}


def test_a_runs_directory_may_move(tmp_path: Path) -> None:
    before, after = tmp_path / "running" / "1", tmp_path / "done" / "1"
    before.mkdir(parents=True)
    after.parent.mkdir()
    runs = Directories(RunPattern("path:*/{run}/**"), SourceOptions(str(tmp_path)))
    assert looked(runs) == ({"1": before}, [])
    before.rename(after)
    assert looked(runs) == ({"1": after}, [])
    after.rename(before)
    assert looked(runs) == ({"1": before}, [])


@pytest.mark.parametrize("mode", [0o600, 0o000])
def test_a_directory_that_is_closed_is_said(tmp_path: Path, mode: int) -> None:
    for directory in ("a/1", "b/2", "b/3"):
        (tmp_path / directory).mkdir(parents=True)
    with unprivileged():
        for directory in ("a", "b/2"):
            (tmp_path / directory).chmod(mode)
        found, troubles = RunPattern("path:*/{run}/**").find(str(tmp_path))
        closed, also = RunPattern("path:{run}/**").find(str(tmp_path))
        (tmp_path / "a").chmod(0o700)
        tmp_path.chmod(mode)
        nothing, all_of_it = RunPattern("path:{run}/**").find(str(tmp_path))
        tmp_path.chmod(0o700)
    assert found == {"3": tmp_path / "b" / "3"}
    assert sorted(troubles) == [
        f"directory {tmp_path}/a is not sent: Permission denied",
        f"directory {tmp_path}/b/2 is not sent: Permission denied",
    ]
    assert (closed, also) == (
        {"b": tmp_path / "b"},
        [f"directory {tmp_path}/a is not sent: Permission denied"],
    )
    assert (nothing, all_of_it) == ({}, [f"directory {tmp_path} is not sent: Permission denied"])


@together(
    "pattern",
    [
        "",
        "{run}/**",
        "path:",
        "path:**",
        "path:runs/**",
        "path:{run}/{run}/**",
        "path:**/{run}/**",
        "path:../{run}",
        "path:{site}/{run}",
        "path:[ab]{run}",
    ],
)
def test_a_pattern_that_makes_no_sense_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidOption, match="--run-from"):
        RunPattern(pattern)


def test_contents_are_those_of_the_logs(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.log").write_text("12345")
    (tmp_path / "deep" / "b.log").write_text("123")
    (tmp_path / "deep" / "model.pt").write_text("much")
    (tmp_path / "gone.log").symlink_to("nowhere")
    newest = max((tmp_path / name).stat().st_mtime_ns for name in ("a.log", "deep/b.log"))
    assert contents(tmp_path, lambda path: path.endswith(".log")) == (Contents(2, 8, newest), [])
    assert contents(tmp_path, lambda path: path == "deep/b.log")[0].size == 3


@pytest.mark.parametrize("mode", [0o600, 0o000])
def test_a_run_has_contents_though_they_cannot_be_looked_at(tmp_path: Path, mode: int) -> None:
    """The sidecar of the run reports closed files."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.log").write_text("123")
    with unprivileged():
        (tmp_path / "deep").chmod(mode)
        assert contents(tmp_path, lambda _: True) == (Contents(1, 0, 0), [])
        (tmp_path / "deep").chmod(0o700)


def test_a_run_that_appears_later_is_sent_from_its_beginning(tmp_path: Path) -> None:
    directories = Directories(RunPattern("path:{run}/**"), SourceOptions(str(tmp_path / "root"), start_at="end"))
    assert directories.look() is None
    (tmp_path / "root" / "early").mkdir(parents=True)

    def begins() -> dict[str, str]:
        looked = directories.look()
        assert looked is not None
        return {run: wanted.start_at for run, (wanted, _) in looked[0].items()}

    assert begins() == {"early": "end"}
    (tmp_path / "root" / "late").mkdir()
    assert begins() == {"early": "end", "late": "beginning"}
    (tmp_path / "root" / "early").rmdir()
    assert begins() == {"late": "beginning"}
    (tmp_path / "root" / "early").mkdir()
    assert begins() == {"early": "beginning", "late": "beginning"}


def test_a_hidden_directory_is_no_run_unless_the_pattern_has_its_dot(tmp_path: Path) -> None:
    for name in (".git/hooks", "jobs/.cache", "jobs/one", ".site/two"):
        (tmp_path / name).mkdir(parents=True)
    assert RunPattern("path:{run}/**").find(str(tmp_path)) == ({"jobs": tmp_path / "jobs"}, [])
    assert RunPattern("path:*/{run}/**").find(str(tmp_path)) == ({"one": tmp_path / "jobs/one"}, [])
    assert RunPattern("path:.site/{run}").find(str(tmp_path)) == ({"two": tmp_path / ".site/two"}, [])


def test_the_files_of_a_spool_are_no_logs_of_a_run(tmp_path: Path) -> None:
    root = tmp_path / "job-1" / "oslo" / "run"
    root.mkdir(parents=True)
    for name in ("stdout.log", ".run.lock"):
        (root / name).write_bytes(b"one\n")
    (tmp_path / "job-1" / "other.log").write_bytes(b"two\n")
    found = Directories(RunPattern("path:{run}/**"), SourceOptions(str(tmp_path), series=of_spools())).look()
    assert found is not None
    ((wanted, seen),) = found[0].values()
    assert (seen.files, seen.size) == (1, 4)
    assert wanted.matches("other.log")
    assert not wanted.matches("oslo/run/stdout.log")
