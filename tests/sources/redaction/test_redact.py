"""A site's redaction: what it masks, and that its output depends on the file's bytes alone."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flarelog.errors import InvalidOption
from flarelog.sources.redaction import mask, patterns
from flarelog.sources.redaction.mask import NAMES, Rules
from flarelog.sources.redaction.patterns import OwnPattern
from flarelog.sources.redaction.secret import find, runs
from tests.often import often
from tests.rows import rows, together
from tests.sources.redaction.shapes import SHAPES, Shape

ALL = Rules(("all",))


def shown(data: bytes, rules: Rules = ALL) -> bytes:
    out, _, _ = rules.show(lambda begin, end: data[begin:end], 0, len(data), len(data))
    return out


HEX40 = "0123456789abcdef0123456789abcdef01234567"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
GITHUB, HUGGING = f"ghp_{'aB3' * 12}", f"hf_{'AbC' * 11}x"
KEY_LINE = "MIIEpAIBAAKCAQEA04up8hoqzS1LA5l1sPQ3Pv8oHnYx"

# Each line, and its secret, which must be masked, and nothing else.
SECRETS = [
    ("tokens", f"cloning with {GITHUB}", GITHUB),
    ("tokens", f"remote: https://{GITHUB}@github.com/a/b.git", GITHUB),
    ("tokens", f"export GITHUB_TOKEN={GITHUB}", GITHUB),
    ("tokens", f"github_pat_{'1aB_' * 20}", f"github_pat_{'1aB_' * 20}"),
    ("tokens", f"login({HUGGING!r})", HUGGING),
    ("tokens", f"HF_TOKEN={HUGGING}", HUGGING),
    ("tokens", f"wandb login {HEX40}", HEX40),
    ("tokens", f"WANDB_API_KEY={HEX40}", HEX40),
    ("tokens", f'wandb login --relogin "x" {HEX40}'.replace(' "x"', ""), HEX40),
    ("tokens", f"Authorization: Bearer {JWT}", JWT),
    ("tokens", f"curl -H 'Authorization: Bearer {HEX40}' http://x", HEX40),
    ("tokens", "{'Authorization': 'Basic dXNlcjpwYXNz'}", "dXNlcjpwYXNz"),
    ("tokens", "AUTHORIZATION: TOKEN abc", "abc"),
    ("tokens", f"sending BEARER {HEX40} to it", HEX40),
    ("tokens", f"cookie jwt {JWT};", JWT),
    ("tokens", 'api_key: "sk-not-a-number"', "sk-not-a-number"),
    ("tokens", "api_key='correct horse battery'", "correct horse battery"),
    ("tokens", '{"apiKey": "q1w2e3r4"}', "q1w2e3r4"),
    ("tokens", r"{\"api-key\": \"q1w2e3r4\"}", "q1w2e3r4"),
    ("tokens", "X-Api-Key: 0a1b2c3d", "0a1b2c3d"),
    ("tokens", "run.py --api-key q1w2e3r4 --lr 0.1", "q1w2e3r4"),
    ("tokens", "--auth-token 0a1b2c3d4e", "0a1b2c3d4e"),
    ("tokens", '"access_token": "ya29.a0AfH6SMC"', "ya29.a0AfH6SMC"),
    ("tokens", f"OPENAI=sk-proj-{'a1B2' * 8}", f"sk-proj-{'a1B2' * 8}"),
    ("tokens", f"SLACK xoxb-{'1' * 12}-{'abc' * 5}", f"xoxb-{'1' * 12}-{'abc' * 5}"),
    ("tokens", f"glpat-{'x1Y' * 7}", f"glpat-{'x1Y' * 7}"),
    ("tokens", f"AIza{'Sy1' * 12}", f"AIza{'Sy1' * 12}"),
    ("passwords", "password=hunter2", "hunter2"),
    ("passwords", "DB_PASSWORD = 'hunter 2' # comment", "hunter 2"),
    ("passwords", '{"user": "a", "passwd": "p\\"w", "n": 1}', '*p\\"w'[1:]),
    ("passwords", "Password: 12345", "12345"),
    ("passwords", "PassWord:hunter2", "hunter2"),
    ("passwords", "passphrase => s3cret", "s3cret"),
    ("passwords", "pwd=hunter2;server=x", "hunter2;server=x"),
    ("passwords", "mysql --password hunter2 -h x", "hunter2"),
    ("passwords", "client_secret: abcdef", "abcdef"),
    ("passwords", "SECRET=abcdef", "abcdef"),
    ("passwords", "password=(x)", "(x)"),
    ("passwords", "postgres://user:p4ss@db.example:5432/x", "p4ss"),
    ("passwords", "redis://:p4ss@cache", "p4ss"),
    ("keys", "found AKIAIOSFODNN7EXAMPLE in env", "AKIAIOSFODNN7EXAMPLE"),
    ("keys", "ASIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"),
    (
        "keys",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    ("keys", "AccountKey=Eby8vdM02xNOcqF==;", "Eby8vdM02xNOcqF==;"),
    ("keys", f"-----BEGIN RSA PRIVATE KEY-----{KEY_LINE}-----END RSA PRIVATE KEY-----", KEY_LINE),
    ("email", "mail jane.d+x@sub.example.org now", "jane.d+x@sub.example.org"),
    ("email", "<Jane@Example.COM>", "Jane@Example.COM"),
]


@rows(SECRETS)
def test_a_secret_is_masked_and_nothing_else_of_its_line(row: tuple[str, str, str]) -> None:
    name, line, secret = row
    wanted = line.replace(secret, "*" * len(secret))
    for before, after in ((b"", b""), (b"12:00:01 INFO ", b""), (b"\r 3%|", b"\r"), (b"x\n", b"\nloss=0.1\n")):
        data = before + line.encode() + b"\n" + after
        assert shown(data, Rules((name,))) == before + wanted.encode() + b"\n" + after
        assert len(shown(data)) == len(data)
        assert secret.encode() not in shown(data)


INNOCENT = (Path(__file__).parents[2] / "data" / "innocent.log").read_text()


@rows(INNOCENT.splitlines())
def test_an_innocent_line_stays(line: str) -> None:
    assert shown(line.encode() + b"\n") == line.encode() + b"\n"


def test_logs_of_real_trainings_stay() -> None:
    """Of the lines without a secret, fewer than one in 10,000 changes."""
    samples = [Path(__file__).parents[2] / "data" / "train"]
    samples += [parent / "shared" / "samples" / "train" for parent in Path(__file__).resolve().parents]
    found = [path for place in samples for path in sorted(place.rglob("*.log")) if path.is_file()]
    assert found
    for path in found:
        data = path.read_bytes() + b"\n"  # the newline finishes the last word
        assert shown(data) == data, path.name


# --- kinds of secrets

PARTS = [  # parts of texts that are meant to take long or to confuse
    b"password=",
    b'password="',
    b"password='a ",
    b"password: a ",
    b"token=",
    b"token=1",
    b"token: aaaaaaaa",
    b"key=",
    b"api_key=\\",
    b"secret=(",
    b"secret: [",
    b"://a:",
    b"://a:b@",
    b"@",
    b"a@a.",
    b"a@a.a.a.",
    b"eyJ",
    b"eyJaaaaaaaa.",
    b"sk-",
    b"sk-aaaaaaaaaaaaaaaaaaaa-",
    b"ghp_",
    b"-",
    b"_",
    b"a-",
    b"a_",
    b"A",
    b"\x1b[",
    b"\x1b[1m",
    b"\\",
    b"\\n",
    b"&quot;",
    b"&",
    b'"',
    b"'",
    b'\\"',
    b"$2b$",
    b"authorization: ",
    b"authorization: digest ",
    b"cookie: a=",
    b"auth(",
    b"auth('",
    b"-u a:",
    b"-u a:1",
    b"identified by ",
    b"xoxb-",
    b"wandb ",
    b"0123456789abcdef0123456789abcdef0123456789abcdef ",
    b"datadog=",
    b"datadog=aaaaaaaa1aaaaaaa ",
    b"bearer ",
    b"x=aaaaaaaa1aaaaaaaaa ",
    b"a.",
    b"a~",
    b"a/",
    b"/",
    b"1:",
    b"AA:",
    b".",
    b"LS0tLS1CRUdJTi",
    b"-----BEGIN PRIVATE KEY-----",
    b"VATE KEY",
    b"SecretStr(",
    b"password=a(",
    b"password=str = ",
    b"password=!!a ",
    b"pass=",
    b"pwd=/",
    b"pwd=a ",
    b"passsecrettokenkeyauth",
    b" ",
    b"\t",
    b"=",
    b":",
    b"password ",
    b"password    ",
    b"aaaaaaaaaaaaaaaaa ",
    b"11111111111111111 ",
    b"Ab1Ab1Ab1Ab1Ab1Ab1Ab1Ab1.",
    b"hook",
    b"hooks.slack.com/services/a1a1a1a1a1a1a1a1a1a1 ",
    b"\xff",
    b"\x00",
    b"aaaaaaaaaaaaaaaa1@",
    b"-uu",
    b"AKIA",
    b"fw_",
    b"cio",
    b"https://a:b/c.d@",
    *(
        b"password=''",
        b"password='a''b'",
        b"password  ",
        b"password\ta1 ",
        b"password ....",
        b'password is "a',
        b'"password=',
    ),
    *(
        b"'--password=a ",
        b"token set to '",
        b"tokens: 1 ",
        b"api_key  a",
        b"db_pw=",
        b"login ",
        b" login -p ",
        b"auth plain ",
    ),
    *(b"\\u201c", b"'\"'\"'", b"'\\''", "\u201c".encode(), b"\x1b[0m", b"a\x1b[1mpass", b'\\\\n"', b'"\\n', b"\\u0022"),
    *(
        b"a_password ",
        b"a_password a1",
        b"a_password a1a1a1a1=",
        b"secret_key aaaaaaaaaaaaaaa1",
        b"api_key ",
        b"a_token ",
    ),
    *(
        b' type="password',
        b' type="password" ',
        b' type="password" a=1',
        b"name=password value=",
        b'secret "',
        b'secret "a.',
    ),
    *(
        b'tokens: ["',
        b'tokens: ["aaaaaaaaaaaaaaaaaaa1',
        b"&token=next",
        b"pw: ",
        b"mypw=a1a1a1",
        b"cookie: aaaaaaaaaaaaaaa1",
    ),
    *(
        b"alias set ",
        b"alias set a http://a a ",
        b"jdbc:oracle:thin:a/a@",
        b"sqlplus ",
        b"sqlplus -a ",
        b"as a:aaaaa1@",
    ),
    *(b"a:Aaaaaaa1@", b"as a:", b"%40", b"a%40a.", b"%2540", b"AKIAAAAAAAAAAAAAAAAA ", b"session_id=", b"github_pat="),
    *(b" -p", b" -p a", b"mysql -p", b" -a a:a", b"curl -U ", b"-u a -p ", b"--value ", b"secret --value "),
    *(
        b"--from-literal=",
        b"--from-literal=a=",
        b"auth a",
        b"operator unseal ",
        b"kv put a ",
        b"kv put a a=",
        b"alias set a ",
    ),
    *(b"://", b"://a", b"://hook", b"://a/hook/", b"://a/t/", b"://a/a/a/a/a/", b"://a.a.a.a/", b"#login=", b"?code="),
    *(
        b"value",
        b"value: a, ",
        b'"value": "a", "name": ',
        b"session=",
        b"SESSION_a=",
        b"samlresponse=",
        b"s%3a",
        b"s%3aa.",
    ),
    *(
        b"=\t",
        b"A" * 43 + b"=\t",
        b":5432:",
        b":5432:a:a:",
        b"psk=",
        b"recovery code",
        b"seed phrase ",
        b"mnemonic: aaa ",
    ),
    *(
        b"name: password\n",
        b"value: a\n",
        b"name: password\nvalue: a\n",
        b"password: |\n",
        b"key: [\n",
        b'"keys_b64": ["',
    ),
    *(b"eJ", b"eyJ.", b"AGE-PLUGIN-", b"AGE-PLUGIN-A1", b"Private-Lines: 1\n", b"OpenVPN ", b"routing_key=", b"&a !b "),
    *(b"+A", b"+ASt", b"A" * 60 + b"JQQJ99", "\u0430@\u0430.".encode(), b"password='\\", b'password="\\"\\'),
]


@rows(SHAPES, lambda shape: shape.name)
def test_a_kind_of_secret_is_masked_to_its_very_end(shape: Shape) -> None:
    """A secret that is known to get through is not masked in part either: its line must not look redacted."""
    for seed in range(often(2, 8)):
        line, spans = shape.example(seed)
        for before, after in ((b"", b""), (b"2026-11-22 12:00:01,123 INFO x: ", b"\nloss=0.1\n"), (b"\r 3%|", b"\r")):
            data = before + line + b"\n" + after
            out = shown(data)
            secrets = b"".join(out[len(before) + begin : len(before) + end] for begin, end in spans)
            assert len(out) == len(data)
            if shape.known:
                assert out == data, "take the ! from its row in data/secrets.txt, and its name from SECURITY.md"
            else:
                assert set(secrets) == set(b"*"), (data, out)


def test_nearly_all_kinds_of_secrets_are_masked_and_the_others_are_told_by_name() -> None:
    known = [shape.name for shape in SHAPES if shape.known]
    assert len(SHAPES) >= 200
    assert len(known) <= 0.05 * len(SHAPES)
    told = (Path(__file__).parents[3] / "SECURITY.md").read_text()
    assert [name for name in known if f"`{name}`" not in told] == []


@given(st.sampled_from(SHAPES), st.integers(0, 99), st.integers(0, 250), st.integers(0, 250))
def test_a_secret_of_any_kind_is_masked_wherever_it_is_cut(shape: Shape, seed: int, before: int, cut: int) -> None:
    """The file is read up to the cut, and later from there."""
    line, _ = shape.example(seed)
    data = b"x" * before + b"\n" + line + b"\nmore\n"
    whole, at = shown(data), before + min(cut, len(line))
    fetch = lambda begin, end: data[begin:end]  # noqa: E731
    parts = [ALL.show(fetch, *part, len(data))[0] for part in ((0, at), (at, len(data) - at))]
    assert b"".join(parts) == whole
    grown = ALL.decided(lambda begin, end: data[:at][begin:end], 0, at)
    assert ALL.show(lambda begin, end: data[:at][begin:end], 0, grown, at)[0] == whole[:grown]


LINES = st.lists(
    st.one_of(
        st.builds(lambda shape, seed: shape.example(seed)[0], st.sampled_from(SHAPES), st.integers(0, 9)),
        st.sampled_from(INNOCENT.encode().splitlines()),
        st.lists(st.sampled_from(PARTS), max_size=8).map(b"".join),
    ),
    max_size=6,
)


@settings(max_examples=often(40, 300))
@given(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"]))
def test_lines_do_not_matter_to_each_other(lines: list[bytes], end: bytes) -> None:
    text = end.join(lines) + end
    together = sorted(set(find(text, NAMES)))
    alone, at = set[tuple[int, int]](), 0
    for line in lines:
        alone |= {(at + begin, at + behind) for begin, behind in find(line, NAMES)}
        at += len(line) + len(end)
    assert together == sorted(alone)


@given(LINES)
def test_what_is_decided_once_is_what_would_be_decided_each_time(lines: list[bytes]) -> None:
    text = b"\n".join(lines) + b"\n"
    usually = set(find(text, NAMES))
    never = {"_tells_nothing": mock.Mock(return_value=False), "_is_a_number": mock.Mock(return_value=False)}
    with mock.patch.multiple(runs, **never):
        assert set(find(text, NAMES)) == usually


@rows(SHAPES, lambda shape: shape.name)
def test_what_is_masked_twice_is_the_same(shape: Shape) -> None:
    once = b"\n".join(shown(shape.example(seed)[0] + b"\n") for seed in range(often(2, 8)))
    assert shown(once) == once


HOSTILE = [part * (8 << 10) for part in PARTS if part]


@rows(HOSTILE, lambda text: text[:24])
def test_no_text_takes_more_than_a_multiple_of_its_length(text: bytes) -> None:
    """Quadratic time would be minutes here."""
    text = text[: often(4, 64) << 10]
    began = time.thread_time()
    shown(text)
    assert time.thread_time() - began < 3


def test_a_private_key_is_masked_up_to_its_last_line_and_no_further() -> None:
    lines = [b"-----BEGIN OPENSSH PRIVATE KEY-----", KEY_LINE.encode(), b"", KEY_LINE.encode()[:9]]
    key = b"\r\n".join(lines) + b"\n-----END OPENSSH PRIVATE KEY-----\nloss=0.1\n"
    wanted = b"\r\n".join([lines[0], b"*" * 44, b"", b"*" * 9]) + b"\n-----END OPENSSH PRIVATE KEY-----\nloss=0.1\n"
    assert shown(b"a\n" + key) == b"a\n" + wanted
    assert shown(key, Rules(("tokens", "passwords", "email"))) == key


def test_a_private_key_without_an_end_is_masked_for_a_bounded_length() -> None:
    begin, tail = b"-----BEGIN PRIVATE KEY-----", b"loss=0.1\n" * 10_000
    data = begin + tail
    out = shown(data)
    assert out[: len(begin)] == begin
    masked, rest = out[len(begin) :][: mask.KEY_BLOCK], out[len(begin) + mask.KEY_BLOCK :]
    assert set(masked) == set(b"*\n")
    assert rest == data[len(begin) + mask.KEY_BLOCK :]


@pytest.mark.parametrize("line", [b"\n", b"\r\n"], ids=["lf", "crlf"])
def test_a_private_key_that_began_far_before_what_is_read_is_masked(line: bytes) -> None:
    key = b"-----BEGIN PRIVATE KEY-----" + line + (KEY_LINE.encode() + line) * 1000
    whole, reads = shown(key), range(0, mask.KEY_BLOCK + 200, 500)
    assert max(reads) > mask.OVERLAP * 4
    for at in reads:
        assert ALL.show(lambda begin, end: key[begin:end], at, 100, len(key))[0] == whole[at : at + 100]


def test_own_patterns_are_masked_whole_and_within_a_line() -> None:
    rules = Rules((), (r"patient \d+", r"(?i)ward\s+\w+"))
    data = b"patient 17 in WARD b\nward\nc patient 4\n"
    assert shown(data, rules) == b"********** in ******\nward\nc *********\n"
    assert rules.show(lambda begin, end: data[begin:end], 0, len(data), len(data))[1:] == (3, 25)


def test_what_is_counted_is_each_match_once_and_each_masked_byte() -> None:
    data = b"password=ab token=12345678x me@a.org\n" * 3
    fetch = lambda begin, end: data[begin:end]  # noqa: E731
    assert ALL.show(fetch, 0, len(data), len(data))[1:] == (9, 3 * (2 + 9 + 8))
    each = [ALL.show(fetch, at, 1, len(data))[1:] for at in range(len(data))]
    assert tuple(map(sum, zip(*each, strict=True))) == (9, 3 * (2 + 9 + 8))


# --- a function of the file's bytes


@contextmanager
def small() -> Iterator[None]:
    """Windows that small examples exceed."""
    sizes: dict[str, Any] = {
        "WINDOW": 64,
        "OVERLAP": 16,
        "KEY_BLOCK": 90,
        "_LOOK": 8,
    }
    with mock.patch.multiple(mask, **sizes), mock.patch.multiple(patterns, WINDOW=24, OVERLAP=8):
        yield


def reference(data: bytes, rules: Rules) -> bytes:
    """The redacted bytes of a whole file that has ended, computed in the plainest way."""
    window, overlap = mask.WINDOW, mask.OVERLAP
    ends = [at + 1 for at, byte in enumerate(data) if byte in b"\r\n"]
    cuts = [
        at for at in range(window, len(data), window) if not any(byte in b"\r\n" for byte in data[at - window : at])
    ]
    bounds = sorted({0, *ends, *cuts, len(data)})
    out = bytearray(data)
    for begin, end in pairwise(bounds):
        line_end = next((at - 1 for at in ends if at >= end), len(data))
        first = begin if begin == 0 or begin in ends else begin - overlap
        behind = end - 1 if end in ends else min(end + overlap, line_end)
        line = data[first:behind]
        above = data[max(0, begin - mask.ABOVE) : begin] if first == begin else b""
        spans = [*find(line, rules.names, above)]
        for text in rules.own:
            for at in range(0, len(line), patterns.WINDOW):
                low = max(0, at - patterns.OVERLAP)
                piece = line[low : at + patterns.WINDOW + patterns.OVERLAP]
                spans += [(low + found.start(), low + found.end()) for found in re.finditer(text.encode(), piece)]
        if end not in ends and behind == len(data) < end + overlap:
            spans.append((0 if rules.own else max(line.rfind(b" "), line.rfind(b"\t")) + 1, len(line)))
        for one, other in spans:
            for at in range(max(begin, first + one), min(end, first + other)):
                out[at] = ord("*")
    if "keys" in rules.names:
        for found in mask._KEY_BEGIN.finditer(data):
            first = found.end(1)
            last = mask._KEY_END.search(data, first)
            stop = len(data) if last is None else last.start()
            for at in range(first, min(stop, first + mask.KEY_BLOCK)):
                out[at] = out[at] if data[at] in b"\r\n" else ord("*")
    return bytes(out)


@rows(range(0, 160, often(3, 1)))
def test_private_keys_that_are_near_each_other_do_not_move_each_others_bounds(between: int) -> None:
    begin, end = b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----"
    for one, other in ((begin, begin), (begin, end), (end, begin), (end, end)):
        data = begin + b"MIIE" + one + b"x" * between + other + b"tail\n" + begin[5:] + b"MIIE\n"
        assert shown(data) == reference(data, ALL)
        for at in (1, len(begin) + 3, len(data) // 2):
            part, _, _ = ALL.show(lambda low, high, data=data: data[low:high], at, len(data), len(data))  # type: ignore[misc]
            assert part == reference(data, ALL)[at:]


PIECES = st.sampled_from(
    [
        *(
            b"\n",
            b"\r",
            b"\r\n",
            b" ",
            b"x",
            b"loss=0.5 ",
            b"y" * 30,
            b"z" * 70,
            b"password=hunter2",
            b'password="a b',
            b'"',
        ),
        *(
            b"token=",
            b"abc123def",
            JWT.encode()[:60],
            b"me@exam",
            b"ple.org",
            b"-----BEGIN PRIVATE KEY-----",
            b"MIIE" * 9,
        ),
        *(b"-----END PRIVATE KEY-----", b"secret", b":", b"=", b"ID-4711", b"ID-", b"Bearer ", b"@", b"\0", b"\xff"),
    ]
)
FILES = st.lists(PIECES, max_size=40).map(b"".join)
RULES = st.sampled_from(
    [
        ALL,
        Rules(("passwords",)),
        Rules((), (r"ID-\d+",)),
        Rules(("all",), (r"ID-\d+", "y+x", "^z+")),
        Rules(("email",)),
        Rules((), ("ID[^x]*x",)),
    ]
)


@settings(max_examples=often(25, 200), deadline=None)
@given(FILES, RULES, st.lists(st.tuples(st.integers(0, 700), st.integers(1, 200)), max_size=6))
def test_whatever_is_read_at_once_is_what_the_whole_file_shows(
    data: bytes, rules: Rules, reads: list[tuple[int, int]]
) -> None:
    with small():
        wanted = reference(data, rules)
        fetch = lambda begin, end: data[begin:end]  # noqa: E731
        for offset, length in [(0, len(data)), *reads]:
            assert rules.show(fetch, offset, length, len(data))[0] == wanted[offset : offset + length]


@settings(max_examples=often(25, 200), deadline=None)
@given(FILES, RULES, st.lists(st.integers(0, 800), max_size=8), st.integers(1, 90))
@example(b"z" * 71 + b"\n", ALL, [64], 1)
def test_what_is_shown_of_a_file_that_grows_is_what_it_shows_in_the_end(
    data: bytes, rules: Rules, sizes: list[int], room: int
) -> None:
    with small():
        wanted, out, matches, masked = reference(data, rules), b"", 0, 0
        for size in sorted(min(size, len(data)) for size in sizes):
            fetch = lambda begin, end, size=size: data[: int(size)][begin:end]  # noqa: E731
            end = rules.decided(fetch, len(out), size)
            assert len(out) <= end <= size
            while len(out) < end:
                more, found, bytes_ = rules.show(fetch, len(out), min(room, end - len(out)), size)
                out, matches, masked = out + more, matches + found, masked + bytes_
            assert out == wanted[:end]
            held = data[end:size]
            assert len(held) < 2 * mask.WINDOW + mask.OVERLAP, "no line is held back for long"
            if end:
                assert not re.search(rb"[\r\n]", held), "a line that ended is shown"
        counted = rules.show(lambda begin, end: data[begin:end], 0, len(out), len(data))
        assert (matches, masked) == counted[1:]


SECRET = "kJ8s0Qw2"


@settings(max_examples=often(25, 200), deadline=None)
@given(
    st.integers(0, 200),
    st.sampled_from(["x", "ab ", "12/", "-"]),
    st.sampled_from([f"token={SECRET}", f"password={SECRET}", f"://u:{SECRET}@", f"Bearer {SECRET}"]),
    st.sampled_from([b"\n", b" and more", b""]),
    st.lists(st.integers(0, 500), max_size=5),
)
@example(50, "x", f"password={SECRET}", b"\n", [])
def test_a_secret_never_leaves_wherever_a_write_or_a_window_cuts_it(
    before: int, filler: str, secret: str, after: bytes, sizes: list[int]
) -> None:
    """Not even four letters of it leave, even if the file ends in the middle of the secret."""
    line = (filler * 200)[:before].encode() + b" " + secret.encode()
    data = line + after
    with mock.patch.multiple(mask, WINDOW=64, OVERLAP=32, _LOOK=8):
        views = [shown(data[: min(size, len(data))]) for size in (*sizes, len(line), len(data))]
    parts = [SECRET[at : at + 4].encode() for at in range(len(SECRET) - 3)]
    assert not any(part in view for view in views for part in parts)


# --- a site's options

BAD = [
    pytest.param(("nothing",), (), "the redaction 'nothing' is unknown; known are tokens", id="unknown-name"),
    pytest.param((), ("(",), "not a regular expression", id="no-regex"),
    pytest.param((), ("a*",), "also matches the empty string", id="matches-nothing"),
    pytest.param((), (r"(a)\1",), "no backreferences", id="backreference"),
    pytest.param((), ("(?<=a)b",), "no lookaround", id="lookbehind"),
    pytest.param((), ("(?=a)b",), "no lookaround", id="lookahead"),
    pytest.param((), (r"(?:\w{1,1000}){1,1000}",), "not a regular expression", id="too-large"),
    pytest.param((), ("\ud800",), "not a regular expression", id="no-text"),
]


@together(("names", "own", "sentence"), BAD)
def test_what_makes_no_sense_or_could_take_for_ever_is_refused(
    names: tuple[str, ...], own: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(InvalidOption, match=re.escape(sentence)) as refused:
        Rules(names, own)
    assert "\n" not in str(refused.value)


def test_what_re2_says_otherwise_means_what_it_meant() -> None:
    rules = Rules((), (r"\b\d{3}-\d{2}-\d{4}\b", r"(?:\d++\.)++\d", r"patient[ _]id[:=]\s*\w+", "[A-Z]{2}[0-9]{6,12}"))
    assert shown(b"id 123-45-6789, patient_id: ab\n", rules) == b"id ***********, **************\n"


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"a++b",
            r"[a+]++x",
            r"(?>ab|a)c",
            r"a{,2}b",
            r"a{1,2}+b",
            r"[{,2}]+x",
            r"\++",
            r"x\Z",
            r"[]+]+b",
            r"[^]+b]++b",
        ),
        *(
            r"(?i)AB",
            "é",
            "[é]",
            r"\x41|\101",
            r"a*?b",
            r"(?P<n>a)b",
            r"^a",
            r"b$",
            r"\bab\b",
            r"[\]+]++",
            r".b",
            r"\Wa",
        ),
    ],
)
@settings(max_examples=often(8, 200))
@given(st.lists(st.sampled_from(["a", "b", "c", "x", "A", "B", "+", "{,2}", "]", "^", "é", " ", "-"]), max_size=12))
def test_an_own_pattern_matches_what_pythons_engine_would(pattern: str, text: list[str]) -> None:
    data = "".join(text).encode()
    assert list(OwnPattern(pattern).spans(data)) == [found.span() for found in re.finditer(pattern.encode(), data)]


@pytest.mark.parametrize(
    "pattern", [r"name.*born.*ssn.*\d{3}", "(a+)+b", "(?:a|aa)+b", r"\w+\w+\w+!", "x.*y|x", "(?:a?){99}a{99}b"]
)
def test_no_own_pattern_takes_longer_than_a_multiple_of_the_text(pattern: str) -> None:
    rules = Rules((), (pattern,))
    for text in (b"name born ssn ", b"a", b"x"):
        began = time.thread_time()
        shown((text * (64 << 10))[: 64 << 10] + b"\n", rules)
        assert time.thread_time() - began < 5


def test_an_own_pattern_may_ask_where_a_line_begins_and_ends() -> None:
    assert shown(b"ab\nba\nab\n", Rules((), ("^b", "b$"))) == b"a*\n*a\na*\n"


def test_where_an_own_pattern_matches_very_often_the_rest_is_masked() -> None:
    data = b"x" * patterns.MOST + b" and so on " + b"x" * 40
    assert (
        shown(data + b"\n", Rules((), ("x",)))
        == b"x".replace(b"x", b"*" * patterns.MOST) + b" and so on " + b"*" * 40 + b"\n"
    )


def test_without_re2_own_patterns_are_refused_with_what_to_install() -> None:
    with mock.patch.dict(sys.modules, {"re2": None}):
        assert Rules(("all",))
        with pytest.raises(InvalidOption, match=re.escape("pip install 'flarelog[re2]'")):
            Rules((), ("patient",))


def test_rules_are_told_again_from_a_generations_notes() -> None:
    own = Rules(("tokens",), ("x1",))
    assert Rules(("email", "tokens")).note == "redacted:5:tokens+email"
    assert own.note.startswith("redacted:5:tokens+own-")
    assert ALL.once("no-handle,redacted:5:tokens+email,hole:3") == Rules(("tokens", "email"))
    assert ALL.once("no-handle") == Rules()
    assert own.once(own.note) is own
    assert ALL.once(own.note) is None
    assert ALL.once("redacted:3:tokens") is None
    assert ALL.once("redacted:5:tokens+news") is None


def test_a_sign_that_stands_for_itself_is_parted_as_if_no_other_line_had_signs() -> None:
    alone = b"C:\\tom@example.org\n"
    other = "loss \u2192 0.3\n".encode()  # a byte that is shown as ->
    spans = list(find(alone, NAMES))
    assert spans
    assert list(find(other + alone, NAMES)) == [(begin + len(other), end + len(other)) for begin, end in spans]
