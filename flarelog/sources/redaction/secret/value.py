"""The value after a name: the separator, the wrapping, and the end of the value.

One function reads the values of all names. It masks to the very end, in doubt further. A new format of a name and its
value belongs here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from flarelog.sources.redaction.secret.view import TO_END, WORD, Span, end_of, ending, line_before

_CLOSE = rb"(?:[ \t]{0,6}\\{0,15}[\"'`]|[\])}]|\*{2}){0,3}"  # after a name, before the separator
_COMES = (
    rb"(?>(?i:"
    + _CLOSE
    + rb"(?:[ \t]{0,40}(?:=>|->|:=|={1,3}|:{1,2}(?!//)|%3[dD])[ \t]{0,16}"
    + rb"|[ \t]{0,4},[ \t]{0,4}\\{0,15}[\"']?[a-z]{0,16}value\\{0,15}[\"']?[ \t]{0,4}[:=][ \t]{0,4}"
    + rb"|[ \t]{1,4}value:[ \t]{1,4}"
    + rb"|(?<=[\"'`])[ \t]{0,4},[ \t]{0,4}"
    + rb"(?:\\{0,15}[\"']?value\\{0,15}[\"']?[ \t]{0,4}[:=][ \t]{0,4})?(?=b?\\{0,15}[\"'`])"
    + rb"|(?<=[\"'`])[ \t]{1,4}value[ \t]{0,4}=[ \t]{0,4}(?=\\{0,15}[\"'`])|[ \t]{1,4}value=(?=[^\s\"'`])"
    + rb"|</[a-z]{1,12}>[ \t]{0,8}<(?:value|string|data)>"
    + rb"|[ \t]{0,2}\.{3,80}[ \t]{0,4}[:=][ \t]{1,4}"
    + rb"|[ \t]{1,40}(?:\||\xe2\x94\x82)[ \t]{1,16}|(?<=[A-Za-z])>(?=[^\s<>]))))"
)
_ASSIGN = re.compile(_COMES)
_SAYS = (
    _CLOSE
    + rb"[ \t]{1,4}(?:%b)[ \t]{0,4}:?[ \t]{1,4}"
    + rb"(?=[bru]?\\{0,15}(?:\"[^\"\r\n]{1,256}\"|'[^'\r\n]{1,256}'|`[^`\r\n]{1,256}`))"
)
_SAID = re.compile(
    _SAYS % rb"is|was|to|set to|changed to"
    + rb"|[ \t]{1,4}(?=\\{0,15}(?:\"[^\"\r\n]{1,256}\"|'[^'\r\n]{1,256}'|`[^`\r\n]{1,256}`))"
)
_FLAGGED = rb"(?>[ \t]{1,8})(?![-|<>&\s])"
_FLAG = re.compile(_FLAGGED)
# The next column: a tab or several blanks, and neither another name with a value nor a word of a heading.
_COLUMN = (
    rb"(?>[ ]{2,60}|[ ]{0,16}\t{1,8}[ ]{0,16})"
    rb"(?=[!-~\x80-\xff]{0,256}?(?:[0-9]|[a-z][!-~]{0,64}?[A-Z]))"
    rb"(?![|\"'`<>(\[{=:,-]|[\w.-]{1,48}[ \t]{0,2}[=:])"
)
_IN_COLUMNS = re.compile(_COLUMN)

# One blank after a name that only a secret has: not a word of a sentence, nor of an action on a secret.
_OWN = re.compile(
    rb"(?!(?:(?:re)?set|get|change|check|verify|update|validate|rotate|forgot|hash|test|no|invalid|bad|wrong|missing)_)"
    rb"[\w.-]{0,40}(?:[\w.-]pass(?:w(?:or)?d|phrase)|(?:bind|key|store|[a-z0-9]_)pass|(?:bind|root|admin|ldap|[a-z0-9]_)pwd?"
    rb"|[a-z0-9_]secret|secret(?:_access)?_key)\Z"
)
_PLAIN = re.compile(rb"(?:\A|[:|\"'])[ \t]{0,32}pass(?:w(?:or)?d|phrase)\Z")  # without words of a sentence before it
# After the one blank: a word with digits and letters that is no other name with a value, path, address, file, version,
# time or count.
_ONE_WORD = re.compile(
    rb"[ \t](?=[^\s]{0,64}?[0-9])(?=[^\s]{0,64}?[A-Za-z])(?![\w-]{1,48}=[^=\s]|[~.]{0,2}/[a-z]|\S{1,12}://|v\d++(?:\.|\d|alpha|beta|rc)*+(?!\w)|\d++[a-z]{0,3}(?![^\s,;])"
    rb"|\d{4}-\d\d-\d\d|\d\d:\d\d|\S{1,128}\.(?:pem|key|crt|json|ya?ml|toml|cfg|conf|env|txt|py|log)\b)"
    rb"(?=[\w.~+/=%!@#$^&*?:-]{8,256}+(?:[\s\"'`,;)\]}\\<>|]|\Z))"
)
_MADE = re.compile(
    rb"[ \t](?=[^\s]{0,64}?[0-9])(?=[^\s]{0,64}?[A-Za-z])"
    rb"(?=(?:[A-Za-z0-9+/]{16,512}+={0,2}|[A-Za-z0-9]{8,64}_[A-Za-z0-9]{16,64}|[0-9a-f]{8}-[0-9a-f-]{27})(?:[\s\"'`,;)\]}\\<>|]|\Z))"
)

# The wrapping of a value: a type, a tag, its length, a call.
_WRAPPED = re.compile(
    rb"(?:(?:str|string|bytes|any|secretstr|secretbytes|optional\[\w{1,16}\]|&str)(?:[ \t]*\|[ \t]*none)?"
    rb"[ \t]{1,4}=[ \t]{0,4})?"
    rb"(?:&[\w.-]{1,64}[ \t]{1,4})?(?:!{1,2}\w{1,16}[ \t]{1,4})?(?:&[\w.-]{1,64}[ \t]{1,4})?"
    rb"(?:\(\w{1,16}\)[ \t]{0,4}(?:\(len=\d{1,9}\)[ \t]{0,4})?(?=\\{0,15}[\"'`]))?"
    rb"(?:string\(\d{1,9}\)[ \t]{0,4})?"
    rb"(?:(?:[a-z_][\w.:]{0,40}\([ \t]{0,4}){1,3}(?=[bruf]{0,2}\\{0,15}[\"'`]))?"
    rb"(?:[bruf$]{1,2}(?=\\{0,15}[\"']))?",
    re.IGNORECASE,
)
_QUOTE = re.compile(rb"(\\{0,15})(\"{3}(?!\")|'{3}(?!')|[\"'`])")
_TO_QUOTE = {quote: re.compile(rb"(\\*+)%b|[\r\n]" % quote) for quote in (b'"', b"'", b"`", b'"""', b"'''")}

