"""A site's consent: its file, and options of a sidecar, which can only narrow it."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flarelog.checksum import extend
from flarelog.errors import NOT_ALLOWED, InvalidOption, NoConsent
from flarelog.model import Generation, StreamId, StreamInfo
from flarelog.sources.consent import VARIABLE, Consent, in_force, load, parse
from flarelog.sources.files.identity import identity, opened
from flarelog.sources.files.lineage import birth_note
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.watch import Change, What
from flarelog.sources.redaction.mask import Rules
from flarelog.sources.spool.series import of_spools
from tests.rows import together
from tests.sources.files.tailing import Site, Stored

FULL = r"""
allow_log_streaming = true
include = ["*.log", "logs/**"]
exclude = "**/private/**"
redact = ["tokens", "email"]
redact_patterns = ['patient[ _-]?id[:=]\s*\w+']
"""


def test_a_file_says_what_may_leave() -> None:
    wanted = Consent(
        *(True, ("*.log", "logs/**"), ("**/private/**",)),
        Rules(("tokens", "email"), (r"patient[ _-]?id[:=]\s*\w+",)),
    )
    assert parse(FULL) == wanted
    assert parse("") == Consent()
    assert parse("allow_log_streaming = false") == Consent(False)


BAD = [
    pytest.param(
        "allow_log_streaming = 'no'", "consent.toml: allow_log_streaming must be true or false", id="no-boolean"
    ),
    pytest.param("allow_log_streaming = 0", "consent.toml: allow_log_streaming must be true or false", id="a-number"),
    pytest.param("allow_logs = false", "consent.toml: the key 'allow_logs' is unknown; known are allow_log_", id="key"),
    pytest.param("include = []", "consent.toml: include is an empty list, which matches nothing", id="empty"),
    pytest.param("include = [1]", "consent.toml: include must be a name or a pattern", id="number"),
    pytest.param("exclude = ['/etc/*']", "consent.toml: the pattern '/etc/*' can match nothing", id="absolute"),
    pytest.param("exclude = ['[z-a]']", "consent.toml: the pattern '[z-a]' cannot be read", id="range"),
    pytest.param("redact = ['names']", "consent.toml: the redaction 'names' is unknown; known are tokens", id="names"),
    pytest.param("redact_patterns = ['(']", "consent.toml: the pattern '(' is not a regular expression", id="regex"),
    pytest.param("redact_patterns = ['(?<=a)b']", "no lookaround and no backreferences", id="lookbehind"),
    pytest.param("include = ", "consent.toml is not valid TOML", id="no-toml"),
    pytest.param("[site]\nredact = 'all'", "consent.toml: the key 'site' is unknown", id="table"),
]


@together(("text", "sentence"), BAD)
def test_a_file_that_makes_no_sense_is_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(sentence)) as refused:
        parse(text, "consent.toml")
    assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "latin").write_bytes(b"include = '\xe9'")
    (tmp_path / "long").write_bytes(b"#" * (1 << 21))
    for name, sentence in (
        ("missing", "No such file"),
        (".", "it is not a regular file"),
        ("fifo", "it is not a regular file"),
        ("latin", "not UTF-8"),
        ("long", "has more than"),
    ):
        with pytest.raises(InvalidOption, match=sentence):
            load(str(tmp_path / name))


def test_false_is_a_sentence_with_the_file_and_exit_code_5() -> None:
    Consent().demand()
    with pytest.raises(NoConsent, match=r"^consent.toml says allow_log_streaming = false") as refused:
        parse("allow_log_streaming = false", "consent.toml").demand()
    assert refused.value.exit_code == NOT_ALLOWED


def test_the_environments_file_holds_beside_those_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text("include = '*.log'")
    two.write_text("exclude = 'a*'")
    monkeypatch.delenv(VARIABLE, raising=False)
    assert in_force() == ()
    monkeypatch.setenv(VARIABLE, str(two))
    assert in_force() == (Consent(exclude=("a*",)),)
    assert in_force(str(one)) == in_force(str(one), str(two)) == (Consent(include=("*.log",)), Consent(exclude=("a*",)))


PATTERN = st.sampled_from(["*.log", "a*", "logs/**", "**/b.log", "*"])
PATTERNS = st.lists(PATTERN, max_size=2).map(tuple)
PATHS = st.sampled_from(["a.log", "b.log", "a.txt", "logs/a.log", "logs/x/b.log", "x/b.log", "model.pt"])


@given(PATTERNS, PATTERNS, PATTERNS, PATTERNS, PATHS, PATHS)
def test_who_asks_can_only_make_less_of_what_the_site_lets_go(
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    asked: tuple[str, ...],
    refused: tuple[str, ...],
    path: str,
    other: str,
) -> None:
    consent = Consent(include=include, exclude=exclude)
    with_site = SourceOptions("root", asked, refused, sites=(consent,))
    alone = SourceOptions("root", asked, refused)
    assert with_site.matches(path) == (alone.matches(path) and consent.permits(path))
    if with_site.follows(path, other):
        assert consent.permits(other)
        assert not with_site.excludes(path)


@pytest.mark.parametrize(
    ("include", "exclude", "let_go"),
    [
        pytest.param((), ("err.log",), {"out.log", "out.log.00000001"}, id="a-log-that-is-left-out"),
        pytest.param(("out.log",), (), {"out.log", "out.log.00000001"}, id="a-log-that-is-named"),
        pytest.param((), ("*.00000001",), {"out.log", "err.log"}, id="a-segment-that-is-left-out"),
    ],
)
@pytest.mark.parametrize("whose", ["site", "user"])
def test_a_segment_of_a_spool_is_what_its_log_is(
    tmp_path: Path, whose: str, include: tuple[str, ...], exclude: tuple[str, ...], let_go: set[str]
) -> None:
    names = ["out.log", "err.log", "out.log.00000001", "err.log.00000001"]
    for name in (*names, ".out.log.spool", ".err.log.spool"):
        (tmp_path / name).touch()
    asked = (
        SourceOptions(str(tmp_path), include, exclude, series=of_spools())
        if whose == "user"
        else SourceOptions(str(tmp_path), sites=(Consent(include=include, exclude=exclude),), series=of_spools())
    )
    assert {name for name in names if asked.matches(name)} == let_go
    (tmp_path / ".out.log.spool").unlink()  # without its spool it is a log with a date in its name
    assert asked.matches("out.log.00000001") == (not include and "*.00000001" not in exclude)


def test_what_is_masked_is_what_anybody_wants_to_be() -> None:
    sites = (Consent(rules=Rules(("email",))), Consent(rules=Rules((), ("x1",))))
    assert SourceOptions("root", redact=("tokens",), sites=sites).rules() == Rules(("tokens", "email"), ("x1",))
    with pytest.raises(InvalidOption, match="the redaction 'nothing' is unknown"):
        SourceOptions("root", redact=("nothing",))


# --- renames, and claims of a receiver


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site(sites=(Consent(include=("*.log",), exclude=("private/**", "*.secret*")),))


def rename(site: Site, old: str, new: str) -> None:
    """Rename the file, and report it as a watch would."""
    (site.root / new).parent.mkdir(exist_ok=True)
    site.rename(old, new)
    root = str(site.root)
    moves = [(What.MOVED_FROM, old), (What.MOVED_TO, new)]
    site.discovery.apply([Change(what, root, name, 7) for what, name in moves if "/" not in name], site.now)


def test_only_what_the_site_lets_go_is_sent(site: Site) -> None:
    for name in ("a.log", "b.txt", "private/c.log"):
        site.append(name, b"one\n")
    site.settle()
    assert list(site.stored) == ["a.log"]


def test_a_rotated_file_is_followed_out_of_the_include_patterns_but_not_into_the_excluded(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.append("b.log", b"one\n")
    site.look()
    site.append("a.log", b"two\n")
    rename(site, "a.log", "a.log.1")
    site.settle()
    assert site.content("a.log") == b"one\ntwo\n", "it is held open, and was seen to be renamed"
    site.restart()
    site.append("new.log", b"x\n")
    rename(site, "new.log", "new.secret")
    site.settle()
    assert "new.log" not in site.stored


def test_a_link_sends_nothing_that_the_site_has_left_out(site: Site) -> None:
    site.append("private/c.txt", b"secret\n")
    site.append("d.txt", b"secret\n")
    os.symlink("private/c.txt", site.root / "c.log")
    os.symlink("d.txt", site.root / "d.log")
    site.append("e.log", b"one\n")
    os.symlink("e.log", site.root / "f.log")
    site.settle()
    assert list(site.stored) == ["e.log"]


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("a-old.log", True),
        *(("a.log.1", False), ("a.log.bak", False), ("other.txt", False)),
        *(("private/a.log.1", False), ("x/a.log.1", False)),
    ],
)
def test_a_receiver_that_says_which_file_was_a_log_cannot_make_the_site_send_another(
    site: Site, path: str, sent: bool
) -> None:
    site.append(path, b"secret\n")
    with site.open(path) as file:
        claimed = identity(file.fileno())
    stored = site.stored["a.log"] = Stored()
    stored.marks.append(Generation(0, 0, "a.log", 0, claimed))
    site.restart()
    site.settle()
    assert (b"secret" in b"".join(site.content(log) for log in site.stored)) is sent
    assert site.options.continues(path, "a.log", met=True) is sent, "though it was met under another name"
    assert SourceOptions(str(site.root)).continues(path, "a.log", met=True), "without a site's word nothing changes"


@pytest.mark.parametrize(
    ("lie", "sent"),
    [("", True), ("digest", False), ("length", False), ("birth", False), ("handle", False)],
    ids=lambda lie: str(lie),
)
def test_a_file_with_any_name_is_sent_only_if_the_record_has_its_identity_and_its_bytes(
    tmp_path: Path, lie: str, sent: bool
) -> None:
    site = Site(tmp_path, include=("a.log",))
    site.append("a.log", b"known\nunread\n")
    site.rename("a.log", "secret.key")
    with site.open("secret.key") as file:
        claimed, born = identity(file.fileno()), opened(file.fileno()).born
    device, number, _ = claimed.split(":", 2)
    claimed = f"{device}:{number}:" if lie == "handle" else claimed
    notes = birth_note(1 if lie == "birth" else born or 0)
    stored = site.stored["a.log"] = Stored()
    stored.sent = [Generation(0, 0, "a.log", 0, claimed, notes=notes), b"guess\n" if lie == "digest" else b"known\n"]
    stored.arrive(1 if lie == "length" else 2)
    site.restart()
    site.settle()
    assert (b"unread" in site.content("a.log")) is sent
    site.close()


def test_a_name_that_the_site_does_not_let_go_is_not_that_of_a_rotation_because_a_receiver_says_so() -> None:
    """A file that this sidecar itself knew as the log does go on as such."""
    options = SourceOptions("root", sites=(Consent(include=("public.log",)),))
    for path in ("public.log.bak", "public.log.1", "public-old.log"):
        assert not options.continues(path, "public.log", met=False)
        assert not options.continues(path, "public.log", met=True), "it was met under another name"
        assert not options.continues(path, "public.log", met=True, was="other.log")
        assert options.continues(path, "public.log", met=True, was="public.log")
        assert not options.continues(path, "private.log", met=True, was="private.log")
        assert SourceOptions("root", sites=(Consent(include=("public*",)),)).continues(path, "public.log", met=False)
    left_out = SourceOptions("root", sites=(Consent(include=("public.log",), exclude=("*.bak",)),))
    assert not left_out.continues("public.log.bak", "public.log", met=True, was="public.log")


def test_a_generation_that_came_between_is_not_taken_from_what_is_left_out(make_site: Callable[..., Site]) -> None:
    site = make_site(sites=(Consent(exclude=("*.1",)),), include=("a.log",))
    site.append("a.log", b"one\n")
    site.settle()
    site.discovery.close()
    site.rename("a.log", "a.log.2")
    site.append("a.log.1", b"left out\n")
    site.append("a.log", b"three\n")
    site.restart()
    site.settle()
    assert b"left out" not in site.content("a.log")


def test_a_copy_is_left_out_as_before(make_site: Callable[..., Site]) -> None:
    """Consent alone is no redaction: compressed files are judged by their content."""
    site = make_site(sites=(Consent(),), include=("*",))
    site.append("a.log", b"one\n")
    site.append("b.gz", gzip.compress(b"two\n"))
    os.utime(site.root / "b.gz", (1, 1))  # an old time: no writer is at work
    site.settle()
    assert sorted(site.stored) == ["a.log", "b.gz"]


def test_info_of_nothing_changes_nothing(site: Site) -> None:
    site.append("a.log", b"one\n")
    site.discovery.resume([StreamInfo(StreamId("run", "site", "a.log"), 0, 0, extend(0, b""), False)], 0.0)
    site.settle()
    assert site.content("a.log") == b"one\n"
