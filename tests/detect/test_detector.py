"""The findings of one log's detector, however its bytes are split."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flarelog.detect.across import first_root, judged
from flarelog.detect.aftermath import AFTER, NEAR
from flarelog.detect.base import PIECES, Finding
from flarelog.detect.before import BEFORE
from flarelog.detect.detector import Detector
from flarelog.detect.found import MOST
from flarelog.detect.table import Absence, Table
from flarelog.exit_marks import Exit
from flarelog.lines.levels import Level
from flarelog.lines.line import Line
from flarelog.lines.times import stamp
from flarelog.model import StreamInfo
from flarelog.render.sieve import Sieve
from tests.detect.cases import STREAM, cases, kept, searched
from tests.often import often
from tests.rows import together

SIEVE = Sieve(tuple(piece.encode() for piece in PIECES), False, BEFORE, AFTER)
USUAL = [b"2026-11-20 08:12:%02d INFO step %d loss=0.%d\n" % (n % 60, n, n) for n in range(90)]
OVER = [  # trouble followed by its recovery
    b"curl: (7) Failed to connect to h port 80: Connection refused\n%sretrying in 2 s\n",
    b"E0721 08:12:13.1 1 a.go:1] dial tcp: connection refused\n%sI0721 08:12:15.1 1 a.go:2] connected\n",
    b"fatal: [n1]: FAILED! => {}\n%s...ignoring\n",
]
LATER = [  # trouble that recovered some lines later, or that belongs to a test
    b"[ RUN      ] A.B\nE0721 08:12:13.1 1 a.go:1] dial tcp: connection refused\n%s[       OK ] A.B (3 ms)\n",
    b"[ RUN      ] A.B\n%scp: No space left on device\n[       OK ] A.B (3 ms)\n",
    b"[8.1] nfs: server nas1 not responding, still trying\n%s[9.1] nfs: server nas1 OK\n",
    b"INFO :  fit: received 7 results and 1 failures\n%sINFO :  fit: received 8 results and 0 failures\n",
]


def told(text: str, offset: int) -> int | None:
    return stamp(text)


def a_log(seed: int) -> bytes:
    """Usual lines with some labelled ones among them."""
    chance = random.Random(seed)
    texts = [case.data for case in (*cases("case"), *cases("miss"))]
    parts = [chance.choice(USUAL) for _ in range(chance.randrange(60))]
    if chance.randrange(3) == 0:
        between = b"a line of its own\n" * chance.randrange(NEAR + 1)
        parts.insert(chance.randrange(len(parts) + 1), chance.choice(OVER) % between)
    if chance.randrange(2) == 0:
        between = b"".join(chance.choices(USUAL, k=chance.randrange(2 * BEFORE)))
        parts.insert(chance.randrange(len(parts) + 1), chance.choice(LATER) % between)
    for _ in range(chance.randrange(6)):
        parts.insert(chance.randrange(len(parts) + 1), chance.choice(texts))
    return b"".join(parts)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


@settings(max_examples=often(25, 300), deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 1 << 30), max_size=12))
def test_every_split_gives_the_same_findings(seed: int, cuts: list[int]) -> None:
    data = a_log(seed)
    whole = searched(data, stamped=told)
    assert searched(pieces(data, cuts), stamped=told) == whole
    assert searched(pieces(data, cuts), sieve=SIEVE, stamped=told) == whole


def test_a_sieve_leaves_out_no_finding_of_a_long_log() -> None:
    some = [case for case in cases("case") if case.signature not in ("nccl.desync",)][:: often(64, 1)]
    data = b"".join(b"".join(USUAL) * often(5, 30) + case.data for case in some)
    assert sum(len(piece) for _, piece in kept((data,), SIEVE)) < 0.8 * len(data)
    assert searched(data, sieve=SIEVE, stamped=told) == searched(data, stamped=told)


def test_a_line_without_a_time_has_that_of_the_line_before() -> None:
    found = searched(b"2026-11-20 08:12:03 step\nRuntimeError: NCCL communicator was aborted\n", stamped=told)
    assert found[0].time == stamp("2026-11-20 08:12:03")


@pytest.mark.parametrize(
    ("before", "time"),
    [
        pytest.param("LAUNCH INFO 2022-10-25 15:17:01,067 x\n", "2022-10-25T15:17:20.1Z", id="another-year"),
        pytest.param("2026-01-01 00:00:01 x\n", "2025-10-25T15:17:20.1Z", id="the-turn-of-a-year"),
        pytest.param("LAUNCH INFO 2022-10-25 15:17:01,067 x\n" + "y\n" * BEFORE, "2026-10-25T15:17:20.1Z", id="far"),
        pytest.param("W1025 15:17:01.1 811 a.cc:1] y\n", "2026-10-25T15:17:20.1Z", id="no-year-at-all"),
    ],
)
def test_a_time_without_a_year_is_of_the_year_that_lines_before_it_tell(before: str, time: str) -> None:
    """Otherwise the last lines of an earlier year's log would sort before its first ones."""
    data = before + "F1025 15:17:20.1 811 a.cc:1] Check failed: a\n"
    found = searched(data.encode(), stamped=lambda text, offset: stamp(text, now=stamp("2026-11-20T09:00:00Z")))
    assert found[0].time == stamp(time)


