"""Lines that only speak of trouble: what a program would do about it, a setting, a help text, a check that found none.

A line says what it knows. What an exception or a level of ERROR says is meant, whatever stands around it.
"""

from __future__ import annotations

from flarelog.late import late

BEFORE, BEHIND = 160, 40  # characters that are looked at

# Nearest to the trouble that is named, in the same sentence. What stands behind a colon has happened.
_SPOKEN = late(
    r"(?:(?<![\w-])(?:may(?! \d)|(?i:if|when|whenever|unless|in case(?: of)?|in the event of"
    r"|(?:should|would|can|could|might)(?! not\b|n't)"
    r"|(?:to |will )?(?:avoid|prevent|reduce|fix|catch|handle|tolerate|survive|ignore|simulate|inject|expect|test for"
    r"|check for|look for|recover from|protect against|retry on|retry after|fall back on|restart on)"
    r"|(?:avoid|prevent|reduc|fix|catch|handl|tolerat|surviv|ignor|simulat|inject|expect|test|check|look|recover"
    r"|protect"
    r"|retry|restart)(?:s|es|ing|ies)(?: (?:on|for|from|after|against))?|retries on|retry(?: \w+){0,4} on"
    r"|e\.g\.|for example|such as|known (?:errors?|issues?)|without|never|instead of|regardless of"
    r"|no(?: more)?))(?![\w-])(?:(?!:\s)[^.;!?]){0,80}"
    r"|(?:(?:Namespace|Config|Args|Arguments|Options|Settings)\("
    r"|(?i:[\w.-]*(?:retry|retries|ignore|skip|match|pattern|catch|filter|regex|known|exit_code|handle[\w.-])"
    r"[\w.-]{0,30}['\"]?\s{0,3}[:=]))[^.;!?]{0,80})$"
)
_HELP = late(r"\s*(?:--?[A-Za-z][\w-]*[ ,=]|#|//|(?i:hint|tip|note|usage|help|example):|\[-)")
# It is there, and says of itself that it is an error: before what is named.
_MEANT = late(
    r"(?<![\w.-])(?:ERROR|FATAL|CRITICAL|SEVERE)(?![\w-])|(?:^|[\]):>|] ?|\s)[\w.]{0,80}(?:Error|Exception|Warning): "
    r"|^(?:\[[^\]]{0,40}\]:?\s?)?[EF]\d{4} \d\d:\d\d|^[\d :.T-]{10,40}: [EF] |\b(?:error|fatal): "
)
# Directly behind it: that it is not so.
_DENIED = late(
    r"[\w ]{0,24}?['\"]?\s{0,3}(?:[:=]|\.{3,20}|\b(?:is|was|are|were)\b)\s{0,3}['\"]?"
    r"(?i:no|none|false|never|off|0|disabled|not (?:found|detected|seen))['\"]?\s*(?:$|[,;)}\]])"
)
_TREATED = late(
    r"[^.;!?]{0,30}(?<![\w-])(?:is|are) (?:then )?(?i:handled|ignored|retried|caught|tolerated|skipped|expected)\b"
)


def only_speaks(text: str, begin: int, end: int) -> bool:
    """Whether the line *text* only speaks of the trouble that it names between *begin* and *end*."""
    if denied(text, end) or _TREATED.match(text[end : end + BEHIND]) is not None or _HELP.match(text) is not None:
        return True
    return _MEANT.search(text[:begin]) is None and _SPOKEN.search(text[max(0, begin - BEFORE) : begin]) is not None


def denied(text: str, end: int) -> bool:
    """Whether the line *text* says that what it names before *end* is not so."""
    return _DENIED.match(text[end : end + BEHIND]) is not None
