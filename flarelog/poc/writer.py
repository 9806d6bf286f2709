"""A site's training process: writes what training writes, or replays files, and remembers exactly what it wrote.

``log.txt`` holds time stamped lines, losses, tracebacks and bursts, and rotates by renaming as Python's
RotatingFileHandler does; ``rank-0/stderr.log`` holds progress bars that are redrawn behind carriage returns, and is
truncated or removed when that is ordered. At the end the SHA-256 of all bytes of each log, in the order of writing and
generation by generation, goes to the truth file, without those that were written to be lost.

Orders are lines on stdin; each is answered by a line with what the log should come to hold. Without them (stdin at its
end) the writer ends when all is written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import select
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BACKUPS = 20
_BLOCKS = " ▏▎▍▌▋▊▉█"
_TRACEBACK = """Traceback (most recent call last):
  File "train.py", line {line}, in step
    loss = model(batch.to(device))
RuntimeError: CUDA out of memory. Tried to allocate {size}.00 MiB (GPU 0; 15.78 GiB total capacity)
"""


LOSS = 8000  # bytes written to be lost at a time: gRPC sends so many before it needs an answer
TAIL = 20_000  # bytes written right before a log is removed


@dataclass
class Generation:
    """The bytes written between two rotations, truncations or removals."""

    written: int = 0
    lost: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)  # of the bytes that were not lost


@dataclass
class Log:
    """One log that is being written, through all its generations."""

    name: str
    path: Path
    generations: list[Generation] = field(default_factory=list)
    _digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._open()

    def _open(self) -> None:
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  open until it is rotated
        self.generations.append(Generation())

    @property
    def written(self) -> int:
        return sum(generation.written for generation in self.generations)

    @property
    def lost(self) -> int:
        return sum(generation.lost for generation in self.generations)

    def write(self, data: bytes, *, to_be_lost: bool = False) -> None:
        self._file.write(data)
        generation = self.generations[-1]
        generation.written += len(data)
        if to_be_lost:
            generation.lost += len(data)
        else:
            generation.digest.update(data)
            self._digest.update(data)

    def rotate(self) -> None:
        """log.txt becomes log.txt.1, log.txt.1 becomes log.txt.2, and so on."""
        self._file.close()
        for number in range(BACKUPS, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path.with_name(f"{self.path.name}.{number - 1}") if number > 1 else self.path
            if newer.exists():
                os.replace(newer, older)
        self._open()

    def truncate(self) -> None:
        self._file.truncate(0)
        self.generations.append(Generation())

    def remove(self) -> None:
        self._file.close()
        self.path.unlink()
        self._open()

    def close(self) -> None:
        self._file.close()

    def truth(self) -> dict[str, object]:
        return {
            "bytes": self.written,
            "lost": self.lost,
            "sha256": self._digest.hexdigest(),
            "generations": [
                {"bytes": one.written, "lost": one.lost, "sha256": one.digest.hexdigest()} for one in self.generations
            ],
        }


class Orders:
    """The orders for *log*; *pieces* gives its content.

    ``hold`` writes a little more and then nothing until the next order other than ``lose``, which writes LOSS bytes
    that are to be lost; ``truncate`` and ``remove`` begin another generation. ``rotate-once`` allows at most one
    rotation before ``rotate``: a file that was created and renamed while no sidecar ran would be a log of its own.
    """

    def __init__(self, log: Log, pieces: Iterator[bytes]) -> None:
        self.held = 0.0  # seconds without writes, by order
        self._rotations: int | None = None  # rotations still allowed; None: any
        self._log, self._pieces = log, pieces
        self._raw = b""
        self._holding = self._over = False

    def may_rotate(self) -> bool:
        """Whether the rotation that is due may come now; a yes counts it."""
        if self._rotations is not None:
            self._rotations -= 1
        return self._rotations is None or self._rotations >= 0

    def heed(self, seconds: float) -> None:
        """Follow orders for *seconds*, and for as long as the log is held."""
        begin = time.monotonic() - self.held
        while not self._over:
            left = begin + self.held + seconds - time.monotonic()
            if left <= 0 and not self._holding:
                return
            began = time.monotonic()
            if select.select([sys.stdin], [], [], None if self._holding else left)[0]:
                self._hear()
            self.held += time.monotonic() - began if self._holding else 0.0
        time.sleep(max(0.0, begin + self.held + seconds - time.monotonic()))

    def finish(self) -> None:
        """Follow orders until stdin ends."""
        while not self._over:
            select.select([sys.stdin], [], [])
            self._hear()

    def _hear(self) -> None:
        data = os.read(sys.stdin.fileno(), 4096)
        if not data:
            self._over, self._holding = True, False
        *orders, self._raw = (self._raw + data).split(b"\n")
        for order in orders:
            self._obey(order.decode())
            answer = {"log": self._log.name, "kept": self._log.written - self._log.lost}
            print(json.dumps(answer), flush=True)

    def _obey(self, order: str) -> None:
        self._holding = order in ("hold", "lose")
        match order:
            case "rotate" | "rotate-once":
                self._rotations = 1 if order == "rotate-once" else None
                return
            case "lose":
                self._log.write(self._some(LOSS), to_be_lost=True)
                return
            case "truncate":
                self._log.truncate()
            case "remove":
                self._log.write(self._some(TAIL))
                self._log.remove()
        self._log.write(next(self._pieces))

    def _some(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += next(self._pieces)
        return data[:size]


def training(rng: random.Random) -> Iterator[bytes]:
    """The output of a training loop, a piece at a time; never ends."""
    epoch = step = 0
    while True:
        step += 1
        if step % 500 == 0:
            epoch += 1
        # A fixed clock: the same seed writes the same bytes.
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(1_767_225_600 + step // 10))
        loss = 2.3 / (1 + step / 400) + rng.random() / 10
        yield f"{stamp},{rng.randrange(1000):03d} - INFO - epoch {epoch} step {step} loss {loss:.4f}\n".encode()
        if rng.random() < 0.002:
            yield _TRACEBACK.format(line=rng.randrange(20, 400), size=rng.choice((20, 224, 1024))).encode()
        if rng.random() < 0.01:  # a line in two writes, cut inside a glyph
            text = f"{stamp} - WARNING - Gradientennorm über {rng.randrange(100)} → abgeschnitten ✂\n".encode()
            cut = rng.randrange(1, len(text))
            yield text[:cut]
            yield text[cut:]


def bars(rng: random.Random) -> Iterator[bytes]:
    """Progress bars as tqdm draws them; never ends."""
    while True:
        total = rng.randrange(200, 900)
        for done in range(total + 1):
            eighths = done * 240 // total
            bar = "█" * (eighths // 8) + (_BLOCKS[eighths % 8] if eighths % 8 else "")
            yield f"\rround: {done * 100 // total:3d}%|{bar:<30}| {done}/{total} [{rng.random() * 99:.1f}it/s]".encode()
        yield b"\n"


def write(directory: Path, rng: random.Random, size: int, seconds: float, rotations: int) -> list[Log]:
    """Write *size* bytes in about *seconds* seconds, in bursts with quiet spells between them."""
    logs = [Log(name, directory / name) for name in ("log.txt", "rank-0/stderr.log")]
    shares = [size * 3 // 4, size - size * 3 // 4]
    pieces = [training(rng), bars(rng)]
    orders = Orders(logs[1], pieces[1])
    rotate_at = [shares[0] * (n + 1) // (rotations + 1) for n in range(rotations)]
    begin = time.monotonic()
    while any(log.written < share for log, share in zip(logs, shares, strict=True)):
        for log, share, piece in zip(logs, shares, pieces, strict=True):
            burst = rng.randrange(1, max(2, share // 40))
            while burst > 0 and log.written < share:
                data = next(piece)[: share - log.written]
                log.write(data)
                burst -= len(data)
                if log is logs[0] and rotate_at and log.written >= rotate_at[0] and orders.may_rotate():
                    del rotate_at[0]
                    log.rotate()  # at once, while the tail is unread
        done = sum(log.written for log in logs) / max(1, size)
        wait = begin + orders.held + done * seconds - time.monotonic()
        orders.heed(max(0.0, wait) * rng.uniform(0.5, 1.0))
    orders.finish()
    return logs


def replay(source: Path, directory: Path, seconds: float, rotations: int) -> list[Log]:
    """Write the files under *source* again, each in about *seconds* seconds, all at the same time."""
    contents = {}
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        name = re.sub(r"[^A-Za-z0-9._/-]", "_", path.relative_to(source).as_posix())
        contents[name] = path.read_bytes()
    logs = [Log(name, directory / name) for name in contents]
    steps = max(10, int(seconds / 0.05))
    for step in range(1, steps + 1):
        for log in logs:
            content = contents[log.name]
            log.write(content[log.written : len(content) * step // steps])
            if rotations and step % (steps // (rotations + 1)) == 0 and len(log.generations) <= rotations:
                log.rotate()
        time.sleep(seconds / steps)
    return logs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("truth", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rotations", type=int, default=0)
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay is not None:
        logs = replay(options.replay, options.directory, options.seconds, options.rotations)
    else:
        rng = random.Random(options.seed)
        logs = write(options.directory, rng, options.bytes, options.seconds, options.rotations)
    for log in logs:
        log.close()
    options.truth.write_text(json.dumps({log.name: log.truth() for log in logs}))


if __name__ == "__main__":
    main()
