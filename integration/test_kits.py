"""NVFlare's start-up kits, unchanged: the server's runs a receiver, the sites' push, the admin's read by a grant.

The tests make kits of the same shape. FLARELOG_NVFLARE=PATH names an ``nvflare`` command (``pip install nvflare`` in an
environment of its own, because it is large); its own kits are then tried as well, and compared.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from flarelog.security.tls import Tls
from integration.harness.places import LOG, Place, append, lines, new_place
from tests.certificates import kit, nvflare_kits

NVFLARE = os.environ.get("FLARELOG_NVFLARE", "")
POLICY = """
defaults = true
[[grant]]
nvflare_role = ["project_admin", "lead"]
role = "reader"
runs = "granted-*"
"""
HOSTS, SITES, ADMIN = ("localhost", "127.0.0.1"), ("site-1", "site-2"), "admin@nvidia.com"
SERVER = "localhost"
PROJECT = f"""
api_version: 3
name: federation
description: kits for flarelog
participants:
  - {{name: {SERVER}, type: server, org: nvidia, fed_learn_port: 8002, admin_port: 8003,
     default_host: {HOSTS[0]}, host_names: [{", ".join(HOSTS)}]}}
  - {{name: site-1, type: client, org: nvidia}}
  - {{name: site-2, type: client, org: nvidia}}
  - {{name: {ADMIN}, type: admin, org: nvidia, role: project_admin}}
builders:
  - {{path: nvflare.lighter.impl.workspace.WorkspaceBuilder}}
  - {{path: nvflare.lighter.impl.static_file.StaticFileBuilder, args: {{config_folder: config, scheme: grpc}}}}
  - {{path: nvflare.lighter.impl.cert.CertBuilder}}
  - {{path: nvflare.lighter.impl.signature.SignatureBuilder}}
"""


def provisioned(directory: Path) -> Path:
    """Kits that NVFlare itself has made."""
    (directory / "project.yml").write_text(PROJECT)
    command = (NVFLARE, "provision", "-p", "project.yml", "-w", "workspace")
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "workspace" / "federation" / "prod_00"


def made(directory: Path) -> Path:
    return nvflare_kits(directory / "kits", SERVER, HOSTS, SITES, ADMIN)


REAL = pytest.param(
    provisioned,
    id="nvflare",
    marks=pytest.mark.skipif(not NVFLARE, reason="name an nvflare command: FLARELOG_NVFLARE=PATH"),
)


class Federation:
    """A receiver with the server's kit."""

    def __init__(self, place: Place, kits: Path) -> None:
        self.place, self.kits = place, kits
        policy = place.directory / "policy.toml"
        policy.write_text(POLICY)
        self.receiver = place.serve(*self.files(SERVER), "--policy", str(policy))
        self.data = append(place.log, lines(100))

    def files(self, name: str) -> tuple[str, ...]:
        return kit(self.kits, name).arguments()

    def address(self, host: str) -> str:
        return f"{host}:{self.receiver.address.rpartition(':')[2]}"


@pytest.fixture(scope="module", params=[pytest.param(made, id="same-shape"), REAL])
def federation(request: pytest.FixtureRequest) -> Iterator[Federation]:
    with new_place() as place:
        yield Federation(place, request.param(place.directory))


@pytest.mark.parametrize(("site", "host"), [("site-1", "localhost"), ("site-2", "127.0.0.1")])
def test_a_site_s_kit_pushes_by_every_name_that_the_server_s_kit_is_for(
    federation: Federation, site: str, host: str
) -> None:
    program = federation.place.once(federation.address(host), "--site", site, *federation.files(site))
    assert program.ends() == 0, program.talk()
    assert federation.receiver.stored(LOG, site) == federation.data


def test_the_admin_s_kit_reads_what_the_policy_grants_and_pushes_nothing(federation: Federation) -> None:
    """This receiver does not know which jobs NVFlare shows the admin."""
    place, address, admin = federation.place, federation.address("localhost"), federation.files(ADMIN)
    for run in ("run-2", "granted-2"):
        site = place.once(address, "--run", run, *federation.files("site-1"))
        assert site.ends() == 0, site.talk()
    assert "site-1/app.log" in place.streams("--receiver", address, *admin, run="granted-2")
    refused = place.call("streams", "run-2", "--receiver", address, *admin)
    assert refused.ends() == 5
    assert "its role reader covers the runs granted-*" in refused.sentence()
    program = place.once(address, "--run", "granted-2", "--site", "admin", *admin)
    assert program.ends() != 0
    assert f"certificate '{ADMIN}' is not a site" in program.sentence()


def test_a_site_s_kit_reads_nothing_of_another_and_pushes_as_no_other(federation: Federation) -> None:
    address = federation.address("localhost")
    program = federation.place.once(address, "--site", "site-2", "--run", "run-3", *federation.files("site-1"))
    assert program.ends() == 5, program.talk()
    assert "certificate 'site-1' is of site site-1, but the call asks for site 'site-2'" in program.sentence()
    assert not (federation.receiver.store / "run-3").exists()


def test_a_server_s_kit_that_is_for_another_name_is_not_believed(place: Place) -> None:
    """Without host_names the kit is valid only for the server's name in the project file."""
    kits = nvflare_kits(place.directory / "kits", "logs.example.org", (), SITES, ADMIN)
    receiver = place.serve(*kit(kits, "logs.example.org").arguments())
    sidecar = place.sidecar(receiver, *kit(kits, "site-1").arguments())
    sidecar.says("its certificate is only for logs.example.org, and not for 127.0.0.1: connect to a name that it has")


def shape(tls: Tls) -> list[object]:
    """The content of the CA's and of the own certificate except keys and dates, and the format of the key."""
    found: list[object] = [Path(tls.key).read_text().splitlines()[0]]
    for path in (tls.ca, tls.cert):
        one = x509.load_pem_x509_certificate(Path(path).read_bytes())
        found += [
            one.subject,
            one.issuer,
            one.signature_algorithm_oid,
            one.not_valid_after_utc - one.not_valid_before_utc,
        ]
        for extension in one.extensions:
            keys = isinstance(extension.value, x509.SubjectKeyIdentifier | x509.AuthorityKeyIdentifier)
            found.append((extension.oid, extension.critical, None if keys else extension.value))
    return found


@pytest.mark.skipif(not NVFLARE, reason="name an nvflare command: FLARELOG_NVFLARE=PATH")
def test_the_kits_that_are_made_here_are_as_nvflare_makes_them(tmp_path: Path) -> None:
    theirs, ours = provisioned(tmp_path), made(tmp_path)
    for name in (SERVER, *SITES, ADMIN):
        assert shape(kit(ours, name)) == shape(kit(theirs, name))
