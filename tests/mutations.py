"""Whether the suite would notice: each mutant breaks one law in one place, and ``tests/`` must fail.

``python -m tests.mutations`` prints what was broken, how long it took, and which test saw it first; it ends with 1 if
a mutant survives. A snippet that is not found exactly once ends the whole with a sentence, so that the table follows
the code. What a mutant says of itself is the law that it breaks. ``python -m tests.mutations WORD...`` tries those
whose name has one of the words.

A test that takes much longer than it does without any mutation hangs, and counts as one that fails.
"""

from __future__ import annotations

import compileall
import gc
import importlib
import json
import os
import py_compile
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import Phase, settings

TREE = Path(__file__).parent.parent
COPIED = ("flarelog", "fuzz", "tests", "bench", "setup.cfg", "pyproject.toml", "SECURITY.md")
# What the tests import besides: once for all mutants, and nothing of the tree. What is left out costs time alone.
WARM = (
    *("grpc.aio", "google.protobuf.internal.builder", "google.protobuf.json_format", "tenacity", "click.testing"),
    *("isal.isal_zlib", "cryptography.x509.verification", "cryptography.hazmat.primitives.asymmetric.ec"),
    *("hypothesis.strategies", "hypothesis.stateful", "pyte", "asyncio", "multiprocessing", "unittest.mock"),
)
WORKERS = os.cpu_count() or 2
PATIENCE = 120.0  # seconds that a test may take of which nothing is known, or the import of all of them
HANGING, SLOWER = 5.0, 10.0  # a test hangs when it takes so many seconds more than so many times what it took before
SAID = "said"  # in a copy of the tree: what pytest printed


