"""Lines that say that there is no trouble, and those that look like one and say that there is."""

from __future__ import annotations

import time

import pytest

from flarelog.detect.across import judged
from flarelog.detect.base import LOOKED
from flarelog.detect.speaking import denied, without_nothing
from tests.detect.cases import searched

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
Testing "No space left on device" ... ok"""

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
{"level":"error","msg":"checkpoint failed","error":null}"""


@pytest.mark.parametrize("text", NOTHING.splitlines())
def test_a_line_that_says_that_nothing_is_wrong_is_no_finding(text: str) -> None:
    assert searched(f"start\n{text}\nstop\n".encode()) == []


@pytest.mark.parametrize("text", TROUBLE.splitlines())
def test_a_line_that_says_that_something_is_wrong_is_a_root(text: str) -> None:
    found = judged(searched(f"start\n{text}\nstop\n".encode()))
    assert [each.role for each in found] == ["root"]


@pytest.mark.parametrize(
    "part", ["0 errors ", "no a b ", "error: none", "[ERROR] 0 a ", "08:00:0 ", "test passed", "...ok "]
)
def test_a_hostile_line_takes_a_bounded_time(part: str) -> None:
    text = (part * LOOKED)[:LOOKED]
    begin = time.process_time()
    without_nothing(text), denied(text, 9)
    assert time.process_time() - begin < 0.25
