"""A general failure message is a root where no better one exists and the program does not go on after it."""

from __future__ import annotations

import time

import pytest

from flarelog.detect import going_on, speaking
from flarelog.detect.across import BEHIND, judged
from flarelog.detect.aftermath import AFTER, NEAR, ON, ON_LINKS, telling
from flarelog.detect.base import LOOKED, WENT_ON, Sieved
from flarelog.detect.detector import Detector
from flarelog.detect.endings import STEPS, ended_well, ends_well, finishes
from flarelog.detect.going_on import (
    HEAD,
    begun_test,
    does_without,
    gets_over,
    is_back,
    is_caught,
    is_of_a_part,
    is_step,
    is_well,
    is_well_again,
    shape_of,
    shows,
    starts_python,
    starts_shell,
)
from flarelog.model import StreamInfo
from flarelog.viewers.findings import drawn
from tests.detect.cases import DATA, STREAM, TABLE, cases, searched
from tests.rows import together

ERROR = "ERROR the shards do not add up\n"
LINES = "a line of its own\n"


def roles(text: str, *infos: StreamInfo) -> list[str]:
    return [each.role for each in judged(searched(text.encode()), infos)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(ERROR, ["root"], id="the-last-word"),
        pytest.param(ERROR + "step 12 loss 0.3\n", ["symptom"], id="a-step"),
        pytest.param(ERROR + LINES * (AFTER - 1) + "epoch 3\n", ["symptom"], id="a-step-that-is-near"),
        pytest.param(ERROR + LINES * AFTER + "epoch 3\n", ["root"], id="a-step-that-is-far"),
        pytest.param(ERROR + "model saved\n" + ERROR, ["root"], id="again-behind-it"),
        pytest.param("training finished\n" + ERROR, ["symptom"], id="behind-a-good-end"),
        pytest.param("INFO - Job a-1 completed successfully\n" + ERROR, ["symptom"], id="behind-a-jobs-good-end"),
        pytest.param(
            "12:00:01 INFO [m.py:7] Finished successfully.\n" + ERROR, ["symptom"], id="behind-one-of-no-name"
        ),
        pytest.param("INFO Security checks completed successfully\n" + ERROR, ["root"], id="behind-a-parts-good-end"),
        pytest.param("Successfully completed download of a.zip\n" + ERROR, ["root"], id="behind-a-good-download"),
        pytest.param("Training data loading finished\n" + ERROR, ["root"], id="behind-a-good-loading"),
        pytest.param(ERROR + "  %81 = tt.load %80 : tensor<16x!tt.ptr<f16>>\n", ["root"], id="a-type-is-no-figure"),
        pytest.param(ERROR + "  Explanation score: 0.70 (raw 7.0/10)\n", ["symptom"], id="a-score"),
        pytest.param(ERROR + "oom_score: 700\n", ["root"], id="a-score-of-the-kernel"),
        pytest.param(ERROR + "INFO shutting down\n", ["root"], id="an-end-at-info"),
        pytest.param(ERROR + "INFO round 4\n", ["symptom"], id="more-at-info"),
        pytest.param(ERROR + "[INFO] ------\n[INFO] Total time:  1.2 s\n", ["root"], id="a-line-of-dashes-at-info"),
        pytest.param(ERROR + "cp: No space left on device\n", ["symptom", "root"], id="beside-a-cause"),
        pytest.param("WARNING ignoring it\n" + ERROR + ERROR, ["root"], id="once-of-a-log"),
    ],
)
def test_it_is_a_root_where_nothing_else_is_and_nothing_goes_on(text: str, expected: list[str]) -> None:
    assert roles(text) == expected


