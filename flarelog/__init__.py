"""Every site's log of a federated run in one place, live, complete and byte for byte.

The names below are for programs that embed flarelog. Each one is imported on first use, so ``import flarelog`` costs
nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from flarelog.version import __version__

if TYPE_CHECKING:
    from flarelog.bus import Bus, Notice
    from flarelog.errors import FlarelogError
    from flarelog.integrations.producer import Producer
    from flarelog.integrations.receiver import Receiver
    from flarelog.lifecycle import Event
    from flarelog.placeholders import Placeholder
    from flarelog.security.tls import Tls

__all__ = ["Bus", "Event", "FlarelogError", "Notice", "Placeholder", "Producer", "Receiver", "Tls", "__version__"]

_HOMES = {
    "Bus": "flarelog.bus",
    "Event": "flarelog.lifecycle",
    "FlarelogError": "flarelog.errors",
    "Notice": "flarelog.bus",
    "Placeholder": "flarelog.placeholders",
    "Producer": "flarelog.integrations.producer",
    "Receiver": "flarelog.integrations.receiver",
    "Tls": "flarelog.security.tls",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'flarelog' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
