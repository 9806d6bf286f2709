"""The result of a check: a row, with a fix unless it is ok. No check raises."""

from __future__ import annotations

from typing import Literal

from flarelog.values import frozen


@frozen
class Row:
    check: str
    result: Literal["ok", "warn", "fail"]
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Row:
    return Row(check, "ok", found)


def warn(check: str, found: str, fix: str) -> Row:
    return Row(check, "warn", found, fix)


def fail(check: str, found: str, fix: str) -> Row:
    return Row(check, "fail", found, fix)
