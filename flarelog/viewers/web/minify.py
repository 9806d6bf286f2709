"""The page's code and styles, as short as they say the same. Pure."""

from __future__ import annotations

try:
    import minify
except ImportError:  # there is none for this machine: the page is longer, and the same
    minify = None


def minified(text: str, kind: str) -> str:
    """*text*, code or styles of the MIME type *kind*, without comments, needless spaces and long names of variables."""
    return text if minify is None else minify.string(kind, text)
