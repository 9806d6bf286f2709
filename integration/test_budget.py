"""One hostile log delays no other site's lines in ``follow`` and ``logs`` of real processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.harness.places import RUN, Place, Receiver, append, until

HOSTILE = b"\x1b[2Jx\x1b[64;1024Hy\x1b[1;1H\a\n\b\n" * 100_000  # some MB, each as expensive to draw as the limit allows
LINES = 40
IN_TIME = 5.0  # seconds on a loaded machine; all of the hostile log takes longer to draw


class Shown:
    """A program's output, read only where it is new, because it is large."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._rest = path, 0, b""

    def has(self, wanted: bytes) -> Callable[[], bool]:
        """A condition: whether *wanted* came after the last match."""

        def look() -> bool:
            with open(self._path, "rb") as file:
                file.seek(self._at)
                more = file.read()
            self._at += len(more)
            data = self._rest + more
            found = data.find(wanted)
            self._rest = data[found + len(wanted) :] if found >= 0 else data[-len(wanted) :]
            return found >= 0

        return look


def two_sites(place: Place) -> Receiver:
    """A receiver with logs of a hostile and an honest site."""
    receiver = place.serve()
    for site, data in (("honest", b"honest line begin\n"), ("mallory", HOSTILE)):
        root = place.directory / site
        root.mkdir()
        append(root / "log.txt", data)
    for site in ("honest", "mallory"):
        place.sidecar(receiver, root=place.directory / site, site=site)
    until(lambda: len(receiver.stored("log.txt", "mallory")) == len(HOSTILE), "the hostile log is there", 120.0)
    return receiver


def test_who_follows_sees_the_other_sites_lines_while_a_hostile_log_takes_its_time(place: Place) -> None:
    receiver = two_sites(place)
    follower = place.start("follow", RUN, "--tail", "-1", "--receiver", receiver.address)
    shown = Shown(place.directory / f"{len(place.programs) - 1}.out")
    until(shown.has(b"honest line begin\n"), "it shows the honest site")
    late = []
    for number in range(LINES):
        append(place.directory / "honest" / "log.txt", b"honest line %d\n" % number)
        append(place.directory / "mallory" / "log.txt", HOSTILE[:50_000])
        began = time.monotonic()
        until(shown.has(b"honest line %d\n" % number), f"line {number} is shown", 60.0)
        late.append(time.monotonic() - began)
    print(f"lines were late by {sorted(late)[LINES // 2]:.2f} s in the middle, {max(late):.2f} s at most")
    assert "mallory/log.txt" in follower.printed  # the hostile log gets its share, too
    assert sorted(late)[LINES // 2] < IN_TIME, late
    follower.tell(signal.SIGINT)
    follower.ends()


@pytest.mark.soak
def test_logs_shows_an_honest_site_before_the_rest_of_a_hostile_one(place: Place) -> None:
    receiver = two_sites(place)
    append(place.directory / "honest" / "log.txt", b"".join(b"honest line %d\n" % number for number in range(2000)))
    until(lambda: b"line 1999" in receiver.stored("log.txt", "honest"), "it is there")
    shown = place.start("logs", RUN, "--receiver", receiver.address)
    assert shown.ends(240.0) == 0
    names = [line.split("/", 1)[0].strip() for line in shown.printed.splitlines()]
    last = max(at for at, name in enumerate(names) if name == "honest")
    assert names.count("honest") >= 2001
    assert names[last:].count("mallory") > names[:last].count("mallory"), "what is costly comes later"