def test_what_comes_again_is_counted() -> None:
    found = searched(b"cp: error: No space left on device\n" * 1000)
    assert [(each.signature, each.count, each.offset, each.last) for each in found] == [
        ("disk.full", 1000, 0, 35 * 999)
    ]


def test_the_time_of_a_line_is_looked_for_once() -> None:
    """Otherwise, in a log without times, each of 100,000 lines would search the 20 lines before it again."""
    asked: list[int] = []
    data = b"ERROR the worker could not do it\n" * 1000 + b"x\n" * 19 + b"cp: No space left on device\n"
    found = searched(data, stamped=lambda text, offset: asked.append(offset))
    assert [(each.signature, each.count) for each in found] == [("log.error", 1000), ("disk.full", 1)]
    assert len(asked) == 1 + BEFORE + 1


def test_memory_has_a_bound() -> None:
    detector = Detector(STREAM, Table())
    texts = [f"Out of memory: Killed process {n} (python) total-vm:1kB" for n in range(MOST + 500)]
    detector.feed([Line(n, n + 1, text) for n, text in enumerate(texts)])
    assert (len(detector.findings), detector.more) == (MOST, 500)


@pytest.mark.parametrize(
    ("lines", "role"),
    [
        pytest.param('Traceback (most recent call last):\n  File "a", line 1, in b\nKeyError\n', "root", id="raised"),
        pytest.param(
            "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\n"
            'Traceback (most recent call last):\n  File "a", line 1, in b\n'
            "AssertionError: can only test a child process\n",
            "advice",
            id="at-the-end-of-a-good-run",
        ),
        pytest.param(
            "2026-11-20 08:12:03 WARNING retrying\nTraceback (most recent call last):\n"
            '  File "a", line 1, in b\nOSError: busy\n',
            "fallback",
            id="a-warning",
        ),
        pytest.param(
            'Traceback (most recent call last):\n  File "a", line 1, in b\nKeyboardInterrupt\n', "symptom", id="ctrl-c"
        ),
        pytest.param(
            'Traceback (most recent call last):\n  File "a", line 1, in b\nEOFError\n', "cascade", id="the-other-end"
        ),
        *(
            pytest.param(f'Traceback (most recent call last):\n  File "a", line 1, in b\n{raised}\n', role, id=raised)
            for raised, role in {
                "OSError: handle is closed": "cascade",
                "ValueError: Queue <multiprocessing.queues.Queue object at 0x7f> is closed": "cascade",
                "RuntimeError: Event loop is closed": "cascade",
                "ValueError: I/O operation on closed file.": "cascade",
                "RuntimeError: cannot schedule new futures after interpreter shutdown": "cascade",
                "RuntimeError: the interval must be closed": "root",
            }.items()
        ),
    ],
)  # fmt: skip
def test_a_tracebacks_role(lines: str, role: str) -> None:
    assert [(each.signature, each.role) for each in searched(lines.encode())] == [("python.traceback", role)]


def test_tracebacks_of_ranks_that_are_mixed_are_put_together() -> None:
    rows = ["Traceback (most recent call last):", '  File "a.py", line {}, in b', "    c()", "{}Error: {}"]
    data = "".join(
        f"[rank{rank}]: {row.format(*(('Key', 'Type')[rank] if '{}Err' in row else rank + 1, rank))}\n"
        for row in rows
        for rank in range(2)
    )
    found = searched(data.encode())
    assert [(each.facts["exception"], each.facts["at"]) for each in found] == [
        ("KeyError", "a.py:1"),
        ("TypeError", "a.py:2"),
    ]


