"""What each reader says after what happened to a log: one table, in tests/data/completeness.txt.

A row is a store as it is left by what happened; its cells are what the readers print of it, and their exit codes. The
laws below hold whatever the table says. A command, or a reason for an incomplete log, that has no cells fails a test.
``python -m tests.test_completeness`` prints the table anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from flarelog.cli import COMMANDS, main
from flarelog.completeness import SEEN, Lack, Losses, completeness
from flarelog.errors import FAILED, GAPS, OK, TIMEOUT, FlarelogError
from flarelog.lifecycle import RunState
from flarelog.model import Ended, Gap, Generation, Mark, Receipt, Redaction, State, StreamId, StreamInfo, Unread
from flarelog.poc.judge import _log
from flarelog.receiver.phases import missing, standing
from flarelog.sender.outcome import Outcome, StreamOutcome
from flarelog.sources.spool.gaps import MISSING
from flarelog.stores import choose
from flarelog.stores.base import Appender
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import set_run
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.standings import of_site
from flarelog.viewers.web.overview import run_record
from flarelog.viewers.web.runs import standing_of_run
from tests.missing import unopened

RUN, SITE, LOG = "run-1", "site-1", "log.txt"
STREAM = StreamId(RUN, SITE, LOG)
TABLE = Path(__file__).parent / "data" / "completeness.txt"
UNREAD = "cannot be read: Permission denied"


# --- what happened

Item = bytes | Mark | Callable[[Appender], Awaitable[object]]


@dataclass
class Row:
    """What happened to the log: bytes and marks in their order, and whether it got a receipt."""

    items: tuple[Item, ...]
    sealed: bool = True
    unstored: Mapping[str, str] | None = None  # logs of the site that were never stored, with the reasons
    state: State | None = None  # at the receiver
    masked: Redaction | None = None
    left: int | None = None  # bytes to which the stored file was cut afterwards; below 0: it was removed


def begins(identity: str, path: str = LOG, at: int = 0) -> Generation:
    return Generation(0, 0, path, at, identity)


def ends(reason: str) -> Ended:
    return Ended(0, 0, reason)


def lost(length: int, why: str = "truncated before it was read") -> Gap:
    return Gap(0, 0, length, why)


async def sealed(appender: Appender) -> None:
    await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))


ONE = (begins("1"), b"one\n")
FROM_API = (replace(begins("1"), notes="api"), b"one\n")
TWO = (begins("2"), b"two\n")
AWAY = State(linked=False, changed=90.0, idle_timeout=60.0)
HELD = State(linked=False, changed=5.0, idle_timeout=60.0, held="the disk is full")
LIVE = State(linked=True, changed=1.0, heard=1.0, grown=1.0, idle_timeout=60.0)

ROWS = {
    "everything was sent": Row(ONE),
    **{f"a generation was {why}, and read to its end": Row((*ONE, ends(why), *TWO)) for why in sorted(SEEN)},
    "an older generation went on after the newer one began": Row((*ONE, *TWO, begins("1", at=4), b"late\n")),
    "30 bytes were truncated before they were read": Row((*ONE, lost(30), ends("truncated"), *TWO)),
    "an unknown number of bytes was lost": Row((*ONE, lost(0))),
    "the full spool dropped bytes": Row((*ONE, lost(5, MISSING), *TWO)),
    "the last generation was deleted before it was read to its end": Row((*ONE, ends("unseen"))),
    "a middle generation was deleted before it was read to its end": Row(
        (*ONE, ends("rotated"), begins("3", "log.txt.1"), b"3\n", ends("unseen"), *TWO)
    ),
    "two generations were deleted before they were read to their ends": Row(
        (*ONE, ends("unseen"), begins("3", "log.txt.1"), ends("unseen"), *TWO)
    ),
    "a generation that had gone was found again and read to its end": Row(
        (*ONE, ends("unseen"), begins("1", "odd.name", 4), b"rest\n", ends("rotated"), *TWO)
    ),
    "a generation ended for a reason that this version does not know": Row((*ONE, ends("vanished"), *TWO)),
    "a generation went on 12 bytes later than it had stopped": Row((*ONE, *TWO, begins("1", at=16), b"late\n")),
    "a gap, and an end that was not seen": Row((*ONE, lost(30), ends("unseen"), *TWO)),
    "the API may have left out lines of an attempt": Row((*FROM_API, ends("unverified"), *TWO)),
    "the API may have left out lines, and a gap": Row((*FROM_API, lost(0), ends("unverified"))),
    "a log from the API was not compared at its end": Row(FROM_API),
    "a log from the API was compared at its end": Row((*FROM_API, ends("rotated"))),
    "a log from the API is still being sent": Row(FROM_API, sealed=False, state=LIVE),
    "the log is still being sent": Row(ONE, sealed=False, state=LIVE),
    "the log is still being sent, and has lost bytes": Row((*ONE, lost(30)), sealed=False, state=LIVE),
    "the log's sidecar stayed away": Row(ONE, sealed=False, state=AWAY),
    "the log's sidecar stayed away after an end that was not seen": Row(
        (*ONE, ends("unseen"), *TWO), sealed=False, state=AWAY
    ),
    "the receiver's disk is full": Row(ONE, sealed=False, state=HELD),
    "bytes came after the receipt": Row((*ONE, sealed, *TWO), sealed=False),
    "the receiver refused another log": Row(ONE, unstored={"b.log": "run-1/site-1/b.log: too many logs"}),
    "the site cannot read another log": Row(ONE, unstored={"b.log": UNREAD}),
    "the site cannot read the rest of the log": Row(ONE, unstored={LOG: UNREAD}),
    "the stored file was cut after the receipt": Row((*ONE, lost(0)), left=3),
    "the stored file was removed after the receipt": Row((*ONE, *TWO), left=-1),
    "the stored file was removed after its sidecar stayed away": Row(ONE, sealed=False, state=AWAY, left=-1),
    "the site masked secrets": Row(ONE, masked=Redaction(1, 3)),
    "the log was begun at its end (--start-at end)": Row((begins("1", at=100), b"one\n")),
}
WITHOUT_A_SENTENCE = ("the receiver refused", "the site cannot read")  # these have sentences of their own


async def fill(directory: Path, row: Row) -> None:
    async with LocalStore(directory, "memory") as store:
        await set_run(store, RUN, RunState.ENDED)
        appender = await store.appender(STREAM, b"producer")
        rest = [Unread(0, 0, UNREAD)] if LOG in (row.unstored or {}) else []
        for item in (*row.items, *rest):
            if isinstance(item, bytes):
                await appender.append(appender.committed, item)
            elif callable(item):
                await item(appender)
            else:
                await appender.mark(replace(item, offset=appender.committed, digest=appender.digest))
        if row.sealed:
            receipt = Receipt(appender.committed, appender.digest, appender.mark_count, row.masked)
            await appender.seal(receipt)
        await appender.close()
        others = {log: why for log, why in (row.unstored or {}).items() if log != LOG}
        await unopened(store, RUN, SITE, others)
    if row.left is not None:
        file = directory / RUN / SITE / LOG
        file.unlink() if row.left < 0 else os.truncate(file, row.left)


# --- what readers say


class Stored:
    """The store of one row, and its readers."""

    def __init__(self, directory: Path, row: Row) -> None:
        self.directory, self.row = directory, row
        asyncio.run(fill(directory, row))
        self.look()

    def look(self) -> None:
        """Learn what the store has."""
        row = self.row
        every = asyncio.run(StoreOrigin(self.directory).streams(RUN, unstored=True))
        self.infos = [replace(info, state=row.state) if info.stream == STREAM else info for info in every]
        self.info = next(info for info in self.infos if info.stream == STREAM)

    def call(self, *arguments: str) -> tuple[int, str, str]:
        """The exit code of a command, its stdout and its stderr."""
        code, err = OK, io.StringIO()
        with tempfile.TemporaryFile() as file:  # readers write to its descriptor
            out = io.TextIOWrapper(file, "utf-8", write_through=True)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    main([*arguments, "--store", str(self.directory)], standalone_mode=False)
                except SystemExit as ended:
                    code = int(ended.code or 0)
                except FlarelogError as error:
                    code = error.exit_code
            out.detach()
            file.seek(0)
            return code, file.read().decode(), err.getvalue()


def lines_with(text: str, *words: str) -> str:
    found = [re.sub(" +", " ", line) for line in text.splitlines() if any(word in line for word in words)]
    return " | ".join(found) or "-"


WORDS = ("incomplete", "unverified", "nothing is stored", "cannot be read")


def streams(stored: Stored) -> str:
    _, out, err = stored.call("streams", RUN)
    return f"{out.splitlines()[-1].split()[-1]} | {lines_with(err, *WORDS)}"


def streams_json(stored: Stored) -> str:
    (record,) = [json.loads(line) for line in stored.call("streams", RUN, "--json")[1].splitlines()]
    return str(record["incomplete"])


def runs(stored: Stored) -> str:
    record = json.loads(stored.call("runs", RUN, "--json")[1])
    counted = (f"{record[name]} {name}" for name in ("gaps", "unseen", "unverified", "unstored") if record[name])
    return ", ".join([f"{record['sealed']} of {record['streams']} sealed", *counted])


def runs_table(stored: Stored) -> str:
    head, row = (re.split(r"  +", line) for line in stored.call("runs", RUN)[1].splitlines())
    counted = [name for name in ("GAPS", "UNSEEN", "UNVERIFIED", "NO RECEIPT", "NOT STORED") if name in head]
    return ", ".join(f"{name} {row[head.index(name)]}" for name in counted)


def status(stored: Stored) -> str:
    lines = stored.call("status", RUN)[1].splitlines()[2:]
    return re.sub(r"\d+ s ", "N s ", lines_with("\n".join(lines), ""))


def status_json(stored: Stored) -> str:
    records = [json.loads(line) for line in stored.call("status", RUN, "-o", "json")[1].splitlines()]
    return " | ".join(f"{one['state']}, {one['incomplete'] or one['reason'] or '-'}" for one in records)


def at_the_receiver(stored: Stored) -> str:
    return missing(standing(stored.info)) or "-"


def logs(stored: Stored) -> str:
    code, out, err = stored.call("logs", RUN, "--exit-status")
    return f"{code}: {lines_with(out, 'ended at', *WORDS)} | {lines_with(err, *WORDS)}"


def logs_json(stored: Stored) -> str:
    code, out, _ = stored.call("logs", RUN, "--exit-status", "-o", "json")
    ended = [one for one in map(json.loads, out.splitlines()) if one.get("event_name", one.get("event")) == "ended"]
    return f"{code}: {ended[-1]['incomplete'] if ended else 'no note'}"


def logs_raw(stored: Stored) -> str:
    code, _, err = stored.call("logs", RUN, "--exit-status", "-o", "raw")
    return f"{code}: {lines_with(err, *WORDS)}"


def logs_otherwise(stored: Stored) -> str:
    options = (
        *(("-n", "1"), ("-n", "0"), ("--since", "10m"), ("--until", "10m"), ("-i", "nothing"), ("--notes", "off")),
        *(("--order", "time"), ("--level", "error"), ("--format", "{text}"), ("--site", SITE, "-o", "raw")),
        *(("--order", "time", "-o", "json"), ("-n", "1", "-o", "json"), ("-i", "nothing", "-o", "json")),
    )
    found = {" ".join(one): stored.call("logs", RUN, "--exit-status", *one)[0] for one in options}
    return same(found | {"status": stored.call("status", RUN, "--exit-status")[0]})


def one_log(stored: Stored) -> str:
    """Exit codes of readers of this log alone, whatever happened to others."""
    named, place = ("--site", SITE, "--log", LOG), ("--from", f"{SITE}/{LOG}:2")
    options = (("follow", *named, *one) for one in ((), ("-o", "raw"), ("-o", "json"), ("-n", "1")))
    every = (*options, ("logs", *named), ("logs", *place), ("logs", *place, "-o", "raw"), ("follow", *place))
    return same({" ".join(one): stored.call(one[0], RUN, "--exit-status", *one[1:])[0] for one in every})


def same(codes: Mapping[str, int]) -> str:
    first, *others = Counter(codes.values()).most_common()
    return str(first[0]) + "".join(f", {name} {codes[name]}" for name in codes if others and codes[name] != first[0])


def findings(stored: Stored) -> str:
    return stored.call("findings", RUN)[2].strip().removeprefix("flarelog: ")


def first_error(stored: Stored) -> str:
    code, _, err = stored.call("logs", RUN, "--first-error", "--exit-status")
    followed = stored.call("follow", RUN, "--first-error", "--exit-status")[0]
    return f"{same({'logs': code, 'follow': followed})}: {err.strip().removeprefix('flarelog: ')}"


def report(stored: Stored) -> str:
    made = stored.call("report", RUN, "-o", "-", "--format", "md")[1]
    row = next(line for line in made.splitlines() if line.startswith(f"| {SITE.replace('-', chr(92) + '-')} "))
    return f"{made.splitlines()[2]} | {row.split(' | ')[1]}".replace("\\", "")


def report_page(stored: Stored) -> str:
    page = stored.call("report", RUN, "-o", "-", "--format", "html")[1]
    (verdict,) = re.findall(r'class="verdict [a-z]+">(.*?)</p>', page)
    return re.sub(r"<[^>]*>", "", verdict)


def verify(stored: Stored) -> str:
    code, out, _ = stored.call("verify", RUN)
    return f"{code}: {' | '.join(out.splitlines())}"


def web_runs(stored: Stored) -> str:
    async def ask() -> str:
        async with StoreOrigin(stored.directory) as origin:
            (found,) = await origin.infos(RUN)
            return standing_of_run(found, live=False)

    return asyncio.run(ask())


def web_run(stored: Stored) -> str:
    held, others = [one for one in stored.infos if not one.unstored], [one for one in stored.infos if one.unstored]
    made = run_record(RUN, RunState.ENDED, held, {}, live=True, unstored=others)
    (site,) = made["sites"]
    missing = [one if isinstance(one, str) else one[0] for one in made["missing"]]
    return f"{site['standing']}, {site['words']} | {' | '.join(missing) or '-'}"


def web_log(stored: Stored) -> str:
    return of_site((stored.info,)).stands


def outcome(stored: Stored) -> str:
    """The exit code of a sidecar, an agent's run and an embedded producer that have sent the log."""
    lacks = Losses(stored.info.marks).with_receipt(stored.info.sealed)
    receipt = Receipt(0, 0, 0) if stored.info.sealed else None
    one = StreamOutcome(STREAM, stored.info.committed, receipt, 0, 0, 1, lacks, None)
    troubles = tuple((stored.row.unstored or {}).values())
    found, kept = Outcome((one,), troubles), Outcome((), troubles, kept=lacks)
    assert found.exit_code == kept.exit_code, "a restarted agent says the same"
    return f"{found.exit_code}: {found.why(LOG, LOG) or '-'}"