@dataclass(frozen=True)
class Mutant:
    """In *file* under flarelog/, *old* becomes *new*; *tests* are the files that should see it, tried first."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    def files(self, there: list[str]) -> list[str]:
        """Those of *tests* that are *there*."""
        return [file for file in there if file in {f"tests/test_{name}.py" for name in self.tests.split()}]


IDENTITY, TAIL, DISCOVERY = "sources/files/identity.py", "sources/files/tail.py", "sources/files/discovery.py"
FILE, RECORD, STORED = "sources/files/file.py", "sources/files/record.py", "sources/files/stored.py"
CHECKPOINT, RECEIVER, PRODUCER = "sources/files/checkpoint.py", "delivery/receiver.py", "delivery/producer.py"
POLICY, TOKENS, ACCESS = "policy.py", "security/tokens.py", "security/access.py"
GUARD, REFUSALS = "security/guard.py", "security/refusals.py"
APPENDER, JOURNAL, LOCAL = "stores/local/appender.py", "stores/local/journal.py", "stores/local/store.py"
DIRECTORY = "stores/local/directory.py"
SCREEN, REACH, CONTROLS, ROWS, CONTAINER, MERGE = (
    "render/screen.py",
    "render/reach.py",
    "render/controls.py",
    "render/rows.py",
    "render/container.py",
    "render/merge.py",
)
FLOW, SIEVE = "viewers/flow.py", "render/sieving.py"

REDACT, REDACTED, CONSENT, PATTERNS, VIEW, VALUE, OWN = (
    "sources/redaction/redact.py",
    "sources/redaction/redacted.py",
    "sources/consent.py",
    "sources/files/patterns.py",
    "sources/redaction/secret/view.py",
    "sources/redaction/secret/value.py",
    "sources/redaction/own.py",
)

MUTANTS = [
    # --- ranks
    Mutant(
        "ranks: a local rank passes for a rank",
        "render/ranks.py",
        "return stretch.locals.get(int(match[1]), int(inner[1]) if inner else None)",
        "return stretch.locals.get(int(match[1]), int(match[1]))",
        "ranks",
    ),
    Mutant(
        "ranks: the largest rank that is there passes for the last one",
        "render/ranks.py",
        "return self._largest.get((run, site), 0) if self._over else None",
        "return self._largest.get((run, site), 0)",
        "ranks",
    ),
    Mutant(
        "ranks: what is known of a generation holds only from when it was known",
        "render/ranks.py",
        "                if told and mark.offset > start:",
        "                if mark.offset > start:",
        "ranks",
    ),
    Mutant(
        "ranks: a machine's number passes for a rank",
        "sources/files/writers.py",
        """found if b"RANK" in found and b"LOCAL_RANK" in found else {}""",
        """found if b"RANK" in found else {}""",
        "writers",
    ),
    Mutant(
        "ranks: a launcher's first worker passes for all of them",
        "sources/files/writers.py",
        "if len(locals_) < environment.get(_LOCAL_SIZE, 0):",
        "if len(locals_) < 0:",
        "writers",
    ),
    Mutant(
        "ranks: who reads a file passes for one who writes it",
        "sources/files/openers.py",
        "if flags & os.O_ACCMODE != os.O_RDONLY:",
        "if flags >= 0:",
        "writers",
    ),
    Mutant(
        "ranks: what was told of a file's writers is told again after a restart",
        TAIL,
        "self._attributes = file.attributes = _told(info.marks)",
        "pass",
        "tail",
    ),
    Mutant(
        "ranks: a file whose writers were told counts as two pieces",
        RECORD,
        "        if kind is Gap or kind is Attributes:",
        "        if kind is Gap:",
        "tail",
    ),
    Mutant(
        "ranks: what nobody has told of is shown at once",
        "render/ranks.py",
        "return Verdict.BY_LINE if self._over else Verdict.WAIT",
        "return Verdict.BY_LINE",
        "ranks",
    ),
    Mutant(
        "ranks: a gang that was restarted has the ranks of the one before",
        "render/ranks.py",
        "            if one.start > offset:\n                break\n            found = one",
        "            found = one\n            break",
        "ranks",
    ),
    Mutant(
        "ranks: the last rank is the world's size",
        "render/ranks.py",
        "return stretch.world_size - 1",
        "return stretch.world_size",
        "ranks",
    ),
    Mutant(
        "ranks: errors of the ranks between the first and the last are not shown",
        "render/ranks.py",
        "return Verdict.ERRORS if self.choice.first or self.choice.last else Verdict.HIDE",
        "return Verdict.HIDE",
        "ranks",
    ),
    Mutant(
        "ranks: with --rank alone errors of others are shown",
        "render/ranks.py",
        "return Verdict.ERRORS if self.choice.first or self.choice.last else Verdict.HIDE",
        "return Verdict.ERRORS",
        "ranks",
    ),
    Mutant(
        "ranks: of another rank's traceback only the line that matches is shown",
        "render/ranks.py",
        "for block in blocks if any(self._error.search(plain(one.text)) for one in block) for line in block]",
        "for block in blocks for line in block if self._error.search(plain(line.text))]",
        "ranks",
    ),
    Mutant(
        "ranks: a log whose rank is not known is read all the same",
        "viewers/follow.py",
        "if self._ranks.readable(str(each.info.stream), each.received) == each.received:",
        "if False:",
        "following",
    ),
    Mutant(
        "ranks: a log is read on where another gang begins that is not known",
        "viewers/follow.py",
        "if end is not None and isinstance(what, Buffer) and number + len(what) > end:",
        "if False:",
        "following",
    ),
    Mutant(
        "ranks: what a mark tells on the way is learnt when the receiver is asked again",
        "viewers/follow.py",
        "self._ranks.learn((each.as_known,), over=self._over)",
        "pass",
        "following",
    ),
    Mutant(
        "completion: whoever asks for sites gets all their logs",
        LOCAL,
        "                        if one_a_site:\n                            break\n",
        "",
        "stores",
    ),
    # --- where to go on
    Mutant(
        "follow: what a row still holds is not shown to whoever goes on",
        SCREEN,
        "return self._begin if found is None else found",
        "return self._begin",
        "flow",
    ),
    Mutant(
        "follow: a block that is held is not shown to whoever goes on",
        FLOW,
        "*(line.offset for line in held if line is not None)",
        "",
        "flow",
    ),
    # --- how a stream fares
    Mutant(
        "status: what is heard of one stream does not count for the producer's others",
        "receiver/states.py",
        "        known = self._producers.get((stream.run, stream.site, producer))",
        "        known = None",
        "states",
    ),
    Mutant(
        "status: a stream that is held is only paused until its producer's next attempt",
        "receiver/states.py",
        "if found.linked and found.changed is not None and now - found.changed >= HELD_FOR:",
        "if found.linked:",
        "states",
    ),
    Mutant(
        "status: what nobody has open is remembered for ever",
        "receiver/states.py",
        "        if len(self._left) > REMEMBERED:",
        "        if len(self._left) < 0:",
        "states",
    ),
    Mutant(
        "status: what left the store is remembered",
        "receiver/states.py",
        "            self._let_go(self._left.pop(stream))",
        "            pass",
        "states",
    ),
    Mutant(
        "status: a message that was late makes a clock slow",
        "receiver/states.py",
        "skew=max(producer.skews, default=None)",
        "skew=producer.skews[-1] if producer.skews else None",
        "states",
    ),
    # --- what a site does not let go
    Mutant(
        "redaction: what a window's end cuts is not looked at beside it",
        REDACT,
        "first = begin if self.ends_line(begin) else begin - OVERLAP",
        "first = begin",
        "redact",
    ),
    Mutant(
        "redaction: nor what comes behind it",
        REDACT,
        "high = min(end + OVERLAP, self.right)",
        "high = end",
        "redact",
    ),
    Mutant(
        "redaction: what is no whole line is not looked at",
        REDACT,
        "        for begin in unusual:\n",
        "        for begin in ():\n",
        "redact",
    ),
    Mutant(
        "redaction: an own pattern that knows where a line begins is looked for in many at once",
        OWN,
        "if not self._anchored:",
        "if True:",
        "redact",
    ),
    Mutant(
        "redaction: a window's end is decided before what is behind it is there",
        REDACT,
        "window = max(0, size - OVERLAP) // WINDOW * WINDOW",
        "window = size // WINDOW * WINDOW",
        "redact",
    ),
    Mutant(
        "redaction: a CR ends no line",
        REDACT,
        'return max(found, raw.rfind(b"\\r", max(found, begin), end)) + 1',
        "return found + 1",
        "redact",
    ),
    Mutant(
        "redaction: the last word of an unfinished line is shown",
        REDACT,
        "            if unfinished:\n",
        "            if False:\n",
        "redact",
    ),
    Mutant(
        "redaction: of an unfinished line more than the last word is shown where there are own patterns",
        REDACT,
        "spans.append((0 if self._own else max(",
        "spans.append((max(",
        "redact",
    ),
    Mutant(
        "redaction: a private key is shown from its second line on",
        REDACT,
        "stop = min(stops[bisect_left(stops, begin)], begin + KEY_BLOCK)",
        "stop = min(stops[bisect_left(stops, begin)], begin + 50)",
        "redact",
    ),
    Mutant(
        "redaction: a private key that began before what is read is not seen",
        REDACT,
        "left = max(0, begin - max(OVERLAP, KEY_BLOCK + _MARGIN))",
        "left = max(0, begin - OVERLAP)",
        "redact",
    ),
    Mutant(
        "redaction: of a private key's first line a part is taken for the whole",
        REDACT,
        "for m in _KEY_BEGIN.finditer(text.raw, *around) if m.start() <= at < m.end())",
        "for m in _KEY_BEGIN.finditer(text.raw, *around))",
        "redact",
    ),
    Mutant(
        "redaction: where an own pattern matches very often the rest is shown",
        OWN,
        "                    other = len(piece)\n",
        "                    pass\n",
        "redact",
    ),
    Mutant(
        "redaction: an own pattern's possessive repetition is a lazy one",
        OWN,
        'return found["times"].replace(',
        'return (found["times"] + b"?").replace(',
        "redact",
    ),
    Mutant(
        "redaction: a quote within a value ends it",
        VALUE,
        "if over and len(found[1]) % (2 * slashes + 2) == slashes:",
        "if True:",
        "redact",
    ),
    Mutant(
        "redaction: of a password of several words the first is masked",
        VALUE,
        "    while words and view[end - 1 : end] not in",
        "    while False and view[end - 1 : end] not in",
        "redact",
    ),
    Mutant(
        "redaction: colours hide a name's value",
        VIEW,
        '        if b"\\x1b" in text:\n',
        "        if False:\n",
        "redact",
    ),
    Mutant(
        "redaction: a quote that is doubled ends the value",
        VALUE,
        "            if view.startswith(view[end:at], at):",
        "            if False:",
        "redact wrapped",
    ),
    Mutant(
        "redaction: a column is no value",
        VALUE,
        "        found = _IN_COLUMNS.match(view, at)",
        "        found = None",
        "redact wrapped",
    ),
    Mutant(
        "redaction: a quote around a name and its value does not end it",
        VALUE,
        "    if around is not None and first and around[2] not in view[at:begin]:",
        "    if False:",
        "redact wrapped",
    ),
    Mutant(
        "redaction: what is found in what is read is masked there in the text",
        "sources/redaction/secret/__init__.py",
        "    yield from spans if view.same else view.places(list(spans))",
        "    yield from spans",
        "redact wrapped",
    ),
    Mutant(
        "redaction: what a hash is called is not looked at",
        "sources/redaction/secret/runs.py",
        "    return not _told(view[first:begin])",
        "    return True",
        "redact",
    ),
    Mutant(
        "redaction: only counts of tokens are looked at",
        "sources/redaction/secret/names.py",
        '    rb"token(?!iz|',
        '    rb"token(?=',
        "redact innocent",
    ),
    Mutant(
        "redaction: a line is shown before it is finished",
        REDACTED,
        "if decided > position or (self.limit is None and self._finished != size):",
        "if decided > position:",
        "redacted",
    ),
    Mutant(
        "redaction: what goes on with a cut line is the same generation",
        REDACTED,
        "cut = self.position in self.cuts and self.position != self._begun_at",
        "cut = 0",
        "redacted",
    ),
    Mutant(
        "redaction: a line that was cut is not shown as it was cut",
        REDACTED,
        "length, cut or os.fstat(self.fd).st_size)",
        "length, os.fstat(self.fd).st_size)",
        "redacted",
    ),
    Mutant(
        "redaction: the fingerprint is one of unmasked bytes",
        REDACTED,
        "data = self.rules.show(self.raw, 0, min(length, shown), size if cut is None else cut)[0]",
        "data = self.raw(0, min(length, shown))",
        "redacted",
    ),
    Mutant(
        "redaction: what is read again is counted again",
        REDACTED,
        "if self.position >= self._counted:  # what",
        "if True:  # what",
        "redacted",
    ),
    Mutant(
        "redaction: a successor cannot tell a line that was cut",
        RECORD,
        "    if found is None and rules:\n",
        "    if False:\n",
        "redacted",
    ),
    Mutant(
        "redaction: with other rules everything is sent again",
        RECORD,
        "rules = file.rules.once(piece.begin.notes)",
        "rules = file.rules",
        "redacted",
    ),
    Mutant(
        "redaction: what was masked by other rules is continued in one generation",
        RECORD,
        "return replace(found, goes_on=False, matches=0, bytes=0)",
        "return found",
        "redacted",
    ),
    Mutant(
        "redaction: a rotated file keeps its unfinished line for ever",
        TAIL,
        "        file.finish()\n        return True\n",
        "        return False\n",
        "redacted",
    ),
    Mutant(
        "redaction: compressed files are sent",
        "sources/files/copies.py",
        "            return self._is_compressed(file)\n",
        "            return False\n",
        "redacted",
    ),
    Mutant(
        "redaction: a receipt of masked bytes is refused",
        RECEIVER,
        "if replace(receipt, redacted=None) != ours:",
        "if receipt != ours:",
        "receiver",
    ),
    Mutant(
        "consent: who asks can make more of it",
        PATTERNS,
        "        return asked and self.permits(path)\n",
        "        return asked\n",
        "consent",
    ),
    Mutant(
        "consent: a link leads to what is left out",
        DISCOVERY,
        "wanted = self._matches(path) and (not is_link or self._may_be_followed(path))",
        "wanted = self._matches(path)",
        "consent",
    ),
    Mutant(
        "consent: a receiver can name any file that the sidecar has met",
        PATTERNS,
        "not (self.permits(path) or was == log)",
        "not (self.permits(path) or names_of(log, path))",
        "consent",
    ),
    Mutant(
        "consent: the environment's file does not hold beside another",
        CONSENT,
        "dict.fromkeys((*files, *named))",
        "dict.fromkeys(files or named)",
        "consent",
    ),
    Mutant(
        "consent: what the site wants to be masked is not",
        PATTERNS,
        "            rules |= site.rules\n",
        "            pass\n",
        "consent",
    ),
    # --- which file it is
    Mutant(
        "identity: neither handle nor birth time tell",
        IDENTITY,
        'return f"{found.st_dev:x}:{found.st_ino:x}:{witness}"',
        'return f"{found.st_dev:x}:{found.st_ino:x}:"',
        "discovery identity",
    ),
    Mutant(
        "identity: the inode is ignored",
        IDENTITY,
        'return f"{found.st_dev:x}:{found.st_ino:x}:{witness}"',
        'return f"{found.st_dev:x}:0:{witness[:1]}"',
        "tail discovery",
    ),
    Mutant(
        "identity: a rewritten head is not seen before the first byte is read",
        FILE,
        "if same == min(len(opening), len(self.opening)):",
        "if True:",
        "tail",
    ),
    Mutant(
        "identity: a truncation is not seen before the first byte is read",
        FILE,
        "        self._lose(max(size, self.position), self.seen)\n",
        "",
        "tail",
    ),
    Mutant(
        "identity: the head is not compared where only the end seems changed",
        FILE,
        "or self.fingerprint(self.head[0]) != self.head\n",
        "\n",
        "tail",
    ),
    Mutant(
        "identity: the 256 bytes before the position are not compared",
        FILE,
        "return os.pread(self.fd, length, self.position - length) == self.marker",
        "return True",
        "tail",
    ),
    Mutant(
        "identity: nor after the read",
        TAIL,
        "        if not file.intact():\n",
        "        if False:\n",
        "tail",
    ),
    Mutant(
        "identity: nor when bytes are read again",
        TAIL,
        "or not segment.file.intact():",
        "or False:",
        "tail",
    ),
    Mutant(
        "lineage: a log's own name has what it had when the name was listed",
        DISCOVERY,
        "            now = self._now(name, look)\n",
        "            now = look.sights.get(name)\n",
        "lineage",
    ),
    Mutant(
        "identity: nor when a file is let go",
        FILE,
        "if status.st_size != self.position or not self.intact():",
        "if status.st_size != self.position:",
        "tail",
    ),
    Mutant(
        "identity: what was read earlier is not compared where only the end seems changed",
        FILE,
        "if size <= end or self._crc(begin, end) != crc:",
        "if size <= end:",
        "tail",
    ),
    Mutant(
        "identity: what the receiver holds is not compared on resume",
        RECORD,
        "return Settled(crc, begin, True, matches, masked) if digest == piece.digest else None",
        "return Settled(crc, begin, True, matches, masked)",
        "tail",
    ),
    Mutant(
        "identity: a file that rises again may be another",
        FILE,
        "if again.identity != self.identity:",
        "if False:",
        "tail",
    ),
    Mutant(
        "identity: a file may be exchanged between the look and the open",
        DISCOVERY,
        "if inode(file.identity) != found.is_of or file.born != found.born:",
        "if False:",
        "lineage",
    ),
    # --- what the tail gives
    Mutant(
        "tail: no truncation is seen",
        FILE,
        "if size >= self.position and self.intact():",
        "if True:",
        "tail",
    ),
    Mutant(
        "tail: a truncation of bytes that were seen is no gap",
        TAIL,
        "        if file is self._current:\n            self._gap(file)\n",
        "",
        "tail",
    ),
    Mutant(
        "tail: bytes that were truncated before any was read are no gap",
        FILE,
        "            self.cut += end - begin\n",
        "            pass\n",
        "tail",
    ),
    Mutant(
        "tail: what was written since counts as lost",
        FILE,
        "        self._lose(same, before)\n",
        "        self._lose(same, max(before, size))\n",
        "tail",
    ),
    Mutant(
        "tail: bytes that cannot be sent again are no gap",
        TAIL,
        "Gap(offset, EMPTY_DIGEST, lost, why)",
        "Gap(offset, EMPTY_DIGEST, 0, why)",
        "tail",
    ),
    Mutant(
        "tail: a generation whose bytes cannot be sent again does not end",
        TAIL,
        ', Ended(offset, EMPTY_DIGEST, "truncated")]',
        "]",
        "tail",
    ),
    Mutant(
        "tail: a file that was gone after a restart did not end unseen",
        TAIL,
        'self.marks.append(Ended(self.end, EMPTY_DIGEST, "unseen"))',
        "pass",
        "tail",
    ),
    Mutant(
        "tail: a file that was truncated while nobody watched is not said to have ended",
        TAIL,
        "            if piece is last and piece.closed is None:\n                self.marks",
        "            if False:\n                self.marks",
        "tail",
    ),
    Mutant(
        "tail: the unread tail of a rotated file is skipped",
        TAIL,
        "            return size - file.position\n",
        "            return size - file.position if file is self.files[-1] else 0\n",
        "tail",
    ),
    Mutant(
        "tail: a rotated file with a writer holds up nothing",
        TAIL,
        "elif not following.begun and not self._gives_way(file, following, now):",
        "elif False:",
        "tail",
    ),
    Mutant(
        "tail: a rotated file with a writer holds up its successor for ever",
        TAIL,
        "return self.draining or file.closed or held >= ROTATION_GRACE",
        "return self.draining or file.closed",
        "tail",
    ),
    Mutant(
        "tail: a late writer is ignored",
        TAIL,
        "if not file.begun or self._truncated(file, now) or self._available(file, now) > 0:",
        "if not file.begun:",
        "tail",
    ),
    Mutant(
        "tail: a rotated file is let go before its bytes are acknowledged",
        TAIL,
        "unstored = {segment.file for segment in self._segments} if self._acked < self.end else set()",
        "unstored: set[SourceFile] = set()",
        "tail",
    ),
    Mutant(
        "tail: a rotated file is let go though a writer has it",
        TAIL,
        "return file.closed or now - file.quiet_since >= (REMOVED_AFTER if removed else RELEASE_AFTER)",
        "return True",
        "tail",
    ),
    Mutant(
        "tail: a file that was only cut off is sent again from its beginning",
        TAIL,
        "file.begin_anew(file.unchanged(size), size)",
        "file.begin_anew(0, size)",
        "tail",
    ),
    Mutant(
        "tail: a drain has no grace read",
        TAIL,
        "file.graced, file.limit = True, size",
        "file.graced = True",
        "tail",
    ),
    Mutant(
        "tail: a drain has no end",
        TAIL,
        "return min(size, file.limit) - file.position",
        "return size - file.position",
        "tail",
    ),
    # --- which log it belongs to
    Mutant(
        "discovery: a burst of rotations is read in the order of the names",
        "sources/files/lineage.py",
        "        return -1 if one.born < other.born else 1\n",
        "        return 0\n",
        "storms discovery",
    ),
    Mutant(
        "discovery: files that were rotated while nobody watched are read in the order of the names",
        "sources/files/lineage.py",
        "return -1 if mine > int(its) else 1",
        "return -1 if mine < int(its) else 1",
        "storms discovery",
    ),
    Mutant(
        "discovery: a renamed file that nobody has seen is a log of its own",
        DISCOVERY,
        "return origin if origin in self.tails or origin in look.strangers or is_rotation(origin, path) else None",
        "return None",
        "lineage",
    ),
    Mutant(
        "discovery: a directory whose names move is looked into once",
        DISCOVERY,
        "            dirty, self._unread = dirty | self._unread, set()\n",
        "            self._unread = set()\n",
        "storms",
    ),
    Mutant(
        "discovery: what was begun after it is overtaken",
        DISCOVERY,
        "if since is not None and path != name and compare(name, file.age, since) < 0:",
        "if False:",
        "lineage",
    ),
    Mutant(
        "discovery: a copy of a log that stays is a generation of it",
        DISCOVERY,
        "if until is not None and compare(name, age, until) >= 0:",
        "if False:",
        "storms",
    ),
    Mutant(
        "discovery: what was rotated while nobody watched stays a log of its own",
        DISCOVERY,
        "                if name != tail.log:\n",
        "                if False:\n",
        "storms",
    ),
    Mutant(
        "discovery: a generation that the receiver holds is begun again",
        DISCOVERY,
        "            return sent.log, 0\n",
        "            return None\n",
        "lineage",
    ),
    Mutant(
        "discovery: late bytes of what was rotated long ago are not looked for",
        DISCOVERY,
        "if created or self._has_grown_since(path, seen) or self._was_met(path, seen):",
        "if created or self._was_met(path, seen):",
        "identity",
    ),
    Mutant(
        "stored: a file that has grown is let be",
        STORED,
        "whole.size != found.size",
        "False",
        "stored",
    ),
    Mutant(
        "stored: a file that was rewritten is let be",
        STORED,
        "whole.until < found.modified",
        "False",
        "stored",
    ),
    Mutant(
        "stored: a file system that is late hides a change",
        STORED,
        " * 1_000_000 - GRAIN",
        " * 1_000_000 + GRAIN",
        "stored",
    ),
    Mutant(
        "stored: files wait for a record that never comes",
        STORED,
        "self.due = self.due and now < self._until",
        "pass",
        "stored",
    ),
    Mutant(
        "stored: files wait for a receiver that is away",
        DISCOVERY,
        "self._stored.due = soon",
        "self._stored.due = True",
        "stored",
    ),
    Mutant(
        "stored: a checkpoint forgets what was not opened",
        DISCOVERY,
        "held = (*self._known, *self._stored.identities())",
        "held = (*self._known,)",
        "stored",
    ),
    Mutant(
        "stored: a checkpoint forgets what waits for the record",
        DISCOVERY,
        "            return dict(self.remembered)\n",
        "            return {}\n",
        "stored",
    ),
    Mutant(
        "stored: what the receiver has lost of a file that was let be is lost",
        DISCOVERY,
        "if self._resumed and self._stored.learn(",
        "if False and self._stored.learn(",
        "stored",
    ),
    Mutant(
        "stored: the copy of a generation whose file is gone is sent",
        "sources/files/copies.py",
        "return (alike or self._is_held(length, crc))",
        "return alike",
        "discovery tail identity",
    ),
    Mutant(
        "stored: what is remembered of a file that went away is asked for",
        DISCOVERY,
        "was = None if key in self._known else self.remembered.get(key)",
        "was = None if key in self._known else self.remembered[key]",
        "discovery",
    ),
    Mutant(
        "discovery: a compressed copy is sent",
        "sources/files/copies.py",
        "return (alike or self._is_held(length, crc)) and _is_one_member(file, size)",
        "return False",
        "discovery",
    ),
    Mutant(
        "discovery: any compressed file is taken for a copy",
        "sources/files/copies.py",
        "return (alike or self._is_held(length, crc)) and _is_one_member(file, size)",
        "return True",
        "discovery",
    ),
    Mutant(
        "discovery: a compressed copy is judged while it is written",
        "sources/files/copies.py",
        "if not self.closing and not file.closed and 0 <= time.time() - status.st_mtime < WRITTEN:",
        "if False:",
        "discovery",
    ),
    Mutant(
        "discovery: start-at end skips what the receiver's log got meanwhile",
        DISCOVERY,
        "file.start = 0  # a generation that came while nobody watched",
        "pass  # a generation that came while nobody watched",
        "tail",
    ),
    Mutant(
        "discovery: a file that left the patterns is not looked for on resume",
        DISCOVERY,
        "if self._find_moved(infos.values(), now):",
        "if False:",
        "discovery",
    ),
    Mutant(
        "discovery: a receiver that lies has any file looked at",
        PATTERNS,
        "return self.matches(path) or met or names_of(log, path)",
        "return True",
        "discovery",
    ),
    Mutant(
        "discovery: a receiver that lies has any file with a number looked at",
        DISCOVERY,
        "if name is not None and self.options.continues(path, name, met=False):",
        "if name is not None:",
        "discovery consent",
    ),
    Mutant(
        "discovery: what is excluded is looked at because the receiver holds it",
        PATTERNS,
        "if self.excludes(path) or not self.matches(log) or not",
        "if not self.matches(log) or not",
        "discovery",
    ),
    Mutant(
        "discovery: what this sidecar has met is not looked for outside the patterns",
        DISCOVERY,
        "was = self.remembered.get(key) or self.remembered.get(earlier(key))",
        "was = None",
        "discovery",
    ),
    Mutant(
        "checkpoint: its checksum is ignored",
        CHECKPOINT,
        "if int(checksum, 16) != extend(0, body):",
        "if int(checksum, 16) < 0:",
        "discovery",
    ),
    Mutant(
        "checkpoint: another's is believed",
        CHECKPOINT,
        'state["version"] != VERSION or state["owner"] != owner',
        'state["version"] != VERSION',
        "discovery",
    ),
    Mutant(
        "checkpoint: another version's is believed",
        CHECKPOINT,
        'state["version"] != VERSION or state["owner"] != owner',
        'state["owner"] != owner',
        "discovery",
    ),
    Mutant(
        "checkpoint: all receivers have one",
        CHECKPOINT,
        'f"{self._before} to {receiver}"',
        'f"{self._before} to all"',
        "discovery",
    ),
    # --- the receiving end
    Mutant(
        "receiver: an overlap is not trimmed",
        RECEIVER,
        "memoryview(chunk.data)[self.accepted - chunk.offset :] if chunk.offset < self.accepted else chunk.data",
        "chunk.data",
        "receiver joined",
    ),
    Mutant(
        "receiver: an overlap is trimmed by one byte too few",
        RECEIVER,
        "memoryview(chunk.data)[self.accepted - chunk.offset :]",
        "memoryview(chunk.data)[self.accepted - chunk.offset - 1 :]",
        "receiver joined",
    ),
    Mutant(
        "receiver: a repetition with other bytes is taken for the same",
        RECEIVER,
        "if self._digest_at(chunk.end) not in (None, chunk.digest):",
        "if False:",
        "receiver",
    ),
    Mutant(
        "receiver: a hole is not refused",
        RECEIVER,
        "if offset > self.accepted:",
        "if False:",
        "receiver",
    ),
    Mutant(
        "receiver: a chunk's digest is not checked",
        RECEIVER,
        "if digest != chunk.digest:",
        "if False:",
        "receiver joined",
    ),
    Mutant(
        "receiver: a chunk of any size is taken",
        RECEIVER,
        "if size > self.max_chunk:",
        "if False:",
        "receiver",
    ),
    Mutant(
        "receiver: a mark's digest is not checked",
        RECEIVER,
        "if mark.digest != self.digest:",
        "if False:",
        "receiver",
    ),
    Mutant(
        "receiver: a mark's offset is not checked",
        RECEIVER,
        "if mark.offset != self.accepted:",
        "if False:",
        "receiver",
    ),
    Mutant(
        "receiver: a mark's number is not checked",
        RECEIVER,
        "if index > len(self.marks):",
        "if False:",
        "receiver",
    ),
    Mutant(
        "receiver: a mark that comes again with another meaning is dropped",
        RECEIVER,
        "if self.marks[index] != mark:",
        "if False:",
        "receiver",
    ),
    Mutant(
        "receiver: marks without end are taken",
        RECEIVER,
        "if index >= MAX_MARKS:",
        "if False:",
        "receiver",
    ),
    Mutant(
        "receiver: a receipt is not compared",
        RECEIVER,
        "if replace(receipt, redacted=None) != ours:",
        "if False:",
        "receiver",
    ),
    Mutant(
        "receiver: a receipt that comes too early ends the stream",
        RECEIVER,
        "if receipt.length > ours.length or receipt.marks > ours.marks:",
        "if False:",
        "receiver",
    ),
    Mutant(
        "fence: an older producer is let in again",
        RECEIVER,
        "if 0 < own < held.epoch:",
        "if False:",
        "receiver stores",
    ),
    Mutant(
        "fence: an old epoch is ignored",
        RECEIVER,
        "own = max(self._of.get(producer, 0), before, min(epoch, MAX_EPOCH))",
        "own = max(self._of.get(producer, 0), before)",
        "receiver",
    ),
    Mutant(
        "fence: an appender that was closed writes on",
        APPENDER,
        "            raise type(self._gone)(str(self._gone), committed=self.committed)",
        "            pass",
        "stores",
    ),
    Mutant(
        "fence: a fenced producer disturbs the one at work",
        LOCAL,
        "before.claimed_by(producer, epoch)",
        "pass",
        "stores",
    ),
    Mutant(
        "fence: who has a stream is not remembered",
        APPENDER,
        'b"" if known else journals.holder_line(holder.epoch, producer, journals.now())',
        'b""',
        "stores",
    ),
    # --- the store
    Mutant(
        "store: what is held already is written again",
        APPENDER,
        "view = memoryview(data)[self._written - offset :]",
        "view = memoryview(data)",
        "stores",
    ),
    Mutant(
        "store: a hole is not refused",
        APPENDER,
        "if offset > self._written:",
        "if False:",
        "stores",
    ),
    Mutant(
        "store: a mark beyond the end is not refused",
        APPENDER,
        "if mark.offset != self._written:",
        "if False:",
        "stores",
    ),
    Mutant(
        "store: a short write is taken for a whole one",
        APPENDER,
        "                view = view[done:]\n",
        '                view = view[done:] and b""\n',
        "stores",
    ),
    Mutant(
        "store: bytes are acknowledged before they are durable",
        APPENDER,
        "return self.journal.committed\n",
        "return self._written\n",
        "stores",
    ),
    Mutant(
        "store: the data are not synced",
        APPENDER,
        "os.fdatasync(self._data_fd)",
        "pass",
        "stores",
    ),
    Mutant(
        "store: the journal is not synced",
        APPENDER,
        "os.fdatasync(self._journal_fd)",
        "pass",
        "stores",
    ),
    Mutant(
        "store: the directory of a new stream is not synced",
        APPENDER,
        "            directory.sync()\n",
        "            pass\n",
        "stores",
    ),
    Mutant(
        "store: the directory above a new directory is not synced",
        DIRECTORY,
        "            if durable:\n",
        "            if False:\n",
        "stores",
    ),
    Mutant(
        "store: a journal that was rewritten is not synced",
        APPENDER,
        "                os.fdatasync(fd)\n",
        "                pass\n",
        "stores",
    ),
    Mutant(
        "store: a commit that failed is acknowledged",
        APPENDER,
        "            self._broken(error)\n        finally:",
        "            pass\n        finally:",
        "stores",
    ),
    Mutant(
        "store: after a commit that failed the journal keeps its lines",
        APPENDER,
        "os.ftruncate(self._journal_fd, self._journal_kept)",
        "pass",
        "stores",
    ),
    Mutant(
        "store: what a killed receiver left is vouched for before it is durable",
        APPENDER,
        'await self._record(b"" if known else',
        'known or await self._record(b"" if known else',
        "stores",
    ),
    Mutant(
        "store: recovery does not compare the last range",
        JOURNAL,
        "return digest == expected",
        "return True",
        "stores",
    ),
    Mutant(
        "store: a torn tail is not cut off",
        APPENDER,
        "os.ftruncate(self._data_fd, journal.committed)",
        "pass",
        "stores",
    ),
    Mutant(
        "store: a file without a journal is taken over",
        APPENDER,
        "if fresh and directory.size(name):",
        "if False:",
        "stores",
    ),
    Mutant(
        "store: another stream's journal is believed",
        APPENDER,
        "if self.journal.stream != self.stream:",
        "if self.journal.stream is None:",
        "stores",
    ),
    Mutant(
        "store: a seal outlives what comes behind it",
        APPENDER,
        "return self.journal.sealed and not self._behind",
        "return self.journal.sealed",
        "stores",
    ),
    Mutant(
        "store: two receivers share a store",
        LOCAL,
        "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        "stores",
    ),
    Mutant(
        "store: a link in the place of a directory is followed",
        DIRECTORY,
        "os.open(part, _DIRECTORY, dir_fd=self.fd)",
        "os.open(part, _DIRECTORY & ~os.O_NOFOLLOW, dir_fd=self.fd)",
        "store_paths",
    ),
    Mutant(
        "store: a link in the place of a file is followed",
        DIRECTORY,
        "_FILE = os.O_CLOEXEC | os.O_NOFOLLOW |",
        "_FILE = os.O_CLOEXEC |",
        "store_paths",
    ),
    Mutant(
        "store: a hard link is written through",
        DIRECTORY,
        "found.st_nlink <= 1:",
        "True:",
        "store_paths",
    ),
    Mutant(
        "store: streams whose names differ in capitals alone are mixed where the file system does not tell them apart",
        APPENDER,
        "if str(self.journal.stream).casefold() == str(self.stream).casefold():",
        "if False:",
        "store_paths",
    ),
    Mutant(
        "journal: a line's checksum is ignored",
        JOURNAL,
        "len(line) > 9 and int(line[:8], 16) == extend(0, line[9:])",
        "len(line) > 9",
        "journal",
    ),
    Mutant(
        "journal: a seal of another stream is believed",
        JOURNAL,
        'record["n"] == self.committed and record["d"] == self.digest',
        "True",
        "journal",
    ),
    Mutant(
        "journal: one that was rewritten is read on where the old one ended",
        JOURNAL,
        "if file != self._file or os.pread(fd, len(self._witness), before) != self._witness:",
        "if self._file is None:",
        "journal stores",
    ),
    Mutant(
        "journal: half a line is taken for what will stand there",
        JOURNAL,
        "self._position += whole",
        "self._position += len(raw)",
        "journal",
    ),
    Mutant(
        "store: whoever follows reads a journal anew each time",
        LOCAL,
        "stream in self._followers else None",
        "stream in self._open else None",
        "stores",
    ),
    Mutant(
        "journal: marks that were lost leave no gap",
        JOURNAL,
        'self._expect_marks(record.get("m", 0))',
        "pass",
        "journal",
    ),
    Mutant(
        "journal: a mark behind the last durable byte is believed",
        JOURNAL,
        "while self.marks and self.marks[-1].offset > length:",
        "while False:",
        "journal",
    ),
    Mutant(
        "journal: one that was compacted forgets when bytes came",
        JOURNAL,
        "sorted({**telling, **vouching}.items())",
        "sorted(vouching.items())",
        "journal",
    ),
    Mutant(
        "journal: a compacted one tells when bytes came for ever finer",
        JOURNAL,
        "if len(points) <= 2 * STRETCHES:",
        "if True:",
        "journal",
    ),
    Mutant(
        "journal: what a crash cost counts as growth",
        JOURNAL,
        "while found and found[-1][1] >= length:  # it grew",
        "while False:  # it grew",
        "journal",
    ),
    Mutant(
        "journal: a later version is read as this one",
        JOURNAL,
        'if record["v"] != VERSION:',
        "if False:",
        "journal",
    ),
    # --- the sending end
    Mutant(
        "producer: a miss does not seek back",
        PRODUCER,
        "        self._seek_back()\n        self.misses += 1\n",
        "        self.misses += 1\n",
        "producer",
    ),
    Mutant(
        "producer: a lost connection does not seek back",
        PRODUCER,
        "        self._seek_back()\n        self._awaits_open = True\n",
        "        self._awaits_open = True\n",
        "producer joined",
    ),
    Mutant(
        "producer: a refusal does not seek back",
        PRODUCER,
        "if reply.code not in (Code.OK, Code.SEALED):",
        "if False:",
        "producer",
    ),
    Mutant(
        "producer: misses are not bounded",
        PRODUCER,
        "if self.misses > self.options.max_misses:",
        "if False:",
        "producer",
    ),
    Mutant(
        "producer: by default a receiver may be a second late",
        PRODUCER,
        "max_misses: int = 12",
        "max_misses: int = 4",
        "producer",
    ),
    Mutant(
        "producer: a miss after the first OK is borne",
        PRODUCER,
        "    (S.STREAMING, C.OK): S.STREAMING,\n",
        "    (S.STREAMING, C.OK): S.STREAMING,\n    (S.STREAMING, C.EXECUTION_EXCEPTION): S.BOOTSTRAP,\n",
        "producer",
    ),
    Mutant(
        "producer: a restarted receiver gets no bootstrap of its own",
        PRODUCER,
        "self.state = State.BOOTSTRAP  # another receiver",
        "pass  # another receiver",
        "producer joined",
    ),
    Mutant(
        "producer: a restarted receiver inherits the misses of the one before",
        PRODUCER,
        "self.incarnation, self.misses = reply.incarnation, 0",
        "self.incarnation = reply.incarnation",
        "producer joined",
    ),
    Mutant(
        "producer: more than one chunk is in flight before the first OK",
        PRODUCER,
        "return 0 if self._in_flight else min(self._chunk, PROBE)",
        "return min(self._chunk, PROBE)",
        "producer joined",
    ),
    Mutant(
        "producer: bytes are sent before the answer to the open",
        PRODUCER,
        "if self._awaits_open or self.state in (State.FINISHING, State.SEALED):",
        "if self.state in (State.FINISHING, State.SEALED):",
        "producer joined",
    ),
    Mutant(
        "producer: bytes are sent behind the receipt",
        PRODUCER,
        "if self._awaits_open or self.state in (State.FINISHING, State.SEALED):",
        "if self._awaits_open:",
        "producer",
    ),
    Mutant(
        "producer: the window has no end",
        PRODUCER,
        "free = self._window - (self.position - self.acked)",
        "free = self._window",
        "producer",
    ),
    Mutant(
        "producer: more may be acknowledged than was sent",
        PRODUCER,
        "if not self.acked <= reply.committed <= self.position:",
        "if not self.acked <= reply.committed:",
        "producer",
    ),
    Mutant(
        "producer: an ack may go backwards on one connection",
        PRODUCER,
        "if not self.acked <= reply.committed <= self.position:",
        "if not reply.committed <= self.position:",
        "producer",
    ),
    Mutant(
        "producer: marks may be acknowledged that were never sent",
        PRODUCER,
        "if not self.marks_acked <= reply.marks <= self.marks_sent:",
        "if False:",
        "producer",
    ),
    Mutant(
        "producer: the receiver's digest is not compared with its own",
        PRODUCER,
        "if ours is not None and ours != reply.digest:",
        "if False:",
        "producer",
    ),
    Mutant(
        "producer: nor when the stream is opened again",
        PRODUCER,
        "if sent is not None and sent != reply.digest:",
        "if False:",
        "producer",
    ),
    Mutant(
        "producer: refusals are not bounded",
        PRODUCER,
        "if self._refusals > self.options.max_refusals:",
        "if False:",
        "producer",
    ),
    Mutant(
        "producer: a pause ends with the next open",
        PRODUCER,
        "    (S.PAUSED, C.OK): S.PAUSED,",
        "    (S.PAUSED, C.OK): S.STREAMING,",
        "producer",
    ),
    Mutant(
        "producer: who is fenced is told something else",
        PRODUCER,
        "if reply.code is Code.FENCED:",
        "if False:",
        "producer",
    ),
    # --- names, the wire, and who watches
    Mutant(
        "names: '..' is a name",
        "names.py",
        'if part in (".", ".."):',
        "if False:",
        "model",
    ),
    Mutant(
        "names: a run may hide among the store's own files",
        "names.py",
        'if name.startswith("."):',
        "if False:",
        "model",
    ),
    Mutant(
        "names: a log may be called as the store calls its journals",
        "names.py",
        "if _STORES_OWN.fullmatch(part):",
        "if False:",
        "model",
    ),
    Mutant(
        "names: any character will do",
        "names.py",
        "if not _PART.fullmatch(part):",
        "if False:",
        "model",
    ),
    Mutant(
        "wire: another major version is understood",
        "wire/codec.py",
        "if opened.version.major != MAJOR:",
        "if False:",
        "wire",
    ),
    Mutant(
        "wire: a code that is not known is an OK",
        "wire/codec.py",
        "code, reason = Code.REJECTED, f",
        "code, reason = Code.OK, f",
        "wire",
    ),
    Mutant(
        "wire: a mark may carry a text of any length",
        "wire/codec.py",
        "if max(map(len, texts)) > MAX_TEXT:",
        "if False:",
        "wire",
    ),
    # --- one call for all logs
    Mutant(
        "pace: one who sends very many messages slows everybody down",
        "receiver/server.py",
        "heard += min(call.messages / took, ONE_OF_MANY)",
        "heard += call.messages / took",
        "mux",
    ),
    Mutant(
        "pace: each message is answered, however many there are",
        "receiver/session.py",
        "return session.pressing or not self.server.pace_of(self)",
        "return True",
        "mux",
    ),
    Mutant(
        "pace: a window that fills waits for its answer",
        "receiver/session.py",
        "return self._pressing or self.appender.committed - self.told >= self.told_window // 8",
        "return self._pressing",
        "mux",
    ),
    Mutant(
        "pace: it never ends",
        "delivery/rates.py",
        "self.pace = self.pace * 0.7 if self.pace * 0.7 >= self.LEAST else 0.0",
        "pass",
        "rates",
    ),
    Mutant(
        "pace: once late is late",
        "delivery/rates.py",
        "if self._late > 1 and",
        "if self._late and",
        "rates",
    ),
    Mutant(
        "pace: what was gathered for long while it was late stays so while many messages come",
        "delivery/rates.py",
        "elif self.pace > self.MOST and not late:",
        "elif self.pace > self.MOST and not late and messages <= self.MANY:",
        "rates",
    ),
    Mutant(
        "pace: few messages are room, though it took few",
        "delivery/rates.py",
        "elif messages < self.FEW and not late:",
        "elif messages < self.FEW:",
        "rates",
    ),
    Mutant(
        "pace: very many streams are answered as often as few",
        "receiver/server.py",
        "min(max(soonest, len(self.calls) / ANSWERS), latest)",
        "soonest",
        "mux",
    ),
    Mutant(
        "mux: a heartbeat is never due",
        "wire/uplink.py",
        "if now >= self._put_at + self._heartbeat:",
        "if False:",
        "mux",
    ),
    Mutant(
        "mux: the receiver's patience is nothing to the heartbeat",
        "wire/uplink.py",
        "if 0 < reply.idle_timeout < 3 * self._heartbeat:",
        "if False:",
        "mux",
    ),
    Mutant(
        "mux: an answer may take for ever",
        "wire/uplink.py",
        "if one.owed is not None and now - one.owed > REPLY_TIMEOUT]",
        "if False]",
        "mux",
    ),
    Mutant(
        "mux: whoever waits for room is let in at once",
        "wire/uplink.py",
        "if self.over or (self._waiting <= MAX_WAITING and not self._at_the_door):",
        "if True:",
        "mux",
    ),
    Mutant(
        "mux: the call outlives its last stream",
        "wire/uplink.py",
        "        if not self._streams:\n            self.close()\n        elif",
        "        if",
        "mux",
    ),
    Mutant(
        "mux: what is said of the whole call reaches nobody",
        "wire/uplink.py",
        "elif not reply.number:",
        "elif False:",
        "mux",
    ),
    Mutant(
        "mux: a receiver that goes away gets new logs",
        "wire/uplink.py",
        "self.closing = self.closing or reply.code is Code.GOING_AWAY",
        "pass",
        "mux",
    ),
    Mutant(
        "session: a call that gRPC cancels again leaves its streams open",
        "receiver/session.py",
        "        while not task.done():\n            with contextlib.suppress(asyncio.CancelledError):",
        "        if True:\n            with contextlib.suppress(KeyError):",
        "mux",
    ),
    Mutant(
        "session: a call that is cancelled while its streams end goes on as if nothing had been",
        "receiver/session.py",
        "        if self._cancelled:\n            raise asyncio.CancelledError",
        "",
        "server",
    ),
    Mutant(
        "session: a call that the receiver ends counts as cancelled",
        "receiver/session.py",
        "            self._own_cancels += 1\n",
        "",
        "server",
    ),
    Mutant(
        "session: a stream whose end fails stays",
        "receiver/session.py",
        "            stack.callback(self.call.closed, self)\n",
        "",
        "server",
    ),
    Mutant(
        "session: the receiver's mistake about one stream ends the call",
        "receiver/session.py",
        "            except Exception as error:\n                session = self._sessions.get(number)",
        "            except FlarelogError as error:\n                session = self._sessions.get(number)",
        "server",
    ),
    Mutant(
        "text: half of a surrogate pair is left to whoever encodes it",
        "text.py",
        "one if one.isprintable() else _written(one)",
        "one if one.isprintable() or 0xD800 <= ord(one) < 0xE000 else _written(one)",
        "text wire",
    ),
    Mutant(
        "text: what drives a terminal is left in it",
        "text.py",
        "    if not shown.isprintable():\n",
        "    if not shown.isprintable() and not shown.isascii():\n",
        "text legible",
    ),
    Mutant(
        "text: it is bounded before it is written out, and not behind that",
        "text.py",
        "return shown if len(shown) <= most else",
        "return shown if len(text) <= most else",
        "text",
    ),
    Mutant(
        "wire: what a generation's notes say is taken as it is",
        "wire/codec.py",
        "    path, identity, notes, ended, gap, words = (_text(text) for text in texts)\n",
        "    path, identity, notes, ended, gap, words = texts\n",
        "legible",
    ),
    Mutant(
        "wire: a receiver's word for a run's state is taken as it is",
        "wire/codec.py",
        "        legible(found.state, 20),\n        found.version.major,\n",
        "        found.state,\n        found.version.major,\n",
        "legible",
    ),
    Mutant(
        "screen: where little output is left a line is cut from its end",
        "render/reach.py",
        "plain(text)[: max(0, self._allowance.room // 4 - len(MARK))]",
        "plain(text)[: self._allowance.room // 4 - len(MARK)]",
        "costs",
    ),
    Mutant(
        "container: a record of Docker's with a very long line is none",
        "render/container.py",
        "    if len(line) > _DOCKER_LIMIT and not _ONE_TEXT.fullmatch(line):\n",
        "    if len(line) > _DOCKER_LIMIT:\n",
        "container",
    ),
    Mutant(
        "talk: a record of a log is written as it is",
        "talk.py",
        "return legible(super().formatMessage(record), LONGEST)",
        "return super().formatMessage(record)",
        "legible",
    ),
    Mutant(
        "talk: a traceback's lines begin as records do",
        "talk.py",
        'f"  {legible(line, LONGEST)}"',
        'f"{legible(line, LONGEST)}"',
        "legible",
    ),
    Mutant(
        "talk: a record for handlers of others is as it was",
        "talk.py",
        "made.msg, made.args = legible(record.getMessage(), LONGEST), None",
        "made.msg, made.args = record.getMessage(), None",
        "legible",
    ),
    Mutant(
        "journal: what an earlier version took of its peer is given out as it is",
        "stores/local/journal.py",
        "said[name] = legible(text(value))",
        "said[name] = text(value)",
        "legible",
    ),
    Mutant(
        "wire: a file's name may be longer than a mark can say",
        "wire/codec.py",
        "_text(mark.path)",
        "legible(mark.path)",
        "wire",
    ),
    Mutant(
        "globs: a pattern with a directory is compared with the last part of a name",
        "globs.py",
        '(path if "/" in pattern else name)',
        "(name)",
        "globs discovery",
    ),
    Mutant(
        "globs: who may do what hangs on the last part of a name",
        "globs.py",
        "            if _compiled(pattern)(name):\n",
        "            if any_of((pattern,), name):\n",
        "globs",
    ),
    Mutant(
        "globs: one that makes no sense hides those behind it",
        "globs.py",
        "    for pattern in patterns:\n        with contextlib.suppress(re.error):\n",
        "    with contextlib.suppress(re.error):\n        for pattern in patterns:\n",
        "globs",
    ),
    Mutant(
        "following: the last lines are looked for too far back",
        "viewers/reading.py",
        "max(0, end - TAIL_MOST, end - max(",
        "max(0, end - max(",
        "following",
    ),
    Mutant(
        "marking: of two that overlap the second is left out",
        "render/sgr.py",
        "max(end, spans[-1][1])",
        "spans[-1][1]",
        "screen",
    ),
    Mutant(
        "store: one stream that cannot be closed keeps the others open, and the lock",
        "stores/local/store.py",
        "            except Exception:  # the others are closed",
        "            except KeyError:  # the others are closed",
        "stores",
    ),
    Mutant(
        "server: stopping waits for a call that does not end",
        "receiver/server.py",
        "await asyncio.wait(stopping, timeout=STOP_WITHIN)",
        "await asyncio.wait(stopping)",
        "server",
    ),
    Mutant(
        "session: the number of a stream is used again",
        "receiver/session.py",
        "if number <= self._last:",
        "if False:",
        "mux",
    ),
    Mutant(
        "session: what is under way to a stream that has ended ends the call",
        "receiver/session.py",
        "elif number > self._last:",
        "else:",
        "mux",
    ),
    Mutant(
        "session: silence ends nothing",
        "receiver/session.py",
        'self.leave_all(f"nothing was heard for {idle:g} s")',
        "pass",
        "mux",
    ),
    Mutant(
        "session: a call may wait for its Open for ever",
        "receiver/session.py",
        "        if self._last < 0:\n            self.refuse(0",
        "        if False:\n            self.refuse(0",
        "mux",
    ),
    Mutant(
        "session: the call ends with its last stream though another one is being opened in it",
        "receiver/session.py",
        "        if self._last == 0:\n",
        "        if self._last >= 0:\n",
        "mux",
    ),
    Mutant(
        "session: a call may go on for ever without a stream",
        "receiver/session.py",
        "elif not self._sessions:\n            self._stop_taking()",
        "elif False:\n            self._stop_taking()",
        "mux",
    ),
    Mutant(
        "bus: a subscriber's failure reaches the run",
        "bus.py",
        "except Exception as error:",
        "except KeyError as error:",
        "bus",
    ),
    Mutant(
        "verify: what is stored is not compared with the journal",
        "verify.py",
        "if digest != expected:",
        "if False:",
        "verify",
    ),
    Mutant(
        "verify: what is stored is not compared with its source",
        "verify.py",
        "if ours != theirs:",
        "if False:",
        "verify",
    ),
    Mutant(
        "verify: a generation may stand in a log of its own",
        "verify.py",
        "        yield from _strayed(held_there, files)\n",
        "",
        "verify",
    ),
    Mutant(
        "verify: bytes of a source may be stored twice",
        "verify.py",
        "path = files.of(second) if same > 0 else None",
        "path = None",
        "verify",
    ),
    Mutant(
        "poc: bytes may be stored or lost in another generation",
        "poc/judge.py",
        "            and self.generations_agree\n",
        "",
        "poc",
    ),
    Mutant(
        "poc: an intruder whom nobody refused counts as refused",
        "poc/judge.py",
        "refused = intruder.refused == intruder.attempts",
        "refused = True",
        "poc",
    ),
    Mutant(
        "poc: an intruder of whom bytes are stored counts as refused",
        "poc/judge.py",
        "return self.refused and self.stored == 0",
        "return self.refused",
        "poc",
    ),
    Mutant(
        "sidecar: gaps do not show in the exit code",
        "sender/sidecar.py",
        "if not codes and any(stream.gaps for stream in self.streams):",
        "if False:",
        "sidecar",
    ),
    Mutant(
        "sidecar: a file that could not be sent does not show in the exit code",
        "sender/sidecar.py",
        "if self.troubles:",
        "if False:",
        "sidecar",
    ),
    # --- what one peer does too much of
    Mutant(
        "peers: whoever has many calls waiting has all the turns",
        "receiver/peers.py",
        "self._waiting[following] = queue  # behind the others",
        "self._waiting = {following: queue, **self._waiting}",
        "peers",
    ),
    Mutant(
        "peers: a turn is lost with one who gives up",
        "receiver/peers.py",
        "if mine.done() and not mine.cancelled():",
        "if False:",
        "peers",
    ),
    Mutant(
        "peers: a reader may take for ever",
        "receiver/peers.py",
        "        call.cancel()",
        "        pass",
        "peers",
    ),
    Mutant(
        "peers: connections are not counted",
        "delivery/rates.py",
        "if thing not in there and len(there) >= self.limit:",
        "if False:",
        "peers",
    ),
    Mutant(
        "peers: a pace is never waited for",
        "delivery/rates.py",
        "return max(0.0, until - now)",
        "return 0.0",
        "rates",
    ),
    Mutant(
        "wakeups: a burst of events comes one in each turn of the loop",
        "wire/wakeups.py",
        "if waiting > _LEFT:",
        "if False:",
        "wakeups",
    ),
    Mutant(
        "wakeups: an event of a loop that is closed hides those behind it",
        "wire/wakeups.py",
        """    take_events()
    if waiting > _LEFT:
        with contextlib.suppress(BlockingIOError):
            os.read(fd, waiting - _LEFT)
