"""The note of the findings in a site's logs. Other signatures, or another format, make it worthless."""

from __future__ import annotations

import json
from collections.abc import Iterable

from flarelog.detect.progress import Progress
from flarelog.detect.version import version
from flarelog.errors import InvalidName
from flarelog.model import StreamId

FORMAT = 1


def noted(logs: Iterable[tuple[str, Progress]]) -> bytes:
    """The note of a site with the progress in *logs*: a header line, and a line for each log."""
    head = {"findings": FORMAT, "signatures": version()}
    return "".join(
        f"{json.dumps(each)}\n" for each in (head, *({"log": log, **progress.record()} for log, progress in logs))
    ).encode()


def understood(run: str, site: str, raw: bytes) -> dict[str, Progress]:
    """The progress in the note *raw* of *site* in *run*, by log; empty if it is invalid, or of other signatures."""
    try:
        head, *lines = raw.decode().splitlines()
        if json.loads(head) != {"findings": FORMAT, "signatures": version()}:
            return {}
        found = [json.loads(line) for line in lines]
        return {said["log"]: Progress.of(StreamId(run, site, said["log"]), said) for said in found}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidName):
        return {}
