"""Command options made from the fields of dataclasses, and options that commands share.

Each option may also come from the environment, as ``FLARELOG_`` and its name in capitals, unless it was declared with
``typed``. ``asks`` passes a command, for each dataclass, a ``partial`` that makes an instance from the options given.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from flarelog.cli.running import checked, end_within
from flarelog.cli.tuning import importing
from flarelog.errors import FlarelogError, InvalidOption
from flarelog.late import late
from flarelog.options import Option, Unit, declared
from flarelog.proxies import PROXY
from flarelog.quantities import amount
from flarelog.values import frozen

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from flarelog.client import Client
    from flarelog.security.tls import Tls

F = TypeVar("F", bound=Callable[..., object])

SWITCH = ("on", "off")
TYPED = "flarelog.typed"  # where a command's context has its words
_KINDS = "flarelog_kinds"  # the attribute of a command's function that holds the dataclasses of its options
_SOME = {"receiver": "localhost:1", "run": "run", "site": "site", "root": "."}  # stand-ins for fields without a default
_METAVARS = {"bytes": "SIZE", "seconds": "DURATION", "hours": "DURATION", "days": "DURATION"}
_WORD = late(r"(?!nan|inf)[a-z]+", re.IGNORECASE)
_UNITED = late(r"\s*\d[\d.]* *(?!e[+-]?\d)[a-z]", re.ASCII | re.IGNORECASE)


class Whole(click.IntRange):
    """An integer, at least *least* if given, and at most the largest size of a Python container. *unit*: the unit of a
    number that names none.
    """

    name = "integer"

    def __init__(self, least: int | None = None, unit: Unit | None = None) -> None:
        super().__init__(least)
        self._unit = unit

    def _describe_range(self) -> str:
        return "" if self.min is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(_number(value, self._unit, self, param), param, ctx)
        return found if found <= sys.maxsize else self.fail(f"{value} is more than {sys.maxsize}.", param, ctx)


class Finite(click.FloatRange):
    """A finite number, at least *least* if given: NaN would pass a bound alone. *unit*: as in ``Whole``."""

    name = "float"

    def __init__(self, least: float | None = None, unit: Unit | None = None) -> None:
        super().__init__(least)
        self._unit = unit

    def _describe_range(self) -> str:
        return "" if self.min is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(_number(value, self._unit, self, param), param, ctx)
        return found if math.isfinite(found) else self.fail(f"{value} is not a finite number.", param, ctx)


def _number(
    value: Any, unit: Unit | None, kind: click.IntRange | click.FloatRange, param: click.Parameter | None
) -> Any:
    """The number of *unit* in *value*, a text that names a unit; any other *value* as it is. Raises BadParameter."""
    if unit is None or not isinstance(value, str) or not (_UNITED.match(value) or _WORD.fullmatch(value.strip())):
        return value
    try:
        found = amount(value, unit)
    except InvalidOption as error:
        kind.fail(str(error), param)
    if isinstance(kind, click.IntRange) and found != int(found):
        kind.fail(f"{value} is not a whole number of {unit}", param)
    return found


class Spelled(click.Choice):  # type: ignore[type-arg]  # of click 8.1 it takes none
    """Choices in capital or small letters, some with other spellings that help does not show: *also* has the choice for
    each of these.
    """

    def __init__(self, choices: Sequence[str], also: Mapping[str, str]) -> None:
        super().__init__(choices, case_sensitive=False)
        self._also = also

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(self._also.get(str(value).lower(), value), param, ctx)


READ = click.Path(readable=False)
READ.name = "file"  # in a help
"""A file that the command reads. The command itself reports why it cannot, with what to do, and ends with 78 or 5: with
2 as click, a supervisor would take an unreadable key for a wrong option.
"""
DIRECTORY = click.Path(file_okay=False, readable=False)
"""A directory, of which the command itself reports why it cannot read it."""
_URL = "://"  # in the place of a store that is no directory
_PATHS = {
    "any": click.Path(readable=False),  # the command itself reports an unreadable path, with what to do
    "file": READ,
    "directory": DIRECTORY,
    "existing": click.Path(exists=True, file_okay=False, readable=False),
}


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own file names, for ``shell_complete`` of a value that may be something else too."""
    from click.shell_completion import CompletionItem  # only completion needs it

    return [CompletionItem(incomplete, type="file")]


