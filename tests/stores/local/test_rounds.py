"""Rounds of work: which work shares a round, in which order, and who gets which errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest

from flarelog.stores.local.rounds import LEAST, MOST, Rounds


def test_of_what_comes_together_the_first_steps_are_done_before_the_second_ones() -> None:
    done: list[str] = []

    def says(text: str) -> Callable[[], None]:
        return partial(done.append, text)

    async def go() -> None:
        rounds = Rounds(1, "test")
        await asyncio.gather(*(rounds.do(says(f"write {n}"), says(f"sync {n}")) for n in range(3)))
        rounds.shutdown()

    asyncio.run(go())
    assert done == ["write 0", "write 1", "write 2", "sync 0", "sync 1", "sync 2"]


def test_what_several_share_is_done_once_and_fails_for_all_of_them() -> None:
    synced: list[str] = []

    def sync(name: str) -> None:
        synced.append(name)
        if name == "full":
            raise OSError("no room")

    async def go() -> list[BaseException | None]:
        rounds = Rounds(1, "test")
        names = ["a", "a", "full", "full", "b"]
        work = [rounds.do(lambda: None, (name, partial(sync, name))) for name in names]
        found = await asyncio.gather(*work, return_exceptions=True)
        rounds.shutdown()
        return found

    found = asyncio.run(go())
    assert [isinstance(one, OSError) for one in found] == [False, False, True, True, False]
    assert synced == ["a", "full", "b"]


def test_a_site_with_much_work_does_not_hold_up_another_one() -> None:
    done: list[str] = []

    async def go() -> None:
        rounds = Rounds(1, "test")
        work = [rounds.do(partial(done.append, site), of=site) for site in ["loud"] * 5 * MOST + ["quiet"]]
        await asyncio.gather(*work)
        rounds.shutdown()

    asyncio.run(go())
    assert len(done) == 5 * MOST + 1
    assert done.index("quiet") == MOST


def test_what_fails_goes_no_further_and_harms_no_other() -> None:
    done: list[int] = []

    def fails() -> None:
        raise ValueError("its own")

    async def go() -> None:
        rounds = Rounds(2, "test")
        first = rounds.do(fails, lambda: done.append(1))
        second = rounds.do(lambda: None, lambda: done.append(2))
        one, other = await asyncio.gather(first, second, return_exceptions=True)
        assert isinstance(one, ValueError)
        assert other is None
        rounds.shutdown()

    asyncio.run(go())
    assert done == [2]


def test_who_is_cancelled_waits_for_what_a_thread_does() -> None:
    async def go() -> None:
        rounds, begun, finish, ended = Rounds(1, "test"), threading.Event(), threading.Event(), list[bool]()

        def work() -> None:
            begun.set()
            finish.wait(10)
            ended.append(True)

        doing = asyncio.create_task(rounds.do(work))
        while not begun.is_set():
            await asyncio.sleep(0)
        doing.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not doing.done()
        finish.set()
        with pytest.raises(asyncio.CancelledError):
            await doing
        assert ended
        rounds.shutdown()

    asyncio.run(go())


def test_a_thousand_take_few_turns_of_the_threads_and_all_are_done() -> None:
    turns, done = set[int](), list[int]()

    def work(number: int) -> Callable[[], None]:
        def doing() -> None:
            done.append(number)
            turns.add(threading.get_ident())

        return doing

    async def go() -> None:
        rounds = Rounds(4, "test")
        await asyncio.gather(*(rounds.do(work(number)) for number in range(8 * MOST)))
        rounds.shutdown()

    asyncio.run(go())
    assert sorted(done) == list(range(8 * MOST))
    assert len(turns) <= 4


def test_what_shares_a_step_is_done_by_one_thread_however_many_are_free() -> None:
    turns = dict[str, set[int]](a=set(), b=set())

    def takes(name: str) -> None:
        turns[name].add(threading.get_ident())

    async def go() -> None:
        rounds = Rounds(4, "test")
        names = ["a"] * 5 * LEAST + ["b"] * 5 * LEAST
        await asyncio.gather(*(rounds.do(partial(takes, name), (name, lambda: None)) for name in names))
        rounds.shutdown()

    asyncio.run(go())
    assert [len(threads) for threads in turns.values()] == [1, 1]