def judge(stored: Stored) -> str:
    written = {"bytes": 0, "sha256": "", "generations": []}
    try:
        found = asyncio.run(_log(choose.reader(stored.directory), LOG, written, stored.info))
    except FlarelogError as error:
        return f"ends with {error.exit_code}: {error}"
    return f"sealed {found.sealed}, unseen {found.unseen}"


READERS: dict[str, Callable[[Stored], str]] = {
    "streams": streams,
    "streams --json": streams_json,
    "runs --json": runs,
    "runs": runs_table,
    "status": status,
    "status -o json": status_json,
    "a placeholder": at_the_receiver,
    "logs": logs,
    "logs -o json": logs_json,
    "logs -o raw": logs_raw,
    "logs with other options": logs_otherwise,
    "follow, and one log": one_log,
    "findings": findings,
    "logs --first-error": first_error,
    "report .md": report,
    "report .html": report_page,
    "verify": verify,
    "web: the list of runs": web_runs,
    "web: a run": web_run,
    "web: a log": web_log,
    "a sidecar": outcome,
    "poc": judge,
}

SILENT = {
    "serve": "logs losses as they come, and that a log is sealed",
    "run": "its sidecar speaks for it",
    "sidecar": "is the row of a sidecar; with processes in integration/test_completeness.py",
    "agent": "as a sidecar; with processes in integration/test_completeness.py",
    "view": "reads files of this machine, which have no record",
    "web": "is the rows of the web",
    "doctor": "looks at a machine or a store, not at a run's logs",
    "rm": "removes",
    "copy": "says that a copy is as its source, losses included, which the copy's readers name",
    **dict.fromkeys(("config", "completion", "run-start", "run-end", "certs", "token", "store"), "concerns no log"),
}

