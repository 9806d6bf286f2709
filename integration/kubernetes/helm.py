"""Helm, built from its Go module, and what it makes of ``deploy/chart``.

The chart is the one source of the manifests: ``python -m integration.kubernetes.helm`` writes those of
``deploy/kustomize`` from it. Helm is built once, into ``~/.cache/flarelog/helm-VERSION``, in a minute of CPU.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from integration.kubernetes import parts

VERSION = "v4.3.2"
TREE = Path(__file__).parent.parent.parent
CHART = TREE / "deploy" / "chart"
KUSTOMIZE = TREE / "deploy" / "kustomize"
RENDERED = {
    "receiver": ("receiver", {}),
    "agent-cri": ("agent", {"agent.source": "cri"}),
    "agent-kubelet": ("agent", {"agent.source": "kubelet"}),
    "agent-api": ("agent", {"agent.source": "api"}),
}
"""By directory of ``deploy/kustomize``: the chart's template that it has, and with which values."""
HEAD = "# Made from deploy/chart by: make deploy\n"


def directory() -> Path:
    return parts.cache().with_name(f"helm-{VERSION}")


def missing() -> str:
    """The reason why Helm cannot run here, and what to do; empty if it can."""
    if not (directory() / "helm").exists() and not shutil.which("go"):
        return f"Helm {VERSION} is not built yet, and Go is missing: install Go 1.26 or later"
    return ""


def built() -> Path:
    """The program, which is built if it is missing."""
    program = directory() / "helm"
    directory().mkdir(parents=True, exist_ok=True)
    with open(directory() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            unfinished = directory() / "unfinished"  # a build that was killed leaves no half program
            env = {**os.environ, "GOBIN": str(unfinished), "CGO_ENABLED": "0"}
            command = ["nice", "go", "install", "-ldflags", "-s -w", f"helm.sh/helm/v4/cmd/helm@{VERSION}"]
            subprocess.run(command, env=env, check=True)
            (unfinished / "helm").replace(program)
    return program


def helm(*args: str) -> str:
    """The output of Helm, which reads and writes no file of the user."""
    env = {
        **os.environ,
        **{f"HELM_{name}_HOME": str(directory() / name.lower()) for name in ("CACHE", "CONFIG", "DATA")},
    }
    done = subprocess.run([built(), *args], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"helm {' '.join(args)}: {done.stderr}"
    return done.stdout


def rendered(*options: str, **values: str) -> str:
    """The manifests that the chart makes of *values*, in the namespace flarelog."""
    given = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    return helm("template", "flarelog", str(CHART), "--namespace", "flarelog", *given, *options)


def kustomized(name: str) -> str:
    """The content of ``flarelog.yaml`` in the directory *name* of ``deploy/kustomize``."""
    template, values = RENDERED[name]
    text = rendered("--show-only", f"templates/{template}.yaml", **values)
    kept = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("# Source: ")]
    return HEAD + "\n".join(kept) + "\n"


def main() -> None:
    if reason := missing():
        sys.exit(reason)
    for name in RENDERED:
        (KUSTOMIZE / name).mkdir(parents=True, exist_ok=True)
        (KUSTOMIZE / name / "flarelog.yaml").write_text(kustomized(name))


if __name__ == "__main__":
    main()
