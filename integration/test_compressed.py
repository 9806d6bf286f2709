"""A sidecar is killed while a writer rotates its log and gzip compresses the rotated files.

The judge is the written bytes. The log has all bytes of each generation, in the order of births, or a prefix of them
and a gap of the rest's length. Only a generation that was compressed before its first byte was read is a log of its
own, that of the ``.gz`` file.
"""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from integration.harness.places import SITE, Place, Receiver, free_address, until

LOG = "log.txt"
RATE = 1_000_000  # bytes a second of the receiver: low, so that a kill meets partly sent generations
LINES = (1, 300, 20_000, 60_000)  # lines of a generation


@dataclass
class Writer:
    """Writes generations that differ in every line; rotates and compresses them as logrotate does."""

    root: Path
    chance: random.Random
    delayed: bool  # logrotate's delaycompress
    written: list[bytes] = field(default_factory=list)

    def write(self) -> None:
        number = len(self.written)
        data = b"".join(b"generation %d line %d\n" % (number, n) for n in range(self.chance.choice(LINES)))
        with open(self.root / LOG, "ab", buffering=0) as log:
            for at in range(0, len(data), 1 << 16):
                log.write(data[at : at + (1 << 16)])
        self.written.append(data)

    def rotate(self) -> None:
        first, second = self.root / f"{LOG}.1", self.root / f"{LOG}.2"
        for number in range(len(self.written), 0, -1):
            old = self.root / f"{LOG}.{number}.gz"
            if old.exists():
                os.rename(old, self.root / f"{LOG}.{number + 1}.gz")
        if first.exists():
            os.rename(first, second)
        os.rename(self.root / LOG, first)
        self.write()
        wanted = second if self.delayed else first
        if wanted.exists():
            subprocess.run(["gzip", str(wanted)], check=True)


@pytest.mark.parametrize(
    "delayed", [pytest.param(True, marks=pytest.mark.soak), False], ids=["delaycompress", "compress"]
)
def test_kills_while_generations_are_compressed(place: Place, delayed: bool) -> None:
    storm(place, 107, delayed, kills=4)


def storm(place: Place, seed: int, delayed: bool, kills: int) -> None:
    chance = random.Random(seed)
    writer = Writer(place.root, chance, delayed)
    writer.write()
    receiver = place.serve("--durability", "memory", "--max-run-rate", str(RATE), listen=free_address())
    sidecar = place.sidecar(receiver, "--include", f"{LOG}*")
    until(lambda: receiver.stored(LOG), "the first bytes come")
    for _ in range(kills):
        for _ in range(chance.choice((0, 1, 2))):
            writer.rotate()
            time.sleep(chance.choice((0.02, 0.3)))  # the writer's own pace, which the test varies
        sidecar.kill()
        for _ in range(chance.choice((1, 1, 2, 3))):
            writer.rotate()
        sidecar = place.sidecar(receiver, "--include", f"{LOG}*")
        sidecar.heeds_signals()
    until(lambda: receiver.stored(LOG).endswith(writer.written[-1][-60:]), "the last generation comes", 120.0)
    streams: dict[str, Any] = {}

    def all_there() -> bool:
        streams.update(place.streams("--store", str(receiver.store)))
        both = _stored(receiver, streams, writer.written), _beside(receiver, streams, writer.written)
        return sum(map(len, both)) >= len(writer.written)

    until(all_there, f"seed {seed}: every generation is stored", 60.0)
    code = sidecar.stop()
    assert code == (6 if streams[f"{SITE}/{LOG}"]["gaps"] else 0), sidecar.talk()
    streams.update(receiver.streams())
    beside = _beside(receiver, streams, writer.written)
    stored = _stored(receiver, streams, writer.written)
    assert sorted([*stored, *beside]) == list(range(len(writer.written))), f"seed {seed}"
    assert stored == sorted(stored), f"seed {seed}"


def _stored(receiver: Receiver, streams: dict[str, Any], written: list[bytes]) -> list[int]:
    """The generations in the log, whole or with a gap for the rest."""
    record, data = streams[f"{SITE}/{LOG}"], receiver.stored(LOG)
    gaps = {gap["offset"]: gap["length"] for gap in record["gaps"]}
    pieces: dict[str, tuple[bytes, int]] = {}
    for part in record["generations"]:
        end = part["offset"] + part["length"]
        pieces[part["identity"]] = pieces.get(part["identity"], (b"", 0))[0] + data[part["offset"] : end], end
    found = []
    for piece, end in pieces.values():
        if piece:
            found.append(int(piece.split(maxsplit=2)[1]))
            whole = written[found[-1]]
            assert whole.startswith(piece)
            assert piece == whole or gaps.get(end) == len(whole) - len(piece) or not record["sealed"]
    return found


def _beside(receiver: Receiver, streams: dict[str, Any], written: list[bytes]) -> list[int]:
    """The generations in other logs; a log has several if their files had the same name."""
    found = []
    for name in streams.keys() - {f"{SITE}/{LOG}"}:
        log = name.partition("/")[2]
        assert log.endswith(".gz"), log
        try:
            data = gzip.decompress(receiver.stored(log))
        except (EOFError, gzip.BadGzipFile):  # the file is still being sent
            continue
        while data:
            found.append(int(data.split(maxsplit=2)[1]))
            assert data.startswith(written[found[-1]])
            data = data[len(written[found[-1]]) :]
    return found


def test_what_was_compressed_before_it_was_sent_is_said(place: Place) -> None:
    receiver, log = place.serve(), place.root / LOG
    log.write_bytes(b"sent\n" * 500)
    assert place.sidecar(receiver, "--include", f"{LOG}*", "--once").ends() == 0
    with open(log, "ab") as file:
        file.write(rest := b"not sent\n" * 300)
    os.rename(log, place.root / f"{LOG}.1")
    log.write_bytes(b"next\n")
    subprocess.run(["gzip", place.root / f"{LOG}.1"], check=True)
    sidecar = place.sidecar(receiver, "--include", f"{LOG}*", "--once")
    assert sidecar.ends() == 6, sidecar.talk()
    lost = f"gap at offset 2500: {len(rest):,} bytes were compressed before they were sent: they are in {LOG}.1.gz"
    assert sidecar.said.count(f" WARNING sidecar: run-1/{SITE}/{LOG}: {lost}") == 1, sidecar.said
    assert f"{LOG}.1.gz is a compressed copy of a log, and copies are not sent" in sidecar.said
