"""A list comes in pages, from old and new receivers, and repeats nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from flarelog.model import Gap, StreamId, StreamInfo
from flarelog.wire import listing
from flarelog.wire.codec.base import Malformed
from flarelog.wire.codec.lists import Listing, decode_list, encode_info, encode_infos

NAMES = [("run-1", f"site-{n}", f"{m}.log") for n in (1, 2) for m in range(5)]
INFOS = [StreamInfo(StreamId(*names), 0, 0, 0, sealed=False) for names in NAMES]


class Receiver:
    """A receiver that pages, or is *older*. It holds *infos*, and sends each in *parts* parts,
    *together* in a message.
    """

    def __init__(self, infos: list[StreamInfo], *, older: bool = False, parts: int = 1, together: int = 1) -> None:
        self.asked: list[Listing] = []
        self._infos, self._older, self._parts, self._together = infos, older, parts, together

    def unary_stream(self, method: str, request_serializer: Any) -> Any:
        assert method.endswith("/List")
        return lambda asked, timeout: Call(self._answer(decode_list(request_serializer(asked))))

    def _answer(self, asked: Listing) -> list[bytes]:
        self.asked.append(asked)
        found = self._infos
        if not self._older:
            found = [
                info
                for info in found
                if (info.stream.run, info.stream.site, info.stream.log) > asked.after
                and asked.site in ("", info.stream.site)
            ]
            found = found[: asked.limit or None]
        said = [encode_info((info, part)) for info in found for part in range(self._parts)]
        most = self._together if asked.several else 1
        return [encode_infos(said[first : first + most]) for first in range(0, len(said), most)]


class Call:
    def __init__(self, messages: list[bytes]) -> None:
        self._messages = messages

    async def read(self) -> Any:
        return self._messages.pop(0) if self._messages else grpc.aio.EOF

    def cancel(self) -> None:
        self._messages.clear()


def listed(receiver: Any, run: str = "run-1", site: str = "") -> list[StreamInfo]:
    return asyncio.run(listing.streams(receiver, run, site, 10.0))


@pytest.mark.parametrize("page", [1, 2, 3, 5, 9, 10, 11])
@pytest.mark.parametrize("older", [False, True], ids=["pages", "older"])
@pytest.mark.parametrize("site", ["", "site-2"])
def test_each_stream_is_listed_once(page: int, older: bool, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", page)
    receiver, wanted = Receiver(INFOS, older=older), [info for info in INFOS if site in ("", info.stream.site)]
    assert listed(receiver, site=site) == wanted
    assert len(receiver.asked) <= (2 if older else len(wanted) // page + 1)
    assert {asked.limit for asked in receiver.asked} == {page}


@pytest.mark.parametrize("together", [1, 2, 3, 5, 100])
def test_a_stream_of_many_parts_is_one_of_a_page(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 3)
    marked = [StreamInfo(info.stream, 0, 0, 0, sealed=False, marks=(Gap(0, 0, 1, "x"),)) for info in INFOS]
    found = listed(Receiver(marked, parts=4, together=together))
    assert [info.stream for info in found] == [info.stream for info in INFOS]
    assert {len(info.marks) for info in found} == {4}


def test_a_receiver_that_never_comes_to_an_end_is_not_listened_to_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    monkeypatch.setattr(listing, "MAX_LISTED", 10_000)

    class Endless(Receiver):
        def _answer(self, asked: Listing) -> list[bytes]:
            number = len(self.asked)
            self._infos = [StreamInfo(StreamId("run-1", "site-1", f"{number:09}-{m}"), 0, 0, 0, False) for m in (0, 1)]
            return super()._answer(asked)

    with pytest.raises(Malformed, match="the most that a reader accepts"):
        listed(Endless([]))


def test_a_receiver_that_says_the_same_page_again_and_again_is_believed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", len(INFOS))
    assert listed(Receiver(INFOS, older=True)) == INFOS
