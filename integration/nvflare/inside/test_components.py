"""The components alone, with NVFlare's own contexts, events and storage, in this one process."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nvflare.apis.client import Client
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, ProcessType, SystemComponents
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.impl.job_def_manager import SimpleJobDefManager
from nvflare.apis.job_launcher_spec import JobHandleSpec, JobLauncherSpec
from nvflare.apis.server_engine_spec import ServerEngineSpec
from nvflare.apis.storage import StorageSpec
from nvflare.apis.utils.event import fire_event_to_components
from nvflare.apis.workspace import Workspace
from nvflare.app_common.storages.filesystem_storage import FilesystemStorage
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.utils import new_cell_message

import flarelog.integrations.nvflare.version as release
from flarelog import Bus, Event, Receiver
from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.delivery.quota import Limits
from flarelog.integrations.jobs import JobReceiver
from flarelog.integrations.nvflare import FlarelogProducer, FlarelogReceiver, FlarelogServer, FlarelogSite
from flarelog.integrations.nvflare.cell import _told, tell_server
from flarelog.integrations.nvflare.filing import file_logs
from flarelog.integrations.nvflare.studies import ASK_AGAIN, Studies
from flarelog.integrations.nvflare.told import AUDIT, audit_into, calm, site_allows
from flarelog.model import StreamId, StreamInfo
from integration.harness.places import free_address, until

try:
    from nvflare.security.study_registry import StudyRegistry, StudyRegistryService
except ImportError:  # NVFlare 2.7 has no studies
    StudyRegistry = StudyRegistryService = None

JOB = "simulate_job"
LOG = "LOG" if StorageSpec.is_valid_component("LOG_log.txt") else "ERRORLOG"  # as which NVFlare's storage takes a log


@pytest.fixture(autouse=True)
def logger() -> Iterator[None]:
    """Restore flarelog's own loggers afterwards."""
    yield
    for logger in map(logging.getLogger, ("flarelog", "flarelog.audit")):
        logger.handlers, logger.propagate = [], True
        logger.setLevel(logging.NOTSET)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A site's workspace, with a log of the root logger. A server beside it is not within it: what it stores would be
    logs of the site.
    """
    workspace = tmp_path / "site"
    for name in ("startup", "local"):
        (workspace / name).mkdir(parents=True)
    handler = logging.FileHandler(workspace / "log.txt")
    logging.root.handlers.insert(0, handler)  # before pytest's own file handler
    yield workspace
    logging.root.removeHandler(handler)
    handler.close()


class Engine(ServerEngineSpec):
    """The part of NVFlare's engine that the components use, over a workspace, clients and storage."""

    def __init__(self, *clients: Client, workspace: Workspace | None = None, storage: Path | None = None) -> None:
        self.workspace = workspace
        self.clients = {client.name: client for client in clients}
        self.contexts = FLContextManager(self)
        self.components: dict[str, Any] = {}
        if storage is not None:
            self.components["job_store"] = FilesystemStorage(str(storage))
            self.components[SystemComponents.JOB_MANAGER] = SimpleJobDefManager("/", "job_store")

    def get_workspace(self) -> Workspace | None:
        return self.workspace

    def get_client_from_name(self, name: str) -> Client | None:
        return self.clients.get(name)

    def get_component(self, name: str) -> Any:
        return self.components.get(name)

    def new_context(self) -> FLContext:
        return self.contexts.new_context()


Engine.__abstractmethods__ = frozenset()  # no component calls the other methods


def context(workspace: Path, props: dict[str, Any] | None = None, process: str = ProcessType.CLIENT_JOB) -> FLContext:
    engine = Engine(workspace=Workspace(str(workspace), "server" if process == ProcessType.SERVER_JOB else "site-1"))
    fl_ctx = FLContextManager(engine, identity_name="site-1", job_id=JOB).new_context()
    told = {FLContextKey.WORKSPACE_ROOT: str(workspace), FLContextKey.PROCESS_TYPE: process, **(props or {})}
    for name, value in told.items():
        fl_ctx.set_prop(name, value, private=True, sticky=False)
    return fl_ctx


def fire(component: FLComponent, event: str, fl_ctx: FLContext) -> FLContext:
    """Fire *event* as NVFlare does; no component may raise."""
    fire_event_to_components(event, [component], fl_ctx)
    assert not fl_ctx.get_prop(FLContextKey.EXCEPTIONS)
    return fl_ctx


