"""Access to every method of every route: for a stranger, under another host name, from another site, and logged in.

The table of routes is the app's own: a route without a row here fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from flarelog.errors import NotAuthenticated
from flarelog.lifecycle import RunState
from flarelog.model import Receipt, State, StreamId, StreamInfo
from flarelog.stores import choose
from flarelog.viewers.origin import StoreOrigin
from flarelog.viewers.web import files, guarding
from flarelog.viewers.web.application import app
from flarelog.viewers.web.logins import AT_ONCE, CROWD, FEW
from flarelog.viewers.web.options import WebOptions
from flarelog.viewers.web.origins import Sources
from flarelog.viewers.web.safety import HEADERS
from flarelog.viewers.web.sessions import new_key, signed
from tests.often import table

HOST = "127.0.0.1:4780"
QUERY = "?run=run-1&site=site-1&log=app.log"
NAMED = {"run": "run-1", "site": "site-1", "log": "app.log"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")

# Each route: its request, its body, and the status for a stranger and for a session.
ROUTES: dict[tuple[str, str], tuple[str, Any, int, int]] = {
    ("POST", "/api/login"): ("/api/login", {}, 401, 401),
    ("POST", "/api/logout"): ("/api/logout", {}, 401, 200),
    ("GET", "/api/me"): ("/api/me", None, 401, 200),
    ("GET", "/api/runs"): ("/api/runs", None, 401, 200),
    ("GET", "/api/run"): (f"/api/run{QUERY}", None, 401, 200),
    ("GET", "/api/first-error"): (f"/api/first-error{QUERY}", None, 401, 200),
    ("GET", "/api/findings"): (f"/api/findings{QUERY}", None, 401, 200),
    ("GET", "/api/lanes"): (f"/api/lanes{QUERY}", None, 401, 200),
    ("GET", "/api/machines"): (f"/api/machines{QUERY}", None, 401, 200),
    ("GET", "/api/curves"): (f"/api/curves{QUERY}", None, 401, 200),
    ("GET", "/api/command"): (f"/api/command{QUERY}", None, 401, 200),
    ("POST", "/api/window"): ("/api/window", {"stream": NAMED, "rows": 5}, 401, 200),
    ("POST", "/api/merged"): ("/api/merged", {"run": "run-1", "streams": [NAMED], "end": True}, 401, 200),
    ("POST", "/api/tail"): ("/api/tail", {"streams": [NAMED]}, 401, 200),
    ("POST", "/api/search"): ("/api/search", {"run": "run-1", "literals": ["line"]}, 401, 200),
    ("GET", "/api/raw"): (f"/api/raw{QUERY}", None, 401, 200),
    ("GET", "/api/archive"): ("/api/archive?run=run-1", None, 401, 200),
    ("GET", "/report/{rest:path}"): ("/report/run-1", None, 401, 200),
    ("GET", "/static/{name:path}"): ("/static/index.html", None, 200, 200),
    ("GET", "/"): ("/", None, 200, 200),
    ("GET", "/run/{rest:path}"): ("/run/run-1/site-1/app.log", None, 200, 200),
}
PUBLIC = {path for path, _, stranger, _ in ROUTES.values() if stranger == 200}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a sealed log."""

    async def write() -> None:
        async with choose.store(tmp_path / "store", "memory") as held:
            appender = await held.appender(StreamId(**NAMED), b"producer")
            await appender.append(0, b"".join(b"line %d\n" % n for n in range(100)))
            await appender.sync()
            await appender.seal(Receipt(appender.committed, appender.digest, appender.mark_count))
            await appender.close()

    asyncio.run(write())
    return tmp_path / "store"


@asynccontextmanager
async def page(store: Path, **options: Any) -> AsyncGenerator[tuple[Any, bytes], None]:
    """The app, and the key of its logins."""
    key = new_key()
    made = app(Sources(str(store), lambda: StoreOrigin(store)), WebOptions(**options), key)
    inner: Any = made._app
    async with inner.router.lifespan_context(inner):
        yield made, key


def browser(made: Any, host: str = HOST, **headers: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url=f"http://{host}", headers=headers)


