"""The page's modules as one file: each once, after those that it imports; a module that does not fit is refused."""

from __future__ import annotations

import gzip

import pytest

from flarelog.viewers.web.bundle import bundled
from flarelog.viewers.web.files import PAGE, STYLE, files, heading, written
from tests.rows import together

MODULES = {
    "app": 'import { twice } from "./sums.js";\nimport "./said.js";\n\nsay(twice(2));\n',
    "sums": 'import { two } from "./said.js";\n\nexport function twice(of) {\n  return two * of;\n}\n',
    "said": "export const two = 2;\nexport async function* none() {}\nexport class Of {}\n",
    "other": "nobody();\n",
}


def test_a_module_stands_behind_those_that_it_imports_in_one_scope() -> None:
    text = bundled(MODULES, "app")
    assert [line for line in text.splitlines() if line] == [
        "const two = 2;",
        "async function* none() {}",
        "class Of {}",
        "function twice(of) {",
        "  return two * of;",
        "}",
        "say(twice(2));",
    ]


@together(
    "line",
    [
        pytest.param('import said from "./said.js";', id="a-default"),
        pytest.param('import { a as b } from "./said.js";', id="another-name"),
        pytest.param('import * as all from "./said.js";', id="all-names"),
        pytest.param('import { a } from "https://elsewhere/said.js";', id="another-place"),
        pytest.param('const found = await import("./said.js");', id="later"),
        pytest.param("export default 2;", id="a-default-export"),
        pytest.param("export { two };", id="an-export-of-names"),
        pytest.param("export let two = 2;", id="an-export-that-changes"),
        pytest.param("await begin();", id="a-wait"),
        pytest.param('import { b } from "./b.js";', id="missing"),
        pytest.param('import { a } from "./app.js";', id="itself"),
        pytest.param('import { two } from "./said.js";\nconst two = 3;', id="a-name-of-another-module"),
    ],
)
def test_what_cannot_be_put_into_one_file_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="app"):
        bundled({**MODULES, "app": f"{line}\n"}, "app")


def test_what_a_browser_loads_is_of_the_modules_there_and_60_kilobytes_at_most() -> None:
    for name, text in written().items():
        assert files()[name].data.startswith(heading(text)), "the page has changed: make page"
    loaded = [files()[name].data for name in ("index.html", "icon.svg", "matcher.js", PAGE, STYLE)]
    assert sum(len(gzip.compress(data)) for data in loaded) <= 60_000
