"""The secrets around a sign: a URL's password and an email address around an @, a password's hash after a $, and the
secrets in a URL that no name announces.
"""

from __future__ import annotations

import re

from flarelog.sources.redaction.secret.kinds import RUN
from flarelog.sources.redaction.secret.value import is_random
from flarelog.sources.redaction.secret.view import BACK, WORD, Span, end_of, ending, line_before

_OF_A_URL = bytes(byte for byte in range(0x21, 0x100) if byte not in b"\"'`<>\\\x7f")
_TO_END_OF_URL = re.compile(rb"[^\x00-\x20\"'`<>\\\x7f]{0,2048}+")
_MAX_USERINFO = 2048
_SLASHES = (b"://",)
_PORT = re.compile(rb"\d{1,5}(?:[/?#]|\Z)")


# Oracle's NAME/PASSWORD@, and NAME:PASSWORD@ outside a URL: the words before it, or a password with digits and letters
# of both cases, tell it from a tag and a place.
_ORACLE = re.compile(
    rb"(?i:jdbc:oracle:\w{2,5}:|\bsqlplus[ \t]{1,4}(?:-\w{1,8}[ \t]{1,4}){0,3})[\w$#.]{1,64}/([^\s\"'@]{1,64})\Z"
)
_SIGNED_IN = re.compile(
    rb"(?:\b(?i:as|user|login|with|using|credentials|account)[ \t]{1,3}[\"']?(?=[\w.+-]{1,64}:\S*[A-Za-z])"
    rb"|(?:(?<![\w.:/@+%-])|\b[A-Z][A-Za-z0-9.-]{0,32}/)(?=[\w.+-]{1,64}:\S*[A-Z])(?=[\w.+-]{1,64}:\S*[a-z])(?=[\w.+-]{1,64}:\S{8}))"
    rb"[A-Za-z_][\w.+-]{0,63}:(?=\S*[0-9])([^\s:/@\"'<>(){}\[\],;]{6,64})\Z"
)
_HOST = re.compile(rb"@(?!sha\d)[A-Za-z0-9\[]")


def _signed_in(view: bytes, at: int) -> Span | None:
    before = line_before(view, at, BACK)
    found = _ORACLE.search(before) if b"/" in before else None
    if found is None and b":" in before and _HOST.match(view, at):
        found = _SIGNED_IN.search(before)
    return None if found is None else (at - len(found[1]), at)


def userinfo(view: bytes, _: bytes, at: int) -> Span | None:
    """NAME:PASSWORD@ of a URL; the password may contain @ and /. An empty span says where to continue."""
    end = end_of(_TO_END_OF_URL, view, at)
    low = max(0, at - _MAX_USERINFO)
    begin = max(found + len(sign) if (found := view.rfind(sign, low, at)) >= 0 else -1 for sign in _SLASHES)
    if begin < 0 or view[begin:at].strip(_OF_A_URL):
        signed = _signed_in(view, at)
        if signed is not None:
            return signed
        behind = view.find(b"//", at, end)
        return (behind, behind) if behind >= 0 else (end, end)
    last = view.rfind(b"@", at, end)
    user, colon, password = view[begin:at].partition(b":")
    if not colon:
        # A lone key, as in a DSN.
        return (begin, at) if len(user) >= RUN and user.isalnum() and is_random(view, begin, RUN) else None
    if b"/" in user or not password or _PORT.match(password):
        return None
    while last > at and b"/" in view[at:last] and b"." in view[at : view.find(b"/", at)]:
        last = view.rfind(b"@", at, last)
    return at - len(password), max(at, last)


_LOCAL = WORD + b".+%!#^~'&" + bytes(range(0x80, 0x100))
ESCAPED = re.compile(rb"%(?:25)?40")  # an @ in a URL, and in a URL within one
_DOMAIN = re.compile(
    rb"(?:@|%(?:25)?40)(?:[A-Za-z0-9\x80-\xff-]{1,189}\.){1,127}(?:[xX][nN]--[A-Za-z0-9-]{1,59}|[A-Za-z\x80-\xff]{2,72})(?![A-Za-z0-9])"
)


def email(view: bytes, low: bytes, at: int) -> Span | None:
    found = _DOMAIN.match(view, at)
    local = ending(line_before(view, at, 193), _LOCAL).lstrip(b"'&") if found is not None else b""
    if found is None or not 1 <= len(local) <= 192 or local == b"git":
        return None
    return at - len(local), found.end()


