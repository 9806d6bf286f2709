"""Lines that show that the program went on: steps and figures of a training, and messages of success.

Any program's own words for a failure are a cause only where no such line stands behind them. A line that is a finding
itself, or within a traceback, shows nothing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import lru_cache
from zlib import crc32

from flarelog.detect.base import LOOKED, sieved, words
from flarelog.detect.speaking import goes_on
from flarelog.late import late
from flarelog.lines.levels import Level, is_error, level_of
from flarelog.lines.meters import is_bar

HEAD = 400  # characters of a line that are searched

_FIGURE = r"['\"]?\s{0,3}(?:[:=]\s{0,3})?(?:tensor\()?[-+]?\d"
_STEP = sieved(
    "epoch|step|iter|round|episode|batch|trial|loss|acc|auc|f1|perplexity|ppl|mse|mae|reward|learning_rate|lr|score",
    r"(?i:\b(?:epochs?|(?:global_?)?steps?|iter(?:ation)?s?|rounds?|episodes?|batch(?:es)?|trials?)"
    r"\b['\"]?[\s:=#\[(|]{1,4}\d"
    rf"|(?:\b|_)(?:loss|acc|accuracy|auc|f1(?!\d)|perplexity|ppl|mse|mae|reward|learning_rate|lr"
    rf"|score(?=['\"]?\s{{0,3}}[:=]\s{{0,3}}-?\d{{1,9}}\.\d)){_FIGURE})",
)
_OF = late(r"(?<![Rr]etry )(?<![Aa]ttempt )(?<![Tt]ry )(?<!ank )\b\d{1,9} of \d{1,9}\b")
_MAY_BE_OF = late(r"\d of \d")
_RATE = late(r"\d\s?(?:it/s|s/it|samples/s|tokens/s|examples/s)\b")
_WELL = sieved(
    "succe|complete|recovered|reconnected|resum|upgraded|installed|deployed|finished|done|ended|saved"
    "|saving|wrote|ready |end_run|started container|synced|` reached|exit|http/",
    r"(?i:(?<!not )(?<!un)(?<!if )\bsuccess(?:ful(?:ly)?)?\b(?! ?[:=] ?(?:false|0|no)\b)"
    r"(?! (?:stop|shut|clos|disconnect|remov|clean|kill|terminat|delet|cancel|abort|unregister))"
    r"|(?<!not )(?<!un)\b(?:succeeded|completed|recovered|reconnected|resumed|resuming"
    r"|has been (?:upgraded|installed|deployed))\b(?! (?:with"
    r"|after) (?:\d+ )?err)"
    r"|\b(?:training|run|job|experiment|epoch|round|workflow|simulation|federation)\b.{0,40}\b(?:finished|done|ended"
    r"|complete)\b(?!.{0,20}\b(?:with|fail|err))|\b(?:saved|saving|wrote) (?:\w{1,20} ){0,3}(?:checkpoint|model"
    r"|weights)\b"
    r"|\bcheckpoint (?:saved|complete)\b|\bmodel saved\b|(?<!not )(?<!n't )\bready (?:for|to accept)\b)"
    r"|(?:^|[:.\s])done\.?$|(?<!not )(?<!to )\b[Cc]omplete(?:[.!]?$|! | after \d)"
    r"|\bEND_RUN fired|\bStarted container\b|\bSynced \d|max_\w{1,10}=\d{1,12}` reached"
    r"|exits? successfully|\bexit(?:ed)? with (?:code|status) 0\b|exit code:? 0\b"
    r"|\"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) \S{1,300} HTTP/\d(?:\.\d)?\" [23]\d\d\b",  # a server answers,
)
# A row of a table of measurements. Dumps of registers, of processes or of memory have fewer fractions.
_ROW = late(r"^\s{0,40}\d{1,18}(?=(?:.{0,60}?\s\d{1,12}\.\d{1,12}(?!\S)){3})(?:\s{1,20}[\w.+/-]{1,20}){5,40}\s*$")
# CMake goes on with its checks after an error, so that they show nothing.
_TRIED = ("-- Performing Test ", "-- Looking for ")
# wandb prints its summary after any end of its run.
_SUMMARY = ("wandb:",)
_BEGINS = late(
    r"^(?=\w|\W{1,4}[A-Z])\W{0,4}(?!(?i:missing|nothing|something|everything|during|warning|string|according|following|remaining|reverting"
    r"|rolling|halting|bailing|leaving|reporting|uploading|collecting)\b)[A-Za-z][a-z]{1,14}ing\b(?! (?:failed|error))"
    r"|(?i:^\W{0,4}(?:start(?:ed|ing)|begin(?:ning)?)\b)"
)
_ATTACHED = sieved(
    "connected|listening|registered|assigned|allocated",
    r"(?i:\b(?:connected|listening|registered|assigned|allocated)\b)",
)
# Words soon behind a failure from which the program recovered. A step is none: it may be another rank's.
_OVER = late(
    r"(?i:\bsuccess(?:ful(?:ly)?)?\b(?! ?[:=])|\b(?:succeeded|recovered|reconnected|connected|resumed)\b"
    r"|\bready to accept connections\b|\bfinished task \d|\bjob \d{1,9} finished\b|\bsnapshot \w{1,64} saved\b)"
    r"|^Switched to (?:a new )?branch |^PASS$|^\s{0,40}--- PASS: |^Status: (?:Downloaded|Image is up)"
)
_NOT_OVER = late(
    r"(?i:\bnot |n't |\bno |\bif |fail|disconnect|stop|shut|abort|kill|clos|terminat|unregist|clean|remov)"
)
# PostgreSQL logs at LOG instead of INFO.
_LOG = late(r"^\d[\d :.-]{10,40} [A-Z]{2,5} \[\d{1,10}\] (?:\S{1,80} )?LOG:  ")
# Words of a program that ends, at INFO.
_ENDING = sieved(
    "stop|shut|exit|clos|terminat|abort|kill|clean|end|quit|bye|disconnect|fail|error|remov"
    "|cancel|releas|destroy|teardown|tear down|unregister|finaliz|flush|dump|trace|caused|not |n't "
    "|lost|dead|died|retr|wait|interrupt|signal|drop|time:|finished at:",
    r"(?i:stop|shut|exit|clos|terminat|abort|kill|clean|\bend|quit|bye|disconnect|fail|error|remov|cancel|releas"
    r"|destroy|teardown|tear down|unregister|finaliz|flush|dump|trace|caused|not |n't |lost|dead|died|retr|wait|sending"
    r"|interrupt|signal|drop|(?:total|elapsed) time:|\bfinished at:)",
)
_COUNTS = late(r"(?i:\W{0,3}INFO(?:\W{0,200}$|\W{1,3}\d{1,3}(?:,?\d{3}){0,3} \w{1,20}:))")  # a build's, at its end
# Words behind a failure for the program's alternative.
_INSTEAD = late(
    r"(?i:\b(?:ignor(?:e|ed|es|ing)|continu(?:e|es|ing)|skip(?:s|ped|ping)|instead(?! of\b)|anyway|non-?fatal"
    r"|not fatal|harmless"
    r"|optional|fall(?:s|ing)? ?back|rebuilding|using (?:the |a |an )?(?:\w{1,20} ){0,3}(?:one|default|blank|slow|own"
    r"|cpu|pure)|default(?:s|ing) to|us(?:es|ing) default|starting with|setting \w{1,40} to|will (?:try|be tried"
    r"|be retried"
    r"|retry|use|reconnect)|try again (?:shortly|soon|in \d)|retrying|another (?:one|worker|node) takes|with a new one"
    r"|(?:installing|creating|downloading|building|fetching) (?:it|one|them)\b"
    r"|another choice|this choice|going to \S{1,100} instead)\b)"
)
# Messages that are printed where nothing is wrong.
_HARMLESS = late(
    r"Unable to register cu\w{3,8} factory|fork_posix\.cc|socket_utils_common_posix\.cc|ev_epoll|tcp_posix\.cc|SLF4J: "
    r"|\blibGL error|\bALSA lib|\bACPI (?:BIOS )?(?:Error|Exception)|\bqt\.qpa|\bfindfont: |\bFontconfig error"
    r"|\bdebconf: |\bnouveau\b|Direct firmware load for|mca_base_component_|pip's dependency resolver"
    r"|the object has been modified|\bdebug\d?: |^\[W |^\w{0,20} ?(?i:warn(?:ing)?)\b|\"I\d{4} \d\d:"
    r"|^(?:re|io)?nice: |^chrt: |cannot remove |: File exists\s*$"
    r"|kill: \(?\d{1,10}\)? - No such process|set the locale|-- (?:Looking for|Performing Test|Could NOT find) "
    r"|failed to improve|frozen solve|[Ww]arning: |Repo card metadata|Could not locate the best model"
    r"|(?i:(?<!_join )fail\w{0,4}(?:[ _](?!errno|err|error|code|status|rc|ret"
    r"|exit)\w{1,20}){0,3}['\"]?\s?[:=]\s?\d{1,12}(?:\.\d{1,12})?%?\s{0,3}(?:$|[,;|)}\]/]|- ))"
    r"|\baws_logging\.cc:"
    r"|\bevents_writer\.cc:|\bevents\.out\.tfevents\b"  # the record of a training's figures, not the training
    r"|(?<![\w.-])0 (?:\S{1,40} ){0,2}(?:failed|errors|failures)\b(?!:)|\bto read 0 files"
    r"|\bEDAC \w{2,12}: \d{1,9} CE |(?<!\w)[Cc]orrect(?:ed|able) (?:\w{1,20} ){0,3}errors?\b"
    # messages of packages that are installed without a running system, and of a kernel's first seconds
    r"|^\[ {3,4}\d{1,2}\.\d{6}\] "
    r"|\binvoke-rc\.d: |\bpolicy-rc\.d\b|\bdpkg-preconfigure: |^Failed to connect to bus: |not been booted with systemd"
    r"|\btaint(?:s|ing) kernel|\bBAR \d{1,2}(?: \[.{1,80}\])?: (?:no space|failed to assign|can't)"
    r"|\b(?:ACPI|DMAR|ENERGY_PERF_BIAS|i8042|tpm_\w{2,10}|snd_\w{3,20}|ipmi_si|mtrr|x86/\w{2,10}|pnp|thermal \w{1,40})"
    r"(?: [\w:.-]{1,40})?: "
    r"|Unable to find image .{1,200} locally|\bERROR SUMMARY: |SUBNQN field"
)


def shows(text: str) -> bool:
    """Whether the line *text* shows that the program goes on."""
    head = text[:HEAD]
    level = level_of(head)
    if level is not None and level >= Level.ERROR:
        return False
    small = head.lower()
    if _steps(head, small) or _WELL.search(head, small) or _ROW.match(head):
        return not head.startswith((*_SUMMARY, *_TRIED))
    if goes_on(head):
        return True
    begins = level is None and (_BEGINS.match(head) or _LOG.match(head) or _ATTACHED.search(head, small))
    return bool(level is Level.INFO or begins) and not _ends(head, small)


def _steps(head: str, small: str) -> bool:
    of = _MAY_BE_OF.search(head) and _OF.search(head)
    return bool(of or is_bar(head) or _RATE.search(head) or _STEP.search(head, small))


def _ends(head: str, small: str) -> bool:
    """Whether *head* tells of an end."""
    return bool(_ENDING.search(head, small) or _COUNTS.match(head))


def is_step(text: str) -> bool:
    """Whether the line *text*, which ``shows`` that the program goes on, tells a step or a figure of a training, or a
    request that was served.
    """
    head = text[:HEAD]
    return _steps(head, head.lower()) or bool(_ROW.match(head) or ("HTTP/" in head and _SERVED.search(head)))


def is_of_a_part(text: str) -> bool:
    """Whether the line *text* is one of a client, a worker or a rank beside others. Rank 0 speaks for all ranks."""
    return _OF_A_PART.search(text[:HEAD]) is not None


def is_caught(text: str) -> bool:
    """Whether the line *text* tells of an exception in the program's own words, so that the program caught it."""
    head = text[:HEAD]
    return (level_of(head) or Level.INFO) < Level.FATAL and _CAUGHT.search(head) is not None


