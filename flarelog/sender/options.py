"""The options of a sidecar: each option once, with its default and its help."""

from __future__ import annotations

from dataclasses import field

from flarelog.delivery.producer import DeliveryOptions
from flarelog.errors import InvalidOption
from flarelog.model import Started
from flarelog.names import receiver_ends, run_name, site_name
from flarelog.options import option
from flarelog.proxies import PROXY, route
from flarelog.security.tls import Tls
from flarelog.sources.base import Wanted
from flarelog.values import frozen
from flarelog.wire.heartbeat import HEARTBEAT
from flarelog.wire.packing import AVAILABLE, COMPRESSIONS, Compression, check

LEAST, LONGEST = 0.001, 1e9  # seconds
DRAIN_TIMEOUT = 25.0  # seconds; a little less than the default grace period of Kubernetes after SIGTERM


@frozen
class SidecarOptions:
    """The options of a sidecar. Raises InvalidName and InvalidOption."""

    receiver: str  # HOST:PORT, or several with commas: interchangeable ends of one store
    run: str
    site: str
    source: Wanted
    delivery: DeliveryOptions = field(default_factory=DeliveryOptions)
    state: str | None = option(
        None,
        "Directory for a cache of known files, so that a restart recognises renamed files. May be deleted.",
        path="directory",
    )
    once: bool = option(False, "Send what exists now, wait until all of it is stored, and end.")
    others: bool = False  # whether there are other receivers: log lines then name this one
    heed: bool = True  # drain when the receiver reports that the run is ending
    again: bool = False  # skip sealed streams whose files hold nothing more
    producer: bytes = b""  # the id by which the receiver knows the sidecar; empty: a new one
    started: Started | None = None  # when the sidecar was asked for; None: when it connects
    ranks: bool = option(
        True,
        "Read ranks (RANK, LOCAL_RANK, ...) from the environment of the processes that write the logs.",
        flags={"no-ranks": "off"},
    )
    compression: Compression = option(
        "auto",
        "Compress logs on their way, where the receiver accepts it. auto: not on loopback."
        + ("" if AVAILABLE else " Needs pip install backports.zstd."),
        choices=COMPRESSIONS,
    )
    drain_timeout: float = option(
        DRAIN_TIMEOUT,
        "Seconds without progress after which a drain (--once, SIGTERM) ends with exit code 4 or 7.",
        unit="seconds",
    )
    drain_limit: float | None = option(
        None,
        "Seconds after which a drain (--once, SIGTERM) ends, with exit code 7 (or 4).  [default: none]",
        unit="seconds",
    )
    heartbeat: float = HEARTBEAT  # seconds
    proxy: str = option("", PROXY, metavar="URL|off")
    tls: Tls | None = None  # the CA that the receiver must have, and this site's certificate

    def __post_init__(self) -> None:
        run_name(self.run)
        site_name(self.site)
        for name in ("drain_timeout", "drain_limit", "heartbeat"):
            bound = getattr(self, name)
            if bound is not None and not LEAST <= bound <= LONGEST:
                raise InvalidOption(
                    f"{name} must be a positive number of seconds, not {bound:g}: from {LEAST} to {LONGEST:g}"
                )
        if self.tls is not None:
            self.tls.whole()
        check(self.compression)
        for end in receiver_ends(self.receiver):
            route(end, self.proxy)