_CRYPT = re.compile(rb"\$(?:2[abxy]?|[156]|y|gy|7|apr1|argon2(?:id?|d)|scrypt|pbkdf2[\w-]{0,16})\$[^\s\"'`:;]{16,}+")
_DJANGO = re.compile(rb"(?:pbkdf2_sha\d{1,3}|argon2|bcrypt_sha256|scrypt)\Z")
_DJANGO_REST = re.compile(rb"\$[^\s\"'`:,;]{16,}+")


def password_hash(view: bytes, low: bytes, at: int) -> Span | None:
    found = _CRYPT.match(view, at)
    if found is not None:
        return found.span()
    word = ending(line_before(low, at, 24), WORD)
    rest = _DJANGO_REST.match(view, at) if _DJANGO.search(word) else None
    return None if rest is None else (at - len(word), rest.end())


# As good as a password: the path of a webhook, a token in a URL's path, a key after ``#login=``.
_UUID = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# A part of a path that looks generated: a UUID, or letters and digits.
_MADE = (
    rb"(?:%b(?:@[0-9a-f-]{36})?|(?=[A-Za-z]{0,199}\d)(?=\d{0,199}[A-Za-z])[A-Za-z0-9]{%%d,200}"
    rb"|(?=[\w@-]{0,199}?[A-Z])(?=[\w@-]{0,199}?[a-z])(?=(?:[A-Za-z_@-]{0,99}\d){3})[\w@-]{22,200})"
    rb"(?=[/?#\s\"'`,;)\]}<>]|\Z)" % _UUID
)
_REST = re.compile(rb"[^\s\"'`<>?#\\,;)\]}]*+")
_STEPS = rb"(?:/[\w.-]{1,40}){0,5}?/"
_SUBDOMAIN = rb"(?:[\w.-]{1,100}?\.)?"
# The text from the host to the secret.
_PATHS = re.compile(
    rb"(?:%b(?:hooks\.zapier\.com/hooks/(?:catch|standard)/|hook\.[a-z]{2}\d\.make\.com/|hook\.integromat\.com/"
    % _SUBDOMAIN
    + rb"|webhook\.site/|hc-ping\.com/(?:[\w-]{22}/|ping/)?|nosnch\.in/|cronitor\.link/p/|maker\.ifttt\.com"
    + _STEPS
    + rb"|in-automate\.brevo\.com/p/|ntfy\.sh/up|api\.day\.app/|api\.pushcut\.io/|sctapi\.ftqq\.com/)(?=\w)"
    + rb"|[\w.:@-]{1,128}"
    + _STEPS
    + rb"(?:[\w.-]{0,24}[Hh]ooks?|webhookb2|heartbeat|incomingwebhook|trigger)(?:/[\w.-]{1,40}){0,4}?/(?=%b)"
    % (_MADE % 16)
    + rb"|[\w.-]{0,100}?hook[\w.:-]{0,60}(?:/[\w.-]{1,40}){0,4}?/(?=%b)" % (_MADE % 20)
    + rb"|[\w.:@-]{1,128}(?:/[\w.-]{1,40}){0,4}?/t/(?=[A-Za-z]{2,4}-%b/|%b))" % (_UUID, _MADE % 22),
)
_HOSTED = re.compile(rb"(eo[a-z0-9]{10,24})\.m\.pipedream\.net")


def path(view: bytes, _: bytes, at: int) -> Span | None:
    """The secret part of the path, or of the host, of the URL whose ``://`` is at *at*."""
    begin = at + 3
    hosted = _HOSTED.match(view, begin)
    if hosted is not None:
        return hosted.span(1)
    found = _PATHS.match(view, begin)
    if found is None:
        return None
    end = end_of(_REST, view, found.end())
    if found[0].endswith(b"/t/"):  # the path goes on after the token
        end = view.find(b"/", found.end(), end) if b"/" in view[found.end() : end] else end
    return found.end(), end


_LOGIN = re.compile(
    rb"[#?&;](?:login|code|ticket|samlart)=(?=[\w.~%+/=-]{0,200}?\d)(?=[\w.~%+/=-]{0,200}?[A-Za-z])([\w.~%+/=-]{20,}+)"
)


def login(view: bytes, low: bytes, at: int) -> Span | None:
    """The value after ``#login=``, as in flarelog's own links, or of OAuth's ``code=``; *at*: after the sign."""
    found = _LOGIN.match(low, at if view[at : at + 1] in b"?&" else at - 1)
    return None if found is None else found.span(1)
