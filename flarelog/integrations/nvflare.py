"""NVFlare 2.9: complete live logs of every job, without touching NVFlare's files.

FlarelogSite and FlarelogServer live in the parent processes, declared in ``local/flarelog__p_resources.json``; they see
every job, and outlive it. FlarelogProducer and FlarelogReceiver are components of one job, for people who cannot touch
the sites. All of them speak with the start-up kit's certificates. Whatever goes wrong with a log is a warning: no job
fails, and no site's log gets an ERROR, because of flarelog.
"""

from __future__ import annotations

import copy
import functools
import json
import logging
import os
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, ProcessType, SystemComponents, WorkspaceConstants
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobHandleSpec, JobLauncherSpec
from nvflare.apis.storage import WORKSPACE, StorageException
from nvflare.apis.workspace import Workspace
from nvflare.app_common.logging.constants import ALLOW_LOG_STREAMING_VAR, is_log_streaming_allowed

from flarelog.bus import Bus
from flarelog.errors import FlarelogError, InvalidOption
from flarelog.integrations._jobs import JobReceiver
from flarelog.integrations._nvflare_cell import Passage
from flarelog.integrations.embedded import Producer
from flarelog.lifecycle import Event
from flarelog.model import StreamInfo, parse_address, stream_record
from flarelog.tls import Tls

log = logging.getLogger(__name__)

PORT, JOB_PORT = 4721, 4722  # of the server's receiver, and of a job's
FILES = ("log.txt", "log.json", "error_log.txt", "log_fl.txt")
DRAIN_TIMEOUT = 10.0  # seconds that the end of a job waits for its logs at most
JOIN_TIMEOUT = 60.0  # seconds that the server waits for a job's logs before it files what there is

_SIMULATED = "simulate_job"  # what the simulator calls its one job
_STORE = "flarelog"  # directory of the server's store, in its workspace


# --- what all of them share


def _harmless(work: Callable[..., None]) -> Callable[..., None]:
    """Let nothing that *work* raises become NVFlare's: it would be an ERROR with a traceback."""

    @functools.wraps(work)
    def careful(self: FLComponent, event: str, fl_ctx: FLContext) -> None:
        try:
            work(self, event, fl_ctx)
        except FlarelogError as error:
            log.warning("%s; the job goes on", error)
        except Exception as error:  # also what NVFlare's own objects raise
            log.warning("%s failed at %s (%s: %s); the job goes on", self.name, event, type(error).__name__, error)

    return careful


class _Calm(logging.Handler):
    """What flarelog calls an error is a warning to the log of a site: its job is well."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno > logging.WARNING:
            record = copy.copy(record)
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
            record.exc_info, record.exc_text = None, None
        logging.getLogger().handle(record)


def _calm() -> None:
    logger = logging.getLogger("flarelog")
    if not any(isinstance(handler, _Calm) for handler in logger.handlers):
        logger.addHandler(_Calm())
        logger.propagate = False


def _job_of(fl_ctx: FLContext) -> str:
    """The job that an event in a parent process is about; empty when there is none."""
    for key in (FLContextKey.JOB_META, FLContextKey.EVENT_DATA):
        said = fl_ctx.get_prop(key)
        if isinstance(said, dict) and said.get("job_id"):
            return str(said["job_id"])
    return str(fl_ctx.get_prop(FLContextKey.CURRENT_JOB_ID) or fl_ctx.get_job_id() or "")


def _workspace_of(fl_ctx: FLContext) -> Workspace:
    """Raises InvalidOption."""
    workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
    root = fl_ctx.get_prop(FLContextKey.WORKSPACE_ROOT)
    if workspace is None and root:
        workspace = Workspace(root, fl_ctx.get_identity_name(default=""))
    if workspace is None:
        workspace = fl_ctx.get_workspace()
    if workspace is None:
        raise InvalidOption("NVFlare does not tell where its workspace is")
    return workspace


def _simulated(fl_ctx: FLContext) -> bool:
    """Whether this is the simulator, which has no start-up kits; its server does not say so itself."""
    return bool(fl_ctx.get_prop(FLContextKey.SIMULATE_MODE, False)) or fl_ctx.get_job_id() == _SIMULATED


def _startup(path: str) -> dict[str, Any]:
    """What NVFlare's own file *path* in the start-up kit says. Raises InvalidOption."""
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
    except (OSError, ValueError) as error:
        raise InvalidOption(f"the start-up kit's {path} cannot be read: {error}") from error
    return said if isinstance(said, dict) else {}


