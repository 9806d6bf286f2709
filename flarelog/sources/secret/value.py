"""From a name to its value: what says that a value comes, what it is wrapped in, and where it ends.

One function reads the values of all names. It masks to the very end, in doubt further. A new way in which programs
print a name and a value belongs here.
"""

from __future__ import annotations

import re

from flarelog.sources.secret.view import TO_END, WORD, Span, end_of, ending, line_before

_BLANK = rb"[ \t]"
_QUOTES = rb"[\"'`]"
_CLOSE = rb"(?:[ \t]{0,6}\\{0,15}[\"'`]|[\])}]){0,3}"  # behind a name, before what says that a value comes
_COMES = (
    rb"(?>(?i:"
    + _CLOSE
    + rb"(?:[ \t]{0,16}(?:=>|->|:=|={1,3}|:{1,2}(?!//)|%3[dD])[ \t]{0,16}"
    + rb"|(?<=[\"'`])[ \t]{0,4},[ \t]{0,4}(?:[\"']?value[\"']?[ \t]{0,4}[:=][ \t]{0,4})?(?=b?\\{0,15}[\"'`])"
    + rb"|(?<=[\"'`])[ \t]{1,4}value[ \t]{0,4}=[ \t]{0,4}(?=[\"'`])"
    + rb"|[ \t]{1,16}(?:\||\xe2\x94\x82)[ \t]{1,16}|(?<=[A-Za-z])>(?=[^\s<>]))))"
)
_ASSIGN = re.compile(_COMES)
_SAID = re.compile(
    rb"[ \t]{1,4}(?:(?:is|was|to|set to|changed to)[ \t]{0,4}:?[ \t]{1,4})?(?=[\"'`][^\"'`\r\n]{1,256}[\"'`])"
)
_FLAGGED = rb"(?>[ \t]{1,8})(?![-|<>&\s])"
_FLAG = re.compile(_FLAGGED)

# What may stand around a value: a type, a tag, how long it is, what it is wrapped in.
_WRAPPED = re.compile(
    rb"(?:(?:str|string|bytes|any|secretstr|secretbytes|optional\[\w{1,16}\]|&str)(?:[ \t]*\|[ \t]*none)?"
    rb"[ \t]{1,4}=[ \t]{0,4})?"
    rb"(?:!{1,2}\w{1,16}[ \t]{1,4})?"
    rb"(?:\(\w{1,16}\)[ \t]{0,4}(?:\(len=\d{1,9}\)[ \t]{0,4})?(?=[\"'`]))?"
    rb"(?:string\(\d{1,9}\)[ \t]{0,4})?"
    rb"(?:(?:[a-z_][\w.:]{0,40}\([ \t]{0,4}){1,3}(?=[bruf]{0,2}\\{0,15}[\"'`]))?"
    rb"(?:[bruf]{1,2}(?=\\{0,15}[\"']))?",
    re.IGNORECASE,
)
_QUOTE = re.compile(rb"(\\{0,15})(\"{3}|'{3}|[\"'`])")
_TO_QUOTE = {quote: re.compile(rb"(\\*+)%b|[\r\n]" % quote) for quote in (b'"', b"'", b"`", b'"""', b"'''")}

_ENDS = rb"(?=[\s\"'`,;:)\]}>&|\\]|\Z)"  # behind a quote: it closed something
_BARE = re.compile(
    rb"(?:[^\s\"'`<\\&]|\\(?!\\*+[\"'`]" + _ENDS + rb")[^\r\n]|[\"'`](?![\s\"'`,;:)\]}>&|\\]|\Z)|<(?!/)|&)*+"
)
_IN_A_QUERY = re.compile(rb"[^\s\"'`<>\\&]*+")
_ANOTHER = re.compile(  # word of a value of several: none that begins something else
    rb"[ \t]{1,4}(?![\\\"'`]{0,4}[\w.-]{1,48}[\\\"'`\])]{0,4}[ \t]?[=:]|-|[|<>({\[#&/]|\xe2\x94\x82|[\"'`,;)\]}\s]|\Z)"
)
_BRACKETS = {
    opening: re.compile(rb"[^\r\n\%b]*+\%b?" % (end, end))
    for opening, end in ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))
}
_NOTHING = re.compile(
    rb"(?:true|false|none|null|nil|undefined|empty|missing|unset|not|invalid|expired|required|optional|ok|found|loaded|[*x.-]+)"
    rb"(?=[\s\"'`,;)}\]\\&<>]|\Z)",
)
_A_NUMBER = rb"[+-]?[\d.,:%]++(?:e[+-]?\d++)?(?:/[\d.,:%]*+)?(?=[\s\"'`,;&)}\]|<\\]|\Z)"
_NUMBER = re.compile(_A_NUMBER)
COMES_TEXT = rb"(?:" + _COMES + rb"|(?P<flag>" + _FLAGGED + rb"))(?![\"'`]?" + _A_NUMBER + rb")"  # and no number
PATH = re.compile(rb"(?:~\w{0,24}|\.{1,2}|[A-Za-z]:)?[/\\](?:[a-z0-9_.-]{1,24}|[A-Z][a-z]{2,15}|)(?=[/\\\s\"'`,;)]|\Z)")
_LETTERS_ONLY = 16  # characters that a value without a digit has at least to be taken for a random one
CHARACTERS = re.compile(rb"[\w.~+/=:%-]*+")