@pytest.mark.parametrize("prefix", ["", "[rank1]: "])
def test_a_line_of_another_thread_is_not_the_exception_of_a_traceback(prefix: str) -> None:
    begun = ["Traceback (most recent call last):", '  File "a.py", line 1, in f']
    others = ["2026-11-20 08:00:03 INFO of another", "  of it", "loss: 0.3", "hello world"]
    rows = [*begun, *others, '  File "b.py", line 2, in g', others[0], "ValueError: x", "loss: 0.2"]
    found = searched("".join(f"{prefix}{row}\n" for row in rows).encode())
    assert [(each.facts["exception"], each.facts["at"]) for each in found] == [("ValueError", "b.py:2")]
    cut = searched("".join(f"{prefix}{row}\n" for row in [*begun, *others]).encode())
    assert [each.facts.get("exception") for each in cut] in ([], [None])


TRACE = [
    "Traceback (most recent call last):",
    '  File "a.py", line 1, in <module>',
    "    main()",
    "ValueError: bad batch",
]
CHAIN = [
    *TRACE,
    "",
    "During handling of the above exception, another exception occurred:",
    "",
    *TRACE[:3],
    "KeyError: 1",
]
OTHERS = [
    "done",
    "Saving",
    "ok",
    "loss: 0.5",
    "step 2",
    '{"a": 1}',
    "done.",
    "Finished: 3 items",
    "OSError: x",
    "",
    "  x",
]


def in_container(said: Sequence[tuple[str, str]], form: str) -> bytes:
    """The log of a container that wrote *said*: (stream, text) pairs."""
    time = "2026-11-25T11:00:00.{:09d}Z"
    if form == "cri":
        return "".join(f"{time.format(n)} {of} F {text}\n" for n, (of, text) in enumerate(said)).encode()
    records = [{"log": f"{text}\n", "stream": of, "time": time.format(n)} for n, (of, text) in enumerate(said)]
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


@pytest.mark.parametrize("form", ["cri", "docker"])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(("block", "cause"), [(TRACE, None), (CHAIN, "ValueError")], ids=["one", "a-chain"])
def test_a_line_of_a_containers_other_stream_is_of_no_traceback(
    block: list[str], cause: str | None, other: str, form: str
) -> None:
    for at in range(1, len(block)):
        said = [("stdout", "step 1"), *(("stderr", one) for one in block), ("stdout", "step 9")]
        said.insert(at + 1, ("stdout", other))
        found = [each for each in searched(in_container(said, form)) if each.signature == "python.traceback"]
        assert [(each.text, each.role, each.facts.get("cause"), each.facts["at"]) for each in found] == [
            (block[-1], "root", cause, "a.py:1")
        ]


def test_tracebacks_of_a_containers_two_streams_are_two() -> None:
    said = [(of, text.replace("Value", of)) for text in TRACE for of in ("stdout", "stderr")]
    found = searched(in_container(said, "cri"))
    assert [each.text for each in found] == ["stdoutError: bad batch", "stderrError: bad batch"]


def test_an_exception_that_points_to_another_one_is_a_symptom_of_it() -> None:
    raised = 'Traceback (most recent call last):\n  File "a", line 1, in b\n'
    text = f"{raised}ValueError: unsupported head size\n{raised}RuntimeError: no engine. See root cause above.\n"
    found = judged(searched(text.encode()))
    assert [(each.facts["exception"], each.role) for each in found] == [
        ("ValueError", "root"),
        ("RuntimeError", "symptom"),
    ]


RAISED = 'Traceback (most recent call last):\n  File "a", line {}, in b\n'


def test_what_a_thread_says_of_a_closed_queue_follows_from_what_is_printed_behind_it() -> None:
    text = RAISED.format(1) + "OSError: handle is closed\n" + RAISED.format(2) + "KeyError: 'lr'\n"
    assert [(each.facts["exception"], each.role) for each in judged(searched(text.encode()))] == [
        ("OSError", "symptom"),
        ("KeyError", "root"),
    ]


@together("prefix", ["", "[rank1]: "])
@together("begin", ["multiprocessing.pool.RemoteTraceback: ", "concurrent.futures.process._RemoteTraceback: "])
def test_an_exception_that_a_pool_passes_on_is_one(begin: str, prefix: str) -> None:
    text = (
        f'{begin}\n"""\n{RAISED.format(1)}ValueError: bad\n"""\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        f"{RAISED.format(2)}ValueError: bad\n"
    )
    found = searched("".join(f"{prefix}{row}\n" for row in text.splitlines()).encode())
    assert [each.facts["exception"] for each in found] == ["ValueError"]