OVER = {
    "wget": "Connecting to d|10.0.0.9|:443... failed: Connection timed out.\nRetrying.\n",
    "curl": "curl: (7) Failed to connect to h port 80: Connection refused\nretrying in 2 s\nok\ndone\n",
    "docker": 'Error response from daemon: Get "https://r/v2/": TLS handshake timeout\nRetrying in 5 seconds\n',
    "docker-pull": "Error response from daemon: i/o timeout\nagain\nStatus: Downloaded newer image for r/train:1\n",
    "java": "08:00:00.000 WARN  a.Client - request failed, retrying (1/3)\n"
    "java.net.SocketTimeoutException: Read timed out\n"
    + "\tat java.net.X.read(X.java:1)\n" * 40
    + "INFO a.Main - step\n",
    "ansible": 'fatal: [n1]: FAILED! => {"rc": 127}\n...ignoring\nok: [n1]\n',
    "postgres": "2026-11-20 08:00:00.100 UTC [33] FATAL:  the database system is starting up\n"
    "2026-11-20 08:00:01.100 UTC [1] LOG:  database system is ready to accept connections\n",
    "postgres-client": '2026-11-20 08:03:00.100 UTC [40] ERROR:  duplicate key value violates "runs_pkey"\n'
    "2026-11-20 08:05:01.100 UTC [1] LOG:  checkpoint complete: wrote 44 buffers; 0 removed\n",
    "klog": "E1120 08:00:01.000000 1 l.go:332] error retrieving lock: dial tcp 10.0.0.1:6443: connection refused\n"
    "I1120 08:00:05.000000 1 l.go:260] successfully acquired lease\n",
    "spark": "26/11/25 10:00:01 ERROR TaskSchedulerImpl: Lost executor 3 on n: heartbeat timed out\n"
    "26/11/25 10:00:12 INFO TaskSetManager: Finished task 3.1 in stage 2.0 (TID 18)\n",
    "logrus": 'time="2026-11-20T08:00:01Z" level=error msg="failed to dial peer" err="connection refused"\n'
    'time="2026-11-20T08:00:02Z" level=info msg="peer connected"\n',
    "git": "error: pathspec 'f' did not match any file(s) known to git\nSwitched to a new branch 'f'\n",
    "restic": "error: read /tmp/lock: open: permission denied\nFiles: 120 new\nsnapshot 1a2b3c saved\n",
    "go-test": "    a_test.go:9: got expected error: open x: no such file or directory\nPASS\nok  \tsvc\t0.012s\n",
    "tensorflow": "2022-07-21 08:21:44.254039: W tensorflow/stream_executor/gpu/redzone_allocator.cc:314] Internal: "
    "ptxas exited with non-zero error code 256, output: \nRelying on driver to perform ptx compilation. \n",
    "wandb": "wandb: ERROR Error while calling W&B API: context deadline exceeded (<Response [500]>)\n"
    "wandb: - 0.005 MB of 0.455 MB uploaded\nwandb: Synced 6 W&B file(s), 0 media file(s)\n",
    "wandb-retries": "wandb: ERROR Network error (ConnectionError), entering retry loop.\n",
}
REFUSED = "curl: (7) Failed to connect to h port 80: Connection refused\n"
NOT_OVER = {
    "the-last-try": "08:00:00.000 WARN  a.Client - request failed, retrying (3/3)\n"
    "java.net.SocketTimeoutException: Read timed out\n\tat java.net.X.read(X.java:1)\n",
    "far": REFUSED + LINES * NEAR + "retrying in 2 s\n",
    "again-in-vain": REFUSED + "retrying in 2 s\n" + REFUSED,
    "a-step-of-another-rank": REFUSED + "step 5 loss 0.3\n",
    "a-connection-that-is-gone": REFUSED + "INFO disconnected\n",
    "no-success": REFUSED + "INFO request was not successful\n",
    "an-orderly-end": REFUSED + "INFO successfully stopped\n",
    "an-error": REFUSED + "ERROR connected to the wrong host\n",
    "a-recap": 'fatal: [n1]: FAILED! => {"rc": 127}\nn1 : ok=4 failed=1 rescued=0 ignored=0\n',
    "what-is-fatal": "FATAL the loss is lost\nINFO model saved successfully\n",
    "a-database-that-ends": "2026-11-20 08:00:00.100 UTC [1] FATAL:  could not open the lock file\n"
    "2026-11-20 08:00:01.100 UTC [1] LOG:  database system is shut down\n",
    "a-cause-by-itself": "RuntimeError: CUDA out of memory\nINFO peer connected\n",
    "an-earlier-one": REFUSED + LINES * 9 + REFUSED + "retrying in 2 s\n",
    "wandb": "wandb: ERROR api_key not configured (no-tty)\nwandb: Find logs at: ./wandb/a/logs\n",
    "wandb-in-vain": "wandb: ERROR Error uploading a.log: CommError, <Response [403]>\nwandb: 0.1 MB of 2 MB\n",
    "go-test": "    a_test.go:9: error: open x: no such file or directory\n--- FAIL: TestA\nFAIL\n",
}


@together("text", OVER.values(), ids=list(OVER))
def test_what_the_next_lines_get_over_is_no_root(text: str) -> None:
    assert "root" not in roles(text)


