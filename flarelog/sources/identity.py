"""Which file a descriptor stands for; never by name, never by content alone.

An identity is ``DEVICE:INODE:HANDLE``. The handle comes from name_to_handle_at(2), which needs no privilege: it holds
the inode's generation, so that an inode number that is used again gives another handle. Where a file system has no
handles the third part is empty, and the head fingerprint has to tell (``weak``).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
import sys

from flarelog.model import extend

HEAD = 1024  # bytes of a file's beginning that its fingerprint covers
_AT_EMPTY_PATH = 0x1000
_MAX_HANDLE = 128
_F_SETSIG = 10

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
# Unlike fcntl.fcntl it does not let go of the interpreter's lock.
_fcntl = ctypes.PyDLL(None).fcntl if sys.platform == "linux" else None


def identity(fd: int) -> str:
    """The identity of the file that *fd* is open on. Raises OSError."""
    found = os.fstat(fd)
    return f"{found.st_dev:x}:{found.st_ino:x}:{_handle(fd)}"


def inode(of: str) -> tuple[int, int]:
    """(device, inode) of an identity; (0, 0) for one that is malformed."""
    try:
        device, number, _ = of.split(":", 2)
        return int(device, 16), int(number, 16)
    except ValueError:
        return 0, 0


def weak(of: str) -> bool:
    """Whether the identity cannot tell an inode number that is used again."""
    return of.endswith(":")


def _handle(fd: int) -> str:
    call = getattr(_libc, "name_to_handle_at", None)
    if call is None:
        return ""
    buffer = bytearray(struct.pack("Ii", _MAX_HANDLE, 0) + bytes(_MAX_HANDLE))
    mount = ctypes.c_int()
    array = (ctypes.c_char * len(buffer)).from_buffer(buffer)
    if call(fd, b"", array, ctypes.byref(mount), _AT_EMPTY_PATH) != 0:
        return ""
    size, kind = struct.unpack_from("Ii", buffer)
    return f"{kind:x}.{bytes(buffer[8 : 8 + size]).hex()}"


def head(fd: int, length: int = HEAD) -> tuple[int, int]:
    """(bytes covered, CRC-32) of the first *length* bytes, or of as many as there are. Raises OSError."""
    data = os.pread(fd, length, 0)
    return len(data), extend(0, data)


def has_writer(fd: int) -> bool | None:
    """Whether any process has the file open for writing; None where that cannot be found out.

    A read lease is granted only on a file that nobody has open for writing. It is given back at once; should a writer
    come in that moment, the kernel tells this process by SIGURG, which nobody minds, and lets the writer go on as
    soon as the lease is back. A process that is stopped (SIGSTOP) just then would keep the writer waiting, for at most
    /proc/sys/fs/lease-break-time: so the lease is taken and given back without a line of Python in between, and
    without letting another thread have the interpreter, which lasts about a microsecond.
    """
    if _fcntl is None:
        return None
    try:
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)
        taken, _ = map(_fcntl, (fd, fd), (fcntl.F_SETLEASE,) * 2, (fcntl.F_RDLCK, fcntl.F_UNLCK))
        if taken != 0:  # once more, to learn why not
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # not the owner of the file, or a file system without leases
        return None
    return False
