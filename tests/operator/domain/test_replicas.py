from __future__ import annotations

import pytest

from paceline_operator.domain.replicas import initial
from tests.support.fleet import spec


@pytest.mark.parametrize(
    ("written", "replicas"),
    [
        ({}, 1),
        ({"replicas": 0}, 0),
        ({"replicas": 7}, 7),
        ({"scaling": {"mode": "Off", "minReplicas": 3}}, 1),
        ({"scaling": {"minReplicas": 2, "maxReplicas": 4}}, 2),
        ({"replicas": 9, "scaling": {"minReplicas": 2, "maxReplicas": 4}}, 4),
        ({"replicas": 1, "scaling": {"minReplicas": 2, "maxReplicas": 4}}, 2),
    ],
)
def test_initial(written: dict[str, object], replicas: int) -> None:
    assert initial(spec(**written)) == replicas
