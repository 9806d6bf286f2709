"""Signatures of job schedulers (Slurm and others), of Kubernetes and of container runtimes."""

from __future__ import annotations

from flarelog.detect.base import cascade, fallback, root, symptom
from flarelog.lines.levels import Level

SIGNATURES = (
    root(
        "slurm.limit",
        "DUE TO TIME LIMIT",
        r"(?:JOB|STEP) (?P<job>[\d._+]{1,30}) .{0,120}CANCELLED AT (?P<at>[\d:T-]{8,25}) DUE TO TIME LIMIT",
        "Slurm ended the job because its time was up.",
        "Ask for more time (--time), or save checkpoints and requeue.",
        key=("job",),
    ),
    root(
        "slurm.preempted",
        "DUE TO PREEMPTION|DUE TO JOB REQUEUE",
        r"(?:JOB|STEP) (?P<job>[\d._+]{1,30}) .{0,120}CANCELLED AT (?P<at>[\d:T-]{8,25}) DUE TO (?P<why>PREEMPTION"
        r"|JOB REQUEUE)",
        "Slurm took the job's nodes away.",
        "Save checkpoints on the signal before it (--signal) and requeue.",
        key=("job",),
    ),
    root(
        "slurm.node",
        "DUE TO NODE FAIL|ode failure on |not responding, setting DOWN|heck failed",
        r"(?:JOB|STEP) (?P<job>[\d._+]{1,30}) .{0,120}CANCELLED AT (?P<at>[\d:T-]{8,25}) DUE TO NODE FAIL"
        r"|\b(?:srun|salloc|slurmctld): error: Node failure on (?P<node>\S{1,100})"
        r"|\berror: Nodes? (?P<silent>\S{1,200}) not responding, setting DOWN"
        r"|\bnode (?P<unwell>\S{1,100}) reason set to: .{0,100}[Cc]heck failed",
        "A node of the job failed, or no longer answers Slurm.",
        "Ask who runs the cluster for the node (scontrol show node, slurmctld's log); save checkpoints and requeue.",
        key=("job", "node", "silent", "unwell"),
    ),
    cascade(
        "slurm.cancelled",
        "CANCELLED AT",
        r"(?:JOB|STEP) (?P<job>[\d._+]{1,30}) .{0,120}CANCELLED AT (?P<at>[\d:T-]{8,25})",
        "A user or Slurm cancelled the job, or Slurm ended the step after a task had failed.",
        "Look for the task that failed first. If there is none, ask who cancelled the job.",
        key=("job",),
    ),
    fallback(
        "slurm.refused",
        "Unable to allocate resources|Batch job submission failed|error: Task launch for|launch failed: "
        "|container_g_join failed|error: pyxis: |before step completely launched|code failed: ",
        r"(?:srun|sbatch|salloc): error: (?:Unable to allocate resources: |Batch job submission failed: "
        r"|Task launch for \S{1,40} failed on node \S{1,100}: )(?P<why>.{1,120})"
        r"|(?:srun|slurmstepd): error: (?:.{0,60}\blaunch failed: |container_g_join failed"
        r"|pyxis: (?:container start failed"
        r"|error: a container with name|seccomp filter failed|failed to import))"
        r"|aborted before step completely launched|\bMunge (?:en|de)code failed: ",
        "Slurm did not start the job or a step of it.",
        "Compare the request with the limits of the partition and of the account, or ask the cluster's administrator.",
        severity=Level.FATAL,
    ),
    cascade(
        "slurm.task",
        "srun: error: ",
        r"srun: error: (?P<node>\S{1,100}): tasks? (?P<tasks>[\d,-]{1,100}): (?P<what>Exited with exit code \d{1,3}"
        r"|Terminated|Killed|Aborted|Bus error|Illegal instruction|Floating point exception)",
        "Tasks of a step failed, or were ended after another one had failed.",
        "Look at these tasks' logs, and for the first one that failed.",
        key=("node", "what"),
    ),
    fallback(
        "k8s.unschedulable",
        "FailedScheduling|nodes are available|quota insufficient",
        r"\b0/\d{1,5} nodes are available: (?P<said>.{1,120})"
        r"|FailedScheduling .{0,200}?\d{1,5}/\d{1,5} nodes are available: (?P<why>.{1,120})"
        r"|FailedScheduling .{0,200}?in gang unschedulable: (?P<gang>.{1,120})|\bqueue resource quota insufficient\b",
        "Kubernetes has no node for the pod.",
        "Compare what the pod asks for with what the nodes have left (kubectl describe node).",
    ),
    fallback(
        "k8s.backoff",
        "restarting failed container",
        r"[Bb]ack-off (?:\S{1,12} )?restarting failed container",
        "A container ended again and again, and Kubernetes waits before it starts it anew.",
        "Look at the container's last log (kubectl logs --previous).",
    ),
    root(
        "job.limit",
        "xceeded limit|illed after reaching|TERM_RUNLIMIT|longer than specified deadline|xceeded its time|xceed",
        r"(?:walltime|cput|pcput|ncpus) \S{1,20} exceeded limit \S{1,20}|TERM_(?:RUN|CPU|PROCESS)LIMIT"
        r"|killed after reaching LSF run time limit|active longer than specified deadline|exceeded its time ?limit"
        r"|\b[Ee]xceed(?:ed|s) (?:the |its )?(?:hard |soft |maximum )?(?:wall ?time\b|wall ?clock\b"
        r"|(?:run ?)?time limit\b)"
        r"|\b(?:[Ww]all ?time|[Ww]all ?clock(?: time)?|[Tt]ime limit|[Rr]un ?time limit) (?:was |has been "
        r"|is )?exceeded\b",
        "The scheduler ended the job because its time was up.",
        "Ask for more time, or save checkpoints and start the job again.",
    ),
    root(
        "job.preempted",
        "reempt|REEMPT|ob was evicted|spot instance interruption|nterruption notice|Host EC2",
        r"\b(?:was|were|been|is|is being|got|will be|job|Job|instance) (?:marked for )?(?:preempted|preemption)\b"
        r"|\bPREEMPTED\b|\b[Jj]ob was evicted\b|[Pp]reempted by|TERM_PREEMPT"
        r"|\bHost EC2 (?:\(instance \S{1,40}\) )?[Tt]erminated|(?i:spot (?:instance )?(?:interruption"
        r"|termination) notice"
        r"|preemption notice)",
        "The cluster took the job's machine for another job.",
        "Save checkpoints on the signal before it, and start the job again.",
    ),
    root(
        "condor.failed",
        "Job reconnection failed|hadow exception|rror from ",
        r"\bJob reconnection failed\b|\bShadow exception!"
        r"|\bError from \S{1,200}: (?:STARTER|SHADOW|Job has gone over|[Ff]ailed to )",
        "HTCondor ended the job on its machine, holds it, or has lost the machine.",
        "Look at the reason in the job's log (condor_q -hold), and at the files and the memory that the job asks for.",
    ),
    fallback(
        "spark.stage",
        ") failed in ",
        r"\b(?:Result|ShuffleMap)Stage \d{1,9} \(.{1,300}?\) failed in ",
        "A stage of Spark failed; Spark may run it again.",
        "Look at the tasks of the stage, and for executors that were lost.",
    ),
    root(
        "k8s.evicted",
        "Evicted|victed|was low on resource|xceeds the total limit|node shutdown|Evicting pod",
        r"\bEvicted\b|was low on resource: (?P<what>[\w-]{1,40})|usage exceeds the total limit"
        r"|[Pp]od (?:was terminated in response to imminent node shutdown|(?:was|is) evicted)|\b[Ee]victing pod ",
        "Kubernetes removed the pod from its node: the node had too little memory or disk, or is shut down.",
        "Ask for as much memory and ephemeral storage as the job needs, and look at what else runs on the node.",
    ),
    fallback(
        "k8s.crash-loop",
        "rashLoopBackOff",
        "",
        "A container ended again and again, and Kubernetes waits before it starts it anew.",
        "Look at the container's last log (kubectl logs --previous).",
    ),
    root(
        "k8s.image",
        "ImagePullBackOff|ErrImagePull|ailed to pull image|ack-off pulling image|pull access denied"
        "|manifest unknown|no basic auth credentials",
        "",
        "A container's image cannot be had.",
        "Check the image's name and tag, the registry, and the pull secret.",
        severity=Level.ERROR,
    ),
    root(
        "k8s.volume",
        "FailedMount|FailedAttachVolume|MountVolume|FailedCreatePodSandBox|to create pod sandbox",
        r"(?:\bobject=\"(?P<object>[^\"]{1,253})\"[^{}]{1,200}?)?\bFailed(?:Mount|AttachVolume|CreatePodSandBox)\b"
        r"(?:\s{1,40}pod/(?P<pod>\S{1,253})"
        r"|[^{}]{1,100}?\binvolvedObject\":\s?\{[^{}]{0,300}?\"name\":\s?\"(?P<name>[^\"]{1,253}))?"
        r"|MountVolume\.\S{1,30} failed|[Ff]ailed to create pod sandbox",
        "A pod cannot start: a volume, a secret or the pod's network cannot be had.",
        "Look at the pod's events (kubectl describe pod).",
        severity=Level.ERROR,
        key=("object", "pod", "name"),
    ),
    symptom(
        "k8s.probe",
        "iveness probe|eadiness probe|tartup probe",
        r"(?:[Ll]ive|[Rr]eadi)ness probe (?:failed|errored)|[Ss]tartup probe (?:failed|errored)|failed (?:live"
        r"|readi)ness probe",
        "Kubernetes asked a container whether it is well, and got no good answer; it restarts one that does not live.",
        "Look at the container's log of the same time, and at the probe's time limit.",
    ),
    root(
        "k8s.node",
        "NodeNotReady|NodeLost|TaintManagerEviction|NodeHasDisk|Node is not ready",
        r"\bNode(?:NotReady|Lost|HasDiskPressure)\b|TaintManagerEviction|\b[Nn]ode is not ready\b",
        "The pod's node is gone or in trouble.",
        "Look at the node (kubectl describe node).",
        severity=Level.ERROR,
    ),
    root(
        "k8s.device",
        "UnexpectedAdmissionError|Allocate failed due to ",
        r"\bUnexpectedAdmissionError\b|\bAllocate failed due to (?P<why>.{1,120})",
        "Kubernetes has no healthy device for a pod that was sent to this node: the GPU is lost, unhealthy or taken.",
        "Look at nvidia-smi and the log of the device plugin on the node; start the plugin again, or drain the node.",
    ),
    root(
        "container.gpu",
        "select device driver|container-cli: |Failed to initialize NVML|communicate with the NVIDIA driver",
        r"could not select device driver|nvidia-container-cli: (?P<why>.{1,120})"
        r"|Failed to initialize NVML: (?P<nvml>.{1,80})"
        r"|couldn't communicate with the NVIDIA driver",
        "The container or the machine has no GPU that works.",
        "Check nvidia-smi on the machine, and that the NVIDIA container toolkit is installed and the runtime"
        " restarted.",
    ),
    root(
        "container.start",
        "OCI runtime|container creat|while running engine|runc create failed|rror response from daemon"
        "|start container process",
        r"OCI runtime \w{2,10} failed|container creat(?:e|ion) failed|while running engine: |runc create failed"
        r"|Error response from daemon: "
        r"|unable to start container process",
        "A container runtime could not start a container or a command in it.",
        "Look at what it says of the command, the mounts and the devices.",
    ),
    fallback(
        "slurm.error",
        "error: |fatal: |tep aborted|Force Terminated",
        r"\b(?:srun|sbatch|salloc|slurmd|slurmstepd(?:-[\w.-]{1,100})?): (?:error|fatal): "
        r"(?:(?=.{0,400}?(?P<why>No such file or directory|[Pp]ermission denied|Operation not permitted|[Tt]imed out"
        r"|Connection refused|No route to host|cannot open shared object file|not found|No space left"
        r"|Stale file handle|Invalid argument|\[ERROR\] (?=\S))))?|srun: Job step aborted|srun: Force Terminated",
        "Slurm reports an error of the job or of a step.",
        "Look at what it says, and at the task that failed first.",
        severity=Level.ERROR,
        key=("why",),
    ),
)
