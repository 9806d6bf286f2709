"""The manifests of ``deploy`` without a cluster: their commands are ones that this flarelog takes.

``integration/kubernetes/test_deploy.py`` runs them on a real node, and compares those of kustomize with the chart.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from flarelog.cli import main
from flarelog.version import __version__

DEPLOY = Path(__file__).parent.parent / "deploy"
MANIFESTS = sorted(DEPLOY.glob("kustomize/*/*.yaml"))


def commands(text: str) -> list[list[str]]:
    """The arguments of each container of flarelog's image that has some."""
    blocks = re.findall(r"^ +args:\n((?: +- .*\n)+)", text, re.MULTILINE)
    return [[each.strip().removeprefix("- ").strip("'\"") for each in block.splitlines()] for block in blocks]


@pytest.mark.parametrize("path", [path for path in MANIFESTS if commands(path.read_text())], ids=str)
def test_the_command_of_a_manifest_is_one_that_flarelog_takes(path: Path) -> None:
    for name, *args in commands(path.read_text()):
        with click.Context(main) as context:
            command = main.get_command(context, name)
        assert command is not None, name
        command.make_parser(click.Context(command)).parse_args(args)


def test_manifests_chart_and_image_are_of_this_version() -> None:
    chart = (DEPLOY / "chart" / "Chart.yaml").read_text()
    assert re.findall(r"^(?:version|appVersion): (.*)$", chart, re.MULTILINE) == [__version__] * 2
    images = [each for path in MANIFESTS for each in re.findall(r'image: "?(flarelog:[\w.]+)', path.read_text())]
    assert set(images) == {f"flarelog:{__version__}"}
    assert len(images) == 6
