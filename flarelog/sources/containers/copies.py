"""What is known of copies of files, where ``containers`` reads copies that another part of the agent writes."""

from __future__ import annotations

import math


class Copies:
    """Paths are relative to the root, and those of a moment: an answer is ready before a file gets its name."""

    def gap(self, path: str) -> str:
        """Why bytes before those of the file are missing; empty: none are."""
        return ""

    def ending(self, path: str) -> str:
        """How the generation ends, where the files alone do not tell; as in ``Ended``."""
        return ""

    def notes(self, path: str) -> tuple[str, ...]:
        """Words for the notes of the generation."""
        return ()

    def stored(self, receiver: str, path: str) -> None:
        """*receiver* has all of the file, which has not got its last name yet, or no later bytes follow."""

    def seen(self, directory: str) -> float:
        """The beginning of the latest look at the container in *directory* that left nothing to copy; seconds of the
        monotonic clock.
        """
        return math.inf
