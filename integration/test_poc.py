"""The proof of concept succeeds, and can fail."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from flarelog.poc.moments import MOMENTS
from flarelog.poc.options import OF_TLS, RATE
from flarelog.poc.writer import LOSS
from integration.harness import nats
from integration.harness.places import PATIENCE, until


def poc(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flarelog", "poc", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.soak  # make poc runs it
def test_by_default_three_sites_survive_a_late_receiver_and_rotation(tmp_path: Path) -> None:
    done = poc("--json", "--bytes", "1000000", "--keep", str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = rows(done)
    assert [row["site"] for row in found] == ["site-1", "site-2", "site-3"]
    for row in found:
        assert row["written"] == row["stored"] == 1000000
        assert row["written_sha256"] == row["stored_sha256"]
        assert (row["verdict"], row["receipt"], row["gaps"]) == ("ok", True, 0)
        assert int(str(row["misses"])) > 0, "the bootstrap race was not provoked"
        assert int(str(row["generations"])) == 6
    for talk in [*tmp_path.glob("sites/*/sidecar.log"), tmp_path / "receiver.log"]:
        assert not re.search("ERROR|Traceback|Exception", talk.read_text()), talk


@pytest.mark.soak  # CI runs it as a command of its own, with and without TLS
def test_every_fault_once_and_every_byte_is_stored_or_a_gap() -> None:
    done = poc("--fault", "all", "--sites", "2", "--bytes", "2000000", "--json")
    assert done.returncode == 0, done.stderr
    assert all(
        f" s  {fault}: " in done.stderr or f"{fault} is left out: " in done.stderr for fault in MOMENTS.keys() - OF_TLS
    )
    found = rows(done)
    assert not re.search("|".join(OF_TLS), done.stderr)
    assert all(int(str(row["reconnects"])) > 0 for row in found)
    assert [(row["lost"], row["gaps"]) for row in found] == [(LOSS, 1), (0, 0)]
    assert all(row["written"] == int(str(row["stored"])) + int(str(row["lost"])) for row in found)


@pytest.mark.soak  # CI runs it as a command of its own
def test_over_tls_certificates_change_on_the_way_and_intruders_are_refused(tmp_path: Path) -> None:
    done = poc("--tls", "--json", "--bytes", "1000000", "--sites", "2", "--keep", str(tmp_path))
    assert done.returncode == 0, done.stderr
    *sites, stranger, claimant = rows(done)
    for row in sites:
        # A site that was done when the certificates were replaced wrote some more afterwards.
        assert int(str(row["stored"])) >= 1000000
        assert (row["verdict"], row["gaps"]) == ("ok", 0)
        talk = (tmp_path / "sites" / str(row["site"]) / "sidecar.log").read_text()
        assert "the certificates have changed: new connections use" in talk
        assert not re.search("ERROR|Traceback", talk), talk
    assert "the certificates have changed: new connections use" in (tmp_path / "receiver.log").read_text()
    assert [(one["intruder"], one["stored"], one["verdict"]) for one in (stranger, claimant)] == [
        ("another CA's site-1", 0, "refused"),
        ("site-1 as site-2", 0, "refused"),
    ]
    assert "does not know the CA that signed" in str(stranger["answer"])
    assert "certificate 'site-1' is of site site-1" in str(claimant["answer"])


@pytest.mark.soak
def test_for_a_given_time_faults_come_again_and_again() -> None:
    done = poc("--fault", "all", "--sites", "2", "--seconds", "10", "--json")
    assert done.returncode == 0, done.stderr
    assert re.search(r"faults: restart-receiver \d+, ", done.stderr), done.stderr
    for row in rows(done):
        assert row["verdict"] == "ok"
        assert row["written"] == int(str(row["stored"])) + int(str(row["lost"]))
        assert int(str(row["written"])) >= 10 * RATE


def test_a_writer_that_has_written_everything_ends_when_nothing_more_can_be_ordered(tmp_path: Path) -> None:
    where = (str(tmp_path), str(tmp_path / "truth"), "--bytes", "1000", "--seconds", "0.001")
    (tmp_path / "rank-0").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "flarelog.poc.writer", *where], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        logs = (tmp_path / "log.txt", tmp_path / "rank-0" / "stderr.log")
        until(lambda: sum(log.stat().st_size for log in logs if log.exists()) == 1000, "all bytes are written")
        writer.communicate(b"rotate\n", timeout=PATIENCE)
    assert writer.returncode == 0


def test_without_cryptography_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "cryptography.py").write_text("raise ImportError")
    command = [sys.executable, "-m", "flarelog", "poc", "--tls"]
    path = f"{tmp_path}:{Path(__file__).parent.parent}"
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.splitlines()[-1].endswith("the cryptography package: pip install 'flarelog[tls]'")
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_what_a_fault_can_do_to_no_replayed_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_bytes(b"line\n" * 50_000)
    done = poc(
        "--logs", str(tmp_path), "--sites", "1", "--json", "--seconds", "1", "--fault", "truncate", "--fault", "remove"
    )
    assert done.returncode == 0, done.stderr
    for fault in ("truncate", "remove"):
        assert f"{fault} is left out: the replayed files are complete" in done.stderr


@pytest.mark.soak  # CI runs it as a command of its own
def test_over_a_shared_store_any_receiver_and_any_server_may_die() -> None:
    if nats.missing():
        pytest.skip(nats.missing())
    done = poc("--store", "nats", "--sites", "2", "--json")
    assert done.returncode == 0, done.stderr
    assert "3 nats-servers: " in done.stderr
    for row in rows(done):
        assert (row["verdict"], row["receipt"], row["gaps"]) == ("ok", True, 0)
        assert row["written"] == row["stored"]
        stalls = row["stalls"]
        assert isinstance(stalls, dict)
        assert {"kill-receiver", "kill-leader", "kill-server"} <= stalls.keys()
        assert "partition" in stalls or "partition is left out: " in done.stderr


def test_without_nats_server_and_go_it_says_what_to_install(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flarelog", "poc", "--store", "nats"]
    env = {**os.environ, "PATH": str(tmp_path), "FLARELOG_NATS_CACHE": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=env)
    assert (done.returncode, done.stdout) == (78, "")
    assert "and Go, which would build it, is missing: install one of them" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_changed_bit_in_the_store_fails_it() -> None:
    done = poc("--fault", "corrupt-store", "--sites", "2", "--seconds", "1")
    assert done.returncode == 1
    assert done.stdout.count("DIFFERS") == 1
    assert "the stored bytes differ from the written bytes" in done.stderr


@pytest.mark.soak  # tests/poc covers it without processes
def test_it_replays_logs_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "odd.log").write_bytes(b"a torn \xe2\x96 glyph\r\x00no end of line")
    (tmp_path / "train.log").write_bytes(b"line\n" * 50_000)
    done = poc("--logs", str(tmp_path), "--sites", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert {log["log"] for log in rows(done)[0]["logs"]} == {"deep/odd.log", "train.log"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        pytest.param(["--fault", "earthquake"], 2, "there is no fault 'earthquake'", id="unknown-fault"),
        pytest.param(["--fault", "intruders"], 2, "add --tls", id="intruders-without-tls"),
        pytest.param(["--fault", "partition"], 2, "add --store nats", id="a-partition-of-one-server"),
        pytest.param(["--sites", "0"], 2, "--sites must be", id="no-sites", marks=pytest.mark.soak),
        pytest.param(["--seconds", "0"], 2, "--seconds must be from 1", id="no-time", marks=pytest.mark.soak),
        pytest.param(["--logs", "/nowhere"], 2, "does not exist", id="no-logs", marks=pytest.mark.soak),
        pytest.param(["--keep", "/proc/nowhere"], 2, "cannot be used", id="unusable-keep"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], code: int, says: str) -> None:
    done = poc(*arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr
