"""``python -m flarelog`` is the command ``flarelog``."""

from flarelog.cli import main

if __name__ == "__main__":
    main(prog_name="flarelog")
