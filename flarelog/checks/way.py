"""Checks of the way to a receiver: its address, TLS, its protocol and clock, and a round trip of a test record."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from flarelog.checks.certificates import CLOCK, RENEW, dated
from flarelog.checks.row import Row, fail, ok, warn
from flarelog.client import Client
from flarelog.delivery.producer import DeliveryOptions
from flarelog.delivery.sending import WAITS
from flarelog.dial import addresses, dial, reason
from flarelog.errors import CannotConnect, FlarelogError, InUse, InvalidName, NotAllowed, NotAReceiver, TimedOut
from flarelog.lifecycle import RunState
from flarelog.names import DOCTORS_LOG, DOCTORS_RUN, is_loopback, parse_address, receiver_address, run_name, site_name
from flarelog.proxies import Proxy, Route, route
from flarelog.security.tls import EXPIRED, TOO_EARLY, Tls, certificate_of, names_in, why
from flarelog.sender.options import SidecarOptions
from flarelog.sender.sidecar import Sidecar
from flarelog.sources.files.patterns import SourceOptions
from flarelog.wire.codec.base import MAJOR
from flarelog.wire.statuses import NO_PROTOCOL

RESOLVES, CONNECTS, TRIP = 5.0, 3.0, 15.0  # timeouts in seconds
ADDRESSES = 16  # the maximum of a name's addresses that are tried
PORT = "check the port: flarelog serve must listen there"
AHEAD = 2.0  # seconds that two clocks may differ before a row warns


async def way(
    receiver: str,
    tls: Tls | None,
    proxy: str,
    connect: Callable[[], Client],
    run_id: str,
    site: str | None,
    *,
    may_send: bool,
) -> AsyncIterator[Row]:
    """The rows of the steps, each of which needs the previous one: a failure ends them. *proxy*: the value of
    ``--proxy``. *may_send*: whether logs may leave the site, and so a test record.
    """
    steps: list[Callable[[], Awaitable[list[Row]]]] = [
        lambda: _address(receiver, proxy),
        lambda: asyncio.to_thread(_handshake, receiver, tls, proxy),
        lambda: _talk(connect, run_id),
    ]
    for step in steps:
        for row in await step():
            yield row
            if row.result == "fail":
                return
    if tls is not None and not tls.cert:
        fix = "a reader needs none; at a site, give --site, --tls-cert and --tls-key"
        yield warn("round trip", "the round trip was skipped: a token can only read", fix)
    elif site and not may_send:
        found = "the round trip was skipped: the site does not allow that a record is sent"
        yield warn("round trip", found, "ask the site's administrator")
    elif site:
        own = run_id == DOCTORS_RUN
        announced = await _announced(connect) if own else True
        row = await _trip(receiver, tls, proxy, run_id, site)
        if own and row.result != "fail":
            row = replace(row, found=row.found + await _removed(connect, site, announced=announced))
        yield row
    else:
        yield warn("round trip", "the round trip was skipped: it needs the name of a site", "give --site NAME")


async def _address(receiver: str, proxy: str) -> list[Row]:
    try:
        host, port = receiver_address(receiver)
    except FlarelogError as error:
        return [fail("address", str(error), "write the address as HOST:PORT, as in receiver.example:4721")]
    try:
        way = route(receiver, proxy)
    except FlarelogError as error:
        return [fail("proxy", str(error), "correct --proxy, or leave it out")]
    if way.proxy is not None:
        return [await asyncio.to_thread(_through, receiver, way, way.proxy)]
    rows = [ok("proxy", way.note)] if way.note else []
    name = host.strip("[]")
    try:
        async with asyncio.timeout(RESOLVES):
            found = (await asyncio.to_thread(addresses, name, port))[:ADDRESSES]
    except (OSError, TimeoutError, UnicodeError) as error:
        fix = "check the name, /etc/resolv.conf and /etc/hosts, or give the receiver's IP address"
        return [*rows, fail("address", f"{name} cannot be resolved: {reason(error)}{way.instead(receiver)}", fix)]
    shown = [ip for ip, _ in found]
    rows.append(ok("address", f"{receiver} resolves to {', '.join(shown[:4])}" if [name] != shown else receiver))
    tried = await asyncio.gather(*(asyncio.to_thread(_tried, one) for one in found))
    return [*rows, _connection(receiver, way, dict(zip(shown, tried, strict=True)))]


def _through(receiver: str, way: Route, proxy: Proxy) -> Row:
    """Whether *proxy* connects to the receiver."""
    began = time.monotonic()
    try:
        with dial(receiver, CONNECTS, proxy):
            took = 1000 * (time.monotonic() - began)
            return ok("proxy", f"the connection {way.to('')[1:]} took {took:.1f} ms")
    except OSError as error:
        return fail("proxy", f"no connection to {way.to(receiver)}: {error}", way.instead(receiver)[2:])


def _tried(where: tuple[str, int]) -> float | Exception:
    """The seconds that a connection to one address takes, or why there is none."""
    began = time.monotonic()
    try:
        with socket.create_connection(where, CONNECTS):
            return time.monotonic() - began
    except OSError as error:
        return error


def _connection(receiver: str, way: Route, tried: Mapping[str, float | Exception]) -> Row:
    """The row for the attempts to connect to each of the receiver's addresses. One that answers is enough."""
    troubles = {ip: error for ip, error in tried.items() if isinstance(error, Exception)}
    others = "; ".join(f"{ip}: {reason(error)}" for ip, error in troubles.items())
    for ip, took in tried.items():
        if not isinstance(took, Exception):
            which, rest = (f" to {ip}", f"; {others}") if troubles else ("", "")
            return ok("connection", f"the connection{which} took {1000 * took:.1f} ms{rest}")
    if all(isinstance(error, ConnectionRefusedError) for error in troubles.values()):
        found = f"{receiver} refused the connection: no program listens there"
        fix = "start flarelog serve there, and check the port and --listen (127.0.0.1 accepts only its own machine)"
    else:
        why_not = others if len(troubles) > 1 else reason(*troubles.values())
        found = f"no connection to {receiver} within {CONNECTS:g} s: {why_not}"
        fix = "check the address, and allow this machine to connect to that port in the firewall"
    return fail("connection", f"{found}{way.instead(receiver)}", fix)


