"""A configuration file: TOML with a table for each command, which holds options by the names of their flags.

A flag outweighs a variable, a variable the file, the file the default. Keys and their types come from the options
themselves. An unknown key is an error that names the file, the line, the key and what is allowed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import click
from click.core import ParameterSource

from flarelog.cli.options import asked_by, tried
from flarelog.contents import text_of
from flarelog.errors import FlarelogError, InvalidFile, InvalidOption, NotAllowed
from flarelog.names import meant, parse_address, receiver_ends
from flarelog.text import legible, quoted
from flarelog.values import frozen

DIRECTORY = "/etc/flarelog"
MAX_FILE = 1 << 20  # bytes
SECRETS = ("tls-key", "token-file")  # options for files that no other user may read
_CONFIG = "config"

Talk = Callable[[str], None]
"""Sets the log level of stderr."""


@frozen
class Fault:
    """An error in a file; *line* 0: unknown."""

    line: int
    sentence: str
    value: bool = False  # the value is wrong, not the key

    def told(self, path: str) -> str:
        return f"{legible(path)}{f', line {self.line}' if self.line else ''}: {self.sentence}"


@frozen
class Document:
    """A file, parsed."""

    path: str
    text: str
    tables: Mapping[str, Any]

    def line(self, table: Iterable[str], key: str) -> int:
        """The line of *key* in *table*, from 1 on; 0 if unknown."""
        wanted, inside = list(table), []
        for number, line in enumerate(self.text.splitlines(), 1):
            if head := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
                inside = [part.strip().strip("\"'") for part in head[1].split(".")]
                if [*wanted, key] == inside:
                    return number
            elif (found := re.match(r"\s*([\w.\"'-]+)\s*=", line)) is not None:
                names = [part.strip("\"'") for part in found[1].split(".")]
                if [*wanted, key] == [*inside, *names]:
                    return number
        return 0


def read(path: str) -> Document:
    """Parse the file at *path*. Raises InvalidFile, NotAllowed."""
    import tomllib  # most calls have no file

    status, said = text_of(path, MAX_FILE, f"the configuration {path}")
    try:
        tables = tomllib.loads(said)
    except ValueError as error:
        if (twice := _twice(str(error), said)) is not None:
            raise InvalidFile(twice.told(path)) from error
        raise InvalidFile(f"the configuration {path} cannot be read: {error}") from error
    if stat.S_ISREG(status.st_mode) and status.st_mode & 0o002:
        raise NotAllowed(f"the configuration {path} is writable for every user: chmod o-w it")
    return Document(path, said, tables)


def _twice(said: str, text: str) -> Fault | None:
    """The key or table of *text* that is given twice, as tomllib *said*; None where it said something else."""
    if not re.match(r"Cannot (overwrite|declare|mutate|redefine)|Duplicate", said):
        return None
    lines = text.split("\n")  # as tomllib counts them
    number = int(found[1]) if (found := re.search(r"\(at line (\d+), ", said)) else len(lines)
    line = lines[number - 1]
    if head := re.match(r"\s*(\[.+\])", line):
        return Fault(number, f"the table {legible(head[1])} is given twice")
    key = re.search(r"key '(.+)'", said) or re.match(r"\s*([\w.\"'-]+)\s*=", line)
    return Fault(number, f"the key {legible(key[1])} is given twice" if key else "a key is given twice")


# --- the options of a table


def options(command: click.Command) -> dict[str, click.Option]:
    """The options of *command* that a file may set, by the names of their flags."""
    return {
        flag[2:]: param
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden and param.name not in (_CONFIG, "help", "version")
        for flag in param.opts
        if flag.startswith("--")
    }


def values(document: Document, context: click.Context, names: tuple[str, ...]) -> tuple[dict[str, Any], list[Fault]]:
    """The options that the table of *names* sets for the command of *context*, by parameter; and the table's faults."""
    table: Any = document.tables
    for depth, name in enumerate(names):
        table = table.get(name, {})
        if not isinstance(table, dict):
            sentence = f"{name} is not a table: write [{'.'.join(names[: depth + 1])}] on a line of its own"
            return {}, [Fault(document.line(names[:depth], name), sentence)]
    known, found, faults = options(context.command), dict[str, Any](), list[Fault]()
    for key, value in table.items():
        at = document.line(names, key)
        param = known.get(key)
        if param is None:
            where = " ".join(("flarelog", *names))
            faults.append(Fault(at, f"{where} has no option {quoted(key)}{meant(key, known)}"))
            continue
        try:
            found[param.name or key] = _converted(value, param, context)
        except click.BadParameter as error:
            faults.append(Fault(at, f"{key}: {error.message.rstrip('.')}", value=True))
    return found, faults


