"""Sites in three zones: lines of one moment are shown together, and a requested time holds for all."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from integration.harness.places import RUN, Place, content, until

ZONES = {"kyoto": "Asia/Tokyo", "lyon": "Europe/Paris", "ohio": "America/New_York"}
RULES = {"kyoto": "JST-9", "lyon": "CET-1CEST,M3.5.0,M10.5.0/3", "ohio": "EST5EDT,M3.2.0,M11.1.0"}
AGES = (7200, 3600, 600, 300, 30)  # seconds before now at which each site writes


def said(now: datetime, site: str, age: int) -> str:
    moment = now - timedelta(seconds=age)
    shown = moment.astimezone(ZoneInfo(ZONES[site]))
    level = "ERROR" if (site, age) == ("ohio", 3600) or (age == 600 and site != "ohio") else "INFO"
    return f"{shown:%Y-%m-%d %H:%M:%S},{100 * (1 + [*ZONES][::-1].index(site))} - {level} - {site} was {age} s before"


def shows(place: Place, *args: str) -> str:
    program = place.start(*args)
    assert program.ends() == 0, program.talk()
    return program.printed


@pytest.mark.parametrize("variables", [ZONES, pytest.param(RULES, marks=pytest.mark.soak)], ids=["names", "rules"])
def test_three_sites_in_three_zones(place: Place, variables: dict[str, str]) -> None:
    receiver = place.serve()
    now = datetime.now(UTC)
    for site, zone in variables.items():
        root = place.directory / site
        root.mkdir()
        (root / "log.txt").write_text("".join(f"{said(now, site, age)}\n" for age in AGES))
        sidecar = place.start(
            *("sidecar", "--receiver", receiver.address, "--run", RUN, "--site", site, "--root", str(root), "--once"),
            TZ=zone,
        )
        assert sidecar.ends() == 0, sidecar.talk()
    shown: dict[tuple[str, ...], Callable[[int], bool]] = {
        (): lambda age: True,
        ("--since", "30m"): lambda age: age < 1800,
        ("--until", "30m"): lambda age: age > 1800,
    }
    for source in (("--receiver", receiver.address), ("--store", str(receiver.store))):
        for chosen, wanted in shown.items():
            found = shows(place, "logs", RUN, *source, *chosen, "--order", "time", "-o", "json", "--notes", "off")
            lines = [json.loads(line) for line in found.splitlines()]
            by_time = [(site, age) for age in AGES if wanted(age) for site in ("ohio", "lyon", "kyoto")]
            assert [(line["site"], int(line["body"].split()[-3])) for line in lines] == by_time
            for line, (_, age) in zip(lines, by_time, strict=True):
                assert abs(datetime.fromisoformat(line["timestamp"]) - now).total_seconds() == pytest.approx(age, abs=1)
        first = shows(place, "follow", RUN, *source, "--first-error", "-C", "0")
        assert "ohio was 3600 s before" in first
        # The reader's zone overrides the sidecar's.
        said_zone = shows(
            place, "logs", RUN, *source, "--site", "kyoto", "--zone", "kyoto=UTC", "-o", "json", "--notes", "off"
        )
        told = datetime.fromisoformat(json.loads(said_zone.splitlines()[0])["timestamp"])
        assert (told - now).total_seconds() == pytest.approx(9 * 3600 - AGES[0], abs=1)


@pytest.mark.soak
def test_what_tells_no_time_goes_by_its_arrival(place: Place) -> None:
    receiver = place.serve()
    root = place.directory / "plain"
    root.mkdir()
    (root / "log.txt").write_text("early\n")
    sidecar = place.start(
        *("sidecar", "--receiver", receiver.address, "--run", RUN, "--site", "lyon", "--root", str(root))
    )
    stored = receiver.store / RUN / "lyon" / "log.txt"
    until(lambda: content(stored) == b"early\n", "the first line is stored")
    time.sleep(1.1)  # the requested time lies between the two lines
    between = datetime.now(UTC)
    time.sleep(0.2)
    with open(root / "log.txt", "a") as log:
        log.write("late\n")
    until(lambda: stored.read_bytes() == b"early\nlate\n", "the second line is stored")
    for source in (("--receiver", receiver.address), ("--store", str(receiver.store))):
        for option, wanted in (("--since", "late\n"), ("--until", "early\n")):
            asked = (option, between.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            assert shows(place, "logs", RUN, *source, *asked, "--notes", "off", "--prefix", "off") == wanted
    assert sidecar.stop() == 0