def _tls(workspace: Workspace, said: dict[str, Any], end: str) -> Tls:
    """The start-up kit's certificates. Raises InvalidOption."""
    kit = workspace.get_startup_kit_dir()
    names = (("ssl_root_cert", "rootCA.pem"), ("ssl_cert", f"{end}.crt"), ("ssl_private_key", f"{end}.key"))
    return Tls(*(os.path.join(kit, said.get(key) or usual) for key, usual in names))


def _server_host(said: dict[str, Any]) -> str:
    """The host that NVFlare's client connects to. Raises InvalidOption."""
    for server in said.get("servers") or ():
        if target := (server.get("service") or {}).get("target"):
            return parse_address(target)[0]
    raise InvalidOption("the start-up kit does not name the server: give the component the argument receiver")


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

    def _begin(self, fl_ctx: FLContext, job: str, root: str) -> _Job | None:
        """Send the logs under *root*; None when this site does not allow it. Raises FlarelogError."""
        _calm()
        if not is_log_streaming_allowed(fl_ctx):
            if not self._told:
                log.warning("%s is false at this site: flarelog sends no logs", ALLOW_LOG_STREAMING_VAR)
            self._told = True
            return None
        return _Job(job, self._producer(fl_ctx, root))

    def _producer(self, fl_ctx: FLContext, root: str) -> Producer:
        address, tls = self._target(fl_ctx)
        return Producer(
            address,
            fl_ctx.get_identity_name(),
            root,
            include=FILES if self.files is None else self.files,
            bus=Bus(),
            tls=tls,
            join_timeout=self.drain_timeout,
            exit_timeout=self.drain_timeout,
        )

    def _target(self, fl_ctx: FLContext) -> tuple[str, Tls | None]:
        """The receiver's address, and with what it is spoken to. Raises InvalidOption."""
        if _simulated(fl_ctx):
            return self.receiver or f"127.0.0.1:{self.port}", None
        workspace = _workspace_of(fl_ctx)
        said = _startup(workspace.get_client_startup_file_path())
        tls = _tls(workspace, said.get("client") or {}, "client")
        return self.receiver or f"{_server_host(said)}:{self.port}", tls


class _Job:
    """The logs of one job on their way."""

    def __init__(self, job: str, producer: Producer) -> None:
        self._job = job
        self._producer = producer.start()
        self._producer.bus.publish(Event.START_RUN, job)
        self._lock = threading.Lock()
        self.ended = False

    def end(self) -> None:
        """Send what is there and wait for the receipts, within the bound; harmless when repeated."""
        with self._lock:
            if not self.ended:
                self.ended = True
                self._producer.bus.publish(Event.END_RUN, self._job)
                self._producer.stop()


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
        self.register_event_handler(EventType.BEFORE_JOB_LAUNCH, self._launching)
        self.register_event_handler(EventType.JOB_COMPLETED, self._completed)
        self.register_event_handler(EventType.SYSTEM_END, self._leaving)

    @_harmless
    def _launching(self, event: str, fl_ctx: FLContext) -> None:
        job = _job_of(fl_ctx)
        if fl_ctx.get_process_type() != ProcessType.CLIENT_PARENT or not job:
            return
        if job in self._jobs and not self._jobs[job].ended:
            return
        begun = self._begin(fl_ctx, job, _workspace_of(fl_ctx).get_log_root(job))
        if begun is None:
            return
        self._jobs[job] = begun
        # The client reports the outcome when the launched process has ended, and the server files the job's workspace
        # when all have reported: a report that waits for the logs, within the bound, makes that workspace complete.
        launchers = fl_ctx.get_prop(FLContextKey.JOB_LAUNCHER)
        if isinstance(launchers, list) and len(launchers) == 1:
            launchers[0] = _Launcher(launchers[0], begun)

    @_harmless
    def _completed(self, event: str, fl_ctx: FLContext) -> None:
        if job := self._jobs.pop(_job_of(fl_ctx), None):
            job.end()

    @_harmless
    def _leaving(self, event: str, fl_ctx: FLContext) -> None:
        for job in [self._jobs.pop(name) for name in list(self._jobs)]:
            job.end()
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


