"""A site whose names move while a sidecar looks: between any two of its system calls.

The writer rotates before the calls whose numbers a plan holds, so a seed decides when. The judge is the written bytes:
the stream is the generations in the order of their births, each once.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flarelog.sources.files import discovery, file, identity, owner, record, walk
from flarelog.sources.files.discovery import Discovery
from flarelog.sources.files.watch import InotifyWatch
from tests.sources.files.tailing import NoWatch, Site

LOG = "log.txt"
_MODULES: tuple[Any, ...] = (discovery, file, identity, owner, record, walk)


class Calls:
    """Wraps ``os`` and the C library in the modules of the sources, and lets the writer act between calls."""

    def __init__(self) -> None:
        self.made = 0
        self.due: list[int] = []  # numbers of calls before which the writer acts
        self.act: Callable[[], None] | None = None
        self._acting = False
        self._before = [(module, module.os) for module in _MODULES]
        self._libc = identity.libc
        for module in _MODULES:
            module.os = _Os(self)
        identity.libc = _Library(self, identity.libc)  # type: ignore[assignment]

    def close(self) -> None:
        for module, before in self._before:
            module.os = before
        identity.libc = self._libc

    def enter(self) -> None:
        self.made += 1
        while self.due and self.due[0] <= self.made and not self._acting and self.act is not None:
            self.due.pop(0)
            self._acting = True
            try:
                self.act()
            finally:
                self._acting = False


class _Os:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name == "scandir":
            return self._scandir
        if not callable(found) or isinstance(found, type):
            return found

        def called(*args: Any, **named: Any) -> Any:
            self._calls.enter()
            return found(*args, **named)

        return called

    def _scandir(self, path: str) -> Any:
        self._calls.enter()
        return _Entries(self._calls, os.scandir(path))


class _Entries:
    def __init__(self, calls: Calls, real: Any) -> None:
        self._calls, self._real = calls, real

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self._real.close()

    def __iter__(self) -> Iterator[Any]:
        for entry in self._real:
            self._calls.enter()
            yield _Entry(self._calls, entry)


class _Entry:
    def __init__(self, calls: Calls, real: Any) -> None:
        self._calls, self._real = calls, real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def called(*args: Any, **named: Any) -> Any:
            self._calls.enter()
            return found(*args, **named)

        return called


class _Library:
    def __init__(self, calls: Calls, real: Any) -> None:
        self._calls, self._real = calls, real

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)

        def called(*args: Any) -> Any:
            self._calls.enter()
            return found(*args)

        return called


class Storm:
    """One site, its writer, and one sidecar after the other."""

    def __init__(
        self, root: Path, seed: int, *, names: str = "numbers", include: str = LOG, inotify: bool = True, old: int = 0
    ) -> None:
        self.chance = random.Random(seed)
        self.names, self.inotify = names, inotify
        self.matches_old = include != LOG
        self.root = root
        (root / "old").mkdir(parents=True)
        self.written: list[bytes] = []  # by generation
        self.before: list[bytes] = []  # generations that no sidecar saw under the log's name
        self._dates = self._generations = 0
        for _ in range(old):
            self.write()
            self.rotate()
        self.before, self.written = self.written, []
        self.write()
        self.site = Site(root, include=(include,))
        self.site.clock = self.chance.choice((None, 0, 60_000))  # 60,000 ms: every rotated file counts as older
        self.site.discovery.close()
        self._discover()
        self.calls = Calls()
        self.calls.act = self.act

    def close(self) -> None:
        self.calls.close()
        self.site.close()

    def _discover(self) -> None:
        self.site.discovery = Discovery(self.site.options, InotifyWatch() if self.inotify else NoWatch())

    # --- the writer

    def write(self) -> None:
        """Write a new generation, or append to the present one."""
        path = self.root / LOG
        fresh = not path.exists() or not path.stat().st_size
        data = b"".join(
            b"generation %d line %d\n" % (self._generations + fresh, n) for n in range(self.chance.randint(1, 9))
        )
        with open(path, "ab") as log:
            log.write(data)
        if fresh:
            self._generations += 1
            self.written.append(data)
            if self.names == "linked":
                link = self.root / f"second-{self._generations % 3}.txt"
                link.unlink(missing_ok=True)
                link.hardlink_to(path)
        else:
            self.written[-1] += data

    def rotate(self) -> None:
        match self.names:
            case "numbers":
                there = sorted((int(p.name.rpartition(".")[2]) for p in self.root.glob(f"{LOG}.*")), reverse=True)
                for number in there:
                    os.rename(self.root / f"{LOG}.{number}", self.root / f"{LOG}.{number + 1}")
                os.rename(self.root / LOG, self.root / f"{LOG}.1")
            case "dates" | "linked":
                self._dates += 1
                os.rename(self.root / LOG, self.root / f"{LOG}.2026-11-22_{self._dates:06d}")
            case "inner-dates":
                self._dates += 1
                os.rename(self.root / LOG, self.root / f"log-20261122-{self._dates:06d}.txt")
            case "olddir":
                self._dates += 1
                os.rename(self.root / LOG, self.root / "old" / f"{LOG}-20261122{self._dates:06d}")
            case "kept":  # three backups are kept, and older ones deleted
                for number in (2, 1, 0):
                    old = self.root / (f"{LOG}.{number}" if number else LOG)
                    if old.exists():
                        os.replace(old, self.root / f"{LOG}.{number + 1}")
            case "copytruncate":
                for number in (2, 1):
                    if (self.root / f"{LOG}.{number}").exists():
                        os.replace(self.root / f"{LOG}.{number}", self.root / f"{LOG}.{number + 1}")
                shutil.copy(self.root / LOG, self.root / f"{LOG}.1")
                os.truncate(self.root / LOG, 0)
            case _:
                raise AssertionError(self.names)

    def act(self) -> None:
        """Let the writer act between two calls of the sidecar, sometimes several times."""
        for _ in range(self.chance.choice((1, 1, 1, 4))):
            self._act_once()

    def _act_once(self) -> None:
        if self.chance.random() < 0.8:
            self.rotate()
        if self.chance.random() < 0.9:
            self.write()
            if self.chance.random() < 0.5:
                self.write()
        elif self.names != "copytruncate":
            (self.root / LOG).touch()
            self._generations += 1
            self.written.append(b"")

    # --- the sidecar

    def restart(self) -> None:
        """Start a sidecar, which reads the record and sends for a while as names move."""
        site = self.site
        site.cut()
        site.discovery.close()
        for _ in range(self.chance.choice((0, 0, 1, 2, 4))):
            self.act_at_rest()
        self._discover()
        start = self.calls.made
        self.calls.due = sorted(start + int(10 ** self.chance.uniform(0, 3)) for _ in range(self.chance.randint(0, 4)))
        if self.chance.random() < 0.6:
            site.look()
        site.discovery.learn(site.record(), site.now)
        for _ in range(self.chance.randint(0, 4)):
            self.go_on()
        self.calls.due = []

    def act_at_rest(self) -> None:
        if (self.root / LOG).exists():
            self.rotate()
        self.write()

    def go_on(self) -> None:
        site = self.site
        if self.inotify and self.chance.random() < 0.7:
            changes = site.discovery.watch.ready()
            if changes:
                site.discovery.apply(changes, site.now)
        else:
            site.look()
        site.pump(limit=self.chance.choice((1, 3, 100)))
        for name in list(site.discovery.tails):
            if name in site.stored:
                site.arrive(name, self.chance.choice((0, 1, 100)))
        site.now += self.chance.choice((0.01, 0.3, 1.0))

    def end(self) -> None:
        self.calls.due = []
        self.site.settle()
        self.site.settle()

    def trouble(self) -> str:
        """A sentence about wrong bytes in the store; empty: all are right."""
        found = self.site.content(LOG)
        wanted = b"".join(self.written)
        others = sorted(name for name in self.site.stored if name != LOG)
        if (
            self.matches_old and self.names == "olddir"
        ):  # no name tells that earlier files of that directory are the log's
            if [self.site.content(name) for name in others] == self.before:
                others = []
        elif self.matches_old:  # the pattern matches the earlier rotated files, too
            wanted = b"".join(self.before) + wanted
        if self.names in ("kept", "copytruncate"):  # unseen bytes may be lost, but never repeated or reordered
            lines, at = found.splitlines(keepends=True), 0
            for line in lines:
                at = wanted.find(line, at) + 1
                if not at:
                    return f"{line!r} is there twice, or behind a later one"
            return f"others: {others}" if others and self.names == "kept" else ""
        if found == wanted and not others:
            return ""
        of = [line.split()[1] for line in found.splitlines() if line.startswith(b"generation")]
        order = [int(n) for n, before in zip(of, [b"", *of], strict=False) if n != before]
        return f"{order} of {len(self.written)}; others: {sorted(others)}"
