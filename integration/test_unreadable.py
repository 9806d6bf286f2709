"""A store of which a part cannot be read: every reader names that part, and no exit code is that of a complete run."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from integration.harness.places import RUN, SITE, Place, Program, Receiver, append, lines, until

DATA = lines(20)
OTHER = "site-2"


@pytest.fixture(autouse=True)
def rights() -> None:
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("install setpriv (util-linux), or run the tests as another user than root")


@pytest.fixture
def stored(place: Place) -> Receiver:
    """The store of an ended run with two sites; its receiver has stopped."""
    (place.root / "sub").mkdir()
    append(place.log, DATA)
    append(place.root / "sub/c.txt", DATA)
    receiver = place.serve()
    for site in (SITE, OTHER):
        sidecar = place.sidecar(receiver, "--once", "--include", "**/*.txt", "--include", "*.txt", site=site)
        assert sidecar.ends() == 0, sidecar.talk()
    assert receiver.program.stop() == 0
    return receiver


PARTS = {
    "a-run": (RUN, f"{RUN}/-: its logs"),
    "a-site": (f"{RUN}/{OTHER}", f"{RUN}/{OTHER}: its logs"),
    "a-directory": (f"{RUN}/{OTHER}/sub", f"{RUN}/{OTHER}: sub"),
    "its-state": (f"{RUN}/.run.journal", f"{RUN}/-: .run.journal"),
    "a-journal": (f"{RUN}/{OTHER}/sub/.c.txt.journal", f"{RUN}/{OTHER}: sub/c.txt"),
}
ASKED = (
    (("status", RUN, "--exit-status"), 7),
    (("logs", RUN, "--exit-status"), 1),
    (("report", RUN, "-o", "-", "--format", "md"), 1),
    (("findings", RUN), 1),
)


def told(program: Program, code: int, sentence: str) -> None:
    assert program.ends() == code, program.talk()
    assert sentence in program.printed + program.said, program.talk()


@pytest.mark.parametrize("part", PARTS)
def test_readers_of_a_store_and_of_a_receiver_name_it(part: str, place: Place, stored: Receiver) -> None:
    below, named = PARTS[part]
    path = stored.store / below
    sentence = f"{named} cannot be read in the store: Permission denied ({path})"
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        for words, code in (*ASKED, (("verify",), 1)):
            told(place.call(*words, "--store", str(stored.store), plain=True), code, sentence)
        receiver = place.serve(store=stored.store, plain=True)
        until(lambda: receiver.program.said.count(str(path)) == 1, "the receiver logs a warning")
        for words, code in ASKED:
            told(place.call(*words, "--receiver", receiver.address), code, sentence)
        assert receiver.program.said.count(str(path)) == 1
    finally:
        path.chmod(mode)


@pytest.mark.parametrize("left", [5, None], ids=["cut", "removed"])
def test_readers_report_the_bytes_that_are_missing_in_the_store(
    left: int | None, place: Place, stored: Receiver
) -> None:
    path = stored.store / RUN / SITE / "sub/c.txt"
    path.unlink() if left is None else os.truncate(path, left)
    lost = len(DATA) - (left or 0)
    sentence = f"{lost:,} of {len(DATA):,} bytes are missing in the store ({path})"
    receiver = place.serve(store=stored.store)
    for where in (("--store", str(stored.store)), ("--receiver", receiver.address)):
        for words, code in (
            (("status", RUN, "--exit-status"), 6),
            (("streams", RUN), 0),
            (("streams", RUN, "-o", "json"), 0),
            (("report", RUN, "-o", "-", "--format", "md"), 1),
        ):
            program = place.call(*words, *where)
            told(program, code, sentence if "report" not in words else sentence.partition(" (")[0])
            assert not re.search(r"timeout|lost link|open|not ended", program.printed + program.said), program.talk()
        findings = place.call("findings", RUN, *where)
        assert findings.ends() in (1, 3), findings.talk()  # the receiver may have searched it before
        assert re.search("missing in the store|it ends at offset", findings.said), findings.talk()
        assert "not ended" not in findings.said
        told(place.call("runs", RUN, *where), 0, "UNSEEN")
        logs = place.call("logs", RUN, "--site", SITE, "--log", "sub/c.txt", "-o", "raw", *where)
        told(logs, 1, "c.txt cannot be read")
        assert logs.printed.encode() == DATA[: left or 0]
    again = place.sidecar(receiver, "--once", "--include", "**/*.txt", "--include", "*.txt")
    assert again.ends() == 0, again.talk()
    assert path.read_bytes() == DATA
    told(place.call("status", RUN, "--exit-status", "--receiver", receiver.address), 0, "ended: receipt")


@pytest.mark.parametrize("command", ["logs", "status", "verify", "serve"])
def test_an_unreadable_store_is_not_allowed(command: str, place: Place, tmp_path: Path) -> None:
    store = tmp_path / "closed"
    store.mkdir(mode=0)
    words = {"logs": ("logs", RUN), "serve": ("serve", "--listen", "127.0.0.1:0")}.get(command, (command,))
    program = place.call(*words, "--store", str(store), plain=True)
    assert program.ends() == 5, program.talk()
    assert str(store) in program.sentence()
