"""``flarelog run`` with real processes: a command's output is kept byte for byte, and its exit status is passed on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from flarelog.locks import has_the_word
from flarelog.sources.zone import system_zone
from integration.harness.mounts import tmpfs
from integration.harness.places import (
    FLARELOG,
    PATIENCE,
    Place,
    Receiver,
    difference,
    environment,
    free_address,
    noise,
    until,
)
from tests.certificates import Authority
from tests.often import each, table

SITE, RUN = "site-1", "job-1"
SPEAK = "import os, sys, time\n"


class Ran:
    """``flarelog run`` with a command, in a directory of its own."""

    def __init__(
        self,
        directory: Path,
        *args: str,
        command: list[str],
        before: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        stdout: int | IO[bytes] = subprocess.PIPE,
        stderr: int | IO[bytes] = subprocess.PIPE,
    ) -> None:
        self.directory, self.spool = directory, directory / "spool"
        named = () if any(arg == "--spool" for arg in args) else ("--spool", str(self.spool))
        self.process = subprocess.Popen(
            [*before, *FLARELOG, "run", *named, *args, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=directory,
            env=environment() | (env or {}),
        )

    def ends(self, seconds: float = PATIENCE) -> tuple[int, bytes, bytes]:
        try:
            out, err = self.process.communicate(timeout=seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        return self.process.returncode, out, err

    def spooled(self, log: str = "stdout.log") -> bytes:
        """All segments, the oldest first."""
        path = self.spool / log
        older = sorted(path.parent.glob(f"{path.name}.????????"))
        return b"".join(one.read_bytes() for one in [*older, path] if one.exists())


def python(text: str, *args: str) -> list[str]:
    return [sys.executable, "-c", SPEAK + text, *args]


def children(pid: int) -> dict[int, str]:
    """The children of *pid*, with their command lines."""
    found = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            if int(Path(f"/proc/{other}/stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found[int(other)] = Path(f"/proc/{other}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def spooler_of(pid: int) -> int:
    """The fork of *pid* that spools: the one that has none of the process's own outputs open."""
    for child, line in children(pid).items():
        with contextlib.suppress(OSError):
            if " run " in line and {os.readlink(f"/proc/{child}/fd/{fd}") for fd in (1, 2)} == {"/dev/null"}:
                return child
    return 0


def copiers_of(pid: int) -> list[int]:
    found = []
    for child, line in children(pid).items():
        with contextlib.suppress(OSError):
            nulls = [os.readlink(f"/proc/{child}/fd/{fd}") == "/dev/null" for fd in (0, 1, 2)]
            if " run " in line and nulls[0] and sum(nulls) == 2:
                found.append(child)
    return found


def sidecars_of(pid: int) -> list[int]:
    return [child for child, line in children(pid).items() if " sidecar " in line]


def only_sends(pid: int) -> bool:
    """Whether the sidecar is the only child of *pid*."""
    lines = list(children(pid).values())
    return len(lines) == 1 and " sidecar " in lines[0]


def shown(place: Place, receiver: Receiver) -> list[dict[str, Any]]:
    """The streams of the run in one answer of the receiver."""
    return list(place.streams("--receiver", receiver.address, run=RUN).values())


# --- bytes


AWKWARD = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"no line end", id="no-line-end", marks=pytest.mark.soak),
    pytest.param(b"\0\xff\xfe\r\r\n\x1b[2K" * 1000, id="nuls-and-bad-utf-8"),
    pytest.param(noise(5 << 20), id="five-mib", marks=pytest.mark.soak),
]


@pytest.mark.parametrize("said", AWKWARD)
def test_both_outputs_are_kept_and_copied_byte_for_byte(tmp_path: Path, said: bytes) -> None:
    (tmp_path / "said").write_bytes(said)
    ran = Ran(tmp_path, command=["sh", "-c", "cat said; tac said >&2 || cat said >&2"])
    code, out, err = ran.ends()
    assert code == 0
    assert out == said == ran.spooled(), difference(said, ran.spooled())
    assert err == ran.spooled("stderr.log")


def test_merged_outputs_are_one_log_in_the_order_of_their_writes(tmp_path: Path) -> None:
    text = "for n in range(500): os.write(1 + n % 2, b'%d\\n' % n)"
    ran = Ran(tmp_path, "--merge", "--log", "train.log", command=python(text))
    code, out, err = ran.ends()
    assert (code, err) == (0, b"")
    assert out == ran.spooled("train.log") == b"".join(b"%d\n" % n for n in range(500))


@pytest.mark.parametrize("way", ["--merge", pytest.param("--pty", marks=pytest.mark.soak)])
def test_one_log_of_both_outputs_and_one_output_alone_are_refused_together(tmp_path: Path, way: str) -> None:
    code, out, err = Ran(tmp_path, way, "--capture", "stderr", command=["echo", "said"]).ends()
    assert (code, out) == (2, b"")
    assert b"leave out capture" in err


def test_one_output_alone_is_kept_and_the_other_stays_as_it_is(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        ran = Ran(
            tmp_path, "--capture", "stderr", command=["sh", "-c", "stat -Lc %F /dev/stdout; echo no >&2"], stdout=out
        )
        code, _, err = ran.ends()
    assert (code, err, (tmp_path / "out").read_bytes()) == (0, b"no\n", b"regular empty file\n")
    assert ran.spooled("stderr.log") == b"no\n"
    assert not (ran.spool / "stdout.log").exists()


def test_everything_arrives_at_the_receiver_and_the_spool_is_gone(place: Place) -> None:
    receiver = place.serve()
    said = noise(3 << 20)
    (place.directory / "said").write_bytes(said)
    ran = Ran(
        place.directory,
        *("--receiver", receiver.address, "--run", RUN, "--site", SITE),
        command=["sh", "-c", "cat said; echo bad >&2; exit 7"],
    )
    code, out, err = ran.ends()
    assert (code, out, err) == (7, said, b"bad\n")
    receiver.holds(said, "stdout.log", SITE, RUN)
    receiver.holds(b"bad\n", "stderr.log", SITE, RUN)
    assert list(ran.spool.rglob("*")) == []
    assert ran.spool.is_dir(), "the directory that was named is the user's"


@pytest.mark.parametrize(
    "named",
    [pytest.param("flag", marks=pytest.mark.soak), pytest.param("variable", marks=pytest.mark.soak), "relative"],
)
def test_where_a_configuration_file_tells_the_receiver_everything_arrives(place: Place, named: str) -> None:
    receiver = place.serve()
    file = place.directory / "conf.toml"
    file.write_text(
        f'[run]\nreceiver = ["{receiver.address}"]\nrun = "{RUN}"\nsite = "{SITE}"\nredact = ["passwords"]\n'
        '[sidecar]\nranks = "off"\n'
    )
    path = file.name if named == "relative" else str(file)
    ran = Ran(
        place.directory,
        *(("--config", path) if named != "variable" else ()),
        command=["echo", "password=hunter2"],
        env={"FLARELOG_CONFIG": path} if named == "variable" else {},
    )
    assert ran.ends() == (0, b"password=hunter2\n", b"")
    receiver.holds(b"password=*******\n", "stdout.log", SITE, RUN)
    assert list(ran.spool.rglob("*")) == []


@pytest.mark.parametrize("how", [pytest.param("variables", marks=pytest.mark.soak), "file"])
def test_what_other_sidecars_are_told_to_leave_out_is_sent_all_the_same(place: Place, how: str) -> None:
    receiver = place.serve()
    others = {"include": ["*.txt"], "exclude": ["stdout.log"], "start-at": "end", "ignore-older": 0.001, "once": True}
    others |= {"drain-limit": 0.01, "state": "/dev/null/state"}
    file = place.directory / "conf.toml"
    file.write_text("[sidecar]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in others.items()))
    told = {
        "FLARELOG_" + name.upper().replace("-", "_"): "1" if value is True else str(value).strip("[]'")
        for name, value in others.items()
    }
    ran = Ran(
        place.directory,
        *("--receiver", receiver.address, "--run", RUN, "--site", SITE),
        command=["sh", "-c", "echo first; sleep 0.3; echo second"],
        env=told if how == "variables" else {"FLARELOG_CONFIG": str(file)},
    )
    assert ran.ends() == (0, b"first\nsecond\n", b"")
    receiver.holds(b"first\nsecond\n", "stdout.log", SITE, RUN)


def test_a_log_may_have_the_name_of_what_a_sidecar_takes_for_no_log(place: Place) -> None:
    receiver = place.serve()
    named = ("--receiver", receiver.address, "--run", RUN, "--site", SITE)
    ran = Ran(place.directory, *named, "--merge", "--log", "model.pt", command=["echo", "hi"])
    assert ran.ends() == (0, b"hi\n", b"")
    receiver.holds(b"hi\n", "model.pt", SITE, RUN)
    code, _, err = Ran(place.directory, *named, "--merge", "--log", "logs/.hid", command=["echo", "hi"]).ends()
    assert (code, err) == (
        2,
        b"flarelog: the log's name is 'logs/.hid'; a hidden file is not sent: choose a name without the dot\n",
    )


LONG = """
for n in range(8):
    for out in (sys.stdout, sys.stderr):
        print('a line of', out.name, '.' * 8000, file=out, flush=True)
    time.sleep(0.05)
"""


SECRETS = """
key = [('MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC%06d' % n).ljust(64, 'A') for n in range(30)]
for n in range(120):
    print('%06d login of all password=hunter2-SECRET%06d' % (n, n))
    print('-----BEGIN PRIVATE KEY-----', *key, '-----END PRIVATE KEY-----', sep=chr(10), flush=True)
"""


def test_redaction_masks_what_crosses_the_ends_of_parts_and_nothing_else(place: Place) -> None:
    receiver = place.serve()
    code, out, _ = Ran(place.directory, *sent(receiver), "--redact", "all", "--spool-max", "2000000",
                       command=python(SECRETS)).ends()  # fmt: skip
    assert code == 0
    secrets = re.compile(rb"(?<=password=)\S+|^MII.*", re.MULTILINE)
    receiver.holds(secrets.sub(lambda found: b"*" * len(found[0]), out), "stdout.log", SITE, RUN)


@pytest.mark.parametrize(
    "policy", ['exclude = ["stderr.log"]', pytest.param('include = ["stdout.log"]', marks=pytest.mark.soak)]
)
def test_no_part_of_a_log_that_the_sites_policy_leaves_out_is_sent(place: Place, policy: str) -> None:
    receiver = place.serve()
    (place.directory / "policy.toml").write_text(policy)
    Ran(place.directory, *sent(receiver), "--site-policy", "policy.toml", "--spool-max", "32768", "--copy", "off",
        command=python(LONG)).ends()  # fmt: skip
    assert list(place.streams("--receiver", receiver.address, run=RUN)) == [f"{SITE}/stdout.log"]


def test_all_parts_of_a_log_that_the_sites_policy_lets_go_are_sent_later(place: Place) -> None:
    (place.directory / "policy.toml").write_text('include = ["stdout.log"]')
    named = ("--receiver", free_address(), "--run", RUN, "--site", SITE, "--site-policy", "policy.toml")
    ran = Ran(place.directory, *named, "--linger", "0.2", "--spool-max", "320000", command=python(LONG))
    _, out, err = ran.ends()
    receiver = place.serve()
    (later,) = re.findall(r"this command sends it: (.*)", err.decode())
    again = shlex.split(later.replace(named[1], receiver.address))
    assert place.call(*again[1:]).ends() == 0
    receiver.holds(out, "stdout.log", SITE, RUN)


@pytest.mark.parametrize(
    ("policy", "left_out"),
    [
        pytest.param('include = ["train.log"]', ("stderr.log", "stdout.log"), id="all"),
        pytest.param('exclude = ["stderr.log"]', ("stderr.log",), id="one"),
        pytest.param('include = ["*.log"]', (), id="none", marks=pytest.mark.soak),
    ],
)
def test_what_the_sites_policy_leaves_out_is_kept_and_told(
    place: Place, policy: str, left_out: tuple[str, ...]
) -> None:
    receiver = place.serve()
    (place.directory / "policy.toml").write_text(policy)
    command = ["sh", "-c", "echo precious; echo secret >&2"]
    ran = Ran(place.directory, *sent(receiver), "--site-policy", "policy.toml", "--copy", "off", command=command)
    code, _, err = ran.ends()
    (root,) = [path.parent for path in ran.spool.rglob(left_out[0])] if left_out else [None]
    told = f"flarelog: the site's policy leaves out {', '.join(left_out)}: {root} keeps what was not sent\n"
    assert (code, err.decode()) == (0, told if left_out else "")
    texts = {"stdout.log": b"precious\n", "stderr.log": b"secret\n"}
    kept = {path.name: path.read_bytes() for path in ran.spool.rglob("*") if path.is_file() and path.name[0] != "."}
    assert kept == {log: texts[log] for log in left_out}
    stored = list(place.streams("--receiver", receiver.address, run=RUN)) if len(left_out) < 2 else []
    assert stored == [f"{SITE}/{log}" for log in sorted(texts) if log not in left_out]


@pytest.mark.parametrize(
    ("way", "options", "said"),
    table(
        ["flag", "variable"],
        [
            pytest.param({"redact": "foo"}, "the redaction 'foo' is unknown", id="redact"),
            pytest.param({"tls-ca": "none.crt"}, "none.crt cannot be read: No such file or directory", id="tls-file"),
            pytest.param(
                {"tls-cert": "x"}, "TLS needs --tls-ca, --tls-cert and --tls-key; missing: --tls-ca", id="half"
            ),
            pytest.param({"tls-ca": "ca.crt"}, "missing: --tls-cert, --tls-key", id="a-ca-alone"),
            pytest.param({"tls-ca": "policy.toml"}, "policy.toml holds no CA certificate in PEM", id="no-pem"),
            pytest.param({"site-policy": "none.toml"}, "/none.toml cannot be read", id="no-policy"),
            pytest.param({"site-policy": "policy.toml"}, "/policy.toml is not valid TOML", id="policy"),
            pytest.param(
                {"zone": "Mars/Olympus"}, "FLARELOG_ZONE=Mars/Olympus: --zone 'Mars/Olympus' is unknown", id="zone"
            ),
        ],
    ),
)
def test_where_an_option_is_wrong_nothing_is_started(
    tmp_path: Path, way: str, options: dict[str, str], said: str
) -> None:
    if way == "flag" and "zone" in options:
        return  # only a variable sets the zone
    (tmp_path / "policy.toml").write_text("nonsense")
    if options.get("tls-ca") == "ca.crt":
        shutil.copy(Authority.new(tmp_path / "certs").directory / "ca.crt", tmp_path)
    flags = [word for name, value in options.items() for word in (f"--{name}", value)] if way == "flag" else []
    told = {f"FLARELOG_{name.upper().replace('-', '_')}": value for name, value in options.items()}
    ran = Ran(tmp_path, "--receiver", free_address(), *flags, command=["touch", "started"],
              env=told if way == "variable" else {})  # fmt: skip
    code, out, err = ran.ends()
    # As for a sidecar: 78 where a file that an option names cannot be used.
    wanted = 78 if ".toml" in said or "cannot be read" in said or "no CA" in said else 2
    assert (code, out, (tmp_path / "started").exists(), ran.spool.exists()) == (wanted, b"", False, False), err
    assert said in err.decode()
    assert err.count(b"\n") == 1


@pytest.mark.parametrize(
    ("table", "code", "said"),
    [
        pytest.param('ranks = "maybe"', 2, "line 4: ranks: 'maybe' is not", id="a-word", marks=pytest.mark.soak),
        pytest.param('exclude = ["a["]', 2, "line 4: exclude: the pattern 'a['", id="a-glob"),
        pytest.param('zone = "Mars/Olympus"', 2, "zone 'Mars/Olympus' is unknown", id="a-zone", marks=pytest.mark.soak),
        pytest.param('site-policy = "none.toml"', 78, "none.toml", id="a-file"),
        pytest.param(
            'tls-cert = "x"', 2, "TLS needs --tls-ca, --tls-cert and --tls-key", id="half", marks=pytest.mark.soak
        ),
        pytest.param("drain-timeout = -1", 2, "line 4: --drain-timeout must be a positive number", id="a-number"),
        pytest.param('run = "a b"', 2, "line 4: run: the run's name is 'a b'", id="a-name", marks=pytest.mark.soak),
        pytest.param("nonsense = 1", 78, "line 4: flarelog sidecar has no option 'nonsense'", id="a-key"),
    ],
)
def test_where_the_sidecars_table_of_a_file_is_wrong_nothing_is_started(
    tmp_path: Path, table: str, code: int, said: str
) -> None:
    address = free_address()
    (tmp_path / "conf.toml").write_text(f'[run]\nreceiver = ["{address}"]\n[sidecar]\n{table}\n')
    ran = Ran(tmp_path, "--config", "conf.toml", command=["touch", "started"])
    ended, out, err = ran.ends()
    assert (ended, out, (tmp_path / "started").exists(), ran.spool.exists()) == (code, b"", False, False), err
    assert said in err.decode()
    assert err.count(b"\n") == 1, err.decode()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("START_AT", "middle"),
        ("DRAIN_TIMEOUT", "-1"),
        *(
            pytest.param(name, value, marks=pytest.mark.soak)
            for name, value in [("RANKS", "maybe"), ("COMPRESSION", "much"), ("ONCE", "maybe"), ("IGNORE_OLDER", "x")]
        ),
    ],
)
def test_where_a_variable_of_sidecars_is_wrong_nothing_is_started(tmp_path: Path, name: str, value: str) -> None:
    env = {f"FLARELOG_{name}": value}
    ran = Ran(tmp_path, "--receiver", free_address(), command=["touch", "started"], env=env)
    code, out, err = ran.ends()
    assert (code, out, (tmp_path / "started").exists(), ran.spool.exists()) == (2, b"", False, False), err
    assert f"FLARELOG_{name}" in err.decode()
    assert err.count(b"\n") == 1, err.decode()


