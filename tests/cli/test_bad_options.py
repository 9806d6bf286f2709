"""A bad option is named as on the command line, and ends the command with exit code 2."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from flarelog.cli import main

SIDECAR = "sidecar --receiver 127.0.0.1:1 --run r --site s --root ."
SERVE = "serve --store s --listen 127.0.0.1:0"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        pytest.param(
            f"{SIDECAR} --drain-limit 0", "--drain-limit must be a positive number of seconds, not 0", id="drain-limit"
        ),
        pytest.param(
            f"{SIDECAR} --drain-timeout nan", "--drain-timeout must be a positive number of", id="drain-timeout"
        ),
        pytest.param(f"{SIDECAR} --ignore-older -1", "--ignore-older must be a positive number of", id="ignore-older"),
        pytest.param(f"{SIDECAR} --include /x", "the pattern '/x' can match nothing", id="include"),
        pytest.param(
            f"{SIDECAR} --tls-cert x", "TLS needs --tls-ca, --tls-cert and --tls-key; missing: ca, key", id="tls"
        ),
        pytest.param(
            f"{SERVE} --idle-timeout 0", "--idle-timeout must be a number of seconds from 0.1 on", id="idle-timeout"
        ),
        pytest.param(
            f"{SERVE} --read-timeout 0", "--read-timeout must be a positive number of seconds", id="read-timeout"
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
        pytest.param("streams --receiver x", "'x' is no address; write HOST:PORT", id="receiver"),
        pytest.param("certs site --days 0 a", "a certificate of 0 days is not made", id="days"),
    ],
)
def test_a_bad_option(command: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, command.split())
    assert (done.exit_code, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert not re.search(r"\b(?!max_runs)[a-z]+_[a-z]+", done.stderr), "the name of a field"
