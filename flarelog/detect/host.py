"""Signatures of the machine: memory, signals, disks, file systems, Slurm, Kubernetes."""

from __future__ import annotations

from flarelog.detect.base import signature
from flarelog.render.levels import Level

SIGNATURES = (
    signature(
        "host.oom",
        "root",
        Level.FATAL,
        (
            "of memory: Kill",
            "Killed process",
            "oom_kill event",
            "oom-kill event",
            "OOMKilled",
            "out-of-memory",
            "Out Of Memory",
        ),
        r"(?:ut of memory: Kill(?:ed)?|\bKilled) process (?P<pid>\d{1,9})"
        r" \((?P<program>.{1,64}?)\)(?: total-vm|,| score)"
        r"|Detected (?P<kills>\d{1,6}) oom[_-]kill event|\bOOMKilled\b|killed by the cgroup out-of-memory handler"
        r"|srun: error: \S{1,100}: tasks? [\d,-]{1,100}: Out Of Memory",
        "The kernel killed a process because memory ran out, of the machine or of its cgroup.",
        "Give the job more memory, or use less: fewer DataLoader workers, smaller prefetch, no copies of the data.",
        key=("pid",),
    ),
    signature(
        "host.memory",
        "root",
        Level.FATAL,
        ("MemoryError", "Cannot allocate memory", "DefaultCPUAllocator", "bad_alloc"),
        r"(?<![A-Za-z])(?:_Array)?MemoryError\b|Cannot allocate memory"
        r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
        r"(?:: you tried to allocate (?P<tried_bytes>\d{1,18}))?"
        r"|std::bad_alloc",
        "The process could not get memory from the system.",
        "Give the job more memory or raise its limit (ulimit -v, the cgroup's), or use less.",
    ),
    signature(
        "crash.segfault",
        "root",
        Level.FATAL,
        ("Segmentation fault", "segmentation fault", "segfault at", "Signals.SIGSEGV"),
        r"^(?:.{0,120}?[ :\]])?(?:Fatal Python error: )?Segmentation fault(?:$|: 11$| \(core dumped\)| {2,}|: address)"
        r"|died with <Signals\.SIGSEGV"
        r"|^\d{1,9} segmentation fault|signal SIGSEGV, Segmentation fault"
        r"|(?P<program>[\w.-]{1,40})\[(?P<pid>\d{1,9})\]: segfault at "
        r"|Signal: Segmentation fault",
        "The process read or wrote memory that is not its own: an extension written in C, C++ or CUDA has a bug.",
        "The frames behind 'Current thread' name the call, if PYTHONFAULTHANDLER=1 was set; update that package.",
    ),
    signature(
        "crash.signal",
        "root",
        Level.FATAL,
        ("core dumped", "Fatal Python error"),
        r"(?P<what>Aborted|Bus error|Illegal instruction|Floating point exception) *\(core dumped\)"
        r"|Fatal Python error: (?P<error>Aborted|Bus error|Illegal instruction|Floating[ -]point exception)",
        "The process died of a signal that its own code or a library raised.",
        "Look at the lines before it: an assertion or an exception of C++ says why.",
    ),
    signature(
        "crash.exception",
        "cascade",
        Level.FATAL,
        "terminate called after throwing",
        r"terminate called after throwing an instance of '(?P<exception>[\w:.<>]{1,150})'",
        "The process aborts: nobody caught an exception of C++. The next line says what it is.",
        "Look at the next line, and for an error of an earlier time: NCCL ends its processes so too.",
    ),
    signature(
        "host.killed",
        "root",
        Level.FATAL,
        "Killed",
        r"^(?:\S{0,200}: line \d{1,7}: +\d{1,9} )?Killed(?:$| {2,}\S)",
        "A shell says that SIGKILL killed its command; memory is the usual reason, and this line is no evidence.",
        "Look for host.oom, in the kernel's messages and in the exit record; else for who sent the signal.",
    ),
    signature(
        "disk.full",
        "root",
        Level.FATAL,
        "No space left on device",
        "",
        "A file system has no bytes or no inodes left.",
        "Look at df -h and df -i of the directory; remove old checkpoints.",
    ),
    signature(
        "disk.quota",
        "root",
        Level.FATAL,
        "Disk quota exceeded",
        "",
        "The user's quota of the file system is used up.",
        "Look at quota -s; remove old checkpoints.",
    ),
    signature(
        "disk.write",
        "root",
        Level.ERROR,
        ("unexpected pos", "failed writing file", "iostream error"),
        r"unexpected pos \d{1,18} vs \d{1,18}|PytorchStreamWriter failed writing file|basic_ios::clear: iostream error",
        "A checkpoint could not be written: mostly a full disk or quota.",
        "Look at df -h, df -i and the quota; the file is incomplete and must not be loaded.",
    ),
    signature(
        "disk.readonly",
        "root",
        Level.ERROR,
        "Read-only file system",
        "",
        "The file system may not be written.",
        "Write elsewhere; look in the kernel's messages if the file system was writable before.",
    ),
    signature(
        "disk.error",
        "root",
        Level.ERROR,
        ("Input/output error", "I/O error, dev"),
        r"\[Errno 5\] Input/output error|failed with Input/output error|: Input/output error|I/O error, dev ",
        "A disk or a network file system could not read or write.",
        "Look in the kernel's messages; test the disk or the mount.",
    ),
    signature(
        "fs.disconnected",
        "root",
        Level.ERROR,
        ("Transport endpoint is not connected", "Software caused connection abort"),
        r"Transport endpoint is not connected|\[Errno 103\] Software caused connection abort",
        "A mounted file system (FUSE) has lost its process.",
        "Check mountpoint -q; mount it again or restart its CSI pod.",
    ),
    signature(
        "fs.stale",
        "root",
        Level.ERROR,
        "Stale file handle",
        "",
        "The server of a network file system no longer knows an open file.",
        "Check the server's exports; mount it again and restart the job.",
    ),
    signature(
        "storage.throttled",
        "root",
        Level.ERROR,
        ("SlowDown", "Please reduce your request rate"),
        r"\(SlowDown\)|Please reduce your request rate",
        "The object store refuses requests because there are too many.",
        "Use fewer workers or larger objects, spread them over prefixes, or keep a cache.",
    ),
    signature(
        "limit.files",
        "root",
        Level.ERROR,
        "Too many open files",
        "",
        "The process has reached its limit of open files.",
        "Raise ulimit -n; with DataLoader use torch.multiprocessing.set_sharing_strategy('file_system').",
    ),
    signature(
        "slurm.limit",
        "root",
        Level.FATAL,
        "DUE TO TIME LIMIT",
        r"(?:JOB|STEP) (?P<job>[\d._+]{1,30}) .{0,120}CANCELLED AT (?P<at>[\d:T-]{8,25}) DUE TO TIME LIMIT",
        "Slurm ended the job because its time was up.",
        "Ask for more time (--time), or save checkpoints and requeue.",
        key=("job",),
    ),
    signature(
        "slurm.preempted",
        "root",
        Level.FATAL,
        ("DUE TO PREEMPTION", "DUE TO NODE FAIL", "DUE TO JOB REQUEUE"),
        r"(?:JOB|STEP) (?P<job>[\d._+]{1,30}) .{0,120}CANCELLED AT (?P<at>[\d:T-]{8,25}) DUE TO (?P<why>PREEMPTION"
        r"|NODE FAIL\w{0,3}|JOB REQUEUE)",
        "Slurm took the job's nodes away.",
        "Save checkpoints on the signal before it (--signal) and requeue.",
        key=("job",),
    ),
    signature(
        "slurm.cancelled",
        "cascade",
        Level.ERROR,
        "CANCELLED AT",
        r"(?:JOB|STEP) (?P<job>[\d._+]{1,30}) .{0,120}CANCELLED AT (?P<at>[\d:T-]{8,25})",
        "Somebody cancelled the job, or Slurm ended the step after a task had failed.",
        "Look for the task that failed first; else ask who cancelled it.",
        key=("job",),
    ),
    signature(
        "slurm.refused",
        "root",
        Level.FATAL,
        ("Unable to allocate resources", "Batch job submission failed", "error: Task launch for"),
        r"(?:srun|sbatch|salloc): error: (?:Unable to allocate resources: |Batch job submission failed: "
        r"|Task launch for \S{1,40} failed on node \S{1,100}: )(?P<why>.{1,120})",
        "Slurm did not start the job or a step of it.",
        "Compare what is asked for with the limits of the partition and of the account; ask who runs the cluster.",
    ),
    signature(
        "slurm.task",
        "cascade",
        Level.ERROR,
        "srun: error: ",
        r"srun: error: (?P<node>\S{1,100}): tasks? (?P<tasks>[\d,-]{1,100}): (?P<what>Exited with exit code \d{1,3}"
        r"|Terminated|Killed|Aborted|Bus error|Illegal instruction|Floating point exception)",
        "Tasks of a step failed, or were ended after another one had failed.",
        "Look at these tasks' logs, and for the first one that failed.",
        key=("node", "what"),
    ),
    signature(
        "k8s.unschedulable",
        "symptom",
        Level.WARNING,
        "FailedScheduling",
        r"FailedScheduling .{0,200}?\d{1,5}/\d{1,5} nodes are available: (?P<why>.{1,120})",
        "Kubernetes has no node for the pod.",
        "Compare what the pod asks for with what the nodes have left (kubectl describe node).",
    ),
    signature(
        "k8s.backoff",
        "symptom",
        Level.WARNING,
        "Back-off restarting failed container",
        "",
        "A container ended again and again, and Kubernetes waits before it starts it anew.",
        "Look at the container's last log (kubectl logs --previous).",
    ),
)
