"""Components of one job, for users who cannot change the sites."""

from __future__ import annotations

import os
import shutil
import tempfile

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext

from flarelog.integrations.jobs import JobReceiver
from flarelog.integrations.nvflare.sending import DRAIN_TIMEOUT, JOB_PORT, Job, Sending
from flarelog.integrations.nvflare.told import (
    audit_into,
    calm,
    harmless,
    job_name_of,
    log_directory,
    server_tls,
    simulated,
)
from flarelog.lifecycle import Event


class FlarelogProducer(Sending):
    """A component of a job's clients: sends the job's logs until END_RUN. Declare it as the last one.

    Only FlarelogSite can send bytes that come after END_RUN, or from a process that was killed. The arguments are those
    of FlarelogSite; the default port is 4722, where FlarelogReceiver listens.
    """

    port = JOB_PORT

    def __init__(
        self, receiver: str = "", files: list[str] | None = None, drain_timeout: float = DRAIN_TIMEOUT
    ) -> None:
        super().__init__(receiver, files, drain_timeout)
        self._job: Job | None = None
        self.register_event_handler(EventType.START_RUN, self._starting)
        self.register_event_handler(EventType.END_RUN, self._ending)

    @harmless
    def _starting(self, event: str, fl_ctx: FLContext) -> None:
        if self._job is None and self._allowed(fl_ctx):
            address, tls = self._target(fl_ctx)
            name, root = fl_ctx.get_identity_name(), log_directory(fl_ctx)
            producer = self._producer(address, tls, name, root, heed=True, job_name=job_name_of(fl_ctx))
            self._job = Job(fl_ctx.get_job_id(), producer)

    @harmless
    def _ending(self, event: str, fl_ctx: FLContext) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.end()


class FlarelogReceiver(FLComponent):
    """A component of a job's server: receives the job's logs, as ``SITE/FILE`` in the job's directory there.

    The end of the job waits for the logs as long as NVFlare allows (end_run_readiness_timeout, 5 s). *listen*:
    ``HOST:PORT``; only one job at a time can have a port. *join_timeout*: maximum seconds that END_RUN waits.
    """

    def __init__(self, listen: str = "", join_timeout: float = DRAIN_TIMEOUT) -> None:
        super().__init__()
        self.listen = listen
        self.join_timeout = join_timeout
        self._receiver: JobReceiver | None = None
        self._store = ""
        for event in (EventType.ABOUT_TO_START_RUN, EventType.START_RUN):
            self.register_event_handler(event, self._starting)
        self.register_event_handler(EventType.CHECK_END_RUN_READINESS, self._ready)
        self.register_event_handler(EventType.END_RUN, self._ending)

    @harmless
    def _starting(self, event: str, fl_ctx: FLContext) -> None:
        calm()
        job = fl_ctx.get_job_id()
        if self._receiver is None:
            workspace, local = fl_ctx.get_workspace(), simulated(fl_ctx)
            audit_into(log_directory(fl_ctx))
            self._store = tempfile.mkdtemp(prefix="flarelog-")
            receiver = JobReceiver(
                self._store,
                os.path.dirname(workspace.get_run_dir(job)),
                listen=self.listen or f"{'127.0.0.1' if local else '0.0.0.0'}:{JOB_PORT}",  # noqa: S104  behind TLS
                tls=None if local else server_tls(workspace),
                durability="memory",  # the store ends with the process
                join_timeout=self.join_timeout,
            )
            try:
                receiver.start()
            except BaseException:
                shutil.rmtree(self._store, ignore_errors=True)
                raise
            self._receiver = receiver
        for implied in (Event.ABOUT_TO_START_RUN, Event.START_RUN):
            self._receiver.bus.publish(implied, job)

    @harmless
    def _ready(self, event: str, fl_ctx: FLContext) -> None:
        if self._receiver is not None and self._receiver.sending(fl_ctx.get_job_id()):
            fl_ctx.set_prop(FLContextKey.NOT_READY_TO_END_RUN, True, private=True, sticky=False)

    @harmless
    def _ending(self, event: str, fl_ctx: FLContext) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            if finished := receiver.finish(fl_ctx.get_job_id()):
                finished.result(2 * self.join_timeout)
            receiver.stop()
            shutil.rmtree(self._store, ignore_errors=True)
