"""The identity of the file behind a descriptor; never its name, never its content alone.

An identity is ``DEVICE:INODE:WITNESS``. The witness is the file's handle, from name_to_handle_at(2), which needs no
privilege: the handle holds the inode's generation, so that a reused inode number gives another handle. A file system
without handles gives the birth time, ``born-NANOSECONDS``; without birth times either, the witness is empty, and the
head fingerprint has to tell. ``lacks`` reports what a file system cannot tell.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from typing import NamedTuple

from flarelog.checksum import extend

HEAD = 1024  # bytes of a file's beginning that its fingerprint covers
_AT_EMPTY_PATH = 0x1000
_MAX_HANDLE = 128
_AT_FDCWD = -100
_STATX_BTIME = 0x800
_STATX = 0x7FF | _STATX_BTIME
_STATX_FIELDS = struct.Struct("=I12xI8xH2xQQ32xqI4xqI4xqI4x8xII")  # the requested fields, as in statx(2)
_StatxBuffer = ctypes.c_char * 256
_BORN = "born-"
# statfs(2)'s numbers of NFS, SMB, SMB2, CIFS, 9P, FUSE, Ceph, Lustre, GPFS and AFS
_REMOTE = {
    *(0x6969, 0x517B, 0xFE534D42, 0xFF534D42, 0x01021997, 0x65735546),
    *(0x00C36400, 0x0BD00BD0, 0x47504653, 0x5346414F),
}

libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def identity(fd: int) -> str:
    """The identity of the file that *fd* is open on. Raises OSError."""
    return identity_of(fd, opened(fd))


def identity_of(fd: int, found: Sight) -> str:
    """The identity of the file that *fd* is open on, with the sight *found*. Raises OSError."""
    witness = _handle(fd)
    if not witness and found.born is not None:
        witness = f"{_BORN}{found.born}"
    device, inode = found.is_of
    return f"{device:x}:{inode:x}:{witness}"


def inode(of: str) -> tuple[int, int]:
    """(device, inode) of an identity; (0, 0) for one that is malformed."""
    try:
        device, number, _ = of.split(":", 2)
        return int(device, 16), int(number, 16)
    except ValueError:
        return 0, 0


def witness(of: str) -> str:
    """The witness of an identity, which tells the file from earlier ones with its inode number; may be empty."""
    return of.split(":", 2)[-1]


def same(recorded: str, found: str) -> bool:
    """Whether the identities *recorded* and *found* are of one file.

    It may have been recorded under another device number: many file systems get a new number at each mount, and handle
    and birth time are witnesses enough without it.
    """
    if recorded == found:
        return True
    return bool(witness(found)) and inode(recorded)[1] == inode(found)[1] and witness(recorded) == witness(found)


def lacks(fd: int, of: str) -> list[str]:
    """The missing abilities of the file system of *fd*, with the identity *of*, in the words of the wire contract."""
    found = []
    if not witness(of) or witness(of).startswith(_BORN):
        found.append("no-handle")
    if not witness(of):
        found.append("no-birth")
    if remote(fd):
        found.append("remote")
    return found


class Sight(NamedTuple):
    """A file as a look at its name found it. Names move: only a descriptor confirms a sight."""

    is_of: tuple[int, int]  # device and inode
    regular: bool  # a file, and not a directory, a socket or the like
    size: int  # bytes
    modified: int  # ns since the epoch
    born: int | None  # ns since the epoch; None: unknown
    names: int = 1  # hard links
    changed: int = 0  # ns since the epoch: the last change of its bytes, its name or its mode


def sight(path: str) -> Sight:
    """The file at *path*, through links. Raises OSError."""
    return _statx(_AT_FDCWD, os.fsencode(path), 0) or _stat(path)


def opened(fd: int) -> Sight:
    """The file that *fd* is open on. Raises OSError."""
    return _statx(fd, b"", _AT_EMPTY_PATH) or _stat(fd)


def _stat(of: str | int) -> Sight:
    found = os.stat(of)
    regular = stat.S_ISREG(found.st_mode)
    inode = found.st_dev, found.st_ino
    return Sight(inode, regular, found.st_size, found.st_mtime_ns, None, found.st_nlink, found.st_ctime_ns)


def _statx(directory: int, path: bytes, flags: int) -> Sight | None:
    """The file as statx(2) describes it; None where the call fails."""
    call = getattr(libc, "statx", None)
    if call is None:
        return None
    buffer = _StatxBuffer()
    if call(directory, path, flags, _STATX, buffer) != 0:
        return None
    mask, names, mode, inode, size, *times, major, minor = _STATX_FIELDS.unpack_from(buffer)
    born, born_ns, changed, changed_ns, modified, modified_ns = times
    return Sight(
        (os.makedev(major, minor), inode),
        stat.S_ISREG(mode),
        size,
        modified * 1_000_000_000 + modified_ns,
        born * 1_000_000_000 + born_ns if mask & _STATX_BTIME else None,
        names,
        changed * 1_000_000_000 + changed_ns,
    )


def remote(fd: int) -> bool:
    """Whether other machines may write to the file, which no watch reports."""
    call = getattr(libc, "fstatfs", None)
    buffer = ctypes.create_string_buffer(256)
    return call is not None and call(fd, buffer) == 0 and struct.unpack_from("l", buffer)[0] & 0xFFFFFFFF in _REMOTE


def _handle(fd: int) -> str:
    call = getattr(libc, "name_to_handle_at", None)
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
