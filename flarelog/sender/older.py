"""Tells whether an older sidecar of the same logs runs on this machine; no receiver is needed for that."""

from __future__ import annotations

import errno
import hashlib
import os
import socket

from flarelog.sender.options import SidecarOptions


class Older:
    """The older sidecar of the logs of *options*, if there is one.

    The oldest one holds an address in Linux's abstract namespace, which a process loses when it ends, however it ends.
    Other systems have no such addresses, and containers with networks of their own do not share them: an older sidecar
    is not seen there.
    """

    def __init__(self, options: SidecarOptions) -> None:
        source = options.source
        parts = options.receiver, options.run, options.site, os.path.realpath(source.directory), *source.part
        self._address = f"\0flarelog-{hashlib.sha256(repr(parts).encode()).hexdigest()}"
        self._socket: socket.socket | None = None
        self.is_there()

    def is_there(self) -> bool:
        """Whether an older sidecar runs. Without one this sidecar holds the address from now on."""
        if self._socket is not None:
            return False
        try:
            held = socket.socket(socket.AF_UNIX)
            try:
                held.bind(self._address)
            except OSError:
                held.close()
                raise
        except OSError as error:
            return error.errno == errno.EADDRINUSE
        self._socket = held
        return False

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
