"""The peers: rsyslog over TCP and over RELP, and syslog-ng, each from a file over loopback into a file.

Debian's packages are fetched with apt and unpacked into ``build/peers``. They are not installed, because the two
conflict, and no service is started. An installed peer is not fetched. Both ends run in the foreground with their own
configuration, port and directories. The peers treat each line as an event. They are configured to keep lines unchanged,
and a round counts only if the stored file equals the source.

RELP is slow with packets as large as loopback's 64 KiB. Root can give it a network namespace with packets of 1,500
bytes, and the row says whether it had one.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import processes
from bench.processes import BenchError

BUILD = processes.PROJECT / "build" / "peers"
RSYSLOG, SYSLOG_NG = ("rsyslog", "rsyslog-relp"), ("syslog-ng-core",)
_HOW = "install {} (Debian), or run where apt can fetch them"
_LONGEST_FETCH = 300.0  # seconds


Started = tuple[subprocess.Popen[bytes], subprocess.Popen[bytes], Path]  # sender, receiver, stored file
Pair = contextlib.AbstractContextManager[Started]


@dataclass(frozen=True, slots=True)
class Peer:
    """A program that sends a file."""

    name: str
    packages: tuple[str, ...]
    relp: bool = False
    follow: float | None = None  # seconds between polls of the file; None: the peer's default

    def missing(self) -> str:
        """Why the peer is not available, and the remedy; empty if it is."""
        return _fetched(self.packages)

    def version(self) -> str:
        """The peer's version; "none" if it is not available."""
        if self.missing():
            return "none"
        binary, environment, _ = _found(self.packages)
        said = subprocess.run(
            [binary, "-v" if self.packages == RSYSLOG else "-V"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=20,
        ).stdout
        return next(iter(re.findall(r"\d+\.\d[\w.]*", said)), "unknown")

    def pair(self, work: Path, source: Path) -> Pair:
        """Start sender and receiver; yield them and the stored file. *source* is sent from its beginning and
        followed.
        """
        return (_rsyslog if self.packages == RSYSLOG else _syslog_ng)(self, work, source)


TCP = Peer("rsyslog, TCP", RSYSLOG)
RELP = Peer("rsyslog, RELP", RSYSLOG, relp=True)
NG = Peer("syslog-ng, TCP", SYSLOG_NG)
NG_OFTEN = Peer("syslog-ng, follow-freq 0.01", SYSLOG_NG, follow=0.01)
ALL = (TCP, RELP, NG)


# --- fetching the peers


@functools.cache
def _fetched(packages: tuple[str, ...]) -> str:
    """Fetch *packages* if needed. Returns why they are not available; empty if they are."""
    if _where(packages) is not None:
        return ""
    how = _HOW.format(" and ".join(packages))
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return f"missing, and there is no apt-get here: {how}"
    end = time.monotonic() + _LONGEST_FETCH
    try:
        needed = _needed(packages, end)
        BUILD.mkdir(parents=True, exist_ok=True)
        _run(end, "apt-get", "download", "-qq", *needed)
        for archive in sorted(BUILD.glob("*.deb")):
            _run(end, "dpkg-deb", "-x", archive.name, "root")
            archive.unlink()
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return f"missing, and apt-get could not fetch it ({said.strip().splitlines()[-1][:200]}): {how}"
    return "" if _where(packages) is not None else f"missing, and Debian's package has it elsewhere: {how}"


def _needed(packages: tuple[str, ...], end: float) -> list[str]:
    """*packages* and their dependencies that are not installed."""
    command = ("apt-get", "install", "--simulate", "--no-install-recommends", *packages)
    try:
        said = _run(end, *command, cwd=processes.PROJECT)
    except subprocess.CalledProcessError:  # apt's lists are missing or stale
        _run(end, "apt-get", "update", "-qq", cwd=processes.PROJECT)
        said = _run(end, *command, cwd=processes.PROJECT)
    return sorted({*packages, *(line.split()[1] for line in said.splitlines() if line.startswith("Inst "))})


def _run(end: float, *command: str, cwd: Path | None = None) -> str:
    return subprocess.run(
        command,
        cwd=cwd or BUILD,
        env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=max(1.0, end - time.monotonic()),
    ).stdout


def _where(packages: tuple[str, ...]) -> tuple[Path, Path, Path] | None:
    """(program, directory of its modules, root of both); None if they are not here."""
    for root in (Path("/"), BUILD / "root"):
        binary = root / "usr/sbin" / ("rsyslogd" if packages == RSYSLOG else "syslog-ng")
        pattern = "rsyslog/omrelp.so" if packages == RSYSLOG else "syslog-ng/*/libaffile.so"
        module = next(iter(sorted((root / "usr/lib").glob(f"*/{pattern}"))), None)
        module = module or next(iter(sorted((root / "usr/lib").glob(pattern))), None)
        if binary.exists() and module is not None:
            return binary, module.parent, root
    return None


def _found(packages: tuple[str, ...]) -> tuple[Path, dict[str, str], Path]:
    """(program, its environment, directory of its modules). Raises BenchError."""
    found = _where(packages)
    if found is None:
        raise BenchError(_fetched(packages))
    binary, modules, root = found
    if root == Path("/"):
        return binary, {}, modules
    libraries = {path.parent for path in root.rglob("*.so*") if path.parent != modules}
    return binary, {"LD_LIBRARY_PATH": ":".join(map(str, sorted(libraries)))}, modules


# --- running the peers


@functools.cache
def small_packets() -> bool:
    """Whether this process may create a network namespace."""
    try:
        _run(time.monotonic() + 10, "unshare", "--net", "ip", "link", "show", "lo", cwd=processes.PROJECT)
        return shutil.which("nsenter") is not None
    except (OSError, subprocess.SubprocessError):
        return False


def packets(name: str) -> str:
    """The note on the packet size of the peer *name*; empty for others than RELP."""
    if name != RELP.name or RELP.missing():
        return ""
    return "packets of 1,500 bytes" if small_packets() else "packets of 64 KiB: no network namespace could be had"


@contextlib.contextmanager
def _network(work: Path, own: bool) -> Iterator[tuple[str, ...]]:
    """Yield the words before a command that run it in a new network namespace; none without *own* or the rights."""
    if not (own and small_packets()):
        yield ()
        return
    up = "ip link set lo mtu 1500 up && echo up >&2 && exec sleep infinity"
    talk = work / "network.err"
    with processes.program("unshare", "--net", "sh", "-c", up, talk=talk) as holder:
        processes.wait_for(lambda: processes.size(talk) > 0, 10, "a network namespace", holder)
        yield ("nsenter", f"--net=/proc/{holder.pid}/ns/net")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def _rsyslog(peer: Peer, work: Path, source: Path) -> Iterator[Started]:
    binary, environment, modules = _found(peer.packages)
    port, stored = _free_port(), work / "stored.txt"
    common = (
        'global(workDirectory="{0}" maxMessageSize="64k" parser.escapeControlCharactersOnReceive="off")\n'
        'main_queue(queue.type="LinkedList" queue.size="50000" queue.dequeueBatchSize="1024")\n'
        'template(name="line" type="string" string="{1}\\n")\n'
    )
    if peer.relp:
        input_, load, output = (
            "imrelp",
            'module(load="omrelp")\n',
            f'type="omrelp" target="127.0.0.1" port="{port}" template="as-is"',
        )
        listen = f'input(type="imrelp" address="127.0.0.1" port="{port}" maxDataSize="64k")\n'
    else:
        input_, load, output = (
            "imptcp",
            "",
            f'type="omfwd" target="127.0.0.1" port="{port}" protocol="tcp" template="as-is"',
        )
        # Otherwise a line that begins with a digit, as a date, is parsed as a length.
        listen = f'input(type="imptcp" address="127.0.0.1" port="{port}" supportOctetCountedFraming="off")\n'
    receiving = (
        common.format(work / "receiving", "%rawmsg%")
        + f'module(load="{input_}")\n{listen}action(type="omfile" file="{stored}" template="line")\n'
    )
    sending = (
        common.format(work / "sending", "%msg%")
        + 'template(name="as-is" type="string" string="%msg%")\n'
        + f'{load}module(load="imfile" mode="inotify")\n'
        + f'input(type="imfile" file="{source}" tag="bench:" addMetadata="off")\n'
        + f'action({output} action.resumeRetryCount="-1" action.resumeInterval="1")\n'
    )

    def command(name: str, text: str) -> tuple[str | Path, ...]:
        (work / name).mkdir()
        configuration = work / f"{name}.conf"
        configuration.write_text(text)
        return (binary, "-n", "-M", modules, "-f", configuration, "-i", work / f"{name}.pid")

    with (
        _network(work, peer.relp) as network,
        processes.program(*network, *command("receiving", receiving), talk=work / "r.err", **environment) as receiver,
    ):
        time.sleep(0.5)  # a port in another namespace cannot be polled
        with processes.program(*network, *command("sending", sending), talk=work / "s.err", **environment) as sender:
            yield sender, receiver, stored


@contextlib.contextmanager
def _syslog_ng(peer: Peer, work: Path, source: Path) -> Iterator[Started]:
    binary, environment, modules = _found(peer.packages)
    port, stored = _free_port(), work / "stored.txt"
    version = ".".join(modules.name.split(".")[:2])
    often = f" follow-freq({peer.follow})" if peer.follow is not None else ""
    options = f"@version: {version}\noptions {{ stats-freq(0); log-msg-size(65536); use-dns(no); dns-cache(no); }};\n"
    receiving = (
        f'source s {{ network(ip("127.0.0.1") port({port}) transport("tcp") flags(no-parse) log-iw-size(10000)'
        " log-fetch-limit(1000)); };\n"
        f'destination d {{ file("{stored}" template("$MSG\\n") log-fifo-size(20000)); }};\n'
    )
    sending = (
        f'source s {{ file("{source}" flags(no-parse){often} log-iw-size(10000) log-fetch-limit(1000)); }};\n'
        f'destination d {{ network("127.0.0.1" port({port}) transport("tcp") template("$MSG\\n")'
        " log-fifo-size(20000)); };\n"
    )
    path = "log { source(s); destination(d); flags(flow-control); };\n"

    def command(name: str, text: str) -> tuple[str | Path, ...]:
        (work / name).mkdir()
        configuration = work / f"{name}.conf"
        configuration.write_text(options + text + path)
        own = ("-R", work / name / "persist", "-c", work / name / "control", "-p", work / name / "pid")
        return (binary, "-F", "--no-caps", f"--module-path={modules}", "-f", configuration, *own)

    with processes.program(*command("receiving", receiving), talk=work / "r.err", **environment) as receiver:
        processes.wait_for(lambda: _accepts(port), 20, "a receiver that listens", receiver, every=0.05)
        with processes.program(*command("sending", sending), talk=work / "s.err", **environment) as sender:
            yield sender, receiver, stored


def _accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
