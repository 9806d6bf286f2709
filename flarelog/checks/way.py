"""Checks of the way to a receiver: its address, TLS, its protocol and clock, and a round trip of a test record."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

from flarelog.checks.certificates import CLOCK, dated
from flarelog.checks.row import Row, fail, ok, warn
from flarelog.client import Client
from flarelog.delivery.producer import DeliveryOptions
from flarelog.delivery.sending import WAITS
from flarelog.errors import CannotConnect, FlarelogError, InUse, InvalidName, NotAllowed, NotAReceiver, TimedOut
from flarelog.lifecycle import RunState
from flarelog.names import DOCTORS_LOG, DOCTORS_RUN, parse_address, receiver_address, run_name, site_name
from flarelog.security.tls import TOO_EARLY, Tls, why
from flarelog.sender.options import SidecarOptions
from flarelog.sender.sidecar import Sidecar
from flarelog.sources.files.patterns import SourceOptions
from flarelog.wire.codec.base import MAJOR
from flarelog.wire.statuses import NO_PROTOCOL

RESOLVES, CONNECTS, TRIP = 5.0, 3.0, 15.0  # timeouts in seconds
PORT = "check the port: flarelog serve must listen there"
AHEAD = 2.0  # seconds that two clocks may differ before a row warns


async def way(
    receiver: str,
    tls: Tls | None,
    connect: Callable[[], Client],
    run_id: str,
    site: str | None,
    shown: Callable[[Row], Row],
    *,
    forbidden: bool = False,
) -> None:
    """Run the steps, each of which needs the previous one: a failure ends them. *forbidden*: no log may leave the site,
    so no test record is sent.
    """
    steps: list[Callable[[], Awaitable[list[Row]]]] = [
        lambda: _address(receiver),
        lambda: asyncio.to_thread(_handshake, receiver, tls),
        lambda: _talk(connect, run_id),
    ]
    for step in steps:
        if any(shown(row).result == "fail" for row in await step()):
            return
    if tls is not None and not tls.cert:
        fix = "a reader needs none; at a site, give --site, --tls-cert and --tls-key"
        shown(warn("round trip", "the round trip was skipped: a token can only read", fix))
    elif site and forbidden:
        found = "the round trip was skipped: the site does not allow that a record is sent"
        shown(warn("round trip", found, "ask the site's administrator"))
    elif site:
        own = run_id == DOCTORS_RUN
        announced = await _announced(connect) if own else True
        row = await _trip(receiver, tls, run_id, site)
        if own and row.result != "fail":
            row = replace(row, found=row.found + await _removed(connect, site, announced=announced))
        shown(row)
    else:
        shown(warn("round trip", "the round trip was skipped: it needs the name of a site", "give --site NAME"))


async def _address(receiver: str) -> list[Row]:
    try:
        host, port = receiver_address(receiver)
    except FlarelogError as error:
        return [fail("address", str(error), "write the address as HOST:PORT, as in receiver.example:4721")]
    name = host.strip("[]")
    try:
        async with asyncio.timeout(RESOLVES):
            entries = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as error:
        why_not = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", "") or str(error)
        fix = "check the name, /etc/resolv.conf and /etc/hosts, or give the receiver's IP address"
        return [fail("address", f"{name} cannot be resolved: {why_not}", fix)]
    found = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    rows = [ok("address", f"{receiver} resolves to {', '.join(found[:4])}" if [name] != found else receiver)]
    return [*rows, await asyncio.to_thread(_connects, name, port, receiver)]


def _connects(name: str, port: int, receiver: str) -> Row:
    began = time.monotonic()
    try:
        with socket.create_connection((name, port), CONNECTS):
            return ok("connection", f"the connection took {1000 * (time.monotonic() - began):.1f} ms")
    except ConnectionRefusedError:
        fix = "start flarelog serve there, and check the port and --listen (127.0.0.1 accepts only its own machine)"
        return fail("connection", f"{receiver} refused the connection: no program listens there", fix)
    except OSError as error:
        why_not = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        fix = "check the address, and allow this machine to connect to that port in the firewall"
        return fail("connection", f"no connection to {receiver} within {CONNECTS:g} s: {why_not}", fix)


def _handshake(receiver: str, tls: Tls | None) -> list[Row]:
    trouble = why(receiver, tls)
    if trouble:
        fix = "make the certificates and --tls options of both ends agree: flarelog certs makes certificates"
        return [fail("tls", trouble, CLOCK if TOO_EARLY in trouble else fix)]
    host, _ = parse_address(receiver)
    if tls is None:
        if host in ("localhost", "[::1]") or host.startswith("127."):
            return [ok("tls", "TLS is off, and not needed: the receiver is on this machine")]
        fix = "give --tls-ca, --tls-cert and --tls-key at both ends"
        return [warn("tls", "TLS is off: every machine on the way can read and change the logs", fix)]
    try:
        certificate = _certificate_of(receiver, tls)
    except OSError as error:
        return [_no_handshake(receiver, error)]
    hosts = cast(tuple[tuple[str, str], ...], certificate.get("subjectAltName", ()))
    names = ", ".join(value for _, value in hosts)
    return [dated("tls", f"the receiver's certificate is for {names}", certificate, "at the receiver")]


def _no_handshake(receiver: str, error: OSError) -> Row:
    import ssl

    if isinstance(error, TimeoutError):
        why_not = f"no answer within {CONNECTS:g} s"
    elif isinstance(error, ssl.SSLEOFError | ConnectionResetError):
        why_not = "it closed the connection"
    else:
        why_not = getattr(error, "reason", None) or error.strerror or str(error)
    found = f"{receiver} accepts connections, but the TLS handshake failed: {why_not}"
    return fail("tls", found, f"{PORT} with --tls-cert, and must not be stopped or overloaded")


def _certificate_of(receiver: str, tls: Tls) -> Mapping[str, object]:
    import ssl

    host, port = parse_address(receiver)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    tls.believe(context)
    if tls.cert:
        tls.present(context)
    name = host.strip("[]")
    with (
        socket.create_connection((name, port), CONNECTS) as plain,
        context.wrap_socket(plain, server_hostname=tls.server_name or name) as shaken,
    ):
        return dict(shaken.getpeercert() or {})


async def _talk(connect: Callable[[], Client], run_id: str) -> list[Row]:
    """The receiver's protocol and clock, from its own answer."""
    try:
        run_name(run_id)
    except InvalidName as error:
        return [fail("run", str(error), "name another run with --run")]
    try:
        client = connect()
    except FlarelogError as error:
        fix = "give --token-file a file with a token, which this user alone can read, and --tls-ca; or leave it out"
        return [fail("token", str(error), fix)]
    try:
        async with client as connected:
            connected.patience = CONNECTS
            began = time.time()
            about = await connected.about(run_id)
            ended = time.time()
            return [_protocol(about.major, about.minor, about.agent), *_clock(began, about.clock / 1000, ended)]
    except FlarelogError as error:
        return [fail("protocol", str(error), _cure(error))]


