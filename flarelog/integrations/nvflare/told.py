"""NVFlare's context as flarelog needs it: the job, its files, the server, the site's consent; and log messages."""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from typing import Any

from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, SystemConfigs
from nvflare.apis.fl_context import FLContext
from nvflare.apis.workspace import Workspace
from nvflare.fuel.utils.config_service import ConfigService

from flarelog.errors import FlarelogError, InvalidOption
from flarelog.names import parse_address
from flarelog.security.tls import Tls
from flarelog.talk import OneLine, one_line

log = logging.getLogger(__name__)

ALLOWED = "allow_log_streaming"  # in a site's resources.json
AUDIT, AUDIT_BYTES, AUDITS = "flarelog-audit.log", 20 << 20, 10  # file name; NVFlare's own bounds for a log
_SIMULATED = "simulate_job"  # the simulator's name for its one job


def harmless(work: Callable[..., None]) -> Callable[..., None]:
    """Log any exception of *work* as a warning: NVFlare would log it as an ERROR with a traceback."""

    @functools.wraps(work)
    def careful(self: FLComponent, event: str, fl_ctx: FLContext) -> None:
        try:
            work(self, event, fl_ctx)
        except FlarelogError as error:
            log.warning("%s; the job continues", error)
        except Exception as error:  # also exceptions of NVFlare's own objects
            log.warning("%s failed at %s (%s: %s); the job continues", self.name, event, type(error).__name__, error)

    return careful


class _Calm(logging.Handler):
    """Logs flarelog's errors as warnings, because the job is not affected."""

    def emit(self, record: logging.LogRecord) -> None:
        record = one_line(record)
        if record.levelno > logging.WARNING:
            record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
            record.exc_info, record.exc_text = None, None
        logging.getLogger().handle(record)


def calm() -> None:
    logger = logging.getLogger("flarelog")
    if not any(isinstance(handler, _Calm) for handler in logger.handlers):
        logger.addHandler(_Calm())
        logger.propagate = False


class _Audit(RotatingFileHandler):
    """The file of a receiver's audit. Lines that cannot be written there go to flarelog's own log."""

    def __init__(self, path: str) -> None:
        super().__init__(path, maxBytes=AUDIT_BYTES, backupCount=AUDITS, encoding="utf-8", delay=True)
        self.setFormatter(OneLine())

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's name
        log.log(record.levelno, "%s; %s cannot be written", record.getMessage(), self.baseFilename)


def audit_into(directory: str) -> None:
    """Write the audit of this process's receiver to a file beside NVFlare's logs, or to one in *directory* where
    NVFlare has none: it has a line for each decision, as many as all other messages of a server.
    """
    audit = logging.getLogger("flarelog.audit")
    path = os.path.abspath(os.path.join(_log_directory() or directory, AUDIT))
    audit.setLevel(logging.INFO)
    audit.propagate = False
    for handler in list(audit.handlers):
        if isinstance(handler, _Audit) and handler.baseFilename != path:
            audit.removeHandler(handler)
            handler.close()
    if not audit.handlers:
        audit.addHandler(_Audit(path))


def job_of(fl_ctx: FLContext) -> str:
    """The job that an event in a parent process is about; empty if there is none."""
    for key in (FLContextKey.JOB_META, FLContextKey.EVENT_DATA):
        said = fl_ctx.get_prop(key)
        if isinstance(said, dict) and said.get("job_id"):
            return str(said["job_id"])
    return str(fl_ctx.get_prop(FLContextKey.CURRENT_JOB_ID) or fl_ctx.get_job_id() or "")


def job_name_of(fl_ctx: FLContext) -> str:
    """The name of that job, which its author chose; empty if NVFlare does not give it."""
    meta = fl_ctx.get_prop(FLContextKey.JOB_META)
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""


