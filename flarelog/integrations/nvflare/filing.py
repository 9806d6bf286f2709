"""Files late or partial logs beside the job's workspace as NVFlare filed it, under the names that NVFlare looks for."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import SystemComponents, WorkspaceConstants
from nvflare.apis.fl_context import FLContext
from nvflare.apis.storage import WORKSPACE, StorageException, StorageSpec

from flarelog.completeness import completeness
from flarelog.model import StreamInfo
from flarelog.records import stream_record

log = logging.getLogger(__name__)

_ERRORS = (WorkspaceConstants.ERROR_LOG_FILE_NAME, "log_error.txt")  # before 2.8


def file_logs(engine: Any, job: str, streams: Sequence[tuple[StreamInfo, Path]]) -> None:
    """File those of *streams*, with their bytes, that are incomplete in the filed workspace of *job*.

    NVFlare looks for a client's log as ``LOG_<file>_<client>``, and for error_log.txt as ``ERRORLOG_<client>``.
    ``LOG_<file>.partial_<client>`` records the state of a stream that is not complete. NVFlare 2.7 accepts only names
    that begin with ``ERRORLOG``: there the name is ``ERRORLOG_<file>_<client>``.
    """
    manager = engine.get_component(SystemComponents.JOB_MANAGER)
    with engine.new_context() as fl_ctx, tempfile.TemporaryDirectory(prefix="flarelog-") as place:
        filed = _filed(manager, job, place, fl_ctx)
        for info, path in streams:
            stream = info.stream
            _say_if_empty(info)
            lacks = completeness(info).sentence
            if not lacks and (info.committed, info.digest) in filed.get(f"{stream.site}/{stream.log}", ()):
                continue
            name = stream.log.replace("/", "_")
            kind = "ERRORLOG" if stream.log in _ERRORS else _taken(f"LOG_{name}")
            taken = os.path.join(place, "log")  # NVFlare moves it
            shutil.copyfile(path, taken) if info.committed else Path(taken).touch()
            os.truncate(taken, info.committed)
            manager.set_client_data(job, taken, stream.site, kind, fl_ctx)
            mark = _taken(f"LOG_{name}.partial")
            if lacks or f"{mark}_{stream.site}" in manager.list_components(job, fl_ctx):
                record = json.dumps({"partial": bool(lacks), **stream_record(info)}, indent=2).encode()
                manager.set_client_data(job, record, stream.site, mark, fl_ctx)
            log.info("%s: filed as %s_%s%s", stream, kind, stream.site, f"; {lacks}" if lacks else "")


def _taken(kind: str) -> str:
    """*kind* as the job's storage accepts it."""
    return kind if StorageSpec.is_valid_component(f"{kind}_") else f"ERROR{kind}"


def _say_if_empty(info: StreamInfo) -> None:
    if not info.committed and info.stream.log == WorkspaceConstants.LOG_FILE_NAME:
        log.warning("job %s: the %s from site %s is empty", info.stream.run, info.stream.name, info.stream.site)


def _filed(manager: Any, job: str, place: str, fl_ctx: FLContext) -> dict[str, list[tuple[int, int]]]:
    """The lengths and CRC-32s of the members of the filed workspace of *job*, by name."""
    found: dict[str, list[tuple[int, int]]] = {}
    try:
        manager.get_storage_for_download(job, place, WORKSPACE, "workspace.zip", fl_ctx)
        with zipfile.ZipFile(os.path.join(place, job, "workspace.zip")) as archive:
            for member in archive.infolist():
                found.setdefault(member.filename, []).append((member.file_size, member.CRC))
    except (OSError, zipfile.BadZipFile, StorageException):
        log.debug("job %s has no filed workspace", job)
    return found
