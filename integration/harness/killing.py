"""Plays in which a process is killed at one call, and every byte is compared afterwards.

Each play tells one story in a directory of its own: logs grow, rotate with an unread tail, are truncated once all of
their bytes are stored, appear and go, while the victim's processes are killed and others take over.
"""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from flarelog.extents import extents
from flarelog.model import Gap, Generation
from flarelog.sender.log import LOST
from flarelog.stores.local.journal import Journal, replay
from integration.harness.incarnations import NOBODY, PATIENCE, End, Kills
from integration.harness.places import SITE, append, difference, free_address, lines, noise

RUN = "run-1"


class Site:
    """The logs under *root*, and the expected content of *held*: bytes, and the lengths of generations."""

    def __init__(self, root: Path, held: Path) -> None:
        self.root, self.held = root, held
        self.written: dict[str, bytearray] = {}
        self.generations: dict[str, list[int]] = {}
        self._vouched: dict[str, int] = {}  # the bytes that an earlier comparison found committed
        self._lines = 0

    def __str__(self) -> str:
        return "\n".join(f"{log}, of {self.generations[log]}: {self.journal(log)}" for log in self.written)

    def grows(self, log: str, count: int = 20, data: bytes = b"") -> None:
        """Append *count* more lines, or *data*, to *log*, which is created if missing."""
        if not data:
            data = lines(count, self._lines)
            self._lines += count
        path = self.root / log
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written.setdefault(log, bytearray()).extend(data)
        generations = self.generations.setdefault(log, [])
        if not path.exists():
            generations.append(0)
        generations[-1] += len(data)
        append(path, data)

    def is_old(self, log: str) -> None:
        """Let *log* begin with lines that are not expected in the store."""
        self.grows(log)
        self.written[log].clear()
        self.generations[log][-1] = 0

    def rotates(self, log: str) -> None:
        """Rotate *log* with a tail that was just written, and so perhaps not read."""
        self.grows(log)
        path = self.root / log
        older = sorted(path.parent.glob(f"{path.name}.*"), key=lambda old: int(old.suffix[1:]), reverse=True)
        for old in older:
            os.replace(old, old.with_suffix(f".{int(old.suffix[1:]) + 1}"))
        os.replace(path, f"{path}.1")
        self.grows(log)

    def is_truncated(self, log: str) -> None:
        """Truncate *log*, whose bytes must all be stored: otherwise the expected bytes would be unknown."""
        os.truncate(self.root / log, 0)
        self.generations[log].append(0)
        self.grows(log, 7)

    def loses(self, log: str) -> bytes:
        """Spoil the journal of *log*: its stored bytes count for nothing from now on. Return those bytes."""
        data = (self.held / log).read_bytes()
        self._journal_path(log).write_bytes(b"spoilt\n")
        self._vouched.pop(log, None)
        return data

    def forget_vouched(self) -> None:
        """Expect fewer committed bytes than at earlier comparisons."""
        self._vouched.clear()

    # --- the store

    def _journal_path(self, log: str) -> Path:
        path = self.held / log
        return path.with_name(f".{path.name}.journal")

    def journal(self, log: str) -> Journal:
        try:
            return replay(self._journal_path(log).read_bytes())
        except FileNotFoundError:  # the journal does not exist while it is set aside
            return Journal()

    def is_stored(self) -> bool:
        for log, wanted in self.written.items():
            try:
                length = (self.held / log).stat().st_size
            except FileNotFoundError:  # the file does not exist yet, or was just set aside
                return False
            if length != len(wanted) or self.journal(log).committed != len(wanted):
                return False
        return True

    def is_known(self, log: str) -> bool:
        """Whether the receiver knows the log's newest file."""
        marks = self.journal(log).marks
        return sum(isinstance(mark, Generation) for mark in marks) == len(self.generations[log])

    def compare(self) -> None:
        """Assert that committed bytes are a prefix of the written ones, and that no committed byte has gone."""
        for log, wanted in self.written.items():
            try:
                data = (self.held / log).read_bytes()
            except FileNotFoundError:  # the file does not exist yet, or was just set aside
                data = b""
            lengths = self.journal(log).lengths
            while lengths and not (
                lengths[-1][0] <= len(data) and zlib.crc32(data[: lengths[-1][0]]) == lengths[-1][1]
            ):
                lengths.pop()
            held = lengths[-1][0] if lengths else 0
            assert data[:held] == wanted[:held], f"{log}: {difference(bytes(wanted[:held]), data[:held])}"
            before = self._vouched.get(log, 0)
            assert held >= before, f"{log}: {before} bytes were held before the kill, {held} after it"
            self._vouched[log] = held

    def is_complete(self) -> None:
        """Assert that everything is stored and sealed, in its generations, without a gap."""
        self.compare()
        for log, wanted in self.written.items():
            journal, data = self.journal(log), (self.held / log).read_bytes()
            assert data == wanted, f"{log}: {difference(bytes(wanted), data)}"
            assert (journal.committed, journal.sealed) == (len(wanted), True), f"{log}: {journal}"
            assert not [mark for mark in journal.marks if isinstance(mark, Gap)], f"{log}: {journal.marks}"
            found = [extent.length for extent in extents(journal.marks, journal.committed)]
            assert found == self.generations[log], f"{log}: generations of {found}, not {self.generations[log]}"
        logs = {path.relative_to(self.held).as_posix() for path in self.held.rglob("[!.]*") if path.is_file()}
        assert logs == set(self.written)


