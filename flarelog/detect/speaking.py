"""Lines that only speak of trouble: a precaution, a setting, a help text, a check that found none.

An exception or a level of ERROR before the trouble means that it happened, even beside "if" or "may".
"""

from __future__ import annotations

from collections.abc import Iterable

from flarelog.detect.base import LOOKED, sieved
from flarelog.late import late
from flarelog.lines.levels import Level, is_error, level_of

BEFORE, BEHIND = 160, 40  # characters before and behind the trouble that are searched

# Conditions and precautions right before the trouble, in the same sentence. Trouble behind a colon has happened.
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
    r"|Native memory|Out of Memory|Internal Error))|//|(?i:hint|tip|notes?|usage|help|example):|\[-)"
)
# Before the trouble: a level or an exception's name, by which the line calls itself an error.
_MEANT = late(
    r"(?<![\w.-])(?:ERROR|FATAL|CRITICAL|SEVERE)(?![\w-])|(?:^|[\]):>|] ?|\s)[\w.]{0,80}(?:Error|Exception|Warning): "
    r"|^(?:\[[^\]]{0,40}\]:?\s?)?[EF]\d{4} \d\d:\d\d|^[\d :.T-]{10,40}: [EF] |\b(?:error|fatal): "
)
# Right behind the trouble: that it is not so.
_DENIED = late(
    r"[\w ]{0,24}?['\"]?\s{0,3}(?:[:=]|\.{3,20}|\b(?:is|was|are|were)\b)\s{0,3}['\"]?"
    r"(?i:no|none|false|never|off|0|disabled|not (?:found|detected|seen))['\"]?\s*(?:$|[,;)}\]])"
)
# Right behind the trouble: a count of 0. An exception has its argument there: "KeyError: 0".
_NEVER = late(
    r"(?<![a-z]Error)(?<!Exception)['\"]?\s{0,3}[:=]\s{0,20}['\"]?0['\"]?(?: times?| events?)?\s*(?:$|[,;)}\]])"
)
_TROUBLE = r"(?:errors|failures|exceptions|faults|issues|problems|crashes|panics|timeouts|violations|mismatches)"
# A zero before a noun, which is not the number of a device or a rank: "GPU 0", "rank 0".
_ZERO = (
    r"(?:(?P<before>^|[:;,.|\])>=-]\s{1,3}|[(\[]|\d\d:\d\d\S{0,14}\s{1,3}|\b(?:with|found|had|has|have|got|and|or"
    r"|of|saw|detected"
    r"|reported|INFO)\s{1,3})(?:0|[Zz]ero)|\b[Nn]o)"
)
# A single failure that did not happen; "No such device error" is one that did.
_ONE = r"(?:error|failure|exception|fault|problem|issue|crash|panic|timeout|violation|mismatch)"
_SEEN = r"(?:occurr?ed|found|detected|reported|seen|raised|encountered|thrown|logged|happened)"
# Words that say that nothing is wrong. The rest of the line may still tell of trouble.
_NOTHING = late(
    rf"{_ZERO} (?:(?:[\w-]{{1,20}} ){{0,2}}(?:{_TROUBLE}"
    r"|(?:permission|access|connections?|requests?) (?:denied|refused|reset))\b(?! ?[:(])"
    rf"|(?!such )(?:[\w-]{{1,20}} ){{0,2}}{_ONE} (?:(?:was|has been|is) )?{_SEEN}\b"
    rf"|(?:(?:fatal|critical|serious|severe|major|other|further|unexpected|unhandled) ){{0,2}}{_ONE}(?=\s*[.!,;)]"
    rf"|\s*$))"
    rf"|(?:\[ERROR\]|\bERROR:?)\s{{1,3}}(?:0|[Zz]ero|[Nn]o) (?:[\w-]{{1,20}} ){{0,2}}{_TROUBLE}"
    r"(?: (?:found|detected|reported))?\.?\s*$"
    r"|(?:\[(?:ERROR|FATAL|CRITICAL)\]|\b(?:ERROR|FATAL|CRITICAL):?)\s{1,3}(?i:(?:\w{1,20} ){0,2}(?:count|total"
    r"|number|rate))"
    r"\s?[:=]\s?0(?:\.0{1,6})?%?\s*$"
    r"|(?<![\w.])(?:(?:[Ee]rrors|[Ff]ailures|[Ee]xceptions|[Ff]aults|error|exception|failure"
    r"|err)['\"]?\s{0,3}[:=]\s{0,3}['\"]?"
    # an empty failure
    r"(?i:\"\"|''|\[\]|\{\}|none|n/a|(?<!^fatal error: )(?<![^a-z] fatal error: )(?:null|nil))"
    r"|fatal['\"]?\s?[:=]\s{0,3}['\"]?(?i:none|null|nil)|(?:[Ee]rror"
    r"|[Ff]atal)['\"]?\s?[:=]\s{0,3}['\"]?(?i:no errors?|success|false))['\"]?\s{0,3}(?=$|[,;)}\]|])"
)
# A passed test may have the trouble in its name.
_PASSED = late(
    r"(?:(?<!\d )\btests? passed|['\":.]\s{0,2}(?:ok|OK|PASS|PASSED)|\.\.\. (?:ignored|expected failure)"
    r"|\.\.\. skipped ['\"].{0,200}|[\w)\]] (?:PASSED|SKIPPED|XFAIL"
    r"|XPASS)(?: ?\(.{0,200}\))?(?: {0,40}\[ {0,2}\d{1,3}%\])?"
    r"|\.\.\. {1,8}Passed {1,12}[\d.]{1,12} sec)\s*$"
)
# A line of a list of tests or tasks: one starts, passed or was skipped. Its name follows.
_LISTED = late(
    r"(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}Z )?\s{0,40}(?:\[(?: RUN {6}| {7}OK |  PASSED  |  SKIPPED | DISABLED )\] "
    r"|[\u2713\u2714\u221a\u2705](?!.{0,400}(?:[\u2717\u2715\u2716\u2718\u274c]|\b[1-9]\d{0,6} failed\b))|ok \d{1,7} - "
    r"|=== (?:RUN|PAUSE|CONT|NAME) |--- (?:PASS|SKIP): |Start {1,6}\d{1,7}: "
    r"|(?:\[gw\d{1,4}\] \[ {0,2}\d{1,3}%\] )?(?:PASS|PASSED|SKIP|SKIPPED|XFAIL|XPASS)(?:: {1,4}"
    r"| {1,8}(?=\S{0,300}(?:::|/)|\[\d))(?!.{0,400}\bFAIL)"
    # Ansible's tasks, and Prometheus' counters of 0
    r"|(?:TASK|PLAY|RUNNING HANDLER) \[.{1,400}\] \*|[A-Za-z_:][\w:]{0,200}\{[^}]{0,800}\} 0(?:\.0)?\s*$)"
)
# A commit's hash before its message.
_ID = r"(?=\d{0,39}[a-f])(?=[a-f]{0,39}\d)[0-9a-f]{7,40}"
_COMMIT = late(
    rf"(?:HEAD is now at {_ID} |Applying: "
    rf"|(?:\[(?:detached HEAD|[\w./-]{{1,200}}) (?:\(root-commit\) )?{_ID}\]|commit [0-9a-f]{{4,40}}:|[*"
    rf"|/\\ ]{{0,20}}(?:pick )?{_ID}) (?:\([^)]{{1,200}}\) )?"
    r"(?:(?i:fix|feat|chore|docs|test|tests|refactor|ci|build|perf|revert|style)(?:\([^)]{1,60}\))?!?: "
    r"|(?:[Ff]ix|[Aa]dd|[Hh]andle|[Aa]void|[Pp]revent|[Cc]atch|[Rr]emove|[Rr]eport|[Ii]gnore|[Rr]aise|[Tt]est"
    r"|[Mm]ake|[Uu]se"
    r"|[Rr]etry|[Ss]how|[Tt]ell|[Tt]reat|[Ll]og|[Rr]eturn|[Dd]etect|[Ii]mprove|[Dd]o not|[Dd]on't|Merge|Revert)"
    r"(?:s|es|ed|d)?\b(?! (?:failed|error)\b)))"
)
_ASKED = late(r"(?i:\b(?:what|why|how|when|where|which|does|is|can)) [^.;!?]{0,60}$")
_SAMPLE = late(r"['\"](?i:prompt|question|answer|completion|response|instruction)['\"]\s?:\s?(?:\"[^\"]*|'[^']*)$")
_QUESTION = late(r"[^.;!?]{0,40}\?")
_TREATED = late(
    r"[^.;!?]{0,30}(?<![\w-])(?:is|are) (?:then )?(?i:handled|ignored|retried|caught|tolerated|skipped|expected)\b"
)
# Words for a retry. Words behind them may say that the retry failed too.
_AGAIN = (
    r"(?<![\w-])(?<!\bnot )(?<!longer )(?<!while )(?<!when )(?<!after )(?<!before )(?<!by )(?<!stopped )(?<!up )"
    r"(?:[Rr]etrying|[Tt]rying again|[Ww]ill (?:be retried|retry|try again|reconnect)|[Ff]alling back|[Bb]acking off"
    r"|[Aa]ttempting to recover"
    r"|[Ee]ntering retry loop|[Rr]elying on (?:\w{{1,20}} ){{1,4}}(?:to|for|instead)"
    r"|[Tt]rying to (?:resume|reconnect|recover|restart)"
    r"|[Pp]roceeding (?:\w{{1,20}} ){{0,6}}anyway"
    r"|[Ww]ill (?:attempt to )?(?:run|start|connect|be attempted) again|UP_FOR_RETRY|(?<!to be )[Rr]equeu(?:ed|e?ing)"
    r"|[Tt]rying (?:port \d{{1,5}}|another|(?:the )?next"
    r"|an? (?:different|other|alternative))"
    r"|(?:skipping|reducing) (?:this |the |training )?batch{})(?![\w-]|\s?[=:]\s?\d)"
    r"(?![^.;]{{0,80}}\b(?:failed|did not|gave up|exhausted)\b)"
)
_AGAIN_WORDS = (
    "retry|trying|retried|reconnect|falling|backing|attempting|relying|proceeding|again|attempted|requeu|skipping"
    "|reducing|ignor|continuing"
)
_RETRIED = sieved(_AGAIN_WORDS, _AGAIN.format(""))
_WENT_ON = sieved(
    _AGAIN_WORDS, _AGAIN.format("|[Ii]gnoring|(?:[Ww]as |[Bb]e |[Ii]s )?[Ii]gnored|[Cc]ontinuing|[Ss]kipping")
)