def test_a_certificate_that_has_expired_fails_no_command(tmp_path: Path) -> None:
    pair = Authority.new(tmp_path / "certs").issue("site-1", days=(-10, -1))
    words = pair.arguments()
    table = "".join(f'{name[2:]} = "{value}"\n' for name, value in zip(words[::2], words[1::2], strict=True))
    (tmp_path / "conf.toml").write_text(f"[sidecar]\n{table}")
    for said in (words, ("--config", "conf.toml")):
        ran = Ran(tmp_path, "--receiver", free_address(), "--linger", "0.2", *said, command=["echo", "hi"])
        assert ran.ends()[:2] == (0, b"hi\n")


@pytest.mark.parametrize("env", [{}, {"FLARELOG_ZONE": "Europe/Oslo"}], ids=["flag", "flag-and-variable"])
def test_a_site_that_lets_nothing_go_is_no_receiver_that_refuses(place: Place, env: dict[str, str]) -> None:
    receiver = place.serve()
    (place.directory / "policy.toml").write_text("allow_log_streaming = false")
    ran = Ran(place.directory, *sent(receiver), "--site-policy", "policy.toml", command=["echo", "hi"], env=env)
    code, out, err = ran.ends()
    assert (code, out, ran.spool.exists()) == (0, b"hi\n", True)
    said = err.decode().splitlines()
    assert len(said) == 2, said
    assert said[0].endswith("no log leaves this site, and no file was read")
    assert said[1].startswith("flarelog: not all of it was sent, for the reason above; ")
    assert "receiver refuses" not in said[1]
    policy = place.directory / "policy.toml"  # an absolute path, so that the command works in any directory
    assert said[1].endswith(f"--site-policy {policy} --once"), "no command removes what a policy may leave out"


def test_where_the_output_is_still_spooled_at_the_end_a_command_sends_the_rest(place: Place) -> None:
    """The command ends at once, while another process holds its output open."""
    named = ("--receiver", free_address(), "--run", RUN, "--site", SITE, "--linger", "0", "--copy", "off")
    ends, goes_on = place.directory / "ends", place.directory / "goes-on"
    waits = "until [ -e {} ]; do sleep 0.05; done"
    command = ["sh", "-c", f"echo first; ({waits.format(goes_on)}; echo last) & {waits.format(ends)}"]
    err = place.directory / "err"
    with open(err, "wb") as file:
        ran = Ran(place.directory, *named, command=command, stderr=file)
        until(lambda: "retrying" in err.read_text(), "the sidecar has begun")
        ends.touch()
        assert ran.ends()[0] == 0
        at_the_prompt = err.read_text()
        goes_on.touch()
        spool = next(ran.spool.rglob(".stdout.log.spool"))
        until(lambda: (spool.parent / "stdout.log").read_bytes() == b"first\nlast\n", "the last words are spooled")
        time.sleep(1.5)  # a sidecar's message would have come by now
    assert err.read_text() == at_the_prompt
    assert "flarelog: the sidecar continues to send it from" in at_the_prompt
    receiver = place.serve()
    (later,) = re.findall(r"when the output has ended, this command sends and removes it: (.*)", at_the_prompt)
    again = shlex.split(later.replace(named[1], receiver.address))
    assert again[-2:] == ["--accept-gaps", "--remove-spool"]
    assert place.call(*again[1:]).ends() == 0
    receiver.holds(b"first\nlast\n", "stdout.log", SITE, RUN)
    assert not spool.parents[2].exists()


def test_a_command_that_is_run_again_goes_on_in_its_log_and_nothing_looks_lost(place: Place) -> None:
    receiver = place.serve()
    for said in ("first", "second"):
        named = ("--receiver", receiver.address, "--run", RUN, "--site", SITE)
        assert Ran(place.directory, *named, command=["echo", said]).ends()[0] == 0
    record = receiver.holds(b"first\nsecond\n", "stdout.log", SITE, RUN)
    assert "unseen" not in [one.get("ended") for one in record["generations"]]
    assert not record["gaps"]


def test_nuls_that_a_command_says_first_are_no_hole(place: Place) -> None:
    receiver = place.serve()
    named = ("--receiver", receiver.address, "--run", RUN, "--site", SITE)
    assert Ran(place.directory, *named, command=["printf", r"\0\0line\n"]).ends()[0] == 0
    receiver.holds(b"\0\0line\n", "stdout.log", SITE, RUN)
    assert "hole" not in place.call("logs", RUN, "--receiver", receiver.address).printed


def test_a_receiver_is_needed_neither_to_start_nor_to_end_and_may_come_later(place: Place) -> None:
    address = free_address()
    named = ("--receiver", address, "--run", RUN, "--site", SITE, "--linger", "0.5")
    first = Ran(place.directory, *named, command=["sh", "-c", "echo first"])
    code, out, err = first.ends()
    assert (code, out) == (0, b"first\n")
    assert b"the receiver does not have all of it" in err
    receiver = place.serve(listen=address)
    second = Ran(place.directory, *named, "--linger", "5", command=["sh", "-c", "echo second"])
    assert second.ends()[:2] == (0, b"second\n")
    receiver.gets(b"first\nsecond\n", "stdout.log", SITE, RUN)


def test_a_command_that_is_run_again_also_sends_what_one_beside_it_left(place: Place) -> None:
    """Two commands of one name at a time have a spool each; the same command later has the first one's alone."""
    address = free_address()
    named = ("--receiver", address, "--run", RUN, "--site", SITE, "--linger", "0.2", "--copy", "off")
    go = place.directory / "go"
    first = Ran(place.directory, *named, command=["sh", "-c", f"echo one; while [ ! -e {go} ]; do sleep 0.05; done"])
    until(lambda: list(first.spool.rglob(".run.lock")), "it has its spool")
    assert Ran(place.directory, *named, command=["echo", "two"]).ends()[0] == 0
    go.touch()
    assert first.ends()[0] == 0
    away = Ran(place.directory, *named, command=["echo", "away"]).ends()[2].decode()
    assert len(re.findall("does not have all of", away)) == 1, "nobody is asked twice for a receiver that is away"
    receiver = place.serve(listen=address)
    assert Ran(place.directory, *named, "--linger", "5", command=["echo", "three"]).ends() == (0, b"", b"")
    receiver.holds(b"one\naway\nthree\n", "stdout.log", SITE, RUN)
    receiver.holds(b"two\n", "run-2/stdout.log", SITE, RUN)
    assert list(first.spool.iterdir()) == []


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.soak), signal.SIGTERM], ids=lambda number: number.name
)
def test_nothing_is_said_behind_the_last_words(place: Place, number: signal.Signals) -> None:
    to_nobody = ("--receiver", free_address(), "--run", RUN, "--site", SITE)
    ran = Ran(place.directory, *to_nobody, "--linger", "3", command=["sh", "-c", "echo said; touch ended"])
    until((place.directory / "ended").exists, "the command has ended")
    until(lambda: only_sends(ran.process.pid), "only the sidecar is waited for")
    ran.process.send_signal(number)
    code, out, err = ran.ends(20)  # all processes with its stderr have ended, too
    assert (code, out) == (0, b"said\n")
    assert err.splitlines()[-1].startswith(b"flarelog: the receiver does not have all of it; ")
    assert b"ERROR" not in err, err


