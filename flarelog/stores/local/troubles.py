"""What went wrong in a site's logs, as its receiver found it: a small file beside them, replaced as a whole.

    ROOT/RUN/.SITE.findings     how far each log was looked at, and what was found

Nothing in it says anything of bytes: whoever loses it looks again.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from flarelog.replace import replace_file
from flarelog.stores.directory import FILE_MODE, Directory
from flarelog.stores.local.layout import Layout

SUFFIX = ".findings"


def name_of(site: str) -> str:
    return f".{site}{SUFFIX}"


def read(layout: Layout, run: str, site: str) -> bytes:
    """Nothing where it is not there, or cannot be read."""
    return layout.raw((run,), name_of(site))


def write(root: Path, run: str, site: str, said: bytes) -> None:
    """Raises OSError; Unavailable where a link leads there."""
    with contextlib.suppress(FileNotFoundError), Directory(root, (run,)) as directory:
        if directory.is_directory(site):
            replace_file(name_of(site), said, FILE_MODE, dir_fd=directory.fd)
