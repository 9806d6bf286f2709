"""A job whose sites only write logs, as a training does."""

from __future__ import annotations

import logging
import logging.handlers
import os
import signal
import time
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal


class Talk(Controller):
    """Gives every site one task to talk."""

    def start_controller(self, fl_ctx: FLContext) -> None: ...

    def stop_controller(self, fl_ctx: FLContext) -> None: ...

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        self.broadcast_and_wait(
            task=Task("talk", data=Shareable()), min_responses=2, wait_time_after_min_received=0,
            fl_ctx=fl_ctx, abort_signal=abort_signal,
        )  # fmt: skip

    def process_result_of_unknown_task(self, *_: Any) -> None: ...


class Talker(Executor):
    """Logs *lines* lines, *rate* of them a second; with *file*, into that file of the job's directory, which is rotated
    at *rotate* bytes. *die*: kill this process afterwards, as the kernel does when memory is short.
    """

    def __init__(self, lines: int = 50, rate: float = 100.0, file: str = "", rotate: int = 0, die: str = "") -> None:
        super().__init__()
        self.lines, self.rate, self.file, self.rotate, self.die = lines, rate, file, rotate, die

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        logger = logging.getLogger("talking")
        if self.file:
            root = next(handler for handler in logging.root.handlers if isinstance(handler, logging.FileHandler))
            path = os.path.join(os.path.dirname(root.baseFilename), self.file)
            handler = logging.handlers.RotatingFileHandler(path, maxBytes=self.rotate, backupCount=1000)
            handler.setFormatter(logging.Formatter("%(message)s"))
            logger.addHandler(handler)
            logger.propagate = False
        begin = time.monotonic()
        for number in range(self.lines):
            bar = "█" * (number % 40)
            logger.info("line %07d loss %.4f\repoch %3d%% |%-40s|", number, 1 / (1 + number), number % 101, bar)
            ahead = begin + (number + 1) / self.rate - time.monotonic()
            if ahead > 0.005:
                time.sleep(ahead)
            if abort_signal.triggered:
                return make_reply(ReturnCode.TASK_ABORTED)
        if fl_ctx.get_identity_name() == self.die:
            os.kill(os.getpid(), signal.SIGKILL)
        return make_reply(ReturnCode.OK)


class Slow(FLComponent):
    """A server component that takes *seconds* to start."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            time.sleep(self.seconds)


class Measured(Executor):
    """At site-1, write *size* bytes to *file* at once; when a reader has seen them, write *lines* lines with the times
    of their writes. The reader creates the file ``seen``; this site records its begin in ``began``.
    """

    def __init__(self, file: str, size: int, lines: int) -> None:
        super().__init__()
        self.file, self.size, self.lines = file, size, lines

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        if fl_ctx.get_identity_name() == "site-1":
            root = next(handler for handler in logging.root.handlers if isinstance(handler, logging.FileHandler))
            path = os.path.join(os.path.dirname(root.baseFilename), self.file)
            with open(f"{path}.tmp", "wb") as file:
                file.write(os.urandom(1 << 20).replace(b"\n", b" ") * (self.size >> 20))
                os.fsync(file.fileno())
            time.sleep(3.0)  # waiting streamers have started by then
            began = time.time()
            os.rename(f"{path}.tmp", path)
            _put(f"{path}.began", str(began))
            self._wait(f"{path}.seen", abort_signal)
            with open(path, "ab", buffering=0) as file:
                for number in range(self.lines):
                    time.sleep(0.01 + 0.08 * (number * 37 % 101) / 101)
                    file.write(b"%.6f\n" % time.time())
            time.sleep(2.0)
        return make_reply(ReturnCode.OK)

    def _wait(self, path: str, abort_signal: Signal) -> None:
        for _ in range(1200):
            if os.path.exists(path) or abort_signal.triggered:
                return
            time.sleep(0.05)


def _put(path: str, text: str) -> None:
    with open(f"{path}.new", "w") as file:
        file.write(text)
    os.rename(f"{path}.new", path)
