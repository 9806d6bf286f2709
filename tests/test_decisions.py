"""Law 13: what ends a stream, a sidecar, a run of an agent or an embedded producer, and the decision behind each end.

Time and a lost connection decide nothing: whatever has no row here is tried again. The tables are compared with the
code, so that a new refusal, error or status needs a row, and its row a decision.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from flarelog import errors
from flarelog.delivery.producer import TRANSITIONS, Event, State
from flarelog.delivery.receiving import code_of
from flarelog.errors import NOT_ALLOWED, FlarelogError, StoreError, StreamEnded
from flarelog.model import Code
from flarelog.wire import statuses
from tests.rows import together

PACKAGE = Path(__file__).parent.parent / "flarelog"

REFUSED_FOR_GOOD = {
    "delivery/receiver.py Receiver.admit": "the chunk is larger than the receiver takes",
    "delivery/receiver.py Receiver.mark": "the mark contradicts an earlier one, or the stream has too many",
    "delivery/receiver.py Receiver.finish": "the receipt is for other bytes than the receiver holds",
    "delivery/receiving.py code_of": "no retry mends the error: a name is invalid, or the policy refuses",
    "delivery/receiving.py Reception.take": "the stream had its Open",
    "wire/packing.py Unpacking.demand": "the receiver takes no compressed chunks, as its replies say",
    "wire/packing.py _never": "the compressed chunk is none that an honest producer makes",
    "wire/codec/replies.py reply_of": "the receiver's answer is one that this version does not know",
    "receiver/call.py Call._take_one": "the stream was never opened",
    "receiver/call.py Call._may_open": "the Open contradicts the call, or is invalid",
    "receiver/intake.py Intake.entered": "a newer producer has opened the stream (FENCED)",
    "receiver/removals.py Removals.check": "the run was removed",
    "receiver/removals.py Removals.hold": "the run was removed",
    "receiver/standing.py Standing._ask_policy": "the policy no longer allows the stream",
    "receiver/standing.py Standing._ask_trust": "the certificate was revoked",
}
"""The places that name REJECTED or FENCED in an answer: what the receiver has decided about the stream."""

HEARD = {
    "Producer._move": "the receiver's answer does not fit the state of the stream",
    "Producer.receive": "FENCED, REJECTED, or an answer that TRANSITIONS does not have",
    "Producer._missed": "the run is not registered, as the receiver has answered more than max_misses times",
    "Producer._refused": "the receiver has refused the same bytes more than max_refusals times",
    "Producer._acknowledge": "the receiver acknowledges what it was not sent",
    "Producer._other_bytes": "the receiver holds other bytes than were sent",
}
"""The methods of a producer that end its stream, each because of an answer to this stream."""

NEVER = {
    (State.BOOTSTRAP, Code.HOLE), (State.BOOTSTRAP, Code.CORRUPT), (State.BOOTSTRAP, Code.SEALED),
    (State.STREAMING, Code.EXECUTION_EXCEPTION), (State.STREAMING, Code.SEALED),
    (State.PAUSED, Code.EXECUTION_EXCEPTION), (State.PAUSED, Code.SEALED),
    (State.FINISHING, Code.EXECUTION_EXCEPTION),
}  # fmt: skip
"""The answers that no stall brings about: they contradict an earlier answer of the same receiver."""

DECIDED = {
    grpc.StatusCode.PERMISSION_DENIED: "the policy or the certificate's check refuses the caller",
    grpc.StatusCode.UNAUTHENTICATED: "the caller's token is unknown, revoked or expired",
    grpc.StatusCode.INVALID_ARGUMENT: "the run's or the site's name is invalid",
}
"""The statuses of a call that the receiver itself sets when it refuses the caller."""

BY_GRPC = [
    "Received http2 header with status: 403",  # of a proxy
    "Received http2 header with status: 404",
    "Received http2 header with status: 503",
    "RST_STREAM",
    "Received RST_STREAM with error code 12",
]
"""The texts of statuses that gRPC derives from something else than an answer of the receiver."""

NOT_TO_BE_RESTARTED = {
    "NotAllowed": "the receiver's policy, the site's consent, or the file system refuses",
    "NotAuthenticated": "the caller's token is unknown",
    "NoConsent": "the site's administrator does not allow its logs to leave",
    "InUse": "a run to be removed has open streams; no stream ends with it",
    "StreamRefused": "the receiver has answered REJECTED to the stream",
    "StreamFenced": "the receiver has answered FENCED to the stream",
}
"""The errors with exit code 5."""


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """The functions in *tree* with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node


