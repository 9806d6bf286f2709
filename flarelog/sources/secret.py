"""Where the secrets of a text are: values that a name announces, and tokens that tell by themselves what they are.

Laws that hold here: no match goes over the end of a line or depends on another line. Every look back is bounded, and
every look ahead either is bounded or ends in a match, behind which the search goes on: so the time grows with the
length alone. What is rare is looked for first, with bytes.find; a regular expression runs only where that found
something. A value is masked to its very end, in doubt further: a line must not look redacted while a part of a secret
stays.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from functools import lru_cache

Span = tuple[int, int]
Probe = Callable[[bytes, bytes, int], Span | None]

NAMES = ("tokens", "passwords", "keys", "email")

RUN = 16  # letters and digits in a row that a token without a name has at least
_BACK = 96  # bytes of its line that are looked at before a name or a token
_WORD = string.ascii_letters.encode() + string.digits.encode() + b"_-"
_VALUE = _WORD + b"/+.%~"


def find(text: bytes, names: tuple[str, ...]) -> Iterator[Span]:
    """Where in *text* what *names* say is: any number of lines, each by itself. The spans may overlap."""
    if not names:
        return
    low = text.lower()
    if not any(sign in text for sign, _ in _ODD):
        yield from _found(text, low, names)
        return
    # What is read otherwise than it is written is read line by line, where there may be something.
    for begin in sorted(set(_suspects(text, low, names))):
        view = _legible(text[begin : _rest(_TO_END, text, begin)])
        for first, behind in _found(view, view.lower(), names):
            yield begin + first, begin + behind


def _found(view: bytes, low: bytes, names: tuple[str, ...]) -> Iterator[Span]:
    for word, probe in _probes(names):
        at = low.find(word)
        while at >= 0:
            span = probe(view, low, at)
            if span is not None and span[0] < span[1]:
                yield span
            at = low.find(word, max(at + 1, span[1] if span is not None else 0))
    if _TOLD & set(names):
        runs = view.translate(_RUNS)
        at = runs.find(b"x" * RUN)
        while at >= 0:
            end = runs.find(b" ", at)
            end = end if end >= 0 else len(runs)
            near = min(at, _NEAR if view[at - 1] not in _JOINTS else _MANY_PARTS)
            if not _tells_nothing(view[at - near : end + 1], near, end - at):
                for name, span in _of_a_run(view, low, at, end, near):
                    if name in names:
                        yield span
                        end = max(end, span[1])
            at = runs.find(b"x" * RUN, end)


def _suspects(text: bytes, low: bytes, names: tuple[str, ...]) -> Iterator[int]:
    """Where the lines begin in which there may be something: however it is read, its letters are these."""
    sought = [(low, word) for word, _ in _probes(names)]
    if _TOLD & set(names):
        sought.append((text.translate(_RUNS), b"x" * RUN))
    for where, word in sought:
        at = where.find(word)
        while at >= 0:
            yield _line_begin(text, at)
            at = where.find(word, _rest(_TO_END, text, at))


@lru_cache(16)
def _probes(names: tuple[str, ...]) -> list[tuple[bytes, Probe]]:
    return [(word, probe) for word, of, probe in _PROBES if any(name in names for name in of)]


_TOLD = {"tokens", "keys"}  # of these some tell by themselves what they are


def _line_begin(text: bytes, at: int) -> int:
    length = 256
    while True:
        low = max(0, at - length)
        found = max(text.rfind(b"\n", low, at), text.rfind(b"\r", low, at))
        if found >= 0 or low == 0:
            return found + 1
        length *= 4


_TO_END = re.compile(rb"[^\r\n]*+")


# --- what a person sees of a text

# By what each begins with: a terminal's control; the same, blanks and signs, as they are escaped; the same in HTML.
_ODD = (
    (b"\x1b", re.compile(rb"\x1b\[[\d;:?]{0,32}[A-Za-z]")),
    (b"\\", re.compile(rb"\\{1,8}(?:(?:x1b|u001[bB]|033|e)\[[\d;]{0,32}[A-Za-z]|[nrt/]|u00(?:26|3[dDaA]))")),
    (b"&", re.compile(rb"&(?:quot|#34|#39|apos|amp);")),
)
_MEANT = {
    b"/": b"/",
    b"u0026": b"&",
    b"u003d": b"=",
    b"u003a": b":",
    b"&quot;": b'"',
    b"&#34;": b'"',
    b"&#39;": b"'",
    b"&apos;": b"'",
    b"&amp;": b"&",
}


def _legible(text: bytes) -> bytes:
    """*text* as a person reads it, byte for byte: colours are blanks, and so is what an escaped sign has before it."""
    view: bytearray | None = None
    for sign, pattern in _ODD:
        at = text.find(sign)
        while at >= 0:
            found = pattern.match(text, at)
            end = at + 1 if found is None else found.end()
            if found is not None:
                view = bytearray(text) if view is None else view
                meant = _MEANT.get(found[0].lstrip(b"\\").lower(), b" ")
                # Where a value ends or begins with an entity, the whole of it is masked, or none.
                view[at:end] = meant.ljust(end - at) if sign == b"&" else meant.rjust(end - at)
            elif sign == b"\\":
                end = _rest(_BACKSLASHES, text, at)
            at = text.find(sign, end)
    return text if view is None else bytes(view)


_BACKSLASHES = re.compile(rb"\\*+")
_RUNS = bytes(ord("x") if byte in _WORD else ord(" ") for byte in range(256))


def _rest(pattern: re.Pattern[bytes], view: bytes, at: int) -> int:
    """Where the match at *at* of a pattern ends that can be empty."""
    found = pattern.match(view, at)
    return at if found is None else found.end()


def _before(view: bytes, at: int, length: int = _BACK) -> bytes:
    """The bytes of its line before *at*, at most *length*."""
    piece = view[max(0, at - length) : at]
    return piece[max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1 :]


def _ending(text: bytes, of: bytes) -> bytes:
    """The last bytes of *text* that are all in *of*."""
    return text[len(text.rstrip(of)) :]


# --- from a name to its value

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
_COMES_TEXT = rb"(?:" + _COMES + rb"|(?P<flag>" + _FLAGGED + rb"))(?![\"'`]?" + _A_NUMBER + rb")"  # and no number
_PATH = re.compile(
    rb"(?:~\w{0,24}|\.{1,2}|[A-Za-z]:)?[/\\](?:[a-z0-9_.-]{1,24}|[A-Z][a-z]{2,15}|)(?=[/\\\s\"'`,;)]|\Z)"
)
_LETTERS_ONLY = 16  # characters that a value without a digit has at least to be taken for a random one
_CHARACTERS = re.compile(rb"[\w.~+/=:%-]*+")


def _value(view: bytes, low: bytes, at: int, words: bool = False, query: bool = False) -> Span | None:
    """Where the value is that begins about *at*. With *words* a value without quotes may have several."""
    at = _rest(_WRAPPED, view, at)
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
        end = _rest(_IN_A_QUERY, view, at)
        return (at, end) if at < end else None
    close = _BRACKETS.get(view[at : at + 1])
    if close is not None:
        return at, _rest(_BARE, view, _rest(close, view, at))
    if view[at : at + 1] in (b",", b";", b"&", b"\\", b"<"):
        return None
    end = _rest(_BARE, view, at)
    while words and view[end - 1 : end] not in (b",", b";", b")", b"]", b"}", b"|"):
        more = _ANOTHER.match(view, end)
        if more is None:
            break
        end = max(more.end() + 1, _rest(_BARE, view, more.end()))
    return (at, end) if at < end else None


def _says_nothing(low: bytes, at: int) -> bool:
    return _NOTHING.match(low, at) is not None


def _bare(view: bytes, at: int) -> int:
    """Where a value begins, behind its quotes and what it is wrapped in."""
    at = _rest(_WRAPPED, view, at)
    quote = _QUOTE.match(view, at)
    return at if quote is None else quote.end()


def _is_number(low: bytes, at: int) -> bool:
    return _NUMBER.match(low, at) is not None


def _is_random(view: bytes, at: int, least: int) -> bool:
    """Whether what begins at *at* looks as if a machine had made it: it has a digit, or is long and of both cases."""
    piece = view[at : at + 256]
    piece = piece[: _rest(_CHARACTERS, piece, 0)]
    if len(piece) < least:
        return False
    if any(digit in piece for digit in b"0123456789"):
        return True
    inner = piece[1:]
    return len(piece) >= _LETTERS_ONLY and inner != inner.lower() and inner != inner.upper() and piece.isalnum()


def _name(view: bytes, at: int) -> bytes:
    """What stands before the word at *at* in the same name: ``db_`` of db_password, ``--`` of --password."""
    return _ending(_before(view, at, 48), _WORD + b".")


def _asked(view: bytes, at: int, name: bytes) -> bool:
    """Whether the name whose beginning *name* ends at *at* is one of a URL's query."""
    return view[at - len(name) - 1 : at - len(name)] in (b"?", b"&") and at > len(name)


