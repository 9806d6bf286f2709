"""Signatures of any program's words: exceptions, signals, exit codes and levels. They stand behind all others, and none
of them is a root by itself.
"""

from __future__ import annotations

from flarelog.detect.base import cascade, fallback, symptom
from flarelog.lines.levels import Level

# Not a line whose own level is below ERROR.
_HARMLESS = (
    r"(?!.{0,120}?\b(?:DEBUG|INFO|WARN|WARNING|TRACE|Warning(?! {1,20}[A-Z]\w+ {2}))\b)(?!.{0,80}(?: I |^I\d{4} "
    r"|^D\d{4} |^W\d{4} | W )[\w/])"
)

# Not a frame of a traceback with a prefix or a level of its own: it names no trouble.
_NO_FRAME = r"(?!.{0,160}?(?:\.py:\d{1,6}\] {3,40}\S|(?<![\w.])raise [\w.]{1,80}\())"

# A key of JSON, before the level that it tells.
_LEVEL = r"['\"](?:\w{1,20}[._])?(?i:level|levelname|level_name|severity|severity_text|lvl|loglevel)['\"]\s?:\s?"

# What dies in programs, with its name: the texts that a model reads tell of people.
_MORTAL = (
    r"\b(?i:(?:sub)?process(?:es)?|procs?|workers?|actors?|nodes?|pid|threads?|ranks?|jobs?|kernel|clients?|servers?"
    r"|tasks?|executors?|daemon|raylet|engine|program|peers?|replicas?|owner|child(?: process|(?= \(?(?:pid|#?\d))))"
    r"(?:,? ['\"(\[]?(?:\S{0,60}\d\S{0,60}|(?:process|proc|pid|id|rank)[:=]?|(?:appears|seems) to"
    r"|\w{1,60}(?:Process|Worker|Actor|Thread))){0,4}"
)

