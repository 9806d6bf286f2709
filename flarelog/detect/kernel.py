"""Signatures of the kernel's messages: hung tasks, hardware, file systems, and GPUs of other makers than NVIDIA."""

from __future__ import annotations

from flarelog.detect.base import root
from flarelog.lines.levels import Level

SIGNATURES = (
    root(
        "kernel.hung",
        "blocked for more than|lockup|rcu_sched self-detected stall|rcu_preempt detected stalls",
        r"task (?P<task>.{1,60}):(?P<pid>\d{1,9}) blocked for more than (?P<seconds>\d{1,6}) seconds"
        r"|(?:soft|hard) lockup|\brcu_\w{3,10} (?:self-)?detected (?:expedited )?stall",
        "A task of this machine has waited in the kernel for minutes: mostly for a disk or a network file system.",
        "Look at the call trace behind it, at the mounts, and for an I/O error before it.",
        severity=Level.ERROR,
        key=("task",),
    ),
    root(
        "kernel.panic",
        "ernel panic| fault|BUG: unable to handle|Oops: ",
        r"[Kk]ernel panic|general protection fault|kernel BUG at |BUG: (?:unable to handle|kernel NULL)"
        r"|\bOops: [0-9a-f]{4}"
        r"|(?:unable to handle|kernel) page fault",
        "The kernel of this machine has failed.",
        "Drain the node; look at the message's call trace, and for a driver that was updated.",
    ),
    root(
        "host.hardware",
        "[Hardware Error]|ncorrect|Uncorrected|Machine Check Exception|temperature above threshold",
        r"\[Hardware Error\]: (?:Machine check events logged|CPU \d{1,5}: Machine Check|.{0,60}event severity: fatal)"
        r"|(?<![A-Za-z])[Uu]ncorrect(?:ed|able) (?:\([\w-]{1,12}\) )?(?:\w{1,20} ){0,2}error|severity=Uncorrect\w{2,4}"
        r"|Machine Check Exception",
        "The machine's hardware reports an error: of memory, of a processor or of PCIe.",
        "Drain the node, look at its event log (ipmitool sel list, ras-mc-ctl), and have the part replaced.",
    ),
    root(
        "host.edac",
        " error on CPU_| read error on| write error on| scrubbing error on|UE ",
        r"EDAC \w{2,12}: (?P<count>\d{1,9}) UE ",
        "The machine's memory has an error that it cannot correct.",
        "Drain the node and have the memory module replaced.",
    ),
    root(
        "gpu.hung",
        " reset begin|imeout, signaled seq|Fatal error during GPU init|page fault (src_id|GPU HANG",
        r"amdgpu.{0,60}(?P<what>GPU reset begin|ring \S{1,20} timeout|Fatal error during GPU init|page fault \(src_id)"
        r"|\bGPU HANG\b",
        "The kernel's driver reports that a GPU hangs, faults or is reset.",
        "Look at what the program did on the GPU at that time; update the driver and the firmware if it returns.",
        key=("what",),
    ),
    root(
        "fs.stalled",
        "not responding, |LustreError|Lost connection to|lost connection to MDS|eph: | lost; ",
        r"\bserver (?P<server>\S{1,200}) not responding, (?P<what>still trying|timed out)|\bLustreError: "
        r"|Lustre: .{1,200}[Cc]onnection to (?P<target>\S{1,200}) (?:\(at \S{1,100}\) )?(?:was|has) lost"
        r"|lost connection to MDS"
        r"|\bceph: mds\d{1,4} hung|\blibceph: (?:osd|mon|mds)\d{1,6} .{0,60}?\b(?:down|closed)\b",
        "The server of a network file system does not answer: reads and writes there wait.",
        "Look at the server and the network; processes that wait in state D cannot be killed.",
        severity=Level.ERROR,
        key=("server", "target"),
    ),
    root(
        "disk.kernel",
        "EXT4-fs error|BTRFS error|BTRFS critical|XFS (|Buffer I/O error|I/O error, dev"
        "|emounting filesystem read-only|nvme",
        r"EXT4-fs error|BTRFS (?:error|critical) |XFS \(\S{1,40}\): .{0,80}(?:orruption|I/O error|hutting down)"
        r"|Buffer I/O error on dev"
        r"|I/O error, dev |emounting filesystem read-only|\bnvme\d{1,4}: .{0,80}(?:controller is down"
        r"|imeout(?!, completion polled)"
        r"|emoving after probe failure|Device not ready)",
        "A disk or its file system fails.",
        "Look at smartctl and the kernel's messages; do not trust what was written since then.",
        severity=Level.ERROR,
    ),
)
