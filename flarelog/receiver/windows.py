"""Flow control, adjusted once a second: windows, paces and rates keep a receiver within its limits."""

from __future__ import annotations

import asyncio
import logging
import math

from flarelog.delivery.fairness import FairMap
from flarelog.delivery.pace import Crowd, Load
from flarelog.delivery.quota import Limits, share
from flarelog.delivery.rates import Pace
from flarelog.receiver.session import Session
from flarelog.receiver.sessions import Sessions

log = logging.getLogger(__name__)

SAY_EVERY = 30.0  # seconds between two log lines about the same pressure
SENTENCES, SENTENCES_EACH = 5_000, 100  # different sentences that are remembered: in all, and of one peer
SHARE_EVERY = 1.0  # seconds between two adjustments
RATE_BURST = 4 << 20  # bytes
SLOWED = 0.5  # seconds between two replies to a throttled producer, so that it does not reconnect


class Lately:
    """The sentences that were logged lately, to suppress repetitions. For one event loop."""

    def __init__(self) -> None:
        self._said = FairMap[tuple[str, str], float](SENTENCES, lambda key: key[0], SENTENCES_EACH)

    def said(self, sentence: str, peer: str = "") -> bool:
        """Whether *sentence* about *peer* was logged within SAY_EVERY seconds; if not, it now counts as logged. A peer
        that has caused SENTENCES_EACH different sentences within that time counts as reported.
        """
        now = asyncio.get_running_loop().time()
        if now - self._said.get((peer, sentence), -math.inf) < SAY_EVERY:
            return True
        mine = self._said.of(peer)
        if peer and len(mine) >= SENTENCES_EACH and now - next(iter(mine.values())) < SAY_EVERY:
            rest = f"{peer}: further refusals are not logged for {SAY_EVERY:g} s"
            if not self.said(rest):
                log.warning("%s", rest)
            return True
        self._said[peer, sentence] = now
        return False


class Pressure:
    """The flow control of one event loop."""

    def __init__(self, limits: Limits, sessions: Sessions, lately: Lately) -> None:
        self.loads: set[Load] = set()  # of the open calls
        self.crowd = Crowd()
        self._limits, self._sessions, self._lately = limits, sessions, lately
        self._run_rate = Pace(limits.max_run_rate, RATE_BURST)
        self._site_rate = Pace(limits.max_site_rate, RATE_BURST)
        self.has_rates = limits.max_run_rate is not None or limits.max_site_rate is not None

    async def watch(self) -> None:
        """Adjust the windows and the pace once a second, for ever."""
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            await asyncio.sleep(SHARE_EVERY)
            now = clock()
            self.look(now - began)
            began = now

    def look(self, took: float) -> None:
        """Adjust to the load of the last *took* seconds."""
        self._sessions.windows.look()
        self.crowd.look(self.loads, took, due=SHARE_EVERY)
        for session in self._sessions:
            if session.window.told > 2 * self.window_of(session):  # while streams open, not each one needs a reply
                session.acknowledge()  # the reply has the new window

    def window_of(self, session: Session) -> int:
        """The size of the window of *session* in bytes."""
        return share(self._limits.max_in_flight, self._sessions.windows.sharing(session.window))

    def pace_of(self, load: Load) -> float:
        """Seconds that should pass between two small chunks of a stream of *load*."""
        return self.crowd.pace(load)

    def took(self, run: str, site: str, size: int) -> None:
        """Count *size* bytes that another receiver of the store took against the rate limits."""
        now = asyncio.get_running_loop().time()
        self._run_rate.wait(run, size, now)
        self._site_rate.wait((run, site), size, now)

    async def slow_down(self, session: Session, size: int) -> None:
        """Sleep until *size* more bytes are within the rate limits of the run and the site."""
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
