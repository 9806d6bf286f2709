"""Signatures of NCCL, gloo, MPI and torchrun, and of the networks between ranks.

Most of them are cascades: a rank waits for another one, which failed before.
"""

from __future__ import annotations

from flarelog.detect.base import cascade, fallback, root, symptom
from flarelog.lines.levels import Level

SIGNATURES = (
    cascade(
        "nccl.timeout",
        "caught collective operation timeout",
        r"(?:\[Rank (?P<rank>\d{1,7})\] )?Watchdog caught collective operation timeout: WorkNCCL\("
        r"(?:SeqNum=(?P<seq>\d{1,18}), )?OpType=(?P<op>\w{1,40})[^)]{0,200}?(?:Timeout\(ms\)=(?P<timeout_ms>\d{1,15}))?"
        r"\)",
        "This rank waited for a collective that another rank did not join in time.",
        "Look for the rank that failed, hangs or took another branch: nccl.desync names the ranks that differ.",
        severity=Level.FATAL,
        key=("op",),
    ),
    symptom(
        "nccl.state",
        "last enqueued NCCL work|last enqueued work",
        r"(?:\[PG (?:ID )?(?P<pg>\d{1,7})(?P<group>[^\]]{0,100}?) ?Rank (?P<rank>\d{1,7})\] )?[^\[\]]{0,100}?"
        r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,18}), "
        r"last completed (?:NCCL )?work: (?P<completed>-?\d{1,18})",
        "How far this rank had come in its collectives when NCCL gave up.",
        "Compare it with the other ranks: nccl.desync does.",
        severity=Level.ERROR,
        key=("pg", "group"),
    ),
    cascade(
        "nccl.heartbeat",
        "watchdog got stuck|Heartbeat monitor timed out",
        r"(?:Rank (?P<rank>\d{1,7})\] )?(?:ProcessGroupNCCL's watchdog got stuck for (?P<seconds>\d{1,7})"
        r"|Heartbeat monitor timed out)",
        "NCCL's watchdog thread made no progress: a CUDA call or another thread holds it.",
        "Look at the stacks of this rank (py-spy dump) and for an error of an earlier time.",
        severity=Level.FATAL,
    ),
    root(
        "nccl.duplicate-gpu",
        "Duplicate GPU detected",
        r"Duplicate GPU detected : rank (?P<one>\d{1,7}) and rank (?P<other>\d{1,7})",
        "Two ranks were given the same GPU.",
        "Set the device by LOCAL_RANK, and check CUDA_VISIBLE_DEVICES.",
    ),
    cascade(
        "nccl.connection",
        "NCCL WARN",
        r"NCCL WARN .{0,100}?(?P<what>Connection closed by remote peer|Call to (?:recv|send|connect) \w{2,4}"
        r"|Connect to .{1,100}? failed|Connection refused|Connection reset|No route to host|Socket recv failed"
        r"|Got completion from peer)",
        "NCCL lost the connection to another rank, or never had one.",
        "Look for the rank at the other end; check NCCL_SOCKET_IFNAME and the firewall if it is alive.",
    ),
    cascade(
        "nccl.error",
        "ccl|CCL error|NCCL communicator|NCCL operation|CCL function error|oneCCL|CCL failure|NCCL WARN Boot",
        r"(?P<kind>nccl(?:System|Remote|Internal|UnhandledCuda|InvalidUsage|InvalidArgument)Error)\b"
        r"|\b[A-Z]{1,3}CCL (?:(?:function )?error|failure)\b|NCCL operation .{1,200}? failed"
        r"|NCCL communicator was aborted"
        r"|oneCCL: .{0,200}(?:EXCEPTION|error)"
        r"|NCCL WARN Bootstrap Root : (?:rank \d{1,7} of \d{1,7} ranks has already|mismatch in rank)",
        "A call of NCCL, or of what another accelerator has for it, failed.",
        "Run it with NCCL_DEBUG=INFO, and look for an earlier error of another rank.",
        severity=Level.FATAL,
    ),
    root(
        "collective.mismatch",
        "ismatch between collectives|ollective mismatch",
        r"[Dd]etected mismatch between collectives on ranks\. Rank (?P<one>\d{1,7})|[Cc]ollective mismatch",
        "Two ranks called different collectives, or with tensors of different sizes.",
        "Look where the ranks take different branches: a condition that depends on data or on the rank.",
    ),
    fallback(
        "nccl.warning",
        "NCCL WARN",
        r"NCCL WARN (?P<what>.{1,120})",
        "NCCL warns of something; it may go on.",
        "Look at what it says; NCCL_DEBUG=INFO tells more.",
    ),
    cascade(
        "fabric.error",
        "UCX  ERROR|ransport retry count|pml_ucx.c|Unable to write to EQ|completion with error|ibv_|infiniband "
        "|prov_errno|mlx5_core| down|libfabric:|Local QP operation err",
        r"\bUCX {1,2}ERROR|[Tt]ransport retry count(?:er)? exceeded|\bpml_ucx\.c:\d{1,6} {1,4}Error: "
        r"|Unable to write to EQ"
        r"|completion with error|\bibv_\w{3,40}(?:\(\))? failed|\binfiniband \S{1,40}: Failed|\bprov_errno: "
        r"|mlx5_core .{0,80}(?:error|failed|ERROR)|libfabric:.{0,200}<(?:error|crit)>|: (?:NIC )?[Ll]ink (?:is "
        r"|status definitely )?[Dd]own\b|Local QP operation err",
        "The network between ranks (InfiniBand, RoCE, EFA, UCX) failed, or the rank at the other end has ended.",
        "Look for the rank at the other end; check the link (ibstat), and the fabric's counters.",
    ),
    cascade(
        "xla.coordination",
        "oordination service|oordinationService|different incarnation|Barrier timed out|eartbeat timeout"
        "|DEADLINE_EXCEEDED: ",
        r"[Cc]oordination ?[Ss]ervice.{0,200}(?i:error|fail|unhealthy|disconnected)|CoordinationServiceError"
        r"|Barrier timed out|DEADLINE_EXCEEDED: |connect with a different incarnation"
        # Not where a program reports its setting.
        r"|(?<![Ss]et )(?<![Ss]et the )(?<![Ss]etting )(?<![Ss]etting the )(?<![Uu]sing )(?<![Uu]sing a )"
        r"(?<!configured )[Hh]eartbeat timeout"
        r"(?!s? (?:is |was |has been |will be )?(?:now |re)?(?:set|configured|changed|disabled|enabled)\b)"
        r"(?!s?(?: ?[:=]| is| was| of)? ?\(?\d{1,9}(?:\.\d{1,9})? ?[a-z]{0,12}\)?[.,;]?(?:$| [a-z_ ]{1,40} ?[:=]))"
        r"(?! \((?:s|ms|sec|seconds)\))",
        "JAX's or TensorFlow's coordination lost a task, or not all of them came.",
        "Look for the task that failed, was preempted or never started.",
        severity=Level.FATAL,
    ),
    cascade(
        "mpi.down",
        "lost communication with a remote|daemon has unexpectedly failed|indicates a failure in the peer process"
        "|MPI_ABORT|CALLED ABORT|MPI_Abort|BAD TERMINATION|Fatal error in |MPI_ERR|An error occurred in MPI_"
        "|exiting improperly|unable to reliably start|PMIX ERROR: UNREACHABLE|cannot be selected|ot enough slots",
        r"has lost communication with a remote daemon|unable to reliably start one or more daemons"
        r"|daemon has unexpectedly failed|MPI_ABORT was invoked|\bCALLED ABORT\b"
        r"|indicates a failure in the peer process"
        r"|\bMPI_Abort\(|BAD TERMINATION OF ONE OF YOUR|Fatal error in (?:internal_|P?MPI_?)\w{1,40}"
        r"|MPI_ERRORS_ARE_FATAL|\*\*\* MPI_ERR_[A-Z]{3,20}: |An error occurred in MPI_\w{1,40}"
        r"|exiting improperly|PMIX ERROR: UNREACHABLE|\bPML \w{1,20} cannot be selected"
        r"|\bnot enough slots available in the system",
        "MPI ends the job: a rank failed, called MPI_Abort, or a node was lost.",
        "Look for the rank that failed first, and whether its node is alive.",
        severity=Level.FATAL,
    ),
    fallback(
        "nccl.down",
        "taking the entire process down|atchdog thread terminated|NCCL operations have failed or timed out"
        "|erminating the process after attempting to dump debug info",
        "",
        "PyTorch ends the process after an error of NCCL.",
        "Look at the error before it.",
        severity=Level.ERROR,
    ),
    cascade(
        "hccl.timeout",
        "EI0002|EI0006|Notify register times out|Getting socket times out",
        r"^(?:.{0,60}[\]: ])?EI000[26]: |Notify register times out|Getting socket times out",
        "This rank of Ascend's NPUs waited for another one, and gave up.",
        "Look for the rank that failed or hangs.",
        severity=Level.FATAL,
    ),
    cascade(
        "gloo.timeout",
        "Timed out waiting",
        r"gloo/.{1,120}?\] Timed out waiting (?P<timeout_ms>\d{1,12})ms for (?P<op>recv|send)",
        "This rank waited for another one by gloo, and gave up.",
        "Look for the rank that failed or hangs.",
        severity=Level.FATAL,
    ),
    cascade(
        "gloo.connection",
        "gloo/|Gloo connect",
        r"Gloo connectFullMesh failed with"
        r"|gloo/.{1,120}?\].{0,40}?(?P<what>Connection closed by peer|Read error|Write error|Connection reset by peer"
        r"|connect|Application timeout)",
        "gloo lost the connection to another rank: mostly that rank has ended.",
        "Look for the rank that ended first.",
        severity=Level.FATAL,
    ),
    cascade(
        "torch.rendezvous",
        "clients joined|workers joined|client socket has|Rendezvous|Socket Timeout|got error: ",
        r"(?P<joined>\d{1,7})/(?P<world>\d{1,7}) (?:clients|workers) joined|Error: Socket Timeout"
        r"|\bstore->\w{1,20}\(.{0,80}?\) got error: "
        r"|client socket has (?:timed out|failed to connect)"
        r"|Rendezvous(?:Timeout|Connection|Closed)Error",
        "Not all ranks met, or the store of rank 0 does not answer.",
        "Check that every node was started, that MASTER_ADDR and MASTER_PORT are the same, and the firewall.",
        severity=Level.FATAL,
    ),
    cascade(
        "torchrun.failed",
        "failed (exitcode:",
        r"failed \(exitcode: (?P<exitcode>-?\d{1,4})\) local_rank: (?P<local_rank>\d{1,6})"
        r"(?: \(pid: (?P<pid>\d{1,9})\))?",
        "torchrun saw a worker end; a negative exit code is a signal, and -9 is SIGKILL.",
        "Look at that worker's log. For -9 look for host.oom: the exit code alone does not prove it.",
    ),
    cascade(
        "torchrun.signal",
        "received by PID",
        r"[Ss]ignal (?P<number>\d{1,3}) \((?P<signal>SIG\w{2,8})\) received by PID (?P<pid>\d{1,9})",
        "A worker of torchrun died of a signal.",
        "Look at that worker's log, and for SIGKILL for host.oom.",
    ),
    fallback(
        "torchrun.summary",
        "ChildFailedError",
        r"\bChildFailedError\b",
        "torchrun's summary: a worker failed. The root cause that it names is the first failure that it saw.",
        "Look at the logs of the workers.",
        severity=Level.ERROR,
    ),
    cascade(
        "mpi.signal",
        "noticed that process rank",
        r"noticed that process rank (?P<rank>\d{1,7}) with PID .{1,200}? exited on signal (?P<number>\d{1,3})",
        "mpirun saw a rank die of a signal; 9 is SIGKILL.",
        "Look at that rank's log. For 9 look for host.oom: the signal alone does not prove it.",
    ),
    cascade(
        "horovod.down",
        "Horovod has been shut down",
        "",
        "Horovod ended on this rank, mostly because another one had failed or had ended.",
        "Look for the rank that failed first.",
    ),
    cascade(
        "port.listen",
        "failed to listen on any local network address",
        r"failed to listen on any local network address\.?\s*$",
        "The ranks' common store could not listen at its port; this line does not say why.",
        "Look at the lines before it: mostly the port is in use.",
    ),
    root(
        "port.in-use",
        "ddress already in use| in use",
        r"(?:port: (?P<port>\d{1,5})|bind to [^ ]{0,60}?:(?P<bound>\d{1,5}) ).{0,120}?[Aa]ddress already in use"
        r"|[Aa]ddress already in use"
        # Other words, unless the program takes another port.
        r"|\b[Pp]orts?\b:?(?: (?!not\b)[\w.:/\[\]-]{1,80}){0,6}? (?:(?:already|currently) in use\b|(?:is|are|was|were)"
        r" in use by another\b)(?!.{0,200}?\b(?i:trying|using (?:port )?\d|switch\w{0,4}|attempting|falling back"
        r"|will (?:use|try)|instead)\b)",
        "Another process listens on the port.",
        "End the process of an earlier run, or choose another port (torchrun --master-port, --rdzv-endpoint).",
    ),
)
