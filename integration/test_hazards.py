"""Hazards of a program that embeds flarelog: it forks, exits abruptly, has hanging handlers, or plays hundreds of runs.
No byte that could be sent is lost, and flarelog does not harm the program.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flarelog import Bus, Event, Notice, Producer
from flarelog import Receiver as EmbeddedReceiver
from flarelog.errors import InvalidOption
from flarelog.integrations import background as _background
from integration.harness.places import PATIENCE, Place, free_address, until
from tests.often import each, rarely

BEGIN = """
import gc, json, logging, multiprocessing, os, signal, sys, threading, time
from pathlib import Path
from flarelog import Bus, Event, FlarelogError, Notice, Producer, Receiver

logging.basicConfig(format="%(levelname)s %(message)s")
here = Path.cwd()
job, store = here / "job", here / "store"
job.mkdir(exist_ok=True)
bus = Bus()


class Writer(threading.Thread):
    'Appends to the log until it is told to stop.'

    def __init__(self, path=job / "log.txt"):
        super().__init__(daemon=True)
        self.path, self.written, self.over = path, bytearray(), threading.Event()
        self.start()

    def run(self):
        with open(self.path, "ab", buffering=0) as file:
            while not self.over.is_set():
                data = b"%08d a line of the log\\n" % len(self.written) * 20
                file.write(data)
                self.written += data
                self.over.wait(0.002)

    def end(self):
        self.over.set()
        self.join()
        return bytes(self.written)


