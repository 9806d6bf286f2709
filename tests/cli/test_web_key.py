"""The file by which ``flarelog web login`` knows the page of the same user."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from flarelog.cli import web
from flarelog.cli.web import _kept, _key
from flarelog.errors import NotFound
from flarelog.viewers.web.options import WebOptions
from flarelog.viewers.web.sessions import KEY_SIZE, new_key


@pytest.fixture(autouse=True)
def homeless(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A user that no passwd file has, without HOME, as in a container on OpenShift."""
    tmp_path_factory.getbasetemp()  # it belongs to the user who runs the tests
    for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 123456)


def test_a_page_of_a_user_without_a_home_runs_without_logins(capfd: pytest.CaptureFixture[str]) -> None:
    with _kept(WebOptions(), new_key()):
        pass
    why = "this user has no home directory: set XDG_RUNTIME_DIR to a directory that this user may write"
    assert capfd.readouterr().err == f"flarelog: flarelog web login will not work: {why}\n"
    with pytest.raises(NotFound, match="this user has no home directory"):
        _key(WebOptions())


def test_a_directory_that_a_variable_names_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    key = new_key()
    with _kept(WebOptions(), key):
        assert _key(WebOptions()) == key
    with pytest.raises(NotFound, match="no page of this user runs"):
        _key(WebOptions())


def test_the_keys_of_pages_that_were_killed_are_removed_when_another_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    keys = tmp_path / "flarelog"
    with _kept(WebOptions(listen="127.0.0.1:4781"), b"k" * KEY_SIZE):
        for port in range(5000, 5020):
            (keys / f"web-{port}.key").write_text("killed")
        (keys / "web-token.txt").write_text("of somebody else")
        for path in keys.iterdir():
            os.utime(path, (0, 0))
        (keys / "web-5020.key").write_text("it starts")
        with _kept(WebOptions(listen="127.0.0.1:4782"), b"l" * KEY_SIZE):
            named = {"web-4781.key", "web-4782.key", "web-5020.key", "web-token.txt"}
            assert {path.name for path in keys.iterdir()} == named
            assert _key(WebOptions(listen="127.0.0.1:4781")) == b"k" * KEY_SIZE


def test_a_key_that_somebody_removed_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    key, path = new_key(), tmp_path / "flarelog" / "web-4781.key"
    options = WebOptions(listen="127.0.0.1:4781")
    with _kept(options, key) as again:
        for lost in (path.unlink, partial(shutil.rmtree, path.parent)):
            lost()
            monkeypatch.setattr(web, "_listens", lambda address: address == options.listen)
            with pytest.raises(NotFound, match=r"127.0.0.1:4781 answers, but the key of its page, .* is missing"):
                _key(options)
            again()
            assert _key(options) == key
        os.utime(path, (0, 0))
        monkeypatch.setattr(web, "_listens", lambda address: False)
        with _kept(WebOptions(listen="127.0.0.1:4782"), new_key()):  # which removes keys without a lock
            assert _key(options) == key
        path.write_bytes(b"of another page")
        again()
        assert path.read_bytes() == b"of another page"


def test_the_key_of_a_page_of_an_older_version_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(web, "_listens", lambda address: address == "localhost:5000")
    keys = tmp_path / "flarelog"
    keys.mkdir()
    for name in ("web-5000.key", "web-5001.key", "web-x.key"):
        (keys / name).write_text("without a lock")
        os.utime(keys / name, (0, 0))
    with _kept(WebOptions(), new_key()):
        assert {path.name for path in keys.iterdir()} == {"web-4780.key", "web-5000.key"}
