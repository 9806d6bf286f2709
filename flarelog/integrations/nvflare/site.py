"""The component of a client's parent process, which sends the logs of each of its jobs."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import replace
from functools import partial

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ProcessType
from nvflare.apis.fl_context import FLContext

from flarelog.errors import InvalidName
from flarelog.exit_marks import Exit
from flarelog.integrations.nvflare import version as release
from flarelog.integrations.nvflare.cell import Passage, tell_server
from flarelog.integrations.nvflare.launcher import Launcher
from flarelog.integrations.nvflare.sending import DRAIN_TIMEOUT, Job, Sending, unsent_jobs
from flarelog.integrations.nvflare.told import harmless, job_name_of, job_of, workspace_of
from flarelog.integrations.nvflare.unsent import Unsent
from flarelog.integrations.producer import Producer
from flarelog.names import parse_address, receiver_ends
from flarelog.security.tls import Tls

log = logging.getLogger(__name__)

_STATE = "flarelog"  # directory in a site's workspace that lists the jobs with unsent logs


class FlarelogSite(Sending):
    """In a client's parent process: sends the logs of each job, from before its launch until its process has ended.

    *receiver*: ``HOST:PORT``, or several ends of one store as ``A:1,B:1``; default: the host of NVFlare's own server,
    port 4721. *files*: names or patterns of the files in a job's directory; default: NVFlare's four logs.
    *drain_timeout*: maximum seconds that the end of a job waits for its logs; with a reachable receiver it takes
    milliseconds. *tunnel*: send through NVFlare's own connection alone; only the host of *receiver* matters then, for
    its certificate.
    """

    def __init__(
        self,
        receiver: str = "",
        files: list[str] | None = None,
        drain_timeout: float = DRAIN_TIMEOUT,
        tunnel: bool = False,
    ) -> None:
        super().__init__(receiver, files, drain_timeout)
        self.tunnel = tunnel
        self._passage: Passage | None = None
        self._entrance = ""  # the tunnel's address
        self._lock = threading.Lock()  # jobs may begin at the same time, and share one tunnel
        self._jobs: dict[str, Job] = {}
        self._unsent: Unsent | None = None
        self._unwrapped = False  # log it once
        self.register_event_handler(EventType.SYSTEM_START, self._starting)
        self.register_event_handler(EventType.BEFORE_JOB_LAUNCH, self._launching)
        self.register_event_handler(EventType.JOB_COMPLETED, self._completed)
        self.register_event_handler(EventType.SYSTEM_END, self._leaving)

    @harmless
    def _starting(self, event: str, fl_ctx: FLContext) -> None:
        if fl_ctx.get_process_type() != ProcessType.CLIENT_PARENT or self._unsent is not None:
            return
        if not self._allowed(fl_ctx):
            return
        workspace = workspace_of(fl_ctx)
        (address, tls), site = self._target(fl_ctx), fl_ctx.get_identity_name()
        make = partial(self._producer, address, tls, site, heed=False)
        state = os.path.join(workspace.get_root_dir(), _STATE)
        self._unsent = unsent_jobs(state, workspace.get_log_root, self._source(), make)
        self._unsent.start()
        where = f"{address}, through NVFlare's own connection" if self.tunnel else address
        threading.Thread(
            target=self._say, args=(make(workspace.get_root_dir()), where), name="flarelog-hello", daemon=True
        ).start()

    def _say(self, producer: Producer, where: str) -> None:
        """Log, once and in one line, what is sent to which receiver, and whether the receiver answers."""
        try:
            with producer:
                trouble = producer.unreachable()
        except Exception as error:  # the tunnel calls NVFlare's own objects
            trouble = [f"{type(error).__name__}: {error}"]
        what = f"flarelog sends {', '.join(self._source())} of each job to {where}{release.untried(release.VERSION)}"
        if trouble:
            log.warning("%s, which does not answer yet: %s", what, "; ".join(trouble))
        else:
            log.info("%s, which answers", what)

    @harmless
    def _launching(self, event: str, fl_ctx: FLContext) -> None:
        job = job_of(fl_ctx)
        if fl_ctx.get_process_type() != ProcessType.CLIENT_PARENT or not job:
            return
        if job in self._jobs and not self._jobs[job].ended:
            return
        if not self._allowed(fl_ctx):
            return
        address, tls = self._target(fl_ctx)
        root = workspace_of(fl_ctx).get_log_root(job)
        try:
            site, job_name = fl_ctx.get_identity_name(), job_name_of(fl_ctx)
            begun = Job(job, self._producer(address, tls, site, root, heed=False, job_name=job_name))
        except InvalidName as error:
            tell_server(fl_ctx.get_engine().get_cell(), job, [f"its logs are not sent: {error}"])
            raise
        self._jobs[job] = begun
        if self._unsent is not None:
            self._unsent.begins(job)
        launchers = fl_ctx.get_prop(FLContextKey.JOB_LAUNCHER)
        if isinstance(launchers, list) and len(launchers) == 1:
            launchers[0] = Launcher(launchers[0], partial(self._exited, job, begun))
        elif not self._unwrapped:
            self._unwrapped = True
            log.warning(
                "the job launcher is declared behind flarelog: a job's outcome does not wait"
                " for its logs, and late logs are filed beside the job; name flarelog's file"
                " in local/ so that it sorts last"
            )

    def _exited(self, name: str, job: Job, how: Exit | None) -> None:
        """Send the rest of *job*, whose process has ended."""
        if self._unsent is not None:
            self._unsent.exited(name, how)
        job.end(how)

    @harmless
    def _completed(self, event: str, fl_ctx: FLContext) -> None:
        name = job_of(fl_ctx)
        if job := self._jobs.pop(name, None):
            whole = job.end()
            if self._unsent is not None:
                self._unsent.ends(name, whole=whole)
            tell_server(fl_ctx.get_engine().get_cell(), name, job.troubles)

    @harmless
    def _leaving(self, event: str, fl_ctx: FLContext) -> None:
        if self._unsent is not None:
            self._unsent.stop()
        for job in [self._jobs.pop(name) for name in list(self._jobs)]:
            job.end()  # its process may go on: the next parent process sends the rest
        passage, self._passage = self._passage, None
        if passage is not None:
            passage.close()

    def _target(self, fl_ctx: FLContext) -> tuple[str, Tls | None]:
        address, tls = super()._target(fl_ctx)
        if not self.tunnel or tls is None:
            return address, tls
        with self._lock:
            if self._passage is None:
                self._passage = Passage(fl_ctx.get_engine().get_cell())
                self._entrance = self._passage.listen()
        return self._entrance, replace(tls, server_name=parse_address(receiver_ends(address)[0])[0])