def option(*names: str, **settings: Any) -> Callable[[F], F]:
    """A click option whose value may also come from ``FLARELOG_`` and its name in capitals."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "FLARELOG_" + long[2:].replace("-", "_").upper()
    return click.option(*names, envvar=variable, show_envvar=True, **settings)


def asks(**kinds: type) -> Callable[[F], F]:
    """Give a command the options that the dataclasses *kinds* declare, and for each dataclass, under its name, a
    ``partial`` of it with the values given.
    """

    def decorated(command: F) -> F:
        asked = [(name, each, how) for name, kind in kinds.items() for each, how in declared(kind)]

        @wraps(command)
        def called(*args: object, **given: object) -> object:
            said: dict[str, dict[str, object]] = {name: {} for name in kinds}
            for name, each, how in asked:
                value = given.pop(named(each, how))
                for other, meant in how.flags.items():
                    if given.pop(other.replace("-", "_")) and not is_flag(named(each, how)):
                        value = meant
                said[name][each.name] = value == "on" if _is_switch(each) else value
            made = {name: partial(kind, **said[name]) for name, kind in kinds.items()}
            return command(*args, **given, **made)

        for _, each, how in reversed(asked):
            for one in _click_options(each, how):
                called = one(called)
        setattr(called, _KINDS, (*asked_by(command), *kinds.values()))
        return called  # type: ignore[return-value]

    return decorated


def asked_by(command: object) -> tuple[type, ...]:
    """The dataclasses that declare options of the function *command*."""
    found: tuple[type, ...] = getattr(command, _KINDS, ())
    return found


def tried(kind: type, said: Mapping[str, object]) -> str:
    """Why *kind* refuses the values in *said*, by parameter names; empty if it accepts them."""
    given = {}
    for each, how in declared(kind):
        if (name := named(each, how)) in said:
            given[each.name] = said[name] == "on" if _is_switch(each) else said[name]
    others = {each.name: _SOME.get(each.name) for each in fields(kind) if each.init and _required(each)}
    try:
        kind(**others | given)
    except FlarelogError as error:
        return str(error)
    return ""


def _required(each: Field[object]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def named(each: Field[object], how: Option) -> str:
    """The parameter's name, as completion and messages use it."""
    return (how.flag or each.name).replace("-", "_")


def _is_switch(each: Field[object]) -> bool:
    return each.type == "bool" and each.default is True


