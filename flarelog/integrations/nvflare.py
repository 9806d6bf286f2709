"""NVFlare 2.7 to 2.9: complete live logs of every job, without touching NVFlare's files.

FlarelogSite and FlarelogServer live in the parent processes, declared in ``local/flarelog__p_resources.json``; they see
every job, and outlive it. FlarelogProducer and FlarelogReceiver are components of one job, for people who cannot touch
the sites. All of them speak with the start-up kit's certificates. Whatever goes wrong with a log is a warning: no job
fails, and no site's log gets an ERROR, because of flarelog.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
from dataclasses import replace
from functools import partial
from typing import Any

import flarelog.integrations._nvflare_version as release  # isort: skip  # first: it refuses what cannot be imported
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, ProcessType
from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace

from flarelog.bus import Bus
from flarelog.certs import names_of
from flarelog.delivery.quota import Limits
from flarelog.errors import FlarelogError, InvalidName
from flarelog.integrations._jobs import SERVER, JobReceiver
from flarelog.integrations._nvflare_cell import Passage, tell_server
from flarelog.integrations._nvflare_filing import file_logs
from flarelog.integrations._nvflare_launcher import Launcher
from flarelog.integrations._nvflare_told import (
    ALLOWED,
    allows,
    calm,
    client_tls,
    harmless,
    job_of,
    log_directory,
    server_host,
    server_tls,
    simulated,
    site_allows,
    workspace_of,
)
from flarelog.integrations._nvflare_unsent import Sizes, Unsent
from flarelog.integrations.embedded import Producer
from flarelog.lifecycle import Event
from flarelog.model import parse_address
from flarelog.sidecar import Outcome
from flarelog.sources.patterns import SourceOptions
from flarelog.sources.sizes import sizes
from flarelog.stores.local import Durability
from flarelog.tls import Tls

log = logging.getLogger(__name__)

PORT, JOB_PORT = 4721, 4722  # of the server's receiver, and of a job's
# The last is what NVFlare 2.7 calls error_log.txt.
FILES = ("log.txt", "log.json", "error_log.txt", "log_fl.txt", "log_error.txt")
DRAIN_TIMEOUT = 10.0  # seconds that the end of a job waits for its logs at most
JOIN_TIMEOUT = 60.0  # seconds that the server waits for a job's logs before it files what there is
KEEP_DAYS = 30.0  # in which nothing came of a job, before it leaves the server's store
_STORE = "flarelog"  # directory of the server's store, in its workspace
_STATE = "flarelog"  # directory in a site's workspace, of the jobs whose logs are not known to be whole
_NOT_OWN = ("*/**",)  # in a job's directory at the server: the sites' logs are copied there
_OWN = "flarelog-own"  # the same in the server's workspace, of its own job processes


class _Sending(FLComponent):
    """A component that sends. Its arguments are kept as NVFlare's Job API looks for them, and nothing is begun before
    an event: it is also made on the machine that submits a job.
    """

    port = PORT

    def __init__(
        self, receiver: str = "", files: list[str] | None = None, drain_timeout: float = DRAIN_TIMEOUT
    ) -> None:
        super().__init__()
        self.receiver = receiver
        self.files = files
        self.drain_timeout = drain_timeout
        self._told = False

    def _allowed(self, fl_ctx: FLContext) -> bool:
        """Whether this site lets its logs be sent; that it does not is said once."""
        calm()
        if allows(fl_ctx):
            return True
        if not self._told:
            log.warning("%s is false at this site: flarelog sends no logs", ALLOWED)
        self._told = True
        return False

    def _source(self) -> tuple[str, ...]:
        return FILES if self.files is None else tuple(self.files)

    def _producer(self, address: str, tls: Tls | None, site: str, root: str, *, heed: bool) -> Producer:
        """What sends the logs under *root*. Raises FlarelogError."""
        return Producer(
            address,
            site,
            root,
            include=self._source(),
            bus=Bus(),
            tls=tls,
            join_timeout=self.drain_timeout,
            exit_timeout=self.drain_timeout,
            heed=heed,
        )

    def _target(self, fl_ctx: FLContext) -> tuple[str, Tls | None]:
        """The receiver's address, and with what it is spoken to. Raises InvalidOption."""
        if simulated(fl_ctx):
            return self.receiver or f"127.0.0.1:{self.port}", None
        workspace = workspace_of(fl_ctx)
        return self.receiver or f"{server_host(workspace)}:{self.port}", client_tls(workspace)


class _Job:
    """The logs of one job on their way."""

    def __init__(self, job: str, producer: Producer) -> None:
        self._job = job
        self._producer = producer.start()
        self._producer.bus.publish(Event.START_RUN, job)
        self._lock = threading.Lock()
        self._whole = False
        self.troubles: list[str] = []  # a sentence for each file that could not be sent
        self.ended = False

    def end(self) -> bool:
        """Send what is there and wait for the receipts, within the bound; whether all of them came. Harmless when
        repeated.
        """
        with self._lock:
            if not self.ended:
                self.ended = True
                self._producer.bus.publish(Event.END_RUN, self._job)
                self._producer.stop()
                outcomes = self._producer.outcomes.get(self._job, [])
                self._whole = served(outcomes)
                self.troubles = [sentence for outcome in outcomes for sentence in outcome.troubles]
            return self._whole


