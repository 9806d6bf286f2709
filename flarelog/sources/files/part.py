"""A file as a part of a text that other files go on with, as its writer says. Most files are a text of their own."""

from __future__ import annotations

from flarelog.sources.redaction.mask import Fetch


class Part:
    """A file that is a text of its own. Offsets are those of the text."""

    log = ""  # the last part of the name of the log that the writer gives it to, in the file's directory
    note = ""  # the word of a generation's notes for the part
    base = 0  # bytes of the text before the file
    torn = -1  # where the known text begins after unknown bytes; -1: not nearby

    def end(self, size: int) -> int:
        """The end of the known text, the file having *size* bytes; bytes too far away to matter do not count."""
        return size

    def fetch(self, raw: Fetch, size: int) -> Fetch:
        """A fetch of the text's bytes; *raw* gives those of the file. Unknown bytes before it are line ends."""
        return raw

    def ends(self, size: int) -> None:
        """Cut the file at *size* bytes: for masking, the text ends with the bytes after it known so far."""

    def complete(self) -> bool:
        """Whether the file no longer grows, because the writer has begun another."""
        return False

    def stored(self, fd: int) -> None:
        """Take the descriptor of the file once the receiver has all of it, and no more will follow."""

    def writer(self) -> tuple[int, int] | None:
        """(pid, start time) of the process whose text it is, where another process writes the file; None: unknown."""
        return None


ALONE = Part()
