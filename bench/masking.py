"""Masking: bytes redacted a CPU second, with all patterns on, for usual lines and for hard ones: lines full of new
UUIDs and hashes, of counts of tokens, of colours, and JSON.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from bench.content import line
from bench.results import Row
from flarelog.sources.redaction.mask import Rules

PIECE = 1 << 18  # bytes redacted at once
RULES = Rules(("all",))


def _uuid(chance: random.Random) -> str:
    made = f"{chance.getrandbits(128):032x}"
    return f"{made[:8]}-{made[8:12]}-{made[12:16]}-{made[16:20]}-{made[20:]}"


def _job(step: int, chance: random.Random) -> str:
    return (
        f"2026-11-22 12:00:{step % 60:02d},123 - ClientRunner - INFO - [identity=site-{step % 8}, run={_uuid(chance)},"
        f" peer=server, task_name=train, task_id={_uuid(chance)}]: got task assignment"
    )


def _tokens(step: int, chance: random.Random) -> str:
    return (
        f"step={step} loss={chance.random():.6f} lr=3e-4 tokens_per_second={chance.random() * 1e4:.1f}"
        f" num_tokens={step * 4096} total_tokens: {step * 8192} mean_token_accuracy={chance.random():.4f}"
    )


def _hashes(step: int, chance: random.Random) -> str:
    return (
        f"2026-11-22 12:00:01 INFO saved {chance.getrandbits(160):040x} sha256={chance.getrandbits(256):064x}"
        f" to /data/{chance.getrandbits(64):016x}/model-{step}.bin"
    )


def _colours(step: int, chance: random.Random) -> str:
    pairs = (("loss", f"{chance.random():.5f}"), ("step", str(step)), ("tokens", str(step * 99)))
    shown = " ".join(f"\x1b[36m{name}\x1b[0m=\x1b[35m{value}\x1b[0m" for name, value in pairs)
    return f"\x1b[2m2026-11-22 12:00:01\x1b[0m [\x1b[32minfo     \x1b[0m] \x1b[1mstep\x1b[0m                {shown}"


def _json(step: int, chance: random.Random) -> str:
    return (
        f'{{"ts": "2026-11-22T12:00:01.{step:06d}", "level": "INFO", "rank": {step % 8}, "msg": "step done",'
        f' "loss": {chance.random():.6f}, "path": "/data/run\\/x", "tokens_per_sec": {chance.random() * 9e4:.1f}}}'
    )


KINDS: dict[str, Callable[[int, random.Random], str]] = {
    "new UUIDs in every line": _job,
    "counts of tokens": _tokens,
    "hashes": _hashes,
    "colours": _colours,
    "JSON": _json,
}


def measure(count: int, rounds: int) -> list[Row]:
    chance = random.Random(1)
    texts = {"usual lines": b"".join(map(line, range(count)))}
    for name, made in KINDS.items():
        texts[name] = "".join(f"{made(step, chance)}\n" for step in range(count // 2)).encode()
    taken: dict[str, list[float]] = {name: [] for name in texts}
    for _ in range(rounds):
        for name, text in texts.items():
            begin = time.process_time()
            for at in range(0, len(text), PIECE):
                RULES.show(lambda low, high, text=text: text[low:high], at, PIECE, len(text))  # type: ignore[misc]
            taken[name].append(len(text) / 1e6 / (time.process_time() - begin))
    return [Row("masking", name, "MB a CPU second", samples) for name, samples in taken.items()]