class Play:
    """A site, and two ends that survive kills. *kills*: those of each end, by its name."""

    def __init__(self, directory: Path, kills: dict[str, Kills]) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.address = free_address()
        self.serving: tuple[str, ...] = ()  # options of the receiver
        self.sending: tuple[str, ...] = ()  # options of the sidecar
        self._draining = False
        self.receiver = End(directory, "receiver", self._serve, kills.get("receiver", NOBODY))
        self.sidecar = End(directory, "sidecar", self._send, kills.get("sidecar", NOBODY))
        self.site = Site(directory / "site", self.store / RUN / SITE)
        self.site.root.mkdir(parents=True)
        self.receiver.on_kill = self.sidecar.on_kill = self.site.compare

    def _serve(self) -> list[str]:
        ready = str(self.receiver.ready_file)
        return ["serve", "--store", str(self.store), "--listen", self.address, "--ready-file", ready, *self.serving]

    def _send(self) -> list[str]:
        where = ("--receiver", self.address, "--run", RUN, "--site", SITE, "--root", str(self.site.root))
        return ["sidecar", *where, *self.sending, *(["--once"] if self._draining else [])]

    def close(self) -> None:
        self.receiver.close()
        self.sidecar.close()

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for *condition*, at most PATIENCE seconds after the latest kill: each kill costs a process's start."""
        lived, deadline = 0, 0.0
        while True:
            for end in (self.receiver, self.sidecar):
                end.tend()
                assert end.code in (None, 0), f"{end}\n{self.site}"
            if condition():
                return
            if self.receiver.incarnation + self.sidecar.incarnation > lived:
                lived, deadline = self.receiver.incarnation + self.sidecar.incarnation, time.monotonic() + PATIENCE
            assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {what}\n{self.receiver}\n{self.sidecar}"
            time.sleep(0.02)

    def stored(self) -> None:
        self.until(self.site.is_stored, "everything is stored")

    # --- steps

    def begins(self) -> None:
        self.site.grows("app.log")
        self.site.grows("rank-0/err.log")
        self.site.grows("big.log", data=noise(2_300_000))
        self.stored()

    def goes_on(self) -> None:
        """Grow, rotate and truncate logs."""
        self.site.grows("rank-0/err.log")
        self.site.rotates("app.log")
        self.stored()
        self.site.is_truncated("rank-0/err.log")
        self.stored()

    def comes_to_its_end(self) -> None:
        """Rotate again, delete a rotated file, and create a late log."""
        site = self.site
        site.rotates("app.log")
        site.grows("rank-1/late.log")
        self.until(lambda: site.is_stored() and site.is_known("app.log"), "the third generation is stored")
        (site.root / "app.log.2").unlink()
        site.grows("big.log", 300)

    def drains(self) -> None:
        """End the sidecar by SIGTERM; after a kill its successor sends the rest."""
        self._draining = True
        self.sidecar.tell(signal.SIGTERM)
        self.until(lambda: self.sidecar.code is not None, "the sidecar ends")

    def drains_and_goes_on(self) -> None:
        """Drain, and start the next sidecar."""
        self.drains()
        self.site.compare()
        self._draining = False
        self.sidecar.start()

    def receiver_stalls(self) -> None:
        self.receiver.tell(signal.SIGSTOP)
        time.sleep(0.5)
        self.receiver.tell(signal.SIGCONT)

    def store_is_restored(self, log: str) -> None:
        """Replace the store by an earlier copy, after *log* was rotated; no log may be truncated in between."""
        copy = self.directory / "backup"
        self.receiver_stops()
        shutil.copytree(self.store, copy, ignore=shutil.ignore_patterns(".lock*"))
        self.receiver.start()
        self.site.rotates(log)
        self.stored()
        self.receiver_stops()
        shutil.rmtree(self.store)
        copy.rename(self.store)
        self.site.forget_vouched()
        self.receiver.start()

    def operator(self, command: str) -> None:
        """Repeat a command until it succeeds."""
        operator = End(self.directory, f"operator-{command}", lambda: [command, RUN, "--receiver", self.address])
        while operator.code != 0:
            operator.start()
            self.until(lambda: operator.has_died() or operator.code is not None, f"{command} ends")

    def run_ends(self) -> None:
        self.operator("run-end")
        self.until(lambda: self.sidecar.code is not None, "the sidecar ends")
        journal = self.store / RUN / ".run.journal"
        while b'"ended"' not in journal.read_bytes():
            self.operator("run-end")  # a receiver that was killed in between waits for the command again

    def receiver_stops(self) -> None:
        self.until(lambda: self.receiver.ready_file.exists(), "the receiver is ready")  # in whichever incarnation
        self.receiver.tell(signal.SIGTERM)
        self.receiver.stops()

    def is_complete(self) -> None:
        self.site.is_complete()
        for end in (self.receiver, self.sidecar):
            end.behaved()


