"""A site's training process: writes what training writes, or replays files, and remembers exactly what it wrote.

``log.txt`` holds time stamped lines, losses, tracebacks and bursts, and rotates by renaming as Python's
RotatingFileHandler does; ``rank-0/stderr.log`` holds progress bars that are redrawn behind carriage returns. At the
end the SHA-256 of all bytes of each log, in the order of writing, goes to the truth file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
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


@dataclass
class Log:
    """One log that is being written, through all its rotations."""

    path: Path
    written: int = 0
    generations: int = 1
    _digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  open until it is rotated

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.written += len(data)

    def rotate(self) -> None:
        """log.txt becomes log.txt.1, log.txt.1 becomes log.txt.2, and so on."""
        self._file.close()
        for number in range(BACKUPS, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            newer = self.path.with_name(f"{self.path.name}.{number - 1}") if number > 1 else self.path
            if newer.exists():
                os.replace(newer, older)
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115  open until it is rotated
        self.generations += 1

    def truth(self) -> dict[str, object]:
        return {"bytes": self.written, "sha256": self._digest.hexdigest(), "generations": self.generations}


def training(rng: random.Random) -> Iterator[bytes]:
    """What a training loop logs, a piece at a time; never ends."""
    epoch = step = 0
    while True:
        step += 1
        if step % 500 == 0:
            epoch += 1
        # Not the clock's time: the same seed writes the same bytes.
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


def write(directory: Path, rng: random.Random, size: int, seconds: float, rotations: int) -> dict[str, Log]:
    """Write *size* bytes in about *seconds* seconds, in bursts with quiet spells between them."""
    logs = {"log.txt": Log(directory / "log.txt"), "rank-0/stderr.log": Log(directory / "rank-0/stderr.log")}
    shares = {"log.txt": size * 3 // 4, "rank-0/stderr.log": size - size * 3 // 4}
    pieces = {"log.txt": training(rng), "rank-0/stderr.log": bars(rng)}
    rotate_at = [shares["log.txt"] * (n + 1) // (rotations + 1) for n in range(rotations)]
    begin = time.monotonic()
    while any(log.written < shares[name] for name, log in logs.items()):
        for name, log in logs.items():
            burst = rng.randrange(1, max(2, shares[name] // 40))
            while burst > 0 and log.written < shares[name]:
                data = next(pieces[name])[: shares[name] - log.written]
                log.write(data)
                burst -= len(data)
                if name == "log.txt" and rotate_at and log.written >= rotate_at[0]:
                    del rotate_at[0]
                    log.rotate()  # at once: the tail is not read yet
        done = sum(log.written for log in logs.values()) / max(1, size)
        time.sleep(max(0.0, begin + done * seconds - time.monotonic()) * rng.uniform(0.5, 1.0))
    return logs


def replay(source: Path, directory: Path, seconds: float, rotations: int) -> dict[str, Log]:
    """Write the files under *source* again, each in about *seconds* seconds, all at the same time."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    names = {path: re.sub(r"[^A-Za-z0-9._/-]", "_", path.relative_to(source).as_posix()) for path in files}
    logs = {names[path]: Log(directory / names[path]) for path in files}
    contents = {names[path]: path.read_bytes() for path in files}
    steps = max(10, int(seconds / 0.05))
    for step in range(1, steps + 1):
        for name, log in logs.items():
            log.write(contents[name][log.written : len(contents[name]) * step // steps])
            if rotations and step % (steps // (rotations + 1)) == 0 and log.generations <= rotations:
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
    options.truth.write_text(json.dumps({name: log.truth() for name, log in logs.items()}))


if __name__ == "__main__":
    main()
