"""No name leads out of a store, and planted files and links are neither read nor written through."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import stat
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from flarelog.errors import FlarelogError, InvalidName, NotAllowed, StoreError, Unavailable
from flarelog.lifecycle import RunState
from flarelog.model import Receipt, StreamId, StreamInfo
from flarelog.sender.options import SidecarOptions
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.sources.files.patterns import SourceOptions
from flarelog.stores import lines
from flarelog.stores.directory import Directory
from flarelog.stores.local import appender as appending
from flarelog.stores.local import journal as journals
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import RunRecord, runs, set_run
from tests.contracts.store import DATA, STREAM, A, filled, read
from tests.rows import together

DIRECTORY = Path("run-1/site-1/rank-0")
LOG, JOURNAL = DIRECTORY / "log.txt", DIRECTORY / ".log.txt.journal"
RUN_JOURNAL = Path("run-1/.run.journal")
T = TypeVar("T")
SECRET = b"nobody's but the owner's\n"


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The root of a store with one stream and a run."""

    async def fill() -> None:
        async with LocalStore(tmp_path / "store", "memory") as store:
            await set_run(store, "run-1", RunState.RUNNING)
            await (await filled(store)).close()

    run(fill())
    return tmp_path / "store"


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory beside the store, with a store's layout; its content must stay as it is."""
    outside = tmp_path / "outside"
    for name in (LOG, JOURNAL, RUN_JOURNAL):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_bytes(SECRET)
    before = contents(outside)
    yield outside
    assert contents(outside) == before


def contents(root: Path) -> dict[Path, tuple[bytes, int]]:
    """The bytes and the mode of each file."""
    return {path: (path.read_bytes(), path.stat().st_mode) for path in root.rglob("*") if path.is_file()}


# --- names


BAD = [
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/../b",
    "a//b",
    "a/",
    "a\0b",
    "a\nb",
    "a b",
    "ä",
    "a\\b",
    "\udcff",
    "a\n",
]
OWN = [".lock", ".run.journal", ".x.journal", ".x.journal.new", ".x.quarantine.1", ".x.quarantine.12.old-journal"]


@pytest.mark.parametrize("name", [*BAD, "x" * 5000, "a/b", *OWN])
def test_a_run_or_a_site_that_is_no_plain_name_is_refused_wherever_a_path_is_made_of_it(
    name: str, tmp_path: Path
) -> None:
    source = SourceOptions(str(tmp_path))
    makes: list[Callable[[], object]] = [
        lambda: StreamId(name, "site-1", "log.txt"),
        lambda: StreamId("run-1", name, "log.txt"),
        lambda: SidecarOptions("127.0.0.1:1", name, "site-1", source=source),
        lambda: SidecarOptions("127.0.0.1:1", "run-1", name, source=source),
        lambda: Checkpoint(str(tmp_path / "state"), name, "site-1", "receiver:1"),
        lambda: Checkpoint(str(tmp_path / "state"), "run-1", name, "receiver:1"),
        lambda: asyncio.run(set_run(LocalStore(tmp_path / "store"), name, RunState.RUNNING)),
    ]
    for make in makes:
        with pytest.raises(InvalidName):
            make()
    assert not any(tmp_path.iterdir())


@together("name", [*BAD, *OWN[1:], OWN[2].upper(), f"a/{OWN[2]}/b", "x" * 201, "a/" * 512 + "b"])
def test_a_log_that_is_no_relative_name_or_one_of_the_stores_own_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        StreamId("run-1", "site-1", name)


def test_what_a_journals_own_lines_call_it_leads_nowhere(store: Path) -> None:
    """The journal's own line of its stream is not trusted: it may name a path."""
    body = lines.line({"t": "stream", "v": 1, "run": "..", "site": "..", "log": "../../etc/passwd"})
    assert journals.replay(body).stream is None


