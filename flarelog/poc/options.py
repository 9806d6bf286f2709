"""The options of a simulation, and its faults; ``moments.py`` implements each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flarelog.errors import InvalidOption, NotFound
from flarelog.options import option
from flarelog.values import frozen

FAULTS = {
    "late-receiver": "the receiver starts after its producers, and the run is announced later still",
    "rotate": "the logs are rotated by renaming, with their tails unread",
    "restart-receiver": "the receiver is stopped and restarted",
    "kill-receiver": "the receiver is killed and restarted",
    "freeze-receiver": "the receiver is frozen, and continues later",
    "kill-sidecar": "a sidecar is killed and restarted",
    "replace-sidecar": "a sidecar is frozen, another takes over, and the first is fenced when it wakes up",
    "cut-connection": "all connections are cut mid-stream",
    "hang-connection": "a connection accepts data without delivering it, until it is cut",
    "truncate": "a log is truncated between sending and storing: the loss is known, and becomes a gap",
    "remove": "a log is removed with its tail unread, and created again",
    "full-disk": "the receiver's disk fills up, and gets space again",
    "renew-certificates": "the receiver and all sites get new certificates, and then all connections are cut",
    "intruders": "a site of another CA, and a site that claims another's name, try to send",
    "kill-leader": "the nats-server that leads the logs is killed and restarted",
    "kill-server": "another nats-server is killed and restarted",
    "partition": "the nats-server that leads the logs is cut off from the others, but not from the receivers",
}
DEFAULT = ("late-receiver", "rotate")
OF_TLS = ("renew-certificates", "intruders")
"""The faults that need certificates."""
OF_NATS = ("kill-leader", "kill-server", "partition")
"""The faults that need nats-servers."""
PROXIED = frozenset({"cut-connection", "hang-connection", "truncate", "renew-certificates"})
"""The faults that need a proxy between site and receiver."""
PROOF = "corrupt-store"
"""Not a fault that flarelog promises to survive: one stored byte is changed, to show that the table can fail."""
OF_FILES = PROXIED | {"remove", "full-disk", "intruders", PROOF}
"""The faults that need a single receiver, or its files."""

MOMENT = {"local": 2.0, "nats": 12.0}  # seconds added for each fault that needs a moment of its own
SIZE, RATE = 4 << 20, 128 << 10  # bytes a site writes: by default in all, and a second when the length is given


def chosen(named: Sequence[str], tls: bool, store: str = "local") -> tuple[str, ...]:
    """The faults that *named* means: "all" is every possible one, and an empty list means the default."""
    shared = store == "nats"
    if "all" in named:
        left_out = {*(OF_FILES if shared else OF_NATS), *(() if tls else OF_TLS)}
        return tuple(name for name in FAULTS if name not in left_out)
    return tuple(named) or DEFAULT + (OF_TLS if tls else ()) + (("kill-receiver", *OF_NATS) if shared else ())


def demand_fault(name: str) -> None:
    """Raises InvalidOption, where no fault has this name."""
    if name not in (*FAULTS, "all", PROOF):
        raise InvalidOption(f"there is no fault {name!r}; known are {', '.join(FAULTS)}, all, {PROOF}")


@frozen
class PocOptions:
    """The options of a simulation. Raises InvalidOption, NotFound."""

    sites: int = option(3, "Number of sites.")
    logs: str | None = option(None, "Replay the logs in this directory.", path="existing")
    bytes: int | None = option(
        None, f"Bytes that each site writes.  [default: {SIZE}; with --seconds {RATE} a second]", unit="bytes"
    )
    seconds: float | None = option(
        None,
        "Write for this many seconds and repeat the faults in random order. By default each fault once.",
        unit="seconds",
    )
    tls: bool = option(
        False,
        "Use TLS with certificates that change, and add intruders. Needs pip install 'flarelog[tls]'.",
    )
    store: str = option(
        "local",
        "Where the receiver stores. nats: two receivers over three nats-servers.",
        choices=("local", "nats"),
    )
    faults: tuple[str, ...] = DEFAULT
    seed: int = option(1, "Seed of the logs' contents, their bursts, and the order of the faults.")

    def __post_init__(self) -> None:
        if not 1 <= self.sites <= 200:
            raise InvalidOption(f"sites must be from 1 to 200, not {self.sites}")
        if self.bytes is not None and self.bytes < 1:
            raise InvalidOption(f"bytes must be positive, not {self.bytes}")
        if self.seconds is not None and not 1 <= self.seconds <= 86400:
            raise InvalidOption(f"seconds must be from 1 to 86400, not {self.seconds:g}")
        if self.tls and self.shared:
            raise InvalidOption("--tls needs a single receiver with files: leave out --store nats")
        if self.logs is not None and not any(path.is_file() for path in Path(self.logs).rglob("*")):
            raise NotFound(f"there are no files to replay under {self.logs}")
        for name in self.faults:
            demand_fault(name)
            if name in OF_TLS and not self.tls:
                raise InvalidOption(f"the fault {name!r} needs certificates: add --tls")
            if name in OF_NATS and not self.shared:
                raise InvalidOption(f"the fault {name!r} needs nats-servers: add --store nats")
            if name in OF_FILES and self.shared:
                raise InvalidOption(f"the fault {name!r} needs a single receiver with files: leave out --store nats")

    @property
    def shared(self) -> bool:
        """Whether several receivers share a store on nats-servers."""
        return self.store == "nats"

    @property
    def moments(self) -> list[str]:
        """The faults that need a moment of their own."""
        return [name for name in FAULTS if name in self.faults and name not in DEFAULT]

    @property
    def length(self) -> float:
        """How many seconds the writers write."""
        return 5.0 + MOMENT[self.store] * len(self.moments) if self.seconds is None else self.seconds

    @property
    def size(self) -> int:
        """How many bytes each site writes, without those that a fault adds at the end."""
        if self.bytes is not None:
            return self.bytes
        return SIZE if self.seconds is None else int(self.seconds * RATE)

    @property
    def rotations(self) -> int:
        if "rotate" not in self.faults:
            return 0
        return 4 if self.seconds is None else max(1, min(20, int(self.seconds / 5)))

    @property
    def names(self) -> list[str]:
        return [f"site-{number}" for number in range(1, self.sites + 1)]
