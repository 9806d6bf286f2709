"""What a command finds in its environment: only what was unset is set."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

OUTER = "FLARELOG_RUN_ROOT"
"""Where a command that runs below another one puts its logs: the other one's sidecar sends them. The machine stands
before it, because a launcher takes its environment to others.
"""
RANKS = "ranks"  # the directory of what torchrun keeps of each rank


def machine() -> str:
    """What this machine is called until it is started again; empty where nobody says so."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return ""


def outer(env: Mapping[str, str]) -> str | None:
    """The root of the command below which this one runs on this machine."""
    where, _, root = env.get(OUTER, "").partition(":")
    return root if root and where == machine() and os.path.isdir(root) else None


def of_command(
    env: Mapping[str, str], root: str | None, log: str, *, diagnostics: bool, told: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a command with logs in *root*; None: nowhere. *told*: what a flarelog below it is to know."""
    found = dict(env)
    found.setdefault("PYTHONUNBUFFERED", "1")
    found.setdefault("PYTHONFAULTHANDLER", "1")
    if root is None:
        return found
    found[OUTER] = f"{machine()}:{root}"
    found = {**(told or {}), **found}
    directory = os.path.join(root, log if log and not log.endswith(".log") else "", RANKS)
    if not any(name in env for name in ("PET_LOG_DIR", "PET_REDIRECTS", "PET_TEE")):
        # torchrun reads its options from these: a clean file for each rank, and all of them on the console.
        found |= {"PET_LOG_DIR": directory, "PET_REDIRECTS": "3", "PET_TEE": "3"}
    if diagnostics:
        own = os.path.join(root, log if log and not log.endswith(".log") else "")
        found.setdefault("TORCHELASTIC_ERROR_FILE", os.path.join(own, "error.json"))
        found.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")
        found.setdefault("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000")
        found.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
        found.setdefault("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", os.path.join(own, ".nccl-trace-rank-"))
    return found