def _converted(value: object, param: click.Option, context: click.Context) -> object:
    """*value* as a default of *param*. Raises BadParameter."""
    if param.multiple:
        if value == [] and param.required:
            raise click.BadParameter("it is empty: give one value at least")
        return tuple(_one(each, param, context) for each in (value if isinstance(value, list) else [value]))
    return _one(value, param, context)


def _one(value: object, param: click.Option, context: click.Context) -> object:
    choices = tuple(map(str, param.type.choices)) if isinstance(param.type, click.Choice) else ()
    kind = f"one of {', '.join(map(repr, choices))}" if choices else f"of type {param.type.name}"
    if param.is_flag:
        if not isinstance(value, bool):
            raise click.BadParameter(f"{value!r} is neither true nor false")
        return value
    if isinstance(value, bool):
        if "on" not in choices:
            raise click.BadParameter(f"{str(value).lower()} is not {kind}")
        value = "on" if value else "off"
    if not isinstance(value, str | int | float):
        raise click.BadParameter(f"{value!r} is not {kind}: give one value")
    if isinstance(param.type, click.Path) and not isinstance(value, str):
        raise click.BadParameter(f"{value} is a number, not a path: write the path in quotes")
    param.type.convert(str(value), param, context)
    try:
        _demand(str(value), param)
    except FlarelogError as error:
        raise click.BadParameter(str(error)) from error
    return str(value)


def _demand(value: str, param: click.Option) -> None:
    """Raises FlarelogError if the command would refuse *value*."""
    if param.metavar == "TIME":
        from flarelog.lines.choose import moment

        moment(value, time.time_ns())
    elif param.metavar == "GLOB":
        from flarelog import globs

        globs.check([value])
    elif "--receiver" in param.opts:
        receiver_ends(value)
    elif "--proxy" in param.opts:
        from flarelog.proxies import route

        route("localhost:1", value)
    elif {"--listen", "--web"} & set(param.opts) or (value and "--reader-listen" in param.opts):
        parse_address(value)


# --- a command's file


