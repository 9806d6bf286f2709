"""What a sidecar sends, where, and for how long it tries."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from flarelog.delivery.producer import DeliveryOptions
from flarelog.errors import InvalidOption
from flarelog.model import parse_address, run_name, site_name
from flarelog.security.tls import Tls
from flarelog.sources.files.patterns import SourceOptions
from flarelog.wire.packing import Compression, check
from flarelog.wire.uplink import HEARTBEAT

DRAIN_TIMEOUT = 25.0  # seconds; a little less than what Kubernetes grants after SIGTERM if nothing moves


@dataclass(frozen=True, slots=True)
class SidecarOptions:
    """What is sent where. Raises InvalidName and InvalidOption."""

    receiver: str  # HOST:PORT
    run: str
    site: str
    source: SourceOptions
    delivery: DeliveryOptions = field(default_factory=DeliveryOptions)
    state: str | None = None  # directory of the checkpoint; None keeps none
    once: bool = False  # send what is there, wait for the receipts, end
    heed: bool = True  # drain when the receiver says that the run is ending
    again: bool = False  # open no stream that is sealed and whose files hold nothing more
    drain_timeout: float = DRAIN_TIMEOUT  # seconds for which a drain may go on though nothing is acknowledged
    drain_limit: float | None = None  # seconds that a drain may take whatever is acknowledged; None: any
    heartbeat: float = HEARTBEAT  # seconds
    tls: Tls | None = None  # what the receiver is believed by, and who this is
    ranks: bool = True  # look which ranks the processes have that write the logs
    compression: Compression = "auto"  # of what is sent; auto: not on loopback

    def __post_init__(self) -> None:
        run_name(self.run)
        site_name(self.site)
        for name in ("drain_timeout", "drain_limit", "heartbeat"):
            bound = getattr(self, name)
            if bound is not None and not 0 < bound < math.inf:
                raise InvalidOption(f"{name} must be a positive number of seconds, not {bound:g}")
        if self.tls is not None:
            self.tls.whole()
        check(self.compression)
        if parse_address(self.receiver)[1] == 0:
            raise InvalidOption(f"{self.receiver!r} has no port to connect to; write the one that the receiver named")
