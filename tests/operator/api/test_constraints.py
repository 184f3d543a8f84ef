"""Every constraint on a real API server: a manifest it accepts and one it rejects.

`manifests/reject/NAME.yaml` breaks one constraint, says in its first line what the server
must answer, and has a neighbour `manifests/accept/NAME.yaml` just inside the limit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline_operator.api.crd import object_schema
from paceline_operator.api.rule import VALIDATIONS
from paceline_operator.api.schema import walk
from tests.support.fleet_api import FleetApi

MANIFESTS = Path(__file__).parent / "manifests"
ACCEPT = sorted((MANIFESTS / "accept").glob("*.yaml"))
REJECT = sorted((MANIFESTS / "reject").glob("*.yaml"))
MARK = "# expected: "


def expected(path: Path) -> str:
    first = path.read_text().splitlines()[0]
    assert first.startswith(MARK), f"{path.name} does not say what the server must answer"
    return first.removeprefix(MARK)


@pytest.mark.apiserver
@pytest.mark.parametrize("path", ACCEPT, ids=lambda path: path.stem)
def test_accepts(fleets: FleetApi, path: Path) -> None:
    reply = fleets.validate(yaml.safe_load(path.read_text()))
    assert reply.status == 201, reply.message


@pytest.mark.apiserver
@pytest.mark.parametrize("path", REJECT, ids=lambda path: path.stem)
def test_rejects(fleets: FleetApi, path: Path) -> None:
    reply = fleets.validate(yaml.safe_load(path.read_text()))
    assert reply.status in (400, 422)
    assert expected(path) in reply.message


def test_every_reject_has_its_accepted_neighbour() -> None:
    assert {path.stem for path in REJECT} <= {path.stem for path in ACCEPT}


def test_every_rule_has_a_reject() -> None:
    messages: list[str] = []

    def collect(_path: str, node: dict[str, Any]) -> None:
        messages.extend(rule["message"] for rule in node.get(VALIDATIONS, []))

    walk(object_schema(), collect)
    stated = [expected(path) for path in REJECT]
    untested = [m for m in messages if not any(m.startswith(text) for text in stated)]
    assert len(messages) > 15
    assert untested == []
