"""The names of secrets: a probe for each search word, which reads the name around the word and finds its value.

A probe takes the text, the text in lower case, and the offset of the word. A new name belongs here.
"""

from __future__ import annotations

import re

from flarelog.sources.redaction.secret.kinds import RUN
from flarelog.sources.redaction.secret.value import (
    CHARACTERS,
    COMES_TEXT,
    PATH,
    after,
    all_of,
    bare,
    gap,
    is_asked,
    is_made,
    is_number,
    is_random,
    name_before,
    value_at,
    value_of,
)
from flarelog.sources.redaction.secret.view import BLANKS, Span, end_of, line_before

_NO_SECRET = re.compile(  # words after a secret's name that make it no secret
    rb"[_.-]?(?:file|path|len(?:gth)?|size|count|min|max|policy|field|prompt|reset|stdin|less|expir|chang|requir|attempt"
    rb"|retr|timeout|strength|type|check|valid|manager|protected|name\b|(?:hash|salt)?_?(?:rounds|iter|cost)|algo|shar|limit|budget|per_)"
)
_PASSWORD = re.compile(rb"pass(?:w(?:or)?d|wrd|[ _-]?phrase|[_-]word|code)s?")
_MORE = re.compile(rb"[\w.-]{0,32}")
_ID = re.compile(rb"[ ]id(?=[ \t]{0,8}[=:])")
_PASS = re.compile(rb"pass\d{0,2}(?![a-z])")
_OWNERS = re.compile(
    rb"(?:db|database|mysql|maria|postgres|pg|pgsql|redis|smtp|e?mail|imap|s?ftp|ssh|ldap|user|usr|admin|root|login|my|http"
    rb"|https|proxy|vpn|wifi|mongo|mongodb|rabbit|rabbitmq|amqp|mqtt|kafka|es|elastic|sql|oracle|mssql|jdbc|vault|cert"
    rb"|key|keystore|store|truststore|app|auth|service|svc|bind|basic|client|server|account|registry|docker|api|secret"
    rb"|default|test|temp|tmp|new|old|current|backup|become|require|sudo)\Z"
)
_QUICK = (b"forward", b"backward")


def password(view: bytes, low: bytes, at: int) -> Span | None:
    found, name = _PASSWORD.match(low, at), name_before(view, at)
    if found is None:
        asked = _sshpass(view, low, at) if low.startswith(b"sshpass", at - 3) else None
        return asked or _pass(view, low, at, name)
    if _TYPED.search(line_before(low, at, 24)):
        field = _FIELD.match(low, found.end())
        return None if field is None else value_at(view, low, field.end())
    rest = _MORE.match(low, found.end())
    if rest is not None and _NO_SECRET.match(rest[0]):
        return None
    for end in (rest.end() if rest is not None else 0, found.end()):
        begin = gap(view, end, name, said=True)
        if begin:
            words = not name.startswith(b"-") or view[begin - 1 : begin] in (b"=", b":")
            return value_of(view, low, at, name, begin, words)
    if _NETRC.search(line_before(low, at)):
        return value_at(view, low, end_of(BLANKS, view, found.end()))
    return None


_NETRC = re.compile(rb"\b(?:login|default)[ \t]{1,8}[^\s]{1,64}[ \t]{1,8}\Z")
# HTML's field of a form, whose value is in another attribute.
_TYPED = re.compile(rb"[ \t]type[ \t]?=[ \t]?\\{0,15}[\"']?\Z")
_FIELD = re.compile(
    rb"(?:\\{0,15}[\"'])?(?:[ \t]{1,4}(?!value=)[\w-]{1,24}"
    rb"(?:=(?:\\{0,15}[\"'][^\"'<>\r\n\\]{0,64}\\{0,15}[\"']|[^\s\"'<>\\]{1,64}))?){0,8}[ \t]{1,4}value="
)
_sshpass = after(re.compile(rb"pass[ \t]{1,4}-p[ \t]{0,4}(?=\S)"))