def gets_over(text: str) -> bool:
    """Whether the line *text*, soon behind a failed connection or the like, says that the program recovered: it
    retries, does without, or has succeeded.
    """
    head = text[:HEAD]
    if is_error(head):
        return False
    return goes_on(head) or (_OVER.search(head) is not None and _NOT_OVER.search(head) is None)


def revives(text: str) -> bool:
    """Whether *text*, a line of recovery, also covers a failure that a program calls fatal, or one that may come from
    another program's end.
    """
    return goes_on(text, after=True) or text.startswith("...ignoring") or "ready to accept connections" in text


def does_without(text: str, end: int) -> bool:
    """Whether the line *text* names behind *end* the program's alternative to the thing that failed, or is printed
    where nothing is wrong.
    """
    return (
        _INSTEAD.search(text[:LOOKED], end) is not None
        or _HARMLESS.search(text[:LOOKED]) is not None
        or _WELL.search(text[:HEAD]) is not None
    )


def is_back(text: str, signature: str, said: str) -> bool:
    """Whether the line *text* says that the thing which the line *said* lost, by *signature*, is back."""
    pattern = _BACK.get(signature)
    found = pattern.search(text[:HEAD]) if pattern is not None else None
    return found is not None and all(name in said for name in found.groups() if name)


def may_be_back(text: str) -> bool:
    """Whether ``is_back`` may hold for *text*, in a tenth of the time."""
    return any(word in text for word in _BACK_WORDS)


