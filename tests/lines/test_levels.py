"""The level of a line."""

from __future__ import annotations

import io
import itertools
import json
import random
from pathlib import Path

import pytest

from flarelog.lines.choose import Choice, Chooser
from flarelog.lines.levels import ERRORS, Level, Levels, is_error, level_of
from flarelog.lines.line import Line, Note
from flarelog.lines.sgr import plain
from flarelog.render.container import Renderer
from flarelog.viewers.console import Console, ConsoleOptions
from flarelog.viewers.web.rows import ERROR, INSIDE
from flarelog.viewers.web.rows import encoded as encoded_row
from tests.annotated import annotated
from tests.rows import rows, together

SAID = [
    path for path in (Path(__file__), *Path("tests/data").rglob("*")) if path.suffix in (".py", ".log", ".txt", ".toml")
]

LINES = {
    '{"level":50,"time":1}': Level.ERROR,
    '{"pid":1,"level":60}': Level.FATAL,
    '{"level":40}': Level.WARNING,
    "[W socket.cpp:663] [c10d] The client socket": Level.WARNING,
    "[rank0]:[E1122 12:00:01.123 x.cpp:1] y": Level.ERROR,
    "2026-11-20 08:12:03,123 - root - WARNING - slow": Level.WARNING,
    "INFO:flarelog:began": Level.INFO,
    "[2026-11-20 08:12:03] [DEBUG] x": Level.DEBUG,
    "W1120 08:07:57.833000 13383 torch/run.py:766] x": Level.WARNING,
    "[rank0]: E1120 08:07:57.833000 13383 x] y": Level.ERROR,
    "[rank1]:E626 06:24:44.903881913 x] y": Level.ERROR,
    "node:1:2 [0] NCCL INFO comm 0x0": Level.INFO,
    "node:1:2 [0] NCCL WARN Cuda failure": Level.WARNING,
    'time="x" level=warning msg="y"': Level.WARNING,
    '{"ts": 1, "level":"error", "msg": "y"}': Level.ERROR,
    '{"severity": "CRITICAL"}': Level.FATAL,
    "/a/b.py:3: UserWarning: old": Level.WARNING,
    "torch.cuda.OutOfMemoryError: CUDA out of memory": Level.ERROR,
    "ValueError: bad": Level.ERROR,
    "Error: no such file": Level.ERROR,
    "a.c:3:4: warning: unused": Level.WARNING,
    "a.c:3:4: fatal error: no such file": Level.FATAL,
    "INFO handled ValueError: bad": Level.INFO,
    "Traceback (most recent call last):": Level.ERROR,
    "2026-11-23 10:00:00.000000: E tensorflow/x.cc:1] boom": Level.ERROR,
    "2026-11-23 10:00:00.000000: I tensorflow/x.cc:1] fine": Level.INFO,
    '{"severityNumber":17,"body":"boom"}': Level.ERROR,
    '{"severityNumber": 12}': Level.INFO,
    '{"severityNumber":24}': Level.FATAL,
    "2026/11/23 10:00:00 [error] 123#0: boom": Level.ERROR,
    "[10:00:00 FTL] boom": Level.FATAL,
    "panic: runtime error: index out of range [5] with length 3": Level.FATAL,
    "2026/11/20 08:00:00 x.go:12: panic: no such key": Level.FATAL,
    "fatal error: all goroutines are asleep - deadlock!": Level.FATAL,
    "warn: x": Level.WARNING,
    "Warn: x": Level.WARNING,
    "[rank1]: warning: x": Level.WARNING,
    "[default1]:fatal: x": Level.FATAL,
    "ERRO[0002] x": Level.ERROR,
    "FATA[0003] x": Level.FATAL,
    "DEBU[0001] x": Level.DEBUG,
    "[08:00:00 INF] it said ERROR here": Level.INFO,
    "[08:00:00 VRB] x": Level.TRACE,
    "8:00AM DBG x": Level.DEBUG,
    "2026-11-20T08:00:00.000Z\tinfo\tmain.go:1\tERROR in it": Level.INFO,
    "2026-11-20T08:00:00.000Z\tdpanic\tmain.go:1\tx": Level.FATAL,
    "loss INF": None,
    "step 3 loss: INF": None,
    "ERRO in it": None,
    "panic: false": None,
    "panic: 1": None,
    "don't panic: it is fine": None,
    "warn x": None,
    "epoch 1 loss 0.7": None,
    "no errors and no warnings": None,
    "INFORMATION": None,
    "error_rate: 3": None,
    "": None,
    f"{'x' * 300} ERROR": None,
}


