"""The two ways to a kubelet's file server: itself, and the API server as a proxy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

import httpx2
import pytest

from flarelog.errors import FlarelogError
from flarelog.kubernetes.kubelet import Kubelet
from flarelog.kubernetes.options import KubernetesOptions
from tests.certificates import Authority
from tests.rows import together

PAGE = b'<pre>\n<a href="0.log">0.log</a>\n<a href="a%20b/">a b/</a>\n</pre>\n'
ANSWERS, REFUSES = 200, 403
AWAY = 0


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> KubernetesOptions:
    directory = tmp_path_factory.mktemp("kubelet")
    Authority.new(directory)
    (directory / "token").write_text("secret\n")
    return KubernetesOptions(
        api="https://10.0.0.1",
        kubelet="https://10.0.0.2:10250",
        api_ca=str(directory / "ca.crt"),
        api_token=str(directory / "token"),
    )


class Way:
    """How the kubelet and the API server answer in turn; each goes on as it did last."""

    def __init__(self, kubelet: Iterable[int], api: Iterable[int]) -> None:
        self._left = {"10.0.0.2": list(kubelet), "10.0.0.1": list(api)}
        self.asked: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        left = self._left[request.url.host]
        status = left.pop(0) if len(left) > 1 else left[0]
        self.asked.append({"10.0.0.2": "kubelet", "10.0.0.1": "proxy"}[request.url.host])
        expected = "/logs/pods/" if request.url.host == "10.0.0.2" else "/api/v1/nodes/node-1/proxy/logs/pods/"
        assert request.url.path == expected
        if status == AWAY:
            raise httpx2.ConnectError("Connection refused")
        return httpx2.Response(status, stream=httpx2.ByteStream(PAGE if status == ANSWERS else b""))


def listed(where: KubernetesOptions, way: Way, times: int) -> list[str]:
    """What *times* listings gave: ``names``, or the error."""

    async def ask() -> list[str]:
        kubelet, found = Kubelet(where, "node-1", httpx2.MockTransport(way)), list[str]()
        for _ in range(times):
            try:
                assert await kubelet.names("pods") == ["0.log", "a b/"]
                found.append("names")
            except FlarelogError as error:
                found.append(str(error))
        await kubelet.close()
        return found

    return asyncio.run(ask())


@together(
    "kubelet, api, asked",
    [
        pytest.param([ANSWERS], [ANSWERS], ["kubelet"] * 3, id="it-answers"),
        pytest.param([REFUSES], [ANSWERS], ["kubelet", "proxy", "proxy", "proxy"], id="it-refuses"),
        pytest.param([AWAY], [ANSWERS], ["kubelet", "proxy", "proxy", "proxy"], id="it-cannot-be-reached"),
        pytest.param([ANSWERS, AWAY, ANSWERS], [ANSWERS], ["kubelet"] * 3, id="it-restarts"),
        pytest.param([REFUSES, ANSWERS], [REFUSES], ["kubelet", "proxy", "kubelet", "kubelet"], id="both-refused-once"),
    ],
)
def test_the_proxy_is_asked_only_where_the_kubelet_refused_from_the_start(
    where: KubernetesOptions, kubelet: list[int], api: list[int], asked: list[str]
) -> None:
    way = Way(kubelet, api)
    found = listed(where, way, 3)
    assert way.asked == asked
    assert found.count("names") == 3 - (AWAY in kubelet[1:]) - (api == [REFUSES])


def test_the_proxys_right_is_said_loudly_and_once(where: KubernetesOptions, caplog: pytest.LogCaptureFixture) -> None:
    listed(where, Way([REFUSES], [ANSWERS]), 3)
    assert [record.levelno for record in caplog.records if "nodes/proxy" in record.message] == [logging.WARNING]
    caplog.clear()
    without = KubernetesOptions(api=where.api, api_ca=where.api_ca, api_token=where.api_token)
    listed(without, Way([], [ANSWERS]), 3)
    (said,) = [record.message for record in caplog.records]
    assert said.startswith("the kubelet's address is not known; the API server is asked instead")


STATUS = b'{"kind": "Status", "message": "nodes \\"node-1\\" not found", "code": 404}'


@together(
    "status, body, names, piece",
    [
        pytest.param(200, b"<pre>\n</pre>\n", [], "nothing", id="an-empty-directory-or-file"),
        pytest.param(404, b"404 page not found\n", [], None, id="none"),
        pytest.param(404, STATUS, "not found", "not found", id="the-node-is-gone-from-the-api"),
        pytest.param(404, b"<html>never</html>", "never", "never", id="a-page-of-a-proxy"),
        pytest.param(404, b"", "with 404", "with 404", id="nothing-of-a-proxy"),
        pytest.param(200, b"", "no listing", "with 200 and nothing", id="nothing"),
        pytest.param(429, b"", "with 429", "with 429", id="too-many-requests"),
        pytest.param(500, b"", "with 500", "with 500", id="an-error"),
        pytest.param(301, b"", "with 301", "with 301", id="elsewhere"),
    ],
)
def test_only_what_a_file_server_says_is_taken_for_its_files(
    where: KubernetesOptions, status: int, body: bytes, names: list[str] | str, piece: str | None
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if piece == "nothing" and request.url.path.endswith(".log"):
            return httpx2.Response(200, headers={"Accept-Ranges": "bytes"}, stream=httpx2.ByteStream(b""))
        return httpx2.Response(status, stream=httpx2.ByteStream(body))

    async def ask() -> None:
        kubelet = Kubelet(where, "node-1", httpx2.MockTransport(answer))
        for wanted, asked in ((names, kubelet.names("pods")), (piece, kubelet.piece("pods/0.log", 0, 100))):
            if isinstance(wanted, str) and wanted != "nothing":
                with pytest.raises(FlarelogError, match=wanted):
                    await asked
            else:
                assert await asked == ((b"", 0) if wanted == "nothing" else wanted)
        await kubelet.close()

    asyncio.run(ask())


@together(
    "status, said, body, found",
    [
        pytest.param(206, "bytes 4-6/20", b"abc", (b"abc", 20), id="a-part"),
        pytest.param(416, "bytes */4", b"", (b"", 4), id="nothing-after-the-position"),
        pytest.param(206, "bytes 4-6/20", b"ab", None, id="a-body-that-is-too-short"),
        pytest.param(206, "bytes 4-6/20", b"", None, id="no-body"),
        pytest.param(206, "", b"", None, id="no-range-and-no-body"),
        pytest.param(206, "bytes 4-6/*", b"abc", None, id="no-size"),
        pytest.param(206, "bytes 0-2/20", b"abc", None, id="another-part"),
        pytest.param(206, "bytes 4-9/5", b"abcdef", None, id="more-than-the-file"),
        pytest.param(416, "", b"", None, id="a-refusal-without-the-size"),
        pytest.param(416, "bytes 4-6/20", b"", None, id="a-refusal-with-a-part"),
    ],
)
def test_a_part_whose_body_has_not_the_length_that_it_says_is_no_answer(
    where: KubernetesOptions, status: int, said: str, body: bytes, found: tuple[bytes, int] | None
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"Content-Range": said} if said else {}
        return httpx2.Response(status, headers=headers, stream=httpx2.ByteStream(body))

    async def ask() -> None:
        kubelet = Kubelet(where, "node-1", httpx2.MockTransport(answer))
        if found is None:
            with pytest.raises(FlarelogError, match=f"answered /logs/pods/0.log with {status} and"):
                await kubelet.piece("pods/0.log", 4, 10)
        else:
            assert await kubelet.piece("pods/0.log", 4, 10) == found
        await kubelet.close()

    asyncio.run(ask())


def test_a_listing_that_was_cut_off_is_no_answer(where: KubernetesOptions) -> None:
    async def ask() -> None:
        cut = httpx2.MockTransport(lambda request: httpx2.Response(200, stream=httpx2.ByteStream(PAGE[:-8])))
        kubelet = Kubelet(where, "node-1", cut)
        with pytest.raises(FlarelogError, match="no listing"):
            await kubelet.names("pods")
        await kubelet.close()

    asyncio.run(ask())


def test_where_both_refuse_the_error_names_both(where: KubernetesOptions) -> None:
    (error,) = listed(where, Way([AWAY], [REFUSES]), 1)
    assert "no answer from the kubelet at https://10.0.0.2:10250: Connection refused" in error
    assert "does not allow to read /api/v1/nodes/node-1/proxy/logs/pods/ (403)" in error
    assert Path(where.token).exists()
