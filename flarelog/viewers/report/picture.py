"""The lanes of a report as a standalone SVG, as for a README."""

from __future__ import annotations

from flarelog.viewers.report import drawing, style
from flarelog.viewers.report.facts import Report
from flarelog.viewers.report.page import FEW, LARGE, ROOMS, SMALL, lanes_of, left_out


def picture(report: Report) -> str:
    """The SVG file of *report*."""
    most = SMALL if len(report.sites) <= FEW else LARGE
    made, insides = "", drawing.Insides(report)
    for room in ROOMS:
        notes = [said for said in left_out(report, room) if "lane" in said]
        made = drawing.alone(report, insides, lanes_of(report, room), room.buckets, style.alone(), notes) + "\n"
        if len(made.encode()) <= most:
            break
    return made
