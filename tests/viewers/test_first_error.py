"""Terminal, page and report show the same first error."""

from __future__ import annotations

import asyncio
from datetime import UTC
from pathlib import Path

import pytest
from click.testing import CliRunner

from flarelog.cli import main
from flarelog.lines.zones import Stamps
from flarelog.model import StreamId
from flarelog.stores.local.store import LocalStore
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.report.gather import gather
from flarelog.viewers.web import trouble

RUN = "run-1"
TRACE = [
    "Traceback (most recent call last):",
    *(f'  File "f{n}.py", line {n}, in f' for n in range(30)),
    "yarn.Lost: x",
]
FILLER = "".join(f"2026-11-20 08:00:01 step {n} is fine\n" for n in range(4000))  # so long that lines are left out

CASES = {
    "a-line-has-the-time-of-the-line-before-it": (
        {"a": f"{FILLER}2026-11-20 08:00:05 last step\nPANIC: early\n", "b": "2026-11-20 08:00:09 PANIC: late\n"},
        ("a", "PANIC: early"),
    ),
    "a-cause-is-first-though-an-error-is-earlier": (
        {"a": "2026-11-20 08:00:01 PANIC: early\n", "b": "2026-11-20 08:00:09 RuntimeError: CUDA out of memory\n"},
        ("b", "2026-11-20 08:00:09 RuntimeError: CUDA out of memory"),
    ),
    "a-long-traceback-is-shown-to-its-exception": (
        {"a": "\n".join(["step 1", *TRACE, "step 2", ""])},
        ("a", TRACE[-1]),
    ),
}


async def _filled(directory: Path, logs: dict[str, str]) -> None:
    async with LocalStore(directory, "memory") as store:
        for site, text in logs.items():
            appender = await store.appender(StreamId(RUN, site, "log.txt"), b"producer")
            await appender.append(0, text.encode())
            await appender.close()


async def _page(directory: Path) -> tuple[str, str]:
    looked, origin = trouble._Look(), StoreOrigin(directory)
    async with origin:
        await trouble.Troubles()._seen(looked, origin, RUN, 0)
    assert looked.first is not None
    return looked.first["stream"]["site"], looked.first["text"]


async def _report(directory: Path) -> tuple[str, list[str]]:
    async with StoreOrigin(directory) as origin:
        first = (await gather(origin, RUN, lambda stream, now: Stamps(UTC, now))).first
    assert first is not None
    return first.stream.site, [text for text, wrong in first.lines if wrong]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_viewer_shows_the_same_first_error(tmp_path: Path, case: tuple[dict[str, str], tuple[str, str]]) -> None:
    logs, (site, text) = case
    asyncio.run(_filled(tmp_path, logs))
    assert asyncio.run(_page(tmp_path)) == (site, text)
    where, wrong = asyncio.run(_report(tmp_path))
    assert (where, wrong[-1]) == (site, text)
    shown = CliRunner().invoke(
        main, ["logs", RUN, "--store", str(tmp_path), "--first-error", "-C", "1"], catch_exceptions=False
    )
    assert f"{site}/log.txt │ {text}" in shown.output.splitlines()
