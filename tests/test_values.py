"""``@frozen`` makes the same classes as ``@dataclass(frozen=True, slots=True)``; the tests compare both."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any, ClassVar

import pytest

from flarelog import values
from flarelog.values import changed, fields_of, frozen


def plain(make: Callable[[type], type]) -> type:
    @make
    class Plain:
        """A class with a docstring of its own."""

        number: int
        text: str = "nothing"
        UNITS: ClassVar[tuple[str, ...]] = ("B", "kB")

        @property
        def twice(self) -> int:
            return 2 * self.number

    return Plain


def partly(make: Callable[[type], type]) -> type:
    @make
    class Partly:
        number: int
        at: int = field(default=0, compare=False, kw_only=True)
        secret: str = field(default="hidden", repr=False)
        facts: list[int] = field(default_factory=list)
        last: str = field(default="", metadata={"unit": "bytes"})

    return Partly


def checked(make: Callable[[type], type]) -> type:
    @make
    class Checked:
        number: int
        _half: float = field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("below 0")
            object.__setattr__(self, "_half", self.number / 2)

        def __repr__(self) -> str:
            return f"half of {self.number} is {self._half}"

    return Checked


def empty(make: Callable[[type], type]) -> type:
    @make
    class Empty:
        """A class without fields."""

    return Empty


KINDS = [
    pytest.param(plain, [((1,), {}), ((1, "a"), {}), ((), {"text": "a", "number": 1}), ((2,), {})], id="plain"),
    pytest.param(
        partly,
        [((1,), {}), ((1,), {"at": 5}), ((1, "other"), {}), ((1,), {"facts": [1]}), ((1, "hidden", [1], "x"), {})],
        id="partly",
    ),
    pytest.param(checked, [((1,), {}), ((4,), {})], id="checked"),
    pytest.param(empty, [((), {})], id="empty"),
]
WRONG = [((), {"nobody": 1}), ((1, 2, 3, 4, 5, 6), {}), ((-1,), {"nobody": 1})]
Calls = list[tuple[tuple[object, ...], dict[str, object]]]


def outcome(work: Callable[[], object]) -> object:
    """The result of *work*, or the class of its exception."""
    try:
        return work()
    except Exception as error:
        return type(error)


def called(made: Any, given: tuple[object, ...], named: Mapping[str, object]) -> object:
    return made(*given, **named)


def equally_hashed(one: object, other: object) -> bool:
    return hash(one) == hash(other)


def parameters(made: type) -> list[tuple[str, object, object]]:
    """The parameters of the constructor, without defaults: for a default factory the standard library has its own
    marker.
    """
    taken = inspect.signature(made).parameters.values()
    return [(each.name, each.kind, each.annotation) for each in taken]


def known(made: Any) -> list[object]:
    return [(each.name, each.type, each.default, each.init, each.kw_only, dict(each.metadata)) for each in fields(made)]


@pytest.mark.parametrize("few", [pytest.param(0, id="with-its-own-init"), pytest.param(values.FEW, id="of-the-first")])
@pytest.mark.parametrize(("kind", "calls"), KINDS)
def test_a_value_is_as_the_standard_librarys(
    kind: Callable[[Any], Any], calls: Calls, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "FEW", few)
    ours: Any = kind(frozen)
    theirs: Any = kind(dataclass(frozen=True, slots=True))
    for name in ("__name__", "__qualname__", "__module__", "__slots__", "__match_args__"):
        assert getattr(ours, name) == getattr(theirs, name)
    made = [(ours(*given, **named), theirs(*given, **named)) for given, named in calls]
    if not few:
        assert parameters(ours) == parameters(theirs)
    assert known(ours) == known(theirs)
    assert is_dataclass(ours)
    for a, b in made:
        assert repr(a) == repr(b)
        assert asdict(a) == asdict(b)
        assert not hasattr(a, "__dict__")
        assert copy.copy(a) == copy.deepcopy(a) == a
        for c, d in made:
            assert (a == c) == (b == d)
            assert outcome(partial(equally_hashed, a, c)) == outcome(partial(equally_hashed, b, d))
        assert a != b
        assert a != 1
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'number'"):
            a.number = 1
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'number'"):
            del a.number
    for given, named in WRONG:
        refused = outcome(partial(called, ours, given, named))
        assert refused in (TypeError, ValueError)
        assert refused == outcome(partial(called, theirs, given, named))


@frozen
class Kept:
    number: int
    text: str = ""


def test_the_first_instances_and_the_others_are_made_alike() -> None:
    kind = plain(frozen)
    first = kind(1, text="a")
    assert vars(kind)["__init__"].__name__ == "first"
    assert all(kind(1, text="a") == first for _ in range(values.FEW))
    assert vars(kind)["__init__"].__name__ == "__init__"
    with pytest.raises(TypeError, match=r"Plain\.__init__\(\) missing 1 required positional argument: 'number'"):
        plain(frozen)()


def test_a_value_can_be_pickled_replaced_and_matched() -> None:
    one = Kept(1, "a")
    assert pickle.loads(pickle.dumps(one)) == one
    assert replace(one, number=2) == Kept(2, "a")
    match one:
        case Kept(number, text):
            assert (number, text) == (1, "a")


def test_a_value_that_refuses_what_it_is_made_of_is_not_made() -> None:
    kind = checked(frozen)
    for _ in range(2):
        with pytest.raises(ValueError, match="below 0"):
            kind(-1)
    assert repr(replace(kind(2), number=6)) == "half of 6 is 3.0"


def test_fields_are_not_inherited() -> None:
    with pytest.raises(TypeError, match="Second cannot inherit the fields of Kept"):

        @frozen
        class Second(Kept):
            more: int = 0


def test_a_class_may_write_its_own_comparison() -> None:
    @frozen
    class Ordered:
        name: str

        def __lt__(self, other: Ordered) -> bool:
            return self.name < other.name

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Ordered) and self.name.lower() == other.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

    assert sorted([Ordered("b"), Ordered("a")]) == [Ordered("A"), Ordered("B")]


@pytest.mark.parametrize("made", [plain(frozen), partly(frozen), checked(frozen), plain(dataclass(frozen=True))])
def test_fields_of_are_those_of_dataclasses(made: type) -> None:
    def told(of: Any) -> list[tuple[object, ...]]:
        return [(each.name, each.type, each.default, each.init, dict(each.metadata)) for each in of]

    before = told(fields_of(made))  # the first call of fields_of comes before that of fields
    assert before == told(fields(made)) == told(fields_of(made))


@pytest.mark.parametrize("known", [False, True], ids=["before dataclasses knows it", "behind that"])
def test_changed_is_what_replace_makes(known: bool) -> None:
    kind: Any = partly(frozen)
    value = kind(1, at=5, secret="x", facts=[2])
    if known:
        fields(kind)
    found = changed(value, number=3)
    assert (found.number, found.at, found.secret, found.facts, found.last) == (3, 5, "x", [2], "")
    assert found == replace(value, number=3)
    with pytest.raises(TypeError):
        changed(value, unknown=1)


def test_changed_leaves_what_is_no_argument_to_replace() -> None:
    kind: Any = checked(frozen)
    assert repr(changed(kind(4), number=6)) == "half of 6 is 3.0"
    with pytest.raises((ValueError, TypeError), match="_half"):
        changed(kind(4), _half=1.0)
