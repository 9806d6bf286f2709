"""Stores on JetStream behind TLS, accounts and permissions: who may do what, and what the others are told."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]
import pytest

from flarelog.errors import CannotConnect, NotAllowed
from flarelog.stores.nats.setup import NotSetUp, made
from flarelog.stores.nats.store import NatsStore
from flarelog.stores.nats.url import Url, with_files
from integration.harness.nats import Nats, missing
from integration.harness.places import FLARELOG
from integration.test_nats_store import LINES, STREAM, A, read
from tests.certificates import Authority

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

CALLS = ("STREAM.INFO", "STREAM.MSG.GET", "STREAM.PURGE", "CONSUMER.CREATE", "DIRECT.GET")
PARTS = [f"flarelog-logs-{part}" for part in (0, 1, "notes")]
RECEIVERS = {
    "publish": [*(f"{kind}.logs.>" for kind in ("fl", "fm", "fn", "fc")),
                *(f"$JS.API.{call}.{part}" for call in CALLS for part in PARTS),
                *(f"$JS.API.CONSUMER.DELETE.{part}.*" for part in PARTS), "_INBOX.>"],
    "subscribe": ["_INBOX.>", "fw.logs.>", "fc.logs.>"],
}  # fmt: skip
"""All that a receiver may do."""


async def written(url: str) -> None:
    """Write, list, read and remove a stream."""
    async with asyncio.timeout(30), NatsStore(url) as store:
        appender = await store.appender(STREAM, A)
        await appender.append(0, LINES)
        await appender.close()
        assert await read(store) == LINES
        assert [info.committed async for info in store.list()] == [len(LINES)]
        assert [length for _, length in await store.history(STREAM)][-1] == len(LINES)
        await store.remove(STREAM.run)


async def make(url: str) -> None:
    await made(Url.of(url), 1, 2, 1 << 30)


def test_a_store_behind_tls_is_reached_with_its_ca_alone(tmp_path: Path) -> None:
    authority, other = Authority.new(tmp_path / "ca"), Authority.new(tmp_path / "other")
    tls = authority.issue("nats", hosts=["127.0.0.1"])
    with Nats(tmp_path, tls=tls) as servers:
        url = with_files(servers.url(), None, tls.ca)
        asyncio.run(make(url))
        asyncio.run(written(url))
        # The command line imports asyncio without ssl.
        listed = subprocess.run([*FLARELOG, "runs", "--store", servers.url(), "--nats-ca", tls.ca, "--json"],
                                capture_output=True, text=True, check=False)  # fmt: skip
        assert (listed.returncode, listed.stdout, listed.stderr) == (0, "", ""), listed.stderr
        for wrong in (servers.url(), with_files(servers.url(), None, str(other.directory / "ca.crt"))):
            with pytest.raises(CannotConnect, match=r"no NATS server answers at .*[Cc]ertificate"):
                asyncio.run(written(wrong))


def test_a_receiver_needs_no_right_to_make_streams(tmp_path: Path) -> None:
    users = [{"user": "admin", "password": "a"}, {"user": "receiver", "password": "r", "permissions": RECEIVERS}]
    with Nats(tmp_path, more=f"accounts {{ LOGS {{ jetstream: enabled, users: {json.dumps(users)} }} }}\n") as servers:
        asyncio.run(make(servers.url(user="admin:a@")))
        asyncio.run(written(servers.url(user="receiver:r@")))
        with pytest.raises(NotAllowed, match="refuses this client"):
            asyncio.run(written(servers.url(user="receiver:wrong@")))
        again = subprocess.run(
            [*FLARELOG, "store", "init", servers.url("other", "receiver:r@"), "--max-bytes", "2GB", "--replicas", "1"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert again.returncode == 5, again.stderr
        assert "may not" in again.stderr


def test_a_missing_store_or_setting_is_one_sentence(tmp_path: Path) -> None:
    async def spoil(url: str) -> None:
        from flarelog.stores.nats.engine import Engine

        engine = Engine(Url.of(url))
        await engine.open()
        config = (await engine.api("STREAM.INFO.flarelog-logs-1"))["config"]
        await engine.api("STREAM.UPDATE.flarelog-logs-1", {**config, "discard": "old"})
        await engine.close()

    with Nats(tmp_path) as servers:
        with pytest.raises(NotSetUp, match=r"there is no store at nats:\S+/logs: flarelog store init \S+ makes it"):
            asyncio.run(written(servers.url()))
        asyncio.run(make(servers.url()))
        asyncio.run(spoil(servers.url()))
        with pytest.raises(
            NotSetUp, match=r"flarelog-logs-1 at \S+ has another discard: flarelog store init \S+ repairs"
        ):
            asyncio.run(written(servers.url()))
        asyncio.run(make(servers.url()))
        asyncio.run(written(servers.url()))


# --- accounts with credentials


@pytest.fixture
def accounts(tmp_path: Path) -> tuple[str, Path]:
    """The configuration of an operator with one account, and the credentials of a user in it."""
    operator, account, system = (
        _pair(kind) for kind in (nkeys.PREFIX_BYTE_OPERATOR, *2 * (nkeys.PREFIX_BYTE_ACCOUNT,))
    )
    user = _pair(nkeys.PREFIX_BYTE_USER)
    limits = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1, "subs": -1, "conn": -1, "data": -1,
              "payload": -1, "leaf": -1, "imports": -1, "exports": -1, "wildcards": True}  # fmt: skip
    own = _jwt(operator, operator, "operator", {"system_account": _name(system)})
    logs = _jwt(operator, account, "account", {"limits": limits})
    sys = _jwt(operator, system, "account", {"limits": {**limits, "mem_storage": 0, "disk_storage": 0}})
    resolver = f"resolver: MEMORY\nresolver_preload {{ {_name(account)}: {logs}, {_name(system)}: {sys} }}\n"
    creds = tmp_path / "user.creds"
    token, seed = _jwt(account, user, "user", {"subs": -1, "data": -1, "payload": -1}), user.seed.decode()
    creds.write_text(
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    return f"operator: {own}\n{resolver}", creds


def _pair(kind: int) -> Any:
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), kind))


def _name(pair: Any) -> str:
    return str(pair.public_key.decode())


def _jwt(issuer: Any, subject: Any, kind: str, said: dict[str, Any]) -> str:
    claims: dict[str, Any] = {"iat": 1, "iss": _name(issuer), "name": kind, "sub": _name(subject), "jti": ""}
    claims["nats"] = {**said, "type": kind, "version": 2}
    claims["jti"] = base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
    signed = ".".join(_encoded(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims))
    return f"{signed}.{_encoded(issuer.sign(signed.encode()))}"


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_credentials_of_an_account_open_the_store(tmp_path: Path, accounts: tuple[str, Path]) -> None:
    config, creds = accounts
    with Nats(tmp_path, more=config) as servers:
        url = with_files(servers.url(), str(creds), None)
        asyncio.run(make(url))
        asyncio.run(written(url))
        with pytest.raises(NotAllowed, match="--nats-creds"):
            asyncio.run(written(servers.url()))
