"""Callers are told apart by the name that the policy uses, and by their certificates."""

from __future__ import annotations

import hashlib
import json
import logging
import ssl
from typing import Any

import pytest

from flarelog.errors import NotAllowed
from flarelog.model import Action
from flarelog.policy import NOBODY, Grant, Identity, Policy, Role, key_of, name_of
from flarelog.receiver.workers.relay import said_of, understood
from flarelog.security.guard import Guard, identity_of
from flarelog.security.refusals import SAID_A_MINUTE
from tests.certificates import auth_context, pem_of
from tests.contexts import Bare
from tests.rows import together


class Call(Bare):
    def __init__(self, *names: str) -> None:
        self._said = auth_context(*names)
        der = ssl.PEM_cert_to_DER_cert(self._said["x509_pem_cert"][0].decode())
        self.fingerprint = hashlib.sha256(der).hexdigest()

    def auth_context(self) -> dict[str, list[bytes]]:
        return self._said

    def peer(self) -> str:
        return "ipv4:192.0.2.1:1"


@together(
    ("identity", "name"),
    [
        pytest.param(Identity("certificate", "site-1"), "certificate 'site-1'", id="a-common-name"),
        pytest.param(
            Identity("certificate", "site-1", ("evil",), dns_names=("evil",)),
            "certificate 'evil'",
            id="a-san-before-it",
        ),
        pytest.param(Identity("certificate", "boss@x.org"), "certificate 'boss@x.org'", id="no-site"),
        pytest.param(
            Identity("certificate", "x", ("a", "b"), dns_names=("a", "b")),
            "certificate 'x', 'a', 'b'",
            id="which-site-cannot-be-known",
        ),
        pytest.param(Identity("token", token="t1", token_name="wall"), "token t1 (wall)", id="a-token"),
        pytest.param(NOBODY, "nobody", id="nobody"),
    ],
)
def test_a_caller_is_called_what_the_policy_takes_it_for(identity: Identity, name: str) -> None:
    assert name_of(identity) == name


def test_no_two_names_become_one() -> None:
    long = [Identity("certificate", f"{'x' * 100}{end}") for end in "ab"]
    longer = [Identity("certificate", f"{'x' * 300}@{end}") for end in "ab"]
    assert len({key_of(identity) for identity in (*long, *longer)}) == 4


def test_two_certificates_with_one_name_are_two_callers() -> None:
    call, other = Call("site-1"), Call("site-1")
    other._said = {"x509_pem_cert": [pem_of("site-1", units=("another",))]}
    mine, same, another = (identity_of(one) for one in (call, call, other))
    assert key_of(mine) == key_of(same) == f"certificate 'site-1' (SHA-256 {call.fingerprint})"
    assert key_of(another) != key_of(mine)


def test_the_audit_tells_identity_and_fingerprint(caplog: pytest.LogCaptureFixture) -> None:
    guard, call = Guard(Policy()), Call("site-1", "evil")
    with caplog.at_level(logging.INFO, "flarelog.audit"):
        guard.asks(call, Action.PUSH, "run-1", "evil")
        for _ in range(12):
            with pytest.raises(NotAllowed):
                guard.asks(call, Action.PUSH, "run-1", "site-1")
        guard.look(0, at_once=True)
    said = [(line.split(" ")[0], json.loads(line[line.index("{") :])) for line in caplog.messages]
    assert [what for what, _ in said] == ["allowed", *["refused"] * 11]
    assert {(line["identity"], line["fingerprint"]) for _, line in said} == {("certificate 'evil'", call.fingerprint)}
    assert said[-1][1]["more"] == 2


def test_what_is_allowed_is_said_and_then_counted_and_what_changes_a_run_is_said_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard, site, operator = Guard(Policy((Grant(Role.OPERATOR, cn=("boss",)),))), Call("site-1"), Call("boss")
    with caplog.at_level(logging.INFO, "flarelog.audit"):
        for _ in range(1000):
            guard.asks(site, Action.PUSH, "run-1", "site-1")
        for number in range(1000):
            guard.asks(site, Action.PUSH, f"run-{number}", "site-1")
        for _ in range(50):
            guard.asks(operator, Action.START_RUN, "run-1")
        guard.asks(site, Action.GET_RUN, "run-1")
        guard.look(0, at_once=True)
    said = [json.loads(line.removeprefix("allowed ")) for line in caplog.messages]
    pushes = [line for line in said if line["action"] == "PUSH"]
    one = [line for line in pushes if line.get("run") == "run-1"]
    assert [line.get("more") for line in one] == [*[None] * SAID_A_MINUTE, 1001 - SAID_A_MINUTE]
    assert len(pushes) == 100 + 2, "one caller's lines are bounded, whatever he names"
    assert sum(line.get("more", 1) for line in pushes) == 2000, "and nothing is left uncounted"
    assert [line["action"] for line in said if line["action"] != "PUSH"] == [*["START_RUN"] * 50, "GET_RUN"]
    assert {line["fingerprint"] for line in pushes} == {site.fingerprint}


def test_another_worker_is_told_the_fingerprint() -> None:
    identity: Any = identity_of(Call("site-1"))
    assert understood(said_of(identity, "ipv4:192.0.2.1:1"))[0] == identity
