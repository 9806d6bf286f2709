"""Signatures of the machine: memory, signals, disks, file systems, limits."""

from __future__ import annotations

from flarelog.detect.base import cascade, root
from flarelog.lines.levels import Level

# Tools that list, clean up or set a priority: a script mostly goes on after they fail.
_TIDIES = (
    r"(?!(?:\S{0,200}: (?:line )?\d{1,7}: )?(?:/\S{0,40}/)?(?:find|ls|du|df|stat|rm|rmdir|e?grep|nice|renice|ionice"
    r"|chrt|sysctl|stty|tee: /(?:proc|sys)/\S{1,200}): )"
)

SIGNATURES = (
    root(
        "host.oom",
        "of memory: Kill|Killed process|oom_kill event|oom-kill event|oom-kill:|OOMKilled|out-of-memory"
        "|Out Of Memory|invoked oom-killer|OOM-killed|memory limit|TERM_MEMLIMIT|memory budget|systemd-oomd killed"
        "|due to memory pressure|xceeded limit|memory usage limit|OOM killer|OOM Killer|OOM-killer|'oom-kill'",
        r"(?:ut of memory: Kill(?:ed)?|\bKilled) process (?P<pid>\d{1,9})"
        r" \((?P<program>.{1,64}?)\)(?: total-vm|,| score)"
        r"|Detected (?P<kills>\d{1,6}) oom[_-]kill event|\bOOMKilled\b(?!\"?: ?(?:false|null))"
        r"|killed by the cgroup out-of-memory handler"
        r"|srun: error: \S{1,100}: tasks? [\d,-]{1,100}: Out Of Memory|\binvoked oom-killer\b|\bOOM-killed\b"
        r"|TERM_MEMLIMIT"
        r"|[Ee]xceed(?:ed|ing|s) (?:\w{1,12} ){0,3}memory limits?\b|[Ee]xceeded \d{1,3}% memory budget"
        r"|\boom-kill:constraint=|systemd-oomd killed"
        r"|systemd-oomd\[\d{1,9}\]: Killed \S{1,400} due to memory pressure|LSF memory usage limit"
        r"|\b(?:mem|vmem|pmem) \S{1,20} exceeded limit \S{1,20}"
        r"|(?:been|was|were|got) killed by the (?:\w{1,10} )?OOM[ -][Kk]iller|ailed with result 'oom-kill'",
        "The kernel killed a process because memory ran out, of the machine or of its cgroup.",
        "Give the job more memory, or use less: fewer DataLoader workers, smaller prefetch, no copies of the data.",
        key=("pid",),
    ),
    root(
        "host.memory",
        "MemoryError|annot allocate memory|DefaultCPUAllocator|bad_alloc|annot allocate vector|heap space"
        "|java.lang.Out|ot enough|nsufficient|emory exhausted|ut of memory|ut of virtual memory",
        r"(?<![A-Za-z])(?:_Array)?MemoryError\b|[Cc]annot allocate (?:memory|vector of size)"
        r"|java\.lang\.OutOfMemoryError"
        r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
        r"(?:: you tried to allocate (?P<tried_bytes>\d{1,18}))?"
        r"|std::bad_alloc|\bheap out of memory\b|(?i:\bnot enough (?:\w{1,20} ){0,2}memory\b"
        r"|\binsufficient (?:\w{1,20} ){0,2}memory\b"
        r"|\bmemory exhausted\b|(?:^|[:\]] )out of (?:virtual )?memory\s{0,3}(?:$|[.,;!(]|:(?! kill))"
        r"|\bran out of (?:\w{1,20} )?memory\b(?! budget)(?!.{0,300}not a failure))",
        "The process could not get memory from the system.",
        "Give the job more memory or raise its limit (ulimit -v, the cgroup's), or use less.",
    ),
    root(
        "crash.segfault",
        "Segmentation fault|segmentation fault|segfault at|SIGSEGV|aught signal 11|caught segfault"
        "|egmentation violation",
        r"^(?:.{0,120}?[ :\]])?(?:Fatal Python error: )?Segmentation fault(?:$|: 11$| \(core dumped\)| {2,}|: address)"
        r"|died with <Signals\.SIGSEGV"
        r"|^\d{1,9} segmentation fault|signal SIGSEGV, Segmentation fault"
        r"|(?P<program>[\w.-]{1,40})\[(?P<pid>\d{1,9})\]: segfault at "
        r"|Signal: Segmentation fault|[Cc]aught signal 11\b|\bSIGSEGV\b.{0,60}(?:received|segmentation)"
        r"|\*\*\* (?:SIGSEGV|caught segfault)|^\s{0,40}Segmentation violation|^#\s{1,4}SIGSEGV \(0x"
        # A runtime's own words, and those of other shells.
        r"|(?:\[BUG\]|panic\S{0,40}:|panic\([^)]{1,40}\):) Segmentation fault\b"
        r"|\bSegmentation fault (?:occurred )?at (?:address )?0x"
        r"|^(?:\w{1,12}: |\[\d{1,3}\]\s{1,6}[+-]?\s{1,6}\d{1,9} )segmentation fault\b",
        "The process read or wrote memory that is not its own: an extension written in C, C++ or CUDA has a bug.",
        "The frames behind 'Current thread' name the call, if PYTHONFAULTHANDLER=1 was set; update that package.",
    ),
    root(
        "crash.signal",
        "core dumped|Fatal Python error|received signal SIG",
        r"(?P<what>Aborted|Bus error|Illegal instruction|Floating point exception) *\(core dumped\)"
        r"|^Program received signal (?P<got>SIG[A-Z]{3,6})\b|Fatal Python error: (?P<error>Aborted|Bus error"
        r"|Illegal instruction|Floating[ -]point exception)",
        "The process died of a signal that its own code or a library raised.",
        "Look at the lines before it: an assertion or an exception of C++ says why.",
    ),
    root(
        "crash.heap",
        "double free or corruption|free(): |malloc(): |realloc(): |munmap_chunk(): |corrupted size vs"
        "|corrupted double-linked list|corrupted unsorted|stack smashing detected|buffer overflow detected"
        "|malloc_consolidate(): |Sanitizer: ",
        r"double free or corruption|\bERROR: \w{1,20}Sanitizer: |\b(?:free|malloc|realloc|munmap_chunk"
        r"|malloc_consolidate)\(\): (?:invalid"
        r"|corrupted|unaligned"
        r"|unsorted|mismatching|largebin|memory corruption|double free|smallbin)|corrupted (?:size vs|double-linked"
        r"|unsorted)"
        r"|stack smashing detected|buffer overflow detected",
        "The process has broken its own memory: an extension written in C or C++ has a bug, or two libraries do not"
        " fit.",
        "Update or leave out native packages one by one; PYTHONFAULTHANDLER=1 shows where Python was.",
    ),
    root(
        "crash.panic",
        "panicked at|PanicException|atal runtime error: |panic: ",
        r"^(?:.{0,60}[ :])?thread '(?P<thread>[^']{1,60})'(?: \(\d{1,9}\))? panicked at|\bPANIC => panicked at"
        r"|\bPanicException: |\bObserved a panic: "
        r"|^fatal runtime error: |^(?:.{0,100}[\]:)|\d] ?)?panic: (?!(?:false|true|no|off|none|\d{1,9}"
        r"|disabled)$)(?P<why>\S.{0,100})",
        "Code written in Rust or Go gave up.",
        "The line says why; RUST_BACKTRACE=1 shows where in Rust, the lines behind it in Go.",
    ),
    root(
        "crash.llvm",
        "LLVM ERROR: ",
        r"^(?:.{0,60}\s)?LLVM ERROR: (?P<why>\S.{0,100})",
        "LLVM, the compiler within Triton, XLA and numba, gave up and aborted the process.",
        "The line says why; the versions of the compiler, the driver and the device may not fit.",
    ),
    root(
        "host.killed",
        "Killed",
        r"^(?:\S{0,200}: line \d{1,7}: +\d{1,9} )?Killed(?:\s*$| {2,}\S)",
        "A shell says that SIGKILL killed its command; usually memory ran out, but this line alone does not prove it.",
        "Look for host.oom, in the kernel's messages and in the exit record; else for who sent the signal.",
    ),
    root(
        "disk.full",
        "No space left on device|EDQUOT|No space left|no space left on device",
        "",
        "A file system has no bytes or no inodes left.",
        "Look at df -h and df -i of the directory; remove old checkpoints.",
    ),
    root(
        "disk.quota",
        "quota exceeded|xceeded quota|quota has been exceeded|xceeding",
        r"(?i:disk quota exceeded|(?<!not )exceed(?:ed|ing) (?:\w{1,10} ){0,2}quota"
        r"|quota (?:has been )?exceeded).{0,80}$",
        "The user's quota of the file system is used up.",
        "Look at quota -s; remove old checkpoints.",
    ),
    root(
        "disk.write",
        "unexpected pos|failed writing file|iostream error",
        r"unexpected pos \d{1,18} vs \d{1,18}|PytorchStreamWriter failed writing file"
        r"|basic_ios::clear: iostream error",
        "A checkpoint could not be written: mostly a full disk or quota.",
        "Look at df -h, df -i and the quota; the file is incomplete and must not be loaded.",
        severity=Level.ERROR,
    ),
    root(
        "disk.readonly",
        "Read-only file system",
        "",
        "The file system may not be written.",
        "Write elsewhere; look in the kernel's messages if the file system was writable before.",
        severity=Level.ERROR,
    ),
    root(
        "disk.error",
        "Input/output error|I/O error, dev|emote I/O error|I/O failure",
        r"\[Errno 5\] Input/output error|failed with Input/output error|: Input/output error"
        r"|\b[Rr]emote I/O error\b|\buncorrectable I/O failure\b|I/O error, dev ",
        "A disk or a network file system could not read or write.",
        "Look in the kernel's messages; test the disk or the mount.",
        severity=Level.ERROR,
    ),
    root(
        "fs.mount",
        "mount error|imed out|enied by server|or other error|efused|o such device|ailed, reason",
        r"\bmount error(?:\(\d{1,3}\)| \d{1,3})? ?[:=] ?\S"
        r"|^(?:.{0,60}[ :])?mount(?:\.\w{1,12})?: .{0,300}?(?:[Cc]onnection (?:timed out|refused)"
        r"|denied by server|or other error|No such device|failed, reason)",
        "A file system could not be mounted.",
        "Check the server and its exports, the name, the network, and the client's packages on this machine.",
    ),
    root(
        "host.service",
        "failed because|ailed to start|ailed to restart",
        r"\bJob for (?P<unit>\S{1,100}\.\w{4,9}) failed because "
        r"|\bFailed to (?:re)?start (?P<other>\S{1,100}\.service): ",
        "A service of the machine could not be started.",
        "Look at systemctl status and journalctl -u of that service.",
        severity=Level.ERROR,
        key=("unit", "other"),
    ),
    root(
        "fs.denied",
        "ermission denied|Operation not permitted",
        r"\[Errno (?:13|1)\] (?:Permission denied|Operation not permitted)(?:: '?(?P<path>[^']{1,200}))?"
        rf"|^{_TIDIES}(?:\S{{0,200}}: )(?:line \d{{1,7}}: )?(?:.{{0,160}}: )?Permission denied\s*"
        r"(?:$|\((?:publickey|password))"
        r"|[Ee]rror.{0,120}: [Pp]ermission denied",
        "The program may not read or write a file.",
        "Compare the user of the job or the container with the owner and the mode of the file.",
        severity=Level.ERROR,
    ),
    root(
        "fs.missing",
        "No such file or directory|can't open file|does not exist",
        # A program that warns goes on without the file.
        r"^(?!.{0,80}?\bWARN(?:ING)?\b).*?\[Errno 2\] No such file or directory(?:: '?(?P<path>[^']{1,200}))?"
        rf"|python\S{{0,8}}: can't open file|^{_TIDIES}(?:\S{{0,200}}: )(?:cannot (?:open|access"
        r"|stat) )?\S{1,200}: No such file or directory\s*$",
        "A file that the program needs is not there.",
        "Check the path, the mount and the working directory at the site that failed.",
        severity=Level.ERROR,
    ),
    root(
        "program.usage",
        "error: |Error: |recognized option|nvalid option|nknown option",
        r"^(?:.{0,240}[ \]:])?error: (?:unrecognized arguments?:|the following arguments are required:"
        r"|argument \S{1,100}: |one of the arguments |ambiguous option: |too few arguments|expected \w{1,10} argument)"
        r"|^Error: (?:[Nn]o such (?:option|command)|Missing (?:option|argument|parameter)|Invalid value for"
        r"|Got unexpected extra argument)|^\S{1,100}: (?:unrecognized|invalid|unknown) option (?:-- )?\S",
        "The program was called with options that it does not take.",
        "Correct the command; its --help names the options of the version that is installed at the site.",
        severity=Level.ERROR,
    ),
    root(
        "shell.command",
        "command not found|: not found|ntax error|unbound variable|bad interpreter|unexpected EOF"
        "|: bad substitution|ambiguous redirect|annot execute|No such file or directory",
        r"^\S{1,200}: (?:line )?\d{1,7}: .{1,200}: (?:command )?not found\s*$|^(?:-?(?:ba|z"
        r"|da)?sh: )(?:line \d{1,7}: )?"
        r"(?P<command>\S{1,100}): (?:command )?not found|: (?P<missing>\S{1,100}): command not found"
        r"|^\S{1,200}: (?:line )?\d{1,7}: (?:.{0,60}: )?(?:[Ss]yntax error|unbound variable|unexpected EOF"
        r"|bad substitution"
        r"|ambiguous redirect|cannot execute)|: bad interpreter: "
        r"|^\S{1,200}: line \d{1,7}: (?P<file>\S{1,200}): No such file or directory\s*$",
        "A shell script names a program or a file that is missing, or runs in another shell than it was written for.",
        "Check PATH, the modules and the files of the site that failed, and with which shell the script is started.",
        severity=Level.ERROR,
    ),
    root(
        "limit.processes",
        "can't start new thread|Resource temporarily unavailable|hread creation failed|pthread_create failed",
        r"can't start new thread|(?:fork|Fork|clone|pthread_create).{0,60}Resource temporarily unavailable"
        r"|[Tt]hread creation failed|pthread_create failed",
        "The user or the container may start no more processes or threads.",
        "Look at ulimit -u and the cgroup's pids.max; use fewer workers, and set OMP_NUM_THREADS.",
        severity=Level.ERROR,
    ),
    root(
        "fs.disconnected",
        "Transport endpoint is not connected|Software caused connection abort",
        r"Transport endpoint is not connected|\[Errno 103\] Software caused connection abort",
        "A mounted file system (FUSE) has lost its process.",
        "Check mountpoint -q; mount it again or restart its CSI pod.",
        severity=Level.ERROR,
    ),
    root(
        "fs.stale",
        "Stale file handle|Stale NFS file handle",
        "",
        "The server of a network file system no longer knows an open file.",
        "Check the server's exports; mount it again and restart the job.",
        severity=Level.ERROR,
    ),
    root(
        "storage.throttled",
        "SlowDown|lease reduce your request rate",
        r"\(SlowDown\)|\b[Pp]lease reduce your request rate",
        "The object store refuses requests because there are too many.",
        "Use fewer workers or larger objects, spread them over prefixes, or keep a cache.",
        severity=Level.ERROR,
    ),
    root(
        "limit.files",
        "Too many open files|received 0 items of ancdata|unable to open shared memory object",
        "",
        "The process has reached its limit of open files.",
        "Raise ulimit -n; with DataLoader use torch.multiprocessing.set_sharing_strategy('file_system').",
        severity=Level.ERROR,
    ),
    root(
        "crash.exception",
        "what():",
        # Exceptions of NCCL and gloo mostly come from another rank's failure.
        r"^(?:.{0,60}[\]:] ?)?\s{0,8}what\(\): {1,4}(?P<what>(?!.{0,200}?(?:[NR]CCL|[Cc]onnect|[Ww]atchdog|[Rr]ank \d"
        r"|[Tt]ime(?:d )?out|[Bb]roken pipe|[Pp]eer\b|[Ss]ocket))\S.{0,100})",
        "The process aborts: no code caught a C++ exception.",
        "Look at what it says, and at the lines before it.",
    ),
    cascade(
        "crash.terminate",
        "terminate called |libc++abi|what():",
        r"terminate called (?:after throwing an instance of '(?P<exception>[^']{1,150})|without an active exception"
        r"|recursively)|libc\+\+abi(?:\.dylib)?: terminating"
        r"|^(?:.{0,60}[\]:] ?)?\s{0,8}what\(\): {1,4}(?P<what>\S.{0,100})",
        "The process aborts: no code caught a C++ exception. The next line says which.",
        "Look at the next line, and for an error of an earlier time: NCCL ends its processes so too.",
        severity=Level.FATAL,
    ),
)