def value_at(view: bytes, low: bytes, at: int, words: bool = False, query: bool = False) -> Span | None:
    """Where the value is that begins about *at*. With *words* a value without quotes may have several."""
    at = end_of(_WRAPPED, view, at)
    quote = _QUOTE.match(view, at)
    if quote is not None:
        begin, slashes, end = quote.end(), len(quote[1]), -1
        for found in _TO_QUOTE[quote[2]].finditer(view, begin):
            if found[1] is None:
                end = found.start()
                break
            if len(found[1]) % (2 * slashes + 2) == slashes:
                end = found.end() - len(quote[2]) - slashes
                break
        end = len(view) if end < 0 else end
        return (begin, end) if begin < end and not _says_nothing(low, begin) else None
    if _says_nothing(low, at):
        return None
    if query:
        end = end_of(_IN_A_QUERY, view, at)
        return (at, end) if at < end else None
    close = _BRACKETS.get(view[at : at + 1])
    if close is not None:
        return at, end_of(_BARE, view, end_of(close, view, at))
    if view[at : at + 1] in (b",", b";", b"&", b"\\", b"<"):
        return None
    end = end_of(_BARE, view, at)
    while words and view[end - 1 : end] not in (b",", b";", b")", b"]", b"}", b"|"):
        more = _ANOTHER.match(view, end)
        if more is None:
            break
        end = max(more.end() + 1, end_of(_BARE, view, more.end()))
    return (at, end) if at < end else None


def _says_nothing(low: bytes, at: int) -> bool:
    return _NOTHING.match(low, at) is not None


def bare(view: bytes, at: int) -> int:
    """Where a value begins, behind its quotes and what it is wrapped in."""
    at = end_of(_WRAPPED, view, at)
    quote = _QUOTE.match(view, at)
    return at if quote is None else quote.end()


def is_number(low: bytes, at: int) -> bool:
    return _NUMBER.match(low, at) is not None


def is_random(view: bytes, at: int, least: int) -> bool:
    """Whether what begins at *at* looks as if a machine had made it: it has a digit, or is long and of both cases."""
    piece = view[at : at + 256]
    piece = piece[: end_of(CHARACTERS, piece, 0)]
    if len(piece) < least:
        return False
    if any(digit in piece for digit in b"0123456789"):
        return True
    inner = piece[1:]
    return len(piece) >= _LETTERS_ONLY and inner != inner.lower() and inner != inner.upper() and piece.isalnum()


def name_before(view: bytes, at: int) -> bytes:
    """What stands before the word at *at* in the same name: ``db_`` of db_password, ``--`` of --password."""
    return ending(line_before(view, at, 48), WORD + b".")


def is_asked(view: bytes, at: int, name: bytes) -> bool:
    """Whether the name whose beginning *name* ends at *at* is one of a URL's query."""
    return view[at - len(name) - 1 : at - len(name)] in (b"?", b"&") and at > len(name)


def gap(view: bytes, at: int, name: bytes, said: bool = False) -> int:
    """Where the value of the name that ends at *at* begins; 0 if it has none."""
    found = _ASSIGN.match(view, at) or (_SAID.match(view, at) if said else None)
    if found is None and name.startswith((b"-",)):
        found = _FLAG.match(view, at)
    return 0 if found is None else found.end()


_TO_CLOSING = {
    b'"': re.compile(rb"(?:[^\r\n\"]|(?<=[=,: ])\")*+"),
    b"'": re.compile(rb"[^\r\n']*+"),
    b"`": re.compile(rb"[^\r\n`]*+"),
}


def all_of(view: bytes, at: int, quote: bytes) -> Span | None:
    """The rest of the line, or of what *quote* began."""
    end = end_of(_TO_CLOSING.get(quote, TO_END), view, at)
    return (at, end) if at < end else None
