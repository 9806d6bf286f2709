"""``flarelog doctor``: whether this machine, and the way to the receiver, are fit for it; each trouble with its cure.

Nothing is changed but by the test record, which is sent as any log is. Each check gives rows; none of them raises.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from flarelog.cli import aligned, client, client_options, option, run
from flarelog.delivery.producer import DeliveryOptions
from flarelog.errors import FAILED, OK, FlarelogError, NotAllowed
from flarelog.names import log_name, parse_address, run_name, site_name
from flarelog.security.tls import Tls, why
from flarelog.sender.sidecar import Sidecar, SidecarOptions
from flarelog.sources.consent import in_force
from flarelog.sources.files.identity import identity, remote, witness
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.watch import InotifyWatch
from flarelog.text import legible
from flarelog.viewers.console import colours
from flarelog.wire import codec as wire
from flarelog.wire.packing import AVAILABLE

EXAMPLES = """\b
Examples:
  # at a site, before a run
  flarelog doctor --receiver logs:4721 --root /var/log/job --site site-1
  # at the receiver
  flarelog doctor --store /var/lib/flarelog
"""

RUN = "flarelog-doctor"
LOG = "doctor.log"
RESOLVES, CONNECTS, TRIP = 5.0, 3.0, 15.0  # seconds that each may take
FILES = 200_000  # that are looked at under a root
AHEAD = 2.0  # seconds that two clocks may differ without a word
SOON = 30 * 86400  # seconds before a certificate's end from which on it is said
SYNC = 0.1  # seconds that making a little durable may take without a word
LEAST_FREE, LITTLE_FREE = 64 << 20, 1 << 30  # bytes
LEAST_INODES, LITTLE_INODES = 100, 10_000
_INOTIFY = "/proc/sys/fs/inotify"


_NO_TLS = "a revocation list is of no use without TLS", "give --tls-ca, --tls-cert and --tls-key as well"


@dataclass(frozen=True, slots=True)
class Row:
    check: str
    result: str  # ok, warn or fail
    found: str
    fix: str = ""


def ok(check: str, found: str) -> Row:
    return Row(check, "ok", found)


def warn(check: str, found: str, fix: str) -> Row:
    return Row(check, "warn", found, fix)


def fail(check: str, found: str, fix: str) -> Row:
    return Row(check, "fail", found, fix)


@click.command(
    help=f"{EXAMPLES}\n\nCheck what is needed: at a site the receiver's address, TLS, its clock and protocol, the logs "
    "under a root, inotify, and a test record that is sent and acknowledged; at the receiver its store's space, inodes "
    "and speed. A row a check: ok, warn or fail, with what to do. Exit code 0, or 1 if something fails."
)
@option("--receiver", help="HOST:PORT of flarelog serve.")
@option("--root", type=click.Path(), help="Directory of a site's logs.")
@option("--include", multiple=True, metavar="GLOB", help="As for flarelog sidecar.")
@option("--exclude", multiple=True, metavar="GLOB", help="As for flarelog sidecar.")
@option("--site-policy", multiple=True, type=click.Path(dir_okay=False), help="As for flarelog sidecar.")
@option("--site", help="Send a test record as this site.")
@option("--run", "run_id", default=RUN, show_default=True, help="The run that the test record is sent in.")
@option("--store", type=click.Path(file_okay=False), help="A receiver's store on this machine.")
@option("--tls-crl", type=click.Path(dir_okay=False), help="As for flarelog serve.")
@client_options
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="json: an object a row.")  # fmt: skip
def command(receiver: str | None, root: str | None, store: str | None, output: str, **given: Any) -> None:
    if not (receiver or root or store):
        raise click.UsageError("say what to look at: --receiver HOST:PORT, --root DIR, --store DIR, or several of them")
    options = {name: given.pop(name) for name in ("token_file", "tls_ca", "tls_cert", "tls_key")}
    failed = run(_examine(receiver, root, store, given, options, _shown(output == "json")))
    sys.exit(FAILED if failed else OK)


def _shown(as_json: bool) -> Callable[[Row], None]:
    """What shows a row."""
    coloured = not as_json and colours("auto", os.environ.get, sys.stdout.isatty())
    paint = {"ok": 32, "warn": 33, "fail": 31}

    def show(row: Row) -> None:
        if as_json:
            click.echo(json.dumps(asdict(row)))
            return
        (line,) = aligned([(f"{row.result:<4}", f"{row.check:<12}", legible(row.found))], ())
        if coloured:
            line = f"\x1b[{paint[row.result]}m{line[:4]}\x1b[0m{line[4:]}"
        click.echo(line)
        if row.fix:
            click.echo(f"{'':6}{'':12}  fix: {legible(row.fix)}")

    return show


async def _examine(
    receiver: str | None, root: str | None, store: str | None, given: dict[str, Any], options: dict[str, Any],
    show: Callable[[Row], None],
) -> bool:  # fmt: skip
    """Whether anything failed."""
    failed = False

    def shown(row: Row) -> Row:
        nonlocal failed
        failed = failed or row.result == "fail"
        show(row)
        return row

    tls = _tls(options)
    if isinstance(tls, Row):
        shown(tls)
        return True
    if tls is not None and tls.cert:
        for row in _own_certificate(tls, "server" if store and not receiver else "client"):
            shown(row)
    if given.get("tls_crl"):
        shown(_revocations(tls, given["tls_crl"]) if tls is not None else fail("revocations", *_NO_TLS))
    if not AVAILABLE and (receiver or store):
        found = "Zstandard is missing: logs go over the network as they are, several times as many bytes"
        shown(warn("compression", found, "pip install backports.zstd"))
    source = None
    if root:
        source = _source(root, given)
        for row in [source] if isinstance(source, Row) else _under(source):
            shown(row)
    if receiver:
        await _way(receiver, tls, given, options, shown)
    if store:
        for row in _store(Path(store)):
            shown(row)
    return failed


# --- the way to the receiver


def _tls(options: dict[str, Any]) -> Tls | Row | None:
    ca, cert, key = (options[f"tls_{name}"] for name in ("ca", "cert", "key"))
    try:
        return Tls(ca or "", cert or "", key or "") if ca or cert or key else None
    except FlarelogError as error:
        return fail("tls", str(error), "give all three, or the CA and a token")


async def _way(
    receiver: str, tls: Tls | None, given: dict[str, Any], options: dict[str, Any], shown: Callable[[Row], Row]
) -> None:
    """Each step needs the one before it: after one that fails nothing more is tried."""
    steps: list[Callable[[], Awaitable[list[Row]]]] = [
        lambda: _address(receiver),
        lambda: asyncio.to_thread(_handshake, receiver, tls),
        lambda: _talk(receiver, given["run_id"], options),
    ]
    for step in steps:
        if any(shown(row).result == "fail" for row in await step()):
            return
    if given["site"] and tls is not None and not tls.cert:
        shown(warn("round trip", "not tried: a token reads, and sends nothing", "give --tls-cert and --tls-key"))
    elif given["site"]:
        shown(await _trip(receiver, tls, given["run_id"], given["site"]))
    else:
        shown(warn("round trip", "not tried: a test record is sent as a site", "give --site NAME"))


async def _address(receiver: str) -> list[Row]:
    try:
        host, port = parse_address(receiver)
    except FlarelogError as error:
        return [fail("address", str(error), "write it as receiver.example:4721")]
    name = host.strip("[]")
    try:
        async with asyncio.timeout(RESOLVES):
            entries = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError) as error:
        why_not = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", "") or str(error)
        fix = "look at the name, at /etc/resolv.conf and /etc/hosts, or give the receiver's IP address"
        return [fail("address", f"{name} does not resolve: {why_not}", fix)]
    found = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    rows = [ok("address", f"{receiver} is {', '.join(found[:4])}" if [name] != found else receiver)]
    return [*rows, await asyncio.to_thread(_connects, name, port, receiver)]


def _connects(name: str, port: int, receiver: str) -> Row:
    began = time.monotonic()
    try:
        with socket.create_connection((name, port), CONNECTS):
            return ok("connection", f"{1000 * (time.monotonic() - began):.1f} ms to connect")
    except ConnectionRefusedError:
        fix = (
            "start flarelog serve there, look at its --listen (127.0.0.1 serves its own machine alone), and at the port"
        )
        return fail("connection", f"nobody listens at {receiver}", fix)
    except OSError as error:
        why_not = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        fix = "a firewall may be between: let this machine connect to that port, and look at the address"
        return fail("connection", f"no connection to {receiver} within {CONNECTS:g} s: {why_not}", fix)


def _handshake(receiver: str, tls: Tls | None) -> list[Row]:
    trouble = why(receiver, tls)
    if trouble:
        return [fail("tls", trouble, "make both ends' certificates and --tls options agree: flarelog certs makes them")]
    host, _ = parse_address(receiver)
    if tls is None:
        if host in ("localhost", "[::1]") or host.startswith("127."):
            return [ok("tls", "none, and none is needed: the receiver is on this machine")]
        fix = "give --tls-ca, --tls-cert and --tls-key at both ends"
        return [warn("tls", "none: whoever is on the way can read and change the logs", fix)]
    try:
        certificate = _certificate_of(receiver, tls)
    except OSError as error:
        return [warn("tls", f"agreed, but its certificate could not be looked at: {error}", "try again")]
    names = ", ".join(str(value) for _, value in certificate.get("subjectAltName", ()))
    return [_dated("tls", f"the receiver's certificate is for {names}", certificate, "at the receiver")]


def _certificate_of(receiver: str, tls: Tls) -> dict[str, Any]:
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


def _own_certificate(tls: Tls, end: Any) -> Iterator[Row]:
    try:
        tls.check(end)
        # Not public, and there all the same: the one way to read a certificate without a package for it.
        decode = getattr(getattr(ssl, "_ssl"), "_test_decode_cert")  # noqa: B009
        certificate = decode(tls.cert)
    except FlarelogError as error:
        yield fail("certificate", str(error), "have it made anew, or name the files that belong together")
    except (AttributeError, OSError) as error:
        yield warn(
            "certificate", f"fits its key and CA; its dates could not be read: {error}", "look with openssl x509"
        )
    else:
        names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
        yield _dated("certificate", f"{tls.cert} names {', '.join(names) or 'nobody'}", certificate, "flarelog certs")


def _revocations(tls: Tls, crl: str) -> Row:
    fix = "have the CA make a new one (flarelog certs revoke), and name its file"
    try:
        from flarelog.security.certificate import revocations

        count, end = revocations(tls.ca, crl)
    except FlarelogError as error:
        return fail("revocations", str(error), fix)
    what = f"{crl} names {count:,} certificates"
    if math.isinf(end):
        return ok("revocations", f"{what}, without an end")
    left, until = end - time.time(), time.strftime("%Y-%m-%d", time.gmtime(end))
    if left <= 0:
        return fail("revocations", f"{what}, and expired on {until}: no receiver starts with it", fix)
    if left < SOON:
        return warn("revocations", f"{what}, until {until}: {left / 86400:.0f} days", fix)
    return ok("revocations", f"{what}, until {until}")


def _dated(check: str, what: str, certificate: dict[str, Any], where: str) -> Row:
    end = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    left = end - time.time()
    until = time.strftime("%Y-%m-%d", time.gmtime(end))
    if left <= 0:
        return fail(check, f"{what}, and expired on {until}", f"have a new one made: {where}")
    if left < SOON:
        return warn(check, f"{what}, until {until}: {left / 86400:.0f} days", f"have a new one made: {where}")
    return ok(check, f"{what}, until {until}")


async def _talk(receiver: str, run_id: str, options: dict[str, Any]) -> list[Row]:
    """What the receiver says of itself: protocol and clock."""
    try:
        run_name(run_id)
        async with client(receiver, dict(options)) as connected:
            connected.patience = CONNECTS
            began = time.time()
            about = await connected.about(run_id)
            ended = time.time()
            return [_protocol(about.major, about.minor, about.agent), *_clock(began, about.clock / 1000, ended)]
    except NotAllowed as error:
        return [
            fail(
                "protocol", str(error), "look at the receiver's policy, or give the certificate or token that it knows"
            )
        ]
    except FlarelogError as error:
        return [fail("protocol", str(error), "look at what the receiver itself says")]


def _protocol(major: int, minor: int, agent: str) -> Row:
    if major not in (0, wire.MAJOR):
        fix = "install matching versions of flarelog"
        return fail("protocol", f"the receiver speaks version {major}, this machine version {wire.MAJOR}", fix)
    if major == 0:
        return warn(
            "protocol", "the receiver does not say its version: it is an older one", "install a newer one there"
        )
    return ok("protocol", f"version {major}.{minor}, {agent or 'no program named'}")


def _clock(began: float, theirs: float, ended: float) -> Iterator[Row]:
    """The receiver's clock was read at some time between *began* and *ended*, both by this machine's."""
    if not theirs:
        return
    ahead, unsure = (began + ended) / 2 - theirs, (ended - began) / 2
    found = f"this machine's is {abs(ahead):.3f} s {'ahead of' if ahead > 0 else 'behind'} the receiver's"
    found += f", give or take {1000 * unsure:.0f} ms"
    if abs(ahead) - unsure > AHEAD:
        yield warn(
            "clock", found, "have both set by NTP: views that are ordered by time put this site's lines elsewhere"
        )
    else:
        yield ok("clock", found)


async def _trip(receiver: str, tls: Tls | None, run_id: str, site: str) -> Row:
    """A record that is sent as any log is, with a receipt."""
    fix = "look at what the receiver says, and at its policy: this site must be allowed to push"
    with tempfile.TemporaryDirectory(prefix="flarelog-doctor-") as directory:
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {socket.gethostname()}: a test record\n"
        Path(directory, LOG).write_text(line)
        began = time.monotonic()
        try:
            options = SidecarOptions(
                *(receiver, run_name(run_id), site_name(site), SourceOptions(directory, (LOG,))),
                delivery=DeliveryOptions(max_misses=6), once=True, drain_timeout=TRIP, tls=tls, ranks=False,
            )  # fmt: skip
            with _quiet():
                outcome = await Sidecar(options).run()
        except FlarelogError as refused:
            return fail("round trip", str(refused), fix)
    error = outcome.error or next((stream.error for stream in outcome.streams if stream.error), None)
    sent = [stream for stream in outcome.streams if stream.receipt is not None]
    if error is not None or not sent:
        if "is not registered" in str(error) or (error is not None and error.exit_code == 7):
            fix = f"announce the run, flarelog run-start {run_id}, or name one that is: --run"
        return fail("round trip", str(error or "; ".join(outcome.troubles) or "no receipt came"), fix)
    took = time.monotonic() - began
    return ok(
        "round trip", f"{len(line)} bytes of {sent[0].stream} were stored, with a receipt, in {1000 * took:.0f} ms"
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What a sidecar says is said in the row."""
    import logging

    logger = logging.getLogger("flarelog")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


