"""How each fault that needs a moment of its own is done.

Each returns when what it began has come to its end as far as the next fault needs it: a truncation whose gap is not
stored yet could not be known any more once its sidecar is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from flarelog.errors import TimedOut
from flarelog.poc.talk import OPENED, PAUSED, told
from flarelog.poc.writer import LOSS

if TYPE_CHECKING:
    from flarelog.poc.simulation import Simulation

FROZEN = 1.5  # seconds that a process stands still or a connection hangs
UNNOTICED = 5.0  # seconds that a disk stays full, at most; until somebody has been told
BALLAST = ".ballast"


async def restart_receiver(simulation: Simulation, _: list[str]) -> None:
    await _end_receiver(simulation, signal.SIGTERM)


async def kill_receiver(simulation: Simulation, _: list[str]) -> None:
    await _end_receiver(simulation, signal.SIGKILL)


async def _end_receiver(simulation: Simulation, number: signal.Signals) -> None:
    assert simulation.receiver is not None
    simulation.receiver.send_signal(number)
    await simulation.receiver.wait()
    await simulation.start_receiver()


async def freeze_receiver(simulation: Simulation, _: list[str]) -> None:
    assert simulation.receiver is not None
    simulation.receiver.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(FROZEN)
    finally:
        simulation.receiver.send_signal(signal.SIGCONT)


async def kill_sidecar(simulation: Simulation, names: list[str]) -> None:
    async def kill(name: str) -> None:
        await simulation.rotate(name, once=True)
        simulation.sidecars[name].kill()
        await simulation.sidecars[name].wait()
        await _another_sidecar(simulation, name)
        await simulation.rotate(name, once=False)

    await asyncio.gather(*(kill(name) for name in names))


async def replace_sidecar(simulation: Simulation, names: list[str]) -> None:
    async def replace(name: str) -> None:
        older = simulation.sidecars[name]
        await simulation.rotate(name, once=True)
        older.send_signal(signal.SIGSTOP)
        try:
            await _another_sidecar(simulation, name)
        finally:
            older.send_signal(signal.SIGCONT)
        await simulation.fenced(name, older)
        await simulation.rotate(name, once=False)

    await asyncio.gather(*(replace(name) for name in names))


async def _another_sidecar(simulation: Simulation, name: str) -> None:
    """Start one, and wait until it has all logs of site *name*: one that has none is not the older of two."""

    def opened() -> dict[str, int]:
        return {log: times for (site, log), times in told(simulation.work, OPENED).items() if site == name}

    before = opened()
    await simulation.start_sidecar(name)
    await simulation.until(
        lambda: all(opened()[log] > times for log, times in before.items()), f"another sidecar has all logs of {name}"
    )


async def cut_connection(simulation: Simulation, _: list[str]) -> None:
    for proxy in simulation.proxies.values():
        proxy.cut()


async def hang_connection(simulation: Simulation, names: list[str]) -> None:
    for name in names:
        simulation.proxies[name].hang()
    await asyncio.sleep(FROZEN)
    for name in names:
        simulation.proxies[name].cut()


async def truncate(simulation: Simulation, names: list[str]) -> None:
    await asyncio.gather(*(_truncate(simulation, name) for name in names))


async def _truncate(simulation: Simulation, name: str) -> None:
    """What the sidecar has sent, and the network has swallowed, is gone from the log when it is to be sent again."""
    proxy = simulation.proxies[name]
    await simulation.holds(name, *await simulation.order(name, "hold"))  # the connection carries
    proxy.hang()
    await simulation.order(name, "lose")
    await simulation.until(lambda: proxy.swallowed >= LOSS, f"what is to be lost of {name} is sent")
    kept = await simulation.order(name, "truncate")
    proxy.cut()
    await simulation.holds(name, *kept)


async def remove(simulation: Simulation, names: list[str]) -> None:
    await asyncio.gather(*(_remove(simulation, name) for name in names))


async def _remove(simulation: Simulation, name: str) -> None:
    await simulation.holds(name, *await simulation.order(name, "hold"))  # the sidecar has the log open
    await simulation.holds(name, *await simulation.order(name, "remove"))


async def full_disk(simulation: Simulation, _: list[str]) -> None:
    path = simulation.store / BALLAST
    before = told(simulation.work, PAUSED).total()
    try:
        with open(path, "wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):  # no space is left, which is what is wanted
                    while file.write(bytes(size)) == size:
                        pass
        with contextlib.suppress(TimedOut):  # should nobody have had anything to send
            await simulation.until(
                lambda: told(simulation.work, PAUSED).total() > before, "somebody is told", UNNOTICED
            )
    finally:
        os.unlink(path)


async def renew_certificates(simulation: Simulation, _: list[str]) -> None:
    """Streams that are open go on; connections that are made from now on are made with the new certificates."""

    def renewed() -> list[int]:
        new = [simulation.talk_of(name).count("new connections use") for name in simulation.sidecars]
        return [*new, (simulation.work / "receiver.log").read_text(errors="replace").count("new connections use")]

    assert simulation.certificates is not None
    before = renewed()
    simulation.certificates.renew()
    if simulation.options.logs is None:  # what is written now goes through the connections that are there
        for name in simulation.sidecars:
            await simulation.holds(name, *await simulation.order(name, "hold"))
            await simulation.rotate(name, once=False)
    for proxy in simulation.proxies.values():
        proxy.cut()
    await simulation.until(
        lambda: all(after > was for after, was in zip(renewed(), before, strict=True)),
        "the receiver and all sidecars use their new certificates",
    )


async def intruders(simulation: Simulation, _: list[str]) -> None:
    await asyncio.gather(*(intruder.try_it(simulation) for intruder in simulation.intruders))
    for intruder in simulation.intruders:
        simulation.say(f"{intruder.who}: {intruder.answer or 'was not refused'}")


MOMENTS: dict[str, Callable[[Simulation, list[str]], Awaitable[None]]] = {
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
