"""How each fault that needs a moment of its own is done.

Each returns when what it began has come to its end as far as the next fault needs it: a truncation whose gap is not
stored yet could not be known any more once its sidecar is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Awaitable, Callable

from flarelog.errors import TimedOut
from flarelog.poc.disk import BALLAST
from flarelog.poc.intruders import FORGED, Intruder
from flarelog.poc.machine import Machine
from flarelog.poc.talk import OPENED, PAUSED, told
from flarelog.poc.writer import LOSS

FROZEN = 1.5  # seconds that a process stands still or a connection hangs
UNNOTICED = 5.0  # seconds that a disk stays full, at most; until somebody has been told


async def restart_receiver(machine: Machine, _: list[str]) -> None:
    await _end_receiver(machine, signal.SIGTERM)


async def kill_receiver(machine: Machine, _: list[str]) -> None:
    await _end_receiver(machine, signal.SIGKILL)


async def _end_receiver(machine: Machine, number: signal.Signals) -> None:
    assert machine.receiver is not None
    machine.receiver.send_signal(number)
    await machine.receiver.wait()
    await machine.start_receiver()


async def freeze_receiver(machine: Machine, _: list[str]) -> None:
    assert machine.receiver is not None
    machine.receiver.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(FROZEN)
    finally:
        machine.receiver.send_signal(signal.SIGCONT)


async def kill_sidecar(machine: Machine, names: list[str]) -> None:
    async def kill(name: str) -> None:
        await machine.rotate(name, once=True)
        machine.sidecars[name].kill()
        await machine.sidecars[name].wait()
        await _another_sidecar(machine, name)
        await machine.rotate(name, once=False)

    await asyncio.gather(*(kill(name) for name in names))


async def replace_sidecar(machine: Machine, names: list[str]) -> None:
    async def replace(name: str) -> None:
        older = machine.sidecars[name]
        await machine.rotate(name, once=True)
        older.send_signal(signal.SIGSTOP)
        try:
            await _another_sidecar(machine, name)
        finally:
            older.send_signal(signal.SIGCONT)
        await machine.fenced(name, older)
        await machine.rotate(name, once=False)

    await asyncio.gather(*(replace(name) for name in names))


async def _another_sidecar(machine: Machine, name: str) -> None:
    """Start one, and wait until it has all logs of site *name*: one that has none is not the older of two."""

    def opened() -> dict[str, int]:
        return {log: times for (site, log), times in told(machine.work, OPENED).items() if site == name}

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


async def truncate(machine: Machine, names: list[str]) -> None:
    await asyncio.gather(*(_truncate(machine, name) for name in names))


async def _truncate(machine: Machine, name: str) -> None:
    """What the sidecar has sent, and the network has swallowed, is gone from the log when it is to be sent again."""
    proxy = machine.proxies[name]
    await machine.holds(name, *await machine.order(name, "hold"))  # the connection carries
    proxy.hang()
    await machine.order(name, "lose")
    await machine.until(lambda: proxy.swallowed >= LOSS, f"the bytes that {name} will lose are sent")
    kept = await machine.order(name, "truncate")
    proxy.cut()
    await machine.holds(name, *kept)


async def remove(machine: Machine, names: list[str]) -> None:
    await asyncio.gather(*(_remove(machine, name) for name in names))


async def _remove(machine: Machine, name: str) -> None:
    await machine.holds(name, *await machine.order(name, "hold"))  # the sidecar has the log open
    await machine.holds(name, *await machine.order(name, "remove"))


async def full_disk(machine: Machine, _: list[str]) -> None:
    path = machine.store / BALLAST
    before = told(machine.work, PAUSED).total()
    try:
        with open(path, "wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):  # no space is left, which is what is wanted
                    while file.write(bytes(size)) == size:
                        pass
        with contextlib.suppress(TimedOut):  # should nobody have had anything to send
            await machine.until(lambda: told(machine.work, PAUSED).total() > before, "somebody is told", UNNOTICED)
    finally:
        os.unlink(path)


async def renew_certificates(machine: Machine, _: list[str]) -> None:
    """Streams that are open go on; connections that are made from now on are made with the new certificates."""

    def renewed() -> list[int]:
        new = [machine.talk_of(name).count("new connections use") for name in machine.sidecars]
        return [*new, (machine.work / "receiver.log").read_text(errors="replace").count("new connections use")]

    assert machine.certificates is not None
    before = renewed()
    machine.certificates.renew()
    if machine.options.logs is None:  # what is written now goes through the connections that are there
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
    """One attempt, until it is refused, has ended, or has heard nothing for a long time."""
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
        heard = talk.read_text(errors="replace")[before:]
        lines = [line for line in heard.splitlines() if intruder.sentence in line]
        intruder.answer = re.sub(r"^\S+ (WARNING|ERROR) |; retrying$", "", lines[0]) if lines else ""
        return bool(lines) or process.returncode is not None

    with contextlib.suppress(TimedOut):
        await machine.until(answered, f"{intruder.who} gets an answer")
    answered()  # what it said right before it ended
    intruder.refused += intruder.answer != ""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


MOMENTS: dict[str, Callable[[Machine, list[str]], Awaitable[None]]] = {
    "restart-receiver": restart_receiver,
    "kill-receiver": kill_receiver,
    "freeze-receiver": freeze_receiver,
    "kill-sidecar": kill_sidecar,
    "replace-sidecar": replace_sidecar,
    "cut-connection": cut_connection,
    "hang-connection": hang_connection,
    "truncate": truncate,
    "remove": remove,
    "full-disk": full_disk,
    "renew-certificates": renew_certificates,
    "intruders": intruders,
}
ORDERED = {"truncate", "remove"}
"""Those that a site's writer does."""
