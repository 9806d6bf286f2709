"""Tokens: their storage, whom they let in and until when, and the effect of an invalid file."""

from __future__ import annotations

import hmac
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from flarelog.errors import FlarelogError, InvalidOption, NotAllowed, NotAuthenticated, NotFound
from flarelog.model import Action
from flarelog.policy import Identity, Policy, Role
from flarelog.security.access import PolicyFile, load
from flarelog.security.tokens import PREFIX, Tokens, parse, read_token, tokens_path

NOW, DAY = 1_800_000_000.5, 86400


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tokens_path(tmp_path / "store"))


def is_refused(tokens: Tokens, secret: str, now: float) -> bool:
    try:
        tokens.identify(secret, now)
    except NotAuthenticated:
        return True
    return False


def test_a_secret_says_who_shows_it(tokens: Tokens) -> None:
    tokens.create("other", lifetime=DAY, now=NOW)
    token, secret = tokens.create("wall", Role.READER, ["job-*"], lifetime=DAY, now=NOW)
    assert tokens.identify(secret, NOW) == Identity(
        "token", token=token.id, token_name="wall", role=Role.READER, runs=("job-*",)
    )


def test_the_secret_is_random_and_is_not_stored(tokens: Tokens) -> None:
    made = [tokens.create("wall", lifetime=DAY, now=NOW)[1] for _ in range(3)]
    assert len({*made}) == 3
    assert all(secret.startswith(PREFIX) and len(secret) >= len(PREFIX) + 43 for secret in made)
    stored = tokens.path.read_text()
    assert not [secret for secret in made if secret in stored or secret.removeprefix(PREFIX) in stored]
    assert "sha256" not in json.dumps([token.record(NOW) for token in tokens.all()])


def test_every_token_is_compared_in_constant_time(tokens: Tokens, mocker: MockerFixture) -> None:
    first = tokens.create("first", lifetime=DAY, now=NOW)[1]
    tokens.create("second", lifetime=DAY, now=NOW)
    compared = mocker.spy(hmac, "compare_digest")
    assert tokens.identify(first, NOW)
    assert compared.call_count == 2


def test_what_is_no_token_is_nobody(tokens: Tokens) -> None:
    token, secret = tokens.create("wall", lifetime=DAY, now=NOW)
    for wrong in ("", secret[:-1], secret + "x", secret.removeprefix(PREFIX), token.id, token.sha256, "\udc80", "wall"):
        assert is_refused(tokens, wrong, NOW)


def test_a_token_expires(tokens: Tokens) -> None:
    token, secret = tokens.create("wall", lifetime=60, now=NOW)
    identity = tokens.identify(secret, token.expires - 0.1)
    assert tokens.holds(identity, token.expires - 0.1)
    assert is_refused(tokens, secret, token.expires)
    assert not tokens.holds(identity, token.expires)
    assert [t.record(token.expires)["state"] for t in tokens.all()] == ["expired"]


def test_what_another_process_changes_is_followed_without_a_restart(tokens: Tokens) -> None:
    receiver = Tokens(tokens.path)
    assert is_refused(receiver, "nothing yet", NOW)
    token, secret = tokens.create("wall", lifetime=DAY, now=NOW)
    identity = receiver.identify(secret, NOW)
    assert receiver.holds(identity, NOW)
    tokens.revoke(token.id)
    assert is_refused(receiver, secret, NOW)
    assert not receiver.holds(identity, NOW)


def test_the_file_is_read_only_when_it_changed(tokens: Tokens, mocker: MockerFixture) -> None:
    secret = tokens.create("wall", lifetime=DAY, now=NOW)[1]
    read = mocker.spy(Tokens, "_read")
    for _ in range(3):
        assert tokens.identify(secret, NOW)
    assert read.call_count == 1


def test_the_file_is_its_owners_alone_and_nothing_is_left_beside_it(tokens: Tokens) -> None:
    umask = os.umask(0)
    try:
        tokens.create("wall", lifetime=DAY, now=NOW)
        token, _ = tokens.create("wall", lifetime=DAY, now=NOW)
    finally:
        os.umask(umask)
    tokens.revoke(token.id)
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert os.listdir(tokens.path.parent) == [tokens.path.name]


