"""Options and commands as people know them from other programs."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from flarelog.cli import main
from flarelog.cli.run import _asked
from flarelog.model import Attributes, Gap, StreamId
from flarelog.stores.local.store import LocalStore
from tests.rows import together

RUN = "exp-42"
LINES = {"site-1": b"INFO began\nERROR broken\nINFO end\n", "site-2": b"INFO other\n"}


async def filled(root: str) -> None:
    async with LocalStore(root, "memory") as store:
        for site, data in LINES.items():
            appender = await store.appender(StreamId(RUN, site, "log.txt"), b"producer")
            await appender.append(0, data)
            await appender.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = str(tmp_path_factory.mktemp("habits") / "logs")
    asyncio.run(filled(root))
    return root


def called(capfd: pytest.CaptureFixture[str], *args: str) -> tuple[object, str, str]:
    """The exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    return ended.value.code, *capfd.readouterr()


def bodies(text: str) -> list[str]:
    return [record["body"] for record in map(json.loads, text.splitlines()) if "body" in record]


@pytest.mark.parametrize(
    ("args", "found"),
    [
        pytest.param(("-g", "ERROR"), ["ERROR broken"], id="-g"),
        pytest.param(("--grep", "ERROR"), ["ERROR broken"], id="--grep"),
        pytest.param(("-1",), ["INFO end", "INFO other"], id="a-count-as-of-tail"),
        pytest.param(("-A", "1", "-g", "ERROR"), ["ERROR broken", "INFO end"], id="a-count-of-another-option"),
        pytest.param(("-n", "-1", "--site", "site-2"), ["INFO other"], id="minus-one-line"),
        pytest.param(("--site", "site-2, site-[2]"), ["INFO other"], id="sites-with-commas"),
        pytest.param(("--site", "site-[2,9]"), ["INFO other"], id="a-comma-in-brackets"),
        pytest.param(("--since", "1 hour ago", "--site", "site-2"), ["INFO other"], id="since-in-words"),
    ],
)
def test_what_readers_of_logs_are_used_to(
    store: str, capfd: pytest.CaptureFixture[str], args: tuple[str, ...], found: list[str]
) -> None:
    code, out, err = called(capfd, "logs", RUN, "--store", store, "--json", *args)
    assert (code, bodies(out), err) == (0, found, "")


@pytest.mark.parametrize(
    ("args", "what"),
    [
        pytest.param(("--site", "site-2,site-9"), "site site-9 (it has site-1, site-2)", id="a-site-in-a-list"),
        pytest.param(("--site", "site-2", "--site", "site2"), "site site2 (it has site-1, site-2)", id="a-second-site"),
        pytest.param(("--site", "site-2, x*"), "site x* (it has site-1, site-2)", id="a-glob"),
        pytest.param(
            ("--log", "log.txt", "--log", "log.tx", "--site", "site-2"), "log log.tx (it has log.txt)", id="a-log"
        ),
        pytest.param(
            ("--log", "log.txt", "--log", "no*", "--site", "site-2"), "log no* (it has log.txt)", id="a-glob-log"
        ),
    ],
)
@together(
    "command",
    [
        ("logs",),
        ("logs", "-o", "raw"),
        ("logs", "-c"),
        ("status",),
        ("verify",),
        ("findings",),
        ("logs", "--first-error"),
    ],
)
def test_a_part_of_a_list_that_matches_nothing_is_named(
    store: str, capfd: pytest.CaptureFixture[str], command: tuple[str, ...], args: tuple[str, ...], what: str
) -> None:
    if "--log" in args and command[0] in ("status", "verify"):
        return  # they have no --log
    alone = ("--site", "site-2")
    whole = called(capfd, command[0], RUN, "--store", store, *command[1:], *alone)
    code, out, err = called(capfd, command[0], RUN, "--store", store, *command[1:], *args)
    assert re.sub(r"\d+ s\b", "", out) == re.sub(r"\d+ s\b", "", whole[1])
    assert code == (whole[0] or 3)
    (line,) = [line for line in err.splitlines() if line not in whole[2].splitlines()]
    assert line.startswith(f"flarelog: run {RUN} at {store} has no {what}")


