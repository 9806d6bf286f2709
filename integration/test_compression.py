"""Compression with real processes: fewer bytes on the wire, the same bytes in the store, despite any fault."""

from __future__ import annotations

import functools
import os
import random
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from flarelog.v1 import log_pb2 as pb
from integration.harness.hostile import chunk, finish, opening
from integration.harness.places import LOG, RUN, SITE, Place, Program, Proxy, append, noise, until
from integration.test_byte_path import quiet, stop

SERVICE = "/flarelog.v1.LogService"


def training(size: int, seed: int = 1) -> bytes:
    """*size* bytes like a training's output: no two lines are equal."""
    rng, out, length, step = random.Random(seed), [], 0, 0
    while length < size:
        step += 1
        clock = f"08:{step // 240 % 60:02d}:{step // 4 % 60:02d},{rng.randrange(1000):03d}"
        loss, norm = 2.3 / (1 + step / 500) * rng.uniform(0.97, 1.03), rng.lognormvariate(0, 0.3)
        line = f"2026-11-21 {clock} - trainer - INFO - step={step} loss={loss:.6f} grad_norm={norm:.4f} lr=1.000e-04\n"
        if step % 10 == 0:
            line = (
                f"\rEpoch 1: {step % 1000 // 10:3d}%|{'█' * (step % 1000 // 40)} [{clock[:5]}, {rng.random():.2f}it/s]"
            )
        out.append(line.encode())
        length += len(out[-1])
    return b"".join(out)[:size]


@functools.cache  # made by the process that needs it: each one imports this module
def whole() -> bytes:
    return training(9 << 20)


def refused_nothing(*programs: Program) -> None:
    for program in programs:
        assert not any(word in program.said for word in ("refuses", "refused at", "WARNING")), program.said
        quiet(program)


def test_a_training_log_takes_a_fifth_on_the_wire_and_is_stored_as_it_was(place: Place) -> None:
    receiver = place.serve()
    append(place.log, whole())
    with Proxy(receiver.address) as network:
        sidecar = place.sidecar(network.address, "--compression", "on")
        receiver.gets(whole())
        assert network.carried * 5 < len(whole())
        more = append(place.log, b"a line\n" + training(3000, 2) + noise(300_000) + b"the end")
        receiver.gets(whole() + more)
        stop(sidecar)
    receiver.holds(whole() + more)
    refused_nothing(sidecar, receiver.program)


def test_random_bytes_are_sent_as_they_are(place: Place) -> None:
    receiver, data = place.serve(), os.urandom(9 << 20)
    append(place.log, data)
    with Proxy(receiver.address) as network:
        assert place.once(network.address, "--compression", "on").ends() == 0
        assert len(data) < network.carried < len(data) * 1.05
    receiver.holds(data)


def test_on_loopback_nothing_is_compressed_unless_it_is_wanted(place: Place) -> None:
    receiver = place.serve()
    append(place.log, whole())
    with Proxy(receiver.address) as network:
        assert place.once(network.address).ends() == 0
        assert network.carried > len(whole())
    receiver.holds(whole())


@pytest.mark.soak
def test_both_ends_are_killed_again_and_again(place: Place) -> None:
    receiver, written, data = place.serve(), b"", training(20 << 20, 3)
    sidecar = place.sidecar(receiver, "--compression", "on")
    for begin in range(0, len(data), 4 << 20):
        written += append(place.log, data[begin : begin + (4 << 20)])
        receiver.grows()
        if begin >> 22 & 1:
            receiver.program.kill()
            receiver = receiver.again()
        else:
            sidecar.kill()
            sidecar = place.sidecar(receiver, "--compression", "on")
    receiver.gets(written)
    stop(sidecar)
    receiver.holds(written)
    assert "refuses" not in sidecar.said
    assert "refused at" not in receiver.program.said


def test_a_network_that_cuts_connections_in_the_middle_of_chunks(place: Place) -> None:
    receiver = place.serve()
    append(place.log, whole())
    with Proxy(receiver.address, cuts=(30_000, 100_000, 200_001, 500_000)) as network:
        assert place.once(network.address, "--compression", "on").ends() == 0
        assert network.connections >= 5
    receiver.holds(whole())


