"""Copies that people keep: the README's manifest, and the versions the chart names."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from tests.verify.check import Check, difference

SAMPLE = "manifests/samples/minimal.yaml"


def checks(root: Path) -> list[Check]:
    """README and chart."""
    return [
        Check(
            f"{SAMPLE} is the manifest of README.md",
            lambda: readme_differs(root),
            f"copy the one that is right over the other: README.md, {SAMPLE}",
        ),
        Check(
            "the chart names the members' versions",
            lambda: versions_differ(root),
            "change charts/paceline/Chart.yaml and values.yaml with the members' pyproject.toml",
        ),
    ]


def readme_differs(root: Path) -> list[str]:
    """Differences between the first manifest of README.md and the sample."""
    block = re.search(r"```yaml\n(.*?)```", (root / "README.md").read_text(), re.S)
    if block is None:
        return ["README.md holds no manifest"]
    return difference(SAMPLE, (root / SAMPLE).read_text(), block[1])


def versions_differ(root: Path) -> list[str]:
    """Where the chart does not carry the version of what it installs."""
    chart = _yaml(root / "charts/paceline/Chart.yaml")
    values = _yaml(root / "charts/paceline/values.yaml")
    operator, engine = _version(root / "operator"), _version(root / "engine")
    wanted = {
        "Chart.yaml version": (chart["version"], operator),
        "Chart.yaml appVersion": (chart["appVersion"], operator),
        "values.yaml image": (values["image"], f"paceline-operator:{operator}"),
        "values.yaml engine.image": (values["engine"]["image"], f"paceline-engine:{engine}"),
    }
    return [f"{name} is {is_}, not {be}" for name, (is_, be) in wanted.items() if is_ != be]


def _yaml(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def _version(member: Path) -> str:
    return str(tomllib.loads((member / "pyproject.toml").read_text())["project"]["version"])
