"""A Kubernetes node of real parts for the tests: ``parts`` builds or finds its programs, ``cluster`` runs them."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator

import pytest

from integration.kubernetes import parts
from integration.kubernetes.cluster import Cluster, new_cluster


def pytest_configure() -> None:
    # A SIGTERM to the tests must also remove the node.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One cluster for all tests: each uses pods with names of its own, and starts again what it stopped."""
    if reason := parts.missing():
        pytest.skip(reason)
    with new_cluster() as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the output of the node's parts."""
    report = yield
    if report.failed and report.when != "teardown":
        clusters = [value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Cluster)]
        report.sections += [("the node", cluster.talk()) for cluster in clusters]
    return report
