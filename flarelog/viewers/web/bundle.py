"""Bundles the page's modules into one file when the page's server starts: otherwise a browser would ask for twenty
files, six at a time. Pure.

A module stands after those that it imports, and all share one scope: no two of them have a name at their top in common.
The modules are the page's own, and each ``import`` or ``export`` stands on one line in a fixed form. A module that is
otherwise is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_IMPORT = re.compile(r'^import (?:\{ \w+(?:, \w+)* \} from )?"\./([a-z]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:const|class|function\*?) \w)", re.MULTILINE)
_NAME = re.compile(r"^(?:async )?(?:const|let|class|function\*?) (\w+)", re.MULTILINE)
_OTHER = re.compile(r"^(?:import|export)\b|\bimport\(|^await\b", re.MULTILINE)


def bundled(modules: Mapping[str, str], entry: str) -> str:
    """The module *entry* with all that it imports, of *modules* by their names without ``.js``. Raises ValueError for a
    module that is missing, imports itself, or has an import or export of another form.
    """
    done: dict[str, str] = {}
    begun: list[str] = []
    owners: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        if name in begun or name not in modules:
            raise ValueError(f"{' -> '.join([*begun, name])}: there is no such module, or it imports itself")
        begun.append(name)
        for other in _IMPORT.findall(modules[name]):
            add(other)
        done[name] = _plain(name, modules[name])
        for each in _NAME.findall(done[name]):
            if owners.setdefault(each, name) != name:
                raise ValueError(f"{name}.js: {each} is a name of {owners[each]}.js as well")
        begun.pop()

    add(entry)
    return "".join(done.values())


def _plain(name: str, text: str) -> str:
    body = _EXPORT.sub("", _IMPORT.sub("", text))
    if (other := _OTHER.search(body)) is not None:
        raise ValueError(f"{name}.js: {body[other.start() :].partition(chr(10))[0]}: this cannot be put into one file")
    return body
