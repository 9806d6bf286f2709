"""A node: pods' log directories, with a runtime that appends and a kubelet that rotates and compresses."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flarelog.model import Mark, StreamInfo
from flarelog.sources.containers.finder import Containers
from flarelog.sources.containers.options import ContainerOptions
from tests.sources.files.tailing import NoWatch, Stored

UID = "6b2f7c1e-0d43-4c8e-9a6f-1e2d3c4b5a69"


@dataclass
class Pod:
    """The log directory of one container."""

    root: Path
    namespace: str = "ns"
    name: str = "web"
    uid: str = UID
    container: str = "main"
    attempt: int = 0
    rotated: int = 0
    written: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def directory(self) -> Path:
        return self.root / f"{self.namespace}_{self.name}_{self.uid}" / self.container

    @property
    def log(self) -> str:
        return f"{self.namespace}/{self.name}.{self.uid[:8]}/{self.container}.log"

    @property
    def current(self) -> Path:
        return self.directory / f"{self.attempt}.log"

    def write(self, data: bytes) -> None:
        with open(self.current, "ab") as file:
            file.write(data)
        self.written += data

    def rotate(self, day: int = 28) -> Path:
        """Rename the current file, as the kubelet does; the runtime opens it anew."""
        self.rotated += 1
        old = self.current.rename(f"{self.current}.202611{day}-{self.rotated:06d}")
        self.current.touch()
        return old

    def compress(self, old: Path) -> Path:
        packed = old.with_name(f"{old.name}.gz")
        unfinished = old.with_name(f"{old.name}.tmp")
        unfinished.write_bytes(gzip.compress(old.read_bytes()))
        unfinished.rename(packed)
        old.unlink()
        return packed

    def restart(self) -> None:
        """Begin the container's next attempt."""
        self.attempt += 1
        self.current.touch()


@dataclass
class DockerContainer:
    """The log directory of one of Docker's containers."""

    root: Path
    id: str = "0123456789abcdef" * 4
    written: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)

    @property
    def directory(self) -> Path:
        return self.root / self.id

    @property
    def log(self) -> str:
        return f"{self.id[:12]}/container.log"

    @property
    def current(self) -> Path:
        return self.directory / f"{self.id}-json.log"

    def write(self, data: bytes) -> None:
        with open(self.current, "ab") as file:
            file.write(data)
        self.written += data

    def rotate(self, most: int) -> None:
        """Rename the files, as Docker does with max-file=*most* and compress=true."""
        name = str(self.current)
        Path(f"{name}.{most - 1}.gz").unlink(missing_ok=True)
        for number in range(most - 2, 0, -1):
            older = Path(f"{name}.{number}.gz")
            if older.exists():
                older.rename(f"{name}.{number + 1}.gz")
        old = self.current.rename(f"{name}.1")
        self.current.touch()
        Path(f"{name}.1.gz").write_bytes(gzip.compress(old.read_bytes()))
        old.unlink()


class Receiver:
    """Stores what a finder's logs give."""

    def __init__(self) -> None:
        self.logs: dict[str, Stored] = {}

    def take(self, finder: Containers, now: float = 0.0) -> None:
        """Store all that is there, in several looks."""
        for step in range(40):
            finder.look(now + step)
            for name, tail in finder.logs.items():
                stored = self.logs.setdefault(name, Stored())
                while (item := tail.next(stored.position, stored.marks_sent, 1 << 20, now + step)) is not None:
                    stored.sent.append(item)
                stored.arrive(len(stored.sent))
                tail.acknowledged(len(stored.data))

    def take_drained(self, finder: Containers, now: float) -> None:
        """Store what draining logs give, without another look, until they are drained."""
        for name, tail in finder.logs.items():
            stored = self.logs.setdefault(name, Stored())
            while (item := tail.next(stored.position, stored.marks_sent, 1 << 20, now)) is not None or (
                not tail.drained(now) and now < 1e9
            ):
                now += 1.0
                stored.sent += [] if item is None else [item]
            stored.arrive(len(stored.sent))

    def record(self) -> list[StreamInfo]:
        return [stored.info(name) for name, stored in self.logs.items()]

    def data(self, pod: Pod | DockerContainer) -> bytes:
        return bytes(self.logs[pod.log].data) if pod.log in self.logs else b""

    def marks(self, pod: Pod | DockerContainer) -> list[Mark]:
        return self.logs[pod.log].marks


@contextmanager
def finding(
    root: Path, record: list[StreamInfo] | None = None, layout: str = "cri", **options: object
) -> Iterator[Containers]:
    """A finder in a new process that has learnt the receiver's *record*."""
    wanted = ContainerOptions(str(root), layout, **options)  # type: ignore[arg-type]
    finder = Containers(wanted, watch=NoWatch())
    try:
        finder.learn(record or [], 0.0)
        yield finder
    finally:
        finder.close()