def _pass(view: bytes, low: bytes, at: int, name: bytes) -> Span | None:
    found = _PASS.match(low, at)
    begin = gap(view, found.end(), name) if found is not None else 0
    if found is None or not begin:
        return None
    owner, first = name.rstrip(b"_.-"), bare(view, begin)
    if owner:
        known = _OWNERS.search(owner.lower()[-16:].rpartition(b"_")[2].rpartition(b"-")[2].rpartition(b".")[2])
        shouted = owner.isupper() and view[at : at + 4] == b"PASS" and not is_number(low, first)
        return value_of(view, low, at, name, begin, True) if known or shouted else None
    if not line_before(low, at, 16).rstrip(b" =").endswith((b"-passin", b"-passout", b"-pass")):
        said = begin == found.end() + 1 or view[found.end() : found.end() + 1] in (b'"', b"'")
        word = view[first : end_of(CHARACTERS, view, first)]
        likely = is_random(view, first, 6) or (said and len(word) >= 6 and not word.lower().startswith(_QUICK))
        if is_number(low, first) or PATH.match(view, first) or not likely:
            return None
    return value_of(view, low, at, name, begin)


_PWD = re.compile(rb"pwd\d{0,2}(?![a-z])")


def _pwd(view: bytes, low: bytes, at: int) -> Span | None:
    found, name = _PWD.match(low, at), name_before(view, at)
    begin = gap(view, found.end(), name) if found is not None else 0
    if not begin or PATH.match(view, bare(view, begin)):
        return None
    return value_of(view, low, at, name, begin, not name.startswith(b"-"))


_SECRET = re.compile(rb"secrets?(?!ar[yi])")


# The name of a Kubernetes secret: words, and short parts after a hyphen or dot.
_OF_KUBECTL = re.compile(
    rb"[ ]\\{0,15}\"[a-z]{1,40}(?:[.-][a-z0-9]{1,10}){0,8}\\{0,15}\"[ ]"
    rb"(?:created|configured|unchanged|deleted|patched|not[ ]found|already|is[ ]forbidden)"
)
_OF_AN_APP = re.compile(rb"(?:api|app|client|consumer|oauth|shared|signing|user|webhook|your)[ ]\Z")


def secret(view: bytes, low: bytes, at: int) -> Span | None:
    found, name = _SECRET.match(low, at), name_before(view, at)
    rest = (_ID.match(low, found.end()) or _MORE.match(low, found.end())) if found is not None else None
    if found is None or rest is None or _NO_SECRET.match(rest[0]):
        return None
    begin = gap(view, rest.end(), name, said=True)
    if (
        not (name or rest[0])
        and _OF_KUBECTL.match(view, rest.end())
        and not _OF_AN_APP.search(line_before(low, at, 24))
    ):
        return None
    if not begin or is_number(low, bare(view, begin)):
        return None
    return value_of(view, low, at, name, begin, not name.startswith(b"-"))


_TOKEN = re.compile(rb"tokens?(?:[_.-][\w.-]{0,24}+)?+(?![a-z])" + COMES_TEXT)
_OF_A_MODEL = re.compile(
    rb"(?:pad|eos|bos|unk|sep|cls|mask|next|special|added|image|num|max|min|total|new|input|output|prompt|completion|first"
    rb"|last|prev|target|start|end|stop|video|audio|decoder|encoder|extra|per)\Z"
)
_OF_A_DOOR = re.compile(
    rb"(?:access|auth|oauth2?|refresh|id|api|session|csrf|xsrf|personal|private|deploy|bot|device|login|registration|runner"
    rb"|service|account|app|job|ci|hub|hf|github|gitlab|bearer|security|vault|consumer|client|user|webhook|write|read"
    rb"|admin|reset|verification|invite|secret|x|npm|pypi|slack|join)\Z"
)


