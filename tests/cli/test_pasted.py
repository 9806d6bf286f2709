"""A command that is printed to be pasted works when it is pasted."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from flarelog.cli import main
from flarelog.cli.options import Place, place_options
from flarelog.cli.reading import _again
from tests.rows import together


@click.command
@place_options()
def command(place: Place) -> None:
    click.echo(" ".join(place.words))


TLS = ("--tls-ca", "ca.crt", "--tls-cert", "ada.crt", "--tls-key", "ada.key")


@together(
    ("args", "variables", "file", "words"),
    [
        (("--store", "logs"), {}, {}, "--store logs"),
        (("--receiver", "a:1"), {}, {}, "--receiver a:1"),
        (("--receiver", "a:1", *TLS), {}, {}, " ".join(("--receiver", "a:1", *TLS))),
        (
            ("--token-file", "t", "--receiver", "a:1", *TLS[:2]),
            {},
            {},
            "--receiver a:1 --tls-ca ca.crt --token-file t",
        ),
        ((), {"FLARELOG_RECEIVER": "a:1", "FLARELOG_TLS_CA": "ca.crt"}, {}, "--receiver a:1"),
        ((), {}, {"receiver": "a:1", "tls_ca": "ca.crt"}, "--receiver a:1 --tls-ca ca.crt"),
    ],
)
def test_it_carries_the_credentials_that_flags_or_a_file_gave(
    args: tuple[str, ...], variables: dict[str, str], file: dict[str, str], words: str
) -> None:
    done = CliRunner().invoke(command, args, env=variables, default_map=file)
    assert (done.exit_code, done.stdout) == (0, f"{words}\n")


@together(
    ("args", "words"),
    [
        ((), ""),
        (("--log-level", "debug"), ""),
        (("--config", "mine.toml"), " --config mine.toml"),
        (("--ignore-case", "--bars", "off", *TLS), " --ignore-case --bars off " + " ".join(TLS)),
    ],
)
def test_the_command_that_continues_a_stopped_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").touch()
    root = main.make_context("flarelog", ["follow"], resilient_parsing=True)
    follow = main.get_command(root, "follow")
    assert follow is not None
    with follow.make_context("follow", ["r", "--receiver", "a:1", "--site", "s", *args], parent=root) as context:
        said = _again(context, "r", {("s", "a.log"): 7})
    given = f"--site s --receiver a:1{words} --from=s/a.log:7".split()
    assert said.split()[:3] == ["flarelog", "follow", "r"]
    assert sorted(said.split()[3:]) == sorted(given)
