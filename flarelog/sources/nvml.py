"""The process that asks NVIDIA's library about the GPUs, because a call into the library can hang.

The process answers each line of its input with one line of JSON, a list with an entry for each GPU:

    [percent of the time that the GPU computed, bytes used, bytes in all, [pids of its processes]]

A figure that the library does not report is null. The process ends at once where there is no library, driver or GPU.
``gpus`` starts this file as a program, which imports nothing of flarelog.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from typing import Any

LONGEST = 20  # seconds that the library may take: SIGALRM ends a process that hangs in it
MOST_PIDS = 64  # of one GPU


def main() -> None:
    import pynvml

    def told(ask: Callable[[], Any]) -> Any:
        """The answer of *ask*; None: the library does not report it, for this GPU or now."""
        try:
            return ask()
        except pynvml.NVMLError:
            return None

    def entry(number: int) -> list[Any]:
        gpu = told(lambda: pynvml.nvmlDeviceGetHandleByIndex(number))
        if gpu is None:  # for example, the GPU has fallen off the bus
            return [None, None, None, []]
        use = told(lambda: pynvml.nvmlDeviceGetUtilizationRates(gpu))
        memory = told(lambda: pynvml.nvmlDeviceGetMemoryInfo(gpu))
        processes = told(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)) or []
        figures = [use and use.gpu, memory and memory.used, memory and memory.total]
        return [*figures, [process.pid for process in processes[:MOST_PIDS]]]

    signal.alarm(LONGEST)
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError:
        return
    signal.alarm(0)
    if not count:
        return
    for _ in sys.stdin:
        signal.alarm(LONGEST)
        print(json.dumps([entry(number) for number in range(count)]), flush=True)
        signal.alarm(0)


if __name__ == "__main__":
    main()
