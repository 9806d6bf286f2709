"""Every site's log of a federated run in one place, live, complete and byte for byte."""

from flarelog.version import __version__

__all__ = ["__version__"]
