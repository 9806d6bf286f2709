"""Both ends joined: a stream that is sealed before its writer ends is reopened, and sealed at its new end."""

from __future__ import annotations

from pathlib import Path

import pytest

from flarelog.delivery.producer import DeliveryOptions
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.unmatched import sizes
from tests.joined.ends import ReceivingEnd, SendingEnd


def sent(receiver: ReceivingEnd, source: SourceOptions, state: str, number: int) -> int:
    """Send all of *source* up to the receipts; return how many bytes of chunks were sent."""
    sender = SendingEnd(number, source, DeliveryOptions(max_chunk=7), False, state, 0.0)
    sender.learn(receiver, 0.0)
    sender.discovery.drain(0.0)
    went = 0
    for delivery in sender.logs():
        call = delivery.open(0.0)
        now = 0.0
        while not delivery.done:
            before, now = delivery.producer.position, now + 0.1  # a rotated file may have a writer for a second
            delivery.send(1, now)
            went += max(0, delivery.producer.position - before)
            while call.requests:
                receiver.take(call)
            receiver.commit(call)
            while call.replies:
                delivery.hear(receiver, now)
    sender.close()
    return went


@pytest.mark.parametrize("rotated", [False, True], ids=["grown", "rotated"])
def test_what_is_written_after_a_receipt_opens_the_stream_again(tmp_path: Path, rotated: bool) -> None:
    (tmp_path / "site").mkdir()
    log, source = tmp_path / "site" / "log.txt", SourceOptions(str(tmp_path / "site"), ("log.txt",))
    log.write_bytes(b"before the receipt\n")
    receiver = ReceivingEnd(tmp_path / "store", "memory", 1, 0)
    try:
        assert sent(receiver, source, str(tmp_path / "state"), 1) == 19
        (info,) = receiver.record()
        assert (info.sealed, info.committed) == (True, 19)
        early = sizes(source)
        with open(log, "ab") as file:
            file.write(b"after it\n")
        if rotated:
            log.rename(tmp_path / "site" / "log.txt.1")
            log.write_bytes(b"and then\n")
        assert sizes(source) != early
        more = 18 if rotated else 9
        assert sent(receiver, source, str(tmp_path / "state"), 2) == more
        (info,) = receiver.record()
        assert (info.sealed, info.committed) == (True, 19 + more)
        stored = (tmp_path / "store" / "run" / "site" / "log.txt").read_bytes()
        assert stored == b"before the receipt\nafter it\n" + (b"and then\n" if rotated else b"")
    finally:
        receiver.stop()


def test_what_is_no_log_is_no_reason_to_look_again(tmp_path: Path) -> None:
    source = SourceOptions(str(tmp_path), ("log.txt",))
    (tmp_path / "log.txt").write_bytes(b"one\n")
    before = sizes(source)
    (tmp_path / "model.bin").write_bytes(b"weights")
    assert sizes(source) == before
    assert list(before) == ["log.txt"]
