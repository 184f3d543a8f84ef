"""Stretches of loads, on which pacing and a plain budget are compared."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bench.conformance.loads import loads
from bench.conformance.pacing import STRETCHES
from bench.conformance.stretch import Stretch
from paceline_operator.simulator.fleet.faults import StepsSlower
from tests.bench.conformance.tiny_case import tiny


def test_a_stretch_is_the_load_from_one_second_to_another() -> None:
    case = tiny()
    stretch = Stretch("tiny", 20.0, 50.0)
    whole = list(case.play(random.Random(3)))
    cut = list(stretch.of(case).play(random.Random(3)))
    expected = [each for each in whole if 20.0 <= each.arrival_s < 50.0]
    assert expected
    assert cut == [replace(each, arrival_s=each.arrival_s - 20.0) for each in expected]
    assert stretch.of(case).duration_s == 30.0


def test_faults_and_the_step_move_with_it() -> None:
    slower = StepsSlower(start_s=40.0, end_s=60.0, factor=1.5)
    case = replace(tiny(), faults=(slower,), steps_up_at_s=(30.0,))
    cut = Stretch("tiny", 20.0, 50.0).of(case)
    assert cut.faults == (replace(slower, start_s=20.0, end_s=40.0),)
    assert cut.steps_up_at_s == (10.0,)


@pytest.mark.parametrize("text", ["step", "step:5", "step:a-b", "step-5:6"])
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no stretch of a load|could not convert"):
        Stretch.read(text)


def test_the_usual_stretches_lie_in_their_loads() -> None:
    known = {each.name: each for each in loads(None)}
    for text in STRETCHES:
        stretch = Stretch.read(text)
        assert 0 <= stretch.from_s < stretch.to_s <= known[stretch.load].duration_s
