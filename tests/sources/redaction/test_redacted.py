"""A redacted file through growth, cuts, kills, rotations and truncations: no unmasked secret leaves."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flarelog.extents import extents
from flarelog.model import Ended, Gap, Generation, Redaction
from flarelog.sources.consent import Consent
from flarelog.sources.files.tail import ROTATION_GRACE
from flarelog.sources.redaction.mask import Rules
from tests.often import often
from tests.sources.files.tailing import Site
from tests.sources.redaction.test_redact import FILES, reference, small

SECRET = b"hunter2secret"
LINE = b"password=" + SECRET + b"\n"
MASKED = b"password=" + b"*" * len(SECRET) + b"\n"


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site(redact=("all",))


def drained(site: Site) -> None:
    """Drain the sidecar, and start its successor."""
    site.settle()
    site.discovery.drain(site.now)
    site.hear_of_closed()
    more = 1
    while more:
        more = site.pump()
        for name in list(site.discovery.tails):
            site.arrive(name)
    assert all(tail.drained(site.now) for tail in site.discovery.tails.values())
    site.restart()


def test_a_secret_is_masked_and_every_offset_stays(site: Site) -> None:
    site.append("a.log", b"one\n" + LINE + b"two\n")
    site.settle()
    assert site.content("a.log") == b"one\n" + MASKED + b"two\n"
    (mark,) = site.stored["a.log"].marks
    assert isinstance(mark, Generation)
    assert "redacted:5:tokens+passwords+keys+email" in mark.notes.split(",")


def test_a_line_is_held_back_until_it_ends_with_lf_or_cr(site: Site) -> None:
    site.append("a.log", b"one\npassword: hun")
    site.settle()
    assert site.content("a.log") == b"one\n"
    site.append("a.log", b"ter2\r")
    site.settle()
    assert site.content("a.log") == b"one\npassword: *******\r"


def test_at_the_drain_the_last_word_of_an_unfinished_line_is_masked(site: Site) -> None:
    site.append("a.log", b"one\nloading ghp_0123")
    drained(site)
    assert site.content("a.log") == b"one\nloading ********"


def test_what_goes_on_with_a_line_that_was_cut_is_another_generation_and_masked_as_the_whole_line(site: Site) -> None:
    site.append("a.log", b"one\npassword: hun")
    drained(site)
    site.append("a.log", b"ter2 done\n")
    drained(site)
    site.append("a.log", LINE)
    site.settle()
    site.restart()
    site.settle()
    assert site.content("a.log") == b"one\npassword: *******" + b"*****\n" + MASKED
    assert [mark.source_offset for mark in site.stored["a.log"].marks if isinstance(mark, Generation)] == [0, 17]
    assert not any(isinstance(mark, Ended | Gap) for mark in site.stored["a.log"].marks)


def test_a_cut_line_that_is_sent_again_is_shown_as_it_was_though_the_file_has_grown(site: Site) -> None:
    site.append("a.log", b"one\nloading wo")
    site.settle()
    site.discovery.drain(site.now)
    site.pump()
    site.cut()
    site.append("a.log", b"rds\n")
    site.pump()
    site.arrive("a.log")
    assert site.content("a.log") == b"one\nloading **"


def test_a_drain_that_goes_on_behind_a_cut_line_begins_a_generation_there(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.settle()
    site.discovery.drain(site.now)
    site.truncate("a.log")
    site.append("a.log", b"loading wo")
    site.pump(limit=3)  # the end of the old generation, the mark of the new one, and its bytes
    site.append("a.log", b"rds\n")
    site.pump()
    site.arrive("a.log")
    assert site.content("a.log") == b"one\nloading **rds\n"
    assert [mark.source_offset for mark in site.stored["a.log"].marks if isinstance(mark, Generation)] == [0, 0, 10]


def test_a_rotated_file_shows_its_unfinished_line_before_its_successor_begins(site: Site) -> None:
    site.append("a.log", b"one\npassword: hun")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"new\n")
    site.settle()
    assert site.content("a.log") == b"one\npassword: ***new\n"
    assert "a.log.1" not in site.stored
    assert [mark.reason for mark in site.stored["a.log"].marks if isinstance(mark, Ended)] == ["rotated"]


def test_a_rotated_file_whose_writer_comes_back_goes_on_with_the_line(site: Site) -> None:
    writer = site.open("a.log")
    site.write(writer, b"one\npassword: hun")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"new\n")
    site.settle()
    assert site.content("a.log") == b"one\nnew\n", "its writer may finish the line"
    site.write(writer, b"ter2\nmore\npassw")
    site.settle()
    writer.close()
    site.settle()
    assert site.content("a.log") == b"one\nnew\npassword: *******\nmore\n*****"


def test_a_removed_file_shows_its_unfinished_line(site: Site) -> None:
    site.append("a.log", b"one\npassword: hun")
    site.settle()
    os.unlink(site.root / "a.log")
    site.settle()
    assert site.content("a.log") == b"one\npassword: ***"


def test_a_truncation_is_seen_and_what_follows_is_masked(site: Site) -> None:
    site.append("a.log", b"one\n" * 100 + LINE)
    site.settle()
    site.truncate("a.log")
    site.append("a.log", LINE + b"password: hun")
    site.settle()
    drained(site)
    assert site.content("a.log") == b"one\n" * 100 + MASKED + MASKED + b"password: ***"


def test_where_the_last_line_is_cut_off_the_rest_is_not_sent_again(site: Site) -> None:
    site.append("a.log", LINE * 40 + b"last line\n")
    site.settle()
    with open(site.root / "a.log", "r+b") as file:
        file.truncate(len(LINE) * 40)
        file.seek(0, os.SEEK_END)
        file.write(b"another line, and longer\n")
    site.settle()
    assert site.content("a.log") == MASKED * 40 + b"last line\nanother line, and longer\n"


def test_a_restart_goes_on_from_any_committed_offset(make_site: Callable[..., Site]) -> None:
    data = b"one " + LINE + b"two\n"
    for at in range(1, len(data), often(2, 1)):
        site = make_site(redact=("all",))
        site.append(f"{at}.log", data)
        site.look()
        site.pump(room=at)
        site.arrive(f"{at}.log", 2)
        assert len(site.stored[f"{at}.log"].data) == at
        site.restart()
        site.settle()
        stored = site.stored[f"{at}.log"]
        assert bytes(stored.data) == b"one " + MASKED + b"two\n"
        assert [type(mark) for mark in stored.marks] == [Generation]
        site.close()


def test_the_fingerprint_of_a_head_is_one_of_masked_bytes(site: Site) -> None:
    site.append("a.log", LINE)
    site.append("b.log", LINE.replace(b"hunter2", b"another"))
    site.append("c.log", b"unfinished " + SECRET)
    site.settle()
    heads = {name: site.stored[name].marks[0] for name in ("a.log", "b.log", "c.log")}
    digests = {
        name: (mark.head_length, mark.head_digest) for name, mark in heads.items() if isinstance(mark, Generation)
    }
    assert digests["a.log"] == digests["b.log"]
    assert digests["c.log"] == (0, 0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.log.1.gz", gzip.compress(LINE, mtime=0)),
        ("b.log", gzip.compress(LINE, mtime=0)),
        ("c.log", b"BZh91AY&SY" + bytes(20)),
        ("d.log", b"\xfd7zXZ\x00" + bytes(20)),
        ("e.log", b"\x28\xb5\x2f\xfd" + bytes(20)),
        ("f.zip", b"PK\x03\x04" + bytes(20)),
        ("g.log.zst", b"not even that"),
    ],
)
def test_what_is_compressed_is_never_sent_and_each_file_is_named_once(
    make_site: Callable[..., Site], caplog: pytest.LogCaptureFixture, name: str, content: bytes
) -> None:
    site = make_site(redact=("tokens",), include=("*",))
    with site.open(name) as writer:  # a byte at a time, as from a slow writer
        for at in range(10):
            site.write(writer, content[at : at + 1])
            site.settle()
        site.write(writer, content[10:])
    site.append("second.gz", gzip.compress(b"x"))
    site.settle()
    site.discovery.drain(site.now)
    site.settle()
    assert not site.stored
    assert sorted(site.discovery.troubles) == sorted([name, "second.gz"])
    for path in (name, "second.gz"):
        said = [record for record in caplog.records if f"/{path} is compressed and is not sent" in record.getMessage()]
        assert len(said) == 1, path


def test_the_compressed_copy_of_what_is_sent_masked_is_no_file_that_is_missing(make_site: Callable[..., Site]) -> None:
    site = make_site(redact=("tokens", "passwords"), include=("*",))
    site.append("a.log", LINE * 100)
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"two\n")
    site.settle()
    (site.root / "a.log.1.gz").write_bytes(gzip.compress(LINE * 100))
    os.unlink(site.root / "a.log.1")
    os.utime(site.root / "a.log.1.gz", (1, 1))  # an old time, so that gzip counts as finished
    site.settle()
    assert list(site.stored) == ["a.log"]
    assert not site.discovery.troubles


def test_a_log_that_begins_like_something_compressed_is_sent(site: Site) -> None:
    site.append("a.log", b"B")
    site.settle()
    assert "a.log" not in site.stored, "it may still become a bzip2 file"
    site.append("a.log", b"ig news\n")
    site.append("b.log", b"P")
    drained(site)
    assert site.content("a.log") == b"Big news\n"
    assert site.content("b.log") == b"*"


def restarted(site: Site, **options: object) -> None:
    """Kill the sidecar, and start another with other options."""
    site.options = type(site.options)(str(site.root), **options)  # type: ignore[arg-type]
    site.restart()


@pytest.mark.parametrize(
    ("before", "after", "was", "now"),
    [
        pytest.param((), ("all",), "without redaction", "with redaction", id="on"),
        pytest.param(("tokens",), ("all",), "with another redaction", "with redaction", id="more"),
        pytest.param(("all",), ("email",), "with another redaction", "with redaction", id="less"),
        pytest.param(("all",), (), "with redaction", "without redaction", id="off"),
    ],
)
def test_with_another_redaction_a_file_goes_on_where_it_was_and_that_is_said(
    make_site: Callable[..., Site],
    caplog: pytest.LogCaptureFixture,
    before: tuple[str, ...],
    after: tuple[str, ...],
    was: str,
    now: str,
) -> None:
    data = LINE + b"me@example.org\n"
    site = make_site(redact=before)
    site.append("a.log", data)
    site.settle()
    restarted(site, redact=after)
    site.settle()
    site.append("a.log", data)
    site.settle()
    wanted = reference(data, Rules(before)) + reference(data, Rules(after))
    assert site.content("a.log") == wanted
    (said,) = [record.getMessage() for record in caplog.records if "redaction" in record.getMessage()]
    what = f"the bytes of a.log from offset 0 to {len(data)} were sent {was}, and stay so; its rest is sent {now}"
    assert said == f"run/site/a.log: {what}"
    site.restart()
    site.append("a.log", b"more\n")
    site.settle()
    assert site.content("a.log") == wanted + b"more\n"
    assert [mark.source_offset for mark in site.stored["a.log"].marks if isinstance(mark, Generation)] == [0, len(data)]


def test_what_was_sent_with_another_redaction_is_told_by_the_log_s_offsets(
    make_site: Callable[..., Site], caplog: pytest.LogCaptureFixture
) -> None:
    site = make_site()
    site.append("a.log", b"first\n")
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"second\n")
    site.settle()
    restarted(site, redact=("all",))
    site.settle()
    way = "were sent without redaction, and stay so; its rest is sent with redaction"
    assert {record.getMessage() for record in caplog.records} == {
        f"run/site/a.log: the bytes of a.log.1 from offset 0 to 6 {way}",
        f"run/site/a.log: the bytes of a.log from offset 6 to 13 {way}",
    }


def test_a_file_whose_redaction_cannot_be_repeated_is_sent_anew_and_that_is_said(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.append("a.log", LINE)
    site.settle()
    (mark,) = site.stored["a.log"].marks
    assert isinstance(mark, Generation)
    object.__setattr__(mark, "notes", mark.notes.replace("redacted:5:", "redacted:0:"))
    site.restart()
    site.settle()
    assert site.content("a.log") == MASKED * 2
    assert sum("cannot be repeated" in record.getMessage() for record in caplog.records) == 1


def test_what_was_masked_is_counted_once_also_after_a_restart(site: Site) -> None:
    def counted() -> Redaction | None:
        return site.discovery.masked(site.discovery.tails["a.log"])

    site.append("a.log", LINE * 3)
    site.settle()
    assert counted() == Redaction(3, 3 * len(SECRET))
    site.rename("a.log", "a.log.1")
    site.append("a.log", LINE)
    site.settle()
    assert counted() == Redaction(4, 4 * len(SECRET))
    site.restart()
    site.append("a.log", LINE)
    site.settle()
    assert counted() == Redaction(5, 5 * len(SECRET))


def test_what_was_masked_of_a_file_that_is_deleted_stays_counted(site: Site) -> None:
    site.append("a.log", LINE * 3)
    site.settle()
    site.rename("a.log", "a.log.1")
    site.append("a.log", b"nothing to mask\n")
    site.settle()
    os.unlink(site.root / "a.log.1")
    site.settle()
    assert site.discovery.masked(site.discovery.tails["a.log"]) == Redaction(3, 3 * len(SECRET))


def test_what_the_receiver_has_lost_is_sent_and_not_counted_again(site: Site) -> None:
    site.append("a.log", LINE * 3)
    site.look()
    site.pump(room=len(LINE))
    site.arrive("a.log")
    stored = site.stored["a.log"]
    del stored.data[len(LINE) :]
    site.discovery.resume([stored.info("a.log")], site.now)
    site.settle()
    assert site.content("a.log") == MASKED * 3
    assert site.discovery.masked(site.discovery.tails["a.log"]) == Redaction(3, 3 * len(SECRET))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), FILES),
        st.tuples(st.sampled_from(["look", "cut", "restart", "drain", "settle", "rotate"]), st.none()),
        st.tuples(st.just("pump"), st.integers(1, 60)),
        st.tuples(st.just("arrive"), st.integers(0, 5)),
    ),
    max_size=14,
)


@settings(max_examples=often(20, 150), deadline=None)
@given(STEPS, st.booleans())
def test_whatever_happens_each_generation_shows_its_file_as_it_is_or_as_it_was_cut(
    steps: list[tuple[str, object]], own: bool
) -> None:
    with small(), tempfile.TemporaryDirectory() as directory:
        sites = (Consent(rules=Rules((), (r"ID-\d+", "y+x"))),) if own else ()
        site = Site(Path(directory), redact=("all",), sites=sites)
        rules = site.options.rules()
        try:
            for step, value in steps:
                take(site, step, value)
            drained(site)
            check(site, rules)
        finally:
            site.close()


def take(site: Site, step: str, value: object) -> None:
    match step, value:
        case "write", bytes():
            site.append("a.log", value)
        case "look", _:
            site.look()
        case "pump", int():
            site.pump(room=value, limit=5)
        case "arrive", int():
            for name in site.stored:
                site.arrive(name, value)
        case "cut", _:
            site.cut()
        case "restart", _:
            site.restart()
        case "drain", _:
            drained(site)
        case "settle", _:
            site.settle()
        case "rotate", _:
            site.settle()
            if (site.root / "a.log").exists():
                site.rename("a.log", f"a.log.{len(os.listdir(site.root))}")
                site.now += ROTATION_GRACE


def check(site: Site, rules: Rules) -> None:
    """Check that the stored bytes of each file are those that it shows, each once, cut only at generations."""
    for name, stored in site.stored.items():
        ends: dict[str, int] = {}
        assert not any(isinstance(mark, Gap) for mark in stored.marks)
        for extent in extents(stored.marks, len(stored.data)):
            (truth,) = site.truth[extent.identity]
            begin, end = extent.source_offset, extent.source_offset + extent.length
            assert begin == ends.get(extent.identity, 0), name
            ends[extent.identity] = end
            shown = bytes(stored.data[extent.offset : extent.offset + extent.length])
            whole, cut = reference(bytes(truth), rules)[begin:end], reference(bytes(truth[:end]), rules)[begin:end]
            assert shown in (whole, cut)
        assert all(ends[identity] == len(site.truth[identity][0]) for identity in ends)
