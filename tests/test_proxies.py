"""Which way a receiver is reached: through a proxy, past one, or without any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flarelog.errors import InvalidOption
from flarelog.proxies import Proxy, Route, route
from tests.rows import together

FAR = "logs.hospital.example:4721"
SET: dict[str, Any] = {"http_proxy": "http://p.example:3128"}
USED = "http_proxy=http://p.example:3128"


def through(address: str = FAR, asked: str = "", hosts: Path | str = "/dev/null", **environ: str) -> str:
    """The proxy of the way to *address*; empty: there is none."""
    way = route(address, asked, environ, str(hosts))
    return str(way.proxy) if way.proxy is not None else ""


@together(
    ("environ", "proxy"),
    [
        ({}, ""),
        (SET, USED),
        ({"https_proxy": "http://s.example", **SET}, "https_proxy=http://s.example:80"),
        ({"grpc_proxy": "g.example:1", "https_proxy": "http://s.example", **SET}, "grpc_proxy=http://g.example:1"),
        ({"HTTPS_PROXY": "http://s.example:8080/"}, "HTTPS_PROXY=http://s.example:8080"),
        ({"grpc_proxy": "", **SET}, ""),  # an empty variable turns the proxy off, as in gRPC
        ({"https_proxy": "http://[fd77::1]:3128"}, "https_proxy=http://[fd77::1]:3128"),
        ({"https_proxy": "socks5h://s.example:1080", **SET}, ""),
        ({"https_proxy": "https://s.example", **SET}, ""),
        ({"https_proxy": "http://s.example:99999"}, ""),
        ({"https_proxy": "what is this"}, ""),
    ],
)
def test_the_first_variable_that_is_set_names_the_proxy(environ: dict[str, Any], proxy: str) -> None:
    assert through(**environ) == proxy


@together(
    ("url", "login", "sent"),
    [
        ("http://ann:pw@p:1", "ann:pw", "http://ann:pw@p:1"),
        ("http://HOSP%5Cann:p%40w@p:1", "HOSP\\ann:p@w", "http://HOSP%5Cann:p%40w@p:1"),
        ("ann:p@w/%25@p:1", "ann:p@w/%", "http://ann:p%40w%2F%25@p:1"),
        ("http://p:1", "", "http://p:1"),
    ],
)
def test_a_login_is_sent_to_the_proxy_and_never_shown(url: str, login: str, sent: str) -> None:
    proxy = route(FAR, environ={"https_proxy": url}).proxy
    assert proxy is not None
    assert (proxy.login, proxy.url) == (login, sent)
    assert str(proxy) == "https_proxy=http://p:1"


@together(
    "host",
    ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "localhost.", "a.localhost", "[::1]", "0.0.0.0", "[::]"],
)
def test_this_machine_is_never_reached_through_a_proxy(host: str) -> None:
    for asked in ("", "http://p.example:3128"):
        assert through(f"{host}:4721", asked, **SET) == ""
    assert "is this machine" in route(f"{host}:4721", environ=SET).note


def test_a_name_that_the_hosts_file_gives_this_machine_is_this_machine(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(
        "127.0.0.1 localhost\n# 127.0.0.1 far\n127.0.1.1\tnode-7.example Node-7 # this host\n::1 six\n"
        "127.0.0.9 two\n127.0.0.1 two\n127.0.0.1 both\n10.0.0.1 both\n10.0.0.2 far\n"
    )
    direct = {name for name in ("node-7", "NODE-7.example", "six", "two") if not through(f"{name}:1", "", hosts, **SET)}
    assert direct == {"node-7", "NODE-7.example", "six", "two"}
    assert all(through(f"{name}:1", "", hosts, **SET) for name in ("both", "far", "node", "[::2]"))
    assert through("far:1", "", tmp_path / "none", **SET) == USED


@together(
    ("exceptions", "address", "direct"),
    [
        ("logs.hospital.example", FAR, True),
        ("hospital.example", FAR, True),
        (".hospital.example", FAR, True),
        ("*.hospital.example", FAR, True),
        ("HOSPITAL.Example", FAR, True),
        ("localhost, .example", FAR, True),
        ("localhost .example", FAR, True),
        ("*", FAR, True),
        ("logs.hospital.example:4721", FAR, True),
        ("logs.hospital.example:443", FAR, False),
        ("other.example", FAR, False),
        ("", FAR, False),
        (",", FAR, False),
        (".", FAR, False),
        ("10.0.0.0/8", "10.9.8.7:1", True),
        ("10.0.0.0/8", "11.0.0.1:1", False),
        ("10.0.0.0/8", FAR, False),
        ("10.0.0.0/99", "10.0.0.1:1", False),
        ("10.9.8.7", "10.9.8.7:1", True),
        ("fd77::/16", "[fd77::1]:1", True),
        ("fd77::1", "[fd77::1]:1", True),
        ("[fd77::1]", "[fd77::1]:1", True),
    ],
)
def test_what_no_proxy_excepts(exceptions: str, address: str, direct: bool) -> None:
    for asked in ("", "p.example:3128"):  # gRPC itself applies the variable to any proxy
        assert (through(address, asked, no_proxy=exceptions, **SET) == "") == direct
    note = route(address, environ={"no_proxy": exceptions, **SET}).note
    assert ("because of no_proxy" in note) == direct


def test_which_exceptions_count() -> None:
    assert through(no_grpc_proxy="other", no_proxy="*", **SET) == USED  # the first variable that is set, as in gRPC
    assert through(NO_PROXY="example", **SET) == ""


def test_the_option_outweighs_the_variables() -> None:
    assert through(asked="http://q.example:8080", **SET) == "--proxy=http://q.example:8080"
    assert through(asked="off", **SET) == ""
    for wrong in ("socks5://q.example:1080", "http://", "http://q:99999", "http://a b", "none", "http://NONE"):
        with pytest.raises(InvalidOption, match="proxy must be off or http://HOST:PORT"):
            route(FAR, wrong, {})
    with pytest.raises(InvalidOption) as refused:
        route(FAR, "http://ann:secret@q:port", {})
    assert "secret" not in str(refused.value)


def test_a_failure_tells_how_to_do_without_the_proxy_or_why_a_proxy_was_not_used() -> None:
    assert route(FAR, environ=SET).instead(FAR).endswith("set no_proxy=logs.hospital.example")
    assert route(FAR, "p:1", {}).instead(FAR).endswith("set --proxy off")
    assert Route().instead(FAR) == ""
    unusable = route(FAR, environ={"https_proxy": "socks5://s:1080"})
    assert unusable.instead(FAR).startswith("; https_proxy is not used: socks5:// proxies are not supported")
    assert route("127.0.0.1:1", environ=SET).instead("127.0.0.1:1") == ""


@together(
    ("status", "login", "said"),
    [
        (407, "", "it requires a login (status 407): write https_proxy=http://USER:PASSWORD@HOST:PORT"),
        (407, "ann:pw", "it refuses the login in https_proxy (status 407)"),
        (403, "", "it refuses the connection (status 403): ask its administrator"),
        (405, "", "it refuses the connection (status 405): ask its administrator"),
        (502, "", "it cannot reach the receiver (status 502)"),
    ],
)
def test_what_a_proxy_answers(status: int, login: str, said: str) -> None:
    assert Proxy("p", 1, login, "https_proxy").refusal(status).startswith(said)