def test_what_is_sent_within_a_moment_is_waited_for_also_when_flarelog_is_told_to_end(place: Place) -> None:
    receiver = place.serve()
    waiting = "echo said; while [ ! -e go ]; do sleep 0.05; done; echo end"
    ran = Ran(place.directory, *sent(receiver), command=["sh", "-c", waiting])
    receiver.gets(b"said\n", "stdout.log", SITE, RUN)
    [sidecar] = [pid for pid, line in children(ran.process.pid).items() if " sidecar " in line]
    os.kill(sidecar, signal.SIGSTOP)
    (place.directory / "go").touch()
    until(lambda: only_sends(ran.process.pid), "only the sidecar is waited for")
    ran.process.send_signal(signal.SIGINT)
    os.kill(sidecar, signal.SIGCONT)
    assert ran.ends() == (0, b"said\nend\n", b"")
    receiver.holds(b"said\nend\n", "stdout.log", SITE, RUN)
    assert list(ran.spool.iterdir()) == []


def test_a_sidecar_is_silent_while_the_last_words_are_said() -> None:
    """The process that prints the last words has the terminal's messages to itself until it ends."""
    program = """if True:
        import logging, os
        from flarelog.cli.sidecar import speak_to
        log = logging.getLogger("flarelog")
        log.addHandler(logging.StreamHandler())
        speak_to(os.getppid(), [])
        log.warning("said")
    """

    def said() -> str:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, stdout=paper, stderr=subprocess.PIPE, text=True, check=True).stderr

    paper = os.memfd_create("said")
    try:
        assert said() == "said\n"
        assert has_the_word(paper)
        assert said() == ""
    finally:
        os.close(paper)


@pytest.mark.parametrize("count", [1, 20_000], ids=["whole", "with-a-gap"])
def test_the_command_that_is_told_sends_what_is_left_and_removes_it(place: Place, count: int) -> None:
    address = free_address()
    named = ("--receiver", address, "--run", RUN, "--site", SITE, "--linger", "3", "--spool-max", "32768")
    first = Ran(place.directory, *named, command=["seq", "-f", "first %.0f", str(count)])
    told = first.ends()[2].decode().rpartition(" this command sends and removes it: flarelog ")[2]
    assert told
    receiver = place.serve(listen=address)
    subprocess.run(f"{shlex.join(FLARELOG)} {told}", shell=True, check=True, env=environment(), timeout=PATIENCE)
    record = receiver.streams(RUN)[f"{SITE}/stdout.log"]
    assert receiver.stored("stdout.log", SITE, RUN).endswith(b"first %d\n" % count)
    assert (record["sealed"], bool(record["gaps"])) == (True, count > 1)
    assert list(first.spool.iterdir()) == [], "nor are the directories of its run and site left"


def test_the_command_that_is_told_removes_no_spool_that_is_in_use_again(place: Place) -> None:
    named = ("--receiver", free_address(), "--run", RUN, "--site", SITE, "--linger", "0.3", "--copy", "off")
    first = Ran(place.directory, *named, command=["echo", "first"])
    told = first.ends()[2].decode().rpartition(" this command sends and removes it: flarelog ")[2]
    receiver = place.serve(listen=named[1])
    go = place.directory / "go"
    waits = f"echo second; while [ ! -e {go} ]; do sleep 0.05; done; echo third"
    second = Ran(place.directory, *named, command=["sh", "-c", waits])
    receiver.gets(b"first\nsecond\n", "stdout.log", SITE, RUN)
    again = place.call(*shlex.split(told))
    assert again.process.returncode == 5
    assert f"a flarelog run, or this command, has the spool {second.spool}/{RUN}/{SITE}/run: run" in again.sentence()
    go.touch()
    assert second.ends()[0] == 0
    receiver.holds(b"first\nsecond\nthird\n", "stdout.log", SITE, RUN)


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        pytest.param(["--exclude", "stdout.log"], 2, "--remove-spool needs --all-files, and none of", id="exclude"),
        pytest.param(
            ["--site-policy", "later.toml"], 1, "run is kept: the site's policy leaves out 1 file", id="policy"
        ),
    ],
)
def test_a_spool_of_which_a_part_stays_is_not_removed(place: Place, more: list[str], code: int, sentence: str) -> None:
    (place.directory / "later.toml").write_text('exclude = ["stdout.log"]')
    named = ("--receiver", free_address(), "--run", RUN, "--site", SITE, "--linger", "0.3", "--copy", "off")
    first = Ran(place.directory, *named, command=["echo", "first"])
    told = first.ends()[2].decode().rpartition(" this command sends and removes it: flarelog ")[2]
    place.serve(listen=named[1])
    again = place.call(*shlex.split(told), *more)
    assert (again.ends(), sentence in again.talk()) == (code, True), again.talk()
    assert (first.spool / RUN / SITE / "run" / "stdout.log").read_bytes() == b"first\n"


HIDES = "mkdir -p $PET_LOG_DIR/.x; echo kept > $PET_LOG_DIR/.x/a.log; echo rank > $PET_LOG_DIR/b.log"


def test_hidden_files_are_not_sent_and_stay_in_the_spool(place: Place) -> None:
    receiver = place.serve()
    ran = Ran(place.directory, *sent(receiver), "--copy", "off", command=["sh", "-c", HIDES])
    root = ran.spool / RUN / SITE / "run"
    told = f"flarelog: hidden files are not sent: {root} keeps ranks/.x/a.log\n"
    assert ran.ends() == (0, b"", told.encode())
    receiver.holds(b"rank\n", "ranks/b.log", SITE, RUN)
    assert [path for path in root.rglob("*") if path.is_file()] == [root / "ranks/.x/a.log"]


def test_the_command_that_is_told_removes_no_hidden_file(place: Place) -> None:
    """The first printed command tells nothing of removal, and the second one finds a file that came later."""
    named = ("--receiver", free_address(), "--run", RUN, "--site", SITE, "--linger", "0.3", "--copy", "off")
    first = Ran(place.directory, *named, command=["sh", "-c", HIDES])
    root = first.spool / RUN / SITE / "run"
    said = first.ends()[2].decode()
    assert "this command sends it: flarelog" in said, said
    assert f"flarelog: hidden files are not sent: {root} keeps ranks/.x/a.log\n" in said
    (root / "ranks/.x/a.log").rename(place.directory / "a.log")
    said = Ran(place.directory, *named, command=["true"]).ends()[2].decode()
    told = said.rpartition(" this command sends and removes it: flarelog ")[2]
    (place.directory / "a.log").rename(root / "ranks/.x/a.log")
    receiver = place.serve(listen=named[1])
    again = place.call(*shlex.split(told))
    assert again.ends() == 1
    assert again.sentence() == f"flarelog: {root} is kept: hidden files are not sent, such as ranks/.x/a.log"
    receiver.holds(b"rank\n", "ranks/b.log", SITE, RUN)
    assert (root / "ranks/.x/a.log").read_bytes() == b"kept\n"


def test_the_command_that_is_told_says_where_there_is_nothing_left_to_send(place: Place) -> None:
    named = ("--receiver", free_address(), "--run", RUN, "--site", SITE, "--linger", "0.3", "--copy", "off")
    first = Ran(place.directory, *named, command=["echo", "said"])
    told = first.ends()[2].decode().rpartition(" this command sends and removes it: flarelog ")[2]
    place.serve(listen=named[1])
    assert place.call(*shlex.split(told)).ends() == 0
    again = place.call(*shlex.split(told))
    assert again.ends() == 3
    gone = f"{first.spool}/{RUN}/{SITE}/run does not exist: it was sent and removed already, or the path is wrong"
    assert again.sentence() == f"flarelog: --remove-spool: {gone}"


@pytest.mark.parametrize("way", ["variables", "run", "sidecar"])
def test_the_command_that_is_told_says_all_that_was_said(place: Place, way: str) -> None:
    """In another directory and shell the printed command masks, leaves out and connects as the sidecar itself."""
    address = free_address()
    (place.directory / "policy.toml").write_text('exclude = ["stderr.log"]')
    (place.directory / "conf.toml").write_text(f'[{way}]\nredact = "passwords"\nsite-policy = "policy.toml"\n')
    told = {"FLARELOG_REDACT": "passwords", "FLARELOG_SITE_POLICY": "policy.toml", "FLARELOG_ZONE": "Europe/Oslo"}
    named = ("--receiver", address, "--run", RUN, "--site", SITE, "--linger", "0.2", "--copy", "off")
    first = Ran(
        place.directory,
        *(*named, *(("--config", "conf.toml") if way != "variables" else ())),
        command=["sh", "-c", "echo password=hunter2; echo private >&2"],
        env={"TZ": "Asia/Tokyo"} | (told if way == "variables" else {}),
    )
    code, _, err = first.ends()
    later = err.decode().partition(" this command sends it: flarelog ")[2].splitlines()[0]
    assert (code, bool(later)) == (0, True), err.decode()
    zone = "Europe/Oslo" if way == "variables" else "Asia/Tokyo"
    assert re.findall("--zone ([^ ]*)", later) == [zone], "the zone of this environment, where no other one was said"
    receiver = place.serve(listen=address)
    elsewhere = place.directory / "elsewhere"
    elsewhere.mkdir()
    command = f"{shlex.join(FLARELOG)} {later}"
    subprocess.run(command, shell=True, check=True, env=environment(), timeout=PATIENCE, cwd=elsewhere)
    receiver.holds(b"password=*******\n", "stdout.log", SITE, RUN)
    assert list(receiver.streams(RUN)) == [f"{SITE}/stdout.log"]


def test_the_command_that_is_told_keeps_the_zone_of_the_site_in_any_shell(place: Place) -> None:
    named = ("--receiver", free_address(), "--run", RUN, "--site", SITE, "--linger", "0.2", "--copy", "off")
    told = Ran(place.directory, *named, command=["echo", "said"]).ends()[2].decode().rpartition(": flarelog ")[2]
    receiver = place.serve(listen=named[1])
    other = environment() | {"TZ": "Asia/Tokyo", "FLARELOG_ZONE": "Asia/Tokyo"}
    subprocess.run(f"{shlex.join(FLARELOG)} {told}", shell=True, check=True, env=other, timeout=PATIENCE)
    assert receiver.streams(RUN)[f"{SITE}/stdout.log"]["zone"] == system_zone()


def test_a_sidecar_beside_it_sends_what_it_says(place: Place) -> None:
    receiver = place.serve()
    spool = place.directory / "logs"
    sidecar = place.sidecar(receiver, root=spool, run=RUN, site=SITE)
    ran = Ran(place.directory, "--spool", str(spool), "--log", "rank-{RANK}", command=["echo", "hi"], env={"RANK": "3"})
    assert ran.ends() == (0, b"hi\n", b"")
    receiver.gets(b"hi\n", "rank-3/stdout.log", SITE, RUN)
    assert sidecar.stop() == 0


@pytest.mark.parametrize(
    "variable", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["spool-in-a-variable", "spool-as-it-is"]
)
def test_commands_below_each_other_send_through_the_outermost(place: Place, variable: bool) -> None:
    receiver = place.serve()
    ran = Ran(
        place.directory,
        *("--receiver", receiver.address, "--run", RUN, "--site", SITE),
        command=[*FLARELOG, "run", "--log", "inner", "--", "sh", "-c", "echo in; exit 9"],
        env={"FLARELOG_SPOOL": str(place.directory / "spool")} if variable else {},
    )
    assert ran.ends() == (9, b"in\n", b"")
    for log in ("stdout.log", "inner/stdout.log"):
        receiver.holds(b"in\n", log, SITE, RUN)


def test_a_command_without_a_name_below_another_one_has_a_log_of_its_own(place: Place) -> None:
    receiver = place.serve()
    inner = " ".join([*FLARELOG, "run", "--", "echo", "in"])
    named = ("--receiver", receiver.address, "--run", RUN, "--site", SITE)
    ran = Ran(place.directory, *named, command=["sh", "-c", f"echo out; {inner}; echo end"])
    assert ran.ends() == (0, b"out\nin\nend\n", b"")
    receiver.holds(b"out\nin\nend\n", "stdout.log", SITE, RUN)
    receiver.holds(b"in\n", "run-2/stdout.log", SITE, RUN)


def test_one_log_of_a_command_without_a_name_below_another_one_is_called_output(place: Place) -> None:
    receiver = place.serve()
    ran = Ran(place.directory, *sent(receiver), command=[*FLARELOG, "run", "--merge", "--", "echo", "in"])
    assert ran.ends() == (0, b"in\n", b"")
    receiver.holds(b"in\n", "run-2/output.log", SITE, RUN)


