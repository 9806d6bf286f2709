"""A job whose sites do nothing but write logs, as training does."""

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
    """Has every site talk once."""

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
    when it has *rotate* bytes. *die*: kill the own process then, as the kernel does when memory is short.
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
    """A component of the server that takes *seconds* to start."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            time.sleep(self.seconds)
