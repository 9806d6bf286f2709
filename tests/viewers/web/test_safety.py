"""Which requests are accepted; test_routes checks the same through the app."""

from __future__ import annotations

import pytest

from flarelog.errors import InvalidOption
from flarelog.viewers.web.options import WebOptions
from flarelog.viewers.web.safety import Asked, cookie, cookie_name, cookies_of, hosts_of, refusal
from tests.rows import together

HOSTS = hosts_of(WebOptions())
PROXY = WebOptions(trust_proxy=True, hosts=("logs.example",), listen="0.0.0.0:80")
JSON = {"content-type": "application/json"}
TYPED = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.mark.parametrize("host", ["127.0.0.1:4780", "localhost:4780", "LOCALHOST:4780", "[::1]:4780"])
def test_the_page_has_the_names_of_this_machine(host: str) -> None:
    assert refusal(Asked("GET", "/", {"host": host}), HOSTS, proxied=False) is None


@together(
    ("method", "path", "headers", "status"),
    [
        pytest.param("GET", "/api/runs", {"sec-fetch-site": "same-origin"}, 0, id="the-pages-own"),
        pytest.param("POST", "/api/window", {**JSON, "origin": "http://localhost:4780"}, 0, id="by-its-own-origin"),
        pytest.param("POST", "/api/window", {**JSON, "origin": "https://localhost:4780"}, 403, id="by-another-scheme"),
        pytest.param("POST", "/api/window", {**JSON, "origin": "http://localhost"}, 403, id="by-another-port"),
        pytest.param("POST", "/api/window", {"content-type": "text/plain"}, 415, id="a-form"),
        pytest.param("POST", "/api/window", {}, 415, id="nothing"),
        pytest.param("POST", "/api/window", {**JSON, "content-length": "99999999"}, 413, id="too-long"),
        pytest.param("POST", "/api/window", {**JSON, "content-length": "-1"}, 413, id="no-length"),
        pytest.param("DELETE", "/api/window", {}, 405, id="a-method-that-is-none"),
        pytest.param("GET", "/", {"host": ""}, 421, id="nobody"),
        pytest.param("GET", "*", {}, 400, id="everything"),
        pytest.param("GET", "foo", {}, 400, id="no-path"),
        pytest.param("GET", "/api/raw", {**TYPED, "sec-fetch-site": "none"}, 0, id="an-address-that-was-typed"),
        pytest.param("POST", "/api/logout", {**TYPED, "sec-fetch-site": "none"}, 403, id="a-form-that-nobody-typed"),
        pytest.param("GET", "/api/raw", {**TYPED, "sec-fetch-site": "cross-site"}, 403, id="a-link-elsewhere"),
        pytest.param("GET", "/api/raw", {"sec-fetch-site": "none"}, 403, id="not-opened"),
    ],
)
def test_a_request_is_judged_by_its_headers(method: str, path: str, headers: dict[str, str], status: int) -> None:
    found = refusal(Asked(method, path, {"host": "127.0.0.1:4780", **headers}), HOSTS, proxied=False)
    assert (0 if found is None else found.status) == status


def test_a_header_that_stands_twice_is_no_header() -> None:
    found = refusal(Asked("GET", "/", {"host": "127.0.0.1:4780"}, twice=True), HOSTS, proxied=False)
    assert found is not None
    assert found.status == 400


def test_behind_a_proxy_the_page_has_the_proxys_names_alone() -> None:
    hosts, https = hosts_of(PROXY), {"x-forwarded-proto": "https"}
    assert refusal(Asked("GET", "/", {"host": "logs.example", **https}), hosts, proxied=True) is None
    for headers in ({"host": "logs.example"}, {"host": "127.0.0.1:80", **https}):
        assert refusal(Asked("GET", "/", headers), hosts, proxied=True) is not None


@pytest.mark.parametrize(("listen", "proxied"), [("0.0.0.0:1", False), ("x", False), ("127.0.0.1:1", True)])
def test_a_page_that_could_be_overheard_is_none(listen: str, proxied: bool) -> None:
    with pytest.raises(InvalidOption):
        WebOptions(listen=listen, trust_proxy=proxied)


@pytest.mark.parametrize("options", [WebOptions(), WebOptions(trust_proxy=True, hosts=("logs.example",))])
def test_a_cookie_is_read_as_it_was_set(options: WebOptions) -> None:
    wanted = cookie_name(options)
    name, value = cookie(wanted, "abc", 60, secure=options.trust_proxy).split(";")[0].split("=")
    assert cookies_of({"cookie": f"other=1; {name}={value}"}, wanted) == ["abc"]
    assert cookies_of({"cookie": f"{name}=a; {name}=b"}, wanted) == ["a", "b"]
    assert cookies_of({}, wanted) == []
