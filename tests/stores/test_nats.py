"""The pure parts of the store on JetStream: names, headers, outcomes, pages of marks and URLs."""

from __future__ import annotations

import asyncio

import pytest

from flarelog.delivery.receiver import Holder
from flarelog.errors import InvalidOption, Unreadable
from flarelog.model import Attributes, Gap, Generation, Mark, Redaction, StreamId

pytest.importorskip("nats")

from flarelog.stores.nats.frames import Frames, unpacked
from flarelog.stores.nats.head import PLAIN, ZSTD, Head
from flarelog.stores.nats.layout import Layout, name_of, token
from flarelog.stores.nats.outcome import Outcome, outcome
from flarelog.stores.nats.pages import LONG, LOST, Pages, marks_of
from flarelog.stores.nats.setup import Wanted, configs, differing
from flarelog.stores.nats.url import Url
from tests.rows import rows

LAYOUT = Layout("logs", 4)
HEAD = Head(
    *(900, 100, ZSTD, 0xABCDEF01, 3, 17, "0a1b", 5, 9),
    begun=1, grown=2, ended=3, holder=Holder(((1, b"A"), (2, b"\x00\xff"))),
)  # fmt: skip


@rows(["a", ".", "a.b", "..a", "-", "_", "rank-0/log.txt", "a%2Eb/%-0123-x", ""])
def test_a_name_is_one_part_of_a_subject_and_comes_back(name: str) -> None:
    part = token(name)
    assert not set(part) & set(". *>")
    assert part
    assert name_of(part) == name or name == "."


def test_a_streams_subjects_have_its_names_and_its_sites_shard() -> None:
    stream = StreamId("run.1", "site-1", "rank-0/log.txt")
    for kind in ("fl", "fm", "fw"):
        subject = LAYOUT.subject(kind, stream)
        assert subject == f"{kind}.logs.{LAYOUT.shard('run.1', 'site-1')}.run=1.site-1.rank-0/log=txt"
        assert LAYOUT.stream(subject) == stream
    assert LAYOUT.note_of(LAYOUT.note("health", "run.1", "")) == ("run.1", "", "health")
    assert {LAYOUT.shard("run", f"site-{n}") for n in range(50)} == {0, 1, 2, 3}


@rows(
    [
        HEAD,
        Head(),
        HEAD._replace(sealed=True),
        HEAD._replace(sealed=True, redacted=Redaction(2, 30)),
        HEAD._replace(holder=Holder()),
    ]
)
def test_a_header_has_the_whole_state(head: Head) -> None:
    said = head._replace(writer=head.writer or "w").encoded()
    assert Head.decoded(said) == head._replace(writer=head.writer or "w")
    assert said.isascii()
    assert said.isprintable()


@rows(["", "1", "2 " + HEAD.encoded()[2:], HEAD.encoded().replace("900", "x"), HEAD.encoded() + " 3", "1 \xff"])
def test_a_header_of_another_kind_is_unreadable(said: str) -> None:
    with pytest.raises(Unreadable):
        Head.decoded(said)


OTHER = HEAD._replace(writer="ffff")
NEWER = OTHER._replace(holder=HEAD.holder.followed_by(3, b"C"))


@pytest.mark.parametrize(
    ("after", "sequence", "last", "refused", "expected"),
    [
        pytest.param(7, 8, HEAD, None, Outcome.STORED, id="a-lost-acknowledgement"),
        pytest.param(7, 8, HEAD, 8, Outcome.STORED, id="a-lost-acknowledgement-of-the-try-before"),
        pytest.param(7, 7, OTHER, None, Outcome.AGAIN, id="not-stored"),
        pytest.param(7, 5, NEWER, 5, Outcome.AGAIN, id="an-old-read-is-no-fence"),
        pytest.param(7, 8, OTHER, 8, Outcome.MOVED, id="the-same-producer-elsewhere"),
        pytest.param(7, 9, NEWER, 9, Outcome.FENCED, id="a-newer-producer"),
        pytest.param(7, 0, None, 0, Outcome.GONE, id="removed"),
        pytest.param(7, 0, None, None, Outcome.AGAIN, id="no-answer-and-an-old-read-do-not-say-removed"),
        pytest.param(7, 0, None, 7, Outcome.AGAIN, id="an-old-leader-without-the-stream"),
        pytest.param(0, 0, None, 0, Outcome.AGAIN, id="a-first-message-after-a-purge"),
        pytest.param(0, 0, None, None, Outcome.AGAIN, id="a-first-message-without-an-answer"),
        pytest.param(0, 3, OTHER, 3, Outcome.MOVED, id="another-receiver-made-it"),
    ],
)
def test_the_last_message_decides_what_became_of_a_publish(
    after: int, sequence: int, last: Head | None, refused: int | None, expected: Outcome
) -> None:
    assert outcome(after, HEAD, sequence, last, refused) is expected


