"""Read the level of a line from a word, a letter or a key near its beginning.

The formats are those of common writers: Python's logging and warnings, glog (PyTorch, Kubernetes), NCCL, TensorRT,
NeMo, compilers, Slurm, nginx, Apache, syslog, logcat, panics of Go and Rust, aborts of C++, logfmt, JSON lines. In JSON
and logfmt a top-level key wins over a nested key, and a nested key over any word. An indented line without a level
inherits the level of the line before it. A line of a traceback is an error, and so is a heading before it.
"""

from __future__ import annotations

import re
from enum import IntEnum

from flarelog.late import late
from flarelog.lines.layouts import BEFORE_OBJECT
from flarelog.lines.times import recorded
from flarelog.lines.tracebacks import GOROUTINE, PANICKED, TERMINATED, TRACEBACK, Stack, Tracebacks

_HEAD = 256  # characters searched for a word or a letter
_KEYS = 4096  # characters searched for a key
_CLOCK_WITHIN = 128  # characters searched for a level directly after a time
_NAMES = 96  # characters before an object of JSON


class Level(IntEnum):
    """Levels by OpenTelemetry's SeverityNumber: the first number of each range."""

    TRACE = 1
    DEBUG = 5
    INFO = 9
    WARNING = 13
    ERROR = 17
    FATAL = 21


_ERROR, _FATAL = Level.ERROR, Level.FATAL  # ten times as fast as an attribute of the enum
NAMES = tuple(level.name.lower() for level in Level)
SPELLINGS = {"warn": "warning", "err": "error", "crit": "fatal", "critical": "fatal"}  # as people type NAMES
STYLES = {Level.TRACE: "2", Level.DEBUG: "2", Level.WARNING: "33", Level.ERROR: "31", Level.FATAL: "1;31"}

