"""``flarelog certs`` as users run it, and gRPC's view of its certificates."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from flarelog.security import authority
from flarelog.security.authority import Role
from integration.harness.places import PATIENCE, Place, Program, until
from tests.often import table


@pytest.fixture
def ca(place: Place) -> Path:
    """A CA with certificates, in the commands' default place."""
    directory, now = place.directory / "certs", datetime.now(UTC)
    authority.init(directory, now=now)
    authority.issue_server(directory, ["localhost", "127.0.0.1"], now=now)
    for name, role in (("site-1", Role.SITE), ("site_2", Role.SITE), ("anna", Role.READER)):
        authority.issue(directory, role, name, now=now)
    return directory


def done(program: Program) -> list[str]:
    """The output lines of a command that succeeded."""
    assert program.ends() == 0, program.talk()
    return program.printed.splitlines()


def test_a_ca_from_nothing_to_a_list(place: Place) -> None:
    init = place.call("certs", "init")
    assert done(init) == ["certs/ca.crt", "certs/ca.key"]
    nexts = re.findall(r"^  flarelog (certs \w+)", init.said, re.MULTILINE)
    assert nexts == ["certs server", "certs site", "certs reader", "certs operator"]
    for args, days in (("server localhost 127.0.0.1", "365"), ("site site-1", "365"), ("reader anna", "7")):
        issued = place.call("certs", *args.split(), FLARELOG_DAYS=days)
        stem = "server" if "server" in args else args.split()[1]
        assert done(issued) == [f"certs/{stem}.crt", f"certs/{stem}.key"]
        assert f"--tls-cert {'certs/' if stem == 'server' else ''}{stem}.crt" in issued.said
    table = [line.split() for line in done(place.call("certs", "list"))]
    assert table[0] == ["NAME", "ROLE", "SERIAL", "NOT", "AFTER", "DAYS", "LEFT", "STATE", "FILE"]
    assert [row[-2] for row in table[1:]] == ["valid", "soon", "valid", "valid"]
    assert [row[-1] for row in table[1:]] == ["ca.crt", "anna.crt", "server.crt", "site-1.crt"]
    listed = place.call("certs", "list", FLARELOG_DIR=str(place.directory / "certs"), FLARELOG_JSON="1")
    assert done(listed)
    assert {(one["name"], one["role"], one["days_left"], one["state"]) for one in listed.records()[1:]} == {
        ("anna", "reader", 6, "expires soon"),
        ("localhost", "server", 364, "valid"),
        ("site-1", "site", 364, "valid"),
    }
    (place.directory / "certs" / "torn.crt").write_text("torn")
    listed = place.call("certs", "list")
    assert len(done(listed)) == len(table)
    assert listed.said == "note: certs/torn.crt holds no readable certificate\n"


def test_keys_are_their_owners_alone(ca: Path) -> None:
    assert ca.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in ca.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        pytest.param("init", 5, "certs/ca.key exists", id="ca-twice"),
        pytest.param("site site-1", 5, "certs/site-1.key exists", id="site-twice", marks=pytest.mark.soak),
        pytest.param("server localhost", 5, "certs/server.key exists", id="server-twice", marks=pytest.mark.soak),
        pytest.param("site a/b", 2, "'a/b'", id="site-with-a-bad-name"),
        pytest.param("reader ca", 2, "'ca'", id="reader-called-ca", marks=pytest.mark.soak),
        pytest.param("server localhost:4721", 2, "localhost:4721", id="server-with-a-port", marks=pytest.mark.soak),
        pytest.param("server", 2, "HOST...", id="server-of-nothing", marks=pytest.mark.soak),
        pytest.param("site site-3 --days 0", 2, "1 to 3650", id="no-days"),
        pytest.param(
            "site site-3 --dir none", 3, "flarelog certs init --dir none", id="no-directory", marks=pytest.mark.soak
        ),
        pytest.param(
            "list --dir none", 3, "flarelog certs init --dir none", id="list-of-nothing", marks=pytest.mark.soak
        ),
        pytest.param("init --dir FILE", 5, "FILE", id="directory-is-a-file"),
        pytest.param("list --dir FILE", 3, "FILE", id="list-of-a-file", marks=pytest.mark.soak),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(place: Place, ca: Path, args: str, code: int, says: str) -> None:
    (place.directory / "FILE").write_text("a file")
    before = {path.name: path.read_bytes() for path in ca.iterdir()}
    program = place.start("certs", *args.split())
    assert (program.ends(), program.printed) == (code, ""), program.talk()
    assert says in program.sentence()
    assert {path.name: path.read_bytes() for path in ca.iterdir()} == before


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("init", marks=pytest.mark.soak),
        "server",
        pytest.param("site", marks=pytest.mark.soak),
        pytest.param("reader", marks=pytest.mark.soak),
        pytest.param("list", marks=pytest.mark.soak),
    ],
)
def test_every_option_names_its_variable(place: Place, command: str) -> None:
    text = " ".join(place.call("certs", command, "--help", COLUMNS="400").printed.split())
    options = set(re.findall(r"(?<= )--([a-z-]+)(?= [A-Z])", text.split("Options:", 1)[1])) - {"help"}
    assert "dir" in options
    for name in options:
        assert f"[env var: FLARELOG_{name.upper()}" in text, name


