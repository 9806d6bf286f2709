"""Lines that report the absence of trouble, and similar lines that report trouble."""

from __future__ import annotations

import time

import pytest

from flarelog.detect.across import judged
from flarelog.detect.base import LOOKED
from flarelog.detect.speaking import denied, is_skipped, without_nothing
from tests.detect.cases import searched
from tests.rows import together

NOTHING = """0 uncorrectable errors
no uncorrectable errors
2026-11-20 08:00:00 0 uncorrectable ECC errors
node3: 0 fatal errors
no fatal errors
fatal errors: none
error: none
error: null
last error: none
"error": null, "failed": false
Error: No error
error: success
error: nil
last fatal error: nil
info: no ERROR
[info] it saw no ERROR
out of memory: 0
No space left on device: 0 times
connection refused: 0
link errors: 0
0 permission denied
status: not failed
[ERROR] 0 issues
ERROR: no problems found
connection refused test passed
handles "Permission denied": ok
Testing "No space left on device" ... ok
No fatal error
No fatal error occurred
No critical error was found.
No other errors
error: false
Error: false
fatal: null
"fatal": false, "error": ""
errors: []
Write errors:           0
[ERROR] count: 0
[FATAL] total: 0
CRITICAL error rate: 0.0%
none failed
http_errors_total{kind="connection refused"} 0
[main 1a2b3c4] Fix fatal error on startup
[fix-fatal-error 1a2b3c4] Fix: error when connection refused
[main (root-commit) 1a2b3c4] Add handling of CUDA out of memory
[detached HEAD 1a2b3c4] fix(io): No space left on device
HEAD is now at 1a2b3c4 Fatal error: no space left on device is told
* 1a2b3c4 Fix: Segmentation fault in loader
1a2b3c4 Revert "fatal error: connection refused"
| * 1a2b3c4 (origin/x) Fix crash: No space left on device
commit 1a2b3c: fix: "no space left on device" when saving
pick 1a2b3c4 Fix fatal error on exit
Applying: Fix fatal error: no space left on device
[ RUN      ] Net.FatalError
[       OK ] Net.FatalError (0 ms)
[ DISABLED ] Net.FatalError
[  SKIPPED ] Gpu.Exception (0 ms)
\u2713 reports "connection refused" (1 ms)
  \u2714 throws on no space left on device
\u221a rejects with Error: connect ECONNREFUSED 127.0.0.1:80
ok 3 - connection refused is reported
    ok 2 - dies with Segmentation fault
=== CONT  TestOOM: out of memory
    --- PASS: TestX: connection refused
--- SKIP: TestX: no space left on device
XFAIL: tests/fatal error
PASS src/fatal error.test.ts
tests/a.py::test_x[CUDA out of memory] PASSED
tests/a.py::test_x[No space left on device] PASSED [100%]
tests/a.py::test_x[Permission denied] XFAIL (known) [ 10%]
[gw1] [ 50%] PASSED tests/a.py::test_x[Permission denied]
test_x (tests.T) no space left on device ... skipped 'no GPU'
test a - should panic: no space left on device ... ignored
NetTest > fails when connection refused PASSED
1/2 Test #1: connection refused ...............   Passed    0.01 sec
      Start  1: fatal error
TASK [fail: no space left on device] *******************
2026-11-20T08:00:00.1234567Z \u2713 reports connection refused"""