class _Launcher(JobLauncherSpec):
    """The site's own launcher, whose jobs have ended when their logs have."""

    def __init__(self, inner: JobLauncherSpec, job: _Job) -> None:
        super().__init__()
        self._inner, self._job = inner, job

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> JobHandleSpec | None:
        try:
            handle = self._inner.launch_job(job_meta, fl_ctx)
        except BaseException:
            self._job.end()  # NVFlare says nothing more of this job
            raise
        if handle is None:  # NVFlare takes that for a failure
            self._job.end()
            return None
        return _Handle(handle, self._job)


class _Handle(JobHandleSpec):
    """The launcher's own handle."""

    def __init__(self, inner: JobHandleSpec, job: _Job) -> None:
        super().__init__()
        self._inner, self._job = inner, job
        self._over = False

    def wait(self) -> None:
        self._inner.wait()
        self._over = True
        try:
            self._job.end()
        except Exception as error:
            log.warning("the logs of a job were not sent to their end (%s); the job is well", error)

    def poll(self) -> Any:
        return self._inner.poll()

    def terminate(self) -> None:
        if not self._over:  # else its number may be another process's by now
            self._inner.terminate()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class FlarelogServer(FLComponent):
    """In the server's parent process: receives the logs of all sites' jobs, and puts them where NVFlare looks for them.

    While a job runs they are ``JOB/SITE/FILE`` in the server's workspace, and so in the workspace that NVFlare files
    in the end; what did not come in time is filed as ``LOG_FILE_SITE`` when it comes.

    *listen*: ``HOST:PORT``. *store*: directory of flarelog's own store; unless given, ``flarelog`` in the workspace.
    *join_timeout*: seconds after the end of a job in which logs that are on their way still count as in time.
    """

    def __init__(self, listen: str = f"0.0.0.0:{PORT}", store: str = "", join_timeout: float = JOIN_TIMEOUT) -> None:
        super().__init__()
        self.listen = listen
        self.store = store
        self.join_timeout = join_timeout
        self._receiver: JobReceiver | None = None
        self._passage: Passage | None = None
        self._engine: Any = None
        for event in (EventType.SYSTEM_BOOTSTRAP, EventType.SYSTEM_START):
            self.register_event_handler(event, self._starting)
        for event in (EventType.DEPLOY_JOB_TO_SERVER, EventType.JOB_DEPLOYED, EventType.BEFORE_JOB_LAUNCH):
            self.register_event_handler(event, self._announce)
        for event in (EventType.JOB_ABORTED, EventType.JOB_COMPLETED):
            self.register_event_handler(event, self._finish)
        self.register_event_handler(EventType.SYSTEM_END, self._leaving)

    @_harmless
    def _starting(self, event: str, fl_ctx: FLContext) -> None:
        if self._receiver is not None or fl_ctx.get_process_type() != ProcessType.SERVER_PARENT:
            return
        self._engine = fl_ctx.get_engine()
        workspace = _workspace_of(fl_ctx)
        said = (_startup(workspace.get_server_startup_file_path()).get("servers") or [{}])[0]
        self._receiver = JobReceiver(
            self.store or os.path.join(workspace.get_root_dir(), _STORE),
            os.path.dirname(workspace.get_log_root("job")),
            listen=self.listen,
            tls=_tls(workspace, said, "server"),
            allowed=self._allows,
            keep=self._keep,
            join_timeout=self.join_timeout,
        )
        try:
            self._receiver.start()
        except BaseException:
            self._receiver = None
            raise
        log.info("flarelog receives the logs of all jobs at %s", self._receiver.address)
        host, port = parse_address(self._receiver.address)
        here = f"{'127.0.0.1' if host in ('0.0.0.0', '[::]') else host}:{port}"  # noqa: S104  compared
        self._passage = Passage(self._engine.get_cell(), here)

    @_harmless
    def _announce(self, event: str, fl_ctx: FLContext) -> None:
        self._starting(event, fl_ctx)  # perhaps the port is free now
        job = _job_of(fl_ctx)
        if self._receiver is not None and job:
            self._receiver.bus.publish(Event.ABOUT_TO_START_RUN, job)
            self._receiver.bus.publish(Event.START_RUN, job)

    @_harmless
    def _finish(self, event: str, fl_ctx: FLContext) -> None:
        if self._receiver is not None and (job := _job_of(fl_ctx)):
            self._receiver.finish(job)  # nobody waits for it: NVFlare's one thread for all jobs is here

    @_harmless
    def _leaving(self, event: str, fl_ctx: FLContext) -> None:
        passage, self._passage = self._passage, None
        if passage is not None:
            passage.close()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.stop()

    def _allows(self, site: str) -> bool:
        client = self._engine.get_client_from_name(site)
        return client is None or bool((client.get_site_config() or {}).get(ALLOW_LOG_STREAMING_VAR, True))

    def _keep(self, job: str, streams: Sequence[tuple[StreamInfo, Path]]) -> None:
        """File what the job's workspace, as it was filed, does not hold."""
        manager = self._engine.get_component(SystemComponents.JOB_MANAGER)
        with self._engine.new_context() as fl_ctx, tempfile.TemporaryDirectory(prefix="flarelog-") as place:
            filed = _filed(manager, job, place, fl_ctx)
            for info, path in streams:
                stream = info.stream
                if info.sealed and (info.committed, info.digest) in filed.get(f"{stream.site}/{stream.log}", ()):
                    continue
                name = stream.log.replace("/", "_")
                kind = "ERRORLOG" if stream.log == WorkspaceConstants.ERROR_LOG_FILE_NAME else f"LOG_{name}"
                taken = os.path.join(place, "log")  # NVFlare moves it
                shutil.copyfile(path, taken) if info.committed else Path(taken).touch()
                os.truncate(taken, info.committed)
                manager.set_client_data(job, taken, stream.site, kind, fl_ctx)
                mark = f"LOG_{name}.partial"
                if not info.sealed or f"{mark}_{stream.site}" in manager.list_components(job, fl_ctx):
                    record = json.dumps({"partial": not info.sealed, **stream_record(info)}, indent=2).encode()
                    manager.set_client_data(job, record, stream.site, mark, fl_ctx)
                log.info("%s: filed as %s_%s%s", stream, kind, stream.site, "" if info.sealed else ", partial")


