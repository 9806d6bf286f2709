"""Lanes as SVG: density, states and signs. Each kind has a shape of its own beside its colour.

Positions in a lane are percents of its width, so that a lane fits any width, and only its density is stretched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from flarelog.names import shown
from flarelog.viewers.lanes import Lane, Sign, Stretch
from flarelog.viewers.report.facts import DAY, Report
from flarelog.viewers.report.markup import Safe, joined, tag
from flarelog.viewers.shapes import SHAPES, kind_of, shape_of

LANE = 26  # pixels, the height of a lane
_UNITS = 40  # units of a lane's density, from its bottom to its top
_STEPS = (
    *(1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000, 1_800_000),
    *(3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 365 * DAY),
)  # milliseconds between two marks of the axis
CLASSES = {"quiet": "q", "silent": "s", "lost link": "l", "paused": "p"}


def definitions(report: Report) -> Safe:
    """Definitions that all lanes refer to: patterns, the shapes of signs, and the lines where rounds began."""
    told_apart = report.rounds[:: len(report.rounds) // 120 + 1]
    return tag(
        "defs",
        _pattern("s", "M0 14H8", LANE),
        _pattern("l", "M-2 2L2 -2M0 8L8 0M6 10L10 6"),
        _pattern("p", "M2 0V8M6 0V8"),
        *(tag("path", d=Safe(form), id=_id(name), class_=f"k-{kind_of(name)}") for name, form in SHAPES.items()),
        tag("g", *(_round_line(one.begin, report) for one in told_apart), id="rd"),
    )


def _pattern(name: str, lines: str, height: int = 8) -> Safe:
    ground = tag("rect", width="8", height=height, class_=f"b{name}")
    forms = (ground, tag("path", d=lines, class_="pat"))
    return tag("pattern", *forms, id=f"h{name}", width="8", height=height, patternUnits="userSpaceOnUse")


def _id(shape: str) -> str:
    return f"i-{shape.replace(' ', '-')}"


def icon(standing: str) -> Safe:
    """The shape of *standing*, beside its words."""
    return tag("svg", tag("use", href=f"#{_id(standing)}"), viewBox="0 0 16 16", class_="icon", aria_hidden="true")


def form(sign: str, x: int = 0, middle: int = LANE // 2) -> Safe:
    """The shape of a lane's *sign*, around a place."""
    return tag("use", href=f"#{_id(shape_of(sign))}", x=x - 8, y=middle - 8)


class Insides:
    """Draws the contents of the lanes of *report*. A file that is too large is made again with fewer lanes: parts that
    stay the same are drawn once. *late*: with the times of lines that were sent late, over what they hide.
    """

    def __init__(self, report: Report, *, late: bool = True) -> None:
        self._report, self._late = report, late
        self._drawn: dict[tuple[str, bool], tuple[Safe, Safe]] = {}  # by site, and whether with signs

    def of(self, lane: Lane, highest: int, buckets: int) -> Safe:
        """The contents of one lane, for an svg of any width and LANE pixels of height. *highest*: bytes of the fullest
        bucket of all lanes.
        """
        report, key = self._report, (lane.site, bool(lane.signs))
        if key not in self._drawn:
            self._drawn[key] = (
                joined(_stretch(one, report) for one in lane.stretches),
                joined(
                    (
                        *(_sign(one, report) for one in _in_front(lane.signs)),
                        *(_late(lane, report) if self._late else ()),
                    )
                ),
            )
        behind, before = self._drawn[key]
        rounds = tag("use", href="#rd") if report.rounds else ""
        return joined((rounds, behind, _density(lane.density, highest, buckets), before))


def percent(milliseconds: int, report: Report) -> str:
    """A length of time as a part of the whole lane."""
    return f"{100 * milliseconds / (report.end - report.begin):.2f}".rstrip("0").rstrip(".") + "%"


def _place(at: int, report: Report) -> str:
    return percent(at - report.begin, report)


def _round_line(at: int, report: Report) -> Safe:
    where = _place(max(at, report.begin), report)
    return tag("line", x1=where, x2=where, y1="0", y2=LANE, class_="r")


