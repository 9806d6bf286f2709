"""The manual page matches the commands' help, and no text in it is a roff request."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from importlib import import_module

import pytest

from flarelog.cli import main

made = import_module("docs.man")
PAGE, commands, escaped, page, paragraphs = made.PAGE, made.commands, made.escaped, made.page, made.paragraphs


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "make man writes it anew"


def test_each_command_has_a_section() -> None:
    sections = [line[4:] for line in page().splitlines() if line.startswith(".SS ")]
    names = [escaped(name) for name, _ in commands(main, "flarelog")]
    assert len(names) == len(sections) > 15
    assert all(section.startswith(name) for name, section in zip(names, sections, strict=True))


@pytest.mark.parametrize(
    ("text", "found"), [("a-b", r"a\-b"), (r"a \ b", r"a \e b"), (".x\n'y", "\\&.x\n\\&'y"), ("a. b", "a. b")]
)
def test_text_is_no_request(text: str, found: str) -> None:
    assert escaped(text) == found


def test_what_is_filled_and_what_stays_as_it_is() -> None:
    help_ = "One\ntwo.\n\n\b\nExample:\n    a b\n  c\n"
    assert list(paragraphs(help_)) == [".PP\nOne two.", ".PP\n.nf\nExample:\n    a b\n  c\n.fi"]


def test_roff_has_nothing_to_complain_of() -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("there is no groff: install it")
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww", "-z", str(PAGE)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_wheel_has_it() -> None:
    said = configparser.ConfigParser()
    said.read(PAGE.parent.parent / "setup.cfg")
    files = said["options.data_files"]["share/man/man1"].split()
    assert files == [str(PAGE.relative_to(PAGE.parent.parent))]
