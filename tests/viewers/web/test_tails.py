"""Live rows of one log for several viewers: each row once, whichever viewer is slow, leaves or loses its rights."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flarelog.errors import CannotConnect, NotAllowed
from flarelog.model import Receipt, StreamId, StreamInfo
from flarelog.render.container import Renderer
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.flow import View
from flarelog.viewers.origin import Found, StoreOrigin
from flarelog.viewers.web import hub, tails
from flarelog.viewers.web.hub import Feed, Hub, LineOf, Slices, Viewer
from flarelog.viewers.web.tails import Permits, Tail
from flarelog.viewers.web.trouble import Troubles
from flarelog.viewers.web.windows import Windows, info_of

STREAM = StreamId("run-1", "kyoto", "log.txt")
LINES = [f"line {number} of the log" for number in range(2000)]
DATA = "".join(f"{line}\n" for line in LINES).encode()


async def fill(root: Path, data: bytes) -> None:
    async with LocalStore(root, "memory") as held:
        appender = await held.appender(STREAM, b"producer")
        for at in range(0, len(data), 1000):
            await appender.append(at, data[at : at + 1000])
        await appender.sync()
        await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
        await appender.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with LINES, sealed."""
    asyncio.run(fill(tmp_path / "store", DATA))
    return tmp_path / "store"


class Turns(StoreOrigin):
    """A store whose following reads fail with *failures*, one each; a read without a failure starts when *gate* is
    open. *alone*: the number of other reads in progress.
    """

    def __init__(self, root: Path, failures: Sequence[Exception | None] = ()) -> None:
        super().__init__(str(root))
        self.failures, self.reads, self.asked, self.alone = list(failures), 0, 0, 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def find(self, *args: Any, **how: Any) -> AsyncGenerator[Found, None]:
        self.reads += how.get("follow", False)
        self.asked += not how.get("follow", False)
        if how.get("follow") and self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        if how.get("follow"):
            await self.gate.wait()
        self.alone += not how.get("follow", False)
        try:
            async with aclosing(super().find(*args, **how)) as found:
                async for one in found:
                    yield one
        finally:
            self.alone -= not how.get("follow", False)


async def unknown(*_: object) -> None:
    return None


@asynccontextmanager
async def opened(*origins: StoreOrigin, line_of: LineOf = unknown) -> AsyncGenerator[tuple[Hub, StreamInfo], None]:
    windows, view = Windows(), View(new=Renderer, notes=False)
    async with AsyncExitStack() as stack:
        for origin in origins:
            await stack.enter_async_context(origin)
        hub_ = Hub(lambda origin, info, at: windows.flow_at(origin, info, at, view), line_of)
        yield hub_, await info_of(origins[0], STREAM)