def _stretch(one: Stretch, report: Report) -> Safe:
    why = f": {one.why}" if one.why else ""
    said = f"{one.what} from {report.clock(one.begin, seconds=True)} to {report.clock(one.end, seconds=True)}{why}"
    high = 2 if one.what == "quiet" else LANE - 10
    return tag(
        "rect",
        tag("title", said),
        x=_place(one.begin, report),
        y=LANE - 4 - high,
        width=percent(max((report.end - report.begin) // 500, one.end - one.begin), report),
        height=high,
        class_=CLASSES[one.what],
    )


def _density(counts: Sequence[int], highest: int, buckets: int) -> Safe:
    """Bytes as an area that grows more slowly than they do: a site that sends little is seen beside a busy one."""
    merged = [sum(counts[at : at + len(counts) // buckets]) for at in range(0, len(counts), len(counts) // buckets)]
    heights = [round(_UNITS * min(1.0, count / highest) ** 0.4) if count and highest else 0 for count in merged]
    heights = [max(5, height) if count else 0 for height, count in zip(heights, merged, strict=True)]
    if not any(heights):
        return Safe("")
    parts, level, still = [f"M0 {_UNITS}"], 0, 0
    for height in heights:
        if height != level:
            parts += [f"h{still}"] if still else []
            parts.append(f"v{level - height}")
            level, still = height, 0
        still += 1
    parts += [f"h{still}", f"v{level}" if level else ""]
    path = tag("path", d=Safe("".join(parts)), class_="d")  # Safe: a path may be longer than a text
    return tag(
        "svg",
        path,
        viewBox=f"0 0 {len(merged)} {_UNITS}",
        preserveAspectRatio="none",
        width="100%",
        height=LANE - 4,
        y="2",
    )


def _in_front(signs: Iterable[Sign]) -> list[Sign]:
    """*signs* in the order of drawing: the most important one is the last."""
    order = ("begun", "rotation", "receipt", "exit", "restart", "closed", "failed", "gap")
    return sorted(signs, key=lambda one: (order.index(one.what), one.at))


def _sign(one: Sign, report: Report) -> Safe:
    said = f"{report.clock(one.at, seconds=True)} {shown(one.log)}: {one.text}"
    return tag("svg", tag("title", said), form(one.what), x=_place(one.at, report), overflow="visible")


def _late(lane: Lane, report: Report) -> Iterator[Safe]:
    """The times of lines that were sent late, before their arrival, or after it where there is more room."""
    begun = next((one.at for one in lane.signs if one.what == "begun"), report.begin)
    for late in report.late.get(lane.site, ()):
        at = late.came or begun
        before = 2 * (at - report.begin) > report.end - report.begin
        yield tag(
            "text",
            report.late_said(late),
            x=_place(at, report),
            y="16",
            dx=-10 if before else 10,
            class_="late",
            text_anchor="end" if before else "start",
        )


def axis(report: Report, marks: int) -> list[tuple[str, str]]:
    """The marks of the axis, about *marks* of them: a place in percent, and a label."""
    span = report.end - report.begin
    step = next((one for one in _STEPS if span / one <= marks), _STEPS[-1])
    first = -(-report.begin // step) * step
    found = []
    for at in range(first, report.end, step):
        if 0.02 < (at - report.begin) / span < 0.96:
            day = step >= DAY
            label = report.clock(at, seconds=step < 60_000)
            found.append((_place(at, report), label[:10] if day else label))
    return found


def round_labels(report: Report) -> list[tuple[str, str]]:
    """As ``axis``, of rounds: at most 24, so that their names do not meet."""
    rounds = report.rounds[:: max(1, -(-len(report.rounds) // 24))]
    return [(_place(max(one.begin, report.begin), report), one.name.removeprefix("Round ")) for one in rounds]


def highest_of(lanes: Iterable[Lane], buckets: int) -> int:
    """Bytes of a bucket, of so many, that is drawn to the top: one in fifty of those with any bytes has more."""
    found: list[int] = []
    for lane in lanes:
        size = len(lane.density) // buckets
        found += filter(None, (sum(lane.density[at : at + size]) for at in range(0, len(lane.density), size)))
    return sorted(found)[len(found) * 49 // 50] if found else 0


def alone(
    report: Report, insides: Insides, lanes: Sequence[Lane], buckets: int, style: str, notes: Sequence[str]
) -> Safe:
    """All lanes as one standalone SVG."""
    verdict = report.verdict()
    lines = wrapped(verdict, 150)
    lines = lines if len(lines) <= 3 else [*lines[:2], f"{lines[2]} …"]
    left, width, top = 150, 1130, (64 if report.rounds else 50) + 18 * len(lines)
    total = left + width + 20
    highest, rows = highest_of(lanes, buckets), []
    for number, lane in enumerate(lanes):
        y = top + number * (LANE + 4)
        name = lane.site if len(lane.site) <= 18 else f"{lane.site[:9]}…{lane.site[-8:]}"
        rows.append(tag("text", name, tag("title", lane.site), x=left - 10, y=y + 17, class_="n"))
        rows.append(tag("rect", x=left, y=y, width=width, height=LANE, class_="bg"))
        rows.append(
            tag("svg", insides.of(lane, highest, buckets), x=left, y=y, width=width, height=LANE, overflow="visible")
        )
    bottom = top + len(lanes) * (LANE + 4)
    labels = [(at, label, bottom + 14) for at, label in axis(report, 10)]
    labels += [(at, f"R{label}", top - 8) for at, label in round_labels(report)]
    marks = [
        tag("text", label, x=f"{left + width * float(at[:-1]) / 100:.1f}", y=y, class_="t") for at, label, y in labels
    ]
    marks.append(tag("text", "UTC", x=left - 10, y=bottom + 14, class_="n"))
    said = [tag("text", note, x=left, y=bottom + 34 + 16 * number, class_="t w") for number, note in enumerate(notes)]
    height = bottom + 28 + 16 * len(notes)
    head = [
        tag("text", f"{report.run}", x=20, y=30, class_="h"),
        *(tag("text", line, x=20, y=52 + 18 * number, class_="v") for number, line in enumerate(lines)),
    ]
    return tag(
        "svg",
        tag("title", f"flarelog: run {report.run}: {verdict}"),
        tag("style", Safe(style)),
        definitions(report),
        tag("rect", width=total, height=height, class_="page"),
        *head,
        *rows,
        *marks,
        *said,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {total} {height}",
        width=total,
        height=height,
        role="img",
    )


def wrapped(sentence: str, columns: int) -> list[str]:
    """*sentence* in lines of *columns* at most, but for longer words."""
    lines = [""]
    for word in sentence.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > columns:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