def test_the_exception_of_a_spawned_process_is_that_of_its_parent() -> None:
    text = (
        RAISED.format(1)
        + "torch.multiprocessing.spawn.ProcessRaisedException: \n\n"
        + "-- Process 0 terminated with the following error:\n"
        + RAISED.format(2)
        + "KeyError: 'lr'\n"
    )
    found = searched(text.encode())
    assert [(each.facts, each.length) for each in found] == [({"exception": "KeyError", "at": "a:2"}, len(text))]
    cut = text[: text.index("KeyError")]
    assert [each.facts["exception"] for each in searched(cut.encode())] == [
        "torch.multiprocessing.spawn.ProcessRaisedException"
    ]


def test_a_thread_that_lost_a_process_follows_from_what_is_said_of_that_process() -> None:
    lost = 'Traceback (most recent call last):\n  File "queues.py", line 9, in _feed\nBrokenPipeError: Broken pipe\n'
    assert [(each.text, each.role) for each in judged(searched((lost + "Worker 3 has died\n").encode()))] == [
        ("BrokenPipeError: Broken pipe", "symptom"),
        ("Worker 3 has died", "root"),
    ]
    assert [each.role for each in judged(searched(lost.encode()))] == ["root"]


IN_USER_CODE = """ValueError: in user code:

    File "net.py", line 8, in call  *
        return self.fc(x)

    ValueError: Shapes (None, 1) and (None, 10) are incompatible

"""


@together(
    ("message", "exception", "at"),
    [
        pytest.param(
            IN_USER_CODE, "ValueError: Shapes (None, 1) and (None, 10) are incompatible", "net.py:8", id="tensorflow"
        ),
        pytest.param(
            "RuntimeError: not imported:\n\n" + RAISED.format(2) + "KeyError: 'lr'\n", "KeyError: 'lr'", "a:2", id="ray"
        ),
        pytest.param(
            "RuntimeError: rank 3 failed:\n    Traceback (most recent call last):\n"
            "      File \"b\", line 2, in c\n    KeyError: 'lr'\n",
            "KeyError: 'lr'",
            "b:2",
            id="indented",
        ),
        pytest.param(
            "RayActorError: it died, ray::A.__init__() (pid=1)\n  File \"b\", line 2, in c\nKeyError: 'lr'\n",
            "KeyError: 'lr'",
            "b:2",
            id="ray-of-a-constructor",
        ),
    ],
)
def test_a_traceback_within_an_exceptions_message_tells_the_cause(message: str, exception: str, at: str) -> None:
    text = RAISED.format(1) + message
    (found,) = searched(text.encode())
    assert (found.text, found.facts["at"], found.length) == (exception, at, len(text))


def test_what_else_an_exceptions_message_goes_on_with_is_a_line_like_any_other() -> None:
    text = RAISED.format(1) + "RuntimeError: the build failed:\n  CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert [each.signature for each in searched(text.encode())] == ["python.traceback", "cuda.oom"]
    cut = RAISED.format(1) + "RuntimeError: not imported:\n\n" + RAISED.format(2)
    assert [each.text for each in searched(cut.encode())] == ["RuntimeError: not imported:"]


def test_the_stack_that_jax_shows_before_an_exception_belongs_to_it() -> None:
    text = (
        RAISED.format(1) + "jax._src.source_info_util.JaxStackTraceBeforeTransformation: ValueError: it is empty\n\n"
        "The preceding stack trace is the source of the JAX operation that, once transformed by JAX, triggered the "
        "following exception.\n\n--------------------\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        + RAISED.format(2)
        + "ValueError: it is empty\n"
    )
    (found,) = searched(text.encode())
    assert (found.facts["exception"], found.facts["at"], found.length) == ("ValueError", "a:2", len(text))


def test_the_first_of_two_tracebacks_counts_also_where_it_ends_last() -> None:
    lines = [*RAISED.format(1).splitlines(), "ValueError: Free memory on device is less than desired"]
    logged = "".join(f"(A) ERROR {each}\n" for each in lines) + "(A) Process A:\n"
    text = logged + "".join(f"(A) {each}\n" for each in (*lines, "bye"))
    assert [(each.offset, each.count, each.last) for each in searched(text.encode())] == [(0, 2, len(logged))]


def test_lines_of_a_traceback_whose_beginning_is_missing_are_no_findings() -> None:
    text = (
        'ERROR 12-04 11:31:15 [core.py:843]   File "/v/vllm/core.py", line 747, in failed to\n'
        "(APIServer pid=811)     raise RuntimeError('Engine failed. '\n"
    )
    assert searched(text.encode()) == []


