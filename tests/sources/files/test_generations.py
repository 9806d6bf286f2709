"""The log of a file with a rotated name, decided by ages alone: no file is read."""

from __future__ import annotations

import pytest

from flarelog.sources.files.lineage import Age
from flarelog.sources.files.place import OVERLAP, is_generation

LOG = "log.txt"


def of(born: int | None, path: str = f"{LOG}.1", modified: int | None = None) -> Age:
    """A file born at *born*, and last written to *modified* ns later."""
    return Age(born, path, modified=(born or 0) + (modified or 0))


@pytest.mark.parametrize(
    ("age", "since", "until", "births", "opened", "answer"),
    [
        pytest.param(of(5), of(1), of(9, LOG), None, False, True, id="between-the-newest-known-and-the-log"),
        pytest.param(of(5), of(1), None, None, False, True, id="after-the-newest-known-and-the-log-has-no-file"),
        pytest.param(of(9), of(1), of(5, LOG), None, False, False, id="a-copy-is-younger-than-the-log"),
        pytest.param(of(5), of(1), of(5, LOG), None, False, True, id="born-in-the-same-tick-as-the-log"),
        pytest.param(of(1), of(5), of(9, LOG), None, False, False, id="older-than-the-sent-bytes"),
        pytest.param(of(5), of(5), None, None, False, False, id="not-younger-than-the-newest-known"),
        pytest.param(of(5), None, of(9, LOG), None, False, None, id="nothing-is-known-and-no-pattern-matches"),
        pytest.param(of(5), None, None, None, True, None, id="an-opened-log-has-no-file-and-no-pattern-matches"),
        # nothing was sent yet
        pytest.param(of(5), None, of(9, LOG), [1, 5, 9], False, True, id="first-before-the-log"),
        pytest.param(of(1), of(5), of(9, LOG), [1, 5, 9], False, True, id="first-before-the-known"),
        pytest.param(
            of(5), None, of(9, LOG), [1, 5], False, True, id="first-and-the-log-was-rotated-since-the-listing"
        ),
        pytest.param(of(5, modified=4 + OVERLAP), None, of(9, LOG), [5, 9], False, True, id="first-and-a-late-write"),
        pytest.param(of(5, modified=5 + OVERLAP), None, of(9, LOG), [5, 9], False, None, id="first-and-still-written"),
        pytest.param(of(5, modified=5 + OVERLAP), of(1), of(9, LOG), [5, 9], False, True, id="written-after-the-known"),
        pytest.param(of(9), None, of(5, LOG), [5, 9], False, False, id="first-and-a-copy"),
        pytest.param(of(5), None, None, [5], False, None, id="first-and-no-log"),
        pytest.param(of(5), None, None, [5], True, True, id="first-and-no-log-but-the-receiver-has-opened-it"),
        pytest.param(of(5), None, of(None, LOG), [5], False, None, id="first-and-the-birth-of-the-log-is-unknown"),
        # a file system without births: names, then times decide
        pytest.param(of(None), None, of(None, LOG), [], False, True, id="first-without-births"),
        pytest.param(of(None), None, of(None, LOG), None, False, None, id="without-births-or-patterns"),
        pytest.param(of(None), of(None, f"{LOG}.2"), of(None, LOG), None, False, True, id="a-lower-number-is-younger"),
        pytest.param(of(None, f"{LOG}.3"), of(None, f"{LOG}.2"), of(None, LOG), None, False, False, id="a-higher-one"),
    ],
)
def test_a_rotated_name_is_that_of_a_generation_if_its_age_fits(
    age: Age, since: Age | None, until: Age | None, births: list[int] | None, opened: bool, answer: bool | None
) -> None:
    assert is_generation(LOG, age, since, until, births, opened=opened) is answer
