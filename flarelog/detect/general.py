"""Signatures of what any program says: exceptions, signals, exit codes and levels. They stand behind all others, and
none of them is a root by itself.
"""

from __future__ import annotations

from flarelog.detect.base import signature
from flarelog.render.levels import Level

# A line that says of itself that it is no error.
_HARMLESS = (
    r"(?!.{0,120}?\b(?:DEBUG|INFO|WARN|WARNING|TRACE|Warning)\b)(?!.{0,80}(?: I |^I\d{4} |^D\d{4} |^W\d{4} | W )[\w/])"
)

SIGNATURES = (
    signature(
        "process.signal",
        "cascade",
        Level.ERROR,
        ("ignal", "SIG", "Aborted at "),
        r"(?i:terminated|killed|exited|died|ended|crashed|stopped)\b.{0,24}?\b(?:with|by|on|due to|from)\b.{0,24}?"
        r"(?:\bsignal:? ?(?P<number>[1-9]\d?)\b|\b(?P<signal>SIG(?:KILL|SEGV|ABRT|BUS|ILL|FPE|TERM|INT|HUP|QUIT|PIPE"
        r"|XCPU)))\b"
        r"|[Cc]aught (?:fatal )?signal:? (?:(?P<caught>[1-9]\d?)\b|SIG[A-Z]{2,6})|\*\*\* SIG[A-Z]{2,6} \((?:0x|@)"
        r"|\*\*\* Aborted at \d{6,12} \(unix time\)|\bSignal: [A-Z][\w ]{2,30} \((?P<sent>[1-9]\d?)\)"
        r"|^(?:\S{0,200}: line \d{1,7}: +\d{1,9} )?(?:Aborted|Bus error|Illegal instruction|Floating point exception)"
        r"(?:$| {2,}\S)",
        "A process died of a signal; SIGKILL comes from the kernel's OOM killer, from a scheduler or from a person.",
        "Look at that process's log, for host.oom, and for who ended the job.",
        key=("signal",),
    ),
    signature(
        "process.stopped",
        "cascade",
        Level.WARNING,
        ("ignal", "SIG", "Terminated"),
        r"[Rr]eceived \S{1,20} death signal|\b(?:[Rr]eceived|[Cc]aught|[Gg]ot|[Hh]andling|[Bb]ypassing)(?: an?| the"
        r"| external)?(?: signal| termination signal)?:? "
        r"(?P<signal>(?i:SIG(?:TERM|INT|HUP|QUIT|USR[12]|XCPU|KILL|ABRT|SEGV)))\b"
        r"|(?P<said>SIG(?:TERM|INT|HUP|USR1)) (?:was )?(?:received|caught)\b|SignalException\b|(?:^"
        r"|[\])])Terminated\s{0,4}$",
        "Somebody ends the program by a signal: a scheduler, a launcher after another rank had failed, or a person.",
        "Look for the rank that failed before, and for a time limit or a preemption.",
        key=("signal",),
    ),
    signature(
        "process.died",
        "cascade",
        Level.ERROR,
        ("nexpected", "rash", "rror", "unknown signal"),
        r"^(?!\s+raise\b).*?(?:\b(?:died|crashed|exited|terminated|disconnected|disappeared|stopped"
        r"|quit) (?:unexpectedly"
        r"|abnormally)\b|\bunexpectedly (?:died|crashed|exit(?:ed|s)|terminated|disconnected|disappeared|closed"
        r"|stopped|failed)\b"
        r"|\b(?:worker|process|proc|child|job|kernel) (?:has |was )?(?:died|crashed)\b|killed by unknown signal)",
        "A process ended though it should not have; this line does not say why.",
        "Look at that process's log, and for host.oom.",
    ),
    signature(
        "program.waits",
        "symptom",
        Level.WARNING,
        ("stuck", "Stalled", " hang", "eadlock"),
        r"(?:may|might|could|appears? to|seems to) be (?:stuck|hung|hanging|deadlocked)|\b(?:appears?|seems) (?:stuck"
        r"|hung)\b"
        r"|\bStalled (?:ranks|tensors)|(?i:hang|deadlock) (?:was |is )?detected|(?:[Dd]etected|[Pp]ossible"
        r"|[Pp]otential) (?:a )?(?:hang|deadlock)",
        "Something waits for longer than it should.",
        "Look which rank or site did not come, and what it does (py-spy dump).",
    ),
    signature(
        "launcher.ends",
        "symptom",
        Level.WARNING,
        ("forcefully exit", "Killing subprocess", "closing signal", "via signal"),
        r"forcefully exiting|Killing subprocess|\bclosing signal (?P<signal>SIG\w{2,6})|via signal (?P<via>SIG\w{2,6})",
        "A launcher ends the processes that it has started, mostly because one of them failed.",
        "Look at what came before it.",
    ),
    signature(
        "process.exit",
        "cascade",
        Level.ERROR,
        ("xit", "turned non-zero", "failed with", "terminated with", "execution code"),
        r"\b[Ee]xit(?:ed|s|ing|code|Code|_code|-code)?\b[^|]{0,40}?(?<!\w)(?:(?:code|[Cc]ode"
        r"|status)[\"']?\s{0,2}[:=]?\s{0,2}|value )"
        r"(?P<code>-?[1-9]\d{0,5})\b"
        r"|\b(?i:exit ?code|exit ?status|return code)\b[\"']?\s{0,12}[:=]?\s{0,12}(?P<status>-?[1-9]\d{0,5})\b"
        r"|execution code: (?P<execution>-?[1-9]\d{0,5})\b"
        r"|(?:returned|with|a) non-zero (?:exit )?(?:status|code)(?: (?P<returned>-?[1-9]\d{0,5}))?"
        r"|(?:prterun|mpirun|mpiexec) (?:has exited due to|detected that one or more processes exited)",
        "A process ended with a code that is not 0; 137 and -9 mean SIGKILL, 143 and -15 SIGTERM, 139 and -11 a crash.",
        "Look at that process's log; for SIGKILL look for host.oom: the code alone is no evidence.",
        key=("code", "status", "execution"),
    ),
    signature(
        "check.failed",
        "cascade",
        Level.FATAL,
        ("heck failed: ", "CHECK failed", "ASSERT FAILED", "ssertion failed", "ssertion `", "heck failure stack"),
        r"[Cc]heck failed: |CHECK failed|INTERNAL ASSERT FAILED|\b[Aa]ssertion failed|: \d{1,7}: .{1,300}: Assertion `"
        r"|[Cc]heck failure stack",
        "Native code found something that must not be, and gives up.",
        "Look at what is checked, and for an error of an earlier time.",
    ),
    signature(
        "program.exception",
        "cascade",
        Level.ERROR,
        ("rror", "xception", "nterrupt", "imeout", "xpired"),
        rf"^{_HARMLESS}(?:.{{0,160}}?(?:[\])>:|(] ?|\d\s{{1,3}}|- |'))?"
        r"(?P<exception>(?:(?:[A-Za-z_]\w{0,60}\.){1,8}(?:[A-Z]\w{0,80}?)?|[A-Z]\w{0,80}?|(?=Exception))"
        r"(?:Error|Exception|Interrupt|Timeout|Expired))(?::(?: (?!\d{0,9}\.\d)|$)|\(|\s*$| in (?:thread|device"
        r"|process))",
        "The program reports an exception, without the traceback that would tell where.",
        "Look at the lines before it.",
        key=("exception",),
    ),
    signature(
        "log.fatal",
        "cascade",
        Level.FATAL,
        ("ATAL", "RITICAL", "fatal: ", "fatal error", "Fatal error", "atal runtime error", "panic", ": F "),
        r"^.{0,120}?(?<![\w\"'=.-])(?<!= )(?:CRITICAL|FATAL)(?![\w\"'=.-])(?! ?= )"
        r"|(?<!non-)\b[Ff]atal (?:runtime )?error\b(?! ?= )|^fatal: "
        r"|^panic: |^[\d :.T-]{10,40}: F \w|^(?:\[[^\]]{1,40}\]:?\s?)?F\d{4} \d\d:\d\d:\d\d|\blevel=(?:fatal|panic)\b",
        "The program says that it cannot go on.",
        "Look at what it says, and for an error of an earlier time.",
    ),
    signature(
        "log.error",
        "symptom",
        Level.ERROR,
        (
            "rror",
            "RROR",
            "ailed",
            "nvalid",
            "annot ",
            "not found",
            "imeout",
            "imed out",
            "lost ",
            "Lost ",
            "dead",
            "_E",
            ": E ",
        ),
        rf"^{_HARMLESS}(?:.{{0,120}}?(?<![\w\"'=.-])(?:ERROR|\*ERROR\*|SEVERE)(?![\w\"'=.-])(?! ?= )"
        rf"|.{{0,120}}\blevel=error\b"
        r"|(?:\[[^\]]{1,40}\]:?\s?)?E\d{4} \d\d:\d\d:\d\d|[\d :.T-]{10,40}: E \w"
        r"|.{0,40}?(?<![\w\"'=.-])(?<!no )[Ee]rror: (?![\d.])\S)",
        "The program reports an error, of a kind that no other signature knows.",
        "Look at what it says, and at the lines around it.",
    ),
)
