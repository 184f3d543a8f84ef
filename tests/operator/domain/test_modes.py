from __future__ import annotations

import pytest

from paceline_operator.api.choice import Mode
from paceline_operator.domain.modes import capped
from tests.support.fleet import spec


@pytest.mark.parametrize(
    ("written", "most", "tuning", "scaling"),
    [
        ({"scaling": {"maxReplicas": 3}}, Mode.AUTO, Mode.AUTO, Mode.AUTO),
        ({"scaling": {"maxReplicas": 3}}, Mode.RECOMMEND, Mode.RECOMMEND, Mode.RECOMMEND),
        ({"scaling": {"maxReplicas": 3}}, Mode.OFF, Mode.OFF, Mode.OFF),
        ({}, Mode.AUTO, Mode.AUTO, Mode.RECOMMEND),
        ({"tuning": {"mode": "Off"}}, Mode.RECOMMEND, Mode.OFF, Mode.RECOMMEND),
    ],
)
def test_no_mode_exceeds_the_installation(
    written: dict[str, object], most: Mode, tuning: Mode, scaling: Mode
) -> None:
    found = capped(spec(**written), most)
    assert (found.tuning.mode, found.scaling.effective_mode) == (tuning, scaling)
