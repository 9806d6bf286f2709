"""Every file system scenario of the case collection, played with a real sidecar and a real receiver."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from flarelog.extents import extents
from flarelog.model import Ended, StreamInfo
from flarelog.stores.local.journal import replay
from integration.harness.places import Place, Program, Receiver

WRITTEN = 10.0  # seconds that a case waits for its bytes: a busy machine may need them
CASES = Path(__file__).parent.parent / "tests" / "data" / "scenarios.json"


def data_of(value: Any) -> bytes:
    """The bytes that a case's value describes."""
    if isinstance(value, str):
        return value.encode()
    if "b64" in value:
        return base64.b64decode(value["b64"])
    if "concat" in value:
        return b"".join(map(data_of, value["concat"]))
    pattern, length = str(value["pattern"]).encode(), int(value["len"])
    return (pattern * (length // len(pattern) + 1))[:length]


def cases() -> list[Any]:
    found = json.loads(CASES.read_text())
    return [  # half of them in each run: cases of each kind are in both halves
        pytest.param(case, id=f"{case['id']}-{case['name']}", marks=pytest.mark.soak if number % 2 else ())
        for number, case in enumerate(found)
    ]


class Stage:
    """The processes and files of one scenario."""

    def __init__(self, place: Place, case: dict[str, Any]) -> None:
        self.place = place
        self.root = place.directory / "site"
        self.root.mkdir(exist_ok=True)
        self.receiver: Receiver = place.serve()
        self.sidecar: Program | None = None
        self.handles: dict[str, BinaryIO] = {}
        given = case["input"]
        self.options = ["--state", str(place.directory / "state"), "--start-at", given.get("start_at", "beginning")]
        if "ignore_older_s" in case.get("config", {}):
            self.options += ["--ignore-older", str(case["config"]["ignore_older_s"])]
        for pattern in given.get("include", []):
            self.options += ["--include", pattern]
        streams = case["expected"]["flarelog"]["streams"]
        self.wanted = b"\n".join(data_of(stream["bytes"]) for stream in streams if "bytes" in stream)
        self.written: Counter[bytes] = Counter()

    def play(self, op: dict[str, Any]) -> None:
        getattr(self, f"op_{op.pop('op')}")(**op)

    def op_append(self, path: str, data: Any) -> None:
        with open(self.root / path, "ab") as file:
            self.written[data_of(data)] += file.write(data_of(data)) > 0

    def op_touch(self, path: str) -> None:
        (self.root / path).touch()

    def op_mkdir(self, path: str) -> None:
        (self.root / path).mkdir()

    def op_open(self, h: str, path: str, mode: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if mode == "append" else 0)
        self.handles[h] = os.fdopen(os.open(self.root / path, flags, 0o644), "wb", buffering=0)

    def op_hwrite(self, h: str, data: Any) -> None:
        self.written[data_of(data)] += self.handles[h].write(data_of(data)) > 0

    def op_close(self, h: str) -> None:
        self.handles.pop(h).close()

    def op_rename(self, to: str, **names: str) -> None:
        os.rename(self.root / names["from"], self.root / to)

    def op_copy(self, to: str, **names: str) -> None:
        shutil.copyfile(self.root / names["from"], self.root / to)

    def op_truncate(self, path: str, size: int = 0) -> None:
        os.truncate(self.root / path, size)

    def op_overwrite(self, path: str, data: Any, **_: Any) -> None:
        with open(self.root / path, "r+b") as file:
            file.write(data_of(data))

    def op_unlink(self, path: str) -> None:
        os.unlink(self.root / path)

    def op_symlink(self, target: str, path: str) -> None:
        os.symlink(target, self.root / path)

    def op_resymlink(self, target: str, path: str) -> None:
        os.symlink(target, self.root / "link.new")
        os.rename(self.root / "link.new", self.root / path)

    def op_gzip(self, to: str, **names: str) -> None:
        (self.root / to).write_bytes(gzip.compress((self.root / names["from"]).read_bytes()))

    def op_put_gzip(self, path: str, data: Any) -> None:
        (self.root / path).write_bytes(gzip.compress(data_of(data)))

    def op_append_gzip(self, path: str, data: Any) -> None:
        with open(self.root / path, "ab") as file:
            file.write(gzip.compress(data_of(data)))

    def op_create_reusing_inode(self, path: str, data: Any) -> None:
        (self.root / path).write_bytes(data_of(data))

    def op_chmod(self, path: str, mode: int) -> None:
        (self.root / path).chmod(mode)

    def op_utime(self, path: str, age: float) -> None:
        then = time.time() - age
        os.utime(self.root / path, (then, then))

    def op_sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def op_start(self) -> None:
        self.sidecar = self.place.sidecar(self.receiver, *self.options)
        self.sidecar.heeds_signals()
        self.op_poll()

    def op_stop(self) -> None:
        assert self.sidecar is not None
        self.sidecar.stop()
        self.sidecar = None

    def op_kill(self) -> None:
        assert self.sidecar is not None
        self.sidecar.kill()
        self.sidecar = None

    def op_receiver_start(self) -> None:
        self.receiver = self.place.serve(store=self.receiver.store, listen=self.receiver.address)

    def op_poll(self, ack: bool = True, receiver_kill: str = "") -> None:
        """Wait until all expected bytes written so far are stored, and the store has been unchanged for a while."""
        deadline = time.monotonic() + WRITTEN
        while self.sidecar and self.receiver.program.process.poll() is None and self.lacks_any():
            if time.monotonic() > deadline:
                break  # this case brings them later
            time.sleep(0.02)
        last, since = self.stored(), time.monotonic()
        while time.monotonic() - since < 0.4:
            time.sleep(0.02)
            if (now := self.stored()) != last:
                last, since = now, time.monotonic()
        if receiver_kill:
            self.receiver.program.tell(signal.SIGKILL)
            self.receiver.program.process.wait()

    def lacks_any(self) -> bool:
        """Whether a written text is stored less often than it was written, or than the end of the case expects."""
        logs = (path for path in self.receiver.store.rglob("*.log*") if not path.name.startswith("."))
        stored = b"\n".join(path.read_bytes() for path in logs)
        return any(stored.count(data) < min(times, self.wanted.count(data)) for data, times in self.written.items())

    def stored(self) -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_size) for path in self.receiver.store.rglob("*") if path.is_file())

    def infos(self) -> list[StreamInfo]:
        found = []
        for path in sorted(self.receiver.store.rglob(".*.journal")):
            journal = replay(path.read_bytes())
            if journal.stream is not None:
                found.append(
                    StreamInfo(journal.stream, 0, journal.committed, journal.digest, False, tuple(journal.marks))
                )
        return found

    def generations(self) -> list[tuple[str, int, bytes]]:
        """(path, first offset in the source, bytes) of each generation."""
        result: list[tuple[str, int, bytes]] = []
        for info in self.infos():
            raw = (self.receiver.store / str(info.stream)).read_bytes()
            at: dict[str, int] = {}
            for extent in extents(info.marks, info.committed):
                data = raw[extent.offset : extent.offset + extent.length]
                known = at.get(extent.identity)
                if known is not None:
                    path, first, before = result[known]
                    if extent.source_offset == first + len(before):
                        result[known] = (path, first, before + data)
                        continue
                at[extent.identity] = len(result)
                result.append((extent.path, extent.source_offset, data))
        return [entry for entry in result if entry[2]]


