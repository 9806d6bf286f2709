"""Write the short forms of the page's code and styles, with esbuild in Node: python -m docs.short, or make page.

A browser loads a third less. They are kept beside the modules, so that nobody else needs Node. The page's server sends
them while they are of the modules that are there, and otherwise the modules as they are written.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from flarelog.viewers.web import files

ESBUILD = "0.28.2"
CACHE = Path.home() / ".cache" / "flarelog" / f"esbuild-{ESBUILD}"
SHORT = Path(files.__file__).parent / "short"


def esbuild() -> Path:
    """Esbuild's path; it is installed where it is missing."""
    found = CACHE / "node_modules" / ".bin" / "esbuild"
    if not found.exists():
        install = ("npm", "install", "--silent", "--no-save", "--prefix", CACHE, f"esbuild@{ESBUILD}")
        subprocess.run(install, check=True, timeout=120)
    return found


def main() -> None:
    SHORT.mkdir(exist_ok=True)
    for name, text in files.written().items():
        command = (esbuild(), "--minify", "--format=esm", f"--loader={name.rpartition('.')[2]}")
        made = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
        (SHORT / name).write_bytes(files.heading(text) + made)


if __name__ == "__main__":
    main()