# --- the logs of a site


def _source(root: str, given: dict[str, Any]) -> SourceOptions | Row:
    try:
        sites = in_force(*given["site_policy"])
        for site in sites:
            site.demand()
        return SourceOptions(root, given["include"], given["exclude"], sites=sites)
    except FlarelogError as error:
        return fail("consent", str(error), "ask the site's administrator, or correct the patterns")


def _under(source: SourceOptions) -> Iterator[Row]:
    if source.sites:
        yield ok("consent", f"{', '.join(site.where for site in source.sites)}: logs may leave")
    root = source.root
    if not os.path.isdir(root):
        yield warn("root", f"{root} is not there", "make it, or look at the path; a sidecar waits until it appears")
        return
    files, directories, closed, unnamed, alike = _walked(source)
    if closed:
        yield fail(
            "root", f"{_some(closed)} cannot be read by this user", "let it: setfacl -R -m u:USER:rX, or a group"
        )
    if unnamed:
        fix = "use letters, digits, '.', '_' and '-', or leave them out: --exclude"
        yield warn("names", f"{_some(unnamed)} cannot name a log and will not be sent", fix)
    if alike:
        fix = "rename one: a receiver on a file system that takes them for one (macOS, Windows) refuses the other"
        yield warn("names", f"{_some(alike)} differ in case alone", fix)
    if not closed:
        more = "" if files < FILES else " and more"
        yield ok("root", f"{files:,}{more} logs, all readable; directories: {directories:,}")
    yield from _file_system(root)
    yield from _inotify(directories)
    yield _descriptors(files, 1)


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:3])}{f' and {len(names) - 3:,} more' if len(names) > 3 else ''}"