def test_a_change_that_fails_leaves_what_was(tokens: Tokens, mocker: MockerFixture) -> None:
    token, secret = tokens.create("wall", lifetime=DAY, now=NOW)
    mocker.patch("os.replace", side_effect=OSError(28, "No space left on device"))
    with pytest.raises(NotAllowed, match="No space left"):
        tokens.revoke(token.id)
    assert tokens.identify(secret, NOW)
    assert os.listdir(tokens.path.parent) == [tokens.path.name]


def test_changes_at_the_same_time_are_all_kept(tokens: Tokens) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: Tokens(tokens.path).create(f"t{n}", lifetime=DAY, now=NOW)[0], range(12)))
    assert {token.id for token in tokens.all()} == {token.id for token in made}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away; run it as root")
def test_what_root_creates_the_receivers_user_can_read(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    os.chown(tmp_path / "store", 4711, 4711)
    tokens = Tokens(tokens_path(tmp_path / "store"), administered=True)
    tokens.create("wall", lifetime=DAY, now=NOW)
    assert tokens.path.stat().st_uid == 4711
    tokens.create("other", lifetime=DAY, now=NOW)
    assert len(tokens.all()) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away; run it as root")
def test_a_file_that_is_another_users_lets_nobody_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "store").mkdir()
    tokens = Tokens(tokens_path(tmp_path / "store"))
    _, secret = tokens.create("wall", lifetime=DAY, now=NOW)
    assert tokens.identify(secret, NOW)
    os.chown(tokens.path, 4712, 4712)
    assert is_refused(tokens, secret, NOW)
    assert "belong to user 4712, not to the receiver's user or root" in caplog.text
    for administered in (False, True):
        with pytest.raises(NotAllowed, match="check who put it there"):
            Tokens(tokens.path, administered=administered).create("more", lifetime=DAY, now=NOW)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"name": ""}, "cannot be called ''", id="no-name"),
        pytest.param({"name": "a\nb"}, r"cannot be called 'a\\nb'", id="a-name-of-two-lines"),
        pytest.param({"name": "x" * 129}, "128", id="a-long-name"),
        pytest.param({"role": Role.SITE}, "a site needs a certificate", id="a-site"),
        pytest.param({"runs": []}, "needs runs", id="no-runs"),
        pytest.param({"runs": ["a/b"]}, "no run can have the name 'a/b'", id="runs-that-cannot-be"),
        pytest.param({"runs": ["job-*", "a["]}, r"'a\['.* has a '\['", id="a-bracket-that-is-not-closed"),
        pytest.param({"lifetime": 0}, "for one second to", id="no-time"),
        pytest.param({"lifetime": 3651 * DAY}, "3650 days", id="for-ever"),
    ],
)
def test_what_cannot_be_a_token_is_refused_and_nothing_is_written(
    tokens: Tokens, changes: dict[str, Any], says: str
) -> None:
    wanted: dict[str, Any] = {"name": "wall", "lifetime": DAY, "now": NOW} | changes
    with pytest.raises(InvalidOption, match=says):
        tokens.create(**wanted)
    assert not tokens.path.exists()


def test_a_token_that_is_not_there_cannot_be_revoked(tokens: Tokens) -> None:
    with pytest.raises(NotFound, match="no token '0000'"):
        tokens.revoke("0000")


# --- invalid files

ONE: dict[str, Any] = {
    "id": "00112233",
    "name": "wall",
    "role": "reader",
    "runs": ["*"],
    "created": 1,
    "expires": 2,
    "sha256": "0" * 64,
}


WRONG: dict[str, list[Any]] = {
    "id": ["", "xyz", 1],
    "name": ["", "a b", "a\n", None],
    "role": ["site", "root", []],
    "runs": ["*", [], [1], ["/"]],
    "created": [-1, 1.5, True, 10**30],
    "expires": ["1", float("nan"), 1 << 40],
    "sha256": ["", "0" * 63, "G" * 64],
}


def stored(*tokens: object, version: object = 1) -> bytes:
    return json.dumps({"version": version, "tokens": tokens}).encode()