_ENDS = rb"(?=[\s\"'`,;:)\]}>&|\\]|\Z)"  # after a closing quote
_BARE = re.compile(
    rb"(?:[^\s\"'`<\\&]|\\(?!\\*+[\"'`]" + _ENDS + rb")[^\r\n]|[\"'`](?![\s\"'`,;:)\]}>&|\\]|\Z)|<(?!/)|&)*+"
)
_IN_A_QUERY = re.compile(rb"[^\s\"'`<>\\&]*+")
_ANOTHER = re.compile(  # a further word of a value of several: none that begins something else
    rb"[ \t]{1,4}(?![\\\"'`]{0,4}[\w.-]{1,48}[\\\"'`\])]{0,4}[ \t]?[=:]|-|[|<>({\[#&/]|\xe2\x94\x82|[\"'`,;)\]}\s]|\Z)"
)
_BRACKETS = {
    opening: re.compile(rb"[^\r\n\%b]*+\%b?" % (end, end))
    for opening, end in ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))
}
_NOTHING = re.compile(
    rb"(?:true|false|none|null|nil|undefined|empty|missing|unset|not|invalid|expired|required|optional|ok|found|loaded"
    rb"|(?:getpass\.)?getpass\(\)|input\(\)|[*x.-]+)"
    rb"(?=[\s\"'`,;)}\]\\&<>]|\Z)",
)
_A_NUMBER = rb"[+-]?[\d.,:%]++(?:e[+-]?\d++)?(?:/[\d.,:%]*+)?(?=[\s\"'`,;&)}\]|<\\]|\Z)"
_NUMBER = re.compile(_A_NUMBER)
COMES_TEXT = (
    rb"(?:"
    + _COMES
    + rb"|"
    + _SAYS % rb"is|set to"
    + rb"|(?P<column>"
    + _COLUMN
    + rb")|(?P<flag>"
    + _FLAGGED
    + rb"))(?![\"'`]?"
    + _A_NUMBER
    + rb")"
)  # and no number
PATH = re.compile(rb"(?:~\w{0,24}|\.{1,2}|[A-Za-z]:)?[/\\](?:[a-z0-9_.-]{1,24}|[A-Z][a-z]{2,15}|)(?=[/\\\s\"'`,;)]|\Z)")
_LETTERS_ONLY = 16  # characters of a random value without a digit, at least
_DIGIT = re.compile(rb"[0-9]")
CHARACTERS = re.compile(rb"[\w.~+/=:%-]*+")