_WORDS = {
    **{level.name: level for level in Level},
    "WARN": Level.WARNING,
    "NOTICE": Level.INFO,
    "WRN": Level.WARNING,
    "ERR": Level.ERROR,
    "FTL": Level.FATAL,
    "CRIT": Level.FATAL,
    **dict.fromkeys(("CRITICAL", "PANIC", "ALERT", "EMERG", "DPANIC"), Level.FATAL),
}
# Words cut to four letters by logrus, and to three by Serilog and zerolog, behind a time: without one INF is a number.
_CUT = {
    **dict.fromkeys(("TRAC", "TRC", "VRB"), Level.TRACE),
    **dict.fromkeys(("DEBU", "DBG"), Level.DEBUG),
    "INF": Level.INFO,
    "ERRO": Level.ERROR,
    **dict.fromkeys(("FATA", "PANI", "PNC"), Level.FATAL),
}
_OF_DOTNET = {"fail": Level.ERROR, "crit": Level.FATAL, "dbug": Level.DEBUG, "trce": Level.TRACE}
_DIGIT = "0123456789"
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LETTERS = {
    **dict(zip("IWEFD", (Level.INFO, Level.WARNING, Level.ERROR, Level.FATAL, Level.DEBUG), strict=True)),
    "C": Level.FATAL,  # "critical" of Jupyter and tornado
    "V": Level.TRACE,  # "verbose" of TensorRT and logcat
}
_BEFORE_LETTERS = f"[( \t{''.join(_LETTERS)}"  # first characters of a line with a letter
_LETTERS_AFTER_TIME = {**_LETTERS, "N": Level.INFO, "T": Level.TRACE, "A": Level.FATAL}
_NUMBERS = tuple(Level)  # for 10 to 60 of bunyan and pino
_PRIORITIES = (*[Level.FATAL] * 3, Level.ERROR, Level.WARNING, Level.INFO, Level.INFO, Level.DEBUG)  # of syslog
_FACILITIES = 24
_SHORTEST = min(map(len, _WORDS))  # characters of the shortest line with a level
_WORD = "|".join(sorted(_WORDS, key=len, reverse=True))
_PRIORITY = late(r"<(\d{1,3})>(?=[\w\[])")
_VALUES = {
    **_WORDS,
    **dict.fromkeys(("VERBOSE", "FINER", "FINEST"), Level.TRACE),
    "FINE": Level.DEBUG,
    "INFORMATION": Level.INFO,
    "SEVERE": Level.ERROR,
    "EMERGENCY": Level.FATAL,
}
# Without a leading \b: the search of a pattern that begins with letters can skip to them.
_CAPITALS = late(
    rf"(?:{_WORD})(?!\w|\.\w|: 0\s*(?:$|[,;|)\]]))|(?:TRAC|DEBU|ERRO|FATA|PANI)(?=\[\d)"
    r"|(?:TRC|VRB|DBG|INF|PNC)(?:(?<=[\dMZ] \w{3})(?=[ \]])|(?<=\[\w{3})(?=\] ))"
)
_TABBED = late(r"[^\t]{8,40}\t(debug|info|warn|error|dpanic|panic|fatal)\t")  # zap's console, behind its time
_SETTING = late(r"(?:--[\w-]{0,40}level|[A-Z]_(?:LEVEL|DEBUG))=$")
_OBJECT = late(r"(?:\[[^\]]{1,40}\]:?\s?)?\{\s?\"")
_STRING = late(r"\"(?:[^\"\\]|\\.)*\"")
# A quote within a string has a backslash before it, so a match is always a key.
_KEY = late(
    r"\"(?:(?:@|log\.)?(?:[Ll]evel|LEVEL)(?:_?[Nn]ame)?|[Ss]everity(?:_?[Tt]ext)?|SEVERITY|lvl|@l)\"\s?:\s?"
    r"\"(?P<value>[A-Za-z]{1,16})\""
    r"|\"level\"\s?:\s?(?P<number>[1-6]0)\b|\"[Ss]everity_?[Nn]umber\"\s?:\s?(?P<severity>[1-9]\d?)\b"
    r"|\"PRIORITY\"\s?:\s?\"?(?P<priority>[0-7])\b"  # journald
    r"|\"s\"\s?:\s?\"(?P<letter>[IWEFD])\d?\",\s{0,4}\"c\""  # MongoDB
)
_PAIRS = late(r"[A-Za-z_][\w.]{0,40}=\S")
_PAIR = late(r"(?:(?<=\s)|^)(?:level|levelname|lvl|severity)=(?P<quote>\"?)(?P<value>[A-Za-z]{1,16})(?P=quote)(?!\S)")
_LETTER = late(
    r"\s*(?:\[[^\]]{1,40}\]:?\s*|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}: ){0,3}"
    r"[\[(]?(?:NeMo )?([IWEFDCV])(?:(?:20\d\d)?\d{3,4}\s\d\d:\d\d:\d\d| [\w./]{1,80}\.(?:cpp|cc|cu|h|py):\d"
    r"|(?:(?<=\[.)|(?<=\[NeMo .)) (?:(?:\d{4}-\d\d-\d\d|\d{6}) )?\d\d:\d\d:\d\d"  # tornado, Jupyter, NeMo
    r"|(?<=\[.)\](?=[ \[])"  # TensorRT
    r"|(?<![^\s\]].)/[\w.$-]{1,60} {0,20}\( {0,8}\d{1,7}\): "  # logcat -v brief
    r"|(?<=\(E)E\) |(?<=\(W)W\) |(?<=\(I)I\) )"  # X.org
)
# The value of a metric or a setting, as in "error: 0.5": not the begin of a message.
_FIGURE = (
    r"(?:[-+]?\d{1,15}(?:\.\d{0,20})?(?:[eE][-+]?\d{1,3})?%?(?:\s{0,4}(?:$|[,;|)\]}/])|\s{1,4}[\w-]{1,30}\s?[:=])"
    r"|[-+]?\d{1,15}\.\d{1,20}(?:[eE][-+]?\d{1,3})?%?(?:\s|$)"
    r"|[-+]?(?i:nan|inf|none|null|false|true|no|yes|on|off|ok)\s{0,4}(?:$|[,;|)\]}/]))"
)
_SMALL = "trace|verbose|debug|info|notice|warning|warn|error|critical|fatal"
_ON = (  # after a word that begins a sentence about errors, and is no level
    r"(?:(?:rates?|counts?|bars?|margins?|handling|handlers?|messages?|signs?|codes?|levels?|modes?|logs?|logging"
    r"|correction|budgets?|thresholds?|estimates?|files?|accidents|is|are|was|were|of|=)\b)"
)
# A level directly after a time. The search skips to the colons.
_CLOCKED = late(
    r":\d\d(?:[.,]\d{1,9})?(?:Z|\s?[+-]\d\d:?\d\d)?(?=\]?\s{0,3}[\[|tvdinwecfDIWEFNTCVA\d])(?:"
    r"\]? (?:\[[\w.-]{1,20}\] )?\[(?P<bracketed>[IWEFDCV])\](?=[ \[])"
    rf"|\]?\s?\|(?:[^|]{{1,40}}\|){{0,3}}?\s?(?P<piped>{_SMALL})\s?\|"  # SecretFlow
    rf"|\]?\s{{1,3}}(?P<small>{_SMALL})(?=\s)(?!\s{_ON})(?!\s{{1,4}}(?:error:\s)?{_FIGURE})"  # VMware
    r"| (?P<component>[DIWEF])\d? {1,2}[A-Z]{3,20} "  # MongoDB before 4.4
    r"| (?P<etcd>[EWNIDTC]) \| "  # capnslog
    r"|\s{1,3}\d{1,7}\s{1,6}\d{1,7} (?P<logcat>[VDIWEFA]) | (?P<brief>[VDIWEFA])/[\w.$-]{1,60} {0,20}\("
    r")"
)
_WORDY = late(r"(?:^|\s)[a-z]{2,40}\s+(?![|│])")  # before a time that a sentence speaks of
_NPM = late(r"npm (error|warn) ")
_RAYS = late(
    r"(?:\([^)]{1,60}\) )?\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ([IWEFDC]) \d"
    r"|\([^)]{1,60}\) (?:\[rank\d{1,7}\]:\s?)?\[?([IWEFD])"
    r"(?:\d{3,4} \d\d:\d\d:\d\d| [\w./]{1,80}\.(?:cpp|cc|cu|h|py):\d)"
)
_BRACKETED = late(  # spdlog, nginx, structlog; Apache with its module. The search skips to the "[".
    r"\[(?<![A-Ya-z,;=(] \[) {0,3}(?:[a-z_]{0,30}+:)?"
    r"(?P<word>error|err|warning|warn|critical|crit|alert|emerg|fatal|info|notice|debug|trace|Error|Warning) {0,8}\]"
)
_SAID = late(
    rf"(?i:(?<![\w-])(?:level|levelname|severity|lvl)\"?\s?[=:]\s?\"?(?P<value>{_WORD})\b)"
    r"|\"level\":\s?(?P<number>[1-6]0)\b|\"severityNumber\":\s?(?P<severity>[1-9]\d?)\b"
    r"|\[(?P<bracketed>error)\]"
    r"|(?i:(?:^|\d:\s|\]:\s{0,2})(?P<said>warning|error|fatal(?=\serror)|fatal|warn(?=:)|info(?=:)|notice(?=:)|debug(?=:)"
    rf"|panic(?=:))(?::\s|\s(?!{_ON}))(?!{_FIGURE}))"
    r"|(?i:(?:^|\d:\s|\]:\s?|^\d{10}(?:\.\d{1,9})?\s"  # after a time
    r"|:\d\d(?:[.,]\d{1,9})?(?:\s(?:20\d\d|[AP]M))?(?:Z|\s?[+-]\d\d:?\d\d)?\]?:?\s{1,4})"
    r"(?:[a-z][\w.+/-]{0,60}(?:\[\d{1,10}\])?:\s)?"  # and the name of a program
    rf"(?P<named>warning|warn|error|fatal|critical|info|debug):\s(?!{_FIGURE}))"
    r"|(?P<panicked>\bthread '[^']{1,100}'(?: \(\d{1,19}\))? panicked at )"
    r"|(?P<warning>[A-Za-z]Warning:)"
    rf"|(?P<error>(?:[A-Za-z](?:Error|Exception)|(?:\b|_)Exception|(?:\b|_)Error(?!:\s{{0,4}}{_FIGURE})):"
    r"|(?:^|\]: |(?<=\d ))(?:Exception (?:in (?:thread|callback) |ignored in)"  # headings of tracebacks
    r"|(?:Task|Future) exception was never retrieved)"
    r"|(?:^|\]: |(?<=:\d\d )|(?<=\d[.,]\d{3} ))SEVERE(?=: )"  # Java's level; elsewhere the word is medical
    r"|(?<=\d )SEVERE(?= \[)|(?<=\[)SEVERE(?=\])"
    r"|Traceback \(most recent call last\):|Segmentation fault|core dumped|Out of memory)"
)
_ABORTS = late(  # of C and C++, and R's errors
    r"\bterminate called (?:after throwing an instance|without an active exception|recursively)"
    r"|\blibc\+\+abi(?:\.dylib)?: terminat"
    r"|\b(?:double free or corruption|corrupted (?:size vs|double-linked))"
    r"|\b(?:free|malloc|realloc|munmap_chunk|sysmalloc)\(\): (?:invalid|double|corrupt|unaligned|unsorted|mem)"
    r"|\*\*\* (?:stack smashing detected|buffer overflow detected|SIG[A-Z]{2,6} \(|Aborted at \d)"
    r"|\bAssertion (?:`.{1,200}' failed|failed: \()"
    r"|(?P<error>(?:^|\]:\s?|^\d{1,7}:\s)\s{2,4}what\(\): |(?:^|\]:\s?)Error in [^:]{1,200}? ?: "
    r"|\bBus error\b|\bFloating point exception\b|\bIllegal instruction\b)"
)
_DOTNET = late(rf"(?:\[[^\]]{{1,40}}\]:?\s{{0,2}})?(?P<word>fail|crit|dbug|trce):\s(?!\s{{0,4}}{_FIGURE})")