# --- stories


def of_the_sidecar(play: Play) -> None:
    play.receiver.start()
    play.site.grows("app.log")
    play.sidecar.start()
    play.begins()
    play.goes_on()
    play.comes_to_its_end()
    play.drains()
    play.is_complete()
    assert LOST not in play.sidecar.said(), play.sidecar


def with_a_checkpoint(play: Play) -> None:
    play.sending = ("--state", str(play.directory / "state"))
    of_the_sidecar(play)


def while_names_move(play: Play) -> None:
    """Rotate the log after each death of the sidecar, with an unread tail, before the next one looks."""
    site = play.site

    def rotated() -> None:
        site.compare()
        if "app.log" in site.written:
            site.rotates("app.log")

    play.sidecar.on_kill = rotated
    of_the_sidecar(play)


def from_the_end(play: Play) -> None:
    """With --start-at end only later bytes are wanted; at first the checkpoint alone tells them from earlier ones."""
    site, state = play.site, play.directory / "state"
    play.sending = ("--state", str(state), "--start-at", "end")
    logs = ("app.log", "rank-0/err.log")
    for log in logs:
        site.is_old(log)
    play.receiver.start()
    play.sidecar.start()
    play.until(lambda: any(path.suffix == ".json" for path in state.glob("*")), "the checkpoint is saved")
    for log in logs:
        site.grows(log)
    play.stored()
    play.goes_on()
    site.rotates("app.log")
    play.stored()
    play.drains()
    play.is_complete()


def of_the_receiver(play: Play) -> None:
    """The restarted receiver finds the traces of a crash, and of misuse."""
    site = play.site
    play.serving += ("--announced-runs-only",)
    play.receiver.start()
    play.operator("run-start")
    play.sidecar.start()
    site.grows("spoilt.log")
    play.begins()
    play.goes_on()
    play.receiver_stops()
    append(site.held / "app.log", b"written, but never committed")
    append(site.held / "rank-0/.err.log.journal", b'0badc0de {"t":"leng')
    spoilt = site.loses("spoilt.log")
    play.receiver.start()
    play.comes_to_its_end()
    play.sidecar.tell(signal.SIGKILL)
    play.stored()
    play.run_ends()
    play.receiver_stops()
    play.is_complete()
    aside = [path.read_bytes() for path in site.held.glob(".spoilt.log.quarantine.*") if path.suffix != ".old-journal"]
    assert [data for data in aside if data] == [spoilt], aside
    for line in play.sidecar.said().splitlines():
        assert LOST not in line or "spoilt.log" in line, line


def in_memory(play: Play) -> None:
    play.serving = ("--durability", "memory")
    of_the_receiver(play)


def at_random(play: Play, seed: int) -> None:
    """Both ends die in turn by *play*'s kills, while random changes happen to the logs."""
    site, chance = play.site, random.Random(seed)
    site.grows("0.log")  # a sidecar that drains again after a kill ends with 3 where there is no log
    play.receiver.start()
    play.sidecar.start()

    def deaths() -> int:
        return play.receiver.incarnation + play.sidecar.incarnation

    deadline, rare = time.monotonic() + 4 * PATIENCE, ("drains", "stalls", "restored")
    while play.receiver.is_doomed or play.sidecar.is_doomed:
        assert time.monotonic() < deadline, f"a kill did not come about\n{play.receiver}\n{play.sidecar}"
        before, log = deaths(), f"{chance.randrange(4)}.log"
        died_or_stored = functools.partial(lambda before: deaths() > before or site.is_stored(), before)
        match chance.choice(("grows", "grows", "grows", "rotates", "rotates", "is truncated", *rare)):
            case "rotates" if log in site.written and site.is_known(log):
                site.rotates(log)
            case "is truncated" if log in site.written and site.is_known(log) and site.is_stored():
                site.is_truncated(log)
                play.stored()  # bytes that are truncated before a look are lost
            case "drains":
                play.drains_and_goes_on()
            case "stalls":
                play.receiver_stalls()
            case "restored" if log in site.written and site.is_known(log):
                play.store_is_restored(log)
            case _:
                site.grows(log, int(10 ** chance.uniform(0, 3)))
        if chance.random() < 0.7:
            play.until(died_or_stored, "it is stored")
    play.stored()
    play.run_ends()
    play.receiver_stops()
    play.is_complete()
