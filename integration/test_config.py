"""A receiver, a sidecar and a reader with their options in one file."""

from __future__ import annotations

import os
import re
import signal

from integration.harness.places import RUN, SITE, Place, until


def test_a_run_whose_processes_have_their_options_from_one_file(place: Place) -> None:
    file, ready = place.directory / "flarelog.toml", place.directory / "ready"

    def write(receiver: str) -> None:
        file.write_text(
            f"""
            [serve]
            store = "kept"
            listen = "127.0.0.1:0"
            workers = 2
            ready-file = "{ready}"

            [sidecar]
            receiver = "{receiver}"
            site = "{SITE}"
            root = "{place.root}"
            include = ["*.log"]
            once = true

            [streams]
            store = "kept"
            """
        )

    write("127.0.0.1:1")
    receiver = place.start("serve", FLARELOG_CONFIG=str(file))
    until(ready.exists, lambda: receiver.talk())
    write(ready.read_text().strip())
    place.log.write_bytes(b"one\n")
    (place.root / "other.txt").write_bytes(b"two\n")
    sidecar = place.call("sidecar", "--run", RUN, "--config", str(file))
    assert sidecar.ends() == 0, sidecar.talk()
    held = place.call("streams", "--config", str(file))
    assert re.findall(r"\S+\.(?:log|txt)", held.printed) == [place.log.name]
    assert place.call("config", "check", str(file)).printed == f"{file}: 10 options, no faults\n"
    receiver.tell(signal.SIGTERM)
    assert receiver.ends() == 0


def test_a_file_that_is_wrong_starts_nothing(place: Place) -> None:
    file = place.directory / "flarelog.toml"
    file.write_text('[serve]\nstore = "kept"\nlisen = "127.0.0.1:0"\n')
    receiver = place.call("serve", "--config", str(file))
    assert receiver.ends() == 78
    assert receiver.sentence() == (
        f"flarelog: {file}, line 3: flarelog serve has no option 'lisen': did you mean listen?"
    )
    assert not os.path.exists(place.directory / "kept")
