"""Lines bear their log's name where several logs are shown."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flarelog.cli import main
from flarelog.model import Receipt, StreamId
from flarelog.stores.local.store import LocalStore


@pytest.mark.parametrize(
    ("logs", "options", "shown"),
    [
        (["a"], [], ["hello"]),
        (["a"], ["--order", "time"], ["hello"]),
        (["a"], ["--prefix", "on"], ["site-1/a │ hello"]),
        (["a", "b"], [], ["site-1/a │ hello", "site-1/b │ hello"]),
        (["a", "b"], ["--log", "[a]"], ["hello"]),
        (["a", "b"], ["--prefix", "off"], ["hello", "hello"]),
    ],
)
def test_logs_shows_names_where_there_are_several(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], logs: list[str], options: list[str], shown: list[str]
) -> None:
    async def fill() -> None:
        async with LocalStore(tmp_path, "memory") as store:
            for log in logs:
                appender = await store.appender(StreamId("run-1", "site-1", log), b"producer")
                await appender.append(0, b"hello\n")
                await appender.sync()
                await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
                await appender.close()

    asyncio.run(fill())
    with pytest.raises(SystemExit) as ended:
        main(["logs", "run-1", "--store", str(tmp_path), "--notes", "off", *options])
    assert not ended.value.code
    assert capfd.readouterr().out.splitlines() == shown
