"""Files that cannot be read, and directories that cannot be listed: logs with a mark that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flarelog.model import Gap, Generation, Unread, unread_at_end
from tests.sources.files.tailing import Site
from tests.unprivileged import unprivileged

Sites = Callable[..., Site]
DENIED = "cannot be read: Permission denied"


def settle(site: Site) -> None:
    with unprivileged():
        site.settle()


def restart(site: Site) -> None:
    with unprivileged():
        site.restart()
        site.settle()


def reasons(site: Site, log: str) -> list[str]:
    return [mark.reason for mark in site.stored[log].marks if isinstance(mark, Unread)]


def test_a_file_that_cannot_be_read_is_a_log_of_no_bytes_that_goes_on_at_0(make_site: Sites) -> None:
    site = make_site()
    site.append("a.log", b"a\n")
    (site.root / "a.log").chmod(0)
    settle(site)
    stored = site.stored["a.log"]
    assert (site.content("a.log"), reasons(site, "a.log")) == (b"", [DENIED])
    assert stored.info("a.log").unstored == DENIED
    restart(site)
    assert reasons(site, "a.log") == [DENIED], "it is said once"
    (site.root / "a.log").chmod(0o644)
    settle(site)
    assert (site.content("a.log"), reasons(site, "a.log")) == (b"a\n", [DENIED, ""])
    assert stored.info("a.log").unstored == ""


def test_the_rest_of_a_log_that_cannot_be_read_is_said_at_the_end_of_its_bytes(make_site: Sites) -> None:
    site = make_site()
    site.append("a.log", b"a\n")
    settle(site)
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"b\n")
    (site.root / "a.log").chmod(0)
    settle(site)
    assert (site.content("a.log"), reasons(site, "a.log")) == (b"a\n", [DENIED])
    assert site.stored["a.log"].info("a.log").unread_rest == DENIED
    restart(site)
    assert reasons(site, "a.log") == [DENIED]
    (site.root / "a.log").chmod(0o644)
    settle(site)
    assert (site.content("a.log"), reasons(site, "a.log")) == (b"a\nb\n", [DENIED, ""])


def test_a_log_of_which_a_stored_file_has_grown_and_cannot_be_read_has_no_other_loss(make_site: Sites) -> None:
    site = make_site()
    site.append("a.log", b"a\n")
    settle(site)
    site.append("a.log", b"b\n")
    (site.root / "a.log").chmod(0)
    restart(site)
    assert [type(mark) for mark in site.stored["a.log"].marks if not isinstance(mark, Generation)] == [Unread]
    (site.root / "a.log").chmod(0o644)
    settle(site)
    assert (site.content("a.log"), reasons(site, "a.log")) == (b"a\nb\n", [DENIED, ""])


@pytest.mark.parametrize(
    ("size", "renamed", "lost"),
    [
        pytest.param(7, "", [7], id="removed"),
        pytest.param(0, "", [], id="removed-and-empty"),
        pytest.param(7, "b.log", [], id="renamed-to-another-log"),
    ],
)
def test_what_is_removed_before_it_could_be_read_is_a_gap(
    make_site: Sites, size: int, renamed: str, lost: list[int]
) -> None:
    site = make_site()
    site.append("a.log", b"a" * size)
    (site.root / "a.log").chmod(0)
    settle(site)
    if renamed:
        site.rename("a.log", renamed)
    else:
        (site.root / "a.log").unlink()
    settle(site)
    assert [mark.length for mark in site.stored["a.log"].marks if isinstance(mark, Gap)] == lost
    assert reasons(site, "a.log") == [DENIED, ""]
    assert not renamed or reasons(site, renamed) == [DENIED]


@pytest.mark.parametrize("mode", [0, 0o644])
def test_a_file_that_is_replaced_before_it_could_be_read_is_a_gap(make_site: Sites, mode: int) -> None:
    site = make_site()
    site.append("a.log", b"a\n")
    (site.root / "a.log").chmod(0)
    settle(site)
    site.append("a.log", b"a\n")
    settle(site)
    (site.root / "a.log").unlink()
    site.append("a.log", b"b\n")
    (site.root / "a.log").chmod(mode)
    settle(site)
    (site.root / "a.log").chmod(0o644)
    settle(site)
    assert [mark.length for mark in site.stored["a.log"].marks if isinstance(mark, Gap)] == [4]
    assert (site.content("a.log"), reasons(site, "a.log")[-1]) == (b"b\n", "")


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_was_replaced_unread_while_no_sidecar_ran_is_a_gap(make_site: Sites, replaced: bool) -> None:
    site = make_site()
    site.clock = -1000 if replaced else 1000  # so that the mark is from before the new file, and after the old one
    site.append("a.log", b"a\n")
    (site.root / "a.log").chmod(0)
    settle(site)
    if replaced:
        (site.root / "a.log").unlink()
        site.append("a.log", b"b\n")
    (site.root / "a.log").chmod(0o644)
    restart(site)
    restart(site)
    assert [mark.reason for mark in site.stored["a.log"].marks if isinstance(mark, Gap)] == (
        [f"{DENIED}, and it is gone"] * replaced
    )
    assert (site.content("a.log"), reasons(site, "a.log")) == (b"b\n" if replaced else b"a\n", [DENIED, ""])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"exclude": ("a.log",)}, "", id="excluded"),
        pytest.param({"include": ("b*",)}, DENIED, id="another-sidecar's"),
    ],
)
def test_a_file_that_is_excluded_after_a_restart_is_not_missed_any_more(
    make_site: Sites, options: dict[str, tuple[str, ...]], said: str
) -> None:
    site = make_site()
    for name in ("a.log", "b.log"):
        site.append(name, b"a\n")
    (site.root / "a.log").chmod(0)
    settle(site)
    site.options = replace(site.options, **options)  # type: ignore[arg-type]
    restart(site)
    assert unread_at_end(site.stored["a.log"].marks) == said
    assert not any(isinstance(mark, Gap) for mark in site.stored["a.log"].marks)


def test_a_directory_that_cannot_be_listed_is_a_log_until_it_can(make_site: Sites) -> None:
    site = make_site()
    site.append("d/a.log", b"a\n")
    (site.root / "d").chmod(0)
    settle(site)
    assert reasons(site, "d/.") == ["cannot be listed: Permission denied"]
    assert (site.stored["d/."].info("d/.").name, site.stored["d/."].info("d/.").is_directory) == ("d/", True)
    (site.root / "d").chmod(0o755)
    restart(site)
    assert unread_at_end(site.stored["d/."].marks) == ""
    assert site.content("d/a.log") == b"a\n"


def test_a_draining_sidecar_ends_the_logs_that_it_cannot_read(make_site: Sites) -> None:
    site = make_site()
    site.append("a.log", b"a\n")
    (site.root / "a.log").chmod(0)
    settle(site)
    with unprivileged():
        site.discovery.drain(site.now)
        site.settle()
    assert site.discovery.tails["a.log"].drained(site.now)


def test_a_log_that_cannot_be_read_is_one_before_and_after_the_record_is_known(make_site: Sites) -> None:
    site = make_site()
    site.append("a.log", b"a\n")
    site.append("b.log", b"b\n")
    (site.root / "a.log").chmod(0)
    restart(site)
    assert (reasons(site, "a.log"), site.content("b.log")) == ([DENIED], b"b\n")