def is_flag(name: str) -> bool:
    """Whether the command line itself gives the option *name*, rather than a variable or a file."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _click_options(each: Field[object], how: Option) -> Iterator[Callable[[F], F]]:
    kind, default = str(each.type).removesuffix(" | None"), each.default
    flag = f"--{how.flag or each.name.replace('_', '-')}"
    metavar = how.metavar or _METAVARS.get(how.unit or "")
    settings: dict[str, Any] = {"help": how.sentence, **({"metavar": metavar} if metavar else {})}
    if how.complete is not None:
        settings["shell_complete"] = how.complete
    choices = SWITCH if _is_switch(each) else how.choices
    if kind.startswith("tuple"):
        settings |= {"multiple": True}
    elif kind == "bool" and not choices:
        settings |= {"is_flag": True}
    else:
        shown = default not in (None, "", 0)
        settings |= {"default": "on" if default is True else default, "show_default": shown}
    if choices:
        settings["type"] = Spelled(choices, how.also) if how.also else click.Choice(choices)
    elif how.path:
        settings["type"] = _PATHS[how.path]
    elif kind == "int":
        settings["type"] = Whole(None if how.least is None else int(how.least), how.unit)
    elif kind == "float":
        settings["type"] = Finite(how.least, how.unit)
    if how.commas:
        settings["callback"] = split_at_commas
    made = option if how.variable else click.option
    yield made(*filter(None, (how.short, *how.more, flag)), named(each, how), **settings)
    for other in how.flags:
        yield made(f"--{other}", is_flag=True, hidden=True)


def split_at_commas(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """The values in *given*, with commas between: names have none, but a glob may have them in brackets. A text without
    a value stays an empty one, which the option refuses.
    """
    parts = ([one.strip() for one in re.split(r",(?![^\[\]]*\])", each)] for each in given)
    return tuple(one for each in parts for one in (list(filter(None, each)) or [""]))


class Switches(click.Command):
    """A command whose on/off options also accept their bare name for ``on``, and which takes ``-5`` for ``-n 5``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = _with_counts(self, args)
        ctx.meta[TYPED] = args
        names = {
            name
            for param in self.params
            if isinstance(param.type, click.Choice) and set(SWITCH) <= set(param.type.choices)
            for name in param.opts
        }
        said = [
            f"{arg}=on" if arg in names and then not in (*SWITCH, "auto") else arg
            for arg, then in zip(args, [*args[1:], ""], strict=False)
        ]
        return super().parse_args(ctx, said)


def _with_counts(command: click.Command, args: Sequence[str]) -> list[str]:
    """*args*, in which ``-n5`` replaces ``-5``, as for tail and head, unless it is the value of another option."""
    options = [param for param in command.params if isinstance(param, click.Option)]
    wanting = {name for param in options if not (param.is_flag or param.count) for name in param.opts}
    if "-n" not in wanting:
        return list(args)
    found, before = list[str](), ""
    for at, arg in enumerate(args):
        if arg == "--":
            return found + list(args[at:])
        valued = before in wanting or (before[:1] == "-" != before[1:2] and f"-{before[-1]}" in wanting)
        found.append(f"-n{arg[1:]}" if re.fullmatch(r"-\d+", arg) and not valued else arg)
        before = arg
    return found


# --- options that commands share


def output_option(help: str = "Form of the output. json, or --json: one object a line.") -> Callable[[F], F]:
    """Add ``-o``, and ``--json``, which is the same as ``-o json``; the command gets *as_json*."""

    def decorated(command: F) -> F:
        @wraps(command)
        def called(*args: object, output: str, as_json: bool, **given: object) -> object:
            return command(*args, as_json=output == "json" or (as_json and not is_flag("output")), **given)

        choice = click.option(
            "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help=help
        )
        return choice(option("--json", "as_json", is_flag=True, hidden=True)(called))  # type: ignore[return-value]

    return decorated


_ADDS = "site_policy"  # values of its variable are added to those of flags
_PRIVATE = "proxy"  # may hold a password, and every user can read the words of a command


def words(context: click.Context, without: Collection[str]) -> list[str]:
    """The options given to the command of *context*, by flags, variables and a file, as words that mean the same in any
    directory and environment; *without* the parameters of these names. A proxy is among them only if a flag gave it.
    """
    said: list[str] = []
    for param in context.command.params:
        if param.name in without or _weight(context, param.name or "") < (2 if param.name == _PRIVATE else 0):
            continue
        value = context.params.get(param.name or "", ())
        if param.name == _ADDS:
            value = (*value, *os.environ.get(str(param.envvar), "").split(os.pathsep))
        flag = max(param.opts, key=len)
        if isinstance(param, click.Option) and param.is_flag:
            said += [flag] if value else []
        elif isinstance(value, tuple):
            each = dict.fromkeys(_anywhere(param, str(one)) for one in value)
            said += [word for one in each if one for word in (flag, one)]
        else:
            said += [flag, _anywhere(param, str(value))]
    if path := context.meta.get("flarelog.passed"):
        said += ["--config", os.path.abspath(path)]
    return said


def _anywhere(param: click.Parameter, value: str) -> str:
    return os.path.abspath(value) if value and isinstance(param.type, click.Path) and _URL not in value else value