def until(condition, what, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not in time: {what() if callable(what) else what}"
        time.sleep(0.005)


def stored(run="run", log="log.txt", where=store):
    path = where / run / "site" / log
    return path.read_bytes() if path.exists() else b""


def child(work):
    'Fork, and do *work* in the child, which then falls off the end of the program as any process does.'
    pid = os.fork()
    if pid == 0:
        work()
        sys.exit(0)
    return pid


def ends(pid, seconds=20.0):
    'How the child ended: its exit code, or minus the signal.'
    found = []
    until(lambda: found.extend(os.waitpid(pid, os.WNOHANG)) or found[-2:] != [0, 0], f"child {pid} ends", seconds)
    return os.waitstatus_to_exitcode(found[-1])
"""


@dataclass
class Done:
    """The end of a program, after *seconds*."""

    code: int
    out: str
    err: str
    seconds: float


Play = Callable[..., Done]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """A function that runs a program, with BEGIN before it, to its end."""

    def play(text: str, *args: str, seconds: float = 240.0, before: str = "") -> Done:
        path = tmp_path / "program.py"
        path.write_text(before + BEGIN + textwrap.dedent(text))
        begin = time.monotonic()
        done = subprocess.run(
            # From Python 3.12 on a program with threads is warned of its own forks.
            [sys.executable, "-W", "ignore::DeprecationWarning:__main__", str(path), *args],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr, time.monotonic() - begin)

    return play


def silent(done: Done) -> None:
    """Assert that the program succeeded and printed nothing on stderr."""
    assert (done.code, done.err) == (0, ""), done.err


# --- fork

STREAM = """
with Receiver(str(store), bus=bus) as receiver:
    with Producer(receiver.address, "site", str(job), bus=bus, join_timeout=20) as producer:
        bus.publish(Event.ABOUT_TO_START_RUN, "run")
        bus.publish(Event.START_RUN, "run")
        writer = Writer()
        until(stored, "the stream flows")
        {forks}
        before = len(stored())
        until(lambda: len(stored()) > before, "the stream still flows")
        written = writer.end()
        bus.publish(Event.END_RUN, "run")
        assert [outcome.exit_code for outcome in producer.outcomes["run"]] == [0]
    assert stored() == written
"""


def streaming(forks: str) -> str:
    """A program that forks while its producer streams, and asserts that the stream is complete."""
    return STREAM.format(forks=textwrap.indent(textwrap.dedent(forks), "        ").strip())


CHILDREN = {
    "end at once": "os._exit(0)",
    "fall off the end of the program": "pass",
    "call sys.exit": "sys.exit(0)",
    "exec": "os.execv('/bin/true', ['true'])",
    "stop the parent's objects": "producer.stop(); receiver.stop()",
    "leave them as a context does": "producer.__exit__(None, None, None); receiver.__exit__(None, None, None)",
    "publish on the parent's bus": "bus.publish(Event.START_RUN, 'other'); bus.publish(Event.END_RUN, 'run')",
    "free what they inherited": "globals().update(producer=None, receiver=None, bus=None); gc.collect()",
}


@pytest.mark.parametrize(
    "what",
    each(CHILDREN, "end at once", "exec", "leave them as a context does"),
    ids=[f"children that {what}" for what in CHILDREN],
)
def test_a_program_may_fork_while_it_streams(play: Play, what: str) -> None:
    """Several threads fork at once; the children neither hang nor crash nor print."""
    forks = f"""
    codes = []
    def fork():
        for _ in range(10):
            codes.append(ends(child(lambda: exec({CHILDREN[what]!r}, globals()))))
    threads = [threading.Thread(target=fork) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 20, codes
    """
    silent(play(streaming(forks)))


def test_a_child_that_wants_flarelog_for_itself_is_told_how_to_get_it(play: Play) -> None:
    """The advice also comes after the parent has stopped: the child lacks gRPC's threads, but has its locks."""
    done = play(
        streaming("""
        def own():
            for one in (Receiver(str(here / "other")), Producer("127.0.0.1:1", "site", str(job)), producer):
                try:
                    one.start()
                except FlarelogError as error:
                    print(error, flush=True)
                one.stop()
        assert ends(child(own)) == 0
        """)
        + "\nassert ends(child(own)) == 0\n"
    )
    silent(done)
    assert len(done.out.splitlines()) == 6
    assert all("start the process with spawn, forkserver or exec" in line for line in done.out.splitlines())


def test_children_that_were_forked_before_flarelog_was_used_may_use_it(play: Play) -> None:
    silent(
        play("""
        def own(name):
            bus, there = Bus(), here / name
            with Receiver(str(there), bus=bus) as receiver:
                with Producer(receiver.address, "site", str(job), bus=bus) as producer:
                    bus.publish(Event.START_RUN, "run")
                    (job / "log.txt").write_text("hello")
                    bus.publish(Event.END_RUN, "run")
                    assert [outcome.exit_code for outcome in producer.outcomes["run"]] == [0]
            assert stored(where=there) == b"hello"
        Producer  # has imported gRPC
        pid = child(lambda: own("a"))
        own("b")
        assert ends(pid) == 0
        """)
    )


LOADER = """
def load(items, results):
    'What a worker of a data loader does.'
    for item in iter(items.get, None):
        results.put(item * item)


def square(item):
    return item * item


def epochs(method):
    context = multiprocessing.get_context(method)
    for epoch in range(3):
        items, results = context.Queue(), context.Queue()
        workers = [context.Process(target=load, args=(items, results), daemon=True) for _ in range(2)]
        for worker in workers:
            worker.start()
        for number in range(20):
            items.put(number)
        assert sorted(results.get(timeout=20) for _ in range(20)) == [n * n for n in range(20)]
        for worker in workers:
            items.put(None)
        for worker in workers:
            worker.join(20)
            assert worker.exitcode == 0, worker.exitcode
    with context.Pool(2) as pool:
        assert pool.map(square, range(50)) == [n * n for n in range(50)]
    pool = context.Pool(2)
    assert pool.map(square, range(50)) == [n * n for n in range(50)]
    pool.close()
    pool.join()


def main():
{main}


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    "method",
    ["fork", pytest.param("forkserver", marks=pytest.mark.soak), pytest.param("spawn", marks=pytest.mark.soak)],
)
def test_a_data_loader_s_workers_come_and_go_each_epoch(play: Play, method: str) -> None:
    silent(play(LOADER.format(main=textwrap.indent(streaming(f"epochs({method!r})"), "    "))))


LONG_LIVING = """
receiver = Receiver(str(store), listen=sys.argv[1], bus=bus).start()
producer = Producer(receiver.address, "site", str(job), bus=bus).start()
bus.publish(Event.START_RUN, "run")
(job / "log.txt").write_text("before the fork\\n")
journal = store / "run" / "site" / ".log.txt.journal"
until(lambda: stored() and b'"length"' in journal.read_bytes(), "it is committed")
print(child(lambda: time.sleep(600)), flush=True)
if sys.argv[2] == "stops":
    producer.stop()
    receiver.stop()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", [pytest.param("stops", marks=pytest.mark.soak), "is killed"])
def test_a_child_that_outlives_a_receiver_holds_neither_its_store_nor_its_port(place: Place, end: str) -> None:
    address, program = free_address(), place.directory / "program.py"
    program.write_text(BEGIN + LONG_LIVING)
    with subprocess.Popen(
        [sys.executable, str(program), address, end], cwd=place.directory, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert parent.wait(PATIENCE) == (0 if end == "stops" else -signal.SIGKILL)
            receiver = place.serve(listen=address)
            receiver.holds(b"before the fork\n", "log.txt", "site", "run", sealed=None)
        finally:
            os.kill(child, signal.SIGKILL)  # raises if the child has ended before


def test_grpc_that_was_imported_first_is_named_as_a_danger_to_children_once(play: Play) -> None:
    done = play(
        streaming("[ends(child(lambda: os._exit(0))) for _ in range(3)]"),
        before="import os\nos.environ.pop('GRPC_ENABLE_FORK_SUPPORT', None)\nimport grpc\n",
    )
    assert done.code == 0, done.err
    assert done.err.count("set GRPC_ENABLE_FORK_SUPPORT=0") == 1


# --- the end of a program

ENDING = """
import faulthandler
faulthandler.dump_traceback_later(40)
producer = Producer(sys.argv[1], "site", str(job), bus=bus, exit_timeout=float(sys.argv[2])).start()
bus.publish(Event.START_RUN, "run")
(job / "log.txt").write_bytes(b"to the last byte\\n" * 100_000)
(here / "ends").touch()
"""
ENDS = {
    "falls off its end": ("", 0, ""),
    "calls sys.exit": ("sys.exit(7)", 7, ""),
    "dies of an exception": ("raise ValueError('its own')", 1, "ValueError: its own"),
    "is interrupted": ("signal.raise_signal(signal.SIGINT)", -signal.SIGINT, "KeyboardInterrupt"),
}
EXIT_TIMEOUT = 1.0


@pytest.mark.parametrize(
    "how", each(ENDS, "falls off its end", "is interrupted"), ids=[f"a program that {how}" for how in ENDS]
)
def test_what_is_written_when_a_program_ends_is_sent(play: Play, place: Place, how: str) -> None:
    """The program calls neither END_RUN nor stop()."""
    end, code, last = ENDS[how]
    receiver = place.serve()
    done = play(ENDING + end, receiver.address, "30")
    assert (done.code, done.err.splitlines()[-1:]) == (code, [last] if last else []), done.err
    receiver.holds(b"to the last byte\n" * 100_000, "log.txt", "site", "run", sealed=True)


@pytest.mark.parametrize(
    ("receiver", "how"),
    [
        ("is gone", "falls off its end"),
        ("hangs", "calls sys.exit"),
        *rarely(*(pytest.param("is gone", how) for how in [*ENDS][1:])),
    ],
    ids=lambda text: text.replace(" ", "-"),
)
def test_a_receiver_that_does_not_take_it_holds_up_the_end_no_longer_than_the_bound(
    play: Play, tmp_path: Path, receiver: str, how: str
) -> None:
    """The exit code is the program's, and one WARNING names the unsent logs."""
    end, code, last = ENDS[how]
    with socket.socket() as hanging:
        hanging.bind(("127.0.0.1", 0))
        if receiver == "hangs":
            hanging.listen()
        done = play(ENDING + end, "{}:{}".format(*hanging.getsockname()), str(EXIT_TIMEOUT))
    assert done.code == code
    assert time.time() - (tmp_path / "ends").stat().st_mtime < EXIT_TIMEOUT + 4.0
    assert done.err.count("Traceback") == (1 if last else 0), done.err
    warnings = [line for line in done.err.splitlines() if line.startswith("WARNING the process exits")]
    assert len(warnings) == 1, done.err
    assert "1,700,000 bytes in 1 log of run run" in warnings[0]
    assert "ERROR" not in done.err


def test_a_receiver_in_the_program_stores_what_the_program_s_producer_sends_at_the_end(
    play: Play, tmp_path: Path
) -> None:
    done = play("""
    receiver = Receiver(str(store), bus=bus).start()
    producer = Producer(receiver.address, "site", str(job), bus=bus).start()
    bus.publish(Event.START_RUN, "run")
    Path("job/log.txt").write_bytes(b"to the last byte\\n" * 100_000)
    sys.exit(7)
    """)
    assert (done.code, done.err) == (7, "")
    assert (tmp_path / "store" / "run" / "site" / "log.txt").read_bytes() == b"to the last byte\n" * 100_000


def test_os_exit_and_sigterm_end_a_program_as_they_do_without_flarelog(play: Play) -> None:
    """These ends run no Python code, and flarelog installs no handlers."""
    text = """
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    with Receiver(str(store), bus=bus) as receiver, Producer("127.0.0.1:1", "site", str(job), bus=bus):
        bus.publish(Event.START_RUN, "run")
        assert {number: signal.getsignal(number) for number in signal.valid_signals()} == handlers
        os.kill(os.getpid(), signal.SIGTERM) if sys.argv[1] == "SIGTERM" else os._exit(7)
        time.sleep(60)
    """
    for how, code in (("SIGTERM", -signal.SIGTERM), ("os._exit", 7)):
        done = play(text, how)
        assert (done.code, done.seconds < 10.0) == (code, True)


def test_who_interrupts_the_end_does_not_wait_for_it(play: Play) -> None:
    done = play(
        ENDING
        + """
def interrupt():
    until(lambda: not threading.main_thread().is_alive(), "the program ends")
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
sys.exit(7)
""",
        "127.0.0.1:1",
        "30",
    )
    assert (done.code, "Traceback" in done.err, done.seconds < 10.0) == (7, False, True), done.err
    assert "WARNING the process exits before everything was sent: 1,700,000 bytes" in done.err


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_bound_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidOption, match="exit_timeout"):
        Producer("127.0.0.1:1", "site", ".", exit_timeout=seconds)


# --- handlers

Both = tuple[EmbeddedReceiver, Producer, Bus, Path]


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    """A receiver and a producer on one bus."""
    bus, job = Bus(), tmp_path / "job"
    job.mkdir()
    with (
        EmbeddedReceiver(str(tmp_path / "store"), bus=bus, durability="memory") as receiver,
        Producer(receiver.address, "site", str(job), bus=bus, join_timeout=20.0) as producer,
    ):
        yield receiver, producer, bus, tmp_path


def goes_on(both: Both, run: str = "run") -> None:
    """Play a run, and assert that its log is stored."""
    _, producer, bus, here = both
    log = here / "job" / f"{run}.txt"
    bus.publish(Event.ABOUT_TO_START_RUN, run)
    bus.publish(Event.START_RUN, run)
    log.write_text(f"this is {run}\n" * 1000)
    bus.publish(Event.ABOUT_TO_END_RUN, run)
    bus.publish(Event.END_RUN, run)
    assert [outcome.exit_code for outcome in producer.outcomes[run]] == [0]
    assert (here / "store" / run / "site" / log.name).read_text() == f"this is {run}\n" * 1000
    log.unlink()


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(RuntimeError, marks=pytest.mark.soak),
        SystemExit,
        pytest.param(KeyboardInterrupt, marks=pytest.mark.soak),
    ],
)
def test_a_handler_that_raises_is_told_of_the_next_notice_all_the_same(
    both: Both, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    told = list[str]()

    def handler(notice: Notice) -> None:
        told.append(notice.run)
        raise error("no")

    both[2].subscribe(handler, Event.STREAM_ENDED)
    goes_on(both, "run-1")
    goes_on(both, "run-2")
    until(lambda: {"run-1", "run-2"} <= set(told), "both are told")
    until(lambda: "the run continues" in caplog.text, "it is said")


@pytest.mark.parametrize(
    ("stop", "seconds"),
    [
        pytest.param("producer.stop(); receiver.stop()", 5, id="a program that stops flarelog", marks=pytest.mark.soak),
        pytest.param("", 1, id="a program that just ends"),
    ],
)
def test_a_handler_that_hangs_holds_up_neither_bytes_nor_the_end(play: Play, stop: str, seconds: int) -> None:
    done = play(
        """
    def hang(notice):
        print("hangs", flush=True)
        threading.Event().wait()
    bus.subscribe(hang, Event.STREAM_OPENED)
    receiver = Receiver(str(store), bus=bus).start()
    producer = Producer(receiver.address, "site", str(job), bus=bus).start()
    for run in ("one", "two", "three"):
        bus.publish(Event.START_RUN, run)
        (job / "log.txt").write_text(run)
        bus.publish(Event.END_RUN, run)
        assert stored(run) == run.encode()
        (job / "log.txt").unlink()
    """
        + stop
    )
    assert (done.code, done.out, done.seconds < seconds + 10.0) == (0, "hangs\n", True), done.err
    assert done.err == f"WARNING an event handler did not return within {seconds} s; later events are not delivered\n"


def test_notices_that_wait_for_a_slow_handler_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    background, told, go = _background.Background(), list[int](), threading.Event()
    try:
        background.tell(go.wait)
        for number in range(_background.MAX_NOTICES + 5000):
            background.tell(lambda number=number: told.append(number))  # type: ignore[misc]
        assert caplog.text.count("new events are dropped until it catches up") == 1
        go.set()
        until(lambda: len(told) >= _background.MAX_NOTICES - 1, "it catches up")
        background.tell(lambda: told.append(-1))
        until(lambda: told[-1] == -1, "it is told again")
        assert told[:-1] == list(range(len(told) - 1))
        assert len(told) <= _background.MAX_NOTICES + 1
    finally:
        go.set()
        background.stop()


@pytest.mark.parametrize(
    "event",
    [Event.STREAM_ENDED, pytest.param(Event.START_RUN, marks=pytest.mark.soak), Event.END_RUN],
    ids=lambda event: event.name,
)
def test_a_handler_may_stop_everything(both: Both, event: Event) -> None:
    receiver, producer, bus, here = both
    stopped = threading.Event()

    def stop(_: Notice) -> None:
        producer.stop()
        receiver.stop()
        stopped.set()

    bus.subscribe(stop, event)
    bus.publish(Event.START_RUN, "run")
    (here / "job" / "log.txt").write_text("hello")
    bus.publish(Event.END_RUN, "run")
    assert stopped.wait(PATIENCE)
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("flarelog")], "the threads end")


