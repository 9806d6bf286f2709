"""Draw a result as SVG, without a library: lines over a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.results import Row, number

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 210, 44, 52  # margins of the frame; the right one has the names
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#806000")  # distinct for colour-blind readers


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points (x, y); a single point with x None is a horizontal line."""

    name: str
    points: Sequence[tuple[float | None, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    name: str
    low: float
    high: float
    logarithmic: bool = False
    ticks: Sequence[float] = ()

    def at(self, value: float) -> float:
        """The position of *value* on the axis, from 0 to 1."""
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def linear(name: str, values: Iterable[float]) -> Axis:
    """An axis from 0 to a round number above all *values*."""
    top = max([*values, 1e-9])
    step = next(s for e in range(-9, 12) for s in (10.0**e, 2 * 10.0**e, 5 * 10.0**e) if top / s <= 5.5)
    count = math.ceil(top / step)
    return Axis(name, 0.0, count * step, ticks=[step * n for n in range(count + 1)])


def logarithmic(name: str, values: Iterable[float]) -> Axis:
    """A logarithmic axis over whole decades around all *values*."""
    known = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    high = max(high, low + 1)
    return Axis(name, 10.0**low, 10.0**high, True, [10.0**n for n in range(low, high + 1)])


def chart(title: str, x: Axis, y: Axis, lines: Sequence[Line]) -> str:
    """The chart as SVG."""
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def place(px: float, py: float) -> tuple[float, float]:
        return _LEFT + x.at(px) * wide, _TOP + (1 - y.at(py)) * high

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        _text(_LEFT, 24, title, size=15),
    ]
    for tick in y.ticks:
        _, at = place(x.low, tick)
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + wide}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>')
        parts.append(_text(_LEFT - 8, at + 4, _tick(tick), "end"))
    for tick in x.ticks:
        at, _ = place(tick, y.low)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP + high}" y2="{_TOP + high + 5}" stroke="#555555"/>')
        parts.append(_text(at, _TOP + high + 20, _tick(tick), "middle"))
    parts.append(
        f'<path d="M{_LEFT} {_TOP}V{_TOP + high}H{_LEFT + wide}" fill="none" stroke="#555555" stroke-width="1"/>'
    )
    parts.append(_text(_LEFT + wide / 2, _HEIGHT - 12, x.name, "middle"))
    parts.append(f'<g transform="translate(18 {_TOP + high / 2}) rotate(-90)">{_text(0, 0, y.name, "middle")}</g>')
    labels: list[tuple[float, str, str]] = []
    for line, colour in zip(lines, _COLOURS, strict=False):
        level = [py for px, py in line.points if px is None]
        points = [place(px, py) for px, py in line.points if px is not None]
        if level:
            points = [place(x.low, level[0]), place(x.high, level[0])]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        dashes = ' stroke-dasharray="6 4"' if level else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        for px, py in [] if level else points:
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}"/>')
        labels.append((points[-1][1], line.name, colour))
    for at, name, colour in _apart(labels):
        parts.append(_text(_LEFT + wide + 12, at + 4, name, colour=colour))
    return "\n".join([*parts, "</svg>\n"])


def _apart(labels: list[tuple[float, str, str]]) -> list[tuple[float, str, str]]:
    """Move *labels* so that none overlap and none is below the frame; sorted from top to bottom."""
    placed: list[tuple[float, str, str]] = []
    for at, name, colour in sorted(labels):
        placed.append((max(at, placed[-1][0] + 16) if placed else at, name, colour))
    over = max(0.0, placed[-1][0] - (_HEIGHT - _BOTTOM)) if placed else 0.0
    return [(at - over, name, colour) for at, name, colour in placed]


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12, colour: str = "#222222") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(text)}</text>'
    )


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


# --- the pictures


