"""The page's code is shorter, and says the same."""

from __future__ import annotations

import pytest

from flarelog.viewers.web.files import PAGE, files
from flarelog.viewers.web.minify import minified, minified_style

INNER = '`${one ? `${two} of  three, ` : " so far"} and  ${{ a: `b  c` }.a} \\` d  e`'


@pytest.mark.parametrize(
    ("code", "short"),
    [
        pytest.param("const a = 1; // one\n\n/* two */  say(a);\n", "const a=1;say(a);", id="plain"),
        pytest.param(f"say( {INNER} );  // `\nsay( a );", f"say({INNER});say(a);", id="nested"),
        pytest.param("// as `h` does, or `\nsay(  `a  b` );", "say(`a  b`);", id="in-a-comment"),
        pytest.param("say( \"`\", '`' ); say(`c  d`);", "say(\"`\",'`');say(`c  d`);", id="in-a-string"),
        pytest.param("say( /[`/]`/g ); say(`c  d`);", "say(/[`/]`/g);say(`c  d`);", id="in-a-pattern"),
        pytest.param("say( 4 / 2 ); say( `c  d` ); say( 4 / 2 );", "say(4/2);say(`c  d`);say(4/2);", id="a-share"),
    ],
)
def test_code_is_short_and_its_texts_are_whole(code: str, short: str) -> None:
    assert minified(code).strip() == short


def test_the_page_has_no_text_that_lost_its_spaces() -> None:
    page = files()[PAGE].data.decode()
    assert '" so far"' in page
    assert "`last known: ${past(state)}`" in page


def test_a_style_keeps_its_texts_and_the_spaces_that_mean_something() -> None:
    style = '/* why */\na > b,\nc :hover { color: red; width: calc(1px + 2px); }\nd::before { content: "x: "; }\n'
    assert minified_style(style) == 'a > b,c :hover{color:red;width:calc(1px + 2px)}d::before{content: "x: "}'
