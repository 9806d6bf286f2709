"""The rows of the table, and the facts of the machine that they were measured on."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

KEPT = Path(__file__).resolve().parent / "results"
_PACKAGES = ("flarelog", "grpcio", "protobuf", "isal", "backports.zstd")
_HEADER = ("measurement", "of", "median (min-max)", "CPU s/GB sender / receiver", "peak RSS MiB s / r", "compared")


@dataclass(frozen=True, slots=True)
class Row:
    """One row: the median over rounds, with all samples in order."""

    measurement: str
    of: str
    unit: str
    samples: Sequence[float]  # empty if the measurement failed: then the note has the reason
    cpu: tuple[float, ...] = ()  # seconds per 10^9 bytes: sender, receiver
    rss: tuple[float, ...] = ()  # MiB, peak of all rounds: sender, receiver
    ratios: Mapping[str, float] = field(default_factory=dict)  # of this run's medians; more is better
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "median": self.median if self.samples else None}

    def cells(self) -> tuple[str, ...]:
        spread = f" ({number(min(self.samples))}-{number(max(self.samples))})" if len(self.samples) > 1 else ""
        return (
            self.measurement,
            self.of,
            f"{number(self.median)}{spread} {self.unit}" if self.samples else "",
            " / ".join(f"{seconds:.2f}" for seconds in self.cpu),
            " / ".join(f"{mib:.0f}" for mib in self.rss),
            "; ".join(filter(None, [*(f"{name} {number(value)}" for name, value in self.ratios.items()), self.note])),
        )


def row_of(record: Mapping[str, Any]) -> Row:
    """The row of a ``Row.record``; an older record may lack fields."""
    known = {name: record[name] for name in Row.__slots__ if name in record}
    return Row(**{**known, "note": record.get("note") or record.get("compared", "")})


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def medians(samples: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(statistics.median(column) for column in zip(*samples, strict=True))


def largest(samples: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    return tuple(max(column) for column in zip(*samples, strict=True))


def table(rows: Sequence[Row]) -> str:
    """Format *rows* as a Markdown table."""
    cells = [_HEADER, *(row.cells() for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADER))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    return "\n".join((lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]))


def machine() -> dict[str, object]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{package: _version(package) for package in _PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