RECEIVER = "HOST:PORT of flarelog serve; A:1,B:1: receivers of one store."
"""The help of ``--receiver``."""
STORE = "Read from this store: a directory, nats://HOST:4222,.../NAME, or s3://BUCKET/PREFIX."
"""The help of ``--store``."""

_WEIGHTS = (ParameterSource.DEFAULT_MAP, ParameterSource.ENVIRONMENT, ParameterSource.COMMANDLINE)


def _weight(context: click.Context, name: str) -> int:
    """The precedence of the source that gave *name*: a file 0, a variable 1, the command line 2; -1: a default."""
    source = context.get_parameter_source(name)
    return _WEIGHTS.index(source) if source in _WEIGHTS else -1


def one_source(context: click.Context, store: str | None, receiver: str | None) -> tuple[str | None, str | None]:
    """The store or the receiver to read from; the other one is None. Raises UsageError."""
    if store is not None and receiver is not None:  # a flag outweighs a variable, and a variable a file
        weights = [_weight(context, name) for name in ("store", "receiver")]
        store, receiver = (
            (store if weights[0] >= weights[1] else None),
            (receiver if weights[1] >= weights[0] else None),
        )
    if (store is None) == (receiver is None):
        said = "no place was given" if store is None else f"two places were given{_by_whom(context)}"
        raise click.UsageError(f"{said}: give either --store DIR or --receiver HOST:PORT")
    return store, receiver


def _by_whom(context: click.Context) -> str:
    """The variables or lines of a file that gave ``--store`` and ``--receiver``; empty for the command line."""
    both = [param for param in context.command.params if param.name in ("store", "receiver")]
    match context.get_parameter_source("store"):
        case ParameterSource.ENVIRONMENT:
            return f", by {' and '.join(str(param.envvar) for param in both)}"
        case ParameterSource.DEFAULT_MAP:
            return f", by {' and '.join(context.meta['flarelog.told'](param) for param in both)}"
    return ""


@frozen
class Access:
    """The caller's credentials at a receiver, and the CA that it trusts."""

    named: partial[Tls]
    token_file: str | None = None
    proxy: str = ""
    words: tuple[str, ...] = ()  # the options that gave them, for a command that the user will paste

    def tls(self) -> Tls | None:
        """The TLS options given; None if there are none. Raises InvalidOption."""
        return self.named() if any(self.named.keywords.values()) else None

    def demand(self) -> None:
        """Read the files. Raises InvalidOption, NotAllowed."""
        if (tls := self.tls()) is not None:
            tls.check("client")
        self._token()

    def _token(self) -> str:
        if not self.token_file:
            return ""
        from flarelog.security.tokens import read_token

        return read_token(self.token_file)

    def client(self, receiver: str, token: str | None = None) -> Client:
        """A client of *receiver*; *token*: another user's, instead of this one's. Raises InvalidOption, NotAllowed."""
        with importing():
            from flarelog.client import Client

        tls = checked(self.tls)
        if tls is not None and token is not None:
            # The port that takes certificates ignores tokens: any token would read with this end's certificate.
            tls = replace(tls, cert="", key="")
        return Client(receiver, tls=tls, token=self._token() if token is None else token, proxy=self.proxy)


def tls_options(command: F) -> F:
    """Add the options of ``Tls``; the command gets them as *access*."""
    from flarelog.security.tls import Tls

    names = {named(each, how) for each, how in declared(Tls)} | {"token_file"}

    @wraps(command)
    def called(
        *args: object, tls: partial[Tls], token_file: str | None = None, proxy: str = "", **given: object
    ) -> object:
        words = tuple(_pasted(click.get_current_context(), names))
        return command(*args, access=Access(tls, token_file, proxy, words), **given)

    return asks(tls=Tls)(called)  # type: ignore[return-value]


