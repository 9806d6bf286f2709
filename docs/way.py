"""Draw the way of a line, from a file at a site to a screen: ``make way`` writes ``docs/way.svg``.

The picture is made from the code. A station is a function: the picture shows its name, the first sentence of its
docstring, and its module's room. A station that has moved or is gone, or that has no docstring, ends this program with
an error message. ``python -m docs.way --check`` writes nothing, and exits with 1 if the picture is stale.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from xml.sax.saxutils import escape

PICTURE = Path(__file__).with_name("way.svg")


@dataclass(frozen=True)
class Lane:
    """A process, and the stations of a line in it, in order."""

    title: str
    colour: str
    stations: tuple[str, ...]  # MODULE:NAME below flarelog


LANES = (
    Lane(
        "the sidecar, beside the site",
        "#e3eefb",
        (
            "sources.files.walk:Walk.entries",
            "sources.files.strangers:Strangers.meet_all",
            "sources.files.finder:Files.watch",
            "sources.redaction.file:RedactedFile.read",
            "sources.files.tail:Tail.next",
            "delivery.producer:Producer.chunk",
            "delivery.sending:Delivery.next",
            "sender.log:Log.run",
            "wire.packing:Packing.packed",
            "wire.uplink:Stream.put",
            "wire.codec.push:request_parts",
        ),
    ),
    Lane(
        "the receiver",
        "#e6f4e4",
        (
            "wire.service:handlers",
            "receiver.call:Call.run",
            "wire.codec.push:decode_said",
            "receiver.session:Session.take",
            "delivery.receiving:Reception.take",
            "delivery.receiver:Receiver.chunk",
            "stores.local.appender:LocalAppender.append",
            "stores.local.journal:length_line",
            "receiver.answers:Answers.acknowledge",
            "stores.local.followers:Followers.growth",
            "receiver.reads:Reads.read",
        ),
    ),
    Lane(
        "the viewer",
        "#fbf0dd",
        (
            "client:Client.find",
            "viewers.origin:Origin.find",
            "viewers.reading:Reading.pieces",
            "viewers.follow:Follow.run",
            "viewers.flow:Flow.feed",
            "render.container:Renderer.feed",
            "render.screen:Screen.feed",
            "lines.choose:Chooser.feed",
            "viewers.console:Console.show_all",
            "viewers.pipe:Pipe.drain",
        ),
    ),
)

WIDTH, HEIGHT, GAP, MARGIN, TOP = 370, 92, 22, 16, 44  # in pixels: a station, the gap, the margin, the title
COLUMNS, LINES = 50, 3  # characters of a line in a station, and lines, at most

_ARGUMENT, _ITALIC = re.compile(r"\*(\w+)\*"), r'<tspan font-style="italic">\1</tspan>'


def said(station: str) -> str:
    """The first sentence of the docstring of *station*. Raises SystemExit if there is none."""
    module, _, name = station.partition(":")
    try:
        found: object = import_module(f"flarelog.{module}")
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SystemExit(
            f"docs/way.py: {station} is not there ({error}): name the function that does it now"
        ) from error
    text = " ".join((inspect.getdoc(found) or "").split())
    if not text:
        raise SystemExit(f"docs/way.py: {station} has no docstring: say what it does")
    return text.partition(". ")[0].rstrip(".")


def box(station: str, x: int, y: int, colour: str) -> list[str]:
    module, _, name = station.partition(":")
    lines = textwrap.wrap(said(station).replace("``", ""), COLUMNS)
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"{lines[LINES - 1][: COLUMNS - 2]} …"]
    texts = [
        f'<text x="{x + 10}" y="{y + 20}" font-weight="bold">{escape(name)}</text>',
        f'<text x="{x + 10}" y="{y + 36}" fill="#57606a" font-size="11">{escape(module.replace(".", "/"))}.py</text>',
    ]
    texts += [
        f'<text x="{x + 10}" y="{y + 54 + 14 * number}" font-size="11">{_ARGUMENT.sub(_ITALIC, escape(line))}</text>'
        for number, line in enumerate(lines)
    ]
    return [
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colour}" stroke="#8c959f"/>',
        *texts,
    ]


def arrow(*points: tuple[int, int]) -> str:
    path = " L".join(f"{x} {y}" for x, y in points)
    return f'<path d="M{path}" fill="none" stroke="#57606a" stroke-width="1.5" marker-end="url(#head)"/>'


def drawn() -> str:
    """The picture, as SVG."""
    step, width = HEIGHT + GAP, 2 * MARGIN + len(LANES) * (WIDTH + 3 * GAP) - 3 * GAP
    height = TOP + max(len(lane.stations) for lane in LANES) * step + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        "<title>The way of a line, from a file to a screen</title>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for number, lane in enumerate(LANES):
        x = MARGIN + number * (WIDTH + 3 * GAP)
        parts.append(f'<text x="{x}" y="{TOP - 16}" font-size="16" font-weight="bold">{escape(lane.title)}</text>')
        for row, station in enumerate(lane.stations):
            y = TOP + row * step
            parts += box(station, x, y, lane.colour)
            if row + 1 < len(lane.stations):
                parts.append(arrow((x + WIDTH // 2, y + HEIGHT), (x + WIDTH // 2, y + step)))
        if number + 1 < len(LANES):  # an arrow over the network, from the last station to the next process's first
            last, edge = TOP + (len(lane.stations) - 1) * step + HEIGHT // 2, x + WIDTH + 3 * GAP // 2
            parts.append(
                arrow(
                    (x + WIDTH, last), (edge, last), (edge, TOP + HEIGHT // 2), (x + WIDTH + 3 * GAP, TOP + HEIGHT // 2)
                )
            )
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    picture = drawn()
    if "--check" not in sys.argv:
        PICTURE.write_text(picture)
    elif not PICTURE.exists() or PICTURE.read_text() != picture:
        raise SystemExit("docs/way.svg is not what the code makes now: run make way")


if __name__ == "__main__":
    main()
