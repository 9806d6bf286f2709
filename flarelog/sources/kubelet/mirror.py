"""All containers' logs of a node, copied from its kubelet's file server, for as long as an agent runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from flarelog.backoff import delay
from flarelog.errors import TIMEOUT, FlarelogError, TimedOut
from flarelog.kubernetes.attempts import Attempt
from flarelog.kubernetes.client import Answered, is_final
from flarelog.kubernetes.watcher import Pods
from flarelog.sources.containers.copies import ANSWERS_WITHIN, LAST_WITHIN, Copying, Sender, made_in, unless
from flarelog.sources.containers.layouts import LAYOUTS
from flarelog.sources.kubelet.copy import Copy, Server
from flarelog.text import several

log = logging.getLogger(__name__)

PODS_EVERY = 2.0  # seconds between two looks for new containers
SOONEST, LATEST = 0.2, 2.0  # seconds between two looks at a container's files
SLOW = 5.0  # seconds after which a look without an answer counts as one that failed
NEWS = 0.2  # seconds between two looks at what the API said of pods
LOOKS = 100  # looks a second at all containers, about
AT_ONCE = 16  # containers that are looked at at a time
_CONTAINER = LAYOUTS["cri"].container


class Mirror(Copying):
    """Copies the logs that *server* has into ``root``, while *senders* made for that directory send them. What the API
    says of *pods* tells where something is new.
    """

    def __init__(
        self, server: Server, wanted: Callable[[str], bool], state: str | None, pods: Pods | None = None
    ) -> None:
        super().__init__()
        self._server, self._wanted, self._pods = server, wanted, pods
        self._made = made_in(state, "flarelog-kubelet-")
        self.root = os.path.join(self._made, "pods")
        os.mkdir(self.root)
        self._lost: set[str] = set()  # paths of copies whose end was not seen
        self._copies: dict[str, Copy] = {}
        self._adding: dict[str, asyncio.Task[None]] = {}  # by directory: its first copy, which may take long
        self._present: frozenset[str] = frozenset()  # the directories of all containers, in the latest look
        self._looked = False
        self._came = set[str]()  # those that were not there in the first look
        self._unlisted = set[str]()  # pods whose directories no look could list, since the first
        self._asked: dict[str, float] = {}  # by directory: since when a look at its files has no answer
        self._failed: dict[str, FlarelogError] = {}  # by directory: why the latest look at its files failed
        self._states: dict[tuple[str, str], Attempt] = {}  # what the API said last, by UID and container
        self._version = 0  # of what it said
        self._hurry: dict[str, asyncio.Event] = {}  # by directory: something may be new
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._seen: dict[str, float] = {}

    async def run(self, senders: Sequence[Sender], *, once: bool) -> list[int]:
        """Copy, and send, until drained, or *once* what is there; returns the exit codes of *senders*, and one more if
        logs could not be read. Raises FlarelogError if none could *once*.
        """
        sending: list[asyncio.Task[int]] = []
        try:
            if once:
                await unless(self._draining, self._first())
                self.drain()
            finding = asyncio.create_task(self._find())
            # Once: after the last look, so that senders find all bytes, and ends of attempts whose copies are whole.
            sending = [asyncio.ensure_future(sender.run()) for sender in senders if not once]
            await self._draining.wait()
            finding.cancel()
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(finding, *self._tasks.values(), return_exceptions=True)
            unlisted = await self._last_look()
            if once and not self._copies and (error := unlisted or self._unread()):
                raise error
            sending = sending or [asyncio.ensure_future(sender.run()) for sender in senders]
            for sender in senders:
                sender.drain()
            return [*await asyncio.gather(*sending), *self._missing(unlisted)]
        finally:
            for sent in sending:
                sent.cancel()
            for adding in self._adding.values():
                adding.cancel()
            await asyncio.gather(*self._adding.values(), return_exceptions=True)
            await self._server.close()
            shutil.rmtree(self._made, ignore_errors=True)

    async def _last_look(self) -> FlarelogError | None:
        """Copy what is there by now; returns why the containers could not be listed, None: they were. Whatever is not
        read to its end within LAST_WITHIN has failed.
        """
        unlisted: FlarelogError | None
        unlisted = silent = TimedOut(f"the kubelet did not answer within {LAST_WITHIN:g} s")
        self._asked = dict.fromkeys((*self._copies, *self._adding), time.monotonic())
        try:
            async with asyncio.timeout(LAST_WITHIN):
                unlisted = await self._look_and_add()
                await asyncio.gather(*(self._to_the_end(name, copy) for name, copy in self._copies.items()))
        except TimeoutError:
            log.warning("%s; its latest bytes are not sent", silent)
            for directory in self._asked:
                self._failed.setdefault(directory, silent)
        return unlisted

    def _missing(self, unlisted: FlarelogError | None) -> list[int]:
        """The exit code for containers of which nothing is stored, because they are *unlisted* or could not be read."""
        if unlisted is not None:
            log.error("logs of containers may be missing: %s", unlisted)
            return [TIMEOUT if self._looked else unlisted.exit_code]
        if (error := self._unread()) is None:
            return []
        left = sorted(self._failed.keys() - self._copies.keys())
        log.error("%s not sent, of %s: %s", several(len(left), "log"), left[0], error)
        return [TIMEOUT]

    def _unread(self) -> FlarelogError | None:
        """Why containers that are there have no copy yet; None: each has one, or has no file."""
        return next((error for directory, error in self._failed.items() if directory not in self._copies), None)

    def blind(self, directory: str) -> str:
        if directory in self._failed:
            return str(self._failed[directory])
        silent = time.monotonic() - self._asked.get(directory, math.inf)
        return f"the kubelet has not answered for {silent:.0f} s" if silent >= SLOW else ""

    def seen(self, directory: str) -> float:
        """As ``Copies.seen``; of a directory that is gone all was copied that could be."""
        return self._seen.get(directory, -math.inf) if directory in self._copies else math.inf

    def came(self, directory: str) -> bool:
        return directory in self._came

    async def _first(self) -> None:
        """Look until the server answers, also for each container. Raises FlarelogError if it refuses, or does not
        answer for long, and there is nothing else to send.
        """
        until = time.monotonic() + ANSWERS_WITHIN
        while (error := await self._look_and_add() or self._unread()) is not None:
            if is_final(error) or time.monotonic() >= until:
                if self._copies:
                    return
                raise error
            await asyncio.sleep(PODS_EVERY)

    async def _find(self) -> None:
        failures = 0
        while True:
            failures = 0 if await self._look() is None else failures + 1
            await self._news(PODS_EVERY if not failures else delay(failures, PODS_EVERY, 30.0))

    async def _news(self, within: float) -> None:
        """Wait *within* seconds, or until the API knows of a container that no look has found. Containers of which it
        says something new are looked at meanwhile.
        """
        until = time.monotonic() + within
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, NEWS))
            if self._pods is None or self._pods.version == self._version:
                continue
            self._version = self._pods.version
            states = {(pod.uid, name): state for pod in self._pods.present() for name, state in pod.states.items()}
            before, self._states = self._states, states
            found = {(one.uid, one.name): directory for directory in self._present if (one := _CONTAINER(directory))}
            for key in states.keys() & found.keys():
                if states[key] != before.get(key) and (hurry := self._hurry.get(found[key])) is not None:
                    hurry.set()
            if states.keys() - found.keys():
                return

    async def _look_and_add(self) -> FlarelogError | None:
        """As ``_look``, until each new container's first copy is made."""
        unlisted = await self._look()
        await asyncio.gather(*self._adding.values())
        return unlisted

    async def _look(self) -> FlarelogError | None:
        """Find new containers, and forget those that are gone; returns why the server did not answer, None: it did. A
        pod whose directory it cannot list is as it was.
        """
        there, unlisted, failed = set[str](), set[str](), None
        try:
            for pod in await self._server.names("pods"):
                if not pod.endswith("/"):
                    continue
                try:
                    names = await self._server.names(f"pods/{pod[:-1]}")
                except Answered as error:
                    self._say(str(error))
                    failed = failed or error
                    unlisted.add(pod)
                    there |= {directory for directory in self._present if directory.startswith(pod)}
                    continue
                for name in names:
                    directory = f"{pod}{name.removesuffix('/')}"
                    if name.endswith("/") and _CONTAINER(directory) is not None:
                        there.add(directory)
        except FlarelogError as error:
            self._say(str(error))
            return error
        if self._looked:
            new = {one for one in there - self._present if f"{one.partition('/')[0]}/" not in self._unlisted}
            self._came = (self._came & there) | new
        self._unlisted = self._unlisted & unlisted if self._looked else unlisted
        self._looked, self._present = True, frozenset(there)
        present = {directory for directory in there if self._wanted(directory)}
        for directory in present - self._copies.keys() - self._adding.keys():  # no container waits for a long log
            self._adding[directory] = asyncio.create_task(self._add(directory))
        for directory in self._copies.keys() - present:
            if (task := self._tasks.pop(directory, None)) is not None:
                task.cancel()
            self._copies.pop(directory).leave()
            self._seen.pop(directory, None)
            self._hurry.pop(directory, None)
            shutil.rmtree(os.path.join(self.root, directory), ignore_errors=True)
        for answers in (self._asked, self._failed):
            for directory in answers.keys() - present:
                del answers[directory]
        return failed

    async def _add(self, directory: str) -> None:
        try:
            await self._copy_new(directory)
        except OSError as error:
            self._no_room(directory, error)
        finally:
            del self._adding[directory]

    async def _copy_new(self, directory: str) -> None:
        """Copy what a new container has so far; its files appear together, so that their order is known at once."""
        target, unfinished = Path(self.root, directory), Path(self._made, "new", directory)
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        copy = Copy(self._server, f"pods/{directory}", unfinished, self._lose, directory in self._came)
        if not await self._update(directory, copy) and not any(unfinished.iterdir()):
            return
        target.parent.mkdir(exist_ok=True)
        os.rename(unfinished, target)
        copy.move(target)
        self._copies[directory] = copy
        if not self._draining.is_set():  # and not for a single look
            hurry = self._hurry[directory] = asyncio.Event()
            self._tasks[directory] = asyncio.create_task(self._keep(directory, copy, hurry))

    async def _keep(self, directory: str, copy: Copy, hurry: asyncio.Event) -> None:
        pause = SOONEST
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(hurry.wait(), pause)
                copy.list_next()
            hurry.clear()
            share = len(self._copies) / LOOKS
            grown = await self._update(directory, copy)
            pause = max(SOONEST, share) if grown else min(2 * pause, max(LATEST, 2 * share))

    async def _to_the_end(self, directory: str, copy: Copy) -> None:
        copy.list_next()  # a look at a file that grows need not list the others
        while await self._update(directory, copy):
            copy.list_next()

    async def _update(self, directory: str, copy: Copy) -> bool:
        self._asked.setdefault(directory, time.monotonic())
        async with self._turn:
            try:
                began = time.monotonic()
                more = await copy.update()
            except FlarelogError as error:
                self._fail(directory, error)
            except OSError as error:
                self._no_room(directory, error)
            except Exception as bug:  # it must not end the copying of all later bytes
                self._fail(directory, FlarelogError(f"{directory} could not be copied: {bug!r}"))
            else:
                self._asked.pop(directory, None)
                self._failed.pop(directory, None)
                if not more:
                    self._seen[directory] = began
                return more
            return False

    def _no_room(self, directory: str, error: OSError) -> None:
        self._fail(directory, FlarelogError(f"{directory} cannot be copied to {self._made}: {error.strerror}"))

    def _fail(self, directory: str, error: FlarelogError) -> None:
        self._failed[directory] = error
        self._say(str(error))

    def gap(self, path: str) -> str:
        directory, name = os.path.split(path)
        copy = self._copies.get(directory)
        return copy.gap(name.removesuffix(".gz")) if copy is not None else ""

    def ending(self, path: str) -> str:
        return "unseen" if os.path.join(self.root, path) in self._lost else ""

    def _lose(self, path: str) -> None:
        self._lost.add(path)
