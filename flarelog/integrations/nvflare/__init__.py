"""NVFlare 2.7 to 2.9: complete live logs of every job, without touching NVFlare's files.

FlarelogSite and FlarelogServer live in the parent processes, declared in ``local/flarelog__p_resources.json``; they see
every job, and outlive it. FlarelogProducer and FlarelogReceiver are components of one job, for people who cannot touch
the sites. All of them speak with the start-up kit's certificates. Whatever goes wrong with a log is a warning: no job
fails, and no site's log gets an ERROR, because of flarelog.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flarelog.integrations.nvflare.job import FlarelogProducer, FlarelogReceiver
    from flarelog.integrations.nvflare.server import FlarelogServer
    from flarelog.integrations.nvflare.site import FlarelogSite

__all__ = ["FlarelogProducer", "FlarelogReceiver", "FlarelogServer", "FlarelogSite"]

_HOMES = {"FlarelogProducer": "job", "FlarelogReceiver": "job", "FlarelogServer": "server", "FlarelogSite": "site"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # First: it refuses, in one sentence, a release whose names cannot be imported.
    import_module(f"{__name__}.version")
    component = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    # What exports a job writes this path into it, and it is the one that is promised.
    component.__module__ = __name__
    return component
