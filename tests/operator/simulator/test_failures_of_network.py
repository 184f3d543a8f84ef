"""Failure modes of what lies between engines and clients; see docs/failure-modes.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from typing_extensions import override

from paceline_operator.autopilot.knobs.margin import JUDGED_AFTER
from paceline_operator.autopilot.vocabulary.decision import Knob, Reason
from paceline_operator.autopilot.vocabulary.fleet import FleetObservation
from paceline_operator.autopilot.vocabulary.window import SloCounts, Window
from paceline_operator.simulator.controller import Orders
from paceline_operator.simulator.fleet.fleet_config import BEGIN_S
from paceline_operator.simulator.loads.rates import Constant
from tests.operator.simulator.scenario import Recorded, Service, chat, play

LATE_FROM_S, LATE_SHARE = 300.0, 0.2


class Delayed(Recorded):
    """Sees a fifth of all gaps late from a moment on, though steps take what they did."""

    @override
    def decide(self, fleet: FleetObservation, now_s: float) -> Orders:
        slices = tuple(map(_delayed, fleet.slices))
        return super().decide(replace(fleet, slices=slices), now_s)


def _delayed(window: Window) -> Window:
    if window.end_s - BEGIN_S < LATE_FROM_S:
        return window
    pods = {uid: replace(share, slo=_late(share.slo)) for uid, share in window.pods.items()}
    return replace(window, slo=_late(window.slo), pods=pods)


def _late(slo: Mapping[str, SloCounts]) -> dict[str, SloCounts]:
    bad = {key: LATE_SHARE * counts.total for key, counts in slo.items() if ":ITL@" in key}
    return {
        key: SloCounts(counts.total - bad[key], bad[key]) if key in bad else counts
        for key, counts in slo.items()
    }


@pytest.mark.parametrize("paced", [True, False], ids=["step time", "budget"])
def test_gaps_that_no_step_explains_move_no_knob(*, paced: bool) -> None:
    service = Service(replicas=4, policy={"is_paced": paced})
    load = chat(Constant(rps=1.2, duration_s=900.0))
    run = play(service, load, recorded=Delayed)
    settled_s = LATE_FROM_S + 180.0
    seen = run.moments(settled_s)
    margins = [moment.tick.memory.margin for moment in run.moments(LATE_FROM_S)]
    assert max(margins) <= margins[0] + JUDGED_AFTER + 0.02
    said = [d for m in seen for d in m.tick.decisions if d.knob is not Knob.REPLICAS]
    assert {each.reason for each in said} == {Reason.ITL_UNEXPLAINED}
    assert not [each for each in said if each.applied]
    as_usual = play(service, load)
    assert run.goodput(settled_s) >= as_usual.goodput(settled_s) - 0.005
