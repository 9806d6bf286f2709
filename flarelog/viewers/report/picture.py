"""The lanes of a report as a standalone SVG, as for a README."""

from __future__ import annotations

from flarelog.viewers.report import drawing, style
from flarelog.viewers.report.facts import Report
from flarelog.viewers.report.page import Room, bound, fitting, lanes_of, left_out


def picture(report: Report) -> str:
    insides = drawing.Insides(report)

    def made(room: Room) -> str:
        notes = [said for said in left_out(report, room) if "lane" in said]
        return drawing.alone(report, insides, lanes_of(report, room), room.buckets, style.alone(), notes) + "\n"

    return fitting(made, bound(report))
