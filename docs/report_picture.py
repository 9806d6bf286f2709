"""Make the picture of a report in README: ``make picture`` writes ``docs/report.svg``.

The events are real: a receiver and seven sidecars run, this program writes into their logs for most of a minute,
rotates one, truncates another while the receiver is down, kills the sidecar of a third, and a command.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from bench import processes

receiver = import_module("docs.picture").receiver
RUN = "job-7"
SITES = ("server", "berlin", "boston", "kyoto", "lyon", "oslo", "rome")
PICTURE = Path(__file__).with_name("report.svg")


def say(root: Path, site: str, text: str) -> None:
    clock = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
    with open(root / site / "log.txt", "ab", buffering=0) as file:
        file.write(f"{clock} - train - INFO - {text}\n".encode())


def play(root: Path, moments: dict[int, Callable[[], object]]) -> None:
    """Write logs for five rounds of nine seconds; *moments* has an action for some tenths of a second."""
    writing = [site for site in SITES if site != "server"]
    for tenth in range(450):
        number, within = divmod(tenth, 90)
        if within == 0:
            say(root, "server", f"Round {number} started.")
        for position, site in enumerate(writing):
            if 8 < within < 45 + 6 * position and tenth % (2 + position % 3) == 0:
                say(
                    root,
                    site,
                    f"round {number}: step {within}, loss {2.0 / (number + 1):.3f}" + " x" * 40 * (position % 3),
                )
            if within == 45 + 6 * position:
                say(root, "server", f"got result from client {site} for task: name=train, id=8a{number}{position}")
        if within == 88:
            say(root, "server", f"Round {number} finished.")
        if tenth in moments:
            moments[tenth]()
        time.sleep(0.1)


def main() -> None:
    with (
        processes.scratch(Path(tempfile.gettempdir())) as work,
        contextlib.ExitStack() as stack,
        contextlib.ExitStack() as serving,
    ):
        address, root, sidecars = serving.enter_context(receiver(work)), work / "sites", {}
        for site in SITES:
            (root / site).mkdir(parents=True)
            (root / site / "log.txt").touch()
            named = ("--receiver", address, "--run", RUN, "--site", site, "--root", root / site)
            sidecars[site] = stack.enter_context(
                processes.python("flarelog", "sidecar", *named, talk=work / f"{site}.err")
            )
        time.sleep(2)

        def rotate() -> None:
            os.rename(root / "boston/log.txt", root / "boston/log.txt.1")
            (root / "boston/log.txt").touch()

        def truncate() -> None:
            os.truncate(root / "kyoto/log.txt", 0)  # as a clean-up job does

        def kill() -> None:
            program = "import os, time; print('step 1', flush=True); time.sleep(1); os.kill(os.getpid(), 9)"
            command = [sys.executable, "-m", "flarelog", "run", "--receiver", address, "--run", RUN, "--site", "oslo"]
            subprocess.run([*command, "--spool", work / "spool", "--", sys.executable, "-c", program], check=False)

        play(
            root,
            {
                100: rotate,
                130: serving.close,
                165: truncate,
                190: lambda: serving.enter_context(receiver(work, address)),
                270: lambda: sidecars["rome"].send_signal(signal.SIGKILL),
                330: kill,
            },
        )
        for site, process in sidecars.items():
            if site != "rome":
                process.send_signal(signal.SIGTERM)
                process.wait(60)
        command = [sys.executable, "-m", "flarelog", "report", RUN, "--receiver", address, "-o", str(PICTURE)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
