"""The receiver's findings in a site's logs: a small file beside the logs, replaced as a whole.

    ROOT/RUN/.SITE.findings     the offset up to which each log was searched, and the findings

The file says nothing about bytes: if it is lost, the receiver searches the logs again.
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
    """The findings of *site*; empty if the file is missing or unreadable."""
    return layout.raw((run,), name_of(site))


def write(root: Path, run: str, site: str, said: bytes) -> None:
    """Replace the findings of *site*, unless the site is gone. Raises OSError; Unavailable for a link in the path."""
    with contextlib.suppress(FileNotFoundError), Directory(root, (run,)) as directory:
        if directory.is_directory(site):
            replace_file(name_of(site), said, FILE_MODE, dir_fd=directory.fd)
