"""Run targets: ``python -m fuzz [TARGET...] [--seconds N] [--runs N]``.

Guided by coverage where atheris is installed, else by mutations of the seeds and of the corpus that is kept. An input
that breaks a law is kept in ``fuzz/corpus/TARGET/``, where the tests find it ever after.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import logging
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
LONGEST = 4096  # bytes of an input
SECONDS_EACH = 10  # that one execution may take
MEBIBYTES = 1024  # that the process may have


def corpus(target: str) -> list[bytes]:
    """What is kept of *target*: its seeds, and its files in the order of their names."""
    from fuzz.targets import SEEDS

    return [*SEEDS[target], *(path.read_bytes() for path in sorted((CORPUS / target).glob("*")))]


def mutations(known: list[bytes], seed: int) -> Iterator[bytes]:
    """Inputs without end, the same ones for the same *seed*."""
    rng = random.Random(seed)
    while True:
        raw = bytearray(rng.choice(known))
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            at = rng.randint(0, len(raw))
            match rng.randrange(7):
                case 0 if raw:
                    raw[at % len(raw)] = rng.randrange(256)
                case 1 if raw:
                    raw[at % len(raw)] ^= 1 << rng.randrange(8)
                case 2:
                    raw[at:at] = rng.randbytes(rng.randint(1, 8))
                case 3:
                    del raw[at : at + rng.randint(1, 8)]
                case 4:
                    other = rng.choice(known)
                    begin = rng.randint(0, len(other))
                    raw[at:at] = other[begin : begin + rng.randint(1, 40)]
                case 5:
                    del raw[at:]
                case 6:
                    part = raw[at : at + rng.randint(1, 20)]
                    raw[at:at] = part * rng.choice((1, 2, 30))
        yield bytes(raw[:LONGEST])


def plain(target: str, seconds: float, runs: int, seed: int) -> int:
    """Executions of *target* with mutations alone. Raises what breaks a law, its input being kept."""
    from fuzz.targets import TARGETS

    known, end, done = corpus(target), time.monotonic() + seconds, 0
    for raw in mutations(known, seed):
        if done >= runs or time.monotonic() > end:
            break
        try:
            TARGETS[target](raw)
        except BaseException:
            place = CORPUS / target
            place.mkdir(parents=True, exist_ok=True)
            (place / f"crash-{hashlib.sha1(raw).hexdigest()}").write_bytes(raw)
            raise
        done += 1
    return done


def guided(target: str, seconds: float, runs: int, work: str) -> int:
    """Executions of *target* in a process of its own, guided by coverage; negative when a law was broken."""
    place = CORPUS / target
    place.mkdir(parents=True, exist_ok=True)
    for number, raw in enumerate(corpus(target)):
        Path(work, f"{number}").write_bytes(raw)
    command = [
        *(sys.executable, "-m", "fuzz", "--guided", target, work, f"-max_total_time={seconds:.0f}", f"-runs={runs}"),
        *(f"-max_len={LONGEST}", f"-timeout={SECONDS_EACH}", f"-rss_limit_mb={MEBIBYTES}", "-print_final_stats=1"),
        f"-artifact_prefix={place}/",
    ]
    ended = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace")
    found = re.search(r"number_of_executed_units: (\d+)", ended.stderr)
    done = int(found[1]) if found else 0
    if ended.returncode:
        print(ended.stderr[max(0, ended.stderr.find(" === ")) :][:4000], file=sys.stderr)
    return done if not ended.returncode else -done - 1


def _guided(target: str, arguments: list[str]) -> None:
    import atheris

    with atheris.instrument_imports(include=["flarelog"]):
        from fuzz.targets import TARGETS
    atheris.Setup([sys.argv[0], *arguments], TARGETS[target])
    atheris.Fuzz()


def main() -> int:
    logging.disable(logging.WARNING)  # a parser's warning of what it does not believe
    if sys.argv[1:2] == ["--guided"]:
        _guided(sys.argv[2], sys.argv[3:])
        return 0
    from fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Any bytes, for everything that parses.")
    parser.add_argument("target", nargs="*", help=f"of {', '.join(TARGETS)}; all of them by default")
    parser.add_argument("--seconds", type=float, default=60, help="each target gets (60)")
    parser.add_argument("--runs", type=int, default=1 << 30, help="executions each target gets at most")
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="of the mutations, without atheris")
    options = parser.parse_args()
    unknown = set(options.target) - set(TARGETS)
    if unknown:
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    coverage = importlib.util.find_spec("atheris") is not None
    print("guided by coverage" if coverage else f"atheris is not installed: mutations alone, seed {options.seed}")
    total, broken = 0, []
    for target in options.target or TARGETS:
        begin = time.monotonic()
        if coverage:
            with tempfile.TemporaryDirectory() as work:
                done = guided(target, options.seconds, options.runs, work)
        else:
            done = plain(target, options.seconds, options.runs, options.seed)
        if done < 0:
            broken.append(target)
            done = -done - 1
        total += done
        print(f"{target:12}{done:>12,} executions in {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{total:,} executions; " + (f"broken: {', '.join(broken)}: see {CORPUS}" if broken else "every law held"))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
