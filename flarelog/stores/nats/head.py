"""The header of a log's message: the whole state of the stream after it, as one line of text.

The latest message of a log is the stream. A message without bytes is a claim (its number is 0), a mark's commit, or a
seal. The producers come last, because they are the only part without a fixed number of words.
"""

from __future__ import annotations

from typing import NamedTuple

from flarelog.checksum import EMPTY_DIGEST
from flarelog.delivery.receiver import Holder
from flarelog.errors import Unreadable
from flarelog.model import Mark, Redaction, StreamId, StreamInfo

NAME = "Flarelog"
"""The header's name in the message."""
VERSION = "1"
PLAIN, ZSTD = 0, 1
"""Codecs of a message's bytes."""


class Head(NamedTuple):
    """The state of a stream after a message; a tuple, because ten thousand are compared and read in one listing."""

    end: int = 0  # the committed offset
    raw: int = 0  # bytes of the log in the message, which end there
    codec: int = PLAIN
    digest: int = EMPTY_DIGEST
    marks: int = 0  # how many marks count
    page: int = 0  # sequence of the page with the last of them; 0: there are none
    writer: str = ""  # the appender
    number: int = 0  # of its message; 0: the claim
    ordinal: int = 0  # messages of the stream, this one included
    sealed: bool = False
    redacted: Redaction | None = None
    begun: int = 0  # this and the next two: as in StreamInfo
    grown: int = 0
    ended: int = 0
    holder: Holder = Holder()

    def encoded(self) -> str:
        seal = "-" if not self.sealed else "s"
        if self.sealed and self.redacted is not None:
            seal = f"s:{self.redacted.matches}:{self.redacted.bytes}"
        producers = " ".join(f"{epoch}:{producer.hex()}" for epoch, producer in self.holder.producers)
        return (
            f"{VERSION} {self.end} {self.raw} {self.codec} {self.digest:x} {self.marks} {self.page} {self.writer}"
            f" {self.number} {self.ordinal} {seal} {self.begun} {self.grown} {self.ended} {producers}"
        ).rstrip()

    @classmethod
    def decoded(cls, said: str) -> Head:
        """The state in the header *said*. Raises Unreadable."""
        try:
            version, *words = said.split(" ")
            end, raw, codec, digest, marks, page, writer, number, count, seal, begun, grown, ended, *rest = words
            if version != VERSION:
                raise ValueError(version)
            sealed, *counts = seal.split(":")
            producers = [one.split(":") for one in rest]
            return cls(
                *(
                    int(end),
                    int(raw),
                    int(codec),
                    int(digest, 16),
                    int(marks),
                    int(page),
                    writer,
                    int(number),
                    int(count),
                ),
                sealed=sealed == "s",
                redacted=Redaction(*map(int, counts)) if counts else None,
                begun=int(begun),
                grown=int(grown),
                ended=int(ended),
                holder=Holder(tuple((int(epoch), bytes.fromhex(producer)) for epoch, producer in producers)),
            )
        except (ValueError, TypeError):
            raise Unreadable(
                f"a message has a header that is not flarelog's, or of a later version: {said!r:.80}"
            ) from None

    @property
    def start(self) -> int:
        """The offset of the first byte in the message."""
        return self.end - self.raw

    def told(self, stream: StreamId, marks: tuple[Mark, ...]) -> StreamInfo:
        return StreamInfo(
            stream, 0, self.end, self.digest, self.sealed, marks,
            self.redacted if self.sealed else None, begun=self.begun, grown=self.grown, ended=self.ended,
        )  # fmt: skip
