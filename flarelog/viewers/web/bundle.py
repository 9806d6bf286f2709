"""Bundles the page's modules into one file when the page's server starts: otherwise a browser would ask for twenty
files, six at a time. Pure.

A module becomes a function that is called once, after the modules that it imports, and returns its exports. The modules
are the page's own, and each ``import`` or ``export`` stands on one line in a fixed form; a module with another form is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import (?:(\{ \w+(?:, \w+)* \}) from )?"\./([a-z]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|class|function\*?) (\w+))", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b|\bimport\(|^await\b", re.MULTILINE)


def bundled(modules: Mapping[str, str], entry: str) -> str:
    """The module *entry* with all that it imports, of *modules* by their names without ``.js``. Raises ValueError for a
    module that is missing, imports itself, or has an import or export of another form.
    """
    done: dict[str, str] = {}
    begun: list[str] = []

    def add(name: str) -> None:
        if name in done:
            return
        if name in begun or name not in modules:
            raise ValueError(f"{' -> '.join([*begun, name])}: there is no such module, or it imports itself")
        begun.append(name)
        for _, other in _IMPORT.findall(modules[name]):
            add(other)
        done[name] = _called(name, modules[name])
        begun.pop()

    add(entry)
    return "".join(done.values())


def _called(name: str, text: str) -> str:
    exported = _EXPORT.findall(text)
    body = _EXPORT.sub("", _IMPORT.sub(lambda found: f"const {found[1]} = ${found[2]};" if found[1] else "", text))
    if (other := _OTHER.search(body)) is not None:
        raise ValueError(f"{name}.js: {body[other.start() :].partition(chr(10))[0]}: this cannot be put into one file")
    return f"const ${name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();\n"