def test_a_handler_may_publish_what_comes_next(both: Both) -> None:
    """The handlers publish START_RUN at the announcement, END_RUN at a stream's opening, and another run at the end."""
    _, producer, bus, here = both
    (here / "job" / "log.txt").write_text("hello")
    bus.subscribe(lambda notice: bus.publish(Event.START_RUN, notice.run), Event.ABOUT_TO_START_RUN)
    bus.subscribe(lambda notice: bus.publish(Event.END_RUN, notice.run), Event.STREAM_OPENED)
    bus.subscribe(
        lambda notice: bus.publish(Event.ABOUT_TO_START_RUN, "second") if notice.run == "first" else None,
        Event.END_RUN,
    )
    bus.publish(Event.ABOUT_TO_START_RUN, "first")
    for run in ("first", "second"):
        until(lambda run=run: run in producer.outcomes, f"{run} ends")  # type: ignore[misc]
        assert [outcome.exit_code for outcome in producer.outcomes[run]] == [0]
        assert (here / "store" / run / "site" / "log.txt").read_text() == "hello"


# --- many runs


@pytest.mark.soak  # the test with starts and stops shows most leaks
def test_hundreds_of_runs_in_one_process_leave_nothing_behind(play: Play) -> None:
    """Descriptors, threads and tasks are exact; memory is within 4 MiB after the first 60 runs.

    A thread pool starts a worker when it first needs so many at once, perhaps in the last run. So a worker counts as
    left over only if another one has its name, as after a second pool.
    """
    done = play("""
    import asyncio
    from flarelog.integrations import background as _background

    async def tasks():
        return len(asyncio.all_tasks())

    def threads():
        names = [thread.name for thread in threading.enumerate()]
        return len(names) - len({name for name in names if name.rpartition("_")[2].isdigit()})

    def left():
        gc.collect()
        return {
            "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": threads(),
            "tasks": _background._current.call(tasks(), 10.0),
        }

    def no_more_than(before):
        return all(count <= before[what] for what, count in left().items())

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def one(run):
        log = job / f"{run}.txt"
        bus.publish(Event.ABOUT_TO_START_RUN, run)
        bus.publish(Event.START_RUN, run)
        log.write_text(run * 1000)
        bus.publish(Event.ABOUT_TO_END_RUN, run)
        bus.publish(Event.END_RUN, run)
        assert [outcome.exit_code for outcome in producer.outcomes[run]] == [0]
        assert stored(run, log.name).decode() == run * 1000
        log.unlink()

    def at_once(runs):
        errors = []
        def play(run):
            try:
                own, ours = Path(f"job-{run}"), Bus()
                own.mkdir(exist_ok=True)
                with Producer(receiver.address, "site", str(own), bus=ours) as producer:
                    bus.publish(Event.ABOUT_TO_START_RUN, run)
                    ours.publish(Event.START_RUN, run)
                    (own / "log.txt").write_text(run * 1000)
                    ours.publish(Event.END_RUN, run)
                    assert [outcome.exit_code for outcome in producer.outcomes[run]] == [0]
                bus.publish(Event.END_RUN, run)
                assert stored(run).decode() == run * 1000
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=play, args=(run,)) for run in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors

    with Receiver(str(store), bus=bus, durability="memory") as receiver:
        at_once(f"first-{number}" for number in range(30))
        with Producer(receiver.address, "site", str(job), bus=bus) as producer:
            for number in range(60):
                one(f"run-{number}")
            time.sleep(0.5)  # what the run before began has ended as well
            before, memory = left(), resident()
            for number in range(60, 300):
                one(f"run-{number}")
            until(lambda: no_more_than(before), lambda: (before, left()))
            assert resident() - memory < 4 << 20, resident() - memory
            assert len(producer.outcomes) == 100 and "run-299" in producer.outcomes
            at_once(f"second-{number}" for number in range(30))
            until(lambda: no_more_than(before), lambda: (before, left()))
    """)
    silent(done)


