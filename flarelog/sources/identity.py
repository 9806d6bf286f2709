"""Which file a descriptor stands for; never by name, never by content alone.

An identity is ``DEVICE:INODE:WITNESS``. The witness is the file's handle, from name_to_handle_at(2), which needs no
privilege: it holds the inode's generation, so that an inode number that is used again gives another handle. Where a
file system has no handles it is the birth time, ``born-NANOSECONDS``, and where there is none either it is empty, and
the head fingerprint has to tell. What a file system cannot tell is not hidden: see ``lacks``.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
import sys
import threading

from flarelog.model import extend

HEAD = 1024  # bytes of a file's beginning that its fingerprint covers
_AT_EMPTY_PATH = 0x1000
_MAX_HANDLE = 128
_F_SETSIG, _F_SETOWN_EX, _F_OWNER_TID = 10, 15, 0
_STATX_BTIME = 0x800
_BORN = "born-"
# statfs(2)'s numbers of NFS, SMB, SMB2, CIFS, 9P, FUSE, Ceph, Lustre, GPFS and AFS
_REMOTE = {
    *(0x6969, 0x517B, 0xFE534D42, 0xFF534D42, 0x01021997, 0x65735546),
    *(0x00C36400, 0x0BD00BD0, 0x47504653, 0x5346414F),
}

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
# Unlike fcntl.fcntl it does not let go of the interpreter's lock.
_fcntl = ctypes.PyDLL(None).fcntl if sys.platform == "linux" else None


def identity(fd: int) -> str:
    """The identity of the file that *fd* is open on. Raises OSError."""
    found = os.fstat(fd)
    witness = _handle(fd)
    if not witness and (born := birth(fd)) is not None:
        witness = f"{_BORN}{born}"
    return f"{found.st_dev:x}:{found.st_ino:x}:{witness}"


def inode(of: str) -> tuple[int, int]:
    """(device, inode) of an identity; (0, 0) for one that is malformed."""
    try:
        device, number, _ = of.split(":", 2)
        return int(device, 16), int(number, 16)
    except ValueError:
        return 0, 0


def witness(of: str) -> str:
    """What tells the file from others that had its inode number, as far as anything does."""
    return of.split(":", 2)[-1]


def earlier(of: str) -> str:
    """The identity as versions recorded it that did not know of birth times."""
    return of.partition(_BORN)[0]


def same(recorded: str, found: str) -> bool:
    """Whether a file that was *recorded* is the one that was *found*.

    It may have been recorded without a birth time, or under another number of its device: many file systems get a new
    one whenever they are mounted, and handle and birth time are witnesses enough without it.
    """
    if recorded in (found, earlier(found)):
        return True
    return bool(witness(found)) and inode(recorded)[1] == inode(found)[1] and witness(recorded) == witness(found)


def lacks(fd: int, of: str) -> list[str]:
    """What the file system of *fd*, whose identity is *of*, cannot tell, in the words of the wire contract."""
    found = []
    if not witness(of) or witness(of).startswith(_BORN):
        found.append("no-handle")
    if not witness(of):
        found.append("no-birth")
    if remote(fd):
        found.append("remote")
    if has_writer(fd) is None:
        found.append("no-lease")
    return found


def birth(fd: int) -> int | None:
    """When the file was created, in ns since the epoch; None where that is not kept."""
    call = getattr(_libc, "statx", None)
    if call is None:
        return None
    buffer = ctypes.create_string_buffer(256)
    if call(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, buffer) != 0:
        return None
    (mask,) = struct.unpack_from("I", buffer)
    seconds, nanoseconds = struct.unpack_from("qI", buffer, 80)
    return seconds * 1_000_000_000 + nanoseconds if mask & _STATX_BTIME else None


def remote(fd: int) -> bool:
    """Whether other machines may write to the file: they are seen by no watch, and by no lease."""
    call = getattr(_libc, "fstatfs", None)
    buffer = ctypes.create_string_buffer(256)
    return call is not None and call(fd, buffer) == 0 and struct.unpack_from("l", buffer)[0] & 0xFFFFFFFF in _REMOTE


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
    come in that moment, the kernel tells this thread by a signal, and lets the writer go on as soon as the lease is
    back. The signal is SIGCONT: to a process that runs it is nothing, and one that was stopped (SIGSTOP) just then
    goes on, where the writer would wait for /proc/sys/fs/lease-break-time otherwise. A frozen one (cgroups) does not
    go on, and a writer that would not wait (O_NONBLOCK) fails: so the lease is taken and given back without a line of
    Python in between, and without letting another thread have the interpreter, which lasts about a microsecond. On a
    remote file system a lease says nothing of the writers on other machines.
    """
    if _fcntl is None or remote(fd):
        return None
    try:
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGCONT)
        fcntl.fcntl(fd, _F_SETOWN_EX, struct.pack("ii", _F_OWNER_TID, threading.get_native_id()))
        taken, _ = map(_fcntl, (fd, fd), (fcntl.F_SETLEASE,) * 2, (fcntl.F_RDLCK, fcntl.F_UNLCK))
        if taken != 0:  # once more, to learn why not
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:  # not the owner of the file, or a file system without leases
        return None
    return False
