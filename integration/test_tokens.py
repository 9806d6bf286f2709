"""An administrator's ``flarelog token`` beside a running receiver."""

from __future__ import annotations

import os
import re
import stat
import time

import pytest

from flarelog.errors import NotAuthenticated
from flarelog.policy import Identity, Role
from flarelog.security.tokens import Tokens, read_token, tokens_path
from integration.harness.places import LOG, RUN, SITE, Place, append, lines, until

SECRET = re.compile(r"flarelog_[A-Za-z0-9_-]{43}\n")


def created(place: Place, *args: str) -> tuple[str, str]:
    """The id and the secret of a token that the command made."""
    place.made()
    program = place.call("token", "create", *args, "--store", "store")
    assert program.ends() == 0, program.talk()
    assert SECRET.fullmatch(program.printed), "stdout holds the secret and nothing else"
    secret = program.printed.strip()
    assert secret not in program.said
    return program.said.split()[1], secret


def test_a_token_from_its_making_to_its_end(place: Place) -> None:
    store = place.directory / "store"
    wall, wall_secret = created(place, "wall", "--runs", "job-*", "--runs", "night", "--expires", "30d")
    ops, ops_secret = created(place, "ops", "--role", "operator")
    tokens = Tokens(tokens_path(store))  # the view of a running receiver
    assert tokens.identify(wall_secret, time.time()) == Identity(
        "token", token=wall, token_name="wall", role=Role.READER, runs=("job-*", "night")
    )
    assert tokens.identify(ops_secret, time.time())

    listed = place.call("token", "list", "--store", "store")
    head, *rows = listed.printed.splitlines()
    assert head.split() == ["ID", "NAME", "ROLE", "RUNS", "CREATED", "EXPIRES", "STATE"]
    assert {(row.split()[0], row.split()[-1]) for row in rows} == {(wall, "valid"), (ops, "valid")}
    records = {r["id"]: r for r in place.call("token", "list", "--store", "store", "--json").records()}
    assert (records[wall]["runs"], records[ops]["role"]) == (["job-*", "night"], "operator")

    revoked = place.call("token", "revoke", wall, "--store", "store")
    assert (revoked.ends(), revoked.printed) == (0, f"revoked {wall} (wall)\n")
    with pytest.raises(NotAuthenticated):
        tokens.identify(wall_secret, time.time())
    assert tokens.identify(ops_secret, time.time())
    again = place.call("token", "revoke", wall, "--store", "store")
    assert (again.ends(), wall in again.sentence()) == (3, True)

    assert stat.S_IMODE(tokens_path(store).stat().st_mode) == 0o600
    everything = "".join(program.talk() for program in place.programs[2:]) + tokens_path(store).read_text()
    assert wall_secret not in everything
    assert ops_secret not in everything


def test_what_is_printed_is_a_token_file(place: Place) -> None:
    _, secret = created(place, "wall")
    file = place.directory / "wall.token"
    file.touch(0o600)
    file.write_text(secret + "\n")
    assert read_token(file) == secret


def test_tokens_do_not_disturb_the_store_that_they_are_in(place: Place) -> None:
    created(place, "before")
    receiver = place.serve()
    created(place, "meanwhile")
    data = lines(100)
    append(place.log, data)
    assert place.sidecar(receiver, "--once").ends() == 0
    assert list(receiver.streams()) == [f"{SITE}/{LOG}"]
    shown = place.call("streams", "--store", "store", "--json").records()
    assert [record["run"] for record in shown] == [RUN]
    until(lambda: receiver.stored() == data, "the log is stored")


def test_commands_at_the_same_time_lose_nothing(place: Place) -> None:
    place.made()
    programs = [place.start("token", "create", f"t{n}", "--store", "store") for n in range(4)]
    assert [program.ends() for program in programs] == [0] * 4
    made = {program.said.split()[1] for program in programs}
    assert {token.id for token in Tokens(tokens_path(place.directory / "store")).all()} == made


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        pytest.param(["create"], 2, "NAME", id="no-name"),
        pytest.param(["create", "wall"], 2, "--store", id="nowhere", marks=pytest.mark.soak),
        pytest.param(["create", "a b", "--store", "s"], 2, "'a b'", id="a-name-that-is-none"),
        pytest.param(
            ["create", "serve--web", "--store", "s"],
            2,
            "flarelog serve --web",
            id="the-pages-own",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ["create", "wall", "--store", "s", "--role", "site"], 2, "site", id="a-site", marks=pytest.mark.soak
        ),
        pytest.param(["create", "wall", "--store", "s", "--runs", "a/b"], 2, "'a/b'", id="runs-that-cannot-be"),
        pytest.param(
            ["create", "wall", "--store", "s", "--runs", "a["],
            78,
            "'a['",
            id="a-glob-that-is-none",
            marks=pytest.mark.soak,
        ),
        pytest.param(["create", "wall", "--store", "s", "--expires", "never"], 2, "30d", id="for-ever"),
        pytest.param(
            ["create", "wall", "--store", "s", "--expires", "9999d"],
            2,
            "3650 days",
            id="for-long",
            marks=pytest.mark.soak,
        ),
        pytest.param(["create", "wall", "--store", "FILE"], 2, "FILE", id="into-a-file"),
        pytest.param(["create", "wall", "--store", "EMPTY"], 3, "EMPTY is no store", id="into-an-empty-directory"),
        pytest.param(["create", "wall", "--store", "NOWHERE"], 3, "there is no store at NOWHERE", id="into-no-store"),
        pytest.param(["create", "wall", "--store", "BROKEN"], 78, "cannot be used", id="beside-what-is-broken"),
        pytest.param(
            ["list", "--store", "BROKEN"], 78, "cannot be used", id="a-list-of-what-is-broken", marks=pytest.mark.soak
        ),
        pytest.param(["revoke", "--store", "s"], 2, "ID", id="revoke-nothing", marks=pytest.mark.soak),
        pytest.param(["revoke", "00000000", "--store", "EMPTY"], 3, "EMPTY is no store", id="revoke-what-is-not-there"),
        pytest.param(
            ["revoke", "00000000", "--store", "NOWHERE"],
            3,
            "there is no store at NOWHERE",
            id="revoke-nowhere",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ["list", "--store", "NOWHERE"],
            3,
            "there is no store at NOWHERE",
            id="a-list-of-nowhere",
            marks=pytest.mark.soak,
        ),
        pytest.param(["nonsense"], 2, "nonsense", id="no-such-command", marks=pytest.mark.soak),
    ],
)
def test_a_command_that_cannot_says_why_in_one_sentence(place: Place, args: list[str], code: int, says: str) -> None:
    (place.directory / "FILE").write_text("a file")
    (place.directory / "EMPTY").mkdir()
    place.made("s")
    broken = tokens_path(place.directory / "BROKEN")
    broken.parent.mkdir()
    broken.write_text("{")
    broken.chmod(0o600)
    program = place.start("token", *args)
    assert (program.ends(), program.printed) == (code, ""), program.talk()
    assert says in program.sentence()
    assert broken.read_text() == "{"


def test_a_list_of_no_tokens_makes_nothing(place: Place) -> None:
    (place.directory / "none").mkdir()
    program = place.call("token", "list", "--store", "none", "--json")
    assert (program.ends(), program.printed) == (3, "")
    assert "none is no store" in program.sentence()
    assert not os.listdir(place.directory / "none")
