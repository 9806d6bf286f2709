"""The two processes leave other programs' files alone, and hostile files do not harm them."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.names import beside
from flarelog.text import legible
from integration.harness.places import FLARELOG, LOG, RUN, SITE, Place, Receiver, append, lines, until

NOBODY = 65534
# The process changes its user by itself: the user nobody may be unable to read an interpreter in a user's home.
AS_NOBODY = (
    *(sys.executable, "-c"),
    "import os, sys, encodings.idna, grpc._utilities, zoneinfo\n"
    "import flarelog.cli.config_file, flarelog.cli.serve, flarelog.cli.sidecar, flarelog.stores.local.store\n"
    "zoneinfo.ZoneInfo('UTC')\n"
    f"os.umask(int(sys.argv.pop(1), 8)); os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
    "flarelog.cli.main(prog_name='flarelog')",
)
SECRET = b"nobody's but the owner's\n"


@pytest.fixture
def nobody(place: Place) -> tuple[str, ...]:
    """A command that runs flarelog as an unprivileged user."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user: run the tests as root")
    place.directory.chmod(0o777)
    return (*AS_NOBODY, "022")


def tree(root: Path) -> dict[str, tuple[int, ...]]:
    """Every file below *root* with its last change; reading leaves no trace there."""
    found: dict[str, tuple[int, ...]] = {}
    for path in (root, *root.rglob("*")):
        status = path.lstat()
        found[str(path)] = (
            *(status.st_mode, status.st_ino, status.st_nlink, status.st_uid, status.st_size),
            *(status.st_mtime_ns, status.st_ctime_ns),
        )
    return found


# --- a sidecar that may only read


@pytest.mark.parametrize("once", [pytest.param((), marks=pytest.mark.soak), ("--once", "--json")])
def test_a_site_whose_only_log_cannot_be_read_is_seen_and_told(
    place: Place, nobody: tuple[str, ...], once: tuple[str, ...]
) -> None:
    data = append(place.log, lines(100))
    place.log.chmod(0)
    receiver = place.serve()
    sidecar = place.sidecar(receiver, *once, plain=nobody)
    why = f"missing: {RUN}/{SITE}: {LOG} cannot be read: Permission denied"
    said: list[str] = []

    def told() -> bool:
        said.append(place.call("status", RUN, "--receiver", receiver.address).printed)
        return why in said[-1]

    until(told, "it is told")
    assert said[-1].count(LOG) == 2, f"a row and a reason: {said[-1]}"
    assert "1 site: 1 not stored" in said[-1]
    if once:
        assert sidecar.ends() == 1
        log, error = sidecar.records()
        assert (log["log"], log["committed"]) == (LOG, 0)
        assert log["incomplete"] == "incomplete: its site cannot read the rest of it"
        assert (error["log"], error["error"]) == (None, f"{place.log} cannot be read: Permission denied")
        return
    place.log.chmod(0o644)
    receiver.gets(data)
    until(lambda: why not in place.call("status", RUN, "--receiver", receiver.address).printed, "it is forgiven", 30)
    assert sidecar.stop() == 0
    assert sidecar.said.count("sending from") == 1, sidecar.talk()
    assert "ends the connection" not in sidecar.said
    receiver.holds(data)


def standing_of(place: Place, receiver: Receiver, *of: str) -> tuple[str, int, str]:
    """(the run's status, the exit code of logs *of* it, the run's state in runs)."""
    at = ("--receiver", receiver.address)
    status = place.call("status", RUN, *at).printed.split()[1].rstrip(":")
    exits = place.call("logs", RUN, *at, *of, "--exit-status").ends()
    return status, exits, place.call("runs", RUN, *at, "--json").records()[0]["state"]


