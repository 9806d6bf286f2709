"""The contracts of sources and finders over logs in memory, so that they are not made for files alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from flarelog.errors import InvalidOption
from flarelog.model import StreamInfo
from flarelog.sources import choose
from flarelog.sources.base import Finder, Source
from tests.contracts import finder, source
from tests.rows import together
from tests.sources.memory import MemoryFinder, MemorySource, Origin, Place


class Memory:
    """A log in memory."""

    def __init__(self) -> None:
        self.now = 0.0
        self._origin = Origin("rank-0/log.txt")
        self.write, self.begin_anew, self.lose = self._origin.write, self._origin.begin_anew, self._origin.lose
        self._source = MemorySource(self._origin)

    def source(self) -> Source:
        return self._source

    def resume(self, record: StreamInfo) -> None:
        self._source.resume(record)

    def restart(self, record: StreamInfo) -> None:
        self._source = MemorySource(self._origin)
        self._source.resume(record)


class Memories:
    """The logs of a place in memory."""

    def __init__(self) -> None:
        self._place = Place()
        self.write = self._place.write

    def finder(self) -> AbstractContextManager[Finder]:
        return nullcontext(MemoryFinder(self._place))


@together("check", source.CONTRACT, ids=lambda check: check.__name__)
def test_contract_of_a_source(check: Callable[[source.World], None]) -> None:
    check(Memory())


@together("check", finder.CONTRACT, ids=lambda check: check.__name__)
def test_contract_of_a_finder(check: Callable[[finder.World], None]) -> None:
    check(Memories())


def test_a_kind_that_is_not_chosen_is_a_mistake_of_who_wants_it() -> None:
    with pytest.raises(InvalidOption, match="Place is not a kind of source"):
        choose.finder(Place(), run="run", site="site", receiver="127.0.0.1:1")
