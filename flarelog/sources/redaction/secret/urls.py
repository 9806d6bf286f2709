"""The secrets in a URL that no name announces: the path of a webhook, a token that is a part of a path, a key after
``#login=``. A URL with such a part is as good as a password.
"""

from __future__ import annotations

import re

from flarelog.sources.redaction.secret.view import Span, end_of

_UUID = rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# A part of a path that looks generated: a UUID, or letters and digits.
_MADE = (
    rb"(?:%b(?:@[0-9a-f-]{36})?|(?=[A-Za-z]{0,199}\d)(?=\d{0,199}[A-Za-z])[A-Za-z0-9]{%%d,200}"
    rb"|(?=[\w@-]{0,199}?[A-Z])(?=[\w@-]{0,199}?[a-z])(?=(?:[A-Za-z_@-]{0,99}\d){3})[\w@-]{22,200})"
    rb"(?=[/?#\s\"'`,;)\]}<>]|\Z)" % _UUID
)
_REST = re.compile(rb"[^\s\"'`<>?#\\,;)\]}]*+")
_STEPS = rb"(?:/[\w.-]{1,40}){0,5}?/"
_HOST = rb"(?:[\w.-]{1,100}?\.)?"
# The text from the host to the secret.
_PATHS = re.compile(
    rb"(?:%b(?:hooks\.zapier\.com/hooks/(?:catch|standard)/|hook\.[a-z]{2}\d\.make\.com/|hook\.integromat\.com/" % _HOST
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