def _cure(error: FlarelogError) -> str:
    """The fix if the receiver does not identify itself."""
    if isinstance(error, NotAReceiver) or NO_PROTOCOL in str(error):
        return PORT
    if isinstance(error, NotAllowed):
        return "check the receiver's policy, or give a certificate or token that it accepts"
    if isinstance(error, CannotConnect | TimedOut):
        return f"{PORT}, and must not be stopped or overloaded; its messages may tell more"
    return "check the receiver's own messages"


def _protocol(major: int, minor: int, agent: str) -> Row:
    if major not in (0, MAJOR):
        fix = "install matching versions of flarelog"
        return fail("protocol", (f"the receiver speaks protocol version {major}, this machine version {MAJOR}"), fix)
    if major == 0:
        return warn(
            "protocol",
            "the receiver is older, and does not tell its version",
            "install a newer version of flarelog at the receiver",
        )
    return ok("protocol", f"the receiver speaks version {major}.{minor}, as {agent or 'an unnamed program'}")


def _clock(began: float, theirs: float, ended: float) -> Iterator[Row]:
    """Compare the clocks: the receiver read its own between *began* and *ended*, both by this machine's."""
    if not theirs:
        return
    ahead, unsure = (began + ended) / 2 - theirs, (ended - began) / 2
    found = f"this machine's clock is {abs(ahead):.3f} s {('ahead of' if ahead > 0 else 'behind')} the receiver's"
    found += f", ± {1000 * unsure:.0f} ms"
    if abs(ahead) - unsure > AHEAD:
        yield warn(
            "clock",
            found,
            "synchronise both clocks by NTP: readers that order by time put this site's lines elsewhere",
        )
    else:
        yield ok("clock", found)


async def _trip(receiver: str, tls: Tls | None, run_id: str, site: str) -> Row:
    """Send a test record like any log, with a receipt."""
    fix = "check the receiver's messages and its policy, which must allow this site to push"
    with tempfile.TemporaryDirectory(prefix="flarelog-doctor-") as directory:
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {socket.gethostname()}: a test record\n"
        Path(directory, DOCTORS_LOG).write_text(line)
        began = time.monotonic()
        try:
            options = SidecarOptions(
                *(receiver, run_name(run_id), site_name(site), SourceOptions(directory, (DOCTORS_LOG,))),
                delivery=DeliveryOptions(max_misses=6), once=True, drain_timeout=TRIP, tls=tls, ranks=False,
            )  # fmt: skip
            with _quiet():
                outcome = await Sidecar(options).run()
        except InvalidName as refused:
            return fail("round trip", str(refused), "name another site with --site")
        except FlarelogError as refused:
            return fail("round trip", str(refused), fix)
    error = outcome.error or next((stream.error for stream in outcome.streams if stream.error), None)
    sent = [stream for stream in outcome.streams if stream.receipt is not None]
    if error is not None or not sent:
        if WAITS in str(error):
            fix = "do at the receiver what its answer says: it has no room for this site's logs"
        elif "is not registered" in str(error) or (error is not None and error.exit_code == 7):
            fix = f"announce the run with flarelog run-start {run_id}, or name an announced run with --run"
        return fail("round trip", str(error or "; ".join(outcome.troubles) or "no receipt came"), fix)
    took = time.monotonic() - began
    return ok(
        "round trip",
        f"the receiver stored {len(line)} bytes of {sent[0].stream}, with a receipt, in {1000 * took:.0f} ms",
    )


async def _announced(connect: Callable[[], Client]) -> bool:
    """Whether the run of test records was announced, and must stay."""
    try:
        async with connect() as client:
            return await client.state(DOCTORS_RUN) is not RunState.UNKNOWN
    except FlarelogError:
        return True


async def _removed(connect: Callable[[], Client], site: str, *, announced: bool) -> str:
    """Remove the record, in a run for test records alone; returns how the row's sentence ends."""
    try:
        async with connect() as client:
            await client.remove(DOCTORS_RUN, site, force=True)
            if not announced:
                with contextlib.suppress(InUse):  # other sites' records are being sent
                    await client.remove(DOCTORS_RUN)
    except FlarelogError:  # a site may usually push its logs, but not remove them
        return f"; the record stays there: flarelog rm {DOCTORS_RUN} removes it"
    return "; the record was removed"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the sidecar's log messages, which the row repeats."""

    logger = logging.getLogger("flarelog")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