# An item that is left out, and why. The name of the item has a digit, a dot or a slash.
_SKIPPED = late(
    r"(?:.{0,80}[^\w\s]\s{0,3})??(?i:\[skip(?:ped|ping)?\]\s|skipp(?:ed|ing)\s(?=[^:]{0,200}[\d./])[^:]{1,200}: )"
)

# A commit in git's output: its first line, and the lines between that and its message.
_COMMIT_LINE = late(r"commit [0-9a-f]{40}\b")
_HEAD = late(r"|\s{4}.{0,4000}|(?:Author|AuthorDate|Commit|CommitDate|Date|Merge): .{0,400}")
_TRY = late(r"^.{0,80}?\b(?i:retry|retrying|attempt|try) #?(?P<this>\d{1,4})(?:/| of )(?P<all>\d{1,4})\b")


def is_retried(text: str, begin: int, end: int) -> bool:
    """Whether the line *text* says that the program retries the failure that it names from *begin* to *end*.

    Before the trouble such words count only in a line of a low level: "Retrying failed: ..." says the opposite.
    """
    level = level_of(text)
    if level is not None and level >= Level.FATAL:
        return False
    if _RETRIED.pattern.search(text, end) is not None:
        return True
    said = _TRY.match(text)
    if said is not None and int(said["this"]) < int(said["all"]):
        return True
    return level is not None and level <= Level.WARNING and _RETRIED.search(text[:begin]) is not None