TROUBLE = """10 uncorrectable errors
GPU 0 uncorrectable ECC errors
[rank 0] uncorrectable ECC error
GPU-0 uncorrectable errors
error: none of the shards could be read
error: null pointer
Error: null
Fatal error: nil
main.swift:9: Fatal error: nil
2026/11/20 08:00:00 fatal error: null
Error: not found
read error: not found
write error: 0 bytes written
java.lang.NullPointerException: null
KeyError: 0
out of memory: 10
No space left on device: 3 times
status: failed
worker 0 permission denied
exit status 0: permission denied: /x
[ERROR] 0 issues fixed, 3 left
ERROR: no issues database found
ERROR no errors were expected, got 3
ERROR the deadline has passed
2 tests failed, 3 tests passed
Connection refused: ok.txt
no errors found in shard 3, but cannot open shard 4
0 errors; ERROR the disk is gone
{"level":"error","msg":"checkpoint failed","error":null}
fatal error: false positives exceed the limit
No fatal error handler is installed: cannot continue
No such device error: cannot open /dev/x
no such device error: fatal error
No error was reported, but cannot open shard 4
error: false start of frame
Error: nullptr
errors: [1, 2]: cannot open both
error: "" is not a valid name: cannot open it
ERROR count: 3
[ERROR] count: 0 expected, got 3
[ERROR] retry count: 0.5 is not valid
[ERROR] code: 0: connection refused
1a2b3c4d ERROR connection refused
[req 1a2b3c4d] ERROR: connection refused
[req 1a2b3c4d] connection refused by 10.0.0.1
[req 1a2b3c4d] dial tcp 10.0.0.1:80: connection refused
[trace 4f3a2b1] write failed: No space left on device
1700000000 fatal error: no space left on device
1a2b3c4d5e6f fatal error: cannot start
1a2b3c4 Add failed: connection refused
commit 1a2b3c4 failed: connection refused
could not apply 1a2b3c4... Fix fatal error
error: could not apply 1a2b3c4... Fix fatal error
Applying failed: no space left on device
[ RUN ] fatal error: no space left on device
\u2713 3 passed \u2717 2 failed: connection refused
\u2717 connection refused
not ok 3 - connection refused is reported
ok: connection refused
ok 3 shards, 2 failed to load: No space left on device
start 3: fatal error: no space left on device
skipped shard 3: No space left on device
loading model ... skipped, No space left on device
loading model ... ok, but: No space left on device
TASK failed: connection refused
PLAY 3: fatal error
PASSED on to the loader: No space left on device
tests/a.py::test_x[Permission denied] FAILED [100%]
NetTest > fails when connection refused FAILED
1/2 Test #1: connection refused ...............***Failed    0.01 sec
http_errors{kind="fatal error"} cannot be sent: connection refused"""


@together("text", NOTHING.splitlines())
def test_a_line_that_says_that_nothing_is_wrong_is_no_finding(text: str) -> None:
    assert searched(f"start\n{text}\nstop\n".encode()) == []


@together("text", TROUBLE.splitlines())
def test_a_line_that_says_that_something_is_wrong_is_a_root(text: str) -> None:
    found = judged(searched(f"start\n{text}\nstop\n".encode()))
    assert [each.role for each in found] == ["root"]


MESSAGE = """commit 9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c (HEAD -> main)
Author: A. Person <a@example.org>
Date:   Fri Nov 20 08:00:00 2026 +0000

    Tell what failed

    The server aborted with "fatal error: no space left on device".
"""


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        pytest.param(MESSAGE, 0, id="git-log"),
        pytest.param(MESSAGE.replace("commit 9f8e", "job 9f8e"), 1, id="of-no-commit"),
        pytest.param(MESSAGE + "fatal: cannot write\n", 1, id="behind-it"),
        pytest.param(MESSAGE + "make test\n    fatal error: cannot write\n", 1, id="of-another-command-behind-it"),
    ],
)
def test_a_commits_message_is_no_finding(text: str, roots: int) -> None:
    assert sum(each.is_root for each in judged(searched(text.encode()))) == roots


@together(
    "part",
    [
        "0 errors ",
        "no a b ",
        "error: none",
        "[ERROR] 0 a ",
        "08:00:0 ",
        "test passed",
        "...ok ",
        "a1",
        "\u2713",
        "a::b ",
        "{a} ",
        "* ",
        "skipping ",
        "- skipping a",
        "[skip]",
    ],
)
def test_a_hostile_line_takes_a_bounded_time(part: str) -> None:
    text = (part * LOOKED)[:LOOKED]
    begin = time.process_time()
    without_nothing(text), denied(text, 9), is_skipped(text)
    assert time.process_time() - begin < 0.25
