"""The case collection's small kinds on real files: piecewise reads, file identity, and state files.

``max_line_bytes`` and the lines cut at it belong to a view, not to the stream, so only bytes are compared.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flarelog.checksum import extend
from flarelog.model import Generation, StreamId
from flarelog.sources.files.checkpoint import Checkpoint
from flarelog.stores.local.journal import length_line, replay, stream_line
from flarelog.stores.local.store import LocalStore
from flarelog.stores.marks import mark_line
from tests.sources.files.tailing import Site

CASES = json.loads((Path(__file__).parents[2] / "data" / "reading.json").read_text())


def of_kind(*kinds: str) -> list[Any]:
    return [pytest.param(case, id=f"{case['id']}-{case['name']}") for case in CASES if case["kind"] in kinds]


@pytest.mark.parametrize("case", of_kind("incremental_read"))
def test_a_file_is_read_in_pieces(make_site: Callable[..., Site], case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    for number, room in enumerate(given["read_chunk_sizes"]):
        site, name = make_site(start_at=given["start_at"], include=(f"{number}.log",)), f"{number}.log"
        site.append(name, given["first"].encode())
        site.look()
        site.append(name, given["then"].encode())
        while site.pump(room=room):
            site.arrive(name)
            site.look()
        begin = len(given["first"]) if given["start_at"] == "end" else 0
        stored = site.content(name)
        assert stored == (given["first"] + given["then"]).encode()[begin:]
        assert site.discovery.tails[name].files[0].position == expected["byte_offset"]
        whole = [line.decode() for line in stored.split(b"\n")[:-1]]
        if max(map(len, whole), default=0) <= given["max_line_bytes"]:
            assert whole == expected["lines"]
            assert begin + sum(len(line) + 1 for line in whole) == expected["line_offset"]
        site.restart()
        site.settle()  # a head fingerprint that has grown still matches the file
        assert site.content(name) == stored
        (mark,) = [mark for mark in site.stored[name].marks if isinstance(mark, Generation)]
        prefix = (given["first"] + given["then"]).encode()[: mark.head_length]
        assert prefix.startswith(given["first"].encode()[: len(prefix)])
        assert mark.head_digest == extend(0, prefix)


@pytest.mark.parametrize("case", of_kind("fingerprint_match"))
def test_a_file_with_other_bytes_than_those_held_begins_anew(
    make_site: Callable[..., Site], case: dict[str, Any]
) -> None:
    """The inode stays the same, so the bytes decide whether the generation does."""
    old, new = (case["input"][key].encode() for key in ("old_prefix", "new_content"))
    site = make_site()
    site.append("a.log", old)
    site.settle()
    site.cut()
    site.discovery.close()
    with open(site.root / "a.log", "r+b") as file:
        file.truncate(0)
        file.write(new)
    site.restart()
    site.settle()
    generations = [data for _, data in site.generations("a.log")]
    if case["expected"]["same_file"]:
        assert generations == [new]
    elif old:
        assert generations == [old, new]
    else:  # nothing is held of an empty file: the handle identifies it, and all of its bytes are sent
        assert site.content("a.log") == new


@pytest.mark.parametrize("case", of_kind("fingerprint_ready"))
def test_a_file_is_sent_from_its_first_byte_on(make_site: Callable[..., Site], case: dict[str, Any]) -> None:
    site = make_site()
    for number, (content, ready) in enumerate(
        zip(case["input"]["contents"], case["expected"]["flarelog_ready"], strict=True)
    ):
        site.append(f"{number}.log", content.encode())
        site.settle()
        assert (f"{number}.log" in site.stored) is ready
        assert site.content(f"{number}.log") == content.encode()


@pytest.mark.parametrize("case", of_kind("fingerprint_inode"))
def test_files_of_equal_content_are_two(make_site: Callable[..., Site], case: dict[str, Any]) -> None:
    site = make_site()
    for name in "ab":
        site.append(name, b"x" * case["input"][name]["len"])
    site.settle()
    assert (site.content("a") == site.content("b") == b"x" * 256) is not case["expected"]["same_file"]


def state_files() -> list[Any]:
    """The sidecar's state as each case leaves it: the bytes of the file and of its unfinished replacement."""
    raws: dict[str, tuple[bytes | None, bytes | None]] = {
        "C245": (None, b""),  # None: the saved state
        "C247": (b'{"curr_offs":\n', None),
        "C248": (base64.b64decode(next(case for case in CASES if case["id"] == "C248")["input"]["raw_b64"]), None),
        "C249": (b"page expected 242 but self identifies as 8316213599780548146", None),
    }
    names = {case["id"]: case["name"] for case in CASES}
    found = [pytest.param(*raw, id=f"{key}-{names[key]}") for key, raw in raws.items()]

    def body(**changed: object) -> bytes:
        text = json.dumps({"version": 1, "owner": "run/site to receiver:1", "files": {}} | changed).encode()
        return b"%08x %b" % (extend(0, text), text)

    return [
        *found,
        pytest.param(b"", None, id="empty"),
        pytest.param(body()[:-3], None, id="cut"),
        pytest.param(body(version=2), None, id="of-another-version"),
        pytest.param(body(owner="run/elsewhere"), None, id="from-another-site"),
        pytest.param(body(files={"1:2:": ["../out", 3]}), None, id="with-a-name-that-cannot-be"),
        pytest.param(body(files=[]), None, id="of-another-shape"),
    ]