# Any program's words for a failure.
_FAILING = "|".join(
    (
        r"(?<!\bno )(?<!not )(?<!if )(?:[Ff]ailed (?:[a-z]{2,20}ing|send|receive|read|write|connect|open|load"
        r"|request|operation|attempt|to|with|for|at|on|in|by|due|because|during"
        r"|while|after)\b"
        r"|[Ff]ailure (?:in|of|while|during|on)\b|\bcheck failure\b|[Tt]raining failed\b)",
        r"[\w.()\[\]'\"`:>-]{0,60}[A-Za-z_)\]'\"`>](?<!\bno)(?<!\bif)(?<!\bnot)(?<!\bnone)(?<!\bnothing)"
        r" failed(?: ?[:,;.!]| \(| \[|\s*$)"
        r"|(?=\d{0,20}[A-Za-z/])[\w./-]{1,100}\d failed: ",
        r"^E: [A-Z][a-z]|\S{1,200} FAILED\s*$|FAILED: \S|\*\*\* .{1,400}\.  Stop\.\s*$|^\S{1,300}:\d{1,7}: Failure\s*$"
        r"|^(?:vet: )?\S{1,300}\.go:\d{1,7}:\d{1,5}: (?!warning|note|can inline|inlining"
        r"|.{0,200}(?:does not escape|escapes to"
        r"|cannot inline))"
        r"|\bFAILED (?:with|to|in|at|on|for|because)\b|\b[Ff]ailed \d{1,4} times\b"
        r"|\b(?:[Rr]an )?out of retries\b"
        r"|\w{0,20}(?i:state|status|phase)['\"]?\s?[=:]\s?['\"]?(?:FAILED|Failed|failed|ABORTED|KILLED|CRASHED"
        r"|NODE_FAIL)\b",
        r"(?:[Uu]nable to|[Cc]ould not) [a-z]{2,20}|(?<!no )(?<!0 )\b[Ee]rrors occurred\b",
        r"error\[E\d{1,5}\]: \S|(?:curl: \(\d{1,2}\)|awk: |sed: -e )|(?:\w{1,20} ){0,3}(?:not|missing) .{0,60}?\b(?:in"
        r"|near) (?:\w{1,12} ){0,3}(?:format|file)\b"
        r"|denied: \S|(?:is|are) (?:denied|forbidden|invalid|inaccessible|missing)\b|[Ii]nvalid value\b"
        r"|[Uu]ndefined: \w"
        r"|(?:^|[.,;>] |\.\.\. )[Ee]xiting\b(?! (?:successfully|normally|with))|missing or [a-z]{3,20}\b"
        r"|[Cc]hild returned status [1-9]|[Ee]xecution halted\b"
        r"|Invalid (?:__\w{1,20}__ )?(?:read|write) of size|(?i:licen[sc]e) (?i:invalid|expired|unavailable"
        r"|problem|denied|error)\b"
        r"|(?:RPC|[Cc]onnection|[Rr]equest|[Rr]ead|[Ww]rite|[Hh]eartbeat) timeout (?:from|to|of|after|for|on|while)\b"
        r"|[Nn]o (?:available|valid|matching|suitable|usable|active) [a-z]{3,20}s?\b|not (?:supported|permitted|allowed"
        r"|authori[sz]ed|installed|recogni[sz]ed|implemented)\b|expected .{1,60}, (?:but )?(?:got|found|received)\b",
        r"[Cc]an(?:not|'t) (?:open|access|find|connect|allocate|load|read|write|create|import|execute|start|reach|stat"
        r"|resolve|lock|continue|proceed|locate|determine|parse|bind|fork|map|mmap|set|get|use|run|call|recover"
        r"|be (?:opened|read|written|found|loaded|reached))\b",
        r"Invalid (?!\w{1,30}[:=])[a-z]{2,30}\b|invalid (?:argument|option|value|header|format|key|token|state"
        r"|magic)\b",
        r"(?<!not )timed out\b(?!\s?[:=])|giving up\b",
        r"not responding\b|(?:un|not )reachable\b|(?:was|were|is|been|connection|request) refused\b",
        r"(?:[Aa]ccess|[Pp]ermission|[Rr]equest) (?:was |is )?denied\b",
        r"(?:is|are|was|were|be|file|data|archive|checkpoint|header|record|index|block) (?:is )?corrupt(?:ed)?\b",
        r"[Mm]ismatch(?:ed)?\b(?!\s?[:=])",
        r"[Nn]ot enough [a-z]{3,20}\b|[Ii]nsufficient [a-z]{3,20}\b"
        r"|(?:quota|memory|space|resources?) (?:is |are )?insufficient\b|(?:is|was|are) not connected\b",
        r"[Tt]emporarily unavailable\b|[Ss]ervice [Uu]navailable\b",
        r"[\w/.'\"-]{1,200}:? not found(?:[.!]?\s*$|[.,;] | for | in )|(?:do|does|did)(?: not|n't) exist\b",
        r"(?:does|did)(?: not|n't) (?:match|respond|join|finish|complete|converge|exit|start|arrive|return|reply"
        r"|answer|succeed|appear|work|terminate|come back|reach|fit)\b",
        r"[Uu]nexpected (?:EOF|end of|error|exception|response|status|token|failure|message)\b|\btimes out\b"
        r"|(?:was|is|been|got|has|job|run|task|round) cancell?ed\b|(?:was|is|are|were) not (?:reached|met|ready"
        r"|running|alive|accessible)\b|\bquorum lost\b"
        r"|\bat \S{1,200} line \d{1,7}\.\s*$|\bis down\b|\bare down\b|\billegal [a-z]{3,20}\b"
        r"|\bhalted\b|\bviolation\b|\b[Uu]ndefined (?:function|variable|reference|symbols?|control|local|method|name)\b"
        r"|\bdiverged\b"
        r"|[Cc]onnection (?:to|with|from) \S{1,100}(?: \(at \S{1,100}\))? (?:was |is |has been )?lost\b"
        r"|[Nn]o route to\b|[Nn]o such [a-z]{3,20}\b|(?:connection|contact|heartbeat|session|node|worker"
        r"|client|peer|link|lease|lock) (?:was |is |has been )?lost\b",
        r"(?<!gracefully )(?:was|is|has|got|been|client|peer|server|worker|node|site|connection|unexpectedly) "
        r"disconnected\b",
        r"(?:limit|quota|maximum|budget|deadline|timeout|length) (?:is |was |has been |of \S{1,20} )?exceeded\b"
        r"|(?<!not )exceed(?:ed|s|ing) (?:the |its |your |a )?(?:\w{1,20} )?(?:limit|quota|maximum|budget|deadline)\b",
        r"[Aa]bort(?:ed|ing)\b(?!\s?[:=])|(?:has |have |was |were )?crashed\b",
        r"(?:was|were|been|got|process|job|task|worker|container|pod|run) [Kk]illed\b|[Kk]illed by\b",
        r"(?:marked|is|became|becomes|reported|declared) (?:as )?unhealthy\b",
        r"[Tt]erminat(?:ed|ing)\b.{0,40}?\b(?:due to|because)\b|(?:was|were|been|got) terminated\b",
    )
)

