"""Archives: what unpackers read in them, and that any range has the bytes of the whole."""

from __future__ import annotations

import io
import random
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from flarelog.viewers.web.zipped import Layout, Member, Piece

FILES = [b"", b"one\n", b"two\n" * 1000, "\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), b"\0" * 70_000]


def members(files: Sequence[bytes] = FILES) -> list[Member]:
    return [
        Member(f"run/site/log {n}.txt", len(data), zlib.crc32(data), 1_700_000_000 + n) for n, data in enumerate(files)
    ]


def made(layout: Layout, begin: int = 0, end: int | None = None, files: Sequence[bytes] = FILES) -> bytes:
    pieces = layout.pieces(begin, layout.length if end is None else end)
    return b"".join(files[one.number][one.begin : one.end] if isinstance(one, Piece) else one for one in pieces)


def test_an_unpacker_finds_the_files_and_their_checksums_agree() -> None:
    layout = Layout(members())
    with zipfile.ZipFile(io.BytesIO(made(layout))) as found:
        assert found.testzip() is None
        assert {one.filename: found.read(one) for one in found.infolist()} == {
            one.name: data for one, data in zip(members(), FILES, strict=True)
        }
        assert found.infolist()[1].date_time == (2023, 11, 14, 22, 13, 20)


def test_any_range_has_the_bytes_of_the_whole() -> None:
    layout = Layout(members())
    whole, chance = made(layout), random.Random(1)
    assert len(whole) == layout.length
    places = [0, 1, layout.length - 1, layout.length, *(chance.randrange(layout.length) for _ in range(300))]
    for begin in places:
        end = min(layout.length, begin + chance.choice((1, 10, 1000, 80_000)))
        assert made(layout, begin, end) == whole[begin:end], (begin, end)


def test_the_etag_names_the_bytes() -> None:
    assert Layout(members()).etag == Layout(members()).etag
    grown = [*FILES[:1], b"one\nmore\n", *FILES[2:]]
    changed = [*FILES[:1], b"One\n", *FILES[2:]]
    assert len({Layout(members(files)).etag for files in (FILES, grown, changed, FILES[1:])}) == 4


@pytest.mark.parametrize("lengths", [(5 << 30, 3), (3 << 30, 3 << 30, 3), ((1 << 32) - 1, 3)], ids=str)
def test_large_files_and_far_ones_are_found(lengths: tuple[int, ...], tmp_path: Path) -> None:
    """The file on the disk is sparse: the contents are zeros that nobody writes."""
    layout = Layout([Member(f"{n}", length, zlib.crc32(b"\0" * 3)) for n, length in enumerate(lengths)])
    path, position = tmp_path / "large.zip", 0
    with path.open("wb") as out:
        for one in layout.pieces(0, layout.length):
            if isinstance(one, bytes):
                out.seek(position)
                out.write(one)
            position += one.end - one.begin if isinstance(one, Piece) else len(one)
    assert path.stat().st_size == layout.length == position
    with zipfile.ZipFile(path) as found:
        assert [one.file_size for one in found.infolist()] == list(lengths)
        assert found.read(found.infolist()[-1]) == b"\0" * 3


def test_more_files_than_two_bytes_count() -> None:
    layout = Layout([Member(f"{n}", 0, 0) for n in range(70_000)])
    with zipfile.ZipFile(io.BytesIO(made(layout, files=[b""] * 70_000))) as found:
        assert len(found.infolist()) == 70_000


@pytest.mark.parametrize("time", [0, 1, 10**10, 2**62], ids=str)
def test_any_time_has_a_date(time: int) -> None:
    with zipfile.ZipFile(io.BytesIO(made(Layout([Member("a", 0, 0, time)])))) as found:
        assert 1980 <= found.infolist()[0].date_time[0] <= 2107
