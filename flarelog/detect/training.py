"""Signatures of training: DataLoader, losses, checkpoints, and of the federated runtimes and Ray."""

from __future__ import annotations

from flarelog.detect.base import advice, cascade, fallback, root, symptom
from flarelog.lines.levels import Level

SIGNATURES = (
    root(
        "dataloader.shm",
        "bus error encountered in worker|signal: Bus error|/torch_|unable to allocate shared memory",
        r"Unexpected bus error encountered in worker|DataLoader worker \(pid (?P<pid>\d{1,9})\) is killed by signal: B"
        r"|unable to (?:open|write to|mmap|allocate|resize).{0,120}/torch_.{0,160}(?:No space left|Cannot allocate)"
        r"|unable to allocate shared memory",
        "The workers of a DataLoader have no shared memory left in /dev/shm.",
        "Give the container more (docker --shm-size, a medium: Memory volume), or use fewer workers.",
    ),
    cascade(
        "dataloader.killed",
        "is killed by signal",
        r"DataLoader worker \(pid (?P<pid>\d{1,9})\) is killed by signal: (?P<signal>[A-Za-z ]{1,30})",
        "A worker of a DataLoader died of a signal. After SIGKILL usually memory ran out, but this does not prove it.",
        "Look for host.oom of the same time; else use fewer workers and watch memory.",
        severity=Level.FATAL,
    ),
    root(
        "dataloader.crash",
        "encountered in worker",
        r"Unexpected (?P<what>segmentation fault|floating-point exception) encountered in worker",
        "A worker of a DataLoader crashed in native code.",
        "Run it with num_workers=0 and PYTHONFAULTHANDLER=1 to see the call.",
    ),
    cascade(
        "dataloader.exited",
        "exited unexpectedly",
        r"DataLoader worker \(pid(?:\(s\))? (?P<pids>\d[\d, ]{0,80})\) exited unexpectedly",
        "A worker of a DataLoader ended; the log does not say why.",
        "Look for a signal, host.oom or a traceback before it.",
        severity=Level.FATAL,
    ),
    root(
        "dataloader.timeout",
        "DataLoader timed out",
        r"DataLoader timed out after (?P<seconds>\d{1,7}(?:\.\d{1,6})?) seconds",
        "A DataLoader got no batch in time.",
        "Look at the storage that it reads and for a worker that hangs; raise timeout if it is only slow.",
    ),
    cascade(
        "dataloader.empty",
        "queue.Empty",
        r"^(?:.{0,60}[\]:] )?(?:_queue|queue|multiprocessing\.queues)\.Empty\s*$",
        "A queue between processes stayed empty: mostly its worker has died without a word.",
        "Look for a worker that was killed, and for host.oom.",
    ),
    root(
        "loss.nan",
        "nan|NaN",
        r"[Ll]oss['\"]?(?: returned in .training_step.)?\s{0,4}(?:is|=|:|to)?\s{0,4}(?:tensor\()?(?P<value>nan|NaN)\b"
        r"|\b(?:NaN|nan|NaNs|nans)(?:/[Ii]nf| or [Ii]nf)? (?:loss\b|(?:detected|found|encountered).{0,40}?[Ll]oss)"
        # Other names of a loss: those of its parts, and its letter in papers.
        r"|\b[Ll]oss_\w{1,40}['\"]?\s{0,2}[:=]?\s{0,2}(?:tensor\()?(?P<part>nan|NaN)\b"
        r"|(?<![\w.])(?:(?:avg|mean|train|total|batch|epoch)_)?(?:L|nll|NLL|elbo|ELBO|cost|objective|mse|MSE)['\"]?\s{0,2}[:=]\s{0,2}"
        r"(?P<named>nan|NaN)\b|\b[Nn]on-?finite loss\b.{0,80}?\b(?:nan|NaN)\b",
        "The loss is not a number: from here on the model learns nothing.",
        "Go back to an earlier checkpoint; lower the learning rate, clip gradients, check the data and fp16.",
        severity=Level.ERROR,
    ),
    root(
        "nan.raised",
        "nan|NaN",
        r"\b[\w.]{0,80}(?:Error|Exception): .{0,300}?(?<![\w-])(?:nan|NaN|nans|NaNs)(?![\w-])",
        "The program gave up because a value is not a number.",
        "Go back to an earlier checkpoint; lower the learning rate, clip gradients, check the data and fp16.",
    ),
    symptom(
        "value.nan",
        "nan|NaN",
        r"(?<!no )\b(?:NaN|nan|NaNs|nans)(?:/[Ii]nf| or [Ii]nf)?(?: values?)? (?:(?:is|are|was|were) )?(?:detected"
        r"|found|encountered)\b"
        r"|(?:[Dd]etected|[Ee]ncountered|[Rr]eturned|[Pp]roduced|[Ff]ound|[Cc]ontains) (?:an? )?(?:NaNs?|nans?"
        r"|[Ii]nf or [Nn]a[Nn])(?:\b|/)",
        "Somewhere a value is not a number.",
        "See whether the loss goes on; check the data and fp16.",
    ),
    symptom(
        "grad.nan",
        "nan|NaN",
        r"[Gg]rad[_ ]norm['\"]?\s{0,4}[:=]\s{0,4}(?:tensor\()?(?P<value>nan|NaN)\b",
        "A step's gradients are not numbers: usual while fp16 looks for its loss scale, and trouble over many steps.",
        "See how often it is there and whether the loss goes on; lower the learning rate, check the data.",
    ),
    root(
        "loss.scale",
        "inimum loss scale reached|loss scale already at minimum",
        "",
        "Gradients overflowed in fp16 until the loss scale had come to its end.",
        "Go back to an earlier checkpoint; use bf16, lower the learning rate, or check the data of these steps.",
    ),
    symptom(
        "grad.overflow",
        "verflow|VERFLOW",
        r"OVERFLOW! Rank (?P<rank>\d{1,7})|[Gg]radient overflow|(?:grad\w{0,6}|fp16).{0,40}overflow detected"
        r"|overflow detected.{0,60}(?:skip|scale)",
        "A step's gradients overflowed in fp16, and it was left out: usual while the loss scale is looked for.",
        "See whether it ends after some steps; if it goes on, use bf16 or lower the learning rate.",
    ),
    root(
        "checkpoint.mismatch",
        "in loading state_dict|mismatch sizes|size mismatch for |state_dict: ",
        r"Error\(s\) in loading state_dict for (?P<model>[\w.]{1,100})|Error.{0,300} mismatch sizes "
        r"|Error: .{0,100}(?:(?:Missing|Unexpected) key\(s\) in state_dict|size mismatch for )",
        "The checkpoint is not one of this model.",
        "Compare the model's configuration with that of the checkpoint; look for a module. prefix.",
    ),
    root(
        "checkpoint.corrupt",
        "PytorchStreamReader failed|invalid header or archive|Ran out of input|rror while deserializing"
        "|UnpicklingError|nexpected EOF|might be corrupted|BadZipFile|not a zip file|truncated file"
        "|pickle data was truncated|while decompressing|DataLossError|DATA_LOSS|hecksum mismatch"
        "|hecksum does not match|CRC check failed|image file is truncated|rror reading file|unexpected end of data"
        "|cannot identify image|Parquet magic bytes|nvalid parquet file",
        r"PytorchStreamReader failed (?P<what>reading zip archive|finding central directory|reading file)"
        r"|invalid header or archive is corrupted|EOFError: Ran out of input|[Ee]rror while deserializing (?:header"
        r"|model)"
        r"|UnpicklingError: |unexpected EOF, expected \d|file might be corrupted|BadZipFile"
        r"|\btarfile\.ReadError: .{0,4}unexpected end of data|Error: cannot identify image file"
        r"|[Ee]rror.{0,80}not a zip file"
        r"|\(truncated file|pickle data was truncated|rror -?\d{1,3} while decompressing|\bDataLossError\b"
        r"|\bDATA_LOSS\b"
        r"|[Ee]rror.{0,120}(?:[Cc]hecksum (?:mismatch|does not match)|CRC check failed|image file is truncated)"
        r"|^(?:.{0,40}[ :])?[Cc]hecksum mismatch|Parquet magic bytes not found|[Ii]nvalid parquet file\b",
        "A checkpoint or a file of data is incomplete or damaged.",
        "Use an earlier checkpoint; check disk.full at the time when it was written.",
    ),
    root(
        "python.library",
        "cannot open shared object file|undefined symbol|version `|DLL load failed|cannot import name",
        r"(?:ImportError|OSError|error while loading shared libraries): (?P<library>\S{1,200}): "
        r"(?:cannot open shared object file|undefined symbol: (?P<symbol>\S{1,120})"
        r"|version `(?P<version>[^']{1,40})' not found)"
        r"|symbol lookup error: |ImportError: (?:DLL load failed|cannot import name '(?P<name>[^']{1,100})')"
        r"|^(?:\S{1,200}: ){1,2}version `(?P<needed>[^']{1,40})' not found",
        "A library is missing, or is of another version than the program was built for.",
        "Install the versions that belong together in the environment of the site that failed; check LD_LIBRARY_PATH.",
        key=("library", "name"),
    ),
    root(
        "python.module",
        "No module named",
        r"(?:ModuleNotFound|Import)Error: No module named '?(?P<module>[^' ]{1,100})'?"
        r"|python\S{0,8}: No module named (?P<main>\S{1,100})",
        "A Python package is missing.",
        "Install it in the environment of the site that failed.",
        key=("module",),
    ),
    advice(
        "tracker.off",
        "Disabled WandB",
        r"Disabled WandB due to initialization error",
        "The experiment tracker is off, and the run goes on without it.",
        "Set its API key before the next run.",
    ),
    advice(
        "tracker.network",
        "entering retry loop",
        r"wandb: Network error \((?P<error>\w{1,40})\), entering retry loop",
        "The experiment tracker cannot be reached; the run goes on.",
        "Check the site's network and proxy, or set WANDB_MODE=offline.",
    ),
    fallback(
        "tracker.failed",
        "wandb: ERROR|wandb.errors|MlflowException|CommError",
        r"wandb: ERROR|\bwandb(?:\.sdk)?\.errors\.[\w.]{1,60}|\bMlflowException\b|\bCommError: ",
        "The experiment tracker failed; the program may end for it.",
        "Check its key and the site's network, or set WANDB_MODE=offline.",
        severity=Level.ERROR,
    ),
    cascade(
        "nvflare.abort",
        "FATAL_SYSTEM_ERROR|ABORT|abort|Abort| dead",
        r"FATAL_SYSTEM_ERROR|^.{0,100}\b[Cc]ommand to abort (?:the )?(?:job|run|task)\b|(?:ClientRunner"
        r"|ServerRunner|Controller|JobRunner|Communicator|Engine|nvflare)\b.{0,300}?"
        r"(?:\bABORT\b|task_abort_signal|[Aa]borting (?:current|the|job|all)|\b[Aa]borted\b|command to abort"
        r"|(?i:dead client|client\S{0,60} (?:is |are )?(?:deemed )?dead))|\bAll clients are dead: ",
        "NVFlare ends the job or a task: a user asked for it, or a site or the server reported a fatal error.",
        "Look for the site whose log has an earlier error.",
        severity=Level.FATAL,
    ),
    cascade(
        "nvflare.task",
        "EXECUTION_EXCEPTION|EXECUTION_RESULT_ERROR|execution exception: ",
        r"peer_rc=(?P<peer_rc>EXECUTION_\w{1,30})|\bFINISHED:EXECUTION_EXCEPTION"
        r"|\bFL (?:client|server) execution exception: ",
        "A site answered a task of NVFlare with an exception.",
        "Look at that site's log of the same time.",
    ),
    cascade(
        "nvflare.communication",
        "COMMUNICATION_ERROR",
        "",
        "A site of NVFlare got no answer of the server, or the server none of a site.",
        "Look at the other end's log of the same time, at the network between them, and at the timeouts of the job.",
    ),
    root(
        "nvflare.command",
        "nable to handle command",
        r"\b[Uu]nable to handle command: (?P<command>[\w-]{1,40}) due to",
        "A command of NVFlare (nvflare simulator, poc, job) could not be carried out.",
        "Look at what it says behind 'due to', and at the log in its workspace.",
        severity=Level.ERROR,
    ),
    cascade(
        "flower.failures",
        "failures|Message contains an Error|ClientAppException|imulation crashed|ServerAppException|GrpcBridgeClosed",
        r"(?:fit|evaluate) Failure: Message contains an Error|\b(?:Client|Server)AppException\b|[Ss]imulation crashed"
        r"|GrpcBridgeClosed"
        r"|received (?P<results>\d{1,6}) results and (?P<failures>[1-9]\d{0,5}) failures",
        "Clients of Flower failed in a round.",
        "Look at the logs of the clients of that round.",
    ),
    cascade(
        "openfl.failed",
        "ollaborator failed",
        r"\b[Cc]ollaborator failed(?: with error)?: ",
        "A collaborator of OpenFL failed.",
        "The line says why; look at that collaborator's log.",
    ),
    root(
        "ray.oom",
        "running low on memory|due to memory pressure|System memory low at node",
        r"killed due to the node running low on memory"
        r"|System memory low at node .{1,300}? exceeds threshold"
        r"|\b[1-9]\d{0,5} Workers \(tasks / actors\) killed due to memory",
        "Ray killed a worker because its node had too little memory.",
        "Ask for more CPUs a task, so that fewer run at once, or for more memory.",
    ),
    cascade(
        "ray.died",
        "worker died or was killed|ActorDiedError|WorkerCrashedError|actor died unexpectedly"
        "|actor is dead because its worker process has died|aylet is terminated|marked dead|marked as dead"
        "|is dead or unavail",
        "",
        "A worker of Ray ended.",
        "Look at that worker's log (ray logs), and for ray.oom.",
    ),
)