@pytest.mark.parametrize(("raw", "unfinished"), state_files())
def test_a_state_file_that_cannot_be_believed_is_said_once_and_costs_no_byte(
    make_site: Callable[..., Site],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    raw: bytes | None,
    unfinished: bytes | None,
) -> None:
    site, state = make_site(include=("a.log",)), Checkpoint(str(tmp_path / "state"), "run", "site", "receiver:1")
    site.append("a.log", b"one\n")
    site.settle()
    state.save(saved := site.discovery.starts())
    if raw is not None:
        state.path.write_bytes(raw)
    if unfinished is not None:
        Path(f"{state.path}.new").write_bytes(unfinished)
    loaded = state.load()
    assert loaded == ({} if raw is not None else saved)
    assert len(caplog.records) == (raw is not None)
    site.append("a.log", b"two\n")
    site.restart()
    site.discovery.ledger.remembered.update(loaded)
    site.settle()
    assert site.content("a.log") == b"one\ntwo\n"
    Checkpoint(str(tmp_path / "state"), "run", "site", "receiver:1").save(site.discovery.starts())
    assert [path.name for path in state.path.parent.iterdir()] == [state.path.name]  # C243: no unfinished file is left
    assert state.load() == site.discovery.starts()


def test_c246_the_age_of_a_state_makes_nothing_be_sent_again(make_site: Callable[..., Site], tmp_path: Path) -> None:
    site, state = (
        make_site(include=("*.log",), ignore_older=12.0),
        Checkpoint(str(tmp_path / "s"), "run", "site", "receiver:1"),
    )
    for name in ("newer", "oldish", "older"):
        site.append(f"{name}.log", b"one\n")
    site.settle()
    state.save(site.discovery.starts())
    for path in (state.path, *site.root.glob("*.log")):
        os.utime(path, (1.0, 1.0))
    assert {log for log, _ in state.load().values()} == {"newer.log", "oldish.log", "older.log"}
    site.restart()
    site.settle()
    assert [site.content(f"{name}.log") for name in ("newer", "oldish", "older")] == [b"one\n"] * 3


def test_c250_a_file_that_an_earlier_version_recorded_goes_on(make_site: Callable[..., Site]) -> None:
    """Earlier versions recorded neither notes nor birth times, and a device's number may have changed."""
    site = make_site()
    site.append("a.log", b"before-upgrade\n")
    site.settle()
    site.append("a.log", b"after-upgrade\n")
    stored = site.stored["a.log"]
    (mark,) = stored.marks
    assert isinstance(mark, Generation)
    device, rest = mark.identity.split(":", 1)
    stored.marks = [Generation(0, 0, "a.log", 0, f"{int(device, 16) + 7:x}:{rest}")]
    site.restart()
    site.settle()
    assert site.content("a.log") == b"before-upgrade\nafter-upgrade\n"
    assert len(stored.marks) == 1


STREAM = StreamId("run", "site", "a.log")
DATA = b"".join(b"line %d\n" % n for n in range(300))
CUTS = (700, 1400, len(DATA))


def journal_lines() -> list[bytes]:
    lengths = [length_line(cut, extend(0, DATA[:cut]), 1) for cut in CUTS]
    return [stream_line(STREAM), mark_line(0, Generation(0, 0, "a.log", 0, "1:2:3")), *lengths]


def flipped(line: bytes) -> bytes:
    return line[:20] + bytes([line[20] ^ 1]) + line[21:]


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        pytest.param(3, len(DATA), id="C253-middle-record-checksum-flipped"),
        pytest.param(4, CUTS[1], id="C254-the-last-record"),
        pytest.param(2, len(DATA), id="C256-unread-leading-corrupt-record"),
    ],
)
def test_a_record_of_the_journal_that_is_damaged_costs_what_it_alone_vouched_for(
    tmp_path: Path, number: int, kept: int
) -> None:
    (tmp_path / "run/site").mkdir(parents=True)
    (tmp_path / "run/site/a.log").write_bytes(DATA)
    records = journal_lines()
    records[number] = flipped(records[number])
    (tmp_path / "run/site/.a.log.journal").write_bytes(b"".join(records))
    held = replay(b"".join(records))
    assert (held.damaged, held.committed) == (1, kept)

    async def go() -> None:
        async with LocalStore(str(tmp_path)) as store:
            appender = await store.appender(STREAM, b"p" * 16)
            assert appender.committed == kept
            await appender.append(kept, DATA[kept:] + b"more\n")  # the producer sends these bytes again
        assert (tmp_path / "run/site/a.log").read_bytes() == DATA + b"more\n"

    asyncio.run(go())
