"""A slow list of a run is shown as it grows, is shared by all viewers, and is made once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.datastructures import QueryParams

from flarelog.errors import CannotConnect, FlarelogError, NotFound
from flarelog.lifecycle import RunState
from flarelog.model import RunInfo, StreamId, StreamInfo
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import set_run
from flarelog.viewers import origin as origins
from flarelog.viewers.origin import SoFar, StoreOrigin
from flarelog.viewers.web import answers
from flarelog.viewers.web.answers import Lists
from flarelog.viewers.web.origins import Rights

RUN = "run-1"
SITES = ["berlin", "kyoto", "lyon", "porto"]


class Slow(StoreOrigin):
    """A store that lists one more log for each permit of *steps*."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.steps, self.lists = asyncio.Semaphore(0), 0
        self.failure: FlarelogError | None = None

    async def streams(
        self,
        run: str,
        sites: Sequence[str] = (),
        times: Sequence[int] = (),
        *,
        unstored: bool = False,
        so_far: SoFar | None = None,
    ) -> list[StreamInfo]:
        self.lists += 1
        found = await super().streams(run, sites, times)
        if so_far is None:
            return found
        for count in range(len(found) + 1):
            if count:
                await so_far(found[:count])
            await self.steps.acquire()
            if self.failure is not None:
                raise self.failure
        return found


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a log of each of SITES. Requests do not wait for a list that takes a turn of the loop or longer."""
    monkeypatch.setattr(answers, "WAIT", 0.0)
    monkeypatch.setattr(answers, "HOLD", 0.0)

    async def fill() -> None:
        async with LocalStore(tmp_path / "store", "memory") as held:
            await set_run(held, RUN, RunState.RUNNING)
            for site in SITES:
                appender = await held.appender(StreamId(RUN, site, "log.txt"), b"producer")
                await appender.append(0, b"a line\n")
                await appender.close()

    asyncio.run(fill())
    return tmp_path / "store"


def rights(store: Path) -> tuple[Rights, Slow]:
    origin = Slow(store)
    return Rights(b"", origin, contextlib.AsyncExitStack()), origin


def sites(infos: Sequence[StreamInfo]) -> list[str]:
    return [info.stream.site for info in infos]


async def listed(lists: Lists, of: Rights, count: int) -> None:
    """Wait until *count* logs are listed."""
    async with asyncio.timeout(30):
        while len((await lists.soon(of, RUN)).infos) < count:
            await asyncio.sleep(0)


def test_who_opens_a_run_sees_what_is_listed_so_far(store: Path) -> None:
    async def play() -> None:
        lists, (of, origin) = Lists(), rights(store)
        for count in range(len(SITES)):
            origin.steps.release()
            await listed(lists, of, count + 1)
            found = await lists.soon(of, RUN)
            assert (sites(found.infos), found.state, found.whole) == (SITES[: count + 1], RunState.RUNNING, False)
        whole = asyncio.create_task(lists.of(of, RUN))
        origin.steps.release()
        assert sites((await whole).infos) == SITES
        assert (await whole).whole
        assert origin.lists == 1
        await lists.close()

    asyncio.run(play())


def test_a_list_waits_behind_what_is_shown_first_until_somebody_wants_the_rest(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "WAIT", 30.0)
    monkeypatch.setattr(answers, "HOLD", 30.0)
    monkeypatch.setattr(origins, "_TOLD", 2)

    async def play() -> None:
        for asks_again in (True, False):
            lists, of = Lists(), Rights(b"", StoreOrigin(store), contextlib.AsyncExitStack())
            lists.begin(of, RUN)
            for _ in range(2):  # two viewers open it
                first = await lists.soon(of, RUN)
                assert (sites(first.infos), first.whole) == (SITES[:2], False)
            whole = await (lists.soon(of, RUN, rest=True) if asks_again else lists.of(of, RUN))
            assert (sites(whole.infos), whole.whole) == (SITES, True)
            await lists.close()

    asyncio.run(play())


def test_a_list_goes_on_where_nobody_wants_the_rest(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "_TOLD", 2)

    async def play() -> None:
        lists, of = Lists(), Rights(b"", StoreOrigin(store), contextlib.AsyncExitStack())
        assert not (await lists.soon(of, RUN)).whole
        async with asyncio.timeout(30):
            while not (await lists.soon(of, RUN)).whole:
                await asyncio.sleep(0)
        await lists.close()

    asyncio.run(play())


def test_of_what_is_listed_so_far_the_first_logs_are_shown_and_all_sites_are_counted(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "SOME", 2)

    async def play() -> None:
        lists, (of, origin) = Lists(), rights(store)
        for _ in range(3):
            origin.steps.release()
        while (found := await lists.soon(of, RUN)).sites < 3:
            await asyncio.sleep(0)
        assert (sites(found.infos), found.sites, found.whole) == (SITES[:2], 3, False)
        for _ in range(2):
            origin.steps.release()
        assert sites((await lists.of(of, RUN)).infos) == SITES
        await lists.close()

    asyncio.run(play())


def test_a_few_sites_are_listed_beside_the_list_of_all(store: Path) -> None:
    async def play() -> None:
        lists, (of, origin) = Lists(), rights(store)
        assert not (await lists.soon(of, RUN)).whole
        assert sites((await lists.of(of, RUN, {"porto", "kyoto"})).infos) == ["kyoto", "porto"]
        with pytest.raises(NotFound, match="or not these sites"):
            await lists.of(of, "run-2", {"kyoto"})
        origin.steps.release()
        assert not (await lists.soon(of, RUN)).whole
        await lists.close()

    asyncio.run(play())


def test_a_list_of_a_few_sites_is_made_anew_once_a_log_of_their_run_is_known_to_be_removed(store: Path) -> None:
    async def play() -> None:
        lists, (of, origin) = Lists(), rights(store)
        for run in (RUN, "run-2"):
            lists.forget(of, run)
            assert sites((await lists.of(of, RUN, {"kyoto"})).infos) == ["kyoto"]
            assert (await lists.one(of, StreamId(RUN, "kyoto", "log.txt"))).committed
            assert origin.lists == 2  # one list for each request: the other run's removal causes none
        lists.forget(of, RUN)
        await lists.of(of, RUN, {"kyoto"})
        await lists.one(of, StreamId(RUN, "kyoto", "log.txt"))
        assert origin.lists == 4
        await lists.close()

    asyncio.run(play())


def test_a_list_that_fails_is_made_anew_for_whoever_asks_next(store: Path) -> None:
    async def play() -> None:
        lists, (of, origin) = Lists(), rights(store)
        origin.failure = CannotConnect("nobody answers")
        one, other = (asyncio.create_task(lists.of(of, RUN)) for _ in range(2))
        await listed(lists, of, 0)
        other.cancel()  # a viewer that leaves ends no other viewer's list
        origin.steps.release()
        with pytest.raises(CannotConnect):
            await one
        origin.failure = None
        for _ in range(len(SITES) + 1):
            origin.steps.release()
        assert sites((await lists.of(of, RUN)).infos) == SITES
        assert origin.lists == 2
        await lists.close()

    asyncio.run(play())


def test_a_receiver_that_is_gone_is_told_while_a_list_of_it_is_still_fresh(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "ASKED", 0.0)

    async def play() -> None:
        (of, origin), logins = rights(store), SimpleNamespace(name="here")
        page, state = answers.Answers(cast(Any, logins), ()), SimpleNamespace(session=SimpleNamespace(of=of))
        request = cast(Any, SimpleNamespace(state=state, query_params=QueryParams(f"run={RUN}"), headers={}))
        for _ in range(1 + len(SITES)):
            origin.steps.release()
        async with of.origin:
            assert (await page.run(request)).status_code == 200

            async def gone(run: str) -> RunState:
                raise CannotConnect("no connection")

            monkeypatch.setattr(origin, "state", gone)
            with pytest.raises(CannotConnect):
                await page.run(request)
            assert origin.lists == 1
            await page.close()

    asyncio.run(play())


def test_all_runs_are_asked_for_once_for_all_tabs_also_for_those_that_are_gone(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[asyncio.Future[list[RunInfo]]] = []

    async def infos(run: str = "") -> list[RunInfo]:
        asked.append(asyncio.get_running_loop().create_future())
        return await asked[-1]

    async def play() -> None:
        lists, (of, origin) = Lists(), rights(store)
        monkeypatch.setattr(origin, "infos", infos)
        found: list[RunInfo] = []
        for answer in (CannotConnect("nobody is there"), found):
            asked.clear()
            tabs = [asyncio.create_task(lists.runs(of)) for _ in range(3)]
            await asyncio.sleep(0)
            tabs[0].cancel()
            await asyncio.wait(tabs[:1])
            tabs.append(asyncio.create_task(lists.runs(of)))
            await asyncio.sleep(0)
            if isinstance(answer, Exception):
                asked[0].set_exception(answer)
            else:
                asked[0].set_result(answer)
            assert await asyncio.gather(*tabs[1:], return_exceptions=True) == [answer] * 3
            assert len(asked) == 1
        last = asyncio.create_task(lists.runs(of))
        for _ in range(2):
            await asyncio.sleep(0)
        await lists.close()
        assert asked[-1].cancelled()
        await asyncio.wait((last,))

    asyncio.run(play())


def test_a_site_keeps_its_number_whichever_sites_an_answer_names(store: Path) -> None:
    lists, (mine, _) = Lists(), rights(store)
    assert lists.numbers(mine, RUN, ["kyoto", "kyoto", "lyon"]) == {"kyoto": 0, "lyon": 1}
    assert lists.numbers(mine, RUN, SITES) == {"berlin": 2, "kyoto": 0, "lyon": 1, "porto": 3}
    assert lists.numbers(mine, "run-2", ["porto"]) == {"porto": 0}
    for number in range(answers.NUMBERED + 1):
        lists.numbers(mine, f"other-{number}", ["kyoto"])
    assert len(lists._numbers) <= answers.NUMBERED