def codes_named(node: ast.AST) -> set[str]:
    """The codes that *node* names other than in a comparison."""
    compared = {id(part) for one in ast.walk(node) if isinstance(one, ast.Compare) for part in ast.walk(one)}
    return {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute)
        and isinstance(one.value, ast.Name)
        and one.value.id == "Code"
        and id(one) not in compared
    }


def test_each_answer_that_ends_a_stream_is_a_decision_of_the_receiver() -> None:
    found = {
        f"{path.relative_to(PACKAGE)} {name}"
        for path in PACKAGE.rglob("*.py")
        for name, node in functions(ast.parse(path.read_text()))
        if codes_named(node) & {"REJECTED", "FENCED"} and "poc" not in path.parts  # the simulation reads answers
    }
    assert found == set(REFUSED_FOR_GOOD)


def test_each_end_of_a_producer_follows_from_an_answer_to_its_stream() -> None:
    raising = defaultdict(set)
    ends = {kind.__name__ for kind in StreamEnded.__subclasses__()} | {"StreamRefused"}
    for module in ("producer", "sending"):
        for name, node in functions(ast.parse((PACKAGE / f"delivery/{module}.py").read_text())):
            for one in ast.walk(node):
                if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in ends:
                    raising[name].add(one.func.id)
    assert set(raising) == set(HEARD)


def test_an_answer_ends_a_stream_only_if_it_contradicts_an_earlier_one_or_refuses_the_stream() -> None:
    states = set(State) - {State.SEALED}
    absent = {
        (state, code)
        for state in states
        for code in set(Code) - {Code.REJECTED, Code.FENCED}
        if (state, code) not in TRANSITIONS
    }
    assert absent == NEVER
    assert all((state, Event.OPENED) in TRANSITIONS for state in State), "a lost connection ends nothing"
    assert all((state, Code.GOING_AWAY) in TRANSITIONS for state in states)


def failed(status: grpc.StatusCode, details: str) -> FlarelogError:
    metadata = grpc.aio.Metadata()
    return statuses.error_of(grpc.aio.AioRpcError(status, metadata, metadata, details), "receiver.example:4721")


@together("status", list(grpc.StatusCode))
def test_a_failed_call_ends_a_stream_only_with_a_decision_of_the_receiver(status: grpc.StatusCode) -> None:
    assert statuses.refuses(failed(status, "a sentence of the receiver")) is (status in DECIDED)
    assert not any(statuses.refuses(failed(status, details)) for details in BY_GRPC)
    assert (
        not statuses.refuses(failed(status, "CLIENT: Received message larger than max (5 vs. 4)")) or status in DECIDED
    )


def kinds(of: type[FlarelogError] = FlarelogError) -> Iterator[type[FlarelogError]]:
    for kind in of.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
            yield from kinds(kind)


@pytest.mark.parametrize("kind", [one for one in kinds() if one.retry_safe], ids=lambda kind: kind.__name__)
def test_an_error_inside_the_receiver_that_a_retry_may_mend_ends_no_stream(kind: type[FlarelogError]) -> None:
    error = kind("late", offset=0) if issubclass(kind, StreamEnded) else kind("late")
    others: dict[type[FlarelogError], Code] = {errors.Hole: Code.HOLE, errors.Moved: Code.GOING_AWAY}
    assert code_of(error) is others.get(kind, Code.PAUSE)


def test_each_error_with_the_exit_code_of_an_end_is_a_decision() -> None:
    found = {kind.__name__ for kind in kinds() if kind.exit_code == NOT_ALLOWED}
    assert found == set(NOT_TO_BE_RESTARTED)
    assert not any(kind.retry_safe for kind in kinds() if kind.exit_code == NOT_ALLOWED)
    assert not any(kind.exit_code == NOT_ALLOWED for kind in kinds(StoreError))