def value_at(view: bytes, low: bytes, at: int, words: bool = False, query: bool = False) -> Span | None:
    """The span of the value at *at*. With *words* a value without quotes may have several words."""
    at = end_of(_WRAPPED, view, at)
    quote = _QUOTE.match(view, at)
    if quote is not None:
        if _says_nothing(low, quote.end()):
            return None
        end = _closing(view, quote.end(), quote[2], len(quote[1]))
        return (quote.end(), end) if quote.end() < end else None
    if _says_nothing(low, at):
        return None
    if query:
        end = end_of(_IN_A_QUERY, view, at)
        return (at, end) if at < end else None
    close = _BRACKETS.get(view[at : at + 1])
    if close is not None:
        end = end_of(close, view, at)
        return at, end if view.startswith(b'],"', end - 1) else end_of(_BARE, view, end)
    if view[at : at + 1] in (b",", b";", b"&", b"\\", b"<"):
        return None
    end = end_of(_BARE, view, at)
    while words and view[end - 1 : end] not in (b",", b";", b")", b"]", b"}", b"|"):
        more = _ANOTHER.match(view, end)
        if more is None:
            break
        end = max(more.end() + 1, end_of(_BARE, view, more.end()))
    return (at, end) if at < end else None


def after(words: re.Pattern[bytes]) -> Callable[[bytes, bytes, int], Span | None]:
    """A probe for the value right behind *words*."""

    def probe(view: bytes, low: bytes, at: int) -> Span | None:
        found = words.match(low, at)
        return None if found is None else value_at(view, low, found.end())

    return probe


def _closing(view: bytes, begin: int, quote: bytes, slashes: int) -> int:
    """The end of the value after *quote* with *slashes* before it."""
    at = begin
    while True:
        for found in _TO_QUOTE[quote].finditer(view, at):
            if found[1] is None:
                return found.start()
            over = len(found[1]) == slashes or _OVER.match(view, found.end())
            if over and len(found[1]) % (2 * slashes + 2) == slashes:
                break
        else:
            return len(view)
        end, at = max(begin, found.end() - len(quote) - slashes), found.end()
        if len(quote) == 1 and end > begin:
            if view.startswith(view[end:at], at):  # a doubled quote: SQL's escape
                at = 2 * at - end
                continue
            if _GOES_ON.match(view, at):
                return end_of(_BARE, view, at)
        return end


