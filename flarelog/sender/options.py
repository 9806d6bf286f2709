"""What a sidecar sends where, and how: each option once, with its default and what is to be known of it."""

from __future__ import annotations

from dataclasses import field

from flarelog.delivery.producer import DeliveryOptions
from flarelog.errors import InvalidOption
from flarelog.names import receiver_address, run_name, site_name
from flarelog.options import option
from flarelog.security.tls import Tls
from flarelog.sources.base import Wanted
from flarelog.values import frozen
from flarelog.wire.heartbeat import HEARTBEAT
from flarelog.wire.packing import AVAILABLE, COMPRESSIONS, Compression, check

LEAST, LONGEST = 0.001, 1e9  # seconds
DRAIN_TIMEOUT = 25.0  # seconds; a little less than what Kubernetes grants after SIGTERM if nothing moves


@frozen
class SidecarOptions:
    """What is sent where. Raises InvalidName and InvalidOption."""

    receiver: str  # HOST:PORT
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
    others: bool = False  # receivers beside this one: what is said of a log names this one
    heed: bool = True  # drain when the receiver says that the run is ending
    again: bool = False  # open no stream that is sealed and whose files hold nothing more
    ranks: bool = option(
        True,
        "Read ranks (RANK, LOCAL_RANK, ...) from the environment of the processes that write the logs.",
        older="no-ranks",
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
    )
    drain_limit: float | None = option(
        None,
        "Seconds after which a drain (--once, SIGTERM) ends, with exit code 7 (or 4).  [default: none]",
    )
    heartbeat: float = HEARTBEAT  # seconds
    tls: Tls | None = None  # what the receiver is believed by, and who this is

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
        receiver_address(self.receiver)