EXIT_CODES = ("logs", "logs -o json", "logs -o raw", "logs with other options", "verify")
SENTENCES = ("streams", "status", "findings", "logs --first-error", "verify")


# --- the table


def rendered(what: str, row: Row, directory: Path) -> Iterator[str]:
    stored = Stored(directory, row)
    yield f"# {what}"
    for name, reader in READERS.items():
        yield f"{name:<24} {reader(stored)}".replace(str(directory), "STORE")


def cells(what: str) -> dict[str, str]:
    """The cells of the row *what* in the table."""
    text = TABLE.read_text().partition(f"# {what}\n")[2].partition("\n\n")[0]
    return {line[:24].strip(): line[25:] for line in text.splitlines()}


@pytest.mark.parametrize("what", ROWS)
def test_each_reader_says_what_happened(tmp_path: Path, what: str) -> None:
    found = {line[:24].strip(): line[25:] for line in list(rendered(what, ROWS[what], tmp_path))[1:]}
    assert found == cells(what)


def lacks_of(what: str) -> tuple[Lack, ...]:
    row = ROWS[what]
    found = Losses(item for item in at_offsets(row.items)).with_receipt(row.sealed)
    more = (*((Lack.STORED,) if row.unstored else ()), *((Lack.DAMAGE,) if row.left is not None else ()))
    return (*found.lacks, *more)


