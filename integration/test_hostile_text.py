"""A peer's text reaches no terminal and no log raw: a hostile receiver answers every command, and a real receiver and
real readers handle a hostile site's texts.

Reflection finds every text of the contract. All are spoilt at once, except names, which are spoilt one by one.
"""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from zlib import crc32

import grpc
import pytest

from flarelog.v1 import log_pb2 as pb
from integration.harness.places import LOG, PATIENCE, RUN, SITE, Place, Program, append, until
from tests.hostile_text import FORGED, HOSTILE, SERVICE, Path, called, is_name, message_of, spoil, texts
from tests.often import each, rarely

OTHER = "harmless"  # a second, honest site with a log
DATA = b"one\ntwo\n"
LONGEST = 20_000  # characters of a log message's line
STATUSES = [  # tests/test_legible.py has them all
    *(grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED),
    *rarely(grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE),
]
NAMES = [path for method in SERVICE.methods for path in texts(method.output_type) if is_name(path)]


def is_clean(program: Program) -> None:
    """Assert that the output of *program* is printable, and that no peer forged a line of it."""
    for text in (program.printed, program.said):
        assert "\ufffd" not in text, text[:4000]
        for line in text.split("\n"):
            assert line.isprintable(), f"{program}: {line[:2000]!r}"
            assert not line.startswith(FORGED), f"{program}: {line[:2000]!r}"
            assert len(line) <= LONGEST, f"{program}: {len(line)} characters"
    assert "Traceback" not in program.said, program.said[:4000]


# --- a hostile receiver


def all_marks() -> list[pb.Mark]:
    return [
        pb.Mark(generation=pb.Generation(path="a.log", identity="1:2:3")),
        pb.Mark(offset=4, gap=pb.Gap(length=7, reason="lost"), digest=crc32(DATA[:4])),
        pb.Mark(offset=4, attributes=pb.Attributes(words="rank:1"), digest=crc32(DATA[:4])),
        pb.Mark(offset=4, ended=pb.Ended(reason="removed"), digest=crc32(DATA[:4])),
        pb.Mark(offset=4, attributes=pb.Attributes(), exit=pb.Exit(), digest=crc32(DATA[:4])),
    ]


def answers(method: str) -> list[Any]:
    """The answers of an honest receiver."""
    stream = pb.StreamId(run=RUN, site=SITE, log=LOG)
    match method:
        case "List":
            held = pb.StreamInfo(stream=stream, committed=len(DATA), digest=crc32(DATA), marks=all_marks())
            held.state.linked, held.state.held = True, "quota"
            sealed = pb.StreamInfo(stream=pb.StreamId(run=RUN, site=OTHER, log=LOG), sealed=True)
            return [held, sealed]
        case "Read":
            marks = [pb.ReadResponse(mark=pb.MarkAt(index=n, mark=mark)) for n, mark in enumerate(all_marks())]
            return [marks[0], pb.ReadResponse(data=DATA[:4]), *marks[1:], pb.ReadResponse(offset=4, data=DATA[4:])]
        case "ListRuns":
            return [pb.RunInfo(run=RUN, state="running", sites=2, streams=2)]
        case "Timeline":
            moments = [pb.Moment(at_ms=5, what=mark.WhichOneof("kind") or "exit", mark=mark) for mark in all_marks()]
            moments += [pb.Moment(at_ms=6, what="left", why="gone", count=1, logs=[LOG])]
            return [
                pb.Moments(moments=[pb.Moment(at_ms=5, what="run", why="running")]),
                pb.Moments(site=SITE, log=LOG, moments=moments, grown_ms=[5, 6], lengths=[1, 4]),
            ]
        case "Findings":
            said = {"signature": "disk.full", "role": "root", "severity": 21, "offset": 0, "length": 4, "count": 1}
            said |= {"last": 0, "text": "a disk", "meaning": "It is full.", "action": "Look.", "facts": {"at": "here"}}
            return [pb.Found(stream=stream, seen=4, zone="UTC", findings=[json.dumps(said)])]
        case "RemoveRun":
            return [pb.RemoveRunResponse(streams=1)]
    return [pb.RunResponse(state="running", version=pb.Version(major=1), agent="flarelog/1")]


