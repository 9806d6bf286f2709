"""Random writes, rotations, truncations, deletions, kills, cuts and restarts of both ends, judged by the written bytes.

A World (``world.py``) is a directory with writers, a sidecar and a receiver (``ends.py``), all real but for sockets,
clocks, loops and the network. Hypothesis takes its steps in any order; the oracle (``oracle.py``) knows every written
byte, and judges after every step and at the end.

*Stored bytes, at every step.* The content of a file between two truncations is an epoch. The store's extents of a file
are prefixes of its epochs, in their order. Each extent begins at the end of the one before it; only after a truncation
may it begin earlier, and then the bytes before it are as in the later epoch. So no byte is stored twice, out of order
or under another file's name, and none is left out in the middle. Each digest is that of the bytes; no two streams hold
the same file; bytes that a reply said to be committed stay so; and a fenced sidecar adds nothing any more.

*Missing bytes, at the end.* A sidecar can know of a loss if it looked at the bytes and they are gone later. Either it
had read them, and a truncation took them before they arrived; or the file is shorter than at the last look (the
difference is lost); or the bytes before the position have changed (all bytes after it are lost); or it had delivered
them, and the receiver came back with an older store when the file was gone. Gaps report at least these bytes, and at
most all lost bytes. All other bytes that exist at the end are stored. No sidecar can know of bytes that came and went
between two looks, of those that only a killed sidecar saw, and of those after the position that as many other bytes
replaced.

*The end.* Every log gets its receipt: the stream is sealed, and both ends have the digest of the file.

A run that fails prints a program that repeats its steps without hypothesis. ``make soak`` goes on for minutes, with a
new seed each round; ``FLARELOG_SEED`` repeats one.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.joined.world import OUT, World, replay
from tests.often import often

LOGS = st.sampled_from(["a.log", "a.log", "b.log"])
NAMES = st.sampled_from(["a.log", "a.log", "a.log.1", "a.log.2", "b.log", "b.log.1", "link.log"])
PLACES = st.sampled_from(["a.log", "a.log.1", "b.log", "x.log", f"{OUT}/1", f"{OUT}/2"])
TARGETS = st.sampled_from([f"{OUT}/1", f"{OUT}/2"])
SIZES = st.one_of(st.integers(0, 300), st.integers(0, 300), st.integers(0, 12_000))
WHAT = st.one_of(
    st.tuples(st.sampled_from(["lines", "lines", "same", "noise"]), SIZES),
    st.binary(max_size=20),
)
INDEX = st.integers(0, 3)
FEW = st.integers(1, 6)
PERCENT = st.sampled_from([0, 30, 70, 100])


class Machine(RuleBasedStateMachine):
    """Steps of a World in any order."""

    steps = 0  # the total of all runs
    world: World | None = None

    @initialize(
        inotify=st.booleans(), durability=st.sampled_from(["disk", "memory"]), chunk=st.sampled_from([50, 700, 4096])
    )
    def begin(self, inotify: bool, durability: Literal["disk", "memory"], chunk: int) -> None:
        self.world = World(inotify=inotify, durability=durability, chunk=chunk)
        self.world.serve(0)
        self.world.start()

    def teardown(self) -> None:
        world = self.world
        if world is None:
            return
        try:
            if not world.failed:
                world.finish()
        finally:
            note(replay(world.script))
            Machine.steps += world.steps
            world.close()


def _rule(step: str, /, **arguments: st.SearchStrategy[Any]) -> None:
    """Add a rule that takes *step* of the world."""

    def taken(self: Machine, **values: Any) -> None:
        getattr(self.world, step)(*(values[name] for name in arguments))

    number = sum(1 for known in vars(Machine) if known.rstrip("_0123456789") == step)
    taken.__name__ = f"{step}_{number}" if number else step
    setattr(Machine, taken.__name__, rule(**arguments)(taken))  # type: ignore[call-overload]


# Frequent steps have several rules.
for _ in range(3):
    _rule("append", name=LOGS, what=WHAT)
    _rule("look")
    _rule("pump", rounds=st.integers(1, 4))
for _ in range(2):
    _rule("rotate", name=LOGS, keep=st.integers(1, 3))
    _rule("write", handle=INDEX, what=WHAT)
    _rule("hear")
    _rule("connect", index=INDEX)
    _rule("send", index=INDEX, count=FEW)
    _rule("arrive", index=INDEX, count=FEW)
    _rule("answer", index=INDEX, count=FEW)
_rule("append", name=NAMES, what=WHAT)
_rule("open", name=NAMES, appends=st.booleans())
_rule("shut", handle=INDEX)
_rule("rename", old=PLACES, new=PLACES)
_rule("truncate", name=NAMES, permille=st.sampled_from([0, 0, 500, 900, 990]), then=WHAT)
_rule("copytruncate", name=LOGS)
_rule("compress", name=NAMES)
_rule("delete", name=NAMES)
_rule("link", name=NAMES, new=NAMES)
_rule("point", name=st.just("link.log"), where=TARGETS)
_rule("append", name=TARGETS, what=WHAT)
_rule("wait", seconds=st.sampled_from([0.3, 1.0, 6.0]))
_rule("learn")
_rule("commit", index=INDEX)
_rule("beat", index=INDEX)
_rule("cut", index=INDEX, arriving=st.integers(0, 4))
_rule("stall", index=INDEX)
_rule("go_on")
_rule("start")
_rule("start_amid", name=LOGS, keep=st.integers(1, 3), at=st.integers(1, 60))
_rule("kill", forget=st.booleans())
_rule("take_over")
_rule("wake", index=INDEX)
_rule("serve", misses=st.integers(0, 3))
_rule("restart_receiver", misses=st.integers(0, 3))
_rule("kill_receiver", misses=st.integers(0, 2), data=PERCENT, journal=PERCENT, hole=st.booleans())
_rule("backup")
_rule("restore")
_rule("fill", room=st.integers(0, 3000))
_rule("clear")
_rule("settle")
_rule("drain")

COMMON = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
CI = settings(COMMON, derandomize=True, max_examples=often(12, 90), stateful_step_count=60)
SOAK = settings(COMMON, max_examples=200, stateful_step_count=100)


def test_in_any_order_nothing_is_lost_repeated_or_reordered() -> None:
    Machine.steps = 0
    run_state_machine_as_test(Machine, settings=CI)
    assert Machine.steps >= often(240, 2_000)


@pytest.mark.soak
def test_a_run_that_fails_prints_a_program_that_fails_alike(tmp_path: Path) -> None:
    class Failing(Machine):
        @rule()
        def spoil(self) -> None:
            assert self.world is not None
            self.world.spoil("a.log")

    with pytest.raises(AssertionError, match="its bytes are not those of the file") as failed:
        run_state_machine_as_test(Failing, settings=settings(CI, phases=[Phase.generate], max_examples=300))
    notes = "\n".join(failed.value.__notes__)
    program = tmp_path / "replay.py"
    program.write_text(notes[notes.index(replay([])[:20]) :].partition("world.close()")[0])
    root = Path(__file__).parents[2]
    again = subprocess.run([sys.executable, str(program)], cwd=root, capture_output=True, text=True, check=False)
    assert str(failed.value).splitlines()[0].partition("fe00")[0] in again.stderr


@pytest.mark.skipif("FLARELOG_SOAK" not in os.environ, reason="takes minutes: make soak")
def test_soak() -> None:
    end = time.monotonic() + float(os.environ["FLARELOG_SOAK"])
    while time.monotonic() < end:
        number = int(os.environ.get("FLARELOG_SEED", random.SystemRandom().randrange(1 << 32)))
        sys.__stderr__.write(f"FLARELOG_SEED={number}\n")  # type: ignore[union-attr]
        run_state_machine_as_test(seed(number)(Machine), settings=SOAK)
        sys.__stderr__.write(f"{Machine.steps} steps\n")  # type: ignore[union-attr]
