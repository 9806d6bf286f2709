"""Lines that only speak of trouble: what a program would do about it, a setting, a help text, a check that found none.

A line says what it knows. What an exception or a level of ERROR says is meant, whatever stands around it.
"""

from __future__ import annotations

from flarelog.detect.base import LOOKED
from flarelog.late import late
from flarelog.render.levels import Level, level_of

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
_HELP = late(
    r"\s*(?:--?[A-Za-z][\w-]*[ ,=]|#(?!.{0,60}\bError: |\s{1,4}(?:A fatal error|SIG|There is insufficient"
    r"|Native memory|Out of Memory|Internal Error))|//|(?i:hint|tip|note|usage|help|example):|\[-)"
)
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
# Directly behind it: how often it was there. An exception has its argument there: "KeyError: 0".
_NEVER = late(
    r"(?<![a-z]Error)(?<!Exception)['\"]?\s{0,3}[:=]\s{0,3}['\"]?0['\"]?(?: times?| events?)?\s*(?:$|[,;)}\]])"
)
_TROUBLE = r"(?:errors|failures|exceptions|faults|issues|problems|crashes|panics|timeouts|violations|mismatches)"
# A number that stands before a noun, and is not the one of a device or a rank: "GPU 0", "rank 0".
_ZERO = (
    r"(?:(?P<before>^|[:;,.|\])>=-]\s{1,3}|[(\[]|\d\d:\d\d\S{0,14}\s{1,3}|\b(?:with|found|had|has|have|got|and|or|of|saw|detected"
    r"|reported|INFO)\s{1,3})(?:0|[Zz]ero)|\b[Nn]o)"
)
# What says that nothing is wrong. What else stands in the line may say that something is.
_NOTHING = late(
    rf"{_ZERO} (?:[\w-]{{1,20}} ){{0,2}}(?:{_TROUBLE}"
    r"|(?:permission|access|connections?|requests?) (?:denied|refused|reset))\b(?! ?[:(])"
    rf"|(?:\[ERROR\]|\bERROR:?)\s{{1,3}}(?:0|[Zz]ero|[Nn]o) (?:[\w-]{{1,20}} ){{0,2}}{_TROUBLE}"
    r"(?: (?:found|detected|reported))?\.?\s*$"
    r"|(?<![\w.])(?:(?:[Ee]rrors|[Ff]ailures|[Ee]xceptions|[Ff]aults|error|exception|failure|err)['\"]?\s{0,3}[:=]\s{0,3}['\"]?"
    r"(?i:none|n/a|(?<!^fatal error: )(?<![^a-z] fatal error: )(?:null|nil))"  # a failure that has no more to say
    r"|[Ee]rror['\"]?\s?[:=]\s{0,3}['\"]?(?i:no errors?|success))['\"]?\s{0,3}(?=$|[,;)}\]|])"
)
# A test that went well has the name of the trouble that it is about.
_PASSED = late(r"(?:(?<!\d )\btests? passed|['\":.]\s{0,2}(?:ok|OK|PASS|PASSED))\s*$")
_ASKED = late(r"(?i:\b(?:what|why|how|when|where|which|does|is|can)) [^.;!?]{0,60}$")
_SAMPLE = late(r"['\"](?i:prompt|question|answer|completion|response|instruction)['\"]\s?:\s?(?:\"[^\"]*|'[^']*)$")
_QUESTION = late(r"[^.;!?]{0,40}\?")
_TREATED = late(
    r"[^.;!?]{0,30}(?<![\w-])(?:is|are) (?:then )?(?i:handled|ignored|retried|caught|tolerated|skipped|expected)\b"
)
# The program goes on. What follows may say that this failed too.
_AGAIN = (
    r"(?<![\w-])(?<!\bnot )(?<!longer )(?<!while )(?<!when )(?<!after )(?<!before )(?<!by )(?<!stopped )(?<!up )"
    r"(?:[Rr]etrying|[Tt]rying again|[Ww]ill (?:be retried|retry|try again|reconnect)|[Ff]alling back|[Bb]acking off"
    r"|[Aa]ttempting to recover|[Tt]rying to (?:resume|reconnect|recover)|[Pp]roceeding (?:\w{{1,20}} ){{0,6}}anyway"
    r"|(?:skipping|reducing) (?:this |the |training )?batch{})(?![\w-]|\s?[=:]\s?\d)"
    r"(?![^.;]{{0,80}}\b(?:failed|did not|gave up|exhausted)\b)"
)
_RETRIED = late(_AGAIN.format(""))
_WENT_ON = late(_AGAIN.format("|[Ii]gnoring|(?:[Ww]as |[Bb]e |[Ii]s )?[Ii]gnored|[Cc]ontinuing|[Ss]kipping"))


_TRY = late(r"^.{0,80}?\b(?i:retry|retrying|attempt|try) #?(?P<this>\d{1,4})(?:/| of )(?P<all>\d{1,4})\b")


def is_retried(text: str, begin: int, end: int) -> bool:
    """Whether the line *text* says that the program tries again what failed, which it names from *begin* to *end*.

    Before the trouble such words count only in a line of a low level: "Retrying failed: ..." says the opposite.
    """
    level = level_of(text)
    if level is not None and level >= Level.FATAL:
        return False
    if _RETRIED.search(text, end) is not None:
        return True
    said = _TRY.match(text)
    if said is not None and int(said["this"]) < int(said["all"]):
        return True
    return level is not None and level <= Level.WARNING and _RETRIED.search(text[:begin]) is not None


def goes_on(text: str, *, after: bool = False) -> bool:
    """Whether the line *text*, of a low level or of none, says that the program goes on after what failed. *after*: it
    stands behind a traceback, where a program that ends says what it leaves out too.
    """
    level = level_of(text)
    words = _RETRIED if after else _WENT_ON
    return (level is None or level <= Level.WARNING) and words.search(text[:LOOKED]) is not None


def only_speaks(text: str, begin: int, end: int) -> bool:
    """Whether the line *text* only speaks of the trouble that it names between *begin* and *end*."""
    if denied(text, end) or _TREATED.match(text[end : end + BEHIND]) is not None or _HELP.match(text) is not None:
        return True
    if _SAMPLE.search(text[:end]) is not None:
        return True
    if _QUESTION.match(text[end : end + BEHIND + 2]) is not None and _ASKED.search(text[:begin][-BEFORE:]) is not None:
        return True
    return _MEANT.search(text[:begin]) is None and _SPOKEN.search(text[max(0, begin - BEFORE) : begin]) is not None


def denied(text: str, end: int) -> bool:
    """Whether the line *text* says that what it names before *end* is not so."""
    named = len(text[:end].rstrip(" :="))
    return _DENIED.match(text[end : end + BEHIND]) is not None or _NEVER.match(text, named, end + BEHIND) is not None


def without_nothing(text: str) -> str:
    """The line *text* without what says in it that nothing is wrong: that there were 0 errors, or a test went well."""
    level = level_of(text)
    if (level is None or level < Level.ERROR) and _PASSED.search(text[-BEFORE:]) is not None:
        return ""
    return _NOTHING.sub("\\g<before>\0", text)