_OVER = re.compile(rb"[\s,;:)\]}>&|\"'`]|\Z")  # after a quote with more backslashes: it closed the value
_GOES_ON = re.compile(rb"[A-Za-z0-9]")  # after a quote: it did not end the value


def _says_nothing(low: bytes, at: int) -> bool:
    return _NOTHING.match(low, at) is not None


def bare(view: bytes, at: int) -> int:
    """The beginning of a value, after its quotes and its wrapping."""
    at = end_of(_WRAPPED, view, at)
    quote = _QUOTE.match(view, at)
    return at if quote is None else quote.end()


def is_number(low: bytes, at: int) -> bool:
    return _NUMBER.match(low, at) is not None


def is_random(view: bytes, at: int, least: int) -> bool:
    """Whether the word at *at* looks generated: it has a digit, or is long and of both cases."""
    piece = view[at : at + 256]
    piece = piece[: end_of(CHARACTERS, piece, 0)]
    if len(piece) < least:
        return False
    if _DIGIT.search(piece):
        return True
    inner = piece[1:]
    return len(piece) >= _LETTERS_ONLY and inner != inner.lower() and inner != inner.upper() and piece.isalnum()


def name_before(view: bytes, at: int) -> bytes:
    """The part of the name before the word at *at*: ``db_`` of db_password, ``--`` of --password."""
    return ending(line_before(view, at, 48), WORD + b".")


def is_asked(view: bytes, at: int, name: bytes) -> bool:
    """Whether the name whose beginning *name* ends at *at* is in a URL's query."""
    return view[at - len(name) - 1 : at - len(name)] in (b"?", b"&") and at > len(name)


_ENCLOSING = re.compile(rb"(\\{0,15})([\"'`])\Z")


def value_of(view: bytes, low: bytes, at: int, name: bytes, begin: int, words: bool = False) -> Span | None:
    """The value that begins at *begin*, of the name whose beginning *name* ends at *at*.

    With a quote before the name and none after it, the value extends to the closing quote.
    """
    first = at - len(name)
    around = _ENCLOSING.search(view, max(0, first - 16), first) if view[first - 1 : first] in _ENCLOSED else None
    if around is not None and first and around[2] not in view[at:begin]:
        inner = bare(view, begin)
        if inner == begin and not _says_nothing(low, begin):
            end = _closing(view, begin, around[2], len(around[1]))
            return (begin, end) if begin < end else None
    return value_at(view, low, begin, words, is_asked(view, at, name))


_ENCLOSED = (b'"', b"'", b"`")


def gap(view: bytes, at: int, name: bytes, said: bool = False) -> int:
    """The beginning of the value of the name that ends at *at*; 0 if it has none."""
    found = _ASSIGN.match(view, at) or (_SAID.match(view, at) if said else None)
    if found is None and name.startswith((b"-",)):
        found = _FLAG.match(view, at)
    if found is None and view[at : at + 1] in (b" ", b"\t"):
        found = _IN_COLUMNS.match(view, at) or (_ONE_WORD.match(view, at) if _is_own(view, at) else None)
    return 0 if found is None else found.end()


def _is_own(view: bytes, at: int) -> bool:
    before = line_before(view, at, 48).lower()
    return _OWN.match(ending(before, WORD + b".")) is not None or _PLAIN.search(before) is not None


def is_made(view: bytes, at: int, name: bytes) -> bool:
    """Whether a generated word follows one blank at *at*, and *name* qualifies the word before it."""
    return bool(name.strip(b"_.-")) and _MADE.match(view, at) is not None


_TO_CLOSING = {
    b'"': re.compile(rb"(?:[^\r\n\"]|(?<=[=,: ])\")*+"),
    b"'": re.compile(rb"[^\r\n']*+"),
    b"`": re.compile(rb"[^\r\n`]*+"),
}


def all_of(view: bytes, at: int, quote: bytes) -> Span | None:
    """The rest of the line, or of the text quoted by *quote*."""
    end = end_of(_TO_CLOSING.get(quote, TO_END), view, at)
    return (at, end) if at < end else None
