"""Between NVFlare and a site's own job launcher: a job has ended when its logs have.

The client reports the outcome when the launched process has ended, and the server files the job's workspace when all
have reported: a report that waits for the logs, within the bound, makes that workspace complete.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobHandleSpec, JobLauncherSpec

log = logging.getLogger(__name__)

End = Callable[[], object]
"""Sends a job's logs to their end, within a bound; harmless when repeated."""


class Launcher(JobLauncherSpec):
    """The site's own launcher, whose jobs have ended when *end* has returned."""

    def __init__(self, inner: JobLauncherSpec, end: End) -> None:
        super().__init__()
        self._inner, self._end = inner, end

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> JobHandleSpec | None:
        try:
            handle = self._inner.launch_job(job_meta, fl_ctx)
        except BaseException:
            self._end()  # NVFlare says nothing more of this job
            raise
        if handle is None:  # NVFlare takes that for a failure
            self._end()
            return None
        return Handle(handle, self._end)


class Handle(JobHandleSpec):
    """The launcher's own handle."""

    def __init__(self, inner: JobHandleSpec, end: End) -> None:
        super().__init__()
        self._inner, self._end = inner, end
        self._over = False

    def wait(self) -> None:
        self._inner.wait()
        self._over = True
        try:
            self._end()
        except Exception as error:
            log.warning("the logs of a job were not sent completely (%s); the job itself is not affected", error)

    def poll(self) -> Any:
        return self._inner.poll()

    def terminate(self) -> None:
        if not self._over:  # else its number may be another process's by now
            self._inner.terminate()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
