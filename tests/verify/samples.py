"""Samples as a real API server takes them: strict, so that no field is dropped in silence."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.support.fleet_api import fleet_api
from tests.verify.check import Check

FOLDER = "manifests/samples"


def checks(root: Path) -> list[Check]:
    """All samples in one check: one server serves them."""
    name = f"an API server accepts each of {FOLDER}"
    return [Check(name, lambda: refused(root / FOLDER), "correct the manifest named above")]


def refused(folder: Path) -> list[str]:
    """What the server says about each file it refuses."""
    files = sorted(folder.glob("*.yaml"))
    if not files:
        return [f"no samples in {folder}"]
    with fleet_api() as api:
        replies = {
            path.name: api.validate(document)
            for path in files
            for document in yaml.safe_load_all(path.read_text())
        }
    return [f"{name}: {reply.message}" for name, reply in replies.items() if reply.status != 201]
