"""What a command finds in its environment: only what was unset is set."""

from __future__ import annotations

import os
from collections.abc import Mapping

ROOT = "FLARELOG_RUN_ROOT"
"""Where a command that runs below another one puts its logs: the other one's sidecar sends them."""
RANKS = "ranks"  # the directory of what torchrun keeps of each rank


def of_command(env: Mapping[str, str], root: str | None, log: str, *, diagnostics: bool) -> dict[str, str]:
    """The environment of a command whose logs are in *root*; None: nowhere."""
    found = dict(env)
    found.setdefault("PYTHONUNBUFFERED", "1")
    found.setdefault("PYTHONFAULTHANDLER", "1")
    if root is None:
        return found
    found[ROOT] = root
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
