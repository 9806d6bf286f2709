"""A file that an option names is read, or refused with a reason; nothing waits for a FIFO."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from flarelog.cli import main
from flarelog.contents import contents

ASKS = "streams --receiver 127.0.0.1:1"
SERVES = "serve --store s --listen 127.0.0.1:0"


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert contents(path, 100)[1] == b"x" * 100
    assert contents(path, 50)[1] == b"x" * 51


def test_a_pipe_is_read_to_its_end() -> None:
    read, write = os.pipe()
    piece = b"y" * 40_000

    def write_twice() -> None:
        for _ in range(2):
            os.write(write, piece)
        os.close(write)

    writing = threading.Thread(target=write_twice)
    writing.start()
    assert contents(f"/dev/fd/{read}", 1 << 20)[1] == 2 * piece
    writing.join()
    os.close(read)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="without a writer"):
        contents(tmp_path / "pipe", 10)
    with pytest.raises(OSError, match="not a regular file"):
        contents(tmp_path / "pipe", 10, regular=True)
    with pytest.raises(OSError, match="not a regular file"):
        contents("/dev/zero", 10, regular=True)
    with pytest.raises(IsADirectoryError):
        contents(tmp_path, 10)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(f"{ASKS} --tls-ca pipe", id="tls-ca"),
        pytest.param(f"{ASKS} --token-file pipe", id="token-file"),
        pytest.param(f"{ASKS} --tls-ca pipe --tls-cert pipe --tls-key pipe", id="tls-cert"),
        pytest.param(f"{ASKS} --config pipe", id="config"),
        pytest.param(f"{SERVES} --tls-ca pipe --tls-cert pipe --tls-key pipe", id="serve-tls"),
        pytest.param(f"{SERVES} {{tls}} --policy pipe", id="policy"),
        pytest.param(f"{SERVES} {{tls}} --tls-crl pipe", id="tls-crl"),
    ],
)
def test_no_option_waits_at_a_pipe(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe", 0o600)
    assert CliRunner().invoke(main, ["certs", "init"]).exit_code == 0
    assert CliRunner().invoke(main, ["certs", "server", "127.0.0.1"]).exit_code == 0
    tls = "--tls-ca certs/ca.crt --tls-cert certs/server.crt --tls-key certs/server.key"
    done = CliRunner().invoke(main, command.format(tls=tls).split())
    assert done.exit_code == 78, done.output
    assert "pipe cannot be read: it is " in done.stderr
