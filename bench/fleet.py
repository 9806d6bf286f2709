"""``python -m bench.fleet``: the smallest fleet for so many sites on a store in NATS JetStream, and its cost.

Its simulation (commits.py) has measured costs: of a message, a byte, a subject. They are in ``fleet_costs.json`` with
the place of each measurement, beside the assumptions and the prices: ``--table`` prints them, ``--set NAME=VALUE``
replaces one, ``--costs FILE`` replaces all.

- A fleet is large enough if, while one nats-server and one receiver are down, the p99 of a commit stays below the
  bound, and no core, shard, network or disk is busier or fuller than it should be.
- The search begins with the load of a few sites, simulates, and enlarges what was too small until nothing is.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.commits import Fleet, Frames, Outcome, Simulation, sites_of

COSTS = Path(__file__).with_name("fleet_costs.json")
KINDS = ("costs", "assumptions", "prices")
SITES = (1000, 10_000, 100_000)
DAY, MONTH = 86_400, 30.4  # seconds; days
_PROBED = 500  # sites whose load the search begins with
OBSERVED = 20_000  # commits that a p99 is taken of, at least
_TRIES = 20  # fleets
_WATCHED = 120.0  # seconds after a death, at most
_MOST = 1_000_000  # sites: the simulation of more takes many minutes
_RANGES = {  # least and most of a figure; the others are above 0, and a price may be 0
    **dict.fromkeys(("spread", "header", "hop_ms", "sync_ms", "floor_ms", "stall_s"), (0, 1e6)),
    **dict.fromkeys(("receiver_s_gb", "server_s_gb"), (0, 1e6)),
    **dict.fromkeys(("burst", "run_sites", "server_cores"), (1, 1e4)),
    "leads": (0, 1),
    "full": (0.05, 1),
    "replicas": (1, 5),
    "pace_s": (0.01, 600),
}
_WHOLE = ("run_sites", "server_cores", "replicas")


class BadFigure(ValueError):
    """A sentence: which figure is wrong, and what it may be."""


@dataclass(frozen=True, slots=True)
class Table:
    """The costs, assumptions and prices, and what frames save."""

    values: Mapping[str, float]
    frames: Frames
    rows: Sequence[tuple[str, str, str, str, str]]  # (kind, name, unit, text, source)

    def replaced(self, settings: Sequence[str]) -> Table:
        """The table with each ``NAME=VALUE`` of *settings*. Raises BadFigure."""
        values, rows = dict(self.values), []
        for setting in settings:
            name, _, value = setting.partition("=")
            if name not in values:
                raise BadFigure(f"--set {setting}: there is no figure {name!r}; --table lists them")
            values[name] = _checked(f"--set {setting}", name, value)
        for kind, name, unit, text, source in self.rows:
            rows.append((kind, name, unit, text, source if values[name] == self.values[name] else "--set"))
        return replace(self, values=values, rows=rows)

    def __str__(self) -> str:
        lines = []
        for kind in KINDS:
            lines += [f"| {kind} | | unit | what | from |", "|---|---|---|---|---|"]
            for of, name, unit, text, source in self.rows:
                if of == kind:
                    lines.append(f"| {name} | {self.values[name]:g} | {unit} | {text} | {source} |")
            lines.append("")
        saved = ", ".join(f"{length:,.0f} bytes {times:g}" for length, times in self.frames.points)
        return "\n".join([*lines, f"Times smaller as a frame: {saved}."])


def read(path: Path = COSTS) -> Table:
    """Read a file as fleet_costs.json. Raises BadFigure."""
    try:
        data = json.loads(path.read_text())
        rows = [(kind, name, *map(str, row[1:4])) for kind in KINDS for name, row in data[kind].items()]
        given = {name: row[0] for kind in KINDS for name, row in data[kind].items()}
        points = [(float(length), float(times)) for length, times in data["frames"]["of"]]
    except OSError as error:
        raise BadFigure(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFigure(f"{path} is no table like bench/{COSTS.name}: {error!r}") from error
    if path != COSTS and (missing := sorted(read().values.keys() - given.keys())):
        raise BadFigure(f"{path} lacks the figure {missing[0]}")
    if not points or points != sorted(points) or any(min(point) <= 0 for point in points):
        raise BadFigure(f"{path}: frames must be pairs above 0, the shortest first")
    values = {name: _checked(str(path), name, value) for name, value in given.items()}
    return Table(values, Frames(points), [(kind, name, *rest) for kind, name, *rest in rows])


def _checked(where: str, name: str, value: object) -> float:
    """The number *value*. Raises BadFigure if the figure *name* may not be that."""
    try:
        number = float(str(value))
    except ValueError:
        raise BadFigure(f"{where}: {name} must be a number, and {value!r} is none") from None
    least, most = _RANGES.get(name, (0 if name in _PRICES else 1e-9, 1e12))
    if not least <= number <= most or (name in _WHOLE and number % 1) or (name == "replicas" and number % 2 == 0):
        kind = "an odd number" if name == "replicas" else "a whole number" if name in _WHOLE else "a number"
        raise BadFigure(f"{where}: {name} must be {kind} from {least:g} to {most:g}")
    return number


_PRICES = frozenset(json.loads(COSTS.read_text())["prices"])


@dataclass(frozen=True, slots=True)
class Answer:
    """A fleet that is large enough for *sites*, and what it takes."""

    sites: int
    fleet: Fleet
    down: Outcome  # with a server and a receiver down
    death: Outcome  # a server dies in the middle
    raw: float  # bytes of logs in a day
    stored: float  # bytes in a day, of one replica
    puts: float  # of the archive, in a day
    servers_without_archive: int  # whose disks have all logs that are kept
    dollars: Mapping[str, float]  # a day, by what they are for; "total", "total without an archive"
    server_gib: float  # of memory, for the subjects
    receiver_gib: float  # for the open logs


def answer(sites: int, table: Table, seed: int = 1, observed: int = OBSERVED) -> Answer:
    """The smallest fleet for *sites* that the search finds. Raises BadFigure if it finds none."""
    figures = table.values
    fleet, down = _smallest(sites, table, seed, observed)
    pace = figures["pace_s"]
    death = simulation(fleet, sites, table, seed).run(_WATCHED, pace, dies=pace, stall=figures["stall_s"])
    rates = [site.rate / figures["burst"] for site in sites_of(sites, figures, seed)]
    raw = sum(rates) * DAY
    saved = down.stored / down.raw  # headers included
    return _priced(sites, fleet, down, death, raw, raw * saved, [rate * DAY * saved for rate in rates], figures)


def _priced(
    sites: int,
    fleet: Fleet,
    down: Outcome,
    death: Outcome,
    raw: float,
    stored: float,
    each: Sequence[float],
    figures: Mapping[str, float],
) -> Answer:
    """*each*: the stored bytes of each site in a day."""
    replicas, logs = figures["replicas"], figures["logs_a_day"]
    puts = sum(logs * max(1, math.ceil(size / logs / figures["archived_mb"] / 1e6)) for size in each)
    hot, kept = figures["hot_days"], figures["kept_days"]
    crossing = stored * (replicas - 1 / replicas) if replicas > 1 else 0.0  # to the leader and from it, over 3 zones

    def disk(days: float) -> float:
        return stored * replicas * days / figures["full"] / 1e9 * figures["disk"] / MONTH

    def machines(servers: int) -> float:
        return servers * 24 * figures["server"]

    whole = max(fleet.servers, _disks(stored, kept, figures))
    dollars = {
        "servers": machines(fleet.servers),
        "receivers": fleet.receivers * 24 * figures["receiver"],
        "disks": disk(hot),
        "network between zones": crossing / 1e9 * figures["crossing"],
        "archive: PUTs": puts / 1000 * figures["put"],
        "archive: bytes": stored * kept / 1e9 * figures["archive"] / MONTH,
    }
    total = sum(dollars.values())
    archive = dollars["archive: PUTs"] + dollars["archive: bytes"]
    without = total - archive + disk(kept) - disk(hot) + machines(whole) - machines(fleet.servers)
    dollars |= {"total": total, "total without an archive": without}
    subjects = sites * logs * (hot + 1) * min(1.0, replicas / fleet.servers)
    server_gib = subjects * figures["subject_kib"] / (1 << 20)
    receiver_gib = sites / max(1, fleet.receivers - 1) * figures["stream_kib"] / (1 << 20)
    return Answer(sites, fleet, down, death, raw, stored, puts, whole, dollars, server_gib, receiver_gib)


def _disks(stored: float, days: float, figures: Mapping[str, float]) -> int:
    """Servers whose disks hold *days* days of *stored* bytes a day, with one server down."""
    need = stored * days * figures["replicas"] / (figures["disk_tb"] * 1e12 * figures["full"])
    return max(int(figures["replicas"]), math.ceil(need))


def simulation(fleet: Fleet, sites: int, table: Table, seed: int) -> Simulation:
    return Simulation(fleet, sites, table.values, table.frames, pace=table.values["pace_s"], seed=seed)


def _smallest(sites: int, table: Table, seed: int, observed: int) -> tuple[Fleet, Outcome]:
    """The fleet, and what was seen of it with a server and a receiver down."""
    figures = table.values
    full, pace, cores = figures["full"], figures["pace_s"], figures["server_cores"]
    alone = replace(table, values={**figures, "run_sites": 1})  # a few runs would be a matter of luck
    probe = simulation(Fleet(9, 9, 9), _PROBED, alone, seed).run(60.0, pace)
    times = sites / _PROBED * 0.9  # rather too little: the search only enlarges
    least = max(3, int(figures["replicas"])) if figures["replicas"] > 1 else 2
    disks = _disks(probe.stored / 60 * sites / _PROBED * DAY, figures["hot_days"], figures)
    servers = max(least, disks, math.ceil(probe.server_cores * times / cores / full) + 1)
    shards = max(servers, math.ceil(probe.commits / 60 * times * figures["shard_us"] * 1e-6 / full))
    fleet = Fleet(servers, shards, max(2, math.ceil(probe.receiver_cores * times / full) + 1))
    seconds = max(pace, observed / (probe.commits / 60 * sites / _PROBED + 1e-9))

    def seen(of: Fleet) -> Outcome:
        return simulation(of, sites, table, seed).run(seconds, pace, dies=0.0, spare=True)

    first, down = fleet, probe
    for _ in range(_TRIES if probe.latency(0.99) * 1e3 <= figures["bound_ms"] else 0):
        down = seen(fleet)
        larger = enlarged(fleet, down, figures)
        if larger is fleet:
            break
        fleet = larger
    if (p99 := down.latency(0.99) * 1e3) > figures["bound_ms"]:
        machines = f"{fleet.servers} nats-servers, {fleet.shards} shards and {fleet.receivers} receivers"
        raise BadFigure(
            f"found no fleet that commits within bound_ms={figures['bound_ms']:g}: {machines} take {p99:.3g}"
        )
    for name in ("servers", "receivers", "shards"):  # several were enlarged at once where one was enough
        while getattr(fleet, name) > getattr(first, name) and (name != "shards" or fleet.shards > fleet.servers):
            fewer = replace(fleet, **{name: getattr(fleet, name) - 1})
            then = seen(fewer)
            if enlarged(fewer, then, figures) is not fewer or then.latency(0.99) * 1e3 > figures["bound_ms"]:
                break
            fleet, down = fewer, then
    return fleet, down


def enlarged(fleet: Fleet, down: Outcome, figures: Mapping[str, float]) -> Fleet:
    """*fleet* with more of what was too small in *down*, or *fleet* itself: it is large enough, or more is no help."""
    full = figures["full"]
    network = down.server_rate * 8e-9 / figures["nic_gbit"]
    servers = _more(fleet.servers - 1, max(down.server_share, network) / full) + 1
    receivers = _more(fleet.receivers - 1, down.receiver_share / full) + 1
    shards = _more(fleet.shards, down.shard_share / full)
    if (servers, receivers, shards) == (fleet.servers, fleet.receivers, fleet.shards):
        longest = max(down.waits, key=lambda name: down.waits[name])
        if down.latency(0.99) * 1e3 <= figures["bound_ms"] or not down.waits[longest]:
            return fleet
        servers += (longest == "servers") * max(1, servers // 20)
        shards += (longest == "shards") * max(1, shards // 20)
        receivers += (longest == "receivers") * max(1, receivers // 20)
    larger = Fleet(servers, max(shards, servers), receivers)
    return fleet if larger == fleet else larger


def _more(number: int, times: float) -> int:
    return number if times <= 1 else max(number + 1, math.ceil(number * min(times, 2.0)))


def shown(answers: Sequence[Answer], figures: Mapping[str, float]) -> str:
    """A table with a column for each answer."""
    cores, replicas, kept = figures["server_cores"], figures["replicas"], figures["kept_days"]
    rows: list[tuple[str, list[str]]] = [
        ("sites", [f"{one.sites:,}" for one in answers]),
        (f"nats-servers of {cores:g} cores, one may be down", [f"{one.fleet.servers:,}" for one in answers]),
        ("shards", [f"{one.fleet.shards:,}" for one in answers]),
        ("receivers of one core, one may be down", [f"{one.fleet.receivers:,}" for one in answers]),
        ("with one of each down:", []),
        ("  commits a second", [_two(one.down.commits / one.down.seconds) for one in answers]),
        ("  p50 of a commit, ms", [_two(one.down.latency(0.5) * 1e3) for one in answers]),
        ("  p99 of a commit, ms", [_two(one.down.latency(0.99) * 1e3) for one in answers]),
        ("  busiest server, % of its cores", [f"{one.down.server_share:.0%}"[:-1] for one in answers]),
        ("  busiest receiver, % of its core", [f"{one.down.receiver_share:.0%}"[:-1] for one in answers]),
        ("after a leader's death, s until commits are on time", [_late(one.death) for one in answers]),
        ("logs a day, GB", [_two(one.raw / 1e9) for one in answers]),
        (f"disk for a day, {replicas:g} replicas, GB", [_two(one.stored * replicas / 1e9) for one in answers]),
        ("disks with an archive, GB", [_two(_held(one, figures, "hot_days")) for one in answers]),
        (f"disks without, {kept:g} days, GB", [_two(_held(one, figures, "kept_days")) for one in answers]),
        ("nats-servers without an archive, for their disks", [f"{one.servers_without_archive:,}" for one in answers]),
        ("writes of the busiest disk, MB/s", [_two(one.down.disk_rate * figures["written"] / 1e6) for one in answers]),
        ("network of the busiest server, Mbit/s", [_two(one.down.server_rate * 8e-6) for one in answers]),
        ("network of the busiest receiver, Mbit/s", [_two(one.down.receiver_rate * 8e-6) for one in answers]),
        ("memory for subjects, GiB a server", [_two(one.server_gib) for one in answers]),
        ("memory for open logs, GiB a receiver", [_two(one.receiver_gib) for one in answers]),
        ("PUTs of the archive a day", [_two(one.puts) for one in answers]),
        ("dollars a day:", []),
    ]
    rows += [(f"  {name}", [_two(one.dollars[name]) for one in answers]) for name in answers[0].dollars]
    name_width = max(len(name) for name, _ in rows)
    widths = [max(len(cells[at]) for _, cells in rows if cells) for at in range(len(answers))]
    return "\n".join(
        "  ".join(
            [name.ljust(name_width), *(cell.rjust(width) for cell, width in zip(cells, widths, strict=False))]
        ).rstrip()
        for name, cells in rows
    )


def _held(one: Answer, figures: Mapping[str, float], days: str) -> float:
    return one.stored * figures["replicas"] * figures[days] / 1e9


def _late(death: Outcome) -> str:
    return f"over {_WATCHED:g}" if death.seconds == _WATCHED else _two(death.late_until)


def _two(value: float) -> str:
    """*value* with two significant digits: a simulation of assumptions knows no more."""
    return f"{float(f'{value:.2g}'):,.10g}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet",
        description="The smallest fleet of nats-servers and receivers for so many sites, simulated, and its cost.",
        epilog="All figures may be replaced: --table prints them with their sources.",
    )
    parser.add_argument("--sites", type=int, action="append", metavar="N", help=f"repeatable; {SITES}, if not given")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="replace a figure; repeatable")
    parser.add_argument("--costs", type=Path, default=COSTS, metavar="FILE", help=f"a table like bench/{COSTS.name}")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers; the same seed, the same answer")
    parser.add_argument("--table", action="store_true", help="print the figures and their sources, and end")
    options = parser.parse_args(arguments)
    sites = options.sites or SITES
    if not all(1 <= number <= _MOST for number in sites):
        parser.error(f"--sites must be from 1 to {_MOST:,}; beyond that a run belongs to one of several clusters")
    try:
        table = read(options.costs).replaced(options.set)
        text = str(table) if options.table else shown([answer(one, table, options.seed) for one in sites], table.values)
    except BadFigure as error:
        parser.error(str(error))
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
