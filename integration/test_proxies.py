"""Receivers that a site reaches only through a proxy, and receivers that must not be reached through one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from flarelog.security import authority
from flarelog.security.authority import Role
from integration.harness.places import RUN, SITE, Place, append, lines
from integration.harness.proxies import Conduct, ConnectProxy, dead
from integration.test_doctor import rows, tls

FAR = "logs.hospital.example"  # which only the proxy can resolve


@pytest.mark.parametrize("encrypted", [False, True])
def test_logs_go_out_through_a_proxy_with_a_login(place: Place, encrypted: bool) -> None:
    files: dict[str, tuple[str, ...]] = {"server": (), SITE: (), "anna": ()}
    if encrypted:
        ca, now = place.directory / "certs", datetime.now(UTC)
        authority.init(ca, now=now)
        authority.issue_server(ca, [FAR], days=365, now=now)
        authority.issue(ca, Role.SITE, SITE, days=90, now=now)
        authority.issue(ca, Role.READER, "anna", days=90, now=now)
        files = {name: tls(ca, name) for name in files}
    receiver = place.serve(*files["server"])
    data = append(place.log, b"hello\nworld\n")
    far = f"{FAR}:{receiver.address.rpartition(':')[2]}"
    with ConnectProxy(receiver.address, login="HOSP\\ann:p@:/ w") as proxy:
        env: dict[str, Any] = {"https_proxy": f"http://HOSP%5Cann:p%40%3A%2F%20w@{proxy.address}"}
        sidecar = place.sidecar(far, "--once", *files[SITE], **env)
        assert sidecar.ends() == 0, sidecar.talk()
        assert receiver.stored() == data
        shown = place.call("logs", RUN, "--receiver", far, "-o", "raw", *files["anna"], **env)
        assert shown.printed.encode() == data, shown.talk()
        found = rows(place.call("doctor", "--receiver", far, "--site", SITE, "-o", "json", *files[SITE], **env), 0)
        assert found["proxy"][0] == "ok"
        assert f"through the proxy https_proxy=http://{proxy.address} took" in found["proxy"][1]
        assert found["round trip"][0] == "ok"
        assert set(proxy.requests) == {far}
    assert not [program for program in place.programs if "p%40" in program.talk() or "p@:" in program.talk()]


BAD: list[tuple[Conduct, str]] = [
    ("refuses", "it refuses the connection (status 403)"),
    ("cannot reach", "it cannot reach the receiver (status 502)"),
    ("is no proxy", "the program at the proxy's port is no HTTP proxy"),
]


@pytest.mark.parametrize(("conduct", "said"), BAD)
def test_a_proxy_that_fails_is_named_and_tried_again(place: Place, conduct: Conduct, said: str) -> None:
    receiver = place.serve()
    data = append(place.log, lines(10))
    far = f"{FAR}:{receiver.address.rpartition(':')[2]}"
    with ConnectProxy(receiver.address, conduct) as proxy:
        told = f"no connection to {far} through the proxy http_proxy={proxy.url}: {said}"
        sidecar = place.sidecar(far, "--once", http_proxy=proxy.url)
        sidecar.says(told)
        sidecar.says(f"; to connect without the proxy, set no_proxy={FAR}; retrying")
        found = rows(place.call("doctor", "--receiver", far, "-o", "json", http_proxy=proxy.url), 1)
        assert found["proxy"][1].startswith(told)
        assert f"no_proxy={FAR}" in found["proxy"][2]
        proxy.conduct = "connects"
        assert sidecar.ends() == 0, sidecar.talk()
    assert receiver.stored() == data


def test_a_proxy_that_requires_a_login_says_so(place: Place) -> None:
    with ConnectProxy(login="ann:pw") as proxy:
        sidecar = place.sidecar(f"{FAR}:4721", http_proxy=proxy.url)
        sidecar.says("it requires a login (status 407): write http_proxy=http://USER:PASSWORD@HOST:PORT")
        sidecar = place.sidecar(f"{FAR}:4721", "--proxy", f"http://ann:guessed@{proxy.address}")
        sidecar.says("it refuses the login in --proxy (status 407)")
        assert "guessed" not in sidecar.said


def test_a_proxy_that_does_not_run(place: Place) -> None:
    with dead() as url:
        sidecar = place.sidecar(f"{FAR}:4721", HTTPS_PROXY=url)
        said = f"through the proxy HTTPS_PROXY={url}: the proxy cannot be reached: Connection refused"
        sidecar.says(said)
        reader = place.start("runs", "--receiver", f"{FAR}:4721", HTTPS_PROXY=url)
        reader.says(said)
        found = rows(place.call("doctor", "--receiver", f"{FAR}:4721", "-o", "json", HTTPS_PROXY=url), 1)
        assert said in found["proxy"][1]
        assert list(found) == ["proxy"]


@pytest.mark.parametrize("conduct", ["hangs", "closes"])
def test_a_proxy_that_does_not_answer(place: Place, conduct: Conduct) -> None:
    says = {"hangs": "the proxy accepts connections, but does not answer", "closes": "the proxy closes the connection"}
    with ConnectProxy(conduct=conduct) as proxy:
        sidecar = place.sidecar(f"{FAR}:4721", https_proxy=proxy.url)
        found = rows(place.call("doctor", "--receiver", f"{FAR}:4721", "-o", "json", https_proxy=proxy.url), 1)
        assert says[conduct] in found["proxy"][1]
        sidecar.says(f"{FAR}:4721 through the proxy https_proxy={proxy.url}")


@pytest.mark.parametrize("conduct", ["refuses", pytest.param("hangs", marks=pytest.mark.soak)])
def test_a_receiver_on_this_machine_needs_no_proxy(place: Place, conduct: Conduct) -> None:
    receiver = place.serve()
    port = receiver.address.rpartition(":")[2]
    data = append(place.log, lines(10))
    with ConnectProxy(conduct=conduct) as proxy:
        env: dict[str, Any] = dict.fromkeys(("grpc_proxy", "https_proxy", "http_proxy", "HTTPS_PROXY"), proxy.url)
        assert place.sidecar(receiver, "--once", **env).ends() == 0
        assert place.call("runs", "--receiver", f"localhost:{port}", **env).ends() == 0
        found = rows(place.call("doctor", "--receiver", receiver.address, "--site", SITE, "-o", "json", **env), 0)
        assert found["proxy"][:2] == ("ok", f"grpc_proxy={proxy.url} is not needed: 127.0.0.1 is this machine")
        assert proxy.requests == []
    assert receiver.stored() == data


def test_the_option_outweighs_the_variables(place: Place) -> None:
    receiver = place.serve()
    far = f"{FAR}:{receiver.address.rpartition(':')[2]}"
    with ConnectProxy(receiver.address) as good, ConnectProxy(conduct="refuses") as bad:
        env: dict[str, Any] = {"FLARELOG_PROXY": good.url, "https_proxy": bad.url}
        with_env = place.call("run", "--receiver", far, "--run", "r", "--", "env", **env)
        assert with_env.ends() == 0, with_env.talk()
        assert good.requests
        assert not bad.requests
        environment = dict(line.partition("=")[::2] for line in with_env.printed.splitlines())
        assert environment["https_proxy"] == bad.url
        assert not {"GRPC_VERBOSITY", "GRPC_DNS_RESOLVER"} & set(environment), "the command's gRPC is its own"
        reader = place.call("runs", "--receiver", far, "--proxy", good.url, https_proxy=bad.url)
        assert reader.ends() == 0, reader.talk()
        assert not bad.requests
    wrong = place.call("runs", "--receiver", far, "--proxy", "socks5://p:1080")
    assert wrong.ends() == 2
    assert "--proxy must be off or http://HOST:PORT: socks5:// proxies are not supported" in wrong.said
