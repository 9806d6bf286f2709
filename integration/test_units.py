"""The examples in docs/systemd: systemd accepts them, and they forbid nothing that flarelog does."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from integration.harness.places import FLARELOG, SITE, Place, append, lines
from tests.certificates import Authority

UNITS = sorted((Path(__file__).parent.parent / "docs" / "systemd").glob("*.service"))
FLARELOGS_OWN = "/usr/local/bin/flarelog"


@pytest.fixture
def analyze() -> str:
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("there is no systemd-analyze: install systemd")
    return found


def settings(unit: Path, name: str) -> list[str]:
    """The words of the setting *name*."""
    text = unit.read_text().replace("\\\n", " ")
    return [word for value in re.findall(rf"^{name}=(.*)$", text, re.MULTILINE) for word in shlex.split(value)]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_it(place: Place, analyze: str, unit: Path) -> None:
    copy = place.directory / unit.name.replace("@", "@run-1")
    for path in {copy, place.directory / unit.name}:  # an instance, and its template
        path.write_text(unit.read_text().replace(FLARELOGS_OWN, "/bin/true"))
    done = subprocess.run((analyze, "verify", "--man=no", str(copy)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_its_command_has_options_that_there_are(place: Place, unit: Path) -> None:
    own, *arguments = settings(unit, "ExecStart")
    assert own == FLARELOGS_OWN
    program = place.call(*arguments, "--help")
    assert program.ends() == 0, program.talk()


def test_they_forbid_no_call_and_no_address_that_both_processes_need(place: Place, analyze: str) -> None:
    traces = [place.directory / "serve.trace", place.directory / "sidecar.trace"]
    traced = [("strace", "-D", "-f", "-qq", "-o", str(trace)) for trace in traces]
    if shutil.which("strace") is None or subprocess.run((*traced[0], "true"), check=False).returncode:
        pytest.skip("there is no strace, or it may trace nothing: install it, and give it CAP_SYS_PTRACE")
    ca = Authority.new(place.directory / "certs")
    receiver = place.serve(*ca.issue("receiver", hosts=("localhost",)).arguments(), plain=(*traced[0], *FLARELOG))
    address = f"localhost:{receiver.address.rpartition(':')[2]}"
    data = append(place.log, lines(100))
    state = ("--state", str(place.directory / "state"))
    sidecar = place.sidecar(address, "--once", *state, *ca.issue(SITE).arguments(), plain=(*traced[1], *FLARELOG))
    assert sidecar.ends(60.0) == 0, sidecar.talk()
    assert receiver.stored() == data
    assert receiver.stop() == 0, receiver.program.talk()
    for unit, trace in zip(UNITS, traces, strict=True):
        text = trace.read_text(errors="replace")
        made = set(re.findall(r"^\d+ +(\w+)\(", text, re.MULTILINE))
        assert "socket" in made
        assert made - allowed(analyze, *settings(unit, "SystemCallFilter")) == set()
        families = set(re.findall(r" socket\((AF_\w+)", text))
        assert families <= set(settings(unit, "RestrictAddressFamilies"))


def allowed(analyze: str, *names: str) -> set[str]:
    """The system calls of those sets and of the sets within them."""
    found: set[str] = set()
    for name in names:
        shown = subprocess.run((analyze, "syscall-filter", name), capture_output=True, text=True, check=True).stdout
        words = [line.strip() for line in shown.splitlines()[1:] if not line.strip().startswith("#")]
        found |= {word for word in words if word and not word.startswith("@")}
        found |= allowed(analyze, *(word for word in words if word.startswith("@")))
    return found