def _gap(view: bytes, at: int, name: bytes, said: bool = False) -> int:
    """Where the value of the name that ends at *at* begins; 0 if it has none."""
    found = _ASSIGN.match(view, at) or (_SAID.match(view, at) if said else None)
    if found is None and name.startswith((b"-",)):
        found = _FLAG.match(view, at)
    return 0 if found is None else found.end()


# --- the names

_NO_SECRET = re.compile(  # what is told of a secret, and is none
    rb"[_.-]?(?:file|path|len(?:gth)?|size|count|min|max|policy|field|prompt|reset|stdin|less|expir|chang|requir|attempt"
    rb"|retr|timeout|strength|type|check|valid|manager|protected|name\b|algo|shar|limit|budget|per_)"
)
_PASSWORD = re.compile(rb"pass(?:w(?:or)?d|wrd|phrase|code)s?")
_MORE = re.compile(rb"[\w.-]{0,32}")
_PASS = re.compile(rb"pass\d{0,2}(?![a-z])")
_OWNERS = re.compile(
    rb"(?:db|database|mysql|maria|postgres|pg|pgsql|redis|smtp|e?mail|imap|s?ftp|ssh|ldap|user|usr|admin|root|login|my|http"
    rb"|https|proxy|vpn|wifi|mongo|mongodb|rabbit|rabbitmq|amqp|mqtt|kafka|es|elastic|sql|oracle|mssql|jdbc|vault|cert"
    rb"|key|keystore|store|truststore|app|auth|service|svc|bind|basic|client|server|account|registry|docker|api|secret"
    rb"|default|test|temp|tmp|new|old|current|backup)\Z"
)
_QUICK = (b"forward", b"backward")


