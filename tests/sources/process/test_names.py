"""The names of a command's logs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flarelog.errors import InvalidName
from flarelog.replace import make_directory
from flarelog.sources.process import names
from flarelog.sources.process.names import checked, default_run, default_site, filled, hold
from tests.rows import together

Asked = tuple[str, Callable[[str], list[str]]]
"""A name, and a function that gives its logs."""


def both(named: str) -> list[str]:
    return [f"{named}/{output}.log" if named else f"{output}.log" for output in ("stdout", "stderr")]


def merged(named: str) -> list[str]:
    return [named or "output.log"]


@together(
    ("name", "is_"),
    [
        ("rank-{RANK}", "rank-3"),
        ("{SLURM_PROCID}/{RANK}", "17/3"),
        ("rank-{NOT_SET}", "rank-none"),
        ("{ODD}", "a_b_c"),
        ("{DOTS}", "none"),
        ("{}{1x}", "{}{1x}"),
    ],
)
def test_variables_in_a_name(name: str, is_: str) -> None:
    assert filled(name, {"RANK": "3", "SLURM_PROCID": "17", "ODD": "a/b c", "DOTS": ".."}) == is_


@pytest.mark.parametrize("name", ["{}", "..", "a/../b", "/a", "a" * 201])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        checked("run", "site", name)


@pytest.mark.parametrize(
    ("command", "env", "is_"),
    [
        ("/usr/bin/python3", {}, "python3-19700101-000010"),
        ("x y", {}, "x_y-19700101-000010"),
        ("python", {"SLURM_JOB_ID": "42"}, "slurm-42"),
    ],
)
def test_a_run_without_a_name(command: str, env: dict[str, str], is_: str) -> None:
    assert default_run(command, env, 10.0) == is_


def test_a_site_without_a_name() -> None:
    assert default_site({"SLURMD_NODENAME": "node-7"}) == "node-7"
    checked("run", default_site({}), "")


def test_a_name_that_is_held_gets_a_number_and_one_that_was_let_go_is_free(tmp_path: Path) -> None:
    first, second = (hold(str(tmp_path), "a/b", apart=True, logs=both) for _ in range(2))
    assert [(one.log, os.path.basename(one.root)) for one in (first, second)] == [("a/b", "a+b"), ("a/b-2", "a+b-2")]
    os.close(first.lock)
    assert hold(str(tmp_path), "a/b", apart=True, logs=both).log == "a/b"


def test_what_commands_of_the_same_name_left_is_found_unless_somebody_has_it(tmp_path: Path) -> None:
    held = [hold(str(tmp_path), "a", apart=True, logs=both) for _ in range(12)]
    others = [hold(str(tmp_path), name, apart=True, logs=both) for name in ("", "a-20", "b")]
    os.mkdir(tmp_path / "a-99")
    for one in (*held[1:8], held[10], *others):
        os.close(one.lock)
    own = held[8]
    left = names.left_beside(own, "a")
    first = next(left)
    assert os.path.basename(first.root) == "a-2"
    assert hold(str(tmp_path), "a", apart=True, logs=both).log == "a-3", "and it is held meanwhile"
    assert [os.path.basename(one.root) for one in left] == [*(f"a-{number}" for number in range(4, 9)), "a-11"]
    assert hold(str(tmp_path), "a", apart=True, logs=both).log == "a-2"


def test_a_command_within_another_one_has_a_name_of_its_own(tmp_path: Path) -> None:
    outer = hold(str(tmp_path), "", apart=True, logs=both)
    inner, second = (hold(outer.root, "", apart=False, logs=both) for _ in range(2))
    assert [one.log for one in (outer, inner, second)] == ["", "run-2", "run-3"]


def test_a_name_that_another_form_of_log_has_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one log")
    (tmp_path / "directory").mkdir()
    for name, other, own in (("file", both, merged), ("directory", merged, both)):
        first = hold(str(tmp_path), name, apart=False, logs=other)
        assert first.log == f"{name}-2"
        os.close(first.lock)
        assert hold(str(tmp_path), name, apart=False, logs=own).log == name, "and free for its own form"


@pytest.mark.parametrize(
    ("first", "second", "is_"),
    [
        pytest.param(("", both), ("stdout.log", merged), "stdout.log-2", id="a-file-of-the-one-without-a-name"),
        pytest.param(("stdout.log", merged), ("", both), "run-2", id="the-reverse"),
        pytest.param(("a", both), ("a/stdout.log", merged), "a/stdout.log-2", id="a-file-of-a-named-one"),
        pytest.param(("a/stdout.log", merged), ("a", both), "a-2", id="a-named-one-of-a-file"),
        pytest.param(("a/b", both), ("a", merged), "a-2", id="a-file-where-a-directory-is"),
        pytest.param(("", merged), ("output.log", both), "output.log-2", id="a-directory-where-a-file-is"),
        pytest.param(("a", both), ("a/b", both), "a/b", id="one-below-another"),
        pytest.param(("a", both), ("a/output.log", merged), "a/output.log", id="another-file"),
        pytest.param(("", both), ("b", both), "b", id="another-name"),
    ],
)
@pytest.mark.parametrize("apart", [(True, True), (False, False), (True, False)])
def test_two_commands_at_once_write_no_log_of_one_name(
    tmp_path: Path, first: Asked, second: Asked, is_: str, *, apart: tuple[bool, bool]
) -> None:
    """*apart*: both in places of their own, both in one directory, or the second below a command with a place of its
    own.
    """
    base = str(tmp_path)
    other = hold(base, first[0], apart=apart[0], logs=first[1])
    below = hold(base, "outer", apart=True, logs=both).root if apart == (True, False) else base
    place = hold(below, second[0], apart=apart[1], logs=second[1])
    assert place.log == is_
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_dir() and not any(entry.iterdir())] == []
    os.close(place.lock)
    os.close(other.lock)
    assert hold(below, second[0], apart=apart[1], logs=second[1]).log == second[0], "nobody else is there any more"


def test_a_lock_that_its_holder_has_removed_is_no_lock(tmp_path: Path) -> None:
    first = hold(str(tmp_path), "", apart=False, logs=both)
    os.unlink(first.held)
    again = hold(str(tmp_path), "", apart=False, logs=both)
    assert (again.log, again.root) == ("", str(tmp_path))


def test_a_directory_that_goes_while_it_is_asked_for_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "run" / "site"

    def made_and_removed(path: str, mode: int) -> None:
        make_directory(path, mode)
        monkeypatch.setattr(names, "make_directory", make_directory)
        os.rmdir(path)  # another command of the site ends, and removes it

    monkeypatch.setattr(names, "make_directory", made_and_removed)
    place = names.hold(str(base), "a", apart=True, logs=both)
    try:
        assert os.path.exists(place.held)
    finally:
        os.close(place.lock)


def test_hidden_files_of_a_spool_are_those_that_flarelog_did_not_make(tmp_path: Path) -> None:
    own = (".run.lock", ".stdout.log.spool", "a/.stdout.log.lead", "a/.stdout.log.lead.new", ".stdout.log.next")
    others = (".nccl-trace-rank-0", "ranks/.x/a.log", "ranks/.x/.a.log.spool", "ranks/.b.lock", ".lock", ".y/b/c.log")
    for path in (*own, *others, "stdout.log", "a/stdout.log.00000007", ".nfs0000000000a1b2c300000001"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("said")
    (tmp_path / ".link").symlink_to("stdout.log")
    os.mkfifo(tmp_path / ".pipe")
    assert names.hidden_files(str(tmp_path)) == sorted(others)


@pytest.mark.parametrize("how", ["link", "open", "file", "other"])
def test_a_directory_that_somebody_else_made_is_not_taken(tmp_path: Path, how: str) -> None:
    usual, said = tmp_path / f"flarelog-{os.getuid()}", list[str]()
    (tmp_path / "elsewhere").mkdir(0o700)
    if how == "link":
        usual.symlink_to(tmp_path / "elsewhere")
    elif how == "file":
        usual.touch(0o600)
    else:
        usual.mkdir(0o700)
        if how == "open":
            usual.chmod(0o777)
        elif os.getuid() == 0:
            os.chown(usual, 12345, -1)
        else:
            pytest.skip("only root can give a directory away")
    found = names.own_directory({}, said.append, str(tmp_path))
    assert found != str(usual)
    assert os.stat(found).st_mode & 0o777 == 0o700
    assert said == [f"{usual} is not a directory of this user alone: the spool is in {found}"]
    assert names.own_directory({}, said.append, str(tmp_path)) == found, "the next command finds what this one left"
    assert not any((tmp_path / "elsewhere").iterdir())


def test_the_usual_directory_is_made_once(tmp_path: Path) -> None:
    said = list[str]()
    found = {names.own_directory({}, said.append, str(tmp_path)) for _ in range(2)}
    assert (found, said) == ({str(tmp_path / f"flarelog-{os.getuid()}")}, [])