def all_of(rows: Sequence[Row]) -> dict[str, str]:
    """The SVG texts by file name, for the given rows."""
    there = {(row.measurement, row.of): row.median for row in rows if row.samples}
    made = {
        "throughput-streams": _throughput(there),
        "latency-load": _latency(there),
        "cpu": _growth(there, "CPU", "% of a core", "receiver, CPU", ""),
        "memory": _growth(there, "Resident memory", "MiB", "receiver, resident", ", resident"),
    }
    return {f"{name}.svg": picture for name, picture in made.items() if picture}


_Medians = dict[tuple[str, str], float]


def _throughput(there: _Medians) -> str:
    def of_each(name: str) -> list[tuple[float | None, float]]:
        return [(float(of.replace(",", "")), value) for (what, of), value in there.items() if what == name]

    points, theirs = of_each("streams"), of_each("streams, rsyslog, TCP")
    if not points:
        return ""
    levels = [
        Line(f"{name}: {number(there['bulk, memory', name])}", [(None, there["bulk, memory", name])])
        for name in ("raw socket copy", "stop-and-wait, 64 KiB", "rsyslog, TCP", "rsyslog, RELP")
        if ("bulk, memory", name) in there and not (theirs and name == "rsyslog, TCP")
    ]
    levels += [Line("rsyslog, TCP, as many files", theirs)] if theirs else []
    values = [value for line in levels for _, value in line.points] + [value for _, value in points]
    x, y = (
        logarithmic("logs, with the same bytes in all; dashed: one log", [x or 1.0 for x, _ in points]),
        logarithmic("MB/s", values),
    )
    return chart("Throughput against streams", x, y, [Line("flarelog", points), *levels])


def _latency(there: _Medians) -> str:
    lines = []
    for share in ("p50", "p99"):
        idle = there.get(("latency of a line", f"flarelog, {share}"))
        points: list[tuple[float | None, float]] = [(0.0, idle)] if idle is not None else []
        points += _loaded(there, "", share)
        lines.append(Line(f"flarelog, {share}", points))
        if bare := _loaded(there, "bare gRPC, ", share):
            lines.append(Line(f"bare gRPC, {share}", bare))
        if ("latency of a line", f"rsyslog, TCP, {share}") in there:
            level = there["latency of a line", f"rsyslog, TCP, {share}"]
            lines.append(Line(f"rsyslog, TCP, {share}, idle", [(None, level)]))
    if max(len(line.points) for line in lines) < 2:
        return ""
    x = Axis("bulk beside it, % of the rate that it reaches alone", 0, 100, ticks=[0, 25, 50, 75, 100])
    y = logarithmic("ms", [value for line in lines for _, value in line.points])
    return chart("Latency of a line against load", x, y, lines)


def _loaded(there: _Medians, whose: str, share: str) -> list[tuple[float | None, float]]:
    """Points (percent, ms) of the latency under load of *whose* rows."""
    return [
        (float(of.removeprefix(whose).split()[0]), value)
        for (what, of), value in there.items()
        if what == "latency under load" and of.startswith(whose) and of.removeprefix(whose)[0].isdigit()
        if of.endswith(share)
    ]


def _growth(there: _Medians, title: str, unit: str, of_receiver: str, of_sidecar: str) -> str:
    lines: dict[str, list[tuple[float | None, float]]] = {}
    for (what, of), value in there.items():
        count = what.partition(" sites x ")[0] if " sites x " in what else of.removeprefix("sidecar, ").split()[0]
        if " sites x " in what and of == of_receiver:
            name = f"receiver, sites x {what.partition(' x ')[2]}"
        elif what == "idle" and of.endswith(f"quiet files{of_sidecar}"):
            name = "sidecar, quiet files"
        else:
            continue
        lines.setdefault(name, []).append((float(count.replace(",", "")), value))
    if not lines:
        return ""
    x = logarithmic("sites or files", [x or 1.0 for points in lines.values() for x, _ in points])
    y = linear(unit, [value for points in lines.values() for _, value in points])
    return chart(f"{title} against sites and files", x, y, [Line(name, points) for name, points in lines.items()])