def at_offsets(items: tuple[Item, ...]) -> Iterator[Mark]:
    offset = 0
    for item in items:
        if isinstance(item, bytes):
            offset += len(item)
        elif not callable(item):
            yield replace(item, offset=offset)


@pytest.mark.parametrize("what", ROWS)
def test_no_reader_calls_a_log_complete_that_is_not(what: str) -> None:
    lacks, said = lacks_of(what), cells(what)
    code = max((lack.exit_code == GAPS, lack.exit_code) for lack in lacks)[1] if lacks else OK
    of_this = [lack for lack in lacks if lack is not Lack.STORED or LOG in (ROWS[what].unstored or {})]
    if Lack.DAMAGE in lacks:  # whoever reads to the end of what is left ends with 1
        for name in (*EXIT_CODES, "follow, and one log"):
            assert set(re.findall(r"\b\d\b", said[name].partition(": ")[0])) <= {str(FAILED), str(GAPS)}, name
    else:
        for name in EXIT_CODES:
            assert said[name].partition(":")[0] == str(code), name
        assert said["follow, and one log"] == str(min((lack.exit_code for lack in of_this), default=OK))
    sender = [FAILED if lack is Lack.STORED else lack.exit_code for lack in lacks if lack is not Lack.DAMAGE]
    assert said["a sidecar"].partition(":")[0] == str(max(sender, default=OK))
    if not lacks:
        assert not re.search("incomplete|unverified", "\n".join(said.values()))
        return
    assert said["runs"] != "GAPS 0"
    for name in SENTENCES:
        assert any(word in said[name] for word in (*WORDS, "not ended", "open", "not stored")), name
    for name, text in said.items():
        others = of_this == [] and name in ("logs", "web: a log")  # they speak of this log alone
        assert others or not re.search(r"(?<!0 of 1 site )\bcomplete\b", text), name


