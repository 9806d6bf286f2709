"""Placeholders for an unknown log: a command that a shell reads as intended, and an address that stays valid."""

from __future__ import annotations

import re
import shlex
from urllib.parse import unquote, urlsplit

import pytest

from flarelog.errors import InvalidOption
from flarelog.model import StreamId
from flarelog.placeholders import FIELDS, LONGEST, LogUrls, look, look_at, placeholder
from tests.rows import together

HOUR = 3600_000
STREAM = StreamId("job-1", "site-1", "rank-0/stderr.log")
PLACE = ("--receiver", "logs:4721")


def test_a_template_is_filled_in() -> None:
    urls = LogUrls("https://logs.example.org/{run}/{site}?log={log}&at={offset}#{since}/{until}")
    assert urls.url(STREAM, 42, begun=HOUR, ended=2 * HOUR, now=9 * HOUR) == (
        "https://logs.example.org/job-1/site-1?log=rank-0%2Fstderr.log&at=42"
        "#1970-01-01T00%3A55%3A00.000Z/1970-01-01T02%3A05%3A00.000Z"
    )


def test_who_does_not_know_when_a_log_was_is_shown_a_day() -> None:
    urls = LogUrls("https://logs.example.org/{since}..{until}")
    assert unquote(urls.url(STREAM, now=48 * HOUR)).endswith("/1970-01-02T00:00:00.000Z..1970-01-03T00:05:00.000Z")


def test_without_a_template_there_is_no_url() -> None:
    assert not LogUrls()
    assert LogUrls().url(STREAM, now=HOUR) == ""


@together(
    ("template", "sentence"),
    [
        pytest.param("https://logs.example.org/{job}", "unknown field {job}; known are run, site,", id="unknown-field"),
        pytest.param("https://logs.example.org/{}", "unknown field {}", id="no-name"),
        pytest.param("https://logs.example.org/{run!r}", "unknown field {run!r}", id="conversion"),
        pytest.param("https://logs.example.org/{run", "a brace without its other one", id="open-brace"),
        pytest.param("https://logs.example.org/run}", "a brace without its other one", id="closed-brace"),
        pytest.param("https://logs.example.org/{{run}}", "a brace without its other one", id="twice"),
        pytest.param("https://{site}.example.org/", "a field in the name of the machine", id="field-in-the-host"),
        pytest.param("javascript:alert({run})", "no address of http", id="javascript"),
        pytest.param("logs.example.org/{run}", "no address of http", id="no-scheme"),
        pytest.param("https:///{run}", "no address of http", id="no-host"),
        pytest.param("https://[/{run}", "is no address", id="half-an-ipv6"),
        pytest.param("https://logs.example.org/a b", "a space", id="space"),
        pytest.param("https://logs.example.org/\x1b[2J", "a control character", id="escape"),
        pytest.param("https://logs.example.org/\u202e", "beyond ASCII", id="direction"),
        pytest.param("https://logs.example.org/" + "a" * LONGEST, "characters", id="long"),
    ],
)
def test_a_bad_template_is_refused_with_a_sentence(template: str, sentence: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        LogUrls(template)
    assert sentence in str(refused.value)
    assert str(refused.value).isprintable()


HOSTILE = (
    "../../admin", "a b; rm -rf /", "x?y=1&z#w", "%2e%2e", "\x1b[2J", "$(id)", "'", "", "\u202egol.", "a\nb", "\udce9",
    "{offset}", "x" * 5000,
)  # fmt: skip


@together("name", HOSTILE)
@together("which", ["run", "site", "log"])
def test_no_name_leaves_its_place(name: str, which: str) -> None:
    run, site, log = (name if one == which else one for one in ("run", "site", "log"))
    urls = LogUrls("https://logs.example.org/search?q={run}+{site}+{log}")
    found = placeholder(run, site, log, "it is away\x1b[1m", place=PLACE, urls=urls, now=HOUR)
    assert str(found).isprintable()
    assert len(str(found)) < 20_000
    if which == "log" and name not in ("", "../../admin", "a b; rm -rf /"):  # a file can have the name
        assert re.fullmatch(r"https://logs\.example\.org/search\?q=run\+site\+[A-Za-z0-9._~%-]+", found.url)
        return
    assert found.url == "", "what is no name has no address"
    assert "name" in found.why
    if name.isprintable() and len(name) < 100:
        assert shlex.split(found.command)[:3] == ["flarelog", "logs", run]


@pytest.mark.parametrize("log", ["a/b", "rank-0/..b/x", "-x", "a..", "_"])
def test_a_name_stays_one_part_of_the_address(log: str) -> None:
    urls = LogUrls("https://logs.example.org/{run}/{log}/end")
    found = placeholder("r", "s", log, "", place=PLACE, urls=urls, now=HOUR)
    path = urlsplit(found.url).path.split("/")
    assert len(path) == 4
    assert unquote(path[2]) == log


def test_a_placeholder_is_a_sentence_with_what_to_do() -> None:
    names = STREAM.run, STREAM.site, STREAM.log
    plain = placeholder(*names, "no sidecar sends it", place=PLACE, urls=LogUrls(), now=HOUR)
    assert str(plain) == (
        "job-1/site-1/rank-0/stderr.log: no sidecar sends it: flarelog logs job-1 --site site-1"
        " --log rank-0/stderr.log --receiver logs:4721"
    )
    linked = placeholder(*names, "", place=PLACE, urls=LogUrls("https://logs.example.org/{run}"), now=HOUR)
    assert str(linked) == "job-1/site-1/rank-0/stderr.log: https://logs.example.org/job-1"
    assert linked.command == plain.command


def test_the_help_names_every_field() -> None:
    from flarelog.options import declared

    ((_, how),) = declared(LogUrls)
    assert all(f"{{{field}}}" in how.sentence for field in FIELDS)


def test_the_command_shows_as_much_as_is_named() -> None:
    assert look("r") == "flarelog logs r"
    assert look("-r", "s") == "flarelog logs --site s -- -r"
    assert look("r", "s", place=("--store", "my logs")) == "flarelog logs r --site s --store 'my logs'"


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("job", ["flarelog", "logs", "job", "--from", "s/rank-0/a.log:4", "--from", "s/c.log:0", "--store", "logs"]),
        (
            "-job",
            ["flarelog", "logs", "--from", "s/rank-0/a.log:4", "--from", "s/c.log:0", "--store", "logs", "--", "-job"],
        ),
    ],
)
def test_a_command_shows_logs_of_any_run_from_their_places_on(run: str, words: list[str]) -> None:
    places = {StreamId(run, "s", "rank-0/a.log"): 4, StreamId(run, "s", "c.log"): 0}
    assert shlex.split(look_at(places, ("--store", "logs"))) == words
