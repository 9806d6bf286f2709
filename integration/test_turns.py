"""A receiver's loop while hostile logs arrive and are read through filters: no turn takes long.

The CPU time of each turn of the loop is measured in a real ``flarelog serve``, so that other processes count as little
as possible.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable

import pytest

from integration.harness.places import RUN, Place, Program, append, until

# CPU seconds of a turn. The aim is 0.02, and on a quiet machine 3 of 3,000 turns take longer; here other tests share
# the cores and their caches. A turn that grows with the text takes a second and more.
LONG, LONGEST = 0.05, 0.25
SHARE = 0.001  # the share of turns that may be LONG

MEASURED = f"""
LONG = {LONG}
import asyncio, json, signal, sys, time
turn, turns = asyncio.base_events.BaseEventLoop._run_once, []
def measured(loop):
    began = time.thread_time()
    turn(loop)
    turns.append(time.thread_time() - began)
asyncio.base_events.BaseEventLoop._run_once = measured
signal.signal(signal.SIGUSR2, lambda *_: turns.clear())
from flarelog.cli import main
try:
    main(prog_name="flarelog")
finally:
    found = sorted(turns)
    late = sum(turn > LONG for turn in found)
    print(json.dumps(dict(turns=len(found), late=late, most=found[-9:])), file=sys.stdout, flush=True)
"""


def of(size: int, *pieces: bytes) -> bytes:
    return b"".join(
        (piece * (size // len(pieces) // len(piece) + 1))[: size // len(pieces)] + b"\n" for piece in pieces
    )


HOSTILE = {
    "bells": (b"\a\n",),
    "matches": (b"yx\n",),
    "returns": (b"x\ry\n",),
    "directions": ("x\u202ey\n".encode(),),
    "moves": (b"\x1b[A\n",),
    "sequences": (b"\x1b[", b"\x1b[2Jx", b"\x1b[31mx\x1b[0m\n"),
    "states": (b"x." * 15_000 + b"y" + b"\r." * 17_000 + b"\n",),
    "empty": (b"\n", b"x\n", b"\0\n"),
}
READS = [
    ("-i", "yx|xx"),
    ("-i", "(?i)kx|sx|ix", "-C", "10000"),
    ("-i", "|".join(f"x{letter}" for letter in "abcdefghijklmnop"), "-B", "10000"),
    ("--first-error",),
]


@pytest.mark.parametrize(
    ("size", "each"),
    [
        pytest.param(160 << 10, 1, id="little"),
        pytest.param(512 << 10, 1, id="once", marks=pytest.mark.soak),
        pytest.param(1 << 20, 2, id="twice-as-much-twice", marks=pytest.mark.soak),
    ],
)
def test_no_turn_of_a_receivers_loop_is_long(
    place: Place, size: int, each: int, record_property: Callable[[str, object], None]
) -> None:
    receiver = place.serve(plain=(sys.executable, "-c", MEASURED))
    logs = {f"{name}.log": of(size, *pieces) for name, pieces in HOSTILE.items()}
    for name, data in logs.items():
        append(place.root / name, data)
    sidecar = place.sidecar(receiver, "--include", "*.log")
    until(lambda: all(receiver.stored(name) == data for name, data in logs.items()), "all is there")
    receiver.program.tell(signal.SIGUSR2)
    where = ("--receiver", receiver.address)
    asked: list[Program] = [place.start("logs", RUN, *read, *where) for read in READS for _ in range(each)]
    follower = place.start("follow", RUN, "-i", "yx", *where)
    for name, data in logs.items():  # more bytes come during the reads
        append(place.root / name, data[: size // 4])
    for program in asked:
        program.ends(180.0)
    until(
        lambda: all(len(receiver.stored(name)) == len(data) + size // 4 for name, data in logs.items()),
        "more is there",
        60.0,
    )
    for program in (sidecar, follower):
        program.tell(signal.SIGINT)
    assert receiver.stop() == 0
    found = json.loads(receiver.program.printed.splitlines()[-1])
    record_property("turns", found)
    print(found)
    assert found["turns"] > 1000
    assert found["late"] <= 1 + SHARE * found["turns"], found
    assert found["most"][-1] < LONGEST, found