# The name of a page in the query for the next one; and a list of tokens that are no model's.
_REMEMBERED = re.compile(rb"remember[\w.-]{0,16}token[\"']?[=:][ ]?[\"']?(?=\d{1,12}\|[0-9a-f]{40})")
_OF_A_PAGE = re.compile(rb"(?:next|prev(?:ious)?|first|last|start|begin|end|latest|earliest)(?![\w.~+/=%-])")
_A_LIST = re.compile(rb"\[[ ]{0,4}\\{0,15}[\"']?(?=[\w.-]{0,64}[0-9])(?=[\w.-]{0,64}[A-Za-z])[\w.-]{20,}+")


# A token, but no count of tokens as in the logs of language models.
UNCOUNTED = re.compile(
    rb"token(?!iz|s?[\w.-]{0,24}+[\"']?(?:/s(?:ec)?)?[ ]?[=:][ ]?"
    rb"[+-]?\d[\d,]*+(?:\.\d*+)?(?:e[+-]?\d++)?(?=[\s,;)}\]]|\Z))"
)


def token(view: bytes, low: bytes, at: int) -> Span | None:
    remembered = _REMEMBERED.match(low, max(0, at - 9))
    if remembered is not None:
        return value_at(view, low, remembered.end())
    found = _TOKEN.match(low, at)
    if found is None or _NO_SECRET.match(low, at + 5):
        return None
    begin, name = found.end(), name_before(view, at)
    blank = found["flag"] is not None and not name.startswith(b"-")
    if blank and not is_made(view, found.start("flag"), name):
        return None
    owner, first = name.strip(b"_.-"), bare(view, begin)
    if is_number(low, first) or PATH.match(view, first) or _OF_A_MODEL.search(owner.lower()):
        return None
    asked = is_asked(view, at, name)
    if (asked and _OF_A_PAGE.match(low, first)) or (blank and not _OF_A_DOOR.search(owner.lower())):
        return None
    if _A_LIST.match(view, first):
        return value_of(view, low, at, name, begin)
    strong = asked or (owner.isupper() and view[at : at + 5] == b"TOKEN") or _OF_A_DOOR.search(owner.lower())
    if view[first : first + 1] in b"[<{(" or not (strong or is_random(view, first, 8)):
        return None
    return value_of(view, low, at, name, begin)


_KEY = re.compile(
    rb"keys?(?:[_-]?(?:id|value|data|base|secret|hex|b64|base64|\d{1,2})|[ ]\d{1,2})?"
    rb"(?:[ ]\(will be hidden\))?(?![a-z])" + COMES_TEXT
)
_OF_A_LOCK = re.compile(
    rb"(?:api|app|secret|access|private|fernet|account|signing|encryption|shared|sharedaccess|subscription|master|auth|storage|hmac"
    rb"|webhook|deploy|license|licence|decryption|crypto|admin|functions|service|consumer|ssh|ingest|write|maps|publish"
    rb"|unseal|recovery|wrapping|root)"
    rb"[ _.-]?\Z"
)
# Keys that also name a queue, a metric or a column: only a long random value is a secret.
_OF_A_SERVICE = re.compile(
    rb"(?:routing|integration|application|instrumentation|events?|project|write|server|tenant|host)[ _.-]?\Z"
)
_NUMBERED = re.compile(rb"key[ ]\d{1,2}:")
_SHARE = re.compile(rb"(?:[0-9a-f]{66}|[A-Za-z0-9+/]{44})(?![\w+/=])")
_SHARES = re.compile(rb"\[[ ]{0,4}[\"'](?:[0-9a-f]{64,66}|[A-Za-z0-9+/]{43,44}={0,2})[\"']")  # of Vault's master key
_LONG = re.compile(
    rb"(?:(?=[A-Za-z]{0,63}\d)(?=\d{0,63}[A-Za-z])[A-Za-z0-9]{20,}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22})(?![\w.-])"
)