def configured(command: click.Command, talk: Talk) -> click.Command:
    """Add ``--config`` to *command*, or to the commands of a group; returns it."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            configured(each, talk)
    elif all(param.name != _CONFIG for param in command.params):
        made = click.Option(
            ("--config",),
            envvar="FLARELOG_CONFIG",
            show_envvar=True,
            is_eager=True,
            expose_value=False,
            callback=lambda context, _, path: _load(context, path, talk),
            metavar="FILE",
            help=f"TOML file with a table for each command.  [default: {DIRECTORY}/COMMAND.toml if it is there]",
        )
        command.params.append(made)
    return command


def chosen(path: str | None, command: str) -> str | None:
    """The configuration file for *command*: *path*, or else its own below DIRECTORY if that exists; None otherwise."""
    own = os.path.join(DIRECTORY, f"{command}.toml")
    return path or (own if os.path.exists(own) else None)


def _load(context: click.Context, said: str | None, talk: Talk) -> None:
    names = tuple(_names(context))
    if context.resilient_parsing or (path := chosen(said, names[0])) is None:
        return
    root = context.find_root()
    try:
        document = read(path)
        top, faults = _top(document, root)
        found, own = values(document, context, names)
        if wrong := [*faults, *own]:
            count = len(check(path, root)[1])
            more = f" ({count} faults: flarelog config check {path} names them)" if count > 1 else ""
            raise (InvalidOption if wrong[0].value else InvalidFile)(wrong[0].told(path) + more)
    except FlarelogError as error:
        click.echo(f"flarelog: {error}", err=True)
        context.exit(error.exit_code)
    context.default_map = found
    context.meta["flarelog.config"], context.meta["flarelog.told"] = path, partial(_told, document, names)
    # A file for this command alone is not passed on: a command that it starts has a file of its own.
    tables = (name for name, value in document.tables.items() if isinstance(value, dict))
    context.meta["flarelog.passed"] = path if said or any(name != names[0] for name in tables) else None
    if "log_level" in top and root.get_parameter_source("log_level") is ParameterSource.DEFAULT:
        talk(top["log_level"])


def _told(document: Document, names: tuple[str, ...], param: click.Parameter) -> str:
    """The line of the file that sets *param* in the table of *names*."""
    key = max(param.opts, key=len)[2:]
    line = document.line(names, key)
    return f"{legible(document.path)}{f', line {line}' if line else ''}"


def demand(context: click.Context) -> None:
    """Raises InvalidOption for an invalid value in the file of *context*, even if something else outweighs it."""
    if (path := context.meta.get("flarelog.config")) is not None:
        document, names = read(path), tuple(_names(context))
        for fault in _refused(document, names, context, values(document, context, names)[0]):
            raise InvalidOption(fault.told(path))


def _names(context: click.Context) -> Iterator[str]:
    if context.parent is not None:
        yield from _names(context.parent)
        yield context.info_name or ""


def _top(document: Document, root: click.Context) -> tuple[dict[str, Any], list[Fault]]:
    """The options before the tables; and the faults in them and in the tables' names."""
    group = root.command
    commands = group.list_commands(root) if isinstance(group, click.Group) else []
    single = {
        key: value for key, value in document.tables.items() if not isinstance(value, dict) and key not in commands
    }
    found, faults = values(Document(document.path, document.text, single), root, ())
    return found, faults + [
        Fault(document.line((), name), f"flarelog has no command {quoted(name)}{meant(name, commands)}")
        for name in document.tables
        if name not in single and name not in commands
    ]


# --- a check of the whole file


def check(path: str, root: click.Context) -> tuple[int, list[Fault]]:
    """How many options the file at *path* sets, and its faults. Raises InvalidFile, NotAllowed."""
    document = read(path)
    top, faults = _top(document, root)
    count = len(top)
    group = root.command
    for name, table in document.tables.items():
        command = group.get_command(root, name) if isinstance(group, click.Group) else None
        if command is None:
            continue
        inside = click.Context(command, parent=root, info_name=name)
        if not isinstance(table, dict):
            faults += values(document, inside, (name,))[1]
        else:
            for names, context in _leaves(document, inside, (name,), table, faults):
                found, wrong = values(document, context, names)
                count += len(found)
                faults += [*wrong, *_refused(document, names, context, found), *_exposed(document, names, found)]
                faults += _unusable(document, names, found)
    return count, sorted(faults, key=lambda fault: fault.line)


def _leaves(
    document: Document, context: click.Context, names: tuple[str, ...], table: Mapping[str, Any], faults: list[Fault]
) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    """The commands that have tables in *table*, which is that of *names*; unknown names are added to *faults*."""
    group = context.command
    if not isinstance(group, click.Group):
        yield names, context
        return
    for name, inner in table.items():
        command = group.get_command(context, name)
        if command is None or not isinstance(inner, dict):
            sentence = f"flarelog {' '.join(names)} has no command {quoted(name)}{meant(name, group.commands)}"
            faults.append(Fault(document.line(names, name), sentence))
        else:
            inside = click.Context(command, parent=context, info_name=name)
            yield from _leaves(document, inside, (*names, name), inner, faults)


