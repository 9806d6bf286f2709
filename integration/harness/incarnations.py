"""One end of the streams that survives kills: each incarnation is a fork of this process.

This process has imported flarelog and started nothing of it: no loop, no channel, no thread. So a fork of it is as good
as a new process, at a tenth of its cost.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import flarelog.cli
import flarelog.cli.run_end
import flarelog.cli.run_start
import flarelog.cli.serve
import flarelog.cli.sidecar
from flarelog.stores.local import appender
from integration.harness.failpoints import Failpoints, Kill
from integration.harness.nursery import become

PATIENCE = 60.0  # seconds allowed for steps that take a fraction of one
COMPACT_AFTER = 8  # records; low, so that a play compacts a journal several times

Kills = Iterator[Kill | None]
NOBODY: Kills = iter(())


class End:
    """A sidecar or a receiver. *args* gives the next incarnation's command, *kills* the death of each."""

    def __init__(self, directory: Path, name: str, args: Callable[[], list[str]], kills: Kills = NOBODY) -> None:
        self.directory, self.name, self.args = directory, name, args
        self.pid = 0  # of the process; 0: there is none
        self.code: int | None = None  # the exit code, once the process has ended by itself
        self.incarnation = 0
        self.on_kill: Callable[[], None] = lambda: None
        self.killed: list[str] = []  # MOMENT SITE of each kill
        self.calls: list[str] = []  # the sites of all calls of the ended incarnations
        self._kills = kills
        self._kill = next(kills, None)

    def __str__(self) -> str:
        said = Path(f"{self._stem}.err")
        text = said.read_text(errors="replace")[-6000:] if said.exists() else ""
        state = "still there" if self.code is None else f"ended with {self.code}"
        return "\n".join(
            (f"--- {self.name}, incarnation {self.incarnation} [{state}], said:", text, *self._trace()[-20:])
        )

    @property
    def _stem(self) -> str:
        return str(self.directory / f"{self.name}.{self.incarnation}")

    @property
    def ready_file(self) -> Path:
        return Path(f"{self._stem}.ready")

    def _trace(self) -> list[str]:
        trace = Path(f"{self._stem}.trace")
        return trace.read_text().splitlines() if trace.exists() else []

    @property
    def pid_file(self) -> Path:
        """The file with the process's id, which exists while the process does."""
        return self.directory / f"{self.name}.pid"

    def start(self) -> None:
        """Start the next incarnation."""
        self.incarnation += 1
        self.code = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._live()
        self.pid_file.write_text(str(self.pid))

    def _live(self) -> None:
        """Run the incarnation in the child."""
        code = 70
        try:
            become(self.directory, f"{self._stem}.out", f"{self._stem}.err")
            appender.COMPACT_AFTER = COMPACT_AFTER
            Failpoints(self._kill, Path(f"{self._stem}.trace")).install()
            flarelog.cli.main(self.args(), prog_name="flarelog")
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    @property
    def is_doomed(self) -> bool:
        """Whether a kill is still due."""
        return self._kill is not None

    def tend(self) -> None:
        """Start the next incarnation if the present one was killed."""
        if self.has_died():
            self.start()

    def has_died(self) -> bool:
        """Whether the process was killed since the last call. A kill also calls ``on_kill``, which
        compares the bytes.
        """
        if not self.pid or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self.pid_file.unlink()  # before another process can get the id
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        code = os.waitstatus_to_exitcode(status)
        trace = self._trace()
        fired = trace.pop() if trace and trace[-1].startswith("killed ") else ""
        self.calls += trace
        if code >= 0:
            self.code = code
            self._later(trace)
            return False
        if fired:
            self.killed.append(fired.removeprefix("killed "))
            self._kill = next(self._kills, None)
        else:  # killed by the other end, or by a SIGTERM before its handler
            self._later(trace)
        self.on_kill()
        return True

    def _later(self, made: list[str]) -> None:
        """Move a kill that is still due forward by the calls that were *made*."""
        if self._kill is not None:
            count = sum(self._kill.site in ("", site) for site in made)
            self._kill = replace(self._kill, at=self._kill.at - count)

    def tell(self, number: int) -> None:
        if self.pid:
            os.kill(self.pid, number)

    def stops(self) -> None:
        """Wait until the process has ended or was killed."""
        deadline = time.monotonic() + PATIENCE
        while self.pid and not self.has_died():
            assert time.monotonic() < deadline, self
            time.sleep(0.004)
        assert self.code in (None, 0), self

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def said(self) -> str:
        """The output of all incarnations."""
        return "".join(path.read_text(errors="replace") for path in self.directory.glob(f"{self.name}.*.err"))

    def behaved(self) -> None:
        """Assert that no incarnation logged an error."""
        said = self.said()
        assert "Traceback" not in said, said
        assert " ERROR " not in said, said