def test_a_file_with_a_token() -> None:
    assert [token.id for token in parse(stored(ONE), "t")[0]] == ["00112233"]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="empty"),
        pytest.param(stored(ONE)[:-5], id="torn"),
        pytest.param(b"\xff\xfe", id="no-text"),
        pytest.param(b"[]", id="no-object"),
        pytest.param(b"[" * 100_000, id="nested-too-deeply"),
        pytest.param(b"1" * 5000, id="a-number-that-is-too-long"),
        pytest.param(stored(version=2), id="another-version"),
        pytest.param(b'{"version": 1}', id="without-tokens"),
        pytest.param(b'{"version": 1, "tokens": {}}', id="tokens-that-are-no-list"),
        pytest.param(stored(1), id="a-token-that-is-no-object"),
        pytest.param(stored(ONE, ONE), id="one-id-twice"),
        *(pytest.param(stored({k: v for k, v in ONE.items() if k != key}), id=f"without-{key}") for key in ONE),
        *(
            pytest.param(stored(ONE | {key: value}), id=f"{key}-{value!r:.20}")
            for key, values in WRONG.items()
            for value in values
        ),
    ],
)
def test_a_file_that_cannot_be_believed_lets_nobody_in_and_is_said_once(
    tmp_path: Path, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = Tokens(tmp_path / "t")
    secret = tokens.create("wall", lifetime=DAY, now=NOW)[1]
    assert tokens.identify(secret, NOW)
    tokens.path.write_bytes(raw)
    assert all(is_refused(tokens, secret, NOW) for _ in range(3))
    assert len(caplog.records) == 1
    for use in (tokens.all, lambda: tokens.create("new", lifetime=DAY, now=NOW), lambda: tokens.revoke("00112233")):
        with pytest.raises(InvalidOption) as refused:
            use()
        assert str(refused.value).startswith(f"the tokens {tokens.path}")
        assert str(refused.value).isprintable()
    assert tokens.path.read_bytes() == raw


JSONS: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from([*ONE.values()]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ONE, "version", "tokens"]), inner, max_size=8)
        | st.fixed_dictionaries(dict.fromkeys(ONE, inner))
    ),
    max_leaves=12,
)


@given(
    JSONS.map(lambda said: json.dumps(said).encode()) | st.lists(JSONS).map(lambda some: stored(*some)) | st.binary()
)
def test_any_file_is_tokens_or_a_sentence(raw: bytes) -> None:
    try:
        for token in parse(raw, "t")[0]:
            json.dumps(token.record(NOW))
    except InvalidOption:
        pass


@pytest.mark.parametrize("kind", ["writable", "link", "pipe", "directory"])
def test_a_file_that_others_could_have_made_lets_nobody_in(tokens: Tokens, kind: str) -> None:
    secret = tokens.create("wall", lifetime=DAY, now=NOW)[1]
    elsewhere = tokens.path.with_name("elsewhere")
    if kind == "writable":
        tokens.path.chmod(0o620)
    else:
        tokens.path.rename(elsewhere)
        if kind == "link":
            tokens.path.symlink_to(elsewhere)
        elif kind == "pipe":
            os.mkfifo(tokens.path)
        else:
            tokens.path.mkdir()
    assert is_refused(tokens, secret, NOW)
    with pytest.raises(NotAllowed, match="the tokens"):
        tokens.all()


# --- the client's end


def token_file(directory: Path, raw: bytes, mode: int = 0o600) -> Path:
    path = directory / "token"
    path.write_bytes(raw)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_token_file_is_one_line(tmp_path: Path, end: bytes) -> None:
    assert read_token(token_file(tmp_path, b"flarelog_abc-_" + end)) == "flarelog_abc-_"


@pytest.mark.parametrize(
    "raw",
    [b"", b"\n", b"a\n\n", b"a b\n", b"a\x00", b"\xff", b" a", b"a" * 5000, b"a\nb\n"],
    ids=["empty", "blank", "two-ends", "two-words", "nul", "no-ascii", "indented", "long", "two-lines"],
)
def test_a_file_that_holds_no_token_is_refused_and_not_quoted(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(InvalidOption) as refused:
        read_token(token_file(tmp_path, raw))
    assert str(refused.value) == (
        f"the token file {tmp_path / 'token'} holds no token: write one line, as flarelog token create prints it"
    )


def test_a_token_that_stands_in_the_place_of_its_file_is_not_quoted() -> None:
    with pytest.raises(InvalidOption, match=r"^the name of the token file is a token") as refused:
        read_token("flarelog_abcdef")
    assert "abcdef" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o620, 0o660, 0o601])