def played(play: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await play()

    asyncio.run(bounded())


async def rows(
    tail: Tail, said: list[dict[str, Any]] | None = None, until: Callable[[], Awaitable[object]] | None = None
) -> list[str]:
    """The rows of *tail*; after the first rows it takes no more until *until* has returned."""
    found: list[str] = []
    async with aclosing(tail.said()) as blocks:
        async for block in blocks:
            if found and until is not None:
                await until()
            for line in filter(None, block.decode().splitlines()):
                one = json.loads(line)
                found += [row[3] for row in one.get("rows", ())]
                if said is not None:
                    said.append(one)
    return [text for text in found if text.startswith("line")]


@pytest.mark.parametrize("start", [0, len(DATA) // 2, len(DATA)], ids=["beginning", "middle", "end"])
def test_those_who_look_at_one_log_share_a_read_and_get_each_row_behind_their_place(store: Path, start: int) -> None:
    async def play() -> None:
        origin = Turns(store)
        async with opened(origin) as (hub_, info):
            begin = DATA.index(b"\n", start - 1) + 1 if start else 0
            permits = Permits()
            origin.gate.clear()  # the first viewer's feed begins before the second viewer's place
            first, second = (Tail(hub_, permits, origin, [info], [at]) for at in (0, begin))
            whole = asyncio.create_task(rows(first))
            while not hub_.feeds:
                await asyncio.sleep(0)
            behind = asyncio.create_task(rows(second))
            while len(hub_.feeds[STREAM]._viewers) < 2:
                await asyncio.sleep(0)
            origin.gate.set()
            assert await whole == LINES
            assert await behind == LINES[DATA[:begin].count(b"\n") :]
            assert origin.reads == 1
            assert hub_.feeds == {}

    played(play)


def test_who_is_too_slow_for_the_ring_reads_alone_and_misses_and_doubles_nothing(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "RING", 4000)
    monkeypatch.setattr(hub, "SLICE", (256, 512))
    monkeypatch.setattr(tails, "HELD", 1000)
    monkeypatch.setattr(tails, "FLUSH", 0.005)
    monkeypatch.setattr(tails, "LITTLE", 0)
    alone = []
    read = Tail._alone

    async def counted(self: Tail, part: Any) -> None:
        alone.append(part.position)
        await read(self, part)

    monkeypatch.setattr(Tail, "_alone", counted)

    async def play() -> None:
        origin = Turns(store)
        async with opened(origin) as (hub_, info):
            permits = Permits()
            slow, fast = (Tail(hub_, permits, origin, [info], [0]) for _ in range(2))
            others = asyncio.create_task(rows(fast))
            assert await rows(slow, until=lambda: asyncio.shield(others)) == LINES
            assert await others == LINES
        assert any(alone)

    played(play)


class Late(Permits):
    """Permissions of which the one behind *passed* others comes after *until* has returned."""

    def __init__(self, until: Callable[[], Awaitable[object]], passed: int) -> None:
        super().__init__()
        self.until, self.passed = until, passed

    async def demand(self, origin: Any, stream: StreamId) -> str:
        self.passed -= 1
        if self.passed == -1:
            await self.until()
        return ""


@pytest.mark.parametrize("passed", [0, 1, 2], ids=["before-it-shares", "before-its-first-rows", "between-its-rows"])
def test_a_viewer_whose_permission_comes_when_the_ring_has_gone_on_misses_nothing(
    store: Path, monkeypatch: pytest.MonkeyPatch, passed: int
) -> None:
    monkeypatch.setattr(hub, "RING", 4000)
    monkeypatch.setattr(hub, "SLICE", (256, 512))

    async def play() -> None:
        origin = Turns(store)
        async with opened(origin) as (hub_, info), hub_.entered(info, 0, Viewer(origin)) as feed:
            fast = asyncio.create_task(rows(Tail(hub_, Permits(), origin, [info], [0])))
            while not feed._ring:
                await asyncio.sleep(0)
            late = Late(lambda: asyncio.shield(fast), passed)
            assert await rows(Tail(hub_, late, origin, [info], [0])) == LINES
            assert feed.first > 0
            assert await fast == LINES

    played(play)


BARS = b"".join(b"one %d\ntwo %d\x1b[A\rONE %d\nTWO %d\nline %d\n" % ((number,) * 5) for number in range(500))


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    """A store with BARS, sealed: one in four lines has no row."""
    asyncio.run(fill(tmp_path / "store", BARS))
    return tmp_path / "store"


@pytest.mark.parametrize("way", ["alone", "from-within", "out-of-the-ring"])
def test_rows_have_the_numbers_of_their_lines_however_a_viewer_came_to_them(
    bars: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(hub, "RING", 4000)
    monkeypatch.setattr(hub, "SLICE", (256, 512))
    monkeypatch.setattr(tails, "HELD", 1000)
    monkeypatch.setattr(tails, "LITTLE", 0)
    if way == "alone":
        monkeypatch.setattr(tails, "NEAR", 0)

    async def line_of(origin: Any, info: StreamInfo, offset: int) -> int:
        return BARS.count(b"\n", 0, offset) + 1

    async def play() -> None:
        origin, start = Turns(bars), BARS.index(b"line 200\n") if way == "from-within" else 0
        async with opened(origin, line_of=line_of) as (hub_, info):
            said: list[dict[str, Any]] = []
            if way == "out-of-the-ring":
                async with hub_.entered(info, 0, Viewer(origin)):
                    fast = asyncio.create_task(rows(Tail(hub_, Permits(), origin, [info], [0])))
                    await rows(Tail(hub_, Permits(), origin, [info], [0]), said, lambda: asyncio.shield(fast))
            else:
                await rows(Tail(hub_, Permits(), origin, [info], [start]), said)
            found = [row for one in said for row in one.get("rows", ())]
            assert len(found) > 800
            number = BARS.count(b"\n", 0, start)  # the page has the lines above
            last = -1
            for row in found:
                if row[1] <= last:
                    continue  # it replaces the earlier row at its place
                last, number = row[1], row[8] if len(row) > 8 else number + 1
                assert number == BARS.count(b"\n", 0, row[1]) + 1, row

    played(play)


def test_who_takes_nothing_holds_no_read_of_the_receiver_and_misses_and_doubles_nothing(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "SLICE", (256, 512))
    monkeypatch.setattr(tails, "NEAR", 0)
    monkeypatch.setattr(tails, "HELD", 1000)
    monkeypatch.setattr(tails, "STALLED", 0.001)
    monkeypatch.setattr(tails, "FLUSH", 0.005)

    async def play() -> None:
        origin = Turns(store)
        async with opened(origin) as (hub_, info):

            async def given_up() -> None:
                while origin.alone:
                    await asyncio.sleep(0)

            assert await rows(Tail(hub_, Permits(), origin, [info], [0]), until=given_up) == LINES
            assert origin.asked > 1  # each read that was given up was begun again

    played(play)


def test_where_one_may_not_read_any_more_the_rights_of_another_are_used(store: Path) -> None:
    async def play() -> None:
        refused, allowed = Turns(store, [NotAllowed("the token was revoked")]), Turns(store)
        async with opened(refused, allowed) as (hub_, info):
            permits, said = Permits(), list[dict[str, Any]]()
            first, second = (Tail(hub_, permits, one, [info], [0]) for one in (refused, allowed))
            lost, found = await asyncio.gather(rows(first, said), rows(second))
            assert (lost, found) == ([], LINES)
            assert [one["error"] for one in said if "error" in one] == ["the token was revoked"]

    played(play)


def test_that_nobody_answers_is_said_and_that_somebody_does_again_too(store: Path) -> None:
    async def play() -> None:
        origin = Turns(store, [CannotConnect("no receiver"), CannotConnect("no receiver")])
        async with opened(origin) as (hub_, info):
            said: list[dict[str, Any]] = []
            assert await rows(Tail(hub_, Permits(), origin, [info], [0]), said) == LINES
            told = [next(iter(one)) for one in said if "lost" in one or "back" in one]
            assert told[0] == "lost"
            assert told[-1] == "back"

    played(play)


class Still(Turns):
    """A store that answers no read while *answers* is cleared."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.answers = asyncio.Event()
        self.answers.set()

    async def find(self, *args: Any, **how: Any) -> AsyncGenerator[Found, None]:
        await self.answers.wait()
        async with aclosing(super().find(*args, **how)) as found:
            async for one in found:
                yield one


@pytest.mark.parametrize("reads", ["with-others", "alone"])
def test_a_receiver_that_stands_still_while_a_tail_begins_is_told(
    store: Path, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    for where, name in ((tails, "ANSWERS"), (tails, "AGAIN"), (hub, "TICK")):
        monkeypatch.setattr(where, name, 0.02)
    monkeypatch.setattr(tails, "NEAR", 0 if reads == "alone" else len(DATA))

    async def play() -> None:
        origin, numbers, said = Still(store), list[int](), list[dict[str, Any]]()

        async def line_of(_: object, __: object, offset: int) -> int | None:
            numbers.append(offset)
            if len(numbers) > 1:  # the lines are not counted yet when a feed begins
                await origin.answers.wait()
            return 1 if len(numbers) > 1 else None

        async def until_told(what: str) -> None:
            while not any(what in one for one in said):
                await asyncio.sleep(0.001)

        async with opened(origin, line_of=line_of) as (hub_, info):
            origin.gate.clear()
            if reads == "alone":
                origin.answers.clear()
            tail = asyncio.create_task(
                rows(Tail(hub_, Permits(), origin, [info], [DATA.index(LINES[9].encode())]), said)
            )
            while reads != "alone" and not numbers:
                await asyncio.sleep(0)
            origin.answers.clear()
            await until_told("lost")
            origin.answers.set()
            origin.gate.set()
            assert await tail == LINES[9:]
            await until_told("back")

    played(play)


@pytest.mark.parametrize("reads", ["with-others", "alone"])
def test_a_tail_does_not_go_on_with_another_log_that_took_the_name_while_nobody_answered(
    store: Path, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    if reads == "alone":
        monkeypatch.setattr(tails, "NEAR", 0)

    class Another(Turns):
        async def streams(self, *args: Any, **how: Any) -> list[StreamInfo]:
            return [replace(info, begun=info.begun + 1) for info in await super().streams(*args, **how)]

    async def play() -> None:
        origin = Another(store, [CannotConnect("no receiver")])
        async with opened(origin) as (hub_, info):
            said: list[dict[str, Any]] = []
            earlier = replace(info, begun=info.begun - 1)
            assert await rows(Tail(hub_, Permits(), origin, [earlier], [0]), said) == []
            sentence = f"{STREAM} was removed and begun anew: its earlier bytes are gone"
            assert {"error": sentence, "k": 0} in said

    played(play)


def test_who_looks_at_a_log_shares_nothing_with_those_who_looked_at_one_that_had_its_name(store: Path) -> None:
    async def play() -> None:
        origin = Turns(store)
        async with opened(origin) as (hub_, info):
            later = replace(info, begun=info.begun + 1)
            async with (
                hub_.entered(info, 0, Viewer(origin)) as first,
                hub_.entered(later, 0, Viewer(origin)) as second,
                hub_.entered(later, 0, Viewer(origin)) as third,
            ):
                assert (first is second, second is third) == (False, True)
                assert (hub_.of(info), hub_.of(later)) == (None, second)
            assert hub_.feeds == {}

    played(play)


def test_a_session_that_ends_ends_its_tail(store: Path) -> None:
    async def play() -> None:
        origin = Turns(store)
        async with opened(origin) as (hub_, info):
            said: list[dict[str, Any]] = []
            await rows(Tail(hub_, Permits(), origin, [info], [0], lambda: "the session is over"), said)
            assert said[-1] == {"error": "the session is over"}
            assert hub_.feeds == {}

    played(play)


def test_all_who_look_at_a_site_ask_together_whether_they_may(store: Path) -> None:
    class Barred(Turns):
        async def find(self, *args: Any, **how: Any) -> AsyncGenerator[Found, None]:
            async with aclosing(super().find(*args, **how)) as found:
                async for _ in found:
                    raise NotAllowed("no")
                yield 0, b""

    async def play() -> None:
        origin, barred, permits = Turns(store), Barred(store), Permits()
        await asyncio.gather(*(permits.demand(origin, STREAM) for _ in range(20)))
        assert origin.asked == 1
        refused = await asyncio.gather(*(permits.demand(barred, STREAM) for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in refused] == [NotAllowed] * 3  # one origin's rights do not count for another
        await permits.demand(origin, STREAM)
        assert origin.asked == 1

    played(play)


def test_a_ring_tells_where_in_it_somebody_goes_on(store: Path) -> None:
    async def play() -> None:
        origin = Turns(store)
        async with opened(origin) as (hub_, info):
            viewer = Viewer(origin)
            feed = Feed(info, 0, hub_.begin, unknown)
            feed.enter(viewer)
            while not feed.done:
                await feed.changed()
            places = []
            number = feed.first
            while (batch := feed.batch(number)) is not None:
                places.append(batch.place)
                number += 1
            assert places == sorted(places)
            assert [feed.number_of(place) for place in places] == [
                feed.first + sum(one <= place for one in places) for place in places
            ]
            assert feed.number_of(0) == feed.first
            assert feed.holds(0)
            assert not feed.holds(-1)
            assert feed.leave(viewer)

    played(play)


class Speaks(Turns):
    """A store whose log continues with *pieces*, one for each release of *more*."""

    def __init__(self, root: Path, pieces: Sequence[bytes]) -> None:
        super().__init__(root)
        self.pieces, self.more = pieces, asyncio.Semaphore(0)

    async def find(self, *args: Any, **how: Any) -> AsyncGenerator[Found, None]:
        if not how.get("follow"):
            async with aclosing(super().find(*args, **how)) as found:
                async for one in found:
                    yield one
            return
        at = len(DATA)
        for piece in self.pieces:
            await self.more.acquire()
            yield at, piece
            at += len(piece)
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("pieces", "at_once"),
    [
        ([b"one\n", b"two\nthree\n"], ["one", "two", "three"]),
        ([b"one\r\n", b"\xd0\xb4\xd0\xb2\xd0\xb0\n"], ["one", "\u0434\u0432\u0430"]),
        ([b"on", b"e\ntw", b"o\n"], ["one", "two"]),
        ([b"10%\r20%\n"], []),
        ([b"one\ntwo\x1b[A\n"], []),
        ([b"10%\r2", b"0%\n"], []),  # the open row began with a cursor movement
    ],
)
def test_lines_that_no_cursor_moves_in_are_given_out_at_once(
    store: Path, monkeypatch: pytest.MonkeyPatch, pieces: Sequence[bytes], at_once: Sequence[str]
) -> None:
    monkeypatch.setattr(hub, "QUIET", 3600.0)

    async def play() -> None:
        origin = Speaks(store, pieces)
        async with opened(origin) as (hub_, info):
            viewer, feed = Viewer(origin), Feed(replace(info, sealed=False), info.committed, hub_.begin, unknown)
            feed.enter(viewer)
            while feed._flow is None:
                await asyncio.sleep(0)
            for _ in pieces:
                origin.more.release()
            end = len(DATA) + sum(map(len, pieces))
            while feed._flow.position < end:
                await asyncio.sleep(0)
            given = [json.loads(f"[{row}")[2] for batch in feed._ring for row in batch.rows.split("\n") if row]
            assert given == at_once
            assert feed.leave(viewer)

    played(play)


def test_who_joins_within_a_line_gets_the_row_of_the_line(store: Path) -> None:
    async def play() -> None:
        origin = Speaks(store, [b"line one\nline ", b"two\nline three\n"])
        async with opened(origin) as (hub_, info):
            going_on = replace(info, sealed=False)
            async with hub_.entered(going_on, info.committed, Viewer(origin)) as feed:
                origin.more.release()
                while not feed.opened:
                    await feed.changed()
                place = len(DATA) + len("line one\nlin")
                tail = Tail(hub_, Permits(), origin, [replace(going_on, committed=place)], [place])
                found: list[str] = []
                async with aclosing(tail.said()) as blocks:
                    async for block in blocks:
                        found += [row[3] for one in map(json.loads, block.splitlines()) for row in one.get("rows", ())]
                        if "line three" in found:
                            break
                        origin.more.release()
                assert found == ["line two", "line three"]

    played(play)


def test_an_open_row_is_never_told_below_rows_that_came_later(store: Path) -> None:
    async def play() -> None:
        origin = Speaks(store, [b"one\nha", b"lf\ntwo\n", b"thr"])
        async with opened(origin) as (hub_, info):
            going_on = replace(info, sealed=False)
            tail = Tail(hub_, Permits(), origin, [going_on], [info.committed])
            (part,) = tail._parts

            def bars() -> list[str]:
                tail._bars()
                said, tail._said = tail._said, []
                return [row[3] for one in map(json.loads, said) for row in one["bars"]]

            async with hub_.entered(going_on, info.committed, Viewer(origin)) as feed:
                part.feed = feed
                origin.more.release()
                while not feed.opened:
                    await feed.changed()
                assert bars() == []  # the viewer has not got the row above it yet
                for position in (feed.place, feed.drawn):  # the viewer may have begun within the open line
                    part.position, part.bars = position, ("", False)
                    assert bars() == ["ha"]
                part.position, part.bars = feed.drawn + 1, ("", False)
                assert bars() == []  # the feed has not come to the viewer's place: the line may have ended there
                part.position = feed.place
                origin.more.release()
                while feed.place == part.position:
                    await asyncio.sleep(0)
                part.position = feed.place
                assert bars() == []
                origin.more.release()
                while not feed.opened:
                    await feed.changed()
                assert bars() == ["thr"]
                feed.came -= 60_000
                tail._bars()
                assert [json.loads(one).get("still") for one in tail._said] == [True]

    played(play)


def test_a_slice_that_takes_long_is_followed_by_smaller_ones() -> None:
    slices = Slices()
    for _ in range(20):
        slices.took(1.0)
    assert slices.size == hub.SLICE[0]
    for _ in range(20):
        slices.took(0.0)
    assert slices.size == hub.SLICE[1]
    slices.took(sum(hub.TURN) / 2)
    assert slices.size == hub.SLICE[1]


def test_a_run_is_looked_at_once_until_it_has_grown_or_is_another_and_apart_for_other_rights(store: Path) -> None:
    async def play() -> None:
        origin = Turns(store)
        async with opened(origin) as (_, info):
            troubles = Troubles()
            look, looking = troubles.of(b"mine", origin, "run-1", [info])
            assert looking
            assert (await troubles.first_of(b"mine", origin, "run-1", [info]))[0] is look  # it waited a moment
            if look.task is not None:
                await look.task
            _, looking = troubles.of(b"mine", origin, "run-1", [replace(info, committed=info.committed + 1)])
            assert looking  # the next search is not due yet, and will see more
            look.due = 0.0
            same, looking = troubles.of(b"mine", origin, "run-1", [info])
            assert (same is look, looking, same.first, same.findings) == (True, False, None, [])
            again, looking = troubles.of(b"mine", origin, "run-1", [replace(info, committed=info.committed + 1)])
            assert (again is look, looking) == (True, True)
            other, looking = troubles.of(b"yours", origin, "run-1", [info])
            assert (other is look, looking) == (False, True)
            renewed, looking = troubles.of(b"mine", origin, "run-1", [replace(info, begun=info.begun + 1)])
            assert (renewed is look, looking) == (False, True)  # the run was removed and made again
            await troubles.close()
            assert other.task is None or other.task.cancelled()

    played(play)


def test_viewers_who_were_flushed_at_one_line_are_flushed_at_different_moments_and_each_as_often() -> None:
    phases = [k * tails.FLUSH / 10 for k in range(10)]
    waits = [tails.until_flush(1000.0, phase) for phase in phases]
    assert all(0 < wait <= tails.FLUSH for wait in waits)
    gaps = [later - earlier for earlier, later in itertools.pairwise(sorted(waits))]
    assert gaps == pytest.approx([tails.FLUSH / 10] * 9, abs=1e-6)
    for phase in phases:  # a flush that comes late does not move those behind it
        now = 1000.0
        for late in (0.001, 0.03, 0.0, 0.02):
            now += tails.until_flush(now, phase) + late
        assert now <= 1000.0 + 4 * tails.FLUSH + 0.03