def key(view: bytes, low: bytes, at: int) -> Span | None:
    found = _KEY.match(low, at)
    if found is None:
        return None
    begin, name = found.end(), name_before(view, at)
    if found["flag"] is not None and not name.startswith(b"-") and not is_made(view, found.start("flag"), name):
        said = _LONG.match(view, begin) and _OF_A_SERVICE.search(line_before(low, at, 24))
        return value_at(view, low, begin) if said else None
    first, asked = bare(view, begin), is_asked(view, at, name)
    if is_number(low, first) or PATH.match(view, first):
        return None
    owner = line_before(low, at, 24)
    random = is_random(view, first, RUN)
    if not (
        _OF_A_LOCK.search(owner)
        or (name.isupper() and name.endswith(b"_") and is_random(view, first, 8))
        or (random and (asked or owner.endswith((b"client-", b"client_", b"session_", b"session-"))))
        or (random and b'"username"' in line_before(low, at))
        or (random and _LONG.match(view, first) and _OF_A_SERVICE.search(owner))
        or (_SHARE.match(view, first) and _NUMBERED.match(low, at))
        or (_SHARES.match(view, first) and (b"keys_" in found[0] or b"keys_b" in low[found.end() : found.end() + 512]))
    ):
        return None
    return value_of(view, low, at, name, begin)


_AUTHORIZATION = re.compile(rb"authori[sz]ation")
_AUTH = re.compile(rb"auth(?:entication)?(?![a-z])")
_SASL = re.compile(rb"auth[ \t]{1,4}(?:plain|login|xoauth2|cram-md5)[ \t]{1,4}(?=[\w+/=]{8})")
_PAIR = re.compile(
    rb"auth(?:[ \t]{0,4}[=:][ \t]{0,4}[\w.]{0,32})?\([ \t]{0,4}"
    rb"[bru]?([\"'])[^\"'\r\n]{0,128}\1[ \t]{0,4},[ \t]{0,4}(?=[bru]?[\"'])"
)
_SCHEME = re.compile(
    rb"(?:(bearer|basic|token|ntlm|apikey|api-key|splunk|key|sso-key|geniekey|jwt|pve\w{1,12}|dsn|bot|client-id)"
    rb"|digest|negotiate|hawk|oauth|signature|kerberos|aws4-[\w-]{1,24}|[\w-]{0,12}hmac-sha\d{1,3})"
    rb"(?:[ \t]{1,8}|%20|\+)"
)


def auth(view: bytes, low: bytes, at: int) -> Span | None:
    pair = _PAIR.match(low, at) or _SASL.match(low, at)
    if pair is not None:
        return value_at(view, low, pair.end())
    header = _AUTHORIZATION.match(low, at)
    found, name = header or _AUTH.match(low, at), name_before(view, at)
    begin = gap(view, found.end(), name) if found is not None else 0
    if not begin:
        return None
    first = bare(view, begin)
    scheme = _SCHEME.match(low, first)
    if scheme is None:
        return value_at(view, low, begin) if is_random(view, first, RUN if header else 8) else None
    quoted = view[first - 1 : first] in (b'"', b"'", b"`") and first > begin
    if quoted:
        whole = value_at(view, low, begin)
        return (scheme.end(), whole[1]) if whole is not None and scheme.end() < whole[1] else None
    if scheme[1] is not None and not quoted:
        return value_at(view, low, scheme.end())
    return all_of(view, scheme.end(), view[at - len(name) - 1 : at - len(name)])


_BEARER = re.compile(rb"bearer(?:[ \t]{1,8}|%20)")


def bearer(view: bytes, low: bytes, at: int) -> Span | None:
    found = _BEARER.match(low, at)
    if found is None or view[at - 1 : at].isalnum() or not is_random(view, found.end(), 8):
        return None
    return value_at(view, low, found.end())


_COOKIE = re.compile(rb"cookies?(?:[_-]?jar)?(?![a-z])")
_CRUMB = re.compile(rb"b?[\"'`]?[^\s=;,\"'`(){}<>*]{1,80}=(?!=)")