def _may_abort(head: str, *, may_say: bool) -> bool:
    """Whether _ABORTS may match in *head*."""
    return (
        "():" in head
        or "terminat" in head
        or "***" in head
        or "corrupt" in head
        or "ssertion" in head
        or "llegal ins" in head
        or (may_say and ("us error" in head or "point exc" in head or "Error in " in head))
    )


def _may_say(head: str) -> bool:
    """Whether _SAID may match in *head*: each of its matches holds one of these texts. A loop is four times slower."""
    return (
        "rror" in head
        or "arning" in head
        or "xception" in head
        or "evel" in head
        or "everity" in head
        or "lvl" in head
        or "raceback" in head
        or "fault" in head
        or "dumped" in head
        or "memory" in head
        or "atal" in head
        or "anic" in head
        or (
            ":" in head
            and (
                "arn:" in head
                or "ritical:" in head
                or "nfo:" in head
                or "bug:" in head
                or "EVERE" in head
                or "otice:" in head
            )
        )
    )


# Each line whose own level is ERROR or worse holds one of these: a sieve can go first.
ERRORS = (
    *("ERR", "Err", "err", "FATA", "Fata", "fata", "CRIT", "Crit", "crit", "PANI", "Pani", "pani", "PNC", "FTL"),
    *("ALERT", "Alert", "alert", "EMERG", "Emerg", "emerg", "SEVERE", "Severe", "severe", "everity"),
    *('"level":5', '"level":6', '"level": 5', '"level": 6', '"level" :', '"PRIORITY"'),
    *('"s":"E', '"s":"F', '"s": "E', '"s": "F', '"s" :'),
    *(f"<{digit}" for digit in _DIGIT),  # syslog's priorities
    *(f"{letter}{after}" for letter in "EFC" for after in (*_DIGIT, " ", "]", "/")),
    *("EE)", " A ", " A/", "fail:", "FAIL", "Traceback (most recent call last):", "xception", "Segmentation fault"),
    *("core dumped", "Out of memory", "terminat", "corrupt", "alloc():", "free():", "chunk():", "***", "ssertion"),
    *("what():", "llegal ins"),
)


