"""A launcher of workers that ranks them when all of a job's pods have met, as torchrun does: ``gang.py --pods 16``.

The first pod to take the port is the place where they meet. It gives the pods numbers that are never those of their
indexes, because a real rendezvous need not heed these either. Each launcher starts its workers with the variables of
torchrun, and copies their lines with a prefix, as ``--tee 3``. When one launcher ends, all end, and their containers
are restarted: they meet again.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import subprocess
import sys
import threading
import time

WORKER = """
import os, time
for step in range(1_000_000):
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} step {step}", flush=True)
    time.sleep(0.5)
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--port", type=int, default=29500)
    options = parser.parse_args()
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    say(f"launcher of index {index} waits for {options.pods} pods")
    met = meet(options.port, options.pods, index)
    group = int(met.makefile("rb").readline())
    say(f"launcher of index {index} is group {group}")
    workers = [start(options, group, local) for local in range(options.workers)]
    met.recv(1)  # until another launcher has ended
    for worker in workers:
        worker.kill()
    sys.exit(1)


def meet(port: int, pods: int, index: int) -> socket.socket:
    """A connection to where the pods meet, which ends with the first of them."""
    while True:
        try:
            server = socket.create_server(("127.0.0.1", port))
            threading.Thread(target=serve, args=(server, pods), daemon=True).start()
        except OSError:
            pass  # another pod has it
        try:
            met = socket.create_connection(("127.0.0.1", port))
            met.sendall(b"%d\n" % index)
        except OSError:
            time.sleep(0.1)
        else:
            return met


def serve(server: socket.socket, pods: int) -> None:
    met = [server.accept()[0] for _ in range(pods)]
    indexes = [int(one.makefile("rb").readline()) for one in met]
    shift = random.randrange(1, pods)
    for one, index in zip(met, indexes, strict=True):
        one.sendall(b"%d\n" % ((index + shift) % pods))
    for one in met:
        threading.Thread(target=watch, args=(one,), daemon=True).start()


def watch(one: socket.socket) -> None:
    one.recv(1)
    os._exit(1)


def start(options: argparse.Namespace, group: int, local: int) -> subprocess.Popen[bytes]:
    size = options.workers
    given = {"RANK": group * size + local, "LOCAL_RANK": local, "GROUP_RANK": group}
    given |= {"WORLD_SIZE": options.pods * size, "LOCAL_WORLD_SIZE": size}
    env = {**os.environ, **{name: str(value) for name, value in given.items()}}
    worker = subprocess.Popen([sys.executable, "-c", WORKER], env=env, stdout=subprocess.PIPE)
    threading.Thread(target=copy, args=(worker, local), daemon=True).start()
    return worker


def copy(worker: subprocess.Popen[bytes], local: int) -> None:
    assert worker.stdout is not None
    for line in worker.stdout:
        say(f"[default{local}]:{line.decode().rstrip()}")


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


if __name__ == "__main__":
    main()