def is_well(text: str) -> bool:
    """Whether the line *text* says of anything that it is well."""
    head = text[:HEAD]
    return _IS_WELL.search(head) is not None and _IS_NOT.search(head) is None


def is_well_again(text: str, said: str) -> bool:
    """Whether the line *text* says that the thing in trouble in the line *said* is well: it has most names of that
    message.
    """
    named = _named(said)
    return bool(named) and 2 * len(named & _names(text)) >= len(named) and is_well(text)


def shape_of(text: str) -> int | None:
    """A hash shared by lines that differ only in digits, as a program's routine lines do. None: the line has no digits,
    is short, or continues another line.
    """
    if len(text) < 8 or text.startswith(("  ", "\t")) or not _DIGITS.search(text, 0, HEAD):
        return None
    return crc32(_DIGITS.sub("0", text[:HEAD]).encode(errors="replace"))


def is_routine(text: str, shapes: Container[int | None]) -> bool:
    """Whether the line *text* is one of *shapes*, and does not say that something ends."""
    head = text[:HEAD]
    return shape_of(text) in shapes and not _ends(head, head.lower())


@lru_cache(1024)  # many lines are compared with the same findings
def _named(said: str) -> frozenset[str]:
    return _names(said[begun.end() :] if (begun := _HEADING.match(said)) is not None else said)


