"""Access to the page: links and tokens, their rights, and their end."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from flarelog.viewers.web.serving import CONNECTIONS
from integration.harness.pages import STREAM, Page, closing, tailing
from integration.harness.places import RUN, SITE, Place, Receiver, append, free_address, lines, until
from tests.certificates import Authority


@pytest.fixture(autouse=True)
def closed(place: Place) -> Iterator[None]:
    with closing(place):
        yield


@pytest.fixture
def receiver(place: Place) -> Receiver:
    """A receiver with a port for readers, and a log of two running runs."""
    ca = Authority.new(place.directory / "certs")
    own = ca.issue("receiver", hosts=("127.0.0.1", "localhost"))
    receiver = place.serve(
        *("--tls-ca", own.ca, "--tls-cert", own.cert, "--tls-key", own.key, "--reader-listen", "127.0.0.1:0")
    )
    tls = ca.issue(SITE)
    ca.issue("ada", units=("reader",))
    append(place.log, b"begin\n")
    for run in (RUN, "other"):
        place.sidecar(receiver, "--tls-ca", tls.ca, "--tls-cert", tls.cert, "--tls-key", tls.key, run=run)
        receiver.gets(b"begin\n", run=run)
    return receiver


def page_of(place: Place, receiver: Receiver, *args: str) -> Page:
    ca = str(place.directory / "certs" / "ca.crt")
    return Page(place, "--receiver", receiver.reader_address, "--tls-ca", ca, *args)


def token(place: Place, name: str, *runs: str) -> tuple[str, str]:
    """The id and the secret of a new token."""
    file = place.token(name, *(part for run in runs for part in ("--runs", run)))
    (id,) = [r["id"] for r in place.call("token", "list", "--store", "store", "--json").records() if r["name"] == name]
    return id, file.read_text().strip()


def status(client: httpx.Client, run: str) -> int:
    return client.get("/api/run", params={"run": run}).status_code


def test_a_person_sees_what_the_token_may_read(place: Place, receiver: Receiver) -> None:
    page = page_of(place, receiver)
    all_, one = page.browser(token(place, "all")[1]), page.browser(token(place, "one", RUN)[1])
    assert {run["run"] for run in all_.get("/api/runs").json()["runs"]} == {RUN, "other"}
    assert {run["run"] for run in one.get("/api/runs").json()["runs"]} == {RUN}
    assert [status(all_, run) for run in (RUN, "other")] == [200, 200]
    assert (status(one, RUN), status(one, "other")) == (200, 403)
    other = {**STREAM, "run": "other"}
    with tailing(all_, other) as tail:  # the log has a feed now
        until(lambda: tail.at, "it is there")
        append(place.log, b"more\n")
        until(lambda: tail.texts() == ["more"], "whoever may gets it")
        for path, body in (
            ("/api/window", {"stream": other, "rows": 5}),
            ("/api/tail", {"streams": [{**other, "from": 0}]}),
            ("/api/search", {"run": "other", "literals": ["begin"]}),
            ("/api/merged", {"run": "other", "streams": [other], "end": True}),
        ):
            assert one.post(path, json=body).status_code == 403, path
        assert one.get("/api/raw", params=other).status_code == 403
        assert one.get("/api/findings", params=other).status_code == 403


def test_a_revoked_token_ends_its_session_in_mid_stream_and_nobody_elses(place: Place, receiver: Receiver) -> None:
    page = page_of(place, receiver)
    (first_id, first), (_, second) = token(place, "first"), token(place, "second")
    revoked, stays = page.browser(first), page.browser(second)
    with tailing(revoked, {**STREAM, "from": 0}) as ended, tailing(stays, {**STREAM, "from": 0}) as going:
        until(lambda: (ended.texts(), going.texts()) == (["begin"], ["begin"]), "both get it")
        place.call("token", "revoke", first_id, "--store", "store")
        began = time.monotonic()
        until(lambda: ended.ended, "the tail ends")
        assert time.monotonic() - began < 30
        append(place.log, b"secret\n")
        until(lambda: going.texts() == ["begin", "secret"], "the other one goes on")
        assert ended.texts() == ["begin"]
    until(lambda: revoked.get("/api/me").status_code == 401, "the page asks the receiver again, and ends the session")
    assert stays.get("/api/me").status_code == 200
    assert page.stranger().post("/api/login", json={"token": first}).status_code == 401


@pytest.mark.soak
def test_a_look_whether_a_login_still_holds_is_no_refusal_in_the_audit(place: Place, receiver: Receiver) -> None:
    own = place.token("page", "--runs", RUN)
    page = page_of(place, receiver, "--token-file", str(own))
    assert page.stranger().post("/api/login", json={"secret": page.secret()}).status_code == 200
    id, secret = token(place, "one", RUN)
    one = page.browser(secret)
    receiver.program.says('"action": "LIST", "run": ""', times=2)  # both logins were checked
    assert "refused" not in receiver.program.said
    began = time.monotonic()
    place.call("token", "revoke", id, "--store", "store")
    until(lambda: one.get("/api/me").status_code == 401, "its session ends")
    assert time.monotonic() - began < 20
    assert receiver.program.said.count("refused") == 1


def test_a_link_logs_in_once_and_wrong_ones_are_answered_late(place: Place) -> None:
    receiver = place.serve()
    page = Page(place, "--receiver", receiver.address, FLARELOG_LOG_LEVEL="debug")
    secret = page.secret()
    browser = page.stranger()
    assert browser.post("/api/login", json={"secret": secret}).status_code == 200
    for wrong in ({"secret": secret}, {"secret": "x"}, {"token": ""}, {}):
        began = time.monotonic()
        answer = page.stranger().post("/api/login", json=wrong)
        assert (answer.status_code, time.monotonic() - began > 0.9) == (401, True)
    answer = page.stranger().post("/api/login", json={"token": "flarelog_" + "x" * 43})
    assert answer.status_code in (400, 401, 403)
    browser.post("/api/search", json={"run": "run-1", "literals": ["needle-in-a-haystack"]})
    browser.get("/api/raw", params={**STREAM, "run": "hidden-run"})
    page.program.says("/api/raw")
    said = page.program.said
    assert re.search(r"POST /api/login 200 \d+ bytes", said)
    (cookie,) = browser.cookies.values()
    assert all(text not in said for text in (secret, cookie, "needle", "hidden-run"))


def test_another_user_of_the_machine_has_no_key(place: Place) -> None:
    page = Page(place, "--receiver", place.serve().address)
    key = next((place.directory / "runtime" / "flarelog").glob("*.key"))
    assert key.stat().st_mode & 0o077 == 0
    gone = place.call("web", "login", "--listen", "127.0.0.1:1", XDG_RUNTIME_DIR=str(place.directory / "runtime"))
    assert (gone.process.returncode, "no page" in gone.sentence()) == (3, True)
    page.program.tell(signal.SIGTERM)
    assert page.program.ends() == 0
    assert not key.exists()


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        pytest.param(["--store", "s", "--listen", "0.0.0.0:0"], 2, "--trust-proxy", id="not-on-loopback"),
        pytest.param(
            ["--store", "s", "--trust-proxy"], 2, "--host", id="behind-a-proxy-without-a-name", marks=pytest.mark.soak
        ),
        pytest.param(["--store", "s"], 3, "there is no store at s", id="no-store"),
        pytest.param([], 2, "no place was given", id="nowhere", marks=pytest.mark.soak),
        pytest.param(["--store", "s", "--listen", "x"], 2, "HOST:PORT", id="no-address"),
    ],
)
def test_a_page_that_cannot_be_says_why(place: Place, args: list[str], code: int, says: str) -> None:
    program = place.call("web", *args)
    assert (program.process.returncode, says in program.sentence()) == (code, True), program.talk()


def test_two_pages_do_not_share_an_address(place: Place) -> None:
    receiver = place.serve()
    page = Page(place, "--receiver", receiver.address)
    other = place.call("web", "--receiver", receiver.address, "--listen", page.address)
    assert (other.process.returncode, "cannot listen" in other.sentence()) == (1, True)
    page.browser()


def test_connections_without_a_login_take_no_place_that_somebody_needs(place: Place) -> None:
    page = Page(place, "--receiver", place.serve().address)
    client = page.browser()
    host, port = page.address.rsplit(":", 1)
    begun = f"GET / HTTP/1.1\r\nHost: {page.address}\r\n".encode()
    body = b"POST /api/login HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 90\r\n"
    with contextlib.ExitStack() as stack:
        for number in range(2 * CONNECTIONS):
            slow = stack.enter_context(socket.create_connection((host, int(port))))
            slow.sendall((b"", begun, body + begun[16:] + b"\r\n")[number % 3])
        assert page.stranger().get("/").status_code == 200
        assert client.get("/api/me").status_code == 200
        page.browser()  # a person can log in


@pytest.mark.soak
def test_many_windows_wait_and_many_tails_are_refused(place: Place) -> None:
    receiver = place.serve()
    append(place.log, lines(2000))
    place.once(receiver)
    append(place.log, b"more")
    client = Page(place, "--receiver", receiver.address).browser()
    live: Any = place.sidecar(receiver, run="live")
    receiver.gets(lines(2000) + b"more", run="live")
    named = {**STREAM, "run": "live"}
    with tailing(client, named) as one, tailing(client, named) as two:
        until(lambda: one.said and two.said, "both are there")
        answer = client.post("/api/tail", json={"streams": [named]})
        assert (answer.status_code, "2 tabs follow logs" in answer.json()["error"]) == (429, True)
    assert live.process.poll() is None


def test_a_receivers_own_page_begins_and_ends_with_it(place: Place) -> None:
    address = free_address()
    runtime: dict[str, Any] = {"XDG_RUNTIME_DIR": str(place.directory / "runtime")}
    receiver = place.serve("--web", address, **runtime)
    receiver.program.says(f"the page is at http://{address}/ and flarelog web login --listen {address} prints a login")
    append(place.log, lines(10))
    place.once(receiver)

    def secret() -> str:
        login = place.call("web", "login", "--listen", address, **runtime)
        return login.printed.strip().partition("#login=")[2]

    with httpx.Client(base_url=f"http://{address}") as client:
        assert client.post("/api/login", json={"secret": secret()}).status_code == 200
        assert [run["run"] for run in client.get("/api/runs").json()["runs"]] == [RUN]
        receiver.program.kill()  # without time to clean up
        until(lambda: gone(client), "the page ends with it")
    again = place.serve("--web", address, store=receiver.store, **runtime)
    again.program.says("the page is at")
    assert again.stop() == 0
    with httpx.Client(base_url=f"http://{address}") as client:
        assert gone(client)
    assert again.program.complaints() == []


@pytest.mark.soak
def test_the_page_of_a_receiver_with_tls_reads_with_a_token_that_ends_with_it(place: Place, receiver: Receiver) -> None:
    receiver.stop()
    address, args = free_address(), [str(one) for one in receiver.program.args]
    runtime: dict[str, Any] = {"XDG_RUNTIME_DIR": str(place.directory / "runtime")}
    tls = [part for name in ("--tls-ca", "--tls-cert", "--tls-key") for part in (name, args[args.index(name) + 1])]

    def named() -> list[str]:
        return [token["name"] for token in place.call("token", "list", "--store", "store", "--json").records()]

    for killed in (True, False):  # a killed receiver leaves its token, and the next one removes it
        own = place.serve("--web", address, "--reader-listen", "127.0.0.1:0", *tls, **runtime)
        own.program.says("the page is at")
        login = place.call("web", "login", "--listen", address, **runtime).printed.strip().partition("#login=")[2]
        with httpx.Client(base_url=f"http://{address}") as client:
            assert client.post("/api/login", json={"secret": login}).status_code == 200
            assert {run["run"] for run in client.get("/api/runs").json()["runs"]} == {RUN, "other"}
            assert named() == ["serve--web"]
            if killed:
                own.program.kill()
                until(partial(gone, client), "the page ends with it")
    assert own.stop() == 0
    assert named() == []


@pytest.mark.soak
def test_a_link_to_a_page_that_may_not_read_says_so(place: Place, receiver: Receiver) -> None:
    page = page_of(place, receiver)
    answer = page.stranger().post("/api/login", json={"secret": page.secret()})
    assert (answer.status_code, "--token-file" in answer.json()["error"]) == (403, True), answer.text


def gone(client: httpx.Client) -> bool:
    return not answers(client)


def answers(client: httpx.Client) -> bool:
    try:
        client.get("/")
    except httpx.HTTPError:
        return False
    return True


def test_a_receiver_with_tls_wants_a_port_for_those_who_look(place: Place, receiver: Receiver) -> None:
    tls = ("--tls-ca", "--tls-cert", "--tls-key")
    args = receiver.program.args
    own = [part for name in tls for part in (name, args[args.index(name) + 1])]
    program = place.call("serve", "--store", "s2", "--listen", "127.0.0.1:0", "--web", "127.0.0.1:0", *own)
    assert (program.process.returncode, "--reader-listen" in program.sentence()) == (2, True)


@pytest.mark.parametrize("port", ["main", pytest.param("readers", marks=pytest.mark.soak)])
def test_a_page_with_a_certificate_lends_it_to_nobody_who_gives_a_token(
    place: Place, receiver: Receiver, port: str
) -> None:
    certs = place.directory / "certs"
    own = ("--tls-ca", certs / "ca.crt", "--tls-cert", certs / "ada.crt", "--tls-key", certs / "ada.key")
    address = receiver.address if port == "main" else receiver.reader_address
    page = Page(place, "--receiver", address, *map(str, own))
    if port == "main":
        own_login = page.stranger()
        assert own_login.post("/api/login", json={"secret": page.secret()}).status_code == 200
        assert {run["run"] for run in own_login.get("/api/runs").json()["runs"]} == {RUN, "other"}
    for word in ("hello", "flarelog_" + "x" * 43):
        answer = page.stranger().post("/api/login", json={"token": word})
        assert answer.status_code == 401, answer.text
    answer = page.stranger().post("/api/login", json={"token": token(place, "one", RUN)[1]})
    assert (answer.status_code, "flarelog web login" in answer.text) == (
        (401, True) if port == "main" else (200, False)
    )
