"""When a heartbeat is due, and when silence is a timeout. Times are seconds on any clock that only goes forward."""

from __future__ import annotations

from flarelog.errors import InvalidOption

HEARTBEAT = 15.0
IDLE_TIMEOUT = 60.0


class Liveness:
    """Watches one direction each way of one connection.

    *interval*: a heartbeat is due when nothing was sent for so long. *timeout*: silence of the other end for longer
    than this is the end. Raises InvalidOption when the timeout leaves no room for a heartbeat to be late.
    """

    def __init__(self, now: float, *, interval: float = HEARTBEAT, timeout: float = IDLE_TIMEOUT) -> None:
        if not 0 < interval < timeout:
            raise InvalidOption(
                f"the idle timeout ({timeout:g} s) must be longer than the heartbeat interval ({interval:g} s)"
            )
        self.interval = interval
        self.timeout = timeout
        self._sent = now
        self._heard = now

    def sent(self, now: float) -> None:
        self._sent = now

    def heard(self, now: float) -> None:
        self._heard = now

    def heartbeat_in(self, now: float) -> float:
        """Seconds until a heartbeat is due; 0 when it is."""
        return max(0.0, self._sent + self.interval - now)

    def timeout_in(self, now: float) -> float:
        """Seconds until silence is a timeout; 0 when it is."""
        return max(0.0, self._heard + self.timeout - now)

    def silent_for(self, now: float) -> float:
        return now - self._heard