@pytest.mark.parametrize(
    "first",
    [pytest.param("--merge", marks=pytest.mark.soak), "--pty", pytest.param("--copy=on", marks=pytest.mark.soak)],
)
def test_commands_below_another_one_have_names_that_can_be_beside_each_other(place: Place, first: str) -> None:
    receiver = place.serve()
    forms = (first, "--copy=on" if first != "--copy=on" else "--merge")
    inner = "; ".join(" ".join([*FLARELOG, "run", form.replace("=", " "), "--", "echo", "in"]) for form in forms)
    ran = Ran(place.directory, *sent(receiver), command=["sh", "-c", inner])
    assert ran.ends() == (0, b"in\nin\n", b"")
    for form in forms:
        receiver.holds(b"in\n", f"run-2/{'output' if form != '--copy=on' else 'stdout'}.log", SITE, RUN)
    assert all(len(told["exits"]) == 1 for told in receiver.streams(RUN).values())


def test_a_command_whose_log_is_called_as_one_of_the_command_around_it_gets_a_name_of_its_own(place: Place) -> None:
    receiver = place.serve()
    inner = [*FLARELOG, "run", "--merge", "--log", "stdout.log", "--", "echo", "in"]
    assert Ran(place.directory, *sent(receiver), command=inner).ends() == (0, b"in\n", b"")
    receiver.holds(b"in\n", "stdout.log", SITE, RUN)  # the outer command's copy of the inner one's output
    receiver.holds(b"in\n", "stdout.log-2", SITE, RUN)
    assert [len(told["exits"]) for told in receiver.streams(RUN).values()] == [1, 1, 1]


MANY, ONE = ("--log", "a"), ("--merge", "--log", "a/stdout.log")


@pytest.mark.parametrize(
    ("begins", "waits", "log", "other"),
    [
        pytest.param(MANY, ONE, "a/stdout.log", "a/stdout.log-2", id="a-file-of-the-other", marks=pytest.mark.soak),
        pytest.param(ONE, MANY, "a/stdout.log", "a-2/stdout.log", id="the-reverse"),
        pytest.param(ONE, ONE, "a/stdout.log", "a/stdout.log-2", id="one-file", marks=pytest.mark.soak),
        pytest.param(MANY, MANY, "a/stdout.log", "a-2/stdout.log", id="one-directory", marks=pytest.mark.soak),
    ],
)
def test_two_commands_at_once_never_write_one_log(
    place: Place, begins: tuple[str, ...], waits: tuple[str, ...], log: str, other: str
) -> None:
    receiver = place.serve()
    waiting = "touch up; while [ ! -e go ]; do sleep 0.05; done; echo first"
    first = Ran(place.directory, *sent(receiver), *begins, command=["sh", "-c", waiting])
    until((place.directory / "up").exists, "the first one runs")
    assert Ran(place.directory, *sent(receiver), *waits, command=["echo", "second"]).ends() == (0, b"second\n", b"")
    (place.directory / "go").touch()
    assert first.ends() == (0, b"first\n", b"")
    receiver.holds(b"first\n", log, SITE, RUN)
    receiver.holds(b"second\n", other, SITE, RUN)


def test_a_log_whose_name_is_another_logs_directory_is_stored_under_a_name_of_its_own(place: Place) -> None:
    receiver = place.serve()
    assert Ran(place.directory, *sent(receiver), "--log", "x", "--merge", command=["echo", "1"]).ends()[0] == 0
    assert Ran(place.directory, *sent(receiver), "--log", "x", command=["echo", "2"]).ends() == (0, b"2\n", b"")
    stored = {name: (one["committed"], one["sealed"]) for name, one in receiver.streams(RUN).items()}
    assert stored == {
        f"{SITE}/{name}": (size, True) for name, size in (("x", 2), ("x/stderr.log", 0), ("x/stdout.log", 2))
    }
    receiver.holds(b"1\n", "x", SITE, RUN)
    (kept,) = receiver.store.glob(f"{RUN}/{SITE}/%-*-stdout.log")
    assert kept.read_bytes() == b"2\n"


def test_a_command_below_another_one_that_names_a_run_of_its_own_is_sent_there(place: Place) -> None:
    receiver = place.serve()
    inner = [*FLARELOG, "run", "--run", "inner-run", "--site", SITE, "--", "echo", "in"]
    ran = Ran(place.directory, "--receiver", receiver.address, "--run", RUN, "--site", SITE, command=inner)
    assert ran.ends() == (0, b"in\n", b"")
    receiver.holds(b"in\n", "stdout.log", SITE, "inner-run")
    receiver.holds(b"in\n", "stdout.log", SITE, RUN)
    assert not (receiver.store / RUN / SITE / "run-2").exists()
    again = Ran(place.directory, "--receiver", receiver.address, "--run", RUN, "--site", SITE,
                command=[*FLARELOG, "run", "--run", RUN, "--log", "same", "--", "echo", "same"])  # fmt: skip
    assert again.ends() == (0, b"same\n", b"")
    receiver.holds(b"same\n", "same/stdout.log", SITE, RUN)


def test_options_that_the_outer_one_alone_could_follow_are_told(place: Place) -> None:
    receiver = place.serve()
    inner = [*FLARELOG, "run", "--site", "other", "--redact", "tokens", "--log", "inner", "--", "echo", "in"]
    named = ("--receiver", receiver.address, "--run", RUN, "--site", SITE)
    code, out, err = Ran(place.directory, *named, command=inner).ends()
    assert (code, out) == (0, b"in\n")
    assert err.startswith(b"flarelog: --site, --redact: not taken, because the flarelog run around this one sends")
    assert err.count(b"\n") == 1
    receiver.holds(b"in\n", "inner/stdout.log", SITE, RUN)


def test_below_one_of_another_machine_a_command_sends_for_itself(place: Place) -> None:
    receiver = place.serve()
    text = """
where, _, root = os.environ['FLARELOG_RUN_ROOT'].partition(':')
os.environ['FLARELOG_RUN_ROOT'] = 'another-boot:' + root
os.execv(sys.argv[1], sys.argv[1:])
"""
    inner = [*FLARELOG, "run", "--spool", "elsewhere", "--site", "node-2", "--log", "inner", "--", "echo", "in"]
    ran = Ran(place.directory, *sent(receiver), command=python(text, *inner))
    assert ran.ends() == (0, b"in\n", b"")
    receiver.holds(b"in\n", "stdout.log", SITE, RUN)
    receiver.holds(b"in\n", "inner/stdout.log", "node-2", RUN)