def is_error(text: str) -> bool:
    """Whether the line *text*, without colours, is an error: its own level is ERROR or worse."""
    level = level_of(text)
    return level is not None and level >= Level.ERROR


def level_of(text: str) -> Level | None:
    """The level of *text*, without colours; the first one where it holds several."""
    return _told(text)[0]


def _told(text: str) -> tuple[Level | None, int]:
    """(level, count): no text behind the first *count* characters could change the level; 0: not known."""
    if len(text) < _SHORTEST:
        return None, 0
    first, head = text[0], text[:_HEAD]
    timed = first in _DIGIT
    if not timed and (first in "{[<(n" or "=" in text) and (keyed := _keyed(text)) is not None:
        return keyed, 0
    may_have_letter = head[26:27] == ":" if timed else first in _BEFORE_LETTERS  # a time here has a fixed length
    if may_have_letter and (letter := _LETTER.match(head)) is not None:
        return _LETTERS[letter[1]], 0
    if (keyed := _in_object_after_names(text)) is not None:
        return keyed, 0
    if timed and "\t" in head and (tabbed := _TABBED.match(head)) is not None:
        return _WORDS[tabbed[1].upper()], 0
    found, at, end = None, len(head), 0
    for word in _CAPITALS.finditer(head):
        begin = word.start()
        if not begin or head[begin - 1] == " " or _is_level(head, begin, word.end()):
            found, at, end = _WORDS.get(word[0]) or _CUT[word[0]], begin, word.end() + 1
            break
    before = head[:at]
    if "[" in before and (marked := _BRACKETED.search(before)) is not None:
        found, at, end = _WORDS[marked["word"].upper()], marked.start(), marked.end()
        before = head[:at]
    level = _before_word(head, at)
    if level is not None:
        return level, 0
    # Not known without a time, because a letter may follow brackets, or before a ".", because a dotted name may go on.
    return found, end if timed and head[end - 1 : end] != "." else 0


