"""All logs of the pods that the API shows, written into files for as long as an agent runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

from flarelog import locks
from flarelog.backoff import delay
from flarelog.errors import FAILED, FlarelogError, InvalidOption
from flarelog.kubernetes.attempts import Attempt
from flarelog.kubernetes.podlogs import Gone, Log
from flarelog.kubernetes.pods import Pod
from flarelog.model import API
from flarelog.sources.api.kept import Kept
from flarelog.sources.api.reader import IDLE, UNSEEN, Reader, Server
from flarelog.sources.containers.copies import (
    ANSWERS_WITHIN,
    LAST_WITHIN,
    Copying,
    Sender,
    made_in,
    no_copies,
    unless,
)

log = logging.getLogger(__name__)

LOOK = 0.2  # seconds between two looks at what the API says of pods
FIRST, LONGEST = 1.0, 30.0  # seconds before another attempt
TIDY = 2.0  # seconds between two looks at what is stored
CHECK = 60.0  # seconds after which a log is looked at though nothing was heard of its pod
ROOM = 1 << 30  # bytes of closed files that may wait to be stored
_MEASURED = 2.0  # seconds between two measurements of the room


class Pods(Protocol):
    """What a watch of the API says of pods, so far."""

    version: int  # changes with each fact

    @property
    def listed(self) -> bool:
        """Whether all pods are known."""

    def present(self) -> list[Pod]: ...

    async def learn(self, within: float) -> None:
        """Wait until all pods are known. Raises FlarelogError if the API refuses, or gives no list *within* seconds."""


class Mirror(Copying):
    """Writes the logs that *server* gives of *pods* into ``root``, while *senders* made for that directory send them to
    *receivers* receivers. *state*: the directory in which the files outlive the agent. Raises InvalidOption, and
    NotAllowed if it cannot be used.
    """

    tells_losses = True  # a file has the name of a rotated one once its attempt has ended: nothing was rotated

    def __init__(
        self, server: Server, pods: Pods, wanted: Callable[[str], bool], state: str | None, receivers: int
    ) -> None:
        super().__init__()
        self._server, self._pods, self._wanted, self._receivers = server, pods, wanted, receivers
        self._lasting = state is not None
        self._made = os.path.join(state, "flarelog-api") if state else made_in(None, "flarelog-api-")
        self.root = os.path.join(self._made, "pods")
        self._scratch = Path(self._made, "scratch")
        self._lock = self._prepare()
        self._readers: dict[str, Reader] = {}  # by directory
        self._left: dict[str, Kept] = {}  # by directory: of pods that are gone
        self._over: set[str] = set()  # UIDs of pods that are gone, though the watch has not heard of it
        self._stored: dict[str, set[str]] = {}  # by path: the receivers that have it
        self._news: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._used, self._measured = 0, -_MEASURED
        self._failed: list[int] = []  # the exit codes of logs that could not be read once

    def _prepare(self) -> int:
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch.mkdir()
            lock = os.open(os.path.join(self._made, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise no_copies(self._made, error) from error
        if locks.take(lock) is False:
            os.close(lock)
            raise InvalidOption(f"another agent uses {self._made}: give each its own --state")
        return lock

    # --- what the finders ask

    def gap(self, path: str) -> str:
        return self._ask(path, Kept.gap)

    def ending(self, path: str) -> str:
        return self._ask(path, Kept.ending)

    def notes(self, path: str) -> tuple[str, ...]:
        return tuple(filter(None, (API, self._ask(path, Kept.note))))

    def _ask(self, path: str, what: Callable[[Kept, str], str]) -> str:
        directory, name = os.path.split(path)
        kept = self._kept(directory)
        return what(kept, name) if kept is not None else ""

    def _kept(self, directory: str) -> Kept | None:
        reader = self._readers.get(directory)
        return reader.kept if reader is not None else self._left.get(directory)

    def seen(self, directory: str) -> float:
        kept = self._kept(directory)
        return -math.inf if kept is not None and kept.attempt is not None else math.inf

    def stored(self, receiver: str, path: str) -> None:
        done = self._stored.setdefault(path, set())
        done.add(receiver)
        directory, name = os.path.split(path)
        kept = self._kept(directory)
        if kept is not None and len(done) >= self._receivers and kept.remove(name):
            del self._stored[path]

    # --- the loop

    async def run(self, senders: Sequence[Sender], *, once: bool) -> list[int]:
        """Read, and send, until drained, or *once* what is there; returns the exit codes of *senders*, and of the logs
        that could not be read *once*. Raises FlarelogError if the API does not list the pods *once*.
        """
        if not self._lasting and not once:
            log.warning("without --state, an agent that is started again may send lines a second time")
        finding = asyncio.create_task(self._once() if once else self._find())
        sending: list[asyncio.Task[int]] = []
        try:
            if once:
                await finding
            else:
                sending = [asyncio.ensure_future(sender.run()) for sender in senders]
                await self._draining.wait()
                await self._stop(finding)
            sending = sending or [asyncio.ensure_future(sender.run()) for sender in senders]
            for sender in senders if not once else ():
                sender.drain()
            codes = await asyncio.gather(*sending)
            if not self._pods.listed:
                log.error("the Kubernetes API did not list the pods, so that logs may be missing")
                codes = [code or 1 for code in codes]
            return [*codes, *self._failed]
        finally:
            for task in (finding, *sending, *self._tasks.values()):
                task.cancel()
            self.close()

    def close(self) -> None:
        """Close all files, and remove those that no other agent goes on with."""
        for reader in self._readers.values():
            reader.kept.close()
        os.close(self._lock)
        if not self._lasting:
            shutil.rmtree(self._made, ignore_errors=True)

    async def _stop(self, finding: asyncio.Task[None]) -> None:
        """End all reading, with a last look at each log."""
        finding.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(finding, *self._tasks.values(), return_exceptions=True)
        try:
            async with asyncio.timeout(LAST_WITHIN):
                await asyncio.gather(*(self._guarded(reader.last) for reader in self._readers.values()))
        except TimeoutError:
            log.warning("the Kubernetes API did not answer within %g s; its latest lines are not sent", LAST_WITHIN)
        self._begin_unread()

    def _begin_unread(self) -> None:
        for reader in self._readers.values():
            with contextlib.suppress(OSError):  # the readers have reported it
                reader.begin_unread()

    async def _guarded(self, look: Callable[[], Awaitable[None]]) -> None:
        try:
            await look()
        except Gone:
            pass
        except (FlarelogError, OSError) as error:
            self._say(str(error))

    async def _find(self) -> None:
        version, looked = -1, 0.0
        while True:
            if self._pods.version != version or time.monotonic() - looked > TIDY:
                version, looked = self._pods.version, time.monotonic()
                self._look()
            await asyncio.sleep(LOOK)

    async def _once(self) -> None:
        await unless(self._draining, self._pods.learn(ANSWERS_WITHIN))
        if not self._pods.listed:
            return
        self._look(keep=False)
        await asyncio.gather(*(self._whole(reader) for reader in self._readers.values()))
        self._begin_unread()

    async def _whole(self, reader: Reader) -> None:
        try:
            while (pause := await reader.step(follow=False)) != IDLE:
                await asyncio.sleep(pause)
        except Gone:
            reader.leave()
        except (FlarelogError, OSError) as error:
            log.error("the log of %s is not sent, or not all of it: %s", reader.of, error)
            self._failed.append(error.exit_code if isinstance(error, FlarelogError) else FAILED)

    def _look(self, *, keep: bool = True) -> None:
        """Apply what the API says of pods by now."""
        present: dict[str, Attempt] = {}
        for pod in self._pods.present():
            if pod.uid in self._over:
                continue
            for name, attempt in pod.states.items():
                directory = f"{pod.namespace}_{pod.name}_{pod.uid}/{name}"
                present[directory] = attempt
                if pod.over and directory in self._readers and attempt.ended:
                    self._readers[directory].kept.is_over()
                if directory not in self._readers and self._wanted(directory):
                    kept = Kept(Path(self.root, directory), self._scratch)
                    of = Log(pod.namespace, pod.name, pod.uid, name)
                    self._readers[directory] = Reader(self._server, of, kept, self._room, self._say)
                    self._news[directory] = asyncio.Event()
                    if keep:
                        self._tasks[directory] = asyncio.create_task(self._keep(directory))
        for directory, reader in self._readers.items():
            if reader.present != present.get(directory):
                reader.present = present.get(directory)
                self._news[directory].set()
        if self._pods.listed:
            self._over &= {pod.uid for pod in self._pods.present()}
            self._tidy()

    def _tidy(self) -> None:
        """End what pods left that are gone, and remove it once it is stored."""
        for path in Path(self.root).glob("*/*"):
            directory = str(path.relative_to(self.root))
            if directory not in self._readers and directory not in self._left:
                kept = self._left[directory] = Kept(path, self._scratch)
                kept.is_gone(UNSEEN)
        for directory, kept in list(self._left.items()):
            names = [f"{directory}/{path.name}" for path in kept.directory.glob("[0-9]*")]
            if all(len(self._stored.get(name, ())) >= self._receivers for name in names):
                for name in names:
                    self._stored.pop(name, None)
                kept.forget()
                with contextlib.suppress(OSError):
                    kept.directory.parent.rmdir()
                del self._left[directory]

    async def _keep(self, directory: str) -> None:
        reader, news, failures = self._readers[directory], self._news[directory], 0
        while True:
            news.clear()
            before = reader.kept.length
            try:
                pause, failures = await reader.step(), 0
            except Gone:
                reader.leave()
                self._over.add(reader.of.uid)
                self._left[directory] = reader.kept
                for mine in (self._readers, self._news, self._tasks):
                    mine.pop(directory, None)
                return
            except (FlarelogError, OSError) as error:
                self._say(str(error) if isinstance(error, FlarelogError) else f"{directory}: {error}")
                failures = failures if reader.kept.length == before else 0
                pause, failures = delay(failures, FIRST, LONGEST), failures + 1
            except Exception:
                log.exception("the log of %s could not be read; retrying", reader.of)
                pause, failures = delay(failures, FIRST, LONGEST), failures + 1
            if pause:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), min(pause, CHECK))

    def _room(self) -> bool:
        """Whether there is room for more bytes."""
        now = time.monotonic()
        if now - self._measured >= _MEASURED:
            self._measured = now
            every = [(directory, reader.kept) for directory, reader in self._readers.items()] + [*self._left.items()]
            self._used = sum(
                size
                for directory, kept in every
                for name, size in kept.sizes().items()
                if len(self._stored.get(f"{directory}/{name}", ())) < self._receivers
            )
        return self._used < ROOM
