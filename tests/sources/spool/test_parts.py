"""A command's output in the parts of a spool: each byte is shown as in the whole output."""

from __future__ import annotations

import gzip
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flarelog.extents import extents
from flarelog.extents import spooled as spooled_note
from flarelog.model import Ended, Gap, Generation
from flarelog.sources.process import segments
from flarelog.sources.process.segments import SMALLEST, Segments
from flarelog.sources.process.shared import Shared
from flarelog.sources.redaction import mask
from flarelog.sources.redaction.mask import Rules
from flarelog.sources.spool import part as parts_of
from flarelog.sources.spool import record
from flarelog.sources.spool.part import SpooledPart
from flarelog.sources.spool.record import LEAD, Segment
from flarelog.sources.spool.series import of_spools
from tests.often import often
from tests.sources.files.tailing import Site
from tests.sources.redaction.test_redact import FILES, RULES, reference, small

LINE = b"%06d login password=hunter2andmore%06d-SECRET done\n"
PADDED = b"x" * 50 + b"\n"
BODY = [(b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC%06d" % n).ljust(64, b"A") + b"\n" for n in range(60)]
KEY = b"-----BEGIN PRIVATE KEY-----\n" + b"".join(BODY) + b"-----END PRIVATE KEY-----\n"


class Spooled:
    """A command's output, spooled below a site's root, and its stored bytes."""

    def __init__(self, root: Path, most: int = 1 << 20, name: str = "out.log", **options: object) -> None:
        self.said = b""
        shared = Shared()
        shared.gone = 1  # no copier
        self.segments = Segments(str(root / name), most, "0123456789abcdef", shared)
        self.segments.begin()
        self.site = Site(root, **options)
        self._out, self._into = os.pipe()
        os.set_blocking(self._out, False)

    def say(self, data: bytes) -> None:
        self.said += data
        while data:
            os.write(self._into, data[:4096])
            piece, data = data[:4096], data[4096:]
            while piece:
                piece = piece[self.segments.take(self._out) :]

    @property
    def stored(self) -> bytes:
        return self.site.content("out.log")

    def drain(self) -> None:
        self.site.settle()
        self.site.discovery.drain(self.site.now)
        more = 1
        while more:
            more = self.site.pump()
            for name in list(self.site.discovery.tails):
                self.site.arrive(name)
        assert all(tail.drained(self.site.now) for tail in self.site.discovery.tails.values())
        self.site.discovery.ledger.draining = False  # a next drain is that of another sidecar

    def close(self) -> None:
        self.segments.close()
        self.site.close()
        os.close(self._out)
        os.close(self._into)


@contextmanager
def spooled(*, most: int = 1 << 20, part: int = 0, name: str = "out.log", **options: object) -> Iterator[Spooled]:
    """A spool with parts of *part* bytes."""
    with (
        tempfile.TemporaryDirectory() as root,
        mock.patch.multiple(segments, SMALLEST=part or SMALLEST, LARGEST=part or SMALLEST),
    ):
        spool = Spooled(Path(root), most, name, **options)
        yield spool
        spool.close()


def masked(text: bytes, *names: str) -> bytes:
    return Rules(names or ("all",)).show(lambda begin, end: text[begin:end], 0, len(text), len(text))[0]


@pytest.mark.parametrize("own", [(), ("patient-\\d+",)], ids=["known", "own"])
@pytest.mark.parametrize("live", [True, False], ids=["live", "later"])
def test_a_secret_that_crosses_the_end_of_a_part_is_masked_and_nothing_else(
    live: bool, own: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Rules(("all",), own)
    monkeypatch.setattr("flarelog.sources.files.patterns.SourceOptions.rules", lambda _: rules)
    with spooled() as spool:
        for n in range(300):
            spool.say(LINE % (n, n) + b"patient-12 of 7\n")
            if live and n % 7 == 0:
                spool.site.settle()
        spool.drain()
        text = spool.said
        assert spool.stored == rules.show(lambda begin, end: text[begin:end], 0, len(text), len(text))[0]
        assert b"SECRET" not in spool.stored
        assert len([mark for mark in spool.site.stored["out.log"].marks if isinstance(mark, Generation)]) > 3


@pytest.mark.parametrize("live", [True, False], ids=["live", "later"])
def test_a_private_key_that_crosses_the_end_of_a_part_is_masked_to_its_last_line(live: bool) -> None:
    with spooled(redact=("all",)) as spool:
        for n in range(12):
            spool.say(b"starting %d\n" % n + KEY)
            if live:
                spool.site.settle()
        spool.drain()
        assert spool.stored == masked(spool.said)
        assert b"MII" not in spool.stored


def test_a_part_waits_for_the_end_of_its_last_line_and_the_next_part_for_it() -> None:
    with spooled(redact=("all",)) as spool:
        spool.say(b"x\n" * (SMALLEST // 2 - 5) + b"password=hun")
        spool.say(b"ter2")
        spool.site.settle()
        assert spool.stored == b"x\n" * (SMALLEST // 2 - 5)
        spool.say(b" done\n")
        spool.site.settle()
        assert spool.stored == masked(spool.said)


@pytest.mark.parametrize("at", range(0, 64, 3))
def test_a_sidecar_that_is_killed_anywhere_around_the_end_of_a_part_sends_no_byte_twice(at: int) -> None:
    with spooled(redact=("all",)) as spool:
        spool.say(
            b"x\n" * (SMALLEST // 2 - 20) + b"1 password=hunter2SECRET and\n2 password=hunter2SECRET and more\nend\n"
        )
        spool.site.look()
        for name in ("out.log",):
            spool.site.pump(room=SMALLEST - 40, limit=2)
            spool.site.arrive(name)
            spool.site.pump(room=at + 1, limit=3)
            spool.site.arrive(name)
        spool.site.restart()
        spool.drain()
        assert spool.stored == masked(spool.said)
        assert not [mark for mark in spool.site.stored["out.log"].marks if isinstance(mark, Gap)]


def meanwhile(site: Site, what: int, room: int) -> None:
    """Let the sidecar of *site* act between two writes of the command; 0: it does nothing."""
    if what == 1:
        site.restart()
    elif what == 2:
        site.look()
        site.pump(room=room)
        site.arrive("out.log", 2)
    elif what == 3:
        site.settle()
    elif what == 4:
        site.cut()
    elif what == 5:
        site.look()


@settings(max_examples=often(40, 400), deadline=None)
@given(FILES, RULES, st.integers(40, 400), st.lists(st.tuples(st.integers(1, 120), st.integers(0, 5)), max_size=30))
def test_what_is_shown_of_the_parts_is_what_is_shown_of_the_whole(
    data: bytes, rules: Rules, part: int, steps: list[tuple[int, int]]
) -> None:
    data += b"\n"
    sizes = mock.patch.object(parts_of, "LEAD", 346), mock.patch.object(segments, "LEAD", 346)
    ruled = mock.patch("flarelog.sources.files.patterns.SourceOptions.rules", return_value=rules)
    with small(), sizes[0], sizes[1], ruled, mock.patch.object(record, "LEAD", 346), spooled(part=part) as spool:
        left = data
        for count, what in steps:
            spool.say(left[:count])
            left = left[count:]
            meanwhile(spool.site, what, count)
        spool.say(left)
        spool.drain()
        assert spool.stored == reference(data, rules)
        marks = spool.site.stored["out.log"].marks
        assert not [mark for mark in marks if isinstance(mark, Gap) or mark == Ended(mark.offset, 0, "truncated")]


def test_of_parts_that_the_spool_let_go_their_last_bytes_are_still_known() -> None:
    with spooled(most=8 * SMALLEST, redact=("all",)) as spool:
        for n in range(400):
            spool.say(LINE % (n, n))
        spool.say(KEY * 9)
        spool.drain()
        whole = masked(spool.said)
        assert len(spool.stored) >= 6 * SMALLEST
        assert spool.stored == whole[-len(spool.stored) :]
        assert b"SECRET" not in spool.stored
        assert b"MII" not in spool.stored


@pytest.mark.parametrize("sent", [10, 100, 3000])
def test_a_part_that_is_sent_in_part_goes_on_when_those_before_it_were_let_go(sent: int) -> None:
    with spooled(most=8 * SMALLEST, redact=("all",)) as spool:
        spool.say(KEY * 2)
        spool.site.settle()
        spool.site.look()
        spool.site.pump(room=sent, limit=4)
        spool.site.arrive("out.log")
        spool.say(KEY * 7)
        spool.site.restart()
        spool.say(KEY)
        spool.drain()
        marks = spool.site.stored["out.log"].marks
        assert not [mark for mark in marks if isinstance(mark, Ended) and mark.reason == "truncated"]
        assert b"MII" not in spool.stored


def test_where_nobody_knows_what_was_before_a_part_the_rest_of_a_line_and_of_a_key_is_masked() -> None:
    with spooled(most=8 * SMALLEST, redact=("all",)) as spool:
        spool.say(KEY * 12 + b"an end\n")
        (spool.site.root / ".out.log.lead").unlink()
        spool.drain()
        first = re.search(rb"[^*\r\n]", spool.stored)
        assert first is not None
        assert b"MII" not in spool.stored
        assert spool.stored.endswith(b"an end\n")


def test_what_was_passed_over_on_a_full_disk_may_hold_the_beginning_of_a_secret() -> None:
    with spooled(redact=("all",)) as spool:
        spool.say(b"one\n")
        spool.segments.shared.trouble = 28
        spool.say(b"password=hun")
        spool.segments.retry()
        spool.say(b"ter2SECRET\nmore of it\nMIIE\n" + BODY[0] + b"two\n")
        spool.drain()
        assert spool.stored == b"one\n**********\nmore of it\nMIIE\n" + BODY[0] + b"two\n"
        spool.segments.shared.trouble = 28
        spool.say(b"-----BEGIN PRIVATE KEY-----\n" + BODY[0][:20])
        spool.segments.retry()
        spool.say(BODY[0][20:] + BODY[1] + b"AA==\n-----END PRIVATE KEY-----\nthree\n")
        spool.drain()
        assert spool.stored.endswith(
            b"two\n" + b"*" * 44 + b"\n" + b"*" * 64 + b"\n****\n-----END PRIVATE KEY-----\nthree\n"
        )


def test_no_mask_depends_on_more_than_is_kept_of_what_is_before_a_part_and_behind_it() -> None:
    assert 2 * mask.WINDOW + mask.KEY_BLOCK + mask.MARGIN <= LEAD
    assert 2 * mask.WINDOW + mask.OVERLAP <= LEAD


@pytest.mark.parametrize("sent", [True, False], ids=["sent", "not-sent"])
def test_the_last_part_of_a_command_is_known_when_another_command_has_begun(*, sent: bool) -> None:
    with spooled(redact=("all",)) as spool:
        first = b"x\n" * (SMALLEST // 2 - 10) + b"the first password=hunter2SECRET\n"
        spool.say(first)
        if sent:
            spool.site.settle()
        spool.segments.close()
        spool.segments = Segments(str(spool.site.root / "out.log"), 1 << 20, "fedcba9876543210", Shared())
        spool.segments.begin()
        spool.say(b"the second password=hunter2SECRET\n")
        spool.site.restart()
        spool.drain()
        assert spool.stored == masked(first) + masked(spool.said[len(first) :])


@pytest.mark.parametrize("redact", [(), ("all",)], ids=["plain", "redacted"])
@pytest.mark.parametrize("name", ["out.log", "out.zst", "out.log.gz", "out.zip"])
def test_no_output_is_taken_for_compressed_whatever_its_name_and_its_first_bytes_are(
    name: str, redact: tuple[str, ...]
) -> None:
    with spooled(redact=redact, include=("**",), exclude=(".*",), name=name) as spool:
        spool.say(gzip.compress(b"password=hunter2SECRET", mtime=0) + b"\n" * SMALLEST)
        for begin in (b"BZh", b"PK\x03\x04", b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"\x1f", b""):
            text = begin + b" part\n" + LINE % (1, 1)
            spool.say(b"\n" * (-len(spool.said) % SMALLEST) + text)
            spool.site.settle()
        spool.drain()
        text = spool.said
        assert spool.site.content(name) == (masked(text) if redact else text)
        assert not spool.site.discovery.troubles


def test_what_stands_behind_a_part_is_read_from_the_parts_that_are_open_though_the_spool_let_them_go() -> None:
    with spooled(most=8 * SMALLEST, redact=("all",)) as spool:
        for n in range(often(1500, 3000)):
            spool.say(b"step %04d of 3000: all is well, password=hunter2%04d-SECRET\n" % (n, n))
            if n % 20 == 0:
                spool.site.look()
        spool.drain()
        assert spool.stored == masked(spool.said)
        assert not spool.site.gaps("out.log")


def test_what_stands_before_a_part_is_read_from_the_parts_that_are_open_though_the_spool_let_them_go() -> None:
    with spooled(most=8 * SMALLEST, redact=("all",)) as spool:
        for _ in range(100):
            spool.say(PADDED * (SMALLEST // len(PADDED) // 3))
            (spool.site.root / ".out.log.lead").unlink(missing_ok=True)
            spool.site.look()
        spool.drain()
        assert spool.stored == spool.said


def test_what_is_kept_of_parts_that_were_let_go_tells_what_stands_behind_another_one() -> None:
    with spooled(most=8 * SMALLEST, redact=("all",)) as spool:
        spool.say(b"x\n" * (SMALLEST // 2 - 10) + b"the last word ")
        spool.site.look()
        for _ in range(3000):
            spool.say(b"another line\n")
        spool.drain()
        assert spool.stored.startswith(spool.said[:SMALLEST])
        assert b"*" not in spool.stored


@settings(max_examples=often(10, 400), deadline=None)
@given(
    st.integers(30, 300),
    st.integers(4, 30),
    st.booleans(),
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 6)), min_size=5, max_size=40),
)
def test_whatever_the_spool_lets_go_each_byte_is_stored_once_and_in_order_or_a_gap(
    part: int, lines: int, lead: bool, steps: list[tuple[int, int]]
) -> None:
    with spooled(part=part, most=8 * part, redact=("all",)) as spool:
        left = b"".join(
            b"%06d of all " % n + (b"password=hunter2SECRET\n" if n % lines == 0 else b"")
            for n in range(often(200, 600))
        )
        for count, what in steps:
            spool.say(left[:count])
            left = left[count:]
            if not lead:
                (spool.site.root / ".out.log.lead").unlink(missing_ok=True)
            meanwhile(spool.site, what, count)
        spool.say(left + b"\n")
        spool.drain()
        stored, at = spool.site.stored["out.log"], 0
        for extent in extents(stored.marks, len(stored.data)):
            said = spooled_note(extent.notes)
            assert said is not None
            if extent.length:
                assert at <= said.base + extent.source_offset
                at = said.base + extent.source_offset + extent.length
            shown = stored.data[extent.offset :][: extent.length]
            true = spool.said[at - extent.length : at]
            assert all(one in (other, ord("*")) for one, other in zip(shown, true, strict=True))
        assert b"SECRET" not in stored.data
        assert len(stored.data) + sum(gap.length for gap in spool.site.gaps("out.log")) == len(spool.said)


def test_no_later_part_is_taken_for_one_that_is_gone_whose_inode_it_has(tmp_path: Path) -> None:
    (tmp_path / "out.log.00000001").write_bytes(b"0123456789")
    (tmp_path / "out.log").write_bytes(b"the newest\n")
    inodes = [os.stat(tmp_path / name).st_ino for name in ("out.log.00000001", "out.log")]
    parts = [Segment("ab", 1, 0, inodes[0]), Segment("ab", 2, 10, inodes[1]), Segment("ab", 9, 900, inodes[1])]
    (tmp_path / ".out.log.spool").write_bytes(b"".join(part.line() for part in parts))
    first = of_spools().part(str(tmp_path / "out.log.00000001"), inodes[0])
    assert isinstance(first, SpooledPart)
    first.look_around()
    assert first.end(10) == 10
    assert not first.goes_on(10)
    assert first.complete()


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "unseen"])
def test_a_part_of_which_nothing_could_be_shown_goes_before_the_gap_behind_it(*, closed: bool) -> None:
    with spooled(most=8 * SMALLEST, redact=("all",)) as spool:
        spool.site.hear_of_closed = lambda: None if not closed else Site.hear_of_closed(spool.site)  # type: ignore[method-assign]
        for n in range(4):
            spool.say(b"%04d words of one very long line " % n * (SMALLEST // 32))
            spool.site.look()
            spool.site.pump()
        for n in range(5, 400):
            spool.say(b"%04d words of one very long line " % n * 20)
        (spool.site.root / ".out.log.lead").unlink()
        spool.site.look()
        for _ in range(3):
            spool.site.pump()
            spool.site.arrive("out.log")
            spool.site.now += 2.0
        spool.say(b"\n")
        spool.site.settle()
        spool.drain()
        lost = sum(gap.length for gap in spool.site.gaps("out.log"))
        assert lost > 0
        assert len(spool.stored) + lost == len(spool.said)
        bases = [
            int(mark.notes.split("spool:")[1].split(",")[0].split(":")[1])
            for mark in spool.site.stored["out.log"].marks
            if isinstance(mark, Generation)
        ]
        assert bases == sorted(bases)


@pytest.mark.parametrize("lost", ["before", "behind"])
def test_what_is_stored_of_a_part_stays_where_it_would_be_shown_in_another_way_now(lost: str) -> None:
    with spooled(redact=("all",)) as spool:
        for n in range(300):
            spool.say(LINE % (n, n))
        spool.site.settle()
        assert spool.stored == masked(spool.said)
        for path in sorted(spool.site.root.glob("out.log.*"))[1 if lost == "behind" else 0 :: 2]:
            path.unlink()
        spool.site.restart()
        spool.say(b"an end\n")
        spool.drain()
        assert spool.stored == masked(spool.said)
        assert not spool.site.gaps("out.log")


def test_the_rest_of_a_part_goes_on_behind_what_is_stored_where_it_would_be_shown_in_another_way_now() -> None:
    with spooled(redact=("all",)) as spool:
        spool.say(KEY[:3000])
        spool.site.look()
        spool.site.pump()
        spool.say(KEY[3000:] + b"an end\n" * 800)
        spool.site.look()
        spool.site.pump(room=SMALLEST + 100, limit=3)
        spool.site.arrive("out.log")
        next(iter(sorted(spool.site.root.glob("out.log.*")))).unlink()
        stored = spool.stored
        assert stored
        spool.site.restart()
        spool.drain()
        assert spool.stored.startswith(stored)
        lost = sum(gap.length for gap in spool.site.gaps("out.log"))
        assert len(spool.stored) + lost == len(spool.said)
        assert b"MII" not in spool.stored
