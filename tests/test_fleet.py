"""The simulated fleet: it reproduces what was measured, keeps its laws, and finds the smallest fleet."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from bench import fleet
from bench.commits import MESSAGE, Fleet, Frames, Outcome, Simulation
from tests.rows import together

TABLE = fleet.read()
STEADY = ("spread=0", "burst=1")  # as the bench's sites: each writes ten lines each second
BY_DEFAULT = ("server_us=106", "server_s_gb=18")  # sync_interval as a nats-server has it
SLOW = ("server_us=30000", "shard_us=8000", "receiver_us=8000", "run_sites=1")  # few sites load several machines


def simulated(numbers: Fleet, sites: int, *settings: str, pace: float | None, seconds: float = 20.0) -> Outcome:
    table = TABLE.replaced(settings)
    return Simulation(numbers, sites, table.values, table.frames, pace=pace).run(seconds, 10.0)


@cache
def answer(sites: int, *settings: str, seed: int = 1) -> fleet.Answer:
    return fleet.answer(sites, TABLE.replaced(settings), seed, observed=1500)


def test_a_receiver_of_500_sites_takes_the_cpu_that_was_measured_at_the_pace_that_it_asks_for() -> None:
    one = simulated(Fleet(3, 4, 1), 500, *STEADY, "receiver_us=250", pace=None)
    assert one.receiver_cores == pytest.approx(0.63, rel=0.2)


@pytest.mark.parametrize(("pace", "receivers", "servers"), [(1.0, 48, 11), (4.0, 12, 3)])
def test_100000_sites_take_the_cores_that_were_estimated_from_measurements(
    pace: float, receivers: float, servers: float
) -> None:
    share = 50  # of the sites are simulated
    seen = simulated(Fleet(3, 4, 4), 100_000 // share, *STEADY, *BY_DEFAULT, pace=pace)
    assert seen.receiver_cores * share == pytest.approx(receivers, rel=0.1)
    assert seen.server_cores * share == pytest.approx(servers, rel=0.2)


def test_a_shard_of_64_full_logs_commits_as_many_messages_as_were_measured() -> None:
    settings = ("line=20", "lines=1000000", "sync_ms=0", "hop_ms=0.01", "server_s_gb=0", "receiver_us=1")
    seen = simulated(Fleet(3, 1, 1), 64, *STEADY, *settings, pace=0.0, seconds=1.0)
    assert seen.commits / seen.seconds == pytest.approx(5889, rel=0.05)


def test_the_disk_and_the_puts_of_a_day_are_those_that_were_estimated() -> None:
    few = answer(2000)
    assert few.raw * 50 / 1e12 == pytest.approx(8.64, rel=0.05)
    assert few.stored * 3 * 50 / 1e12 == pytest.approx(4.9, rel=0.2)
    assert few.puts * 50 == pytest.approx(325_000, rel=0.25)


def test_commits_are_on_time_again_soon_after_the_stall_of_a_dead_leader() -> None:
    assert 0 <= answer(1000).death.late_until - TABLE.values["stall_s"] < 1
    assert answer(1000).death.latency(1.0) > TABLE.values["stall_s"] / 2  # some sites were due soon after the death


@pytest.mark.soak
def test_more_sites_are_never_cheaper_and_never_take_fewer_machines() -> None:
    found = [answer(sites, *SLOW) for sites in (50, 200, 500, 1000, 2000)]
    for less, more in pairwise(found):
        assert more.fleet.servers >= less.fleet.servers
        assert more.fleet.shards >= less.fleet.shards
        assert more.fleet.receivers >= less.fleet.receivers
        assert more.raw > less.raw
        assert more.puts >= less.puts
        assert all(more.dollars[name] >= less.dollars[name] for name in less.dollars)
    assert found[-1].fleet.servers > found[0].fleet.servers


@pytest.mark.soak
@together(
    "setting",
    [
        ("server_us=60000",),
        ("shard_us=16000",),
        ("receiver_us=16000",),
        ("pace_s=2",),
        ("full=0.5",),
        ("nic_gbit=0.001",),
    ],
)
def test_a_dearer_message_or_a_stricter_bound_never_takes_fewer_machines(setting: tuple[str, ...]) -> None:
    before, after = answer(1000, *SLOW), answer(1000, *SLOW, *setting)
    assert after.fleet.servers >= before.fleet.servers
    assert after.fleet.shards >= before.fleet.shards
    assert after.fleet.receivers >= before.fleet.receivers
    assert after.fleet != before.fleet


def test_the_load_fits_while_a_server_and_a_receiver_are_down() -> None:
    found, figures = answer(2000, *SLOW), TABLE.values
    assert found.down.receiver_cores <= figures["full"] * (found.fleet.receivers - 1)
    assert found.down.server_cores <= figures["full"] * (found.fleet.servers - 1) * figures["server_cores"]
    whole = fleet.simulation(found.fleet, 2000, TABLE.replaced(SLOW), 1).run(found.down.seconds, 4.0)
    assert whole.receiver_share < found.down.receiver_share
    assert whole.server_cores > found.down.server_cores  # the dead server's replicas take no CPU


def test_without_any_machine_or_shard_the_fleet_is_too_small() -> None:
    found = answer(2000, *SLOW)
    table = TABLE.replaced(SLOW)
    assert fleet.enlarged(found.fleet, found.down, table.values) is found.fleet
    for name in ("servers", "shards", "receivers"):
        smaller = replace(found.fleet, **{name: getattr(found.fleet, name) - 1})
        assert smaller.shards >= smaller.servers, "this load asks for more shards than servers"
        seen = fleet.simulation(smaller, 2000, table, 1).run(found.down.seconds, 4.0, dies=0.0, spare=True)
        assert fleet.enlarged(smaller, seen, table.values) != smaller, name


def test_the_same_seed_gives_the_same_answer_and_another_seed_other_latencies() -> None:
    again = fleet.answer(1000, TABLE, observed=1500)
    assert again == answer(1000)
    assert answer(1000, seed=2).down.latencies != again.down.latencies


def test_an_archive_is_cheaper_than_disks_for_a_month() -> None:
    assert answer(2000).dollars["total"] < answer(2000).dollars["total without an archive"]


@together(("replicas", "hops"), [(1, 2), (3, 4), (5, 4)])
def test_a_commit_waits_for_a_majority_of_the_replicas(replicas: int, hops: int) -> None:
    settings = (f"replicas={replicas}", "hop_ms=50", "sync_ms=0", "run_sites=1")
    seen = simulated(Fleet(5, 5, 2), 50, *settings, pace=4.0)
    assert seen.latency(0.5) == pytest.approx(hops * 0.05, abs=0.01)


def test_each_commit_has_all_bytes_that_a_site_wrote() -> None:
    seen = simulated(Fleet(3, 3, 2), 200, *STEADY, pace=4.0, seconds=200.0)
    assert seen.raw / seen.seconds == pytest.approx(200 * 10 * 100, rel=0.02)


@together(("raw", "length"), [(50, 50), (100, 100), (1000, 300), (MESSAGE, MESSAGE / 6), (2 * MESSAGE, MESSAGE / 3)])
def test_a_frame_is_as_long_as_the_measured_ones_beside_it(raw: float, length: float) -> None:
    frames = Frames([(100, 1.0), (1000, 10 / 3), (MESSAGE, 6.0)])
    assert frames.length(raw) == pytest.approx(length)
    between = frames.length(math.sqrt(100 * 1000))
    assert 100 < between < 300


@together(
    ("arguments", "sentence"),
    [
        (["--sites", "0"], "--sites must be from 1 to 1,000,000"),
        (["--set", "lions=3"], "--set lions=3: there is no figure 'lions'; --table lists them"),
        (["--set", "lines=many"], "--set lines=many: lines must be a number, and 'many' is none"),
        (["--set", "lines=nan"], "lines must be a number from"),
        (["--set", "line"], "line must be a number, and '' is none"),
        (["--set", "replicas=2"], "replicas must be an odd number from 1 to 5"),
        (["--set", "server_cores=1.5"], "server_cores must be a whole number from 1"),
        (["--set", "full=1.2"], "full must be a number from 0.05 to 1"),
        (["--costs", "nowhere.json"], "nowhere.json cannot be read: No such file or directory"),
        (["--sites", "100", "--set", "bound_ms=1"], "found no fleet that commits within bound_ms=1: 3 nats-"),
    ],
)
def test_wrong_usage_ends_with_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        fleet.main(arguments)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@together(
    ("change", "sentence"),
    [
        ({"prices": {}}, "lacks the figure archive"),
        ({"prices": None}, "is no table like bench/fleet_costs.json"),
        ({"frames": {"of": []}}, "frames must be pairs above 0, the shortest first"),
        ({"frames": {"of": [[200, 2], [100, 1]]}}, "frames must be pairs above 0, the shortest first"),
    ],
)
def test_a_table_that_lacks_something_is_refused(
    change: dict[str, object], sentence: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path: Path = tmp_path_factory.mktemp("costs") / "costs.json"
    path.write_text(json.dumps(json.loads(fleet.COSTS.read_text()) | change))
    with pytest.raises(fleet.BadFigure, match=sentence):
        fleet.read(path)


def test_each_figure_has_a_unit_a_text_and_a_source_and_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert fleet.main(["--table", "--set", "lines=20"]) == 0
    printed = capsys.readouterr().out
    code = "".join(path.read_text() for path in fleet.COSTS.parent.glob("*.py") if path.stem in ("fleet", "commits"))
    for kind, name, _, text, source in TABLE.rows:
        assert text, name
        assert source or kind == "assumptions", name
        assert f'["{name}"]' in code or f'"{name}")' in code, f"{name} is not used"
        assert f"| {name} |" in printed
    assert "| lines | 20 | lines/s | mean of all sites | --set |" in printed


def test_the_page_has_the_figures_that_the_simulation_uses() -> None:
    _, shown, _ = (fleet.COSTS.parent.parent / "docs" / "scale.md").read_text().split("<!-- figures -->\n")
    assert shown == f"{TABLE}\n", "print them with: python -m bench.fleet --table"
