"""The command ``flarelog``, also run as ``python -m flarelog``."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command that argv names, then exit."""
    gc.disable()  # imported modules stay, and scanning them for garbage would cost 5 % of a short command
    from flarelog.cli import main as command

    command(prog_name="flarelog")


if __name__ == "__main__":
    main()