def loops() -> int:
    return sum(thread.name == "flarelog-loop" for thread in threading.enumerate())


def allow(workspace: Path, allowed: bool) -> None:
    (workspace / "local" / "resources.json").write_text(json.dumps({"allow_log_streaming": allowed}))


# --- which events


@pytest.mark.parametrize(
    ("component", "events"),
    [
        (FlarelogProducer, {EventType.START_RUN, EventType.END_RUN}),
        (
            FlarelogReceiver,
            {
                *(EventType.ABOUT_TO_START_RUN, EventType.START_RUN),
                *(EventType.CHECK_END_RUN_READINESS, EventType.END_RUN),
            },
        ),
        (
            FlarelogSite,
            {
                *(EventType.SYSTEM_START, EventType.SYSTEM_END),
                *(EventType.BEFORE_JOB_LAUNCH, EventType.JOB_COMPLETED),
            },
        ),
        (
            FlarelogServer,
            {
                *(EventType.SYSTEM_BOOTSTRAP, EventType.SYSTEM_START, EventType.SYSTEM_END),
                *(EventType.DEPLOY_JOB_TO_SERVER, EventType.JOB_DEPLOYED, EventType.BEFORE_JOB_LAUNCH),
                *(EventType.JOB_ABORTED, EventType.JOB_COMPLETED),
            },
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_component_listens_from_the_beginning_and_begins_nothing(
    component: type[FLComponent], events: set[str]
) -> None:
    before = threading.active_count()
    assert set(component().get_event_handlers()) == events
    assert threading.active_count() == before


# --- a job's own components, end to end


def test_a_job_is_received_and_its_end_waits_for_its_logs(site: Path, tmp_path: Path) -> None:
    address = free_address()
    server = tmp_path / "server"
    for name in (JOB, "startup", "local"):
        (server / name).mkdir(parents=True)
    receiver, producer = FlarelogReceiver(listen=address), FlarelogProducer(receiver=address)

    def at_server() -> FLContext:
        return context(server, process=ProcessType.SERVER_JOB)

    for event in (EventType.ABOUT_TO_START_RUN, EventType.START_RUN, EventType.START_RUN):  # harmless if repeated
        fire(receiver, event, at_server())
    logging.root.warning("one")
    for _ in range(2):
        fire(producer, EventType.START_RUN, context(site))
    assert loops() == 1
    copy = server / JOB / "site-1" / "log.txt"
    until(lambda: copy.exists() and copy.read_bytes() == b"one\n", "it is live")
    assert fire(receiver, EventType.CHECK_END_RUN_READINESS, at_server()).get_prop(FLContextKey.NOT_READY_TO_END_RUN)
    fire(producer, EventType.END_RUN, context(site))
    ready = fire(receiver, EventType.CHECK_END_RUN_READINESS, at_server())
    assert not ready.get_prop(FLContextKey.NOT_READY_TO_END_RUN)
    for _ in range(2):
        fire(receiver, EventType.END_RUN, at_server())
    assert copy.read_bytes() == (site / "log.txt").read_bytes()
    assert loops() == 0


def test_the_audit_has_a_file_of_its_own_beside_nvflares_logs(site: Path, tmp_path: Path) -> None:
    audit = logging.getLogger("flarelog.audit")
    for _ in range(2):
        calm()
        audit_into(str(tmp_path))
    audit.info("allowed {}")
    audit.warning("refused {}")
    assert [line.split(" ", 1)[1] for line in (site / AUDIT).read_text().splitlines()] == [
        "INFO allowed {}",
        "WARNING refused {}",
    ]
    assert (site / "log.txt").read_text() == ""


def test_audit_lines_without_room_for_their_file_are_logged(site: Path, tmp_path: Path) -> None:
    (site / AUDIT).mkdir()
    calm()
    audit_into(str(tmp_path))
    logging.getLogger("flarelog.audit").warning("refused {}")
    assert (site / "log.txt").read_text().startswith("refused {}; ")


def test_a_site_that_does_not_allow_it_begins_nothing(site: Path) -> None:
    allow(site, False)
    producer = FlarelogProducer(receiver=free_address())
    for _ in range(2):
        fire(producer, EventType.START_RUN, context(site))
        fire(producer, EventType.END_RUN, context(site))
    assert loops() == 0
    assert (site / "log.txt").read_text() == "allow_log_streaming is false at this site: flarelog sends no logs\n"


# --- in a client's parent process


class Handle(JobHandleSpec):
    ended = 0

    def terminate(self) -> None: ...

    def poll(self) -> Any: ...

    def wait(self) -> None:
        self.ended += 1


class Launcher(JobLauncherSpec):
    def __init__(self, handle: JobHandleSpec | None) -> None:
        super().__init__()
        self.handle = handle

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> JobHandleSpec | None:
        return self.handle


def launch(component: FlarelogSite, site: Path, launcher: JobLauncherSpec) -> list[JobLauncherSpec]:
    """NVFlare's launchers of *job-1* after *component* got its event."""
    launchers: list[JobLauncherSpec] = [launcher]
    told: dict[str, Any] = {FLContextKey.JOB_META: {"job_id": "job-1"}, FLContextKey.JOB_LAUNCHER: launchers}
    told[FLContextKey.SIMULATE_MODE] = True  # there is no start-up kit
    fire(component, EventType.BEFORE_JOB_LAUNCH, context(site, told, ProcessType.CLIENT_PARENT))
    return launchers


@pytest.mark.parametrize("allowed", [False, True])
def test_the_jobs_own_configuration_is_never_touched(site: Path, allowed: bool) -> None:
    allow(site, allowed)
    config = site / "job-1" / "app_site-1" / "config" / "config_fed_client.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"components": [{"id": "p", "path": "flarelog.integrations.nvflare.FlarelogProducer"}]}')
    before, launcher = config.read_bytes(), Launcher(Handle())
    component = FlarelogSite(receiver=free_address(), drain_timeout=0.1)
    launchers = launch(component, site, launcher)
    assert config.read_bytes() == before
    assert (launchers == [launcher]) is not allowed  # no launcher is wrapped where nothing is sent
    fire(component, EventType.SYSTEM_END, context(site, process=ProcessType.CLIENT_PARENT))


@pytest.mark.parametrize("handle", [None, Handle()], ids=["not-launched", "launched"])
def test_a_job_has_ended_when_its_logs_have(site: Path, handle: Handle | None) -> None:
    component = FlarelogSite(receiver=free_address(), drain_timeout=0.1)
    (launcher,) = launch(component, site, Launcher(handle))
    assert loops() == 1
    launched = launcher.launch_job({}, context(site))
    if handle is None:
        assert launched is None
    else:
        assert launched is not None
        assert loops() == 1
        launched.wait()
        assert handle.ended == 1
    assert loops() == 0


class Adapter:
    """A process as a launcher of NVFlare 2.9 wraps it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.pid, self.poll = process, process.pid, process.poll


@pytest.mark.parametrize("held", ["process", "adapter"])  # before 2.9, and since 2.9
def test_a_process_that_is_killed_is_told_behind_its_logs(site: Path, tmp_path: Path, held: str) -> None:
    """The process and the receiver are real."""
    bus, store = Bus(), tmp_path / "store"
    with Receiver(str(store), bus=bus) as receiver:
        (site / "job-1").mkdir()
        component = FlarelogSite(receiver=receiver.address)
        bus.publish(Event.START_RUN, "job-1")
        process = subprocess.Popen(["sh", "-c", "echo one > job-1/log.txt; kill -9 $$"], cwd=site)
        handle = Handle()
        handle.wait = process.wait  # type: ignore[method-assign,assignment]
        setattr(handle, held, process if held == "process" else Adapter(process))
        (launcher,) = launch(component, site, Launcher(handle))
        launched = launcher.launch_job({}, context(site))
        assert launched is not None
        launched.wait()
    told = subprocess.run(
        [sys.executable, "-m", "flarelog", "streams", "--json", "--store", str(store)], capture_output=True, check=True
    )
    (record,) = map(json.loads, told.stdout.splitlines())
    assert [one["signal"] for one in record["exits"]] == [9]


def test_a_log_that_waited_at_a_limit_still_gets_its_exit_record(site: Path, tmp_path: Path) -> None:
    """The job ends, and its site's parent process too, before the limit is raised."""
    store, listen, bus = tmp_path / "store", free_address(), Bus()
    (site / "job-1").mkdir()
    with Receiver(str(store), listen=listen, bus=bus, limits=Limits(max_run_bytes=2)):
        bus.publish(Event.START_RUN, "job-1")
        component = FlarelogSite(receiver=listen, drain_timeout=1.0)
        told = {FLContextKey.SIMULATE_MODE: True}
        fire(component, EventType.SYSTEM_START, context(site, told, ProcessType.CLIENT_PARENT))
        process = subprocess.Popen(["sh", "-c", "seq 300000 > job-1/log.txt; kill -9 $$"], cwd=site)
        handle = Handle()
        handle.wait, handle.process = process.wait, process  # type: ignore[method-assign,assignment]
        (launcher,) = launch(component, site, Launcher(handle))
        launched = launcher.launch_job({}, context(site))
        assert launched is not None
        launched.wait()
        fire(component, EventType.SYSTEM_END, context(site, process=ProcessType.CLIENT_PARENT))

    def record() -> dict[str, Any]:
        said = subprocess.run(
            [sys.executable, "-m", "flarelog", "streams", "--json", "--store", str(store)],
            capture_output=True, check=True,
        )  # fmt: skip
        found: list[dict[str, Any]] = [json.loads(line) for line in said.stdout.splitlines()]
        return found[0] if found else {}

    assert not record().get("sealed")
    with Receiver(str(store), listen=listen, bus=bus):
        bus.publish(Event.START_RUN, "job-1")
        component = FlarelogSite(receiver=listen)
        fire(component, EventType.SYSTEM_START, context(site, told, ProcessType.CLIENT_PARENT))
        until(lambda: record().get("sealed"), "it is sent")
        fire(component, EventType.SYSTEM_END, context(site, process=ProcessType.CLIENT_PARENT))
    assert [one["signal"] for one in record()["exits"]] == [9]
    assert " ERROR " not in (site / "log.txt").read_text()


def test_at_the_server_nothing_is_sent(site: Path) -> None:
    component, launchers = FlarelogSite(receiver=free_address()), [Launcher(None)]
    told: dict[str, Any] = {FLContextKey.JOB_META: {"job_id": "job-1"}, FLContextKey.JOB_LAUNCHER: launchers}
    fire(component, EventType.BEFORE_JOB_LAUNCH, context(site, told, ProcessType.SERVER_PARENT))
    assert loops() == 0


def test_a_launcher_that_is_declared_later_is_said_once(site: Path) -> None:
    component = FlarelogSite(receiver=free_address(), drain_timeout=0.1)
    for job in ("job-1", "job-2"):
        told = {FLContextKey.JOB_META: {"job_id": job}, FLContextKey.SIMULATE_MODE: True}
        fire(component, EventType.BEFORE_JOB_LAUNCH, context(site, told, ProcessType.CLIENT_PARENT))
    fire(component, EventType.SYSTEM_END, context(site, process=ProcessType.CLIENT_PARENT))
    assert (site / "log.txt").read_text().count("the job launcher is declared behind flarelog") == 1


def test_what_an_earlier_parent_left_is_sent_when_the_next_one_starts(
    site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "flarelog")
    for job in ("job-1", "job-2", "never-begun"):
        (site / job).mkdir()
        (site / job / "log.txt").write_text(f"this is {job}\n")
    unsent = site / "flarelog"
    unsent.mkdir()
    for job in ("job-1", "job-2", "gone"):
        (unsent / job).touch()
    stored = tmp_path / "store"
    with JobReceiver(str(stored), tmp_path / "jobs", listen="127.0.0.1:0", tls=None) as receiver:
        for job in ("job-1", "job-2", "never-begun"):
            receiver.bus.publish(Event.START_RUN, job)
        component = FlarelogSite(receiver=receiver.address)
        told = {FLContextKey.SIMULATE_MODE: True}
        fire(component, EventType.SYSTEM_START, context(site, told, ProcessType.CLIENT_PARENT))
        for job in ("job-1", "job-2"):
            path = stored / job / "site-1" / "log.txt"
            until(path.exists, f"{job} is sent")
        until(lambda: not (unsent / "gone").exists(), "a job whose directory is gone is struck out")
        with open(site / "job-1" / "log.txt", "a") as file:  # the job's process outlives its parent by seconds
            file.write("the last line\n")
        until(lambda: (stored / "job-1/site-1/log.txt").read_text().endswith("the last line\n"), "it is sent too", 30.0)
        fire(component, EventType.SYSTEM_END, context(site, process=ProcessType.CLIENT_PARENT))
        assert not (stored / "never-begun" / "site-1").exists()
    said = (site / "log.txt").read_text()
    assert said.count("flarelog sends log.txt, log.json, error_log.txt, log_fl.txt, log_error.txt of each job to") == 1
    assert "which answers" in said


def test_a_receiver_that_does_not_answer_is_said_at_the_start(site: Path) -> None:
    component, told = FlarelogSite(receiver=free_address()), {FLContextKey.SIMULATE_MODE: True}
    fire(component, EventType.SYSTEM_START, context(site, told, ProcessType.CLIENT_PARENT))
    until(lambda: "which does not answer yet: no connection to" in (site / "log.txt").read_text(), "it is said", 20.0)
    fire(component, EventType.SYSTEM_END, context(site, process=ProcessType.CLIENT_PARENT))


@pytest.mark.parametrize(
    ("version", "refused", "untried"),
    [
        *(("2.6.3", True, False), ("2.7.1", True, False)),
        *(("2.7.2", False, False), ("2.9.5", False, False), ("2.9.0+12.gabc", False, False)),
        *(("2.10.0", False, True), ("3.0.0rc1", False, True)),
        *(("0+unknown", False, True), ("0+untagged.1.gf3b7c1b", False, True)),  # a checkout without tags
    ],
)
def test_a_release_that_is_too_old_is_refused_and_a_later_one_is_mentioned(
    version: str, refused: bool, untried: bool
) -> None:
    assert ("flarelog needs NVFlare 2.7.2 or later" in release.refusal(version)) is refused
    if not refused:
        assert (version in release.untried(version)) is untried


class Cell:
    """The messages from a site to the server."""

    def __init__(self) -> None:
        self.core_cell = self
        self.said: list[Any] = []

    def fire_and_forget(self, channel: str, topic: str, targets: str, message: Any, optional: bool) -> None:
        self.said.append(message.payload)


def test_what_a_site_cannot_name_is_told_at_the_server(caplog: pytest.LogCaptureFixture) -> None:
    cell = Cell()
    tell_server(cell, "job-1", [])
    tell_server(cell, "job-1", [f"a\x1b[2J{number} cannot be sent" for number in range(100)])
    (said,) = cell.said
    message = new_cell_message({MessageHeaderKey.ORIGIN: "site-1"}, said)
    _told(message)
    assert len(caplog.records) == 10
    assert caplog.records[0].getMessage() == r"site site-1, job job-1: a\x1b[2J0 cannot be sent"
    _told(new_cell_message({}, b"nonsense"))


# --- at the server


@pytest.mark.parametrize(
    ("config", "allowed"), [(None, True), ({}, True), ({"allow_log_streaming": False}, False)], ids=str
)
@pytest.mark.skipif(not hasattr(Client, "set_site_config"), reason="a site of NVFlare 2.7 cannot say it to the server")
def test_whether_a_site_allows_it(config: dict[str, Any] | None, allowed: bool) -> None:
    client = Client("site-1", "token")
    if config is not None:
        client.set_site_config(config)
    assert site_allows(Engine(client), "site-1") is allowed
    assert site_allows(Engine(client), "unknown")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """A server with two jobs of two studies, one of the default study, and one without a study."""
    store = FilesystemStorage(str(tmp_path / "jobs-storage"))
    for job, meta in {"a": {"study": "A"}, "b": {"study": "B"}, "d": {"study": "default"}, "n": {}}.items():
        store.create_object(f"/{job}", b"", {"job_id": job, **meta})
    return Engine(storage=tmp_path / "jobs-storage")


def studying(**admins: list[str]) -> None:
    """Let NVFlare's registry have the studies *admins*."""
    studies = {name: {"site_orgs": {}, "admins": users} for name, users in admins.items()}
    StudyRegistryService.initialize(StudyRegistry({"format_version": "1.0", "studies": studies}))


@pytest.fixture
def registry() -> Iterator[None]:
    if StudyRegistryService is None:
        pytest.skip("NVFlare 2.7 has no studies")
    yield
    StudyRegistryService.initialize(None)


def shown(studies: Studies, admin: str) -> str:
    return "".join(job for job in ("a", "b", "d", "n", "gone") if studies.shows(admin, job))


def test_an_admin_is_shown_the_jobs_of_his_studies_and_of_the_default_study(engine: Engine, registry: None) -> None:
    studies = Studies(engine)
    studying(A=["ann", "eve"], B=["bob", "eve"])
    assert [shown(studies, admin) for admin in ("ann", "bob", "eve", "x", "")] == ["adn", "bdn", "abdn", "dn", "dn"]
    studying(A=["bob"])  # the registry is asked at each read
    assert [shown(studies, admin) for admin in ("ann", "bob", "eve")] == ["dn", "adn", "dn"]
    StudyRegistryService.initialize(None)  # NVFlare without a registry lets nobody into a study
    assert shown(studies, "ann") == "dn"


@pytest.mark.skipif(StudyRegistryService is not None, reason="NVFlare has studies since 2.8")
def test_before_there_were_studies_each_admin_is_shown_each_job(engine: Engine) -> None:
    assert shown(Studies(engine), "ann") == "abdn"


def test_a_job_that_nvflare_has_no_longer_is_shown_to_nobody(engine: Engine, tmp_path: Path) -> None:
    now = 100.0
    studies = Studies(engine, lambda: now)
    assert studies.shows("ann", "d")
    shutil.rmtree(tmp_path / "jobs-storage" / "d")
    now += ASK_AGAIN
    assert not studies.shows("ann", "d")


def test_what_nvflare_cannot_say_is_no(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.components.clear()
    assert not Studies(engine).shows("ann", "d")
    assert "job d: its study is unknown, and no admin reads it now" in caplog.text


def stream(place: Path, log: str, data: bytes, *, sealed: bool = True) -> tuple[StreamInfo, Path]:
    path = place / log
    path.write_bytes(data)
    digest = extend(EMPTY_DIGEST, data)
    return StreamInfo(StreamId("job-1", "site-1", log), 0, len(data), digest, sealed, (), None), path


def filed(storage: Path) -> dict[str, bytes]:
    return {name: (storage / "job-1" / name).read_bytes() for name in os.listdir(storage / "job-1") if "LOG" in name}


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    place = tmp_path / "jobs-storage"
    FilesystemStorage(str(place)).create_object("/job-1", b"", {"job_id": "job-1"})
    return place


def test_what_is_late_is_filed_under_the_names_that_nvflare_looks_for(
    storage: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "flarelog")
    logs = {"log.txt": b"one\n", "error_log.txt": b"", "train.log": b"", "cut.log": b"half"}
    streams = [stream(tmp_path, log, data, sealed=log != "cut.log") for log, data in logs.items()]
    file_logs(Engine(storage=storage), "job-1", streams)
    partial = json.loads(filed(storage).pop(f"{LOG}_cut.log.partial_site-1"))
    assert partial["partial"] is True
    assert partial["committed"] == 4
    del (found := filed(storage))[f"{LOG}_cut.log.partial_site-1"]
    assert found == {
        f"{LOG}_log.txt_site-1": b"one\n",
        "ERRORLOG_site-1": b"",
        f"{LOG}_train.log_site-1": b"",
        f"{LOG}_cut.log_site-1": b"half",
    }
    said = [record.getMessage() for record in caplog.records]
    assert f"job-1/site-1/log.txt: filed as {LOG}_log.txt_site-1" in said
    lacks = "incomplete: it has no receipt, so its last bytes may be missing (they may still be at the site)"
    assert f"job-1/site-1/cut.log: filed as {LOG}_cut.log_site-1; {lacks}" in said


@pytest.mark.parametrize(("log", "warnings"), [("log.txt", 1), ("error_log.txt", 0)])
def test_an_empty_log_is_worth_a_warning_and_no_error_is_worth_none(
    storage: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, log: str, warnings: int
) -> None:
    file_logs(Engine(storage=storage), "job-1", [stream(tmp_path, log, b"")])
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warnings


def test_what_could_not_be_filed_is_not_said_to_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flarelog")
    engine = Engine(storage=tmp_path / "empty")  # a storage without that job
    with pytest.raises(Exception, match="job-1"):
        file_logs(engine, "job-1", [stream(tmp_path, "log.txt", b"one\n")])
    assert caplog.records == []
