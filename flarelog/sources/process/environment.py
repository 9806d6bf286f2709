"""The environment of a command: flarelog sets only variables that are unset."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

OUTER = "FLARELOG_RUN_ROOT"
"""The variable with the directory for the logs of a command below another one, whose sidecar sends them. The machine's
id comes before the path, because a launcher passes its environment to other machines.
"""
RANKS = "ranks"  # the directory of what torchrun keeps of each rank


def machine() -> str:
    """The id of this machine's boot; empty where it is unknown."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return ""


def outer(env: Mapping[str, str]) -> str | None:
    """The root of the outer command's logs, if the outer command runs on this machine; otherwise None."""
    where, _, root = env.get(OUTER, "").partition(":")
    return root if root and where == machine() and os.path.isdir(root) else None


def of_command(
    env: Mapping[str, str], root: str | None, log: str, *, diagnostics: bool, told: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of a command with logs in *root*; None: no logs. *told*: variables for a flarelog below it."""
    found = dict(env)
    found.setdefault("PYTHONUNBUFFERED", "1")
    found.setdefault("PYTHONFAULTHANDLER", "1")
    if root is None:
        return found
    found[OUTER] = f"{machine()}:{root}"
    found = {**(told or {}), **found}
    own = os.path.join(root, log if not log.endswith(".log") else "")
    if not any(name in env for name in ("PET_LOG_DIR", "PET_REDIRECTS", "PET_TEE")):
        # torchrun reads its options from these: a clean file for each rank, and all of them on the console.
        found |= {"PET_LOG_DIR": os.path.join(own, RANKS), "PET_REDIRECTS": "3", "PET_TEE": "3"}
    if diagnostics:
        found.setdefault("TORCHELASTIC_ERROR_FILE", os.path.join(own, "error.json"))
        found.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")
        found.setdefault("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000")
        found.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
        found.setdefault("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", os.path.join(own, ".nccl-trace-rank-"))
    return found