def _before_word(head: str, at: int) -> Level | None:
    """The level that *head* tells before *at*, where a word for one stands, or else its end."""
    before = head[:at]
    clocked = _CLOCKED.search(before, 0, _CLOCK_WITHIN) if ":" in before else None
    if clocked is not None and _WORDY.search(before, 0, clocked.start()) is None:
        return _after_time(clocked)
    if head[0] in "fcdt[" and (dotnet := _DOTNET.match(before)) is not None:
        return _OF_DOTNET[dotnet["word"]]
    may_say = _may_say(before)
    abort = _ABORTS.search(before) if _may_abort(before, may_say=may_say) else None
    at = at if abort is None else abort.start()
    # + 1: else "no" in "info: no ERROR" would end the text, as a value does.
    said = _SAID.search(head, 0, at + 1) if may_say else None
    if said is None:
        return None if abort is None else Level.ERROR if abort["error"] else Level.FATAL
    if said["number"] or said["severity"]:
        return _numbered(said)
    if said["panicked"]:
        return Level.FATAL
    name = said["value"] or said["said"] or said["named"] or said["bracketed"]
    return _WORDS[name.upper()] if name else Level.WARNING if said["warning"] else Level.ERROR


def _after_time(found: re.Match[str]) -> Level:
    said = found.groupdict()
    if word := said["piped"] or said["small"]:
        return _VALUES[word.upper()]
    return next(_LETTERS_AFTER_TIME[letter] for letter in said.values() if letter)


def _is_level(head: str, begin: int, end: int) -> bool:
    """Whether the word from *begin* to *end* is a level, and not part of a word, a dotted name or a setting."""
    before = head[begin - 1]
    if before == "[" and head[begin:end] in _CUT:  # else a number in a list
        return begin == 1 or ":" in head[:begin]
    if before == ".":
        return head[end : end + 1] == ":" or not head[max(0, begin - 2)].isalnum()
    if before == "/":  # a path, except in [main/ERROR]
        return head[end : end + 1] == "]"
    if before == "=":
        return _SETTING.search(head, max(0, begin - 48), begin) is None
    return not (before.isalnum() or before == "_")


def _keyed(text: str) -> Level | None:
    """The level under a key of *text*; None without such a key."""
    if text[0] in "{[":
        if _OBJECT.match(text) is not None:
            return _in_object(text)
        return _of_ray(text) if text[24:27:2] == "  " else None  # Ray's letter stands between the blanks
    if text[0] == "(":
        return _of_ray(text)
    if text[0] == "n" and (said := _NPM.match(text)) is not None:
        return _WORDS[said[1].upper()]
    if text[0] == "<":
        number = int(said[1]) if (said := _PRIORITY.match(text)) is not None else 8 * _FACILITIES
        return _PRIORITIES[number % 8] if number < 8 * _FACILITIES else None
    if _PAIRS.match(text) is None:
        return None
    for found in _PAIR.finditer(text, 0, _KEYS):
        quotes = text.count('"', 0, found.start()) - text.count('\\"', 0, found.start())
        if not quotes % 2 and (level := _VALUES.get(found["value"].upper())) is not None:
            return level
    return None


