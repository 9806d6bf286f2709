"""The common part of ``sidecar`` and ``agent``: the options for receivers and site, and a process that sends until it
is stopped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from flarelog.cli.notify import Service
from flarelog.cli.options import READ, RECEIVER, option
from flarelog.cli.running import checked, ignore_stops, on_end_of_stdin, on_hangup, on_stop
from flarelog.cli.tuning import give_memory_back
from flarelog.names import independent

log = logging.getLogger(__name__)

T_co = TypeVar("T_co", covariant=True)

receivers_option = option(
    "--receiver",
    "receivers",
    required=True,
    multiple=True,
    callback=lambda context, parameter, given: checked(lambda: independent(given)),
    help=f"{RECEIVER} Repeatable: each then gets every log.",
)
site_option = option("--site", required=True, help="Name of the site.")
site_policy_option = option(
    "--site-policy",
    multiple=True,
    type=READ,
    help="TOML file: which files may leave the site. Repeatable. Adds to the variable's files (':' between).",
)


class Sender(Protocol[T_co]):
    def drain(self) -> None: ...

    def reread(self) -> bool: ...

    async def run(self) -> T_co: ...


async def until_stopped(
    who: str, make: Callable[[], list[Sender[T_co]]], *, until_stdin_ends: bool = False
) -> list[T_co]:
    """The result of each sender: it ended by itself, or SIGTERM drained it. *who*: a noun for log messages. *make* is
    called in the event loop, because connections belong to it.

    *until_stdin_ends*: the end of stdin alone drains. A scheduler that stops a job sends SIGTERM to all its processes,
    and the command whose output is sent may still write.
    """
    service, senders = Service(), make()

    def stop() -> None:
        service.tell("STOPPING=1")
        for sender in senders:
            sender.drain()

    def reread() -> None:
        if not [sender for sender in senders if sender.reread()]:
            log.info("SIGHUP has nothing to read again: this %s has no certificates", who)

    if until_stdin_ends:
        on_end_of_stdin(stop)
        ignore_stops()
    else:
        on_stop(stop)
    on_hangup(reread)
    give_memory_back()
    service.ready()
    async with service.alive():
        return list(await asyncio.gather(*(sender.run() for sender in senders)))