def test_starting_and_stopping_often_leaves_nothing_behind(play: Play) -> None:
    """Each stop ends the loop, its threads and its descriptors."""
    silent(
        play("""
        def left():
            gc.collect()
            return len(os.listdir("/proc/self/fd")), threading.active_count()
        def cycle():
            with Receiver(str(store), bus=bus) as receiver, Producer(receiver.address, "site", str(job), bus=bus):
                bus.publish(Event.START_RUN, "run")
                bus.publish(Event.END_RUN, "run")
        for _ in range(5):
            cycle()
        before = left()
        for _ in range(20):
            cycle()
        until(lambda: left() <= before, lambda: (before, left()))
        """)
    )


# --- several frameworks


def test_two_frameworks_in_one_process_do_not_meet(tmp_path: Path) -> None:
    """Each has its own bus, receiver and producer, started and stopped by its own threads."""
    errors = list[BaseException]()

    def framework(name: str) -> None:
        try:
            here = tmp_path / name
            (here / "job").mkdir(parents=True)
            for number in range(3):
                bus = Bus()
                with (
                    EmbeddedReceiver(str(here / "store"), bus=bus) as receiver,
                    Producer(receiver.address, name, str(here / "job"), bus=bus) as producer,
                ):
                    run = f"run-{number}"
                    bus.publish(Event.START_RUN, run)
                    (here / "job" / "log.txt").write_text(f"{name} {number}")
                    bus.publish(Event.END_RUN, run)
                    assert [outcome.exit_code for outcome in producer.outcomes[run]] == [0]
                    # Rewriting would truncate it, perhaps while the next run's sidecar reads it: a gap.
                    (here / "job" / "log.txt").unlink()
                    stop = threading.Thread(target=producer.stop)
                    stop.start()
                    producer.stop()
                    stop.join()
                assert (here / "store" / run / name / "log.txt").read_text() == f"{name} {number}"
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=framework, args=(f"site-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_a_program_with_a_loop_and_grpc_calls_of_its_own_keeps_both(play: Play) -> None:
    silent(
        play("""
        import asyncio, grpc

        async def echo(request, context):
            return request

        async def main():
            server = grpc.aio.server()
            calls = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
            server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("its.Own", calls)])
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
            call = channel.unary_unary("/its.Own/Echo")
            with Receiver(str(store), bus=bus) as receiver:
                with Producer(receiver.address, "site", str(job), bus=bus) as producer:
                    await asyncio.to_thread(bus.publish, Event.START_RUN, "run")
                    writer = Writer()
                    for number in range(1000):
                        assert await call(b"%d" % number) == b"%d" % number
                    written = writer.end()
                    await asyncio.to_thread(bus.publish, Event.END_RUN, "run")
                    assert [outcome.exit_code for outcome in producer.outcomes["run"]] == [0]
            assert stored() == written
            assert await call(b"still there") == b"still there"
            await channel.close()
            await server.stop(None)

        asyncio.run(main())
        """)
    )


def test_a_writer_that_would_not_wait_never_has_to(play: Play) -> None:
    """No lease and no lock is taken on a log, whatever its names: a writer with O_NONBLOCK never gets EAGAIN."""
    silent(
        play("""
        import fcntl

        log = job / "log.txt"
        log.write_text("hello")
        taken, real = [], fcntl.fcntl
        fcntl.fcntl = lambda fd, command, *more: taken.append(command) or real(fd, command, *more)
        with Producer("127.0.0.1:1", "site", str(job), bus=bus, join_timeout=0.1):
            end = time.monotonic() + 3
            while time.monotonic() < end:
                for _ in range(200):
                    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o644)
                    os.write(fd, b"line")
                    os.close(fd)
                os.rename(log, job / "log.txt.1")
        assert fcntl.F_SETLEASE not in taken
        """)
    )


def test_a_program_that_ends_does_not_wait_for_a_peer_that_takes_nothing(play: Play) -> None:
    """The tunnel through a framework's messages is closed at once, though a message may take half a minute."""
    done = play("""
        import socket
        from flarelog.integrations import background as _background
        from flarelog.integrations.tunnel import Tunnel

        asked = threading.Event()

        def send(peer, piece):
            asked.set()
            time.sleep(60)

        async def make():
            return Tunnel(send)

        background = _background.shared()
        tunnel = background.call(make(), 5.0)
        host, port = background.call(tunnel.listen("server"), 5.0).split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"hello")
            assert asked.wait(30)
            background.call(tunnel.close(), 5.0)
        _background.release(background)
        """)
    assert (done.code, done.err, done.seconds < 20.0) == (0, "", True)


# --- the order of events


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([Event.END_RUN], id="END_RUN alone", marks=pytest.mark.soak),
        pytest.param([Event.ABOUT_TO_END_RUN, Event.END_RUN, Event.END_RUN], id="an end without a beginning, twice"),
        pytest.param(
            [Event.START_RUN, Event.ABOUT_TO_START_RUN, Event.START_RUN],
            id="a beginning again and again",
            marks=pytest.mark.soak,
        ),
        pytest.param([Event.START_RUN, Event.END_RUN, Event.START_RUN], id="a run that begins again"),
        pytest.param(
            [Event.SYSTEM_END, Event.FINDING, Event.SYSTEM_START],
            id="events that are none of a run's",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_events_in_any_order_do_no_harm(both: Both, events: list[Event], caplog: pytest.LogCaptureFixture) -> None:
    for event in events:
        both[2].publish(event, "run")
    goes_on(both, "another")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_run_that_cannot_be_named_is_a_sentence_and_not_a_failure(
    both: Both, caplog: pytest.LogCaptureFixture
) -> None:
    for event in (Event.ABOUT_TO_START_RUN, Event.START_RUN, Event.ABOUT_TO_END_RUN, Event.END_RUN):
        both[2].publish(event, "no/such run")
    goes_on(both)
    assert "the run continues" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


def test_about_to_end_run_returns_at_once_and_end_run_within_its_bound(tmp_path: Path) -> None:
    """This holds even if the loop hangs, for example on a disk."""
    bus, stuck, go = Bus(), threading.Event(), threading.Event()
    with (
        EmbeddedReceiver(str(tmp_path / "store"), bus=bus, join_timeout=1.0) as receiver,
        Producer(receiver.address, "site", str(tmp_path), include=["*.txt"], bus=bus, join_timeout=1.0) as producer,
    ):
        bus.publish(Event.START_RUN, "run")
        background = producer._background
        assert background is not None
        background.soon(stuck.set)
        background.soon(go.wait)
        assert stuck.wait(PATIENCE)
        try:
            took = []
            for _ in range(3):  # three tries: a busy machine may delay one
                begin = time.monotonic()
                bus.publish(Event.ABOUT_TO_END_RUN, "run")
                took.append(time.monotonic() - begin)
            assert min(took) < 0.5
            bus.publish(Event.END_RUN, "run")
            assert time.monotonic() - begin < 20  # a second and its margin, for each of the two
        finally:
            go.set()
        assert [outcome.exit_code for outcome in producer.outcomes["run"]] == [7]