def test_one_command_waits_for_another_before_it_clears_what_a_dead_one_left(place: Place, ca: Path) -> None:
    """The unfinished file of a live command looks the same as that of a dead one."""
    left = ca / ".site-3.key.new"
    left.write_text("half made")
    fd = os.open(ca, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        program = place.start("certs", "site", "site-4")
        until(lambda: program.process.poll() is not None or program.has_open(ca), "it has come to the directory")
        until(lambda: program.process.poll() is not None or waits(program), "it waits")
        assert left.exists()
    finally:
        os.close(fd)
    assert done(program) == ["certs/site-4.crt", "certs/site-4.key"]
    assert not left.exists()


def waits(program: Program) -> bool:
    """Whether the program sleeps in flock(2)."""
    return any(
        line.split()[1] == "->" and int(line.split()[5]) == program.process.pid
        for line in Path("/proc/locks").read_text().splitlines()
    )


def test_of_many_at_once_each_name_is_issued_once(place: Place, ca: Path) -> None:
    programs = [place.start("certs", "site", f"site-{3 + n % 2}") for n in range(6)]
    assert sorted(program.ends() for program in programs) == [0, 0, 5, 5, 5, 5]
    assert not [path for path in ca.iterdir() if path.name.startswith(".")]


# --- gRPC's view of them


class Whoami(grpc.GenericRpcHandler):
    """Answers any call with the caller's identity."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
            self.seen = dict(context.auth_context())
            return b""

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def receiver(ca: Path) -> Iterator[tuple[Whoami, int]]:
    whoami = Whoami()
    server = grpc.server(ThreadPoolExecutor(2), handlers=[whoami])
    pair = ((ca / "server.key").read_bytes(), (ca / "server.crt").read_bytes())
    credentials = grpc.ssl_server_credentials([pair], (ca / "ca.crt").read_bytes(), require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield whoami, port
    server.stop(None).wait()


def ask(host: str, port: int, trusted: Path, pair: Path) -> None:
    credentials = grpc.ssl_channel_credentials(
        (trusted / "ca.crt").read_bytes(), pair.with_suffix(".key").read_bytes(), pair.read_bytes()
    )
    with grpc.secure_channel(f"{host}:{port}", credentials) as channel:
        call: Any = channel.unary_unary("/a/b")
        call(b"", timeout=PATIENCE)


@pytest.mark.parametrize(
    ("name", "role", "san", "host"),
    table(
        [
            pytest.param("site-1", b"site", [b"site-1"]),
            pytest.param("site_2", b"site", []),
            pytest.param("anna", b"reader", [b"anna"]),
        ],
        ["localhost", "127.0.0.1"],
    ),
)
def test_grpc_tells_who_calls(
    ca: Path, receiver: tuple[Whoami, int], host: str, name: str, role: bytes, san: list[bytes]
) -> None:
    whoami, port = receiver
    ask(host, port, ca, ca / f"{name}.crt")
    assert whoami.seen["x509_common_name"] == [name.encode()]
    assert whoami.seen.get("x509_subject_alternative_name", []) == san
    assert whoami.seen["x509_subject"] == [b"CN=%b,OU=%b" % (name.encode(), role)]


def test_grpc_refuses_another_cas_certificates_and_the_wrong_way_round(
    place: Place, ca: Path, receiver: tuple[Whoami, int]
) -> None:
    done(place.call("certs", "init", "--dir", "other"))
    done(place.call("certs", "site", "site-1", "--dir", "other"))
    other = place.directory / "other"
    for trusted, pair in ((ca, other / "site-1.crt"), (other, ca / "site-1.crt"), (ca, ca / "server.crt")):
        with pytest.raises(grpc.RpcError) as caught:
            ask("localhost", receiver[1], trusted, pair)
        error: Any = caught.value
        assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert receiver[0].seen == {}
