"""Who sends how much, looked at once a second: windows, paces and rates keep a receiver within what it may take."""

from __future__ import annotations

import asyncio
import logging
import math

from flarelog.delivery.pace import Crowd, Load
from flarelog.delivery.quota import Limits, share
from flarelog.delivery.rates import Pace
from flarelog.receiver.session import Session
from flarelog.receiver.sessions import Sessions

log = logging.getLogger(__name__)

SAY_EVERY = 30.0  # seconds between two log lines about the same pressure
SHARE_EVERY = 1.0  # seconds between two looks at who is sending
RATE_BURST = 4 << 20  # bytes
SLOWED = 0.5  # seconds between two replies to a producer that is slowed down, so that it does not think it is lost


class Lately:
    """What was said lately, so that it is not said again and again. For one event loop."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def said(self, sentence: str) -> bool:
        """Whether *sentence* was said just now; if not, it counts as said."""
        now = asyncio.get_running_loop().time()
        if now - self._said.get(sentence, -math.inf) < SAY_EVERY:
            return True
        if len(self._said) > 1000:
            self._said.clear()
        self._said[sentence] = now
        return False


class Pressure:
    """For one event loop."""

    def __init__(self, limits: Limits, sessions: Sessions, lately: Lately) -> None:
        self.loads: set[Load] = set()  # of the calls that are open
        self.crowd = Crowd()
        self._limits, self._sessions, self._lately = limits, sessions, lately
        self._run_rate = Pace(limits.max_run_rate, RATE_BURST)
        self._site_rate = Pace(limits.max_site_rate, RATE_BURST)
        self.has_rates = limits.max_run_rate is not None or limits.max_site_rate is not None

    async def watch(self) -> None:
        """Tell streams that have become quiet, or too many, that less of them should be on its way; for ever."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            await asyncio.sleep(SHARE_EVERY)
            now = clock()
            self.look(now - began)
            began = now

    def look(self, took: float) -> None:
        """Take in what came in *took* seconds."""
        self._sessions.windows.look()
        self.crowd.look(self.loads, took, due=SHARE_EVERY)
        for session in self._sessions:
            if session.window.told > 2 * self.window_of(session):  # as many open, not each of them needs a reply
                session.acknowledge()  # the next reply tells

    def window_of(self, session: Session) -> int:
        """Bytes that should be on their way in the window of *session* at most."""
        return share(self._limits.max_in_flight, self._sessions.windows.sharing(session.window))

    def pace_of(self, load: Load) -> float:
        """Seconds that should pass between two chunks of a stream of *load* which are not full."""
        return self.crowd.pace(load)

    async def slow_down(self, session: Session, size: int) -> None:
        """Wait until *size* bytes more are within what a run and a site may send a second."""
        stream, now = session.stream, asyncio.get_running_loop().time()
        waits = (
            (self._run_rate.wait(stream.run, size, now), "max_run_rate", f"run {stream.run}"),
            (self._site_rate.wait((stream.run, stream.site), size, now), "max_site_rate", f"site {stream.site}"),
        )
        wait, name, who = max(waits)
        if wait <= 0:
            return
        flag = f"--{name.replace('_', '-')}"
        sentence = f"{who} exceeds {getattr(self._limits, name)} bytes a second ({flag}) and is throttled"
        if not self._lately.said(sentence):
            log.warning("%s", sentence)
        while wait > 0 and session.open:
            await asyncio.sleep(min(wait, SLOWED))
            wait -= SLOWED
            session.acknowledge()
