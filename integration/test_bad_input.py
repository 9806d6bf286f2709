"""Bad input: one sentence on stderr, an exit code, and no loss.

The exit codes are 0 ok, 1 failed, 2 usage, 3 not found, 4 cannot connect, 5 not allowed, 6 ended with gaps, 7 timeout
and 78 configuration. A broken producer's messages are sent one by one over gRPC.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest

from flarelog.model import MAX_CHUNK
from flarelog.v1 import log_pb2 as pb
from integration.harness.places import (
    FLARELOG,
    LOG,
    RUN,
    SITE,
    Place,
    Program,
    Receiver,
    append,
    free_address,
    lines,
    new_place,
    until,
)
from tests.often import table

DATA = lines(100)


@pytest.fixture(scope="module")
def served() -> Iterator[Receiver]:
    """One receiver for many bad producers, all of which it must survive."""
    with new_place() as place:
        yield place.serve("--durability", "memory")


@pytest.fixture(scope="module", autouse=True)
def patient(served: Receiver) -> Iterator[tuple[list[Program], list[list[pb.Reply]]]]:
    """Slow cases that run beside the other tests: commands without a receiver to connect to, and the replies to a
    silent producer.
    """
    replies: list[list[pb.Reply]] = []
    silent = threading.Thread(target=lambda: replies.append(push(served.address)), daemon=True)
    silent.start()
    with new_place() as place:
        address = free_address()
        yield [place.start(name, RUN, "--receiver", address) for name in ("run-start", "run-end", "streams")], replies
    silent.join()


# --- commands that cannot begin

BAD_COMMANDS = [
    pytest.param(["serve"], 2, "--store", id="serve-nowhere"),
    pytest.param(["serve", "--store", "s", "--durability", "maybe"], 2, "maybe", id="serve-unknown-durability"),
    pytest.param(["serve", "--store", "s", "--idle-timeout", "soon"], 2, "soon", id="serve-no-number"),
    pytest.param(["serve", "--store", "s", "--idle-timeout", "0"], 2, "idle", id="serve-no-idle-timeout"),
    pytest.param(["serve", "--store", "s", "--idle-timeout", "nan"], 2, "idle", id="serve-idle-not-a-number"),
    pytest.param(["serve", "--store", "s", "--listen", "4721"], 2, "HOST:PORT", id="serve-without-host"),
    pytest.param(["serve", "--store", "s", "--listen", ":4721"], 2, "HOST:PORT", id="serve-with-empty-host"),
    pytest.param(["serve", "--store", "s", "--listen", "localhost:http"], 2, "HOST:PORT", id="serve-no-port"),
    pytest.param(
        ["serve", "--store", "s", "--listen", "localhost:65536"], 2, "from 1 to 65535", id="serve-port-too-large"
    ),
    pytest.param(
        ["serve", "--store", "s", "--listen", "192.0.2.1:1", "--insecure"], 1, "192.0.2.1:1", id="serve-elsewhere"
    ),
    pytest.param(["serve", "--store", "s", "--listen", "no host:0"], 2, "HOST:PORT", id="serve-with-blank-host"),
    pytest.param(["serve", "--store", "FILE"], 2, "FILE", id="serve-into-a-file"),
    pytest.param(["serve", "--store", "FILE/below"], 5, "FILE/below", id="serve-below-a-file"),
    pytest.param(
        ["serve", "--store", "s", "--listen", "127.0.0.1:0", "--ready-file", "none/ready"],
        78,
        "the ready file none/ready cannot be written: No such file or directory",
        id="serve-ready-file-nowhere",
    ),
    pytest.param(["serve", "--store", "LOOP"], 5, "symbolic links", id="serve-into-a-link-to-itself"),
    pytest.param(["token", "list", "--store", "none"], 3, "there is no store at none", id="token-list-no-store"),
    pytest.param(["token", "revoke", "0", "--store", "none"], 3, "no store at none", id="token-revoke-no-store"),
    pytest.param(["view", "FILE", "--encoding", "utf-16"], 1, "utf-16-le", id="view-without-a-byte-order-mark"),
    *(
        pytest.param(["logs", "r", "--store", ".", "--format", text], 2, says, id=f"logs-format-{text[-8:]}")
        for text, says in {
            "{text:>1000000000}": "too wide",
            "{text:>99999999999}": "too wide",
            "{offset:c}": "cannot be used",
            "{rank:s}": "cannot be used",
        }.items()
    ),
    pytest.param(["status", "--store", ".", "--interval", "nan"], 2, "--interval", id="status-interval"),
    pytest.param(["streams"], 2, "--store", id="streams-of-nothing"),
    pytest.param(["streams", "--store", ".", "--receiver", "127.0.0.1:1"], 2, "--store", id="streams-of-both"),
    pytest.param(["streams", "--store", "none"], 3, "none", id="streams-no-store"),
    pytest.param(["streams", "run-9", "--store", "."], 3, "run-9", id="streams-unknown-run-of-a-store"),
    pytest.param(["streams", "../x", "--store", "."], 2, "run", id="streams-bad-run"),
    pytest.param(["streams", "--receiver", "nonsense"], 2, "HOST:PORT", id="streams-malformed-address"),
    pytest.param(["run-start", "run-1"], 2, "--receiver", id="run-start-nowhere"),
    pytest.param(["run-start", "run-1", "--receiver", "nonsense"], 2, "HOST:PORT", id="run-start-malformed-address"),
    pytest.param(["run-start"], 2, "RUN", id="run-start-of-nothing"),
    pytest.param(["sidecar", "--receiver", "127.0.0.1:1"], 2, "--run", id="sidecar-of-no-run"),
    pytest.param(["nonsense"], 2, "nonsense", id="no-such-command"),
]


@pytest.mark.parametrize(("args", "code", "says"), BAD_COMMANDS)
def test_a_command_that_cannot_begin_says_why_in_one_sentence(
    place: Place, args: list[str], code: int, says: str
) -> None:
    (place.directory / "FILE").write_text("a file")
    (place.directory / ".lock").touch()  # marks the store that some of the commands name
    (place.directory / "LOOP").symlink_to("LOOP")
    program = place.start(*args)
    assert (program.ends(), program.printed) == (code, ""), program.talk()
    assert says in program.sentence()


SIDECAR = {"--receiver": "127.0.0.1:1", "--run": RUN, "--site": SITE, "--root": "."}
LONG = "x" * 129


def mark_of(kind: str, *usual: str) -> Any:
    """The mark of a kind of name: its rule is also tested without processes."""
    return () if kind in usual else pytest.mark.soak


BAD_SIDECARS = [
    *(
        pytest.param({option: name}, 2, id=f"{option[2:]}-{kind}", marks=mark_of(kind, "empty", "upwards", "newline"))
        for option in ("--run", "--site")
        for kind, name in {
            "empty": "",
            "dotdot": "..",
            "dot": ".",
            "hidden": ".x",
            "path": "a/b",
            "upwards": "../x",
            "absolute": "/etc",
            "over-long": LONG,
            "blank": "a b",
            "newline": "a\n",
            "no-ascii": "größe",
            "wildcard": "*",
        }.items()
    ),
    *(
        pytest.param(
            {"--receiver": address}, 2, id=f"receiver-{kind}", marks=mark_of(kind, "no-port", "port-too-large")
        )
        for kind, address in {
            "empty": "",
            "no-port": "localhost",
            "port-only": ":4721",
            "port-0": "localhost:0",
            "port-too-large": "localhost:65536",
            "negative": "localhost:-1",
            "named-port": "localhost:grpc",
            "url": "http://localhost:4721",
            "blank": "local host:4721",
        }.items()
    ),
    pytest.param({"--include": ""}, 2, id="include-empty"),
    pytest.param({"--exclude": "/abs/*.log"}, 2, id="exclude-absolute"),
    pytest.param({"--drain-timeout": "0"}, 2, id="drain-timeout-0"),
    pytest.param({"--drain-timeout": "-1"}, 2, id="drain-timeout-negative"),
    pytest.param({"--drain-timeout": "nan"}, 2, id="drain-timeout-not-a-number"),
    pytest.param({"--start-at": "middle"}, 2, id="start-at-elsewhere"),
    pytest.param({"--state": "FILE/below"}, 5, id="state-below-a-file"),
    pytest.param({"--root": "FILE"}, 2, id="root-is-a-file"),
]


@pytest.mark.parametrize(("options", "code"), BAD_SIDECARS)
def test_a_sidecar_that_cannot_begin_says_why_in_one_sentence(place: Place, options: dict[str, str], code: int) -> None:
    (place.directory / "FILE").write_text("a file")
    program = place.start("sidecar", *(part for pair in (SIDECAR | options).items() for part in pair))
    assert (program.ends(), program.printed) == (code, ""), program.talk()
    program.sentence()


@pytest.mark.parametrize(("name", "command"), table(["../x", "a/b", ".."], ["run-start", "run-end", "streams"]))
def test_a_receiver_is_not_troubled_by_a_bad_run(served: Receiver, place: Place, command: str, name: str) -> None:
    program = place.call(command, name, "--receiver", served.address)
    assert program.ends() == 2
    assert "run" in program.sentence()


@pytest.mark.parametrize("command", ["run-end", "streams"])
def test_a_run_that_the_receiver_does_not_know_is_not_found(served: Receiver, place: Place, command: str) -> None:
    program = place.call(command, "run-unknown", "--receiver", served.address)
    assert program.ends() == 3
    assert "run-unknown" in program.sentence()


# --- addresses and paths


def test_a_port_that_is_in_use_is_said(place: Place, served: Receiver) -> None:
    program = place.call("serve", "--store", "other", "--listen", served.address)
    assert program.ends() == 1
    assert served.address in program.sentence()


def test_a_second_receiver_on_the_same_store_is_refused_and_the_first_goes_on(place: Place) -> None:
    receiver = place.serve()
    second = place.call("serve", "--store", str(receiver.store), "--listen", "127.0.0.1:0")
    assert second.ends() == 1
    assert str(receiver.program.process.pid) in second.sentence()
    append(place.log, DATA)
    assert place.once(receiver).ends() == 0
    receiver.holds(DATA)
    receiver.program.kill()
    receiver = place.serve(store=receiver.store)  # a killed receiver holds no lock
    receiver.holds(DATA)


def test_a_store_that_cannot_be_written_is_said(place: Place) -> None:
    store = place.directory / "closed"
    store.mkdir(mode=0o555)
    program = place.call("serve", "--store", str(store), "--listen", "127.0.0.1:0", plain=True)
    assert program.ends() == 5
    assert str(store) in program.sentence()


def test_a_state_directory_that_cannot_be_written_costs_no_byte(place: Place) -> None:
    state = place.directory / "closed"
    state.mkdir(mode=0o555)
    append(place.log, DATA)
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--once", "--state", str(state), plain=True)
    assert sidecar.ends() == 0
    assert sidecar.said.count("could not be saved") == 1
    receiver.holds(DATA)


def test_an_unreachable_receiver_ends_once_with_4(place: Place) -> None:
    append(place.log, DATA)
    address = free_address()
    sidecar = place.sidecar(address, "--once", "--drain-timeout", "3")
    assert sidecar.ends() == 4
    assert address in sidecar.sentence()
    assert "retrying" in sidecar.said


def test_somebody_else_at_the_address_is_no_receiver(place: Place) -> None:
    append(place.log, DATA)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sidecar = place.sidecar(
            f"127.0.0.1:{listener.getsockname()[1]}", "--once", "--drain-timeout", "3"
        )  # it accepts and stays silent
        assert sidecar.ends() == 4
        sidecar.sentence()


@pytest.mark.parametrize(
    "command",
    [
        ("logs", RUN),
        pytest.param(("follow", RUN), marks=pytest.mark.soak),
        ("status", "--watch"),
        pytest.param(("runs",), marks=pytest.mark.soak),
    ],
    ids="-".join,
)
def test_a_reader_of_a_web_server_ends_at_once(place: Place, command: tuple[str, ...]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        began = time.monotonic()
        reader = place.call(*command, "--receiver", address)
        took = time.monotonic() - began
        server.shutdown()
    assert reader.ends() == 4
    why = "the program at this port does not speak gRPC: check the port"
    assert reader.said.splitlines() == [f"flarelog: no connection to {address}: {why}"]
    assert took < 5, took  # 12 s if it retried


def test_a_root_that_does_not_exist_ends_once_with_3(place: Place) -> None:
    root = place.directory / "none"
    sidecar = place.sidecar(place.serve(), "--once", "--drain-timeout", "2", root=root)
    assert sidecar.ends() == 3
    assert str(root) in sidecar.sentence()
    assert sidecar.said.count("waiting for it") == 1


def test_a_pattern_that_no_file_matches_is_said_once_and_once_ends_with_3(place: Place) -> None:
    append(place.log, DATA)
    append(place.root / "other.txt", DATA)
    receiver = place.serve()
    once = place.sidecar(receiver, "--once", "--include", "nope*", "--include", "*.wrong")
    assert once.ends() == 3
    sentence = f"no file under {place.root} matches --include 'nope*', '*.wrong', which leaves out 2 files"
    assert (once.said.count(sentence), once.said.count("WARNING")) == (1, 1)
    waiting = place.sidecar(receiver, "--include", "nope*")
    until(lambda: "which leaves out 2 files" in waiting.said, "the warning")
    append(place.root / "nope.log", DATA)  # the sidecar waits for a file
    until(lambda: "nope.log: sending" in waiting.said, "the log that came later")
    assert (waiting.stop(), waiting.said.count("leaves out")) == (0, 1)


def test_an_empty_root_ends_once_with_3(place: Place) -> None:
    place.root.mkdir(exist_ok=True)
    receiver = place.serve()
    once = place.sidecar(receiver, "--once")
    assert once.ends() == 3
    assert once.said.count(f"there is no file under {place.root}; nothing was sent") == 1


def test_a_drain_that_takes_too_long_ends_with_7(place: Place) -> None:
    receiver = place.serve()
    append(place.log, DATA)
    sidecar = place.sidecar(receiver, "--drain-timeout", "2")
    receiver.gets(DATA)
    receiver.program.tell(signal.SIGSTOP)
    append(place.log, DATA)
    assert sidecar.stop() == 7
    assert "2 s" in sidecar.sentence()
    receiver.program.tell(signal.SIGCONT)
    assert place.once(receiver).ends() == 0
    receiver.holds(DATA + DATA)


# --- files that cannot be read


def test_a_file_that_cannot_be_read_is_said_once_and_the_others_go_on(place: Place) -> None:
    append(place.log, DATA)
    secret = place.root / "secret.log"
    append(secret, DATA)
    secret.chmod(0)
    receiver = place.serve()
    sidecar = place.sidecar(receiver, plain=True)
    receiver.gets(DATA)
    append(place.log, DATA)
    receiver.gets(DATA + DATA)
    assert sidecar.stop() == 1
    assert sidecar.said.count(str(secret)) == 1
    assert "Traceback" not in sidecar.said
    receiver.holds(DATA + DATA)
    assert list(receiver.streams()) == [f"{SITE}/{LOG}"]


def test_a_file_that_becomes_readable_is_sent_and_forgiven(place: Place) -> None:
    append(place.log, DATA)
    place.log.chmod(0)
    receiver = place.serve()
    sidecar = place.sidecar(receiver, plain=True)
    sidecar.says(str(place.log))
    place.log.chmod(0o644)
    receiver.gets(DATA)
    assert sidecar.stop() == 0
    receiver.holds(DATA)


@pytest.mark.parametrize("once", [True, False])
def test_a_root_that_cannot_be_read_is_not_said_to_be_absent(place: Place, once: bool) -> None:
    append(place.log, DATA)
    place.root.chmod(0)
    sidecar = place.sidecar(place.serve(), "--drain-timeout", "1", *(["--once"] if once else []), plain=True)
    sidecar.says("cannot be read (Permission denied)")
    assert (sidecar.ends() if once else sidecar.stop()) == 3
    place.root.chmod(0o755)
    what = "could not be read within 1 s" if once else "could never be read; nothing was sent"
    assert f"ERROR sidecar: the root {place.root} {what}\n" in sidecar.said


def test_a_directory_that_cannot_be_listed_is_said_once_and_the_others_go_on(place: Place) -> None:
    append(place.log, DATA)
    secret = place.root / "secret"
    secret.mkdir()
    append(secret / "x.log", DATA)
    secret.chmod(0)
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--once", plain=True)
    assert sidecar.ends() == 1
    assert sidecar.said.count(str(secret)) == 1
    receiver.holds(DATA)


def test_a_file_that_is_known_and_got_a_name_that_is_no_text_is_sent_to_its_end(place: Place) -> None:
    app, odd = place.root / "app.log", os.fsencode(place.root) + b"/app.log.\xe9"
    append(app, DATA)
    address, state = free_address(), place.directory / "state"
    sidecar = place.sidecar(address, "--state", str(state))  # the sidecar meets the file, and reaches no receiver
    until(lambda: b"app.log" in b"".join(path.read_bytes() for path in state.glob("*.json")), "a checkpoint")
    sidecar.kill()
    os.rename(app, odd)
    receiver = place.serve(listen=address)
    sidecar = place.once(receiver, "--state", str(state))
    assert sidecar.ends() == 0
    assert "Traceback" not in sidecar.said
    stream = receiver.streams()[f"{SITE}/app.log"]
    assert (stream["committed"], stream["sealed"]) == (len(DATA), True)
    assert [generation["path"] for generation in stream["generations"]] == ["app.log.\\xe9"]
    assert receiver.stored("app.log") == DATA
    done = place.call("verify", RUN, "--store", str(receiver.store), "--source", str(place.root))
    assert done.ends() == 0
    with open(odd, "r+b") as file:
        file.write(b"?")
    done = place.call("verify", RUN, "--store", str(receiver.store), "--source", str(place.root))
    assert done.ends() == 1
    assert "differs at offset 0" in done.printed


def test_what_is_no_file_is_passed_over(place: Place) -> None:
    append(place.log, DATA)
    os.mkfifo(place.root / "pipe.log")
    (place.root / "loop.log").symlink_to("loop.log")
    (place.root / "gone.log").symlink_to("nowhere")
    (place.root / "around").symlink_to(".")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.root / "socket.log"))
        receiver = place.serve()
        assert place.once(receiver).ends() == 0
    receiver.holds(DATA)
    assert list(receiver.streams()) == [f"{SITE}/{LOG}"]


# --- messages of a broken producer


def opening(log: str = LOG, run: str = RUN, site: str = SITE, major: int = 1, producer: bytes = b"") -> bytes:
    message = pb.PushRequest()
    message.open.version.major = major
    message.open.stream.run, message.open.stream.site, message.open.stream.log = run, site, log
    message.open.producer = producer or os.urandom(16)
    return message.SerializeToString()


def chunk(offset: int, data: bytes, before: bytes = b"", digest: int | None = None) -> bytes:
    """*data* at *offset*; *before*: the bytes that the stream holds already."""
    message = pb.PushRequest()
    message.chunk.offset, message.chunk.data = offset, data
    message.chunk.digest = zlib.crc32(before + data) if digest is None else digest
    return message.SerializeToString()


def finish(length: int, digest: int, marks: int = 0) -> bytes:
    message = pb.PushRequest()
    message.finish.receipt.length, message.finish.receipt.digest = length, digest
    message.finish.receipt.marks = marks
    return message.SerializeToString()


def gap(index: int, offset: int, before: bytes, reason: str = "test") -> bytes:
    message = pb.PushRequest()
    message.mark.index, message.mark.mark.offset, message.mark.mark.digest = index, offset, zlib.crc32(before)
    message.mark.mark.gap.reason = reason
    return message.SerializeToString()


def push(address: str, *messages: bytes) -> list[pb.Reply]:
    """Send only *messages*, and return all replies; the receiver ends the call, or the test does after SEALED."""
    waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    for message in messages:
        waiting.put(message)
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.stream_stream("/flarelog.v1.LogService/Push")
        replies = [pb.Reply.FromString(raw) for raw in call(iter(waiting.get, None), timeout=60.0)]
        waiting.put(None)
    return replies


def ask(address: str, method: str, request: bytes) -> list[bytes]:
    """All responses to one call with one message."""
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_stream(f"/{method}")
        return list(call(request, timeout=60.0))


def status(error: Any) -> grpc.StatusCode:
    code: grpc.StatusCode = error.code()
    return code


def goes_on(receiver: Receiver, log: str, before: bytes = b"") -> None:
    """Assert that the receiver accepts an honest producer afterwards, on the same stream and on another."""
    for name, held in ((log, before), (f"{log}.other", b"")):
        whole = held + DATA
        replies = push(
            receiver.address, opening(name), chunk(len(held), DATA, held), finish(len(whole), zlib.crc32(whole))
        )
        assert (replies[-1].code, replies[-1].committed) == (pb.SEALED, len(whole))
        assert replies[-1].digest == zlib.crc32(whole)
        assert receiver.stored(name) == whole


BAD_MESSAGES = [
    pytest.param([chunk(10, b"x" * 10, b"0123456789", digest=1)], pb.CORRUPT, 10, id="wrong-checksum"),
    pytest.param([chunk(5, b"wrong" + b"more", b"01234")], pb.CORRUPT, 10, id="overlap-with-other-bytes"),
    pytest.param([chunk(0, b"012345678X")], pb.CORRUPT, 10, id="other-bytes-again"),
    pytest.param([chunk(11, b"x", b"0123456789?")], pb.HOLE, 10, id="hole"),
    pytest.param([chunk((1 << 64) - 1, b"x")], pb.HOLE, 10, id="hole-as-large-as-can-be"),
    pytest.param([chunk(10, b"x" * (MAX_CHUNK + 1), b"0123456789")], pb.REJECTED, 10, id="chunk-too-large"),
    pytest.param([gap(1, 10, b"0123456789")], pb.HOLE, 10, id="mark-too-far"),
    pytest.param([gap(0, 11, b"0123456789x")], pb.HOLE, 10, id="mark-behind-a-hole"),
    pytest.param([gap(0, 10, b"other")], pb.CORRUPT, 10, id="mark-with-wrong-checksum"),
    pytest.param([finish(11, 1)], pb.HOLE, 10, id="receipt-for-more"),
    pytest.param([finish(9, 1)], pb.REJECTED, 10, id="receipt-for-less"),
    pytest.param([finish(10, 1)], pb.REJECTED, 10, id="receipt-for-other-bytes"),
    pytest.param([b"\xff\xff\xff garbage"], pb.REJECTED, 10, id="garbage"),
    pytest.param([b"\x12\x05garbage"], pb.REJECTED, 10, id="garbage-like-a-chunk"),
    pytest.param([b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"], pb.REJECTED, 10, id="garbage-length"),
    pytest.param([b""], pb.REJECTED, 10, id="nothing"),
    pytest.param([b"\x7a\x03new"], pb.REJECTED, 10, id="a-message-of-the-future"),
    pytest.param([opening()], pb.REJECTED, 10, id="a-second-open"),
]


@pytest.mark.parametrize(("messages", "code", "committed"), BAD_MESSAGES)
def test_a_bad_message_is_answered_and_the_stream_goes_on_from_what_is_held(
    served: Receiver, request: pytest.FixtureRequest, messages: list[bytes], code: int, committed: int
) -> None:
    log = f"{request.node.callspec.id}.log"
    replies = push(served.address, opening(log), chunk(0, b"0123456789"), *messages)
    assert replies[0].code == pb.OK
    assert (replies[-1].code, replies[-1].committed) == (code, committed)
    assert replies[-1].digest == zlib.crc32(b"0123456789")
    assert replies[-1].reason.strip()
    assert "\n" not in replies[-1].reason
    goes_on(served, log, b"0123456789")


def test_the_last_reply_is_never_lost(served: Receiver) -> None:
    # The last reply follows the chunk's acknowledgement at once, which may still be in flight.
    for number in range(60):
        log = f"last-{number}.log"
        sealed = push(served.address, opening(log), chunk(0, DATA), finish(len(DATA), zlib.crc32(DATA)))
        refused = push(served.address, opening(log), chunk(len(DATA), DATA, DATA), chunk(0, b"", digest=1), b"\xff")
        assert (sealed[-1].code, refused[-1].code) == (pb.SEALED, pb.REJECTED)


BAD_OPENINGS = [
    pytest.param(opening(major=2), "version 2", id="future-major"),
    pytest.param(opening(major=0), "version 0", id="no-version"),
    pytest.param(opening(major=2, run="../x"), "version 2", id="future-major-before-the-name"),
    pytest.param(chunk(0, b"x"), "Open", id="chunk-first"),
    pytest.param(b"\xff garbage", "", id="garbage-first"),
    pytest.param(b"", "", id="nothing-first"),
    pytest.param(opening(producer=b"short"), "producer", id="producer-too-short"),
    pytest.param(opening(producer=b"x" * 65), "producer", id="producer-too-long"),
    *(
        pytest.param(opening(**{part: name}), part, id=f"{part}-{kind}", marks=mark_of(kind, "empty", "upwards"))  # type: ignore[arg-type]  # never the major
        for part in ("run", "site", "log")
        for kind, name in {
            "empty": "",
            "dotdot": "..",
            "upwards": "../../x",
            "absolute": "/etc/passwd",
            "over-long": "x" * 1100,
            "blank": "a b",
            "control": "a\0b",
        }.items()
    ),
    pytest.param(opening("a//b"), "log", id="log-empty-part"),
    pytest.param(opening("a/../b"), "log", id="log-through-dotdot"),
    pytest.param(opening(".app.log.journal"), "log", id="log-like-a-journal"),
    pytest.param(opening("x" * 201), "log", id="log-part-over-long"),
    *(
        pytest.param(opening(name), "is not encoded correctly", id=f"log-{kind}")
        for kind, name in {
            "letter-encoded": "%41.log",
            "small-hexadecimal": "%e8%ae%ad.log",
            "dots-encoded": "%2E%2E/x",
            "slash-encoded": "..%2F..%2Fx",
            "zero-byte": "a%00b",
            "half-encoded": "a%2",
            "cut-though-short": f"a%-{'0' * 32}-b",
        }.items()
    ),
]


@pytest.mark.parametrize(("message", "says"), BAD_OPENINGS)
def test_a_bad_opening_is_rejected_with_a_sentence(served: Receiver, message: bytes, says: str) -> None:
    before = served.holding
    replies = push(served.address, message, chunk(0, b"x"))
    assert [reply.code for reply in replies] == [pb.REJECTED]
    assert says in replies[0].reason
    assert len(replies[0].reason) < 300
    assert served.holding == before


def test_after_all_that_the_receiver_is_well(served: Receiver, place: Place) -> None:
    goes_on(served, "afterwards.log")
    served.holds(DATA, "afterwards.log")
    assert "Traceback" not in served.program.said
    assert all(len(line) < 600 for line in served.program.said.splitlines())


def test_a_message_that_is_larger_than_any_may_be_ends_its_call_alone(served: Receiver) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        push(served.address, opening("huge.log"), chunk(0, bytes(5 << 20)))
    assert status(caught.value) is grpc.StatusCode.RESOURCE_EXHAUSTED
    goes_on(served, "huge.log")


def test_an_older_producer_is_fenced_by_a_newer_one(served: Receiver) -> None:
    older, newer = os.urandom(16), os.urandom(16)
    done = finish(10, zlib.crc32(b"0123456789"))
    assert push(served.address, opening("f.log", producer=older), chunk(0, b"0123456789"), done)[-1].code == pb.SEALED
    assert push(served.address, opening("f.log", producer=newer), done)[-1].code == pb.SEALED
    replies = push(served.address, opening("f.log", producer=older), chunk(10, b"x", b"0123456789"))
    assert [reply.code for reply in replies] == [pb.FENCED]
    served.holds(b"0123456789", "f.log")


@pytest.mark.parametrize("size", [pytest.param(400, marks=pytest.mark.soak), 900_000], ids=["many", "large"])
def test_marks_that_are_more_than_a_message_holds_hide_no_other_stream(place: Place, size: int) -> None:
    receiver = place.serve()
    marks = [gap(number, 0, b"", "x" * size) for number in range((5 << 20) // size)]
    push(receiver.address, opening("talkative.log"), *marks, finish(0, 0, len(marks)))
    append(place.log, DATA)
    assert place.once(receiver).ends() == 0
    receiver.holds(DATA)


@pytest.mark.parametrize(
    "call",
    [
        "Push",
        "Read",
        pytest.param("List", marks=pytest.mark.soak),
        "StartRun",
        pytest.param("EndRun", marks=pytest.mark.soak),
    ],
)
def test_garbage_ends_its_own_call_and_no_more(served: Receiver, call: str) -> None:
    with contextlib.suppress(grpc.RpcError):
        replies = ask(served.address, f"flarelog.v1.LogService/{call}", b"\xff\xff garbage")
        assert [pb.Reply.FromString(raw).code for raw in replies] == [pb.REJECTED]
    goes_on(served, f"garbage-{call}.log")
    assert "Traceback" not in served.program.said


def test_a_stream_that_is_not_there_cannot_be_read(served: Receiver) -> None:
    request = pb.ReadRequest()
    request.stream.run, request.stream.site, request.stream.log = RUN, SITE, "none.log"
    with pytest.raises(grpc.RpcError) as caught:
        ask(served.address, "flarelog.v1.LogService/Read", request.SerializeToString())
    assert status(caught.value) is grpc.StatusCode.NOT_FOUND


# --- the slow cases


def test_a_receiver_that_is_not_there_cannot_be_asked(patient: tuple[list[Program], object]) -> None:
    for program in patient[0]:
        assert program.ends() == 4
        assert program.args[-1] in program.sentence()
        assert program.said.count("retrying") == 1, "what is waited for is said, and once"


def test_a_producer_that_says_nothing_is_not_kept_for_ever(patient: tuple[object, list[list[pb.Reply]]]) -> None:
    (replies,) = until(lambda: patient[1], "it is answered")
    assert [reply.code for reply in replies] == [pb.GOING_AWAY]


# --- a command's manners


@pytest.mark.parametrize("service", ["", "flarelog.v1.LogService"])
def test_the_health_service_answers_serving(served: Receiver, service: str) -> None:
    request = bytes([0x0A, len(service)]) + service.encode() if service else b""
    assert ask(served.address, "grpc.health.v1.Health/Check", request) == [b"\x08\x01"]


def test_the_health_service_can_be_watched(served: Receiver) -> None:
    with grpc.insecure_channel(served.address) as channel:
        watch: Any = channel.unary_stream("/grpc.health.v1.Health/Watch")
        watching = watch(b"", timeout=60.0)
        assert next(watching) == b"\x08\x01"
        watching.cancel()


def test_the_health_service_does_not_know_other_services(served: Receiver) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask(served.address, "grpc.health.v1.Health/Check", b"\x0a\x05other")
    assert status(caught.value) is grpc.StatusCode.NOT_FOUND


def test_the_ready_file_appears_whole_and_connections_are_taken_then(place: Place) -> None:
    ready = place.directory / "ready"
    program = place.start(
        "serve", "--store", str(place.directory / "store"), "--listen", "127.0.0.1:0", "--ready-file", str(ready)
    )
    seen: set[str] = set()

    def look() -> bool:
        if ready.exists():
            seen.add(ready.read_text())
        return bool(seen)

    until(look, "the ready file is there")
    (text,) = seen
    found = re.fullmatch(r"127\.0\.0\.1:(\d+)\n?", text)
    assert found is not None
    with socket.create_connection(("127.0.0.1", int(found[1])), 5.0):
        pass
    assert [path.name for path in place.directory.glob("*ready*")] == ["ready"]  # no temporary file is left
    assert program.stop() == 0


@pytest.mark.parametrize("taken", ["port", "store", "option"])
def test_a_start_that_fails_leaves_no_ready_file(place: Place, taken: str) -> None:
    receiver = place.serve()
    ready = place.directory / "ready"
    for name in (ready, place.directory / "ready.reader"):
        name.write_text("127.0.0.1:1\n")  # of a killed receiver
    store = receiver.store if taken == "store" else place.directory / "other"
    listen = receiver.address if taken == "port" else "127.0.0.1:0" if taken == "store" else "nowhere"
    done = place.call("serve", "--store", str(store), "--listen", listen, "--ready-file", str(ready))
    assert done.process.returncode != 0
    assert not list(place.directory.glob("ready*"))


@pytest.mark.parametrize("command", [pytest.param("serve", marks=pytest.mark.soak), "serve --workers 2", "web"])
def test_a_second_server_leaves_the_ready_file_of_one_that_lives(place: Place, command: str) -> None:
    ready, listen = place.directory / "ready", ("--listen", "127.0.0.1:0")
    first = place.start("serve", "--store", str(place.directory / "store"), *listen, "--ready-file", str(ready))
    until(ready.exists, first.talk)
    address = ready.read_text()
    of = ("--receiver", address.strip()) if command == "web" else ("--store", str(place.directory / "other"))
    second = place.call(*command.split(), *of, *listen, "--ready-file", str(ready))
    assert second.ends() == 78
    assert f"flarelog: the ready file {ready} is that of another server, which is running: " in second.said
    assert "receiving at" not in second.said
    assert ready.read_text() == address
    assert first.stop() == 0
    assert not ready.exists()


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.soak), "2"])
def test_a_ready_file_goes_with_its_receiver_unless_it_is_anothers_by_now(place: Place, workers: str) -> None:
    ready = place.directory / "ready"
    for others in (False, True):
        serve = ("serve", "--store", str(place.directory / "store"), "--listen", "127.0.0.1:0", "--workers", workers)
        program = place.start(*serve, "--ready-file", str(ready))
        until(ready.exists, program.talk)
        if others:
            ready.write_text("127.0.0.1:1\n")
        assert program.stop() == 0, program.talk()
        assert [path.name for path in place.directory.glob("ready*")] == ["ready"] * others


def test_sigterm_ends_a_receiver_with_0_and_keeps_what_it_took(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver)
    append(place.log, DATA)
    receiver.gets(DATA)
    assert receiver.program.stop(10.0) == 0
    assert "Traceback" not in receiver.program.said
    assert sidecar.process.poll() is None
    held = place.streams("--store", str(receiver.store))[f"{SITE}/{LOG}"]
    assert (held["committed"], held["sealed"]) == (len(DATA), False)


FULL = 'exec "$@" {}/dev/full'


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("status", "--store", "."), id="status"),
        pytest.param(("doctor", "--root", "."), id="doctor", marks=pytest.mark.soak),
        pytest.param(("completion", "bash"), id="completion", marks=pytest.mark.soak),
        pytest.param(("token", "list", "--store", "."), id="token", marks=pytest.mark.soak),
        pytest.param(("--help",), id="help"),
        pytest.param(("serve", "--help"), id="help-of-a-command", marks=pytest.mark.soak),
    ],
)
def test_a_command_whose_output_goes_to_a_full_disk_says_so(place: Place, command: tuple[str, ...]) -> None:
    (place.directory / ".lock").touch()  # marks the directory as a store
    program = place.call(*command, plain=("bash", "-c", FULL.format(">"), "-", *FLARELOG))
    assert (program.ends(), program.said) == (1, "flarelog: cannot write: No space left on device\n")


def test_both_ends_do_their_work_though_what_they_say_goes_to_a_full_disk(place: Place) -> None:
    deaf = ("bash", "-c", FULL.format("2>"), "-", *FLARELOG)
    receiver = place.serve(plain=deaf)
    append(place.log, DATA)
    assert place.sidecar(receiver, "--once", plain=deaf).ends() == 0
    receiver.gets(DATA)
    assert receiver.stop() == 0


COMMANDS = [
    "serve",
    "sidecar",
    pytest.param("streams", marks=pytest.mark.soak),
    pytest.param("run-start", marks=pytest.mark.soak),
    pytest.param("run-end", marks=pytest.mark.soak),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_names_its_variable(place: Place, command: str) -> None:
    program = place.call(command, "--help", COLUMNS="400")
    text = " ".join(program.printed.split())
    options = re.findall(r"(?<= )--([a-z-]+)(?= (?:[A-Z]|\[|[a-z]+))", text.split("Options:", 1)[1])
    assert options
    for name in set(options) - {"help", "remove-spool"}:  # no variable may remove files
        assert f"[env var: FLARELOG_{name.replace('-', '_').upper()}" in text, name


def test_a_sidecar_and_a_receiver_take_everything_from_variables(place: Place) -> None:
    ready, store, state = (place.directory / name for name in ("ready", "store", "state"))
    receiving = place.start(
        "serve",
        FLARELOG_STORE=str(store),
        FLARELOG_LISTEN="127.0.0.1:0",
        FLARELOG_DURABILITY="memory",
        FLARELOG_IDLE_TIMEOUT="30",
        FLARELOG_ANNOUNCED_RUNS_ONLY="1",
        FLARELOG_READY_FILE=str(ready),
        FLARELOG_LOG_LEVEL="debug",
    )
    until(ready.exists, "the receiver is ready")
    address = ready.read_text().strip()
    for name in ("a.log", "b.txt", "c.log", "d.dat"):
        append(place.root / name, DATA)
    announced = place.call("run-start", RUN, FLARELOG_RECEIVER=address)
    assert announced.ends() == 0
    sidecar = place.call(
        "sidecar",
        FLARELOG_RECEIVER=address,
        FLARELOG_RUN=RUN,
        FLARELOG_SITE=SITE,
        FLARELOG_ROOT=str(place.root),
        FLARELOG_INCLUDE="*.log *.txt",
        FLARELOG_EXCLUDE="c.*",
        FLARELOG_START_AT="beginning",
        FLARELOG_STATE=str(state),
        FLARELOG_ONCE="1",
        FLARELOG_DRAIN_TIMEOUT="20",
        FLARELOG_JSON="1",
    )
    assert sidecar.ends() == 0, sidecar.talk()
    assert [record["log"] for record in sidecar.records()] == ["a.log", "b.txt"]
    assert list(state.iterdir())
    for variable in ({"FLARELOG_STORE": str(store)}, {"FLARELOG_RECEIVER": address}):
        environment: dict[str, Any] = {"FLARELOG_JSON": "1"} | variable
        shown = place.call("streams", RUN, **environment)
        assert [json.loads(line)["log"] for line in shown.printed.splitlines()] == ["a.log", "b.txt"]
    assert place.call("run-end", RUN, FLARELOG_RECEIVER=address).ends() == 0
    assert receiving.stop() == 0


def test_what_is_said_on_the_command_line_outweighs_a_variable(place: Place) -> None:
    receiver = place.serve()
    append(place.log, DATA)
    assert place.once(receiver).ends() == 0
    shown = place.call("streams", RUN, "--store", str(receiver.store), FLARELOG_RECEIVER="127.0.0.1:1")
    assert shown.ends() == 0, shown.talk()


def test_data_goes_to_stdout_and_talk_to_stderr(place: Place) -> None:
    receiver = place.serve()
    append(place.log, DATA)
    sidecar = place.once(receiver, "--json")
    assert [record["log"] for record in sidecar.records()] == [LOG]
    assert all(" INFO " in line for line in sidecar.said.splitlines())
    shown = place.call("streams", "--receiver", receiver.address)
    assert shown.printed.splitlines()[1].split()[:3] == [RUN, SITE, LOG]
    assert shown.said == ""
    assert receiver.program.printed == ""


def test_a_compressed_message_is_refused_before_it_is_unpacked(served: Receiver) -> None:
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(served.address, options, grpc.Compression.Gzip) as channel:
        method: Any = channel.stream_stream("/flarelog.v1.LogService/Push")
        call = method(iter([bytes(100 << 20)]), timeout=30.0)
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
    # Newer clients end the call themselves, because they share no encoding with the receiver.
    assert status(caught.value) in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL)
    goes_on(served, "packed.log")
