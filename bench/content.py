"""Lines of a training log: time stamps, losses, progress bars, a traceback now and then."""

from __future__ import annotations

import functools
from pathlib import Path

_BLOCK = 1 << 20


def line(step: int) -> bytes:
    """The line of one training step."""
    seconds = step // 4
    clock = f"{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d},{step * 37 % 1000:03d}"
    if step % 50 == 0:
        share = step % 1000 // 10
        bar = "█" * (share // 4) + "▌" + " " * (25 - share // 4)
        return (
            f"\rEpoch {step // 1000}: {share:3d}%|{bar}| {step % 1000}/1000 [00:{share:02d}<01:00, 16.4it/s]".encode()
        )
    if step % 997 == 0:
        return b'Traceback (most recent call last):\n  File "train.py", line 88, in step\nRuntimeError: CUDA error\n'
    loss = 2.3 / (1 + step % 1000 / 100)
    return f"2025-06-01 {clock} - trainer - INFO - step={step} loss={loss:.6f} lr=1e-4 gpu_mem=71.3GiB\n".encode()


@functools.cache
def _block() -> bytes:
    return b"".join(line(step) for step in range(16_000))[:_BLOCK]


def write(path: Path, length: int) -> None:
    """Write *length* bytes of such lines; every MiB begins with a unique line, and the last line is complete."""
    block = _block()
    with open(path, "wb") as file:
        for begin in range(0, length, _BLOCK):
            own = b"=== MiB %d ===\n" % (begin >> 20)
            file.write((own + block)[: min(_BLOCK, length - begin)])
        file.seek(length - 1)
        file.write(b"\n")


def bars(path: Path, length: int) -> None:
    """Write one line of about *length* bytes: a progress bar that is redrawn again and again."""
    steps, done = 1_000_000, b""
    with open(path, "wb") as file:
        for step in range(steps):
            share = step * 100 // steps
            bar = "\u2588" * (share // 4) + " " * (25 - share // 4)
            done += f"\rEpoch 3: {share:3d}%|{bar}| {step}/{steps} [00:{share:02d}<01:00, loss={step % 997}]".encode()
            if len(done) >= 1 << 20:
                length -= file.write(done)
                done = b""
                if length <= 0:
                    return