def cookie(view: bytes, low: bytes, at: int) -> Span | None:
    found, name = _COOKIE.match(low, at), name_before(view, at)
    begin = gap(view, found.end(), name) if found is not None else 0
    if not begin:
        return None
    if view[begin : begin + 1] in (b"{", b"["):
        return value_at(view, low, begin)
    first = bare(view, begin)
    if _CRUMB.match(view, begin) is None:
        return value_at(view, low, begin) if is_random(view, first, RUN) else None
    return (
        value_at(view, low, begin) if first > begin else all_of(view, begin, view[at - len(name) - 1 : at - len(name)])
    )


_USER = re.compile(
    rb"-(?<!\*-)u(?:ser)?(?:[ \t]{1,4}|=|(?=[^\s:]{1,64}:))"
    rb"(\\{0,7}[\"']?)([^\s:\"'@/=]{1,128}):(?!\2\b)(?=[^\s/])"
)


def user_and_password(view: bytes, low: bytes, at: int) -> Span | None:
    """The password in the arguments of curl and similar programs: -u NAME:PASSWORD."""
    found = _USER.match(view, at)
    if found is None or is_number(low, found.end()) or name_before(low, at).strip(b"-") not in (b"", b"proxy", b"http"):
        return None
    if found[1]:
        return all_of(view, found.end(), found[1][-1:])
    return value_at(view, low, found.end())


_PW = re.compile(rb"(?<=bind)pw|(?<=root)pw|(?<=user)pw|(?<=admin)pw|(?<=ldap)pw|(?<=[a-z]_)(?<!conv_)pw")


_NO_PW = re.compile(rb"\w{1,64}\(|\d++[xX]\d|[\d.,]++[a-z]{0,4}\b")  # a layer of a model, a size, a measure


def pw(view: bytes, low: bytes, at: int) -> Span | None:
    """The password under the names of databases and LDAP programs: pwd, bindpw, db_pw."""
    if low.startswith(b"d", at + 2):
        return _pwd(view, low, at)
    if low[at + 2 : at + 3].isalpha():
        return None
    name, known = name_before(view, at), _PW.match(low, at)
    likely = (
        known
        or (not name.rstrip(b"-") and view[at - 1 : at] not in (b"+", b"*", b"/"))
        or _OWNERS.fullmatch(name.lower())
    )
    begin = gap(view, at + 2, b"") if likely else 0
    first = bare(view, begin)
    if (
        not begin
        or is_number(low, first)
        or not (known or (is_random(view, first, 6) and not _NO_PW.match(view, first)))
    ):
        return None
    return value_of(view, low, at, name, begin, words=True)


_LOGGED_IN = re.compile(rb"\blogin\b[^\r\n|;]*\Z")


def logging_in(view: bytes, low: bytes, at: int) -> Span | None:
    """The password in the arguments of container tools: login -u NAME -p PASSWORD."""
    if _LOGGED_IN.search(line_before(low, at)) is None or low[at + 4 : at + 5] in (b"-", b"", b" "):
        return None
    return value_at(view, low, at + 4)


identified = after(
    re.compile(rb"identified[ \t]{1,4}(?:with[ \t]{1,4}\S{1,40}[ \t]{1,4})?(?:by|as)[ \t]{1,4}(?:password[ \t]{1,4})?")
)


_DOCKER = re.compile(rb"dockerc(?:onfig(?:json)?|fg)")


def docker(view: bytes, low: bytes, at: int) -> Span | None:
    """The content of Docker's file of passwords, in base64 or JSON: .dockerconfigjson."""
    found = _DOCKER.match(low, at)
    begin = gap(view, found.end(), b"") if found is not None else 0
    return value_at(view, low, begin) if begin and is_random(view, bare(view, begin), RUN) else None


_SAML = re.compile(rb"saml[_-]?(?:response|request|assertion|token|art)(?![a-z])")


def saml(view: bytes, low: bytes, at: int) -> Span | None:
    found, name = _SAML.match(low, at), name_before(view, at)
    begin = gap(view, found.end(), name) if found is not None else 0
    if not begin or not is_random(view, bare(view, begin), 20):
        return None
    return value_of(view, low, at, name, begin)


