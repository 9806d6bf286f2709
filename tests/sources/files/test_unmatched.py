"""Why no file under a root is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from flarelog.sources.consent import Consent
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.unmatched import sentence, unmatched
from tests.rows import together

FILES = ("log.txt", "rank-0/log.txt", "model.pt")


def options(include: tuple[str, ...] = (), exclude: tuple[str, ...] = (), *sites: Consent) -> SourceOptions:
    return SourceOptions("/r", include=include, exclude=exclude, sites=sites)


@together(
    ("asked", "paths", "said"),
    [
        pytest.param(options(), FILES, "", id="one-matches"),
        pytest.param(options(("rank-*/**",)), FILES, "", id="one-matches-the-pattern"),
        pytest.param(options(("nope*",)), (), "", id="nothing-is-there"),
        pytest.param(
            options(("nope*", "*.x")),
            FILES,
            "no file under /r matches --include 'nope*', '*.x', which leaves out 3 files",
            id="patterns-that-match-nothing",
        ),
        pytest.param(
            options(("*.txt",), ("log*",)),
            FILES,
            "no file under /r is sent: --exclude 'log*' leaves out 3 files",
            id="left-out-by-the-other-option",
        ),
        pytest.param(
            options(),
            FILES[2:],
            "no file under /r has the name of a log, which leaves out 1 file: name them with --include",
            id="names-of-no-logs",
        ),
        pytest.param(
            options((), (), Consent(include=("*.csv",))),
            FILES,
            "no file under /r may leave the site: its policy leaves out 2 files",
            id="the-site-s-policy",
        ),
    ],
)
def test_the_sentence(asked: SourceOptions, paths: tuple[str, ...], said: str) -> None:
    assert sentence(asked, paths) == said


def test_of_what_is_there(tmp_path: Path) -> None:
    asked = SourceOptions(str(tmp_path), include=("nope*",))
    assert unmatched(asked) == ""
    assert unmatched(asked, empty=True) == f"there is no file under {tmp_path}"
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.log").write_text("line\n")
    (tmp_path / "gone.log").symlink_to("nowhere")
    assert unmatched(asked).endswith("which leaves out 1 file")
    (tmp_path / "deep" / "nope").write_text("line\n")
    assert unmatched(asked, empty=True) == ""