""",
        """    if waiting > _LEFT:
        os.read(fd, waiting - _LEFT)
    take_events()
""",
        "wakeups",
    ),
    Mutant(
        "store: bytes are committed before a mark that stands in front of them",
        APPENDER,
        "written, digest = left.offset, left.digest",
        "pass",
        "stores",
    ),
    Mutant(
        "store: a list says of a log what it was",
        LOCAL,
        "if known is not None and known[0] == state:",
        "if known is not None:",
        "stores",
    ),
    Mutant(
        "quota: marks take as much as they like",
        "delivery/quota.py",
        'self._room(self._noted_at[stream.run, stream.site], "max_site_journal_bytes", of_site)',
        "pass",
        "quota",
    ),
    Mutant(
        "server: a session that another one has replaced still counts as one that sends",
        "receiver/server.py",
        "self._busy -= before.busy",
        "pass",
        "fuzz",
    ),
    Mutant(
        "server: a stream is sealed without a look at its receipt",
        "receiver/session.py",
        "receiver.finish(request)",
        "pass",
        "server",
    ),
    Mutant(
        "server: a run that nobody announced is let in",
        "receiver/admission.py",
        "if server.options.announced_runs_only:",
        "if False:",
        "server",
    ),
    Mutant(
        "server: a full disk ends the stream",
        "receiver/session.py",
        "    (Full, Code.PAUSE),\n",
        "",
        "server",
    ),
    # --- compression
    Mutant(
        "compression: what a frame says of its size is not compared with the chunk's",
        "wire/packing.py",
        "if frame.decompressed_size != length:",
        "if False:",
        "compression",
    ),
    Mutant(
        "compression: a chunk may unpack to more than a chunk holds",
        "wire/packing.py",
        "if not 0 < length <= cap:",
        "if length <= 0:",
        "compression",
    ),
    Mutant(
        "compression: what stands behind a frame is passed over",
        "wire/packing.py",
        "if unpacking.unused_data:",
        "if False:",
        "compression",
    ),
    Mutant(
        "compression: a frame may look back as far as it likes",
        "wire/packing.py",
        "window_log_max: _MAX_WINDOW_LOG",
        "window_log_max: 31",
        "compression",
    ),
    Mutant(
        "compression: what needs a dictionary is tried without",
        "wire/packing.py",
        "if frame.dictionary_id:",
        "if False:",
        "compression",
    ),
    Mutant(
        "compression: the digest of what was unpacked is not looked at",
        "receiver/session.py",
        "            new = receiver.chunk(chunk)\n            if len(new):\n                server.take",
        "            new = chunk.data\n"
        "            receiver.digest, receiver.accepted = packed.digest, packed.offset + len(new)\n"
        "            if len(new):\n                server.take",
        "compression",
    ),
    Mutant(
        "compression: size and place are looked at when it is unpacked",
        "receiver/session.py",
        "        receiver.admit(packed.offset, size)\n",
        "",
        "compression",
    ),
    Mutant(
        "compression: the quota is asked when it is unpacked",
        "receiver/session.py",
        "        server.take(self, 0)",
        "        pass",
        "compression",
    ),
    Mutant(
        "compression: what came compressed counts in no quota",
        "receiver/session.py",
        "                server.take(self, len(new))\n",
        "",
        "compression",
    ),
    Mutant(
        "compression: as many chunks are unpacked as there are calls",
        "receiver/session.py",
        "async with self._turn(size, server.unpacked):",
        "async with contextlib.nullcontext():",
        "compression",
    ),
    Mutant(
        "compression: chunks are compressed for a receiver that did not say that it takes them",
        "wire/packing.py",
        "self._taken = self._compressing.wanted and Codec.ZSTD in reply.codecs",
        "self._taken = self._compressing.wanted",
        "compression",
    ),
    Mutant(
        "compression: a receiver that was told to take none takes them",
        "wire/packing.py",
        "self._taken = taken and AVAILABLE",
        "self._taken = AVAILABLE",
        "compression",
    ),
    Mutant(
        "compression: a receiver that takes none does not refuse them",
        "receiver/session.py",
        "        server.unpacking.demand(packed)\n",
        "",
        "compression",
    ),
    Mutant(
        "compression: loopback is like any network",
        "wire/packing.py",
        'not (mode == "auto" and near)',
        "True",
        "compression",
    ),
    Mutant(
        "compression: a tunnel's entrance is taken for the receiver",
        "wire/packing.py",
        "is_loopback(name or parse_address(receiver)[0])",
        "is_loopback(parse_address(receiver)[0])",
        "compression",
    ),
    Mutant(
        "compression: large chunks are compressed in the loop",
        "wire/packing.py",
        "if size < LARGE:",
        "if True:",
        "compression",
    ),
    Mutant(
        "worth: what does not become shorter is sent compressed all the same",
        "delivery/worth.py",
        "if packed * PAYS <= size:",
        "if True:",
        "worth compression",
    ),
    Mutant(
        "worth: what did not pay is tried with every chunk",
        "delivery/worth.py",
        "if self._rest > 0:",
        "if False:",
        "worth",
    ),
    Mutant(
        "worth: nobody looks whether it goes faster without",
        "delivery/worth.py",
        "if self._packing >= took * MOST and",
        "if False and",
        "worth",
    ),
    Mutant(
        "worth: what was once decided is never looked at again",
        "delivery/worth.py",
        "if not self._packs and not self._trying and now >= self._compare_at:",
        "if False:",
        "worth",
    ),
    Mutant(
        "worth: a comparison takes as long as the network likes",
        "delivery/worth.py",
        "if self._trying and took * FASTER > self._packed_lap:",
        "if self._trying and self._done >= SETTLE + LAP and took * FASTER > self._packed_lap:",
        "worth",
    ),
    # --- the private CA
    Mutant(
        "certs: what a killed command left of a pair stays",
        "security/certs.py",
        "            _settle(directory, left)\n",
        "            pass\n",
        "certs",
    ),
    Mutant(
        "certs: half a pair is kept",
        "security/certs.py",
        "        for final in ours:\n",
        "        for final in ours[:0]:\n",
        "certs",
    ),
    Mutant(
        "certs: a whole pair is taken back",
        "security/certs.py",
        "if len(ours) < waiting_count:",
        "if True:",
        "certs",
    ),
    Mutant(
        "certs: a file that is there is overwritten",
        "security/certs.py",
        "os.link(directory",
        "os.rename(directory",
        "certs",
    ),
    Mutant(
        "certs: a key is as open as the umask lets it be",
        "security/certs.py",
        "        os.fchmod(fd, 0o600)  # whatever the umask takes away\n",
        "",
        "certs",
    ),
    Mutant(
        "certs: a site can pose as the receiver",
        "security/certs.py",
        "ExtendedKeyUsageOID.CLIENT_AUTH",
        "ExtendedKeyUsageOID.SERVER_AUTH",
        "certs",
    ),
    Mutant(
        "certs: a site's key signs others",
        "security/certs.py",
        "ca=False, path_length=None",
        "ca=True, path_length=None",
        "certs",
    ),
    Mutant(
        "certs: a clock that is behind refuses what is new",
        "security/certs.py",
        "now - SKEW",
        "now",
        "certs",
    ),
    Mutant(
        "certs: a certificate outlives its CA",
        "security/certs.py",
        "min(now + timedelta(days=days), ca.not_valid_after_utc)",
        "now + timedelta(days=days)",
        "certs",
    ),
    Mutant(
        "certs: others may put a CA of their own there",
        "security/certs.py",
        "& 0o022",
        "& 0",
        "certs",
    ),
    Mutant(
        "certs: others may read the CA's key",
        "security/certs.py",
        "& 0o077",
        "& 0",
        "certs",
    ),
    # --- who may do what
    Mutant(
        "policy: a site pushes as another",
        POLICY,
        "(own := site_of(identity)) != site:",
        "(own := site_of(identity)) == site and False:",
        "policy",
    ),
    Mutant(
        "policy: a site sees what others have",
        POLICY,
        "return site_of(identity) == site or site is None",
        "return bool(site_of(identity))",
        "policy",
    ),
    Mutant(
        "policy: nobody is somebody",
        POLICY,
        '        if identity.how == "none":\n            raise',
        "        if False:\n            raise",
        "policy",
    ),
    Mutant(
        "policy: a role is for all runs",
        POLICY,
        "or (run is not None and not _any_of(runs, [run])):",
        "or False:",
        "policy",
    ),
    Mutant(
        "policy: one selector of several is enough",
        POLICY,
        "return bool(asked) and all(asked)",
        "return any(asked)",
        "policy",
    ),
    Mutant(
        "policy: a reader's certificate pushes",
        POLICY,
        'yield (Role.READER if reads else Role.SITE), ("*",)',
        'yield (Role.READER if reads else Role.SITE), ("*",)\n                yield Role.SITE, ("*",)',
        "policy",
    ),
    Mutant(
        "certificate: a name that holds a NUL names somebody",
        "security/certificate.py",
        'if any("\\0" in text for text in (*texts, *dns, *emails, *uris, *directories)):',
        "if False:",
        "certificate",
    ),
    Mutant(
        "certificate: a URI or an e-mail address is a site's name",
        "security/certificate.py",
        "dns_names=tuple(dict.fromkeys(dns)),",
        "dns_names=tuple(dict.fromkeys((*dns, *emails, *uris))),",
        "certificate",
    ),
    Mutant(
        "certificate: an e-mail address that is none is somebody's name",
        "security/certificate.py",
        '*(one for one in emails if "@" in one),',
        "*emails,",
        "certificate",
    ),
    Mutant(
        "certificate: who was believed once is believed for ever",
        "security/certificate.py",
        "        if now > until:\n",
        "        if False:\n",
        "certificate",
    ),
    Mutant(
        "certificate: whoever signed it is a CA",
        "security/certificate.py",
        "if _is_ca(one) and _signed(certificate, one):",
        "if _signed(certificate, one):",
        "certificate",
    ),
    Mutant(
        "certificate: anybody's revocation list is heeded",
        "security/certificate.py",
        "if one.subject == listed.issuer and _vouches(one, listed)]",
        "if one.subject == listed.issuer]",
        "certificate",
    ),
    Mutant(
        "certificate: who is revoked may come with a CA between",
        "security/certificate.py",
        "        if any(one.names(certificate) for one in self._lists):\n            return None\n",
        "",
        "certificate",
    ),
    Mutant(
        "policy: an unknown key is passed over", POLICY, "        if key not in keys:", "        if False:", "policy"
    ),
    Mutant(
        "tokens: the secret is stored",
        TOKENS,
        "int(now) + lifetime, _digest(secret))",
        "int(now) + lifetime, secret)",
        "tokens",
    ),
    Mutant(
        "tokens: an expired one lets in",
        TOKENS,
        "return found.identity() if found is not None and now < found.expires else None",
        "return found.identity() if found is not None else None",
        "tokens",
    ),
    Mutant(
        "tokens: a revoked one lets in",
        TOKENS,
        "        if seen != self._seen:\n            self._tokens, self",
        "        if self._seen is None:\n            self._tokens, self",
        "tokens",
    ),
    Mutant("tokens: others may add some", TOKENS, "if status.st_mode & 0o022:", "if False:", "tokens"),
    Mutant(
        "tokens: anybody's file is believed", TOKENS, "if status.st_uid not in self._owners():", "if False:", "tokens"
    ),
    Mutant(
        "tokens: the file can be read by all",
        TOKENS,
        "os.O_CLOEXEC, 0o600, dir_fd",
        "os.O_CLOEXEC, 0o644, dir_fd",
        "tokens",
    ),
    Mutant(
        "tokens: two changes at once lose one", TOKENS, "            fcntl.flock(held, fcntl.LOCK_EX)\n", "", "tokens"
    ),
    Mutant(
        "tokens: a token file that others can read is taken",
        TOKENS,
        "(0o077 if status.st_uid else 0o037)",
        "0",
        "tokens",
    ),
    Mutant(
        "access: a policy that became wrong lets nobody in",
        ACCESS,
        'log.error("the policy stays as it was: %s", error)',
        'log.error("the policy stays as it was: %s", error)\n                self._policy = Policy(defaults=False)',
        "tokens",
    ),
    # --- who may stay
    Mutant(
        "standing: a call of whom nobody believes any more goes on",
        "receiver/standing.py",
        "call.leave_all(str(error), Code.REJECTED if isinstance(error, NotAllowed) else Code.GOING_AWAY)",
        "pass",
        "standing",
    ),
    Mutant(
        "standing: who could come again is refused for good",
        "receiver/standing.py",
        "Code.REJECTED if isinstance(error, NotAllowed) else Code.GOING_AWAY)",
        "Code.REJECTED)",
        "standing",
    ),
    Mutant(
        "standing: an old connection goes on",
        "receiver/standing.py",
        "                call.leave_all(OLD)\n",
        "                pass\n",
        "standing",
    ),
    Mutant(
        "standing: a site is told of runs that it is not in",
        "receiver/admission.py",
        "return self._sites.has(run, site_of(identity))",
        "return True",
        "standing",
    ),
    # --- who comes in
    Mutant(
        "guard: a stranger comes in as nobody",
        GUARD,
        "        raise NotAuthenticated(UNKNOWN)\n",
        "        return context\n",
        "guard",
    ),
    Mutant(
        "guard: a certificate is looked at where a token is asked for",
        GUARD,
        "        if action is None:\n            return context\n",
        "        if action is None or context.auth_context():\n            return context\n",
        "guard",
    ),
    Mutant(
        "guard: the answer to a stranger does not wait",
        GUARD,
        "                await asyncio.sleep(wait)\n",
        "                pass\n",
        "guard",
    ),
    Mutant(
        "guard: everybody's answer waits",
        GUARD,
        "        if identity is not None:\n            return TokenCall",
        "        if identity is not None:\n            await asyncio.sleep(1)\n            return TokenCall",
        "guard",
    ),
    Mutant(
        "guard: any number of answers waits",
        GUARD,
        "        if self._waiting < MAX_WAITING:",
        "        if True:",
        "guard",
    ),
    Mutant(
        "guard: of two secrets the first is taken",
        GUARD,
        "    if len(said) != 1 or not",
        "    if not said or not",
        "guard",
    ),
    Mutant(
        "guard: a long read goes on without its token",
        GUARD,
        'if identity.how == "token" and (',
        "if False and (",
        "guard",
    ),
    Mutant(
        "guard: a long read is never asked again",
        GUARD,
        "            if clock() >= due:",
        "            if False:",
        "guard",
    ),
    Mutant(
        "guard: a read that is asked again begins anew",
        GUARD,
        "                start = piece[0] + len(piece[1])\n",
        "                pass\n",
        "guard",
    ),
    Mutant(
        "guard: a refusal is not bounded in the audit",
        GUARD,
        "        if self._refusals.says(",
        "        if True or self._refusals.says(",
        "guard",
    ),
    Mutant(
        "guard: what was not said is not counted",
        GUARD,
        "self._refusals.over(now, at_once):",
        "[]:",
        "guard",
    ),
    Mutant(
        "guard: revoked tokens are not said",
        GUARD,
        ', ("revoked", gone)):',
        ",):",
        "guard",
    ),
    Mutant(
        "guard: a file of tokens that is not to be believed counts as revoked",
        TOKENS,
        "        if not self._believed:",
        "        if False:",
        "guard",
    ),
    Mutant(
        "guard: tokens are not asked for over TLS alone",
        "wire/codec.py",
        "        if token:\n            raise InvalidOption(",
        "        if False:\n            raise InvalidOption(",
        "tls",
    ),
    Mutant(
        "guard: a port for readers without TLS",
        "receiver/server.py",
        '        if self.tls is None:\n            raise InvalidOption(\n                f"--reader',
        '        if False:\n            raise InvalidOption(\n                f"--reader',
        "guard",
    ),
    Mutant(
        "guard: streams go on whatever the policy becomes",
        "receiver/standing.py",
        "                session.leave(Code.REJECTED, str(error))\n",
        "                pass\n",
        "server",
    ),
    Mutant(
        "guard: a receiver without a certificate of its own",
        "receiver/server.py",
        "        if self.tls is not None:\n            self.tls.whole()\n",
        "",
        "tls",
    ),
    Mutant(
        "guard: certificates that make no sense replace the old ones",
        "security/tls.py",
        "except InvalidOption as error:\n                    log.error(",
        "except InvalidOption as error:\n                    del self._made\n                    log.error(",
        "tls",
    ),
    Mutant(
        "refusals: an answer waits without a bound",
        REFUSALS,
        "min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(count - 1, 10))",
        "FIRST_WAIT * 2.0 ** (count - 1)",
        "refusals",
    ),
    Mutant(
        "refusals: nobody is forgiven",
        REFUSALS,
        "1 if now - last >= FORGIVEN else count + 1",
        "count + 1",
        "refusals",
    ),
    Mutant(
        "refusals: addresses are remembered without a bound",
        REFUSALS,
        "if len(self._failures) > MAX_ADDRESSES:",
        "if False:",
        "refusals",
    ),
    Mutant(
        "refusals: each address of a network is another peer",
        REFUSALS,
        "ipaddress.ip_network((found, 64), strict=False)",
        "found",
        "refusals",
    ),
    Mutant(
        "refusals: kinds are told apart without a bound",
        REFUSALS,
        "len(self._kinds) >= MAX_KINDS:",
        "False:",
        "refusals",
    ),
    Mutant(
        "refusals: connections on their way count as lost",
        REFUSALS,
        "lowest = min(self._missing)",
        "lowest = max(self._missing)",
        "refusals",
    ),
    Mutant(
        "refusals: peers are remembered without a bound",
        REFUSALS,
        "if len(self._peers) >= MAX_PEERS:",
        "if False:",
        "refusals",
    ),
    # --- the view
    Mutant(
        "view: half a glyph does not wait for its rest",
        SCREEN,
        "self._decoder.decode(data, final)",
        "self._decoder.decode(data, True)",
        "screen",
    ),
    Mutant(
        "view: what is no UTF-8 is not counted",
        SCREEN,
        "self.replaced += text.count(_SUBSTITUTED)",
        "pass",
        "screen",
    ),
    Mutant(
        "view: a U+FFFD that was written is counted",
        SCREEN,
        '_SUBSTITUTED = "\\udc00"',
        '_SUBSTITUTED = "\\ufffd"',
        "screen",
    ),
    Mutant(
        "view: a carriage return ends a line",
        SCREEN,
        "                    self._column, self._returned = 0, True\n",
        "                    self._line_feed(out)\n",
        "screen",
    ),
    Mutant(
        "view: other escape sequences come through",
        SCREEN,
        'elif kind == "string":\n                    self._in_string = True',
        'elif kind == "escape":\n                    self._write(token[0])',
        "screen",
    ),
    Mutant(
        "view: a control character comes through on the fast path",
        CONTROLS,
        'rb"[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]',
        'rb"[\\x00-\\x06\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]',
        "screen",
    ),
    Mutant(
        "view: what reorders a line comes through",
        CONTROLS,
        "\\u200e\\u200f\\u202a-\\u202e\\u2066",
        "\\u2066",
        "screen",
    ),
    Mutant(
        "view: a private sequence is taken for a colour",
        SCREEN,
        'known = not parameters.strip("0123456789;:")',
        'known = not parameters.strip("0123456789;:>?!")',
        "screen",
    ),
    Mutant(
        "view: hidden text stays hidden",
        "render/sgr.py",
        '_SET |= {21: "underline", 53: "over"}',
        '_SET |= {21: "underline", 53: "over", 8: "blink"}',
        "screen",
    ),
    Mutant(
        "view: what costs too much is drawn to its end",
        SCREEN,
        "            if allowance.work < 0:\n                if kind",
        "            if False:\n                if kind",
        "costs",
    ),
    Mutant(
        "view: a row that a cursor has left may be as long as it likes",
        REACH,
        "            if self.held > HELD:",
        "            if False:",
        "costs",
    ),
    Mutant(
        "view: a log may make more output than its size allows",
        REACH,
        "            if not self._allowance.show(",
        "            if False and self._allowance.show(",
        "costs",
    ),
    Mutant(
        "logs: a log that costs too much keeps the others waiting",
        "viewers/batch.py",
        "if most and each.flow.spent > most:",
        "if False:",
        "following",
    ),
    Mutant(
        "sieve: each tiny line is looked at",
        SIEVE,
        '            left -= look + raw.count(b"\\r") // 2\n',
        "",
        "sieve",
    ),
    Mutant(
        "view: a string without an end goes on for ever",
        CONTROLS,
        "(?=[\\n\\x18\\x1a])",
        "(?=[\\x18\\x1a])",
        "screen",
    ),
    Mutant(
        "view: clearing loses what was there",
        REACH,
        "        self.page = self.row = len(self.rows)\n        self.drop(final, out)\n",
        "        self.rows.clear()\n        self.row = 0\n",
        "screen",
    ),
    Mutant(
        "view: a colour leaks into what follows",
        ROWS,
        '(RESET if now else "")',
        '""',
        "screen",
    ),
    Mutant(
        "view: a colour that is in force is forgotten at the end of a line",
        SCREEN,
        "self.position + len(line), style",
        'self.position + len(line), ""',
        "screen",
    ),
    Mutant(
        "view: half of a wide glyph stays",
        ROWS,
        "            self.split(column)\n            self.split(column + count)\n",
        "",
        "screen",
    ),
    Mutant(
        "view: a line has no bound",
        SCREEN,
        "        if row.size + length > self._reach.room:",
        "        if False:",
        "costs",
    ),
    Mutant(
        "view: a cut line has no mark",
        ROWS,
        "text[: limit - len(MARK)] + MARK if",
        "text[:limit] if",
        "screen container",
    ),
    Mutant(
        "view: a bar is shown at each of its states",
        SCREEN,
        "(decile != row.decile or now - row.at >= STEP_SECONDS)",
        "True",
        "screen",
    ),
    Mutant(
        "view: a bar without a percentage is never shown",
        SCREEN,
        "or now - row.at >= STEP_SECONDS)",
        ")",
        "screen",
    ),
    Mutant(
        "view: what settled is given out twice",
        REACH,
        "            self._settled = index + 1\n",
        "            pass\n",
        "screen",
    ),
    Mutant(
        "view: partial lines are joined across streams",
        CONTAINER,
        'name = record.stream or ""',
        'name = ""',
        "container",
    ),
    Mutant(
        "view: a partial line ends at its record",
        CONTAINER,
        "log = record.log if record.partial else",
        "log =",
        "container",
    ),
    Mutant(
        "view: more than one blank parts the tag from the text",
        CONTAINER,
        "(?P<tags>[^ ]+)(?: (?P<log>.*))?",
        "(?P<tags>[^ ]+)(?: +(?P<log>.*))?",
        "container",
    ),
    Mutant(
        "view: the streams' lines lose their order",
        CONTAINER,
        "            out += self._others(screen, before)\n",
        "            pass\n",
        "container",
    ),
    Mutant(
        "view: what is no record is left out",
        CONTAINER,
        "            self._raw(line, now, out)\n            self._seen",
        "            self._seen",
        "container",
    ),
    Mutant(
        "view: a silent log stalls the others",
        MERGE,
        "        while heads and (waiting or",
        "        while len(heads) == len(self._queues) and (waiting or",
        "merge",
    ),
    Mutant(
        "view: a line without a stamp leaves the one that it belongs to",
        MERGE,
        "int(now * SECOND) if latest is None else latest",
        "int(now * SECOND)",
        "merge",
    ),
    Mutant(
        "view: a clock that is ahead is believed",
        MERGE,
        "time -= ahead\n",
        "pass\n",
        "merge",
    ),
    Mutant(
        "view: what is held has no bound",
        MERGE,
        "or self._count > self._most",
        "or False",
        "merge",
    ),
    Mutant(
        "view: a traceback is torn",
        MERGE,
        "if self._block and self._belongs",
        "if False and self._belongs",
        "merge",
    ),
    Mutant(
        "view: an exclusion does not outweigh",
        "render/choose.py",
        "            return False\n        return not choice.include",
        "            return bool(choice.include)\n        return not choice.include",
        "choose",
    ),
    Mutant(
        "view: the zone of a time stamp is ignored",
        "render/times.py",
        '(seconds - _offset(parts.get("z"), zone))',
        "seconds",
        "times",
    ),
    # --- copies, and a site's word
    Mutant(
        "mirror: a copy that somebody changed stays as it is",
        "sinks/mirror.py",
        "if await self.store.aside(partial(self._sum, stream)) != held:",
        "if False:",
        "mirror",
    ),
    Mutant(
        "mirror: a run's directory is made",
        "sinks/mirror.py",
        'return Directory(self.root / stream.run, (stream.site, *stream.log.split("/")[:-1]), make=make)',
        'return Directory(self.root, (stream.run, stream.site, *stream.log.split("/")[:-1]), make=make)',
        "mirror",
    ),
    Mutant(
        "mirror: it ends with what is there",
        "sinks/mirror.py",
        "self.store.growth(stream, follow=True)",
        "self.store.growth(stream, follow=False)",
        "mirror",
    ),
    Mutant(
        "expiry: the age of a run is that of its directory",
        "stores/local/removal.py",
        'for name in (".", *names):',
        'for name in (".",):',
        "expiry",
    ),
    Mutant(
        "expiry: what a crash left stays",
        "stores/local/removal.py",
        "if name.startswith(REMOVED):",
        "if False:",
        "expiry",
    ),
    Mutant(
        "removal: a run goes under an open stream",
        "stores/local/store.py",
        "if opened := self.open_streams(run, site):",
        "if opened := []:",
        "stores",
    ),
    Mutant(
        "removal: a stream is opened in a run that is being removed",
        "stores/local/store.py",
        'if not self._leaving.isdisjoint(((stream.run, ""), (stream.run, stream.site))):',
        "if False:",
        "stores",
    ),
    Mutant(
        "removal: whoever follows a stream that is gone goes on with the next of its name",
        "stores/local/store.py",
        "if wake in self._ended:",
        "if False:",
        "stores",
    ),
    Mutant(
        "retention: a date that has jumped is believed at once",
        "receiver/retention.py",
        "Stamp(wall, DAY if passed - elapsed > DAY else",
        "Stamp(wall, DAY if False else",
        "retention",
    ),
    Mutant(
        "retention: what this process has seen change is as old as its files say",
        "receiver/retention.py",
        "return min(wall - found.changed, clock - since)",
        "return wall - found.changed",
        "retention",
    ),
    Mutant(
        "retention: a run goes for its bytes that has not ended",
        "receiver/retention.py",
        "if ended and await self._gone(run, found[run], why):",
        "if await self._gone(run, found[run], why):",
        "retention",
    ),
    Mutant(
        "removal: a run goes whose stream was closed while its files were looked at",
        "stores/local/store.py",
        "if was is not None and (found != was or run in self._changed_runs):",
        "if was is not None and found != was:",
        "expiry",
    ),
    Mutant(
        "removal: a run goes whose state was being written when its files were looked at",
        "stores/local/store.py",
        "            async with self._run_locks.setdefault(run, asyncio.Lock()):  # nobody writes its state meanwhile\n"
        "                self._changed_runs.discard(run)\n"
        "                found = await self.aside(partial(extent, place))\n",
        "            self._changed_runs.discard(run)\n"
        "            found = await self.aside(partial(extent, place))\n"
        "            async with self._run_locks.setdefault(run, asyncio.Lock()):\n",
        "expiry",
    ),
    Mutant(
        "removal: a run goes that has changed since it was found old",
        "stores/local/store.py",
        "if was is not None and (found != was or run in self._changed_runs):",
        "if False:",
        "retention",
    ),
    Mutant(
        "removal: a stream that was let pass opens a run that nobody knows any more",
        "receiver/admission.py",
        "            while not self._is_admitted(stream):",
        "            while False:",
        "removals",
    ),
    Mutant(
        "removal: the end of a removed run ends another of its name",
        "receiver/server.py",
        "self._finishing.pop(run).cancel()",
        "pass",
        "removals",
    ),
    Mutant(
        "removal: a producer brings back what was removed while he was at it",
        "receiver/removals.py",
        "if (stream.run, stream.site, opened.producer) in self._barred:",
        "if False:",
        "removals",
    ),
    Mutant(
        "chronicle: a record grows for ever",
        "stores/local/chronicle.py",
        "if size + len(lines) > LIMIT:",
        "if False:",
        "chronicle",
    ),
    Mutant(
        "chronicle: what is written behind a torn line is lost with it",
        "stores/local/chronicle.py",
        'torn = size and os.pread(fd, 1, size - 1) != b"\\n"',
        "torn = False",
        "chronicle",
    ),
    Mutant(
        "happenings: a stream that is paused is told of each time that it asks",
        "receiver/happenings.py",
        "if self.paused.get(stream) != reason:",
        "if True:",
        "chronicle",
    ),
    Mutant(
        "store: a list of one run looks at all of them",
        "stores/local/store.py",
        "partial(self._directories, only=one_run)",
        "self._directories",
        "store_paths",
    ),
    Mutant(
        "reader: a piece that comes again is shown again",
        FLOW,
        "data = bytes(data)[max(0, self.position - offset) :]",
        "data = bytes(data)",
        "flow",
    ),
    Mutant(
        "reader: marks are told as often as they come",
        FLOW,
        "self._pending.extend(marks[self.marks - first :])",
        "self._pending.extend(marks)",
        "flow",
    ),
    Mutant(
        "reader: a gap does not tear its line",
        FLOW,
        "lines = self._renderer.close() if torn else self._renderer.settle()",
        "lines = self._renderer.settle()",
        "flow",
    ),
    Mutant(
        "reader: a foreign site's words go to the terminal as they are",
        FLOW,
        'text, name = f"gap: {many}: {legible(mark.reason)}", "gap"',
        'text, name = f"gap: {many}: {mark.reason}", "gap"',
        "flow",
    ),
    Mutant(
        "reader: what lies beyond the last lines counts among them",
        FLOW,
        "if self._tail is not None and offset < self._until < offset + len(data):",
        "if False:",
        "flow",
    ),
    Mutant(
        "reader: what is left out early is no gap between groups",
        FLOW,
        """            self._renderer.jump(offset)
            self._chooser.skip()
        while data:""",
        """            self._renderer.jump(offset)
        while data:""",
        "flow",
    ),
    Mutant(
        "reader: what a container runtime wrote is sieved",
        "viewers/reading.py",
        "sieve = self._sieve if each.flow.plain else None",
        "sieve = self._sieve",
        "following",
    ),
    Mutant(
        "logs: a line that comes late for its place takes others along",
        MERGE,
        "if time is not None and time > latest:",
        "if time is not None:",
        "merge",
    ),
    Mutant(
        "logs: of two lines with one time the second log's goes first",
        MERGE,
        "bisect_right if number < other else bisect_left",
        "bisect_right",
        "merge",
    ),
    Mutant(
        "times: an ISO stamp is in no zone",
        "render/times.py",
        "_offset(its_zone, zone)",
        "zone",
        "times",
    ),
    Mutant(
        "reader: a line without a time is left out early where times choose",
        FLOW,
        "choice.since is not None or choice.until is not None",
        "False",
        "flow",
    ),
    Mutant(
        "reader: the first error is the one that came first",
        "viewers/display.py",
        "key=lambda each: (each.time is None, each.time or 0)",
        "key=lambda each: 0",
        "following",
    ),
    Mutant(
        "sieve: lines that control characters could make a match of are left out",
        SIEVE,
        "elif first not in found and self._may_match(raw):",
        "elif False:",
        "sieve",
    ),
    Mutant(
        "sieve: a block without a move of the cursor is searched for whole texts alone",
        SIEVE,
        "if moves or self._may_hold(region, heap) else",
        "if moves else",
        "sieve",
    ),
    Mutant(
        "sieve: a letter in another case is none of a text's",
        SIEVE,
        "if self._sieve.ignore_case and any(head in region for head in _OTHER_HEADS):",
        "if False:",
        "sieve",
    ),
    Mutant(
        "sieve: lines that a cursor goes back to are left out",
        SIEVE,
        "before, after = max(self._sieve.before, WINDOW if self._moved else 0), self._sieve.after",
        "before, after = self._sieve.before, self._sieve.after",
        "sieve",
    ),
    Mutant(
        "sieve: the lines behind a match are forgotten at a piece's end",
        SIEVE,
        "end, self._owed = _forth(block, at, owed, cut)",
        "end, _ = _forth(block, at, owed, cut)",
        "sieve",
    ),
    Mutant(
        "sieve: one way of a pattern is enough",
        "render/literals.py",
        "return None if None in ways else",
        "return",
        "sieve",
    ),
    Mutant(
        "sieve: a peer's request may take as long as it likes",
        SIEVE,
        'if text.count(b"\\r") * max(map(len, text.split(b"\\r"))) > _DRAWN:',
        "if False:",
        "sieve",
    ),
    Mutant(
        "workers: a site is every worker's",
        "receiver/workers.py",
        "return self.owner(run, site) == self.number",
        "return True",
        "workers",
    ),
    Mutant(
        "workers: a run whose bytes are limited is shared out",
        "receiver/workers.py",
        'return owner(run, "" if self.whole_runs else site, self.count)',
        "return owner(run, site, self.count)",
        "workers",
    ),
    Mutant(
        "workers: what is passed on is the other worker's",
        "receiver/workers.py",
        "        super().__init__(context, identity)\n",
        "        super().__init__(context, Identity())\n",
        "workers",
    ),
    Mutant(
        "workers: a producer is sent about for ever",
        "receiver/workers.py",
        "return 0 < moves <= MOVES * self.count",
        "return 0 < moves",
        "workers",
    ),
    Mutant(
        "store: a worker gives back the lock of all",
        LOCAL,
        "        if self._lent < 0:\n",
        "        if True:\n",
        "stores",
    ),
    Mutant(
        "store: a worker lists what is another's",
        LOCAL,
        "if (self._mine is not None and not self._mine(run, site)) or not wanted(run, site):",
        "if not wanted(run, site):",
        "stores",
    ),
    Mutant(
        "jobs: a site's word is not asked for",
        "integrations/jobs.py",
        'if action is Action.PUSH and not self.allowed(site or ""):',
        "if False:",
        "jobs",
    ),
    Mutant(
        "unsent: trouble with one job ends the sending of all",
        "integrations/nvflare/unsent.py",
        "except Exception as error:  # also what the framework's own objects raise",
        "except ZeroDivisionError as error:",
        "unsent",
    ),
    Mutant(
        "unsent: a job is forgotten while its process may still write",
        "integrations/nvflare/unsent.py",
        "if now - left.still >= STILL:",
        "if True:",
        "unsent",
    ),
    Mutant(
        "jobs: a site's word is all that is asked for",
        "integrations/jobs.py",
        "        super().allows(identity, action, run=run, site=site)\n",
        "",
        "jobs",
    ),
    Mutant(
        "cli: what a burst has taken is kept",
        "cli/__init__.py",
        "            trim(0)\n",
        "",
        "memory",
    ),
    Mutant(
        "receiver: heartbeats push out the digests of chunks",
        "delivery/receiver.py",
        "        if len(new):\n            self.accepted",
        "        if True:\n            self.accepted",
        "receiver",
    ),
    Mutant(
        "peers: a call that gives up while it waits is counted for ever",
        "receiver/peers.py",
        "            undo.callback(self._calls.give_back, name)\n",
        "",
        "peers",
    ),
    # --- what one site takes of what is everybody's
    Mutant(
        "peers: one peer may have all the turns at once",
        "receiver/peers.py",
        "return self._free > 0 and self._having[key] < self._each",
        "return self._free > 0",
        "shares",
    ),
    Mutant(
        "shares: a site's runs count against all",
        "delivery/shares.py",
        'total = self._made[""] if self._certified else len(self._makers)',
        "total = len(self._makers)",
        "shares",
    ),
    Mutant(
        "shares: a run that has ended counts",
        "delivery/shares.py",
        "        maker = self._makers.pop(run, None)\n",
        "        maker = None\n",
        "shares",
    ),
    Mutant(
        "shares: an announced run stays its site's",
        "delivery/shares.py",
        '            self._count(run, "")\n',
        "            pass\n",
        "shares",
    ),
    Mutant(
        "shares: a site without certificates has a default",
        "delivery/shares.py",
        "(MAX_SITE_RUNS if certified else None)",
        "MAX_SITE_RUNS",
        "shares",
    ),
    Mutant(
        "shares: what is being made does not count",
        "delivery/shares.py",
        "others, limits = self._making.get(site) or Footprint(), self._limits",
        "others, limits = Footprint(), self._limits",
        "shares",
    ),
    Mutant(
        "shares: what was to be made counts for ever",
        "delivery/shares.py",
        "making.add(-new.logs, -new.directories)",
        "making.add()",
        "shares",
    ),
    Mutant(
        "shares: a log that is there counts once more",
        "stores/local/store.py",
        "        if os.path.lexists(journal):\n            return held, Footprint()\n",
        "",
        "shares",
    ),
    Mutant(
        "shares: directories that are made are not counted",
        "stores/local/store.py",
        'int(number >= len(("run", "site")))',
        "0",
        "shares",
    ),
    Mutant(
        "shares: a journal that grows is not counted",
        "stores/local/appender.py",
        "        self.footprint.add(journal_bytes=done)\n",
        "",
        "shares",
    ),
    Mutant(
        "shares: a removed site's logs count",
        "stores/local/store.py",
        "for of_sites in (self._epochs, self.footprints):",
        "for of_sites in (self._epochs,):",
        "shares",
    ),
    Mutant(
        "listing: an older receiver's streams are listed again and again",
        "wire/listing.py",
        "and names > behind:",
        "and True:",
        "listing",
    ),
    Mutant(
        "listing: a list ends with its first page",
        "wire/listing.py",
        "return heard == len(self.found) - before == PAGE",
        "return False",
        "listing",
    ),
    Mutant(
        "listing: what is collected is bounded for each page alone",
        "wire/listing.py",
        "self._size += len(raw) + 200",
        "self._size = len(raw) + 200",
        "listing",
    ),
    Mutant(
        "callers: a quota goes by the common name",
        "security/callers.py",
        'return f"certificate {site_of(identity)!r}"',
        'return f"certificate {identity.common_name!r}"',
        "callers",
    ),
    Mutant(
        "callers: two certificates are one caller",
        "security/callers.py",
        'return f"{name_of(identity)} (SHA-256 {identity.fingerprint})" if identity.fingerprint else name_of(identity)',
        "return name_of(identity)",
        "callers",
    ),
    Mutant(
        "shares: directories are made under one lock",
        "stores/local/directory.py",
        "return _making.setdefault(path, threading.Lock())",
        "return _making.setdefault(Path(), threading.Lock())",
        "shares",
    ),
]


class Rotten(Exception):
    """The table no longer fits the tree."""


def mutated(mutant: Mutant, tree: Path) -> str:
    """The text of the mutant's file with the mutation in it. Raises Rotten."""
    text = (tree / "flarelog" / mutant.file).read_text()
    if (found := text.count(mutant.old)) != 1:
        raise Rotten(
            f"{mutant.name!r}: its snippet is in flarelog/{mutant.file} {found} times, not once: {mutant.old!r}"
        )
    changed = text.replace(mutant.old, mutant.new)
    try:
        compile(changed, mutant.file, "exec")
    except SyntaxError as error:
        raise Rotten(f"{mutant.name!r}: flarelog/{mutant.file} is no Python any more: {error}") from error
    return changed