class HostileReceiver:
    """Answers every call, each answer changed by *change*; or ends each call with *status* and hostile details.

    *code*: that of the second reply about a stream. Use as a context manager.
    """

    def __init__(self, change: Callable[[Any], None], status: grpc.StatusCode | None = None, code: int = 0) -> None:
        self._change, self._status, self._code = change, status, code
        self._server = grpc.server(ThreadPoolExecutor(60))
        handlers = {method.name: self._handler(method) for method in SERVICE.methods}
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE.full_name, handlers)])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def _handler(self, method: Any) -> Any:
        if method.name == "Push":
            return grpc.stream_stream_rpc_method_handler(self._push)

        def answer(_: bytes, context: Any) -> Iterator[bytes]:
            if self._status is not None:
                context.abort(self._status, HOSTILE)
            for message in answers(method.name):
                self._change(message)
                yield message.SerializeToString()

        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(answer)
        return grpc.unary_unary_rpc_method_handler(lambda raw, context: next(answer(raw, context)))

    def _push(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        if self._status is not None:
            context.abort(self._status, HOSTILE)
        for number, raw in enumerate(requests):
            code = pb.OK if number == 0 and self._code != pb.EXECUTION_EXCEPTION else self._code or pb.OK
            made = pb.Reply(code=code, epoch=1, incarnation=b"12345678", number=pb.PushRequest.FromString(raw).number)  # type: ignore[arg-type]  # the enum is an int
            self._change(made)
            yield made.SerializeToString()

    def __enter__(self) -> HostileReceiver:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0).wait()


COMMANDS: dict[str, tuple[str, ...]] = {
    "streams": ("streams", RUN),
    "streams-json": ("streams", "--json"),
    "status": ("status", RUN),
    "status-json": ("status", RUN, "-o", "json"),
    "runs": ("runs",),
    "runs-json": ("runs", "--json"),
    "run-start": ("run-start", RUN),
    "run-end": ("run-end", RUN),
    "rm": ("rm", RUN, "--yes", "--force"),
    "logs": ("logs", RUN),
    "logs-json": ("logs", RUN, "-o", "json"),
    "logs-time": ("logs", RUN, "-t", "--order", "time", "-i", "o"),
    "first-error": ("logs", RUN, "--first-error"),
    "doctor": ("doctor", "--site", SITE),
    "doctor-json": ("doctor", "--site", SITE, "-o", "json"),
}
TWINS = ("streams-json", "status-json", "runs-json", "logs-json", "logs-time", "doctor-json")  # same requests as others
ENDLESS = {"follow": ("follow", RUN), "watch": ("status", RUN, "--watch", "--interval", "0.2")}


def ask_everything(place: Place, where: tuple[str, ...], without: tuple[str, ...] = ()) -> dict[str, Program]:
    """Run every command against that place; return them when they have ended."""
    started = {name: place.start(*args, *where) for name, args in COMMANDS.items() if name not in without}
    endless = {name: place.start(*args, *where) for name, args in ENDLESS.items()}
    for program in started.values():
        program.ends(2 * PATIENCE)
    end = time.monotonic() + 2.0  # a receiver that sends nonsense may show nothing
    until(
        lambda: time.monotonic() > end or all(one.process.poll() is not None for one in endless.values()),
        "the time is over",
    )
    for program in endless.values():
        if program.process.poll() is None:
            program.tell(signal.SIGINT)
            program.ends()
    return started | endless


def everything(message: Any) -> None:
    """Spoil all texts of *message* except names. Absent fields stay absent: a piece of bytes must not become a mark."""
    for path in texts(message.DESCRIPTOR):
        first = path[0]
        absent = first.message_type is not None and not first.is_repeated and not message.HasField(first.name)
        if not absent and not is_name(path):
            spoil(message, path, HOSTILE)


