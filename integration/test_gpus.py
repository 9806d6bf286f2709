"""The GPUs of a site: NVIDIA's own binding, over a fake library (``harness/nvml.c``)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from integration.harness.places import Place, Program, Receiver, append, until

GIB = 1 << 30
LIBRARY = Path(__file__).with_name("harness") / "nvml.c"


class Gpus:
    """The fake library's answers, a row for each GPU: percent, bytes used, bytes in all, and the computing process."""

    def __init__(self, directory: Path) -> None:
        self._said = directory / "gpus"
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler: apt-get install gcc libc6-dev")
        built = directory / "libnvidia-ml.so.1"
        subprocess.run((compiler, "-shared", "-fPIC", "-o", built, LIBRARY), check=True)
        self.environment: dict[str, Any] = {"LD_LIBRARY_PATH": str(directory), "NVML_SAYS": str(self._said)}

    def say(self, *rows: tuple[object, ...]) -> None:
        beside = self._said.with_suffix(".new")
        beside.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
        os.replace(beside, self._said)


@pytest.fixture
def gpus(place: Place) -> Gpus:
    directory = place.directory / "driver"
    directory.mkdir()
    return Gpus(directory)


def told(receiver: Receiver, log: str = "app.log") -> dict[str, Any]:
    program = receiver.place.call("status", "run-1", "--receiver", receiver.address, "--quiet-after", "1", "-o", "json")
    assert program.ends() in (0, 3), program.talk()
    return next((record for record in program.records() if record["log"] == log), {})


def health(receiver: Receiver) -> dict[str, Any]:
    found: dict[str, Any] = told(receiver).get("health") or {}
    return found


def asks(sidecar: Program) -> list[int]:
    """The sidecar's processes that query the GPUs."""
    tasks = Path(f"/proc/{sidecar.process.pid}/task").glob("*/children")  # a thread starts them
    names = [name for task in tasks for name in task.read_text().split()]
    return [int(name) for name in names if "nvml" in Path(f"/proc/{name}/cmdline").read_text()]


def test_what_the_gpus_of_a_site_do_is_shown(place: Place, gpus: Gpus) -> None:
    gpus.say((97, 71 * GIB, 80 * GIB, 0), (3, 2 * GIB, 80 * GIB, 0), ("-", 0, 0, 0))
    receiver = place.serve()
    append(place.log, b"one\n")
    sidecar = place.sidecar(receiver, **gpus.environment)
    until(lambda: "gpus" in health(receiver), "its sidecar told of the GPUs")
    figures = {name: value for name, value in health(receiver).items() if name.startswith("gpu")}
    assert figures == {"gpus": 3, "gpu_use": 97, "gpu_least": 3, "gpu_memory": 71 * GIB, "gpu_memory_max": 80 * GIB}
    shown = place.call("status", "run-1", "--receiver", receiver.address, "--wide")
    assert re.search(r"GPUS +GPU USE +GPU MEMORY", shown.printed), shown.talk()
    assert re.search(r" 3 +3-97% +71\.0 of 80\.0 GiB ", shown.printed), shown.talk()
    (asking,) = asks(sidecar)
    assert sidecar.stop() == 0
    assert sidecar.complaints() == []
    until(lambda: not Path(f"/proc/{asking}").exists(), "the process that asked ended with it")


@pytest.mark.soak  # waits for a library that hangs
def test_a_library_that_hangs_costs_the_gpus_and_nothing_else(place: Place, gpus: Gpus) -> None:
    gpus.say()
    receiver = place.serve()
    append(place.log, b"one\n")
    sidecar = place.sidecar(receiver, **gpus.environment)
    receiver.gets(b"one\n")
    until(lambda: health(receiver).get("memory"), "the other figures are told")
    assert "gpus" not in health(receiver)
    until(lambda: not asks(sidecar), "it is given up")
    more = append(place.log, b"two\n")
    receiver.gets(b"one\n" + more)
    assert sidecar.stop() == 0
    assert sidecar.complaints() == []


@pytest.mark.soak  # processes are checked every 15 seconds
def test_who_computes_on_a_gpu_is_busy_without_a_core(place: Place, gpus: Gpus) -> None:
    """Two programs sleep, and a GPU computes for one of them."""
    receiver = place.serve()
    place.root.mkdir(exist_ok=True)
    running: list[subprocess.Popen[bytes]] = []
    try:
        for log in ("gpu.log", "idle.log"):
            with open(place.root / log, "wb") as file:
                command = (sys.executable, "-c", "import time; print(1, flush=True); time.sleep(600)")
                running.append(subprocess.Popen(command, stdout=file, start_new_session=True))
        gpus.say((88, GIB, 80 * GIB, running[0].pid))
        place.sidecar(receiver, **gpus.environment)
        until(lambda: told(receiver, "gpu.log").get("state") == "busy", "one computes", 90)
        busy = r"its 1 process uses \d% of a core and a GPU for 88 % of the time"
        assert re.fullmatch(busy, told(receiver, "gpu.log")["reason"])

        def idle() -> bool:
            return "its 1 process used less than 1 % of a core for" in told(receiver, "idle.log").get("reason", "")

        until(idle, "the GPU is the other's", 90)
        gpus.say((0, GIB, 80 * GIB, running[0].pid))
        nothing = "its 1 process used less than 1 % of a core, and no GPU, for"
        until(lambda: nothing in told(receiver, "gpu.log").get("reason", ""), "the GPU does nothing any more", 90)
    finally:
        for process in running:
            process.kill()
            process.wait()
