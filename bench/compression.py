"""Compression: the size of a training log on the wire, and the cost, with ``--compression on`` and off.

``bulk``: the bulk measurement over loopback, in turns. Loopback is faster than a core compresses, so it shows the cost
of compression, and the best rate of a stream. ``wire``: the bytes on the sidecar's connections, counted by a forwarder,
as a share of the log's. The lines of the log all differ, with numbers as training writes them: the lines of
``content`` repeat and would compress to nearly nothing.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import bulk, processes
from bench.results import Row

_BLOCK = 32 << 20  # bytes before the lines repeat: more than any window


def write(path: Path, length: int) -> None:
    """Write a training log of *length* bytes."""
    rng, block, size, step = random.Random(1), [], 0, 0
    while size < min(length, _BLOCK):
        step += 1
        block.append(_line(step, rng).encode())
        size += len(block[-1])
    data = b"".join(block)[:_BLOCK]
    with open(path, "wb") as file:
        for begin in range(0, length, _BLOCK):
            file.write(data[: min(_BLOCK, length - begin)])


def _line(step: int, rng: random.Random) -> str:
    now = step // 4
    loss = 2.3 / (1 + step % 10_000 / 500) * rng.uniform(0.97, 1.03)
    if step % 10 == 0:
        share = step % 1000 // 10
        bar = "█" * (share // 4) + " " * (25 - share // 4)
        speed = rng.uniform(3.5, 4.5)
        return f"\rEpoch {step // 1000}: {share:3d}%|{bar}| {step % 1000}/1000 [{speed:.2f}it/s, loss={loss:.3f}]"
    if step % 997 == 0:
        return 'Traceback (most recent call last):\n  File "train.py", line 88, in step\nRuntimeError: CUDA error\n'
    clock = f"2025-06-{1 + now // 86_400:02d} {now // 3600 % 24:02d}:{now // 60 % 60:02d}:{now % 60:02d}"
    return (
        f"{clock},{rng.randrange(1000):03d} - trainer - INFO - step={step} loss={loss:.6f}"
        f" grad_norm={rng.lognormvariate(0, 0.3):.4f} lr={1e-4 * (1 - step / 1e7):.3e}"
        f" gpu_mem={71 + rng.random():.1f}GiB tok/s={rng.randint(40_000, 41_000)}\n"
    )


def measure(source: Path, places: processes.Places, rounds: int) -> list[Row]:
    """Rows of both measurements; *source*, in ``places.memory``, is a training log."""
    packed, plain = bulk.interleaved(
        places.memory,
        rounds,
        lambda work: bulk.flarelog(source, work, places, "memory", "--compression", "on"),
        lambda work: bulk.flarelog(source, work, places, "memory", "--compression", "off"),
    )
    rows = [
        bulk.row("compression, bulk", "on", packed, {"this / off": bulk.rate(packed) / bulk.rate(plain)}),
        bulk.row("compression, bulk", "off", plain),
    ]
    for mode in ("on", "off"):
        carried = _wire(source, places, mode)
        ratios = {"log / this": 1 / carried} if mode == "on" else {}
        rows.append(Row("compression, wire", mode, "bytes a byte of the log", [carried], ratios=ratios))
    return rows


def _wire(source: Path, places: processes.Places, mode: str) -> float:
    with (
        processes.scratch(places.memory) as work,
        processes.scratch(places.memory) as root,
        processes.serve(work, "memory") as (_, address),
        _forwarder(address) as (near, carried),
    ):
        (root / bulk.LOG).hardlink_to(source)
        with processes.sidecar(work, near, root, "--once", "--compression", mode) as sending:
            processes.finish(sending, 600)
        stored = processes.size(work / "store" / "bench" / "site" / bulk.LOG)
        if stored != processes.size(source):
            raise processes.BenchError(f"{stored} bytes were stored of {processes.size(source)}")
        return sum(carried) / stored


@contextmanager
def _forwarder(address: str) -> Iterator[tuple[str, list[int]]]:
    """An address that forwards to *address*, and the sizes of the data from the sidecar."""
    carried: list[int] = []
    host, _, port = address.rpartition(":")

    def pump(source: socket.socket, target: socket.socket, sizes: list[int] | None) -> None:
        buffer = memoryview(bytearray(1 << 20))
        try:
            while size := source.recv_into(buffer):
                target.sendall(buffer[:size])
                if sizes is not None:
                    sizes.append(size)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def accept() -> None:
        while True:
            try:
                near, _ = listening.accept()
                far = socket.create_connection((host, int(port)))
            except OSError:
                return
            for ends in ((near, far, carried), (far, near, None)):
                threading.Thread(target=pump, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}", carried
        time.sleep(0.1)
