"""The report over HTTP: it is the command's file, with a policy that lets it do nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flarelog.cli.report import made, utc
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.report.gather import gather
from flarelog.viewers.web import reports
from tests.viewers.web.test_archive import Held, with_client


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path / "store")


def test_it_is_the_file_of_the_command(held: Held) -> None:
    async def play(client: Any) -> None:
        opened = await client.get("/report/run-1")
        saved = await client.get("/report/run-1?download")
        async with StoreOrigin(held.root) as origin:
            assert opened.content == saved.content == made(await gather(origin, "run-1", utc), "html")
        policy = opened.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert policy.endswith("; frame-ancestors 'none'; sandbox")
        assert policy.partition("; frame-ancestors")[0] in opened.text.replace("&#x27;", "'")
        assert opened.headers["content-type"] == "text/html; charset=utf-8"
        assert "content-disposition" not in opened.headers
        assert saved.headers["content-disposition"].startswith('attachment; filename="run-1.html"')

    with_client(held, play)


@pytest.mark.parametrize(("path", "status"), [("run-2", 404), ("%3Cb%3E", 400), ("run-1/site-1", 400)], ids=str)
def test_what_cannot_be_reported_is_a_page_for_people_and_names_nothing_raw(held: Held, path: str, status: int) -> None:
    async def play(client: Any) -> None:
        answer = await client.get(f"/report/{path}", headers={"accept": "text/html"})
        assert answer.status_code == status
        assert answer.headers["content-type"].startswith("text/html")
        assert "<b>" not in answer.text
        answer = await client.get(f"/report/{path}")
        assert answer.json()["error"]

    with_client(held, play)


def test_a_report_that_takes_long_is_given_up(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(reports, "gather", never)
    monkeypatch.setattr(reports, "LONGEST", 0.01)

    async def play(client: Any) -> None:
        answer = await client.get("/report/run-1")
        assert answer.status_code == 503
        assert "flarelog report run-1 -o run-1.html" in answer.json()["error"]

    with_client(held, play)
