"""Stored bytes are compared with their journal and their source, and the first difference is reported."""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.checksum import extend
from flarelog.cli import main
from flarelog.completeness import Completeness
from flarelog.errors import NOT_FOUND
from flarelog.model import Ended, Gap, Generation, Receipt, Redaction, StreamId
from flarelog.sources.files.identity import head, identity
from flarelog.stores.base import Reader
from flarelog.stores.local.store import LocalStore
from flarelog.verify import Files, Verdict, _same, verify
from tests.unprivileged import unprivileged

STREAM = StreamId("run-1", "site-1", "log.txt")
OLD, NEW = b"old line\n" * 200_000, b"new line\n" * 100_000


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Verdict]:
    """A function that verifies a store with two generations of one log, whose older source file was renamed."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "log.txt.1").write_bytes(OLD)
    (source / "log.txt").write_bytes(NEW)
    store = LocalStore(tmp_path / "store", "memory")

    async def fill() -> None:
        async with store:
            appender = await store.appender(STREAM, b"producer")
            for name, data in (("log.txt.1", OLD), ("log.txt", NEW)):
                with open(source / name, "rb") as file:
                    length, digest = head(file.fileno())
                    mark = Generation(
                        appender.committed, appender.digest, "log.txt", 0, identity(file.fileno()), length, digest
                    )
                await appender.mark(mark)
                for at in range(0, len(data), 100_000):
                    await appender.append(appender.committed, data[at : at + 100_000])
                if data is OLD:
                    await appender.mark(Ended(appender.committed, appender.digest, "rotated"))
            await appender.close()

    asyncio.run(fill())

    def run(*, against_source: bool = True) -> Verdict:
        return verified(store, [STREAM], Files(source) if against_source else None)[0]

    return run


def verified(store: Reader, streams: Sequence[StreamId], files: Files | None = None) -> list[Verdict]:
    return asyncio.run(verify(store, streams, files))


def change(path: Path, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))


def test_what_agrees_is_said_to(check: Callable[..., Verdict]) -> None:
    verdict = check()
    assert (verdict.first, verdict.length, verdict.compared) == (None, len(OLD + NEW), len(OLD + NEW))


@pytest.mark.parametrize("closed", ["", "log.txt.1"], ids=["a-directory", "a-file"])
def test_a_source_that_cannot_be_read_is_not_taken_for_one_that_is_gone(
    check: Callable[..., Verdict], tmp_path: Path, capsys: pytest.CaptureFixture[str], closed: str
) -> None:
    (tmp_path / "above").mkdir()
    path = (tmp_path / "source").rename(tmp_path / "above" / "source") / closed
    path.chmod(0)
    with unprivileged(), pytest.raises(SystemExit) as ended:
        main(["verify", "--store", str(tmp_path / "store"), "--source", str(tmp_path / "above")])
    path.chmod(0o700)
    said = capsys.readouterr()
    assert f"{path} cannot be read, so it was not compared: Permission denied" in said.err
    assert "is left under" not in said.err
    assert ended.value.code == NOT_FOUND


@pytest.mark.parametrize("offset", [0, 999_999, 1_800_000, len(OLD + NEW) - 1])
def test_a_changed_byte_in_the_store_is_located_within_what_the_journal_keeps(
    check: Callable[..., Verdict], tmp_path: Path, offset: int
) -> None:
    change(tmp_path / "store" / "run-1" / "site-1" / "log.txt", offset)
    verdict = check(against_source=False)
    assert verdict.first is not None
    assert verdict.first <= offset < verdict.first + (1 << 20) + 200_000
    assert "differs from the committed bytes between offset" in verdict.text


def test_with_its_source_at_hand_a_changed_byte_in_the_store_is_named_exactly(
    check: Callable[..., Verdict], tmp_path: Path
) -> None:
    change(tmp_path / "store" / "run-1" / "site-1" / "log.txt", 100)
    verdict = check()
    assert verdict.first == 100
    assert verdict.text.startswith("differs from the committed bytes between offset 0 and ")
    assert verdict.text.endswith(f", and differs at offset 100 from {tmp_path}/source/log.txt.1, offset 100")


@pytest.mark.parametrize(("name", "at", "offset"), [("log.txt.1", 77, 77), ("log.txt", 5, len(OLD) + 5)])
def test_a_changed_byte_in_the_source_is_named_exactly(
    check: Callable[..., Verdict], tmp_path: Path, name: str, at: int, offset: int
) -> None:
    change(tmp_path / "source" / name, at)
    verdict = check()
    assert verdict.first == offset
    assert f"{name}, offset {at}" in verdict.text


def test_a_store_that_is_shorter_than_its_journal_is_said(check: Callable[..., Verdict], tmp_path: Path) -> None:
    os.truncate(tmp_path / "store" / "run-1" / "site-1" / "log.txt", 1_000_000)
    verdict = check()
    assert verdict.first == 1_000_000
    assert "were committed" in verdict.text


@contextmanager
def a_receiver(store: Path) -> Iterator[None]:
    """Hold the lock of *store*, as a receiver does."""
    with open(store / ".lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("against_source", [False, True])
def test_what_a_receiver_is_about_to_commit_is_no_difference(
    check: Callable[..., Verdict], tmp_path: Path, *, against_source: bool
) -> None:
    with open(tmp_path / "store" / "run-1" / "site-1" / "log.txt", "ab") as file:
        file.write(b"an editor was here")
    with a_receiver(tmp_path / "store"):
        verdict = check(against_source=against_source)
    assert (verdict.first, verdict.length) == (None, len(OLD + NEW))
    assert verdict.text.startswith(
        "ok, and its journal does not vouch for 18 bytes behind them: a receiver is about to"
    )


def test_what_no_receiver_is_about_to_commit_is_a_difference(check: Callable[..., Verdict], tmp_path: Path) -> None:
    with open(tmp_path / "store" / "run-1" / "site-1" / "log.txt", "ab") as file:
        file.write(b"an editor was here")
    verdict = check()
    assert (verdict.first, verdict.length) == (len(OLD + NEW), len(OLD + NEW))
    assert verdict.text.startswith(
        "its journal does not vouch for 18 bytes behind offset 2700000, and no receiver uses the store: somebody"
    )


def test_a_source_that_is_gone_is_not_held_against_the_store(check: Callable[..., Verdict], tmp_path: Path) -> None:
    (tmp_path / "source" / "log.txt.1").unlink()
    verdict = check()
    assert (verdict.first, verdict.compared, verdict.alone) == (None, len(NEW), False)
    (tmp_path / "source" / "log.txt").unlink()
    assert check().alone


@given(st.lists(st.sampled_from(b"*ab"), max_size=9), st.lists(st.sampled_from(b"*ab"), max_size=9), st.booleans())
def test_what_is_the_same_ends_before_the_first_byte_that_is_neither_alike_nor_a_mask(
    stored: list[int], source: list[int], masked: bool
) -> None:
    source = source[: len(stored)]
    alike = [ours == theirs or (masked and ours == ord("*")) for ours, theirs in zip(stored, source, strict=False)]
    expected = [*alike, False].index(False)
    assert _same(bytes(stored), bytes(source), masked=masked) == expected


def test_where_something_was_masked_its_source_may_hold_any_byte(tmp_path: Path) -> None:
    source, data = tmp_path / "source", b"password=hunter2\n" * 100_000
    source.mkdir()
    (source / "log.txt").write_bytes(data)
    store = LocalStore(tmp_path / "store", "memory")
    masked = data.replace(b"hunter2", b"*******")

    async def fill(name: str, stored: bytes, notes: str) -> Verdict:
        stream = StreamId("run-1", "site-1", name)
        async with store:
            appender = await store.appender(stream, b"producer")
            with open(source / "log.txt", "rb") as file:
                await appender.mark(Generation(0, 0, "log.txt", 0, identity(file.fileno()), notes=notes))
            for at in range(0, len(stored), 1 << 20):
                await appender.append(at, stored[at : at + (1 << 20)])
            await appender.seal(Receipt(len(stored), appender.digest, 1, Redaction(100_000, 700_000)))
            await appender.close()
        return (await verify(store, [stream], Files(source)))[0]

    good = asyncio.run(fill("a", masked, "redacted:1:passwords"))
    assert (good.first, good.compared, good.redacted) == (None, len(data), Redaction(100_000, 700_000))
    other = asyncio.run(fill("b", masked[:-1] + b"x", "redacted:1:passwords"))
    assert other.first == len(data) - 1
    unsaid = asyncio.run(fill("c", masked, ""))
    assert unsaid.first == 9, "only what is said to be redacted may differ"


CONTENT = b"".join(b"2026-11-29T01:02:03.%09dZ stdout F step %d\n" % (step, step) for step in range(20_000))


@pytest.mark.parametrize(
    ("stored", "source_offset", "first", "compared"),
    [
        pytest.param(CONTENT, 0, None, len(CONTENT), id="unpacked"),
        pytest.param(CONTENT[5000:], 5000, None, len(CONTENT) - 5000, id="unpacked, from the middle"),
        pytest.param(CONTENT[:-2] + b"x\n", 0, len(CONTENT) - 2, len(CONTENT) - 2, id="a changed byte"),
        pytest.param(
            gzip.compress(CONTENT, mtime=0), 0, None, len(gzip.compress(CONTENT, mtime=0)), id="sent as it is"
        ),
    ],
)
def test_a_compressed_source_is_compared_as_its_source_sent_it(
    tmp_path: Path, stored: bytes, source_offset: int, first: int | None, compared: int
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "0.log.gz").write_bytes(gzip.compress(CONTENT, mtime=0))
    store = LocalStore(tmp_path / "store", "memory")

    async def fill() -> None:
        async with store:
            appender = await store.appender(STREAM, b"producer")
            with open(source / "0.log.gz", "rb") as file:
                await appender.mark(Generation(0, 0, "0.log.gz", source_offset, identity(file.fileno())))
            for at in range(0, len(stored), 1 << 20):
                await appender.append(at, stored[at : at + (1 << 20)])
            await appender.close()

    asyncio.run(fill())
    found = verified(store, [STREAM], Files(source))[0]
    assert (found.first, found.compared) == (first, compared)


def test_the_digest_of_the_whole_is_that_of_zlib(check: Callable[..., Verdict], tmp_path: Path) -> None:
    check()
    journal = (tmp_path / "store" / "run-1" / "site-1" / ".log.txt.journal").read_text()
    assert f'"n":{len(OLD + NEW)},"d":{extend(0, OLD + NEW)}' in journal


def test_marks_that_name_a_fifo_of_the_source_hold_up_nothing(tmp_path: Path) -> None:
    """A producer chooses the paths in its marks."""
    source = tmp_path / "source"
    source.mkdir()
    os.mkfifo(source / "fifo")
    found = (source / "fifo").stat()
    store = LocalStore(tmp_path / "store", "memory")

    async def fill() -> None:
        async with store:
            appender = await store.appender(STREAM, b"producer")
            await appender.mark(Generation(0, 0, "fifo", 0, f"{found.st_dev:x}:{found.st_ino:x}:"))
            await appender.append(0, NEW)
            await appender.close()

    asyncio.run(fill())
    assert verified(store, [STREAM], Files(source)) == [Verdict(STREAM, len(NEW), 0, lacks=Completeness(receipt=False))]


Piece = tuple[str, bytes, int]
"""(source file, its first bytes, its time of birth)"""


def judged(tmp_path: Path, streams: dict[str, Sequence[Piece]]) -> dict[str, Verdict]:
    """The verdicts on logs that hold these pieces; the source files exist with their bytes."""
    source = tmp_path / "source"
    source.mkdir()
    for path, data, _ in (piece for pieces in streams.values() for piece in pieces):
        (source / path).parent.mkdir(exist_ok=True)
        (source / path).write_bytes(data)
    store = LocalStore(tmp_path / "store", "memory")

    async def fill() -> None:
        async with store:
            for log, pieces in streams.items():
                appender = await store.appender(StreamId("run-1", "site-1", log), b"producer")
                for path, data, born in pieces:
                    with open(source / path, "rb") as file:
                        found = identity(file.fileno())
                    notes = f"born:{born}"
                    await appender.mark(Generation(appender.committed, appender.digest, log, 0, found, notes=notes))
                    await appender.append(appender.committed, data)
                await appender.close()

    asyncio.run(fill())
    found = verified(store, [StreamId("run-1", "site-1", log) for log in streams], Files(source))
    return {verdict.stream.log: verdict for verdict in found}


ONE, TWO, THREE = ("log.txt.2", b"one\n", 1), ("log.txt.1", b"two\n", 2), ("log.txt", b"three\n", 3)


def test_logs_of_one_name_in_two_directories_have_generations_of_their_own(tmp_path: Path) -> None:
    logs = {
        directory: [
            (f"{directory}/log.txt.1", b"old of %s\n" % directory.encode(), number),
            (f"{directory}/log.txt", b"new of %s\n" % directory.encode(), number + 2),
        ]
        for number, directory in enumerate("ab", 1)
    }
    found = judged(tmp_path, {f"{directory}/log.txt": pieces for directory, pieces in logs.items()})
    assert {log: verdict.text for log, verdict in found.items()} == {"a/log.txt": "ok", "b/log.txt": "ok"}


def test_a_generation_that_stands_in_a_log_of_its_own_is_said_to(tmp_path: Path) -> None:
    found = judged(tmp_path, {"log.txt": [ONE, THREE], "log.txt.1": [TWO]})
    assert (found["log.txt"].first, found["log.txt"].text) == (None, "ok")
    assert found["log.txt.1"].first == 0
    assert "which is a generation of log log.txt" in found["log.txt.1"].text


@pytest.mark.parametrize(
    "streams",
    [
        pytest.param({"log.txt": [ONE, TWO, THREE]}, id="all-in-one"),
        pytest.param({"log.txt": [TWO, THREE], "log.txt.2": [ONE]}, id="older-than-the-log-was"),
        pytest.param({"rank-1.log": [("rank-1.log", b"one\n", 1)], "rank.log": [("rank.log", b"2\n", 2)]}, id="ranks"),
        pytest.param({"a.log": [("old", b"1\n", 1)], "b.log": [("b.log", b"1\n", 2)]}, id="equal-bytes-of-two-files"),
    ],
)
def test_what_stands_where_it_should_is_ok(tmp_path: Path, streams: dict[str, Sequence[Piece]]) -> None:
    assert {verdict.text for verdict in judged(tmp_path, streams).values()} == {"ok"}


@pytest.mark.parametrize(
    ("streams", "log", "offset", "where"),
    [
        pytest.param({"log.txt": [ONE, TWO, ONE, THREE]}, "log.txt", 8, "at offset 0", id="in-one-stream"),
        pytest.param({"log.txt": [ONE, THREE], "b.log": [ONE]}, "b.log", 0, "at offset 0 of log log.txt", id="in-two"),
    ],
)
def test_bytes_of_a_file_that_are_stored_twice_are_said_to(
    tmp_path: Path, streams: dict[str, Sequence[Piece]], log: str, offset: int, where: str
) -> None:
    found = judged(tmp_path, streams)[log]
    assert found.first == offset
    assert f"4 bytes of {tmp_path}/source/log.txt.2 which stand {where}" in found.text


def test_a_file_that_has_the_name_of_another_log_by_now_is_said_and_no_difference(tmp_path: Path) -> None:
    found = judged(tmp_path, {"a.log": [("b.log", b"one\n", 1)], "b.log": [("gone", b"two\n", 2)]})
    assert found["a.log"].first is None
    assert found["a.log"].text == (
        "ok, and the file of 4 bytes from offset 0 on is called b.log by now, which is the name of another log"
    )


# --- the command's output


@pytest.fixture
def command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[object, str]]:
    """A function that fills a run with one sealed log with *gaps* of so many bytes, calls *change* with its site's
    directory, and verifies it; it returns the exit code and the output.
    """

    async def fill(gaps: Sequence[int]) -> None:
        async with LocalStore(tmp_path / "store", "memory") as store:
            appender = await store.appender(STREAM, b"producer")
            await appender.mark(Generation(0, 0, "log.txt", 0, "1:2:3"))
            for number, data in enumerate((b"one\n", b"two\n", b"three\n")):
                await appender.append(appender.committed, data)
                if number < len(gaps):
                    await appender.mark(Gap(appender.committed, appender.digest, gaps[number], "truncated"))
                await appender.sync()
            await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
            await appender.close()

    def run(
        change: Callable[[Path], object] = lambda site: None,
        gaps: Sequence[int] = (),
        source: Path | None = None,
        run: str = "run-1",
    ) -> tuple[object, str]:
        asyncio.run(fill(gaps))
        change(tmp_path / "store" / "run-1" / "site-1")
        with pytest.raises(SystemExit) as ended:
            main(["verify", run, "--store", str(tmp_path / "store"), *(["--source", str(source)] if source else [])])
        return ended.value.code or 0, capfd.readouterr().out

    return run


def spoil_a_line(site: Path, number: int = 1) -> None:
    journal = site / ".log.txt.journal"
    change(journal, sum(map(len, journal.read_bytes().splitlines(keepends=True)[:number])) + 20)


def test_of_a_good_log_the_command_says_ok(command: Callable[..., tuple[object, str]]) -> None:
    assert command() == (0, "run-1/site-1/log.txt: 14 bytes: ok\n")


def test_bytes_behind_the_end_of_a_sealed_log_are_a_difference(command: Callable[..., tuple[object, str]]) -> None:
    def forge(site: Path) -> None:
        with open(site / "log.txt", "ab") as log:
            log.write(b"forged\n")

    code, said = command(forge)
    assert code == 1
    assert said.startswith("run-1/site-1/log.txt: 14 bytes: is sealed, and 7 bytes are behind its end: another program")


def test_a_log_whose_file_is_gone_is_named_and_what_its_journal_tells_of(
    command: Callable[..., tuple[object, str]],
) -> None:
    code, said = command(lambda site: (site / "log.txt").unlink())
    assert code == 1
    assert said.startswith("run-1/site-1/log.txt: 0 bytes: cannot be read: ")
    assert said.endswith("site-1/log.txt is not there, and its journal tells of 14 bytes: put the file back\n")


def test_one_byte_behind_the_end_is_one(command: Callable[..., tuple[object, str]]) -> None:
    code, said = command(lambda site: (site / "log.txt").write_bytes((site / "log.txt").read_bytes() + b"!"))
    assert (code, "and 1 byte is behind its end" in said) == (1, True)


def test_a_source_of_which_nothing_was_compared_is_no_agreement(
    command: Callable[..., tuple[object, str]], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "log.txt").write_bytes(b"one\ntwo\nthree\n")
    assert command(source=copy) == (3, "run-1/site-1/log.txt: 14 bytes, 0 compared with their source: ok\n")


def test_a_damaged_journal_is_not_ok(command: Callable[..., tuple[object, str]]) -> None:
    code, said = command(lambda site: spoil_a_line(site, 2))
    assert (code, "1 line of its journal cannot be read" in said, ": ok" in said) == (1, True, False)


def test_a_damaged_line_is_told_beside_the_bytes_that_no_other_line_vouches_for(
    command: Callable[..., tuple[object, str]],
) -> None:
    code, said = command(lambda site: spoil_a_line(site, 5))  # the journal's last length
    assert code == 1
    assert said.startswith(
        "run-1/site-1/log.txt: 8 bytes: 1 line of its journal cannot be read, and the others do not vouch for 6 bytes"
        " behind offset 8"
    )


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_a_journal_that_was_cut_is_told(command: Callable[..., tuple[object, str]], kept: int) -> None:
    def cut(site: Path) -> None:
        journal = site / ".log.txt.journal"
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:kept]))

    code, said = command(cut)
    assert code == 1
    assert "its journal does not vouch for " in said
    assert "no receiver uses the store" in said


@pytest.mark.parametrize("source", [False, True])
@pytest.mark.parametrize(
    ("where", "whose"),
    [
        (Path("run-1", "site-2"), "run-1/site-1/log.txt"),
        (Path("run-2", "site-1"), "run-1/site-1/log.txt"),
    ],
)
def test_a_log_that_was_moved_together_with_its_journal_is_told(
    command: Callable[..., tuple[object, str]], tmp_path: Path, where: Path, whose: str, *, source: bool
) -> None:
    def move(site: Path) -> None:
        place = site.parents[1] / where
        place.parent.mkdir(exist_ok=True)
        shutil.copytree(site, place)

    code, said = command(move, source=tmp_path if source else None, run=where.parts[0])
    assert code == 1
    (line,) = [line for line in said.splitlines() if line.startswith(f"{where}/log.txt: ")]
    assert f": its journal is that of {whose}, and the bytes agree with it: somebody moved or copied both" in line


def test_a_copy_of_a_log_is_told_and_not_the_log(command: Callable[..., tuple[object, str]], tmp_path: Path) -> None:
    def copy(site: Path) -> None:
        shutil.copy(site / "log.txt", site / "a.txt")
        shutil.copy(site / ".log.txt.journal", site / ".a.txt.journal")

    code, said = command(copy, source=tmp_path)
    assert code == 1
    assert "site-1/a.txt: 14 bytes, 0 compared with their source: its journal is that of run-1/site-1/log.txt" in said
    assert said.endswith("site-1/log.txt: 14 bytes, 0 compared with their source: ok\n")


def test_a_journal_of_another_log_is_told_and_not_that_the_bytes_differ(
    command: Callable[..., tuple[object, str]],
) -> None:
    def copy(site: Path) -> None:
        (site / "a.txt").write_bytes(b"other bytes\n")
        shutil.copy(site / ".log.txt.journal", site / ".a.txt.journal")

    code, said = command(copy)
    assert code == 1
    assert "a.txt: 14 bytes: its journal is that of run-1/site-1/log.txt, and the bytes do not agree with it" in said


def test_a_journal_without_its_first_line_is_told(command: Callable[..., tuple[object, str]]) -> None:
    def behead(site: Path) -> None:
        journal = site / ".log.txt.journal"
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[1:]))

    code, said = command(behead)
    assert code == 1
    assert (
        "log.txt: 14 bytes: the first line of its journal is missing or damaged: a receiver that opens the log" in said
    )


def test_a_line_that_a_receiver_is_writing_is_no_damage(command: Callable[..., tuple[object, str]]) -> None:
    def half_a_line(site: Path) -> None:
        with open(site / ".log.txt.journal", "ab") as journal:
            journal.write(b'0123abcd {"t":"len')

    assert command(half_a_line)[0] == 0


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ([30_888_907], "ok, but incomplete: 1 gap: 30,888,907 bytes are lost"),
        ([1000, 5], "ok, but incomplete: 2 gaps: 1,005 bytes are lost"),
        ([0], "ok, but incomplete: 1 gap: bytes of unknown number are lost"),
        ([7, 0], "ok, but incomplete: 2 gaps: at least 7 bytes are lost"),
    ],
)
def test_gaps_are_said_and_end_with_6(command: Callable[..., tuple[object, str]], gaps: list[int], said: str) -> None:
    assert command(gaps=gaps) == (6, f"run-1/site-1/log.txt: 14 bytes: {said}\n")


def without_its_journal(site: Path) -> None:
    (site / ".log.txt.journal").unlink()


def an_empty_journal(site: Path) -> None:
    os.truncate(site / ".log.txt.journal", 0)


def a_directory_for_its_journal(site: Path) -> None:
    without_its_journal(site)
    (site / ".log.txt.journal").mkdir()


def a_fifo_for_its_journal(site: Path) -> None:
    without_its_journal(site)
    os.mkfifo(site / ".log.txt.journal")


def a_file_beside_the_sites(site: Path) -> None:
    (site.parent / "stray.log").write_bytes(b"by hand\n")


def a_link(site: Path) -> None:
    (site / "link.txt").symlink_to(site / "log.txt")


def a_stray_file(site: Path) -> None:
    (site / "below").mkdir()
    (site / "below" / "stray.txt").write_bytes(b"by hand\n")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without_its_journal, "/site-1/log.txt has no journal, so nothing vouches for its bytes"),
        (
            an_empty_journal,
            "/site-1/log.txt: 0 bytes: its journal has no line that can be read, so nothing vouches for 14 bytes",
        ),
        (a_directory_for_its_journal, "/site-1/log.txt has no journal, so nothing vouches for its 14 bytes"),
        (a_directory_for_its_journal, "/site-1/.log.txt.journal is not a regular file: move it away"),
        (a_fifo_for_its_journal, "/site-1/log.txt has no journal, so nothing vouches for its 14 bytes"),
        (a_link, "/site-1/link.txt is a symbolic link"),
        (a_stray_file, "/site-1/below/stray.txt has no journal, so nothing vouches for its bytes"),
        (a_file_beside_the_sites, "/stray.log is no log, because it lies in no site's directory: move it away"),
    ],
)
def test_what_nothing_vouches_for_is_named(
    command: Callable[..., tuple[object, str]], spoil: Callable[[Path], None], said: str
) -> None:
    code, printed = command(spoil)
    assert code == 1
    assert f"run-1{said}" in printed