@asynccontextmanager
async def logged_in(made: Any, key: bytes) -> AsyncGenerator[httpx.AsyncClient, None]:
    async with browser(made) as client:
        answer = await client.post("/api/login", json={"secret": signed(key, time.time())})
        assert answer.status_code == 200, answer.text
        yield client


def played(store: Path, play: Callable[[Any, bytes], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with page(store, **options) as (made, key):
            await play(made, key)

    asyncio.run(run())


async def asked(client: httpx.AsyncClient, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    content = None if body is None else json.dumps(body).encode()
    kind = {} if body is None else {"content-type": "application/json"}
    return await client.request(method, path, content=content, headers={**kind, **headers})


def test_the_table_has_each_route_of_the_app(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        routes = {(method, route.path) for route in made._app.routes for method in route.methods - {"HEAD"}}
        assert routes == set(ROUTES)

    played(store, play)


def test_a_stranger_gets_the_page_and_nothing_else(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with browser(made) as client:
            for (method, _), (path, body, stranger, _) in ROUTES.items():
                if path == "/api/login":
                    continue  # its late answer is tested with real processes
                answer = await asked(client, method, path, body)
                assert answer.status_code == stranger, (method, path)

    played(store, play)


def test_a_session_gets_what_the_table_says(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        for (method, _), (path, body, _, session) in ROUTES.items():
            if path == "/api/login":
                continue
            async with logged_in(made, key) as client:
                answer = await asked(client, method, path, body)
                assert answer.status_code == session, (method, path, answer.text)

    played(store, play)


def test_a_run_is_listed_from_when_its_page_is_opened_for_a_session_alone(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, streams = asyncio.Event(), StoreOrigin.streams

    async def counted(self: StoreOrigin, *args: Any, **how: Any) -> Any:
        begun.set()
        return await streams(self, *args, **how)

    monkeypatch.setattr(StoreOrigin, "streams", counted)

    async def play(made: Any, key: bytes) -> None:
        async with browser(made) as stranger, logged_in(made, key) as client:
            assert (await stranger.get("/run/run-1")).status_code == 200
            assert (await client.get("/run/run-1/site-1/app.log")).status_code == 200
            assert (await client.get("/run/%00")).status_code == 200
            for _ in range(10):
                await asyncio.sleep(0)
            assert not begun.is_set()
            assert (await client.get("/run/run-1")).status_code == 200
            async with asyncio.timeout(30):
                await begun.wait()

    played(store, play)


@pytest.mark.parametrize("method", METHODS)
def test_no_other_method_is_known_anywhere(store: Path, method: str) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            for (known, _), (path, _, _, _) in ROUTES.items():
                if method == known or (method, known) == ("HEAD", "GET"):
                    continue
                answer = await asked(client, method, path, {} if method == "POST" else None)
                assert answer.status_code == 405, (method, path)
            assert (await client.get("/api/me")).status_code == 200

    played(store, play)


@pytest.mark.parametrize(
    ("method", "host"),
    table(METHODS, ["evil.example", "evil.example:4780", "127.0.0.1:4781", "127.0.0.1.evil.example:4780"]),
)
def test_by_another_name_nothing_is_answered(store: Path, method: str, host: str) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client, browser(made, host) as other:
            for path, body, _, _ in ROUTES.values():
                for each in (other, client):
                    answer = await asked(each, method, path, body, host=host)
                    assert answer.status_code == 421, (method, path)

    played(store, play)


CROSS = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "same-origin", "origin": "http://evil.example"},
]


@pytest.mark.parametrize("headers", CROSS, ids=lambda headers: " ".join(headers.values()))
def test_another_sites_page_gets_nothing(store: Path, headers: dict[str, str]) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            for (method, _), (path, body, _, _) in ROUTES.items():
                for other in {method, "DELETE", "GET", "POST"}:
                    answer = await asked(client, other, path, body, **headers)
                    assert answer.status_code in ((405,) if other == "DELETE" else (403,)), (other, path)
            assert (await client.get("/api/me")).status_code == 200

    played(store, play)


def test_an_address_that_a_person_typed_is_opened(store: Path) -> None:
    typed = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}

    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            for path, status in ((f"/api/raw{QUERY}", 200), ("/api/archive?run=run-1", 200), ("/api/zzz", 404)):
                answer = await asked(client, "GET", path, accept="text/html", **typed)
                assert answer.status_code == status
            assert "There is no such address on this page" in answer.text
            assert (await asked(client, "POST", "/api/logout", {}, **typed)).status_code == 403

    played(store, play)


@pytest.mark.parametrize(
    ("method", "path", "host", "status"),
    [("GET", "*", HOST, 400), ("GET", "foo", HOST, 400), ("OPTIONS", "*", HOST, 405), ("GET", "*", "evil", 421)],
)
def test_a_target_that_is_no_path_is_answered_as_any_other_mistake(
    store: Path, method: str, path: str, host: str, status: int
) -> None:
    async def play(made: Any, key: bytes) -> None:
        said: list[Any] = []
        scope = {"type": "http", "method": method, "path": path, "headers": [(b"host", host.encode())], "state": {}}

        async def receive() -> Any:
            return {"type": "http.request"}

        async def send(message: Any) -> None:
            said.append(message)

        await made(scope, receive, send)
        assert said[0]["status"] == status

    played(store, play)


def test_a_body_that_does_not_come_ends_its_request(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "BODY", 0.01)

    async def play(made: Any, key: bytes) -> None:
        async def parts() -> AsyncGenerator[bytes, None]:
            yield b"{"
            await asyncio.Event().wait()

        async with browser(made) as client:
            json_ = {"content-type": "application/json"}
            async with asyncio.timeout(10):
                assert (await client.post("/api/login", content=parts(), headers=json_)).status_code == 400

    played(store, play)


def test_a_link_opens_the_page_and_no_data(store: Path) -> None:
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}

    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            for path, (status) in (("/", 200), ("/run/run-1", 200), ("/api/me", 403), (f"/api/raw{QUERY}", 403)):
                assert (await asked(client, "GET", path, **link)).status_code == status
            assert (await asked(client, "POST", "/", {}, **link)).status_code == 403

    played(store, play)


def test_each_answer_says_what_a_browser_may_do_with_it(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            for (method, _), (path, body, _, _) in ROUTES.items():
                if path in ("/api/logout", "/api/login"):
                    continue
                for each in (method, "DELETE"):
                    answer = await asked(client, each, path, body)
                    for name, value in HEADERS.items():
                        own = (name == "cache-control" and path in PUBLIC) or (
                            name == "content-security-policy" and path == "/report/run-1"
                        )
                        assert answer.headers[name] == value or own
                    assert "server" not in answer.headers
                    assert "access-control-allow-origin" not in answer.headers
            raw = await client.get(f"/api/raw{QUERY}")
            assert raw.headers["content-disposition"].startswith("attachment;")
            assert raw.headers["content-type"] == "application/octet-stream"

    played(store, play)


def test_only_json_is_taken_and_not_much_of_it(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
                answer = await client.post("/api/window", content=b"{}", headers={"content-type": kind})
                assert answer.status_code == 415
            json_ = {"content-type": "application/json"}
            bodies = (b"", b"[]", b"nul", b'"x"', b"\xff", b"[" * 5000, b'{"stream": 1}', b'{"stream": {"run": 1}}')
            for body in bodies:
                assert (await client.post("/api/window", content=body, headers=json_)).status_code == 400, body
            large = b'{"x": "' + b"x" * (1 << 17) + b'"}'
            assert (await client.post("/api/window", content=large, headers=json_)).status_code == 413

            async def parts() -> AsyncGenerator[bytes, None]:
                for _ in range(40):
                    yield b" " * 4096

            assert (await client.post("/api/window", content=parts(), headers=json_)).status_code == 400

    played(store, play)


OF_A_FILE = ("a\nb", "\u202ea", "x" * 300, "a b")  # names that a file may have


@pytest.mark.parametrize(
    "name", ["..", "../..", "a/../b", "/etc/passwd", "a\0b", "a\nb", "\u202ea", "x" * 300, "", ".", "a b", "\ud800"]
)
def test_a_name_that_is_none_is_a_sentence(store: Path, name: str) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            for part in NAMED:
                answer = await asked(client, "POST", "/api/window", {"stream": {**NAMED, part: name}})
                assert answer.status_code == (404 if part == "log" and name in OF_A_FILE else 400), (part, answer.text)
                assert "\n" not in answer.json()["error"]
            answer = await asked(client, "POST", "/api/search", {"run": name, "literals": ["x"]})
            assert answer.status_code == 400

    played(store, play)


@pytest.mark.parametrize(
    "path", ["/static/../../setup.cfg", "/static/..%2f..%2fsetup.cfg", "/static//etc/passwd", "/x"]
)
def test_no_path_leads_out_of_the_page(store: Path, path: str) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with browser(made) as client:
            assert (await client.get(path)).status_code == 404

    played(store, play)


def test_a_run_is_told_of_the_sites_that_are_named(store: Path) -> None:
    run, site = store / NAMED["run"], NAMED["site"]
    for other in ("a-site", "b-site"):
        shutil.copytree(run / site, run / other)

    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            found = {}
            for sites in ((), ("b-site",), (site, "a-site"), ("none",), ("none", "a-site")):
                answer = await client.get("/api/run", params=[("run", NAMED["run"]), *(("site", one) for one in sites)])
                found[sites] = [one["site"] for one in answer.json().get("sites", [])], answer.status_code
            assert found == {
                (): (sorted([site, "a-site", "b-site"]), 200),
                ("b-site",): (["b-site"], 200),
                (site, "a-site"): (sorted([site, "a-site"]), 200),
                ("none",): ([], 404),
                ("none", "a-site"): (["a-site"], 200),
            }

    played(store, play)


def test_a_log_that_does_not_exist_and_a_run_that_does_not_are_told_apart(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            for run, log, told in (("run-1", "b.log", {}), ("run-2", "app.log", {"run": False})):
                answer = await client.post("/api/window", json={"stream": NAMED | {"run": run, "log": log}, "rows": 5})
                assert answer.status_code == 404
                assert {name: value for name, value in answer.json().items() if name != "error"} == told
            answer = await client.get("/api/run", params={"run": "run-2"})
            assert (answer.status_code, answer.json()["run"]) == (404, False)

    played(store, play)


def test_who_looked_at_a_log_gets_nothing_of_another_one_that_has_its_name_now(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client:
            begun = (await asked(client, "POST", "/api/window", {"stream": NAMED})).json()["stream"]["begun"]
            statuses = {}
            for when in (begun, begun + 1, 0):
                log = {**NAMED, "begun": when}
                merged, tail = {"run": NAMED["run"], "streams": [log]}, {"streams": [{**log, "from": 0}]}
                answers = [
                    await asked(client, "POST", "/api/window", {"stream": log}),
                    await asked(client, "POST", "/api/merged", merged),
                    await asked(client, "POST", "/api/tail", tail),
                    await asked(client, "GET", f"/api/raw{QUERY}&begun={when}"),
                ]
                statuses[when] = [answer.status_code for answer in answers]
            assert statuses == {begun: [200] * 4, begun + 1: [410] * 4, 0: [200] * 4}
            said = (await asked(client, "POST", "/api/window", {"stream": {**NAMED, "begun": 1}})).json()["error"]
            assert said == "run-1/site-1/app.log was removed and begun anew: its earlier bytes are gone"

    played(store, play)


def test_a_browser_keeps_the_files_of_this_version_and_asks_for_the_page(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with browser(made) as client:
            page = await client.get("/")
            named = re.findall(r'"(/static/[^"]+)"', page.text)
            assert sorted(name.rpartition("/")[2] for name in named) == ["icon.svg", "page.css", "page.js"]
            ages = {}
            for path in (named[0], re.sub(r"/[0-9a-f]{20}/", f"/{'0' * 20}/", named[0]), "/static/app.js", "/"):
                answer = await client.get(path)
                ages[answer.status_code, answer.headers["cache-control"]] = path
            assert ages == {(200, files.FOR_EVER): named[0], (200, "no-cache"): "/"}
            assert {(await client.get(path)).headers["cache-control"] for path in named} == {files.FOR_EVER}
            again = await client.get("/", headers={"if-none-match": page.headers["etag"]})
            assert (again.status_code, again.headers["cache-control"]) == (304, "no-cache")
            assert (await client.get(f"/static/{'0' * 20}/nothing.js")).status_code == 404

    played(store, play)


def test_the_files_of_the_page_are_known_beforehand() -> None:
    assert files.INDEX in files.files()


def test_behind_a_proxy_no_header_means_no_rights(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with browser(made, "logs.example") as client:
            assert (await client.get("/")).status_code == 403
            assert (await client.get("/", headers={"x-forwarded-proto": "http"})).status_code == 403
            https = {"x-forwarded-proto": "https"}
            answer = await asked(client, "POST", "/api/login", {"secret": signed(key, time.time())}, **https)
            set_ = answer.headers["set-cookie"]
            assert set_.startswith("__Host-flarelog=")
            assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in set_.split(";")}
        async with browser(made) as client:
            assert (await client.get("/", headers=https)).status_code == 421

    played(store, play, trust_proxy=True, hosts=("logs.example",))


class Waiting(StoreOrigin):
    """A receiver that does not answer: its calls end with the connection."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.call: asyncio.Future[RunState] | None = None

    async def state(self, run: str) -> RunState:
        self.call = asyncio.get_running_loop().create_future()
        return await self.call

    async def __aexit__(self, *what: object) -> None:
        if self.call is not None:
            self.call.cancel()


def test_a_login_that_ends_while_a_receiver_is_asked_is_what_the_answer_tells(store: Path) -> None:
    async def play() -> None:
        key, origin = new_key(), Waiting(store)
        made = app(Sources(str(store), lambda: origin), WebOptions(), key)
        inner: Any = made._app
        async with inner.router.lifespan_context(inner), logged_in(made, key) as client:
            asking = asyncio.create_task(client.get("/api/run", params={"run": "run-1"}))
            while origin.call is None:
                await asyncio.sleep(0)
            await asked(client, "POST", "/api/logout", {})
            answer = await asking
            assert (answer.status_code, answer.json()) == (401, {"error": "the login has ended: log in again"})

    asyncio.run(play())


class Crowded(StoreOrigin):
    """A receiver that answers no question about a run until it is told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.answers = asyncio.Event()

    async def state(self, run: str) -> RunState:
        await self.answers.wait()
        return await super().state(run)


def test_requests_of_one_login_leave_room_for_those_of_others(store: Path) -> None:
    async def play() -> None:
        key, origin = new_key(), Crowded(store)
        made = app(Sources(str(store), lambda: origin), WebOptions(), key)
        inner: Any = made._app
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(inner.router.lifespan_context(inner))
            clients = [await stack.enter_async_context(logged_in(made, key)) for _ in range(8)]
            asking = [
                asyncio.create_task(client.get("/api/run", params={"run": "run-1"}))
                for client in clients[:-1]
                for _ in range(2 * AT_ONCE)
            ]
            refused: list[asyncio.Task[httpx.Response]] = []
            async with asyncio.timeout(20):
                while len(refused) < len(asking) - CROWD - 3 * FEW:
                    await asyncio.sleep(0)
                    refused = [task for task in asking if task.done()]
            assert {task.result().status_code for task in refused} == {429}
            assert "requests are under way with this login already" in refused[0].result().json()["error"]
            late = [asyncio.create_task(clients[-1].get("/api/run", params={"run": "run-1"})) for _ in range(FEW)]
            assert (await asyncio.gather(*(client.get("/api/me") for client in clients)))[0].status_code == 429
            origin.answers.set()
            assert {answer.status_code for answer in await asyncio.gather(*late)} == {200}
            assert {answer.status_code for answer in await asyncio.gather(*asking)} == {200, 429}
            assert (await clients[0].get("/api/me")).status_code == 200  # its share is free again

    asyncio.run(play())


class Revoked(StoreOrigin):
    """A receiver that no longer knows the token of a reader that it knew at the login."""

    async def state(self, run: str) -> RunState:
        raise NotAuthenticated("the token is unknown")


def test_a_token_that_the_receiver_refuses_ends_its_sessions_at_once(store: Path) -> None:
    async def play() -> None:
        key = new_key()
        made = app(Sources(str(store), lambda: Revoked(store), lambda token: Revoked(store)), WebOptions(), key)
        inner: Any = made._app
        async with inner.router.lifespan_context(inner), browser(made) as first, browser(made) as second:
            for client in (first, second):
                assert (await asked(client, "POST", "/api/login", {"token": "t"})).status_code == 200
            answer = await first.get("/api/run", params={"run": "run-1"})
            assert (answer.status_code, answer.json()) == (401, {"error": "the login has ended: log in again"})
            assert (await second.get("/api/me")).status_code == 401
            async with logged_in(made, key) as own:  # the page's own rights: a login would get it no others
                assert (await own.get("/api/run", params={"run": "run-1"})).status_code == 403
                assert (await own.get("/api/me")).status_code == 200

    asyncio.run(play())


class Skewed(StoreOrigin):
    """A receiver that has measured a clock an hour ahead."""

    async def streams(self, run: str, *sites: Any, **more: Any) -> list[StreamInfo]:
        return [replace(info, state=State(skew=3600.0)) for info in await super().streams(run, *sites, **more)]


def test_logs_merged_by_time_come_with_a_sentence_of_a_clock_that_differs(store: Path) -> None:
    async def play() -> None:
        key = new_key()
        made = app(Sources(str(store), lambda: Skewed(store)), WebOptions(), key)
        inner: Any = made._app
        async with inner.router.lifespan_context(inner), logged_in(made, key) as client:
            for order, told in (("time", 1), ("arrival", 0)):
                wanted = {"run": "run-1", "streams": [NAMED], "order": order, "end": True}
                clocks = (await asked(client, "POST", "/api/merged", wanted)).json()["clocks"]
                assert len(clocks) == told
            wanted = {"run": "run-1", "rank": 7, "end": True}
            answer = await asked(client, "POST", "/api/merged", wanted)
            assert (answer.status_code, answer.json()) == (404, {"error": "no log of run run-1 is of rank 7"})

    asyncio.run(play())


def test_logs_side_by_side_are_opened_at_a_time_by_the_receivers_clock(tmp_path: Path) -> None:
    lines = [f"2026-11-20 08:{n:02}:00 line {n}\n".encode() for n in range(60)] + [b"2026-11-20 09:00:00 line 60\n"]
    eight = 1_795_161_600_000  # 2026-11-20 08:00:00
    assert time.gmtime(eight // 1000)[:4] == (2026, 11, 20, 8)

    async def play() -> None:
        async with choose.store(tmp_path, "memory") as held:
            appender = await held.appender(StreamId(**NAMED), b"producer")
            await appender.append(0, b"".join(lines))
            await appender.sync()
            await appender.close()
        key = new_key()
        made = app(Sources(str(tmp_path), lambda: Skewed(tmp_path)), WebOptions(), key)
        inner: Any = made._app
        async with inner.router.lifespan_context(inner), logged_in(made, key) as client:
            for shared, minutes, at, ahead in ((True, -30, 30, 3_600_000), (False, 30, 30, 0)):
                wanted = {"stream": NAMED, "time": eight + 60_000 * minutes, "rows": 1, "shared": shared}
                found = (await asked(client, "POST", "/api/window", wanted)).json()
                assert (found["rows"][0][3][20:], found["ahead"]) == (f"line {at}", ahead)
                assert len(found["clocks"]) == shared

    asyncio.run(play())


def test_a_cookie_that_another_server_of_the_host_has_set_ends_no_login(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client, logged_in(made, key) as other, browser(made) as bare:
            mine, theirs = (f"flarelog-4780={one.cookies['flarelog-4780']}" for one in (client, other))
            for given, status in (
                (f"flarelog-4780=x; {mine}", 200),
                (f"{mine}; flarelog-4780=x; flarelog-4780=", 200),
                (f"{mine}; {mine}", 200),
                (f"{mine}; {theirs}", 401),  # whose login it is cannot be known
            ):
                assert (await bare.get("/api/me", headers={"cookie": given})).status_code == status, given

    played(store, play)


def test_a_cookie_ends_with_its_session(store: Path) -> None:
    async def play(made: Any, key: bytes) -> None:
        async with logged_in(made, key) as client, logged_in(made, key) as other:
            cookie = client.cookies["flarelog-4780"]
            assert (await asked(client, "POST", "/api/logout", {})).status_code == 200
            client.cookies.set("flarelog-4780", cookie)
            assert (await client.get("/api/me")).status_code == 401
            assert (await other.get("/api/me")).status_code == 200

    played(store, play)
