"""No part of a secret leaves, whatever text surrounds it: not four letters of its middle, in any combination."""

from __future__ import annotations

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from flarelog.sources.redaction.mask import OVERLAP, WINDOW, Rules
from tests.often import SOAK, often
from tests.rows import rows
from tests.sources.redaction.wrapped import BARE_FORMS, ENVELOPES, FORMS, NAMES, wrapped

ALL = Rules(("all",))
LOOKS = ((True, 0.0), (False, 0.0), (False, 0.3))  # whether the value is plain, and the frequency of colours
# A program may print another one's line. Two cases of SECURITY.md are left out: a shell's line that is quoted again,
# and a text in a line that was escaped more often than its quotes.
OUTER = [name for name in ENVELOPES if name not in ("shell", "html")]
INNER = [name for name in OUTER if "repr" not in name and name != "exception"]


def shown(data: bytes) -> bytes:
    return ALL.show(lambda begin, end: data[begin:end], 0, len(data), len(data))[0]


def leaks(out: bytes, parts: list[str]) -> list[str]:
    return [part[at : at + 4] for part in parts for at in range(len(part) - 3) if part[at : at + 4].encode() in out]


@rows([*FORMS, *BARE_FORMS])
def test_no_part_of_a_secret_leaves(form: str) -> None:
    """Each form in each envelope, with a plain value or one with signs, with and without colours between any signs."""
    for seed, envelope in enumerate(ENVELOPES):
        for plain, colours in LOOKS if SOAK else (LOOKS[(seed + len(form)) % len(LOOKS)],):
            chance = random.Random(f"{form} {seed} {plain} {colours}")
            line, parts = wrapped(chance, form, [envelope], chance.choice(NAMES), plain, colours)
            out = shown(line.encode() + b"\n")
            assert not leaks(out, parts), (envelope, line, out)


@settings(max_examples=often(150, 4000), deadline=None, derandomize=False)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from([*FORMS, *BARE_FORMS]),
    st.sampled_from(INNER),
    st.sampled_from(OUTER),
    st.sampled_from(NAMES),
)
def test_no_part_of_a_secret_leaves_a_line_that_another_program_prints(
    seed: int, form: str, inner: str, outer: str, name: str
) -> None:
    line, parts = wrapped(random.Random(seed), form, [inner, outer], name, True, 0.2)
    out = shown(line.encode() + b"\n")
    assert not leaks(out, parts), (line, out)


@settings(max_examples=often(60, 1500), deadline=None, derandomize=False)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from([*FORMS, *BARE_FORMS]),
    st.sampled_from([*ENVELOPES]),
    st.integers(-200, 200),
    st.lists(st.integers(0, 400), max_size=4),
)
@example(seed=7, form="json", envelope="json-in-json", before=0, cuts=[10, 60])
def test_no_part_of_a_secret_leaves_wherever_a_chunk_or_a_long_line_is_cut(
    seed: int, form: str, envelope: str, before: int, cuts: list[int]
) -> None:
    """The secret stands at the end of a longer line's window, or at the present end of a growing file."""
    chance = random.Random(seed)
    line, parts = wrapped(chance, form, [envelope], chance.choice(NAMES), True, 0)
    text = line.replace("\r", " ").encode()
    long = b"x " * ((WINDOW + before - len(text) // 2) // 2) + text + b" y" * OVERLAP + b"\n"
    assert not leaks(shown(long), parts)
    data, out = text + b"\n", b""
    for cut in sorted({*(min(cut, len(data)) for cut in cuts), len(data)}):
        end = ALL.decided(lambda begin, end, cut=cut: data[:cut][begin:end], len(out), cut)  # type: ignore[misc]
        out += ALL.show(lambda begin, end: data[begin:end], len(out), end - len(out), cut)[0]
        ended = ALL.show(lambda begin, end: data[begin:end], 0, cut, cut)[0]  # a shutdown at this place
        assert not leaks(ended, parts), (data, ended)
    assert out == shown(data)
    assert not leaks(out, parts)
