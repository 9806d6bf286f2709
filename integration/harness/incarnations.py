"""One end of the streams that goes on whatever kills it: each incarnation is a fork of this process.

This process has imported flarelog and started nothing of it: no loop, no channel, no thread. So a fork of it is as
good as a new process, and costs a tenth of one.
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

PATIENCE = 60.0  # seconds that a thing may take which takes a fraction of one
COMPACT_AFTER = 8  # records, so that a journal is compacted several times in a play

Kills = Iterator[Kill | None]
NOBODY: Kills = iter(())


class End:
    """A sidecar or a receiver. *args* gives the next incarnation's command, *kills* what each of them dies of."""

    def __init__(self, directory: Path, name: str, args: Callable[[], list[str]], kills: Kills = NOBODY) -> None:
        self.directory, self.name, self.args = directory, name, args
        self.pid = 0  # of the process; 0: there is none
        self.code: int | None = None  # its exit code, once it has ended by itself
        self.incarnation = 0
        self.on_kill: Callable[[], None] = lambda: None
        self.killed: list[str] = []  # how and where
        self.calls: list[str] = []  # the sites of all calls of the incarnations that have ended
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
        """Holds the id of the process while there is one."""
        return self.directory / f"{self.name}.pid"

    def start(self) -> None:
        """The next incarnation begins."""
        self.incarnation += 1
        self.code = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._live()
        self.pid_file.write_text(str(self.pid))

    def _live(self) -> None:
        """What the child does."""
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
        """Whether a kill is still to come."""
        return self._kill is not None

    def tend(self) -> None:
        """Let the next incarnation take over from one that was killed."""
        if self.has_died():
            self.start()

    def has_died(self) -> bool:
        """Whether it was killed since it was last asked. What is to be compared then has been."""
        if not self.pid or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self.pid_file.unlink()  # before its id can be another's
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
        else:  # by the other end, or by a SIGTERM that it had not come so far as to mind
            self._later(trace)
        self.on_kill()
        return True

    def _later(self, made: list[str]) -> None:
        """A kill that has not come about yet: the calls that were *made* count."""
        if self._kill is not None:
            count = sum(self._kill.site in ("", site) for site in made)
            self._kill = replace(self._kill, at=self._kill.at - count)

    def tell(self, number: int) -> None:
        if self.pid:
            os.kill(self.pid, number)

    def stops(self) -> None:
        """Wait until it is gone, ended or killed."""
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
        """What all incarnations said."""
        return "".join(path.read_text(errors="replace") for path in self.directory.glob(f"{self.name}.*.err"))

    def behaved(self) -> None:
        """Assert that no incarnation complained."""
        said = self.said()
        assert "Traceback" not in said, self
        assert " ERROR " not in said, self