def _of_ray(text: str) -> Level | None:
    """The level of a line of a Ray worker, or of the Ray process that forwards it."""
    found = _RAYS.match(text)
    return None if found is None else _LETTERS[found[1] or found[2]]


def _in_object(text: str) -> Level | None:
    """The level under a top-level key of the JSON object *text*, or else under the first nested key."""
    depth, at, inner = 0, 0, None
    for found in _KEY.finditer(text, 0, _KEYS):
        between = text[at : found.start()]
        if at or between.count("{") > 1:
            between = _STRING.sub("", between)
            depth += between.count("{") - between.count("}")
        else:
            depth = 1
        at = found.end()
        level = _VALUES.get(found["value"].upper()) if found["value"] else _numbered(found)
        if depth == 1 and level is not None:
            return level
        inner = inner or level
    return inner


def _in_object_after_names(text: str) -> Level | None:
    """As ``_in_object``, for an object after the names that compose, kubectl, stern and srun write before a line."""
    brace = text.find("{", 1, _NAMES)
    if brace < 0 or text[brace + 1 : brace + 2] not in '" ' or BEFORE_OBJECT.fullmatch(text, 0, brace) is None:
        return None
    return _in_object(text[brace:])


def _numbered(found: re.Match[str]) -> Level:
    said = found.groupdict()
    if said.get("priority"):
        return _PRIORITIES[int(said["priority"])]
    if said.get("letter"):
        return _LETTERS[said["letter"]]
    number = int(found["number"]) // 10 if found["number"] else (int(found["severity"]) + 3) // 4
    return _NUMBERS[min(number, len(_NUMBERS)) - 1]


def _content(text: str) -> str:
    """*text* without a runtime's time, which differs in each line of a stack."""
    found = recorded(text)
    return text if found is None else found[1]


def _shape(text: str) -> bytes:
    """*text* with all digits 1 to 9 as 0: texts of one shape match the patterns alike."""
    return text.encode(errors="replace").translate(_DIGITS)


class Levels:
    """The levels of one log's lines, fed in order; a container's log has one instance a stream."""

    def __init__(self) -> None:
        self._last: Level | None = None
        self._tracebacks = Tracebacks()
        # Whether a traceback begins in the last line, whether that continued one, and whether the exception is still to
        # come; None: neither.
        self.part: tuple[bool, bool, bool] | None = None
        self._like, self._end = b"", 0  # the shape and length of the text that set the previous line's level

    @property
    def inside(self) -> bool:
        """Whether a traceback is open that the next line may continue."""
        return bool(self._tracebacks.open)

    def of(self, text: str) -> Level | None:
        """The level of *text*, without colours; None: unknown."""
        self.part = None
        if TRACEBACK in text and (stack := self._tracebacks.begins(_content(text))):
            return self._begun(stack)
        if self._tracebacks.open and (stack := self._tracebacks.goes_on(_content(text))):
            self.part = False, True, stack.open
            return _ERROR
        if self._end and text[: self._end].encode(errors="replace").translate(_DIGITS) == self._like:
            return self._last  # most lines begin like the line before them, except for the time
        if GOROUTINE in text and (stack := self._tracebacks.begins(_content(text))):
            return self._begun(stack)
        own, self._end = _told(text)
        aborts = own is _FATAL and (PANICKED in text or TERMINATED in text)
        if aborts and (stack := self._tracebacks.begins(_content(text))):
            return self._begun(stack, _FATAL)
        if self._end:
            self._like = _shape(text[: self._end])
        if own is None and text[:1] in (" ", "\t"):
            return self._last
        self._last = own
        return own

    def _begun(self, stack: Stack, level: Level = _ERROR) -> Level:
        self._last, self._end, self.part = level, 0, (True, stack.number < stack.at, stack.open)
        return level
