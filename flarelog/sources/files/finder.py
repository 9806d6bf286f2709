"""The finder of the files under a root: it looks after each report, and at intervals in any case.

A failed look is reported once, and the next one may succeed: the sending continues.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from flarelog.exit_marks import Exit
from flarelog.model import Redaction, StreamInfo
from flarelog.names import beside, is_cut, log_of
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.lineage import originals
from flarelog.sources.files.openers import sees_all, written
from flarelog.sources.files.passing import STAYS
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.record import is_left
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.unmatched import files, sizes, unmatched
from flarelog.sources.files.watch import Change, Watch, best_watch
from flarelog.sources.files.writers import Writers
from flarelog.started import process_started_ns
from flarelog.text import legible
from flarelog.values import changed

log = logging.getLogger(__name__)

ROOT_POLL = 0.05  # seconds, while there is no root: its first log may be rotated before the next look
EARLIER = 60_000_000_000  # ns before the finder's birth: a process may be much older than the run that it sends
LOOK_SHARE = 0.01  # of one core for looks at all files; changes are reported without them


class Files:
    """A finder of the *wanted* files. *ranks*: detect the ranks that write them."""

    def __init__(
        self,
        wanted: SourceOptions,
        checkpoint: Checkpoint | None = None,
        *,
        ranks: bool = False,
        watch: Watch | None = None,
    ) -> None:
        began = max(process_started_ns(), time.time_ns() - EARLIER)
        openers = written if sees_all() else None
        self.discovery = Discovery(wanted, watch or best_watch(), openers=openers, began=began)
        self.discovery.stored.due = True
        self._wanted, self._checkpoint, self._ranks = wanted, checkpoint, ranks
        self._exit: Exit | None = None
        if checkpoint is not None:
            self.discovery.ledger.remembered.update(checkpoint.load())

    @property
    def logs(self) -> Mapping[str, Tail]:
        return self.discovery.tails

    @property
    def troubles(self) -> Collection[str]:
        return self.discovery.troubles.values()

    @property
    def missing(self) -> str:
        return f"the root {self._wanted.root}" if self.discovery.walk.root_missing and not self.logs else ""

    @property
    def waiting(self) -> int:
        return len(self.discovery.descriptors.waiting)

    async def watch(self, changed: Callable[[set[str]], float | None]) -> None:
        """Wait for changes under the root, and report the logs that may have changed."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._watch(changed))
            if self._ranks:
                both.create_task(self._ask_for_ranks(changed))

    async def _watch(self, changed: Callable[[set[str]], float | None]) -> None:
        discovery, watch = self.discovery, self.discovery.watch
        found: list[Change] | None = None
        looked, every = -math.inf, watch.slow_poll
        while True:
            now = time.monotonic()
            try:
                touched = discovery.apply(found or [], now) if found or discovery.passing else set()
                if found is None or now - looked >= every:
                    used = time.thread_time()
                    touched |= discovery.look(now)
                    looked, every = now, max(watch.slow_poll, (time.thread_time() - used) / LOOK_SHARE)
                    if discovery.walk.root_missing:
                        every = ROOT_POLL
                    elif discovery.held_up:
                        every = watch.slow_poll
                    if self._checkpoint is not None:
                        self._checkpoint.save(discovery.starts())
            except Exception as bug:
                self._wrong("the search for files failed", bug)
                touched, looked = set(), now
            gather = changed(touched) or 0.0
            most = STAYS if discovery.passing else math.inf
            found = await watch.changes(min(most, max(0.0, looked + every - time.monotonic())), gather)

    async def _ask_for_ranks(self, changed: Callable[[set[str]], float | None]) -> None:
        try:
            await Writers(self.discovery, changed).run()
        except Exception as bug:
            self._wrong("the search for ranks stopped", bug)

    def _wrong(self, what: str, bug: Exception) -> None:
        sentence = f"{what}: {bug!r}"
        self.discovery.troubles.tell(sentence, sentence, bug)

    def expect_no_record(self) -> None:
        self.discovery.stored.due = False

    def learn(self, streams: list[StreamInfo], now: float) -> None:
        streams = self._found(streams)
        self.discovery.learn(streams, now)
        for info in streams:
            path = os.path.join(self._wanted.root, info.stream.path)
            mine = self._wanted.matches(info.stream.path) and info.stream.path not in self.logs
            if mine and is_left(info) and not os.path.lexists(path):  # or another sidecar's, which is down
                why = "the receiver holds %d bytes of it and no end, no sidecar sends it, and there is no file %s"
                log.warning(f"%s is not sent: {why}", info.stream.name, info.committed, legible(path))

    def resume(self, streams: Iterable[StreamInfo], now: float) -> None:
        self.discovery.resume(self._found(streams), now)

    def _found(self, streams: Iterable[StreamInfo]) -> list[StreamInfo]:
        """*streams* with the paths of those whose names are cut, and whose record does not tell them."""
        streams = list(streams)
        unknown = {info.stream.log for info in streams if is_cut(info.stream.log) and not info.stream.original}
        if not unknown:
            return streams
        paths = dict.fromkeys((*self.logs, *files(self._wanted.root)))
        paths |= dict.fromkeys(original for path in paths for original in originals(path))
        known = {log: path for path in paths for log in (log_of(path), beside(path)) if log in unknown}
        return [
            changed(info, stream=changed(info.stream, original=known.get(info.stream.log, info.stream.original)))
            for info in streams
        ]

    def drain(self, now: float) -> set[str]:
        """Look once more; a repeated call opens waiting files as descriptors allow."""
        discovery = self.discovery
        touched = discovery.strangers.meet_waiting(now) if discovery.ledger.draining else discovery.drain(now)
        for tail in self.logs.values():
            tail.said = self._exit
        return touched

    def leave(self) -> None:
        """Nothing here knows whether a run goes on: its logs end with this process."""

    def exited(self, how: Exit) -> None:
        self._exit = how

    def unmatched(self, *, empty: bool = False) -> str:
        return unmatched(self._wanted, empty=empty)

    def masked(self, log: str) -> Redaction | None:
        return self.discovery.masked(self.logs[log])

    def state(self) -> dict[str, tuple[int, int, int]]:
        return sizes(self._wanted)

    def written(self) -> bool:
        found = {(device, inode): os.path.basename(path) for path, (device, inode, _) in self.state().items()}
        return bool(written(found, but=os.getpid()))

    def close(self) -> None:
        self.discovery.close()