@together("text", NOT_OVER.values(), ids=list(NOT_OVER))
def test_what_they_do_not_get_over_is_one(text: str) -> None:
    assert "root" in roles(text)


STALLED = (
    "[1,0]<stderr>:[2020-10-23 17:16:00.707119: W horovod/common/stall_inspector.cc:105] One or more tensors were "
    "submitted to be reduced by subset of ranks and are waiting for remainder of ranks for more than 60 seconds. "
    "This will cause deadlock.\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(STALLED + "0: [DistributedAdam.x]\n", ["root"], id="the-last-word"),
        pytest.param(" WARNING: " + STALLED, ["root"], id="of-a-warning"),
        pytest.param(STALLED + "step 12 loss 0.3\n", ["symptom"], id="which-ended"),
        pytest.param(STALLED + "RuntimeError: CUDA out of memory\n", ["symptom", "root"], id="beside-a-cause"),
        pytest.param("WARNING: this program may hang with fork\n", ["symptom"], id="which-may-come"),
    ],
)
def test_a_stall_of_which_a_warning_tells_is_a_root_where_nothing_better_is(text: str, expected: list[str]) -> None:
    assert roles(text) == expected


RAISED = "ERROR app: ValueError: two shards overlap\n"
FULL = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
DOWN = "[811.1] mlx5_core 0000:3b:00.0 ib0: Link down\n"
NAN = "epoch 3 loss nan\n"
DENIED = "cp: cannot create regular file 'a': Permission denied\n"
DENIED_IN_PYTHON = (
    'Traceback (most recent call last):\n  File "a", line 1, in b\n'
    "PermissionError: [Errno 13] Permission denied: 'a'\n"
)


@together(
    ("text", "expected"),
    [
        pytest.param(RAISED + "INFO round 4\n" * (ON - 1), ["root"], id="an-exception-and-few-lines"),
        pytest.param(RAISED + "INFO round 4\n" * ON, ["symptom"], id="an-exception-and-more"),
        pytest.param(RAISED + "INFO round 4\n" * ON + RAISED, ["root"], id="an-exception-again"),
        pytest.param(REFUSED + "step 5\n" * (ON_LINKS - 1), ["root"], id="a-connection-and-few-lines"),
        pytest.param(REFUSED + "step 5\n" * ON_LINKS, ["symptom"], id="a-connection-and-more"),
        pytest.param(FULL + "step 5\n" * 99, ["root"], id="a-cause-by-itself"),
        pytest.param(DENIED + "step 5\n" * (ON - 1), ["root"], id="a-denied-file-and-few-lines"),
        pytest.param(DENIED + "step 5\n" * ON, ["symptom"], id="a-denied-file-and-more"),
        pytest.param(DENIED_IN_PYTHON + "step 5\n" * 99, ["root"], id="a-denied-file-of-a-traceback"),
        pytest.param(DENIED_IN_PYTHON + "[INFO] BUILD SUCCESS\n", ["symptom"], id="which-ends-well"),
        pytest.param(NAN + "epoch 4 loss 0.3\n" * ON, ["symptom"], id="a-loss-that-is-a-number-again"),
        pytest.param(NAN * 9, ["root"], id="a-loss-that-stays"),
        pytest.param("a 12 b\nvalue 7 here\n" + ERROR + "value 8 here\n", ["symptom"], id="the-routine"),
        pytest.param("value 7 here\n" + ERROR + "word 8 here\n", ["root"], id="another-line"),
        pytest.param("stopping 7\n" + ERROR + "stopping 8\n", ["root"], id="the-routine-of-an-end"),
        pytest.param(FULL + "[INFO] BUILD SUCCESS\n", ["symptom"], id="a-good-end-of-the-whole"),
        pytest.param(FULL + "task 7: status success\n", ["root"], id="a-good-end-of-a-part"),
        pytest.param(FULL + "==== 41 passed, 2 skipped in 3 s ====\n", ["symptom"], id="tests-that-passed"),
        pytest.param(FULL + "==== 1 failed, 41 passed in 3 s ====\n", ["root"], id="one-that-did-not"),
        pytest.param(DOWN + "[819.1] mlx5_core 0000:3b:00.0 ib0: Link up\n", ["symptom"], id="well-again"),
        pytest.param(DOWN + "[819.1] mlx5_core 0000:5e:00.0 ib1: Link up\n", ["root"], id="another-one"),
    ],
)
def test_what_goes_on_for_long_or_ends_well_tells_of_what_may_be_a_cause_by_itself(
    text: str, expected: list[str]
) -> None:
    assert roles(text) == expected


