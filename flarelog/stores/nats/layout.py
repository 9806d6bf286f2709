"""Names in JetStream: the streams of a store, and the subjects of its logs, pages of marks and notes.

    fl.NAME.SHARD.RUN.SITE.LOG     the messages of a log; fm: its pages of marks; fw: its headers, republished
    fn.NAME.RUN.SITE.KIND          the messages of a note
    fc.NAME.WORD                   what the stores of one engine tell each other, kept nowhere

A subject's parts are separated by dots, and valid names have no ``=``: it stands for the dot, and alone for an empty
name. So names map one to one. All logs of a site in a run are in one shard, a stream of JetStream.
"""

from __future__ import annotations

from flarelog.checksum import extend
from flarelog.model import StreamId
from flarelog.values import frozen

PRODUCERS = "producers"
"""The kind of the note with the producers of a site, in their order; who has it is a site of the run."""


def token(name: str) -> str:
    """The part of a subject for *name*."""
    return name.replace(".", "=") or "="


def name_of(part: str) -> str:
    """The name for which *part* of a subject stands."""
    return "" if part == "=" else part.replace("=", ".")


@frozen
class Layout:
    """The names of the store *name* with so many *shards*."""

    name: str
    shards: int

    def shard(self, run: str, site: str) -> int:
        return extend(0, f"{run}/{site}".encode()) % self.shards

    def shard_stream(self, shard: int) -> str:
        return f"flarelog-{self.name}-{shard}"

    def stream_of(self, stream: StreamId) -> str:
        """The stream of JetStream with the messages of *stream*."""
        return self.shard_stream(self.shard(stream.run, stream.site))

    @property
    def notes_stream(self) -> str:
        return f"flarelog-{self.name}-notes"

    def shard_subjects(self, kind: str, shard: int) -> str:
        return f"{kind}.{self.name}.{shard}.>"

    def subject(self, kind: str, stream: StreamId) -> str:
        """The subject of *stream*; *kind*: fl, fm or fw."""
        shard = self.shard(stream.run, stream.site)
        return f"{kind}.{self.name}.{shard}.{token(stream.run)}.{token(stream.site)}.{token(stream.log)}"

    def subjects(self, kind: str, shard: int, run: str = "", site: str = "") -> str:
        """The subjects of all logs of *site* in *run*, of all sites, or of all runs in *shard*."""
        return f"{kind}.{self.name}.{shard}.{token(run) if run else '*'}.{token(site) if site else '*'}.*"

    def stream(self, subject: str) -> StreamId:
        """The stream with this *subject* of any kind."""
        return StreamId(*map(name_of, subject.split(".")[3:]))

    def note(self, kind: str, run: str = "", site: str = "") -> str:
        return f"fn.{self.name}.{token(run)}.{token(site)}.{token(kind)}"

    def notes(self, run: str = "", site: str = "", kind: str = "*") -> str:
        """The subjects of the notes, or those of one *kind*, of *site* in *run*, of all sites and of the run itself, or
        of all runs.
        """
        return f"fn.{self.name}.{token(run) if run else '*'}.{token(site) if site else '*'}.{token(kind)}"

    def note_of(self, subject: str) -> tuple[str, str, str]:
        """The run, the site and the kind of the note with this *subject*."""
        run, site, kind = subject.split(".")[2:]
        return name_of(run), name_of(site), name_of(kind)

    def word(self, word: str) -> str:
        return f"fc.{self.name}.{word}"