def only(wanted: Path) -> Callable[[Any], None]:
    def change(message: Any) -> None:
        if message.DESCRIPTOR is wanted[0].containing_type:
            spoil(message, wanted, HOSTILE)

    return change


def test_every_text_of_a_receiver_reaches_its_readers_legibly(place: Place) -> None:
    with HostileReceiver(everything) as receiver:
        asked = ask_everything(place, ("--receiver", receiver.address))
    for program in asked.values():
        is_clean(program)
    for name in ("streams", "status", "run-start", "run-end", "logs", "doctor"):
        assert "begin\\n" in asked[name].printed + asked[name].said, asked[name].talk()


@pytest.mark.parametrize("path", each(NAMES, NAMES[0]), ids=[f"{message_of(path)}.{called(path)}" for path in NAMES])
@pytest.mark.parametrize("without", [TWINS, pytest.param((), marks=pytest.mark.soak)], ids=["most", "all"])
def test_a_name_of_a_receiver_that_is_none_is_told_legibly(place: Place, without: tuple[str, ...], path: Path) -> None:
    # A doctor asks for none of these, and waits 15 s for such a receiver to store anything.
    without += ("doctor", "doctor-json") if message_of(path) in ("RunInfo", "Found", "Moments") else ()
    with HostileReceiver(only(path)) as receiver:
        asked = ask_everything(place, ("--receiver", receiver.address), without)
        sidecar = place.sidecar(receiver.address, "--once", "--drain-timeout", "1")
        sidecar.ends()
    for program in (*asked.values(), sidecar):
        is_clean(program)


@pytest.mark.parametrize("status", STATUSES, ids=lambda status: status.name.lower())
def test_what_a_receiver_says_with_a_status_reaches_nobody_raw(place: Place, status: grpc.StatusCode) -> None:
    append(place.log, DATA)
    with HostileReceiver(everything, status) as receiver:
        sidecar = place.sidecar(receiver.address, "--once", "--drain-timeout", "1", "--drain-limit", "5")
        asked = ask_everything(place, ("--receiver", receiver.address))
        until(lambda: sidecar.said, "the sidecar says something")
        if sidecar.process.poll() is None:
            sidecar.heeds_signals()
            sidecar.tell(signal.SIGTERM)
        sidecar.ends()
    for program in (*asked.values(), sidecar):
        is_clean(program)
    assert "begin\\n" in "".join(program.said + program.printed for program in asked.values())


@pytest.mark.parametrize(
    "code",
    each(
        [*(code for name, code in pb.Code.items() if name not in ("OK", "SEALED", "CODE_UNSPECIFIED")), 99],
        *(pb.REJECTED, pb.FENCED, pb.PAUSE, 99),
    ),
    ids=lambda code: "unknown" if code == 99 else pb.Code.Name(code).lower(),
)
def test_the_reason_of_a_reply_reaches_no_sidecars_log_raw(place: Place, code: int) -> None:
    append(place.log, DATA)
    with HostileReceiver(everything, code=code) as receiver:
        named = ("--receiver", receiver.address, "--run", RUN, "--site", SITE, "--root", str(place.root))
        end = ("--once", "--drain-timeout", "3", "--drain-limit", "4")
        sidecar = place.start("--log-level", "debug", "sidecar", *named, *end)
        sidecar.ends()
    is_clean(sidecar)
    assert "begin\\n" in sidecar.said or code in (pb.HOLE, pb.CORRUPT, pb.GOING_AWAY, pb.FENCED), sidecar.said


# --- a hostile site