@contextmanager
def copy() -> Iterator[Path]:
    """A copy of the tree that a mutation may be made in."""
    with tempfile.TemporaryDirectory(prefix="flarelog-mutant-") as temporary:
        for name in COPIED:
            if (TREE / name).is_dir():
                shutil.copytree(TREE / name, Path(temporary, name), ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(TREE / name, Path(temporary, name))
        # A mutation may have the size and the second of what it replaces: a compiled module is believed by its
        # source's hash alone, and Python keeps to that when it compiles one again.
        compiled = Path(temporary, "flarelog")
        compileall.compile_dir(compiled, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
        yield Path(temporary)


# --- a run of tests: a fork of this process, which has imported what they need but nothing of the tree


class _Telling:
    """A plugin of pytest's that tells the parent what happens, a JSON array a line. Quick tests come first."""

    def __init__(self, pipe: int, took: dict[str, float]) -> None:
        self._pipe, self._took = pipe, took

    def tell(self, what: str, test: str = "", number: float = 0.0) -> None:
        os.write(self._pipe, f"{json.dumps([what, test, number])}\n".encode())

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """One example that fails is enough: no smaller one is looked for."""
        phases = [Phase.explicit, Phase.reuse, Phase.generate]
        settings.register_profile("mutants", settings.default, phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self._took.get(item.nodeid, 0.0))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.tell("begins", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tell("failed" if report.failed else "took", report.nodeid, report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.tell("failed", report.nodeid)


def run_tests(tree: Path, files: Iterable[str], pipe: int, took: dict[str, float]) -> NoReturn:
    """Run *files* of *tree* up to the first failure, importing flarelog from there, and end this process."""
    telling = _Telling(pipe, took)
    try:
        os.setsid()
        said = os.open(tree / SAID, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(said, number)
        os.chdir(tree)
        os.environ.update(PYTHONPATH=str(tree), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
        sys.path[:] = [str(tree), *(path for path in sys.path if path not in ("", str(TREE)))]
        for name in [name for name in sys.modules if name.partition(".")[0] in COPIED]:
            del sys.modules[name]
        options = ["-x", "--tb=short", "-p", "no:cacheprovider", "-p", "pytest_mock"]
        code = int(pytest.main([*options, *files], plugins=[telling]))
        where = sys.modules["flarelog"].__file__ if "flarelog" in sys.modules else None
        if where and not where.startswith(str(tree)):
            print(f"flarelog was imported from {where}, not from the copy in {tree}")
            code = 70
        telling.tell("ended", "", code)
    except BaseException:
        traceback.print_exc()
        telling.tell("ended", "", 70)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class Run:
    """A run of *files* that has begun in *tree*, with *mutant* in it if there is one. *took*: what each test takes."""

    def __init__(self, tree: Path, files: Iterable[str], mutant: Mutant | None, took: dict[str, float]) -> None:
        self.tree, self.mutant, self.began = tree, mutant, time.monotonic()
        self.failed = ""  # the first test that did
        self.took: dict[str, float] = {}  # seconds, of each test that has ended
        self._code: float | None = None  # pytest's
        self._known, self._rest = took, b""
        self._test, self._until = "what comes before the first test", self.began + PATIENCE
        if mutant is not None:
            path = tree / "flarelog" / mutant.file
            changed, self._before = mutated(mutant, tree), path.read_text()
            path.write_text(changed)
        self.pipe, inner = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.pipe)
            run_tests(tree, files, inner, took)
        os.close(inner)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def is_over(self, readable: bool) -> bool:
        """Take in what it tells, if its pipe is *readable*; whether nothing more comes, or comes too late."""
        if readable:
            told = os.read(self.pipe, 1 << 16)
            *lines, self._rest = (self._rest + told).split(b"\n")
            for line in lines:
                self._heard(*json.loads(line))
            if not told or self._code is not None:
                self.failed = self.failed or ("" if told else f"{self._test} ended the process")
                return True
        if time.monotonic() < self._until:
            return False
        self.failed = self.failed or f"{self._test} hung"
        return True

    def _heard(self, what: str, test: str, number: float) -> None:
        match what:
            case "begins":
                known = self._known.get(test)
                self._test = test
                self._until = time.monotonic() + (PATIENCE if known is None else HANGING + SLOWER * known)
            case "took":
                self.took[test] = self.took.get(test, 0.0) + number
            case "failed":
                self.failed = self.failed or test
            case "ended":
                self._code = number

    def close(self) -> None:
        """End what is left of it, and take the mutation back. Raises Rotten if it was no run of tests."""
        for kill in (os.killpg, os.kill):  # the group is what its tests have started
            with suppress(ProcessLookupError):
                kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self.pipe)
        if self.mutant is not None:
            (self.tree / "flarelog" / self.mutant.file).write_text(self._before)
        if self._code not in (None, 0) and not self.failed:
            raise Rotten(f"the tests did not run: {self.said()}")

    def said(self) -> str:
        return (self.tree / SAID).read_text(errors="replace")[-3000:]


def runs(
    trees: Iterable[Path], wanted: Iterable[tuple[Iterable[str], Mutant | None]], took: dict[str, float]
) -> Iterator[Run]:
    """Of each files and mutant that are *wanted* the run when it is over; as many at a time as there are *trees*."""
    waiting, free = deque(wanted), list(trees)
    going: list[Run] = []
    try:
        while waiting or going:
            while waiting and free:
                going.append(Run(free.pop(), *waiting.popleft(), took))
            readable = select.select([run.pipe for run in going], [], [], 1.0)[0]
            for run in [run for run in going if run.is_over(run.pipe in readable)]:
                going.remove(run)
                run.close()
                yield run
                free.append(run.tree)
    finally:
        for run in going:
            with suppress(Rotten):
                run.close()


def warm_up() -> None:
    for name in WARM:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is imported is not to be copied because it is looked at


def baseline(trees: list[Path], files: list[str]) -> dict[str, float]:
    """The seconds that each test of *files* takes. Raises Rotten unless all are green without any mutation."""
    took: dict[str, float] = {}
    shares = [files[number :: len(trees)] for number in range(len(trees))]
    for run in runs(trees, [(share, None) for share in shares if share], {}):
        if run.failed:
            raise Rotten(f"without any mutation {run.failed} fails: {run.said()}")
        took |= run.took
    return took


def main(words: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    begin = time.monotonic()
    survivors: list[Mutant] = []
    slowest: list[tuple[float, str]] = []
    with ExitStack() as stack:
        trees = [stack.enter_context(copy()) for _ in range(WORKERS)]
        for mutant in chosen:
            mutated(mutant, trees[0])
        there = {f"tests/{path.name}" for path in (TREE / "tests").glob("test_*.py")}
        tests = sorted(there - {"tests/test_mutants.py"})  # which would see each of them in the code's text
        named = {mutant.name: mutant.files(tests) for mutant in chosen}
        warm_up()
        took = baseline(trees, [file for file in tests if not words or any(file in files for files in named.values())])
        print(f"{len(took)} tests are green without any mutation, in {time.monotonic() - begin:.0f} s")
        width = max((len(mutant.name) for mutant in chosen), default=0)
        print(f"{'DISABLED':{width}}  {'FILE':22}  SECONDS  KILLED BY")
        wanted = [(named[mutant.name], mutant) for mutant in chosen if named[mutant.name]]
        others = [mutant for mutant in chosen if not named[mutant.name]]
        for last in (False, True):
            for run in runs(trees, wanted, took):
                assert run.mutant is not None
                name = run.mutant.name
                slowest.append((run.seconds, name))
                seen = run.failed or ("NOTHING" if last else f"nothing of {' '.join(named[name])}")
                print(f"{name:{width}}  {run.mutant.file:22}  {run.seconds:7.1f}  {seen}", flush=True)
                if not run.failed:
                    (survivors if last else others).append(run.mutant)
            wanted = [([file for file in tests if file not in named[mutant.name]], mutant) for mutant in others]
    print("the slowest:", "; ".join(f"{name} {seconds:.1f} s" for seconds, name in sorted(slowest)[:-6:-1]))
    killed = len(chosen) - len(survivors)
    print(f"{killed} of {len(chosen)} mutants were killed in {time.monotonic() - begin:.0f} s")
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Rotten as rotten:
        sys.exit(f"mutations: {rotten}")