def _password(view: bytes, low: bytes, at: int) -> Span | None:
    found, name = _PASSWORD.match(low, at), _name(view, at)
    if found is None:
        return _sshpass(view, low, at) if low.startswith(b"sshpass", at - 3) else _pass(view, low, at, name)
    rest = _MORE.match(low, found.end())
    if rest is not None and _NO_SECRET.match(rest[0]):
        return None
    for end in (rest.end() if rest is not None else 0, found.end()):
        begin = _gap(view, end, name, said=True)
        if begin:
            words = not name.startswith(b"-") or view[begin - 1 : begin] in (b"=", b":")
            return _value(view, low, begin, words, _asked(view, at, name))
    if _NETRC.search(_before(low, at)):
        return _value(view, low, _rest(_BLANKS, view, found.end()))
    return None


_BLANKS = re.compile(rb"[ \t]*+")
_NETRC = re.compile(rb"\b(?:login|default)[ \t]{1,8}[^\s]{1,64}[ \t]{1,8}\Z")
_SSHPASS = re.compile(rb"pass[ \t]{1,4}-p[ \t]{0,4}(?=\S)")


def _sshpass(view: bytes, low: bytes, at: int) -> Span | None:
    found = _SSHPASS.match(low, at)
    return None if found is None else _value(view, low, found.end())


def _pass(view: bytes, low: bytes, at: int, name: bytes) -> Span | None:
    found = _PASS.match(low, at)
    begin = _gap(view, found.end(), name) if found is not None else 0
    if found is None or not begin:
        return None
    owner, first = name.rstrip(b"_.-"), _bare(view, begin)
    if owner:
        known = _OWNERS.search(owner.lower()[-16:].rpartition(b"_")[2].rpartition(b"-")[2].rpartition(b".")[2])
        shouted = owner.isupper() and view[at : at + 4] == b"PASS" and not _is_number(low, first)
        return _value(view, low, begin, True, _asked(view, at, name)) if known or shouted else None
    if not _before(low, at, 16).rstrip(b" =").endswith((b"-passin", b"-passout", b"-pass")):
        said = begin == found.end() + 1 or view[found.end() : found.end() + 1] in (b'"', b"'")
        word = view[first : _rest(_CHARACTERS, view, first)]
        likely = _is_random(view, first, 6) or (said and len(word) >= 6 and not word.lower().startswith(_QUICK))
        if _is_number(low, first) or _PATH.match(view, first) or not likely:
            return None
    return _value(view, low, begin, query=_asked(view, at, name))


_PWD = re.compile(rb"pwd\d{0,2}(?![a-z])")


def _pwd(view: bytes, low: bytes, at: int) -> Span | None:
    found, name = _PWD.match(low, at), _name(view, at)
    begin = _gap(view, found.end(), name) if found is not None else 0
    if not begin or _PATH.match(view, _bare(view, begin)):
        return None
    return _value(view, low, begin, not name.startswith(b"-"), _asked(view, at, name))


_SECRET = re.compile(rb"secrets?(?!ar[yi])")


def _secret(view: bytes, low: bytes, at: int) -> Span | None:
    found, name = _SECRET.match(low, at), _name(view, at)
    rest = _MORE.match(low, found.end()) if found is not None else None
    if found is None or rest is None or _NO_SECRET.match(rest[0]):
        return None
    begin = _gap(view, rest.end(), name)
    if not begin or _is_number(low, _bare(view, begin)):
        return None
    return _value(view, low, begin, not name.startswith(b"-"), _asked(view, at, name))


_TOKEN = re.compile(rb"tokens?(?:[_.-][\w.-]{0,24}+)?+(?![a-z])" + _COMES_TEXT)
_OF_A_MODEL = re.compile(
    rb"(?:pad|eos|bos|unk|sep|cls|mask|next|special|added|image|num|max|min|total|new|input|output|prompt|completion|first"
    rb"|last|prev|target|start|end|stop|video|audio|decoder|encoder|extra|per)\Z"
)
_OF_A_DOOR = re.compile(
    rb"(?:access|auth|oauth2?|refresh|id|api|session|csrf|xsrf|personal|private|deploy|bot|device|login|registration|runner"
    rb"|service|account|app|job|ci|hub|hf|github|gitlab|bearer|security|vault|consumer|client|user|webhook|write|read"
    rb"|admin|reset|verification|invite|secret|x|npm|pypi|slack|join)\Z"
)


