"""Signatures of CUDA, HIP and other accelerators' libraries, and of NVIDIA's driver."""

from __future__ import annotations

from flarelog.detect.base import Fact, advice, cascade, root, symptom
from flarelog.lines.levels import Level

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

# The actions of NVIDIA's catalogue of Xid errors, as of release r570 (docs.nvidia.com/deploy/xid-errors).
XIDS = {
    13: "A kernel of the program failed: run it under compute-sanitizer; if other programs fail too, test the GPU.",
    31: "The program read or wrote memory that is not mapped: run it under compute-sanitizer.",
    48: "A double-bit ECC error: drain the node and reset the GPU.",
    63: "The GPU remaps a row of its memory: reset the GPU when the node is drained.",
    64: "The GPU could not remap a row of its memory: drain the node and reset the GPU.",
    74: "An NVLink failed: check nvidia-smi nvlink -e, reset the GPUs, reseat the link.",
    79: "The GPU fell off the bus: drain the node, check power and temperature, restart it.",
    92: "Many single-bit ECC errors: watch the GPU and have it replaced if they go on.",
    94: "An ECC error was contained: only the programs on this GPU must be restarted.",
    95: "An ECC error was not contained: drain the node and reset the GPU.",
    119: "The GPU's system processor does not answer: reset the GPU, update the driver.",
    120: "The GPU's system processor failed: reset the GPU, update the driver.",
}


def _sized(facts: dict[str, Fact]) -> dict[str, Fact]:
    size, unit = facts.pop("size", None), facts.pop("unit", None)
    if size is not None and isinstance(unit, str) and len(str(size)) < 16:
        facts["tried_bytes"] = round(float(size) * _UNITS[unit])
    return facts


def _advised(facts: dict[str, Fact]) -> dict[str, Fact]:
    xid = facts.get("xid")
    if isinstance(xid, int) and xid in XIDS:
        facts["advice"] = XIDS[xid]
    return facts