def goes_on(text: str, *, after: bool = False) -> bool:
    """Whether the line *text*, of a low level or of none, says that the program goes on after a failure. *after*: the
    line stands behind a traceback, where a program that ends also says what it skips.
    """
    words = _RETRIED if after else _WENT_ON
    return words.search(text[:LOOKED]) is not None and (level_of(text) or Level.INFO) <= Level.WARNING


def is_skipped(text: str) -> bool:
    """Whether the line *text* begins with the word that its item is skipped."""
    return "kip" in text and _SKIPPED.match(text) is not None


def only_speaks(text: str, begin: int, end: int) -> bool:
    """Whether the line *text* only speaks of the trouble that it names between *begin* and *end*."""
    if denied(text, end) or _TREATED.match(text[end : end + BEHIND]) is not None or _HELP.match(text) is not None:
        return True
    if _SAMPLE.search(text[:end]) is not None:
        return True
    if _QUESTION.match(text[end : end + BEHIND + 2]) is not None and _ASKED.search(text[:begin][-BEFORE:]) is not None:
        return True
    return _MEANT.search(text[:begin]) is None and _SPOKEN.search(text[max(0, begin - BEFORE) : begin]) is not None


def is_message(text: str, before: Iterable[str]) -> bool:
    """Whether the line *text* is one of a commit's message, as git shows it; *before*: the lines before it, the last
    one first.
    """
    if not text.startswith("    "):
        return False
    said = next((each for each in before if _HEAD.fullmatch(each) is None), "")
    return _COMMIT_LINE.match(said) is not None


def denied(text: str, end: int) -> bool:
    """Whether the line *text* denies the trouble that it names before *end*."""
    named = len(text[:end].rstrip(" :="))
    return _DENIED.match(text[end : end + BEHIND]) is not None or _NEVER.match(text, named, end + BEHIND) is not None


def without_nothing(text: str) -> str:
    """The line *text* without words that say that nothing is wrong, such as 0 errors. Empty for a passed test, and for
    a line that only names a test, a task or a commit.
    """
    if _LISTED.match(text) is not None or _COMMIT.match(text) is not None:
        return ""
    if not is_error(text) and _PASSED.search(text[-BEFORE:]) is not None:
        return ""
    return _NOTHING.sub("\\g<before>\0", text)