def test_without_a_receiver_it_is_said_where_the_output_is(tmp_path: Path) -> None:
    before = ("env", f"TMPDIR={tmp_path}")
    with subprocess.Popen([*before, *FLARELOG, "run", "--run", f"flarelog-test-{os.getpid()}", "--", "echo", "hi"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as ran:  # fmt: skip
        out, err = ran.communicate(timeout=PATIENCE)
    assert out == b"hi\n"
    (root,) = re.findall(r"flarelog: the command's output is in (/\S+): ", err.decode())
    assert (Path(root) / "stdout.log").read_bytes() == b"hi\n"
    shutil.rmtree(Path(root).parent.parent)


def test_two_commands_of_one_name_are_two_logs(tmp_path: Path) -> None:
    rans = [Ran(tmp_path, "--log", "same", command=["sh", "-c", f"echo {n}; sleep 1"]) for n in (1, 2)]
    assert [ran.ends()[:2] for ran in rans] == [(0, b"1\n"), (0, b"2\n")]
    said = {rans[0].spooled(f"{name}/stdout.log") for name in ("same", "same-2")}
    assert said == {b"1\n", b"2\n"}


def test_what_one_name_said_earlier_stands_before_it(tmp_path: Path) -> None:
    for n in range(3):
        ran = Ran(tmp_path, command=["echo", str(n)])
        assert ran.ends()[0] == 0
    assert ran.spooled() == b"0\n1\n2\n"


# --- a full spool, and an unwritable one


def test_a_full_spool_keeps_the_newest_and_the_receiver_is_told_what_is_missing(place: Place) -> None:
    spool = place.directory / "logs"
    said = noise(1 << 20)
    (place.directory / "said").write_bytes(said)
    ran = Ran(place.directory, "--spool", str(spool), "--spool-max", "65536", command=["cat", "said"])
    code, out, _ = ran.ends()
    ran.spool = spool
    kept = ran.spooled()
    assert code == 0
    assert len(kept) <= 65536
    assert said.endswith(kept)
    receiver = place.serve()
    assert place.sidecar(receiver, "--once", root=spool, run=RUN, site=SITE).ends() == 6
    record = receiver.holds(kept, "stdout.log", SITE, RUN)
    assert sum(gap["length"] for gap in record["gaps"]) + len(kept) == len(said)
    assert len(record["gaps"]) == 1
    assert out == said


def test_what_a_later_command_displaces_is_missing_and_its_end_is_told(place: Place) -> None:
    named = ("--receiver", free_address(), "--run", RUN, "--site", SITE, "--linger", "0.2", "--capture", "stdout")
    _, first, _ = Ran(place.directory, *named, command=["sh", "-c", "seq 1 2000; exit 9"]).ends()
    _, second, _ = Ran(place.directory, *named, "--spool-max", "32768", command=["seq", "2001", "8200"]).ends()
    receiver = place.serve()
    code, third, _ = Ran(place.directory, *sent(receiver), "--capture", "stdout", command=["echo", "end"]).ends()
    assert code == 0
    (stream,) = shown(place, receiver)
    kept = receiver.stored("stdout.log", SITE, RUN)
    assert (first + second + third).endswith(kept)
    assert sum(gap["length"] for gap in stream["gaps"]) + len(kept) == len(first + second + third)
    assert [end["code"] for end in stream["exits"]] == [9, 0, 0]


def test_a_spool_that_cannot_be_made_is_said_and_the_command_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = Ran(tmp_path, "--spool", str(tmp_path / "file" / "below"), command=["sh", "-c", "echo hi; exit 5"])
    code, out, err = ran.ends()
    assert (code, out) == (5, b"hi\n")
    why = f"the spool cannot be made: {tmp_path / 'file'}: Not a directory; the command's output is not kept"
    assert err == f"flarelog: {why}\n".encode()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    with tmpfs(tmp_path / "small", "size=8m") as path:
        yield path


def test_on_a_full_disk_the_command_goes_on_and_a_gap_is_left(place: Place, small: Path) -> None:
    said = noise(20 << 20)
    (place.directory / "said").write_bytes(said)
    text = """
sys.stdout.buffer.write(open('said', 'rb').read())
sys.stdout.flush()
os.unlink(sys.argv[1])
time.sleep(2)
print('end')
"""
    fill = small / "fill"
    fill.write_bytes(bytes(4 << 20))
    ran = Ran(place.directory, "--spool", str(small / "logs"), command=python(text, str(fill)))
    code, out, err = ran.ends()
    assert code == 0
    assert out == said + b"end\n"
    ran.spool = small / "logs"
    kept = ran.spooled()
    assert kept.endswith(b"end\n")
    lost = sum(int(n.replace(b",", b"")) for n in re.findall(rb"([\d,]+) bytes could not be spooled", err))
    assert len(kept) + lost == len(said) + len(b"end\n")
    receiver = place.serve()
    assert place.sidecar(receiver, "--once", root=ran.spool, run=RUN, site=SITE).ends() == 6
    record = receiver.holds(kept, "stdout.log", SITE, RUN)
    assert [gap["length"] for gap in record["gaps"]] == [lost]


def test_what_a_disk_that_stays_full_cost_is_a_gap_at_the_end(place: Place, small: Path) -> None:
    said = noise(20 << 20)
    (place.directory / "said").write_bytes(said)
    ran = Ran(place.directory, "--spool", str(small / "logs"), command=["cat", "said"])
    code, out, err = ran.ends()
    assert code == 0
    ran.spool = small / "logs"
    kept = ran.spooled()
    lost = len(said) - len(kept)
    assert lost > 0
    assert f"{lost:,} bytes could not be spooled".encode() in err
    assert out == said
    receiver = place.serve()
    assert place.sidecar(receiver, "--once", root=ran.spool, run=RUN, site=SITE).ends() == 6
    record = receiver.holds(kept, "stdout.log", SITE, RUN)
    assert [(gap["offset"], gap["length"]) for gap in record["gaps"]] == [(len(kept), lost)]


@pytest.mark.parametrize(
    "args", [(), ("--pty",), ("--merge",), ("--spool-max", "8000000"), ("--copy", "off"), ("--redact", "all")]
)
def test_what_the_receiver_has_makes_room_on_a_small_disk(place: Place, small: Path, args: tuple[str, ...]) -> None:
    receiver = place.serve()
    # It waits while 3 MB are not marked as stored: how fast a busy machine is says nothing about flarelog.
    text = f"""
from pathlib import Path
late = time.monotonic() + {PATIENCE / 2}
def unstored():
    found = 0
    for path in Path({str(small)!r}).rglob('*.log*'):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        found += status.st_size if status.st_mode & 0o200 else 0
    return found
for n in range(80):
    print("%04d" % n, "x" * 300_000)
    print("%04d" % n, "y" * 30_000, file=sys.stderr)
    sys.stdout.flush()
    while unstored() > 3_000_000 and time.monotonic() < late:
        time.sleep(0.02)
"""
    said = b"".join(b"%04d %s\n" % (n, b"x" * 300_000) for n in range(80))
    also = b"".join(b"%04d %s\n" % (n, b"y" * 30_000) for n in range(80))
    ran = Ran(place.directory, *sent(receiver), "--spool", str(small / "logs"), *args, command=python(text))
    code, out, err = ran.ends(120)
    assert code == 0
    if "--pty" in args or "--merge" in args:
        assert out.replace(b"\r", b"").count(b"x") == said.count(b"x")
        receiver.holds(out, "output.log", SITE, RUN)
    else:
        assert (out, err) == ((b"", b"") if "--copy" in args else (said, also))
        receiver.holds(said, "stdout.log", SITE, RUN)
        receiver.holds(also, "stderr.log", SITE, RUN)
    assert [stream["gaps"] for stream in shown(place, receiver)] == [[]] * len(shown(place, receiver))
    assert not (small / "logs").exists() or not any((small / "logs").rglob("*.log*"))


def test_after_a_full_disk_output_is_kept_again_once_the_receiver_is_back(place: Place, small: Path) -> None:
    address, go = free_address(), place.directory / "go"
    text = """
for n in range(20):
    print("%04d" % n, "x" * 1_000_000, flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
for n in range(20, 40):
    print("%04d" % n, "x" * 300_000, flush=True)
    time.sleep(0.1)
"""
    said = b"".join(b"%04d %s\n" % (n, b"x" * (1_000_000 if n < 20 else 300_000)) for n in range(40))
    named = ("--receiver", address, "--run", RUN, "--site", SITE, "--capture", "stdout")
    ran = Ran(place.directory, *named, "--spool", str(small / "logs"), command=python(text, str(go)))
    until(lambda: len(b"".join(path.read_bytes() for path in small.rglob("stdout.log*"))) > 7_000_000, "a full spool")
    time.sleep(1)
    receiver = place.serve(listen=address)
    until(lambda: len(receiver.stored("stdout.log", SITE, RUN)) > 7_000_000, "the receiver has it")
    time.sleep(1)
    go.touch()
    code, out, _ = ran.ends(60)
    assert (code, out == said) == (0, True)
    (stream,) = shown(place, receiver)
    kept = receiver.stored("stdout.log", SITE, RUN)
    assert stream["gaps"]
    begin, left = 0, said
    for gap in stream["gaps"]:
        count = gap["offset"] - begin
        assert kept[begin : gap["offset"]] == left[:count]
        begin, left = gap["offset"], left[count + gap["length"] :]
    assert kept[begin:] == left
    assert kept.endswith(said[-300_000:])


@pytest.mark.parametrize(
    "limits", ["size=64k", pytest.param("size=1m,nr_inodes=5", marks=pytest.mark.soak), "size=1m,nr_inodes=6"]
)
def test_where_the_disk_is_full_at_the_start_the_command_runs_and_nothing_is_waited_for(
    tmp_path: Path, limits: str
) -> None:
    with tmpfs(tmp_path / "disk", limits) as disk:
        named = ("--receiver", free_address(), "--run", RUN, "--site", SITE)
        if "inodes" not in limits:
            with contextlib.suppress(OSError), open(disk / "fill", "wb", buffering=0) as fill:
                while fill.write(bytes(4096)):
                    pass
        ran = Ran(tmp_path, *named, "--spool", str(disk), "--linger", "1", command=["sh", "-c", "echo hi; exit 3"])
        code, out, err = ran.ends(20)
        assert (code, out) == (3, b"hi\n")
        assert err.endswith(b": No space left on device; the command's output is not kept\n")
        assert err.count(b"\n") == 1, "nothing is kept that could be sent"
        assert [path for path in disk.rglob("*") if path.is_file() and path.name != "fill"] == []


COPIED = """
for n in range(40):
    print('%05d' % n, 'x' * 19993, flush=True)
    time.sleep(.05)
"""


def test_a_copy_on_a_full_disk_gets_all_bytes_once_there_is_room(tmp_path: Path) -> None:
    said = b"".join(b"%05d %s\n" % (n, b"x" * 19993) for n in range(40))
    with tmpfs(tmp_path / "disk", "size=1m") as disk:
        (disk / "fill").write_bytes(bytes(700_000))
        with open(disk / "out", "wb") as out:
            ran = Ran(tmp_path, "--spool", str(tmp_path / "spool"), command=python(COPIED), stdout=out)
        until(lambda: (disk / "out").stat().st_size > 300_000, "a full disk")
        time.sleep(1)
        (disk / "fill").unlink()
        code, _, err = ran.ends()
        assert (code, err) == (0, b"")
        assert (disk / "out").read_bytes() == said


@pytest.mark.parametrize("has_receiver", [False, True])
def test_what_a_copy_on_a_disk_that_stays_full_lacks_is_said(place: Place, has_receiver: bool) -> None:
    where = f"in {place.directory / 'spool'}"
    args = ["--linger", "1"]
    if has_receiver:
        where, args = "at the receiver", [*sent(place.serve()), "--linger", "10"]
    with open("/dev/full", "wb") as out:
        ran = Ran(place.directory, *args, command=["sh", "-c", "head -c 3000000 /dev/zero; exit 6"], stdout=out)
        code, _, err = ran.ends(60)
    why = "lacks 3,000,000 bytes: No space left on device; see stdout.log"
    assert (code, err.decode()) == (6, f"flarelog: the copy on stdout {why} {where}\n")


# --- exit codes


@pytest.mark.parametrize(
    "code",
    [
        0,
        pytest.param(1, marks=pytest.mark.soak),
        pytest.param(2, marks=pytest.mark.soak),
        42,
        pytest.param(126, marks=pytest.mark.soak),
        127,
        pytest.param(137, marks=pytest.mark.soak),
        255,
    ],
)
def test_the_exit_code_is_the_commands(tmp_path: Path, code: int) -> None:
    assert Ran(tmp_path, command=["sh", "-c", f"exit {code}"]).ends() == (code, b"", b"")


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(1, marks=pytest.mark.soak),
        2,
        pytest.param(3, marks=pytest.mark.soak),
        pytest.param(6, marks=pytest.mark.soak),
        9,
        11,
        pytest.param(13, marks=pytest.mark.soak),
        15,
    ],
)
def test_a_signal_that_kills_the_command_kills_flarelog(tmp_path: Path, number: int) -> None:
    command = ["sh", "-c", f"ulimit -c 0; echo before; kill -{number} $$"]
    assert Ran(tmp_path, command=command).ends() == (-number, b"before\n", b"")


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        pytest.param(["no-such-command"], 127, b"No such file", id="not-there"),
        pytest.param(["./plain"], 126, b"Permission denied", id="not-executable"),
        pytest.param(
            ["./my train.sh"],
            126,
            b"flarelog: ./my train.sh: Exec format error: begin the script with #!/bin/sh, or run sh './my train.sh'\n",
            id="a-script-without-a-first-line",
        ),
        pytest.param(
            ["./binary"],
            126,
            b"flarelog: ./binary: Exec format error\n",
            id="of-another-machine",
            marks=pytest.mark.soak,
        ),
        pytest.param(["/etc"], 126, b"Permission denied", id="a-directory", marks=pytest.mark.soak),
    ],
)
def test_a_command_that_cannot_be_started(tmp_path: Path, command: list[str], code: int, said: bytes) -> None:
    (tmp_path / "plain").write_text("no program")
    for name, held in (("my train.sh", b"echo hi\n"), ("binary", b"\x7fELF\0")):
        (tmp_path / name).write_bytes(held)
        (tmp_path / name).chmod(0o755)
    ended, out, err = Ran(tmp_path, command=command).ends()
    assert (ended, out) == (code, b"")
    assert said in err
    assert err.count(b"\n") == 1


@pytest.mark.parametrize(
    ("args", "command", "said"),
    [
        pytest.param([], [""], b"Error: the command is empty: name a program\n", id="command"),
        pytest.param(["--run", ""], ["true"], b"flarelog: the run's name is empty\n", id="run", marks=pytest.mark.soak),
        pytest.param(
            ["--site", ""], ["true"], b"flarelog: the site's name is empty\n", id="site", marks=pytest.mark.soak
        ),
    ],
)
def test_an_empty_word_is_a_wrong_one(tmp_path: Path, args: list[str], command: list[str], said: bytes) -> None:
    ended, out, err = Ran(tmp_path, *args, command=command).ends()
    assert (ended, out) == (2, b"")
    assert err.endswith(said)


@pytest.mark.parametrize(
    "outputs",
    [
        pytest.param((), marks=pytest.mark.soak),
        pytest.param(("--merge",), marks=pytest.mark.soak),
        ("--pty",),
        pytest.param(("--copy", "off"), marks=pytest.mark.soak),
        ("--capture", "stdout"),
    ],
)
def test_that_a_command_cannot_be_started_is_told_at_the_receiver(place: Place, outputs: tuple[str, ...]) -> None:
    receiver = place.serve()
    to_it = ("--receiver", receiver.address, "--run", RUN, "--site", SITE, *outputs)
    ran = Ran(place.directory, *to_it, command=["no-such-command"])
    code, out, err = ran.ends()
    said = b"flarelog: no-such-command: No such file or directory\n"
    assert (code, out + err) == (127, said)
    assert list(ran.spool.iterdir()) == []
    log = "output.log" if outputs and outputs[0] in ("--merge", "--pty") else "stderr.log"
    if "stdout" in outputs:
        log, said = "stdout.log", b""
    receiver.gets(said, log, SITE, RUN)
    [end] = receiver.streams(RUN)[f"{SITE}/{log}"]["exits"]
    assert end["sentence"].startswith("exit code 127 ")


def test_a_command_that_cannot_be_started_leaves_no_spool_behind(tmp_path: Path) -> None:
    run = f"{RUN}-{tmp_path.name}"
    ended = subprocess.run(
        [*FLARELOG, "run", "--run", run, "--", "no-such-command"], env=environment(), timeout=PATIENCE
    )
    assert ended.returncode == 127
    assert not (Path(f"/var/tmp/flarelog-{os.getuid()}") / run).exists()
    earlier = Ran(tmp_path, command=["echo", "earlier"])
    assert earlier.ends()[0] == 0
    assert Ran(tmp_path, command=["no-such-command"]).ends()[0] == 127
    assert earlier.spooled() == b"earlier\n", "another command's output stays"


COUNTS = """
import signal, sys, time
got = []
for n in (%s):
    signal.signal(n, lambda number, _: got.append(number))
print("ready", flush=True)
end = time.monotonic() + 20
while not got and time.monotonic() < end: time.sleep(0.01)
time.sleep(0.3)
print(got, flush=True)
"""
CAUGHT = [
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH),
]


@pytest.mark.parametrize(
    "number", each(CAUGHT, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1), ids=lambda number: number.name
)
def test_a_signal_reaches_the_command_once(tmp_path: Path, number: signal.Signals) -> None:
    ran = Ran(tmp_path, command=[sys.executable, "-c", COUNTS % ",".join(str(int(n)) for n in CAUGHT)])
    assert ran.process.stdout is not None
    assert ran.process.stdout.readline() == b"ready\n"
    ran.process.send_signal(number)
    code, out, err = ran.ends()
    assert (code, out, err) == (0, b"[%d]\n" % number, b"")


@contextlib.contextmanager
def on_a_terminal(
    tmp_path: Path, *command: str, before: tuple[str, ...] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """``flarelog run`` with *command* and a terminal as stdin, both in its process group; and the terminal's master."""
    master, slave = os.openpty()
    try:
        with subprocess.Popen(
            [*before, *FLARELOG, "run", "--spool", str(tmp_path / "spool"), *command],
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        ) as ran:
            try:
                yield ran, master
            finally:
                if ran.poll() is None:
                    ran.kill()
    finally:
        os.close(master)
        os.close(slave)


def held_up(tmp_path: Path, call: str) -> tuple[str, ...]:
    """An strace command that delays each system *call* of a command by a second, and records it in the file trace."""
    traced = ("strace", "-D", "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", f"trace={call}")
    if shutil.which("strace") is None or subprocess.run((*traced, "true"), check=False).returncode:
        pytest.skip("there is no strace, or it may trace nothing: install it, and give it CAP_SYS_PTRACE")
    return (*traced, "-e", f"inject={call}:delay_enter=1000000")


def test_what_a_terminal_sends_reaches_the_command_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COUNTS % ",".join(str(int(n)) for n in CAUGHT)]
    with on_a_terminal(tmp_path, "--", *command) as (ran, terminal):
        assert ran.stdout is not None
        assert ran.stdout.readline() == b"ready\n"
        os.write(terminal, b"\x03")
        assert ran.communicate(timeout=PATIENCE) == (b"[2]\n", b"")


