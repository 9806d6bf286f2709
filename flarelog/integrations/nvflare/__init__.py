"""NVFlare 2.7 to 2.9: complete live logs of every job, without touching NVFlare's files.

FlarelogSite and FlarelogServer live in the parent processes, declared in ``local/flarelog__p_resources.json``; they see
every job, and outlive it. FlarelogProducer and FlarelogReceiver are components of one job, for users who cannot change
the sites. All of them use the start-up kit's certificates. An error of flarelog is logged as a warning: it fails no
job, and puts no ERROR into a site's log.
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
    # First, because it refuses an unsupported release in one sentence, before an import fails.
    import_module(f"{__name__}.version")
    component = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    # A job export contains this path, which is the documented one.
    component.__module__ = __name__
    return component