def test_each_command_has_its_cells() -> None:
    readers = {name.replace(",", "").split()[0] for name in READERS}
    assert (readers & COMMANDS.keys()) | SILENT.keys() == COMMANDS.keys()


def test_each_reason_for_an_incomplete_log_has_a_row() -> None:
    assert {lack for what in ROWS for lack in lacks_of(what)} == set(Lack)
    assert {lack.exit_code for lack in Lack} == {GAPS, TIMEOUT}


def test_the_table_has_no_other_rows() -> None:
    assert re.findall(r"^# (.*)$", TABLE.read_text(), re.MULTILINE) == list(ROWS)


@pytest.mark.parametrize("left", [0, 3, None], ids=["emptied", "cut", "gone"])
def test_no_reader_calls_a_log_complete_whose_stored_file_lost_bytes(tmp_path: Path, left: int | None) -> None:
    stored = Stored(tmp_path, ROWS["everything was sent"])
    path = tmp_path / RUN / SITE / LOG
    path.unlink() if left is None else os.truncate(path, left)
    stored.look()
    for name in (
        "streams",
        "streams --json",
        "runs --json",
        "runs",
        "status",
        "status -o json",
        "web: the list of runs",
    ):
        said = READERS[name](stored).replace(str(tmp_path), "STORE")
        assert not re.search(r"None|1 of 1 sealed$|GAPS 0$|receipt|\bcomplete|open|link|not ended", said), name
    for reader in (
        ("logs", RUN, "--exit-status"),
        ("verify", RUN),
        ("findings", RUN),
        ("report", RUN, "-o", f"{tmp_path}.md"),
    ):
        assert stored.call(*reader)[0] != OK, reader


def test_a_log_that_was_never_stored_is_not_complete() -> None:
    info = StreamInfo(STREAM, 0, 0, 0, False, unstored="too many logs")
    assert completeness(info).lacks == (Lack.STORED,)


if __name__ == "__main__":
    for number, (name, each) in enumerate(ROWS.items()):
        with tempfile.TemporaryDirectory() as place:
            sys.stdout.write(f"{chr(10) * (number > 0)}{chr(10).join(rendered(name, each, Path(place)))}\n")
