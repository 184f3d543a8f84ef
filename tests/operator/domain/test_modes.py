from __future__ import annotations

import pytest

from paceline_operator.api.choice import Mode
from paceline_operator.autopilot.vocabulary.decision import Knob
from paceline_operator.domain.modes import capped, lowered
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


@pytest.mark.parametrize(
    ("written", "most", "knobs"),
    [
        ({"scaling": {"maxReplicas": 3}}, Mode.AUTO, set()),
        ({"scaling": {"maxReplicas": 3}}, Mode.RECOMMEND, {Knob.BUDGET, Knob.REPLICAS}),
        ({}, Mode.RECOMMEND, {Knob.BUDGET}),
        ({"tuning": {"mode": "Recommend"}}, Mode.RECOMMEND, set()),
        ({"tuning": {"mode": "Recommend"}}, Mode.OFF, {Knob.BUDGET, Knob.REPLICAS}),
    ],
)
def test_tells_which_knobs_get_less_than_asked_for(
    written: dict[str, object], most: Mode, knobs: set[Knob]
) -> None:
    assert lowered(spec(**written), most) == knobs
