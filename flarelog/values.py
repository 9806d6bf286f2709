"""Values: classes whose fields never change. ``@frozen`` is a faster ``@dataclass(frozen=True, slots=True)``.

The standard library compiles six functions for each such class, and creates the class twice: 1 ms for eight fields.
Most commands import fifty such classes before they show anything. Here all classes share every function but
``__init__``; a class gets its own compiled ``__init__`` only after its first FEW instances, because compiling it takes
as long as making fifty of them, though it is then four times as fast. ``fields``, ``replace`` and ``asdict`` of
``dataclasses`` take a value, ``field`` works, and ``__post_init__`` is called. Two things differ: a value has no order
unless its class defines one, and fields are never inherited, from a value or by one. A class with subclasses stays a
dataclass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields, make_dataclass, replace
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

FEW = 32  # instances of a class before its own __init__ is compiled


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Recreate *cls* with slots for its annotated fields. Raises TypeError if a base class has fields."""
    for base in cls.__mro__[1:]:
        if hasattr(base, "__dataclass_fields__"):
            raise TypeError(f"{cls.__qualname__} cannot inherit the fields of {base.__qualname__}")
    body = dict(cls.__dict__)
    types = {name: each for name, each in inspect.get_annotations(cls).items() if not str(each).startswith("ClassVar")}
    declared = {}
    for name in types:
        default = body.pop(name, MISSING)
        declared[name] = default if isinstance(default, Field) else field(default=default)
        declared[name].name, declared[name].type = name, types[name]
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body["__slots__"] = tuple(types)
    body["__match_args__"] = tuple(name for name, each in declared.items() if each.init and each.kw_only is not True)
    body["__dataclass_fields__"] = _Fields(types, declared)
    body.update({name: each for name, each in _methods(declared).items() if name not in body})
    kind: Any = type(cls)
    made: type[T] = kind(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__

    count = 0

    def first(self: object, *given: object, **named: object) -> None:
        nonlocal count
        count += 1
        if count > FEW or not _filled(self, declared, given, named):
            type.__setattr__(made, "__init__", _init(made, types, declared))
            made.__init__(self, *given, **named)

    type.__setattr__(made, "__init__", first)
    return made


class _Fields:
    """The ``__dataclass_fields__`` of a class, made on first access."""

    def __init__(self, types: dict[str, Any], declared: dict[str, Field[Any]]) -> None:
        self._types, self.declared = types, declared
        self.given = all(each.init for each in declared.values())  # each field is an argument

    def __get__(self, instance: object, owner: type) -> dict[str, Field[Any]]:
        listed = [(name, kind, self.declared[name]) for name, kind in self._types.items()]
        said = {"__doc__": owner.__name__}  # without a docstring a class would get its signature, which takes 1 ms
        made: Any = make_dataclass(owner.__name__, listed, namespace=said, init=False, repr=False, eq=False)
        type.__setattr__(owner, "__dataclass_fields__", made.__dataclass_fields__)
        found: dict[str, Field[Any]] = made.__dataclass_fields__
        return found


def fields_of(cls: type) -> Iterable[Field[Any]]:
    """The fields of *cls*, a value or a dataclass, like ``dataclasses.fields``.

    For a value, that function creates a class first, in 0.1 to 0.4 ms; a command needs the fields of eight early on.
    """
    known = cls.__dict__.get("__dataclass_fields__")
    return known.declared.values() if isinstance(known, _Fields) else fields(cls)


def changed(value: T, **to: object) -> T:
    """A copy of *value* with fields changed, like ``dataclasses.replace``, but without creating a class first.

    From Python 3.13 on the library compiles text for that class, and this resets the flag that ``_init`` tells of.
    """
    known = type(value).__dict__.get("__dataclass_fields__")
    if not isinstance(known, _Fields) or not known.given:
        return replace(value, **to)  # type: ignore[type-var]
    return type(value)(**{name: getattr(value, name) for name in known.declared} | to)


def _filled(self: Any, declared: dict[str, Field[Any]], given: tuple[object, ...], named: dict[str, object]) -> bool:
    """Do the work of ``__init__`` for *declared* fields; False if it would refuse the arguments."""
    plain = [name for name, each in declared.items() if each.init and each.kw_only is not True]
    said = dict(zip(plain, given, strict=False))
    if len(said) < len(given) or not said.keys().isdisjoint(named):
        return False
    said |= named
    for name, each in declared.items():
        if not each.init:
            continue
        if name in said:
            value = said.pop(name)
        elif each.default is not MISSING:
            value = each.default
        elif each.default_factory is not MISSING:
            value = each.default_factory()
        else:
            return False
        object.__setattr__(self, name, value)
    if not said and hasattr(self, "__post_init__"):
        self.__post_init__()
    return not said


def _init(cls: type, types: dict[str, Any], declared: dict[str, Field[Any]]) -> Callable[..., None]:
    """Compile the ``__init__`` of *cls*."""
    known: dict[str, Any] = {"__name__": cls.__module__, "_missing": MISSING}
    plain, named, lines = ["self"], list[str](), list[str]()
    for name, each in declared.items():
        known[f"_set_{name}"] = getattr(cls, name).__set__
        default, given = "", name
        if each.default is not MISSING:
            known[f"_default_{name}"], default = each.default, f"=_default_{name}"
        elif each.default_factory is not MISSING:
            known[f"_make_{name}"], default = each.default_factory, "=_missing"
            given = f"_make_{name}() if {name} is _missing else {name}"
        if each.init:
            (named if each.kw_only is True else plain).append(name + default)
            lines.append(f"    _set_{name}(self, {given})")
    parameters = ", ".join([*plain, *(["*", *named] if named else [])])
    after = ["    self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    text = "\n".join([f"def __init__({parameters}):", *(lines + after or ["    pass"])])
    # exec of a string would reset Python's flag of an unhandled KeyboardInterrupt, and so the exit code for it.
    exec(compile(text, "<values>", "exec"), known)  # noqa: S102  # the text contains names of fields alone
    made: Callable[..., None] = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {**{name: kind for name, kind in types.items() if declared[name].init}, "return": None}
    return made


def _methods(declared: dict[str, Field[Any]]) -> dict[str, Callable[..., Any]]:
    """The methods that all values share."""
    shown = [name for name, each in declared.items() if each.repr]
    compared = [name for name, each in declared.items() if each.compare]
    of: Callable[[Any], object] = attrgetter(*compared) if compared else lambda self: ()

    def __repr__(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __eq__(self: object, other: object) -> bool:
        return of(self) == of(other) if type(self) is type(other) else NotImplemented

    def __hash__(self: object) -> int:
        return hash(of(self))

    def __setattr__(self: object, name: str, to: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self: object, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __setstate__(self: object, state: tuple[None, dict[str, object]]) -> None:
        for name, each in state[1].items():
            object.__setattr__(self, name, each)

    return {each.__name__: each for each in (__repr__, __eq__, __hash__, __setattr__, __delattr__, __setstate__)}
