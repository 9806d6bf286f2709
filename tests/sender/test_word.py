"""The messages of a sidecar without a log, over a fake link."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pytest_mock import MockerFixture

from flarelog.model import Code, Health, News, Open, Reply
from flarelog.sender.healths import Healths
from flarelog.sender.log import Site
from flarelog.sender.options import SidecarOptions
from flarelog.sender.word import NAME, Word
from flarelog.sources.files.patterns import SourceOptions
from flarelog.wire.uplink import Gone, Speaker

WHY = "a_b.log-ead044a8 cannot be read: why"
OPTIONS = SidecarOptions("127.0.0.1:1", "run-1", "site-1", SourceOptions("/"))
NONE, ONE, NO_ROOT = ((), True), ((WHY,), True), ((), False)


@dataclass
class Receiver:
    """A link, the call over it, the call's stream, and the Opens that the receiver got."""

    gone: int = 0  # calls that end without an answer
    answers: list[Code] = field(default_factory=list)  # the answers before OK
    told: list[Open] = field(default_factory=list)
    producer_id: bytes = b"a-producer"
    epoch: int = 3

    def uplink(self) -> Any:
        return self

    def stream(self, speaker: Speaker) -> Any:
        self.speaker = speaker
        return self

    def put(self, request: Open) -> None:
        if not self.gone:
            code = self.answers.pop(0) if self.answers else Code.OK
            if code is Code.OK:
                self.told.append(request)
            assert not self.speaker.heard(Reply(code))
        self.speaker.wake()

    def check(self) -> None:
        if self.gone:
            self.gone -= 1
            raise Gone("closed the connection")

    def leave(self) -> None: ...


class Consent:
    """A site's policy."""

    def __init__(self, given: bool) -> None:
        self.given = lambda: given


@pytest.mark.parametrize(
    ("receiver", "looks", "told"),
    [
        pytest.param(Receiver(), [ONE], [ONE], id="what-cannot-be-sent"),
        pytest.param(Receiver(), [NONE], [NONE], id="that-nothing-is-missing"),
        pytest.param(Receiver(), [ONE, ONE, NONE, NONE, ONE], [ONE, NONE, ONE], id="what-is-new"),
        pytest.param(Receiver(), [NO_ROOT], [], id="nothing-of-a-root-that-is-not-there"),
        pytest.param(Receiver(), [None, ONE, None], [ONE], id="when-it-was-looked"),
        pytest.param(Receiver(gone=2), [ONE, None, None, None], [ONE], id="again-until-it-is-taken"),
        pytest.param(
            Receiver(answers=[Code.EXECUTION_EXCEPTION]), [ONE, None], [ONE], id="again-once-its-run-is-there"
        ),
        pytest.param(Receiver(answers=[Code.REJECTED]), [ONE, None, ONE], [], id="not-again-what-is-refused"),
        pytest.param(Receiver(gone=1), [ONE, NONE], [NONE], id="what-holds-by-then"),
    ],
)
def test_what_is_missing_is_told_where_it_is_new(
    receiver: Receiver,
    looks: list[tuple[tuple[str, ...], bool] | None],
    told: list[tuple[tuple[str, ...], bool]],
    mocker: MockerFixture,
) -> None:
    assert said(receiver, looks, mocker) == told
    for opened in receiver.told:
        assert (str(opened.stream), opened.producer, opened.epoch) == (f"run-1/site-1/{NAME}", b"a-producer", 3)
        assert opened.news_only


@pytest.mark.parametrize(("alone", "given"), [(False, True), (True, False)], ids=["it-has-a-log", "nothing-may-leave"])
def test_a_sidecar_says_nothing_where(alone: bool, given: bool, mocker: MockerFixture) -> None:
    receiver = Receiver()
    assert said(receiver, [ONE], mocker, alone=alone, given=given) == []


def said(
    receiver: Receiver,
    looks: list[tuple[tuple[str, ...], bool] | None],
    mocker: MockerFixture,
    *,
    alone: bool = True,
    given: bool = True,
) -> list[tuple[tuple[str, ...], bool]]:
    news = [None if one is None else News(0, 0, health=Health(unread=one[0]), whole=one[1]) for one in looks]
    healths = mocker.Mock(take=lambda: news.pop(0))
    site = mocker.Mock(options=OPTIONS, link=receiver, consents=Consent(given))
    word = Word(cast(Site, site), cast(Healths, healths), lambda: alone)

    async def go() -> None:
        for _ in looks:
            await word.tell()

    asyncio.run(go())
    return [
        (one.news.health.unread, one.news.whole) for one in receiver.told if one.news is not None and one.news.health
    ]
