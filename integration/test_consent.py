"""A site's policy and redaction with real processes: the bytes that it keeps back never leave, whatever is killed."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

import flarelog
from flarelog import Bus, Event, Producer
from flarelog.sender.consents import CONSENT_EVERY
from flarelog.sources.redaction.mask import Rules
from integration.harness.places import LOG, RUN, SITE, Place, Receiver, append, free_address, until

SECRET = b"hunter2-and-more"


def secrets(count: int, first: int = 0) -> bytes:
    """Lines of a training that prints a secret."""
    return b"".join(
        b"%06d step loss=0.%d password=%s-%d\r%06d tokens=%d\n" % (n, n * 7919, SECRET, n, n, n)
        for n in range(first, first + count)
    )


def shown(data: bytes, *names: str) -> bytes:
    out, _, _ = Rules(names or ("all",)).show(lambda begin, end: data[begin:end], 0, len(data), len(data))
    return out


def policy(place: Place, text: str) -> str:
    path = place.directory / "consent.toml"
    path.write_text(text)
    return str(path)


def sealed(receiver: Receiver, data: bytes, matches: int) -> None:
    """Assert that the stream is *data* masked, that both ends agree, and that the receipt has the number of matches."""
    wanted = shown(data)
    assert SECRET[:4] not in wanted
    record = receiver.holds(wanted)
    assert record["redacted"] == {"matches": matches, "bytes": sum(a != b for a, b in zip(data, wanted, strict=True))}
    assert "redacted:5:tokens+passwords+keys+email" in record["notes"]


def test_what_is_masked_is_said_by_the_receipt_by_streams_and_by_verify(place: Place) -> None:
    receiver = place.serve()
    data = append(place.log, secrets(2000))
    sidecar = place.once(receiver, "--redact", "all", "--json")
    assert sidecar.process.returncode == 0, sidecar.talk()
    sealed(receiver, data, 2000)
    assert sidecar.records()[0]["redacted"]["matches"] == 2000
    table = place.call("streams", "run-1", "--store", str(receiver.store))
    assert "the site masked secrets: they are stored as asterisks" in table.said
    assert "at least 2,000 matches" in table.said
    receiver.stop()
    verified = place.call("verify", "run-1", "--store", str(receiver.store), "--source", str(place.root))
    assert verified.process.returncode == 0, verified.talk()
    assert f"{len(data):,} compared with their source, at least 2,000 matches" in verified.printed


def test_killed_at_either_end_in_the_middle_of_lines_nothing_leaves_and_nothing_is_sent_twice(place: Place) -> None:
    receiver, data = place.serve(listen=free_address()), b""
    for round_ in range(4):
        sidecar = place.sidecar(receiver, "--redact", "all")
        data += append(place.log, secrets(500, 500 * round_) + b"password: hunt")
        receiver.grows()
        sidecar.kill()
        data += append(place.log, b"er2-and-more\n")
        if round_ % 2:
            receiver.program.kill()
            receiver = receiver.again()
    sidecar = place.sidecar(receiver, "--redact", "all")
    receiver.gets(shown(data))
    assert sidecar.stop() == 0, sidecar.talk()
    sealed(receiver, data, 2004)
    assert len(receiver.streams()[f"{SITE}/{LOG}"]["generations"]) == 1
    assert SECRET not in b"".join(path.read_bytes() for path in receiver.store.rglob("*") if path.is_file())


def test_a_drain_in_the_middle_of_a_line_and_what_goes_on_with_it(place: Place) -> None:
    receiver = place.serve()
    first = append(place.log, b"one\npassword: 'hunter2-and-more' lo")
    sidecar = place.sidecar(receiver, "--redact", "passwords")
    receiver.gets(b"one\n")
    assert sidecar.stop() == 0
    assert receiver.stored() == b"one\npassword: '****************' **", (
        "its last word may be the beginning of a secret"
    )
    second = append(place.log, b"ss\nlast\n")
    assert place.once(receiver, "--redact", "passwords").process.returncode == 0
    assert receiver.stored() == b"one\npassword: '****************' **ss\nlast\n"
    record = receiver.streams()[f"{SITE}/{LOG}"]
    assert [generation["source_offset"] for generation in record["generations"]] == [0, len(first)]
    assert record["committed"] == len(first + second)
    assert record["gaps"] == []


@pytest.mark.parametrize("once", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["once", "until-sigterm"])
def test_compressed_files_are_named_and_not_everything_was_sent(place: Place, once: bool) -> None:
    receiver = place.serve()
    names = [f"{name}.log.1" for name in ("a", "b")] + ["c.gz"]
    for name in names:
        (place.root / name).write_bytes(gzip.compress(name.encode()))
    options = ("--redact", "all", "--include", "*", "--json")
    if once:
        sidecar = place.once(receiver, *options)
    else:
        sidecar = place.sidecar(receiver, *options)
        sidecar.heeds_signals()
        sidecar.stop()
    assert sidecar.ends() == 1, sidecar.talk()
    told = {record["error"] for record in sidecar.records()}
    assert told == {
        f"{place.root / name} is compressed and is not sent: redaction cannot look into it" for name in names
    }
    for sentence in told:
        assert sidecar.said.count(sentence) == 1
    assert not (receiver.store / RUN).exists()


def test_rotations_and_truncations_are_followed_as_without_redaction(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--redact", "all")
    data = append(place.log, secrets(300) + b"the end of it")
    receiver.gets(shown(data[: data.rindex(b"\n") + 1]))
    os.rename(place.log, place.root / "app.log.1")
    rotated = shown(data)
    more = append(place.log, secrets(300, 300))
    receiver.gets(rotated + shown(more))
    place.log.write_bytes(secrets(2, 700))
    receiver.gets(rotated + shown(more) + shown(secrets(2, 700)))
    assert sidecar.stop() == 0, sidecar.talk()
    record = receiver.streams()[f"{SITE}/{LOG}"]
    assert [generation["ended"] for generation in record["generations"]] == ["rotated", "truncated", None]
    assert record["digest"] == f"crc32:{zlib.crc32(receiver.stored()):08x}"


def test_a_line_that_is_longer_than_any_window_hides_no_secret(place: Place) -> None:
    receiver = place.serve()
    sidecar = place.sidecar(receiver, "--redact", "all")
    data = b""
    for size in (70_000, 65_530, 131_060, 3):
        data += append(place.log, b"x" * size + b" password=" + SECRET + b" ")
    receiver.grows(3 * 65_536)  # sent live, before the line has ended
    data += append(place.log, b"\n")
    receiver.gets(shown(data))
    assert sidecar.stop() == 0
    assert SECRET[:5] not in receiver.stored()


# --- consent


def silent_address() -> tuple[str, list[socket.socket], socket.socket]:
    """An address, the connections that it got, and its listening socket."""
    listening = socket.create_server(("127.0.0.1", 0))
    met: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                met.append(listening.accept()[0])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    return f"127.0.0.1:{listening.getsockname()[1]}", met, listening


@pytest.mark.parametrize("how", ["option", "variable", pytest.param("both", marks=pytest.mark.soak)])
def test_a_site_that_says_no_connects_to_nobody_and_ends_once_with_5(place: Place, how: str) -> None:
    append(place.log, secrets(10))
    no = policy(place, "allow_log_streaming = false\n")
    yes = place.directory / "yes.toml"
    yes.write_text("allow_log_streaming = true\n")
    args = {"option": ("--site-policy", no), "variable": (), "both": ("--site-policy", str(yes))}[how]
    env: dict[str, Any] = {} if how == "option" else {"FLARELOG_SITE_POLICY": no}
    address, met, listening = silent_address()
    with listening:
        program = place.sidecar(address, "--once", *args, **env)
        assert program.ends() == 5
    assert "consent.toml says allow_log_streaming = false" in program.sentence()
    assert met == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("allow_logs = false", "the key 'allow_logs' is unknown"),
        pytest.param("allow_log_streaming = 1", "must be true or false", marks=pytest.mark.soak),
        ("redact = ['everything']", "the redaction 'everything' is unknown"),
        pytest.param(r"redact_patterns = ['(a)\1']", "no lookaround and no backreferences", marks=pytest.mark.soak),
        pytest.param("include = ['/var/log/*']", "remove the '/' before it", marks=pytest.mark.soak),
        ("[", "is not valid TOML"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_policy_that_makes_no_sense_lets_nothing_go(place: Place, text: str | None, sentence: str) -> None:
    append(place.log, secrets(10))
    path = str(place.directory / "missing") if text is None else policy(place, text)
    address, met, listening = silent_address()
    with listening:
        program = place.sidecar(address, "--once", "--site-policy", path)
        assert program.ends() == 78
    assert sentence in program.sentence()
    assert met == []


def test_only_what_site_and_asker_both_name_is_sent_and_masked_as_either_wants(place: Place) -> None:
    receiver = place.serve()
    for name in ("a.log", "b.log", "c.txt", "private/a.log"):
        (place.root / name).parent.mkdir(exist_ok=True)
        append(place.root / name, b"me@example.org password=abc\n")
    path = policy(place, "include = ['*.log']\nexclude = ['private/**']\nredact = ['passwords']\n")
    done = place.once(receiver, *("--site-policy", path, "--include", "a.*", "--include", "*.txt", "--redact", "email"))
    assert done.process.returncode == 0, done.talk()
    assert list(receiver.streams()) == [f"{SITE}/a.log"]
    assert receiver.stored("a.log") == b"************** password=***\n"


@pytest.mark.parametrize(
    ("text", "code", "sentence"),
    [
        ("allow_log_streaming = false\n", 5, "now says allow_log_streaming = false: sending stops"),
        ("exclude = ['app.log']\n", 1, "was changed: sending stops"),
        pytest.param("allow_log_streaming = fals\n", 78, "sending stops", marks=pytest.mark.soak),
        (None, 78, "sending stops"),
    ],
    ids=["false", "less", "wrong", "gone"],
)
def test_a_policy_that_changes_ends_a_sidecar_which_drains_nothing_more(
    place: Place, text: str | None, code: int, sentence: str
) -> None:
    receiver = place.serve()
    path = policy(place, "allow_log_streaming = true\n")
    sidecar = place.sidecar(receiver, "--site-policy", path)
    data = append(place.log, b"one\n")
    receiver.gets(data)
    Path(path).write_text("# the same in other words\nallow_log_streaming = true\n")
    receiver.gets(data + append(place.log, b"two\n"))
    sidecar.tell(19)  # SIGSTOP: the change, the bytes and the signal all come before it looks
    os.unlink(path) if text is None else Path(path).write_text(text)
    append(place.log, b"three\n" * 1000)
    sidecar.tell(15)
    sidecar.tell(18)
    assert sidecar.ends() == code, sidecar.talk()
    assert sentence in sidecar.said
    assert receiver.stored() == b"one\ntwo\n"
    assert "Traceback" not in sidecar.said


def test_a_policy_that_changes_is_seen_while_nothing_happens(place: Place) -> None:
    receiver = place.serve()
    path = policy(place, "")
    sidecar = place.sidecar(receiver, "--site-policy", path)
    receiver.gets(append(place.log, b"one\n"))
    policy(place, "allow_log_streaming = false")
    assert sidecar.ends() == 5
    assert sidecar.complaints() == [], "a site's own wish is no error"
    append(place.log, b"two\n")
    assert place.sidecar(receiver, "--once", "--site-policy", path).ends() == 5
    assert receiver.stored() == b"one\n"


def test_an_embedded_producer_obeys_the_policy_and_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = place.serve()
    append(place.log, b"password=abc\n")
    bus, path = Bus(), policy(place, "allow_log_streaming = false")
    monkeypatch.setenv("FLARELOG_SITE_POLICY", path)
    with Producer(receiver.address, SITE, str(place.root), bus=bus) as producer:
        for run, code in (("run-1", 5), ("run-2", 0)):
            bus.publish(Event.START_RUN, run)
            bus.publish(Event.END_RUN, run)
            assert [outcome.exit_code for outcome in producer.outcomes[run]] == [code]
            policy(place, "redact = 'passwords'")
        policy(place, "redact = 'passwrds'")
        bus.publish(Event.START_RUN, "run-3")
        bus.publish(Event.END_RUN, "run-3")
        assert "run-3" not in producer.outcomes
    said = [record.getMessage() for record in caplog.records]
    assert sum("says allow_log_streaming = false" in text for text in said) == 1
    assert sum("the redaction 'passwrds' is unknown" in text for text in said) == 1
    assert [path.name for path in receiver.store.iterdir() if path.is_dir()] == ["run-2"]
    until(lambda: receiver.stored(run="run-2") == b"password=***\n", "what is redacted comes")


@pytest.mark.parametrize(
    "new", ["allow_log_streaming = false", "include = ['*.csv']", pytest.param("nonsense", marks=pytest.mark.soak)]
)
def test_the_end_of_a_run_waits_for_no_log_that_the_site_has_kept_back(place: Place, new: str) -> None:
    append(place.log, b"one\n")
    bus, path = Bus(), policy(place, "")
    store = place.directory / "store"
    with (
        flarelog.Receiver(str(store), bus=bus) as receiver,
        Producer(receiver.address, SITE, str(place.root), bus=bus, site_policy=path),
    ):
        bus.publish(Event.START_RUN, RUN)
        until(lambda: (store / RUN / SITE / LOG).exists(), "the log comes")
        policy(place, new)
        time.sleep(2 * CONSENT_EVERY)
        began = time.monotonic()
        bus.publish(Event.END_RUN, RUN)
    assert time.monotonic() - began < 20


@pytest.mark.soak
def test_a_receiver_that_takes_a_file_for_the_log_does_not_get_it_under_a_name_that_the_site_keeps(
    place: Place,
) -> None:
    """The receiver holds the same inode as public.log, sent from elsewhere; at this site the policy does not name the
    file.
    """
    elsewhere, policy = place.directory / "elsewhere", place.directory / "site.toml"
    elsewhere.mkdir()
    policy.write_text('include = ["public.log"]\n')
    receiver, names = place.serve(), ("public.log.bak", "public.log.1", "public.log-20261122", "old-public.log")
    for name in names:
        (place.root / name).write_bytes(b"first\n")
        (elsewhere / "public.log").unlink(missing_ok=True)
        os.link(place.root / name, elsewhere / "public.log")
        run = f"run-{names.index(name)}"
        forged = place.sidecar(receiver, "--once", root=elsewhere, run=run)
        assert forged.ends() == 0, forged.talk()
        (place.root / name).write_bytes(b"first\nsecret\n")
        (place.root / "public.log").write_bytes(b"said\n")
        state = ("--state", str(place.directory / "state"))
        for more in ((), state, state):
            sent = place.sidecar(receiver, "--once", "--site-policy", str(policy), *more, run=run)
            sent.ends()
            assert b"secret" not in b"".join(
                path.read_bytes() for path in (receiver.store / run).rglob("*") if path.is_file()
            ), (name, sent.talk())
        (place.root / name).unlink()