MODEL = "ERROR Error loading model: CUDA out of memory. Tried to allocate 2.00 GiB\n"
PACKAGE = "ERROR ModuleNotFoundError: No module named 'x'\n"
LAST = "`Trainer.fit` stopped: `max_epochs=3` reached.\n"
DONE = "Training finished OK\n"
SERVED = 'INFO: 10.0.0.4:51812 - "POST /v1/completions HTTP/1.1" 200 OK\n'
RAISE = 'Traceback (most recent call last):\n  File "a", line 1, in {}\nValueError: x\n'
IMPORT = RAISE.replace("ValueError: x", "ModuleNotFoundError: No module named 'x'")


@together(
    ("text", "expected"),
    [
        pytest.param(MODEL + "step 5\n" * ON, ["symptom"], id="it-takes-its-steps"),
        pytest.param(MODEL + SERVED * ON, ["symptom"], id="it-serves"),
        pytest.param(MODEL + "INFO shared memory is mapped\n" * 99, ["root"], id="no-steps"),
        pytest.param(MODEL + "step 5\n" * (ON - 1), ["root"], id="few-steps"),
        pytest.param(FULL + "step 5\n" * 99, ["root"], id="as-python-prints-it"),
        pytest.param(MODEL.replace("ERROR", "FATAL") + "step 5\n" * ON, ["root"], id="it-says-that-it-ends"),
        pytest.param(MODEL.replace("loading", "of rank 3:") + "step 5\n" * ON, ["root"], id="of-one-rank"),
        pytest.param(MODEL.replace("loading", "of rank 0:") + "step 5\n" * ON, ["symptom"], id="of-the-first-rank"),
        pytest.param(MODEL + "Retrying with batch size 8\n", ["symptom"], id="it-retries"),
        pytest.param(MODEL + "Retrying with batch size 8\n" + MODEL, ["root"], id="in-vain"),
        pytest.param(FULL + "Retrying with batch size 8\n", ["root"], id="others-retry"),
        pytest.param(PACKAGE * 3 + "step 5\n" * ON, ["symptom"], id="a-package"),
        pytest.param(IMPORT.format("build") + "step 5\n" * ON, ["symptom"], id="a-traceback-of-a-package"),
        pytest.param(IMPORT.format("<module>") + "step 5\n" * ON, ["root"], id="which-may-be-the-end"),
        pytest.param(IMPORT.format("<module>") + "step 5\n" * ON + DONE, ["symptom"], id="but-is-none"),
        pytest.param(RAISE.format("save") + "step 5\n" * 99, ["root"], id="another-exception"),
        pytest.param(RAISE.format("save") + "step 5\n" * STEPS + DONE, ["symptom"], id="and-an-end"),
        pytest.param(RAISE.format("save") + "step 5\n" * (STEPS - 1) + DONE, ["root"], id="and-an-end-at-once"),
        pytest.param(RAISE.format("save") + LAST, ["symptom"], id="and-an-end-that-only-a-training-has"),
        pytest.param(RAISE.format("<module>") + "step 5\n" * 9 + DONE, ["root"], id="another-programs-end"),
        pytest.param(ERROR + RAISE.format("<module>") + "step 5\n" * 9 + DONE, ["symptom"] * 2, id="logged"),
        pytest.param(RAISE.format("<module>") + "INFO job completed successfully\n", ["root"], id="the-scripts-end"),
        pytest.param(RAISE.format("save") + "INFO job completed successfully\n", ["symptom"], id="its-own-good-end"),
        pytest.param(RAISE.format("save") + "step 5\n" * 9 + f"(fit pid=7) {LAST}", ["root"], id="an-end-of-a-part"),
        pytest.param(RAISE.format("save") + "step 5\n" * 9 + "Epoch 3: training done\n", ["root"], id="of-an-epoch"),
        pytest.param(RAISE.format("save") + "step 5\n" * 9 + "INFO END_RUN fired\n", ["root"], id="any-end"),
        pytest.param(
            "".join(f"(fit pid=7) {row}\n" for row in RAISE.format("fit").splitlines()) + "step 5\n" * 9 + DONE,
            ["root"], id="a-part-that-failed",
        ),
        pytest.param(RAISE.format("save") + "step 5\n" * AFTER * 2 + LAST, ["symptom"], id="far-away"),
        pytest.param(FULL + "step 5\n" * 9 + DONE + FULL, ["root"], id="and-again"),
        pytest.param(ON * "step 5\n" + DONE + FULL, ["root"], id="before-it"),
        pytest.param("run.sh: line 3: 81 Killed   python a.py\n" + "step 5\n" * 9 + DONE, ["root"], id="killed"),
    ],
)  # fmt: skip
def test_what_a_program_caught_is_no_cause_if_it_takes_its_steps_or_comes_to_its_end(
    text: str, expected: list[str]
) -> None:
    assert roles(text) == expected


