"""A real sidecar and a real receiver, killed in turns while a writer rotates as fast as it can. The sidecar also drains
while its receiver is away, the receiver stalls, and its store is replaced by a backup.

The written bytes decide: the stored log must be the generations in the order of their births, each once, and no other
log may be stored. A drain's receipt is for a prefix of them.

    python -m integration.test_storms [--seconds N] [--seed N]

runs storms with other seeds until the time is up; ``make soak`` does so.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from integration.harness.mounts import Bound
from integration.harness.places import (
    SITE,
    Place,
    Program,
    Receiver,
    difference,
    free_address,
    new_place,
    nursery,
    until,
)

LOG = "log.txt"


@dataclass
class Writer:
    """Writes generations that differ in every line, and rotates them."""

    root: Path
    chance: random.Random
    names: str  # numbers, dates or olddir
    written: list[bytes] = field(default_factory=list)
    numbers: int = 0  # the number of backups

    def write(self) -> None:
        number = len(self.written)
        lines = (b"generation %d line %d\n" % (number, n) for n in range(self.chance.choice((1, 3, 200))))
        data = b"".join(lines)
        with open(self.root / LOG, "ab") as log:
            log.write(data)
        self.written.append(data)

    def more(self) -> None:
        line = b"more of generation %d\n" % (len(self.written) - 1)
        with open(self.root / LOG, "ab") as log:
            log.write(line)
        self.written[-1] += line

    def rotate(self) -> None:
        self.numbers += 1
        if self.names == "numbers":
            for number in range(self.numbers - 1, 0, -1):
                os.rename(self.root / f"{LOG}.{number}", self.root / f"{LOG}.{number + 1}")
            os.rename(self.root / LOG, self.root / f"{LOG}.1")
        elif self.names == "dates":
            os.rename(self.root / LOG, self.root / f"{LOG}.2026-11-22_{self.numbers:06d}")
        else:
            os.rename(self.root / LOG, self.root / "old" / f"{LOG}-20261122{self.numbers:06d}")

    def turns(self, count: int, pauses: tuple[float, ...]) -> None:
        """Rotate and write so many times at the writer's own pace, which the test varies."""
        for _ in range(count):
            self.rotate()
            if self.chance.random() < 0.2:
                time.sleep(0.005)  # the log is missing for a moment
            self.write()
            if self.chance.random() < 0.5:
                self.more()
            time.sleep(self.chance.choice(pauses))


def storm(
    place: Place,
    seed: int,
    names: str,
    include: str,
    old: int = 0,
    kills: int = 6,
    between: Callable[[], object] = lambda: None,
) -> int:
    """Play one storm; return the number of generations written. *between* is called while no sidecar runs. Raises
    AssertionError with the trouble.
    """
    chance = random.Random(seed)
    (place.root / "old").mkdir(exist_ok=True)
    writer = Writer(place.root, chance, names)
    for _ in range(old):
        writer.write()
        writer.rotate()
    first = old if include == LOG else 0  # files that were rotated before the first look do not match the pattern
    writer.write()
    receiver = place.serve("--durability", "memory", listen=free_address())
    sidecar = place.sidecar(receiver, "--include", include)
    come(receiver, b"".join(writer.written[first:]), seed)
    backup = Backup(receiver.store)
    for _ in range(kills):
        step = chance.choice(("kill", "kill", "kill", "drain", "drain", "stall", "backup"))
        if step == "stall":
            receiver.program.tell(signal.SIGSTOP)
            writer.turns(chance.randint(1, 6), (0.02, 0.1, 0.3))
            receiver.program.tell(signal.SIGCONT)
        elif step == "backup":
            receiver.program.kill()
            backup.turn()
            receiver = receiver.again("--durability", "memory")
        elif step == "drain":
            receiver = drain(sidecar, receiver, writer, first, seed)
            between()
            sidecar = place.sidecar(receiver, "--include", include)
        else:
            if chance.random() < 0.3:
                receiver.program.kill()
                receiver = receiver.again("--durability", "memory")
            sidecar.kill()
            between()
            writer.turns(chance.choice((0, 1, 2, 4)), (0, 0.001, 0.02))
            sidecar = place.sidecar(receiver, "--include", include)
        writer.turns(chance.randint(0, 12), (0.001, 0.02, 0.1, 0.3))
    wanted = b"".join(writer.written[first:])
    come(receiver, wanted, seed)
    sidecar.heeds_signals()
    assert sidecar.stop() == 0, sidecar.talk()
    assert receiver.stored(LOG) == wanted, trouble(receiver.stored(LOG), wanted, seed)
    receiver.holds(wanted, LOG)
    assert list(receiver.streams()) == [f"{SITE}/{LOG}"], f"seed {seed}"
    return len(writer.written)


