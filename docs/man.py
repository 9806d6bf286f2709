"""Write docs/flarelog.1, the manual page, from the commands' help: python -m docs.man, or make man."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click

from flarelog.cli import main

PAGE = Path(__file__).parent / "flarelog.1"
EXIT_CODES = (
    ("0", "success"),
    ("1", "failure"),
    ("2", "wrong usage, such as a bad option"),
    ("3", "not found"),
    ("4", "cannot connect"),
    ("5", "not allowed, or replaced by a newer sidecar, or the run was removed"),
    ("6", "complete except for gaps"),
    ("7", "timeout"),
    ("78", "wrong configuration: a file that an option names cannot be used"),
)


def escaped(text: str) -> str:
    """Escape *text* for roff, so that no character is a request."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def commands(group: click.Group, *before: str) -> Iterator[tuple[str, click.Context]]:
    """Each command by its full name, a group before its commands."""
    parent = click.Context(group, info_name=" ".join(before))
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        if command is None:
            continue
        context = click.Context(command, info_name=" ".join((*before, name)), terminal_width=100)
        yield " ".join((*before, name)), context
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)


def paragraphs(text: str) -> Iterator[str]:
    """The help *text* in roff: filled paragraphs, and, after the mark \\b, verbatim lines."""
    for part in re.split(r"\n\s*\n", text.strip()):
        lines = part.strip("\n").splitlines()
        if lines and lines[0].strip() == "\b":
            body = lines[1:]
            indent = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
            yield "\n".join((".PP", ".nf", *(escaped(line[indent:]) for line in body), ".fi"))
        else:
            yield f".PP\n{escaped(' '.join(line.strip() for line in lines))}"


def options(context: click.Context) -> Iterator[str]:
    for param in context.command.params:
        record = param.get_help_record(context)
        if record is not None:
            yield f".TP\n.B {escaped(record[0])}\n{escaped(record[1])}"


def page() -> str:
    found = [
        '.\\" Made from the help of the commands by docs/man.py: change that.',
        '.TH FLARELOG 1 "" flarelog "User Commands"',
        ".SH NAME",
        "flarelog \\- every site's log of a federated run in one place",
        ".SH SYNOPSIS",
        ".B flarelog",
        escaped("[--log-level LEVEL] COMMAND [OPTIONS] [ARGUMENTS]"),
        ".SH DESCRIPTION",
        *paragraphs(main.help or ""),
        ".SH OPTIONS",
        *options(click.Context(main, info_name="flarelog", terminal_width=100)),
        ".SH COMMANDS",
    ]
    for name, context in commands(main, "flarelog"):
        usage = " ".join(context.command.collect_usage_pieces(context))
        found += [f".SS {escaped(name)} {escaped(usage)}".rstrip(), *paragraphs(context.command.help or "")]
        if not isinstance(context.command, click.Group):
            found += options(context)
    found += [".SH EXIT STATUS", *(f".TP\n.B {code}\n{escaped(meaning)}" for code, meaning in EXIT_CODES)]
    found += [
        ".SH FILES",
        ".TP\n.I /etc/flarelog/COMMAND.toml",
        escaped("Options of a command; flarelog config describes the form."),
        ".SH ENVIRONMENT",
        escaped("Most options can come from a variable: FLARELOG_ and the option's name in capitals, with _ for -."),
    ]
    return "\n".join(found) + "\n"


def write() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    os.environ.pop("COLUMNS", None)
    write()