def test_an_outcome_makes_what_the_program_went_on_behind_a_cause_again() -> None:
    found = judged(searched((ERROR + "INFO round 4\nINFO job 7 failed\n").encode()))
    assert [(each.signature, each.role) for each in found] == [("log.error", "root"), ("job.failed", "symptom")]
    assert WENT_ON in found[0].facts


@pytest.mark.parametrize(
    "text",
    [
        RAISED + "INFO round 4\n" * ON,
        "value 7 here\n" + ERROR + "value 8 here\n",
        MODEL + "step 5\n" * ON,
        RAISE.format("save") + "step 5\n" * AFTER * 2 + LAST,
    ],
)
def test_another_detector_knows_what_had_shown_that_the_program_goes_on(text: str) -> None:
    renderer = drawn(TABLE)()
    lines = [each for each in (*renderer.feed(text.encode()), *renderer.close()) if each is not None]
    detector, found = Detector(STREAM, TABLE), searched(text.encode())
    for number, line in enumerate(lines):
        detector.feed(lines[number : number + 1])
        detector = Detector(STREAM, TABLE, known=detector.settled(line.end))
        detector.recall(lines[: number + 1])
    assert [each.role for each in detector.findings] == [each.role for each in found] == ["symptom"]


def test_another_detector_knows_what_a_trace_of_java_and_a_panic_had_begun_with() -> None:
    told = [case.text for case in cases("root") if "Caused by: " in case.text or "goroutine" in case.text]
    long = [text.replace("\n\tat ", "\n\tat a.b\n" * 30 + "\tat ") for text in told]
    for text in (text for text in (*told, *long) if "Traceback" not in text):
        renderer = drawn(TABLE)()
        lines = [each for each in (*renderer.feed(text.encode()), *renderer.close()) if each is not None]
        detector = Detector(STREAM, TABLE)
        for number, line in enumerate(lines):
            detector.feed(lines[number : number + 1])
            detector = Detector(STREAM, TABLE, known=detector.settled(line.end))
            detector.recall(lines[: number + 1])
        assert detector.findings == searched(text.encode())