def test_what_stands_before_a_traceback_and_behind_it_is_of_its_stream() -> None:
    """Only the stream with the traceback tells whether the program goes on."""
    warned = [("stderr", "WARNING write failed, retrying"), ("stdout", "step 1"), *(("stderr", one) for one in TRACE)]
    for behind, role in (("stderr", "symptom"), ("stdout", "root")):
        said = [("stderr", one) for one in TRACE] + [(behind, "INFO retrying"), ("stderr", "bye")]
        assert [each.role for each in searched(in_container(said, "cri"))] == [role]
    assert [each.role for each in searched(in_container(warned, "cri"))] == ["fallback"]
    other = [("stdout", text) if text.startswith("W") else (of, text) for of, text in warned]
    assert [each.role for each in searched(in_container(other, "cri"))] == ["root"]


@together("prefix", ["", "[rank1]: "])
@together("others", [["done"], ["loss: 0.5"], ["ok", "step 2", "", "Saved it"], ["done."]], ids=str)
def test_a_word_in_small_letters_is_no_exception_of_a_traceback_that_goes_on(others: list[str], prefix: str) -> None:
    more = ['  File "b.py", line 2, in g', "    g()", "KeyError: 1"]
    for said, exception, at in (
        ([*TRACE[:3], *others, TRACE[3]], "ValueError", "a.py:1"),
        ([*TRACE[:2], *others, *more], "KeyError", "b.py:2"),
    ):
        found = searched("".join(f"{prefix}{row}\n" for row in [*said, "step 3"]).encode())
        assert [(each.role, each.facts["exception"], each.facts["at"]) for each in found] == [("root", exception, at)]


@together("type_", ["done", "socket.timeout", "_InactiveRpcError", "grpc._channel._Rpc", "my_error", "stop"])
@together("behind", [[], ["step 2", *["x y"] * 500], ["", "Saved: 3", "bye"], TRACE, CHAIN[4:]], ids=len)
def test_an_exception_may_have_a_type_in_small_letters(type_: str, behind: list[str]) -> None:
    data = "".join(f"{row}\n" for row in [*TRACE[:3], f"{type_}: x", *behind])
    found = searched(data.encode())
    if behind == CHAIN[4:]:
        assert [each.facts["cause"] for each in found] == [type_]
    else:
        assert found[0].facts["exception"] == type_
        assert data[: found[0].length].strip().endswith(f"main()\n{type_}: x")
        assert len(found) == (2 if behind == TRACE else 1)


def test_an_exception_in_small_letters_after_which_the_program_goes_on_is_a_symptom() -> None:
    for behind, role in (("INFO retrying in 5 s", "symptom"), ("INFO bye", "root")):
        rows = [*TRACE[:3], "stop: x", behind, *["INFO x"] * 400]
        assert [each.role for each in searched("".join(f"{row}\n" for row in rows).encode())] == [role]


def test_a_traceback_without_an_end_takes_no_more_than_its_bound() -> None:
    data = b"Traceback (most recent call last):\n" + b'  File "a", line 1, in b\n' * 5000 + b"KeyError: 1\n"
    assert [(each.signature, each.offset) for each in searched(data)] == [("program.exception", len(data) - 12)]


def test_a_connection_between_processes_of_a_machine_is_no_network() -> None:
    """For example, a DataLoader's worker is killed while it hands over a tensor."""
    text = """Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/torch/multiprocessing/reductions.py", line 541, in rebuild_storage_fd
    fd = df.detach()
  File "/usr/lib/python3.11/multiprocessing/connection.py", line 399, in _recv
    chunk = read(handle, remaining)
ConnectionResetError: [Errno 104] Connection reset by peer
"""
    found = searched(text.encode())
    assert [(each.signature, each.role, each.facts["exception"]) for each in found] == [
        ("process.died", "cascade", "ConnectionResetError")
    ]
    other = text.replace("multiprocessing/", "urllib3/")
    assert [each.signature for each in searched(other.encode())] == ["net.unreachable"]


RAISED_IN_A_MESSAGE = (
    'Traceback (most recent call last):\n  File "/app/rows.py", line 178, in batched\n    row = one(row)\n'
    "rows.TooLong: 2174 is more than 2048\n"
)


def test_a_traceback_behind_a_bar_is_one() -> None:
    bar = b"Epoch 0:  5%|##   | 50/1000 [00:05<01:00]"
    data = b'Traceback (most recent call last):\n  File "a.py", line 1, in b\nKeyError\n'
    assert [each.facts for each in searched(bar + data)] == [{"exception": "KeyError", "at": "a.py:1"}]


