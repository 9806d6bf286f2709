"""Whether the last lines of a log can be drawn from its end alone. Pure."""

from __future__ import annotations

from flarelog.late import late
from flarelog.lines.line import Note
from flarelog.lines.sgr import RESETS
from flarelog.render.container import Renderer
from flarelog.render.rows import WINDOW

TAIL_MORE = WINDOW  # extra lines that are read: as many rows as a cursor can reach
_COLOUR = late(rb"\x1b\[[0-9;:]*m")


def is_sure(renderer: Renderer, start: int, data: bytes, tail: int, plain: bool | None) -> bool:
    """Whether the last *tail* lines of *data*, which begins at *start*, are those of the whole log. *renderer*: a new
    one; *plain*: whether the log has no framing, None: no line looks like a record.
    """
    moves = b"\x1b" in data or b"\x9b" in data
    if not moves and plain is None:
        return data.count(b"\n") >= tail + WINDOW
    renderer.jump(start)
    if plain is not None:
        renderer.plain = plain
    lines = [line for line in renderer.feed(data) + renderer.close() if not isinstance(line, Note)]
    before, shown = lines[: max(0, len(lines) - tail)], lines[max(0, len(lines) - tail) :]
    if sum(not line.bar for line in before) < WINDOW:  # a cursor may go back to lines that were not read
        return False
    end = data.find(b"\n", max(0, before[-1].offset - start))
    if moves and _COLOUR.search(data) and not any(each in data[: max(0, end)] for each in RESETS):
        return False  # a colour may continue from bytes that were not read
    return {line.stream for line in shown} <= {line.stream for line in before}