def _token(view: bytes, low: bytes, at: int) -> Span | None:
    found = _TOKEN.match(low, at)
    if found is None or _NO_SECRET.match(low, at + 5):
        return None
    begin, name = found.end(), _name(view, at)
    if found["flag"] is not None and not name.startswith(b"-"):
        return None
    owner, first = name.strip(b"_.-"), _bare(view, begin)
    if _is_number(low, first) or _PATH.match(view, first) or _OF_A_MODEL.search(owner.lower()):
        return None
    asked = _asked(view, at, name)
    strong = asked or (owner.isupper() and view[at : at + 5] == b"TOKEN") or _OF_A_DOOR.search(owner.lower())
    if view[first : first + 1] in b"[<{(" or not (strong or _is_random(view, first, 8)):
        return None
    return _value(view, low, begin, query=asked)


_KEY = re.compile(rb"keys?(?:[_-]?(?:id|value|data|base|secret|hex|b64|base64|\d{1,2}))?(?![a-z])" + _COMES_TEXT)
_OF_A_LOCK = re.compile(
    rb"(?:api|app|secret|access|private|account|signing|encryption|shared|sharedaccess|subscription|master|auth|storage|hmac"
    rb"|webhook|deploy|license|licence|decryption|crypto|admin|functions|service|consumer|ssh|ingest|write|maps|publish)"
    rb"[ _.-]?\Z"
)


def _key(view: bytes, low: bytes, at: int) -> Span | None:
    found = _KEY.match(low, at)
    if found is None:
        return None
    begin, name = found.end(), _name(view, at)
    if found["flag"] is not None and not name.startswith(b"-"):
        return None
    first, asked = _bare(view, begin), _asked(view, at, name)
    if _is_number(low, first) or _PATH.match(view, first):
        return None
    owner = _before(low, at, 24)
    random = _is_random(view, first, RUN)
    if not (
        _OF_A_LOCK.search(owner)
        or (name.isupper() and name.endswith(b"_") and _is_random(view, first, 8))
        or (random and (asked or owner.endswith((b"client-", b"client_", b"session_", b"session-"))))
        or (random and b'"username"' in _before(low, at))
    ):
        return None
    return _value(view, low, begin, query=asked)


_AUTHORIZATION = re.compile(rb"authori[sz]ation")
_AUTH = re.compile(rb"auth(?:entication)?(?![a-z])")
_PAIR = re.compile(
    rb"auth(?:[ \t]{0,4}[=:][ \t]{0,4}[\w.]{0,32})?\([ \t]{0,4}"
    rb"[bru]?([\"'])[^\"'\r\n]{0,128}\1[ \t]{0,4},[ \t]{0,4}(?=[bru]?[\"'])"
)
_SCHEME = re.compile(
    rb"(?:(bearer|basic|token|ntlm|apikey|api-key|splunk|key|sso-key|geniekey|jwt|pve\w{1,12}|dsn|bot|client-id)"
    rb"|digest|negotiate|hawk|oauth|signature|kerberos|aws4-[\w-]{1,24}|[\w-]{0,12}hmac-sha\d{1,3})"
    rb"(?:[ \t]{1,8}|%20|\+)"
)


def _auth(view: bytes, low: bytes, at: int) -> Span | None:
    pair = _PAIR.match(low, at)
    if pair is not None:
        return _value(view, low, pair.end())
    header = _AUTHORIZATION.match(low, at)
    found, name = header or _AUTH.match(low, at), _name(view, at)
    begin = _gap(view, found.end(), name) if found is not None else 0
    if not begin:
        return None
    first = _bare(view, begin)
    scheme = _SCHEME.match(low, first)
    if scheme is None:
        return _value(view, low, begin) if _is_random(view, first, RUN if header else 8) else None
    quoted = view[first - 1 : first] in (b'"', b"'", b"`") and first > begin
    if quoted:
        whole = _value(view, low, begin)
        return (scheme.end(), whole[1]) if whole is not None and scheme.end() < whole[1] else None
    if scheme[1] is not None and not quoted:
        return _value(view, low, scheme.end())
    return _all(view, scheme.end(), view[at - len(name) - 1 : at - len(name)])


_TO_CLOSING = {
    b'"': re.compile(rb"(?:[^\r\n\"]|(?<=[=,: ])\")*+"),
    b"'": re.compile(rb"[^\r\n']*+"),
    b"`": re.compile(rb"[^\r\n`]*+"),
}


def _all(view: bytes, at: int, quote: bytes) -> Span | None:
    """The rest of the line, or of what *quote* began."""
    end = _rest(_TO_CLOSING.get(quote, _TO_END), view, at)
    return (at, end) if at < end else None


_BEARER = re.compile(rb"bearer(?:[ \t]{1,8}|%20)")


def _bearer(view: bytes, low: bytes, at: int) -> Span | None:
    found = _BEARER.match(low, at)
    if found is None or view[at - 1 : at].isalnum() or not _is_random(view, found.end(), 8):
        return None
    return _value(view, low, found.end())


_COOKIE = re.compile(rb"cookies?(?:[_-]?jar)?(?![a-z])")
_CRUMB = re.compile(rb"b?[\"'`]?[^\s=;,\"'`(){}<>]{1,80}=(?!=)")


