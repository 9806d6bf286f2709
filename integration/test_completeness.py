"""What readers say, and how processes end, when a log is not complete. The whole table: tests/test_completeness.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from flarelog.bus import Bus
from flarelog.integrations.producer import Producer
from flarelog.lifecycle import Event
from integration.harness.places import LOG, RUN, SITE, Place, Receiver, append, until

FIRST, UNSENT, SECOND = b"first\n", 3000 * b"x", b"second\n"
UNSEEN = f"the end of {LOG} was not seen"


def deleted_while_down(place: Place, receiver: Receiver, run: str = RUN) -> None:
    """Kill a sidecar, and delete the file that it had sent a part of."""
    log = place.root / (run if run != RUN else "") / LOG
    log.parent.mkdir(exist_ok=True)
    append(log, FIRST)
    sidecar = place.sidecar(receiver, "--include", LOG, root=log.parent, run=run)
    receiver.gets(FIRST, run=run)
    sidecar.kill()
    append(log, UNSENT)
    kept = log.rename(log.with_name(f"{LOG}.1"))
    append(log, SECOND)  # before the removal, so that it gets another inode
    kept.unlink()


def readers(place: Place, *where: str) -> Iterator[tuple[str, int, str]]:
    """Each reader's name, exit code and output."""
    for words in (
        *("logs --exit-status", "logs --exit-status -o raw", "logs --exit-status -o json", "logs --exit-status -n 1"),
        *("logs --exit-status --first-error", "status", "streams", "findings", "report -o - --format md"),
    ):
        name, *options = words.split()
        done = place.call(name, RUN, *options, *where)
        yield words, done.ends(), done.printed + done.said


def test_an_end_that_was_not_seen_is_said_by_each_process_and_reader(place: Place) -> None:
    receiver = place.serve()
    deleted_while_down(place, receiver)
    for _ in range(2):  # the second sidecar finds the loss in the record
        done = place.once(receiver, "--include", LOG, "--json")
        assert done.ends() == 6, done.talk()
        (record,) = done.records()
        assert record["incomplete"] == f"incomplete: {UNSEEN}"
    receiver.program.says(f"{RUN}/{SITE}/{LOG}: incomplete at offset {len(FIRST)}: {UNSEEN}")
    assert place.once(receiver, "--include", LOG, "--accept-gaps").ends() == 0
    for where in (("--receiver", receiver.address), ("--store", str(receiver.store))):
        for words, code, text in readers(place, *where):
            assert UNSEEN in text.replace("\\", ""), (words, text)  # Markdown has escapes
            assert code == (6 if "--exit-status" in words else 3 if words == "findings" else 0), (words, text)
        (run,) = [json.loads(line) for line in place.call("runs", RUN, "--json", *where).printed.splitlines()]
        assert (run["state"], run["gaps"], run["unseen"]) == ("sealed", 0, 1)
    receiver.stop()
    verified = place.call("verify", RUN, "--store", str(receiver.store))
    assert (verified.ends(), UNSEEN in verified.printed) == (6, True)
    sourced = place.call("verify", RUN, "--store", str(receiver.store), "--source", str(place.root))
    assert (sourced.ends(), UNSEEN in sourced.printed) == (6, True)


def test_an_agent_says_so_of_a_run_each_time(place: Place) -> None:
    receiver = place.serve()
    deleted_while_down(place, receiver, "job-1")
    for _ in range(2):  # the second agent opens no log of the run
        agent = place.start(
            "--log-level", "info", "agent", "--receiver", receiver.address, "--site", SITE, "--root", str(place.root),
            "--once",
        )  # fmt: skip
        assert agent.ends() == 6, agent.talk()
        assert f"run job-1: incomplete: {UNSEEN}" in agent.said
        assert "all of it is stored" not in agent.said


def test_an_embedded_producer_says_so(place: Place) -> None:
    receiver = place.serve()
    deleted_while_down(place, receiver)
    bus, ended = Bus(), list[tuple[str, bool]]()
    bus.subscribe(lambda notice: ended.append((notice.text, notice.ok)), Event.STREAM_ENDED)
    with Producer(receiver.address, SITE, str(place.root), include=LOG, bus=bus) as producer:
        bus.publish(Event.START_RUN, RUN)
        bus.publish(Event.END_RUN, RUN)
        (outcome,) = producer.outcomes[RUN]
        assert (outcome.exit_code, outcome.streams[0].receipt is not None) == (6, True)
        assert producer.placeholder(RUN, LOG).why == f"incomplete: {UNSEEN}"
    assert ended == [(f"sealed at offset {len(FIRST + SECOND)}; incomplete: {UNSEEN}", False)]


def test_a_log_whose_sidecar_stays_away_is_incomplete(place: Place) -> None:
    receiver = place.serve("--idle-timeout", "1")
    append(place.log, FIRST)
    sidecar = place.sidecar(receiver)
    receiver.gets(FIRST)
    sidecar.kill()
    where = "--receiver", receiver.address
    until(lambda: "ended: timeout" in place.call("status", RUN, *where).printed, "it is closed")
    text = place.call("status", RUN, *where).printed
    assert "ended: incomplete: it has no receipt, so its last bytes may be missing" in text
    for options in ((), ("-o", "raw"), ("-n", "1")):
        assert place.call("logs", RUN, "--exit-status", *options, *where).ends() == 7
    receiver.stop()
    assert place.call("verify", RUN, "--store", str(receiver.store)).ends() == 7


@pytest.mark.parametrize(
    "start", [pytest.param((), id="a-policy"), pytest.param(("--start-at", "end"), id="and-a-start")]
)
def test_what_a_site_keeps_for_itself_is_no_loss(place: Place, start: tuple[str, ...]) -> None:
    receiver = place.serve()
    append(place.log, FIRST)
    append(place.root / "private.log", FIRST)
    policy = place.directory / "policy.toml"
    policy.write_text('exclude = ["private*"]\n')
    done = place.once(receiver, "--site-policy", str(policy), *start)
    assert done.ends() == 0, done.talk()
    where = "--store", str(receiver.store)
    assert place.call("logs", RUN, "--exit-status", *where).ends() == 0
    report = place.call("report", RUN, "-o", "-", "--format", "md", *where).printed
    assert re.search(r"The site is complete", report)