@pytest.mark.parametrize("prefix", ["..", "../", "run-1/../", "/", "run-1/site-1/../../../"])
def test_a_lists_prefix_is_compared_and_never_walked(store: Path, outside: Path, prefix: str) -> None:
    async def go() -> None:
        assert [info async for info in LocalStore(store).list(prefix)] == []

    run(go())


def test_a_file_system_that_does_not_tell_capitals_does_not_mix_two_streams(store: Path) -> None:
    """Such a file system finds the other stream's files under the new name."""
    for path in (LOG, JOURNAL):
        os.rename(store / path, store / str(path).replace("log.txt", "LOG.txt"))

    async def go() -> None:
        async with LocalStore(store, "memory") as again:
            with pytest.raises(InvalidName, match=r"^this file system takes its name for run-1/site-1/rank-0/log\.txt"):
                await again.appender(StreamId("run-1", "site-1", "rank-0/LOG.txt"), A)

    run(go())
    assert (store / DIRECTORY / "LOG.txt").read_bytes() == DATA


# --- modes


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_and_directories_are_never_more_open_than_0640_and_0750(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "COMPACT_AFTER", 5)
    root = tmp_path / "new" / "parents" / "store"

    async def go() -> None:
        async with LocalStore(root) as store:
            await set_run(store, "run-1", RunState.RUNNING)
            appender = await filled(store)
            for at in range(20):
                await appender.append(len(DATA) + at, b"x")
                await appender.sync()
        (root / JOURNAL).write_bytes(b"spoilt\n")
        async with LocalStore(root) as store:
            await store.appender(STREAM, A)
        Checkpoint(str(tmp_path / "kept" / "state"), "run-1", "site-1", "receiver:1").save({"1:2:3": ("log.txt", 0)})

    before = os.umask(umask)
    try:
        run(go())
    finally:
        os.umask(before)
    found = {path.relative_to(tmp_path).as_posix(): path.lstat().st_mode for path in tmp_path.rglob("*")}
    wanted = {name: (0o750 if stat.S_ISDIR(mode) else 0o640) & ~umask for name, mode in found.items()}
    assert {name: stat.S_IMODE(mode) for name, mode in found.items()} == wanted
    names = {Path(name).name for name in found}
    assert names >= {".lock", ".run.journal", "log.txt", ".log.txt.journal", ".log.txt.quarantine.1.old-journal"}
    assert any(name.startswith("run-1.site-1.") and name.endswith(".json") for name in names)


# --- planted files

Plant = Callable[[Path, Path], None]


def symlink(place: Path, target: Path) -> None:
    place.symlink_to(target)


def dangling(place: Path, target: Path) -> None:
    place.symlink_to(target.with_name("not-there"))


def loop(place: Path, target: Path) -> None:
    place.symlink_to(place.name)


def hard_link(place: Path, target: Path) -> None:
    os.link(target, place)


def fifo(place: Path, target: Path) -> None:
    os.mkfifo(place)