def _walked(source: SourceOptions) -> tuple[int, int, list[str], list[str], list[str]]:
    """(logs, directories, what cannot be read, what cannot be named, pairs that differ in case alone)."""
    files, directories = 0, 0
    letters: dict[str, str] = {}
    alike: list[str] = []
    closed: list[str] = []
    unnamed: list[str] = []
    for directory, _, names in os.walk(source.root, onerror=lambda error: closed.append(str(error.filename))):
        directories += 1
        for name in names:
            path = os.path.join(directory, name)
            relative = os.path.relpath(path, source.root)
            if not source.matches(relative) or not os.path.isfile(path):
                continue
            files += 1
            if (other := letters.setdefault(relative.lower(), relative)) != relative:
                alike.append(f"{other} and {relative}")
            if not os.access(path, os.R_OK):
                closed.append(relative)
            try:
                log_name(relative)
            except FlarelogError:
                unnamed.append(relative)
        if files + directories > FILES:
            break
    return files, directories, closed, unnamed, alike


def _file_system(root: str) -> Iterator[Row]:
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return  # said already
    try:
        if remote(fd):
            fix = "run the sidecar where the logs are written, if that can be"
            yield warn("file system", "other machines may write there: what they add is seen with a delay", fix)
        elif not witness(identity(fd)):
            found = "neither file handles nor birth times: a file in another's place shows by its bytes alone"
            yield warn("file system", found, "keep the logs on ext4, XFS or btrfs")
        else:
            yield ok("file system", "local, and tells files apart")
    finally:
        os.close(fd)


