"""``flarelog`` under cProfile, from after its imports to its end: ``python -m bench.profiled FILE COMMAND ...``."""

from __future__ import annotations

import cProfile
import sys

from flarelog.cli import main, serve, sidecar  # imported before the profile begins

__all__ = ("serve", "sidecar")

if __name__ == "__main__":
    into = sys.argv.pop(1)
    profile = cProfile.Profile()
    try:
        profile.runcall(main)
    finally:
        profile.dump_stats(into)
