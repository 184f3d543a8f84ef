"""What holds for any engine, load, objective and cold start."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from math import isfinite

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from paceline_operator.autopilot import pilot
from paceline_operator.autopilot.vocabulary.decision import Action, Knob
from paceline_operator.autopilot.vocabulary.fleet import DataClass
from paceline_operator.autopilot.vocabulary.memory import dump_memory, load_memory
from paceline_operator.simulator.fleet.faults import Fault, ScrapesLost
from paceline_operator.simulator.law import StepLaw
from paceline_operator.simulator.loads.rates import Constant, Piecewise, Segment
from tests.operator.simulator.scenario import Run, Service, chat, lengths, play

SETTLE_S, LENGTH_S = 800.0, 1100.0
"""Two cold starts of 150 s, the down window, and three scale-ins a minute apart."""
MOST_KNOB_MOVES = 24
"""Of the live knob within an hour: three for each of the eight parts that a load may have here. A
loop that looks every 10 s could make 360; those seen make three."""
PACINGS = pytest.mark.parametrize("is_paced", [True, False])
few = settings(
    max_examples=4,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink a run of minutes takes hours
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def laws(draw: st.DrawFn) -> StepLaw:
    """From a 70B model on four A100 to something four times as slow."""
    return StepLaw(
        base_ms=draw(st.floats(15.0, 80.0)),
        per_prefill_token_ms=draw(st.floats(0.2, 0.8)),
        per_decode_row_ms=draw(st.floats(0.2, 1.0)),
        per_kv_token_ms=draw(st.sampled_from([0.0, 0.0003])),
    )


@st.composite
def services(draw: st.DrawFn) -> Service:
    """Objectives that one request alone meets with room."""
    law = draw(laws())
    alone_ms = 4 * law.base_ms + 4000 * law.per_prefill_token_ms
    floor_ms = law.step_ms(176, 32, 30_000, 0)
    return Service(
        law=law,
        ttft_ms=round(alone_ms * draw(st.floats(1.5, 4.0))),
        itl_ms=round(floor_ms * draw(st.floats(1.6, 4.0))),
        max_num_seqs=draw(st.sampled_from([64, 128])),
        replicas=draw(st.integers(1, 3)),
        most=8,
        cold_start_s=draw(st.sampled_from([15.0, 60.0, 150.0])),
    )


def most_rps(service: Service, prompt: float) -> float:
    """What four replicas carry, about."""
    law = service.config().engine.law
    return 4 * 0.7 * 1e3 / (prompt * law.per_prefill_token_ms * 1.3)


def check(run: Run) -> None:
    """Whatever was asked."""
    assert run.result.cut == 0
    assert all(isfinite(figure) for figure in run.figures())
    for moment in run.moments():
        lowered = [d for d in moment.decisions(Knob.REPLICAS) if d.action is Action.SCALE_IN]
        assert not (lowered and moment.tick.data is DataClass.ABSENT)
    # One way and back within ten minutes, at most; a move inwards a minute, outwards few.
    assert run.most_moves(Knob.REPLICAS, 3600.0) <= 60
    # Steps of the load turn replicas too; with one budget for all steps capacity hangs on it.
    assert run.reversals(Knob.REPLICAS) <= (2 if is_paced(run) else 3)
    live = Knob.STEP_TIME if is_paced(run) else Knob.BUDGET
    assert run.most_moves(live, 3600.0) <= MOST_KNOB_MOVES
    assert run.reversals(live) <= 3
    remembers(run)


def is_paced(run: Run) -> bool:
    """Whether its engines size each step by themselves."""
    return run.service.law_policy().is_paced


def by(service: Service, *, is_paced: bool) -> Service:
    """The service with one of the two pacings."""
    return replace(service, policy={**service.policy, "is_paced": is_paced})


def remembers(run: Run) -> None:
    """A process that took over from the status, at any tick, says the same."""
    policy = run.service.law_policy()
    pairs = list(zip(run.law.moments, run.law.moments[1:], strict=False))
    for before, after in random.Random(1).sample(pairs, min(6, len(pairs))):
        kept = load_memory(json.loads(json.dumps(dump_memory(before.tick.memory))))
        assert kept == before.tick.memory
        again = pilot.step(policy, after.seen, kept, after.seen.now_s)
        assert again == after.tick


@PACINGS
@few
@given(
    service=services(),
    share=st.floats(0.1, 0.8),
    prompt=st.sampled_from([400, 1600]),
    seed=st.integers(0, 1000),
)
def test_constant_load_ends_in_a_fixed_point(
    service: Service, share: float, prompt: int, seed: int, *, is_paced: bool
) -> None:
    rps = share * most_rps(service, prompt)
    assume(rps < 6.0)
    # Without chance: requests that are alike, as far apart as each other.
    alike = lengths(prompt, 20, sigma=0.0, spread=0.0)
    load = chat(Constant(rps=rps, duration_s=LENGTH_S), alike, dispersion=1e-4)
    run = play(by(service, is_paced=is_paced), load, seed=seed)
    assert [m for knob in Knob for m in run.moves(knob, SETTLE_S)] == []
    check(run)


@st.composite
def rates(draw: st.DrawFn, most: float) -> Piecewise:
    """Steps, ramps, bursts and nothing at all."""
    parts = draw(
        st.lists(
            st.tuples(st.sampled_from([10.0, 45.0, 120.0, 240.0]), st.floats(0.0, 1.0)),
            min_size=3,
            max_size=8,
        )
    )
    segments, rate = [], parts[0][1] * most
    for length_s, level in parts:
        is_ramp = draw(st.booleans())
        segments.append(Segment(length_s, rate if is_ramp else level * most, level * most))
        rate = level * most
    return Piecewise(parts=tuple(segments))


@PACINGS
@few
@given(data=st.data(), service=services(), seed=st.integers(0, 1000))
def test_any_load(data: st.DataObject, service: Service, seed: int, *, is_paced: bool) -> None:
    most = most_rps(service, 800)
    assume(most < 8.0)
    shape = data.draw(rates(1.5 * most))
    start_s = data.draw(st.floats(0.0, shape.duration_s))
    faults: list[Fault] = [
        ScrapesLost(start_s=start_s, end_s=start_s + data.draw(st.sampled_from([0.0, 40.0, 400.0])))
    ]
    load = chat(shape, lengths(800, 20, most=4000))
    run = play(by(service, is_paced=is_paced), load, faults=faults, seed=seed)
    check(run)