def test_a_receiver_that_comes_back_and_takes_none_any_longer_gets_what_it_takes(place: Place) -> None:
    receiver = place.serve()
    first, second, third = (training(3 << 20, seed) for seed in (4, 5, 6))
    sidecar = place.sidecar(receiver, "--compression", "on")
    append(place.log, first)
    receiver.gets(first)
    for options, data in ((("--no-compression",), first + second), ((), first + second + third)):
        assert receiver.stop() == 0
        receiver = receiver.again(*options)
        append(place.log, data[-len(first) :])
        receiver.gets(data)
    stop(sidecar)
    receiver.holds(first + second + third)
    assert "refuses" not in sidecar.said
    assert "refused at" not in receiver.program.said


class Plain:
    """A receiver without compression: its replies name no codecs, and it stores its input."""

    def __init__(self) -> None:
        self.stored, self.codecs = b"", set[int]()
        self.digest, self.marks = 0, 0

    def push(self, requests: Iterator[bytes], _: object) -> Iterator[bytes]:
        for raw in requests:
            message = pb.PushRequest.FromString(raw)
            for said in message.several or [message]:
                yield self._taken(said).SerializeToString()

    def _taken(self, said: pb.PushRequest) -> pb.Reply:
        kind = said.WhichOneof("message")
        if kind == "chunk":
            self.codecs.add(said.chunk.codec)
            assert said.chunk.offset == len(self.stored)
            self.stored += said.chunk.data
            self.digest = said.chunk.digest
        elif kind == "mark":
            self.marks += 1
        elif kind == "open":
            self.digest = self.marks = 0
        return pb.Reply(
            code=pb.SEALED if kind == "finish" else pb.OK,
            committed=len(self.stored),
            digest=self.digest,
            marks=self.marks,
            incarnation=b"12345678",
            epoch=1,
            number=said.number,
        )


def test_a_receiver_without_compression_gets_the_bytes_as_they_are(place: Place) -> None:
    plain, server = Plain(), grpc.server(ThreadPoolExecutor(4))
    handlers: dict[str, Any] = {
        "Push": grpc.stream_stream_rpc_method_handler(plain.push),
        "List": grpc.unary_stream_rpc_method_handler(lambda request, context: iter(())),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("flarelog.v1.LogService", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        append(place.log, whole())
        assert place.once(f"127.0.0.1:{port}", "--compression", "on").ends() == 0
    finally:
        server.stop(None)
    assert plain.codecs == {0}
    assert plain.stored == whole()


def test_an_older_producer_is_served_as_ever(place: Place) -> None:
    """The producer knows no codecs, and ignores the field with them."""
    receiver, data = place.serve(), training(1 << 20, 7)
    said = [opening(LOG, RUN, SITE), chunk(0, data, zlib.crc32(data)), finish(len(data), zlib.crc32(data), 0)]
    with grpc.insecure_channel(receiver.address) as channel:
        push: Any = channel.stream_stream(f"{SERVICE}/Push")
        replies = [pb.Reply.FromString(raw) for raw in push(iter(said))]
    assert replies[-1].code == pb.SEALED
    receiver.holds(data)


@pytest.mark.parametrize("where", ["option", pytest.param("variable", marks=pytest.mark.soak)])
def test_a_receiver_that_is_told_to_take_none(place: Place, where: str) -> None:
    receiver = place.serve("--no-compression") if where == "option" else place.serve(FLARELOG_NO_COMPRESSION="1")
    append(place.log, whole())
    with Proxy(receiver.address) as network:
        assert place.once(network.address, "--compression", "on").ends() == 0
        assert network.carried > len(whole())
    receiver.holds(whole())
    refused_nothing(receiver.program)


def test_lines_are_compressed_with_many_logs_as_well(place: Place) -> None:
    receiver = place.serve()
    logs = {f"rank-{rank}.log": training(200_000, rank) for rank in range(40)}
    sidecar = place.sidecar(receiver, "--compression", "on")
    for name, data in logs.items():
        append(place.root / name, data)
    for name, data in logs.items():
        receiver.gets(data, name)
    stop(sidecar)
    until(lambda: all(record["sealed"] for record in receiver.streams().values()), "all are sealed")
    refused_nothing(sidecar, receiver.program)
