"""``flarelog run`` with a real torchrun: each rank has its own logs, and the rank with the failure is named.

torch and its dependencies take several gigabytes and are not installed for this: FLARELOG_TORCH names a Python with it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any

import pytest

from integration.harness.places import Place, Receiver

PROGRAM = """
import datetime, os, signal, sys, time
import torch, torch.distributed as dist

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, number):
        if number == 5:
            time.sleep(1)  # what it gave before has arrived
            os.kill(os.getpid(), signal.SIGKILL)
        return number

what, rank = sys.argv[1], int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
loss = torch.ones(1) * rank
for step in range(3):
    dist.all_reduce(loss)
    print(f"rank {rank} step {step}", flush=True)
print(f"rank {rank} warns", file=sys.stderr, flush=True)
if what == "dataloader" and rank == 1:
    for _ in torch.utils.data.DataLoader(Data(), num_workers=1):
        pass
if what == "gloo":
    if rank == 1:
        time.sleep(20)
    dist.all_reduce(loss)
dist.destroy_process_group()
"""

pytestmark = pytest.mark.soak  # a torchrun takes 10 s of CPU


@pytest.fixture(scope="module")
def torchrun() -> tuple[str, ...]:
    """The torchrun command of an installed torch."""
    python = os.environ.get("FLARELOG_TORCH") or (sys.executable if importlib.util.find_spec("torch") else "")
    if not python:
        pytest.skip(
            "no torch here: set FLARELOG_TORCH to a Python that has it (pip install torch; 6 GB, CPU is enough)"
        )
    subprocess.run([python, "-c", "import torch.distributed as d; assert d.is_gloo_available()"], check=True)
    return python, "-m", "torch.distributed.run", "--nproc-per-node", "2"


def trained(place: Place, torchrun: tuple[str, ...], what: str) -> tuple[Receiver, int]:
    """A receiver with all logs of a training, and the training's exit code."""
    receiver = place.serve()
    program = place.directory / "train.py"
    program.write_text(PROGRAM)
    run = place.start(
        *("run", "--receiver", receiver.address, "--run", "job", "--site", "oslo", "--linger", "60", "--"),
        *(*torchrun, str(program), what),
    )
    return receiver, run.ends(180)


def said(receiver: Receiver) -> dict[str, str]:
    """The output of each rank from its own log, by output and local rank; torchrun's own by output alone."""
    site = receiver.store / "job" / "oslo"
    found = {}
    for path in site.rglob("*.log"):
        name = path.relative_to(site).parts
        found[f"{name[-1]} {name[-2]}" if len(name) > 1 else name[0]] = path.read_text()
    return found


def findings(place: Place, receiver: Receiver) -> list[dict[str, Any]]:
    return place.call("findings", "job", "--receiver", receiver.address, "-o", "json").records()


def test_each_rank_of_torchrun_has_logs_of_its_own(place: Place, torchrun: tuple[str, ...]) -> None:
    receiver, code = trained(place, torchrun, "nothing")
    logs = said(receiver)
    assert code == 0, logs
    for rank in (0, 1):
        assert logs[f"stdout.log {rank}"] == "".join(f"rank {rank} step {step}\n" for step in range(3))
        assert logs[f"stderr.log {rank}"].endswith(f"rank {rank} warns\n")
    assert sorted(line for line in logs["stdout.log"].splitlines() if "step 2" in line) == [
        f"[default{rank}]:rank {rank} step 2" for rank in (0, 1)
    ]
    assert [one for one in findings(place, receiver) if one["role"] == "root"] == []
    assert all(one["sealed"] for one in receiver.streams(run="job").values())


@pytest.mark.parametrize(
    ("what", "signature", "rank"), [("dataloader", "dataloader.killed", 1), ("gloo", "gloo.timeout", 0)]
)
def test_what_went_wrong_in_one_rank_is_named(
    place: Place, torchrun: tuple[str, ...], what: str, signature: str, rank: int
) -> None:
    receiver, code = trained(place, torchrun, what)
    assert code == 1
    found = findings(place, receiver)
    own = [one for one in found if one["event_name"] == signature and "/ranks/" in f"/{one['log']}"]
    assert own, found
    assert own[0]["role"] == "root"
    assert f"/{rank}/stderr.log" in own[0]["log"]
    status = place.call("status", "job", "--receiver", receiver.address).printed
    assert "exit: job/oslo: exit code 1 after " in status
