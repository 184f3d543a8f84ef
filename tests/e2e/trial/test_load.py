"""The load is the same for the generator and for the simulator."""

from __future__ import annotations

import pytest

from e2e.trial.load import FULL, SHORT, Stages, plan_of

ALL = [FULL.direct, FULL.by_prometheus, SHORT.direct, SHORT.by_prometheus]


@pytest.mark.parametrize("stages", ALL)
def test_stages_follow_each_other_to_the_end_and_beyond(stages: Stages) -> None:
    plan = plan_of(stages)
    assert plan.duration_s == stages.length_s + stages.spare_s
    assert [phase.name for phase in plan.phases][: len(stages.levels)] == [
        name for name, _, _ in stages.levels
    ]
    assert stages.judged_s <= stages.length_s


@pytest.mark.parametrize("stages", [FULL.direct, SHORT.direct])
def test_load_goes_on_for_the_faults(stages: Stages) -> None:
    last = plan_of(stages).phases[-1]
    assert (last.name, last.from_s) == ("faults", stages.judged_s)


def test_the_full_load_is_a_quarter_of_an_hour_that_two_cores_carry() -> None:
    """1,500 streamed tokens a second are what the machine carries, client included."""
    assert FULL.direct.length_s == 900.0
    plan = plan_of(FULL.direct)
    for phase in plan.phases:
        inside = [r for r in plan.requests if phase.from_s <= r.offset_s < phase.to_s]
        assert sum(r.max_tokens for r in inside) / (phase.to_s - phase.from_s) < 750