KEYED = {
    '{"message": "INFO gathered", "levelname": "ERROR"}': Level.ERROR,
    '{"message": "took WARNING path", "level": "critical"}': Level.FATAL,
    '{"message": "no ERROR was found", "levelname": "INFO"}': Level.INFO,
    '[rank1]: {"message": "no ERROR was found", "levelname": "INFO"}': Level.INFO,
    '{"ctx":{"level":"error"},"level":"info"}': Level.INFO,
    '{"message": "a { of }} and \\"{\\"", "ctx": {"level":"error"}, "level":"info"}': Level.INFO,
    '{"level":"info","ctx":{"level":"error"}}': Level.INFO,
    '{"ctx":[{"level":"error"}],"msg":"INFO"}': Level.ERROR,
    '{"ctx":{"a":{"level":"high"}},"lvl":"warn"}': Level.WARNING,
    '{"msg": "{\\"level\\": \\"error\\"}", "level":"debug"}': Level.DEBUG,
    f'{{"msg": "ERROR {"x" * 1000}", "level":"debug"}}': Level.DEBUG,
    '{"msg": "ERROR", "level":"high"}': Level.ERROR,
    '{"message": "ERROR", "severityNumber":9}': Level.INFO,
    '{"msg": "took ERROR", "level":30}': Level.INFO,
    '{"Level":"Information","MessageTemplate":"no ERROR"}': Level.INFO,
    '{"log.level":"error","message":"INFO"}': Level.ERROR,
    'msg="took DEBUG" level=error': Level.ERROR,
    'ts=1 msg="an ERROR with level=warn" level=info': Level.INFO,
    'msg="say \\"x\\" ERROR" level="info"': Level.INFO,
    'msg="ERROR" level=high': Level.ERROR,
    "2026-11-25 10:00:00 - app.INFO - ERROR - x": Level.ERROR,
    "2026-11-25 10:00:00 - INFO.app - ERROR - x": Level.ERROR,
    "2026-11-25 10:00:00 - app.INFO.app - ERROR - x": Level.ERROR,
    "[2026-11-25 10:00:00] local.ERROR: x": Level.ERROR,
    "reading...ERROR": Level.ERROR,
    "it ended with an ERROR.": Level.ERROR,
    "python train.py --log-level=error": None,
    "python train.py --log-level=ERROR": None,
    "export NCCL_DEBUG=WARN": None,
    "LOG_LEVEL=ERROR": None,
    "status=ERROR": Level.ERROR,
    "error=0.02": None,
}
NAMED = {
    "srun: error: n1: task 0: Exited with exit code 1": Level.ERROR,
    "0: slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED": Level.ERROR,
    "[rank1]: git: fatal: not a repository": Level.FATAL,
    "slurmd[12]: error: x": Level.ERROR,
    "gcc: warning: x": Level.WARNING,
    "[2026-11-25T10:00:00.000] fatal: cannot create pid": Level.FATAL,
    "[2026-11-25T10:00:00.000] error: x": Level.ERROR,
    "2026-11-25 10:00:00 error: x": Level.ERROR,
    "2026-11-25 10:00:00,5 +0100 critical: x": Level.FATAL,
    "2026-11-25T10:00:00Z warn: 3 of 5 sites": Level.WARNING,
    "2026-11-25T10:00:00Z [critical] y": Level.FATAL,
    "[warn] x": Level.WARNING,
    "[crit] x": Level.FATAL,
    "2026/11/25 10:00:00 [alert] 1#1: x": Level.FATAL,
    "2026/11/25 10:00:00 [emerg] 1#1: bind() failed": Level.FATAL,
    "[fatal] x": Level.FATAL,
    "[2026-11-25 10:00:00.000] [trainer] [info] no ERROR": Level.INFO,
    "2026-11-25 10:00:00 [warning  ] slow   step=1": Level.WARNING,
    "[Wed Nov 25 10:00:00.000000 2026] [core:error] [pid 1] x": Level.ERROR,
    "[Wed Nov 25 10:00:00.000000 2026] [mpm_event:notice] [pid 1] x": Level.INFO,
    "Jun 27 15:59:42 node-1 crmd[26675]:  notice: State transition S_IDLE": Level.INFO,
    "thread 'main' panicked at src/main.rs:2:5:": Level.FATAL,
    "thread '<unnamed>' (71) panicked at 'boom', src/main.rs:2:5": Level.FATAL,
    "<11>Nov 25 10:00:00 n1 app: no ERROR": Level.ERROR,
    "<34>1 2026-11-25T10:00:00Z n1 app - - - x": Level.FATAL,
    "<6>[    1.0] eth0: up": Level.INFO,
    '{"__REALTIME_TIMESTAMP":"1795600800000000","PRIORITY":"3","MESSAGE":"INFO"}': Level.ERROR,
    '{ "PRIORITY" : "6", "MESSAGE" : "no ERROR" }': Level.INFO,
    '{"t":{"$date":"2026-11-25T10:00:00.000+00:00"},"s":"E",  "c":"NETWORK"}': Level.ERROR,
    '{"t":{"$date":"2026-11-25T10:00:00.000+00:00"},"s":"E", "c":"NETWORK"}': Level.ERROR,
    '{"t":{"$date":"2026-11-25T10:00:00.000+00:00"},"s":"D2", "c":"NETWORK"}': Level.DEBUG,
    '{"@t":"2026-11-25T10:00:00Z","@mt":"no","@l":"Error"}': Level.ERROR,
    '{"@t":"2026-11-25T10:00:00Z","@l":"Verbose"}': Level.TRACE,
    '{"SeverityNumber":17,"Body":"x"}': Level.ERROR,
    "KeyError: 3": Level.ERROR,
    "I20261125 10:00:07.000007 12345 foo.cc:42] no ERROR": Level.INFO,
    "E20261125 10:00:07.000007 12345 foo.cc:42] x": Level.ERROR,
    "error: 3 files are missing": Level.ERROR,
    "error: no such file": Level.ERROR,
    "[E 2026-11-20 08:00:01.123 ServerApp] Uncaught exception": Level.ERROR,
    "[W 08:00:01.123 NotebookApp] slow": Level.WARNING,
    "[I 261120 08:00:01 web:2271] 200 GET /ERROR (::1)": Level.INFO,
    "[C 2026-11-20 08:00:01.123 ServerApp] x": Level.FATAL,
    "(raylet) [2026-11-20 08:00:01,123 E 123 123] (raylet) main.cc:1: x": Level.ERROR,
    "(raylet, ip=10.0.0.1) [2026-11-20 08:00:01,123 W 123 456] x": Level.WARNING,
    "(RayTrainWorker pid=900) [W socket.cpp:663] x": Level.WARNING,
    "(RayTrainWorker pid=900) [rank1]:[E1120 08:00:01.1 socket.cpp:663] x": Level.ERROR,
    "[2026-11-20 08:00:01,123 I 123 123] no ERROR": Level.INFO,
    "npm error code ENOENT": Level.ERROR,
    "npm warn deprecated x@1": Level.WARNING,
    "npm ERR! code ENOENT": Level.ERROR,
    "npm WARN deprecated x@1": Level.WARNING,
    "SEVERE: it failed": Level.ERROR,
    "[rank1]: SEVERE: it failed": Level.ERROR,
    "2026-11-20 08:00:01 SEVERE: it failed": Level.ERROR,
    "2026-11-20 08:00:01,123 SEVERE: it failed": Level.ERROR,
    "2026-11-20 08:00:01 [SEVERE] it failed": Level.ERROR,
    '{"time":"08:00:01","level":"SEVERE","msg":"it failed"}': Level.ERROR,
    "ts=08:00:01 level=severe msg=failed": Level.ERROR,
    "ts=08:00:01 level=fine msg=failed": Level.DEBUG,
    "Fri Nov 20 08:00:01 2026 error: it failed": Level.ERROR,
    "Nov 20, 2026 8:00:01 AM error: it failed": Level.ERROR,
    "1795161601.123 error: it failed": Level.ERROR,
    "20-Nov-2026 08:00:01.123 SEVERE [main] org.apache.x": Level.ERROR,
    "warning: x": Level.WARNING,
    "debug: x": Level.DEBUG,
    "info: it saw no ERROR": Level.INFO,
    "info: no ERROR": Level.INFO,
    "2026-11-25 10:00:00 warning: no ERROR": Level.WARNING,
    "Info: x": Level.INFO,
    "2026-11-25 10:00:00 info: x": Level.INFO,
    "file.c:3:5: error: x": Level.ERROR,
    "[08:00:01] [Server thread/ERROR]: x": Level.ERROR,
    "[2026-11-20 08:00:01,123: ERROR/MainProcess] x": Level.ERROR,
}
LETTERS = {
    "[11/20/2026-08:00:00] [E] Model missing or format not recognized": Level.ERROR,
    "[11/20/2026-08:00:00] [TRT] [E] engine is null": Level.ERROR,
    "[11/20/2026-08:00:00] [TRT] [V] no ERROR": Level.TRACE,
    "[TRT] [W] no ERROR": Level.WARNING,
    "[E] [TRT] 3: engine is null": Level.ERROR,
    "2026-11-20 08:00:00 [E] it failed": Level.ERROR,
    "2026-11-20 08:00:00,123 [I] no ERROR": Level.INFO,
    "[rank1]: [E] it failed": Level.ERROR,
    "[NeMo E 2026-11-20 08:00:00 exp_manager:1] the checkpoint did not load": Level.ERROR,
    "[NeMo W 2026-11-20 08:00:00 nemo_logging:349] no ERROR": Level.WARNING,
    "[NeMo I 2026-11-20 08:00:00 exp_manager:1] no ERROR": Level.INFO,
    "2026-11-20 08:00:00,123|worker|error|secretflow|lost party": Level.ERROR,
    "2026-11-20 08:00:00.123|info|x|no ERROR": Level.INFO,
    "2026-11-20 08:00:00 | warning | x": Level.WARNING,
    "2026-11-20T08:00:10.377Z error vpxd[45709] lost the host": Level.ERROR,
    "2026-11-20T08:00:10.377Z warning hostd[45709] [Originator@6876 sub=x] no ERROR": Level.WARNING,
    "2026-11-20T08:00:10.377Z verbose hostd[45709] x": Level.TRACE,
    "2026-11-20 08:00:10 error lost the host": Level.ERROR,
    "2026-11-20 08:00:10.5 +0100   warn  slow": Level.WARNING,
    "[2026-11-20 08:00:10] critical x": Level.FATAL,
    "web-1  | 2026-11-20 08:00:10 error lost the host": Level.ERROR,
    "2026-11-20 08:00:10 error": None,
    "[2026/11/20 08:00:00] [ warn] [input] no ERROR": Level.WARNING,
    "[2026/11/20 08:00:00] [error] [engine] x": Level.ERROR,
    "[1] 2026/11/20 08:00:00.123456 [INF] no ERROR": Level.INFO,
    "[INF] no ERROR": Level.INFO,
    "[DBG] x": Level.DEBUG,
    "2026-11-20T08:00:00.123+0000 mon.a (mon.0) 1 : cluster [INF] no ERROR": Level.INFO,
    "2026-11-20T08:00:00.123+0000 mon.a (mon.0) 1 : cluster [ERR] x": Level.ERROR,
    "11-20 08:00:01.811  1702  2395 E WindowManager: x": Level.ERROR,
    "11-20 08:00:01.811  1702  2395 D WindowManager: no ERROR": Level.DEBUG,
    "11-20 08:00:01.811 W/ActivityManager( 1702): no ERROR": Level.WARNING,
    "E/AndroidRuntime( 1702): FATAL EXCEPTION: main": Level.ERROR,
    "V/Binder(1702): no ERROR": Level.TRACE,
    "2014-11-03T18:28:32.450-0500 E NETWORK  [initandlisten] x": Level.ERROR,
    "2014-11-03T18:28:32.450-0500 I CONTROL  [initandlisten] no ERROR": Level.INFO,
    "2026-11-20 08:00:00.123456 E | etcdserver: x": Level.ERROR,
    "2026-11-20 08:00:00.123456 N | etcdserver: no ERROR": Level.INFO,
    "[    12.345] (EE) no screens found": Level.ERROR,
    "(WW) no ERROR": Level.WARNING,
    "fail: Microsoft.AspNetCore.Server.Kestrel[13]": Level.ERROR,
    "[rank1]: fail: it": Level.ERROR,
    "crit: Microsoft.AspNetCore.Hosting[6]": Level.FATAL,
    "dbug: Microsoft.AspNetCore.Hosting[6]": Level.DEBUG,
    'web-1  | {"msg":"no ERROR","level":"info"}': Level.INFO,
    'train-7d4b9 trainer {"msg":"no ERROR","level":30}': Level.INFO,
    '3: {"msg":"INFO","level":"error"}': Level.ERROR,
    "terminate called after throwing an instance of 'c10::DistBackendError'": Level.FATAL,
    "[rank1]: terminate called without an active exception": Level.FATAL,
    "libc++abi: terminating due to uncaught exception of type std::runtime_error: x": Level.FATAL,
    "  what():  CUDA error: an illegal memory access was encountered": Level.ERROR,
    "[rank1]:   what():  x": Level.ERROR,
    "free(): invalid pointer": Level.FATAL,
    "double free or corruption (out)": Level.FATAL,
    "*** stack smashing detected ***: terminated": Level.FATAL,
    "*** SIGSEGV (@0x0) received by PID 1 (TID 0x7f) from PID 0; stack trace: ***": Level.FATAL,
    "a.out: x.c:3: main: Assertion `x > 0' failed.": Level.FATAL,
    "Bus error (core dumped)": Level.ERROR,
    "Error in library(x) : there is no package called 'x'": Level.ERROR,
}
INNOCENT = [
    "dims [B, E] of it",
    "array[E] x",
    "press q or [E]xit",
    "2026-11-20 08:00:10 error rate 0.5",
    "error rate 0.5",
    "Error handling is done",
    "worker: 3: warning signs are there",
    "2026-11-20 08:00:10 error rates of all sites",
    "2026-11-20 08:00:10 error 0.02",
    "2026-11-20 08:00:10 error   0.02 loss 3",
    "2026-11-20 08:00:10 warning signs were seen",
    "2026-11-20 08:00:10 debug mode",
    "2026-11-20 08:00:10 fatal error: null",
    "the job of 08:00:10 error handled",
    "it began at 08:00:10 error it was",
    "|step|error|loss|",
    "| step | error | loss |",
    "fail: 3",
    "fail: no",
    "pass: 12, fail: it",
    "11-20 08:00:01.811 1702 x",
    "a/b(12): x",
    "loss [INF] x",
    "the user has terminated",
    "terminate called by the user",
    "    // terminate called after throwing: that is what this test wants",
    "what(): is a function",
    "the call of free(): fine",
    "*** step 3 ***",
    "no Assertion failed",
    "(E) x",
    '"GET /ERROR HTTP/1.1" 200',
    '127.0.0.1 - - [20/Nov/2026 08:00:01] "GET /x/ERROR HTTP/1.1" 200 -',
    "https://example.com/WARNING",
    "MILD: 3, SEVERE: 5",
    "patient 12 SEVERE: 3",
    "class SEVERE: x",
    "I 08:00:01 woke up",
    "debug: false",
    "info: 3",
    "error: no",
    "more info: see below",
    "npm errors are above",
    "error: 0.02",
    "error: 3e-4",
    "error: 0.02 at step 3",
    "Error: 0.02, loss: 0.7",
    "error: 2 loss: 3",
    "train: error: 0.02",
    "2026-11-25 10:00:00 error: 0.02",
    "warning: none",
    "fatal: false",
    "error: nan",
    "0 errors",
    "0 errors, 2 warnings",
    "error=0.02",
    "usage: x [debug] [--error-level]",
    "mean Error: 0.02",
    "choose one of [warn], [crit]",
    "the thread 'main' has panicked",
    "see <11> of the list",
    "<11> of the list",
    "<999>x",
    '{"s":"E","x":1}',
    '{"PRIORITY":"high"}',
]
LINES.update(KEYED | NAMED | LETTERS | dict.fromkeys(INNOCENT))


def continues(levels: Levels) -> bool:
    """Whether the last line continued a traceback."""
    return levels.part is not None and levels.part[1]


@rows(LINES.items())
def test_the_level_that_a_line_tells(row: tuple[str, Level | None]) -> None:
    text, level = row
    assert level_of(text) == level


def test_what_tells_no_level_belongs_to_a_line_before_it_if_it_is_indented() -> None:
    levels = Levels()
    texts = ["x", "  y", "WARNING a", "  more", "\tmore", "b", "  c"]
    warning = Level.WARNING
    assert [levels.of(text) for text in texts] == [None, None, warning, warning, warning, None, None]


@pytest.mark.parametrize("prefix", ["", "[rank1]: ", "| "])
def test_a_traceback_is_an_error_from_its_first_line_to_its_last_exception(prefix: str) -> None:
    error = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "    1 / 0",
        "ZeroDivisionError: division by zero",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in <module>',
        "SystemExit: 3",
    ]
    levels = Levels()
    assert {levels.of(prefix + text) for text in error} == {Level.ERROR}
    assert levels.of(f"{prefix}epoch 2") is None


@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_what_logging_says_of_a_call_that_failed_is_an_error_to_its_end(prefix: str) -> None:
    error = [
        "Traceback (most recent call last):",
        '  File "/usr/lib/python3.11/logging/__init__.py", line 1110, in emit',
        "TypeError: not all arguments converted during string formatting",
        "Call stack:",
        '  File "a.py", line 3, in <module>',
        '    logging.info("x", 1)',
        "Message: 'x'",
        "Arguments: (1,)",
    ]
    levels = Levels()
    assert {levels.of(prefix + text) for text in error} == {Level.ERROR}
    assert levels.of(f"{prefix}epoch 2") is None
    assert levels.of(f"{prefix}  of it") is None


@together(
    "block",
    [
        [
            "\u256d\u2500\u2500 Traceback (most recent call last) \u2500\u2500\u256e",
            "\u2502 /app/train.py:8 in main  \u2502",
            "\u2570\u2500\u2500\u2500\u2500\u256f",
            "ValueError: bad",
        ],
        [
            "Traceback (most recent call last):",
            '  File "train.py", line 2, in main',
            "RuntimeError: Caught KeyError in DataLoader worker process 0.",
            "Original Traceback (most recent call last):",
            '  File "worker.py", line 3, in _loop',
            "KeyError: 5",
        ],
        [
            "2026-11-20 08:00:00 INFO Traceback (most recent call last):",
            '  File "a.py", line 1, in f',
            "    2026-11-20 08:00:00 INFO in f",
            "ValueError: bad",
        ],
    ],
    ids=["a-box", "of-a-worker", "in-a-message"],
)
def test_each_form_of_a_traceback_is_an_error_to_its_end(block: list[str]) -> None:
    levels = Levels()
    assert {levels.of(text) for text in block} == {Level.ERROR}
    assert continues(levels)
    assert levels.of("step 2") is None


def test_a_console_with_colours_shows_levels_and_leaves_colours_of_a_log_as_they_are() -> None:
    texts = ["INFO a", "WARNING b", "  of b", "\x1b[32mERROR\x1b[0m c", "ERROR d", "e"]
    lines = annotated([*(Line(n, n + 1, text) for n, text in enumerate(texts)), Note.at(9, "an ERROR", {})])
    shown = {}
    for colour in (True, False):
        out = io.BytesIO()
        Console(out, ConsoleOptions(colour=colour)).show(lines, "log.txt")
        shown[colour] = out.getvalue().decode().splitlines()
    yellow, red = "\x1b[33m", "\x1b[31m"
    wanted = [texts[0], f"{yellow}WARNING b\x1b[0m", f"{yellow}  of b\x1b[0m", texts[3], f"{red}ERROR d\x1b[0m", "e"]
    assert shown[True] == [*wanted, "── an ERROR ──"]
    assert shown[False] == [plain(text) for text in shown[True]]


def test_a_line_behind_a_traceback_takes_no_time_for_what_stood_before_that() -> None:
    """The detector once stripped two million blanks again for each line, which took minutes."""
    levels = Levels()
    assert levels.of(" " * (2 << 20) + "Traceback (most recent call last):") is Level.ERROR
    assert {levels.of("x") for _ in range(20_000)} == {None}


FRAMES = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    f()"]
GROUP = [
    "  + Exception Group Traceback (most recent call last):",
    '  |   File "c.py", line 3',
    "  | ExceptionGroup: two (2 sub-exceptions)",
    "  +-+---------------- 1 ----------------",
    "    | Traceback (most recent call last):",
    '    |   File "c.py", line 1, in <module>',
    "    | ValueError: 1",
    "    +---------------- 2 ----------------",
    "    | KeyError: 2",
    "    +------------------------------------",
]
OTHERS = {
    "2026-11-20 08:00:03 INFO other thread": Level.INFO,
    "[INFO] x": Level.INFO,
    "INFO: x": Level.INFO,
    '{"level":"info","msg":"x"}': Level.INFO,
    "W1120 08:07:57.833000 13383 torch/run.py:766] x": Level.WARNING,
    "hello world": None,
    "epoch 3: done": None,
}


@together("prefix", ["", "[rank1]: "])
@together("block", [FRAMES, GROUP], ids=["a-traceback", "a-group"])
@together(("text", "level"), OTHERS.items(), ids=list(OTHERS))
def test_a_line_behind_a_traceback_that_is_not_its_exception_has_its_own_level(
    text: str, level: Level | None, block: list[str], prefix: str
) -> None:
    levels = Levels()
    assert {levels.of(prefix + one) for one in block} == {Level.ERROR}
    assert levels.of(prefix + text) == level
    assert not continues(levels)


@pytest.mark.parametrize("text", ["hello", "done:", "x: 1"])
def test_nothing_but_its_closing_line_ends_an_exception_group(text: str) -> None:
    levels = Levels()
    assert {levels.of(one) for one in GROUP} == {Level.ERROR}
    assert levels.of(text) is None


def test_a_line_of_another_thread_does_not_end_a_traceback() -> None:
    levels = Levels()
    texts = [
        *FRAMES,
        "INFO of another",
        "  thread",
        '  File "a.py", line 2, in g',
        "    g()",
        "a.b.<locals>.MyError: x",
    ]
    found = [levels.of(text) for text in texts]
    assert found == [*[Level.ERROR] * 3, Level.INFO, Level.INFO, *[Level.ERROR] * 3]
    assert continues(levels)
    assert levels.of("hello") is None


@pytest.mark.parametrize("prefix", ["[rank{}]: ", "[default{}]:"])
def test_tracebacks_of_several_ranks_that_are_mixed_are_errors_to_their_ends(prefix: str) -> None:
    levels = Levels()
    for text in [*FRAMES, "KeyboardInterrupt"]:
        assert [levels.of(prefix.format(rank) + text) for rank in range(3)] == [Level.ERROR] * 3
        assert levels.of("INFO the launcher") is Level.INFO
    assert [levels.of(prefix.format(rank) + "step 2") for rank in range(3)] == [None] * 3


@pytest.mark.parametrize("prefix", ["", "[rank1]: ", "[rank1]:"])
def test_a_panic_of_go_is_an_error_to_the_end_of_its_stacks(prefix: str) -> None:
    levels = Levels()
    stack = [
        "goroutine 1 [running]:",
        "main.(*T).get(0xc000012120, {0x4a8f20, 0x3})",
        "\t/tmp/x.go:5 +0x1d",
        "...12 frames elided...",
        "",
        "goroutine 18 gp=0xc000003c0 m=4 mp=0xc00006 [chan receive, 3 minutes]:",
        "main.work(...)",
        "created by main.main in goroutine 1",
        "\t/tmp/x.go:9 +0x85",
    ]
    assert levels.of(f"{prefix}panic: runtime error: index out of range [5] with length 3") is Level.FATAL
    assert [levels.of(prefix + text) for text in stack] == [Level.ERROR] * 9
    assert levels.of("exit status 2" if not prefix else "another writer") is None
    assert levels.of(f"{prefix}step 2") is None
    assert levels.of(f"{prefix}\tof it") is None
    assert levels.of("see goroutine 7 [running]: it waits") is None


@pytest.mark.parametrize("prefix", ["", "[rank1]: ", "0: "])
def test_a_panic_of_rust_goes_on_with_its_message_and_its_stack(prefix: str) -> None:
    levels = Levels()
    stack = [
        "index out of bounds: the len is 3 but the index is 5",
        "stack backtrace:",
        "   0: rust_begin_unwind",
        "             at /rustc/9fc6b431/library/std/src/panicking.rs:645:5",
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
    ]
    for _ in range(2):
        assert levels.of(f"{prefix}thread 'main' panicked at src/main.rs:2:5:") is Level.FATAL
        assert not continues(levels)
        for text in stack:
            assert levels.of(prefix + text) is Level.ERROR
            assert continues(levels)
    assert levels.of(f"{prefix}epoch 2") is None
    assert levels.of(f"{prefix}thread 'main' panicked at 'boom', src/main.rs:2:5") is Level.FATAL
    assert levels.of(f"{prefix}epoch 2") is None


@pytest.mark.parametrize("prefix", ["", "[rank1]: ", "[rank1]:"])
def test_an_abort_of_c_goes_on_with_what_it_says_and_its_frames(prefix: str) -> None:
    levels = Levels()
    abort = [
        "  what():  CUDA error: an illegal memory access was encountered",
        "CUDA kernel errors might be asynchronously reported at some other API call.",
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        "",
        "Exception raised from check at ../c10/cuda/CUDAException.cpp:43 (most recent call first):",
        "frame #0: c10::f(x) + 0x57 (0x7f in /lib/libc10.so)",
    ]
    assert levels.of(f"{prefix}terminate called after throwing an instance of 'std::runtime_error'") is Level.FATAL
    assert {levels.of(prefix + text) for text in abort} == {Level.ERROR}
    assert continues(levels)
    assert levels.of(f"{prefix}epoch 2") is None
    assert levels.of(f"{prefix}frame #1: x") is None


@pytest.mark.parametrize("text", ["2026-11-25 10:00:00 INFO x", '{"level":"info"}', "[2026-11-25 10:00:00] INFO x"])
def test_a_line_of_another_thread_is_no_message_of_a_panic(text: str) -> None:
    levels = Levels()
    assert levels.of("thread 'main' panicked at src/main.rs:2:5:") is Level.FATAL
    assert levels.of(text) is Level.INFO
    assert not continues(levels)


def test_tracebacks_that_never_end_are_forgotten() -> None:
    levels = Levels()
    for rank in range(1000):
        assert levels.of(f"[rank{rank}]: {FRAMES[0]}") is Level.ERROR
    assert levels.of("[rank999]:   File") is Level.ERROR
    assert levels.of("[rank1]:   File") is None
    for _ in range(1000):
        levels.of("INFO x")
    assert levels.of("[rank999]:   File") is None


PARTS = ("1", "2", "[INFO] ", "08:12:0", "3 ", "[1] ", "E0101 08:08:08 ", "INFO", "ERROR", "DEBUG", " ", "_", "x", ": ",
         "error: ", ".INFO", "INFO.", "=ERROR", "LOG_LEVEL", "[warn]",
         "[info ]", "[", "x: error: ", "critical: ", "0.5", ":00 ",
         ":00 error ", ":00 [E] ", "|info|", "[E] ", "terminate called recursively", "  what(): ",
         "level=warn ", "MyError: ", " - ", "Traceback (most recent call last):",
         "\u0661", "\udc80", "?", "I1234 08:08:08")  # fmt: skip


def test_a_line_has_the_level_that_it_has_whatever_line_was_before_it() -> None:
    """The memory of the last line serves lines of the same shape alone."""
    rng = random.Random(7)
    for _ in range(3000):
        levels = Levels()
        begin = rng.choice(("1", "[1] ", "")) + "".join(rng.choices(PARTS, k=rng.randint(1, 4)))
        before, text = (f"{each}{rng.choice(PARTS)}" for each in (begin, begin.replace("1", "2")))
        if "Traceback" in before or "terminate" in before or text[:1] in (" ", "\t"):
            continue  # the level of such a line depends on the one before
        levels.of("x")
        levels.of(before)
        assert levels.of(text) == Levels().of(text), (before, text)
    levels = Levels()
    repeated = ["1 INFO a", "Traceback (most recent call last):", "E: x", "1 INFO b", "  of b", "z", "2 INFO c"]
    found = [levels.of(text) for text in repeated]
    assert found == [Level.INFO, *[Level.ERROR] * 2, Level.INFO, Level.INFO, None, Level.INFO]


def cri(*said: tuple[str, str]) -> list[Line]:
    """The lines of a container's log, from (stream, text) pairs."""
    records = "".join(f"2026-11-25T11:00:00.{n:09d}Z {stream} F {text}\n" for n, (stream, text) in enumerate(said))
    renderer = Renderer()
    return renderer.feed(records.encode()) + renderer.close()


BETWEEN = ["done", "Saving", "ok", "loss: 0.5", "step 2", '{"a": 1}', "done.", "Epoch 1: 10%", "Finished: 3 items"]
STACK = ["goroutine 1 [running]:", "main.f()", "\t/tmp/x.go:5 +0x1d", "created by main.main in goroutine 1"]


@rows(itertools.product([[*FRAMES, "ValueError: bad"], STACK, GROUP[:4]], [*BETWEEN, "", "  indented"], range(4)))
def test_a_line_of_a_containers_other_stream_is_of_no_traceback(row: tuple[list[str], str, int]) -> None:
    block, text, at = row
    said = [("stdout", "step 1"), *(("stderr", one) for one in block), ("stdout", "  of step 1")]
    said.insert(at + 2, ("stdout", text))
    lines = annotated(cri(*said))
    wrong = [line.text for line in Chooser(Choice(level=Level.ERROR)).feed(lines) if line is not None]
    assert wrong == block
    encoded = [json.loads(f"[{each}") for each in map(encoded_row, lines)]
    assert [each[2] for each in encoded if each[3] & (ERROR | INSIDE)] == block
    out = io.BytesIO()
    Console(out, ConsoleOptions(output="json")).show(lines, "0.log")
    told = map(json.loads, out.getvalue().decode().splitlines())
    assert [each["body"] for each in told if each.get("severity_text") == "ERROR"] == block


@pytest.mark.parametrize("text", ["done", "ok", "loss: 0.5", "done.", "step 2"])
def test_a_word_in_small_letters_is_no_exception(text: str) -> None:
    levels = Levels()
    texts = [*FRAMES, text, '  File "a.py", line 2, in g', "ValueError: bad"]
    assert [levels.of(one) for one in texts] == [*[Level.ERROR] * 3, None, *[Level.ERROR] * 2]


@together(
    "text",
    ["socket.timeout: timed out", "Empty", "_Stopped: x", "my_error: x", "main.<locals>.stop", "KeyError:", "grpc.a: "],
)
def test_an_exception_may_have_a_type_in_small_letters(text: str) -> None:
    levels = Levels()
    assert {levels.of(one) for one in [*FRAMES, text]} == {Level.ERROR}
    assert levels.of("hello") is None


def test_an_object_of_a_low_level_may_speak_of_a_traceback() -> None:
    levels = Levels()
    assert levels.of('{"level":"info","msg":"it was: Traceback (most recent call last): x"}') is Level.INFO
    assert levels.of("  indented") is Level.INFO
    assert levels.of('{"level":"error","msg":"Traceback (most recent call last): x"}') is Level.ERROR


@together(
    ("line", "found"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory", True),
        ("my_Error: x", True),
        ("Exception: x", True),
        ("Exception in thread Thread-3 (worker):", True),
        ("Exception in thread Thread-1:", True),
        ('Exception in thread "main" java.lang.StackOverflowError', True),
        ("[rank3]: Exception in thread pin_memory:", True),
        ("2026-11-20 08:00:00 Exception in thread Thread-1:", True),
        ("Exception ignored in: <function f at 0x7f>", True),
        ("Exception in callback f()", True),
        ("Task exception was never retrieved", True),
        ("INFO Exception in thread pools is handled", False),
        ("no Exception in thread pools", False),
        ("Exception in thread", False),
        ("RuntimeErrors: none", False),
        ("0 errors: fine", False),
        ("TERRORS", False),
        ("E0721 08:12:13.123456 1 a.cc:9] lost", True),
        ("[rank0]:[F1221 08:12:13.123456 1 a.cc:9] lost", True),
        ("W0721 08:12:13.123456 1 a.cc:9] slow", False),
        ('{"level":50,"msg":"lost"}', True),
        ('{"level":40,"msg":"slow"}', False),
        ('{"level":"dpanic"}', True),
        ("2026-11-23 10:00:00.000000: E tensorflow/x.cc:1] boom", True),
        ("2026-11-23 10:00:00.000000: W tensorflow/x.cc:1] slow", False),
        ('{"severityNumber":17,"body":"boom"}', True),
        ('{"severityNumber":13}', False),
        ("2026/11/23 10:00:00 [error] 123#0: boom", True),
        ("2026/11/23 10:00:00 [emerg] 1#1: bind() failed", True),
        ("[Wed Nov 25 10:00:00 2026] [core:error] [pid 1] boom", True),
        ("srun: error: n1: task 0: Exited", True),
        ("[2026-11-25T10:00:00.000] fatal: cannot create pid", True),
        ("thread 'main' panicked at src/main.rs:2:5:", True),
        ("E20261125 10:00:07.000007 1 foo.cc:42] boom", True),
        ("I20261125 10:00:07.000007 1 foo.cc:42] fine", False),
        ("train: error: 0.02", False),
        ("[10:00:00 ERR] boom", True),
        ("error: boom", True),
        ("Error in f() : boom", True),
        ("level=err msg=boom", True),
        ("Error: no such file", True),
        ("KeyError: 5", True),
        ("ERROR: 0", False),
        ("Quantization Error:   0.0012", False),
        ("Fatal: 0, Error: 0, Warning: 0", False),
        ("2026-11-20 08:00:00 - trainer - ERROR - no", True),
        ("[rank1]: Traceback (most recent call last):", True),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", True),
        ('{"level":"error","msg":"x"}', True),
        ("panic: runtime error: index out of range [5] with length 3", True),
        ("[rank1]: panic: no such key", True),
        ("panic: false", False),
        ("step 5 error=0.1", False),
        ("ERRORS: 0", False),
        ("INFO no Error here", False),
        ("see the traceback below", False),
        ("2026-11-20 08:00:00.123456 E | etcdserver: x", True),
        ("2026-11-20 08:00:00 [E] it failed", True),
        ("  what():  x", True),
        ("a.out: x.c:3: main: Assertion `x > 0' failed.", True),
        ('127.0.0.1 - - [20/Nov/2026 08:00:01] "GET /x/ERROR HTTP/1.1" 200 -', False),
        ("python train.py --log-level=ERROR", False),
        ("ERROR: 0 of 4 nodes answered", True),
    ],
)
def test_an_error_is_a_line_whose_level_is_error_or_worse(line: str, found: bool) -> None:
    assert is_error(line) is found


def test_each_error_holds_a_text_of_the_sieve() -> None:
    """A receiver sends only lines with such texts, and lines around them."""
    said = itertools.chain.from_iterable(path.read_text(errors="replace").splitlines() for path in SAID)
    errors = {text for text in (*said, *LINES) if is_error(text)}
    assert len(errors) > 500
    assert not {text for text in errors if not any(one in text for one in ERRORS)}


def test_a_long_line_is_searched_in_a_time_that_grows_with_its_length() -> None:
    """A pattern with a name of any length before ``Error`` once took minutes."""
    assert not is_error("x." * 200_000)