@together(
    ("text", "role"),
    [
        pytest.param("INFO [train] " + RAISED_IN_A_MESSAGE + "INFO step 3\n", "symptom", id="goes-on"),
        pytest.param("10%|# | 1/9[WARNING:swift] " + RAISED_IN_A_MESSAGE + "step 3\n", "symptom", id="behind-a-bar"),
        pytest.param("INFO [train] " + RAISED_IN_A_MESSAGE, "root", id="the-last-word"),
        pytest.param("INFO [train] " + RAISED_IN_A_MESSAGE + "a word\nINFO shutting down\n", "root", id="an-end"),
        pytest.param("ERROR [train] " + RAISED_IN_A_MESSAGE + "INFO step 3\n" * 99, "root", id="an-error"),
        pytest.param("10%|# | 1/9 " + RAISED_IN_A_MESSAGE + "INFO step 3\n" * 99, "root", id="no-level"),
        pytest.param(
            "".join(f"INFO [rank1] {line}\n" for line in RAISED_IN_A_MESSAGE.splitlines()) + "INFO step 3\n" * 99,
            "root",
            id="each-line-of-a-process-passed-on",
        ),
    ],
)
def test_a_traceback_within_a_message_of_a_low_level_was_caught(text: str, role: str) -> None:
    assert [each.role for each in judged(searched(text.encode()))] == [role]


HEAD_OF_JAVA = 'Exception in thread "main" java.lang.reflect.InvocationTargetException\n'
FRAME = "\tat java.base/java.lang.reflect.Method.invoke(Method.java:580)\n"
LAST = "org.apache.logging.log4j.LoggingException: log4j-slf4j2-impl cannot be present with log4j-to-slf4j"
CAUSED = "Caused by: java.lang.ExceptionInInitializerError\n" + FRAME + "\t... 4 more\n"


@together(
    ("text", "said"),
    [
        pytest.param(HEAD_OF_JAVA + FRAME + CAUSED + f"Caused by: {LAST}\n" + FRAME, LAST, id="the-last-one"),
        pytest.param(HEAD_OF_JAVA + FRAME * 90 + f"Caused by: {LAST}\n" + FRAME * 90, LAST, id="behind-many-frames"),
        pytest.param(HEAD_OF_JAVA + f"Caused by: {LAST}\n", LAST, id="without-frames"),
        pytest.param(
            HEAD_OF_JAVA.replace("reflect.InvocationTarget", "Runtime")
            + FRAME
            + "Caused by: java.lang.RuntimeException: the shards overlap\n"
            + FRAME,
            "java.lang.RuntimeException: the shards overlap",
            id="of-the-same-type",
        ),
        pytest.param(
            "26/11/25 10:00:01 ERROR SparkContext: Error initializing SparkContext.\n"
            "org.apache.spark.SparkException: the master does not answer\n" + FRAME * 90 + f"Caused by: {LAST}\n",
            LAST,
            id="below-a-heading",
        ),
        pytest.param(
            HEAD_OF_JAVA + FRAME + "\nDriver stacktrace:\n" + FRAME + f"Caused by: {LAST}\n", LAST, id="of-spark"
        ),
        pytest.param(
            "Unhandled exception. System.TypeInitializationException: A type initializer threw an exception.\n"
            " ---> System.AggregateException: One or more errors occurred.\n"
            " ---> System.DllNotFoundException: Unable to load shared library 'onnx'\n   at A.B() in /a.cs:line 7\n",
            "System.DllNotFoundException: Unable to load shared library 'onnx'",
            id="of-dot-net",
        ),
        pytest.param(
            HEAD_OF_JAVA + "WARN Client: the second one\n" + FRAME * 5 + f"Caused by: {LAST}\n",
            "java.lang.reflect.InvocationTargetException",
            id="of-a-trace-whose-heading-is-no-finding",
        ),
        pytest.param(
            (
                "26/11/25 10:00:01 ERROR SparkContext: Error initializing SparkContext.\n"
                "org.apache.spark.SparkException: the master does not answer\n" + FRAME * 90 + f"Caused by: {LAST}\n"
            )
            * 3,
            LAST,
            id="again-and-again",
        ),
        pytest.param(HEAD_OF_JAVA + FRAME + CAUSED, "java.lang.ExceptionInInitializerError", id="the-only-one"),
        pytest.param(HEAD_OF_JAVA + FRAME, "java.lang.reflect.InvocationTargetException", id="none"),
        pytest.param(
            HEAD_OF_JAVA + FRAME + "the job ends\n" + f"Caused by: {LAST}\n" + FRAME,
            "java.lang.reflect.InvocationTargetException",
            id="of-another-trace",
        ),
        pytest.param(
            "RuntimeError: CUDA out of memory\n" + FRAME + f"Caused by: {LAST}\n",
            "RuntimeError: CUDA out of memory",
            id="behind-a-cause-by-itself",
        ),
    ],
)
def test_the_last_cause_in_a_trace_of_java_is_its_root(text: str, said: str) -> None:
    root = first_root(judged(searched(text.encode())))
    assert root is not None
    assert root.text.endswith(said)
    assert root.offset == text.rfind("\n", 0, text.find(root.text)) + 1


