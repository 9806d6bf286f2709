"""A command with a bad option names it as on the command line and exits with code 2."""

from __future__ import annotations

import encodings.aliases
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from flarelog.cli import main
from tests.rows import together

SIDECAR = "sidecar --receiver 127.0.0.1:1 --run r --site s --root ."
SERVE = "serve --store s --listen 127.0.0.1:0"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        pytest.param(
            f"{SIDECAR} --drain-limit 0", "--drain-limit must be a positive number of seconds, not 0", id="drain-limit"
        ),
        pytest.param(
            f"{SIDECAR} --drain-timeout -1", "--drain-timeout must be a positive number of", id="drain-timeout"
        ),
        pytest.param(f"{SIDECAR} --ignore-older -1", "--ignore-older must be a positive number of", id="ignore-older"),
        pytest.param(f"{SIDECAR} --include /x", "the pattern '/x' can match nothing", id="include"),
        pytest.param(
            f"{SIDECAR} --tls-cert x",
            "TLS needs --tls-ca, --tls-cert and --tls-key; missing: --tls-ca, --tls-key",
            id="tls",
        ),
        pytest.param(
            f"{SERVE} --idle-timeout 0", "--idle-timeout must be a number of seconds from 0.1 to", id="idle-timeout"
        ),
        pytest.param(
            f"{SERVE} --read-timeout 0", "--read-timeout must be a number of seconds from 0.1 to", id="read-timeout"
        ),
        pytest.param(
            f"{SERVE} --read-timeout 1e-300", "--read-timeout must be a number of seconds from 0.1", id="short"
        ),
        pytest.param(f"{SERVE} --read-timeout 1e300", "--read-timeout must be a number of seconds from 0.1", id="long"),
        pytest.param(f"{SERVE} --keep-days 1e-300", "from 0.0007 (a minute) to", id="keep-days-least"),
        pytest.param(f"{SERVE} --keep-days 1e300", "from 0.0007 (a minute) to", id="keep-days-most"),
        pytest.param(
            f"{SIDECAR} --drain-timeout 1e-300", "--drain-timeout must be a positive number", id="drain-least"
        ),
        pytest.param(f"{SIDECAR} --drain-limit 1e300", "--drain-limit must be a positive number", id="drain-most"),
        pytest.param(
            f"{SERVE} --policy p", "give --tls-ca, --tls-cert and --tls-key, or leave out --policy", id="policy"
        ),
        pytest.param(
            f"{SERVE} --max-site-streams 0", "--max-site-streams must be at least 1, not 0", id="max-site-streams"
        ),
        pytest.param(f"{SERVE} --max-in-flight 0", "--max-in-flight must be at least 1, not 0", id="max-in-flight"),
        pytest.param(f"{SERVE} --keep-days 0", "--keep-days must be a positive number of days", id="keep-days"),
        pytest.param(f"{SERVE} --workers 0", "--workers must be a number from 1 to", id="workers"),
        pytest.param("logs max_runs/x --store .", "'max_runs/x'", id="a-run-called-as-a-field"),
        pytest.param("poc --seconds 0", "--seconds must be from 1 to 86400, not 0", id="poc-seconds"),
        pytest.param("poc --sites 0", "--sites must be from 1 to 200, not 0", id="poc-sites"),
        pytest.param("poc --bytes 0", "--bytes must be positive, not 0", id="poc-bytes"),
        pytest.param(
            f"{SERVE} --idle-timeout 5e6",
            "--idle-timeout must be a number of seconds from 0.1 to 4294967",
            id="idle-long",
        ),
        pytest.param("status --store . --interval nan", "'--interval': nan is not a finite number", id="interval"),
        pytest.param("view x --tail 9223372036854775808", "'--tail': 9223372036854775808 is more", id="tail"),
        pytest.param("view x --encoding undefined", "'undefined' is not an encoding of text", id="encoding"),
        pytest.param("view x --encoding \udcff", "Python has no encoding", id="encoding-no-text"),
        pytest.param("view x --zone a=UTC", "'a=UTC' names a site, and the files that view reads have none", id="site"),
        pytest.param(
            "view x --zone Mars/X",
            "'Mars/X' is not a time zone that this machine knows: give Europe/Berlin or +02:00\n",
            id="zone-of-view",
        ),
        pytest.param("streams --receiver x", "'x' is not an address: write HOST:PORT", id="receiver"),
        pytest.param("certs site --days 0 a", "a certificate cannot be valid for 0 days", id="days"),
        pytest.param("view x --since=-5m", "'-5m' is not a time", id="since-below-0"),
        pytest.param(
            "view x --since 2m --until 10m",
            "--since 2m is not before --until 10m, and no line is between",
            id="no-range",
        ),
    ],
)
def test_a_bad_option(command: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, command.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert not re.search(r"\b(?!max_runs)[a-z]+_[a-z]+", done.stderr), "the name of a field"


def test_the_log_level_may_stand_behind_the_command(tmp_path: Path) -> None:
    for command in ("runs", "certs list", "token list"):
        for level, code in (("warning", 3), ("loud", 2)):
            missing = f"--store {tmp_path}/none" if command != "certs list" else f"--dir {tmp_path}/none"
            done = CliRunner().invoke(main, [*command.split(), "--log-level", level, *missing.split()])
            assert "No such option" not in done.stderr
            assert (done.exit_code == 2) == (code == 2), done.stderr


def numbers(command: click.Command) -> Iterator[click.Parameter]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context := click.Context(command)):
            yield from numbers(command.get_command(context, name) or command)
    yield from (param for param in command.params if "integer" in param.type.name or "float" in param.type.name)


@together("number", ["nan", "inf", "-inf", "1e999", str(1 << 63), str(1 << 64), "9" * 30])
def test_no_command_takes_a_number_that_none_of_them_can_count_to(number: str) -> None:
    found = [*numbers(main)]
    assert len(found) > 40
    for param in found:
        if "integer" in param.type.name or not number.isdecimal():
            with pytest.raises(click.BadParameter):
                param.type.convert(number, param, None)


def test_a_view_reads_every_encoding_of_python_or_says_that_it_does_not(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"a\\ud800 +2AA- \xff\xfe\0\xd8\x1b$B~{\n" + bytes(range(256)))
    for name in sorted({*encodings.aliases.aliases.values(), "idna", "punycode", "undefined", "utf_8_sig", "utf_16"}):
        done = CliRunner().invoke(main, ["view", str(path), "--encoding", name])
        assert done.exit_code in (0, 1, 2), (name, done.exception)
        assert isinstance(done.exception, SystemExit | None), name
        assert done.exit_code == 0 or len(done.stderr.splitlines()) == 1, name