def pushed(run: str, log: str, change: Callable[[Any], None]) -> list[bytes]:
    """A whole stream with a mark of each kind, and more marks than are shown; *change* is applied to each message."""
    opened = pb.PushRequest(number=1)
    opened.open.version.major = 1
    opened.open.stream.run, opened.open.stream.site, opened.open.stream.log = run, SITE, log
    opened.open.producer = b"0123456789abcdef"
    said = [opened]
    at = 0
    for index, mark in enumerate(all_marks()):
        if mark.offset > at:
            data = DATA[at : mark.offset]
            said.append(pb.PushRequest(chunk=pb.Chunk(offset=at, data=data, digest=crc32(DATA[: mark.offset]))))
            at = mark.offset
        said.append(pb.PushRequest(mark=pb.MarkAt(index=index, mark=mark)))
    said.append(pb.PushRequest(chunk=pb.Chunk(offset=at, data=DATA[at:], digest=crc32(DATA))))
    for message in said:
        message.number = 1
        change(message)
    return [message.SerializeToString() for message in said]


def push(channel: grpc.Channel, messages: list[bytes]) -> list[pb.Reply]:
    """The replies up to the answer of the last message, or to the call's end."""
    done = False

    def requests() -> Iterator[bytes]:
        yield from messages
        while not done:
            time.sleep(0.02)

    found = []
    call: Any = channel.stream_stream(f"/{SERVICE.full_name}/Push")(cast(Any, requests()), timeout=PATIENCE)
    try:
        for raw in call:
            found.append(pb.Reply.FromString(raw))
            if found[-1].code != pb.OK or (found[-1].committed, found[-1].marks) == (len(DATA), len(all_marks())):
                break
    except grpc.RpcError as error:
        found.append(pb.Reply(code=pb.REJECTED, reason=str(error.details())))
    finally:
        done = True
        call.cancel()
    return found


def asks(method: Any) -> Iterator[Any]:
    """Requests of a call other than Push, each with one hostile text; and valid ones."""
    for path in texts(method.input_type):
        message: Any = getattr(pb, method.input_type.name)()
        names = {field.name for field in message.DESCRIPTOR.fields}
        if "stream" in names:
            message.stream.CopyFrom(pb.StreamId(run=RUN, site=SITE, log=LOG))
        if "run" in names:
            message.run = RUN
        spoil(message, path, HOSTILE)
        yield message


def test_every_text_of_a_site_reaches_the_receivers_log_and_its_readers_legibly(place: Place) -> None:
    receiver = place.serve()
    with grpc.insecure_channel(receiver.address) as channel:
        replies = push(channel, pushed(RUN, LOG, everything))
        assert replies[-1].code == pb.OK, replies
        for path in texts(pb.PushRequest.DESCRIPTOR):
            for one in push(channel, pushed("run-2", f"{called(path)}.log", only(path))):
                assert one.reason.isprintable()
        for method in SERVICE.methods:
            for request in asks(method) if method.name != "Push" else ():
                how = channel.unary_stream if method.server_streaming else channel.unary_unary
                call: Any = how(f"/{SERVICE.full_name}/{method.name}")
                details = ""
                try:
                    made = call(request.SerializeToString(), timeout=PATIENCE)
                    list(made) if method.server_streaming else None
                except grpc.RpcError as error:
                    details = str(error.details())
                assert details.isprintable()
        asked = ask_everything(place, ("--receiver", receiver.address), without=("rm",))
    append(place.log, b"three\n")
    assert place.sidecar(receiver, "--once", site="site-2").ends() == 0
    receiver.stop()
    store = ("--store", str(receiver.store))
    stored = ask_everything(place, store, without=("run-start", "run-end", "rm", "doctor", "doctor-json"))
    others = [
        place.call("verify", *store, RUN),
        place.call("verify", *store, RUN, "-o", "json"),
        place.call("view", str(receiver.file())),
        place.call("doctor", *store),
        place.call("rm", RUN, "--yes", *store),
    ]
    for program in itertools.chain([receiver.program], asked.values(), stored.values(), others):
        is_clean(program)
    for found in (asked, stored):
        assert "begin\\n" in found["logs"].printed, found["logs"].talk()
        assert "begin\\n" in found["streams"].said, found["streams"].talk()
