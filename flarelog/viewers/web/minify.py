"""The page's code and styles without comments and indentation. Pure.

rjsmin ends a template where another one within it begins, and then takes spaces from its text, as from ` logs` in
`${many ? `${many} logs` : ""}`. So each template with another one inside is kept from it.
"""

from __future__ import annotations

import re

from rjsmin import jsmin

_TOKEN = re.compile(
    r"""//[^\n]*|/\*[\s\S]*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[`{}]"""
    r"""|(?:(?<=[(,=:\[!&|?{};])|(?<=[(,=:\[!&|?{};] )|(?<=return ))/(?![/*])"""  # where a pattern may begin
    r"""(?:\\.|\[(?:\\.|[^]\\\n])*\]|[^/\\\n\[])+/"""
)
_IN_TEMPLATE = re.compile(r"\\[\s\S]|\$\{|`")
_KEPT = re.compile("`\x00(\\d+)`")


def minified(code: str) -> str:
    """*code*, a module or several, as short as it may be with all its texts."""
    kept: list[str] = []
    parts: list[str] = []
    at = 0
    while (found := _TOKEN.search(code, at)) is not None:
        end = _template(code, found.end()) if found[0] == "`" else found.end()
        text = code[found.start() : end]
        parts.append(code[at : found.start()])
        if found[0] == "`" and "`" in text[1:-1]:
            parts.append(f"`\x00{len(kept)}`")
            kept.append(text)
        else:
            parts.append(text)
        at = end
    return _KEPT.sub(lambda one: kept[int(one[1])], jsmin("".join((*parts, code[at:]))))


def minified_style(style: str) -> str:
    """*style*, a sheet without two spaces in a text, without comments and needless spaces."""
    text = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL))
    return re.sub(r": (?=[^\"])", ":", re.sub(r" ?([{};,]) ?", r"\1", text)).replace(";}", "}").strip()


def _template(code: str, at: int) -> int:
    """The end of the template whose text begins at *at*."""
    while (found := _IN_TEMPLATE.search(code, at)) is not None:
        if found[0] == "`":
            return found.end()
        at = _expression(code, found.end()) if found[0] == "${" else found.end()
    return len(code)


def _expression(code: str, at: int) -> int:
    """The end of the expression of a template that begins at *at*, behind its brace."""
    depth = 1
    while depth and (found := _TOKEN.search(code, at)) is not None:
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        at = _template(code, found.end()) if found[0] == "`" else found.end()
    return at
