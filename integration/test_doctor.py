"""``flarelog doctor`` where all is well, and with one fault after the other."""

from __future__ import annotations

import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flarelog.security import authority
from flarelog.security.authority import Role
from integration.harness.places import RUN, Place, Program, append, free_address, unprivileged
from tests.certificates import Authority


def rows(program: Program, code: int) -> dict[str, tuple[str, str, str]]:
    """(result, finding, fix) of each check."""
    assert program.ends() == code, program.talk()
    assert "Traceback" not in program.said
    return {row["check"]: (row["result"], row["found"], row["fix"]) for row in program.records()}


def test_all_is_well(place: Place) -> None:
    receiver = place.serve()
    append(place.log, b"hello\n")
    arguments = ("--receiver", receiver.address, "--root", str(place.root), "--site", "site-1")
    found = rows(place.call("doctor", *arguments, "--store", str(receiver.store), "-o", "json"), 0)
    assert {result for result, _, _ in found.values()} == {"ok"}
    assert list(found) == [
        *("root", "file system", "inotify", "descriptors", "address", "connection", "tls", "protocol", "clock"),
        *("round trip", "store", "writing", "letters", "space", "inodes"),
    ]
    assert "a receiver is using it" in found["store"][1]
    assert not receiver.stored()  # none of the site's own logs is sent
    table = place.call("doctor", *arguments)
    assert table.printed.count("\nok    ") == 9
    assert "; the record was removed\n" in table.printed
    assert table.said == ""
    assert place.call("runs", "--receiver", receiver.address).printed.count("\n") <= 1, "it leaves no run behind"
    rows(place.call("doctor", *arguments, "--run", "job-1", "-o", "json"), 0)
    assert receiver.stored("flarelog-doctor.log", run="job-1").endswith(b": a test record\n")


def test_each_trouble_has_its_row_and_its_cure(place: Place) -> None:
    address = free_address()
    found = rows(place.call("doctor", "--receiver", address, "-o", "json"), 1)
    assert found["connection"] == (
        *("fail", f"{address} refused the connection: no program listens there"),
        "start flarelog serve there, and check the port and --listen (127.0.0.1 accepts only its own machine)",
    )
    assert "protocol" not in found
    found = rows(place.call("doctor", "--receiver", "no such host:1", "-o", "json"), 1)
    assert found["address"][0] == "fail"
    found = rows(place.call("doctor", "--root", str(place.directory / "none"), "-o", "json"), 0)
    assert found["root"][0] == "warn"
    found = rows(place.call("doctor", "--store", str(place.directory / "none"), "-o", "json"), 0)
    assert found["store"][0] == "warn"
    assert found["space"][0] in ("ok", "warn")
    assert place.call("doctor").ends() == 2