@lru_cache(64)
def _names(text: str) -> frozenset[str]:
    """The words of *text* that may be names: those with a digit or a mark within."""
    found = (word.strip(".:-") for word in _NAME.findall(text[:HEAD]))
    return frozenset(word for word in found if len(word) > 2 and _NAMED.search(word) is not None)


def begun_test(text: str) -> str:
    """The beginning of a passed test's first line, where the line *text* says that the test passed; empty: it says no
    such thing.
    """
    found = _PASSED.match(text[:HEAD])
    if found is None:
        return ""
    if found["rust"]:
        return "running"
    return f"[ RUN      ] {found['gtest']}" if found["gtest"] else f"=== RUN   {found['go']}"


def starts_shell(text: str) -> bool:
    """Whether the line *text* is a shell's message about a startup file, or about an environment that it leaves: the
    shell goes on.
    """
    return _STARTUP.match(text[:HEAD]) is not None


def starts_python(text: str) -> bool:
    """Whether the line *text* is a warning of a program in Python. That of ``resource_tracker`` comes from its end."""
    return ".py:" in text and "Warning: " in text and _WARNED.match(text[:HEAD]) is not None


def is_measure(text: str) -> bool:
    """Whether the line *text* tells a figure of a training, and nothing else, whatever its level."""
    return _MEASURE.search(text[:HEAD]) is not None