MISSING = "/spool/job7/script: line 4: nvidia-smi: command not found\n"
UNCONDA = "CondaError: Run 'conda init' before 'conda {}'\n"
WARNED = "/opt/lib/python3.12/site-packages/torch/nn/f.py:31: UserWarning: the default of mode is another one\n"
TRACKED = "/opt/lib/python3.12/multiprocessing/resource_tracker.py:216: UserWarning: leaked semaphores\n"
UNSOURCED = "/spool/job7/script: line 4: activate: No such file or directory\n"
NO_DATA = RAISE.format("load").replace(
    "ValueError: x", "FileNotFoundError: [Errno 2] No such file or directory: '/d/split.mat'"
)
NO_NAME = RAISE.format("<module>").replace("ValueError: x", "ImportError: cannot import name 'a' from 'b'")
NO_VARIABLE = RAISE.format("a").replace("ValueError", '  File "/u/lib/os.py", line 7, in __getitem__\nKeyError')
IMPORTED = "ModuleNotFoundError: No module named 'torch'\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(MISSING, ["root"], id="the-last-word"),
        pytest.param(MISSING + WARNED, ["symptom"], id="a-program-started"),
        pytest.param(MISSING + TRACKED, ["root"], id="a-warning-of-a-programs-end"),
        pytest.param(MISSING + FULL, ["symptom", "root"], id="what-ran-out-for-another-reason"),
        pytest.param(FULL + MISSING, ["root", "root"], id="in-another-order"),
        pytest.param(MISSING + IMPORTED, ["root", "root"], id="what-may-follow-from-it"),
        pytest.param(MISSING + RAISE.format("save"), ["symptom", "root"], id="a-program-that-fails-by-itself"),
        pytest.param(UNSOURCED + RAISE.format("save"), ["symptom", "root"], id="a-script-that-is-not-there"),
        pytest.param(UNSOURCED + NO_DATA, ["symptom", "root"], id="and-data-that-are-not-there"),
        pytest.param(UNSOURCED + "bye\n", ["root"], id="a-script-that-is-not-there-and-an-end"),
        pytest.param(RAISE.format("save") + MISSING, ["root", "root"], id="a-program-before-it"),
        pytest.param(MISSING + IMPORT.format("a"), ["root", "root"], id="an-import-that-may-follow-from-it"),
        pytest.param(MISSING + NO_NAME, ["root", "root"], id="an-import-of-a-name"),
        pytest.param(MISSING + NO_VARIABLE, ["root", "root"], id="a-variable-that-it-would-have-set"),
        pytest.param(MISSING + NO_DATA.replace("/d/split.mat", "nvcc"), ["root", "root"], id="a-program-of-its-module"),
        pytest.param(MISSING + "ERROR app: ValueError: x\n", ["root", "symptom"], id="a-word-without-a-traceback"),
        pytest.param(ERROR + WARNED, ["root"], id="a-program-may-warn-and-end"),
        pytest.param(UNCONDA.format("activate"), ["root"], id="conda"),
        pytest.param(UNCONDA.format("activate") + WARNED, ["symptom"], id="conda-and-a-program"),
        pytest.param(
            UNCONDA.format("activate") + RAISE.format("save"), ["symptom", "root"], id="conda-and-a-program-that-fails"
        ),
        pytest.param(UNCONDA.format("deactivate"), ["symptom"], id="conda-at-the-end"),
    ],
)
def test_what_a_shell_could_not_run_is_no_cause_if_its_script_went_on(text: str, expected: list[str]) -> None:
    assert roles(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[3/90] [ERROR] a.zip is gone\n", ["root"], id="the-last-word"),
        pytest.param("[3/90] [ERROR] a.zip is gone\n[4/90] b.zip\n", ["symptom"], id="the-next-item"),
        pytest.param("[3/90] [ERROR] a.zip is gone\n[3/90] b.zip\n", ["root"], id="the-same-item"),
        pytest.param("[3/90] [ERROR] a.zip is gone\n[4/9] b.zip\n", ["root"], id="another-loop"),
        pytest.param("[ERROR] a.zip is gone\n[4/90] b.zip\n", ["root"], id="trouble-of-no-item"),
        pytest.param("[3/90] RuntimeError: CUDA out of memory\n[4/90] b\n", ["root"], id="a-cause-by-itself"),
        pytest.param("[3/90] [ERROR] a is gone\n[4/90] b\n[5/90] [ERROR] c is gone\n", ["symptom"] * 2, id="once-more"),
        pytest.param(
            "[3/90] [ERROR] a is gone\n[4/90] b\n[ERROR] too many are gone\n", ["root"], id="and-then-it-ends"
        ),
    ],
)
def test_trouble_of_an_item_is_no_cause_if_the_loop_goes_on(text: str, expected: list[str]) -> None:
    assert roles(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("12:00:01 - net - CRITICAL - Loss value is: 0.26\n", ["symptom"], id="a-loss"),
        pytest.param("[ERROR] train accuracy = 91.5%\n", ["symptom"], id="an-accuracy"),
        pytest.param("12:00:01 - net - CRITICAL - Loss is too high: 9.26\n", ["root"], id="it-says-more"),
        pytest.param("12:00:01 - net - CRITICAL - Loss value is: inf\n", ["root"], id="no-number"),
        pytest.param(
            "E tensorflow/core/util/events_writer.cc:131] Failed to flush 2 events to a/events.out.tfevents.1.n\n",
            ["symptom"],
            id="the-record-of-figures",
        ),
    ],
)
def test_a_figure_at_any_level_and_what_only_keeps_figures_are_no_cause(text: str, expected: list[str]) -> None:
    assert roles(text) == expected


ENDED = "run.sh: line 32: 2796 Terminated              python main.py --fit\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("step 3 loss 0.2\n" + ENDED, ["root"], id="the-last-word"),
        pytest.param(ENDED + "step 3 loss 0.2\n", ["symptom"], id="a-step"),
        pytest.param("Training finished\n" + ENDED, ["symptom"], id="behind-a-good-end"),
        pytest.param(FULL + ENDED, ["root", "symptom"], id="beside-a-cause"),
    ],
)
def test_a_process_that_was_ended_is_a_root_where_nothing_better_is(text: str, expected: list[str]) -> None:
    assert roles(text) == expected