@pytest.mark.parametrize("rotated", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["rotated", "grown"])
def test_a_log_of_which_a_part_is_stored_is_not_complete_while_its_site_cannot_read_the_rest(
    place: Place, nobody: tuple[str, ...], rotated: bool
) -> None:
    data = append(place.log, lines(100))
    receiver = place.serve()
    at = ("--receiver", receiver.address)

    def standing() -> tuple[str, int, str, str]:
        place.call("report", RUN, *at, "-o", "run.md").ends()
        verdict = (place.directory / "run.md").read_text().split("\n")[2]
        return *standing_of(place, receiver, "--log", LOG), verdict[2:3]

    if rotated:
        sidecar = place.sidecar(receiver, plain=nobody)
        receiver.gets(data)
        place.log.rename(place.root / f"{LOG}.1")
        place.log.touch(mode=0o600)
        more = append(place.log, lines(50, 100))
        sidecar.says(f"{place.log} cannot be read")
        assert sidecar.stop() == 1
    else:
        assert place.sidecar(receiver, "--once", plain=nobody).ends() == 0
        place.log.chmod(0o600)
        assert place.sidecar(receiver, "--once", plain=nobody).ends() == 0, "all of it is stored"
        assert standing() == ("sealed", 0, "sealed", "\u2705")
        more = append(place.log, lines(50, 100))
        assert place.sidecar(receiver, "--once", plain=nobody).ends() == 1
    assert standing() == ("idle", 7, "idle", "\u274c")
    assert (
        f"missing: {RUN}/{SITE}: more of {LOG} cannot be read: Permission denied"
        in place.call("status", RUN, "--store", str(receiver.store)).printed
    )
    place.log.chmod(0o644)
    assert place.sidecar(receiver, "--once", plain=nobody).ends() == 0
    assert standing() == ("sealed", 0, "sealed", "\u2705")
    receiver.holds(data + more)


