"""What an agent of containers' logs waits for before it sends them."""

from __future__ import annotations

import asyncio

import pytest

from flarelog.cli import containers
from flarelog.cli.containers import Informed
from flarelog.errors import CannotConnect
from flarelog.kubernetes.options import KubernetesOptions
from flarelog.kubernetes.watcher import Pods


class Sends:
    """A sender that notes whether the pods are known when it begins."""

    def __init__(self, pods: Pods) -> None:
        self.pods, self.known = pods, list[bool]()

    async def run(self) -> int:
        self.known.append(self.pods.listed)
        return 0

    def drain(self) -> None: ...

    def reread(self) -> bool:
        return False


def silent(monkeypatch: pytest.MonkeyPatch) -> Pods:
    """Pods of an API that does not answer in time."""
    monkeypatch.setattr(containers, "ANSWERS_WITHIN", 0.0)
    return Pods(KubernetesOptions(api="https://127.0.0.1:1", api_token="/nowhere", api_ca="/nowhere"))


def test_once_logs_are_sent_though_the_api_lists_no_pods(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pods = silent(monkeypatch)
    sender = Sends(pods)
    assert asyncio.run(Informed([sender], [], pods).run()) == 0
    assert sender.known == [False]
    assert "without how their containers ended" in caplog.text


def test_once_nothing_is_sent_where_the_api_tells_the_runs_and_lists_no_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = silent(monkeypatch)
    sender = Sends(pods)
    with pytest.raises(CannotConnect, match="did not list the pods"):
        asyncio.run(Informed([sender], [], pods, demands=True).run())
    assert not sender.known