def _pasted(context: click.Context, names: Collection[str]) -> Iterator[str]:
    """The options *names* that flags or a file gave: a variable also reaches the command that the user pastes."""
    for param in context.command.params:
        weight = _weight(context, param.name or "")
        # A proxy in a file may have a password, and the file serves the pasted command as well.
        if (param.name in names and weight in (0, 2)) or (param.name == _PRIVATE and weight == 2):
            yield from (max(param.opts, key=len), str(context.params[param.name]))


def client_options(command: F) -> F:
    """Add ``tls_options``, ``--token-file`` and ``--proxy``; *access* holds all of them."""
    text = "File with a token for the receiver's second port (serve --reader-listen)."
    return tls_options(option("--token-file", type=READ, help=text)(proxy_option(command)))


proxy_option = option("--proxy", default="", metavar="URL|off", help=PROXY)
"""Adds ``--proxy``, to be placed below ``tls_options``: *access* then holds it."""


job_name_option = option(
    "--job-name", default="", help="Name of the job, which flarelog runs shows, and by which people may call the run."
)


def timeout_option(command: F) -> F:
    """Add ``--timeout``, for a command that ends by itself."""
    return click.option(
        "--timeout",
        type=Finite(0.001, "seconds"),
        metavar="DURATION",
        expose_value=False,
        callback=end_within,
        help="End with exit code 7 if the command takes longer.",
    )(command)


def receiver_options(command: F) -> F:
    """Add ``--receiver``, ``client_options`` and ``--timeout``."""
    asked = client_options(timeout_option(command))
    return option("--receiver", required=True, help=RECEIVER)(asked)


class StorePlace(click.Path):
    """A directory, or the URL of a store that receivers share."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if _URL in str(value) else super().convert(value, param, ctx)


def store_option(said: str, *, required: bool = False) -> Callable[[F], F]:
    """Add ``--store``, a directory or a URL, and the options for the files of a URL, which become a part of it."""

    def decorated(command: F) -> F:
        @wraps(command)
        def called(*args: object, nats_creds: str | None, nats_ca: str | None, **given: Any) -> object:
            if (nats_creds or nats_ca) and given["store"] is not None:
                from flarelog.stores.choose import with_files  # few stores have a URL

                given["store"] = checked(lambda: with_files(str(given["store"]), nats_creds, nats_ca))
            return command(*args, **given)

        asked = option("--nats-creds", type=READ, help="Credentials file for a store at nats://.")(called)
        asked = option("--nats-ca", type=READ, help="PEM file with the CA of the servers of a store at tls://.")(asked)
        return option("--store", required=required, type=StorePlace(), metavar="DIR|URL", help=said)(asked)  # type: ignore[return-value]

    return decorated


@frozen
class Place:
    """The place to read from: a store, or a receiver."""

    store: str | None
    receiver: str
    access: Access

    def __str__(self) -> str:
        if self.store is not None and _URL in self.store:
            from flarelog.stores.choose import shown  # few stores have one

            return shown(self.store)
        return self.store or self.receiver

    @property
    def words(self) -> tuple[str, ...]:
        """The options that lead another command to this place."""
        return ("--store", self.store) if self.store is not None else ("--receiver", self.receiver, *self.access.words)

    def client(self) -> Client:
        return self.access.client(self.receiver)


def place_options(
    store: str = STORE,
    receiver: str = RECEIVER,
) -> Callable[[F], F]:
    """Add ``--store`` and ``--receiver``, of which the command gets the chosen one as *place*, ``client_options`` and
    ``--timeout``.
    """

    def decorated(command: F) -> F:
        @wraps(command)
        def called(*args: object, access: Access, **given: object) -> object:
            said = (None if given[name] is None else str(given[name]) for name in ("store", "receiver"))
            found, asked = one_source(click.get_current_context(), *said)
            rest = {name: value for name, value in given.items() if name not in ("store", "receiver")}
            return command(*args, place=Place(found, asked or "", access), **rest)

        asked = option("--receiver", help=receiver)(client_options(timeout_option(called)))
        return store_option(store)(asked)  # type: ignore[return-value]

    return decorated
