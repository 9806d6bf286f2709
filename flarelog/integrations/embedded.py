"""The common part of a receiver and a producer inside a threaded program: they follow the run's events on a bus.

ABOUT_TO_START_RUN registers a run at the receiver, START_RUN starts its producers, ABOUT_TO_END_RUN asks them to
drain; these return at once. END_RUN waits for them within a bound. An error of a log never raises into the program.
In a forked child receiver and producer are inert: the logs are the parent's.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from flarelog.bus import Bus, Notice
from flarelog.delivery.quota import LONGEST
from flarelog.errors import FlarelogError, InvalidName, InvalidOption
from flarelog.integrations.background import Background, Member, Stopped, release, shared
from flarelog.lifecycle import Event
from flarelog.names import run_name
from flarelog.placeholders import LogUrls, Placeholder, placeholder

log = logging.getLogger(__name__)

JOIN_TIMEOUT = 60.0  # maximum seconds that END_RUN waits
EXIT_TIMEOUT = 5.0  # maximum seconds by which flarelog delays the exit of a program without END_RUN
REGISTER_TIMEOUT = 5.0  # maximum seconds that the start of a run waits for its receiver
MARGIN = 1.0  # seconds of grace beyond a bound before the work is abandoned


def seconds(name: str, given: float) -> float:
    """*given*, the argument *name*, if it is a valid time in seconds; raises InvalidOption."""
    if not isinstance(given, int | float) or not 0.001 <= given <= LONGEST:
        shown = f"{given:g}" if isinstance(given, int | float) else repr(given)
        raise InvalidOption(f"{name} must be a number of seconds from 0.001 to {LONGEST}, not {shown}")
    return given


def directory(name: str, given: str | os.PathLike[str]) -> str:
    """*given*, the argument *name*, if it can be a directory's path; raises InvalidOption."""
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise InvalidOption(f"{name} must be the path of a directory, not {given!r}")
    return os.fspath(given)


class Found(NamedTuple):
    """The state of one log. *begun* and *ended*: milliseconds since 1970; 0: unknown."""

    why: str  # why the log is not available; empty: it is
    receiver: str = ""
    offset: int = 0
    begun: int = 0
    ended: int = 0


class Embedded(Member):
    """The common part of both ends: a Background, and a bus."""

    def __init__(self, bus: Bus | None, exit_timeout: float, log_url_template: str = "") -> None:
        if not 0 <= exit_timeout < math.inf:
            raise InvalidOption("exit_timeout must be a number of seconds, 0 or more")
        self.bus = bus or Bus()
        self._urls = LogUrls(log_url_template)
        self._exit_timeout = exit_timeout
        self._inner = Bus()
        self._inner.subscribe(self._forward)
        self._background: Background | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._misnamed = set[str]()  # invalid names of runs, whose logs are not stored
        self._lock = threading.Lock()  # of start and stop

    def start(self) -> Self:
        """Begin to follow the bus; harmless when repeated. Raises NotAllowed in a process forked from one that had used
        flarelog.
        """
        with self._lock:
            if self._background is None:
                background = shared()
                try:
                    self._enter(background)
                except BaseException:
                    release(background)
                    raise
                self._background = background
                background.members.append(self)
                self._unsubscribe = self.bus.subscribe(
                    self._on, Event.ABOUT_TO_START_RUN, Event.START_RUN, Event.ABOUT_TO_END_RUN, Event.END_RUN
                )
        return self

    def stop(self) -> None:
        """End within a bound; harmless when repeated."""
        with self._lock:
            background, self._background = self._background, None
        if background is None:
            return
        self._unsubscribe()
        try:
            self._leave(background)
        finally:
            background.members.remove(self)
            release(background)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _placeholder(self, run: str, site: str, log: str) -> Placeholder:
        """The placeholder for the log, with the result of ``_found``. Raises nothing."""
        background = self._background
        try:
            found = (
                self._found(background, run, site, log)
                if background is not None
                else Found("flarelog is not started in this program")
            )
        except Exception as error:  # the loop was stopped, or is busy
            found = Found(f"flarelog did not say within {MARGIN:g} s how it fares ({type(error).__name__})")
        place = ("--receiver", found.receiver) if found.receiver else self._place
        life = {"offset": found.offset, "begun": found.begun, "ended": found.ended, "now": int(time.time() * 1000)}
        return placeholder(run, site, log, found.why, place=place, urls=self._urls, **life)

    @property
    def _place(self) -> tuple[str, ...]:
        """The options for a command that looks for logs, also before the start."""
        return ()

    def forget(self) -> None:
        """In a forked child: stop nothing, and follow no events."""
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._background = None
        self._unsubscribe()

    def _found(self, background: Background, run: str, site: str, log: str) -> Found:
        raise NotImplementedError

    def _enter(self, background: Background) -> None: ...

    def _leave(self, background: Background) -> None: ...

    def _follow(self, background: Background, notice: Notice) -> None: ...

    def _on(self, notice: Notice) -> None:
        background = self._background
        if background is None or not self._is_named(notice.run):
            return
        try:
            self._follow(background, notice)
        except Stopped:
            pass
        except FlarelogError as error:
            log.error("run %s: %s; the run continues", notice.run, error)

    def _is_named(self, run: object) -> bool:
        """Whether *run* can be a run's name; an invalid name is logged once, however many events it has."""
        try:
            if not isinstance(run, str):
                raise InvalidName(f"the run's name must be a str, not {run!r}")
            run_name(run)
        except InvalidName as error:
            if (shown := repr(run)) not in self._misnamed:
                self._misnamed.add(shown)
                log.error("%s; the run continues without its logs", error)
            return False
        return True

    def _forward(self, notice: Notice) -> None:
        """Pass stream events and findings to the program's bus; run events came from there."""
        background = self._background
        if background is not None and notice.event in (Event.STREAM_OPENED, Event.STREAM_ENDED, Event.FINDING):
            background.tell(lambda: self.bus.publish_notice(notice))
