"""The page's code and styles are shorter, and say the same."""

from __future__ import annotations

import pytest

from flarelog.viewers.web.files import PAGE, STYLE, files
from flarelog.viewers.web.minify import minified

pytest.importorskip("minify", reason="no minifier is installed: pip install tdewolff-minify")

INNER = '`${one?`${two} of  three, `:" so far"} and  ${{a:`b  c`}.a} \\` d  e`'


def test_a_text_within_a_text_keeps_its_spaces() -> None:
    """The page once showed "1 site:1 live"."""
    assert minified(f"say( {INNER} );  // `\nsay( a );", "text/javascript") == f"say({INNER}),say(a)"


def test_a_style_keeps_the_spaces_that_mean_something() -> None:
    style = '/* why */\na > b,\nc :hover { color: red; width: calc(1px + 2px); }\nd::before { content: "x:  "; }\n'
    assert minified(style, "text/css") == 'a>b,c :hover{color:red;width:calc(1px + 2px)}d::before{content:"x:  "}'


def test_the_page_has_no_comment() -> None:
    assert b"/** " not in files()[PAGE].data
    assert b"/*" not in files()[STYLE].data