def served(outcomes: list[Outcome]) -> bool:
    """Whether all streams have their receipts; a file that cannot be sent at all is no reason to try again."""
    return bool(outcomes) and not any(
        outcome.error or any(stream.error for stream in outcome.streams) for outcome in outcomes
    )


# --- in the parent processes


class FlarelogSite(_Sending):
    """In a client's parent process: sends the logs of each job, from before its launch until its process has ended.

    *receiver*: ``HOST:PORT``; unless given, the host of NVFlare's own server and port 4721. *files*: names or patterns
    of the files in a job's directory; unless given, NVFlare's four logs. *drain_timeout*: seconds that the end of a
    job waits for its logs at most; where the receiver is there it is a matter of milliseconds. *tunnel*: send through
    NVFlare's own connection, and open no other; of *receiver* only the host counts then, for its certificate.
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
        self._entrance = ""  # address of the tunnel
        self._lock = threading.Lock()  # jobs may begin at the same time, and there is one tunnel
        self._jobs: dict[str, _Job] = {}
        self._unsent: Unsent | None = None
        self._unwrapped = False  # said once
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

        def look(job: str) -> Sizes | None:
            root = workspace.get_log_root(job)
            return sizes(SourceOptions(root, self._source())) if os.path.isdir(root) else None

        def send(job: str) -> bool:
            with make(workspace.get_log_root(job)) as producer:
                return served(producer.send_rest(job))

        self._unsent = Unsent(os.path.join(workspace.get_root_dir(), _STATE), look, send)
        self._unsent.start()
        where = f"{address}, through NVFlare's own connection" if self.tunnel else address
        threading.Thread(
            target=self._say, args=(make(workspace.get_root_dir()), where), name="flarelog-hello", daemon=True
        ).start()

    def _say(self, producer: Producer, where: str) -> None:
        """Tell, once and in one line, what is sent where, and whether somebody answers there."""
        try:
            with producer:
                trouble = producer.unreachable()
        except Exception as error:  # NVFlare's own objects are asked for the tunnel
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
            begun = _Job(job, self._producer(address, tls, fl_ctx.get_identity_name(), root, heed=False))
        except InvalidName as error:
            tell_server(fl_ctx.get_engine().get_cell(), job, [f"none of its logs is sent: {error}"])
            raise
        self._jobs[job] = begun
        if self._unsent is not None:
            self._unsent.begins(job)
        launchers = fl_ctx.get_prop(FLContextKey.JOB_LAUNCHER)
        if isinstance(launchers, list) and len(launchers) == 1:
            launchers[0] = Launcher(launchers[0], begun.end)
        elif not self._unwrapped:
            self._unwrapped = True
            log.warning(
                "the job launcher is declared behind flarelog: a job's outcome does not wait for its logs, so that what"
                " comes late is filed beside the job; let flarelog's file in local/ be the last by name"
            )

    @harmless
    def _completed(self, event: str, fl_ctx: FLContext) -> None:
        name = job_of(fl_ctx)
        if job := self._jobs.pop(name, None):
            whole = job.end()
            tell_server(fl_ctx.get_engine().get_cell(), name, job.troubles)
            if self._unsent is not None:
                self._unsent.ends(name, whole=whole)

    @harmless
    def _leaving(self, event: str, fl_ctx: FLContext) -> None:
        if self._unsent is not None:
            self._unsent.stop()
        for job in [self._jobs.pop(name) for name in list(self._jobs)]:
            job.end()  # its process may go on: the next parent process looks once more
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
        return self._entrance, replace(tls, server_name=parse_address(address)[0])


class FlarelogServer(FLComponent):
    """In the server's parent process: receives the logs of all sites' jobs, and puts them where NVFlare looks for them.

    While a job runs they are ``JOB/SITE/FILE`` in the server's workspace, and so in the workspace that NVFlare files
    in the end; what did not come in time is filed as ``LOG_FILE_SITE`` when it comes.

    *listen*: ``HOST:PORT``. *store*: directory of flarelog's own store; unless given, ``flarelog`` in the workspace.
    *join_timeout*: seconds after the end of a job in which logs that are on their way still count as in time.
    *keep_days*: a job of which nothing has come for so many days leaves the store, and is only where NVFlare filed it;
    None keeps all. *durability*: whether what is acknowledged is on the ``disk``, or in the system's ``memory``, which
    survives the end of the process but not a power cut. *max_run_bytes*, *max_site_bytes*: what the logs of a job, and
    of one site in it, may take; None: no limit. *max_site_rate*: bytes a second of one site; None: no limit.
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
        self._jobs: dict[str, _Job] = {}  # whose own logs are sent
        self._unsent: Unsent | None = None
        self._here: tuple[str, Tls | None] = "", None  # where, and with what
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
        self._engine = fl_ctx.get_engine()
        workspace, tls = workspace_of(fl_ctx), server_tls(workspace_of(fl_ctx))
        own, host_name = "", ""
        try:
            own, host_name = names_of(tls.cert)
        except FlarelogError as error:
            log.warning("the logs of the server's own job processes are not sent: %s", error)
        self._receiver = JobReceiver(
            self.store or os.path.join(workspace.get_root_dir(), _STORE),
            os.path.dirname(workspace.get_log_root("job")),
            listen=self.listen,
            tls=tls,
            allowed=partial(site_allows, self._engine),
            own=own,
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
        """The server's own logs of jobs that were going on when an earlier parent process was killed."""

        def look(job: str) -> Sizes | None:
            root = workspace.get_log_root(job)  # NVFlare removes it when a job ends as it should
            return sizes(SourceOptions(root, FILES, _NOT_OWN)) if os.path.isdir(root) else None

        def send(job: str) -> bool:
            with self._own_producer(workspace.get_log_root(job)) as producer:
                return served(producer.send_rest(job))

        return Unsent(os.path.join(workspace.get_root_dir(), _OWN), look, send)

    @harmless
    def _announce(self, event: str, fl_ctx: FLContext) -> None:
        self._starting(event, fl_ctx)  # perhaps the port is free now
        job = job_of(fl_ctx)
        if self._receiver is not None and job:
            self._receiver.bus.publish(Event.ABOUT_TO_START_RUN, job)
            self._receiver.bus.publish(Event.START_RUN, job)
            if event == EventType.BEFORE_JOB_LAUNCH and self._here[1] is not None and job not in self._jobs:
                self._send_own(job, fl_ctx)

    def _send_own(self, job: str, fl_ctx: FLContext) -> None:
        """Send the logs of the server's own process of *job*, to be seen beside the sites'."""
        producer = self._own_producer(workspace_of(fl_ctx).get_log_root(job))
        own = self._jobs[job] = _Job(job, producer)
        if self._unsent is not None:
            self._unsent.begins(job)
        launchers = fl_ctx.get_prop(FLContextKey.JOB_LAUNCHER)
        if isinstance(launchers, list) and len(launchers) == 1:
            launchers[0] = Launcher(launchers[0], own.end)  # NVFlare removes the job's directory when it has ended

    def _own_producer(self, root: str) -> Producer:
        return Producer(
            self._here[0],
            SERVER,
            root,
            include=FILES,
            exclude=_NOT_OWN,
            bus=Bus(),
            tls=self._here[1],
            join_timeout=DRAIN_TIMEOUT,
            exit_timeout=DRAIN_TIMEOUT,
            heed=False,
        )

    def _own_ended(self, job: str, own: _Job) -> None:
        whole = own.end()
        if self._unsent is not None:
            self._unsent.ends(job, whole=whole)

    @harmless
    def _finish(self, event: str, fl_ctx: FLContext) -> None:
        if self._receiver is not None and (job := job_of(fl_ctx)):
            if own := self._jobs.pop(job, None):
                threading.Thread(target=self._own_ended, args=(job, own), name="flarelog-own", daemon=True).start()
            self._receiver.finish(job)  # nobody waits for it: NVFlare's one thread for all jobs is here

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


# --- in the processes of one job


class FlarelogProducer(_Sending):
    """A component of a job's clients: sends the job's logs until END_RUN. Declare it as the last one.

    What is written after END_RUN, or by a process that was killed, only FlarelogSite can send. The arguments are those
    of FlarelogSite; unless *receiver* is given, the port is 4722, where FlarelogReceiver listens.
    """

    port = JOB_PORT

    def __init__(
        self, receiver: str = "", files: list[str] | None = None, drain_timeout: float = DRAIN_TIMEOUT
    ) -> None:
        super().__init__(receiver, files, drain_timeout)
        self._job: _Job | None = None
        self.register_event_handler(EventType.START_RUN, self._starting)
        self.register_event_handler(EventType.END_RUN, self._ending)

    @harmless
    def _starting(self, event: str, fl_ctx: FLContext) -> None:
        if self._job is None and self._allowed(fl_ctx):
            address, tls = self._target(fl_ctx)
            name, root = fl_ctx.get_identity_name(), log_directory(fl_ctx)
            self._job = _Job(fl_ctx.get_job_id(), self._producer(address, tls, name, root, heed=True))

    @harmless
    def _ending(self, event: str, fl_ctx: FLContext) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.end()


class FlarelogReceiver(FLComponent):
    """A component of a job's server: receives the job's logs, as ``SITE/FILE`` in the job's directory there.

    The job's end waits for the logs, as long as NVFlare lets it (end_run_readiness_timeout, 5 s). *listen*:
    ``HOST:PORT``; only one job at a time can have a port. *join_timeout*: seconds that END_RUN waits at most.
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
        job = fl_ctx.get_job_id()
        if self._receiver is None:
            workspace, local = fl_ctx.get_workspace(), simulated(fl_ctx)
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
