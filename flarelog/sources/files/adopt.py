"""The adoption of the receiver's record: which file belongs to which log, and where each log continues.

The record is the authority. It is applied before anything is sent, and again whenever it may differ from the acks.
Files that left the patterns while no sidecar ran are searched for under the whole root.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass

from flarelog.model import CANNOT_BE_READ, Generation, StreamInfo
from flarelog.sources.files.copies import COPY_NAMES, Copies, Rest
from flarelog.sources.files.descriptors import Descriptors
from flarelog.sources.files.file import SourceFile
from flarelog.sources.files.identity import Sight, inode, same, witness
from flarelog.sources.files.ledger import Ledger
from flarelog.sources.files.lineage import born_of, compare, names_of, order, originals
from flarelog.sources.files.links import outside
from flarelog.sources.files.owner import Owner, is_part
from flarelog.sources.files.record import (
    Held,
    Piece,
    alike,
    holds,
    in_order,
    may_have_grown,
    not_compared,
    settled_on,
    shipped,
    wholes,
)
from flarelog.sources.files.stored import Stored
from flarelog.sources.files.tail import Tail
from flarelog.sources.files.walk import Look, Walk, directory_of
from flarelog.text import legible
from flarelog.values import changed

# Bytes of the largest copy that is unpacked although no pattern matches it: nothing is sent meanwhile.
UNPACKED = 128 << 20
SEARCHES = 100  # searches for rotated files whose names move; later ones follow after a pause


@dataclass(slots=True)
class Adoption:
    """Brings the files of *ledger* in line with the record."""

    walk: Walk
    ledger: Ledger
    owner: Owner
    copies: Copies
    stored: Stored
    descriptors: Descriptors

    def adopt(self, streams: Iterable[StreamInfo]) -> None:
        """Drop the compressed copies of what the receiver holds; once, before anything is sent."""
        streams = self._as_called_now(streams)
        for info in streams:
            self.copies.hold(wholes(info))
        held = {key for info in streams for key in in_order(info)}
        for tail in list(self.ledger.tails.values()):
            for file in list(tail.files):
                sent = (known for _, known in self.ledger.known.values())
                if file.identity not in held and self.copies.judge(file, sent):  # found before the record was known
                    self.copies.note(file)
                    self._drop(tail, file)

    def _claim(self, streams: Iterable[StreamInfo]) -> None:
        """Give each file of which nothing was sent to the log under which the receiver holds it."""
        ledger = self.ledger
        for info in streams:
            for tail, file in [ledger.known[key] for key in in_order(info) if key in ledger.known]:
                if tail.log == info.stream.path or file.begun or file.identity in tail.begun or file not in tail.files:
                    continue
                ledger.take_out(tail, file)
                other = ledger.tail(info.stream.path)
                other.files.insert(0, file)
                ledger.know(other, file)

    def resume(self, streams: Iterable[StreamInfo], now: float, *, first: bool) -> None:
        """Let each log in the record continue where the record ends; *first*: nothing was sent yet."""
        ledger = self.ledger
        infos = {info.stream.path: info for info in self._as_called_now(streams)}
        for tail, file in ledger.known.values():
            if tail.log in infos:  # the file's bytes may have to be sent again
                self.descriptors.rise(tail, file, file.path)
        self._find_released(infos.values(), now)
        if self._find_moved(infos.values(), now):
            infos = {info.stream.path: info for info in self._as_called_now(infos.values())}
        self._claim(infos.values())
        ledger.miss({name: shipped(info) for name, info in infos.items()})
        if first and infos.keys() - ledger.tails.keys():
            for name in self._beside() & infos.keys():
                ledger.tail(name)
        rests = self._compressed(infos.values(), now) if first else {}
        for name, info in infos.items():
            rest = rests.get(name)
            if name in ledger.tails or (rest is not None and rest.length):
                self._go_on(ledger.tail(name), info, rest)

    def _beside(self) -> set[str]:
        """The logs of which the known files may be generations, by their names. At this moment no file may have the
        log's own name, and none may be one that the receiver holds.
        """
        known = [file for _, file in self.ledger.known.values() if not is_part(file, file.path)]
        return {name for file in known for name in originals(file.path)}

    def _compressed(self, infos: Iterable[StreamInfo], now: float) -> dict[str, Rest]:
        """By log: the end of the last generation in the record, whose file is gone or was truncated, as its compressed
        copy shows it. The copy is no log, and none that the receiver holds; no pattern need match it.
        """
        held = {key for info in infos for key in in_order(info)}
        known, found, open_ended = self.ledger.known, dict[str, Rest](), dict[str, tuple[StreamInfo, str, Piece]]()
        for info in infos:
            identity, piece = next(reversed(shipped(info).items()), ("", None))
            if piece is None or piece.closed is not None or not self.owner.matches(info.stream.path):
                continue
            if identity not in known or settled_on(known[identity][1], piece) is None:
                open_ended[info.stream.path] = info, identity, piece
        places = set(map(directory_of, open_ended))
        beside = [path for place in places for path in self.walk.named(place, COPY_NAMES, UNPACKED)]
        for log, copies in self.copies.of(open_ended, beside).items():
            info, identity, piece = open_ended[log]
            whole = next((whole for whole in reversed(wholes(info)) if whole.identity == identity), None)
            if whole is None or whole.length != piece.source_end:
                continue
            for path in copies:
                length = self._length_behind(path, held, whole, piece, now)
                if length is not None:
                    found[log] = Rest(path, length)
                    break
        return found

    def _length_behind(self, path: str, held: set[str], whole: Held, piece: Piece, now: float) -> int | None:
        """How many bytes the file at *path* has after *whole*, which *piece* ends, None if it is no copy; drop the file
        if there are any.
        """
        with contextlib.suppress(OSError), self.descriptors.open(path, now) as file:
            length = self.copies.rest(file, whole, born_of(piece.begin.notes)) if file.identity not in held else None
            if length:
                self.copies.note(file)
                if file.identity in self.ledger.known:
                    self._drop(*self.ledger.known[file.identity])
            return length
        return None

    def _drop(self, tail: Tail, file: SourceFile) -> None:
        """Remove *file*, of which nothing was sent, from *tail* and from the ledger."""
        self.ledger.take_out(tail, file)
        self.ledger.forget(file)
        self.ledger.remembered[file.identity] = tail.log, file.start
        file.close()

    def _go_on(self, tail: Tail, info: StreamInfo, rest: Rest | None) -> None:
        held = in_order(info)
        for file in tail.files:
            if file.start and held and file.identity not in held:
                file.start = 0  # a generation that came while no sidecar ran, not an old file
        # Bytes that the receiver has lost are sent again in the order in which they were first sent.
        before = in_order(changed(info, marks=tuple(tail.marks)))
        order = {key: place for place, key in enumerate(held | before)}
        tail.files.sort(key=lambda file: order.get(file.identity, len(order)))
        was_stopped = bool(tail.stopped)
        try:
            tail.resume(info, rest)
            if was_stopped:
                self.walk.troubles.over(tail.log)
        except OSError as error:
            why = not_compared(error)
            tail.stop(info, why)
            full = os.path.join(self.walk.root, tail.log)
            self.walk.troubles.tell(tail.log, f"{legible(full)}{CANNOT_BE_READ}{why}")
        except Exception as error:
            tail.failed = error

    def reunite(self) -> None:
        """Give files that were rotated while no sidecar ran to their logs, now that the record says what is sent of
        those logs: files taken for logs of their own, files outside the patterns, and files queued too early.
        """
        owner, tails, early = self.owner, self.ledger.tails, self.owner.early
        owner.passed.clear()
        look = Look(born={file.path: file.born for _, file in self.ledger.known.values() if file.linked})
        for tail in list(tails.values()):
            since = owner.since(tail) if tail.newest is not None else None
            for file in [file for file in tail.files if not file.begun and file.identity not in tail.begun]:
                name = tail.log
                if is_part(file, file.path):
                    continue
                if since is None:
                    name = owner.by_name(file.path, file.sight(), look) or name
                    name = tail.log if name in tails and owner.is_twin(file, tails[name]) else name
                elif file.path != name and owner.matches(file.path):
                    none = compare(name, file.age, since) < 0 or owner.is_twin(file, tail)
                    if none and not owner.names_log(file.path):  # rotated behind a link, before the sent bytes
                        self._drop(tail, file)
                        continue
                    name = file.path if none else name
                elif file.path != name and file.identity in early and compare(name, file.age, since) < 0:
                    self._drop(tail, file)  # written to since the start, and rotated before the sent bytes
                    continue
                if name != tail.log:
                    self._pass_on(file, tail, name)
            if not (tail.files or tail.marks or tail.unreadable):
                tails.pop(tail.log, None)
        for tail in tails.values():
            tail.set_in_order()

    def _pass_on(self, file: SourceFile, tail: Tail, name: str, start: int = 0) -> None:
        """Move *file*, of which nothing was read, from *tail* to the log *name*, to be read from *start* on."""
        self.ledger.take_out(tail, file)
        other = self.ledger.tail(name)
        file.found_as, file.start = name, start
        file.start_at(start)
        self.ledger.know(other, file)
        other.insert(file)

    def _as_called_now(self, infos: Iterable[StreamInfo]) -> list[StreamInfo]:
        """*infos* with the current identities of their files; see identity.same and record.alike."""
        infos, known = list(infos), self.ledger.known
        unknown = [in_order(info).keys() - known.keys() for info in infos]
        if not any(unknown):
            return infos
        by_inode: dict[int, list[str]] = {}
        for key, (_, file) in known.items():
            by_inode.setdefault(file.is_of[1], []).append(key)
        recorded_all = {key for info in infos for key in in_order(info)}
        unsure = [file for _, file in known.values() if file.born is None and file.identity not in recorded_all]
        called = []
        for info, keys in zip(infos, unknown, strict=True):
            names = {}
            for recorded in keys:
                found = next((key for key in by_inode.get(inode(recorded)[1], ()) if same(recorded, key)), None)
                if found is not None:
                    names[recorded] = found
            unsure = [file for file in unsure if file.identity not in names.values()]
            left = keys - names.keys()
            if unsure and left:
                names.update(alike(info, left, self._may_be_of(info.stream.path, unsure)))
            if names:
                marks = (
                    changed(mark, identity=names.get(mark.identity, mark.identity))
                    if isinstance(mark, Generation)
                    else mark
                    for mark in info.marks
                )
                info = changed(info, marks=tuple(marks))
            called.append(info)
        return called

    def _may_be_of(self, log: str, files: Iterable[SourceFile]) -> list[SourceFile]:
        """Those of *files* that are known as generations of *log*, or have its name or a rotation of it, in order."""
        known = self.ledger.known
        found = [
            file for file in files if known[file.identity][0].log == log or file.path == log or names_of(log, file.path)
        ]
        key = order(log)
        return sorted(found, key=lambda file: key(file.age))

    def _find_released(self, infos: Iterable[StreamInfo], now: float) -> None:
        """Open the files that were closed after the receiver had stored them, if it has lost their bytes: only a file
        that is gone is a loss, and names may move at any time.

        Raises OSError if such a file is there and cannot be opened now.
        """
        tails = self.ledger.tails
        wanted = {
            key: tails[name] for info in infos if (name := info.stream.path) in tails for key in tails[name].lacks(info)
        }
        for _ in range(SEARCHES):
            for path in self.walk.with_inodes({inode(key)[1] for key in wanted}) if wanted else ():
                try:
                    if not self._open_released(path, wanted, now):
                        break
                except PermissionError:
                    continue
                except FileNotFoundError:
                    break
            else:
                return
        raise OSError(errno.EAGAIN, "rotated files are renamed again and again")

    def _open_released(self, path: str, wanted: dict[str, Tail], now: float) -> bool:
        """Open the file at *path* if it is *wanted*, and remove it from *wanted*; False if the wanted file may have
        another path by now. Raises OSError.
        """
        ledger, file = self.ledger, self.descriptors.open(path, now)
        alike = [key for key in wanted if inode(key)[1] == file.is_of[1]]
        key = next((key for key in alike if same(key, file.identity)), None)
        if key is None or key in ledger.known or self.descriptors.scarce(file):
            file.close()
        if key is None:
            for other in alike:
                del wanted[other]  # its inode has become another file's
            return bool(alike)
        tail = wanted[key]
        if key in ledger.known:
            file = ledger.known[key][1]
            self.descriptors.rise(tail, file, path)
            if file.fd < 0 and path not in self.descriptors.waiting:
                return False
        elif file.fd >= 0:
            tail.take_back(file)
            file.linked, file.start = False, tail.first_of(key)
            ledger.know(tail, file)
            ledger.move(file, path)
            tail.files.insert(0, file)
        if file.fd < 0:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        del wanted[key]
        return True

    def _find_moved(self, infos: Iterable[StreamInfo], now: float) -> bool:
        """Find the files that left the patterns and may have grown; returns whether there are any."""
        ledger = self.ledger
        wanted: dict[int, list[tuple[str, str, Piece]]] = {}
        for info in infos:
            missed = [key for key in may_have_grown(info) if key not in ledger.known]
            pieces = shipped(info) if missed else {}
            for key in missed:
                wanted.setdefault(inode(key)[1], []).append((key, info.stream.path, pieces[key]))
        found_any = False
        for path, found, _ in self.walk.entries(None, set(), set(), lambda _: True, {}) if wanted else ():
            likely = wanted.get(found.is_of[1], [])
            likely = likely and [claim for claim in likely if self.owner.may_prove(path, claim[1])]
            if not likely:
                holder = self.stored.holder(found) if isinstance(found, Sight) else None
                if holder is not None:
                    ledger.stray(holder, path)  # unknown files beside it are judged later
                continue
            try:
                file = self.descriptors.open(path, now)
            except OSError:
                continue
            proved = (log for key, log, piece in likely if self._is(file, path, log, key, piece))
            name = next(proved, None)
            if name is None or file.identity in ledger.known:
                file.close()
                continue
            file.linked = False
            file.found_as = name
            tail = ledger.tail(name)
            ledger.know(tail, file)
            ledger.move(file, path)
            tail.files.insert(0, file)
            found_any = True
        return found_any

    def _is(self, file: SourceFile, path: str, log: str, key: str, piece: Piece) -> bool:
        """Whether *file*, at *path* and with the inode of *key*, is that generation of *log*, which *piece* ends."""
        named = self.owner.may_be(path, log, key)
        if same(key, file.identity):
            return named or self._proves(file, path, piece)
        return named and file.born is None and holds(file, piece)  # its handle may have changed: see ledger.found_again

    def _proves(self, file: SourceFile, path: str, piece: Piece) -> bool:
        """Whether *file*, whose name *path* is no rotation's, is the generation of *piece*: it has the record's bytes,
        and the handle or birth time, which a receiver learns only from who sent the file.
        """
        begin = piece.begin
        known = witness(begin.identity) and born_of(begin.notes) in (None, file.born)
        return bool(known) and not outside(path) and self.owner.options.permits(path) and holds(file, piece)
