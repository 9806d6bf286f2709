"""The lines that begin trouble."""

from __future__ import annotations

from flarelog.viewers.display import ERROR
from tests.rows import together


@together(
    ("line", "found"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory", True),
        ("my_Error: x", True),
        ("Exception: x", True),
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
    ],
)
def test_an_exception_s_name_begins_trouble(line: str, found: bool) -> None:
    assert bool(ERROR.search(line)) is found


def test_a_long_line_is_searched_in_a_time_that_grows_with_its_length() -> None:
    """A pattern with a name of any length before ``Error`` once took minutes."""
    assert ERROR.search("x." * 200_000) is None