SIGNATURES = (
    symptom(
        "kernel.choice",
        "select_algorithm.py|kipping tactic",
        r"_inductor/select_algorithm\.py:\d{1,6}\] (?:\[[\d/_]{1,20}\] )?(?=.{0,300}?(?:[Ee]rror|of memory|failed))"
        r"|\bSkipping tactic \w{1,20} due to\b",
        "PyTorch's compiler tried a kernel that failed, and chooses another one.",
        "See whether the run goes on; else leave out max-autotune.",
    ),
    root(
        "cuda.oom",
        "out of memory|OUT_OF_MEMORY|ALLOC_FAILED|OOM when allocating|Out of memory while trying"
        "|Attempting to reserve|Attempting to allocate|from device: hip|from device: HIP|of memory in"
        "|ResourceExhaustedError|esource exhausted: |RESOURCE_EXHAUSTED: |NOT allocate memory block|ErrorOutOf"
        "|ERROR_OUT_OF_|ErrorMemoryAllocation|ERROR_RT_MEMORY|Out of |OutOfMemoryError|OutOfGPU|ailed to allocate"
        "|nable to allocate|No available memory|KV cache memory|desired GPU memory|Dst tensor is not initialized",
        r"(?P<device>CUDA|HIP|XPU|NPU|HPU|MPS|MUSA|MLU) out of memory\. Tried to allocate "
        r"(?:more than 1EB memory|(?P<size>\d{1,15}(?:\.\d{1,6})?) (?P<unit>bytes|[KMGT]iB))"
        r"(?:.{0,100}?[GN]PU (?P<gpu>\d{1,4})(?: has a total capaci?ty|;))?"
        r"|\b(?:CUDA|HIP|XPU|NPU|HPU|MPS|MUSA|MLU|GPU|TPU|Cuda|VRAM)\b[^.]{0,40}?\bout of memory"
        r"|\b[A-Z]{3,5} out of memory|\bOut of (?:GPU|device|VRAM) memory"
        r"|Allocator \([\w/:-]{1,60}\) ran out of memory(?!.{0,300}not a failure)"
        r"|\b[A-Z]{3,5} error: out of memory|_ERROR_OUT_OF_(?:DEVICE_"
        r"|HOST_)?MEMORY"
        r"|\b(?:cuda|hip)Error(?:MemoryAllocation|OutOfMemory)|ACL_ERROR_RT_MEMORY\w{0,20}|NOT allocate memory block"
        r"|[Rr]an out of memory in memory space|(?:Runtime|ResourceExhausted)Error: Resource exhausted: "
        r"|(?:RESOURCE_EXHAUSTED: |ResourceExhaustedError: ).{0,80}?[Oo]ut of memory"
        r"|CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED|cuda runtime error \(2\) : out of memory|error=2 : out of memory"
        r"|OOM when allocating tensor"
        r"|(?:RESOURCE_EXHAUSTED|Resource exhausted): "
        r"(?:Out of memory while trying to|Attempting to (?:reserve|allocate))"
        r"|failed to allocate .{1,60} from device: (?:HIP_ERROR_OutOfMemory|hipError_t\(1002\))"
        r"|\b(?:torch|cupy|cuda|xpu|npu)(?:\.\w{1,20}){0,4}\.OutOfMemoryError\b(?!: \w{2,5} out)|\bOutOfGPUMemory"
        r"|[Ee]rror out of memory at line"
        r"|\b[Oo]ut of memory (?:to allocate|(?:while trying to )?allocat(?:e|ing)) \d[\d,.]{0,30} ?(?:bytes"
        r"|[KMGT]i?B)\b"
        r"|\b(?:cuda|hip)Malloc\w{0,20} failed: out of memory"
        r"|(?:[Ff]ailed|[Uu]nable) to allocate (?:CUDA|ROCm|HIP|SYCL|Vulkan|Metal|MUSA|CANN)\d{0,3} buffer"
        r"|No available memory for the cache|than the available KV cache memory|than desired GPU memory"
        r"|Dst tensor is not initialized",
        "The GPU has no memory left for what the program asked for.",
        "Make the batch, the sequence or the model's share of this GPU smaller; look for other processes on the GPU.",
        more=_sized,
    ),
    root(
        "gpu.resources",
        "out of resource|oo many resources requested",
        r"OutOfResources: |\bout of resources?: (?:shared memory|threads|tensor memory)"
        r"|[Tt]oo many resources requested for launch",
        "A kernel needs more of the GPU's shared memory, registers or threads than it has.",
        "Use smaller blocks or fewer stages, another attention or kernel, or a GPU with more of it.",
    ),
    root(
        "gpu.ecc",
        "ECC error|ECC_UNCORRECTABLE",
        r"uncorrectable ECC error|CUDA_ERROR_ECC_UNCORRECTABLE",
        "The GPU's memory has an error that it cannot correct.",
        "Drain the node and reset the GPU; have it replaced if the error returns.",
    ),
    root(
        "cuda.kernel-image",
        "no kernel image|nvalid device function|device kernel image is invalid|rrorNoBinaryForGpu",
        r"no kernel image is available for execution|(?:rror|ERROR).{0,60}[Ii]nvalid device function"
        r"|device kernel image is invalid|(?:rror|failed).{0,60}hipErrorNoBinaryForGpu",
        "The program was not built for this kind of GPU.",
        "Install a build of the framework for the GPU's compute capability.",
    ),
    root(
        "cuda.driver",
        "driver version is insufficient|driver on your system is too old|river/library version mismatch",
        r"CUDA driver version is insufficient|NVIDIA driver on your system is too old|"
        r"(?<!NVML: )[Dd]river/library version mismatch",
        "The NVIDIA driver does not fit the CUDA version of the program.",
        "Update the driver, or install a build for an older CUDA version; restart the node after an update.",
    ),
    root(
        "cuda.assert",
        "device-side assert|thread: [",
        r"[Ee]rror.{0,20}: device-side assert triggered|error=59 : device-side assert"
        r"|block: \[[\d,]{1,40}\], thread: \[[\d,]{1,40}\] Assertion .{1,300}? failed",
        "An assertion failed on the GPU, mostly an index or a label that is out of range.",
        "Run it with CUDA_LAUNCH_BLOCKING=1 or on the CPU, and check labels and token ids against the sizes.",
    ),
    root(
        "cuda.fault",
        "illegal memory access|unspecified launch failure|misaligned address|illegal instruction was"
        "|HSA_STATUS_ERROR|CUDA_ERROR_|ccess fault by GPU|HW Exception by GPU",
        r"(?:CUDA|HIP) error: (?:an )?(?P<what>illegal memory access|unspecified launch failure|misaligned address"
        r"|illegal instruction)|an illegal memory access was encountered"
        r"|\berror ?: HSA_STATUS_ERROR(?:_EXCEPTION|_MEMORY_\w{5,40}|_ILLEGAL_INSTRUCTION)?: "
        r"|\bCUDA_ERROR_(?P<status>LAUNCH_FAILED|ILLEGAL_ADDRESS|ASSERT|LAUNCH_TIMEOUT|MISALIGNED_ADDRESS"
        r"|ILLEGAL_INSTRUCTION)"
        r"|[Mm]emory access fault by GPU|\bHW Exception by GPU",
        "A kernel of the program failed on the GPU.",
        "Run it with CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer; look for an Xid message of the same time.",
    ),
    root(
        "cuda.none",
        "No CUDA GPUs are available|not compiled with CUDA|no CUDA-capable device",
        r"No CUDA GPUs are available|Torch not compiled with CUDA enabled|no CUDA-capable device is detected",
        "The program sees no GPU.",
        "Check nvidia-smi, CUDA_VISIBLE_DEVICES, the container's --gpus, and whether the build has CUDA.",
    ),
    root(
        "cuda.busy",
        "busy or unavailable|esource busy|already in use by another process|TPU is already",
        r"CUDA-capable device\(s\) is/are busy or unavailable|(?:/dev/(?:accel|vfio|nvidia)"
        r"|iommu).{0,60}Device or resource busy"
        r"|libtpu\S{0,10} already in use|\bTPU is already in use",
        "The GPU lets no further program in: another one holds it alone, or it is out of order.",
        "Look with nvidia-smi for other processes, the compute mode and MIG; look for an Xid message.",
    ),
    root(
        "cuda.library",
        "_STATUS_|rocBLAS error|MIOpen Error|miopenStatus|rocblas_status_|cuDNN error|cublas",
        r"(?:cuDNN|CUDA) error: (?P<status>CU(?:DNN|BLAS|SOLVER|SPARSE)_STATUS_[A-Z_]{4,40})"
        r"|\b(?P<other>CU(?:DNN|BLAS|SOLVER|SPARSE|FFT|RAND)_STATUS_(?!SUCCESS|NOT_SUPPORTED)[A-Z_]{4,40})"
        r"|rocBLAS error|MIOpen Error"
        r"|\bmiopenStatus(?!Success)\w{3,40}|\brocblas_status_(?!success)\w{3,40}|\bcuDNN error\b"
        r"|cublas\w{0,40} failed",
        "A call of cuDNN, cuBLAS or another library of CUDA failed.",
        "NOT_INITIALIZED is mostly a lack of GPU memory. For others run it with CUDA_LAUNCH_BLOCKING=1.",
        key=("status",),
    ),
    root(
        "cuda.device",
        "nvalid device ordinal|ERROR_INVALID_DEVICE",
        r"[Ii]nvalid device ordinal|CUDA_ERROR_INVALID_DEVICE",
        "The program asks for a GPU that it does not have.",
        "Compare the number of ranks of the machine with nvidia-smi and CUDA_VISIBLE_DEVICES; set the device by"
        " LOCAL_RANK.",
    ),
    root(
        "gpu.driver",
        "NVRM: ",
        r"NVRM: .{0,200}?(?P<what>RmInitAdapter failed|rm_init_adapter failed|Cannot attach gpu|probe routine failed"
        r"|API mismatch|GPU is probably locked"
        r"|failed to (?:initialize|allocate|copy))",
        "The NVIDIA driver cannot use a GPU.",
        "Look for an Xid before it; drain the node and restart it; check that driver and library have one version.",
        key=("what",),
    ),
    symptom(
        "device.fallback",
        "alling back to CPU|alling back to cpu|ailed call to cuInit",
        r"[Ff]alling back to (?:CPU|cpu)\b|failed call to cuInit",
        "The program found no accelerator that it can use, and computes on the CPU.",
        "Check nvidia-smi, the build and the container's devices, if one should be there.",
    ),
    advice(
        "cuda.async",
        "asynchronously reported",
        r"(?:CUDA|HIP) kernel errors might be asynchronously reported",
        "The stack trace of a CUDA error may point to a later call.",
        "Run it with CUDA_LAUNCH_BLOCKING=1 to see the call that failed.",
        severity=Level.INFO,
    ),
    symptom(
        "gpu.xid-cleanup",
        "NVRM: Xid",
        r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{4,20})\): (?P<xid>43|45)\b",
        "The driver cleaned up behind a program that ended or failed.",
        "Look for what ended the program, or for an earlier Xid.",
        key=("pci", "xid"),
    ),
    root(
        "gpu.xid",
        "NVRM: Xid",
        r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]{4,20})\): (?P<xid>\d{1,4})\b",
        "The NVIDIA driver reports an error of a GPU.",
        "Look the number up in NVIDIA's catalogue of Xid errors.",
        key=("pci", "xid"),
        more=_advised,
    ),
    root(
        "gpu.nvlink",
        "NVLink error|SXid (",
        r"uncorrectable NVLink error|\bSXid \([^)]{4,40}\): (?P<sxid>\d{1,6}), Fatal\b",
        "The link between two GPUs has an error that it cannot correct.",
        "Check nvidia-smi nvlink -e and the kernel's messages for an Xid; reset the GPUs, reseat the link.",
    ),
    root(
        "gpu.lost",
        "fallen off the bus|GPU is lost|device handle for GPU",
        r"NVRM:.{0,80}fallen off the bus|GPU is lost|Unable to determine the device handle for GPU.{0,60}"
        r"(?:Unknown Error|GPU is lost|Not Found)",
        "The machine has lost the connection to a GPU.",
        "Drain the node, check power and temperature, and restart it.",
    ),
    root(
        "accelerator.error",
        "CUDA error|HIP error|XPU error|NPU error|MUSA error|ACL error|cuda runtime error|synStatus"
        "|Device acquire failed|raph compile failed|RT_FAILURE|nrt_init failed|UR error|PI error|CUDA_ERROR_|EZ9999"
        "|Cuda failure|UR_RESULT_ERROR|PI_ERROR_|ailed to initialize|not HEALTHY|ouldn't open|EE10|EE99|EH99|EI00"
        "|EJ00|EK00|EL00|EZ30|nner Error|rror from device|tream failed|kernel failed|synapse error|, error message="
        "|alted unexpectedly|alt is unexpected",
        r"\b(?P<device>CUDA|HIP|XPU|NPU|MUSA|ACL|UR|PI) error[:( ]|cuda runtime error \("
        r"|\bsynStatus[ =]{1,3}(?:synStatus )?(?P<status>[1-9]\d?)|Device acquire failed|[Gg]raph compile failed"
        r"|\b(?:UR_RESULT|PI)_ERROR_\w{3,40}|\bCUDA_ERROR_(?!NO_DEVICE|NOT_FOUND)\w{3,40}"
        r"|^(?:.{0,60}[\]: ])?(?!EI000[26])E[EHIJKLZ\d]\d{4}: |Cuda failure|\bSync ?[Ss]tream failed"
        r"|[Ll]aunch kernel failed"
        r"|\bsynapse error: [1-9]|\bnrt_\w{2,30}:? status=[1-9]\d{0,4}, error message|\bCore halted unexpectedly"
        r"|\bHalt is unexpected"
        r"|NRT_FAILURE|nrt_init failed|Failed to initialize (?:TPU|GPU|NPU|HPU) |\bTPU \S{1,60} is not HEALTHY"
        r"|Couldn't open (?:device|iommu group).{0,20}/dev/",
        "A call of the accelerator's library failed.",
        "Look the error up; run it with CUDA_LAUNCH_BLOCKING=1 (ASCEND_LAUNCH_BLOCKING=1) to see the call that failed.",
    ),
    cascade(
        "accelerator.call",
        "call acl api failed",
        "",
        "A call of Ascend's library failed; this line does not say why.",
        "Look at the lines behind it: one with a code, as EE9999 or EI0002, says what failed.",
        severity=Level.FATAL,
    ),
)
