"""Append to a file at a fixed rate until killed: ``python -m bench.pace FILE BYTES-A-SECOND``."""

from __future__ import annotations

import sys
import time

from bench import content

_EACH = 0.002  # seconds between writes


def main(path: str, rate: int) -> None:
    block = b"".join(map(content.line, range(40_000)))
    begin, written = time.perf_counter(), 0
    with open(path, "ab", buffering=0) as file:
        while True:
            due = int((time.perf_counter() - begin) * rate) - written
            while due > 0:
                at = written % len(block)
                wrote = file.write(block[at : at + due])
                written, due = written + wrote, due - wrote
            time.sleep(_EACH)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