def _handshake(receiver: str, tls: Tls | None, proxy: str) -> list[Row]:
    trouble = why(receiver, tls, proxy)
    if trouble:
        fix = "make the certificates and --tls options of both ends agree: flarelog certs makes certificates"
        fix = CLOCK if TOO_EARLY in trouble else RENEW if EXPIRED in trouble else fix
        return [fail("tls", trouble, fix)]
    if tls is None:
        if is_loopback(parse_address(receiver)[0]):
            return [ok("tls", "TLS is off, and not needed: the receiver is on this machine")]
        fix = "give --tls-ca, --tls-cert and --tls-key at both ends"
        return [warn("tls", "TLS is off: every machine on the way can read and change the logs", fix)]
    try:
        certificate = certificate_of(receiver, tls, proxy)
    except OSError as error:
        return [_no_handshake(receiver, error)]
    return [dated("tls", f"the receiver's certificate is for {names_in(certificate)}", certificate, "at the receiver")]


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
            return [_protocol(about.major, about.minor, about.agent), _clock(began, about.clock / 1000, ended)]
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
    if major != MAJOR:
        fix = "install matching versions of flarelog"
        return fail("protocol", (f"the receiver speaks protocol version {major}, this machine version {MAJOR}"), fix)
    return ok("protocol", f"the receiver speaks version {major}.{minor}, as {agent or 'an unnamed program'}")


def _clock(began: float, theirs: float, ended: float) -> Row:
    """Compare the clocks: the receiver read its own between *began* and *ended*, both by this machine's."""
    ahead, unsure = (began + ended) / 2 - theirs, (ended - began) / 2
    found = f"this machine's clock is {abs(ahead):.3f} s {('ahead of' if ahead > 0 else 'behind')} the receiver's"
    found += f", ± {1000 * unsure:.0f} ms"
    if abs(ahead) - unsure > AHEAD:
        fix = "synchronise both clocks by NTP: readers that order by time put this site's lines elsewhere"
        return warn("clock", found, fix)
    return ok("clock", found)


async def _trip(receiver: str, tls: Tls | None, proxy: str, run_id: str, site: str) -> Row:
    """Send a test record like any log, with a receipt."""
    fix = "check the receiver's messages and its policy, which must allow this site to push"
    with tempfile.TemporaryDirectory(prefix="flarelog-doctor-") as directory:
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {socket.gethostname()}: a test record\n"
        Path(directory, DOCTORS_LOG).write_text(line)
        began = time.monotonic()
        try:
            options = SidecarOptions(
                *(receiver, run_name(run_id), site_name(site), SourceOptions(directory, (DOCTORS_LOG,))),
                delivery=DeliveryOptions(max_misses=6), once=True, drain_timeout=TRIP, tls=tls, proxy=proxy,
                ranks=False,
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
