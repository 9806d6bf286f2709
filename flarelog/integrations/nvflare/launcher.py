"""Wraps a site's own job launcher for NVFlare: a job ends only when its logs are sent.

The client reports the outcome when the launched process has ended, and the server files the job's workspace after all
reports: a report that waits for the logs, within the bound, makes that workspace complete.

The exit status is sent behind the logs if the launcher knows it; those of Docker and Kubernetes know only whether the
job succeeded.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobHandleSpec, JobLauncherSpec

from flarelog.exit_marks import Exit
from flarelog.integrations.watching import Watching

log = logging.getLogger(__name__)

End = Callable[[Exit | None], object]
"""Sends the rest of a job's logs, within a bound, and how its process ended if known; harmless when repeated."""


class Launcher(JobLauncherSpec):
    """The site's own launcher; a job of it ends when *end* has returned."""

    def __init__(self, inner: JobLauncherSpec, end: End) -> None:
        super().__init__()
        self._inner, self._end = inner, end

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> JobHandleSpec | None:
        watching = Watching()
        try:
            handle = self._inner.launch_job(job_meta, fl_ctx)
        except BaseException:
            watching.stop()
            self._end(None)  # NVFlare reports nothing more of this job
            raise
        if handle is None:  # NVFlare treats None as a failure
            watching.stop()
            self._end(None)
            return None
        return Handle(handle, self._end, watching)


class Handle(JobHandleSpec):
    """The handle of the site's own launcher."""

    def __init__(self, inner: JobHandleSpec, end: End, watching: Watching) -> None:
        super().__init__()
        self._inner, self._end, self._watching = inner, end, watching
        self._over = False

    def wait(self) -> None:
        self._inner.wait()
        self._over = True
        how = None
        with contextlib.suppress(Exception):  # another party's launcher may raise anything
            how = self._how()
        try:
            self._end(how)
        except Exception as error:
            log.warning("the logs of a job were not sent completely (%s); the job itself is not affected", error)

    def _how(self) -> Exit | None:
        """The exit status of the process; None if only NVFlare's verdict is known."""
        process: Any = getattr(self._inner, "adapter", None) or getattr(self._inner, "process", None)
        pid = getattr(process, "pid", None)
        code = process.poll() if isinstance(pid, int) else None
        if getattr(process, "process", process) is None and code == -1:
            code = None  # NVFlare's code for a process that another call has waited for, too
        if not isinstance(pid, int) or not isinstance(code, int):
            self._watching.stop()
            return None
        return self._watching.end(pid, code)

    def poll(self) -> Any:
        return self._inner.poll()

    def terminate(self) -> None:
        if not self._over:  # otherwise its pid may be another process's by now
            self._inner.terminate()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