def item_of(text: str) -> tuple[int, int] | None:
    """The number of the item of a loop that the line *text* is about, and how many items there are: ``[7/90]``."""
    found = _ITEM.search(text[:80])
    return (int(found["this"]), int(found["all"])) if found is not None else None


def serves_others(text: str) -> bool:
    """Whether the line *text* is one of a service of the machine, which has nothing to do with its jobs."""
    return _SERVICE.match(text[:HEAD]) is not None


def is_put_down(text: str, before: Iterable[str]) -> bool:
    """Whether the line *text* says that SIGTERM ended a process, and a line *before* it that the program shuts down."""
    return _TERMINATED.search(text[:LOOKED]) is not None and any(
        _SHUTS.search(said[:HEAD]) is not None
        and (level_of(said) or Level.INFO) <= Level.INFO
        and _WHY.search(said[:HEAD]) is None
        for said in before
    )


_IS_WELL = late(
    r"(?i:\b(?:up|ok|restored|recovered|re-?connected|resumed|restarted|successfully|succeeded|success|online|healthy"
    r"|ready|plugged)\b)"
)
_IS_NOT = late(
    r"(?i:fail|error|not |n't|unsuccess|down|lost|shut|stop|abort|clean|remov|retry|wait|exit|kill|denied|unplugged"
    r"|(?:start|set|give|back|speed|clean) up|up to\b|\bif\b)"
)
_HEADING = late(r".{0,200}\]:? (?=.)|.{0,80}?\b(?:ERROR|FATAL|CRITICAL|WARN(?:ING)?|INFO)\b\W{1,4}")
_NAME = late(r"[\w./:@-]*[A-Za-z][\w./:@-]*")
_NAMED = late(r"[\d./_-]")
_DIGITS = late(r"\d+")
_BACK_WORDS = words(
    "estor|esum| OK| 0 failures|Job executing|Started|Pulled| retr|etrying|revious| older|uploaded|Synced "
)
# In small letters: one of them, or the pattern, is in each line of which ``begun_test``, ``is_back``, ``is_well`` or
# ``starts_python`` says something.
TELLING = (
    *map(str.lower, _BACK_WORDS),
    *words("restored|recovered|connected|resumed|restarted|succe|online|healthy|ready|plugged|--- pass: |warning: "),
)
TELLING_SHORT = late(r"(?:up|ok)\b")
_RESUMED = late(
    r"\bJob executing on host\b|\bRestor(?:ing|ed) (?:all )?states from\b"
    r"|(?i:(?<!not )(?<!cannot )(?<!before )\bresum(?:ed|ing)\b)(?!.{0,40}\b(?:failed|not)\b)"
)
# Events of a pod that has its volumes and its network; the groups are the pod's name, if the line tells it.
_STARTED = late(
    r"^(?=.{0,380}?(?:\bNormal\s{1,40}(?:Pulled|Started)\b|\breason\b\"?\s?[:=]\s?\"(?:Pulled|Started)\"))"
    r"(?:.{0,300}?(?:(\bpod/\S{1,253} )|(\bobject=\"[^\"]{1,253}\")|\"involvedObject\":\s?\{[^{}]{0,300}?"
    r"(\"name\":\s?\"[^\"]{1,253}\")))?"
)
# By signature; the groups are names of the lost thing.
_BACK = {
    "fs.stalled": late(
        r"\bserver (\S{1,200}) OK\s*$|\b[Cc]onnection restored to (?:service )?(\S{1,200})"
        r"|\b(?:osd|mon|mds)\d{1,6} .{0,80}\bsession established|\bmds\d{1,4} (?:caps renewed|recovery completed)"
    ),
    "flower.failures": late(r"\b(\w{1,40}: )received [1-9]\d{0,5} results and 0 failures"),
    "k8s.volume": _STARTED,
    "checkpoint.corrupt": late(
        r"^(?!.{0,380}?(?i:fail|error|not |n't |\bno ))(?i:.{0,300}?\b(?:(?:try|us|load|restor)ing|falling back to"
        r"|resuming from) (?:from )?(?:the |an )?(?:previous|older) (?:\w{1,20} )?(?:checkpoint|snapshot)\b)"
    ),
    # The tracker answers again: it takes the rest of the run, also of one that failed for another reason.
    "tracker.failed": late(r"^wandb: (?:Synced \d|.{0,300}\d [KMG]?B uploaded)"),
    "ray.oom": late(
        r"^(?!.{0,380}?(?i:\bnot |n't |\bno |\b0 retries))"
        r"(?i:.{0,300}?\b(?:will be retried|[1-9]\d{0,5} retries left)\b)"
    ),
    **dict.fromkeys(("slurm.preempted", "slurm.node", "job.preempted", "k8s.evicted", "process.stopped"), _RESUMED),
}
_PASSED = late(r"\[ {7}OK \] (?P<gtest>\S{1,200})|\s{0,40}--- PASS: (?P<go>\S{1,200})|test result: (?P<rust>ok)\. ")
_SERVICE = late(
    r"(?:.{0,60}? )?(?:sshd(?:-session)?|postfix/\w{1,20}|chronyd|ntpd|dhclient|avahi-daemon|dbus-daemon|polkitd"
    r"|NetworkManager|ModemManager|snapd|cupsd|rsyslogd|smbd|named|dnsmasq|systemd-(?:resolved|timesyncd|logind|networkd)"
    r"|packagekitd|fwupd|CRON|crond?|anacron|auditd|wpa_supplicant|gdm[\w-]{0,20}|gnome-[\w-]{1,30})\[\d{1,10}\]: "
)
_STARTUP = late(
    r"\S{0,200}(?:\.\w{0,5}(?:rc|profile|login|logout|env|aliases)|/profile(?:\.d/\S{1,100})?): (?:line )?\d{1,7}: "
    r"|CondaError: .{1,200} before 'conda deactivate'"
)
_WARNED = late(r"/?[^\s:][^:]{0,300}(?<!resource_tracker)\.py:\d{1,7}: \w{0,40}Warning: ")
_MEASURE = late(
    r"(?<![\w\"'=.-])(?:CRITICAL|FATAL|ERROR)\W{1,6}(?i:(?:train(?:ing)?|val(?:id(?:ation)?)?|test|eval(?:uation)?"
    r"|mean|avg|average|total|current|batch)[ _]){0,3}(?i:loss|acc|accuracy|auc|f1|perplexity|ppl|mse|mae|reward"
    r"|learning[ _]rate|lr)(?: value)?(?: is)?\W{0,3} ?\d{1,12}(?:\.\d{1,20})?(?:e[-+]?\d{1,3})?%?\s*$"
)
_ITEM = late(r"(?<![\w/.-])\[\s{0,8}(?P<this>\d{1,9})/(?P<all>\d{1,9})\]")
_TERMINATED = late(r"(?<![\w.])(?:-15|143|SIGTERM|[Ss]ignal:? 15)\b")
_SHUTS = late(r"(?i:\bshut(?:ting|s)? ?down\b|\bstopping\b|\bstops\b|\bgraceful(?:ly)?\b)")
_WHY = late(
    r"(?i:error|fail|because|due to|signal|timeout|timed out|exception|\blost\b|\bdead\b|abort|unexpected|crash)"
)
_OF_A_PART = late(
    r"\bpid=\d|(?<![A-Za-z])(?i:client|site|worker|party|peer|node|actor|trial)[ _:#=-]{0,2}\d"
    r"|(?<![A-Za-z])(?i:rank)[ _:#=-]{0,2}[1-9]|^\[[1-9]\d{0,5}(?:,\d{1,6})?\](?::|<)|^\[default[1-9]"
)
_SERVED = late(r"\"(?:POST|PUT|PATCH) \S{1,300} HTTP/\d(?:\.\d)?\" 2\d\d\b")
_CAUGHT = late(
    r"\b(?:ERROR|WARN(?:ING)?|INFO)\b|^[\d:. -]{8,40}:? [EWI] "
    r"|(?<!CUDA )(?<!HIP )\b(?:[Ee]rror|[Ff]ail(?:ed|ure)|[Cc]ould not|[Cc]annot|[Uu]nable)\b(?: [\w./'-]{1,40}){0,8}: "
)
