"""A log that a sidecar opened at the receiver, and of which nothing was sent when the sidecar was killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sources.files.tailing import Site, Stored


@pytest.mark.parametrize("looks", [True, False], ids=["seen-before-the-record", "seen-after-it"])
@pytest.mark.parametrize(
    ("opened", "files", "stored"),
    [
        pytest.param(
            "a.log.1",
            {"a.log.1": b"one\n", "a.log": b"two\n"},
            {"a.log.1": b"one\n", "a.log": b"two\n"},
            id="its-file-has-the-name-of-a-rotation-of-a-new-file",
        ),
        pytest.param("a.log", {"a.log.1": b"one\n"}, {"a.log": b"one\n"}, id="its-file-was-rotated-without-a-new-one"),
        pytest.param(
            "a.log",
            {"a.log.2": b"one\n", "a.log.1": b"two\n"},
            {"a.log": b"one\ntwo\n"},
            id="its-files-were-rotated-twice-without-a-new-one",
        ),
        pytest.param(
            "a.log",
            {"a.log.1": b"one\n", "a.log": b"two\n"},
            {"a.log": b"one\ntwo\n"},
            id="its-file-was-rotated-and-a-new-one-has-its-name",
        ),
        pytest.param(
            "b.log",
            {"a.log.1": b"one\n", "a.log": b"two\n"},
            {"a.log": b"one\ntwo\n", "b.log": b""},
            id="its-file-is-gone",
        ),
        pytest.param("a.log", {"a-1.log": b"one\n"}, {"a-1.log": b"one\n", "a.log": b""}, id="another-log"),
    ],
)
def test_it_keeps_its_file(
    make_site: Callable[..., Site], opened: str, files: dict[str, bytes], stored: dict[str, bytes], looks: bool
) -> None:
    site = make_site()
    site.stored[opened] = Stored()
    for name, data in files.items():
        site.append(name, data)
    site.restart(look=looks)
    site.settle()
    assert {name: site.content(name) for name in site.stored} == stored
    site.rename("a.log", "a.log.9") if "a.log" in files else None
    site.append("a.log", b"more\n")
    site.settle()
    assert site.content("a.log") == stored.get("a.log", b"") + b"more\n"


def test_a_receiver_that_lies_keeps_no_file_from_its_log(make_site: Callable[..., Site]) -> None:
    site = make_site(include=("a.log",))
    site.stored["a.log.1"] = Stored()
    site.append("a.log", b"one\n")
    site.settle()
    site.append("a.log", b"more of it\n")
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.restart()
    site.settle()
    assert site.content("a.log") == b"one\nmore of it\ntwo\n"
    assert site.content("a.log.1") == b""