def _refused(
    document: Document, names: tuple[str, ...], context: click.Context, found: Mapping[str, Any]
) -> Iterator[Fault]:
    """A fault for each value of a table that has the right type, but that the command would refuse."""
    params = {param.name: (key, param) for key, param in options(context.command).items()}
    said = {name: params[name][1].type_cast_value(context, value) for name, value in found.items()}
    literal = bool(said.get("fixed_strings"))
    for name, value in said.items():
        key, param = params[name]
        check_one = None if literal and param.metavar == "REGEX" else _own_check(param, names)
        for one in value if isinstance(value, tuple) else (value,):
            try:
                if check_one is not None and one is not None:
                    check_one(one)
            except FlarelogError as error:
                yield Fault(document.line(names, key), f"{key}: {error}", value=True)
    for kind in asked_by(context.command.callback):
        if tried(kind, {}):  # a flag or a variable may give the required fields
            continue
        whole = tried(kind, said)
        alone = [(name, why) for name in said if (why := tried(kind, {name: said[name]}))]
        for name, why in alone:
            key = params[name][0]
            yield Fault(document.line(names, key), why.replace(name, key), value=True)
        if whole and not alone:  # values that exclude each other
            yield Fault(document.line(names[:-1], names[-1]), whole, value=True)
    yield from _apart(document, names, context, said)


def _apart(
    document: Document, names: tuple[str, ...], context: click.Context, said: Mapping[str, object]
) -> Iterator[Fault]:
    """A fault for options of several kinds that exclude each other in a call of the command."""
    from flarelog.cli.lines import LineOptions, demand_apart

    if {"store", "receiver"} <= said.keys() and names != ("doctor",):  # doctor checks both
        line = max(document.line(names, key) for key in ("store", "receiver"))
        yield Fault(line, "two places are given, store and receiver: give one of them", value=True)
    if LineOptions in asked_by(context.command.callback):
        try:
            demand_apart(said)
        except click.UsageError as error:
            yield Fault(document.line(names[:-1], names[-1]), error.message, value=True)


def _name_check(param: click.Option, names: tuple[str, ...]) -> Callable[[str], object] | None:
    """The check of the command *names* for a name that *param* gives; None if *param* gives no name, or several."""
    from flarelog.names import run_name, site_name  # not needed to read a file alone
    from flarelog.sources.process.names import filled, spooled_log

    kinds: dict[str, Callable[[str], str]] = {"--run": run_name, "--site": site_name, "--log": spooled_log}
    kind = next((kinds[flag] for flag in param.opts if flag in kinds), None)
    if kind is None or param.multiple:
        return None
    if names == ("run",):  # environment variables are filled in
        return lambda text: kind(filled(text, {}).strip("/")) if text or kind is not spooled_log else None
    return lambda text: kind(text) if text or param.required else None


def _own_check(param: click.Option, names: tuple[str, ...]) -> Callable[[Any], object] | None:
    """The check that the command *names* makes of one value of *param*; it raises FlarelogError. None: no check."""
    from flarelog.cli import lines  # not needed to read a file alone
    from flarelog.cli.asked import positions
    from flarelog.cli.beside import check as check_web
    from flarelog.cli.findings import table
    from flarelog.cli.ready import check as check_ready
    from flarelog.cli.view import codec, siteless
    from flarelog.lines.choose import patterns
    from flarelog.lines.ranks import RankChoice
    from flarelog.poc.options import demand_fault
    from flarelog.policy import run_patterns
    from flarelog.quantities import seconds
    from flarelog.receiver.workers import place
    from flarelog.security.access import PolicyFile
    from flarelog.security.pairs import check_days
    from flarelog.sources.consent import in_force
    from flarelog.sources.files.patterns import SourceOptions
    from flarelog.sources.files.runs import RunPattern
    from flarelog.viewers.console import Template

    checks: dict[str, Callable[[Any], object]] = {
        "--tz": lines.zone,
        "--days": check_days,
        "--encoding": codec,
        "--expires": seconds,
        "--from": positions,
        "--format": Template,
        "--ranks": lambda text: RankChoice.of((), text, ()),
        "--rank-map": lambda text: RankChoice.of((), "", (text,)),
        "--run-from": RunPattern,
        "--runs": lambda text: run_patterns([text], "the token's runs"),
        "--rules": lambda path: table([path]),
        "--site-policy": in_force,
        "--policy": partial(_file, PolicyFile),
        "--ready-file": partial(_file, check_ready),
        "--fault": demand_fault,
        "--workers": place.check,
        "--web": check_web,
    }
    if names == ("run",) and "--redact" in param.opts:  # a sidecar's own options check theirs
        return lambda text: SourceOptions(".", redact=(text,))
    if param.metavar == "REGEX":
        return lambda text: patterns([text])
    if "--zone" in param.opts and param.multiple:  # per site; a sidecar's own options check its zone
        return lambda text: lines.zones([siteless(text) if names == ("view",) else text])
    if (named := _name_check(param, names)) is not None:
        return named
    return (
        None
        if isinstance(param.type, click.Choice)
        else next((checks[flag] for flag in param.opts if flag in checks), None)
    )


