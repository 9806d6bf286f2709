"""The report of a sidecar that has no log to carry it: no file can be sent, or missing files are no longer missing.

The report opens no log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import grpc

from flarelog.delivery.sending import AGENT, ANSWERS, REFUSES
from flarelog.model import Chunk, Code, News, Open, Reply, StreamId
from flarelog.sender.healths import Healths
from flarelog.sender.log import Site
from flarelog.wire.codec.base import Malformed
from flarelog.wire.uplink import Gone

log = logging.getLogger(__name__)

EVERY = 1.0  # seconds between two checks
LATER = 10.0  # seconds until a failed report is retried
WITHIN = 5.0  # seconds that each of the two answers may take
NAME = "flarelog-news"  # an Open needs the name of a log; this log is not created


class _Said:
    """A speaker in the call that sends nothing after its Open."""

    in_flight, hurries = 0, False

    def __init__(self) -> None:
        self.reply: Reply | None = None
        self.over = asyncio.Event()

    def say(self, room: int) -> tuple[tuple[()], bool]:
        return (), False

    def heard(self, reply: Reply) -> bool:
        self.reply = reply
        return False

    def beat(self) -> Chunk | None:
        return None

    def wake(self) -> None:
        self.over.set()


class Word:
    """The reports of the sidecar *site*. *alone*: whether it has no log that could carry a report."""

    def __init__(self, site: Site, healths: Healths, alone: Callable[[], bool]) -> None:
        self._site, self._healths, self._alone = site, healths, alone
        self._untold: News | None = None
        self._told: object = None  # the missing files in the last report

    async def mind(self) -> None:
        """Report changes of the missing files. Ends by being cancelled."""
        pause = EVERY
        while True:
            await asyncio.sleep(pause)
            pause = EVERY if await self.tell() else LATER

    async def tell(self) -> bool:
        """Send a report if one is due; returns False if it failed."""
        consents = self._site.consents
        if not self._alone() or (consents and not consents.given()):
            return True
        self._untold = self._healths.take() or self._untold
        news = self._untold
        if news is None or news.health is None:
            return True
        missing = news.health.unread, news.whole, news.refused
        if missing != self._told and (news.health.unread or news.whole):
            try:
                async with asyncio.timeout(2 * WITHIN):
                    await self._tell(news)
            except (grpc.RpcError, Malformed, Gone, TimeoutError) as error:
                log.debug("what is missing could not be told: %s", error)
                return False
        self._untold, self._told = None, missing
        return True

    async def _tell(self, news: News) -> None:
        options, link = self._site.options, self._site.link
        said = _Said()
        stream = link.uplink().stream(said)
        try:
            where = StreamId(options.run, options.site, NAME)
            stream.put(Open(where, link.producer_id, link.epoch, agent=AGENT, news=news, news_only=True))
            async with asyncio.timeout(WITHIN):
                await said.over.wait()
            stream.check()
        finally:
            stream.leave()
        if said.reply is not None and said.reply.code not in (Code.OK, Code.REJECTED):  # its run may be announced later
            raise Gone(f"{ANSWERS.get(said.reply.code, REFUSES)}: {said.reply.reason}")
