"""Logins: a secret works once and for a minute, a session for its hours."""

from __future__ import annotations

import pytest

from flarelog.viewers.web.sessions import MOST, MOST_OF_ONE, SECRET_FOR, Secrets, Sessions, new_key, signed
from tests.rows import together

KEY, NOW = new_key(), 1_000_000.0


@pytest.mark.parametrize(
    ("later", "good"),
    [
        pytest.param(0.0, True, id="at-once"),
        pytest.param(SECRET_FOR - 1, True, id="within-the-minute"),
        pytest.param(SECRET_FOR + 1, False, id="after-it"),
        pytest.param(-3600.0, False, id="made-by-a-clock-that-is-ahead"),
    ],
)
def test_a_secret_is_good_for_a_minute(later: float, good: bool) -> None:
    assert Secrets(KEY).takes(signed(KEY, NOW), NOW + later) is good


def test_a_secret_is_good_once() -> None:
    secrets, secret, other = Secrets(KEY), signed(KEY, NOW), signed(KEY, NOW)
    assert [secrets.takes(one, NOW + 1) for one in (secret, secret, other, secret, other)] == [
        *(True, False, True, False, False),
    ]
    assert not secrets.takes(secret, NOW + SECRET_FOR - 1)


@together("secret", ["", ".", "..", "x", "1.2.3", f"{int(NOW)}.x.", "\u00e9.x.y", "9" * 5000])
def test_what_nobody_signed_is_no_secret(secret: str) -> None:
    assert not Secrets(KEY).takes(secret, NOW)


def test_another_key_signs_nothing_here() -> None:
    assert not Secrets(KEY).takes(signed(new_key(), NOW), NOW)
    assert not Secrets(b"").takes(signed(b"", NOW), NOW)


def test_a_changed_time_is_no_secret() -> None:
    said, _, rest = signed(KEY, NOW).partition(".")
    assert not Secrets(KEY).takes(f"{int(said) + 1}.{rest}", NOW)


def test_a_session_is_its_cookies_until_its_time_is_over() -> None:
    sessions: Sessions[str] = Sessions(100.0)
    cookie, session = sessions.open("ada", "rights", NOW)
    assert sessions.of(cookie, NOW + 99) is session
    assert sessions.of(cookie + "x", NOW) is sessions.of("", NOW) is None
    assert sessions.of(cookie, NOW + 100) is None
    assert sessions.surplus("rights", NOW + 100) == [session]


def test_a_session_that_was_ended_is_nobodys() -> None:
    sessions: Sessions[str] = Sessions(100.0)
    (cookie, session), (other, _) = sessions.open("ada", "rights", NOW), sessions.open("ada", "rights", NOW)
    sessions.end(session)
    assert sessions.of(cookie, NOW) is None
    assert sessions.of(other, NOW) is not None


def log_in(sessions: Sessions[str], rights: str, now: float) -> str:
    for one in sessions.surplus(rights, now):
        sessions.end(one)
    return sessions.open("token", rights, now)[0]


def test_a_user_who_logs_in_again_and_again_ends_only_sessions_of_his_own() -> None:
    sessions: Sessions[str] = Sessions(5000.0)
    ada, first = log_in(sessions, "ada", NOW), log_in(sessions, "guest", NOW)
    for n in range(MOST):
        last = log_in(sessions, "guest", NOW + 1 + n)
    assert len(sessions) == 1 + MOST_OF_ONE
    assert sessions.of(ada, NOW + MOST) is not None
    assert (sessions.of(first, NOW + MOST), sessions.of(last, NOW + MOST) is None) == (None, False)


def test_a_full_page_ends_the_oldest_session_of_who_has_the_most() -> None:
    sessions: Sessions[str] = Sessions(5000.0)
    ada = log_in(sessions, "ada", NOW)
    many = [log_in(sessions, "many", NOW + 1 + n) for n in range(3)]
    for n in range(MOST - 4):
        log_in(sessions, f"user-{n // 2}", NOW + 10)
    log_in(sessions, "bob", NOW + 20)
    assert len(sessions) == MOST
    assert [sessions.of(one, NOW + 20) is not None for one in (ada, *many)] == [True, False, True, True]
