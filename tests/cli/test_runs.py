"""The table of ``flarelog runs``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from flarelog.cli import main
from flarelog.exit_marks import Exit
from flarelog.model import Generation, Receipt, StreamId
from flarelog.stores.local.store import LocalStore


def test_a_command_of_which_no_end_is_known_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def fill() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            for run, token, log in [
                *(("run-1", "1a", log) for log in ("err.log", "out.log")),
                ("run-2", "2b", "err.log"),
                ("run-2", "2b", "out.log"),
            ]:
                appender = await store.appender(StreamId(run, "site-1", log), b"producer")
                await appender.mark(Generation(0, 0, log, 0, "fh:1", notes=f"spool:{token}:0"))
                if run == "run-2" and log == "out.log":
                    await appender.mark(Exit(0, 0, token, status=1))
                await appender.seal(Receipt(0, 0, appender.mark_count))
                await appender.close()

    asyncio.run(fill())
    main(["runs", "--store", str(tmp_path)], standalone_mode=False)
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert [row[head.index("FAILED")] for row in rows] == ["0+1?", "1"]
    main(["runs", "--store", str(tmp_path), "--json"], standalone_mode=False)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["failed"], one["unended"]) for one in found] == [(0, 1), (1, 0)]
