"""Images made by hand: busybox in one layer, as ``docker save`` would write it, for containerd to import."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from integration.kubernetes.parts import which

BUSYBOX = "flarelog.test/busybox:1"
PAUSE = "flarelog.test/pause:1"
COMMANDS = ("sh", "sleep", "seq", "cat", "echo", "head", "true", "false", "kill", "date", "awk", "usleep")


def archive(path: Path) -> Path:
    """Write both images to the tar file *path*; return it.

    The links ``lib`` and ``lib64`` let a pod that mounts the host's ``/usr`` run the host's programs, such as Python.
    """
    busybox = which("busybox")
    assert busybox is not None
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"):
            add(tar, name, kind=tarfile.DIRTYPE)
        add(tar, "bin/busybox", Path(busybox).read_bytes())
        for command in COMMANDS:
            add(tar, f"bin/{command}", kind=tarfile.SYMTYPE, to="busybox")
        for name in ("lib", "lib64"):
            add(tar, name, kind=tarfile.SYMTYPE, to=f"usr/{name}")
        add(tar, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
    content = layer.getvalue()
    described = []
    with tarfile.open(path, "w") as tar:
        add(tar, "layer.tar", content)
        # The pause container only has to be there: the other containers of a pod join its namespaces.
        for image, words in ((BUSYBOX, ["/bin/sh"]), (PAUSE, ["/bin/sleep", "2147483647"])):
            config = {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Cmd": words, "Env": ["PATH=/bin:/usr/local/bin:/usr/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
            }
            written = json.dumps(config).encode()
            name = f"{hashlib.sha256(written).hexdigest()}.json"
            add(tar, name, written)
            described.append({"Config": name, "RepoTags": [image], "Layers": ["layer.tar"]})
        add(tar, "manifest.json", json.dumps(described).encode())
    return path


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, to: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size, entry.mode = kind, to, len(content), 0o755
    if name == "tmp":
        entry.mode = 0o1777
    tar.addfile(entry, io.BytesIO(content))