def workspace_of(fl_ctx: FLContext) -> Workspace:
    """The workspace. Raises InvalidOption."""
    workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
    root = fl_ctx.get_prop(FLContextKey.WORKSPACE_ROOT)
    if workspace is None and root:
        workspace = Workspace(root, fl_ctx.get_identity_name(default=""))
    if workspace is None:
        workspace = fl_ctx.get_workspace()
    if workspace is None:
        raise InvalidOption("NVFlare gives no path of its workspace")
    return workspace


def log_directory(fl_ctx: FLContext) -> str:
    """The directory of a job process's logs, from NVFlare's own handlers: only they know the simulator's."""
    return _log_directory() or str(workspace_of(fl_ctx).get_log_root(fl_ctx.get_job_id()))


def _log_directory() -> str:
    """The directory of this process's log.txt; empty if NVFlare writes none."""
    files = (handler for handler in logging.root.handlers if isinstance(handler, logging.FileHandler))
    return next((os.path.dirname(handler.baseFilename) for handler in files), "")


def simulated(fl_ctx: FLContext) -> bool:
    """Whether this is the simulator, which has no start-up kits; its server does not say so itself."""
    return bool(fl_ctx.get_prop(FLContextKey.SIMULATE_MODE, False)) or fl_ctx.get_job_id() == _SIMULATED


def allows(fl_ctx: FLContext) -> bool:
    """At a site: whether it allows log streaming; the default is yes.

    NVFlare reads the file when a parent process starts; the simulator and releases before 2.8 do not.
    """
    said = ConfigService.get_bool_var(name=ALLOWED, conf=SystemConfigs.RESOURCES_CONF, default=None)
    if said is None:
        try:
            with open(workspace_of(fl_ctx).get_resources_file_path(), encoding="utf-8") as file:
                said = json.load(file).get(ALLOWED)
        except (AttributeError, OSError, TypeError, ValueError, FlarelogError):
            said = None
    return said is None or bool(said)


def site_allows(engine: Any, site: str) -> bool:
    """At the server: whether *site* allows log streaming; the default is yes, also because a release before 2.8 does
    not pass the setting on.
    """
    client = engine.get_client_from_name(site)
    config = client.get_site_config() if hasattr(client, "get_site_config") else None
    return bool((config or {}).get(ALLOWED, True))


# --- the start-up kit


def client_tls(workspace: Workspace) -> Tls:
    """The TLS files of a site, for its connections to the server. Raises InvalidOption."""
    return _tls(workspace, _read(workspace.get_client_startup_file_path()).get("client") or {}, "client")


def server_tls(workspace: Workspace) -> Tls:
    """The TLS files of the server. Raises InvalidOption."""
    return _tls(workspace, (_read(workspace.get_server_startup_file_path()).get("servers") or [{}])[0], "server")


def server_host(workspace: Workspace) -> str:
    """The host that NVFlare's client connects to. Raises InvalidOption."""
    said = _read(workspace.get_client_startup_file_path())
    for server in said.get("servers") or ():
        if target := (server.get("service") or {}).get("target"):
            return parse_address(target)[0]
    agent = (said.get("overseer_agent") or {}).get("args") or {}  # before 2.8: HOST:PORT:ADMIN-PORT
    if host := str(agent.get("sp_end_point", "")).rpartition(":")[0]:
        return parse_address(host)[0]
    raise InvalidOption("the start-up kit does not name the server: give the component the argument receiver")


def _read(path: str) -> dict[str, Any]:
    """The JSON object in NVFlare's file *path* of the start-up kit. Raises InvalidOption."""
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
    except (OSError, ValueError) as error:
        raise InvalidOption(f"the start-up kit's {path} cannot be read: {error}") from error
    return said if isinstance(said, dict) else {}


def _tls(workspace: Workspace, said: dict[str, Any], end: str) -> Tls:
    kit = workspace.get_startup_kit_dir()
    names = (("ssl_root_cert", "rootCA.pem"), ("ssl_cert", f"{end}.crt"), ("ssl_private_key", f"{end}.key"))
    return Tls(*(os.path.join(kit, said.get(key) or usual) for key, usual in names))