@pytest.mark.parametrize("case", cases())
def test_scenario(place: Place, case: dict[str, Any]) -> None:
    stage = Stage(place, case)
    for op in case["input"]["ops"]:
        stage.play(dict(op))
    if stage.sidecar is None:
        stage.op_start()
    stage.sidecar.stop() if stage.sidecar else None
    expected = case["expected"]["flarelog"]
    wanted = [
        (stream["first_path"], stream.get("from_offset", 0), data_of(stream["bytes"]))
        for stream in expected["streams"]
        if "bytes" in stream
    ]
    packed = {
        stream["first_path"]: stream["decompressed"] for stream in expected["streams"] if "decompressed" in stream
    }
    got = [entry for entry in stage.generations() if entry[0] not in packed]
    assert sorted(got) == sorted(wanted)
    for path in {entry[0] for entry in wanted}:  # the generations of each path are in order
        assert [entry for entry in got if entry[0] == path] == [entry for entry in wanted if entry[0] == path]
    for path, text in packed.items():
        (raw,) = [data for first, _, data in stage.generations() if first == path]
        assert gzip.decompress(raw).decode() == text
    if "generation ended unseen" in expected.get("report", []):
        # The size of the loss is unknown: no look came between the bytes and their removal. A mark tells of the
        # possible loss all the same.
        marks = [mark for info in stage.infos() for mark in info.marks]
        assert any(isinstance(mark, Ended) and mark.reason == "unseen" for mark in marks)
    else:
        assert sum(gap.length for info in stage.infos() for gap in info.gaps) == expected.get("lost_bytes", 0)
    for handle in stage.handles.values():
        handle.close()
