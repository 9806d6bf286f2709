"""``flarelog view``: show log files of this machine as a terminal would."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import os
import re
import select
import stat
import sys
import time
import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import click

from flarelog.cli.lines import LineOptions, Lines, demand_apart, heed_habits
from flarelog.cli.options import Switches, asks, complete_file
from flarelog.cli.pager import pager
from flarelog.cli.running import checked, end
from flarelog.cli.tuning import many_lines
from flarelog.errors import FAILED, NOT_ALLOWED, NOT_FOUND, OK, InvalidOption
from flarelog.lines.choose import Chooser
from flarelog.lines.line import Line
from flarelog.lines.merge import StoredPlaces, by_time
from flarelog.lines.reader import Reader
from flarelog.lines.times import order_of
from flarelog.options import typed
from flarelog.render.container import FORMS, Form
from flarelog.text import legible
from flarelog.values import frozen
from flarelog.viewers.console import Enough, Label, summary
from flarelog.viewers.ends import is_sure

PIECE = 64 << 10  # bytes read or unpacked at once: as lines they may take a hundred times as much memory
END = 64 << 10  # bytes at a file's end that are read first, where only its last lines are wanted
END_MOST = 64 << 20  # bytes; a file whose last lines need more is read from its beginning
QUIET = 0.1  # seconds without a byte before complete lines are shown
ENCODINGS = "utf-16, utf-16-le or shift-jis"  # examples
SANE = 946_684_800_000_000_000  # nanoseconds since 1970: archives without times give their files earlier ones
SETTLE = 0.25  # seconds of steady input before lines are shown all the same

EXAMPLES = """\b
Examples:
  # what a terminal would show: bars are one line
  flarelog view train.log
  # container formats are recognised
  flarelog view /var/log/pods/*/*/0.log -t
  # a rotated log: its older files, then its newer one
  flarelog view 0.log*
  # several logs, merged by their lines' times
  flarelog view logs/run-1/*/log.txt --order time
  # like grep, with each progress bar as one line
  flarelog view train.log -i 'loss|error' -C 2
  # from a pipe; a progress bar writes a line every 10 % or 30 s
  kubectl logs -f pod | flarelog view --bars steps
"""


@frozen
class ViewOptions:
    zones: tuple[str, ...] = typed(
        (), "Time zone for times without one, such as Europe/Berlin.", flag="zone", metavar="ZONE"
    )
    count: bool = typed(False, "Show only how many lines of each file match.", short="-c")
    require_match: bool = typed(False, "End with 1 if no line matches.")
    pager: bool = typed(True, "Use a pager on a terminal, where all files are regular ones.", flags={"no-pager": "off"})
    tail: int | None = typed(None, "Show the last N lines; -1: all lines.", short="-n", metavar="N", least=-1)
    order: str = typed(
        "given",
        "Order of the lines: one file after the other, or by the times in the lines.",
        choices=("given", "time"),
    )
    form: Form = typed("auto", "Format of the file; auto detects it.", choices=FORMS)
    encoding: str = typed("utf-8", "Encoding of the text, by its Python name.")
    limit_bytes: int | None = typed(None, "Write at most this many bytes.", least=1, unit="bytes")


def siteless(zone: str) -> str:
    """*zone*, of --zone. Raises InvalidOption where it is said of a site: a file has none."""
    if "=" in zone:
        raise InvalidOption(f"{zone!r} names a site, and the files that view reads have none: give --zone ZONE")
    return zone


@click.command(
    cls=Switches,
    help=f"{EXAMPLES}\n\nShow logs: plain, of containers (CRI, Docker's json-file), compressed (gzip); - is stdin.\n\n"
    "view resolves carriage returns and cursor movements as a terminal does. It keeps colours, and removes every other "
    "escape sequence. Rotated files of one log (app.log, app.log.1) are read as one, the oldest first. Data goes to "
    "stdout, messages to stderr. "
    "Exit code 0; 1 if a file could not be read to its end, or no line matches and --require-match is given, 3 if a "
    "file does not exist, 5 if one may not be read.",
)
@click.argument("files", nargs=-1, metavar="[FILE]...", shell_complete=complete_file)
@asks(lines=LineOptions, own=ViewOptions)
def command(files: tuple[str, ...], lines: partial[LineOptions], own: partial[ViewOptions]) -> None:
    if not files and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("view needs a file: name one or more; - is stdin")
    context = click.get_current_context()
    demand_apart(context.params)
    files = files or ("-",)
    many_lines()
    how = own()
    options = lines(zones=how.zones)
    heed_habits(context, options, "tail -F FILE | flarelog view - follows a file, and -i or -g takes a pattern")
    for zone in options.zones:
        checked(partial(siteless, zone))

    def work() -> int:
        if options.output == "raw":
            return _raw(files, how.limit_bytes)
        wanted = how.pager and how.limit_bytes is None and sys.stdout.isatty() and all(map(os.path.isfile, files))
        code = OK  # if the user leaves the pager
        with pager(wanted=wanted and options.bars != "live") as paged:
            made = (
                replace(options, bars=options.bars or "off") if paged is not None else options
            )  # bars as a terminal leaves them
            view = _View(files, made, how, paged=paged is not None)
            if paged is not None:
                os.dup2(paged, sys.stdout.fileno())  # the process ends with the pager
            try:
                code = view.run()
            finally:
                if paged is not None:
                    with contextlib.suppress(BrokenPipeError):  # the user has left the pager
                        sys.stdout.flush()
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the pager waits for more
        return code

    end(work)  # with write errors; read errors are reported per file


def _raw(files: Sequence[str], left: int | None) -> int:
    """Write the files' bytes, at most *left* of them."""
    troubles = _Troubles()
    for path in itertools.chain.from_iterable(_logs(files)):
        for piece in _pieces(path, troubles):
            if piece:
                sys.stdout.buffer.write(piece if left is None else piece[:left])
                left = left and left - min(left, len(piece))
            else:
                sys.stdout.buffer.flush()
            if left == 0:
                break
    sys.stdout.buffer.flush()
    return troubles.code


class _Troubles:
    """Reports read errors as they happen, and keeps the exit code."""

    code = 0

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet

    def say(self, path: str, what: str, code: int = FAILED) -> None:
        if not self._quiet:
            click.echo(f"flarelog: {legible(path)}: {what}", err=True)
        self.code = max(self.code, code)


class _View:
    """One call of the command. Raises InvalidOption for contradictory options."""

    def __init__(self, files: Sequence[str], options: LineOptions, own: ViewOptions, *, paged: bool) -> None:
        self._own = own
        options = options.alone if own.count else options
        self._found = [0 for _ in files]
        self._troubles = _Troubles()
        self._logs = _logs(files)
        self._names = [legible(log[-1]) for log in self._logs]  # the newest file has the log's own name
        # The files begun of each log, and the offset in the log at which each begins.
        self._begun: list[tuple[list[int], list[Label]]] = [([], []) for _ in self._logs]
        self._name, self._encoding = codec(own.encoding)
        terminal = sys.stdout.isatty() and not paged
        self._lines = lines = Lines(options, terminal=terminal)
        self._tail, self._by_time = None if own.tail == -1 else own.tail, own.order == "time"
        self._timed = options.timed or self._by_time
        self._choice = lines.choice
        # Levels of the last lines alone are read when these are known.
        self._leveled = lines.choice.level is not None or (lines.leveled and self._tail is None)
        self._live = lines.bars == "live" and terminal and self._tail is None and not self._by_time
        self._console = lines.console(
            sys.stdout.buffer,
            live=self._live,
            limit_bytes=own.limit_bytes,
            offsets=self._encoding is None,
            prefix=max(map(len, self._names)) if self._by_time and len(self._logs) > 1 else 0,
        )

    def run(self) -> int:
        try:
            self._show()
            self._console.close()
        except Enough:
            sys.stdout.buffer.flush()
        except KeyboardInterrupt:
            self._console.close()
            raise
        return self._troubles.code or (FAILED if self._own.require_match and not any(self._found) else OK)

    def _show(self) -> None:
        kept: deque[tuple[Line | None, int]] = deque(maxlen=self._tail)
        show = self._said if self._tail is None else lambda lines, of: kept.extend((one, of) for one in lines)
        choosers = [Chooser(self._choice) for _ in self._logs]
        chosen = {number: self._chosen(number, chooser) for number, chooser in enumerate(choosers)}
        for number, items in by_time(chosen) if self._by_time else _one_by_one(chosen):
            show(items, number)
        last = [Reader(leveled=self._lines.leveled and not self._leveled) for _ in self._logs]
        for one, number in kept:
            self._said([one] if one is None else last[number].read([one]), number)
        for name, count in zip(self._names, self._found, strict=False) if self._own.count else ():
            click.echo(f"{name}:{count}" if len(self._names) > 1 else count)
        for name, chooser in zip(self._names, choosers, strict=True):
            for note in summary(0, name, chooser.cut, self._lines.options.searched):
                click.echo(note, err=True)

    def _chosen(self, number: int, chooser: Chooser) -> Iterator[Sequence[Line | None]]:
        """The lines of a log that are chosen, as a reader annotates them. Each has its place in time: a line that is
        left out moves no other one.
        """
        log = self._logs[number]
        stamps = self._lines.stamps(now=_written(log)) if self._timed else None
        if stamps is not None:
            stamps.ask(partial(_day_first, log))
        reader, places = Reader(stamps, leveled=self._leveled), StoredPlaces() if self._by_time else None
        for lines in self._drawn(number):
            lines = reader.read(lines)
            yield from self._left(lines if places is None else places.feed(lines), chooser)
        if places is not None:
            yield from self._left(places.feed((), over=True), chooser)

    def _left(self, lines: list[Line], chooser: Chooser) -> Iterator[Sequence[Line | None]]:
        yield lines if self._choice.everything else list(chooser.feed(lines))

    def _said(self, lines: Sequence[Line | None], number: int) -> None:
        """Show *lines* of a log, each labelled with the file that it begins in."""
        self._found[number] += sum(line is not None for line in lines)
        if self._own.count:
            return
        begins, labels = self._begun[number]
        if len(labels) == 1:
            self._console.show(lines, labels[0])
            return
        for at, some in itertools.groupby(lines, lambda line: 0 if line is None else bisect_right(begins, line.offset)):
            self._console.show(list(some), labels[max(0, at - 1)])

    def _drawn(self, number: int) -> Iterator[list[Line]]:
        """The lines of a log, which is one file or several, as they are read."""
        renderer, name, size = self._lines.renderer(self._own.form), self._names[number], 0
        begins, labels = self._begun[number]
        marked: dict[str, str] = {}  # the encoding that a file's byte order mark tells
        log, start = self._logs[number], 0
        if self._tail is not None and self._choice.everything and not self._by_time and self._encoding is None:
            start, plain = self._last_lines(log[-1])
        if start:
            log = log[-1:]
            renderer.jump(start)
            renderer.plain = plain
        for path in log:
            begins.append(size)
            labels.append(Label(name, {"log.file.path": legible(path)}, begin=size))
            size += start
            for piece in self._decoded(path, start):
                now = time.monotonic()
                if piece is not None:
                    if self._encoding is None and size == begins[-1] and (told := _told_by_mark(piece)):
                        marked[path] = told
                    size += len(piece)
                    yield renderer.feed(piece, now)
                else:
                    yield renderer.settle()
                    self._console.flush()
                if self._live:
                    self._console.draw(renderer.open, now, last=piece is None)
            yield renderer.next_file(time.monotonic())
        yield renderer.close(time.monotonic())
        for path, told in marked.items():
            click.echo(f"note: {legible(path)}: the file is {told.upper()}: --encoding {told} shows its text", err=True)
        # A line that is left out counts as well.
        everything = self._choice.everything and self._tail is None and not marked
        for note in summary(renderer.replaced if everything else 0, name):
            click.echo(note, err=True)

    def _last_lines(self, path: str) -> tuple[int, bool]:
        """The offset in *path* from which the last lines can be drawn, and whether it has no framing; 0: the whole file
        is needed.
        """
        if path == "-" or not os.path.isfile(path):
            return 0, False
        with contextlib.suppress(OSError), open(path, "rb") as file:
            fd, new = file.fileno(), partial(self._lines.renderer, self._own.form)
            end, head, first, window = os.fstat(fd).st_size, os.pread(fd, END, 0), new(), END
            first.feed(head)
            plain = first.plain
            other = head[:2] == b"\x1f\x8b" or _unpacks(head) or _told_by_mark(head)
            while plain is not None and not other and window <= min(end // 2, END_MOST):
                data = os.pread(fd, window, end - window)
                start = data.find(b"\n") + 1
                if start and is_sure(new(), end - window + start, data[start:], self._tail or 0, plain):
                    return end - window + start, plain
                window *= 4
        return 0, False

    def _decoded(self, path: str, start: int = 0) -> Iterator[bytes | None]:
        """The contents of *path* from *start* as UTF-8 with surrogates, which the renderer replaces."""
        pieces = _pieces(path, self._troubles, start)
        if self._encoding is None:
            yield from pieces
            return
        decoder = self._encoding("replace")
        try:
            for piece in pieces:
                yield None if piece is None else decoder.decode(piece).encode("utf-8", "surrogatepass")
            yield decoder.decode(b"", True).encode("utf-8", "surrogatepass")
        except UnicodeError as error:  # errors="replace" has no effect on a missing byte order mark
            name = self._name
            how = f": give {name}-le or {name}-be for the byte order" if name in ("utf-16", "utf-32") else ""
            self._troubles.say(path, f"the file cannot be decoded as {name} ({error}){how}")


def _one_by_one(logs: Mapping[int, Iterator[Sequence[Line | None]]]) -> Iterator[tuple[int, Sequence[Line | None]]]:
    """The lines of one log after the other, each with its number."""
    return ((number, lines) for number, batches in logs.items() for lines in batches)


def _logs(files: Sequence[str]) -> list[list[str]]:
    """*files* grouped by log, the oldest of a log first: ``0.log.20261120-080000.gz``, ``0.log``."""
    found: dict[tuple[str, int], list[str]] = {}
    for number, path in enumerate(files):
        log = _log(path)
        same = found.get((log, 0), [])
        # A file that is named twice is shown twice.
        found.setdefault((log, 0) if log and path not in same else (log, number + 1), []).append(path)
    return [_by_age(log, paths) if len(paths) > 1 else paths for (log, _), paths in found.items()]


def _log(path: str) -> str:
    """The log that the file *path* belongs to; empty if its name tells none, as ``-`` and ``app.log.err``."""
    name = path.removesuffix(".gz")
    log = re.sub(r"\.log[.-].*$", ".log", name, flags=re.DOTALL)
    if name == log:
        return log if log.endswith(".log") else ""
    from flarelog.sources.files.lineage import is_rotation  # most files are not rotated

    return log if is_rotation(log, name) else ""


def _by_age(log: str, paths: list[str]) -> list[str]:
    """*paths*, the files of *log*, the oldest first."""
    from flarelog.sources.files.identity import sight  # one file needs no order
    from flarelog.sources.files.lineage import Age, by_age

    ages = list[Age]()
    for path in paths:
        age = Age(path=path.removesuffix(".gz"))
        with contextlib.suppress(OSError):  # reported where the file is read
            seen = sight(path)
            age = Age(seen.born, age.path, modified=seen.modified)
        ages.append(age)
    order = {age.path: number for number, age in enumerate(by_age(log, ages))}
    return sorted(paths, key=lambda path: order[path.removesuffix(".gz")])


def _written(log: Sequence[str]) -> int | None:
    """When the regular files of *log* were last written, in nanoseconds since 1970; None: not known."""
    latest = 0
    with contextlib.suppress(OSError):  # reported where the file is read
        latest = (
            0 if "-" in log else max((os.stat(path).st_mtime_ns for path in log if os.path.isfile(path)), default=0)
        )
    return latest if SANE < latest < time.time_ns() else None


def _day_first(log: Sequence[str]) -> bool | None:
    """Whether days come before months in *log*, by the first date in its files that can have only one order."""
    for path in filter(os.path.isfile, log):
        for piece in _pieces(path, _Troubles(quiet=True)):
            if piece and (order := order_of(piece)) is not None:
                return order
    return None


def codec(name: str) -> tuple[str, Callable[[str], codecs.IncrementalDecoder] | None]:
    """Python's name for the encoding *name*, and its decoder; None for UTF-8, which needs none.

    Raises InvalidOption, also for a codec that cannot replace an invalid byte, such as idna, or that is none of text.
    """
    try:
        found = codecs.lookup(name)
    except (LookupError, UnicodeError) as error:
        raise InvalidOption(f"Python has no encoding {name!r}: give one as {ENCODINGS}") from error
    if found.name == "utf-8":
        return found.name, None
    try:
        if found.incrementaldecoder is not None and found._is_text_encoding:
            found.incrementaldecoder("replace").decode(b"\xff")
            return found.name, found.incrementaldecoder
    except UnicodeError:
        pass
    raise InvalidOption(f"{name!r} is not an encoding of text: give one as {ENCODINGS}")


def _told_by_mark(first: bytes) -> str:
    """The encoding that a byte order mark at the beginning of a file's *first* bytes tells; empty where none does."""
    if first.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # one begins as UTF-16's
        return "utf-32"
    return "utf-16" if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else ""


def _pieces(path: str, troubles: _Troubles, start: int = 0) -> Iterator[bytes | None]:
    """The contents of *path*, unpacked; None when no more bytes come for now. *start*: the offset to begin at, in a
    regular file that is not packed.
    """
    if path == "-" and sys.stdin is None:
        troubles.say(path, "stdin is closed")
        return
    try:
        file = os.dup(sys.stdin.fileno()) if path == "-" else os.open(path, os.O_RDONLY)
    except OSError as error:
        code = {FileNotFoundError: NOT_FOUND, PermissionError: NOT_ALLOWED}.get(type(error), FAILED)
        troubles.say(path, error.strerror or str(error), code)
        return
    if path != "-" and os.path.isdir(path):
        os.close(file)
        troubles.say(path, "this is a directory: name a file")
        return
    try:
        if start:
            os.lseek(file, start, os.SEEK_SET)
            yield from _read(file)
            return
        pieces = _read(file)
        first = next((piece for piece in pieces if piece), b"")
        if first[:2] == b"\x1f\x8b":
            yield from _unpacked(first, pieces, partial(troubles.say, path))
        elif (tool := _unpacks(first)) and path == "-":
            troubles.say(path, f"stdin is compressed: pipe it through {tool}")
        elif tool:
            import shlex  # most files are not compressed

            troubles.say(path, f"the file is compressed: {tool} {shlex.quote(path)} | flarelog view - shows it")
        else:
            yield first
            yield from pieces
    except OSError as error:
        troubles.say(path, error.strerror or str(error))
    finally:
        os.close(file)


def _unpacks(first: bytes) -> str:
    """The command that unpacks a file which begins with *first*; empty where no compression but gzip is known by it."""
    if first[:3] == b"BZh" and first[4:10] == b"1AY&SY":
        return "bzcat"
    magics = {
        b"\xfd7zXZ\0": "xzcat",
        b"\x28\xb5\x2f\xfd": "zstdcat",
        b"\x04\x22\x4d\x18": "lz4cat",
        b"PK\x03\x04": "funzip",
    }
    return next((tool for magic, tool in magics.items() if first.startswith(magic)), "")


def _read(file: int) -> Iterator[bytes | None]:
    waits, settled = not stat.S_ISREG(os.fstat(file).st_mode), time.monotonic()
    while True:
        quiet = waits and not select.select([file], [], [], QUIET)[0]
        if quiet or (waits and time.monotonic() - settled > SETTLE):
            yield None
            select.select([file], [], [])
            settled = time.monotonic()
        piece = os.read(file, PIECE)
        if not piece:
            return
        yield piece


def _unpacked(first: bytes, pieces: Iterator[bytes | None], say: Callable[[str], None]) -> Iterator[bytes | None]:
    """The members of a gzip file, one after another, in pieces of bounded size."""
    unpacker, rest = zlib.decompressobj(31), first
    try:
        while True:
            while rest:
                if unpacker.eof:
                    if rest.strip(b"\0") == b"":  # padding
                        return
                    unpacker = zlib.decompressobj(31)
                data = unpacker.decompress(rest, PIECE)
                rest = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
                yield data
            piece = next(pieces, b"")
            if piece is None:
                yield None
            elif piece:
                rest = piece
            else:
                break
    except zlib.error as error:
        say(f"the compressed data is damaged ({error}): the readable part is shown")
        return
    yield unpacker.flush()
    if not unpacker.eof:
        say("the compressed data is truncated: the readable part is shown")
