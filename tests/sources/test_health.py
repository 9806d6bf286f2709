"""A machine's health from files with the kernel's layout, for both versions of cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from flarelog.sources.health import collect, pressure

MEMINFO = "MemTotal:       1000 kB\nMemFree:        100 kB\nMemAvailable:    250 kB\nHugePages_Total:       0\n"
GIB = 1 << 30


class Machine:
    """A directory with the layout of a machine's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.says("proc/meminfo", MEMINFO)
        self.says("proc/loadavg", "7.25 6.00 5.00 3/700 12345\n")
        self.says("proc/uptime", "3600.55 7000.00\n")

    def says(self, path: str, text: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n" if not str(text).endswith("\n") else str(text))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_limit_the_figures_are_the_machine_s(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "0::/user.slice/session")
    machine.says("sys/fs/cgroup/user.slice/session/memory.max", "max")
    machine.says("sys/fs/cgroup/user.slice/session/memory.current", 5)
    machine.says("sys/fs/cgroup/user.slice/session/cpu.max", "max 100000")
    found = collect(str(machine.root), str(machine.root))
    assert (found.memory, found.memory_max) == (750 << 10, 1000 << 10)
    assert (found.load, found.uptime, found.cores, found.oom_kills) == (7.25, 3601, None, None)
    assert found.disk_size is not None
    assert found.disk_free is not None
    assert 0 < found.disk_free <= found.disk_size


def test_where_a_cgroup_limits_its_figures_count(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "0::/pod/container")
    at = "sys/fs/cgroup/pod/container"
    for name, said in {
        "memory.max": 8 * GIB,
        "memory.current": 3 * GIB,
        "memory.peak": 5 * GIB,
        "memory.events": "low 0\nhigh 4\nmax 7\noom 2\noom_kill 1\n",
        "cpu.max": "150000 100000",
        "cpu.stat": "usage_usec 99\nthrottled_usec 4500000\n",
        "memory.pressure": "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=9.00 avg60=0 total=0\n",
    }.items():
        machine.says(f"{at}/{name}", said)
    machine.says("proc/pressure/cpu", "some avg10=87.43 avg60=68.65 avg300=75.11 total=16189693403\n")
    found = collect(str(machine.root), str(machine.root))
    assert (found.memory, found.memory_max, found.memory_peak, found.oom_kills) == (3 * GIB, 8 * GIB, 5 * GIB, 1)
    assert (found.cores, found.throttled) == (1.5, 4500)
    assert (found.memory_pressure, found.cpu_pressure, found.io_pressure) == (12.5, 87.43, None)


def test_a_limit_may_be_that_of_a_cgroup_around_it(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "0::/pod/container")
    machine.says("sys/fs/cgroup/pod/container/memory.max", "max")
    machine.says("sys/fs/cgroup/pod/memory.max", 2 * GIB)
    machine.says("sys/fs/cgroup/pod/memory.current", GIB)
    found = collect(str(machine.root), str(machine.root))
    assert (found.memory, found.memory_max) == (GIB, 2 * GIB)


def test_in_a_container_the_mount_is_the_cgroup(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "0::/")
    machine.says("sys/fs/cgroup/memory.max", 2 * GIB)
    machine.says("sys/fs/cgroup/memory.current", GIB)
    assert collect(str(machine.root), str(machine.root)).memory == GIB


def test_cgroups_of_version_1_limit_as_well(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n")
    for name, said in {
        "memory/job/memory.limit_in_bytes": 4 * GIB,
        "memory/job/memory.usage_in_bytes": GIB,
        "memory/job/memory.max_usage_in_bytes": 2 * GIB,
        "memory/job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "cpu/job/cpu.cfs_quota_us": 200000,
        "cpu/job/cpu.cfs_period_us": 100000,
        "cpu/job/cpu.stat": "nr_periods 1\nthrottled_time 7000000\n",
    }.items():
        machine.says(f"sys/fs/cgroup/{name}", said)
    found = collect(str(machine.root), str(machine.root))
    assert (found.memory, found.memory_max, found.memory_peak, found.oom_kills) == (GIB, 4 * GIB, 2 * GIB, 3)
    assert (found.cores, found.throttled) == (2.0, 7)


def test_no_limit_of_version_1_is_a_number_that_no_machine_has(machine: Machine) -> None:
    machine.says("proc/self/cgroup", "4:memory:/\n")
    machine.says("sys/fs/cgroup/memory/memory.limit_in_bytes", 9223372036854771712)
    machine.says("sys/fs/cgroup/memory/memory.usage_in_bytes", 5)
    assert collect(str(machine.root), str(machine.root)).memory == 750 << 10


def test_what_nobody_can_see_is_absent(tmp_path: Path) -> None:
    found = collect(str(tmp_path / "none"), str(tmp_path))
    assert found == type(found)()


@pytest.mark.parametrize("text", ["", "full avg10=1.0\n", "some\n", "some avg10=x\n", "some avg10="])
def test_a_pressure_that_makes_no_sense_is_none(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        pressure(text)