def _inotify(directories: int) -> Iterator[Row]:
    if sys.platform != "linux":
        yield warn("inotify", "there is none on this system: files are polled", "run it on Linux, if that can be")
        return
    try:
        InotifyWatch().close()
    except OSError as error:
        fix = "sysctl fs.inotify.max_user_instances=1024 (and in /etc/sysctl.d)"
        yield warn("inotify", f"none is left for this user ({error.strerror}): files are polled", fix)
        return
    limit = _number(f"{_INOTIFY}/max_user_watches")
    if limit is not None and directories > limit // 2:
        fix = f"sysctl fs.inotify.max_user_watches={max(524288, 4 * directories)} (and in /etc/sysctl.d)"
        yield warn(
            "inotify", f"{directories:,} directories to watch, and {limit:,} watches for all of a user's programs", fix
        )
    else:
        watches = "watches without a known limit" if limit is None else f"{limit:,} watches"
        yield ok("inotify", f"{watches}; {directories:,} needed")


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def _descriptors(logs: int, each: int) -> Row:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and logs * each + 100 > hard:
        fix = "LimitNOFILE=65536 in the unit, or ulimit -Hn 65536: the others take turns until then"
        return warn("descriptors", f"{hard:,} files may be open at once, for {logs:,} logs", fix)
    allowed = "without a limit" if hard == resource.RLIM_INFINITY else f"{hard:,} may be open at once"
    return ok("descriptors", allowed)