def device(place: Path, target: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a device can be made by root alone: run the tests as root")
    try:
        os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("a device cannot be made here: run the tests with CAP_MKNOD")


def directory(place: Path, target: Path) -> None:
    place.mkdir()


FILES: list[Plant] = [symlink, dangling, loop, hard_link, fifo, device]
LINKS: list[Plant] = [symlink, dangling, loop]
SENTENCE = r"(is a symbolic link|has 2 names|is not a regular file).*: "


def put(plant: Plant, store: Path, outside: Path, name: Path) -> None:
    """Plant in place of the present file or directory."""
    place = store / name
    if place.is_dir():
        place.rename(place.with_name("before"))
    else:
        place.unlink(missing_ok=True)
    plant(place, outside / name)


async def is_closed_to_all(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Check that the stream is neither written nor read, each with its sentence, and that other streams go on."""
    async with LocalStore(root) as store:
        for _ in range(2):
            with pytest.raises(StoreError, match=SENTENCE) as caught:
                await store.appender(STREAM, A)
            assert isinstance(caught.value, Unavailable), "the site must hold its bytes until that is repaired"
        with pytest.raises(FlarelogError):
            await read(store)
        other = StreamId("run-2", "site-1", "log.txt")
        await (await store.appender(other, A)).append(0, DATA)
        caplog.clear()
        found = [info.stream async for info in store.list()]
        assert other in found
        assert STREAM not in found
    async with LocalStore(root) as store:
        assert await read(store, stream=other) == DATA


@pytest.mark.parametrize("plant", LINKS, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("name", [DIRECTORY, DIRECTORY.parent, DIRECTORY.parent.parent], ids=str)
def test_a_link_in_the_place_of_a_directory_is_not_followed(
    store: Path, outside: Path, plant: Plant, name: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(plant, store, outside, name)
    run(is_closed_to_all(store, caplog))


@pytest.mark.parametrize("plant", FILES, ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("name", [LOG, JOURNAL], ids=["log", "journal"])
def test_what_is_no_file_of_its_own_is_neither_read_nor_written_as_one(
    store: Path, outside: Path, plant: Plant, name: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(plant, store, outside, name)
    run(is_closed_to_all(store, caplog))


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        *((plant, JOURNAL) for plant in (*FILES, directory)),
        *((plant, LOG) for plant in (hard_link, symlink, fifo)),
        *((plant, name) for plant in LINKS for name in (DIRECTORY, DIRECTORY.parent)),
    ],
    ids=lambda it: getattr(it, "__name__", str(it)),
)
@pytest.mark.parametrize("sealed", [False, True], ids=["open", "sealed"])
def test_what_is_left_out_leaves_its_run_incomplete(
    store: Path, outside: Path, plant: Plant, name: Path, *, sealed: bool
) -> None:
    if sealed:
        run(seal(store))
    put(plant, store, outside, name)
    if (before := store / name.parent / "before").is_dir():
        before.rename(store / ".before")

    async def lists(after: tuple[str, str, str] = ("", "", "")) -> list[StreamInfo]:
        return [info async for info in LocalStore(store).list(f"{STREAM.run}/", after=after, unreadable=True)]

    (entry,) = run(lists())
    assert entry.is_unreadable
    assert str(store / name) in entry.unstored
    assert run(lists((STREAM.run, STREAM.site, entry.stream.log))) == []


def test_a_link_without_a_journal_holds_its_log_and_leaves_no_journal_behind(store: Path, outside: Path) -> None:
    put(symlink, store, outside, LOG)
    (store / JOURNAL).unlink()

    async def go() -> None:
        async with LocalStore(store) as again:
            with pytest.raises(Unavailable, match="symbolic link"):
                await again.appender(STREAM, A)

    run(go())
    assert not (store / JOURNAL).exists()


def test_a_directory_in_the_place_of_a_journal_hides_no_other_stream(
    store: Path, outside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(directory, store, outside, JOURNAL)
    run(is_closed_to_all(store, caplog))


def test_a_directory_in_the_place_of_a_log_hides_no_other_stream(store: Path, outside: Path) -> None:
    put(directory, store, outside, LOG)

    async def go() -> None:
        async with LocalStore(store) as again:
            with pytest.raises(InvalidName):
                await again.appender(STREAM, A)
            other = StreamId("run-2", "site-1", "log.txt")
            await (await again.appender(other, A)).append(0, DATA)
            assert [info.stream async for info in again.list()] == [other]

    run(go())


@pytest.mark.parametrize("name", [JOURNAL, LOG, DIRECTORY, DIRECTORY.parent, DIRECTORY.parent.parent], ids=str)
def test_what_is_left_out_of_a_list_is_said_once(
    store: Path, outside: Path, name: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(symlink, store, outside, name)
    if (before := store / name.parent / "before").is_dir():
        before.rename(store / ".before")

    async def go() -> None:
        reader = LocalStore(store)
        for _ in range(3):
            assert [info async for info in reader.list()] == []

    with caplog.at_level(logging.WARNING, "flarelog"):
        run(go())
    (message,) = [record.getMessage() for record in caplog.records]
    assert "is a symbolic link, which the store does not follow: move it away" in message
    assert str(store / name) in message


async def seal(store: Path) -> None:
    async with LocalStore(store) as again:
        appender = await again.appender(STREAM, A)
        await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))


def test_a_log_of_a_sealed_stream_that_was_replaced_by_a_link_cannot_be_read(store: Path, outside: Path) -> None:
    async def go() -> None:
        await seal(store)
        put(symlink, store, outside, LOG)
        with pytest.raises(Unavailable, match="symbolic link"):
            await read(LocalStore(store))

    run(go())


@pytest.mark.parametrize("plant", [*FILES, directory], ids=lambda plant: plant.__name__)
def test_the_runs_state_is_not_written_through_what_was_planted(store: Path, outside: Path, plant: Plant) -> None:
    put(plant, store, outside, RUN_JOURNAL)

    async def go() -> None:
        again = LocalStore(store)
        with pytest.raises(StoreError, match=SENTENCE):
            await set_run(again, "run-1", RunState.ENDED)
        assert await runs(again) == {"run-1": RunRecord(RunState.UNKNOWN)}

    run(go())


@pytest.mark.parametrize("plant", [*FILES, directory], ids=lambda plant: plant.__name__)
def test_a_lock_that_is_no_file_of_its_own_ends_the_receiver_with_a_sentence(
    store: Path, outside: Path, plant: Plant
) -> None:
    (outside / ".lock").write_bytes(SECRET)
    put(plant, store, outside, Path(".lock"))

    async def go() -> None:
        with pytest.raises(NotAllowed, match=SENTENCE):
            await LocalStore(store).__aenter__()

    run(go())
    (outside / ".lock").unlink()


@pytest.mark.parametrize("plant", FILES, ids=lambda plant: plant.__name__)
def test_a_journal_is_rewritten_beside_whatever_stood_in_the_new_ones_place(
    store: Path, outside: Path, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appending, "COMPACT_AFTER", 5)
    new = JOURNAL.with_name(JOURNAL.name + ".new")
    (outside / new).write_bytes(SECRET)
    put(plant, store, outside, new)

    async def go() -> None:
        async with LocalStore(store) as again:
            appender = await again.appender(STREAM, A)
            for at in range(20):
                await appender.append(len(DATA) + at, b"x")
                await appender.sync()
        assert await read(LocalStore(store)) == DATA + b"x" * 20

    run(go())
    assert not os.path.lexists(store / new)
    (outside / new).unlink()


@pytest.mark.parametrize("plant", FILES, ids=lambda plant: plant.__name__)
def test_what_is_set_aside_goes_beside_what_was_planted(store: Path, outside: Path, plant: Plant) -> None:
    aside = LOG.with_name(".log.txt.quarantine.1")
    (outside / aside).write_bytes(SECRET)
    put(plant, store, outside, aside)
    (store / JOURNAL).write_bytes(b"spoilt\n")

    async def go() -> None:
        async with LocalStore(store) as again:
            assert (await again.appender(STREAM, A)).committed == 0

    run(go())
    assert (store / aside).with_name(".log.txt.quarantine.2").read_bytes() == DATA
    (outside / aside).unlink()


def test_a_directory_that_becomes_a_link_under_an_open_stream_holds_it(
    store: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream's descriptors still lead to its own files, and a new journal is not written through the link."""
    monkeypatch.setattr(appending, "COMPACT_AFTER", 5)

    async def go() -> None:
        async with LocalStore(store) as again:
            appender = await again.appender(STREAM, A)
            put(symlink, store, outside, DIRECTORY.parent)
            with pytest.raises(Unavailable, match="symbolic link"):  # noqa: PT012
                for at in range(20):
                    await appender.append(len(DATA) + at, b"x")
                    await appender.sync()
            with pytest.raises(Unavailable):
                await appender.append(appender.committed, b"x")
            assert appender.committed < len(DATA) + 20

    run(go())


def test_the_root_itself_may_be_a_link(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store)

    async def go() -> None:
        async with LocalStore(tmp_path / "link") as again:
            assert await read(again) == DATA
            assert (await again.appender(STREAM, A)).committed == len(DATA)

    run(go())


@pytest.mark.parametrize("plant", [symlink, dangling, hard_link], ids=lambda plant: plant.__name__)
def test_a_checkpoint_is_not_written_through_what_stands_in_its_place(tmp_path: Path, plant: Plant) -> None:
    target = tmp_path / "target"
    target.write_bytes(SECRET)
    checkpoint = Checkpoint(str(tmp_path / "state"), "run-1", "site-1", "receiver:1")
    plant(Path(f"{checkpoint.path}.new"), target)
    checkpoint.save({"1:2:3": ("log.txt", 7)})
    assert checkpoint.load() == {"1:2:3": ("log.txt", 7)}
    assert target.read_bytes() == SECRET
    assert [path.name for path in tmp_path.rglob("*.new")] == []


def test_a_list_of_one_run_looks_at_no_other(store: Path, outside: Path) -> None:
    (store / "run-2").symlink_to(outside)
    (store / "run-1" / "site-2").symlink_to(outside)

    async def lists() -> None:
        reading = LocalStore(store)
        for prefix, sites in ((f"{STREAM.run}/{STREAM.site}/", ["site-1"]), (f"{STREAM.run}/", ["site-1", "site-2"])):
            assert [info.stream.site async for info in reading.list(prefix, unreadable=True)] == sites
            assert not reading.left_out

    run(lists())


def test_where_names_that_differ_in_case_alone_are_one_the_second_is_refused(tmp_path: Path) -> None:
    """Such a file system shows itself by the lock, which also exists in other letters; a hard link has
    the same effect.
    """
    (tmp_path / ".lock").touch()
    with Directory(tmp_path, ("run-1", "site-1"), make=True) as directory:
        os.close(directory.open("app.log", os.O_WRONLY | os.O_CREAT))
    with Directory(tmp_path, ("run-1", "Site-1"), make=True) as directory:
        os.close(directory.open("App.log", os.O_WRONLY | os.O_CREAT))  # a file system with case-sensitive names
    (tmp_path / "run-1" / "Site-1" / "App.log").unlink()
    (tmp_path / "run-1" / "Site-1").rmdir()
    os.link(tmp_path / ".lock", tmp_path / ".LOCK")
    with Directory(tmp_path, ("run-1", "site-1"), make=True) as directory:
        os.close(directory.open("app.log", os.O_WRONLY))
        with pytest.raises(InvalidName, match=r"App\.log and app\.log, which is in the store, differ only in case"):
            directory.open("App.log", os.O_WRONLY | os.O_CREAT)
        os.close(directory.open("other.log", os.O_WRONLY | os.O_CREAT))
    for parts in (("Run-1",), ("run-1", "SITE-1")):
        with pytest.raises(InvalidName, match="differ only in case"):
            Directory(tmp_path, parts, make=True)
    with Directory(tmp_path, ("run-2", "site-1"), make=True):
        pass


def test_a_store_that_was_removed_below_a_receiver_is_named_with_what_to_do(tmp_path: Path) -> None:
    async def play() -> None:
        async with LocalStore(tmp_path / "store", "memory") as store:
            await (await store.appender(StreamId("run", "site", "a.log"), b"p" * 16)).close()
            shutil.rmtree(tmp_path / "store")
            with pytest.raises(Unavailable) as raised:
                await store.appender(StreamId("run", "site", "b.log"), b"p" * 16)
            assert str(raised.value).startswith(f"the store {tmp_path / 'store'} is gone: put it back, or start")

    asyncio.run(play())
