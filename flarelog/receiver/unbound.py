"""Why a port cannot be used, in words: another process has it, or the address is not this machine's."""

from __future__ import annotations

import errno
import socket

from flarelog.names import parse_address

_WHY = {
    errno.EADDRINUSE: "another process uses the port; give another port (0 takes a free one)",
    errno.EADDRNOTAVAIL: "the address is not this machine's; give one that it has, or 0.0.0.0 for all of them",
    errno.EACCES: "this user may not use the port; give another port (0 takes a free one)",
}


def unbound(error: OSError) -> str:
    """The sentence for *error*, which a bind has raised."""
    if isinstance(error, socket.gaierror):
        return f"the name has no address ({error.strerror}); give an address of this machine"
    return _WHY.get(error.errno or 0, str(error.strerror or error))


def tried(address: str) -> str:
    """Why listening on *address* fails; empty if it works."""
    host, port = parse_address(address)
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, where in found:
            with socket.socket(family, kind, protocol) as one:
                if family is socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections do not count
                one.bind(where)
                one.listen()
    except OSError as error:
        return unbound(error)
    return ""
