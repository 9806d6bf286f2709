"""The baseline of the bulk measurement: a producer that sends 64 KiB, waits for the answer, and sends the next.

It is plain grpcio: a unary call with a protobuf message of an offset and the bytes, encoded and decoded by the
generated code, to a server that writes the bytes to its file before it answers. It has no checksum, no journal and no
discovery: the best case of such a design. Of blocking and asyncio clients with thread-pool (one and four threads) and
asyncio servers this pair was the fastest, by a tenth.

    python -m bench.stop_and_wait serve READY-FILE FILE
    python -m bench.stop_and_wait send HOST:PORT FILE
"""

from __future__ import annotations

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from flarelog.v1 import log_pb2 as pb

METHOD = "/bench.StopAndWait/Send"
PIECE = 64 << 10


def serve(ready: str, path: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)

    def receive(chunk: pb.Chunk, _: Any) -> pb.Reply:
        os.pwrite(fd, chunk.data, chunk.offset)
        return pb.Reply(code=pb.OK, committed=chunk.offset + len(chunk.data))

    service, method = METHOD[1:].split("/")
    handler = grpc.unary_unary_rpc_method_handler(
        receive, request_deserializer=pb.Chunk.FromString, response_serializer=pb.Reply.SerializeToString
    )
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with open(f"{ready}.new", "w") as file:
        file.write(f"127.0.0.1:{port}\n")
    os.replace(f"{ready}.new", ready)
    server.wait_for_termination()


async def send(receiver: str, path: str) -> None:
    async with grpc.aio.insecure_channel(receiver) as channel:
        call = channel.unary_unary(
            METHOD, request_serializer=pb.Chunk.SerializeToString, response_deserializer=pb.Reply.FromString
        )
        offset = 0
        with open(path, "rb", buffering=0) as file:
            while data := file.read(PIECE):
                reply = await call(pb.Chunk(offset=offset, data=data))
                if reply.committed != offset + len(data):
                    sys.exit(f"sent up to {offset + len(data)}, but {reply.committed} is answered")
                offset = reply.committed


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        asyncio.run(send(*sys.argv[2:]))
