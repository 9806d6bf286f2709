"""What came of one container, in files named as on a node: ``N.log`` of attempt N, after ``N.log.00000000-NUMBER``.

The files are the memory of the reader: a next process goes on after their last byte. A file is closed after SEGMENT
bytes, at a loss and at the end of its attempt; once it is stored it is removed, but for the newest two. What the names
cannot tell is in a record beside them, which is written before the file that it is about gets its name.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, BinaryIO

from flarelog.checksum import EMPTY_DIGEST, extend
from flarelog.replace import replace_file
from flarelog.sources.api.join import moment

SEGMENT = 16 << 20  # bytes
BURST = 256 << 10  # bytes: of a log that begins with so many in BURST_WITHIN ns, more may have been rotated before
BURST_WITHIN = 2_000_000_000
TAIL = 2 << 20  # bytes that tell where an answer goes on
_READ = 1 << 20
_RECORD = ".record"
_NAME = re.compile(r"(\d+)\.log(?:\.00000000-(\d{6}))?")
_KEPT = 2  # files that stay although they are stored
_TOLD = 300  # characters of the reasons of a gap
_MORE = "; and more"
_LATE = "late"  # the note of lines that came after later ones


class Kept:
    """The files in *directory*, which is made with the first byte; temporary files are in *scratch*."""

    def __init__(self, directory: Path, scratch: Path) -> None:
        self.directory, self.scratch = directory, scratch
        self.attempt: int | None = None  # the attempt that is written; None between two
        self.ended = -1  # the latest attempt that has ended; all before it have
        self.over = False  # no later attempt comes: the pod has ended
        self.early = False  # no file of the present attempt can have been rotated before its first byte was read
        self._next = 1  # the number of the file that is written, or will be
        self._gaps: dict[int, str] = {}  # by number: why bytes before the file are missing
        self._ends: dict[int, str] = {}  # by number: how the last file of an attempt ended
        self._notes: dict[int, str] = {}
        self._first = 1  # the number of the first file of the present attempt
        self._file = -1  # the descriptor of the file that is written
        self.size = 0  # bytes of that file
        self.length, self._crc = 0, EMPTY_DIGEST  # of the present attempt
        self._known = True  # these two are those of the files
        if directory.is_dir():
            self._load()

    # --- what is there

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.directory) if _NAME.fullmatch(name)]
        except FileNotFoundError:
            return []

    def _number(self, name: str) -> int:
        found = _NAME.fullmatch(name)
        return self._next if found is None or found[2] is None else int(found[2])

    def _files(self) -> list[Path]:
        """All files in the order of their bytes."""
        return [self.directory / name for name in sorted(self._names(), key=self._number)]

    def _of_attempt(self) -> list[Path]:
        return [path for path in self._files() if self._number(path.name) >= self._first]

    def tail(self) -> bytes:
        """The last bytes of the present attempt, from the beginning of a line on, without those that came late."""
        data, whole = b"", True
        for path in reversed([path for path in self._of_attempt() if self.note(path.name) != _LATE]):
            size = path.stat().st_size
            with open(path, "rb") as file:
                file.seek(max(0, size - TAIL))
                data = file.read() + data
            whole = size <= TAIL and self._number(path.name) == self._first
            if len(data) >= TAIL and b"\n" in data[:-1]:
                break
        return data if whole else data[data.find(b"\n") + 1 :]

    def lacks(self, log: BinaryIO, *, anywhere: bool = False) -> list[bytes]:
        """The lines of *log* that no kept file of the attempt has; without *anywhere*, those before the last stored
        line and after the first line that is in both.
        """
        have, last = set[int](), b""
        for path in self._of_attempt():
            with open(path, "rb") as file:
                for last in file:  # only LF ends a line
                    have.add(hash(last))
        found, seen = list[bytes](), anywhere
        log.seek(0)
        for line in log:
            if hash(line) in have:
                seen = True
                if line == last and not anywhere:
                    break
            elif seen:
                found.append(line)
        else:
            return found if anywhere else []  # the rest is no part of what came before the last line
        return found

    def begins(self, log: BinaryIO) -> bool:
        """Whether *log* begins with all bytes of the present attempt; then what follows them is read next."""
        length, crc = self.length, EMPTY_DIGEST
        log.seek(0)
        while self._known and length and (data := log.read(min(_READ, length))):
            crc, length = extend(crc, data), length - len(data)
        return self._known and not length and crc == self._crc

    @property
    def whole(self) -> bool:
        """Whether no byte of the present attempt is known to be lost."""
        return not any(number >= self._first for number in (*self._gaps, *self._notes))

    # --- writing

    def is_early(self) -> None:
        """No file of the present attempt was rotated before its first byte was read."""
        self.early = True
        self._save()

    def begin(self, attempt: int) -> None:
        """The next bytes are the first ones of *attempt*. Raises OSError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._first, self.early = self._next, False
        self.length, self._crc, self._known, self.size = 0, EMPTY_DIGEST, True, 0
        self._save()
        self._open(attempt)

    def append(self, data: bytes) -> None:
        """Raises OSError: some of *data* may be written."""
        try:
            while data:
                count = os.write(self._file, data)
                self.size += count
                before, self.length = self.length, self.length + count
                self._crc = extend(self._crc, data[:count])
                data = data[count:]
                if self.early and before < BURST <= self.length and not self._is_calm():
                    self.early = False
                    self._save()
        except OSError:
            self._known = False
            raise
        if self.size >= SEGMENT:
            self.cut()

    def _is_calm(self) -> bool:
        """Whether the first BURST bytes of the attempt took at least a while."""
        with open(self._of_attempt()[0], "rb") as file:
            first, last = moment(file.readline()), moment(file.read(BURST).rpartition(b"\n")[0].rpartition(b"\n")[2])
        return first is not None and last is not None and last - first >= BURST_WITHIN

    def cut(self, gap: str = "", note: str = "") -> None:
        """The next bytes of the attempt are in another file; *gap*: why bytes before them are missing."""
        if self.attempt is None:
            return
        if gap:
            self._gaps[self._next + (self.size > 0)] = gap
        if note:
            self._notes[self._next + (self.size > 0)] = note
        if not self.size:
            self._save()
            return
        self._save()
        self._open(self._close())

    def miss(self, why: str) -> None:
        """Bytes are missing before the next attempt, besides those that were missing before."""
        before = self._gaps.get(self._next, "")
        if len(before) < _TOLD:
            self._gaps[self._next] = f"{before}; {why}" if before else why
        elif not before.endswith(_MORE):
            self._gaps[self._next] = before + _MORE
        if self.directory.is_dir():
            self._save()

    def append_late(self, data: bytes) -> None:
        """Append *data*, which comes after later bytes. Raises OSError."""
        self.cut(note=_LATE)
        self.append(data)
        self.cut()

    def end(self, reason: str) -> None:
        """The present attempt has ended; *reason* as in ``Ended``, empty: all of it is here."""
        if self.attempt is None:
            return
        if reason:
            self._ends[self._next] = reason
        self.ended = self.attempt
        self._save()
        self._close()

    def is_over(self) -> None:
        """The pod has ended, and this was its last attempt."""
        if not self.over:
            self.over = True
            if self.directory.is_dir():
                self._save()

    def is_gone(self, reason: str) -> None:
        """The pod went while nobody looked; *reason* as in ``end``. Later attempts may have come and gone."""
        if self.attempt is None and not self.over:
            self.begin(self.ended + 1)
        self.end(reason)

    def pass_over(self, attempt: int) -> None:
        """There is nothing to be read of *attempt*, and of those before it."""
        self.ended = max(self.ended, attempt)
        if self.directory.is_dir():
            self._save()

    def _open(self, attempt: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self.directory / f"{attempt}.log", flags, 0o600)
        self.attempt, self.size = attempt, os.fstat(self._file).st_size

    def _close(self) -> int:
        """Give the file that is written the name of a finished one; returns its attempt."""
        self.close()
        attempt, self.attempt = self.attempt or 0, None
        os.rename(self.directory / f"{attempt}.log", self.directory / f"{attempt}.log.00000000-{self._next:06d}")
        self._next, self.size = self._next + 1, 0
        return attempt

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # --- what a reader of the files asks

    def sizes(self) -> dict[str, int]:
        """The sizes of all closed files, by name."""
        return {path.name: path.stat().st_size for path in self._files() if path.suffix != ".log"}

    def gap(self, name: str) -> str:
        return self._gaps.get(self._number(name), "")

    def ending(self, name: str) -> str:
        return "" if name.endswith(".log") else self._ends.get(self._number(name), "")

    def note(self, name: str) -> str:
        return self._notes.get(self._number(name), "")

    def remove(self, name: str) -> bool:
        """Remove a stored file, unless it is one of the newest; returns whether it is gone."""
        newest = [path.name for path in self._files()[-_KEPT:]]
        if name in newest:
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.directory / name)
        number = self._number(name)
        for said in (self._gaps, self._ends, self._notes):
            said.pop(number, None)
        return True

    def forget(self) -> None:
        """Remove everything."""
        self.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- the record

    def _save(self) -> None:
        said = {"ended": self.ended, "over": self.over, "early": self.early, "first": self._first}
        dicts = {"gaps": self._gaps, "ends": self._ends, "notes": self._notes}
        replace_file(self.directory / _RECORD, json.dumps(said | dicts).encode())

    def _load(self) -> None:
        said = self._read()
        names = self._names()
        self.ended, self.over, self.early = int(said.get("ended", -1)), bool(said.get("over")), bool(said.get("early"))
        self._first = int(said.get("first", 1))
        self._next = max([0, *(int(found[2]) for name in names if (found := _NAME.fullmatch(name)) and found[2])]) + 1
        for mine, key in ((self._gaps, "gaps"), (self._ends, "ends"), (self._notes, "notes")):
            mine.update({int(number): str(text) for number, text in said.get(key, {}).items()})
        if not names:
            return
        # A process may have ended before the file that it closed had its name, or before the next one was there.
        last = max(names, key=self._number)
        attempt = int(last.partition(".")[0])
        if attempt > self.ended:
            self._open(attempt)
            self._recount()
        elif last.endswith(".log"):
            self.attempt = attempt
            self._close()

    def _recount(self) -> None:
        """Take length and digest of the present attempt from its files, as far as all of them are there."""
        files = self._of_attempt()
        self._known = bool(files) and self._number(files[0].name) == self._first
        self.length = 0
        for path in files:
            with open(path, "rb") as file:
                while data := file.read(_READ):
                    self.length, self._crc = self.length + len(data), extend(self._crc, data)

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads((self.directory / _RECORD).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
