"""The implementation of each fault that needs a moment of its own.

A fault returns once it is finished as far as the next fault needs: if a sidecar is killed before the gap of a
truncation is stored, the gap cannot be known any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Awaitable, Callable
from functools import partial

from flarelog.errors import NOT_ALLOWED, TimedOut
from flarelog.model import Code
from flarelog.poc.answers import answers
from flarelog.poc.disk import BALLAST
from flarelog.poc.intruders import FORGED, Intruder
from flarelog.poc.machine import SERVERS, SHARD, Machine
from flarelog.poc.writer import LOSS
from flarelog.security.tls import RENEWED, UNKNOWN_CA

FROZEN = 1.5  # seconds that a process is frozen or a connection hangs
UNNOTICED = 5.0  # seconds that a disk stays full at most, until a sidecar has got PAUSE

Fault = Callable[[Machine, list[str]], Awaitable[None]]
"""A fault that strikes the sites of these names."""


def of_each(fault: Callable[[Machine, str], Awaitable[None]]) -> Fault:
    """The *fault* of one site, for several at the same time."""

    async def strike(machine: Machine, names: list[str]) -> None:
        await asyncio.gather(*(fault(machine, name) for name in names))

    return strike


async def end_receiver(machine: Machine, _: list[str], number: signal.Signals) -> None:
    """End one receiver after the other; where there are several, the sites continue at another."""
    for one, receiver in list(machine.receivers.items()):
        receiver.send_signal(number)
        await receiver.wait()
        if len(machine.receivers) > 1:
            await machine.goes_on()
        await machine.start_receiver(one)


async def freeze_receiver(machine: Machine, _: list[str]) -> None:
    for receiver in machine.receivers.values():
        receiver.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(FROZEN)
    finally:
        for receiver in machine.receivers.values():
            receiver.send_signal(signal.SIGCONT)


async def kill_sidecar(machine: Machine, name: str) -> None:
    await machine.rotate(name, once=True)
    machine.sidecars[name].kill()
    await machine.sidecars[name].wait()
    await _another_sidecar(machine, name)
    await machine.rotate(name, once=False)


async def replace_sidecar(machine: Machine, name: str) -> None:
    older = machine.sidecars[name]
    await machine.rotate(name, once=True)
    older.send_signal(signal.SIGSTOP)
    try:
        await _another_sidecar(machine, name)
    finally:
        older.send_signal(signal.SIGCONT)
    await machine.fenced(name, older)
    await machine.rotate(name, once=False)


async def _another_sidecar(machine: Machine, name: str) -> None:
    """Start a sidecar, and wait until it has all logs of site *name*: the older one is fenced only then."""

    def opened() -> dict[str, int]:
        return {log: times for (site, log), times in answers(machine.work, Code.OK).items() if site == name}

    before = opened()
    await machine.start_sidecar(name)
    await machine.until(
        lambda: all(opened()[log] > times for log, times in before.items()),
        f"another sidecar has taken over all logs of {name}",
    )


async def cut_connection(machine: Machine, _: list[str]) -> None:
    for proxy in machine.proxies.values():
        proxy.cut()


async def hang_connection(machine: Machine, names: list[str]) -> None:
    for name in names:
        machine.proxies[name].hang()
    await asyncio.sleep(FROZEN)
    for name in names:
        machine.proxies[name].cut()


async def truncate(machine: Machine, name: str) -> None:
    """Truncate a log of site *name* while its sent bytes are lost in the network, so that they cannot be sent again."""
    proxy = machine.proxies[name]
    await machine.holds(name, *await machine.order(name, "hold"))  # the connection works
    proxy.hang()
    await machine.order(name, "lose")
    await machine.until(lambda: proxy.swallowed >= LOSS, f"the bytes that {name} will lose are sent")
    kept = await machine.order(name, "truncate")
    proxy.cut()
    await machine.holds(name, *kept)


async def remove(machine: Machine, name: str) -> None:
    await machine.holds(name, *await machine.order(name, "hold"))  # the sidecar has the log open
    await machine.holds(name, *await machine.order(name, "remove"))


async def full_disk(machine: Machine, _: list[str]) -> None:
    path = machine.store / BALLAST
    before = answers(machine.work, Code.PAUSE).total()
    try:
        with open(path, "wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):  # no space is left, as intended
                    while file.write(bytes(size)) == size:
                        pass
        try:
            await machine.until(
                lambda: answers(machine.work, Code.PAUSE).total() > before,
                "the receiver makes a site wait for room on its disk",
                UNNOTICED,
            )
        except TimedOut:
            if all(writer.returncode is None for writer in machine.writers.values()):
                raise  # there was something to send
    finally:
        os.unlink(path)


async def renew_certificates(machine: Machine, _: list[str]) -> None:
    """Renew the certificates. Open streams continue; later connections use the new certificates."""

    def renewed() -> list[int]:
        talks = [*map(machine.talk_of, machine.sidecars), (machine.work / "receiver.log").read_text(errors="replace")]
        return [talk.count(RENEWED) for talk in talks]

    assert machine.certificates is not None
    before = renewed()
    machine.certificates.renew()
    if machine.options.logs is None:  # these bytes go through the existing connections
        for name in machine.sidecars:
            await machine.holds(name, *await machine.order(name, "hold"))
            await machine.rotate(name, once=False)
    for proxy in machine.proxies.values():
        proxy.cut()
    await machine.until(
        lambda: all(after > was for after, was in zip(renewed(), before, strict=True)),
        "the receiver and all sidecars use their new certificates",
    )


async def intruders(machine: Machine, _: list[str]) -> None:
    await asyncio.gather(*(_try(machine, intruder) for intruder in machine.intruders))
    for intruder in machine.intruders:
        machine.say(f"{intruder.who}: {intruder.answer or 'was not refused'}")


async def _try(machine: Machine, intruder: Intruder) -> None:
    """Make one attempt, until it is refused, has ended, or times out."""
    place = machine.work / "intruders" / intruder.holder
    (place / "logs").mkdir(parents=True, exist_ok=True)
    with open(place / "logs" / intruder.log, "ab") as file:
        file.write(FORGED)
    intruder.attempts += 1
    intruder.answer = ""
    talk = place / "sidecar.log"
    talk.touch()
    before = talk.stat().st_size
    process = await machine.run_sidecar(place, intruder.claims, intruder.holder, "--once")

    def answered() -> bool:
        """Whether the certificate was refused, which ends no sidecar, or the process has ended."""
        lines = re.findall(r"^\S+ (?:WARNING|ERROR) (.*?)(?:; retrying)?$", talk.read_text()[before:], re.MULTILINE)
        unknown = next((line for line in lines if UNKNOWN_CA in line), "")
        intruder.answer = lines[0] if lines and process.returncode == NOT_ALLOWED else unknown
        return unknown != "" or process.returncode is not None

    with contextlib.suppress(TimedOut):
        await machine.until(answered, f"{intruder.who} gets an answer")
    answered()  # a message right before its end counts
    intruder.refused += intruder.answer != ""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def kill_leader(machine: Machine, _: list[str]) -> None:
    await _without(machine, await _leader(machine))


async def kill_server(machine: Machine, _: list[str]) -> None:
    await _without(machine, (await _leader(machine) + 1) % SERVERS)


async def partition(machine: Machine, _: list[str]) -> None:
    assert machine.nats is not None
    assert machine.network is not None
    leader = await _leader(machine)
    machine.network.cut(leader)
    try:
        await machine.goes_on()
    finally:
        machine.network.heal(leader)
    await asyncio.to_thread(machine.nats.settle)


async def _leader(machine: Machine) -> int:
    assert machine.nats is not None
    return await asyncio.to_thread(machine.nats.leader, SHARD)


async def _without(machine: Machine, number: int) -> None:
    """Kill nats-server *number*, and start it again after the bytes of all sites were stored without it."""
    assert machine.nats is not None
    machine.nats.kill(number)
    await machine.goes_on()
    machine.nats.start(number)
    await asyncio.to_thread(machine.nats.settle)


MOMENTS: dict[str, Fault] = {
    "restart-receiver": partial(end_receiver, number=signal.SIGTERM),
    "kill-receiver": partial(end_receiver, number=signal.SIGKILL),
    "freeze-receiver": freeze_receiver,
    "kill-sidecar": of_each(kill_sidecar),
    "replace-sidecar": of_each(replace_sidecar),
    "cut-connection": cut_connection,
    "hang-connection": hang_connection,
    "truncate": of_each(truncate),
    "remove": of_each(remove),
    "full-disk": full_disk,
    "renew-certificates": renew_certificates,
    "intruders": intruders,
    "kill-leader": kill_leader,
    "kill-server": kill_server,
    "partition": partition,
}
ORDERED = {"truncate", "remove"}
"""The faults that a site's writer carries out."""