def test_an_exception_of_java_tells_its_cause() -> None:
    found = searched((HEAD_OF_JAVA + FRAME + CAUSED + f"Caused by: {LAST}\n").encode())
    assert [each.facts.get("cause") for each in found] == [
        "java.lang.ExceptionInInitializerError",
        "org.apache.logging.log4j.LoggingException",
        None,
    ]


def test_source_lines_of_a_traceback_are_no_findings() -> None:
    data = (
        b'Traceback (most recent call last):\n  File "a", line 1, in b\n'
        b"    raise RuntimeError('CUDA out of memory. Tried to allocate')\nValueError: x\n"
    )
    assert [each.signature for each in searched(data)] == ["python.traceback"]


FULL = b"cp: error: No space left on device\n"


def attempts(*said: tuple[bytes, int]) -> tuple[bytes, tuple[Exit, ...]]:
    """The bytes of a log of commands, and their ends; *said* holds the output and the exit code of each."""
    data, ends = b"", list[Exit]()
    for text, status in said:
        data += text
        ends.append(Exit(len(data), 0, f"p{len(ends)}", status=status))
    return data, tuple(ends)


@pytest.mark.parametrize(
    ("codes", "found"),
    [
        pytest.param((0, 4), [("symptom", 1), ("root", 1)], id="good-and-bad"),
        pytest.param((0, 0, 0, 4, 4), [("symptom", 3), ("root", 2)], id="many-good-ones-are-one"),
        pytest.param((4, 0, 4), [("root", 3)], id="what-was-a-root-stays-one"),
        pytest.param((0, 0), [("symptom", 1), ("symptom", 1)], id="good-ones"),
    ],
)
def test_what_a_good_attempt_said_is_a_root_of_a_later_bad_one(
    codes: tuple[int, ...], found: list[tuple[str, int]]
) -> None:
    data, ends = attempts(*((b"begin\n" + FULL, code) for code in codes))
    told = judged(searched(data, ends=ends), [StreamInfo(STREAM, 0, len(data), 0, True, ends)])
    assert [(each.role, each.count) for each in told if each.signature == "disk.full"] == found


def test_a_bad_attempts_root_has_its_place_where_there_are_too_many_findings() -> None:
    many = b"".join(b"Out of memory: Killed process %d (python) total-vm:1kB\n" % n for n in range(MOST - 1))
    data, ends = attempts((FULL + many, 0), (FULL, 1))
    found = searched(data, ends=ends)
    assert len(found) == MOST
    assert [each.offset for each in found if each.signature == "disk.full"] == [len(data) - len(FULL)]


def silent(seconds: float) -> Table:
    signature = Table().signatures[0]
    return Table(absences=(Absence(signature, "step", seconds),))


def lacking(gap: int, seconds: float, table: Table | None = None) -> list[Finding]:
    data = f"2026-11-20 08:00:00 step 1\n2026-11-20 08:{gap:02d}:00 still here\n".encode()
    return searched(data, table or silent(seconds), stamped=told)


def test_a_line_that_is_not_there_is_found_after_its_time() -> None:
    assert len(lacking(10, 600)) == 1
    assert lacking(9, 600) == []


@pytest.mark.parametrize(("minute", "silences"), [(9, []), (10, [0])])
def test_silence_that_the_awaited_line_itself_ends_counts(minute: int, silences: list[int]) -> None:
    data = b"2026-11-20 08:00:00 step 1\n2026-11-20 08:%02d:00 step 2\n2026-11-20 08:15:00 end\n" % minute
    assert [each.offset for each in searched(data, silent(600), stamped=told)] == silences