def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(NotAllowed, match=r"other users can open the token file .*: run chmod 600 "):
        read_token(token_file(tmp_path, b"secret\n", mode))


def test_a_group_may_read_roots_file_alone(tmp_path: Path, mocker: MockerFixture) -> None:
    path = token_file(tmp_path, b"secret", 0o640)
    status = list(path.stat())
    for owner, allowed in ((0, True), (4711, False)):
        mocker.patch("os.fstat", return_value=os.stat_result([*status[:4], owner, *status[5:]]))
        if allowed:
            assert read_token(path) == "secret"
        else:
            with pytest.raises(NotAllowed):
                read_token(path)
        mocker.stopall()


def test_who_can_change_a_token_file_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mocker: MockerFixture
) -> None:
    path = tmp_path / "token"
    path.write_text("flarelog_x\n")
    path.chmod(0o600)
    assert read_token(path) == "flarelog_x"
    assert not caplog.messages
    mocker.patch("os.geteuid", return_value=path.stat().st_uid + 1)
    of_root = path.stat().st_uid == 0
    assert read_token(path) == "flarelog_x"
    assert len(caplog.messages) == (0 if of_root else 1)
    if of_root:
        mocker.stopall()
        os.chown(path, 1234, -1)
        assert read_token(path) == "flarelog_x"
        assert caplog.messages == [f"the token file {path} belongs to user 1234, who can read and change it"]


@pytest.mark.parametrize("gone", [True, False])
def test_a_file_that_was_damaged_or_gone_and_is_restored_made_and_revoked_nothing(tokens: Tokens, gone: bool) -> None:
    for name in ("wall", "door"):
        tokens.create(name, lifetime=DAY, now=NOW)
    first = tokens.all()
    assert tokens.changes()[0] == [*tokens._file.look()]
    kept = tokens.path.read_bytes()
    if gone:
        tokens.path.unlink()
        assert tokens.changes()[:2] == ([], [])
        assert is_refused(tokens, "flarelog_x", NOW)
    tokens.path.write_bytes(b"{{{")
    assert tokens.changes()[:2] == ([], [])
    tokens.path.unlink()
    assert tokens.changes()[:2] == ([], [])
    tokens.path.write_bytes(kept)
    tokens.path.chmod(0o600)
    assert tokens.changes()[:2] == ([], [])
    tokens.revoke(first[0].id)
    assert tokens.changes()[:2] == ([], [first[0]])


def test_a_link_in_the_place_of_the_tokens_is_told_what_to_do_about(tokens: Tokens) -> None:
    tokens.path.parent.mkdir()
    tokens.path.symlink_to("elsewhere")
    with pytest.raises(
        NotAllowed, match="are a symbolic link, which flarelog does not follow: put the file itself in its place"
    ):
        tokens.all()


def test_a_token_file_that_is_none(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, "a\0b"):
        with pytest.raises(InvalidOption, match=r"the token file .* cannot be read: "):
            read_token(path)


# --- the policy's file


def test_a_policy_file_is_read_again_and_a_wrong_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('[[grant]]\nidentity = "eve"\nrole = "operator"\n')
    policy, eve = PolicyFile(path), Identity("certificate", "eve")

    def allowed() -> bool:
        return policy.current.permits(eve, Action.DELETE, run="job-1")

    assert allowed()
    path.write_text("grant = nonsense\n")
    assert [allowed() for _ in range(3)] == [True] * 3
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "the policy could not be read again, and the old one stays in force"
    ]
    path.unlink()
    assert allowed()
    path.write_text("")
    assert not allowed()


def test_a_policy_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    bad: list[tuple[bytes | None, int, type[FlarelogError], str]] = [
        (None, 0, InvalidOption, "cannot be read: No such file"),
        (b"", 0o602, NotAllowed, "every user"),
        (b"#" * (1 << 20) + b"#", 0o600, InvalidOption, "more than"),
        (b"# \xff", 0o600, InvalidOption, "byte 2"),
        (b"x = 1", 0o600, InvalidOption, "policy.toml: the key 'x' is unknown"),
    ]
    for raw, mode, error, says in bad:
        if raw is not None:
            path.write_bytes(raw)
            path.chmod(mode)
        with pytest.raises(error, match=says):
            PolicyFile(path)
    path.write_bytes(b"defaults = true")
    assert load(path) == Policy()