class Backup:
    """Copies *store*, and at every second turn replaces it with the copy; no receiver may be there meanwhile."""

    def __init__(self, store: Path) -> None:
        self.store, self.copy = store, store.with_name("backup")

    def turn(self) -> None:
        if self.copy.exists():
            shutil.rmtree(self.store)
            self.copy.rename(self.store)
        else:
            shutil.copytree(self.store, self.copy, ignore=shutil.ignore_patterns(".lock*"))


def drain(sidecar: Program, receiver: Receiver, writer: Writer, first: int, seed: int) -> Receiver:
    """Drain *sidecar* while the receiver is killed and the log rotates on; return the next receiver."""
    sidecar.heeds_signals()
    sidecar.tell(signal.SIGTERM)
    time.sleep(writer.chance.choice((0, 0, 0.05)))
    if writer.chance.random() < 0.7:
        receiver.program.kill()
        writer.turns(writer.chance.randint(1, 8), (0.02, 0.1, 0.3))
        receiver = receiver.again("--durability", "memory")
    assert sidecar.ends() == 0, sidecar.talk()
    wanted, stored = b"".join(writer.written[first:]), receiver.stored(LOG)
    assert wanted.startswith(stored), trouble(stored, wanted, seed)
    return receiver


def come(receiver: Receiver, wanted: bytes, seed: int) -> None:
    """Wait until *wanted* bytes are stored. Only a time without progress fails, because the machine may be loaded."""

    had = -1

    def more() -> bool:
        nonlocal had
        before, had = had, len(receiver.stored(LOG))
        return had > before or had >= len(wanted)

    while had < len(wanted):
        until(more, lambda: trouble(receiver.stored(LOG), wanted, seed), 60.0)


def trouble(stored: bytes, wanted: bytes, seed: int) -> str:
    """The generations in their stored order, if that is not the order of their births."""
    numbers = [int(line.split()[-3 if b"line" in line else -1]) for line in stored.splitlines() if line]
    order = [n for n, before in zip(numbers, [-1, *numbers], strict=False) if n != before]
    odd = [(before, n) for before, n in itertools.pairwise(order) if n != before + 1]
    return f"seed {seed}: (generation, the one behind it): {odd[:10]}; {difference(wanted, stored)}"


@pytest.mark.parametrize(
    ("names", "include", "old"),
    [
        pytest.param("numbers", LOG, 0, id="numbers-out-of-the-patterns", marks=pytest.mark.soak),
        pytest.param("numbers", LOG, 300, id="numbers-out-of-the-patterns-and-many-old-files"),
        pytest.param("numbers", f"{LOG}*", 40, id="numbers", marks=pytest.mark.soak),
        pytest.param("dates", f"{LOG}*", 3, id="dates"),
        pytest.param("olddir", LOG, 0, id="another-directory-out-of-the-patterns", marks=pytest.mark.soak),
        pytest.param("olddir", f"{LOG}*", 0, id="another-directory"),
    ],
)
def test_names_that_move_while_a_sidecar_starts(place: Place, names: str, include: str, old: int) -> None:
    assert storm(place, 1, names, include, old) > 6


@pytest.mark.parametrize(
    ("names", "include"),
    [
        pytest.param("numbers", f"{LOG}*", id="numbers"),
        pytest.param("numbers", LOG, id="numbers-out-of-the-patterns", marks=pytest.mark.soak),
        pytest.param("dates", f"{LOG}*", id="dates", marks=pytest.mark.soak),
    ],
)
def test_names_that_move_where_neither_births_nor_handles_tell_files_apart(
    place: Place, names: str, include: str
) -> None:
    mount = Bound(place.root.with_name("under"), place.root)
    try:
        assert storm(place, 1, names, include, between=mount.anew) > 6
    finally:
        mount.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m integration.test_storms", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    end, seed, generations = time.monotonic() + options.seconds, options.seed, 0
    print(f"seed {seed}", flush=True)
    while time.monotonic() < end:
        chance = random.Random(seed)
        names = chance.choice(("numbers", "numbers", "dates", "olddir"))
        include = chance.choice((LOG, f"{LOG}*"))
        # No name tells that files of another directory were the log's before the first look.
        old = 0 if (names, include) == ("olddir", f"{LOG}*") else chance.choice((0, 0, 5, 60, 300))
        with new_place() as place:
            generations += storm(place, seed, names, include, old, 8)
        seed += 1
    print(f"{generations} generations: none lost, repeated, out of order or in another stream", flush=True)
    nursery().close()


if __name__ == "__main__":
    main()
