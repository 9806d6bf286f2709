"""The last line of a log, and the state of its last bar. Pure."""

from __future__ import annotations

from typing import NamedTuple

from flarelog.lines.meters import done, is_bar, words
from flarelog.lines.sgr import plain
from flarelog.render.container import Renderer
from flarelog.text import legible

SHOWN = 300  # characters of a line
BARS = 200  # last rows of a log in which its bar is looked for


class Last(NamedTuple):
    """*line*: the last line with text that is no bar in progress; *bar*: the last bar; empty where there is none."""

    line: str = ""
    bar: str = ""
    goes_on: bool = False  # the bar has not ended

    @property
    def progress(self) -> tuple[str, float | None] | None:
        """The words of a bar in progress without its picture, and how far it is, in percent; None without one."""
        return (words(self.bar), done(self.bar)) if self.goes_on else None


NOTHING = Last()


def last_of(data: bytes, begin: int) -> Last:
    """The last line and the last bar in *data*, the end of a log, which begins at *begin*."""
    start = data.find(b"\n") + 1 if begin else 0
    renderer = Renderer()
    renderer.jump(begin + start)
    ended = [line.text for line in (*renderer.feed(data[start:]), *renderer.settle())]
    rows, open_ = _texts(ended), _texts(renderer.open())
    going = [text for text in open_ if is_bar(text) or (done(text) is not None and "%" in text)]
    rows += [text for text in open_ if text not in going]
    if going:
        return Last(rows[-1] if rows else "", going[-1], goes_on=True)
    return Last(rows[-1] if rows else "", next((text for text in reversed(rows[-BARS:]) if is_bar(text)), ""))


def _texts(rows: list[str]) -> list[str]:
    """The *rows* with text, as they are shown."""
    return [shown for row in rows if (shown := legible(plain(row).expandtabs(4).strip(), SHOWN))]