def _cookie(view: bytes, low: bytes, at: int) -> Span | None:
    found, name = _COOKIE.match(low, at), _name(view, at)
    begin = _gap(view, found.end(), name) if found is not None else 0
    if not begin:
        return None
    if view[begin : begin + 1] in (b"{", b"["):
        return _value(view, low, begin)
    if _CRUMB.match(view, begin) is None:
        return None
    first = _bare(view, begin)
    return _value(view, low, begin) if first > begin else _all(view, begin, view[at - len(name) - 1 : at - len(name)])


_USER = re.compile(
    rb"-u(?:ser)?(?:[ \t]{1,4}|=|(?=[^\s:]{1,64}:))"
    rb"(\\{0,7}[\"']?)([^\s:\"'@/=]{1,128}):(?!\2\b)(?=[^\s/])"
)


def _user(view: bytes, low: bytes, at: int) -> Span | None:
    """What curl and its like are given: -u NAME:PASSWORD."""
    found = _USER.match(view, at)
    if found is None or _is_number(low, found.end()) or _name(low, at).strip(b"-") not in (b"", b"proxy", b"http"):
        return None
    if found[1]:
        return _all(view, found.end(), found[1][-1:])
    return _value(view, low, found.end())


_IDENTIFIED = re.compile(
    rb"identified[ \t]{1,4}(?:with[ \t]{1,4}\S{1,40}[ \t]{1,4})?(?:by|as)[ \t]{1,4}(?:password[ \t]{1,4})?"
)


def _identified(view: bytes, low: bytes, at: int) -> Span | None:
    found = _IDENTIFIED.match(low, at)
    return None if found is None else _value(view, low, found.end())


# --- what an @ or a $ is in

_OF_A_URL = bytes(byte for byte in range(0x21, 0x100) if byte not in b"\"'`<>\\\x7f")
_TO_END_OF_URL = re.compile(rb"[^\x00-\x20\"'`<>\\\x7f]{0,2048}+")
_MAX_USERINFO = 2048
_SLASHES = (b"://", b": / /")  # the latter as \/\/ is read
_PORT = re.compile(rb"\d{1,5}(?:[/?#]|\Z)")


def _at(view: bytes, _: bytes, at: int) -> Span | None:
    """NAME:PASSWORD@ of a URL; the password may have an @ and a / as well. An empty span says where to go on."""
    end = _rest(_TO_END_OF_URL, view, at)
    low = max(0, at - _MAX_USERINFO)
    begin = max(found + len(sign) if (found := view.rfind(sign, low, at)) >= 0 else -1 for sign in _SLASHES)
    if begin < 0 or view[begin:at].strip(_OF_A_URL):
        behind = view.find(b"//", at, end)
        return (behind, behind) if behind >= 0 else (end, end)
    last = view.rfind(b"@", at, end)
    user, colon, password = view[begin:at].partition(b":")
    if not colon:
        # A key that stands alone, as in a DSN.
        return (begin, at) if len(user) >= RUN and user.isalnum() and _is_random(view, begin, RUN) else None
    if b"/" in user or not password or _PORT.match(password):
        return None
    while last > at and b"/" in view[at:last] and b"." in view[at : view.find(b"/", at)]:
        last = view.rfind(b"@", at, last)
    return at - len(password), max(at, last)


_LOCAL = _WORD + b".+%" + bytes(range(0x80, 0x100))
_DOMAIN = re.compile(rb"@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])")


def _email(view: bytes, low: bytes, at: int) -> Span | None:
    found = _DOMAIN.match(view, at)
    local = _ending(_before(view, at, 65), _LOCAL) if found is not None else b""
    if found is None or not 1 <= len(local) <= 64 or local == b"git":
        return None
    return at - len(local), found.end()


_CRYPT = re.compile(rb"\$(?:2[abxy]?|[156]|y|gy|7|apr1|argon2(?:id?|d)|scrypt|pbkdf2[\w-]{0,16})\$[^\s\"'`:;]{16,}+")
_DJANGO = re.compile(rb"(?:pbkdf2_sha\d{1,3}|argon2|bcrypt_sha256|scrypt)\Z")
_DJANGO_REST = re.compile(rb"\$[^\s\"'`:,;]{16,}+")


def _hash(view: bytes, low: bytes, at: int) -> Span | None:
    found = _CRYPT.match(view, at)
    if found is not None:
        return found.span()
    word = _ending(_before(low, at, 24), _WORD)
    rest = _DJANGO_REST.match(view, at) if _DJANGO.search(word) else None
    return None if rest is None else (at - len(word), rest.end())


_PROBES: tuple[tuple[bytes, tuple[str, ...], Probe], ...] = (
    (b"pass", ("passwords",), _password),
    (b"pwd", ("passwords",), _pwd),
    (b"secret", ("passwords",), _secret),
    (b"identified", ("passwords",), _identified),
    (b"-u", ("passwords",), _user),
    (b"@", ("passwords",), _at),
    (b"$", ("passwords",), _hash),
    (b"token", ("tokens",), _token),
    (b"auth", ("tokens",), _auth),
    (b"bearer", ("tokens",), _bearer),
    (b"cookie", ("tokens",), _cookie),
    (b"key", ("tokens", "keys"), _key),
    (b"@", ("email",), _email),
)