def stored(marks: list[Mark], a_commit: int) -> tuple[dict[int, tuple[str, bytes]], Head]:
    """The pages that an appender stores for *marks*, so many a commit; and the state after them."""
    messages: dict[int, tuple[str, bytes]] = {}
    pages, head = Pages(), Head()
    for begin in range(0, len(marks), a_commit):
        new = marks[begin : begin + a_commit]
        said, data = pages.page(begin, new)
        sequence = 2 * len(messages) + 1
        messages[sequence] = said, data
        pages.stored(sequence, data)
        head = head._replace(marks=begin + len(new), page=sequence)
    return messages, head


def found(messages: dict[int, tuple[str, bytes]], head: Head) -> list[Mark]:
    async def read(sequence: int) -> tuple[str, bytes] | None:
        return messages.get(sequence)

    return asyncio.run(marks_of(head, read))[0]


MARKS: list[Mark] = [
    Generation(0, 0, "log.txt", 0, "fh:01"),
    *(Gap(n, n, 1, f"gap {n}", at=n) for n in range(300)),
    Attributes(300, 7, "rank:3", clock=5),
]


@rows([1, 7, 400])
def test_marks_come_back_from_their_pages(a_commit: int) -> None:
    messages, head = stored(MARKS, a_commit)
    assert found(messages, head) == MARKS
    assert found(messages, head._replace(marks=5, page=min(messages))) == (MARKS[: min(5, a_commit)] + [
        Gap(head.end, head.digest, 0, LOST)] * (5 - min(5, a_commit)))  # fmt: skip
    assert max(len(data) for _, data in messages.values()) < 2 * LONG or a_commit == 400


def test_a_page_that_does_not_count_yet_is_not_read() -> None:
    messages, head = stored(MARKS, 7)
    assert found(messages, head._replace(marks=3)) == MARKS[:3]


def test_a_lost_page_is_a_gap_for_each_of_its_marks() -> None:
    messages, head = stored(MARKS, 7)
    named, page = set[int](), head.page
    while page:
        named.add(page)
        page = int(messages[page][0].split(" ")[0])
    assert len(named) > 2
    for lost in named:
        left = found({key: value for key, value in messages.items() if key != lost}, head)
        assert len(left) == len(MARKS)
        gaps = [mark for mark in left if isinstance(mark, Gap) and mark.reason == LOST]
        assert gaps
        assert all(mark in MARKS or mark in gaps for mark in left)


def test_what_shrinks_is_stored_as_a_frame() -> None:
    frames, text, noise = Frames(), b"step 1 loss 0.5\n" * 9000, bytes(range(256)) * 1

    async def go() -> None:
        codec, data = await frames.packed(text)
        assert codec == ZSTD
        assert len(data) * 10 < len(text)
        assert unpacked(codec, data, len(text)) == text
        for short in (b"", b"a", noise[:255]):
            assert await frames.packed(short) == (PLAIN, short)
        with pytest.raises(Unreadable):
            unpacked(ZSTD, data, len(text) - 1)
        with pytest.raises(Unreadable):
            unpacked(ZSTD, data[:-9], len(text))
        with pytest.raises(Unreadable):
            unpacked(PLAIN, data, len(text))

    asyncio.run(go())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("nats://a/logs", Url(("a:4222",), "logs", tls=False, user="")),
        ("tls://a:1,b:2,c/x_1-Y", Url(("a:1", "b:2", "c:4222"), "x_1-Y", tls=True, user="")),
        ("nats://me:p@ss@[::1]:5,[::2]/logs", Url(("[::1]:5", "[::2]:4222"), "logs", tls=False, user="me:p@ss")),
    ],
)
def test_a_url_names_servers_and_a_store(url: str, expected: Url) -> None:
    assert Url.of(url) == expected
    assert "p@ss" not in Url.of(url).shown


@rows(["nats://", "nats://a", "nats://a/", "nats:///x", "nats://a,/x", "nats://a/x y", "nats://a/b/c", "nats://a:x/y"])
def test_another_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidOption, match="does not name a store") as raised:
        Url.of(url.replace("://", "://u:secret@"))
    assert "secret" not in str(raised.value)


def test_a_setting_that_a_server_dropped_is_found() -> None:
    for config in configs("logs", Wanted(3, 4, 100 << 30)):
        assert not differing(config, config)
        assert not differing(config, {key: value for key, value in config.items() if value not in (0, "none")})
        for key in ("republish", "discard", "allow_direct", "max_bytes", "allow_rollup_hdrs", "metadata"):
            if key in config:
                assert differing(config, {name: value for name, value in config.items() if name != key}) == key
        assert differing(config, {**config, "max_age": 60}) == "max_age"
