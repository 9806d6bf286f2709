"""Which jobs NVFlare shows an admin: those of the default study, and those of the studies that name him.

The admins of a study may change at any time, so that NVFlare's own registry is asked at each read. A job's study is in
its meta data, and never changes; whether NVFlare still has the job is asked again after a while. Releases before 2.8
have no studies, and show each admin all jobs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from nvflare.apis.fl_constant import SystemComponents

try:
    from nvflare.apis.job_def import DEFAULT_STUDY, get_job_meta_study
    from nvflare.security.study_registry import StudyRegistryService
except ImportError:  # before 2.8
    StudyRegistryService = None

log = logging.getLogger(__name__)

KNOWN = 20_000  # jobs whose study is remembered
ASK_AGAIN = 60.0  # seconds after which NVFlare is asked again whether it has a job


class Studies:
    """The studies of the jobs of NVFlare's server *engine*, for any thread. *clock* gives seconds."""

    def __init__(self, engine: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._clock = engine, clock
        self._studies = OrderedDict[str, tuple[str, float]]()  # by job, with the time of the answer
        self._lock = threading.Lock()

    def shows(self, admin: str, job: str) -> bool:
        """Whether NVFlare shows *admin*, by the common name of his kit, the job; no if it has no such job."""
        try:
            study = self._study(job)
            if study is None:
                return False
            if StudyRegistryService is None or study == DEFAULT_STUDY:
                return True
            registry = StudyRegistryService.get_registry()
            return bool(registry is not None and registry.has_study(study) and registry.has_user(admin, study))
        except Exception as error:  # also exceptions of NVFlare's own objects
            log.warning(
                "job %s: its study is unknown, and no admin reads it now: %s", job, error or type(error).__name__
            )
            return False

    def _study(self, job: str) -> str | None:
        """The study of *job*; None if NVFlare has no such job."""
        now = self._clock()
        with self._lock:
            if (known := self._studies.get(job)) is not None and now - known[1] < ASK_AGAIN:
                return known[0]
        manager = self._engine.get_component(SystemComponents.JOB_MANAGER)
        with self._engine.new_context() as fl_ctx:
            found = manager.get_job(job, fl_ctx)
        with self._lock:
            self._studies.pop(job, None)
        if found is None:
            return None
        study = "" if StudyRegistryService is None else str(get_job_meta_study(found.meta))
        with self._lock:
            self._studies[job] = study, now
            if len(self._studies) > KNOWN:
                self._studies.popitem(last=False)  # the oldest answer
        return study