# --- tokens that tell by themselves what they are

# The beginnings of each kind, and what follows; without it: so many letters, digits, _ and - at least.
_KINDS: tuple[tuple[str, str, int | bytes], ...] = (
    ("tokens", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ hf_ api_org_ npm_ nfp_ r8_ figd_ wandb_v1_", 28),
    (
        "tokens",
        "glpat- glrt- glptt- gldt- glcbt- glft- glimt- glagent- gloas- glsoat- glffct-",
        rb"[\w-]{16,}+(?:\.[a-z0-9]{2,}+){0,2}",
    ),
    (
        "tokens",
        "sk-ant- sk-proj- sk-svcacct- sk-admin- sk-or- sk-lf- pk-lf- GR1348941 lsv2_ tvly- whsec_ sq0atp- sq0csp- EAAA",
        20,
    ),
    ("tokens", "sk-", rb"(?=[\w-]{0,200}?\d)[\w-]{20,}+"),
    (
        "tokens",
        "nvapi- gsk_ xai- pplx- csk- pcsk_ sgp_ PMAK- tk-us- HRKU- fo1_ sbp_ hcaik_ hcbik_ CCIPAT_ bkua_ squ_"
        " sqp_ sqa_",
        32,
    ),
    ("tokens", "fw_", rb"(?=[A-Za-z0-9]{0,23}\d)[A-Za-z0-9]{20,}+(?![\w-])"),
    ("tokens", "dapi", rb"[0-9a-f]{32}(?:-\d)?"),
    ("tokens", "pypi-", 50),
    ("tokens", "rubygems_ CLOJARS_ dop_v1_ doo_v1_ dor_v1_ sntryu_ rdme_ shippo_live_ shippo_test_ dnkey- fio-u-", 40),
    ("tokens", "oy2", rb"[a-z0-9]{43}(?![\w-])"),
    ("tokens", "cio", rb"(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{32}(?![\w-])"),
    ("tokens", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ sm_pat_ sm_aat_ sm_sat_", 10),
    (
        "tokens",
        "shpat_ shpca_ shppa_ shpss_ duffel_live_ duffel_test_ pat-na1- pat-eu1- pnu_ ico- p8e- pul- s-s4t2ud-"
        " s-s4t2af-",
        30,
    ),
    ("tokens", "EZAK EZTK", rb"[A-Za-z0-9]{54}(?![\w-])"),
    ("tokens", "FLWSECK_TEST- FLWSECK-", 12),
    ("tokens", "xkeysib- xsmtpsib- lin_api_ lin_oauth_ glsa_ phx_ phs_ CFPAT- tfp_ ntn_ ATBB", 30),
    ("tokens", "access-production- access-development- access-sandbox-", 30),
    ("tokens", "key- SK", rb"[0-9a-f]{32}(?![\w-])"),
    (
        "tokens",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- dckr_pat_ dckr_oat_ tskey- sb_secret_ GOCSPX-",
        10,
    ),
    ("tokens", "AIza", 30),
    ("tokens", "GOOG1", rb"[A-Z0-9]{20,}+(?![\w-])"),
    ("tokens", "ABSK", rb"[A-Za-z0-9+/]{100,}+={0,2}"),
    ("tokens", "bedrock-api-key- aio_", 20),
    ("tokens", "ops_eyJ glc_ sntrys_ fm2_ fm1r_ fm1a_", rb"[\w+/=-]{24,}+"),
    ("tokens", "pscale_tkn_ pscale_oauth_ pscale_pw_", rb"[\w.=-]{24,}+"),
    ("tokens", "AKCp cmVmd", rb"[A-Za-z0-9]{50,}+"),
    ("tokens", "A3-", rb"[A-Z0-9]{6}-[A-Z0-9-]{20,}+"),
    ("tokens", "AGE-SECRET-KEY-1 age-secret-key-1", 50),
    ("tokens", "NRAK- NRII- NRJS-", 19),
    ("tokens", "ATATT3 ATCTT3", rb"[\w=-]{50,}+"),
    ("tokens", "secret_", rb"[A-Za-z0-9]{43}(?![\w-])"),
    ("tokens", "sdk- mob-", rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{20,}+"),
    ("tokens", "API-", rb"[A-Z0-9]{26}(?![\w-])"),
    ("tokens", "4b1d", rb"[A-Za-z0-9]{38}(?![\w-])"),
    ("tokens", "flarelog_", 43),
    ("tokens", "EAA", rb"[A-Za-z0-9]{100,}+"),
    ("tokens", "AQVN", 35),
    ("tokens", "pat", rb"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("tokens", "eyJrIjoi eyJhcGlf", rb"[\w+/=-]{32,}+"),
    ("tokens", "eyJ", rb"[\w-]{8,}+(?:\.[\w-]*+){1,5}"),  # JWT and its relatives
    ("tokens", "ZXlK", rb"[\w+/=-]{40,}+"),  # the same once more in base64
    ("keys", "AKIA ASIA ABIA ACCA", rb"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("keys", "A3T", rb"[A-Z0-9]{17}(?![A-Za-z0-9])"),
    ("keys", "LTAI", rb"[A-Za-z0-9]{12,30}(?![\w-])"),
    ("keys", "AKID", rb"[A-Za-z0-9]{32}(?![\w-])"),
    # A private key in base64: PRIVATE is said in one of three ways, as it falls.
    ("keys", "LS0tLS1CRUdJTi", rb"(?=[A-Za-z0-9+/]{0,64}?(?:UFJJVkFUR|QUklWQVRF|BSSVZBVE))[A-Za-z0-9+/=]++"),
)


def _table() -> dict[bytes, list[tuple[str, re.Pattern[bytes]]]]:
    """By its first two letters: (what it is, the pattern) of each kind."""
    table: dict[bytes, list[tuple[str, re.Pattern[bytes]]]] = {}
    for name, prefixes, body in _KINDS:
        rest = body if isinstance(body, bytes) else rb"[\w-]{%d,}+=*+" % body
        for prefix in prefixes.encode().split():
            table.setdefault(prefix[:2], []).append((name, re.compile(re.escape(prefix) + rest)))
    return table


_BY_BEGINNING = _table()
_ALL_PREFIXES = [prefix for _, prefixes, _ in _KINDS for prefix in prefixes.encode().split()]
_PREFIXES = {letters: tuple(p for p in _ALL_PREFIXES if p.startswith(letters)) for letters in _BY_BEGINNING}
_JWT = _BY_BEGINNING[b"ey"][-1][1]  # it goes on behind its run, for which it need not be looked at from each beginning
_BEGINNINGS = re.compile(rb"(?<![A-Za-z0-9])[A-Za-z0-9][\w-]")

# Those of several parts, of which a run of letters and digits is one; and by which signs the parts are joined.
_PARTED = tuple(
    (signs, re.compile(rb"(?:%b)" % b"|".join(kinds)))
    for signs, kinds in (
        (
            b".~",
            (
                *(rb"SG\.[\w-]{16,}+\.[\w-]{16,}+", rb"hv[sbr]\.[\w-]{20,}+", rb"ya29\.[\w.-]{20,}+"),
                rb"s\.(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}(?![\w.-])",
                rb"dt0[a-z]\d\d\.[A-Z0-9]{20,}+\.[A-Z0-9]{40,}+",
                *(rb"t1\.[\w-]{20,}+=*\.[\w-]{40,}+=*", rb"[ps]k\.eyJ[\w-]{20,}+(?:\.[\w-]++)?", rb"sl\.[\w=-]{100,}+"),
                *(rb"dp\.(?:pt|ct|st|scim|audit|sa)\.[\w.-]{32,}+", rb"[ps]at\.[\w-]{22}\.[\w-]{24}\.[\w-]{20}"),
                *(rb"sha256~[\w-]{43,}+", rb"v1\.0-[0-9a-f]{20,}+-[0-9a-f]{100,}+"),
                *(rb"[MNO][\w-]{22,28}\.[\w-]{6}\.[\w-]{27,}+", rb"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}+"),
                *(rb"xoxe\.xox[bp]-[\w-]{40,}+", rb"[\w~.]{3}\dQ~[\w~.-]{31,34}"),
                rb"[a-z]{2,8}_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][\w-]{10,32}\.[\w+/=-]{30,}+",
                rb"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?![\w-])",
            ),
        ),
        (b"/+", (rb"(?:ops_eyJ|glc_|sntrys_|fm[12][ra]?_|ABSK)[\w+/=-]{24,}+", rb"1//0?[\w-]{40,}+")),
        (b":", (rb"(?:bot)?\d{8,10}:AA[\w-]{32,}+", rb"AAAA[\w-]{7}:APA91b[\w-]{100,}+")),
        (b"$", (rb"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}",)),
    )
)
# What one of those has near its beginning.
_PARTS = re.compile(
    rb"SG\.|hv[sbr]\.|ya29|s\.|dt0|t1\.|[ps]k\.eyJ|sl\.|dp\.|[ps]at|sha256~|v1\.0-|[MNO][\w-]{22}|atlasv1|xoxe|\dQ~|acc[_-]|_mmk"
    rb"|ops_|glc_|sntrys|fm[12]|ABSK|1//|:AA|APA91b|access_token|eyJ"
)
_JOINTS = b".~/:$@+"  # what joins parts
_NEAR, _MANY_PARTS = 32, 64  # bytes before a run that matter to it; if it may be a part
_HOOK = re.compile(
    rb"(?:hooks\.slack\.com/(?:services|workflows|triggers)|webhook\.office\.com/webhookb2"
    rb"|discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{1,24})/"
)
_HOOKED = re.compile(rb"[\w/@+-]*+")
_DIGESTS = re.compile(rb"[0-9a-f]{32}-us\d{1,2}(?![\w-])|[0-9a-f]{36}NRAL(?![\w-])")
_HEX32 = re.compile(rb"[0-9a-f]{32}")
_HEX40 = re.compile(rb"[0-9a-f]{40}(?![\w-])")
_WANDB = re.compile(rb"wandb|w&b|weights (?:&|and) biases")
_COMMIT = re.compile(rb"commit|sha|\brev|\bgit\b|hash|digest")
_LOGIN = re.compile(rb"wandb[ \t]{1,8}login[ \t]{1,8}(?:--\w{1,20}[ \t=]{1,8}){0,4}\Z")

# Services whose tokens have no sign of their own: the name before a random value says it.
_SERVICES = re.compile(
    rb"(?<![a-z])(?:adafruit|adobe|airtable|algolia|alibaba|aliyun|asana|atlassian|auth0|azure_?devops|beamer|bitbucket|bittrex|bundle_\w+__"
    rb"|cloudflare|codecov|cohere|coinbase|confluen|contentful|datadog|\bdd_|digitalocean|discord|dropbox|droneci|drone_ci"
    rb"|dynatrace|easypost|etsy|facebook|fastly|finicity|finnhub|flickr|flutterwave|freshbooks|gitter|gocardless|grafana|heroku"
    rb"|hetzner|honeycomb|hubspot|intercom|jfrog|artifactory|jira|kraken|kucoin|launchdarkly|linkedin|linked_in|linode|\blob_"
    rb"|looker|mailchimp|mailgun|mapbox|mattermost|maxmind|meraki|message_?bird|mongodb_?atlas|netlify|new[_-]?relic|ngrok"
    rb"|notion|nytimes|okta|openai|opsgenie|pagerduty|plaid|planetscale|postman|private[_-]?ai|pulumi|rapidapi|rollbar|rubygems"
    rb"|sendbird|sendgrid|sendinblue|sentry|shippo|shopify|snyk|sonar|squarespace|stripe|sumo|telegr|travis|trello|twilio|twitch"
    rb"|twitter|typeform|vercel|yandex|zendesk|(?:php|j|asp\.net_)?sess(?:ion)?id\Z|sig(?:nature)?\Z|cred(?:ential)?s?\Z)"
)
_OPENING = b" \t\"'`(["
_TO_A_NAME = b"=: \t\"'`])>"


def _of_a_run(view: bytes, low: bytes, begin: int, end: int, near: int) -> Iterator[tuple[str, Span]]:
    """What the letters and digits from *begin* to *end* are, or belong to; the *near* bytes before tell whose."""
    done = begin
    for start in _BEGINNINGS.finditer(view, begin, end):
        for name, kind in _BY_BEGINNING.get(start[0], ()) if start.start() >= done else ():
            if kind is not _JWT or view[end : end + 1] == b".":
                found = kind.match(view, start.start())
                if found is not None:
                    done = found.end()
                    yield name, found.span()
    before = _before(view, begin, _MANY_PARTS)
    for signs, kinds in _PARTED:
        lead = _ending(before, _WORD + signs) if before[-1:] in signs and before else b""
        if lead or view[end : end + 1] in signs or signs == b".~":
            found = kinds.match(view, begin - len(lead))
            if found is not None and found.end() > begin:
                yield "tokens", found.span()
    hook = _HOOK.search(before) if b"hook" in before else None
    if hook is not None:
        first = begin - len(before) + hook.end()
        last = _rest(_HOOKED, view, first)
        if last >= end:
            yield "tokens", (first, last)
    found = _DIGESTS.match(view, begin)
    if found is not None:
        yield "tokens", found.span()
    around = before.lower()
    if _LOGIN.search(around):
        yield "tokens", (begin, end)
    elif _HEX40.match(view, begin) and not _COMMIT.search(around[-24:]):
        behind = low[end : end + _BACK]
        if _WANDB.search(around) or _WANDB.search(behind[: _rest(_TO_END, behind, 0)]):
            yield "tokens", (begin, end)
    before = before[-near:] if near else b""
    told = _told(before)
    if told:
        span = _value(view, low, _rest(_BLANKS, view, begin - len(before) + told))
        if span is not None:
            yield "tokens", span


def _told(before: bytes) -> int:
    """Where in *before*, which a value that looks random follows, a service's name has ended; 0 if there is none."""
    part = _ending(before, _VALUE + b":") if b":" in before[-3:] else _ending(before, _VALUE)
    told = before[: len(before) - len(part)].rstrip(_OPENING)
    if told[-1:] not in (b"=", b":", b">", b"|"):
        return 0
    service = _ending(told.rstrip(_TO_A_NAME), _WORD + b" .").lower()
    if not _SERVICES.search(service) or _COMMIT.search(service[-24:]):
        return 0
    return len(told)


@lru_cache(1 << 12)
def _tells_nothing(text: bytes, begin: int, length: int) -> bool:
    """Whether nothing can be made of the run that begins at *begin*: logs have the same ones in most of their lines."""
    before, run, behind = text[:begin], text[begin : begin + length], text[begin + length :]
    if run.islower() and run.translate(None, b"_-").isalpha():
        return True  # words
    joined = before[-1:] in _JOINTS or behind in _JOINTS
    if joined and (b"hook" in before or _PARTS.search(before + run + behind)):
        return False
    for start in _BEGINNINGS.finditer(run):
        if run.startswith(_PREFIXES.get(start[0], ()), start.start()):
            return False
    return not (_HEX32.match(run) or b"login" in before.lower() or run.endswith(b"_mmk") or _told(before))