HUNG_UP = """
import signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {1, 18})
open(sys.argv[2], "w").close()
end = time.monotonic() + 20
got = []
while time.monotonic() < end:
    told = signal.sigtimedwait({1, 18}, 0.1)
    if told is not None: got.append(told.si_signo)
    if told is not None and end > time.monotonic() + 0.7: end = time.monotonic() + 0.7
with open(sys.argv[1], "w") as file: file.write(repr(sorted(got)))
"""


@pytest.mark.parametrize(
    ("leader", "options"),
    table({"leads its session": True, "is led": False}, {" ".join(one): one for one in [(), ("--merge",), ("--pty",)]}),
)
def test_a_terminal_that_goes_away_reaches_the_command_once(
    tmp_path: Path, options: tuple[str, ...], leader: bool
) -> None:
    """The kernel signals only the session's leader; when the leader ends, it signals the foreground group."""
    got, up = tmp_path / "got", tmp_path / "up"
    command = [*options, "--spool", str(tmp_path / "spool"), "--", sys.executable, "-c", HUNG_UP, str(got), str(up)]
    line = shlex.join([*FLARELOG, "run", *command])
    pid, terminal = os.forkpty()
    if pid == 0:  # a shell ends at the signal, and leaves the command to the kernel
        os.execvpe("sh", ["sh", "-c", f"exec {line}" if leader else f"{line}; :"], environment())
    try:
        until(up.exists, "the command runs")
        os.close(terminal)
        until(got.exists, "the command has ended")
        until(lambda: got.read_text() != "", "it has told what came")
    finally:
        os.waitpid(pid, 0)
    heard = json.loads(got.read_text())
    assert heard.count(signal.SIGHUP) == 1
    assert heard.count(signal.SIGCONT) <= 1


def test_a_ctrl_c_while_it_starts_is_the_commands_and_ends_nothing_that_copies(tmp_path: Path) -> None:
    """The copying process is still in the terminal's process group when the command already runs."""
    up, caught, stop = tmp_path / "up", tmp_path / "caught", tmp_path / "stop"
    trap = f"trap 'echo caught; touch {caught}' INT"
    text = f"{trap}; touch {up}; while [ ! -e {stop} ]; do sleep 0.1; done; echo end"
    with on_a_terminal(tmp_path, "--", "sh", "-c", text, before=held_up(tmp_path, "setsid")) as (ran, terminal):
        until(up.exists, "the command runs")
        os.write(terminal, b"\x03")  # the terminal passes it on asynchronously
        until(caught.exists, "the command has caught it")
        stop.touch()
        assert ran.communicate(timeout=PATIENCE) == (b"caught\nend\n", b"")


def test_what_copies_outlives_a_program_that_did_not_wait_for_it(tmp_path: Path) -> None:
    """The copying process is still in the terminal's session, which gets a signal when the program has ended."""
    with on_a_terminal(tmp_path, "--linger", "0", "--", "echo", "one", before=held_up(tmp_path, "setsid")) as (ran, _):
        assert ran.communicate(timeout=PATIENCE) == (b"one\n", b"")
        assert ran.returncode == 0


def test_a_ctrl_c_before_the_command_begins_is_its_end(tmp_path: Path) -> None:
    with on_a_terminal(tmp_path, "--", "sh", "-c", "echo it began", before=held_up(tmp_path, "dup2")) as (
        ran,
        terminal,
    ):
        until(lambda: b"dup2" in (tmp_path / "trace").read_bytes(), "what becomes the command is there")
        os.write(terminal, b"\x03")
        assert ran.communicate(timeout=PATIENCE) == (b"", b"")
    assert ran.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    "closed",
    ["<&-", pytest.param(">&-", marks=pytest.mark.soak), pytest.param("2>&-", marks=pytest.mark.soak), "<&- >&- 2>&-"],
)
def test_descriptors_that_are_closed_are_no_trouble(tmp_path: Path, closed: str) -> None:
    before = ("sh", "-c", f'"$@" {closed}', "sh")
    assert Ran(tmp_path, command=["sh", "-c", "echo out; echo err >&2; exit 4"], before=before).ends()[0] == 4
    ran = Ran(tmp_path, command=["true"])
    assert ran.spooled() == b"out\n"
    assert ran.spooled("stderr.log") == b"err\n"
    ran.ends()


@pytest.mark.parametrize("name", ["CHLD", "HUP", pytest.param("USR1", marks=pytest.mark.soak)])
def test_a_signal_that_was_ignored_stays_so_and_costs_no_status(tmp_path: Path, name: str) -> None:
    ignore = (
        f"import signal, os, sys; signal.signal(signal.SIG{name}, signal.SIG_IGN); os.execvp(sys.argv[1], sys.argv[1:])"
    )
    before = (sys.executable, "-c", ignore)
    text = f"import signal; print(signal.getsignal(signal.SIG{name}) == signal.SIG_IGN); sys.exit(6)"
    code, out, _ = Ran(tmp_path, command=python(text), before=before).ends()
    assert code == 6
    assert out == b"True\n"


def test_torchs_files_of_what_went_wrong_are_asked_for(tmp_path: Path) -> None:
    text = "print(os.path.dirname(os.environ['TORCHELASTIC_ERROR_FILE']), os.environ['TORCH_NCCL_DUMP_ON_TIMEOUT'])"
    ran = Ran(tmp_path, "--diagnostics", "--log", "rank-0", command=python(text))
    assert ran.ends()[1].split() == [os.fsencode(ran.spool / "rank-0"), b"1"]