def _filed(manager: Any, job: str, place: str, fl_ctx: FLContext) -> dict[str, list[tuple[int, int]]]:
    """What the filed workspace of *job* holds: lengths and CRC-32s, by the last two parts and more of their names."""
    found: dict[str, list[tuple[int, int]]] = {}
    try:
        manager.get_storage_for_download(job, place, WORKSPACE, "workspace.zip", fl_ctx)
        with zipfile.ZipFile(os.path.join(place, job, "workspace.zip")) as archive:
            for member in archive.infolist():
                found.setdefault(member.filename, []).append((member.file_size, member.CRC))
    except (OSError, zipfile.BadZipFile, StorageException):
        log.debug("job %s has no filed workspace", job)
    return found


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

    @_harmless
    def _starting(self, event: str, fl_ctx: FLContext) -> None:
        if self._job is None:
            self._job = self._begin(fl_ctx, fl_ctx.get_job_id(), _log_directory(fl_ctx))

    @_harmless
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

    @_harmless
    def _starting(self, event: str, fl_ctx: FLContext) -> None:
        job = fl_ctx.get_job_id()
        if self._receiver is None:
            workspace, simulated = fl_ctx.get_workspace(), _simulated(fl_ctx)
            tls = None
            if not simulated:
                said = (_startup(workspace.get_server_startup_file_path()).get("servers") or [{}])[0]
                tls = _tls(workspace, said, "server")
            self._store = tempfile.mkdtemp(prefix="flarelog-")
            receiver = JobReceiver(
                self._store,
                os.path.dirname(workspace.get_run_dir(job)),
                listen=self.listen or f"{'127.0.0.1' if simulated else '0.0.0.0'}:{JOB_PORT}",  # noqa: S104  behind TLS
                tls=tls,
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

    @_harmless
    def _ready(self, event: str, fl_ctx: FLContext) -> None:
        if self._receiver is not None and self._receiver.sending(fl_ctx.get_job_id()):
            fl_ctx.set_prop(FLContextKey.NOT_READY_TO_END_RUN, True, private=True, sticky=False)

    @_harmless
    def _ending(self, event: str, fl_ctx: FLContext) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            if finished := receiver.finish(fl_ctx.get_job_id()):
                finished.result(2 * self.join_timeout)
            receiver.stop()
            shutil.rmtree(self._store, ignore_errors=True)


def _log_directory(fl_ctx: FLContext) -> str:
    """Where the process of a job writes its logs: NVFlare's own handlers know; the simulator's are nowhere else."""
    for handler in logging.root.handlers:
        if isinstance(handler, logging.FileHandler):
            return os.path.dirname(handler.baseFilename)
    return str(_workspace_of(fl_ctx).get_log_root(fl_ctx.get_job_id()))