def test_silence_at_the_end_of_an_open_log_counts() -> None:
    detector = Detector(STREAM, silent(600), stamped=told)
    detector.feed([Line(0, 27, "2026-11-20 08:00:00 step 1")])
    begin = stamp("2026-11-20 08:00:00")
    assert begin is not None
    assert detector.close(begin + 599 * 10**9) == []
    assert len(detector.close(begin + 600 * 10**9)) == 1


@pytest.mark.parametrize(
    ("ended", "sent", "silences"),
    [
        pytest.param(599, 0, 0, id="soon"),
        pytest.param(600, 0, 1, id="late"),
        pytest.param(599, 9000, 0, id="told-later"),
        pytest.param(0, 0, 0, id="nobody-knows-when"),
    ],
)
def test_silence_counts_up_to_the_end_of_the_command(ended: int, sent: int, silences: int) -> None:
    begin = stamp("2026-11-20 08:00:00")
    assert begin is not None
    times = [seconds and begin // 10**6 + seconds * 1000 for seconds in (ended, sent)]
    end = Exit(27, 0, "p", signal=9, ended=times[0], clock=times[1])
    found = searched(b"2026-11-20 08:00:00 step 1\n", silent(600), stamped=told, ends=[end])
    assert [(each.offset, each.count) for each in found] == [(0, 1)] * silences


def test_no_command_lacks_what_another_one_said() -> None:
    begin = stamp("2026-11-20 08:00:00")
    assert begin is not None
    end = Exit(27, 0, "p", signal=9, ended=begin // 10**6 + 1000)
    data = b"2026-11-20 08:00:00 step 1\n2026-11-20 09:00:00 begin\n2026-11-20 09:09:00 here\n"
    assert searched(data, silent(600), stamped=told, ends=[end]) == []
    assert len(searched(data, silent(540), stamped=told, ends=[end])) == 1


def test_a_findings_severity_is_its_signatures() -> None:
    assert searched(b"RuntimeError: CUDA out of memory\n")[0].severity is Level.FATAL


@pytest.mark.parametrize(
    ("data", "came", "now", "silences"),
    [
        pytest.param(b"step 1\nloss\n", [(0, 0), (600, 600)], None, [0], id="another-line-came-later"),
        pytest.param(b"step 1\nloss\n", [(0, 0), (599, 700)], None, [], id="perhaps-too-early"),
        pytest.param(b"step 1\nloss\n", [(0, 1), (600, 600)], None, [], id="perhaps-too-late"),
        pytest.param(b"loss\nloss\n", [(0, 0), (500, 500)], 600, [0], id="nowhere"),
        pytest.param(b"loss\nstep 1\n", [(0, 0), (500, 500)], 600, [], id="lately"),
        pytest.param(b"step 1\nstep 2\n", [(0, 0), (1, 1)], 601, [7], id="last"),
        pytest.param(b"step 1\nloss\n", [None, None], 9999, [], id="nobody-knows-when"),
        pytest.param(b"banner\n2026-11-20 08:00:00 step 1\n", [(0, 0)], None, [], id="a-time-begins-afresh"),
        pytest.param(b"2026-11-20 08:00:00 step 1\nloss\n", [(0, 0), (9e9, 9e9)], None, [], id="times-come-first"),
    ],
)
def test_lines_that_tell_no_time_count_by_their_arrival(
    data: bytes, came: list[tuple[float, float] | None], now: float | None, silences: list[int]
) -> None:
    lines = [Line(*one) for one in zip(*_places(data), data.decode().splitlines(), strict=True)]
    times = {line.offset: (int(one[0] * 1e9), int(one[1] * 1e9)) for line, one in zip(lines, came, strict=False) if one}
    detector = Detector(STREAM, silent(600), stamped=told, came=lambda line: times.get(line.offset))
    detector.feed(lines)
    detector.close(None if now is None else int(now * 1e9))
    assert [each.offset for each in detector.findings] == silences


def _places(data: bytes) -> tuple[list[int], list[int]]:
    ends = list(accumulate(len(line) for line in data.splitlines(keepends=True)))
    return [0, *ends[:-1]], ends


def test_arrivals_count_up_to_the_end_of_each_command() -> None:
    detector = Detector(
        STREAM,
        silent(600),
        ends=[Exit(5, 0, "p", ended=600_000), Exit(10, 0, "q", ended=1_100_000)],
        came=lambda line: (line.offset * 10**11, line.offset * 10**11),
    )
    detector.feed([Line(0, 5, "loss"), Line(5, 10, "loss")])
    detector.close()
    assert [(each.offset, each.count) for each in detector.findings] == [(0, 1), (5, 1)]
