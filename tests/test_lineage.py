"""Which log a file with a rotated name belongs to: what is a generation, what a copy, and what another log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

import pytest

from tests.tailing import Site

Sites = Callable[..., Site]


def born_apart() -> None:
    """Until a new file is younger by the file system's clock."""
    time.sleep(0.01)


@pytest.mark.parametrize("other", ["app-2.log", "app.2.log", "app_2.log", "app-10.log"])
def test_a_live_log_whose_name_has_a_number_more_is_another_log(make_site: Sites, other: str) -> None:
    site = make_site()
    for name in ("app.log", other):
        site.append(f"{name}.1", b"old of %s\n" % name.encode())
        born_apart()
    for name in (other, "app.log"):  # the other one is the older
        site.append(name, b"new of %s\n" % name.encode())
        born_apart()
    site.settle()
    wanted = {name: b"old of %s\nnew of %s\n" % (name.encode(), name.encode()) for name in ("app.log", other)}
    assert {name: site.content(name) for name in site.stored} == wanted


@pytest.mark.parametrize("include", [(), ("log.txt",)])
@pytest.mark.parametrize("word", ["bak", "orig", "old"])
def test_a_copy_that_somebody_has_made_before_a_rotation_is_no_generation(
    make_site: Sites, include: tuple[str, ...], word: str
) -> None:
    site = make_site(include=include)
    site.append("log.txt", b"one\n")
    site.settle()
    born_apart()
    shutil.copy(site.root / "log.txt", site.root / f"log.txt.{word}")
    site.rename("log.txt", "log.txt.1")
    born_apart()
    site.append("log.txt", b"two\n")
    site.restart()
    site.settle()
    assert site.content("log.txt") == b"one\ntwo\n"


def test_what_a_checkpoint_knows_is_sent_though_it_was_rotated_out_of_the_patterns(make_site: Sites) -> None:
    """Nothing was sent when it was: no receiver had answered yet."""
    site = make_site(include=("log.txt",))
    site.append("log.txt", b"one\n")
    site.look()
    kept = site.discovery.starts()
    site.rename("log.txt", "log.txt.1")
    born_apart()
    site.append("log.txt", b"two\n")
    site.restart(kept)
    site.settle()
    assert site.content("log.txt") == b"one\ntwo\n"


def test_rotated_files_that_are_there_at_the_first_look_are_generations_of_their_log(make_site: Sites) -> None:
    site = make_site()
    for name, data in (("log.txt.2", b"one\n"), ("log.txt.1", b"two\n"), ("log.txt", b"three\n")):
        site.append(name, data)
        born_apart()
    site.settle()
    assert {name: site.content(name) for name in site.stored} == {"log.txt": b"one\ntwo\nthree\n"}