# --- a store


def _store(root: Path) -> Iterator[Row]:
    if not root.exists():
        fix = "flarelog serve makes it; the directory above must be writable for the receiver's user"
        yield warn("store", f"{root} is not there yet", fix)
        root = next((parent for parent in root.absolute().parents if parent.is_dir()), Path("/"))
    elif not root.is_dir():
        yield fail("store", f"{root} is no directory", "name one, or move that file away")
        return
    else:
        yield _lock(root)
    try:
        took = _written(root)
    except OSError as error:
        fix = "let the receiver's user write there: chown it, or ReadWritePaths= in the unit"
        yield fail("writing", f"{root} cannot be written: {error.strerror}", fix)
    else:
        if took > SYNC:
            fix = "a faster disk, or serve --durability memory, which survives a kill but not a power cut"
            yield warn("writing", f"making a little durable takes {1000 * took:.0f} ms", fix)
        else:
            yield ok("writing", f"making a little durable takes {1000 * took:.1f} ms")
    yield from _letters(root)
    yield from _room(root)
    yield _descriptors(5_000, 2)


def _letters(root: Path) -> Iterator[Row]:
    """Whether names that differ in case alone are two there."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".flarelog-doctor-a", dir=root) as file:
            other = Path(file.name)
            folds = other.with_name(other.name.swapcase()).exists()
    except OSError:
        return  # said already
    if folds:
        fix = "put the store on a file system that tells them apart, or see that no two names are so alike"
        yield warn("letters", f"{root} takes names for one that differ in case alone; the second is refused", fix)
    else:
        yield ok("letters", "names that differ in case alone are two")


def _lock(root: Path) -> Row:
    """Whether a receiver is at work there. The lock is not tried: a receiver that starts just then would not get it."""
    try:
        inode = os.stat(root / ".lock").st_ino
        locks = Path("/proc/locks").read_text().splitlines()
    except FileNotFoundError:
        return ok("store", f"{root} is there")
    except OSError as error:
        return fail("store", f"{root} cannot be looked into: {error.strerror}", "run this as the receiver's user")
    taken = any(" FLOCK " in line and line.split()[5].rpartition(":")[2] == str(inode) for line in locks)
    return ok("store", f"{root} is there, and {'a' if taken else 'no'} receiver is at work on it")


def _written(directory: Path) -> float:
    """The median of the seconds that a little data takes to be durable. Raises OSError."""
    times = []
    with tempfile.NamedTemporaryFile(prefix=".flarelog-doctor-", dir=directory) as file:
        for _ in range(5):
            began = time.monotonic()
            file.write(b"a line of a log, as long as most of them are\n" * 20)
            file.flush()
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - began)
    return sorted(times)[2]


def _room(root: Path) -> Iterator[Row]:
    found = os.statvfs(root)
    free, whole = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    said = f"{free / 2**30:,.1f} GiB of {whole / 2**30:,.1f} GiB are free"
    fix = f"make room on the file system of {root}, or limit runs: serve --max-run-bytes"
    yield _enough("space", free, LEAST_FREE, LITTLE_FREE, said, fix)
    if found.f_files:
        said = f"{found.f_favail:,} of {found.f_files:,} are free; a log takes two"
        fix = f"remove old runs below {root}, or make the file system with more inodes"
        yield _enough("inodes", found.f_favail, LEAST_INODES, LITTLE_INODES, said, fix)


def _enough(check: str, free: int, least: int, little: int, said: str, fix: str) -> Row:
    if free < least:
        return fail(check, said, fix)
    return warn(check, said, fix) if free < little else ok(check, said)
