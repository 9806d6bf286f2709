"""An answer that took long to make is cached while its inputs stay the same."""

from __future__ import annotations

import asyncio

import pytest

from flarelog.errors import CannotConnect
from flarelog.viewers.web.lately import KEPT, OLD, SHARE, SLOW, STOOD, Lately


class Making:
    """Makes answers, each in *took* seconds."""

    def __init__(self, took: float) -> None:
        self.made, self.now, self._took = 0, 100.0, took

    async def __call__(self) -> int:
        self.made += 1
        number = self.made
        await asyncio.sleep(0)
        self.now += self._took
        return number

    def kept(self) -> Lately[int]:
        return Lately(clock=lambda: self.now)


def test_an_answer_is_given_again_for_as_long_as_its_making_is_worth() -> None:
    async def play() -> None:
        make, listed = Making(0.02), object()
        kept = make.kept()
        assert [await kept.of("run", (listed,), make) for _ in range(3)] == [1, 1, 1]
        make.now += 0.02 * SHARE - 0.001
        assert await kept.of("run", (listed,), make) == 1
        assert await kept.of("other", (listed,), make) == 2
        make.now += 0.002
        assert await kept.of("run", (listed,), make) == 3
        assert await kept.of("run", (object(),), make) == 4  # a new list of the logs

    asyncio.run(play())


def test_nobody_waits_for_what_takes_long_and_can_be_shown_one_of_before() -> None:
    async def play() -> None:
        make, listed = Making(2 * SLOW), object()
        kept = make.kept()
        assert await kept.of("run", (listed,), make) == 1
        assert await kept.of("run", (object(),), make) == 1
        await asyncio.sleep(0.01)
        assert (make.made, await kept.of("run", (listed,), make)) == (2, 2)
        make.now += 2 * OLD
        assert await kept.of("run", (listed,), make) > 2  # the cached answer is too old
        await kept.close()

    asyncio.run(play())


def test_whether_a_receiver_answers_is_told_by_no_answer_of_before() -> None:
    """A loaded receiver answered slowly once; when it stands still later, the page said so after OLD seconds."""

    async def play() -> None:
        make = Making(4 * SLOW)
        kept: Lately[int] = Lately(1.0, lambda: make.now, share=0, waits=True)
        assert await kept.of("run", (), make) == 1
        make.now += 0.9
        assert await kept.of("run", (), make) == 1
        make.now += 0.2
        assert await kept.of("run", (), make) == 2

    asyncio.run(play())


def test_a_receiver_that_stood_still_is_asked_again_as_soon_as_one_that_works() -> None:
    async def play() -> None:
        make, listed = Making(60.0), object()
        kept = make.kept()
        assert await kept.of("run", (listed,), make) == 1
        make.now += SHARE * STOOD
        assert await kept.of("run", (listed,), make) == 1  # the next answer is being made
        await asyncio.sleep(0.01)
        assert make.made == 2
        await kept.close()

    asyncio.run(play())


def test_who_asks_for_what_is_known_to_be_over_waits_for_another_answer() -> None:
    async def play() -> None:
        make = Making(10 * SLOW)
        kept = make.kept()
        assert [await kept.of(key, (), make) for key in ("run", "run", "another")] == [1, 1, 2]
        kept.forget(lambda key: key == "run")
        assert [await kept.of(key, (), make) for key in ("run", "another")] == [3, 2]
        await kept.close()

    asyncio.run(play())


def test_an_answer_whose_making_began_before_it_was_over_is_none() -> None:
    async def play() -> None:
        make = Making(10 * SLOW)
        kept = make.kept()
        making = asyncio.create_task(kept.of("run", (), make))
        await asyncio.sleep(0)
        assert make.made == 1
        kept.forget(lambda key: key == "run")
        assert await kept.of("run", (), make) == await making == 2
        await kept.close()

    asyncio.run(play())


def test_what_failed_beside_is_told_to_whoever_asks_next() -> None:
    async def fails() -> int:
        raise CannotConnect("nobody answers")

    async def play() -> None:
        make, listed = Making(2 * SLOW), object()
        kept = make.kept()
        assert await kept.of("run", (listed,), make) == 1
        assert await kept.of("run", (object(),), fails) == 1
        await asyncio.sleep(0.01)
        with pytest.raises(CannotConnect):
            await kept.of("run", (listed,), fails)

    asyncio.run(play())


def test_those_who_wait_for_the_same_have_one_answer_and_another_key_does_not_wait() -> None:
    async def play() -> None:
        make, listed = Making(0.02), object()
        kept = make.kept()
        assert await asyncio.gather(*(kept.of("run", (listed,), make) for _ in range(5))) == [1] * 5
        found = await asyncio.gather(*(kept.of(key, (listed,), make) for key in "ab"))
        assert found == [2, 3]

    asyncio.run(play())


def test_an_error_is_not_kept_and_the_oldest_answers_are_forgotten() -> None:
    async def fails() -> int:
        raise ValueError("nobody answers")

    async def play() -> None:
        make, listed = Making(0.001), object()
        kept = make.kept()
        for _ in range(2):
            with pytest.raises(ValueError, match="nobody"):
                await kept.of("run", (listed,), fails)
        assert await kept.of("run", (listed,), make) == 1
        for key in range(KEPT):
            await kept.of(key, (listed,), make)
        assert await kept.of("run", (listed,), make) == KEPT + 2

    asyncio.run(play())
