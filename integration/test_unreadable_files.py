"""Each command that cannot read a file that an option names ends with 78, and says which file and why.

A supervisor starts no unit again that ended with 78; with 2 it would take an unreadable key for a wrong option.
"""

from __future__ import annotations

import os
import shlex

import pytest

from integration.harness.places import Place

SENDS = "--receiver 127.0.0.1:1 --site s"
READS = "--receiver 127.0.0.1:1"
TLS = "--tls-ca certs/ca.crt --tls-cert certs/s.crt"
OF_SENDERS = (f"{TLS} --tls-key", "--tls-cert certs/s.crt --tls-key certs/s.key --tls-ca", "--site-policy")
OF_READERS = (f"{TLS} --tls-key", "--tls-ca", "--tls-ca certs/ca.crt --token-file")
SERVES = "serve --store store --listen 127.0.0.1:0"
SERVED = "--tls-ca certs/ca.crt --tls-cert certs/server.crt"
COMMANDS = {
    f"sidecar {SENDS} --run r --root . --once": OF_SENDERS,
    f"agent {SENDS} --root . --once": OF_SENDERS,
    f"run {SENDS} --run r": OF_SENDERS,
    SERVES: (
        f"{SERVED} --tls-key",
        *(f"{SERVED} --tls-key certs/server.key {option}" for option in ("--policy", "--tls-crl")),
    ),
    **{
        f"{command} {READS}": OF_READERS
        for command in (
            *("logs r", "follow r", "status r", "streams r", "runs", "findings r", "report r -o a.html"),
            *("run-start r", "run-end r", "rm r --yes", "web --listen 127.0.0.1:0"),
        )
    },
    "findings r --store store": ("--rules",),
    "report r -o a.html --store store": ("--rules",),
    "config check": ("",),
}


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("place"))
    for words in ("init", "server 127.0.0.1", "site s"):
        program = place.call("certs", *words.split(), "--dir", "certs")
        assert program.ends() == 0, program.talk()
    place.made()
    (place.directory / "a-directory").mkdir()
    (place.directory / "unreadable").touch(0o000)
    return place


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command.split()[:2]))
def test_a_file_that_cannot_be_read_ends_each_command_with_78(certified: Place, command: str) -> None:
    for option, file in zip(COMMANDS[command], ("unreadable", "a-directory", "missing"), strict=False):
        words = [*shlex.split(f"{command} {option} {file}"), *(["--", "true"] if command[:4] == "run " else [])]
        program = certified.call(*words, plain=file == "unreadable" and os.geteuid() == 0)  # root may read it
        assert program.ends() == 78, f"{program}: {program.talk()}"
        assert f"{file} cannot be read" in program.said
