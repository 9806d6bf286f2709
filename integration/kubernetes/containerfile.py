"""flarelog's image as ``deploy/Containerfile`` makes it, built by buildah without a daemon and without a registry.

Its base is Debian with Python, which debootstrap makes once, into ``~/.cache/flarelog/debian-SUITE``. The image is
built from this tree in a minute, again when the tree has changed: pip has the settings of the machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from integration.kubernetes import parts
from integration.kubernetes.helm import TREE

SUITE = "bookworm"  # its Python is 3.11
BASE = "localhost/python:debian"
IMAGE = "docker.io/library/flarelog:0.1.0"  # what a node makes of the manifests' flarelog:0.1.0
PACKAGES = {"buildah": "buildah", "debootstrap": "debootstrap"}
OF_THE_MACHINE = ("/etc/ssl/certs", "/etc/pip.conf")
"""Where pip's settings and the CAs that it believes are: the build has those of this machine."""


def missing() -> str:
    """The reason why no image can be built here, and what to do; empty if it can."""
    packages = sorted({package for program, package in PACKAGES.items() if not parts.which(program)})
    return f"an image needs more programs: apt-get install {' '.join(packages)}" if packages else ""


def directory() -> Path:
    return parts.cache().with_name(f"debian-{SUITE}")


def archive() -> Path:
    """The tar file of the image, for containerd to import. The image is built if the tree is not the last one's."""
    directory().mkdir(parents=True, exist_ok=True)
    with open(directory() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = directory() / f"flarelog-{digest()}.tar"
        if path.exists():
            return path
        for older in directory().glob("flarelog-*.tar"):
            older.unlink()
        if not (directory() / "base.tar").exists():
            bootstrap()
        if not buildah("images", "--quiet", "--filter", f"reference={BASE}"):
            working = buildah("from", "scratch")
            buildah("add", "--quiet", working, str(directory() / "base.tar"), "/")
            buildah("commit", "--rm", "--quiet", working, BASE)
        volumes = [f"--volume={each}:{each}:ro" for each in OF_THE_MACHINE if Path(each).exists()]
        buildah(
            "build", "--quiet", "--build-arg", f"BASE={BASE}", *volumes,
            "--file", str(TREE / "deploy" / "Containerfile"), "--tag", IMAGE, str(TREE),
        )  # fmt: skip
        unfinished = directory() / "unfinished.tar"  # one that was killed leaves no half archive
        unfinished.unlink(missing_ok=True)
        buildah("push", "--quiet", IMAGE, f"docker-archive:{unfinished}:{IMAGE}")
        buildah("rmi", "--force", IMAGE)
        buildah("rmi", "--prune", "--force")
        unfinished.replace(path)
    return path


def digest() -> str:
    """The digest of what the image is made of."""
    found = hashlib.sha256()
    files = [TREE / name for name in ("deploy/Containerfile", "setup.cfg", "pyproject.toml", "docs/flarelog.1")]
    sources = [path for path in (TREE / "flarelog").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    for path in (*files, *sorted(sources)):
        found.update(f"{path.relative_to(TREE)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:12]


def bootstrap() -> None:
    """Make the base: Debian with Python and what builds wheels, without which the image's own stage gets along."""
    with tempfile.TemporaryDirectory() as root:
        command = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv", SUITE, root]
        subprocess.run(["nice", *command], check=True, stdout=subprocess.DEVNULL, env=_env())
        unfinished = directory() / "unfinished-base.tar"
        subprocess.run(["tar", "--numeric-owner", "-C", root, "-cf", str(unfinished), "."], check=True)
        unfinished.replace(directory() / "base.tar")


def buildah(*args: str) -> str:
    """The output of buildah, with a storage of the tests' own."""
    storage = ("--root", str(directory() / "storage"), "--runroot", str(directory() / "run"))
    done = subprocess.run(
        ["nice", "buildah", *storage, *args],
        env=_env() | {"BUILDAH_ISOLATION": "chroot"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"buildah {' '.join(args)}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout.strip()


def _env() -> dict[str, str]:
    return {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
