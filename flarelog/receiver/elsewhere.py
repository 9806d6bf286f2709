"""The states of streams whose producers are at other receivers of the store.

They are asked for when somebody wants to see them, and kept for a moment: a hundred readers ask no more often than one.
Of a stream that was at several receivers, the state is that of the one that has it, or had it last.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from flarelog.model import State, StreamId, StreamInfo
from flarelog.receiver.others import Others
from flarelog.receiver.sessions import Sessions
from flarelog.receiver.states import States
from flarelog.values import changed
from flarelog.wire.codec.lists import decode_infos, encode_info, encode_infos

KEPT = 0.5  # seconds for which answers are kept
KEPT_MOST = 100  # answers


class Seen(NamedTuple):
    """What the other receivers have answered."""

    infos: Mapping[StreamId, StreamInfo]  # with their states, and without marks
    silent: Sequence[str]  # the receivers that did not answer
    lost: float | None  # as Others.lost_for
    name: str = ""  # of this receiver, if it has others
    age: float = 0.0  # seconds since they answered

    def state(self, stream: StreamId, own: State) -> State:
        """The state of *stream*, which is *own* for all that this receiver knows."""
        info = self.infos.get(stream)
        there = _aged(info.state, self.age) if info is not None and info.state is not None else None
        if own.heard is not None:
            return there if there is not None and _is_later(there, own) else changed(own, receiver=self.name)
        if there is not None:
            return there
        if self.lost is None or own.changed is None:
            return own
        return changed(own, changed=min(own.changed, self.lost))  # a receiver that does not answer may have had it


def _aged(state: State, age: float) -> State:
    """*state*, which was told *age* seconds ago: a stream may have moved here since."""
    later = {name: value + age for name in ("changed", "heard", "grown") if (value := getattr(state, name)) is not None}
    return changed(state, **later)


def _is_later(one: State, other: State) -> bool:
    """Whether *one* is the state of the receiver that has a stream, or had it later than that of *other*."""
    return (bool(one.linked), -(one.changed or 0.0)) > (bool(other.linked), -(other.changed or 0.0))


class Elsewhere:
    """The questions of one receiver, and its answers to those of others."""

    def __init__(self, others: Others, states: States, sessions: Sessions) -> None:
        self._others, self._states, self._sessions = others, states, sessions
        self._kept: dict[tuple[str, str], tuple[float, Seen]] = {}
        self._asking: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def of(self, run: str = "", site: str = "") -> Seen:
        """The states of the streams of *run*, or of *site*, at the other receivers."""
        if not self._others.may_be:
            return Seen({}, (), None)
        clock = asyncio.get_running_loop().time
        async with self._asking.setdefault((run, site), asyncio.Lock()):
            at, seen = self._kept.get((run, site), (0.0, None))
            if seen is None or clock() - at > KEPT:
                told = await self._others.ask("States", run, site)
                infos: dict[StreamId, StreamInfo] = {}
                for raw in told.answers:
                    for info, _ in decode_infos(zlib.decompress(raw)) if raw else ():
                        before = infos.get(info.stream)
                        if info.state is not None and (
                            before is None or before.state is None or _is_later(info.state, before.state)
                        ):
                            infos[info.stream] = info
                seen = Seen(infos, told.silent, self._others.lost_for(), self._others.name)
                if len(self._kept) >= KEPT_MOST:
                    self._kept.clear()
                self._kept[run, site] = clock(), seen
            return seen._replace(age=clock() - self._kept[run, site][0])

    async def has(self, run: str, site: str) -> bool:
        """Whether another receiver has logs of *site* in *run* open, and this one has none."""
        if not self._others.may_be or self._sessions.of(run, site):
            return False
        seen = await self.of(run, site)
        return any(info.state is not None and info.state.linked for info in seen.infos.values())

    async def answer(self, run: str, site: str) -> bytes:
        """This receiver's states, for another one; empty: it has met no such stream."""
        parts = []
        for stream in self._states.of_run(run, site):
            appender = self._sessions.appender(stream)
            info = appender.info if appender is not None else StreamInfo(stream, 0, 0, 0, False)
            state = changed(self._states.of(stream), receiver=self._others.name)
            parts.append(encode_info((changed(info, marks=(), state=state), 0)))
        return zlib.compress(encode_infos(parts), 1) if parts else b""
