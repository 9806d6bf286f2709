"""The programs of a Kubernetes node: kubelet, API server and controllers, from their Go modules, and Debian's others.

They are built once for each version, into ``~/.cache/flarelog/kubernetes-VERSION`` (FLARELOG_KUBERNETES_CACHE names
another directory for all versions). ``python -m integration.kubernetes.parts`` builds them before any test: it takes
20 minutes of CPU, and 3 GB of Go's own caches. With ``--built`` it builds none, and fails if one is missing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

VERSION = os.environ.get("FLARELOG_KUBERNETES_VERSION") or "v1.35.4"
BUILT = ("kubelet", "kube-apiserver")
CONTROLLERS, KUBECTL = "kube-controller-manager", "kubectl"  # built when a test needs them
PACKAGES = {  # a program, and the Debian package that has it
    "containerd": "containerd",
    "ctr": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "runc": "runc",
    "etcd": "etcd-server",
    "busybox": "busybox-static",
    "unshare": "util-linux",
    "ip": "iproute2",
}


def missing() -> str:
    """The reason why no node can run here, and what to do; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a Kubernetes node needs Linux and root"
    packages = sorted({package for program, package in PACKAGES.items() if not which(program)})
    if packages:
        return f"a Kubernetes node needs more programs: apt-get install {' '.join(packages)}"
    if not all((cache() / "bin" / name).exists() for name in BUILT) and not shutil.which("go"):
        return f"Kubernetes {VERSION} is not built yet, and Go is missing: install Go 1.25 or later"
    return ""


def which(program: str) -> str | None:
    """The path of *program*; Debian has some in directories that only root's PATH names."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def cache(version: str = VERSION) -> Path:
    root = os.environ.get("FLARELOG_KUBERNETES_CACHE") or Path.home() / ".cache" / "flarelog"
    return Path(root) / f"kubernetes-{version}"


def built(*programs: str, version: str = VERSION) -> Path:
    """The directory with these *programs* of Kubernetes, which are built if they are missing."""
    directory = cache(version)
    target = directory / "bin"
    target.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other tests may be building them
        missing = [name for name in programs if not (target / name).exists()]
        if missing:
            build(directory, version, missing)
    return target


def build(directory: Path, version: str, programs: Sequence[str]) -> None:
    """Build *programs* into the directory ``bin`` of *directory*."""
    env = {**os.environ, "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
    go = ("nice", "go")
    module = subprocess.check_output([*go, "mod", "download", "-json", f"k8s.io/kubernetes@{version}"], env=env)
    described = Path(json.loads(module)["GoMod"]).read_text()
    # The module's own go.mod replaces its parts by directories beside it; the proxy has them as v0.X.Y of the same day.
    staged = re.findall(r"^\s*(?:replace )?(\S+) => \./staging/", described, re.MULTILINE)
    (directory / "go.mod").write_text(
        "module flarelog.test/kubernetes\n\n"
        + "".join(f"{line}\n" for line in re.findall(r"^(?:go|godebug) .+$", described, re.MULTILINE))
        + f"\nrequire k8s.io/kubernetes {version}\n"
        + "".join(f"replace {part} => {part} v0{version.removeprefix('v1')}\n" for part in staged)
    )
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={version}"
    paths = [f"k8s.io/kubernetes/cmd/{name}" for name in programs]
    unfinished = directory / "unfinished"  # a build that was killed leaves no half program in bin
    subprocess.run(
        [*go, "build", "-ldflags", flags, "-o", f"{unfinished}/", *paths], cwd=directory, env=env, check=True
    )
    for name in programs:
        (unfinished / name).replace(directory / "bin" / name)


def unbuilt() -> str:
    """Which programs must be built first, which takes minutes; empty if all are there."""
    names = [name for name in (*BUILT, CONTROLLERS, KUBECTL) if not (cache() / "bin" / name).exists()]
    return (
        f"{', '.join(names)} of Kubernetes {VERSION}: make kubernetes builds them, in 20 minutes of CPU"
        if names
        else ""
    )


if __name__ == "__main__":
    if reason := missing() or ("--built" in sys.argv and unbuilt()):
        sys.exit(reason)
    print(built(*BUILT, CONTROLLERS, KUBECTL))
