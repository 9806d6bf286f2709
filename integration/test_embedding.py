"""flarelog in a threaded program: log trouble never becomes the run's."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from flarelog import Bus, Event, Notice, Producer, Receiver
from flarelog.errors import InvalidOption
from flarelog.integrations.watching import Watching
from flarelog.model import StreamId
from integration.harness.places import FLARELOG, Proxy, until


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "job").mkdir()
    return tmp_path / "job"


def play(bus: Bus, run: str, job: Path, text: str) -> None:
    bus.publish(Event.ABOUT_TO_START_RUN, run)
    bus.publish(Event.START_RUN, run)
    (job / f"{run}.txt").write_text(text)
    bus.publish(Event.ABOUT_TO_END_RUN, run)
    bus.publish(Event.END_RUN, run)


def test_a_program_compresses_where_it_is_told_to(tmp_path: Path, job: Path) -> None:
    bus, text = Bus(), "round 1: loss 0.7\n" * 100_000
    with Receiver(str(tmp_path / "store"), bus=bus) as receiver, Proxy(receiver.address) as network:
        with Producer(network.address, "site-1", str(job), bus=bus, compression="on"):
            play(bus, "run-1", job, text)
        assert network.carried < len(text) // 20
    assert (tmp_path / "store/run-1/site-1/run-1.txt").read_text() == text
    with Receiver(str(tmp_path / "store"), bus=bus, compression=False) as receiver, Proxy(receiver.address) as network:
        with Producer(network.address, "site-1", str(job), bus=bus, compression="on"):
            play(bus, "run-2", job, text)
        assert network.carried > len(text)
    assert (tmp_path / "store/run-2/site-1/run-2.txt").read_text() == text
    until(
        lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("flarelog")],
        "the last look at who writes has ended",
    )


def test_many_runs_in_one_process_leave_nothing_behind(tmp_path: Path, job: Path) -> None:
    bus, ended = Bus(), list[Notice]()
    bus.subscribe(ended.append, Event.STREAM_ENDED)
    before = {thread.name for thread in threading.enumerate()}
    with Receiver(str(tmp_path / "store"), bus=bus, durability="memory") as receiver:
        with Producer(receiver.address, "site-1", str(job), bus=bus) as producer:
            for number in range(20):
                play(bus, f"run-{number}", job, f"this is run {number}\n")
                assert [outcome.exit_code for outcome in producer.outcomes[f"run-{number}"]] == [0]
        for number in range(20):
            stored = tmp_path / "store" / f"run-{number}" / "site-1" / f"run-{number}.txt"
            assert stored.read_text() == f"this is run {number}\n"
    until(
        lambda: {thread.name for thread in threading.enumerate() if thread.name.startswith("flarelog")} <= before,
        "the last look at who writes has ended",
    )
    assert all(notice.ok for notice in ended)


def test_saying_an_event_twice_or_leaving_one_out_is_harmless(tmp_path: Path, job: Path) -> None:
    bus = Bus()
    with (
        Receiver(str(tmp_path / "store"), bus=bus) as receiver,
        Producer(receiver.address, "site-1", str(job), bus=bus) as producer,
    ):
        for event in (Event.ABOUT_TO_START_RUN, Event.ABOUT_TO_START_RUN, Event.START_RUN, Event.START_RUN):
            bus.publish(event, "run")
        (job / "log.txt").write_text("one\n")
        bus.publish(Event.END_RUN, "run")
        bus.publish(Event.END_RUN, "run")
        assert [outcome.exit_code for outcome in producer.outcomes["run"]] == [0]
    assert (tmp_path / "store" / "run" / "site-1" / "log.txt").read_text() == "one\n"


@pytest.mark.parametrize("told", ["by-the-program", "by-the-receiver"])
def test_what_a_run_writes_after_it_was_told_to_drain_is_sent_when_it_ends(
    tmp_path: Path, job: Path, told: str
) -> None:
    bus = Bus()
    server = bus if told == "by-the-program" else Bus()
    with (
        Receiver(str(tmp_path / "store"), bus=server) as receiver,
        Producer(receiver.address, "site-1", str(job), bus=bus) as producer,
    ):
        server.publish(Event.ABOUT_TO_START_RUN, "run")
        bus.publish(Event.START_RUN, "run")
        (job / "log.txt").write_text("one\n")
        ended = threading.Event()
        bus.subscribe(lambda notice: ended.set(), Event.STREAM_ENDED)
        stored = tmp_path / "store" / "run" / "site-1" / "log.txt"
        until(lambda: stored.exists() and stored.read_text() == "one\n", "it is there")
        server.publish(Event.ABOUT_TO_END_RUN, "run")
        assert ended.wait(20.0)
        with open(job / "log.txt", "a") as file:
            file.write("two\n")
        bus.publish(Event.END_RUN, "run")
        (outcome,) = producer.outcomes["run"]
        assert outcome.exit_code == 0
        assert [stream.committed for stream in outcome.streams] == [8]
        assert stored.read_text() == "one\ntwo\n"


def test_a_receiver_that_never_comes_costs_the_run_no_more_than_the_bound(job: Path) -> None:
    bus = Bus()
    with Producer(f"127.0.0.1:{free_port()}", "site-1", str(job), bus=bus, join_timeout=1.0) as producer:
        begin = time.monotonic()
        play(bus, "run", job, "one\n")
        assert time.monotonic() - begin < 20.0  # without a bound it never ends
        assert producer.outcomes["run"][0].exit_code == 4


def test_a_file_that_never_stops_growing_does_not_hold_the_end(tmp_path: Path, job: Path) -> None:
    bus, stop = Bus(), threading.Event()

    def grow() -> None:
        with open(job / "log.txt", "ab", buffering=0) as log:
            while not stop.is_set():
                log.write(b"still here\n" * 10)
                time.sleep(0.001)

    writer = threading.Thread(target=grow)
    with (
        Receiver(str(tmp_path / "store"), bus=bus) as receiver,
        Producer(receiver.address, "site-1", str(job), bus=bus) as producer,
    ):
        bus.publish(Event.ABOUT_TO_START_RUN, "run")
        bus.publish(Event.START_RUN, "run")
        writer.start()
        try:
            time.sleep(0.3)
            begin = time.monotonic()
            bus.publish(Event.END_RUN, "run")
            assert time.monotonic() - begin < 20.0
            assert producer.outcomes["run"][0].exit_code == 0
        finally:
            stop.set()
            writer.join()


def test_one_of_two_receivers_that_is_gone_does_not_hold_the_other(tmp_path: Path, job: Path) -> None:
    bus = Bus()
    with (
        Receiver(str(tmp_path / "store"), bus=bus) as receiver,
        Producer(
            [f"127.0.0.1:{free_port()}", receiver.address], "site-1", str(job), bus=bus, join_timeout=2.0
        ) as producer,
    ):
        play(bus, "run", job, "one\n")
        assert [outcome.exit_code for outcome in producer.outcomes["run"]] == [4, 0]
    assert (tmp_path / "store" / "run" / "site-1" / "run.txt").read_text() == "one\n"


def test_a_handler_that_raises_or_dawdles_does_not_reach_the_run(tmp_path: Path, job: Path) -> None:
    bus = Bus()

    def handler(notice: Notice) -> None:
        time.sleep(0.2)
        raise RuntimeError(notice.text)

    bus.subscribe(handler, Event.STREAM_ENDED, Event.STREAM_OPENED)
    with (
        Receiver(str(tmp_path / "store"), bus=bus) as receiver,
        Producer(receiver.address, "site-1", str(job), bus=bus) as producer,
    ):
        play(bus, "run", job, "one\n")
        assert producer.outcomes["run"][0].exit_code == 0


URL = "https://logs.example.org/{run}/{site}?log={log}"


def test_a_program_is_told_at_any_time_why_a_log_cannot_be_had_and_how_to_look(tmp_path: Path, job: Path) -> None:
    bus, address = Bus(), f"127.0.0.1:{free_port()}"
    producer = Producer(address, "site-1", str(job), bus=bus, join_timeout=2, log_url_template=URL)
    command = f"flarelog logs run --site site-1 --log log.txt --receiver {address}"

    def why() -> str:
        found = producer.placeholder("run")
        assert found.url == "https://logs.example.org/run/site-1?log=log.txt"
        assert found.command == command
        return found.why

    assert why() == "flarelog is not started in this program"
    with producer:
        assert why() == "the run has not begun here"
        bus.publish(Event.START_RUN, "run")
        until(lambda: "failed to connect" in why() or "efused" in why(), lambda: f"nobody answers: {why()}")
        (job / "log.txt").write_text("one\n")
        with Receiver(str(tmp_path / "store"), listen=address, bus=bus, log_url_template=URL) as receiver:
            assert receiver.placeholder("run", "site-1").why == "nothing of it has come"
            bus.publish(Event.ABOUT_TO_START_RUN, "run")
            until(lambda: why() == "", lambda: f"it is being sent: {why()}")
            until(lambda: receiver.placeholder("run", "site-1").why == "", "the receiver has it")
            other = producer.placeholder("run", "other.txt")
            assert (other.why, other.url) == (f"no log is at {job}/other.txt yet", other.url)
            assert producer.placeholder("run", "../../etc/passwd").url == ""
            assert producer.placeholder("run", "x\x1b[2J").why == f"no log is at {job}/x\\x1b[2J yet"
            bus.publish(Event.END_RUN, "run")
            assert why() == "", "all of it is stored"
            assert receiver.placeholder("run", "site-1").why == ""
            assert producer.placeholder("run", "other.txt").why == f"no log was found at {job}/other.txt"
        stopped = receiver.placeholder("run", "site-1")
        assert stopped.why == "flarelog is not started in this program"
        assert stopped.command == f"flarelog logs run --site site-1 --log log.txt --store {tmp_path}/store"
    assert why() == "flarelog is not started in this program"


def test_a_log_that_is_left_out_is_told_apart_from_one_that_is_not_there(tmp_path: Path, job: Path) -> None:
    bus, policy = Bus(), tmp_path / "policy.toml"
    policy.write_text("exclude = ['private.txt']\n")
    cases = [
        (["*.csv"], [], "log.txt", "it does not match include '*.csv'"),
        ([], ["log.txt"], "log.txt", "exclude 'log.txt' leaves it out"),
        ([], [], "private.txt", "the site's policy leaves it out"),
        ([], [], "model.pt", "its name is not that of a log; name it with include"),
    ]
    for log in {case[2] for case in cases}:
        (job / log).write_text("one\n")
    with Receiver(str(tmp_path / "store"), bus=bus) as receiver:
        for number, (include, exclude, log, why) in enumerate(cases):
            run, left_out = f"run-{number}", f"{job}/{log} is not sent: {why}"
            with Producer(
                *(receiver.address, "site-1", str(job)),
                include=include,
                exclude=exclude,
                site_policy=str(policy),
                bus=bus,
            ) as producer:
                bus.publish(Event.START_RUN, run)
                assert producer.placeholder(run, log).why == left_out
                bus.publish(Event.END_RUN, run)
                assert producer.placeholder(run, log).why == left_out
                assert producer.placeholder(run, "other.txt").why == f"no log was found at {job}/other.txt"


def test_a_run_that_no_receiver_took_says_so_when_it_is_over(job: Path) -> None:
    bus, address, ends = Bus(), f"127.0.0.1:{free_port()}", list[Notice]()
    bus.subscribe(ends.append, Event.STREAM_ENDED)
    with Producer(address, "site-1", str(job), bus=bus, join_timeout=0.5) as producer:
        play(bus, "run", job, "one\n")
        until(lambda: ends, "the program hears how the log ended")
        text = f"no receiver answered at {address} within 0.5 s"
        assert ends == [Notice(Event.STREAM_ENDED, "run", StreamId("run", "site-1", "run.txt"), text, ok=False)]
        found = producer.placeholder("run", "run.txt")
        assert found.why == f"no receiver answered at {address} within 0.5 s"
        assert str(found).endswith(f"{found.why}: {found.command}")


def test_a_site_that_lets_no_log_go_says_so(tmp_path: Path, job: Path) -> None:
    bus, policy = Bus(), tmp_path / "policy.toml"
    policy.write_text("allow_log_streaming = false\n")
    with Producer("127.0.0.1:1", "site-1", str(job), bus=bus, site_policy=str(policy)) as producer:
        bus.publish(Event.START_RUN, "run")
        until(lambda: "allow_log_streaming = false" in producer.placeholder("run").why, "who asks hears of it")


def test_asking_for_a_placeholder_raises_nothing(tmp_path: Path, job: Path) -> None:
    bus = Bus()
    with Receiver(str(tmp_path / "store"), bus=bus) as receiver, Producer("127.0.0.1:1", "s", str(job)) as producer:
        for name in ("", "..", "/", "\0", "\udce9", "x" * 9999, None, 7, b"log"):
            assert str(producer.placeholder(name, name)).isprintable()  # type: ignore[arg-type]
            assert str(receiver.placeholder(name, name, name)).isprintable()  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="unknown field"):
        Producer("127.0.0.1:1", "s", str(job), log_url_template="https://logs.example.org/{job}")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("kill -9 $$", "killed by SIGKILL"),
        ("exit 3", "exit code 3"),
        pytest.param("exit 0", "exit code 0", marks=pytest.mark.soak),
    ],
)
def test_how_a_child_process_ended_is_told_behind_its_logs(
    tmp_path: Path, job: Path, command: str, sentence: str
) -> None:
    bus, store = Bus(), tmp_path / "store"
    with Receiver(str(store), bus=bus) as receiver, Producer(receiver.address, "site-1", str(job), bus=bus) as producer:
        bus.publish(Event.START_RUN, "run")
        watching = Watching()
        child = subprocess.Popen(["sh", "-c", f"echo one > log.txt; echo two > other.txt; {command}"], cwd=job)
        producer.exited("run", watching.end(child.pid, child.wait()))
        bus.publish(Event.END_RUN, "run")
        assert [outcome.exit_code for outcome in producer.outcomes["run"]] == [0]
    done = subprocess.run(
        [*FLARELOG, "status", "run", "--store", str(store)], capture_output=True, text=True, timeout=60, check=True
    )
    assert re.search(rf"^exit: run/site-1: {sentence} after .* \(log.txt, other.txt\)$", done.stdout, re.MULTILINE)
    assert "OOM" not in done.stdout


def test_how_a_process_ended_is_told_also_where_its_logs_had_their_receipts_before(tmp_path: Path, job: Path) -> None:
    bus, store = Bus(), tmp_path / "store"
    with Receiver(str(store), bus=bus) as receiver, Producer(receiver.address, "site-1", str(job), bus=bus) as producer:
        bus.publish(Event.START_RUN, "run")
        watching = Watching()
        child = subprocess.Popen(["sh", "-c", "echo one > log.txt; read line; exit 3"], cwd=job, stdin=subprocess.PIPE)
        until(lambda: producer.placeholder("run").why == "", "the log is sent")
        bus.publish(Event.ABOUT_TO_END_RUN, "run")
        listed = [*FLARELOG, "streams", "run", "--store", str(store)]
        until(lambda: "sealed" in subprocess.check_output(listed, text=True), "the log has its receipt")
        child.communicate(b"\n")
        producer.exited("run", watching.end(child.pid, child.wait()))
        bus.publish(Event.END_RUN, "run")
        assert [outcome.exit_code for outcome in producer.outcomes["run"]] == [0]
    done = subprocess.check_output([*FLARELOG, "status", "run", "--store", str(store)], text=True, timeout=60)
    assert re.search(r"^exit: run/site-1: exit code 3 after .* \(log.txt\)$", done, re.MULTILINE)
