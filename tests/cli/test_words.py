"""A command's options as words that work from any directory: ``flarelog run`` prints them as a command for later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from flarelog.cli import main

ASKED = ["sidecar", "--receiver", "127.0.0.1:1", "--run", "r", "--site", "s", "--root", ".", "--all-files"]
SAID = ["--receiver", "127.0.0.1:1", "--run", "r", "--site", "s", "--all-files"]


@pytest.mark.parametrize(
    ("env", "table", "words"),
    [
        pytest.param({}, "", [], id="nothing"),
        pytest.param({"REDACT": "passwords keys"}, "", ["--redact", "passwords", "--redact", "keys"], id="redaction"),
        pytest.param({}, 'redact = "email"', ["--redact", "email"], id="redaction-of-a-table"),
        pytest.param({"REDACT": "keys"}, 'redact = "email"', ["--redact", "keys"], id="a-variable-outweighs-a-table"),
        pytest.param({"ZONE": "Europe/Oslo"}, "", ["--zone", "Europe/Oslo"], id="zone"),
        pytest.param({"SITE_POLICY": "a.toml"}, "", ["--site-policy", "DIR/a.toml"], id="policy"),
        pytest.param(
            {"SITE_POLICY": "DIR/a.toml:b.toml"},
            "",
            ["--site-policy", "DIR/a.toml", "--site-policy", "DIR/b.toml"],
            id="two-policies",
        ),
        pytest.param({}, 'site-policy = "a.toml"', ["--site-policy", "DIR/a.toml"], id="policy-of-a-table"),
        pytest.param({"RANKS": "off", "COMPRESSION": "off"}, "", ["--ranks", "off", "--compression", "off"], id="how"),
        pytest.param({"PROXY": "http://ann:pw@p:1"}, "", [], id="a-password-stays-in-the-variable"),
        pytest.param({}, "proxy = 'http://ann:pw@p:1'", [], id="a-password-stays-in-the-file"),
        pytest.param({"NO_RANKS": "1"}, "", ["--no-ranks"], id="how-once"),
        pytest.param({}, "ranks = false\ndrain-timeout = 3", ["--ranks", "off", "--drain-timeout", "3.0"], id="table"),
        pytest.param(
            {"START_AT": "end", "INCLUDE": "*.txt", "ONCE": "1", "STATE": "x", "ACCEPT_GAPS": "1", "JSON": "1"},
            'exclude = ["*.log"]\ndrain-limit = 1',
            [],
            id="what-is-for-other-sidecars",
        ),
    ],
)
def test_words(
    env: dict[str, str], table: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        (tmp_path / f"{name}.toml").write_text("")
    (tmp_path / "conf.toml").write_text(f"[sidecar]\n{table}\n")
    variables = {f"FLARELOG_{name}": value.replace("DIR", str(tmp_path)) for name, value in env.items()}
    config = ["--config", "conf.toml"] if table else []
    done = CliRunner().invoke(main, [*ASKED, *config, "--only-check"], env=variables)
    assert done.exit_code == 0, done.output
    file = ["--config", str(tmp_path / "conf.toml")] if table else []
    expected = [word.replace("DIR", str(tmp_path)) for word in words]
    said = json.loads(done.stdout)
    assert sorted(said) == sorted([*SAID, *expected, *file])
    for at in range(len(expected)):
        assert expected[at] in said
    again = CliRunner().invoke(main, ["sidecar", *said, "--root", "/", "--only-check"])
    assert json.loads(again.stdout) == said, "said again, they say the same"


def test_a_policy_of_the_variable_holds_beside_that_of_a_flag(tmp_path: Path) -> None:
    flag, variable = tmp_path / "flag.toml", tmp_path / "variable.toml"
    for file in (flag, variable):
        file.write_text("")
    env = {"FLARELOG_SITE_POLICY": f"{variable}:{flag}"}
    done = CliRunner().invoke(main, [*ASKED, "--site-policy", str(flag), "--only-check"], env=env)
    said = json.loads(done.stdout)
    assert [word for word in said if word.endswith(".toml")] == [str(flag), str(variable)]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        pytest.param("drain-timeout = -1", "line 2: drain-timeout must be a positive number", id="number"),
        pytest.param('run = "a b"', "line 2: run: the run's name is 'a b'", id="name"),
        pytest.param("ignore-older = -1", "line 2: ignore-older must be a positive number", id="what-does-not-count"),
    ],
)
def test_what_a_flag_outweighs_is_checked_as_well(table: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "conf.toml").write_text(f"[sidecar]\n{table}\n")
    asked = [*ASKED, "--config", str(tmp_path / "conf.toml"), "--drain-timeout", "1", "--only-check"]
    done = CliRunner().invoke(main, asked)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        pytest.param("[sidecar]\nzone = 'UTC'\n", [], id="its-own-alone"),
        pytest.param("log-level = 'info'\n[sidecar]\n", [], id="what-is-said-of-all-stands-there-as-well"),
        pytest.param("[sidecar]\n[run]\nlinger = 1\n", ["--config", "DIR/sidecar.toml"], id="another-command's-too"),
    ],
)
def test_a_file_that_nobody_named_is_passed_on_where_it_tells_another_command_something(
    text: str, passed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flarelog.cli.config_file.DIRECTORY", str(tmp_path))
    (tmp_path / "sidecar.toml").write_text(text)
    done = CliRunner().invoke(main, [*ASKED, "--only-check"])
    assert done.exit_code == 0, done.output
    words = [word.replace(str(tmp_path), "DIR") for word in json.loads(done.stdout)]
    assert [word for word in words if word == "--config" or word.endswith(".toml")] == passed