MOUNT = 'MountVolume.SetUp failed for volume "shards" : timed out waiting for the condition'
GOT = "LAST SEEN   TYPE      REASON        OBJECT        MESSAGE\n"
UNMOUNTED = f"{GOT}7m2s        Warning   FailedMount   pod/fit-1     {MOUNT}\n"
TOLD = f'"Event occurred" object="lab/fit-1" kind="Pod" type="Warning" reason="FailedMount" message={MOUNT!r}\n'
OBJECT = (
    '{{"type":"{}","reason":"{}","involvedObject":{{"kind":"Pod","namespace":"lab","name":"{}"}},"message":"{}"}}\n'
)
RUNS = TOLD.replace("Warning", "Normal").replace("FailedMount", "Started").replace(MOUNT, "Started container fit")
JSON = OBJECT.format("Warning", "FailedMount", "fit-1", MOUNT.replace('"', "'"))


@together(
    ("text", "expected"),
    [
        pytest.param(
            UNMOUNTED + "6m40s       Normal    Started       pod/fit-1     Started container fit\n", ["symptom"],
            id="get",
        ),
        pytest.param(
            UNMOUNTED + "6m40s       Normal    Pulled        pod/fit-1     Container image is present\n", ["symptom"],
            id="the-image",
        ),
        pytest.param(
            UNMOUNTED + "6m40s       Normal    Started       pod/fit-12    Started container fit\n", ["root"],
            id="another-pod",
        ),
        pytest.param(
            UNMOUNTED + "6m40s       Normal    Scheduled     pod/fit-1     Assigned lab/fit-1 to n4\n", ["root"],
            id="it-only-waits",
        ),
        pytest.param(
            f"  Warning  FailedMount  6m  kubelet  {MOUNT}\n  Normal   Pulled       5m  kubelet  Image is present\n",
            ["symptom"], id="describe",
        ),
        pytest.param(TOLD + RUNS, ["symptom"], id="klog"),
        pytest.param(TOLD + RUNS.replace("fit-1", "fit-2"), ["root"], id="klog-of-another-pod"),
        pytest.param(
            UNMOUNTED + UNMOUNTED.replace("fit-1", "fit-2")
            + "6m40s       Normal    Started       pod/fit-1     Started container fit\n",
            ["symptom", "root"], id="one-of-two",
        ),
        pytest.param(TOLD + TOLD.replace("fit-1", "fit-2") + RUNS, ["symptom", "root"], id="klog-of-one-of-two"),
        pytest.param(
            JSON + JSON.replace("fit-1", "fit-2") + OBJECT.format("Normal", "Started", "fit-1", "Started it"),
            ["symptom", "root"], id="json-of-one-of-two",
        ),
        pytest.param(JSON + OBJECT.format("Normal", "Started", "fit-1", "Started it"), ["symptom"], id="json"),
        pytest.param(JSON + OBJECT.format("Normal", "Started", "fit-2", "Started it"), ["root"], id="json-of-another"),
        pytest.param(
            UNMOUNTED + "6m40s       Normal    Started       pod/fit-1     Started container fit\n" + UNMOUNTED,
            ["root"], id="again",
        ),
    ],
)  # fmt: skip
def test_a_volume_behind_which_the_pod_starts_is_no_root(text: str, expected: list[str]) -> None:
    assert roles(text) == expected


TORN = "ERROR cannot restore run/step-900.pt: PytorchStreamReader failed reading zip archive: not a ZIP archive\n"
SHORT = (
    "(raylet) node_manager.cc:3069: 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed\n"
)


@together(
    ("text", "expected"),
    [
        pytest.param(TORN + "WARNING using the previous checkpoint run/step-800.pt\n", ["symptom"], id="an-older-one"),
        pytest.param(TORN + "Trying an older checkpoint: run/step-800.pt\n", ["symptom"], id="it-tries-one"),
        pytest.param(TORN + "WARNING using the previous checkpoint\n" + TORN, ["root"], id="which-is-torn-too"),
        pytest.param(TORN + "loading the previous checkpoint failed\n", ["root"], id="in-vain"),
        pytest.param(TORN + "there is no previous checkpoint to use\n", ["root"], id="there-is-none"),
        pytest.param(TORN + "rank 1: restored its weights\n", ["root"], id="another-rank-has-it"),
        pytest.param(SHORT + "(fit pid=8) Task failed, will be retried: 1 retries left\n", ["symptom"], id="a-task"),
        pytest.param(SHORT + "(fit pid=8) Retrying the task, 1 retries left\n", ["symptom"], id="a-task-again"),
        pytest.param(SHORT + "(fit pid=8) the task will not be retried: 0 retries left\n", ["root"], id="the-last-try"),
        pytest.param(
            SHORT + "(fit pid=8) Task failed, will be retried: 1 retries left\n" + SHORT, ["root"], id="and-its-end"
        ),
    ],
)
def test_what_a_program_does_once_more_with_something_else_is_no_root(text: str, expected: list[str]) -> None:
    found = judged(searched(text.encode()))
    assert [each.role for each in found if each.signature in ("checkpoint.corrupt", "ray.oom")] == expected


