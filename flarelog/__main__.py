"""The command ``flarelog``, which is ``python -m flarelog`` as well."""

from __future__ import annotations

import gc


def main() -> None:
    """Do what argv says, and end the process."""
    gc.disable()  # what is imported stays: looking for garbage in it would cost a twentieth of a short command
    from flarelog.cli import main as command

    command(prog_name="flarelog")


if __name__ == "__main__":
    main()