def _file(look: Callable[[str], object], path: str) -> None:
    """Let *look* check the file at *path*. Raises InvalidOption if *path* is empty, and what *look* raises."""
    if not path:
        raise InvalidOption("it is empty: name a file")
    look(path)


def _unusable(document: Document, names: tuple[str, ...], found: Mapping[str, Any]) -> Iterator[Fault]:
    """A fault for each certificate of a table that the command could not use."""
    said = {name: str(found[f"tls_{name}"]) for name in ("ca", "cert", "key", "crl") if found.get(f"tls_{name}")}
    if found.get("tls_crl") == "":  # the others count as if they were not given
        said["crl"] = ""
    if not said:
        return
    from flarelog.security.tls import Tls, readable  # tables without certificates skip this import

    unread = False
    for name, path in said.items():
        try:
            readable(path)
        except FlarelogError as error:
            unread = True
            if f"tls-{name}" not in SECRETS:  # _exposed reports those
                yield Fault(document.line(names, f"tls-{name}"), f"tls-{name}: {error}", value=True)
    said.pop("crl", None)
    end: Literal["server", "client"] = "server" if names == ("serve",) else "client"
    if unread or not {"ca", "cert", "key"} <= said.keys():  # a flag may give the rest
        return
    try:
        Tls(**said).check(end)
    except FlarelogError as error:
        yield Fault(document.line(names, "tls-cert"), f"tls-cert: {error}", value=True)


def _is_exposed(status: os.stat_result) -> bool:
    """Whether other users may read the file: the group of a file of root's may."""
    return bool(stat.S_IMODE(status.st_mode) & (0o077 if status.st_uid else 0o037))


def _exposed(document: Document, names: tuple[str, ...], found: Mapping[str, Any]) -> Iterator[Fault]:
    """A fault for each secret of a table that other users may read."""
    from flarelog.proxies import has_password
    from flarelog.security.tokens import is_secret  # tables without secrets skip this import

    if has_password(found.get("proxy")) and _is_exposed(os.stat(document.path)):
        sentence = f"proxy: its password is readable for others in {legible(document.path)}: chmod 600 the file"
        yield Fault(document.line(names, "proxy"), sentence, value=True)
    for key in SECRETS:
        path = found.get(key.replace("-", "_"))
        if not path:  # as if it were not given
            continue
        line = document.line(names, key)
        if is_secret(path):
            sentence = f"{key}: it is a token, and no file: write it into a file of mode 600, and name that"
            yield Fault(line, sentence, value=True)
            continue
        try:
            status = os.stat(path)
        except (OSError, ValueError) as error:
            yield Fault(line, f"{key}: {legible(path)} cannot be read: {getattr(error, 'strerror', error)}", value=True)
            continue
        if _is_exposed(status):
            yield Fault(line, f"{key}: {legible(path)} is readable for others: chmod 600 it", value=True)