def test_it_stops_and_goes_on_with_the_command(tmp_path: Path) -> None:
    ran = Ran(tmp_path, command=["sh", "-c", "echo ready; sleep 0.5; echo on"])
    assert ran.process.stdout is not None
    assert ran.process.stdout.readline() == b"ready\n"

    def state() -> str:
        return Path(f"/proc/{ran.process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    ran.process.send_signal(signal.SIGTSTP)
    until(lambda: state() == "T", "it is stopped")
    time.sleep(0.7)
    assert state() == "T"
    ran.process.send_signal(signal.SIGCONT)
    assert ran.ends() == (0, b"on\n", b"")


@pytest.mark.parametrize("longer", [False, True], ids=["the-command-goes-on", "the-command-has-ended"])
def test_a_flarelog_that_is_stopped_goes_on_watching_the_command(tmp_path: Path, longer: bool) -> None:
    ran = Ran(tmp_path, command=["sh", "-c", "echo ready; sleep 1.5; exit 3"])
    assert ran.process.stdout is not None
    assert ran.process.stdout.readline() == b"ready\n"
    for stopped in [2.5] if longer else [0.4, 0.4]:
        ran.process.send_signal(signal.SIGSTOP)
        time.sleep(stopped)
        ran.process.send_signal(signal.SIGCONT)
    assert ran.ends() == (3, b"", b"")


def test_an_alarm_that_was_set_before_reaches_the_command(tmp_path: Path) -> None:
    timed = ("-c", "import os, signal, sys; signal.alarm(5); os.execvp(sys.argv[1], sys.argv[1:])")
    command = ["sh", "-c", "trap 'echo rang; exit 4' ALRM; sleep 20 >/dev/null 2>&1 & wait; kill $!"]
    assert Ran(tmp_path, command=command, before=(sys.executable, *timed)).ends() == (4, b"rang\n", b"")


def pid_namespace(*options: str) -> tuple[str, ...]:
    """The words that run a command as PID 1 of its own namespace."""
    words = ("unshare", "--pid", "--fork", *options, "--mount-proc")
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("no PID namespaces here: run as root, with unshare of util-linux")
    return words


def test_as_pid_1_it_reaps_and_ends_with_128_and_the_signal(tmp_path: Path) -> None:
    before = pid_namespace()
    text = """
for n in range(5):
    if os.fork() == 0:
        if os.fork() == 0: time.sleep(0.2); os._exit(0)
        os._exit(0)
    os.wait()
time.sleep(1.0)
states = []
for pid in filter(str.isdigit, os.listdir('/proc')):
    try: states.append(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[0])
    except OSError: pass
print(os.getppid(), states.count('Z'), flush=True)
os.kill(os.getpid(), 9)
"""
    code, out, err = Ran(tmp_path, command=python(text), before=before).ends()
    assert (code, out, err) == (137, b"1 0\n", b"")


def test_as_pid_1_it_does_not_wait_for_what_outlives_the_command(tmp_path: Path) -> None:
    before = pid_namespace("--kill-child")
    ran = Ran(tmp_path, "--linger", "0.5", command=["sh", "-c", "sleep 300 & echo held; exit 6"], before=before)
    code, out, err = ran.ends(30)
    assert (code, out, ran.spooled()) == (6, b"held\n", b"held\n")
    assert b"is still held open by" in err


@pytest.mark.soak  # waits ten seconds; a terminal test shows the same in three
def test_what_outlives_the_command_is_named_and_its_output_is_kept(tmp_path: Path) -> None:
    command = ["sh", "-c", "(sleep 10; echo late) & echo early"]
    with open(tmp_path / "out", "wb") as out, open(tmp_path / "err", "wb") as err:
        ran = Ran(tmp_path, "--linger", "0.5", command=command, stdout=out, stderr=err)
        assert ran.ends()[0] == 0
    assert ran.spooled() == b"early\n"
    assert b"is still held open by" in (tmp_path / "err").read_bytes()
    until(lambda: ran.spooled() == b"early\nlate\n", "what came later is spooled")
    until(lambda: (tmp_path / "out").read_bytes() == b"early\nlate\n", "and copied")


def test_what_outlives_the_command_on_a_terminal_is_named(tmp_path: Path) -> None:
    held = ["sh", "-c", 'trap "" HUP; sleep 3 & echo early']
    code, out, err = Ran(tmp_path, "--pty", "--linger", "0.5", command=held).ends()
    assert (code, out) == (0, b"early\n")
    assert re.search(rb"its output is still held open by \d+ \(sleep 3\)\n", err)


def test_output_that_nobody_reads_holds_nothing_up(tmp_path: Path) -> None:
    text = "for n in range(3000): os.write(1, bytes(1000))\nopen('done', 'w').close()"
    ran = Ran(tmp_path, command=python(text))
    until((tmp_path / "done").exists, "the command has said everything")
    assert ran.ends()[:2] == (0, bytes(3_000_000))


def test_a_terminal_is_what_it_writes_to(tmp_path: Path) -> None:
    text = "print(os.isatty(1), os.isatty(2), os.isatty(0)); sys.stderr.write('x\\r'); print('end')"
    ran = Ran(tmp_path, "--pty", command=python(text))
    code, out, err = ran.ends()
    assert (code, err) == (0, b"")
    assert out == ran.spooled("output.log")
    assert sorted(out.replace(b"x\r", b"").split()) == [b"False", b"True", b"True", b"end"]


def set_up(terminal: int) -> list[Any]:
    return termios.tcgetattr(terminal)


def as_new() -> list[Any]:
    """The settings of a new terminal; a command may have changed those of its own by the time they are asked for."""
    master, slave = os.openpty()
    try:
        return set_up(master)
    finally:
        os.close(master)
        os.close(slave)


def is_given_on(terminal: int) -> bool:
    """Whether keys go to the command, so that the terminal neither echoes them nor makes signals of them."""
    return not set_up(terminal)[3] & (termios.ECHO | termios.ISIG | termios.ICANON)


def read_until(fd: int, said: bytes) -> bytes:
    """The bytes up to and including *said*."""
    got = b""
    while said not in got:
        assert select.select([fd], [], [], PATIENCE)[0], f"only {got!r} came"
        got += os.read(fd, 1)
    return got


def test_what_is_typed_reaches_the_commands_terminal_and_a_password_is_not_shown(tmp_path: Path) -> None:
    text = "import getpass; word = getpass.getpass('word: '); print(f'<{word}>'); print(f'<{input()}>')"
    with on_a_terminal(tmp_path, "--pty", "--", *python(text)) as (ran, terminal):
        before = as_new()
        assert ran.stdout is not None
        out = read_until(ran.stdout.fileno(), b"word: ")
        until(lambda: is_given_on(terminal), "the terminal leaves keys to the command's")
        assert set_up(terminal)[1] == before[1], "what it makes of output is as it was"
        os.write(terminal, b"secret\r")
        out += read_until(ran.stdout.fileno(), b"<secret>\n")
        os.write(terminal, b"so\x7f\x7fsaid\r")
        rest, err = ran.communicate(timeout=PATIENCE)
        assert (ran.returncode, err, set_up(terminal)) == (0, b"", before)
        assert out == b"word: \n<secret>\n"
        assert b"said\n" in rest
        assert rest.endswith(b"<said>\n")
        assert out + rest == (tmp_path / "spool" / "output.log").read_bytes()


def test_keys_that_are_signals_are_those_of_the_job_in_front(tmp_path: Path) -> None:
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with on_a_terminal(tmp_path, "--pty", "--", *shell) as (ran, terminal):
        assert ran.stdout is not None
        until(lambda: is_given_on(terminal), "the terminal leaves keys to the command's")
        os.write(terminal, b"PS1=; set +o emacs; echo re''ady; cat\r")
        read_until(ran.stdout.fileno(), b"ready\n")
        os.write(terminal, b"ab\r")
        read_until(ran.stdout.fileno(), b"ab\nab\n")
        os.write(terminal, b"\x1a")
        read_until(ran.stdout.fileno(), b"Stopped")
        os.write(terminal, b"fg\r")
        read_until(ran.stdout.fileno(), b"fg\ncat\n")
        os.write(terminal, b"cd\r")
        read_until(ran.stdout.fileno(), b"cd\ncd\n")
        os.write(terminal, b"\x03")
        read_until(ran.stdout.fileno(), b"^C\n")
        os.write(terminal, b"echo co''de $?\r")
        read_until(ran.stdout.fileno(), b"code 130\n")
        os.write(terminal, b"exit 7\r")
        assert ran.wait(PATIENCE) == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_terminal_is_as_it_was_when_flarelog_is_told_to_end(tmp_path: Path, number: signal.Signals) -> None:
    shell = ("sh", "-c", '"$@"; read word', "sh")  # without this shell the terminal would be gone
    with on_a_terminal(tmp_path, "--pty", "--", "sleep", "20", before=shell) as (ran, terminal):
        before = as_new()
        until(lambda: is_given_on(terminal), "the terminal leaves keys to the command's")
        [guard] = children(ran.pid)
        os.kill(guard, number)
        until(lambda: set_up(terminal) == before, "the terminal is as it was")


def test_keys_are_given_on_again_after_a_stop(tmp_path: Path) -> None:
    text = "print('up', flush=True); print(f'<{input()}>')"
    with on_a_terminal(tmp_path, "--pty", "--", *python(text)) as (ran, terminal):
        before = as_new()
        assert ran.stdout is not None
        read_until(ran.stdout.fileno(), b"up\n")
        until(lambda: is_given_on(terminal), "the terminal leaves keys to the command's")
        os.write(terminal, b"a")
        read_until(ran.stdout.fileno(), b"a")
        ran.send_signal(signal.SIGSTOP)
        termios.tcsetattr(terminal, termios.TCSANOW, before)  # a shell does so
        ran.send_signal(signal.SIGCONT)
        until(lambda: is_given_on(terminal), "the terminal leaves keys to the command's again")
        os.write(terminal, b"b\r")
        assert ran.communicate(timeout=PATIENCE)[0].endswith(b"<ab>\n")
        assert set_up(terminal) == before


IN_THE_BACKGROUND = """
import signal, subprocess, termios
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = subprocess.Popen(sys.argv[1:], process_group=0, preexec_fn=lambda: signal.signal(signal.SIGTTOU, signal.SIG_DFL))
print(job.pid, flush=True)
input()
os.tcsetpgrp(0, job.pid)
ended = os.waitpid(job.pid, os.WUNTRACED)[1]
os.tcsetpgrp(0, os.getpgrp())
print('ended', ended, termios.tcgetattr(0)[3] & termios.ECHO == termios.ECHO, flush=True)
"""


def test_in_the_background_no_key_is_taken_until_it_comes_to_the_front(tmp_path: Path) -> None:
    job = [*FLARELOG, "run", "--pty", "--spool", "spool", "--", *python("print('up'); print(f'<{input()}>')")]
    master, slave = os.openpty()
    with subprocess.Popen(
        python(IN_THE_BACKGROUND, *job), stdin=slave, stdout=subprocess.PIPE, cwd=tmp_path, env=environment(),
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as shell:  # fmt: skip
        assert shell.stdout is not None
        before = as_new()
        pid = int(read_until(shell.stdout.fileno(), b"\n"))
        read_until(shell.stdout.fileno(), b"up\n")
        time.sleep(0.6)  # longer than the interval between looks
        assert set_up(master) == before
        assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S", "it is not stopped"
        os.write(master, b"for the shell\r")
        until(lambda: is_given_on(master), "it is in front")
        os.write(master, b"for the job\r")
        rest = shell.communicate(timeout=PATIENCE)[0]
        assert b"<for the job>\n" in rest
        assert b"shell" not in rest
        assert rest.endswith(b"ended 0 True\n")
        assert set_up(master) == before
    os.close(master)
    os.close(slave)


def test_keys_that_the_command_does_not_read_hold_nothing_up(tmp_path: Path) -> None:
    with on_a_terminal(tmp_path, "--pty", "--", "sh", "-c", "stty -echo; echo up; sleep 2; exit 3") as (ran, terminal):
        assert ran.stdout is not None
        read_until(ran.stdout.fileno(), b"up\n")
        os.set_blocking(terminal, False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(100):
                os.write(terminal, b"word\r" * 200)
        assert ran.wait(PATIENCE) == 3


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ({}, "24 80"),
        ({"COLUMNS": "132", "LINES": "50"}, "50 132"),
        pytest.param({"COLUMNS": "wide", "LINES": "0"}, "24 80", marks=pytest.mark.soak),
    ],
)
def test_a_terminal_where_flarelog_has_none_has_a_size(tmp_path: Path, said: dict[str, str], size: str) -> None:
    ran = Ran(tmp_path, "--pty", command=["sh", "-c", "stty size <&1"], env=said)
    assert ran.ends() == (0, f"{size}\n".encode(), b"")


# --- kills


SPEAKS = """
n = 0
while not os.path.exists('enough'):
    os.write(1, b'%099d\\n' % n)
    n += 1
    if len(sys.argv) > 1: time.sleep(float(sys.argv[1]))
"""


def kill(ran: Ran, found: Callable[[int], list[int]], times: int, every: float) -> None:
    """Kill the processes *found* below the command *times* times, *every* so many seconds; then let the command end."""
    killed, deadline = 0, time.monotonic() + PATIENCE
    while killed < times:
        assert ran.process.poll() is None
        assert time.monotonic() < deadline, f"killed {killed} times"
        time.sleep(every)
        for pid in found(ran.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    (ran.directory / "enough").touch()
    assert ran.ends()[0] == 0


def whole(said: bytes) -> None:
    """Assert that every line is there, in order."""
    lines = said.split(b"\n")
    assert lines.pop() == b""
    wrong = next((n for n, line in enumerate(lines) if line != b"%099d" % n), None)
    assert wrong is None, f"line {wrong}: {lines[wrong]!r}"


def test_a_spooler_that_is_killed_again_and_again_costs_no_byte(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        ran = Ran(tmp_path, "--spool-max", str(64 << 20), command=python(SPEAKS), stdout=out)
        kill(ran, lambda pid: [one for one in [spooler_of(pid)] if one], times=20, every=0.001)
    said = (tmp_path / "out").read_bytes()
    whole(said)
    if len(said) < 40 << 20:  # beyond that size the oldest segments are gone
        assert ran.spooled() == said


def test_a_sigterm_to_every_process_costs_nothing_that_is_said_after_it(tmp_path: Path) -> None:
    text = """
import signal
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), os.write(1, b'end' * 500_000), os._exit(4)))
os.write(1, b'up')
while True: signal.pause()
"""
    ran = Ran(tmp_path, command=python(text))
    until(lambda: ran.spooled() == b"up", "it speaks")
    os.kill(spooler_of(ran.process.pid), signal.SIGTERM)
    ran.process.terminate()
    said = b"up" + b"end" * 500_000
    assert ran.ends(20) == (4, said, b"")
    assert ran.spooled() == said


def test_after_a_sigterm_to_every_process_its_last_words_and_its_end_are_sent(place: Place) -> None:
    receiver = place.serve()
    text = """
import signal
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), os.write(1, b'end'), os._exit(4)))
os.write(1, b'up')
while True: signal.pause()
"""
    to_it = ("--receiver", receiver.address, "--run", RUN, "--site", SITE)
    ran = Ran(place.directory, *to_it, command=python(text))
    receiver.gets(b"up", "stdout.log", SITE, RUN)
    for pid in (*children(ran.process.pid), ran.process.pid):
        os.kill(pid, signal.SIGTERM)
    assert ran.ends(20) == (4, b"upend", b"")
    receiver.gets(b"upend", "stdout.log", SITE, RUN)
    [end] = receiver.streams(RUN)[f"{SITE}/stdout.log"]["exits"]
    assert end["code"] == 4


@pytest.mark.soak
def test_copiers_that_are_killed_cost_nothing_that_is_kept(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        ran = Ran(tmp_path, command=python(SPEAKS), stdout=out)
        kill(ran, copiers_of, times=10, every=0.05)
    whole(ran.spooled())
    assert len((tmp_path / "out").read_bytes()) >= len(ran.spooled())


def test_a_guard_that_is_killed_leaves_the_command_and_its_output(place: Place) -> None:
    receiver = place.serve()
    named = ("--receiver", receiver.address, "--run", RUN, "--site", SITE)
    text = "print('early', flush=True); time.sleep(2); print('late', flush=True)"
    with open(place.directory / "out", "wb") as out:
        ran = Ran(place.directory, *named, command=python(text), stdout=out)
        until(lambda: (place.directory / "out").read_bytes() == b"early\n", "it speaks")
        ran.process.kill()
        ran.ends()
    receiver.gets(b"early\nlate\n", "stdout.log", SITE, RUN)
    until(lambda: all(one["sealed"] for one in shown(place, receiver)), "the sidecar drains when all is over")
    assert (place.directory / "out").read_bytes() == b"early\nlate\n"


def test_of_a_spool_one_sidecar_sends_at_a_time(place: Place) -> None:
    """That of a guard that was killed has parts open that the command, run again, lets the spool drop."""
    address = free_address()
    named = ("--receiver", address, "--run", RUN, "--site", SITE, "--spool-max", "131072", "--copy", "off")
    says = ["sh", "-c", "seq 1 20000; touch said; sleep 1"]
    first = Ran(place.directory, *named, "--linger", "20", command=says, stderr=subprocess.DEVNULL)
    until((place.directory / "said").exists, "it has spoken")
    until(lambda: sidecars_of(first.process.pid), "it has a sidecar")
    [older] = sidecars_of(first.process.pid)
    first.process.kill()
    first.ends()
    time.sleep(1.5)  # nobody holds its pipes any more, and the sidecar has all parts open
    os.kill(older, signal.SIGSTOP)
    second = Ran(place.directory, *named, "--linger", "20", command=["sh", "-c", "seq 20001 40000; sleep 6"])
    until(lambda: next(second.spool.rglob(".stdout.log.lead"), None), "parts of the first one are dropped")
    receiver = place.serve(listen=address)
    time.sleep(1)
    begun = sidecars_of(second.process.pid)
    os.kill(older, signal.SIGCONT)
    assert not begun
    assert second.ends() == (0, b"", b"")
    streams = {one["log"]: one for one in shown(place, receiver)}
    assert set(streams) == {"stdout.log", "stderr.log"}
    stored = receiver.stored("stdout.log", SITE, RUN)
    written = b"".join(b"%d\n" % n for n in range(1, 40001))
    assert len(stored) + sum(gap["length"] for gap in streams["stdout.log"]["gaps"]) == len(written)
    assert b"".join(sorted(stored.splitlines(True), key=int)) == stored
    assert list(second.spool.iterdir()) == []


def test_a_sidecar_that_is_killed_is_started_again(place: Place) -> None:
    receiver = place.serve()
    named = ("--receiver", receiver.address, "--run", RUN, "--site", SITE)
    ran = Ran(place.directory, *named, command=python(SPEAKS, "0.001"), stdout=subprocess.DEVNULL)
    kill(ran, lambda pid: [one for one, line in children(pid).items() if " sidecar " in line], times=3, every=0.8)
    stored = receiver.stored("stdout.log", SITE, RUN)
    whole(stored)
    receiver.holds(stored, "stdout.log", SITE, RUN)
    assert [path for path in ran.spool.rglob("*") if path.is_file()] == []


# --- the command's environment


@pytest.mark.parametrize("longer", ["", " (sleep 2; echo last) &"], ids=["ended", "output-still-open"])
def test_a_sidecar_that_is_stopped_is_waited_for_within_linger(place: Place, longer: str) -> None:
    receiver = place.serve()
    waiting = "echo said; while [ ! -e go ]; do sleep 0.05; done; echo end;" + longer
    ran = Ran(place.directory, *sent(receiver), "--linger", "1", "--copy", "off", command=["sh", "-c", waiting])
    receiver.gets(b"said\n", "stdout.log", SITE, RUN)
    [sidecar] = sidecars_of(ran.process.pid)
    os.kill(sidecar, signal.SIGSTOP)
    (place.directory / "go").touch()
    code, _, err = ran.ends(15)
    assert (code, len(re.findall(b"the sidecar is stopped, ", err))) == (0, 1), err
    until(lambda: not Path(f"/proc/{sidecar}").exists(), "nothing is left that could send later")
    last = b"last\n" if longer else b"end\n"
    until(lambda: next(ran.spool.rglob("stdout.log")).read_bytes().endswith(last), "the output has ended")
    told = err.decode().rpartition(" this command sends and removes it: flarelog ")[2]
    until(lambda: place.call(*shlex.split(told)).ends() == 0, "nobody else has the spool")
    receiver.holds(b"said\nend\n" + (b"last\n" if longer else b""), "stdout.log", SITE, RUN)
    assert list(ran.spool.iterdir()) == []


@pytest.mark.parametrize("found", [lambda pid: [spooler_of(pid)], copiers_of], ids=["spooler", "copiers"])
def test_what_copies_goes_on_after_a_stop(tmp_path: Path, found: Callable[[int], list[int]]) -> None:
    """The command writes more than its pipe holds."""
    waiting = "echo said; while [ ! -e go ]; do sleep 0.05; done; head -c 3000000 /dev/zero"
    ran = Ran(tmp_path, command=["sh", "-c", waiting])
    until(lambda: ran.spooled() == b"said\n" and all(found(ran.process.pid)), "it speaks")
    stopped = found(ran.process.pid)
    assert stopped
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    (tmp_path / "go").touch()
    assert ran.ends(15) == (0, b"said\n" + bytes(3_000_000), b"")


def test_only_what_was_unset_is_set(tmp_path: Path) -> None:
    text = "print({k: os.environ.get(k) for k in ('PYTHONUNBUFFERED', 'PYTHONFAULTHANDLER', 'PET_TEE')})"
    _, out, _ = Ran(tmp_path, command=python(text)).ends()
    assert eval(out) == {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "PET_TEE": "3"}
    _, out, _ = Ran(tmp_path, command=python(text), env={"PYTHONFAULTHANDLER": "0", "PET_LOG_DIR": "x"}).ends()
    assert eval(out) == {"PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "0", "PET_TEE": None}


def test_it_has_no_descriptor_and_no_mask_of_flarelogs(tmp_path: Path) -> None:
    text = """
print([fd for fd in os.listdir('/proc/self/fd') if int(fd) > 2 and os.path.exists(f'/proc/self/fd/{fd}')])
print([line.split()[1] for line in open('/proc/self/status') if line.startswith(('SigBlk', 'SigIgn'))])
"""
    plain = subprocess.run(python(text), capture_output=True, stdin=subprocess.DEVNULL, check=True).stdout
    assert Ran(tmp_path, command=python(text)).ends()[1] == plain


# --- the exit record at the receiver


def sent(receiver: Receiver) -> tuple[str, ...]:
    return "--receiver", receiver.address, "--run", RUN, "--site", SITE


@pytest.mark.parametrize(
    ("command", "how"),
    [
        (["sh", "-c", "echo out; exit 3"], {"code": 3, "signal": None}),
        pytest.param(["true"], {"code": 0, "signal": None}, marks=pytest.mark.soak),
        (["sh", "-c", "kill -9 $$"], {"code": None, "signal": 9, "oom": "none"}),
        pytest.param(["sh", "-c", "exit 137"], {"code": 137, "signal": None, "oom": "none"}, marks=pytest.mark.soak),
    ],
    ids=["code", "well", "killed", "137-is-no-signal"],
)
def test_how_it_ended_stands_in_each_log(place: Place, command: list[str], how: dict[str, object]) -> None:
    receiver = place.serve()
    Ran(place.directory, *sent(receiver), command=command).ends()
    streams = receiver.streams(RUN)
    assert sorted(streams) == [f"{SITE}/stderr.log", f"{SITE}/stdout.log"]
    (one,), (other,) = (streams[f"{SITE}/{log}"]["exits"] for log in ("stdout.log", "stderr.log"))
    if one["oom"] is None:  # no cgroup counts OOM kills here
        how.pop("oom", None)
    assert {name: one[name] for name in how} == how
    assert {**one, "offset": 0} == {**other, "offset": 0}
    assert one["offset"] == streams[f"{SITE}/stdout.log"]["committed"]
    assert one["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert one["started"] <= one["ended"]
    assert one["maxrss"] > 0
    assert all(stream["sealed"] for stream in streams.values())


def test_each_command_of_one_name_has_its_end_in_its_place(place: Place) -> None:
    receiver = place.serve()
    for n in range(3):
        assert Ran(place.directory, *sent(receiver), command=["sh", "-c", f"echo {n}; exit {n}"]).ends()[0] == n
    record = receiver.holds(b"0\n1\n2\n", "stdout.log", SITE, RUN)
    assert [(one["code"], one["offset"]) for one in record["exits"]] == [(0, 2), (1, 4), (2, 6)]


def test_those_who_look_are_told(place: Place) -> None:
    receiver = place.serve()
    Ran(place.directory, *sent(receiver), command=["sh", "-c", "echo out; exit 3"]).ends()
    at = ("--receiver", receiver.address)
    assert f"exit: {RUN}/{SITE}: exit code 3 after " in place.call("status", RUN, *at).printed
    assert f"exit: {RUN}/{SITE}: exit code 3 after " in place.call("streams", RUN, *at).said
    assert "the command ended: exit code 3 after " in place.call("logs", RUN, *at).printed
    rows = [line.split() for line in place.call("runs", *at).printed.splitlines()]
    assert rows[1][rows[0].index("FAILED")] == "1"
    assert json.loads(place.call("status", RUN, *at, "-o", "json").printed.splitlines()[0])["exit"]["code"] == 3


def test_a_sidecar_beside_a_command_tells_of_its_end_while_it_goes_on(place: Place) -> None:
    receiver = place.serve()
    spool = place.directory / "logs"
    sidecar = place.sidecar(receiver, root=spool, run=RUN, site=SITE)
    Ran(place.directory, "--spool", str(spool), command=["sh", "-c", "echo out; exit 5"]).ends()
    until(lambda: receiver.stored("stdout.log", SITE, RUN) == b"out\n", "it is stored")
    until(lambda: all(one["exits"] for one in shown(place, receiver)), "its end is told in both logs")
    assert sidecar.stop() == 0
    assert [one["code"] for one in receiver.streams(RUN)[f"{SITE}/stdout.log"]["exits"]] == [5]


def test_of_a_guard_that_is_killed_no_end_is_made_up(place: Place) -> None:
    receiver = place.serve()
    text = "print('early', flush=True); time.sleep(5); print('late', flush=True)"
    ran = Ran(place.directory, *sent(receiver), command=python(text), stdout=subprocess.DEVNULL)
    until(lambda: any(path.read_bytes() for path in ran.spool.rglob("stdout.log")), "it speaks")
    ran.process.kill()
    ran.ends()
    receiver.gets(b"early\nlate\n", "stdout.log", SITE, RUN)
    until(lambda: all(one["sealed"] for one in shown(place, receiver)), "it is sealed")
    assert receiver.streams(RUN)[f"{SITE}/stdout.log"]["exits"] == []
    said = place.call("status", RUN, "--receiver", receiver.address).printed
    assert f"exit: {RUN}/{SITE}: how the command ended is not known: flarelog run was killed" in said
    assert said.count("exit: ") == 1
    for reader in (["findings", RUN], ["logs", RUN, "--first-error"], ["report", RUN, "-o", "-", "--format", "md"]):
        said = place.call(*reader, "--receiver", receiver.address).talk()
        assert said.count("how the command ended is not known") == 1, said
    assert "does not tell how its command ended" in said


def test_of_a_command_that_told_its_end_nothing_is_unknown(place: Place) -> None:
    spool = place.directory / "logs"
    for n in range(2):
        Ran(place.directory, "--spool", str(spool), command=["sh", "-c", f"echo {n}; exit {n}"]).ends()
    receiver = place.serve()
    assert place.sidecar(receiver, "--once", root=spool, run=RUN, site=SITE).ends() == 0
    assert "not known" not in place.call("status", RUN, "--receiver", receiver.address).printed


@pytest.fixture
def cgroup() -> Iterator[tuple[str, ...]]:
    """The words that run a command with at most 64 MiB of memory."""
    old, new = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    base, limit = (old, "memory.limit_in_bytes") if old.is_dir() else (new, "memory.max")
    own = base / f"flarelog-test-{os.getpid()}"
    try:
        own.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        try:
            (own / limit).write_text(str(64 << 20))
            with contextlib.suppress(OSError):
                (own / "memory.swap.max").write_text("0")
        except OSError as error:
            pytest.skip(f"memory cannot be limited here: {error}")
        yield "sh", "-c", f'echo $$ > {own}/cgroup.procs && exec "$@"', "sh"
    finally:
        until(lambda: not (own / "cgroup.procs").read_text(), "the cgroup is empty")
        own.rmdir()


EATS = "print('eating', flush=True)\nkept = []\nwhile True: kept.append(b'x' * (1 << 20))"


def test_a_command_that_is_killed_for_want_of_memory(place: Place, cgroup: tuple[str, ...]) -> None:
    receiver = place.serve()
    spool = place.directory / "logs"
    ran = Ran(place.directory, "--spool", str(spool), command=python(EATS), before=cgroup)
    assert ran.ends()[0] == -9
    assert place.sidecar(receiver, "--once", root=spool, run=RUN, site=SITE).ends() == 0
    (how,) = receiver.streams(RUN)[f"{SITE}/stdout.log"]["exits"]
    assert (how["signal"], how["oom_kill_before"], how["oom_kill_after"]) == (9, 0, 1)
    if how["oom"] == "certain":
        assert how["sentence"].endswith("OOM")
    else:
        assert how["oom"] == "likely"
        assert re.search(r"rose from 0 to 1 within [01]\.\d s before: likely OOM$", how["sentence"])


def test_a_worker_that_is_killed_for_want_of_memory_is_not_the_command(place: Place, cgroup: tuple[str, ...]) -> None:
    receiver = place.serve()
    spool = place.directory / "logs"
    text = f"import subprocess\nprint(subprocess.run([sys.executable, '-c', {EATS!r}]).returncode); sys.exit(7)"
    ran = Ran(place.directory, "--spool", str(spool), command=python(text), before=cgroup)
    assert ran.ends()[:2] == (7, b"eating\n-9\n")
    assert place.sidecar(receiver, "--once", root=spool, run=RUN, site=SITE).ends() == 0
    (how,) = receiver.streams(RUN)[f"{SITE}/stdout.log"]["exits"]
    assert (how["code"], how["oom"]) == (7, "others")
    assert how["sentence"].endswith("rose from 0 to 1 while it ran: the kernel killed another process")


RANKED = """
import os, sys, time
place = os.environ["PET_LOG_DIR"] + "/none_x/attempt_0/0"
os.makedirs(place)
most = more = 0
with open(place + "/stdout.log", "wb", 0) as log:
    for number in range(24):
        log.write(bytes([65 + number]) * (8 << 20))
        held = os.fstat(log.fileno()).st_blocks * 512
        most = max(most, held)
        more += held < most  # it was emptied
        if more == 4:
            break
        time.sleep(0.25)
    print(most, log.tell())
"""


@pytest.mark.soak
def test_what_torchrun_keeps_of_a_rank_is_bounded_and_arrives(place: Place) -> None:
    receiver = place.serve("--durability", "memory")
    named = ("run", "--receiver", receiver.address, "--run", RUN, "--site", SITE, "--spool-max", str(1 << 20))
    program = place.start(*named, "--linger", "60", "--", sys.executable, "-c", RANKED)
    assert program.ends(120) == 0, program.talk()
    most, wrote = map(int, program.printed.split())
    assert most < 160 << 20 < 24 * (8 << 20)
    record = receiver.streams(run=RUN)[f"{SITE}/ranks/none_x/attempt_0/0/stdout.log"]
    data = receiver.stored("ranks/none_x/attempt_0/0/stdout.log", run=RUN, site=SITE)
    assert record["sealed"]
    assert len(record["generations"]) > 1, "it was emptied"
    lost = sum(gap["length"] for gap in record["gaps"])
    assert len(data) + lost == wrote
    assert b"\0" not in data
    assert list(dict.fromkeys(data)) == sorted(set(data)), "in the order in which it was written"