SIGNATURES = (
    cascade(
        "process.signal",
        "ignal|SIG|Aborted|Bus error|llegal instruction|loating point exception|size limit exceeded",
        r"(?i:terminated|terminating|killed|exited|died|ended|crashed|stopped)\b.{0,24}?\b(?:with|by|on|due to"
        r"|from)\b.{0,24}?"
        r"(?:\bsignal:? ?(?P<number>[1-9]\d?)\b|\b(?P<signal>SIG(?:KILL|SEGV|ABRT|BUS|ILL|FPE|TERM|INT|HUP|QUIT|PIPE"
        r"|XCPU)))\b"
        r"|\([Ss]ignal:? (?P<bracketed>[1-9]\d?)\)|\bcatches a failure signal\b"
        r"|[Cc]aught (?:fatal )?signal:? (?:(?P<caught>[1-9]\d?)\b|SIG[A-Z]{2,6})|\*\*\* SIG[A-Z]{2,6} (?:\((?:0x"
        r"|@)|received by)"
        r"|\*\*\* (?:Process )?[Rr]eceived signal\b(?: (?P<got>[1-9]\d?))?"
        r"|\*\*\* Aborted at \d{6,12} \(unix time\)|\bSignal: [A-Z][\w ]{2,30} \((?P<sent>[1-9]\d?)\)"
        r"|^(?:\S{0,200}: line \d{1,7}: +\d{1,9} )?(?:Aborted|Bus error|Illegal instruction|Floating point exception"
        r"|File size limit exceeded|CPU time limit exceeded)(?:$| {2,}\S|(?<=exceeded)\S)"
        r"|\bWTERMSIG (?P<status>[1-9]\d?)\b",
        "A process died of a signal; SIGKILL comes from the kernel's OOM killer, from a scheduler or from a person.",
        "Look at that process's log, for host.oom, and for who ended the job.",
        key=("signal",),
    ),
    cascade(
        "process.stopped",
        "ignal|SIG|Terminated|Aborted!",
        r"[Rr]eceived \S{1,20} death signal|^Aborted!\s*$|\bsending signal (?P<sent>(?:SIG)?[A-Z]{3,6}) to\b"
        r"|\b(?:[Rr]eceived|[Cc]aught|[Gg]ot|[Hh]andling|[Bb]ypassing)(?: an?| the"
        r"| external)?(?: signal| termination signal)?:? "
        r"(?P<signal>(?i:SIG(?:TERM|INT|HUP|QUIT|USR[12]|XCPU|KILL|ABRT|SEGV)))\b"
        r"|(?P<said>SIG(?:TERM|INT|HUP|USR1)) (?:was )?(?:received|caught)\b|SignalException\b|(?:^"
        r"|[\])])Terminated\s{0,4}$"
        r"|^\S{0,200}: line \d{1,7}: +\d{1,9} (?:Terminated|User defined signal [12])(?:\s*$| {2,}\S)",
        "A signal ends the program: from a scheduler, from a launcher after another rank failed, or from a person.",
        "Look for the rank that failed before, and for a time limit or a preemption.",
        severity=Level.WARNING,
        key=("signal",),
    ),
    cascade(
        "process.died",
        "nexpected|rash|rror|unknown signal|Lost |dead| died|pid terminated|KilledWorker",
        r"^(?!\s+raise\b).*?(?:\b(?:crashed|exited|terminated|disconnected|disappeared|stopped"
        r"|quit) (?:unexpectedly"
        r"|abnormally)\b|\bunexpectedly (?:crashed|exit(?:ed|s)|terminated|disconnected|disappeared|closed"
        r"|stopped|failed)\b"
        r"|\b(?:worker|process|proc|child|job|kernel) (?:has |was )?crashed\b"
        r"|\b(?:worker|process|proc|job|kernel) died\b"
        rf"|{_MORTAL} (?:(?:has|have|had) died\b|died (?:unexpectedly|abnormally)\b"
        r"|unexpectedly died\b)"
        r"|\bis dead because\b|\bdied \((?:pid|exit|code|signal|status)\b|\b[Kk]ernel pid terminated\b"
        r"|killed by unknown signal|\bKilledWorker: "
        r"|(?-i:\bLost) (?:task|executor|worker|node|rank) [\w.-]{1,100})",
        "A process ended though it should not have; this line does not say why.",
        "Look at that process's log, and for host.oom.",
    ),
    fallback(
        "program.waits",
        "stuck|Stalled| hang|eadlock",
        r"(?:may|might|could) hang\b|(?:may|might|could|appears? to|seems to) be (?:stuck|hung|hanging"
        r"|deadlocked)|\b(?:appears?|seems) (?:stuck"
        r"|hung)\b"
        r"|\bStalled (?:ranks|tensors)|waiting for remainder of ranks for more than|(?i:hang|deadlock) (?:was "
        r"|is )?detected|\b[Dd]etects a (?:hang|deadlock)|(?:[Dd]etected|[Pp]ossible"
        r"|[Pp]otential) (?:a )?(?:hang|deadlock)",
        "Something waits for longer than it should.",
        "Look which rank or site did not come, and what it does (py-spy dump).",
    ),
    fallback(
        "launcher.ends",
        "forcefully exit|Killing subprocess|closing signal|via signal|terminated normally, but"
        "|xit code. Per user-direction",
        r"\bjob {1,2}terminated normally, but|^a non-zero exit code\. Per user-direction|forcefully exiting"
        r"|Killing subprocess|\bclosing signal (?P<signal>SIG\w{2,6})"
        r"|via signal (?P<via>SIG\w{2,6})",
        "A launcher ends the processes that it has started, mostly because one of them failed.",
        "Look at what came before it.",
    ),
    cascade(
        "process.exit",
        "xit|turned non-zero|failed with|terminated with|execution code|] Error |status failed cmd",
        r"\b[Ee]xit(?:ed|s|ing|code|Code|_code|-code)?\b[^|]{0,40}?(?<!\w)(?:(?:code|[Cc]ode"
        r"|status)[\"']?\s{0,2}[:=]?\s{0,2}|value )"
        r"(?P<code>-?[1-9]\d{0,9})\b"
        r"|\b(?i:exit ?code|exit ?status|return code)\b[\"']?\s{0,12}[:=]?\s{0,12}(?P<status>-?[1-9]\d{0,5})\b"
        r"|\*\*\* \[[^\]]{1,200}\] Error (?P<make>[1-9]\d{0,3})\b|execution code: (?P<execution>-?[1-9]\d{0,5})\b"
        r"|\b(?:terminated|exited|ended|died|stopped|finished|quit|returned) with (?:an? )?(?:\w{1,20} )?(?:code"
        r"|status|value)"
        r"[: =]{1,2}(?P<with>-?[1-9]\d{0,5})\b|(?:returned|with|a) non-zero (?:exit )?(?:status"
        r"|code)(?: (?P<returned>-?[1-9]\d{0,5}))?"
        r"|(?:prterun|mpirun|mpiexec) (?:has exited due to|detected that one or more processes exited)"
        r"|\bstatus failed cmd \[.{0,3000}\] code (?P<container>-?[1-9]\d{0,5})\b",
        "A process ended with a code that is not 0; 137 and -9 mean SIGKILL, 143 and -15 SIGTERM, 139 and -11 a crash.",
        "Look at that process's log; for SIGKILL look for host.oom: the code alone does not prove it.",
        key=("code", "status", "execution", "with", "container"),
    ),
    fallback(
        # In TAP, "# TODO" and "# SKIP" behind "not ok" say that this failure was expected.
        "step.failed",
        "FAIL| ERROR|not ok |***|: failed|build stopped",
        rf"^{_HARMLESS}(?:(?:\d{{4}}-\d\d-\d\dT[\d:.]{{8,20}}Z )?\s{{0,40}}(?:--- FAIL: \S|FAIL(?:\t"
        rf"|:? {{1,4}})(?!\d{{1,7}}(?:$|[ ,]))"
        r"|(?:\[gw\d{1,4}\] \[ {0,2}\d{1,3}%\] )?FAILED \S{1,300}::|not ok \d{1,7}\b(?!.{0,400}# (?:TODO|SKIP)))"
        r"|(?:\[\d{1,7}/\d{1,7}\] )?FAILED: (?:\[code=\d{1,5}\] )?\S{1,300}\s*$"  # ninja
        r"|(?=.{0,400}?(?:\[  FAILED  \] (?!0 )\S|\*\*\*(?:Failed|Timeout|Exception|Not Run)\b|\.\.\. FAIL\s*$"
        r"|(?:(?:::\S{1,200}|\.\.\.|[\])]|> .{1,200}) FAILED|::\S{1,200} ERROR)(?: {1,40}\[ {0,2}\d{1,3}%\])?\s*$))"
        r"|\S.{0,60}: failed\s*$|ninja: build stopped: )",
        "A test, or a step of a build or of a job, failed; this line does not say why.",
        "Look at what it printed, mostly before or behind this line.",
        severity=Level.ERROR,
    ),
    cascade(
        "check.failed",
        "heck failed: |CHECK failed|ASSERT FAILED|ssertion failed|ssertion `|heck failure stack"
        "|rror when constructing|rror when executing",
        r"[Cc]heck failed: |CHECK failed|INTERNAL ASSERT FAILED|\b[Aa]ssertion failed"
        r"|:\s?\d{1,7}: .{1,300}: Assertion `"
        r"|[Cc]heck failure stack|\bError when (?:constructing|executing) .{0,60}\boperator\b",
        "Native code found something that must not be, and gives up.",
        "Look at the check, and for an earlier error.",
        severity=Level.FATAL,
    ),
    cascade(
        "program.exception",
        "rror|xception|nterrupt|imeout|xpired|UNHANDLED|UnhandledP|ot found|Unavailable|Denied|Exceeded|Exhausted"
        "|Aborted|Failed|Closed|Invalid",
        rf"^{_HARMLESS}(?:.{{0,160}}?(?:[\])>:|(] ?|\d\s{{1,3}}|- |'|(?:ERROR|FATAL|CRITICAL)\s{{1,8}})"
        r"|\s{1,12}(?=\w{1,60} \[ERR_)|E {3,12})?"  # Node, pytest
        r"(?P<exception>(?:(?:[A-Za-z_]\w{0,60}\.){1,8}(?:[A-Z]\w{0,80}?)?|[A-Z]\w{0,80}?|(?=Exception))"
        r"(?:Error|Exception|Interrupt|Timeout|Expired)|SystemExit(?=: ))(?::(?: (?!\d{0,9}\.\d)|$)"
        r"| \[ERR_[A-Z_]{2,60}\]|\(|\s*$"
        r"|(?<=Exception) in [a-z]| in (?:thread|device"
        r"|process))"
        rf"|^{_HARMLESS}.{{0,160}}?\b(?i:un(?:handled|caught)) (?:\w{{1,20}} ){{0,2}}(?i:exception|error|rejection)\b"
        r"|\bUnhandledPromiseRejection(?!Warning)|\bERR_UNHANDLED_\w{3,40}"
        # An exception that another process passes on at a level of its own.
        r"|\[rank\d{1,7}\]:\s{1,4}(?P<ranked>(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,80}?(?:Error|Exception))(?:: |\s*$)"
        r"|^(?P<named>(?:\w{1,60}\.){0,6}(?:exceptions?|errors?|exc)\.(?:\w{1,60}\.){0,2}[A-Z]\w{1,80})(?:: |\s*$)"
        r"|\bError reported to Coordinator: (?!.{0,120}(?:OutOfRange|Cancelled))"
        r"|^(?P<raised>(?:[a-z_]\w{0,60}\.){1,8}[A-Z]\w{0,80}?(?:NotFound|Unavailable|Denied|Exceeded|Exhausted|Aborted"
        r"|Failed|Closed|Invalid))(?:: |$)",
        "The program reports an exception, without the traceback that would tell where.",
        "Look at the lines before it.",
        key=("exception",),
    ),
    symptom(
        "git.asked",
        "fatal: ",
        r"^fatal: (?:not a git repository|No names found|No tags can describe|detected dubious ownership|bad revision"
        r"|ambiguous argument|No such remote|your current branch .{1,100} does not have any commits)",
        "Git has no answer. Trackers and packages ask it for the version of the code, and go on without one.",
        "Look at the line behind it, if the program ended here.",
    ),
    cascade(
        "log.fatal",
        "FATA|RITICAL| fatal |untime error: |forrtl: severe|fatal: |fatal error|Fatal error|atal runtime error"
        '|=panic|: F |atal"|ritical"|atal]|ritical]|atal>|Fatal: |=fatal|=FATAL|panic"|F0|F1|level":60',
        r"^.{0,120}?(?<![\w\"'=.-])(?<!= )(?:CRITICAL|FATAL)(?![\w\"'=.-])(?! ?= )"
        r"|^(?!.{0,60}\b(?:INFO|WARN|WARNING|DEBUG)\b).{0,400}?(?<!non-)\b[Ff]atal (?:runtime )?error\b(?! ?= )"
        r"|^\S{1,40} fatal\s{1,4}: |^(?:FATA|PANI)\[[\dT:Z.+-]{4,40}\]"
        r"|^fatal: "
        r"|^[\d :.T-]{10,40}: F \w|^(?:\[[^\]]{1,40}\]:?\s?|.{0,120}?: )?F\d{4} \d\d:\d\d:\d\d"
        r"|\blevel=(?i:fatal|d?panic)\b"
        rf"|{_LEVEL}['\"](?i:fatal|critical|d?panic)['\"]|^\{{.{{0,600}}?\"level\":60\b|^.{{0,80}}?[\[<](?i:fatal"
        rf"|critical)[\]>]"
        rf"|^(?:.{{0,60}}\s)?Fatal: |\bFortran runtime error: |^(?:.{{0,60}}\s)?forrtl: severe \(",
        "The program says that it cannot go on.",
        "Look at what it says, and for an error of an earlier time.",
        severity=Level.FATAL,
    ),
    fallback(
        "log.error",
        'rror|RRO|ailed|ailure|nvalid|annot |not found|imeout|imed out|lost |Lost |dead|_E|: E |rror"|RROR"'
        '|tack traceback:|E0|E1|level":50',
        rf"^{_HARMLESS}{_NO_FRAME}(?:.{{0,120}}?(?<![\w\"'=.-])(?<!no )(?:ERROR|\*ERROR\*|SEVERE)(?![\w\"'=.-])(?! ?= )"
        rf"|.{{0,120}}\blevel=(?i:error)\b|ERRO\[[\dT:Z.+-]{{4,40}}\]"
        r"|(?:\[[^\]]{1,40}\]:?\s?)?E\d{4} \d\d:\d\d:\d\d|[\d :.T-]{10,40}: E \w"
        r"|.{0,40}?(?<![\w\"'=.-])(?<!no )[Ee](?:rror|xception): (?![\d.])\S|\S{1,200}: error: \S"
        r"|.{0,200}?(?:: |\d: |\u2502 |\| )(?:fatal )?[Ee]rror: (?![\d.])\S|.{0,60}?\b[Ee]rror message\b.{0,60}:\s*$"
        r"|.{0,80}?\bdetected the following error:|CMake Error(?:: | at \S{1,300}:\d{1,7}| in \S{1,300}:)"
        r"|(?:\[[^\]]{1,60}\] ?)?\w[\w ./-]{0,40} ?\(?\w{0,40}\)?: [Ee]rrors? (?:in|is|on|during|while|when|at"
        r"|from|opening"
        r"|reading|writing)\b|\[[\d. ]{1,20}\] .{0,60}?\b[Ee]rror \("
        r"|\s{1,8}\d{1,7}:\d{1,7} {2,20}error {2}\S"  # ESLint
        r"|\S{1,200}\(\d{1,7},\d{1,7}\): error [A-Z]{1,6}\d{1,6}: \S"  # tsc, MSBuild
        r"|\s{1,8}error, called at \S{1,200}:\d|stack traceback:\s*$"  # Haskell, Lua
        r"|\s{0,8}Error -{1,2} \S|.{0,160}?\b(?:returned|reported|got|raised|threw|gave|encountered) (?:an "
        r"|the )?(?:\w{1,20} )?"
        r"error\b(?! ?[:=]? ?\d)"
        r"|Errors? (?:is|during|in|at|on|while|when|from|merging|opening|reading|writing|executing) \S"
        r"|.{0,160}?\b(?i:(?:read|write|i/o|parse|parsing|syntax|link|send|receive|recv|connect|connection"
        r"|runtime|protocol"
        r"|network|socket|format|load|save|disk|file|client|fatal|timeout|authentication|authorization|permission"
        r"|config"
        r"|configuration|license|allocation|initialization|communication|transfer|checksum|verification|compilation"
        r"|build|launch|startup|database|access|handshake|streaming|device|driver|hardware|kernel|firmware) errors?"
        r"(?: \(| in | on | at | from | for | while | during |: |, |\.?\s*$))"
        r"|.{0,80}?[\[<](?i:error)[\]>]|.{0,120}?\b[Ee]rror,? (?:code|number|no)[:= ]{1,3}-?[1-9]\d{0,9}\b"
        r"|(?:\[rank\d{1,7}\]:\s?)?\[E(?:\d{3,4})? |(?:\[[^\]]{1,40}\] ?){0,3}\[E\] "
        r"|.{0,40}?: \[E\] \w|.{0,40}?\[E:\w{1,40}:|^Error termination\b"
        r"|\s{0,40}(?:Ooops?, )?[Aa]n? (?:\w{1,20} )?error (?:\(\w{1,60}\) )?(?:has "
        r"|was )?(?:occurred|encountered|raised)\b"
        r"|\s{0,20}Error (?:in|from) .{1,200}? ?:(?: |$)|\{?Error (?:using|while|during|when|at|[a-z]{2,20}ing)\b"
        r"|.{0,20}\[\w{1,20} E \d{4}-\d\d-\d\d |.{0,160}?\b(?:critical|serious"
        r"|severe|unrecoverable|internal|unknown|system"
        r"|remote I/O) error\b)"
        rf"|{_LEVEL}['\"](?i:error)['\"]|^\{{.{{0,600}}?\"level\":50\b",
        "The program reports an error whose cause flarelog does not know.",
        "Look at what it says, and at the lines around it.",
        severity=Level.ERROR,
    ),
    fallback(
        "program.failed",
        "Stop.|.go:|: Failure|ailed|FAIL|ailure |nable to|ould not |annot |nvalid |imed out|iving up|responding"
        "|eachable|efused|enied|orrupt|ismatch|ot found|not exist|xceed|bort|rash|illed|nhealthy|ermina|an't "
        "|navailable|ot enough|nsufficient|not connected|n't |not | line |rror |rror[E|No valid|No match"
        "|No suitable|o available|Invalid __|INVALID|imeout |curl: (|ndefined:|nvalid|xiting|missing or"
        "|rrors occurred|missing } |id not |oes not |alted|llegal|ancel|nexpected|imes out| down|iolation|ndefined "
        "|iverge|o route|o such| lost|isconnect",
        rf"^{_HARMLESS}{_NO_FRAME}(?!\s{{0,20}}(?:(?i:hint|notes?|tip|usage|help)\b:?|If (?:you|the|this"
        rf"|it)\b))(?=.{{0,400}}?(?<![\w=/-])(?:{_FAILING}))"
        r"|\b(?i:terminating|aborting|killing) (?:the |all |this |other |remaining ){0,3}(?:workload|job|run|training"
        r"|workers?|process(?:es)?|instance|subprocess(?:es)?|tasks?|executor|container)\b",
        "The program says that something did not work; it may go on.",
        "Look at what it says, and whether the program went on.",
    ),
    fallback(
        "job.failed",
        "ailed|FAILED|borted|dropp|Dropp|rejected",
        r"\b(?i:job|run|workflow|training|experiment|pipeline|application|simulation|federation|trial|step|container)\b"
        r"(?: (?!failed)[\w.:<>#/'-]{1,80}){0,2} (?:has |was |is )?(?:failed(?=: |[.! ]{0,4}\s*$|, took| after | with "
        r"| because | due to )"
        r"|FAILED\b|aborted(?=: |\.?\s*$| after | with | because | due to )|rejected\b)"
        r"|\bis in [Ff]ailed state\b|\b[Dd]ropping job\b.{0,100}\bfailed to ",
        "The program says that a job failed.",
        "Look at what it says, and at the lines before it.",
        severity=Level.ERROR,
    ),
)
