"""A job's log below the workspace that NVFlare mounts, and the same on stdout: ``python3 -u -m nvflare_job``."""

from __future__ import annotations

import time
from pathlib import Path

WORKSPACE = Path("/var/tmp/nvflare/workspace")

if __name__ == "__main__":
    (WORKSPACE / "job-1" / "app").mkdir(parents=True)
    (WORKSPACE / "job-1" / "app" / "config.json").write_text("{}")
    with open(WORKSPACE / "job-1" / "log.txt", "w") as log:
        for number in range(2000):
            line = f"2026-11-29 03:00:00,000 - Trainer - INFO - step {number}\n"
            log.write(line)
            log.flush()
            print(line, end="")
            time.sleep(0.001)
