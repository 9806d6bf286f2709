"""What the simulation's receiver answered to each log: a line of JSON for each answer, in a file.

The answers are codes of the protocol, never words of a message, so that another wording cannot change a figure. The
file outlives a receiver that is killed.
"""

from __future__ import annotations

import json
import logging
import runpy
import sys
from collections import Counter
from pathlib import Path

from flarelog.model import Code, StreamId

RUN = "poc"
ANSWERS = "answers.jsonl"  # in the simulation's directory


def answers(work: Path, code: Code) -> Counter[tuple[str, str]]:
    """How often the receivers of the simulation in *work* answered *code* to each (site, log).

    OK counts the times that a log was opened.
    """
    path = work / ANSWERS
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []  # a kill may cut the last line short
    found = (json.loads(line) for line in lines)
    return Counter((one["site"], one["log"]) for one in found if one["code"] == code.name)


class Answers(logging.Handler):
    """Appends the answer that a record of the receiver carries to *path*."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        """Append the answer of *record*, if it has one that concerns a log of the run."""
        stream, code = getattr(record, "answer", None) or (None, Code.OK)
        if not isinstance(stream, StreamId) or stream.run != RUN:
            return
        answer = {"site": stream.site, "log": stream.log, "code": code.name}
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(answer) + "\n")


def main() -> None:
    """Run flarelog with the arguments after the first one, which names the file of the answers."""
    logging.getLogger("flarelog.receiver").addHandler(Answers(sys.argv.pop(1)))
    runpy.run_module("flarelog", run_name="__main__")


if __name__ == "__main__":
    main()
