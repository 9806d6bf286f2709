"""Whether compressing a stream's chunks is worth what it takes: learnt from the chunks themselves, told the time.

Laws that hold here: bytes that do not become fewer are sent as they are, and are tried again later, the later the more
often it was in vain; whoever may choose compares, while there is a backlog, how fast it goes with and without, but only
where compressing takes most of the time: where the network is what they wait for, there is nothing to ask.
"""

from __future__ import annotations

LEAST = 512
"""Bytes of a chunk from which on it is tried: of fewer there is little to gain, whatever they are."""
BULK = 64 << 10
"""Bytes of a chunk from which on it counts as a piece of a backlog."""
PAYS = 1.3
"""How many times as long as its compressed form a chunk must be."""
REST, LONGEST_REST = 4 << 20, 256 << 20  # bytes that are not tried after a chunk that did not pay, doubling
SETTLE, LAP = 16 << 20, 16 << 20  # bytes: those that show nothing yet, and those that are timed
FASTER = 1.3  # times, that sending as it is must be to be preferred: compressed it is a fraction for the network
MOST = 0.6  # of the time, that compressing must take for that to be looked at
AGAIN, LONGEST_AGAIN = 60.0, 960.0  # seconds between two comparisons, doubling while nothing comes of them


class Worth:
    """One stream's. *compares*: whether compressing is given up where sending as it is goes faster."""

    def __init__(self, *, compares: bool) -> None:
        self._compares = compares
        self._rest = 0  # bytes that will not be tried
        self._next_rest = REST
        self._packs = True  # bulk chunks are compressed
        self._trying = False  # they are not, to see whether it goes faster
        self._compare_at = 0.0  # when the next comparison may be made
        self._again = AGAIN
        self._done = 0  # bytes of the present lap, settling included
        self._from = 0.0  # when its timed part began
        self._packing = 0.0  # seconds of it in which a chunk was compressed
        self._packed_lap = 0.0  # seconds that the latest compressed lap took

    def tries(self, size: int, now: float) -> bool:
        """Whether the next chunk, of *size* bytes, is to be compressed."""
        if size < LEAST:
            return False
        if size < BULK:
            self._over()
        elif self._compares and not self._lap(size, now):
            return False
        if self._rest > 0:
            self._rest -= size
            return False
        return True

    def pays(self, size: int, packed: int, seconds: float) -> bool:
        """Whether a chunk of *size* bytes, which is *packed* bytes after *seconds*, is to be sent so."""
        self._packing += seconds
        if packed * PAYS <= size:
            self._next_rest = REST
            return True
        self._rest, self._next_rest = self._next_rest, min(2 * self._next_rest, LONGEST_REST)
        return False

    def _over(self) -> None:
        """The backlog has ended, and with it the lap."""
        self._done = 0
        if self._trying:
            self._trying, self._packs = False, True

    def _lap(self, size: int, now: float) -> bool:
        """Whether the next chunk of a backlog may be compressed."""
        if not self._packs and not self._trying and now >= self._compare_at:
            self._switch(packs=True)
        if self._done < SETTLE:
            self._from, self._packing = now, 0.0
        took = now - self._from
        if self._trying and took * FASTER > self._packed_lap:
            self._trying, self._compare_at = False, now + self._again
            self._again = min(2 * self._again, LONGEST_AGAIN)
            self._switch(packs=True)
        elif self._done >= SETTLE + LAP:
            self._timed(took, now)
        self._done += size
        return self._packs

    def _timed(self, took: float, now: float) -> None:
        if self._trying:  # and not given up by now: it is faster
            self._trying, self._compare_at, self._again = False, now + AGAIN, AGAIN
        elif self._packs:
            self._packed_lap = took
            if self._packing >= took * MOST and now >= self._compare_at:
                self._trying = True
                self._switch(packs=False)
                return
        self._done, self._from, self._packing = SETTLE, now, 0.0

    def _switch(self, *, packs: bool) -> None:
        self._packs, self._done = packs, 0