@pytest.mark.soak
@pytest.mark.parametrize("count", [12, 120])
def test_no_log_is_complete_while_its_site_has_files_that_it_cannot_read_and_however_many(
    place: Place, nobody: tuple[str, ...], count: int
) -> None:
    names = [f"p{n:03}.log" for n in range(count)]
    for name in names:
        append(place.root / name, lines(2))
    receiver = place.serve()
    at = ("--receiver", receiver.address)
    sidecar = place.sidecar(receiver, plain=nobody)
    until(
        lambda: [one["streams"] for one in place.call("runs", RUN, *at, "--json").records()] == [count], "all are sent"
    )
    for name in names:
        (place.root / name).rename(place.root / f"{name}.1")
        (place.root / name).touch(mode=0o600)
        append(place.root / name, lines(2, 2))
    last = ("--log", names[-1])
    until(lambda: standing_of(place, receiver, *last)[1] == 7, "the last of them is told", 30)
    said = place.call("status", RUN, *at).printed.splitlines()
    named = [line for line in said if re.search(r"missing: .* more of p\d+\.log cannot be read: ", line)]
    assert len(named) == count
    assert place.call("runs", RUN, *at, "--json").records()[0]["unstored"] == count
    for name in names[: count // 2]:
        (place.root / name).chmod(0o644)
    until(lambda: place.call("logs", RUN, *at).printed.count("\n") >= 3 * count, "what can be read comes", 30)
    assert standing_of(place, receiver, *last)[1] == 7
    for name in names:
        (place.root / name).chmod(0o644)
    until(lambda: "missing" not in place.call("status", RUN, *at).printed, "all is forgiven", 30)
    assert sidecar.stop() == 0
    assert standing_of(place, receiver) == ("sealed", 0, "sealed")
    assert not re.search(r"more logs? (can|is|are) not|more logs? cannot be sent$", sidecar.said, re.MULTILINE)


def test_logs_that_cannot_be_read_leave_room_for_those_that_can(place: Place, nobody: tuple[str, ...]) -> None:
    for n in range(30):
        append(place.root / f"{n}.log", lines(1))
        (place.root / f"{n}.log").chmod(0)
    wanted = {f"{SITE}/ok{n}.log" for n in range(4)}
    for name in wanted:
        append(place.root / Path(name).name, lines(2))
    receiver = place.serve("--max-streams", "10")
    sidecar = place.sidecar(receiver, plain=nobody)
    until(lambda: sidecar.said.count("sending from") >= 9, sidecar.talk)
    sent = {name for name, one in receiver.streams().items() if one["committed"]}
    assert len(wanted - sent) <= 1, "the first log of a run may find its room taken"
    assert sidecar.stop() == 1


def test_a_directory_that_cannot_be_listed_is_known_to_all_readers(place: Place, nobody: tuple[str, ...]) -> None:
    data = append(place.log, lines(100))
    closed = place.root / "closed"
    closed.mkdir(mode=0o700)
    append(closed / "inner.log", SECRET)
    receiver = place.serve()
    assert place.sidecar(receiver, "--once", plain=nobody).ends() == 1
    why = f"{RUN}/{SITE}: closed cannot be listed: Permission denied"
    report = place.directory / "run.md"
    for where in (("--receiver", receiver.address), ("--store", str(receiver.store))):
        assert f"missing: {why}" in place.call("status", RUN, *where).printed
        asked = place.call("logs", RUN, *where, "--exit-status")
        assert (asked.ends(), why in asked.said) == (7, True)
        assert place.call("logs", RUN, *where, "--log", "closed/other.log").ends() == 3
        assert place.call("runs", RUN, *where, "--json").records()[0]["unstored"] == 1
        place.call("report", RUN, *where, "-o", str(report)).ends()
        assert "has 1 log of which not all is stored: cannot be listed" in report.read_text().replace("\\", "")
    closed.chmod(0o755)
    assert place.sidecar(receiver, "--once", "--exclude", "closed/*", plain=nobody).ends() == 0
    assert standing_of(place, receiver) == ("sealed", 0, "sealed")
    receiver.holds(data)


def test_what_cannot_be_read_is_told_apart_from_a_real_log_of_that_name(place: Place, nobody: tuple[str, ...]) -> None:
    append(place.log, lines(100))
    append(place.root / f"{LOG}.unread", lines(5))
    append(place.root / f"{LOG} 2", lines(5))
    receiver = place.serve()
    assert place.sidecar(receiver, "--once", plain=nobody).ends() == 0
    place.log.chmod(0o600)
    append(place.log, lines(50, 100))
    assert place.sidecar(receiver, "--once", plain=nobody).ends() == 1
    for where in (("--receiver", receiver.address), ("--store", str(receiver.store))):
        said = place.call("status", RUN, *where).printed
        assert f"{SITE}: more of {LOG} cannot be read: Permission denied" in said
        assert len(re.findall("^missing: ", said, re.MULTILINE)) == 1
        assert place.call("runs", RUN, *where, "--json").records()[0]["unstored"] == 1
        assert place.call("logs", RUN, *where, "--log", LOG, "--exit-status").ends() == 7
        assert place.call("logs", RUN, *where, "--log", f"{LOG}.unread", "--exit-status").ends() == 0


def test_a_log_whose_name_is_taken_is_stored_under_another_one(place: Place) -> None:
    append(place.log, lines(10))
    receiver = place.serve()
    at = ("--receiver", receiver.address)
    state = ("--state", str(place.directory / "state"))
    assert place.sidecar(receiver, "--once", *state).ends() == 0
    place.log.unlink()
    place.log.mkdir()
    names = [f"{LOG}/{name}" for name in ("inner.log", "other.log")]
    for name in names:
        append(place.root / name, lines(10))
    for more in range(2):
        assert place.sidecar(receiver, "--once", *state).ends() == 0
        assert standing_of(place, receiver) == ("sealed", 0, "sealed")
        for name in names:
            stored = receiver.store / RUN / SITE / beside(name)
            assert stored.read_bytes() == b"".join(lines(10, 10 * one) for one in range(more + 1))
            append(place.root / name, lines(10, 10 * (more + 1)))
    shown = place.call("logs", RUN, *at, "--log", names[0])
    assert shown.printed.count("\n") >= 20
    assert place.call("verify", RUN, "--store", str(receiver.store)).ends() == 0


@pytest.mark.soak
def test_two_sidecars_that_share_a_directory_take_nothing_back_of_what_the_other_has(
    place: Place, nobody: tuple[str, ...]
) -> None:
    receiver = place.serve()
    append(place.root / "b.log", lines(10))
    append(place.root / "a.shut", SECRET)
    (place.root / "a.shut").chmod(0o600)
    one, other = ("--once", "--include", "a*"), ("--once", "--include", "b*")
    assert place.sidecar(receiver, *one, plain=nobody).ends() == 1
    at = ("--receiver", receiver.address)
    assert place.call("runs", RUN, *at, "--json").records()[0]["unstored"] == 1
    assert place.sidecar(receiver, *other, plain=nobody).ends() == 0
    assert place.call("runs", RUN, *at, "--json").records()[0]["unstored"] == 1, "the other does not send it"
    assert place.sidecar(receiver, *one, "--exclude", "a.shut", plain=nobody).ends() == 0
    assert standing_of(place, receiver) == ("sealed", 0, "sealed")


def beside_a_stored_log(place: Place) -> tuple[Receiver, Path]:
    """A receiver with a log of the site, and a file below the root that cannot be read."""
    receiver = place.serve()
    elsewhere = place.directory / "elsewhere"
    elsewhere.mkdir()
    append(elsewhere / LOG, lines(10))
    assert place.sidecar(receiver, "--once", root=elsewhere).ends() == 0
    path = place.root / "shut.log"
    append(path, lines(10))
    path.chmod(0)
    return receiver, path


@pytest.mark.parametrize("alone", [False, True], ids=["beside-a-log", "alone"])
def test_a_receiver_that_is_killed_right_behind_a_sidecar_still_knows_what_is_not_stored(
    place: Place, nobody: tuple[str, ...], alone: bool
) -> None:
    receiver, _ = beside_a_stored_log(place)
    if not alone:
        append(place.root / "other.log", lines(10))

    assert place.sidecar(receiver, "--once", plain=nobody).ends() == 1
    receiver.program.kill()
    again = place.serve(store=receiver.store)
    assert standing_of(place, again)[:2] == ("idle", 7)


@pytest.mark.parametrize(
    ("gone", "standing"),
    [
        pytest.param("removed", ("idle", 7, "idle"), marks=pytest.mark.soak, id="removed"),
        pytest.param("excluded", ("sealed", 0, "sealed"), id="excluded"),
        pytest.param("removed-while-it-runs", ("sealed", 6, "sealed"), id="removed-while-it-runs"),
    ],
)
def test_a_file_that_could_not_be_read_is_missing_until_it_is_excluded_and_lost_if_it_is_removed(
    place: Place, nobody: tuple[str, ...], gone: str, standing: tuple[str, int, str]
) -> None:
    append(place.log, lines(100))
    secret = place.root / "secret.log"
    append(secret, SECRET)
    secret.chmod(0o600)
    receiver = place.serve()
    at = ("--receiver", receiver.address)

    once = () if gone == "removed-while-it-runs" else ("--once",)
    sidecar = place.sidecar(receiver, *once, plain=nobody)
    if once:
        assert sidecar.ends() == 1
        assert standing_of(place, receiver) == ("idle", 7, "idle")
    else:
        until(lambda: place.call("logs", RUN, *at, "--exit-status").ends() == 7, "it is told", 30)
    if gone != "excluded":
        secret.unlink()
    if once:
        again = place.sidecar(
            receiver, "--once", *(("--exclude", secret.name) if secret.exists() else ()), plain=nobody
        )
        assert again.ends() == 0
    else:
        sidecar.says("it is gone")
        assert sidecar.stop() == 6
    assert standing_of(place, receiver) == standing


def test_a_sidecar_that_is_another_user_reads_what_it_may_and_says_once_what_it_may_not(
    place: Place, nobody: tuple[str, ...]
) -> None:
    data = append(place.log, lines(100))
    append(place.root / "secret.log", SECRET)
    (place.root / "secret.log").chmod(0o600)
    (place.root / "closed").mkdir(mode=0o700)
    append(place.root / "closed" / "inner.log", SECRET)
    before = tree(place.root)
    receiver = place.serve()
    sidecar = place.sidecar(receiver, plain=nobody)
    receiver.gets(data)
    place.root.chmod(0o755)
    more = append(place.log, lines(50, 100))
    receiver.gets(data + more)
    shown: list[str] = []

    def told() -> bool:
        shown.append(place.call("status", RUN, "--receiver", receiver.address).printed)
        return f"missing: {RUN}/{SITE}: secret.log cannot be read: Permission denied\n" in shown[-1]

    until(told, lambda: f"whoever asks the receiver hears of it: {shown[-1]}")
    assert f"missing: {RUN}/{SITE}: closed cannot be listed: Permission denied\n" in shown[-1]
    assert str(place.root) not in shown[-1], "where it lies is the site's business"
    assert sidecar.stop() == 1, sidecar.talk()
    why = f"{RUN}/{SITE}: secret.log cannot be read: Permission denied"
    for asked in (("findings", RUN), ("logs", RUN, "--first-error")):
        assert why in place.call(*asked, "--receiver", receiver.address).said, asked
    report = place.directory / "run.md"
    assert place.call("report", RUN, "--receiver", receiver.address, "-o", str(report)).ends() == 0
    assert why in report.read_text().replace("\\", "")
    assert sidecar.said.count("secret.log cannot be read: Permission denied") == 1
    assert sidecar.said.count("closed cannot be listed: Permission denied") == 1
    assert "Traceback" not in sidecar.said
    assert list(receiver.streams()) == [f"{SITE}/{LOG}"]
    receiver.holds(data + more)
    assert receiver.stop() == 0  # the receiver has recorded all reports
    assert place.call("report", RUN, "--store", str(receiver.store), "-o", str(report)).ends() == 0
    assert why in report.read_text().replace("\\", "")
    after = tree(place.root)
    assert {key: value for key, value in after.items() if key not in (str(place.log), str(place.root))} == {
        key: value for key, value in before.items() if key not in (str(place.log), str(place.root))
    }


@pytest.mark.parametrize("mode", [0o600, 0o000])
def test_a_site_whose_only_directory_is_closed_is_not_said_to_be_empty(place: Place, mode: int) -> None:
    (place.root / "closed").mkdir()
    append(place.root / "closed" / "inner.log", SECRET)
    (place.root / "closed").chmod(mode)
    sidecar = place.sidecar(place.serve(), "--once", "--json", plain=True)
    assert sidecar.ends() == 1, sidecar.talk()
    record = sidecar.records()[-1]
    assert record["error"] == f"{place.root}/closed cannot be listed: Permission denied"
    assert "there is no file" not in sidecar.said
    (place.root / "closed").chmod(0o755)


def test_a_sidecar_without_capabilities_reads_a_root_that_nobody_can_write(place: Place) -> None:
    data = append(place.log, lines(100))
    append(place.root / "secret.log", SECRET)
    (place.root / "secret.log").chmod(0o000 if os.geteuid() else 0o600)
    if os.geteuid() == 0:  # without capabilities root's files are like any owner's
        for path in (place.root, *place.root.iterdir()):
            os.chown(path, NOBODY, NOBODY)
    place.root.chmod(0o555)
    before = tree(place.root)
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--once", plain=True)
    assert sidecar.ends() == 1, sidecar.talk()
    assert sidecar.said.count("secret.log cannot be read: Permission denied") == 1
    receiver.holds(data)
    assert tree(place.root) == before
    place.root.chmod(0o755)


@pytest.fixture
def read_only(place: Place) -> Iterator[Path]:
    """The site's root, mounted read-only."""
    mounted = place.directory / "mounted"
    mounted.mkdir()
    asked = [("mount", "--bind", str(place.root), str(mounted)), ("mount", "-o", "remount,bind,ro", str(mounted))]
    try:
        for command in asked:
            if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
                pytest.skip("nothing can be mounted here: run the tests as root, with the right to mount")
        yield mounted
    finally:
        subprocess.run(("umount", str(mounted)), check=False, stderr=subprocess.DEVNULL)


def test_a_root_that_is_mounted_read_only_is_sent(place: Place, read_only: Path, nobody: tuple[str, ...]) -> None:
    data = append(place.log, lines(100))
    with pytest.raises(OSError, match="Read-only"):
        append(read_only / LOG, b"x")
    state = place.directory / "state"
    state.mkdir()
    os.chown(state, NOBODY, NOBODY)
    before = tree(place.root)
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--state", str(state), root=read_only, plain=nobody)
    receiver.gets(data)
    data += append(place.log, lines(50, 100))
    receiver.gets(data)
    assert sidecar.stop() == 0, sidecar.talk()
    receiver.holds(data)
    (kept,) = state.iterdir()
    assert kept.match(f"{RUN}.{SITE}.*.json")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    del before[str(place.log)]
    assert {key: value for key, value in tree(place.root).items() if key != str(place.log)} == before


CHANGING = (
    "creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,symlinkat"
)
CHANGING += ",chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,truncate,ftruncate,utime,utimes,utimensat,futimesat"
CHANGING += ",setxattr,lsetxattr,fsetxattr,removexattr,fallocate,open,openat,openat2"


def test_a_sidecar_makes_no_call_that_changes_a_file_outside_its_state(place: Place) -> None:
    """strace shows that the sidecar does not even try."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace: install it")
    trace = place.directory / "trace"
    traced = ("strace", "-f", "-qq", "-s", "4096", "-e", f"trace={CHANGING}", "-o", str(trace))
    if subprocess.run((*traced, "true"), check=False, capture_output=True).returncode:
        pytest.skip("strace may trace nothing here: give it CAP_SYS_PTRACE")
    data = append(place.log, lines(100))
    os.rename(append_to(place.root / "old.log"), place.root / "old.log.1")
    state = place.directory / "state"
    receiver = place.serve()
    sidecar = place.sidecar(
        receiver, "--once", "--state", str(state), plain=(*traced, *FLARELOG), PYTHONDONTWRITEBYTECODE="1"
    )
    assert sidecar.ends(60.0) == 0, sidecar.talk()
    receiver.holds(data)
    calls = [line.split(maxsplit=1)[1] for line in trace.read_text(errors="replace").splitlines()]
    calls = [call for call in calls if not call.startswith(("+++", "---", "<... "))]
    assert any(f'"{place.log}"' in call for call in calls), "the trace shows how the log is opened"
    changing = [
        call
        for call in calls
        if not call.startswith("open") or re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)", call)
    ]
    assert any(f'"{state}/' in call for call in changing), "the trace shows what is changed"
    elsewhere = [call for call in changing if f'"{state}' not in call and '"/dev/null"' not in call]
    assert elsewhere == []


def append_to(path: Path) -> Path:
    append(path, lines(3))
    return path


# --- an unprivileged receiver


@pytest.mark.parametrize(
    ("umask", "file", "directory"), [pytest.param("000", 0o640, 0o750, marks=pytest.mark.soak), ("077", 0o600, 0o700)]
)
def test_a_receiver_that_is_another_user_needs_nothing_but_its_store(
    place: Place, nobody: tuple[str, ...], umask: str, file: int, directory: int
) -> None:
    data = append(place.log, lines(100))
    store = place.directory / "store"
    receiver = place.serve(plain=(*AS_NOBODY, umask), store=store)
    assert place.once(receiver).ends() == 0
    receiver.holds(data)
    assert receiver.stop() == 0, receiver.program.talk()
    found = {path: path.lstat() for path in (store, *store.rglob("*"))}
    assert {status.st_uid for status in found.values()} == {NOBODY}
    assert {stat.S_IMODE(s.st_mode) for s in found.values() if stat.S_ISDIR(s.st_mode)} == {directory}
    assert {stat.S_IMODE(s.st_mode) for s in found.values() if not stat.S_ISDIR(s.st_mode)} == {file}
    names = {path.name for path in found}
    assert names >= {".lock", ".run.journal", LOG, f".{LOG}.journal"}


def test_a_receiver_without_capabilities_stores_what_comes(place: Place) -> None:
    data = append(place.log, lines(100))
    receiver = place.serve(plain=True)
    assert place.once(receiver).ends() == 0
    receiver.holds(data)
    status = Path(f"/proc/{receiver.program.process.pid}/status").read_text()
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
    assert receiver.stop() == 0, receiver.program.talk()


@pytest.mark.parametrize(
    "where",
    [
        RUN,
        pytest.param(f"{RUN}/{SITE}", marks=pytest.mark.soak),
        pytest.param(f"{RUN}/{SITE}/{LOG}", marks=pytest.mark.soak),
        f"{RUN}/{SITE}/.{LOG}.journal",
    ],
)
def test_a_link_that_was_planted_in_the_store_holds_its_streams_until_it_is_gone(place: Place, where: str) -> None:
    """Nothing behind the link is read or written, other sites go on, and no byte is lost."""
    data = append(place.log, lines(100))
    outside = place.directory / "outside"
    (outside / RUN / SITE).mkdir(parents=True)
    for name in (LOG, f".{LOG}.journal"):
        append(outside / RUN / SITE / name, SECRET)
    store = place.directory / "store"
    (store / where).parent.mkdir(parents=True)
    (store / where).symlink_to(outside / where)
    before = tree(outside)
    receiver = place.serve(store=store)
    sidecar = place.sidecar(receiver)
    sentence = f"{store / where} is a symbolic link, which the store does not follow: move it away"
    until(lambda: sentence in receiver.program.said + sidecar.said, lambda: receiver.program.said + sidecar.said)
    assert place.once(receiver, "--run", "run-2").ends() == 0
    receiver.holds(data, run="run-2")
    place.call("streams", RUN, "--receiver", receiver.address)
    shown = place.call("streams", "--store", str(store))
    assert f"{RUN} " not in shown.printed
    # A link without a journal beside it is no log.
    assert shown.said.count(sentence) == (0 if where.endswith(f"/{LOG}") else 1)
    assert "Traceback" not in shown.said + receiver.program.said + sidecar.said
    assert SECRET.decode().strip() not in shown.printed
    assert tree(outside) == before
    (store / where).unlink()
    receiver.gets(data)
    assert sidecar.stop() == 0, sidecar.talk()
    receiver.holds(data)
    assert tree(outside) == before


def test_verify_fails_where_a_stored_log_became_a_link(place: Place) -> None:
    data = append(place.log, lines(100))
    receiver = place.serve()
    place.once(receiver)
    receiver.holds(data)
    receiver.stop()
    elsewhere = receiver.file().rename(place.directory / "elsewhere")
    receiver.file().symlink_to(elsewhere)
    verified = place.call("verify", RUN, "--store", str(receiver.store))
    assert verified.ends() == 1
    assert "is a symbolic link" in verified.printed
    assert "Traceback" not in verified.said


# --- a hostile root

DEPTH, TOO_DEEP = 15, 100  # a directory depth at which a log may lie, and one at which it may not


def plant(place: Place) -> dict[str, bytes]:
    """Fill the root with files that are no logs; return the logs that must be sent."""
    root, outside = place.root, place.directory / "outside"
    wanted = {LOG: append(place.log, lines(100))}
    outside.mkdir(mode=0o755)
    append(outside / "linked.log", b"a link in the root leads here\n")
    append(outside / "shadow", SECRET)
    (outside / "shadow").chmod(0o600 if os.geteuid() == 0 else 0o000)
    os.mkfifo(outside / "fifo")
    os.mkfifo(root / "fifo.log")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket.log"))
    for name, target in {
        "loop.log": "loop.log",
        "ping.log": "pong.log",
        "pong.log": "ping.log",
        "self": ".",
        "up": "..",
        "outside": str(outside),
        "shadow.log": str(outside / "shadow"),
        "fifo-link.log": str(outside / "fifo"),
        "zero.log": "/dev/zero",
        "nowhere.log": "not-there",
        "link.log": str(outside / "linked.log"),
    }.items():
        (root / name).symlink_to(target)
    wanted["link.log"] = b"a link in the root leads here\n"
    if os.geteuid() == 0:
        os.mknod(root / "device.log", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    deep = root.joinpath(*["d"] * DEPTH)
    deep.mkdir(parents=True)
    name = "/".join(["d"] * DEPTH) + "/deep.log"
    wanted[name] = append(root / name, b"far below\n")
    deeper = root.joinpath(*["d"] * TOO_DEEP)
    deeper.mkdir(parents=True)
    wanted["/".join(["d"] * TOO_DEEP) + "/deeper.log"] = append(deeper / "deeper.log", b"too far below\n")
    for odd in (b"new\n2026 ERROR line.log", b"\xff\xfe.log", b"esc\x1b[2J.log", b"a..%2f..%2fb.log"):
        wanted[os.fsdecode(odd)] = append(root / os.fsdecode(odd), b"a name of %r\n" % odd)
    return wanted


def test_a_hostile_root_holds_up_nothing_and_sends_nothing_that_no_link_in_it_leads_to(
    place: Place, nobody: tuple[str, ...]
) -> None:
    wanted = plant(place)
    receiver = place.serve()
    stopped = threading.Event()

    def come_and_go() -> None:
        while not stopped.is_set():
            (place.root / "fleeting" / "inner").mkdir(parents=True)
            shutil.rmtree(place.root / "fleeting")
            time.sleep(0.001)

    thread = threading.Thread(target=come_and_go, daemon=True)
    thread.start()
    try:
        sidecar = place.sidecar(receiver, plain=nobody)
        for name, data in wanted.items():
            receiver.gets(data, log=name)
        # A log becomes a directory with a log of the same name in it.
        replaced = append_to(place.root / "replaced.log")
        before = replaced.read_bytes()
        receiver.gets(before, log="replaced.log")
        replaced.unlink()
        replaced.mkdir()
        wanted[LOG] += append(place.log, lines(50, 100))
        receiver.gets(wanted[LOG])
    finally:
        stopped.set()
        thread.join()
    shutil.rmtree(place.root / "fleeting", ignore_errors=True)
    assert sidecar.stop() == 1, sidecar.talk()
    for name, data in wanted.items():
        receiver.holds(data, log=name)
    assert set(receiver.streams()) == {f"{SITE}/{name}" for name in (*map(legible, wanted), "replaced.log")}
    assert SECRET not in b"".join(path.read_bytes() for path in receiver.store.rglob("*") if path.is_file())
    said = sidecar.said
    assert "Traceback" not in said
    assert said.count("shadow.log cannot be read: Permission denied") == 1
    assert all(re.match(r"\d{4}-\d\d-\d\dT", line) for line in said.splitlines()), "no name wrote a line of its own"
    assert "\x1b" not in said