_SID = re.compile(rb"s%3a[\w%-]{16,128}\.[\w%+/-]{20,128}")


def sid(view: bytes, low: bytes, at: int) -> Span | None:
    """A signed session of Express: s:ID.SIGNATURE, quoted for a cookie."""
    found = _SID.match(low, at)
    return None if found is None else found.span()


_PSK = re.compile(rb"psk(?![a-z])")


def psk(view: bytes, low: bytes, at: int) -> Span | None:
    """A preshared key, as of WPA."""
    found, name = _PSK.match(low, at), name_before(view, at)
    begin = gap(view, found.end(), name) if found is not None else 0
    first = bare(view, begin)
    if not begin or is_number(low, first) or not (first > begin or is_random(view, first, 8)):
        return None
    return value_of(view, low, at, name, begin)


_CODE = re.compile(rb"(?:recovery|backup|pin)[ _-]?codes?(?![a-z])")


def code(view: bytes, low: bytes, at: int) -> Span | None:
    """A code that replaces a password."""
    found, name = _CODE.match(low, at), name_before(view, at)
    begin = gap(view, found.end(), name) if found is not None else 0
    if not begin or not view[bare(view, begin) : bare(view, begin) + 4].isalnum():
        return None
    return value_of(view, low, at, name, begin, True)


_SEED = re.compile(rb"(?:seed|mnemonic|privkey)(?:[ _-]?(?:phrase|words?|hex|wif))?(?![a-z])")
_OF_A_WALLET = re.compile(rb"(?:master|wallet|secret|hd|bip39|recovery|private|root|account)[ _.-]?\Z")
_WORDS = re.compile(rb"[\"'\[]{0,2}(?:[a-z]{3,8}[\"']?,?[ ][\"']?){11}[a-z]{3,8}")


def seed(view: bytes, low: bytes, at: int) -> Span | None:
    """The seed of a wallet: twelve words or more, or a long random value. The seed of a training is a number."""
    if low.startswith((b"master", b"secret", b"wallet"), at):
        at += 7
    found, name = _SEED.match(low, at), name_before(view, at)
    if found is None:
        return None
    begin = gap(view, found.end(), name) or (found.end() + 1 if view[found.end() : found.end() + 1] == b" " else 0)
    first = bare(view, begin)
    if not begin or not (
        _WORDS.match(low, first)
        or (
            is_random(view, first, 20)
            and (name.isalpha() or found[0] != b"seed" or _OF_A_WALLET.search(line_before(low, at, 24)))
        )
    ):
        return None
    return value_of(view, low, at, name, begin, _WORDS.match(low, first) is not None)


_BEFORE_ITS_NAME = re.compile(
    rb"value[\"']?[ ]{0,4}[:=][ ]{0,4}(?:\"([^\"\r\n]{1,512})\"|'([^'\r\n]{1,512})'|([^\s\"',]{1,256}))"
    rb"[ ]{0,4},[ ]{0,4}"
    rb"[\"']?(?:name|key|variable)[\"']?[ ]{0,4}[:=][ ]{0,4}[\"']?([\w.-]{3,128})",
    re.IGNORECASE,
)


def before_its_name(view: bytes, low: bytes, at: int) -> Span | None:
    """The value of a secret whose name follows: {"value": "x", "name": "DB_PASSWORD"}."""
    found = _BEFORE_ITS_NAME.match(view, at)
    if found is None or view[at - 1 : at] not in (b'"', b"'", b"{", b" ", b","):
        return None
    which = next(number for number in (1, 2, 3) if found[number] is not None)
    value, name = found[which], found[4]
    line = name + b': "' + value + b'"'
    lowered = line.lower()
    for word, probe in ((b"pass", password), (b"secret", secret), (b"token", token), (b"key", key), (b"pw", pw)):
        where = lowered.find(word)
        if 0 <= where < len(name) and probe(line, lowered, where) is not None:
            return found.span(which)
    return None
