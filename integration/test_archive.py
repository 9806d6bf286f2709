"""Runs in a bucket of a real S3 server: there and back, read there, and copied while the server is killed."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flarelog.errors import CANNOT_CONNECT, FAILED, NOT_ALLOWED, NOT_FOUND, OK, USAGE
from flarelog.lifecycle import RunState
from flarelog.model import Gap, Generation, Receipt, StreamId
from flarelog.stores.local.store import LocalStore
from flarelog.stores.runs import set_run
from integration.harness.places import LOG, RUN, SITE, Place, Program, append, lines, until
from integration.harness.s3 import S3, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

LARGE = StreamId("large", "site-1", "log.txt")


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3]:
    with S3(tmp_path / "s3") as server:
        yield server


def copy(place: Place, s3: S3, *args: str) -> Program:
    return place.call("copy", *args, **s3.environment)


def sentences(program: Program) -> str:
    """What *program* said, without its progress."""
    return "".join(line for line in program.said.splitlines(keepends=True) if "so far" not in line)


async def _training(root: Path, size: int, run: str, logs: int) -> None:
    """Store *logs* logs of *size* bytes, as of a training, and end the run."""
    numbers = random.Random(7)
    text = b"".join(
        b"2026-11-29 10:00:%02d,%03d INFO step %d loss %f lr 0.0003 grad %f\n"
        % (n % 60, n % 1000, n, numbers.random(), numbers.random())
        for n in range(20_000)
    )
    async with LocalStore(root, "memory") as store:
        for number in range(logs):
            appender = await store.appender(StreamId(run, f"site-{1 + number % 5}", f"rank-{number}.txt"), b"producer")
            await appender.mark(Generation(0, 0, f"rank-{number}.txt", 0, f"fh:{number:02}"))
            while appender.committed < size:
                await appender.append(appender.committed, text[: size - appender.committed])
            await appender.mark(Gap(size, appender.digest, 9, "gone"))
            await appender.sync()
            await appender.seal(Receipt(size, appender.digest, 2))
            await appender.close()
        await set_run(store, run, RunState.ENDED)


def training(root: Path, size: int, run: str = "large", logs: int = 1) -> Path:
    asyncio.run(_training(root, size, run, logs))
    return root


def logs(root: Path) -> dict[str, bytes]:
    """The bytes of each log in the directory *root*."""
    paths = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def test_a_run_in_an_archive_reads_as_it_did_in_its_directory_and_comes_back_the_same(place: Place, s3: S3) -> None:
    append(place.log, lines(3000) + b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n" + b"x" * 700_000)
    receiver = place.serve("--durability", "memory")
    assert place.once(receiver).process.returncode == OK
    append(place.log, b"more\n")
    assert place.once(receiver).process.returncode == OK
    place.call("run-end", RUN, "--receiver", receiver.address)
    receiver.stop()
    training(receiver.store, 6_700, "many", 40)
    training(receiver.store, 3_000_000)
    before, url = logs(receiver.store), s3.url()
    copied = copy(place, s3, str(receiver.store), url)
    assert copied.process.returncode == OK, copied.talk()
    assert [line.rpartition(", ")[2] for line in copied.printed.splitlines()] == ["verified"] * 3

    for command in (
        ("runs", "--json"),
        ("streams", "--json"),
        ("logs", RUN, "-o", "raw"),
        ("logs", RUN, "-n", "3"),
        ("logs", "large", "-n", "3"),
        ("logs", "many", "--order", "time", "-g", "step 17 "),
        ("status", RUN),
        ("findings", RUN),
        ("verify", "--json"),
    ):
        one, other = (place.call(*command, "--store", where, **s3.environment) for where in (str(receiver.store), url))
        assert other.process.returncode == one.process.returncode, other.talk()
        assert other.printed == one.printed, command
        assert sentences(other).replace(url, str(receiver.store)) == sentences(one), command

    back = place.directory / "back"
    returned = copy(place, s3, url, str(back), "--json")
    assert returned.process.returncode == OK, returned.talk()
    assert [(record["verified"], record["bytes"]) for record in returned.records()] == [
        (True, sum(len(data) for name, data in before.items() if name.startswith(f"{run}/")))
        for run in sorted({"large", "many", RUN})
    ]
    assert logs(back) == before
    for command in (("runs", "--json"), ("streams", "--json"), ("findings", RUN)):
        both = [place.call(*command, "--store", str(where)) for where in (receiver.store, back)]
        assert both[0].printed == both[1].printed, command


def test_the_end_of_a_large_log_takes_few_requests_and_little_of_it(place: Place, s3: S3) -> None:
    store = training(place.directory / "store", 100_000_000)
    assert copy(place, s3, str(store), s3.url()).process.returncode == OK
    assert len(s3.objects("=parts/")) >= 10
    before = len(s3.requests())
    tail = place.call("logs", "large", "--store", s3.url(), "-n", "20", **s3.environment)
    assert tail.process.returncode == OK, tail.talk()
    assert len(tail.printed.splitlines()) >= 20
    asked = s3.requests()[before:]
    assert sum(status == 206 for status, _, _ in asked) <= 4, asked
    assert len(asked) <= 20, asked


@pytest.mark.parametrize("soon", [True, False], ids=["back-at-once", "back-later"])
def test_a_copy_outlives_its_server(place: Place, s3: S3, soon: bool) -> None:
    store = training(place.directory / "store", 150_000_000)
    copying = place.start("copy", str(store), s3.url(), **s3.environment)
    until(lambda: len(s3.objects("=parts/")) >= 4, "parts are stored")
    s3.kill()
    assert copying.process.poll() is None, "the copy is in its middle"
    if soon:
        time.sleep(1)
        s3.start()
        assert copying.ends() == OK, copying.talk()
    else:
        assert copying.ends(60) == CANNOT_CONNECT, copying.talk()
        assert "does not answer" in copying.sentence()
        s3.start()
        again = copy(place, s3, str(store), s3.url(), "--json")
        assert again.process.returncode == OK, again.talk()
        (record,) = again.records()
        assert record["verified"]
        assert record["copied"] < record["bytes"] == 150_000_000, "it continues"
    back = place.directory / "back"
    assert copy(place, s3, s3.url(), str(back)).process.returncode == OK
    assert logs(back) == logs(store)
    assert place.call("verify", "--store", s3.url(), **s3.environment).process.returncode == 6  # the log has a gap


def test_a_copy_that_is_killed_is_continued(place: Place, s3: S3) -> None:
    store = training(place.directory / "store", 150_000_000)
    copying = place.start("copy", str(store), s3.url(), **s3.environment)
    until(lambda: len(s3.objects("=parts/")) >= 6, "parts are stored")
    copying.kill()
    again = copy(place, s3, str(store), s3.url(), "--json")
    assert again.process.returncode == OK, again.talk()
    assert again.records()[0]["copied"] < 150_000_000
    back = place.directory / "back"
    assert copy(place, s3, s3.url(), str(back)).process.returncode == OK
    assert logs(back) == logs(store)


def test_two_copies_at_the_same_time_spoil_nothing(place: Place, s3: S3) -> None:
    store = training(place.directory / "store", 30_000_000)
    training(store, 6_700, "many", 100)
    both = [place.start("copy", str(store), s3.url(), **s3.environment) for _ in range(2)]
    for each in both:
        assert each.ends() in (OK, NOT_ALLOWED), each.talk()
        if each.process.returncode == NOT_ALLOWED:
            assert "another flarelog copy" in each.sentence()
    assert OK in [each.process.returncode for each in both]
    last = copy(place, s3, str(store), s3.url(), "--json")
    assert [(record["verified"], record["copied"]) for record in last.records()] == [(True, 0), (True, 0)]
    back = place.directory / "back"
    assert copy(place, s3, s3.url(), str(back)).process.returncode == OK
    assert logs(back) == logs(store)


def test_a_copy_follows_a_running_receiver_and_removes_nothing_under_it(place: Place, s3: S3) -> None:
    data = append(place.log, lines(2000))
    receiver = place.serve("--durability", "memory")
    sidecar = place.sidecar(receiver)
    receiver.gets(data)
    refused = copy(place, s3, str(receiver.store), s3.url(), "--remove")
    assert refused.process.returncode == NOT_ALLOWED
    assert "--remove needs FROM alone" in refused.sentence()
    following = place.start("copy", str(receiver.store), s3.url(), "--follow", **s3.environment)
    archived = StreamId(RUN, SITE, LOG)

    def there() -> bytes:
        return place.call("logs", RUN, "-o", "raw", "--store", s3.url(), **s3.environment).out

    until(lambda: there() == data, "the archive has the log")
    data += append(place.log, lines(2000, 2000))
    until(lambda: there() == data, "the archive has the rest")
    sidecar.stop()
    assert following.stop() == OK, following.talk()
    receiver.stop()
    place.call("copy", str(receiver.store), s3.url(), **s3.environment)
    assert (receiver.store / archived.run / archived.site / archived.log).read_bytes() == data


def test_an_archived_run_is_removed_at_its_source_and_from_the_archive(place: Place, s3: S3) -> None:
    store = training(place.directory / "store", 1_000_000)
    before = logs(store)
    moved = copy(place, s3, str(store), s3.url(), "--remove")
    assert moved.process.returncode == OK, moved.talk()
    assert moved.printed.rstrip().endswith("verified, removed at FROM")
    assert logs(store) == {}
    moved = copy(place, s3, s3.url(), str(store), "--remove")
    assert moved.process.returncode == OK, moved.talk()
    assert logs(store) == before
    assert s3.objects("large") == []
    copy(place, s3, str(store), s3.url())
    removed = place.call("rm", "large", "--store", s3.url(), "--yes", **s3.environment)
    assert removed.printed == "removed run large: 1 log, 1,000,000 bytes\n", removed.talk()
    assert s3.objects("large") == []


def test_what_is_wrong_is_one_sentence(place: Place, s3: S3) -> None:
    store = str(training(place.directory / "store", 1000))
    receiver = place.serve(store=place.directory / "used")
    assert copy(place, s3, store, s3.url()).process.returncode == OK
    other = training(place.directory / "other", 900)
    for args, env, code, sentence in (
        ((str(place.directory / "nowhere"), s3.url()), {}, NOT_FOUND, "there is no store at"),
        ((store, "s3://nothing/x"), {}, NOT_FOUND, "there is no bucket nothing: create it"),
        (("s3://nothing/x", store), {}, NOT_FOUND, "there is no bucket nothing: create it"),
        ((s3.url("none"), store), {}, NOT_FOUND, f"there is no archive at {s3.url('none')}"),
        ((store, s3.url(), "no-such-run"), {}, NOT_FOUND, "has no run no-such-run"),
        ((store, "s3://UPPER/x"), {}, USAGE, "does not name an archive"),
        ((store, f"{store}/"), {}, USAGE, "name two stores"),
        ((store, str(receiver.store)), {}, NOT_ALLOWED, "copy needs TO alone: stop it first"),
        ((store, s3.url()), {"AWS_SECRET_ACCESS_KEY": "wrong"}, NOT_ALLOWED, "refuses these credentials"),
        ((store, s3.url()), {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, CANNOT_CONNECT, "does not answer"),
        ((str(other), s3.url()), {}, FAILED, "has other marks at"),
    ):
        if "AWS_ENDPOINT_URL" in env:
            args = (s3.url(), store)  # a reader waits for five seconds
        refused = place.call("copy", *args, **{**s3.environment, **env})
        assert refused.process.returncode == code, (args, refused.talk())
        assert sentence in refused.said, args
        assert "Traceback" not in refused.said
    shutil.rmtree(other)
