"""The common part of NVFlare's sending components: a site's consent, the receiver, and one job's logs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext

from flarelog.exit_marks import Exit
from flarelog.integrations.nvflare.told import ALLOWED, allows, calm, client_tls, server_host, simulated, workspace_of
from flarelog.integrations.nvflare.unsent import Sizes, Unsent
from flarelog.integrations.producer import Producer
from flarelog.lifecycle import Event
from flarelog.repeats import COPIES, ORIGINAL
from flarelog.security.tls import Tls
from flarelog.sender.outcome import Outcome
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.unmatched import sizes
from flarelog.sources.spool.series import of_spools

log = logging.getLogger(__name__)

PORT, JOB_PORT = 4721, 4722  # of the server's receiver, and of a job's
FILES = (ORIGINAL, *COPIES)
DRAIN_TIMEOUT = 10.0  # maximum seconds that the end of a job waits for its logs


class Sending(FLComponent):
    """A sending component. NVFlare's Job API reads its arguments from attributes of these names. It starts nothing
    before an event, because the machine that submits a job constructs it too.
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
        """Whether this site allows its logs to be sent; a refusal is logged once."""
        calm()
        if allows(fl_ctx):
            return True
        if not self._told:
            log.warning("%s is false at this site: flarelog sends no logs", ALLOWED)
        self._told = True
        return False

    def _source(self) -> tuple[str, ...]:
        return FILES if self.files is None else tuple(self.files)

    def _producer(
        self, address: str, tls: Tls | None, site: str, root: str, *, heed: bool, job_name: str = ""
    ) -> Producer:
        """The producer for the logs under *root*. Raises FlarelogError."""
        return Producer(
            address,
            site,
            root,
            include=self._source(),
            tls=tls,
            join_timeout=self.drain_timeout,
            exit_timeout=self.drain_timeout,
            heed=heed,
            job_name=job_name,
        )

    def _target(self, fl_ctx: FLContext) -> tuple[str, Tls | None]:
        """The receiver's address, and the TLS files for it. Raises InvalidOption."""
        if simulated(fl_ctx):
            return self.receiver or f"127.0.0.1:{self.port}", None
        workspace = workspace_of(fl_ctx)
        return self.receiver or f"{server_host(workspace)}:{self.port}", client_tls(workspace)


class Job:
    """The logs of one job while they are sent."""

    def __init__(self, job: str, producer: Producer) -> None:
        self._job = job
        self._producer = producer.start()
        self._producer.bus.publish(Event.START_RUN, job)
        self._lock = threading.Lock()
        self._whole = False
        self.troubles: list[str] = []  # a sentence for each file that could not be sent
        self.ended = False

    def end(self, how: Exit | None = None) -> bool:
        """Send the rest and wait for the receipts, within the bound; whether all of them came. Harmless when repeated.
        *how*: the end of the job's process, if known.
        """
        with self._lock:
            if not self.ended:
                self.ended = True
                if how is not None:
                    self._producer.exited(self._job, how)
                self._producer.bus.publish(Event.END_RUN, self._job)
                self._producer.stop()
                outcomes = self._producer.outcomes.get(self._job, [])
                self._whole = served(outcomes)
                self.troubles = [sentence for outcome in outcomes for sentence in outcome.troubles]
            return self._whole


def unsent_jobs(
    directory: str,
    root: Callable[[str], str],
    files: tuple[str, ...],
    producer: Callable[[str], Producer],
    exclude: tuple[str, ...] = (),
    forget: Callable[[str], object] = lambda job: None,
) -> Unsent:
    """The jobs recorded in *directory*: the *files* of each are in its *root*, and are sent by the *producer* for that
    root. *forget*: as for Unsent.
    """

    def look(job: str) -> Sizes | None:
        found = SourceOptions(root(job), files, exclude, series=of_spools())
        return sizes(found) if os.path.isdir(found.directory) else None

    def send(job: str, how: Exit | None) -> bool:
        with producer(root(job)) as one:
            return served(one.send_rest(job, how))

    return Unsent(directory, look, send, forget)


def served(outcomes: list[Outcome]) -> bool:
    """Whether all streams have their receipts; a file that can never be sent does not count, as a retry is no use."""
    return bool(outcomes) and all(
        outcome.error is None and outcome.lacks.receipt and not any(stream.error for stream in outcome.streams)
        for outcome in outcomes
    )