@pytest.mark.soak
def test_what_is_no_flarelog(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        program = place.start("doctor", "--receiver", address, "--site", "site-1", "-o", "json")
        found = rows(program, 1)
    assert found["connection"][0] == "ok"
    assert found["protocol"][0] == "fail"
    assert found["protocol"][2].startswith("check the port: flarelog serve must listen there")
    assert "round trip" not in found


def test_a_port_that_never_answers_has_no_tls(place: Place, ca: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        found = rows(place.start("doctor", "--receiver", address, *tls(ca, "site-1"), "-o", "json"), 1)
    assert found["tls"] == (
        "fail",
        f"{address} accepts connections, but the TLS handshake failed: no answer within 3 s",
        "check the port: flarelog serve must listen there with --tls-cert, and must not be stopped or overloaded",
    )
    assert "protocol" not in found


@pytest.mark.parametrize(
    ("args", "check", "fix"),
    [
        pytest.param(("--site", "s s"), "round trip", "name another site with --site", id="site"),
        pytest.param(("--site", "s", "--run", "a b"), "run", "name another run with --run", id="run"),
        pytest.param(("--token-file", "token"), "token", "give --token-file a file with a token, ", id="no-tls"),
    ],
)
def test_a_wrong_option_is_no_trouble_of_the_receivers(
    place: Place, args: tuple[str, ...], check: str, fix: str
) -> None:
    receiver = place.serve()
    (place.directory / "token").touch(0o600)
    (place.directory / "token").write_text("flarelog_0123456789abcdef_0123456789abcdef0123456789abcdef")
    found = rows(place.call("doctor", "--receiver", receiver.address, *args, "-o", "json"), 1)
    assert found[check][0] == "fail"
    assert found[check][2].startswith(fix)
    assert [name for name, row in found.items() if row[0] != "ok"] == [check]


@pytest.mark.parametrize("option", ["--root", pytest.param("--store", marks=pytest.mark.soak)])
def test_a_directory_that_is_closed_has_its_row(place: Place, option: str) -> None:
    closed = place.directory / "closed"
    closed.mkdir(mode=0)
    found = rows(place.call("doctor", option, str(closed), "-o", "json", plain=True), 1)
    closed.chmod(0o700)
    result, what, fix = found["root" if option == "--root" else "store"]
    assert result == "fail"
    assert what.startswith(f"{closed} cannot be read")
    assert fix


def test_a_run_that_is_not_announced(place: Place) -> None:
    receiver = place.serve("--announced-runs-only")
    arguments = ("doctor", "--receiver", receiver.address, "--site", "site-1", "-o", "json")
    found = rows(place.call(*arguments), 1)
    assert found["round trip"][0] == "fail"
    assert "flarelog run-start flarelog-doctor" in found["round trip"][2]
    assert place.call("run-start", "flarelog-doctor", "--receiver", receiver.address).ends() == 0
    assert rows(place.call(*arguments), 0)["round trip"][0] == "ok"


@pytest.mark.soak
@pytest.mark.parametrize(
    "limit",
    [
        pytest.param(("--max-sites", "1"), id="sites"),
        pytest.param(("--max-run-bytes", "3"), id="bytes of the run"),
    ],
)
def test_a_record_that_is_refused_leaves_the_run_as_it_is(place: Place, limit: tuple[str, str]) -> None:
    receiver = place.serve(*limit)
    append(place.log, b"hello\n")
    assert place.sidecar(receiver, "--once").ends() == 0

    def told() -> tuple[str, int]:
        runs = place.call("runs", "--receiver", receiver.address).printed
        return runs, place.call("logs", RUN, "--receiver", receiver.address, "--exit-status").ends()

    before = told()
    assert "sealed" in before[0]
    arguments = ("--receiver", receiver.address, "--site", "site-2", "--run", RUN, "-o", "json")
    result, found, fix = rows(place.call("doctor", *arguments), 1)["round trip"]
    assert result == "fail"
    assert limit[0] in found
    assert fix == "do at the receiver what its answer says: it has no room for this site's logs"
    time.sleep(1.5)  # the receiver records refused logs once a second
    assert told() == before
    assert before[1] == 0


def test_logs_that_may_not_be_read(place: Place) -> None:
    if not unprivileged(True):
        pytest.skip("run it as root: it needs somebody else's files")
    for name in ("a.log", "b.log"):
        append(place.root / name, b"x")
    (place.root / "a.log").chmod(0)
    os.chown(place.root / "a.log", 12345, 12345)
    found = rows(place.call("doctor", "--root", str(place.root), "-o", "json", plain=True), 1)
    assert found["root"][:2] == ("fail", "a.log cannot be read by this user")
    assert "setfacl" in found["root"][2]


@pytest.mark.parametrize("mode", [0o600, 0o000])
def test_directories_that_are_closed(place: Place, mode: int) -> None:
    for path in ("closed/a.log", "closed/deep/b.log", "open/c.log"):
        (place.root / path).parent.mkdir(parents=True, exist_ok=True)
        append(place.root / path, b"x")
    (place.root / "link.log").symlink_to("closed/a.log")
    (place.root / "link.pt").symlink_to("closed/a.log")
    (place.root / "closed").chmod(mode)
    found = rows(place.call("doctor", "--root", str(place.root), "-o", "json", plain=True), 1)
    (place.root / "closed").chmod(0o700)
    closed = f"{place.root}/closed"
    assert found["root"][:2] == ("fail", f"link.log, {closed} cannot be read by this user")


def test_a_site_that_lets_nothing_go(place: Place) -> None:
    policy = place.directory / "consent.toml"
    policy.write_text("allow_log_streaming = false\n")
    arguments = ("doctor", "--root", str(place.root), "--site-policy", str(policy), "-o", "json")
    found = rows(place.call(*arguments), 1)
    assert found["consent"][0] == "fail"
    receiver = place.serve()
    way = ("--receiver", receiver.address, "--site", "site-1", "--run", "job-1")
    for asked in ((*arguments, *way), ("doctor", "--site-policy", str(policy), "-o", "json", *way)):
        found = rows(place.call(*asked), 1)
        assert found["consent"][0] == "fail"
        assert found["protocol"][0] == "ok"
        assert found["round trip"][:2] == (
            "warn",
            "the round trip was skipped: the site does not allow that a record is sent",
        )
    assert not (receiver.store / "job-1").exists()


@pytest.fixture
def ca(place: Place) -> Path:
    directory, now = place.directory / "certs", datetime.now(UTC)
    authority.init(directory, now=now)
    authority.issue_server(directory, ["127.0.0.1"], days=365, now=now)
    authority.issue(directory, Role.SITE, "site-1", days=10, now=now)
    return directory


def tls(directory: Path, name: str) -> tuple[str, ...]:
    files = {"ca": directory / "ca.crt", "cert": directory / f"{name}.crt", "key": directory / f"{name}.key"}
    return tuple(part for option, path in files.items() for part in (f"--tls-{option}", str(path)))


def test_tls(place: Place, ca: Path) -> None:
    receiver = place.serve(*tls(ca, "server"))
    arguments = ("doctor", "--receiver", receiver.address, "-o", "json")
    found = rows(place.call(*arguments, "--site", "site-1", *tls(ca, "site-1")), 0)
    assert found["certificate"][0] == "warn"
    assert "in 10 days" in found["certificate"][1] or "in 9 days" in found["certificate"][1]
    assert found["tls"][0] == "ok"
    assert "is for 127.0.0.1" in found["tls"][1]
    assert found["round trip"][0] == "ok"
    found = rows(place.call(*arguments, "--site", "site-2", *tls(ca, "site-1")), 1)
    assert found["round trip"][0] == "fail"
    found = rows(place.call(*arguments), 1)
    assert found["tls"][0] == "fail"
    assert found["tls"][1].startswith("it requires TLS: give --tls-ca")
    found = rows(place.call(*arguments, "--tls-ca", str(ca / "none")), 1)
    assert found["tls"][0] == "fail"
    found = rows(place.call("doctor", "--store", str(receiver.store), "-o", "json", *tls(ca, "server")), 0)
    assert found["certificate"][0] == "ok"


def test_a_token(place: Place, ca: Path) -> None:
    receiver = place.serve(*tls(ca, "server"), "--reader-listen", "127.0.0.1:0")
    token = place.token("anna")
    arguments = ("--receiver", receiver.reader_address, "--tls-ca", str(ca / "ca.crt"), "--token-file", str(token))
    for site in ((), ("--site", "site-1")):  # a site's name helps no token
        found = rows(place.call("doctor", *arguments, *site, "-o", "json"), 0)
        assert found["protocol"][0] == "ok"
        assert found["round trip"] == (
            "warn",
            "the round trip was skipped: a token can only read",
            "a reader needs none; at a site, give --site, --tls-cert and --tls-key",
        )


def test_names_that_differ_in_case_alone_and_what_a_store_makes_of_them(place: Place) -> None:
    for name in ("app.log", "App.log", "other.log"):
        append(place.root / name, b"x")
    found = rows(place.call("doctor", "--root", str(place.root), "-o", "json"), 0)
    assert found["names"][0] == "warn"
    assert "differ only in case" in found["names"][1]
    store = place.directory / "store"
    store.mkdir()
    assert rows(place.call("doctor", "--store", str(store), "-o", "json"), 0)["letters"][0] == "ok"


def test_a_revocation_list_is_looked_at(place: Place) -> None:
    ca = Authority.new(place.directory / "certs")
    arguments = ("doctor", "--store", str(place.directory / "new"), *ca.issue("receiver").arguments(), "-o", "json")
    for crl, code, result, sentence in (
        (ca.revokes(ca.issue("bad").cert, days=90), 0, "ok", "revokes 1 certificate, and expires on"),
        (ca.revokes(days=9.01, name="soon.crl"), 0, "warn", "9 days"),
        (ca.revokes(days=-1, name="late.crl"), 1, "fail", "expired on"),
        ("/nowhere", 1, "fail", "cannot be read"),
    ):
        found = rows(place.call(*arguments, "--tls-crl", crl), code)["revocations"]
        assert (found[0], sentence in found[1]) == (result, True), found