def test_a_part_that_matches_nothing_is_named_without_a_run(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    told = "flarelog: there is no site site2: did you mean site-2?\n"
    for command, code in (("status", 3), ("verify", 7)):
        found = called(capfd, command, "--store", store, "--site", "site-2,site2")
        assert (found[0], found[2]) == (code, told)
    assert called(capfd, "status", "--store", store, "--site", "site2") == (3, "", told)


def test_options_without_an_effect_are_named(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    for json_form in (("--json",), ("-o", "json")):
        code, _, err = called(capfd, "logs", RUN, "--store", store, "--format", "{text}", *json_form)
        assert (code, "--format applies only to text: leave out --format or -o json" in err) == (2, True)
        assert called(capfd, "logs", RUN, "--store", store, "-c", *json_form)[0] == 2
    counted = called(capfd, "logs", RUN, "--store", store, "-c", "-g", "ERROR", "-A", "2")
    assert (counted[0], counted[2]) == (0, "note: -c counts the matching lines alone: -A, -B and -C change nothing\n")


def test_a_page_beside_a_receiver_that_cannot_listen_is_refused_at_the_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def refused(listen: str, *args: str) -> str:
        code, out, err = called(capfd, "serve", "--store", str(tmp_path / "s"), "--web", listen, *args)
        assert (code, out) == (2, "")
        return err

    err = refused("0.0.0.0:4780")
    assert err.startswith(
        "flarelog: --web 0.0.0.0:4780 is not on loopback, where plain HTTP can be overheard: give 127.0."
    )
    with socket.create_server(("127.0.0.1", 0)) as busy:
        where = f"127.0.0.1:{busy.getsockname()[1]}"
        told = f"flarelog: --web {where}: Address already in use; give another address\n"
        assert refused(where) == told
    assert refused("127.0.0.1:4999", "--listen", "127.0.0.1:4999").startswith(
        "flarelog: --web 127.0.0.1:4999 has the receiver's own port: "
    )


@together("command", ["logs", "status", "verify", "findings"])
def test_a_list_without_a_value_is_refused(store: str, capfd: pytest.CaptureFixture[str], command: str) -> None:
    for given in ("", " ", ",", " , "):
        code, out, err = called(capfd, command, RUN, "--store", store, "--site", given)
        assert (code, out) == (2, "")
        assert err.endswith("an empty pattern matches nothing: give a name, or leave the option out\n")


@together("command", ["status", "streams", "runs", "logs"])
def test_json_has_two_spellings(store: str, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    one, other = (called(capfd, command, RUN, "--store", store, *how) for how in (("-o", "json"), ("--json",)))
    assert one[0] == other[0] == 0
    assert [record["run"] for record in map(json.loads, one[1].splitlines())]
    assert len(one[1].splitlines()) == len(other[1].splitlines())
    assert "{" not in called(capfd, command, RUN, "--store", store, "--json", "-o", "text")[1]


def test_a_search_without_a_match_prints_nothing(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert called(capfd, "logs", RUN, "--store", store, "-i", "nothing") == (0, "", "")
    assert called(capfd, "logs", RUN, "--store", store, "-i", "nothing", "--require-match") == (1, "", "")
    code, out, err = called(capfd, "logs", RUN, "--store", store, "-i", "nothing", "--exit-status")
    assert (code, out) == (7, "")
    assert err.startswith("flarelog: incomplete: 2 logs have no receipt, so their last bytes may be missing (")
    assert called(capfd, "logs", RUN, "--store", store, "-i", "ERROR", "--require-match")[0] == 0


async def torn(root: str) -> None:
    async with LocalStore(root, "memory") as store:
        appender = await store.appender(StreamId(RUN, "site-3", "log.txt"), b"producer")
        await appender.mark(Gap(0, 0, 10, "truncated"))
        await appender.close()


def test_a_search_reports_bytes_that_it_could_not_search(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = str(tmp_path / "logs")
    asyncio.run(filled(root))
    asyncio.run(torn(root))
    code, out, err = called(capfd, "logs", RUN, "--store", root, "-i", "nothing")
    assert (code, out) == (0, "")
    assert err.startswith("flarelog: incomplete: ")
    assert "site-3" in err


def test_a_count_of_matches(store: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capfd, "logs", RUN, "--store", store, "-c", "-g", "ERROR", "-C", "2")
    assert (code, out) == (0, "site-1/log.txt:1\nsite-2/log.txt:0\n")
    assert called(capfd, "logs", RUN, "--store", store, "-c", "--site", "site-1")[1] == "3\n"
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    for path, data in zip(paths, LINES.values(), strict=True):
        path.write_bytes(data)
    assert called(capfd, "view", str(paths[0]), "-c", "-g", "INFO")[1] == "2\n"
    assert called(capfd, "view", *map(str, paths), "-c", "-g", "INFO")[1] == f"{paths[0]}:2\n{paths[1]}:1\n"
    assert called(capfd, "view", *map(str, paths), "-g", "nothing", "--require-match") == (1, "", "")
    assert called(capfd, "logs", RUN, "--store", store, "-c", "-o", "raw")[0] == 2


def test_what_means_something_else_elsewhere_is_said(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capfd, "logs", RUN, "--store", store, "--json", "-e", "ERROR")
    assert (code, bodies(out)) == (0, ["INFO began", "INFO end", "INFO other"])
    assert err == "note: -e leaves out the lines that match (--exclude): -i or -g shows them alone\n"
    for args in (("--exclude", "ERROR"), ("-i", "INFO", "-e", "ERROR")):
        assert called(capfd, "logs", RUN, "--store", store, *args)[2] == ""
    code, out, err = called(capfd, "logs", RUN, "--store", store, "-F")
    assert (code, out) == (2, "")
    assert "no pattern is given: -f follows the run" in err
    assert (
        called(capfd, "logs", RUN, "--store", store, "-F", "-c", "-g", ".")[1] == "site-1/log.txt:0\nsite-2/log.txt:0\n"
    )


def test_a_file_in_colour_or_without(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert called(capfd, "status", RUN, "--store", store, "--no-color")[0] == 0
    path = tmp_path / "log.txt"
    path.write_text("\x1b[31mred\x1b[0m\n")
    assert "\x1b[31m" in called(capfd, "view", str(path), "--color", "always")[1]
    assert called(capfd, "view", str(path), "--no-color")[1] == "red\n"


def test_status_ends_with_a_code_that_says_what_is_missing(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert called(capfd, "status", RUN, "--store", store)[0] == 0
    assert called(capfd, "status", RUN, "--store", store, "--exit-status")[0] == 7  # no receipt


def test_verify_compares_all_runs_or_one_site(store: str, capfd: pytest.CaptureFixture[str]) -> None:
    every = called(capfd, "verify", "--store", store)
    assert every == called(capfd, "verify", RUN, "--store", store)
    assert [line.split(":")[0] for line in every[1].splitlines()] == [f"{RUN}/{site}/log.txt" for site in LINES]
    (line,) = called(capfd, "verify", "--store", store, "--site", "site-[2,9]")[1].splitlines()
    assert line.startswith(f"{RUN}/site-2/log.txt: 11 bytes")
    code, out, err = called(capfd, "verify", RUN, "--store", store, "--site", "site2")
    assert (code, out) == (3, "")
    assert err.endswith("has no site site2 (it has site-1, site-2): did you mean site-2?\n")
    code, out, _ = called(capfd, "verify", "--store", store, "--json", "--site", "site-2")
    (record,) = map(json.loads, out.splitlines())
    assert (record["site"], record["committed"], record["first_difference"]) == ("site-2", 11, None)
    code, out, err = called(capfd, "verify", "--store", store, "--site", "oslo")
    assert (code, out, err) == (3, "", f"flarelog: {store} has no log of such a site\n")


@pytest.mark.parametrize("interrupt", [signal.default_int_handler, signal.SIG_IGN], ids=["", "background-job"])
def test_a_command_that_takes_too_long_ends_with_its_own_code(
    store: str, capfd: pytest.CaptureFixture[str], interrupt: Any
) -> None:
    """follow waits for the end of the run. A shell without job control lets a background job ignore SIGINT."""
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        code, _, err = called(capfd, "follow", RUN, "--store", store, "--timeout", "50ms")
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 7
    assert err.endswith("flarelog: the command did not end within 0.05 s: give it more time with --timeout\n")
    assert called(capfd, "status", RUN, "--store", store, "--timeout", "1 minute")[0] == 0


JOB = "3f2a9c1e-0d4b-4f6e-9a77-5b1c2d3e4f50"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with runs of several names."""

    async def made(root: str) -> None:
        async with LocalStore(root, "memory") as store:
            for run in (JOB, "train-a", "train-b", "exp-12"):
                appender = await store.appender(StreamId(run, "site-1", "log.txt"), b"producer")
                await appender.append(0, b"of " + run.encode() + b"\n")
                await appender.close()

    root = str(tmp_path_factory.mktemp("habits") / "logs")
    asyncio.run(made(root))
    return root


@pytest.mark.parametrize("command", ["logs", "status", "streams", "runs", "verify", "logs -1"])
def test_a_run_by_the_beginning_of_its_name(many: str, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    name, *options = command.split()
    code, out, err = called(capfd, name, "3f2", *options, "--store", many)
    assert err.startswith(f"note: the run is {JOB}\n")
    assert (code, out) == called(capfd, name, JOB, *options, "--store", many)[:2]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        pytest.param(["logs", "train"], "but 2 runs that begin so: train-a, train-b", id="several"),
        pytest.param(["logs", "exp-1"], "has no run exp-1: did you mean exp-12?", id="another-number"),
        pytest.param(["rm", "3f2", "--yes"], f"has no run 3f2: did you mean {JOB}?", id="removal"),
        pytest.param(["status", JOB, "--site", "site-.*"], "did you mean site-* (--site takes globs)?", id="a-regex"),
        pytest.param(["status", "--site", "^sit.+$"], "did you mean sit* (--site takes globs)?", id="no-run"),
    ],
)
def test_a_name_that_may_be_another_one(
    many: str, args: list[str], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = called(capfd, *args, "--store", many)
    assert (code, out) == (3, "")
    assert why in err


def test_a_run_by_the_name_of_its_job(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def made(root: str) -> None:
        async with LocalStore(root, "memory") as store:
            for run, job in ((JOB, "mnist, v2 (50%)"), ("a1", "twice"), ("b2", "twice"), ("c3", "")):
                appender = await store.appender(StreamId(run, "site-1", "log.txt"), b"producer")
                if job:
                    await appender.mark(Attributes(0, 0, f"zone:UTC,{Attributes.job_word(job)}"))
                await appender.append(0, b"of " + run.encode() + b"\n")
                await appender.close()

    root = str(tmp_path / "logs")
    asyncio.run(made(root))
    _, out, _ = called(capfd, "runs", "--store", root)
    assert [re.split("  +", line)[:2] for line in out.splitlines()] == [
        *(["RUN", "JOB"], [JOB, "mnist, v2 (50%)"], ["a1", "twice"], ["b2", "twice"], ["c3", "-"])
    ]
    records = map(json.loads, called(capfd, "runs", "--store", root, "--json")[1].splitlines())
    assert [record["job"] for record in records] == ["mnist, v2 (50%)", "twice", "twice", None]
    code, out, err = called(capfd, "logs", "mnist, v2 (50%)", "--store", root, "--json")
    assert (code, bodies(out), err) == (0, [f"of {JOB}"], f"note: the run is {JOB}\n")
    assert "but 2 runs of the job twice: a1, b2" in called(capfd, "logs", "twice", "--store", root)[2]


@together(
    ("args", "variables", "name"),
    [
        ((), {"SLURM_JOB_NAME": "bert, 2"}, "bert, 2"),
        ((), {}, None),
        (("--job-name", "mine"), {"SLURM_JOB_NAME": "bert"}, "mine"),
        (("--run", "r"), {"SLURM_JOB_NAME": "bert"}, None),
    ],
)
def test_a_command_of_slurm_has_the_name_of_its_job(
    monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], variables: dict[str, str], name: str | None
) -> None:
    monkeypatch.delenv("SLURM_JOB_NAME", raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    root = main.make_context("flarelog", ["run"], resilient_parsing=True)
    run = main.get_command(root, "run")
    assert run is not None
    with run.make_context("run", [*args, "--receiver", "a:1", "--", "true"], parent=root) as context:
        asked = _asked(context, ("a:1",), "slurm-77", "site-1")
    assert (asked[asked.index("--job-name") + 1] if "--job-name" in asked else None) == name
