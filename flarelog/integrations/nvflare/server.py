"""The component of the server's parent process, which receives the logs of its jobs, and files them for NVFlare."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import replace
from functools import partial
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, ProcessType
from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace

from flarelog.delivery.quota import Limits
from flarelog.errors import FlarelogError
from flarelog.exit_marks import Exit
from flarelog.integrations.jobs import SERVER, JobReceiver
from flarelog.integrations.nvflare.cell import Passage
from flarelog.integrations.nvflare.filing import file_logs
from flarelog.integrations.nvflare.held import Held
from flarelog.integrations.nvflare.launcher import Launcher
from flarelog.integrations.nvflare.sending import DRAIN_TIMEOUT, FILES, PORT, Job, unsent_jobs
from flarelog.integrations.nvflare.studies import Studies
from flarelog.integrations.nvflare.told import (
    audit_into,
    calm,
    harmless,
    job_name_of,
    job_of,
    server_tls,
    site_allows,
    workspace_of,
)
from flarelog.integrations.nvflare.unsent import Unsent
from flarelog.integrations.producer import Producer
from flarelog.lifecycle import Event
from flarelog.names import parse_address
from flarelog.security.certificate import Presented
from flarelog.security.tls import Tls, readable
from flarelog.stores.base import Durability

log = logging.getLogger(__name__)

JOIN_TIMEOUT = 60.0  # seconds that the server waits for a job's logs before it files what has come
KEEP_DAYS = 30.0  # days without new bytes before a job leaves the server's store
_STORE = "flarelog"  # directory of the server's store, in its workspace
_NOT_OWN = ("*/**",)  # in a job's directory at the server: copies of the sites' logs
_OWN = "flarelog-own"  # directory in the server's workspace that lists its own job processes with unsent logs
_HELD = "flarelog-held"  # directory beside the jobs' directories with the unsent logs themselves


class FlarelogServer(FLComponent):
    """In the server's parent process: receives the logs of all sites' jobs, and puts them where NVFlare looks for them.

    During a job they are ``JOB/SITE/FILE`` in the server's workspace, and so in the workspace that NVFlare files at its
    end; later bytes are filed as ``LOG_FILE_SITE`` when they come.

    *listen*: ``HOST:PORT``. *store*: directory of flarelog's own store; default: ``flarelog`` in the workspace.
    *join_timeout*: seconds after the end of a job within which arriving logs still count as in time. *keep_days*: days
    without new bytes before a job leaves the store, and stays only where NVFlare filed it; None keeps all.
    *durability*: acknowledge bytes on ``disk``, or in the system's ``memory``, which survives the end of the process
    but not a power cut. *max_run_bytes*, *max_site_bytes*: limits for the logs of a job, and of one site in it; None:
    no limit. *max_site_rate*: bytes a second of one site; None: no limit.
    """

    def __init__(
        self,
        listen: str = f"0.0.0.0:{PORT}",
        store: str = "",
        join_timeout: float = JOIN_TIMEOUT,
        keep_days: float | None = KEEP_DAYS,
        durability: Durability = "disk",
        max_run_bytes: int | None = None,
        max_site_bytes: int | None = None,
        max_site_rate: int | None = None,
    ) -> None:
        super().__init__()
        self.listen = listen
        self.store = store
        self.join_timeout = join_timeout
        self.keep_days = keep_days
        self.durability = durability
        self.max_run_bytes = max_run_bytes
        self.max_site_bytes = max_site_bytes
        self.max_site_rate = max_site_rate
        self._receiver: JobReceiver | None = None
        self._passage: Passage | None = None
        self._engine: Any = None
        self._jobs: dict[str, Job] = {}  # jobs whose own logs are sent
        self._unsent: Unsent | None = None
        self._held: Held | None = None
        self._here: tuple[str, Tls | None] = "", None  # address and TLS of this receiver
        for event in (EventType.SYSTEM_BOOTSTRAP, EventType.SYSTEM_START):
            self.register_event_handler(event, self._starting)
        for event in (EventType.DEPLOY_JOB_TO_SERVER, EventType.JOB_DEPLOYED, EventType.BEFORE_JOB_LAUNCH):
            self.register_event_handler(event, self._announce)
        for event in (EventType.JOB_ABORTED, EventType.JOB_COMPLETED):
            self.register_event_handler(event, self._finish)
        self.register_event_handler(EventType.SYSTEM_END, self._leaving)

    @harmless
    def _starting(self, event: str, fl_ctx: FLContext) -> None:
        if self._receiver is not None or fl_ctx.get_process_type() != ProcessType.SERVER_PARENT:
            return
        calm()
        audit_into(workspace_of(fl_ctx).get_root_dir())
        self._engine = fl_ctx.get_engine()
        workspace, tls = workspace_of(fl_ctx), server_tls(workspace_of(fl_ctx))
        own = host_name = ""
        try:
            shown = Presented(readable(tls.cert)).identity()
            own, host_name = filter(None, (shown.common_name, *shown.dns_names[:1]))
        except (FlarelogError, ValueError) as error:
            log.warning(
                "the logs of the server's own job processes are not sent: %s names no server: %s", tls.cert, error
            )
        self._receiver = JobReceiver(
            self.store or os.path.join(workspace.get_root_dir(), _STORE),
            os.path.dirname(workspace.get_log_root("job")),
            listen=self.listen,
            tls=tls,
            allowed=partial(site_allows, self._engine),
            own=own,
            shows=Studies(self._engine).shows,
            keep=partial(file_logs, self._engine),
            keep_days=self.keep_days,
            durability=self.durability,
            limits=Limits(
                max_run_bytes=self.max_run_bytes,
                max_site_bytes=self.max_site_bytes,
                max_site_rate=self.max_site_rate,
            ),
            join_timeout=self.join_timeout,
        )
        try:
            self._receiver.start()
        except BaseException:
            self._receiver = None
            raise
        log.info("flarelog receives the logs of all jobs at %s", self._receiver.address)
        self._receiver.finish_left()
        host, port = parse_address(self._receiver.address)
        here = f"{'127.0.0.1' if host in ('0.0.0.0', '[::]') else host}:{port}"  # noqa: S104  compared
        self._passage = Passage(self._engine.get_cell(), here)
        self._here = here, replace(tls, server_name=host_name) if own else None
        if own:
            self._unsent = self._own_unsent(workspace)
            self._unsent.start()

    def _own_unsent(self, workspace: Workspace) -> Unsent:
        """The server's own logs of jobs that ended without a receipt, or whose parent process was killed."""
        held = self._held = Held(os.path.join(os.path.dirname(workspace.get_log_root("job")), _HELD))

        def place(job: str) -> str:
            return held.place(job) or str(workspace.get_log_root(job))

        state = os.path.join(workspace.get_root_dir(), _OWN)
        return unsent_jobs(state, place, FILES, self._own_producer, _NOT_OWN, held.release)

    @harmless
    def _announce(self, event: str, fl_ctx: FLContext) -> None:
        self._starting(event, fl_ctx)  # retry: the port may be free now
        job = job_of(fl_ctx)
        if self._receiver is not None and job:
            self._receiver.bus.publish(Event.ABOUT_TO_START_RUN, job)
            self._receiver.bus.publish(Event.START_RUN, job)
            if event == EventType.BEFORE_JOB_LAUNCH and self._here[1] is not None and job not in self._jobs:
                self._send_own(job, fl_ctx)

    def _send_own(self, job: str, fl_ctx: FLContext) -> None:
        """Send the logs of the server's own process of *job*, so that readers see them beside the sites'."""
        root = workspace_of(fl_ctx).get_log_root(job)
        own = self._jobs[job] = Job(job, self._own_producer(root, job_name_of(fl_ctx)))
        unsent, held = self._unsent, self._held
        if unsent is None or held is None:
            return
        unsent.begins(job)
        held.begin(job)

        def exited(how: Exit | None) -> None:
            unsent.exited(job, how)
            held.hold(job, root, FILES)
            own.end(how)

        launchers = fl_ctx.get_prop(FLContextKey.JOB_LAUNCHER)
        if isinstance(launchers, list) and len(launchers) == 1:
            launchers[0] = Launcher(launchers[0], exited)  # before NVFlare removes the job's directory

    def _own_producer(self, root: str, job_name: str = "") -> Producer:
        return Producer(
            self._here[0],
            SERVER,
            root,
            include=FILES,
            exclude=_NOT_OWN,
            tls=self._here[1],
            join_timeout=DRAIN_TIMEOUT,
            exit_timeout=DRAIN_TIMEOUT,
            heed=False,
            job_name=job_name,
        )

    def _own_ended(self, job: str, own: Job) -> None:
        whole = own.end()
        if self._unsent is not None:
            self._unsent.ends(job, whole=whole)

    @harmless
    def _finish(self, event: str, fl_ctx: FLContext) -> None:
        if self._receiver is not None and (job := job_of(fl_ctx)):
            if own := self._jobs.pop(job, None):
                threading.Thread(target=self._own_ended, args=(job, own), name="flarelog-own", daemon=True).start()
            self._receiver.finish(job)  # does not wait: this is NVFlare's only thread for all jobs

    @harmless
    def _leaving(self, event: str, fl_ctx: FLContext) -> None:
        passage, self._passage = self._passage, None
        if passage is not None:
            passage.close()
        if self._unsent is not None:
            self._unsent.stop()
        for own in [self._jobs.pop(name) for name in list(self._jobs)]:
            own.end()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.stop()
