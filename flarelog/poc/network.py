"""A network namespace for each server, with a link to this machine and one to each other server; needs root.

A server whose links to its peers are down keeps its clients: nobody's connection is closed, as in a real partition.
The namespaces and links end with the processes that hold them, also when this process is killed.
"""

from __future__ import annotations

import random
import subprocess
from itertools import combinations
from typing import Self

from flarelog.errors import FlarelogError

_HOLD = ("unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec cat")
"""Keeps a namespace until its stdin ends."""


class NoNetwork(FlarelogError):
    """This machine gives no network namespaces, or not to this user."""


class Network:
    """*count* namespaces. Raises NoNetwork."""

    def __init__(self, count: int) -> None:
        self._holders: list[subprocess.Popen[bytes]] = []
        self._peers: dict[tuple[int, int], str] = {}  # (number, other): the address of other, as number reaches it
        self.hosts: list[str] = []  # of each server, as this machine reaches it
        try:
            prefix = _unused()
            for number in range(count):
                self._holders.append(_holder())
                here, there = (f"198.18.{prefix}.{4 * number + end}" for end in (1, 2))
                link = f"flarelog{prefix}-{number}"
                _do("ip", "link", "add", link, "type", "veth", "peer", "clients", "netns", self._holders[number].pid)
                _do("ip", "addr", "add", f"{here}/30", "dev", link)
                _do("ip", "link", "set", link, "up")
                self._up(number, "clients", there)
                self.hosts.append(there)
            for at, (one, other) in enumerate(combinations(range(count), 2), count):
                ends = [f"198.18.{prefix}.{4 * at + end}" for end in (1, 2)]
                _do(*self.inside(one), "ip", "link", "add", f"peer{other}", "type", "veth", "peer", f"peer{one}",
                    "netns", self._holders[other].pid)  # fmt: skip
                self._up(one, f"peer{other}", ends[0])
                self._up(other, f"peer{one}", ends[1])
                self._peers[other, one], self._peers[one, other] = ends
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def inside(self, number: int) -> tuple[str, ...]:
        """What runs a command as server *number*."""
        return ("nsenter", f"--net=/proc/{self._holders[number].pid}/ns/net")

    def peer(self, number: int, other: int) -> str:
        return self._peers[number, other]

    def cut(self, number: int, how: str = "down") -> None:
        """Cut server *number* off from its peers, not from its clients."""
        for other in (other for one, other in self._peers if one == number):
            _do(*self.inside(number), "ip", "link", "set", f"peer{other}", how)

    def heal(self, number: int) -> None:
        self.cut(number, "up")

    def close(self) -> None:
        for holder in self._holders:
            holder.communicate()
        self._holders = []

    def _up(self, number: int, link: str, address: str) -> None:
        _do(*self.inside(number), "ip", "addr", "add", f"{address}/30", "dev", link)
        _do(*self.inside(number), "ip", "link", "set", link, "up")


def _holder() -> subprocess.Popen[bytes]:
    try:
        holder = subprocess.Popen(
            _HOLD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise NoNetwork(f"unshare cannot be run: {error.strerror}") from None
    assert holder.stdout is not None
    if holder.stdout.readline() != b"up\n":
        holder.communicate()
        raise NoNetwork("network namespaces need root, and iproute2")
    return holder


def _unused() -> int:
    """The third part of addresses that this machine does not use."""
    taken = _do("ip", "-4", "-o", "addr")
    return next(n for n in random.sample(range(256), 256) if f" 198.18.{n}." not in taken)


def _do(*command: object) -> str:
    try:
        done = subprocess.run(tuple(map(str, command)), capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoNetwork(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise NoNetwork(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout
