"""Numbered lines at a given rate, as a container writes them: ``write.py --lines 500000 --rate 20000``.

Line N is ``N`` in nine digits, a space, and filler up to the width: ``line`` below, which the tests know, too.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time


def line(number: int, width: int = 100) -> bytes:
    """*width* counts the newline."""
    return b"%09d " % number + b"x" * (width - 11) + b"\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.0, help="lines a second; 0: as fast as possible")
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--stderr", type=int, default=0, help="every so many lines one goes to stderr; 0: none")
    parser.add_argument(
        "--exit", type=int, default=0, help="the exit code at the end; negative: minus a signal's number"
    )
    options = parser.parse_args()
    asked: list[int] = []  # to end, by SIGTERM, which the first process of a container ignores without a handler
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    begun = time.monotonic()
    number, end = options.first, options.first + options.lines
    while number < end and not asked:
        due = end
        if options.rate:
            due = min(end, options.first + int((time.monotonic() - begun) * options.rate) + 1)
            if due <= number:
                time.sleep(min(1.0, max(0.005, 1 / options.rate)))
                continue
        while number < due:
            to_stderr = options.stderr and number % options.stderr == options.stderr - 1
            write(2 if to_stderr else 1, line(number, options.width))
            number += 1
    if asked:
        write(1, b"ended after %d lines\n" % (number - options.first))
    sys.exit(options.exit)


def write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()