LOST_CLIENT = "INFO :  aggregate_fit: received 7 results and 1 failures\n"


@pytest.mark.parametrize(
    ("text", "role"),
    [
        pytest.param(
            LOST_CLIENT + "INFO :  [ROUND 4]\n" * 9 + LOST_CLIENT.replace("1 f", "0 f"), "symptom", id="a-round-later"
        ),
        pytest.param(LOST_CLIENT + "INFO :  [ROUND 4]\n" * AFTER + LOST_CLIENT.replace("1 f", "0 f"), "root", id="far"),
    ],
)
def test_what_comes_back_is_no_root(text: str, role: str) -> None:
    assert roles(text) == [role]


def test_a_program_that_got_over_it_counts_the_next_one() -> None:
    (found,) = judged(searched((REFUSED + "retrying in 2 s\n" + REFUSED).encode()))
    assert (found.role, found.count, found.offset) == ("root", 2, len(REFUSED + "retrying in 2 s\n"))


def test_the_next_one_counts_where_the_program_had_gone_on() -> None:
    (found,) = judged(searched((ERROR + "step 12 loss 0.3\n" + ERROR).encode()))
    assert (found.role, found.count, found.offset) == ("root", 2, len(ERROR + "step 12 loss 0.3\n"))


def test_a_log_that_goes_on_long_behind_it_went_on() -> None:
    near, far = (StreamInfo(STREAM, 0, len(ERROR) + size, 0, False, ()) for size in (10, BEHIND + 1))
    assert roles(ERROR, near) == ["root"]
    assert roles(ERROR, far) == ["symptom"]


def test_words_that_are_looked_for_before_a_pattern_hide_no_line_that_it_matches() -> None:
    texts = {case.text for kind in ("case", "miss", "root", "usual") for case in cases(kind)}
    texts |= {log.read_text(errors="replace") for log in (DATA / "train").glob("*")}
    heads = {line[:HEAD] for text in texts for line in text.split("\n")}
    sieves = [each for module in (going_on, speaking) for each in vars(module).values() if isinstance(each, Sieved)]
    assert len(sieves) >= 6
    for each in sieves:
        matched = [head for head in heads if each.pattern.search(head)]
        assert matched
        assert [head for head in matched if not each.search(head)] == []
    told = [
        head
        for head in heads
        if begun_test(head) or is_well(head) or starts_python(head) or ends_well(head) or finishes(head)
    ]
    assert [telling([head]) for head in told if telling([head]) != [True]] == []


@pytest.mark.parametrize(
    "part",
    [
        "epoch ",
        "loss: ",
        "success ",
        "failed_a = 1",
        "a" * 20 + " ",
        "0 a ",
        "job ",
        "using the ",
        "job 1",
        "snapshot a",
        "run a ",
        "a.b-1 ok ",
        "] a",
        "Normal Pulled pod/a",
        'reason:"Started"object="',
        'reason:"Started""involvedObject":{"name":',
        "using the previous a ",
        "1 0.5 ",
        "1" + " 0.5" * 40 + " ",
        "/profile.d/a",
        ".rc: line 1",
        "trying ",
        "failed a ",
        "done ",
        "1.1 E ",
        '"POST /a ',
        "'train_runtime'",
    ],
)
def test_a_hostile_line_takes_a_bounded_time(part: str) -> None:
    text = (part * LOOKED)[:LOOKED]
    begin = time.process_time()
    shows(text), finishes(text), is_step(text), is_caught(text), is_of_a_part(text)
    gets_over(text), ended_well(text), does_without(text, 0), ends_well(text), shape_of(text)
    (
        starts_shell(text),
        is_well_again(text, text),
        [is_back(text, name, "") for name in ("k8s.volume", "checkpoint.corrupt", "ray.oom")],
    )
    assert time.process_time() - begin < 0.25
